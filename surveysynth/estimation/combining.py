"""Combining rules for partially synthetic data.

Source: Hu, Savitsky & Williams 2022a, appendix A; Reiter & Raghunathan 2007.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Combined:
    """Combined estimates of D quantities: estimates, standard errors and degrees of freedom, (D,) each."""

    estimate: Floats
    se: Floats
    df: Floats


def combine(q: Floats, u: Floats, degf: float | Floats, redrawn: Floats | None = None) -> Combined:
    """Combine the estimates from m synthetic data sets by the rule for partially synthetic data.

    The variance is T = u_bar + b/m, not Rubin's u_bar + (1 + 1/m) b.  Here u_bar is the mean of the variances, and b
    the variance between the estimates.  If the data sets are drawn from noisy tables (tables of counts with noise for
    differential privacy), all data sets share the noise of these tables, and b does not include its variance.  So one
    data set is simulated R times as if the noise had other values, the variance of the R estimates is added to T, and
    the degrees of freedom are Satterthwaite's.

    Parameters
    ----------
    q, u : float arrays (m, D)
        Point estimates and variances of D quantities in m synthetic data sets.
    degf : float, or array (D,)
        Design degrees of freedom.  The t degrees of freedom are (m - 1)(1 + u_bar/(b/m))^2, but at most ``degf``.
    redrawn : float array (R, D), optional
        Estimates from the R simulations of one data set with other noise.

    Returns
    -------
    Combined
        With one data set there is no variance between data sets: T = u, and df = degf.
    """
    m = q.shape[0]
    q_bar, u_bar = q.mean(axis=0), u.mean(axis=0)
    if m == 1:
        df = np.broadcast_to(np.asarray(degf, dtype=np.float64), q_bar.shape).copy()
        return _with_noise(Combined(q_bar, np.sqrt(u_bar), df), degf, redrawn)
    between = np.where(np.ptp(q, axis=0) > 0, q.var(axis=0, ddof=1) / m, 0.0)  # exactly 0 for equal estimates
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (m - 1) * (1 + u_bar / between) ** 2
    df = np.where(between > 0, df, np.inf)
    return _with_noise(Combined(q_bar, np.sqrt(u_bar + between), np.minimum(df, degf)), degf, redrawn)


def _with_noise(combined: Combined, degf: float | Floats, redrawn: Floats | None) -> Combined:
    """Add the variance due to privacy noise, which is the variance of the estimates ``redrawn`` with other noise."""
    if redrawn is None:
        return combined
    valid = np.ma.masked_invalid(redrawn)  # a small domain may have no record in some data sets
    R, differ = valid.count(axis=0), np.ma.filled(np.ma.ptp(valid, axis=0), 0.0) > 0
    noise = np.ma.filled(valid.var(axis=0, ddof=1), np.nan) * differ  # exactly 0 for equal estimates
    T = combined.se**2
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (T + noise) ** 2 / (T**2 / combined.df + noise**2 / (R - 1))
    df = np.where(noise > 0, np.minimum(df, degf), combined.df)
    return Combined(combined.estimate, np.sqrt(T + noise), df)


def interval(combined: Combined, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the lower and the upper limits of t intervals of D estimates.  They are NaN without degrees of freedom."""
    df = np.where(combined.df > 0, combined.df, np.nan)
    half = student.ppf(0.5 + level / 2, df) * combined.se
    return combined.estimate - half, combined.estimate + half


def logit_interval(combined: Combined, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the lower and the upper confidence limits of D proportions, computed on the logit scale.

    The limits are between 0 and 1, and NaN for a proportion p of 0 or 1.  The method is R's
    ``svyciprop(method="xlogit")``: the standard error of the log odds is the standard error of p divided by p (1 - p).
    R's default, ``method="logit"``, gives the same limits on a linearized design.  On a design with replicate weights
    R's default differs a little, because R then computes the log odds in every replicate.
    """
    p, se = combined.estimate, combined.se
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = Combined(np.log(p / (1 - p)), se / (p * (1 - p)), combined.df)
        low, high = (1 / (1 + np.exp(-limit)) for limit in interval(inner, level))
    return low, high
