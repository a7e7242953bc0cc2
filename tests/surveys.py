"""Small confidential files for the tests, made from a fixed seed."""

import numpy as np
import pandas as pd

import surveysynth as ss

PSEUDO = ss.PseudoPosterior()
FIELDS = ["01", "02", "NA", "ökonomie"]


def make_frame(n=400, seed=3):
    """Income by field and gender; informative weights; an id and a column that no model uses."""
    rng = np.random.default_rng(seed)
    field = rng.permutation(np.repeat(FIELDS, -(-n // 4))[:n])
    gender = rng.choice(["f", "m"], n)
    income = np.exp(rng.normal(10 + 0.3 * (field == "02") + 0.2 * (gender == "m"), 0.5))
    weight = np.exp(4 - 0.3 * (np.log(income) - 10) + rng.normal(0, 0.3, n))
    return pd.DataFrame({
        "id": np.arange(n) + 900_000, "field": field, "gender": gender, "income": income,
        "hours": rng.gamma(20, 2, n), "wt": weight,
    })  # fmt: skip


def make_design(n=400, seed=3, **roles):
    return ss.SurveyDesign(make_frame(n, seed), **({"weights": "wt", "strata": "field"} | roles))


def model(predictors="field + gender", **settings):
    return ss.FBS("income", predictors, **({"prior": "flat"} | settings))


def population_model(predictors="field + gender", **settings):
    return ss.FBP("income", predictors, **({"prior": "flat"} | settings))
