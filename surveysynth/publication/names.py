"""Names of columns, statistics and quantiles in tables and figures."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any


def called(name: str, labels: Mapping[str, str]) -> str:
    """Return the label of a column, or the name of the column if it has no label.

    If another column has the same label, the name is added to the label.
    """
    label = labels.get(name)
    if not label:
        return name
    return label if list(labels.values()).count(label) == 1 else f"{label} ({name})"


def quantity(row: Mapping[Hashable, Any]) -> str:
    """Name the statistic and outcome of a row of a table: "mean of income", "percentiles of income", or "count"."""
    statistic = "percentiles" if row["statistic"] == "quantile" else str(row["statistic"])
    return f"{statistic} of {row['outcome']}" if row["outcome"] else statistic


def percentile(probability: float) -> str:
    """Return the name of a quantile: "median", "10th percentile", or "99.5th percentile"."""
    return "median" if probability == 0.5 else f"{ordinal(100 * probability)} percentile"


def ordinal(number: float) -> str:
    """Return the ordinal of a positive number, as in "1st", "12th" or "2.5th"."""
    text = f"{number:g}"
    if text[-2:] in ("11", "12", "13") or "." in text:
        return f"{text}th"
    return text + {"1": "st", "2": "nd", "3": "rd"}.get(text[-1], "th")
