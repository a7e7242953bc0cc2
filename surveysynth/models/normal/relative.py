"""The joint regression measured against a reference: what the strict mechanism asks of FBS and FBP."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..._version import __version__
from ...engines.base import Diagnostics, diagnose
from ...engines.hamiltonian import sample_chains
from ...errors import InputError, ModelError
from ..base import Relative
from ..draws import Draws, Sampler
from ..shared.normal_scores import NormalScores
from ..shared.transforms import Transform
from .clipped_fit import Density, clipped_target, parameters
from .records import JointRecords

Floats = NDArray[np.float64]

WIDE, NARROW = (0.1, 4.0), (0.4, 2.5)  # eigenvalues of the covariance over the reference's: a first draw's, the others'
WEIGHT_CENTRE, WEIGHT_SD = -0.2, 0.8  # of the log of a weight over the mean weight, before anything is known
REFERENCE_PRIOR = (
    "coefficients of whitened predictors ~ N(those of the reference, (2 of its standard deviations)^2), the covariance "
    "flat where its eigenvalues, over those of the reference, lie within public limits"
)

J = TypeVar("J", bound=JointRecords)


class RelativeRegression(Relative[J]):
    """Draws of (B, Sigma), and of the curvature of the weight, measured against a reference of the same form."""

    prior: str
    outcomes: tuple[str, ...]

    @property
    @abstractmethod
    def numeric(self) -> tuple[str, ...]:
        """The outcomes that are numbers."""

    @property
    @abstractmethod
    def curved(self) -> bool:
        """Whether the log weight goes with the outcomes in a curve, and its spread with them."""

    @abstractmethod
    def transforms(self) -> list[Transform]:
        """One transform a numeric outcome."""

    def under_reference(self) -> Self:
        """With the prior around the reference."""
        return replace(self, prior="reference")  # type: ignore[type-var]  # subclasses are dataclasses

    def dimensions(self, records: J) -> tuple[int, int]:
        """Outcomes and weight; coefficients, covariance and curvature."""
        if records.groups is not None:
            raise ModelError(
                f"the design has {records.groups.describe()}, whose effects are not modelled under Strict(): say "
                "clusters='ignore', or use PseudoPosterior()"
            )
        if records.categories is not None:
            raise ModelError("categories are not modelled under Strict() yet: use PseudoPosterior()")
        d = records.Y.shape[1]
        if d > 4:
            raise ModelError("Strict() takes up to three outcomes and the survey weight")
        return d, parameters(int(np.linalg.matrix_rank(records.X)), d, self._bent(records))

    def broad_reference(self, records: J) -> Draws:
        """Standard normal outcomes, as their normal scores are, and a log weight as most surveys have it."""
        plain = [
            o for o, t in zip(self.numeric, self.transforms(), strict=True) if not isinstance(t, NormalScores)
        ]  # fmt: skip
        if plain:
            raise InputError(
                f"without a reference nothing public says where {', '.join(plain)} lies: give public bounds, from "
                "which normal scores are made, or Strict(reference=...)"
            )
        sd = np.ones(records.Y.shape[1])
        centre = np.zeros(sd.size)
        if records.log_w is not None:
            centre[-1], sd[-1] = WEIGHT_CENTRE, WEIGHT_SD
        intercept = np.asarray(np.linalg.pinv(records.X).sum(axis=1))
        straight = np.zeros(sd.size - 1)
        return as_draws([Density(np.outer(intercept, centre), np.diag(sd), straight, straight)])

    def clipped(
        self, records: J, reference: Draws, tempering: Floats, clamp: float, sampler: Sampler, *, first: bool
    ) -> Draws:
        """Draw (B, L, kappa, eta): see :mod:`.clipped_fit`."""
        v = reference.values
        measured = Density(v["B"][0], v["L"][0], v["kappa"][0], v["eta"][0])
        target = clipped_target(
            records.X, records.pattern, records.Y, measured, tempering, clamp, WIDE if first else NARROW,
            self._bent(records),
        )  # fmt: skip
        values, divergences = sample_chains(
            target.function, target.starts(sampler.chains, sampler.rng), target.scale, sampler.rng,
            warmup=sampler.warmup, draws=sampler.draws,
        )  # fmt: skip
        drawn = as_draws([target.density(point) for point in values.reshape(-1, values.shape[-1])])
        return replace(
            drawn, chain=sampler.chain_of_draws, diagnostics=diagnose({"parameters": values}, divergences),
        )  # fmt: skip

    def _bent(self, records: J) -> bool:
        """Whether the weight is modelled, and in a curve."""
        return self.curved and records.log_w is not None and len(self.numeric) > 0


def as_draws(densities: list[Density]) -> Draws:
    """Draws of parameters, one a density."""
    values = {name: np.array([getattr(each, name) for each in densities]) for name in ("B", "L", "kappa", "eta")}
    none = np.zeros(len(densities), dtype=np.intp)
    return Draws(values, none, Diagnostics(exact=True), "surveysynth", __version__)
