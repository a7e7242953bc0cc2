"""Fisher-consistent draws of a censored normal regression: a correction for the bias that the clamp causes.

The clamp limits the log density of every record to [-M, M].  theta = (B, Sigma) are the coefficients and the residual
covariance of the outcomes Y given the predictors x.  If theta is the truth, the censored estimate tends to the t = (B,
Sigma) that solves

    E_theta[ 1(|log p(Y | x; t)| < M) d/dt log p(Y | x; t) ] = 0,

as clamped records do not contribute.  A corrected draw is the theta for which the released draw t solves this equation.
With m released draws, the clamp M = epsilon / (2 m) is public, so the correction is post-processing.

Let dim be the number of outcomes, including the log weight if it is modelled, Sigma = L L', and r = L^-1 (y - B'x).
Under t, log p = h - |r|^2 / 2 with h = -(dim / 2) log 2 pi - log|L|.  Therefore the records that are not clamped lie in
the ring 2(h - M) < |r|^2 < 2(h + M).  By symmetry B is unbiased.  Write E[X; event] for E[X 1(event)].  If theta is the
truth, r ~ N(0, k I) with the k that solves

    E[ k D / dim - 1; 2(h - M) < k D < 2(h + M) ] = 0,      D ~ chi-squared_dim.

**Variance.**  Let P be the true probability that r lies in the ring.  The mean of n records is estimated with variance
k^2 / (n P) with the clamp, and k / n without a clamp.  (The sandwich is E[r r'; ring] / (d/dmu E[r; ring])^2.  The
score equation makes E[r r'; ring] = P I, and the derivative is P / k.)  In units of the draw, a synthetic file has the
residual variance 1, or k after the correction.  Therefore the variances estimated from a synthetic file are too small
by the factor k^2 / P, or k / P after the correction.

**The model FBP** has a further factor in its density, 1 / pi = exp(w~), where pi is the inclusion probability and w~
the log weight.  Let a be the row of L for w~, and mu_w the mean of w~ given x.  Then log p =
h + mu_w + |a|^2 / 2 - |r - a|^2 / 2: the centre of the ring is a, the mean of r in the population, and the radii depend
on x.  Therefore the clamp biases B, too.

In shapes, m is the number of released draws, K of coefficients per outcome, and G of distinct predictor rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2

from ...errors import ModelError, guarded
from ..densities.normal_density import log_height

Floats = NDArray[np.float64]

SMALLEST, WIDEST = 1e-3, 100.0  # range of k, the ratio of the true residual variance to the variance in the draw
STEPS, CLOSE = 1000, 1e-6  # fixed-point iteration: largest number of steps, and the change at which it ends
RADII, ANGLES = 48, 48  # numbers of quadrature nodes in a ring
FAR = 8.0  # the quadrature covers so many standard deviations


def uncensored(L: Floats, bound: float) -> Floats:
    """Correct draws of the residual covariance Sigma for the bias that the clamp of normal log densities causes.

    Parameters
    ----------
    L : float array (m, dim, dim)
        Cholesky factors of Sigma in the m released draws.
    bound : float
        The clamp M: the log density of each record was limited to [-M, M].

    Returns
    -------
    float array (m, dim, dim)
        Cholesky factors of the corrected Sigma.  If a corrected Sigma is the truth, the censored estimate tends to the
        Sigma of the released draw.

    Raises
    ------
    ModelError
        The clamp is so tight that a draw does not identify Sigma.
    """
    return np.array([root * np.sqrt(_spread(root, bound)) for root in L])


def variance_factor(L: Floats, bound: float, *, corrected: bool) -> float:
    """Compute the true variance of a mean, divided by the variance that is estimated from synthetic files.

    ``L`` (m, dim, dim) are the Cholesky factors of Sigma in the m released draws, before any correction.  The files are
    made from these draws or, with ``corrected``, from the draws that :func:`uncensored` returns for them.  The clamp
    limited log densities to [-``bound``, ``bound``].  The result is the mean of the ratio over the m draws.

    Raises
    ------
    ModelError
        The clamp is so tight that a draw does not identify Sigma.
    """
    factors = []
    for root in L:
        k, dim, h = _spread(root, bound), len(root), log_height(root)
        within = chi2.cdf(2 * (h + bound) / k, dim) - chi2.cdf(max(0.0, 2 * (h - bound)) / k, dim)
        factors.append(k / within if corrected else k**2 / within)
    return float(np.mean(factors))


def _spread(L: Floats, bound: float) -> float:
    """Compute the ratio k of the true residual variance to the residual variance in a draw with Sigma = L L'."""
    dim, h = len(L), log_height(L)
    low, high = max(0.0, 2 * (h - bound)), 2 * (h + bound)

    def excess(log_k: float) -> float:
        """Compute the mean squared length of unclamped residuals, minus their dimension, at a given ratio of variances.

        With the ratio k = exp(``log_k``), this is E[k D | low < k D < high] - dim for a chi-squared D.  It increases
        in k, and is 0 at the true k.
        """
        k = np.exp(log_k)
        if low / k > dim:  # in the upper tail, differences of survival functions keep more digits
            mass = [chi2.sf(low / k, d) - chi2.sf(high / k, d) for d in (dim, dim + 2)]
        else:
            mass = [chi2.cdf(high / k, d) - chi2.cdf(low / k, d) for d in (dim, dim + 2)]
        return float(k * dim * mass[1] / mass[0] - dim) if mass[0] > 0 else low - dim

    lowest, widest = np.log(SMALLEST), np.log(WIDEST)
    if high <= 0 or not excess(lowest) < 0 < excess(widest):
        raise _irreversible()
    return float(np.exp(brentq(excess, lowest, widest, xtol=1e-12)))


def uncensored_tilted(B: Floats, L: Floats, X: Floats, size: Floats, bound: float) -> tuple[Floats, Floats]:
    """Correct draws of coefficients and residual covariances of the model FBP for the bias that the clamp causes.

    Parameters
    ----------
    B, L : float arrays (m, K, 2), (m, 2, 2)
        Released draws: coefficients, and Cholesky factors of Sigma, for the outcome and the log weight.
    X : float array (G, K)
        Distinct predictor rows.
    size : float array (G,)
        Number of records with each predictor row.
    bound : float
        The clamp M: the log density of each record (the normal log density plus the log weight) was limited to [-M, M].

    Returns
    -------
    B, L : float arrays (m, K, 2), (m, 2, 2)
        The corrected draws.  If a corrected draw is the truth, the censored estimate tends to the released draw.

    Raises
    ------
    ModelError
        The clamp is so tight that a draw does not identify B and Sigma, or no true B and Sigma lead to the draw.
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
        residual = r - (X @ move)[:, None]
        S = np.einsum("gq,gqd,gqe->de", p, residual, residual) / mass.sum()
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
    """Return quadrature nodes and weights for G rings, the regions of residuals whose log densities are not clamped.

    Ring g contains the points r with 2(h_g - M) < |r - a|^2 < 2(h_g + M), where M is ``bound``.  The weight of a node
    is the area that the node represents, divided by 2 pi.  The nodes are (G, Q, 2), and the weights (G, Q).
    """
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
