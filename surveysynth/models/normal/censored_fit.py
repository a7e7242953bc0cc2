"""The mode of the censored pseudo likelihood, around which Markov chains start.

    log L_c = sum_i clamp(alpha_i log p_i, -M, M)        (Hu, Williams & Savitsky 2025, eq. 3.5-3.6)

p_i is the density of record i, and alpha_i its privacy weight.  Contributions are clamped one by one, so a fit cannot
use sums over records.  To save time, equal records are counted, and distinct records are sorted by predictor row (row
of the model matrix X).  A record is **inside the clamp** if |alpha_i log p_i| < M.

**Modes.**  The clamped density can have separate modes, between which chains do not move.  If chains started at a fit
of the file, one record could decide which mode all chains sample.  So modes are searched from several public starts,
random points from the priors.  Near such a start no record is inside the clamp, and the density is flat.  Therefore the
search first approaches the file by Gibbs steps of a regression with t errors (4 degrees of freedom).  This regression
has one mode for every file (Kent & Tyler 1991), and the influence of a record is bounded.  From the point where the
Gibbs steps end, and from points near it that fit single records exactly, the search then maximizes the censored pseudo
likelihood.  A file with another separate mode that is not negligible is refused.

**Negligible modes.**  A record contributes between -M and M to the log height of each mode.  So one more or one less
record changes the log odds of two modes by at most 2 M, and the replacement of a record by at most 4 M.  If every other
mode is less probable by a factor of e^(4 M), a neighbouring file leads to the same mode.

**Coordinates.**  The **pilot** is the mode, found by least squares of the records inside the clamp.  Chains start
around the pilot, in coordinates that are scaled by the pilot.  The pilot does not change the target.

Shapes: n distinct records, G distinct predictor rows, K predictors, D outcomes including the log weight if it is
modelled.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import invwishart

from ...errors import ModelError
from ..densities import modes
from ..densities.normal_density import log_height
from ..regression.sufficient_statistics import SufficientStatistics, sufficient_statistics

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Point = tuple[Floats, Floats]  # B (K, D) and the lower factor L (D, D) of Sigma

STEPS = 100  # most steps of the pilot fit, which only has to come near a mode
STUCK = 0.02  # least share of the total alpha that is inside the clamp; with less, the prior dominates the fit
DF = 4.0  # degrees of freedom of the t errors
DESCENT = 60  # Gibbs steps from a public start
STARTS, AROUND = 4, 12  # public starts of the search for modes, and points around the end of each descent


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class DistinctRecords:
    """Distinct records with a privacy weight alpha > 0, and their counts, sorted by combination of predictors.

    ``X`` (G, K) are distinct predictor rows.  Each distinct record has the number ``pattern`` of its row of X, values
    ``Y`` (n, D), the log ratio ``base`` of record density to normal density, ``alpha``, and the ``count`` of records
    equal to it.
    """

    X: Floats
    pattern: Codes
    Y: Floats
    base: Floats
    alpha: Floats
    count: Floats

    def residuals(self, B: Floats, L: Floats) -> Floats:
        """Return the residuals L^-1 (y_i - B'x_i), given coefficients B and the Cholesky factor L of the covariance."""
        return np.asarray(np.linalg.solve(L, (self.Y - (self.X @ B)[self.pattern]).T).T, dtype=np.float64)

    def contributions(self, B: Floats, L: Floats) -> Floats:
        """Return the contributions alpha_i log p_i of records to the log pseudo likelihood (n,), before the clamp."""
        log_p = self.base + log_height(L) - 0.5 * (self.residuals(B, L) ** 2).sum(axis=1)
        return np.asarray(self.alpha * log_p)

    def statistics(self, weight: Floats) -> SufficientStatistics:
        """Return sufficient statistics of the distinct records, weighted by ``weight`` (n,) times ``count``."""
        return sufficient_statistics(self.X, self.pattern, self.Y, weight * self.count)


@dataclass(frozen=True, repr=False)
class Pilot:
    """A pilot fit, from which Markov chains start: least squares of the records whose contributions are not clamped.

    ``B`` (K, D) are the coefficients, and ``L`` (D, D) is the Cholesky factor of the residual covariance Sigma.  ``A``,
    ``R``, ``Z0`` and ``S0`` are the sufficient statistics of :mod:`.joint_regression`.
    """

    A: float
    R: Floats
    Z0: Floats
    S0: Floats
    B: Floats
    L: Floats


def distinct_records(X: Floats, pattern: Codes, Y: Floats, alpha: Floats, base: Floats) -> DistinctRecords:
    """Return the distinct records with a privacy weight > 0, in an order that is the same for any order of the file."""
    table = np.column_stack([pattern, Y, base, alpha])[alpha > 0]
    table, count = np.unique(table, axis=0, return_counts=True)
    return DistinctRecords(
        X, table[:, 0].astype(np.intp), table[:, 1:-2], table[:, -2], table[:, -1], count.astype(np.float64)
    )


def public_start(K: int, D: int, rng: np.random.Generator) -> Point:
    """Draw coefficients and a Cholesky factor from the priors, as a starting point that does not use the file.

    Coefficients are N(0, 100).  Residual standard deviations are half-t(3, 0, 10), but at least 0.1, and residuals are
    uncorrelated.
    """
    scales = np.maximum(10 * np.abs(rng.standard_t(3, D)), 0.1)
    return 10 * rng.standard_normal((K, D)), np.diag(scales)


def descent(records: DistinctRecords, rng: np.random.Generator) -> Point:
    """Draw coefficients B and a Cholesky factor L that fit the records, by Gibbs steps of a regression with t errors.

    The first step starts from :func:`public_start`.  t errors bound the influence of a record.  A t error is normal
    with a random precision factor q.  Given q, (B, Sigma) is drawn from its posterior under a flat prior.

    Raises
    ------
    ModelError
        There are too few records for the model.
    """
    B, L = public_start(records.X.shape[1], records.Y.shape[1], rng)
    D = len(L)
    for _ in range(DESCENT):
        distance = (records.residuals(B, L) ** 2).sum(axis=1)
        q = 2 * rng.standard_gamma((DF + D) / 2, len(distance)) / (DF + distance)
        statistics = records.statistics(records.alpha * q)
        A = float(records.alpha @ records.count)
        R, Z0, S0 = statistics.reduced()
        if A - len(R) < D + 1:
            raise _too_tight()
        S0 = S0 + 1e-9 * np.diag(np.maximum(np.diag(S0), 1e-300))
        Sigma = np.asarray(invwishart.rvs(A - len(R), S0, random_state=rng)).reshape(D, D)
        if not np.isfinite(Sigma).all() or np.linalg.eigvalsh(Sigma)[0] <= 0:
            raise _too_tight()
        L = np.asarray(np.linalg.cholesky(Sigma), dtype=np.float64)
        B = np.asarray(np.linalg.pinv(R) @ (Z0 + rng.standard_normal(Z0.shape) @ L.T), dtype=np.float64)
    return B, L


def pilot_fit(records: DistinctRecords, bound: float, start: Point) -> Pilot:
    """Search for a stationary point of the censored pseudo likelihood, beginning at the parameters ``start``.

    Records inside the clamp have the weight alpha_i, and all others have the weight 0.  Weighted least squares are
    repeated until the same records are inside the clamp.

    Raises
    ------
    ModelError
        Almost no record is inside the clamp, which is too tight for this model.
    """
    everything, seen = float(records.alpha @ records.count), list[NDArray[np.bool_]]()
    B, L = start
    for _ in range(STEPS):
        inside = np.abs(records.contributions(B, L)) < bound
        if any((inside == before).all() for before in seen[-4:]):
            break
        seen.append(inside)
        weight = np.where(inside, records.alpha, 0.0)
        if weight @ records.count < STUCK * everything:
            raise _too_tight()
        pilot = _least_squares(records.statistics(weight))
        B, L = pilot.B, pilot.L
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


# ---- separate modes


def only_mode(records: DistinctRecords, bound: float, rng: np.random.Generator) -> Pilot:
    """Return the most probable mode of the censored posterior.

    Each other mode must be negligible, or Markov chains must be able to cross from it to this mode.  Normal
    approximations give the probabilities of modes.

    Raises
    ------
    ModelError
        Another separate mode is not negligible, or almost no record is inside the clamp.
    """
    found, inverse = [], np.asarray(np.linalg.pinv(records.X), dtype=np.float64)
    for _ in range(STARTS):
        place = descent(records, rng)
        points = [place, *(_around(records, inverse, place, rng) for _ in range(AROUND))]
        for point in points:
            with suppress(ModelError):  # almost no record is inside the clamp there
                found.append(pilot_fit(records, bound, point))
    if not found:
        raise _too_tight()
    probability = [_log_probability(records, mode, bound) for mode in found]
    return found[modes.only_mode(probability, bound, lambda i, j: _separated(records, bound, found[i], found[j]))]


def _around(records: DistinctRecords, inverse: Floats, place: Point, rng: np.random.Generator) -> Point:
    """Draw parameters near the parameters ``place``, like an elemental start of robust regression (Rousseeuw 1984).

    With probability 1/2, the coefficients are fitted to one random record of each predictor row.  Otherwise, all fitted
    values are shifted by the residual of one random record.  Sigma is smaller than at ``place``.  ``inverse`` (K, G) is
    the pseudo-inverse of X.
    """
    B, L = place
    n, G = len(records.Y), len(records.X)
    residuals = records.Y - (records.X @ B)[records.pattern]
    one, by_row = rng.integers(n), np.zeros((G, len(L)))
    order = rng.permutation(n)
    by_row[records.pattern[order]] = residuals[order]
    through = by_row if rng.random() < 0.5 else np.broadcast_to(residuals[one], by_row.shape)
    return B + inverse @ through, L * np.exp(rng.uniform(-4, 0))


def _log_probability(records: DistinctRecords, mode: Pilot, bound: float) -> float:
    """Approximate the log probability of a mode, up to a constant: log density at the mode plus log volume around it.

    Coefficients have the prior N(0, 100).
    """
    height = np.clip(records.contributions(mode.B, mode.L), -bound, bound) @ records.count
    C0, D = mode.R.T @ mode.R, len(mode.L)
    scales = np.sqrt(np.diag(mode.L @ mode.L.T))
    precision = sum(np.linalg.slogdet(C0 / s**2 + np.eye(len(C0)) / 100)[1] for s in scales)
    scale_volume = np.log(np.diag(mode.L)).sum() - D * (D + 1) / 4 * np.log(mode.A)
    return float(height - precision / 2 + scale_volume)


def _separated(records: DistinctRecords, bound: float, one: Pilot, other: Pilot) -> bool:
    """Return True if the density between two modes is so low that chains do not cross from one to the other."""

    def density(share: float) -> float:
        logs = [np.log(np.diag(mode.L)) for mode in (one, other)]
        shapes = [mode.L / np.diag(mode.L)[:, None] for mode in (one, other)]
        scale = np.exp(logs[0] + share * (logs[1] - logs[0]))
        L = scale[:, None] * (shapes[0] + share * (shapes[1] - shapes[0]))
        B = one.B + share * (other.B - one.B)
        return float(np.clip(records.contributions(B, L), -bound, bound) @ records.count)

    return modes.falls_between(density)


def coordinates(records: DistinctRecords, bound: float, pilot: Pilot) -> dict[str, object]:
    """Return the arguments of the Stan function ``censored_normal``, as a dictionary.

    The function is in ``stan/censored.stanfunctions``.  Outcomes are given as residuals from the pilot fit, scaled so
    that the pilot's residual covariance is I.
    """
    r, G = records.residuals(pilot.B, pilot.L), len(records.X)
    j, k = np.triu_indices(r.shape[1])
    return {
        "D": r.shape[1], "K": records.X.shape[1], "n": len(r), "G": G, "bound": bound, "X": records.X, "r": r,
        "rr": r[:, j] * r[:, k], "base": records.base + log_height(pilot.L), "alpha": records.alpha,
        "count": records.count, "g": records.pattern + 1,
        "start": np.searchsorted(records.pattern, np.arange(G + 1)) + 1, "A": pilot.A, "L_hat": pilot.L,
    }  # fmt: skip
