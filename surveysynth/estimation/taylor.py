"""Taylor-linearized estimates of means, totals and counts in domains (T 2.3; Binder 1996).

With z_i the linearized value of record i in its domain d,

    mean:  z_i = w_i (y_i - mu_d) / N_d,     total:  z_i = w_i y_i,     count:  z_i = w_i,

(0 outside the domain: the whole design stays, as in R's ``svyby``), the variance of one stage is

    sum_h (1 - f_h) n_h / (n_h - 1) sum_{c in h} (z_hc - mean_c z_hc)^2,    z_hc summed in PSU c,

and every further stage adds its own, times the sampling fractions of the stages above.  Where the
weights are calibrated to known totals of post-strata, z_i / w_i is first centred on its weighted
mean there (R's ``postStratify``).  (T 2.3 prints r_c with the weight inside the residual's first
term only; the standard form is used.)
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..design import SurveyDesign
from ..errors import InputError
from ..stages import LonelyPSU, Stage

Statistic = Literal["mean", "total", "count"]
Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# samplics makes one pass over the file for every domain in every stratum; beyond this many
# record visits (about a second) `auto` takes the one-pass form instead.
SAMPLICS_VISITS = 3e8


@dataclass(frozen=True)
class Estimates:
    """Point estimates and variances of D domains, each an array (D,)."""

    estimate: Floats
    variance: Floats


def choose(estimator: str, design: SurveyDesign, domains: int) -> Literal["samplics", "onepass"]:
    """Turn ``auto`` into an estimator: samplics where it has the feature and takes under a second."""
    if estimator == "auto":
        visits = design.n * max(domains, 1) * design.stages[0].sampled.size
        return "onepass" if _not_in_samplics(design) or visits > SAMPLICS_VISITS else "samplics"
    if estimator == "onepass":
        return "onepass"
    if estimator == "samplics":
        lacking = _not_in_samplics(design)
        if lacking:
            raise InputError(f"samplics has no {lacking}; use estimator='onepass' or 'auto'")
        return "samplics"
    raise InputError(f"estimator={estimator!r} is not one of auto, samplics, onepass")


def _not_in_samplics(design: SurveyDesign) -> str:
    first = design.stages[0]
    if (first.sampled == 1).any():
        return f"variance for strata with one PSU (here lonely_psu={design.lonely_psu!r})"
    if len(design.stages) > 1:
        return "several-stage variance with an fpc"
    if design.poststratum is not None:
        return "variance for weights that are calibrated to known totals"
    return ""


def onepass(design: SurveyDesign, y: Floats, domain: Codes, domains: int, statistic: Statistic) -> Estimates:
    """Estimate all domains of one partition in one pass over the records.

    Parameters
    ----------
    y : float array (n,)
        Outcome; not used for counts.
    domain : int array (n,)
        Domain of each record, 0 to ``domains - 1``; -1 for a record outside all of them.
    statistic : {"mean", "total", "count"}

    Returns
    -------
    Estimates
    """
    inside = domain >= 0
    w = np.where(inside, design.weights, 0.0)
    code = np.where(inside, domain, 0)
    count = sums(code, w, domains)
    if statistic == "count":
        return Estimates(count, _variance(design, w, code, inside, domains))
    total = sums(code, w * np.where(inside, y, 0.0), domains)
    if statistic == "total":
        return Estimates(total, _variance(design, np.where(inside, w * y, 0.0), code, inside, domains))
    with np.errstate(invalid="ignore"):  # a domain without records has no mean
        mean = total / count
        z = w * np.where(inside, y - mean[code], 0.0) / count[code]
    return Estimates(mean, np.where(count > 0, _variance(design, z, code, inside, domains), np.nan))


def sums(code: Codes, values: Floats, size: int) -> Floats:
    """Sums of the values by code: (size,)."""
    return np.asarray(np.bincount(code, values, size), dtype=np.float64)


def _variance(design: SurveyDesign, z: Floats, domain: Codes, inside: NDArray[np.bool_], domains: int) -> Floats:
    if design.poststratum is not None:
        return _calibrated(design, z, domain, domains)
    return _sum_of_stages(design, z, domain, inside, domains)


def _calibrated(design: SurveyDesign, z: Floats, domain: Codes, domains: int) -> Floats:
    """Variance with z / w centred on its weighted means by post-stratum: records outside the domain count, too."""
    assert design.poststratum is not None
    g, w, variance = design.poststratum, design.weights, np.empty(domains)
    known = np.bincount(g, w)
    everybody, one = np.ones(design.n, dtype=bool), np.zeros(design.n, dtype=np.intp)
    for d in range(domains):
        z_d = np.where(domain == d, z, 0.0)
        centred = z_d - w * (np.bincount(g, z_d) / known)[g]
        variance[d] = _sum_of_stages(design, centred, one, everybody, 1)[0]
    return variance


def _sum_of_stages(design: SurveyDesign, z: Floats, domain: Codes, inside: NDArray[np.bool_], domains: int) -> Floats:
    total = np.zeros(domains)
    share = np.ones(1)  # product of the sampling fractions above, by stratum of this stage
    for stage in design.stages:
        total += _stage_variance(stage, share, z, domain, inside, domains, design.lonely_psu)
        share = (share * stage.fraction)[stage.stratum_of_unit]
        if not share.any():
            break
    return total


def _stage_variance(
    stage: Stage,
    share: Floats,
    z: Floats,
    domain: Codes,
    inside: NDArray[np.bool_],
    domains: int,
    lonely_psu: LonelyPSU,
) -> Floats:
    """Variance contribution of one stage: (domains,).

    Only (unit, domain) pairs that hold a record are visited; the other units of a stratum
    have z = 0 and enter through their number.
    """
    n_h, f_h = stage.sampled, stage.fraction
    pair, inverse = np.unique(stage.unit[inside] * domains + domain[inside], return_inverse=True)
    z_c = sums(inverse, z[inside], pair.size)
    unit, dom = pair // domains, pair % domains
    # strata that hold a record of the domain, one row a (stratum, domain) pair
    block, row = np.unique(stage.stratum_of_unit[unit] * domains + dom, return_inverse=True)
    h, d = block // domains, block % domains
    present = np.bincount(row, minlength=block.size)
    mean = sums(row, z_c, block.size) / n_h[h]
    squares = sums(row, (z_c - mean[row]) ** 2, block.size) + (n_h[h] - present) * mean**2
    scale = share[h] if share.size > 1 else share[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        v = scale * (1 - f_h[h]) * np.where(n_h[h] > 1, n_h[h] / (n_h[h] - 1.0) * squares, 0.0)
    lonely = (n_h[h] == 1) & (f_h[h] < 1)
    if lonely_psu == "adjust":  # R: the one PSU's value, not centred on its stratum
        v = np.where(lonely, scale * (1 - f_h[h]) * mean**2, v)
    variance = sums(d, v, domains)
    if lonely_psu == "average":
        # R: the lonely strata of the domain get the mean variance of its others (NaN: it has no others);
        # at later stages, where R gives NaN, the mean runs over all parent units
        strata = np.bincount(d, minlength=domains)
        usable = strata - np.bincount(d, lonely, domains)
        with np.errstate(invalid="ignore"):
            variance = np.where(usable < strata, variance * strata / usable, variance)
    return variance


def samplics(design: SurveyDesign, y: Floats, domain: Codes, domains: int, statistic: Statistic) -> Estimates:
    """The same estimates by samplics' ``TaylorEstimator``; arguments as for :func:`onepass`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # samplics warns on import that its author has archived it
        from samplics.estimation import TaylorEstimator
        from samplics.utils.types import PopParam

    stage = design.stages[0]
    inside = domain >= 0
    weight = np.where(inside, design.weights, 0.0)
    values = np.ones(design.n) if statistic == "count" else np.where(inside, y, 0.0)
    remaining = 1.0 - stage.fraction
    fit = TaylorEstimator(PopParam.mean if statistic == "mean" else PopParam.total)
    # an estimate of 0 has no CV: samplics divides by it after all estimates and variances are there
    with warnings.catch_warnings(), np.errstate(all="ignore"), suppress(ZeroDivisionError):
        warnings.simplefilter("ignore")
        fit.estimate(
            y=values,
            samp_weight=weight,
            stratum=stage.stratum if design.strata_name else None,
            psu=stage.unit if design.clustered else None,
            domain=np.where(inside, domain, domains),  # records outside are a domain that is not read
            fpc=dict(enumerate(remaining.tolist())) if design.strata_name else float(remaining[0]),
        )
    empty = np.nan if statistic == "mean" else 0.0
    q, u = ([found.get(d, empty) for d in range(domains)] for found in (fit.point_est, fit.variance))
    return Estimates(np.array(q), np.array(u))
