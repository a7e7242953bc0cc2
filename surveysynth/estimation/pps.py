"""Variances of one-stage element samples drawn with unequal probabilities without replacement.

Record i has the inclusion probability pi_i, and records i and j have the joint inclusion probability pi_ij.  For the
total of y, let z_i = y_i / pi_i.  For other statistics z_i is the weighted, linearized value of record i, and 0 outside
the domain.  The sums are over all records of the design.  The variances are

    Sen (1953), Yates & Grundy (1953): sum_{i<j} (pi_i pi_j - pi_ij) / pi_ij (z_i - z_j)^2,
    Horvitz & Thompson (1952):         sum_ij (pi_ij - pi_i pi_j) / pi_ij z_i z_j,   pi_ii = pi_i,
    Hajek (1964), an approximation:    sum_h n_h / (n_h - 1) sum_{i in h} c_i (z_i - B_h)^2,
    R's pps = "brewer", also approximate:  sum_h n_h / (n_h - 1) sum_{i in h} c_i (z_i - mean_h z)^2,

with c_i = 1 - pi_i, B_h = sum_h c_i z_i / sum_h c_i and n_h the number of units of stratum h.  Hajek's n_h does not
count units with pi_i = 1.  The first variance is for samples of fixed size, and is 0 if z is constant.  The second is
also for samples of random size, and may be negative.  The third and the fourth need no joint probabilities.  Both are
accurate for designs of large entropy, but not for systematic selection in an informative order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numba as nb
import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..validation import rows
from .taylor import pairs, sums

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Blocks = Iterable[tuple[Codes, Floats]]


def sen_yates_grundy(blocks: Blocks, pi: Floats, z: Floats, domain: Codes, domains: int) -> Floats:
    """Compute Sen, Yates and Grundy's variance of the total of z in each domain.

    Parameters
    ----------
    blocks : iterable of (int array (k,), float array (k, k))
        Positions of k records, and their joint inclusion probabilities (the diagonal is ignored).
        Every record is in one block.  Records of different blocks were selected independently.
    pi : float array (n,)
        Inclusion probabilities.
    z : float array (n,)
        Weighted, linearized values.
    domain : int array (n,)
        Domain of each record, 0 to ``domains - 1``; -1 for a record outside all of them.

    Returns
    -------
    float array (domains,)

    Raises
    ------
    InputError
        A joint inclusion probability is 0 or missing, or a record is in no block.
    """
    return _over_domains(blocks, pi, z, domain, domains, True)


def horvitz_thompson(blocks: Blocks, pi: Floats, z: Floats, domain: Codes, domains: int) -> Floats:
    """Compute Horvitz and Thompson's variance of the total of z in each domain (see :func:`sen_yates_grundy`)."""
    return _over_domains(blocks, pi, z, domain, domains, False)


def _over_domains(blocks: Blocks, pi: Floats, z: Floats, domain: Codes, domains: int, squares: bool) -> Floats:
    variance = np.zeros(domains) if squares else poisson(pi, z, domain, domains)
    for units, joint in _checked(blocks, pi.size):
        _add_pairs(np.ascontiguousarray(joint), pi[units], z[units], domain[units], squares, variance)
    return variance


@nb.njit(cache=True)
def _add_pairs(joint: Floats, pi: Floats, z: Floats, domain: Codes, squares: bool, out: Floats) -> None:
    """Add the terms for all pairs of different records to the variance of each domain in ``out`` (domains,).

    With ``squares``, the variance is Sen, Yates and Grundy's, otherwise Horvitz and Thompson's.  In the variance of a
    domain, z is 0 for records outside the domain.
    """
    for i in range(pi.size):
        for j in range(i):
            a, b = domain[i], domain[j]
            excess = pi[i] * pi[j] / joint[i, j] - 1
            if not squares:
                if a == b and a >= 0:
                    out[a] -= 2 * excess * z[i] * z[j]
            elif a == b:
                if a >= 0:
                    out[a] += excess * (z[i] - z[j]) ** 2
            else:
                if a >= 0:
                    out[a] += excess * z[i] ** 2
                if b >= 0:
                    out[b] += excess * z[j] ** 2


def sen_yates_grundy_matrix(blocks: Blocks, pi: Floats, Z: Floats) -> Floats:
    """Compute Sen, Yates and Grundy's covariance matrix (p, p) of the totals of the p columns of Z."""
    covariance = np.zeros((Z.shape[1], Z.shape[1]))
    for units, joint in _checked(blocks, pi.size):
        excess = _excess(joint, pi[units])
        centred = Z[units] - Z[units].mean(axis=0)
        covariance += centred.T @ (excess.sum(axis=1)[:, None] * centred - excess @ centred)
    return covariance


def horvitz_thompson_matrix(blocks: Blocks, pi: Floats, Z: Floats) -> Floats:
    """Compute Horvitz and Thompson's covariance matrix (p, p) of the totals of the p columns of Z."""
    covariance = poisson_matrix(pi, Z)
    for units, joint in _checked(blocks, pi.size):
        covariance -= Z[units].T @ _excess(joint, pi[units]) @ Z[units]
    return covariance


def _excess(joint: Floats, pi: Floats) -> Floats:
    """Compute the matrix of pi_i pi_j / pi_ij - 1, with 0 on the diagonal."""
    excess = np.outer(pi, pi) / joint - 1
    np.fill_diagonal(excess, 0.0)
    return excess


def _checked(blocks: Blocks, n: int) -> Iterator[tuple[Codes, Floats]]:
    """Yield each block of records with its joint inclusion probabilities.

    Raise InputError if a joint probability is 0 or missing, or if a record is in no block.
    """
    seen = np.zeros(n, dtype=bool)
    for units, joint in blocks:
        seen[units] = True
        never = ~(joint > 0)
        np.fill_diagonal(never, False)
        if never.any():
            bad = np.zeros(n, dtype=bool)
            bad[units[never.any(axis=1)]] = True
            raise InputError(
                f"a joint inclusion probability is 0 or missing for {rows(bad)}: no variance can be computed with it; "
                "use the Hajek approximation"
            )
        yield units, joint
    if not seen.all():
        raise InputError(f"joint inclusion probabilities are missing for {rows(~seen)}; every record needs them")


def poisson(pi: Floats, z: Floats, domain: Codes, domains: int) -> Floats:
    """Compute the variance of the total of z in each domain, for units that were selected independently.

    Horvitz and Thompson's variance with pi_ij = pi_i pi_j is sum (1 - pi_i) z_i^2.
    """
    inside = domain >= 0
    return sums(domain[inside], ((1 - pi) * z**2)[inside], domains)


def poisson_matrix(pi: Floats, Z: Floats) -> Floats:
    """Compute the covariance matrix (p, p) of the totals of the p columns of Z, for independently selected units."""
    return np.asarray(Z.T @ ((1 - pi)[:, None] * Z), dtype=np.float64)


def hajek(stratum: Codes, pi: Floats, z: Floats, domain: Codes, domains: int) -> Floats:
    """Compute Hajek's approximate variance of the total of z in each domain.

    Parameters
    ----------
    stratum : int array (n,)
        Stratum of each record, numbered from 0.
    pi, z, domain, domains
        See :func:`sen_yates_grundy`.

    Returns
    -------
    float array (domains,)
        Variances.  A stratum adds 0 if only one of its units has pi_i < 1.
    """
    c, scale, total = _stratum_weights(stratum, pi)
    inside = domain >= 0
    h, d, code = pairs(stratum[inside], domain[inside], total.size, domains)
    c, z = c[inside], z[inside]
    B = sums(code, c * z, h.size) / np.where(total[h] > 0, total[h], 1.0)
    squares = sums(code, c * (z - B[code]) ** 2, h.size)
    others = np.maximum(total[h] - sums(code, c, h.size), 0.0) * B**2  # records of the stratum with z = 0
    return sums(d, scale[h] * (squares + others), domains)


def hajek_matrix(stratum: Codes, pi: Floats, Z: Floats) -> Floats:
    """Compute Hajek's approximate covariance matrix (p, p) of the totals of the p columns of Z."""
    c, scale, total = _stratum_weights(stratum, pi)
    B = np.column_stack([sums(stratum, c * column, total.size) for column in Z.T])
    centred = Z - (B / np.where(total > 0, total, 1.0)[:, None])[stratum]
    return np.asarray(centred.T @ ((scale[stratum] * c)[:, None] * centred), dtype=np.float64)


def brewer(stratum: Codes, pi: Floats, z: Floats, domain: Codes, domains: int) -> Floats:
    """Compute the variance of the total of z in each domain by the approximation ``pps="brewer"`` of R's ``svydesign``.

    The parameters are those of :func:`hajek`.  A stratum with a single unit adds 0.
    """
    c, scale, units, total = _stratum_units(stratum, pi)
    inside = domain >= 0
    h, d, code = pairs(stratum[inside], domain[inside], units.size, domains)
    c, z = c[inside], z[inside]
    mean = sums(code, z, h.size) / units[h]
    squares = sums(code, c * (z - mean[code]) ** 2, h.size)
    others = np.maximum(total[h] - sums(code, c, h.size), 0.0) * mean**2  # records of the stratum with z = 0
    return sums(d, scale[h] * (squares + others), domains)


def brewer_matrix(stratum: Codes, pi: Floats, Z: Floats) -> Floats:
    """Compute the covariance matrix of the totals of the columns of Z by R's approximation ``pps="brewer"``."""
    c, scale, units, _ = _stratum_units(stratum, pi)
    mean = np.column_stack([sums(stratum, column, units.size) for column in Z.T]) / units[:, None]
    centred = Z - mean[stratum]
    return np.asarray(centred.T @ ((scale[stratum] * c)[:, None] * centred), dtype=np.float64)


def _stratum_units(stratum: Codes, pi: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return 1 - pi_i by record, and n_h / (n_h - 1), n_h and the sum of 1 - pi_i for each stratum of n_h units."""
    c = 1 - pi
    units = np.bincount(stratum).astype(np.float64)
    return c, np.where(units > 1, units / np.maximum(units - 1, 1), 0.0), units, sums(stratum, c, units.size)


def _stratum_weights(stratum: Codes, pi: Floats) -> tuple[Floats, Floats, Floats]:
    """Return 1 - pi_i for each record, and n_h / (n_h - 1) and the sum of 1 - pi_i for each stratum.

    n_h is the number of units with pi_i < 1.
    """
    c = 1 - pi
    uncertain = sums(stratum, (c > 0).astype(np.float64), int(stratum.max()) + 1)
    return c, uncertain / np.maximum(uncertain - 1, 1), sums(stratum, c, uncertain.size)
