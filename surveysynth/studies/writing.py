"""Writing of the tables and the summary of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd


def write_files(folder: str | Path, tables: Mapping[str, pd.DataFrame], summary: str) -> list[Path]:
    """Write tables as ``{name}.csv`` and a summary as ``summary.txt``.  The folder is made if it does not exist.

    Returns
    -------
    list of Path
        The files that were written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.csv" for name in tables]
    for path, table in zip(written, tables.values(), strict=True):
        table.to_csv(path, index=False)
    (folder / "summary.txt").write_text(summary, encoding="utf-8")
    return [*written, folder / "summary.txt"]
