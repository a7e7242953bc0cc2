"""Probabilities of a variable's cells for many records, of which those with the same public values have the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False, repr=False)
class RowProbabilities:
    """Probabilities by row, and the row of each record.

    Attributes
    ----------
    rows : float array (R, G)
    record : int array (n,)
        Row of each record.
    """

    rows: Floats
    record: Codes

    @classmethod
    def one_by_one(cls, p: Floats) -> RowProbabilities:
        """A row for each record."""
        return cls(p, np.arange(len(p)))

    def draw(self, rng: np.random.Generator) -> Codes:
        """A cell for each record (n,), by inversion: random numbers in common make similar draws."""
        R, G = self.rows.shape
        ends = np.cumsum(self.rows, axis=1) + np.arange(R)[:, None]  # all rows one after the other, each of length 1
        place = np.searchsorted(ends.ravel(), rng.random(len(self.record)) + self.record, side="right")
        found = place - self.record * G
        return np.clip(found, 0, G - 1)

    def mean(self, values: Floats) -> Floats:
        """Expected values of the cells' values (G,), for each record (n,)."""
        return np.asarray((self.rows @ values)[self.record])

    def subset(self, records: Codes) -> Floats:
        """Probabilities of some records (K, G)."""
        return np.asarray(self.rows[self.record[records]])
