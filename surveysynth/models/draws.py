"""Random number streams, settings of the sampler, posterior draws, and synthetic data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..engines import Diagnostics, Engine, Samples

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Streams:
    """Separate streams of random numbers, of which no stream reveals anything about another.

    Synthetic values and the order of the records are made from posterior draws, which epsilon protects, and from random
    numbers that may become known with the release.  The random numbers that make the posterior draws must stay secret.

    Attributes
    ----------
    draws : numpy.random.Generator
        Random numbers of the Markov chains and posterior draws, and of the selection of released draws.
    values : numpy.random.Generator
        Random numbers of synthetic values and weights, given the released draws.
    order : numpy.random.Generator
        Random numbers of the order of the records and of the recoded labels of strata and PSUs.
    """

    draws: np.random.Generator
    values: np.random.Generator
    order: np.random.Generator

    @classmethod
    def from_seed(cls, seed: int | None) -> Self:
        """Make the streams from one seed, for tests.  Without a seed, each stream gets 128 bits from the system."""
        seeds = [None] * 3 if seed is None else np.random.SeedSequence(seed).spawn(3)
        return cls(*map(np.random.default_rng, seeds))


@dataclass(frozen=True)
class Sampler:
    """Settings of the sampler.

    ``engine`` returns the engine that runs Stan programs, ``rng`` is the source of the randomness and also seeds the
    engine, and ``chains`` is the number of Markov chains, each with ``warmup`` warm-up iterations and ``draws`` draws.
    """

    engine: Callable[[], Engine]
    rng: np.random.Generator
    chains: int = 4
    warmup: int = 1000
    draws: int = 1000

    def sample(self, program: str, data: Mapping[str, Any]) -> Samples:
        """Run the Stan program ``program``, a file of ``stan/`` or a path, and return its samples."""
        return self.engine().sample(
            program, data, chains=self.chains, warmup=self.warmup, draws=self.draws, seed=self.seed()
        )

    def seed(self) -> int:
        """Draw a seed of 32 bits for all chains of a run."""
        return int(self.rng.integers(1, 2**32 - 1))  # CmdStan reads 2^32 - 1 as "no seed"

    @property
    def chain_of_draws(self) -> Codes:
        """Number of the chain of each draw.  The draws of a chain are consecutive."""
        return np.repeat(np.arange(self.chains), self.draws)


@dataclass(frozen=True)
class Draws:
    """S draws from a pseudo posterior.  The draws of a Markov chain are consecutive.

    Attributes
    ----------
    values : dict of float arrays (S, ...)
        Draws of each parameter.  The synthesizer defines the names.
    chain : int array (S,)
        Number of the chain of each draw.
    diagnostics : Diagnostics
        Convergence diagnostics of the chains.
    engine, version : str
        Name and version of the engine that made the draws.
    weight : float array (S,)
        Probability of each draw.  All draws have equal probabilities, unless they were reweighted from nearby privacy
        weights.
    effects : dict of float arrays (S, groups, ...)
        Draws of parameters that belong to single groups of records, such as effects of strata.
    integrated : bool
        True if effects of PSUs were integrated out.  If so, the Lipschitz bound of a record depends on the privacy
        weights of all records of the PSU.
    """

    values: dict[str, Floats]
    chain: Codes
    diagnostics: Diagnostics
    engine: str
    version: str
    weight: Floats = field(default_factory=lambda: np.empty(0))
    effects: dict[str, NDArray[Any]] = field(default_factory=dict)
    integrated: bool = False

    def __post_init__(self) -> None:
        if self.weight.size == 0:
            object.__setattr__(self, "weight", np.full(self.chain.size, 1 / self.chain.size))

    def __getitem__(self, parameter: str) -> Floats:
        """Return the draws (S, ...) of a parameter."""
        return self.values[parameter]

    @property
    def efficiency(self) -> float:
        """Effective number of draws divided by the number of draws.  It is 1 if all draws have equal probabilities."""
        return min(1.0, float(1 / (self.weight @ self.weight) / self.weight.size))

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the failed diagnostics.  Effective sample sizes are multiplied by :attr:`efficiency`."""
        d = self.diagnostics
        weighted = replace(d, ess_bulk=d.ess_bulk * self.efficiency, ess_tail=d.ess_tail * self.efficiency)
        return weighted.failures

    @property
    def size(self) -> int:
        """Number of draws S."""
        return int(self.chain.size)

    def subset(self, positions: Sequence[int], values: Mapping[str, Floats] | None = None) -> Draws:
        """Return the draws at ``positions``, with equal probabilities.  ``values`` replaces parameters by name."""
        here = list(positions)
        kept = {name: v[here] for name, v in self.values.items()} | dict(values or {})
        effects = {name: v[here] for name, v in self.effects.items()}
        return replace(self, values=kept, effects=effects, chain=self.chain[here], weight=np.empty(0))


@dataclass(frozen=True)
class Synthetic:
    """One synthetic data set of n records.

    Attributes
    ----------
    outcomes : float array (n, d)
        The d numeric outcomes, in their original units.
    weights : float array (n,)
        Survey weights, not yet scaled to a population total.
    labels : mapping of str to Series
        Categorical outcomes, by column name.
    count_weights : float array (n,), optional
        Weights for the standard errors of counts, which vary between records according to the model.
    cell : int array (n,), optional
        Cell of each record.  In every cell, the released weights are scaled to the sum of ``count_weights``.
    stratified_counts : bool
        True if standard errors of counts account for strata.
    """

    outcomes: Floats
    weights: Floats
    labels: Mapping[str, pd.Series] = field(default_factory=dict)
    count_weights: Floats | None = None
    cell: Codes | None = None
    stratified_counts: bool = True
