"""Fits under privacy weights: tuning the scale c1 of the weights to a Lipschitz bound, re-weighting and clamping.

**Tuning** finds the scale c1 at which the Lipschitz bound is just below its target.

A fit under the weights alpha(c1) gives M_i = max_s |log p_i|, the maximum over the draws s of the absolute log density
of record i.  Over the same draws the overall Lipschitz bound Delta at another scale c1' is max_i alpha_i(c1') M_i, so
the c1' that meets the target is found without a refit.  If c1' is near c1, the importance weights
prod_i p_i^(alpha_i' - alpha_i), which then hardly vary, carry the draws over to alpha(c1').  If c1' is far from c1, the
model is fitted again at c1'.

If effects of PSUs are integrated out, M_i depends slightly on the privacy weights of the PSU.
Then M_i is computed at alpha(c1') and c1' is searched again, until the bound at c1' meets the target.

**Re-weighting** (Hu, Savitsky & Williams 2020, Algorithm 1) raises the weights of records whose bounds alpha_i M_i lie
below the overall bound,

    alpha^w_i = clip(k alpha_i Delta / (alpha_i M_i), 0, 1) = min(1, k Delta / M_i),

with k such that the bound of the new fit is not above the bound of the first fit.  So one step turns any weights into
weights of the inverse map, with M_i of the weighted fit in place of f_i of the unweighted fit.  Only weights of 0
do not change.  At the fixed point alpha_i = min(1, Delta / M_i) under the fit with these weights: a record either
has the bound Delta or has weight 1.  The fixed point is reached only approximately, because M_i is a maximum over
draws and differs from fit to fit.  If units have different sizes, weights are lowered after each step until small and
large units have the same mean weight (:mod:`.units`), so the bounds of these units remain below Delta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, PrivacyError
from .protected_fit import ProtectedFit, PseudoLikelihood, times

Floats = NDArray[np.float64]
FITS = 10  # largest number of fits; two or three are usual
START = 0.95  # first k (Hu, Savitsky & Williams 2020, section 2.2)
CLOSER = 5  # largest number of searches of c1 on the draws of one fit, if the fit's bounds M_i change with c1
EFFICIENCY = 0.9  # smallest effective share of the draws at which draws are carried over without a refit


def weighted_fit(c1: float, alpha: Floats, pseudo: PseudoLikelihood) -> tuple[ProtectedFit, Floats]:
    """Fit under given privacy weights alpha, and return the fit with the unweighted Lipschitz bound of each unit.

    The weights were computed with the scale c1.  The bound M_i of unit i is the maximum over the posterior draws of the
    absolute log density.
    """
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
    """Tune c1 so that the overall Lipschitz bound Delta of the fit is just below the target.

    Delta is a maximum over draws and varies from fit to fit, especially if few records determine a coefficient.  So
    the search may not converge.  The result is then the fit with the largest Delta among those that do not exceed the
    target.

    Parameters
    ----------
    alpha : function of c1
        Privacy weights of the protected units.  Weights of single records increase with c1.  Weights of groups of
        records are lowered so that small and large groups have the same mean weight (:mod:`.units`), so a weight may
        decrease when c1 increases.
    pseudo : PseudoLikelihood
    target : float
        epsilon / (2 m), which Delta never exceeds.
    start : float
        First c1.
    tolerance : float
        Largest permitted value of 1 - Delta / target, unless every alpha is as large as it can be.

    Returns
    -------
    ProtectedFit

    Raises
    ------
    PrivacyError
        No fit has a Delta up to the target: the target is too low for this model and file.
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
    """Fit with privacy weight 0 for every record whose weighted Lipschitz bound exceeds the target (Weighted-e).

    Source: Hu, Williams & Savitsky 2025, section 2.2.

    The weighted bound is alpha_i f_i, where f_i is the bound under the unweighted fit.  With these bounds the number of
    records of weight 0 agrees with the authors' Table 1; with bounds under the weighted fit it does not.  The bounds of
    the new fit can exceed the target, as in the authors' section 4.2.

    Parameters
    ----------
    c1, alpha, pseudo
        See :func:`weighted_fit`.
    risk : float array (n,)
        The bounds f_i.
    target : float
        epsilon / (2 m).

    Raises
    ------
    PrivacyError
        Every record would have weight 0.
    """
    cut = times(alpha, risk) > target
    if not alpha[~cut].any():
        raise PrivacyError("every record exceeds epsilon / (2 m): ask for a larger epsilon or a smaller m")
    here, _ = weighted_fit(c1, np.where(cut, 0.0, alpha), pseudo)
    return replace(here, invocations=int(cut.sum()))


def reweight(first: ProtectedFit, pseudo: PseudoLikelihood, steps: int, *, tolerance: float = 0.01) -> ProtectedFit:
    """Raise the privacy weights of records whose Lipschitz bounds lie below the overall bound, step by step.

    Source: Hu, Savitsky & Williams 2020, Algorithm 1.

    Every step is a new fit with its own draws and its own overall bound Delta.  Let M_i be the unweighted Lipschitz
    bound of unit i.  The weights of a step use the M_i of earlier fits; only one number, the factor k, is found on the
    draws of the step itself (:func:`tune`).  Steps 1 and 2 use the M_i of the fit before.  M_i is a maximum over draws
    and varies from fit to fit, so later steps use the geometric mean of M_i over the fits of all earlier steps, without
    ``first``.

    Parameters
    ----------
    first : ProtectedFit
        The fit whose Delta is the guarantee: no later fit has a larger Delta.
    pseudo : PseudoLikelihood
    steps : int
        Largest number of steps.  The search ends sooner if a step does not raise the sum of the weights.
    tolerance : float
        Largest permitted value of 1 - Delta / (Delta of ``first``), tau of the algorithm.

    Returns
    -------
    ProtectedFit
        The fit of the last step that raised the sum of the weights, or ``first`` if no step did.  ``asked`` of this
        fit counts the requested steps.  Here k is set by the bound and may exceed 1; in the paper k is just below 1.
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
    """Fit with the weighted log density of every record clamped to [-clamp, clamp].

    ``invocations`` of the result is the number of records that reach the clamp in at least one draw.
    """
    posterior = pseudo.censored(alpha, clamp)
    bounds = times(alpha, pseudo.lipschitz(posterior, alpha))
    return ProtectedFit(c1, alpha, posterior, bounds, clamp, int((bounds >= clamp).sum()))


def first_guess(alpha: Callable[[float], Floats], pseudo: PseudoLikelihood, target: float) -> float:
    """Return a first c1 for :func:`tune`: the c1 that is tuned on a simpler version of the model.

    The result is 1 if the model has no simpler version, or if that version cannot be fitted or tuned.
    """
    pilot = pseudo.model.pilot()
    if pilot is None:
        return 1.0
    try:
        return tune(alpha, replace(pseudo, model=pilot), target).c1
    except (ModelError, PrivacyError):  # too little data for the pilot
        return 1.0


def _largest(alpha: Callable[[float], Floats], M: Floats, target: float, tolerance: float, start: float) -> float:
    """Find a c1 at which the overall Lipschitz bound is at most the target and, if possible, just below the target.

    The overall bound is max_i alpha_i M_i, where M are the unweighted bounds.  Just below means at least
    target (1 - tolerance / 2).  If the bound is at most the target even under the largest possible privacy weights, the
    result is a c1 that gives these weights.
    """

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
