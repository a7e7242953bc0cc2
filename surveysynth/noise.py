"""Laplace noise by OpenDP, which keeps its guarantee in floating-point arithmetic.

Noise by numpy does not: the low-order bits of a noisy value can reveal the value (Mironov 2012).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Floats = NDArray[np.float64]


def laplace(
    values: Floats, sensitivity: float, epsilon: float, rng: np.random.Generator | None = None
) -> tuple[Floats, float]:
    """Return values with Laplace noise of scale sensitivity / epsilon, and the variance of the noise.

    Parameters
    ----------
    values : float array
        Each value gets independent noise.
    sensitivity : float
        The most by which one record changes a value.  If the sensitivity is 0, the values are returned unchanged.
    epsilon : float
        Epsilon for one record, on the assumption that a record changes one of the values only.
    rng : numpy.random.Generator, optional
        If given, the noise is drawn by numpy, which does not keep the guarantee and is for tests only.  By default the
        noise is OpenDP's.

    Returns
    -------
    (float array, float)
        The noisy values, in the shape of ``values``, and the variance of the noise of a single value.

    Raises
    ------
    InputError
        A value or the variance of the noise is not finite (not checked if ``rng`` is given or the sensitivity is 0).
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
    import opendp.prelude as dp  # the import takes half a second, and only noise needs it

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    noisy = dp.m.make_laplace(*space, scale=scale)(values.ravel().tolist())
    return np.reshape(np.array(noisy, dtype=np.float64), values.shape), noise
