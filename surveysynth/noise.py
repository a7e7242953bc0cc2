"""Laplace noise that is safe in floating point: OpenDP's, never a plain draw by numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Floats = NDArray[np.float64]


def laplace(
    values: Floats, sensitivity: float, epsilon: float, rng: np.random.Generator | None = None
) -> tuple[Floats, float]:
    """Values with Laplace noise of scale sensitivity / epsilon by OpenDP, and the variance of the noise.

    Parameters
    ----------
    values : float array
        Each gets independent noise.
    sensitivity : float
        0 returns the values unchanged.
    epsilon : float
        Epsilon for one record, which changes one value by at most the sensitivity.
    rng : numpy.random.Generator, optional
        For tests only, and not safe; by default noise is OpenDP's.

    Raises
    ------
    InputError
        A value or the variance is not finite.
    """
    if sensitivity == 0:
        return values, 0.0
    if rng is not None:
        plain = sensitivity / epsilon
        return values + rng.laplace(0, plain, values.shape), 2 * plain * plain
    with np.errstate(over="ignore"):
        scale = float(np.nextafter(np.float64(sensitivity) / epsilon, np.inf))  # rounding never adds to epsilon
    noise = 2 * scale * scale
    if not (np.isfinite(noise) and np.isfinite(values).all()):
        raise InputError("a total or its noise overflows: give the outcome in a larger unit, or more epsilon")
    import opendp.prelude as dp  # takes half a second, and only noise needs it

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    noisy = dp.m.make_laplace(*space, scale=scale)(values.ravel().tolist())
    return np.reshape(np.array(noisy, dtype=np.float64), values.shape), noise
