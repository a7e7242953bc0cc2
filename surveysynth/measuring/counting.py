"""Counting of confidential records by the cells of variables, in this process or where the files are stored.

Counts are whole numbers, so the counts of the files add up exactly to the counts of the survey.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from .bins import Cells, Codes
from .noisy_tables import Counts

BLOCK = 1 << 18  # number of records counted at a time


@dataclass(frozen=True, eq=False, repr=False)
class Count:
    """Request for a table of counts.

    A variable has G cells: bins of numbers, and special values such as "missing".  The columns of the table are groups
    of these cells.  The rows are levels of a term, groups of an earlier variable, or combinations of a level and a
    group.

    Attributes
    ----------
    variable : str
        The variable that is counted.
    groups : int array (G,)
        Group of each cell of the variable.
    term : str, optional
        The term by which records are counted.
    levels : int
        Number of levels of the term.
    earlier : str, optional
        The earlier variable by which records are counted.
    by_groups : int array (G,), optional
        Group of each cell of the earlier variable.
    scores : int array (G,), optional
        Score of each cell of the variable.  If given, a record adds its score instead of 1.
    times : int array (G,), optional
        Score of each cell of the earlier variable.  If given, a record's contribution is multiplied by this score.
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
        """Number of rows and number of columns of the requested table."""
        by = 1 if self.by_groups is None else int(self.by_groups.max()) + 1
        return self.levels * by, int(self.groups.max()) + 1


class Counter(Protocol):
    """Interface for the counting of confidential records by the values of variables.

    First :meth:`add` finds the cell of each record for one variable after another.  Then :meth:`count` returns tables
    of counts by groups of these cells.
    """

    def add(self, name: str, cells: Cells) -> None:
        """Find the cell (bin or special value) of each record for one more variable.

        Raise InputError if the column of the variable contradicts the schema.
        """
        ...

    def count(self, what: Count) -> Counts:
        """Return the counts of a requested table: (rows, columns)."""
        ...

    def groups_of(self, name: str, groups: Codes, records: Codes) -> Codes:
        """Return, for each record at the positions ``records``, the group to which the record's value belongs.

        ``groups`` (G,) is the group of each cell of the variable ``name``.
        """
        ...


class Part:
    """Counter of the n records of a design, or of one of its files, in this process.

    Attributes
    ----------
    column : function
        Returns the values (n,) of an outcome or of the weight, given its name.
    frame : DataFrame
        Public columns in the conditions under which questions are asked.
    levels : dict of str to int array (n,)
        For each term, the level of each record.
    parts : int or int array (n,)
        Contribution of each record to a count (:mod:`.protected_units`).
    asked : set of str
        Outcomes whose answers decide whether a later question is asked.
    """

    def __init__(
        self, column: Callable[[str], pd.Series], frame: pd.DataFrame, levels: Mapping[str, Codes], parts: Codes | int,
        asked: Collection[str],
    ) -> None:  # fmt: skip
        self.column, self.frame, self.levels, self.parts, self.asked = column, frame, levels, parts, asked
        self.codes: dict[str, Codes] = {}

    def add(self, name: str, cells: Cells) -> None:
        """Find the cell (bin or special value) of each record for one more variable (:meth:`Counter.add`)."""
        column = self.column(name)
        code = cells.codes(column, name, cells.asked(self.frame))
        self.codes[name] = code.astype(np.min_scalar_type(len(cells)))
        if name in self.asked:  # later conditions are evaluated on values in the form of synthetic values
            self.frame = self.frame.assign(**{name: cells.as_drawn(column, code).array})

    def count(self, what: Count) -> Counts:
        """Return the counts of a requested table (:meth:`Counter.count`)."""
        levels, J = what.shape
        counts = np.zeros(levels * J, dtype=np.int64)
        code = self.codes[what.variable]
        for first in range(0, len(code), BLOCK):  # floats represent the whole-number sums of a block exactly
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
        """Return the table row in which each record of the slice ``these`` is counted; 0 if the table has one row."""
        level: Codes | int = 0 if what.term is None else self.levels[what.term][these].astype(np.intp)
        if what.earlier is None or what.by_groups is None:
            return level
        return level * (int(what.by_groups.max()) + 1) + what.by_groups[self.codes[what.earlier][these]]

    def groups_of(self, name: str, groups: Codes, records: Codes) -> Codes:
        """Return, for each record at the positions ``records``, the group to which the record's value belongs."""
        return groups[self.codes[name][records]]
