"""Fisher consistency: the equation that corrected draws of a normal regression solve, and the risks in this equation.

**The equation.**  theta are the coefficients B and the residual covariance Sigma of outcomes Y given predictors x.  n_x
records have the predictors x, f is the risk of a record (the largest |log p| over posterior draws), and alpha(f) the
privacy weight.  If theta is the truth, the alpha-weighted estimator tends to the limit

    lim(theta) = argmax_t  sum_x n_x E_theta[ alpha(f(Y, x)) log p(Y | x; t) ].

A corrected draw is the theta whose limit is the draw,  lim(theta_corrected) = theta_draw.  This is indirect inference
(Gourieroux, Monfort & Renault 1993) with lim as the binding function.  :func:`fixed_point` corrects the draw by the
bias at the corrected draw, until the corrected draw no longer changes.

**Risks.**  The risk f of a record is the maximum over S draws of the unweighted posterior.  This maximum is larger
than |log p| at the truth, especially if few records inform a coefficient.  Under the model with n records and K
coefficients, the unweighted posterior is

    Sigma_s ~ inverse-Wishart(n - K, (n - K) Sigma),   B_s ~ N(B, C0^-1, Sigma_s),   C0 = sum n_x x x'.

f is computed with S draws from this posterior.  As a record pulls the fit towards itself, the residual is taken to be
sqrt(1 - h) times the true residual, where h is the leverage of the record.

The correction uses drawn parameters, the public predictors, the public numbers n_x, S, and the constants of the weight
map, the function that computes alpha from f.  If these constants were given, the correction is post-processing.  If its
constant c1 was tuned on the file, the correction is not covered by epsilon.  The correction assumes the normal model.
If residuals have heavier tails than the normal, the records were weighted down more than the model implies, and the
correction is too small.  If residuals are skewed, corrected means are biased.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import invwishart

from ...errors import guarded
from .patterns import irreversible

Floats = NDArray[np.float64]

STEPS, CLOSE = 50, 1e-4  # fixed-point iteration: largest number of steps, and the relative change at which it ends
WORST = 0.1  # no correction is made if a standard deviation shrinks to a smaller share of the true one


@dataclass(frozen=True)
class Weighting:
    """The functions and the number of posterior draws by which the privacy weights of records are computed.

    Attributes
    ----------
    alpha : function
        The weight map with its constants, which computes privacy weights from risks.  If units of privacy have several
        records, the second argument is the number of records of each unit.
    log_base : function
        Computes the term that a model adds to the normal log density of each record, from the outcomes and the log
        weight (n, D) on the working scale.  FBP adds the log weight, and FBS adds 0.
    draws : int
        S, the number of draws over which the risk is a maximum.
    """

    alpha: Callable[..., Floats]
    log_base: Callable[[Floats], Floats]
    draws: int


@dataclass(frozen=True)
class Bias:
    """The bias that privacy weights cause in the estimate of the residual covariance Sigma.

    Attributes
    ----------
    shrink : float array (D, D)
        Lower triangular matrix.  If L L' is the true Sigma, the alpha-weighted estimate of the Cholesky factor L tends
        to the product L shrink.
    """

    shrink: Floats

    def true_root(self, L: Floats) -> Floats:
        """Return the Cholesky factor of the true residual covariance whose alpha-weighted estimate tends to L L'."""
        return np.asarray(L @ np.linalg.inv(self.shrink))

    @property
    def can_be_undone(self) -> bool:
        """True if draws can be corrected for this bias: ``shrink`` is finite, with diagonal elements over ``WORST``."""
        return bool(np.isfinite(self.shrink).all() and self.shrink.diagonal().min(initial=np.inf) > WORST)


SomeBias = TypeVar("SomeBias", bound=Bias)


def fixed_point(step: Callable[[SomeBias], tuple[SomeBias, float]], start: SomeBias) -> SomeBias:
    """Find the bias of the estimates if the corrected draw is the truth.  Repeat ``step`` until the bias converges.

    Parameters
    ----------
    step : function
        Takes a bias b, corrects the draw by b, and computes the bias b' of estimates if the corrected draw is the
        truth.  Returns b' and the distance of b' from b.
    start : Bias
        The bias with which the iteration starts.

    Raises
    ------
    ModelError
        The privacy weights shrink the model so far that no correction exists.
    """
    bias = start
    for _ in range(STEPS):
        bias, change = step(bias)
        if change < CLOSE:
            return bias
        if not bias.can_be_undone:
            break
    raise irreversible()


def sigma_roots(df: float, D: int, draws: int, rng: np.random.Generator) -> Floats:
    """Simulate posterior draws of a residual covariance whose true value is I, and return the Cholesky factors.

    The factors are (draws, D, D).  The posterior is inverse-Wishart with ``df`` degrees of freedom.
    """
    if D == 0:
        return np.empty((draws, 0, 0))
    Sigma = invwishart.rvs(df, df * np.eye(D), size=draws, random_state=rng).reshape(draws, D, D)
    return np.asarray(np.linalg.cholesky(Sigma))


def posterior_root(R: Floats) -> Floats:
    """Return a root of the covariance (R'R)^-1 of regression coefficients.

    ``R`` is (rank, columns), and the root (columns, rank).  Draws of coefficients are made from standard normal numbers
    with this root.  It depends only on R'R, and so not on the order of the predictor rows.
    """
    triangle = np.linalg.qr(R)[1]
    return np.asarray(np.linalg.pinv(triangle * np.where(triangle.diagonal() < 0, -1, 1)[:, None]))


def lower_root(Sigma: Floats) -> Floats:
    """Return the lower Cholesky factor of Sigma.  Raises ModelError if Sigma is not positive definite."""
    return guarded(lambda: np.asarray(np.linalg.cholesky(Sigma)), np.linalg.LinAlgError, lambda kind: irreversible())
