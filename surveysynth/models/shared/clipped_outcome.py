"""The target of the strict mechanism for one outcome whose log density has two statistics.

    log p(y | row, shape) = c + p t_1(y) + q t_2(y) + h(y),

c, p and q functions of the row's linear predictor and the shape, h of the shape alone: counts, beta and gamma
regressions.  The log weight, where it is modelled, is normal given the predictors and s(y).

C_B is an expectation over the outcome under the reference, at public nodes, and over the weight, in closed form.
Counts are summed.  Between the nodes of a continuous outcome without a weight the log ratio is taken to be linear, as
e^l, clipped, has kinks: its mean over a cell then is exact, and smooth.
Without a weight C_B is held at 1 + e^-B at the most, which it is below but for the error of nodes: so that it is
bounded as well, where predictors are confidential.

With the reference's linear predictor eta_ref and whitened predictors W the linear predictor is eta_ref + W beta.  The
prior is public: beta ~ N(0, 4 u^2 / rank), u one over the root of a record's mean information about eta under the
reference; log shape ~ N(that of the reference, 1), of a first draw N(., 4); the weight's as in :mod:`.clipped_fit`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numba as nb
import numpy as np
from numpy.typing import NDArray

from ...engines.hamiltonian import Target
from .clipped_fit import PRIOR_SD, Normal, Part, known_of, means_of, straight, tempered_by, whitening

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

SHAPE_SD = {True: 2.0, False: 1.0}  # of the log shape: of a first draw, and of the others
SAME = 1e-3  # log ratios at both ends of a cell that are as near as that are one
CELLS, PER_ROOT = 64, 3.0  # of a row, at the least; and for each root of the records' worth of information
NOTHING = Normal(np.empty((0, 0)), np.empty((0, 0)), **straight(0, 0))


class Natural(NamedTuple):
    """c, p and q (G,) of rows, and their derivatives with respect to the linear predictor and the log shape."""

    c: Floats
    p: Floats
    q: Floats
    by_eta: tuple[Floats, Floats, Floats]
    by_shape: tuple[Floats, Floats, Floats] | None  # None where there is no shape


class Family(Protocol):
    """A density of one outcome given a linear predictor and a shape."""

    @property
    def farthest(self) -> float:
        """What linear predictors are held within, plus and minus, which is public: nothing overflows."""
        ...

    @property
    def shaped(self) -> bool:
        """Whether there is a shape."""
        ...

    @property
    def summed(self) -> bool:
        """Whether nodes are the values themselves: an outcome that is discrete."""
        ...

    def statistics(self, y: Floats) -> tuple[Floats, Floats]:
        """t_1 and t_2, in the form of y."""
        ...

    def size(self, y: Floats) -> Floats:
        """s(y), which the log weight goes with."""
        ...

    def natural(self, eta: Floats, log_shape: float) -> Natural:
        """c, p and q of rows with linear predictors (G,)."""
        ...

    def table(self, y: Floats, log_shape: float) -> tuple[Floats, Floats]:
        """h of values (V,), and its derivative with respect to the log shape."""
        ...

    def information(self, eta: Floats, log_shape: float) -> Floats:
        """Of a record about its linear predictor: (G,)."""
        ...

    def bend(self, eta: Floats) -> Floats:
        """Second over first derivative of the mean in the linear predictor: (G,)."""
        ...

    def nodes(self, eta: Floats, log_shape: float, known: float, *, cells: bool) -> tuple[Floats, Floats]:
        """Values (G, Q) and their probabilities; or limits (G, Q + 1) of cells, which are as probable (G, Q).

        A row's own hang on no other row, but for values of probability 0 at the end.  ``known`` is how many records'
        worth of information the target rests on: more of it takes more nodes.
        """
        ...


@dataclass(frozen=True)
class Outcome:
    """Parameters of a model of one outcome.

    Attributes
    ----------
    b : float array (K,)
    log_shape : float
        0 where there is none.
    c : float array (K + 1,), optional
        Of the log weight: the last is that of s(y).
    sigma : float
        Of the log weight.
    """

    b: Floats
    log_shape: float
    c: Floats | None = None
    sigma: float = 1.0


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Places:
    """Values in predictor rows, of records and of nodes: row, statistics, and which of the different values each is."""

    row: Codes
    t1: Floats
    t2: Floats
    value: Codes
    values: Floats


class Nodes(NamedTuple):
    """What C_B is evaluated at where the weight is public: places after those of the records.

    They are values, of which row r has those from start[r] to start[r + 1], or limits of cells, one more than cells.
    """

    first: int  # place
    cells: bool
    start: Codes  # (rows + 1,)
    mass: Floats  # of each value, or cell, of which the last of a row is none
    counted: Floats  # (rows,) what C_B of each row counts


@dataclass(frozen=True, repr=False)
class ClippedOutcome:
    """The log target of a file: a point holds beta, the log shape less the reference's, and the weight's parameters.

    ``X`` (rows, K) are the predictor rows of records and of nodes, ``W`` the same whitened.
    """

    family: Family
    measured: Family  # of the reference
    reference: Outcome
    X: Floats
    Q: Floats
    at: Places
    part: Part  # of the weight given the outcome, one row a place; of nothing where the weight is public
    nodes: Nodes | None
    known: float
    unit: float  # of the linear predictor: one over the root of a record's information
    first: bool

    @cached_property
    def W(self) -> Floats:
        """Whitened predictor rows."""
        return np.ascontiguousarray(self.X @ self.Q)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Of beta, the shape, and what the weight has."""
        return self.Q.shape[1], int(self.family.shaped), self.part.centre.size

    @property
    def _sd(self) -> Floats:
        """Prior standard deviations of beta and the log shape."""
        rank, shaped, _ = self.sizes
        return np.repeat([self.unit * PRIOR_SD / np.sqrt(rank), SHAPE_SD[self.first]], [rank, shaped])

    @property
    def scale(self) -> Floats:
        """Public standard deviations of the parameters, about."""
        rank, shaped, own = self.sizes
        information = np.repeat([self.known / self.unit**2, self.known / 4], [rank, shaped])
        return np.concatenate([(information + 1 / self._sd**2) ** -0.5, self.part.scale if own else np.empty(0)])

    def starts(self, chains: int, rng: np.random.Generator) -> list[Floats]:
        """Where chains start: at the reference, and spread around it; nothing of the file decides."""
        centre = np.concatenate([np.zeros(sum(self.sizes[:2])), self.part.centre])
        spread = np.concatenate([self._sd * 0.15, self.part.spread])
        return [centre + spread * rng.uniform(-1, 1, centre.size) * (chain > 0) for chain in range(chains)]

    def some(self, share: float, rng: np.random.Generator) -> ClippedOutcome:
        """A share of the records, at random, each of which counts for those that are left out."""
        return replace(self, part=self.part.some(share, rng))

    def function(self) -> Target:
        """The log target and its gradient, with memory of its own: one a chain."""
        part, at, family, sd = self.part.function(), self.at, self.family, self._sd
        rank, shaped, _ = self.sizes
        eta_ref, log_shape_ref = self.X @ self.reference.b, self.reference.log_shape
        far = family.farthest
        measured = self.measured.natural(np.clip(eta_ref, -far, far), log_shape_ref)
        h_ref, _ = self.measured.table(at.values, log_shape_ref)
        W, rows, V = self.W, len(self.W), len(at.values)
        many = len(at.row) if self.nodes is None else self.nodes.first

        def target(point: Floats) -> tuple[float, Floats]:
            beta, own = point[:rank], point[rank + shaped :]
            log_shape = self._log_shape(point)
            eta = eta_ref + W @ beta
            now = family.natural(np.clip(eta, -far, far), log_shape)
            h, by_shape = family.table(at.values, log_shape)
            ratio = _ratios(
                at.row, at.t1, at.t2, at.value, now.c - measured.c, now.p - measured.p, now.q - measured.q, h - h_ref
            )
            value, of_own, of_ratio = part(own, ratio[:many])
            if not np.isfinite(value) or not np.isfinite(ratio).all():
                return -np.inf, point
            if self.nodes is not None:
                expected, of_nodes = expected_ratio(ratio[many:], *self.nodes[1:], self.part.B)
                value -= expected
                of_ratio = np.concatenate([of_ratio, -of_nodes])
            (gc, gp, gq), gh = _sums(at.row, at.t1, at.t2, at.value, of_ratio, rows, V)
            of_eta = (gc * now.by_eta[0] + gp * now.by_eta[1] + gq * now.by_eta[2]) * (np.abs(eta) < far)
            gradient = [W.T @ of_eta]
            if now.by_shape is not None:
                through_rows = sum(float(g @ by) for g, by in zip((gc, gp, gq), now.by_shape, strict=True))
                gradient.append(np.array([through_rows + float(gh @ by_shape)]))
            gradient.append(of_own)
            off = point[: rank + shaped] / sd
            whole = np.concatenate(gradient)
            whole[: rank + shaped] -= off / sd
            return value - float(off @ off) / 2, whole

        return target

    def _log_shape(self, point: Floats) -> float:
        return self.reference.log_shape + float(point[self.sizes[0]]) if self.family.shaped else 0.0

    def outcome(self, point: Floats) -> Outcome:
        """A point's parameters in the file's own units."""
        rank, shaped, own = self.sizes
        b = self.reference.b + self.Q @ point[:rank]
        log_shape = self._log_shape(point)
        if not own:
            return Outcome(b, log_shape)
        of_weight = self.part.normal(point[rank + shaped :])
        return Outcome(b, log_shape, of_weight.B[:, 0], float(of_weight.L[0, 0]))


def clipped_outcome(
    family: Family, measured: Family, X: Floats, row: Codes, y: Floats, log_w: Floats | None, reference: Outcome,
    a: Floats, B: float, limits: tuple[float, float, float], groups: list[Codes] | None, *, first: bool,
    present: Floats | None = None, simulated: Floats | None = None,
) -> ClippedOutcome:  # fmt: skip
    """The target of a file.

    Parameters
    ----------
    family, measured : Family
        Of the model, and of the reference.
    X : float array (G, K)
        Distinct predictor rows.
    row : int array (n,)
        Each record's.
    y : float array (n,)
    log_w : float array (n,), optional
        Where the weight is modelled.
    reference : Outcome
    a : float array (n,)
        Tempering.
    B : float
    limits : (float, float, float)
        :data:`.clipped_fit.WIDE` or ``NARROW``, of the weight's variance over the reference's.
    groups : list of int arrays, optional
        Groups of rows that C_B takes as one, where there are very many; default: each by itself.
    first : bool
        Whether the target is that of a first draw.
    present : float array (n,), optional
        1, or 0 where outcome and weight are blanked: C_B, which is public, counts such a record as before.
    simulated : float array (N, K), optional
        Predictor rows of a simulated file, where predictors are confidential and the weight is public: see
        :func:`.clipped_fit.clipped_target`.
    """
    in_C = a if simulated is None or present is None else a * present
    tempering, size = (np.bincount(row, of, len(X)).astype(np.float64) for of in (in_C, np.ones(len(a))))
    known, log_shape, far = known_of(a, simulated), reference.log_shape, family.farthest
    of_nodes, counted = X, tempering
    if groups is not None:
        of_nodes, counted = means_of(groups, X, tempering)
    eta = np.clip(of_nodes @ reference.b, -far, far)
    cells = log_w is None and not family.summed
    values, mass = measured.nodes(eta, log_shape, known, cells=cells)
    rows, H = np.concatenate([X, of_nodes]), len(of_nodes)
    if cells:
        mass = np.column_stack([mass, np.full(H, -1.0)])  # the last limit begins no cell
    kept = mass != 0
    at_node = np.repeat(np.arange(len(X), len(X) + H), kept.sum(axis=1))

    order, place, start = _places(row, y)
    firsts = order[start[:-1]]  # a record of each place
    at_row = np.concatenate([row[firsts], at_node]).astype(np.intp)
    at_y = np.concatenate([y[firsts], values[kept]])
    nodes, many, of_places = None, len(at_row), np.zeros(len(at_row))
    if log_w is None:
        many, of_places = len(firsts), np.zeros(len(firsts))
        begins = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.intp)
        nodes = Nodes(many, cells, begins, mass[kept], counted)
    else:
        of_places[len(firsts) :] = (counted[:, None] * mass)[kept]
    ends = np.concatenate([start, np.full(many - len(firsts), start[-1])]).astype(np.intp)
    nowhere = np.empty((many, 0))
    part = Part(
        NOTHING, np.empty((0, 0)), np.zeros((many, 1)), False, nowhere, np.empty((1, 0)), B, limits,
        np.empty((0, len(y))), np.zeros(len(y)), (a if present is None else a * present)[order], ends, of_places, known,
        tempered_by(a), (np.empty(0), np.empty(0)),
    )  # fmt: skip
    if log_w is not None:
        given = np.column_stack([rows[at_row], family.size(at_y)])
        part = _with_weight(part, given, reference, log_w[order], place)
    if simulated is None:
        scaled_by, Q = counted, whitening(X, size)
    else:  # nothing of the file sets a scale
        eta, scaled_by = np.clip(simulated @ reference.b, -far, far), np.ones(len(simulated))
        Q = whitening(simulated, scaled_by)
    information = measured.information(eta, log_shape)
    unit = float(np.average(information, weights=scaled_by + 1e-12) ** -0.5)
    at = _values(family, at_row, at_y)
    return ClippedOutcome(family, measured, reference, rows, Q, at, part, nodes, known, unit, first)


def _with_weight(part: Part, X: Floats, reference: Outcome, log_w: Floats, place: Codes) -> Part:
    """The weight given the outcome: predictor rows (places, K + 1), and log weights in the order of the places."""
    assert reference.c is not None  # as the weight is modelled
    normal = Normal(reference.c[:, None], np.full((1, 1), reference.sigma), **straight(reference.c.size, 1))
    v = ((log_w - (X @ reference.c)[place]) / reference.sigma)[None]
    Q = whitening(X, part.tempering)
    held = np.full(Q.shape[1], Q.shape[1] / PRIOR_SD**2), np.empty(0)
    W = np.ascontiguousarray(X @ Q)
    return replace(part, reference=normal, Q=Q, W=W, v=v, log_ref=-(v[0] ** 2) / 2, held=held)


def _places(row: Codes, y: Floats) -> tuple[Codes, Codes, Codes]:
    """Records in the order of their places, one for each value in a row; the place of each; where places start."""
    order = np.lexsort((y, row))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(row[order]) != 0) | (np.diff(y[order]) != 0)
    return order, np.cumsum(new) - 1, np.append(np.flatnonzero(new), len(order)).astype(np.intp)


def _values(family: Family, row: Codes, y: Floats) -> Places:
    """Places with their statistics; h is of different values, where there is one."""
    if not family.summed:
        return Places(row, *family.statistics(y), np.zeros(len(y), dtype=np.intp), np.zeros(1))
    values, value = np.unique(y, return_inverse=True)
    return Places(row, *family.statistics(y), value.astype(np.intp), values)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _ratios(row: Codes, t1: Floats, t2: Floats, value: Codes, c: Floats, p: Floats, q: Floats, h: Floats) -> Floats:
    """c + p t_1 + q t_2 + h of every place."""
    out = np.empty(row.size)
    for i in range(row.size):
        g = row[i]
        out[i] = c[g] + p[g] * t1[i] + q[g] * t2[i] + h[value[i]]
    return out


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _sums(row: Codes, t1: Floats, t2: Floats, value: Codes, g: Floats, rows: int, values: int) -> tuple[Floats, Floats]:
    """Sums of g, g t_1 and g t_2 over the places of each row (3, rows), and of g over those of each value."""
    out, of_values = np.zeros((3, rows)), np.zeros(values)
    for i in range(row.size):
        if g[i] != 0:
            out[0, row[i]] += g[i]
            out[1, row[i]] += g[i] * t1[i]
            out[2, row[i]] += g[i] * t2[i]
            of_values[value[i]] += g[i]
    return out, of_values


@nb.njit(cache=True, nogil=True, error_model="numpy")
def expected_ratio(
    ratio: Floats, cells: bool, start: Codes, mass: Floats, counted: Floats, B: float
) -> tuple[float, Floats]:
    """Sum over rows of what C_B of each counts, C_B <= 1 + e^-B, and its derivatives in the log ratios at the nodes.

    C_B is the mean of clip(e^l, e^-B, e^B) over values; or over cells, l linear between limits.  With phi(l) =
    clip(e^l) its mean over l from a to b is M = int phi / (b - a), dM / db = (phi(b) - M) / (b - a).
    """
    total, slope = 0.0, np.zeros(ratio.size)
    low, high = np.exp(-B), np.exp(B)
    for r in range(counted.size):
        of_row, first, end = 0.0, start[r], start[r + 1]
        if counted[r] == 0:
            continue
        for k in range(first, end - cells):
            a = ratio[k]
            if not cells:
                value = min(max(np.exp(a), low), high)
                of_row += mass[k] * value
                if -B < a < B:
                    slope[k] = counted[r] * mass[k] * value
                continue
            b, weight = ratio[k + 1], counted[r] * mass[k]
            if abs(b - a) < SAME:
                middle = 0.5 * (a + b)
                of_row += mass[k] * min(max(np.exp(middle), low), high)
                if -B < middle < B:
                    slope[k] += 0.5 * weight * np.exp(middle)
                    slope[k + 1] += 0.5 * weight * np.exp(middle)
                continue
            left, right = min(a, b), max(a, b)
            area = np.exp(min(max(right, -B), B)) - np.exp(min(max(left, -B), B))
            area += low * max(min(right, -B) - left, 0.0) + high * max(right - max(left, B), 0.0)
            mean = area / (right - left)
            of_row += mass[k] * mean
            slope[k] += weight * (min(max(np.exp(a), low), high) - mean) / (a - b)
            slope[k + 1] += weight * (min(max(np.exp(b), low), high) - mean) / (b - a)
        if of_row > 1 + low:
            of_row = 1 + low
            slope[first:end] = 0.0
        total += counted[r] * of_row
    return total, slope


def cell_limits(known: float) -> Floats:
    """Limits of cells as shares of the reference's probability: (Q + 1,), closer where tails begin."""
    Q = max(CELLS, int(PER_ROOT * np.sqrt(known)))
    return np.asarray(np.sin(np.linspace(0, np.pi / 2, Q + 1)) ** 2)


def inner(limits: Floats) -> Floats:
    """Shares that the log ratio is evaluated at: the limits; in outer cells e^-2 of them.

    Of a log ratio linear in log u over (0, u_1) the values at u_1 and u_1 e^-2 have the mean that it has itself.
    """
    at = limits.copy()
    at[0], at[-1] = limits[1] * np.exp(-2), 1 - (1 - limits[-2]) * np.exp(-2)
    return at
