"""Confidence intervals: t intervals, and intervals of proportions (R's ``svyciprop``), also used for quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import xlogy
from scipy.stats import beta
from scipy.stats import t as student

from ..errors import InputError
from ..validation import one_of, positive
from .combining import Combined, interval, logit_interval

Method = Literal["xlogit", "mean", "asin", "beta", "wilson", "likelihood"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Settings of confidence intervals.

    Attributes
    ----------
    level : float
        Confidence level.
    df : float, optional
        Degrees of freedom to use instead of the design's.  Infinity gives normal intervals.
    method : str, optional
        Method for proportions (default "xlogit") and for the shares that give the limits of quantiles (default "mean").
    """

    level: float = 0.95
    df: float | None = None
    method: Method | None = None

    @classmethod
    def checked(cls, level: object = 0.95, df: object = None, method: object = None) -> Interval:
        """Create settings.  Raise InputError unless the level is between 0 and 1, df positive and the method known."""
        if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
            raise InputError("level must be a number between 0 and 1, for example 0.95")
        if method is not None:
            one_of(method, get_args(Method), "interval")
        normal = isinstance(df, float) and df == np.inf
        return cls(float(level), np.inf if normal else None if df is None else positive(df, "df"), method)  # type: ignore[arg-type]

    def known_df(self, combined: Combined) -> Combined:
        """Return the estimates with degrees of freedom ``df``, or unchanged if the settings have no ``df``."""
        if self.df is None:
            return combined
        return Combined(combined.estimate, combined.se, np.full(combined.se.shape, self.df))

    def limits(self, combined: Combined) -> tuple[Floats, Floats]:
        """Return the lower and the upper limits of t intervals of D estimates."""
        return interval(self.known_df(combined), self.level)

    def count_limits(self, combined: Combined) -> tuple[Floats, Floats]:
        """Return confidence limits of D counts: the limits of t intervals, but 0 for a negative lower limit.

        Limits on the log scale would be useless with few degrees of freedom, where t is large: 14 persons with standard
        error 10 and one degree of freedom would have an upper limit of 165,000.
        """
        low, high = self.limits(combined)
        return np.maximum(low, 0.0), high

    def share_limits(self, combined: Combined, n: Floats, default: Method) -> tuple[Floats, Floats]:
        """Return lower and upper confidence limits of shares, by the method of these settings or else by ``default``.

        For a share p of n records with standard error s, let t and t_n-1 be the quantiles of the t distribution with
        the degrees of freedom of s and with n - 1, and n_eff = p (1 - p) / s^2:

        - mean: p -+ t s;
        - xlogit: the limits "mean" of the log odds, transformed back;
        - asin: the limits "mean" of arcsin(sqrt(p)), transformed back;
        - beta: Clopper and Pearson's limits with n_eff (t_n-1 / t)^2 records (Korn & Graubard 1998, section 3);
        - wilson: the p_0 with |p - p_0| <= t sqrt(p_0 (1 - p_0) / n_eff) (Franco et al. 2019, section 2);
        - likelihood: the p_0 with 2 n_eff [p log(p / p_0) + (1 - p) log((1 - p) / (1 - p_0))] <= t^2 (Rao and Scott's
          scaled likelihood).

        A share of 0 or 1 has standard error 0, but is not known exactly.  By every method, its limits are those of
        Clopper & Pearson (1934) with n min(1, (t_n-1 / t)^2) records.  A share between 0 and 1 with standard error 0 is
        fixed by the design, and the limits are equal to the share.

        Parameters
        ----------
        combined : Combined
            Estimated shares, with standard errors and degrees of freedom.
        n : float array (D,)
            Numbers of records.
        default : str
            Method to use if ``method`` is None.

        Returns
        -------
        (float array (D,), float array (D,))
            Lower and upper limits.  They are NaN if there are no degrees of freedom.
        """
        both, method = self.known_df(combined), self.method or default
        p, se = both.estimate, both.se
        t = np.asarray(student.ppf(0.5 + self.level / 2, np.where(both.df > 0, both.df, np.nan)))
        extreme = nobody_or_all(p)
        if method == "mean":
            low, high = interval(both, self.level)
        elif method == "xlogit":
            low, high = logit_interval(both, self.level)
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                n_eff = np.where(extreme | (se == 0), np.nan, p * (1 - p) / se**2)
                low, high = _shares(method, p, n_eff, t, n, self.level)
        fixed = (se == 0) & ~np.isnan(t)
        low, high = np.where(fixed, p, low), np.where(fixed, p, high)
        least, most = _extreme_shares(p, t, n, self.level)
        return np.where(extreme, least, low), np.where(extreme, most, high)

    def difference_limits(self, first: Combined, n: Floats, second: Combined, other_n: Floats) -> tuple[Floats, Floats]:
        """Compute confidence limits of D differences of two shares from the confidence limits of both shares.

        With d = p_1 - p_2 and the limits l_k, u_k of p_k (:meth:`share_limits`, "xlogit"):
        d - sqrt((p_1 - l_1)^2 + (u_2 - p_2)^2) and d + sqrt((u_1 - p_1)^2 + (p_2 - l_2)^2)  (Newcombe 1998, method 10,
        "square and add").  The two shares are taken as uncorrelated, as a share of 0 or 1 is with any other share.

        Parameters
        ----------
        first, second : Combined
            The shares p_1 and p_2 of D differences.
        n, other_n : float array (D,)
            Numbers of records behind p_1 and behind p_2.
        """
        p, q = first.estimate, second.estimate
        low, high = self.share_limits(first, n, "xlogit")
        other_low, other_high = self.share_limits(second, other_n, "xlogit")
        return p - q - np.hypot(p - low, other_high - q), p - q + np.hypot(high - p, q - other_low)


USUAL = Interval()
ROUNDING = 1e-12  # rounding error of a share of 1, which is a quotient of two sums


def nobody_or_all(p: Floats) -> NDArray[np.bool_]:
    """Return True for each share that is 0 or 1.  Such a share has no estimated standard error."""
    return (p <= 0) | (p >= 1 - ROUNDING)


def _shares(method: Method, p: Floats, n_eff: Floats, t: Floats, n: Floats, level: float) -> tuple[Floats, Floats]:
    if method == "asin":
        half, middle = t / (2 * np.sqrt(n_eff)), np.arcsin(np.sqrt(p))
        return np.sin(middle - half) ** 2, np.sin(middle + half) ** 2
    if method == "wilson":
        half = t * np.sqrt(p * (1 - p) / n_eff + (t / n_eff) ** 2 / 4)
        middle = p + t**2 / (2 * n_eff)
        return p**2 / (middle + half), (middle + half) / (1 + t**2 / n_eff)  # roots with a known product
    if method == "beta":
        n_eff = n_eff * (student.ppf(0.5 + level / 2, n - 1) / t) ** 2
        tail = (1 - level) / 2
        low = beta.ppf(tail, n_eff * p, n_eff * (1 - p) + 1)
        return np.asarray(low), np.asarray(beta.ppf(1 - tail, n_eff * p + 1, n_eff * (1 - p)))
    known = np.isfinite(n_eff) & np.isfinite(t)
    ends = [_likelihood(*each) if there else (np.nan, np.nan) for *each, there in zip(p, n_eff, t, known, strict=True)]
    low, high = np.array(ends).reshape(-1, 2).T
    return low, high


def _extreme_shares(p: Floats, t: Floats, n: Floats, level: float) -> tuple[Floats, Floats]:
    """Compute Clopper-Pearson limits of shares of 0 or 1.  A limit is NaN if there are no degrees of freedom."""
    with np.errstate(divide="ignore", invalid="ignore"):
        n_eff = n * np.fmin(1, (student.ppf(0.5 + level / 2, n - 1) / t) ** 2)
        away = np.where(np.isnan(t), np.nan, 1 - ((1 - level) / 2) ** (1 / n_eff))
    itself = np.where(np.isnan(t), np.nan, np.round(p))
    return np.where(p > 0.5, 1 - away, itself), np.where(p > 0.5, itself, away)


def _likelihood(p: float, n_eff: float, t: float) -> tuple[float, float]:
    """Compute confidence limits of a share p, the values at which the scaled likelihood ratio test just rejects."""

    def beyond(q: float) -> float:
        return float(2 * n_eff * (xlogy(p, p / q) + xlogy(1 - p, (1 - p) / (1 - q))) - t**2)

    tiny = 1e-300
    return (
        brentq(beyond, tiny, p, xtol=1e-15) if beyond(tiny) > 0 else 0.0,
        brentq(beyond, p, 1 - 1e-16, xtol=1e-15) if beyond(1 - 1e-16) > 0 else 1.0,
    )


def overlap(low: ArrayLike, high: ArrayLike, other_low: ArrayLike, other_high: ArrayLike) -> Floats:
    """Compute the overlap of two confidence intervals.

    Let I be the length of the intersection, and L_1 and L_2 the lengths of the intervals.  The overlap is
    (I / L_1 + I / L_2) / 2.  For disjoint intervals, I is minus the distance between them, so the overlap is negative
    (Karr et al. 2006, in the form of Snoke et al. 2018).  It is 1 for equal intervals, and NaN if an interval has
    length 0.

    Parameters
    ----------
    low, high, other_low, other_high : float array (...)
        Limits of the intervals, of compatible shapes.

    Returns
    -------
    float array (...)
        Overlaps, at most 1.

    Examples
    --------
    >>> ss.studies.overlap([0, 0, 0], [10, 10, 10], [0, 5, 20], [10, 15, 30])
    array([ 1. ,  0.5, -1. ])
    """
    low, high, other_low, other_high = (np.asarray(a, dtype=float) for a in (low, high, other_low, other_high))
    common = np.minimum(high, other_high) - np.maximum(low, other_low)
    length, other = high - low, other_high - other_low
    return 0.5 * (common / np.where(length > 0, length, np.nan) + common / np.where(other > 0, other, np.nan))
