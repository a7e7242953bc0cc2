"""Integer Laplace noise by OpenDP, and what tables cost together by OpenDP's own maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
ROUNDING = 1e-9  # share of epsilon that is left for the rounding of its parts and of their sum


def discrete_laplace_variance(epsilon: float) -> float:
    """Variance 2 q / (1 - q)^2, q = exp(-epsilon), of integer Laplace noise of scale 1 / epsilon."""
    return float(2 * np.exp(-epsilon) / np.expm1(-epsilon) ** 2)


def discrete_laplace(rng: np.random.Generator, epsilon: float, size: int) -> Counts:
    """Noise of the same law by numpy: for refits to simulated noise and for tests, never to protect a file."""
    stop = -np.expm1(-epsilon)
    return rng.geometric(stop, size) - rng.geometric(stop, size)


def noisy(counts: Counts, epsilon: float, rng: np.random.Generator | None = None, *, unit: int = 1) -> Counts:
    """Counts of one table with integer Laplace noise of scale unit / epsilon, by OpenDP.

    Parameters
    ----------
    counts : int array
        A record adds at most ``unit`` to one cell, or takes it away.
    epsilon : float
        What the table spends on a record whose values are blanked.
    unit : int
    rng : numpy.random.Generator, optional
        For tests only, and not safe; else noise is OpenDP's.
    """
    if rng is not None:
        return counts + discrete_laplace(rng, epsilon / unit, counts.size).reshape(counts.shape)
    released = _laplace(epsilon / unit)(counts.ravel().tolist())
    return np.array(released, dtype=np.int64).reshape(counts.shape)


def composed(parts: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Epsilon of all tables together, for a record whose values are blanked, and for one with other values.

    A blanked record leaves one cell of every table, one with other values leaves one cell and enters another.

    Parameters
    ----------
    parts : sequence of (float, int)
        Epsilon and unit of each table.
    """
    dp, space = _opendp()
    queries = [(_laplace(epsilon / unit), unit) for epsilon, unit in parts]
    total = []
    for d_in in (1, 2):
        maps = [query.map(d_in * unit) for query, unit in queries]
        total.append(dp.c.make_adaptive_composition(*space, dp.max_divergence(), d_in=d_in, d_mids=maps).map(d_in))
    return total[0], total[1]


def _laplace(epsilon: float) -> Any:
    dp, space = _opendp()
    return dp.m.make_laplace(*space, scale=float(np.nextafter(1 / epsilon, np.inf)))


def _opendp() -> tuple[Any, tuple[Any, Any]]:
    import opendp.prelude as dp  # half a second, and only measuring needs it

    dp.enable_features("contrib")
    return dp, (dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"))
