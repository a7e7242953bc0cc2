"""What a release holds: synthetic data sets, a privacy report, a manifest; and other releases that are made of it."""

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
MOST_LEVELS = 50  # tables are made by a predictor with more only if it is asked for


@dataclass(frozen=True)
class Contents:
    """What a release holds: :class:`surveysynth.Release` documents the fields."""

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
        """The public part, which is what a pickle or a copy holds."""
        again = "redrawn", "_redrawn_for_tables"  # made when they are needed
        kept = {name: value for name, value in vars(self).items() if name not in again}
        internal: dict[str, Any] = {"internal": {}, "privacy": replace(self.privacy, internal={})}
        return kept | internal | {"derived": dict.fromkeys(self.derived)}  # functions that no pickle can hold

    @classmethod
    def drawn_from(cls, measured: Source, m: int, seed: int | None = None) -> Self:
        """A release of m data sets from noisy tables, as :meth:`Measurements.release` makes it.

        Parameters
        ----------
        measured : Source
            The noisy tables, and the public columns.
        m : int
            An even number, at least 4.
        seed : int, optional
            Of the draws.

        Returns
        -------
        Release
            It spends what was measured, whatever m is.

        Raises
        ------
        InputError
            m is odd, below 4 or too large.
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
        """The release with m further data sets from the same measurements, at no more epsilon.

        Parameters
        ----------
        m : int
            An even number, at least 4.
        seed : int, optional
            Of their draws.

        Returns
        -------
        Release
            The data sets that there are, and m more.

        Raises
        ------
        InputError
            The release was not drawn from measurements; m is odd; columns were added to it, or weights calibrated.
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
        """The release with further columns in every data set, each computed record by record from the others.

        Post-processing of the published data, so the guarantee is the same, as long as the functions hold no
        confidential numbers.  Tables can be broken down by such columns and be of them; regressions, differences and
        written folders have them, too.

        Parameters
        ----------
        **functions
            ``poor=lambda f: f.income < 10_859``: new column and row-wise function of the frame of a data set; one may
            use the columns before it.

        Returns
        -------
        Release
            With the new columns among its data sets' and, in tables, among outcomes and ``by``.

        Raises
        ------
        InputError
            As :meth:`SurveyDesign.assign`.

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
        """The release with weights that add up to public totals: post-stratified, raked, or by regression (GREG).

        Post-processing of the published data, as long as the totals are public.  A calibration to
        strata that the release has already (``population_total={stratum: total}``) is replaced:
        name its margin again.

        Parameters
        ----------
        totals, distance, bounds
            As for :meth:`SurveyDesign.calibrate`; totals of predictors.

        Returns
        -------
        Release
            With calibrated weights in every data set.

        Raises
        ------
        InputError
            As :meth:`SurveyDesign.calibrate`; a margin that is not a predictor.

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
            if self.count_roles is not None:  # the other weights of the same file
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
    def _missing(self) -> str:
        """What a missing outcome does: "drop" leaves out records to which a question does not apply."""
        return "drop" if MISSING in self.method.get("elsewhere", {}).values() else "fail"

    @property
    def _missing_outcomes(self) -> Missing:
        """What a missing outcome does to tables, whose outcomes may apply to different records."""
        return "available" if self._missing == "drop" else "fail"

    @cached_property
    def redrawn(self) -> tuple[SurveyDesign, ...]:
        """The first data set as other noise in the tables would have made it; none where no tables were measured.

        That noise moves all data sets together, so the variance between them does not hold it: add the variance of an
        estimate over these to it, as :meth:`tables`, :meth:`differences` and :meth:`regression` do.
        """
        if self.measured is None:
            return ()
        return tuple(self._derived_again(design) for design in self.measured.redrawn(self.datasets[0]))

    @cached_property
    def _redrawn_for_tables(self) -> tuple[SurveyDesign, ...]:
        """As :attr:`redrawn`, but with a subset of the records where there are many."""
        if self.measured is None or not self.measured.is_large(self.datasets[0].n):
            return self.redrawn
        return tuple(self._derived_again(design) for design in self.measured.redrawn(self.datasets[0], subset=True))

    def _derived_again(self, design: SurveyDesign) -> SurveyDesign:
        """The design with its derived columns computed from its other columns."""
        if not self.derived:
            return design
        frame = design.frame.drop(columns=[*self.derived], errors="ignore")
        plain = SurveyDesign(frame, **design.roles(), labels=design.labels)
        return plain.assign(**{name: function for name, function in self.derived.items() if function is not None})

    @property
    def _labels(self) -> list[str]:
        """The outcomes and derived columns that are categories, True and False among them."""
        first = self.datasets[0]
        derived = [name for name in self.derived if is_label(first.column(name))]
        derived += [name for name in self.derived if pd.api.types.is_bool_dtype(first.column(name).dtype)]
        return [*self.categorical, *derived]

    def _preserved(self, by: str | Sequence[str] | None) -> list[str]:
        """The names, if all are predictors, categories that were synthesized, or derived (InputError)."""
        names, known = as_list(by), (*self.predictors, *self.categorical, *self.derived)
        for name in names:
            if name not in known:
                raise InputError(
                    f"by={name!r} is not a predictor of this release, so it was not preserved; tables can be broken "
                    f"down by {', '.join(known) or 'nothing'}"
                )
        return names

    def _synthesized(self, outcome: str | Sequence[str] | None) -> list[str]:
        """The outcomes and derived columns asked for, or all outcomes (InputError: one is neither)."""
        outcomes, known = as_list(outcome) or list(self.outcomes), (*self.outcomes, *self.derived)
        for name in outcomes:
            if name not in known:
                raise InputError(f"outcome {name!r} was not synthesized; the outcomes are {', '.join(known)}")
        return outcomes

    def _check_functions(self, columns: Sequence[str]) -> None:
        """Refuse derived columns that cannot be computed again where standard errors need that (InputError)."""
        for name in columns:
            if self.measured is not None and name in self.derived and self.derived[name] is None:
                raise InputError(
                    f"standard errors need the function of {name!r}, which a written release does not hold, nor one "
                    "that was updated in R: assign() it again under another name, or use combine_release() in R"
                )

    def count_designs(self) -> tuple[SurveyDesign, ...]:
        """The data sets as counts are estimated from them: their own design, or FBP's with its smoothed weights.

        Returns
        -------
        tuple of SurveyDesign
            One a data set; of most models the data sets themselves.
        """
        if self.count_roles is None:
            return self.datasets
        return tuple(SurveyDesign(d.frame, **self.count_roles, labels=d.labels) for d in self.datasets)

    def table_predictors(self) -> list[str]:
        """The predictors that tables are made by unless told: discrete ones, at most three.

        Returns
        -------
        list of str
            In the order of the formula.
        """
        frame = self.datasets[0].frame
        discrete = [
            c
            for c in self.predictors
            if not pd.api.types.is_float_dtype(frame[c].dtype) and frame[c].nunique() <= MOST_LEVELS
        ]
        return discrete[:3]

    @property
    def entered_before(self) -> bool:
        """Whether it was entered in a ledger."""
        return "ledger" in self.method or self._entered

    def manifest(self) -> dict[str, Any]:
        """What a reader needs to know about the files, without anything confidential and without a seed.

        Returns
        -------
        dict
            As ``manifest.json`` has it, but for the files.
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


def check_m(m: int) -> int:
    """The number of data sets, if it is even and at least 4, as draws from measurements need it (InputError)."""
    whole(m, "m", MOST_DATASETS)
    if m % PAIR or m < 2 * PAIR:
        raise InputError(f"m = {m}: data sets come in pairs, so say an even number from 4 on; it costs no epsilon")
    return m


def kept_columns(release: Contents) -> list[str]:
    """The columns that the files have as they were collected."""
    design = release.datasets[0]
    weight = [str(design.weights_name)] if release.method["weights"] == "public" else []
    return list(dict.fromkeys([*release.predictors, *design.fpc_names, *weight]))
