"""Numerical functions for the sampler of a mixture: vectorised exp and log, and triangular systems."""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)

compiled = nb.njit(cache=True, nogil=True, error_model="numpy")
# for sums that may be reordered for vectorisation; never for functions that draw random numbers
vectorised_sum = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


# Almost all of the time is spent on exp and log of n numbers.  The compiler vectorises loops without branches or calls

LOG_2, LOG_2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
WHOLE = 1.5 * 2.0**52  # the sum of this and a number has the nearest integer in its last bits
MANTISSA, ONE, TWO_52 = (1 << 52) - 1, 1023 << 52, 1075 << 52


@nb.njit(cache=True, nogil=True, error_model="numpy")  # no reassociation: x + WHOLE - WHOLE is not x
def fast_exp(x: Floats, out: Floats) -> None:
    """Set out_i to exp(x_i), for x_i below 700.  Numbers below -700 are replaced by -700."""
    bits = out.view(np.int64)
    for i in range(x.size):
        y = max(x[i], -700.0)
        shifted = y * 1.4426950408889634 + WHOLE
        k = shifted - WHOLE
        r = (y - k * LOG_2) - k * LOG_2_LOW
        out[i] = shifted
        p = 1 / 479001600.0
        p = p * r + 1 / 39916800.0
        p = p * r + 1 / 3628800.0
        p = p * r + 1 / 362880.0
        p = p * r + 1 / 40320.0
        p = p * r + 1 / 5040.0
        p = p * r + 1 / 720.0
        p = p * r + 1 / 120.0
        p = p * r + 1 / 24.0
        p = p * r + 1 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        bits[i] = (bits[i] + 1023) << 52
        out[i] *= p


@nb.njit(cache=True, nogil=True, error_model="numpy")
def fast_log(x: Floats, out: Floats) -> None:
    """Set out_i to log(x_i), for finite x_i above 1e-300.  The array x is overwritten."""
    bits, exponent = x.view(np.int64), out.view(np.int64)
    for i in range(x.size):
        exponent[i] = (bits[i] >> 52) | TWO_52
        bits[i] = (bits[i] & MANTISSA) | ONE
        high = x[i] > 1.4142135623730951
        m = 0.5 * x[i] if high else x[i]
        k = out[i] - (2.0**52 + 1023.0) + (1.0 if high else 0.0)
        u = (m - 1) / (m + 1)
        w = u * u
        p = 1 / 19.0
        p = p * w + 1 / 17.0
        p = p * w + 1 / 15.0
        p = p * w + 1 / 13.0
        p = p * w + 1 / 11.0
        p = p * w + 1 / 9.0
        p = p * w + 1 / 7.0
        p = p * w + 1 / 5.0
        p = p * w + 1 / 3.0
        out[i] = k * LOG_2 + (k * LOG_2_LOW + 2 * u * w * p + 2 * u)


@compiled
def forward(root: Floats, h: Floats) -> Floats:
    """Solve root x = h for a lower triangular root."""
    out = h.copy()
    for a in range(h.size):
        for b in range(a):
            out[a] -= root[a, b] * out[b]
        out[a] /= root[a, a]
    return out


@compiled
def back(root: Floats, h: Floats) -> Floats:
    """Solve root' x = h for a lower triangular root."""
    out = h.copy()
    for a in range(h.size - 1, -1, -1):
        for b in range(a + 1, h.size):
            out[a] -= root[b, a] * out[b]
        out[a] /= root[a, a]
    return out


@compiled
def normal(root: Floats, rng: np.random.Generator) -> Floats:
    """Draw from N(0, (root root')^-1)."""
    z = np.empty(len(root))
    for a in range(z.size):
        z[a] = rng.standard_normal()
    return back(root, z)
