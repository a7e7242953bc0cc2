"""The alpha-weighted likelihood of counts given public predictors, and the normal approximation at its mode.

Alpha-weighted means that the log density of each record is multiplied by its privacy weight alpha.  In a negative
binomial distribution with mean mu and dispersion phi, a count v has the log probability

    rise(v) + v (log mu - r) - phi r - log v!,   r = log(1 + mu / phi),
    rise(v) = log Gamma(v + phi) - log Gamma(phi) - v log phi.

:mod:`surveysynth.models.counts` has the likelihood.  Letters in shapes are numbers: G of predictor rows (distinct rows
of the model matrix), K of columns of the model matrix, S of posterior draws, and V of distinct counts or points.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, lgamma, log, log1p
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal, qr
from scipy.optimize import minimize_scalar
from scipy.special import expit

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

LARGE = 20.0  # phi from which four terms of Stirling's series are exact to rounding
SMALL, POINTS = 16, 10  # counts below SMALL are not replaced; number of points that replace the counts of an octave
WIDE = 0.03  # prior precision in the search of the mode: without a prior, a cell with zero counts has no mode
FEW, UNKNOWN = 3.0, 0.6  # an uninformed row has a weighted sum of counts below FEW, and an sd of log mu above UNKNOWN
ALIKE = 0.9  # correlation of log mu of uninformed rows, above which the rows are treated as one
DISPERSIONS = (-45.0, 15.0)  # range in which the mode of log(1 / phi) is searched
ROUNDS, STEPS = 30, 100  # largest numbers of alternating steps, and of Newton steps


@nb.njit(cache=True, error_model="numpy")
def _stirling(x: float) -> float:
    """Compute, for large x, log Gamma(x) minus Stirling's approximation of it.

    The approximation is (x - 1/2) log x - x + log(2 pi) / 2.
    """
    w = 1 / (x * x)
    return (1 - w * (1 / 30 - w * (1 / 105 - w / 140))) / (12 * x)


@nb.njit(parallel=True, cache=True, error_model="numpy")
def rises(v: Floats, phi: Floats) -> Floats:
    """Compute log Gamma(v + phi) - log Gamma(phi) - v log phi for each count ``v`` and each dispersion ``phi``.

    The result is (V, S).  This is the term rise(v) of negative binomial log probabilities.  For infinite phi (Poisson),
    it is 0.
    """
    out = np.zeros((v.size, phi.size))
    phi_terms = np.empty((2, phi.size))
    for s in range(phi.size):
        phi_terms[0, s] = _stirling(phi[s]) if phi[s] >= LARGE else lgamma(phi[s])
        phi_terms[1, s] = log(phi[s])
    for k in nb.prange(v.size):
        for s in range(phi.size):
            x = v[k] + phi[s]
            if phi[s] < LARGE:
                out[k, s] = lgamma(x) - phi_terms[0, s] - v[k] * phi_terms[1, s]
            elif phi[s] < inf:
                out[k, s] = (x - 0.5) * log1p(v[k] / phi[s]) - v[k] + _stirling(x) - phi_terms[0, s]
    return out


@nb.njit(parallel=True, cache=True, error_model="numpy")
def slopes(eta: Floats, phi: Floats) -> tuple[Floats, Floats]:
    """Compute log mu - r and phi r, where r = log(1 + mu / phi), for each log mean ``eta`` = log mu.

    These are terms of negative binomial log probabilities, each (G, S).  ``eta`` is (G, S), and ``phi`` (S,) are the
    dispersions.  For infinite phi (Poisson), the terms are log mu and mu.
    """
    slope, spent = np.empty(eta.shape), np.empty(eta.shape)
    for g in nb.prange(eta.shape[0]):
        for s in range(eta.shape[1]):
            if phi[s] == inf:
                slope[g, s], spent[g, s] = eta[g, s], exp(eta[g, s])
            else:
                x = eta[g, s] - log(phi[s])
                r = max(x, 0.0) + log1p(exp(-abs(x)))
                slope[g, s], spent[g, s] = eta[g, s] - r, phi[s] * r
    return slope, spent


@nb.njit(parallel=True, cache=True, error_model="numpy")
def pair_log_densities(count: Codes, row: Codes, v: Floats, rise: Floats, slope: Floats, spent: Floats) -> Floats:
    """Compute the log probability of the count in every draw, for P combinations of predictors and count, called pairs.

    The result is (P, S).  Pair i has the count ``v[count[i]]`` and the predictor row ``row[i]``.  ``rise`` comes from
    :func:`rises`, minus log v!, and ``slope`` and ``spent`` are the two arrays from :func:`slopes`.
    """
    out = np.empty((count.size, rise.shape[1]))
    for i in nb.prange(count.size):
        value, k, g = v[count[i]], count[i], row[i]
        for s in range(rise.shape[1]):
            out[i, s] = rise[k, s] + value * slope[g, s] - spent[g, s]
    return out


@dataclass(frozen=True, repr=False)
class Likelihood:
    """The alpha-weighted negative binomial or Poisson likelihood of counts y, given by sums over records.

    ``X`` (G, K) are the predictor rows.  ``A`` and ``S`` (G,) are the sums of alpha and of alpha y over the records of
    each row.  The points ``v`` (V,) with weights ``weight`` (V,) represent the counts in the sum of alpha rise(y) over
    the records.  ``dispersed`` is False for a Poisson distribution, and then there are no points.
    """

    X: Floats
    A: Floats
    S: Floats
    v: Floats
    weight: Floats
    dispersed: bool

    def value(self, eta: Floats, log_a: float) -> float:
        """Compute the log likelihood, up to a constant, at log mu = ``eta`` (G,) and log(1 / phi) = ``log_a``."""
        phi = np.array([exp(-log_a) if self.dispersed else np.inf])
        slope, spent = slopes(eta[:, None], phi)
        return float((self.weight @ rises(self.v, phi))[0] + self.S @ slope[:, 0] - self.A @ spent[:, 0])

    def derivatives(self, eta: Floats, log_a: float) -> tuple[Floats, Floats]:
        """Differentiate the log likelihood with respect to the log means ``eta`` (G,), at log(1 / phi) = ``log_a``.

        Returns the first derivatives and the negative second derivatives, each (G,).
        """
        share = expit(-eta - log_a)  # phi / (mu + phi)
        mu = np.exp(eta)
        return (self.S - self.A * mu) * share, (self.S * (1 - share) + self.A * mu * share) * share


def sums(key: Codes, values: Floats, size: int) -> Floats:
    """Compute, for each key from 0 to ``size`` - 1, the sum of the ``values`` with this key.

    The sums are floats even if there are no values.
    """
    return np.bincount(key, values, size).astype(np.float64)


def points(count: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Replace n counts with weights by fewer points with weights, so that sums of smooth functions do not change.

    Returns two arrays of the same length: the points v_j and their weights a_j.  For a function f(v) that is analytic
    for v > 0, such as rise(v), sum_j a_j f(v_j) equals sum_i weight_i f(count_i) up to rounding.

    Counts below SMALL are not replaced.  Larger counts are divided into octaves (intervals from 2^k to 2^(k + 1)).  If
    an octave has more than POINTS distinct counts, the nodes of a Gauss quadrature replace them.  The nearest
    singularity, v = 0, is three half-widths from the centre of the octave.  Therefore the error of m nodes is of the
    order (3 + sqrt 8)^-2m, which is 5e-16 for m = POINTS = 10.
    """
    v, number = np.unique(count, return_inverse=True)
    weight = sums(number, weight, len(v))
    v, weight = v[weight > 0], weight[weight > 0]
    octave = np.where(v < SMALL, v, SMALL + np.frexp(v)[1])
    ends = np.flatnonzero(np.diff(octave)) + 1
    parts = [_gauss(*part) for part in zip(np.split(v, ends), np.split(weight, ends), strict=True)]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _gauss(v: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Replace weighted values by the nodes and weights of a Gauss quadrature (Lanczos algorithm).

    If there are no more than ``POINTS`` values, they are returned unchanged.
    """
    if v.size <= POINTS:
        return v, weight
    centre, half, total = (v[0] + v[-1]) / 2, (v[-1] - v[0]) / 2, weight.sum()
    x, q = (v - centre) / half, np.sqrt(weight / total)
    Q, diagonal, off_diagonal = np.empty((0, v.size)), [], []
    for _ in range(POINTS):
        Q = np.vstack([Q, q])
        diagonal.append(q @ (x * q))
        z = x * q
        for _ in range(2):  # orthogonalize twice, to rounding
            z -= Q.T @ (Q @ z)
        length = np.linalg.norm(z)
        if length < 1e-12:  # almost all of the weight is on fewer counts
            break
        off_diagonal.append(length)
        q = z / length
    points, vectors = eigh_tridiagonal(diagonal, off_diagonal[: len(diagonal) - 1])
    return centre + half * points, total * vectors[0] ** 2


# ---- the sampler's coordinates


def coordinates(likelihood: Likelihood) -> dict[str, Any]:
    """Compute the coordinates in which ``stan/counts.stan`` samples, from the normal approximation at the mode.

    Returns them as data for the Stan program, by name.
    """
    X = likelihood.X
    b, log_a = _mode(likelihood)
    slope, curvature = likelihood.derivatives(X @ b, log_a)
    C0 = X.T @ (curvature[:, None] * X)
    values, basis = np.linalg.eigh(C0)
    values, basis = np.maximum(values[::-1], 0), basis[:, ::-1]
    V = np.asarray(np.linalg.inv(C0 + WIDE * np.eye(len(b))), dtype=np.float64)
    error = np.sqrt(np.diag(V))
    unknown = error > 1  # 1 is the scale of the prior
    size = np.where(unknown, 1.0, np.hypot(b, error))
    spread = _spread(likelihood, X @ b, log_a)
    empty, A_empty = _empty_rows(likelihood, V, log_a + 3 * spread)
    return {
        "centre": b, "basis": basis, "lambda": values, "h": values * (basis.T @ b) + basis.T @ (X.T @ slope),
        "size": size, "ratio": np.where(unknown, 1.0, error / size), "Z": empty.size,
        "X_empty": X[empty], "log_A_empty": np.log(A_empty),
        "l_centre": max(log_a, DISPERSIONS[0]), "l_scale": spread,
    }  # fmt: skip


def _empty_rows(likelihood: Likelihood, V: Floats, log_a: float) -> tuple[Codes, Floats]:
    """Find combinations of predictors for which almost all counts are 0, so that the log mean log mu is uncertain.

    Rows whose log mu are highly correlated are represented by one of them.  Returns the positions of the representing
    rows, and for each the sum of alpha over the rows that it represents.  A row is returned only if its zero counts
    imply that mu is below phi, because above mu = phi the likelihood of zero counts falls slowly.  ``V`` (K, K) is the
    covariance of the coefficients, and ``log_a`` is log(1 / phi).
    """
    X = likelihood.X
    empty = np.flatnonzero((likelihood.S < FEW) & (likelihood.A > 0))
    empty = empty[np.einsum("gk,gk->g", X[empty] @ V, X[empty]) > UNKNOWN**2]
    if not empty.size:
        return empty, np.empty(0)
    scaled = X[empty] @ np.linalg.cholesky(V)
    R, order = qr(scaled.T, mode="r", pivoting=True)
    first = order[: int((np.abs(np.diag(R)) > UNKNOWN).sum())]
    scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
    A = likelihood.A[empty] @ (scaled @ scaled[first].T > ALIKE)
    below_phi = A > FEW * np.exp(log_a)
    return np.asarray(empty[first[below_phi]]), np.asarray(A[below_phi])


def _mode(likelihood: Likelihood) -> tuple[Floats, float]:
    """Find the mode of the coefficients b and of log(1 / phi), by maximizing over b and over phi in turn.

    Returns b and log(1 / phi), which is -infinity for a Poisson distribution.  Few turns are needed, as b and phi are
    nearly independent.
    """
    b = np.zeros(likelihood.X.shape[1])
    b[0] = np.log(likelihood.S.sum() / likelihood.A.sum())
    if not likelihood.dispersed:
        return _mode_b(likelihood, b, -np.inf), -np.inf
    log_a = 0.0
    for _ in range(ROUNDS):
        b, before = _mode_b(likelihood, b, log_a), log_a
        log_a = _mode_dispersion(likelihood, likelihood.X @ b)
        if abs(log_a - before) < 1e-3:
            break
    return b, log_a


def _mode_b(likelihood: Likelihood, b: Floats, log_a: float) -> Floats:
    X = likelihood.X

    def value(b: Floats) -> float:
        return likelihood.value(X @ b, log_a) - WIDE / 2 * float(b @ b)

    for _ in range(STEPS):
        slope, curvature = likelihood.derivatives(X @ b, log_a)
        gradient = X.T @ slope - WIDE * b
        go = np.linalg.solve(X.T @ (curvature[:, None] * X) + WIDE * np.eye(len(b)), gradient)
        if gradient @ go < 1e-6:
            break
        here = value(b)
        while not value(b + go) >= here - 1e-12 * abs(here) and np.abs(go).max() > 1e-12:
            go = go / 2
        b = b + go
    return b


def _log_dispersion(likelihood: Likelihood, eta: Floats, log_a: float) -> float:
    """Compute the posterior log density of log(1 / phi) at ``log_a``, given the log means ``eta``, up to a constant."""
    return likelihood.value(eta, log_a) - float(np.log1p((np.exp(log_a) / 5) ** 2)) + log_a


def _mode_dispersion(likelihood: Likelihood, eta: Floats) -> float:
    grid = np.linspace(*DISPERSIONS, 21)
    best = int(np.argmax([_log_dispersion(likelihood, eta, x) for x in grid]))
    around = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    found = minimize_scalar(
        lambda x: -_log_dispersion(likelihood, eta, x), bounds=around, method="bounded", options={"xatol": 1e-4}
    )
    return float(found.x)


def _spread(likelihood: Likelihood, eta: Floats, log_a: float) -> float:
    """Approximate the standard deviation of log(1 / phi) by the curvature at the mode.  Return 1 for Poisson."""
    spread = 1.0
    if likelihood.dispersed:
        for _ in range(6):
            ends = [_log_dispersion(likelihood, eta, log_a + sign * spread) for sign in (-1, 0, 1)]
            curvature = max((2 * ends[1] - ends[0] - ends[2]) / spread**2, 0.1)
            spread = curvature**-0.5
    return spread
