"""Sufficient statistics of the alpha-weighted likelihood of a normal regression.

n is the number of records, D the number of outcomes, G the number of distinct predictor rows X, and K their number of
columns.  ``pattern`` (n,) gives the position of each record's predictor row in X.  Y are the outcomes, and alpha the
privacy weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class SufficientStatistics:
    """The sums over records on which the alpha-weighted likelihood of a normal regression depends.

    ``A`` = sum alpha; ``C0`` (K, K) = X' diag(alpha) X; ``P`` (K, D) = X' diag(alpha) Y;
    ``Q`` (D, D) = Y' diag(alpha) Y.  Here X (n, K) has one row for each record.
    """

    A: float
    C0: Floats
    P: Floats
    Q: Floats

    def reduced(self) -> tuple[Floats, Floats, Floats]:
        """Reduce the sums to an equivalent regression, whose number of rows is the rank of C0 = X' diag(alpha) X.

        Returns R (rank, K) with R'R = C0; Z0 = R B^ (rank, D), where B^ are the weighted least squares coefficients;
        and the residual cross products S0 (D, D).  C0 may be singular.  The columns of X are scaled to equal length
        first, so that the rank does not depend on the units of predictors.
        """
        length = np.sqrt(np.diag(self.C0))
        length = np.where(length > 0, length, 1.0)
        values, vectors = np.linalg.eigh(self.C0 / np.outer(length, length))
        keep = values > values[-1] * len(values) * 1e-12
        root, vectors = np.sqrt(values[keep]), vectors[:, keep]
        R = root[:, None] * vectors.T * length
        Z0 = (vectors.T @ (self.P / length[:, None])) / root[:, None]
        S0 = self.Q - Z0.T @ Z0
        return R, Z0, (S0 + S0.T) / 2


def sufficient_statistics(X: Floats, pattern: Codes, Y: Floats, alpha: Floats) -> SufficientStatistics:
    """Compute the sufficient statistics of an alpha-weighted normal regression of outcomes ``Y`` on predictors.

    ``alpha`` (n,) are the privacy weights.  The sums are computed within predictor rows first, so that the cost is
    proportional to n D + G K^2.
    """
    a, t = sums_by_row(len(X), pattern, Y, alpha)
    weighted = alpha[:, None] * Y
    return SufficientStatistics(float(alpha.sum()), X.T @ (a[:, None] * X), X.T @ t, Y.T @ weighted)


def sums_by_row(G: int, pattern: Codes, Y: Floats, alpha: Floats) -> tuple[Floats, Floats]:
    """Compute the sums of alpha (G,) and of alpha Y (G, D) for each combination of predictors."""
    a = np.asarray(np.bincount(pattern, alpha, G), dtype=np.float64)
    t = np.array([np.bincount(pattern, alpha * y, G) for y in Y.T], dtype=np.float64).reshape(Y.shape[1], G).T
    return a, t


def residual_squares(y: Floats, X: Floats, pattern: Codes, alpha: Floats | None = None) -> float:
    """Compute the residual sum of squares of the regression of ``y`` (n,) on the predictors, with weights ``alpha``."""
    alpha = np.ones(len(y)) if alpha is None else alpha
    return float(sufficient_statistics(X, pattern, y[:, None], alpha).reduced()[2][0, 0])
