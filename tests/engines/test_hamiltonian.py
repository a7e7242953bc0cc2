"""Hamiltonian chains whose warm-up is on a pilot: against distributions that are known."""

import numpy as np
import pytest
from scipy.stats import gamma

from surveysynth.engines.base import diagnose
from surveysynth.engines.hamiltonian import sample_chains

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


def sampled(target, pilot, draws=1000):
    starts = [MIX @ np.log(SHAPES) + shift for shift in (0, 0.3, -0.3, 0.1)]
    rng = np.random.default_rng(1)
    values, _ = sample_chains(target, starts, np.full(4, 0.1), rng, warmup=300, draws=draws, pilot=pilot)
    return values


@pytest.mark.parametrize("off", [1.02, 1.4])  # shapes of the pilot over those of the density: 3 sd and more
def test_draws_are_those_of_the_density_and_not_of_its_pilot(off):
    values = sampled(of_gammas(SHAPES), of_gammas(SHAPES * off))
    assert diagnose({"t": values}, 0).rhat < 1.01
    x = np.exp(np.linalg.solve(MIX, values.reshape(-1, 4).T).T)
    for j, shape in enumerate(SHAPES):
        for p in (0.05, 0.5, 0.95):
            assert (x[:, j] < gamma.ppf(p, shape)).mean() == pytest.approx(p, abs=4 * (p * (1 - p) / 1500) ** 0.5)


def test_where_the_set_ends_nothing_is_drawn():
    limit = np.abs(MIX @ np.log(SHAPES)).max() + 0.02
    starts = [MIX @ np.log(SHAPES)] * 4
    values, _ = sample_chains(of_gammas(SHAPES, limit), starts, np.full(4, 0.1), np.random.default_rng(2), warmup=300,
                              draws=300, pilot=of_gammas(SHAPES, limit))  # fmt: skip
    assert np.abs(values).max() <= limit
