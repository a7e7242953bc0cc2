"""Names of quantiles in tables and figures."""

from __future__ import annotations


def percentile(probability: float) -> str:
    """Return the name of a quantile: "median", "10th percentile", or "99.5th percentile"."""
    return "median" if probability == 0.5 else f"{ordinal(100 * probability)} percentile"


def ordinal(number: float) -> str:
    """Return the ordinal of a positive number, as in "1st", "12th" or "2.5th"."""
    text = f"{number:g}"
    if text[-2:] in ("11", "12", "13") or "." in text:
        return f"{text}th"
    return text + {"1": "st", "2": "nd", "3": "rd"}.get(text[-1], "th")
