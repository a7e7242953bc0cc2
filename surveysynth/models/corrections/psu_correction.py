"""Fisher-consistent draws of a normal regression with effects of PSUs: covariances within and between PSUs.

The model is that of cluster_effects.py: the n_c records of PSU c have the common effect u_c ~ N(0, T), where
T = L diag(tau) L', and residuals e ~ N(0, Sigma), where Sigma = L L'.  alpha is the privacy weight of a record.  It
falls with the risk of the record, the largest |log p| over posterior draws, so records far from the mean count less.
The effect u_c is estimated from the weighted mean residual of the PSU,

    m_c = sum alpha e / a_c,   a_c = sum alpha.

The pseudo likelihood takes the variance of m_c to be T + Sigma_lim / a_c, where Sigma_lim is the limit of the estimate
of Sigma.  Let e_g be the sum of residuals over a unit of privacy g (one record, or several records with one alpha).
The true variance of m_c is

    T - K T_c K + V_c,   V_c = sum_g alpha_g^2 e_g e_g' / a_c^2,   K = 1 - sum_g alpha_g e_g e_g' / (Sigma sum alpha),

where T_c = T (1 + n_c T / Sigma)^-1.  The term K T_c K arises because alpha is centred at the effect that is estimated
from the other records of the PSU.  The estimate differs from u_c by approximately N(0, T_c), and m_c is drawn towards
the estimate.  V_c is less than Sigma_lim / a_c, so estimates of T are too small.  The score of T is the difference of
the two variances, weighted by the squared information (a_c / (1 + a_c tau))^2.  Therefore

    T_true = T_draw + deficit,   deficit = the weighted mean of Sigma_lim / a_c - V_c + K T_c K,

and Sigma_lim is the alpha-weighted residual sum of squares within PSUs, divided by sum_c (a_c - 1).  Means are taken
over about 3000 simulated records: whole PSUs of the file, with their public predictors and units of privacy.  All
quantities are in units of the true L, in which Sigma is I and T is diag(tau).  If the deficit exceeds T, the draw is at
the lower limit that the prior of tau sets, and T_true is too large.

fisher_consistency.py has the equation and the risks from which alpha is computed.

In shapes, m is the number of released draws, K of coefficients (not the matrix K above), D of outcomes with the weight,
G of distinct predictor rows, n of records, C of PSUs, and S of posterior draws over which a risk is the maximum.
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

RECORDS = 3000  # approximate number of simulated records


@dataclass(frozen=True)
class ClusteredFile:
    """Public predictors, PSUs and units of privacy of the n records of a file.

    Attributes
    ----------
    X : float array (G, K)
        Distinct predictor rows.
    pattern, psu : int arrays (n,)
        ``pattern``: position in ``X`` of each record's predictors.  ``psu``: PSU of each record, 0 to C - 1.
    unit : int array (n,), optional
        Unit of privacy of each record, if units have several records of one PSU.  Then alpha depends on the largest
        |sum of log densities of the unit| and on the number of records of the unit.
    """

    X: Floats
    pattern: Codes
    psu: Codes
    unit: Codes | None = None

    @cached_property
    def n(self) -> Codes:
        """Number of records (C,) of each PSU."""
        return np.bincount(self.psu)

    @cached_property
    def s(self) -> Floats:
        """Sums (C, K) of the predictors over the records of each PSU."""
        shape = (len(self.n), len(self.X))
        return np.asarray(csr_array((np.ones(len(self.psu)), (self.psu, self.pattern)), shape=shape) @ self.X)

    @cached_property
    def C0(self) -> Floats:
        """The sum (K, K) of x x' over all records, where x are the predictors of a record."""
        rows = np.bincount(self.pattern, minlength=len(self.X))
        return np.asarray(self.X.T @ (rows[:, None] * self.X))


def correct_with_effects(
    B: Floats, L: Floats, tau: Floats, file: ClusteredFile, weighting: Weighting, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Correct released draws of covariances within and between PSUs for the bias that privacy weights cause.

    The covariances are Sigma within PSUs, and T of the effects of PSUs.  If the corrected covariances are the truth,
    the alpha-weighted estimates tend to the released draw.  Coefficients need no correction, as the risk in the model
    FBS is symmetric in the residual.

    Parameters
    ----------
    B, L : float arrays (m, K, D), (m, D, D)
        Released draws: coefficients and Cholesky factors of Sigma.
    tau : float array (m, D)
        Variance ratios of each draw: T = L diag(tau) L'.
    file : ClusteredFile
        Public predictors, PSUs and units of privacy of the records.
    weighting : Weighting
        How privacy weights are computed from densities.
    rng : numpy.random.Generator

    Returns
    -------
    L, T_root : float arrays (m, D, D)
        Lower Cholesky factors of the corrected Sigma and T.

    Raises
    ------
    ModelError
        The privacy weights shrink the model so far that no correction exists.
    """
    D = L.shape[1]
    limit = _Limit.around(tau[0], file, weighting, rng)
    bias = _CovarianceBias(np.asarray(np.eye(D), dtype=np.float64), np.zeros((D, D)))
    corrected = []
    for B_draw, L_draw, tau_draw in zip(B, L, tau, strict=True):  # each search starts from the previous bias
        draw = _Draw(B_draw, L_draw, tau_draw)
        bias = fixed_point(partial(_step, limit, draw), bias)
        corrected.append(bias.truth(draw))
    roots, T_roots = zip(*corrected, strict=True)
    return np.array(roots), np.array(T_roots)


@dataclass(frozen=True)
class _Draw:
    """A released draw of coefficients, residual covariance, and variances between PSUs relative to residual variances.

    ``B`` (K, D) are the coefficients, ``L`` (D, D) is the Cholesky factor of the residual covariance Sigma, and ``tau``
    (D,) are the variance ratios.
    """

    B: Floats
    L: Floats
    tau: Floats


@dataclass(frozen=True)
class _CovarianceBias(Bias):
    """The bias that privacy weights cause in the covariances within and between PSUs.

    Let Sigma = L L' be the true residual covariance, and T the true covariance of effects of PSUs.  The estimate of L
    tends to the product L shrink, and the estimate of T to T - L deficit L'.
    """

    deficit: Floats

    def truth(self, draw: _Draw) -> tuple[Floats, Floats]:
        """Correct a draw, and return the lower Cholesky factors of Sigma (within PSUs) and T (between PSUs)."""
        root = self.true_root(draw.L)
        return root, _add(draw.L * np.sqrt(draw.tau), root @ self.deficit @ root.T)


def _step(limit: _Limit, draw: _Draw, before: _CovarianceBias) -> tuple[_CovarianceBias, float]:
    """Make one step of the search for the bias of a draw: compute the next bias from the bias ``before``.

    The draw, corrected by ``before``, is taken as the truth.  Returns the bias of the alpha-weighted estimates under
    this truth, and its distance from ``before``.
    """
    root, T_root = before.truth(draw)
    ratio = (np.linalg.solve(root, T_root) ** 2).sum(axis=1)
    Sigma_lim, deficit = limit(draw.B, root, ratio, draw.tau)
    after = _CovarianceBias(lower_root(Sigma_lim), deficit)
    return after, float(np.abs(after.shrink - before.shrink).max() + np.abs(deficit - before.deficit).max())


@dataclass(frozen=True)
class _Simulated:
    """N simulated records of H whole PSUs that represent the file.

    Attributes
    ----------
    pattern : int array (N,)
        Position in X of each record's predictors.
    psu, unit : int arrays (N,)
        Simulated PSU, 0 to H - 1, and unit of privacy of each record.
    origin : int array (H,)
        PSU of the file that each simulated PSU copies.
    z, z_u : float arrays (N, D), (H, D)
        Standard normal numbers, from which residuals and effects of PSUs are made.
    """

    pattern: Codes
    psu: Codes
    unit: Codes
    origin: Codes
    z: Floats
    z_u: Floats

    @staticmethod
    def drawn(file: ClusteredFile, D: int, rng: np.random.Generator) -> _Simulated:
        """Simulate records: draw whole PSUs of the file at random, and standard normal numbers for D outcomes."""
        records, psu, origin = _sampled_psus(file.psu, rng)
        unit = np.arange(len(records)) if file.unit is None else codes(psu, file.unit[records])
        z, z_u = _standardized(rng, len(records), D), _standardized(rng, len(origin), D)
        return _Simulated(file.pattern[records], psu, unit, origin, z, z_u)

    @cached_property
    def psu_of_unit(self) -> Codes:
        psu = np.zeros(int(self.unit.max()) + 1, dtype=np.intp)
        psu[self.unit] = self.psu
        return psu


@dataclass(frozen=True)
class _Limit:
    """The function that computes the limits of alpha-weighted estimates from true covariances within and between PSUs.

    Attributes
    ----------
    Sigma_roots : float array (S, D, D)
        Cholesky factors of posterior draws of Sigma, simulated for true Sigma = I.
    noise : float array (S, K, D)
        Standard normal numbers from which draws of B are made.
    """

    file: ClusteredFile
    simulated: _Simulated
    weighting: Weighting
    Sigma_roots: Floats
    noise: Floats

    @staticmethod
    def around(tau: Floats, file: ClusteredFile, weighting: Weighting, rng: np.random.Generator) -> _Limit:
        """Make the function that computes limits of estimates from true covariances near the variance ratios ``tau``.

        ``tau`` (D,) are the variances between PSUs divided by the residual variances.
        """
        D, S = len(tau), weighting.draws
        sim = _Simulated.drawn(file, D, rng)
        n_tau = file.n[:, None] * tau
        effects = (n_tau / (1 + n_tau)).mean(axis=1).sum()  # degrees of freedom of the effects
        df = max(len(file.psu) - np.linalg.matrix_rank(file.C0) - effects, D + 1.0)
        roots = sigma_roots(df, D, S, rng)
        return _Limit(file, sim, weighting, roots, rng.standard_normal((S, file.X.shape[1], D)))

    def __call__(self, B: Floats, L: Floats, ratio: Floats, tau: Floats) -> tuple[Floats, Floats]:
        """Return the limit of the estimate of Sigma (within PSUs), and the deficit of the estimate of T (between PSUs).

        Both are (D, D) and in units of L: the limit is L Sigma_lim L', and the estimate of the covariance T between
        PSUs is too small by L deficit L'.

        Parameters
        ----------
        B, L : float arrays (K, D), (D, D)
            The true coefficients, and the Cholesky factor of the true Sigma.
        ratio, tau : float arrays (D,)
            ``ratio``: the true ratios of the variances of effects of PSUs to the residual variances.  ``tau``: these
            ratios in the released draw, at which the score is 0.
        """
        sim, D = self.simulated, len(L)
        by_unit = self._weights(B, L, ratio)
        a = by_unit[sim.unit]
        a_c = np.asarray(np.bincount(sim.psu, a, len(sim.origin)), dtype=np.float64)
        weighted_psu = a_c > 0
        a_c = a_c[weighted_psu]
        Sigma_lim = _within(sim.z, a, _sums(sim.psu, a[:, None] * sim.z, len(sim.origin))[weighted_psu], a_c)
        e_g = _sums(sim.unit, sim.z, len(by_unit))
        weighted = by_unit[:, None] * e_g
        squares = np.einsum("gi,gj->gij", weighted, weighted).reshape(-1, D * D)
        V = (_sums(sim.psu_of_unit, squares, len(sim.origin))[weighted_psu] / a_c[:, None] ** 2).reshape(-1, D, D)
        K = np.eye(D) - weighted.T @ e_g / a_c.sum()
        T_c = (ratio / (1 + self.file.n[sim.origin][weighted_psu, None] * ratio))[:, :, None] * np.eye(D)
        deficit = Sigma_lim / a_c[:, None, None] - V + K @ T_c @ K
        g = a_c[:, None] / (1 + a_c[:, None] * tau)
        information = g[:, :, None] * g[:, None]
        return Sigma_lim, (information * deficit).sum(axis=0) / information.sum(axis=0)

    def _weights(self, B: Floats, L: Floats, ratio: Floats) -> Floats:
        """Compute the privacy weights of the simulated units of privacy, if the arguments are the true parameters.

        ``B`` (K, D) are the coefficients, ``L`` (D, D) is the Cholesky factor of Sigma, and ``ratio`` (D,) are the
        ratios of the variances between PSUs to the residual variances.
        """
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
        """Simulate residuals, and errors of coefficients, of a fit in which all privacy weights are 1.

        Returns the residuals (N, D) of the simulated records, with the effects of their PSUs, and the errors (S, K, D)
        of posterior draws of the coefficients.  Both are in units of the Cholesky factor of Sigma.  ``ratio`` (D,) are
        the true ratios of the variances between PSUs to the residual variances.
        """
        file, sim = self.file, self.simulated
        E, own = np.empty_like(self.noise), np.empty_like(sim.z)
        for j, r in enumerate(ratio):
            # the estimated effect of a PSU absorbs this part of the error of B
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
    """Compute the alpha-weighted covariance within PSUs of residuals ``z`` (N, D) with privacy weights ``a`` (N,).

    ``sums`` (H, D) and ``a_c`` (H,) are the sums of a z and of a over the records of each of H PSUs.  Raises ModelError
    if hardly any degrees of freedom are left: the sum of a_c - 1 is less than ``WORST`` times the sum of a_c.
    """
    df = (a_c - 1).sum()
    if not df > WORST * a_c.sum():
        raise irreversible()
    return np.asarray(((z.T * a) @ z - (sums.T / a_c) @ sums) / df)


def _sampled_psus(psu: Codes, rng: np.random.Generator) -> tuple[Codes, Codes, Codes]:
    """Draw whole PSUs at random, with about ``RECORDS`` records in all.

    ``psu`` (n,) is the PSU of each record of the file.  Returns three arrays: the position in the file of each drawn
    record, the drawn PSU of each drawn record (numbered from 0), and the PSU of the file that each drawn PSU copies.
    """
    n_c = np.bincount(psu)
    order = np.argsort(psu, kind="stable")
    selected = np.concatenate([rng.permutation(np.flatnonzero(n_c)) for _ in range(-(-RECORDS // len(psu)))])
    selected = selected[: np.searchsorted(np.cumsum(n_c[selected]), RECORDS) + 1]
    parts = np.split(order, np.cumsum(n_c)[:-1])
    return np.concatenate([parts[c] for c in selected]), np.repeat(np.arange(len(selected)), n_c[selected]), selected


def _standardized(rng: np.random.Generator, n: int, D: int) -> Floats:
    """Draw normal numbers (n, D).  If n > D + 1, their mean is exactly 0 and their covariance exactly I."""
    z = rng.standard_normal((n, D))
    if n <= D + 1:
        return z
    z -= z.mean(axis=0)
    return np.asarray(np.linalg.solve(np.linalg.cholesky(z.T @ z / n), z.T).T)


def _sums(group: Codes, x: Floats, size: int) -> Floats:
    return np.column_stack([np.bincount(group, column, size) for column in x.T])


def _add(root: Floats, change: Floats) -> Floats:
    """Return the lower Cholesky factor of the covariance root root' + change.

    If the variance in some direction would fall below ``WORST`` times its value in root root', it is set to this limit.
    """
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ change @ inverse.T)
    grown = root @ (vectors * np.sqrt(np.maximum(1 + values, WORST)))
    triangle = np.linalg.qr(grown.T)[1].T
    return np.asarray(triangle * np.where(triangle.diagonal() < 0, -1, 1))
