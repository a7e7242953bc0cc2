"""The public and confidential records of FBS and FBP."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..predictors.groups import Groups
from ..records import EACH, Public, Records
from .categories import Categories, Cells

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, repr=False, kw_only=True)
class JointPublic(Public):
    """Public data of FBS and FBP.

    X are the distinct rows of the model matrix.  If there are categorical outcomes, X has K consecutive rows for each
    distinct combination of public predictors: one row for each of the K categories.  A record with category k has row
    ``row + k`` of X.

    Attributes
    ----------
    groups : Groups or None
        PSUs or strata with modelled effects.  None if there are no such effects.
    categories : Cells or None
        The levels of the categorical outcomes, and the public cells within which categories are multinomial.  None if
        there are no categorical outcomes.
    cell_columns : tuple of str
        The predictors whose combinations are the public cells.
    """

    groups: Groups | None = field(default=None, metadata=EACH)
    categories: Cells | None = field(default=None, metadata=EACH)
    cell_columns: tuple[str, ...] = ()

    @property
    def each(self) -> int:
        """Number of rows of X for each combination of public predictors: the number of categories, or 1."""
        return 1 if self.categories is None else self.categories.K

    def labels(self, category: Codes | None) -> dict[str, pd.Series]:
        """Convert each record's category to one column of labels per categorical outcome; None gives no columns."""
        return {} if category is None or self.categories is None else self.categories.columns(category)

    def rows_of(self, category: Codes | None) -> Codes:
        """Return the row number (n,) in X of each record.  ``category`` (n,) is None if the model has no categories."""
        return self.row if category is None else self.row + category


@dataclass(frozen=True, repr=False, kw_only=True)
class JointRecords(Records, JointPublic):
    """The n confidential records to which FBS or FBP is fitted, with the public data of these records.

    Attributes
    ----------
    y : float array (n, d)
        The d numeric outcomes on their working scales, such as log income.
    categories : Categories or None
        Public cell and confidential category of each record.  None if there are no categorical outcomes.
    """

    categories: Categories | None = field(default=None, metadata=EACH)

    view: ClassVar[type[Public]] = JointPublic

    @cached_property
    def Y(self) -> Floats:
        """The modelled values (n, D): y and, unless the weight is public, log(w / mean w)."""
        return self.y if self.log_w is None else np.column_stack([self.y, self.log_w])

    @property
    def pattern(self) -> Codes:
        """Row number (n,) in X of each record, which depends on the record's predictors and confidential category."""
        return self.row if self.categories is None else self.row + self.categories.category


@dataclass(frozen=True, repr=False, kw_only=True)
class PopulationPublic(JointPublic):
    """Public data of FBP, with the cells within which synthetic records have the same weight.

    Attributes
    ----------
    intercept : float array (columns of X,)
        The vector e with X e = 1.
    cell : int array (n,)
        Cell of each record, numbered from 0.  A cell is a combination of values of the predictors, of which numeric
        ones are grouped by ``bands`` of :class:`FBP`.
    """

    intercept: Floats
    cell: Codes = field(metadata=EACH)


@dataclass(frozen=True, repr=False, kw_only=True)
class PopulationRecords(JointRecords, PopulationPublic):
    """Confidential records of FBP."""

    view: ClassVar[type[Public]] = PopulationPublic
