"""Selection with maximum entropy: Poisson selection conditional on the sample size n.

Among the designs of fixed size with inclusion probabilities pi_k, conditional Poisson selection has the largest
entropy.  Let p_k be the probability of unit k in the Poisson selection (before conditioning).  The probability of a
sample is proportional to the product of the odds p_k / (1 - p_k) of its units (Hajek 1964; Chen, Dempster & Liu
1994).  Let S be the size of the Poisson sample, and phi the characteristic function of S.  Then all probabilities are
short Fourier sums over M nodes t_j:

    P(S = n) = 1/M sum_j phi(t_j) exp(-i n t_j),                  t_j = 2 pi j / M,
    pi_k = sum_j W_j g_k(t_j),   pi_kl = sum_j W_j g_k(t_j) g_l(t_j)   (k != l),
    W_j = phi(t_j) exp(-i n t_j) / (M P(S = n)),   g_k(t) = p_k exp(it) / (1 - p_k + p_k exp(it)).

Only the real part of each sum is used.  The number M only has to exceed the spread of S (Bernstein's inequality).  Of
the M nodes, 15 to 40 are enough, for ten units as for ten million, since phi is negligible at the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from ..errors import ModelError
from .probabilities import Floats, Positions
from .selection import probabilities, split

Complex = NDArray[np.complex128]

NEGLIGIBLE = 46.0  # exp(-46) = 1e-20
SPREAD = 10.0  # standard deviations (plus 40) from the mean beyond which sizes have P < 1e-20
BIN = 0.25  # width on the scale of asinh(logit(pi) / 2), where all functions of pi are smooth
DEGREE = 16  # Chebyshev nodes of a bin
DENSE = 2 * DEGREE  # least number of units in a bin that is represented by its nodes
CERTAIN = 1e-12  # units with 1 - pi up to this number are treated as certain
LARGE_VARIANCE = 4.0  # if the variance of S is smaller, rejection until S = n is fast enough


@dataclass(frozen=True)
class ConditionalPoisson:
    """Poisson selection from N units, conditional on the sample size n.

    Attributes
    ----------
    odds : float array (N,)
        Odds p_k / (1 - p_k) of the Poisson selection, where the p_k add up to n.  The odds of certain units are
        infinite.
    t, W : float array (J,), complex array (J,)
        The nodes t_j >= 0 and the weights W_j of the Fourier sums in the module's docstring.  Since the nodes t and -t
        add the same real part, W_j is doubled for t_j > 0.
    n : int
        Sample size.

    Examples
    --------
    >>> design = ss.sampling.conditional_poisson([0.5, 0.5, 1.0])
    >>> design.n, design.odds
    (2, array([ 1.,  1., inf]))
    """

    odds: Floats
    t: Floats
    W: Complex
    n: int

    def draw(self, rng: np.random.Generator) -> Positions:
        """Draw a sample.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the randomness.

        Returns
        -------
        int array (n,)
            Positions of the selected units, counted from 0, in ascending order.
        """
        certain = np.flatnonzero(self.odds == np.inf)
        free = np.flatnonzero((self.odds > 0) & (self.odds < np.inf))
        drawn = free[_draw(self.odds[free], self.n - certain.size, rng)]
        return np.sort(np.concatenate([certain, drawn])) if certain.size else drawn


def maximum_entropy(pi: ArrayLike, rng: np.random.Generator) -> Positions:
    """Draw a sample with maximum entropy, given the inclusion probabilities (conditional Poisson selection).

    Parameters
    ----------
    pi : float array (N,)
        Inclusion probabilities that add up to the sample size.
    rng : numpy.random.Generator
        Source of the randomness.

    Returns
    -------
    int array (n,)
        Positions of the selected units, counted from 0, in ascending order.

    Raises
    ------
    InputError
        Probabilities below 0 or above 1, or that do not add up to a whole number.
    ModelError
        :func:`conditional_poisson` fails.

    Examples
    --------
    >>> pi = ss.sampling.inclusion_probabilities([3, 5, 8, 2, 6], n=2)
    >>> selected = ss.sampling.maximum_entropy(pi, np.random.default_rng())
    >>> selected.size
    2
    """
    return conditional_poisson(pi).draw(rng)


def conditional_poisson(pi: ArrayLike) -> ConditionalPoisson:
    """Find the conditional Poisson selection with inclusion probabilities pi.  A pi above 1 - 1e-12 counts as 1.

    The odds are a smooth function of pi.  Where few units have a similar pi, the function is computed for each of these
    units.  Where many units have a similar pi, it is computed at Chebyshev nodes, which represent the units in all
    sums.

    Parameters
    ----------
    pi : float array (N,)
        Inclusion probabilities that add up to the sample size.

    Returns
    -------
    ConditionalPoisson
        The selection.  Its method ``draw`` draws samples.

    Raises
    ------
    InputError
        Probabilities below 0 or above 1, or that do not add up to a whole number.
    ModelError
        The odds were not found (no such case is known).

    Examples
    --------
    >>> design = ss.sampling.conditional_poisson([0.4, 0.6, 0.7, 0.3])
    >>> design.n
    2
    >>> design.draw(np.random.default_rng()).size
    2
    """
    pi = probabilities(pi)
    # 1 - pi has the rounding error of pi: where 1 - pi is as small as this error, the odds have no meaning
    certain, free, p, n = split(np.where(pi > 1 - CERTAIN, 1.0, pi))
    odds = np.zeros(pi.size)
    odds[certain] = np.inf
    if n == 0:
        return ConditionalPoisson(odds, np.zeros(1), np.ones(1, dtype=np.complex128), certain.size)
    log_odds, t, W = _log_odds(p, n)
    odds[free] = np.exp(log_odds)
    return ConditionalPoisson(odds, t, W, certain.size + n)


def _log_odds(pi: Floats, n: int) -> tuple[Floats, Floats, Complex]:
    """Compute the log odds of conditional Poisson selection of n units, given inclusion probabilities 0 < pi < 1.

    Return the log odds, and t and W of :class:`ConditionalPoisson`.
    """
    eta = np.log(pi) - np.log1p(-pi)
    x = np.arcsinh(eta / 2) / BIN
    first = np.floor(x.min())
    bin_of_unit = (x - first).astype(np.intp)
    x -= bin_of_unit + (first + 0.5)
    x *= 2  # position of the unit within its bin, from -1 to 1
    dense = np.bincount(bin_of_unit) >= DENSE
    code = np.where(dense, np.cumsum(dense) - 1, -1)[bin_of_unit]
    alone = np.flatnonzero(code < 0)
    # nodes, and the number of units that each represents
    angle = (np.arange(DEGREE) + 0.5) * np.pi / DEGREE
    T = np.cos(np.arange(DEGREE)[:, None] * angle)  # T[q, r]: polynomial q at node r
    T[0] /= 2
    node = 2 * np.sinh(BIN * (np.flatnonzero(dense)[:, None] + first + 0.5 + np.cos(angle) / 2))
    moments = np.zeros((len(node), DEGREE))
    _moments(pi, x, code, moments)
    weight = (2 / DEGREE) * (moments @ T) / (expit(node) * expit(-node))
    eta_v = np.concatenate([eta[alone], node.ravel()])
    w = np.concatenate([np.ones(alone.size), weight.ravel()])
    shift, t, W = _shift(eta_v, w, n, pi.size)
    eta[alone] += shift[: alone.size]
    _add_polynomial(x, code, (2 / DEGREE) * (shift[alone.size :].reshape(node.shape) @ T.T), eta)
    return eta, t, W


@nb.njit(cache=True)
def _moments(pi: Floats, x: Floats, code: Positions, out: Floats) -> None:
    """Compute weighted sums of Chebyshev polynomials for each bin of units, and add them to ``out`` (bins, degrees).

    ``out[b, q]`` gets the sum of pi (1 - pi) T_q(x) over the units of bin b.  A bin is a set of units with similar pi,
    and T_q is the Chebyshev polynomial of degree q.  x, from -1 to 1, is the position of a unit in its bin.  ``code``
    is the bin of each unit, or -1 for a unit that is left out.
    """
    for i in range(pi.size):
        if code[i] >= 0:
            row, v = out[code[i]], pi[i] * (1 - pi[i])
            before, now = v * x[i], v
            for q in range(row.size):
                row[q] += now
                before, now = now, 2 * x[i] * now - before


@nb.njit(cache=True)
def _add_polynomial(x: Floats, code: Positions, coefficients: Floats, out: Floats) -> None:
    """Add the value of a Chebyshev series at ``x[i]`` to ``out[i]``, for each unit i (Clenshaw's recurrence).

    The coefficients of the series are ``coefficients[code[i]]``.  Units with a negative code are left out.
    """
    for i in range(x.size):
        if code[i] >= 0:
            row = coefficients[code[i]]
            b1 = b2 = 0.0
            for q in range(row.size - 1, 0, -1):
                b1, b2 = row[q] + 2 * x[i] * b1 - b2, b1
            out[i] += row[0] + x[i] * b1 - b2


def _shift(eta: Floats, w: Floats, n: int, N: int) -> tuple[Floats, Floats, Complex]:
    """Find the log odds of conditional Poisson selection, given the logits eta of the inclusion probabilities.

    Element k of eta represents w_k of the N units, and n units are drawn.  Return three arrays: the log odds minus eta,
    and t and W of :class:`ConditionalPoisson`.  Newton's method takes three or four steps, as the equation is nearly
    linear.
    """
    shift, last = np.zeros(eta.size), np.inf
    for _ in range(50):
        odds = np.exp(eta + shift)
        shift += np.log(_tilt(odds, w, float(n)))
        p, q = expit(eta + shift), expit(-eta - shift)
        t, W = _spectrum(p, q, w, n, N)
        turn = np.exp(1j * t)
        g = 1 / (q[:, None] + p[:, None] * turn)
        inside = (g * turn * W).real.sum(axis=1)  # pi_k / p_k
        outside = (g * W).real.sum(axis=1)  # (1 - pi_k) / (1 - p_k)
        variance = p * inside * q * outside
        error = -shift - np.log(inside / outside)
        error -= (w * variance) @ error / (w @ variance)  # all odds times a factor give the same selection
        worst = np.abs(error).max()
        if worst < 1e-13 or last / 2 < worst < 1e-6:
            return shift, t, W
        last = worst
        # covariances of the selection indicators I_k, or of 1 - I_k if it is rarer, to limit rounding
        rare = np.where(p < 0.5, p * inside, -q * outside)
        g *= np.where(p < 0.5, p, -q)[:, None] * np.where(p[:, None] < 0.5, turn, 1.0) * np.sqrt(W)
        shift += _newton_step(g.real.copy(), g.imag.copy(), rare, w, variance, error)
    raise ModelError("maximum entropy: the odds of these inclusion probabilities were not found")


@nb.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _newton_step(a: Floats, b: Floats, rare: Floats, w: Floats, variance: Floats, error: Floats) -> Floats:
    """Compute a step of Newton's method for the log odds of conditional Poisson selection (:func:`_shift`).

    Gaussian elimination solves derivative x step = error.  The derivative has the entries Cov(I_k, I_i) / Var(I_k),
    where I_k is 1 if unit k is selected and 0 otherwise.  The covariance of different units is a_k'a_i - b_k'b_i -
    rare_k rare_i, where a_k and b_k are rows of ``a`` and ``b``, and ``variance`` has the variances.  Loops are faster
    than BLAS, whose threads cost more time.
    """
    V, J = a.shape
    x = error.copy()
    matrix = np.empty((V, V))
    total = 0.0
    for k in range(V):
        total += w[k] * variance[k]
        for i in range(k + 1):
            covariance = -rare[k] * rare[i]
            for j in range(J):
                covariance += a[k, j] * a[i, j] - b[k, j] * b[i, j]
            matrix[k, i] = matrix[i, k] = covariance
    for k in range(V):
        own = matrix[k, k] / variance[k]  # of two units that one node represents
        for i in range(V):  # the second term: all odds times a factor give the same selection
            matrix[k, i] = matrix[k, i] / variance[k] * w[i] + w[i] * variance[i] / total
        matrix[k, k] += 1 - own
    for k in range(V):
        pivot = k
        for i in range(k + 1, V):
            if abs(matrix[i, k]) > abs(matrix[pivot, k]):
                pivot = i
        if pivot > k:
            for j in range(k, V):
                matrix[k, j], matrix[pivot, j] = matrix[pivot, j], matrix[k, j]
            x[k], x[pivot] = x[pivot], x[k]
        for i in range(k + 1, V):
            factor = matrix[i, k] / matrix[k, k]
            for j in range(k + 1, V):
                matrix[i, j] -= factor * matrix[k, j]
            x[i] -= factor * x[k]
    for k in range(V - 1, -1, -1):
        for j in range(k + 1, V):
            x[k] -= matrix[k, j] * x[j]
        x[k] /= matrix[k, k]
    return x


def _spectrum(p: Floats, q: Floats, w: Floats, n: int, N: int) -> tuple[Floats, Complex]:
    """Compute the nodes t and the weights W of the Fourier sums for conditional Poisson selection.

    The selection probability p_k = 1 - q_k represents w_k of the N units, and n units are drawn.
    """
    variance = float(w @ (p * q))
    t = _nodes(variance, N, SPREAD * np.sqrt(variance) + 40)
    cosine, sine = np.cos(t), np.sin(t)
    size = np.log1p(-2 * (p * q)[:, None] * (1 - cosine)) / 2
    angle = np.arctan2(p[:, None] * sine, q[:, None] + p[:, None] * cosine) - p[:, None] * t
    W = np.exp((w[:, None] * (size + 1j * angle)).sum(axis=0) + 1j * t * (w @ p - n))
    W[1:] *= 2  # count the nodes -t, too
    return t, W / W.real.sum()


@nb.njit(cache=True)
def _nodes(variance: float, N: int, width: float) -> Floats:
    """Compute the nodes t_j >= 0 of the Fourier sums for the size of a Poisson sample of N units.

    ``variance`` is the variance of the sample size.  Sizes outside an interval of length ``width`` have a negligible
    probability.  Nodes are left out where the characteristic function of the size is below 1e-20 in absolute value.
    """
    M = min(N + 1, int(width)) | 1
    t = np.empty(M // 2 + 1)
    for j in range(t.size):
        t[j] = 2 * np.pi * j / M
        if variance * (1 - np.cos(t[j])) > NEGLIGIBLE:
            return t[:j]
    return t


@nb.njit(cache=True, error_model="numpy")
def _tilt(odds: Floats, w: Floats, n: float) -> float:
    """Find the factor c that solves sum_k w_k c odds_k / (1 + c odds_k) = n."""
    low, high, c = 0.0, np.inf, 1.0
    for _ in range(200):
        total = variance = 0.0
        for i in range(odds.size):
            p = c * odds[i] / (1 + c * odds[i])
            total += w[i] * p
            variance += w[i] * p / (1 + c * odds[i])
        if abs(total - n) <= 1e-9 * n:
            break
        if total < n:
            low = c
        else:
            high = c
        c *= np.exp(min(max((n - total) / variance, -5.0), 5.0))
        if not low < c < high:
            c = np.sqrt(low * high)
    return c


@nb.njit(cache=True, error_model="numpy")
def _draw(odds: Floats, n: int, rng: np.random.Generator) -> Positions:
    """Draw n units by conditional Poisson selection, and return their positions.

    Split the units into two parts, the second with about 1/8 of the variance of the sample size.  Draw a Poisson sample
    from the first part.  If this sample has k units, accept it with a probability proportional to the probability that
    a Poisson sample from the second part has n - k units.  Then draw n - k units from the second part in the same way.
    """
    N = odds.size
    drawn = np.empty(n, dtype=np.intp)
    p, one = np.empty(N), np.ones(N)
    found, start = 0, 0
    while 0 < n < N - start:
        c = _tilt(odds[start:], one[start:], float(n))
        variance = 0.0
        for i in range(start, N):
            p[i] = c * odds[i] / (1 + c * odds[i])
            variance += p[i] * (1 - p[i])
        split, part, mean = N, 0.0, 0.0
        while variance > LARGE_VARIANCE and part < variance / 8:
            split -= 1
            part += p[split] * (1 - p[split])
            mean += p[split]
        # phi of the size of the second part; 1 if that part has no units
        spread = SPREAD * np.sqrt(part) + 40
        t = _nodes(part, N - split, 2 * spread)
        phi, turn = np.empty(t.size, dtype=np.complex128), np.empty(t.size, dtype=np.complex128)
        for j in range(t.size):
            phi[j], turn[j] = 1.0 if j == 0 else 2.0, complex(np.cos(t[j]) - 1, np.sin(t[j]))
        for i in range(split, N):
            for j in range(t.size):
                phi[j] *= 1 + p[i] * turn[j]
        bound = 0.0
        for j in range(t.size):
            bound += abs(phi[j])
        accepted = False
        while not accepted:
            k = 0
            for i in range(start, split):
                if rng.random() < p[i]:
                    if k == n:
                        k += 1
                        break
                    drawn[found + k] = i
                    k += 1
            rest, chance = n - k, 0.0
            if 0 <= rest <= N - split and abs(rest - mean) < spread:
                for j in range(t.size):
                    chance += phi[j].real * np.cos(rest * t[j]) + phi[j].imag * np.sin(rest * t[j])
                accepted = rng.random() * bound < chance
        found += k
        n = rest
        start = split
    for i in range(N - n, N):  # all remaining units, or none
        drawn[found] = i
        found += 1
    return drawn
