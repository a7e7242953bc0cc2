"""The picture of the README: true means, the sample's intervals and the released intervals, at epsilon 5 and 1.

python benchmarks/readme_figure.py docs/release.png

One sample of 2,000 census workers is released twice.  The population is known, so its true means can be shown.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import surveysynth as ss

SEED = 1
EPSILONS = (5, 1)
SHOWN = {  # label, colour, marker, shift downwards
    "sample": ("confidential sample", "#767676", "s", 0.14),
    "release": ("release", "#0b4f8a", "o", -0.14),
}


def means(source: ss.SurveyDesign | ss.Release) -> pd.DataFrame:
    """Means by education, by division and of all, with 95% intervals."""
    tables = []
    for by in ("education", "division"):
        table = (
            source.tables(by, statistic="mean")
            if isinstance(source, ss.Release)
            else ss.estimate(source, "income", by)
        )
        tables.append(table.set_index(table[by].astype(str))[["estimate", "ci_low", "ci_high"]])
    return pd.concat([tables[0], tables[1].drop("all")])


def draw(ax: Axes, truth: pd.Series, by: dict[str, pd.DataFrame], epsilon: float) -> None:
    """One panel: a row for each mean."""
    y = np.arange(len(truth))[::-1]
    for name, (label, colour, marker, shift) in SHOWN.items():
        table = by[name].loc[truth.index]
        ax.hlines(y + shift, table["ci_low"], table["ci_high"], color=colour, linewidth=1.6)
        ax.scatter(table["estimate"], y + shift, 16, color=colour, marker=marker, label=label, zorder=3)
    ax.vlines(truth, y - 0.36, y + 0.36, color="#111111", linewidth=1.6, label="truth", zorder=4)
    ax.set_title(f"epsilon {epsilon:g}", fontsize=10)
    ax.set_yticks(y, [str(name) for name in truth.index], fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    ax.set_xlabel("mean weekly income, dollars", fontsize=9)
    ax.grid(axis="x", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def main(path: Path) -> None:
    """Draw the figure and write it."""
    population = ss.datasets.census.census_workers()
    truth = pd.concat([
        population.groupby("education", observed=True)["income"].mean().rename(str),
        pd.Series({"all": population["income"].mean()}),
        population.groupby("division", observed=True)["income"].mean().rename(str),
    ])
    design = ss.datasets.census.census_sample(2_000, seed=SEED)
    sample = means(design)
    figure = Figure(figsize=(9.2, 4.6), layout="constrained")
    axes = figure.subplots(1, len(EPSILONS), sharex=True, sharey=True)
    for ax, epsilon in zip(axes, EPSILONS, strict=True):
        release = ss.synthesize(
            design, "income ~ division + education", epsilon=epsilon, population_total=len(population),
            bounds=(0, 20_000), seed=SEED,
        )  # fmt: skip
        draw(ax, truth, {"sample": sample, "release": means(release)}, epsilon)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
