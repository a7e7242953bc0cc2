"""Shares of categories: the correction for the bias that privacy weights cause, and posterior draws of shares.

The model has K categories k with shares p_g[k] in public cells g (combinations of discrete predictors), and (y, w) is
normal given the predictors x(k).  The risk f of a record is the largest |log p| over posterior draws, and log p
includes the log share.  Records in rare categories have high risks and small privacy weights alpha, so the shares of
rare categories shrink.  If theta, the parameters, are the truth, the estimated share tends to

    p_lim_g[k] ~ p_g[k] E_theta[ alpha | g, k ].

**Risks.**  Shares in the risks have Beta distributions, as under a Dirichlet posterior.  A record of category k is one
of the n_g records of the cell, so 1 + (n_g - 1) p_g[k] records of the cell are expected in category k.

**The prior** counts as one record per cell, which is 1 / K record in each category.  The data count as A_g = n_g
E[alpha] records.  The correction also removes the contribution of the prior from the shares, except from shares smaller
than this contribution.

**Effects of PSUs.**  The effects b_c[k] of PSU c change the shares to p_gc[k] ~ p_g[k] exp(b_c[k]).  Records of a
category that is common in a PSU have lower risks there, so log E[alpha | g, k, c] is approximately log
kept_g[k] + slope b_c[k].  Then p_lim_g[k] ~ p_g[k] kept_g[k], and the estimates of the effects tend to 1 + slope times
the effects.

In shapes, m is the number of released draws, C of cells, P of public patterns (distinct rows of public predictors), R
of simulated PSUs, and S of posterior draws over which a risk is the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .fisher_consistency import CLOSE
from .patterns import PATTERNS, representative_patterns

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Shares:
    """Released shares of K categories within public cells.

    Attributes
    ----------
    log_p : float array (m, C, K)
        Released draws of log shares.  The shares add up to 1 in each cell.
    cell : int array (P,)
        Cell, 0 to C - 1, of each public pattern.  A pattern is a distinct row of public predictors.
    row : int array (P, K)
        Position in the model matrix ``X`` of each public pattern with each category.
    tilts : Tilts, optional
        Effects of PSUs on the shares.
    """

    log_p: Floats
    cell: Codes
    row: Codes
    tilts: Tilts | None = None

    @property
    def effects(self) -> Tilts:
        """Effects of PSUs on the shares.  If PSUs have no effects, these are effects 0 of a single PSU."""
        m, _, K = self.log_p.shape
        return self.tilts or Tilts(np.zeros((m, 1, K)), np.zeros(m), np.zeros(1))


@dataclass(frozen=True)
class Tilts:
    """Effects of R simulated PSUs on the log shares of K categories.

    Attributes
    ----------
    b : float array (m, R, K)
        Effects of the PSUs, simulated for each released draw.  They add up to 0 over the categories.
    sigma : float array (m,)
        Standard deviation of the effects of PSUs on log odds.
    size : float array (R,)
        Number of records of each of the R PSUs.
    """

    b: Floats
    sigma: Floats
    size: Floats


@dataclass(frozen=True)
class Pairs:
    """Combinations of a PSU, a pattern (combination of public predictors) and a category, called pairs.

    There are N = R P K pairs, and categories vary fastest.

    Attributes
    ----------
    X : float array (N, columns)
        Predictor row of each pair.
    size, cell : float and int arrays (R P,)
        Number of records of each PSU and pattern, and the cell of the pattern.
    psu_size : float array (R P,)
        Number of all records of the PSU, repeated for each pattern.
    cell_size : float array (C,)
        Number of records of each cell.
    K : int
        Number of categories.
    """

    X: Floats
    size: Floats
    cell: Codes
    psu_size: Floats
    cell_size: Floats
    K: int

    @cached_property
    def records(self) -> Floats:
        """Number of records, in any category, with the PSU and the pattern of each pair (PSU, pattern, category)."""
        return np.repeat(self.size, self.K)

    @cached_property
    def records_in_cell(self) -> Floats:
        """Number of records in the public cell that contains the pattern of each pair (PSU, pattern, category)."""
        return np.repeat(self.cell_size[self.cell], self.K)

    @cached_property
    def cell_and_category(self) -> Codes:
        """Public cell and category of each pair (PSU, pattern, category), as one number.

        The numbers (N,) run from 0 to C K - 1.
        """
        return np.asarray((self.cell[:, None] * self.K + np.arange(self.K)).ravel())

    def psu_effects(self, b: Floats) -> Floats:
        """Return, for each pair (PSU, pattern, category), the effect of the PSU on the category.

        ``b`` (R, K) are the effects of R PSUs on K categories, and the result is (N,).
        """
        return np.repeat(b, len(self.cell) // len(b), axis=0).ravel()

    def shares(self, log_p: Floats, b: Floats) -> Floats:
        """Compute, for each pair (PSU, pattern, category), the share of the category in the PSU and the pattern's cell.

        The result is (N,).  ``log_p`` (C, K) are the log shares in the cells, and ``b`` (N,) the effects of PSUs on log
        shares.
        """
        return np.asarray(np.exp(normalized(log_p[self.cell] + b.reshape(-1, self.K))).ravel())

    def tilt_errors(self, p: Floats, sigma: float) -> Floats:
        """Approximate, for each pair (PSU, pattern, category), the posterior standard deviation of the PSU's effect.

        The effect is on the log odds of the category, and the result is (N,).  ``p`` (N,) are the shares of the
        categories, and ``sigma`` is the standard deviation of the effects.
        """
        n_c = np.repeat(self.psu_size, self.K)
        return np.asarray(sigma / np.sqrt(1 + sigma**2 * n_c * p * (1 - p)))

    def kept(self, E_alpha: Floats, p: Floats, b: Floats) -> tuple[Floats, float]:
        """Return mean privacy weights by cell and category, and the slope of log privacy weights on effects of PSUs.

        ``E_alpha`` (N,) are the expected privacy weights of the pairs, and ``b`` (N,) the effects of PSUs.  The means
        are (C, K).  If all effects are 0, the slope is 0.  Otherwise a weighted regression of log E_alpha on b gives
        the means and the slope.  Its weights are the number of records times p (1 - p), where ``p`` (N,) are the shares
        of the pairs.
        """
        pair, shape = self.cell_and_category, (len(self.cell_size), self.K)
        pairs = shape[0] * shape[1]
        if not b.any():
            mean = np.bincount(pair, self.records * E_alpha, pairs) / np.bincount(pair, self.records, pairs)
            return mean.reshape(shape), 0.0
        log_alpha, weight = np.log(np.maximum(E_alpha, CLOSE)), self.records * np.maximum(p * (1 - p), CLOSE)
        total = np.bincount(pair, weight, pairs)

        def centred(x: Floats) -> Floats:
            return x - (np.bincount(pair, weight * x, pairs) / total)[pair]

        slope = float(weight @ (centred(b) * centred(log_alpha)) / (weight @ centred(b) ** 2))
        return np.exp(np.bincount(pair, weight * (log_alpha - slope * b), pairs) / total).reshape(shape), slope


def representative_pairs(shares: Shares, X: Floats, size: Floats, rng: np.random.Generator) -> Pairs:
    """Return the pairs (PSU, public pattern, category) of a representative sample of public patterns.

    ``X`` (G, columns) are the distinct predictor rows, and ``size`` (P,) are the numbers of records of the public
    patterns.
    """
    _, C, K = shares.log_p.shape
    among = shares.cell if K > 1 else np.zeros_like(shares.cell)
    selected, represented = representative_patterns(size, among, max(PATTERNS, 8 * X.shape[1]) // K, rng)
    psu_size = shares.effects.size
    R = len(psu_size)  # every PSU has the same patterns
    return Pairs(
        X=np.tile(X[shares.row[selected].ravel()], (R, 1)),
        size=np.tile(represented / R, R),
        cell=np.tile(shares.cell[selected], R),
        psu_size=np.repeat(psu_size, len(selected)),
        cell_size=np.asarray(np.bincount(shares.cell, size, C), dtype=np.float64),
        K=K,
    )


@dataclass(frozen=True)
class ShareNoise:
    """Random numbers from which S posterior draws of shares of categories are made.  All shares use the same numbers.

    Attributes
    ----------
    z, log_u : float arrays (2, S)
        Random numbers of two gamma variates: one of the category, and one of all other categories together.
    tilt : float array (S,), optional
        Standard normal numbers for the effects of PSUs.  None means that PSUs have no effects.
    """

    z: Floats
    log_u: Floats
    tilt: Floats | None

    @staticmethod
    def drawn(draws: int, tilted: bool, rng: np.random.Generator) -> ShareNoise:
        """Make the random numbers for S = ``draws`` posterior draws.

        ``tilted`` is True if PSUs have effects on shares.
        """
        z, log_u = rng.standard_normal((2, draws)), -rng.standard_exponential((2, draws))
        return ShareNoise(z, log_u, rng.standard_normal(draws) if tilted else None)

    def log_shares(self, p: Floats, n: Floats, K: int, error: Floats) -> Floats:
        """Make S posterior draws of each log share from the random numbers.  Shares have Beta distributions.

        The result is (pairs, S).

        Parameters
        ----------
        p, n : float arrays (pairs,)
            True share, and number of records of the cell.
        K : int
            Number of categories.
        error : float array (pairs,)
            Posterior standard deviation of the effect of the PSU on log odds.
        """
        here, elsewhere = 1 / K + 1 + (n - 1) * p, 1 - 1 / K + (n - 1) * (1 - p)
        ours, others = (_log_gamma(a, z, u) for a, z, u in zip((here, elsewhere), self.z, self.log_u, strict=True))
        if self.tilt is not None:
            ours = ours + error[:, None] * self.tilt
        return np.asarray(ours - np.logaddexp(ours, others))


def _log_gamma(shape: Floats, z: Floats, log_u: Floats) -> Floats:
    """Compute the logarithms of S gamma variates for each value of the ``shape`` parameter.

    The result is (shapes, S).  The variates are made from S standard normal numbers ``z`` and S logarithms ``log_u`` of
    uniform numbers U: Gamma(a) has the distribution of Gamma(a + 1) U^(1/a).  Gamma(a + 1) is approximated after Wilson
    & Hilferty (1931).
    """
    c = shape[:, None] + 1
    cube_root = np.maximum(1 - 1 / (9 * c) + z / (3 * np.sqrt(c)), 0.01)
    return np.asarray(np.log(c) + 3 * np.log(cube_root) + log_u / (c - 1))


def without_prior(log_p: Floats, A: Floats) -> Floats:
    """Remove the contribution of the prior from the released log shares (C, K) of K categories in C cells.

    ``A`` (C,) is the sum of privacy weights over the records of each cell.  The prior counts as one record per cell.
    Therefore a released share is about (1 / K + A p) / (1 + A), where p is the share without the prior.  If p would be
    negative, it becomes almost 0.
    """
    K = log_p.shape[1]
    p = ((1 + A[:, None]) * np.exp(log_p) - 1 / K) / np.maximum(A[:, None], CLOSE)
    return normalized(np.log(np.maximum(p, CLOSE * np.exp(log_p))))


def normalized(log_p: Floats) -> Floats:
    """Shift log shares so that the shares add up to 1 over the last axis of the array."""
    return np.asarray(log_p - logsumexp(log_p, axis=-1, keepdims=True))
