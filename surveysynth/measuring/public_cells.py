"""Public cells: the combinations of levels of formula terms, strata, PSUs and protected units that occur in a file.

A numeric predictor has steps, which are groups of its values, instead of levels.  A leaf is a level of the finest of
strata, PSUs and units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..models.loglinear.table_model import places
from ..validation import rows
from .noisy_tables import NoisyTables
from .protected_units import PARTS, Units
from .terms import Term, combined, public_cells

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

CLASSES = 5  # number of classes of leaves; leaves of a class have similar effects, and are fitted together
MOST = 16  # largest number of leaves that represent a class; a leaf is a level of the finest of strata, PSUs and units
EQUAL = np.full(MOST, 1 / MOST)


@dataclass(frozen=True, eq=False, repr=False)
class PublicCells:
    """The C combinations of formula terms, strata, PSUs and units that occur in a file of n records.

    A leaf is a level of the finest of strata, PSUs and units.  There are L leaves.

    Attributes
    ----------
    step : dict of str to int array (C,)
        For each term, and for strata, PSUs and units: the step (level, or group of a numeric predictor) of each
        combination.
    n : int array (C,)
        Number of records of each combination.
    cell_of_record : int array (n,)
        Combination of each record.
    leaf : int array (C,)
        Leaf of each combination.  It is 0 if there are no strata, PSUs or units.
    levels : dict of str to int array (L,)
        For strata, PSUs and units, the level to which each leaf belongs.
    pairs : dict of str to int array (levels,)
        For strata, PSUs and units, the number of pairs of records in each level.
    times : float array (C,) or None
        Mean contribution of the records of each combination to a count (:mod:`.protected_units`).  None means
        that single records are protected.
    """

    step: Mapping[str, Codes]
    n: Codes
    cell_of_record: Codes
    leaf: Codes
    levels: Mapping[str, Codes]
    pairs: Mapping[str, Codes]
    times: Floats | None

    @classmethod
    def from_tables(cls, measured: NoisyTables) -> PublicCells:
        """Find the public cells of a file, from the terms of its noisy tables."""
        terms, n = [*measured.terms.values()], measured.n
        steps, cell, records = public_cells(terms, n)
        step = {term.name: steps[:, k] for k, term in enumerate(terms)}
        drawn = [term for term in terms if term.drawn]
        if not drawn:
            return cls(step, records, cell, np.zeros(len(steps), dtype=np.intp), {}, {}, None)
        leaf = step[drawn[-1].name]
        first = np.unique(leaf, return_index=True)[1]
        levels = {term.name: step[term.name][first] for term in drawn}
        pairs = {term.name: np.bincount(term.level) // 2 for term in drawn}
        if measured.units not in levels:
            return cls(step, records, cell, leaf, levels, pairs, None)
        units = Units(drawn[-1].level, measured.most)
        pairs = {name: np.bincount(level) // 2 for name, level in levels.items()}  # pairs have one record of a unit
        pairs[measured.units] = np.minimum(np.bincount(units.unit_of_record) // 2, 1)
        times = np.bincount(cell, units.parts) / PARTS / records
        return cls(step, records, cell, leaf, levels, pairs, times)

    def representative_records(self, count: int) -> Codes:
        """Select about ``count`` records in proportion to the size of each public cell, but at least one from each."""
        order = np.argsort(self.cell_of_record, kind="stable")
        times = np.maximum(np.rint(self.n * (count / self.n.sum())), 1).astype(np.intp)
        inside = places(times) * np.repeat(self.n, times) // np.repeat(times, times)
        return order[np.repeat(np.cumsum(self.n) - self.n, times) + inside]

    def by(self, names: Sequence[str]) -> Codes:
        """Number the combinations of levels of the terms named in ``names``, and return each public cell's number."""
        return combined([np.zeros(len(self.n), dtype=np.intp), *(self.step[name] for name in names)])[1]

    @cached_property
    def counted(self) -> Floats:
        """For each public cell, the total that the cell's records contribute to a count."""
        return np.asarray(self.n * (1.0 if self.times is None else self.times), dtype=np.float64)

    def mean_of(self, values: Floats, place: Codes) -> Floats:
        """Return the mean of ``values``, weighted by numbers of records, in each group of public cells.

        ``values`` (C, J) are the values, and ``place`` (C,) is the group of each cell.  Return an array (groups, J).
        """
        sums = np.stack([np.bincount(place, self.n * each) for each in values.T], axis=1)
        return np.asarray(sums / np.bincount(place, self.n)[:, None], dtype=np.float64)

    def times_of(self, place: Codes) -> Floats | None:
        """Return the mean contribution of a record to a count in each group of public cells.

        ``place`` (C,) is the group of each cell.  Return None if single records are protected.
        """
        return None if self.times is None else self.mean_of(self.times[:, None], place)[:, 0]

    def cells_of_records(self, terms: Iterable[Term], n: int) -> Codes:
        """Find the public cell of each of n other records, from the terms of these records.

        Raises
        ------
        InputError
            Some records have a combination that does not occur in the file of the noisy tables, which therefore say
            nothing about these records.
        """
        own = len(self.n)
        both = [np.concatenate([step, term.step]) for step, term in zip(self.step.values(), terms, strict=True)]
        first, code = combined([np.zeros(own + n, dtype=np.intp), *both])
        unit = np.where(first < own, first, -1)[code[own:]]
        if (unit < 0).any():
            raise InputError(f"{rows(unit < 0)} have public values that were not measured")
        return unit

    def classes(self, effects: Floats, p: Floats) -> tuple[Codes, list[tuple[Codes, Floats]]]:
        """Group the leaves (levels of the finest of strata, PSUs and units) into classes with similar effects.

        The leaves are sorted along the first principal axis of their ``effects`` (L, G) on the G cells of a variable.
        The effects are weighted by the probabilities ``p`` (G,) of the cells.  Then the leaves are cut into at most 5
        classes.  A class is represented by its leaves, each with its share of the records of the class.  If a class has
        more than 16 leaves, it is represented by 16 leaves at quantiles along the second axis, with equal shares.

        Return the class (L,) of each leaf and, for each class, a pair: the leaves that represent it, and their shares.
        """
        weight = np.bincount(self.leaf, self.n)
        if len(effects) <= CLASSES:
            return np.arange(len(effects)), [(np.array([leaf]), np.ones(1)) for leaf in range(len(effects))]
        axes = np.linalg.svd((effects - weight @ effects / weight.sum()) * np.sqrt(p), full_matrices=False)[0]
        order = np.argsort(axes[:, 0], kind="stable")
        below = np.cumsum(weight[order]) - weight[order] / 2
        found = np.empty(len(effects), dtype=np.intp)
        found[order] = np.unique((below * CLASSES / weight.sum()).astype(np.intp), return_inverse=True)[1]
        members = []
        for one in range(int(found.max()) + 1):
            inside = np.flatnonzero(found == one)
            inside = inside[np.argsort(axes[inside, 1], kind="stable")]
            above = np.cumsum(weight[inside])
            if len(inside) > MOST:
                members.append((inside[np.searchsorted(above, (np.arange(MOST) + 0.5) / MOST * above[-1])], EQUAL))
            else:
                members.append((inside, weight[inside] / above[-1]))
        return found, members
