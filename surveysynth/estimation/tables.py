"""Tables of estimates, one row for each estimate, with all cells and margins of some variables, and the total.

A cell is a combination of the categories of all ``by`` variables.  A margin is a combination of the categories of some
of them, over all categories of the other variables.  Cells, margins and the whole population are the domains of a
table.  Functions for m synthetic data sets also take ``redrawn`` data sets: versions of the first data set, simulated
again as if the privacy noise in the counts behind it had other values.  The variance of an estimate over these
versions is the variance due to that noise (:mod:`surveysynth.estimation.combining`).
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations, product
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import check_cells, occurring
from ..design.derived import Where, meeting
from ..design.discrete import levels_in
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
FIXED = 1e-12  # a standard error below this share of the estimate is rounding error
Names = str | Sequence[str] | None
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Partition:
    """The domains that one subset of the ``by`` variables defines, and the domain of each of n records.

    ``labels`` has one row for each domain.  It has one column for each ``by`` variable, with "all" for variables that
    are not in the subset.  ``cell`` gives the cell of each record, (n,), and ``cell_domain`` the domain of each cell,
    as a row number in ``labels``.  If ``cell_domain`` is None, ``cell`` gives the domain of each record.  A value of -1
    means no cell or no domain.
    """

    labels: pd.DataFrame
    cell: NDArray[Any]
    cell_domain: NDArray[np.intp] | None = None  # None: the cells are the domains

    @property
    def domain(self) -> NDArray[np.intp]:
        """Domain of each record, or -1 for none: (n,).  The array is computed at each access."""
        if self.cell_domain is None:
            return np.asarray(self.cell, dtype=np.intp)
        return np.append(self.cell_domain, -1)[self.cell]

    def same_domains(self, other: Partition) -> bool:
        """Return True if both partitions have the same domains in the same order.  Categories 1 and 1.0 are equal."""
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
    empty: bool = False,
) -> pd.DataFrame:
    """Estimate means, totals, counts, proportions, ratios, quantiles or measures of inequality by domain.

    Source: Hu, Savitsky & Williams 2022a, section 2.3.

    Parameters
    ----------
    design : SurveyDesign
    outcome : str or list of str
        Numeric columns, or columns of any type for proportions.  Counts have no outcome.
    by : str or list of str, optional
        Variables of the table, which has all cells, all margins and the total.  A margin has the
        label "all".  By default there is only the estimate for the whole population.
    statistic : str or list of str
        One or several of "mean", "total", "count" (the estimated number of population units), "proportion" (the share
        of each category of the outcome), "ratio", "quantile", "variance" (R's ``svyvar``), "gini",
        "quintile_share_ratio" (S80/S20) and "poverty_rate" (the share below the poverty line):
        :mod:`surveysynth.estimation.inequality` has the formulas.
    denominator : str, optional
        Numeric column for ratios.  A ratio is the total of the outcome divided by the total of this column.
    quantiles : float or list of float, optional
        Probabilities of the quantiles, between 0 and 1.  By default the median.
    poverty_line : float, optional
        Line for poverty rates.  By default the line is 60% of the median of all records, whatever ``by`` and ``where``
        are, and the standard error includes the variance of this median.
    where : function of the frame, or name of a column, optional
        A condition, ``lambda f: f.age >= 65``, or a column of True and False.  Records that meet the condition are a
        domain of the whole design (R's ``subset``).  A record with a missing value does not meet the condition.
    deff : {False, True, "replace"}
        Add a column ``deff`` of design effects for means, proportions, totals, ratios, and poverty rates with a given
        poverty line.  The comparison is with a simple random sample without replacement (True) or with replacement
        ("replace"), as with R's ``deff=``.
    estimator : {"auto", "samplics", "onepass", "replicates", "survey"}
        "auto" is "replicates" if the design has replicate weights.  Otherwise "auto" is "samplics" (the Python package)
        if samplics supports the design and the statistic and takes less than a second, and else "onepass" (the code of
        this package).  "survey" is R's package, for comparison (:mod:`surveysynth.r`).  ``frame.attrs["estimator"]``
        names the estimator that was used.
    missing : {"fail", "drop", "available"}
        Treatment of missing values.  "fail" raises InputError for a missing outcome, denominator or ``by`` variable.
        "drop" leaves out records with any missing outcome or denominator, for all outcomes (R's
        ``svymean(~a + b, na.rm = TRUE)``).  "available" uses, for each outcome, all records with a value of that
        outcome.  With "drop" and "available", the records that are used are a domain of the whole design, and counts
        are of all records.  Records with a missing value of a ``by`` variable are in no category of this variable, but
        are included where it is "all" (as in R's ``svymean`` over all records, unlike the sum of the rows of
        ``svyby``).  A warning gives the number of such records.
    level : float
        Level of the intervals.
    df : float, optional
        Degrees of freedom of all intervals, instead of the degrees of freedom of each domain.  ``numpy.inf`` gives
        normal intervals.
    interval : {"xlogit", "mean", "asin", "beta", "wilson", "likelihood"}, optional
        Method for proportions and poverty rates, and for the shares behind quantiles
        (:class:`surveysynth.estimation.intervals.Interval`).
    empty : bool
        True: the table also has rows for cells and margins without records, so that every combination of the
        categories of the ``by`` columns has a row.  The categories of a pandas Categorical column are all categories of
        its type, also those that no record has.  The same holds for the categories of proportions.

    Returns
    -------
    pandas.DataFrame
        Columns ``<by...>, statistic, outcome, estimate, se, df, ci_low, ci_high, n``.  If there are proportions,
        ``category`` follows the outcome (as text, empty for other statistics), and if there are quantiles, ``prob``.
        n is the number of records.

        Standard errors are Taylor-linearized or from replicate weights.  df is the number of PSUs with records of the
        domain minus the number of strata with such records, or the rank of the replicate weights of the domain minus 1,
        as R's ``degf`` of a subset.  A domain in a single PSU has df 0 and no interval.

        Intervals are t intervals, by default of 95%: on the logit scale for proportions and poverty rates (R's
        ``svyciprop(method="xlogit")``, also with replicate weights), and Woodruff's for quantiles (R's
        ``svyquantile``).  A share of 0 or 1 has standard error 0, and by every method its interval is Clopper and
        Pearson's.

        ``frame.attrs["labels"]`` has the design's labels of outcomes and ``by`` columns,
        ``attrs["missing"]`` the argument ``missing``, and ``attrs["without"]``, for each ``by`` column with missing
        values, the number of records without a category.

    Raises
    ------
    InputError
        A column, statistic or estimator is unknown; an argument has no effect on the statistics, such as ``quantiles``
        on a mean; values are missing or infinite; an outcome is not numeric; an estimate overflows; the estimator does
        not support the design or the statistic; no record meets the condition ``where``.

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
        interval=Interval.checked(level, df, interval), empty=empty,
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
    empty: bool = False,
) -> pd.DataFrame:
    """Make a table of estimates by domain, combined over m synthetic data sets by :func:`.combining.combine`.

    The table is described at :func:`estimate`.  All designs have the same values in the ``by`` columns, in any order
    of the records, except in columns that are ``synthesized``.  ``count_designs`` have the records of the ``designs``,
    with the weights, strata and PSUs that counts need.  ``redrawn`` holds versions of the first design with other noise
    (module docstring).  The variance of the estimates over these versions is added.  Design effects are means over the
    m designs.
    """
    check_designs(designs)
    one_of(deff, (False, True, "replace"), "deff")
    one_of(empty, (False, True), "empty")
    names, statistics = as_list(by), as_list(statistic)
    check_statistics(statistics, denominator=denominator, deff=deff)
    asked = partial(
        quantities, statistics=statistics, denominator=denominator, quantiles=quantiles, poverty_line=poverty_line,
        missing=missing, interval=interval, empty=empty,
    )  # fmt: skip
    inside = filtered(designs, where, again=redrawn)
    m = len(designs)
    every = asked((*designs, *redrawn), as_list(outcome), inside=inside, m=m)
    counts = count_designs or designs
    partitions = shared_partitions(
        designs, names, synthesized=synthesized, inside=inside, redrawn=redrawn, missing=missing
    )
    if empty:
        columns = {name: pd.concat([each.column(name) for each in designs], ignore_index=True) for name in names}
        partitions = with_empty_domains(partitions, {name: levels_in(column) for name, column in columns.items()})
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
    each = [
        design_effects(design, quantity, present(quantity, partition), domains, result.variance, kind)
        for design, quantity, partition, result in zip(surveys, quantities, partitions, results, strict=True)
    ]
    return np.asarray(np.mean(each, axis=0))


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Estimand:
    """One quantity in one design, to be estimated in the domains of several partitions.

    All these partitions have the cells of ``partition``.  ``domains`` is the number of domains of a partition.
    """

    estimator: str
    design: SurveyDesign
    quantity: Quantity
    partition: Partition

    @cached_property
    def _moments(self) -> CellMoments | None:
        """Sums by stratum and cell, for all partitions, or None if the estimates do not follow from such sums."""
        cell_domain = self.partition.cell_domain
        if cell_domain is None or self.estimator != "onepass" or not RecordMoments.suit(self.design, self.quantity):
            return None
        return RecordMoments.from_design(self.design, self.quantity, self.partition.cell, cell_domain.size)

    def _by_cells(self, partition: Partition) -> tuple[CellMoments, NDArray[np.intp]] | None:
        """Return sums by cell, and the domain of each cell.  Return None if such sums do not give the estimates."""
        if self._moments is None or partition.cell_domain is None:
            return None
        return self._moments, partition.cell_domain

    def in_domains(self, partition: Partition, domains: int) -> Estimates:
        """Estimate the quantity in each domain of a partition, with variances."""
        if (cells := self._by_cells(partition)) is not None:
            return cells[0].with_variances(cells[1], domains)
        return estimator_of(self.estimator)(self.design, self.quantity, present(self.quantity, partition), domains)

    def alone(self, partition: Partition, domains: int) -> Floats:
        """Estimate the quantity in each domain of a partition, without variances: (domains,)."""
        if (cells := self._by_cells(partition)) is not None:
            return cells[0].estimates(cells[1], domains)
        return estimated(self.estimator, self.design, self.quantity, present(self.quantity, partition), domains)

    def records_and_degf(self, partition: Partition, domains: int) -> tuple[NDArray[np.intp], Floats]:
        """Return the number of records and the degrees of freedom of each domain: (domains,) each."""
        if (cells := self._by_cells(partition)) is not None:
            return cells[0].records(cells[1], domains), cells[0].degrees_of_freedom(cells[1], domains)
        domain = present(self.quantity, partition)
        return records_of(domain, domains), degrees_of_freedom(self.design, domain, domains)


def _estimands(
    estimators: Sequence[str], designs: Sequence[SurveyDesign], quantities: Sequence[Quantity],
    cells: Sequence[Partition],
) -> list[Estimand]:  # fmt: skip
    return [Estimand(*each) for each in zip(estimators, designs, quantities, cells, strict=True)] if designs else []


def _rows(
    files: Sequence[Estimand], noise: Sequence[Estimand], same: Sequence[Partition], statistics: Sequence[str],
    interval: Interval,
) -> tuple[pd.DataFrame, list[Estimates]]:  # fmt: skip
    """Return the rows of a table for one quantity and one partition, and the estimates from each data set.

    ``files`` has the quantity in each of m data sets, ``noise`` in each redrawn data set.  ``same`` has the partitions
    of the m data sets, then those of the redrawn data sets.
    """
    m, domains = len(files), len(same[0].labels)
    results = [each.in_domains(own, domains) for each, own in zip(files, same[:m], strict=True)]
    sizes = [each.records_and_degf(own, domains) for each, own in zip(files, same[:m], strict=True)]
    part = columns_of(
        files[0].quantity, same[0].labels, statistics, results, np.min([degf for _, degf in sizes], axis=0),
        np.min([n for n, _ in sizes], axis=0), interval=interval, noise=_every(noise, same[m:], domains),
    )  # fmt: skip
    return part, results


def _every(estimands: Sequence[Estimand], partitions: Sequence[Partition], domains: int) -> Floats | None:
    """Compute the estimates from R data sets redrawn with other privacy noise: (R, domains).  Return None if R is 0."""
    if not estimands:
        return None
    return np.array([each.alone(own, domains) for each, own in zip(estimands, partitions, strict=True)])


def about_missing(
    designs: Sequence[SurveyDesign], by: Sequence[str], missing: str, inside: Sequence[Bools | None]
) -> dict[str, Any]:
    """Return the entries ``missing`` and ``without`` of a table's attributes, which tell about missing values.

    ``missing`` is the argument.  ``without`` gives the number of records without a category, for each ``by`` column
    with such records.  If data sets differ, the largest number is given.  A warning then gives the same numbers.
    ``inside`` marks the records of each data set that count, (n,), or is None for all records.
    """
    without = {}
    for name in by if missing != "fail" else ():
        absent = [
            design.column(name).isna().to_numpy() & (design.weights > 0) & (True if marks is None else marks)
            for design, marks in zip(designs, inside, strict=True)
        ]
        if count := max(int(each.sum()) for each in absent):
            without[name] = count
    if without:
        counts = " and ".join(f"{count:,} without {name!r}" for name, count in without.items())
        text = f"the rows {TOTAL!r} include all records, also {counts}, which are in no row of a category"
        warnings.warn(text, stacklevel=4)
    return {"missing": missing, "without": without}


def headings(
    labels: dict[str, str], outcomes: Sequence[str], by: Sequence[str], denominator: str | None
) -> dict[str, str]:
    """Return the labels (texts for readers) of the outcomes, ratios and ``by`` columns of a table, by name."""
    found = {name: labels[name] for name in (*outcomes, *by) if name in labels}
    if denominator is not None:
        for outcome in outcomes:
            if outcome in labels or denominator in labels:
                over = labels.get(outcome, outcome), labels.get(denominator, denominator)
                found[f"{outcome} / {denominator}"] = " / ".join(over)
    return found


def check_designs(designs: Sequence[object]) -> None:
    """Raise InputError unless all designs are of the class SurveyDesign."""
    for design in designs:
        if not isinstance(design, SurveyDesign):
            raise InputError(f"estimates need a SurveyDesign, not {type(design).__name__} (a release has .tables())")


def present(quantity: Quantity, partition: Partition) -> NDArray[np.intp]:
    """Return the domain of each record: (n,).  It is -1 for a record without a value or outside all domains."""
    return partition.domain if quantity.missing is None else np.where(quantity.missing, -1, partition.domain)


def records_of(domain: NDArray[np.intp], domains: int) -> NDArray[np.intp]:
    """Count the records of each domain: (domains,)."""
    return np.bincount(domain + 1, minlength=domains + 1)[1:]


def least_degf(designs: Sequence[SurveyDesign], domain: Sequence[NDArray[np.intp]], domains: int) -> Floats:
    """Return, for each domain, the smallest degrees of freedom over the data sets: (domains,)."""
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
    """Make the rows of a table for one quantity in the domains of one partition, combined over m data sets.

    ``results`` has the estimates from each data set.  For each domain, ``n`` and ``degf`` (domains,) are the smallest
    number of records and the smallest degrees of freedom over the data sets.  ``noise`` (R, domains) has the estimates
    from R redrawn data sets.  ``statistics`` are all statistics of the table: they decide whether it has the columns
    ``category`` and ``prob``.  ``contrast`` is the text of that column in a table of differences, and otherwise empty.
    """
    part = labels.copy()
    part["statistic"], part["outcome"] = quantity.statistic, quantity.outcome
    if "proportion" in statistics:
        part["category"] = quantity.category
    if "quantile" in statistics:
        part["prob"] = quantity.prob
    if contrast:
        part["contrast"] = contrast
    alone = len(results) == 1 and noise is None
    both = interval.known_df(combined_of(quantity, results, degf, noise))
    if not alone:  # a mean in one PSU has no variance within a file, and the variance between files is not its error
        within = np.max([result.variance for result in results], axis=0) > (FIXED * both.estimate) ** 2
        only_between = (degf == 0) & ~within & (both.se > 0)
        both = combining.Combined(both.estimate, np.where(only_between, np.nan, both.se), both.df)
    low, high = interval.limits(both)
    if quantity.statistic == "count" and not contrast and not alone:  # alone: R's intervals, which may be negative
        low, high = interval.count_limits(both)
    if quantity.statistic in SHARES and not contrast:
        low, high = interval.share_limits(both, n.astype(np.float64), "xlogit")
    if alone and results[0].low is not None and results[0].high is not None:
        low, high = results[0].low, results[0].high
    for column, values in zip(NUMBERS, (both.estimate, both.se, both.df, low, high), strict=True):
        part[column] = values
    part["n"] = n
    return part


def combined_of(
    quantity: Quantity, results: Sequence[Estimates], degf: Floats, noise: Floats | None
) -> combining.Combined:
    """Combine the estimates of one quantity from m data sets.  The arguments are those of :func:`columns_of`.

    Raises
    ------
    InputError
        An estimate or its variance is too large for a floating-point number.
    """
    q, u = np.array([r.estimate for r in results]), np.array([r.variance for r in results])
    if np.isinf(q).any() or np.isinf(u).any():
        raise InputError(f"the {quantity.statistic} of {quantity.outcome!r} overflows; give it in a larger unit")
    # the variance is only rounding error if the design or a known total fixes the estimate in all data sets
    fixed = np.abs(u) <= (FIXED * q) ** 2
    q = _without_rounding(q)
    u = np.where(fixed, 0.0, np.where(u < 0, np.nan, u))  # Horvitz-Thompson variances may be negative
    if quantity.statistic == "quantile":
        u = _known_in_most(u)
    return combining.combine(q, u, degf, noise)


def _known_in_most(u: Floats) -> Floats:
    """Replace missing variances of a quantile by the mean variance in the same domain over the other data sets.

    In a domain whose variance is missing in half or more of the m data sets, nothing is replaced.
    """
    known = ~np.isnan(u)
    many = 2 * known.sum(axis=0) > len(u)
    mean = np.where(known, u, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known | ~many, u, mean)


def _without_rounding(estimates: Floats) -> Floats:
    """Make the estimates of a domain exactly equal in all m data sets if they differ only by rounding: (m, D)."""
    return np.where(np.ptp(estimates, axis=0) <= FIXED * np.abs(estimates[0]), estimates[0], estimates)


def stacked(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Stack several tables of estimates into one, whose columns have the usual order."""
    if len(tables) == 1:
        return tables[0]
    present_columns = {column for table in tables for column in table}
    quantity = [c for c in QUANTITY if c in present_columns]
    by = [c for c in tables[0] if c not in OWN]
    last = ["n", "deff"] if "deff" in present_columns else ["n"]
    table = pd.concat(tables, ignore_index=True)[[*by, *quantity, *NUMBERS, *last]]
    if "category" in present_columns:
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
    """Partition the records of all designs into the same domains, once for each subset of the ``by`` columns.

    Return one tuple for each subset, with the partitions of the ``designs`` and then the partitions of the ``redrawn``
    designs.  If a ``by`` column is ``synthesized``, or if ``inside`` marks the records of a condition, the domains are
    all that occur in some design.  Otherwise, designs with different domains raise InputError, with ``who`` in its
    message.  A record of a redrawn design is in no domain if the ``designs`` do not have its domain.  All redrawn
    designs have the records of the first design, or all have the same subset of these records.
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
    """Give the partitions of several data sets the same domains: all that occur in the first m data sets, sorted.

    ``rank`` gives the position of each category of each ``by`` column in the sorted list.
    """
    if not rank:
        return tuple(Partition(pd.DataFrame(index=range(1)), p.domain) for p in partitions)
    every = pd.concat([p.labels for p in partitions[:m]], ignore_index=True).drop_duplicates()
    every = every.sort_values([*rank], ignore_index=True, key=lambda c: c.map(rank[str(c.name)]))
    return tuple(Partition(every, _renumbered(p, _numbers(every))) for p in partitions)


def _numbers(labels: pd.DataFrame) -> dict[tuple[object, ...], int]:
    """Map the labels of each domain to the number of the domain."""
    return {each: i for i, each in enumerate(labels.itertuples(index=False, name=None))}


def _renumbered(partition: Partition, number: dict[tuple[object, ...], int]) -> NDArray[np.intp]:
    """Return the domain of each record, numbered as in ``number``.  It is -1 if the domain is not in ``number``."""
    labels = partition.labels.itertuples(index=False, name=None)
    return np.array([*(number.get(each, -1) for each in labels), -1], dtype=np.intp)[partition.domain]


def with_empty_domains(
    partitions: Sequence[tuple[Partition, ...]], levels: dict[str, list[object]]
) -> list[tuple[Partition, ...]]:
    """Add domains without records to the partitions, so that every combination of the ``levels`` is a domain."""
    subsets = [subset for size in range(len(levels), -1, -1) for subset in combinations(levels, size)]
    complete = []
    for same, subset in zip(partitions, subsets, strict=True):
        every = list(product(*(levels[name] if name in subset else [TOTAL] for name in levels)))
        labels = pd.DataFrame(every, columns=[*levels], index=range(len(every)))
        complete.append(tuple(Partition(labels, _renumbered(each, _numbers(labels))) for each in same))
    return complete


def filtered(designs: Sequence[SurveyDesign], where: Where, again: Sequence[SurveyDesign] = ()) -> list[Bools | None]:
    """Return an array (n,) for each design, True for each record that meets a condition and enters the estimates.

    A record enters if its weight, or its weight in some replicate, is not 0.  The arrays of ``designs`` come before
    those of ``again``.  Without a condition, return None for each design.

    Raises
    ------
    InputError
        An error of :func:`surveysynth.design.derived.meeting`, or no record of the ``designs`` meets the condition.
    """
    if where is None:
        return [None] * (len(designs) + len(again))
    met = [meeting(design.frame, where) & design.entering for design in (*designs, *again)]
    if not any(marks.any() for marks in met[: len(designs)]):
        raise InputError("where: no record meets the condition, so there is nothing to estimate")
    return [*met]


def check_by(by: list[str]) -> None:
    """Raise InputError if ``by`` names a column twice, or a column whose name the table of estimates needs."""
    if len(set(by)) < len(by):
        raise InputError(f"by names a column twice: {by}")
    if set(by) & OWN:
        raise InputError(f"a by column has the name of a column of the table; rename it: {by}")


def check_categories(levels: Collection[object], name: str) -> None:
    """Raise InputError if a ``by`` column has the category "all", which is the label of its margin."""
    if TOTAL in levels:
        raise InputError(f"by column {name!r} has a category {TOTAL!r}, the name of its margin; rename the category")


def partitions_of(
    design: SurveyDesign, by: list[str], inside: Bools | None = None, missing: str = "fail"
) -> list[Partition]:
    """Partition the records of a design by each subset of the ``by`` columns, from all columns to none (the total).

    Records that ``inside`` does not mark have the domain -1.  A record of weight 0 also has the domain -1, unless it
    has a positive weight in some replicate and its cell has a record of positive weight.  With ``missing="fail"``, a
    missing value in a column raises InputError.  Otherwise a record with such a value is in no category of that column,
    but is in the margins over that column.
    """
    check_by(by)
    positions = slice(None) if inside is None else np.flatnonzero(inside)
    entering, weighted = design.entering, design.weights > 0
    if inside is not None:
        entering, weighted = entering & inside, weighted & inside
    cell, codes_of, levels_of = np.zeros(design.n, dtype=np.int32), np.zeros((1, 0), dtype=np.intp), []
    for name in by:  # number the cells, and code the category of each cell in every column; the last code is "missing"
        code, levels = _levels(design.column(name).iloc[positions], name, missing)
        whole = code if inside is None else np.zeros(design.n, dtype=np.intp)
        if inside is not None:
            whole[positions] = code
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
            f"by column {name!r} is missing in {rows(numbers)}; give these records a category, or set missing='drop'"
        )
    check_cells(column, name)
    code, levels = pd.factorize(column, sort=True)
    listed = list(levels)
    if len(column) and not listed:
        raise InputError(f"by column {name!r} is missing in every record")
    check_categories(listed, name)
    return code, listed
