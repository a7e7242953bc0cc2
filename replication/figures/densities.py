"""Figures of densities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surveysynth.publication.figures.style import new_figure, save

from .mechanisms import MECHANISM_LOOKS, MECHANISMS
from .style import looks
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
    from matplotlib.lines import Line2D

    names = list(next(iter(panels.values())))
    known = {MECHANISMS[name]: look for name, look in MECHANISM_LOOKS.items()}
    others = (*looks(COLORS).values(), *known.values())
    drawn = [known.get(name, look) for name, look in zip(names, others, strict=False)]
    figure, axes = new_figure(1, len(panels), (5.4 * len(panels) + 2.4 * (len(panels) == 1), 4.6))
    for ax, (label, curves) in zip(axes[0], panels.items(), strict=True):
        for look, (points, density) in zip(drawn, curves.values(), strict=True):
            ax.plot(points, density, color=look.color, lw=1.6, ls=look.dashes)
        ax.set_xlabel(label)
        ax.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("density")
    series = zip(names, drawn, strict=True)
    lines = [Line2D([], [], color=look.color, lw=1.6, ls=look.dashes, label=name) for name, look in series]
    figure.legend(handles=lines, loc="outside lower center", ncols=min(len(lines), 4), frameon=False, handlelength=4)
    return save(figure, path, title)
