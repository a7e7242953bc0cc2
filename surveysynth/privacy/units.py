"""The units that epsilon protects: single records, or groups of records whose log densities add up.

All records of a group g, such as a household or a PSU, join or leave the file together.  The density of a group is the
product of the densities p_i of its records.  So the Lipschitz bound of the group is f_g = max_s |sum_i log p_i|, where
s runs over the posterior draws and i over the records of the group.  All records of the group have the same privacy
weight alpha_g, and the overall Lipschitz bound Delta is the largest alpha_g f_g.

f_g grows with the number of records, so alpha_g would fall as groups become larger.  The fit would then describe small
households, and means of variables that are correlated with size would be biased.  Therefore units of similar size form
a class c, with the mean weight a_c of its records, and all weights of class c are multiplied by (min_k a_k) / a_c.
Afterwards all classes have the same mean weight.  No weight becomes larger, so Delta remains a bound.
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

CLASS = (0.05, 10)  # smallest share of the records, and smallest number of units, in a class of unit sizes


@dataclass(frozen=True, repr=False)
class Unit:
    """The units that epsilon protects: single records or groups of records.

    Attributes
    ----------
    column : str or None
        Name of the column with the labels of the units.  For PSUs the names of the stratum column and of the columns of
        parent units come first, separated by commas.  None means that single records are protected.
    by_record : int array (n,) or None
        Unit of each of the n records, from 0 to U - 1.  None means that single records are protected.
    """

    column: str | None = None
    by_record: Codes | None = None

    def count(self, n: int) -> int:
        """Return the number U of units among n records."""
        return n if self.by_record is None else int(self.by_record.max()) + 1

    def spread(self, values: Floats) -> Floats:
        """Return for each record the value of the record's unit."""
        return values if self.by_record is None else values[self.by_record]

    @property
    def differ(self) -> bool:
        """True if units have different numbers of records."""
        return self.by_record is not None and bool(np.ptp(np.bincount(self.by_record)) > 0)

    @property
    def classes(self) -> int:
        """Number of classes of units of similar size, which is 1 if single records are protected."""
        return 1 if self.by_record is None else int(size_classes(np.bincount(self.by_record)).max()) + 1

    def even(self, alpha: Floats, present: Floats | None = None) -> Floats:
        """Lower the units' privacy weights so that small and large units have the same mean: see :func:`even`."""
        return alpha if self.by_record is None else even(alpha, np.bincount(self.by_record), present)


def even(alpha: Floats, size: Codes, present: Floats | None = None) -> Floats:
    """Lower privacy weights so that all classes of units of similar size have the same mean weight.

    Parameters
    ----------
    alpha : float array (U,)
        Weights of units.
    size : int array (U,)
        Number of records of each unit, at least 1.
    present : float array (U,), optional
        0 for each unit that is left out of the class means, 1 for all others.  By default no unit is left out.

    Returns
    -------
    float array (U,)
        The lowered weights.  All weights are 0 if all weights of one class are 0.
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
    """Group units into classes of similar size.  Return the class of each unit; class 0 has the largest units.

    ``size`` is the number of records of each unit.

    A class has at least 5% of the records and at least 10 units.  So a few very large units share a class with the
    next smaller ones; otherwise all weights would be lowered to the weights of the very large units, which are near 0.
    If the smallest units are too few for a class, they join the class above.  Fewer than 20 units form one class.
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
    if (r or u) and number > 0:  # the remaining small units are too few for a class
        class_of_size[class_of_size == number] = number - 1
    return class_of_size[size]


def unit_of(design: SurveyDesign, column: str | None) -> Unit:
    """Return the units whose labels are in a column, or single records if the column is None.

    If the column is one of PSUs, the same label in different strata or parent units means different PSUs.

    Raises
    ------
    InputError
        ``column`` is not a text, the design has no such column, or the column has missing values.
    """
    if column is None:
        return Unit()
    if not isinstance(column, str):
        raise InputError("unit must be the name of one column, such as the column of households")
    missing = design.column(column).isna().to_numpy()
    if missing.any():
        raise InputError(
            f"unit {column!r} is missing in {rows(missing)}; every record belongs to a unit, if need be one of its own"
        )
    above = [design.strata_name, *design.psu_names] if column in design.psu_names else []
    names = [name for name in above[: above.index(column) + 1] if name is not None] if above else [column]
    return Unit(", ".join(names), codes(*(design.column(name) for name in names)))
