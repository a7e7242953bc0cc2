"""Very many records as the points of a public grid, so that what a fit costs does not grow with their number.

A record at v counts at the 2^d corners of the grid's cell that it is in, with weights linear in its place: they add up
to 1 and keep its place on average (in particle simulations: cloud in cell).  A sum of f(v) over records becomes one
over points, of which there are only so many; f is taken as linear within a cell.  What a record adds is a weighted mean
of values of f, and so has f's bounds: those of the strict mechanism hold on the grid as they do off it.  Records that
lie far are few, and stay where they are; which are, hangs on no other record.

With steps h, the variance of each coordinate grows by h^2 / 6 on average, and no covariance.  Fitted variances are
taken down by that (:meth:`.clipped_fit.ClippedTarget.estimate`), which hangs on nothing of the file.
"""

from __future__ import annotations

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


def _side(d: int) -> int:
    """Points each way."""
    return round(2 * REACH[d] / STEP[d]) + 1
