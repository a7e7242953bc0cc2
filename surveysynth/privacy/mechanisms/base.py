"""Mechanisms: how records are protected while the model is fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...choices import MapName
from ...errors import InputError
from ...models.base import Synthesizer
from ...models.draws import Draws
from ...validation import one_of, positive
from .. import tuning
from ..budget import Budget
from ..protected_fit import ProtectedFit, PseudoLikelihood
from ..report import LEAST_INFORMATION, Kind
from ..risks.base import Risk, Span
from ..risks.lipschitz import LipschitzRisk
from ..units import Unit, even
from ..weight_maps import MAPS

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Say = Callable[[str], None]

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


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Assessment:
    """Where the risks of records come from, that privacy weights are made of.

    Attributes
    ----------
    risks : function
        From the unweighted fit, a function that is called only where it is needed, to risks (U,) of records or units.
    span : (float, float) or None
        The least and the largest risk, where a policy sets them.
    present : float array (U,)
        1, or 0 for what is left out of every fit, and of everything that is tuned.
    """

    risks: Callable[[Callable[[], Draws]], Floats]
    span: Span
    present: Floats

    def of(self, unweighted: Callable[[], Draws]) -> Floats:
        """Risks (U,); infinite, of which every map makes a weight of 0, for what is left out."""
        return np.where(self.present > 0, self.risks(unweighted), np.inf)


class Mechanism(ABC):
    """A way to protect records, by privacy weights alpha_i: a map of their risks, its scale c1 and its shift c2.

    What the rest of the package needs to know of a mechanism it asks here, never which one it is.
    """

    epsilon: float | None
    map: MapName
    c1: float | None
    c2: float
    risk: Risk

    name: ClassVar[str]
    clamps: ClassVar[bool] = False  # contributions to the log likelihood are clamped: the bound holds for every draw

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The guarantee with weights from the current file."""

    @property
    def weights_from_file(self) -> bool:
        """Whether privacy weights depend on other records of the file."""
        return True

    @property
    def needs_epsilon(self) -> bool:
        """Whether an epsilon has to be named: without constants that were given it does."""
        return True

    @property
    def constants_given(self) -> bool:
        """Whether what a correction of the draws uses was given, and not tuned on the file."""
        return False

    @property
    def made(self) -> str:
        """How a fit was made for its m, for a message."""
        return "made for m = {}"

    @property
    def corrects(self) -> bool:
        """Whether alpha follows from a record's risk and constants, so that draws can be corrected for it."""
        return False

    @property
    def clamp_alone(self) -> bool:
        """Whether the clamp is all that protects: what it does to means is then known."""
        return False

    @abstractmethod
    def fit(
        self, pseudo: PseudoLikelihood, budget: Budget, assessment: Assessment, *,
        tolerance: float, reweight: int, say: Say,
    ) -> ProtectedFit:  # fmt: skip
        """Draws of the model given its records, such that m of them spend no more than the budget.

        Parameters
        ----------
        pseudo : PseudoLikelihood
            The model, its records, the units that are protected, and the sampler.
        budget : Budget
        assessment : Assessment
        tolerance : float
            How far below epsilon the result may stay, as a share of it.
        reweight : int
            Steps of re-weighting.
        say : function
            Told what is going on, for a progress bar.

        Raises
        ------
        PrivacyError, ModelError, EngineError
            The epsilon cannot be reached; the file does not suit the model; the engine stopped.
        """

    # ---- what it goes with

    def check_model(self, model: Synthesizer, unit: str | None) -> None:
        """Refuse a model, or units of several records, that the mechanism does not have (InputError, ModelError)."""

    def check_units(self, unit: Unit) -> None:
        """Refuse units of several records that the mechanism is not accurate for (InputError)."""

    def check_reweight(self) -> None:
        """Refuse re-weighting (InputError)."""

    def check_rule(self) -> None:
        """Refuse rules that look at the confidential file (InputError)."""

    def check_accepted(self, accepted: Sequence[str]) -> None:
        """Refuse failed diagnostics that were accepted (InputError)."""

    def check_debias(self) -> None:
        """Refuse corrections where privacy weights do not follow from the record and constants (InputError)."""
        raise InputError(
            "debias corrects for the weights of PseudoPosterior() or the clamp of Censored(weighted=False) only"
        )

    # ---- what it says

    def said_of_bias(self, fitted: ProtectedFit, debias: bool) -> list[str]:
        """What protection does to the model, and what was corrected, for the report."""
        return [DEBIASED.format("the privacy weights") if debias else NARROWED]

    def depends(self) -> list[str]:
        """What else than privacy weights was computed from the file and is not covered by epsilon, for the report."""
        return []

    @property
    def refuses(self) -> str:
        """What of the file decides, besides the sampler's diagnostics, whether there is a release, for the report."""
        return WHETHER_ENOUGH

    # ---- privacy weights

    def alpha(self, f: Floats, c1: float, target: float, span: Span = None) -> Floats:
        """Privacy weights (n,) of records with Lipschitz bounds ``f``, for a target bound.

        ``span`` is the least and the largest risk, where a policy sets them.
        """
        return MAPS[self.map](f, c1, self.c2, target, self.risk.span if span is None else span)

    def weigh(self, risk: Floats, unit: Unit, assessment: Assessment, target: float) -> Callable[[float], Floats]:
        """Privacy weights (U,) as a function of c1, even over sizes of units."""
        return lambda c1: unit.even(self.alpha(risk, c1, target, assessment.span), assessment.present)

    def weigh_again(self, fitted: ProtectedFit, target: float) -> Callable[..., Floats]:
        """The map of a fit as a function of risk; of units of several records, of their numbers of records, too."""

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
        if self.c1 is not None and not (_is_number(self.c1) and self.c1 > 0):
            raise InputError("c1 must be a positive number")
        if not (_is_number(self.c2) and abs(self.c2) <= 1):
            raise InputError("c2 must be a number between -1 and 1")

    def _check_fixed(self) -> None:
        if self.epsilon is not None:
            positive(self.epsilon, "epsilon")
        if self.c1 is None:
            raise InputError(f"{type(self).__name__} needs a c1: it is policy, and is not tuned")
        self._check()

    @property
    def by_risk(self) -> bool:
        """Whether alpha is a function of the Lipschitz bound, c1, c2 and the target; of units, of their sizes, too."""
        return self.map != "linear" and type(self.risk) is LipschitzRisk


def reweighted(
    fitted: ProtectedFit, pseudo: PseudoLikelihood, steps: int, *, tolerance: float, say: Say
) -> ProtectedFit:
    """The fit with weights raised where bounds lie below the overall one, if any steps were asked for."""
    if steps:
        say("re-weighted fits")
    return tuning.reweight(fitted, pseudo, steps, tolerance=tolerance)


def tuned(alpha: Callable[[float], Floats], pseudo: PseudoLikelihood, target: float, tolerance: float) -> ProtectedFit:
    """The fit whose c1 was tuned to a target bound."""
    start = tuning.first_guess(alpha, pseudo, target)
    return tuning.tune(alpha, pseudo, target, start=start, tolerance=tolerance)


def unweighted_fit(pseudo: PseudoLikelihood, assessment: Assessment, say: Say) -> Callable[[], Draws]:
    """The fit under alpha = 1, made when it is first asked for, and once."""
    done: list[Draws] = []

    def fitted() -> Draws:
        if not done:
            say("unweighted fit: the records' risks")
            done.append(pseudo.fit(assessment.present))
        return done[0]

    return fitted


def with_risk(fitted: ProtectedFit, risk: Floats) -> ProtectedFit:
    """The fit with the risks that its weights were made of."""
    return replace(fitted, risk=risk)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))
