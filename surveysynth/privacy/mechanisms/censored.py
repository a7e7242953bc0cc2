"""The censored mechanism, which clamps the contribution of each record to the log likelihood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...choices import Kind, MapName
from ...errors import InputError, ModelError
from ...models.base import Boundable, Synthesizer
from ..budget import Budget
from ..protected_fit import ProtectedFit, PseudoLikelihood
from ..risks.base import Risk
from ..risks.lipschitz import LipschitzRisk
from ..tuning import censored_fit
from .base import Assessment, InPlans, Say
from .privacy_weights import (
    BY_GIVEN_CONSTANTS,
    BY_MAP,
    DEBIASED,
    UNWEIGHTED_FIT,
    PrivacyWeights,
    unweighted_fit,
    with_risk,
)

AT_ANY_SIZE = (
    "every {unit} changes the log likelihood by at most epsilon / (2 m) in either direction, whatever the parameters: "
    "contributions are clamped there. So m exact posterior draws, and what is computed from them and from public "
    "information, are epsilon-differentially private at any sample size, given that there is a release: epsilon holds "
    "for files that differ in whether one {unit}'s values take part, 2 epsilon for files that differ in these values. "
    "This assumes what is listed below, above all exact draws."
)
GIVEN_ALPHA = (
    f"Differential privacy given the privacy weights: {AT_ANY_SIZE} The privacy weights alpha, which come before the "
    "clamp, were computed from this very file, and what they reveal about a record is not covered. With weights "
    "from a policy set on a historical file, or without weights, the guarantee is strict."
)
CENSORED_FIT = "censored fit"  # a stage
WEIGHTED = "censored-weighted"  # name in plans for the mechanism with privacy weights, which policies use
CLAMPED = (
    "contributions to the log likelihood are clamped to plus or minus {:.6g} on the density's own scale, which takes "
    "most from the tails: the fitted distribution is narrower, so that means and intervals can be off"
)
MODES = (
    "whether the posterior under the clamp has modes apart from each other, as far as the model looks for them: such a "
    "file is refused"
)


@dataclass(frozen=True)
class Censored(PrivacyWeights):
    """The censored mechanism, which clamps what each record adds to the log likelihood.

    Source: Hu, Williams & Savitsky 2025, section 3.

    A record with privacy weight alpha_i and density p_i adds alpha_i log p_i, clamped to
    [-epsilon/(2m), epsilon/(2m)] for a release of m data sets.

    Epsilon is for files that differ in whether one record's confidential values are part of the fit.  Twice epsilon is
    for files that differ in these values.  The number of records is public.

    The clamp holds for all parameters, so the guarantee does not depend on the sample size:

    - ``weighted=False`` ("Censor_uw") sets alpha = 1, and the guarantee is ``strict``.  Only the clamp protects, and
      the clamp does not depend on the file.
    - ``weighted=True`` ("Censor_w") weights records down before their contributions are clamped, so fewer records reach
      the clamp.  With weights computed from this file the guarantee is ``strict given alpha``: the guarantee does not
      cover what the weights of other records reveal about a record.  With a :class:`surveysynth.Policy` from a
      historical file the guarantee is ``strict``.

    Parameters
    ----------
    epsilon : float, optional
        Budget of the whole release of m data sets, here or in ``synthesize``.
    weighted : bool
        True if records are weighted down before they are clamped.
    map, c1, c2, risk
        Map, constants and risk of the privacy weights, as for :class:`WeightedE`; not used with ``weighted=False``.

    Raises
    ------
    InputError
        See :class:`WeightedE`.  InputError is also raised if ``weighted`` is neither True nor False.

    Examples
    --------
    >>> ss.Censored(epsilon=8, weighted=True, c1=0.8).kind
    'strict given alpha'
    """

    epsilon: float | None = None
    weighted: bool = False
    map: MapName = "linear"
    c1: float = 1.0
    c2: float = 0.0
    risk: Risk = field(default_factory=LipschitzRisk)

    name: ClassVar[str] = "censored"
    plan: ClassVar[Mapping[str, InPlans]] = {
        "censored": InPlans(asks=("population_total",)),
        WEIGHTED: InPlans(BY_MAP.entries, {"weighted": True}, ("population_total",)),
    }
    in_r: ClassVar[str] = "censored"
    guarantees: ClassVar[Mapping[Kind, str]] = {
        "strict": f"Strict differential privacy: {AT_ANY_SIZE}", "strict given alpha": GIVEN_ALPHA,
    }  # fmt: skip
    clamps: ClassVar[bool] = True
    posterior: ClassVar[str] = "censored"

    def __post_init__(self) -> None:
        if not isinstance(self.weighted, bool):
            raise InputError("weighted must be True or False")
        self._check_fixed()

    @property
    def kind(self) -> Kind:
        """The kind of guarantee.  Privacy weights, if there are any, are assumed to be computed from this file."""
        return "strict given alpha" if self.weighted else "strict"

    def stages(self, reweight: int) -> tuple[str, ...]:
        """Return the stages of a fit: the unweighted fit, if there are privacy weights, and the censored fit."""
        return (UNWEIGHTED_FIT, CENSORED_FIT) if self.weighted else (CENSORED_FIT,)

    @property
    def weights_from_file(self) -> bool:
        """True if the mechanism has privacy weights, which then depend on the risks of the file's records."""
        return self.weighted

    @property
    def constants_given(self) -> bool:
        """True, because the clamp is given and not tuned on the file."""
        return True

    @property
    def clamp_alone(self) -> bool:
        """True if the clamp is the only protection, because every privacy weight is 1."""
        return not self.weighted

    def fit(
        self, pseudo: PseudoLikelihood, budget: Budget, assessment: Assessment, *,
        tolerance: float, reweight: int, say: Say,
    ) -> ProtectedFit:  # fmt: skip
        """Fit with every contribution clamped to epsilon / (2 m), without tuning: see :meth:`RecordMechanism.fit`."""
        assert isinstance(pseudo.model, Boundable)  # ensured by check_model
        pseudo.model.check_censored(pseudo.records)
        present = assessment.present
        risk, alpha = np.where(present > 0, np.nan, np.inf), present  # alpha = 1 for all risks
        if self.weighted:
            risk = assessment.all_risks(unweighted_fit(pseudo, assessment, say))
            alpha = self.weigh(risk, pseudo.unit, assessment, budget.bound)(self.c1)
        say(CENSORED_FIT)
        return with_risk(censored_fit(self.c1, alpha, pseudo, budget.bound), risk)

    def check_model(self, model: Synthesizer, unit: str | None) -> None:
        """Refuse a model that cannot be clamped (ModelError), and units of several records (InputError).

        Units are refused because the contribution of each record is clamped, not the sum over a unit.
        """
        if not isinstance(model, Boundable):
            raise ModelError(f"{model.name} is not fitted under the censored mechanism; use the pseudo posterior")
        if unit is not None:
            raise InputError(
                "the censored mechanism clamps record by record: unit= goes with the pseudo posterior only"
            )

    def check_reweight(self) -> None:
        """Refuse re-weighting (InputError), because the clamp is the bound of every record and cannot be raised."""
        raise InputError(
            "re-weighting raises Lipschitz bounds that lie below the overall one; under the censored mechanism the "
            "clamp is the bound of every record: use PseudoPosterior or WeightedE"
        )

    def check_rule(self) -> None:
        """Refuse a release rule (InputError): the rule selects data sets by the confidential file."""
        raise InputError(
            "a rule looks at the confidential file, and data sets that were let through by it are no longer strictly "
            "private: leave the rule out, or use the pseudo posterior. On a historical file, identification_risk tells "
            "what to expect"
        )

    def check_accepted(self, accepted: Sequence[str]) -> None:
        """Refuse to accept failed diagnostics (InputError), because the guarantee assumes exact posterior draws."""
        if accepted:
            raise InputError(
                "a strict release needs exact draws, and only chains that passed can replace them: leave "
                "accept_diagnostics out, and run more draws if need be"
            )

    def check_debias(self) -> None:
        """Refuse a correction if there are privacy weights: only the clamp can be corrected for (InputError)."""
        if self.weighted:
            super().check_debias()

    def bias_text(self, fitted: ProtectedFit, debias: bool) -> list[str]:
        """Return sentences for the report on the bias from the clamp or, with ``debias``, on the correction of bias."""
        return [DEBIASED.format("the clamp"), BY_GIVEN_CONSTANTS] if debias else [CLAMPED.format(fitted.clamp)]

    def constants(self, fitted: ProtectedFit, target: float) -> dict[str, Any]:
        """Return the clamp, for the manifest."""
        return {"clamp": fitted.clamp}

    @property
    def refuses(self) -> list[str]:
        """The reason, for the report, why a release may be refused: the posterior has several modes."""
        return [MODES]
