"""Integer Laplace or Gaussian noise by OpenDP, and the privacy cost of all tables together by OpenDP's maps.

Laplace noise gives pure epsilon-differential privacy.  Gaussian noise gives (epsilon, delta)-differential privacy by
zero-concentrated differential privacy with a parameter rho (Bun & Steinke 2016; discrete Gaussian noise: Canonne,
Kamath & Steinke 2020).  For many tables, Gaussian noise is smaller.  Its standard deviation grows with the square
root of the number of tables, while the standard deviation of Laplace noise grows with the number.  The epsilon of a
table with Gaussian noise is the epsilon of Laplace noise with the same variance, 2 / epsilon^2.  The rho of the table
is then epsilon^2 / 4.

Neighbouring files differ by the confidential values of one record, or of one protected unit of several records.  These
values are replaced by other values, or they are blanked, so that the record is in no cell of any table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
ROUNDING = 1e-9  # share of epsilon reserved for rounding errors of the epsilons of tables and of their sum
SMALL = 20.0  # largest standard deviation of Gaussian noise for which the variance is a sum over the probabilities


@dataclass(frozen=True)
class TableBudget:
    """Privacy budget of all tables together: epsilon, or (epsilon, delta).

    Attributes
    ----------
    epsilon : float
        Epsilon for blanking the values of a record.
    delta : float, optional
        Delta of (epsilon, delta).  If given, the noise is Gaussian.
    """

    epsilon: float
    delta: float | None = None

    @property
    def gaussian(self) -> bool:
        """True if the noise is Gaussian."""
        return self.delta is not None

    @cached_property
    def rho(self) -> float:
        """The rho of zero-concentrated differential privacy for which OpenDP's conversion gives (epsilon, delta).

        Proposition 1.3 of Bun & Steinke (2016), epsilon = rho + 2 sqrt(rho log(1 / delta)), would give a smaller rho.
        """
        assert self.delta is not None
        delta, asked = self.delta, self.epsilon * (1 - ROUNDING)
        tail = -np.log(delta)
        low = high = np.log((np.sqrt(tail + self.epsilon) - np.sqrt(tail)) ** 2)
        while _up_to(np.exp(high), delta) < asked:
            high += 1
        while _up_to(np.exp(low), delta) > asked:
            low -= 1
        found = brentq(lambda log_rho: _up_to(np.exp(log_rho), delta) - asked, low - 1, high + 1, xtol=1e-12)
        return float(np.exp(found - 1e-10))

    def split(self, kinds: Sequence[tuple[float, int]]) -> list[float]:
        """Divide the budget between the tables.  Return the epsilon of one table of each kind.

        ``kinds`` gives, for each kind, the relative share of one table and the number of tables.  Under Laplace noise,
        the epsilon of a table is proportional to its share.  Under Gaussian noise, the rho of a table is proportional
        to its share to the power 3/2.  These rules minimise a weighted sum of the variances of all tables, if the share
        of a table is the cube root of its weight in the sum.
        """
        share, many = np.array(kinds, dtype=np.float64).T
        if not self.gaussian:
            return list(share * (self.epsilon * (1 - ROUNDING) / (share @ many)))
        rho = share**1.5 * (self.rho * (1 - ROUNDING) / (share**1.5 @ many))
        return list(2 * np.sqrt(rho))


def noise_variance(epsilon: float, *, gaussian: bool) -> float:
    """Return the variance of the noise of a count with this epsilon and sensitivity 1."""
    if not gaussian:
        return discrete_laplace_variance(epsilon)
    sd = _gaussian_scale(epsilon)
    if sd > SMALL:
        return sd**2  # equals the variance of the discrete law to 1e-9
    k, p = _gaussian_law(sd)
    return float(p @ k.astype(np.float64) ** 2)


def simulated_noise(rng: np.random.Generator, epsilon: float, size: int, *, gaussian: bool) -> Counts:
    """Simulate ``size`` noise values of a table with this epsilon and sensitivity 1.

    The values are for refits and tests.  They must not protect a file, because numpy's generator is not
    cryptographically secure.
    """
    if not gaussian:
        return discrete_laplace(rng, epsilon, size)
    sd = _gaussian_scale(epsilon)
    if sd > SMALL:
        return np.rint(sd * rng.standard_normal(size)).astype(np.int64)
    k, p = _gaussian_law(sd)
    return rng.choice(k, size, p=p)


def _gaussian_law(sd: float) -> tuple[Counts, Floats]:
    k = np.arange(-int(np.ceil(12 * sd)) - 3, int(np.ceil(12 * sd)) + 4)
    p = np.exp(-(k**2) / (2 * sd**2))
    return k, p / p.sum()


def _gaussian_scale(epsilon: float) -> float:
    return float(np.sqrt(2) / epsilon)


def discrete_laplace_variance(epsilon: float) -> float:
    """Return the variance 2 q / (1 - q)^2, q = exp(-epsilon), of integer Laplace noise of scale 1 / epsilon."""
    return float(2 * np.exp(-epsilon) / np.expm1(-epsilon) ** 2)


def discrete_laplace(rng: np.random.Generator, epsilon: float, size: int) -> Counts:
    """Simulate ``size`` values of integer Laplace noise of scale 1 / epsilon (see :func:`simulated_noise`)."""
    stop = -np.expm1(-epsilon)
    return rng.geometric(stop, size) - rng.geometric(stop, size)


def noisy(
    counts: Counts, epsilon: float, rng: np.random.Generator | None = None, *, unit: int = 1, gaussian: bool = False
) -> Counts:  # fmt: skip
    """Add integer noise by OpenDP to the counts of one table: Laplace of scale unit / epsilon, or Gaussian.

    Parameters
    ----------
    counts : int array
        Counts.  Blanking the values of a record changes one count, by at most ``unit``.
    epsilon : float
        Epsilon of the table for blanking the values of a record.
    unit : int
        Largest contribution of a protected record, or of a protected unit of several records.
    gaussian : bool
        True if the noise is Gaussian instead of Laplace.
    rng : numpy.random.Generator, optional
        Generator of noise by numpy, which is for tests only, because it does not protect the file.
    """
    if rng is not None:
        return counts + simulated_noise(rng, epsilon / unit, counts.size, gaussian=gaussian).reshape(counts.shape)
    released = (_gaussian if gaussian else _laplace)(epsilon / unit)(counts.ravel().tolist())
    return np.array(released, dtype=np.int64).reshape(counts.shape)


def composed(parts: Sequence[tuple[float, int, bool]], delta: float | None = None) -> tuple[float, float]:
    """Compute two epsilons of all tables together: for blanking, and for replacing, the values of a record.

    Both are computed by OpenDP.  Blanking removes a record from one cell of every table.  Replacing moves a record from
    one cell of a table to another, which is an L1 distance of 2 and an L2 distance of the root of 2.  A score can
    change within one cell from the lowest to the highest value, and then both distances are 2.

    Parameters
    ----------
    parts : sequence of (float, int, bool)
        For each table: its epsilon; the largest contribution of a record or unit; True if the table has sums of scores
        or of products.
    delta : float, optional
        Delta of (epsilon, delta).  If given, the noise is Gaussian.
    """
    dp, space = _opendp(gaussian=delta is not None)
    total = []
    for replaced in (False, True):
        if delta is None:
            d_in = 1 + replaced
            maps = [_laplace(epsilon / unit).map(d_in * unit) for epsilon, unit, _ in parts]
            total.append(dp.c.make_adaptive_composition(*space, dp.max_divergence(), d_in=d_in, d_mids=maps).map(d_in))
            continue
        distances = [(2.0 if scored else 2**0.5) if replaced else 1.0 for _, _, scored in parts]
        maps = [_gaussian(e / unit).map(d * unit) for (e, unit, _), d in zip(parts, distances, strict=True)]
        measure = dp.zero_concentrated_divergence()
        whole = dp.c.make_adaptive_composition(*space, measure, d_in=2.0, d_mids=maps)
        total.append(dp.c.make_zCDP_to_approxDP(whole).map(2.0).epsilon(delta))
    return total[0], total[1]


def _laplace(epsilon: float) -> Any:
    dp, space = _opendp(gaussian=False)
    return dp.m.make_laplace(*space, scale=float(np.nextafter(1 / epsilon, np.inf)))


def _gaussian(epsilon: float) -> Any:
    dp, space = _opendp(gaussian=True)
    return dp.m.make_gaussian(*space, scale=float(np.nextafter(_gaussian_scale(epsilon), np.inf)))


def _up_to(rho: float, delta: float) -> float:
    """Return the epsilon at ``delta`` that follows from zero-concentrated differential privacy with parameter rho."""
    dp, space = _opendp(gaussian=True)
    one = dp.m.make_gaussian(*space, scale=float((2 * rho) ** -0.5))
    return float(dp.c.make_zCDP_to_approxDP(one).map(1.0).epsilon(delta))


def _opendp(*, gaussian: bool) -> tuple[Any, tuple[Any, Any]]:
    import opendp.prelude as dp  # the import takes half a second, and only measuring needs it

    dp.enable_features("contrib")
    distance = dp.l2_distance(T="f64") if gaussian else dp.l1_distance(T="i64")
    return dp, (dp.vector_domain(dp.atom_domain(T="i64")), distance)
