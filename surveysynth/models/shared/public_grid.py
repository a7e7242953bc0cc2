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
# about how many points the records of a row then lie on.
STEP, REACH, POINTS = {1: 0.05, 2: 0.05, 3: 0.25}, {1: 8.0, 2: 8.0, 3: 3.0}, {1: 120, 2: 14_400, 3: 15_000}
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
    whole = np.ascontiguousarray(v if d == 3 else np.vstack([np.zeros((3 - d, v.shape[1])), v]))
    sides = np.ones(3, dtype=np.intp)
    sides[3 - d :] = round(2 * REACH[d] / STEP[d]) + 1
    points, counts, begins = _spread(whole, a, start, sides, STEP[d], REACH[d])
    return np.ascontiguousarray(points[3 - d :]), counts, begins


@njit(cache=True, nogil=True)
def _spread(
    v: Floats, a: Floats, start: Codes, sides: Codes, step: float, reach: float
) -> tuple[Floats, Floats, Codes]:  # fmt: skip
    """Of (3, n) coordinates on a grid of so many points each way: one where there is no coordinate."""
    G = len(start) - 1
    begins = np.zeros(G + 1, np.intp)
    for row in range(G):
        grid, far = _row(v, a, start[row], start[row + 1], sides, step, reach)
        begins[row + 1] = begins[row] + np.count_nonzero(grid) + far
    points, counts = np.empty((3, begins[G])), np.empty(begins[G])
    for row in range(G):
        grid, _ = _row(v, a, start[row], start[row + 1], sides, step, reach)
        at = begins[row]
        for i in range(sides[0]):
            for j in range(sides[1]):
                for k in range(sides[2]):
                    if grid[i, j, k] != 0:
                        points[0, at], points[1, at] = _at(i, sides[0], step, reach), _at(j, sides[1], step, reach)
                        points[2, at], counts[at] = _at(k, sides[2], step, reach), grid[i, j, k]
                        at += 1
        for r in range(start[row], start[row + 1]):
            if not _near(v, r, reach):
                points[:, at], counts[at] = v[:, r], a[r]
                at += 1
    return points, counts, begins


@njit(cache=True, nogil=True)
def _row(
    v: Floats, a: Floats, first: int, end: int, sides: Codes, step: float, reach: float
) -> tuple[Floats, int]:  # fmt: skip
    """What the records of one row count at every point, and how many of them lie far."""
    grid, far = np.zeros((sides[0], sides[1], sides[2])), 0
    for r in range(first, end):
        if not _near(v, r, reach):
            far += 1
            continue
        i, share_i = _place(v[0, r], sides[0], step, reach)
        j, share_j = _place(v[1, r], sides[1], step, reach)
        k, share_k = _place(v[2, r], sides[2], step, reach)
        for x in range(1 + (share_i > 0)):
            of_i = a[r] * (share_i if x else 1 - share_i)
            for y in range(1 + (share_j > 0)):
                of_j = of_i * (share_j if y else 1 - share_j)
                grid[i + x, j + y, k] += of_j * (1 - share_k)
                if share_k > 0:
                    grid[i + x, j + y, k + 1] += of_j * share_k
    return grid, far


@njit(cache=True, nogil=True)
def _near(v: Floats, record: int, reach: float) -> bool:
    """Whether a record lies on the grid."""
    return max(abs(v[0, record]), abs(v[1, record]), abs(v[2, record])) <= reach


@njit(cache=True, nogil=True)
def _place(x: float, side: int, step: float, reach: float) -> tuple[int, float]:
    """The point below a coordinate, and how far it lies from there to the next."""
    if side == 1:
        return 0, 0.0
    steps = (x + reach) / step
    below = min(int(steps), side - 1)
    return below, steps - below if below < side - 1 else 0.0


@njit(cache=True, nogil=True)
def _at(point: int, side: int, step: float, reach: float) -> float:
    """Where a point lies."""
    return point * step - reach if side > 1 else 0.0
