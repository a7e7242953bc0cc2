"""The fit that a mechanism protects: a model and its records under privacy weights, and the result."""

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
    """A model and its file, to be fitted under privacy weights of the units that are protected.

    Source: Hu, Savitsky & Williams 2022a, eq. 1.

    Privacy weights and bounds are those of units (U,): of records, where these are protected one by one.
    """

    model: Synthesizer
    records: Records
    unit: Unit
    sampler: Sampler

    def fit(self, alpha: Floats) -> Draws:
        """Draws under privacy weights."""
        return self.model.fit(self.records, self.unit.spread(alpha), self.sampler)

    def censored(self, alpha: Floats, bound: float) -> Draws:
        """Draws where, besides, contributions are clamped to [-bound, bound]; units are single records."""
        assert isinstance(self.model, Boundable)
        return self.model.censored(self.records, alpha, bound, self.sampler)

    def lipschitz(self, posterior: Draws, alpha: Floats) -> Floats:
        """M_i = max over draws of |log p_i| (U,)."""
        return self.model.lipschitz(self.records, posterior, self.unit.by_record, self.unit.spread(alpha))

    def log_ratio(self, before: Floats, after: Floats, posterior: Draws) -> Floats:
        """Log pseudo likelihood under weights ``after`` less that under ``before``: (S,)."""
        return self.model.log_ratio(self.records, self.unit.spread(before), self.unit.spread(after), posterior)


@dataclass(frozen=True, repr=False)
class ProtectedFit:
    """What a mechanism makes of a file: draws under privacy weights, and the bounds that were checked on them.

    Attributes
    ----------
    c1 : float
    alpha : float array (n,)
    posterior : Draws
    bounds : float array (n,)
        max over draws of alpha_i |log p_i|.
    clamp : float, optional
        Where contributions are clamped, to [-clamp, clamp]; ``bounds`` are those before the clamp.
    invocations : int, optional
        Records (units) that were cut off (Weighted-e), or whose contribution is at the clamp in one of the
        draws at least (Censored): what Table 1 of Hu, Williams & Savitsky (2025) counts.
    k : float, optional
        Of the last step of re-weighting; c1 is that of the weights it began with.
    steps, asked : int
        Of re-weighting: taken, and asked for.
    cap : float, optional
        Overall bound that is declared, where it is neither the largest of ``bounds`` nor a clamp.
    risk : float array (U,)
        Risks that the privacy weights were made of; NaN where they were not.
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
        """Share of the records (units) with alpha_i < 1, which must vanish as n grows for the asymptotic guarantee."""
        return float((self.alpha < 1).mean())

    @property
    def flatness(self) -> float:
        """Least bound of the records with 0 < alpha_i < 1, as a share of Delta; 1 where there are none."""
        reduced = (self.alpha > 0) & (self.alpha < 1)
        return float(self.bounds[reduced].min() / self.bounds.max()) if reduced.any() else 1.0

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound: max_i of ``bounds``, or the clamp or the cap, which the agency chose.

        Source: Hu, Savitsky & Williams 2022a, section 1.4.1 step 4.
        """
        declared = self.clamp if self.cap is None else self.cap
        return float(self.bounds.max()) if declared is None else declared


def times(alpha: Floats, bounds: Floats) -> Floats:
    """alpha * bound; a record with alpha 0 contributes nothing, even if its bound is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(alpha > 0, alpha * bounds, 0.0)
