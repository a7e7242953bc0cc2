"""Text for numbers and diagnostics in the summaries of the studies."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def diagnostics_text(diagnostics: pd.Series) -> str:
    """Describe failed diagnostics in a line.  ``diagnostics`` has a string of comma-separated names for each fit."""
    failed = diagnostics[diagnostics != ""].str.split(", ").explode().value_counts()
    return (
        f"Sampler diagnostics that would stop a release, in {len(diagnostics):,} fits of few draws: "
        + (", ".join(f"{name} {count}" for name, count in failed.items()) or "none")
    )  # fmt: skip


def listed(numbers: Sequence[float]) -> str:
    """Join numbers by commas."""
    return ", ".join(f"{x:g}" for x in numbers)


def short(x: float) -> str:
    """Format a number with four significant digits, or as a whole number from 1,000 on.  NaN becomes empty."""
    return "" if pd.isna(x) else f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"
