"""Fisher-consistent draws of a normal regression: a correction for the bias that privacy weights cause.

The privacy weight alpha falls with the risk f of a record, the largest |log p| over posterior draws.  Risks are high in
the tails, so the alpha-weighted estimate of Sigma is too small.  In the model FBP, risks are not symmetric in the
residual, so B is biased, too.  A corrected draw is the theta = (B, Sigma) whose limit is the draw,

    lim(theta_corrected) = theta_draw,

where lim(theta) is what the alpha-weighted estimates tend to if theta is the truth (fisher_consistency.py).  The limit
is a weighted least-squares fit to the distribution under theta: B solves the normal equations with weights alpha, and
Sigma is the weighted mean of residual cross products.  In the model FBS with ``dim`` outcomes, if the risk were |log p|
at the true theta, the equation would read

    Sigma_corrected kappa(Sigma_corrected) = Sigma_draw,
    kappa(Sigma) = E[alpha(d) d] / (dim E[alpha(d)]),   d ~ chi-squared_dim.

Shares p of categories are part of theta, and their limits are proportional to p E[alpha] (share_correction.py).  In a
public cell g (a combination of discrete predictors) of n_g records, n_g p_g[k] records are expected in category k.  If
one record is known to be in category k, the expected number is larger by 1 - p_g[k].  This bounds the leverage of
records in rare categories.

psu_correction.py has the correction for files with effects of PSUs.

In shapes, m is the number of released draws, K of coefficients or of categories, D of outcomes with the weight, G of
distinct predictor rows, P of public patterns (distinct rows of public predictors), C of public cells, N of pairs
(combinations of a PSU, a public pattern and a category, :class:`Pairs`), and S of posterior draws over which a risk is
the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from ..densities import normal_density as gaussian
from ..regression.sufficient_statistics import sufficient_statistics
from .fisher_consistency import CLOSE, Bias, Weighting, fixed_point, lower_root, posterior_root, sigma_roots
from .patterns import irreversible
from .share_correction import Pairs, ShareNoise, Shares, normalized, representative_pairs, without_prior

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

RADII, ANGLES, DIRECTIONS = 24, 8, 64  # numbers of quadrature nodes
PACE = 0.7  # damping factor of steps in the logarithms of shares
NOBODY = 1e-6  # least expected number of records in a predictor row: too few to inform a coefficient


def correct(
    B: Floats, L: Floats, X: Floats, size: Floats, weighting: Weighting, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Correct released draws of a normal regression for the bias that privacy weights cause.

    Parameters
    ----------
    B, L : float arrays (m, K, D), (m, D, D)
        Released draws: coefficients and Cholesky factors of Sigma.
    X : float array (G, K)
        Distinct predictor rows.
    size : float array (G,)
        Number of records with each predictor row.
    weighting : Weighting
        How privacy weights are computed from densities.
    rng : numpy.random.Generator

    Returns
    -------
    B, L : float arrays
        The corrected draws, with the same shapes.

    Raises
    ------
    ModelError
        The privacy weights shrink the model so far that no correction exists.
    """
    one = Shares(np.zeros((len(B), 1, 1)), np.zeros(len(X), dtype=np.intp), np.arange(len(X))[:, None])
    B, L, _, _ = correct_with_shares(B, L, one, X, size, weighting, rng)
    return B, L


def correct_with_shares(
    B: Floats, L: Floats, shares: Shares, X: Floats, size: Floats, weighting: Weighting, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats]:
    """Correct released draws of a normal regression and of category shares for the bias that privacy weights cause.

    If the corrected B, Sigma and shares are the truth, the alpha-weighted estimates tend to the released draw.

    Parameters
    ----------
    shares : Shares
        Released draws of the shares, and the rows of ``X`` for each public pattern and category.
    size : float array (P,)
        Number of records with each public pattern.
    B, L, X, weighting, rng
        See :func:`correct`.  D may be 0: then there are only categories.

    Returns
    -------
    B, L, log_p : float arrays
        The corrected draws, with the same shapes.
    spread : float array (m,)
        Factor by which effects of PSUs on log shares must be multiplied.  It is 1 if there are no such effects.

    Raises
    ------
    ModelError
        The privacy weights shrink the model so far that no correction exists.
    """
    pairs, tilts = representative_pairs(shares, X, size, rng), shares.effects
    draws = [
        _Theta(B_draw, L_draw, log_p, pairs.psu_effects(b), sigma)
        for B_draw, L_draw, log_p, b, sigma in zip(B, L, shares.log_p, tilts.b, tilts.sigma, strict=True)
    ]
    limit = _Limit.around(draws[0], pairs, weighting, shares.tilts is not None, rng)
    bias = _FitBias.none(draws[0])
    corrected, spread = [], []
    for draw in draws:  # draws are similar, so each search starts from the bias of the previous draw
        bias = fixed_point(partial(_step, limit, draw), bias.for_draw(draw))
        corrected.append(bias.truth(draw))
        spread.append(1 / (1 + bias.slope))
    return (
        np.array([theta.B for theta in corrected]),
        np.array([theta.L for theta in corrected]),
        np.array([theta.log_p for theta in corrected]),
        np.array(spread),
    )


@dataclass(frozen=True)
class _Theta:
    """Parameters of a normal regression of D outcomes and of shares of categories: a released or a corrected draw.

    ``B`` (K, D) are coefficients, ``L`` (D, D) is the Cholesky factor of Sigma, and ``log_p`` (C, K) are the log shares
    of categories in C cells.  ``b`` (N,) are effects of PSUs on the log shares of N pairs, and ``sigma`` is the
    standard deviation of these effects on log odds.
    """

    B: Floats
    L: Floats
    log_p: Floats
    b: Floats
    sigma: float


@dataclass(frozen=True)
class _Limits:
    """Limits to which the alpha-weighted estimates tend, if given parameters are the truth.

    ``shift`` (K, D) is the limit of the coefficients minus the true coefficients, and 0 for coefficients without
    information.  ``Sigma`` (D, D) is the limit of Sigma.  ``kept`` (C, K) is the mean privacy weight in each cell and
    category.  ``slope`` is the slope of the regression of log mean privacy weights on the effects of PSUs.
    """

    shift: Floats
    Sigma: Floats
    kept: Floats
    slope: float


@dataclass(frozen=True)
class _Limit:
    """The function that computes the limits of alpha-weighted estimates from true parameters.

    Attributes
    ----------
    z, mass : float arrays (Q, D), (Q,)
        Q nodes and their probabilities, which represent the distribution N(0, I) of residuals.
    Sigma_roots : float array (S, D, D)
        Cholesky factors of posterior draws of Sigma, simulated for true Sigma = I.
    noise : float array (S, columns of X, D)
        Standard normal numbers from which draws of B are made.  If there is only one category, the second axis is as
        long as the rank of X.
    share_noise : ShareNoise, optional
        Random numbers from which draws of shares are made.  None means that there is only one category.
    """

    pairs: Pairs
    weighting: Weighting
    z: Floats
    mass: Floats
    Sigma_roots: Floats
    noise: Floats
    share_noise: ShareNoise | None

    @staticmethod
    def around(theta: _Theta, pairs: Pairs, weighting: Weighting, tilted: bool, rng: np.random.Generator) -> _Limit:
        """Make the function that computes limits of alpha-weighted estimates from true parameters near ``theta``.

        With ``tilted``, PSUs have effects on shares.
        """
        S, (columns, D) = weighting.draws, theta.B.shape
        rank = _unweighted_fit(pairs, pairs.shares(theta.log_p, theta.b)).root.shape[1]
        roots = sigma_roots(pairs.size.sum() - rank, D, S, rng)
        noise = rng.standard_normal((S, rank if pairs.K == 1 else columns, D))
        share_noise = ShareNoise.drawn(S, tilted, rng) if pairs.K > 1 else None
        return _Limit(pairs, weighting, *normal_nodes(D), roots, noise, share_noise)

    @cached_property
    def row(self) -> Codes:
        """Position of the pair (PSU, pattern, category) in each combination of a pair and a quadrature node.

        The array is (N Q,).  Nodes vary fastest.
        """
        return np.repeat(np.arange(len(self.pairs.X)), len(self.z))

    def __call__(self, theta: _Theta) -> _Limits:
        """Compute the limits of the alpha-weighted estimates, if ``theta`` is the truth."""
        X, p = self.pairs.X, self.pairs.shares(theta.log_p, theta.b)
        e = self.z @ theta.L.T
        a = self.weighting.alpha(self._risks(theta, p, e))
        records = np.outer(self.pairs.records * p, self.mass).ravel()
        fitted = sufficient_statistics(X, self.row, np.tile(e, (len(X), 1)), a * records)
        if not fitted.A > 0:
            raise irreversible()
        R, Z0, S0 = fitted.reduced()
        kept, slope = self.pairs.kept(a.reshape(-1, len(self.z)) @ self.mass, p, theta.b)
        return _Limits(np.linalg.pinv(R) @ Z0, S0 / fitted.A, kept, slope)

    def _risks(self, theta: _Theta, p: Floats, e: Floats) -> Floats:
        """Compute the risk of a record at each pair (PSU, pattern, category) and node, if ``theta`` is the truth.

        The risk is the largest |log density| over S draws of the unweighted posterior.  The result is (N Q,).  ``p``
        (N,) are the shares of the pairs, and ``e`` (Q, D) the residuals of the nodes.
        """
        X, row, fit = self.pairs.X, self.row, _unweighted_fit(self.pairs, p)
        E = fit.root @ self.noise[:, : fit.root.shape[1]] @ self.Sigma_roots.transpose(0, 2, 1)
        own = np.sqrt(np.maximum(1 - fit.leverage * fit.reduction, 0))[:, None, None]
        Y = ((X @ theta.B)[:, None] + own * e).reshape(len(row), e.shape[1])
        offset: gaussian.Offset | None = None
        if self.share_noise is None:
            columns, B = X, theta.B + E @ theta.L.T
        else:
            # the error of x B_s is scaled by a factor that differs between pairs: the true B and its error have
            # separate columns
            columns = np.hstack([X, np.sqrt(fit.reduction)[:, None] * X])
            B = np.concatenate([np.broadcast_to(theta.B, E.shape), E @ theta.L.T], axis=1)
            offset = partial(self._log_shares, p, self.pairs.tilt_errors(p, theta.sigma))
        return gaussian.max_abs_log_density(
            Y, row, columns, B, theta.L @ self.Sigma_roots, self.weighting.log_base(Y), offset=offset
        )

    def _log_shares(self, p: Floats, error: Floats, i: Codes) -> Floats:
        """Draw log shares from the posterior for given combinations of a pair (PSU, pattern, category) and a node.

        ``i`` are the numbers of the combinations (0 to N Q - 1).  The result is (len(i), S).  ``p`` (N,) are the true
        shares, and ``error`` (N,) the posterior standard deviations of effects of PSUs.
        """
        assert self.share_noise is not None
        pair = self.row[i]
        return self.share_noise.log_shares(p[pair], self.pairs.records_in_cell[pair], self.pairs.K, error[pair])


@dataclass(frozen=True)
class _UnweightedFit:
    """Leverages, and a root of (X'X)^-1, of a least-squares fit in which all privacy weights are 1.

    ``root`` is a root of C0^-1, the inverse of the sum of x x' over records.  For a record of each pair, ``leverage``
    (N,) is its leverage if its category is not known.  If the category is known, 1 - p more records are expected in
    it, and the leverage is multiplied by ``reduction`` (N,).
    """

    root: Floats
    leverage: Floats
    reduction: Floats


def _unweighted_fit(pairs: Pairs, p: Floats) -> _UnweightedFit:
    X, mass = pairs.X, pairs.records * p
    size = mass if pairs.K == 1 else np.maximum(mass, NOBODY)
    R, *_ = sufficient_statistics(X, np.arange(len(X)), np.zeros((len(X), 1)), size).reduced()
    root = posterior_root(R)
    leverage = ((X @ root) ** 2).sum(axis=1)
    return _UnweightedFit(root, leverage, 1 / (1 + (1 - p) * leverage))


@dataclass(frozen=True)
class _FitBias(Bias):
    """The bias that privacy weights cause in a normal regression and in shares of categories.

    Let B, Sigma = L L', shares p, and effects b of PSUs on log shares be true.  Their estimates tend to B + shift, to
    the Cholesky factor L shrink, to p exp(log_kept) (normalized), and to b (1 + slope).  ``log_p`` (C, K) are the
    corrected log shares of the draw.
    """

    shift: Floats
    log_kept: Floats
    slope: float
    log_p: Floats

    @staticmethod
    def none(draw: _Theta) -> _FitBias:
        eye = np.asarray(np.eye(len(draw.L)), dtype=np.float64)
        return _FitBias(eye, np.zeros_like(draw.B), np.zeros_like(draw.log_p), 0.0, draw.log_p)

    def for_draw(self, draw: _Theta) -> _FitBias:
        """Return a copy of the bias, from which the search for the bias of ``draw`` starts.

        The log shares of the copy are those of ``draw``, corrected by this bias.
        """
        return replace(self, log_p=normalized(draw.log_p - self.log_kept))

    def truth(self, draw: _Theta) -> _Theta:
        steeper = 1 + self.slope
        return _Theta(draw.B - self.shift, self.true_root(draw.L), self.log_p, draw.b / steeper, draw.sigma / steeper)

    def with_fit(self, limits: _Limits, L: Floats) -> _FitBias:
        """Return a copy of the bias, with the bias of coefficients and residual covariance computed from ``limits``.

        ``limits`` are the limits of the alpha-weighted estimates if Sigma = L L' is true.
        """
        inverse = np.linalg.inv(L)
        return replace(self, shift=limits.shift, shrink=lower_root(inverse @ limits.Sigma @ inverse.T))

    def with_shares(self, limits: _Limits, drawn: Floats, cell_size: Floats) -> _FitBias:
        """Return a copy of the bias, in which the bias of shares is moved part of the way towards ``limits``.

        ``drawn`` (C, K) are the released log shares, from which the corrected log shares are computed.  ``cell_size``
        (C,) are the numbers of records of the cells.
        """
        if (drawn[~(limits.kept > 0)] > np.log(CLOSE)).any():
            raise irreversible()
        # a larger share has a lower risk, so full steps would overshoot
        log_kept = self.log_kept + PACE * (np.log(np.maximum(limits.kept, CLOSE)) - self.log_kept)
        slope = self.slope + PACE * (limits.slope - self.slope)
        limit = without_prior(drawn, cell_size * (np.exp(self.log_p + log_kept)).sum(axis=1))
        return replace(self, log_kept=log_kept, slope=slope, log_p=normalized(limit - log_kept))


def _step(limit: _Limit, draw: _Theta, before: _FitBias) -> tuple[_FitBias, float]:
    """Make one step of the search for the bias of a draw: compute the next bias from the bias ``before``.

    The draw, corrected by ``before``, is taken as the truth.  Returns the bias of the alpha-weighted estimates under
    this truth, and its distance from ``before``.
    """
    truth, X = before.truth(draw), limit.pairs.X
    limits = limit(truth)
    after = before.with_fit(limits, truth.L)
    change = 0.0
    if draw.L.size:
        change = np.abs(X @ (after.shift - before.shift)).max() / np.abs(truth.L).max()
        change += np.abs(after.shrink - before.shrink).max()
    if limit.pairs.K > 1:
        after = after.with_shares(limits, draw.log_p, limit.pairs.cell_size)
        change += np.abs(np.exp(after.log_p) - np.exp(before.log_p)).max() + abs(after.slope - before.slope)
    return after, float(change)


def normal_nodes(dim: int) -> tuple[Floats, Floats]:
    """Represent N(0, I) by nodes (Q, dim) with probabilities (Q,), whose mean and covariance are exactly 0 and I.

    The space is cut into rings around 0, which also cover the tails.  The nodes of a ring lie at the root mean square
    distance of the ring, in evenly spread directions.
    """
    if dim == 0:
        return np.zeros((1, 0)), np.ones(1)
    edges = np.append(np.linspace(0, 3.5 + np.sqrt(dim), RADII), np.inf) ** 2
    mass = np.diff(chi2.cdf(edges, dim))
    radius = np.sqrt(dim * np.diff(chi2.cdf(edges, dim + 2)) / mass)
    if dim == 1:
        direction = np.array([[1.0], [-1.0]])
    elif dim == 2:
        angle = 2 * np.pi * (np.arange(ANGLES) + 0.5) / ANGLES
        direction = np.column_stack([np.cos(angle), np.sin(angle)])
    else:
        frames = np.random.default_rng(dim).standard_normal((-(-DIRECTIONS // (2 * dim)), dim, dim))
        half = np.linalg.qr(frames)[0].reshape(-1, dim)  # orthogonal frames are evenly spread
        direction = np.vstack([half, -half])
    nodes = (radius[:, None, None] * direction).reshape(-1, dim)
    return nodes, np.repeat(mass, len(direction)) / len(direction)
