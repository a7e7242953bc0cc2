"""Totals and ratios in all domains of a table, with variances, from sums over the records of each cell.

If every record is a sampling unit, the variance in a domain follows from sums over the records of the domain
(:mod:`.taylor`).  These sums add up over cells, the smallest domains of a table.  Record i has weight w_i, numerator
y_i and denominator x_i; domain d has the ratio R_d and the denominator X_d.  With any number R_c for cell c,

    a_i = w_i (y_i - R_c x_i),    b_i = w_i x_i,    z_i = [a_i + (R_c - R_d) b_i] / X_d

give the linearized value z_i of the ratio in any domain d that contains cell c.  The means, squares and products of a
and b by cell and stratum therefore suffice.  R_c is the ratio in cell c, which avoids cancellation of large numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numba as nb
import numpy as np
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from .estimators import Estimates
from .quantities import Quantity
from .taylor import pairs, sums

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Rows = NDArray[np.int32]
Values = tuple[Floats, Floats, Floats]
BlockSums = Callable[..., Floats]

BLOCK = 1 << 16  # records summed at a time; fixed, so that sums do not depend on the number of threads
MOST = 1 << 22  # most sums of blocks in memory at once
NONE = np.empty(0)


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class CellMoments(ABC):
    """Sums over records, from which one quantity can be estimated in any domain that is a union of cells.

    There are separate sums for each pair of a stratum and a cell.

    Attributes
    ----------
    divides : bool
        True for a ratio, such as a mean; False for a total or a count.
    stratum, cell : int arrays (pairs,)
        Stratum and cell of each pair.
    sampled, fraction : arrays (strata,)
        Number of records and sampling fraction of each stratum.
    """

    divides: bool
    stratum: Codes
    cell: Codes
    sampled: Codes
    fraction: Floats

    @abstractmethod
    def _over_blocks(self, block_sums: BlockSums, values: int, *constants: Floats) -> Floats:
        """Sum several variables over the records of each combination of stratum and cell: (values, pairs).

        ``values`` is the number of variables.  ``block_sums`` is :func:`sums_of` or :func:`squares_of`, which computes
        the sums over one block of records.  The ``constants`` are its arguments ``ratio`` and ``near``.
        """

    @property
    def pairs(self) -> int:
        """Number of combinations of stratum and cell."""
        return len(self.cell)

    @cached_property
    def _sums(self) -> Floats:
        """Number of records and sums of weighted values, by stratum and cell: (4, pairs).

        The sums are of w y, w x and |w x|.  A record has weight w, numerator y and denominator x.
        """
        return self._over_blocks(sums_of, 4)

    @cached_property
    def _ratio(self) -> Floats:
        """Estimated ratio R_c in cell c, over all strata, repeated for each stratum in the cell: (pairs,).

        R_c is 0 for a total.  R_c is also 0 in a cell where positive and negative x nearly cancel: the ratio of such a
        cell would be far larger than all ratios of the table, and the variances of margins would lose digits.
        """
        if not self.divides:
            return np.zeros(self.pairs)
        cells = int(self.cell.max(initial=-1)) + 1
        total, denominator, size = (sums(self.cell, values, cells) for values in self._sums[1:])
        sure = np.abs(denominator) > size / 2
        return np.asarray(np.divide(total, denominator, out=np.zeros(cells), where=sure)[self.cell])

    @cached_property
    def around(self) -> tuple[Floats, Floats]:
        """Ratios of cells, and approximate means by stratum and cell, around which sums of squares are computed.

        The ratios are R_c, (pairs,).  The means are of the residuals a and the weighted denominators b in the module's
        docstring, (2, pairs).
        """
        (n, wy, wx, _), ratio = self._sums, self._ratio
        return ratio, np.array([wy - ratio * wx, wx]) / np.maximum(n, 1)

    @cached_property
    def _moments(self) -> Floats:
        """Means, sums of squares and sums of products of residuals and weighted denominators, by stratum and cell.

        The residuals are a, and the weighted denominators are b, in the module's docstring.  The squares and products
        are of deviations from the means: (5, pairs).
        """
        n, near = self._sums[0], self.around[1]
        a, b, aa, ab, bb = self._over_blocks(squares_of, 5, *self.around)
        a, b = (a, b) / np.maximum(n, 1)
        return np.array([near[0] + a, near[1] + b, aa - n * a * a, ab - n * a * b, bb - n * b * b])

    def estimates(self, cell_domain: Codes, domains: int) -> Floats:
        """Return the estimates by domain: (domains,).  ``cell_domain`` is the domain of each cell, or -1 for none."""
        return self._estimates(cell_domain, domains)[0]

    def _estimates(self, cell_domain: Codes, domains: int) -> tuple[Floats, Floats]:
        d = cell_domain[self.cell]
        total, denominator = (sums(d[d >= 0], values[d >= 0], domains) for values in self._sums[1:3])
        if not self.divides:
            return total, np.ones(domains)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(denominator == 0, np.nan, total / denominator), denominator

    def with_variances(self, cell_domain: Codes, domains: int) -> Estimates:
        """Return estimates and variances by domain.  ``cell_domain`` is the domain of each cell, or -1 for none."""
        inside = cell_domain[self.cell] >= 0
        d, n = cell_domain[self.cell][inside], self._sums[0, inside]
        estimate, denominator = self._estimates(cell_domain, domains)
        mean_a, mean_b, aa, ab, bb = self._moments[:, inside]
        away = self._ratio[inside] - estimate[d] if self.divides else np.zeros(d.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (mean_a + away * mean_b) / denominator[d]
            squares = (aa + 2 * away * ab + away**2 * bb) / denominator[d] ** 2
        h, domain, row = pairs(self.stratum[inside], d, self.sampled.size, domains)
        n_h, f_h, present = self.sampled[h], self.fraction[h], sums(row, n, h.size)
        centre = sums(row, n * mean, h.size) / n_h
        squares = sums(row, squares + n * (mean - centre[row]) ** 2, h.size) + (n_h - present) * centre**2
        v = (1 - f_h) * np.where(n_h > 1, n_h / np.maximum(n_h - 1.0, 1.0) * squares, 0.0)
        return Estimates(estimate, np.where(np.isnan(estimate), np.nan, sums(domain, v, domains)))

    def records(self, cell_domain: Codes, domains: int) -> Codes:
        """Count the records of each domain: (domains,)."""
        d = cell_domain[self.cell]
        return sums(d[d >= 0], self._sums[0, d >= 0], domains).astype(np.intp)

    def degrees_of_freedom(self, cell_domain: Codes, domains: int) -> Floats:
        """Return the number of records minus the number of strata with records, by domain: (domains,)."""
        d = cell_domain[self.cell]
        counted = (d >= 0) & (self._sums[0] > 0)
        strata = np.bincount(pairs(self.stratum[counted], d[counted], self.sampled.size, domains)[1], minlength=domains)
        return np.asarray(self.records(cell_domain, domains) - strata, dtype=np.float64)


@dataclass(frozen=True, repr=False)
class RecordMoments(CellMoments):
    """Sums by stratum and cell (:class:`CellMoments`), computed from records in memory.

    Attributes
    ----------
    values : (weights, y, x), float arrays (n,)
        Weights, numerators y and denominators x.  y (or x) is an empty array if it is 1 for every record.
    row : int32 array (n,)
        Number of each record's pair of stratum and cell.  A record with a number beyond the last pair is not counted.
    """

    values: Values
    row: Rows

    @staticmethod
    def suit(design: SurveyDesign, quantity: Quantity) -> bool:
        """Return True if sums by stratum and cell suffice for the variance of a quantity in a design."""
        first, plain = design.stages[0], design.replication is None and design.pps is None and not design.calibrated
        record_is_unit = len(design.stages) == 1 and first.stratum_of_unit.size == first.unit.size
        linear = not quantity.distributional and quantity.statistic != "quantile"
        return plain and record_is_unit and linear and not first.lonely.any()

    @classmethod
    def from_design(cls, design: SurveyDesign, quantity: Quantity, cell: Codes, cells: int) -> RecordMoments:
        """Prepare the sums for a design.  ``cell`` is the cell of each record, 0 to ``cells - 1``, or -1 for none."""
        missing, stage = quantity.missing, design.stages[0]
        outside = cell < 0 if missing is None else (cell < 0) | missing
        if outside.any():
            cell = np.where(outside, cells, cell)
        if stage.sampled.size == 1:
            stratum, pair_cell, row = np.zeros(cells, dtype=np.intp), np.arange(cells), cell
        else:
            pair_cell, stratum, row = pairs(cell.astype(np.intp), stage.stratum, cells + 1, stage.sampled.size)
            inside = int(np.searchsorted(pair_cell, cells))
            stratum, pair_cell = stratum[:inside], pair_cell[:inside]
        return cls(
            divides(quantity.statistic), stratum, pair_cell, stage.sampled, stage.fraction,
            values_of(design.weights, quantity.y, quantity.x), row.astype(np.int32, copy=False),
        )  # fmt: skip

    def _over_blocks(self, block_sums: BlockSums, values: int, *constants: Floats) -> Floats:
        """Compute the sums for each block of records in parallel threads, and add up the results.

        A block has BLOCK records, or more if the sums of all blocks would be more than MOST numbers.
        """
        n, columns = len(self.row), (self.row, *self.values)
        block = max(BLOCK, -(-n * values * self.pairs // MOST))

        def one(first: int) -> Floats:
            here = (column[first : first + block] for column in columns)
            return block_sums(*here, *constants, np.zeros((values, self.pairs)))

        if n <= block:
            return one(0)
        with ThreadPoolExecutor(nb.get_num_threads()) as threads:
            return np.sum([*threads.map(one, range(0, n, block))], axis=0)


def divides(statistic: str) -> bool:
    """Return True for a statistic that is a ratio, such as a mean, and False for a total or a count."""
    return statistic not in ("count", "total")


def values_of(w: Floats, y: Floats | None, x: Floats | None) -> Values:
    """Convert weights w, numerators y and denominators x to read-only float arrays, as the compiled sums need them.

    None (1 for every record) becomes an empty array.
    """
    w, y, x = (np.ascontiguousarray(NONE if v is None else v, dtype=np.float64).view() for v in (w, y, x))
    for values in (w, y, x):
        values.flags.writeable = False
    return w, y, x


@nb.njit(nogil=True, cache=True, error_model="numpy")
def sums_of(row: Rows, w: Floats, y: Floats, x: Floats, out: Floats) -> Floats:
    """Add the number of records and the sums of weighted values by stratum and cell to ``out`` (4, pairs).

    The sums are of w y, w x and |w x|.  A record has weight w, numerator y and denominator x.  ``row`` is each record's
    pair of stratum and cell.
    """
    for i in range(row.size):
        g = row[i]
        if g < out.shape[1]:
            out[0, g] += 1
            out[1, g] += w[i] * y[i] if y.size else w[i]
            wx = w[i] * x[i] if x.size else w[i]
            out[2, g] += wx
            out[3, g] += abs(wx)
    return out


@nb.njit(nogil=True, cache=True, error_model="numpy")
def squares_of(row: Rows, w: Floats, y: Floats, x: Floats, ratio: Floats, near: Floats, out: Floats) -> Floats:
    """Add sums of residuals, of weighted denominators, and of their squares and products to ``out`` (5, pairs).

    The sums are of a, b, a^2, a b and b^2: a are the residuals, and b the weighted denominators, in the module's
    docstring.  ``near`` (2, pairs) has approximate means of a and b, which are subtracted first.  ``ratio`` is R_c for
    each pair.  ``row`` is each record's pair of stratum and cell.
    """
    for i in range(row.size):
        g = row[i]
        if g < out.shape[1]:
            x_i = x[i] if x.size else 1.0
            a = w[i] * ((y[i] if y.size else 1.0) - ratio[g] * x_i) - near[0, g]
            b = w[i] * x_i - near[1, g]
            out[0, g] += a
            out[1, g] += b
            out[2, g] += a * a
            out[3, g] += a * b
            out[4, g] += b * b
    return out
