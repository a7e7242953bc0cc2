"""The target of the strict mechanism for categories by a multinomial regression, and that of the pseudo posterior.

    log p(k | row) = log softmax(x B_ref + W psi C')_k,

B_ref (P, K) the reference, W = X Q the whitened predictors, C (K, K - 1) orthonormal contrasts between categories.
With l_k the log of p over the reference's p, a record in category k adds a (clamp(l_k, -B, B) - C_B) to the log target,

    C_B = sum_k p_ref(k) clip(e^l_k, e^-B, e^B),

an exact sum, which lies between e^-B and 1 + e^-B.  The prior is psi ~ N(0, s^2 / rank).  Without a clamp and C_B, and
beside even shares, it is the pseudo posterior: the prior times prod p^a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from ...engines.hamiltonian import Target
from .clipped_fit import PRIOR_SD, contrasts_of, known_of, whitening

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class ClippedCategories:
    """The log target of a file: a point holds psi (rank, K - 1), row by row.

    ``row``, ``category`` and ``a`` (n,) are the records', ``tempering`` (rows,) what C_B of each row counts,
    ``information`` that of psi, about, which is public, ``sd`` the prior standard deviation in a row of mean leverage.
    """

    X: Floats
    reference: Floats
    Q: Floats
    row: Codes
    category: Codes
    a: Floats
    tempering: Floats
    B: float
    information: Floats
    sd: float

    @property
    def K(self) -> int:
        """Number of categories."""
        return self.reference.shape[1]

    @property
    def contrasts(self) -> Floats:
        """Orthonormal contrasts between categories: (K, K - 1)."""
        return contrasts_of(self.K)

    @property
    def prior_sd(self) -> float:
        """Of an element of psi."""
        return float(self.sd / np.sqrt(self.Q.shape[1]))

    @property
    def scale(self) -> Floats:
        """A factor of the parameters' covariance, about, which is public."""
        precision = self.information + self.prior_sd**-2 * np.eye(len(self.information))
        return np.asarray(np.linalg.inv(np.linalg.cholesky(precision)).T)

    def starts(self, chains: int, rng: np.random.Generator) -> list[Floats]:
        """Where chains start: at the reference, and spread around it; nothing of the file decides."""
        size = self.Q.shape[1] * (self.K - 1)
        spread = 0.3 / np.sqrt(self.Q.shape[1])
        return [spread * rng.uniform(-1, 1, size) * (chain > 0) for chain in range(chains)]

    def some(self, share: float, rng: np.random.Generator) -> ClippedCategories:
        """A share of the records, at random, each of which counts for those that are left out; C_B as of all."""
        chosen = np.flatnonzero(rng.random(len(self.a)) < share)
        return replace(self, row=self.row[chosen], category=self.category[chosen], a=self.a[chosen] / share)

    def function(self) -> Target:
        """The log target and its gradient."""
        C, W, at_ref = self.contrasts, self.X @ self.Q, self.X @ self.reference
        log_ref = log_softmax(at_ref, axis=1)
        G, K = log_ref.shape
        counts = np.bincount(self.row * K + self.category, self.a, G * K).astype(np.float64).reshape(G, K)
        precision = self.prior_sd**-2

        def target(point: Floats) -> tuple[float, Floats]:
            log_odds = at_ref + W @ (point.reshape(-1, K - 1) @ C.T)
            value, of_log_odds = _clipped(log_odds, log_ref, counts, self.tempering, self.B)
            if not np.isfinite(value):
                return -np.inf, point
            gradient = (W.T @ (of_log_odds @ C)).ravel() - precision * point
            return value - precision * float(point @ point) / 2, gradient

        return target

    def coefficients(self, point: Floats) -> Floats:
        """Of log odds, which add up to 0 over the categories but for those of the reference: (P, K)."""
        return np.asarray(self.reference + self.Q @ point.reshape(-1, self.K - 1) @ self.contrasts.T)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _clipped(
    log_odds: Floats, log_ref: Floats, counts: Floats, tempering: Floats, B: float
) -> tuple[float, Floats]:  # fmt: skip
    """Sum over rows and categories of what counts times the clamped log ratio is, less C_B; slope in the log odds.

    All are (rows, K), ``tempering`` (rows,).
    """
    G, K = log_odds.shape
    total, slope, p = 0.0, np.empty((G, K)), np.empty(K)
    low, high = math.exp(-B), math.exp(B)
    for g in range(G):
        largest, mass, whole = -math.inf, 0.0, 0.0
        for k in range(K):
            largest = max(largest, log_odds[g, k])
        for k in range(K):
            p[k] = math.exp(log_odds[g, k] - largest)
            mass += p[k]
        log_mass = largest + math.log(mass)
        for k in range(K):
            p[k] /= mass
            ratio = log_odds[g, k] - log_mass - log_ref[g, k]
            total += counts[g, k] * min(max(ratio, -B), B)
            if -B < ratio < B:
                expected = tempering[g] * p[k]  # the reference's probability times e^l
                slope[g, k] = counts[g, k] - expected
            else:
                expected, slope[g, k] = tempering[g] * math.exp(log_ref[g, k]) * (high if ratio > 0 else low), 0.0
            total -= expected
            whole += slope[g, k]
        for k in range(K):
            slope[g, k] -= p[k] * whole
    return total, slope


def clipped_categories(
    X: Floats, row: Codes, category: Codes, reference: Floats, a: Floats, B: float, *, present: Floats | None = None,
    simulated: Floats | None = None,
) -> ClippedCategories:  # fmt: skip
    """The target of a file under the strict mechanism.

    Parameters
    ----------
    X : float array (G, P)
        Distinct predictor rows.
    row, category : int arrays (n,)
        Of the records.
    reference : float array (P, K)
        Coefficients of log odds.
    a : float array (n,)
        Tempering.
    B : float
    present : float array (n,), optional
        1, or 0 where the outcome is blanked: a C_B that is public counts such a record as before.
    simulated : float array (N, P), optional
        As in :func:`.clipped_fit.clipped_target`.
    """
    counted = a if present is None else a * present
    of_rows = np.bincount(row, a if simulated is None else counted, len(X)).astype(np.float64)
    size = np.bincount(row, minlength=len(X)).astype(np.float64)
    rows, sizes = (X, size) if simulated is None else (simulated, np.ones(len(simulated)))
    Q = whitening(rows, sizes)
    information = known_of(a, simulated) * _information(rows @ Q, sizes, rows @ reference)
    return ClippedCategories(X, reference, Q, row, category, counted, of_rows, B, information, PRIOR_SD)


def pseudo_categories(X: Floats, row: Codes, category: Codes, K: int, alpha: Floats, sd: float) -> ClippedCategories:
    """The log pseudo posterior of a file under privacy weights alpha (n,)."""
    Q = whitening(X, np.bincount(row, minlength=len(X)).astype(np.float64))
    even = np.zeros((X.shape[1], K))
    information = alpha.sum() / K * np.eye(Q.shape[1] * (K - 1))
    return ClippedCategories(X, even, Q, row, category, alpha, np.zeros(len(X)), np.inf, information, sd)


def _information(W: Floats, size: Floats, log_odds: Floats) -> Floats:
    """Of a record about psi, on average: that of w psi C' under log odds (rows, K)."""
    K, p = log_odds.shape[1], np.exp(log_softmax(log_odds, axis=1))
    C, share = contrasts_of(K), size / size.sum()
    of_row = np.einsum("gk,kc,kd->gcd", p, C, C) - np.einsum("gk,kc,gl,ld->gcd", p, C, p, C)
    whole = np.einsum("g,gr,gs,gcd->rcsd", share, W, W, of_row, optimize=True)
    return np.asarray(whole).reshape(W.shape[1] * (K - 1), -1)
