"""Fisher consistency: the equation of corrected draws of a normal regression, and its expected risks.

**The equation.**  The alpha-weighted estimator of theta does not tend to the truth.  If theta is the truth, it tends to

    lim(theta) = argmax_t  sum_x n_x E_theta[ alpha(f(Y, x)) log p(Y | x; t) ].

A corrected draw is the theta whose limit is the draw,  lim(theta_corrected) = theta_draw: indirect inference
(Gourieroux, Monfort & Renault 1993), with lim as the binding function.  :func:`fixed_point` corrects the draw by
the bias at the corrected draw, until it no longer changes.

**Risks.**  The risk f of a record is a maximum over the S draws of the unweighted posterior.  This maximum is larger
than |log p| at the truth, especially if few records inform a coefficient.  Under the model, the unweighted posterior
is known:

    Sigma_s ~ inverse-Wishart(n - K, (n - K) Sigma),   B_s ~ N(B, C0^-1, Sigma_s),   C0 = sum n_x x x'.

f is the maximum over S draws from this posterior, for a residual of sqrt(1 - h) times the true residual, where h is
the leverage of the record.

Everything is computed from drawn parameters, the public predictors, the public number of records in each predictor
row, S, and the constants of the weight map.  If these constants were given, the correction is post-processing; if c1
was tuned on the file, the correction is not covered by epsilon.  The correction assumes the normal model.  If residuals
have heavier tails than the normal, the records were weighted down more than the model implies, and the correction is
too small.  If residuals are skewed, corrected means are biased.
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

STEPS, CLOSE = 50, 1e-4  # fixed-point iteration: most steps, and the relative change at which it ends
WORST = 0.1  # least share to which a scale may shrink; below it there is no correction


@dataclass(frozen=True)
class Weighting:
    """The map from a record's density to its privacy weight.

    Attributes
    ----------
    alpha : function
        Privacy weights from risks: the weight map with its constants.  For units of several records, its second
        argument is the number of records of each unit.
    log_base : function
        Log of the ratio of the record density to the normal density, from working-scale values (n, D).
    draws : int
        S, the number of draws over which the risks are maxima.
    """

    alpha: Callable[..., Floats]
    log_base: Callable[[Floats], Floats]
    draws: int


@dataclass(frozen=True)
class Bias:
    """The bias by privacy weights, L_lim = L shrink.

    Attributes
    ----------
    shrink : float array (D, D)
        Lower triangular matrix; L shrink is the limit of L.
    """

    shrink: Floats

    def true_root(self, L: Floats) -> Floats:
        """Cholesky factor of the Sigma whose limit is L L'."""
        return np.asarray(L @ np.linalg.inv(self.shrink))

    @property
    def can_be_undone(self) -> bool:
        """Whether ``shrink`` is finite and leaves more than the share ``WORST`` of every scale."""
        return bool(np.isfinite(self.shrink).all() and self.shrink.diagonal().min(initial=np.inf) > WORST)


SomeBias = TypeVar("SomeBias", bound=Bias)


def fixed_point(step: Callable[[SomeBias], tuple[SomeBias, float]], start: SomeBias) -> SomeBias:
    """The fixed point of ``step``: the bias at the corrected draw equals the bias by which the draw is corrected.

    Parameters
    ----------
    step : function
        Maps a bias b to the bias at the draw corrected by b, and to the distance between the two biases.
    start : Bias

    Raises
    ------
    ModelError
        The weights shrink the model so far that no truth explains the draw.
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
    """Cholesky factors (draws, D, D) of posterior draws of Sigma, simulated for true Sigma = I."""
    if D == 0:
        return np.empty((draws, 0, 0))
    Sigma = invwishart.rvs(df, df * np.eye(D), size=draws, random_state=rng).reshape(draws, D, D)
    return np.asarray(np.linalg.cholesky(Sigma))


def posterior_root(R: Floats) -> Floats:
    """Root (columns, rank) of C0^-1, where C0 = R'R.  The root does not depend on the order of the predictor rows."""
    triangle = np.linalg.qr(R)[1]
    return np.asarray(np.linalg.pinv(triangle * np.where(triangle.diagonal() < 0, -1, 1)[:, None]))


def lower_root(Sigma: Floats) -> Floats:
    """Cholesky factor of a limit of Sigma.

    Raises
    ------
    ModelError
        Sigma is singular.
    """
    return guarded(lambda: np.asarray(np.linalg.cholesky(Sigma)), np.linalg.LinAlgError, lambda kind: irreversible())
