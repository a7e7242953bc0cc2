"""The interface of mechanisms, which protect records while the model is fitted."""

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
Neighbours = Literal["blank", "add or remove"]  # difference of one record or unit that epsilon bounds
LEAST_INFORMATION = 0.3  # mean privacy weight below which the agency must accept a release by name
LONGER = 4  # factor for the length of failed chains
MORE_LEFT = "Ask for a larger epsilon or a smaller m, use fewer predictors, try reweight=10"


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Assessment:
    """The source of the risks behind privacy weights.

    Attributes
    ----------
    risks : function
        It takes a function for the unweighted fit, called only if needed, and gives risks (U,) of records or units.
    span : (float, float) or None
        The least and the largest risk, if a policy sets them.
    present : float array (U,)
        1, or 0 for units left out of every fit and of tuning.
    """

    risks: Callable[[Callable[[], Draws]], Floats]
    span: Span
    present: Floats

    def all_risks(self, unweighted: Callable[[], Draws]) -> Floats:
        """Risks (U,); infinite for units left out, whose weight then is 0 under every map."""
        return np.where(self.present > 0, self.risks(unweighted), np.inf)


@dataclass(frozen=True)
class InPlans:
    """A name of a mechanism in plans.

    Attributes
    ----------
    entries : tuple of str
        Entries of [privacy] that are arguments of the mechanism.
    options : mapping of str to object
        Arguments implied by the name.
    asks : tuple of str
        Required entries of [privacy].
    """

    entries: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    asks: tuple[str, ...] = ()


class Mechanism:
    """A way to protect records.

    The class gives the rest of the package all facts on a mechanism, so that no other code depends on its kind.
    A mechanism is a file in this folder and a line in ``MECHANISMS``.

    Attributes
    ----------
    name : str
        Name in reports and manifests.
    plan : mapping of str to InPlans
        Names in plans; empty if plans do not have it.
    in_r : str
        Function of the R package.
    guarantees : mapping of str to str
        Sentences on the guarantee by its kind, with ``{unit}`` and ``{units}``.
    neighbours : {"blank", "add or remove"}
        Whether epsilon is for a record's confidential values blanked, or for a record added or removed.
    fits_records : bool
        Whether the model is fitted to records; else records are counted.
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
        """The kind of the guarantee."""
        return next(iter(self.guarantees))

    @classmethod
    def guarantee(cls, kind: Kind, delta: float | None, replaced: float | None) -> str:
        """Sentences on a guarantee, given its delta and its epsilon for replaced values."""
        return cls.guarantees[kind]

    def with_c1(self, c1: float) -> Mechanism:
        """The mechanism with another scale of its privacy weights (InputError if it takes none here)."""
        kind = type(self).__name__
        raise InputError(f"c1 of a {kind} is given to it: {kind}(c1=...)")


class RecordMechanism(Mechanism, ABC):
    """A way to protect records while a model is fitted to them."""

    fits_records: ClassVar[bool] = True
    tunes_c1: ClassVar[bool] = False  # epsilon alone sets the scale of the privacy weights
    clamps: ClassVar[bool] = False  # contributions to the log likelihood are clamped: the bound holds for every draw
    posterior: ClassVar[str] = "pseudo"  # kind of posterior, in a word
    more_left: ClassVar[str] = MORE_LEFT  # advice if privacy weights leave too little of the file

    @property
    def weights_from_file(self) -> bool:
        """Whether privacy weights depend on other records of the file."""
        return True

    @property
    def needs_epsilon(self) -> bool:
        """Whether an epsilon is required, which it is without given constants."""
        return True

    @property
    def constants_given(self) -> bool:
        """Whether the constants for a correction of the draws were given, not tuned on the file."""
        return False

    @property
    def maximum_over_draws(self) -> bool:
        """Whether epsilon rests on a bound found on the posterior draws."""
        return not self.clamps

    @property
    def made(self) -> str:
        """A phrase on the fit and its m, for a message."""
        return "made for m = {}"

    @property
    def corrects(self) -> bool:
        """Whether alpha follows from a record's risk and constants, as corrections of draws require."""
        return False

    @property
    def clamp_alone(self) -> bool:
        """Whether the clamp is the only protection, so that its effect on means is known."""
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
            Largest relative distance of the result below epsilon.
        reweight : int
            Number of steps of re-weighting.
        say : function
            It takes the name of each stage, for progress.

        Raises
        ------
        PrivacyError, ModelError, EngineError
            Epsilon cannot be reached; the file does not suit the model; the engine stopped.
        """

    def risks(self, design: SurveyDesign, pseudo: PseudoLikelihood, unweighted: Callable[[], Draws]) -> Floats:
        """Risks (U,) of records or units, for mechanisms with privacy weights."""
        raise NotImplementedError(f"{self.name} has no privacy weights")

    def weigh_again(self, fitted: ProtectedFit, target: float) -> Callable[..., Floats]:
        """The map of a fit as a function of risk, for mechanisms with privacy weights."""
        raise NotImplementedError(f"{self.name} has no privacy weights")

    # ---- checks

    def check_model(self, model: Synthesizer, unit: str | None) -> None:
        """Refuse a model, or units of several records, that the mechanism does not support (InputError, ModelError)."""

    def check_units(self, unit: Unit) -> None:
        """Refuse units of several records with which the mechanism is inaccurate (InputError)."""

    def check_reweight(self) -> None:
        """Refuse re-weighting (InputError)."""

    def check_rule(self) -> None:
        """Refuse rules that depend on the confidential file (InputError)."""

    def advice(self, warmup: int, draws: int) -> str:
        """Advice on chains of given lengths that did not agree."""
        return (
            f"Run longer chains, warmup={LONGER * warmup}, draws={LONGER * draws}, which take {LONGER} times as long; "
            "or simplify the model, with fewer predictors or merged levels"
        )

    def check_accepted(self, accepted: Sequence[str]) -> None:
        """Refuse failed diagnostics that were accepted (InputError)."""

    def check_debias(self) -> None:
        """Refuse corrections if privacy weights do not follow from the record and constants (InputError)."""
        raise InputError(
            "debias corrects for the weights of PseudoPosterior() or the clamp of Censored(weighted=False) only"
        )

    # ---- report

    def bias_text(self, fitted: ProtectedFit, debias: bool) -> list[str]:
        """Sentences on the bias by protection and its correction, for the report."""
        return []

    def depends(self) -> list[str]:
        """Results computed from the file that epsilon does not cover, for the report."""
        return []

    def constants(self, fitted: ProtectedFit, target: float) -> dict[str, Any]:
        """Public constants for a correction of the draws, for the manifest; ``target`` is epsilon / (2 m)."""
        return {}

    def record_columns(self, fitted: ProtectedFit) -> dict[str, Floats]:
        """Columns (U,) of records or units, for the agency alone."""
        return {"alpha": fitted.alpha, "bound": fitted.bounds}

    def internal(self, fitted: ProtectedFit) -> dict[str, Any]:
        """Numbers for the agency alone."""
        return {"clamp": fitted.clamp, "invocations": fitted.invocations}

    @property
    def refuses(self) -> list[str]:
        """Reasons to refuse a release besides the sampler's diagnostics, for the report."""
        return []
