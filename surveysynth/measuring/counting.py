"""What is counted of confidential values, as data: so that parts of a file can be counted wherever they lie.

Counts of parts add up to those of the file, exactly: they are whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from .bins import Cells, Codes
from .noisy_tables import Counts

BLOCK = 1 << 18  # records that are counted together


@dataclass(frozen=True, eq=False, repr=False)
class Count:
    """A table of records: by levels of a term, by groups of an earlier variable, and by groups of a variable's cells.

    Attributes
    ----------
    of : str
        The variable.
    groups : int array (G,)
        Group of each of its cells.
    term : str, optional
        Whose ``levels`` there are.
    levels : int
    earlier : str, optional
        The earlier variable, whose cells are in groups ``by_groups``.
    by_groups : int array (G,), optional
    scores : int array (G,), optional
        A record counts as the score of its cell says.
    times : int array (G,), optional
        Scores of the earlier variable's cells, by which a record is multiplied.
    """

    variable: str
    groups: Codes
    term: str | None = None
    levels: int = 1
    earlier: str | None = None
    by_groups: Codes | None = None
    scores: Codes | None = None
    times: Codes | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table."""
        by = 1 if self.by_groups is None else int(self.by_groups.max()) + 1
        return self.levels * by, int(self.groups.max()) + 1


class Counter(Protocol):
    """The cells of a file's records, by variable, and tables of them."""

    def add(self, name: str, cells: Cells) -> None:
        """Find the cells of one more variable (InputError: its column contradicts the schema)."""
        ...

    def count(self, what: Count) -> Counts:
        """A table (L, J)."""
        ...

    def groups_of(self, name: str, groups: Codes, records: Codes) -> Codes:
        """Groups of the cells of some records (R,)."""
        ...


class Part:
    """Records in this process.

    Attributes
    ----------
    column : function
        From a name to the column of an outcome, or of weights (n,).
    frame : DataFrame
        Public columns that say who is asked.
    levels : dict of str to int array (n,)
        Levels of terms.
    parts : int or int array (n,)
        What each record counts for.
    asked : set of str
        Outcomes that say who is asked a later question.
    """

    def __init__(
        self, column: Callable[[str], pd.Series], frame: pd.DataFrame, levels: Mapping[str, Codes], parts: Codes | int,
        asked: Collection[str],
    ) -> None:  # fmt: skip
        self.column, self.frame, self.levels, self.parts, self.asked = column, frame, levels, parts, asked
        self.codes: dict[str, Codes] = {}

    def add(self, name: str, cells: Cells) -> None:
        """As of :class:`Counter`."""
        column = self.column(name)
        code = cells.codes(column, name, cells.asked(self.frame))
        self.codes[name] = code.astype(np.min_scalar_type(len(cells)))
        if name in self.asked:  # later rules see what files have
            self.frame = self.frame.assign(**{name: cells.as_drawn(column, code).array})

    def count(self, what: Count) -> Counts:
        """As of :class:`Counter`."""
        levels, J = what.shape
        counts = np.zeros(levels * J, dtype=np.int64)
        code = self.codes[what.variable]
        for first in range(0, len(code), BLOCK):  # sums of a block are whole numbers that floats hold
            these = slice(first, first + BLOCK)
            cell = self._rows(what, these) * J + what.groups[code[these]]
            parts = self.parts if isinstance(self.parts, int) else self.parts[these]
            if isinstance(parts, int) and what.scores is None and what.times is None:
                counts += parts * np.bincount(cell, minlength=levels * J)
                continue
            adds = np.broadcast_to(np.asarray(parts, dtype=np.float64), cell.shape)
            if what.scores is not None:
                adds = adds * what.scores[code[these]]
            if what.times is not None and what.earlier is not None:
                adds = adds * what.times[self.codes[what.earlier][these]]
            counts += np.bincount(cell, adds, levels * J).astype(np.int64)
        return counts.reshape(levels, J)

    def _rows(self, what: Count, these: slice) -> Codes | int:
        """Row of the table of some records (R,); 0 where it has one."""
        level: Codes | int = 0 if what.term is None else self.levels[what.term][these].astype(np.intp)
        if what.earlier is None or what.by_groups is None:
            return level
        return level * (int(what.by_groups.max()) + 1) + what.by_groups[self.codes[what.earlier][these]]

    def groups_of(self, name: str, groups: Codes, records: Codes) -> Codes:
        """As of :class:`Counter`."""
        return groups[self.codes[name][records]]
