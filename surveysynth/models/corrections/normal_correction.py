"""Fisher-consistent draws: undo what the privacy weights do to a normal regression, by its own rule.

The alpha-weighted estimator of theta = (B, Sigma) does not tend to the truth: alpha falls with a
record's risk f = |log p|, risk is high in the tails, so Sigma comes out too small (FBS), and
where the risk is not symmetric in the residual (FBP) B moves too.  A corrected draw is the theta whose limit is the
draw,

    lim(theta_corrected) = theta_draw,

with lim as in fisher_consistency.py.  This limit is a weighted least-squares fit to the model's own distribution: B
solves the normal equations with weights alpha, Sigma is the weighted mean of residual cross products.  For FBS and a
risk at the true theta the equation reads

    Sigma_corrected kappa(Sigma_corrected) = Sigma_draw,
    kappa(Sigma) = E[alpha(D) D] / (dim E[alpha(D)]),   D ~ chi-squared_dim.

Shares of categories are part of theta (share_correction.py): p_lim ~ p E[alpha].  A category's row of predictors has
1 - p_g[k] records more than the n_g p_g[k] of any row, as a record of the category is one of its cell's: that bounds
the leverage of rare ones.

Files with effects of PSUs: psu_correction.py.
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

RADII, ANGLES, DIRECTIONS = 24, 8, 64  # quadrature nodes
PACE = 0.7  # share of a step that the logarithms of shares take
NOBODY = 1e-6  # records: a row that fewer have informs no coefficient


def correct(
    B: Floats, L: Floats, X: Floats, size: Floats, weighting: Weighting, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Solve lim(theta) = (B, L L') for theta, draw by draw.

    Parameters
    ----------
    B, L : float arrays (m, K, D), (m, D, D)
        Released draws: coefficients and Cholesky factors of Sigma.
    X : float array (G, K)
        Distinct predictor rows.
    size : float array (G,)
        Records with each of them.
    weighting : Weighting
    rng : numpy.random.Generator

    Returns
    -------
    B, L : float arrays
        Of the same shapes.

    Raises
    ------
    ModelError
        The weights shrink the model so far that no truth explains the draw.
    """
    one = Shares(np.zeros((len(B), 1, 1)), np.zeros(len(X), dtype=np.intp), np.arange(len(X))[:, None])
    B, L, _, _ = correct_with_shares(B, L, one, X, size, weighting, rng)
    return B, L


def correct_with_shares(
    B: Floats, L: Floats, shares: Shares, X: Floats, size: Floats, weighting: Weighting, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats]:
    """Solve lim(theta, p) = (B, L L', p_draw) for theta and the shares of categories, draw by draw.

    Parameters
    ----------
    shares : Shares
    size : float array (P,)
        Records with each public pattern.
    B, L, X, weighting, rng
        As in :func:`correct`.  D may be 0: categories and nothing else.

    Returns
    -------
    B, L, log_p : float arrays
        Of the same shapes.
    spread : float array (m,)
        Factor of the effects on log shares; 1 where there are none.

    Raises
    ------
    ModelError
        The weights shrink the model so far that no truth explains the draw.
    """
    pairs, tilts = representative_pairs(shares, X, size, rng), shares.effects
    draws = [
        _Theta(B_draw, L_draw, log_p, pairs.psu_effects(b), sigma)
        for B_draw, L_draw, log_p, b, sigma in zip(B, L, shares.log_p, tilts.b, tilts.sigma, strict=True)
    ]
    limit = _Limit.around(draws[0], pairs, weighting, shares.tilts is not None, rng)
    bias = _FitBias.none(draws[0])
    corrected, spread = [], []
    for draw in draws:  # all are alike, so each starts from the last
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
    """Parameters: of one draw, or of the truth behind it.

    ``B`` (K, D) and ``L`` (D, D); ``log_p`` (C, K) log shares of categories; ``b`` (N,) effects of PSUs on those of
    pairs, and ``sigma`` their standard deviation.
    """

    B: Floats
    L: Floats
    log_p: Floats
    b: Floats
    sigma: float


@dataclass(frozen=True)
class _Limits:
    """lim(theta): B_lim - B, 0 where no record sees B; Sigma_lim; E alpha (C, K), and its slope on effects of PSUs."""

    shift: Floats
    Sigma: Floats
    kept: Floats
    slope: float


@dataclass(frozen=True)
class _Limit:
    """The map theta -> lim(theta).  It is smooth: random numbers are the same for each theta.

    Attributes
    ----------
    pairs : Pairs
    weighting : Weighting
    z, mass : float arrays (Q, D), (Q,)
        Nodes that stand for residuals of Sigma = 1.
    Sigma_roots : float array (S, D, D)
        Posterior draws behind the risks, where Sigma = 1.
    noise : float array (S, columns of X, D)
        Standard normal numbers behind those of B.
    share_noise : ShareNoise, optional
        Behind those of shares; None where there is one category.
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
        """The limit map for thetas that are like one; ``tilted`` where PSUs have effects on shares."""
        S, (columns, D) = weighting.draws, theta.B.shape
        rank = _unweighted_fit(pairs, pairs.shares(theta.log_p, theta.b)).root.shape[1]
        roots = sigma_roots(pairs.size.sum() - rank, D, S, rng)
        noise = rng.standard_normal((S, rank if pairs.K == 1 else columns, D))
        share_noise = ShareNoise.drawn(S, tilted, rng) if pairs.K > 1 else None
        return _Limit(pairs, weighting, *normal_nodes(D), roots, noise, share_noise)

    @cached_property
    def row(self) -> Codes:
        """Row of X of each (pair, node)."""
        return np.repeat(np.arange(len(self.pairs.X)), len(self.z))

    def __call__(self, theta: _Theta) -> _Limits:
        """Weighted least squares of the model's own residuals, and mean weights of categories."""
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
        """f of each (pair, node): the maximum over S draws of the unweighted posterior, under theta."""
        X, row, fit = self.pairs.X, self.row, _unweighted_fit(self.pairs, p)
        E = fit.root @ self.noise[:, : fit.root.shape[1]] @ self.Sigma_roots.transpose(0, 2, 1)
        own = np.sqrt(np.maximum(1 - fit.leverage * fit.left, 0))[:, None, None]
        Y = ((X @ theta.B)[:, None] + own * e).reshape(len(row), e.shape[1])
        offset: gaussian.Offset | None = None
        if self.share_noise is None:
            seen, B = X, theta.B + E @ theta.L.T
        else:
            # x B_s errs as far as the record itself lets it: rows and coefficients are twice as wide
            seen = np.hstack([X, np.sqrt(fit.left)[:, None] * X])
            B = np.concatenate([np.broadcast_to(theta.B, E.shape), E @ theta.L.T], axis=1)
            offset = partial(self._log_shares, p, self.pairs.tilt_errors(p, theta.sigma))
        return gaussian.max_abs_log_density(
            Y, row, seen, B, theta.L @ self.Sigma_roots, self.weighting.log_base(Y), offset=offset
        )

    def _log_shares(self, p: Floats, error: Floats, i: Codes) -> Floats:
        """Draws (len(i), S) of the log shares of some (pair, node)."""
        assert self.share_noise is not None
        pair = self.row[i]
        return self.share_noise.log_shares(p[pair], self.pairs.records_in_cell[pair], self.pairs.K, error[pair])


@dataclass(frozen=True)
class _UnweightedFit:
    """A root of C0^-1, leverages of the rows, and what is left of them with a record there."""

    root: Floats
    leverage: Floats
    left: Floats


def _unweighted_fit(pairs: Pairs, p: Floats) -> _UnweightedFit:
    """The unweighted fit to records that have categories with shares p (N,)."""
    X, mass = pairs.X, pairs.records * p
    size = mass if pairs.K == 1 else np.maximum(mass, NOBODY)
    R, *_ = sufficient_statistics(X, np.arange(len(X)), np.zeros((len(X), 1)), size).reduced()
    root = posterior_root(R)
    leverage = ((X @ root) ** 2).sum(axis=1)
    return _UnweightedFit(root, leverage, 1 / (1 + (1 - p) * leverage))


@dataclass(frozen=True)
class _FitBias(Bias):
    """What the weights do: B_lim = B + shift, L_lim = L shrink, p_lim ~ p kept, effects 1 + slope times as large.

    ``log_p`` (C, K) are the shares that are left of a draw's.
    """

    shift: Floats
    log_kept: Floats
    slope: float
    log_p: Floats

    @staticmethod
    def none(draw: _Theta) -> _FitBias:
        """No bias at all."""
        eye = np.asarray(np.eye(len(draw.L)), dtype=np.float64)
        return _FitBias(eye, np.zeros_like(draw.B), np.zeros_like(draw.log_p), 0.0, draw.log_p)

    def for_draw(self, draw: _Theta) -> _FitBias:
        """The same bias, of another draw."""
        return replace(self, log_p=normalized(draw.log_p - self.log_kept))

    def truth(self, draw: _Theta) -> _Theta:
        """The draw without the bias."""
        steeper = 1 + self.slope
        return _Theta(draw.B - self.shift, self.true_root(draw.L), self.log_p, draw.b / steeper, draw.sigma / steeper)

    def with_fit(self, limits: _Limits, L: Floats) -> _FitBias:
        """With the shift and the shrinkage of a truth whose Sigma is L L'."""
        inverse = np.linalg.inv(L)
        return replace(self, shift=limits.shift, shrink=lower_root(inverse @ limits.Sigma @ inverse.T))

    def with_shares(self, limits: _Limits, drawn: Floats, cell_size: Floats) -> _FitBias:
        """With what is kept of the true shares; ``drawn`` (C, K) are the log shares of the draw."""
        if (drawn[~(limits.kept > 0)] > np.log(CLOSE)).any():
            raise irreversible()
        # a share that rises lowers its own risk: whole steps would overshoot
        log_kept = self.log_kept + PACE * (np.log(np.maximum(limits.kept, CLOSE)) - self.log_kept)
        slope = self.slope + PACE * (limits.slope - self.slope)
        seen = without_prior(drawn, cell_size * (np.exp(self.log_p + log_kept)).sum(axis=1))
        return replace(self, log_kept=log_kept, slope=slope, log_p=normalized(seen - log_kept))


def _step(limit: _Limit, draw: _Theta, before: _FitBias) -> tuple[_FitBias, float]:
    """The bias of the draw without a bias, and how far the two are apart."""
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
    """Nodes (Q, dim) and weights (Q,) with the first two moments of N(0, I) exactly, dense in the tails.

    Radii cut the distribution of the distance into rings, each represented by its mean square;
    directions are even.
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
        half = np.linalg.qr(frames)[0].reshape(-1, dim)  # frames of orthogonal units: even, and of one length
        direction = np.vstack([half, -half])
    nodes = (radius[:, None, None] * direction).reshape(-1, dim)
    return nodes, np.repeat(mass, len(direction)) / len(direction)
