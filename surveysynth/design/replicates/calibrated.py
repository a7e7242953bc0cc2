"""Replicate weights that are calibrated to known totals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...errors import InputError
from ..calibration import Ratio, multipliers
from .base import BLOCK, Records, Replicates, _gram, _rank

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CalibratedReplicates(Replicates):
    """Replicates whose weights meet the known totals.  Only the multipliers lambda of the calibration are stored.

    Attributes
    ----------
    before : Replicates
        Replicates before calibration.
    X : sparse array (n, p)
        The p auxiliary variables, whose totals are known.
    multipliers : float array (R, p)
        Lambda of each replicate (:func:`surveysynth.design.calibration.multipliers`).
    ratio : Ratio
        The function g of the calibration, which gives the ratio of a calibrated weight to the weight before
        calibration.
    g : float array (n,)
        Ratio of the weights of the design after calibration to the weights before calibration (1 for a weight of 0).
    """

    before: Replicates
    X: Any = field(repr=False)
    multipliers: Floats = field(repr=False)
    ratio: Ratio
    g: Floats = field(repr=False)

    def factors(self, start: int, stop: int) -> Floats:  # noqa: D102
        g = self.ratio(self.X @ self.multipliers[start:stop].T)[0]
        return np.asarray(self.before.factors(start, stop) * g / self.g[:, None])

    def multiplicand(self, weights: Floats) -> Floats:  # noqa: D102
        return self.before.multiplicand(weights)

    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:  # noqa: D102
        inside = np.flatnonzero(domain >= 0)
        sums = csr_array((z[inside], (domain[inside], inside)), shape=(domains, z.size))
        step = max(1, BLOCK // z.size)
        return np.concatenate([(sums @ self.factors(r, min(r + step, self.R))).T for r in range(0, self.R, step)])

    def degf(self, weights: Floats, inside: Records = slice(None)) -> int:
        """Compute the degrees of freedom: the rank of the replicate weights minus 1, as in R's ``degf``.

        After linear calibration without bounds, the rank of the calibrated replicate weights is used.  Other
        calibration is not linear in the weights, so that this rank would be meaningless.  The rank of the replicate
        weights before calibration is then used.
        """
        if self.ratio != Ratio("linear", (-np.inf, np.inf)):
            return self.before.degf(weights, inside)
        full = self.factors(0, self.R)[inside] * self.multiplicand(weights)[inside, None]
        return _rank(_gram(full if len(full) > self.R else full.T)) - 1


def calibrated_replicates(
    before: Replicates, d: Floats, w: Floats, X: Any, totals: Floats, ratio: Ratio
) -> CalibratedReplicates:
    """Calibrate every replicate to the known totals (R's ``calibrate`` of a ``svyrep.design``).

    Parameters
    ----------
    before : Replicates
        The replicates before calibration.
    d, w : float array (n,)
        Weights of the design before and after calibration.
    X, totals, ratio
        See :func:`surveysynth.design.calibration.multipliers`.

    Raises
    ------
    InputError
        A replicate cannot meet the totals, for example because it has no record of a group.
    """
    found, step, full = np.empty((before.R, totals.size)), max(1, BLOCK // d.size), before.multiplicand(d)
    for start in range(0, before.R, step):
        factors = before.factors(start, min(start + step, before.R))
        for r, factor in enumerate(factors.T, start):
            found[r] = multipliers(full * factor, X, totals, ratio)
    failed = np.isnan(found).any(axis=1)
    if failed.any():
        raise InputError(
            f"{failed.sum():,} of the {before.R:,} replicates cannot meet the totals: some group has no record there: "
            "merge categories, take fewer totals or wider bounds, or another kind of replicates"
        )
    g = np.divide(w, d, out=np.ones_like(w), where=d > 0)
    return CalibratedReplicates(
        before.method, before.scale, before.rscales, before.mse, before, X, found, ratio, g
    )  # fmt: skip
