"""Parts of figures: violins, ticks of logarithmic axes, and a legend for all panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surveysynth.publication.figures.style import number, round_limits

REFERENCE = "#c0392b"
Floats = NDArray[np.float64]
MARKERS = "o", "s", "^", "D", "v", "P", "X", "*", "<", ">"
DASHES = (
    "-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3))
)  # fmt: skip


class Look(NamedTuple):
    """The colour, the marker and the dashes of a series: each differs between the series of a figure."""

    color: str
    marker: str
    dashes: Any


def looks(colors: Mapping[str, str]) -> dict[str, Look]:
    """Add a marker and dashes to the colour of each series, for readers who do not see all colours."""
    parts = zip(colors.items(), MARKERS, DASHES, strict=False)
    return {name: Look(color, marker, dashes) for (name, color), marker, dashes in parts}


def violin(
    ax: Any, y: Floats, x: float, width: float, color: str, *, points: bool = True, faint: bool = False,
    middle: Callable[[Floats], Any] = np.median,
) -> None:  # fmt: skip
    """Draw one violin of values, with a line at the median or mean, and optionally with the values as points."""
    y = y[np.isfinite(y)]
    if y.size == 0:
        return
    if np.ptp(y) > 0:  # equal values have no density
        body = ax.violinplot(y, [x], widths=0.9 * width, showextrema=False)["bodies"][0]
        body.set(facecolor=(color, 0.22 if faint else 0.45), edgecolor=color, alpha=None, linewidth=0.8)
    if points:
        spread = 0.18 * width * np.sin(1.7 * np.arange(y.size))  # shifts points sideways, the same in every run
        ax.scatter(x + spread, y, s=7, color=color, lw=0, zorder=3)
    ax.hlines(middle(y), x - 0.22 * width, x + 0.22 * width, color="black", lw=1.4, zorder=4)


def log_ticks(side: Any, values: Floats) -> None:
    """Set ticks at 1, 2, 5, 10, ... on an axis that shows log10 of positive values."""
    ticks = round_limits(values)
    side.set_ticks(np.log10(ticks), [number(x) for x in ticks])


def legend(figure: Any, entries: Sequence[tuple[str, str, str]]) -> None:
    """Draw one legend for all panels, below them.  An entry is a label, a colour and a marker."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], ls="", marker=marker, ms=7, color=color, label=label) for label, color, marker in entries]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4), frameon=False)
