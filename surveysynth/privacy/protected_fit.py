"""A model with its records, and the fit of this model under privacy weights."""

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
    """A model and its records, to be fitted under privacy weights.

    Source: Hu, Savitsky & Williams 2022a, eq. 1.

    Each of the U protected units, which may be single records, has a privacy weight and a Lipschitz bound: the largest
    absolute log density of the unit over the posterior draws.
    """

    model: Synthesizer
    records: Records
    unit: Unit
    sampler: Sampler

    def fit(self, alpha: Floats) -> Draws:
        """Draw from the pseudo posterior under privacy weights alpha of the U units."""
        return self.model.fit(self.records, self.unit.spread(alpha), self.sampler)

    def censored(self, alpha: Floats, bound: float) -> Draws:
        """Draw from the posterior under which the log density of every record is weighted by alpha and then clamped.

        The limits of the clamp are -bound and bound.  Units are single records.
        """
        assert isinstance(self.model, Boundable)
        return self.model.censored(self.records, alpha, bound, self.sampler)

    def lipschitz(self, posterior: Draws, alpha: Floats) -> Floats:
        """Return the unweighted Lipschitz bound M_i of each unit: the largest |log density| of the unit over draws.

        M_i is not multiplied by the privacy weight alpha_i.  If effects of PSUs are integrated out, the densities
        themselves depend on ``alpha``.
        """
        return self.model.lipschitz(self.records, posterior, self.unit.by_record, self.unit.spread(alpha))

    def log_ratio(self, before: Floats, after: Floats, posterior: Draws) -> Floats:
        """Return the change of the log pseudo likelihood at each draw if weights ``before`` become ``after``."""
        return self.model.log_ratio(self.records, self.unit.spread(before), self.unit.spread(after), posterior)


@dataclass(frozen=True, repr=False)
class ProtectedFit:
    """The fit by a mechanism: draws under privacy weights, and the Lipschitz bounds found on these draws.

    Attributes
    ----------
    c1 : float
        Scale of the privacy weights.
    alpha : float array (U,)
        Privacy weight of each of the U protected units, which may be single records.
    posterior : Draws
    bounds : float array (U,)
        Maximum over the draws of alpha_i |log p_i|, where p_i is the density of unit i.
    clamp : float, optional
        Contributions are clamped to [-clamp, clamp].  ``bounds`` are computed before the clamp.
    invocations : int, optional
        Number of units whose weight was set to 0 (Weighted-e), or whose contribution is at the clamp in at
        least one draw (Censored), as in Table 1 of Hu, Williams & Savitsky (2025).
    k : float, optional
        The factor k of the last re-weighting step (:func:`surveysynth.privacy.tuning.reweight`).  ``c1`` remains the
        scale of the weights before re-weighting.
    steps, asked : int
        Numbers of re-weighting steps that were taken, and that were requested.
    risk : float array (U,)
        Risks from which the privacy weights were computed.  They are NaN if weights do not come from risks, and
        infinite for units that are left out.
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
    risk: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def weighted_down(self) -> float:
        """Share of units with a privacy weight below 1.

        The asymptotic guarantee assumes that this share vanishes as the number of records grows.
        """
        return float((self.alpha < 1).mean())

    @property
    def flatness(self) -> float:
        """Evenness of ``bounds``: min(bounds of units with a privacy weight above 0 and below 1) / max(all bounds).

        If the result is near 1, re-weighting would gain little.  The result is 1 if there are no such units.
        """
        reduced = (self.alpha > 0) & (self.alpha < 1)
        return float(self.bounds[reduced].min() / self.bounds.max()) if reduced.any() else 1.0

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound: the clamp, or else the largest of ``bounds``.

        Source: Hu, Savitsky & Williams 2022a, section 1.4.1 step 4.
        """
        return float(self.bounds.max()) if self.clamp is None else self.clamp


def times(alpha: Floats, bounds: Floats) -> Floats:
    """Return alpha * bounds.  A product is 0 where alpha is 0, even if the bound is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(alpha > 0, alpha * bounds, 0.0)
