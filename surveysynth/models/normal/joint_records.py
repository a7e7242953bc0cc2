"""A design in the form that FBS and FBP work with: what is public of it, and what is confidential."""

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
    """What is public.  With categories every row of public predictors comes in each of them, one after the other.

    ``row`` then is that of a record's first category: row + k is that of category k.

    Attributes
    ----------
    groups : Groups or None
        PSUs or strata whose effects are modelled.
    categories : Cells or None
        The names of outcomes that are categories, and the cells within which they are multinomial.
    cell_columns : tuple of str
        The predictors whose combinations are these cells.
    """

    groups: Groups | None = field(default=None, metadata=EACH)
    categories: Cells | None = field(default=None, metadata=EACH)
    cell_columns: tuple[str, ...] = ()

    @property
    def each(self) -> int:
        """Rows of X that a row of public predictors comes in: one a category."""
        return 1 if self.categories is None else self.categories.K

    def labels(self, category: Codes | None) -> dict[str, pd.Series]:
        """The categorical outcomes of records in these categories."""
        return {} if category is None or self.categories is None else self.categories.columns(category)

    def rows_of(self, category: Codes | None) -> Codes:
        """Rows of X of the records in these categories; None where nothing is a category: (n,)."""
        return self.row if category is None else self.row + category


@dataclass(frozen=True, repr=False, kw_only=True)
class JointRecords(Records, JointPublic):
    """The confidential file; y is (n, d), the numeric outcomes on their working scales.

    Attributes
    ----------
    categories : Categories or None
        Outcomes that are categories.
    """

    categories: Categories | None = field(default=None, metadata=EACH)

    view: ClassVar[type[Public]] = JointPublic

    @cached_property
    def Y(self) -> Floats:
        """y, then log w unless the weight is public: (n, D)."""
        return self.y if self.log_w is None else np.column_stack([self.y, self.log_w])

    @property
    def pattern(self) -> Codes:
        """Row of X of each record, in its own category: (n,)."""
        return self.row if self.categories is None else self.row + self.categories.category


@dataclass(frozen=True, repr=False, kw_only=True)
class PopulationPublic(JointPublic):
    """As FBS's, with the cells within which a synthetic file of FBP has one weight.

    Attributes
    ----------
    intercept : float array (K,)
        e with X e = 1.
    cell : int array (n,)
        Combination of predictors of each record, numeric ones in their bands.
    """

    intercept: Floats
    cell: Codes = field(metadata=EACH)


@dataclass(frozen=True, repr=False, kw_only=True)
class PopulationRecords(JointRecords, PopulationPublic):
    """The confidential file of FBP."""

    view: ClassVar[type[Public]] = PopulationPublic
