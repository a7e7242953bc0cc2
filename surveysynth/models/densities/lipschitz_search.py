"""A fast search, for each record, for the largest |log density| over all posterior draws, by branch and bound.

The log densities are of a normal regression of D outcomes.  The search is fast if many records belong to one cell, that
is, have the same mean in every draw.  A box is a range of each outcome.  If the box is small, only few of thousands of
draws give the largest or the smallest density of any outcome vector y in the box.  Therefore the records of a cell are
cut into boxes repeatedly.

In draw s, let Sigma_s = L_s L_s' be the residual covariance, W_s = L_s^-1, and m_s be W_s times the mean.  Let c be the
middle of the box, u = y - c, and e_s = W_s c - m_s.  For two draws s and t,

    log p_s(y) - log p_t(y)  =  log p_s(c) - log p_t(c)  -  (W_s'e_s - W_t'e_t)'u  -  u'(W_s'W_s - W_t'W_t) u / 2.

Let top and bottom be the draws with the largest and the smallest log density at the middle.  Draw s is left out of a
box if nowhere in the box log p_s can exceed log p_top or be below log p_bottom.  The result is exactly the maximum over
all draws.

Letters in shapes are numbers: n of records, D of outcomes, and S of draws.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

FEW_RECORDS, FEW_DRAWS = 12, 8  # a box with at most so many records or draws is not cut further
DEPTH = 60  # largest number of successive cuts
TASK = 1 << 17  # largest number of records that one core processes at a time
ROUNDING = 1e-9  # relative rounding error of a log density; draws that are closer are not left out


@nb.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _bounds(
    draws: Codes, count: int, kept: Codes, middle: Floats, h: Floats, base: float, mean: Floats, W: Floats,
    square: Floats, const: Floats, at: Floats, slope: Floats,
) -> int:  # fmt: skip
    """Find the draws that may give the largest |log density| of a record whose outcomes lie in a given box.

    Writes these draws to ``kept``, and returns their number.  Only the first ``count`` elements of ``draws`` are
    examined.  ``middle`` and ``h`` (D,) are the centre and the half-widths of the box.  ``base`` is the maximum over
    the records in the box of the term that is added to the normal log density.  Other arguments are as for
    :func:`farthest`, for one cell.  ``at`` and ``slope`` are work space.
    """
    D = middle.size
    top, bottom, highest = 0, 0, -np.inf
    for c in range(count):
        s = draws[c]
        value, reach = const[s], 0.0
        for j in range(D):
            slope[j, c] = 0.0
        for d in range(D):
            e = -mean[d, s]
            for j in range(d + 1):
                e += W[d, j, s] * middle[j]
            value -= 0.5 * e * e
            for j in range(d + 1):
                slope[j, c] += W[d, j, s] * e
        for j in range(D):
            reach += abs(slope[j, c]) * h[j]
        at[c] = value
        highest = max(highest, value + reach)  # a log density lies below its tangents
        top = c if value > at[top] else top
        bottom = c if value < at[bottom] else bottom
    reach = 0.0
    for j in range(D):
        reach += abs(slope[j, bottom]) * h[j]
    low_alone = highest + at[bottom] + reach + 2 * base < 0  # then |log p| is largest where log p is smallest
    number, slack = 0, ROUNDING * (1 + abs(at[bottom]))
    for c in range(count):
        s, above, below = draws[c], at[c] - at[top], at[bottom] - at[c]
        for j in range(D):
            above += abs(slope[j, c] - slope[j, top]) * h[j]
            below += abs(slope[j, c] - slope[j, bottom]) * h[j]
            for k in range(D):
                half = 0.5 * h[j] * h[k]
                above += half * abs(square[j, k, s] - square[j, k, draws[top]])
                below += half * abs(square[j, k, s] - square[j, k, draws[bottom]])
        if below >= -slack or (above >= -slack and not low_alone):
            kept[number] = s
            number += 1
    return number


@nb.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _fill_box(
    records: Codes, draws: Codes, count: int, Y: Floats, base: Floats, mean: Floats, W: Floats, const: Floats,
    room: Floats, twice: Floats, e: Floats, out: Floats,
) -> None:  # fmt: skip
    """Write to ``out[i]``, for each record i of ``records``, the largest |log density| over given draws.

    The draws are the first ``count`` elements of ``draws``.  The outcomes of ``records`` lie in one box, and only these
    draws can give the largest |log density| in the box.  ``room``, ``twice`` and ``e`` are work space.
    """
    D = Y.shape[1]
    for c in range(count):
        s, k = draws[c], 1
        room[0, c] = 2 * const[s]
        for d in range(D):
            room[k, c] = mean[d, s]
            k += 1
            for j in range(d + 1):
                room[k, c] = W[d, j, s]
                k += 1
    for i in records:
        k = 1
        for c in range(count):
            twice[c] = room[0, c]
        for d in range(D):
            for c in range(count):
                e[c] = -room[k, c]
            k += 1
            for j in range(d + 1):
                y = Y[i, j]
                for c in range(count):
                    e[c] += room[k, c] * y
                k += 1
            for c in range(count):
                twice[c] -= e[c] * e[c]
        highest, lowest = -np.inf, np.inf
        for c in range(count):
            highest = max(highest, twice[c])
            lowest = min(lowest, twice[c])
        out[i] = max(highest / 2 + base[i], -lowest / 2 - base[i])


@nb.njit(cache=True, error_model="numpy")
def _fill_cell(
    order: Codes, Y: Floats, base: Floats, mean: Floats, W: Floats, square: Floats, const: Floats, out: Floats
) -> None:
    """Write to ``out[i]``, for each record i of a group with equal means, the largest |log density| over all draws.

    The group is called a cell.  ``order`` holds the positions of the records of the cell, and is
    rearranged.
    """
    S, D = const.size, Y.shape[1]
    lists, counts = np.empty((DEPTH + 1, S), dtype=np.intp), np.empty(DEPTH + 1, dtype=np.intp)
    lists[0], counts[0] = np.arange(S), S
    at, slope = np.empty(S), np.empty((D, S))
    room, twice, e = np.empty((1 + D + D * (D + 1) // 2, S)), np.empty(S), np.empty(S)
    low, high = np.empty(D), np.empty(D)
    boxes = np.empty((DEPTH + 2, 3), dtype=np.intp)  # first record, end and depth of each waiting box
    boxes[0, 0], boxes[0, 1], boxes[0, 2], waiting = 0, order.size, 0, 1
    while waiting:
        waiting -= 1
        first, last, depth = boxes[waiting]
        if last - first <= FEW_RECORDS or depth == DEPTH or counts[depth] <= FEW_DRAWS:
            _fill_box(order[first:last], lists[depth], counts[depth], Y, base, mean, W, const, room, twice, e, out)
            continue
        low[:], high[:], largest = np.inf, -np.inf, -np.inf
        for i in order[first:last]:
            largest = max(largest, base[i])
            for d in range(D):
                low[d], high[d] = min(low[d], Y[i, d]), max(high[d], Y[i, d])
        middle, h = (low + high) / 2, (high - low) / 2
        counts[depth + 1] = _bounds(
            lists[depth], counts[depth], lists[depth + 1], middle, h, largest, mean, W, square, const, at, slope
        )
        widest, width = 0, -1.0
        for d in range(D):
            if h[d] * W[d, d, 0] > width:
                widest, width = d, h[d] * W[d, d, 0]
        cut, there = first, last  # records below the middle come first
        while cut < there:
            if Y[order[cut], widest] <= middle[widest]:
                cut += 1
            else:
                there -= 1
                order[cut], order[there] = order[there], order[cut]
        if cut in (first, last):  # the records are equal
            _fill_box(
                order[first:last], lists[depth + 1], counts[depth + 1], Y, base, mean, W, const, room, twice, e, out
            )
            continue
        boxes[waiting, 0], boxes[waiting, 1], boxes[waiting, 2] = cut, last, depth + 1
        boxes[waiting + 1, 0], boxes[waiting + 1, 1], boxes[waiting + 1, 2] = first, cut, depth + 1
        waiting += 2


@nb.njit(parallel=True, cache=True, error_model="numpy")
def farthest(
    Y: Floats, start: Codes, cell: Codes, mean: Floats, W: Floats, square: Floats, const: Floats, base: Floats
) -> Floats:
    """Compute, for each record, the largest |log density| over all draws of a normal regression.

    Parameters
    ----------
    Y : float array (n, D)
        Outcomes of the records, sorted by cell.
    start, cell : int arrays (tasks + 1,), (tasks,)
        First record of each task (records of one cell, see :func:`tasks`), followed by n, and the cell of each task.
    mean, W, square : float arrays (cells, D, S), (D, D, S), (D, D, S)
        For each draw, L^-1 times the mean of each cell, L^-1, and Sigma^-1, where L is the lower Cholesky factor of the
        residual covariance Sigma.  All numbers must be finite.
    const : float array (cells, S) or (1, S)
        Term of the log density that does not depend on the outcomes, for each cell or for all cells.
    base : float array (n,)
        Term that is added to the normal log density of each record, the same in every draw.

    Returns
    -------
    float array (n,)
        The largest |log density|.
    """
    out = np.empty(len(Y))
    for task in nb.prange(cell.size):
        order = np.arange(start[task], start[task + 1])
        own = const[cell[task] if len(const) > 1 else 0]
        _fill_cell(order, Y, base, mean[cell[task]], W, square, own, out)
    return out


def tasks(cell: Codes) -> tuple[Codes, Codes]:
    """Divide the records of each cell, which have equal means, into tasks of at most ``TASK`` records.

    The records are sorted by ``cell`` (n,).  Tasks are processed in parallel.  Returns the first record of each task,
    followed by n, and the cell of each task.
    """
    starts = np.flatnonzero(np.concatenate([[True], np.diff(cell) > 0]))
    ends = np.append(starts[1:], cell.size)
    begin = np.concatenate([np.arange(a, b, TASK) for a, b in zip(starts, ends, strict=True)])
    return np.append(begin, cell.size).astype(np.intp), cell[begin]
