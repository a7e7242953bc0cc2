"""What 95% intervals of means hold, by mechanism and epsilon, from the finished cells of the coverage study.

python benchmarks/coverage_figure.py docs/coverage.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

RECORDS = 2_000  # of the samples that are drawn; other sizes are in docs/results.md
CELLS = Path(__file__).parent / "coverage_cells" / "margins.csv"
EPSILONS = (1.0, 3.0, 5.0, 10.8)
MARGINS = {"workers": ("education", "division"), "households": ("age", "region")}
TITLES = {"domains": "means of domains", "all": "mean of all"}
MECHANISMS = {  # method in the cells: label, colour, marker, shift to the side
    "strict": ("Strict", "#0b4f8a", "o", -0.16),
    "pseudo-debias": ("PseudoPosterior, debias=True", "#c26a00", "D", 0.06),
    "pseudo": ("PseudoPosterior", "#b3312c", "v", 0.17),
}


def means(cells: pd.DataFrame) -> pd.DataFrame:
    """Coverage of means, its Monte Carlo error and the samples, by population, method, epsilon and kind of mean.

    Where a cell was run twice the run with more samples counts. Levels of both margins count alike; errors of the two
    margins are added, as both come from the same samples.
    """
    cells = cells[(cells["statistic"] == "mean") & cells["population"].isin(MARGINS)]
    key = ["population", "method", "epsilon"]
    most = cells.groupby(key)["samples"].transform("max")
    cells = cells[cells["samples"] == most].drop_duplicates([*key, "margin"], keep="last")
    rows = []
    for (population, method, epsilon), cell in cells.groupby(key):
        by_margin = cell.set_index("margin")
        for kind, margins in {"domains": MARGINS[population], "all": ("all",)}.items():
            part = by_margin.loc[list(margins)]
            coverage, error = (np.average(part[c], weights=part["levels"]) for c in ("coverage", "coverage_se"))
            rows.append((population, method, epsilon, kind, coverage, error, part["samples"].iloc[0]))
    return pd.DataFrame(rows, columns=[*key, "kind", "coverage", "error", "samples"])


def draw(ax: Axes, held: pd.DataFrame) -> None:
    confidential = held.loc[held["method"] == "confidential"].sort_values("samples")["coverage"].iloc[-1]
    ax.axhline(0.95, color="#333333", linewidth=1)
    ax.axhline(confidential, color="#888888", linewidth=1.2, linestyle=(0, (4, 3)), label="the confidential sample")
    for method, (label, colour, marker, shift) in MECHANISMS.items():
        own = held[held["method"] == method].set_index("epsilon").reindex(EPSILONS)
        x = np.arange(len(EPSILONS)) + shift
        ax.errorbar(x, own["coverage"], 2 * own["error"], color=colour, linewidth=1)
        ax.scatter(x, own["coverage"], 38, color=colour, marker=marker, label=label, zorder=3)
    ax.set_xticks(range(len(EPSILONS)), [f"{e:g}" for e in EPSILONS])
    ax.set_xlim(-0.4, len(EPSILONS) - 0.6)
    ax.set_ylim(0, 1.02)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 0.95], ["0", ".25", ".50", ".75", ".95"])
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.6)


def main(path: Path) -> None:
    cells = pd.read_csv(CELLS)
    held = means(cells[cells["n"] == RECORDS])
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    axes = figure.subplots(len(TITLES), len(MARGINS), sharex=True, sharey=True)
    for row, (kind, title) in zip(axes, TITLES.items(), strict=True):
        for ax, population in zip(row, MARGINS, strict=True):
            draw(ax, held[(held["kind"] == kind) & (held["population"] == population)])
            ax.set_title(f"{population}: {title}", fontsize=11, loc="left")
        row[0].set_ylabel("share of 95% intervals\nthat hold the truth")
    for ax in axes[-1]:
        ax.set_xlabel("epsilon")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
