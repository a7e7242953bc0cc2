"""The base class of all models: the methods of a synthesizer, and the data that these methods take and return.

A model has three methods on two kinds of data.  :class:`Public` holds data that are released unchanged: predictors,
and the survey weights if they are public.  :class:`Records` adds confidential data.  ``fit`` draws parameters from the
posterior given the records, in which the density of record i is raised to the power of its privacy weight alpha_i,
from 0 to 1.  ``log_density`` returns the log density of each record for each of these draws.  The package computes
every Lipschitz bound from these log densities.  ``simulate`` makes a synthetic data set from one draw and from public
data.  A model with further abilities is a subclass of :class:`Clustered`, :class:`Boundable`, :class:`Debiasable` or
:class:`Portable`.

A unit is what epsilon protects: a single record, or all records of a person, household or enterprise.

Letters in shapes are numbers: n of records, S of posterior draws, U of units, K of columns of the model matrix, and G
of predictor rows.  The predictor rows are the distinct rows of the model matrix.
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
from ..errors import InputError, Obstacles
from ..validation import check_keywords
from .draws import Draws, Sampler, Synthetic
from .predictors.groups import groups_of
from .predictors.model_matrix import Constants, numeric_columns, predictor_rows, with_unit_size
from .predictors.public_weights import public_weight, refuse_proportional
from .records import Public, Records
from .scales.refusals import missing_outcome

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK = 4_000_000  # largest number of log densities in memory at a time


class Complete(ABCMeta):
    """Metaclass that refuses to make an incomplete model and names every missing method and attribute."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """Signature of the constructor of the model class."""
        _, *own = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
        return inspect.Signature(own)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:  # noqa: D102
        check_keywords(cls, named)
        absent = [f"{name}{SIGNATURES.get(name, '()')}" for name in sorted(cls.__abstractmethods__)]
        made = None if absent else super().__call__(*arguments, **named)
        if made is not None:
            absent = [name for name in ("outcomes", "predictors", "measure") if not hasattr(made, name)]
        if absent:
            raise InputError(f"the model {cls.__name__} lacks {', '.join(absent)}; see surveysynth.Synthesizer")
        return made


SIGNATURES = {
    "fit": "(records, alpha, sampler) -> Draws",
    "log_density": "(records, draws) -> array (S, n)",
    "simulate": "(public, draw, rng) -> Synthetic",
}


R = TypeVar("R", bound=Records)


class Synthesizer(Generic[R], metaclass=Complete):
    """A model of confidential outcomes and, unless the weight is public, of the survey weight, given predictors.

    A subclass sets ``outcomes``, ``predictors`` and ``measure`` and defines ``fit``, ``log_density`` and ``simulate``.
    Everything else has a default.  :func:`surveysynth.check_model` tests that the three methods describe the same
    model.

    Attributes
    ----------
    outcomes : tuple of str
        Columns that are synthesized.
    predictors : str
        Right-hand side of a formula of public columns.  ``"1"`` stands for no predictors.
    measure : str
        Scale of the density, as the report prints it: "log income", "count".

    Examples
    --------
    Every model of the package is a synthesizer:

    >>> isinstance(ss.FBS("salary ~ field"), ss.Synthesizer)
    True
    """

    outcomes: tuple[str, ...]
    predictors: str
    measure: str
    missing: Missing | MissingCategory = "fail"  # how a missing outcome is treated

    categorical: tuple[str, ...] = ()  # the categorical outcomes
    as_in_paper: bool = False  # whether the model follows a paper where the package's default differs
    from_records: bool = False  # whether synthetic values are drawn given confidential values; if so, no epsilon holds

    @property
    def name(self) -> str:
        """Short name of the model for reports.  By default, it is the name of the class."""
        return type(self).__name__

    @property
    def numeric(self) -> tuple[str, ...]:
        """Names of the numeric outcomes."""
        return tuple(outcome for outcome in self.outcomes if outcome not in self.categorical)

    @property
    def models(self) -> tuple[Synthesizer[Any], ...]:
        """The models of a sequence of models, in order, or this model alone if it is not a sequence."""
        return (self,)

    @property
    def predictor_columns(self) -> tuple[str, ...]:
        """The public columns that the formula names, sorted."""
        return formula_columns(self.predictors)

    def columns_of(self, made: Synthetic) -> dict[str, Any]:
        """Return the outcomes of a synthetic data set as columns, by name.

        Parameters
        ----------
        made : Synthetic
            A data set that :meth:`simulate` made.

        Returns
        -------
        dict of str to array (n,)
            By column name, the values of a numeric outcome or the labels of a categorical outcome.
        """
        return dict(zip(self.numeric, made.outcomes.T, strict=True)) | dict(made.labels)

    @abstractmethod
    def fit(self, records: R, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw parameters from the pseudo posterior: the prior times prod_i p(record i)^alpha_i.

        p(record i) is the density of record i, whose log is :meth:`log_density`.

        Parameters
        ----------
        records : Records
            Records made by :meth:`prepare`.
        alpha : float array (n,)
            Privacy weights, from 0 to 1.
        sampler : Sampler
            Engine, number of chains, numbers of draws, and the source of randomness.

        Returns
        -------
        Draws
            S draws of the parameters.
        """

    @abstractmethod
    def log_density(self, records: R, draws: Draws) -> Floats:
        """Compute the normalized log density of each record for each draw.

        The attribute ``measure`` names the scale of the density.

        Parameters
        ----------
        records : Records
            Records made by :meth:`prepare`.
        draws : Draws
            S draws of the parameters.

        Returns
        -------
        float array (S, n)
            log p(y_i, log w_i | x_i, draw), or log p(y_i | x_i, draw) if the weight is public.  It is -inf if record i
            is impossible under the draw.
        """

    @abstractmethod
    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set from one draw of the parameters, with the records in the order of the file.

        Parameters
        ----------
        public : Public
            Public data of the file: predictors, and weights if they are public.
        draw : Draws
            One draw of the parameters (S = 1).
        rng : numpy.random.Generator
            Source of the randomness.

        Returns
        -------
        Synthetic
            Outcomes, and survey weights: the public weights, or weights made by the model.
        """

    # ---- defaults

    def simulations(
        self, records: R, draws: Draws, positions: Iterable[int], rng: np.random.Generator
    ) -> Iterator[Synthetic]:
        """Make synthetic data sets from selected draws and from public data.

        A model with ``from_records`` also uses the confidential records.

        Parameters
        ----------
        records : Records
            Records made by :meth:`prepare`.
        draws : Draws
            S draws of the parameters.
        positions : iterable of int
            Positions of the selected draws, counted from 0.
        rng : numpy.random.Generator
            Source of the randomness.

        Returns
        -------
        iterator of Synthetic
            One data set for each draw, in the order of ``positions``.
        """
        given = records if self.from_records else records.public
        return (self.simulate(given, draws.subset([s]), rng) for s in positions)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Names of the outcomes that are missing in some records of synthetic files.  By default there are none."""
        return ()

    @property
    def computed_from_file(self) -> list[str]:
        """Sentences for the report that name constants of the model computed from the confidential file."""
        return []

    def pilot(self) -> Synthesizer | None:
        """Return a simpler model that is fitted to the same records in milliseconds, or None.

        The search for the scale c1 of the privacy weights starts from the scale that suits the simpler model.

        Returns
        -------
        Synthesizer or None
            The simpler model.  None means that there is no simpler model.
        """
        return None

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> R:  # fmt: skip
        """Check a file and return the records that the model needs.

        Parameters
        ----------
        design : SurveyDesign
            The file.
        clusters : {"model", "ignore"}
            Treatment of PSUs and strata that the predictors do not determine.  With "model", they have effects, and a
            model without such effects refuses the file.  With "ignore", they have no effects.
        mean_weight : float, optional
            A public number by which weights are divided: the population size over n.  By default, weights are divided
            by their mean, which depends on every record.
        constants : mapping of str to mapping, optional
            Constants of the formula's terms from another file, such as the mean in ``center(age)``.  By default, they
            are computed from this file.
        unit : int array (n,), optional
            Unit of each record, if epsilon protects units of several records.  The log of the unit's number of records
            becomes a predictor.

        Returns
        -------
        Records
            Predictor rows, outcomes and log weights of n records.

        Raises
        ------
        InputError
            Outcomes or predictors are missing; outcomes are not numbers; the formula cannot be evaluated; the design
            has PSUs or strata that the predictors do not determine, the model has no effects of them, and ``clusters``
            is not "ignore"; or :meth:`check` refuses the values.
        ModelError
            The weight is nearly a function of public data, so its density is nearly unbounded.  Or an outcome is nearly
            proportional to the inclusion probability, so totals of synthetic files would be far less accurate than
            those of the sample.
        """
        y = np.column_stack([present(design, outcome) for outcome in self.outcomes])
        X, row, columns = self.predictor_rows(design, clusters, constants)
        weights, log_w = self.survey_weights(design, X, row, mean_weight)
        X, row, columns = with_unit_size(X, row, columns, unit)
        y = y[:, 0] if y.shape[1] == 1 else y
        records = Records(X=X, row=row, columns=columns, public_weights=weights, y=y, log_w=log_w)
        self.check(records)  # type: ignore[arg-type]  # a model with records of its own prepares them itself
        return records  # type: ignore[return-value]

    def note_obstacles(self, design: SurveyDesign, clusters: Clusters, wrong: Obstacles) -> None:
        """Add to ``wrong`` the error messages with which :meth:`prepare` would refuse the file.

        This method is used after another check has failed, so that one message lists all errors.

        Parameters
        ----------
        design : SurveyDesign
            The file.
        clusters : {"model", "ignore"}
            See :meth:`prepare`.
        wrong : Obstacles
            The collection to which the error messages are added.
        """
        wrong.check(self.check_outcomes, design)
        rows = wrong.check(self.predictor_rows, design, clusters, None)
        if rows is None:
            rows = wrong.check(self.predictor_rows, design, "ignore", None)
        if rows is not None:
            wrong.check(self.survey_weights, design, *rows[:2], None)

    def check_outcomes(self, design: SurveyDesign) -> None:
        """Refuse numeric outcomes that have missing values or are not numbers.

        Parameters
        ----------
        design : SurveyDesign
            The file.

        Raises
        ------
        InputError
            A numeric outcome has missing values or is not a number.
        """
        wrong = Obstacles()
        for outcome in self.numeric:
            wrong.check(present, design, outcome)
        wrong.refuse()

    def check(self, records: R) -> None:
        """Refuse values that the model does not allow.  By default, all values are allowed.

        Parameters
        ----------
        records : Records
            Records made by :meth:`prepare`.

        Raises
        ------
        InputError, ModelError
            Some values are not allowed.
        """

    def predictor_rows(
        self, design: SurveyDesign, clusters: Clusters, constants: Constants | None
    ) -> tuple[Floats, Codes, tuple[str, ...]]:
        """Return the distinct rows of the model matrix, the position of each record's row, and the column names.

        Parameters
        ----------
        design : SurveyDesign
            The file.
        clusters, constants
            See :meth:`prepare`.

        Returns
        -------
        X : float array (G, K)
            The distinct rows.
        row : int array (n,)
            Position in ``X`` of each record's row.
        columns : tuple of str
            Names of the K columns.

        Raises
        ------
        InputError
            The predictors do not determine the PSU or stratum of a record, and ``clusters`` is "model".  This model has
            no effects of PSUs and strata, and without them standard errors from synthetic files can be far too small.
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
        """Return the survey weights if they are public, and log(w / mean w) if they are not.

        Parameters
        ----------
        design : SurveyDesign
            The file.
        X, row : float array (G, K), int array (n,)
            Predictor rows, and the position in ``X`` of each record's row, from :meth:`predictor_rows`.
        mean_weight : float, optional
            See :meth:`prepare`.

        Returns
        -------
        weights : float array (n,) or None
            The weights, or None if they are not public.
        log_w : float array (n,) or None
            log(w / mean w), or None if the weights are public.

        Raises
        ------
        ModelError
            The weight is nearly a function of public data, or an outcome is nearly proportional to the inclusion
            probability; see :meth:`prepare`.
        """
        weights = public_weight(design, self.predictor_columns, X, row)
        if weights is not None:
            return weights, None
        refuse_proportional(design, self.numeric, X, row)
        return None, np.log(design.weights / (mean_weight or design.weights.mean()))

    def lipschitz(self, records: R, draws: Draws, unit: Codes | None = None, alpha: Floats | None = None) -> Floats:
        """Compute, for each record i, the maximum over all draws of |log p(record i | draw)|.

        With ``unit``, log p is first summed over the records of each unit.  The Lipschitz bound of a record or unit is
        its privacy weight times this maximum.  If effects of PSUs are integrated out, p is the density of the record
        given the other records of its PSU, and it depends on the privacy weights ``alpha`` of the PSU's records.

        Parameters
        ----------
        records : Records
            Records made by :meth:`prepare`.
        draws : Draws
            S draws of the parameters.
        unit : int array (n,), optional
            Unit of each record, numbered from 0, if epsilon protects units of several records.
        alpha : float array (n,), optional
            Privacy weights, used only if effects of PSUs are integrated out.  The default is 1 for every record.

        Returns
        -------
        float array (n,), or (U,) with ``unit``
            The maximum of each record or unit.  It is infinite if the density is 0 or infinite in some draw.
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
        """Compute the change of each draw's log pseudo likelihood from privacy weights ``before`` to ``after``.

        The log pseudo likelihood is sum_i alpha_i log p(record i | draw).

        Parameters
        ----------
        records : Records
            Records made by :meth:`prepare`.
        before, after : float array (n,)
            Two sets of privacy weights alpha.
        draws : Draws
            S draws of the parameters.

        Returns
        -------
        float array (S,)
            For each draw, the log pseudo likelihood under ``after`` minus the log pseudo likelihood under ``before``.
        """
        out = np.zeros(draws.size)
        for block in _blocks(np.arange(records.n), draws.size):
            here = block[after[block] != before[block]]
            if here.size == 0:
                continue
            out += self.log_density(records.subset(here), draws) @ (after - before)[here]
        return out

    def describe(self, public: Public) -> dict[str, Any]:
        """Return public facts about the model, for the manifest of a release.

        Parameters
        ----------
        public : Public
            Public data of the file.

        Returns
        -------
        dict of str to object
            Facts by name (method, outcome, predictors, scale, treatment of the weight), which can be written as JSON.
        """
        return {
            "method": self.name, "outcome": list(self.outcomes), "predictors": self.predictors,
            "transform": [self.measure],
            "weights": "public" if public.public_weights is not None else "synthesized",
        }  # fmt: skip

    @property
    def public_weight_text(self) -> str:
        """A sentence for the report that says why the original survey weight is released."""
        return PUBLIC_WEIGHT

    def assumptions(self, public: Public) -> list[str]:
        """Return the assumptions of the model, as sentences for the report.

        Parameters
        ----------
        public : Public
            Public data of the file.

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
    """Return a list with one sentence that names the numeric predictors.  Without any, return an empty list."""
    numeric = numeric_columns(public.columns)
    return [f"numeric predictors enter as numbers, not as categories: {', '.join(numeric)}"] if numeric else []


def present(design: SurveyDesign, outcome: str) -> Floats:
    """Return the values (n,) of the numeric outcome named ``outcome``.  Raise InputError if a value is missing."""
    values = design.numeric(outcome)
    absent = np.isnan(values)
    if absent.any():
        raise missing_outcome(outcome, absent)
    return values


def _blocks(key: Codes, S: int) -> Iterator[Codes]:
    """Return the record positions in blocks, each with about ``BLOCK`` log densities (records times ``S`` draws).

    ``key`` (n,) is the unit of each record.  All records of a unit are in the same block.
    """
    order = np.argsort(key, kind="stable")
    start = np.flatnonzero(np.diff(key[order], prepend=-1))
    most = max(BLOCK // S, 1)
    cuts = start[np.flatnonzero(np.diff(start // most, prepend=-1))]
    return (part for part in np.split(order, cuts[1:]) if part.size)


class Clustered(Synthesizer[R]):
    """A synthesizer with effects of PSUs and strata.  PSUs or strata that the predictors determine have no effects."""


class Boundable(Synthesizer[R]):
    """A synthesizer that can be fitted under the censored mechanism, with a clamped log likelihood of each record.

    This mechanism clamps the contribution of each record i to the log pseudo likelihood, alpha_i log p(record i), to
    the interval from -bound to bound (Hu, Williams & Savitsky 2025, eq. 3.6).
    """

    def check_censored(self, records: R) -> None:
        """Raise ModelError if the model cannot be fitted to these records under the censored mechanism.

        By default, it can be fitted to all records.
        """

    @abstractmethod
    def censored(self, records: R, alpha: Floats, bound: float, sampler: Sampler) -> Draws:
        """Draw parameters from the censored pseudo posterior.

        In this posterior, alpha_i log p(record i) of each record is clamped to [-bound, bound] (Hu, Williams & Savitsky
        2025, eq. 3.6).  ``alpha`` (n,) are the privacy weights.
        """

    def uncensored(self, records: R, draws: Draws, positions: Sequence[int], bound: float) -> Draws:
        """Return selected draws of a censored fit, corrected for the bias that the clamp causes.

        ``positions`` are those of the selected draws.  In the fit, all privacy weights were 1, and the log density of
        each record was clamped to [-bound, bound].

        Raises
        ------
        InputError
            The model has no such correction.  This is the default.
        """
        raise InputError(f"{self.name} has no debias for the censored mechanism: use FBS or FBP, or leave debias out")

    def variance_factor(
        self, records: R, draws: Draws, positions: Sequence[int], bound: float, *, corrected: bool
    ) -> float | None:
        """Return the true variance of a mean, divided by the variance estimated from synthetic files of a censored fit.

        With ``corrected``, the files come from draws that :meth:`uncensored` corrected.  ``positions`` are the released
        draws, and ``bound`` is the clamp.  None means that the ratio is unknown, which is the default.
        """
        return None


class Debiasable(Synthesizer[R]):
    """A synthesizer whose draws can be corrected for the bias that privacy weights cause."""

    @abstractmethod
    def biased(self, records: R, unit: Codes | None) -> dict[str, bool]:
        """Return quantities that privacy weights bias strongly, and whether each is corrected even without ``debias``.

        The keys are names, for example "the spread between PSUs".  The value is True if :meth:`debias_draws` corrects
        the quantity even without ``debias``, and False otherwise.  ``unit`` (n,) is the unit of each record, or None if
        each record is a unit.
        """

    @abstractmethod
    def debias_draws(
        self, records: R, draws: Draws, positions: Sequence[int], alpha: Callable[..., Floats],
        unit: Codes | None, rng: np.random.Generator, *, debias: bool,
    ) -> Draws:  # fmt: skip
        """Return the draws at ``positions``, corrected for the bias that privacy weights cause.

        Quantities that are True in :meth:`biased` are always corrected.  All others are corrected only with ``debias``.
        ``alpha`` is the function that gives the privacy weights (U,) of units from their risks (U,).  The risk is the
        maximum from :meth:`Synthesizer.lipschitz`.  If units have several records, the second argument of ``alpha`` is
        the number of records (U,) of each unit.
        """


class Portable(Synthesizer[R]):
    """A synthesizer whose draws can be used on another file with the same columns.

    A policy needs such a model.  A policy is a choice of the model and of the privacy weights that is made from a
    historical file for releases of later files.
    """

    @abstractmethod
    def to_original_scale(self, records: R, draws: Draws) -> Draws:
        """Convert coefficients from the standardized predictors of ``records`` to predictors in original units.

        The standardization depends on the file.  The original units do not.
        """

    @abstractmethod
    def from_original_scale(self, records: R, draws: Draws) -> Draws:
        """Convert coefficients from predictors in original units to the standardized predictors of ``records``."""
