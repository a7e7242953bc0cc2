"""The jackknife: replicates that leave one PSU out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...choices import LonelyPSU
from ...errors import InputError
from ..stages import Stage
from .base import Records, Replicates, _sums
from .preston import refuse_lonely_units

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class JackknifeReplicates(Replicates):
    """Jackknife replicates, one for each PSU that is left out.  The factors are not stored.

    Attributes
    ----------
    unit : int array (n,)
        PSU of each record.
    stratum_of_unit : int array (units,)
        Stratum of each PSU.
    sampled : int array (strata,)
        Number of PSUs in the sample, n_h, for each stratum h.
    left_out : int array (R,)
        The PSU that each replicate leaves out.
    """

    unit: Codes
    stratum_of_unit: Codes
    sampled: Codes
    left_out: Codes

    def factors(self, start: int, stop: int) -> Floats:  # noqa: D102
        out = self.left_out[start:stop]
        h = self.stratum_of_unit[out]
        factor = np.where(self.stratum_of_unit[:, None] == h, self._others(h), 1.0)
        factor[out, np.arange(out.size)] = 0.0
        return factor[self.unit]

    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:  # noqa: D102
        # With the totals T of a domain, T_h of stratum h in it, and z_c of the PSU c left out, the sum is
        # T - T_h + n_h / (n_h - 1) (T_h - z_c).  In this order it is exactly 0 if PSU c has the whole domain.
        h = self.stratum_of_unit
        z_c = _sums(z, self.unit, h.size, domain, domains).reshape(h.size, domains)
        T_h = np.asarray(csr_array((np.ones(h.size), (h, np.arange(h.size)))) @ z_c)
        rest = T_h.sum(axis=0) - T_h
        out, h = z_c[self.left_out], h[self.left_out]
        np.subtract(T_h[h], out, out=out)
        out *= self._others(h)[:, None]
        out += rest[h]
        return np.asarray(out)

    def _others(self, h: Codes) -> Floats:
        """Return the factors n_h / (n_h - 1) of the PSUs that are kept when one PSU of stratum h is left out."""
        return np.asarray(self.sampled[h] / (self.sampled[h] - 1.0))

    def degf(self, weights: Floats, inside: Records = slice(None)) -> int:  # noqa: D102
        # In the matrix of factors, PSU c of a stratum of n PSUs has the row 1 + n/(n - 1) a_c.  The vectors a_c of a
        # stratum sum to 0 and have no other linear relation.  The rows of a complete stratum add up to n times the
        # vector 1, so they span this vector and n - 1 more dimensions.
        there = np.bincount(self.unit[inside], weights[inside], self.stratum_of_unit.size) > 0
        whole_strata = int((np.bincount(self.stratum_of_unit, there) == self.sampled).sum())
        return int(there.sum()) - max(whole_strata, 1)


def jackknife(stages: tuple[Stage, ...], stratified: bool, lonely_psu: LonelyPSU = "fail") -> JackknifeReplicates:
    """Make jackknife replicates, which leave one PSU out at a time: JK1 without strata, JKn with strata.

    As in R, a replicate that leaves out one of the n_h PSUs of stratum h has the scale (n_h - 1) / n_h (1 - f_h), where
    f_h is the sampling fraction.  A stratum with one PSU has no replicate.

    Parameters
    ----------
    stages : tuple of Stage
        Stages of the design.  As in R, stages after the first are ignored, with a warning, so that f_h times the
        variance within PSUs is missing from the variance.
    stratified : bool
        True for JKn, False for JK1.
    lonely_psu : {"fail", "remove", "adjust", "average"}
        See :func:`preston`.

    Raises
    ------
    InputError
        JK1 with strata; a stratum with one PSU that is not sampled completely; no stratum with two PSUs.
    """
    refuse_lonely_units(stages[:1], lonely_psu)
    first = stages[0]
    n_h, f_h = first.sampled, first.fraction
    if not stratified and n_h.size > 1:
        raise InputError(f"JK1 is for a design without strata, and this one has {n_h.size:,}; choose JKn")
    if len(stages) > 1:
        warnings.warn(
            "the jackknife shows the variance of the first stage of sampling: that of later stages, times the "
            "sampling fractions above them, is left out",
            stacklevel=3,
        )
    left_out = np.flatnonzero((n_h > 1)[first.stratum_of_unit])
    if left_out.size == 0:
        raise InputError("no stratum has two PSUs, so none can be left out")
    rscales = ((n_h - 1) / n_h * (1 - f_h))[first.stratum_of_unit[left_out]]
    scale = 1.0
    if not stratified:
        scale, rscales = float(rscales[0]), np.ones(left_out.size)
    return JackknifeReplicates(
        "JKn" if stratified else "JK1", scale, rscales, True, first.unit, first.stratum_of_unit, n_h, left_out
    )
