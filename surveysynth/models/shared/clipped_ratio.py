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
    """Nodes (Q, dimensions) and weights (Q,) of a trapezoid rule for expectations under a standard normal.

    Parameters
    ----------
    dimensions : int
        Number of coordinates before the last one; none: a single node.
    step : float
        Between neighbouring nodes, in standard deviations.
    """
    if dimensions == 0:
        return np.empty((1, 0)), np.ones(1)
    half = int(FARTHEST / step)
    line = step * np.arange(-half, half + 1)
    nodes = np.stack(np.meshgrid(*[line] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    square = (nodes**2).sum(axis=1)
    nodes, square = nodes[square <= FARTHEST**2], square[square <= FARTHEST**2]
    weights = np.exp(-square / 2)
    return nodes, weights / weights.sum()


@njit(cache=True, nogil=True, error_model="numpy")
def extremes(form: Form) -> tuple[float, float]:
    """Least and largest eigenvalue of the covariance, over the reference's."""
    root = form.lam + np.diag(np.exp(form.delta))
    eigenvalues = np.linalg.eigvalsh(root @ root.T)
    return eigenvalues[0], eigenvalues[-1]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE)
def _normal(x: float) -> tuple[float, float]:
    """Density and distribution function, the latter within 7.5e-8 (Abramowitz & Stegun 1964, eq. 26.2.17)."""
    density = math.exp(-0.5 * x * x) / ROOT_TWO_PI
    t = 1 / (1 + 0.2316419 * abs(x))
    series = -0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
    tail = density * t * (0.319381530 + t * series)
    return density, 1 - tail if x > 0 else tail


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE)
def _roots(c0: float, c1: float, c2: float, out: Floats, found: int) -> int:
    """Real roots of c0 + c1 x + c2 x^2, appended to ``out``; how many there then are."""
    if abs(c2) < 1e-13:
        if abs(c1) > 1e-13:
            out[found] = -c0 / c1
            found += 1
        return found
    square = c1 * c1 - 4 * c2 * c0
    if square > 0:
        half = -0.5 * (c1 + math.copysign(math.sqrt(square), c1))
        out[found] = half / c2
        out[found + 1] = c0 / half if half != 0 else -half / c2
        found += 2
    return found


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE)
def _expected_clip(
    A: float, alpha: float, log_rho: float, B: float, low: float, high: float, cuts: Floats
) -> tuple[float, float, float, float]:
    """E clip(e^l, low, high) over the last coordinate, and its moments of order 0, 1, 2 where l is not clamped.

    l = A + log rho - (alpha + rho x)^2 / 2 + x^2 / 2 with x standard normal; the innovation is alpha + rho x.
    """
    rho = math.exp(log_rho)
    c0, c1, c2 = A + log_rho - 0.5 * alpha * alpha, -alpha * rho, 0.5 * (1 - rho * rho)
    found = _roots(c0 - B, c1, c2, cuts, 0)
    found = _roots(c0 + B, c1, c2, cuts, found)
    for i in range(1, found):  # four at most: sorted by insertion
        x, j = cuts[i], i
        while j > 0 and cuts[j - 1] > x:
            cuts[j] = cuts[j - 1]
            j -= 1
        cuts[j] = x
    total = J0 = J1 = J2 = 0.0
    left, below = -np.inf, 0.0  # P(x < left)
    for i in range(found + 1):
        right = cuts[i] if i < found else np.inf
        if right <= left:
            continue
        if left == -np.inf:
            middle = 0.0 if right == np.inf else right - 1.0
        else:
            middle = left + 1.0 if right == np.inf else 0.5 * (left + right)
        upto = 1.0 if right == np.inf else _normal(right)[1]
        ratio = c0 + middle * (c1 + middle * c2)
        if ratio >= B:
            total += high * (upto - below)
        elif ratio <= -B:
            total += low * (upto - below)
        else:
            first, last = max(alpha + rho * left, -FAR), min(alpha + rho * right, FAR)  # and not infinite
            (at_first, below_first), (at_last, below_last) = _normal(first), _normal(last)
            mass = below_last - below_first
            J0 += mass
            J1 += at_first - at_last
            J2 += mass + first * at_first - last * at_last
        left, below = right, upto
    scale = math.exp(A)
    return total + scale * J0, scale * J0, scale * J1, scale * J2


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE)
def _innovations(
    v: Floats, i: int, mu: Floats, row: int, slope: Floats, form: Form, inverse: Floats, e: Floats
) -> tuple[float, float, float]:
    """All but the last innovation of v_i, into ``e``; half their sum of squares; the last one's mean and log spread."""
    last, half = mu.shape[1] - 1, 0.0
    mean, log_spread = mu[row, last], form.delta[last]
    for j in range(last):
        x = v[i, j] - mu[row, j]
        for k in range(j):
            x -= form.lam[j, k] * e[k]
        e[j] = x * inverse[j]
        half += 0.5 * e[j] * e[j]
        mean += slope[j] * e[j]
    for j in range(form.kappa.size):
        mean += form.kappa[j] * (e[j] * e[j] - 1)
        log_spread += form.eta[j] * e[j]
    return half, mean, log_spread


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE)
def _add_gradient(
    factor: float, J0: float, J1: float, J2: float, e: Floats, per_spread: float, slope: Floats, form: Form,
    inverse: Floats, adjoint: Floats, g_mu: Floats, row: int, g_slope: Floats, g: Form,
) -> None:  # fmt: skip
    """Add ``factor`` times the gradient of log p, integrated over the last innovation with moments J0, J1, J2.

    A record's own are 1, e_d and e_d^2.
    """
    last, curved = g_mu.shape[1] - 1, form.kappa.size > 0
    pull = J1 * per_spread
    g_mu[row, last] += factor * pull
    g.delta[last] += factor * (J2 - J0)
    for k in range(last - 1, -1, -1):
        back = -e[k] * J0 + pull * slope[k]
        if curved:
            back += pull * 2 * form.kappa[k] * e[k] + form.eta[k] * (J2 - J0)
            g.kappa[k] += factor * pull * (e[k] * e[k] - 1)
            g.eta[k] += factor * (J2 - J0) * e[k]
        for j in range(k + 1, last):
            back -= adjoint[j] * form.lam[j, k] * inverse[j]
        adjoint[k] = back
        g_mu[row, k] -= factor * back * inverse[k]
        g.delta[k] -= factor * (J0 + back * e[k])
        for j in range(k):
            g.lam[k, j] -= factor * back * e[j] * inverse[k]
        g_slope[k] += factor * pull * e[k]


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
    nodes, weights : float arrays (Q, d - 1), (Q,)
        Of :func:`rule`.
    v, log_ref, a : float arrays (n, d), (n,), (n,)
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
    G, d = mu.shape
    last, Q = d - 1, len(weights)
    e, adjoint, cuts, here, g_here = np.empty(d), np.empty(d), np.empty(8), np.empty(last), np.empty(last)
    for gradient in (g_offset, g.delta, g.kappa, g.eta):
        gradient[:] = 0.0
    g_mu[:] = 0.0
    g.lam[:] = 0.0
    inverse, total, sum_delta = np.exp(-form.delta), 0.0, form.delta[:last].sum()
    low, high = math.exp(-B), math.exp(B)
    centre, log_spread_ref, half_ref = np.zeros(Q), np.zeros(Q), np.zeros(Q)  # of the reference, at each node
    for q in range(Q):
        for k in range(last):
            half_ref[q] += 0.5 * nodes[q, k] * nodes[q, k]
        for k in range(reference.kappa.size):
            centre[q] += reference.kappa[k] * (nodes[q, k] * nodes[q, k] - 1)
            log_spread_ref[q] += reference.eta[k] * nodes[q, k]
    for row in range(G):
        for k in range(last):
            here[k], g_here[k] = form.lam[last, k], 0.0
        for k in range(slope.shape[1]):
            here[k] += slope[row, k]
        for i in range(start[row], start[row + 1]):
            half, mean, log_spread = _innovations(v, i, mu, row, here, form, inverse, e)
            per_spread = math.exp(-log_spread)
            x = (v[i, last] - mean) * per_spread
            ratio = offset[row] - log_ref[i] - sum_delta - half - log_spread - 0.5 * x * x
            if ratio != ratio:
                return np.nan
            total += a[i] * min(max(ratio, -B), B)
            if -B < ratio < B:
                g_offset[row] += a[i]
                _add_gradient(
                    a[i], 1.0, x, x * x, e, per_spread, here, form, inverse, adjoint, g_mu, row, g_here, g
                )
        for q in range(Q if tempering[row] != 0 else 0):
            half, mean, log_spread = _innovations(nodes, q, mu, row, here, form, inverse, e)
            per_spread, at_ref = math.exp(-log_spread), centre[q]
            for k in range(slope_ref.shape[1]):
                at_ref += slope_ref[row, k] * nodes[q, k]
            A = offset[row] - sum_delta - half + half_ref[q]
            expected, J0, J1, J2 = _expected_clip(
                A, (at_ref - mean) * per_spread, log_spread_ref[q] - log_spread, B, low, high, cuts
            )
            factor = -tempering[row] * weights[q]
            total += factor * expected
            if J0 > 0:
                g_offset[row] += factor * J0
                _add_gradient(
                    factor, J0, J1, J2, e, per_spread, here, form, inverse, adjoint, g_mu, row, g_here, g
                )
        for k in range(last):
            g.lam[last, k] += g_here[k]
        for k in range(slope.shape[1]):
            g_slope[row, k] = g_here[k]
    return total


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
