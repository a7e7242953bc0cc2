"""Fisher consistency: the equation behind corrected draws of a normal regression, and the risks that the model expects.

**The equation.**  The alpha-weighted estimator of theta does not tend to the truth.  If theta is the truth, it tends to

    lim(theta) = argmax_t  sum_x n_x E_theta[ alpha(f(Y, x)) log p(Y | x; t) ].

A corrected draw is the theta whose limit is the draw,  lim(theta_corrected) = theta_draw: indirect inference
(Gourieroux, Monfort & Renault 1993), with lim for the binding function.  :func:`fixed_point` corrects the draw for
what the weights do to the corrected draw, until that changes no more.

**Risks.**  The risk f of a record is in fact a maximum over the S draws of the unweighted posterior, which is larger
than |log p| at the truth, and more so where few records stand behind a coefficient.  That posterior is known under
the model, too:

    Sigma_s ~ inverse-Wishart(n - K, (n - K) Sigma),   B_s ~ N(B, C0^-1, Sigma_s),   C0 = sum n_x x x'.

f is taken as the maximum over S draws from it, for a residual that is sqrt(1 - h) of the true one: a record pulls its
own fit by its leverage h.

Everything is computed from drawn parameters, the public predictors, their public cell sizes, S, and the
constants of the weight map.  Where these were given it is post-processing; c1 that was tuned on the file
tells of it, and the correction is then not covered by epsilon.  It takes the normal model at its
word.  Where residuals have heavier tails than the normal, the true records were weighted down
more than the model says, and the correction is too small; under skewness it is off in the mean.
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
WORST = 0.1  # a scale that shrinks below this share of itself is beyond repair


@dataclass(frozen=True)
class Weighting:
    """How a record's privacy weight follows from its density.

    Attributes
    ----------
    alpha : function
        Privacy weights from risks: the weight map with its constants.  Those of units of several records, from their
        risks and their numbers of records.
    log_base : function
        Log of what a record density has beside the normal one, from working-scale values (n, D).
    draws : int
        S, the number of draws behind each record's risk.
    """

    alpha: Callable[..., Floats]
    log_base: Callable[[Floats], Floats]
    draws: int


@dataclass(frozen=True)
class Bias:
    """What the weights do to a draw: L_lim = L shrink.

    Attributes
    ----------
    shrink : float array (D, D)
        Lower triangular.
    """

    shrink: Floats

    def true_root(self, L: Floats) -> Floats:
        """Cholesky factor of the Sigma whose limit is L L'."""
        return np.asarray(L @ np.linalg.inv(self.shrink))

    @property
    def can_be_undone(self) -> bool:
        """No scale shrinks below ``WORST`` of itself."""
        return bool(np.isfinite(self.shrink).all() and self.shrink.diagonal().min(initial=np.inf) > WORST)


SomeBias = TypeVar("SomeBias", bound=Bias)


def fixed_point(step: Callable[[SomeBias], tuple[SomeBias, float]], start: SomeBias) -> SomeBias:
    """The bias of the truth that a bias leads to is that bias.

    Parameters
    ----------
    step : function
        From a bias, that of the draw without it, and how far the two are apart.
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
    """Cholesky factors of posterior draws of Sigma where it is 1: (draws, D, D)."""
    if D == 0:
        return np.empty((draws, 0, 0))
    Sigma = invwishart.rvs(df, df * np.eye(D), size=draws, random_state=rng).reshape(draws, D, D)
    return np.asarray(np.linalg.cholesky(Sigma))


def posterior_root(R: Floats) -> Floats:
    """Root (columns, rank) of C0^-1, C0 = R'R, the same whatever the order of the rows that R'R was made of."""
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
