"""The contents of a release (data sets, privacy report, manifest), and methods that make a new release from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from ..design.calibration import Bounds, Distance, Totals, title
from ..design.derived import RowWise
from ..design.discrete import is_label
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..estimation.quantities import Missing
from ..expenses import Expense
from ..models.sequential import MISSING
from ..privacy.report import PUBLIC_SUM, SUM_OF_WEIGHTS, PrivacyReport
from ..validation import as_list, check_seed, whole
from .manifest import FORMAT, types_of, without_none
from .source import PAIR, Source

MOST_DATASETS = 1_000
MOST_LEVELS = 50  # a predictor with more levels is not among the default variables of tables


@dataclass(frozen=True)
class Contents:
    """The contents of a release.  :class:`surveysynth.Release` documents the fields."""

    datasets: tuple[SurveyDesign, ...]
    privacy: PrivacyReport
    predictors: tuple[str, ...]
    outcomes: tuple[str, ...]
    method: dict[str, Any]
    internal: dict[str, Any] = field(default_factory=dict, repr=False)
    categorical: tuple[str, ...] = ()
    count_roles: dict[str, Any] | None = None
    derived: dict[str, RowWise | None] = field(default_factory=dict, repr=False)
    rests_on: tuple[Expense, ...] = field(default=(), repr=False)
    measured: Source | None = field(default=None, repr=False)
    _entered: ClassVar[bool] = False  # becomes True when write() enters the release in a ledger

    def __getstate__(self) -> dict[str, Any]:
        """Return the public part of the release, which is the only part that is pickled or copied."""
        again = "redrawn", "_redrawn_for_tables"  # computed again when needed
        kept = {name: value for name, value in vars(self).items() if name not in again}
        internal: dict[str, Any] = {"internal": {}, "privacy": replace(self.privacy, internal={})}
        return kept | internal | {"derived": dict.fromkeys(self.derived)}  # functions cannot be pickled

    @classmethod
    def drawn_from(cls, measured: Source, m: int, seed: int | None = None) -> Self:
        """Draw a release of m data sets from noisy tables.  :meth:`Measurements.release` calls this method.

        Parameters
        ----------
        measured : Source
            The noisy tables, and the public columns.
        m : int
            Number of data sets, even and at least 4.
        seed : int, optional
            Seed of the draws.

        Returns
        -------
        Release
            The release.  Its epsilon is the epsilon of the noisy tables, for any m.

        Raises
        ------
        InputError
            m is below 4 or too large, or odd, although two data sets come from each draw of the model's parameters; the
            seed is not a whole number.
        """
        check_m(m)
        check_seed(seed)
        tables, (datasets, rows) = measured.tables, measured.data_sets(m, np.random.default_rng(seed))
        return cls(
            datasets=datasets,
            privacy=measured.report(m),
            predictors=measured.predictors,
            outcomes=measured.outcomes,
            categorical=tuple(variable.name for variable in tables.outcomes if variable.cells.bins is None),
            method=measured.method(),
            internal={"rows": rows} | ({} if measured.kept is None else {"kept": measured.kept}),
            rests_on=(measured.expense, *measured.spent_before),
            measured=measured,
        )

    def more(self, m: int, *, seed: int | None = None) -> Self:
        """Add m data sets, drawn from the same noisy tables.  No more epsilon is spent.

        Parameters
        ----------
        m : int
            Number of additional data sets, even and at least 4.
        seed : int, optional
            Seed of the draws of the additional data sets.

        Returns
        -------
        Release
            The present data sets, followed by m new ones.

        Raises
        ------
        InputError
            The release was not drawn from noisy tables; m is odd, below 4 or too large; the release has columns of
            :meth:`assign` or weights of :meth:`calibrate`, which the new data sets would lack.
        """
        if self.measured is None:
            raise InputError("more() is for strict releases that were drawn from measurements")
        if self.derived or self.datasets[0].calibrated:
            raise InputError("ask for more() before columns are assigned or weights are calibrated")
        others = self.drawn_from(self.measured, m, seed)
        rows = [self.internal["rows"], others.internal["rows"]] if "rows" in self.internal else []
        return replace(
            self, datasets=(*self.datasets, *others.datasets), privacy=replace(self.privacy, m=self.m + m),
            internal=self.internal | ({"rows": np.concatenate(rows)} if rows else {}),
        )  # fmt: skip

    @property
    def m(self) -> int:
        """Number of synthetic data sets."""
        return len(self.datasets)

    def __repr__(self) -> str:
        p = self.privacy
        return (
            f"Release: m = {self.m} synthetic data sets of {self.datasets[0].n:,} records by {self.method['method']}, "
            f"outcomes {', '.join(self.outcomes)}, {p.spent}"
        )

    def assign(self, **functions: RowWise) -> Self:
        """Add columns to every data set, each computed record by record from other columns.

        A table can have such a column as its outcome or in ``by``.  Regressions, differences and written folders can
        also use the column.  The guarantee is unchanged as long as the functions contain no confidential numbers,
        because the columns are then computed from published data only.

        Parameters
        ----------
        **functions
            Each new column with a row-wise function of the frame of a data set:
            ``poor=lambda f: f.income < 10_859``.  A function may use the new columns defined before it.

        Returns
        -------
        Release
            The release with the new columns in its data sets.  Tables accept them as ``outcome`` and in ``by``.

        Raises
        ------
        InputError
            See :meth:`SurveyDesign.assign`; also, if the categories of a column differ between the data sets.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> high = release.assign(high=lambda f: f.salary > 150_000)
        >>> high.tables(by="gender", outcome="high", statistic="proportion")["category"].unique().tolist()
        ['False', 'True']
        """
        datasets = tuple(design.assign(**functions) for design in self.datasets)
        for name in functions:
            first, *others = (design.column(name).dtype for design in datasets)
            if isinstance(first, pd.CategoricalDtype) and any(other != first for other in others):
                raise InputError(
                    f"{name!r} has other categories in some of the data sets; name them all in its function: "
                    "pd.Categorical(values, categories)"
                )
        return replace(self, datasets=datasets, derived={**self.derived, **functions})

    def calibrate(self, totals: Totals, distance: Distance = "raking", bounds: Bounds | None = None) -> Self:
        """Calibrate the weights to public totals by post-stratification, raking or regression (GREG).

        The guarantee is unchanged as long as the totals are public, because only published data are processed.  If the
        weights of the release are calibrated already (``population_total={stratum: total}``), the new calibration
        replaces the old calibration.  To keep the old totals, include them in ``totals``.

        Parameters
        ----------
        totals, distance, bounds
            See :meth:`SurveyDesign.calibrate`.  The totals are of predictors, or of outcomes that are categories.

        Returns
        -------
        Release
            The release with calibrated weights in every data set.

        Raises
        ------
        InputError
            See :meth:`SurveyDesign.calibrate`; also, if the totals are of a numeric outcome, of a column of
            :meth:`assign`, or of an unknown column.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> calibrated = release.calibrate({"gender": {"female": 45_000, "male": 55_000}})
        >>> calibrated.tables(by="gender", statistic="count")[["gender", "estimate"]].round()
           gender  estimate
        0  female   45000.0
        1    male   55000.0
        2     all  100000.0
        """
        if isinstance(totals, Mapping):
            names = self._preserved([n for margin in totals for n in ([margin] if isinstance(margin, str) else margin)])
            for name in names:
                if name in self.derived:
                    raise InputError(f"totals are of predictors, and {name!r} was derived: calibrate before assign()")
        how, datasets, count_roles = (totals, distance, bounds), [], None
        for design in self.datasets:
            plain = {"poststrata": None, "auxiliary": None, "base_weights": None}
            labels = design.labels
            calibrated = SurveyDesign(design.frame, **design.roles() | plain, labels=labels).calibrate(*how)
            if self.count_roles is not None:  # FBP has a second column of weights, for counts
                counts = SurveyDesign(calibrated.frame, **self.count_roles | plain).calibrate(*how)
                calibrated = SurveyDesign(counts.frame, **calibrated.roles(), labels=labels)
                count_roles = counts.roles()
            datasets.append(calibrated)
        margins = ", ".join(title(margin).replace("'", "") for margin in totals)
        sentence = f"the population totals by {margins} were given by the agency as public: the weights add up to them"
        kept = [text for text in self.privacy.assumptions if text != PUBLIC_SUM]
        before = [text.split(": the synthetic weights add up to")[0] for text in kept]
        depends = [text for text in self.privacy.data_dependent if text != SUM_OF_WEIGHTS]
        privacy = replace(self.privacy, assumptions=[*before, sentence], data_dependent=depends)
        return replace(self, datasets=tuple(datasets), count_roles=count_roles, privacy=privacy)

    @property
    def with_missing(self) -> list[str]:
        """Numeric outcomes that may be missing: nobody answered, or the question was not asked."""
        unasked = [name for name, value in self.method.get("elsewhere", {}).items() if value == MISSING]
        return list(dict.fromkeys([*self.method.get("missing", ()), *unasked]))

    @property
    def _missing(self) -> str:
        """Treatment of missing outcomes: "drop" if an outcome may be missing, else "fail"."""
        return "drop" if self.with_missing else "fail"

    @property
    def _missing_outcomes(self) -> Missing:
        """Argument ``missing`` for tables: "available" if outcomes do not apply to all records, else "fail"."""
        return "available" if self._missing == "drop" else "fail"

    @cached_property
    def redrawn(self) -> tuple[SurveyDesign, ...]:
        """Simulated versions of the first data set, used to compute the variance due to noise in the noisy tables.

        Each version is simulated as if the noise in the tables had other values.  The tuple is empty for a release
        that was not drawn from noisy tables.  The noise affects all data sets alike, so the variance between data sets
        does not include the variance due to this noise.  To include it, add the variance of an estimate over these
        versions; :meth:`tables`, :meth:`differences` and :meth:`regression` do so.
        """
        if self.measured is None:
            return ()
        return tuple(self._derived_again(design) for design in self.measured.redrawn(self.datasets[0]))

    @cached_property
    def _redrawn_for_tables(self) -> tuple[SurveyDesign, ...]:
        """Versions of the first data set (see :attr:`redrawn`), with a subset of the records if there are many."""
        if self.measured is None or not self.measured.is_large(self.datasets[0].n):
            return self.redrawn
        return tuple(self._derived_again(design) for design in self.measured.redrawn(self.datasets[0], subset=True))

    def _derived_again(self, design: SurveyDesign) -> SurveyDesign:
        """Compute again the columns that :meth:`assign` added, from the other columns of a design."""
        if not self.derived:
            return design
        frame = design.frame.drop(columns=[*self.derived], errors="ignore")
        plain = SurveyDesign(frame, **design.roles(), labels=design.labels)
        return plain.assign(**{name: function for name, function in self.derived.items() if function is not None})

    @property
    def _labels(self) -> list[str]:
        """Names of categorical outcomes, and of categorical and boolean columns that :meth:`assign` added."""
        first = self.datasets[0]
        derived = [name for name in self.derived if is_label(first.column(name))]
        derived += [name for name in self.derived if pd.api.types.is_bool_dtype(first.column(name).dtype)]
        return [*self.categorical, *derived]

    def _preserved(self, by: str | Sequence[str] | None) -> list[str]:
        """Return the grouping columns ``by`` as a list.  Raise InputError for numeric outcomes and unknown columns."""
        names, known = as_list(by), (*self.predictors, *self.categorical, *self.derived)
        for name in names:
            if name not in known:
                raise InputError(
                    f"by={name!r} is not a predictor of this release, so it was not preserved; tables can be broken "
                    f"down by {', '.join(known) or 'nothing'}"
                )
        return names

    def _synthesized(self, outcome: str | Sequence[str] | None) -> list[str]:
        """Return names of outcomes as a list, by default those of all outcomes.

        Raise InputError for a name that is neither an outcome nor a column of :meth:`assign`.
        """
        outcomes, known = as_list(outcome) or list(self.outcomes), (*self.outcomes, *self.derived)
        for name in outcomes:
            if name not in known:
                raise InputError(f"outcome {name!r} was not synthesized; the outcomes are {', '.join(known)}")
        return outcomes

    def _check_functions(self, columns: Sequence[str]) -> None:
        """Raise InputError if standard errors need a function of :meth:`assign` that the release does not hold.

        They need it for a release from noisy tables, because the column is computed anew in the versions ``redrawn``.
        """
        for name in columns:
            if self.measured is not None and name in self.derived and self.derived[name] is None:
                raise InputError(
                    f"standard errors need the function of {name!r}, which a written release does not hold, nor one "
                    "that was updated in R: assign() it again under another name, or use combine_release() in R"
                )

    def count_designs(self) -> tuple[SurveyDesign, ...]:
        """Return the survey designs from which standard errors of counts are computed.

        Returns
        -------
        tuple of SurveyDesign
            Each data set, with the weights and other design roles in ``count_roles``.  If ``count_roles`` is None,
            these are the data sets themselves.
        """
        if self.count_roles is None:
            return self.datasets
        return tuple(SurveyDesign(d.frame, **self.count_roles, labels=d.labels) for d in self.datasets)

    def table_predictors(self) -> list[str]:
        """Return the default variables of tables: the first three discrete predictors with at most 50 levels.

        Returns
        -------
        list of str
            Names of predictors, in the order of the formula.
        """
        return discrete_predictors(self.datasets[0].frame, self.predictors)

    @property
    def entered_before(self) -> bool:
        """True if the release was entered in a ledger."""
        return "ledger" in self.method or self._entered

    def manifest(self) -> dict[str, Any]:
        """Return the public facts about the release.  Confidential numbers and seeds are not among them.

        Returns
        -------
        dict
            The content of ``manifest.json``, except for its list of files.
        """
        design = self.datasets[0]
        return {
            "format": FORMAT,
            **self.method,
            "synthesized": list(self.outcomes),
            **({"categorical": list(self.categorical)} if self.categorical else {}),
            **({"derived": list(self.derived)} if self.derived else {}),
            "public_predictors": list(self.predictors),
            **self.privacy.public(),
            "design": without_none(design.roles()),
            **({"count_design": without_none(self.count_roles)} if self.count_roles else {}),
            **({"labels": design.labels} if design.labels else {}),
            **({"rests_on": [asdict(each) for each in self.rests_on]} if self.rests_on else {}),
            **types_of(design.frame, (*self.predictors, *self.categorical, *self.derived), self.predictors),
        }


def discrete_predictors(frame: pd.DataFrame, predictors: Sequence[str]) -> list[str]:
    """Return the first three predictors that are discrete and have at most 50 levels, in the given order."""
    discrete = [
        c
        for c in predictors
        if not pd.api.types.is_float_dtype(frame[c].dtype) and frame[c].nunique() <= MOST_LEVELS
    ]
    return discrete[:3]


def check_m(m: int) -> int:
    """Check the number m of data sets to draw from noisy tables, and return it.

    Raise InputError unless m is even and at least 4: each draw of the model's parameters gives two data sets, and a
    variance between draws needs two draws.
    """
    whole(m, "m", MOST_DATASETS)
    if m % PAIR or m < 2 * PAIR:
        raise InputError(f"m = {m}: data sets come in pairs, so give an even number from 4 on; it costs no epsilon")
    return m


def kept_columns(release: Contents) -> list[str]:
    """List the columns that are published unchanged: predictors, finite population corrections, and a public weight."""
    design = release.datasets[0]
    weight = [str(design.weights_name)] if release.method["weights"] == "public" else []
    return list(dict.fromkeys([*release.predictors, *design.fpc_names, *weight]))
