"""Lipschitz bounds of records whose log density is linear in two statistics, given their predictor row.

    log p_i = c_r + p_r t_i1 + q_r t_i2

in a posterior draw, where r is the row of record i and t_i are its statistics: log y and log(1 - y) of a beta
distribution, x and x^2 of a normal distribution.  c, p and q are computed once per block of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numba as nb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
# c, p and q of rows in every draw: (rows, S) each
RowCoefficients = Callable[[Codes], tuple[Floats, Floats, Floats]]

BLOCK_BYTES = 64_000_000  # memory for c, p and q of the rows of one block
TILE = 512  # draws that a core processes at a time, so that they stay in its cache


# inner loops run over contiguous draws, and sums may be reordered, so that the compiler vectorises them
@nb.njit(parallel=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _max_abs_sum(t: Floats, start: Codes, row: Codes, c: Floats, p: Floats, q: Floats, out: Floats) -> None:
    """Set out_u to max_s |sum of log p_is over the records start_u to start_(u+1) - 1 of unit u|."""
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
    """Largest |log p_i| over draws (n,); with ``unit``, largest |sum of log p over the unit's records| (U,).

    Memory is O(n).

    Parameters
    ----------
    t : float array (n, 2)
        Statistics of each record.
    row : int array (n,)
        Row of each record.
    coefficients : function
        Returns c, p and q of selected rows in every draw.
    S : int
        Number of draws.
    unit : int array (n,) or None
        Unit of each record, 0 to U - 1.
    """
    out = np.empty(len(row) if unit is None else int(unit.max()) + 1)
    for records, units, start, here, number in blocks_of_units(row, unit, S):
        part = np.empty(units.size)
        _max_abs_sum(t[records], start, number, *coefficients(here), part)
        out[units] = part
    return out


def blocks_of_units(row: Codes, unit: Codes | None, S: int) -> Iterator[tuple[Codes, Codes, Codes, Codes, Codes]]:
    """Cut records into blocks of whole units.  Each block is a tuple of arrays.

    The arrays are: records, units, first record of each unit (and the end), distinct rows, and the position of each
    record's row among the distinct rows.

    Without ``unit`` each record is a unit.
    """
    for records in blocks(row if unit is None else unit, 1 if unit is None else None, S):
        units, start = (records, np.arange(records.size)) if unit is None else np.unique(unit[records], True)
        here, number = np.unique(row[records], return_inverse=True)
        yield records, units, np.append(start, records.size), here, number.astype(np.intp)


def blocks(key: Codes, cells: int | None, S: int) -> Iterator[Codes]:
    """Cut records into blocks of whole keys.  A key has at most ``cells`` rows; None: as many rows as records."""
    order, size = np.argsort(key, kind="stable"), np.bincount(key)
    block = np.cumsum(np.minimum(size, cells or size)) // max(1, BLOCK_BYTES // (24 * S))
    ends = np.cumsum(np.bincount(block, size).astype(np.intp))
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        if end > start:
            yield order[start:end]
