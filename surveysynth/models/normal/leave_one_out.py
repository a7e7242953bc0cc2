"""How much one record changes the flat-prior posterior: bounds on the log ratio of the posteriors with and without it.

Privacy weights alpha held fixed, the posterior with record i over that without it is

    p_i^alpha_i / Z,    p_i = p(y_i, w_i | x_i, B, Sigma),    Z = E(p_i^alpha_i) without it.

Under privacy weights alpha the posterior of the normal regression (flat_prior.py) gives a record's residual e

    Sigma ~ IW(v, S0),    e | Sigma ~ N(r, h Sigma),    h = x' C0^-1 x,    v = A - rank,

r being the fitted residual.  Without the record, of privacy weight a, it is of the same form (a downdate of the
weighted regression; Cook & Weisberg 1982, section 2.2):

    h / (1 - a h),    r / (1 - a h),    v - a,    S0 - a r r' / (1 - a h).

What follows depends on the record through h, a and rho^2 = r' S0^-1 r alone, whatever the number D of its numbers: the
ratio is invariant to affine maps.  In coordinates where S0 = I and r = rho u, with Bartlett's factor of Sigma^-1,
f = log p_i has a moment generating function in closed form,

    E e^(s f) = |S0|^(-s/2) (2 pi)^(-s D/2) prod_(k < D) 2^(s/2) Gamma((v - k + s)/2) / Gamma((v - k)/2)
                (1 + s h)^(-D/2) (1 + s rho^2 / (1 + s h))^(-(v + s)/2),

where s > -1 / (h + rho^2) and s > D - 1 - v.  So tails of f have Chernoff's bounds: P(f >= q) <= E e^(s f) e^(-s q) for
every s > 0, and likewise below; and log Z = log E e^(a f) without the record.  Nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, polygamma

from ..shared.sufficient_statistics import sufficient_statistics
from .identifiability import refuse_degenerate, refuse_unseen
from .records import JointRecords

Floats = NDArray[np.float64]

SINGULAR = 1e-9  # 1 - a h, or 1 - a rho^2 / (1 - a h), below which nothing is left without the record
GOLDEN = (np.sqrt(5) - 1) / 2
STEPS, APART = 20, 5.0  # of the search for s, and how far from the normal law's it may be on the log scale


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class DensityLaw:
    """Laws of records' log densities under a posterior, less (D/2) log 2 pi and half of log |S0| with all records.

    Attributes
    ----------
    D : int
        Numbers of a record.
    df : float array (n,)
        Degrees of freedom v of Sigma.
    leverage : float array (n,)
        h.
    distance : float array (n,)
        rho^2.
    log_scale : float array (n,)
        Log of |S0| under this posterior over that with all records.
    """

    D: int
    df: Floats
    leverage: Floats
    distance: Floats
    log_scale: Floats

    def cumulant(self, s: Floats) -> Floats:
        """log E e^(s f): (n,)."""
        gammas = sum(gammaln((self.df - k + s) / 2) - gammaln((self.df - k) / 2) for k in range(self.D))
        around = np.log1p(s * self.leverage)
        whole = np.log1p(s * (self.leverage + self.distance))
        scale = s / 2 * (self.D * np.log(2) - self.log_scale)
        return np.asarray(gammas + scale - self.D / 2 * around - (self.df + s) / 2 * (whole - around))

    @property
    def variance(self) -> Floats:
        """Var f: (n,)."""
        h, d = self.leverage, self.distance
        of_scale = sum(polygamma(1, (self.df - k) / 2) for k in range(self.D)) / 4
        return np.asarray(of_scale + self.D * h**2 / 2 - d + self.df / 2 * d * (2 * h + d))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Bounds (n,) that f passes with probability ``level`` at most, on either side."""
        needed = -np.log(level)
        start = np.sqrt(2 * needed / self.variance)
        most = np.minimum(1 / (self.leverage + self.distance), self.df - self.D + 1)
        below = np.log(np.minimum(start, most * GOLDEN))
        low = _least(lambda t: (self.cumulant(-np.exp(t)) + needed) / np.exp(t), below, np.log(most * (1 - 1e-9)))
        high = _least(lambda t: (self.cumulant(np.exp(t)) + needed) / np.exp(t), np.log(start), np.log(start) + APART)
        return -low, high

    def without(self, alpha: Floats) -> tuple[DensityLaw, NDArray[np.bool_]]:
        """Laws under the posteriors without each record, of privacy weights ``alpha`` (n,); and where there are none.

        There is none where the record alone informs on the mean of its predictors, or on a direction of Sigma.
        """
        left = 1 - alpha * self.leverage
        seen = left > SINGULAR
        left = np.where(seen, left, 1.0)
        shrunk = 1 - alpha * self.distance / left
        seen &= (shrunk > SINGULAR) & (self.df - alpha > self.D - 1)
        a, left, shrunk = np.where(seen, alpha, 0.0), np.where(seen, left, 1.0), np.where(seen, shrunk, 1.0)
        distance = self.distance / (left**2 * shrunk)
        return DensityLaw(self.D, self.df - a, self.leverage / left, distance, np.log(shrunk)), ~seen


def density_laws(records: JointRecords, alpha: Floats) -> DensityLaw:
    """Laws of the records' log densities under the flat-prior posterior with all of them.

    Raises
    ------
    ModelError
        alpha leaves too little of the file, or cells without any weight.
    """
    statistics = sufficient_statistics(records.X, records.pattern, records.Y, alpha)
    R, Z0, S0 = statistics.reduced()
    refuse_degenerate(S0, statistics, len(R))
    inverse = refuse_unseen(records, R)
    root = records.X @ inverse
    residual = records.Y - (root @ Z0)[records.pattern]
    whitened = np.linalg.solve(np.linalg.cholesky(S0), residual.T)
    df = np.full(records.n, statistics.A - len(R))
    leverage = (root**2).sum(axis=1)[records.pattern]
    return DensityLaw(S0.shape[0], df, leverage, (whitened**2).sum(axis=0), np.zeros(records.n))


def log_ratio_bounds(records: JointRecords, alpha: Floats, delta: float) -> Floats:
    """Bounds on |log ratio of the posteriors with record i and without it|, but for probability delta under either.

    With f in [low, high] on a set of probability 1 - delta at least under both, it is at most

        max(alpha_i high - log Z, log Z - alpha_i low)  <=  alpha_i (high - low) + log 1 / (1 - delta).

    Parameters
    ----------
    records : JointRecords
    alpha : float array (n,)
        Privacy weights, held fixed.
    delta : float

    Returns
    -------
    float array (n,)
        Infinite where there is no posterior without the record.

    Raises
    ------
    ModelError
        As :func:`density_laws`.

    Notes
    -----
    The bounds are this package's; per-instance differential privacy is Wang's (2019).
    """
    law = density_laws(records, alpha)
    without, undefined = law.without(alpha)
    (low, high), (low_without, high_without) = law.interval(delta / 2), without.interval(delta / 2)
    log_Z = without.cumulant(alpha)
    above, below = alpha * np.maximum(high, high_without) - log_Z, log_Z - alpha * np.minimum(low, low_without)
    return np.where(undefined, np.inf, np.maximum(above, below))


def _least(value: Callable[[Floats], Floats], start: Floats, most: Floats) -> Floats:
    """Least values (n,) of functions with one minimum near ``start`` and not beyond ``most``: golden section search.

    Any value bounds the quantile; the least is the closest.
    """
    low, high = start - APART, np.minimum(start + APART, most)
    for _ in range(STEPS):
        step = GOLDEN * (high - low)
        left, right = high - step, low + step
        rises = value(left) <= value(right)
        low, high = np.where(rises, low, left), np.where(rises, right, high)
    return value((low + high) / 2)
