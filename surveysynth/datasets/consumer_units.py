"""A simulated file of consumer units, which are the households of the US Consumer Expenditure Survey."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..sampling import Floats
from ..validation import whole

# Ages of reference persons: label, share of consumer units, log of median income relative to ages 45 to 54.
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
MARITAL_BY_AGE = (  # shares, one line per age group
    (0.10, 0.00, 0.01, 0.02, 0.87),
    (0.43, 0.00, 0.06, 0.03, 0.48),
    (0.58, 0.01, 0.12, 0.04, 0.25),
    (0.57, 0.02, 0.20, 0.04, 0.17),
    (0.54, 0.07, 0.24, 0.02, 0.13),
    (0.45, 0.31, 0.17, 0.01, 0.06),
)
OWNERS_BY_AGE = (0.12, 0.40, 0.60, 0.69, 0.74, 0.77)
INCOMES = (-200_000.0, 2_000_000.0)  # limits in dollars of the incomes in all drawn files


def consumer_units(n: int = 5571, seed: int | np.random.Generator | None = None) -> pd.DataFrame:
    """Simulate a file of consumer units and their family incomes.

    The file resembles the survey file of Hu, Savitsky & Williams (2022b, section 1.1), in which incomes range from
    approximately -7,000 to 1.8 million dollars.  All values are drawn by the rules in this module, without records or
    tables of a survey.  Shares and medians are round numbers, approximately those of households in the United States
    around 2017.

    Given age group, education, marital status, tenure and urban or rural area, log income is normal with standard
    deviation 0.65.  For one unit in eight the mean is lower and the standard deviation is 1.1.  One unit in fifty has
    a Pareto income between 150,000 dollars and a million instead.  About 8% of the units report an income of 0, more
    often if they are young, old or never married.  One unit in a thousand reports a loss.  Answers are heaped: most are
    rounded to 100, 1,000 or 5,000 dollars.  Incomes lie within the public limits of -200,000 and 2 million dollars.  An
    income above the upper limit is drawn again, which happens to one unit in 20,000.

    Parameters
    ----------
    n : int
        Number of records.
    seed : int or numpy.random.Generator, optional
        Random by default.

    Returns
    -------
    pandas.DataFrame
        One row per consumer unit.  The columns are texts ``age_group`` (6 categories), ``urban`` (2), ``tenure`` (3),
        ``education`` (5) and ``marital`` (5), and the number ``income`` (dollars per year).  There are no weights.

    Raises
    ------
    InputError
        n is not a whole number of at least 1.

    Examples
    --------
    >>> units = ss.datasets.consumer_units(200, seed=1)
    >>> units.shape
    (200, 6)
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
    group_income, log_income = log_income, log_income + _within_groups(n, rng)
    while (beyond := log_income > np.log(INCOMES[1])).any():
        log_income[beyond] = group_income[beyond] + _within_groups(int(beyond.sum()), rng)
    income = np.exp(log_income)
    far = rng.random(n) < 0.02
    beyond = 1 - (FAR[0] / FAR[1]) ** TAIL  # share of the Pareto distribution below its upper limit
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
    """Draw the deviations of n log incomes from the means of their groups.

    They are normal with mean 0 and standard deviation 0.65 or, for one unit in eight, with mean -0.5 and standard
    deviation 1.1.
    """
    odd = rng.random(n) < 1 / 8
    return np.where(odd, -0.5 + 1.1 * rng.standard_normal(n), 0.65 * rng.standard_normal(n))


def _heaped(income: Floats, rng: np.random.Generator) -> Floats:
    """Round incomes as respondents do: to 1, 100, 1,000 or 5,000 dollars at random, but small incomes more finely."""
    to = rng.choice([1, 100, 1000, 5000], income.size, p=[0.25, 0.25, 0.3, 0.2])
    to = np.minimum(to, np.select([income < 5000, income < 25_000], [100, 1000], 5000))
    return np.asarray(np.round(income / to) * to)


FAR, TAIL = (150_000.0, 1_000_000.0), 1.5  # limits of the tail of incomes in dollars, and its Pareto index
