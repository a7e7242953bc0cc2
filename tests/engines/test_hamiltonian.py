"""Hamiltonian chains, and those whose warm-up is on a pilot: against distributions that are known."""

import numpy as np
import pytest
from scipy.stats import gamma, norm

from surveysynth.engines.base import diagnose
from surveysynth.engines.hamiltonian import chains

SHAPES = np.array([60.0, 100.0, 200.0, 400.0])
MIX = np.linalg.cholesky(np.array([[1, 0.6, 0, 0.2], [0.6, 1, 0.3, 0], [0, 0.3, 1, 0.5], [0.2, 0, 0.5, 1]]))


def test_chains_sample_a_correlated_normal_and_stay_within_bounds():
    """Means, covariances and a half normal's quantiles, within Monte Carlo error."""
    L = np.array([[1.0, 0, 0], [0.8, 0.5, 0], [-0.3, 0.2, 2.0]])
    precision = np.linalg.inv(L @ L.T)

    def normal(x):
        return float(-x @ precision @ x / 2), -precision @ x

    rng = np.random.default_rng(6)
    values, divergences = chains(normal, [np.zeros(3)] * 4, np.ones(3), rng, warmup=300, draws=1000)
    found = diagnose({"x": values}, divergences)
    flat, scale = values.reshape(-1, 3), np.sqrt(np.diag(L @ L.T))
    assert found.failures == ()
    np.testing.assert_array_less(np.abs(flat.mean(axis=0)) / scale, 4 / found.ess_bulk**0.5)
    correlation = (L @ L.T) / np.outer(scale, scale)
    np.testing.assert_allclose(np.cov((flat / scale).T), correlation, atol=6 / found.ess_bulk**0.5)

    def half(x):
        return float(-x[0] ** 2 / 2) if x[0] > 0 else -np.inf, -x

    values, _ = chains(half, [np.ones(1)] * 4, np.ones(1), rng, warmup=300, draws=1000)
    assert values.min() > 0
    shares = [(values < norm.ppf(0.5 + p / 2)).mean() for p in (0.1, 0.5, 0.9)]
    np.testing.assert_allclose(shares, [0.1, 0.5, 0.9], atol=4 * 0.5 / 500**0.5)


def test_parameters_that_are_nearly_one_mix_as_well_as_apart():
    """Four normals whose correlations are .98: the metric takes them apart."""
    covariance = np.full((4, 4), 0.98) + 0.02 * np.eye(4)
    precision = np.linalg.inv(covariance)
    rng = np.random.default_rng(3)
    values, divergences = chains(
        lambda x: (float(-x @ precision @ x / 2), -precision @ x), [np.zeros(4)] * 4, np.ones(4), rng, warmup=300,
        draws=1000,
    )  # fmt: skip
    found = diagnose({"x": values}, divergences)
    assert min(found.ess_bulk, found.ess_tail) > 1000
    np.testing.assert_allclose(np.cov(values.reshape(-1, 4).T), covariance, atol=0.15)


def of_gammas(shapes, beyond=np.inf):
    """Log density of t = MIX log x, x gamma: skewed, correlated; nothing where an element is beyond a limit."""
    inverse = np.linalg.inv(MIX)

    def target(t):
        if not np.abs(t).max() < min(beyond, 1e3):
            return -np.inf, t
        u = np.minimum(inverse @ t, 50)
        return float(shapes @ u - np.exp(u).sum()), inverse.T @ (shapes - np.exp(u))

    return target


def sampled(target, pilot, starts, draws):
    rng = np.random.default_rng(1)
    return chains(target, starts, np.full(4, 0.1), rng, warmup=300, draws=draws, pilot=pilot)[0]


@pytest.mark.parametrize("off", [1.02, 1.4])  # shapes of the pilot over those of the density: up to 7 sd
def test_draws_are_those_of_the_density_and_not_of_its_pilot(off):
    starts = [MIX @ np.log(SHAPES) + shift for shift in (0, 0.3, -0.3, 0.1)]
    values = sampled(of_gammas(SHAPES), of_gammas(SHAPES * off), starts, 2500)
    assert diagnose({"t": values}, 0).rhat < 1.01
    x = np.exp(np.linalg.solve(MIX, values.reshape(-1, 4).T).T)
    np.testing.assert_allclose(x.mean(axis=0), SHAPES, atol=4 * (SHAPES.max() / 1500) ** 0.5)
    for j, shape in enumerate(SHAPES):
        for p in (0.05, 0.5, 0.95):
            assert (x[:, j] < gamma.ppf(p, shape)).mean() == pytest.approx(p, abs=4 * (p * (1 - p) / 4000) ** 0.5)
    skew = ((np.log(x[:, 0]) - np.log(x[:, 0]).mean()) ** 3).mean() / np.log(x[:, 0]).std() ** 3
    assert skew < -0.03  # about -shape^-.5 = -.13, where a normal density has none


def test_where_the_set_ends_nothing_is_drawn():
    limit = np.abs(MIX @ np.log(SHAPES)).max() + 0.02
    bounded = of_gammas(SHAPES, limit)
    assert np.abs(sampled(bounded, bounded, [MIX @ np.log(SHAPES)] * 4, 1000)).max() <= limit
