"""Differences between two domains of one survey, or between two independent surveys, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.derived import Where
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import as_list
from . import inequality, taylor
from .combining import Combined
from .estimators import Estimates, as_shares, choose, estimated, estimator_of, replicated, samplics_seconds
from .intervals import USUAL, Interval, nobody_or_all
from .quantities import SHARES, Missing, Quantity, quantities
from .tables import (
    Names,
    Partition,
    about_missing,
    check_designs,
    columns_of,
    combined_of,
    filtered,
    headings,
    least_degf,
    present,
    records_of,
    shared_partitions,
)
from .variance import degrees_of_freedom, variances

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Between = Mapping[str, Sequence[object]]
Share = tuple[Combined, Floats]  # shares, and numbers of records: (D,) each


def difference(
    design: SurveyDesign | Mapping[str, SurveyDesign],
    outcome: Names = None,
    by: Names = None,
    statistic: str | Sequence[str] = "mean",
    *,
    between: Between | None = None,
    denominator: str | None = None,
    quantiles: Sequence[float] | float | None = None,
    poverty_line: float | None = None,
    where: Where = None,
    missing: Missing = "fail",
    level: float = 0.95,
    df: float | None = None,
) -> pd.DataFrame:
    """Estimate differences of a statistic between two domains of one design, or between two designs.

    Two domains of one design may share PSUs, as two periods of a panel do.  The variance is therefore computed from the
    differences of linearized values (or of replicate estimates), which includes the covariance.  To linearize a
    quantile, the linearized values of the share of records not above the quantile are divided by a density.  The
    density follows from the Woodruff interval of the quantile (Francisco & Fuller 1991).  The degrees of freedom are
    the number of PSUs minus the number of strata minus 1, where only PSUs and strata with records of one of the two
    domains count.  They are the degrees of freedom of the t test of a regression on an indicator of the domain (R's
    ``svyttest`` and ``svyglm``).  Two designs are taken as independent: their variances add up, and the degrees of
    freedom are Welch's.

    Parameters
    ----------
    design : SurveyDesign, or mapping of two labels to designs
        ``{"2024": first, "2023": second}`` compares two independent samples.
    outcome, by, statistic, denominator, quantiles, poverty_line, where, missing
        See :func:`surveysynth.estimate`.  There is a difference for every cell and margin of ``by``, and for the total.
    between : mapping of one column to two categories
        The two domains of one design.  ``{"sex": ("m", "f")}`` gives men minus women.  Not for two designs.
    level, df
        Level and degrees of freedom of the intervals (see :func:`surveysynth.estimate`).

    Returns
    -------
    pandas.DataFrame
        Columns ``<by...>, statistic, outcome, contrast, estimate, se, df, ci_low, ci_high, n``, as in
        :func:`surveysynth.estimate`.  ``contrast`` reads "m - f".  The intervals are t intervals, by default of 95%.
        A share of 0 or 1 has standard error 0; the interval of a difference then combines the limits of the two shares
        (Newcombe 1998).  A difference of means, proportions or ratios is missing if one of the two domains has no
        record.  Records in neither category of ``between`` are left out.  ``attrs`` are those of
        :func:`surveysynth.estimate`.

    Raises
    ------
    InputError
        An error of :func:`surveysynth.estimate`.  ``between`` does not name two categories of one column, or one of
        them does not occur.  ``between`` is given with two designs, which are compared as a whole.  The ``by`` columns
        of two designs have different categories, so that some cells could not be compared.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> gap = ss.difference(design, "salary", between={"gender": ("male", "female")})
    >>> gap[["contrast", "estimate", "se", "df"]].round()
            contrast  estimate      se     df
    0  male - female   30306.0  3102.0  991.0
    """
    asked: dict[str, Any] = {"denominator": denominator, "quantiles": quantiles, "poverty_line": poverty_line}
    asked |= {"where": where, "missing": missing, "interval": Interval.checked(level, df)}
    if isinstance(design, Mapping):
        if between is not None:
            raise InputError("between= compares domains of one design; two designs are compared as they are")
        return _between_designs(design, as_list(outcome), as_list(by), as_list(statistic), **asked)
    return differences([design], outcome, by, statistic, between=between, **asked)


def differences(
    designs: Sequence[SurveyDesign],
    outcome: Names,
    by: Names,
    statistic: str | Sequence[str],
    *,
    between: Between | None,
    denominator: str | None = None,
    quantiles: Sequence[float] | float | None = None,
    poverty_line: float | None = None,
    where: Where = None,
    missing: str = "fail",
    count_designs: Sequence[SurveyDesign] | None = None,
    synthesized: Sequence[str] = (),
    redrawn: Sequence[SurveyDesign] = (),
    interval: Interval = USUAL,
) -> pd.DataFrame:
    """Make a table of differences of statistics between two domains, combined over m synthetic data sets.

    ``count_designs``, ``synthesized`` and ``redrawn`` are as in :func:`.tables.tabulate`, the other arguments and the
    table as in :func:`difference`.
    """
    check_designs(designs)
    names, statistics = as_list(by), as_list(statistic)
    asked = partial(
        quantities, statistics=statistics, denominator=denominator, quantiles=quantiles, poverty_line=poverty_line,
        missing=missing, interval=interval,
    )  # fmt: skip
    counting = designs if count_designs is None else count_designs
    m = len(designs)
    inside = filtered(designs, where, again=redrawn)
    compared = [_sides(design, names, between) for design in (*designs, *redrawn)]
    label, sides = f"{compared[0][1]} - {compared[0][2]}", [side for side, *_ in compared]
    partitions = shared_partitions(
        designs, names, synthesized=synthesized, inside=inside, redrawn=redrawn, missing=missing
    )
    moving = where is not None or bool({*names, *(between or ())} & set(synthesized))
    parts = []
    every = zip(*asked((*designs, *redrawn), as_list(outcome), inside=inside, m=m), strict=True)
    for same_quantity in every:
        surveys = (*(counting if same_quantity[0].statistic == "count" else designs), *redrawn)
        moved = moving or same_quantity[0].statistic != "count"
        for same in partitions:
            parts.append(
                _part(surveys, same_quantity, same, sides, statistics, label, m, interval=interval, moved=moved)
            )
    table = pd.concat(parts, ignore_index=True)
    table.attrs["estimator"] = "replicates" if designs[0].replication is not None else "onepass"
    table.attrs["labels"] = headings(designs[0].labels, as_list(outcome), names, denominator)
    either = [
        side >= 0 if there is None else there & (side >= 0)
        for side, there in zip(sides[:m], inside[:m], strict=True)
    ]
    table.attrs |= about_missing(designs, names, missing, either)
    return table


def _part(
    surveys: Sequence[SurveyDesign], same_quantity: Sequence[Quantity], same: Sequence[Partition],
    sides: Sequence[Codes], statistics: Sequence[str], label: str, m: int, *, interval: Interval, moved: bool,
) -> pd.DataFrame:  # fmt: skip
    """Return the rows of a table of differences, for one quantity in the domains of one partition.

    The estimates from the first m ``surveys`` are combined.  The other surveys are the redrawn designs (module
    :mod:`.tables`).  ``same_quantity``, ``same`` and ``sides`` have the quantity, the partition and the compared
    categories (:func:`_sides`) for each survey.  ``moved`` is True if the noise can change the estimates.  The variance
    due to the noise is then added.
    """
    estimates = [
        partial(_difference, design, quantity, partition, side)
        for design, quantity, partition, side in zip(surveys, same_quantity, same, sides, strict=True)
    ]
    cell = [
        np.where(side < 0, -1, present(quantity, partition))
        for side, quantity, partition in zip(sides[:m], same_quantity[:m], same[:m], strict=True)
    ]
    # two means are estimated: as in R's svyttest and svyglm there is one degree of freedom less than for one mean
    degf = np.maximum(least_degf(surveys[:m], cell, len(same[0].labels)) - 1, 0)
    noise = [each().estimate for each in estimates[m:]] if moved else []
    part = columns_of(
        same_quantity[0], same[0].labels, statistics, [each() for each in estimates[:m]], degf,
        np.min([records_of(there, len(same[0].labels)) for there in cell], axis=0), label,
        noise=np.array(noise) if noise else None, interval=interval,
    )  # fmt: skip
    if same_quantity[0].statistic not in SHARES:
        return part
    both = [_both(*each) for each in zip(same_quantity, same, sides, strict=True)]
    first, second = _side_shares(surveys, same_quantity, both, 2 * len(part), m)
    return _with_extreme_limits(part, interval, first, second)


def _sides(design: SurveyDesign, names: list[str], between: Between | None) -> tuple[Codes, object, object]:
    """Return a code for each record (first, second or neither compared category), and the two categories.

    The code of a record is 0 for the first category, 1 for the second and -1 for neither: (n,).
    """
    if not isinstance(between, Mapping) or len(between) != 1:
        raise InputError("between must map one column to the two categories to compare: {'sex': ('m', 'f')}")
    ((name, pair),) = between.items()
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2 or pair[0] == pair[1]:
        raise InputError(f"between must name two different categories of {name!r}")
    if name in names:
        raise InputError(f"{name!r} is compared, so the table cannot be broken down by it, too")
    column = design.column(name)
    side = np.full(design.n, -1, dtype=np.intp)
    for i, category in enumerate(pair):
        here = (column == category).fillna(False).to_numpy(dtype=bool)
        if not here.any():
            raise InputError(f"between: no record has the {('first', 'second')[i]} category of {name!r}")
        side[here] = i
    return side, pair[0], pair[1]


def _difference(design: SurveyDesign, quantity: Quantity, partition: Partition, side: Codes) -> Estimates:
    """Estimate the statistic in the first category minus the statistic in the second, in every domain.

    ``side`` is 0 for a record of the first category, 1 for the second and -1 for neither.
    """
    domain, domains = present(quantity, partition), len(partition.labels)
    domain = np.where(side < 0, -1, domain)
    both, sides = _both(quantity, partition, side), 2 * domains

    def less(values: Floats) -> Floats:
        """Subtract the values of the second category from the values of the first, domain by domain."""
        return np.asarray(values[..., ::2] - values[..., 1::2])

    if quantity.statistic == "quantile":
        found, quantity, scale = as_shares(design, quantity, both, sides)
        theta, z = taylor.linearize(design.weights, quantity, both, sides)
        estimate, theta, z = less(found.estimate), less(scale * theta), scale[both] * z
    else:
        theta, z = taylor.linearize(design.weights, quantity, both, sides)
        estimate, scale = less(theta), np.ones(sides)
        theta = estimate
    if design.replication is not None:
        theta_r = less(scale * replicated(design, quantity, both, sides))
        return Estimates(estimate, np.where(np.isnan(theta), np.nan, design.replication.variance(theta_r, theta)))
    shared = inequality.by_the_line(design.weights, quantity, both, sides)
    shared = None if shared is None else (less(shared[0]), shared[1])
    variance = variances(design, np.where(side == 1, -z, z), domain, domains, shared)
    return Estimates(estimate, np.where(np.isnan(theta), np.nan, variance))


def _both(quantity: Quantity, partition: Partition, side: Codes) -> Codes:
    """Return a code of each record's domain d and compared category: 2 d (first), 2 d + 1 (second) or -1 (none)."""
    domain = present(quantity, partition)
    return np.where((domain < 0) | (side < 0), -1, 2 * domain + side)


def _side_shares(
    surveys: Sequence[SurveyDesign], same: Sequence[Quantity], both: Sequence[Codes], sides: int, m: int
) -> tuple[Share, Share]:
    """Estimate a proportion or a poverty rate in every domain, separately in the two compared categories.

    ``both`` has the codes of :func:`_both` for each survey, and ``sides`` is the number of codes, twice the number of
    domains.  The first m ``surveys`` are combined.  The other surveys are the redrawn designs.
    """
    estimator = "onepass" if surveys[0].replication is None else "replicates"
    results = [estimator_of(estimator)(*each, sides) for each in zip(surveys[:m], same[:m], both[:m], strict=True)]
    noise = np.array([estimated(estimator, *each, sides) for each in zip(surveys[m:], same[m:], both[m:], strict=True)])
    degf = least_degf(surveys[:m], both[:m], sides)
    found = combined_of(same[0], results, degf, noise if noise.size else None)
    n = np.min([records_of(there, sides) for there in both[:m]], axis=0).astype(np.float64)
    first, second = ((Combined(found.estimate[k::2], found.se[k::2], found.df[k::2]), n[k::2]) for k in (0, 1))
    return first, second


def _with_extreme_limits(part: pd.DataFrame, interval: Interval, first: Share, second: Share) -> pd.DataFrame:
    """Replace the confidence limits of each difference in which a share is 0 or 1.

    The new limits follow from the intervals of both shares (:meth:`Interval.difference_limits`).
    """
    extreme = nobody_or_all(first[0].estimate) | nobody_or_all(second[0].estimate)
    low, high = interval.difference_limits(*first, *second)
    return part.assign(
        ci_low=np.where(extreme, low, part["ci_low"]), ci_high=np.where(extreme, high, part["ci_high"])
    )  # fmt: skip


def _welch(u: Sequence[Floats], degf: Sequence[Floats]) -> Floats:
    """Compute the degrees of freedom of a difference of independent estimates (Welch 1947)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        df = sum(u) ** 2 / sum(v**2 / np.maximum(d, 1) for v, d in zip(u, degf, strict=True))
    return np.where(np.isfinite(df), df, sum(degf))


def _between_designs(
    designs: Mapping[str, SurveyDesign],
    outcomes: list[str],
    names: list[str],
    statistics: list[str],
    *,
    denominator: str | None,
    quantiles: Sequence[float] | float | None,
    poverty_line: float | None,
    where: Where,
    missing: str,
    interval: Interval,
) -> pd.DataFrame:
    if len(designs) != 2:
        raise InputError(f"two designs are compared, not {len(designs)}")
    surveys = list(designs.values())
    check_designs(surveys)
    inside = filtered(surveys, where)
    asked = quantities(
        surveys, outcomes, statistics, denominator=denominator, quantiles=quantiles, poverty_line=poverty_line,
        missing=missing, inside=inside, interval=interval,
    )  # fmt: skip
    partitions = shared_partitions(surveys, names, "the two designs", inside=inside, missing=missing)
    used, parts, label = set(), [], " - ".join(map(str, designs))
    for pair in zip(*asked, strict=True):
        for first, second in partitions:
            results, domains = [], len(first.labels)
            for design, quantity, partition in zip(surveys, pair, (first, second), strict=True):
                estimator = choose("auto", design, quantity, samplics_seconds(design, domains))
                used.add(estimator)
                results.append(estimator_of(estimator)(design, quantity, present(quantity, partition), domains))
            one, other = results
            contrast = Estimates(one.estimate - other.estimate, one.variance + other.variance)
            cells = [present(q, p) for q, p in zip(pair, (first, second), strict=True)]
            degfs = [degrees_of_freedom(design, cell, domains) for design, cell in zip(surveys, cells, strict=True)]
            degf = _welch([one.variance, other.variance], degfs)
            part = columns_of(
                pair[0], first.labels, statistics, [contrast], degf, records_of(np.concatenate(cells), domains), label,
                interval=interval,
            )  # fmt: skip
            if pair[0].statistic in SHARES:
                shares = [
                    combined_of(quantity, [result], df, None)
                    for quantity, result, df in zip(pair, results, degfs, strict=True)
                ]
                n = [records_of(cell, domains).astype(np.float64) for cell in cells]
                part = _with_extreme_limits(part, interval, (shares[0], n[0]), (shares[1], n[1]))
            parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    table.attrs["estimator"] = " and ".join(sorted(used))
    table.attrs["labels"] = headings(surveys[1].labels | surveys[0].labels, outcomes, names, denominator)
    table.attrs |= about_missing(surveys, names, missing, inside)
    return table
