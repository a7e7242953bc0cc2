"""Figures that compare a release with its confidential file.  They are confidential."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..names import quantity
from .style import new_figure, save

Floats = NDArray[np.float64]
FILE, RELEASED, MISSED = "#555555", "#1f6f8b", "#c0392b"
LOOKS = (RELEASED, "o", 10), (MISSED, "X", 24)  # of intervals that hold the file's estimate, and of others
MOST = 4  # largest number of panels or pairs
WIDE = 6.0  # standard errors that are shown on each side of 0, or more if a cell is farther off


def estimate_differences(cells: pd.DataFrame, path: str | Path) -> Path:
    """Draw the differences between release and file, in standard errors of the release, and return the path.

    There is one panel for each combination of statistic and outcome, and at most four panels.

    Parameters
    ----------
    cells : pandas.DataFrame
        The cells of a :class:`surveysynth.release.comparison.Comparison`.
    path : str or Path
    """
    judged = cells[cells["holds"].notna() & cells["std_diff"].notna()]
    panels = list(judged.groupby(["statistic", "outcome"], sort=False))[:MOST]
    figure, axes = new_figure(1, max(len(panels), 1), (4.2 * max(len(panels), 1) + 0.6, 3.4))
    for ax, ((statistic, outcome), part) in zip(axes[0], panels, strict=False):
        holds = part["holds"].astype(bool).to_numpy()
        low, high = ((part[c] - part["estimate"]) / part["se_release"] for c in ("ci_low", "ci_high"))
        off, order = part["std_diff"].to_numpy(), np.argsort(part["std_diff"].to_numpy(), kind="stable")
        at = np.empty(len(part))
        at[order] = np.arange(len(part))
        for which, (color, marker, size) in zip((holds, ~holds), LOOKS, strict=True):
            ax.vlines(at[which], low[which], high[which], color=color, lw=1)
            ax.scatter(at[which], off[which], s=size, marker=marker, color=color, lw=0, zorder=3)
        ax.axhline(0, color=FILE, lw=1.2)
        reach = max(WIDE, 1.1 * float(np.abs(off).max()))
        ax.set_ylim(-reach, reach)
        ax.set_xticks([])
        ax.set_xlabel(f"cells, in order ({len(part)})")
        ax.set_title(quantity({"statistic": statistic, "outcome": outcome}), loc="left", fontsize=10)
    axes[0, 0].set_ylabel("release minus file,\nin standard errors of the release")
    return save(figure, path, "Estimates of the release, with 95% intervals; cross: the file's estimate is outside")


def distribution_curves(curves: pd.DataFrame, path: str | Path) -> Path:
    """Draw weighted empirical distribution functions of file and release, and return the path.

    There is one panel for each outcome, and at most four panels.

    Parameters
    ----------
    curves : pandas.DataFrame
        ``outcome, value, file, release``.
    path : str or Path
    """
    panels = list(curves.groupby("outcome", sort=False))[:MOST]
    figure, axes = new_figure(1, len(panels), (4.2 * len(panels) + 0.6, 3.4))
    for ax, (outcome, part) in zip(axes[0], panels, strict=True):
        ax.step(part["value"], part["file"], where="post", color=FILE, lw=1.8, label="file")
        ax.step(part["value"], part["release"], where="post", color=RELEASED, lw=1.4, ls="--", label="release")
        middle = np.interp([0.005, 0.995], part["file"], part["value"])
        if middle[0] < middle[1]:
            ax.set_xlim(*middle)
        ax.set_xlabel(str(outcome))
    axes[0, 0].set_ylabel("share of the population up to here")
    axes[0, 0].legend(frameon=False, loc="lower right")
    return save(figure, path, "Weighted distribution functions (without the outer half percent)")


def joint_grids(grids: Mapping[tuple[str, str], tuple[Floats, Floats]], path: str | Path) -> Path:
    """Draw the joint distributions of at most four pairs of numeric columns, and return the path.

    Each pair has a panel for the file and a panel for the release.

    Parameters
    ----------
    grids : mapping of (first, second) to two arrays (10, 10)
        For each pair of columns, the shares of the survey weights in the file and in the release.  The classes are
        separated by the deciles of each column in the file.
    path : str or Path
    """
    shown = list(grids.items())[:MOST]
    figure, axes = new_figure(len(shown), 2, (7.2, 3.4 * len(shown)))
    for row, ((first, second), pair) in zip(axes, shown, strict=True):
        largest = max(float(grid.max()) for grid in pair)
        for ax, grid, name in zip(row, pair, ("file", "release"), strict=True):
            image = ax.imshow(100 * grid.T, origin="lower", cmap="Blues", vmin=0, vmax=100 * largest)
            ax.set(xlabel=f"{first}, tenths of the file, low to high", ylabel=f"{second}, low to high")
            ax.set(title=name, xticks=[], yticks=[])
            ax.grid(False)
        figure.colorbar(image, ax=row, label="percent of the population")
    return save(figure, path, "Joint distributions")


def risk_histogram(risks: pd.DataFrame, path: str | Path) -> Path:
    """Draw histograms of the risks of records, with one panel for each column, and return the path.

    Parameters
    ----------
    risks : pandas.DataFrame (records, measures)
        Risks in [0, 1].
    path : str or Path
    """
    figure, axes = new_figure(1, risks.shape[1], (4.2 * risks.shape[1], 2.6), sharey=True)
    for ax, (name, values) in zip(axes[0], risks.items(), strict=True):
        ax.hist(values, bins=np.linspace(0, 1, 21).tolist(), color=RELEASED)
        ax.set_yscale("log")
        ax.set_xlabel(f"{name} risk")
    axes[0, 0].set_ylabel("records (log scale)")
    return save(figure, path, "Risks of records in this release")
