"""The units that epsilon protects: single records, or groups of records whose log densities add up.

A group of records, such as a household or a PSU, joins or leaves the file at once.  The density of a group is the
product of the densities of its records, so the group has the bound f_g = max_s |sum_i log p_i|, with the sum over its
records.  All records of the group share one privacy weight alpha_g, and Delta is the largest alpha_g f_g.

f_g grows with the number of records, so alpha_g would fall as groups become larger.  The fit would then describe small
households, and means of variables that are correlated with size would be biased.  Therefore weights are evened: units
of similar size form a class, and the weights of a class are multiplied by the smallest class mean over the mean of
this class (means are over records).  Afterwards all classes have the same mean weight.  No weight becomes larger, so
Delta remains a bound.
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
        """Give each record the value of its unit: (U,) becomes (n,)."""
        return values if self.by_record is None else values[self.by_record]

    @property
    def differ(self) -> bool:
        """True if units have different numbers of records."""
        return self.by_record is not None and bool(np.ptp(np.bincount(self.by_record)) > 0)

    @property
    def classes(self) -> int:
        """Number of classes of units of similar size, which get equal mean privacy weights (1 for single records)."""
        return 1 if self.by_record is None else int(size_classes(np.bincount(self.by_record)).max()) + 1

    def even(self, alpha: Floats, present: Floats | None = None) -> Floats:
        """Lower privacy weights (U,) so that small and large units have the same mean weight: see :func:`even`."""
        return alpha if self.by_record is None else even(alpha, np.bincount(self.by_record), present)


def even(alpha: Floats, size: Codes, present: Floats | None = None) -> Floats:
    """Lower privacy weights so that the means of all classes of unit sizes equal the smallest of these means.

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
    """Return the units of a column.  PSUs with the same label in different strata or parent units are different.

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
