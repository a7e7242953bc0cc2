"""The curve behind normal scores: its inverse, and the distribution function that it comes from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly

Floats = NDArray[np.float64]


def solve(curve: PPoly, z: Floats) -> Floats:
    """The u with curve(u) = z: Newton's steps within the piece that holds z, halving where one leaves it.

    Parameters
    ----------
    curve : scipy.interpolate.PPoly
        Cubic pieces, strictly increasing; the first and last are straight.
    z : float array, any shape
    """
    start, length = curve.x[:-1], np.diff(curve.x)
    at = curve(curve.x)
    piece = np.clip(np.searchsorted(at, z, side="right") - 1, 0, start.size - 1)
    a, b, c, d = (coefficient[piece] for coefficient in curve.c)
    rest = d - z
    straight = (piece == 0) | (piece == start.size - 1)
    step = -rest * (length / np.diff(at))[piece]
    low, high = np.where(straight, step, 0.0), np.where(straight, step, length[piece])
    for _ in range(60):  # 4 to 8 are enough; 60 halvings would be without Newton
        value = ((a * step + b) * step + c) * step + rest
        low, high = np.where(value <= 0, step, low), np.where(value >= 0, step, high)
        newton = step - value / ((3 * a * step + 2 * b) * step + c)
        following = np.where((newton >= low) & (newton <= high), newton, (low + high) / 2)
        change, step = np.abs(following - step), following
        if not (change > 1e-9 * length[piece]).any():  # the error is about its square
            break
    return start[piece] + step


def mid_distribution(u: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Different values in order, and the share of the weight below each plus half its own."""
    value, code = np.unique(u, return_inverse=True)
    share = np.bincount(code, weights=w) / w.sum()
    return value, np.cumsum(share) - share / 2


def effective_size(w: Floats) -> float:
    """How many records of equal weight these are worth (Kish)."""
    return float(w.sum() ** 2 / (w**2).sum())
