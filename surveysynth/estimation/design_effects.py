"""Design effects: the variance of an estimate divided by its variance under simple random sampling of n records.

Source: Kish 1965.

With n records and N = sum w in a domain, and V the population variance (n / (n - 1) sum w (y - mean)^2 / N), an
estimate from a simple random sample has the variance

    mean, proportion:  V / n,    total:  N^2 V / n,    ratio R = Y / X:  the variance of the total of (y - R x) / X.

This is the variance with replacement (R's ``deff = "replace"``).  For sampling without replacement, the variance is
multiplied by 1 - n / N (R's ``deff = TRUE``).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from .quantities import Quantity
from .taylor import sums

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Deff = bool | Literal["replace"]


def design_effects(
    design: SurveyDesign, quantity: Quantity, domain: Codes, domains: int, variance: Floats, deff: Deff
) -> Floats:
    """Compute the design effect of the estimate in each domain.

    Parameters
    ----------
    design : SurveyDesign
    quantity : Quantity
    domain : int array (n,)
        Domain of each record, 0 to ``domains - 1``; -1 for a record outside all of them.
    domains : int
    variance : float array (domains,)
        Variances of the estimates under the design.
    deff : {True, "replace"}
        Compare with simple random sampling without replacement (True) or with replacement.

    Returns
    -------
    float array (domains,)
        Design effects.  They are NaN for counts, quantiles, variances, Gini coefficients, quintile share ratios, and
        poverty rates with an estimated poverty line.  With ``deff=True`` they are also NaN if the weights in the domain
        add up to less than n.
    """
    y = quantity.y
    if y is None or quantity.distributional or quantity.statistic == "quantile":
        return np.full(domains, np.nan)
    inside = domain >= 0
    code, w, y = domain[inside], design.weights[inside], y[inside]
    n, N = np.bincount(code, minlength=domains), sums(code, w, domains)
    with np.errstate(divide="ignore", invalid="ignore"):
        if quantity.x is not None:
            x = quantity.x[inside]
            X = sums(code, w * x, domains)
            y = (y - (sums(code, w * y, domains) / X)[code] * x) / X[code]
        mean = sums(code, w * y, domains) / N
        V = n / (n - 1) * sums(code, w * (y - mean[code]) ** 2, domains) / N
        simple = V / n * (N**2 if quantity.statistic in ("total", "ratio") else 1.0)
        if deff != "replace":
            simple = simple * np.where(n > N, np.nan, 1 - n / N)
        return np.asarray(np.where(simple > 0, variance / simple, np.nan))
