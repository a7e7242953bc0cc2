"""Add the finished cells of a coverage study to those that are filed; a cell that is there is replaced.

python benchmarks/file_cells.py folder [commit]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd

FILED = Path(__file__).parent / "coverage_cells"
CELL = ["population", "n", "method", "epsilon"]


def file(folder: Path, commit: str) -> None:
    """Add ``margins.csv`` and ``levels.csv`` of a study."""
    for name in ("margins.csv", "levels.csv"):
        new = pd.read_csv(folder / name).assign(commit=commit).drop(columns="surveysynth", errors="ignore")
        old = pd.read_csv(FILED / name)
        # confidential rows are those of the samples of a cell: they stay beside the cells that were made with them
        strict = new.loc[new["method"] != "confidential", CELL].drop_duplicates()
        both = old.merge(strict, on=CELL, how="left", indicator=True)
        kept = old[(both["_merge"] == "left_only").to_numpy()]
        every = pd.concat([kept, new.reindex(columns=old.columns)])
        every.drop_duplicates(every.columns.difference(["commit"])).to_csv(FILED / name, index=False)


if __name__ == "__main__":
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    file(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else head.stdout.strip())
