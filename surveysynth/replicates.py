"""Replicate weights: Preston's rescaled bootstrap of the first stage of sampling (Preston 2009).

In stratum h, n*_h = floor(n_h / 2) of the n_h sampled PSUs are kept, drawn without replacement.
With f_h the sampling fraction and delta = 1 for a kept PSU, else 0, the weights of a PSU are
multiplied by

    1 - lambda_h + lambda_h (n_h / n*_h) delta,    lambda_h = sqrt(n*_h (1 - f_h) / (n_h - n*_h)).

With n_h even and f_h = 0 this is 2 delta, the half sample doubled of T 2.4.  For a total, the
expected squared difference from the estimate is the stratified variance, exactly:
sum_h (1 - f_h) n_h / (n_h - 1) sum_c (z_hc - mean z_h)^2.  For a mean it is so to first order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from .errors import InputError, rows, whole
from .stages import Stage

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Replicates:
    """R sets of replicate weights, kept as factors of PSUs: the file is not copied R times.

    Attributes
    ----------
    unit : int array (n,)
        PSU of each record.
    factors : float array (units, R)
        The weight of record i in replicate r is ``weights[i] * factors[unit[i], r]``.
    """

    unit: Codes
    factors: Floats

    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:
        """Sums of the values z by domain, in every replicate.

        Parameters
        ----------
        z : float array (n,)
            Weighted values: w for a count, w y for a total.
        domain : int array (n,)
            Domain of each record, 0 to ``domains - 1``.

        Returns
        -------
        float array (R, domains)
        """
        by_unit = coo_array((z, (domain, self.unit)), shape=(domains, self.factors.shape[0])).tocsr()
        return np.asarray(by_unit @ self.factors).T


def preston(stages: tuple[Stage, ...], R: int, rng: np.random.Generator) -> Replicates:
    """Draw R replicates of a design (Preston 2009; T 2.4; R's ``type = "mrbbootstrap"``).

    A stratum that is sampled completely keeps its weights (factor 1).

    Parameters
    ----------
    stages : tuple of Stage
        Of the design: one stage, or several without an fpc: the first stage then carries the whole variance.
    R : int
        Replicates.
    rng : numpy.random.Generator
        Nothing that is confidential enters the draw: strata and PSUs only.

    Returns
    -------
    Replicates

    Raises
    ------
    InputError
        R is no positive whole number; a stratum with one PSU that is not sampled completely;
        a design whose later stages have a variance of their own.
    """
    whole(R, "the number of replicates")
    if len(stages) > 1:
        raise InputError(
            f"replicates cover the first stage of sampling, and this design has an fpc that brings in "
            f"{len(stages)} stages; make the design without fpc: the first stage then carries the variance"
        )
    stage = stages[0]
    n_h, h = stage.sampled, stage.stratum_of_unit
    low, high = _factors(stage)
    place = np.sort(h)  # units in the order of their strata
    keep = np.arange(h.size) - (np.cumsum(n_h) - n_h)[place] < (n_h // 2)[place]  # the first n*_h of each stratum
    factors = np.repeat(low[h, None], R, axis=1)
    for r in range(R):
        kept = np.lexsort((rng.random(h.size), h))[keep]  # in that order, at random within a stratum
        factors[kept, r] = high[h[kept]]
    return Replicates(stage.unit, factors)


def _factors(stage: Stage) -> tuple[Floats, Floats]:
    """Factors of a PSU that is not kept, and of one that is: two arrays (strata,)."""
    n_h, f_h = stage.sampled, stage.fraction
    lonely = ((n_h == 1) & (f_h < 1))[stage.stratum]
    if lonely.any():
        raise InputError(
            f"a stratum has only one PSU, so replicates cannot show its variance: {rows(lonely)}; merge strata, or "
            "declare it sampled completely with an fpc"
        )
    kept = np.maximum(n_h // 2, 1)
    lam = np.sqrt(kept * (1 - f_h) / np.maximum(n_h - kept, 1))
    return 1 - lam, 1 - lam + lam * (n_h / kept)


def variance(theta_r: Floats, theta: Floats) -> Floats:
    """Variance of estimates from their replicates: (1/R) sum_r (theta_r - theta)^2 (T 2.4).

    R's ``as.svrepdesign`` divides by R - 1 here; give it ``scale = 1/R, rscales = 1`` for this form.

    Parameters
    ----------
    theta_r : float array (R, D)
        Replicate estimates; NaN where one does not exist (no record of a domain was kept):
        it is left out.
    theta : float array (D,)

    Returns
    -------
    float array (D,)
        NaN where no replicate has an estimate.
    """
    exists = ~np.isnan(theta_r)
    squares = np.where(exists, theta_r - theta, 0.0) ** 2
    with np.errstate(invalid="ignore"):
        return np.asarray(squares.sum(axis=0) / exists.sum(axis=0))
