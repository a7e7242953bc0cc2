"""Figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

STYLE = {"confidential": ("#7f7f7f", "o"), "released": ("#0b6fa4", "s")}
METHODS = {"confidential": "Confidential sample", "fbs": "FBS", "fbp": "FBP", "laplace": "Laplace"}
COLORS = {"confidential": "#7f7f7f", "fbs": "#0b6fa4", "fbp": "#d9820f", "laplace": "#7a5195"}
SETTINGS = {"default": "our default", "debias": "Fisher-consistent"}
MARKERS = {"": "D", "paper": "o", "local": "o", "default": "s", "debias": "^"}
STATISTICS = {"count": "Counts", "mean": "Means"}
MECHANISMS = {
    "data": "Data", "unweighted": "Unweighted", "weighted": "Weighted", "weighted_e": "Weighted-e",
    "censor_w": "Censor_w", "censor_uw": "Censor_uw", "perturbed_histogram": "PH",
    "perturbed_histogram_sqrt": "PH, sqrt(n) bins",
}  # fmt: skip
MECHANISM_COLORS = {
    "data": "#7f7f7f", "unweighted": "#444444", "weighted": "#0b6fa4", "weighted_e": "#5fb0d9",
    "censor_w": "#2a8c55", "censor_uw": "#d9820f", "perturbed_histogram": "#7a5195",
    "perturbed_histogram_sqrt": "#b78fcf",
}  # fmt: skip
WEIGHTINGS = {
    "data": "Data", "unweighted": "Unweighted", "inverse": "Inverse map",
    "inverse_debias": "Inverse map, debias", "LW": "LW", "LW_final": "LW_final",
    "LW_flat": "LW_flat", "CW": "CW", "CW_final": "CW_final", "CW_flat": "CW_flat",
}  # fmt: skip
WEIGHTING_COLORS = {
    "data": "#7f7f7f", "unweighted": "#444444", "inverse": "#8fcfae",
    "inverse_debias": "#2a8c55", "LW": "#5fb0d9", "LW_final": "#0b6fa4",
    "LW_flat": "#08415c", "CW": "#e8b267", "CW_final": "#d9820f", "CW_flat": "#8f4f00",
}  # fmt: skip
RISKS = {
    "data": "Data", "topcoding": "Topcoding", "synthesizer": "Synthesizer", "marginal": "Marginal",
    "pairwise": "Pairwise",
}  # fmt: skip
RISK_COLORS = {
    "data": "#7f7f7f", "topcoding": "#7a5195", "synthesizer": "#444444", "marginal": "#d9820f", "pairwise": "#0b6fa4",
}  # fmt: skip
RISK_MEASURES = {
    "mean": "Mean", "iqr": "Interquartile range", "q99": "99% quantile", "max": "Largest",
}  # fmt: skip
REFERENCE = "#c0392b"
Floats = NDArray[np.float64]


def compare_estimates(
    estimates: Mapping[str, pd.DataFrame],
    truth: pd.Series,
    labels: list[str],
    path: str | Path,
    *,
    axis: str,
    title: str,
) -> Path:
    """Draw estimates with their 95% intervals beside the truth, one row a domain.

    Parameters
    ----------
    estimates : mapping
        ``confidential`` and ``released``: frames with ``estimate``, ``ci_low``, ``ci_high``, a row a domain.
    truth : pandas.Series
        Population values, in the same order.
    labels : list of str
        Names of the domains.
    path : str or Path
        Image file.
    axis, title : str
    """
    from matplotlib.figure import Figure  # not pyplot, which would choose a window system for the whole process

    figure = Figure(figsize=(8, 0.42 * len(labels) + 1.6), layout="constrained")
    ax = figure.subplots()
    rows = range(len(labels))
    ax.scatter(truth, rows, marker="|", s=220, color="#c0392b", linewidths=2, label="population", zorder=3)
    for shift, (name, frame) in zip((-0.15, 0.15), estimates.items(), strict=True):
        color, marker = STYLE[name]
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
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=3, frameon=False)
    path = Path(path)
    figure.savefig(path, dpi=150)
    return path


def rmse_violins(
    values: pd.DataFrame, column: str, path: str | Path, *, axis: Mapping[str, str], title: str, reference: bool = False
) -> Path:
    """Violins of a measure over the domains, by m and method: counts on the left, means on the right (T Fig. 2, 5-7).

    Parameters
    ----------
    values : pandas.DataFrame
        ``method, m, epsilon, statistic`` and the measure, a row a domain.
    column : str
        The measure, positive; its axis is logarithmic.
    path : str or Path
    axis : mapping
        Label of the measure for "count" and for "mean".
    title : str
    reference : bool
        Draw a line at 1.
    """
    figure, axes = _figure(1, 2, (10.5, 4.8))
    sizes = sorted(values["m"].unique())
    methods = [name for name in METHODS if name in set(values["method"])]
    width = 0.8 / len(methods)
    for ax, statistic in zip(axes[0], STATISTICS, strict=True):
        here = values[(values["statistic"] == statistic) & (values[column] > 0)]
        for i, m in enumerate(sizes):
            for j, method in enumerate(methods):
                y = here.loc[(here["m"] == m) & (here["method"] == method), column].to_numpy(dtype=float)
                _violin(ax, np.log10(y), i + (j - (len(methods) - 1) / 2) * width, width, COLORS[method])
        if reference:
            ax.axhline(0, color=REFERENCE, ls="--", lw=1)
        epsilon = values.groupby("m")["epsilon"].first()
        ax.set_xticks(range(len(sizes)), [f"m = {m:g}\nepsilon = {epsilon[m]:g}" for m in sizes])
        ax.set_xlim(-0.55, len(sizes) - 0.45)
        _log_ticks(ax.yaxis, here[column].to_numpy(dtype=float))
        ax.set_ylabel(axis[statistic])
        ax.set_title(STATISTICS[statistic], fontsize=11)
        ax.tick_params(axis="x", length=0)
    _legend(figure, [(METHODS[name], COLORS[name], "s") for name in methods])
    return _save(figure, path, title)


def lipschitz_violins(records: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Violins of the records' Lipschitz bounds, without and with privacy weights (T Fig. 1 and 3).

    Parameters
    ----------
    records : pandas.DataFrame
        ``method, unweighted, weighted``, a row a record.
    path : str or Path
    title : str
    """
    methods = [name for name in METHODS if name in set(records["method"])]
    figure, axes = _figure(1, len(methods), (4.2 * len(methods) + 0.6, 4.6), sharey=True)
    for ax, method in zip(axes[0], methods, strict=True):
        here = records[records["method"] == method]
        for x, kind in enumerate(("unweighted", "weighted")):
            bounds = here[kind].to_numpy(dtype=float)
            _violin(ax, bounds, x, 0.8, COLORS[method], points=False, faint=kind == "unweighted")
            ax.text(x, bounds.max() + 0.15, f"max {bounds.max():.2f}", ha="center", va="bottom", fontsize=9)
        ax.set_xticks([0, 1], ["unweighted", "with privacy weights"])
        ax.set_xlim(-0.6, 1.6)
        ax.set_ylim(0, records["unweighted"].max() * 1.09)
        ax.tick_params(axis="x", length=0)
        ax.set_title(METHODS[method], fontsize=11)
    axes[0, 0].set_ylabel("Lipschitz bound of a record")
    return _save(figure, path, title)


def weight_scatter(scatter: pd.DataFrame, path: str | Path, *, outcome: str, title: str) -> Path:
    """Outcome and survey weight of the confidential sample and of synthetic data sets (T Fig. 4, 8 and 9).

    Parameters
    ----------
    scatter : pandas.DataFrame
        ``method, weights, outcome, weight``, a row a record; a panel for each method and kind of weights.
    path : str or Path
    outcome : str
        Label of the outcome.
    title : str
    """
    kinds = list(dict.fromkeys(zip(scatter["method"], scatter["weights"], strict=True)))
    across = min(3, len(kinds))
    down = -(-len(kinds) // across)
    figure, axes = _figure(down, across, (3.6 * across, 3.1 * down + 0.5), sharex=True, sharey=True)
    for ax in axes.flat[len(kinds) :]:
        ax.set_visible(False)
    for ax, (method, weights) in zip(axes.flat, kinds, strict=False):
        here = scatter[(scatter["method"] == method) & (scatter["weights"] == weights)]
        ax.scatter(here["outcome"], here["weight"], s=7, alpha=0.45, lw=0, color=COLORS[method], rasterized=True)
        ax.set(xscale="log", yscale="log")
        ax.set_title(f"{METHODS[method]}: {weights}", fontsize=10)
    for ax in axes.flat[: len(kinds)]:
        for side, name in ((ax.xaxis, "outcome"), (ax.yaxis, "weight")):
            _plain_log(side, scatter[name].to_numpy(dtype=float))
    figure.supxlabel(outcome, fontsize=10)
    figure.supylabel("survey weight", fontsize=10)
    return _save(figure, path, title)


def coverage_against_cv(summary: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Coverage of the 95% intervals against the coefficient of variation, a point a domain (T Fig. 10-17).

    Above the methods as in the paper, below our settings of FBS and FBP.

    Parameters
    ----------
    summary : pandas.DataFrame
        From :func:`surveysynth.evaluate.summarize`, of one m and delta, with the confidential sample.
    path : str or Path
    title : str
    """
    ours = summary["setting"].isin(["default", "debias"])
    rows = [("as in the paper", ~ours & (summary["setting"] != "strict"))]
    if ours.any():
        rows.append(("our settings", ours))
    figure, axes = _figure(len(rows), 2, (10.5, 3.9 * len(rows) + 0.4), sharex=True)
    shown = []
    for line, (name, chosen) in zip(axes, rows, strict=True):
        for ax, statistic in zip(line, STATISTICS, strict=True):
            here = summary[chosen & (summary["statistic"] == statistic)]
            for method, setting in dict.fromkeys(zip(here["method"], here["setting"], strict=True)):
                part = here[(here["method"] == method) & (here["setting"] == setting)]
                marker, color = MARKERS[setting], COLORS[method]
                ax.scatter(part["coverage"], part["cv"], s=26, marker=marker, color=color, alpha=0.75, lw=0)
                label = METHODS[method] + (f", {SETTINGS[setting]}" if setting in SETTINGS else "")
                shown.append((label, color, marker))
            ax.axvline(0.95, color=REFERENCE, ls="--", lw=1)
            ax.set_yscale("log")
            _plain_log(ax.yaxis, here["cv"].to_numpy(dtype=float))
            ax.set_title(f"{STATISTICS[statistic]}, {name}", fontsize=10)
    lowest = min(summary.loc[chosen, "coverage"].min() for _, chosen in rows)
    axes[0, 0].set_xlim(min(0.5, lowest) - 0.03, 1.03)
    for ax in axes[-1]:
        ax.set_xlabel("coverage of the 95% interval")
    for ax in axes[:, 0]:
        ax.set_ylabel("coefficient of variation")
    _legend(figure, list(dict.fromkeys(shown)))
    return _save(figure, path, title)


def mechanism_violins(
    panels: Mapping[str, pd.DataFrame],
    column: str,
    path: str | Path,
    *,
    axis: str,
    title: str,
    lines: Mapping[str, float] | None = None,
) -> Path:
    """Violins of a measure over replicates by mechanism, a panel for each epsilon or c1 (C Fig. 2-8, 10-24).

    Parameters
    ----------
    panels : mapping of heading to pandas.DataFrame
        ``synthesizer`` and the measure, a row a replicate and mechanism.
    column : str
        The measure.
    path : str or Path
    axis : str
        Its label.
    title : str
    lines : mapping of heading to float, optional
        Where a panel has a dashed line.
    """
    shown = [name for name in MECHANISMS if any(name in set(part["synthesizer"]) for part in panels.values())]
    width = max(9.0, (0.62 * len(shown) + 0.5) * len(panels) + 1.2)
    figure, axes = _figure(1, len(panels), (width, 4.6), sharey=True)
    for ax, (heading, part) in zip(axes[0], panels.items(), strict=True):
        for x, name in enumerate(shown):
            values = part.loc[part["synthesizer"] == name, column].to_numpy(dtype=float)
            _violin(ax, values, x, 0.9, MECHANISM_COLORS[name])
        if lines and heading in lines:
            ax.axhline(lines[heading], color=REFERENCE, ls="--", lw=1)
        ax.set_xticks(range(len(shown)), [MECHANISMS[name] for name in shown], rotation=40, ha="right")
        ax.set_xlim(-0.6, len(shown) - 0.4)
        ax.tick_params(axis="x", length=0)
        ax.set_title(heading, fontsize=11)
    axes[0, 0].set_ylabel(axis)
    return _save(figure, path, title)


def density_curves(
    panels: Mapping[str, Mapping[str, tuple[Floats, Floats]]], path: str | Path, *, title: str
) -> Path:
    """Densities as lines, a panel each (C Fig. 1 and 9).

    Parameters
    ----------
    panels : mapping of axis label to curves
        Curves by name: points (k,) and densities (k,).
    path : str or Path
    title : str
    """
    names = list(next(iter(panels.values())))
    known = {MECHANISMS[name]: color for name, color in MECHANISM_COLORS.items()}
    colors = [known.get(name, color) for name, color in zip(names, (*COLORS.values(), *known.values()), strict=False)]
    figure, axes = _figure(1, len(panels), (5.4 * len(panels) + 2.4 * (len(panels) == 1), 4.6))
    for ax, (label, curves) in zip(axes[0], panels.items(), strict=True):
        for color, (points, density) in zip(colors, curves.values(), strict=True):
            ax.plot(points, density, color=color, lw=1.6)
        ax.set_xlabel(label)
        ax.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("density")
    _legend(figure, [(name, color, "s") for name, color in zip(names, colors, strict=True)])
    return _save(figure, path, title)


def _figure(down: int, across: int, size: tuple[float, float], **shared: Any) -> tuple[Any, NDArray[Any]]:
    """A figure with its axes (down, across)."""
    from matplotlib.figure import Figure  # not pyplot, which would choose a window system for the whole process

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, **shared)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", alpha=0.25)
        ax.set_axisbelow(True)
    return figure, axes


def _violin(
    ax: Any, y: Floats, x: float, width: float, color: str, *, points: bool = True, faint: bool = False,
    middle: Callable[[Floats], Any] = np.median,
) -> None:  # fmt: skip
    """One violin with its median or mean, and with its points where they are few."""
    y = y[np.isfinite(y)]
    if y.size == 0:
        return
    if np.ptp(y) > 0:  # the density of one value is none
        body = ax.violinplot(y, [x], widths=0.9 * width, showextrema=False)["bodies"][0]
        body.set(facecolor=color, edgecolor=color, alpha=0.22 if faint else 0.45, linewidth=0.8)
    if points:
        spread = 0.18 * width * np.sin(1.7 * np.arange(y.size))  # side by side, the same in every run
        ax.scatter(x + spread, y, s=7, color=color, alpha=0.8, lw=0, zorder=3)
    ax.hlines(middle(y), x - 0.22 * width, x + 0.22 * width, color="black", lw=1.4, zorder=4)


def _log_ticks(side: Any, values: Floats) -> None:
    """Ticks at 1, 2, 5, 10, ... on an axis that shows log10 of positive values."""
    ticks = _nice(values)
    side.set_ticks(np.log10(ticks), [_number(x) for x in ticks])


def _plain_log(side: Any, values: Floats) -> None:
    """The same on a logarithmic axis."""
    ticks = _nice(values[values > 0])
    side.set_ticks(ticks, [_number(x) for x in ticks])
    side.set_minor_locator(_no_ticks())


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _nice(values: Floats, most: int = 9) -> Floats:
    """Round numbers over the range of positive values: 1, 2, 5, 10, ..., or powers of ten where these are many."""
    values = values[np.isfinite(values) & (values > 0)]
    if values.size == 0:
        return np.array([1.0])
    low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
    powers = 10 ** np.arange(low, high + 1)
    ticks: Floats = np.sort(np.concatenate([powers, 2 * powers, 5 * powers]))
    ticks = ticks[(ticks >= values.min() * 0.9) & (ticks <= values.max() * 1.1)]
    return ticks if 2 <= ticks.size <= most else powers[:: max(1, -(-powers.size // most))]


def _number(x: float) -> str:
    return f"{x:,.0f}" if x >= 1 else f"{x:g}"


def _legend(figure: Any, entries: Sequence[tuple[str, str, str]]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], ls="", marker=marker, ms=7, color=color, label=label) for label, color, marker in entries]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4), frameon=False)


def _save(figure: Any, path: str | Path, title: str) -> Path:
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    path = Path(path)
    figure.savefig(path, dpi=150)
    return path


def weighting_violins(
    panels: Mapping[str, tuple[pd.DataFrame, str]],
    path: str | Path,
    *,
    title: str,
    lines: Mapping[str, float] | None = None,
    notes: Mapping[str, str] | None = None,
) -> Path:
    """Violins by synthesizer, a panel a measure, each with its own axis (R Fig. 1, 4, 5, 7 to 13).

    Parameters
    ----------
    panels : mapping of axis label to (pandas.DataFrame, column)
        The frame has ``synthesizer`` and the measure, a row a record, a file or a replicate; where rows are few, they
        are drawn as points.
    path : str or Path
    title : str
    lines : mapping of axis label to float, optional
        Where a panel has a dashed line.
    notes : mapping of synthesizer to str, optional
        Written below its name.
    """
    across = min(3, len(panels)) if len(panels) != 4 else 2
    down = -(-len(panels) // across)
    figure, axes = _figure(down, across, (max(7.5, 5.0 * across), 3.7 * down + 0.5))
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax, (label, (frame, column)) in zip(axes.flat, panels.items(), strict=False):
        shown = [name for name in WEIGHTINGS if name in set(frame.loc[frame[column].notna(), "synthesizer"])]
        for x, name in enumerate(shown):
            values = frame.loc[frame["synthesizer"] == name, column].to_numpy(dtype=float)
            _violin(ax, values, x, 0.9, WEIGHTING_COLORS[name], points=values.size <= 100)
        if lines and label in lines:
            ax.axhline(lines[label], color=REFERENCE, ls="--", lw=1)
        names = [WEIGHTINGS[name] + (f"\n{notes[name]}" if notes and name in notes else "") for name in shown]
        turned = {"rotation": 30, "ha": "right"} if len(shown) > 4 and not notes else {}
        ax.set_xticks(range(len(shown)), names, **turned)
        ax.set_xlim(-0.6, len(shown) - 0.4)
        ax.tick_params(axis="x", length=0)
        ax.set_ylabel(label)
        ax.yaxis.set_major_formatter("{x:,.6g}")
    return _save(figure, path, title)


def bounds_against_weights(records: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Lipschitz bound of every record against its privacy weight, with a line at the largest bound (R Fig. 2, 3, 6).

    Parameters
    ----------
    records : pandas.DataFrame
        ``synthesizer, alpha, bound``, a row a record: a line of panels for LW, one for CW.
    path : str or Path
    title : str
    """
    present = set(records["synthesizer"])
    kinds = [[name for name in WEIGHTINGS if name.startswith(risk) and name in present] for risk in ("LW", "CW")]
    kinds = [line for line in kinds if line]
    across = max(len(line) for line in kinds)
    figure, axes = _figure(len(kinds), across, (3.9 * across, 3.3 * len(kinds) + 0.5), sharex=True, sharey="row")
    for line, names in zip(axes, kinds, strict=True):
        for ax in line[len(names) :]:
            ax.set_visible(False)
        for ax, name in zip(line, names, strict=False):
            here = records[records["synthesizer"] == name]
            color = WEIGHTING_COLORS[name]
            ax.scatter(here["alpha"], here["bound"], s=8, alpha=0.5, lw=0, color=color, rasterized=True)
            ax.axhline(here["bound"].max(), color=REFERENCE, ls="--", lw=1)
            ax.set_title(f"{WEIGHTINGS[name]}: largest bound {here['bound'].max():.2f}", fontsize=10)
            ax.set_ylim(bottom=0)
        line[0].set_ylabel("Lipschitz bound of a record")
    axes[0, 0].set_xlim(-0.03, 1.03)
    for ax in axes[-1]:
        ax.set_xlabel("privacy weight")
    return _save(figure, path, title)


def weight_changes(records: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Privacy weights by synthesizer, and those after re-weighting against those before (R Fig. 4 and 7, B to D).

    Parameters
    ----------
    records : pandas.DataFrame
        ``synthesizer, record, alpha``.
    path : str or Path
    title : str
    """
    weights = records.pivot_table(index="record", columns="synthesizer", values="alpha", sort=False)
    shown = [name for name in WEIGHTINGS if name in weights and name != "unweighted"]
    figure, axes = _figure(1, 2, (10.5, 4.6))
    for x, name in enumerate(shown):
        _violin(axes[0, 0], weights[name].to_numpy(dtype=float), x, 0.9, WEIGHTING_COLORS[name], points=False)
    axes[0, 0].set_xticks(range(len(shown)), [WEIGHTINGS[name] for name in shown], rotation=30, ha="right")
    axes[0, 0].set_ylabel("privacy weight")
    axes[0, 1].plot([0, 1], [0, 1], color=REFERENCE, ls="--", lw=1)
    after = [name for name in shown if "_" in name]
    for name in after:
        before = weights[name.partition("_")[0]]
        axes[0, 1].scatter(before, weights[name], s=9, alpha=0.5, lw=0, color=WEIGHTING_COLORS[name], rasterized=True)
    axes[0, 1].set(xlabel="privacy weight before re-weighting", ylabel="after", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    _legend(figure, [(WEIGHTINGS[name], WEIGHTING_COLORS[name], "o") for name in after])
    return _save(figure, path, title)


def epsilon_curves(
    panels: Mapping[str, pd.DataFrame], measures: Mapping[str, str], path: str | Path, *, title: str
) -> Path:
    """Measures of utility against epsilon, a line a synthesizer.

    Parameters
    ----------
    panels : mapping of heading to pandas.DataFrame
        ``synthesizer, epsilon`` and the measures; a column of panels each.
    measures : mapping of column to axis label
        A line of panels each; the first is a ratio, with a line at 1.
    path : str or Path
    title : str
    """
    size = (4.6 * len(panels), 3.3 * len(measures) + 0.8)
    figure, axes = _figure(len(measures), len(panels), size, sharex="col")
    names = [name for name in WEIGHTINGS if any(name in set(part["synthesizer"]) for part in panels.values())]
    for column, (heading, part) in zip(axes.T, panels.items(), strict=True):
        for ax, measure in zip(column, measures, strict=True):
            for name in names:
                here = part[part["synthesizer"] == name].sort_values("epsilon")
                style = {"color": WEIGHTING_COLORS[name], "ls": "-" if "_" in name else "--"}
                ax.plot(here["epsilon"], here[measure], marker="o", ms=4, lw=1.6, **style)
        column[0].axhline(1, color=REFERENCE, ls=":", lw=1)
        column[0].set_title(heading, fontsize=11)
        column[-1].set_xlabel("epsilon")
    for ax, label in zip(axes[:, 0], measures.values(), strict=True):
        ax.set_ylabel(label)
    _legend(figure, [(WEIGHTINGS[name], WEIGHTING_COLORS[name], "o") for name in names])
    return _save(figure, path, title)


def risk_violins(records: pd.DataFrame, path: str | Path, *, title: str) -> Path:
    """Violins of the records' identification risks by synthesizer, with their means (E Fig. 5, 7, 13).

    Parameters
    ----------
    records : pandas.DataFrame
        ``synthesizer, c1, c2, risk``, a row a record.
    path : str or Path
    title : str
    """
    groups = [part for _, part in records.groupby(["synthesizer", "c1", "c2"], sort=False, dropna=False)]
    figure, axes = _figure(1, 1, (1.2 * len(groups) + 1, 4.6))
    ax, labels = axes[0, 0], []
    for x, part in enumerate(groups):
        name, c1, c2 = part[["synthesizer", "c1", "c2"]].iloc[0]
        risk = part["risk"].to_numpy(dtype=float)
        _violin(ax, risk, x, 1.0, RISK_COLORS[name], points=False, middle=np.mean)
        ax.text(x, 1.02, f"{risk.mean():.3f}", ha="center", va="bottom", fontsize=9)
        labels.append(RISKS[name] + ("" if pd.isna(c1) else f"\nc1 = {c1:g}\nc2 = {c2:g}"))
    ax.axhline(0.5, color=REFERENCE, ls=":", lw=1)
    ax.set_xticks(range(len(groups)), labels)
    ax.set(ylim=(-0.02, 1.08), xlim=(-0.6, len(groups) - 0.4), ylabel="identification risk of a record; line: mean")
    ax.tick_params(axis="x", length=0)
    return _save(figure, path, title)


def whack_a_mole(
    risk: Mapping[str, Floats], before: Floats, path: str | Path, *, title: str, rise: float, limit: float
) -> Path:
    """Identification risks under privacy weights against those without, a panel a synthesizer (E Fig. 6, 8, 9).

    Parameters
    ----------
    risk : mapping of synthesizer to float array (n,)
    before : float array (n,)
        Without privacy weights.
    path : str or Path
    title : str
    rise : float
        Records whose risk rose by more are in another colour.
    limit : float
        Where a line is drawn.
    """
    figure, axes = _figure(1, len(risk), (5.2 * len(risk), 5.2), sharex=True, sharey=True)
    for ax, (name, after) in zip(axes[0], risk.items(), strict=True):
        raised = after - before > rise
        for chosen, color, size in ((~raised, "#9aa7b0", 9), (raised, REFERENCE, 16)):
            ax.scatter(before[chosen], after[chosen], s=size, alpha=0.55, lw=0, color=color, rasterized=True)
        ax.plot([0, 1], [0, 1], color="#0b6fa4", lw=1.2)
        ax.axhline(limit, color="black", ls="--", lw=1)
        ax.set_title(f"{RISKS[name]}: {int(raised.sum()):,} records rose by more than {rise:g}", fontsize=10)
        ax.set_xlabel("identification risk, Synthesizer")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes[0, 0].set_ylabel("identification risk under privacy weights")
    return _save(figure, path, title)


def weights_against_values(records: pd.DataFrame, path: str | Path, *, outcome: str, title: str) -> Path:
    """Privacy weight of every record against its value, a panel a synthesizer (E Fig. 10-12).

    Parameters
    ----------
    records : pandas.DataFrame
        ``synthesizer, c1, c2, value, alpha``, a row a record, of those with privacy weights.
    path : str or Path
    outcome : str
        Label; its axis is linear near 0 and logarithmic in both tails.
    title : str
    """
    kinds = [name for name in RISKS if name in set(records["synthesizer"])]
    lines = [list(records[records["synthesizer"] == kind].groupby(["c1", "c2"], sort=False)) for kind in kinds]
    across = max(len(line) for line in lines)
    figure, axes = _figure(len(kinds), across, (4.0 * across, 3.3 * len(kinds) + 0.6), sharex=True, sharey=True)
    sizes = records.loc[records["value"] != 0, "value"].abs()
    width = float(10 ** np.floor(np.log10(sizes.median()) - 1)) if len(sizes) else 1.0
    for row, kind, line in zip(axes, kinds, lines, strict=True):
        for ax, ((c1, c2), part) in zip(row, line, strict=False):
            ax.scatter(part["value"], part["alpha"], s=6, alpha=0.35, lw=0, color=RISK_COLORS[kind], rasterized=True)
            ax.set_title(f"{RISKS[kind]}, c1 = {c1:g}, c2 = {c2:g}", fontsize=10)
        row[0].set_ylabel("privacy weight")
    ax = axes[0, 0]
    ax.set_xscale("asinh", linear_width=width)
    powers = [width * 10.0**k for k in range(1 + int(np.log10(max(sizes.max() / width, 1))))] if len(sizes) else [1.0]
    negative = [-x for x in powers if x <= -records["value"].min()]
    ticks = [*negative[::-1], 0.0, *powers]
    ax.set_xticks(ticks, ["0" if x == 0 else f"{x:,.10g}" for x in ticks], minor=False)
    ax.xaxis.set_minor_locator(_no_ticks())
    ax.set_ylim(-0.03, 1.03)
    for ax in axes[-1]:
        ax.set_xlabel(outcome)
        for label in ax.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")
    return _save(figure, path, title)


def radius_curves(
    profile: pd.DataFrame, utility: pd.DataFrame, labels: Mapping[str, str], path: str | Path, *, title: str
) -> Path:
    """What the radius of the balls does: to measured risk above, to utility where weights are made under it below.

    Parameters
    ----------
    profile : pandas.DataFrame
        ``synthesizer, radius, at`` and the measures of risk.  Solid: one file for all radii; dashed: privacy weights
        made under the radius itself.
    utility : pandas.DataFrame
        ``synthesizer, radius, statistic, relative_difference``, of privacy weights made under each radius.
    labels : mapping of statistic to str
        A panel each.
    path : str or Path
    title : str
    """
    across = max(len(RISK_MEASURES), len(labels))
    figure, axes = _figure(2, across, (3.5 * across, 6.8))
    names = [name for name in RISKS if name in set(profile["synthesizer"])]
    for ax, (measure, label) in zip(axes[0], RISK_MEASURES.items(), strict=False):
        for name in names:
            part = profile[profile["synthesizer"] == name].sort_values("at")
            main = part["radius"].value_counts(dropna=False).index[0]  # that of the file that is seen at all radii
            same = part[part["radius"].isna() | (part["radius"] == main)]
            ax.plot(same["at"], same[measure], color=RISK_COLORS[name], marker="o", ms=4, lw=1.6)
            own = part[part["radius"] == part["at"]]
            ax.plot(own["at"], own[measure], color=RISK_COLORS[name], marker="o", ms=4, lw=1.4, ls="--")
        ax.set_title(f"{label} of the risks", fontsize=10)
    for ax, (statistic, label) in zip(axes[1], labels.items(), strict=False):
        for name in names:
            part = utility[(utility["synthesizer"] == name) & (utility["statistic"] == statistic)].sort_values("radius")
            line = {"color": RISK_COLORS[name], "marker": "o", "ms": 4, "lw": 1.4, "ls": "--"}
            ax.plot(part["radius"], 100 * part["relative_difference"], **line)
        ax.axhline(0, color=REFERENCE, ls=":", lw=1)
        ax.set_title(f"{label}, off by %", fontsize=10)
    for ax in axes[1, len(labels) :]:
        ax.set_visible(False)
    for ax in axes[1]:
        ax.set_xlabel("radius, share of the value")
    _legend(figure, [(RISKS[name], RISK_COLORS[name], "o") for name in names])
    return _save(figure, path, title)
