"""Levels, degrees of freedom and methods of intervals, against R's confint, svyciprop, svyquantile and svyttest."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from test_taylor import CLUS1, CLUS2, STRAT, svydesign

from surveysynth import InputError, SurveyDesign, difference, estimate, regression
from surveysynth.estimation.combining import Combined
from surveysynth.estimation.intervals import Interval

ROLES = {
    "apistrat": STRAT | {"fpc": "fpc"},
    "apiclus1": CLUS1 | {"fpc": "fpc"},
    "apiclus2": CLUS2 | {"fpc": ["fpc1", "fpc2"]},
}
LIMITS = ["ci_low", "ci_high"]


@pytest.fixture(scope="module", params=[*ROLES, "replicates"])
def surveys(request, r, r_frame, to_r):
    name = "apiclus1" if request.param == "replicates" else request.param
    frame = r_frame(name)
    to_r("d", frame)
    r.r(f"design <- update({svydesign(ROLES[name])}, wide = as.numeric(sch.wide == 'Yes'))")
    design = SurveyDesign(frame, **ROLES[name])
    if request.param == "replicates":
        r.r("design <- as.svrepdesign(design, type = 'JK1', mse = TRUE)")
        return design.replicates("JK1")
    return design


@pytest.mark.parametrize(("level", "df"), [(0.9, None), (0.99, 5), (0.95, np.inf)])
def test_level_and_df_are_those_of_confint(surveys, level, df, r):
    ddf = "degf(design)" if df is None else "Inf" if df == np.inf else df
    for statistic in ("mean", "total"):
        table = estimate(surveys, "api00", statistic=statistic, level=level, df=df)
        theirs = np.array(r.r(f"as.numeric(confint(svy{statistic}(~api00, design), level = {level}, df = {ddf}))"))
        np.testing.assert_allclose(table[LIMITS].to_numpy()[0], theirs, rtol=1e-10)
        assert table["df"][0] == (surveys.degf if df is None else df)


@pytest.mark.parametrize("level", [0.95, 0.8])
@pytest.mark.parametrize("method", ["xlogit", "mean", "asin", "beta", "likelihood"])
def test_proportions_equal_svyciprop(surveys, method, level, r):
    table = estimate(surveys, "sch.wide", statistic="proportion", level=level, interval=method).set_index("category")
    if surveys.replication is not None and method == "likelihood":
        return  # where R has NaN
    theirs = np.array(r.r(f"as.numeric(attr(svyciprop(~wide, design, method = '{method}', level = {level}), 'ci'))"))
    # the profile likelihood of R is interpolated
    rtol = 2e-3 if method == "likelihood" else 1e-9
    np.testing.assert_allclose(table.loc["Yes", LIMITS].to_numpy(float), theirs, rtol=rtol)


@settings(max_examples=50, deadline=None)
@given(st.floats(0.001, 0.999), st.floats(5, 5000), st.integers(1, 100), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
@example(0.001, 5.0, 1, 0.999)
@example(0.999, 5.0, 1, 0.999)
def test_wilson_and_likelihood_solve_their_equations(p, n_eff, df, level):
    """And every method's interval holds the estimate, and is within 0 and 1, but for the mean's."""
    one = Combined(np.array([p]), np.sqrt(np.array([p * (1 - p) / n_eff])), np.array([float(df)]))
    t, n = student.ppf(0.5 + level / 2, df), np.array([1000.0])
    for limit in Interval(level, None, "wilson").share_limits(one, n, "mean"):
        q = limit[0]
        rounded = 4 * t**2 / n_eff * np.finfo(float).eps  # what the last digit of a limit near 1 is worth
        np.testing.assert_allclose((p - q) ** 2, t**2 * q * (1 - q) / n_eff, rtol=1e-6, atol=1e-12 + rounded)
    for method in ("xlogit", "asin", "beta", "wilson", "likelihood"):
        low, high = Interval(level, None, method).share_limits(one, n, "mean")
        if method != "asin":  # beyond 0 or 1 the arcsine turns back
            assert 0 <= low[0] <= p <= high[0] <= 1, method


@pytest.mark.parametrize("method", ["mean", "xlogit", "beta", "asin"])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_quantiles_equal_svyquantile(surveys, method, level, r):
    """With replicates R's survey 4.1 takes "mean" whatever it is told."""
    if surveys.replication is not None and method != "mean":
        return
    probs = [0.25, 0.5, 0.9]
    table = estimate(surveys, "api00", statistic="quantile", quantiles=probs, level=level, interval=method)
    r.r(f"q <- svyquantile(~api00, design, c(.25, .5, .9), alpha = 1 - {level}, interval.type = '{method}')[[1]]")
    np.testing.assert_allclose(table[["estimate", *LIMITS]], np.array(r.r("q[, 1:3]")), rtol=1e-12)
    np.testing.assert_allclose(table["se"], np.array(r.r("as.numeric(q[, 4])")), rtol=1e-9)


def test_a_difference_has_the_degrees_of_freedom_of_svyttest(surveys, r):
    r.r("test <- svyttest(api00 ~ wide, design)")
    apart = difference(surveys, "api00", between={"sch.wide": ("Yes", "No")})
    slope = regression(surveys, "api00 ~ sch.wide").table.iloc[1]
    for ours in (apart.iloc[0], slope):
        np.testing.assert_allclose(ours["estimate"] / ours["se"], r.r("as.numeric(test$statistic)")[0], rtol=1e-8)
        assert ours["df"] == r.r("as.numeric(test$parameter)")[0]
    np.testing.assert_allclose(apart.loc[0, [*LIMITS]].to_numpy(float), slope[LIMITS].to_numpy(float), rtol=1e-8)


def test_differences_of_another_level(surveys):
    usual, wide = (
        difference(surveys, "api00", between={"sch.wide": ("Yes", "No")}, level=level, df=df).iloc[0]
        for level, df in ((0.95, None), (0.99, np.inf))
    )
    assert wide["df"] == np.inf and wide["se"] == usual["se"]
    np.testing.assert_allclose(wide["ci_high"] - wide["estimate"], 2.5758293035489 * wide["se"], rtol=1e-10)


FRAME = pd.DataFrame({"w": 1.0, "y": [1.0, 2, 3, 4]})


@pytest.mark.parametrize(("asked", "message"), [
    ({"level": 95}, "level must be a number between 0 and 1"),
    ({"level": True}, "level must be a number"),
    ({"df": 0}, "df must be a positive number"),
    ({"df": "many"}, "df must be a number"),
    ({"interval": "wald"}, "interval='wald' is not one of xlogit, mean, asin, beta, wilson, likelihood"),
])  # fmt: skip
def test_refusals(asked, message):
    with pytest.raises(InputError, match=message):
        estimate(SurveyDesign(FRAME, weights="w"), "y", **asked)
