"""What fits under the censored pseudo likelihood need of the records (C 3, eq. 3.5-3.6).

    log L_c = sum_i clamp(alpha_i log p_i, -M, M)

Clamping is record by record, so a fit looks at every record: the same ones are put together, and
the rest are sorted by predictor row.  A **pilot** fit, least squares of the records that lie
inside the clamp under that very fit, places the sampler's coordinates; it is no part of the target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .sufficient import SufficientStatistics, sufficient_statistics

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

STEPS = 100  # of the pilot; it need not settle, it only has to be near
STUCK = 0.02  # least share of the records' weight inside the clamp: with less the fit is all prior


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Pilot:
    """Least squares of the records inside the clamp: their statistics, B (K, D) and the factor L (D, D) of Sigma."""

    A: float
    R: Floats
    Z0: Floats
    S0: Floats
    B: Floats
    L: Floats

    def residuals(self, X: Floats, pattern: Codes, Y: Floats) -> Floats:
        """L^-1 (y_i - B'x_i): (n, D)."""
        return np.asarray(np.linalg.solve(self.L, (Y - (X @ self.B)[pattern]).T).T, dtype=np.float64)


def log_height(L: Floats) -> float:
    """Log density of N(0, L L') at 0."""
    return float(-len(L) / 2 * np.log(2 * np.pi) - np.log(np.diag(L)).sum())


def pilot_fit(X: Floats, pattern: Codes, Y: Floats, alpha: Floats, base: Floats, bound: float) -> Pilot:
    """A stationary point of the censored pseudo likelihood, or a point near it.

    Where log p_i is inside the clamp record i pulls with its weight alpha_i, elsewhere not at all; so
    weighted least squares of the records inside, until the same ones are inside.

    Raises
    ------
    ModelError
        Next to nothing is inside the clamp: it is too tight for this model.
    """
    weight, seen = alpha, [np.ones(len(Y), dtype=bool)]
    for _ in range(STEPS):
        pilot = _least_squares(sufficient_statistics(X, pattern, Y, weight))
        log_p = base + log_height(pilot.L) - 0.5 * (pilot.residuals(X, pattern, Y) ** 2).sum(axis=1)
        inside = np.abs(alpha * log_p) < bound
        if any((inside == before).all() for before in seen[-4:]):
            break
        seen.append(inside)
        weight = np.where(inside, alpha, 0.0)
        if weight.sum() < STUCK * alpha.sum():
            raise _too_tight()
    return pilot


def _least_squares(statistics: SufficientStatistics) -> Pilot:
    R, Z0, S0 = statistics.reduced()
    scale = np.sqrt(np.maximum(np.diag(S0), 0))
    if statistics.A < len(R) + len(S0) or not (scale > 0).all():
        raise _too_tight()
    if np.linalg.eigvalsh(S0 / np.outer(scale, scale))[0] < 1e-9:
        raise _too_tight()
    L = np.asarray(np.linalg.cholesky(S0 / statistics.A), dtype=np.float64)
    return Pilot(statistics.A, R, Z0, S0, np.asarray(np.linalg.pinv(R) @ Z0, dtype=np.float64), L)


def _too_tight() -> ModelError:
    return ModelError(
        "next to no record is inside the clamp, so the censored fit would be all prior: ask for a larger epsilon, a "
        "smaller m, use fewer predictors, or, if an outcome varies little on its scale, a scale on which it varies more"
    )


def censored_records(
    X: Floats, pattern: Codes, Y: Floats, alpha: Floats, base: Floats, bound: float, pilot: Pilot
) -> dict[str, object]:
    """The records as ``censored_normal`` of ``stan/censored.stanfunctions`` takes them.

    Different ones with their counts, sorted by predictor row, as residuals of the pilot in which its
    covariance is I; records of alpha = 0 say nothing.
    """
    here = alpha > 0
    residuals, constant = pilot.residuals(X, pattern, Y), base + log_height(pilot.L)
    table = np.column_stack([pattern, residuals, constant, alpha])[here]
    table, count = np.unique(table, axis=0, return_counts=True)
    g, r = table[:, 0].astype(int), table[:, 1:-2]
    j, k = np.triu_indices(r.shape[1])
    return {
        "D": r.shape[1], "K": X.shape[1], "n": len(table), "G": len(X), "bound": bound, "X": X, "r": r,
        "rr": r[:, j] * r[:, k], "base": table[:, -2], "alpha": table[:, -1], "count": count.astype(float), "g": g + 1,
        "start": np.searchsorted(g, np.arange(len(X) + 1)) + 1, "A": pilot.A, "L_hat": pilot.L,
    }  # fmt: skip
