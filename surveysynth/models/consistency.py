"""Fisher-consistent draws: undo what the privacy weights do to a normal regression, by its own rule.

The alpha-weighted estimator of theta = (B, Sigma) does not tend to the truth: alpha falls with a
record's risk f = |log p|, risk is high in the tails, so Sigma comes out too small (FBS), and
where the risk is not symmetric in the residual (FBP) B moves too.  If theta is the truth, the
estimator tends to

    lim(theta) = argmax_t  sum_x n_x E_theta[ alpha(f(Y, x)) log p(Y | x; t) ],

a weighted least-squares fit to the model's own distribution: B solves the normal equations with
weights alpha, Sigma is the weighted mean of residual cross products.  A corrected draw is the
theta whose limit is the draw,  lim(theta_corrected) = theta_draw.  For FBS and a risk at the true
theta this reads  kappa(Sigma) = E[alpha(D) D] / (dim E[alpha(D)]),  D ~ chi-squared_dim, and
Sigma_corrected kappa(Sigma_corrected) = Sigma_draw.

Risk is in fact a maximum over the S draws of the unweighted posterior, which is larger than
|log p| at the truth, and more so where few records stand behind a coefficient.  That posterior is
known under the model, too: Sigma_s ~ inverse-Wishart(n - K, (n - K) Sigma) and B_s ~ N(B, C0^-1,
Sigma_s), C0 = sum n_x x x'.  f is taken as the maximum over S draws from it, for a residual that
is sqrt(1 - h) of the true one: a record pulls its own fit by its leverage h.

Everything here is computed from released draws, the public predictors, their public cell sizes,
S, and the constants of the weight map: it is post-processing.  It takes the normal model at its
word.  Where residuals have heavier tails than the normal, the true records were weighted down
more than the model says, and the correction is too small; under skewness it is off in the mean.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, invwishart

from ..errors import ModelError, guarded
from . import gaussian
from .sufficient import sufficient_statistics

Floats = NDArray[np.float64]

RADII, ANGLES, DIRECTIONS = 24, 8, 64  # quadrature nodes
STEPS, CLOSE = 50, 1e-4  # fixed-point iteration: most steps, and the relative change at which it ends
WORST = 0.1  # a scale that shrinks below this share of itself is beyond repair
PATTERNS = 256  # of more predictor rows a sample is taken


def normal_nodes(dim: int) -> tuple[Floats, Floats]:
    """Nodes (Q, dim) and weights (Q,) with the first two moments of N(0, I) exactly, dense in the tails.

    Radii cut the distribution of the distance into rings, each represented by its mean square;
    directions are even.
    """
    edges = np.append(np.linspace(0, 3.5 + np.sqrt(dim), RADII), np.inf) ** 2
    mass = np.diff(chi2.cdf(edges, dim))
    radius = np.sqrt(dim * np.diff(chi2.cdf(edges, dim + 2)) / mass)
    if dim == 1:
        direction = np.array([[1.0], [-1.0]])
    elif dim == 2:
        angle = 2 * np.pi * (np.arange(ANGLES) + 0.5) / ANGLES
        direction = np.column_stack([np.cos(angle), np.sin(angle)])
    else:
        frames = np.random.default_rng(dim).standard_normal((-(-DIRECTIONS // (2 * dim)), dim, dim))
        half = np.linalg.qr(frames)[0].reshape(-1, dim)  # frames of orthogonal units: even, and of one length
        direction = np.vstack([half, -half])
    nodes = (radius[:, None, None] * direction).reshape(-1, dim)
    return nodes, np.repeat(mass, len(direction)) / len(direction)


def correct(
    B: Floats,
    L: Floats,
    X: Floats,
    size: Floats,
    alpha: Callable[[Floats], Floats],
    log_base: Callable[[Floats], Floats],
    draws: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Solve lim(theta) = (B, L L') for theta, draw by draw.

    Parameters
    ----------
    B, L : float arrays (m, K, D), (m, D, D)
        Released draws: coefficients and Cholesky factors of Sigma.
    X : float array (G, K)
        Distinct predictor rows.
    size : float array (G,)
        Records with each of them.
    alpha : function
        Privacy weights from risks: the weight map with its published constants.
    log_base : function
        Log of what a record density has beside the normal one, from working-scale values.
    draws : int
        S, the number of draws behind each record's risk.
    rng : numpy.random.Generator

    Returns
    -------
    B, L : float arrays
        Of the same shapes.

    Raises
    ------
    ModelError
        The weights shrink the model so far that no truth explains the draw.
    """
    G, K = X.shape
    if G > max(PATTERNS, 8 * K):
        some = rng.choice(G, max(PATTERNS, 8 * K), replace=False, p=size / size.sum())
        X, size = X[some], np.full(some.size, size.sum() / some.size)
    G, D = len(X), L.shape[1]
    R, *_ = sufficient_statistics(X, np.arange(G), np.zeros((G, D)), size).reduced()
    triangle = np.linalg.qr(R)[1]  # C0's own root: that of reduced() may turn with the order of the rows
    posterior_root = np.linalg.pinv(triangle * np.where(triangle.diagonal() < 0, -1, 1)[:, None])  # (K, rank)
    leverage = ((X @ posterior_root) ** 2).sum(axis=1)
    own = np.sqrt(np.maximum(1 - leverage, 0))[:, None, None]
    df = size.sum() - len(R)
    T = np.linalg.cholesky(invwishart.rvs(df, df * np.eye(D), size=draws, random_state=rng).reshape(draws, D, D))
    E = posterior_root @ rng.standard_normal((draws, len(R), D)) @ T.transpose(0, 2, 1)
    z, weight = normal_nodes(D)
    pattern = np.repeat(np.arange(len(X)), len(z))
    mass = np.outer(size, weight).ravel()

    def limit(B: Floats, L: Floats) -> tuple[Floats, Floats]:
        """B_lim - B, which is 0 where no record sees B, and Sigma_lim."""
        mean, e = (X @ B)[:, None], z @ L.T
        fit_by_itself = (mean + own * e).reshape(-1, D)
        f = gaussian.max_abs_log_density(fit_by_itself, pattern, X, B + E @ L.T, L @ T, log_base(fit_by_itself))
        residual = np.tile(e, (G, 1))
        fitted = sufficient_statistics(X, pattern, residual, alpha(f) * mass)
        if not fitted.A > 0:
            raise _beyond()
        R, Z0, S0 = fitted.reduced()
        return np.linalg.pinv(R) @ Z0, S0 / fitted.A

    # what the weights do: B_lim = B + shift, L_lim = L shrink; draws are alike, so each starts from the last
    shift, shrink = np.zeros((K, D)), np.asarray(np.eye(D), dtype=np.float64)
    corrected = []
    for B_draw, L_draw in zip(B, L, strict=True):
        for _ in range(STEPS):
            truth, root = B_draw - shift, L_draw @ np.linalg.inv(shrink)
            before = shift, shrink
            shift, Sigma_lim = limit(truth, root)
            inverse = np.linalg.inv(root)
            shrink = _root(inverse @ Sigma_lim @ inverse.T)
            moved = np.abs(X @ (shift - before[0])).max() / np.abs(root).max()
            change = moved + np.abs(shrink - before[1]).max()
            if change < CLOSE:
                break
            if not (np.isfinite(shrink).all() and shrink.diagonal().min() > WORST):
                raise _beyond()
        else:
            raise _beyond()
        corrected.append((B_draw - shift, L_draw @ np.linalg.inv(shrink)))
    B_corrected, L_corrected = zip(*corrected, strict=True)
    return np.array(B_corrected), np.array(L_corrected)


def _root(Sigma: Floats) -> Floats:
    return guarded(lambda: np.asarray(np.linalg.cholesky(Sigma)), np.linalg.LinAlgError, lambda kind: _beyond())


def _beyond() -> ModelError:
    return ModelError(
        "the privacy weights shrink the model so far that their effect cannot be undone: release without debias, ask "
        "for a larger epsilon, a smaller m, or use fewer predictors"
    )
