"""A smooth density from a histogram with Laplace noise, for normal scores of the file itself.

    counts of public bins -> + Laplace noise of scale k / epsilon -> smooth density -> distribution function -> knots

k is the largest public number of records of a unit, 1 for single records.  Everything after the noise is
post-processing.  The density is the exponential of a smooth curve f over the bins: penalized least squares,

    sum_j (count_j - n p_j)^2 / (2 v_j) + lambda |D f|^2 / 2,    p = softmax(f),  v_j = n p_j + 2 (k / epsilon)^2,

with D third differences, so that under heavy noise the curve tends to a normal density on the base scale (Eilers &
Marx 1996, sections 2 and 8).  Densities of all lambda are averaged by their marginal likelihood, which knows the
noise's variance.  Knots lie where the count beyond them is several times its noise: the extrapolation of a map that
noise has bent ruins means of skewed outcomes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from .transforms import AsinhTransform

Floats = NDArray[np.float64]

BINS = 40  # 16 to 60 do about as well, on real and simulated incomes; fewer leave too few knots of small files
LINEAR = 1000.0  # the larger bound over the scale of the asinh, below which bins are about equally wide
PENALTIES = 10.0 ** np.arange(-2, 7.5, 0.5)
STEPS, SLIGHT = 60, 1e-9
OUTER_SHARE, OUTER_RECORDS = 0.001, 5.0  # beyond the outer knots, as for historical files
OUTER_NOISE, OUTER_BINS = 3.0, 20


def smooth_density(counts: Floats, n: int, noise: float) -> Floats:
    """Probabilities of the bins (K,) from noisy counts, smooth as far as noise of this variance allows.

    Parameters
    ----------
    counts : float array (K,)
        With Laplace noise, some of them negative.
    n : int
        Records.
    noise : float
        Variance of the noise in a count.
    """
    D = np.diff(np.eye(counts.size), 3, axis=0)
    penalty, f = D.T @ D, _start(counts)
    fits = []
    for strength in PENALTIES[::-1]:
        f, likelihood = _fit(f, counts, n, noise, strength * penalty)
        fits.append((likelihood + 0.5 * len(D) * np.log(strength), _shares(f)))
    weight = softmax([likelihood for likelihood, _ in fits])
    return np.asarray(weight @ np.array([density for _, density in fits]))


def determined(share: Floats, n: int, noise: float) -> NDArray[np.bool_]:
    """Which inner limits of the bins (K - 1,) have enough records on either side, from public numbers.

    Enough is 5 records, a thousandth of them, and 3 standard deviations of the noise in the bins beyond, of which
    smoothing makes 20 at most; and limits nearer to the middle have enough, too: the noise of an outermost bin alone
    must not draw the map over empty ones.
    """
    below, bins = n * np.cumsum(share)[:-1], np.arange(1, share.size)
    least = np.maximum(OUTER_RECORDS, OUTER_SHARE * n)

    def enough(records: Floats) -> NDArray[np.bool_]:  # on the far side of each limit, from the other end on
        found = records > np.maximum(least, OUTER_NOISE * np.sqrt(noise * np.minimum(bins[::-1], OUTER_BINS)))
        return np.logical_and.accumulate(found)

    return np.asarray(enough(n - below) & enough(below[::-1])[::-1])


def _fit(f: Floats, counts: Floats, n: int, noise: float, penalty: Floats) -> tuple[Floats, float]:
    """The penalized fit by Gauss and Newton's steps; the curve, and its marginal likelihood but for a constant."""

    def loss(f: Floats) -> float:
        mean = n * _shares(f)
        v = mean + noise
        return float((((counts - mean) ** 2 / v) + np.log(v)).sum() + f @ penalty @ f) / 2

    # The level of f is free, and slopes nearly so where one bin holds all.
    level = np.full((f.size, f.size), 1 / f.size) + SLIGHT * np.eye(f.size)
    now = loss(f)
    for _ in range(STEPS):
        p = _shares(f)
        J = n * (np.diag(p) - np.outer(p, p))
        v = n * p + noise
        H = (J / v) @ J + penalty + level
        step = np.linalg.solve(H, J @ ((counts - n * p) / v) - penalty @ f)
        size = 1.0
        while (then := loss(f + size * step)) > now and size > 1e-4:
            size /= 2
        if then > now:
            break
        f, change, now = f + size * step - (f + size * step).mean(), now - then, then
        if change < 1e-8 * abs(now):
            break
    p = _shares(f)
    J = n * (np.diag(p) - np.outer(p, p))
    H = (J / (n * p + noise)) @ J + penalty + level
    return f, -now - 0.5 * float(np.linalg.slogdet(H)[1])


def _shares(f: Floats) -> Floats:
    """Softmax; scipy's takes ten times as long for so few bins, and this is most of a fit."""
    share = np.exp(f - f.max())
    return np.asarray(share / share.sum())


def _start(counts: Floats) -> Floats:
    """A normal density over the bins with about the mean and spread of the counts."""
    bin_, weight = np.arange(counts.size), np.maximum(counts, 0) + 1e-9
    mean = np.average(bin_, weights=weight)
    sd = max(np.average((bin_ - mean) ** 2, weights=weight) ** 0.5, 1.0)
    return np.asarray(-(((bin_ - mean) / sd) ** 2) / 2)


def asinh_of(bounds: tuple[float, float]) -> AsinhTransform:
    """The base scale of amounts within public bounds."""
    return AsinhTransform(max(map(abs, bounds)) / LINEAR)


def bin_limits(bounds: tuple[float, float]) -> Floats:
    """Limits of the bins on the base scale: from the bounds alone."""
    low, high = asinh_of(bounds).forward(np.array(bounds))
    return np.linspace(low, high, BINS + 1)
