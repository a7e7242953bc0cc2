"""Dot plot of published estimates, with a dot and a confidence interval for every domain."""

from __future__ import annotations

import textwrap
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...errors import InputError
from ..digits import written
from ..document import BETWEEN, Block, Document, imprint_lines
from .style import plain_log

# contrast with white of at least 3:1; the shapes differ for readers who do not see colours
SERIES = [("#00507a", "o"), ("#b34700", "s"), ("#00694d", "^"), ("#7a2f6b", "D"), ("#000000", "v")]
SUFFIXES = (".svg", ".png")
PAGE, COLUMN = 16.0, 12.0  # cm: width of the text of an A4 page; in figures narrower than COLUMN, the legend is on top
LEAST = 6.0  # cm
INCH = 2.54  # cm
ROW, PANEL = 0.2, 0.9  # inches: height of a dot, and height of a panel in addition to its rows
SKEWED = 20  # ratio of largest to smallest number above which the axis is logarithmic
TICKS, SIGNS = 8, 56  # most ticks of an axis; most characters of all tick labels together, at full width
NAME, LINE = 32, 120  # characters on a line of a row's label, and of small print, at full width
DPI = 300
FONT: Any = {"font.size": 8, "axes.titlesize": 9, "font.sans-serif": ["Arial", "Helvetica", "DejaVu Sans"]}
STILL: Any = {"svg.hashsalt": "surveysynth", "svg.fonttype": "none"}  # reproducible files; text is kept as text
TEXT: Any = {"text.parse_math": False}  # a label may contain a dollar sign


def check_figure(path: Path) -> None:
    """Raise InputError for a file that is neither .svg nor .png."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"figures are written as {' or '.join(SUFFIXES)}: {path.name!r} ends in none of these")


def dot_plot(document: Document, path: Path, width: float = PAGE) -> str:
    """Draw the estimates of a document with their 95% intervals: a panel for each table, a row for each domain.

    If there are several variables, and the last variable has at most five categories, colour and shape show its
    category.  Dots of the least reliable class are hollow.  If a number is not shown, there is a symbol in its place.
    The axis is logarithmic if all numbers are positive and differ by a factor of more than 20.

    Parameters
    ----------
    document : Document
    path : Path
        The file to write, .svg or .png.  The alternative text is written to ``<name>.txt`` next to the file.
    width : float
        Width in centimetres, at least 6.  The size of the letters is 8 points for any width.

    Returns
    -------
    str
        The alternative text.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure  # not pyplot, which would choose a window system for the whole process

    alt = "\n".join(_alt(block, document) for block in document.blocks)
    with mpl.rc_context(FONT | STILL | TEXT):
        share = width / PAGE
        plans = [_Rows(block, share) for block in document.blocks]
        heights = [PANEL + len(rows.labels) * max(ROW * len(rows.series), rows.room) for rows in plans]
        figure = Figure(figsize=(width / INCH, sum(heights)), layout="constrained")
        panels = figure.subplots(len(plans), 1, squeeze=False, height_ratios=heights)[:, 0]
        for panel, rows, block in zip(panels, plans, document.blocks, strict=True):
            _draw(panel, rows, block, document)
            if len(rows.series) > 1 and width >= COLUMN:
                panel.legend(**_legend(rows), loc="upper left", bbox_to_anchor=(1.0, 1.0))
        if len(plans[0].series) > 1 and width < COLUMN:
            columns = max(1, int(LINE * share) // (max(map(len, plans[0].series)) + 8))
            figure.legend(**_legend(plans[0]), loc="outside upper left", ncols=columns, alignment="left")
        figure.supxlabel("\n".join(_below(document, share)), x=0.01, ha="left", fontsize=7)
        about = {"Title": document.title, "Description": alt}
        still = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=DPI, metadata=about | still)
    if path.suffix == ".svg":
        _describe(path, alt)
    path.with_suffix(".txt").write_text(f"{alt}\n", encoding="utf-8")
    return alt


def _describe(path: Path, alt: str) -> None:
    """Add the alternative text to an svg as a ``desc`` element, because screen readers do not read the metadata."""
    text = path.read_text(encoding="utf-8").replace("<svg ", '<svg role="img" ', 1)
    path.write_text(text.replace("</title>", f"</title>\n <desc>{escape(alt)}</desc>", 1), encoding="utf-8")


def _below(document: Document, share: float) -> list[str]:
    """Return the lines below the panels: the meanings of marks, and the source."""
    words, symbols, legend = document.words, document.symbols, document.legend
    worst = symbols.worst
    instead = [symbols.suppressed, symbols.missing, *([worst.mark] if symbols.withheld else [])]  # symbols
    texts = [words("sheet.symbol", mark=mark, meaning=legend[mark]) for mark in instead if mark in legend]
    if any(mark == worst.mark for block in document.blocks for mark in block.marks):
        texts.append(words("figure.hollow", meaning=legend[worst.mark]))
    texts += [f"{document.subtitle}. {words('figure.interval')}", *imprint_lines(document)]
    return [line for text in texts for line in textwrap.wrap(text, int(LINE * share))]


class _Rows:
    """The position of every cell of a printed table in a dot plot: its row, its series, and its vertical position.

    A series consists of the dots of one category of the last variable, which have the same colour and shape.  ``share``
    is the width of the figure as a share of 16 cm, the width of the text of an A4 page.
    """

    def __init__(self, block: Block, share: float) -> None:
        by = list(block.by)
        by_series = len(by) > 1 and block.cells[by[-1]].nunique() <= len(SERIES)
        down = by[:-1] if by_series else by
        names = block.cells[down].agg(BETWEEN.join, axis=1) if down else pd.Series([""] * len(block.cells))
        series = block.cells[by[-1]] if by_series else pd.Series([""] * len(block.cells))
        self.heading = block.headings[by[-1]] if by_series else ""
        self.labels, self.series = list(dict.fromkeys(names)), list(dict.fromkeys(series))
        self.row = names.map(self.labels.index).to_numpy()
        self.at = series.map(self.series.index).to_numpy()
        step = 0.7 / max(len(self.series), 1)
        self.lines = [textwrap.wrap(label, int(NAME * share)) or [""] for label in self.labels]
        self.ticks = _ticks(block, share)
        self.room = 0.05 + 0.13 * max(map(len, self.lines))  # inches
        self.y = self.row + step * (self.at - (len(self.series) - 1) / 2)


def _draw(panel: Any, rows: _Rows, block: Block, document: Document) -> None:
    numbers, worst = block.numbers, document.symbols.worst.mark
    weak = np.array([mark == worst for mark in block.marks])
    there = numbers["estimate"].notna().to_numpy()
    for number, (color, marker) in enumerate(SERIES[: len(rows.series)]):
        mine = (rows.at == number) & there
        part, y = numbers[mine], rows.y[mine]
        panel.hlines(y, part["ci_low"], part["ci_high"], color=color, lw=1.3)
        face = np.where(weak[mine], "white", color)
        panel.scatter(part["estimate"], y, marker=marker, s=18, color=face, edgecolors=color, linewidths=1.1, zorder=3)
    if _spread(numbers):
        panel.set_xscale("log")
        plain_log(panel.xaxis, numbers[["estimate", "ci_low", "ci_high"]].to_numpy().ravel(), rows.ticks)
    else:
        panel.locator_params(axis="x", nbins=rows.ticks - 1)
        panel.xaxis.set_major_formatter(lambda x, _: written(x, 0 if abs(x) >= 10 else max(block.decimals, 0)))
    for i in np.flatnonzero(~there):
        panel.annotate(
            block.cells["estimate"].iloc[i], (0.01, rows.y[i]), xycoords=("axes fraction", "data"), va="center",
            color=SERIES[rows.at[i]][0],
        )  # fmt: skip
    panel.set_yticks(range(len(rows.labels)), ["\n".join(lines) for lines in rows.lines])
    panel.set_ylim(len(rows.labels) - 0.4, -0.6)
    panel.set_title(block.title, loc="left", fontweight="bold", wrap=True)
    panel.grid(axis="x", color="#d9d9d9", lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.tick_params(axis="y", length=0)


def _legend(rows: _Rows) -> dict[str, Any]:
    keys = [_key(name, *look) for name, look in zip(rows.series, SERIES, strict=False)]
    return {"handles": keys, "title": rows.heading, "frameon": False}


def _ticks(block: Block, share: float) -> int:
    longest = max(len(text) for name in ("estimate", "ci_high") for text in block.cells[name])
    return min(TICKS, max(2, int(SIGNS * share) // longest))


def _key(label: str, color: str, marker: str) -> Any:
    """Make the dot of a category in the legend.  The dot is filled, even if the first dot in the figure is hollow."""
    from matplotlib.lines import Line2D

    return Line2D([], [], ls="", marker=marker, ms=4.5, color=color, label=label)


def _spread(numbers: pd.DataFrame) -> bool:
    shown = numbers[["estimate", "ci_low", "ci_high"]].to_numpy()
    shown = shown[~np.isnan(shown)]
    return shown.size > 0 and shown.min() > 0 and shown.max() > SKEWED * shown.min()


def _alt(block: Block, document: Document) -> str:
    found = block.numbers["estimate"]
    if found.isna().all():
        return document.words("figure.empty", title=block.title)
    low, high = found.idxmin(), found.idxmax()
    text = document.words(
        "figure.alt", title=block.title, count=f"{found.notna().sum():,}",
        low=block.cells.at[low, "estimate"], lowest=_where(block, low),
        high=block.cells.at[high, "estimate"], highest=_where(block, high),
    )  # fmt: skip
    hidden = int(found.isna().sum())
    return f"{text} {document.words('figure.hidden', count=f'{hidden:,}')}" if hidden else text


def _where(block: Block, row: Any) -> str:
    return ", ".join(str(block.cells.at[row, c]) for c in block.by) or "-"
