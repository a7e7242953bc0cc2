"""Quantities to estimate.  Each has a statistic, such as the mean, and values of an outcome, one per record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import numeric
from ..design.discrete import levels_in
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import one_of, positive, rows
from .intervals import USUAL, Interval

Statistic = Literal[
    "mean", "total", "count", "proportion", "ratio", "quantile", "variance", "gini", "quintile_share_ratio",
    "poverty_rate",
]  # fmt: skip
Missing = Literal["fail", "drop", "available"]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

GOES_WITH = {  # the statistics that use each argument
    "outcome": tuple(statistic for statistic in get_args(Statistic) if statistic != "count"),
    "denominator": ("ratio",),
    "quantiles": ("quantile",),
    "poverty_line": ("poverty_rate",),
    "interval": ("proportion", "poverty_rate", "quantile"),
    "deff": ("mean", "total", "proportion", "ratio", "poverty_rate"),
}
SHARES = ("proportion", "poverty_rate")  # statistics with intervals for shares
MOST_CATEGORIES = 500  # largest number of categories of a column for proportions
TOO_MANY = "outcome {!r} {} different values; proportions need categories: make bands or groups of them first"


@dataclass(frozen=True)
class Quantity:
    """One statistic of one outcome.

    Attributes
    ----------
    statistic : str
        Name of the statistic.
    outcome : str
        Label of the outcome in a table.  It is empty for a count.
    y : float array (n,), optional
        Values of the n records.  A missing value is NaN.  For a proportion, and for a poverty rate with a known poverty
        line, y is 0 or 1.  For a count, y is None.
    x : float array (n,), optional
        Denominator of a ratio.
    category : str
        Category of a proportion, as text.  It is empty for other statistics.
    prob : float
        Probability of a quantile.
    distributional : bool
        True if the statistic is a variance, a Gini coefficient, a quintile share ratio, or a poverty rate with an
        estimated poverty line.
    interval : Interval
        Settings of the interval of a quantile.
    """

    statistic: Statistic
    outcome: str = ""
    y: Floats | None = field(default=None, repr=False)
    x: Floats | None = field(default=None, repr=False)
    category: str = ""
    prob: float = np.nan
    distributional: bool = False
    interval: Interval = USUAL

    @cached_property
    def missing(self) -> Bools | None:
        """True for each record with a missing value, (n,), or None if no value is missing."""
        marks = [np.isnan(values) for values in (self.y, self.x) if values is not None]
        where = np.logical_or.reduce(marks) if marks else np.zeros(1, dtype=bool)
        return where if where.any() else None


def check_statistics(statistics: Sequence[str], **given: object) -> None:
    """Raise InputError for unknown statistics, and for arguments that affect none of the statistics.

    Parameters
    ----------
    statistics : list of str
        Names of the statistics of a table.
    **given
        Arguments of a table, such as ``quantiles``, which are named in ``GOES_WITH``.  An argument that is None or
        False counts as not given.

    Raises
    ------
    InputError
        A statistic is unknown or none is given; an argument has no effect; a ratio has no denominator.
    """
    known, text = get_args(Statistic), listed(statistics)
    if not statistics or not set(statistics) <= set(known):
        median = "; the median is statistic='quantile'" if {"median", "quantiles"} & set(statistics) else ""
        raise InputError(f"statistic={text} is not one of {', '.join(known)}, or a list of them{median}")
    if ("ratio" in statistics) != (given.get("denominator") is not None):
        raise InputError("statistic='ratio' and denominator= go together: the ratio of the totals of two columns")
    for name, value in fitting(known, **given).items():
        if fitting(statistics, **{name: value}):
            continue
        if name == "outcome":
            raise InputError(f"outcome= has no effect on statistic={text}, which counts population units: leave it out")
        needed = " or ".join(f"statistic={each!r}" for each in GOES_WITH[name])
        raise InputError(f"{name}= goes with {needed}: it has no effect on statistic={text}")


def check_quantities(
    statistics: Sequence[str],
    outcomes: Sequence[str],
    *,
    quantiles: Sequence[float] | float | None = None,
    poverty_line: float | None = None,
    **given: object,
) -> None:
    """Raise InputError for arguments from which no table can be made, whatever the values of the records are.

    Parameters
    ----------
    statistics, outcomes : list of str
    quantiles, poverty_line, **given
        Arguments of the table.  An argument that is None counts as not given.

    Raises
    ------
    InputError
        An error of :func:`check_statistics` or :func:`check_quantiles`; no outcome, though a statistic needs one; a
        poverty line that is not positive.
    """
    check_statistics(
        statistics, outcome=outcomes or None, quantiles=quantiles, poverty_line=poverty_line, **given
    )  # fmt: skip
    if not outcomes and set(statistics) - {"count"}:
        raise InputError(f"statistic={listed(statistics)} needs an outcome")
    if "quantile" in statistics and quantiles is not None:
        check_quantiles(quantiles)
    if poverty_line is not None:
        positive(poverty_line, "poverty_line")


def listed(statistics: Sequence[str]) -> str:
    """Write the argument ``statistic`` for a message, as in Python code: one name, or a list of names."""
    return repr(statistics[0] if len(statistics) == 1 else list(statistics))


def fitting(statistics: Sequence[str], **given: Any) -> dict[str, Any]:
    """Return the given arguments that affect at least one of the statistics.  None and False count as not given."""
    values = {name: value for name, value in given.items() if not (value is None or value is False)}
    return {name: value for name, value in values.items() if not set(GOES_WITH[name]).isdisjoint(statistics)}


def quantities(
    designs: Sequence[SurveyDesign],
    outcomes: Sequence[str],
    statistics: Sequence[str],
    *,
    denominator: str | None = None,
    quantiles: Sequence[float] | float | None = None,
    poverty_line: float | None = None,
    missing: str = "fail",
    inside: Sequence[Bools | None] | None = None,
    m: int | None = None,
    interval: Interval = USUAL,
    empty: bool = False,
) -> list[list[Quantity]]:
    """List the quantities of a table: one list for each design, with a quantity for each statistic of each outcome.

    Proportions have a quantity for each category, and quantiles for each probability.  ``inside`` marks the records of
    each design, (n,), that are used: only these are checked for missing values.  Categories are those that occur in the
    first ``m`` designs (default all).  With ``missing="drop"``, a record with a missing outcome or denominator is left
    out of all quantities except counts.  With "available", each quantity uses the records that have a value in the
    columns of that quantity.  With ``empty``, proportions also include declared categories that no record has.

    Raises
    ------
    InputError
        An error of :func:`check_quantities`; missing values with ``missing="fail"``; outcomes that are not numeric,
        infinite, or missing in all records; too many categories for proportions.
    """
    check_quantities(
        statistics, outcomes, quantiles=quantiles, poverty_line=poverty_line, denominator=denominator,
        interval=interval.method,
    )  # fmt: skip
    one_of(missing, get_args(Missing), "missing")
    everywhere = [None] * len(designs) if inside is None else inside
    one = partial(
        _statistic, denominator=denominator, quantiles=0.5 if quantiles is None else quantiles,
        poverty_line=poverty_line, missing=missing, interval=interval,
    )  # fmt: skip
    first = designs[:m], outcomes, everywhere[:m]
    levels = _categories(*first, empty) if "proportion" in statistics else {}
    every = [
        [
            quantity
            for statistic in statistics
            for outcome in (outcomes if statistic != "count" else [""])
            for quantity in one(design, statistic, outcome, levels.get(outcome, []), there)
        ]
        for design, there in zip(designs, everywhere, strict=True)
    ]
    if missing != "drop":
        return every
    return [_complete(asked, there) for asked, there in zip(every, everywhere, strict=True)]


def _complete(asked: Sequence[Quantity], inside: Bools | None) -> list[Quantity]:
    """Set each quantity to missing in records with a missing value in any quantity.  Counts keep all records."""
    marks = [quantity.missing for quantity in asked if quantity.missing is not None]
    if not marks:
        return [*asked]
    absent = np.logical_or.reduce(marks)
    if (absent if inside is None else absent[inside]).all():
        raise InputError(
            "no record has all outcomes: missing='drop' needs such records; missing='available' uses the records that "
            "have an outcome, outcome by outcome"
        )
    return [
        quantity if quantity.y is None else replace(quantity, y=np.where(absent, np.nan, quantity.y))
        for quantity in asked
    ]


def _statistic(
    design: SurveyDesign,
    statistic: str,
    outcome: str,
    levels: list[object],
    inside: Bools | None,
    *,
    denominator: str | None,
    quantiles: Sequence[float] | float,
    poverty_line: float | None,
    missing: str,
    interval: Interval,
) -> list[Quantity]:
    if statistic == "count":
        return [Quantity("count")]
    if statistic == "proportion":
        column = design.column(outcome)
        _refuse_missing(column.isna().to_numpy(), outcome, missing, inside)
        code = pd.Index(levels, dtype=object).get_indexer(pd.Index(column, dtype=object))
        return [
            Quantity("proportion", outcome, np.where(code < 0, np.nan, (code == i).astype(np.float64)), category=text)
            for i, text in enumerate(map(category_text, levels))
        ]
    relative = statistic == "poverty_rate" and poverty_line is None
    y = _values(design, outcome, missing, None if relative else inside)  # the line depends on all records
    if statistic == "poverty_rate" and poverty_line is not None:
        return [Quantity("poverty_rate", outcome, np.where(np.isnan(y), np.nan, y < poverty_line))]
    if relative or statistic in ("variance", "gini", "quintile_share_ratio"):
        return [Quantity(statistic, outcome, y, distributional=True)]  # type: ignore[arg-type]
    if statistic == "ratio":
        x = _values(design, str(denominator), missing, inside)
        return [Quantity("ratio", f"{outcome} / {denominator}", y, x)]
    if statistic == "quantile":
        return [Quantity("quantile", outcome, y, prob=prob, interval=interval) for prob in check_quantiles(quantiles)]
    return [Quantity(statistic, outcome, y)]  # type: ignore[arg-type]


def category_text(category: object) -> str:
    """Return a category as text, because one column of a table holds numeric and text categories."""
    return f"{category:.15g}" if isinstance(category, (float, np.floating)) else str(category)


def check_quantiles(quantiles: Sequence[float] | float) -> list[float]:
    """Return the probabilities of quantiles as a list.  Raise InputError if one is not between 0 and 1."""
    given = np.atleast_1d(np.asarray(quantiles, dtype=object)).tolist()
    if not given or not all(isinstance(p, (int, float)) and 0 < p < 1 for p in given):
        why = "must be probabilities between 0 and 1, for example [0.25, 0.5, 0.75]"
        raise InputError(f"quantiles={quantiles!r} {why}")
    return [float(p) for p in given]


def _categories(
    designs: Sequence[SurveyDesign], outcomes: Sequence[str], inside: Sequence[Bools | None], empty: bool
) -> dict[str, list[object]]:
    """Return, for each outcome, the sorted categories that occur in some design or, with ``empty``, are declared."""
    found = {}
    for outcome in outcomes:
        parts = [
            design.column(outcome) if there is None else design.column(outcome)[there]
            for design, there in zip(designs, inside, strict=True)
        ]
        columns = pd.concat(parts, ignore_index=True)
        if not columns.notna().any():
            raise InputError(f"outcome {outcome!r} is missing in every record")
        found[outcome] = levels_in(columns) if empty else list(pd.factorize(columns, sort=True)[1])
        if len(found[outcome]) > MOST_CATEGORIES:
            raise InputError(TOO_MANY.format(outcome, f"has {len(found[outcome]):,}"))
    return found


def _values(design: SurveyDesign, name: str, missing: str, inside: Bools | None) -> Floats:
    column = design.column(name)
    try:
        y = numeric(column, name)
    except InputError as error:
        raise InputError(f"{error} (statistic='proportion' takes categories)") from None
    if np.isinf(y).any():
        raise InputError(f"outcome {name!r} is infinite in {rows(np.isinf(y))}; correct these or declare them missing")
    _refuse_missing(np.isnan(y), name, missing, inside)
    return y


def _refuse_missing(where: Bools, name: str, missing: str, inside: Bools | None) -> None:
    if missing != "available" and (where.all() or (inside is not None and where[inside].all())):
        raise InputError(f"outcome {name!r} is missing in every record")
    where = where if inside is None else where & inside
    if missing == "fail" and where.any():
        raise InputError(
            f"outcome {name!r} is missing in {rows(where)}; fill it in, or set missing='drop' to leave out the records "
            "that lack any outcome, or missing='available' to leave out records outcome by outcome"
        )
