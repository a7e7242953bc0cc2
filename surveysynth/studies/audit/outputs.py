"""Table, figure and summary of an audit.

A cell of the audit is a planted record with an epsilon (:mod:`.study`).  A game is a set of noisy tables of the file
with or without the planted record, from which an intruder infers whether the record is in the file (:mod:`.games`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..._version import __version__
from ..base import stacked
from ..writing import write_files
from .files import plant
from .games import STATED, stated
from .limits import LEVEL, judge
from .study import Cell, Cells

Floats = np.ndarray[Any, np.dtype[np.float64]]

FEW = 20  # least number of games with a synthetic file, for a test of files
LOOKS = {"blank": ("#0b6fa4", "o"), "replaced": ("#c26a00", "s")}
INTERNAL = "Internal: it is of the confidential file, and of one of its records.\n"
FAILURES = ["replicate", "error", "reason"]


def verdicts(cells: Cells) -> pd.DataFrame:
    """Compare the empirical epsilon with the stated epsilon, for every planted record and every noisy table.

    Returns
    -------
    pandas.DataFrame
        ``file, n, planted, epsilon``: file, number of records, planted record and epsilon, and

        - ``relation``: whether the record is "blank" or "replaced" in the games without the planted record;
        - ``part``: what the intruder looks at: a noisy table, "all tables", or "files" (synthetic files);
        - ``stated``: the stated epsilon of the part, or twice this epsilon if the record is replaced;
        - ``pairs``: the number of games with the planted record, which is also the number of games without;
        - ``judged``: the number of these games on which the test was judged;
        - ``empirical``: the estimate of epsilon, which is ``point`` of :class:`.limits.Verdict`;
        - ``direction, hits, false_hits, most, lower`` of :class:`.limits.Verdict`.  The confidence is 95% for all parts
          of the same planted record, epsilon and relation together;
        - ``surveysynth``: the version.
    """
    rows = []
    for cell, study in cells:
        games = study.all("games")
        for relation, times in STATED.items() if len(games) else ():
            parts = by_table(cell, [games[games["side"] == side] for side in ("in", relation)], relation)
            for read in parts:
                found = judge(read.inside, read.outside, level=LEVEL / len(parts))
                rows.append(_keys(cell) | {
                    "relation": relation, "part": read.part, "stated": times * read.share * cell.epsilon,
                    "pairs": len(read.inside),
                    "judged": found.games, "direction": found.direction, "hits": found.hits,
                    "false_hits": found.false_hits, "empirical": found.point, "lower": found.lower,
                    "most": found.most,
                })  # fmt: skip
    return pd.DataFrame(rows).assign(surveysynth=__version__)


@dataclass(frozen=True)
class Read:
    """The statistics that an intruder computes from one part of the release, in all games.

    Attributes
    ----------
    part : str
        Name of a noisy table, "all tables", or "files" (synthetic files).
    share : float
        Epsilon of the part, divided by the epsilon of all tables together.
    inside, outside : float arrays (games, statistics)
        The statistics in the games with the planted record, and in the games without it.
    """

    part: str
    share: float
    inside: Floats
    outside: Floats


def by_table(cell: Cell, sides: list[pd.DataFrame], relation: str) -> list[Read]:
    """Return the intruder's statistics from each noisy table, from all tables together, and from the synthetic files.

    ``sides`` are two tables with one row for each game: with the planted record, and without it.  ``relation`` says
    what happens to the record in the games without: "blank" (not counted) or "replaced" (it has a typical value).  The
    synthetic files are left out if fewer than 20 were drawn in the games of one side.
    """
    each = stated(plant(cell.file, cell.planted), cell.epsilon)
    tables = range(len(each))

    def llr(side: pd.DataFrame, k: int) -> Floats:
        other = side[f"typical_{k}"] if relation == "replaced" else 0.0
        return np.asarray(side[f"planted_{k}"] - other, dtype=np.float64)

    found = []
    for k, (name, epsilon) in enumerate(each):
        found.append(Read(name, epsilon / cell.epsilon, *(llr(side, k)[:, None] for side in sides)))
    ratios = [np.column_stack([llr(side, k) for k in tables]) for side in sides]
    groups = [side[[f"groups_{k}" for k in tables]].to_numpy() for side in sides]
    # the number for the groups may be larger or smaller with the planted record
    whole = [np.column_stack([r.sum(axis=1), r, g, -g]) for r, g in zip(ratios, groups, strict=True)]
    files = [side[["files_outcome", "files_weight"]].dropna().to_numpy() for side in sides]
    found.append(Read("all tables", 1.0, *whole))
    return [*found, Read("files", 1.0, *files)] if min(map(len, files)) >= FEW else found


def failures(cells: Cells) -> pd.DataFrame:
    """Return a table of the failed replicates, with the error of each."""
    return stacked([study.failures(FAILURES).assign(**_keys(cell)) for cell, study in cells])


def _keys(cell: Cell) -> dict[str, Any]:
    return {
        "file": cell.file.name, "n": len(cell.file.frame), "planted": cell.planted, "epsilon": cell.epsilon,
    }  # fmt: skip


def write(cells: Cells, out: str | Path) -> list[Path]:
    """Write ``audit.csv``, ``failures.csv``, ``summary.txt`` and ``audit.png``.

    Returns
    -------
    list of Path
        The files.  For an agency's own file all of them are internal.
    """
    folder, table = Path(out), verdicts(cells)
    written = write_files(folder, {"audit": table, "failures": failures(cells)}, describe(table, cells))
    if len(table):
        written.append(_figure(table, folder / "audit.png"))
    return written


def describe(table: pd.DataFrame, cells: Cells) -> str:
    """Return the text of ``summary.txt``."""
    lines = [
        f"A membership attack on the noisy tables (surveysynth {__version__}): the intruder",
        "knows all other records, and everything is measured with the planted record and",
        "without it. The test is chosen on one half of the games and judged on the other;",
        "lower: of epsilon, at 95% (Clopper-Pearson); most: what so many games can show.",
        "An attack that fails proves nothing: a better one may not.",
    ]
    if any(cell.file.name == "own" for cell, _ in cells):
        lines += ["", INTERNAL.strip()]
    if len(table):
        lines += ["", f"Strict, n = {table['n'].iloc[0]:,}",
                 f"  {'planted':<10}{'epsilon':>7}  {'relation':<9}{'stated':>6}{'empirical':>10}{'lower':>6}"
                 f"{'most':>6}{'pairs':>7}"]  # fmt: skip
    for row in table.to_dict("records"):
        lines.append(
            f"  {row['planted']:<10}{row['epsilon']:7g}  {row['relation']:<9}{row['stated']:6.3g}"
            f"{row['empirical']:10.2f}{row['lower']:6.2f}{row['most']:6.2f}{row['pairs']:7,}"
            f"  {row['part']}" + ("" if row["lower"] <= row["stated"] else "  ABOVE")
        )
    above = int((table["lower"] > table["stated"]).sum()) if len(table) else 0
    lines += ["", f"Above the stated epsilon: {above or 'none'} of {len(table)}."]
    failed = failures(cells)
    lines.append(f"Replicates that were refused: {len(failed) or 'none'}.")
    for (record, error), part in failed.groupby(["planted", "error"]) if len(failed) else ():
        lines.append(f"  {record}: {error} in {len(part)}; the first: {part['reason'].iloc[0]}")
    return "\n".join(lines) + "\n"


def _figure(table: pd.DataFrame, path: Path) -> Path:
    """Write a figure of the empirical epsilons and their lower confidence limits, and return its path.

    The horizontal axis shows both, divided by the stated epsilons.  The vertical axis has one position for each
    combination of a planted record, an epsilon and a part of the release (:class:`Read`).
    """
    from matplotlib.figure import Figure  # not pyplot, which would choose a window system for the whole process

    names = [f"{row['planted']}, epsilon {row['epsilon']:g}, {row['part']}" for row in table.to_dict("records")]
    lines = list(dict.fromkeys(names))
    figure = Figure(figsize=(9.0, 1.6 + 0.34 * len(lines)), layout="constrained")
    ax: Any = figure.subplots()
    at = np.array([lines.index(name) for name in names], dtype=np.float64)
    for relation, (color, marker) in LOOKS.items():
        here = (table["relation"] == relation).to_numpy()
        part, y = table[here], at[here] + (0.15 if relation == "replaced" else -0.15)
        low, point = (np.maximum(part[what] / part["stated"], 0) for what in ("lower", "empirical"))
        ax.plot(point, y, ls="", marker=marker, color=color, label=f"{relation}: empirical, and its lower limit")
        ax.hlines(y, low, point, color=color, lw=1.4)
        ax.plot(part["most"] / part["stated"], y, ls="", marker="|", ms=9, color="#7f7f7f",
                label="most that so many games show" if relation == "blank" else None)  # fmt: skip
    ax.axvline(1, color="#444444", ls="--", lw=1, label="stated")
    ax.set_yticks(range(len(lines)), lines)
    ax.invert_yaxis()
    ax.set_xlim(left=-0.02)
    ax.set_xlabel("empirical epsilon over the stated one")
    ax.grid(axis="x", alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)
    return path
