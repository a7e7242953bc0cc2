"""Tille's elimination procedure: start with all N units, and eliminate one at a time until n are left.

Let pi(i|k) be the inclusion probability of unit i in a sample of k units.  In the step from k + 1 to k units, unit i
is eliminated with probability r = 1 - pi(i|k) / pi(i|k+1).  In samples of k units, c_k units are certain, and the
uncertain units have pi(i|k) = f_k size_i, with f_k = (k - c_k) / (sum of the sizes of the uncertain units).  So all
units that were uncertain in samples of k + 1 units have the same r.  A unit has another r only in the step in which it
ceases to be certain.  If the units are sorted by size, drawing a sample takes O(N) operations (Tille 1996).
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import ArrayLike

from .probabilities import Floats, Positions
from .selection import split


def tille(pi: ArrayLike, rng: np.random.Generator) -> Positions:
    """Draw a sample by Tille's elimination procedure.

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
    >>> selected = ss.sampling.tille(pi, np.random.default_rng())
    >>> selected.size
    2
    """
    certain, free, p, n = split(pi)
    order = np.argsort(-p, kind="stable")
    return np.sort(np.concatenate([certain, free[order[_eliminate(p[order], n, rng)]]]))


@nb.njit(cache=True)
def _eliminate(x: Floats, n: int, rng: np.random.Generator) -> Positions:
    """Eliminate units until n remain, and return their positions.  The sizes x are in descending order."""
    N = x.size
    left = np.empty(N, dtype=np.intp)  # units that are neither certain nor eliminated
    count, c, T = 0, N, 0.0  # the c largest units are certain; T is the total size of all other units
    for k in range(N - 1, n - 1, -1):
        before = c
        while c > 0 and x[c - 1] * (k - c + 1) < T + x[c - 1]:
            c -= 1
            T += x[c]
        u, f, out = rng.random(), (k - c) / T, -1
        for i in range(c, before):
            u -= 1 - x[i] * f
            if u < 0:
                out = i
                break
        if out < 0 and count > 0:
            count -= 1
            left[int(rng.random() * (count + 1))] = left[count]
        elif out < 0:
            out = before - 1  # all uncertain units became uncertain in this step: their r add up to 1 up to rounding
        for i in range(c, before):
            if i != out:
                left[count] = i
                count += 1
    for i in range(c):
        left[count] = i
        count += 1
    return left[:count]


@dataclass(frozen=True)
class Path:
    """The course of the elimination for m units, from which their joint inclusion probabilities are computed.

    Attributes
    ----------
    size : float array (m,)
        Size of each unit.
    step : int array (m,)
        Number of units that remain after the step in which the unit ceases to be certain.  This step is called the
        unit's step below.
    gone : float array (m,)
        Probability that the unit is eliminated in its step.
    before : float array (m,)
        pi_ij / size_j of the unit i with any unit j that ceased to be certain in an earlier step.  The ratio is the
        same for all such units j.
    among : float array (m,)
        Conditional probability that two units are both in the sample, if both are uncertain and remain after the step.
    """

    size: Floats
    step: Positions
    gone: Floats
    before: Floats
    among: Floats

    def joint(self) -> Floats:
        """Compute the matrix of joint inclusion probabilities of the units, (m, m).  Its diagonal has no meaning."""
        i, j = np.ix_(range(self.step.size), range(self.step.size))
        gone, step = self.gone, self.step
        return np.where(
            step[i] == step[j],
            np.maximum(1 - gone[i] - gone[j], 0.0) * self.among[i],
            np.where(step[i] > step[j], self.size[i] * self.before[j], self.size[j] * self.before[i]),
        )


def path(pi: Floats, n: int, units: Positions) -> Path:
    """Compute the course of the elimination for m selected units.

    Parameters
    ----------
    pi : float array (N,)
        Inclusion probabilities above 0 and below 1, which add up to n.
    n : int
        Sample size.
    units : int array (m,)
        Positions of the selected units in ``pi``.
    """
    order = np.argsort(-pi, kind="stable")
    rank = np.empty(pi.size, dtype=np.intp)
    rank[order] = np.arange(pi.size)
    step, gone, before, among = _path(pi[order], n)
    at = rank[units]
    return Path(pi[units], step[at], gone[at], before[at], among[at])


@nb.njit(cache=True)
def _path(x: Floats, n: int) -> tuple[Positions, Floats, Floats, Floats]:
    """Compute the course of the elimination for all N units.

    Return the arrays ``step``, ``gone``, ``before`` and ``among`` of :class:`Path`.  The sizes x are in descending
    order.  In a step, each unit that was uncertain before is eliminated with the same probability q, so that two such
    units both remain with probability 1 - 2 q.  If only one unit is uncertain after a step, two such units never both
    remain.
    """
    N = x.size
    step = np.zeros(N, dtype=np.intp)
    gone, before, among = np.zeros(N), np.zeros(N), np.zeros(N)
    both = np.ones(N)  # probability that two uncertain units survive the step from k + 1 to k
    c, T, f = N, 0.0, 0.0
    for k in range(N - 1, n - 1, -1):
        last, f_last = c, f
        while c > 0 and x[c - 1] * (k - c + 1) < T + x[c - 1]:
            c -= 1
            T += x[c]
        f = (k - c) / T
        left, q = k + 1 - last, 1.0
        for i in range(c, last):
            step[i], gone[i] = k, 1 - x[i] * f
            q -= gone[i]
        if left > 0:
            q /= left
        both[k] = 1 - 2 * q if k - c > 1 else 0.0
        for i in range(c, last):
            before[i] = f_last * (1 - q - gone[i])
            among[i] = 1.0 if k - c > 1 else 0.0
    product, i = 1.0, 0
    for k in range(n, N):
        while i < N and step[i] == k:
            before[i] *= product
            among[i] *= product
            i += 1
        product *= both[k]
    return step, gone, before, among
