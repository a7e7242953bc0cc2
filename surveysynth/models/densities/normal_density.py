"""Log densities of records under a multivariate normal regression, in all posterior draws.

    log p(y_i | x_i, B_s, Sigma_s) = -(D/2) log 2 pi - log|L_s| - |L_s^-1 (y_i - B_s' x_i)|^2 / 2

For record i, y_i are the outcomes on the working scale (the scale of the model, such as log income), followed by the
log weight if it is modelled, and x_i are the predictors.  In draw s, B_s are the coefficients, and Sigma_s = L_s L_s'
is the residual covariance, with the lower Cholesky factor L_s.  A *pattern* is a distinct row of the model matrix.
Letters in shapes are numbers: n of records, D of elements of y_i (which may be 0), K of columns of the model matrix, G
of patterns, and S of draws.

Records with the same pattern have the same mean B_s' x.  Means are computed once per pattern, and the work per record
and draw is D^2 / 2 multiplications.  If groups h of records have effects v_hs, the mean is B_s' x_i + v_hs, computed
once per combination of pattern and group.  The log density may have a further term, the log share of a category, which
is equal for all records of a cell.  A *cell* is a combination of pattern, group and PSU.  Records are processed in
blocks.

**Effects of PSUs are integrated out**, because no released number depends on them.  Let alpha_i be the privacy weight.
A unit is what epsilon protects: a record, or several records with the same alpha.  The ratio of the pseudo likelihoods
with and without unit i is

    integral p(y_i | u)^alpha_i  d pi(u | other records of the PSU),

where u is the effect of the PSU on whitened residuals r = L^-1 (y - B'x - v_h).  Given the other records of the PSU,
element j of u is normal with variance v = tau / (1 + a tau) and mean v t.  Here tau is the ratio of the variance
between PSUs to the residual variance, and a and t are the sums of alpha and of alpha r over the other records of the
PSU.  (tau, v, t and r have one value for each element j.)  If unit i has n records in the PSU, with mean residual r~,
the log of the ratio, divided by alpha_i, is

    sum log p(y | u = 0) + sum_j { n r~^2 - n (r~ - v t)^2 / (1 + alpha_i n v) - log(1 + alpha_i n v) / alpha_i } / 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray

from ...design.columns import codes
from .lipschitz_search import farthest, tasks

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Offset = Callable[[Codes], Floats]

BLOCK_BYTES = 64_000_000  # memory for the means of one block of patterns
LEAST = 1e-6  # for smaller privacy weights, log(1 + x) is replaced by x
SHARED = 16  # branch and bound is used if a cell has at least SHARED 4^D records on average
TILE = 512  # draws that a core processes at a time, so that they stay in its cache


# inner loops run over contiguous draws, and sums may be reordered, so that the compiler vectorises them
@nb.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _residual(e: Floats, d: int, y: Floats, mean: Floats, W: Floats, s0: int, width: int) -> None:
    """Set ``e`` to element d of the whitened residual L_s^-1 (y - B_s' x), in ``width`` draws s from draw ``s0`` on.

    ``mean`` is L_s^-1 B_s' x, and ``W`` is L_s^-1.
    """
    m = mean[d, s0 : s0 + width]
    for s in range(width):
        e[s] = -m[s]
    for k in range(d + 1):
        value, w = y[k], W[d, k, s0 : s0 + width]
        for s in range(width):
            e[s] += w[s] * value


@nb.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _subtract_squares(twice: Floats, e: Floats, y: Floats, mean: Floats, W: Floats, s0: int, width: int) -> None:
    """Subtract the squared length of the whitened residual L_s^-1 (y - B_s' x) from ``twice``, in each draw s.

    There are ``width`` draws, from draw ``s0`` on.  ``mean`` is L_s^-1 B_s' x, and ``W`` is L_s^-1.  ``e`` is work
    space.
    """
    for d in range(y.size):
        _residual(e, d, y, mean, W, s0, width)
        for s in range(width):
            twice[s] -= e[s] * e[s]


@nb.njit(parallel=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _max_abs(Y: Floats, cell: Codes, mean: Floats, W: Floats, const: Floats, base: Floats) -> Floats:
    """Compute, for each record, the largest |log density| (n,) over all draws.

    The log density is ``base`` plus the normal log density.  The result is infinite if a log density is not finite.
    ``mean`` (cells, D, S) is L^-1 B'x, and ``W`` (D, D, S) is L^-1.  ``const`` (cells, S), or (1, S) for all cells, is
    the term that does not depend on y.
    """
    n, S = len(Y), const.shape[1]
    out = np.empty(n)
    chunk = 256
    for c in nb.prange((n + chunk - 1) // chunk):
        twice = np.empty(TILE)  # 2 log p of a tile of draws
        e = np.empty(TILE)
        for i in range(c * chunk, min(n, (c + 1) * chunk)):
            highest, lowest, total = -np.inf, np.inf, 0.0
            row = cell[i] if len(const) > 1 else 0
            for s0 in range(0, S, TILE):
                width = min(TILE, S - s0)
                for s in range(width):
                    twice[s] = 2 * const[row, s0 + s]
                _subtract_squares(twice, e, Y[i], mean[cell[i]], W, s0, width)
                for s in range(width):
                    highest = max(highest, twice[s])
                    lowest = min(lowest, twice[s])
                    total += twice[s]  # max and min ignore NaN, a sum does not
            highest, lowest = highest / 2 + base[i], lowest / 2 + base[i]
            out[i] = max(highest, -lowest) if np.isfinite(total) else np.inf
    return out


@nb.njit(parallel=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _max_abs_sum(Y: Floats, start: Codes, cell: Codes, mean: Floats, W: Floats, const: Floats, base: Floats) -> Floats:
    """Compute, for each unit, the maximum over all draws of |sum of the log densities of the unit's records|.

    Unit g has the records ``start[g]`` to ``start[g + 1] - 1``.  Other arguments are as for :func:`_max_abs`.
    """
    S = const.shape[1]
    out = np.empty(start.size - 1)
    for g in nb.prange(out.size):
        twice = np.empty(TILE)
        e = np.empty(TILE)
        largest, total = 0.0, 0.0
        for s0 in range(0, S, TILE):
            width = min(TILE, S - s0)
            twice[:] = 0.0
            for i in range(start[g], start[g + 1]):
                row = cell[i] if len(const) > 1 else 0
                for s in range(width):
                    twice[s] += 2 * (const[row, s0 + s] + base[i])
                _subtract_squares(twice, e, Y[i], mean[cell[i]], W, s0, width)
            for s in range(width):
                largest = max(largest, abs(twice[s]))
                total += twice[s]
        out[g] = largest / 2 if np.isfinite(total) else np.inf
    return out


@nb.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _add_effect(
    twice: Floats, spread: Floats, first: Floats, second: Floats, n: int, alpha: float, a: float, S: Floats,
    tau: Floats, s0: int, width: int,
) -> None:  # fmt: skip
    """Integrate the effect of a PSU out of ``twice``, which holds twice the log density of n records of the PSU.

    ``twice`` is changed in place.  The n records belong to one unit and one PSU.  The module's docstring has the
    formula.  ``first`` and ``second`` (D, draws of a tile) are the sums of the whitened residuals r and of r^2 over the
    n records.  ``alpha`` is the privacy weight of the unit.  ``a`` and ``S`` (D, draws) are the sums of alpha and of
    alpha r over the whole PSU.  ``spread`` is work space.
    """
    spread[:] = 1.0
    for d in range(len(first)):
        for s in range(width):
            t, r = tau[d, s0 + s], first[d, s] / n
            without = 1 + (a - alpha * n) * t  # v = t / without, 1 + alpha n v = whole / without
            whole = without + alpha * n * t
            distance = r * whole - t * S[d, s0 + s]  # (r - v S') times ``without``
            each = 1 / (without * whole)
            twice[s] -= second[d, s] - n * r * r + n * distance * distance * each
            if alpha > LEAST:
                spread[s] *= whole * whole * each
            else:
                twice[s] -= n * t / without
    if alpha > LEAST:
        for s in range(width):
            twice[s] -= np.log(spread[s]) / alpha


@nb.njit(parallel=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _max_abs_integrated(
    Y: Floats, start: Codes, cell: Codes, mean: Floats, W: Floats, const: Floats, base: Floats, psu: Codes,
    alpha: Floats, a: Floats, S: Floats, tau: Floats,
) -> Floats:  # fmt: skip
    """Compute, for each unit, the largest |log ratio of the pseudo likelihoods with and without the unit| / alpha.

    The maximum is over all draws.  Effects of PSUs are integrated out.  ``psu`` (n,) is the PSU of each record, and the
    records of a unit are sorted by PSU.  ``alpha`` (n,) are privacy weights.  ``a`` (PSUs,) and ``S`` (PSUs, D, draws)
    are the sums of alpha and of alpha r over all records of the PSU, where r is the whitened residual.  ``tau`` (D,
    draws) are the ratios of the variances between PSUs to the residual variance.  Other arguments are as for
    :func:`_max_abs_sum`.
    """
    D, draws = Y.shape[1], const.shape[1]
    out = np.empty(start.size - 1)
    for g in nb.prange(out.size):
        twice, e = np.empty(TILE), np.empty(TILE)
        first, second = np.empty((D, TILE)), np.empty((D, TILE))  # sums of r and of r^2 over records of unit and PSU
        spread = np.empty(TILE)
        largest, total = 0.0, 0.0
        for s0 in range(0, draws, TILE):
            width = min(TILE, draws - s0)
            twice[:] = 0.0
            first[:] = 0.0
            second[:] = 0.0
            n = 0
            for i in range(start[g], start[g + 1]):
                row = cell[i] if len(const) > 1 else 0
                n += 1
                for s in range(width):
                    twice[s] += 2 * (const[row, s0 + s] + base[i])
                for d in range(D):
                    _residual(e, d, Y[i], mean[cell[i]], W, s0, width)
                    for s in range(width):
                        first[d, s] += e[s]
                        second[d, s] += e[s] * e[s]
                c = psu[i]
                if i + 1 < start[g + 1] and psu[i + 1] == c:
                    continue
                _add_effect(twice, spread, first, second, n, alpha[i], a[c], S[c], tau, s0, width)
                n = 0
                first[:] = 0.0
                second[:] = 0.0
            for s in range(width):
                largest = max(largest, abs(twice[s]))
                total += twice[s]
        out[g] = largest / 2 if np.isfinite(total) else np.inf
    return out


@dataclass(frozen=True)
class Effects:
    """Effects of H groups of records, such as strata, on the outcomes on the working scale.

    Attributes
    ----------
    group : int array (n,)
        Group of each record, 0 to H - 1.
    v : float array (S, H, D)
        Effects of the groups in every draw.
    """

    group: Codes
    v: Floats


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class PSUs:
    """C PSUs whose effects are integrated out, with alpha-weighted sums of predictors and outcomes in each PSU.

    Attributes
    ----------
    psu : int array (n,)
        PSU of each record, 0 to C - 1.
    alpha : float array (n,)
        Privacy weights of the records, equal within a unit of privacy.
    a, s, t : float arrays (C,), (C, K), (C, D)
        Sums of alpha, alpha x and alpha y over the records of each PSU, where x are predictors and y outcomes.
    tau : float array (S, D)
        Ratio of the variance between PSUs to the residual variance of each whitened outcome, in every draw.
    parent : int array (C,) or None
        Group, such as the stratum, to which each PSU belongs, if groups have :class:`Effects`.
    """

    psu: Codes
    alpha: Floats
    a: Floats
    s: Floats
    t: Floats
    tau: Floats
    parent: Codes | None

    def sums(self, psus: Codes, whitened: Floats, W: Floats, effects: Effects | None) -> Floats:
        """Compute, for selected PSUs and every draw, alpha-weighted sums of whitened residuals over a PSU's records.

        The sums are (PSUs, D, S).  ``whitened`` (K, D, S) is B L^-T, and ``W`` (D, D, S) is L^-1.
        """
        out = np.einsum("pk,dks->pds", self.t[psus], W) - np.tensordot(self.s[psus], whitened, axes=1)
        if effects is not None and self.parent is not None:
            here, number = np.unique(self.parent[psus], return_inverse=True)
            out -= self.a[psus, None, None] * _whitened(effects.v[:, here], W)[number]
        return np.asarray(out)


@dataclass(frozen=True)
class _Block:
    records: Codes
    cell: Codes  # cell of each record, numbered within the block
    mean: Floats  # (cells, D, S): L^-1 times the mean of each cell
    const: Floats  # (cells or 1, S): term of the log density that does not depend on y
    sums: Floats  # (PSUs, D, S): sums of alpha r of the PSUs in the block
    psu: Codes  # PSU of each record, numbered within the block


def _blocks(
    pattern: Codes, X: Floats, B: Floats, L: Floats, effects: Effects | None, offset: Offset | None,
    unit: Codes | None = None, psus: PSUs | None = None,
) -> Iterator[_Block]:  # fmt: skip
    """Yield the records in blocks.  All records of a unit are in the same block, sorted by PSU."""
    S, _, D = B.shape
    last = _inverses(L)
    const = -0.5 * D * np.log(2 * np.pi) + np.log(np.einsum("dds->sd", last)).sum(axis=1)
    whitened = np.einsum("skj,djs->kds", B, last)  # (K, D, S): column d of B L^-T
    grouping = [e for e in (psus.psu if psus else None, effects.group if effects else None) if e is not None]
    cell = codes(*grouping, pattern) if grouping else pattern  # cells of a PSU are neighbours
    key = cell if unit is None else unit
    order = np.argsort(cell, kind="stable")
    order = order[np.argsort(key[order], kind="stable")]
    size = np.bincount(key)
    cells = np.minimum(size, 1) if unit is None else size  # most cells of each key
    numbers = max(1, D + (offset is not None))  # numbers per cell and draw
    block = np.cumsum(cells) // max(1, BLOCK_BYTES // (8 * S * numbers))
    ends = np.cumsum(np.bincount(block, size).astype(np.intp))
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        records = order[start:end]
        if records.size:
            _, row, number = np.unique(cell[records], return_index=True, return_inverse=True)
            mean = np.tensordot(X[pattern[records[row]]], whitened, axes=1)
            if effects is not None:
                here, group = np.unique(effects.group[records[row]], return_inverse=True)
                mean += _whitened(effects.v[:, here], last)[group]
            own = const[None] if offset is None else const + offset(records[row])
            sums, psu = np.empty((0, D, S)), np.empty(0, dtype=np.intp)
            if psus is not None:
                here, psu = np.unique(psus.psu[records], return_inverse=True)
                sums = psus.sums(here, whitened, last, effects)
            yield _Block(records, number, mean, own, sums, psu)


def _inverses(L: Floats) -> Floats:
    """Compute the inverses (D, D, S) of the lower triangular matrices ``L`` (S, D, D)."""
    return np.ascontiguousarray(np.linalg.inv(L).transpose(1, 2, 0), dtype=np.float64)


def _whitened(u: Floats, W: Floats) -> Floats:
    """Multiply the effects ``u`` of groups by ``W`` = L^-1, the inverse of a Cholesky factor, in every draw.

    ``u`` is (S, C, D) for C groups, ``W`` is (D, D, S), and the result (C, D, S).
    """
    by_draw = np.ascontiguousarray(u.transpose(1, 2, 0))
    out = np.zeros(by_draw.shape)
    for d in range(len(W)):
        for j in range(d + 1):
            out[:, d] += W[d, j] * by_draw[:, j]
    return out


def max_abs_log_density(
    Y: Floats,
    pattern: Codes,
    X: Floats,
    B: Floats,
    L: Floats,
    base: Floats | None = None,
    *,
    effects: Effects | None = None,
    offset: Offset | None = None,
    unit: Codes | None = None,
    psus: PSUs | None = None,
) -> Floats:
    """Compute, for each record, the largest |log density| over all draws of a normal regression.

    The Lipschitz bound of the record is its privacy weight times this maximum.  The log density of record i in draw s
    is base_i + log p(record i | draw s).  With ``unit``, log densities are first summed over the records of each unit.
    With ``psus``, log p is replaced by 1 / alpha times the log of the ratio of the pseudo likelihoods with and without
    the record or unit.

    Parameters
    ----------
    Y : float array (n, D)
        Outcomes on the working scale, and the log weight if it is modelled.
    pattern : int array (n,)
        Position in ``X`` of each record's predictors.
    X : float array (G, K)
        Distinct predictor rows.
    B, L : float arrays (S, K, D), (S, D, D)
        Draws of the coefficients and of the lower Cholesky factor of the residual covariance.
    base : float array (n,), optional
        Term that is added to the normal log density of each record, in every draw.
    effects : Effects, optional
        Effects of groups of records.  The density is conditional on these effects.
    offset : function, optional
        Takes the position of one record of each cell, and returns a further term (cells, S) of the log densities, which
        is equal for all records of a cell.
    unit : int array (n,), optional
        Number, 0 to U - 1, of each record's unit.
    psus : PSUs, optional
        PSUs whose effects are integrated out.

    Returns
    -------
    float array (n,), or (U,) with ``unit``
        The maximum of each record or unit.  It is infinite if a log density is not finite in some draw.
    """
    base = np.zeros(len(Y)) if base is None else base
    out = np.zeros(len(Y) if unit is None else int(unit.max()) + 1)
    W, D = _inverses(L), L.shape[1]
    for block in _blocks(pattern, X, B, L, effects, offset, unit, psus):
        records = block.records
        values = np.ascontiguousarray(Y[records])
        arguments = (block.cell, block.mean, W, block.const, base[records])
        if unit is None and psus is None:
            finite = all(np.isfinite(x).all() for x in (values, *arguments[1:]))
            if finite and records.size >= SHARED * 4**D * len(block.mean):
                start, cell = tasks(block.cell)
                square = np.einsum("das,dbs->abs", W, W)
                out[records] = farthest(values, start, cell, block.mean, W, square, block.const, arguments[-1])
            else:
                out[records] = _max_abs(values, *arguments)
            continue
        there, start = records, np.arange(records.size)
        if unit is not None:
            there, start = np.unique(unit[records], return_index=True)
        start = np.append(start, records.size)
        if psus is None:
            out[there] = _max_abs_sum(values, start, *arguments)
        else:
            a = psus.a[np.unique(psus.psu[records])]
            tau = np.ascontiguousarray(psus.tau.T)
            alpha = psus.alpha[records]
            out[there] = _max_abs_integrated(values, start, *arguments, block.psu, alpha, a, block.sums, tau)
    return out


def log_height(L: Floats) -> float:
    """Compute the maximum of the log density of N(0, L L'), for a lower triangular L (D, D).  It is reached at 0."""
    return float(-len(L) / 2 * np.log(2 * np.pi) - np.log(np.diag(L)).sum())


def log_density(
    Y: Floats, pattern: Codes, X: Floats, B: Floats, L: Floats, effects: Effects | None = None,
    offset: Offset | None = None,
) -> Floats:  # fmt: skip
    """Compute the normal log densities (S, n) of n records in S draws.

    Arguments are as for :func:`max_abs_log_density`.
    """
    out = np.empty((len(B), len(Y)))
    W = _inverses(L)
    for block in _blocks(pattern, X, B, L, effects, offset):
        e = np.einsum("dks,nk->nds", W, Y[block.records]) - block.mean[block.cell]
        own = block.const[block.cell] if len(block.const) > 1 else block.const
        out[:, block.records] = (own - 0.5 * (e**2).sum(axis=1)).T
    return out
