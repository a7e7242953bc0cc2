"""Tests of several estimates: Wald's F test, also for synthetic data, and Rao and Scott's test for working models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import f as fisher
from scipy.stats import norm

from ..errors import InputError

Floats = NDArray[np.float64]

SINGULAR = 1e-12  # a covariance matrix with a smaller reciprocal condition number is singular


@dataclass(frozen=True)
class Test:
    """Result of a hypothesis test: statistic, degrees of freedom and p value.

    Attributes
    ----------
    statistic : float
        F, or chi-square if ``ddf`` is infinite.
    df : float
        Degrees of freedom of the numerator.
    ddf : float
        Degrees of freedom of the denominator; infinite for a chi-square.
    p : float
        P value.
    method : str
        Name of the test.
    """

    statistic: float
    df: float
    ddf: float
    p: float
    method: str

    def __repr__(self) -> str:
        name, df = ("chi-square", f"{self.df:.4g}") if np.isinf(self.ddf) else ("F", f"{self.df:.4g}, {self.ddf:.4g}")
        p = "< 0.0001" if self.p < 1e-4 else f"= {self.p:.4f}"
        return f"{self.method}: {name}({df}) = {self.statistic:.4g}, p {p}"


def f_test(statistic: float, df: float, ddf: float, method: str) -> Test:
    """Return the test of a statistic with an F distribution.  The p value is NaN if ``ddf`` is not positive."""
    p = float(fisher.sf(statistic, df, ddf)) if ddf > 0 else np.nan
    return Test(float(statistic), float(df), float(ddf), p, method)


def wald(q: Floats, U: Floats, degf: float, noise: Floats | None = None) -> Test:
    """Test that p quantities are 0 by Wald's statistic, from estimates in m data sets.

    One data set with estimates q and covariance matrix U gives F = q' U^-1 q / p, with p and ``degf`` degrees of
    freedom (R's ``regTermTest``).  With m synthetic data sets,

        F = q_bar' U_bar^-1 q_bar / (p (1 + r)),    r = tr(B U_bar^-1) / (m p),

    where bars are means over the data sets, and B is the covariance of q between data sets.  The degrees of freedom
    are p and w.  Let t = p (m - 1).  Then w = 4 + (t - 4) (1 + (1 - 2 / t) / r)^2 if t > 4, and otherwise
    w = t (1 + 1 / p) (1 + 1 / r)^2 / 2.  w is at most ``degf``.

    Source: Reiter 2005 (Significance tests for multi-component estimands), section 2.

    Parameters
    ----------
    q : float array (m, p)
        Estimates in each data set.
    U : float array (m, p, p)
        Covariance matrices of the estimates in each data set.
    degf : float
        Degrees of freedom of the design.
    noise : float array (p, p), optional
        Covariance of the noise that all data sets share.  It is added to B / m.

    Raises
    ------
    InputError
        The covariance matrix of the estimates is singular.
    """
    m, p = q.shape
    q_bar, U_bar = q.mean(axis=0), U.mean(axis=0)
    size = np.sqrt(U_bar.diagonal())
    scaled = U_bar / np.outer(size, size) if (size > 0).all() else np.zeros((p, p))
    if not np.isfinite(scaled).all() or np.linalg.cond(scaled) > 1 / SINGULAR:
        raise InputError(
            "the estimates that are tested determine each other, or are fixed by the design, so there is no joint test "
            "of them; leave some out"
        )
    q_bar = q_bar / size
    F = q_bar @ np.linalg.solve(scaled, q_bar) / p
    between = np.zeros((p, p)) if m == 1 else np.atleast_2d(np.cov(q, rowvar=False)) / m
    between = between if noise is None else between + noise
    r = float(np.trace(np.linalg.solve(scaled, between / np.outer(size, size)))) / p
    if r == 0:
        return f_test(F, p, degf, "Wald test")
    t = p * (m - 1)
    w = 4 + (t - 4) * (1 + (1 - 2 / t) / r) ** 2 if t > 4 else t * (1 + 1 / p) * (1 + 1 / r) ** 2 / 2
    return f_test(F / (1 + r), p, min(w, degf) if m > 1 else degf, "Wald test of synthetic data sets")


def rao_scott(statistic: float, eigenvalues: Floats, ddf: float, method: str) -> Test:
    """Return the test of a statistic that is distributed as a weighted sum of chi-squares (Rao and Scott).

    The distribution is sum_j lambda_j chi2_1, with the ``eigenvalues`` lambda_j estimated on ``ddf`` degrees of
    freedom.  The p value is the saddlepoint approximation to P(sum_j lambda_j chi2_1 - (statistic / ddf) chi2_ddf > 0)
    (Kuonen 1999; R's ``pFsum``).  If the approximation does not exist, the p value is that of Satterthwaite's F.

    Parameters
    ----------
    statistic : float
        A working Wald or likelihood ratio statistic, not divided by degrees of freedom.
    eigenvalues : float array (p,)
        Generalized design effects (Rao & Scott 1984, section 3).
    ddf : float
        Degrees of freedom of the design.

    Returns
    -------
    Test
        ``statistic`` and ``df`` are those of Satterthwaite's F.
    """
    p, mean = eigenvalues.size, eigenvalues.mean()
    spread = (eigenvalues**2).mean() / mean**2
    satterthwaite = f_test(statistic / (p * mean), p / spread, ddf, method)
    repeats = np.concatenate([eigenvalues, np.full(max(int(ddf), 0), -statistic / ddf if ddf > 0 else 0.0)])
    tail = _saddlepoint(repeats)
    if not np.isfinite(tail):
        return satterthwaite
    return Test(satterthwaite.statistic, satterthwaite.df, satterthwaite.ddf, tail, method)


def _saddlepoint(a: Floats) -> float:
    """Approximate P(sum_j a_j chi2_1 > 0) by a saddlepoint (Kuonen 1999, eq. 2).  The result is NaN near the mean."""
    a = a / a.max()
    negative = a[a < 0]
    if not negative.size:
        return 1.0
    low, high = (1 / (2 * negative)).max() * 0.99999, 0.99999 / 2

    def slope(z: float) -> float:
        return float((a / (1 - 2 * z * a)).sum())

    if not slope(low) < 0 < slope(high):
        return np.nan
    z = brentq(slope, low, high, xtol=1e-14)
    if abs(z) < 1e-4:
        return np.nan
    w = np.sign(z) * np.sqrt(np.log1p(-2 * z * a).sum())
    v = z * np.sqrt(2 * ((a / (1 - 2 * z * a)) ** 2).sum())
    return float(norm.sf(w + np.log(v / w) / w))
