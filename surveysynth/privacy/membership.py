"""A membership attack on a fit: how well an intruder can infer whether a record was in the file.

The intruder knows every other record of the file D, the model and the privacy weights, and sees m parameter draws
theta ~ p(theta | D).  Record j contributes c_j(theta) to the log likelihood: its weighted (and perhaps clamped) log
density.  So

    p(theta | D)  is proportional to  prior(theta) prod_j exp(c_j(theta))

and leaving record i out re-weights the draws:

    r_i(theta) = p(theta | D without i) / p(theta | D) = exp(-c_i(theta)) / E_in exp(-c_i)

E_in is the mean over draws "in", from the fit to D.  Draws "out" are from the fit without record i.  The best test of
"in" against "out" uses r_i (Neyman-Pearson).  The advantage of this test, the true minus the false positive rate at
the best threshold, is the total variation distance

    TV_i = 1/2 E_in |1 - r_i|;   for m draws, E_in max(0, 1 - r_i(theta_1) ... r_i(theta_m))

An intruder who sees only synthetic data, which are made from the draws, knows less.  Under epsilon-differential privacy
for the addition or removal of a record, no advantage exceeds (e^epsilon - 1) / (e^epsilon + 1) (Kairouz, Oh &
Viswanath 2015).  Here epsilon is 2 Delta m, where Delta is the largest |c_i(theta)| over draws and records.  This
attack even remains below the bound for epsilon / 2: the range of log r_i is at most 2 Delta, and so the advantage from
m draws is at most the bound for epsilon / 2 (Dong, Durfee & Rogers 2020).

**This attack holds the privacy weights fixed, and so understates the advantage.**  If the weights are computed from the
file, one record changes the weights alpha_j of all other records j: the record changes their risks, and c1, which is
tuned to the largest bound.  So the most exposed records are really left out: without record i, risks, constants,
privacy weights and draws are computed again, and

    log r_i(theta) = sum_j (alpha'_j - alpha_j) log p_j(theta) - log(Z' / Z),     alpha'_i = 0,

where p_j is the density of record j, alpha'_j its privacy weight in the fit without record i, and Z and Z' are the
normalizing constants of the pseudo posteriors "in" and "out".  log(Z' / Z) is estimated by the acceptance ratio of
Bennett (1976).  The estimate is the C for which E sigma(l - C) over draws "in" equals E sigma(C - l) over draws "out",
where l is the sum and sigma(x) = 1 / (1 + e^-x).  Epsilon does not bound this r_i, since epsilon assumes fixed weights.

A simulated game is m draws "in" or m draws "out", which the intruder must tell apart.  All results concern single
records and are internal to the agency.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import rankdata

from ..errors import InputError, SurveySynthError
from ..models.draws import Draws
from ..validation import check_seed, rows, whole
from .budget import Budget
from .protected_fit import ProtectedFit
from .units import Unit

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK = 400_000  # largest number of contributions in memory at once
GAMES = 20_000  # games of m draws "in" and m draws "out" for each attacked record
REFIT = ["advantage_refit", "auc_refit", "beyond_refit", "loss_refit", "error_refit"]
NOT_REFITTED = (np.nan,) * 5
FEW = 100  # effective draws "out" below which re-weighting is unreliable


class Attacked(Protocol):
    """The attributes and methods of a fit (:class:`surveysynth.Fit`) that the membership attack uses."""

    budget: Budget
    rows: Codes
    unit: Unit
    weighted: ProtectedFit

    @property
    def risk(self) -> Floats:
        """Risk of each of the U records or groups of records that epsilon protects."""
        ...

    @property
    def weights_from_file(self) -> bool:
        """True if the privacy weights of other records change if a record is left out of the file."""
        ...

    def refitted(self, left_out: Sequence[int], rng: np.random.Generator) -> ProtectedFit:
        """Fit again without some of the protected units, whose positions are ``left_out``."""
        ...

    def log_ratio(self, other: ProtectedFit, posterior: Draws) -> Floats:
        """Return by how much the log pseudo likelihood is larger under ``other`` than under this fit, at each draw."""
        ...

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound Delta of the fit."""
        ...

    def contributions(self, records: Codes) -> Floats:
        """Return the contributions of some records to the log pseudo likelihood, at each draw (rows)."""
        ...


@dataclass(frozen=True)
class MembershipAttack:
    """Results of the best test of membership against the most exposed records, for the agency only.

    Attributes
    ----------
    records : pandas.DataFrame
        The attacked records, with the most exposed first.  ``row`` is the row in the confidential file, from 0 (for a
        unit the row of its first record).  The following columns are computed with fixed privacy weights:
        ``advantage_one`` (from one draw), ``advantage`` and ``auc`` (from m draws, by simulation, with standard errors
        of at most 0.005), ``epsilon_seen`` (m max |log r|) and ``ess``, the effective number of draws "out".  The other
        columns come from a refit without the record, and are NaN without a refit: ``advantage_refit``, ``auc_refit``,
        ``beyond_refit`` (probability that the privacy loss |sum of log r over m draws| of a release exceeds epsilon),
        ``loss_refit`` (m max |log r| over the draws of the two fits) and ``error_refit``, the standard error of
        m log(Z' / Z).  Here r is the ratio of the posterior densities without the record ("out") and with it ("in"),
        and Z' / Z is the ratio of their normalizing constants.
    screened : int
        Number of records, or units, that were examined with one draw.
    others : float
        Upper bound on the advantage, with fixed privacy weights, against the records that were not attacked:
        1 - (1 - TV)^m, where TV is the largest advantage from one draw.  The bound is 0 if all records were attacked.
    refitted : int
        Number of records, or units, that were attacked by a refit without them.
    refused : int
        Number of records, or units, without which the file could not be fitted.
    same_file : float or None
        Advantage with which two fits of the same file are distinguished.  These fits differ only because draws, and
        constants tuned on draws, are random.  None means that there were no refits.
    m : int
        Number of draws that the intruder sees.
    epsilon : float
        The exact epsilon, 2 Delta m, of the m draws.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(200, seed=1)
    >>> fit = ss.fit(design, ss.FBS("salary ~ gender", prior="flat"), epsilon=10.8, mechanism=ss.PseudoPosterior())
    >>> attack = ss.membership_attack(fit, records=5, refit=0)
    >>> bool(attack.records["advantage"].is_monotonic_decreasing), attack.refitted
    (True, 0)
    """

    records: pd.DataFrame
    screened: int
    others: float
    m: int
    epsilon: float
    refitted: int = 0
    refused: int = 0
    same_file: float | None = None

    @property
    def advantage(self) -> float:
        """The largest advantage (true minus false positive rate) from m draws, with or without a refit."""
        return float(self.records[["advantage", "advantage_refit"]].max().max())

    @property
    def bound(self) -> float:
        """The largest advantage that epsilon allows: (e^epsilon - 1) / (e^epsilon + 1)."""
        return float(np.tanh(self.epsilon / 2))

    def __str__(self) -> str:
        few = int((self.records["ess"] < FEW).sum())
        attacked = f"the {len(self.records):,} most exposed of {self.screened:,} records"
        lines = [
            f"Membership attack on {attacked}, from the m = {self.m} parameter draws behind a release, with privacy "
            f"weights held fixed: largest advantage {self.records['advantage'].max():.3f} (AUC "
            f"{self.records['auc'].max():.3f}); epsilon = {self.epsilon:.4g} allows up to {self.bound:.3f}. No other "
            f"record has more than {self.others:.3f}.",
            *self._refit_lines(),
            f"An intruder who knows all other records, sees these draws, and takes in and out as equally likely, "
            f"guesses right in {(1 + self.advantage) / 2:.1%} of cases, instead of 50%. An intruder who sees only the "
            "synthetic data knows less.",
            "Not shown: the advantage over records that were not refitted; changes of the mean of the survey weights "
            "and of risks by counting, which are held fixed; what an intruder learns about values.",
            "Internal: these results concern single records.",
        ]
        if few:
            lines.append(
                f"Unreliable for {few:,} of the attacked records: less than {FEW} effective draws remain without the "
                "record, which is itself a sign of its influence."
            )
        return "\n".join(lines)

    __repr__ = __str__

    def _refit_lines(self) -> list[str]:
        lines = []
        if self.refitted:
            table = self.records.dropna(subset="advantage_refit")
            lines.append(
                "By refits, with risks, constants, privacy weights and draws computed without the record "
                f"({self.refitted:,} of them): largest advantage {table['advantage_refit'].max():.3f} (AUC "
                f"{table['auc_refit'].max():.3f}); the loss of a release exceeds epsilon with probability up to "
                f"{table['beyond_refit'].max():.2f}, as epsilon does not cover constants tuned on the file. Two fits "
                f"of the same file are distinguished with advantage {self.same_file:.3f}."
            )
        if self.refused:
            lines.append(
                f"Without {self.refused:,} further records the file has no fit: a release reveals that they are in it."
            )
        return lines


def membership_attack(
    fit: Attacked, records: int = 100, *, refit: int = 10, seed: int | None = None
) -> MembershipAttack:
    """Attack the most exposed records of a fit with the best test of membership.

    First every record is examined with one draw.  The records with the largest advantage are then attacked with m
    draws.  Both steps hold privacy weights fixed.  Some records are attacked again by a refit: risks, constants such
    as c1, privacy weights and draws are computed without the record, and the intruder must distinguish the draws of the
    two fits.  If epsilon protects groups of records, a whole group is left out.

    The attack shows what the fit of one file reveals to an intruder who knows all other records and the privacy weights
    of each of the two fits, and sees the m parameter draws.  The results are not a bound over all files.  Records
    without a refit may be more exposed than the columns with fixed weights show.

    Parameters
    ----------
    fit : surveysynth.Fit
        The fit to attack.
    records : int
        Number of records attacked with m draws.
    refit : int
        Number of records that are attacked by a refit: alternately the records with the largest risks and the records
        with the largest advantage.  This takes one fit for each of these records, and one more to the whole file.  If
        privacy weights do not depend on other records (a policy, ``Censored(weighted=False)``) nothing is refitted,
        because re-weighting the draws is exact.
    seed : int, optional
        Seed of the simulated attacks and the refits.  A seed is safe here, as nothing is released.

    Returns
    -------
    MembershipAttack
        Results about single records, for the agency only.

    Raises
    ------
    InputError
        ``fit`` is not a fit or has no privacy protection, or a number is out of range.

    Warns
    -----
    UserWarning
        For some records, less than 100 effective draws remain when the record is left out.

    Notes
    -----
    The test is that of Neyman & Pearson (1933); the ratio of normalizing constants is from Bennett (1976, eq. 12).

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(200, seed=1)
    >>> fit = ss.fit(design, ss.FBS("salary ~ gender", prior="flat"), epsilon=10.8, mechanism=ss.PseudoPosterior())
    >>> attack = ss.membership_attack(fit, records=5, refit=0)
    >>> attack.records.shape[0], attack.screened
    (5, 200)
    """
    if not hasattr(fit, "contributions"):
        raise InputError("membership_attack needs a fit: surveysynth.fit(design, synthesizer, epsilon=...)")
    if getattr(fit, "kind", None) == "none":
        raise InputError(
            "membership_attack is about draws of parameters, and these files are drawn given the confidential records: "
            "use identification_risk"
        )
    records = whole(records, "records")
    refit = 0 if refit == 0 or not fit.weights_from_file else whole(refit, "refit")
    check_seed(seed)
    rng = np.random.default_rng(seed)
    weight = fit.weighted.posterior.weight
    first, order, start = _units(fit)
    one = np.concatenate([
        advantage_of_one(log_ratios(c, weight), weight) for c in _blocks(fit, order, start, np.arange(first.size))
    ])  # fmt: skip
    by_exposure = np.argsort(-one, kind="stable")
    turns = np.column_stack([np.argsort(-fit.risk, kind="stable"), by_exposure]).ravel() if refit else by_exposure[:0]
    to_refit = turns[np.sort(np.unique(turns, return_index=True)[1])][:refit]
    after = by_exposure[~np.isin(by_exposure, to_refit)]
    attacked, rest = np.split(np.concatenate([to_refit, after]), [max(records, to_refit.size)])
    found = [
        play(log_r, weight, fit.budget.m, rng)
        for c in _blocks(fit, order, start, attacked)
        for log_r in log_ratios(c, weight).T
    ]  # fmt: skip
    table = pd.DataFrame(found, columns=["advantage", "auc", "epsilon_seen", "ess"])
    table.insert(0, "row", fit.rows[first[attacked]])
    table.insert(1, "advantage_one", one[attacked])
    few = np.isin(np.arange(fit.rows.max() + 1), table.loc[table["ess"] < FEW, "row"])
    if few.any():
        warnings.warn(
            f"less than {FEW} effective draws are left when the record is left out, in {rows(few)}: its numbers are "
            "unreliable; fit again with more draws=",
            stacklevel=2,
        )
    without = [_refitted(fit, [unit], rng) for unit in to_refit.tolist()]
    table[REFIT] = np.array([*without, *[NOT_REFITTED] * (len(table) - to_refit.size)])
    refused = int(np.isnan(without).any(axis=1).sum()) if without else 0
    same = _refitted(fit, [], rng)[0] if refit else None
    table = table.sort_values("advantage", ascending=False, kind="stable", ignore_index=True)
    others = 1 - (1 - float(one[rest].max())) ** fit.budget.m if rest.size else 0.0
    return MembershipAttack(
        table, first.size, others, fit.budget.m, fit.budget.spent(fit.delta), to_refit.size - refused, refused, same
    )


def _refitted(fit: Attacked, left_out: Sequence[int], rng: np.random.Generator) -> tuple[float, ...]:
    """Fit again without some units, and simulate the test of the original fit against this fit (:func:`between`).

    All results are NaN if the model cannot be fitted without these units.
    """
    try:
        other = fit.refitted(left_out, rng)
    except SurveySynthError:
        return NOT_REFITTED
    here, there = fit.weighted.posterior, other.posterior
    inside, outside = fit.log_ratio(other, here), fit.log_ratio(other, there)
    return between(inside, here.weight, outside, there.weight, fit.budget.m, fit.budget.spent(fit.delta), rng)


def between(
    inside: Floats, weight_in: Floats, outside: Floats, weight_out: Floats, m: int, epsilon: float,
    rng: np.random.Generator,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """Simulate the test of whether m draws come from the fit "in" (with some units) or the fit "out" (without them).

    Return the five columns ``*_refit`` of :class:`MembershipAttack`: advantage, AUC, beyond, loss and error.

    Parameters
    ----------
    inside, outside : float arrays (S,), (S',)
        Log of the unnormalized density "out" minus log of the unnormalized density "in", at S draws "in" and S' draws
        "out".
    weight_in, weight_out : float arrays (S,), (S',)
        Probabilities of the draws.
    """
    log_z, error = log_normalizers(inside, weight_in, outside, weight_out)
    log_in = (inside - log_z)[rng.choice(inside.size, (GAMES, m), p=weight_in)].sum(axis=1)
    log_out = (outside - log_z)[rng.choice(outside.size, (GAMES, m), p=weight_out)].sum(axis=1)
    advantage = float((log_in < 0).mean() - (log_out < 0).mean())
    beyond = float((np.abs(log_in) > epsilon).mean())
    seen = np.concatenate([inside[weight_in > 0], outside[weight_out > 0]]) - log_z
    return advantage, _auc(log_in, log_out), beyond, float(m * np.abs(seen).max()), m * error


def log_normalizers(inside: Floats, weight_in: Floats, outside: Floats, weight_out: Floats) -> tuple[float, float]:
    """Estimate the log ratio of the normalizing constants of two posteriors, and the standard error of this estimate.

    The ratio is Z_out / Z_in.  The parameters are those of :func:`between`, and the source is the acceptance ratio of
    Bennett (1976).
    """

    def excess(c: float) -> float:
        return float(weight_in @ expit(inside - c) - weight_out @ expit(c - outside))

    low, high = min(inside.min(), outside.min()), max(inside.max(), outside.max())
    c = float(brentq(excess, low - 50, high + 50, xtol=1e-10))
    slope, variance = 0.0, 0.0
    for weight, p in ((weight_in, expit(inside - c)), (weight_out, expit(c - outside))):
        slope += float(weight @ (p * (1 - p)))
        variance += float(weight @ (p - weight @ p) ** 2) * float(weight @ weight)
    return c, float(np.sqrt(variance) / slope) if slope > 0 else np.inf


def log_ratios(c: Floats, weight: Floats) -> Floats:
    """Return the log ratio of the posterior densities without and with each record, at each draw.

    c (S, records) are the records' contributions to the log likelihood in S draws.  ``weight`` are the probabilities of
    the draws.
    """
    highest = (-c).max(axis=0)
    return np.asarray(-c - (highest + np.log(weight @ np.exp(-c - highest))))


def advantage_of_one(log_r: Floats, weight: Floats) -> Floats:
    """Return, for each record, the advantage of the best test of membership from one draw.

    It is half the mean of |1 - r|, where r is the ratio of the posterior densities without and with the record.  The
    mean is over draws from the fit with the record, whose probabilities are ``weight``.
    """
    return np.asarray(weight @ np.abs(np.expm1(log_r)) / 2)


def play(log_r: Floats, weight: Floats, m: int, rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Simulate the attack on one record from m draws.

    Return the advantage, the AUC, the largest m |log r|, and the effective number of draws "out".

    Parameters
    ----------
    log_r : float array (S,)
        At every draw, the log of r, the ratio of the posterior densities without the record ("out") and with it ("in").
    weight : float array (S,)
        Probabilities of the draws "in".  The probabilities "out" are weight * r.
    """
    out = weight * np.exp(log_r)
    out = out / out.sum()
    inside, outside = (log_r[rng.choice(log_r.size, (GAMES, m), p=p)].sum(axis=1) for p in (weight, out))
    advantage = float(-np.expm1(np.minimum(inside, 0.0)).mean())
    possible = log_r[weight > 0]
    return advantage, _auc(inside, outside), float(m * np.abs(possible).max()), float(1 / (out @ out))


def _auc(inside: Floats, outside: Floats) -> float:
    """Return the probability that a value of ``outside`` is larger than a value of ``inside``.  Ties count half."""
    ranks = rankdata(np.concatenate([inside, outside]))[GAMES:]
    return float((ranks.sum() - GAMES * (GAMES + 1) / 2) / GAMES**2)


def _units(fit: Attacked) -> tuple[Codes, Codes, Codes]:
    """Sort records by protected unit, and return each unit's first record, the sorted records, and the units' starts.

    The starts are positions in the sorted records, with the number of records at the end.
    """
    n = fit.rows.size
    unit = np.arange(n) if fit.unit.by_record is None else fit.unit.by_record
    order = np.argsort(unit, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(unit))])
    return order[start[:-1]], order, start


def _blocks(fit: Attacked, order: Codes, start: Codes, units: Codes) -> Iterator[Floats]:
    """Yield the contributions of units to the log likelihood at each draw, in blocks of a few units.

    A block has draws in rows and units in columns.  ``order`` has the records sorted by unit, and ``start`` the
    position at which each unit begins (:func:`_units`).
    """
    size = np.diff(start)[units]
    most = max(BLOCK // fit.weighted.posterior.size, 1)
    block = (np.cumsum(size) - size) // most
    for part in np.split(units, np.flatnonzero(np.diff(block)) + 1):
        members = np.concatenate([order[start[u] : start[u + 1]] for u in part])
        at = np.concatenate([[0], np.cumsum(np.diff(start)[part])[:-1]])
        yield np.add.reduceat(fit.contributions(members), at, axis=1)
