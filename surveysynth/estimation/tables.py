"""Tables: every cell, margin and the total of some variables, as a tidy frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import occurring
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import as_list, rows
from . import combining
from .estimators import Estimates, choose, estimator_of, samplics_seconds
from .intervals import USUAL, Interval, Method
from .quantities import Quantity, quantities
from .variance import degrees_of_freedom

TOTAL = "all"  # the label of a margin, as in the papers' tables
NUMBERS = ["estimate", "se", "df", "ci_low", "ci_high"]
QUANTITY = ["statistic", "outcome", "category", "prob"]
OWN = {*QUANTITY, "contrast", *NUMBERS, "n", "flag"}  # columns of a table
FIXED = 1e-12  # standard error over estimate that is rounding
Names = str | Sequence[str] | None
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Partition:
    """The domains that one subset of the ``by`` variables defines.

    ``labels`` has one row a domain, ``TOTAL`` in the columns that are summed over; ``domain``
    gives each record's row.
    """

    labels: pd.DataFrame
    domain: NDArray[np.intp]

    def same_domains(self, other: Partition) -> bool:
        """Whether another data set has the same domains: 1 is 1.0, whatever its column's type."""
        return bool(self.labels.to_numpy(dtype=object).tolist() == other.labels.to_numpy(dtype=object).tolist())


def estimate(
    design: SurveyDesign,
    outcome: Names = None,
    by: Names = None,
    statistic: str | Sequence[str] = "mean",
    *,
    denominator: str | None = None,
    quantiles: Sequence[float] | float = 0.5,
    estimator: str = "auto",
    missing: str = "fail",
    level: float = 0.95,
    df: float | None = None,
    interval: Method | None = None,
) -> pd.DataFrame:
    """Estimate means, totals, counts, proportions, ratios or quantiles by domain on one design.

    Source: Hu, Savitsky & Williams 2022a, section 2.3.

    Parameters
    ----------
    design : SurveyDesign
    outcome : str or list of str
        Numeric columns, of any type for proportions; not needed for counts.
    by : str or list of str, optional
        Every cell, every margin and the total of these variables; none: the whole population.
        A margin carries the label "all".
    statistic : {"mean", "total", "count", "proportion", "ratio", "quantile"} or a list of them
        A count is the estimated number of population units; a proportion is the share of each
        category of the outcome.
    denominator : str, optional
        Numeric column: a ratio is total of the outcome over total of this.
    quantiles : float or list of float
        Probabilities of the quantiles, between 0 and 1; default the median.
    estimator : {"auto", "samplics", "onepass", "replicates", "survey"}
        auto: replicates where the design has replicate weights; else samplics where it has the
        feature and takes under a second, else onepass.  survey is R's package, to compare with
        (:mod:`surveysynth.r`).  ``frame.attrs["estimator"]`` says which.
    missing : {"fail", "drop"}
        What missing outcomes do; "drop" estimates for the records that have one, as a domain
        (R's ``na.rm=TRUE``: the design keeps its size).  Records that lack a category of ``by`` are then in no cell of
        that column, and in the margins over it.
    level : float
        Of the intervals.
    df : float, optional
        Degrees of freedom of the intervals, in place of the domain's; ``numpy.inf`` makes normal intervals.
    interval : {"xlogit", "mean", "asin", "beta", "wilson", "likelihood"}, optional
        Of proportions, and of the shares behind quantiles (:class:`surveysynth.estimation.intervals.Interval`).

    Returns
    -------
    pandas.DataFrame
        ``<by...>, statistic, outcome, estimate, se, df, ci_low, ci_high, n``, with ``category``
        (its name as text, empty for other statistics) and ``prob`` after the outcome where there are
        proportions and quantiles.  Standard errors are Taylor-linearized or from the replicates.  df is that of
        the PSUs and strata that hold the domain, as R's ``degf`` counts them in a subset; a domain in a single PSU
        has none, and no interval.  n counts records.  Intervals are t intervals, unless told of 95%, and on the
        logit scale for proportions (R's ``svyciprop(method="xlogit")``, with replicates, too), Woodruff's for quantiles
        (R's ``svyquantile``).  ``frame.attrs["labels"]`` has the design's labels of outcomes and ``by`` columns.

    Raises
    ------
    InputError
        Unknown columns, statistics or estimators; missing values; an outcome that is no number;
        an estimator that lacks what the design or the statistic needs.
    """
    return tabulate(
        [design], outcome, by, statistic, denominator=denominator, quantiles=quantiles, estimator=estimator,
        missing=missing, interval=Interval.checked(level, df, interval),
    )  # fmt: skip


def tabulate(
    designs: Sequence[SurveyDesign],
    outcome: Names,
    by: Names,
    statistic: str | Sequence[str],
    *,
    denominator: str | None = None,
    quantiles: Sequence[float] | float = 0.5,
    estimator: str = "auto",
    missing: str = "fail",
    count_designs: Sequence[SurveyDesign] | None = None,
    synthesized: Sequence[str] = (),
    redrawn: Sequence[SurveyDesign] = (),
    of_model: Sequence[SurveyDesign] = (),
    interval: Interval = USUAL,
) -> pd.DataFrame:
    """:func:`estimate` on m synthetic designs, combined by the partial-synthesis rule.

    The designs share the values of ``by`` columns, row order aside, except those that are
    ``synthesized``.  ``count_designs`` hold the same records with the weights for counts.  ``redrawn`` are the first
    design under noise that was drawn again: the variance over them is added.  ``of_model`` are data sets of parameters
    that were drawn again, with the records of the first: they say how data sets differ.
    """
    check_designs(designs)
    names, statistics = as_list(by), as_list(statistic)
    asked = partial(
        quantities, statistics=statistics, denominator=denominator, quantiles=quantiles, missing=missing,
        interval=interval,
    )  # fmt: skip
    ordinary, counts = asked(designs, as_list(outcome)), designs if count_designs is None else count_designs
    noisy, modelled = (
        list(zip(*asked(again, as_list(outcome)), strict=True)) if again else [()] * len(ordinary[0])
        for again in (redrawn, of_model)
    )
    partitions = shared_partitions(designs, names, synthesized=synthesized, missing=missing)
    seconds = len(ordinary[0]) * sum(
        samplics_seconds(design, len(partition.labels))
        for same in partitions
        for design, partition in zip(designs, same, strict=True)
    )
    parts: list[pd.DataFrame] = []
    used: set[str] = set()
    for same_quantity, under_noise, under_model in zip(zip(*ordinary, strict=True), noisy, modelled, strict=True):
        quantity = same_quantity[0]
        surveys = counts if quantity.statistic == "count" else designs
        for same in partitions:
            results = []
            for design, each, partition in zip(surveys, same_quantity, same, strict=True):
                which = choose(estimator, design, each, seconds)
                used.add(which)
                results.append(estimator_of(which)(design, each, present(each, partition), len(partition.labels)))
            cell = [present(*each) for each in zip(same_quantity, same, strict=True)]
            degf = least_degf(surveys, cell, len(same[0].labels))
            noise, model = (
                np.array([
                    estimator_of(which)(design, each, present(each, same[0]), len(same[0].labels)).estimate
                    for design, each in zip(drawn, under, strict=True)
                ]) if drawn else None
                for drawn, under in ((redrawn if quantity.statistic != "count" else (), under_noise),
                                     (of_model, under_model))
            )  # fmt: skip
            parts.append(
                columns_of(
                    quantity,
                    same[0].labels,
                    statistics,
                    results,
                    degf,
                    cell,
                    noise=noise,
                    of_model=model,
                    interval=interval,
                )
            )
    table = pd.concat(parts, ignore_index=True)
    table.attrs["estimator"] = " and ".join(sorted(used))
    table.attrs["labels"] = headings(designs[0].labels, as_list(outcome), names, denominator)
    return table


def headings(
    labels: dict[str, str], outcomes: Sequence[str], by: Sequence[str], denominator: str | None
) -> dict[str, str]:
    """The labels of what a table names: outcomes, ratios of two of them, and ``by`` columns."""
    found = {name: labels[name] for name in (*outcomes, *by) if name in labels}
    if denominator is not None:
        for outcome in outcomes:
            if outcome in labels or denominator in labels:
                over = labels.get(outcome, outcome), labels.get(denominator, denominator)
                found[f"{outcome} / {denominator}"] = " / ".join(over)
    return found


def check_designs(designs: Sequence[object]) -> None:
    """Refuse what is no SurveyDesign (InputError)."""
    for design in designs:
        if not isinstance(design, SurveyDesign):
            raise InputError(f"estimates need a SurveyDesign, not {type(design).__name__} (a release has .tables())")


def present(quantity: Quantity, partition: Partition) -> NDArray[np.intp]:
    """Each record's domain, -1 where it has no value."""
    return partition.domain if quantity.missing is None else np.where(quantity.missing, -1, partition.domain)


def least_degf(designs: Sequence[SurveyDesign], domain: Sequence[NDArray[np.intp]], domains: int) -> Floats:
    """Degrees of freedom of each domain, the least of the m data sets: (domains,)."""
    return np.min([degrees_of_freedom(d, inside, domains) for d, inside in zip(designs, domain, strict=True)], axis=0)


def columns_of(
    quantity: Quantity,
    labels: pd.DataFrame,
    statistics: Sequence[str],
    results: Sequence[Estimates],
    degf: Floats,
    domain: Sequence[NDArray[np.intp]],
    contrast: str = "",
    noise: NDArray[np.float64] | None = None,
    of_model: NDArray[np.float64] | None = None,
    interval: Interval = USUAL,
) -> pd.DataFrame:
    """Rows of a table: one quantity in the domains of one partition, from m data sets.

    ``n`` is the least number of records that a domain has in one of them.
    """
    part = labels.copy()
    part["statistic"], part["outcome"] = quantity.statistic, quantity.outcome
    if "proportion" in statistics:
        part["category"] = quantity.category
    if "quantile" in statistics:
        part["prob"] = quantity.prob
    if contrast:
        part["contrast"] = contrast
    q, u = np.array([r.estimate for r in results]), np.array([r.variance for r in results])
    if np.isinf(q).any() or np.isinf(u).any():
        raise InputError(f"the {quantity.statistic} of {quantity.outcome!r} overflows; give it in a larger unit")
    # rounding noise: the design or the total fixes this estimate, within and between data sets
    fixed = np.abs(u) <= (FIXED * q) ** 2
    same_everywhere = np.ptp(q, axis=0) <= FIXED * np.abs(q[0])
    q = np.where(same_everywhere, q[0], q)
    u = np.where(fixed, 0.0, np.where(u < 0, np.nan, u))  # Horvitz and Thompson's may be negative: no standard error
    both = interval.known_df(combining.combine(q, u, degf, noise, of_model))
    n = np.min([np.bincount(d + 1, minlength=len(labels) + 1)[1:] for d in domain], axis=0)
    low, high = interval.limits(both)
    if quantity.statistic == "proportion" and not contrast:
        low, high = interval.of_shares(both, n.astype(np.float64), "xlogit")
    if len(results) == 1 and results[0].low is not None and results[0].high is not None:
        low, high = results[0].low, results[0].high
    for column, values in zip(NUMBERS, (both.estimate, both.se, both.df, low, high), strict=True):
        part[column] = values
    part["n"] = n
    return part


def stacked(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables one below the other, their columns in one order."""
    if len(tables) == 1:
        return tables[0]
    there = {column for table in tables for column in table}
    quantity = [c for c in QUANTITY if c in there]
    by = [c for c in tables[0] if c not in OWN]
    table = pd.concat(tables, ignore_index=True)[[*by, *quantity, *NUMBERS, "n"]]
    if "category" in there:
        table["category"] = table["category"].fillna("")
    table.attrs["estimator"] = " and ".join(sorted({t.attrs["estimator"] for t in tables}))
    table.attrs["labels"] = {name: text for t in tables for name, text in t.attrs["labels"].items()}
    return table


def shared_partitions(
    designs: Sequence[SurveyDesign],
    by: list[str],
    who: str = "the data sets",
    synthesized: Sequence[str] = (),
    missing: str = "fail",
) -> list[tuple[Partition, ...]]:
    """Partition after partition, that of every design; InputError where their domains are not the same.

    Domains made of ``synthesized`` columns may be without a record in some of the data sets.
    """
    partitions = list(zip(*(partitions_of(design, by, missing) for design in designs), strict=True))
    if set(by) & set(synthesized):
        columns = {name: pd.concat([design.column(name) for design in designs], ignore_index=True) for name in by}
        levels = {name: pd.factorize(column, sort=True)[1] for name, column in columns.items()}
        rank = {name: {level: i for i, level in enumerate(found)} for name, found in levels.items()}
        return [_united(same, rank) for same in partitions]
    if not all(other.same_domains(first) for first, *others in partitions for other in others):
        raise InputError(f"{who} do not have the same categories of {', '.join(by)}")
    return partitions


def _united(partitions: Sequence[Partition], rank: dict[str, dict[object, int]]) -> tuple[Partition, ...]:
    """The same partition of several data sets, with the domains that any of them has, in order."""
    every = pd.concat([p.labels for p in partitions], ignore_index=True).drop_duplicates()
    every = every.sort_values([*rank], ignore_index=True, key=lambda c: c.map(rank[str(c.name)]))
    number = {labels: i for i, labels in enumerate(every.itertuples(index=False, name=None))}
    return tuple(
        Partition(every, np.array([number[labels] for labels in p.labels.itertuples(index=False, name=None)])[p.domain])
        for p in partitions
    )


def partitions_of(design: SurveyDesign, by: list[str], missing: str = "fail") -> list[Partition]:
    """Cells first, then margins, the total last.

    Records of weight 0 are in no domain.  With ``missing="drop"`` those that lack a category are in no domain that its
    column makes, and in the margins over it, as in R.
    """
    if len(set(by)) < len(by):
        raise InputError(f"by names a column twice: {by}")
    if set(by) & OWN:
        raise InputError(f"a by column has the name of a column of the table; rename it: {by}")
    columns = {name: _levels(design, name, missing) for name in by}
    partitions = []
    entering = design.weights > 0
    for size in range(len(by), -1, -1):
        for subset in combinations(by, size):
            inside = np.flatnonzero(entering & np.all([columns[name][0] >= 0 for name in subset], axis=0))
            cell, domains = np.zeros(inside.size, dtype=np.intp), 1
            for name in subset:
                code, levels = columns[name]
                cells, cell = occurring(cell * len(levels) + code[inside], domains * len(levels))
                domains = cells.size
            first = np.empty(domains, dtype=np.intp)
            first[cell[::-1]] = inside[::-1]  # a record of each
            labels: dict[str, list[object]] = {name: [TOTAL] * domains for name in by}
            for name in subset:
                code, levels = columns[name]
                labels[name] = [levels[i] for i in code[first]]
            domain = cell if inside.size == design.n else np.full(design.n, -1, dtype=np.intp)
            domain[inside] = cell
            partitions.append(Partition(pd.DataFrame(labels, index=range(domains)), domain))
    return partitions


def _levels(design: SurveyDesign, name: str, missing: str) -> tuple[NDArray[np.intp], list[object]]:
    column = design.column(name)
    if missing == "fail" and column.isna().any():
        raise InputError(
            f"by column {name!r} is missing in {rows(column.isna())}; give these records a category, or say "
            "missing='drop'"
        )
    code, levels = pd.factorize(column, sort=True)
    listed = list(levels)
    if not listed:
        raise InputError(f"by column {name!r} is missing in every record")
    if TOTAL in listed:
        raise InputError(f"by column {name!r} has a category {TOTAL!r}, the name of its margin; rename the category")
    return code, listed
