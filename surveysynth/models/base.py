"""What a synthesizer is, and what passes between it and the rest of the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..engines import Diagnostics, Engine, Samples

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Clusters = Literal["model", "ignore"]
Constants = Mapping[str, Mapping[str, Any]]  # of terms that take some from a file: the mean in center(), knots in bs()


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
    def of(cls, seed: int | None) -> Self:
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

    def some(self, draws: Sequence[int], values: Mapping[str, Floats]) -> Draws:
        """These draws alone, equally likely, some of their values replaced."""
        here = list(draws)
        kept = {name: v[here] for name, v in self.values.items()} | dict(values)
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


class Synthesizer(Protocol):
    """A model of (outcome, weight) given public predictors, fitted under record weights alpha."""

    @property
    def name(self) -> str:
        """Short name for reports."""
        ...

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The columns that are synthesized."""
        ...

    @property
    def categorical(self) -> tuple[str, ...]:
        """Those of them that are categories."""
        ...

    @property
    def predictors(self) -> str:
        """Right-hand side of the formula."""
        ...

    @property
    def predictor_columns(self) -> tuple[str, ...]:
        """The public columns that the model conditions on."""
        ...

    @property
    def missing(self) -> Literal["fail", "drop"]:
        """What a missing outcome does."""
        ...

    @property
    def as_in_paper(self) -> bool:
        """Whether this is a paper's setting where ours is another; such a model stays as it was published."""
        ...

    @property
    def from_records(self) -> bool:
        """Whether a synthetic value is drawn given the confidential values of its record: no epsilon holds then."""
        ...

    def pilot(self) -> Synthesizer | None:
        """A relative of the model that fits the same data in no time, to start the tuning; None if there is none."""
        ...

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> Any:  # fmt: skip
        """Validate the file against the model and put it in the form that fits need.

        ``clusters``: whether PSUs, and strata that the predictors do not determine, are modelled.
        ``mean_weight``: what survey weights are divided by; by default their mean, which every record moves.
        ``constants``: those of the formula's terms; by default of this file, where every record moves them, too.
        ``unit``: (n,), the units that epsilon protects, where they are several records; None for single ones.
        """
        ...

    def fit(self, data: Any, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw from the alpha-weighted pseudo posterior (T eq. 1)."""
        ...

    def check_censored(self, data: Any) -> None:
        """Refuse what cannot be fitted record by record under a clamp."""
        ...

    def censored(self, data: Any, alpha: Floats, bound: float, sampler: Sampler) -> Draws:
        """Draw from the censored pseudo posterior: every alpha_i log p_i clamped to [-bound, bound] (C eq. 3.6)."""
        ...

    def lipschitz(self, data: Any, posterior: Draws, unit: Codes | None = None, alpha: Floats | None = None) -> Floats:
        """max over draws of |log p(record i | draw)|: (n,); or of its sum over the records of each unit: (U,).

        A bound is alpha times that.  Where effects of PSUs are integrated out, p is that of the
        record given the others of its PSU, under ``alpha`` (n,) (default: 1).
        """
        ...

    def log_ratio(self, data: Any, before: Floats, after: Floats, posterior: Draws) -> Floats:
        """Log pseudo likelihood under weights ``after`` less that under ``before``: (S,)."""
        ...

    def log_density(self, data: Any, records: Codes, posterior: Draws) -> Floats:
        """log p(record | draw) of some records, effects that were integrated out being 0: (S, records)."""
        ...

    def biased(self, data: Any, unit: Codes | None) -> dict[str, bool]:
        """What privacy weights bias much, debias or not; and whether :meth:`debias_draws` can take that off."""
        ...

    def debias_draws(
        self, data: Any, posterior: Draws, draws: Sequence[int], alpha: Callable[..., Floats],
        unit: Codes | None, rng: np.random.Generator, *, debias: bool,
    ) -> Draws:  # fmt: skip
        """Some draws, without what privacy weights do to what is :meth:`biased`.

        ``alpha`` is a function of risk; of units of several records also of their numbers of records.

        With ``debias`` without what they do to anything else, too.
        """
        ...

    def uncensored(self, data: Any, posterior: Draws, draws: Sequence[int], bound: float) -> Draws:
        """Some draws of a censored fit, without what the clamp does to them."""
        ...

    def variance_factor(
        self, data: Any, posterior: Draws, draws: Sequence[int], bound: float, *, corrected: bool
    ) -> float | None:
        """How many times as variable the clamp makes means as files from some draws say; None where it is not known."""
        ...

    def to_original_scale(self, data: Any, posterior: Draws) -> Draws:
        """The draws in terms that do not depend on the file: coefficients of predictors in their own units."""
        ...

    def from_original_scale(self, data: Any, posterior: Draws) -> Draws:
        """The inverse of :meth:`to_original_scale`, for another file with the same columns."""
        ...

    def simulate(self, data: Any, posterior: Draws, draw: int, rng: np.random.Generator) -> Synthetic:
        """One synthetic data set from one draw, records in the order of the design."""
        ...

    def describe(self, data: Any) -> dict[str, Any]:
        """Public facts about the model, for the manifest."""
        ...

    def assumptions(self, data: Any) -> list[str]:
        """What this model takes as given, in sentences, for the report."""
        ...
