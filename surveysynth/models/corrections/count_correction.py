"""Fisher-consistent draws of the count models: a correction for the bias that privacy weights cause.

The model (counts.py) is

    Y ~ NB(mu, phi),   var Y = mu + mu^2 / phi,   log mu = x b          (Poisson: phi = infinity)
    W | Y ~ N(x c + gamma log(1 + Y), sigma^2)                          (W: log survey weight, unless it is public)

theta contains b and log(1 / phi), and c, gamma and sigma if the weight is modelled.  n_g records have the predictor row
g (a distinct row of the model matrix), and f is the risk of a record, the largest |log p| over posterior draws.  The
privacy weight alpha falls with f.  As large counts are rare and risky, estimated means are too small.  If theta is the
truth, the alpha-weighted estimator tends to the limit

    lim(theta) = argmax_t  sum_g n_g E_theta[ alpha(f(Y, W | g)) log p(Y, W | g; t) ].

A corrected draw is the theta whose limit is the draw.  Therefore the expected score **at the draw** is 0,

    sum_g n_g E_theta[ alpha(f(Y, W | g)) s(Y, W | g; draw) ] = 0,    s = d log p / d theta,

and no maximum has to be found.  Broyden's method solves these equations.  Its first step is the score at the draw,
multiplied by the inverse of the weighted information.  The limits of c, gamma and sigma are weighted least-squares
estimates.

**Expectations.**  If few counts are probable in a predictor row, all of them are summed.  Otherwise the first counts
are summed, and points represent the other counts v.  These points are evenly spaced on the variance-stabilizing scale
asinh sqrt(v / phi): a midpoint rule for a smooth function that vanishes at the far end.  The log weight has
Gauss-Hermite nodes.

**Risks** are maxima over S draws of the unweighted posterior.  Under the model, this posterior is approximately normal
around theta, with the inverse information of the n records as covariance.  The log of the mean mu of a predictor row, u
= log(1 + mean mu / phi), the mean of the log weight, and log sigma are independent.  log mu is slightly skewed, like
the log mean of a single cell of records with the same information.  The maximum over S draws is replaced by the maximum
over a few points on a sphere.  The radius is such that linear functions have, on average, the same maximum over the
points as over S draws.  A record pulls the fit towards itself: the residual from the fit is sqrt(1 - h) times the true
residual, where h is the leverage of the record.

The correction uses drawn parameters, the public predictors, the public numbers n_g, S, and the constants of the weight
map, the function that computes alpha from f.  If these constants were given, the correction is post-processing.  If its
constant c1 was tuned on the file, the correction is not covered by epsilon.  The correction assumes the model.  If
counts are not negative binomial given the predictors, or the log weight is not normal, the correction can be too small
or too large.

In shapes, m is the number of released draws, K of columns of the model matrix, G of predictor rows, P of pairs of a
predictor row and a count that represent the distribution of records, and S of posterior draws over which a risk is the
maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from math import exp, inf, log, log1p, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtri, roots_hermitenorm

from ...errors import guarded
from ..densities.count_likelihood import WIDE, Likelihood, rises, slopes, sums
from ..densities.row_density import max_abs_log_density
from .patterns import PATTERNS, irreversible, representative_patterns

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

NODES, FIRST = 100, 32  # number of nodes of a predictor row; the first FIRST nodes are consecutive counts
FAR = 20.0  # counts with probabilities below about exp(-FAR) are left out
WEIGHTS = 15  # number of nodes of the log weight
STEPS, CLOSE = 100, 1e-4  # Broyden's method: largest number of steps, and the residual at which it ends
LONGEST = 0.5  # largest step in log mu, log variance and log sigma
POISSON = 1e-4  # least value of (mean count) / phi; smaller values are treated as Poisson
SKEWED = 1.0  # largest skewness of the posterior of a log mean
STEP = 1e-3  # step of log(1 / phi), for numerical derivatives
ALMOST_INFINITE = 1e12  # a larger phi is replaced by this for the spacing of nodes


def correct(
    values: Mapping[str, Floats],
    X: Floats,
    size: Floats,
    alpha: Callable[[Floats], Floats],
    draws: int,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Correct each released draw of a count model for the bias that privacy weights cause.

    Parameters
    ----------
    values : dict of float arrays
        Released draws, named as in :class:`surveysynth.models.counts.Counts`: ``b`` (m, K); ``phi`` (m,), unless the
        model is Poisson; ``c`` (m, K + 1), with gamma as last column, and ``sigma`` (m,), if the survey weight is
        modelled.
    X : float array (G, K)
        Distinct predictor rows.
    size : float array (G,)
        Number of records with each predictor row.
    alpha : function
        The weight map with its constants, which computes privacy weights from risks.
    draws : int
        S, the number of draws over which the risk is a maximum.
    rng : numpy.random.Generator
        Source of the randomness for a sample of predictor rows, which represents the rows if there are many.

    Returns
    -------
    dict of float arrays
        The corrected draws, with the same names and shapes.

    Raises
    ------
    ModelError
        The privacy weights shrink the model so far that no correction exists.
    """
    X, size = X[size > 0], size[size > 0]
    one_cell, most = np.zeros(len(X), dtype=np.intp), max(PATTERNS, 8 * X.shape[1])
    representative, size = representative_patterns(size, one_cell, most, rng)
    rows = _Rows(X[representative], size, alpha, draws)
    corrected = []
    offset: Floats | None = None
    H: Floats | None = None
    for s in range(len(values["b"])):
        draw = _theta({name: v[s] for name, v in values.items()}, rows)
        start = draw.flat() if offset is None else draw.flat() + offset
        found, H = _solved(draw, start, rows, H)
        offset = found - draw.flat()
        corrected.append(draw.at(found).values())
    return {name: np.array([c[name] for c in corrected]) for name in values}


@dataclass(frozen=True)
class _Rows:
    """Combinations of predictors, their numbers of records, and the function from risks to privacy weights.

    ``X`` (G, K) are the predictor rows, ``size`` (G,) the numbers of records, and ``alpha`` is the function.  ``draws``
    is the number of posterior draws over which a risk is the maximum.
    """

    X: Floats
    size: Floats
    alpha: Callable[[Floats], Floats]
    draws: int


@dataclass(frozen=True)
class _Theta:
    """Parameters of the count model in one draw.

    ``b`` (K,) are the coefficients of the log mean.  ``a`` is 1 / phi, and 0 under Poisson.  ``mean`` is the expected
    count, averaged over the records, at the released draw.  ``c`` (K + 1,) are the coefficients of the log weight, with
    gamma as the last, and ``sigma`` is its residual standard deviation.  Both are None if the weight is public.
    ``dispersed`` is False under Poisson.

    The equations are solved in the coordinates b, u = log(1 + a mean), c and log sigma.  u is finite even if phi is
    infinite.
    """

    b: Floats
    a: float
    mean: float
    c: Floats | None
    sigma: float | None
    dispersed: bool

    @property
    def phi(self) -> float:
        return 1 / self.a if self.a > 0 else inf

    @property
    def log_a(self) -> float:
        return log(self.a) if self.a > 0 else -inf

    def flat(self) -> Floats:
        """Return the parameters as one array, in the coordinates in which the equations are solved.

        The order is b, u, c and log sigma.  A Poisson model has no u.  If the survey weight is public, there are no c
        and log sigma.
        """
        u = [log1p(self.a * self.mean)] if self.dispersed else []
        return np.concatenate([self.b, u, [] if self.sigma is None else [*np.asarray(self.c), log(self.sigma)]])

    def at(self, x: Floats) -> _Theta:
        """Return the parameters with the coordinates ``x``, which are in the order of :meth:`flat`."""
        K, rest = len(self.b), x[len(self.b) + self.dispersed :]
        a = max(float(np.expm1(x[K])), POISSON) / self.mean if self.dispersed else 0.0
        if self.sigma is None:
            return _Theta(x[:K], a, self.mean, None, None, self.dispersed)
        return _Theta(x[:K], a, self.mean, rest[:-1], exp(rest[-1]), self.dispersed)

    def values(self) -> dict[str, Floats]:
        """Return the parameters by their names in :class:`surveysynth.models.counts.Counts`."""
        out = {"b": self.b} | ({"phi": np.array(self.phi)} if self.dispersed else {})
        if self.sigma is not None:
            out |= {"c": np.asarray(self.c), "sigma": np.array(self.sigma)}
        return out


def _theta(values: Mapping[str, Floats], rows: _Rows) -> _Theta:
    b, dispersed = values["b"], "phi" in values
    mean = float(rows.size @ np.exp(rows.X @ b) / rows.size.sum())
    a = max(1 / float(values["phi"]), POISSON / mean) if dispersed else 0.0
    sigma = float(values["sigma"]) if "sigma" in values else None
    return _Theta(b, a, mean, values.get("c"), sigma, dispersed)


# ---- the equations


def _solved(draw: _Theta, start: Floats, rows: _Rows, H: Floats | None) -> tuple[Floats, Floats]:
    """Correct one draw: find the true parameters under which the alpha-weighted estimate tends to the draw.

    Broyden's method begins with the coordinates ``start`` and the inverse Jacobian ``H``, if given.  Returns the
    coordinates of the corrected draw, and the inverse Jacobian.
    """
    K = len(draw.b)
    x = start
    H = np.eye(len(x)) if H is None else H
    F = _residual(draw.at(x), draw, rows)
    for _ in range(STEPS):
        if draw.dispersed and x[K] <= log1p(POISSON) and F[K] > 0:
            F[K] = 0.0  # the Poisson limit has the least variance
        if not np.isfinite(F).all():
            raise irreversible()
        if _extent(F, draw, rows) < CLOSE:
            return x, H
        go = -H @ F
        go *= min(1.0, LONGEST / max(_extent(go, draw, rows), 1e-300))
        at = x + go
        if draw.dispersed:
            at[K] = max(at[K], log1p(POISSON))
        before, F, go = F, _residual(draw.at(at), draw, rows), at - x
        x = at
        Hy = H @ (F - before)
        along = go @ Hy
        if abs(along) > 1e-3 * (go @ go):
            H = H + np.outer(go - Hy, go @ H) / along
    raise irreversible()


def _extent(x: Floats, draw: _Theta, rows: _Rows) -> float:
    """Return the largest absolute change of a log mean, or of another quantity, if the parameters change by ``x``.

    The quantities are the log means, u, the mean log weights (relative to sigma) and log sigma.
    """
    K = len(draw.b)
    largest = [np.abs(rows.X @ x[:K]).max()]
    if draw.dispersed:
        largest.append(abs(x[K]))
    if draw.sigma is not None:
        c = x[K + draw.dispersed : -1]
        largest += [np.abs(rows.X @ c[:-1]).max() / draw.sigma, abs(c[-1]) / draw.sigma, abs(x[-1])]
    return float(max(largest))


def _residual(theta: _Theta, draw: _Theta, rows: _Rows) -> Floats:
    """Compute the limit of the alpha-weighted estimate minus the released draw, if ``theta`` is the truth.

    The result is in the coordinates b, u, c and log sigma.  The differences in b and u are first-order approximations,
    which are 0 where the exact differences are 0.
    """
    X, G = rows.X, len(rows.X)
    v, p = _counts_of_rows(np.exp(X @ theta.b), theta.phi)
    row = np.repeat(np.arange(G), v.shape[1])
    mass = rows.size[row] * p.ravel()
    v = v.ravel()
    z = np.column_stack([X[row], np.log1p(v)])
    weights = theta.sigma is not None
    t, omega = roots_hermitenorm(WEIGHTS) if weights else (np.zeros(1), np.ones(1))
    f = _risks(theta, rows, v, row, mass, z, t)
    a = rows.alpha(f.ravel()).reshape(f.shape) * mass[:, None] * (omega / omega.sum())
    alone = a.sum(axis=1)
    if not alone.sum() > 0:
        raise irreversible()

    eta = X @ draw.b
    A, S, empty = sums(row, alone, G), sums(row, alone * v, G), np.empty(0)
    slope, curvature = Likelihood(X, A, S, empty, empty, draw.dispersed).derivatives(eta, draw.log_a)
    K = len(draw.b)
    out = [_solve(X.T @ (curvature[:, None] * X) + WIDE * np.eye(K), X.T @ slope)]
    if draw.dispersed:
        u_score = _score_of_log_a(v, eta[row], draw.log_a) * (1 + 1 / (draw.a * draw.mean))
        out.append(np.array([alone @ u_score / (alone @ u_score**2)]))
    if draw.sigma is not None and theta.sigma is not None and draw.c is not None and theta.c is not None:
        e = a @ t * theta.sigma  # sums over the nodes of the log weight
        C = z.T @ (alone[:, None] * z)
        shift = _solve(C, z.T @ e)
        squares = theta.sigma**2 * float((a @ t**2).sum()) - shift @ (z.T @ e)
        out += [theta.c + shift - draw.c, np.array([0.5 * log(squares / alone.sum()) - log(draw.sigma)])]
    return np.concatenate(out)


def _score_of_log_a(v: Floats, eta: Floats, log_a: float) -> Floats:
    """Compute the derivatives of negative binomial log densities of counts with respect to log a = log(1 / phi).

    Count ``v[i]`` has the log mean ``eta[i]``.
    """
    phi = np.exp(-np.array([log_a + STEP, log_a - STEP]))
    slope, spent = slopes(np.repeat(eta[:, None], 2, axis=1), phi)
    log_p = rises(v, phi) + v[:, None] * slope - spent
    return np.asarray((log_p[:, 0] - log_p[:, 1]) / (2 * STEP))


def _solve(C: Floats, y: Floats) -> Floats:
    return np.asarray(guarded(lambda: np.linalg.lstsq(C, y)[0], np.linalg.LinAlgError, lambda _: irreversible()))


# ---- risks


def _risks(theta: _Theta, rows: _Rows, v: Floats, row: Codes, mass: Floats, z: Floats, t: Floats) -> Floats:
    """Compute the risks of records with given counts and log weights, if the parameters ``theta`` are the truth.

    The risks are (P, nodes), for P counts with ``nodes`` log weights each.  A risk is the largest |log density| of the
    count and the log weight over posterior draws.  Count i is ``v[i]`` in predictor row ``row[i]``, represents
    ``mass[i]`` records, and has the predictors ``z[i]`` of the log weight.  Its log weights lie ``t`` (nodes,) standard
    deviations from their mean.
    """
    X, n = rows.X, rows.size.sum()
    eta = X @ theta.b
    mu = np.exp(eta)
    information = mu / (1 + mu * theta.a)
    V = np.linalg.inv(X.T @ ((rows.size * information)[:, None] * X) + WIDE * np.eye(X.shape[1]))
    variance = np.einsum("gk,kl,gl->g", X, V, X)
    way = _directions(1 + theta.dispersed + 2 * (theta.sigma is not None), rows.draws)
    # the record pulls its fitted mean, so that the residual is sqrt(1 - h) times the true residual
    moved = 1 - np.sqrt(1 - np.minimum(variance * information, 1 - 1e-9))
    own = eta[row] + np.log1p(moved[row] * (v / mu[row] - 1))
    eta_draws = own[:, None] + _log_means(variance, mu, theta.a, way[:, 0])[row]
    phi = np.full(len(way), theta.phi)
    if theta.dispersed:
        du = theta.a * theta.mean / (1 + theta.a * theta.mean)  # derivative of u with respect to log(1 / phi)
        sd = du / sqrt(mass @ _score_of_log_a(v, eta[row], theta.log_a) ** 2)
        u = np.maximum(log1p(theta.a * theta.mean) + sd * way[:, 1], log1p(POISSON))
        phi = theta.mean / np.expm1(u)
    values, which = np.unique(phi, return_inverse=True)
    slope, spent = slopes(eta_draws, phi)
    log_p = rises(v, values)[:, which] + v[:, None] * slope - spent - gammaln(v + 1)[:, None]
    if theta.sigma is None:
        return np.abs(log_p).max(axis=1, keepdims=True)
    leverage = np.einsum("pk,kl,pl->p", z, np.linalg.pinv(z.T @ (mass[:, None] * z)), z)
    shrunk = np.sqrt(1 - np.minimum(leverage, 1 - 1e-9))[:, None]
    off, narrow = np.sqrt(leverage)[:, None] * way[:, -2], np.exp(-way[:, -1] / sqrt(2 * n))
    c = log_p - log(theta.sigma) + np.log(narrow) - 0.5 * (log(2 * pi) + narrow**2 * off**2)
    first, second = narrow**2 * shrunk * off, -0.5 * narrow**2 * shrunk**2
    statistics = np.tile(np.column_stack([t, t**2]), (len(v), 1))
    f = max_abs_log_density(
        statistics, np.repeat(np.arange(len(v)), len(t)), lambda i: (c[i], first[i], second[i]), len(way), None
    )
    return f.reshape(len(v), len(t))


def _log_means(variance: Floats, mu: Floats, a: float, normal: Floats) -> Floats:
    """Compute errors (G, N) of log means in N posterior draws, for each of G combinations of predictors.

    The log means have posterior variances ``variance`` (G,).  ``mu`` (G,) are the means, and ``a`` is 1 / phi.  The
    draws are made from standard normal numbers ``normal`` (N,).  If a single cell of n records has the mean mu, log mu
    has the posterior distribution of log Gamma(n mu) - log Gamma(n phi) variates.  A Cornish-Fisher expansion
    approximates this distribution, with the n that gives the posterior variance.
    """
    n = (1 / mu + a) / variance  # number of records of a cell with the same information
    sd, other = np.sqrt(variance)[:, None], (a**2 - mu**-2.0) / n**2
    skewness = np.clip(other / variance**1.5, -SKEWED, SKEWED)[:, None]
    return (a - 1 / mu)[:, None] / (2 * n)[:, None] + sd * (normal + skewness / 6 * (normal**2 - 1))


def _directions(dim: int, draws: int) -> Floats:
    """Return a few points that replace ``draws`` draws from N(0, I) when the maximum of a function is computed.

    The points (N, dim) are 0 and points evenly spread on a sphere.  The radius makes the maximum exact for linear
    functions: averaged over all directions, the largest projection of a point on a direction is the expected maximum of
    ``draws`` standard normal numbers.
    """
    way = np.array(list(product((-1.0, 0.0, 1.0), repeat=dim)))
    way = way[way.any(axis=1)]
    way /= np.linalg.norm(way, axis=1)[:, None]
    anywhere = np.random.default_rng(dim).standard_normal((2000, dim))
    anywhere /= np.linalg.norm(anywhere, axis=1)[:, None]
    near = (anywhere @ way.T).max(axis=1).mean()
    largest = float(ndtri((draws - 0.375) / (draws + 0.25)))  # Blom's expected maximum of S standard normal numbers
    return np.vstack([np.zeros(dim), way * max(largest, 0.0) / near])


# ---- counts


def _counts_of_rows(mu: Floats, phi: float) -> tuple[Floats, Floats]:
    """Represent the negative binomial distribution, for each combination of predictors, by a few weighted counts.

    The distributions have the means ``mu`` (G,) and the dispersion ``phi``.  Returns two arrays (G, NODES): the counts,
    and their probabilities, which add up to 1 in each row.  Large counts need not be whole numbers, because each of
    them represents a range of counts (see "Expectations" above).
    """
    sd = np.sqrt(mu + mu**2 / phi)
    low = np.maximum(np.floor(mu - sqrt(3 * FAR) * sd), 0)
    high = mu + sqrt(3 * FAR) * sd + FAR / np.log1p(phi / mu) + FAR / 2
    finite = min(phi, ALMOST_INFINITE)
    start, end = (np.arcsinh(np.sqrt(v / finite)) for v in (low + FIRST - 0.5, np.maximum(high, low + FIRST)))
    width = (end - start) / (NODES - FIRST)
    r = start[:, None] + width[:, None] * (np.arange(NODES - FIRST) + 0.5)
    far = finite * np.sinh(r) ** 2
    v = low[:, None] + np.arange(NODES, dtype=np.float64)
    represented = np.ones_like(v)
    many = high - low >= NODES
    v[many, FIRST:] = far[many]
    represented[many, FIRST:] = (width[:, None] * 2 * np.sqrt(far * (far + finite)))[many]
    one, G = np.array([phi]), len(mu)
    slope, spent = slopes(np.log(mu)[:, None], one)
    log_p = rises(v.ravel(), one).reshape(G, NODES) - gammaln(v + 1) + v * slope - spent
    p = np.exp(log_p) * represented
    return v, p / p.sum(axis=1, keepdims=True)
