"""A log weight that is quadratic in the outcome, beside the pseudo posterior: in conjugate form.

    z = x b + s e_1,    log w = x g + k z + h z^2 + t e_2,    e_1, e_2 standard normal,

z being the outcome on its working scale.  A weighted mean depends on the weight through E(w | y, x) alone, and that is
seldom log-linear in y.  Under flat priors, p(b, s^2) ~ 1 / s^2 and p(g, k, h, t^2) ~ 1 / t^2, both regressions are
drawn exactly, and independently of each other.  Given h the pair (z, log w - h z^2) is that of FBS: its B and L are
kept, with h beside them.  (Under the strict mechanism the curve is in the innovations, and the spread may go with
them: see clipped_fit.py.)
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from ...engines import Diagnostics
from ..draws import Draws, Sampler
from ..shared.row_density import blocks_of_units
from ..shared.sufficient_statistics import SufficientStatistics, sufficient_statistics
from .identifiability import refuse_degenerate, refuse_unseen
from .records import JointRecords

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

BEND = "h"  # of a draw: (S,)
LOG_TWO_PI = float(np.log(2 * np.pi))


def draw_curved(records: JointRecords, alpha: Floats, sampler: Sampler) -> Draws:
    """Exact draws under the alpha-weighted pseudo likelihood: B (S, K, 2), L (S, 2, 2) and h (S,).

    Raises
    ------
    ModelError
        alpha leaves cells without any weight, or too little of the file.
    """
    z, log_w = records.Y.T
    both = sufficient_statistics(records.X, records.pattern, np.column_stack([z, z**2, log_w]), alpha)
    of_outcome = SufficientStatistics(both.A, both.C0, both.P[:, :1], both.Q[:1, :1])
    C0 = np.block([[both.C0, both.P[:, :2]], [both.P[:, :2].T, both.Q[:2, :2]]])  # of (x, z, z^2)
    of_weight = SufficientStatistics(both.A, C0, np.vstack([both.P[:, 2:], both.Q[:2, 2:]]), both.Q[2:, 2:])
    refuse_unseen(records, of_outcome.reduced()[0])
    b, s = _draw_regression(of_outcome, sampler)
    coefficients, t = _draw_regression(of_weight, sampler)
    g, k, h = coefficients[:, :-2], coefficients[:, -2], coefficients[:, -1]
    L = np.zeros((len(s), 2, 2))
    L[:, 0, 0], L[:, 1, 0], L[:, 1, 1] = s, k * s, t
    values = {"B": np.stack([b, g + k[:, None] * b], axis=2), "L": L, BEND: h}
    size = len(s)
    independent = Diagnostics(ess_bulk=size, ess_tail=size, exact=True)
    return Draws(values, np.zeros(size, dtype=np.intp), independent, "numpy", np.__version__)


def _draw_regression(statistics: SufficientStatistics, sampler: Sampler) -> tuple[Floats, Floats]:
    """Coefficients (S, K) and standard deviations (S,) of a regression under p(b, s^2) ~ 1 / s^2."""
    R, Z0, S0 = statistics.reduced()
    refuse_degenerate(S0, statistics, len(R))
    size, rng = sampler.chains * sampler.draws, sampler.rng
    sd = np.sqrt(S0[0, 0] / rng.chisquare(statistics.A - len(R), size))
    return (Z0[:, 0] + sd[:, None] * rng.standard_normal((size, len(R)))) @ np.linalg.pinv(R).T, sd


def log_likelihood(records: JointRecords, alpha: Floats, draws: Draws) -> Floats:
    """sum_i alpha_i log p(record i | draw), from sufficient statistics: (S,); alpha may be negative."""
    z, log_w = records.Y.T
    K = records.X.shape[1]
    of = sufficient_statistics(records.X, records.pattern, np.column_stack([z, log_w, z**2]), alpha)
    gram = np.block([[of.C0, of.P], [of.P.T, of.Q]])  # of (x, z, log w, z^2)
    v, h = draws.values, draws[BEND]
    left = np.zeros((draws.size, 2, K + 3))  # what is left of z and log w, as combinations of these
    left[:, :, :K] = -v["B"].transpose(0, 2, 1)
    left[:, 0, K] = left[:, 1, K + 1] = 1
    left[:, 1, K + 2] = -h
    e = np.linalg.solve(v["L"], left)
    squares = np.einsum("sdi,ij,sdj->s", e, gram, e, optimize=True)
    return np.asarray(-squares / 2 - of.A * (_log_determinant(v["L"]) + LOG_TWO_PI))


def log_density(records: JointRecords, draws: Draws) -> Floats:
    """log p(record | draw) on the working scale: (S, n)."""
    z, log_w = records.Y.T
    v = draws.values
    bent = np.stack([np.broadcast_to(z, (draws.size, len(z))), log_w - draws[BEND][:, None] * z**2], axis=1)
    mean = (records.X @ v["B"])[:, records.pattern].transpose(0, 2, 1)
    e = np.linalg.solve(v["L"], bent - mean)
    return np.asarray(-(e**2).sum(axis=1) / 2 - _log_determinant(v["L"])[:, None] - LOG_TWO_PI)


def max_abs_log_density(records: JointRecords, draws: Draws, unit: Codes | None) -> Floats:
    """max over draws of |log p_i|: (n,); or of its sum over the records of each unit: (U,).  Memory is O(n)."""
    L, h = draws["L"], draws[BEND]
    constant = -_log_determinant(L) - LOG_TWO_PI
    slope, s, t = L[:, 1, 0] / L[:, 0, 0], L[:, 0, 0], L[:, 1, 1]
    out = np.empty(records.n if unit is None else int(unit.max()) + 1)
    for some, units, start, here, number in blocks_of_units(records.pattern, unit, draws.size):
        mean = np.ascontiguousarray((records.X[here] @ draws["B"]).transpose(2, 1, 0))  # (2, rows, S)
        part = np.empty(units.size)
        _max_abs_sum(records.Y[some], start, number, mean[0], mean[1], constant, slope, h, 1 / s, 1 / t, part)
        out[units] = part
    return out


@nb.njit(parallel=True, cache=True, error_model="numpy")
def _max_abs_sum(
    Y: Floats, start: Codes, row: Codes, mean_z: Floats, mean_w: Floats, constant: Floats, slope: Floats, h: Floats,
    per_s: Floats, per_t: Floats, out: Floats,
) -> None:  # fmt: skip
    """out_u = max_s |sum of log p_is over the records of unit u|, from start_u to before start_(u+1)."""
    for u in nb.prange(out.size):
        largest, finite = 0.0, True
        for s in range(h.size):
            log_p = 0.0
            for i in range(start[u], start[u + 1]):
                z = Y[i, 0]
                left = z - mean_z[row[i], s]
                of_weight = Y[i, 1] - h[s] * z * z - mean_w[row[i], s] - slope[s] * left
                log_p += constant[s] - 0.5 * ((left * per_s[s]) ** 2 + (of_weight * per_t[s]) ** 2)
            largest = max(largest, abs(log_p))
            finite = finite and np.isfinite(log_p)
        out[u] = largest if finite else np.inf


def _log_determinant(L: Floats) -> Floats:
    """Log determinants of triangular factors (S, D, D): (S,)."""
    return np.asarray(np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1))
