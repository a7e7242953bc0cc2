"""Figures that compare mechanisms and privacy weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from surveysynth.publication.figures.style import new_figure, save

from .style import REFERENCE, legend, looks, violin

MECHANISMS = {
    "data": "Data", "unweighted": "Unweighted", "weighted": "Weighted", "weighted_e": "Weighted-e",
    "censor_w": "Censor_w", "censor_uw": "Censor_uw", "perturbed_histogram": "PH",
    "perturbed_histogram_sqrt": "PH, sqrt(n) bins",
}  # fmt: skip
MECHANISM_LOOKS = looks({
    "data": "#7f7f7f", "unweighted": "#444444", "weighted": "#0b6fa4", "weighted_e": "#3b8fc2",
    "censor_w": "#2a8c55", "censor_uw": "#c26a00", "perturbed_histogram": "#7a5195",
    "perturbed_histogram_sqrt": "#a678c4",
})  # fmt: skip
WEIGHTINGS = {
    "data": "Data", "unweighted": "Unweighted", "inverse": "Inverse map",
    "inverse_debias": "Inverse map, debias", "LW": "LW", "LW_final": "LW_final",
    "LW_flat": "LW_flat", "CW": "CW", "CW_final": "CW_final", "CW_flat": "CW_flat",
}  # fmt: skip
WEIGHTING_LOOKS = looks({
    "data": "#7f7f7f", "unweighted": "#444444", "inverse": "#3d9970",
    "inverse_debias": "#1f6b41", "LW": "#3b8fc2", "LW_final": "#0b6fa4",
    "LW_flat": "#08415c", "CW": "#c2841a", "CW_final": "#b8600a", "CW_flat": "#8f4f00",
})  # fmt: skip


def mechanism_violins(
    panels: Mapping[str, pd.DataFrame],
    column: str,
    path: str | Path,
    *,
    axis: str,
    title: str,
    lines: Mapping[str, float] | None = None,
) -> Path:
    """Draw violins of a measure over replicates by mechanism, with a panel for each epsilon or weight factor c1.

    Source: Hu, Williams & Savitsky 2025, Figures 2-8, 10-24.

    Parameters
    ----------
    panels : mapping of heading to pandas.DataFrame
        ``synthesizer`` and the measure, with one row for each replicate and mechanism.
    column : str
        Column of the measure.
    path : str or Path
    axis : str
        Label of the measure.
    title : str
    lines : mapping of heading to float, optional
        Value at which a panel has a dashed line.
    """
    shown = [name for name in MECHANISMS if any(name in set(part["synthesizer"]) for part in panels.values())]
    width = max(9.0, (0.62 * len(shown) + 0.5) * len(panels) + 1.2)
    figure, axes = new_figure(1, len(panels), (width, 4.6), sharey=True)
    for ax, (heading, part) in zip(axes[0], panels.items(), strict=True):
        for x, name in enumerate(shown):
            values = part.loc[part["synthesizer"] == name, column].to_numpy(dtype=float)
            violin(ax, values, x, 0.9, MECHANISM_LOOKS[name].color)
        if lines and heading in lines:
            ax.axhline(lines[heading], color=REFERENCE, ls="--", lw=1)
        ax.set_xticks(range(len(shown)), [MECHANISMS[name] for name in shown], rotation=40, ha="right")
        ax.set_xlim(-0.6, len(shown) - 0.4)
        ax.tick_params(axis="x", length=0)
        ax.set_title(heading, fontsize=11)
    axes[0, 0].set_ylabel(axis)
    return save(figure, path, title)


def weighting_violins(
    panels: Mapping[str, tuple[pd.DataFrame, str]],
    path: str | Path,
    *,
    title: str,
    lines: Mapping[str, float] | None = None,
    notes: Mapping[str, str] | None = None,
) -> Path:
    """Draw violins of several measures by synthesizer, with a panel for each measure.

    Source: Hu, Savitsky & Williams 2020, Figures 1, 4, 5, 7 to 13.

    Parameters
    ----------
    panels : mapping of axis label to (pandas.DataFrame, column)
        The frame has ``synthesizer`` and the measure, with one row for each record, file or replicate.  Up to 100 rows
        are also drawn as points.
    path : str or Path
    title : str
    lines : mapping of axis label to float, optional
        Value at which a panel has a dashed line.
    notes : mapping of synthesizer to str, optional
        Text below the name of a synthesizer.
    """
    across = min(3, len(panels)) if len(panels) != 4 else 2
    down = -(-len(panels) // across)
    figure, axes = new_figure(down, across, (max(7.5, 5.0 * across), 3.7 * down + 0.5))
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax, (label, (frame, column)) in zip(axes.flat, panels.items(), strict=False):
        shown = [name for name in WEIGHTINGS if name in set(frame.loc[frame[column].notna(), "synthesizer"])]
        for x, name in enumerate(shown):
            values = frame.loc[frame["synthesizer"] == name, column].to_numpy(dtype=float)
            violin(ax, values, x, 0.9, WEIGHTING_LOOKS[name].color, points=values.size <= 100)
        if lines and label in lines:
            ax.axhline(lines[label], color=REFERENCE, ls="--", lw=1)
        names = [WEIGHTINGS[name] + (f"\n{notes[name]}" if notes and name in notes else "") for name in shown]
        turned = {"rotation": 30, "ha": "right"} if len(shown) > 4 and not notes else {}
        ax.set_xticks(range(len(shown)), names, **turned)
        ax.set_xlim(-0.6, len(shown) - 0.4)
        ax.tick_params(axis="x", length=0)
        ax.set_ylabel(label)
        ax.yaxis.set_major_formatter("{x:,.6g}")
    return save(figure, path, title)


def epsilon_curves(
    panels: Mapping[str, pd.DataFrame], measures: Mapping[str, str], path: str | Path, *, title: str
) -> Path:
    """Draw measures of utility against epsilon, with one line for each synthesizer.

    Parameters
    ----------
    panels : mapping of heading to pandas.DataFrame
        ``synthesizer, epsilon`` and the measures, for each column of panels.
    measures : mapping of column to axis label
        The measure of each row of panels.  The first is a ratio, and its panels have a line at 1.
    path : str or Path
    title : str
    """
    size = (4.6 * len(panels), 3.3 * len(measures) + 0.8)
    figure, axes = new_figure(len(measures), len(panels), size, sharex="col")
    names = [name for name in WEIGHTINGS if any(name in set(part["synthesizer"]) for part in panels.values())]
    for column, (heading, part) in zip(axes.T, panels.items(), strict=True):
        for ax, measure in zip(column, measures, strict=True):
            for name in names:
                here = part[part["synthesizer"] == name].sort_values("epsilon")
                color, marker, _ = WEIGHTING_LOOKS[name]
                dashes = "-" if "_" in name else "--"
                ax.plot(here["epsilon"], here[measure], color=color, marker=marker, ms=5, lw=1.6, ls=dashes)
        column[0].axhline(1, color=REFERENCE, ls=":", lw=1)
        column[0].set_title(heading, fontsize=11)
        column[-1].set_xlabel("epsilon")
    for ax, label in zip(axes[:, 0], measures.values(), strict=True):
        ax.set_ylabel(label)
    legend(figure, [(WEIGHTINGS[name], *WEIGHTING_LOOKS[name][:2]) for name in names])
    return save(figure, path, title)
