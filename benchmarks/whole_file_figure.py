"""What a user of a released household file would look at: distributions, rank correlations, published statistics.

python benchmarks/whole_file_figure.py docs/whole_file.png
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from whole_file import (
    COMPONENTS,
    FORMULAS,
    HOUSEHOLDS,
    RULES,
    correlations,
    everybody,
    population,
    schema,
    statistics,
    total,
)

import surveysynth as ss
from surveysynth.datasets.draw import draw_sample

N, EPSILON, SEED = 12_000, 10.8, 1
FILE, RELEASE = "#1a1a1a", "#d9700f"
LEAST, MOST = 100, 200_000  # euros a year that are drawn


def above(frame: pd.DataFrame, weights: NDArray[np.float64], name: str, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of households with more than so many euros."""
    y = frame[name].to_numpy(dtype=float)
    order = np.argsort(y)
    below = np.concatenate([[0.0], np.cumsum(weights[order])]) / weights.sum()
    return np.asarray(1 - below[np.searchsorted(y[order], at, side="right")])


def draw_distribution(ax: Axes, sample: ss.SurveyDesign, release: ss.Release, name: str) -> None:
    """Shares above each amount: the sample's in one line, the data sets' in others."""
    at = np.geomspace(LEAST, MOST, 200)
    for k, each in enumerate(release.datasets[:5]):
        label, share = "five of the 20 data sets" if k == 0 else None, above(each.frame, each.weights, name, at)
        ax.plot(at, 100 * share, color=RELEASE, linewidth=0.9, alpha=0.7, label=label)
    ax.plot(at, 100 * above(sample.frame, sample.weights, name, at), color=FILE, linewidth=1.6, linestyle=(0, (4, 2)),
            label="confidential sample")  # fmt: skip
    ax.set_xscale("log")
    ax.set_title(name, fontsize=10, loc="left")
    ax.set_ylim(0, None)


def draw_correlations(ax: Axes, sample: ss.SurveyDesign, release: ss.Release) -> None:
    """Rank correlations of all pairs of numbers."""
    own = pd.Series(correlations(sample.frame))
    made = pd.DataFrame([correlations(each.frame) for each in release.datasets]).mean()
    ax.plot([-1, 1], [-1, 1], color="#767676", linewidth=0.8)
    ax.scatter(own, made[own.index], 18, color=RELEASE, zorder=3)
    ax.set_xlim(-0.75, 1)
    ax.set_ylim(-0.75, 1)
    ax.set_xlabel("confidential sample")
    ax.set_ylabel("release")
    ax.set_title(f"rank correlations of {len(own)} pairs", fontsize=10, loc="left")


def draw_statistics(ax: Axes, people: pd.DataFrame, release: ss.Release) -> int:
    """Intervals of the published statistics about the population's values, in percent of these; how many hold them."""
    truth = statistics(lambda by, outcome, what: ss.estimate(everybody(people), outcome, by, what))
    made = statistics(lambda by, outcome, what: release.tables(by, outcome=outcome, statistic=what))
    both = made.merge(truth[["statistic", "estimate"]].rename(columns={"estimate": "truth"}), on="statistic")
    holds = (both["ci_low"] <= both["truth"]) & (both["truth"] <= both["ci_high"])
    for kind, colour, marker in ((holds, RELEASE, "o"), (~holds, "#7a0019", "X")):
        place = np.flatnonzero(kind)
        part = both[kind]
        centre, low, high = (100 * (part[c] / part["truth"] - 1) for c in ("estimate", "ci_low", "ci_high"))
        ax.vlines(place, low, high, color=colour, linewidth=1.1)
        ax.scatter(place, centre, 14, color=colour, marker=marker, zorder=3)
    ax.axhline(0, color=FILE, linewidth=1)
    ax.set_ylim(-45, 45)
    names = both["statistic"].str.split(",").str[0].str.split(" ").str[0]
    starts = np.flatnonzero(names != names.shift())
    ax.set_xticks(starts, names.iloc[starts], rotation=30, ha="left", fontsize=8)
    ax.set_ylabel("% off the population's value")
    held = int(holds.sum())
    ax.set_title(f"{held} of {len(both)} 95% intervals hold the population's value (crosses: those that do not)",
                 fontsize=10, loc="left")  # fmt: skip
    return held


def main(path: Path) -> None:
    """Release one sample, and draw."""
    warnings.simplefilter("ignore")
    people = population()
    sample = draw_sample(people, n=N, strata="region", size="size", rng=np.random.default_rng(SEED))
    release = ss.synthesize(
        sample, FORMULAS, outcomes=schema(), epsilon=EPSILON, population_total=float(HOUSEHOLDS), edits=RULES, seed=SEED
    ).assign(total=total)
    figure = Figure(figsize=(11, 9), layout="constrained")
    axes = figure.subplot_mosaic([[*COMPONENTS[:3], "correlations"], [*COMPONENTS[3:], "total", "correlations"],
                                  ["statistics"] * 4], height_ratios=[1, 1, 1.25])  # fmt: skip
    for name in (*COMPONENTS, "total"):
        draw_distribution(axes[name], sample, release, name)
    for name in (COMPONENTS[0], COMPONENTS[3]):
        axes[name].set_ylabel("% of households above")
    for name in (*COMPONENTS[3:], "total"):
        axes[name].set_xlabel("euros a year")
    draw_correlations(axes["correlations"], sample, release)
    draw_statistics(axes["statistics"], people, release)
    for ax in axes.values():
        ax.spines[["top", "right"]].set_visible(False)
    handles, labels = axes["total"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
