"""What is done otherwise where records are very many: against what is done where they are few, and plain sums."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import surveysynth as ss
from surveysynth.models.densities import lipschitz_search, normal_density
from surveysynth.models.predictors.model_matrix import predictor_rows


@pytest.mark.parametrize("D", [1, 2, 3])
@pytest.mark.parametrize("tilt", [0.0, 30.0])  # of the base: the largest, or the smallest, draw is the farthest
def test_the_farthest_of_all_draws_is_found(D, tilt, monkeypatch):
    """Against scipy's densities, draw by draw; boxes are cut down to a few records."""
    rng, n, S, G = np.random.default_rng(3), 1200, 300, 3
    X = np.column_stack([np.ones(G), np.arange(G)])
    pattern, Y = rng.integers(0, G, n), rng.standard_t(4, (n, D))
    B = np.array([0.1, 0.2])[:, None] + 0.1 * rng.standard_normal((S, 2, D))
    L = np.eye(D) + 0.1 * np.tril(rng.standard_normal((S, D, D)))
    base = tilt * rng.random(n)
    monkeypatch.setattr(lipschitz_search, "TASK", 250)
    found = normal_density.max_abs_log_density(Y, pattern, X, B, L, base)
    residual = [Y - (X @ B[s])[pattern] for s in range(S)]
    each = np.array([multivariate_normal(np.zeros(D), L[s] @ L[s].T).logpdf(residual[s]) for s in range(S)])
    np.testing.assert_allclose(found, np.abs(each + base).max(axis=0), rtol=1e-10)


@pytest.mark.parametrize("formula", ["region * age", "log(age) + C(sex)", "region + I(age**2)", "age + region:sex"])
def test_rows_of_one_record_each_are_those_of_all_records(formula, monkeypatch):
    rng = np.random.default_rng(0)
    region, sex = np.array(["a", "b", "c"])[rng.integers(0, 3, 500)], rng.integers(1, 3, 500)
    frame = pd.DataFrame({"region": region, "sex": sex, "age": rng.integers(18, 80, 500), "w": 1.0})
    design = ss.SurveyDesign(frame, weights="w")
    X, row, columns = predictor_rows(design, formula, None)
    monkeypatch.setattr("surveysynth.models.predictors.model_matrix._row_by_row", lambda predictors: False)
    whole, same, names = predictor_rows(design, formula, None)
    np.testing.assert_array_equal(X, whole)
    np.testing.assert_array_equal(row, same)
    assert columns == names


@pytest.mark.parametrize("formula", ["center(age)", "bs(age, df=4)", "I(age - age.mean())", "scale(age) + age"])
def test_terms_that_look_at_other_records_are_evaluated_on_all(formula):
    """The mean of the file is not that of its different values."""
    frame = pd.DataFrame({"age": [20, 20, 20, 21, 22, 23, 24, 25, 60.0, 60], "w": 1.0})
    design = ss.SurveyDesign(frame, weights="w")
    X, row, _ = predictor_rows(design, formula, None)
    if formula in ("center(age)", "I(age - age.mean())"):
        np.testing.assert_allclose(X[row, 1], frame["age"] - frame["age"].mean())
    assert len(X) == 7
