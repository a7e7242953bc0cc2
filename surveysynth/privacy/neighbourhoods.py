"""Identification risk: balls around confidential values, and the synthetic records in them.

Source: Hu, Savitsky & Williams 2022b, sections 2.1 and 3.1.

An intruder knows some variables of record i that were not synthesized, and its true value y_i.  The
records with the same known variables are its pattern, M of them; among their synthetic values y*_h
the intruder looks for those in the closed ball B_i around y_i.  With T_i = 1 where y*_i is in B_i,

    IR_i  = T_i #{h : y*_h not in B_i} / M                         (eq. 8)
    IR_ij = T_i T_j #{h : y*_h neither in B_i nor in B_j} / M      (eq. 11)
    alpha~_i = 1 - sum_{j != i} IR_ij / (M - 1)                    (eq. 14)

with h over the whole pattern, i and j included; all three are averaged over the synthetic data sets.

The sum over pairs does not need pairs.  Let K be the number of j in the pattern with T_j = 1, and c_h
the number of them whose ball holds y*_h.  For h outside of B_i, i is counted in K but not in c_h, so

    sum_{j != i} IR_ij = T_i / M sum_{h not in B_i} (K - 1 - c_h).

A ball is an interval of the sorted synthetic values of its pattern, and a sum over it is a difference
of two prefix sums, so both measures cost no more than the sort.

In a file with several synthesized variables the intruder may know some of these as well.  The pattern
of record i in a data set then consists of the synthetic records that match its true values: the same
in each known category, and in the closed ball around each known number (Reiter & Mitra 2009; Hornby &
Hu 2021, who match numbers within a radius).  Their number M_i depends on the record and the data set,
and T_i = 1 if i is one of them and y*_i is in B_i.  Eq. 8 becomes

    IR_i = T_i #{h in the pattern of i : y*_h not in B_i} / M_i,  0 where none matches (T_i = 0).

If the known variables were not synthesized these are the records with the same values, as before.
The match risk, for an intruder who picks one of the records that match in all known values, y_i included, is

    T_i / #{h in the pattern of i : y*_h in B_i}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..validation import is_finite, several

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool_]
Sizes = float | Sequence[float]


def sizes(given: Sizes, name: str, d: int, each: str = "value") -> Floats:
    """Sizes of balls, one for each value."""
    listed = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    numbers: list[Any] = several(given) if listed else [given] * d
    if len(numbers) != d or not all(is_finite(s) and s >= 0 for s in numbers):
        raise InputError(f"{name} must be a finite number, not negative, or a list with one for each {each}")
    return np.array(numbers, dtype=np.float64)


def ends(y: Floats, radius: Floats, floor: Floats, relative: bool) -> tuple[Floats, Floats]:
    """Lower and upper limits of the balls around values y (n, d); radius and floor are (d,)."""
    width = np.maximum(radius * np.abs(y) if relative else radius, floor)
    return y - width, y + width


@dataclass(frozen=True)
class Balls:
    """The balls of n confidential records among the n synthetic values of one data set.

    Synthetic values are sorted by pattern and then by the first value: those in a ball, by the first
    value alone, are ``first[i]`` to ``last[i] - 1``.
    """

    pattern: Codes  # (n,) of each record
    M: Codes  # (n,) number of synthetic records that match the known values of each record
    order: Codes  # (n,) record of each synthetic value
    first: Codes  # (n,)
    last: Codes  # (n,)
    hit: Bools  # (n,) T_i: the record's own synthetic record matches, with its value in the ball
    low: Floats  # (n, d) of each record
    high: Floats  # (n, d)
    value: Floats  # (n, d) sorted synthetic values

    def inside(self, x: Codes) -> Codes:
        """Sums of x, (n,) in the order of synthetic values, over the ball of each record: (n,)."""
        if self.low.shape[1] == 1:
            below = np.concatenate([[0], np.cumsum(x)])
            return np.asarray(below[self.last] - below[self.first])
        return np.asarray(_sums(self.first, self.last, self.low, self.high, self.value, x))

    def cover(self) -> Codes:
        """Number c_h of records with T = 1 whose balls hold each sorted synthetic value: (n,)."""
        first, last, n = self.first[self.hit], self.last[self.hit], self.hit.size
        if self.low.shape[1] == 1:
            steps = np.bincount(first, minlength=n + 1) - np.bincount(last, minlength=n + 1)
            return np.cumsum(steps)[:-1]
        return np.asarray(_cover(first, last, self.low[self.hit], self.high[self.hit], self.value))


def balls_of(
    pattern: Codes, low: Floats, high: Floats, synthetic: Floats, *, seen: Codes | None = None, known: int = 0
) -> Balls:
    """The balls from ``low`` to ``high`` of records in patterns (n,), among synthetic values (n, d).

    Parameters
    ----------
    pattern : int array (n,)
        True combination of known categories of each record.
    low, high, synthetic : float arrays (n, d)
    seen : int array (n,), optional
        Combination of its synthetic record, with the same numbers; default the true one.
    known : int
        Number of last columns, fewer than d, that are known numbers and part of the pattern.
    """
    seen = pattern if seen is None else seen
    order = np.lexsort((synthetic[:, 0], seen))
    value = synthetic[order]
    size = np.bincount(seen, minlength=int(pattern.max()) + 1)
    end = np.cumsum(size)
    leading = np.ascontiguousarray(value[:, 0])
    first, last = _spans(leading, (end - size)[pattern], end[pattern], low[:, 0].copy(), high[:, 0].copy())
    hit = np.asarray((pattern == seen) & ((low <= synthetic) & (synthetic <= high)).all(axis=1))
    M = size[pattern]
    if known:
        known_columns = (np.ascontiguousarray(x[:, -known:]) for x in (low, high, synthetic))
        M = balls_of(pattern, *known_columns, seen=seen).inside(np.ones_like(order))
    return Balls(pattern, M, order, first, last, hit, low, high, value)


@nb.njit(cache=True)
def _spans(value: Floats, start: Codes, end: Codes, low: Floats, high: Floats) -> tuple[Codes, Codes]:
    """Positions of the values in [low, high] among those sorted from ``start`` to ``end - 1``."""
    first, last = np.empty_like(start), np.empty_like(start)
    for i in range(start.size):
        own = value[start[i] : end[i]]
        first[i] = start[i] + np.searchsorted(own, low[i])
        last[i] = start[i] + np.searchsorted(own, high[i], side="right")
    return first, last


@nb.njit(cache=True)
def _sums(first: Codes, last: Codes, low: Floats, high: Floats, value: Floats, x: Codes) -> Codes:
    """Sums of x over the values in each box; their first coordinates are already in it."""
    total = np.zeros_like(first)
    for i in range(first.size):
        for h in range(first[i], last[i]):
            if _in_box(value[h], low[i], high[i]):
                total[i] += x[h]
    return total


@nb.njit(cache=True)
def _cover(first: Codes, last: Codes, low: Floats, high: Floats, value: Floats) -> Codes:
    """Number of boxes that hold each value."""
    boxes = np.zeros(len(value), dtype=first.dtype)
    for i in range(first.size):
        for h in range(first[i], last[i]):
            boxes[h] += _in_box(value[h], low[i], high[i])
    return boxes


@nb.njit(cache=True)
def _in_box(value: Floats, low: Floats, high: Floats) -> bool:
    inside = True
    for k in range(1, value.size):  # the first coordinate is inside
        inside &= low[k] <= value[k] <= high[k]
    return inside


def marginal(balls: Balls) -> Floats:
    """Marginal risk IR_i (eq. 8): (n,)."""
    return np.where(balls.hit, 1 - attribute(balls), 0.0)


def attribute(balls: Balls) -> Floats:
    """Share of the synthetic values of the pattern in the ball, 0 without a match: (n,)."""
    return np.asarray(balls.inside(np.ones_like(balls.order)) / np.maximum(balls.M, 1))


def match(balls: Balls) -> Floats:
    """T_i over the number of matching synthetic records in the ball: (n,)."""
    return np.where(balls.hit, 1 / np.maximum(balls.inside(np.ones_like(balls.order)), 1), 0.0)


def matching(balls: Balls) -> Floats:
    """Number M_i of synthetic records that match the known values: (n,)."""
    return balls.M.astype(np.float64)


def pairwise(balls: Balls) -> Floats:
    """alpha~_i (eq. 14), for known variables that were not synthesized: (n,)."""
    pattern, M = balls.pattern, balls.M
    value_pattern = pattern[balls.order]
    K = np.bincount(pattern[balls.hit], minlength=int(pattern.max()) + 1)
    uncovered = K[value_pattern] - 1 - balls.cover()
    last = np.flatnonzero(np.diff(value_pattern, append=-1))
    everywhere = np.diff(np.cumsum(uncovered)[last], prepend=0)  # the sum over each pattern
    pairs = np.where(balls.hit, everywhere[pattern] - balls.inside(uncovered), 0)
    return np.asarray(1 - pairs / (M * np.maximum(M - 1, 1)))  # alone in its pattern: no pairs, 1 - 0
