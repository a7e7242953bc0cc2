"""Random numbers, the sampler of models, posterior draws, and synthetic data sets."""

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
    """Separate streams of random numbers.  If one stream becomes known, it reveals nothing about the other streams.

    Synthetic values and the order of the rows are made from posterior draws, which epsilon protects, and from random
    numbers that may become known with the release.  The random numbers that make the posterior draws must stay secret.

    Attributes
    ----------
    draws : numpy.random.Generator
        For chains and posterior draws, and for the selection of released draws.
    values : numpy.random.Generator
        For synthetic values and weights given the released draws.
    order : numpy.random.Generator
        For the order of the rows and the recoded labels of strata and PSUs.
    """

    draws: np.random.Generator
    values: np.random.Generator
    order: np.random.Generator

    @classmethod
    def from_seed(cls, seed: int | None) -> Self:
        """Streams from one seed, for tests.  Without a seed, each stream gets 128 bits from the operating system."""
        seeds = [None] * 3 if seed is None else np.random.SeedSequence(seed).spawn(3)
        return cls(*map(np.random.default_rng, seeds))


@dataclass(frozen=True)
class Sampler:
    """The settings of sampling: engine, number of chains and draws, and source of randomness.

    ``rng`` also seeds the engine.
    """

    engine: Callable[[], Engine]
    rng: np.random.Generator
    chains: int = 4
    warmup: int = 1000
    draws: int = 1000

    def sample(self, program: str, data: Mapping[str, Any]) -> Samples:
        """Sample a program of ``stan/``."""
        return self.engine().sample(
            program, data, chains=self.chains, warmup=self.warmup, draws=self.draws, seed=self.seed()
        )

    def seed(self) -> int:
        """A seed for the engine; Stan takes 32 bits for all chains of a run."""
        return int(self.rng.integers(1, 2**32 - 1))  # CmdStan reads 2^32 - 1 as "no seed"

    @property
    def chain_of_draws(self) -> Codes:
        """Chain of each draw; the draws of a chain are consecutive."""
        return np.repeat(np.arange(self.chains), self.draws)


@dataclass(frozen=True)
class Draws:
    """Draws from a pseudo posterior; the draws of a chain are consecutive.

    Attributes
    ----------
    values : dict of float arrays (S, ...)
        Parameter draws, by names that the synthesizer defines.
    chain : int array (S,)
        Chain of each draw.
    diagnostics : Diagnostics
    engine, version : str
    weight : float array (S,)
        Probability of each draw.  All are equal, unless draws under nearby privacy weights were reweighted.
    effects : dict of float arrays (S, groups, ...)
        Draws of parameters of single groups of records, such as effects of strata.
    integrated : bool
        Whether effects of PSUs were integrated out, so that the bound of a record depends on the privacy
        weights in its PSU.
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
        """Draws of a parameter: (S, ...)."""
        return self.values[parameter]

    @property
    def efficiency(self) -> float:
        """Effective number of draws over the number of draws; 1 if all draws have the same weight."""
        return min(1.0, float(1 / (self.weight @ self.weight) / self.weight.size))

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the failed diagnostics; effective sample sizes account for the weights of draws."""
        d = self.diagnostics
        weighted = replace(d, ess_bulk=d.ess_bulk * self.efficiency, ess_tail=d.ess_tail * self.efficiency)
        return weighted.failures

    @property
    def size(self) -> int:
        """Number of draws S."""
        return int(self.chain.size)

    def subset(self, positions: Sequence[int], values: Mapping[str, Floats] | None = None) -> Draws:
        """The selected draws, with equal weights.  ``values`` replace parameters that have the same names."""
        here = list(positions)
        kept = {name: v[here] for name, v in self.values.items()} | dict(values or {})
        effects = {name: v[here] for name, v in self.effects.items()}
        return replace(self, values=kept, effects=effects, chain=self.chain[here], weight=np.empty(0))


@dataclass(frozen=True)
class Synthetic:
    """One synthetic data set: numeric outcomes (n, d) in their own units, and unscaled weights (n,).

    ``labels`` are the categorical outcomes, column by column.  ``count_weights`` (n,), if a model has them, have the
    same sum as ``weights`` in every ``cell`` (n,), but vary between records according to the model.  Standard errors of
    counts are computed from ``count_weights``: by stratum, or ignoring strata if ``stratified_counts`` is False.
    """

    outcomes: Floats
    weights: Floats
    labels: Mapping[str, pd.Series] = field(default_factory=dict)
    count_weights: Floats | None = None
    cell: Codes | None = None
    stratified_counts: bool = True
