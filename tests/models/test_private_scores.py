"""Normal scores of the file itself: what their epsilon covers, and how good they are."""

import os

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, laplace, norm

import surveysynth as ss
from surveysynth.models.shared import noisy_histogram, normal_scores

BOUNDS = (0, 1_000_000)


def design(y):
    return ss.SurveyDesign(pd.DataFrame({"pay": y, "w": 1.0}), weights="w")


def incomes(n=2000, seed=1):
    return np.exp(np.random.default_rng(seed).normal(10, 0.8, n))


@pytest.fixture
def counts(monkeypatch):
    """What the histogram holds before its noise, and the scale of the noise."""
    seen = []

    def exact(values, sensitivity, epsilon, rng):
        seen.append((values, sensitivity / epsilon))
        return values, 2 * (sensitivity / epsilon) ** 2

    monkeypatch.setattr(normal_scores, "laplace", exact)
    return seen


def scores(y, epsilon=0.5, **settings):
    return ss.NormalScores.private(design(y), "pay", **({"bounds": BOUNDS, "epsilon": epsilon} | settings))


def test_one_record_moves_one_count_by_one_and_another_value_two(counts):
    y = incomes(500)
    moved = y.copy()
    moved[0] = 900_000
    scores(y), scores(moved), scores(np.append(y[1:], np.nan))
    (whole, scale), (other, _), (blanked, _) = counts
    assert scale == 2.0
    assert np.abs(whole - other).sum() == 2
    assert np.abs(whole - blanked).sum() == 1
    assert whole.sum() == 500


def test_bins_come_from_the_bounds_and_values_beyond_are_moved_to_them(counts):
    y = incomes(1000)
    scores(y)
    beyond = y.copy()
    beyond[:3] = [-5.0, 2e6, 1e9]
    made = scores(beyond)
    assert counts[0][0].size == counts[1][0].size == noisy_histogram.BINS
    assert counts[1][0].sum() == 1000
    assert made.forward(np.array([-5.0, 2e6])) == pytest.approx(made.forward(np.array([0.0, 1e6])))
    assert made.inverse(np.array([-50.0, 50.0])).tolist() == [0, 1_000_000]


@pytest.mark.slow
def test_the_noise_is_laplace_of_one_over_epsilon_and_k_times_that_for_units():
    """OpenDP's, over 80 histograms of one file: 3,200 draws."""
    y = incomes(3000)
    edges = noisy_histogram.bin_limits(BOUNDS)
    exact = np.histogram(noisy_histogram.asinh_of(BOUNDS).forward(y), edges)[0]
    for each in (1, 3):
        noise = np.concatenate([np.array(scores(y, 0.8, each=each).counts) - exact for _ in range(80)])
        assert kstest(noise, laplace(0, each / 0.8).cdf).pvalue > 1e-4
        assert kstest(noise, laplace(0, 1.3 * each / 0.8).cdf).pvalue < 1e-4


def test_much_epsilon_makes_the_scores_of_the_sample_itself():
    y = incomes(5000)
    made = scores(y, 500)
    z = made.forward(y)
    p = np.linspace(0.02, 0.98, 49)
    np.testing.assert_allclose(np.quantile(z, p), norm.ppf(p), atol=0.05)
    np.testing.assert_allclose(made.inverse(z), y, rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_a_normal_law_of_the_scores_has_the_mean_of_the_sample(epsilon):
    """Within 2 standard errors on average, over noise; and no draw ruins it."""
    y = incomes(2000)
    z = norm.ppf((np.arange(4000) + 0.5) / 4000)
    se = y.std() / y.size**0.5
    errors = []
    for seed in range(20):
        made = scores(y, epsilon, rng=np.random.default_rng(seed))
        own = made.forward(y)
        errors.append((made.inverse(own.mean() + own.std() * z).mean() - y.mean()) / se)
    assert np.mean(np.square(errors)) ** 0.5 < 2
    assert np.abs(errors).max() < 5


@pytest.mark.slow
def test_redrawn_scores_vary_as_new_noise_makes_them_vary():
    """Standard deviations of the quartiles' scores, over 40 draws of either."""
    y, at = incomes(2000), np.array([15_000.0, 22_000.0, 35_000.0])
    rng = np.random.default_rng(2)
    again = np.array([scores(y, rng=rng).forward(at) for _ in range(80)]).std(axis=0)
    one = scores(y, rng=np.random.default_rng(3))
    simulated = np.array([one.redrawn(rng).forward(at) for _ in range(80)]).std(axis=0)
    assert ((0.5 < simulated / again) & (simulated / again < 2)).all()  # four Monte Carlo errors are 45%


def test_negative_amounts_have_a_signed_scale():
    y = np.random.default_rng(4).standard_t(4, 3000) * 10_000
    made = scores(y, 5, bounds=(-200_000, 200_000))
    z = made.forward(y)
    assert abs(z.mean()) < 0.15
    assert z.std() == pytest.approx(1, abs=0.15)
    assert made.inverse(np.array([-1.0])) < 0 < made.inverse(np.array([1.0]))


def test_kept_for_later_files_they_are_the_same_map_and_cost_nothing():
    made = scores(incomes(), rng=np.random.default_rng(5))
    at = np.array([1e3, 1e4, 1e5, 2e6])
    np.testing.assert_array_equal(made.kept().forward(at), made.forward(at))
    assert dict(ss.FBS("pay ~ 1", transform=made).spent) == {"normal scores of pay": 0.5}
    assert ss.FBS("pay ~ 1", transform=made.kept()).spent == ()


@pytest.mark.parametrize("bounds", [None, 5, "01", (1,), (5, 5), (0, np.inf), (True, 5)])
def test_bounds_that_are_none_are_refused(bounds):
    with pytest.raises(ss.InputError, match="bounds of 'pay' are two public numbers"):
        scores(incomes(), bounds=bounds)


def test_too_much_noise_is_refused_with_what_to_do():
    with pytest.raises(ss.PrivacyError, match="narrower public bounds, a larger epsilon, or normal scores"):
        scores(incomes(60), 0.05, rng=np.random.default_rng(6))


@pytest.mark.parametrize(("n", "amount"), [(10, 1000.0), (10, 300_000.0), (3, 20_000.0), (100, 90_000.0)])
def test_equal_amounts_are_themselves_under_other_noise(n, amount):
    """Means of equal scores differ from them by rounding, which is no slope."""
    made = scores(incomes(5000), epsilon=1.0, rng=np.random.default_rng(2))
    moved = normal_scores.under_other_noise(made, np.full(n, amount), np.random.default_rng(3))
    np.testing.assert_allclose(moved, amount, rtol=1e-6)


def test_a_process_that_was_forked_after_many_scores_makes_scores_too():
    """Threads of OpenMP would end it."""
    made = scores(incomes(5000), epsilon=1.0, rng=np.random.default_rng(2))
    z = np.linspace(-2, 2, 200_000)
    before = made.inverse(z)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(made.inverse(z), before) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
