"""Probabilities of the cells of a variable for many records, stored once for all records with equal predictors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False, repr=False)
class RowProbabilities:
    """Probabilities of the G cells of a variable for n records, which share R rows.

    Attributes
    ----------
    rows : float array (R, G)
        Probabilities of the cells.
    record : int array (n,)
        Row of ``rows`` for each record.
    """

    rows: Floats
    record: Codes

    @classmethod
    def one_by_one(cls, p: Floats) -> RowProbabilities:
        """Store the probabilities p (n, G) of n records, each in a row of its own."""
        return cls(p, np.arange(len(p)))

    def draw(self, rng: np.random.Generator) -> Codes:
        """Draw a cell for each record by inversion, so that equal random numbers give similar draws."""
        R, G = self.rows.shape
        ends = np.cumsum(self.rows, axis=1) + np.arange(R)[:, None]  # rows one after another, each of length 1
        position = np.searchsorted(ends.ravel(), rng.random(len(self.record)) + self.record, side="right")
        found = position - self.record * G
        return np.clip(found, 0, G - 1)

    def mean(self, values: Floats) -> Floats:
        """Return the expected value for each record.  ``values`` has a value for each cell (G,)."""
        return np.asarray((self.rows @ values)[self.record])

    def subset(self, records: Codes) -> Floats:
        """Return the probabilities of the cells for selected records, one row for each."""
        return np.asarray(self.rows[self.record[records]])
