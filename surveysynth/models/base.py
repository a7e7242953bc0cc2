"""What a synthesizer is, and what passes between it and the rest of the house.

A model is three methods on two kinds of data.  :class:`Public` is what may be published: predictors, and survey weights
that follow from them.  :class:`Records` adds what is confidential.  ``fit`` draws parameters given the records,
``log_density`` says how likely each record is in each draw, from which the rest of the house computes every bound, and
``simulate`` makes a synthetic data set from one draw and from what is public.  What more a model can do, it says by its
base classes: :class:`Clustered`, :class:`Boundable`, :class:`Debiasable`, :class:`Portable`.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..choices import Clusters, Missing, MissingCategory
from ..design.formula import formula_columns
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import check_keywords, rows
from .draws import Draws, Sampler, Synthetic
from .predictors.groups import groups_of
from .predictors.model_matrix import Constants, numeric_columns, predictor_rows, with_unit_size
from .predictors.public_weights import public_weight, refuse_proportional
from .records import Public, Records

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK = 4_000_000  # log densities that are held at once


class Complete(ABCMeta):
    """Refuses a model that lacks something when it is made, and names all that it lacks."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the constructor, not of the method below."""
        _, *own = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
        return inspect.Signature(own)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:  # noqa: D102
        check_keywords(cls, named)
        lacking = [f"{name}{SIGNATURES.get(name, '()')}" for name in sorted(cls.__abstractmethods__)]
        made = None if lacking else super().__call__(*arguments, **named)
        if made is not None:
            lacking = [name for name in ("outcomes", "predictors", "measure") if not hasattr(made, name)]
        if lacking:
            raise InputError(f"the model {cls.__name__} lacks {', '.join(lacking)}; see surveysynth.Synthesizer")
        return made


SIGNATURES = {
    "fit": "(records, alpha, sampler) -> Draws",
    "log_density": "(records, draws) -> array (S, n)",
    "simulate": "(public, draw, rng) -> Synthetic",
}


R = TypeVar("R", bound=Records)


class Synthesizer(Generic[R], metaclass=Complete):
    """A model of outcomes, and of the survey weight where that is not public, given public predictors.

    A subclass says ``outcomes``, ``predictors`` and ``measure`` and defines three methods.  Everything else has a
    default.  :func:`surveysynth.check_model` proves that the three go together.

    Attributes
    ----------
    outcomes : tuple of str
        Columns that are synthesized.
    predictors : str
        Right-hand side of a formula of public columns, ``"1"`` for none.
    measure : str
        Scale of the density, as the report prints it: "log income", "count".

    Examples
    --------
    Every model is one:

    >>> isinstance(ss.FBS("salary ~ field"), ss.Synthesizer)
    True
    """

    outcomes: tuple[str, ...]
    predictors: str
    measure: str
    missing: Missing | MissingCategory = "fail"  # what a missing outcome does

    categorical: tuple[str, ...] = ()  # outcomes that are categories
    as_in_paper: bool = False  # a paper's setting where ours is another: it stays as it was published
    from_records: bool = False  # a synthetic value is drawn given the confidential one: no epsilon holds then

    @property
    def name(self) -> str:
        """Short name for reports."""
        return type(self).__name__

    @property
    def numeric(self) -> tuple[str, ...]:
        """The outcomes that are numbers."""
        return tuple(outcome for outcome in self.outcomes if outcome not in self.categorical)

    @property
    def models(self) -> tuple[Synthesizer[Any], ...]:
        """The models that it is made of, in sequence: itself."""
        return (self,)

    @property
    def predictor_columns(self) -> tuple[str, ...]:
        """The public columns that the formula names, sorted."""
        return formula_columns(self.predictors)

    def columns_of(self, made: Synthetic) -> dict[str, Any]:
        """The outcomes of a synthetic data set as columns, by name.

        Parameters
        ----------
        made : Synthetic
            By :meth:`simulate`.

        Returns
        -------
        dict of str to array (n,)
            Numbers, and labels of categories.
        """
        return dict(zip(self.numeric, made.outcomes.T, strict=True)) | dict(made.labels)

    @abstractmethod
    def fit(self, records: R, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw from the pseudo posterior: the prior times prod_i p(record i)^alpha_i.

        Parameters
        ----------
        records : Records
            As :meth:`prepare` gives them.
        alpha : float array (n,)
            Privacy weights, within 0 and 1.
        sampler : Sampler
            Engine, chains, numbers of draws, and the source of randomness.

        Returns
        -------
        Draws
            S draws of the parameters.
        """

    @abstractmethod
    def log_density(self, records: R, draws: Draws) -> Floats:
        """Log density of every record under every draw, normalized, on the scale of ``measure``.

        Parameters
        ----------
        records : Records
            As :meth:`prepare` gives them.
        draws : Draws
            S draws of the parameters.

        Returns
        -------
        float array (S, n)
            log p(y_i, log w_i | x_i, draw); -inf where a value is impossible.
        """

    @abstractmethod
    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set from one draw of the parameters, records in the order of the file.

        Parameters
        ----------
        public : Public
            What is public of the file: predictors, and weights where they are.
        draw : Draws
            One draw of the parameters, S = 1.
        rng : numpy.random.Generator
            Source of the randomness.

        Returns
        -------
        Synthetic
            Outcomes, and log weights where they are modelled.
        """

    # ---- defaults

    def simulations(
        self, records: R, draws: Draws, positions: Iterable[int], rng: np.random.Generator
    ) -> Iterator[Synthetic]:
        """Synthetic data sets from some draws; the model gets what is public, and nothing else.

        Unless it says that it draws from the records (``from_records``).

        Parameters
        ----------
        records : Records
            As :meth:`prepare` gives them.
        draws : Draws
            S draws of the parameters.
        positions : iterable of int
            Of the draws, from 0.
        rng : numpy.random.Generator
            Source of the randomness.

        Returns
        -------
        iterator of Synthetic
            A data set a draw, in the order of ``positions``.
        """
        given = records if self.from_records else records.public
        return (self.simulate(given, draws.subset([s]), rng) for s in positions)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Outcomes that are missing in some records of synthetic files: by default none."""
        return ()

    @property
    def computed_from_file(self) -> list[str]:
        """What else of the confidential file draws hang on, in sentences for the report."""
        return []

    def pilot(self) -> Synthesizer | None:
        """A relative of the model that fits the same records in no time, to start the tuning.

        Returns
        -------
        Synthesizer or None
            It takes the same records.
        """
        return None

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> R:  # fmt: skip
        """The records of a file, after the checks that belong to the model.

        Parameters
        ----------
        design : SurveyDesign
            The file.
        clusters : {"model", "ignore"}
            "ignore" leaves out effects of PSUs, and of strata that the predictors do not determine.
        mean_weight : float, optional
            A public number that weights are divided by, N / n; by default their mean, which every record moves.
        constants : mapping of str to mapping, optional
            Means, knots and the like of the formula's terms, from another file; by default from this one.
        unit : int array (n,), optional
            Units that epsilon protects, where they are several records: the log of their sizes becomes a predictor.

        Returns
        -------
        Records
            n of them: predictor rows, outcomes and log weights.

        Raises
        ------
        InputError
            Missing outcomes or predictors; outcomes that are no numbers; a formula that cannot be evaluated; PSUs or
            strata without ``clusters="ignore"``; what :meth:`check` refuses.
        ModelError
            A weight that is nearly public; an outcome that is nearly proportional to a size measure that is no
            predictor.
        """
        y = np.column_stack([present(design, outcome) for outcome in self.outcomes])
        X, row, columns = self.predictor_rows(design, clusters, constants)
        weights, log_w = self.survey_weights(design, X, row, mean_weight)
        X, row, columns = with_unit_size(X, row, columns, unit)
        y = y[:, 0] if y.shape[1] == 1 else y
        records = Records(X=X, row=row, columns=columns, public_weights=weights, y=y, log_w=log_w)
        self.check(records)  # type: ignore[arg-type]  # a model with records of its own prepares them itself
        return records  # type: ignore[return-value]

    def check(self, records: R) -> None:
        """Refuse values that do not suit the model; by default none.

        Parameters
        ----------
        records : Records
            As :meth:`prepare` gives them.

        Raises
        ------
        InputError, ModelError
            Such values.
        """

    def predictor_rows(
        self, design: SurveyDesign, clusters: Clusters, constants: Constants | None
    ) -> tuple[Floats, Codes, tuple[str, ...]]:
        """Distinct predictor rows, each record's, and their columns; groups to be modelled are refused.

        Parameters
        ----------
        design : SurveyDesign
            The file.
        clusters, constants
            As for :meth:`prepare`.

        Returns
        -------
        X : float array (G, K)
            The distinct rows.
        row : int array (n,)
            Each record's among them.
        columns : tuple of str
            K names.

        Raises
        ------
        InputError
            PSUs or strata that the predictors do not determine, under ``clusters="model"``.
        """
        X, row, columns = predictor_rows(design, self.predictors, None, constants)
        groups = groups_of(design, self.predictor_columns) if clusters == "model" else None
        if groups is not None:
            raise InputError(
                f"the design has {groups.describe()} that the predictors do not determine, and {self.name} has no "
                "effects of them: use FBS, put the strata into the formula, or say clusters='ignore', and standard "
                "errors from the synthetic files can be far too small"
            )
        return X, row, columns

    def survey_weights(
        self, design: SurveyDesign, X: Floats, row: Codes, mean_weight: float | None
    ) -> tuple[Floats | None, Floats | None]:
        """The survey weights where they are public, or else log(w / mean w).

        Parameters
        ----------
        design : SurveyDesign
            The file.
        X, row : float array (G, K), int array (n,)
            Of :meth:`predictor_rows`.
        mean_weight : float, optional
            As for :meth:`prepare`.

        Returns
        -------
        weights : float array (n,) or None
            Where they are public.
        log_w : float array (n,) or None
            Where they are not: log(w / mean w).

        Raises
        ------
        ModelError
            A weight that is nearly public, or an outcome that nearly determines it.
        """
        weights = public_weight(design, self.predictor_columns, X, row)
        if weights is not None:
            return weights, None
        refuse_proportional(design, self.numeric, X, row)
        return None, np.log(design.weights / (mean_weight or design.weights.mean()))

    def lipschitz(self, records: R, draws: Draws, unit: Codes | None = None, alpha: Floats | None = None) -> Floats:
        """Maximum over draws of |log p(record i | draw)|, or of its sum over the records of each unit.

        A bound is alpha times that.  Where effects of PSUs are integrated out, p is that of the
        record given the others of its PSU, under ``alpha`` (n,) (default: 1).

        Parameters
        ----------
        records : Records
            As :meth:`prepare` gives them.
        draws : Draws
            S draws of the parameters.
        unit : int array (n,), optional
            Units that epsilon protects, from 0, where they are several records.
        alpha : float array (n,), optional
            Privacy weights.

        Returns
        -------
        float array (n,) or (U,)
            Infinite where a density is 0 or infinite under some draw.
        """
        key = np.arange(records.n) if unit is None else unit
        out = np.empty(int(key.max()) + 1)
        for block in _blocks(key, draws.size):
            logs, (here, first) = (
                self.log_density(records.subset(block), draws),
                np.unique(key[block], return_index=True),
            )
            out[here] = np.abs(np.add.reduceat(logs, first, axis=1)).max(axis=0)
        return np.where(np.isfinite(out), out, np.inf)

    def log_ratio(self, records: R, before: Floats, after: Floats, draws: Draws) -> Floats:
        """Log pseudo likelihood under weights ``after`` less that under ``before``.

        Parameters
        ----------
        records : Records
            As :meth:`prepare` gives them.
        before, after : float array (n,)
            Privacy weights.
        draws : Draws
            S draws of the parameters.

        Returns
        -------
        float array (S,)
            Of every draw.
        """
        out = np.zeros(draws.size)
        for block in _blocks(np.arange(records.n), draws.size):
            here = block[after[block] != before[block]]
            if here.size == 0:
                continue
            out += self.log_density(records.subset(here), draws) @ (after - before)[here]
        return out

    def describe(self, public: Public) -> dict[str, Any]:
        """Public facts about the model, for the manifest.

        Parameters
        ----------
        public : Public
            What is public of the file.

        Returns
        -------
        dict of str to object
            As JSON takes them.
        """
        return {
            "method": self.name, "outcome": list(self.outcomes), "predictors": self.predictors,
            "transform": [self.measure],
            "weights": "public" if public.public_weights is not None else "synthesized",
        }  # fmt: skip

    @property
    def public_weight_text(self) -> str:
        """Why the weight is kept, in a sentence."""
        return PUBLIC_WEIGHT

    def assumptions(self, public: Public) -> list[str]:
        """What the model takes as given, in sentences, for the report.

        Parameters
        ----------
        public : Public
            What is public of the file.

        Returns
        -------
        list of str
            Sentences.
        """
        return [
            f"the model {self.name} was given by the agency; its density is that of: {self.measure}",
            *numeric_predictors_text(public),
            *([] if public.public_weights is None else [self.public_weight_text]),
        ]


DECLARED_WEIGHT = "the survey weight was declared public by the agency: it is kept, and only the outcome is modelled"
PUBLIC_WEIGHT = (
    "the survey weight is a function of the public predictors (found so on the file): it is public, it is "
    "kept, and only the outcome is modelled"
)


def numeric_predictors_text(public: Public) -> list[str]:
    """Which predictors enter as numbers, in a sentence; none where there are none."""
    numeric = numeric_columns(public.columns)
    return [f"numeric predictors enter as numbers, not as categories: {', '.join(numeric)}"] if numeric else []


def present(design: SurveyDesign, outcome: str) -> Floats:
    """An outcome, (n,), if it is a number and no value is missing (InputError)."""
    values = design.numeric(outcome)
    absent = np.isnan(values)
    if absent.any():
        raise InputError(
            f"outcome {outcome!r} is missing in {rows(absent)}; fill it in, or say missing='drop' to leave "
            "these records out (the report then says how many)"
        )
    return values


def _blocks(key: Codes, S: int) -> Iterator[Codes]:
    """Records in the order of their units, in blocks of whole units with about ``BLOCK`` log densities."""
    order = np.argsort(key, kind="stable")
    start = np.flatnonzero(np.diff(key[order], prepend=-1))
    most = max(BLOCK // S, 1)
    cuts = start[np.flatnonzero(np.diff(start // most, prepend=-1))]
    return (part for part in np.split(order, cuts[1:]) if part.size)


class Clustered(Synthesizer[R]):
    """A synthesizer that models effects of PSUs, and of strata that the predictors do not determine."""


class Boundable(Synthesizer[R]):
    """A synthesizer that can be fitted with every contribution clamped: for the censored mechanism."""

    def check_censored(self, records: R) -> None:
        """Refuse what cannot be fitted record by record under a clamp (ModelError); by default nothing."""

    @abstractmethod
    def censored(self, records: R, alpha: Floats, bound: float, sampler: Sampler) -> Draws:
        """Draw from the censored pseudo posterior: every alpha_i log p_i clamped to [-bound, bound].

        Hu, Williams & Savitsky (2025), eq. 3.6.
        """

    def uncensored(self, records: R, draws: Draws, positions: Sequence[int], bound: float) -> Draws:
        """Some draws of a censored fit, without what the clamp does to them.

        Raises
        ------
        InputError
            The model cannot say what the clamp does: the default.
        """
        raise InputError(f"{self.name} has no debias for the censored mechanism: use FBS or FBP, or leave debias out")

    def variance_factor(
        self, records: R, draws: Draws, positions: Sequence[int], bound: float, *, corrected: bool
    ) -> float | None:
        """How many times as variable the clamp makes means as files from some draws say; None where it is not known."""
        return None


class Debiasable(Synthesizer[R]):
    """A synthesizer that can correct its draws for what privacy weights do to them."""

    @abstractmethod
    def biased(self, records: R, unit: Codes | None) -> dict[str, bool]:
        """What privacy weights bias much, debias or not; and whether :meth:`debias_draws` can take that off."""

    @abstractmethod
    def debias_draws(
        self, records: R, draws: Draws, positions: Sequence[int], alpha: Callable[..., Floats],
        unit: Codes | None, rng: np.random.Generator, *, debias: bool,
    ) -> Draws:  # fmt: skip
        """Some draws, without what privacy weights do to what is :meth:`biased`.

        ``alpha`` is a function of risk; of units of several records also of their numbers of records.

        With ``debias`` without what they do to anything else, too.
        """


class Portable(Synthesizer[R]):
    """A synthesizer whose draws can be carried to another file with the same columns: for policies."""

    @abstractmethod
    def to_original_scale(self, records: R, draws: Draws) -> Draws:
        """The draws in terms that do not depend on the file: coefficients of predictors in their own units."""

    @abstractmethod
    def from_original_scale(self, records: R, draws: Draws) -> Draws:
        """The inverse of :meth:`to_original_scale`, for another file."""
