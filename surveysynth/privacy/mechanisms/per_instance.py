"""The per-instance mechanism: how much each record of the file changes the pseudo posterior, on both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, ModelError, PrivacyError
from ...models.base import LeaveOneOut, Synthesizer
from ...models.normal.fbs import FBS
from ...validation import positive
from ..budget import Budget
from ..protected_fit import ProtectedFit, PseudoLikelihood, times
from ..report import Kind
from .base import Assessment, Mechanism, Say
from .strict import PARTS

Floats = NDArray[np.float64]

ROUNDS, BELOW = 100, 0.99  # rounds at most; a weight that is too large becomes so much of what it may be
WEIGHTED = (
    "privacy weights are {:g}, and smaller where a record would change the posterior by more than epsilon / m: far "
    "from the fit, and in cells with few records. Where these are many, means of skewed outcomes can be off"
)
WEIGHTS = (
    "which records have a privacy weight below {:g}, and these weights: from fits of this file, with each record and "
    "without it"
)
PAPERS = "the papers' bound 2 m Delta, which is printed rounded up to one digit"


@dataclass(frozen=True)
class PerInstance(Mechanism):
    """A per-instance bound of the pseudo posterior: how much any one record of this file changes what is drawn.

    With the privacy weights alpha held fixed, the posterior with record i over that without it is p_i^alpha_i / Z,
    p_i = p(y_i, w_i | x_i, theta).  On a set of theta of probability 1 - delta under both, with f_i = log p_i,

        |log ratio| <= max(alpha_i max f_i - log Z, log Z - alpha_i min f_i) <= alpha_i range f_i + log 1 / (1 - delta).

    alpha_i is alpha_0, or less where the bound in the middle would be more than epsilon / m under the very fit that is
    released.  Of m draws epsilon then holds up to probability 1 - (1 - delta)^m.

    It is local to this file, this model and these weights: no differential privacy over all files.  It is tighter than
    the bound of :class:`PseudoPosterior`, which is on |f_i| itself, so that few records are weighted down.

    Parameters
    ----------
    delta : float
        Probability, of each draw, up to which the bound holds.
    alpha_0 : float
        Privacy weight of records that the bound asks nothing of.
    epsilon : float, optional
        For the whole release of m data sets; may stand here instead of in ``synthesize``.

    Raises
    ------
    InputError
        A delta that is not between 0 and 0.1; an alpha_0 that is not between 0 and 1; an epsilon that is not positive.

    Notes
    -----
    The bound is this package's.  Its parts are known: per-instance differential privacy (Wang 2019), also of posterior
    draws, and the range of the exponential mechanism (Dong, Durfee & Rogers 2020).

    Examples
    --------
    >>> ss.PerInstance(delta=1e-6, epsilon=8)
    PerInstance(delta=1e-06, alpha_0=1.0, epsilon=8)
    """

    delta: float = 1e-5
    alpha_0: float = 1.0
    epsilon: float | None = None

    name: ClassVar[str] = "per-instance"
    kind: ClassVar[Kind] = "per-instance"
    more_left: ClassVar[str] = "Ask for a larger epsilon or a smaller m, use fewer predictors, or merge rare levels"

    def __post_init__(self) -> None:
        for name, most in (("delta", 0.1), ("alpha_0", 1.0)):
            object.__setattr__(self, name, positive(getattr(self, name), name))
            if getattr(self, name) > most:
                raise InputError(f"{name} must be above 0 and at most {most:g}")
        if self.epsilon is not None:
            positive(self.epsilon, "epsilon")

    @property
    def constants_given(self) -> bool:
        """delta and alpha_0 are given, and nothing is tuned."""
        return True

    @property
    def maximum_over_draws(self) -> bool:
        """Not: the bound is of the posteriors themselves."""
        return False

    def fit(
        self, pseudo: PseudoLikelihood, budget: Budget, assessment: Assessment, *,
        tolerance: float, reweight: int, say: Say,
    ) -> ProtectedFit:  # fmt: skip
        """Exact draws under weights that hold every record below epsilon / m: see :meth:`Mechanism.fit`."""
        say("the posterior with each record, and without it")
        alpha, losses = self._weigh(pseudo, 2 * budget.bound, assessment.present)
        say("draws")
        draws = pseudo.fit(alpha)
        bounds = times(alpha, pseudo.lipschitz(draws, alpha))
        return ProtectedFit(math.nan, alpha, draws, bounds, cap=budget.bound, risk=losses, parts=budget.parts)

    def _weigh(self, pseudo: PseudoLikelihood, most: float, present: Floats) -> tuple[Floats, Floats]:
        """Privacy weights (n,) under which no record's bound exceeds ``most``, and these bounds.

        Weights only fall from round to round, as smaller weights of others make bounds larger.
        """
        model = pseudo.model
        assert isinstance(model, LeaveOneOut)  # as check_model sees to
        alpha = self.alpha_0 * present
        for _ in range(ROUNDS):
            losses = model.log_ratio_bounds(pseudo.records, alpha, self.delta)
            exceeds = losses > most
            if not exceeds.any():
                return alpha, losses
            alpha = alpha * np.where(exceeds, BELOW * most / np.maximum(losses, most), 1.0)
        raise PrivacyError(
            "no privacy weights were found under which every record stays below epsilon / m, with it and without it: "
            "the smaller they are, the more hangs on single records. Ask for a larger epsilon or a smaller m, merge "
            "levels with few records, or use fewer predictors"
        )

    # ---- what it goes with

    def check_model(self, model: Synthesizer, unit: str | None) -> None:
        """Refuse what the posterior without a record is not known for (ModelError), and units (InputError)."""
        if not isinstance(model, LeaveOneOut):
            raise ModelError(
                f"PerInstance() needs the posterior without each record, which is not known of {model.name}: use "
                "FBS(..., prior='flat'), or say mechanism=PseudoPosterior()"
            )
        model.check_leave_one_out()
        if unit is not None:
            raise InputError(
                "PerInstance() bounds what single records change: leave unit= out, or say mechanism=PseudoPosterior() "
                "or Strict()"
            )

    def model_of(self, formula: str) -> Synthesizer:
        """FBS under the flat prior."""
        return FBS(formula, prior="flat")

    def check_reweight(self) -> None:
        """Refuse: no Lipschitz bound is to be raised (InputError)."""
        raise InputError(
            "re-weighting raises privacy weights whose bound on |log p| is below the largest, and PerInstance() has "
            "another bound: leave it out, or say mechanism=PseudoPosterior()"
        )

    def check_rule(self) -> None:
        """Refuse: the bound does not cover what a rule lets through (InputError)."""
        raise InputError(
            "a rule looks at the confidential file, and the bound of PerInstance() does not cover what it lets "
            "through: leave the rule out, or say mechanism=PseudoPosterior()"
        )

    def check_debias(self) -> None:
        """Refuse: privacy weights depend on all records (InputError)."""
        raise InputError(
            "debias corrects for privacy weights that follow from a record's risk, and those of PerInstance() depend "
            "on the whole file; nearly all are alpha_0: leave debias out"
        )

    # ---- what it says

    def failure(self, m: int) -> float:
        """Probability up to which epsilon holds for m data sets: 1 - (1 - delta)^m."""
        return -math.expm1(m * math.log1p(-self.delta))

    def papers_epsilon(self, fitted: ProtectedFit, m: int) -> float:
        """2 m Delta, rounded up to one digit: it is a number of this file."""
        exact = Decimal(Budget(None, m).spent(float(fitted.bounds.max())))
        return float(exact.quantize(Decimal(1).scaleb(exact.adjusted()), ROUND_CEILING))

    def said_of_bias(self, fitted: ProtectedFit, debias: bool) -> list[str]:
        """Which records are weighted down, for the report; not how many."""
        parts = "; ".join(f"{name} {epsilon:.3g}" for name, epsilon in fitted.parts)
        return [WEIGHTED.format(self.alpha_0), *([PARTS.format(parts)] if parts else [])]

    def depends(self) -> list[str]:
        """The privacy weights, and the papers' bound."""
        return [WEIGHTS.format(self.alpha_0), PAPERS]

    def of_records(self, fitted: ProtectedFit) -> dict[str, Floats]:
        """Bounds on log ratios, privacy weights and Lipschitz bounds."""
        return {"loss": fitted.risk, **super().of_records(fitted)}

    def internal(self, fitted: ProtectedFit) -> dict[str, Any]:
        """The largest loss and the share of records that are weighted down."""
        return {
            "largest_loss": float(fitted.risk.max()),
            "papers_delta": float(fitted.bounds.max()),
            "weighted_down": float((fitted.alpha < self.alpha_0).mean()),
            **super().internal(fitted),
        }
