"""The largest |log density| of each record over draws, for models whose log density is linear in two statistics.

    log p_i = c_r + p_r t_i1 + q_r t_i2

in a posterior draw.  r is the predictor row (distinct row of the model matrix) of record i, and t_i1 and t_i2 are the
statistics of the record: log y and log(1 - y) for a beta distribution of y, or y and y^2 for a normal distribution.
The coefficients c, p and q depend on the draw and are computed once per block of records.

A unit is what epsilon protects: a single record, or several records.  Letters in shapes are numbers: n of records, S of
draws, and U of units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numba as nb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
# function that computes c, p and q, each (rows, S), of given predictor rows
RowCoefficients = Callable[[Codes], tuple[Floats, Floats, Floats]]

BLOCK_BYTES = 64_000_000  # memory for c, p and q of the rows of one block
TILE = 512  # draws that a core processes at a time, so that they stay in its cache


# inner loops run over contiguous draws, and sums may be reordered, so that the compiler vectorises them
@nb.njit(parallel=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _max_abs_sum(t: Floats, start: Codes, row: Codes, c: Floats, p: Floats, q: Floats, out: Floats) -> None:
    """Write to ``out[u]``, for each unit u, the maximum over all draws of |sum of log p over the unit's records|.

    Unit u has the records ``start[u]`` to ``start[u + 1] - 1``.  ``t`` (n, 2) are the statistics of the records, ``c``,
    ``p`` and ``q`` (rows, S) the coefficients of predictor rows, and ``row`` (n,) is each record's position in these.
    """
    S = c.shape[1]
    for u in nb.prange(out.size):
        log_p = np.empty(TILE)
        largest, total = 0.0, 0.0
        for s0 in range(0, S, TILE):
            width = min(TILE, S - s0)
            log_p[:] = 0.0
            for i in range(start[u], start[u + 1]):
                c_i, p_i, q_i = c[row[i], s0 : s0 + width], p[row[i], s0 : s0 + width], q[row[i], s0 : s0 + width]
                first, second = t[i, 0], t[i, 1]
                for s in range(width):
                    log_p[s] += c_i[s] + p_i[s] * first + q_i[s] * second
            for s in range(width):
                largest = max(largest, abs(log_p[s]))
                total += log_p[s]
        out[u] = largest if np.isfinite(total) else np.inf


def max_abs_log_density(t: Floats, row: Codes, coefficients: RowCoefficients, S: int, unit: Codes | None) -> Floats:
    """Compute each record's largest |log density| over all draws, if log densities are linear in two statistics.

    The log density is log p = c + p t_1 + q t_2.  The result is (n,).  With ``unit``, log p is first summed over the
    records of each unit, and the result is (U,).  The memory needed is proportional to n and does not depend on S.

    Parameters
    ----------
    t : float array (n, 2)
        Statistics t_1 and t_2 of each record.
    row : int array (n,)
        Number of each record's predictor row.
    coefficients : function
        Takes the positions of predictor rows, and returns c, p and q, each (rows, S).
    S : int
        Number of draws.
    unit : int array (n,) or None
        Number, 0 to U - 1, of each record's unit.
    """
    out = np.empty(len(row) if unit is None else int(unit.max()) + 1)
    for records, units, start, here, number in blocks_of_units(row, unit, S):
        part = np.empty(units.size)
        _max_abs_sum(t[records], start, number, *coefficients(here), part)
        out[units] = part
    return out


def blocks_of_units(row: Codes, unit: Codes | None, S: int) -> Iterator[tuple[Codes, Codes, Codes, Codes, Codes]]:
    """Yield the records in blocks.  All records of a unit are in the same block.

    ``row`` (n,) is the predictor row and ``unit`` (n,) the unit of each record.  If ``unit`` is None, each record is a
    unit.  ``S`` is the number of draws.  Each block is a tuple of five arrays: the records; the units; the position in
    the block of the first record of each unit, followed by the number of records; the distinct predictor rows; and the
    position of each record's row among these.
    """
    for records in blocks(row if unit is None else unit, 1 if unit is None else None, S):
        units, start = (records, np.arange(records.size)) if unit is None else np.unique(unit[records], True)
        here, number = np.unique(row[records], return_inverse=True)
        yield records, units, np.append(start, records.size), here, number.astype(np.intp)


def blocks(key: Codes, cells: int | None, S: int) -> Iterator[Codes]:
    """Yield the positions of records in blocks that fit into memory.  Records with equal keys are in the same block.

    ``key`` (n,) is the key of each record.  ``cells`` is the largest number of distinct predictor rows among records
    with the same key, or None if all rows of these records may differ.  ``S`` is the number of draws.
    """
    order, size = np.argsort(key, kind="stable"), np.bincount(key)
    block = np.cumsum(np.minimum(size, cells or size)) // max(1, BLOCK_BYTES // (24 * S))
    ends = np.cumsum(np.bincount(block, size).astype(np.intp))
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        if end > start:
            yield order[start:end]
