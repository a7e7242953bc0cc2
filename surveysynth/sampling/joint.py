"""Joint inclusion probabilities pi_kl of units k and l, in a whole population or in a sample.

They can be computed for simple random, Poisson, systematic (in the order of the file), Tille's and maximum entropy
selection.  pi_k is the inclusion probability of unit k.  Stratum h has n_h selected units.  Positions are counted
from 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numba as nb
import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError
from ..validation import rows
from .maximum_entropy import Complex, ConditionalPoisson, conditional_poisson
from .probabilities import Floats, Positions
from .selection import probabilities, split, whole_sample
from .tille import Path, path

ROUNDING = 1e-9  # an overlap below this share of an interval is due to rounding
AGREEMENT = 1e-6  # largest relative difference between given numbers that should be equal


@dataclass(frozen=True)
class Joint(ABC):
    """Joint inclusion probabilities of the n_h selected units of one stratum.

    Attributes
    ----------
    positions : int array (n_h,)
        Positions of the units in the sample of all strata.
    pi : float array (n_h,)
        Inclusion probabilities of the units.

    Examples
    --------
    >>> joint = ss.sampling.draw([3, 5, 8, 2], 2, "maximum_entropy", np.random.default_rng()).joint
    >>> [stratum.pi.size for stratum in joint]
    [2]
    """

    positions: Positions
    pi: Floats = field(repr=False)

    def matrix(self) -> Floats:
        """Compute the matrix of joint inclusion probabilities pi_kl.

        Returns
        -------
        float array (n_h, n_h)
            Symmetric, with the inclusion probabilities pi_k on the diagonal.
        """
        pi = np.outer(self.pi, self.pi)  # certain units are independent of all others
        free = _free(self.pi)
        pi[np.ix_(free, free)] = self._pairs()
        np.fill_diagonal(pi, self.pi)
        return pi

    @abstractmethod
    def _pairs(self) -> Floats:
        """Compute the matrix of pi_kl for the units with 0 < pi < 1.  Its diagonal has no meaning."""


def _free(pi: Floats) -> Positions:
    return np.flatnonzero((pi > 0) & (pi < 1))


@dataclass(frozen=True)
class PoissonJoint(Joint):
    """Joint inclusion probabilities under Poisson selection, which selects units independently."""

    def _pairs(self) -> Floats:
        pi = self.pi[_free(self.pi)]
        return np.outer(pi, pi)


@dataclass(frozen=True)
class SimpleRandomJoint(Joint):
    """Joint inclusion probabilities of a simple random sample of n of N units: n (n - 1) / (N (N - 1)) per pair."""

    pair: float

    def _pairs(self) -> Floats:
        free = _free(self.pi).size
        return np.full((free, free), self.pair)


@dataclass(frozen=True)
class SystematicJoint(Joint):
    """Joint inclusion probabilities under systematic selection.

    Each unit has an interval of length pi on the axis of the cumulated pi.  A unit is selected if its interval contains
    a selection point.  All selection points are equal modulo 1.  So pi_kl is the length of the overlap of two arcs of a
    circle with circumference 1.  ``start`` has the beginnings, modulo 1, of the intervals of the units with 0 < pi < 1.
    """

    start: Floats

    def _pairs(self) -> Floats:
        length = self.pi[_free(self.pi)]
        k, other = length[:, None], length
        ahead = (self.start - self.start[:, None]) % 1.0  # from where k begins to where l begins
        common = np.clip(k - ahead, 0.0, other) + np.clip(ahead + other - 1, 0.0, k)
        common = np.minimum(common, common.T)  # makes the matrix exactly symmetric
        return np.where(common > ROUNDING * np.minimum(k, other), common, 0.0)


@dataclass(frozen=True)
class EliminationJoint(Joint):
    """Joint inclusion probabilities under Tille's elimination procedure."""

    path: Path

    def _pairs(self) -> Floats:
        return self.path.joint()


@dataclass(frozen=True)
class EntropyJoint(Joint):
    """Joint inclusion probabilities under conditional Poisson selection.

    ``odds`` (of the units with 0 < pi < 1), ``t`` and ``W`` are explained at :class:`ConditionalPoisson`.
    """

    odds: Floats
    t: Floats
    W: Complex

    def _pairs(self) -> Floats:
        certain = self.odds == np.inf  # pi is 1 up to rounding
        odds = np.where(certain, 1.0, self.odds)[:, None]
        g = np.where(certain[:, None], 1.0, odds / (odds + np.exp(-1j * self.t))) * np.sqrt(self.W)
        real, imag = g.real.copy(), g.imag.copy()  # the product of an array with itself is exactly symmetric
        return np.maximum(real @ real.T - imag @ imag.T, 0.0)


@dataclass(frozen=True)
class GivenJoint(Joint):
    """Joint inclusion probabilities that the user gives.  :meth:`checked` makes such an object.

    Attributes
    ----------
    positions : int array (n_h,)
        Positions of the units in the sample, counted from 0.
    pi : float array (n_h,)
        Inclusion probabilities of the units.
    known : float array (n_h, n_h)
        Joint inclusion probabilities, with pi on the diagonal.

    Examples
    --------
    >>> pi = np.array([0.4, 0.6, 1.0])
    >>> given = ss.sampling.GivenJoint.checked([[0.4, 0, 0.4], [0, 0.6, 0.6], [0.4, 0.6, 1]], pi)
    >>> given.known[2]
    array([0.4, 0.6, 1. ])
    """

    known: Floats = field(repr=False)

    @classmethod
    def checked(cls, joint: ArrayLike, pi: Floats) -> GivenJoint:
        """Make an object from a matrix of joint inclusion probabilities, which is checked and copied.

        Parameters
        ----------
        joint : float array (n, n)
            Joint inclusion probabilities of all n units of a sample, with pi on the diagonal.
        pi : float array (n,)
            Inclusion probabilities of the units.

        Returns
        -------
        GivenJoint
            Joint inclusion probabilities, with all units in one stratum.

        Raises
        ------
        InputError
            The matrix is not (n, n), has missing, infinite or negative entries, is not symmetric, differs from pi on
            its diagonal, or has an entry pi_kl above pi_k or pi_l.
        """
        try:
            known = np.array(joint, dtype=np.float64)
        except (TypeError, ValueError):
            known = np.empty(0)
        if known.shape != (pi.size, pi.size):
            raise InputError(f"joint must be a matrix of {pi.size:,} x {pi.size:,} numbers, a row and column a record")
        wrong = {
            "is missing or negative in": ~(np.isfinite(known) & (known >= 0)),
            "is not symmetric in": np.abs(known - known.T) > AGREEMENT * known,
            "differs on its diagonal from the inclusion probabilities in": np.diag(
                np.abs(known.diagonal() - pi) > AGREEMENT * pi
            ),
            "exceeds an inclusion probability in": known > pi * (1 + AGREEMENT),
        }
        for what, bad in wrong.items():
            if bad.any():
                raise InputError(f"joint {what} {rows(bad.any(axis=1))}")
        known.flags.writeable = False
        return cls(np.arange(pi.size), pi, known)

    def matrix(self) -> Floats:
        """Return the matrix of joint inclusion probabilities.

        Returns
        -------
        float array (n_h, n_h)
            The read-only matrix ``known``.
        """
        return self.known

    def _pairs(self) -> Floats:
        free = _free(self.pi)
        return self.known[np.ix_(free, free)]


def joint_probabilities(pi: ArrayLike, method: str) -> Floats:
    """Compute the joint inclusion probabilities pi_kl of all N units of a population.

    Parameters
    ----------
    pi : float array (N,)
        Inclusion probabilities.  They add up to the sample size, except under Poisson selection.
    method : {"srs", "poisson", "systematic", "tille", "maximum_entropy"}
        Method of selection.  "systematic" is systematic selection in the order of the file.

    Returns
    -------
    float array (N, N)
        Entry (k, l) is pi_kl, and entry (k, k) is pi_k.

    Raises
    ------
    InputError
        The method is not one of these; a probability is below 0 or above 1; the probabilities do not add up to a whole
        number (allowed under Poisson selection only); the probabilities of "srs" are not all equal.
    ModelError
        Under "maximum_entropy", :func:`conditional_poisson` fails.

    Examples
    --------
    >>> ss.sampling.joint_probabilities([0.4, 0.6, 1.0], "maximum_entropy")
    array([[0.4, 0. , 0.4],
           [0. , 0.6, 0.6],
           [0.4, 0.6, 1. ]])
    """
    if method not in JOINTS:
        raise InputError(f"method={method!r} is not one with joint probabilities: {', '.join(JOINTS)}")
    p = probabilities(pi)
    return JOINTS[method](p, np.arange(p.size)).matrix()


def entropy_joint(fitted: ConditionalPoisson, pi: Floats, units: Positions) -> Joint:
    """Return the joint inclusion probabilities of selected units under conditional Poisson selection.

    ``pi`` (N,) has the inclusion probabilities of all N units, and ``units`` has the positions of the selected ones.
    """
    p = pi[units]
    return EntropyJoint(np.arange(units.size), p, fitted.odds[units[_free(p)]], fitted.t, fitted.W)


def _poisson(pi: Floats, units: Positions) -> Joint:
    return PoissonJoint(np.arange(units.size), pi[units])


def _simple_random(pi: Floats, units: Positions) -> Joint:
    _, n = whole_sample(pi)
    if np.ptp(pi) > 1e-9:
        raise InputError("simple random sampling has one inclusion probability for all units")
    return SimpleRandomJoint(np.arange(units.size), pi[units], n * (n - 1) / (pi.size * max(pi.size - 1, 1)))


def _systematic(pi: Floats, units: Positions) -> Joint:
    whole_sample(pi)
    p = pi[units]
    return SystematicJoint(np.arange(units.size), p, _starts(pi)[units[_free(p)]])


def _tille(pi: Floats, units: Positions) -> Joint:
    _, free, p, n = split(pi)
    if n == 0:  # pi is 0 or 1 up to rounding
        return PoissonJoint(np.arange(units.size), pi[units])
    return EliminationJoint(np.arange(units.size), pi[units], path(p, n, np.flatnonzero(np.isin(free, units))))


def _maximum_entropy(pi: Floats, units: Positions) -> Joint:
    return entropy_joint(conditional_poisson(pi), pi, units)


@nb.njit(cache=True)
def _starts(pi: Floats) -> Floats:
    """Compute, for each unit, the sum of the probabilities of all units before this unit, modulo 1: (N,)."""
    start, at = np.empty(pi.size), 0.0
    for i in range(pi.size):
        start[i] = at
        at += pi[i]
        if at >= 1:
            at -= 1
    return start


JOINTS: dict[str, Callable[[Floats, Positions], Joint]] = {
    "srs": _simple_random,
    "poisson": _poisson,
    "systematic": _systematic,
    "tille": _tille,
    "maximum_entropy": _maximum_entropy,
}
