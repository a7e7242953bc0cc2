"""The interface of mechanisms, which protect the records behind a release.

A release is m synthetic data sets with a total epsilon.  Where a model is fitted to records, each data set is simulated
from its own posterior draw, so the Lipschitz bound of a draw may be at most epsilon / (2 m).  A plan is a TOML file
with the arguments of a release.
"""

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
Neighbours = Literal["blank", "add or remove"]  # how one record or unit differs between neighbouring files
LEAST_INFORMATION = 0.3  # mean privacy weight below which the agency must accept a release by name
LONGER = 4  # factor by which advice lengthens failed chains
MORE_LEFT = "Ask for a larger epsilon or a smaller m, use fewer predictors, try reweight=10"


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Assessment:
    """The risks from which privacy weights are computed, and the units that are left out of every fit.

    Attributes
    ----------
    risks : function
        Returns the risks of the U protected units, which may be single records.  The argument of ``risks`` is a
        function without arguments that returns draws from the unweighted fit.  So measures of risk that need no fit
        make none.
    span : (float, float) or None
        The smallest and the largest risk, if a policy (:class:`surveysynth.Policy`) sets them.
    present : float array (U,)
        0 for units that are left out of every fit and of the tuning, otherwise 1.
    """

    risks: Callable[[Callable[[], Draws]], Floats]
    span: Span
    present: Floats

    def all_risks(self, unweighted: Callable[[], Draws]) -> Floats:
        """Return each unit's risk, which is infinite for units that are left out, so that their weight is 0."""
        return np.where(self.present > 0, self.risks(unweighted), np.inf)


@dataclass(frozen=True)
class InPlans:
    """The meaning of a mechanism's name in a plan.

    Attributes
    ----------
    entries : tuple of str
        Keys in the plan's section [privacy] that are arguments of the mechanism.
    options : mapping of str to object
        Arguments of the mechanism whose values follow from the name.
    asks : tuple of str
        Keys that the section [privacy] must have.
    """

    entries: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    asks: tuple[str, ...] = ()


class Mechanism:
    """A way to protect records.

    All other code uses mechanisms through this interface.  A new mechanism needs a file in this folder and an element
    in ``MECHANISMS``.

    Attributes
    ----------
    name : str
        Name in reports and manifests.
    plan : mapping of str to InPlans
        Names of the mechanism in plans; empty if plans cannot use it.
    in_r : str
        Name of the function of the R package.
    guarantees : mapping of str to str
        For each kind of guarantee, sentences on the guarantee.  Reports put the protected unit in the place of
        ``{unit}`` and ``{units}``.
    neighbours : {"blank", "add or remove"}
        Difference between neighbouring files: one record's confidential values are blanked, or one record is added or
        removed.
    fits_records : bool
        True if the model is fitted to records.  Otherwise records are counted.
    has_delta : bool
        True if epsilon may fail to hold with a probability delta.
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
        """The kind of guarantee: the first key of ``guarantees``."""
        return next(iter(self.guarantees))

    @classmethod
    def guarantee(cls, kind: Kind, delta: float | None, replaced: float | None) -> str:
        """Return the sentences on a guarantee of the given kind.

        ``delta`` is the probability with which epsilon may fail to hold, or None.  ``replaced`` is the epsilon for
        files that differ in the values of one record, or None if it is twice epsilon.
        """
        return cls.guarantees.get(kind, next(iter(cls.guarantees.values())))

    def with_c1(self, c1: float) -> Mechanism:
        """Return the mechanism with c1 as the scale of the privacy weights.

        By default InputError is raised, as most mechanisms take c1 only in their constructor.
        """
        kind = type(self).__name__
        raise InputError(f"c1 of a {kind} is given to it: {kind}(c1=...)")


class RecordMechanism(Mechanism, ABC):
    """A way to protect records while a model is fitted to them."""

    fits_records: ClassVar[bool] = True
    tunes_c1: ClassVar[bool] = False  # whether epsilon alone sets the scale of the privacy weights
    clamps: ClassVar[bool] = False  # whether contributions to the log likelihood are clamped, which bounds every draw
    posterior: ClassVar[str] = "pseudo"  # kind of posterior, in a word
    more_left: ClassVar[str] = MORE_LEFT  # advice if privacy weights keep too little information

    def stages(self, reweight: int) -> tuple[str, ...]:
        """Return the names of the stages that :meth:`fit` reports, in order, or an empty tuple if they are not known.

        ``reweight`` is the number of re-weighting steps.
        """
        return ()

    @property
    def weights_from_file(self) -> bool:
        """True if a record's privacy weight depends on other records of the file."""
        return True

    @property
    def needs_epsilon(self) -> bool:
        """True if an epsilon is required.  In some mechanisms given constants determine epsilon."""
        return True

    @property
    def constants_given(self) -> bool:
        """True if the user gave the constants, such as the scale of privacy weights; False if they were tuned."""
        return False

    @property
    def maximum_over_draws(self) -> bool:
        """True if epsilon is computed from the largest contribution of a record over the posterior draws."""
        return not self.clamps

    @property
    def made(self) -> str:
        """Template of a phrase for messages, "made for m = {}", where m is the number of data sets."""
        return "made for m = {}"

    @property
    def corrects(self) -> bool:
        """True if draws can be corrected for privacy weights.

        A record's privacy weight must then be a known function of the record's own risk.
        """
        return False

    @property
    def clamp_alone(self) -> bool:
        """True if the clamp is the only protection, so that the effect of protection on means is known."""
        return False

    @abstractmethod
    def fit(
        self, pseudo: PseudoLikelihood, budget: Budget, assessment: Assessment, *,
        tolerance: float, reweight: int, say: Say,
    ) -> ProtectedFit:  # fmt: skip
        """Fit the model so that m posterior draws spend no more epsilon than the budget allows.

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
        """Compute the risk of each protected unit.  Only mechanisms with privacy weights have risks."""
        raise NotImplementedError(f"{self.name} has no privacy weights")

    def weigh_again(self, fitted: ProtectedFit, target: float) -> Callable[..., Floats]:
        """Return the function that computed the privacy weights of ``fitted`` from risks.

        ``target`` is epsilon / (2 m).  Only mechanisms with privacy weights have such a function.
        """
        raise NotImplementedError(f"{self.name} has no privacy weights")

    # ---- checks

    def check_model(self, model: Synthesizer, unit: str | None) -> None:
        """Refuse a model, or a column of protected units, that the mechanism does not support.

        Raise InputError or ModelError.
        """

    def check_units(self, unit: Unit) -> None:
        """Refuse units of several records if the mechanism is inaccurate for them (InputError)."""

    def check_reweight(self) -> None:
        """Refuse re-weighting, if the mechanism does not support it (InputError)."""

    def check_rule(self) -> None:
        """Refuse release rules, which depend on the confidential file, if the mechanism forbids them (InputError)."""

    def advice(self, warmup: int, draws: int) -> str:
        """Return advice for Markov chains that failed the diagnostics, given the numbers of warm-up draws and draws."""
        return (
            f"Run longer chains, warmup={LONGER * warmup}, draws={LONGER * draws}, which take {LONGER} times as long; "
            "or simplify the model, with fewer predictors or merged levels"
        )

    def check_accepted(self, accepted: Sequence[str]) -> None:
        """Refuse to accept the failed diagnostics named in ``accepted``, if the mechanism forbids it (InputError)."""

    def check_debias(self) -> None:
        """Refuse corrections of the draws (InputError).  A mechanism that allows corrections overrides this method."""
        raise InputError(
            "debias corrects for the weights of PseudoPosterior() or the clamp of Censored(weighted=False) only"
        )

    # ---- report

    def bias_text(self, fitted: ProtectedFit, debias: bool) -> list[str]:
        """Return sentences for the report on bias from protection or, with ``debias``, on the correction of bias."""
        return []

    def depends(self) -> list[str]:
        """Return sentences for the report on results that depend on the file and are not covered by epsilon."""
        return []

    def constants(self, fitted: ProtectedFit, target: float) -> dict[str, Any]:
        """Return public constants of a correction of the draws, for the manifest.  ``target`` is epsilon / (2 m)."""
        return {}

    def record_columns(self, fitted: ProtectedFit) -> dict[str, Floats]:
        """Return the privacy weight and the Lipschitz bound of each record or unit, for the agency alone."""
        return {"alpha": fitted.alpha, "bound": fitted.bounds}

    def internal(self, fitted: ProtectedFit) -> dict[str, Any]:
        """Return numbers that describe the fit, such as the clamp, for the agency alone."""
        return {"clamp": fitted.clamp, "invocations": fitted.invocations}

    @property
    def refuses(self) -> list[str]:
        """Reasons, apart from the sampler's diagnostics, for which a release may be refused.  The report lists them."""
        return []
