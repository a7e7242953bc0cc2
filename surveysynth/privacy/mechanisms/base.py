"""Mechanisms: how records are protected while the model is fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...choices import Kind
from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...models.base import Synthesizer
from ...models.draws import Draws
from ..budget import Budget
from ..protected_fit import ProtectedFit, PseudoLikelihood
from ..risks.base import Span
from ..units import Unit

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Say = Callable[[str], None]
Neighbours = Literal["blank", "add or remove"]  # what epsilon is about, of one record or unit
LEAST_INFORMATION = 0.3  # mean privacy weight below which the agency must accept a release by name
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


@dataclass(frozen=True)
class InPlans:
    """A name that plans have for a mechanism.

    Attributes
    ----------
    entries : tuple of str
        Entries of [privacy] that are arguments of the mechanism.
    options : mapping of str to object
        Arguments that the name itself stands for.
    asks : tuple of str
        Entries of [privacy] that have to be given.
    """

    entries: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    asks: tuple[str, ...] = ()


class Mechanism:
    """A way to protect records.

    The class says everything that the rest of the package asks of a mechanism, so that nothing asks which one it is.
    A mechanism is a file in this folder and a line in ``MECHANISMS``.

    Attributes
    ----------
    name : str
        Its name in reports and manifests.
    plan : mapping of str to InPlans
        Its names in plans; none where a plan cannot ask for it.
    in_r : str
        The function of the R package.
    guarantees : mapping of str to str
        What it guarantees, by kind of guarantee, in sentences on ``{unit}`` and ``{units}``.
    neighbours : {"blank", "add or remove"}
        Whether epsilon is for a record's confidential values blanked, or for a record added or removed.
    fits_records : bool
        Whether a model is fitted to records under it; else records are counted.
    has_delta : bool
        Whether epsilon may hold up to a probability delta.
    """

    epsilon: float | None = None

    name: ClassVar[str]
    plan: ClassVar[Mapping[str, InPlans]] = {}
    in_r: ClassVar[str]
    guarantees: ClassVar[Mapping[Kind, str]]
    neighbours: ClassVar[Neighbours] = "blank"
    fits_records: ClassVar[bool] = False
    has_delta: ClassVar[bool] = False

    @property
    def kind(self) -> Kind:
        """The kind of its guarantee."""
        return next(iter(self.guarantees))

    @classmethod
    def guarantee(cls, kind: Kind, delta: float | None, replaced: float | None) -> str:
        """The sentences on a guarantee, given its delta and its epsilon for values that are replaced."""
        return cls.guarantees[kind]

    def with_c1(self, c1: float) -> Mechanism:
        """The mechanism with another scale of its privacy weights (InputError: it is given to the mechanism itself)."""
        kind = type(self).__name__
        raise InputError(f"c1 of a {kind} is given to it: {kind}(c1=...)")


class RecordMechanism(Mechanism, ABC):
    """A way to protect records while a model is fitted to them."""

    fits_records: ClassVar[bool] = True
    tunes_c1: ClassVar[bool] = False  # epsilon alone sets the scale of the privacy weights
    clamps: ClassVar[bool] = False  # contributions to the log likelihood are clamped: the bound holds for every draw
    posterior: ClassVar[str] = "pseudo"  # what draws are from, in a word
    more_left: ClassVar[str] = MORE_LEFT  # what to do where privacy weights leave too little of the file

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

    def risks(self, design: SurveyDesign, pseudo: PseudoLikelihood, unweighted: Callable[[], Draws]) -> Floats:
        """Risks (U,) of records or units, where it makes privacy weights of them."""
        raise NotImplementedError(f"{self.name} has no privacy weights")

    def weigh_again(self, fitted: ProtectedFit, target: float) -> Callable[..., Floats]:
        """The map of a fit as a function of risk, where it makes privacy weights by one."""
        raise NotImplementedError(f"{self.name} has no privacy weights")

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

    def constants(self, fitted: ProtectedFit, target: float) -> dict[str, Any]:
        """Public constants that a correction of the draws uses, for the manifest; ``target`` is epsilon / (2 m)."""
        return {}

    def record_columns(self, fitted: ProtectedFit) -> dict[str, Floats]:
        """What the agency may look at, of each record or unit: columns (U,)."""
        return {"alpha": fitted.alpha, "bound": fitted.bounds}

    def internal(self, fitted: ProtectedFit) -> dict[str, Any]:
        """Numbers for the agency alone."""
        return {"clamp": fitted.clamp, "invocations": fitted.invocations}

    @property
    def refuses(self) -> list[str]:
        """What of the file decides, besides the sampler's diagnostics, whether there is a release, for the report."""
        return []
