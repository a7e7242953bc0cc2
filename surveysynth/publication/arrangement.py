"""The layout of a printed table.

A variable is down if its categories are rows, and across if its categories are side by side, as groups of columns.  All
variables are down, or on request all but the last.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pandas as pd

from .document import BETWEEN, Block, Document

ACROSS = "estimate", "interval", "n"  # columns of each category of a variable that is across
TOO_WIDE = "{}: with the last variable across it is wider than a page, so all variables are down"
WIDTH = 124  # characters on a line of A4 in the small print of tables


@dataclass(frozen=True)
class Arrangement:
    """The layout of one printed table: headings, labels, cell texts and marks.

    Attributes
    ----------
    outer, inner : str
        The heading of the groups of rows ("" without groups), and the heading of the row labels.
    groups, rows : list of str
        The label of the group, and the label of the row, for each row.
    columns : list of (str, str)
        The category above the column ("" without a category), and the heading of the column, for each column.
    texts, marks : list of list of str
        The text of the cell, and the marks of the cell ("" without marks), for each row and column.
    """

    outer: str
    inner: str
    groups: list[str]
    rows: list[str]
    columns: list[tuple[str, str]]
    texts: list[list[str]]
    marks: list[list[str]]

    @property
    def heading(self) -> str:
        """The heading of the first column, which has the labels of groups and rows."""
        return BETWEEN.join(filter(None, (self.outer, self.inner)))

    @property
    def room(self) -> list[int]:
        """For each column, the number of characters of the longest mark next to a number, or 0 without marks."""
        return [max(len(row[i]) for row in self.marks) for i in range(len(self.columns))]

    @property
    def width(self) -> int:
        """Number of characters on a line, with two spaces between columns."""
        words = [max(map(len, heading.split())) for _, heading in self.columns]
        texts = [max(len(row[i]) for row in self.texts) for i in range(len(self.columns))]
        return (
            max(map(len, [*self.heading.split(), *self.rows]))
            + sum(map(max, words, texts))
            + sum(room + 2 for room in self.room)
        )

    @property
    def spanners(self) -> list[tuple[str, int]]:
        """The categories above the columns, and how many columns are below each category."""
        return [(category, len(list(part))) for category, part in groupby(category for category, _ in self.columns)]


def arranged(block: Block, document: Document, width: int = WIDTH) -> Arrangement:
    """Lay out a printed table, by default with the categories of all variables as rows.

    If the document asks for it (``wide``), and if the categories of the last variable fit on a line of ``width``
    characters, the last variable is across.  If they do not fit, there is a warning.
    """
    marks = [
        mark + "".join(f"[{number}]" for number in notes) for mark, notes in zip(block.marks, block.notes, strict=True)
    ]
    cells = block.cells.assign(mark=marks)
    narrowest = sum(len(document.words(f"headings.{c}").split()[0]) for c in ACROSS)  # of one category
    if document.wide and len(block.by) > 1 and cells[block.by[-1]].nunique() * narrowest <= width:
        wide = _wide(block, cells, document)
        if wide.width <= width:
            return wide
    if document.wide and len(block.by) > 1:
        warnings.warn(TOO_WIDE.format(block.title), stacklevel=2)
    return _long(block, cells, document)


def _long(block: Block, cells: pd.DataFrame, document: Document) -> Arrangement:
    cells = _together(cells, block.by)
    shown = ["estimate", "se", "ci_low", "ci_high", "n"]
    return Arrangement(
        outer=BETWEEN.join(block.headings[c] for c in block.by[:-1]),
        inner=block.headings[block.by[-1]] if block.by else document.words("headings.table"),
        groups=_groups(_labels(cells, block.by)),
        rows=[row[-1] for row in _labels(cells, block.by)] if block.by else [document.words("headings.total")],
        columns=[("", document.words(f"headings.{c}")) for c in shown],
        texts=list(map(list, cells[shown].itertuples(index=False))),
        marks=[[str(mark), "", "", "", ""] for mark in cells["mark"]],
    )


def _wide(block: Block, cells: pd.DataFrame, document: Document) -> Arrangement:
    *down, across = block.by
    categories = list(dict.fromkeys(cells[across]))
    cells = _together(cells, down)
    rows = list(dict.fromkeys(_labels(cells, down)))
    interval = [
        document.words("headings.from_to", low=low, high=high) if low != high else low
        for low, high in zip(cells["ci_low"], cells["ci_high"], strict=True)
    ]
    shown = cells.assign(interval=interval)[[*ACROSS, "mark"]].astype(str).itertuples(index=False, name=None)
    found = dict(zip(zip(_labels(cells, down), cells[across], strict=True), shown, strict=True))
    texts, marks = list[list[str]](), list[list[str]]()
    for row in rows:
        across_row = [found.get((row, category), ("", "", "", "")) for category in categories]  # it may have no records
        texts.append([text or document.symbols.missing for *numbers, _ in across_row for text in numbers])
        marks.append([text for *_, mark in across_row for text in (mark, "", "")])
    headings = [document.words(f"headings.{c}") for c in ACROSS]
    return Arrangement(
        outer=BETWEEN.join(block.headings[c] for c in down[:-1]),
        inner=block.headings[down[-1]],
        groups=_groups(rows),
        rows=[row[-1] for row in rows],
        columns=[(category, heading) for category in categories for heading in headings],
        texts=texts,
        marks=marks,
    )


def _together(cells: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Sort the cells so that the cells of a group (one category of each variable but the last) are adjacent.

    Groups, and cells within a group, keep their order.
    """
    found = [pd.factorize(cells[c])[0] for c in by[:-1]]
    return cells.iloc[np.lexsort(found[::-1])] if found else cells


def _labels(cells: pd.DataFrame, by: Sequence[str]) -> list[tuple[str, ...]]:
    return list(cells[list(by)].itertuples(index=False, name=None))


def _groups(rows: list[tuple[str, ...]]) -> list[str]:
    return [BETWEEN.join(row[:-1]) for row in rows]
