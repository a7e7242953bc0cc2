"""User-defined estimators: a function is applied to each data set, and the results are combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..errors import InputError
from . import combining

Floats = NDArray[np.float64]
Estimator = Callable[[SurveyDesign], tuple[Any, Any]]


def combined(
    designs: Sequence[SurveyDesign], function: Estimator, redrawn: Sequence[SurveyDesign] = ()
) -> pd.DataFrame:
    """Apply a function to m data sets and combine the results, for :meth:`surveysynth.Release.combine`.

    The function returns estimates, and their variances or their covariance matrix.  ``redrawn`` holds versions of the
    first data set, simulated again as if the noise in the noisy tables had other values.  The variance of the estimates
    over these versions is added.  The result has the columns ``term, estimate, se, df, ci_low, ci_high``.

    Raises
    ------
    InputError
        The function does not return a pair of estimates and variances, or the names or the number of the estimates
        differ between data sets, so that they cannot be averaged.
    """
    if not callable(function):
        raise InputError(f"combine takes a function of a SurveyDesign, not {type(function).__name__}")
    results = [_estimate(function(design)) for design in (*designs, *redrawn)]
    terms = results[0][0]
    if any(other != terms for other, *_ in results):
        raise InputError("the function gave other estimates in some of the data sets; they must be the same in all")
    q, u = (np.array(values) for values in list(zip(*results, strict=True))[1:])
    m, degf = len(designs), float(min(design.degf for design in designs))
    both = combining.combine(q[:m], u[:m], degf, q[m:] if redrawn else None)
    low, high = combining.interval(both)
    numbers = {"estimate": both.estimate, "se": both.se, "df": both.df, "ci_low": low, "ci_high": high}
    return pd.DataFrame({"term": terms, **numbers})


def _estimate(result: Any) -> tuple[list[Any], Floats, Floats]:
    """Return the names, estimates and variances of p quantities, (p,) each, from the result of a user's function.

    Raise InputError if the result is invalid.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise InputError(f"the function must give a pair (estimate, variance), not {type(result).__name__}")
    estimate, variance = result
    try:
        q, u = (np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in result)
    except (TypeError, ValueError):
        raise InputError("the function must give numbers: a pair (estimate, variance)") from None
    if q.ndim != 1 or u.shape not in (q.shape, (q.size, q.size)):
        raise InputError(
            f"the function gave {q.size:,} estimates and variances of shape {u.shape}: give as many variances, or "
            "their covariance matrix"
        )
    terms = list(estimate.index) if isinstance(estimate, pd.Series) else [*range(1, q.size + 1)]
    named = variance.axes if isinstance(variance, (pd.Series, pd.DataFrame)) else []
    if isinstance(estimate, pd.Series) and any(list(axis) != terms for axis in named):
        raise InputError("the estimates and their variances have different names, or another order of them")
    u = u if u.ndim == 1 else u.diagonal()
    if (u < 0).any():
        raise InputError("the function gave a negative variance")
    return terms, q, u
