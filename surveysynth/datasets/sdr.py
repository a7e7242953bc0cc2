"""A simulated population of doctorate holders, like that of the US Survey of Doctorate Recipients, and samples."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..choices import SecondStage
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..sampling import Floats, Positions
from ..validation import check_seed, positive
from .draw import T4_CUT, draw_sample

Errors = Literal["lognormal", "t4", "skewed", "heteroskedastic", "clustered"]
# Field, gender, units and mean salary (dollars) of the simulated population: columns "Pop." of Tables 4 and 5 in
# Hu, Savitsky & Williams 2022a.  The units add up to 100,000.
SDR_CELLS = (
    ("1", "male", 14_599, 121_125),
    ("1", "female", 13_364, 99_226),
    ("2", "male", 1_951, 146_916),
    ("2", "female", 783, 125_358),
    ("3", "male", 2_918, 118_338),
    ("3", "female", 1_117, 105_081),
    ("4", "male", 12_381, 122_601),
    ("4", "female", 5_728, 100_618),
    ("5", "male", 3_861, 120_531),
    ("5", "female", 7_336, 98_060),
    ("6", "male", 6_433, 122_676),
    ("6", "female", 6_409, 97_595),
    ("7", "male", 14_358, 136_370),
    ("7", "female", 3_773, 116_566),
    ("8", "male", 2_033, 137_349),
    ("8", "female", 2_956, 106_388),
)
SCALE = 0.4  # standard deviation of log salary within a cell, and of log size given salary (section 4.1)


def sdr_population(
    seed: int | np.random.Generator | None = None,
    errors: Errors = "lognormal",
    icc: float = 0.15,
    units_of_a_psu: float = 300,
) -> pd.DataFrame:
    """Simulate the salaries of 100,000 doctorate holders, in 8 fields and 2 genders.

    Source: Hu, Savitsky & Williams 2022a, section 4.1, eq. 11.

    Each of the 16 cells (field and gender) has the number of units and the mean salary that the paper prints (Tables 4
    and 5, "Pop.").  Within a cell, log salary = log(mean) - 0.08 + 0.4 e with a random e.  All salaries of the cell are
    then multiplied by one number, so that the mean salary is exactly the printed one.  The size of a unit, to which
    inclusion probabilities are proportional, is salary exp(0.4 z) with a standard normal z.

    Parameters
    ----------
    seed : int or numpy.random.Generator, optional
        Random by default.
    errors : {"lognormal", "t4", "skewed", "heteroskedastic", "clustered"}
        Distribution of e.  All but the first are for studies of robustness:

        - lognormal: standard normal, as in the paper;
        - t4: Student t with 4 degrees of freedom, truncated at +-13, scaled to sd 1;
        - skewed: a gamma variable with skewness 1 (shape 4), standardised;
        - heteroskedastic: normal; the sd of log salary rises in equal steps from 0.2 in field 1 to 0.6 in field 8;
        - clustered: units belong to universities (column ``psu``), each within one field; e is the sum of a normal
          effect of the university with variance icc and a normal error with variance 1 - icc.
    icc : float
        Intraclass correlation of log salary given field and gender, from 0 to below 1, for clustered errors.
    units_of_a_psu : float
        Mean number of units of a university, for clustered errors.  The expected number of units varies between
        universities, from about 0.5 to about 1.5 times this mean.

    Returns
    -------
    pandas.DataFrame
        One row per unit (100,000 rows), sorted by field and gender.  The columns are ``field`` (text "1" to "8"),
        ``gender`` ("male" or "female"), ``salary`` (dollars), ``size`` and, if errors are clustered, ``psu`` (text).

    Raises
    ------
    InputError
        ``errors`` is unknown; icc is not a number from 0 to below 1; ``units_of_a_psu`` is not positive, or is so large
        that a field has fewer than two universities.

    Examples
    --------
    >>> population = ss.datasets.sdr_population(seed=1)
    >>> population.groupby("gender")["salary"].mean().round()
    gender
    female    101699.0
    male      126592.0
    Name: salary, dtype: float64
    """
    if errors not in get_args(Errors):
        raise InputError(f"errors={errors!r} is not one of {', '.join(get_args(Errors))}")
    if isinstance(icc, bool) or not isinstance(icc, (int, float)) or not 0 <= icc < 1:
        raise InputError("icc must be a number from 0 to below 1")
    rng = np.random.default_rng(seed)
    cells = pd.DataFrame(SDR_CELLS, columns=["field", "gender", "units", "mean"])
    cell = np.repeat(np.arange(len(cells)), cells["units"])
    population = cells[["field", "gender"]].iloc[cell].reset_index(drop=True)
    field, N = cells["field"].to_numpy(dtype=np.intp)[cell], len(cell)
    log_salary = SCALE * rng.standard_normal(N)
    if errors == "t4":
        log_salary = SCALE * _standard_t4(N, rng)
    elif errors == "skewed":
        log_salary = SCALE * (rng.gamma(4, size=N) - 4) / 2
    elif errors == "heteroskedastic":
        log_salary *= np.linspace(0.2, 0.6, 8)[field - 1] / SCALE
    elif errors == "clustered":
        population["psu"], code = _universities(field, positive(units_of_a_psu, "units_of_a_psu"), rng)
        effect = SCALE * rng.standard_normal(code.max() + 1)
        log_salary = np.sqrt(icc) * effect[code] + np.sqrt(1 - icc) * log_salary
    relative = np.exp(log_salary)
    relative /= (np.bincount(cell, weights=relative) / cells["units"].to_numpy())[cell]
    population["salary"] = cells["mean"].to_numpy()[cell] * relative
    population["size"] = population["salary"] * np.exp(SCALE * rng.standard_normal(N))
    return population


def _standard_t4(N: int, rng: np.random.Generator) -> Floats:
    """Draw N values of a truncated Student's t with 4 degrees of freedom, scaled to standard deviation 1."""
    t = rng.standard_t(4, N)
    while (far := np.abs(t) > T4_CUT).any():
        t[far] = rng.standard_t(4, int(far.sum()))
    s2 = T4_CUT**2 / (4 + T4_CUT**2)
    return t / np.sqrt(4 * s2 / (3 - s2))  # the variance of t is found by t = 2 tan(angle)


def _universities(field: Positions, size: float, rng: np.random.Generator) -> tuple[NDArray[np.object_], Positions]:
    """Assign each unit to a random university of its field.  ``size`` is the mean number of units of a university.

    Return two arrays (N,): the label of each unit's university, and its number from 0.
    """
    fewest = np.bincount(field)[1:].min()
    if round(fewest / size) < 2:
        raise InputError(f"units_of_a_psu = {size:g} leaves a field of {fewest:,} units fewer than two universities")
    label = np.empty(field.size, dtype=object)
    code = np.zeros(field.size, dtype=np.intp)
    known = 0
    for f in np.unique(field):
        here = np.flatnonzero(field == f)
        share = rng.uniform(0.5, 1.5, round(here.size / size))
        edges = np.cumsum(share / share.sum())[:-1]
        inside = np.searchsorted(edges, rng.random(here.size), side="right")
        label[here] = np.array([f"{f}-{k:02d}" for k in range(1, share.size + 1)], dtype=object)[inside]
        code[here] = known + inside
        known += share.size
    return label, code


def sdr_sample(
    n: int = 1000,
    seed: int | np.random.Generator | None = None,
    population: pd.DataFrame | None = None,
    take: int | str = 10,
    second_stage: SecondStage = "pps",
) -> SurveyDesign:
    """Draw a stratified sample of :func:`sdr_population` with probability proportional to size.

    Source: Hu, Savitsky & Williams 2022a, section 4.1.

    Strata are the fields.  The sample is allocated to them in proportion to their numbers of units.  Selection is
    systematic, from units in random order.  If the population has universities (column ``psu``), there are two stages:
    universities are drawn with probability proportional to the total size of their units, then ``take`` units of each
    selected university.

    Parameters
    ----------
    n : int
        Sample size, as for :func:`draw_sample`.
    seed : int or numpy.random.Generator, optional
        Random by default.
    population : pandas.DataFrame, optional
        A population from :func:`sdr_population`; a new one by default.
    take, second_stage
        See :func:`draw_sample`.  Without universities these arguments have no effect.

    Returns
    -------
    SurveyDesign
        A design with the columns of the population and ``weight`` = 1 / pi.

    Raises
    ------
    InputError
        :func:`draw_sample` refuses the arguments; the seed is not a whole number of at least 0; the population is not a
        DataFrame.

    Examples
    --------
    >>> ss.datasets.sdr_sample(500, seed=1)
    SurveyDesign: 500 records, weights 'weight', 8 strata 'field', no clusters
    >>> universities = ss.datasets.sdr_population(seed=1, errors="clustered")
    >>> ss.datasets.sdr_sample(800, seed=1, population=universities)
    SurveyDesign: 800 records, weights 'weight', 8 strata 'field', 80 PSUs 'psu'
    """
    if not isinstance(seed, np.random.Generator):
        check_seed(seed)
    rng = np.random.default_rng(seed)
    population = sdr_population(rng) if population is None else population
    if not isinstance(population, pd.DataFrame):
        raise InputError("population must be a DataFrame, as sdr_population() makes it")
    psu = "psu" if "psu" in population.columns else None
    return draw_sample(
        population, n=n, strata="field", size="size", rng=rng, psu=psu, take=take, second_stage=second_stage
    )
