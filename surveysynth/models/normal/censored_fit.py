"""Fits under the censored pseudo likelihood: the records, and where its one mode is.

    log L_c = sum_i clamp(alpha_i log p_i, -M, M)        (Hu, Williams & Savitsky 2025, eq. 3.5-3.6)

Clamping is record by record, so a fit looks at every record: the same ones are put together, and
the rest are sorted by predictor row.

**Modes.**  The clamped density can have modes apart, between which chains do not move.  Were chains to start at a fit
of the file, one record could decide which of them all chains sample.  So modes are looked for from several public
starts, spread as wide as the priors.  Out there every record is at the clamp and the density is flat, so the search
first comes down to the file by Gibbs steps of a regression with t errors (4 degrees of freedom), which have one mode
whatever the file (Kent & Tyler 1991) and under which no record leads far.  From points through single records around
that place it goes uphill under the clamp.  A file with another mode that counts is refused.

**How probable a mode must be to count.**  One record has at most 2 M to say about which of two modes is the more
probable: it adds between -M and M to the height of each.  Replaced, it moves their log odds by 4 M at most.  Where
every rival is less probable by e^(4 M), no neighbouring file is released at a rival.

**Coordinates.**  The **pilot** is the mode as least squares of the records inside the clamp.  Chains start around it in
coordinates that it scales; it is no part of the target.
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

STEPS = 100  # of the pilot; it need not settle, it only has to be near
STUCK = 0.02  # least share of the records' weight inside the clamp: with less the fit is all prior
DF = 4.0  # of the t errors
DESCENT = 60  # Gibbs steps from a public start
STARTS, AROUND = 4, 12  # public starts of the search for modes, and points around the place that each comes down to


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class DistinctRecords:
    """The different records with their counts, sorted by predictor row; those of alpha = 0 say nothing.

    ``X`` (G, K) the distinct predictor rows; of each record its row ``pattern``, values ``Y`` (n, D), the log density's
    ``base`` beside the normal one, ``alpha`` and ``count``.
    """

    X: Floats
    pattern: Codes
    Y: Floats
    base: Floats
    alpha: Floats
    count: Floats

    def residuals(self, B: Floats, L: Floats) -> Floats:
        """L^-1 (y_i - B'x_i): (n, D)."""
        return np.asarray(np.linalg.solve(L, (self.Y - (self.X @ B)[self.pattern]).T).T, dtype=np.float64)

    def contributions(self, B: Floats, L: Floats) -> Floats:
        """alpha_i log p_i, before the clamp: (n,)."""
        log_p = self.base + log_height(L) - 0.5 * (self.residuals(B, L) ** 2).sum(axis=1)
        return np.asarray(self.alpha * log_p)

    def statistics(self, weight: Floats) -> SufficientStatistics:
        """Of the records under these weights (n,), times their counts."""
        return sufficient_statistics(self.X, self.pattern, self.Y, weight * self.count)


@dataclass(frozen=True, repr=False)
class Pilot:
    """Least squares of the records inside the clamp: their statistics, B (K, D) and the factor L (D, D) of Sigma."""

    A: float
    R: Floats
    Z0: Floats
    S0: Floats
    B: Floats
    L: Floats


def distinct_records(X: Floats, pattern: Codes, Y: Floats, alpha: Floats, base: Floats) -> DistinctRecords:
    """Put the same records together: the order of the file no longer shows."""
    table = np.column_stack([pattern, Y, base, alpha])[alpha > 0]
    table, count = np.unique(table, axis=0, return_counts=True)
    return DistinctRecords(
        X, table[:, 0].astype(np.intp), table[:, 1:-2], table[:, -2], table[:, -1], count.astype(np.float64)
    )


def public_start(K: int, D: int, rng: np.random.Generator) -> Point:
    """A point spread as wide as the priors: coefficients N(0, 100), scales half-t(3, 0, 10)."""
    scales = np.maximum(10 * np.abs(rng.standard_t(3, D)), 0.1)
    return 10 * rng.standard_normal((K, D)), np.diag(scales)


def descent(records: DistinctRecords, rng: np.random.Generator) -> Point:
    """From a public start to the file, by Gibbs steps under t errors, where no record leads far.

    A t error is normal with a random precision factor q; given the q, (B, Sigma) has the flat prior's posterior.

    Raises
    ------
    ModelError
        Too few records for the model.
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
    """A stationary point of the censored pseudo likelihood, or a point near it, from a start.

    Where log p_i is inside the clamp record i pulls with its weight alpha_i, elsewhere not at all; so
    weighted least squares of the records inside, until the same ones are inside.

    Raises
    ------
    ModelError
        Next to nothing is inside the clamp: it is too tight for this model.
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


# ---- modes apart


def only_mode(records: DistinctRecords, bound: float, rng: np.random.Generator) -> Pilot:
    """The most probable mode of the censored posterior, in a file that has no other mode that counts.

    Probabilities of modes are those of normal approximations.

    Raises
    ------
    ModelError
        Beyond a barrier there is another mode that counts; next to nothing is inside the clamp.
    """
    found, inverse = [], np.asarray(np.linalg.pinv(records.X), dtype=np.float64)
    for _ in range(STARTS):
        place = descent(records, rng)
        points = [place, *(_around(records, inverse, place, rng) for _ in range(AROUND))]
        for point in points:
            with suppress(ModelError):  # nothing is inside the clamp there
                found.append(pilot_fit(records, bound, point))
    if not found:
        raise _too_tight()
    probability = [_log_probability(records, mode, bound) for mode in found]
    return found[modes.only_mode(probability, bound, lambda i, j: _separated(records, bound, found[i], found[j]))]


def _around(records: DistinctRecords, inverse: Floats, place: Point, rng: np.random.Generator) -> Point:
    """A point around a place: fitted values go through one record, or one of each predictor row, on a smaller scale.

    As the elemental starts of robust regression (Rousseeuw 1984): a mode is found from the records that make it.
    ``inverse`` (K, G) is that of the predictor rows.
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
    """Log of a mode's probability but for a constant: its height, and the volume around it; coefficients N(0, 100)."""
    height = np.clip(records.contributions(mode.B, mode.L), -bound, bound) @ records.count
    C0, D = mode.R.T @ mode.R, len(mode.L)
    scales = np.sqrt(np.diag(mode.L @ mode.L.T))
    precision = sum(np.linalg.slogdet(C0 / s**2 + np.eye(len(C0)) / 100)[1] for s in scales)
    scale_volume = np.log(np.diag(mode.L)).sum() - D * (D + 1) / 4 * np.log(mode.A)
    return float(height - precision / 2 + scale_volume)


def _separated(records: DistinctRecords, bound: float, one: Pilot, other: Pilot) -> bool:
    """Whether the density falls so far between two modes that chains do not cross."""

    def density(share: float) -> float:
        logs = [np.log(np.diag(mode.L)) for mode in (one, other)]
        shapes = [mode.L / np.diag(mode.L)[:, None] for mode in (one, other)]
        scale = np.exp(logs[0] + share * (logs[1] - logs[0]))
        L = scale[:, None] * (shapes[0] + share * (shapes[1] - shapes[0]))
        B = one.B + share * (other.B - one.B)
        return float(np.clip(records.contributions(B, L), -bound, bound) @ records.count)

    return modes.falls_between(density)


def coordinates(records: DistinctRecords, bound: float, pilot: Pilot) -> dict[str, object]:
    """The records as ``censored_normal`` of ``stan/censored.stanfunctions`` takes them.

    They are residuals of the pilot in which its covariance is I.
    """
    r, G = records.residuals(pilot.B, pilot.L), len(records.X)
    j, k = np.triu_indices(r.shape[1])
    return {
        "D": r.shape[1], "K": records.X.shape[1], "n": len(r), "G": G, "bound": bound, "X": records.X, "r": r,
        "rr": r[:, j] * r[:, k], "base": records.base + log_height(pilot.L), "alpha": records.alpha,
        "count": records.count, "g": records.pattern + 1,
        "start": np.searchsorted(records.pattern, np.arange(G + 1)) + 1, "A": pilot.A, "L_hat": pilot.L,
    }  # fmt: skip
