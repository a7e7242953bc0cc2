"""Games: a release of a file with the planted record, or without it, and what an intruder reads of it.

The intruder knows all other records, the model, every public number and the mechanism, and sees the noisy histogram,
the first draw and the m draws of parameters.  A record with log likelihood ratios l(theta) to the reference speaks by

    histogram   (|c - h| - |c - h - 1|) / scale,  c the noisy count of its bin, h that of all others,
    first draw  a_0 clamp(l(theta_0), -B_0, B_0),
    draws       a sum_k clamp(l(theta_k), -B, B),

which are log likelihood ratios of what is released, "the record has these values" over "it is blanked", up to the
normalizing constants of the posteriors.  Their difference between two values is that of a replaced record.  Of a
mechanism that is not what it says, the ratios without a clamp, sum_k l(theta_k), may say more, and are kept beside.

A file is played on three sides: with the planted record (``in``); with its outcome and weight blanked (``blank``): they
take no part in histogram and likelihood, while what is public of the record, its predictors and C_B, stays; and with a
typical value (``replaced``).

In every game of :func:`own_chains` everything is computed anew, from the noise of the scores on: a chain for the first
draw and one for the m draws, each from the public start, of 100 steps before the first draw and 10 between draws.
Beside a reference, and on its scale, nothing but the draws is random: :func:`one_posterior` then takes those of
hundreds of games from one run of four chains, where these agree and have that many effective draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...choices import AuditMechanism
from ...design.survey_design import SurveyDesign
from ...engines.base import Diagnostics, diagnose
from ...errors import InputError
from ...models.draws import Draws, Sampler
from ...models.normal.fbs import FBS
from ...models.normal.records import JointRecords
from ...models.shared.normal_scores import binned
from ...models.tempered_chains import RHAT_LIMIT
from ...privacy.budget import Budget
from ...privacy.mechanisms.base import Assessment, Mechanism
from ...privacy.mechanisms.strict import FIRST_CLAMP, Strict, scores_epsilon
from ...privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ...privacy.units import Unit
from .files import PlantedFile
from .tables import noisy_tables

Floats = NDArray[np.float64]
Side = Literal["in", "blank", "replaced"]

PARTS = ("histogram", "first", "draws", "unclamped")
CHAINS, WARMUP, THIN = 4, 300, 8  # of one posterior for hundreds of games: every eighth draw is used
SHORT, APART = 100, 10  # steps before the first draw, and between draws, of a chain for one game


@dataclass(frozen=True)
class Stake:
    """What is spent: epsilon, by m draws and what goes before them."""

    epsilon: float
    m: int


@dataclass(frozen=True)
class Unjudged(FBS):
    """FBS whose chains the mechanism does not judge: those of one game are too short for diagnostics."""

    def clipped(
        self, records: JointRecords, reference: Draws, tempering: Floats, clamp: float, sampler: Sampler, *,
        first: bool, present: Floats | None = None,
    ) -> Draws:  # fmt: skip
        """As that of FBS, taken for exact."""
        drawn = super().clipped(records, reference, tempering, clamp, sampler, first=first, present=present)
        return replace(drawn, diagnostics=Diagnostics(exact=True))


def own_chains(
    mechanism: Mechanism, file: PlantedFile, side: Side, stake: Stake, games: int, rng: np.random.Generator
) -> pd.DataFrame:  # fmt: skip
    """Games of which each has a release of its own.

    Returns
    -------
    pandas.DataFrame
        One row a game: ``planted_{part}`` and ``typical_{part}``, what either value of the record speaks by;
        ``agreed``, whether draws are those of chains that agreed: no single chain can say so.

    Raises
    ------
    PrivacyError
        Epsilon is too small for so few records.
    """
    sampler = Sampler(_no_engine, rng, 1, SHORT, APART * stake.m)
    last = range(APART - 1, APART * stake.m, APART)
    rows = []
    for _ in range(games):
        played = play(mechanism, file, side, stake, sampler)
        posterior = played.fitted.posterior
        if posterior.led:  # as a release has them: the leading draw, and m - 1 of the others
            draws = posterior.some([0]).before(posterior.some([1 + k for k in last][: stake.m - 1]))
        else:
            draws = posterior.some(last)
        rows.append(played.evidence(draws, 1))
    return pd.concat(rows, ignore_index=True).assign(agreed=False)


def one_posterior(
    mechanism: Mechanism, file: PlantedFile, side: Side, stake: Stake, games: int, rng: np.random.Generator
) -> pd.DataFrame:  # fmt: skip
    """Games with draws from one run of four chains, or, where these do not agree, of :func:`own_chains`.

    They agree where every parameter has an R-hat of at most 1.02, as a release asks for, and as many effective draws as
    are used.

    Returns
    -------
    pandas.DataFrame
        As :func:`own_chains`.

    Raises
    ------
    InputError
        The reference does not suit the file.
    PrivacyError
        Epsilon is too small for so few records.
    """
    sampler = Sampler(_no_engine, rng, CHAINS, WARMUP, -(-games * stake.m * THIN // CHAINS))
    played = play(mechanism, file, side, stake, sampler)
    posterior = played.fitted.posterior
    found = diagnose({k: v.reshape(CHAINS, -1, *v.shape[1:]) for k, v in posterior.values.items()}, 0)
    if not (found.rhat <= RHAT_LIMIT and found.ess_bulk >= games * stake.m):
        return own_chains(mechanism, file, side, stake, games, rng)
    # Draws of a game come from all over the chains: what is left of dependence is not within games.
    used = rng.permutation(np.arange(THIN - 1, posterior.size, THIN)[: games * stake.m])
    return played.evidence(posterior.some(used.tolist()), games).assign(agreed=True)


def _values(file: PlantedFile, design: SurveyDesign, records: JointRecords, model: FBS) -> JointRecords:
    """The record alone, with its values in one of the files."""
    (scale,) = model.transforms()
    y = scale.forward(design.numeric(file.outcome)[[file.row]])
    log_w = np.log(design.weights[[file.row]] / file.mean_weight)
    return replace(records.some(np.array([file.row])), y=y[:, None], log_w=log_w)


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Played:
    """A file as a mechanism fitted it, with what the intruder knows of the record."""

    model: FBS
    records: JointRecords
    file: PlantedFile
    stake: Stake
    fitted: ProtectedFit

    def evidence(self, draws: Draws, games: int) -> pd.DataFrame:
        """What the record's values speak by, in so many games, which share the draws."""
        found: dict[str, Any] = {}
        for name, design in (("planted", self.file.design), ("typical", self.file.typical)):
            record = _values(self.file, design, self.records, self.model)
            ratios = self._ratios(record, draws).reshape(games, -1)
            of_draws = self._alpha * np.clip(ratios, -self._clamp, self._clamp).sum(axis=1)
            parts = self._of_histogram(design), self._of_first(record), of_draws, ratios.sum(axis=1)
            found |= {f"{name}_{part}": value for part, value in zip(PARTS, parts, strict=True)}
        return pd.DataFrame(found)

    @property
    def _alpha(self) -> float:
        """What the clamped ratios of every record are multiplied by."""
        return float(self.fitted.alpha.max())

    @property
    def _clamp(self) -> float:
        """Where they are clamped."""
        assert self.fitted.clamp is not None  # as of every strict fit
        return self.fitted.clamp / self._alpha

    def _ratios(self, record: JointRecords, draws: Draws) -> Floats:
        """Of every draw, to the reference: (S,)."""
        return self.fitted.log_ratio(self.model, record, draws)[:, 0]

    def _of_first(self, record: JointRecords) -> float:
        """Of the first draw, against the broad reference; 0 where there is none."""
        epsilon = dict(self.fitted.parts).get("first draw")
        if epsilon is None or self.fitted.first is None:
            return 0.0
        a = Budget(epsilon, 1).bound / FIRST_CLAMP
        broad = self.model.broad_reference(self.records)
        ratio = self.model.log_ratio_to(broad, record, self.fitted.first)
        return float(a * np.clip(ratio[0, 0], -FIRST_CLAMP, FIRST_CLAMP))

    def _of_histogram(self, design: Any) -> float:
        """Of the noisy counts; 0 where scores are those of the reference."""
        scores = self.model.private_scores.get(self.file.outcome)
        if scores is None or scores.bounds is None:
            return 0.0
        y, row = design.numeric(self.file.outcome), self.file.row
        mine = binned(y[[row]], scores.bounds)
        beyond = np.array(scores.counts) - (binned(y, scores.bounds) - mine)  # what is left, the record blanked
        return float((np.abs(beyond) - np.abs(beyond - mine)).sum() * scores.epsilon)


def play(mechanism: Mechanism, file: PlantedFile, side: Side, stake: Stake, sampler: Sampler) -> Played:
    """Fit one side of a file by a mechanism, from the histogram of the scores on.

    Noise is numpy's, and seeded: nothing is released.
    """
    design = file.typical if side == "replaced" else file.design
    chosen, budget = mechanism.under(Unjudged(file.formula)), Budget(stake.epsilon, stake.m)
    assert isinstance(chosen, Unjudged)
    if chosen.unscaled:
        epsilon = scores_epsilon(budget, design.n, 1, 2)
        chosen = chosen.scored(design, file.bounds, epsilon, 1, sampler.rng)
        if side == "blank":
            kept = chosen.private_scores[file.outcome].blanked(design.numeric(file.outcome)[[file.row]])
            chosen = replace(chosen, transform={file.outcome: kept})
        budget = replace(budget, parts=chosen.spent)
    records = chosen.prepare(design, "ignore", file.mean_weight)
    present = np.ones(design.n)
    present[file.row] = side != "blank"
    pseudo = PseudoLikelihood(chosen, records, Unit(), sampler, sampler.rng)
    return Played(chosen, records, file, stake, _fitted(mechanism, pseudo, budget, present))


def _fitted(mechanism: Mechanism, pseudo: PseudoLikelihood, budget: Budget, present: Floats) -> ProtectedFit:
    """What a mechanism makes of the records that are present (n,), all of which have the same risk."""
    known = Assessment(lambda _: np.ones(present.size), None, present)
    return mechanism.fit(pseudo, budget, known, tolerance=0.01, reweight=0, say=lambda _: None)


def _no_engine() -> Any:
    raise InputError("the audit is of mechanisms whose chains are the package's own")


def without_history(file: PlantedFile) -> Mechanism:
    """Strict, with scores and a first draw of the file."""
    return Strict()


def beside_history(file: PlantedFile) -> Mechanism:
    """Strict, beside a reference.

    Raises
    ------
    InputError
        There is none.
    """
    if file.reference is None:
        raise InputError("strict-history is measured against an earlier release: give reference= (--reference)")
    return Strict(reference=file.reference)


def tables_of(
    mechanism: Mechanism, file: PlantedFile, side: Side, stake: Stake, games: int, rng: np.random.Generator
) -> pd.DataFrame:  # fmt: skip
    """Games of noisy tables; the number of data sets does not matter."""
    return noisy_tables(file, side, stake.epsilon, games, rng)


Player = Callable[[Mechanism, PlantedFile, Side, Stake, int, np.random.Generator], pd.DataFrame]


@dataclass(frozen=True)
class Contest:
    """How a mechanism is audited: another one joins by an entry, with a player of its own where it has no clamp.

    Attributes
    ----------
    mechanism : function
        Makes it, for a file.
    player : function
        Plays it.
    games : int
        Of a side in one replicate of the study.
    n : int
        Records of the package's own file: about as few as it takes at epsilon 1, and odd, for two modes of one size.
    stated : mapping of side to float
        The other sides of a pair, and how many epsilon the mechanism states for each.
    by_table : bool
        What is played are noisy tables, each of which states its own epsilon.
    """

    mechanism: Callable[[PlantedFile], Mechanism]
    player: Player
    games: int
    n: int
    stated: Mapping[Side, float] = field(default_factory=lambda: {"blank": 1.0, "replaced": 2.0})
    by_table: bool = False

    @property
    def sides(self) -> tuple[Side, ...]:
        """That are played."""
        return ("in", *self.stated)


CONTESTS: dict[AuditMechanism, Contest] = {
    "strict": Contest(without_history, tables_of, 500, 201, by_table=True),
    "strict-chains": Contest(without_history, own_chains, 50, 901),
    "strict-history": Contest(beside_history, one_posterior, 500, 201),
}
