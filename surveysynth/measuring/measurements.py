"""Measurements: noisy tables of a confidential file, and all that is public about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bins import Cells
from .noise import composed, discrete_laplace_variance
from .terms import Term

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class NoisyTable:
    """Counts with integer Laplace noise: levels of a term, or groups of an earlier variable, by groups of cells.

    Attributes
    ----------
    by : str or None
        The term, or the earlier variable; None for a histogram.
    groups : int array (G,)
        Group of each cell of the variable.
    by_groups : int array or None
        Group of each cell of the earlier variable, where the table is by one.
    counts : int array (L, J)
        They can be negative.
    epsilon : float
        Spent on a record whose values are blanked; the noise has scale 1 / epsilon.
    """

    by: str | None
    groups: Codes
    by_groups: Codes | None
    counts: Counts
    epsilon: float

    @property
    def variance(self) -> float:
        """Of the noise of a cell."""
        return discrete_laplace_variance(self.epsilon)


@dataclass(frozen=True, eq=False, repr=False)
class Variable:
    """A variable that was measured: its cells, the terms that it depends on, its tables.

    Attributes
    ----------
    name : str
    cells : Cells
    terms : tuple of str
        Public terms of its formula.
    parents : tuple of str
        Earlier variables.
    tables : tuple of NoisyTable
        The first is the histogram of all cells.
    """

    name: str
    cells: Cells
    terms: tuple[str, ...]
    parents: tuple[str, ...]
    tables: tuple[NoisyTable, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Measurements:
    """All that was measured of a file.  Whatever is computed from it and from public columns costs no epsilon.

    Attributes
    ----------
    outcome, weight : Variable
        ``weight`` is None where weights are public.
    terms : dict of str to Term
        Levels of the public terms, record by record.
    n : int
        Records.
    population_total : float
        What the weights add up to.
    population_totals : dict of str to float array
        Public totals of the levels of some terms.
    """

    outcome: Variable
    weight: Variable | None
    terms: Mapping[str, Term]
    n: int
    population_total: float
    population_totals: Mapping[str, Floats]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All that were measured, in order."""
        return (self.outcome,) if self.weight is None else (self.outcome, self.weight)

    @property
    def tables(self) -> tuple[NoisyTable, ...]:
        """All tables."""
        return tuple(table for variable in self.variables for table in variable.tables)

    @property
    def epsilon(self) -> float:
        """Of a record whose values are blanked, by OpenDP's own map."""
        return composed([table.epsilon for table in self.tables])[0]
