"""Tuning: the scale c1 at which the Lipschitz bound comes close below its target.

A fit under the weights alpha(c1) gives each record's M_i = max_s |log p_i|.  Over the same draws
the bound at another c1' is max_i alpha_i(c1') M_i, so the c1' that meets the target is found
without a refit.  If it is near, the draws are carried over to alpha(c1') by the importance
weights prod_i p_i^(alpha_i' - alpha_i), which hardly vary; if it is far, the model is fitted there.

Where effects of PSUs are integrated out, M_i depends on the privacy weights of the PSU, a little:
c1' is then found again with M_i at alpha(c1') until its own bound is the one that was looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import PrivacyError
from ..models.base import Posterior

Floats = NDArray[np.float64]
FITS = 10  # two or three are usual
CLOSER = 5  # times that c1 is looked for over the draws of one fit, where its bounds move with c1
EFFICIENCY = 0.9  # least effective share of draws that may be carried over without a refit


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class WeightedFit:
    """One fit under privacy weights, and the Lipschitz bounds that were checked on it.

    Attributes
    ----------
    c1 : float
    alpha : float array (n,)
    posterior : Posterior
    bounds : float array (n,)
        max over draws of alpha_i |log p_i|.
    """

    c1: float
    alpha: Floats
    posterior: Posterior
    bounds: Floats

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound, max_i of ``bounds`` (T 1.4.1 step 4)."""
        return float(self.bounds.max())


def weighted_fit(
    c1: float, alpha: Floats, fit: Callable[[Floats], Posterior], lipschitz: Callable[[Posterior, Floats], Floats]
) -> tuple[WeightedFit, Floats]:
    """Fit under alpha; the fit with its bounds, and M_i = max over draws of |log p_i|."""
    posterior = fit(alpha)
    M = lipschitz(posterior, alpha)
    return WeightedFit(c1, alpha, posterior, times(alpha, M)), M


def tune(
    alpha: Callable[[float], Floats],
    fit: Callable[[Floats], Posterior],
    lipschitz: Callable[[Posterior, Floats], Floats],
    log_ratio: Callable[[Floats, Floats, Posterior], Floats],
    target: float,
    *,
    start: float = 1.0,
    tolerance: float = 0.01,
) -> WeightedFit:
    """Find a fit with target (1 - tolerance) <= Delta <= target, or else the best below the target.

    Delta is a maximum over draws and moves from fit to fit, the more so the fewer records stand
    behind a coefficient.  Where the search does not settle for that reason, the fit whose own
    Delta came closest below the target is taken.

    Parameters
    ----------
    alpha : function of c1
        Privacy weights (n,), none of them falling in c1.
    fit, lipschitz, log_ratio : functions
        Of alpha, the fit; of a posterior and alpha, M_i (n,); of alpha before and after and a posterior,
        the log of the ratio of pseudo likelihoods (S,).
    target : float
        epsilon / (2 m); never exceeded.
    start : float
        First c1.
    tolerance : float
        How far below the target Delta may stay, as a share of it; more only where every alpha is 1.

    Returns
    -------
    WeightedFit

    Raises
    ------
    PrivacyError
        No fit stayed below the target: it is too low for this model and file.
    """
    c1, best = start, None
    for _ in range(FITS):
        here, M = weighted_fit(c1, alpha(c1), fit, lipschitz)
        if here.delta <= target and (best is None or here.delta > best.delta):
            best = here
        for _ in range(CLOSER if here.posterior.integrated else 1):
            c1 = _largest(alpha, M, target, tolerance, c1)
            moved = alpha(c1)
            weight = _importance(log_ratio(here.alpha, moved, here.posterior))
            if not 1 / (weight @ weight) >= EFFICIENCY * weight.size:
                break
            posterior = replace(here.posterior, weight=weight)
            if posterior.integrated:
                M = lipschitz(posterior, moved)
            done = WeightedFit(c1, moved, posterior, times(moved, M))
            near = done.delta <= target and (done.delta >= target * (1 - tolerance) or (moved >= alpha(2 * c1)).all())
            if near or not posterior.integrated:
                return done
    if best is not None:
        return best
    raise PrivacyError(
        "no privacy weights were found that bring the Lipschitz bound down to epsilon / (2 m). Ask for a larger "
        "epsilon, a smaller m, or use fewer predictors"
    )


def times(alpha: Floats, bounds: Floats) -> Floats:
    """alpha * bound; a record with alpha 0 contributes nothing, even if its bound is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(alpha > 0, alpha * bounds, 0.0)


def _largest(alpha: Callable[[float], Floats], M: Floats, target: float, tolerance: float, start: float) -> float:
    """A c1 with target (1 - tolerance) <= max_i alpha_i M_i <= target, by bisection on log c1."""

    def delta(c1: float) -> float:
        return float(times(alpha(c1), M).max())

    low = high = start
    while delta(low) > target:
        low /= 2
        if low < 1e-9:
            raise PrivacyError("even vanishing privacy weights exceed epsilon / (2 m); is c2 above 0?")
    while delta(high) <= target:
        if np.array_equal(alpha(high), alpha(2 * high)):  # every alpha is at its ceiling, and the bound still holds
            return high
        high *= 2
    while delta(low) < target * (1 - tolerance / 2) and high / low > 1 + 1e-12:
        middle = np.sqrt(low * high)
        low, high = (middle, high) if delta(middle) <= target else (low, middle)
    return float(low)


def _importance(log_ratio: Floats) -> Floats:
    weight = np.exp(log_ratio - log_ratio.max())
    return np.asarray(weight / weight.sum())
