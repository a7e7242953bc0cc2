"""Record log densities of a multivariate normal regression, over all posterior draws.

    log p(y_i | x_i, B_s, Sigma_s) = -(D/2) log 2 pi - log|L_s| - |L_s^-1 (y_i - B_s' x_i)|^2 / 2

Records that share a predictor row share B_s' x, so means are computed once a row (a *pattern*)
and the work per record and draw is D^2 / 2 multiplications.  Where PSUs have effects u_c, the mean is
B_s' x_i + u_cs, once a pattern of a PSU.  What else a density has in every draw, the log share of a
category, may differ from cell to cell, (pattern, PSU), too.  Records stream in blocks.  D may be 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray

from ..columns import codes

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Offset = Callable[[Codes], Floats]

BLOCK_BYTES = 64_000_000  # memory for the means of one block of patterns
TILE = 512  # draws that a core works on at a time: they stay in its cache


# loops over draws are innermost and contiguous, and may be reordered, so that they vectorise
@nb.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _subtract_squares(twice: Floats, e: Floats, y: Floats, mean: Floats, W: Floats, s0: int, width: int) -> None:
    """twice_s -= |W_s y - mean_s|^2 for a tile of draws; ``e`` is room for it."""
    for d in range(y.size):
        m = mean[d, s0 : s0 + width]
        for s in range(width):
            e[s] = -m[s]
        for k in range(d + 1):
            value, w = y[k], W[d, k, s0 : s0 + width]
            for s in range(width):
                e[s] += w[s] * value
        for s in range(width):
            twice[s] -= e[s] * e[s]


@nb.njit(parallel=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _max_abs(
    Y: Floats, cell: Codes, mean: Floats, W: Floats, const: Floats, base: Floats, out: Floats
) -> None:
    """out_i = max_s |base_i + log p_is|, infinite where one is not finite.

    mean (cells, D, S) and W (D, D, S) are whitened: L^-1 B'x and L^-1.  const (cells, S), or (1, S) for all.
    """
    n, S = len(Y), const.shape[1]
    chunk = 256
    for c in nb.prange((n + chunk - 1) // chunk):
        twice = np.empty(TILE)  # 2 log p of a tile of draws
        e = np.empty(TILE)
        for i in range(c * chunk, min(n, (c + 1) * chunk)):
            highest, lowest, total = -np.inf, np.inf, 0.0
            row = cell[i] if len(const) > 1 else 0
            for s0 in range(0, S, TILE):
                width = min(TILE, S - s0)
                for s in range(width):
                    twice[s] = 2 * const[row, s0 + s]
                _subtract_squares(twice, e, Y[i], mean[cell[i]], W, s0, width)
                for s in range(width):
                    highest = max(highest, twice[s])
                    lowest = min(lowest, twice[s])
                    total += twice[s]  # max and min pass over NaN, a sum does not
            highest, lowest = highest / 2 + base[i], lowest / 2 + base[i]
            out[i] = max(highest, -lowest) if np.isfinite(total) else np.inf


@nb.njit(parallel=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _max_abs_sum(
    Y: Floats, start: Codes, cell: Codes, mean: Floats, W: Floats, const: Floats, base: Floats, out: Floats
) -> None:
    """out_g = max_s |sum of base_i + log p_is over the records of unit g|, from start_g to before start_(g+1)."""
    S = const.shape[1]
    for g in nb.prange(out.size):
        twice = np.empty(TILE)
        e = np.empty(TILE)
        largest, total = 0.0, 0.0
        for s0 in range(0, S, TILE):
            width = min(TILE, S - s0)
            twice[:] = 0.0
            for i in range(start[g], start[g + 1]):
                row = cell[i] if len(const) > 1 else 0
                for s in range(width):
                    twice[s] += 2 * (const[row, s0 + s] + base[i])
                _subtract_squares(twice, e, Y[i], mean[cell[i]], W, s0, width)
            for s in range(width):
                largest = max(largest, abs(twice[s]))
                total += twice[s]
        out[g] = largest / 2 if np.isfinite(total) else np.inf


@dataclass(frozen=True)
class Effects:
    """Effects of sampling units on the working scale, in every draw.

    Attributes
    ----------
    psu : int array (n,)
        Unit of each record, 0 to C - 1.
    u : float array (S, C, D)
    """

    psu: Codes
    u: Floats


def _blocks(
    Y: Floats, pattern: Codes, X: Floats, B: Floats, L: Floats, effects: Effects | None, offset: Offset | None,
    unit: Codes | None = None,
) -> Iterator[tuple[Codes, Codes, Floats, Floats, Floats]]:  # fmt: skip
    """Blocks of records with the whitened means and the constants of their cells, (pattern, PSU).

    No unit is in two blocks.
    """
    S, _, D = B.shape
    W = np.asarray(np.linalg.inv(L), dtype=np.float64)  # (S, D, D), lower triangular
    const = -0.5 * D * np.log(2 * np.pi) + np.log(np.einsum("sdd->sd", W)).sum(axis=1)
    whitened = np.einsum("skj,sdj->kds", B, W)  # (K, D, S): column d of B L^-T
    last = np.ascontiguousarray(W.transpose(1, 2, 0))
    cell = pattern if effects is None else codes(effects.psu, pattern)  # a PSU's cells are neighbours
    key = cell if unit is None else unit
    order = np.argsort(key, kind="stable")
    size = np.bincount(key)
    cells = np.minimum(size, 1) if unit is None else size  # at most
    numbers = max(1, D + (offset is not None))  # a cell and draw
    block = np.cumsum(cells) // max(1, BLOCK_BYTES // (8 * S * numbers))
    ends = np.cumsum(np.bincount(block, size).astype(np.intp))
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        records = order[start:end]
        if records.size:
            _, row, number = np.unique(cell[records], return_index=True, return_inverse=True)
            mean = np.tensordot(X[pattern[records[row]]], whitened, axes=1)
            if effects is not None:
                here, psu = np.unique(effects.psu[records[row]], return_inverse=True)
                mean += _whitened(effects.u[:, here], last)[psu]
            yield records, number, mean, last, const[None] if offset is None else const + offset(records[row])


def _whitened(u: Floats, W: Floats) -> Floats:
    """L^-1 u: (C, D, S) from u (S, C, D) and W (D, D, S)."""
    by_draw = np.ascontiguousarray(u.transpose(1, 2, 0))
    out = np.zeros(by_draw.shape)
    for d in range(len(W)):
        for j in range(d + 1):
            out[:, d] += W[d, j] * by_draw[:, j]
    return out


def max_abs_log_density(
    Y: Floats,
    pattern: Codes,
    X: Floats,
    B: Floats,
    L: Floats,
    base: Floats | None = None,
    *,
    effects: Effects | None = None,
    offset: Offset | None = None,
    unit: Codes | None = None,
) -> Floats:
    """max over draws of |base_i + log p(record i | draw s)|, for every record; or of the sums over units.

    Parameters
    ----------
    Y : float array (n, D)
        Working-scale values.
    pattern : int array (n,)
        Row of ``X`` that record i has.
    X : float array (G, K)
        Distinct predictor rows.
    B, L : float arrays (S, K, D), (S, D, D)
        Draws of the coefficients and of the lower Cholesky factor of Sigma.
    base : float array (n,), optional
        What the record density has beside the normal one, as a logarithm.
    effects : Effects, optional
        Of the PSUs; the density is conditional on them.
    offset : function, optional
        What else the log density of a cell, (pattern, PSU), has in every draw, (cells, S), from the number i of
        one record of each cell.
    unit : int array (n,), optional
        Units 0 to U - 1 of several records, whose log densities add up.

    Returns
    -------
    float array (n,), or (U,) of units
        Infinite where a density is not finite.
    """
    base = np.zeros(len(Y)) if base is None else base
    out = np.zeros(len(Y) if unit is None else int(unit.max()) + 1)
    for records, cell, mean, W, const in _blocks(Y, pattern, X, B, L, effects, offset, unit):
        values = np.ascontiguousarray(Y[records])
        if unit is None:
            part = np.empty(records.size)
            _max_abs(values, cell, mean, W, const, base[records], part)
            out[records] = part
        else:
            there, start = np.unique(unit[records], return_index=True)
            part = np.empty(there.size)
            _max_abs_sum(values, np.append(start, records.size), cell, mean, W, const, base[records], part)
            out[there] = part
    return out


def log_density(
    Y: Floats, pattern: Codes, X: Floats, B: Floats, L: Floats, effects: Effects | None = None,
    offset: Offset | None = None,
) -> Floats:  # fmt: skip
    """log p(record i | draw s) for a block of records, without a base: (S, n); arguments as above."""
    out = np.empty((len(B), len(Y)))
    for records, cell, mean, W, const in _blocks(Y, pattern, X, B, L, effects, offset):
        e = np.einsum("dks,nk->nds", W, Y[records]) - mean[cell]
        own = const[cell] if len(const) > 1 else const
        out[:, records] = (own - 0.5 * (e**2).sum(axis=1)).T
    return out
