"""Probabilities of a variable's values for many records, stored once for all records with equal predictors.

The values of a variable are grouped into G cells: bins of numbers, and single values such as "missing" or a level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False, repr=False)
class RowProbabilities:
    """Probability distributions over the cells of a variable, and the position of each record's distribution.

    There are R distributions, and the variable has G cells.

    Attributes
    ----------
    rows : float array (R, G)
        Probabilities of the cells, one distribution in each row.
    record : int array (n,)
        For each of n records, the row of ``rows`` with the record's distribution.
    """

    rows: Floats
    record: Codes

    @classmethod
    def one_by_one(cls, p: Floats) -> RowProbabilities:
        """Store the probabilities ``p`` (n, G) of n records, one row for each record."""
        return cls(p, np.arange(len(p)))

    def draw(self, rng: np.random.Generator) -> Codes:
        """Draw the cell (n,) of each record from the record's distribution.

        The distribution function is inverted, so that the same ``rng`` gives similar cells if probabilities change
        little.
        """
        R, G = self.rows.shape
        ends = np.cumsum(self.rows, axis=1) + np.arange(R)[:, None]  # rows one after another, each of length 1
        position = np.searchsorted(ends.ravel(), rng.random(len(self.record)) + self.record, side="right")
        found = position - self.record * G
        return np.clip(found, 0, G - 1)

    def mean(self, values: Floats) -> Floats:
        """Return the expected value (n,) of each record, where ``values`` (G,) has the value of each cell."""
        return np.asarray((self.rows @ values)[self.record])

    def subset(self, records: Codes) -> Floats:
        """Return the probabilities of the cells for selected records: (len(records), G)."""
        return np.asarray(self.rows[self.record[records]])
