"""Mechanisms with privacy weights alpha_i, which are computed from the records' risks by a map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...choices import MapName
from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...models.draws import Draws
from ...validation import is_finite, one_of, positive
from .. import tuning
from ..protected_fit import ProtectedFit, PseudoLikelihood
from ..risks.base import Risk, Span
from ..risks.lipschitz import LipschitzRisk
from ..units import Unit, even
from ..weight_maps import MAPS
from .base import LEAST_INFORMATION, Assessment, InPlans, RecordMechanism, Say

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

UNWEIGHTED_FIT, WEIGHTED_FITS, REWEIGHTED_FITS = (  # stages
    "unweighted fit: the records' risks", "fits under privacy weights", "re-weighted fits"
)  # fmt: skip
BY_MAP = InPlans(("map", "c1", "c2", "risk"))
LOCAL = (
    "Asymptotic differential privacy: 2 * Delta * m is at most epsilon, where Delta is the largest weighted absolute "
    "log density of any {unit} under any of the posterior draws that were examined (more draws can only raise it). The "
    "bound is local to this file; it becomes a differential privacy guarantee only as the number of {units} grows and "
    "the share of them whose privacy weight is below 1 vanishes, which at a fixed epsilon it need not. "
    "This is not a strict (epsilon, 0) guarantee at this sample size."
)

BY_GIVEN_CONSTANTS = (
    "the constants of that correction were given and not tuned on this file: it is post-processing of the drawn "
    "parameters"
)
NARROWED = (
    "privacy weights bear hardest on the tails, which narrows the fitted distribution: where it is skewed, as under a "
    "log transform or of counts, means are off, low or high as outcome and weight go together, and intervals of broad "
    "domains can cover less than they say"
)
DEBIASED = (
    "the released draws were corrected for the effect of {} on the model (Fisher-consistent draws): the correction "
    "takes the model at its word; it falls short where tails are heavier than the model's, and can add to the error of "
    "means where residuals are skewed otherwise"
)
WHETHER_ENOUGH = f"whether the privacy weights keep at least {LEAST_INFORMATION:.0%} of the file's information"


class PrivacyWeights(RecordMechanism):
    """A mechanism whose privacy weights alpha_i are computed from risks by a map, with scale c1 and shift c2."""

    map: MapName
    c1: float | None
    c2: float
    risk: Risk

    def stages(self, reweight: int) -> tuple[str, ...]:
        """Return the stages of a fit: the unweighted fit, weighted fits and, if requested, re-weighted fits.

        Some measures of risk need no unweighted fit; it is then listed but not made.
        """
        return (UNWEIGHTED_FIT, WEIGHTED_FITS, REWEIGHTED_FITS)[: 3 if reweight else 2]

    def bias_text(self, fitted: ProtectedFit, debias: bool) -> list[str]:
        """Return sentences on the bias from privacy weights or, with ``debias``, on the correction of this bias."""
        return [DEBIASED.format("the privacy weights") if debias else NARROWED]

    @property
    def refuses(self) -> list[str]:
        """The reason, for the report, why a release may be refused: privacy weights keep too little information."""
        return [WHETHER_ENOUGH]

    def depends(self) -> list[str]:
        """Return a phrase for the report: privacy weights were computed from the file, with c1 given or tuned."""
        tuned = " and their scale c1, tuned on this file" if self.c1 is None else "; their scale c1 was given"
        return [f"the privacy weights (map {self.map} of {self.risk.describe()}){tuned}"]

    def record_columns(self, fitted: ProtectedFit) -> dict[str, Floats]:
        """Return the risk, privacy weight and Lipschitz bound of each record or unit."""
        return {self.risk.name: fitted.risk, **super().record_columns(fitted)}

    def internal(self, fitted: ProtectedFit) -> dict[str, Any]:
        """Return numbers for the agency: constants of the map, results of re-weighting, the largest Lipschitz risk.

        The largest risk is None if the measure of risk is not the Lipschitz bound.
        """
        unweighted = float(fitted.risk.max()) if isinstance(self.risk, LipschitzRisk) else np.nan
        return {
            "delta_unweighted": unweighted if np.isfinite(unweighted) else None,  # JSON has only finite numbers
            "c1": fitted.c1, "c2": self.c2, "map": self.map,
            "weighted_down": fitted.weighted_down, "reweighting_steps": fitted.steps, "k": fitted.k,
            **super().internal(fitted),
        }  # fmt: skip

    def constants(self, fitted: ProtectedFit, target: float) -> dict[str, Any]:
        """Return the map and the shift c2 and, if c1 was given, the scale c1 and ``target``, for the manifest."""
        given = {"c1": fitted.c1, "target": target} if self.constants_given else {}
        return {"map": self.map, "c2": self.c2, **given}

    def risks(self, design: SurveyDesign, pseudo: PseudoLikelihood, unweighted: Callable[[], Draws]) -> Floats:
        """Compute the risk of each protected unit by the mechanism's measure of risk."""
        return self.risk.compute(design, pseudo.model, pseudo.records, pseudo.unit, unweighted, pseudo.sampler.rng)

    def alpha(self, f: Floats, c1: float, target: float, span: Span = None) -> Floats:
        """Return the privacy weights for risks ``f``, with scale c1 and a target for the overall Lipschitz bound.

        ``span`` has the smallest and the largest risk, if a policy sets these.
        """
        return MAPS[self.map](f, c1, self.c2, target, self.risk.span if span is None else span)

    def weigh(self, risk: Floats, unit: Unit, assessment: Assessment, target: float) -> Callable[[float], Floats]:
        """Return the function that computes the privacy weights of all units from the scale c1.

        ``risk`` has the risk of each unit, and ``target`` is epsilon / (2 m).  The weights are lowered so that small
        and large units have the same mean weight (:func:`even`).
        """
        return lambda c1: unit.even(self.alpha(risk, c1, target, assessment.span), assessment.present)

    def weigh_again(self, fitted: ProtectedFit, target: float) -> Callable[..., Floats]:
        """Return the function that computed the privacy weights of ``fitted`` from risks.

        For units of several records, the second argument of this function is the number of records of each unit.
        """

        def alpha(f: Floats, size: Codes | None = None) -> Floats:
            weights = self.alpha(f, fitted.c1, target)
            return weights if size is None else even(weights, size)

        return alpha

    def _check(self) -> None:
        lacking = [name for name in ("name", "span", "compute", "describe") if not hasattr(self.risk, name)]
        if isinstance(self.risk, type) or lacking:
            raise InputError(
                "risk must be a measure: surveysynth.LipschitzRisk(), CountRisk(radius=0.2), MarginalRisk(known=[...]) "
                "or PairwiseRisk(known=[...])"
            )
        one_of(self.map, MAPS, "map")
        if self.c1 is not None and not (is_finite(self.c1) and self.c1 > 0):
            raise InputError("c1 must be a positive number")
        if not (is_finite(self.c2) and abs(self.c2) <= 1):
            raise InputError("c2 must be a number between -1 and 1")

    def _check_fixed(self) -> None:
        if self.epsilon is not None:
            positive(self.epsilon, "epsilon")
        if self.c1 is None:
            raise InputError(f"{type(self).__name__} needs a c1: it is policy, and is not tuned")
        self._check()

    @property
    def by_risk(self) -> bool:
        """True if privacy weights follow from each unit's own Lipschitz bound, apart from constants and unit sizes."""
        return self.map != "linear" and type(self.risk) is LipschitzRisk


def reweighted(
    fitted: ProtectedFit, pseudo: PseudoLikelihood, steps: int, *, tolerance: float, say: Say
) -> ProtectedFit:
    """Re-weight a fit by at most the given number of steps (:func:`surveysynth.privacy.tuning.reweight`)."""
    if steps:
        say(REWEIGHTED_FITS)
    return tuning.reweight(fitted, pseudo, steps, tolerance=tolerance)


def tuned(alpha: Callable[[float], Floats], pseudo: PseudoLikelihood, target: float, tolerance: float) -> ProtectedFit:
    """Fit with the scale c1 tuned so that the overall Lipschitz bound is just below its target.

    ``alpha`` computes the privacy weights from c1.
    """
    start = tuning.first_guess(alpha, pseudo, target)
    return tuning.tune(alpha, pseudo, target, start=start, tolerance=tolerance)


def unweighted_fit(pseudo: PseudoLikelihood, assessment: Assessment, say: Say) -> Callable[[], Draws]:
    """Return a function that returns draws from the unweighted fit, without the units that are left out of every fit.

    The fit is made once, at the first call of the returned function.
    """
    done: list[Draws] = []

    def fitted() -> Draws:
        if not done:
            say(UNWEIGHTED_FIT)
            done.append(pseudo.fit(assessment.present))
        return done[0]

    return fitted


def with_risk(fitted: ProtectedFit, risk: Floats) -> ProtectedFit:
    """Store in a fit the risks from which its privacy weights were computed."""
    return replace(fitted, risk=risk)
