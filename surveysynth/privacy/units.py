"""The units that epsilon protects: single records, or groups of records whose log densities add up.

A group of records, a household or a whole PSU, joins or leaves the file at once.  Its density is the
product over its records, so what bounds a record bounds a group: f_g = max_s |sum_i log p_i| over
its records, one privacy weight alpha_g for all of them, and Delta is the largest alpha_g f_g.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..columns import codes
from ..design import SurveyDesign
from ..errors import InputError, rows

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, repr=False)
class Unit:
    """What one is protected as.

    Attributes
    ----------
    column : str or None
        Its name in the file, after those of the strata and units that a PSU is in; None for single records.
    of_record : int array (n,) or None
        Unit of each record, 0 to U - 1.
    """

    column: str | None = None
    of_record: Codes | None = None

    def count(self, n: int) -> int:
        """Number of units U of n records."""
        return n if self.of_record is None else int(self.of_record.max()) + 1

    def spread(self, values: Floats) -> Floats:
        """Values of units (U,) as values of their records (n,)."""
        return values if self.of_record is None else values[self.of_record]


def unit_of(design: SurveyDesign, column: str | None) -> Unit:
    """The units that a column names; labels of PSUs count within their stratum and parent unit.

    Raises
    ------
    InputError
        No such column, or missing values in it.
    """
    if column is None:
        return Unit()
    if not isinstance(column, str):
        raise InputError("unit must be the name of one column: that of households, say")
    missing = design.column(column).isna().to_numpy()
    if missing.any():
        raise InputError(
            f"unit {column!r} is missing in {rows(missing)}; every record belongs to a unit, if need be one of its own"
        )
    above = [design.strata_name, *design.psu_names] if column in design.psu_names else []
    names = [name for name in above[: above.index(column) + 1] if name is not None] if above else [column]
    return Unit(", ".join(names), codes(*(design.frame[name] for name in names)))
