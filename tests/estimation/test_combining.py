"""T = u_bar + b/m with its t degrees of freedom, by hand, and what Rubin's rule would say instead."""

import numpy as np
import pandas as pd
import pytest
from surveys import PSEUDO, make_design, model

import surveysynth as ss
from surveysynth.estimation.combining import Combined, combine, interval
from surveysynth.estimation.estimators import Estimates
from surveysynth.estimation.quantities import Quantity
from surveysynth.estimation.tables import combined_of

Q = np.array([[10.0, 5.0, 7.0], [12.0, 5.0, 7.5], [14.0, 5.0, 7.1]])
U = np.array([[1.0, 2.0, 0.0], [2.0, 2.0, 0.0], [3.0, 5.0, 0.0]])


def test_by_hand():
    got = combine(Q[:, :1], U[:, :1], degf=1e9)
    # q_bar = 12, b = (4 + 0 + 4)/2 = 4, u_bar = 2, T = 2 + 4/3, v = 2 (1 + 2/(4/3))^2 = 2 * 2.5^2
    np.testing.assert_allclose([got.estimate[0], got.se[0] ** 2, got.df[0]], [12, 10 / 3, 12.5], rtol=1e-14)
    rubin = 2 + (1 + 1 / 3) * 4
    assert abs(got.se[0] ** 2 - rubin) > 3


def test_two_data_sets_by_hand():
    got = combine(np.array([[1.0], [3.0]]), np.array([[0.5], [1.5]]), degf=1e9)
    # b = 2, u_bar = 1, T = 1 + 2/2, v = 1 (1 + 1/1)^2
    np.testing.assert_allclose([got.estimate[0], got.se[0] ** 2, got.df[0]], [2, 2, 4], rtol=1e-14)


def test_equal_estimates_have_the_degrees_of_freedom_of_the_design():
    got = combine(Q[:, 1:2], U[:, 1:2], degf=31)
    np.testing.assert_allclose([got.estimate[0], got.se[0] ** 2, got.df[0]], [5, 3, 31], rtol=1e-14)


def test_no_variance_within_leaves_the_between_variance():
    got = combine(Q[:, 2:], U[:, 2:], degf=31)
    np.testing.assert_allclose([got.estimate[0], got.se[0] ** 2, got.df[0]], [7.2, 0.07 / 3, 2], rtol=1e-12)


def test_one_data_set_is_itself():
    got = combine(Q[:1], U[:1], degf=31)
    np.testing.assert_array_equal([got.estimate, got.se**2, got.df], [Q[0], np.sqrt(U[0]) ** 2, [31, 31, 31]])


@pytest.mark.parametrize("degf", [0, 1, 12, 12.5, 13, 1e6])
def test_df_never_exceeds_that_of_the_design(degf):
    np.testing.assert_allclose(combine(Q, U, degf).df, np.minimum([12.5, np.inf, 2], degf), rtol=1e-14)


@pytest.mark.filterwarnings("error")
def test_an_estimate_that_is_missing_stays_missing():
    got = combine(np.array([[np.nan, 1.0]] * 3), np.array([[np.nan, 1.0]] * 3), degf=4)
    np.testing.assert_array_equal([got.estimate, got.se], [[np.nan, 1], [np.nan, 1]])


def test_interval_is_that_of_t():
    # upper 2.5% points of t as printed in every table: 2 df 4.303, 31 df 2.040, 12.706 for 1 df
    low, high = interval(Combined(np.zeros(3), np.array([1.0, 2.0, 1.0]), np.array([2.0, 31.0, 1.0])))
    np.testing.assert_allclose(high, [4.302653, 2 * 2.039513, 12.706205], rtol=1e-6)
    np.testing.assert_array_equal(low, -high)
    low, high = interval(Combined(np.ones(1), np.ones(1), np.full(1, np.inf)), level=0.9)
    np.testing.assert_allclose([low[0], high[0]], [1 - 1.644854, 1 + 1.644854], rtol=1e-6)


def test_no_degrees_of_freedom_no_interval():
    assert np.isnan(interval(Combined(np.ones(1), np.ones(1), np.zeros(1)))).all()


@pytest.fixture(scope="module")
def release():
    return ss.synthesize(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)


def test_a_function_that_gives_what_a_table_has_makes_that_table(release):
    """Means by gender from one call of estimate: the numbers of release.tables, but for the domains' own df."""

    def means(design):
        table = ss.estimate(design, "income", "gender").set_index("gender")
        return table["estimate"], table["se"] ** 2

    table = release.tables("gender", outcome="income", statistic="mean")
    found = release.combine(means)
    assert found["term"].tolist() == ["f", "m", "all"]
    np.testing.assert_allclose(found[["estimate", "se"]], table[["estimate", "se"]], rtol=1e-12)
    np.testing.assert_allclose(found.iloc[2, 1:].astype(float), table.loc[2, [*found.columns[1:]]].astype(float))


def test_a_covariance_gives_its_diagonal_and_a_number_one_row(release):
    """Coefficients with their covariance: the standard errors of release.regression."""

    def coefficients(design):
        fit = ss.regression(design, "income ~ gender")
        return fit.table.set_index("term")["estimate"], fit.covariance

    found, expected = release.combine(coefficients), release.regression("income ~ gender").table
    assert found["term"].tolist() == expected["term"].tolist()
    np.testing.assert_allclose(found[["estimate", "se"]], expected[["estimate", "se"]], rtol=1e-12)
    one = release.combine(lambda design: (design.weights.max(), 4.0))
    largest = [design.weights.max() for design in release.datasets]
    assert one["term"].tolist() == [1]
    assert one["se"][0] ** 2 == pytest.approx(4 + np.var(largest, ddof=1) / 3)
    degf = release.datasets[0].degf
    between = np.var(largest, ddof=1) / 3
    assert one["df"][0] == pytest.approx(min(degf, 2 * (1 + 4 / between) ** 2))


NO_PAIR = {
    "no pair": (lambda d: 1.0, r"a pair \(estimate, variance\), not float"),
    "three": (lambda d: (1, 2, 3), "not tuple"),
    "texts": (lambda d: ("a", "b"), "must give numbers"),
    "shapes": (lambda d: (np.ones(3), np.ones(2)), "3 estimates and variances of shape"),
    "negative": (lambda d: (1.0, -1.0), "a negative variance"),
    "names": (lambda d: (pd.Series([1.0], ["a"]), pd.Series([1.0], ["b"])), "different names"),
    "other terms": (lambda d: (pd.Series([1.0], [d.weights[0]]), 1.0), "other estimates in some of the data sets"),
}


@pytest.mark.parametrize("case", NO_PAIR)
def test_what_gives_no_estimates_with_variances_is_refused(release, case):
    function, message = NO_PAIR[case]
    with pytest.raises(ss.InputError, match=message):
        release.combine(function)
    with pytest.raises(ss.InputError, match="a function of a SurveyDesign, not int"):
        release.combine(3)


def test_a_quantile_that_has_no_limits_in_a_few_data_sets_takes_the_variance_of_the_others():
    """By hand; where half of the data sets have none, or another statistic has none in one, there is no variance."""
    u = [np.array(row) for row in ([1.0, np.nan, 1.0], [2.0, 4.0, np.nan], [np.nan, 2.0, np.nan], [3.0, 6.0, 5.0])]
    results = [Estimates(np.array([q, q, q]), each) for q, each in zip((1.0, 2.0, 3.0, 4.0), u, strict=True)]
    settings = {"degf": np.full(3, 50.0), "noise": None}
    found = combined_of(Quantity("quantile", "y", prob=0.9), results, **settings)
    b = 5 / 3  # between 1, 2, 3 and 4
    np.testing.assert_allclose(found.se**2, [2 + b / 4, 4 + b / 4, np.nan], rtol=1e-12)
    assert np.isnan(combined_of(Quantity("mean", "y"), results, **settings).se).all()
