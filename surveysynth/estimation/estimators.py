"""Estimators: point estimates and variances of one quantity in the domains of a partition.

``onepass`` linearizes.  ``samplics`` calls ``TaylorEstimator`` of the Python package samplics.  ``replicates`` computes
the estimates under each replicate weight of a design.  Installed packages can add estimators by the entry point
``surveysynth.estimators``: ``survey`` calls R's package of that name.  All estimators give the same estimates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from ..design.survey_design import SurveyDesign
from ..errors import InputError
from . import inequality, taylor
from .combining import Combined
from .quantities import Quantity
from .variance import degrees_of_freedom, variances

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

SAMPLICS_SECONDS = 1.0  # a table that would take samplics longer is left to onepass


@dataclass(frozen=True)
class Estimates:
    """Point estimates and variances of D domains, (D,) each.  Only quantiles have the limits ``low`` and ``high``."""

    estimate: Floats
    variance: Floats
    low: Floats | None = None
    high: Floats | None = None


Estimator = Callable[[SurveyDesign, Quantity, Codes, int], Estimates]


def choose(estimator: str, design: SurveyDesign, quantity: Quantity, seconds: float) -> str:
    """Return the name of the estimator to use: ``estimator``, or the choice that "auto" makes for the design.

    ``auto`` is ``replicates`` for a design with replicate weights.  For other designs, ``auto`` is ``samplics`` if
    samplics supports the design and the statistic and takes at most a second, and otherwise ``onepass``.

    Parameters
    ----------
    estimator : str
        Name of an estimator, or "auto".
    design : SurveyDesign
    quantity : Quantity
    seconds : float
        Predicted computing time of samplics for the whole table, from :func:`samplics_seconds`.

    Raises
    ------
    InputError
        An unknown estimator; samplics for a design or statistic that it does not support; replicates for a design
        without replicate weights.
    """
    if not isinstance(estimator, str):
        raise InputError(f"estimator must be the name of one, not {type(estimator).__name__}")
    if estimator != "auto":
        estimator_of(estimator)  # refuses an unknown one
    if (estimator == "replicates") > (design.replication is not None):
        raise InputError("the design has no replicate weights; make them by design.replicates(...)")
    unsupported = _not_in_samplics(design, quantity)
    if estimator == "samplics" and unsupported:
        raise InputError(f"samplics has no {unsupported}; use estimator='onepass' or 'auto'")
    if estimator != "auto":
        return estimator
    if design.replication is not None:
        return "replicates"
    return "onepass" if unsupported or seconds > SAMPLICS_SECONDS else "samplics"


def samplics_seconds(design: SurveyDesign, domains: int) -> float:
    """Predict the computing time of samplics in seconds for one quantity in ``domains`` domains.

    samplics goes through the whole file and all strata for every domain.
    """
    return 1e-6 * design.n * (domains + 3) + 5e-5 * design.stages[0].sampled.size * domains


def _not_in_samplics(design: SurveyDesign, quantity: Quantity) -> str:
    first = design.stages[0]
    if quantity.statistic == "quantile":
        return "Woodruff intervals of quantiles"
    if quantity.distributional:
        return f"variance of statistic={quantity.statistic!r}"
    if (first.sampled == 1).any():
        return f"variance for strata with one PSU (here lonely_psu={design.lonely_psu!r})"
    if len(design.stages) > 1:
        return "several-stage variance with an fpc"
    if design.calibrated:
        return "variance for weights that are calibrated to known totals"
    if design.pps is not None:
        return "variance from joint inclusion probabilities"
    if design.replication is not None:
        return "variance from these replicate weights"
    return ""


def onepass(design: SurveyDesign, quantity: Quantity, domain: Codes, domains: int) -> Estimates:
    """Estimate a quantity in all domains of one partition, in one pass over the records.

    Parameters
    ----------
    design : SurveyDesign
    quantity : Quantity
    domain : int array (n,)
        Domain of each record, 0 to ``domains - 1``; -1 for a record outside all of them.
    domains : int
    """
    if quantity.statistic == "quantile":
        return woodruff(design, quantity, domain, domains, onepass)
    estimate, z = taylor.linearize(design.weights, quantity, domain, domains)
    shared = inequality.by_the_line(design.weights, quantity, domain, domains)
    return Estimates(estimate, np.where(np.isnan(estimate), np.nan, variances(design, z, domain, domains, shared)))


def estimated(estimator: str, design: SurveyDesign, quantity: Quantity, domain: Codes, domains: int) -> Floats:
    """Compute the point estimates in all domains with the estimator of the given name: (domains,).

    For ``onepass``, no variances are computed, except of quantiles, to save time.
    """
    if estimator == "onepass" and quantity.statistic != "quantile":
        return taylor.linearize(design.weights, quantity, domain, domains)[0]
    return estimator_of(estimator)(design, quantity, domain, domains).estimate


def samplics(design: SurveyDesign, quantity: Quantity, domain: Codes, domains: int) -> Estimates:
    """Estimate a quantity in all domains by samplics' ``TaylorEstimator`` (arguments as for :func:`onepass`)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # samplics warns on import that its author has archived it
        from samplics.estimation import TaylorEstimator
        from samplics.utils.types import PopParam

    stage = design.stages[0]
    inside = domain >= 0
    weight = np.where(inside, design.weights, 0.0)
    values, denominator = (
        None if column is None else np.where(inside, column, 0.0) for column in (quantity.y, quantity.x)
    )
    remaining = 1.0 - stage.fraction
    ratio, total = quantity.statistic == "ratio", quantity.statistic in ("total", "count")
    fit = TaylorEstimator(PopParam.ratio if ratio else PopParam.total if total else PopParam.mean)
    # samplics divides by 0 for the CV of an estimate of 0, but only after all estimates and variances are computed
    with warnings.catch_warnings(), np.errstate(all="ignore"), suppress(ZeroDivisionError):
        warnings.simplefilter("ignore")
        fit.estimate(
            y=np.ones(design.n) if values is None else values,
            x=denominator,
            samp_weight=weight,
            stratum=stage.stratum if design.strata_name else None,
            psu=stage.unit if design.clustered else None,
            domain=np.where(inside, domain, domains),  # records outside all domains form an extra domain, not used
            fpc=dict(enumerate(remaining.tolist())) if design.strata_name else float(remaining[0]),
        )
    empty = 0.0 if total else np.nan
    q, u = (np.array([found.get(d, empty) for d in range(domains)]) for found in (fit.point_est, fit.variance))
    if ratio:  # the denominator may be 0
        q, u = np.where(np.isinf(q), np.nan, q), np.where(np.isfinite(q), u, np.nan)
    return Estimates(q, u)


def replicates(design: SurveyDesign, quantity: Quantity, domain: Codes, domains: int) -> Estimates:
    """Estimate a quantity in all domains, with variances from replicate weights (arguments as for :func:`onepass`)."""
    if quantity.statistic == "quantile":
        return woodruff(design, quantity, domain, domains, replicates)
    assert design.replication is not None
    estimate, _ = taylor.linearize(design.weights, quantity, domain, domains)
    return Estimates(estimate, design.replication.variance(replicated(design, quantity, domain, domains), estimate))


def replicated(design: SurveyDesign, quantity: Quantity, domain: Codes, domains: int) -> Floats:
    """Compute the estimates under each of R replicate weights: (R, domains).  They are NaN if a denominator is 0.

    The arguments are as for :func:`onepass`.
    """
    assert design.replication is not None
    w = design.multiplicand
    if quantity.distributional:
        return inequality.replicated(design.replication, w, quantity, domain, domains)
    total = design.replication.totals(w if quantity.y is None else w * quantity.y, domain, domains)
    if quantity.statistic in ("count", "total"):
        return total
    denominator = design.replication.totals(w if quantity.x is None else w * quantity.x, domain, domains)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator == 0, np.nan, total / denominator)


def woodruff(design: SurveyDesign, quantity: Quantity, domain: Codes, domains: int, estimator: Estimator) -> Estimates:
    """Estimate quantiles, with intervals that invert the distribution function (Woodruff 1952; R's ``svyquantile``).

    The quantile is the smallest value at which the weighted distribution function reaches the probability.  The share
    of records not above the quantile is estimated by ``estimator``, with the interval that ``quantity.interval`` sets.
    The limits of the quantile are the quantiles at the limits of this share.  The standard error is the distance
    between the limits divided by twice the t quantile.

    Returns
    -------
    Estimates
        Limits and variances are NaN if the interval of the share reaches 0 or 1.
    """
    assert quantity.y is not None
    inside = np.flatnonzero(domain >= 0)
    order = inside[np.lexsort((quantity.y[inside], domain[inside]))]
    value, weight = quantity.y[order], design.weights[order]
    start = np.searchsorted(domain[order], np.arange(domains + 1))
    reached = [np.cumsum(weight[start[d] : start[d + 1]]) for d in range(domains)]

    def quantile(p: Floats) -> Floats:
        found = np.full(domains, np.nan)
        for d in range(domains):
            if reached[d].size and 0 < p[d] < 1:
                wanted = p[d] * reached[d][-1] * (1 - 1e-12)  # allows for rounded sums of weights
                found[d] = value[start[d] + np.searchsorted(reached[d], wanted)]
        return found

    found = quantile(np.full(domains, quantity.prob))
    below = np.where(domain >= 0, quantity.y <= found[domain], np.nan)
    share = estimator(design, Quantity("mean", quantity.outcome, below), domain, domains)
    df, n = degrees_of_freedom(design, domain, domains), np.diff(start).astype(np.float64)
    asked = quantity.interval.known_df(Combined(share.estimate, np.sqrt(share.variance), df))
    low, high = (quantile(limit) for limit in quantity.interval.share_limits(asked, n, "mean"))
    t = student.ppf(0.5 + quantity.interval.level / 2, asked.df)
    return Estimates(found, ((high - low) / (2 * t)) ** 2, low, high)


def as_shares(
    design: SurveyDesign, quantity: Quantity, domain: Codes, domains: int
) -> tuple[Estimates, Quantity, Floats]:
    """Estimate quantiles, and for each quantile a share and a factor whose product has the variance of the quantile.

    Returns
    -------
    (Estimates, Quantity, float array (domains,))
        First, the quantiles with their variances.  Second, the share of records that are not above the quantile of
        their domain, as a quantity whose estimates and linearized values can be computed.  Third, a factor for each
        domain: minus the Woodruff standard error of the quantile divided by the standard error of the share (Francisco
        & Fuller 1991).
    """
    assert quantity.y is not None
    estimator = onepass if design.replication is None else replicates
    found = woodruff(design, quantity, domain, domains, estimator)
    below = np.where(domain >= 0, quantity.y <= found.estimate[domain], np.nan)
    share = Quantity("mean", quantity.outcome, below)
    variance = estimator(design, share, domain, domains).variance
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = -np.sqrt(np.where(variance > 0, found.variance / variance, 0.0))
    return found, share, scale


ESTIMATORS: dict[str, Estimator] = {"samplics": samplics, "onepass": onepass, "replicates": replicates}
PLUGINS = "surveysynth.estimators"  # entry points of packages that add estimators; ours for R adds "survey"


def available() -> list[str]:
    """Return the names of all estimators, of this module and of installed packages."""
    return [*ESTIMATORS, *sorted(entry_points(group=PLUGINS).names - ESTIMATORS.keys())]


def estimator_of(name: str) -> Estimator:
    """Return the estimator of this name.  Raise InputError for an unknown name."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    added = entry_points(group=PLUGINS, name=name)
    if not added:
        raise InputError(f"estimator={name!r} is not one of {', '.join(['auto', *available()])}")
    estimator: Estimator = next(iter(added)).load()
    return estimator
