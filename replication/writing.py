"""How the summaries of the studies say numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def of_diagnostics(diagnostics: pd.Series) -> str:
    """How many fits missed each of the sampler's diagnostics, from their names by commas, one string a fit."""
    missed = diagnostics[diagnostics != ""].str.split(", ").explode().value_counts()
    return (
        f"Sampler diagnostics that would stop a release, in {len(diagnostics):,} fits of few draws: "
        + (", ".join(f"{name} {count}" for name, count in missed.items()) or "none")
    )  # fmt: skip


def listed(numbers: Sequence[float]) -> str:
    """Numbers by commas."""
    return ", ".join(f"{x:g}" for x in numbers)


def short(x: float) -> str:
    """A number at a glance: whole from 1,000 on, else of four digits; nothing where it is missing."""
    return "" if pd.isna(x) else f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"
