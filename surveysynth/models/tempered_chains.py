"""Chains for the clipped target of a file; of very many records the warm-up is on some of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..engines.base import Diagnostics, diagnose
from ..engines.hamiltonian import Chains, Target
from .draws import Sampler

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

RHAT_LIMIT = 1.02  # with an ESS of 1,500, R-hat - 1 of the worst of 30 parameters is up to .009 by chance alone
NEARLY = 1.1  # R-hat up to which chains that fail go on where they ended
# Of more records some warm up: so many at the least, and one in so many.
MANY, PILOT, ONE_IN = 10_000, 5_000, 20


class Clipped(Protocol):
    """A target with public starts and scale."""

    @property
    def scale(self) -> Floats:
        """Public standard deviations of the parameters, about, (p,), or a factor of their covariance, (p, p)."""
        ...

    def starts(self, chains: int, rng: np.random.Generator) -> list[Floats]:
        """Where chains start: points (p,)."""
        ...

    def some(self, share: float, rng: np.random.Generator) -> Any:
        """The target of some of the records, each of which counts for several."""
        ...

    def function(self) -> Target:
        """The log density and its gradient, with memory of its own."""
        ...


def tempered_chains(
    target: Clipped, n: int, sampler: Sampler, groups: tuple[int, int] = (0, 1),
    watched: Callable[[Floats], Floats] | None = None,
) -> tuple[Floats, Codes, Diagnostics]:  # fmt: skip
    """Points of all chains, one after the other (S, p), the chain of each, and what says whether they agree.

    Parameters
    ----------
    target : ClippedTarget or ClippedOutcome
    n : int
        Records, or points that they lie on.
    sampler : Sampler
    groups : (int, int)
        As for :class:`surveysynth.engines.hamiltonian.Chains`.
    watched : function, optional
        Makes of points (S, p) what chains are to agree on (S, .); by default they are to agree on the points.
    """
    starts = target.starts(sampler.chains, sampler.rng)
    pilot = None
    if n > MANY:
        pilot = target.some(max(PILOT, n / ONE_IN) / n, sampler.rng).function
    chains = Chains(
        target.function, starts, target.scale, sampler.rng, warmup=sampler.warmup, groups=groups, pilot=pilot
    )
    values, divergences = chains.draw(sampler.draws)
    while True:
        points = values.reshape(-1, values.shape[-1])
        compared = values if watched is None else watched(points).reshape(*values.shape[:2], -1)
        diagnostics = replace(diagnose({"parameters": compared}, divergences), rhat_limit=RHAT_LIMIT)
        few = diagnostics.failures and divergences == 0 and diagnostics.rhat < NEARLY
        if not few or values.shape[1] >= sampler.most:
            break
        more, divergences = chains.draw(values.shape[1])
        values = np.concatenate([values, more], axis=1)
    chain = np.repeat(np.arange(values.shape[0]), values.shape[1])
    return points, chain, diagnostics
