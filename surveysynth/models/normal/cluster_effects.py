"""Normal effects of PSUs, strata or both on outcomes and log weight, given the parameters.

    Y_i = B' x_i + v_h(i) + u_c(i) + e_i,   e ~ N(0, Sigma),  u_c ~ N(0, T_1),  v_h ~ N(0, T_2),

for PSU c in stratum h.  The density p(Y_i | x_i, B, u, v, Sigma) of a record is raised to the power of its privacy
weight alpha_i.  Write Sigma = L L' and T_k = L diag(tau_k) L'.  In the coordinates l_j' Y, where l_j' is a row of L^-1,
column j is a univariate mixed model with unit error variance and effects of variance tau_1j and tau_2j.

Given (B, L, tau), effects are normal.  Effects are drawn exactly or integrated out of the likelihood.  Both need only
sums over the records of each PSU.  :mod:`surveysynth.models.normal.variance_components` draws (B, L, tau).

Shapes: S draws, n records, G distinct predictor rows, K predictors, D columns of Y, C groups (PSUs, or strata if only
strata have effects).  ``levels`` is 2 if both PSUs and strata have effects, and 1 otherwise; H is the number of strata,
if there are two levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..predictors.groups import Groups
from ..regression.sufficient_statistics import SufficientStatistics, sufficient_statistics

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Singles = NDArray[np.float32]

BLOCK = 4_000_000  # numbers in a block of draws


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class GroupedStatistics:
    """Sums over all records and by PSU or stratum, from which the likelihood of a model with effects is computed.

    Attributes
    ----------
    total : SufficientStatistics
        Sums over all records.
    a : float array (C,)
        Sums of the privacy weights alpha over the records of each group.
    s, t : float arrays (C, K), (C, D)
        Sums of alpha x and of alpha Y over the records of each group.  x are the predictors, and Y are the outcomes on
        their working scales and, unless the weight is public, log(w / mean w).
    parent : int array (C,) or None
        Stratum of each group, if there are two levels.
    """

    total: SufficientStatistics
    a: Floats
    s: Floats
    t: Floats
    parent: Codes | None


def grouped_statistics(X: Floats, pattern: Codes, Y: Floats, alpha: Floats, groups: Groups) -> GroupedStatistics:
    """Sum the privacy weights, and the weighted predictors and outcomes, over the records of each PSU or stratum.

    The sums are of alpha_i, alpha_i x_i and alpha_i Y_i over the records i of a group.  The sufficient statistics of
    all records together are computed as well.  The memory is O(n D + C K).

    Parameters
    ----------
    X : float array (G, K)
        Distinct predictor rows.
    pattern : int array (n,)
        Row of ``X`` of each record.
    Y : float array (n, D)
        Outcomes on their working scales and, unless the weight is public, log(w / mean w).
    alpha : float array (n,)
        Privacy weights.
    groups : Groups
        The group of each record, and the stratum of each group.
    """
    C = groups.size

    def sums(x: Floats) -> Floats:
        return np.asarray(np.bincount(groups.record, x, C), dtype=np.float64)

    s = np.asarray(csr_array((alpha, (groups.record, pattern)), shape=(C, len(X))) @ X)
    t = np.array([sums(alpha * y) for y in Y.T]).reshape(Y.shape[1], C).T
    return GroupedStatistics(sufficient_statistics(X, pattern, Y, alpha), sums(alpha), s, t, groups.parent)


def draw_strata(statistics: GroupedStatistics, B: Floats, L: Floats, tau: Floats, rng: np.random.Generator) -> Singles:
    """Draw effects of strata exactly, given S draws of the parameters, after integrating over effects of PSUs.

    Parameters
    ----------
    statistics : GroupedStatistics
        Sums over the records of each group.
    B, L, tau : float arrays (S, K, D), (S, D, D), (S, levels, D)
        Draws of the coefficients, of the Cholesky factor of the residual covariance, and of the variance ratios.

    Returns
    -------
    float32 array (S, H, D)
        Effects are rounded to single precision.  The rounded effects are the draws, so densities given the draws are
        exact.  If only strata have effects, H is C.
    """
    C, D = len(statistics.a), L.shape[1]
    member = None if statistics.parent is None else membership(statistics.parent)
    out = np.empty((len(B), C if member is None else member.shape[0], D), dtype=np.float32)
    a, sums = statistics.a[:, None], np.hstack([statistics.t, statistics.s])
    step = max(1, BLOCK // (C * D))
    for s in range(0, len(B), step):
        part = slice(s, min(len(B), s + step))
        residual = _residual_sums(sums, B[part], L[part])
        weight = np.broadcast_to(a, residual.shape[1:])[None]
        if member is not None:
            shrink = 1 / (1 + a * tau[part, 0, None])
            weight, residual = _sums(member, a * shrink), _sums(member, residual * shrink)
        out[part] = _draw_means(weight, residual, tau[part, -1, None], rng) @ L[part].swapaxes(1, 2)
    return out


def log_likelihood(statistics: GroupedStatistics, B: Floats, L: Floats, tau: Floats, above: Singles | None) -> Floats:
    """Return the log pseudo likelihood in each of S draws (S,), integrated over the effects of PSUs or strata.

    Parameters
    ----------
    statistics : GroupedStatistics
        Sums over the records of each group: each PSU, or each stratum if only strata have effects.
    B, L, tau : float arrays (S, K, D), (S, D, D), (S, levels, D)
        Draws of the coefficients, of the Cholesky factor of the residual covariance, and of the variance ratios.
    above : float32 array (S, H, D) or None
        Effects of strata, if PSUs and strata have effects.  The likelihood is conditional on the effects of strata.
    """
    total, C, D = statistics.total, len(statistics.a), L.shape[1]
    a, sums = statistics.a[:, None], np.hstack([statistics.t, statistics.s])
    cross = np.block([[total.Q, total.P.T], [total.P, total.C0]])
    out = np.empty(len(B))
    step = max(1, BLOCK // max(1, C * D))
    for i in range(0, len(B), step):
        part = slice(i, min(len(B), i + step))
        W = np.linalg.inv(L[part])
        contrast = _contrast(B[part]) @ W.swapaxes(1, 2)  # maps [Y, x] to l_j' (Y - B' x)
        square = np.einsum("spj,pq,sqj->sj", contrast, cross, contrast, optimize=True)
        residual = sums @ contrast
        if above is not None:
            v = (above[part].astype(np.float64) @ W.swapaxes(1, 2))[:, statistics.parent]
            square += (a * v**2 - 2 * residual * v).sum(axis=1)
            residual = residual - a * v
        own = tau[part, 0, None]
        square -= (own / (1 + a * own) * residual**2).sum(axis=1)
        log_det = np.log1p(a * own).sum(axis=(1, 2)) / 2 + total.A * np.log(np.einsum("sdd->sd", L[part])).sum(axis=1)
        out[part] = -square.sum(axis=1) / 2 - log_det - total.A * D / 2 * np.log(2 * np.pi)
    return out


def log_likelihood_without_effects(statistics: SufficientStatistics, B: Floats, L: Floats) -> Floats:
    """Return the log pseudo likelihood (S,) of a model without effects of PSUs and strata, in each of S draws."""
    S, K, D = B.shape
    nobody = GroupedStatistics(statistics, np.empty(0), np.empty((0, K)), np.empty((0, D)), None)
    return log_likelihood(nobody, B, L, np.zeros((S, 1, D)), None)


def _contrast(B: Floats) -> Floats:
    """Return, for each draw of the coefficients B, the matrix that turns outcomes and predictors into residuals.

    The matrix (D + K, D) turns [Y, x] into Y - B' x.
    """
    S, _, D = B.shape
    return np.concatenate([np.broadcast_to(np.eye(D), (S, D, D)), -B], axis=1)


def _residual_sums(sums: Floats, B: Floats, L: Floats) -> Floats:
    """Sum the weighted, scaled residuals over the records of each PSU or stratum, in each draw.

    The sums (S, C, D) are of alpha l_j' (Y - B' x), where l_j' is row j of L^-1.  ``sums`` (C, D + K) are the sums of
    alpha [Y, x] over the records of each group.
    """
    return np.asarray(sums @ (_contrast(B) @ np.linalg.inv(L).swapaxes(1, 2)))


def _draw_means(a: Floats, r: Floats, tau: Floats, rng: np.random.Generator) -> Floats:
    """Draw means from their posteriors: the prior is N(0, tau), and ``a`` records of variance 1 have the sum ``r``."""
    variance = tau / (1 + a * tau)
    return np.asarray(variance * r + np.sqrt(variance) * rng.standard_normal(r.shape))


def new_effects(root: Floats, groups: Groups, above: Singles | None, rng: np.random.Generator) -> Floats:
    """Draw effects of new PSUs from N(0, root root'), and add the effects ``above`` of the PSUs' strata.

    Return an array (C, D).  ``root`` has the shape (D, D), and ``above`` (H, D).  If ``above`` is None, nothing is
    added.
    """
    effect = rng.standard_normal((groups.size, len(root))) @ root.T
    return np.asarray(effect if above is None else effect + above[groups.parent])


def membership(parent: Codes) -> csr_array:
    """Return a 0-1 matrix (H, C): 1 if PSU c belongs to stratum h.  ``parent`` (C,) is the stratum of each PSU."""
    C = len(parent)
    return csr_array((np.ones(C), (parent, np.arange(C))), shape=(int(parent.max()) + 1, C))


def _sums(member: csr_array, x: Floats) -> Floats:
    """Sum ``x`` over the PSUs of each stratum, in each draw.

    ``x`` has the shape (s, C, D), and the result (s, H, D).  ``member`` (H, C) is 1 if PSU c is in stratum h.
    """
    s, C, D = x.shape
    return np.asarray(member @ x.swapaxes(0, 1).reshape(C, -1)).reshape(-1, s, D).swapaxes(0, 1)
