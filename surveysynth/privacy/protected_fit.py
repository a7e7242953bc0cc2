"""A model with records and privacy weights, and the fit that a mechanism makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..models.base import Boundable, Synthesizer
from ..models.draws import Draws, Sampler
from ..models.records import Records
from .units import Unit

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class PseudoLikelihood:
    """A model and its records, which are fitted under the privacy weights of the protected units.

    Source: Hu, Savitsky & Williams 2022a, eq. 1.

    Privacy weights and bounds belong to units (U,), which may be single records.
    """

    model: Synthesizer
    records: Records
    unit: Unit
    sampler: Sampler

    def fit(self, alpha: Floats) -> Draws:
        """Draws from the posterior under privacy weights of the units (U,)."""
        return self.model.fit(self.records, self.unit.spread(alpha), self.sampler)

    def censored(self, alpha: Floats, bound: float) -> Draws:
        """Draws under privacy weights, with contributions clamped to [-bound, bound].  Units are single records."""
        assert isinstance(self.model, Boundable)
        return self.model.censored(self.records, alpha, bound, self.sampler)

    def lipschitz(self, posterior: Draws, alpha: Floats) -> Floats:
        """Bounds M_i (U,): the maximum of |log p_i| over the draws."""
        return self.model.lipschitz(self.records, posterior, self.unit.by_record, self.unit.spread(alpha))

    def log_ratio(self, before: Floats, after: Floats, posterior: Draws) -> Floats:
        """Log pseudo likelihood under weights ``after`` minus log pseudo likelihood under ``before``, by draw (S,)."""
        return self.model.log_ratio(self.records, self.unit.spread(before), self.unit.spread(after), posterior)


@dataclass(frozen=True, repr=False)
class ProtectedFit:
    """The fit by a mechanism: draws under privacy weights, and the bounds found on these draws.

    Attributes
    ----------
    c1 : float
        Scale of the privacy weights.
    alpha : float array (U,)
        Privacy weights of records (units).
    posterior : Draws
    bounds : float array (U,)
        Maximum of alpha_i |log p_i| over the draws.
    clamp : float, optional
        Contributions are clamped to [-clamp, clamp].  ``bounds`` are computed before the clamp.
    invocations : int, optional
        Number of records (units) that were cut off (Weighted-e), or whose contribution is at the clamp in at
        least one draw (Censored), as in Table 1 of Hu, Williams & Savitsky (2025).
    k : float, optional
        k of the last step of re-weighting.  ``c1`` is still the scale of the first weights.
    steps, asked : int
        Number of steps of re-weighting that were taken, and number requested.
    cap : float, optional
        Overall bound that was declared, if it is neither the largest of ``bounds`` nor a clamp.
    risk : float array (U,)
        Risks behind the privacy weights; NaN if weights do not come from risks.
    """

    c1: float
    alpha: Floats
    posterior: Draws
    bounds: Floats
    clamp: float | None = None
    invocations: int | None = None
    k: float | None = None
    steps: int = 0
    asked: int = 0
    cap: float | None = None
    risk: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def weighted_down(self) -> float:
        """Share of records (units) with alpha_i < 1.  The asymptotic guarantee needs a share that vanishes with n."""
        return float((self.alpha < 1).mean())

    @property
    def flatness(self) -> float:
        """Smallest bound of the records with 0 < alpha_i < 1, over the largest bound; 1 without such records."""
        reduced = (self.alpha > 0) & (self.alpha < 1)
        return float(self.bounds[reduced].min() / self.bounds.max()) if reduced.any() else 1.0

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound: the declared cap, else the clamp, else the largest of ``bounds``.

        Source: Hu, Savitsky & Williams 2022a, section 1.4.1 step 4.
        """
        declared = self.clamp if self.cap is None else self.cap
        return float(self.bounds.max()) if declared is None else declared


def times(alpha: Floats, bounds: Floats) -> Floats:
    """Products alpha * bound; 0 where alpha is 0, even if the bound is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(alpha > 0, alpha * bounds, 0.0)
