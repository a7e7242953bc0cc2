"""Very many records as the points of a public grid, so that what a fit costs does not grow with their number.

A record at v counts at the 2^d corners of the grid's cell that it is in, with weights linear in its place: they add up
to 1 and keep its place on average (in particle simulations: cloud in cell).  A sum of f(v) over records becomes one
over points, of which there are only so many; f is taken as linear within a cell.  What a record adds is a weighted mean
of values of f, and so has f's bounds: those of the strict mechanism hold on the grid as they do off it.  Records that
lie far are few, and stay where they are; which are, hangs on no other record.

Of a file in parts the points of all parts add up: there a record's weights are whole numbers of which UNITS are one, so
that their sums are exact, in whatever order.

With steps h, the variance of each coordinate grows by h^2 / 6 on average, and no covariance.  Fitted variances are
taken down by that (:meth:`.clipped_fit.ClippedTarget.estimate`), which hangs on nothing of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# By the number of coordinates, in the reference's standard deviations: the step, how far the grid reaches each way, and
# from how many records a row on they lie on fewer points than they are, by a sixth (of t errors with 8 degrees of
# freedom; of 14,000 records by a third, of 140,000 by seven eighths).
STEP, REACH, POINTS = {1: 0.05, 2: 0.05, 3: 0.25}, {1: 8.0, 2: 8.0, 3: 3.0}, {1: 120, 2: 10_000, 3: 10_000}
MANY = 200_000  # records from which on it pays
UNITS = 1 << 30


def crowded(n: int, rows: int, d: int) -> bool:
    """Whether n records of d numbers in so many predictor rows are more than the points they would lie on, about."""
    return d in POINTS and n > max(MANY, rows * POINTS[d])


def added_variance(d: int) -> float:
    """What the grid adds to the variance of each coordinate, on average."""
    return STEP[d] ** 2 / 6


def on_grid(v: Floats, a: Floats, start: Codes) -> tuple[Floats, Floats, Codes]:
    """The points that records lie on, row by row, and after them the records that lie far.

    Parameters
    ----------
    v : float array (d, n)
        Coordinates, in the order of their rows; d is 1, 2 or 3.
    a : float array (n,)
        What each record counts.
    start : int array (G + 1,)
        Where each row's records begin.

    Returns
    -------
    v, a, start : float arrays (d, N), (N,), int array (G + 1,)
        The same of the points.
    """
    d = len(v)
    return _spread(v, a, start, _side(d), STEP[d], REACH[d])


@njit(cache=True, nogil=True)
def _spread(
    v: Floats, a: Floats, start: Codes, side: int, step: float, reach: float
) -> tuple[Floats, Floats, Codes]:  # fmt: skip
    """On a grid of so many points each way."""
    d, G = len(v), len(start) - 1
    begins = np.zeros(G + 1, np.intp)
    for row in range(G):
        grid, far = _row(v, a, start[row], start[row + 1], side, step, reach)
        begins[row + 1] = begins[row] + np.count_nonzero(grid) + far
    points, counts = np.empty((d, begins[G])), np.empty(begins[G])
    for row in range(G):
        grid, _ = _row(v, a, start[row], start[row + 1], side, step, reach)
        at = begins[row]
        for point in range(grid.size):
            if grid[point] != 0:
                counts[at], left = grid[point], point
                for j in range(d - 1, -1, -1):
                    points[j, at] = left % side * step - reach
                    left //= side
                at += 1
        for r in range(start[row], start[row + 1]):
            if not _near(v, r, reach):
                points[:, at], counts[at] = v[:, r], a[r]
                at += 1
    return points, counts, begins


@njit(cache=True, nogil=True)
def _row(v: Floats, a: Floats, first: int, end: int, side: int, step: float, reach: float) -> tuple[Floats, int]:
    """What the records of one row count at every point, the last coordinate fastest; how many of them lie far."""
    d, far = len(v), 0
    grid, point, part = np.zeros(side**d), np.empty(2**d, np.intp), np.empty(2**d)
    for r in range(first, end):
        if not _near(v, r, reach):
            far += 1
            continue
        _corners(v, r, a[r], side, step, reach, point, part)
        for corner in range(2**d):
            grid[point[corner]] += part[corner]
    return grid, far


@njit(cache=True, nogil=True)
def _corners(
    v: Floats, record: int, whole: float, side: int, step: float, reach: float, point: Codes, part: Floats
) -> None:
    """The points around a record, and what it counts at each of them, ``whole`` in all: into ``point`` and ``part``."""
    d = len(v)
    below, share = np.empty(d, np.intp), np.empty(d)
    for j in range(d):
        steps = (v[j, record] + reach) / step
        below[j] = min(int(steps), side - 2)
        share[j] = steps - below[j]  # of the way from the point below to the next
    for corner in range(2**d):
        point[corner], part[corner] = 0, whole
        for j in range(d):
            above = corner >> j & 1
            point[corner] = point[corner] * side + below[j] + above
            part[corner] *= share[j] if above else 1 - share[j]


@njit(cache=True, nogil=True)
def _near(v: Floats, record: int, reach: float) -> bool:
    """Whether a record lies on the grid."""
    near = True
    for j in range(len(v)):
        near = near and abs(v[j, record]) <= reach
    return near


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Points:
    """Points of a grid that records of a part lie on, and the records that lie far.

    Attributes
    ----------
    place : int64 array (N,)
        Number of each point: of its predictor row, then of its place in the grid; increasing.
    count : int64 array (N,)
        UNITS a record.
    far_row : int array (F,)
    far : float array (d, F)
        Rows and coordinates of records beyond the grid, in their order.
    """

    place: Codes
    count: Codes
    far_row: Codes
    far: Floats

    @classmethod
    def of(cls, v: Floats, row: Codes) -> Points:
        """Of records with coordinates v (d, n) in predictor rows (n,)."""
        d = len(v)
        side, order = _side(d), np.argsort(row, kind="stable")
        rows, begins = np.unique(row[order], return_index=True)
        place, count = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for g, records in zip(rows, np.split(order, begins)[1:], strict=True):  # none, where there are no records
            grid = _units(np.ascontiguousarray(v[:, records]), side, STEP[d], REACH[d])
            found = np.flatnonzero(grid)
            place.append(found + g * side**d)
            count.append(grid[found])
        beyond = (np.abs(v) > REACH[d]).any(axis=0)
        return cls(np.concatenate(place), np.concatenate(count), row[beyond], v[:, beyond])

    @classmethod
    def together(cls, parts: Sequence[Points]) -> Points:
        """Those of several parts, one after the other."""
        place, at = np.unique(np.concatenate([part.place for part in parts]), return_inverse=True)
        count = np.zeros(place.size, dtype=np.int64)
        np.add.at(count, at, np.concatenate([part.count for part in parts]))
        far_row = np.concatenate([part.far_row for part in parts])
        return cls(place, count, far_row, np.concatenate([part.far for part in parts], axis=1))

    def records(self) -> tuple[Codes, Floats, Floats]:
        """Predictor rows (R,), coordinates (R, d), and how many records each stands for (R,)."""
        d = len(self.far)
        side = _side(d)
        there, left = np.divmod(self.place, side**d)
        v = np.empty((self.place.size, d))
        for j in range(d - 1, -1, -1):
            v[:, j], left = left % side * STEP[d] - REACH[d], left // side
        row = np.concatenate([there, self.far_row])
        count = np.concatenate([self.count / UNITS, np.ones(self.far_row.size)])
        return row.astype(np.intp), np.concatenate([v, self.far.T]), count


def _side(d: int) -> int:
    """Points each way."""
    return round(2 * REACH[d] / STEP[d]) + 1


@njit(cache=True, nogil=True)
def _units(v: Floats, side: int, step: float, reach: float) -> Codes:
    """What the records of one row count at every point, in whole numbers."""
    d = len(v)
    grid, point, part = np.zeros(side**d, np.int64), np.empty(2**d, np.intp), np.empty(2**d)
    for r in range(v.shape[1]):
        if not _near(v, r, reach):
            continue
        _corners(v, r, float(UNITS), side, step, reach, point, part)
        left = UNITS
        for corner in range(2**d):
            units = left if corner == 2**d - 1 else min(int(part[corner] + 0.5), left)  # so that they add up
            left -= units
            grid[point[corner]] += units
    return grid
