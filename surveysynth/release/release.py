"""Release: m synthetic designs with their privacy report, and what is estimated from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.calibration import Bounds, Distance, Totals, title
from ..design.derived import RowWise, Where
from ..design.discrete import is_label
from ..design.survey_design import SurveyDesign
from ..errors import InputError, told_if_it_breaks_down
from ..estimation.any_estimator import Estimator, combined
from ..estimation.association import independence_tests
from ..estimation.design_effects import Deff
from ..estimation.differences import differences
from ..estimation.families import Family
from ..estimation.intervals import Interval, Method
from ..estimation.joint import JointEstimates, jointly
from ..estimation.margins import margins
from ..estimation.moments import correlations_of, covariances, deviations_of
from ..estimation.quantities import Missing, check_statistics, fitting
from ..estimation.regression import Regression, regressions
from ..estimation.tables import TOTAL, stacked, tabulate
from ..estimation.wald import Test
from ..expenses import Expense
from ..measuring.noisy_tables import WEIGHT
from ..models.sequential import MISSING
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..privacy.report import PUBLIC_SUM, SUM_OF_WEIGHTS, PrivacyReport
from ..publication.forms import check_suffix, write
from ..storage import as_path, discard
from ..validation import as_list, check_keywords, check_seed, positive, whole
from .folder import check_format, check_place, enter, read_folder, write_folder
from .manifest import manifest_of
from .printed import printed
from .source import PAIR, Source
from .suppression import flag

ENTERED = "this release was entered in a ledger when it was made, or written: leave ledger= out"
MOST_DATASETS = 1_000
MOST_LEVELS = 50  # a predictor with more is no variable for a table, unless it is asked for


@dataclass(frozen=True)
class Release:
    """m weighted synthetic data sets that may be published under a stated epsilon.

    Attributes
    ----------
    datasets : tuple of SurveyDesign
        Everything that works on a confidential design works on these.
    privacy : PrivacyReport
    predictors : tuple of str
        Public columns that tables can be broken down by.
    outcomes : tuple of str
        Synthesized columns.
    method : dict
        Public facts about the model, the package and the engine.
    internal : dict
        For the agency only; empty in a release that was read from its public files, pickled or copied.
        ``rows``, (m, n), says which row of the confidential file (from 0) each synthetic record stands for.
    categorical : tuple of str
        The outcomes that are categories: tables can be broken down by them, too.
    count_roles : dict, optional
        Design roles that give counts their standard errors, where they are not those of the
        data sets (FBP): the same counts, from weights that vary from record to record.
    rests_on : tuple of Expense
        All that was spent on the confidential file for these data sets, part by part: a part may be shared with other
        releases, and a ledger counts it once.
    measured : Source, optional
        The noisy tables that the data sets were drawn from, where they were: they are published, too.
    derived : dict of str to function
        Columns of :meth:`assign`; None for the function of one that came with a release that was written, pickled or
        copied.

    Examples
    --------
    With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

    >>> release.m, release.outcomes, release.predictors
    (3, ('salary',), ('field', 'gender'))
    >>> release.datasets[0]
    SurveyDesign: 1,000 records, weights 'weight', 8 strata 'field', no clusters
    >>> release.privacy.epsilon <= 10.8
    True
    """

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
    _entered: ClassVar[bool] = False  # of one that write() entered in a ledger: True

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle or a copy holds: the public part."""
        again = "redrawn", "_redrawn_for_tables"  # made when they are needed
        kept = {name: value for name, value in vars(self).items() if name not in again}
        internal: dict[str, Any] = {"internal": {}, "privacy": replace(self.privacy, internal={})}
        return kept | internal | {"derived": dict.fromkeys(self.derived)}  # functions that no pickle can hold

    @classmethod
    def drawn_from(cls, measured: Source, m: int, seed: int | None = None) -> Release:
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

    def more(self, m: int, *, seed: int | None = None) -> Release:
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
        others = Release.drawn_from(self.measured, m, seed)
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

    def assign(self, **functions: RowWise) -> Release:
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

    def tables(
        self,
        by: str | Sequence[str] | None = None,
        *,
        outcome: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] | None = None,
        denominator: str | None = None,
        quantiles: Sequence[float] | float | None = None,
        poverty_line: float | None = None,
        where: Where = None,
        deff: Deff = False,
        estimator: str = "auto",
        min_cell: int | None = None,
        cv_limit: float | None = None,
        level: float = 0.95,
        df: float | None = None,
        interval: Method | None = None,
    ) -> pd.DataFrame:
        """Estimates of every cell, margin and the total, combined over the m data sets.

        Tables are made of the published data alone.

        Parameters
        ----------
        by : str or list of str, optional
            Predictors, outcomes that are categories, and columns of :meth:`assign`; no other column is in the files.
        outcome : str or list of str, optional
            Outcomes and columns of :meth:`assign`; default all outcomes that fit the statistics.
        statistic, denominator, quantiles, poverty_line, where, deff, estimator
            As for :func:`surveysynth.estimate`; unless told counts, means of numbers and
            proportions of categories.  Outcomes that do not apply to a record are missing there: each outcome is of the
            records that it applies to (``missing="available"``).
        min_cell : int, optional
            Cells of fewer records are suppressed, and with them the cells from which they
            could be found by subtraction; the two kinds carry one and the same flag.  This is a
            quality rule, not protection: whoever has the synthetic files can compute them.
        cv_limit : float, optional
            Flag estimates whose standard error is more than this share of the estimate.
        level, df, interval
            As for :func:`surveysynth.estimate`.

        Returns
        -------
        pandas.DataFrame
            ``<by...>, statistic, outcome, estimate, se, df, ci_low, ci_high, n, flag``; a
            margin carries the label "all".  Standard errors by Hu, Savitsky & Williams (2022a, appendix A).  Where a
            ``by`` column is synthesized, n is the least that a domain has in any of the data sets.
            ``attrs["labels"]`` has the headings of outcomes and ``by`` columns, ``attrs["where"]`` the column of
            ``where``, ``attrs["digits"]`` the decimals that
            the plan of the release says, if it does.

        Raises
        ------
        InputError
            A ``by`` variable that is not a predictor; unknown outcomes or statistics; an argument that has no effect on
            them, as ``quantiles`` of a mean.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> table = release.tables(by="gender", statistic="mean")
        >>> table["gender"].tolist()
        ['female', 'male', 'all']
        >>> table.columns.tolist()
        ['gender', 'statistic', 'outcome', 'estimate', 'se', 'df', 'ci_low', 'ci_high', 'n', 'flag']
        """
        names = preserved(self, by)
        about = [*names, *as_list(outcome), *as_list(denominator), *([where] if isinstance(where, str) else [])]
        self._check_functions(about)
        asked = self._asked(outcome, statistic, names)
        if_fit = {"denominator": denominator, "quantiles": quantiles, "poverty_line": poverty_line, "deff": deff}
        every = list(dict.fromkeys(each for _, statistics in asked for each in statistics))
        check_statistics(every, outcome=as_list(outcome) or None, interval=interval, **if_fit)
        how: dict[str, Any] = {
            "where": where, "estimator": estimator, "count_designs": self.count_designs(),
            "synthesized": (*self.categorical, *self.derived), "redrawn": self._redrawn_for_tables,
            "missing": self._missing_outcomes,
        }  # fmt: skip
        parts = []
        for of, statistics in asked:
            own = fitting(statistics, **if_fit)
            limits = Interval.checked(level, df, fitting(statistics, interval=interval).get("interval"))
            make = self._completed(
                partial(tabulate, self.datasets, of, names, statistics, **how, **own, interval=limits)
            )
            with told_if_it_breaks_down():
                parts.append(make())
        table = stacked(parts)
        flagged = flag(
            table, names, between=self.m > 1, min_cell=min_cell, cv_limit=cv_limit, whole=where is None,
            modelled=self._modelled(table, names),
        )  # fmt: skip
        if isinstance(where, str):
            flagged.attrs["where"] = where
        if "digits" in self.method:
            flagged.attrs["digits"] = self.method["digits"]
        return flagged

    def _completed(self, make: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
        """A table, made anew from data sets of all records where those of some leave a standard error open."""
        fewer = self._redrawn_for_tables

        def made() -> pd.DataFrame:
            table = make()
            whole = not fewer or fewer[0].n == self.datasets[0].n
            if whole or not (table["se"].isna() & table["estimate"].notna()).any():
                return table
            return make(redrawn=self.redrawn)

        return made

    def _modelled(self, table: pd.DataFrame, names: list[str]) -> NDArray[np.bool_] | None:
        """Cells of variables that no noisy table counts together (rows,); None where no tables were measured."""
        if self.measured is None:
            return None
        found = dict[tuple[str | None, tuple[str, ...]], bool]()
        keys = []
        weight = None if self.measured.tables.weight is None else WEIGHT
        for row in table[[*names, "statistic", "outcome"]].to_dict("records"):
            by = tuple(name for name in names if row[name] != TOTAL)
            variable = weight if row["statistic"] == "count" else row["outcome"]
            if (variable, by) not in found:
                known = bool(by) and not {variable, *by} & {*self.derived}
                found[variable, by] = known and not self.measured.is_counted(variable, by)
            keys.append((variable, by))
        return np.array([found[key] for key in keys], dtype=bool)

    def differences(
        self,
        between: Mapping[str, Sequence[object]],
        by: str | Sequence[str] | None = None,
        *,
        outcome: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] = "mean",
        denominator: str | None = None,
        quantiles: Sequence[float] | float | None = None,
        poverty_line: float | None = None,
        where: Where = None,
        level: float = 0.95,
        df: float | None = None,
    ) -> pd.DataFrame:
        """Differences between two categories of a predictor, combined over the m data sets.

        Parameters
        ----------
        between : mapping of one predictor to two categories
            ``{"gender": ("m", "f")}`` is men less women.
        by, outcome, statistic, denominator, quantiles, poverty_line, where, level, df
            As for :meth:`tables`.

        Returns
        -------
        pandas.DataFrame
            The columns of :func:`surveysynth.difference`; standard errors as :meth:`tables` has them by default.

        Raises
        ------
        InputError
            As :meth:`tables` and :func:`surveysynth.difference`.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> gap = release.differences({"gender": ("male", "female")}, by="field")
        >>> gap["contrast"].unique().tolist(), len(gap)
        (['male - female'], 9)
        """
        compared = preserved(self, [*between]) if isinstance(between, Mapping) else []
        check_statistics(as_list(statistic), outcome=as_list(outcome) or None)
        outcomes = [] if as_list(statistic) == ["count"] else synthesized(self, outcome)
        filters = [where] if isinstance(where, str) else []
        about = [*compared, *as_list(by), *outcomes, *as_list(denominator), *filters]
        self._check_functions(about)
        if outcome is None and "proportion" not in as_list(statistic):
            outcomes = [name for name in outcomes if name not in self._labels]
        return differences(
            self.datasets,
            [name for name in outcomes if name not in compared],
            preserved(self, by),
            statistic,
            between=between,
            denominator=denominator,
            quantiles=quantiles,
            poverty_line=poverty_line,
            where=where,
            count_designs=self.count_designs(),
            synthesized=(*self.categorical, *self.derived),
            redrawn=self.redrawn,
            missing=self._missing_outcomes,
            interval=Interval.checked(level, df),
        )

    def regression(self, formula: str, family: Family = "gaussian", *, offset: str | None = None) -> Regression:
        """Generalized linear regression, combined over the m data sets.

        Parameters
        ----------
        formula, family, offset
            As for :func:`surveysynth.regression`; columns of the synthetic files.

        Returns
        -------
        Regression
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.regression`.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> release.regression("np.log(salary) ~ gender").table["term"].tolist()
        ['Intercept', 'gender[T.male]']
        """
        return regressions(
            self.datasets, formula, family, offset=offset, missing=self._missing, redrawn=self.redrawn
        )  # fmt: skip

    def combine(self, function: Estimator) -> pd.DataFrame:
        """Any estimator of one data set, combined over the m data sets.

        The estimate is the mean of the m estimates, its variance T = mean(u) + b / m (Hu, Savitsky & Williams 2022a,
        appendix A; Reiter & Raghunathan 2007), as in :meth:`tables`, with that of the noise in the tables where they
        were measured.

        Parameters
        ----------
        function : function of a SurveyDesign
            It gives the pair (estimate, variance): an estimate as a number, an array (D,) or a Series, whose index
            names the terms; and its variance likewise, or as covariance matrix (D, D).  Contrasts of several
            estimates are made within the function, which has their covariance.

        Returns
        -------
        pandas.DataFrame
            ``term, estimate, se, df, ci_low, ci_high``, a row an estimate: 95% t intervals, with degrees of freedom
            that never exceed those of the design.  Without names the terms are 1, 2, ...

        Raises
        ------
        InputError
            A function that gives no such pair, or other terms in some of the data sets.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, the mean of log salaries:

        >>> def log_mean(design):
        ...     logs = design.assign(log_salary=lambda f: np.log(f.salary))
        ...     table = ss.estimate(logs, "log_salary")
        ...     return table["estimate"][0], table["se"][0] ** 2
        >>> release.combine(log_mean).columns.tolist()
        ['term', 'estimate', 'se', 'df', 'ci_low', 'ci_high']
        """
        return combined(self.datasets, function, redrawn=self.redrawn)

    def joint_estimates(
        self,
        outcome: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] = "mean",
    ) -> JointEstimates:
        """Estimates in the cells of ``by`` with their covariance matrix, for tests and functions of them.

        Parameters
        ----------
        outcome, by, statistic
            As for :func:`surveysynth.joint_estimates`; outcomes and predictors of this release.

        Returns
        -------
        JointEstimates
            Of the m data sets together.

        Raises
        ------
        InputError
            As :meth:`tables` and :func:`surveysynth.joint_estimates`.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> means = release.joint_estimates("salary", by="gender")
        >>> means.m, means.names
        (3, ('female', 'male'))
        """
        names, asked = preserved(self, by), as_list(statistic)
        if "count" in asked and asked != ["count"] and self.count_roles is not None:
            raise InputError("counts of this release have weights of their own: ask for them by themselves")
        designs = self.count_designs() if asked == ["count"] else self.datasets
        check_statistics(asked, outcome=as_list(outcome) or None)
        outcomes = [] if asked == ["count"] else synthesized(self, outcome)
        self._check_functions([*names, *outcomes])
        moving = {*self.categorical, *self.derived}
        return jointly(designs, outcomes, names, asked, synthesized=tuple(moving), redrawn=self.redrawn)

    def independence_test(self, row: str, column: str) -> Test:
        """Test that two categorical columns are independent in the population, combined over the m data sets.

        Wald's test; Pearson's statistic, and Rao and Scott's corrections of it, have no combining rule.

        Parameters
        ----------
        row, column : str
            Predictors, outcomes that are categories, or derived columns.

        Returns
        -------
        Test
            F, by Reiter's (2005, section 2) rule for partially synthetic data.

        Raises
        ------
        InputError
            As :meth:`tables`; a column with one category; too few records or PSUs for the cells.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> release.independence_test("field", "gender").method
        'Wald test of independence in synthetic data sets'
        """
        names = preserved(self, [row, column])
        self._check_functions(names)
        return independence_tests(self.count_designs(), row, column, missing=self._missing, redrawn=self.redrawn)

    def predictive_margins(
        self, formula: str, group: str, family: Family = "gaussian", *, offset: str | None = None
    ) -> JointEstimates:
        """Means by group, were the groups alike in the predictors, combined over the m data sets.

        Parameters
        ----------
        formula, group, family, offset
            As for :func:`surveysynth.predictive_margins`; columns of the synthetic files.

        Returns
        -------
        JointEstimates
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.predictive_margins`.
        """
        return margins(self.datasets, formula, group, family, offset=offset, redrawn=self.redrawn)

    def population_covariances(self, outcome: str | Sequence[str]) -> JointEstimates:
        """Variances and covariances of columns, combined; as :func:`surveysynth.population_covariances`.

        Parameters
        ----------
        outcome : str or sequence of str
            Numeric outcomes of this release.

        Returns
        -------
        JointEstimates
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.population_covariances`.
        """
        self._check_functions(as_list(outcome))
        return covariances(self.datasets, outcome, redrawn=self.redrawn)

    def correlations(self, outcome: Sequence[str]) -> JointEstimates:
        """Correlations of columns, combined over the m data sets; as :func:`surveysynth.correlations`.

        Parameters
        ----------
        outcome : sequence of str
            Numeric outcomes of this release.

        Returns
        -------
        JointEstimates
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.correlations`.
        """
        return correlations_of(self.population_covariances(outcome))

    def standard_deviations(self, outcome: str | Sequence[str]) -> JointEstimates:
        """Standard deviations of columns, combined; as :func:`surveysynth.standard_deviations`.

        Parameters
        ----------
        outcome : str or sequence of str
            Numeric outcomes of this release.

        Returns
        -------
        JointEstimates
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.standard_deviations`.
        """
        return deviations_of(self.population_covariances(outcome))

    def calibrate(self, totals: Totals, distance: Distance = "raking", bounds: Bounds | None = None) -> Release:
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
            names = preserved(self, [n for margin in totals for n in ([margin] if isinstance(margin, str) else margin)])
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
        said = f"the population totals by {margins} were given by the agency as public: the weights add up to them"
        kept = [text for text in self.privacy.assumptions if text != PUBLIC_SUM]
        before = [text.split(": the synthetic weights add up to")[0] for text in kept]
        depends = [text for text in self.privacy.data_dependent if text != SUM_OF_WEIGHTS]
        privacy = replace(self.privacy, assumptions=[*before, said], data_dependent=depends)
        return replace(self, datasets=tuple(datasets), count_roles=count_roles, privacy=privacy)

    @property
    def _missing(self) -> str:
        """Records to which a question does not apply are left out of what is about its outcome, where it is missing."""
        return "drop" if MISSING in self.method.get("elsewhere", {}).values() else "fail"

    @property
    def _missing_outcomes(self) -> Missing:
        """The same of tables, whose outcomes apply to different records."""
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
        """As :attr:`redrawn`, of some records where there are many."""
        if self.measured is None or not self.measured.is_large(self.datasets[0].n):
            return self.redrawn
        return tuple(self._derived_again(design) for design in self.measured.redrawn(self.datasets[0], some=True))

    def _derived_again(self, design: SurveyDesign) -> SurveyDesign:
        """The design with its derived columns computed from its other columns."""
        if not self.derived:
            return design
        frame = design.frame.drop(columns=[*self.derived], errors="ignore")
        plain = SurveyDesign(frame, **design.roles(), labels=design.labels)
        return plain.assign(**{name: function for name, function in self.derived.items() if function is not None})

    def _check_functions(self, columns: Sequence[str]) -> None:
        """Refuse derived columns that cannot be computed again where standard errors need that (InputError)."""
        for name in columns:
            if self.measured is not None and name in self.derived and self.derived[name] is None:
                raise InputError(
                    f"standard errors need the function of {name!r}, which a written release does not hold, nor one "
                    "that was updated in R: assign() it again under another name, or use combine_release() in R"
                )

    @property
    def _labels(self) -> list[str]:
        """The outcomes and derived columns that are categories, True and False among them."""
        first = self.datasets[0]
        derived = [name for name in self.derived if is_label(first.column(name))]
        derived += [name for name in self.derived if pd.api.types.is_bool_dtype(first.column(name).dtype)]
        return [*self.categorical, *derived]

    def _asked(
        self, outcome: str | Sequence[str] | None, statistic: str | Sequence[str] | None, by: Sequence[str]
    ) -> list[tuple[list[str], list[str]]]:
        """Outcomes and their statistics: means are of numbers, proportions of categories."""
        outcomes = synthesized(self, outcome)
        if outcome is None:
            outcomes = [name for name in outcomes if name not in by]
        numbers = [name for name in outcomes if name not in self._labels]
        labels = [name for name in outcomes if name in self._labels and name not in by]
        if statistic is None:
            asked = [(numbers, ["count", "mean"] if numbers else ["count"])]
            return [*asked, (labels, ["proportion"])] if labels else asked
        if outcome is None and as_list(statistic) == ["count"]:
            return [([], ["count"])]
        if outcome is not None or not labels:
            return [(outcomes, as_list(statistic))]
        of_labels = [s for s in as_list(statistic) if s == "proportion"]
        of_numbers = [s for s in as_list(statistic) if s != "proportion"]
        return [*([(numbers, of_numbers)] if of_numbers else []), *([(labels, of_labels)] if of_labels else [])]

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

    def entered(self, ledger: Ledger | None) -> Release:
        """The release with the number of its entry in a ledger, which is charged now; as it is without a ledger.

        Its tables and files are made first, and kept in a hidden folder beside the ledger until :meth:`write` has
        written it: what was charged is not lost with the session, and :func:`resume` publishes it.

        Parameters
        ----------
        ledger : Ledger, optional
            Where it is entered; None leaves the release as it is.

        Returns
        -------
        Release
            The same data sets; its manifest has the entry's number and head.

        Raises
        ------
        InputError
            Its tables or files cannot be made, or it was entered before; nothing was charged.
        PrivacyError
            The cap would be exceeded, or the ledger cannot be written.
        """
        check_ledger(ledger)
        if ledger is None:
            return self
        if self.entered_before:
            raise InputError(ENTERED)
        names = self.table_predictors()
        table = self.tables(names)
        return enter(self, table, printed(self, table, names), ledger)

    def manifest(self) -> dict[str, Any]:
        """What a reader needs to know about the files, without anything confidential and without a seed.

        Returns
        -------
        dict
            As ``manifest.json`` has it, but for the files.
        """
        return manifest_of(self)

    def write(
        self,
        path: str | Path,
        *,
        by: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] | None = None,
        quantiles: Sequence[float] | float | None = None,
        poverty_line: float | None = None,
        format: str = "csv",
        min_cell: int | None = None,
        cv_limit: float | None = None,
        symbols: str | Mapping[str, Any] | None = None,
        wording: str | Path | None = None,
        overwrite: bool = False,
        ledger: Ledger | None = None,
    ) -> Path:
        """Write the release folder: ``public/`` to publish, ``internal/`` to keep (mode 0700, files 0600).

        ``public/`` has the synthetic files, the tables (``tables.csv`` in full precision, ``tables.xlsx`` and
        ``tables.html`` as they are printed), the report, the manifest, and what other programs read about all that
        (``datapackage.json`` of Frictionless, ``csv-metadata.json`` of CSV on the Web).
        The folder appears whole or not at all: it is written beside its place and moved there.  The
        manifest lists the other public files with their records, columns and SHA-256, by which
        :func:`read_release` verifies them.

        Parameters
        ----------
        path : str or Path
            Where the folder is to be.
        by : str or list of str, optional
            Variables of ``public/tables.csv``; default :meth:`table_predictors`.
        statistic, quantiles, poverty_line
            Of ``public/tables.csv``, as for :meth:`tables`.
        format : {"csv", "parquet"}
            Of the synthetic files.
        min_cell, cv_limit
            As for :meth:`tables`.  ``min_cell`` is a quality rule, not protection: whoever has the
            synthetic files can compute the suppressed cells.  The report says so, too.
        symbols, wording
            As for :meth:`write_tables`.
        overwrite : bool
            Replace a release that is there; nothing else is ever replaced.
        ledger : Ledger, optional
            Enter the release here, last: when all files are on the disk and their place is free.  Not for a release
            that was entered when it was made.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            The folder exists and is not empty; the arguments do not suit the release; it cannot be written, and
            nothing was charged.
        PrivacyError
            The cap would be exceeded; or the release was charged and could not be moved to its place, from where
            :func:`resume` moves it.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> folder = release.write("release", by="gender")
        >>> sorted(file.name for file in folder.iterdir())
        ['internal', 'public']
        >>> len(list((folder / "public").glob("synthetic_*.csv")))
        3
        """
        check_format(format)
        check_ledger(ledger)
        if ledger is not None and self.entered_before:
            raise InputError(ENTERED)
        place = as_path(path)
        check_place(place, overwrite=overwrite)
        names = self.table_predictors() if by is None else as_list(by)
        table = self.tables(
            names, statistic=statistic, quantiles=quantiles, poverty_line=poverty_line, min_cell=min_cell,
            cv_limit=cv_limit,
        )  # fmt: skip
        document = printed(self, table, names, symbols=symbols, wording=wording)
        write_folder(
            self, place, table, document, ledger=ledger, overwrite=overwrite, format=format, min_cell=min_cell
        )  # fmt: skip
        if ledger is not None:
            object.__setattr__(self, "_entered", True)
        if (kept := self.internal.get("kept")) is not None:
            discard(kept)
        return place

    def write_tables(
        self,
        path: str | Path,
        by: str | Sequence[str] | None = None,
        *,
        symbols: str | Mapping[str, Any] | None = None,
        wording: str | Path | None = None,
        **asked: Any,
    ) -> Path:
        """Write tables as an office prints them, with footnotes in plain words.

        Three sentences come first: who is protected and how far, what is not, and what error to expect.  Numbers are
        rounded to their standard errors (two digits of a quantity's least), but for csv.

        Parameters
        ----------
        path : str or Path
            Its suffix is the form: .csv (full precision, without footnotes), .xlsx (a workbook by the UK government's
            standard of accessible spreadsheets), .html (one page), .tex (compiled by pdflatex as it stands), .md, or
            .docx (by pandoc, if that is installed).
        by : str or list of str, optional
            As for :meth:`tables`.
        symbols : {"uk", "statcan"} or mapping, optional
            Marks of quality and of what is not there.  "uk", the default: [c] suppressed, [u] low reliability (a
            coefficient of variation of 20% or more), [x] not available.  "statcan": letters A to F, x, .. (F is not
            shown).  A mapping of ``suppressed``, ``missing``, ``unreliable`` and ``limit`` changes "uk".
        wording : str or Path, optional
            The words of headings and footnotes: a translated copy of ``surveysynth/publication/wording.toml``.
        **asked
            As for :meth:`tables`; ``where`` as the name of a column, which titles then say.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            As :meth:`tables`; a suffix, symbols or words that are not known; a docx without pandoc.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> file = release.write_tables("tables.md", by="gender", statistic="mean")
        >>> file.name
        'tables.md'
        """
        check_keywords(Release.write_tables, asked, Release.tables)
        path, names = as_path(path), as_list(by)
        check_suffix(path)
        in_full = path.suffix == ".csv"
        if in_full and not (symbols is None and wording is None):
            raise InputError("a csv has full numbers, without marks or notes: leave symbols= and wording= out")
        _check_printed(**asked | ({"deff": False} if in_full else {}))
        table = self.tables(names, **asked)
        write(table, printed(self, table, names, symbols=symbols, wording=wording), path)
        return path

    def plot(
        self,
        path: str | Path,
        by: str | Sequence[str] | None = None,
        *,
        statistic: str | None = None,
        symbols: str | Mapping[str, Any] | None = None,
        wording: str | Path | None = None,
        width: float = 16.0,
        **asked: Any,
    ) -> Path:
        """Draw estimates with their 95% intervals, a dot for every domain: a figure to publish.

        The text for those who do not see it is in the figure, and in a text file of the same name beside it.

        Parameters
        ----------
        path : str or Path
            .svg or .png.
        by : str or list of str, optional
            As for :meth:`tables`; a last variable of at most five categories, the total among them, is told by colour
            and shape.
        statistic : str, optional
            As for :meth:`tables`; default means, or proportions of categories.
        symbols, wording
            As for :meth:`write_tables`.
        width : float
            Centimetres, from 6 on: default the text of an A4 page; 8.5 is a column of two.
        **asked
            As for :meth:`tables`.

        Returns
        -------
        Path
            The figure.

        Raises
        ------
        InputError
            As :meth:`write_tables`; a file that is no .svg or .png, or a smaller width.
        """
        from ..publication.figures.domains import LEAST, check_figure, dot_plot

        check_keywords(Release.plot, asked, Release.tables)
        path, names = as_path(path), as_list(by)
        check_figure(path)
        _check_printed(**asked)
        if positive(width, "width") < LEAST:
            raise InputError(f"width is {width:g} cm, and {LEAST:g} is the least")
        numbers = [name for name in as_list(asked.get("outcome")) or self.outcomes if name not in self._labels]
        table = self.tables(names, statistic=statistic or ("mean" if numbers else "proportion"), **asked)
        dot_plot(printed(self, table, names, symbols=symbols, wording=wording), path, width)
        return path


def check_m(m: int) -> int:
    """A number of data sets that are drawn from measurements: even, and at least 4 (InputError)."""
    whole(m, "m", MOST_DATASETS)
    if m % PAIR or m < 2 * PAIR:
        raise InputError(f"m = {m}: data sets come in pairs, so say an even number from 4 on; it costs no epsilon")
    return m


def preserved(release: Release, by: str | Sequence[str] | None) -> list[str]:
    """The names, if all are predictors, categories that were synthesized, or derived."""
    names, known = as_list(by), (*release.predictors, *release.categorical, *release.derived)
    for name in names:
        if name not in known:
            raise InputError(
                f"by={name!r} is not a predictor of this release, so it was not preserved; tables can be broken "
                f"down by {', '.join(known) or 'nothing'}"
            )
    return names


def synthesized(release: Release, outcome: str | Sequence[str] | None) -> list[str]:
    """The outcomes and derived columns asked for, or all outcomes."""
    outcomes, known = as_list(outcome) or list(release.outcomes), (*release.outcomes, *release.derived)
    for name in outcomes:
        if name not in known:
            raise InputError(f"outcome {name!r} was not synthesized; the outcomes are {', '.join(known)}")
    return outcomes


def _check_printed(where: Where = None, level: float = 0.95, deff: Deff = False, **others: Any) -> None:
    """Refuse a condition that no title can say, and what is not printed (InputError)."""
    if deff:
        raise InputError("printed tables and figures have no design effects: leave deff= out, or write a csv")
    if level != 0.95:
        raise InputError("printed tables and figures have 95% intervals: leave level= out, or print tables(level=...)")
    if callable(where):
        raise InputError(
            "a printed table must say which records it is of: assign() the condition as a column, and give its name as "
            "where="
        )


def read_release(path: str | Path) -> Release:
    """Read a release back from its public files; ``internal`` stays where it is.

    Every public file must be, byte by byte, the one that the manifest lists.  This finds files that were
    damaged, cut short or saved by another program, not who forges files and manifest together.

    Parameters
    ----------
    path : str or Path
        The release folder, or its ``public`` folder as it was published.

    Returns
    -------
    Release
        Without what is internal.

    Raises
    ------
    InputError
        The folder is not a release; files are missing, or are not those that were published (the
        message says which, and whether records, columns or content differ).

    Examples
    --------
    With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

    >>> folder = release.write("release", by="gender")
    >>> ss.read_release(folder)
    Release: m = 3 synthetic data sets of 1,000 records by FBS, outcomes salary, epsilon = 10.8 (asymptotic)
    """
    return Release(**read_folder(as_path(path)))
