"""Units of several records, such as households, that are protected as a whole.

``most`` is the largest number of records by which one unit may change a table.  Each record of a unit with k records
therefore contributes min(1, most / k) to a count, rounded down to sixtieths.  Counts in sixtieths are whole numbers, as
the noise requires.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .table_noise import noise_variance

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

PARTS = 60  # contributions of records are counted in sixtieths
TYPICAL = 0.02  # share of the records in a typical cell of a table


@dataclass(frozen=True, eq=False, repr=False)
class Units:
    """The protected units, and the largest contribution of one unit to a table.

    Attributes
    ----------
    unit_of_record : int array (n,)
        Number of each record's unit, from 0.
    most : int
        Largest contribution of one unit to a table, in records.
    """

    unit_of_record: Codes
    most: int

    @cached_property
    def parts(self) -> Codes:
        """Contribution of each record to a count (n,), in sixtieths."""
        return np.minimum(PARTS, PARTS * self.most // np.bincount(self.unit_of_record)[self.unit_of_record])


def most_records(unit_of_record: Codes, epsilon: float, *, gaussian: bool = False) -> int:
    """Choose the largest number of records that a protected unit may contribute to a table.

    A large number needs more noise, and a small one counts fewer records.  The chosen number minimises the relative
    variance of a count of 2% of the records, by sampling and noise.

    Parameters
    ----------
    unit_of_record : int array (n,)
        Number of each record's unit, from 0.
    epsilon : float
        Epsilon of the table, for one unit.
    gaussian : bool
        True if the noise is Gaussian.
    """
    size = np.bincount(unit_of_record)[unit_of_record]

    def variance(most: int) -> float:
        share = np.minimum(1.0, most / size)
        noise = noise_variance(epsilon / most, gaussian=gaussian)
        return float((TYPICAL * (share**2).sum() + noise) / (TYPICAL * share.sum()) ** 2)

    return min(range(1, int(size.max()) + 1), key=variance)
