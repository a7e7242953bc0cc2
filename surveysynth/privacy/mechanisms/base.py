"""Mechanisms: how records are protected while the model is fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...models.base import Synthesizer
from ...models.draws import Draws
from ..budget import Budget
from ..protected_fit import ProtectedFit, PseudoLikelihood
from ..report import Kind
from ..risks.base import Span
from ..units import Unit

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Say = Callable[[str], None]
LONGER = 4  # times as long, where chains failed
MORE_LEFT = "Ask for a larger epsilon or a smaller m, use fewer predictors, try reweight=10"


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
    """A way to protect records while the model is fitted.

    What the rest of the package needs to know of a mechanism it asks here, never which one it is.
    """

    epsilon: float | None

    name: ClassVar[str]
    clamps: ClassVar[bool] = False  # contributions to the log likelihood are clamped: the bound holds for every draw
    posterior: ClassVar[str] = "pseudo"  # what draws are from, in a word
    more_left: ClassVar[str] = MORE_LEFT  # what to do where privacy weights leave too little of the file

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
    def maximum_over_draws(self) -> bool:
        """Whether epsilon is of a bound that was found on the posterior draws."""
        return not self.clamps

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

    def advice(self, warmup: int, draws: int) -> str:
        """What to do about chains of these lengths that did not agree."""
        return (
            f"Run longer chains, warmup={LONGER * warmup}, draws={LONGER * draws}, which take {LONGER} times as long; "
            "or simplify the model, with fewer predictors or merged levels"
        )

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
        return []

    def depends(self) -> list[str]:
        """What it computed from the file that is not covered by epsilon, for the report."""
        return []

    def of_records(self, fitted: ProtectedFit) -> dict[str, Floats]:
        """What the agency may look at, of each record or unit: columns (U,)."""
        return {"alpha": fitted.alpha, "bound": fitted.bounds}

    def internal(self, fitted: ProtectedFit) -> dict[str, Any]:
        """Numbers for the agency alone."""
        return {"clamp": fitted.clamp, "invocations": fitted.invocations}

    @property
    def refuses(self) -> list[str]:
        """What of the file decides, besides the sampler's diagnostics, whether there is a release, for the report."""
        return []
