"""Replicate weights whose factors take few different values, stored as one byte per unit and replicate."""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray

from .base import BLOCK, Records, Replicates, _gram, _rank, _sums

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Levels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class LevelReplicates(Replicates):
    """Replicates with few different factors, stored as a table of factors and one byte for each unit and replicate.

    In replicate r, unit u has the factor ``value[group[u], level[u, r]]``.

    Attributes
    ----------
    unit : int array (n,)
        Sampling unit of each record at the last replicated stage.
    level : uint8 array (units, R)
        Column of the table of factors, for each unit and replicate.  In Preston's bootstrap it is the number of stages,
        from the first on, that kept the unit.  In Rao and Wu's bootstrap it is how often the unit was drawn.
    group : int array (units,)
        Row of the table of factors, for each unit.
    value : float array (groups, levels)
        Table of factors.
    """

    unit: Codes
    level: Levels
    group: Codes
    value: Floats

    def factors(self, start: int, stop: int) -> Floats:  # noqa: D102
        return self._unit_factors(slice(None), slice(start, stop))[self.unit]

    def _unit_factors(self, units: slice | Codes, replicates: slice) -> Floats:
        return np.asarray(self.value[self.group[units, None], self.level[units, replicates]])

    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:  # noqa: D102
        unit, units = self.unit, len(self.level)
        if units * domains <= z.size:  # many records per unit: sum within units first
            z = _sums(z, unit, units, domain, domains)
            unit, domain = np.divmod(np.arange(z.size), domains)
        out = np.zeros((domains, self.R))
        _add_levels(z, domain, unit, self.level, self.group, self.value, out)
        return out.T

    def degf(self, weights: Floats, inside: Records = slice(None)) -> int:  # noqa: D102
        units = np.flatnonzero(np.bincount(self.unit[inside], weights[inside], len(self.level)) > 0)
        if units.size < self.R:
            return _rank(_gram(self._unit_factors(units, slice(None)).T)) - 1
        gram, rank, step = np.zeros((self.R, self.R)), 0, max(self.R, BLOCK // self.R)
        for start in range(0, units.size, step):
            gram += _gram(self._unit_factors(units[start : start + step], slice(None)))
            rank = _rank(gram)
            if rank == self.R:  # more units cannot add to it
                break
        return rank - 1


@nb.njit(cache=True)
def _add_levels(z: Floats, domain: Codes, unit: Codes, level: Levels, group: Codes, value: Floats, out: Floats) -> None:
    """Add the values z, multiplied by the factors of each replicate, to the sums by domain in ``out`` (domains, R).

    The factors are given by the attributes ``unit``, ``level``, ``group`` and ``value`` of :class:`LevelReplicates`.
    """
    v = np.empty(value.shape[1])
    R = level.shape[1]
    for i in range(z.size):
        if domain[i] >= 0:
            u = unit[i]
            for k in range(v.size):
                v[k] = z[i] * value[group[u], k]
            row, levels = out[domain[i]], level[u]
            for r in range(R):
                row[r] += v[levels[r]]
