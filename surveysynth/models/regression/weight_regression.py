"""The regression of the log survey weight on K predictors, which include the outcome, for weights that are not public.

The prior is the constant ``PRIOR_WEIGHT``: coefficients ~ N(0, 100 sigma^2), sigma^2 ~ inverse gamma(0.5, 0.005).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from .sufficient_statistics import SufficientStatistics

Floats = NDArray[np.float64]

SHAPE, SCALE, WIDTH = 0.5, 0.005, 10.0  # constants of the prior
PRIOR_WEIGHT = (
    f"coefficients of the log weight ~ N(0, {WIDTH:g}^2 sigma^2), sigma^2 ~ inverse gamma({SHAPE:g}, {SCALE:g})"
)


def draw_weights(statistics: SufficientStatistics, size: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw parameters of the regression of the log survey weight from the posterior, ``size`` times.

    ``statistics`` are weighted by the privacy weights, and the log weight is their only outcome.  Returns the
    coefficients ``c`` (size, K) and the residual standard deviations ``sigma`` (size,).  The prior is conjugate, so the
    draws are exact.
    """
    P = statistics.P[:, 0]
    root = np.linalg.cholesky(statistics.C0 + np.eye(len(P)) / WIDTH**2)  # Cholesky factor of the precision * sigma^2
    half = solve_triangular(root, P, lower=True)
    rate = SCALE + (statistics.Q[0, 0] - half @ half) / 2
    sigma = np.sqrt(rate / rng.standard_gamma(SHAPE + statistics.A / 2, size))
    z = rng.standard_normal((len(P), size))
    c = solve_triangular(root, half[:, None] + sigma * z, lower=True, trans="T").T
    return {"c": np.ascontiguousarray(c), "sigma": sigma}


def weight_log_density(log_w: Floats, mean: Floats, sigma: Floats) -> Floats:
    """Compute the normal log densities (S, n) of n log survey weights in S draws.

    ``log_w`` (n,) are the log weights, ``mean`` (S, n) are their means, and ``sigma`` (S,) the standard deviations.
    """
    sigma = sigma[:, None]
    return -0.5 * ((log_w - mean) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
