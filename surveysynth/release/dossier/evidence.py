"""The parts of a dossier on the diagnostics of the fit, and on how the release differs from the confidential file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ...publication.dossier_page import Block, Grid, Paragraph, Picture, listed
from ...publication.figures.comparison import distribution_curves, estimate_differences, joint_grids
from ...publication.names import quantity
from ..comparison import DISTANCE, PROPER, SMOOTHED, Comparison, named
from .case import Case, Inside

CELLS = 15  # number of cells that are shown
NUMBERS = {
    "divergences": "divergent transitions", "rhat": "R-hat, largest", "ess_bulk": "bulk effective draws, least",
    "ess_tail": "tail effective draws, least", "mean_alpha": "mean privacy weight",
    "weighted_down": "share of records weighted down", "epsilon_exact": "epsilon that was reached, exactly",
    "redrawn_by_edits": "share of records redrawn by edit rules",
}  # fmt: skip


def diagnostics(case: Case, inside: Inside) -> tuple[Block, ...]:
    """Report whether the fit passed its diagnostics, with the exact numbers of the diagnostics."""
    rows = tuple(
        (name, f"{number:,.4g}" if isinstance(number, int | float) else str(number))
        for key, name in NUMBERS.items() if (number := inside.numbers.get(key)) is not None
    )  # fmt: skip
    verdict = Paragraph(case.release.privacy.verdict)
    return (verdict, Grid(("number (internal)", "value"), rows, numbers=1)) if rows else (verdict,)


def compared(comparison: Comparison, scratch: Path) -> tuple[Block, ...]:
    """Compare the release with the confidential file: estimates, distributions, and associations between columns.

    Parameters
    ----------
    comparison : Comparison
    scratch : Path
        Folder for figures.
    """
    found, told = comparison.findings, tuple[Block, ...]()
    if found:
        told = Paragraph("Differences between release and file that exceed noise:"), listed(found)
    return (
        *told, *_estimates(comparison, scratch), *_farthest(comparison), *_distributions(comparison, scratch),
        *_told_apart(comparison), *_joint(comparison, scratch),
    )  # fmt: skip


def _estimates(comparison: Comparison, scratch: Path) -> tuple[Block, ...]:
    """Report how often confidence intervals of the release miss the estimate from the confidential file."""
    rows = tuple(
        (quantity(r), f"{r['cells']}", f"{r['misses']}", f"{r['by_chance']:.1f}", f"{r['most']}",
         f"{r['std_diff']:.2f}", f"{r['overlap']:.0%}", f"{r['se_ratio']:.2f}")
        for r in comparison.summary.to_dict("records")
    )  # fmt: skip
    return (
        Paragraph(
            "Does the release give what the file gives? Its 95% intervals should miss the file's own estimate in at "
            "most 5% of the cells, by chance. More misses than chance allows mean that the model is wrong there, and "
            f"that users would be misled. {DISTANCE} The last three columns are medians over the cells."
        ),
        Grid(
            ("estimate", "cells", "misses", "expected at most", "chance allows", "off by",
             "overlap of intervals", "se over the file's"), rows, numbers=7,
            title=f"By {', '.join(comparison.by) or 'no variable'}",
        ),
        Picture(estimate_differences(comparison.cells, scratch / "estimates.svg"), "Release minus file, cell by cell"),
    )  # fmt: skip


def _farthest(comparison: Comparison) -> tuple[Block, ...]:
    """List the cells whose intervals miss the estimate of the file, then the cells with the largest differences."""
    judged = comparison.cells[comparison.cells["std_diff"].notna()]
    holds, size = judged["holds"].fillna(True).astype(bool), -judged["std_diff"].abs()
    shown = judged.iloc[np.lexsort((size, holds))].head(CELLS)
    rows = tuple(
        (quantity(r), cell,
         *(_figures(r[c]) for c in ("estimate", "se", "estimate_release", "se_release")), f"{r['std_diff']:+.1f}",
         "" if pd.isna(r["holds"]) else "yes" if r["holds"] else "NO")
        for r, cell in zip(shown.to_dict("records"), named(shown, comparison.by), strict=True)
    )  # fmt: skip
    return (
        Grid(
            ("estimate", "cell", "file", "its se", "release", "its se", "off by", "held"), rows,
            numbers=6,
            title=f"Misses, and the cells that are farthest off: {len(rows)} (all are in comparison/cells.csv)",
        ),
    )  # fmt: skip


def _distributions(comparison: Comparison, scratch: Path) -> tuple[Block, ...]:
    """Draw distribution functions of numeric outcomes in file and release, and tabulate the distances between them."""
    if not len(comparison.curves):
        return ()
    drawn = distribution_curves(comparison.curves, scratch / "curves.svg")
    return (
        Picture(drawn, "Distribution functions of file and release"),
        Grid(
            ("distribution of", "largest distance to the file", "between two data sets (the release's own noise)"),
            tuple((r["outcome"], f"{r['largest']:.3f}", "-" if pd.isna(r["between"]) else f"{r['between']:.3f}")
                  for r in comparison.distributions.to_dict("records")),
            numbers=2,
        ),
    )  # fmt: skip


def _told_apart(comparison: Comparison) -> tuple[Block, ...]:
    """Report how well a propensity model tells records of the file from synthetic records."""
    smoothed = f" Here {SMOOTHED}." if comparison.smoothed else ""
    return (
        Grid(
            ("file and release told apart by", "pMSE", "expected", "ratio"),
            tuple((r["outcome"], f"{r['pmse']:.2g}", f"{r['expected']:.2g}", f"{r['ratio']:.1f}")
                  for r in comparison.pmse.to_dict("records")),
            numbers=3,
        ),
        Paragraph(
            f"The ratio says how well records of the file can be told from synthetic ones: {PROPER}. Raab, Nowok & "
            f"Dibben (2021) call up to 3 good and up to 10 satisfactory.{smoothed}"
        ),
    )  # fmt: skip


def _joint(comparison: Comparison, scratch: Path) -> tuple[Block, ...]:
    grid = Grid(
        ("columns", "how they go together", "file", "release", "se between data sets"),
        tuple((f"{r['first']} and {r['second']}", r["measure"], f"{r['file']:.3f}", f"{r['release']:.3f}",
               "-" if pd.isna(r["se"]) else f"{r['se']:.3f}") for r in comparison.joint.to_dict("records")),
        numbers=3, title="Joint distributions",
    )  # fmt: skip
    if not comparison.grids:
        return (grid,)
    return grid, Picture(joint_grids(comparison.grids, scratch / "joint.svg"), "Joint distributions")


def _figures(x: float) -> str:
    """Return a number as text with four digits, or with all digits before the decimal point."""
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"
