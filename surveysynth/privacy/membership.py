"""A membership attack on a fit: how well an intruder can tell whether a record was in the file.

The intruder knows every other record, the model and the privacy weights, and sees m parameter draws
theta ~ p(theta | D).  With c_j(theta) the contribution of record j, its weighted (and perhaps clamped) log
density,

    p(theta | D)  proportional to  prior(theta) prod_j exp(c_j(theta))

so leaving record i out re-weights the draws:

    r_i(theta) = p(theta | D without i) / p(theta | D) = exp(-c_i(theta)) / E_in exp(-c_i)

The best test of "in" against "out" is by r_i (Neyman-Pearson).  Its advantage, the true less the false
positive rate at the best threshold, is the total variation distance

    TV_i = 1/2 E_in |1 - r_i|;   of m draws, E_in max(0, 1 - r_i(theta_1) ... r_i(theta_m))

Who sees only synthetic data, made from the draws, knows less.  Under epsilon-differential privacy for
records added or removed no advantage is above (e^epsilon - 1) / (e^epsilon + 1) (Kairouz, Oh &
Viswanath 2015).  This attack stays below half of that epsilon's: |c_i| <= Delta bounds the range of
log r_i by 2 Delta, and so the advantage of m draws by that of epsilon / 2 (Dong, Durfee & Rogers 2020).

Everything here is about single records, and internal to the agency.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from ..errors import InputError, check_seed, rows, whole
from .tuning import WeightedFit
from .units import Unit

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK = 400_000  # contributions that are held at once
GAMES = 20_000  # m draws "in" and m draws "out", for each record that is attacked
FEW = 100  # effective draws "out", below which re-weighting is not to be trusted


class Attacked(Protocol):
    """What is needed of a fit; :class:`surveysynth.Fit` has it."""

    m: int
    rows: Codes
    unit: Unit
    weighted: WeightedFit

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound: epsilon is 2 m times that."""
        ...

    def contributions(self, records: Codes) -> Floats:
        """c_i at every draw, for some records: (S, records)."""
        ...


@dataclass(frozen=True)
class MembershipAttack:
    """What the best test of membership achieves against the most exposed records.  Internal.

    Attributes
    ----------
    records : pandas.DataFrame
        The records that were attacked, the most exposed first: ``row`` (of the confidential file, from 0;
        of a unit the first), ``advantage_one`` (from one draw), ``advantage`` and ``auc`` (from m
        draws, by simulation: standard errors of at most 0.004), ``epsilon_seen`` (m max |log r|) and
        ``ess``, effective draws "out".
    screened : int
        Records, or units, that were looked at, with one draw.
    others : float
        No record that was not attacked has a larger advantage from m draws: 1 - (1 - TV)^m of
        the largest among them; 0 where all were attacked.
    m : int
    epsilon : float
        2 Delta m, exact.
    """

    records: pd.DataFrame
    screened: int
    others: float
    m: int
    epsilon: float

    @property
    def advantage(self) -> float:
        """The largest advantage from m draws: true less false positive rate."""
        return float(self.records["advantage"].max())

    @property
    def bound(self) -> float:
        """The largest advantage that epsilon allows: (e^epsilon - 1) / (e^epsilon + 1)."""
        return float(np.tanh(self.epsilon / 2))

    def __str__(self) -> str:
        few = int((self.records["ess"] < FEW).sum())
        attacked = f"the {len(self.records):,} most exposed of {self.screened:,} records"
        lines = [
            f"Membership attack on {attacked}, from the m = {self.m} parameter draws behind a release: largest "
            f"advantage {self.advantage:.3f} (AUC {self.records['auc'].max():.3f}); epsilon = {self.epsilon:.4g} "
            f"allows up to {self.bound:.3f}. No other record has more than {self.others:.3f}.",
            f"An intruder who knows all other records and sees these draws, and to whom in and out are equally likely, "
            f"guesses right in {(1 + self.advantage) / 2:.1%} of cases, instead of 50%. Who sees only the synthetic "
            "data knows less.",
            "What this does not cover: privacy weights, their scale and its tuning are held fixed, though they were "
            "computed from the file with the record in it; it is left out by re-weighting the draws, without a refit.",
            "Internal: this is about single records.",
        ]
        if few:
            lines.append(
                f"Not to be trusted for {few:,} of the records attacked: less than {FEW} effective draws are left when "
                "the record is left out, which is itself a sign of its influence."
            )
        return "\n".join(lines)

    __repr__ = __str__


def membership_attack(fit: Attacked, records: int = 100, *, seed: int | None = None) -> MembershipAttack:
    """Attack the most exposed records of a fit with the best test of membership.

    Every record is looked at with one draw; those with the largest advantage are then
    attacked with m draws.  Where epsilon protects groups of records, a whole group is left out.

    Parameters
    ----------
    fit : surveysynth.Fit
    records : int
        How many are attacked with m draws.
    seed : int, optional
        Of the simulated attacks; nothing is released.

    Returns
    -------
    MembershipAttack

    Raises
    ------
    InputError
        Something that is no fit; numbers out of range.

    Warns
    -----
    UserWarning
        Less than 100 effective draws are left without a record.
    """
    if not hasattr(fit, "contributions"):
        raise InputError("membership_attack needs a fit: surveysynth.fit(design, synthesizer, epsilon=...)")
    if getattr(fit, "kind", None) == "none":
        raise InputError(
            "membership_attack is about draws of parameters, and these files are drawn given the confidential records: "
            "use identification_risk"
        )
    records = whole(records, "records")
    check_seed(seed)
    rng = np.random.default_rng(seed)
    weight = fit.weighted.posterior.weight
    first, order, start = _units(fit)
    one = np.concatenate([
        advantage_of_one(log_ratios(c, weight), weight) for c in _blocks(fit, order, start, np.arange(first.size))
    ])  # fmt: skip
    by_exposure = np.argsort(-one, kind="stable")
    chosen, rest = by_exposure[:records], by_exposure[records:]
    found = [
        play(log_r, weight, fit.m, rng)
        for c in _blocks(fit, order, start, chosen)
        for log_r in log_ratios(c, weight).T
    ]  # fmt: skip
    table = pd.DataFrame(found, columns=["advantage", "auc", "epsilon_seen", "ess"])
    table.insert(0, "row", fit.rows[first[chosen]])
    table.insert(1, "advantage_one", one[chosen])
    few = np.isin(np.arange(fit.rows.max() + 1), table.loc[table["ess"] < FEW, "row"])
    if few.any():
        warnings.warn(
            f"less than {FEW} effective draws are left when the record is left out, in {rows(few)}: its numbers are "
            "not to be trusted; fit again with more draws=",
            stacklevel=2,
        )
    table = table.sort_values("advantage", ascending=False, kind="stable", ignore_index=True)
    others = 1 - (1 - float(one[rest].max())) ** fit.m if rest.size else 0.0
    return MembershipAttack(table, first.size, others, fit.m, 2 * fit.delta * fit.m)


def log_ratios(c: Floats, weight: Floats) -> Floats:
    """log r at every draw: (S, records), from contributions c (S, records) and probabilities of the draws (S,)."""
    highest = (-c).max(axis=0)
    return np.asarray(-c - (highest + np.log(weight @ np.exp(-c - highest))))


def advantage_of_one(log_r: Floats, weight: Floats) -> Floats:
    """Total variation distance between one draw "in" and one "out", 1/2 E_in |1 - r|: (records,)."""
    return np.asarray(weight @ np.abs(np.expm1(log_r)) / 2)


def play(log_r: Floats, weight: Floats, m: int, rng: np.random.Generator) -> tuple[float, float, float, float]:
    """The attack on one record from m independent draws: advantage, AUC, largest m |log r|, effective draws "out".

    Parameters
    ----------
    log_r : float array (S,)
        At every draw.
    weight : float array (S,)
        Probabilities of the draws "in"; "out" they are weight * r.
    """
    out = weight * np.exp(log_r)
    out = out / out.sum()
    inside, outside = (log_r[rng.choice(log_r.size, (GAMES, m), p=p)].sum(axis=1) for p in (weight, out))
    advantage = float(-np.expm1(np.minimum(inside, 0.0)).mean())
    ranks = rankdata(np.concatenate([inside, outside]))[GAMES:]  # ties count half
    auc = float((ranks.sum() - GAMES * (GAMES + 1) / 2) / GAMES**2)
    possible = log_r[weight > 0]
    return advantage, auc, float(m * np.abs(possible).max()), float(1 / (out @ out))


def _units(fit: Attacked) -> tuple[Codes, Codes, Codes]:
    """First record of each unit (U,); all records in the order of their units (n,); where each unit starts (U + 1,)."""
    n = fit.rows.size
    unit = np.arange(n) if fit.unit.of_record is None else fit.unit.of_record
    order = np.argsort(unit, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(unit))])
    return order[start[:-1]], order, start


def _blocks(fit: Attacked, order: Codes, start: Codes, units: Codes) -> Iterator[Floats]:
    """Contributions of some units, a few at a time: (S, units); those of a unit's records add up."""
    size = np.diff(start)[units]
    most = max(BLOCK // fit.weighted.posterior.size, 1)
    block = (np.cumsum(size) - size) // most
    for part in np.split(units, np.flatnonzero(np.diff(block)) + 1):
        members = np.concatenate([order[start[u] : start[u + 1]] for u in part])
        at = np.concatenate([[0], np.cumsum(np.diff(start)[part])[:-1]])
        yield np.add.reduceat(fit.contributions(members), at, axis=1)
