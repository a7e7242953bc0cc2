"""Figures of identification risks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surveysynth.publication.figures.style import new_figure, save

from .style import REFERENCE, legend, looks, violin

Floats = NDArray[np.float64]

RISKS = {
    "data": "Data", "topcoding": "Topcoding", "synthesizer": "Synthesizer", "marginal": "Marginal",
    "pairwise": "Pairwise",
}  # fmt: skip
RISK_LOOKS = looks({
    "data": "#7f7f7f", "topcoding": "#7a5195", "synthesizer": "#444444", "marginal": "#c26a00", "pairwise": "#0b6fa4",
})  # fmt: skip
RISK_MEASURES = {
    "mean": "Mean", "iqr": "Interquartile range", "q99": "99th percentile", "max": "Largest",
}  # fmt: skip


def risk_violins(records: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Draw violins of the records' identification risks by kind of file, with the mean risks.

    Source: Hu, Savitsky & Williams 2022b, Figures 5, 7, 13.

    Parameters
    ----------
    records : pandas.DataFrame
        ``synthesizer, c1, c2, risk``, with one row for each record and kind of file.
    path : str or Path
    title : str
    """
    groups = [part for _, part in records.groupby(["synthesizer", "c1", "c2"], sort=False, dropna=False)]
    figure, axes = new_figure(1, 1, (1.2 * len(groups) + 1, 4.6))
    ax, labels = axes[0, 0], []
    for x, part in enumerate(groups):
        name, c1, c2 = part[["synthesizer", "c1", "c2"]].iloc[0]
        risk = part["risk"].to_numpy(dtype=float)
        violin(ax, risk, x, 1.0, RISK_LOOKS[name].color, points=False, middle=np.mean)
        ax.text(x, 1.02, f"{risk.mean():.3f}", ha="center", va="bottom", fontsize=9)
        labels.append(RISKS[name] + ("" if pd.isna(c1) else f"\nc1 = {c1:g}\nc2 = {c2:g}"))
    ax.axhline(0.5, color=REFERENCE, ls=":", lw=1)
    ax.set_xticks(range(len(groups)), labels)
    ax.set(ylim=(-0.02, 1.08), xlim=(-0.6, len(groups) - 0.4), ylabel="identification risk of a record; line: mean")
    ax.tick_params(axis="x", length=0)
    return save(figure, path, title)


def whack_a_mole(
    risk: Mapping[str, Floats], before: Floats, path: str | Path, *, title: str, rise: float, limit: float
) -> Path:
    """Draw identification risks under privacy weights against risks without them, with a panel for each synthesizer.

    Source: Hu, Savitsky & Williams 2022b, Figures 6, 8, 9.

    Parameters
    ----------
    risk : mapping of synthesizer to float array (n,)
        Risks under privacy weights.
    before : float array (n,)
        Risks without privacy weights.
    path : str or Path
    title : str
    rise : float
        Records whose risk increased by more than this have another colour and marker.
    limit : float
        Risk at which a horizontal line is drawn.
    """
    figure, axes = new_figure(1, len(risk), (5.2 * len(risk), 5.2), sharex=True, sharey=True)
    for ax, (name, after) in zip(axes[0], risk.items(), strict=True):
        raised = after - before > rise
        for selected, color, marker, size in ((~raised, "#66727a", "o", 9), (raised, REFERENCE, "^", 20)):
            where = {"x": before[selected], "y": after[selected]}
            ax.scatter(**where, s=size, marker=marker, alpha=0.7, lw=0, color=color, rasterized=True)
        ax.plot([0, 1], [0, 1], color="#0b6fa4", lw=1.2)
        ax.axhline(limit, color="black", ls="--", lw=1)
        ax.set_title(f"{RISKS[name]}: {int(raised.sum()):,} records rose by more than {rise:g}", fontsize=10)
        ax.set_xlabel("identification risk, Synthesizer")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes[0, 0].set_ylabel("identification risk under privacy weights")
    return save(figure, path, title)


def radius_curves(
    profile: pd.DataFrame, utility: pd.DataFrame, labels: Mapping[str, str], path: str | Path, *, title: str
) -> Path:
    """Draw identification risk (above) and utility (below) against the radius in which an intruder searches.

    Solid lines: one set of files, whose risk is measured with all radii.  Dashed lines: privacy weights that were
    computed with the radius on the axis.

    Parameters
    ----------
    profile : pandas.DataFrame
        ``synthesizer, radius`` (for the privacy weights), ``at`` (radius with which risk is measured), and the measures
        of risk.
    utility : pandas.DataFrame
        ``synthesizer, radius, statistic, relative_difference``.
    labels : mapping of statistic to str
        Titles of the panels below.
    path : str or Path
    title : str
    """
    across = max(len(RISK_MEASURES), len(labels))
    figure, axes = new_figure(2, across, (3.5 * across, 6.8))
    names = [name for name in RISKS if name in set(profile["synthesizer"])]
    for ax, (measure, label) in zip(axes[0], RISK_MEASURES.items(), strict=False):
        for name in names:
            part = profile[profile["synthesizer"] == name].sort_values("at")
            main = part["radius"].value_counts(dropna=False).index[0]  # of the files measured with all radii
            same = part[part["radius"].isna() | (part["radius"] == main)]
            color, marker, _ = RISK_LOOKS[name]
            ax.plot(same["at"], same[measure], color=color, marker=marker, ms=5, lw=1.6)
            own = part[part["radius"] == part["at"]]
            ax.plot(own["at"], own[measure], color=color, marker=marker, ms=5, lw=1.4, ls="--")
        ax.set_title(f"{label} of the risks", fontsize=10)
    for ax, (statistic, label) in zip(axes[1], labels.items(), strict=False):
        for name in names:
            part = utility[(utility["synthesizer"] == name) & (utility["statistic"] == statistic)].sort_values("radius")
            color, marker, _ = RISK_LOOKS[name]
            off = 100 * part["relative_difference"]
            ax.plot(part["radius"], off, color=color, marker=marker, ms=5, lw=1.4, ls="--")
        ax.axhline(0, color=REFERENCE, ls=":", lw=1)
        ax.set_title(f"{label}, off by %", fontsize=10)
    for ax in axes[1, len(labels) :]:
        ax.set_visible(False)
    for ax in axes[1]:
        ax.set_xlabel("radius, share of the value")
    legend(figure, [(RISKS[name], *RISK_LOOKS[name][:2]) for name in names])
    return save(figure, path, title)
