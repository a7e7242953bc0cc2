"""Figures of privacy weights and Lipschitz bounds of records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from surveysynth.publication.figures.style import new_figure, no_ticks, plain_log, save

from .identification import RISK_LOOKS, RISKS
from .mechanisms import WEIGHTING_LOOKS, WEIGHTINGS
from .style import REFERENCE, legend, violin
from .tabular import COLORS, METHODS


def lipschitz_violins(records: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Draw violins of the records' Lipschitz bounds, without and with privacy weights.

    Source: Hu, Savitsky & Williams 2022a, Figures 1 and 3.

    Parameters
    ----------
    records : pandas.DataFrame
        ``method, unweighted, weighted``, with one row for each record.
    path : str or Path
    title : str
    """
    methods = [name for name in METHODS if name in set(records["method"])]
    figure, axes = new_figure(1, len(methods), (4.2 * len(methods) + 0.6, 4.6), sharey=True)
    for ax, method in zip(axes[0], methods, strict=True):
        here = records[records["method"] == method]
        for x, kind in enumerate(("unweighted", "weighted")):
            bounds = here[kind].to_numpy(dtype=float)
            violin(ax, bounds, x, 0.8, COLORS[method], points=False, faint=kind == "unweighted")
            ax.text(x, bounds.max() + 0.15, f"max {bounds.max():.2f}", ha="center", va="bottom", fontsize=9)
        ax.set_xticks([0, 1], ["unweighted", "with privacy weights"])
        ax.set_xlim(-0.6, 1.6)
        ax.set_ylim(0, records["unweighted"].max() * 1.09)
        ax.tick_params(axis="x", length=0)
        ax.set_title(METHODS[method], fontsize=11)
    axes[0, 0].set_ylabel("Lipschitz bound of a record")
    return save(figure, path, title)


def weight_scatter(scatter: pd.DataFrame, path: str | Path, *, outcome: str, title: str) -> Path:
    """Draw survey weights against outcomes, for the confidential sample and for synthetic data sets.

    Source: Hu, Savitsky & Williams 2022a, Figures 4, 8 and 9.

    Parameters
    ----------
    scatter : pandas.DataFrame
        ``method``, ``weights`` (a label), ``outcome`` and ``weight``, with one row for each record.  There is a panel
        for each method and label.
    path : str or Path
    outcome : str
        Label of the outcome.
    title : str
    """
    kinds = list(dict.fromkeys(zip(scatter["method"], scatter["weights"], strict=True)))
    across = min(3, len(kinds))
    down = -(-len(kinds) // across)
    figure, axes = new_figure(down, across, (3.6 * across, 3.1 * down + 0.5), sharex=True, sharey=True)
    for ax in axes.flat[len(kinds) :]:
        ax.set_visible(False)
    for ax, (method, weights) in zip(axes.flat, kinds, strict=False):
        here = scatter[(scatter["method"] == method) & (scatter["weights"] == weights)]
        ax.scatter(here["outcome"], here["weight"], s=7, alpha=0.7, lw=0, color=COLORS[method], rasterized=True)
        ax.set(xscale="log", yscale="log")
        ax.set_title(f"{METHODS[method]}: {weights}", fontsize=10)
    for ax in axes.flat[: len(kinds)]:
        for side, name in ((ax.xaxis, "outcome"), (ax.yaxis, "weight")):
            plain_log(side, scatter[name].to_numpy(dtype=float))
    figure.supxlabel(outcome, fontsize=10)
    figure.supylabel("survey weight", fontsize=10)
    return save(figure, path, title)


def bounds_against_weights(records: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Draw the Lipschitz bound of every record against its privacy weight, with a line at the largest bound.

    Source: Hu, Savitsky & Williams 2020, Figures 2, 3, 6.

    Parameters
    ----------
    records : pandas.DataFrame
        ``synthesizer, alpha, bound``, with one row for each record.  LW and CW have separate rows of panels.
    path : str or Path
    title : str
    """
    present = set(records["synthesizer"])
    kinds = [[name for name in WEIGHTINGS if name.startswith(risk) and name in present] for risk in ("LW", "CW")]
    kinds = [line for line in kinds if line]
    across = max(len(line) for line in kinds)
    figure, axes = new_figure(len(kinds), across, (3.9 * across, 3.3 * len(kinds) + 0.5), sharex=True, sharey="row")
    for line, names in zip(axes, kinds, strict=True):
        for ax in line[len(names) :]:
            ax.set_visible(False)
        for ax, name in zip(line, names, strict=False):
            here = records[records["synthesizer"] == name]
            color = WEIGHTING_LOOKS[name].color
            ax.scatter(here["alpha"], here["bound"], s=8, alpha=0.7, lw=0, color=color, rasterized=True)
            ax.axhline(here["bound"].max(), color=REFERENCE, ls="--", lw=1)
            ax.set_title(f"{WEIGHTINGS[name]}: largest bound {here['bound'].max():.2f}", fontsize=10)
            ax.set_ylim(bottom=0)
        line[0].set_ylabel("Lipschitz bound of a record")
    axes[0, 0].set_xlim(-0.03, 1.03)
    for ax in axes[-1]:
        ax.set_xlabel("privacy weight")
    return save(figure, path, title)


def weight_changes(records: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Draw privacy weights by synthesizer (left), and weights after re-weighting against weights before (right).

    Source: Hu, Savitsky & Williams 2020, Figures 4 and 7, B to D.

    Parameters
    ----------
    records : pandas.DataFrame
        ``synthesizer, record, alpha``.
    path : str or Path
    title : str
    """
    weights = records.pivot_table(index="record", columns="synthesizer", values="alpha", sort=False)
    shown = [name for name in WEIGHTINGS if name in weights and name != "unweighted"]
    figure, axes = new_figure(1, 2, (10.5, 4.6))
    for x, name in enumerate(shown):
        violin(axes[0, 0], weights[name].to_numpy(dtype=float), x, 0.9, WEIGHTING_LOOKS[name].color, points=False)
    axes[0, 0].set_xticks(range(len(shown)), [WEIGHTINGS[name] for name in shown], rotation=30, ha="right")
    axes[0, 0].set_ylabel("privacy weight")
    axes[0, 1].plot([0, 1], [0, 1], color=REFERENCE, ls="--", lw=1)
    after = [name for name in shown if "_" in name]
    for name in after:
        before = weights[name.partition("_")[0]]
        color, marker, _ = WEIGHTING_LOOKS[name]
        axes[0, 1].scatter(before, weights[name], s=12, alpha=0.7, lw=0, color=color, marker=marker, rasterized=True)
    axes[0, 1].set(xlabel="privacy weight before re-weighting", ylabel="after", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    legend(figure, [(WEIGHTINGS[name], *WEIGHTING_LOOKS[name][:2]) for name in after])
    return save(figure, path, title)


def weights_against_values(records: pd.DataFrame, path: str | Path, *, outcome: str, title: str) -> Path:
    """Draw the privacy weight of every record against the outcome, with a panel for each synthesizer and each (c1, c2).

    Source: Hu, Savitsky & Williams 2022b, Figures 10-12.

    Parameters
    ----------
    records : pandas.DataFrame
        ``synthesizer, c1, c2, value, alpha``, with one row for each record, for synthesizers with privacy weights.
    path : str or Path
    outcome : str
        Label of the outcome.  The axis is linear near 0 and logarithmic in both tails.
    title : str
    """
    kinds = [name for name in RISKS if name in set(records["synthesizer"])]
    lines = [list(records[records["synthesizer"] == kind].groupby(["c1", "c2"], sort=False)) for kind in kinds]
    across = max(len(line) for line in lines)
    figure, axes = new_figure(len(kinds), across, (4.0 * across, 3.3 * len(kinds) + 0.6), sharex=True, sharey=True)
    sizes = records.loc[records["value"] != 0, "value"].abs()
    width = float(10 ** np.floor(np.log10(sizes.median()) - 1)) if len(sizes) else 1.0
    for row, kind, line in zip(axes, kinds, lines, strict=True):
        for ax, ((c1, c2), part) in zip(row, line, strict=False):
            color = RISK_LOOKS[kind].color
            ax.scatter(part["value"], part["alpha"], s=6, alpha=0.7, lw=0, color=color, rasterized=True)
            ax.set_title(f"{RISKS[kind]}, c1 = {c1:g}, c2 = {c2:g}", fontsize=10)
        row[0].set_ylabel("privacy weight")
    ax = axes[0, 0]
    ax.set_xscale("asinh", linear_width=width)
    powers = [width * 10.0**k for k in range(1 + int(np.log10(max(sizes.max() / width, 1))))] if len(sizes) else [1.0]
    negative = [-x for x in powers if x <= -records["value"].min()]
    ticks = [*negative[::-1], 0.0, *powers]
    ax.set_xticks(ticks, ["0" if x == 0 else f"{x:,.10g}" for x in ticks], minor=False)
    ax.xaxis.set_minor_locator(no_ticks())
    ax.set_ylim(-0.03, 1.03)
    for ax in axes[-1]:
        ax.set_xlabel(outcome)
        for label in ax.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")
    return save(figure, path, title)
