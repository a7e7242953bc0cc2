"""Fisher-consistent draws: undo what the privacy weights do to a normal regression, by its own rule.

The alpha-weighted estimator of theta = (B, Sigma) does not tend to the truth: alpha falls with a
record's risk f = |log p|, risk is high in the tails, so Sigma comes out too small (FBS), and
where the risk is not symmetric in the residual (FBP) B moves too.  If theta is the truth, the
estimator tends to

    lim(theta) = argmax_t  sum_x n_x E_theta[ alpha(f(Y, x)) log p(Y | x; t) ],

a weighted least-squares fit to the model's own distribution: B solves the normal equations with
weights alpha, Sigma is the weighted mean of residual cross products.  A corrected draw is the
theta whose limit is the draw,  lim(theta_corrected) = theta_draw.  For FBS and a risk at the true
theta this reads  kappa(Sigma) = E[alpha(D) D] / (dim E[alpha(D)]),  D ~ chi-squared_dim, and
Sigma_corrected kappa(Sigma_corrected) = Sigma_draw.

Risk is in fact a maximum over the S draws of the unweighted posterior, which is larger than
|log p| at the truth, and more so where few records stand behind a coefficient.  That posterior is
known under the model, too: Sigma_s ~ inverse-Wishart(n - K, (n - K) Sigma) and B_s ~ N(B, C0^-1,
Sigma_s), C0 = sum n_x x x'.  f is taken as the maximum over S draws from it, for a residual that
is sqrt(1 - h) of the true one: a record pulls its own fit by its leverage h.

**Categories.**  Where record i has category k with the share p_g[k] of its public cell g, and (y, w) is
normal given x(k), the log share is part of the risk and weights press on rare categories:

    p_lim_g[k] ~ p_g[k] E_theta[ alpha | g, k ].

Shares behind the risks are Beta, as a Dirichlet posterior's are: a record of category k is itself one of
its cell's n_g, so the category has 1 + (n_g - 1) p_g[k] of them.  Likewise its row of predictors has
1 - p_g[k] records more than the n_g p_g[k] of any row, which bounds the leverage of rare ones.

The prior counts as one record a cell, 1 / K in each category, beside the A_g = n_g E[alpha] of the data: that is taken
off, too, as far as a share is larger than what the prior gives it.

Where PSUs tilt the shares, p_gc[k] ~ p_g[k] exp(b_c[k]), a category that is common in a PSU is less risky there,
so log E[alpha | g, k, c] rises with b_c[k]: about A_g[k] + slope b_c[k].  Then log p_lim_g[k] = log p_g[k] + A_g[k] but
for a constant, and the effects come out 1 + slope times as large as they are.

**Effects of PSUs** (see effects.py).  A PSU tells of its effect u_c by its weighted mean residual
m_c = sum alpha e / a_c, a_c = sum alpha.  The pseudo likelihood takes the variance of m_c for T + Sigma_lim / a_c.
In truth it is, e_g being the sum of residuals over a unit of privacy g (one record, or several with one alpha),

    T - K T_c K + V_c,   V_c = sum_g alpha_g^2 e_g e_g' / a_c^2,   K = 1 - sum_g alpha_g e_g e_g' / (Sigma sum alpha),

T_c = T (1 + n_c T / Sigma)^-1: alpha is centred at the effect that the PSU's other records find, which misses u_c
by about N(0, T_c), and draws m_c towards it.  V_c is less than Sigma_lim / a_c, so T comes out too small.  Its
score is that difference weighted by the squared information (a_c / (1 + a_c tau))^2, so

    T_true = T_draw + deficit,   deficit = the weighted mean of Sigma_lim / a_c - V_c + K T_c K,

and Sigma_lim is the residual sum of squares within PSUs over sum_c (a_c - 1).  These are means over
simulated records of some thousand: whole PSUs of the file, with its public predictors and units.  Where the
deficit exceeds T itself the draw lies at the floor that tau's prior sets, and T_true comes out too large.

Everything here is computed from drawn parameters, the public predictors, their public cell sizes,
S, and the constants of the weight map.  Where these were given it is post-processing; c1 that was tuned on the file
tells of it, and the correction is then not covered by epsilon.  It takes the normal model at its
word.  Where residuals have heavier tails than the normal, the true records were weighted down
more than the model says, and the correction is too small; under skewness it is off in the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import logsumexp
from scipy.stats import chi2, invwishart

from ...design.columns import codes
from ...errors import guarded
from ..shared.corrections import PATTERNS, beyond, some_patterns
from ..shared.sufficient_statistics import SufficientStatistics, sufficient_statistics
from . import density as gaussian

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

RADII, ANGLES, DIRECTIONS = 24, 8, 64  # quadrature nodes
STEPS, CLOSE = 50, 1e-4  # fixed-point iteration: most steps, and the relative change at which it ends
WORST = 0.1  # a scale that shrinks below this share of itself is beyond repair
RECORDS = 3000  # simulated ones, of whole PSUs
PACE = 0.7  # share of a step that the logarithms of shares take
NOBODY = 1e-6  # records: a row that fewer have informs no coefficient


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


@dataclass(frozen=True)
class Shares:
    """Shares of K categories within public cells, and the predictor rows that categories make.

    Attributes
    ----------
    log_p : float array (m, C, K)
        Released draws of the logarithms; cell by cell the shares add up to 1.
    cell : int array (P,)
        Cell, 0 to C - 1, of each public pattern: of each distinct row of public predictors.
    row : int array (P, K)
        Row of ``X`` that each public pattern has with each category.
    tilts : Tilts, optional
        Where PSUs have effects on the shares.
    """

    log_p: Floats
    cell: Codes
    row: Codes
    tilts: Tilts | None = None


@dataclass(frozen=True)
class Tilts:
    """Effects of R PSUs on log shares, as the model draws them: p_gc[k] ~ p_g[k] exp(b_c[k]).

    Attributes
    ----------
    b : float array (m, R, K)
        Of PSUs at random, for each released draw; they add up to 0 over the categories.
    sigma : float array (m,)
        Standard deviation of the effects of PSUs on log odds.
    size : float array (R,)
        Records of these PSUs.
    """

    b: Floats
    sigma: Floats
    size: Floats


def correct(
    B: Floats,
    L: Floats,
    X: Floats,
    size: Floats,
    alpha: Callable[[Floats], Floats],
    log_base: Callable[[Floats], Floats],
    draws: int,
    rng: np.random.Generator,
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
    alpha : function
        Privacy weights from risks: the weight map with its constants.
    log_base : function
        Log of what a record density has beside the normal one, from working-scale values.
    draws : int
        S, the number of draws behind each record's risk.
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
    B, L, _, _ = correct_with_shares(B, L, one, X, size, alpha, log_base, draws, rng)
    return B, L


def correct_with_shares(
    B: Floats,
    L: Floats,
    shares: Shares,
    X: Floats,
    size: Floats,
    alpha: Callable[[Floats], Floats],
    log_base: Callable[[Floats], Floats],
    draws: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Solve lim(theta, p) = (B, L L', p_draw) for theta and the shares of categories, draw by draw.

    Parameters
    ----------
    shares : Shares
    size : float array (P,)
        Records with each public pattern.
    B, L, X, alpha, log_base, draws, rng
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
    (m, C, K), D, tilts = shares.log_p.shape, L.shape[1], shares.tilts
    cell_size = np.bincount(shares.cell, size, C)
    among = shares.cell if K > 1 else np.zeros_like(shares.cell)
    some, size = some_patterns(size, among, max(PATTERNS, 8 * X.shape[1]) // K, rng)
    cell, X = shares.cell[some], X[shares.row[some].ravel()]  # a row of X for each pair (pattern, category)
    if tilts is not None:  # the same in each of R PSUs
        R = tilts.b.shape[1]
        cell, size, X = np.tile(cell, R), np.tile(size / R, R), np.tile(X, (R, 1))
    pair = (cell[:, None] * K + np.arange(K)).ravel()  # among cells and categories
    b_draw, error = np.zeros((m, len(pair))), np.zeros(len(pair))
    if tilts is not None:
        b_draw = np.repeat(tilts.b, len(some), axis=1).reshape(m, len(pair))

    def shares_of_rows(log_p: Floats, b: Floats) -> Floats:
        tilted = log_p[cell] + b.reshape(-1, K)
        return np.asarray(np.exp(_normalized(tilted)).ravel())

    def information(p: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Records with each row of X, the root of C0^-1, leverages, and what is left of them with a record there."""
        mass = np.repeat(size, K) * p
        R, *_ = sufficient_statistics(
            X, np.arange(len(X)), np.zeros((len(X), 1)), mass if K == 1 else np.maximum(mass, NOBODY)
        ).reduced()
        root = _posterior_root(R)
        leverage = ((X @ root) ** 2).sum(axis=1)
        return mass, root, leverage, 1 / (1 + (1 - p) * leverage)

    rank = information(shares_of_rows(shares.log_p[0], b_draw[0]))[1].shape[1]
    df = size.sum() - rank
    T = _sigma_roots(df, D, draws, rng)
    noise = rng.standard_normal((draws, rank if K == 1 else X.shape[1], D))
    beta_noise = None if K == 1 else (rng.standard_normal((2, draws)), -rng.standard_exponential((2, draws)))
    tilt_noise = None if tilts is None else rng.standard_normal(draws)
    z, weight = normal_nodes(D)
    pattern = np.repeat(np.arange(len(X)), len(z))

    def limit(B: Floats, L: Floats, p: Floats, error: Floats) -> tuple[Floats, Floats, Floats]:
        """B_lim - B, which is 0 where no record sees B, Sigma_lim, and E alpha of the rows of X."""
        mass, root, leverage, left = information(p)
        E = root @ noise[:, : root.shape[1]] @ T.transpose(0, 2, 1)
        own = np.sqrt(np.maximum(1 - leverage * left, 0))[:, None, None]
        mean, e = (X @ B)[:, None], z @ L.T
        fit_by_itself = (mean + own * e).reshape(len(pattern), D)
        offset: gaussian.Offset | None = None
        if beta_noise is None:
            seen, B_draws = X, B + E @ L.T
        else:
            # x B_s errs as far as the record itself lets it: rows and coefficients are twice as wide
            seen = np.hstack([X, np.sqrt(left)[:, None] * X])
            B_draws = np.concatenate([np.broadcast_to(B, E.shape), E @ L.T], axis=1)
            log_share = _share_draws(p, np.repeat(cell_size[cell], K), K, beta_noise, error, tilt_noise)

            def offset(i: Codes) -> Floats:
                return log_share(pattern[i])

        f = gaussian.max_abs_log_density(
            fit_by_itself, pattern, seen, B_draws, L @ T, log_base(fit_by_itself), offset=offset
        )
        a = alpha(f)
        E_alpha = a.reshape(-1, len(z)) @ weight
        if D == 0:
            return B, L, E_alpha
        fitted = sufficient_statistics(X, pattern, np.tile(e, (len(X), 1)), a * np.outer(mass, weight).ravel())
        if not fitted.A > 0:
            raise beyond()
        R, Z0, S0 = fitted.reduced()
        return np.linalg.pinv(R) @ Z0, S0 / fitted.A, E_alpha

    # what the weights do: B_lim = B + shift, L_lim = L shrink, p_lim ~ p kept; draws are alike, so each
    # starts from the last
    shift, shrink = np.zeros((X.shape[1], D)), np.asarray(np.eye(D), dtype=np.float64)
    log_kept, slope = np.zeros((C, K)), 0.0
    corrected = []
    for draw, (B_draw, L_draw, log_p_draw) in enumerate(zip(B, L, shares.log_p, strict=True)):
        log_p = _normalized(log_p_draw - log_kept)
        seen = log_p_draw
        for _ in range(STEPS):
            truth, root = B_draw - shift, L_draw @ np.linalg.inv(shrink)
            before = shift, shrink, log_p, slope
            b = b_draw[draw] / (1 + slope)
            p = shares_of_rows(log_p, b)
            if tilts is not None:
                error = _tilt_errors(p, tilts.sigma[draw] / (1 + slope), np.repeat(tilts.size, len(some) * K))
            shift, Sigma_lim, E_alpha = limit(truth, root, p, error)
            change = 0.0
            if D > 0:
                inverse = np.linalg.inv(root)
                shrink = _root(inverse @ Sigma_lim @ inverse.T)
                change = np.abs(X @ (shift - before[0])).max() / np.abs(root).max() + np.abs(shrink - before[1]).max()
            if K > 1:
                kept, steeper = _kept(E_alpha, pair, np.repeat(size, K), p, b, C * K)
                if (log_p_draw.ravel()[~(kept > 0)] > np.log(CLOSE)).any():
                    raise beyond()
                # a share that rises lowers its own risk: whole steps would overshoot
                log_kept += PACE * (np.log(np.maximum(kept, CLOSE)).reshape(C, K) - log_kept)
                slope += PACE * (steeper - slope)
                seen = _without_prior(log_p_draw, cell_size * (np.exp(log_p + log_kept)).sum(axis=1))
                log_p = _normalized(seen - log_kept)
                change += np.abs(np.exp(log_p) - np.exp(before[2])).max() + abs(slope - before[3])
            if change < CLOSE:
                break
            if not (np.isfinite(shrink).all() and shrink.diagonal().min(initial=np.inf) > WORST):
                raise beyond()
        else:
            raise beyond()
        released = log_p if K > 1 else log_p_draw
        corrected.append((B_draw - shift, L_draw @ np.linalg.inv(shrink), released, 1 / (1 + slope)))
    B_corrected, L_corrected, log_p_corrected, spread = zip(*corrected, strict=True)
    return np.array(B_corrected), np.array(L_corrected), np.array(log_p_corrected), np.array(spread)


def _kept(E_alpha: Floats, pair: Codes, size: Floats, p: Floats, b: Floats, pairs: int) -> tuple[Floats, float]:
    """E alpha of cells and categories (pairs,), and how fast its logarithm rises with the effects of PSUs.

    Where PSUs have effects, both are of a weighted regression of log E alpha on b: a PSU informs on
    log odds by its records times p (1 - p).
    """
    if not b.any():
        return np.bincount(pair, size * E_alpha, pairs) / np.bincount(pair, size, pairs), 0.0
    log_alpha, weight = np.log(np.maximum(E_alpha, CLOSE)), size * np.maximum(p * (1 - p), CLOSE)
    total = np.bincount(pair, weight, pairs)

    def centred(x: Floats) -> Floats:
        return x - (np.bincount(pair, weight * x, pairs) / total)[pair]

    slope = float(weight @ (centred(b) * centred(log_alpha)) / (weight @ centred(b) ** 2))
    return np.exp(np.bincount(pair, weight * (log_alpha - slope * b), pairs) / total), slope


def _without_prior(log_p: Floats, A: Floats) -> Floats:
    """Log shares (C, K) without the prior's 1 / K of a record, where a cell's records weigh A (C,) in all.

    p_draw tends to (1 / K + A p) / (1 + A).  A share below the prior's has nothing left: almost nothing is kept.
    """
    K = log_p.shape[1]
    p = ((1 + A[:, None]) * np.exp(log_p) - 1 / K) / np.maximum(A[:, None], CLOSE)
    return _normalized(np.log(np.maximum(p, CLOSE * np.exp(log_p))))


def _tilt_errors(p: Floats, sigma: float, n_c: Floats) -> Floats:
    """Posterior standard deviations of effects on the log odds of rows' categories, by a normal approximation."""
    return np.asarray(sigma / np.sqrt(1 + sigma**2 * n_c * p * (1 - p)))


def correct_with_effects(
    B: Floats,
    L: Floats,
    tau: Floats,
    X: Floats,
    pattern: Codes,
    psu: Codes,
    unit: Codes | None,
    alpha: Callable[..., Floats],
    log_base: Callable[[Floats], Floats],
    draws: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Sigma and T, the covariances within and between PSUs, whose limits are those of each draw.

    Coefficients stay: where the risk is symmetric in the residual, as that of FBS is, they need no correction.

    Parameters
    ----------
    B, L : float arrays (m, K, D), (m, D, D)
        Released draws: coefficients and Cholesky factors of Sigma.
    tau : float array (m, D)
        T = L diag(tau) L' of each.
    X, pattern, psu : float array (G, K), int arrays (n,)
        Distinct predictor rows, and the row and the PSU, 0 to C - 1, of each record.
    unit : int array (n,), optional
        Units of privacy, of several records of one PSU: alpha is a function of the sums of their log densities, and
        of their numbers of records, evened over the simulated units as they were over the file's.
    alpha, log_base, draws, rng
        As in :func:`correct`.

    Returns
    -------
    L, T_root : float arrays (m, D, D)
        Lower Cholesky factors of Sigma and T.

    Raises
    ------
    ModelError
        The weights shrink the model so far that no truth explains the draw.
    """
    D, C = L.shape[1], int(psu.max()) + 1
    n_c = np.bincount(psu, minlength=C)
    s = np.asarray(csr_array((np.ones(len(psu)), (psu, pattern)), shape=(C, len(X))) @ X)
    C0 = X.T @ (np.bincount(pattern, minlength=len(X))[:, None] * X)
    records, group, of = _some_psus(psu, rng)
    among = np.arange(len(records)) if unit is None else codes(group, unit[records])
    pattern, n_g = pattern[records], n_c[of][:, None]

    z, z_u = _standardized(rng, len(records), D), _standardized(rng, len(of), D)
    shrunk = (n_c[:, None] * tau[0] / (1 + n_c[:, None] * tau[0])).mean(axis=1).sum()
    df = max(len(psu) - np.linalg.matrix_rank(C0) - shrunk, D + 1.0)
    T = _sigma_roots(df, D, draws, rng)
    noise = rng.standard_normal((draws, X.shape[1], D))
    nobody, ones = np.zeros((len(C0), 0)), np.ones(len(records))

    def fit_by_itself(ratio: Floats) -> tuple[Floats, Floats]:
        """Residuals and errors of B in units of L, where tau is ``ratio``."""
        E, own = np.empty_like(noise), np.empty_like(z)
        for j, r in enumerate(ratio):
            found = (r / (1 + n_c * r))[:, None] * s  # of B's error in each PSU, its effect takes this for its own
            R, *_ = SufficientStatistics(0.0, C0 - s.T @ found, nobody, np.zeros((0, 0))).reduced()
            root = _posterior_root(R)
            E[:, :, j] = noise[:, : root.shape[1], j] @ root.T
            pull = ((X @ root)[pattern] * ((X[pattern] - found[of][group]) @ root)).sum(axis=1)
            own[:, j] = np.sqrt(np.maximum(1 - pull, 0))
        return own * z + (np.sqrt(ratio) * z_u)[group], E @ T.transpose(0, 2, 1)

    def limit(B: Floats, L: Floats, ratio: Floats, information: Floats) -> tuple[Floats, Floats]:
        """Sigma_lim and the deficit of T, in units of L."""
        residual, E = fit_by_itself(ratio)
        Y = X[pattern] @ B + residual @ L.T
        psus = gaussian.PSUs(
            group, ones, n_g[:, 0].astype(np.float64), s[of], _sums(group, Y, len(of)), np.tile(ratio, (draws, 1)), None
        )
        of_unit = None if unit is None else among
        f = gaussian.max_abs_log_density(Y, pattern, X, B + E @ L.T, L @ T, log_base(Y), unit=of_unit, psus=psus)
        by_unit = alpha(f) if unit is None else alpha(f, np.bincount(among))
        a = by_unit[among]
        a_c = np.bincount(group, a, len(of))
        seen = a_c > 0
        total = _sums(among, z, len(by_unit))
        weighted = by_unit[:, None] * total
        group_of_unit = np.zeros(len(by_unit), dtype=np.intp)
        group_of_unit[among] = group
        products = np.einsum("gi,gj->gij", weighted, weighted).reshape(-1, D * D)
        V = (_sums(group_of_unit, products, len(of))[seen] / a_c[seen, None] ** 2).reshape(-1, D, D)
        a_c, sums = a_c[seen], _sums(group, a[:, None] * z, len(of))[seen]
        within, df = (z.T * a) @ z - (sums.T / a_c) @ sums, (a_c - 1).sum()
        if not df > WORST * a_c.sum():
            raise beyond()
        Sigma_lim = within / df
        K = np.eye(D) - weighted.T @ total / a_c.sum()
        T_c = (ratio / (1 + n_g[seen] * ratio))[:, :, None] * np.eye(D)
        lack = Sigma_lim / a_c[:, None, None] - V + K @ T_c @ K
        g = a_c[:, None] / (1 + a_c[:, None] * information)
        weight = g[:, :, None] * g[:, None]
        return Sigma_lim, (weight * lack).sum(axis=0) / weight.sum(axis=0)

    shrink, deficit = np.asarray(np.eye(D), dtype=np.float64), np.zeros((D, D))
    corrected = []
    for B_draw, L_draw, tau_draw in zip(B, L, tau, strict=True):
        for _ in range(STEPS):
            root = L_draw @ np.linalg.inv(shrink)
            T_root = _add(L_draw * np.sqrt(tau_draw), root @ deficit @ root.T)
            before = shrink, deficit
            ratio = (np.linalg.solve(root, T_root) ** 2).sum(axis=1)
            Sigma_lim, deficit = limit(B_draw, root, ratio, tau_draw)
            shrink = _root(Sigma_lim)
            change = np.abs(shrink - before[0]).max() + np.abs(deficit - before[1]).max()
            if change < CLOSE:
                break
            if not (np.isfinite(shrink).all() and shrink.diagonal().min() > WORST):
                raise beyond()
        else:
            raise beyond()
        root = L_draw @ np.linalg.inv(shrink)
        corrected.append((root, _add(L_draw * np.sqrt(tau_draw), root @ deficit @ root.T)))
    L_corrected, T_roots = zip(*corrected, strict=True)
    return np.array(L_corrected), np.array(T_roots)


def _some_psus(psu: Codes, rng: np.random.Generator) -> tuple[Codes, Codes, Codes]:
    """Records of PSUs at random, as often as it takes; the number of the PSU of each, and the PSUs by number."""
    n_c = np.bincount(psu)
    order = np.argsort(psu, kind="stable")
    chosen = np.concatenate([rng.permutation(np.flatnonzero(n_c)) for _ in range(-(-RECORDS // len(psu)))])
    chosen = chosen[: np.searchsorted(np.cumsum(n_c[chosen]), RECORDS) + 1]
    parts = np.split(order, np.cumsum(n_c)[:-1])
    return np.concatenate([parts[c] for c in chosen]), np.repeat(np.arange(len(chosen)), n_c[chosen]), chosen


def _standardized(rng: np.random.Generator, n: int, D: int) -> Floats:
    """Normal numbers (n, D), whose first two moments are exact where n allows it."""
    z = rng.standard_normal((n, D))
    if n <= D + 1:
        return z
    z -= z.mean(axis=0)
    return np.asarray(np.linalg.solve(np.linalg.cholesky(z.T @ z / n), z.T).T)


def _sums(group: Codes, x: Floats, size: int) -> Floats:
    """Sums over the rows of each group: (size, columns)."""
    return np.column_stack([np.bincount(group, column, size) for column in x.T])


def _add(root: Floats, change: Floats) -> Floats:
    """Lower Cholesky factor of root root' + change, no direction of which shrinks below ``WORST`` of itself."""
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ change @ inverse.T)
    grown = root @ (vectors * np.sqrt(np.maximum(1 + values, WORST)))
    triangle = np.linalg.qr(grown.T)[1].T
    return np.asarray(triangle * np.where(triangle.diagonal() < 0, -1, 1))


def _sigma_roots(df: float, D: int, draws: int, rng: np.random.Generator) -> Floats:
    """Cholesky factors of posterior draws of Sigma where it is 1: (draws, D, D)."""
    if D == 0:
        return np.empty((draws, 0, 0))
    Sigma = invwishart.rvs(df, df * np.eye(D), size=draws, random_state=rng).reshape(draws, D, D)
    return np.asarray(np.linalg.cholesky(Sigma))


def _posterior_root(R: Floats) -> Floats:
    """Root (columns, rank) of (R'R)^-1, the same whatever the order of the rows that R'R was made of."""
    triangle = np.linalg.qr(R)[1]
    return np.asarray(np.linalg.pinv(triangle * np.where(triangle.diagonal() < 0, -1, 1)[:, None]))


def _share_draws(
    p: Floats, n: Floats, K: int, noise: tuple[Floats, Floats], error: Floats, tilt_noise: Floats | None
) -> Callable[[Codes], Floats]:
    """Draws of log shares (pairs, S) of some pairs: Beta, from gammas that move smoothly with the true p.

    ``error`` (pairs,) times ``tilt_noise`` (S,) is what the effects of PSUs add to log odds.
    """
    here, elsewhere = 1 / K + 1 + (n - 1) * p, 1 - 1 / K + (n - 1) * (1 - p)

    def log_gamma(shape: Floats, z: Floats, log_u: Floats) -> Floats:
        # Gamma(a) = Gamma(a + 1) U^(1/a), and Gamma(a + 1) after Wilson and Hilferty (1931)
        c = shape[:, None] + 1
        cube_root = np.maximum(1 - 1 / (9 * c) + z / (3 * np.sqrt(c)), 0.01)
        return np.asarray(np.log(c) + 3 * np.log(cube_root) + log_u / (c - 1))

    def draws(pairs: Codes) -> Floats:
        ours, others = (log_gamma(shape[pairs], z, u) for shape, z, u in zip((here, elsewhere), *noise, strict=True))
        if tilt_noise is not None:
            ours = ours + error[pairs, None] * tilt_noise
        return np.asarray(ours - np.logaddexp(ours, others))

    return draws


def _normalized(log_p: Floats) -> Floats:
    return np.asarray(log_p - logsumexp(log_p, axis=-1, keepdims=True))


def _root(Sigma: Floats) -> Floats:
    return guarded(lambda: np.asarray(np.linalg.cholesky(Sigma)), np.linalg.LinAlgError, lambda kind: beyond())
