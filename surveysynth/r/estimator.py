"""The estimator "survey", which computes tables by R's survey package (an entry point in pyproject.toml)."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..estimation.estimators import Estimates
from ..estimation.intervals import USUAL
from ..estimation.quantities import Quantity
from .designs import to_r
from .session import call, in_session, vector

Codes = NDArray[np.intp]
IN_R: WeakKeyDictionary[SurveyDesign, Any] = WeakKeyDictionary()  # R designs that were already made


@in_session
def survey(design: SurveyDesign, quantity: Quantity, domain: Codes, domains: int) -> Estimates:
    """Compute estimates by R's survey package, from a subset of the design for each domain.

    ``domain`` has the number of the domain of each record: 0, ..., ``domains`` - 1, or -1 for no domain.

    Confidence limits of quantiles differ from those of this package near the smallest and largest value.  Under
    ``lonely_psu="adjust"``, R's survey before version 4.3 centres the totals of lonely PSUs at 0, not at the mean of
    all PSUs.  Standard errors of totals and counts then differ from those of this package, and there is a warning.

    Raises
    ------
    surveysynth.r.RError
        R or its survey package is not installed, or R stopped with an error.
    InputError
        R's survey package does not have the statistic; or ``level``, ``df`` or ``interval`` of a quantile is not the
        default, which is the only interval of this estimator.
    """
    if quantity.distributional:
        raise InputError(f"R's survey has no statistic={quantity.statistic!r} of domains; use another estimator")
    if quantity.interval != USUAL:
        raise InputError("estimator='survey' has the usual intervals of quantiles: leave level=, df=, interval= out")
    if design not in IN_R:
        IN_R[design] = to_r(design)
    given = (np.ones(design.n) if values is None else values for values in (quantity.y, quantity.x))
    y, x = (vector(np.where(domain >= 0, values, 0.0)) for values in given)
    q, u, low, high = call(
        "domain_estimates",
        IN_R[design],
        design.lonely_psu,
        quantity.statistic,
        y,
        x,
        vector(domain.astype("<i4")),
        domains,
        quantity.prob,
    )
    limits = (np.array(low), np.array(high)) if quantity.statistic == "quantile" else (None, None)
    return Estimates(np.array(q), np.array(u), *limits)
