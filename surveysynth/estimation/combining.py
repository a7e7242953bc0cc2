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
    """Combined estimates, each an array (D,): estimate, standard error, degrees of freedom."""

    estimate: Floats
    se: Floats
    df: Floats


def combine(q: Floats, u: Floats, degf: float | Floats, redrawn: Floats | None = None) -> Combined:
    """Combine m estimates, with variance b between them, by T = u_bar + b/m, not Rubin's u_bar + (1 + 1/m) b.

    If the data sets are drawn from noisy tables, they all share the noise of these tables, and b does not include this
    noise.  The variance of estimates with redrawn noise is therefore added to T, and the degrees of freedom then are
    Satterthwaite's.

    Parameters
    ----------
    q, u : float arrays (m, D)
        Point estimates and variances of D quantities in m synthetic data sets.
    degf : float, or array (D,)
        Design degrees of freedom, the most that the t degrees of freedom
        (m - 1)(1 + u_bar/(b/m))^2 can be.
    redrawn : float array (R, D), optional
        Estimates from one data set with noise redrawn R times.

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
    """The combined estimates, with the variance of the noise that all data sets share added."""
    if redrawn is None:
        return combined
    there = np.ma.masked_invalid(redrawn)  # a small domain may have no record in some data sets
    R, differ = there.count(axis=0), np.ma.filled(np.ma.ptp(there, axis=0), 0.0) > 0
    noise = np.ma.filled(there.var(axis=0, ddof=1), np.nan) * differ  # exactly 0 for equal estimates
    T = combined.se**2
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (T + noise) ** 2 / (T**2 / combined.df + noise**2 / (R - 1))
    df = np.where(noise > 0, np.minimum(df, degf), combined.df)
    return Combined(combined.estimate, np.sqrt(T + noise), df)


def interval(combined: Combined, level: float = 0.95) -> tuple[Floats, Floats]:
    """Limits of two-sided t intervals, (D,) each; NaN if there are no degrees of freedom."""
    df = np.where(combined.df > 0, combined.df, np.nan)
    half = student.ppf(0.5 + level / 2, df) * combined.se
    return combined.estimate - half, combined.estimate + half


def logit_interval(combined: Combined, level: float = 0.95) -> tuple[Floats, Floats]:
    """Limits of proportions, computed on the logit scale, so that they are between 0 and 1: (D,) each.

    They are NaN for a proportion of 0 or 1.  The method is R's ``svyciprop(method="xlogit")``: the standard error of
    the log odds is the standard error of the share divided by p (1 - p).  R's default, ``method="logit"``, is the same
    on a linearized design.  On replicates it differs a little, as it computes the log odds in every replicate.
    """
    p, se = combined.estimate, combined.se
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = Combined(np.log(p / (1 - p)), se / (p * (1 - p)), combined.df)
        low, high = (1 / (1 + np.exp(-limit)) for limit in interval(inner, level))
    return low, high
