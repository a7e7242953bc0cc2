"""Base class of replicate weights, and formulas of the bootstrap, the jackknife and balanced half samples.

The weight of record i in replicate r is its weight w_i times a factor.  (If a file has replicate weights, one may be
positive although w_i = 0.)  Let theta be an estimate, and theta_r the estimate with the weights of replicate r.  With
the arguments ``scale`` = s and ``rscales`` = s_r of R's ``svrepdesign``, the variance of theta is

    s sum_r s_r (theta_r - theta)^2.

Bootstrap (Preston 2009; R's ``type = "mrbbootstrap"``).  In each stratum n* = floor(n / 2) of its n
PSUs are drawn without replacement and kept.  In each kept PSU, n* of its n units are kept, and so on.  At stage k
let f_k be the sampling fraction, let delta_k be 1 for a kept unit and 0 for another unit, and let

    lambda_k = sqrt(f_1 ... f_{k-1} n_k* (1 - f_k) / (n_k - n_k*)).

The factor is 1 + sum_k lambda_k (n_k / n_k* delta_k - 1) prod_{j<k} sqrt(n_j / n_j*) delta_j.  With one
stage, n even and f = 0, the factor is 2 delta: the doubled half sample of Hu, Savitsky & Williams (2022a, section 2.4).
For a total, the expected squared difference of theta_r from theta is exactly the variance of
:mod:`surveysynth.estimation.taylor`, including later stages.  For a mean this holds to first order.  If a stratum has
one PSU, which is certain (f = 1), the PSU is always kept, so that the stages within it add their variance (in R they do
not).  With several stages a factor may be negative, as in R.

Jackknife.  A replicate leaves one PSU out, and gives its weight to the other PSUs of the stratum.

Balanced half samples (BRR; Fay's method).  Of the two PSUs of each stratum, one gets the factor 2 - rho, and the other
the factor rho (0 under BRR).  Each stratum has its own row of a Hadamard matrix, whose entries decide which PSU it is
in each replicate.  The rows are orthogonal, so products of the deviations of two strata cancel over the replicates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Levels = NDArray[np.uint8]
Records = slice | Codes

BLOCK = 2_000_000  # random numbers, factors or given weights in memory at a time: 16 MB
RANK_TOLERANCE = 1e-5  # as in R: a replicate adds to the rank if this share of its length is independent of the others


@dataclass(frozen=True, eq=False)
class Replicates(ABC):
    """R sets of replicate weights for n records.  All arrays are read-only.

    Attributes
    ----------
    method : str
        "preston", "Rao-Wu", "JK1", "JKn", "BRR", "Fay", "successive differences" or "given".
    scale : float
        The factor s of the variance, in the module's docstring.
    rscales : float array (R,)
        The factors s_r of the replicates.
    mse : bool
        True if deviations of the replicates are taken from the estimate.  False if they are taken from the mean of the
        replicates with rscales above 0, as in R.
    """

    method: str
    scale: float
    rscales: Floats
    mse: bool

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:  # by calling __init__, so that arrays stay read-only
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def around_their_mean(self) -> Self:
        """Return a copy whose variances take deviations from the mean of the replicates, and not from the estimate.

        The variance of a bootstrap then divides by R - 1, and not by R.
        """
        R = self.R
        bootstrap = self.method in ("preston", "Rao-Wu") and R > 1
        return replace(self, mse=False, scale=self.scale * R / (R - 1) if bootstrap else self.scale)

    @property
    def R(self) -> int:
        """Number of replicates."""
        return int(self.rscales.size)

    @abstractmethod
    def factors(self, start: int, stop: int) -> Floats:
        """Return the factors (n, stop - start) by which replicates ``start`` to ``stop - 1`` multiply the weights."""

    def multiplicand(self, weights: Floats) -> Floats:
        """Return the weights (n,) that are multiplied by the factors of a replicate to give replicate weights.

        They are ``weights``, the weights of the design, unless a file has replicate weights other than 0 for a record
        of weight 0.  Such a record needs another number (:class:`.given.GivenReplicates`).
        """
        return weights

    @abstractmethod
    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:
        """Sum weighted values by domain, in every replicate.

        Parameters
        ----------
        z : float array (n,)
            Weighted values: w for a number of units, or w y for a total of y, where w is the :meth:`multiplicand`.
        domain : int array (n,)
            Domain of each record, from 0 to ``domains - 1``, or -1 for a record outside all domains.

        Returns
        -------
        float array (R, domains)
            The sums.  A sum is exactly 0 if the replicate has factor 0 for every record of the domain.
        """

    @abstractmethod
    def degf(self, weights: Floats, inside: Records = slice(None)) -> int:
        """Compute the degrees of freedom: the rank of the replicate weights minus 1, as in R's ``degf``.

        Parameters
        ----------
        weights : float array (n,)
            Weights of the design.  Records of weight 0 do not count.
        inside : int array, optional
            Positions of the records of a domain; default all records.
        """

    def variance(self, theta_r: Floats, theta: Floats) -> Floats:
        """Compute the variances of D estimates from the estimates in all replicates.

        Parameters
        ----------
        theta_r : float array (R, D)
            Estimates in the replicates.  NaN means that a replicate has no estimate, since it keeps no record of the
            domain.  Such a replicate is left out, and the sum over the other replicates is divided by (sum of their
            rscales) / (sum of all rscales).  (R does not divide.)
        theta : float array (D,)
            Estimates from the weights of the design.

        Returns
        -------
        float array (D,)
            The variances.  A variance is NaN if no replicate has an estimate.
        """
        exists = ~np.isnan(theta_r)
        squares = np.where(exists, theta_r - self._centre(theta_r, theta), 0.0) ** 2
        return np.asarray(self.scale * (self.rscales @ squares) * self._scaled_up(exists))

    def covariance(self, theta_r: Floats, theta: Floats) -> Floats:
        """Compute the covariance matrix (p, p) of p estimates from the estimates in all replicates.

        Parameters
        ----------
        theta_r : float array (R, p)
            Estimates in the replicates.  If one of the estimates of a replicate is NaN, the replicate is left out, and
            the sum over the other replicates is divided by (sum of their rscales) / (sum of all rscales).
        theta : float array (p,)
            Estimates from the weights of the design.
        """
        exists = np.asarray(~np.isnan(theta_r).any(axis=1))
        theta_r = theta_r[exists]
        deviation = theta_r - self._centre(theta_r, theta, exists)
        products = deviation.T @ (self.rscales[exists, None] * deviation)
        return np.asarray(self.scale * products * self._scaled_up(exists))

    def _centre(self, theta_r: Floats, theta: Floats, selected: slice | NDArray[np.bool_] = slice(None)) -> Floats:
        if self.mse:
            return theta
        counted = ~np.isnan(theta_r) & (self.rscales[selected] > 0)[:, None]
        number = counted.sum(axis=0)
        return np.where(number > 0, np.where(counted, theta_r, 0.0).sum(axis=0) / np.maximum(number, 1), theta)

    def _scaled_up(self, exists: NDArray[np.bool_]) -> Floats:
        """Return the factor that corrects a sum over replicates for the replicates without an estimate.

        The factor is (sum of all rscales) / (sum of the rscales of the replicates with an estimate), or NaN if no
        replicate has an estimate.
        """
        if not self.rscales.any():  # a complete sample: the variance is 0
            return np.where(exists.any(axis=0), 1.0, np.nan)
        there = np.asarray(self.rscales @ exists)
        return np.divide(self.rscales.sum(), there, out=np.full_like(there, np.nan), where=there > 0)


def _sums(z: Floats, unit: Codes, units: int, domain: Codes, domains: int) -> Floats:
    inside = domain >= 0
    return np.asarray(np.bincount(unit[inside] * domains + domain[inside], z[inside], units * domains), np.float64)


def _gram(block: Floats) -> Floats:
    return np.asarray(block.T @ block)


def _rank(gram: Floats) -> int:
    """Compute the rank of a matrix F from ``gram`` = F'F, by a Cholesky decomposition with pivots."""
    length = np.sqrt(gram.diagonal())
    gram = gram[np.ix_(length > 0, length > 0)] / np.outer(length[length > 0], length[length > 0])
    return int(dpstrf(gram, tol=RANK_TOLERANCE**2)[2]) if gram.size else 0


# the loops over replicates are innermost and contiguous, so that the compiler can vectorise them
@nb.njit(cache=True)
def _select(
    uniform: Floats,
    unit: Codes,
    stratum: Codes,
    left: Codes,
    sampled: Codes,
    number: int,
    above: Levels,
    wanted: Floats,
    level: Levels,
) -> None:
    """Draw half of the units of each stratum at random, in all R replicates at once.

    This is selection sampling (Knuth, vol. 2, 3.4.2 S).  At unit j, ``left[j]`` units of its stratum remain, including
    this unit.  In replicate r, ``wanted[r]`` of these units are still to be kept.  ``above`` (strata, R) has the number
    of stages, from the first on, that keep each stratum, and ``level`` (units, R) gets the number for each unit.
    ``number`` is the number of stages before the one that is drawn here.
    """
    R = wanted.size
    for j in range(unit.size):
        if left[j] == sampled[stratum[j]]:
            wanted[:] = max(left[j] // 2, 1)
        x, higher, out = uniform[j], above[stratum[j]], level[unit[j]]
        for r in range(R):
            kept = x[r] * left[j] < wanted[r]
            wanted[r] -= kept
            out[r] = higher[r] + (kept and higher[r] == number)
