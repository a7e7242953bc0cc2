"""Taylor linearization in domains, and multistage variances of linearized values.

Source: Hu, Savitsky & Williams 2022a, section 2.3; Binder 1996.

The linearized value z_i of record i with weight w_i is, for a statistic in domain d,

    count:  z_i = w_i,    total:  z_i = w_i y_i,    ratio R = Y / X:  z_i = w_i (y_i - R_d x_i) / X_d.

A mean or a proportion is the ratio with x = 1.  A record outside the domain stays in the design with z_i = 0, as in R's
``svyby``.  With sampling fraction f_h and n_h PSUs in stratum h, the variance of one stage is

    sum_h (1 - f_h) n_h / (n_h - 1) sum_{c in h} (z_hc - mean_c z_hc)^2,    where z_hc is the sum of z in PSU c.

Every further stage adds its variance, times the sampling fractions of the stages above.  (The paper
prints the residual r_c with the weight in its first term only; here the standard form is used.)

This variance is not defined for a stratum with one PSU.  Under ``lonely_psu="adjust"`` such a stratum adds

    (1 - f_h) (z_h - z_bar)^2,    z_bar = sum_h sum_{c in h} z_hc / sum_h n_h.

The sums in z_bar are over the strata with a record of the domain, and units without such a record count as 0 (R's
manual of ``survey.lonely.psu``: centred at the population mean; R's package survey left z_bar out before version 4.3).
For means and ratios z_bar is 0, because their linearized values add up to 0.  At later stages z_bar is the mean over
all units of the stage, because a lonely unit is equal to the mean of its parent unit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..choices import LonelyPSU
from ..design.columns import occurring
from ..design.stages import Stage
from ..design.survey_design import SurveyDesign
from . import inequality
from .quantities import Quantity

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


def linearize(w: Floats, quantity: Quantity, domain: Codes, domains: int) -> tuple[Floats, Floats]:
    """Compute point estimates and linearized values, with a poverty line taken as known.  Quantiles are not supported.

    Parameters
    ----------
    w : float array (n,)
        Survey weights.
    quantity : Quantity
    domain : int array (n,)
        Domain of each record, 0 to ``domains - 1``; -1 for a record outside all of them.

    Returns
    -------
    (float array (domains,), float array (n,))
        Estimates, NaN if the denominator is 0, and linearized values z, which are 0 outside the domains.
    """
    if quantity.distributional:
        return inequality.linearize(w, quantity, domain, domains)
    y, x = quantity.y, quantity.x
    code = domain
    if (domain < 0).any():
        inside = domain >= 0
        w, code = np.where(inside, w, 0.0), np.where(inside, domain, 0)
        y, x = (values if values is None else np.where(inside, values, 0.0) for values in (y, x))
    if y is None:
        return sums(code, w, domains), w
    wy = w * y
    total = sums(code, wy, domains)
    if quantity.statistic == "total":
        return total, wy
    wx = w if x is None else w * x
    denominator = sums(code, wx, domains)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = total / denominator
        ratio[denominator == 0] = np.nan  # a domain without records has no estimate
        z = w * (y - ratio[code] * (1.0 if x is None else x)) / denominator[code]
    return ratio, z if code is domain else np.where(domain < 0, 0.0, z)


def sums(code: Codes, values: Floats, size: int) -> Floats:
    """Sum the values by code, for the codes 0 to ``size - 1``: (size,)."""
    return np.asarray(np.bincount(code, values, size), dtype=np.float64)


def multistage(design: SurveyDesign, z: Floats, domain: Codes, domains: int) -> Floats:
    """Compute the variance of the sum of z over each domain, from strata, PSUs and fpc: (domains,).

    Parameters
    ----------
    z : float array (n,)
        Linearized, weighted values.
    domain : int array (n,)
        See :func:`linearize`.
    """
    total = np.zeros(domains)
    for stage, share in _stages(design):
        total += _stage_variances(stage, share, z, domain, domains, design.lonely_psu)
    return total


def _stages(design: SurveyDesign) -> Iterator[tuple[Stage, Floats]]:
    """Yield each stage that adds to the variance, and by stratum the product of all earlier sampling fractions."""
    share = np.ones(design.stages[0].sampled.size)
    for stage in design.stages:
        yield stage, share
        share = (share * stage.fraction)[stage.stratum_of_unit]
        if not share.any():
            return


def _stage_variances(
    stage: Stage, share: Floats, z: Floats, domain: Codes, domains: int, lonely_psu: LonelyPSU
) -> Floats:
    """Compute the variance contribution of one stage: (domains,).

    ``share`` has the product of the sampling fractions above each stratum.  Only pairs of a unit and a domain with
    records are added up.  The other units of a stratum have z = 0, and only their number matters.
    """
    n_h, f_h = stage.sampled, stage.fraction
    unit = stage.unit
    if (domain < 0).any():
        inside = domain >= 0
        unit, domain, z = unit[inside], domain[inside], z[inside]
    if stage.stratum_of_unit.size < stage.unit.size:  # sum over the records of a unit
        unit, domain, pair = pairs(unit, domain, stage.stratum_of_unit.size, domains)
        z = sums(pair, z, unit.size)
    # pairs of a stratum h and a domain d that have records
    h, d, row = pairs(stage.stratum_of_unit[unit], domain, n_h.size, domains)
    present = np.bincount(row, minlength=h.size)
    mean = sums(row, z, h.size) / n_h[h]
    squares = sums(row, (z - mean[row]) ** 2, h.size) + (n_h[h] - present) * mean**2
    scale = share[h]
    with np.errstate(divide="ignore", invalid="ignore"):
        v = scale * (1 - f_h[h]) * np.where(n_h[h] > 1, n_h[h] / (n_h[h] - 1.0) * squares, 0.0)
    lonely = stage.lonely[h]
    if lonely_psu == "adjust":
        with np.errstate(invalid="ignore"):
            centre = sums(domain, z, domains) / np.bincount(d, n_h[h], domains)
        v = np.where(lonely, scale * (1 - f_h[h]) * (mean - centre[d]) ** 2, v)
    variance = sums(d, v, domains)
    if lonely_psu == "average":
        # as in R, lonely strata of a domain get the mean variance of its other strata (NaN if there are none);
        # at later stages, where R gives NaN, they get the mean over all parent units
        strata = np.bincount(d, minlength=domains)
        usable = strata - np.bincount(d, lonely, domains)
        with np.errstate(invalid="ignore"):
            variance = np.where(usable < strata, variance * strata / usable, variance)
    return variance


def pairs(a: Codes, b: Codes, size_a: int, size_b: int) -> tuple[Codes, Codes, Codes]:
    """Find the distinct pairs (a_i, b_i), and return the first codes, the second codes and the pair of each record.

    A record's pair is given by its position among the pairs.  ``size_a`` and ``size_b`` are the numbers of codes.
    """
    pair, number = occurring(a * size_b + b, size_a * size_b)
    return pair // size_b, pair % size_b, number


def multistage_matrix(design: SurveyDesign, Z: Floats, present: NDArray[np.bool_] | None = None) -> Floats:
    """Compute the covariance matrix (p, p) of the sums of the p columns of Z, from strata, PSUs and fpc."""
    U = deviations(design, Z, present)
    return np.asarray(U.T @ U)


def deviations(design: SurveyDesign, Z: Floats, present: NDArray[np.bool_] | None = None) -> Floats:
    """Compute deviations whose squares add up to the variances of the sums of the columns of Z.

    A deviation is the sum of Z within a sampling unit, minus the mean of these sums in the stratum, times a factor.
    ``present`` is as in :func:`.variance.covariance`.

    Returns
    -------
    float array (units of all stages, p)
        One row for each sampling unit, one column for each column of Z.
    """
    return np.concatenate(
        [_stage_deviations(stage, share, Z, present, design.lonely_psu) for stage, share in _stages(design)]
    )


def _stage_deviations(
    stage: Stage, share: Floats, Z: Floats, present: NDArray[np.bool_] | None, lonely_psu: LonelyPSU
) -> Floats:
    n_h, f_h, lonely = stage.sampled, stage.fraction, stage.lonely
    h, units = stage.stratum_of_unit, stage.stratum_of_unit.size
    if units < stage.unit.size:
        Z = np.asarray(csr_array((np.ones(stage.unit.size), (stage.unit, np.arange(stage.unit.size)))) @ Z)
    total = np.asarray(csr_array((np.ones(units), (h, np.arange(units)))) @ Z)
    mean = total / n_h[:, None]
    factor = share * (1 - f_h) * np.where(n_h > 1, n_h / np.maximum(n_h - 1.0, 1.0), 0.0)
    if lonely_psu in ("adjust", "average") and lonely.any():
        used = np.bincount(stage.stratum, present, n_h.size) > 0  # strata with records that are present
        if lonely_psu == "adjust":
            mean[lonely] = total[used].sum(axis=0) / n_h[used].sum()
            factor = np.where(lonely & used, share * (1 - f_h), factor)
        else:
            usable = (used & ~lonely).sum()
            factor = factor * (used.sum() / usable if usable else np.nan)
    return np.asarray((Z - mean[h]) * np.sqrt(factor)[h, None])
