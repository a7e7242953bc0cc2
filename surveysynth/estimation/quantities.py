"""What is estimated: a statistic of an outcome, with the values of the records that enter it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import numeric
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import rows
from .intervals import USUAL, Interval

Statistic = Literal["mean", "total", "count", "proportion", "ratio", "quantile"]
Floats = NDArray[np.float64]

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
        Values, NaN where a record has none; 0 and 1 for a proportion, none for a count.
    x : float array (n,), optional
        Denominator of a ratio.
    category : str
        Of a proportion, as text; empty for other statistics.
    prob : float
        Of a quantile.
    interval : Interval
        How the interval of a quantile is made.
    """

    statistic: Statistic
    outcome: str = ""
    y: Floats | None = field(default=None, repr=False)
    x: Floats | None = field(default=None, repr=False)
    category: str = ""
    prob: float = np.nan
    interval: Interval = USUAL

    @cached_property
    def missing(self) -> NDArray[np.bool_] | None:
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
    missing: str = "fail",
    interval: Interval = USUAL,
) -> list[list[Quantity]]:
    """What a table shows: a list for each design, statistic by statistic, outcome by outcome.

    Raises
    ------
    InputError
        Unknown statistics; statistics that lack their outcome, denominator or probabilities;
        missing values with ``missing="fail"``.
    """
    known, said = get_args(Statistic), statistics[0] if len(statistics) == 1 else list(statistics)
    if not statistics or not set(statistics) <= set(known):
        raise InputError(f"statistic={said!r} is not one of {', '.join(known)}, or a list of them")
    if not outcomes and set(statistics) - {"count"}:
        raise InputError(f"statistic={said!r} needs an outcome")
    if missing not in ("fail", "drop"):
        raise InputError(f"missing={missing!r} is not one of fail, drop")
    if ("ratio" in statistics) != (denominator is not None):
        raise InputError("statistic='ratio' and denominator= go together: the ratio of the totals of two columns")
    return [
        [
            quantity
            for statistic in statistics
            for outcome in (outcomes if statistic != "count" else [""])
            for quantity in _of(
                design,
                statistic,
                outcome,
                levels.get(outcome, []),
                denominator,
                quantiles,
                missing,
                interval,
            )
        ]
        for levels in [_categories(designs, outcomes) if "proportion" in statistics else {}]
        for design in designs
    ]


def _of(
    design: SurveyDesign,
    statistic: str,
    outcome: str,
    levels: list[object],
    denominator: str | None,
    quantiles: Sequence[float] | float,
    missing: str,
    interval: Interval,
) -> list[Quantity]:
    if statistic == "count":
        return [Quantity("count")]
    if statistic == "proportion":
        column = design.column(outcome)
        _refuse_missing(column.isna().to_numpy(), outcome, missing)
        code = pd.Categorical(column.astype(object), categories=levels).codes
        return [
            Quantity("proportion", outcome, np.where(code < 0, np.nan, (code == i).astype(np.float64)), category=text)
            for i, text in enumerate(map(_text, levels))
        ]
    y = _values(design, outcome, missing)
    if statistic == "ratio":
        x = _values(design, str(denominator), missing)
        return [Quantity("ratio", f"{outcome} / {denominator}", y, x)]
    if statistic == "quantile":
        return [Quantity("quantile", outcome, y, prob=prob, interval=interval) for prob in check_quantiles(quantiles)]
    return [Quantity(statistic, outcome, y)]  # type: ignore[arg-type]


def _text(category: object) -> str:
    """A category's name: one column of a table holds those of numbers and of texts."""
    return f"{category:.15g}" if isinstance(category, (float, np.floating)) else str(category)


def check_quantiles(quantiles: Sequence[float] | float) -> list[float]:
    """Probabilities of quantiles as a list; InputError where one is not between 0 and 1."""
    given = np.atleast_1d(np.asarray(quantiles, dtype=object)).tolist()
    if not given or not all(isinstance(p, (int, float)) and 0 < p < 1 for p in given):
        why = "must be probabilities between 0 and 1, for example [0.25, 0.5, 0.75]"
        raise InputError(f"quantiles={quantiles!r} {why}")
    return [float(p) for p in given]


def _categories(designs: Sequence[SurveyDesign], outcomes: Sequence[str]) -> dict[str, list[object]]:
    """The categories that an outcome has in any of the designs, in sorted order."""
    levels = {}
    for outcome in outcomes:
        columns = pd.concat([design.column(outcome) for design in designs], ignore_index=True)
        levels[outcome] = list(pd.factorize(columns, sort=True)[1])
        if not levels[outcome]:
            raise InputError(f"outcome {outcome!r} is missing in every record")
        if len(levels[outcome]) > MOST_CATEGORIES:
            raise InputError(
                f"outcome {outcome!r} has {len(levels[outcome]):,} different values; proportions are of categories, "
                "so make bands or groups of them first"
            )
    return levels


def _values(design: SurveyDesign, name: str, missing: str) -> Floats:
    column = design.column(name)
    try:
        y = numeric(column, name)
    except InputError as error:
        raise InputError(f"{error} (statistic='proportion' takes categories)") from None
    if np.isinf(y).any():
        raise InputError(f"outcome {name!r} is infinite in {rows(np.isinf(y))}; correct these or declare them missing")
    _refuse_missing(np.isnan(y), name, missing)
    return y


def _refuse_missing(where: NDArray[np.bool_], name: str, missing: str) -> None:
    if where.all():
        raise InputError(f"outcome {name!r} is missing in every record")
    if missing == "fail" and where.any():
        raise InputError(
            f"outcome {name!r} is missing in {rows(where)}; fill it in, or say missing='drop' to estimate for "
            "the records that have one"
        )
