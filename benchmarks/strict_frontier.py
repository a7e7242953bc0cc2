"""Where a strict release can be had, and what it is worth: from public numbers alone, as a picture.

    python benchmarks/strict_frontier.py docs/strict_frontier.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import surveysynth as ss

RECORDS = np.geomspace(500, 200_000, 60)
EPSILONS = np.geomspace(0.3, 20, 60)
PARAMETERS = (15, 31, 91)  # FBS with 5, 13 and 43 columns of predictors and one outcome
LEVELS = (1.25, 1.5, 2, 3)


def worth(n: float, parameters: int, epsilon: float, *, reference: bool) -> float:
    """Expected standard error over the confidential one; NaN where the release would be refused."""
    try:
        return ss.expected_se(round(n), parameters, epsilon, reference=reference, scores=not reference)
    except ss.PrivacyError:
        return np.nan


def main(path: Path) -> None:
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes = figure.subplots(2, len(PARAMETERS), sharex=True, sharey=True)
    for row, reference in zip(axes, (False, True), strict=True):
        for ax, parameters in zip(row, PARAMETERS, strict=True):
            z = np.array([[worth(n, parameters, e, reference=reference) for n in RECORDS] for e in EPSILONS])
            shaded = ax.contourf(RECORDS, EPSILONS, z, levels=[1, *LEVELS, 5], cmap="YlGnBu", extend="max")
            lines = ax.contour(RECORDS, EPSILONS, z, levels=LEVELS, colors="#333333", linewidths=0.7)
            ax.clabel(lines, fmt="%g", fontsize=9)
            ax.set_facecolor("#e8e0dc")  # refused
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_yticks([0.5, 1, 3, 5, 10], ["0.5", "1", "3", "5", "10"])
            ax.set_xticks([500, 2000, 10_000, 100_000], ["500", "2,000", "10,000", "100,000"])
            ax.minorticks_off()
            if not reference:
                ax.set_title(f"{parameters} parameters", fontsize=11)
            else:
                ax.set_xlabel("records")
        row[0].set_ylabel("beside last year's release\nepsilon" if reference else "without history\nepsilon")
    bar = figure.colorbar(shaded, ax=axes, shrink=0.8)
    bar.set_label("expected standard error of a mean / confidential (grey: refused)")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
