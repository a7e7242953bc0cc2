"""Fits under privacy weights: c1 tuned to a target bound, weights cut off or re-weighted, or contributions clamped.

***Tuning** finds the scale c1 at which the Lipschitz bound is just below its target.

A fit under the weights alpha(c1) gives each record's M_i = max_s |log p_i|.  Over the same draws
the bound at another c1' is max_i alpha_i(c1') M_i, so the c1' that meets the target is found
without a refit.  If it is near, the draws are carried over to alpha(c1') by the importance
weights prod_i p_i^(alpha_i' - alpha_i), which hardly vary; if it is far, the model is fitted there.

If effects of PSUs are integrated out, M_i depends slightly on the privacy weights of the PSU:
c1' is then found again with M_i at alpha(c1') until its own bound meets the target.

**Re-weighting** (Hu, Savitsky & Williams 2020, Algorithm 1) raises the weights of records whose bounds alpha_i M_i lie
below the overall one,

    alpha^w_i = clip(k alpha_i Delta / (alpha_i M_i), 0, 1) = min(1, k Delta / M_i),

with k such that the bound of the new fit is not above the first one.  So one step turns any weights into those of the
inverse map, with M_i of the weighted fit in place of f_i of the unweighted one; only weights of 0 stay.  The fixed
point is alpha_i = min(1, Delta / M_i) under the fit with these weights: every bound is Delta, or its record counts in
full.  It is reached only approximately, as M_i, a maximum over draws, differs from fit to fit.  Weights of units of
different sizes are evened after each step (:mod:`.units`), and their bounds stay below Delta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, PrivacyError
from .protected_fit import ProtectedFit, PseudoLikelihood, times

Floats = NDArray[np.float64]
FITS = 10  # two or three are usual
START = 0.95  # first k (Hu, Savitsky & Williams 2020, section 2.2)
CLOSER = 5  # searches of c1 over the draws of one fit, if its bounds change with c1
EFFICIENCY = 0.9  # least effective share of draws carried over without a refit


def weighted_fit(c1: float, alpha: Floats, pseudo: PseudoLikelihood) -> tuple[ProtectedFit, Floats]:
    """The fit under alpha with its bounds, and M_i = max over draws of |log p_i|."""
    posterior = pseudo.fit(alpha)
    M = pseudo.lipschitz(posterior, alpha)
    return ProtectedFit(c1, alpha, posterior, times(alpha, M)), M


def tune(
    alpha: Callable[[float], Floats],
    pseudo: PseudoLikelihood,
    target: float,
    *,
    start: float = 1.0,
    tolerance: float = 0.01,
) -> ProtectedFit:
    """Find a fit with target (1 - tolerance) <= Delta <= target, or else the best below the target.

    Delta is a maximum over draws and varies from fit to fit, especially with few records behind a
    coefficient.  If the search does not converge for that reason, the fit with the largest Delta below
    the target is taken.

    Parameters
    ----------
    alpha : function of c1
        Privacy weights (n,), or (U,) of units.  Those of records increase with c1; those of units, which are evened,
        may decrease in places.
    pseudo : PseudoLikelihood
    target : float
        epsilon / (2 m); never exceeded.
    start : float
        First c1.
    tolerance : float
        Largest relative distance of Delta below the target, unless every alpha is 1.

    Returns
    -------
    ProtectedFit

    Raises
    ------
    PrivacyError
        No fit is below the target, which is too low for this model and file.
    """
    c1, best = start, None
    for _ in range(FITS):
        here, M = weighted_fit(c1, alpha(c1), pseudo)
        if here.delta <= target and (best is None or here.delta > best.delta):
            best = here
        for _ in range(CLOSER if here.posterior.integrated else 1):
            c1 = _largest(alpha, M, target, tolerance, c1)
            moved = alpha(c1)
            weight = _importance(pseudo.log_ratio(here.alpha, moved, here.posterior))
            if not 1 / (weight @ weight) >= EFFICIENCY * weight.size:
                break
            posterior = replace(here.posterior, weight=weight)
            if posterior.integrated:
                M = pseudo.lipschitz(posterior, moved)
            done = ProtectedFit(c1, moved, posterior, times(moved, M))
            near = done.delta <= target and (done.delta >= target * (1 - tolerance) or (moved >= alpha(2 * c1)).all())
            if near or not posterior.integrated:
                return done
    if best is not None:
        return best
    raise PrivacyError(
        "no privacy weights were found that bring the Lipschitz bound down to epsilon / (2 m). Ask for a larger "
        "epsilon, a smaller m, or use fewer predictors"
    )


def truncated(c1: float, alpha: Floats, risk: Floats, pseudo: PseudoLikelihood, target: float) -> ProtectedFit:
    """Weighted-e: fit with alpha_i = 0 for records whose alpha_i f_i exceeds the target.

    Source: Hu, Williams & Savitsky 2025, section 2.2.

    f_i is the bound under the unweighted fit, which reproduces the counts of their Table 1; the bound under the
    weighted fit does not.  The bounds of the new fit can exceed the target, as in their section 4.2.

    Parameters
    ----------
    c1, alpha, pseudo
        As for :func:`weighted_fit`.
    risk : float array (n,)
        f_i.
    target : float
        epsilon / (2 m).

    Raises
    ------
    PrivacyError
        No record is left.
    """
    cut = times(alpha, risk) > target
    if not alpha[~cut].any():
        raise PrivacyError("every record exceeds epsilon / (2 m): ask for a larger epsilon or a smaller m")
    here, _ = weighted_fit(c1, np.where(cut, 0.0, alpha), pseudo)
    return replace(here, invocations=int(cut.sum()))


def reweight(first: ProtectedFit, pseudo: PseudoLikelihood, steps: int, *, tolerance: float = 0.01) -> ProtectedFit:
    """Raise the weights of records whose bounds lie below the overall one, step by step.

    Source: Hu, Savitsky & Williams 2020, Algorithm 1.

    Every step is a new fit, with its own draws and Delta: the M_i behind its weights come from earlier fits, and only
    one number, k, is found on its draws (:func:`tune`).  M_i, a maximum over draws, varies from fit to fit; later steps
    take its geometric mean over the fits since the first step.

    Parameters
    ----------
    first : ProtectedFit
        Its Delta is the guarantee: no later fit exceeds it.
    pseudo : PseudoLikelihood
    steps : int
        Largest number of steps; a step that does not raise the sum of the weights is the last.
    tolerance : float
        Largest relative distance of a later Delta below the first one, tau of the algorithm.

    Returns
    -------
    ProtectedFit
        ``first`` with its posterior if there is no gain.  The bound decides k, so that k may exceed 1; in the paper it
        is just below 1.
    """
    done, k = first, START
    logs: list[Floats] = []
    for step in range(1, steps + 1):
        kept = done.alpha > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            M = np.where(kept, done.bounds / done.alpha, np.inf)  # alpha is 0 for a record without a bound
            logs = [*(logs if step > 2 else []), np.log(M)]
            raised = first.delta * np.exp(-np.mean(logs, axis=0))

        def alpha(k: float, raised: Floats = raised) -> Floats:
            return pseudo.unit.even(np.minimum(k * raised, 1.0))

        try:
            moved = tune(alpha, pseudo, first.delta, start=k, tolerance=tolerance)
        except PrivacyError:
            break
        if moved.alpha.sum() <= done.alpha.sum():
            break
        k = moved.c1
        steps_so_far, invocations = first.steps + step, first.invocations
        done = replace(moved, c1=first.c1, k=k, steps=steps_so_far, invocations=invocations, risk=first.risk)
    return replace(done, asked=first.asked + steps)


def censored_fit(c1: float, alpha: Floats, pseudo: PseudoLikelihood, clamp: float) -> ProtectedFit:
    """A fit with every alpha_i log p_i clamped, and the number of clamped units."""
    posterior = pseudo.censored(alpha, clamp)
    bounds = times(alpha, pseudo.lipschitz(posterior, alpha))
    return ProtectedFit(c1, alpha, posterior, bounds, clamp, int((bounds >= clamp).sum()))


def first_guess(alpha: Callable[[float], Floats], pseudo: PseudoLikelihood, target: float) -> float:
    """First c1 from the model's pilot (FBS: exact draws under the flat prior), or 1, to save fits."""
    pilot = pseudo.model.pilot()
    if pilot is None:
        return 1.0
    try:
        return tune(alpha, replace(pseudo, model=pilot), target).c1
    except (ModelError, PrivacyError):  # too little data for the pilot
        return 1.0


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
