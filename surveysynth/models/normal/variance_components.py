"""Posterior of coefficients, residual covariance and variance ratios of effects in FBS, if PSUs or strata have effects.

The model is

    Y_i = B' x_i + v_h(i) + u_c(i) + e_i,   e ~ N(0, Sigma),  u_c ~ N(0, T_1),  v_h ~ N(0, T_2),

for PSU c in stratum h, with Sigma = L L' and T_k = L diag(tau_k) L'.  Row j of L^-1 times Y, "column j" below, is a
univariate mixed model with variance ratios tau_1j and tau_2j (:mod:`surveysynth.models.normal.cluster_effects`).  Let
a_c be the sum of the privacy weights alpha, and g_c the sum of alpha [x, Y], over the records of PSU c.  If u_c is
integrated out, the cross products

    G = sum_i alpha_i [x, Y][x, Y]'   become   G(tau) = G - sum_c w_c g_c g_c',   w_c = tau_1 / (1 + a_c tau_1),

and the log likelihood of each column decreases by half the **log determinant** sum_c log(1 + a_c tau_1).  G(tau) also
equals the cross products within PSUs plus sum_c q_c m_c m_c', with m_c = g_c / a_c and q_c = a_c / (1 + a_c tau_1).  So
PSU c gives as much information on its mean as q_c independent records.  Effects of strata are integrated out in the
same way, with PSUs (q_c, m_c) in the role of records (alpha_i, Y_i).

**A fit needs only G(tau) and the log determinant, at one or two tau for each column.**  Both are smooth functions of
phi = log(1 + a_bar tau), where a_bar is the largest a: the nearest singularities have imaginary part pi.  Both are
computed once at Chebyshev nodes.  The computing time of later fits, draws and gradients (``stan/fbs_effects.stan``)
then does not depend on the number of PSUs.

**Under the flat prior the columns are independent regressions.**  p(B, Sigma) ~ |Sigma|^-(D+1)/2 is a product over rows
of L^-1.  So column j is regressed on the predictors and on the columns before it, and

    p(tau_j) ~ |G_a|^-1/2 kappa^-(A - rank - D + j)/2 exp(-log determinant / 2) p0(tau_j),

where G_a is the part of G(tau_j) for the predictors and earlier columns, kappa the residual sum of squares of column
j, and p0 the prior.  This density of one or two dimensions is sampled on a grid.  The other parameters have chi-squared
and normal distributions.  No Markov chains are needed.

Shapes: S draws, K predictors, D columns of Y, C groups (PSUs, or strata if only strata have effects).  ``levels`` is 2
if both PSUs and strata have effects, and 1 otherwise.  rank is the rank of the predictors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.special import logsumexp

from ...engines import Diagnostics
from ...errors import ModelError, guarded
from ..draws import Sampler
from .cluster_effects import BLOCK, GroupedStatistics, membership

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

TOLERANCE = 1e-14  # error of the Chebyshev series, relative to the largest value
GRID, FINE = {1: 100, 2: 40}, {1: 4096, 2: 512}  # points per axis: evaluated, and interpolated for draws
ZOOMS = 20  # most steps from the whole range to the part with the mass; usually four or five steps
NEGLIGIBLE = 30.0  # difference from the largest log density at which a grid ends
CENTRING_DRAWS = 1000  # draws of the flat posterior, which define the coordinates of the sampler


@dataclass(frozen=True)
class EffectsDraws:
    """Draws of coefficients, residual covariance and variance ratios in FBS with effects of PSUs or strata.

    The posterior is integrated over the effects.  The draws of a chain are consecutive.
    """

    B: Floats  # (S, K, D) coefficients
    L: Floats  # (S, D, D) lower Cholesky factor of Sigma
    tau: Floats  # (S, levels, D) variance ratios of PSUs before strata: T_k = L diag(tau_k) L'
    chain: Codes  # (S,)
    diagnostics: Diagnostics
    engine: str
    version: str


def sample_with_effects(
    statistics: GroupedStatistics, prior: Literal["paper", "independent", "flat"], sampler: Sampler
) -> EffectsDraws:
    """Draw the parameters of FBS from the pseudo posterior, integrated over effects of PSUs and strata.

    The parameters are the coefficients B, the residual covariance Sigma and the variance ratios tau of effects.  B and
    Sigma have the priors of FBS, and tau_kj ~ half-normal(0, 1).  Under the flat prior the posterior is drawn without
    Markov chains, with tau on a grid.  The caller must check that the sum of the privacy weights alpha is large enough
    and, under the flat prior, that each predictor row is identified.

    Raises
    ------
    ModelError
        The predictors differ too much in size for a proper prior.
    """
    model = integrate(statistics)
    if prior == "flat":
        size = sampler.chains * sampler.draws
        L, phi = _draw_flat(model, size, sampler.rng)
        tau = model.tau(phi)
        B = draw_coefficients(model, L, tau, None, sampler.rng)
        independent = Diagnostics(ess_bulk=size, ess_tail=size, exact=True)
        return EffectsDraws(B, L, tau, np.zeros(size, dtype=np.intp), independent, "numpy", np.__version__)
    fit = sampler.sample("fbs_effects", _stan_data(model, prior, sampler.rng))
    v = {name: a.reshape(-1, *a.shape[2:]) for name, a in fit.values.items()}
    root = v["sigma_beta"].transpose(0, 2, 1)[:, :, :, None] * np.eye(model.R.shape[1])
    if prior == "paper":
        root = root @ v["L_Omega"][:, None]
    B = or_refuse(lambda: draw_coefficients(model, v["L"], v["tau"], root, sampler.rng))
    return EffectsDraws(B, v["L"], v["tau"], sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)


def or_refuse(draw: Callable[[], Floats]) -> Floats:
    """Return ``draw()``; raise ModelError if the predictors differ too much in size for a proper prior."""
    return guarded(
        draw,
        np.linalg.LinAlgError,
        lambda kind: ModelError(
            "the coefficients cannot be drawn: the predictors differ too much in size for this prior. Give numeric "
            "predictors in larger units (thousands), or use prior='flat'"
        ),
    )


# ---- the likelihood of (B, L, tau)


@dataclass(frozen=True, repr=False)
class Integrated:
    """The likelihood of FBS, integrated over effects of PSUs and strata, as a table by the variance ratios of effects.

    phi = log(1 + a_bar tau) stands for the variance ratios tau.  The likelihood depends on phi through cross products G
    and a log determinant (see the module docstring).  G is computed for predictors inverse' x and residuals L_0^-1 (Y -
    B^' x), where B^ are the weighted least-squares coefficients.  For each level, ``series`` has the Chebyshev
    coefficients of a few functions of phi.  The elements of G (lower triangle, by rows) and the log determinant are
    linear combinations of these functions or, if there are two levels, of products of a function of each level.
    ``table`` has their coefficients.
    """

    A: float
    R: Floats  # (rank, K), as in :mod:`.joint_regression`
    inverse: Floats  # (K, rank) right inverse of R
    Z0: Floats  # (rank, D)
    L_0: Floats  # (D, D) Cholesky factor of S0 / A
    a_bar: Floats  # (levels,) largest a
    reach: Floats  # (levels,) largest phi; the smallest phi is 0
    series: tuple[Floats, ...]  # (terms, polynomials) for each level
    table: Floats  # (entries + 1, terms) or (entries + 1, terms_1 terms_2)

    def tau(self, phi: Floats) -> Floats:
        """Return the variance ratios tau of effects, given the transformed ratios phi = log(1 + a_bar tau)."""
        return np.asarray(np.expm1(phi) / self.a_bar[:, None])

    def factors(self, phi: Floats) -> tuple[Floats, Floats]:
        """Return two parts of the tabulated likelihood at each point ``phi``: Cholesky factors and log determinants.

        ``phi`` has the shape (N, levels).  The factors (N, rank + D, rank + D) are of the cross products G of
        predictors before residuals, and the log determinants have the shape (N,).
        """
        n = len(self.R) + len(self.L_0)
        G, log_det = np.empty((len(phi), n, n)), np.empty(len(phi))
        row, column = np.tril_indices(n)
        step = max(1, BLOCK // self.table.shape[1])
        for i in range(0, len(phi), step):
            part = slice(i, min(len(phi), i + step))
            values = self._basis(phi[part]) @ self.table.T
            G[part, row, column] = G[part, column, row] = values[:, :-1]
            log_det[part] = values[:, -1]
        return np.asarray(np.linalg.cholesky(G), dtype=np.float64), log_det

    def _basis(self, phi: Floats) -> Floats:
        x = 2 * np.minimum(phi / self.reach, 1) - 1
        f = [chebvander(x[:, k], c.shape[1] - 1) @ c.T for k, c in enumerate(self.series)]
        return f[0] if len(f) == 1 else np.asarray((f[0][:, :, None] * f[1][:, None]).reshape(len(x), -1))


def integrate(statistics: GroupedStatistics) -> Integrated:
    """Tabulate the likelihood of FBS, integrated over effects of PSUs and strata, as a function of variance ratios tau.

    As a function of tau, the likelihood of a column rises no faster than tau^((A + D) / 2), and the prior falls like
    exp(-tau^2 / 2).  So the posterior is negligible where tau is larger than sqrt((A + D) / 2) + 6, and the table ends
    there.
    """
    A = statistics.total.A
    R, Z0, S0 = statistics.total.reduced()
    rank, D = Z0.shape
    length = np.linalg.norm(R, axis=0)
    length = np.where(length > 0, length, 1.0)  # scaled by its length, a column in any unit loses no digits
    inverse = np.linalg.pinv(R / length) / length[:, None]
    L_0 = np.asarray(np.linalg.cholesky(S0 / A))
    seen = statistics.a > 0
    a = statistics.a[seen]
    x = statistics.s[seen] @ inverse
    residual = np.linalg.solve(L_0, (statistics.t[seen] - x @ Z0).T).T
    mean = np.hstack([x, residual]) / a[:, None]
    parent = None if statistics.parent is None else np.unique(statistics.parent[seen], return_inverse=True)[1]
    within = np.diag(np.repeat([1.0, A], [rank, D])) - (mean.T * a) @ mean

    totals = [a] if parent is None else [a, np.bincount(parent, a)]
    a_bar = np.array([t.max() for t in totals])
    reach = np.log1p(a_bar * (np.sqrt((A + D) / 2) + 6))
    node = [np.cos(np.pi * (np.arange(p) + 0.5) / p) for p in map(_series_length, reach)]
    tau = [np.expm1(r * (x + 1) / 2) / t for x, r, t in zip(node, reach, a_bar, strict=True)]
    values = np.stack([_integrated(a, mean, parent, within, t, tau[1:]) for t in tau[0]])  # (p1, p2, entries + 1)
    series, table = _compress(values, node)
    return Integrated(A, R, inverse, Z0, L_0, a_bar, reach, series, table)


def _series_length(reach: float) -> int:
    """Return how many Chebyshev polynomials approximate a function on [0, reach] to rounding error.

    The singularities of the function have imaginary parts of at least pi.
    """
    return int(np.ceil(-np.log(TOLERANCE) / np.arcsinh(2 * np.pi / reach)))


def _compress(values: Floats, node: list[Floats]) -> tuple[tuple[Floats, ...], Floats]:
    """Compress function values at Chebyshev nodes to the attributes ``series`` and ``table`` of :class:`Integrated`.

    ``values`` has the shape (p1, p2, entries), where p1 and p2 are the numbers of nodes ``node`` of the levels (p2 is 1
    for one level).  Singular value decompositions find about a dozen functions per level, of which all entries are
    combinations.
    """
    size = np.abs(values).max(axis=(0, 1))
    core = values / np.where(size > 0, size, 1)
    series = []
    for axis, x in enumerate(node):
        unfolded = np.moveaxis(core, axis, 0)
        U, singular, _ = np.linalg.svd(unfolded.reshape(len(x), -1), full_matrices=False)
        U = U[:, singular > TOLERANCE * singular[0]]
        core = np.moveaxis(np.tensordot(U.T, unfolded, axes=1), 0, axis)
        to_series = 2 / len(x) * chebvander(x, len(x) - 1)
        to_series[:, 0] /= 2
        series.append(U.T @ to_series)
    return tuple(series), np.ascontiguousarray((core * size).reshape(-1, len(size)).T)


def _integrated(
    a: Floats, mean: Floats, parent: Codes | None, within: Floats, tau_1: float, tau_2: list[Floats]
) -> Floats:
    """Integrate the effects of PSUs and strata out of the normal likelihood, for given variance ratios of the effects.

    Return cross products G of predictors and residuals, and log determinants of the covariance.  Each row of the result
    is for one tau_2, and has the lower triangle of G, by rows, before the log determinant.  G is a sum of squares
    within and between groups, so no digits are lost by cancellation.  For each PSU, ``a`` is the sum of alpha, ``mean``
    the mean of predictors and residuals, and ``parent`` the stratum.  ``within`` are the cross products within PSUs.
    ``tau_2`` has one array, or none if there are no strata.
    """
    row, column = np.tril_indices(len(within))
    q, log_det = a / (1 + a * tau_1), np.log1p(a * tau_1).sum()
    if parent is None:
        G = within + (mean.T * q) @ mean
        return np.append(G[row, column], log_det)[None]
    member = membership(parent)
    q_2 = member @ q
    mean_2 = (member @ (q[:, None] * mean)) / q_2[:, None]
    centred = mean - mean_2[parent]
    G = within + (centred.T * q) @ centred
    total = 1 + np.outer(tau_2[0], q_2)  # (p2, H)
    between = (q_2 / total) @ (mean_2[:, row] * mean_2[:, column])
    return np.column_stack([G[row, column] + between, log_det + np.log(total).sum(axis=1)])


# ---- coefficients given the rest


def draw_coefficients(
    model: Integrated, L: Floats, tau: Floats, root: Floats | None, rng: np.random.Generator
) -> Floats:
    """Draw the coefficients B exactly, given S draws of the residual covariance and the variance ratios of effects.

    Parameters
    ----------
    model : Integrated
        The tabulated likelihood.
    L, tau : float arrays (S, D, D), (S, levels, D)
        Draws of the Cholesky factor of Sigma, and of the variance ratios of effects.
    root : float array (S, D, K, K) or None
        Factors of the prior covariance of each column of B.  None stands for a flat prior.

    Returns
    -------
    float array (S, K, D)
        One draw of B for each draw of the other parameters.
    """
    (S, D, _), (rank, K) = L.shape, model.R.shape
    phi = np.log1p(tau * model.a_bar[:, None])
    B = np.empty((S, K, D))
    step = max(1, BLOCK // ((K + rank) * D) ** 2)
    for s in range(0, S, step):
        part = slice(s, min(S, s + step))
        W = np.linalg.inv(L[part])
        W_0 = W @ model.L_0
        F = np.stack([model.factors(phi[part, :, j])[0] for j in range(D)], axis=1)  # (s, D, rank + D, rank + D)
        F_x = F[:, :, :rank, :rank]
        # generalised least squares of R B l_j, in units of its error: F_x' (R B l_j) ~ N(z_j, I)
        z = np.einsum("sjba,bd,sjd->sja", F_x, model.Z0, W)
        z += np.einsum("sjda,sjd->sja", F[:, :, rank:, :rank], W_0)
        if root is None:
            noise = rng.standard_normal(z.shape)
            gamma = np.linalg.solve(F_x.swapaxes(2, 3), (z + noise)[..., None])[..., 0]  # (s, D, rank)
            B[part] = model.inverse @ np.einsum("sja,sdj->sad", gamma, L[part])
        else:
            scaled = np.einsum("sjba,bk,sdkm,sjd->sjadm", F_x, model.R, root[part], W, optimize=True)
            scaled = scaled.reshape(-1, D * rank, D * K)
            M = np.eye(D * K) + scaled.swapaxes(1, 2) @ scaled
            h = scaled.swapaxes(1, 2) @ z.reshape(-1, D * rank, 1)
            C = np.linalg.cholesky(M)
            noise = rng.standard_normal(h.shape)
            b = np.linalg.solve(C.swapaxes(1, 2), np.linalg.solve(C, h) + noise)
            B[part] = np.einsum("sdkm,sdm->skd", root[part], b.reshape(-1, D, K))
    return B


# ---- the flat prior


def _draw_flat(model: Integrated, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw the Cholesky factor L of the residual covariance, and transformed variance ratios phi, under the flat prior.

    phi = log(1 + a_bar tau) stands for the variance ratios tau of effects.  L has the shape (size, D, D), and phi
    (size, levels, D).
    """
    rank, D = model.Z0.shape
    rows = np.zeros((size, D, D))  # of L^-1 L_0
    phi = np.empty((size, model.reach.size, D))
    for j in range(D):
        df, last = model.A - rank - D + j + 1, rank + j

        def log_density(at: Floats, df: float = df, last: int = last) -> Floats:
            F, log_det = model.factors(at)
            log_diagonal = np.log(np.einsum("nii->ni", F[:, : last + 1, : last + 1]))
            tau = np.expm1(at) / model.a_bar
            log_prior = at.sum(axis=1) - (tau**2).sum(axis=1) / 2  # of phi: d tau / d phi ~ exp(phi)
            return log_prior - log_diagonal[:, :last].sum(axis=1) - df * log_diagonal[:, last] - log_det / 2

        phi[:, :, j] = _draw_on_grid(log_density, model.reach, size, rng)
        F, _ = model.factors(phi[:, :, j])
        rows[:, j, j] = np.sqrt(rng.chisquare(df, size)) / F[:, last, last]
        scaled = rows[:, j, j, None] * F[:, last, :last] + rng.standard_normal((size, last))
        slopes = np.linalg.solve(F[:, :last, :last].swapaxes(1, 2), scaled[..., None])[..., 0]
        rows[:, j, :j] = -slopes[:, rank:]
    return model.L_0 @ np.linalg.inv(rows), phi


def _draw_on_grid(
    log_density: Callable[[Floats], Floats], reach: Floats, size: int, rng: np.random.Generator
) -> Floats:
    """Draw points from a smooth density of one or two variables, by splines on a grid.

    The density is on [0, reach_1] or [0, reach_1] x [0, reach_2].  Return an array (size, levels).  ``log_density``
    takes points (N, levels) and returns the log densities (N,), up to a constant.
    """
    levels = reach.size
    low, high = np.zeros(levels), reach.copy()
    for _ in range(ZOOMS):
        axes = np.linspace(low, high, GRID[levels])  # (points, levels)
        points = np.stack(np.meshgrid(*axes.T, indexing="ij"), axis=-1).reshape(-1, levels)
        value = log_density(points).reshape([GRID[levels]] * levels)
        inside = np.argwhere(value > value.max() - NEGLIGIBLE)
        first, last = inside.min(axis=0), inside.max(axis=0)
        width, spacing = high - low, axes[1] - axes[0]
        # the mode of a narrow ridge may lie outside the range suggested by a coarse grid
        low_edge, high_edge = (first == 0) & (low > 0), (last == GRID[levels] - 1) & (high < reach)
        new_low = np.where(low_edge, low - width, low + (first - 1) * spacing)
        new_high = np.where(high_edge, high + width, low + (last + 1) * spacing)
        new_low, new_high = np.maximum(new_low, 0), np.minimum(new_high, reach)
        if not (low_edge | high_edge).any() and ((new_high - new_low) > 0.5 * width).all():
            break
        low, high = new_low, new_high
    fine = []
    for axis in range(levels):
        edges = np.linspace(low[axis], high[axis], FINE[levels] + 1)
        fine.append(edges[:-1])
        middle = (edges[:-1] + edges[1:]) / 2
        value = make_interp_spline(axes[:, axis], value, axis=axis)(middle)
    weight = np.exp(value - logsumexp(value)).ravel()
    cell = np.unravel_index(rng.choice(weight.size, size, p=weight / weight.sum()), value.shape)
    corner = np.column_stack([f[c] for f, c in zip(fine, cell, strict=True)])
    return np.asarray(corner + rng.uniform(size=corner.shape) * (high - low) / FINE[levels])


# ---- proper priors


def _stan_data(model: Integrated, prior: str, rng: np.random.Generator) -> dict[str, object]:
    """Return the input data of the Stan program ``stan/fbs_effects.stan``.

    The coordinates of the sampler come from the posterior under the flat prior, which is near the target.
    """
    (rank, K), D, levels = model.R.shape, len(model.L_0), model.reach.size
    L, phi = _draw_flat(model, CENTRING_DRAWS, rng)
    B = draw_coefficients(model, L, model.tau(phi), None, rng)
    b = np.sqrt((B**2).mean(axis=0))
    unseen = 1 - np.einsum("kr,rk->k", model.inverse, model.R) > 1e-6  # coefficients that the data do not inform
    wide = unseen[:, None] | (b > 10)  # 10 is the scale of the prior
    b = np.where(wide, 10.0, b)
    spread = phi.std(axis=0)
    ratio = phi.mean(axis=0) / spread
    n = rank + D
    row, column = np.tril_indices(n)
    series = [*model.series, *[np.ones((1, 1))] * (2 - levels)]
    unpack = np.zeros((n, n), dtype=np.intp)
    unpack[row, column] = unpack[column, row] = np.arange(1, row.size + 1)
    return {
        "D": D, "K": K, "rank": rank, "A": model.A, "R": model.R, "Z0": model.Z0, "L_0": model.L_0,
        "L_hat": np.linalg.cholesky((L @ L.swapaxes(1, 2)).mean(axis=0)),
        "b": b, "r": np.where(wide, 1.0, B.std(axis=0) / b), "correlated": int(prior == "paper"),
        "levels": levels, "a_bar": model.a_bar, "reach": model.reach,
        "spread": spread, "centre": ratio + np.log(-np.expm1(-ratio)),
        "terms": [len(c) for c in series], "polynomials": [c.shape[1] for c in series],
        "series_1": series[0], "series_2": series[1], "entries": row.size, "table": model.table,
        "unpack": unpack.ravel(),
    }  # fmt: skip
