"""T = u_bar + b/m with its t degrees of freedom, by hand, and what Rubin's rule would say instead."""

import numpy as np
import pytest

from surveysynth.estimation.combining import Combined, combine, interval

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
