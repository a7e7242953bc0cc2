"""The clipped log likelihood ratio of counts, shares and amounts: gradients, C_B, consistency, exact bounds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from surveysynth.models.beta.family import BetaFamily
from surveysynth.models.counts.family import CountFamily
from surveysynth.models.gamma import GammaFamily
from surveysynth.models.shared import clipped_outcome as module
from surveysynth.models.shared.clipped_fit import WIDE
from surveysynth.models.shared.clipped_outcome import Outcome, clipped_outcome

X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
NB, POISSON, BETA, GAMMA = CountFamily(True), CountFamily(False), BetaFamily(1e-6), GammaFamily()


def scipy_log_density(family, y, eta, log_shape):
    k = np.exp(log_shape)
    if family == NB:
        return stats.nbinom.logpmf(y, k, k / (k + np.exp(eta)))
    if family == POISSON:
        return stats.poisson.logpmf(y, np.exp(eta))
    if family == BETA:
        return stats.beta.logpdf(y, k / (1 + np.exp(-eta)), k / (1 + np.exp(eta)))
    return stats.gamma.logpdf(y, k, scale=np.exp(eta) / k)


def drawn(family, eta, log_shape, rng):
    k = np.exp(log_shape)
    if family == NB:
        return rng.poisson(np.exp(eta) * rng.gamma(k, 1 / k, eta.shape)).astype(float)
    if family == POISSON:
        return rng.poisson(np.exp(eta)).astype(float)
    if family == BETA:
        return np.clip(rng.beta(k / (1 + np.exp(-eta)), k / (1 + np.exp(eta))), 1e-6, 1 - 1e-6)
    return rng.gamma(k, np.exp(eta) / k)


CASES = {
    "negative binomial": (NB, NB, Outcome(np.array([1.0, 0.1]), np.log(1.5))),
    "Poisson": (POISSON, POISSON, Outcome(np.array([1.0, 0.1]), 0.0)),
    "Poisson beside a broad reference": (POISSON, NB, Outcome(np.array([1.5, 0.0]), np.log(0.5))),
    "beta": (BETA, BETA, Outcome(np.array([0.1, -0.1]), np.log(3.0))),
    "gamma": (GAMMA, GAMMA, Outcome(np.array([0.5, 0.2]), np.log(1.2))),
}
WITH_WEIGHT = ["negative binomial", "Poisson", "gamma"]


def file(name, n=300, seed=1, weight=False):
    family, _, reference = CASES[name]
    rng = np.random.default_rng(seed)
    row = rng.integers(0, 3, n)
    shape = reference.log_shape if family.shaped else 0.0
    y = drawn(family, X[row] @ reference.b + 0.2, shape + 0.2, rng)
    log_w = rng.normal(0, 0.4, n) - 0.1 * family.size(y) if weight else None
    return row, y, log_w, rng


def made(name, row, y, log_w, a, B, **how):
    family, measured, reference = CASES[name]
    if log_w is not None:
        reference = replace(reference, c=np.array([0.05, 0.0, -0.05]), sigma=0.5)
    return clipped_outcome(family, measured, X, row, y, log_w, reference, a, B, WIDE, None, first=True, **how)


PAIRS = [(name, False) for name in CASES] + [(name, True) for name in WITH_WEIGHT]


@pytest.mark.parametrize(("name", "weight"), PAIRS)
def test_the_gradient_is_that_of_the_value(name, weight):
    row, y, log_w, rng = file(name, weight=weight)
    target = made(name, row, y, log_w, rng.uniform(0.1, 0.4, len(y)), 1.0 + 0.4 * weight)
    at, point = target.function(), target.starts(2, rng)[1]
    step = 1e-5 * np.eye(point.size)
    numeric = np.array([(at(point + e)[0] - at(point - e)[0]) / 2e-5 for e in step])
    assert numeric == pytest.approx(at(point)[1], rel=1e-5, abs=1e-4)


def expected_clip(name, eta, log_shape, eta_ref, log_shape_ref, B):
    """C_B of one row, without a weight, by a fine sum of the densities of scipy."""
    family, measured, _ = CASES[name]
    if family.summed:
        y = np.arange(3000.0)
        mass = np.exp(scipy_log_density(measured, y, eta_ref, log_shape_ref))
    else:
        u, k = (np.arange(400_000) + 0.5) / 400_000, np.exp(log_shape_ref)
        m = 1 / (1 + np.exp(-eta_ref))
        beta = family == BETA
        y = stats.beta.ppf(u, k * m, k * (1 - m)) if beta else stats.gamma.ppf(u, k, scale=np.exp(eta_ref) / k)
        mass = np.full(u.size, 1 / u.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = scipy_log_density(family, y, eta, log_shape) - scipy_log_density(measured, y, eta_ref, log_shape_ref)
    kept = mass > 0
    return float(mass[kept] @ np.exp(np.clip(ratio[kept], -B, B)))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "beta" else n for n in CASES])
@pytest.mark.parametrize("B", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_the_value_is_that_of_the_densities_one_by_one(name, B):
    family, measured, reference = CASES[name]
    row, y, _, rng = file(name)
    a = rng.uniform(0.1, 0.4, len(y))
    target = made(name, row, y, None, a, B)
    at = target.function()

    def slow(point):
        now = target.outcome(point)
        eta, eta_ref = X @ now.b, X @ reference.b
        ratio = scipy_log_density(family, y, eta[row], now.log_shape)
        ratio -= scipy_log_density(measured, y, eta_ref[row], reference.log_shape)
        constants = [expected_clip(name, *pair, B) for pair in zip(
            eta, np.full(3, now.log_shape), eta_ref, np.full(3, reference.log_shape), strict=True,
        )]  # fmt: skip
        sd = target._sd
        prior = -0.5 * ((point[: sd.size] / sd) ** 2).sum()
        return a @ np.clip(ratio, -B, B) - np.bincount(row, a) @ np.array(constants) + prior

    points = [start * scale for start, scale in zip(target.starts(4, rng), (0, 0.5, 1, 1), strict=True)]
    differences = [at(point)[0] - slow(point) for point in points]
    exact = 1e-6 if family.summed else 2e-3  # of a sum over 75 records' worth; the middle of the error is a constant
    assert np.ptp(differences) < exact * a.sum()


@pytest.mark.parametrize("reference", [(0.97, 0.0, 0.5), (-0.4, 0.3, 3.0)])
@pytest.mark.parametrize("B", [1.0, 2.0])
def test_wide_bins_above_the_public_bound_move_a_maximum_by_less_than_a_tenth_of_a_standard_error(reference, B):
    of = Outcome(np.array(reference[:2]), np.log(reference[2]))
    rng = np.random.default_rng(4)
    row = rng.integers(0, 3, 2000)
    y = np.minimum(drawn(NB, X[row] @ [-0.5, 0.4], np.log(4.0), rng), 6.0)
    tops = []
    for family in (NB, CountFamily(True, 6.0)):
        target = clipped_outcome(
            family, family, X, row, y, None, of, np.full(2000, 0.75), B, WIDE, None, first=True,
        )  # fmt: skip
        at = target.function()
        found = minimize(lambda p, at=at: tuple(-v for v in at(p)), target.starts(1, rng)[0], jac=True, method="BFGS")
        tops.append((found.x, len(target.nodes.mass)))
    (every, many), (few, less) = tops
    assert less < many
    assert np.abs((every - few) / np.sqrt(np.diag(found.hess_inv))).max() < 0.1


@pytest.mark.parametrize("name", ["beta", "gamma"])
def test_more_cells_move_a_maximum_by_less_than_a_tenth_of_a_standard_error(name, monkeypatch):
    row, y, _, rng = file(name, n=2000)
    tops = []
    for cells in (None, 2000):
        if cells:
            monkeypatch.setattr(module, "CELLS", cells)
        target = made(name, row, y, None, np.full(2000, 0.75), 1.0)
        at = target.function()
        found = minimize(lambda p, at=at: tuple(-v for v in at(p)), target.starts(1, rng)[0], jac=True, method="BFGS")
        tops.append(found.x)
    assert np.abs((tops[0] - tops[1]) / target.scale).max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "weight"), PAIRS)
@pytest.mark.parametrize("off", [0.0, 0.4])
def test_the_maximum_is_at_the_truth_beside_a_reference_that_is_off(name, weight, off):
    """Half a million records: what is off the truth is bias.  Without C_B the same maximum is far off."""
    family, _, reference = CASES[name]
    n, rng = 500_000, np.random.default_rng(2)
    truth = Outcome(reference.b + np.array([off, -off / 4]), reference.log_shape + off if family.shaped else 0.0)
    row = rng.integers(0, 3, n)
    y = drawn(family, X[row] @ truth.b, truth.log_shape, rng)
    log_w = None if not weight else 0.1 - 0.15 * family.size(y) + 0.45 * rng.standard_normal(n)
    target = made(name, row, y, log_w, np.full(n, 0.5), 1.0 + 0.4 * weight)
    at, sd = target.function(), target.scale / np.sqrt(0.5)
    found = minimize(lambda p: tuple(-v for v in at(p)), target.starts(1, rng)[0], jac=True, method="BFGS").x
    now = target.outcome(found)
    goal = np.append(truth.b, truth.log_shape) if family.shaped else truth.b
    seen = np.append(now.b, now.log_shape) if family.shaped else now.b
    assert np.abs(seen - goal).max() < 0.02
    if weight:
        assert now.c == pytest.approx([0.1, 0.0, -0.15], abs=0.01) and now.sigma == pytest.approx(0.45, abs=0.01)
    assert sd.min() > 0


def posterior(target, tempering=None):
    """Log probabilities on a grid of (b, log shape)."""
    if tempering is not None:
        target = tempering(target)
    at = target.function()
    shapes = np.linspace(-1.5, 1.5, 7) if target.family.shaped else [None]
    grid = [np.array([m, *([] if s is None else [s])]) for m in np.linspace(-2, 2, 41) for s in shapes]
    log_p = np.array([at(point)[0] for point in grid])
    return log_p - np.logaddexp.reduce(log_p)


def one_row(name, y, a, B):
    family, measured, reference = CASES[name]
    reference = Outcome(reference.b[:1], reference.log_shape)
    none = np.zeros(len(y), dtype=np.intp)
    return clipped_outcome(
        family, measured, np.ones((1, 1)), none, y, None, reference, a, B, WIDE, None, first=True
    )


NASTY = {NB: [0.0, 3.0, 50.0, 1e5], POISSON: [0.0, 3.0, 50.0, 1e5], BETA: [1e-6, 0.4, 1 - 1e-6], GAMMA: [1e-9, 1, 1e9]}


@pytest.mark.parametrize("name", CASES)
def test_one_record_moves_no_probability_by_more_than_is_said(name):
    """Replaced: 4 b a draw.  Blanked, so that it takes no part but in C_B, which is public: 2 b."""
    b, B, n = 0.5, 1.0, 12
    a = np.full(n, b / B)
    family = CASES[name][0]
    rng = np.random.default_rng(3)
    others = drawn(family, np.full(n, CASES[name][2].b[0]), CASES[name][2].log_shape, rng)
    seen, reached = [], 0.0
    for value in NASTY[family]:
        y = np.append(others[:-1], value)
        seen.append(posterior(one_row(name, y, a, B)))
        target = one_row(name, y, a, B)
        last = np.flatnonzero(np.sort(y) == value)[-1]
        without = target.part.a.copy()
        without[last] = 0.0
        blanked = posterior(replace(target, part=replace(target.part, a=without)))
        assert np.abs(seen[-1] - blanked).max() <= 2 * b + 1e-9
    for one in seen:
        for other in seen:
            reached = max(reached, float(np.abs(one - other).max()))
    assert b < reached <= 4 * b + 1e-9


@pytest.mark.parametrize("name", ["negative binomial", "beta"])
def test_wrong_variants_exceed_the_bound(name):
    """Clamped, but not tempered by a."""
    b, B, n = 0.5, 2.0, 12
    family = CASES[name][0]
    values = NASTY[family]
    files = [np.append(np.full(n - 1, values[1]), value) for value in values]
    right = [posterior(one_row(name, y, np.full(n, b / B), B)) for y in files]
    untempered = [posterior(one_row(name, y, np.ones(n), B)) for y in files]
    assert max(np.abs(p - q).max() for p in right for q in right) <= 4 * b
    assert max(np.abs(p - q).max() for p in untempered for q in untempered) > 4 * b
