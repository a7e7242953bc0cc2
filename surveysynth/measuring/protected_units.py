"""Units of several records, households, that are protected as one: what each record counts for.

A record of a unit of k records counts for min(1, most / k), rounded down to sixtieths, so that a unit changes a table
by ``most`` records, and noise stays on whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .table_noise import noise_variance

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

PARTS = 60  # of a record: what records count for is in such
TYPICAL = 0.02  # share of the records that are in a typical cell of a table


@dataclass(frozen=True, eq=False, repr=False)
class Units:
    """The units that are protected, and the most records that one of them counts for.

    Attributes
    ----------
    of_record : int array (n,)
    most : int
    """

    unit_of_record: Codes
    most: int

    @cached_property
    def parts(self) -> Codes:
        """What each record counts for, in sixtieths (n,)."""
        return np.minimum(PARTS, PARTS * self.most // np.bincount(self.unit_of_record)[self.unit_of_record])


def most_records(unit_of_record: Codes, epsilon: float, *, gaussian: bool = False) -> int:
    """The number of records that a unit should count for, at most: what makes the variance of a typical count least.

    Parameters
    ----------
    of_record : int array (n,)
        Unit of each record.
    epsilon : float
        Of a table.
    gaussian : bool
        Whether its noise is.
    """
    size = np.bincount(unit_of_record)[unit_of_record]

    def variance(most: int) -> float:
        share = np.minimum(1.0, most / size)
        noise = noise_variance(epsilon / most, gaussian=gaussian)
        return float((TYPICAL * (share**2).sum() + noise) / (TYPICAL * share.sum()) ** 2)

    return min(range(1, int(size.max()) + 1), key=variance)
