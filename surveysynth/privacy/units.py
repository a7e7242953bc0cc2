"""The units that epsilon protects: single records, or groups of records whose log densities add up.

A group of records, a household or a whole PSU, joins or leaves the file at once.  Its density is the
product over its records, so what bounds a record bounds a group: f_g = max_s |sum_i log p_i| over
its records, one privacy weight alpha_g for all of them, and Delta is the largest alpha_g f_g.

f_g grows with the number of records, so alpha_g would fall with it: the fit would be one of small households, and
every mean that goes with their size would be off.  So weights are evened: each is multiplied by the least mean weight
of any class of sizes over the mean weight of its own class, means being over records.  Weights only fall, so Delta
holds, and their mean is the same in every class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..design.columns import codes
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import rows

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

CLASS = (0.05, 10)  # share of the records, and number of units, that a class of sizes has at least


@dataclass(frozen=True, repr=False)
class Unit:
    """What one is protected as.

    Attributes
    ----------
    column : str or None
        Its name in the file, after those of the strata and units that a PSU is in; None for single records.
    by_record : int array (n,) or None
        Unit of each record, 0 to U - 1.
    """

    column: str | None = None
    by_record: Codes | None = None

    def count(self, n: int) -> int:
        """Number of units U of n records."""
        return n if self.by_record is None else int(self.by_record.max()) + 1

    def spread(self, values: Floats) -> Floats:
        """Values of units (U,) as values of their records (n,)."""
        return values if self.by_record is None else values[self.by_record]

    @property
    def differ(self) -> bool:
        """Whether they have different numbers of records."""
        return self.by_record is not None and bool(np.ptp(np.bincount(self.by_record)) > 0)

    @property
    def classes(self) -> int:
        """Classes of their sizes within which privacy weights are evened; 1 where there is nothing to even."""
        return 1 if self.by_record is None else int(size_classes(np.bincount(self.by_record)).max()) + 1

    def even(self, alpha: Floats, present: Floats | None = None) -> Floats:
        """Privacy weights (U,) whose mean does not go with the units' number of records: see :func:`even`."""
        return alpha if self.by_record is None else even(alpha, np.bincount(self.by_record), present)


def even(alpha: Floats, size: Codes, present: Floats | None = None) -> Floats:
    """Privacy weights times the least mean weight of any class of sizes over the mean weight of their own class.

    Parameters
    ----------
    alpha : float array (U,)
        Weights of units.
    size : int array (U,)
        Records of each unit, 1 or more.
    present : float array (U,), optional
        0 for units that are left out of means over records; default: none is.

    Returns
    -------
    float array (U,)
        None of them larger than before; all 0 where those of a class are.
    """
    size_class = size_classes(size)
    counted = size * (1.0 if present is None else present)
    records, total = np.bincount(size_class, counted), np.bincount(size_class, counted * alpha)
    mean = total[records > 0] / records[records > 0]
    if mean.size < 2:
        return alpha
    factor = np.zeros(len(records))
    factor[records > 0] = np.divide(mean.min(), mean, out=np.zeros_like(mean), where=mean > 0)
    return np.asarray(alpha * factor[size_class])


def size_classes(size: Codes) -> Codes:
    """Classes of neighbouring sizes, 0 for the largest: each of 5% of the records and 10 units at least.

    The few units that are larger than almost all others share a class with the next smaller ones: else the weights
    of all would be theirs, and next to nothing would be left.  What is too little for a class at the small end belongs
    to the next larger sizes.  Fewer than 20 units are one class.
    """
    units = np.bincount(size)
    records = units * np.arange(len(units))
    least, many = CLASS[0] * records.sum(), CLASS[1]
    class_of_size = np.zeros(len(units), dtype=np.intp)
    number, r, u = 0, 0, 0
    for s in range(len(units) - 1, 0, -1):
        class_of_size[s] = number
        r, u = r + records[s], u + units[s]
        if r >= least and u >= many:
            number, r, u = number + 1, 0, 0
    if (r or u) and number > 0:  # what is left at the small end is too little for a class
        class_of_size[class_of_size == number] = number - 1
    return class_of_size[size]


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
    return Unit(", ".join(names), codes(*(design.column(name) for name in names)))
