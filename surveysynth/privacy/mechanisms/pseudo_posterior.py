"""The pseudo posterior mechanism, which weights the contribution of each record to the log likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ...choices import Kind, MapName
from ...errors import InputError
from ..budget import Budget
from ..protected_fit import ProtectedFit, PseudoLikelihood
from ..risks.base import Risk
from ..risks.lipschitz import LipschitzRisk
from ..tuning import weighted_fit
from .base import MORE_LEFT, Assessment, InPlans, Neighbours, Say
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
class PseudoPosterior(PrivacyWeights):
    """The pseudo posterior mechanism: the likelihood of record i is raised to the power of a privacy weight alpha_i.

    Source: Hu, Savitsky & Williams 2022a, section 1.4.1; "Weighted" in Hu, Williams & Savitsky (2025).

    The guarantee is asymptotic, because the Lipschitz bound is computed on the file and is a maximum over draws.

    Parameters
    ----------
    map : {"inverse", "linear"}
        Map from risk to alpha; see :mod:`surveysynth.privacy.weight_maps`.
    c1 : float, optional
        Scale of the map; by default it is tuned to epsilon.
    c2 : float
        Shift of the map.
    epsilon : float, optional
        Budget of the release, either here or in ``synthesize``.
    risk : LipschitzRisk, CountRisk, MarginalRisk or PairwiseRisk
        Measure of a record's risk.  Under every measure the guarantee is about Lipschitz bounds.  "LW" of
        Hu, Savitsky & Williams (2020) is ``map="linear"``, and "CW" of the same paper is
        ``map="linear", risk=CountRisk(radius=0.2)``, with alpha_i = c1 (1 - IR_i) + c2 and the risk IR_i.

    Raises
    ------
    InputError
        The map is unknown, the risk is not a measure, c1 is not positive, or c2 is not between -1 and 1.

    Examples
    --------
    >>> ss.PseudoPosterior()
    PseudoPosterior(map='inverse', c1=None, c2=0.0, epsilon=None, risk=LipschitzRisk())
    >>> ss.PseudoPosterior("linear", c1=1.0, risk=ss.CountRisk(radius=0.2))
    PseudoPosterior(map='linear', c1=1.0, c2=0.0, epsilon=None, risk=CountRisk(radius=0.2, relative=True, floor=0.0))
    """

    map: MapName = "inverse"
    c1: float | None = None
    c2: float = 0.0
    epsilon: float | None = None
    risk: Risk = field(default_factory=LipschitzRisk)

    name: ClassVar[str] = "pseudo posterior"
    plan: ClassVar[Mapping[str, InPlans]] = {"pseudo-posterior": BY_MAP}
    in_r: ClassVar[str] = "pseudo_posterior"
    guarantees: ClassVar[Mapping[Kind, str]] = {"asymptotic": LOCAL}
    neighbours: ClassVar[Neighbours] = "add or remove"
    tunes_c1: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._check()

    @property
    def needs_epsilon(self) -> bool:
        """True if an epsilon is required, which is so if c1 was not given."""
        return self.c1 is None

    def with_c1(self, c1: float) -> PseudoPosterior:
        """Return the mechanism with c1 as scale of the privacy weights.  Raise InputError if c1 was given before."""
        if self.c1 is not None:
            raise InputError("c1 is given twice: to privacy_cost and to the mechanism")
        return replace(self, c1=c1)

    @property
    def more_left(self) -> str:  # type: ignore[override]  # depends on c1
        """Advice for a fit whose privacy weights keep too little information, such as to give a larger scale c1."""
        return MORE_LEFT if self.c1 is None else "Give a larger c1"

    @property
    def constants_given(self) -> bool:
        """True if the user gave the scale c1 of the privacy weights."""
        return self.c1 is not None

    @property
    def made(self) -> str:
        """Template of a phrase: "tuned for m = {}" or, if c1 was given, "made with a c1 that was given"."""
        return "tuned for m = {}" if self.c1 is None else "made with a c1 that was given"

    @property
    def corrects(self) -> bool:
        """True if draws can be corrected: privacy weights are computed from Lipschitz bounds by the inverse map."""
        return self.by_risk

    def fit(
        self, pseudo: PseudoLikelihood, budget: Budget, assessment: Assessment, *,
        tolerance: float, reweight: int, say: Say,
    ) -> ProtectedFit:  # fmt: skip
        """Fit with a given c1, or with c1 tuned to the budget: see :meth:`RecordMechanism.fit`."""
        risk = assessment.all_risks(unweighted_fit(pseudo, assessment, say))
        alpha = self.weigh(risk, pseudo.unit, assessment, budget.bound)
        say(WEIGHTED_FITS)
        if self.c1 is None:
            fitted = tuned(alpha, pseudo, budget.bound, tolerance)
        else:
            fitted, _ = weighted_fit(self.c1, alpha(self.c1), pseudo)
        return with_risk(reweighted(fitted, pseudo, reweight, tolerance=tolerance, say=say), risk)

    def check_debias(self) -> None:
        """Refuse a correction, unless privacy weights are computed from Lipschitz bounds by the inverse map."""
        if not self.by_risk:
            raise InputError(
                "debias needs privacy weights that follow from a record's risk and constants: use the inverse map of "
                "LipschitzRisk() risks. The linear map has the file's own least and largest risk among its constants, "
                "and a risk by counting looks at the other records"
            )
