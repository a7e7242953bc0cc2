"""Random numbers, the sampler that models are given, draws from a posterior, and synthetic data sets."""

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
    """Separate streams of random numbers: what is published of one tells nothing of the others.

    Epsilon is that of posterior draws; synthetic values and the order of the rows are made from these and from
    random numbers that can become known with them.  Those behind the draws must not.

    Attributes
    ----------
    draws : numpy.random.Generator
        Of chains and posterior draws, and of which of them are released.
    values : numpy.random.Generator
        Of synthetic values and weights given the released draws.
    order : numpy.random.Generator
        Of the order of the rows and the recoded labels of strata and PSUs.
    """

    draws: np.random.Generator
    values: np.random.Generator
    order: np.random.Generator

    @classmethod
    def from_seed(cls, seed: int | None) -> Self:
        """Each with 128 bits of its own from the operating system; all from one seed, for tests."""
        seeds = [None] * 3 if seed is None else np.random.SeedSequence(seed).spawn(3)
        return cls(*map(np.random.default_rng, seeds))


@dataclass(frozen=True)
class Sampler:
    """How to sample: the engine, the number of chains and draws, and where randomness comes from.

    ``rng`` seeds the engine too.
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
        """A seed for the engine: Stan takes 32 bits, which all chains of a run share."""
        return int(self.rng.integers(1, 2**32 - 1))  # CmdStan takes 2^32 - 1 for "none was given"

    @property
    def chain_of_draws(self) -> Codes:
        """Chain of each draw, chains one after the other."""
        return np.repeat(np.arange(self.chains), self.draws)


@dataclass(frozen=True)
class Draws:
    """Draws from a pseudo posterior, chains one after the other.

    Attributes
    ----------
    values : dict of float arrays (S, ...)
        Parameter draws; what the names mean is the synthesizer's business.
    chain : int array (S,)
        Chain of each draw; draws of a chain are consecutive.
    diagnostics : Diagnostics
    engine, version : str
    weight : float array (S,)
        Probability of each draw; equal unless draws were carried over from nearby privacy weights.
    effects : dict of float arrays (S, groups, ...)
        Draws of what belongs to single groups of records, such as effects of strata.
    integrated : bool
        Whether effects of PSUs were integrated out: a record's bound then depends on the privacy
        weights of its PSU.
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
        """Effective share of the draws, 1 where all weigh the same."""
        return min(1.0, float(1 / (self.weight @ self.weight) / self.weight.size))

    @property
    def failures(self) -> tuple[str, ...]:
        """Diagnostics that failed, by name; effective sample sizes count the draws' weights."""
        d = self.diagnostics
        weighted = replace(d, ess_bulk=d.ess_bulk * self.efficiency, ess_tail=d.ess_tail * self.efficiency)
        return weighted.failures

    @property
    def size(self) -> int:
        """Number of draws S."""
        return int(self.chain.size)

    def subset(self, positions: Sequence[int], values: Mapping[str, Floats] | None = None) -> Draws:
        """These draws alone, equally likely, some of their values replaced."""
        here = list(positions)
        kept = {name: v[here] for name, v in self.values.items()} | dict(values or {})
        effects = {name: v[here] for name, v in self.effects.items()}
        return replace(self, values=kept, effects=effects, chain=self.chain[here], weight=np.empty(0))


@dataclass(frozen=True)
class Synthetic:
    """One synthetic data set: numeric outcomes (n, d) in their own unit and unscaled weights (n,).

    ``labels`` are the categorical outcomes, column by column.
    ``count_weights`` (n,), where a model has them, add up to the same counts as ``weights`` in every
    ``cell`` (n,), but vary from record to record as the model says: they give counts their standard
    errors, by stratum or, where not ``stratified_counts``, as if there were no strata.
    """

    outcomes: Floats
    weights: Floats
    labels: Mapping[str, pd.Series] = field(default_factory=dict)
    count_weights: Floats | None = None
    cell: Codes | None = None
    stratified_counts: bool = True
