"""Stratified samples from a population, in one or two stages."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import get_args

import numpy as np
import pandas as pd

from ..choices import SecondStage
from ..design.discrete import is_label
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..sampling import Floats, Positions, inclusion_probabilities, proportional_allocation, systematic
from ..validation import one_of, rows

# Limit at which Student's t with 4 degrees of freedom is truncated, since exp(t) has no mean: in some populations, one
# salary would be most of the total salary of its field and gender.  P(|t4| > 13) is 1 in 5,000.
T4_CUT = 13.0


def draw_sample(
    population: pd.DataFrame,
    *,
    n: int,
    strata: str,
    size: str,
    rng: np.random.Generator,
    psu: str | None = None,
    take: int | str = 10,
    second_stage: SecondStage = "pps",
) -> SurveyDesign:
    """Draw a stratified sample of a population, with probability proportional to size.

    The sample is allocated to the strata in proportion to their numbers of units.  Selection is systematic, from units
    (or PSUs) in random order.  Without PSUs, units are drawn with inclusion probabilities pi proportional to size.

    With PSUs there are two stages.  First, n / take PSUs are drawn, with pi proportional to the sum of the sizes of
    their units.  Then ``take`` units are drawn in each of these PSUs.  If ``second_stage`` is "pps", the pi of a unit
    (over both stages) is proportional to take times its size within a stratum, unless a PSU or unit is certain.  If it
    is "srs", all units of a PSU have the same pi.

    Parameters
    ----------
    population : pandas.DataFrame
        One row per unit.
    n : int
        Sample size.  With PSUs it is a multiple of take.  If take differs between PSUs, the sample size is only
        approximately n, and the number of PSUs is n / (mean of take over all units of the population).
    strata, size : str
        Columns of strata and of the measure of size.
    rng : numpy.random.Generator
        Source of the randomness.
    psu : str, optional
        Column of PSUs.  The same label in two strata means two PSUs.
    take : int or str
        Number of units drawn in each selected PSU, or the name of a column with this number.
    second_stage : {"pps", "srs"}
        Selection within a PSU: proportional to size, or with equal probabilities.

    Returns
    -------
    SurveyDesign
        A design with the columns of the population and ``weight`` = 1 / pi, sorted by stratum.

    Raises
    ------
    InputError
        A column is unknown or has missing values; sizes are not positive numbers; n exceeds the population, is not a
        multiple of take, or allots fewer than two units (with PSUs: fewer than two PSUs) to a stratum, whose variance
        could then not be estimated; take is not a positive whole number or differs within a PSU; a stratum has too few
        PSUs; a PSU has too few units; ``second_stage`` is unknown; the population has a column ``weight`` already.

    Examples
    --------
    >>> population = ss.datasets.sdr_population(seed=1)
    >>> ss.datasets.draw_sample(population, n=400, strata="field", size="size", rng=np.random.default_rng(1))
    SurveyDesign: 400 records, weights 'weight', 8 strata 'field', no clusters
    """
    columns = {"strata": strata, "size": size}
    if psu is not None:
        columns |= {"psu": psu} | ({"take": take} if isinstance(take, str) else {})
    _check_population(population, columns)
    one_of(second_stage, get_args(SecondStage), "second_stage")
    for name, number in {"n": n, "take": 1 if isinstance(take, str) else take}.items():
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise InputError(f"{name} must be a whole number")
        if abs(number) > sys.maxsize:
            raise InputError(f"{name} is more than any population has units")
    take_of = _takes(population, strata, psu, take)
    if psu is not None and not isinstance(take, str) and (take < 1 or n % take):
        raise InputError(f"n = {n} is not a multiple of take = {take}, the number of units drawn in each PSU")
    mean_take = take_of.mean()
    stratum, labels = pd.factorize(population[strata], sort=True)
    N_h = np.bincount(stratum)
    allocation = proportional_allocation(N_h, round(n / mean_take))
    if allocation.min() < 2 or n > len(population):
        enough = int(np.ceil(mean_take * np.ceil(2 * len(population) / N_h.min())))
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
            drawn += _two_stages(units, sizes[units], cluster[units], n_h, take_of[units], second_stage, rng)
    sample = population.iloc[np.concatenate([units for units, _ in drawn])]
    pi = np.concatenate([p for _, p in drawn])
    return SurveyDesign(sample.assign(weight=1 / pi), weights="weight", strata=strata, psu=psu)


def _proportional(units: Positions, sizes: Floats, n: int, rng: np.random.Generator) -> tuple[Positions, Floats]:
    """Draw n units with probability proportional to size, and return their positions and inclusion probabilities.

    ``units`` has the positions, and ``sizes`` the sizes, of the units from which the sample is drawn.
    """
    pi = inclusion_probabilities(sizes, n)
    drawn = systematic(pi, rng)
    return units[drawn], pi[drawn]


def _takes(population: pd.DataFrame, strata: str, psu: str | None, take: int | str) -> Positions:
    """Return, for each unit, the number of units to draw in its PSU, (N,).  Without PSUs all these numbers are 1."""
    if psu is None:
        return np.ones(len(population), dtype=np.intp)
    if not isinstance(take, str):
        return np.full(len(population), take, dtype=np.intp)
    takes = population[take]
    bad = (takes % 1 != 0).to_numpy()
    if bad.any():
        raise InputError(f"take column {take!r} is not a whole number in {rows(bad)}")
    mixed = (population.groupby([strata, psu], observed=True)[take].transform("nunique") > 1).to_numpy()
    if mixed.any():
        raise InputError(f"take column {take!r} differs within a PSU in {rows(mixed)}")
    return takes.to_numpy(dtype=np.intp)


def _two_stages(
    units: Positions,
    sizes: Floats,
    cluster: Positions,
    n: int,
    take: Positions,
    second_stage: SecondStage,
    rng: np.random.Generator,
) -> list[tuple[Positions, Floats]]:
    """Draw n PSUs of a stratum, and units within each selected PSU.

    ``units`` are the positions of the units of the stratum in the population.  ``sizes``, ``cluster`` and ``take`` have
    the size, the PSU, and the number of units to draw in the PSU, for each of these units.  Return a pair of arrays for
    each selected PSU: the positions of the selected units, and their inclusion probabilities over both stages.
    """
    label, first, code = np.unique(cluster, return_index=True, return_inverse=True)
    take_of, size_of = take[first], np.bincount(code)
    if n > label.size or (take_of > size_of).any():
        raise InputError(
            f"a stratum needs {n} PSUs of at least {take_of.max()} units; it has {label.size}, and the smallest has "
            f"{size_of.min()} units: choose a smaller n or take"
        )
    total = np.asarray(np.bincount(code, weights=sizes), dtype=np.float64)
    shuffled = rng.permutation(label.size)
    drawn = []
    for c, pi_c in zip(*_proportional(shuffled, total[shuffled], n, rng), strict=True):
        inside = code == c
        within = sizes[inside] if second_stage == "pps" else np.ones(inside.sum())
        selected, pi = _proportional(units[inside], within, int(take_of[c]), rng)
        drawn.append((selected, pi_c * pi))
    return drawn


def _check_population(population: pd.DataFrame, columns: Mapping[str, str]) -> None:
    for role, name in columns.items():
        if name not in population.columns:
            raise InputError(f"{role}: the population has no column {name!r}")
        missing = population[name].isna().to_numpy()
        if missing.any():
            raise InputError(f"{role} column {name!r} is missing in {rows(missing)}; every unit needs it")
    for role in columns.keys() & {"size", "take"}:
        name = columns[role]
        if is_label(population[name]):
            raise InputError(f"{role} column {name!r} is not numeric")
        values = population[name].to_numpy(dtype=np.float64)
        bad = ~(np.isfinite(values) & (values > 0))
        if bad.any():
            raise InputError(f"{role} column {name!r} is not positive and finite in {rows(bad)}")
    if "weight" in population.columns:
        raise InputError("the population has a column 'weight', which is where the weights of the sample go: rename it")
