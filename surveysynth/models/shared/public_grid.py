"""Very many records as the points of a public grid, so that what a fit costs does not grow with their number.

A record at v counts at the 2^d corners of the grid's cell that it is in, with weights linear in its place: they add up
to 1 and keep its place on average (in particle simulations: cloud in cell).  A sum of f(v) over records becomes one
over points, of which there are only so many; f is taken as linear within a cell, and the variance of v grows by at most
STEP^2 / 4, .06% of the reference's.  What a record adds is a weighted mean of values of f, and so has f's bounds: those
of the strict mechanism hold on the grid as they do off it.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

STEP, LIMIT = 0.05, 8.0  # in the reference's standard deviations; what lies beyond the limit is moved there
MANY, ACROSS = 200_000, 120  # records from which on it pays, where rows have more of them than points ACROSS each way


def crowded(n: int, rows: int, d: int) -> bool:
    """Whether n records of d numbers in so many predictor rows are more than the points they would lie on, about."""
    return 1 <= d <= 2 and n > max(MANY, rows * ACROSS**d)


def on_grid(v: Floats, a: Floats, start: Codes) -> tuple[Floats, Floats, Codes]:
    """The points that records lie on, row by row.

    Parameters
    ----------
    v : float array (d, n)
        Coordinates, in the order of their rows; d is 1 or 2.
    a : float array (n,)
        What each record counts.
    start : int array (G + 1,)
        Where each row's records begin.

    Returns
    -------
    v, a, start : float arrays (d, N), (N,), int array (G + 1,)
        The same of the points.
    """
    d, side = len(v), round(2 * LIMIT / STEP) + 1
    whole = np.ascontiguousarray(v if d == 2 else np.vstack([np.zeros(v.shape[1]), v]))
    points, counts, begins = _spread(whole, a, start, side if d == 2 else 1, side)
    return np.ascontiguousarray(points[2 - d :]), counts, begins


@njit(cache=True, nogil=True)
def _spread(v: Floats, a: Floats, start: Codes, high: int, wide: int) -> tuple[Floats, Floats, Codes]:
    """Of (2, n) coordinates on a grid of high x wide points; a grid one point high has only the second."""
    G = len(start) - 1
    begins = np.zeros(G + 1, np.intp)
    for row in range(G):
        grid = _row(v, a, start[row], start[row + 1], high, wide)
        begins[row + 1] = begins[row] + np.count_nonzero(grid)
    points, counts = np.empty((2, begins[G])), np.empty(begins[G])
    for row in range(G):
        grid = _row(v, a, start[row], start[row + 1], high, wide)
        at = begins[row]
        for i in range(high):
            for j in range(wide):
                if grid[i, j] != 0:
                    points[0, at], points[1, at] = i * STEP - LIMIT, j * STEP - LIMIT
                    counts[at] = grid[i, j]
                    at += 1
    return points, counts, begins


@njit(cache=True, nogil=True)
def _row(v: Floats, a: Floats, first: int, end: int, high: int, wide: int) -> Floats:
    """What the records of one row count at every point."""
    grid = np.zeros((high, wide))
    for k in range(first, end):
        i, up = _place(v[0, k], high)
        j, right = _place(v[1, k], wide)
        grid[i, j] += a[k] * (1 - up) * (1 - right)
        if up > 0:
            grid[i + 1, j] += a[k] * up * (1 - right)
        if right > 0:
            grid[i, j + 1] += a[k] * (1 - up) * right
        if up > 0 and right > 0:
            grid[i + 1, j + 1] += a[k] * up * right
    return grid


@njit(cache=True, nogil=True)
def _place(x: float, size: int) -> tuple[int, float]:
    """The point below a coordinate, and how far it lies from there to the next."""
    if size == 1:
        return 0, 0.0
    steps = (min(max(x, -LIMIT), LIMIT) + LIMIT) / STEP
    below = min(int(steps), size - 1)
    return below, steps - below if below < size - 1 else 0.0
