"""The curve behind normal scores: its inverse, and the distribution function that it comes from."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly

Floats = NDArray[np.float64]


BLOCK = 1 << 16  # values that one core takes at a time


def evaluate(curve: PPoly, u: Floats) -> Floats:
    """The curve at u, float array of any shape: as the curve itself gives it, on all cores."""
    return _on_all_cores(_evaluate, u, curve.x, np.ascontiguousarray(curve.c))


def solve(curve: PPoly, z: Floats) -> Floats:
    """The u with curve(u) = z: Newton's steps within the piece that holds z, halving where one leaves it.

    Parameters
    ----------
    curve : scipy.interpolate.PPoly
        Cubic pieces, strictly increasing; the first and last are straight.
    z : float array, any shape
    """
    return _on_all_cores(_solve, z, curve.x, np.ascontiguousarray(curve.c), curve(curve.x))


def _on_all_cores(kernel: Callable[..., None], values: Floats, *curve: Floats) -> Floats:
    """What the kernel makes of each value, in threads of our own: those of OpenMP do not survive a fork."""
    flat, out = np.ascontiguousarray(values).reshape(-1), np.empty(values.size)

    def block(first: int) -> None:
        kernel(flat[first : first + BLOCK], *curve, out[first : first + BLOCK])

    if flat.size <= BLOCK:
        block(0)
    else:
        with ThreadPoolExecutor(nb.get_num_threads()) as threads:
            list(threads.map(block, range(0, flat.size, BLOCK)))
    return out.reshape(values.shape)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _evaluate(u: Floats, x: Floats, c: Floats, z: Floats) -> None:
    """Fill z (n,) with the curve's values at u; c (4, pieces) are the coefficients of its pieces, x their limits."""
    for i in range(u.size):
        k = min(max(np.searchsorted(x, u[i], side="right") - 1, 0), x.size - 2)
        step = u[i] - x[k]
        z[i] = ((c[0, k] * step + c[1, k]) * step + c[2, k]) * step + c[3, k]


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _solve(z: Floats, x: Floats, c: Floats, at: Floats, u: Floats) -> None:
    """Fill u (n,); ``at`` are the curve's values at x, the limits of its pieces; c (4, pieces) their coefficients."""
    last = x.size - 2
    for i in range(z.size):
        k = min(max(np.searchsorted(at, z[i], side="right") - 1, 0), last)
        a, b, slope, rest, length = c[0, k], c[1, k], c[2, k], c[3, k] - z[i], x[k + 1] - x[k]
        step = -rest * (length / (at[k + 1] - at[k]))
        low, high = 0.0, length
        for _ in range(60 if 0 < k < last else 0):  # 4 to 8 are enough; 60 halvings would be without Newton
            value = ((a * step + b) * step + slope) * step + rest
            low, high = step if value <= 0 else low, step if value >= 0 else high
            newton = step - value / ((3 * a * step + 2 * b) * step + slope)
            following = newton if low <= newton <= high else (low + high) / 2
            change, step = abs(following - step), following
            if change <= 1e-9 * length:  # the error is about its square
                break
        u[i] = x[k] + step


def mid_distribution(u: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Different values in order, and the share of the weight below each plus half its own."""
    value, code = np.unique(u, return_inverse=True)
    share = np.bincount(code, weights=w) / w.sum()
    return value, np.cumsum(share) - share / 2


def effective_size(w: Floats) -> float:
    """How many records of equal weight these are worth (Kish)."""
    return float(w.sum() ** 2 / (w**2).sum())
