"""Probabilities of the cells of a variable for many records.  Records with equal predictors share one stored row."""

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
        Probabilities of the cells.
    record : int array (n,)
        Row of each record.
    """

    rows: Floats
    record: Codes

    @classmethod
    def one_by_one(cls, p: Floats) -> RowProbabilities:
        """Probabilities (n, G) with a row of its own for each record."""
        return cls(p, np.arange(len(p)))

    def draw(self, rng: np.random.Generator) -> Codes:
        """A random cell for each record (n,), drawn by inversion, so that common random numbers make similar draws."""
        R, G = self.rows.shape
        ends = np.cumsum(self.rows, axis=1) + np.arange(R)[:, None]  # rows one after another, each of length 1
        place = np.searchsorted(ends.ravel(), rng.random(len(self.record)) + self.record, side="right")
        found = place - self.record * G
        return np.clip(found, 0, G - 1)

    def mean(self, values: Floats) -> Floats:
        """Expectation for each record (n,), given values of the cells (G,)."""
        return np.asarray((self.rows @ values)[self.record])

    def subset(self, records: Codes) -> Floats:
        """Probabilities of the cells for selected records (K, G)."""
        return np.asarray(self.rows[self.record[records]])
