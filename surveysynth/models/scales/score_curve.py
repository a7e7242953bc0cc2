"""The curve from amounts to normal scores, the inverse curve, and distribution functions of weighted values."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly

Floats = NDArray[np.float64]


BLOCK = 1 << 16  # values that one core processes at a time


def evaluate(curve: PPoly, u: Floats) -> Floats:
    """Compute the normal scores of transformed amounts ``u``, such as log amounts, on all cores.

    ``u`` is an array of any shape.
    """
    return _on_all_cores(_evaluate, u, curve.x, np.ascontiguousarray(curve.c))


def solve(curve: PPoly, z: Floats) -> Floats:
    """Find u with curve(u) = z for each element z, by Newton's method within the cubic piece that contains u.

    A Newton step that leaves the interval known to contain u is replaced by bisection.

    Parameters
    ----------
    curve : scipy.interpolate.PPoly
        A strictly increasing curve of cubic pieces.  The first and the last piece are straight.
    z : float array, any shape
        Normal scores.

    Returns
    -------
    float array, shape of ``z``
        Amounts u on the base scale.
    """
    return _on_all_cores(_solve, z, curve.x, np.ascontiguousarray(curve.c), curve(curve.x))


def _on_all_cores(kernel: Callable[..., None], values: Floats, *curve: Floats) -> Floats:
    """Apply ``kernel`` (:func:`_evaluate` or :func:`_solve`) to all values, on all cores.

    The threads are those of Python, because threads of OpenMP do not survive a fork.
    """
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
    """Set z (n,) to the curve at u (n,).  x are the limits of the cubic pieces, c (4, pieces) their coefficients."""
    for i in range(u.size):
        k = min(max(np.searchsorted(x, u[i], side="right") - 1, 0), x.size - 2)
        step = u[i] - x[k]
        z[i] = ((c[0, k] * step + c[1, k]) * step + c[2, k]) * step + c[3, k]


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _solve(z: Floats, x: Floats, c: Floats, at: Floats, u: Floats) -> None:
    """Set u (n,) to the inverse of the curve at z (n,).

    x are the limits of the cubic pieces, ``at`` the values of the curve at x, and c (4, pieces) the coefficients.
    """
    last = x.size - 2
    for i in range(z.size):
        k = min(max(np.searchsorted(at, z[i], side="right") - 1, 0), last)
        a, b, slope, rest, length = c[0, k], c[1, k], c[2, k], c[3, k] - z[i], x[k + 1] - x[k]
        step = -rest * (length / (at[k + 1] - at[k]))
        low, high = 0.0, length
        for _ in range(60 if 0 < k < last else 0):  # 4 to 8 are enough; bisection alone would need 60
            value = ((a * step + b) * step + slope) * step + rest
            low, high = step if value <= 0 else low, step if value >= 0 else high
            newton = step - value / ((3 * a * step + 2 * b) * step + slope)
            following = newton if low <= newton <= high else (low + high) / 2
            change, step = abs(following - step), following
            if change <= 1e-9 * length:  # the error is about the square of the change
                break
        u[i] = x[k] + step


def mid_distribution(u: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return the sorted distinct values of ``u`` (n,), and the mid-distribution function at these values.

    At a value, this function is the share of the sum of weights ``w`` (n,) below the value, plus half the share at it.
    """
    value, code = np.unique(u, return_inverse=True)
    share = np.bincount(code, weights=w) / w.sum()
    return value, np.cumsum(share) - share / 2


def effective_size(w: Floats) -> float:
    """Compute Kish's effective number of records with weights w: (sum w)^2 / sum w^2."""
    return float(w.sum() ** 2 / (w**2).sum())
