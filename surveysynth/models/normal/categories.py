"""Confidential categorical columns: multinomial counts with a Dirichlet prior, in cells of public predictors.

All categorical columns are combined to one category k = 0 ... K - 1.  The G public cells g are the combinations of
discrete predictors.  Given the public cell of record i, its category is multinomial,

    P(k_i = k | g_i = g) = p_g[k],    p_g ~ Dirichlet(1/K, ..., 1/K),

so that a record has the density p_g[k] p(y, w | x, k), with the normal density p(y, w | x, k) of the other outcomes.
The pseudo likelihood raises p_g[k] to the power of the privacy weight alpha_i.  So a fit needs only n_g[k], the sum of
alpha over the records of cell g in category k.  The pseudo posterior p_g ~ Dirichlet(1/K + n_g[1], ..., 1/K + n_g[K])
does not depend on the normal part.  The shares p_g are drawn without Markov chains.

The prior counts as much as one record per cell, for any number of categories (Perks 1947).

n is the number of records, and S the number of draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ..predictors.model_matrix import refuse_missing
from ..scales.category_levels import levels_of

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

MOST_LEVELS = 1000  # most crossed categories
MOST_BYTES = 2_000_000_000  # most memory for all draws of the shares
BLOCK = 4_000_000  # numbers in a block of draws


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Cells:
    """The levels of categorical columns, and the public cell of each record: its combination of discrete predictors.

    Attributes
    ----------
    names : tuple of str
        The columns.
    levels : tuple of pandas.Index
        Levels of each column, in the column's own type and in their declared order.  Without a declared order, they are
        sorted.
    cell : int array (n,)
        Public cell of each record, 0 to G - 1.
    cells : int
        Number G of public cells.
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
        """Number of categories: all combinations of levels of the columns, including those that do not occur."""
        return int(np.prod(self.sizes))

    def columns(self, category: Codes) -> dict[str, pd.Series]:
        """Convert combined categories (0 to K - 1) to labels: one series for each categorical column of the file.

        A series has the data type of the column.
        """
        codes = np.unravel_index(category, self.sizes)
        return {
            name: pd.Series(levels.take(code), dtype=levels.dtype)
            for name, levels, code in zip(self.names, self.levels, codes, strict=True)
        }


@dataclass(frozen=True, repr=False)
class Categories(Cells):
    """The public cells and the confidential categories of the records.

    Attributes
    ----------
    category : int array (n,)
        Category of each record, 0 to K - 1.  The levels of the last column vary fastest.
    """

    category: Codes

    @property
    def public(self) -> Cells:
        """The public cells of the records, without the confidential categories."""
        return Cells(self.names, self.levels, self.cell, self.cells)

    def subset(self, records: Codes) -> Categories:
        """Return the public cells and categories of selected records."""
        return replace(self, cell=self.cell[records], category=self.category[records])

    def counts(self, alpha: Floats) -> Floats:
        """Sum the privacy weights ``alpha`` over the records in each public cell and category: an array (G, K)."""
        pair = self.cell * self.K + self.category
        sums = np.bincount(pair, alpha, self.cells * self.K)
        return np.asarray(sums, dtype=np.float64).reshape(self.cells, self.K)


def crossed(design: SurveyDesign, columns: Sequence[str], predictors: Sequence[str]) -> Categories:
    """Combine categorical columns to one category per record, and number the public cells of the records.

    Parameters
    ----------
    design : SurveyDesign
    columns : sequence of str
        Confidential columns whose values are labels, of any type.
    predictors : sequence of str
        Discrete public columns.  Each combination of their values is a cell.  If the sequence is empty, all records are
        in one cell.

    Raises
    ------
    InputError
        A value is missing, or labels cannot be sorted or are neither text nor numbers.  There are fewer than five
        records per level, on average: the column may be an identifier.  There are more than 1,000 categories in all.
    ModelError
        A column has only one level.
    """
    codes, levels = [], []
    for name in columns:
        code, found = levels_of(design.column(name), name)
        codes.append(code)
        levels.append(found)
    sizes = [len(found) for found in levels]
    K = int(np.prod(sizes, dtype=object))  # Python integers do not overflow
    if K > MOST_LEVELS:
        raise InputError(
            f"{', '.join(columns)}: {K:,} categories{' in all' if len(sizes) > 1 else ''}, and "
            f"{MOST_LEVELS:,} are the most that are synthesized; group the levels of "
            f"{columns[int(np.argmax(sizes))]!r}, the column with the most, or synthesize fewer columns"
        )
    cell, cells = np.zeros(design.n, dtype=np.intp), 1
    for name in predictors:
        refuse_missing(design.column(name), name)
    if predictors:
        groups = design.select(predictors).groupby(list(predictors), sort=True, observed=True)
        cell = np.asarray(groups.ngroup(), dtype=np.intp)
        cells = int(cell.max()) + 1
    category = np.asarray(np.ravel_multi_index(tuple(codes), tuple(sizes)), dtype=np.intp)
    return Categories(tuple(columns), tuple(levels), cell, cells, category)


# ---- the pseudo posterior of the shares


def draw_log_shares(counts: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Draw the log shares of K categories in G public cells from their posterior: (size, G, K).

    The shares of cell g are p_g ~ Dirichlet(1/K + counts_g), where ``counts`` (G, K) are sums of privacy weights.
    Shares are gamma variables divided by their sum.  A gamma variable with the small shape 1/K may underflow, so its
    logarithm is drawn: log Gamma(a) = log Gamma(a + 1) + log(U) / a in distribution, with U uniform on (0, 1).

    Raises
    ------
    InputError
        The draws would take more than 2 GB.
    """
    G, K = counts.shape
    refuse_large(size, counts.size, f"{G:,} cells with {K:,} categories")
    shape = 1 / K + counts
    out = np.empty((size, G, K))
    step = max(1, BLOCK // counts.size)
    for s in range(0, size, step):
        part = out[s : s + step]
        np.log(rng.standard_gamma(shape + 1, part.shape), out=part)
        part -= rng.standard_exponential(part.shape) / shape
        part -= logsumexp(part, axis=2, keepdims=True)
    return out


def refuse_large(size: int, numbers: int, what: str) -> None:
    """Raise InputError if ``size`` draws of ``numbers`` numbers each need more than 2 GB."""
    needed = 8 * size * numbers
    if needed > MOST_BYTES:
        raise InputError(
            f"{size:,} draws of {what} take {needed / 1e9:.1f} GB, more than the {MOST_BYTES / 1e9:.0f} GB that are "
            "allowed; group the levels of the categories, or use fewer discrete predictors"
        )


def log_likelihood(counts: Floats, log_shares: Floats) -> Floats:
    """Return the log pseudo likelihood of the categories in each of S draws: sum_i alpha_i log p(category i | cell i).

    ``counts`` (G, K) are the sums of privacy weights alpha by cell and category, and ``log_shares`` (S, G, K) the
    draws.
    """
    return np.asarray(log_shares.reshape(len(log_shares), -1) @ counts.ravel())


def log_share(log_shares: Floats, cell: Codes, category: Codes) -> Floats:
    """Return, for each record and draw, the log share of the record's category in the record's public cell.

    ``log_shares`` (S, G, K) are the draws, and ``cell`` and ``category`` have the shape (n,).  Return an array (n, S).
    """
    G, K = log_shares.shape[1:]
    return np.ascontiguousarray(np.take(log_shares.reshape(-1, G * K), cell * K + category, axis=1).T)


def simulate(log_shares: Floats, row: Codes, rng: np.random.Generator) -> Codes:
    """Draw the category (n,) of each record.  The shares for record i are in row ``row[i]`` of ``log_shares`` (G, K).

    For each row, multinomial counts are drawn first, and then assigned to the records in random order.
    """
    G, K = log_shares.shape
    counts = rng.multinomial(np.bincount(row, minlength=G), np.exp(log_shares))
    order = rng.permutation(row.size)
    order = order[np.argsort(row[order], kind="stable")]
    category = np.empty(row.size, dtype=np.intp)
    category[order] = np.repeat(np.tile(np.arange(K), G), counts.ravel())
    return category
