"""Effects of PSUs and strata on the shares of categories.

In PSU c of stratum h, the share of category k in cell g (a combination of discrete public predictors) is

    p_gc[k] ~ p_g[k] exp(b_c[k]),    b_c[k] = (sigma_1 (z_ck - mean z_c) + sigma_2 (z_hk - mean z_h)) / sqrt(2),

where z is standard normal, its means are over the categories, and sigma_1 and sigma_2 are half-normal(0, 1).  The
shares p_g are those of :mod:`surveysynth.models.normal.categories`.  sigma_1 and sigma_2 are the standard deviations of
the effects of PSUs and of strata on the log odds of any two categories, so the order of the categories does not matter.
``stan/categories.stan`` samples the posterior given sums of the privacy weights alpha.  Its computing time is
proportional to the number of pairs of a PSU and a cell that occur.

Shapes: n records, S draws, G cells, K categories, C groups (PSUs, or strata if only strata have effects).  ``levels``
is 2 if both PSUs and strata have effects, and 1 otherwise; H is the number of strata, if there are two levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.sparse import csr_array
from scipy.special import logsumexp, softmax

from ...design.columns import occurring
from ...engines import Diagnostics
from ..draws import Sampler
from ..predictors.groups import Groups
from .categories import BLOCK, Categories, log_likelihood, log_share, refuse_large, simulate

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

TYPICAL = 0.125  # prior variance sigma^2 / 2 of a coordinate of an effect, at sigma = 0.5
NEWTON_STEPS = 20  # steps to the mode of the effects, which defines the coordinates of the sampler


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class GroupedCounts:
    """Sums of privacy weights from which the likelihood of category shares with PSU and stratum effects is computed.

    Attributes
    ----------
    cell : float array (G, K)
        Sums for each cell and category.
    group : float array (C, K)
        Sums for each group and category.
    pair : sparse array (C, G)
        Sums for each group and cell that occur together.
    parent : int array (C,) or None
        Stratum of each PSU, if there are two levels.
    """

    cell: Floats
    group: Floats
    pair: csr_array
    parent: Codes | None


def grouped_counts(data: Categories, alpha: Floats, groups: Groups) -> GroupedCounts:
    """Sum the privacy weights by cell and category, by group (PSU or stratum) and category, and by group and cell."""
    C, K = groups.size, data.K
    by_group = np.bincount(groups.record * K + data.category, alpha, C * K).reshape(C, K)
    pair = csr_array((alpha, (groups.record, data.cell)), shape=(C, data.cells))
    return GroupedCounts(data.counts(alpha), np.asarray(by_group, dtype=np.float64), pair, groups.parent)


@dataclass(frozen=True)
class SharesDraws:
    """Draws of shares of categories, and of the effects of PSUs and strata.  The draws of a chain are consecutive.

    Effects are rounded to single precision.  The rounded effects are the draws, so densities given the draws are exact.
    """

    log_shares: Floats  # (S, G, K) log p_g, without effects
    b: NDArray[np.float32]  # (S, C, K) total effect of each group: its own effect plus the effect of its stratum
    strata: NDArray[np.float32] | None  # (S, H, K) effects of the strata, if there are two levels
    sigma: Floats  # (S, levels) standard deviations of effects on log odds, PSUs before strata
    chain: Codes  # (S,)
    diagnostics: Diagnostics
    engine: str
    version: str


def sample_with_effects(counts: GroupedCounts, sampler: Sampler) -> SharesDraws:
    """Draw shares of categories, PSU and stratum effects, and standard deviations of effects from the pseudo posterior.

    Raises
    ------
    InputError
        The draws would take more than 2 GB.
    """
    (G, K), C, size = counts.cell.shape, len(counts.group), sampler.chains * sampler.draws
    H = 0 if counts.parent is None else int(counts.parent.max()) + 1
    numbers = 2 * G * K + 2 * (C + H) * (K - 1) + (C + H) * K // 2  # effects are stored in single precision
    refuse_large(size, numbers, f"{G:,} cells and {C + H:,} PSUs and strata with {K:,} categories")
    data = _stan_data(counts)
    fit = sampler.sample("categories", data)
    v = {name: a.reshape(size, *a.shape[2:]) for name, a in fit.values.items()}
    basis = np.asarray(data["Q"]).T
    b = (v["e"].reshape(-1, K - 1) @ basis).reshape(size, C, K).astype(np.float32)
    strata = (v["v"].reshape(-1, K - 1) @ basis).reshape(size, H, K).astype(np.float32) if H else None
    return SharesDraws(
        v["log_share"], b, strata, v["sigma"], sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version
    )  # fmt: skip


def _stan_data(counts: GroupedCounts) -> dict[str, object]:
    """Return the input data of the Stan program ``stan/categories.stan``.

    The sums of privacy weights in ``counts`` determine the posterior.  All other data only determine the coordinates in
    which the sampler moves.
    """
    (G, K), C, by_cell = counts.cell.shape, len(counts.group), counts.pair.T.tocsr()
    H = 0 if counts.parent is None else int(counts.parent.max()) + 1
    stratum = np.zeros(C, dtype=np.intp) if counts.parent is None else counts.parent
    shape = 1 / K + counts.cell
    Q, information, pull = _quadratic(counts, shape / shape.sum(axis=1, keepdims=True))
    spread, strata_information = [_spread(information)], np.zeros((H, K - 1))
    if H:
        spread.append(_spread(_sums(information, stratum)))
        strata_information = _sums(information / (1 + TYPICAL * information), stratum)
    return {
        "G": G, "K": K, "C": C, "levels": len(spread), "H": H, "Q": Q, "shape": shape, "n_psu": counts.group,
        "pairs": by_cell.nnz, "cell": 1 + np.repeat(np.arange(G), np.diff(by_cell.indptr)),
        "psu": 1 + by_cell.indices, "n_pair": by_cell.data, "start_cell": 1 + by_cell.indptr,
        "stratum": 1 + stratum, "member": 1 + np.argsort(stratum, kind="stable"),
        "start_stratum": 1 + np.append(0, np.cumsum(np.bincount(stratum)))[: H + 1],
        "information": information, "pull": pull, "spread": np.array(spread),
        "mirror": _mirror(information), "mirror_stratum": _mirror(strata_information),
    }  # fmt: skip


def _quadratic(counts: GroupedCounts, p: Floats) -> tuple[Floats, Floats, Floats]:
    """Approximate the log likelihood of each effect of a PSU or stratum by a parabola, given the shares ``p``.

    The parabola is pull e - information e^2 / 2, where e is a coordinate of the effect.

    Returns
    -------
    float array (K, K - 1)
        Orthonormal basis in which the coordinates e of an effect are as nearly independent as possible.
    float arrays (C, K - 1) and (C, K - 1)
        ``information``, and ``pull``, which is information times the position of the maximum.  Both are computed near
        the mode of e under an N(0, 1) prior.
    """
    n, contrasts = counts.cell.sum(axis=1), helmert(p.shape[1])
    pooled = np.diag(n @ p) - (p.T * n) @ p
    Q = contrasts.T @ np.linalg.eigh(contrasts @ pooled @ contrasts.T)[1]
    pair = counts.pair.tocoo()
    total = csr_array((pair.data, (pair.row, np.arange(pair.size))), shape=(len(counts.group), pair.size))
    e = np.zeros((len(counts.group), Q.shape[1]))
    for step in range(NEWTON_STEPS):
        share = softmax(np.log(p)[pair.col] + (e @ Q.T)[pair.row], axis=1)
        information = np.maximum(total @ (share @ Q**2 - (share @ Q) ** 2), 0)  # not negative except by rounding
        pull = information * e + (counts.group - total @ share) @ Q
        reach = 2 * 0.85**step  # shrinking: with small shares a Newton step can be arbitrarily long
        e = e + np.clip(pull / (1 + information) - e, -reach, reach)
    return Q, np.asarray(information), np.asarray(pull)


def _mirror(information: Floats) -> Floats:
    """Return vectors of Householder reflections, one for each column of effects, for the coordinates of the sampler.

    ``information`` (C, K - 1) is the information on each effect, as from :func:`_quadratic`.  A reflection maps a shift
    that all groups have in common to the first coordinate.  Effects are in units of their posterior standard deviation.
    """
    w = np.sqrt(1 / TYPICAL + information)
    w = w / np.linalg.norm(w, axis=0)
    w[:1] -= 1
    length = np.linalg.norm(w, axis=0)
    return np.asarray(w / np.where(length > 0, length, 1))


def _sums(x: Floats, parent: Codes) -> Floats:
    """Sum each column of ``x`` over the PSUs of each stratum.

    ``x`` has the shape (C, D), and the result (H, D).  ``parent`` (C,) is the stratum of each PSU.
    """
    return np.asarray(csr_array((np.ones(len(x)), (parent, np.arange(len(x))))) @ x)


def _spread(information: Floats) -> float:
    """Return the unit in which the sampler measures sigma, the standard deviation of effects on log odds.

    The unit is roughly the size of sigma if the data show no effects.  An effect has the variance sigma^2 / 2.  If
    sigma is near 0, the Fisher information on this variance is sum I^2 / 2, where I is the ``information`` on each
    effect.  So its standard error is (2 / sum I^2)^(1/2), and sigma is of the order (sum I^2)^(-1/4).  The unit is at
    most 1, the scale of the half-normal prior of sigma.
    """
    return min(1.0, 0.5 * (4 / max(float((information**2).sum()), 1e-9)) ** 0.25)


def log_likelihood_with_effects(counts: GroupedCounts, log_shares: Floats, b: NDArray[np.float32]) -> Floats:
    """Return the log pseudo likelihood of the categories in each draw, given effects of PSUs or strata.

    It is sum_i alpha_i log p(category i | cell i, group i, draw), in each of S draws.  ``log_shares`` (S, G, K) and
    ``b`` (S, C, K) are draws of log shares and of effects of groups, as in :class:`SharesDraws`.  The privacy weights
    alpha may be negative.
    """
    pair, S = counts.pair.tocoo(), len(b)
    cell, psu = (np.asarray(code, dtype=np.intp) for code in (pair.col, pair.row))
    out = log_likelihood(counts.cell, log_shares) + np.einsum("sck,ck->s", b, counts.group, dtype=np.float64)
    step = max(1, BLOCK // max(1, pair.size))
    for s in range(0, S, step):
        part = slice(s, min(S, s + step))
        out[part] -= _log_normalizer(log_shares[part], b[part], cell, psu) @ pair.data
    return out


def log_share_with_effects(
    log_shares: Floats, b: NDArray[np.float32], cell: Codes, category: Codes, psu: Codes
) -> Floats:
    """Return, for each record and draw, the log share of the record's category in the record's cell and PSU.

    ``log_shares`` (S, G, K) and ``b`` (S, C, K) are draws of log shares and of effects of PSUs, as in
    :class:`SharesDraws`.  Return an array (n, S).
    """
    C, K = b.shape[1:]
    effect = np.take(b.reshape(-1, C * K), psu * K + category, axis=1) - _log_normalizer(log_shares, b, cell, psu)
    return np.asarray(log_share(log_shares, cell, category) + effect.T)


def _log_normalizer(log_shares: Floats, b: NDArray[np.float32], cell: Codes, psu: Codes) -> Floats:
    """Return, for each draw and pair of a cell and a PSU, the log of the constant that normalizes the shares.

    For cell g and PSU c, the constant is sum_k p_g[k] exp(b_c[k]).  Return an array (S, pairs).
    """
    total = np.zeros((len(b), len(cell)))
    for k in range(b.shape[2]):  # one category at a time needs no array of draws, pairs and categories
        total += np.exp(np.take(log_shares[:, :, k], cell, axis=1) + np.take(b[:, :, k], psu, axis=1))
    return np.log(total)


def new_effects(
    sigma: Floats, strata: NDArray[np.float32] | None, K: int, groups: Groups, rng: np.random.Generator
) -> Floats:
    """Draw total effects on log shares of categories: for each PSU, a new effect plus the effect of its stratum.

    PSUs are a sample, so their effects are drawn anew.  All strata are in the sample, so their effects ``strata`` (H,
    K) are kept.  ``strata`` is None if strata have no effects.  ``sigma`` (levels,) is one draw of the standard
    deviations of effects, PSUs before strata.
    """
    z = rng.standard_normal((groups.size, K))
    effect = sigma[0] / np.sqrt(2) * (z - z.mean(axis=1, keepdims=True))
    if strata is not None:
        effect = effect + strata[groups.parent]
    return np.asarray(effect, dtype=np.float64)


def simulate_with_effects(log_shares: Floats, b: Floats, cell: Codes, psu: Codes, rng: np.random.Generator) -> Codes:
    """Draw the category of each record, given one draw of the log shares and of the effects of PSUs.

    ``log_shares`` has the shape (G, K).  The effects ``b`` (C, K) of PSUs include the effects of their strata.
    """
    G = len(log_shares)
    pair, row = occurring(psu * G + cell, len(b) * G)
    shares = log_shares[pair % G] + b[pair // G]
    return simulate(shares - logsumexp(shares, axis=1, keepdims=True), row, rng)
