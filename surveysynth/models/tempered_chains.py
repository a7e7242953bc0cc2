"""Chains for the clipped target of a file: Hamiltonian ones, or, of very many records, proposals that are normal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..engines.base import Diagnostics, diagnose
from ..engines.hamiltonian import Target, sample_chains
from ..engines.near_normal import Value, sample_near_normal
from .draws import Sampler

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

RHAT_LIMIT = 1.02  # with an ESS of 1,500, R-hat - 1 of the worst of 30 parameters is up to .009 by chance alone
# From so many records and so large a sum of a on, proposals are normal; records of the pilot.
MANY, KNOWN, PILOT = 8_000, 4_000.0, 5_000
# Draws a chain then, for 1,000 that are asked for: more, where fewer records make proposals less alike the target.
LEAST_DRAWS, EVALUATIONS, DRAWS = 400, 5e7, 1000
# From so many records on their curvature is that of some of them: an error of 1% of it is one of .01 in the logarithms
# of acceptance, with 60 parameters, and the chain is exact whatever it is.  More proposals are accepted there: with so
# many draws a chain the R-hat of the worst of 60 parameters exceeds 1.015 hardly ever by chance.
SURVEYED, ENOUGH, FEWER_DRAWS = 1_000_000, 250_000, 300


class Clipped(Protocol):
    """A target with public starts and scale."""

    @property
    def scale(self) -> Floats:
        """Public standard deviations of the parameters, about: (p,)."""
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


@runtime_checkable
class Valued(Protocol):
    """A target whose log density alone is cheaper than with its gradient."""

    def value(self) -> Value:
        """The log density, with memory of its own."""
        ...


def tempered_chains(
    target: Clipped, n: int, known: float, sampler: Sampler, groups: tuple[int, int] = (0, 1)
) -> tuple[Floats, Codes, Diagnostics]:
    """Points of all chains, one after the other (S, p), the chain of each, and what says whether they agree.

    Parameters
    ----------
    target : ClippedTarget or ClippedOutcome
    n : int
        Records.
    known : float
        How many records' worth of information the target rests on: the sum of a.
    sampler : Sampler
    groups : (int, int)
        As for :func:`surveysynth.engines.hamiltonian.sample_chains`.
    """
    starts = target.starts(sampler.chains, sampler.rng)
    if n <= MANY or known <= KNOWN:
        values, divergences = sample_chains(
            target.function, starts, target.scale, sampler.rng, warmup=sampler.warmup, draws=sampler.draws,
            groups=groups,
        )  # fmt: skip
    else:
        some, divergences = target.some(PILOT / n, sampler.rng), 0
        curved = target.some(ENOUGH / n, sampler.rng).function if n > SURVEYED else None
        least = FEWER_DRAWS if n > SURVEYED else LEAST_DRAWS
        enough = max(least, EVALUATIONS / n) * sampler.draws / DRAWS
        values = sample_near_normal(
            target.function, some.function, starts, target.scale, sampler.rng, warmup=sampler.warmup,
            draws=min(sampler.draws, int(enough)), groups=groups, curved=curved,
            value=target.value if isinstance(target, Valued) else None,
        )  # fmt: skip
    diagnostics = replace(diagnose({"parameters": values}, divergences), rhat_limit=RHAT_LIMIT)
    chain = np.repeat(np.arange(values.shape[0]), values.shape[1])
    return values.reshape(-1, values.shape[-1]), chain, diagnostics
