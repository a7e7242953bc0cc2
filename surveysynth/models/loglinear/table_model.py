"""Log-linear model of a response in bins, and the expectation of its noisy tables.

The response is a confidential variable.  Its values are grouped into G bins, of numbers or of one special value such as
"missing".  A **row** of the model is a set of records with the same distribution of the response.  The R rows divide
the X **public cells**, which are combinations of public levels with known numbers of records.  A record of row r is in
bin g with a probability p(g | r) proportional to exp(eta_rg),

    eta_rg = o(r, g) + sum over effects e of  z_e(r)' Theta_e b_e(g),

with A features z_e(r), K basis functions b_e(g), and an offset o for effects of strata and PSUs.  Table t has the
expected counts of its J groups of bins for each of the L levels of a factor:

    mu_t[l, j] = sum over rows r of level l of  n_r sum over g of p(g | r) E_t[g, j],

where n_r is the number of records of row r, and E_t[g, j] is 1 if bin g is in group j and 0 otherwise.

All expected tables together have M entries (expected counts or sums), and all Theta_e together have the d coefficients
theta.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

AT_ONCE = 1_000_000  # most numbers in an intermediate array of derivatives
MOST_ROWS, SKETCHED = 3_000, 1_000  # most rows without a sketch; approximate number of rows of a sketch


def places(sizes: Codes) -> Codes:
    """Return the position of each element in its group, from 0, for consecutive groups of the given ``sizes``."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Definition of a table of the response: which records are counted in which level of a factor and which column.

    The table has L levels and J columns.  "Row" always means a row of the model.

    Attributes
    ----------
    level : int array (R,)
        Level of each row, from 0.
    bins : float array (G, J)
        Contribution of a record in bin g to column j.  In a table of counts, the contribution is 1 if bin g is in group
        j and 0 otherwise.  In a table of sums, the contribution is a value or score of bin g.
    levels : int
        Number of levels, L.
    sampled : bool
        True if the entries of the table have sampling variance.  Known totals have none.
    times : float array (R,), optional
        For each row, the factor by which the contributions of its records to the table are multiplied.  Default 1.
    """

    level: Codes
    bins: Floats
    levels: int
    sampled: bool = True
    times: Floats | None = None

    @property
    def size(self) -> int:
        """Number of entries of the table: levels times columns."""
        return self.levels * self.bins.shape[1]

    def for_rows(self, rows: Codes) -> Table:
        """Return the table for another model, whose rows are copies of ``rows`` (row numbers from 0) of this model."""
        return replace(self, level=self.level[rows], times=None if self.times is None else self.times[rows])

    def weighted(self, rows: Floats) -> Floats:
        """Multiply the values of each row of the model, ``rows`` (R, ...), by the row's factor in ``times``."""
        return rows if self.times is None else (rows.T * self.times).T

    @cached_property
    def level_indicators(self) -> csr_array:
        """Sparse 0-1 matrix (L, R): 1 if row r of the model belongs to level l of the table."""
        R = len(self.level)
        return csr_array((np.ones(R), (self.level, np.arange(R))), shape=(self.levels, R))

    @cached_property
    def rows(self) -> list[Codes]:
        """For each level of the table, the indices of the model's rows that belong to this level."""
        order = np.argsort(self.level, kind="stable")
        return np.split(order, np.searchsorted(self.level[order], np.arange(1, self.levels)))


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """Effect of features of the model's rows on the log probabilities of bins, by basis functions of the bins.

    The effect is z(r)' Theta b(g) for bin g in row r.  z(r) are A features of the row, b(g) are K basis functions of
    the bin, and Theta (A, K) are coefficients with normal priors.  The prior variance of a coefficient is its relative
    variance times an estimated variance component.
    """

    features: Floats  # (R, A) z of each row
    basis: Floats  # (G, K) b of each bin
    relative: Floats  # (K,) relative variance of the coefficients of each basis function
    component: Codes  # (K,) number of the variance component of each basis function

    @property
    def shape(self) -> tuple[int, int]:
        """Number of features A and number of basis functions K."""
        return self.features.shape[1], self.basis.shape[1]

    @property
    def size(self) -> int:
        """Number of coefficients: features times basis functions."""
        return self.features.shape[1] * self.basis.shape[1]


@dataclass(frozen=True, eq=False, repr=False)
class TableModel:
    """Log-linear model of a response: expected tables, their derivatives and their sampling covariance.

    Attributes
    ----------
    unit : int array (R,)
        Public cell of each row of the model, from 0 to X - 1.
    share : float array (R,)
        Expected share of the public cell's records that are in the row.
    n : float array (X,)
        Number of records of each public cell.
    tables : sequence of Table
    effects : sequence of Effect
    offset : float array (R, G), optional
        Effects of strata and PSUs, which are added to the log probability of each bin in each row.
    times : float array (X,), optional
        Factor by which the contributions of the records of each public cell to sampled tables are multiplied.  The
        default is 1.
    """

    unit: Codes
    share: Floats
    n: Floats
    tables: Sequence[Table]
    effects: Sequence[Effect]
    offset: Floats | None = None
    times: Floats | None = None

    def for_rows(
        self, rows: Codes, unit: Codes, share: Floats, n: Floats, offset: Floats | None, times: Floats | None
    ) -> TableModel:  # fmt: skip
        """Return the model whose rows are copies of the ``rows`` of this model, with other attributes as given.

        ``unit``, ``share`` and ``offset`` belong to the new rows, ``n`` and ``times`` to their public cells.
        """
        return TableModel(
            unit, share, n, [table.for_rows(rows) for table in self.tables],
            [replace(effect, features=effect.features[rows]) for effect in self.effects], offset, times,
        )  # fmt: skip

    def for_features(self, features: Sequence[Floats]) -> TableModel:
        """Return a model of rows with other ``features``: one array (R, A) for each effect.

        The model has no tables; it only computes probabilities.
        """
        effects = [replace(effect, features=z) for effect, z in zip(self.effects, features, strict=True)]
        return TableModel(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0), [], effects)

    @cached_property
    def sketch(self) -> TableModel:
        """A model with fewer rows and approximately the same derivatives and covariances of the expected tables.

        Rows of a public cell are drawn systematically, with probabilities proportional to their shares of the cell's
        records.  A model that has few rows is its own sketch.
        """
        R = len(self.unit)
        if R <= MOST_ROWS:
            return self
        order = np.argsort(self.unit, kind="stable")
        above, X = np.cumsum(self.share[order]), len(self.n)
        many = np.maximum(np.rint(np.bincount(self.unit, minlength=X) * (SKETCHED / R)), 1).astype(np.intp)
        mass = np.bincount(self.unit, self.share, X)
        unit = np.repeat(np.arange(X), many)
        points = (np.cumsum(mass) - mass)[unit] + (places(many) + 0.5) / many[unit] * mass[unit]
        rows, at = np.unique(np.minimum(np.searchsorted(above, points), R - 1), return_inverse=True)
        share = np.asarray(np.bincount(at, (mass / many)[unit]), dtype=np.float64)
        rows = order[rows]
        offset = None if self.offset is None else self.offset[rows]
        return self.for_rows(rows, self.unit[rows], share, self.n, offset, self.times)

    def slopes(self, theta: Floats, p: Floats) -> Floats:
        """Return approximate derivatives of the expected entries of all tables with respect to the coefficients.

        ``p`` (R, G) are the probabilities under ``theta``.  The derivatives (M, d) are those of the sketch, a model
        with fewer rows.
        """
        sketch = self.sketch
        return sketch.jacobian(p if sketch is self else sketch.probabilities(theta))

    @cached_property
    def records(self) -> Floats:
        """Expected number (R,) of records of each row of the model."""
        return self.n[self.unit] * self.share

    @cached_property
    def counted(self) -> Floats:
        """Expected number (R,) of records of each row, times the factor ``times`` of the row's public cell."""
        return self.records if self.times is None else self.records * self.times[self.unit]

    def _rows(self, table: Table) -> Floats:
        return table.weighted(self.counted if table.sampled else self.records)

    @cached_property
    def places(self) -> list[slice]:
        """Positions of the coefficients of each effect in theta, the vector of all coefficients."""
        ends = np.cumsum([0, *(effect.size for effect in self.effects)])
        return [slice(a, b) for a, b in pairwise(ends)]

    @cached_property
    def blocks(self) -> list[_Block]:
        """The effects, grouped by basis functions.  One matrix product computes a whole group."""
        groups: list[list[int]] = []
        for k, effect in enumerate(self.effects):
            same = next((group for group in groups if np.array_equal(self.effects[group[0]].basis, effect.basis)), None)
            groups.append([k]) if same is None else same.append(k)
        return [
            _Block(
                np.concatenate([self.effects[k].features for k in group], axis=1), self.effects[group[0]].basis,
                np.concatenate([np.arange(self.places[k].start, self.places[k].stop) for k in group]),
            ) for group in groups
        ]  # fmt: skip

    def probabilities(self, theta: Floats) -> Floats:
        """Return the probability p(g | r) of bin g in row r (R, G), given the coefficients ``theta``."""
        eta = np.zeros(()) if self.offset is None else self.offset
        for block in self.blocks:
            eta = eta + (block.features @ theta[block.places].reshape(block.features.shape[1], -1)) @ block.basis.T
        eta = np.exp(eta - eta.max(axis=1, keepdims=True))
        return eta / eta.sum(axis=1, keepdims=True)

    @cached_property
    def columns(self) -> list[tuple[Floats, list[tuple[Table, slice]]]]:
        """The tables, grouped by their columns: the tables of a group have equal :attr:`Table.bins`.

        For each group: the ``bins``, and a list of pairs, which are a table of the group and the positions of its
        entries in the vector of all entries.
        """
        found: list[tuple[Floats, list[tuple[Table, slice]]]] = []
        for table, at in self._at():
            same = next((group for bins, group in found if np.array_equal(bins, table.bins)), None)
            found.append((table.bins, [(table, at)])) if same is None else same.append((table, at))
        return found

    def expected(self, p: Floats) -> Floats:
        """Return the expected entries (M,) of all tables, one table after another, given probabilities ``p`` (R, G)."""
        out = np.empty(sum(table.size for table in self.tables))
        for bins, tables in self.columns:
            mean = p @ bins
            for table, at in tables:
                out[at] = (table.level_indicators @ (self._rows(table)[:, None] * mean)).ravel()
        return out

    def jacobian(self, p: Floats) -> Floats:
        """Return the derivatives (M, d) of the expected entries of all tables with respect to the d coefficients.

        ``p`` (R, G) are the probabilities under these coefficients.

        The expected entry mu[l, j] of a table, at level l and column j, has the derivative

            d mu[l, j] / d Theta[a, k] = sum over rows of level l of  n_r z_a { sum_g p_g E_gj b_gk - (p'E)_j (p'b)_k },

        where n_r is the expected number of records of row r, z its features, p (G,) its probabilities, E_gj the
        contribution of a record in bin g to column j, and b_gk basis function k in bin g.
        """
        out = np.empty((sum(table.size for table in self.tables), sum(effect.size for effect in self.effects)))
        for block, by_table in zip(self.blocks, self._placed, strict=True):
            mean = p @ block.basis
            for (table, at), placed in zip(self._at(), by_table, strict=True):
                out[at, block.places] = _table_jacobian(table, block, placed, self._rows(table)[:, None] * p, mean)
        return out

    @cached_property
    def _placed(self) -> list[list[csr_array]]:
        """For each block of effects and each table, a sparse matrix of features that is arranged by level of the table.

        A matrix (L A, R) has A matrix rows for each of the L levels of the table.  Column r has the A features of row r
        of the model in the matrix rows of the level to which row r belongs, and 0 elsewhere.
        """
        out = []
        for block in self.blocks:
            row, a = np.nonzero(block.features)
            values, A = block.features[row, a], block.features.shape[1]
            shapes = [(table.levels * A, len(block.features)) for table in self.tables]
            out.append([
                csr_array((values, (table.level[row] * A + a, row)), shape=shape)
                for table, shape in zip(self.tables, shapes, strict=True)
            ])  # fmt: skip
        return out

    def gradient(self, p: Floats, v: Floats) -> Floats:
        """Return the transposed Jacobian of the expected entries times a vector, without computing the Jacobian.

        The product is J' v (d,), where J are the derivatives of :meth:`jacobian` and ``v`` (M,) is the vector.  Let
        s[r, g] be the sum over tables t and columns j of  n_r E_gj v_t[l, j],  where l is the level of row r.  The
        product is the sum over rows of  z_a sum_g p_g (s_g - p's) b_gk, in the notation of :meth:`jacobian`.
        """
        s = np.zeros_like(p)
        for bins, tables in self.columns:
            each = (self._rows(table)[:, None] * v[at].reshape(table.levels, -1)[table.level] for table, at in tables)
            s += sum(each) @ bins.T
        s = p * (s - np.sum(p * s, axis=1, keepdims=True))
        out = np.empty(sum(effect.size for effect in self.effects))
        for block in self.blocks:
            out[block.places] = (block.features.T @ s @ block.basis).ravel()
        return out

    def covariance(self, p: Floats) -> Floats:
        """Return the sampling covariance (M, M) of the entries of all tables before noise is added.

        ``p`` (R, G) are the probabilities.  Within a public cell, the records have a multinomial distribution over the
        bins.
        """
        w = self.counted[:, None] * p if self.times is None else (self.counted * self.times[self.unit])[:, None] * p
        out = -self._squared_means(p)
        for one, a in self._sampled():
            for other, b in self._sampled():
                if b.start >= a.start:
                    block = _common(one, other, one.weighted(other.weighted(w)))
                    out[a, b] += block
                    if b.start > a.start:
                        out[b, a] += block.T
        return out

    def _at(self) -> Iterator[tuple[Table, slice]]:
        """Yield each table with the positions of its entries in the vector of all entries."""
        start = 0
        for table in self.tables:
            yield table, slice(start, start + table.size)
            start += table.size

    def _sampled(self) -> Iterator[tuple[Table, slice]]:
        return ((table, at) for table, at in self._at() if table.sampled)

    def _squared_means(self, p: Floats) -> Floats:
        """Sum, over all records, the outer product of a record's expected contributions to the entries of all tables.

        The sum (M, M) is of m m', where m (M,) are the expected contributions given the record's public cell.
        """
        means = np.zeros((len(self.n), sum(table.size for table in self.tables)))
        for table, at in self._sampled():
            sums = np.zeros((len(self.n), table.levels, table.bins.shape[1]))
            np.add.at(sums, (self.unit, table.level), table.weighted(self.share[:, None] * (p @ table.bins)))
            means[:, at] = sums.reshape(len(self.n), table.size)
        means *= (np.sqrt(self.n) * (1.0 if self.times is None else self.times))[:, None]
        return means.T @ means


@dataclass(frozen=True, eq=False, repr=False)
class _Block:
    """Effects that have the same K basis functions, ``basis`` (G, K), so that one matrix product computes them all.

    ``features`` (R, A) are the features of all these effects in each of R rows.  ``places`` (A K,) are the positions of
    their coefficients in the vector of all coefficients.
    """

    features: Floats
    basis: Floats
    places: Codes


def _table_jacobian(table: Table, block: _Block, placed: csr_array, w: Floats, mean: Floats) -> Floats:
    """Return the derivatives of a table's expected entries with respect to the coefficients of a block of effects.

    The result has the shape (L J, A K).  ``w`` (R, G) are the expected records of each row in each bin, ``mean`` (R, K)
    are the expected basis functions in each row, and ``placed`` (L A, R) is the matrix of :attr:`TableModel._placed`.
    """
    counts, (A, K), J, R = w @ table.bins, (block.features.shape[1], block.basis.shape[1]), table.bins.shape[1], len(w)
    both = (block.basis[:, :, None] * table.bins[:, None, :]).reshape(len(block.basis), K * J)
    if A == 1:
        z = block.features * mean
        second = np.stack([z[rows].T @ counts[rows] for rows in table.rows])
        return (((placed @ w) @ both).reshape(second.shape) - second).transpose(0, 2, 1).reshape(table.size, K)
    out = np.empty((table.levels * A, K, J))
    few = placed.shape[0] <= R
    level_products = placed @ w if few else w
    each = max(AT_ONCE // (max(R, placed.shape[0]) * K), 1)
    for j in range(0, J, each):
        chunk = slice(j, j + each)
        columns = both.reshape(-1, K, J)[:, :, chunk].reshape(len(both), -1)
        row_products = (mean[:, :, None] * counts[:, None, chunk]).reshape(R, -1)
        made = level_products @ columns - placed @ row_products if few else placed @ (w @ columns - row_products)
        out[:, :, chunk] = made.reshape(table.levels * A, K, -1)
    return out.reshape(table.levels, A, K, J).transpose(0, 3, 1, 2).reshape(table.size, A * K)


def _common(one: Table, other: Table, w: Floats) -> Floats:
    """Return, for each entry of ``one`` and of ``other``, the sum over records of the product of both contributions.

    The result has a row for each entry of ``one`` and a column for each entry of ``other``.  ``w`` (R, G) are the
    expected records of each row in each bin.
    """
    out = np.zeros((one.levels, one.bins.shape[1], other.levels, other.bins.shape[1]))
    pair = one.level * other.levels + other.level
    order = np.argsort(pair, kind="stable")
    found, first = np.unique(pair[order], return_index=True)
    for code, total in zip(found, np.add.reduceat(w[order], first, axis=0), strict=True):
        out[code // other.levels, :, code % other.levels] = (one.bins * total[:, None]).T @ other.bins
    return out.reshape(one.size, other.size)
