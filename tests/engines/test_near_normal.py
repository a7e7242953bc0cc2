"""Chains by proposals from the normal approximation: against distributions that are known."""

import numpy as np
import pytest
from scipy.stats import gamma

from surveysynth.engines.base import diagnose
from surveysynth.engines.near_normal import sample_near_normal
from surveysynth.errors import EngineError

SHAPES = np.array([60.0, 100.0, 200.0, 400.0])
MIX = np.linalg.cholesky(np.array([[1, 0.6, 0, 0.2], [0.6, 1, 0.3, 0], [0, 0.3, 1, 0.5], [0.2, 0, 0.5, 1]]))


def of_gammas(shapes, beyond=np.inf):
    """Log density of t = MIX log x, x gamma: skewed, correlated; nothing where an element is beyond a limit."""

    def make():
        inverse = np.linalg.inv(MIX)

        def target(t):
            if not np.abs(t).max() < min(beyond, 1e3):
                return -np.inf, t
            u = np.minimum(inverse @ t, 50)
            return float(shapes @ u - np.exp(u).sum()), inverse.T @ (shapes - np.exp(u))

        return target

    return make


def sampled(target, pilot, seed=1, draws=2500):
    starts = [MIX @ np.log(SHAPES) + shift for shift in (0, 0.3, -0.3, 0.1)]
    return sample_near_normal(
        target, pilot, starts, np.full(4, 0.1), np.random.default_rng(seed), warmup=300, draws=draws
    )  # fmt: skip


def test_draws_are_those_of_the_density_and_not_of_its_normal_approximation():
    values = sampled(of_gammas(SHAPES), of_gammas(SHAPES * 1.02))
    assert diagnose({"t": values}, 0).rhat < 1.01
    x = np.exp(np.linalg.solve(MIX, values.reshape(-1, 4).T).T)
    for j, shape in enumerate(SHAPES):
        for p in (0.05, 0.5, 0.95):
            assert (x[:, j] < gamma.ppf(p, shape)).mean() == pytest.approx(p, abs=4 * (p * (1 - p) / 4000) ** 0.5)
    skew = ((np.log(x[:, 0]) - np.log(x[:, 0]).mean()) ** 3).mean() / np.log(x[:, 0]).std() ** 3
    assert skew < -0.03  # about -shape^-.5 = -.13, where a normal density has none


def test_a_pilot_that_is_off_is_left_behind():
    values = sampled(of_gammas(SHAPES), of_gammas(SHAPES * 1.4), draws=1000)
    x = np.exp(np.linalg.solve(MIX, values.reshape(-1, 4).T).T)
    np.testing.assert_allclose(x.mean(axis=0), SHAPES, atol=4 * (SHAPES.max() / 1500) ** 0.5)


def test_where_the_set_ends_nothing_is_drawn():
    limit = np.abs(MIX @ np.log(SHAPES)).max() + 0.02
    values = sampled(of_gammas(SHAPES, limit), of_gammas(SHAPES), draws=1000)
    assert np.abs(values).max() <= limit


def test_a_density_without_a_mode_is_refused():
    def make():
        return lambda t: (float(t.sum()), np.ones(4))

    with pytest.raises(EngineError, match="no mode near"):
        sampled(make, of_gammas(SHAPES))
