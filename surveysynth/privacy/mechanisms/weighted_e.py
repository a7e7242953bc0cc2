"""The pseudo posterior in which records with too large a Lipschitz bound have weight 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ...choices import Kind, MapName
from ...errors import InputError
from ..budget import Budget
from ..protected_fit import ProtectedFit, PseudoLikelihood
from ..risks.base import Risk
from ..risks.lipschitz import LipschitzRisk
from ..tuning import truncated
from ..units import Unit
from .base import Assessment, InPlans, Neighbours, Say
from .privacy_weights import (
    BY_MAP,
    LOCAL,
    WEIGHTED_FITS,
    PrivacyWeights,
    reweighted,
    tuned,
    unweighted_fit,
    with_risk,
)


@dataclass(frozen=True)
class WeightedE(PrivacyWeights):
    """The pseudo posterior in which records with too large a Lipschitz bound have weight 0.

    Source: Hu, Williams & Savitsky 2025, section 2.2, "Weighted-e".

    The privacy weight alpha_i of record i is set to 0 if alpha_i f_i exceeds epsilon / (2 m), where f_i is the record's
    Lipschitz bound under the unweighted fit.  The model is fitted under the remaining weights.  In the paper some
    bounds of this fit may still exceed epsilon / (2 m).  Here, if a bound does, the remaining weights are multiplied by
    a common factor, which is tuned like c1 of :class:`PseudoPosterior`.  So epsilon is never exceeded.

    Parameters
    ----------
    epsilon : float, optional
        Budget of the whole release of m data sets, here or in ``synthesize``.
    map, c1, c2
        Map and constants of the weights before some are set to 0, as for :class:`PseudoPosterior`.  The paper has the
        linear map with c1 = 1, and c1 below 1 for "downscaling" (section 4.4).
    risk : LipschitzRisk, CountRisk, MarginalRisk or PairwiseRisk
        Measure of a record's risk, as for :class:`PseudoPosterior`.

    Raises
    ------
    InputError
        See :class:`PseudoPosterior`.  InputError is also raised if c1 is None, or epsilon is not a positive number.

    Examples
    --------
    >>> ss.WeightedE(epsilon=8).c1
    1.0
    """

    epsilon: float | None = None
    map: MapName = "linear"
    c1: float = 1.0
    c2: float = 0.0
    risk: Risk = field(default_factory=LipschitzRisk)

    name: ClassVar[str] = "weighted-e"
    plan: ClassVar[Mapping[str, InPlans]] = {"weighted-e": BY_MAP}
    in_r: ClassVar[str] = "weighted_e"
    guarantees: ClassVar[Mapping[Kind, str]] = {
        "asymptotic": f"{LOCAL} Records whose bound exceeded epsilon / (2 m) have weight 0."
    }
    neighbours: ClassVar[Neighbours] = "add or remove"

    def __post_init__(self) -> None:
        self._check_fixed()

    def fit(
        self, pseudo: PseudoLikelihood, budget: Budget, assessment: Assessment, *,
        tolerance: float, reweight: int, say: Say,
    ) -> ProtectedFit:  # fmt: skip
        """Fit with some weights set to 0, and lower the others if needed: see :meth:`RecordMechanism.fit`."""
        unweighted, target = unweighted_fit(pseudo, assessment, say), budget.bound
        risk = assessment.all_risks(unweighted)
        alpha = self.weigh(risk, pseudo.unit, assessment, target)(self.c1)
        say(WEIGHTED_FITS)
        bounds = pseudo.lipschitz(unweighted(), np.ones(len(alpha)))
        fitted = truncated(self.c1, alpha, np.where(assessment.present > 0, bounds, np.inf), pseudo, target)
        if fitted.delta > target:
            remaining = fitted.alpha
            scaled = tuned(lambda c: min(c, 1.0) * remaining, pseudo, target, tolerance)
            fitted = replace(scaled, invocations=fitted.invocations)
        return with_risk(reweighted(fitted, pseudo, reweight, tolerance=tolerance, say=say), risk)

    def check_units(self, unit: Unit) -> None:
        """Refuse units that have different numbers of records (InputError).

        Units with many records have large bounds and would get weight 0, so the fit would describe small units only.
        """
        if unit.differ:
            raise InputError(
                "Weighted-e leaves out units whose bound is too large, and these are the ones with many records: means "
                "that go with the size of units would be off. Use PseudoPosterior(), whose weights do not go with size"
            )

    def depends(self) -> list[str]:
        """Return phrases on what depends on the file: weights, which of them are 0, and the factor of the others."""
        cut = "which records have weight 0, as their bound exceeded epsilon / (2 m), and a factor of the others"
        return [*super().depends(), cut]
