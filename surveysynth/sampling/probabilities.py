"""Inclusion probabilities proportional to size, and sample sizes of strata, for N units in H strata.

Positions of units are counted from 0.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError, guarded
from ..validation import rows

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]
SampleSize = float | Mapping[Hashable, int] | pd.Series

ZERO, ONE, TOP = np.uint64(0), np.uint64(1), np.uint64(1 << 63)
FRACTION_BITS, SPARE_BITS = np.uint64(52), np.uint64(11)  # bits of the fraction of a float64, and of a word beyond it


def inclusion_probabilities(size: ArrayLike, n: SampleSize, strata: ArrayLike | None = None) -> Floats:
    """Compute inclusion probabilities proportional to size, as R's ``sampling::inclusionprobabilities`` does.

    pi = n size / sum(size).  Units with a pi of 1 or more are taken with certainty.  The pi of the other units are
    computed again, until none exceeds 1.  Sums are taken in 80-bit floating point as in R, so that results agree to the
    last bit.

    Parameters
    ----------
    size : array (N,)
        Size of each of the N units, not negative.  A unit of size 0 gets probability 0, with a warning.
    n : int, or mapping of stratum to int
        Sample size.  With strata, it is the sample size of each stratum.
    strata : array (N,), optional
        Stratum of each unit.

    Returns
    -------
    float array (N,)
        Probabilities that add up to n (in each stratum).

    Raises
    ------
    InputError
        Sizes are missing, infinite, negative or not numbers; a unit has no stratum; n is not a number, has no entry for
        a stratum, is negative, or is above the number of units of positive size.

    Examples
    --------
    >>> ss.sampling.inclusion_probabilities([10, 20, 30, 140], n=2)
    array([0.16666667, 0.33333333, 0.5       , 1.        ])
    >>> ss.sampling.inclusion_probabilities([1, 1, 1, 3], n={"a": 1, "b": 1}, strata=["a", "a", "b", "b"])
    array([0.5 , 0.5 , 0.25, 0.75])
    """
    a = sizes_of(size)
    groups = None if strata is None else strata_of(strata, a.size)
    return proportional_to(a, sample_sizes(n, groups), groups)


def sizes_of(size: ArrayLike) -> Floats:
    """Return the sizes as a float array (N,).  Raise InputError if they are not a column of numbers."""
    try:
        a = np.ascontiguousarray(size, dtype=np.float64)
    except (TypeError, ValueError):
        a = np.empty((0, 0))
    if a.ndim != 1:
        raise InputError("size is not a column of numbers")
    return a


@dataclass(frozen=True)
class Strata:
    """The N units of a population, sorted by its H strata.

    Attributes
    ----------
    order : int array (N,)
        Positions of the units, stratum after stratum, ascending within each stratum.
    start : int array (H + 1,)
        Position in ``order`` of the first unit of each stratum, and N at the end.
    labels : list (H,)
        Labels of the strata.
    """

    order: Positions
    start: Positions
    labels: list[Any]


def strata_of(strata: ArrayLike, N: int) -> Strata:
    """Sort N units by stratum.  Raise InputError if ``strata`` does not have N entries, or if an entry is missing."""
    typed = isinstance(strata, (np.ndarray, pd.Series, pd.Categorical, pd.Index))
    values: Any = strata if typed else np.asarray(strata, dtype=object)
    code, label = guarded(
        lambda: pd.factorize(values), TypeError, lambda kind: InputError("strata must be texts or numbers, one a unit")
    )
    if code.size != N:
        raise InputError(f"strata and size differ in length: {code.size:,} and {N:,}")
    if (code < 0).any():
        raise InputError(f"the stratum is missing in {rows(code < 0)}")
    start = np.concatenate([[0], np.cumsum(np.bincount(code, minlength=len(label)))])
    return Strata(np.argsort(code, kind="stable"), start, label.tolist())


def sample_sizes(n: SampleSize, strata: Strata | None) -> Floats:
    """Return the sample sizes of the H strata, (H,), or one sample size, (1,), if there are no strata.

    Raise InputError if ``n`` is not a number, or gives no sample size for a stratum, or names an unknown stratum.
    """
    named = dict(n.items()) if isinstance(n, (Mapping, pd.Series)) and strata is not None else None
    labels = [None] if strata is None else strata.labels
    if named is not None and not all(name in named for name in labels):
        raise InputError("n gives no sample size for one of the strata; it maps every stratum to one")
    if named is not None and len(named) > len(labels):
        raise InputError(f"n names {len(named) - len(labels)} strata that no unit has")
    sizes = [n if named is None else named[name] for name in labels]
    real = all(isinstance(size, int | float | np.number) and not isinstance(size, bool) for size in sizes)
    if not real or any(isinstance(size, int) and abs(size) > sys.maxsize for size in sizes):
        raise InputError("n is not a number; a mapping of stratum to n goes with strata=")
    return np.array(sizes, dtype=np.float64)


def proportional_to(a: Floats, n_h: Floats, strata: Strata | None) -> Floats:
    """Compute inclusion probabilities (N,) proportional to the sizes ``a`` (N,), separately in each stratum.

    ``n_h`` has the sample size of each stratum, or one sample size if there are no strata.
    """
    check_sizes(a, n_h, strata)
    pi = np.empty(a.size)
    if strata is None:
        _proportional(a, np.array([0, a.size]), n_h, pi)
    else:
        in_order = np.empty(a.size)
        _proportional(a[strata.order], strata.start, n_h, in_order)
        pi[strata.order] = in_order
    return pi


def check_sizes(a: Floats, n_h: Floats, strata: Strata | None, *, replacement: bool = False) -> None:
    """Raise InputError if no sample can be drawn with sizes ``a`` and sample sizes ``n_h``.  Warn if sizes are 0.

    With ``replacement``, a sample size may exceed the number of units in the stratum.
    """
    low, high = (a.min(), a.max()) if a.size else (1.0, 1.0)
    if not (low >= 0 and high < np.inf):
        bad = ~np.isfinite(a)
        if bad.any():
            raise InputError(f"size is missing or not finite in {rows(bad)}; every unit of the frame needs one")
        raise InputError(f"size is negative in {rows(a < 0)}; sizes are zero or more")
    if high > np.finfo(np.float64).max / max(a.size, 1):
        raise InputError("the sizes are too large to be added up; divide all of them by one number")
    start = np.array([0, a.size]) if strata is None else strata.start
    units = np.diff(start)
    zero = np.flatnonzero(a == 0 if strata is None else a[strata.order] == 0) if low == 0 else np.empty(0)
    units -= np.diff(np.searchsorted(zero, start))
    most = np.where(units > 0, np.inf, 0.0) if replacement else units
    for h in np.flatnonzero(~((n_h >= 0) & (n_h <= most)))[:1]:
        where = "" if strata is None else " of a stratum"
        raise InputError(f"n = {n_h[h]:.15g} is not between 0 and the {units[h]:,} units of positive size{where}")
    if zero.size:
        warnings.warn(f"{zero.size:,} units have size 0 and are never selected", stacklevel=4)


@nb.njit(cache=True)
def _plus(m: Any, e: Any, x: float) -> Any:
    """Compute the sum m 2^e + x, rounded to 64 bits, ties to even.  Return its mantissa and its exponent.

    The mantissa m (uint64) is 0 or has its highest bit set, e is an int64, and x is positive or 0.
    """
    bits = np.float64(x).view(np.uint64)
    k: Any = np.int64(bits >> FRACTION_BITS)
    q = (bits & ((ONE << FRACTION_BITS) - ONE)) << SPARE_BITS
    if k:
        q |= TOP
    elif q == 0:
        return m, e
    else:  # a subnormal number
        k = 1
        while q < TOP:
            q <<= ONE
            k -= 1
    k -= 1086
    if m == 0:
        return q, k
    if k > e:
        m, e, q, k = q, k, m, e
    d = e - k
    if d <= 63:
        s = m + (q >> np.uint64(d))
        lost = (q << ONE) << np.uint64(63 - d)  # the bits below the last one of m
    else:
        s = m
        lost = q if d == 64 else ZERO
    if s >= m:
        s += np.uint64((lost > TOP) | ((lost == TOP) & ((s & ONE) == ONE)))
        return (s, e) if s else (TOP, e + 1)
    half = s & ONE  # after a carry one more bit is lost
    s = (s >> ONE) | TOP
    return s + np.uint64((half == ONE) & ((lost > ZERO) | ((s & ONE) == ONE))), e + 1


@nb.njit(cache=True, error_model="numpy")
def _proportional(a: Floats, start: Positions, n: Floats, pi: Floats) -> None:
    """Compute inclusion probabilities proportional to the sizes ``a``, and write them into ``pi``.

    The units are sorted by stratum.  ``start`` has the first position of each stratum, and N at the end.  ``n`` has the
    sample sizes of the strata.  Operations have the same order as in R.
    """
    for h in range(n.size):
        m, e, largest = np.uint64(0), np.int64(0), 0.0
        for i in range(start[h], start[h + 1]):
            m, e = _plus(m, e, a[i])
            largest = max(largest, a[i])
        total = np.ldexp(np.float64(m), e)
        if n[h] == 0 or n[h] * largest / total < 1:  # no unit is certain
            for i in range(start[h], start[h + 1]):
                pi[i] = n[h] * a[i] / total if n[h] > 0 else 0.0
            continue
        m, e = np.uint64(0), np.int64(0)
        certain, remaining = 0, n[h]
        for i in range(start[h], start[h + 1]):
            p = n[h] * a[i] / total
            if p >= 1:
                p = -1.0  # certain, and no longer in the sum
                certain += 1
            else:
                m, e = _plus(m, e, p)
            pi[i] = p
        while certain > n[h] - remaining and m > 0:
            remaining = n[h] - certain
            total = np.ldexp(np.float64(m), e)
            m, e = np.uint64(0), np.int64(0)
            for i in range(start[h], start[h + 1]):
                p = pi[i]
                if p >= 0:
                    p = remaining * (p / total)
                    if p >= 1:
                        p = -1.0
                        certain += 1
                    else:
                        m, e = _plus(m, e, p)
                    pi[i] = p
        for i in range(start[h], start[h + 1]):
            if pi[i] < 0:
                pi[i] = 1.0


def proportional_allocation(units: ArrayLike, n: int) -> Positions:
    """Allocate a sample to strata in proportion to their numbers of units, by the method of largest remainders.

    Parameters
    ----------
    units : int array (H,)
        Number of units N_h of each of the H strata in the population.
    n : int
        Sample size over all strata.

    Returns
    -------
    int array (H,)
        Sample sizes that add up to n.  The sample size of stratum h differs from n N_h / N by less than 1, where N is
        the sum of the N_h.  Of strata with equal remainders, the earlier ones are rounded up first.

    Examples
    --------
    >>> ss.sampling.proportional_allocation([5000, 3000, 1500], n=100)
    array([53, 31, 16])
    """
    N_h = np.asarray(units, dtype=np.intp)
    sizes, remainder = np.divmod(n * N_h, N_h.sum())
    sizes[np.argsort(-remainder, kind="stable")[: n - sizes.sum()]] += 1
    return sizes
