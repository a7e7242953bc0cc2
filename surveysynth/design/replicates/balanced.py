"""Balanced half samples from the rows of Hadamard matrices."""

from __future__ import annotations

import warnings
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...validation import rows
from ..stages import Stage
from .levels import LevelReplicates

Signs = NDArray[np.int8]


def balanced(stages: tuple[Stage, ...], rho: float = 0.0) -> LevelReplicates:
    """Make balanced half samples of two PSUs per stratum: BRR, or Fay's method if rho > 0.

    The number of replicates is the smallest available order (:func:`hadamard`) of a Hadamard matrix that is larger than
    the number of strata.

    Parameters
    ----------
    stages : tuple of Stage
        Stages of the design.  As in R, an fpc is ignored, with a warning: PSUs are taken as drawn with replacement, and
        the variance between PSUs is the whole variance.
    rho : float
        A number from 0 to below 1.  Of the two PSUs of a stratum, the weights of one are multiplied by rho, and the
        weights of the other by 2 - rho.

    Raises
    ------
    InputError
        rho is out of range; a stratum does not have two PSUs.
    """
    if isinstance(rho, bool) or not isinstance(rho, (int, float, np.number)) or not 0 <= rho < 1:
        raise InputError("rho must be a number from 0 to below 1")
    first = stages[0]
    odd = (first.sampled != 2)[first.stratum]
    if odd.any():
        raise InputError(
            f"balanced half samples need exactly two PSUs in every stratum: not so in {rows(odd)}; merge PSUs or "
            "strata, or choose another kind of replicates"
        )
    if first.fraction.any():
        warnings.warn("balanced half samples take PSUs as drawn with replacement: the fpc is not used", stacklevel=3)
    h = first.stratum_of_unit
    half = hadamard(first.sampled.size + 1)[1:] > 0  # the first row is constant
    second = np.zeros(h.size, dtype=bool)
    second[np.argsort(h, kind="stable")[1::2]] = True
    level = (half[h] != second[:, None]).astype(np.uint8)
    R, value = level.shape[1], np.array([[rho, 2.0 - rho]])
    scale = 1 / (R * (1 - float(rho)) ** 2)
    group = np.zeros(h.size, dtype=np.intp)
    return LevelReplicates("Fay" if rho else "BRR", scale, np.ones(R), True, first.unit, level, group, value)


def hadamard(least: int) -> Signs:
    """Make a Hadamard matrix of the smallest available order that is at least ``least``.  Its first row is all 1.

    The available orders, for which a matrix can be constructed, are 1, 2, q + 1 for a prime q = 3 mod 4, 2 (q + 1) for
    a prime q = 1 mod 4 (Paley 1933), and twice an available order (Sylvester 1867).
    """
    order = least
    while (found := _hadamard(order)) is None:
        order += 1
    return found * found[0]


def _hadamard(order: int) -> Signs | None:
    two = np.array([[1, 1], [1, -1]], dtype=np.int8)
    if order <= 2:
        return two[:order, :order]
    if order % 4:
        return None
    if _is_prime(order - 1):
        S = _bordered(order - 1)
        S[0] *= -1
        return S + np.eye(order, dtype=np.int8)
    if order % 8 == 4 and _is_prime(order // 2 - 1):
        C = _bordered(order // 2 - 1)
        return np.kron(C, two) + np.kron(np.eye(order // 2, dtype=np.int8), two * [[1, -1], [-1, 1]]).astype(np.int8)
    smaller = _hadamard(order // 2)
    return None if smaller is None else np.kron(two, smaller)


def _bordered(q: int) -> Signs:
    """Make the Jacobsthal matrix of a prime q with a border of ones, and 0 on the diagonal: (q + 1, q + 1)."""
    i = np.arange(q)
    chi = np.full(q, -1, dtype=np.int8)
    chi[i * i % q] = 1
    chi[0] = 0
    C = np.ones((q + 1, q + 1), dtype=np.int8)
    C[0, 0] = 0
    C[1:, 1:] = chi[(i[:, None] - i) % q]
    return C


def _is_prime(q: int) -> bool:
    return q > 1 and all(q % d for d in range(2, isqrt(q) + 1))
