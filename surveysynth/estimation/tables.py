"""Tables: all cells, margins and the total of some variables, as a tidy frame."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import check_cells, occurring
from ..design.derived import Where, meeting
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import as_list, one_of, rows
from . import combining
from .cells import CellMoments, RecordMoments
from .design_effects import Deff, design_effects
from .estimators import Estimates, choose, estimated, estimator_of, samplics_seconds
from .intervals import USUAL, Interval, Method
from .quantities import SHARES, Missing, Quantity, check_statistics, quantities
from .variance import degrees_of_freedom

TOTAL = "all"  # the label of a margin, as in the papers' tables
NUMBERS = ["estimate", "se", "df", "ci_low", "ci_high"]
QUANTITY = ["statistic", "outcome", "category", "prob"]
OWN = {*QUANTITY, "contrast", *NUMBERS, "n", "deff", "flag"}  # columns of a table
FIXED = 1e-12  # a standard error below this share of the estimate is rounding
Names = str | Sequence[str] | None
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Partition:
    """The domains defined by one subset of the ``by`` variables.

    ``labels`` has one row a domain, with ``TOTAL`` in columns that are summed over; ``domain`` gives the row of each
    record, through its ``cell``, -1 for no domain.  All partitions of a design share the cells.
    """

    labels: pd.DataFrame
    cell: NDArray[Any]
    cell_domain: NDArray[np.intp] | None = None  # None: the cells are the domains

    @property
    def domain(self) -> NDArray[np.intp]:
        """Domain of each record, computed on each call: (n,)."""
        if self.cell_domain is None:
            return np.asarray(self.cell, dtype=np.intp)
        return np.append(self.cell_domain, -1)[self.cell]

    def same_domains(self, other: Partition) -> bool:
        """Whether another data set has the same domains, where 1 and 1.0 are equal."""
        return bool(self.labels.to_numpy(dtype=object).tolist() == other.labels.to_numpy(dtype=object).tolist())


def estimate(
    design: SurveyDesign,
    outcome: Names = None,
    by: Names = None,
    statistic: str | Sequence[str] = "mean",
    *,
    denominator: str | None = None,
    quantiles: Sequence[float] | float | None = None,
    poverty_line: float | None = None,
    where: Where = None,
    deff: Deff = False,
    estimator: str = "auto",
    missing: Missing = "fail",
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
        Numeric columns; of any type for proportions; none for counts.
    by : str or list of str, optional
        Variables of the table, which has all cells, all margins and the total; default the whole
        population.  A margin has the label "all".
    statistic : one or a list of
        "mean", "total", "count" (the estimated number of population units), "proportion" (the share of each category of
        the outcome), "ratio", "quantile", "variance" (R's ``svyvar``), "gini", "quintile_share_ratio" (S80/S20) and
        "poverty_rate" (the share below the poverty line): :mod:`surveysynth.estimation.inequality` has the formulas.
    denominator : str, optional
        Numeric column: a ratio is the total of the outcome over the total of this column.
    quantiles : float or list of float, optional
        Probabilities of the quantiles, between 0 and 1; default the median.
    poverty_line : float, optional
        Line for poverty rates; default 60% of the median of all records, whatever ``by`` and ``where``, with its own
        variance.
    where : function of the frame, or name of a column, optional
        ``lambda f: f.age >= 65``, or a column of True and False: records that meet it are a domain of the whole design
        (R's ``subset``).  A missing value does not meet it.
    deff : {False, True, "replace"}
        Adds a column ``deff`` of design effects, against a simple random sample without or with replacement (R's
        ``deff=``), for means, proportions, totals and ratios.  For m data sets it is the mean over them.
    estimator : {"auto", "samplics", "onepass", "replicates", "survey"}
        auto is replicates if the design has replicate weights; else samplics if it has the
        feature and takes less than a second, else onepass.  survey is R's package, for comparison
        (:mod:`surveysynth.r`).  ``frame.attrs["estimator"]`` names the estimator used.
    missing : {"fail", "drop", "available"}
        Treatment of missing values.  "drop" leaves out the records that lack any of the outcomes, or the denominator,
        for all of these (R's ``svymean(~a + b, na.rm = TRUE)``); "available" uses all values of each outcome.  Either
        way the others are a domain, and the design keeps its size; counts are of all records.  Records that lack a
        category of ``by`` are in no cell of that column, but in the rows "all" over it: the row "all" of every column
        is of all records (R's ``svymean`` over all, not the sum of ``svyby``'s rows).  A warning gives their number.
    level : float
        Level of the intervals.
    df : float, optional
        Degrees of freedom of the intervals, in place of the domain's; ``numpy.inf`` makes normal intervals.
    interval : {"xlogit", "mean", "asin", "beta", "wilson", "likelihood"}, optional
        Method for proportions and poverty rates, and for the shares behind quantiles
        (:class:`surveysynth.estimation.intervals.Interval`).

    Returns
    -------
    pandas.DataFrame
        ``<by...>, statistic, outcome, estimate, se, df, ci_low, ci_high, n``, with ``category``
        (as text, empty for other statistics) after the outcome if there are proportions, and ``prob`` if there are
        quantiles.  Standard errors are Taylor-linearized or from the replicates.  df counts the PSUs and strata that
        hold the domain, as R's ``degf`` of a subset; a domain in a single PSU has none, and no interval.  n counts
        records.  Intervals are t intervals, by default of 95%: on the logit scale for proportions and poverty rates
        (R's ``svyciprop(method="xlogit")``, also with replicates), Woodruff's for quantiles (R's ``svyquantile``).  A
        share of 0 or 1, whose standard error is 0, has Clopper and Pearson's interval by every method.
        ``frame.attrs["labels"]`` has the design's labels of outcomes and ``by`` columns, ``attrs["missing"]`` the rule
        for missing values, ``attrs["without"]`` the numbers of records without a category of each ``by`` column.

    Raises
    ------
    InputError
        Unknown columns, statistics or estimators; an argument without effect on the statistics, as ``quantiles`` of a
        mean; missing values; an outcome that is not numeric; an estimator that does not support the design or the
        statistic; a ``where`` that no record meets.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> table = ss.estimate(design, "salary", by="gender")
    >>> table[["gender", "estimate", "se", "n"]].round()
       gender  estimate      se     n
    0  female   97364.0  2101.0   375
    1    male  127670.0  2261.0   625
    2     all  114629.0  1636.0  1000
    >>> ss.estimate(design, by="gender", statistic="count")[["gender", "estimate"]].round()
       gender  estimate
    0  female   44236.0
    1    male   58562.0
    2     all  102798.0
    >>> medians = ss.estimate(design, "salary", statistic="quantile", where=lambda f: f.field == "8")
    >>> medians[["prob", "estimate", "ci_low", "ci_high"]].round(1)
       prob  estimate   ci_low   ci_high
    0   0.5  102543.8  88720.0  130479.0
    """
    return tabulate(
        [design], outcome, by, statistic, denominator=denominator, quantiles=quantiles, poverty_line=poverty_line,
        where=where, deff=deff, estimator=estimator, missing=missing,
        interval=Interval.checked(level, df, interval),
    )  # fmt: skip


def tabulate(
    designs: Sequence[SurveyDesign],
    outcome: Names,
    by: Names,
    statistic: str | Sequence[str],
    *,
    denominator: str | None = None,
    quantiles: Sequence[float] | float | None = None,
    poverty_line: float | None = None,
    where: Where = None,
    deff: Deff = False,
    estimator: str = "auto",
    missing: str = "fail",
    count_designs: Sequence[SurveyDesign] | None = None,
    synthesized: Sequence[str] = (),
    redrawn: Sequence[SurveyDesign] = (),
    interval: Interval = USUAL,
) -> pd.DataFrame:
    """:func:`estimate` on m synthetic designs, combined by the partial-synthesis rule.

    The designs share the values of ``by`` columns, apart from row order, except those that are
    ``synthesized``.  ``count_designs`` hold the same records with the weights for counts.  ``redrawn`` are the first
    design with redrawn noise, whose variance is added.
    """
    check_designs(designs)
    one_of(deff, (False, True, "replace"), "deff")
    names, statistics = as_list(by), as_list(statistic)
    check_statistics(statistics, denominator=denominator, deff=deff)
    asked = partial(
        quantities, statistics=statistics, denominator=denominator, quantiles=quantiles, poverty_line=poverty_line,
        missing=missing, interval=interval,
    )  # fmt: skip
    inside = filtered(designs, where, again=redrawn)
    m = len(designs)
    every = asked((*designs, *redrawn), as_list(outcome), inside=inside, m=m)
    counts = count_designs or designs
    partitions = shared_partitions(
        designs, names, synthesized=synthesized, inside=inside, redrawn=redrawn, missing=missing
    )
    seconds = len(every[0]) * sum(
        samplics_seconds(design, len(partition.labels))
        for same in partitions
        for design, partition in zip(designs, same[:m], strict=True)
    )
    parts: list[pd.DataFrame] = []
    used: set[str] = set()
    for versions in zip(*every, strict=True):
        same_quantity, under_noise = versions[:m], versions[m:]
        quantity = same_quantity[0]
        surveys = counts if quantity.statistic == "count" else designs
        engines = [choose(estimator, design, q, seconds) for design, q in zip(surveys, same_quantity, strict=True)]
        used.update(engines)
        files = _estimands(engines, surveys, same_quantity, partitions[0][:m])
        noise = _estimands(engines[-1:] * len(redrawn), redrawn, under_noise, partitions[0][m:])
        for same in partitions:
            part, results = _rows(files, noise, same, statistics, interval)
            if deff:
                part["deff"] = _mean_design_effects(surveys, same_quantity, same[:m], results, len(part), deff)
            parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    table.attrs["estimator"] = " and ".join(sorted(used))
    table.attrs["labels"] = headings(designs[0].labels, as_list(outcome), names, denominator)
    table.attrs |= about_missing(designs, names, missing, inside[:m])
    return table


def _mean_design_effects(
    surveys: Sequence[SurveyDesign], quantities: Sequence[Quantity], partitions: Sequence[Partition],
    results: Sequence[Estimates], domains: int, kind: Any,
) -> Floats:  # fmt: skip
    """Design effects of the domains, averaged over the data sets."""
    each = [
        design_effects(design, quantity, present(quantity, partition), domains, result.variance, kind)
        for design, quantity, partition, result in zip(surveys, quantities, partitions, results, strict=True)
    ]
    return np.asarray(np.mean(each, axis=0))


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Estimand:
    """One quantity in one design, estimated in the domains of partitions that share their cells."""

    estimator: str
    design: SurveyDesign
    quantity: Quantity
    partition: Partition

    @cached_property
    def _moments(self) -> CellMoments | None:
        """Moments of the cells if they suffice, so that one pass over the records serves all partitions."""
        cell_domain = self.partition.cell_domain
        if cell_domain is None or self.estimator != "onepass" or not RecordMoments.suit(self.design, self.quantity):
            return None
        return RecordMoments.from_design(self.design, self.quantity, self.partition.cell, cell_domain.size)

    def _by_cells(self, partition: Partition) -> tuple[CellMoments, NDArray[np.intp]] | None:
        """Moments, and the domain of each cell; None if the records are needed."""
        if self._moments is None or partition.cell_domain is None:
            return None
        return self._moments, partition.cell_domain

    def in_domains(self, partition: Partition, domains: int) -> Estimates:
        """Estimates and variances in the domains of a partition."""
        if (cells := self._by_cells(partition)) is not None:
            return cells[0].with_variances(cells[1], domains)
        return estimator_of(self.estimator)(self.design, self.quantity, present(self.quantity, partition), domains)

    def alone(self, partition: Partition, domains: int) -> Floats:
        """Estimates, without variances if that saves work: (domains,)."""
        if (cells := self._by_cells(partition)) is not None:
            return cells[0].estimates(cells[1], domains)
        return estimated(self.estimator, self.design, self.quantity, present(self.quantity, partition), domains)

    def records_and_degf(self, partition: Partition, domains: int) -> tuple[NDArray[np.intp], Floats]:
        """Records and degrees of freedom of each domain: (domains,) each."""
        if (cells := self._by_cells(partition)) is not None:
            return cells[0].records(cells[1], domains), cells[0].degrees_of_freedom(cells[1], domains)
        domain = present(self.quantity, partition)
        return records_of(domain, domains), degrees_of_freedom(self.design, domain, domains)


def _estimands(
    estimators: Sequence[str], designs: Sequence[SurveyDesign], quantities: Sequence[Quantity],
    cells: Sequence[Partition],
) -> list[Estimand]:  # fmt: skip
    """One estimand for each design; an empty list without designs, whatever the partitions."""
    return [Estimand(*each) for each in zip(estimators, designs, quantities, cells, strict=True)] if designs else []


def _rows(
    files: Sequence[Estimand], noise: Sequence[Estimand], same: Sequence[Partition], statistics: Sequence[str],
    interval: Interval,
) -> tuple[pd.DataFrame, list[Estimates]]:  # fmt: skip
    """Rows of a table for one quantity in one partition of all data sets, and the estimates of each data set."""
    m, domains = len(files), len(same[0].labels)
    results = [each.in_domains(there, domains) for each, there in zip(files, same[:m], strict=True)]
    sizes = [each.records_and_degf(there, domains) for each, there in zip(files, same[:m], strict=True)]
    part = columns_of(
        files[0].quantity, same[0].labels, statistics, results, np.min([degf for _, degf in sizes], axis=0),
        np.min([n for n, _ in sizes], axis=0), interval=interval, noise=_every(noise, same[m:], domains),
    )  # fmt: skip
    return part, results


def _every(estimands: Sequence[Estimand], partitions: Sequence[Partition], domains: int) -> Floats | None:
    """Estimates of all estimands, (R, domains); None without estimands."""
    if not estimands:
        return None
    return np.array([each.alone(there, domains) for each, there in zip(estimands, partitions, strict=True)])


def about_missing(
    designs: Sequence[SurveyDesign], by: Sequence[str], missing: str, inside: Sequence[Bools | None]
) -> dict[str, Any]:
    """Attributes of a table: the rule for missing values, and the numbers of records without a category.

    The numbers are the largest over the data sets; a warning gives them.
    """
    without = {}
    for name in by if missing != "fail" else ():
        gone = [
            design.column(name).isna().to_numpy() & (design.weights > 0) & (True if there is None else there)
            for design, there in zip(designs, inside, strict=True)
        ]
        if count := max(int(each.sum()) for each in gone):
            without[name] = count
    if without:
        lacking = " and ".join(f"{count:,} without {name!r}" for name, count in without.items())
        text = f"the rows {TOTAL!r} include all records, also {lacking}, which are in no row of a category"
        warnings.warn(text, stacklevel=4)
    return {"missing": missing, "without": without}


def headings(
    labels: dict[str, str], outcomes: Sequence[str], by: Sequence[str], denominator: str | None
) -> dict[str, str]:
    """Labels of the outcomes, ratios and ``by`` columns of a table."""
    found = {name: labels[name] for name in (*outcomes, *by) if name in labels}
    if denominator is not None:
        for outcome in outcomes:
            if outcome in labels or denominator in labels:
                over = labels.get(outcome, outcome), labels.get(denominator, denominator)
                found[f"{outcome} / {denominator}"] = " / ".join(over)
    return found


def check_designs(designs: Sequence[object]) -> None:
    """Refuse anything but a SurveyDesign (InputError)."""
    for design in designs:
        if not isinstance(design, SurveyDesign):
            raise InputError(f"estimates need a SurveyDesign, not {type(design).__name__} (a release has .tables())")


def present(quantity: Quantity, partition: Partition) -> NDArray[np.intp]:
    """Domain of each record, -1 without a value."""
    return partition.domain if quantity.missing is None else np.where(quantity.missing, -1, partition.domain)


def records_of(domain: NDArray[np.intp], domains: int) -> NDArray[np.intp]:
    """Number of records of each domain: (domains,)."""
    return np.bincount(domain + 1, minlength=domains + 1)[1:]


def least_degf(designs: Sequence[SurveyDesign], domain: Sequence[NDArray[np.intp]], domains: int) -> Floats:
    """Degrees of freedom of each domain, the least over the data sets: (domains,)."""
    return np.min([degrees_of_freedom(d, inside, domains) for d, inside in zip(designs, domain, strict=True)], axis=0)


def columns_of(
    quantity: Quantity,
    labels: pd.DataFrame,
    statistics: Sequence[str],
    results: Sequence[Estimates],
    degf: Floats,
    n: NDArray[np.intp],
    contrast: str = "",
    noise: NDArray[np.float64] | None = None,
    interval: Interval = USUAL,
) -> pd.DataFrame:
    """Rows of a table for one quantity in the domains of one partition, from m data sets.

    ``n`` (domains,) is the least number of records of a domain over the data sets.
    """
    part = labels.copy()
    part["statistic"], part["outcome"] = quantity.statistic, quantity.outcome
    if "proportion" in statistics:
        part["category"] = quantity.category
    if "quantile" in statistics:
        part["prob"] = quantity.prob
    if contrast:
        part["contrast"] = contrast
    both = interval.known_df(combined_of(quantity, results, degf, noise))
    low, high = interval.limits(both)
    if quantity.statistic in SHARES and not contrast:
        low, high = interval.share_limits(both, n.astype(np.float64), "xlogit")
    alone = len(results) == 1 and noise is None
    if alone and results[0].low is not None and results[0].high is not None:
        low, high = results[0].low, results[0].high
    for column, values in zip(NUMBERS, (both.estimate, both.se, both.df, low, high), strict=True):
        part[column] = values
    part["n"] = n
    return part


def combined_of(
    quantity: Quantity, results: Sequence[Estimates], degf: Floats, noise: Floats | None
) -> combining.Combined:
    """One quantity in D domains from m data sets; arguments as for :func:`columns_of`.

    Raises
    ------
    InputError
        An estimate or its variance overflows.
    """
    q, u = np.array([r.estimate for r in results]), np.array([r.variance for r in results])
    if np.isinf(q).any() or np.isinf(u).any():
        raise InputError(f"the {quantity.statistic} of {quantity.outcome!r} overflows; give it in a larger unit")
    # only rounding: the design or the total fixes this estimate, within and between data sets
    fixed = np.abs(u) <= (FIXED * q) ** 2
    q = _without_rounding(q)
    u = np.where(fixed, 0.0, np.where(u < 0, np.nan, u))  # Horvitz-Thompson variances may be negative
    if quantity.statistic == "quantile":
        u = _known_in_most(u)
    return combining.combine(q, u, degf, noise)


def _known_in_most(u: Floats) -> Floats:
    """Variances of quantiles (m, D), with the mean of the others for a few data sets without Woodruff limits.

    There is no variance if half of the data sets or more have no limits.
    """
    known = ~np.isnan(u)
    many = 2 * known.sum(axis=0) > len(u)
    mean = np.where(known, u, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known | ~many, u, mean)


def _without_rounding(estimates: Floats) -> Floats:
    """Estimates (R, D), made exactly equal where they agree up to rounding."""
    return np.where(np.ptp(estimates, axis=0) <= FIXED * np.abs(estimates[0]), estimates[0], estimates)


def stacked(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables stacked by rows, with columns in one order."""
    if len(tables) == 1:
        return tables[0]
    there = {column for table in tables for column in table}
    quantity = [c for c in QUANTITY if c in there]
    by = [c for c in tables[0] if c not in OWN]
    last = ["n", "deff"] if "deff" in there else ["n"]
    table = pd.concat(tables, ignore_index=True)[[*by, *quantity, *NUMBERS, *last]]
    if "category" in there:
        table["category"] = table["category"].fillna("")
    table.attrs["estimator"] = " and ".join(sorted({t.attrs["estimator"] for t in tables}))
    table.attrs["labels"] = {name: text for t in tables for name, text in t.attrs["labels"].items()}
    table.attrs |= {name: tables[0].attrs[name] for name in ("missing", "without")}
    return table


def shared_partitions(
    designs: Sequence[SurveyDesign],
    by: list[str],
    who: str = "the data sets",
    synthesized: Sequence[str] = (),
    inside: Sequence[Bools | None] = (),
    redrawn: Sequence[SurveyDesign] = (),
    missing: str = "fail",
) -> list[tuple[Partition, ...]]:
    """Partitions of all designs, one tuple a subset of ``by``; InputError if their domains differ.

    Domains of ``synthesized`` columns, and of records ``inside`` a filter, may be empty in some data sets.  Partitions
    of ``redrawn`` designs follow the others; records outside the domains of the others are in none.  ``redrawn`` have
    the records of the first data set, or all the same subset of them.
    """
    if set(by) & set(synthesized) or any(there is not None for there in inside):
        columns = {name: pd.concat([design.column(name) for design in designs], ignore_index=True) for name in by}
        levels = {name: pd.factorize(column, sort=True)[1] for name, column in columns.items()}
        rank = {name: {level: i for i, level in enumerate(found)} for name, found in levels.items()}
        every = [*designs, *redrawn]
        filters = inside or [None] * len(every)
        theirs = [partitions_of(d, by, there, missing) for d, there in zip(every, filters, strict=True)]
        return [_united(same, len(designs), rank) for same in zip(*theirs, strict=True)]
    partitions = list(zip(*(partitions_of(design, by, missing=missing) for design in designs), strict=True))
    if not all(other.same_domains(first) for first, *others in partitions for other in others):
        raise InputError(f"{who} do not have the same categories of {', '.join(by)}")
    fewer = [same[0] for same in partitions]
    if redrawn and redrawn[0].n != designs[0].n:
        fewer = [
            Partition(same[0].labels, _renumbered(own, _numbers(same[0].labels)))
            for same, own in zip(partitions, partitions_of(redrawn[0], by, missing=missing), strict=True)
        ]
    return [(*same, *[few] * len(redrawn)) for same, few in zip(partitions, fewer, strict=True)]


def _united(partitions: Sequence[Partition], m: int, rank: dict[str, dict[object, int]]) -> tuple[Partition, ...]:
    """One partition of several data sets, with all domains of the first m, in order."""
    if not rank:
        return tuple(Partition(pd.DataFrame(index=range(1)), p.domain) for p in partitions)
    every = pd.concat([p.labels for p in partitions[:m]], ignore_index=True).drop_duplicates()
    every = every.sort_values([*rank], ignore_index=True, key=lambda c: c.map(rank[str(c.name)]))
    return tuple(Partition(every, _renumbered(p, _numbers(every))) for p in partitions)


def _numbers(labels: pd.DataFrame) -> dict[tuple[object, ...], int]:
    """Number of each domain, by its labels."""
    return {each: i for i, each in enumerate(labels.itertuples(index=False, name=None))}


def _renumbered(partition: Partition, number: dict[tuple[object, ...], int]) -> NDArray[np.intp]:
    """Domain of each record by the numbers of the labels, -1 without a number."""
    labels = partition.labels.itertuples(index=False, name=None)
    return np.array([*(number.get(each, -1) for each in labels), -1], dtype=np.intp)[partition.domain]


def filtered(designs: Sequence[SurveyDesign], where: Where, again: Sequence[SurveyDesign] = ()) -> list[Bools | None]:
    """Records of each data set that meet a condition, (n,); None without a condition.

    Raises
    ------
    InputError
        As :func:`surveysynth.design.derived.meeting`; no record of the ``designs`` meets it.
    """
    if where is None:
        return [None] * (len(designs) + len(again))
    met = [meeting(design.frame, where) & design.entering for design in (*designs, *again)]
    if not any(there.any() for there in met[: len(designs)]):
        raise InputError("where: no record meets the condition, so there is nothing to estimate")
    return [*met]


def partitions_of(
    design: SurveyDesign, by: list[str], inside: Bools | None = None, missing: str = "fail"
) -> list[Partition]:
    """Partitions of the records ``inside`` a filter: cells first, then margins, the total last.

    The domain of other records is -1.  So is that of records of weight 0, unless they have replicate weights and other
    records are in the domain.  Unless ``missing="fail"``, records that lack a category are in no domain by its column,
    but in the margins over it.
    """
    if len(set(by)) < len(by):
        raise InputError(f"by names a column twice: {by}")
    if set(by) & OWN:
        raise InputError(f"a by column has the name of a column of the table; rename it: {by}")
    there = slice(None) if inside is None else np.flatnonzero(inside)
    entering, weighted = design.entering, design.weights > 0
    if inside is not None:
        entering, weighted = entering & inside, weighted & inside
    cell, codes_of, levels_of = np.zeros(design.n, dtype=np.int32), np.zeros((1, 0), dtype=np.intp), []
    for name in by:  # cells, and their level in every column, the last one for a missing category
        code, levels = _levels(design.column(name).iloc[there], name, missing)
        whole = code if inside is None else np.zeros(design.n, dtype=np.intp)
        if inside is not None:
            whole[there] = code
        many = len(levels) + 1
        cells, number = occurring(cell.astype(np.intp) * many + whole % many, len(codes_of) * many)
        cell = number.astype(np.int32)
        codes_of = np.column_stack([codes_of[cells // many], cells % many])
        levels_of.append(levels)
    entering_cell = np.bincount(cell[weighted], minlength=len(codes_of)) > 0
    cell[~entering] = -1
    partitions = []
    for size in range(len(by), -1, -1):
        for subset in combinations(range(len(by)), size):
            known = np.all([codes_of[:, j] < len(levels_of[j]) for j in subset], axis=0)
            filled = np.flatnonzero(entering_cell & known)
            domain, domains = np.zeros(filled.size, dtype=np.intp), min(filled.size, 1)
            for j in subset:
                found, domain = occurring(domain * len(levels_of[j]) + codes_of[filled, j], domains * len(levels_of[j]))
                domains = found.size
            first = np.empty(domains, dtype=np.intp)
            first[domain[::-1]] = filled[::-1]  # the first cell of each domain
            labels: dict[str, list[object]] = {name: [TOTAL] * domains for name in by}
            for j in subset:
                labels[by[j]] = [levels_of[j][i] for i in codes_of[first, j]]
            cell_domain = np.full(len(codes_of), -1, dtype=np.intp)
            cell_domain[filled] = domain
            partitions.append(Partition(pd.DataFrame(labels, index=range(domains)), cell, cell_domain))
    return partitions


def _levels(column: pd.Series, name: str, missing: str) -> tuple[NDArray[np.intp], list[object]]:
    one_of(missing, get_args(Missing), "missing")
    if missing == "fail" and column.isna().any():
        numbers = np.zeros(int(column.index.max()) + 1, dtype=bool)
        numbers[column.index[column.isna()]] = True
        raise InputError(
            f"by column {name!r} is missing in {rows(numbers)}; give these records a category, or say missing='drop'"
        )
    check_cells(column, name)
    code, levels = pd.factorize(column, sort=True)
    listed = list(levels)
    if len(column) and not listed:
        raise InputError(f"by column {name!r} is missing in every record")
    if TOTAL in listed:
        raise InputError(f"by column {name!r} has a category {TOTAL!r}, the name of its margin; rename the category")
    return code, listed
