"""Survey weights that are a function of public data, and are therefore released unchanged and not modelled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...design.survey_design import SurveyDesign
from ...errors import ModelError
from ..regression.sufficient_statistics import residual_squares, sufficient_statistics
from .groups import Groups

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# A weight whose residual standard deviation on the log scale is at most EXACT is a function of the predictors, up to
# rounding.  Between EXACT and NEAR, it is neither such a function nor safely random.
EXACT, NEAR = 1e-7, 1e-3
# Least share of records that must not be alone in their cell.  (The mean of a cell of one record fits any weight.)  ALL
# is for cells of predictors, MOST is for PSUs and strata.
ALL, MOST = 1.0, 0.5
MOST_LOG = 50.0  # upper limit for the variance of a logarithm, to avoid overflow
PROPORTIONAL = 10.0  # ratio of variances of totals above which the size measure has to be a predictor


def public_weight(
    design: SurveyDesign, predictors: tuple[str, ...], X: Floats, pattern: Codes, groups: Groups | None = None
) -> Floats | None:
    """Return the survey weight if it is a function of public data, and None if it is not.

    The weight can be a function of the predictors (stratified SRS, self-weighting files), or of the PSUs or strata with
    modelled effects (equal probabilities within PSUs).  Such a weight has no distribution given the predictors: the
    residual covariance would be singular and the density unbounded.

    Parameters
    ----------
    design : SurveyDesign
        The file.
    predictors : tuple of str
        Names of the public columns in the formula.
    X, pattern : float array (G, K), int array (n,)
        Distinct rows of the model matrix, and the position in ``X`` of each record's row.
    groups : Groups, optional
        PSUs or strata with modelled effects.

    Returns
    -------
    float array (n,) or None
        The fitted weight of each record, such as the geometric mean of the weights in its cell, so that no digit of it
        comes from a single record.

    Raises
    ------
    ModelError
        The weight is nearly, but not exactly, a function of public data, so it can neither be public nor be modelled.
    """
    log_weight = np.log(design.weights / design.weights.mean())
    everybody = np.zeros(design.n, dtype=np.intp)
    cells = [(everybody, ALL)]
    if design.strata_name in predictors:
        cells.append((design.stages[0].stratum, ALL))
    discrete = [p for p in predictors if not pd.api.types.is_float_dtype(design.column(p).dtype)]
    if discrete:
        label_cell = design.select(discrete).groupby(discrete, observed=True).ngroup()
        cells.append((np.asarray(label_cell, dtype=np.intp), ALL))
    if groups is not None:
        if groups.parent is not None:
            cells.append((groups.parent[groups.record], MOST))
        cells.append((groups.record, MOST))
    spreads = []
    for cell, shared in cells:
        size = np.bincount(cell)
        fitted = (np.bincount(cell, log_weight) / np.maximum(size, 1))[cell]
        spread = _spread(log_weight - fitted)
        if spread <= EXACT and (size[cell] > 1).mean() >= shared:
            return _significant(np.exp(fitted) * design.weights.mean())
        spreads.append(spread if (size > 1).mean() > 0.5 else np.inf)
    statistics = sufficient_statistics(X, pattern, log_weight[:, None], np.ones(design.n))
    R, Z0, _ = statistics.reduced()
    inverse = np.linalg.pinv(R)
    fitted = (X @ inverse @ Z0)[pattern, 0]
    leverage = ((X @ inverse) ** 2).sum(axis=1).max()
    spread = _spread(log_weight - fitted)
    if spread <= EXACT and leverage < 1 - 1e-6:
        return _significant(np.exp(fitted) * design.weights.mean())
    if min(spread, *spreads) < NEAR:
        raise ModelError(
            "the survey weights are nearly, but not quite, a function of the predictors (residual spread on the log "
            f"scale below {NEAR:g}, or cells of one record), so their density is all but unbounded and no Lipschitz "
            "bound is useful. If they are constant within cells of the design, round them so and merge cells of one "
            "record; if they are inverse probabilities of a size measure among the predictors, give them unrounded; "
            "else leave out the predictor that determines them, or say clusters='ignore' where it is the PSU"
        )
    return None


def refuse_proportional(design: SurveyDesign, outcomes: Sequence[str], X: Floats, pattern: Codes) -> None:
    """Refuse an outcome that is nearly proportional to the inclusion probability, given the predictors.

    In a sample with probabilities proportional to size, the weight w times y hardly varies if y is proportional to
    size.  Then the sample estimates the total of y precisely.  Synthetic weights are scaled to a population size N, so
    the synthetic total is N sum(w y) / sum(w), where the few smallest units dominate sum(w).  Under the model, the
    variance of the synthetic total is proportional to exp(s^2) - 1, where s^2 is the variance of log w given the
    predictors.  The variance of the sample's estimate of the total is proportional to exp(v) / p - 1, where v is the
    variance of log(w y) given the predictors over the records with y > 0, and p is the share of these records.
    Outcomes with negative values are not checked.

    Raises
    ------
    ModelError
        The variance of the synthetic total is more than 10 times the variance of the sample's estimate.
    """
    for outcome in outcomes:
        y = design.numeric(outcome)
        positive = y > 0
        if not ((y >= 0).all() and positive.any()):
            continue
        weight_variance = np.expm1(_residual_variance(np.log(design.weights), X, pattern))
        product = np.log(design.weights[positive] * y[positive])
        product_variance = np.exp(_residual_variance(product, X, pattern[positive])) / positive.mean() - 1
        if weight_variance > PROPORTIONAL * product_variance:
            raise ModelError(
                f"given the predictors, {outcome!r} is nearly proportional to the inclusion probability, as in a "
                "sample with probabilities proportional to size: totals of the synthetic files would be far less "
                f"accurate than the sample's own (more than {PROPORTIONAL:g} times its variance). Make the size "
                "measure, which has to be public, a predictor: log(size)"
            )


def _residual_variance(logs: Floats, X: Floats, pattern: Codes) -> float:
    """Return the residual variance of ``logs`` regressed on the predictors, but at most ``MOST_LOG``."""
    return min(residual_squares(logs - logs.mean(), X, pattern) / len(logs), MOST_LOG)


def _significant(x: Floats, digits: int = 14) -> Floats:
    """Round values to significant digits, so that a weight of 10 is not published as 9.999999999999998."""
    unit = 10.0 ** (digits - 1 - np.floor(np.log10(x)))
    return np.asarray(np.round(x * unit) / unit)


def _spread(residual: Floats) -> float:
    return float(np.sqrt(np.mean(residual**2)))


def varies_within(weights: Floats, pattern: Codes) -> bool:
    """True if records with the same predictors have different weights."""
    low, high = np.full(pattern.max() + 1, np.inf), np.zeros(pattern.max() + 1)
    np.minimum.at(low, pattern, weights)
    np.maximum.at(high, pattern, weights)
    return bool((high > low * (1 + EXACT)).any())
