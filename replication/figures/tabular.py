"""Figures of errors and coverage of private tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from surveysynth.publication.figures.style import new_figure, plain_log, save

from .style import REFERENCE, legend, log_ticks, violin

METHODS = {"confidential": "Confidential sample", "fbs": "FBS", "fbp": "FBP", "laplace": "Laplace"}
COLORS = {"confidential": "#7f7f7f", "fbs": "#0b6fa4", "fbp": "#c26a00", "laplace": "#3f1359"}
SETTINGS = {"default": "our default", "debias": "Fisher-consistent"}
MARKERS = {"": "D", "paper": "o", "local": "o", "default": "s", "debias": "^"}
STATISTICS = {"count": "Counts", "mean": "Means"}


def rmse_violins(
    values: pd.DataFrame, column: str, path: str | Path, *, axis: Mapping[str, str], title: str, reference: bool = False
) -> Path:
    """Draw violins of a measure over domains by method and number m of data sets, for counts (left) and means (right).

    Source: Hu, Savitsky & Williams 2022a, Figures 2, 5-7.

    Parameters
    ----------
    values : pandas.DataFrame
        ``method, m, epsilon, statistic`` and the measure, with one row for each domain.
    column : str
        Column of the measure.  The axis is logarithmic.
    path : str or Path
    axis : mapping
        Label of the measure for "count" and for "mean".
    title : str
    reference : bool
        Whether to draw a line at 1.
    """
    figure, axes = new_figure(1, 2, (10.5, 4.8))
    sizes = sorted(values["m"].unique())
    methods = [name for name in METHODS if name in set(values["method"])]
    width = 0.8 / len(methods)
    for ax, statistic in zip(axes[0], STATISTICS, strict=True):
        here = values[(values["statistic"] == statistic) & (values[column] > 0)]
        for i, m in enumerate(sizes):
            for j, method in enumerate(methods):
                y = here.loc[(here["m"] == m) & (here["method"] == method), column].to_numpy(dtype=float)
                violin(ax, np.log10(y), i + (j - (len(methods) - 1) / 2) * width, width, COLORS[method])
        if reference:
            ax.axhline(0, color=REFERENCE, ls="--", lw=1)
        epsilon = values.groupby("m")["epsilon"].first()
        ax.set_xticks(range(len(sizes)), [f"m = {m:g}\nepsilon = {epsilon[m]:g}" for m in sizes])
        ax.set_xlim(-0.55, len(sizes) - 0.45)
        log_ticks(ax.yaxis, here[column].to_numpy(dtype=float))
        ax.set_ylabel(axis[statistic])
        ax.set_title(STATISTICS[statistic], fontsize=11)
        ax.tick_params(axis="x", length=0)
    legend(figure, [(METHODS[name], COLORS[name], "s") for name in methods])
    return save(figure, path, title)


def coverage_against_cv(summary: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Draw the coefficient of variation against the coverage of 95% intervals, with one point for each domain.

    Source: Hu, Savitsky & Williams 2022a, Figures 10-17.

    The panels above have the settings of the paper, the panels below those of this package.

    Parameters
    ----------
    summary : pandas.DataFrame
        Result of :func:`surveysynth.studies.summarize` for one m and delta, with the confidential estimates.
    path : str or Path
    title : str
    """
    ours = summary["setting"].isin(["default", "debias"])
    rows = [("as in the paper", ~ours & (summary["setting"] != "strict"))]
    if ours.any():
        rows.append(("our settings", ours))
    figure, axes = new_figure(len(rows), 2, (10.5, 3.9 * len(rows) + 0.4), sharex=True)
    shown = []
    for line, (name, selected) in zip(axes, rows, strict=True):
        for ax, statistic in zip(line, STATISTICS, strict=True):
            here = summary[selected & (summary["statistic"] == statistic)]
            for method, setting in dict.fromkeys(zip(here["method"], here["setting"], strict=True)):
                part = here[(here["method"] == method) & (here["setting"] == setting)]
                marker, color = MARKERS[setting], COLORS[method]
                ax.scatter(part["coverage"], part["cv"], s=26, marker=marker, color=color, lw=0)
                label = METHODS[method] + (f", {SETTINGS[setting]}" if setting in SETTINGS else "")
                shown.append((label, color, marker))
            ax.axvline(0.95, color=REFERENCE, ls="--", lw=1)
            ax.set_yscale("log")
            plain_log(ax.yaxis, here["cv"].to_numpy(dtype=float))
            ax.set_title(f"{STATISTICS[statistic]}, {name}", fontsize=10)
    lowest = min(summary.loc[selected, "coverage"].min() for _, selected in rows)
    axes[0, 0].set_xlim(min(0.5, lowest) - 0.03, 1.03)
    for ax in axes[-1]:
        ax.set_xlabel("coverage of the 95% interval")
    for ax in axes[:, 0]:
        ax.set_ylabel("coefficient of variation")
    legend(figure, list(dict.fromkeys(shown)))
    return save(figure, path, title)
