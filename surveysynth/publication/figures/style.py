"""Common parts of figures: axes, ticks, and writing the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...storage import as_path

Floats = NDArray[np.float64]


def new_figure(down: int, across: int, size: tuple[float, float], **shared: Any) -> tuple[Any, NDArray[Any]]:
    """Make a new figure, and an array (down, across) of its axes."""
    from matplotlib.figure import Figure  # not pyplot, which would choose a window system for the whole process

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, **shared)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", alpha=0.25)
        ax.set_axisbelow(True)
    return figure, axes


def plain_log(side: Any, values: Floats, most: int = 9) -> None:
    """Set at most ``most`` ticks on the logarithmic axis ``side``, at 1, 2, 5, 10, ... in the range of ``values``."""
    ticks = round_limits(values[values > 0], most)
    side.set_ticks(ticks, [number(x) for x in ticks])
    side.set_minor_locator(no_ticks())


def no_ticks() -> Any:
    """Return a locator that sets no ticks."""
    from matplotlib.ticker import NullLocator

    return NullLocator()


def round_limits(values: Floats, most: int = 9) -> Floats:
    """Return at most ``most`` round numbers in the range of the positive values: 1, 2, 5, 10, ..., or powers of ten."""
    values = values[np.isfinite(values) & (values > 0)]
    if values.size == 0:
        return np.array([1.0])
    low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
    powers = 10 ** np.arange(low, high + 1)
    ticks: Floats = np.sort(np.concatenate([powers, 2 * powers, 5 * powers]))
    ticks = ticks[(ticks >= values.min() * 0.9) & (ticks <= values.max() * 1.1)]
    return ticks if 2 <= ticks.size <= most else powers[:: max(1, -(-powers.size // most))]


def number(x: float) -> str:
    """Return the text of a number on an axis."""
    return f"{x:,.0f}" if x >= 1 else f"{x:g}"


def save(figure: Any, path: str | Path, title: str) -> Path:
    """Write a figure with a title to a file, in the format of the file's suffix."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    path = as_path(path)
    figure.savefig(path, dpi=150)
    return path
