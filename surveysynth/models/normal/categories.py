"""Categorical outcomes, and design variables that are not public: counts of cells and a Dirichlet prior.

All categorical columns, crossed, make one category k = 0 ... K - 1.  Given the public cell g of record i
(its combination of discrete predictors) the category is multinomial,

    P(k_i = k | g_i = g) = p_g[k],    p_g ~ Dirichlet(1/K, ..., 1/K),

and stands in front of the normal density of what else is synthesized, p(record) = p_g[k] p(y, w | x, k).
The pseudo likelihood raises it to alpha_i, so all that a fit needs is n_g[k] = sum of alpha over the
records of cell g in category k, and the pseudo posterior is p_g ~ Dirichlet(1/K + n_g[1], ..., 1/K + n_g[K]),
whatever the normal part is: independent draws, no Markov chains.

The prior counts as much as one record a cell, however many categories there are (Perks 1947).

**Effects of PSUs and strata.**  In PSU c of stratum h the shares are

    p_gc[k] ~ p_g[k] exp(b_c[k]),    b_c[k] = (sigma_1 (z_ck - mean z_c) + sigma_2 (z_hk - mean z_h)) / sqrt(2),

z standard normal, sigma half-normal(0, 1): sigma is the standard deviation of an effect on the log odds of
any two categories, whichever they are, so other names for the categories change nothing.  This posterior is
sampled (stan/categories.stan) from sums of alpha; the cost is linear in the pairs of a PSU and a cell that occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.sparse import csr_array
from scipy.special import logsumexp, softmax

from ...design.columns import occurring
from ...design.survey_design import SurveyDesign
from ...engines import Diagnostics
from ...errors import InputError, ModelError, guarded
from ...validation import rows
from ..base import Sampler
from ..shared.groups import Groups

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

MOST_CATEGORIES = 1000  # of all columns, crossed
FEWEST = 5  # records that a level has on average; fewer, and the column is an identifier
MOST_BYTES = 2_000_000_000  # of all draws of the shares
BLOCK = 4_000_000  # numbers in one block of draws
TYPICAL = 0.125  # variance of an effect's coordinates at sigma = 0.5
NEWTON_STEPS = 20  # towards the mode of the effects, which places the sampler's coordinates


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Cells:
    """The names of categorical columns, crossed, and the public cell of each record.

    Attributes
    ----------
    names : tuple of str
        The columns.
    levels : tuple of pandas.Index
        Sorted levels of each column, in the column's own type.
    cell : int array (n,)
        Public cell of each record, 0 to G - 1.
    cells : int
        Number of cells G.
    """

    names: tuple[str, ...]
    levels: tuple[pd.Index, ...]
    cell: Codes
    cells: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of levels of each column."""
        return tuple(len(levels) for levels in self.levels)

    @property
    def K(self) -> int:
        """Number of categories, occurring or not."""
        return int(np.prod(self.sizes))

    def columns(self, category: Codes) -> dict[str, pd.Series]:
        """Categories (n,) as the columns that they are crossed from, in the types of the file."""
        codes = np.unravel_index(category, self.sizes)
        return {
            name: pd.Series(levels.take(code), dtype=levels.dtype)
            for name, levels, code in zip(self.names, self.levels, codes, strict=True)
        }


@dataclass(frozen=True, repr=False)
class Categories(Cells):
    """With the categories of the records, which are confidential.

    Attributes
    ----------
    category : int array (n,)
        Category of each record, 0 to K - 1; the levels of the last column vary fastest.
    """

    category: Codes

    @property
    def public(self) -> Cells:
        """Without the categories of the records."""
        return Cells(self.names, self.levels, self.cell, self.cells)

    def some(self, chosen: Codes) -> Categories:
        """Those of some of the records."""
        return replace(self, cell=self.cell[chosen], category=self.category[chosen])

    def counts(self, alpha: Floats) -> Floats:
        """Sum of alpha of each cell and category, (G, K); counts of blocks of records add up."""
        pair = self.cell * self.K + self.category
        sums = np.bincount(pair, alpha, self.cells * self.K)
        return np.asarray(sums, dtype=np.float64).reshape(self.cells, self.K)


def crossed(design: SurveyDesign, columns: Sequence[str], predictors: Sequence[str]) -> Categories:
    """The categories of some columns, within the cells of discrete public predictors.

    Parameters
    ----------
    design : SurveyDesign
    columns : sequence of str
        Confidential columns whose values are labels, whatever their type.
    predictors : sequence of str
        Discrete public columns, whose combinations are the cells; none for one cell.

    Raises
    ------
    InputError
        A missing value; values that cannot be sorted, or are no text or numbers; fewer than five
        records a level; more than 1,000 categories in all.
    ModelError
        A column with one level.
    """
    codes, levels = [], []
    for name in columns:
        code, found = _levels(design.column(name), name)
        codes.append(code)
        levels.append(found)
    sizes = [len(found) for found in levels]
    K = int(np.prod(sizes, dtype=object))  # of Python's integers, which do not overflow
    if K > MOST_CATEGORIES:
        raise InputError(
            f"{', '.join(columns)}: {K:,} categories{' in all' if len(sizes) > 1 else ''}, and "
            f"{MOST_CATEGORIES:,} are the most that are synthesized; group the levels of "
            f"{columns[int(np.argmax(sizes))]!r}, the column with the most, or synthesize fewer columns"
        )
    cell, cells = np.zeros(design.n, dtype=np.intp), 1
    for name in predictors:
        missing = design.column(name).isna()
        if missing.any():
            raise InputError(
                f"predictor {name!r} is missing in {rows(missing)}; give these records a category of their own"
            )
    if predictors:
        cell = np.asarray(design.frame.groupby(list(predictors), sort=True, observed=True).ngroup(), dtype=np.intp)
        cells = int(cell.max()) + 1
    category = np.asarray(np.ravel_multi_index(tuple(codes), tuple(sizes)), dtype=np.intp)
    return Categories(tuple(columns), tuple(levels), cell, cells, category)


def _levels(column: pd.Series, name: str) -> tuple[Codes, pd.Index]:
    """Level of each record, and the levels that occur, sorted as pandas sorts groups."""
    missing = column.isna()
    if missing.any():
        raise InputError(
            f"outcome {name!r} is missing in {rows(missing)}; fill it in, or say missing='drop' to leave these "
            "records out (the report then says how many)"
        )
    code, found = guarded(
        lambda: pd.factorize(column, sort=True),
        TypeError,
        lambda kind: InputError(f"outcome {name!r} has values that cannot be sorted; make them text"),
    )
    if not all(isinstance(level, str | int | float | bool | np.generic) for level in found.astype(object)):
        raise InputError(f"outcome {name!r} has categories that are neither text nor numbers; make text of them")
    levels = found.astype(column.dtype)
    if isinstance(levels, pd.CategoricalIndex):
        levels = levels.remove_unused_categories()
    if len(column) < FEWEST * len(levels):
        raise InputError(
            f"outcome {name!r} has almost as many different values as records: the names of categories are published, "
            "and these may identify somebody; group them"
        )
    if len(levels) == 1:
        raise ModelError(f"{name} is constant: there is nothing to synthesize, and publishing it is publishing it")
    return np.asarray(code, dtype=np.intp), levels


# ---- the pseudo posterior of the shares


def draw_log_shares(counts: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Independent draws of log p_g, p_g ~ Dirichlet(1/K + counts_g): (size, G, K).

    Shares are gamma variables over their sum.  One of shape 1/K may be too small for a float, its
    logarithm is not: log Gamma(a) = log Gamma(a + 1) + log(U) / a in distribution.

    Parameters
    ----------
    counts : float array (G, K)
        Of :meth:`Categories.counts`, not negative.

    Raises
    ------
    InputError
        The draws would take more than 2 GB.
    """
    G, K = counts.shape
    _refuse_large(size, counts.size, f"{G:,} cells with {K:,} categories")
    shape = 1 / K + counts
    out = np.empty((size, G, K))
    step = max(1, BLOCK // counts.size)
    for s in range(0, size, step):
        part = out[s : s + step]
        np.log(rng.standard_gamma(shape + 1, part.shape), out=part)
        part -= rng.standard_exponential(part.shape) / shape
        part -= logsumexp(part, axis=2, keepdims=True)
    return out


def _refuse_large(size: int, numbers: int, what: str) -> None:
    needed = 8 * size * numbers
    if needed > MOST_BYTES:
        raise InputError(
            f"{size:,} draws of {what} take {needed / 1e9:.1f} GB, more than the {MOST_BYTES / 1e9:.0f} GB that are "
            "allowed; group the levels of the categories, or use fewer discrete predictors"
        )


def log_likelihood(counts: Floats, log_shares: Floats) -> Floats:
    """sum_i alpha_i log p(category i | cell i, draw), (S,), from counts (G, K); alpha may be negative."""
    return np.asarray(log_shares.reshape(len(log_shares), -1) @ counts.ravel())


def log_share(log_shares: Floats, cell: Codes, category: Codes) -> Floats:
    """log p of some pairs of cell and category in every draw: (pairs, S)."""
    G, K = log_shares.shape[1:]
    return np.ascontiguousarray(np.take(log_shares.reshape(-1, G * K), cell * K + category, axis=1).T)


def simulate(log_shares: Floats, row: Codes, rng: np.random.Generator) -> Codes:
    """Categories of records, drawn from the shares of one draw.

    Counts first, which are multinomial, then who is who: a random order of the records of each row.

    Parameters
    ----------
    log_shares : float array (G, K)
        Distinct rows of log shares: one draw's.
    row : int array (n,)
        Row of ``log_shares`` of each record: its cell.

    Returns
    -------
    int array (n,)
    """
    G, K = log_shares.shape
    counts = rng.multinomial(np.bincount(row, minlength=G), np.exp(log_shares))
    order = rng.permutation(row.size)
    order = order[np.argsort(row[order], kind="stable")]
    category = np.empty(row.size, dtype=np.intp)
    category[order] = np.repeat(np.tile(np.arange(K), G), counts.ravel())
    return category


# ---- effects of PSUs and strata


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class GroupedCounts:
    """What the likelihood with effects knows of the records, sums of alpha; blocks of records add up.

    Attributes
    ----------
    cell : float array (G, K)
        Of each cell and category.
    group : float array (C, K)
        Of each group (PSU) and category.
    pair : sparse array (C, G)
        Of each group and cell; entries that are stored are those that occur.
    parent : int array (C,) or None
    """

    cell: Floats
    group: Floats
    pair: csr_array
    parent: Codes | None

    def __add__(self, other: GroupedCounts) -> GroupedCounts:
        return GroupedCounts(self.cell + other.cell, self.group + other.group, self.pair + other.pair, self.parent)


def grouped_counts(data: Categories, alpha: Floats, groups: Groups) -> GroupedCounts:
    """Sums of alpha by cell, by group and by both.

    Parameters
    ----------
    data : Categories
    alpha : float array (n,)
    groups : Groups
        Of these records; blocks that are to add up number the same groups.
    """
    C, K = groups.size, data.K
    by_group = np.bincount(groups.record * K + data.category, alpha, C * K).reshape(C, K)
    pair = csr_array((alpha, (groups.record, data.cell)), shape=(C, data.cells))
    return GroupedCounts(data.counts(alpha), np.asarray(by_group, dtype=np.float64), pair, groups.parent)


@dataclass(frozen=True)
class SharesDraws:
    """Draws of shares and effects, chains one after the other.

    Attributes
    ----------
    log_shares : float array (S, G, K)
        log p_g, without effects.
    b : float32 array (S, C, K)
        Total effect of each group, its stratum's included.  Rounded once, here: the rounded effects are
        the draws, and densities given them are exact.
    strata : float32 array (S, H, K) or None
        Effects of the second level alone; None for one level.
    sigma : float array (S, levels)
        Standard deviations of effects on log odds, lowest level first.
    chain : int array (S,)
    diagnostics : Diagnostics
    engine, version : str
    """

    log_shares: Floats
    b: NDArray[np.float32]
    strata: NDArray[np.float32] | None
    sigma: Floats
    chain: Codes
    diagnostics: Diagnostics
    engine: str
    version: str


def sample_with_effects(counts: GroupedCounts, sampler: Sampler) -> SharesDraws:
    """Draw (p, b, sigma) from the alpha-weighted pseudo posterior.

    Raises
    ------
    InputError
        The draws would take more than 2 GB.
    """
    (G, K), C, size = counts.cell.shape, len(counts.group), sampler.chains * sampler.draws
    H = 0 if counts.parent is None else int(counts.parent.max()) + 1
    numbers = 2 * G * K + 2 * (C + H) * (K - 1) + (C + H) * K // 2  # effects are kept in half the precision
    _refuse_large(size, numbers, f"{G:,} cells and {C + H:,} PSUs and strata with {K:,} categories")
    data = _stan_data(counts)
    fit = sampler.engine().sample(
        "categories", data, chains=sampler.chains, warmup=sampler.warmup, draws=sampler.draws, seed=sampler.seed()
    )
    v = {name: a.reshape(size, *a.shape[2:]) for name, a in fit.values.items()}
    basis = np.asarray(data["Q"]).T
    b = (v["e"].reshape(-1, K - 1) @ basis).reshape(size, C, K).astype(np.float32)
    strata = (v["v"].reshape(-1, K - 1) @ basis).reshape(size, H, K).astype(np.float32) if H else None
    chain = np.repeat(np.arange(sampler.chains), sampler.draws)
    return SharesDraws(v["log_share"], b, strata, v["sigma"], chain, fit.diagnostics, fit.engine, fit.version)


def _stan_data(counts: GroupedCounts) -> dict[str, object]:
    """Data of categories.stan; all but the counts places its coordinates and nothing else."""
    (G, K), C, by_cell = counts.cell.shape, len(counts.group), counts.pair.T.tocsr()
    H = 0 if counts.parent is None else int(counts.parent.max()) + 1
    stratum = np.zeros(C, dtype=np.intp) if counts.parent is None else counts.parent
    shape = 1 / K + counts.cell
    Q, information, pull = _quadratic(counts, shape / shape.sum(axis=1, keepdims=True))
    spread, of_strata = [_spread(information)], np.zeros((H, K - 1))
    if H:
        spread.append(_spread(_sums(information, stratum)))
        of_strata = _sums(information / (1 + TYPICAL * information), stratum)
    return {
        "G": G, "K": K, "C": C, "levels": len(spread), "H": H, "Q": Q, "shape": shape, "n_psu": counts.group,
        "pairs": by_cell.nnz, "cell": 1 + np.repeat(np.arange(G), np.diff(by_cell.indptr)),
        "psu": 1 + by_cell.indices, "n_pair": by_cell.data, "start_cell": 1 + by_cell.indptr,
        "stratum": 1 + stratum, "member": 1 + np.argsort(stratum, kind="stable"),
        "start_stratum": 1 + np.append(0, np.cumsum(np.bincount(stratum)))[: H + 1],
        "information": information, "pull": pull, "spread": np.array(spread),
        "mirror": _mirror(information), "mirror_stratum": _mirror(of_strata),
    }  # fmt: skip


def _quadratic(counts: GroupedCounts, p: Floats) -> tuple[Floats, Floats, Floats]:
    """Coordinates of effects, and their log likelihood at shares p as a parabola: pull e - information e^2 / 2.

    Returns
    -------
    float array (K, K - 1)
        Orthonormal coordinates, in which effects inform on each other as little as possible.
    float arrays (C, K - 1) and (C, K - 1)
        Information, and information times the place of the maximum, around the mode under a N(0, 1) prior.
    """
    n, contrasts = counts.cell.sum(axis=1), helmert(p.shape[1])
    pooled = np.diag(n @ p) - (p.T * n) @ p
    Q = contrasts.T @ np.linalg.eigh(contrasts @ pooled @ contrasts.T)[1]
    pair = counts.pair.tocoo()
    total = csr_array((pair.data, (pair.row, np.arange(pair.size))), shape=(len(counts.group), pair.size))
    e = np.zeros((len(counts.group), Q.shape[1]))
    for step in range(NEWTON_STEPS):
        share = softmax(np.log(p)[pair.col] + (e @ Q.T)[pair.row], axis=1)
        information = np.maximum(total @ (share @ Q**2 - (share @ Q) ** 2), 0)  # but for rounding it is
        pull = information * e + (counts.group - total @ share) @ Q
        reach = 2 * 0.85**step  # shorter and shorter: where shares are small, a Newton step may go anywhere
        e = e + np.clip(pull / (1 + information) - e, -reach, reach)
    return Q, np.asarray(information), np.asarray(pull)


def _mirror(information: Floats) -> Floats:
    """Reflections that turn a shift of all effects of a column, in units of their precision, into the first one."""
    w = np.sqrt(1 / TYPICAL + information)
    w = w / np.linalg.norm(w, axis=0)
    w[:1] -= 1
    length = np.linalg.norm(w, axis=0)
    return np.asarray(w / np.where(length > 0, length, 1))


def _sums(x: Floats, parent: Codes) -> Floats:
    """Sums over the groups of each parent: (C, D) to (H, D)."""
    return np.asarray(csr_array((np.ones(len(x)), (parent, np.arange(len(x))))) @ x)


def _spread(information: Floats) -> float:
    """Rough standard error of sigma: the variance of an effect has information sum I^2 / 2 near 0."""
    return min(1.0, 0.5 * (4 / max(float((information**2).sum()), 1e-9)) ** 0.25)


def log_likelihood_with_effects(counts: GroupedCounts, log_shares: Floats, b: NDArray[np.float32]) -> Floats:
    """sum_i alpha_i log p(category i | cell i, PSU i, draw): (S,); alpha may be negative.

    Parameters
    ----------
    counts : GroupedCounts
    log_shares, b : float arrays (S, G, K), (S, C, K)
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
    """log p_gc[k] of some triples of cell, category and PSU in every draw: (triples, S)."""
    C, K = b.shape[1:]
    effect = np.take(b.reshape(-1, C * K), psu * K + category, axis=1) - _log_normalizer(log_shares, b, cell, psu)
    return np.asarray(log_share(log_shares, cell, category) + effect.T)


def _log_normalizer(log_shares: Floats, b: NDArray[np.float32], cell: Codes, psu: Codes) -> Floats:
    """log sum_k p_g[k] exp(b_c[k]) of some pairs of cell and PSU: (S, pairs)."""
    total = np.zeros((len(b), len(cell)))
    for k in range(b.shape[2]):  # categories one by one: no array of draws, pairs and categories
        total += np.exp(np.take(log_shares[:, :, k], cell, axis=1) + np.take(b[:, :, k], psu, axis=1))
    return np.log(total)


def new_effects(
    sigma: Floats, strata: NDArray[np.float32] | None, K: int, groups: Groups, rng: np.random.Generator
) -> Floats:
    """Total effects of new groups, for one draw: (C, K).

    PSUs are a sample and are drawn anew; strata are all there are and keep their effects.

    Parameters
    ----------
    sigma : float array (levels,)
    strata : float array (H, K) or None
        Effects of the strata in this draw; None for one level.
    K : int
        Categories.
    groups : Groups
    """
    z = rng.standard_normal((groups.size, K))
    effect = sigma[0] / np.sqrt(2) * (z - z.mean(axis=1, keepdims=True))
    if strata is not None:
        effect = effect + strata[groups.parent]
    return np.asarray(effect, dtype=np.float64)


def simulate_with_effects(log_shares: Floats, b: Floats, cell: Codes, psu: Codes, rng: np.random.Generator) -> Codes:
    """Categories of records of one draw, given effects of their PSUs.

    Parameters
    ----------
    log_shares, b : float arrays (G, K), (C, K)
    cell, psu : int arrays (n,)

    Returns
    -------
    int array (n,)
    """
    G = len(log_shares)
    pair, row = occurring(psu * G + cell, len(b) * G)
    shares = log_shares[pair % G] + b[pair // G]
    return simulate(shares - logsumexp(shares, axis=1, keepdims=True), row, rng)
