"""Variance, Gini coefficient, quintile share ratio and poverty rate: estimates and linearized values.

A domain has n records with weights w.  Let N = sum w and Y = sum w y over the domain, N_k and Y_k the sums over its
records with y <= y_k only, and q_p the smallest value at which the weighted distribution function reaches p:

    population variance   V = n / (n - 1) sum w (y - mean)^2 / N,
    Gini coefficient      G = sum_kl w_k w_l |y_k - y_l| / (2 N Y),
    quintile share ratio  Q = S80 / S20,    S20 = sum w y 1(y <= q_.2),    S80 = sum w y 1(y > q_.8),
    poverty rate          P = sum w 1(y < L) / N,    L = 0.6 times the median of all records, whatever the domain.

V equals R's ``svyvar``.  G, Q and P equal the results of R's laeken, as shares instead of percentages.  An estimate
has the variance of the total of z_k = w_k u_k (Deville 1999), with the derivatives u_k

    V:  (n / (n - 1) (y_k - mean)^2 - V) / N,
    G:  (2 (y_k N_k - Y_k) + Y - y_k N - G (Y + y_k N)) / (N Y)                             (Langel & Tille 2013),
    Q:  (u80_k - Q u20_k) / S20,    u20_k = y_k 1(y_k <= q_.2) - q_.2 (1(y_k <= q_.2) - .2),
                                    u80_k = y_k 1(y_k > q_.8) + q_.8 (1(y_k <= q_.8) - .8)  (Langel & Tille 2011),
    P:  (1(y_k < L) - P) / N  within the domain, and of every record  -0.6 f(L) (1(y_k <= q_.5) - .5) / (N' f'(q_.5))
                                                                                                       (Osier 2009).

f is the density of y in the domain, f' the density over all records, and N' the sum of the weights of all records.
Densities are estimated with a normal kernel of bandwidth s N'^(-1/5), where s is the weighted standard deviation of y
over all records (Osier 2009; R's vardpoor and convey).  So the standard error of P, and of P alone, changes a little if
all weights are multiplied by one number.  The derivatives of V and G are exact, and those of Q and P approximate.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..design.replicates.base import BLOCK, Replicates
from .quantities import Quantity

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

OF_MEDIAN = 0.6  # poverty line as a share of the median


def linearize(w: Floats, quantity: Quantity, domain: Codes, domains: int) -> tuple[Floats, Floats]:
    """Compute point estimates and linearized values, with the poverty line taken as known (see :func:`by_the_line`).

    Parameters
    ----------
    w : float array (n,)
        Survey weights.
    quantity : Quantity
    domain : int array (n,)
        Domain of each record, 0 to ``domains - 1``; -1 for a record outside all of them.

    Returns
    -------
    (float array (domains,), float array (n,))
        Estimates, NaN where undefined, and linearized values z, which are 0 outside the domains.
    """
    assert quantity.y is not None
    z, estimate = np.zeros(w.size), np.full(domains, np.nan)
    line = _line(w[:, None], quantity)
    with np.errstate(divide="ignore", invalid="ignore"):
        for d, records in _sorted(quantity.y, domain, domains):
            y, weight = quantity.y[records], w[records]
            estimate[d] = _estimate(quantity, y, weight[:, None], line)[0]
            z[records] = weight * _derivative(quantity, y, weight, estimate[d], line)
    return estimate, z


def replicated(replication: Replicates, w: Floats, quantity: Quantity, domain: Codes, domains: int) -> Floats:
    """Compute the estimates under each of R replicate weights: (R, domains).  They are NaN where undefined.

    A replicate weight is a factor times the weight in ``w`` (n,).
    """
    assert quantity.y is not None
    estimate, step = np.full((replication.R, domains), np.nan), max(1, BLOCK // w.size)
    for start in range(0, replication.R, step):
        block = slice(start, min(start + step, replication.R))
        W = replication.factors(block.start, block.stop) * w[:, None]
        line = _line(W, quantity)
        with np.errstate(divide="ignore", invalid="ignore"):
            for d, records in _sorted(quantity.y, domain, domains):
                estimate[block, d] = _estimate(quantity, quantity.y[records], W[records], line)
    return np.where(np.isfinite(estimate), estimate, np.nan)


def by_the_line(w: Floats, quantity: Quantity, domain: Codes, domains: int) -> tuple[Floats, Floats] | None:
    """Compute the contribution of the estimated poverty line to the linearized values of a poverty rate.

    Returns
    -------
    (float array (domains,), float array (n,)), or None
        ``slope``, the density f(L) in each domain, and ``z``, the linearized values of the line.  The caller adds
        ``slope[d] * z`` to the linearized values of domain d.  The result is None if the quantity has no estimated
        poverty line.
    """
    if not (quantity.statistic == "poverty_rate" and quantity.distributional):
        return None
    assert quantity.y is not None
    there = ~np.isnan(quantity.y)
    y, weight = quantity.y[there], w[there]
    N, mean = weight.sum(), np.average(y, weights=weight)
    h = np.sqrt(weight @ (y - mean) ** 2 / N) * N**-0.2
    median = _median(w[:, None], quantity.y)[0]

    def density(at: float, y: Floats, weight: Floats) -> float:
        kernel = np.exp(-(((at - y) / h) ** 2) / 2) / np.sqrt(2 * np.pi)
        return float(weight @ kernel / (weight.sum() * h))

    z, slope = np.zeros(w.size), np.zeros(domains)
    with np.errstate(divide="ignore", invalid="ignore"):
        z[there] = -OF_MEDIAN * weight * ((y <= median) - 0.5) / (N * density(median, y, weight))
        for d, records in _sorted(quantity.y, domain, domains):
            slope[d] = density(OF_MEDIAN * median, quantity.y[records], w[records])
    return slope, z


def _sorted(y: Floats, domain: Codes, domains: int) -> Iterator[tuple[int, Codes]]:
    """Yield each domain that has records, with the positions of its records in ascending order of y."""
    inside = np.flatnonzero(domain >= 0)
    order = inside[np.lexsort((y[inside], domain[inside]))]
    limits = np.searchsorted(domain[order], np.arange(domains + 1))
    for d in range(domains):
        if limits[d] < limits[d + 1]:
            yield d, order[limits[d] : limits[d + 1]]


def _line(W: Floats, quantity: Quantity) -> Floats:
    """Return the poverty line under each of R columns of weights, (R,), or NaN if the statistic is no poverty rate."""
    if quantity.statistic != "poverty_rate" or quantity.y is None:
        return np.full(W.shape[1], np.nan)
    return OF_MEDIAN * (1 - 1e-12) * _median(W, quantity.y)  # records at the line are not below it by rounding


def _median(W: Floats, y: Floats) -> Floats:
    order = np.argsort(y, kind="stable")[: int((~np.isnan(y)).sum())]
    return _quantile(y[order], W[order], 0.5)


def _quantile(y: Floats, W: Floats, p: float) -> Floats:
    """Return the p-quantile of sorted values y under each of the R columns of weights in W: (R,)."""
    reached = np.cumsum(W, axis=0)
    return np.asarray(y[np.argmax(reached >= p * reached[-1] * (1 - 1e-12), axis=0)])  # allows for rounded sums


def _estimate(quantity: Quantity, y: Floats, W: Floats, line: Floats) -> Floats:
    """Compute the statistic of sorted values y under each of the R columns of weights in W: (R,)."""
    N, Y, column = W.sum(axis=0), y @ W, y[:, None]
    if quantity.statistic == "variance" and y.size == 1:  # 0 / 0, up to rounding of the mean
        return np.full(W.shape[1], np.nan)
    if quantity.statistic == "variance":
        return np.asarray((W * (column - Y / N) ** 2).sum(axis=0) / N * y.size / np.float64(y.size - 1))
    if quantity.statistic == "gini":
        larger = ((2 * np.cumsum(W, axis=0) - W) * W * column).sum(axis=0)  # sum_kl w_k w_l max(y_k, y_l)
        return np.where(N * Y == 0, np.nan, larger / (N * Y) - 1)
    if quantity.statistic == "quintile_share_ratio":
        S20 = (W * column * (column <= _quantile(y, W, 0.2))).sum(axis=0)
        S80 = (W * column * (column > _quantile(y, W, 0.8))).sum(axis=0)
        return np.where(S20 == 0, np.nan, S80 / S20)
    return np.asarray((W * (column < line)).sum(axis=0) / N)


def _derivative(quantity: Quantity, y: Floats, w: Floats, estimate: float, line: Floats) -> Floats:
    """Compute the derivatives of the estimate with respect to the weights, for sorted values y.

    They are u_k in the module's docstring.
    """
    N, Y = w.sum(), w @ y
    if quantity.statistic == "variance":
        return np.asarray(((y - Y / N) ** 2 * y.size / np.float64(y.size - 1) - estimate) / N)
    if quantity.statistic == "gini":
        last = np.searchsorted(y, y, side="right") - 1  # equal values have the same rank
        N_k, Y_k = np.cumsum(w)[last], np.cumsum(w * y)[last]
        return np.asarray((2 * (y * N_k - Y_k) + Y - y * N - estimate * (Y + y * N)) / (N * Y))
    if quantity.statistic == "quintile_share_ratio":
        q20, q80 = (_quantile(y, w[:, None], p)[0] for p in (0.2, 0.8))
        u20 = y * (y <= q20) - q20 * ((y <= q20) - 0.2)
        u80 = y * (y > q80) + q80 * ((y <= q80) - 0.8)
        return np.asarray((u80 - estimate * u20) / (w @ (y * (y <= q20))))
    return np.asarray(((y < line[0]) - estimate) / N)
