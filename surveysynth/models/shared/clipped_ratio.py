"""The clamped log likelihood ratio of records against a reference, and its expectation under the reference.

In coordinates in which the reference is standard normal (see :mod:`.clipped_fit`) a record is v = (v_1, ..., v_d), one
coordinate an outcome and the survey weight last, where it is modelled.  With innovations

    e_j = (v_j - mu_j - sum_{k<j} lambda_jk e_k) / exp(delta_j)                                         outcomes
    e_w = (v_w - mu_w - sum_k [(lambda_wk + s_k) e_k + kappa_k (e_k^2 - 1)]) / exp(delta_w + sum_k eta_k e_k)   weight

its log density is -sum e^2 / 2 - sum delta - sum eta e, up to a constant, and l is that less the same at the reference
(mu = 0, lambda = 0, delta = 0, and the reference's own s, kappa and eta).  mu and the slopes s go with the predictors.
A record adds a (clamp(l, -B, B) - C_B) to the log target, with

    C_B(mu) = E_ref clip(e^l, e^-B, e^B).

Given the innovations before it l is a quadratic in the last one, so that its expectation is a sum of normal
probabilities; over the others it is the trapezoid rule, whose error for such integrands falls exponentially.  C_B makes
the clamped score a Bregman score: its expectation is largest at the true parameters, whatever B and the reference are
(Gneiting & Raftery 2007, section 2; the clamped ratio itself, in testing: Canonne et al. 2019).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

FARTHEST = 5.0  # standard deviations that the rule over the reference's innovations covers
TINY = 1e-30
BLOCK = 256  # records, or nodes, of several rows that are taken at a time
PIECE = 1024  # records of one row that are: what is computed of them stays in a core's cache
FAR = 40.0  # from there on a normal density is nothing that a double could show
ROOT_TWO_PI = math.sqrt(2 * math.pi)
SAFE = {"reassoc", "contract", "arcp", "nsz"}  # of fast arithmetic, what infinite and undefined numbers survive


class Form(NamedTuple):
    """All parameters but the means, or the gradient of them."""

    delta: Floats  # (d,) log standard deviations
    lam: Floats  # (d, d), below the diagonal: coefficients of earlier innovations
    kappa: Floats  # (d - 1,) curvature of the last coordinate; empty where it is straight
    eta: Floats  # (d - 1,) of its log spread

    @classmethod
    def zeros(cls, d: int, *, curved: bool) -> Form:
        """Of the reference, but for its curvature."""
        bent = d - 1 if curved else 0
        return cls(np.zeros(d), np.zeros((d, d)), np.zeros(bent), np.zeros(bent))


def rule(dimensions: int, step: float) -> tuple[Floats, Floats]:
    """Nodes (dimensions, Q) and weights (Q,) of a trapezoid rule for expectations under a standard normal.

    Parameters
    ----------
    dimensions : int
        Number of coordinates before the last one; none: a single node.
    step : float
        Between neighbouring nodes, in standard deviations.
    """
    if dimensions == 0:
        return np.empty((0, 1)), np.ones(1)
    half = int(FARTHEST / step)
    line = step * np.arange(-half, half + 1)
    nodes = np.stack(np.meshgrid(*[line] * dimensions, indexing="ij")).reshape(dimensions, -1)
    square = (nodes**2).sum(axis=0)
    nodes, square = np.ascontiguousarray(nodes[:, square <= FARTHEST**2]), square[square <= FARTHEST**2]
    weights = np.exp(-square / 2)
    return nodes, weights / weights.sum()


@njit(cache=True, nogil=True, error_model="numpy")
def extremes(form: Form) -> tuple[float, float, float]:
    """Least and largest eigenvalue of the covariance over the reference's; the least without the last coordinate."""
    root, last = form.lam + np.diag(np.exp(form.delta)), len(form.delta) - 1
    covariance = root @ root.T
    eigenvalues = np.linalg.eigvalsh(covariance)
    return eigenvalues[0], eigenvalues[-1], np.linalg.eigvalsh(covariance[:last, :last])[0] if last > 0 else np.inf


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE, inline="always")
def _exp(x: float) -> float:
    """The exponential function without a branch: within 1e-13 for |x| <= 10; below -60 that of -60."""
    x = max(x, -60.0) / 64
    series = 1.0
    for k in range(10, 0, -1):
        series = 1 + x / k * series
    for _ in range(6):
        series *= series
    return series


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE, inline="always")
def _normal(x: float) -> tuple[float, float]:
    """Density and distribution function, the latter within 7.5e-8 (Abramowitz & Stegun 1964, eq. 26.2.17)."""
    density = _exp(-0.5 * x * x) / ROOT_TWO_PI
    t = 1 / (1 + 0.2316419 * abs(x))
    series = -0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
    tail = density * t * (0.319381530 + t * series)
    return density, 1 - tail if x > 0 else tail


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE, inline="always")
def _between_roots(c0: float, c1: float, c2: float, alpha: float, rho: float) -> tuple[float, float, float, float]:
    """P(x) and the moments of order 0, 1, 2 of alpha + rho x, both standard normal, between the roots of a quadratic.

    All are 0 where c0 + c1 x + c2 x^2 has no real roots.  c2 is not 0: of a line, one root is very far.
    """
    square = c1 * c1 - 4 * c2 * c0
    half = -0.5 * (c1 + math.copysign(math.sqrt(max(square, 0.0)), c1))
    one, other = half / c2, c0 / (half if half != 0 else TINY)
    left, right = min(one, other), max(one, other)
    below_left, below_right = _normal(max(left, -FAR))[1], _normal(min(right, FAR))[1]
    first, last = max(alpha + rho * left, -FAR), min(alpha + rho * right, FAR)
    (at_first, below_first), (at_last, below_last) = _normal(first), _normal(last)
    real = 1.0 if square > 0 else 0.0
    mass = real * (below_last - below_first)
    second = mass + real * (first * at_first - last * at_last)
    return real * (below_right - below_left), mass, real * (at_first - at_last), second


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE, inline="always")
def _last_of_block(start: Codes, first: int) -> int:
    """The row after the last one of a block: so many rows that they have about BLOCK records, one at the least."""
    end = first + 1
    while end < start.size - 1 and start[end + 1] - start[first] <= BLOCK:
        end += 1
    return end


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE, inline="always")
def _to_records(
    mu: Floats, slope: Floats, offset: Floats, lam: Floats, start: Codes, first: int, end: int, at: int, n: int,
    means: Floats, slopes: Floats, log_odds: Floats,
) -> None:  # fmt: skip
    """What rows have, at n records from ``at`` on: means (d, n), the last one's coefficients (d - 1, n), offset."""
    d = mu.shape[1]
    for row in range(first, end):
        here, there = max(start[row] - at, 0), min(start[row + 1] - at, n)
        for j in range(d):
            means[j, here:there] = mu[row, j]
        for k in range(d - 1):
            slopes[k, here:there] = lam[d - 1, k] + (slope[row, k] if slope.shape[1] > 0 else 0.0)
        log_odds[here:there] = offset[row]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE, inline="always")
def _to_rows(
    J0: Floats, pull: Floats, adjoint: Floats, e: Floats, start: Codes, first: int, end: int, at: int, n: int,
    g_mu: Floats, g_slope: Floats, g_offset: Floats,
) -> None:  # fmt: skip
    """Add the gradients of records to those of their rows."""
    last = g_mu.shape[1] - 1
    for row in range(first, end):
        here, there = max(start[row] - at, 0), min(start[row + 1] - at, n)
        mass = pulled = 0.0
        for i in range(here, there):
            mass += J0[i]
            pulled += pull[i]
        g_offset[row] += mass
        g_mu[row, last] += pulled
        for k in range(last):
            back = sloped = 0.0
            for i in range(here, there):
                back += adjoint[k, i]
                sloped += pull[i] * e[k, i]
            g_mu[row, k] += back
            if g_slope.shape[1] > 0:
                g_slope[row, k] += sloped


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE, inline="always")
def _innovations(
    v: Floats, at: int, n: int, means: Floats, slopes: Floats, form: Form, e: Floats, half: Floats, mean: Floats,
    per_spread: Floats, log_spread: Floats,
) -> None:  # fmt: skip
    """Of n records: all but the last innovation (d - 1, n), half their sum of squares, the last one's mean and spread.

    Loops over records are innermost here and below, and without branches, so that they become vector instructions.
    """
    last = means.shape[0] - 1
    for i in range(n):
        half[i], mean[i], log_spread[i] = 0.0, means[last, i], form.delta[last]
    for j in range(last):
        inverse = math.exp(-form.delta[j])
        for i in range(n):
            e[j, i] = v[j, at + i] - means[j, i]
        for k in range(j):
            for i in range(n):
                e[j, i] -= form.lam[j, k] * e[k, i]
        for i in range(n):
            e[j, i] *= inverse
            half[i] += 0.5 * e[j, i] * e[j, i]
            mean[i] += slopes[j, i] * e[j, i]
    for j in range(form.kappa.size):
        for i in range(n):
            mean[i] += form.kappa[j] * (e[j, i] * e[j, i] - 1)
            log_spread[i] += form.eta[j] * e[j, i]
    for i in range(n):
        per_spread[i] = _exp(-log_spread[i])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE, inline="always")
def _add_gradient(
    n: int, J0: Floats, J1: Floats, J2: Floats, e: Floats, per_spread: Floats, slopes: Floats, form: Form,
    adjoint: Floats, g: Form,
) -> None:  # fmt: skip
    """Add the gradient of log p, integrated over the last innovation with moments J0, J1, J2 (n,), of n records.

    A record's own moments are 1, e_d and e_d^2.  J1 becomes the gradient of the last mean, ``adjoint`` (d - 1, n) is
    filled with those of the others.
    """
    last, curved = len(form.delta) - 1, form.kappa.size > 0
    mass = changed = 0.0
    for i in range(n):
        mass += J0[i]
        J2[i] -= J0[i]
        changed += J2[i]
        J1[i] *= per_spread[i]
    g.delta[last] += changed
    for k in range(last - 1, -1, -1):
        for i in range(n):
            adjoint[k, i] = J1[i] * slopes[k, i] - e[k, i] * J0[i]
        if curved:
            bent = spread = 0.0
            for i in range(n):
                adjoint[k, i] += J1[i] * 2 * form.kappa[k] * e[k, i] + form.eta[k] * J2[i]
                bent += J1[i] * (e[k, i] * e[k, i] - 1)
                spread += J2[i] * e[k, i]
            g.kappa[k] += bent
            g.eta[k] += spread
        for j in range(k + 1, last):
            for i in range(n):
                adjoint[k, i] += adjoint[j, i] * form.lam[j, k]
        scaled, sloped, inverse = 0.0, 0.0, math.exp(-form.delta[k])
        for i in range(n):
            scaled += adjoint[k, i] * e[k, i]
            sloped += J1[i] * e[k, i]
            adjoint[k, i] *= -inverse
        g.delta[k] -= mass + scaled
        g.lam[last, k] += sloped
        for j in range(k):
            crossed = 0.0
            for i in range(n):
                crossed += adjoint[k, i] * e[j, i]
            g.lam[k, j] += crossed


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE)
def clipped_ratio(
    mu: Floats, slope: Floats, offset: Floats, form: Form, slope_ref: Floats, reference: Form, B: float, nodes: Floats,
    weights: Floats, v: Floats, log_ref: Floats, a: Floats, start: Codes, tempering: Floats, g_mu: Floats,
    g_slope: Floats, g_offset: Floats, g: Form,
) -> float:  # fmt: skip
    """Sum over records of a (clamp(l, -B, B) - C_B), and its gradient.

    Parameters
    ----------
    mu : float array (G, d)
        Means in each of the distinct predictor rows.
    slope, slope_ref : float arrays (G, d - 1)
        What a row adds to the last coordinate's coefficients, and to the reference's; no columns where it is straight.
    offset : float array (G,)
        Log of how many times as probable the row's category is as under the reference; 0 where nothing is a category.
    form, reference : Form
        Of the density, and of the reference, of which kappa and eta count.
    B : float
    nodes, weights : float arrays (d - 1, Q), (Q,)
        Of :func:`rule`.
    v, log_ref, a : float arrays (d, n), (n,), (n,)
        Records in the order of their rows: coordinates, log density under the reference, tempering.
    start : int array (G + 1,)
        Where the records of each row start.
    tempering : float array (G,)
        What C_B of each row counts: the sum of ``a`` over the records with the public predictors of the row, times the
        reference's probability of the row's category.
    g_mu, g_slope, g_offset, g : float arrays (G, d), (G, d - 1), (G,); Form
        Filled with the gradient of mu, of slope, of offset, and of the form.

    Returns
    -------
    float
    """
    (G, d), Q, last = mu.shape, len(weights), mu.shape[1] - 1
    of_nodes = np.zeros(G + 1, dtype=np.intp)  # where the nodes of each row start; none where C_B counts nothing
    of_nodes[1:] = np.cumsum(Q * (tempering != 0))
    most = max(PIECE, BLOCK + Q)
    # One array each: of parts of one array the compiler would not know that they do not overlap.
    e, adjoint, slopes = np.empty((last, most)), np.empty((last, most)), np.empty((last, most))
    half, mean, per_spread, log_spread = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    means, log_odds, J0, J1, J2 = np.empty((d, most)), np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    for gradient in (g_offset, g.delta, g.kappa, g.eta):
        gradient[:] = 0.0
    for table in (g_mu, g_slope, g.lam):
        table[:] = 0.0
    total, undefined, sum_delta, low, high = 0.0, 0, form.delta[:last].sum(), math.exp(-B), math.exp(B)

    first = 0
    while first < G:  # the records
        end = _last_of_block(start, first)
        for at in range(start[first], start[end], PIECE):
            n = min(PIECE, start[end] - at)
            _to_records(mu, slope, offset, form.lam, start, first, end, at, n, means, slopes, log_odds)
            _innovations(v, at, n, means, slopes, form, e, half, mean, per_spread, log_spread)
            for i in range(n):
                x = (v[last, at + i] - mean[i]) * per_spread[i]
                ratio = log_odds[i] - sum_delta - log_ref[at + i] - half[i] - log_spread[i] - 0.5 * x * x
                undefined += ratio != ratio
                total += a[at + i] * min(max(ratio, -B), B)
                inside = -B < ratio < B
                J0[i] = a[at + i] if inside else 0.0
                J1[i] = a[at + i] * x if inside else 0.0
                J2[i] = a[at + i] * x * x if inside else 0.0
            _add_gradient(n, J0, J1, J2, e, per_spread, slopes, form, adjoint, g)
            _to_rows(J0, J1, adjoint, e, start, first, end, at, n, g_mu, g_slope, g_offset)
        first = end

    rows = most // Q  # of a block, at the most
    tiled, at_ref, factor, weight = np.empty((last, rows * Q)), np.empty(most), np.empty(most), np.empty(rows * Q)
    centre, log_spread_ref, half_ref = np.zeros(rows * Q), np.zeros(rows * Q), np.zeros(rows * Q)  # of the reference
    for i in range(rows * Q):
        weight[i] = weights[i % Q]
        for k in range(last):
            tiled[k, i] = nodes[k, i % Q]
            half_ref[i] += 0.5 * tiled[k, i] * tiled[k, i]
        for k in range(reference.kappa.size):
            centre[i] += reference.kappa[k] * (tiled[k, i] * tiled[k, i] - 1)
            log_spread_ref[i] += reference.eta[k] * tiled[k, i]
    first = 0
    while first < G:  # C_B
        end = _last_of_block(of_nodes, first)
        at, n = of_nodes[first], of_nodes[end] - of_nodes[first]
        _to_records(mu, slope, offset, form.lam, of_nodes, first, end, at, n, means, slopes, log_odds)
        _innovations(tiled, 0, n, means, slopes, form, e, half, mean, per_spread, log_spread)
        at_ref[:n] = centre[:n]
        for row in range(first, end):
            for i in range(of_nodes[row] - of_nodes[first], of_nodes[row + 1] - of_nodes[first]):
                factor[i] = -tempering[row] * weight[i]
                for k in range(slope_ref.shape[1]):
                    at_ref[i] += slope_ref[row, k] * tiled[k, i]
        for i in range(n):
            # With x standard normal the innovation is alpha + rho x, and l = c0 + c1 x + c2 x^2.
            A = log_odds[i] - sum_delta - half[i] + half_ref[i]
            alpha, log_rho = (at_ref[i] - mean[i]) * per_spread[i], log_spread_ref[i] - log_spread[i]
            rho = _exp(log_rho)
            c0, c1, c2 = A + log_rho - 0.5 * alpha * alpha, -alpha * rho, 0.5 * (1 - rho * rho)
            c2 = c2 if c2 != 0 else TINY
            p_up, K0, K1, K2 = _between_roots(c0 - B, c1, c2, alpha, rho)  # {l > B} if c2 < 0, else {l < B}
            p_down, L0, L1, L2 = _between_roots(c0 + B, c1, c2, alpha, rho)
            above, below = (p_up, 1 - p_down) if c2 < 0 else (1 - p_up, p_down)
            scale = factor[i] * _exp(A) * (1.0 if c2 < 0 else -1.0)
            J0[i], J1[i], J2[i] = scale * (L0 - K0), scale * (L1 - K1), scale * (L2 - K2)
            total += factor[i] * (high * above + low * below) + J0[i]
        _add_gradient(n, J0, J1, J2, e, per_spread, slopes, form, adjoint, g)
        _to_rows(J0, J1, adjoint, e, of_nodes, first, end, at, n, g_mu, g_slope, g_offset)
        first = end
    return total if undefined == 0 else np.nan


def clipped_offset(
    offset: Floats, a: Floats, tempering: Floats, B: float, point: Floats
) -> tuple[float, Floats, Floats]:
    """The same for records that hold nothing but what their row's offset is about: value, and both gradients.

    ``a`` (G,) is the sum over the records of each row.
    """
    ratio = np.clip(offset, -B, B)
    inside = (-B < offset) & (offset < B)
    expected = tempering * np.exp(ratio)
    return float(a @ ratio - expected.sum()), np.zeros_like(point), (a - expected) * inside
