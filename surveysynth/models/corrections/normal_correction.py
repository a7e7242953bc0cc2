"""Fisher-consistent draws of a normal regression: a correction for privacy weights.

The alpha-weighted estimator of theta = (B, Sigma) does not tend to the truth: alpha falls with a
record's risk f = |log p|, and risk is high in the tails, so Sigma is too small (FBS); if
the risk is not symmetric in the residual (FBP), B is biased, too.  A corrected draw is the theta whose limit is the
draw,

    lim(theta_corrected) = theta_draw,

with lim as in fisher_consistency.py.  This limit is a weighted least-squares fit to the model's own distribution: B
solves the normal equations with weights alpha, Sigma is the weighted mean of residual cross products.  For FBS and a
risk at the true theta the equation reads

    Sigma_corrected kappa(Sigma_corrected) = Sigma_draw,
    kappa(Sigma) = E[alpha(D) D] / (dim E[alpha(D)]),   D ~ chi-squared_dim.

Shares of categories are part of theta (share_correction.py): p_lim ~ p E[alpha].  The predictor row of cell g and
category k has n_g p_g[k] expected records.  Given that a certain record is in the row, the expected number is larger by
1 - p_g[k].  This bounds the leverage of records in rare categories.

The correction of files with effects of PSUs is in psu_correction.py.
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
PACE = 0.7  # damping factor of steps in the logarithms of shares
NOBODY = 1e-6  # least expected records of a row; so few inform no coefficient


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
        Number of records in each row.
    weighting : Weighting
    rng : numpy.random.Generator

    Returns
    -------
    B, L : float arrays
        The corrected draws, with the same shapes.

    Raises
    ------
    ModelError
        The weights shrink the model so far that no theta leads to the draw.
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
        Number of records of each public pattern.
    B, L, X, weighting, rng
        As for :func:`correct`.  D may be 0, for categories alone.

    Returns
    -------
    B, L, log_p : float arrays
        The corrected draws, with the same shapes.
    spread : float array (m,)
        Factor that corrects the effects of PSUs on log shares; 1 without effects of PSUs.

    Raises
    ------
    ModelError
        The weights shrink the model so far that no theta leads to the draw.
    """
    pairs, tilts = representative_pairs(shares, X, size, rng), shares.effects
    draws = [
        _Theta(B_draw, L_draw, log_p, pairs.psu_effects(b), sigma)
        for B_draw, L_draw, log_p, b, sigma in zip(B, L, shares.log_p, tilts.b, tilts.sigma, strict=True)
    ]
    limit = _Limit.around(draws[0], pairs, weighting, shares.tilts is not None, rng)
    bias = _FitBias.none(draws[0])
    corrected, spread = [], []
    for draw in draws:  # draws are similar, so each search starts from the bias of the last draw
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
    """Parameters of one draw, or of the corrected draw.

    ``B`` (K, D) are coefficients, ``L`` (D, D) is the Cholesky factor of Sigma, ``log_p`` (C, K) are log shares of
    categories, ``b`` (N,) effects of PSUs on the log shares of pairs, and ``sigma`` is the standard deviation of the
    effects.
    """

    B: Floats
    L: Floats
    log_p: Floats
    b: Floats
    sigma: float


@dataclass(frozen=True)
class _Limits:
    """The limit of theta.

    ``shift`` is B_lim - B, 0 for coefficients without information; ``Sigma`` is Sigma_lim; ``kept`` (C, K) is E alpha;
    ``slope`` is the slope of log E alpha on the effects of PSUs.
    """

    shift: Floats
    Sigma: Floats
    kept: Floats
    slope: float


@dataclass(frozen=True)
class _Limit:
    """The map theta -> lim(theta).  It is smooth, because every theta uses the same random numbers.

    Attributes
    ----------
    pairs : Pairs
    weighting : Weighting
    z, mass : float arrays (Q, D), (Q,)
        Nodes and masses that represent residuals with Sigma = I.
    Sigma_roots : float array (S, D, D)
        Cholesky factors of posterior draws of Sigma, simulated for true Sigma = I.  The risks are maxima over these
        draws.
    noise : float array (S, columns of X, D)
        Standard normal numbers from which draws of B are made.
    share_noise : ShareNoise, optional
        Random numbers from which draws of shares are made; None for one category.
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
        """The limit map for parameters near ``theta``; ``tilted`` says whether PSUs have effects on shares."""
        S, (columns, D) = weighting.draws, theta.B.shape
        rank = _unweighted_fit(pairs, pairs.shares(theta.log_p, theta.b)).root.shape[1]
        roots = sigma_roots(pairs.size.sum() - rank, D, S, rng)
        noise = rng.standard_normal((S, rank if pairs.K == 1 else columns, D))
        share_noise = ShareNoise.drawn(S, tilted, rng) if pairs.K > 1 else None
        return _Limit(pairs, weighting, *normal_nodes(D), roots, noise, share_noise)

    @cached_property
    def row(self) -> Codes:
        """Number of the pair, which is its row of X, for each pair and node."""
        return np.repeat(np.arange(len(self.pairs.X)), len(self.z))

    def __call__(self, theta: _Theta) -> _Limits:
        """The limit: weighted least squares of residuals under the model, and mean privacy weights of categories."""
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
        """The risk f of each pair and node under theta: the maximum over S draws of the unweighted posterior."""
        X, row, fit = self.pairs.X, self.row, _unweighted_fit(self.pairs, p)
        E = fit.root @ self.noise[:, : fit.root.shape[1]] @ self.Sigma_roots.transpose(0, 2, 1)
        own = np.sqrt(np.maximum(1 - fit.leverage * fit.left, 0))[:, None, None]
        Y = ((X @ theta.B)[:, None] + own * e).reshape(len(row), e.shape[1])
        offset: gaussian.Offset | None = None
        if self.share_noise is None:
            seen, B = X, theta.B + E @ theta.L.T
        else:
            # ``left`` scales the error of x B_s and differs between pairs, so columns and coefficients are doubled
            seen = np.hstack([X, np.sqrt(fit.left)[:, None] * X])
            B = np.concatenate([np.broadcast_to(theta.B, E.shape), E @ theta.L.T], axis=1)
            offset = partial(self._log_shares, p, self.pairs.tilt_errors(p, theta.sigma))
        return gaussian.max_abs_log_density(
            Y, row, seen, B, theta.L @ self.Sigma_roots, self.weighting.log_base(Y), offset=offset
        )

    def _log_shares(self, p: Floats, error: Floats, i: Codes) -> Floats:
        """Draws (len(i), S) of the log shares of pairs and nodes ``i``."""
        assert self.share_noise is not None
        pair = self.row[i]
        return self.share_noise.log_shares(p[pair], self.pairs.records_in_cell[pair], self.pairs.K, error[pair])


@dataclass(frozen=True)
class _UnweightedFit:
    """A root of C0^-1, the leverage of each row, and the factors ``left`` by which a further record reduces it."""

    root: Floats
    leverage: Floats
    left: Floats


def _unweighted_fit(pairs: Pairs, p: Floats) -> _UnweightedFit:
    """The unweighted fit to records whose categories have the shares p (N,)."""
    X, mass = pairs.X, pairs.records * p
    size = mass if pairs.K == 1 else np.maximum(mass, NOBODY)
    R, *_ = sufficient_statistics(X, np.arange(len(X)), np.zeros((len(X), 1)), size).reduced()
    root = posterior_root(R)
    leverage = ((X @ root) ** 2).sum(axis=1)
    return _UnweightedFit(root, leverage, 1 / (1 + (1 - p) * leverage))


@dataclass(frozen=True)
class _FitBias(Bias):
    """The bias by privacy weights: B_lim = B + shift, L_lim = L shrink, p_lim ~ p kept, b_lim = b (1 + slope).

    ``log_p`` (C, K) are the corrected log shares of the draw.
    """

    shift: Floats
    log_kept: Floats
    slope: float
    log_p: Floats

    @staticmethod
    def none(draw: _Theta) -> _FitBias:
        """No bias."""
        eye = np.asarray(np.eye(len(draw.L)), dtype=np.float64)
        return _FitBias(eye, np.zeros_like(draw.B), np.zeros_like(draw.log_p), 0.0, draw.log_p)

    def for_draw(self, draw: _Theta) -> _FitBias:
        """The same bias, applied to another draw."""
        return replace(self, log_p=normalized(draw.log_p - self.log_kept))

    def truth(self, draw: _Theta) -> _Theta:
        """The draw, corrected for the bias."""
        steeper = 1 + self.slope
        return _Theta(draw.B - self.shift, self.true_root(draw.L), self.log_p, draw.b / steeper, draw.sigma / steeper)

    def with_fit(self, limits: _Limits, L: Floats) -> _FitBias:
        """The bias, with shift and shrinkage from ``limits`` at Sigma = L L'."""
        inverse = np.linalg.inv(L)
        return replace(self, shift=limits.shift, shrink=lower_root(inverse @ limits.Sigma @ inverse.T))

    def with_shares(self, limits: _Limits, drawn: Floats, cell_size: Floats) -> _FitBias:
        """The bias, with ``kept`` and ``slope`` moved towards ``limits``; ``drawn`` (C, K): log shares of the draw."""
        if (drawn[~(limits.kept > 0)] > np.log(CLOSE)).any():
            raise irreversible()
        # a larger share has a lower risk, so full steps would overshoot
        log_kept = self.log_kept + PACE * (np.log(np.maximum(limits.kept, CLOSE)) - self.log_kept)
        slope = self.slope + PACE * (limits.slope - self.slope)
        seen = without_prior(drawn, cell_size * (np.exp(self.log_p + log_kept)).sum(axis=1))
        return replace(self, log_kept=log_kept, slope=slope, log_p=normalized(seen - log_kept))


def _step(limit: _Limit, draw: _Theta, before: _FitBias) -> tuple[_FitBias, float]:
    """The bias at the draw corrected by ``before``, and its distance from ``before``."""
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
    """Nodes (Q, dim) and weights (Q,) with exactly the first two moments of N(0, I), dense in the tails.

    The distribution of the distance from 0 is cut into rings.  The nodes of a ring lie at the root mean square distance
    of the ring, in evenly spread directions.
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
