"""What all studies write alike: a folder of tables and a summary, and how the summary says numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd


def write_files(folder: str | Path, tables: Mapping[str, pd.DataFrame], summary: str) -> list[Path]:
    """Write tables as ``{name}.csv`` and a summary as ``summary.txt`` to a folder, made where it is not there.

    Returns
    -------
    list of Path
        The files.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.csv" for name in tables]
    for path, table in zip(written, tables.values(), strict=True):
        table.to_csv(path, index=False)
    (folder / "summary.txt").write_text(summary, encoding="utf-8")
    return [*written, folder / "summary.txt"]


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
