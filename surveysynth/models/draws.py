"""Random number streams, settings of the sampler, posterior draws, and synthetic data sets.

Letters in shapes are numbers: n of records, and S of posterior draws.
"""

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
    """Three independent streams of random numbers: for posterior draws, synthetic values, and the order of records.

    The streams are separate, because somebody may reconstruct random numbers from the released synthetic values.  This
    must not reveal the random numbers that made the posterior draws, because epsilon holds only if these are secret.

    Attributes
    ----------
    draws : numpy.random.Generator
        Random numbers of the Markov chains and posterior draws, and of the selection of released draws.
    values : numpy.random.Generator
        Random numbers of synthetic values and weights, given the released draws.
    order : numpy.random.Generator
        Random numbers of the order of the released records, and of the new labels of strata and PSUs.
    """

    draws: np.random.Generator
    values: np.random.Generator
    order: np.random.Generator

    @classmethod
    def from_seed(cls, seed: int | None) -> Self:
        """Make the streams from one seed, for tests.

        Without a seed, each stream is seeded with 128 random bits from the operating system.
        """
        seeds = [None] * 3 if seed is None else np.random.SeedSequence(seed).spawn(3)
        return cls(*map(np.random.default_rng, seeds))


@dataclass(frozen=True)
class Sampler:
    """Settings of Markov chain Monte Carlo: engine, source of randomness, number and lengths of chains.

    ``engine`` is a function without arguments that returns the engine that runs Stan programs.  ``rng`` is the source
    of the randomness and also seeds the engine.  ``chains`` is the number of Markov chains.  Each chain has ``warmup``
    warm-up iterations, which are dropped, and then ``draws`` draws, which are kept.
    """

    engine: Callable[[], Engine]
    rng: np.random.Generator
    chains: int = 4
    warmup: int = 1000
    draws: int = 1000

    def sample(self, program: str, data: Mapping[str, Any]) -> Samples:
        """Run a Stan program on ``data``, and return the samples of all chains.

        ``program`` is the name of a file in ``stan/``, without suffix, or a path.
        """
        return self.engine().sample(
            program, data, chains=self.chains, warmup=self.warmup, draws=self.draws, seed=self.seed()
        )

    def seed(self) -> int:
        """Draw a seed of 32 bits for all chains of one run of a Stan program."""
        return int(self.rng.integers(1, 2**32 - 1))  # CmdStan reads 2^32 - 1 as "no seed"

    @property
    def chain_of_draws(self) -> Codes:
        """Chain of each draw, numbered from 0.

        The array is (chains x draws,).  The draws of a chain are consecutive.
        """
        return np.repeat(np.arange(self.chains), self.draws)


@dataclass(frozen=True)
class Draws:
    """S draws from a pseudo posterior.  The draws of a Markov chain are consecutive.

    Attributes
    ----------
    values : dict of float arrays (S, ...)
        Draws of each parameter, by its name.  The model defines the names.
    chain : int array (S,)
        Number, from 0, of the chain of each draw.
    diagnostics : Diagnostics
        Convergence diagnostics of the chains.
    engine, version : str
        Name and version of the engine that made the draws.
    weight : float array (S,)
        Importance weights of the draws, with sum 1.  They are equal, unless the draws were made under slightly
        different privacy weights and then reweighted.
    effects : dict of float arrays (S, groups, ...)
        Draws of parameters of which each group of records has its own, such as effects of strata.
    integrated : bool
        True if effects of PSUs were integrated out of the likelihood.  If so, the Lipschitz bound of a record depends
        on the privacy weights of all records of its PSU.
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
        """Return the draws (S, ...) of the parameter with this name."""
        return self.values[parameter]

    @property
    def efficiency(self) -> float:
        """Kish's effective number of draws divided by S: 1 / (S sum_s weight_s^2).  It is 1 under equal weights."""
        return min(1.0, float(1 / (self.weight @ self.weight) / self.weight.size))

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the failed convergence diagnostics, with effective sample sizes scaled by :attr:`efficiency`."""
        d = self.diagnostics
        weighted = replace(d, ess_bulk=d.ess_bulk * self.efficiency, ess_tail=d.ess_tail * self.efficiency)
        return weighted.failures

    @property
    def size(self) -> int:
        """Number of draws S."""
        return int(self.chain.size)

    def subset(self, positions: Sequence[int], values: Mapping[str, Floats] | None = None) -> Draws:
        """Return the draws at ``positions``, with equal weights.

        ``values`` maps names of parameters to new draws that replace the old ones, one draw for each position.
        """
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
        Survey weights, not yet scaled to a population size.
    labels : mapping of str to Series
        Categorical outcomes, by column name.
    count_weights : float array (n,), optional
        Second set of weights, from which standard errors of counts are computed.  They vary between the records of a
        cell as the model implies, whereas ``weights`` then are means over the cell.
    cell : int array (n,), optional
        Cell of each record: records with the same public and synthetic categories.  In each cell, the released
        ``weights`` are scaled so that their sum equals the sum of ``count_weights``.
    stratified_counts : bool
        True if standard errors of counts take strata into account.  It matters only with ``count_weights``.
    """

    outcomes: Floats
    weights: Floats
    labels: Mapping[str, pd.Series] = field(default_factory=dict)
    count_weights: Floats | None = None
    cell: Codes | None = None
    stratified_counts: bool = True
