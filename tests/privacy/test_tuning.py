"""Tuning on models whose answer is known, and draws carried from one set of privacy weights to another."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from surveysynth import FBS, PrivacyError, SurveyDesign
from surveysynth.engines import Diagnostics
from surveysynth.models.draws import Draws, Sampler
from surveysynth.privacy.protected_fit import times
from surveysynth.privacy.tuning import tune, weighted_fit
from surveysynth.privacy.weight_maps import MAPS

S = 2000
GRID = norm.ppf((np.arange(S) + 0.5) / S)


def posterior(**values):
    return Draws(values, np.zeros(S, dtype=np.intp), Diagnostics(exact=True), "exact", "1")


def pseudo(fit, lipschitz, log_ratio):
    """What tuning needs of a model and a file."""
    return SimpleNamespace(fit=fit, lipschitz=lipschitz, log_ratio=log_ratio)


class NormalMean:
    """y_i ~ N(mu, 1), mu flat: mu | alpha ~ N(sum alpha y / A, 1 / A), its draws a grid of quantiles."""

    def __init__(self, y):
        self.y, self.fits = y, 0

    def fit(self, alpha):
        self.fits += 1
        return posterior(mu=alpha @ self.y / alpha.sum() + GRID / np.sqrt(alpha.sum()))

    def log_density(self, p):
        return norm.logpdf(self.y, p.values["mu"][:, None])

    def lipschitz(self, p, alpha=None):
        return np.abs(self.log_density(p)).max(axis=0)

    def log_ratio(self, before, after, p):
        return self.log_density(p) @ (after - before)

    def tune(self, name, target, c2=0.0, **options):
        risk = self.lipschitz(self.fit(np.ones(self.y.size)))

        def alpha(c1):
            return MAPS[name](risk, c1, c2, target)

        return tune(alpha, self, target, **options), alpha


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(100, 300), target=st.floats(0.8, 8), start=st.floats(0.8, 20),
    tolerance=st.sampled_from([0.003, 0.01, 0.1]), c2=st.sampled_from([-0.05, 0.0]),
)  # fmt: skip
def test_bound_is_close_below_the_target_and_never_above(name, seed, n, target, start, tolerance, c2):
    model = NormalMean(np.random.default_rng(seed).standard_t(4, n))
    done, alpha = model.tune(name, target, c2, start=start, tolerance=tolerance)
    exact = (done.alpha * model.lipschitz(done.posterior)).max()  # over the draws that would be released
    assert done.delta == pytest.approx(exact, rel=1e-12) and exact <= target
    np.testing.assert_array_equal(done.alpha, alpha(done.c1))
    np.testing.assert_allclose(done.bounds, done.alpha * model.lipschitz(done.posterior), rtol=1e-12)
    assert exact >= target * (1 - tolerance) or (alpha(1e9) == done.alpha).all()
    assert done.posterior.weight.sum() == pytest.approx(1) and done.posterior.efficiency >= 0.9
    assert model.fits <= 11
    # the draws stand for the pseudo posterior at the alpha that is returned, within the error of S draws
    mu, w, A = done.posterior.values["mu"], done.posterior.weight, done.alpha.sum()
    mean = w @ mu
    assert abs(mean - done.alpha @ model.y / A) * np.sqrt(A) < 0.05
    assert w @ (mu - mean) ** 2 * A == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("name", "f", "target", "c1"),
    [
        ("inverse", [1.0, 2.0, 8.0], 1.5, 1.0),  # max alpha f = c1 target
        ("linear", [1.0, 2.0, 3.0], 0.6, 0.6),  # alpha f = c1 (1, 1, 0)
        ("linear", [1.0, 3.0, 5.0], 0.9, 0.6),  # alpha f = c1 (1, 3/2, 0)
    ],
)
@pytest.mark.parametrize("start", [1e-3, 1.0, 50.0])
def test_tuned_scale_where_densities_do_not_depend_on_the_draw(name, f, target, c1, start):
    f, fits = np.array(f), []

    def fit(alpha):
        fits.append(alpha)
        return posterior(x=GRID)

    def alpha(c):
        return MAPS[name](f, c, 0.0, target)

    done = tune(alpha, pseudo(fit, lambda p, a: f, lambda a, b, p: np.zeros(S)), target, start=start)
    assert c1 * 0.99 <= done.c1 <= c1 and target * 0.99 <= done.delta <= target
    assert len(fits) == 1  # the draws are carried over at no loss


def test_a_generous_target_returns_weights_of_one():
    model = NormalMean(np.random.default_rng(1).normal(size=100))
    done, _ = model.tune("inverse", 50.0)
    assert (done.alpha == 1).all() and done.delta == model.lipschitz(model.fit(np.ones(100))).max() < 50


def test_infeasible_targets_are_refused():
    model = NormalMean(np.random.default_rng(1).normal(size=100))
    with pytest.raises(PrivacyError, match=r"even vanishing privacy weights exceed epsilon / \(2 m\); is c2 above 0"):
        model.tune("inverse", 0.3, c2=0.5)
    with pytest.raises(PrivacyError, match=r"no privacy weights were found .* Ask for a larger epsilon"):
        NormalMean(np.array([-1.0, 0.0, 2.0])).tune("inverse", 0.5)  # a spread posterior has no small bound


def test_search_ends():
    """Densities that grow as the weights fall, and draws that can never be carried over: ten fits, then a refusal."""
    fits = []

    def fit(alpha):
        fits.append(alpha)
        return posterior(x=GRID)

    with pytest.raises(PrivacyError, match="no privacy weights were found"):
        tune(
            lambda c: np.full(3, min(c, 1.0)), pseudo(fit, lambda p, a: 1.1 / fits[-1], lambda a, b, p: 9 * GRID), 1.0
        )  # fmt: skip
    assert len(fits) == 10


def test_a_search_that_does_not_settle_takes_the_best_fit_below_the_target():
    """M jumps from fit to fit, and draws can never be carried over: the fits' own bounds decide."""
    fits = []

    def fit(alpha):
        fits.append(alpha[0])
        return posterior(fit=np.full(S, len(fits)))

    def lipschitz(p):
        return np.array([[2.0, 1.1, 2.5, 1.6, 2.2][int(p.values["fit"][0]) % 5]])

    def apart(alpha, p):  # any change of weights leaves one draw with all the weight
        return np.append(1e6 * np.abs(alpha).sum(), np.zeros(S - 1))

    done = tune(
        lambda c1: np.array([min(1.0, c1 / 2)]),
        pseudo(fit, lambda p, a: lipschitz(p), lambda a, b, p: apart(b - a, p)), 1.0, start=1.3,
    )  # fmt: skip
    own = np.array(fits) * [lipschitz(posterior(fit=np.full(S, k + 1)))[0] for k in range(len(fits))]
    assert len(fits) == 10 and (own > 1).any()
    assert done.delta == own[own <= 1].max()
    assert done.alpha[0] == fits[int(np.argmax(np.where(own <= 1, own, 0)))] == done.c1 / 2


def test_records_without_weight_have_no_bound():
    np.testing.assert_array_equal(times(np.array([0.0, 0.5, 0.0]), np.array([np.inf, 4.0, 3.0])), [0, 2, 0])
    infinite = times(np.array([0.5]), np.array([np.inf]))
    assert infinite == np.inf
    alpha = np.array([0.0, 1.0])
    fixed = pseudo(lambda a: posterior(x=GRID * a.sum()), lambda p, a: np.array([np.inf, 3.0]), None)
    fit, M = weighted_fit(0.7, alpha, fixed)
    assert (fit.c1, fit.delta) == (0.7, 3.0) and M[0] == np.inf
    np.testing.assert_array_equal(fit.posterior.values["x"], GRID)


@pytest.mark.slow
def test_carried_draws_have_the_moments_of_the_new_pseudo_posterior():
    """FBS with the flat prior: means and variances of B, means of Sigma, in closed form at the new alpha."""
    rng, n, draws = np.random.default_rng(5), 90, 40_000
    field, gender = np.arange(n) % 3, np.arange(n) // 3 % 2
    X = np.column_stack([np.ones(n), field == 1, field == 2, gender])
    Y = X @ [[10, 1], [0.5, -0.5], [1, 0.3], [-0.4, 0.2]] + rng.normal(size=(n, 2)) @ [[0.5, -0.3], [0, 0.4]]
    frame = pd.DataFrame({"field": field, "gender": gender, "y": np.exp(Y[:, 0]), "w": np.exp(Y[:, 1])})
    Y[:, 1] -= np.log(frame["w"].mean())
    model = FBS("y", "C(field) + gender", prior="flat")
    data = model.prepare(SurveyDesign(frame, weights="w"))
    sampler = Sampler(lambda: None, rng, 1, 0, draws)
    risk, fits = model.lipschitz(data, model.fit(data, np.ones(n), sampler)), []

    def fit(alpha):
        fits.append(alpha)
        return model.fit(data, alpha, sampler)

    def run(start):
        fits.clear()
        return tune(
            lambda c1: MAPS["inverse"](risk, c1, 0.0, 1.8),
            pseudo(fit, lambda p, a: model.lipschitz(data, p), lambda a, b, p: model.log_ratio(data, a, b, p)), 1.8,
            start=start,
        )  # fmt: skip

    done = run(1.12 * run(1.0).c1)
    assert 0.9 <= done.posterior.efficiency < 0.99 and (fits[-1] != done.alpha).all()  # moved, without a fit there
    alpha, w = done.alpha, done.posterior.weight
    C0 = (X.T * alpha) @ X
    B_hat = np.linalg.solve(C0, (X.T * alpha) @ Y)
    Sigma_hat = ((Y - X @ B_hat).T * alpha) @ (Y - X @ B_hat) / (alpha.sum() - 4 - 2 - 1)
    B, L = done.posterior.values["B"].reshape(draws, 8), done.posterior.values["L"]
    Sigma = (L @ L.transpose(0, 2, 1)).reshape(draws, 4)[:, [0, 1, 3]]
    squares = (B - B_hat.ravel()) ** 2
    variance = np.outer(np.diag(np.linalg.inv(C0)), np.diag(Sigma_hat)).ravel()

    def z(weight):
        out = []
        for x, expected in [(B, B_hat.ravel()), (squares, variance), (Sigma, Sigma_hat.ravel()[[0, 1, 3]])]:
            error = np.sqrt((weight**2) @ (x - weight @ x) ** 2)
            out.append(np.abs((weight @ x - expected) / error).max())
        return max(out)

    assert z(w) < 4
    assert z(np.full(draws, 1 / draws)) > 8  # without the weights the draws are visibly those of the old alpha
