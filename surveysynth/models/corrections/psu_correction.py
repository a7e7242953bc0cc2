"""Fisher-consistent draws of a normal regression with effects of PSUs: covariances within and between PSUs.

The model is that of cluster_effects.py: records of PSU c have the effect u_c ~ N(0, T), T = L diag(tau) L', beside
residuals e ~ N(0, Sigma).  A PSU tells of its effect by its weighted mean residual

    m_c = sum alpha e / a_c,   a_c = sum alpha.

The pseudo likelihood takes the variance of m_c for T + Sigma_lim / a_c.  In truth it is, e_g being the sum of residuals
over a unit of privacy g (one record, or several with one alpha),

    T - K T_c K + V_c,   V_c = sum_g alpha_g^2 e_g e_g' / a_c^2,   K = 1 - sum_g alpha_g e_g e_g' / (Sigma sum alpha),

T_c = T (1 + n_c T / Sigma)^-1: alpha is centred at the effect that the PSU's other records find, which misses u_c
by about N(0, T_c), and draws m_c towards it.  V_c is less than Sigma_lim / a_c, so T comes out too small.  Its
score is that difference weighted by the squared information (a_c / (1 + a_c tau))^2, so

    T_true = T_draw + deficit,   deficit = the weighted mean of Sigma_lim / a_c - V_c + K T_c K,

and Sigma_lim is the residual sum of squares within PSUs over sum_c (a_c - 1).  These are means over
simulated records of some thousand: whole PSUs of the file, with its public predictors and units.  All are in units of
the true L, in which Sigma is 1 and T is diag(tau).  Where the
deficit exceeds T itself the draw lies at the floor that tau's prior sets, and T_true comes out too large.

The equation and the risks behind alpha: fisher_consistency.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...design.columns import codes
from ..densities import normal_density as gaussian
from ..regression.sufficient_statistics import SufficientStatistics
from .fisher_consistency import WORST, Bias, Weighting, fixed_point, lower_root, posterior_root, sigma_roots
from .patterns import irreversible

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

RECORDS = 3000  # simulated ones, of whole PSUs


@dataclass(frozen=True)
class ClusteredFile:
    """Public predictors, PSUs and units of privacy of the n records of a file.

    Attributes
    ----------
    X : float array (G, K)
        Distinct predictor rows.
    pattern, psu : int arrays (n,)
        Row of ``X`` and PSU, 0 to C - 1, of each record.
    unit : int array (n,), optional
        Units of privacy, of several records of one PSU: alpha is a function of the sums of their log densities, and
        of their numbers of records, evened over the simulated units as they were over the file's.
    """

    X: Floats
    pattern: Codes
    psu: Codes
    unit: Codes | None = None

    @cached_property
    def n(self) -> Codes:
        """Records (C,) of each PSU."""
        return np.bincount(self.psu)

    @cached_property
    def s(self) -> Floats:
        """Sums (C, K) of x over the records of each PSU."""
        shape = (len(self.n), len(self.X))
        return np.asarray(csr_array((np.ones(len(self.psu)), (self.psu, self.pattern)), shape=shape) @ self.X)

    @cached_property
    def C0(self) -> Floats:
        """sum x x' (K, K)."""
        rows = np.bincount(self.pattern, minlength=len(self.X))
        return np.asarray(self.X.T @ (rows[:, None] * self.X))


def correct_with_effects(
    B: Floats, L: Floats, tau: Floats, file: ClusteredFile, weighting: Weighting, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Sigma and T, the covariances within and between PSUs, whose limits are those of each draw.

    Coefficients stay: where the risk is symmetric in the residual, as that of FBS is, they need no correction.

    Parameters
    ----------
    B, L : float arrays (m, K, D), (m, D, D)
        Released draws: coefficients and Cholesky factors of Sigma.
    tau : float array (m, D)
        T = L diag(tau) L' of each.
    file : ClusteredFile
    weighting : Weighting
    rng : numpy.random.Generator

    Returns
    -------
    L, T_root : float arrays (m, D, D)
        Lower Cholesky factors of Sigma and T.

    Raises
    ------
    ModelError
        The weights shrink the model so far that no truth explains the draw.
    """
    D = L.shape[1]
    limit = _Limit.around(tau[0], file, weighting, rng)
    bias = _CovarianceBias(np.asarray(np.eye(D), dtype=np.float64), np.zeros((D, D)))
    corrected = []
    for B_draw, L_draw, tau_draw in zip(B, L, tau, strict=True):  # draws are alike, so each starts from the last
        draw = _Draw(B_draw, L_draw, tau_draw)
        bias = fixed_point(partial(_step, limit, draw), bias)
        corrected.append(bias.truth(draw))
    roots, T_roots = zip(*corrected, strict=True)
    return np.array(roots), np.array(T_roots)


@dataclass(frozen=True)
class _Draw:
    """A released draw: B (K, D), L (D, D), tau (D,)."""

    B: Floats
    L: Floats
    tau: Floats


@dataclass(frozen=True)
class _CovarianceBias(Bias):
    """What the weights do: L_lim = L shrink, T_lim = T - L deficit L'."""

    deficit: Floats

    def truth(self, draw: _Draw) -> tuple[Floats, Floats]:
        """Lower Cholesky factors of Sigma and T, those of the draw without the bias."""
        root = self.true_root(draw.L)
        return root, _add(draw.L * np.sqrt(draw.tau), root @ self.deficit @ root.T)


def _step(limit: _Limit, draw: _Draw, before: _CovarianceBias) -> tuple[_CovarianceBias, float]:
    """The bias of the draw without a bias, and how far the two are apart."""
    root, T_root = before.truth(draw)
    ratio = (np.linalg.solve(root, T_root) ** 2).sum(axis=1)
    Sigma_lim, deficit = limit(draw.B, root, ratio, draw.tau)
    after = _CovarianceBias(lower_root(Sigma_lim), deficit)
    return after, float(np.abs(after.shrink - before.shrink).max() + np.abs(deficit - before.deficit).max())


@dataclass(frozen=True)
class _Simulated:
    """Records that stand for the file's, N of H whole PSUs, with standard normal numbers for what is random.

    Attributes
    ----------
    pattern : int array (N,)
        Row of X.
    psu, unit : int arrays (N,)
        Among these PSUs, 0 to H - 1, and among their units of privacy.
    of : int array (H,)
        Which PSU of the file each is.
    z, z_u : float arrays (N, D), (H, D)
        Residuals and effects of PSUs.
    """

    pattern: Codes
    psu: Codes
    unit: Codes
    origin: Codes
    z: Floats
    z_u: Floats

    @staticmethod
    def drawn(file: ClusteredFile, D: int, rng: np.random.Generator) -> _Simulated:
        """Whole PSUs of the file at random."""
        records, psu, origin = _sampled_psus(file.psu, rng)
        unit = np.arange(len(records)) if file.unit is None else codes(psu, file.unit[records])
        z, z_u = _standardized(rng, len(records), D), _standardized(rng, len(origin), D)
        return _Simulated(file.pattern[records], psu, unit, origin, z, z_u)

    @cached_property
    def psu_of_unit(self) -> Codes:
        """PSU of each unit of privacy."""
        psu = np.zeros(int(self.unit.max()) + 1, dtype=np.intp)
        psu[self.unit] = self.psu
        return psu


@dataclass(frozen=True)
class _Limit:
    """The map from Sigma and T to what their draws tend to.  It is smooth: random numbers are the same for all.

    Attributes
    ----------
    file, some : ClusteredFile and _Simulated
    weighting : Weighting
    Sigma_roots : float array (S, D, D)
        Posterior draws behind the risks, where Sigma = 1.
    noise : float array (S, K, D)
        Standard normal numbers behind those of B.
    """

    file: ClusteredFile
    simulated: _Simulated
    weighting: Weighting
    Sigma_roots: Floats
    noise: Floats

    @staticmethod
    def around(tau: Floats, file: ClusteredFile, weighting: Weighting, rng: np.random.Generator) -> _Limit:
        """The limit map for ratios tau (D,) that are like these."""
        D, S = len(tau), weighting.draws
        sim = _Simulated.drawn(file, D, rng)
        n_tau = file.n[:, None] * tau
        effects = (n_tau / (1 + n_tau)).mean(axis=1).sum()  # degrees of freedom that they take
        df = max(len(file.psu) - np.linalg.matrix_rank(file.C0) - effects, D + 1.0)
        roots = sigma_roots(df, D, S, rng)
        return _Limit(file, sim, weighting, roots, rng.standard_normal((S, file.X.shape[1], D)))

    def __call__(self, B: Floats, L: Floats, ratio: Floats, tau: Floats) -> tuple[Floats, Floats]:
        """Sigma_lim and the deficit of T, in units of L.

        Parameters
        ----------
        B, L : float arrays (K, D), (D, D)
            The true ones.
        ratio, tau : float arrays (D,)
            Variance ratios T / Sigma, the true ones, and those of the draw, at which the score is 0.
        """
        sim, D = self.simulated, len(L)
        by_unit = self._weights(B, L, ratio)
        a = by_unit[sim.unit]
        a_c = np.asarray(np.bincount(sim.psu, a, len(sim.origin)), dtype=np.float64)
        seen = a_c > 0
        a_c = a_c[seen]
        Sigma_lim = _within(sim.z, a, _sums(sim.psu, a[:, None] * sim.z, len(sim.origin))[seen], a_c)
        e_g = _sums(sim.unit, sim.z, len(by_unit))
        weighted = by_unit[:, None] * e_g
        squares = np.einsum("gi,gj->gij", weighted, weighted).reshape(-1, D * D)
        V = (_sums(sim.psu_of_unit, squares, len(sim.origin))[seen] / a_c[:, None] ** 2).reshape(-1, D, D)
        K = np.eye(D) - weighted.T @ e_g / a_c.sum()
        T_c = (ratio / (1 + self.file.n[sim.origin][seen, None] * ratio))[:, :, None] * np.eye(D)
        lack = Sigma_lim / a_c[:, None, None] - V + K @ T_c @ K
        g = a_c[:, None] / (1 + a_c[:, None] * tau)
        information = g[:, :, None] * g[:, None]
        return Sigma_lim, (information * lack).sum(axis=0) / information.sum(axis=0)

    def _weights(self, B: Floats, L: Floats, ratio: Floats) -> Floats:
        """alpha (U,) of the simulated units."""
        file, sim = self.file, self.simulated
        residual, E = self._unweighted_fit(ratio)
        Y = file.X[sim.pattern] @ B + residual @ L.T
        psus = gaussian.PSUs(
            sim.psu,
            alpha=np.ones(len(Y)),
            a=file.n[sim.origin].astype(np.float64),
            s=file.s[sim.origin],
            t=_sums(sim.psu, Y, len(sim.origin)),
            tau=np.tile(ratio, (self.weighting.draws, 1)),
            parent=None,
        )
        unit = None if file.unit is None else sim.unit
        f = gaussian.max_abs_log_density(
            Y, sim.pattern, file.X, B + E @ L.T, L @ self.Sigma_roots, self.weighting.log_base(Y), unit=unit, psus=psus
        )
        return self.weighting.alpha(f) if unit is None else self.weighting.alpha(f, np.bincount(unit))

    def _unweighted_fit(self, ratio: Floats) -> tuple[Floats, Floats]:
        """Residuals (N, D) of the simulated records' own fit, and errors (S, K, D) of B, in units of L."""
        file, sim = self.file, self.simulated
        E, own = np.empty_like(self.noise), np.empty_like(sim.z)
        for j, r in enumerate(ratio):
            # the effect of a PSU absorbs this part of B's error
            found = (r / (1 + file.n * r))[:, None] * file.s
            nobody = np.zeros((len(file.C0), 0))
            R, *_ = SufficientStatistics(0.0, file.C0 - file.s.T @ found, nobody, np.zeros((0, 0))).reduced()
            root = posterior_root(R)
            E[:, :, j] = self.noise[:, : root.shape[1], j] @ root.T
            rows = file.X[sim.pattern] - found[sim.origin][sim.psu]
            leverage = ((file.X @ root)[sim.pattern] * (rows @ root)).sum(axis=1)
            own[:, j] = np.sqrt(np.maximum(1 - leverage, 0))
        return own * sim.z + (np.sqrt(ratio) * sim.z_u)[sim.psu], E @ self.Sigma_roots.transpose(0, 2, 1)


def _within(z: Floats, a: Floats, sums: Floats, a_c: Floats) -> Floats:
    """Sigma_lim: weighted squares of residuals z (N, D) about the means of PSUs, with sums a z (H, D) and a (H,).

    Raises
    ------
    ModelError
        PSUs weigh hardly more than the record that each mean takes.
    """
    df = (a_c - 1).sum()
    if not df > WORST * a_c.sum():
        raise irreversible()
    return np.asarray(((z.T * a) @ z - (sums.T / a_c) @ sums) / df)


def _sampled_psus(psu: Codes, rng: np.random.Generator) -> tuple[Codes, Codes, Codes]:
    """Records of PSUs at random, as often as it takes; the number of the PSU of each, and the PSUs by number."""
    n_c = np.bincount(psu)
    order = np.argsort(psu, kind="stable")
    selected = np.concatenate([rng.permutation(np.flatnonzero(n_c)) for _ in range(-(-RECORDS // len(psu)))])
    selected = selected[: np.searchsorted(np.cumsum(n_c[selected]), RECORDS) + 1]
    parts = np.split(order, np.cumsum(n_c)[:-1])
    return np.concatenate([parts[c] for c in selected]), np.repeat(np.arange(len(selected)), n_c[selected]), selected


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
