"""Fisher-consistent draws under censoring: a normal regression, corrected for what the clamp does to it.

The censored estimator of t = (B, Sigma) solves, where the truth is theta,

    E_theta[ 1(|log p(Y | x; t)| < M) d/dt log p(Y | x; t) ] = 0:

records at the clamp do not pull.  The clamp M = epsilon / (2 m) is policy, so for a draw t of a strict
release the theta that this equation has for its truth is post-processing of the draw.

In r = L^-1 (y - B'x), whose density under t is log p = h - |r|^2 / 2, h = -(D/2) log 2 pi - log|L|, the
records inside are those with 2(h - M) < |r|^2 < 2(h + M).  By symmetry B stays, and r ~ N(0, k I) with

    E[ k D / dim - 1 ; 2(h - M) < k D < 2(h + M) ] = 0,      D ~ chi-squared_dim.

**What the clamp costs.**  With P the probability of the ring, the mean of n records is estimated with variance
k^2 / (n P) in these units (the sandwich E[r r'; ring] / (d/dmu E[r; ring])^2, where the score equation makes
E[r r'; ring] = P I and the derivative is P / k), and k / n without a clamp.  A synthetic file of the draw has
residual variance 1, or k once it is corrected, so its own variances are short of k^2 / P, or of k / P.

FBP's density has the factor 1 / pi = exp(w~).  With a the row of L that belongs to w~, log p = h + mu_w +
|a|^2 / 2 - |r - a|^2 / 2: the ring lies around a, the population's mean, its radii differ from one x to the
next, and B moves, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2

from ...errors import ModelError, guarded
from ..densities.normal_density import log_height

Floats = NDArray[np.float64]

SMALLEST, WIDEST = 1e-3, 100.0  # variance of residuals over that of the draw: beyond, the draw does not tell of it
STEPS, CLOSE = 1000, 1e-6  # fixed-point iteration: most steps, and the change at which it ends
RADII, ANGLES = 48, 48  # quadrature nodes in a ring
FAR = 8.0  # standard deviations


def uncensored(L: Floats, bound: float) -> Floats:
    """Factors of the Sigma whose censored estimate tends to L L', where log p is the normal density: (m, D, D).

    Parameters
    ----------
    L : float array (m, D, D)
        Released draws.
    bound : float
        M, the clamp.

    Raises
    ------
    ModelError
        The clamp is so tight that a draw does not tell of Sigma.
    """
    return np.array([root * np.sqrt(_spread(root, bound)) for root in L])


def variance_factor(L: Floats, bound: float, *, corrected: bool) -> float:
    """How many times as variable means are as files from these draws (m, D, D) say, corrected or not.

    Raises
    ------
    ModelError
        As :func:`uncensored`.
    """
    factors = []
    for root in L:
        k, dim, h = _spread(root, bound), len(root), log_height(root)
        within = chi2.cdf(2 * (h + bound) / k, dim) - chi2.cdf(max(0.0, 2 * (h - bound)) / k, dim)
        factors.append(k / within if corrected else k**2 / within)
    return float(np.mean(factors))


def _spread(L: Floats, bound: float) -> float:
    """k: the variance of residuals over that of the draw."""
    dim, h = len(L), log_height(L)
    low, high = max(0.0, 2 * (h - bound)), 2 * (h + bound)

    def excess(log_k: float) -> float:
        """E[k D; within the ring] less dim: it rises in k."""
        k = np.exp(log_k)
        if low / k > dim:  # far out a difference of upper tails keeps its digits
            mass = [chi2.sf(low / k, d) - chi2.sf(high / k, d) for d in (dim, dim + 2)]
        else:
            mass = [chi2.cdf(high / k, d) - chi2.cdf(low / k, d) for d in (dim, dim + 2)]
        return float(k * dim * mass[1] / mass[0] - dim) if mass[0] > 0 else low - dim

    lowest, widest = np.log(SMALLEST), np.log(WIDEST)
    if high <= 0 or not excess(lowest) < 0 < excess(widest):
        raise _irreversible()
    return float(np.exp(brentq(excess, lowest, widest, xtol=1e-12)))


def uncensored_tilted(B: Floats, L: Floats, X: Floats, size: Floats, bound: float) -> tuple[Floats, Floats]:
    """(B, L) whose censored estimates tend to those of each draw, where log p is the normal density plus w~.

    Parameters
    ----------
    B, L : float arrays (m, K, 2), (m, 2, 2)
        Released draws for (y~, w~).
    X : float array (G, K)
        Distinct predictor rows.
    size : float array (G,)
        Records with each of them.
    bound : float
        M, the clamp.

    Raises
    ------
    ModelError
        The clamp is so tight that a draw does not tell of theta, or no theta explains it.
    """
    pairs = [_tilted(*draw, X, size, bound) for draw in zip(B, L, strict=True)]
    return np.array([B for B, _ in pairs]), np.array([L for _, L in pairs])


def _tilted(B: Floats, L: Floats, X: Floats, size: Floats, bound: float) -> tuple[Floats, Floats]:
    a = L[-1]
    h = log_height(L) + X @ B[:, -1] + a @ a / 2
    inside = h + bound > 0
    if not inside.any():
        raise _irreversible()
    X, size, h = X[inside], size[inside], h[inside]
    r, area = _rings(h, bound, a)
    shift, root = np.zeros(B.shape), np.asarray(np.eye(2))  # r ~ N(x shift, root root')
    for _ in range(STEPS):
        e = (r - (X @ shift)[:, None]) @ np.linalg.inv(root).T
        p = size[:, None] * area * np.exp(-0.5 * (e**2).sum(axis=2)) / np.abs(np.linalg.det(root))
        mass, first = p.sum(axis=1), np.einsum("gq,gqd->gd", p, r)
        move = np.linalg.pinv((X * mass[:, None]).T @ X) @ (X.T @ first)
        left = r - (X @ move)[:, None]
        S = np.einsum("gq,gqd,gqe->de", p, left, left) / mass.sum()
        inverse = np.linalg.inv(root)
        before, shift = root, shift - move
        root = np.asarray(np.linalg.inv(_factor(inverse @ S @ inverse.T)), dtype=np.float64)
        if not np.isfinite(root).all() or np.abs(root).max() ** 2 > WIDEST:
            raise _irreversible()
        if np.abs(X @ move).max() + np.abs(root - before).max() < CLOSE:
            return B + shift @ L.T, L @ root
    raise _irreversible()


def _factor(S: Floats) -> Floats:
    return guarded(lambda: np.asarray(np.linalg.cholesky(S)), np.linalg.LinAlgError, lambda kind: _irreversible())


def _rings(h: Floats, bound: float, a: Floats) -> tuple[Floats, Floats]:
    """Nodes (G, Q, 2) and areas (G, Q) of the rings 2(h - M) < |r - a|^2 < 2(h + M)."""
    farthest = FAR * 2 + np.linalg.norm(a)
    low = np.sqrt(np.maximum(2 * (h - bound), 0))
    high = np.minimum(np.sqrt(2 * (h + bound)), np.maximum(farthest, low + FAR))
    x, weight = np.polynomial.legendre.leggauss(RADII)
    radius = low[:, None] + (high - low)[:, None] * (1 + x) / 2
    angle = 2 * np.pi * (np.arange(ANGLES) + 0.5) / ANGLES
    direction = np.column_stack([np.cos(angle), np.sin(angle)])
    nodes = a + radius[:, :, None, None] * direction
    area = (high - low)[:, None] / 2 * weight * radius * (2 * np.pi / ANGLES) / (2 * np.pi)
    return nodes.reshape(len(h), -1, 2), np.repeat(area, ANGLES, axis=1)


def _irreversible() -> ModelError:
    return ModelError(
        "the clamp is so tight that its effect on the model cannot be undone: ask for a larger epsilon or a smaller m, "
        "or leave out debias=True"
    )
