"""Lipschitz bounds of models in which the log density of a record is linear in two statistics.

    log p_i = c_r + p_r t_i1 + q_r t_i2

in a posterior draw.  r is the predictor row of record i, and t_i1 and t_i2 are the statistics of the record: log y and
log(1 - y) of a beta distribution, or x and x^2 of a normal distribution.  c, p and q are computed once per block of
records.  In shapes, n is the number of records, S of draws, and U of units of several records.
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
    """Write the largest |sum of log p over the records of unit u| over draws to ``out[u]``, for each unit u.

    Unit u has the records ``start[u]`` to ``start[u + 1] - 1``.  ``t``, ``c``, ``p`` and ``q`` are the terms of log p =
    c + p t_1 + q t_2, and ``row`` is the predictor row of each record.
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
    """Compute the largest |log density| (n,) of each record over draws, if log p = c + p t_1 + q t_2.

    With ``unit``, log p is summed over the records of a unit of privacy first, and the result is (U,).  Memory is O(n).

    Parameters
    ----------
    t : float array (n, 2)
        Statistics t_1 and t_2 of each record.
    row : int array (n,)
        Predictor row of each record.
    coefficients : function
        Computes c, p and q, each (rows, S), of selected predictor rows.
    S : int
        Number of draws.
    unit : int array (n,) or None
        Unit of privacy of each record, 0 to U - 1.
    """
    out = np.empty(len(row) if unit is None else int(unit.max()) + 1)
    for records, units, start, here, number in blocks_of_units(row, unit, S):
        part = np.empty(units.size)
        _max_abs_sum(t[records], start, number, *coefficients(here), part)
        out[units] = part
    return out


def blocks_of_units(row: Codes, unit: Codes | None, S: int) -> Iterator[tuple[Codes, Codes, Codes, Codes, Codes]]:
    """Cut records into blocks of whole units of privacy.  Without ``unit``, each record is a unit.

    ``row`` is the predictor row of each record, and ``S`` the number of draws.  Each block is a tuple of arrays: the
    records, the units, the first record of each unit (followed by the number of records), the distinct predictor rows,
    and the position of each record's row among the distinct rows.
    """
    for records in blocks(row if unit is None else unit, 1 if unit is None else None, S):
        units, start = (records, np.arange(records.size)) if unit is None else np.unique(unit[records], True)
        here, number = np.unique(row[records], return_inverse=True)
        yield records, units, np.append(start, records.size), here, number.astype(np.intp)


def blocks(key: Codes, cells: int | None, S: int) -> Iterator[Codes]:
    """Cut records into blocks that fit into memory, so that records with equal keys stay together.

    ``cells`` is the largest number of distinct predictor rows among records with the same key.  None means that each
    record may have another row.  ``S`` is the number of draws.
    """
    order, size = np.argsort(key, kind="stable"), np.bincount(key)
    block = np.cumsum(np.minimum(size, cells or size)) // max(1, BLOCK_BYTES // (24 * S))
    ends = np.cumsum(np.bincount(block, size).astype(np.intp))
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        if end > start:
            yield order[start:end]
