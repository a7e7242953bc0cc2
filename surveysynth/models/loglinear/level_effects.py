"""Effects of strata or PSUs on a response, in addition to the effects of the terms of a formula.

Each stratum or PSU is called a level l.  A row r of the model is a set of records with the same distribution of the
response, whose cells g are bins of numbers and special values.  With the formula's effects alone, a record of row r is
in cell g with probability p_0(g | r).  With the effect of its level,

    p(g | r)  is proportional to  p_0(g | r) exp(sum_k b_lk f_k(g)),    b_l ~ N(0, diag(q)),

with basis functions f_k and coefficients b_lk of variance q_k.  Levels are independent given q, so that a thousand
levels need only a thousand small systems of equations.  Draws of these effects include sampling error; draws of the
formula's effects do not.

Shapes: R rows, G cells, L levels, K basis functions, J groups of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .bases import Response, Variances
from .response import LEAST_NOISE
from .table_fit import Components, renewed
from .table_model import Codes, Floats

RENEWALS = 60  # most updates of V and of the variance components
BENDS = 2  # most bends of an effect; the few groups of cells identify no more
LONGEST = 2.0  # largest step of a log probability
STILL = 1e-2  # change at which the iteration ends
LESS = 0.05  # guessed variance of level effects, divided by the guessed variance of the formula's effects
WIDE = 40.0  # relative standard error of a guessed variance that is combined with counts of pairs
LEAST, MOST = 1e-6, 4.0  # bounds of a variance; its estimate is infinite if each level has records in one cell only


@dataclass(frozen=True, eq=False, repr=False)
class LevelRows:
    """Rows of a log-linear model, with the level of each row: the stratum or PSU to which its records belong."""

    p: Floats  # (R, G) probabilities of the cells without the effects of levels
    records: Floats  # (R,) expected number of records of each row
    level: Codes  # (R,) level of each row
    levels: int  # L

    def tilted(self, effects: Floats) -> LevelRows:
        """Return the rows with ``effects`` (L, G) of strata or PSUs added to the log probabilities of cells."""
        return LevelRows(tilted(self.p, effects, self.level), self.records, self.level, self.levels)

    def at(self, level: Codes, levels: int) -> LevelRows:
        """Return the same rows with another stratum or PSU for each row: ``level`` (R,), from 0 to ``levels`` - 1."""
        return LevelRows(self.p, self.records, level, levels)

    @cached_property
    def _by_level(self) -> tuple[Codes, Codes, Codes]:
        """Row numbers sorted by stratum or PSU, the strata or PSUs that occur, and the first position of each."""
        order = np.argsort(self.level, kind="stable")
        return order, *np.unique(self.level[order], return_index=True)

    def sums(self, values: Floats) -> Floats:
        """Sum ``values`` over the expected records of each stratum or PSU.

        ``values`` (R, ...) has the value of the records of each row.  Return an array (L, ...).
        """
        order, found, first = self._by_level
        out = np.zeros((self.levels, *values.shape[1:]))
        records = self.records[order].reshape(-1, *[1] * (values.ndim - 1))
        out[found] = np.add.reduceat(values[order] * records, first, axis=0)
        return out

    def moments(self, groups: Floats, basis: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the expected counts by stratum or PSU, and the derivatives and covariances of these counts.

        The counts (L, J) are of records in J groups of cells; ``groups`` (G, J) are the 0-1 indicators of the groups.
        The derivatives (L, J, K) of a stratum's or PSU's counts are with respect to its K coefficients, which multiply
        the functions ``basis`` (G, K).  The covariances are an array (L, J, J).
        """
        m = self.p @ groups
        inside = np.stack([(self.p * f) @ groups for f in basis.T], axis=2)
        derivatives = self.sums(inside - m[:, :, None] * (self.p @ basis)[:, None, :])
        mu = self.sums(m)
        covariance = mu[:, :, None] * np.eye(groups.shape[1]) - self.sums(m[:, :, None] * m[:, None, :])
        return mu, derivatives, covariance


@dataclass(frozen=True, eq=False, repr=False)
class LevelEffects:
    """Normal distribution of the effects of L strata or PSUs (levels): K coefficients for each level."""

    basis: Floats  # (G, K) basis functions over the cells of the response
    mean: Floats  # (L, K) means of the coefficients
    root: Floats  # (L, K, K) lower Cholesky factors of the covariances of the coefficients

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw coefficients (L, K) of strata or PSUs from their posterior distribution."""
        return self.mean + (self.root @ rng.standard_normal((*self.mean.shape, 1)))[:, :, 0]

    def log_changes(self, coefficients: Floats) -> Floats:
        """Convert ``coefficients`` (L, K) of strata or PSUs to effects (L, G) on the log probabilities of cells."""
        return coefficients @ self.basis.T


def tilted(p: Floats, effects: Floats, level: Codes) -> Floats:
    """Add the effects of strata or PSUs to the log probabilities of cells, and return the new probabilities.

    ``p`` (R, G) are the probabilities of cells in each row of the model.  ``level`` (R,) is the row's stratum or PSU.
    ``effects`` (L, G) are the effects of strata or PSUs.
    """
    w = p * np.exp(effects - effects.max(axis=1, keepdims=True))[level]
    return w / w.sum(axis=1, keepdims=True)


def fit_levels(response: Response, rows: LevelRows, groups: Floats, counts: Floats, noise: float) -> LevelEffects:
    """Estimate the effects of strata or PSUs (levels) from noisy counts in every level.

    The variances of the effects are estimated by maximum evidence (MacKay 1992).

    Parameters
    ----------
    response : Response
        The cells of the response.
    rows : LevelRows
        The rows of the model without effects of levels.
    groups : float array (G, J)
        0-1 indicators of J groups of cells.
    counts : float array (L, J)
        Noisy counts of the records in each group, in every level.
    noise : float
        Variance of the noise of each count.
    """
    basis, relative, component, components = _level_effect(response)
    noise = max(noise, LEAST_NOISE)
    L, K = rows.levels, basis.shape[1]
    variance, b = components.variance.copy(), np.zeros((L, K))
    for _ in range(RENEWALS):
        q = relative * variance[component]
        mu, D, S = rows.tilted(b @ basis.T).moments(groups, basis)
        information = np.swapaxes(D, 1, 2) @ np.linalg.inv(S + noise * np.eye(len(S[0])))
        H = information @ D + np.diag(1 / q)
        step = np.linalg.solve(H, information @ (counts - mu)[:, :, None] - (b / q)[:, :, None])[:, :, 0]
        longest = np.abs(step @ basis.T).max(axis=1, keepdims=True)
        b = b + step * np.minimum(1, LONGEST / np.maximum(longest, 1e-12))
        posterior = np.linalg.inv(H)
        diagonal = np.diagonal(posterior, axis1=1, axis2=2)
        found = renewed(
            b.ravel(), diagonal.ravel(), np.tile(relative, L), np.tile(component, L), variance, components, MOST
        )  # fmt: skip
        still = np.abs(np.log(found / variance)).max() < STILL and longest.max() < STILL * 10
        variance = found
        if still:
            break
    return LevelEffects(basis, b, np.linalg.cholesky(posterior))


def levels_from_pairs(
    response: Response, rows: LevelRows, groups: Floats, counts: Floats, noise: float, pairs: Floats,
    coarser: Sequence[LevelEffects] = (),
) -> LevelEffects:  # fmt: skip
    """Estimate the variances of effects of strata or PSUs (levels) from a noisy table of record pairs within levels.

    Records are paired at random within their level, and the table counts the pairs of all levels by the groups of the
    two records.  The returned effects have mean 0, because the table has no counts of single levels.  Effects of levels
    make the records of a pair similar.  The expected table is the table for independent records plus

        sum_k q_k sum_l P_l d_lk d_lk',

    where q_k is the variance of the coefficient b_lk of basis function k in level l, P_l the number of pairs of level
    l, and d_lk the derivative of the probabilities of the groups, for a record of level l, with respect to b_lk.  Each
    variance is a weighted mean of the estimate from pairs and a weak guess.

    Parameters
    ----------
    response, rows, groups, noise
        See :func:`fit_levels`.
    counts : float array (J, J)
        Noisy counts of pairs of records of one level, by the groups of the two records.
    pairs : float array (L,)
        Number of pairs of each level.
    coarser : sequence of LevelEffects
        Effects of coarser levels that contain these levels, such as strata that contain PSUs.  The coarser effects also
        make the records of a pair similar, so their variances are subtracted.
    """
    basis, relative, component, components = _level_effect(response)
    m = rows.p @ groups
    mu, D, _ = rows.moments(groups, basis)
    n = rows.sums(np.ones(len(m)))
    P, own = pairs, rows.sums(m[:, :, None] * m[:, None, :])
    different = (mu[:, :, None] * mu[:, None, :] - own) / np.maximum(n * (n - 1), 1)[:, None, None]
    independent = np.sum(P[:, None, None] * different, axis=0)
    d = D / np.maximum(n, 1)[:, None, None]
    variance = components.variance.copy()
    for c, contrasts in enumerate(_contrasts(response, groups)):
        inside = np.einsum("aj,ljk->lak", contrasts, d[:, :, component == c]) ** 2 * relative[component == c]
        expected = np.sum(P[:, None, None] * inside)  # expectation of ``alike`` divided by the variance
        alike = np.einsum("aj,jk,ak->", contrasts, counts - independent, contrasts)
        error = np.einsum("aj,jk,ak->", contrasts**2, np.maximum(independent, 0) + noise, contrasts**2)
        worth = error / (WIDE * variance[c]) ** 2
        found = (alike * expected + worth * variance[c]) / (expected**2 + worth) if len(contrasts) else LEAST
        variance[c] = np.clip(found, LEAST, MOST)
    known = sum(np.mean(np.sum(effect.root**2, axis=2), axis=0) for effect in coarser)
    q = np.maximum(relative * variance[component] - known, LEAST)
    L, K = rows.levels, basis.shape[1]
    return LevelEffects(basis, np.zeros((L, K)), np.broadcast_to(np.diag(np.sqrt(q)), (L, K, K)))


def _level_effect(response: Response) -> tuple[Floats, Floats, Codes, Components]:
    variances = Variances()
    effect = response.effect(np.ones((1, 1)), variances, BENDS)
    guess = variances.components
    return effect.basis, effect.relative, effect.component, Components(LESS * guess.variance, guess.worth)


def _contrasts(response: Response, groups: Floats) -> list[Floats]:
    """Return the scores of groups of cells from which each variance component is estimated.

    Return an array (A, J) of A scores for each component.  The covariance of a score between the two records of a pair
    determines the component.
    """
    found, many = [], len(response.p) - response.numbers
    if response.numbers:
        inside = groups[: response.numbers].T * response.bins
        score = inside @ response.scores / np.maximum(inside.sum(axis=1), 1e-12)
        found = [score[None], np.zeros((0, len(score)))]  # a tilt, and no function for bends, whose variance is least
    if many:
        found.append(groups[response.numbers :])
    return found
