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
LONGER = 4  # factor by which advice lengthens failed chains
MORE_LEFT = "Ask for a larger epsilon or a smaller m, use fewer predictors, try reweight=10"


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Assessment:
    """The source of the risks from which privacy weights are computed.

    Attributes
    ----------
    risks : function
        Returns risks (U,) of records or units.  The argument is a function that makes the unweighted fit; it is called
        only if the fit is needed.
    span : (float, float) or None
        The smallest and the largest risk, if a policy sets them.
    present : float array (U,)
        0 for units that every fit and the tuning leave out, otherwise 1.
    """

    risks: Callable[[Callable[[], Draws]], Floats]
    span: Span
    present: Floats

    def all_risks(self, unweighted: Callable[[], Draws]) -> Floats:
        """Risks (U,).  Units that are left out have an infinite risk, so that their weight is 0 under every map."""
        return np.where(self.present > 0, self.risks(unweighted), np.inf)


@dataclass(frozen=True)
class InPlans:
    """What a name of a mechanism means in plans.

    Attributes
    ----------
    entries : tuple of str
        Entries of [privacy] that are arguments of the mechanism.
    options : mapping of str to object
        Arguments of the mechanism that follow from the name.
    asks : tuple of str
        Entries of [privacy] that are required.
    """

    entries: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    asks: tuple[str, ...] = ()


class Mechanism:
    """A way to protect records.

    The class tells the rest of the package everything about a mechanism, so that no other code depends on the kind of
    mechanism.  A mechanism is a file in this folder and a line in ``MECHANISMS``.

    Attributes
    ----------
    name : str
        Name in reports and manifests.
    plan : mapping of str to InPlans
        Names of the mechanism in plans; empty if plans cannot use it.
    in_r : str
        Name of the function of the R package.
    guarantees : mapping of str to str
        For each kind of guarantee, sentences on the guarantee, with ``{unit}`` and ``{units}``.
    neighbours : {"blank", "add or remove"}
        Change that epsilon bounds: one record's confidential values are blanked, or one record is added or removed.
    fits_records : bool
        Whether the model is fitted to records.  Otherwise records are counted.
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
        """Sentences on a guarantee of some kind, given the guarantee's delta and its epsilon for replaced values."""
        return cls.guarantees.get(kind, next(iter(cls.guarantees.values())))

    def with_c1(self, c1: float) -> Mechanism:
        """The mechanism with the scale c1 of privacy weights (InputError if c1 can only be given when it is made)."""
        kind = type(self).__name__
        raise InputError(f"c1 of a {kind} is given to it: {kind}(c1=...)")


class RecordMechanism(Mechanism, ABC):
    """A way to protect records while a model is fitted to them."""

    fits_records: ClassVar[bool] = True
    tunes_c1: ClassVar[bool] = False  # whether epsilon alone sets the scale of the privacy weights
    clamps: ClassVar[bool] = False  # whether contributions to the log likelihood are clamped, which bounds every draw
    posterior: ClassVar[str] = "pseudo"  # kind of posterior, in a word
    more_left: ClassVar[str] = MORE_LEFT  # advice if privacy weights leave too little of the file

    @property
    def weights_from_file(self) -> bool:
        """Whether privacy weights depend on other records of the file."""
        return True

    @property
    def needs_epsilon(self) -> bool:
        """Whether an epsilon is required.  Given constants can replace it in some mechanisms."""
        return True

    @property
    def constants_given(self) -> bool:
        """Whether the constants for a correction of the draws were given, rather than tuned on the file."""
        return False

    @property
    def maximum_over_draws(self) -> bool:
        """Whether epsilon rests on a bound found on the posterior draws."""
        return not self.clamps

    @property
    def made(self) -> str:
        """A phrase for messages that says for which m the fit was made."""
        return "made for m = {}"

    @property
    def corrects(self) -> bool:
        """Whether alpha is a function of a record's risk and constants, as corrections of draws require."""
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
        """Fit the model under this mechanism, so that m of the draws spend no more than the budget.

        Parameters
        ----------
        pseudo : PseudoLikelihood
            The model, its records, the units that are protected, and the sampler.
        budget : Budget
        assessment : Assessment
        tolerance : float
            Largest relative distance of the epsilon that is reached below the requested epsilon.
        reweight : int
            Number of steps of re-weighting.
        say : function
            Called with the name of each stage, to report progress.

        Raises
        ------
        PrivacyError
            Epsilon cannot be reached.
        ModelError
            The model cannot be fitted to the file.
        EngineError
            The engine stopped.
        """

    def risks(self, design: SurveyDesign, pseudo: PseudoLikelihood, unweighted: Callable[[], Draws]) -> Floats:
        """Risks of records or units (U,).  Only mechanisms with privacy weights have risks."""
        raise NotImplementedError(f"{self.name} has no privacy weights")

    def weigh_again(self, fitted: ProtectedFit, target: float) -> Callable[..., Floats]:
        """The map of a fit, as a function from risks to privacy weights.  Only mechanisms with weights have a map."""
        raise NotImplementedError(f"{self.name} has no privacy weights")

    # ---- checks

    def check_model(self, model: Synthesizer, unit: str | None) -> None:
        """Refuse a model, or units of several records, that the mechanism does not support (InputError, ModelError)."""

    def check_units(self, unit: Unit) -> None:
        """Refuse units of several records for which the mechanism is inaccurate (InputError)."""

    def check_reweight(self) -> None:
        """Refuse re-weighting, if the mechanism does not support it (InputError)."""

    def check_rule(self) -> None:
        """Refuse release rules, which depend on the confidential file, if the mechanism forbids them (InputError)."""

    def advice(self, warmup: int, draws: int) -> str:
        """Advice for chains that did not agree, given their numbers of warm-up draws and draws."""
        return (
            f"Run longer chains, warmup={LONGER * warmup}, draws={LONGER * draws}, which take {LONGER} times as long; "
            "or simplify the model, with fewer predictors or merged levels"
        )

    def check_accepted(self, accepted: Sequence[str]) -> None:
        """Refuse names of failed diagnostics that the agency accepts, if the mechanism forbids it (InputError)."""

    def check_debias(self) -> None:
        """Refuse corrections, unless privacy weights are a function of a record's risk and constants (InputError)."""
        raise InputError(
            "debias corrects for the weights of PseudoPosterior() or the clamp of Censored(weighted=False) only"
        )

    # ---- report

    def bias_text(self, fitted: ProtectedFit, debias: bool) -> list[str]:
        """Sentences for the report: on the bias that protection causes or, with ``debias``, on its correction."""
        return []

    def depends(self) -> list[str]:
        """Sentences for the report on results that were computed from the file and that epsilon does not cover."""
        return []

    def constants(self, fitted: ProtectedFit, target: float) -> dict[str, Any]:
        """Public constants for a correction of the draws, for the manifest.  ``target`` is epsilon / (2 m)."""
        return {}

    def record_columns(self, fitted: ProtectedFit) -> dict[str, Floats]:
        """Columns (U,) about records or units, for the agency alone."""
        return {"alpha": fitted.alpha, "bound": fitted.bounds}

    def internal(self, fitted: ProtectedFit) -> dict[str, Any]:
        """Numbers about the fit, for the agency alone."""
        return {"clamp": fitted.clamp, "invocations": fitted.invocations}

    @property
    def refuses(self) -> list[str]:
        """For the report: reasons to refuse a release, apart from the sampler's diagnostics."""
        return []
