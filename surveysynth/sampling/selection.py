"""Selection of samples, by one function for each method (Tille 2006, Sampling Algorithms).

Each of these functions returns the positions of the selected units, counted from 0, in ascending order.  If inclusion
probabilities pi_k are given, unit k is drawn with probability exactly pi_k.  If the sample size is fixed, the pi_k add
up to the sample size.  Tille's elimination procedure and maximum entropy selection have modules of their own.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError
from ..validation import rows
from .probabilities import Floats, Positions


def whole_sample(pi: ArrayLike) -> tuple[Floats, int]:
    """Return the probabilities as an array, and the sample size, which is their sum.

    Raise InputError if the sum is not a whole number.
    """
    p = probabilities(pi)
    n = np.round(p.sum())
    if not abs(p.sum() - n) < 1e-6:
        raise InputError("selection needs probabilities between 0 and 1 that add up to a whole number")
    return p, int(n)


def probabilities(pi: ArrayLike) -> Floats:
    """Return the probabilities as an array.  Raise InputError if one is below 0 or above 1."""
    p = np.ascontiguousarray(pi, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InputError("selection needs probabilities between 0 and 1 that add up to a whole number")
    return p


def systematic(pi: ArrayLike, rng: np.random.Generator) -> Positions:
    """Draw a systematic sample in the order of the file, with a random start (Madow 1949).

    Parameters
    ----------
    pi : float array (N,)
        Inclusion probabilities that add up to the sample size.
    rng : numpy.random.Generator
        Source of the randomness.

    Returns
    -------
    int array (n,)
        Positions of the selected units, counted from 0, in ascending order.

    Raises
    ------
    InputError
        Probabilities below 0 or above 1, or that do not add up to a whole number.

    Examples
    --------
    >>> pi = ss.sampling.inclusion_probabilities([3, 5, 8, 2, 6], n=2)
    >>> selected = ss.sampling.systematic(pi, np.random.default_rng())
    >>> selected.size
    2
    """
    p, n = whole_sample(pi)
    drawn = np.empty(n, dtype=np.intp)
    found = _steps(p, rng.random(), n - int((p == 1).sum()), drawn)
    if found == n:
        return drawn
    # rounding prevented the last step, as the start is very close to 0
    last = np.setdiff1d(np.flatnonzero(p), drawn[:found])[-1]
    return np.sort(np.append(drawn[:found], last))


@nb.njit(cache=True)
def _steps(pi: Floats, start: float, n: int, drawn: Positions) -> int:
    """Select units systematically in the order of the file, and write their positions into ``drawn``.

    The units with pi = 1 and at most n others are selected.  Return the number of selected units.
    """
    at, found = start, 0
    for i in range(pi.size):
        if pi[i] < 1:
            at += pi[i]
            if at < 1 or n == 0:
                continue
            at -= 1
            n -= 1
        drawn[found] = i
        found += 1
    return found


def random_systematic(pi: ArrayLike, rng: np.random.Generator) -> Positions:
    """Draw a systematic sample from the units in random order.

    Parameters
    ----------
    pi : float array (N,)
        Inclusion probabilities that add up to the sample size.
    rng : numpy.random.Generator
        Source of the randomness.

    Returns
    -------
    int array (n,)
        Positions of the selected units, counted from 0, in ascending order.

    Raises
    ------
    InputError
        Probabilities below 0 or above 1, or that do not add up to a whole number.

    Examples
    --------
    >>> pi = ss.sampling.inclusion_probabilities([3, 5, 8, 2, 6], n=2)
    >>> selected = ss.sampling.random_systematic(pi, np.random.default_rng())
    >>> selected.size
    2
    """
    p, _ = whole_sample(pi)
    order = rng.permutation(p.size)
    return np.sort(order[systematic(p[order], rng)])


def poisson(pi: ArrayLike, rng: np.random.Generator) -> Positions:
    """Draw a Poisson sample: units are selected independently, and the sample size is random.

    Parameters
    ----------
    pi : float array (N,)
        Inclusion probabilities.  They add up to the expected sample size, which may be any number.
    rng : numpy.random.Generator
        Source of the randomness.

    Returns
    -------
    int array (n,)
        Positions of the selected units, counted from 0, in ascending order.

    Raises
    ------
    InputError
        Probabilities below 0 or above 1.

    Examples
    --------
    >>> selected = ss.sampling.poisson([0.2, 1.0, 0.5, 0.0], np.random.default_rng())
    >>> 1 in selected, 3 in selected
    (True, False)
    """
    p = probabilities(pi)
    return np.flatnonzero(rng.random(p.size) < p)


def simple_random(N: int, n: int, rng: np.random.Generator) -> Positions:
    """Draw a simple random sample of n of N units.

    Parameters
    ----------
    N, n : int
        Number of units of the population, and of the sample.
    rng : numpy.random.Generator
        Source of the randomness.

    Returns
    -------
    int array (n,)
        Positions of the selected units, counted from 0, in ascending order.

    Raises
    ------
    InputError
        n is negative or above N.

    Examples
    --------
    >>> ss.sampling.simple_random(N=50, n=5, rng=np.random.default_rng()).size
    5
    """
    if not 0 <= n <= N:
        raise InputError(f"n = {n} is not between 0 and the {N:,} units")
    return np.sort(rng.choice(N, n, replace=False, shuffle=False))


def multinomial(size: ArrayLike, n: int, rng: np.random.Generator) -> Positions:
    """Draw n units with replacement, with probabilities proportional to size.

    Parameters
    ----------
    size : float array (N,)
        Sizes of the units, not negative and not all 0.
    n : int
        Number of draws.
    rng : numpy.random.Generator
        Source of the randomness.

    Returns
    -------
    int array (n,)
        Positions of the units drawn, counted from 0, in ascending order.  A unit may occur several times.

    Raises
    ------
    InputError
        Sizes that are missing, infinite, negative or all 0; a negative n.

    Examples
    --------
    >>> drawn = ss.sampling.multinomial([3, 5, 8, 2, 6], n=10, rng=np.random.default_rng())
    >>> drawn.size
    10
    """
    a = np.asarray(size, dtype=np.float64)
    bad = ~(np.isfinite(a) & (a >= 0))
    if bad.any():
        raise InputError(f"size is missing, not finite or negative in {rows(bad)}")
    if n < 0:
        raise InputError(f"n = {n} is negative")
    if n and not a.any():
        raise InputError("all sizes are 0: there is nothing to draw")
    if n == 0:
        return np.empty(0, dtype=np.intp)
    edge = np.cumsum(a)
    drawn = np.searchsorted(edge, np.sort(rng.random(n)) * edge[-1], side="right")
    return np.minimum(drawn, np.flatnonzero(a)[-1])  # the product may be rounded up to the total


def split(pi: ArrayLike) -> tuple[Positions, Positions, Floats, int]:
    """Separate the units with pi = 1 (certain) from the units with 0 < pi < 1 (uncertain).

    Return four things: the positions of the certain units, the positions of the uncertain units, the pi of the
    uncertain units, and the number of uncertain units to draw.  If this number is 0 (up to rounding), no uncertain
    units are returned.  If all uncertain units are to be drawn, they count as certain.
    """
    p, n = whole_sample(pi)
    certain, free = np.flatnonzero(p == 1), np.flatnonzero((p > 0) & (p < 1))
    m = n - certain.size
    if m == free.size:
        certain = np.union1d(certain, free)
        m = 0
    free = free if m else free[:0]
    return certain, free, p[free], m


def brewer(pi: ArrayLike, rng: np.random.Generator) -> Positions:
    """Draw a sample by Brewer's draw by draw procedure (Brewer 1975; Tille 2006, Algorithm 6.10).

    Let m be the number of units still to be drawn, and s the sum of pi over the units that are not drawn yet.
    The next unit is drawn with probability proportional to pi (s - pi) / (s - m pi).

    Parameters
    ----------
    pi : float array (N,)
        Inclusion probabilities that add up to the sample size.
    rng : numpy.random.Generator
        Source of the randomness.

    Returns
    -------
    int array (n,)
        Positions of the selected units, counted from 0, in ascending order.

    Raises
    ------
    InputError
        Probabilities below 0 or above 1, or that do not add up to a whole number.

    Examples
    --------
    >>> pi = ss.sampling.inclusion_probabilities([3, 5, 8, 2, 6], n=2)
    >>> selected = ss.sampling.brewer(pi, np.random.default_rng())
    >>> selected.size
    2
    """
    certain, free, p, n = split(pi)
    return np.sort(np.concatenate([certain, free[_draw_by_draw(p, n, rng)]]))


@nb.njit(cache=True)
def _draw_by_draw(pi: Floats, n: int, rng: np.random.Generator) -> Positions:
    """Draw n units by Brewer's procedure (:func:`brewer`), and return their positions.

    The weights pi (s - pi) / (s - m pi) of :func:`brewer` are computed at one draw, where m = m0 and s = s0, and are
    also used at later draws.  At later draws the factor (s - pi) / (s - m pi) is lower for every unit, since s >= m and
    the pi are below 1.  So a unit drawn with the old weights is accepted with the probability (factor now) / (old
    factor).  The weights are computed again when rejections have cost as much time as this would.
    """
    drawn = np.empty(n, dtype=np.intp)
    taken = np.zeros(pi.size, dtype=np.bool_)
    unit = np.arange(pi.size)
    edge = np.empty(pi.size)
    size, rejected = pi.size, pi.size + 1
    excess = excess0 = 0.0  # s - m: the sum of 1 - pi over the units drawn
    m = m0 = n
    while m > 0:
        if rejected > size:
            kept, total = 0, 0.0
            for j in range(size):
                i = unit[j]
                if not taken[i]:
                    q = 1 - pi[i]
                    total += pi[i] * (excess + m - 1 + q) / (excess + m * q)
                    unit[kept], edge[kept] = i, total
                    kept += 1
            size, rejected, m0, excess0 = kept, 0, m, excess
        u = rng.random() * edge[size - 1]
        low, high = 0, size - 1
        while low < high:
            middle = (low + high) // 2
            if edge[middle] > u:
                high = middle
            else:
                low = middle + 1
        i = unit[low]
        q = 1 - pi[i]
        now = (excess + m - 1 + q) * (excess0 + m0 * q)
        then = (excess0 + m0 - 1 + q) * (excess + m * q)
        if taken[i] or rng.random() * then >= now:
            rejected += 1
            continue
        taken[i] = True
        drawn[n - m] = i
        excess += q
        m -= 1
    return drawn
