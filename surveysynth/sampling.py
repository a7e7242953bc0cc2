"""Inclusion probabilities proportional to size, systematic selection, and samples drawn with the two."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .design import SurveyDesign
from .errors import InputError, rows

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]


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


def systematic(pi: Floats, rng: np.random.Generator) -> Positions:
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


def proportional_allocation(units: ArrayLike, n: int) -> Positions:
    """Sample sizes in proportion to the strata, by largest remainder.

    Parameters
    ----------
    units : int array (H,)
        Units of each stratum in the population.
    n : int
        Sample size over all strata.

    Returns
    -------
    int array (H,)
        Adds up to n; each within 1 of n N_h / N.  Of equal remainders the first is served first.
    """
    N_h = np.asarray(units, dtype=np.intp)
    sizes, remainder = np.divmod(n * N_h, N_h.sum())
    sizes[np.argsort(-remainder, kind="stable")[: n - sizes.sum()]] += 1
    return sizes


def draw_sample(
    population: pd.DataFrame,
    *,
    n: int,
    strata: str,
    size: str,
    rng: np.random.Generator,
    psu: str | None = None,
    take: int = 10,
) -> SurveyDesign:
    """A stratified sample of a population, with probability proportional to size.

    The sample is allocated to the strata in proportion to their units.  Without PSUs, units are
    drawn systematically, in random order, with pi proportional to size.  With PSUs there are two
    stages, each systematic, in random order: n / take PSUs, allocated to the strata in proportion
    to their units and drawn proportional to the sum of their units' sizes; then ``take`` units of
    each, proportional to size.  Unless a PSU or unit is taken with certainty, pi is again
    proportional to size within a stratum.

    Parameters
    ----------
    population : pandas.DataFrame
        One row a unit.
    n : int
        Sample size.
    strata, size : str
        Columns of strata, and of the measure of size.
    rng : numpy.random.Generator
    psu : str, optional
        Column of PSUs; a label counts within its stratum.
    take : int
        Units of each PSU, where there are PSUs.

    Returns
    -------
    SurveyDesign
        Columns of the population and ``weight`` = 1 / pi; strata one after another.

    Raises
    ------
    InputError
        A column that is not there or has missing values, sizes that are not positive numbers; an
        n that leaves a stratum fewer than two units (PSUs), that exceeds the population or is no
        multiple of take; a stratum with too few PSUs; a PSU with too few units.
    """
    _check_population(population, {"strata": strata, "size": size} | ({} if psu is None else {"psu": psu}))
    for name, number in {"n": n, "take": take}.items():
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise InputError(f"{name} must be a whole number")
    take = 1 if psu is None else take
    if take < 1 or n % take:
        raise InputError(f"n = {n} is not a multiple of take = {take}, the number of units drawn in each PSU")
    stratum, labels = pd.factorize(population[strata], sort=True)
    N_h = np.bincount(stratum)
    allocation = proportional_allocation(N_h, n // take)
    if allocation.min() < 2 or n > len(population):
        enough = take * int(np.ceil(2 * len(population) / N_h.min()))
        raise InputError(
            f"no sample of n = {n} can be drawn: at least two {'units' if psu is None else 'PSUs'} in each of the "
            f"{labels.size} strata are needed (n = {enough} is enough), and there are {len(population):,} units in all"
        )
    sizes = population[size].to_numpy(dtype=np.float64)
    cluster = None if psu is None else pd.factorize(population[psu])[0]
    order = rng.permutation(len(population))
    stratum = stratum[order]
    drawn = []
    for h, n_h in enumerate(allocation.tolist()):
        units = order[stratum == h]
        if cluster is None:
            drawn.append(_proportional(units, sizes[units], n_h, rng))
        else:
            drawn += _two_stages(units, sizes[units], cluster[units], n_h, take, rng)
    sample = population.iloc[np.concatenate([units for units, _ in drawn])]
    pi = np.concatenate([p for _, p in drawn])
    return SurveyDesign(sample.assign(weight=1 / pi), weights="weight", strata=strata, psu=psu)


def _proportional(units: Positions, sizes: Floats, n: int, rng: np.random.Generator) -> tuple[Positions, Floats]:
    """These units, n of them, drawn proportional to size, and their inclusion probabilities."""
    pi = inclusion_probabilities(sizes, n)
    drawn = systematic(pi, rng)
    return units[drawn], pi[drawn]


def _two_stages(
    units: Positions, sizes: Floats, cluster: Positions, n: int, take: int, rng: np.random.Generator
) -> list[tuple[Positions, Floats]]:
    """``take`` units in each of n PSUs of a stratum: units and inclusion probabilities, PSU by PSU."""
    label, code = np.unique(cluster, return_inverse=True)
    fewest = np.bincount(code).min()
    if n > label.size or take > fewest:
        raise InputError(
            f"a stratum needs {n} PSUs of at least {take} units; it has {label.size}, and the smallest has {fewest} "
            "units: choose a smaller n or take"
        )
    total = np.asarray(np.bincount(code, weights=sizes), dtype=np.float64)
    shuffled = rng.permutation(label.size)
    drawn = []
    for c, pi_c in zip(*_proportional(shuffled, total[shuffled], n, rng), strict=True):
        inside = code == c
        chosen, pi = _proportional(units[inside], sizes[inside], take, rng)
        drawn.append((chosen, pi_c * pi))
    return drawn


def _check_population(population: pd.DataFrame, columns: Mapping[str, str]) -> None:
    for role, name in columns.items():
        if name not in population.columns:
            raise InputError(f"{role}: the population has no column {name!r}")
        missing = population[name].isna().to_numpy()
        if missing.any():
            raise InputError(f"{role} column {name!r} is missing in {rows(missing)}; every unit needs it")
    size = population[columns["size"]]
    if not pd.api.types.is_numeric_dtype(size.dtype):
        raise InputError(f"size column {columns['size']!r} is not numeric")
    bad = ~(np.isfinite(size.to_numpy(dtype=np.float64)) & (size.to_numpy() > 0))
    if bad.any():
        raise InputError(f"size column {columns['size']!r} is not positive and finite in {rows(bad)}")
    if "weight" in population.columns:
        raise InputError("the population has a column 'weight', which is where the weights of the sample go: rename it")
