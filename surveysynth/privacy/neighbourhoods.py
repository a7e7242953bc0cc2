"""Identification risk: balls around confidential values, and the synthetic records in them.

Source: Hu, Savitsky & Williams 2022b, sections 2.1 and 3.1.

An intruder knows some variables of record i that were not synthesized, and the record's true value y_i.  The
M records with the same known values are the pattern of record i.  Among their synthetic values y*_h
the intruder looks for the values in the closed ball B_i around y_i.  T_i is 1 if y*_i is in B_i, and 0 otherwise:

    IR_i  = T_i #{h : y*_h not in B_i} / M                         (eq. 8)
    IR_ij = T_i T_j #{h : y*_h neither in B_i nor in B_j} / M      (eq. 11)
    alpha~_i = 1 - sum_{j != i} IR_ij / (M - 1)                    (eq. 14)

where h runs over the whole pattern, including i and j.  These measures are averaged over the synthetic data sets.

The sum over pairs can be computed without a loop over pairs.  Let K be the number of records j in the pattern with
T_j = 1, and c_h the number of these records whose ball holds y*_h.  If y*_h is outside of B_i, record i is counted
in K but not in c_h, so

    sum_{j != i} IR_ij = T_i / M sum_{h not in B_i} (K - 1 - c_h).

With one number per record (d = 1), a ball is an interval of the sorted synthetic values of its pattern, and a sum over
a ball is a difference of two cumulative sums.  So computing the measures takes no longer than sorting.  With d numbers
per record, a ball is a box: the product of d intervals.

In a file with several synthesized variables the intruder may know some of these as well.  The pattern
of record i in a data set then consists of the synthetic records that match the true values of record i: a matching
record has the same known categories, and each known number lies in the closed ball around the true number (Reiter &
Mitra 2009; Hornby & Hu 2021, who match numbers within a radius).  The number M_i of matching records depends on the
record and the data set, and T_i = 1 if record i is in its own pattern and y*_i is in B_i.  Eq. 8 becomes

    IR_i = T_i #{h in the pattern of i : y*_h not in B_i} / M_i,  0 if no record matches (T_i = 0).

If the known variables were not synthesized, the pattern is the same as before.
For an intruder who picks one of the records that match in all known values, including y_i, the match risk is

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
    """Return the size of a ball in each of d dimensions, given one size for all dimensions or a list of d sizes.

    ``name`` (of the argument) and ``each`` (what has a size of its own) are words for the error message.

    Raises
    ------
    InputError
        A size is negative or not a finite number, or there are not d sizes.
    """
    listed = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    numbers: list[Any] = several(given) if listed else [given] * d
    if len(numbers) != d or not all(is_finite(s) and s >= 0 for s in numbers):
        raise InputError(f"{name} must be a finite number, not negative, or a list with one for each {each}")
    return np.array(numbers, dtype=np.float64)


def ends(y: Floats, radius: Floats, floor: Floats, relative: bool) -> tuple[Floats, Floats]:
    """Return the lower and upper limits of the balls around the values ``y`` of records.

    The limits are y -/+ max(radius, floor), where ``radius`` (d,) is multiplied by |y| if ``relative``.  ``y`` has the
    shape (n, d), for n records and d variables.
    """
    width = np.maximum(radius * np.abs(y) if relative else radius, floor)
    return y - width, y + width


@dataclass(frozen=True)
class Balls:
    """The balls around the values of confidential records, and the values of one synthetic data set.

    There are n confidential and n synthetic records, with d numbers each.  Synthetic values are sorted by pattern
    (combination of values that the intruder knows), and then by the first of their d numbers.  By this first number
    alone, the ball of record i holds the sorted values ``first[i]`` to ``last[i] - 1``.
    """

    pattern: Codes  # (n,) pattern of each record
    M: Codes  # (n,) number of synthetic records that match the known values of each record
    order: Codes  # (n,) record of each sorted synthetic value
    first: Codes  # (n,)
    last: Codes  # (n,)
    hit: Bools  # (n,) T_i: whether record i's own synthetic values match and lie in its ball
    low: Floats  # (n, d) lower limits of the balls
    high: Floats  # (n, d) upper limits of the balls
    value: Floats  # (n, d) sorted synthetic values

    def inside(self, x: Codes) -> Codes:
        """Return, for each of the n records, the sum of x over the synthetic values in the record's ball.

        x has one number for each sorted synthetic value.
        """
        if self.low.shape[1] == 1:
            below = np.concatenate([[0], np.cumsum(x)])
            return np.asarray(below[self.last] - below[self.first])
        return np.asarray(_sums(self.first, self.last, self.low, self.high, self.value, x))

    def cover(self) -> Codes:
        """Return, for each sorted synthetic value h, the number c_h of balls that hold this value.

        Only balls that hold the synthetic value of their own record (T_i = 1) are counted.
        """
        first, last, n = self.first[self.hit], self.last[self.hit], self.hit.size
        if self.low.shape[1] == 1:
            steps = np.bincount(first, minlength=n + 1) - np.bincount(last, minlength=n + 1)
            return np.cumsum(steps)[:-1]
        return np.asarray(_cover(first, last, self.low[self.hit], self.high[self.hit], self.value))


def balls_of(
    pattern: Codes, low: Floats, high: Floats, synthetic: Floats, *, seen: Codes | None = None, known: int = 0
) -> Balls:
    """Find which synthetic values of one data set lie in the balls around the true values of n records.

    Parameters
    ----------
    pattern : int array (n,)
        Code of each record's true combination of known categories.
    low, high, synthetic : float arrays (n, d)
        Limits of the balls, and synthetic values.
    seen : int array (n,), optional
        Code of the combination in each synthetic record.  By default ``pattern``: the known categories were not
        synthesized.
    known : int
        The intruder knows the true numbers of the last ``known`` of the d columns, fewer than d.  A synthetic record
        matches record i only if its numbers in these columns lie in the ball of record i.
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
    """Return, for each record, the first position, and one past the last, of the values in [low, high].

    Values are sorted within each pattern.  Positions ``start`` to ``end - 1``, those of the record's pattern, are
    searched.
    """
    first, last = np.empty_like(start), np.empty_like(start)
    for i in range(start.size):
        own = value[start[i] : end[i]]
        first[i] = start[i] + np.searchsorted(own, low[i])
        last[i] = start[i] + np.searchsorted(own, high[i], side="right")
    return first, last


@nb.njit(cache=True)
def _sums(first: Codes, last: Codes, low: Floats, high: Floats, value: Floats, x: Codes) -> Codes:
    """Return the sum of x over the values in each record's ball, the box from ``low`` to ``high`` in d dimensions.

    Values outside positions ``first`` to ``last - 1`` are not in the box.
    """
    total = np.zeros_like(first)
    for i in range(first.size):
        for h in range(first[i], last[i]):
            if _in_box(value[h], low[i], high[i]):
                total[i] += x[h]
    return total


@nb.njit(cache=True)
def _cover(first: Codes, last: Codes, low: Floats, high: Floats, value: Floats) -> Codes:
    """Return, for each value, the number of balls (boxes from ``low`` to ``high`` in d dimensions) that hold the value.

    Values outside positions ``first`` to ``last - 1`` are not in the box.
    """
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
    """Return the marginal identification risk IR_i of each record (Hu, Savitsky & Williams 2022b, eq. 8)."""
    return np.where(balls.hit, 1 - attribute(balls), 0.0)


def attribute(balls: Balls) -> Floats:
    """Return, for each record, the share of matching synthetic records whose value lies in the record's ball.

    Synthetic records match if they have the values that the intruder knows.  The share is 0 if no record matches.
    """
    return np.asarray(balls.inside(np.ones_like(balls.order)) / np.maximum(balls.M, 1))


def match(balls: Balls) -> Floats:
    """Return the match risk of each record: the probability that an intruder picks the record's own synthetic record.

    The intruder picks one of the matching synthetic records whose value is in the record's ball.  The risk is 0 if the
    record's own synthetic record is not among these.
    """
    return np.where(balls.hit, 1 / np.maximum(balls.inside(np.ones_like(balls.order)), 1), 0.0)


def matching(balls: Balls) -> Floats:
    """Return, for each record, the number M_i of synthetic records with the values that the intruder knows."""
    return balls.M.astype(np.float64)


def pairwise(balls: Balls) -> Floats:
    """Return alpha~_i: 1 minus the mean probability that record i is identified together with another record.

    Source: Hu, Savitsky & Williams 2022b, eq. 14.  The variables that the intruder knows must not be synthesized.
    """
    pattern, M = balls.pattern, balls.M
    value_pattern = pattern[balls.order]
    K = np.bincount(pattern[balls.hit], minlength=int(pattern.max()) + 1)
    uncovered = K[value_pattern] - 1 - balls.cover()
    last = np.flatnonzero(np.diff(value_pattern, append=-1))
    everywhere = np.diff(np.cumsum(uncovered)[last], prepend=0)  # the sum over each pattern
    pairs = np.where(balls.hit, everywhere[pattern] - balls.inside(uncovered), 0)
    return np.asarray(1 - pairs / (M * np.maximum(M - 1, 1)))  # a record alone in its pattern has no pairs: 1 - 0
