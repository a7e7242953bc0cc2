"""Families of generalized linear models: means and derivatives as functions of the linear predictor."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, logit, ndtr, ndtri

Family = Literal["gaussian", "binomial", "probit", "cloglog", "poisson", "gamma"]
BINARY = "binomial", "probit", "cloglog"  # outcomes of two values
Floats = NDArray[np.float64]

LARGEST = 500.0  # upper bound of the linear predictor for the complementary log-log link; the mean is 1 from 4 on
KIND: dict[str, str] = {  # names in messages
    "gaussian": "linear",
    "binomial": "logistic",
    "probit": "probit",
    "cloglog": "complementary log-log",
    "poisson": "Poisson",
    "gamma": "gamma",
}


def mean(linear: Floats, family: Family) -> tuple[Floats, Floats, Floats]:
    """Return the mean mu, the derivative mu' by the linear predictor, and the score factor mu' / V(mu) of residuals.

    The link is the identity for ``gaussian``, the logit for ``binomial``, the probit for ``probit``, log(-log(1 - mu))
    for ``cloglog``, and the logarithm for ``poisson`` and ``gamma``.  The variance function V is 1 for ``gaussian``, mu
    for ``poisson``, mu^2 for ``gamma``, and mu (1 - mu) for the others (McCullagh & Nelder 1989, sections 2.2 and 4.3).
    """
    if family == "gaussian":
        return linear, np.ones_like(linear), np.ones_like(linear)
    if family == "binomial":
        mu = expit(linear)
        return mu, mu * expit(-linear), np.ones_like(mu)
    if family == "probit":
        log_density = -(linear**2) / 2 - np.log(2 * np.pi) / 2
        return ndtr(linear), np.exp(log_density), np.exp(log_density - log_ndtr(linear) - log_ndtr(-linear))
    if family == "cloglog":
        hazard = np.exp(np.minimum(linear, LARGEST))
        mu = -np.expm1(-hazard)
        with np.errstate(invalid="ignore"):
            return mu, hazard * np.exp(-hazard), np.where(hazard > 0, hazard / mu, 1.0)
    with np.errstate(over="ignore"):
        mu = np.exp(linear)
        return mu, mu, np.ones_like(mu) if family == "poisson" else np.exp(-linear)


def start_of(y: Floats, family: Family) -> Floats:
    """Return the linear predictor from which a fit starts: the link function of a value near each outcome."""
    if family in BINARY:
        mu = (y + 0.5) / 2
        if family == "cloglog":
            return np.log(-np.log1p(-mu))
        return np.asarray(logit(mu) if family == "binomial" else ndtri(mu))
    return np.log(y + 0.1) if family == "poisson" else np.log((y + y.mean()) / 2)


def in_statsmodels(family: Family) -> Any:
    """Return the family as an object of statsmodels."""
    import statsmodels.api as sm  # takes a second to import

    if family == "gamma":
        return sm.families.Gamma(sm.families.links.Log())
    if family in ("probit", "cloglog"):
        link = sm.families.links.Probit() if family == "probit" else sm.families.links.CLogLog()
        return sm.families.Binomial(link)
    return {"gaussian": sm.families.Gaussian, "binomial": sm.families.Binomial, "poisson": sm.families.Poisson}[
        family
    ]()
