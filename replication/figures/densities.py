"""Figures of densities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surveysynth.publication.figures.style import new_figure, save

from .mechanisms import MECHANISM_COLORS, MECHANISMS
from .style import legend
from .tabular import COLORS

Floats = NDArray[np.float64]


def density_curves(panels: Mapping[str, Mapping[str, tuple[Floats, Floats]]], path: str | Path, *, title: str) -> Path:
    """Draw densities as lines in several panels (Hu, Williams & Savitsky 2025, Figures 1 and 9).

    Parameters
    ----------
    panels : mapping of axis label to curves
        The curves of each panel by name, each as k points and the densities at these points.
    path : str or Path
    title : str
    """
    names = list(next(iter(panels.values())))
    known = {MECHANISMS[name]: color for name, color in MECHANISM_COLORS.items()}
    colors = [known.get(name, color) for name, color in zip(names, (*COLORS.values(), *known.values()), strict=False)]
    figure, axes = new_figure(1, len(panels), (5.4 * len(panels) + 2.4 * (len(panels) == 1), 4.6))
    for ax, (label, curves) in zip(axes[0], panels.items(), strict=True):
        for color, (points, density) in zip(colors, curves.values(), strict=True):
            ax.plot(points, density, color=color, lw=1.6)
        ax.set_xlabel(label)
        ax.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("density")
    legend(figure, [(name, color, "s") for name, color in zip(names, colors, strict=True)])
    return save(figure, path, title)
