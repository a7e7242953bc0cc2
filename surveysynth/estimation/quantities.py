"""What is estimated: a statistic of an outcome, with the values of the records that enter it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import numeric
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import positive, rows
from .intervals import USUAL, Interval

Statistic = Literal[
    "mean", "total", "count", "proportion", "ratio", "quantile", "variance", "gini", "quintile_share_ratio",
    "poverty_rate",
]  # fmt: skip
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MOST_CATEGORIES = 500  # of a column that proportions are asked of


@dataclass(frozen=True)
class Quantity:
    """One statistic of one outcome.

    Attributes
    ----------
    statistic : str
    outcome : str
        Its label in a table; empty for a count.
    y : float array (n,), optional
        Values, NaN where a record has none; 0 and 1 for a proportion and a poverty rate under a known line, none for a
        count.
    x : float array (n,), optional
        Denominator of a ratio.
    category : str
        Of a proportion, as text; empty for other statistics.
    prob : float
        Of a quantile.
    distributional : bool
        Whether it is a function of the distribution of y, and no total or ratio of totals.
    interval : Interval
        How the interval of a quantile is made.
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
        """Records that have no value, or None where all have one."""
        nowhere = [np.isnan(values) for values in (self.y, self.x) if values is not None]
        where = np.logical_or.reduce(nowhere) if nowhere else np.zeros(1, dtype=bool)
        return where if where.any() else None


def quantities(
    designs: Sequence[SurveyDesign],
    outcomes: Sequence[str],
    statistics: Sequence[str],
    *,
    denominator: str | None = None,
    quantiles: Sequence[float] | float = 0.5,
    poverty_line: float | None = None,
    missing: str = "fail",
    inside: Sequence[Bools | None] | None = None,
    of_first: int | None = None,
    interval: Interval = USUAL,
) -> list[list[Quantity]]:
    """What a table shows: a list for each design, statistic by statistic, outcome by outcome.

    Values of records that are not ``inside``, (n,) of each design, may be missing.  Categories are those of all the
    designs, or ``of_first`` so many.

    Raises
    ------
    InputError
        Unknown statistics; statistics that lack their outcome, denominator or probabilities;
        missing values with ``missing="fail"``.
    """
    known, said = get_args(Statistic), statistics[0] if len(statistics) == 1 else list(statistics)
    if not statistics or not set(statistics) <= set(known):
        median = "; the median is statistic='quantile'" if {"median", "quantiles"} & set(statistics) else ""
        raise InputError(f"statistic={said!r} is not one of {', '.join(known)}, or a list of them{median}")
    if not outcomes and set(statistics) - {"count"}:
        raise InputError(f"statistic={said!r} needs an outcome")
    if missing not in ("fail", "drop"):
        raise InputError(f"missing={missing!r} is not one of fail, drop")
    if ("ratio" in statistics) != (denominator is not None):
        raise InputError("statistic='ratio' and denominator= go together: the ratio of the totals of two columns")
    if poverty_line is not None:
        if "poverty_rate" not in statistics:
            raise InputError("poverty_line= goes with statistic='poverty_rate'")
        positive(poverty_line, "poverty_line")
    everywhere = [None] * len(designs) if inside is None else inside
    one = partial(
        _of, denominator=denominator, quantiles=quantiles, poverty_line=poverty_line, missing=missing,
        interval=interval,
    )  # fmt: skip
    first = designs[:of_first], outcomes, everywhere[:of_first]
    levels = _categories(*first) if "proportion" in statistics else {}
    return [
        [
            quantity
            for statistic in statistics
            for outcome in (outcomes if statistic != "count" else [""])
            for quantity in one(design, statistic, outcome, levels.get(outcome, []), there)
        ]
        for design, there in zip(designs, everywhere, strict=True)
    ]


def _of(
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
        code = pd.Categorical(column.astype(object), categories=levels).codes
        return [
            Quantity("proportion", outcome, np.where(code < 0, np.nan, (code == i).astype(np.float64)), category=text)
            for i, text in enumerate(map(category_text, levels))
        ]
    relative = statistic == "poverty_rate" and poverty_line is None
    y = _values(design, outcome, missing, None if relative else inside)  # the line is that of all records
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
    """A category's name: one column of a table holds those of numbers and of texts."""
    return f"{category:.15g}" if isinstance(category, (float, np.floating)) else str(category)


def check_quantiles(quantiles: Sequence[float] | float) -> list[float]:
    """Probabilities of quantiles as a list; InputError where one is not between 0 and 1."""
    given = np.atleast_1d(np.asarray(quantiles, dtype=object)).tolist()
    if not given or not all(isinstance(p, (int, float)) and 0 < p < 1 for p in given):
        why = "must be probabilities between 0 and 1, for example [0.25, 0.5, 0.75]"
        raise InputError(f"quantiles={quantiles!r} {why}")
    return [float(p) for p in given]


def _categories(
    designs: Sequence[SurveyDesign], outcomes: Sequence[str], inside: Sequence[Bools | None]
) -> dict[str, list[object]]:
    """The categories that an outcome has in any of the designs, in sorted order."""
    levels = {}
    for outcome in outcomes:
        parts = [
            design.column(outcome) if there is None else design.column(outcome)[there]
            for design, there in zip(designs, inside, strict=True)
        ]
        columns = pd.concat(parts, ignore_index=True)
        levels[outcome] = list(pd.factorize(columns, sort=True)[1])
        if not levels[outcome]:
            raise InputError(f"outcome {outcome!r} is missing in every record")
        if len(levels[outcome]) > MOST_CATEGORIES:
            raise InputError(
                f"outcome {outcome!r} has {len(levels[outcome]):,} different values; proportions are of categories, "
                "so make bands or groups of them first"
            )
    return levels


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
    if where.all() or (inside is not None and where[inside].all()):
        raise InputError(f"outcome {name!r} is missing in every record")
    where = where if inside is None else where & inside
    if missing == "fail" and where.any():
        raise InputError(
            f"outcome {name!r} is missing in {rows(where)}; fill it in, or say missing='drop' to estimate for "
            "the records that have one"
        )
