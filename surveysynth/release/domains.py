"""Estimates of domains from a release: tables, differences between domains, and estimates with covariances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.derived import Where
from ..errors import InputError, breakdown_as_error
from ..estimation.design_effects import Deff
from ..estimation.differences import differences
from ..estimation.intervals import Interval, Method
from ..estimation.joint import JointEstimates, jointly
from ..estimation.quantities import check_quantities, check_statistics, fitting, listed
from ..estimation.tables import TOTAL, stacked, tabulate
from ..measuring.noisy_tables import WEIGHT
from ..validation import as_list
from .contents import Contents
from .suppression import flag


class DomainEstimates(Contents):
    """The methods of :class:`surveysynth.Release` that estimate statistics of domains."""

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
        empty: bool = False,
    ) -> pd.DataFrame:
        """Estimate statistics for every cell, every margin and the total, combined over the m data sets.

        Tables are computed from the published data only.

        Parameters
        ----------
        by : str or list of str, optional
            The variables that define the domains: predictors, outcomes that are categories, and columns of
            :meth:`assign`.
        outcome : str or list of str, optional
            Outcomes and columns of :meth:`assign`; by default all outcomes that fit the statistics.
        statistic, denominator, quantiles, poverty_line, where, deff, estimator
            See :func:`surveysynth.estimate`.  The default statistics are counts, means of numbers and proportions of
            categories.  An outcome is missing for records to which it does not apply; estimates then use the other
            records (``missing="available"``).
        min_cell : int, optional
            Cells with fewer records are suppressed, together with other cells from which the suppressed numbers could
            be computed by subtraction.  All suppressed cells have the same flag.  Suppression is a quality rule, not
            protection: whoever has the synthetic files can compute the suppressed cells.
        cv_limit : float, optional
            Estimates with a larger coefficient of variation (standard error over estimate) are flagged.
        level, df, interval, empty
            See :func:`surveysynth.estimate`.  A predictor has only the categories that occur in the file, because
            others are not published.

        Returns
        -------
        pandas.DataFrame
            ``<by...>, statistic, outcome, estimate, se, df, ci_low, ci_high, n, flag``; a margin has the label "all".
            Standard errors follow Hu, Savitsky & Williams (2022a, appendix A).  If a ``by`` column is synthesized, n is
            the smallest number of records that the domain has in any of the data sets.  The lower limit of a
            count is at least 0.
            ``flag`` has texts on the quality of the estimate, or the reason of suppression.
            ``attrs`` has the entries ``labels`` (headings of outcomes and ``by`` columns), ``where`` (the argument
            ``where``, if it is the name of a column) and ``digits`` (the number of decimals, if the plan of the release
            sets it).

        Raises
        ------
        InputError
            A ``by`` variable that is neither a predictor, nor an outcome that is a category, nor a column of
            :meth:`assign`; unknown outcomes or statistics; an argument that has no effect on the statistics, such as
            ``quantiles`` for a mean; a column of :meth:`assign` whose function is needed for standard errors, but was
            not kept.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> table = release.tables(by="gender", statistic="mean")
        >>> table["gender"].tolist()
        ['female', 'male', 'all']
        >>> table.columns.tolist()
        ['gender', 'statistic', 'outcome', 'estimate', 'se', 'df', 'ci_low', 'ci_high', 'n', 'flag']
        """
        names = self._preserved(by)
        about = [*names, *as_list(outcome), *as_list(denominator), *([where] if isinstance(where, str) else [])]
        self._check_functions(about)
        asked = self._asked(outcome, statistic, names)
        if_fit = {"denominator": denominator, "quantiles": quantiles, "poverty_line": poverty_line, "deff": deff}
        if outcome is None:
            check_parts(asked, [name for name in self.outcomes if name in self._labels], interval=interval, **if_fit)
        else:
            check_statistics(_statistics_of(asked), outcome=as_list(outcome) or None, interval=interval, **if_fit)
        how: dict[str, Any] = {
            "where": where, "estimator": estimator, "count_designs": self.count_designs(),
            "synthesized": (*self.categorical, *self.derived), "redrawn": self._redrawn_for_tables,
            "missing": self._missing_outcomes, "empty": empty,
        }  # fmt: skip
        parts = []
        for outcomes, statistics in asked:
            own = fitting(statistics, **if_fit)
            limits = Interval.checked(level, df, fitting(statistics, interval=interval).get("interval"))
            make = self._completed(
                partial(tabulate, self.datasets, outcomes, names, statistics, **how, **own, interval=limits)
            )
            with breakdown_as_error():
                parts.append(make())
        table = stacked(parts)
        flagged = flag(
            table, names, between=self.m > 1, min_cell=min_cell, cv_limit=cv_limit, whole=where is None,
            modelled=self._modelled(table, names), known_total=self.measured is not None,
        )  # fmt: skip
        if isinstance(where, str):
            flagged.attrs["where"] = where
        if "digits" in self.method:
            flagged.attrs["digits"] = self.method["digits"]
        return flagged

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
        """Estimate the difference between the domains of two categories, combined over the m data sets.

        Parameters
        ----------
        between : mapping of one column to two categories
            ``{"gender": ("m", "f")}`` is men minus women.  The column is one that :meth:`tables` accepts in ``by``.
        by, outcome, statistic, denominator, quantiles, poverty_line, where, level, df
            See :meth:`tables`.

        Returns
        -------
        pandas.DataFrame
            The columns of :func:`surveysynth.difference`.  Standard errors are computed as in :meth:`tables` with its
            default estimator.

        Raises
        ------
        InputError
            See :meth:`tables` and :func:`surveysynth.difference`.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> gap = release.differences({"gender": ("male", "female")}, by="field")
        >>> gap["contrast"].unique().tolist(), len(gap)
        (['male - female'], 9)
        """
        compared = self._preserved([*between]) if isinstance(between, Mapping) else []
        check_statistics(as_list(statistic), outcome=as_list(outcome) or None)
        outcomes = [] if as_list(statistic) == ["count"] else self._synthesized(outcome)
        filters = [where] if isinstance(where, str) else []
        about = [*compared, *as_list(by), *outcomes, *as_list(denominator), *filters]
        self._check_functions(about)
        if outcome is None and "proportion" not in as_list(statistic):
            outcomes = [name for name in outcomes if name not in self._labels]
        return differences(
            self.datasets,
            [name for name in outcomes if name not in compared],
            self._preserved(by),
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

    def joint_estimates(
        self,
        outcome: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] = "mean",
    ) -> JointEstimates:
        """Estimate statistics in domains, together with the covariance matrix of the estimates.

        Wald tests, and standard errors of functions of the estimates, need the covariance matrix.

        Parameters
        ----------
        outcome, by, statistic
            See :func:`surveysynth.joint_estimates`.  Names are those of outcomes and predictors of this release.

        Returns
        -------
        JointEstimates
            The estimates and their covariance matrix, combined over the m data sets.

        Raises
        ------
        InputError
            See :meth:`tables` and :func:`surveysynth.joint_estimates`; also, if counts are asked for together with
            other statistics, and the release has a separate weight for counts, as the model FBP has.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> means = release.joint_estimates("salary", by="gender")
        >>> means.m, means.names
        (3, ('female', 'male'))
        """
        names, asked = self._preserved(by), as_list(statistic)
        if "count" in asked and asked != ["count"] and self.count_roles is not None:
            raise InputError("counts of this release have weights of their own: ask for them by themselves")
        designs = self.count_designs() if asked == ["count"] else self.datasets
        check_statistics(asked, outcome=as_list(outcome) or None)
        outcomes = [] if asked == ["count"] else self._synthesized(outcome)
        self._check_functions([*names, *outcomes])
        moving = {*self.categorical, *self.derived}
        return jointly(designs, outcomes, names, asked, synthesized=tuple(moving), redrawn=self.redrawn)

    def _completed(self, make: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
        """Return a function that calls ``make`` for a table, and again with all records if a standard error is missing.

        In the first call, the variance due to the noise in noisy tables is computed from a subset of the records; in
        the second call, from all records.
        """
        fewer = self._redrawn_for_tables

        def made() -> pd.DataFrame:
            table = make()
            whole = not fewer or fewer[0].n == self.datasets[0].n
            if whole or not (table["se"].isna() & table["estimate"].notna()).any():
                return table
            return make(redrawn=self.redrawn)

        return made

    def _modelled(self, table: pd.DataFrame, names: list[str]) -> NDArray[np.bool_] | None:
        """Return a boolean array: True for each row of a table whose estimate comes from the model alone.

        This is the case if no noisy table has all variables of the row.  The value is False for the total and for rows
        with a column of :meth:`assign`.  The result is None for a release that was not drawn from noisy tables.
        """
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

    def _asked(
        self, outcome: str | Sequence[str] | None, statistic: str | Sequence[str] | None, by: Sequence[str]
    ) -> list[tuple[list[str], list[str]]]:
        """List what to estimate, as pairs (list of outcomes, list of statistics of these outcomes).

        See :func:`parts_of_tables`, which is for all outcomes that are not in ``by``.  If outcomes are given, each has
        all statistics.
        """
        outcomes = self._synthesized(outcome)
        if outcome is not None and statistic is not None:
            return [(outcomes, as_list(statistic))]
        numbers = [name for name in outcomes if name not in self._labels and (outcome is not None or name not in by)]
        labels = [name for name in outcomes if name in self._labels and name not in by]
        return parts_of_tables(numbers, labels, statistic)


def parts_of_tables(
    numbers: Sequence[str], labels: Sequence[str], statistic: str | Sequence[str] | None
) -> list[tuple[list[str], list[str]]]:  # fmt: skip
    """List the estimates in tables of some outcomes, as pairs (list of outcomes, list of statistics of these outcomes).

    Categories have proportions, and numbers have all other statistics.  If there are no categories, numbers have
    proportions, too.  The default statistics are counts and means of numbers, and proportions of categories.

    Parameters
    ----------
    numbers, labels : list of str
        The outcomes that are numbers and those that are categories, without those in ``by``.
    statistic : str or list of str, optional
    """
    numbers, labels = list(numbers), list(labels)
    if statistic is None:
        asked = [(numbers, ["count", "mean"] if numbers else ["count"])]
        return [*asked, (labels, ["proportion"])] if labels else asked
    statistics = as_list(statistic)
    if set(statistics) == {"count"}:
        return [([], statistics)]
    if not labels:
        return [(numbers, statistics)]
    shares = [each for each in statistics if each == "proportion"]
    others = [each for each in statistics if each != "proportion"]
    of_numbers = (numbers if set(others) - {"count"} else [], others)
    return [*([of_numbers] if others else []), *([(labels, shares)] if shares else [])]


def check_parts(parts: Sequence[tuple[list[str], list[str]]], labels: Sequence[str], **given: Any) -> None:
    """Check, without data, that the statistics of a table suit its outcomes and arguments; else raise InputError.

    Parameters
    ----------
    parts : list of (list of str, list of str)
        From :func:`parts_of_tables`.
    labels : list of str
        The outcomes that are categories.
    **given
        Arguments of the table, such as ``quantiles``.

    Raises
    ------
    InputError
        An error of :func:`surveysynth.estimation.quantities.check_quantities`; a statistic needs a number, and all
        outcomes are categories; proportions, if all outcomes are in ``by``.
    """
    check_statistics(_statistics_of(parts), **given)
    for outcomes, statistics in parts:
        lacking = [each for each in statistics if each != "count"]
        of_numbers = [each for each in lacking if each != "proportion"]
        if lacking and labels and not outcomes:
            raise InputError(
                f"statistic={listed(of_numbers)} needs an outcome that is a number, and these are categories: "
                f"{', '.join(labels)}; tables of categories have counts and proportions"
                if of_numbers
                else f"statistic={listed(lacking)} needs an outcome by which the tables are not broken down"
            )
        check_quantities(statistics, outcomes, **fitting(statistics, **given))


def _statistics_of(parts: Sequence[tuple[list[str], list[str]]]) -> list[str]:
    """Return the statistics in pairs (outcomes, statistics) as one list without duplicates."""
    return list(dict.fromkeys(each for _, statistics in parts for each in statistics))
