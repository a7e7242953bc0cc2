"""A figure of several sets of estimates next to the true values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd

from ...storage import as_path

STYLES = ("#7f7f7f", "o"), ("#0b6fa4", "s"), ("#3b8fc2", "^"), ("#c26a00", "D")
TRUTH = "#c0392b"


def compare_estimates(
    estimates: Mapping[str, pd.DataFrame],
    truth: pd.Series,
    labels: list[str],
    path: str | Path,
    *,
    axis: str,
    title: str,
) -> Path:
    """Draw estimates with their 95% intervals next to the true values, with one row for each domain.

    Parameters
    ----------
    estimates : mapping
        Frames by name, the confidential estimates first.  A frame has ``estimate``, ``ci_low`` and ``ci_high``, and one
        row for each domain.
    truth : pandas.Series
        Population values of the domains, in the order of the frames.
    labels : list of str
        Names of the domains.
    path : str or Path
        Image file.
    axis, title : str
        Label of the horizontal axis, and title of the figure.

    Returns
    -------
    Path
        The image file.
    """
    from matplotlib.figure import Figure  # not pyplot, which would choose a window system for the whole process

    figure = Figure(figsize=(8, 0.42 * len(labels) + 1.6), layout="constrained")
    ax = figure.subplots()
    rows = range(len(labels))
    ax.scatter(truth, rows, marker="|", s=220, color=TRUTH, linewidths=2, label="population", zorder=3)
    shifts = 0.3 * (np.arange(len(estimates)) - (len(estimates) - 1) / 2) / max(len(estimates) - 1, 1)
    for shift, (color, marker), (name, frame) in zip(shifts, cycle(STYLES), estimates.items(), strict=False):
        half = [frame["estimate"] - frame["ci_low"], frame["ci_high"] - frame["estimate"]]
        y = [row + shift for row in rows]
        ax.errorbar(frame["estimate"], y, xerr=half, fmt=marker, ms=4, color=color, lw=1.4, capsize=2, label=name)
    ax.set_yticks(list(rows), labels)
    ax.invert_yaxis()
    ax.set_xlabel(axis)
    ax.set_title(title, loc="left", fontsize=11)
    ax.grid(axis="x", alpha=0.3)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=len(estimates) + 1, frameon=False)
    path = as_path(path)
    figure.savefig(path, dpi=150)
    return path
