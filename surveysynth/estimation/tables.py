"""Tables: every cell, margin and the total of some variables, as a tidy frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design import SurveyDesign
from ..errors import InputError, as_list, rows
from . import combining, taylor
from .taylor import Statistic

TOTAL = "all"  # the label of a margin, as in the papers' tables
ESTIMATORS = {"samplics": taylor.samplics, "onepass": taylor.onepass}
Names = str | Sequence[str] | None


@dataclass(frozen=True)
class Partition:
    """The domains that one subset of the ``by`` variables defines.

    ``labels`` has one row a domain, ``TOTAL`` in the columns that are summed over; ``domain``
    gives each record's row.
    """

    labels: pd.DataFrame
    domain: NDArray[np.intp]


def estimate(
    design: SurveyDesign,
    outcome: Names = None,
    by: Names = None,
    statistic: str | Sequence[str] = "mean",
    *,
    estimator: str = "auto",
    missing: str = "fail",
) -> pd.DataFrame:
    """Estimate means, totals or counts by domain on one design (T 2.3).

    Parameters
    ----------
    design : SurveyDesign
    outcome : str or list of str
        Numeric columns; not needed for counts.
    by : str or list of str, optional
        Every cell, every margin and the total of these variables; none: the whole population.
        A margin carries the label "all".
    statistic : {"mean", "total", "count"} or a list of them
        A count is the estimated number of population units.
    estimator : {"auto", "samplics", "onepass"}
        auto: samplics where it has the feature and takes under a second, else onepass.
        ``frame.attrs["estimator"]`` says which.
    missing : {"fail", "drop"}
        What missing outcomes do; "drop" estimates for the records that have one, as a domain
        (R's ``na.rm=TRUE``: the design keeps its size).

    Returns
    -------
    pandas.DataFrame
        ``<by...>, statistic, outcome, estimate, se, df, ci_low, ci_high, n``: standard errors
        are Taylor-linearized, df is PSUs minus strata, intervals are 95% t intervals, n counts
        records.

    Raises
    ------
    InputError
        Unknown columns, statistics or estimators; missing values; an outcome that is no number.
    """
    return tabulate([design], outcome, by, statistic, estimator=estimator, missing=missing)


def tabulate(
    designs: Sequence[SurveyDesign],
    outcome: Names,
    by: Names,
    statistic: str | Sequence[str],
    *,
    estimator: str = "auto",
    missing: str = "fail",
    count_designs: Sequence[SurveyDesign] | None = None,
) -> pd.DataFrame:
    """:func:`estimate` on m synthetic designs, combined by the partial-synthesis rule.

    The designs share the ``by`` columns' values (they are not synthesized), row order aside.
    ``count_designs`` are the same records as counts are to be estimated from them.
    """
    for design in designs:
        if not isinstance(design, SurveyDesign):
            raise InputError(f"estimates need a SurveyDesign, not {type(design).__name__} (a release has .tables())")
    outcomes, names, statistics = as_list(outcome), as_list(by), as_list(statistic)
    if not statistics or not set(statistics) <= set(get_args(Statistic)):
        raise InputError(f"statistic={statistic!r} is not one of {', '.join(get_args(Statistic))}, or a list of them")
    if not outcomes and set(statistics) - {"count"}:
        raise InputError(f"statistic={statistics} needs an outcome")
    if missing not in ("fail", "drop"):
        raise InputError(f"missing={missing!r} is not one of fail, drop")
    count_designs = designs if count_designs is None else count_designs
    parts: list[pd.DataFrame] = []
    used: set[str] = set()
    partitions = [list(partitions_of(design, names)) for design in designs]
    values = [{o: _outcome(design, o, missing) for o in outcomes} for design in designs]
    for s in statistics:
        surveys = count_designs if s == "count" else designs
        degf = min(design.degf for design in surveys)
        for o in outcomes if s != "count" else [""]:
            for same in zip(*partitions, strict=True):
                if not all(p.labels.equals(same[0].labels) for p in same):
                    raise InputError(f"the data sets do not have the same categories of {', '.join(names)}")
                results = []
                for design, partition, y in zip(surveys, same, values, strict=True):
                    x = y[o] if o else np.empty(0)
                    domain = np.where(np.isnan(x), -1, partition.domain) if o else partition.domain
                    domains = len(partition.labels)
                    which = taylor.choose(estimator, design, domains)
                    used.add(which)
                    result = ESTIMATORS[which](design, x, domain, domains, s)  # type: ignore[arg-type]
                    n = np.bincount(domain[domain >= 0], minlength=domains)
                    results.append((result.estimate, result.variance, n))
                q, u, n_d = (np.array(a) for a in zip(*results, strict=True))
                if np.isinf(q).any() or np.isinf(u).any():
                    raise InputError(f"the {s} of {o!r} overflows; give the outcome in a larger unit")
                # rounding noise: the design or the total fixes this estimate, within and between data sets
                fixed = u <= (1e-10 * q) ** 2
                same_everywhere = np.ptp(q, axis=0) <= 1e-10 * np.abs(q[0])
                q = np.where(same_everywhere, q[0], q)
                both = combining.combine(q, np.where(fixed, 0.0, u), degf)
                low, high = combining.interval(both)
                part = same[0].labels.copy()
                part["statistic"], part["outcome"] = s, o
                part["estimate"], part["se"], part["df"] = both.estimate, both.se, both.df
                part["ci_low"], part["ci_high"], part["n"] = low, high, n_d[0]
                parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    table.attrs["estimator"] = " and ".join(sorted(used))
    return table


def _outcome(design: SurveyDesign, name: str, missing: str) -> NDArray[np.float64]:
    y = design.numeric(name)
    if np.isinf(y).any():
        raise InputError(f"outcome {name!r} is infinite in {rows(np.isinf(y))}; correct these or declare them missing")
    if missing == "fail" and np.isnan(y).any():
        raise InputError(
            f"outcome {name!r} is missing in {rows(np.isnan(y))}; fill it in, or say missing='drop' to estimate for "
            "the records that have one"
        )
    return y


def partitions_of(design: SurveyDesign, by: list[str]) -> list[Partition]:
    """Cells first, then margins, the total last."""
    if len(set(by)) < len(by):
        raise InputError(f"by names a column twice: {by}")
    if set(by) & {"statistic", "outcome", "estimate", "se", "df", "ci_low", "ci_high", "n", "flag"}:
        raise InputError(f"a by column has the name of a column of the table; rename it: {by}")
    columns = {name: _levels(design, name) for name in by}
    partitions = []
    for size in range(len(by), -1, -1):
        for subset in combinations(by, size):
            code = np.zeros(design.n, dtype=np.intp)
            for name in subset:
                code = code * len(columns[name][1]) + columns[name][0]
            present, domain = np.unique(code, return_inverse=True)
            labels: dict[str, list[object]] = {name: [TOTAL] * present.size for name in by}
            for name in reversed(subset):
                levels = columns[name][1]
                labels[name] = [levels[i] for i in present % len(levels)]
                present = present // len(levels)
            index = range(max(1, int(domain.max()) + 1))
            partitions.append(Partition(pd.DataFrame(labels, index=index), domain))
    return partitions


def _levels(design: SurveyDesign, name: str) -> tuple[NDArray[np.intp], list[object]]:
    column = design.column(name)
    if column.isna().any():
        raise InputError(f"by column {name!r} is missing in {rows(column.isna())}; give these records a category")
    code, levels = pd.factorize(column, sort=True)
    listed = list(levels)
    if TOTAL in listed:
        raise InputError(f"by column {name!r} has a category {TOTAL!r}, the name of its margin; rename the category")
    return code, listed
