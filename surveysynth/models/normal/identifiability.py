"""Checks that refuse files that do not identify the normal regression, or that make its density unbounded.

If other columns determine an outcome, the residual covariance Sigma is singular and the density, and with it the
Lipschitz bound, is unbounded: every privacy weight would be 0.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...validation import rows
from ..predictors.groups import Groups
from ..regression.sufficient_statistics import SufficientStatistics, sufficient_statistics
from ..scales.refusals import constant_outcome
from .joint_records import JointRecords

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


def refuse_singular(Y: Floats, X: Floats, pattern: Codes, labels: list[str]) -> None:
    """Raise ModelError if the predictors determine an outcome or the log weight, or if these determine one another.

    The density would then be unbounded.  A constant outcome is refused, too.

    ``Y`` (n, D) are the outcomes and the log weight, with the names ``labels``.  ``X`` are the distinct predictor rows,
    and ``pattern`` (n,) is the row of each record.
    """
    statistics = sufficient_statistics(X, pattern, Y - Y.mean(axis=0), np.ones(len(Y)))
    S0 = statistics.reduced()[2]
    total, residual = np.diag(statistics.Q), np.diag(S0)
    for label, t, s, y in zip(labels, total, residual, Y.T, strict=True):
        if t <= len(Y) * (1e-7 * (1 + abs(y.mean()))) ** 2:
            raise constant_outcome(label)
        if s <= 1e-6 * t:
            raise ModelError(
                f"the predictors determine {label} (nearly) completely, so its density is unbounded and no Lipschitz "
                "bound is useful; use fewer predictors"
            )
    correlation = S0 / np.sqrt(np.outer(residual, residual))
    if len(residual) and np.linalg.eigvalsh(correlation)[0] < 1e-6:
        raise ModelError(
            f"given the predictors, {' and '.join(labels)} determine one another (nearly) completely, so their joint "
            "density is unbounded and no Lipschitz bound is useful"
        )


def refuse_constant_within(groups: Groups, Y: Floats, labels: list[str]) -> None:
    """Raise ModelError if an outcome or the log weight is (nearly) constant within every PSU or stratum with an effect.

    Given the effects, its density would be unbounded.  ``Y`` (n, D) are the outcomes and the log weight, with the names
    ``labels``.
    """
    size = np.maximum(np.bincount(groups.record, minlength=groups.size), 1)
    for label, y in zip(labels, Y.T, strict=True):
        mean = np.bincount(groups.record, y, groups.size) / size
        if ((y - mean[groups.record]) ** 2).sum() <= 1e-6 * ((y - y.mean()) ** 2).sum():
            raise ModelError(
                f"{label} is (nearly) constant within {groups.describe()}, so its density given their effects is "
                "unbounded and no Lipschitz bound is useful; clusters='ignore' leaves the effects out"
            )


def refuse_degenerate(S0: Floats, statistics: SufficientStatistics, rank: int) -> None:
    """Raise ModelError if the privacy-weighted records do not identify Sigma, the residual covariance.

    The sum of the privacy weights is too small, or the weighted residuals are (nearly) linearly dependent.  ``S0``
    (D, D) are the weighted residual sums of squares and products, and ``rank`` is the rank of the predictors.
    """
    scale = np.sqrt(np.maximum(np.diag(S0), 0))
    too_little = statistics.A < rank + len(S0) or not (scale > 0).all()
    if too_little or np.linalg.eigvalsh(S0 / np.outer(scale, scale))[0] < 1e-9:
        raise ModelError(
            f"the privacy weights leave too little of the file to fit {rank} coefficients an outcome; ask for a larger "
            "epsilon, a smaller m, or use fewer predictors"
        )


def refuse_unseen(records: JointRecords, R: Floats) -> Floats:
    """Raise ModelError if a combination of predictors has no identified mean; else return the pseudo-inverse of ``R``.

    ``R`` (rank, K) is a root of the privacy-weighted cross products of the predictors, R'R = X' diag(alpha) X.
    """
    inverse = np.linalg.pinv(R)
    outside = np.linalg.norm(records.X - records.X @ inverse @ R, axis=1) > 1e-6 * (
        1 + np.linalg.norm(records.X, axis=1)
    )
    if outside.any() and not outside[records.pattern].any():
        raise ModelError(
            "no record informs on some of the categories that are synthesized: the formula crosses them, or levels are "
            "declared that nobody has. A flat prior says nothing about these; use prior='independent' or 'paper', or "
            "leave the interactions or levels out"
        )
    if outside.any():
        raise ModelError(
            f"the privacy weights, or a question that applies to others, leave nothing of the cells of "
            f"{rows(outside[records.pattern])}, so a flat prior says nothing about them; use prior='independent' or "
            "'paper', or leave the predictor out that makes these cells"
        )
    return np.asarray(inverse, dtype=np.float64)


def refuse_censored(records: JointRecords, prior: str, priors: Iterable[str]) -> None:
    """Raise ModelError if there is no censored fit for these records or this prior.

    There is no censored fit with effects of PSUs or strata, with categories, or under the flat prior.  Under a flat
    prior the censored posterior is improper, because the censored likelihood is bounded away from 0.  ``priors`` are
    the names of all priors of the model, of which the message recommends the proper ones.
    """
    if records.groups is not None:
        raise ModelError(
            f"the design has {records.groups.describe()}, whose effects are not fitted under the censored "
            "mechanism: set clusters='ignore' (standard errors from the synthetic files can then be far too "
            "small), make strata predictors, or use the pseudo posterior"
        )
    if records.categories is not None:
        raise ModelError("categories are not fitted under the censored mechanism; use the pseudo posterior")
    if prior == "flat":
        proper = ", ".join(f"{name!r}" for name in priors if name != "flat")
        raise ModelError(f"the censored posterior is not proper under a flat prior: use another one ({proper}) here")
