"""Numbers and diagnostics as the summaries of the studies print them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def diagnostics_text(diagnostics: pd.Series) -> str:
    """A sentence on failed diagnostics, from one string of comma-separated names per fit."""
    missed = diagnostics[diagnostics != ""].str.split(", ").explode().value_counts()
    return (
        f"Sampler diagnostics that would stop a release, in {len(diagnostics):,} fits of few draws: "
        + (", ".join(f"{name} {count}" for name, count in missed.items()) or "none")
    )  # fmt: skip


def listed(numbers: Sequence[float]) -> str:
    """Numbers separated by commas."""
    return ", ".join(f"{x:g}" for x in numbers)


def short(x: float) -> str:
    """A short number: whole from 1,000 on, else four digits; empty if it is missing."""
    return "" if pd.isna(x) else f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"
