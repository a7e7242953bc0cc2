"""Inclusion probabilities proportional to size, and systematic selection."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .errors import InputError, rows

Floats = NDArray[np.float64]


def inclusion_probabilities(
    size: ArrayLike, n: int | Mapping[Hashable, int], strata: ArrayLike | None = None
) -> Floats:
    """First-order inclusion probabilities proportional to size, as R's ``sampling::inclusionprobabilities``.

    pi = n size / sum(size); units that come out at 1 or more are taken with certainty and the
    rest are computed again, until none exceeds 1.

    Parameters
    ----------
    size : array (N,)
        Size of each unit, not negative; a unit of size 0 gets probability 0, with a warning.
    n : int, or mapping of stratum to int
        Sample size, in each stratum where there are strata.
    strata : array (N,), optional
        Stratum of each unit.

    Returns
    -------
    float array (N,)
        Adds up to n (in each stratum).

    Raises
    ------
    InputError
        Sizes that are missing, infinite or negative; strata that are missing; n that is negative
        or above the number of units of positive size.
    """
    try:
        a = np.asarray(size, dtype=np.float64)
    except (TypeError, ValueError):
        a = np.empty((0, 0))
    if a.ndim != 1:
        raise InputError("size is not a column of numbers")
    if strata is not None:
        code, label = pd.factorize(np.asarray(strata, dtype=object))
        if code.size != a.size:
            raise InputError(f"strata and size differ in length: {code.size:,} and {a.size:,}")
        if (code < 0).any():
            raise InputError(f"the stratum is missing in {rows(code < 0)}")
        sizes = n if isinstance(n, Mapping) else dict.fromkeys(label.tolist(), n)
        pi = np.empty(a.size)
        for h, name in enumerate(label.tolist()):
            if name not in sizes:
                raise InputError("n gives no sample size for one of the strata; it maps every stratum to one")
            pi[code == h] = inclusion_probabilities(a[code == h], sizes[name])
        return pi
    bad = ~np.isfinite(a)
    if bad.any():
        raise InputError(f"size is missing or not finite in {rows(bad)}; every unit of the frame needs one")
    if (a < 0).any():
        raise InputError(f"size is negative in {rows(a < 0)}; sizes are zero or more")
    positive = a > 0
    if isinstance(n, bool) or not isinstance(n, (int, float, np.number)):
        raise InputError("n is not a number; a mapping of stratum to n goes with strata=")
    if not 0 <= n <= positive.sum():
        raise InputError(f"n = {n} is not between 0 and the {positive.sum():,} units of positive size")
    if not positive.all():
        warnings.warn(f"{(~positive).sum():,} units have size 0 and are never selected", stacklevel=2)
    pi = np.zeros(a.size)
    if n == 0:
        return pi
    p = n * a[positive] / a[positive].sum()
    certain = p >= 1
    known = 0
    while known != certain.sum():
        known = int(certain.sum())
        rest = p[~certain]
        p[~certain] = (n - known) * (rest / rest.sum())
        p[certain] = 1
        certain = p >= 1
    pi[positive] = p
    return pi


def systematic(pi: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """Systematic selection with a random start: unit k is drawn with probability pi_k exactly.

    Parameters
    ----------
    pi : float array (N,)
        Inclusion probabilities that add up to the sample size.
    rng : numpy.random.Generator

    Returns
    -------
    int array (n,)
        Positions of the selected units, in order.

    Raises
    ------
    InputError
        Probabilities below 0 or above 1, or that do not add up to a whole number.
    """
    n = np.round(np.sum(pi))
    if not (((pi >= 0) & (pi <= 1)).all() and abs(np.sum(pi) - n) < 1e-6):
        raise InputError("systematic selection needs probabilities between 0 and 1 that add up to a whole number")
    steps = np.concatenate([[0.0], np.cumsum(pi)]) + rng.random()
    steps[-1] = n + steps[0]  # the sum is n, but for rounding
    return np.flatnonzero(np.diff(np.floor(steps)) > 0)
