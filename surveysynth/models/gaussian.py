"""Record log densities of a multivariate normal regression, over all posterior draws.

    log p(y_i | x_i, B_s, Sigma_s) = -(D/2) log 2 pi - log|L_s| - |L_s^-1 (y_i - B_s' x_i)|^2 / 2

Records that share a predictor row share B_s' x, so means are computed once a row (a *pattern*)
and the work per record and draw is D^2 / 2 multiplications.  Records stream in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba as nb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK_BYTES = 64_000_000  # memory for the means of one block of patterns
TILE = 512  # draws that a core works on at a time: they stay in its cache


# loops over draws are innermost and contiguous, and may be reordered, so that they vectorise
@nb.njit(parallel=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _max_abs(
    Y: Floats, pattern: Codes, mean: Floats, W: Floats, const: Floats, base: Floats, out: Floats
) -> None:
    """out_i = max_s |base_i + log p_is|, infinite where one is not finite.

    mean (G, D, S) and W (D, D, S) are whitened: L^-1 B'x and L^-1.
    """
    n, D = Y.shape
    S = const.size
    chunk = 256
    for c in nb.prange((n + chunk - 1) // chunk):
        twice = np.empty(TILE)  # 2 log p of a tile of draws
        e = np.empty(TILE)
        for i in range(c * chunk, min(n, (c + 1) * chunk)):
            highest, lowest, total = -np.inf, np.inf, 0.0
            for s0 in range(0, S, TILE):
                width = min(TILE, S - s0)
                for s in range(width):
                    twice[s] = 2 * const[s0 + s]
                for d in range(D):
                    m = mean[pattern[i], d, s0 : s0 + width]
                    for s in range(width):
                        e[s] = -m[s]
                    for k in range(d + 1):
                        y, w = Y[i, k], W[d, k, s0 : s0 + width]
                        for s in range(width):
                            e[s] += w[s] * y
                    for s in range(width):
                        twice[s] -= e[s] * e[s]
                for s in range(width):
                    highest = max(highest, twice[s])
                    lowest = min(lowest, twice[s])
                    total += twice[s]  # max and min pass over NaN, a sum does not
            highest, lowest = highest / 2 + base[i], lowest / 2 + base[i]
            out[i] = max(highest, -lowest) if np.isfinite(total) else np.inf


def _blocks(
    Y: Floats, pattern: Codes, X: Floats, B: Floats, L: Floats
) -> Iterator[tuple[Codes, Codes, Floats, Floats, Floats]]:
    """Blocks of records with the whitened means of their patterns."""
    S, _, D = B.shape
    W = np.asarray(np.linalg.inv(L), dtype=np.float64)  # (S, D, D), lower triangular
    const = -0.5 * D * np.log(2 * np.pi) + np.log(np.einsum("sdd->sd", W)).sum(axis=1)
    whitened = np.einsum("skj,sdj->kds", B, W)  # (K, D, S): column d of B L^-T
    W = np.ascontiguousarray(W.transpose(1, 2, 0))
    order = np.argsort(pattern, kind="stable")
    start = np.searchsorted(pattern[order], np.arange(len(X) + 1))
    size = max(1, BLOCK_BYTES // (8 * S * D))
    for g in range(0, len(X), size):
        records = order[start[g] : start[min(g + size, len(X))]]
        mean = np.tensordot(X[g : g + size], whitened, axes=1)
        yield records, pattern[records] - g, mean, W, const


def max_abs_log_density(
    Y: Floats, pattern: Codes, X: Floats, B: Floats, L: Floats, base: Floats | None = None
) -> Floats:
    """max over draws of |base_i + log p(record i | draw s)|, for every record.

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

    Returns
    -------
    float array (n,)
        Infinite where a density is not finite.
    """
    out = np.empty(len(Y))
    base = np.zeros(len(Y)) if base is None else base
    for records, local, mean, W, const in _blocks(Y, pattern, X, B, L):
        part = np.empty(records.size)
        _max_abs(np.ascontiguousarray(Y[records]), local, mean, W, const, base[records], part)
        out[records] = part
    return out


def log_density(Y: Floats, pattern: Codes, X: Floats, B: Floats, L: Floats) -> Floats:
    """log p(record i | draw s) for a block of records, without a base: (S, n); arguments as above."""
    out = np.empty((len(B), len(Y)))
    for records, local, mean, W, const in _blocks(Y, pattern, X, B, L):
        e = np.einsum("dks,nk->nds", W, Y[records]) - mean[local]
        out[:, records] = (const - 0.5 * (e**2).sum(axis=1)).T
    return out
