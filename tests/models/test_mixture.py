"""Mixture against row-by-row densities, quadrature, a row-by-row Stan program, and its own prior."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mixtures import AGREE, FACTS, facts, file, fitted, rowwise, rowwise_draws
from rowwise import z_scores
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import gamma as gamma_distribution
from scipy.stats import kstest, norm
from scipy.stats import t as student_t

from surveysynth import (
    AsinhTransform,
    Censored,
    IdentityTransform,
    InputError,
    ModelError,
    SurveyDesign,
    read_release,
    synthesize,
)
from surveysynth.models.densities import row_density
from surveysynth.models.draws import Draws, Sampler
from surveysynth.models.mixture import chain, components
from surveysynth.models.mixture.mathematics import fast_exp, fast_log
from surveysynth.models.mixture.model import Mixture
from surveysynth.models.mixture.sampler import fill
from tests.surveys import PSEUDO

pytestmark = pytest.mark.slow  # numba compiles the sampler for half a minute

KINDS = [(False, False), (True, False), (False, True), (True, True)]  # (weight modelled, zeros)


def settings_of(seed=1, chains=4, draws=1000, warmup=300):
    return Sampler(lambda: None, np.random.default_rng(seed), chains, warmup, draws)


def design_of(y, **columns):
    return SurveyDesign(pd.DataFrame({"y": np.asarray(y, dtype=float), "w": 1.0} | columns), weights="w")


def alphas(n, seed=4):
    alpha = np.random.default_rng(seed).uniform(0.1, 1, n)
    alpha[:3] = 0
    return alpha


def drawn(modelled=False, zeros=False, S=30, K=3, R=2, seed=2):
    """Draws of anything."""
    rng = np.random.default_rng(seed)
    values = {
        "share": rng.dirichlet(np.ones(K), S), "b": rng.normal(size=(S, K, R)), "sd": 0.3 + rng.gamma(2, 0.3, (S, K)),
        "gamma": rng.gamma(2, 1, S),
    }  # fmt: skip
    if modelled:
        values |= {"c": 0.4 * rng.normal(size=(S, K + 1, R + 1)), "sd_w": 0.1 + rng.gamma(2, 0.2, (S, K + 1))}
    if zeros:
        values["zero"] = rng.normal(size=(S, R))
    return Draws(values, np.zeros(S, dtype=np.intp), None, "none", "0")


def prepared(modelled=False, zeros=False, n=60, seed=1, **options):
    frame, X = file(n, seed, modelled, zeros)
    model = Mixture("y", "field", zeros=zeros, **({"components": 3} | options))
    data = model.prepare(SurveyDesign(frame, weights="w"))
    np.testing.assert_allclose(data.X[data.row], X, atol=1e-12)
    assert (data.log_w is not None) == modelled == (data.public_weights is None)
    return model, data, frame, X


def rowwise_of(data, X, posterior):
    return rowwise(posterior.values, X, data.y, data.zero, data.log_w)


# ---- exp and log


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-700, 700), min_size=1, max_size=20))
def test_exp(x):
    out = np.empty(len(x))
    fast_exp(np.array(x), out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-15)


def test_exp_below_its_range():
    out = np.empty(4)
    fast_exp(np.array([-700.0, -700.1, -1e9, -np.inf]), out)
    np.testing.assert_allclose(out, np.exp(-700), rtol=1e-15)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(np.finfo(float).tiny, np.finfo(float).max), min_size=1, max_size=20))
def test_log(x):
    """Normal numbers, to the edge where they are no longer."""
    out = np.empty(len(x))
    fast_log(np.array(x), out)
    np.testing.assert_allclose(out, np.log(x), rtol=1e-15)


def test_exp_and_log_on_a_grid():
    x = np.concatenate([np.linspace(-700, 700, 100_001), np.linspace(-1, 1, 100_001)])
    out = np.empty(x.size)
    fast_exp(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-15)
    tiny, near = np.finfo(float).tiny, 1 + np.linspace(-0.6, 1.1, 100_001)
    v = np.concatenate([np.exp(x), near, [tiny, np.nextafter(1, 0), np.nextafter(1, 2), np.sqrt(2), 0.5, 2.0]])
    expected = np.log(v)
    fast_log(v, back := np.empty(v.size))
    np.testing.assert_allclose(back, expected, rtol=1e-15)


# ---- densities


@pytest.mark.parametrize(("modelled", "zeros"), KINDS)
@pytest.mark.parametrize("small_blocks", [False, True])
def test_densities_are_those_of_scipy(monkeypatch, modelled, zeros, small_blocks):
    if small_blocks:
        monkeypatch.setattr(row_density, "BLOCK_BYTES", 24 * 100 * 4)
    model, data, _, X = prepared(modelled, zeros)
    posterior = drawn(modelled, zeros, S=100)  # more than a tile
    posterior.values["share"][7] = [1, 0, 0]
    posterior.values["b"][8, 0] = 400.0  # a component that is nothing anywhere
    log_p = rowwise_of(data, X, posterior)
    np.testing.assert_allclose(model.lipschitz(data, posterior), np.abs(log_p).max(axis=0), rtol=1e-11)
    unit = np.random.default_rng(1).integers(0, 9, 60)
    sums = np.array([log_p[:, unit == u].sum(axis=1) for u in range(9)])
    np.testing.assert_allclose(model.lipschitz(data, posterior, unit), np.abs(sums).max(axis=1), rtol=1e-11)
    some = np.array([7, 3, 3, 50])
    np.testing.assert_allclose(model.log_density(data.subset(some), posterior), log_p[:, some], rtol=1e-10, atol=1e-12)
    before, after = alphas(60), np.random.default_rng(9).uniform(0, 1, 60)
    after[10:20] = before[10:20]
    ratio = model.log_ratio(data, before, after, posterior)
    np.testing.assert_allclose(ratio, log_p @ (after - before), rtol=1e-10, atol=1e-10)
    for clamp in (np.inf, 0.7):
        found = model._log_likelihood(data, before, clamp, posterior)
        np.testing.assert_allclose(found, np.clip(before * log_p, -clamp, clamp).sum(axis=1), rtol=1e-10)


@pytest.mark.parametrize(("modelled", "zeros"), KINDS)
def test_the_sampler_s_densities_are_the_same(modelled, zeros):
    """What a chain starts from and looks at: densities of its own, by record and component."""
    model, data, _, X = prepared(modelled, zeros)
    alpha = alphas(60)
    records = model._records(data, alpha, np.inf)
    state = chain.start(records, 3, np.random.default_rng(1))
    state.zero[:] = [0.4, -0.3]
    fill(records, state)
    values = {"share": np.exp(state.log_share), "b": state.b, "sd": state.sd}
    values |= {"c": state.c, "sd_w": state.sd_w} if modelled else {}
    values |= {"zero": state.zero} if zeros else {}
    log_p = rowwise({k: v[None] for k, v in values.items()}, X, data.y, data.zero, data.log_w)[0]
    order = np.argsort(data.row, kind="stable")
    order = order[alpha[order] > 0]
    found = np.log(np.exp(state.log_share) @ state.density) + state.other
    np.testing.assert_allclose(found, log_p[order[~data.zero[order]]], rtol=1e-12)
    if zeros:
        found = state.log_zero[records.row0] + (state.w0_log if modelled else 0)
        np.testing.assert_allclose(found, log_p[order[data.zero[order]]], rtol=1e-12)


def test_a_density_that_is_not_finite_has_no_bound():
    model, data, _, _ = prepared()
    posterior = drawn()
    posterior.values["b"][1] = np.nan
    assert np.isinf(model.lipschitz(data, posterior)).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(10, 40), factor=st.floats(1e-6, 1e6))
def test_order_of_records_scale_of_weights_and_names_of_levels_change_nothing(seed, n, factor):
    frame, _ = file(n, seed % 1000, True, True)
    assume((frame["y"] == 0).any())  # else zeros=True is refused
    rng, model = np.random.default_rng(seed), Mixture("y", "field", zeros=True, components=3)
    order, posterior = rng.permutation(n), drawn(True, True)
    here = model.prepare(SurveyDesign(frame, weights="w"))
    changed = frame.iloc[order].assign(w=lambda f: factor * f["w"], field=lambda f: "level " + f["field"])
    there = model.prepare(SurveyDesign(changed, weights="w"))
    np.testing.assert_allclose(here.X[here.row][order], there.X[there.row], atol=1e-12)
    np.testing.assert_allclose(here.log_w[order], there.log_w, atol=1e-9)
    assert (here.y[order] == there.y).all() and (here.zero[order] == there.zero).all()
    np.testing.assert_allclose(model.lipschitz(here, posterior)[order], model.lipschitz(there, posterior), rtol=1e-7)


def test_units_of_predictors():
    """Coefficients in the predictors' own units say the same of rows that are not standardized; and back."""
    model, data, frame, X = prepared(True, True)
    posterior = drawn(True, True)
    own = model.to_original_scale(data, posterior).values
    raw = np.column_stack([np.ones(60), frame["field"] == "b"]).astype(float)
    for name in ("b", "zero"):
        np.testing.assert_allclose(own[name] @ raw.T, posterior.values[name] @ X.T, atol=1e-12)
    np.testing.assert_allclose(own["c"][..., :-1] @ raw.T, posterior.values["c"][..., :-1] @ X.T, atol=1e-12)
    back = model.from_original_scale(data, model.to_original_scale(data, posterior)).values
    for name, v in posterior.values.items():
        np.testing.assert_allclose(back[name], v, rtol=1e-12, atol=1e-14)
        untouched = name in ("share", "sd", "gamma", "sd_w")
        assert (own[name] is v) == untouched


def test_a_public_mean_weight_divides():
    frame, _ = file(60, 1, True)
    data = Mixture("y").prepare(SurveyDesign(frame, weights="w"), mean_weight=2.5)
    np.testing.assert_allclose(data.log_w, np.log(frame["w"] / 2.5))


# ---- the sampler: quadrature, the prior, one path and the other


def log_prior_of_level(b, common):
    """Log density of an intercept, its scale and mean integrated out."""
    log_D = np.linspace(-12, 9, 2101)[:, None]
    D, mean_sd = np.exp(log_D), 5.0 if common else 0.0
    log_p = np.log(2 * 0.01) + student_t.logpdf(D, 3) + log_D + norm.logpdf(b, 0, np.hypot(mean_sd, D))
    return logsumexp(log_p, axis=0)


def quadrature(y, zero, alpha, clamp, least, zeros, common):
    """Means and variances of b, log sd and the log odds of a zero, of one component without predictors."""
    b, s = np.linspace(y.mean() - 1.5, y.mean() + 1.5, 80), np.linspace(np.log(least), np.log(least) + 2, 80)
    d = np.linspace(-4, 2, 40) if zeros else np.zeros(1)
    log_p = log_prior_of_level(b, common)[:, None, None] + (student_t.logpdf(np.exp(s), 3) + s)[:, None]
    if zeros:
        log_p = log_p + norm.logpdf(d, 0, 2.5)
    edge = np.where((np.arange(s.size) == 0)[:, None], 0.5, 1.0)  # trapezoids: the density is not 0 at least_sd
    other = log_expit(-d) if zeros else np.zeros(1)
    for v, a in zip(y, alpha[~zero], strict=True):
        term = a * (norm.logpdf(v, b[:, None], np.exp(s))[:, :, None] + other)
        log_p = log_p + np.clip(term, -clamp, clamp)
    for a in alpha[zero]:
        log_p = log_p + np.clip(a * log_expit(d), -clamp, clamp)
    p = np.exp(log_p - log_p.max()) * edge
    p /= p.sum()
    ends = [p[0].sum(), p[-1].sum(), p[:, -1].sum(), *([p[:, :, 0].sum(), p[:, :, -1].sum()] if zeros else [])]
    assert max(ends) < 1e-5
    grids = [b[:, None, None] + 0 * p, s[:, None] + 0 * p, *([d + 0 * p] if zeros else [])]
    means = [(p * g).sum() for g in grids]
    return np.array(means), np.array([(p * (g - m) ** 2).sum() for g, m in zip(grids, means, strict=True)])


@pytest.mark.parametrize(
    ("prior", "zeros", "clamp", "ones"),
    [
        ("common", False, None, True), ("common", True, None, False), ("paper", False, None, False),
        ("common", False, 1.0, False), ("paper", True, 2.0, False), ("common", True, 3.0, True),
    ],
)  # fmt: skip
def test_one_component_has_the_posterior_of_quadrature(prior, zeros, clamp, ones):
    rng = np.random.default_rng(8)
    t = rng.normal(1, 0.6, 100) + (rng.random(100) < 0.1) * 3
    y = np.where(zeros & (np.arange(100) % 4 == 0), 0, np.exp(t))
    model = Mixture("y", components=1, prior=prior, zeros=zeros, least_sd=0.5)
    data, alpha = model.prepare(design_of(y)), np.ones(100) if ones else alphas(100)
    posterior = fitted(model, data, alpha, clamp, settings_of(3, draws=3000))
    draws = [posterior.values["b"][:, 0, 0], np.log(posterior.values["sd"][:, 0])]
    draws += [posterior.values["zero"][:, 0]] if zeros else []
    draws = np.array(draws).T
    means, variances = quadrature(
        data.y[~data.zero], data.zero, alpha, np.inf if clamp is None else clamp, 0.5, zeros, prior == "common"
    )
    moments = np.concatenate([draws - means, (draws - means) ** 2 - variances], axis=1)
    batches = moments.reshape(-1, 200, moments.shape[1]).mean(axis=1)
    z = batches.mean(axis=0) / (batches.std(axis=0, ddof=1) / np.sqrt(len(batches)))
    assert np.abs(z).max() < 4


def test_one_component_is_weighted_least_squares():
    """Three coefficients and many records, beside which the prior says nothing."""
    rng = np.random.default_rng(2)
    n = 600
    field, x, alpha = rng.integers(0, 2, n), rng.integers(0, 5, n), rng.uniform(0.2, 1, n)
    y = np.exp(1 + 0.7 * field - 0.2 * x + 0.8 * rng.normal(size=n))
    model = Mixture("y", "field + x", components=1, least_sd=0.05)
    data = model.prepare(design_of(y, field=np.array(list("ab"))[field], x=x))
    X, t = data.X[data.row], np.log(y)
    values = model.fit(data, alpha, settings_of(3)).values
    inverse = np.linalg.inv(X.T * alpha @ X)
    mean = inverse @ (X.T * alpha @ t)
    squares, A = alpha @ (t - X @ mean) ** 2, alpha.sum()
    error = np.sqrt(squares / A * np.diag(inverse))
    assert (np.abs(values["b"][:, 0].mean(axis=0) - mean) < 0.09 * error).all()  # 4000 draws, nearly independent
    np.testing.assert_allclose(values["b"][:, 0].std(axis=0), error, rtol=0.06)
    sd = np.linspace(0.6, 1.1, 2001)
    log_p = student_t.logpdf(sd, 3) - (A - 3) * np.log(sd) - squares / (2 * sd**2)
    p = np.exp(log_p - logsumexp(log_p))
    expected = p @ sd
    spread = np.sqrt(p @ (sd - expected) ** 2)
    assert abs(values["sd"].mean() - expected) < 0.09 * spread
    assert values["sd"].std() == pytest.approx(spread, rel=0.06)


def chains_of(model, data, records, draws, seed=1, chains=4, warmup=300):
    """Draws of the sampler itself, whatever the records say."""
    odds, values = chain.zero_odds(records), []
    for rng in np.random.default_rng(seed).spawn(chains):
        own = records._replace(part=records.part.copy(), part0=records.part0.copy())
        state = chain.start(own, model.components, rng)
        fill(own, state)
        values.append(chain.run_chain(own, state, odds, settings_of(draws=draws, warmup=warmup), rng))
    return {name: np.concatenate([one[name] for one in values]) for name in values[0]}


@pytest.mark.parametrize("clamp", [np.inf, 3.0])
def test_without_likelihood_the_prior_is_left(clamp):
    """Privacy weights of 1e-9, which a fit refuses."""
    model, data, _, _ = prepared(True, True, n=20, components=4, a_gamma=3.0, b_gamma=1.5, least_sd=0.4)
    records = model._records(data, np.full(20, 1e-9), clamp)
    v = {name: x[::2] for name, x in chains_of(model, data, records, 1500).items()}

    def agrees(x, cdf):
        assert kstest(x, cdf).pvalue > 1e-4

    def half_t(x, least):
        upper = student_t.sf(least, 3)
        return np.clip(1 - student_t.sf(x, 3) / upper, 0, 1)

    agrees(v["gamma"], gamma_distribution(3, scale=1 / 1.5).cdf)
    for k in range(4):
        agrees(v["sd"][:, k], lambda x: half_t(x, 0.4))
        agrees(v["sd_w"][:, k], lambda x: half_t(x, 0.01))
    grid = np.linspace(-200, 200, 8001)
    density = np.exp(log_prior_of_level(grid, True))
    level = np.cumsum(density) / density.sum()
    assert density.sum() * 0.05 == pytest.approx(1, abs=1e-3)
    for name in ("b", "c"):  # they, their mean and their scale move each other along: by batches
        rank = np.interp(v[name][:, 1, 1], grid, level)
        batches = (rank[:, None] < [0.1, 0.3, 0.5, 0.7, 0.9]).reshape(20, -1, 5).mean(axis=1)
        error = batches.std(axis=0, ddof=1) / np.sqrt(20)
        assert (np.abs(batches.mean(axis=0) - [0.1, 0.3, 0.5, 0.7, 0.9]) < 4.5 * error).all()
    agrees(v["zero"][:, 0], norm(0, 2.5).cdf)
    # shares given gamma: symmetric, and E sum of squares is (gamma / K + 1) / (gamma + 1)
    expected = (v["gamma"] / 4 + 1) / (v["gamma"] + 1)
    apart = (v["share"] ** 2).sum(axis=1) - expected
    assert abs(apart.mean()) < 4.5 * apart.std() / np.sqrt(apart.size)
    assert (np.abs(v["share"].mean(axis=0) - 0.25) < 4.5 * v["share"].std(axis=0) / np.sqrt(apart.size)).all()


@pytest.mark.parametrize(("modelled", "zeros"), [(False, False), (True, True)])
def test_both_paths_are_one_posterior(modelled, zeros):
    """alpha = 1: the Gibbs sampler, and the one for any alpha."""
    model, data, _, X = prepared(modelled, zeros, n=40, a_gamma=8.0, b_gamma=2.0)
    records = model._records(data, np.ones(40), np.inf)
    assert records.exact
    one, other = (chains_of(model, data, records._replace(exact=exact), 600, exact) for exact in (True, False))
    points = np.quantile(data.y[~data.zero], FACTS)
    a, b = (
        facts(v, X, data.y, data.zero, data.log_w, np.ones(40), np.inf, points).reshape(4, 600, -1)
        for v in (one, other)
    )
    assert np.abs(z_scores(a, b)).max() < AGREE


@pytest.mark.parametrize(
    ("prior", "modelled", "zeros", "clamp"),
    [("common", False, False, None), ("paper", True, True, None), ("common", False, True, 4.0)],
)
def test_posterior_is_that_of_a_rowwise_program(prior, modelled, zeros, clamp):
    """By NUTS, components summed over in every record: the longer runs are in tests/reference/."""
    model, data, _, X = prepared(modelled, zeros, n=40, components=2, prior=prior, a_gamma=8.0, b_gamma=2.0)
    alpha = np.random.default_rng(3).uniform(0.1, 1, 40)
    ours, theirs, _ = rowwise_draws(model, data, X, alpha, clamp, draws=400, chains=4, seed=5, warmup=300)
    assert np.abs(z_scores(ours, theirs)).max() < AGREE


# ---- synthetic data


@pytest.mark.parametrize("transform", ["log", IdentityTransform(scale=2.0), AsinhTransform(scale=1.5)])
def test_simulated_values_follow_the_draw(transform):
    """Shares below some points, by record, and means of those; zeros as often as their odds say; smoothed weights."""
    model, data, _, X = prepared(True, True, transform=transform)
    posterior, rng = drawn(True, True, S=2), np.random.default_rng(1)
    v = {name: x[1] for name, x in posterior.values.items()}
    sets = [next(model.simulations(data, posterior, [1], rng)) for _ in range(3000)]
    y = np.array([s.outcomes[:, 0] for s in sets])
    if transform == "log":
        assert y.min() == 0
        with np.errstate(divide="ignore"):
            back = np.log(y)
    else:
        back = y / 2 if isinstance(transform, IdentityTransform) else np.arcsinh(y / 1.5)
    rho, mean = expit(X @ v["zero"]), X @ v["b"].T
    zero = y == 0
    assert np.abs((zero.mean(axis=0) - rho) / np.sqrt(rho * (1 - rho) / 3000)).max() < 4.5
    for point in (-1.0, 0.2, 1.5):
        p = (1 - rho) * (norm.cdf((point - mean) / v["sd"]) @ v["share"])
        below = (~zero & (back < point)).mean(axis=0)
        assert np.abs((below - p) / np.sqrt(p * (1 - p) / 3000)).max() < 4.5
    at = np.where(zero[0], 0, back[0])
    dens = v["share"] * norm.pdf(at[:, None], mean, v["sd"])
    log_weight = X @ v["c"][:, :-1].T
    smooth = (dens / dens.sum(axis=1, keepdims=True) * (log_weight[:, :3] + at[:, None] * v["c"][:3, -1])).sum(axis=1)
    np.testing.assert_allclose(sets[0].weights, np.exp(np.where(zero[0], log_weight[:, 3], smooth)), rtol=1e-8)


def test_simulated_values_keep_to_the_bounds():
    frame, X = file(60)
    high = 1.2 * frame["y"].max()
    model = Mixture("y", "field", components=3, bounds=(0.01, high))
    data, posterior = model.prepare(SurveyDesign(frame, weights="w")), drawn(S=1)
    v = {name: x[0] for name, x in posterior.values.items()}
    v["b"][0, 0] = 9.0  # mostly beyond
    rng = np.random.default_rng(1)
    sets = [next(model.simulations(data, posterior, [0], rng)) for _ in range(2000)]
    y = np.array([s.outcomes[:, 0] for s in sets])
    assert y.min() >= 0.01 and y.max() <= high and (sets[0].weights == 3).all()
    mean, ends = X @ v["b"].T, np.log([0.01, 2.0, high])
    below = [norm.cdf((e - mean) / v["sd"]) @ v["share"] for e in ends]
    p = (below[1] - below[0]) / (below[2] - below[0])  # components drawn again, too: a mixture that is cut off
    assert np.abs(((y < 2).mean(axis=0) - p) / np.sqrt(p * (1 - p) / 2000)).max() < 4.5


def test_allocation_given_the_records_follows_them_and_the_default_does_not():
    """Components far apart, equal shares: eq. 7 of the paper puts every record back where it was."""
    rng = np.random.default_rng(6)
    z, n = rng.integers(0, 3, 3000), 3000
    y = np.exp(np.array([-2.0, 1.0, 5.0])[z] + 0.05 * rng.normal(size=n))
    y[:50] = 0
    values = {
        "share": np.full((1, 3), 1 / 3), "b": np.array([[[-2.0], [1.0], [5.0]]]), "sd": np.full((1, 3), 0.05),
        "gamma": np.ones(1), "zero": np.array([[-4.0]]),
    }  # fmt: skip
    posterior = Draws(values, np.zeros(1, dtype=np.intp), None, "none", "0")
    sets = {}
    for allocation in ("posterior", "prior"):
        model = Mixture("y", components=3, zeros=True, allocation=allocation)
        assert model.from_records == (allocation == "posterior")
        data = model.prepare(design_of(y))
        sets[allocation] = next(model.simulations(data, posterior, [0], np.random.default_rng(3))).outcomes[:, 0]
    near, free = sets["posterior"], sets["prior"]
    both = (near > 0) & (y > 0)
    assert np.abs(np.log(near[both]) - np.log(y[both])).max() < 0.6  # of components that are 3 apart
    rho, most = expit(-4), 4.5 * np.sqrt(expit(-4) / n)
    for drawn_set in sets.values():  # zeros are drawn, whoever is one
        assert abs((drawn_set == 0).mean() - rho) < most and ((drawn_set == 0) & (y > 0)).any()
    both = (free > 0) & (y > 0)
    assert abs(np.corrcoef(np.log(free[both]), np.log(y[both]))[0, 1]) < 4.5 / np.sqrt(both.sum())


def test_allocation_given_a_record_has_the_probabilities_of_e_eq_7():
    _, data, _, X = prepared(allocation="posterior")
    posterior, rng = drawn(S=1), np.random.default_rng(2)
    v = {name: x[0] for name, x in posterior.values.items()}
    p = v["share"] * norm.pdf(data.y[:, None], X @ v["b"].T, v["sd"])
    p /= p.sum(axis=1, keepdims=True)
    z = np.array([components.components_given(data, v, rng) for _ in range(3000)])
    for k in range(3):
        error = np.sqrt(p[:, k] * (1 - p[:, k]) / 3000) + 1e-4
        assert (np.abs((z == k).mean(axis=0) - p[:, k]) < 4.5 * error).all()


# ---- components


@pytest.mark.parametrize("seed", range(4))
def test_labels_of_components_change_nothing(fit_of_components, seed):
    model, data, posterior = fit_of_components
    rng, values = np.random.default_rng(seed), dict(posterior.values)
    order = rng.permuted(np.tile(np.arange(model.components), (posterior.size, 1)), axis=1)
    for name in ("share", "b", "sd"):
        at = order.reshape(*order.shape, *[1] * (values[name].ndim - 2))
        values[name] = np.take_along_axis(values[name], at, axis=1)
    other = Draws(values, posterior.chain, None, "none", "0")
    np.testing.assert_allclose(model.lipschitz(data, other), model.lipschitz(data, posterior), rtol=1e-10)
    here, there = (model.components_of(data, p) for p in (posterior, other))
    shares = ["share", "share_low", "share_high"]
    np.testing.assert_allclose(there[shares], here[shares], atol=1e-9)
    large = here["share"] > 0.1  # the rest is now and then empty: which of these is which is nobody's to say
    assert large.sum() == 2
    np.testing.assert_allclose(there[large], here[large], rtol=1e-9)


@pytest.fixture(scope="module")
def fit_of_components():
    frame, _ = file(150)
    model = Mixture("y", "field", components=4)
    data = model.prepare(SurveyDesign(frame, weights="w"))
    return model, data, model.fit(data, np.ones(150), settings_of(1, chains=2, draws=150))


def test_components_far_apart_are_found():
    rng = np.random.default_rng(4)
    z = rng.random(300) < 0.3
    y = np.exp(np.where(z, 6 + 0.9 * rng.normal(size=300), 0.4 * rng.normal(size=300)))
    model = Mixture("y", components=6)
    data = model.prepare(design_of(y))
    posterior = model.fit(data, np.ones(300), settings_of(1, draws=250))
    assert posterior.failures == ()
    table = model.components_of(data, posterior)
    two = table.iloc[:2]
    assert table["share"].is_monotonic_decreasing and two["share"].sum() > 0.85
    np.testing.assert_allclose(two["location"], [np.log(y[~z]).mean(), np.log(y[z]).mean()], atol=0.3)
    assert (two["share_low"] < two["share"]).all() and (two["share"] < two["share_high"]).all()


# ---- at the door


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outcome": ["y"]}, "one column"), ({"missing": "keep"}, "fail, drop"), ({"predictors": "y"}, "outcome"),
        ({"prior": "flat"}, "common, paper"), ({"allocation": "z"}, "prior, posterior"), ({"zeros": 1}, "True or F"),
        ({"components": 0}, "components must be a whole"), ({"components": 2.5}, "components must be a whole"),
        ({"a_gamma": 0}, "a_gamma must be a positive"), ({"b_gamma": -1}, "b_gamma must be a positive"),
        ({"least_sd": np.inf}, "least_sd must be a positive"), ({"bounds": (3, 1)}, "bounds"),
    ],
)  # fmt: skip
def test_options(options, message):
    with pytest.raises(InputError, match=message):
        Mixture(**({"outcome": "y"} | options))


def test_the_file_is_checked():
    frame, _ = file()
    model = Mixture("y", "field")

    def refused(kind, message, model=model, design=None, **changed):
        with pytest.raises(kind, match=message) as raised:
            model.prepare(SurveyDesign(frame.assign(**changed), weights="w", **(design or {})))
        said = str(raised.value)
        assert "77.25" not in said and "0.0625" not in said
        return said

    n = len(frame)
    y, fourth = frame["y"].to_numpy(), np.arange(n) == 3
    said = refused(InputError, r"has no log in 1 row \(row numbers 4.*Asinh", y=np.where(fourth, -77.25, y))
    assert "zeros=True" not in said
    refused(InputError, r"has no log in 1 row .*use zeros=True, .* or transform", y=np.where(fourth, 0, y))
    bounded = Mixture("y", "field", bounds=(0.001, 70))
    refused(InputError, r"beyond the bounds in 1 row \(row numbers 4", bounded, y=np.where(fourth, 77.25, 1 + fourth))
    refused(InputError, "missing in 1 row", y=np.where(fourth, np.nan, y))
    refused(InputError, "intercept", Mixture("y", "0 + x"), x=np.arange(n) % 4)
    refused(ModelError, "constant", y=77.25)
    refused(ModelError, "constant", Mixture("y", zeros=True), y=0.0)
    refused(ModelError, "one and the same value", Mixture("y", zeros=True), y=np.where(fourth, 0, 77.25))
    refused(ModelError, "nearly, but not quite", w=3 + 1e-4 * np.random.default_rng(1).uniform(size=n))
    psu = {"psu": np.arange(n) // 6}
    refused(InputError, "PSUs .* clusters='ignore'", design={"psu": "psu"}, **psu)
    refused(InputError, "strata .* clusters='ignore'", design={"strata": "psu"}, **psu)
    model.prepare(SurveyDesign(frame.assign(**psu), weights="w", psu="psu"), "ignore")
    assert "array" not in repr(model.prepare(SurveyDesign(frame, weights="w")))


def test_too_little_weight_is_refused():
    model, data, _, _ = prepared()
    for alpha in (np.zeros(60), np.full(60, 0.04)):
        with pytest.raises(ModelError, match="too little is left to fit 2 coefficients"):
            model.fit(data, alpha, settings_of())
        with pytest.raises(ModelError, match="too little is left"):
            model.censored(data, alpha, 1.0, settings_of())


def test_corrections_are_refused():
    model, data, frame, _ = prepared()
    with pytest.raises(InputError, match="Mixture has no debias: leave it out, or use FBS"):
        synthesize(SurveyDesign(frame, weights="w"), model, epsilon=9, debias=True, mechanism=PSEUDO)
    with pytest.raises(InputError, match="Mixture has no debias for the censored mechanism: use FBS or FBP"):
        model.uncensored(data, drawn(), [0], 1.0)
    assert model.variance_factor(data, drawn(), [0], 1.0, corrected=False) is None


# ---- releases


SETTINGS = {
    "m": 2, "chains": 2, "warmup": 100, "draws": 200, "seed": 1, "accept_diagnostics": ["rhat", "ess_bulk", "ess_tail"],
}  # fmt: skip


@pytest.mark.parametrize(("modelled", "zeros"), [(True, True), (False, False)])
def test_release_end_to_end(modelled, zeros, tmp_path):
    frame, _ = file(250, 1, modelled, zeros)
    model = Mixture("y", "field", components=5, zeros=zeros)
    release = synthesize(SurveyDesign(frame, weights="w"), model, epsilon=30, **({"mechanism": PSEUDO} | SETTINGS))
    assert release.privacy.epsilon <= 30 and release.method["method"] == "Mixture"
    assert release.method["weights"] == ("synthesized (smoothed)" if modelled else "public")
    for synthetic in release.datasets:
        y = synthetic.frame["y"].to_numpy()
        assert (y >= 0).all() and (y == 0).any() == zeros and np.unique(y[y > 0]).size == (y > 0).sum()
        assert (np.unique(synthetic.weights).size > 3) == modelled
        assert sorted(synthetic.frame["field"]) == sorted(frame["field"])
    said = " ".join(release.privacy.assumptions)
    assert "mixture of at most 5 normal regressions" in said and "Dirichlet(gamma / 5)" in said
    assert ("exactly 0 has a probability of its own" in said) == zeros
    read = read_release(release.write(tmp_path / "release", by="field"))
    for one in (release, read):
        means = one.tables(by="field").query("statistic == 'mean'")
        assert np.isfinite(means["estimate"]).all() and (means["se"] > 0).all()
    assert read.method == release.method or read.method["method"] == "Mixture"


def test_a_censored_release():
    frame, _ = file(150, 1, True)
    total = round(frame["w"].sum())
    release = synthesize(
        SurveyDesign(frame, weights="w"), Mixture("y", "field", components=3), mechanism=Censored(24),
        population_total=total, m=2, chains=4, warmup=200, draws=1000, seed=1,
    )  # fmt: skip
    assert release.privacy.epsilon <= 24 and release.privacy.kind.startswith("strict")
    for synthetic in release.datasets:
        assert synthetic.weights.sum() == pytest.approx(total) and (synthetic.frame["y"] > 0).all()
