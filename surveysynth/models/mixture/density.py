"""Record densities of a mixture of regressions in every posterior draw."""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from .mathematics import HALF_LOG_2PI, fast_exp

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

TILE = 64  # draws that are processed at a time, so that the values of a record stay in the cache


def log_densities(
    x: Floats, row: Codes, y: Floats, w: Floats, log_share: Floats, b: Floats, sd: Floats, c: Floats, sd_w: Floats
) -> Floats:
    """Return the log density of each of n records for each of S draws, with the K components summed out.

    The density is sum_k pi_k N(y_i; x_i b_k, s_k^2) N(w_i; x_i c_k + g_k y_i, t_k^2), as in
    :mod:`surveysynth.models.mixture.model`.

    Parameters
    ----------
    x : float array (G, R)
        Predictor rows (distinct rows of the model matrix), with R columns.
    row : int array (n,)
        Position in ``x`` of each record's predictor row.
    y, w : float arrays (n,)
        Outcome on the working scale, and log weight.  ``w`` is empty if the weight is not modelled.
    log_share, b, sd : float arrays (S, K), (S, K, R), (S, K)
        Log shares, coefficients b_k and standard deviations s_k of the components in S draws.
    c, sd_w : float arrays (S, K + 1, R + 1), (S, K + 1)
        Regressions of the log weight: coefficients (c_k, g_k) and standard deviations t_k.  The last regression, of
        the weights of zeros, is not used here.

    Returns
    -------
    float array (n, S)
        Log densities.
    """
    order = np.argsort(row, kind="stable")
    start = np.searchsorted(row[order], np.arange(len(x) + 1))
    constant, inverse, weighted = log_share - np.log(sd) - HALF_LOG_2PI, 1 / sd, 1 / sd_w
    if w.size:
        constant = constant - np.log(sd_w[:, :-1]) - HALF_LOG_2PI
    out = np.empty((row.size, len(b)))
    _log_densities(x, start, order, y, w, constant, b, inverse, c, weighted, out)
    return out


@nb.njit(parallel=True, cache=True, error_model="numpy")
def _log_densities(
    x: Floats, start: Codes, order: Codes, y: Floats, w: Floats, constant: Floats, b: Floats, inverse: Floats,
    c: Floats, inverse_w: Floats, out: Floats,
) -> None:  # fmt: skip
    S, K, R = b.shape
    for g in nb.prange(len(x)):
        mean, weight = np.empty((TILE, K)), np.empty((TILE, K))
        logs, exps = np.empty(TILE * K), np.empty(TILE * K)
        for s0 in range(0, S, TILE):
            width = min(TILE, S - s0)
            for s in range(width):
                for k in range(K):
                    total = 0.0
                    for a in range(R):
                        total += x[g, a] * b[s0 + s, k, a]
                    mean[s, k] = total
                    if w.size:
                        total = 0.0
                        for a in range(R):
                            total += x[g, a] * c[s0 + s, k, a]
                        weight[s, k] = total
            for at in range(start[g], start[g + 1]):
                i = order[at]
                for s in range(width):
                    largest = -np.inf
                    for k in range(K):
                        r = (y[i] - mean[s, k]) * inverse[s0 + s, k]
                        value = constant[s0 + s, k] - 0.5 * r * r
                        if w.size:
                            r = (w[i] - weight[s, k] - c[s0 + s, k, R] * y[i]) * inverse_w[s0 + s, k]
                            value -= 0.5 * r * r
                        logs[s * K + k] = value
                        largest = max(largest, value)
                    for k in range(K):
                        logs[s * K + k] -= largest
                    out[i, s0 + s] = largest
                fast_exp(logs[: width * K], exps[: width * K])
                for s in range(width):
                    total = 0.0
                    for k in range(K):
                        total += exps[s * K + k]
                    out[i, s0 + s] += np.log(total)
