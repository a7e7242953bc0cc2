"""Families of generalized linear models: the mean as a function of the linear predictor, and what scores weigh."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Family = Literal["gaussian", "binomial", "poisson", "gamma"]
Floats = NDArray[np.float64]

KIND: dict[str, str] = {  # as messages call it
    "gaussian": "linear",
    "binomial": "logistic",
    "poisson": "Poisson",
    "gamma": "gamma",
}


def mean(linear: Floats, family: Family) -> tuple[Floats, Floats, Floats]:
    """The mean mu, its derivative mu' by the linear predictor, and mu' / V(mu), which residuals weigh in a score.

    The identity, the logit and, for ``poisson`` and ``gamma``, the logarithm are the links; V is 1, mu (1 - mu), mu
    and mu^2.
    """
    if family == "gaussian":
        return linear, np.ones_like(linear), np.ones_like(linear)
    if family == "binomial":
        mu = expit(linear)
        return mu, mu * expit(-linear), np.ones_like(mu)
    with np.errstate(over="ignore"):
        mu = np.exp(linear)
        return mu, mu, np.ones_like(mu) if family == "poisson" else np.exp(-linear)


def in_statsmodels(family: Family) -> Any:
    """The family as statsmodels has it."""
    import statsmodels.api as sm  # takes a second to import

    if family == "gamma":
        return sm.families.Gamma(sm.families.links.Log())
    return {"gaussian": sm.families.Gaussian, "binomial": sm.families.Binomial, "poisson": sm.families.Poisson}[
        family
    ]()
