"""FBS against the row-by-row program of Hu, Savitsky & Williams (2022a), dense normal formulas and closed forms."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rowwise import (
    EFFECT,
    Stop,
    alphas,
    collapsed,
    log_prob,
    moments_agree,
    reference,
    sample,
    sampler,
    with_values,
    z_scores,
)
from scipy.linalg import block_diag
from scipy.stats import kstest, multivariate_normal, t

from surveysynth import FBS, IdentityTransform, ModelError, SurveyDesign, synthesize
from surveysynth.engines import base
from surveysynth.engines.cmdstan import cmdstan_version
from surveysynth.models.densities import normal_density as gaussian
from surveysynth.models.draws import Draws, Sampler
from surveysynth.models.normal.fbs import draw_coefficients
from tests.surveys import PSEUDO


def model_of(D, **options):
    """FBS of D columns with what it fits to: (model, data, X, Y by hand)."""
    frame, X, Y = sample(weights=D > 1)
    model = FBS(["y", "h"] if D == 3 else "y", "field + x", **options)
    return model, model.prepare(SurveyDesign(frame, weights="w")), X, Y[:, [[0], [0, 2], [0, 1, 2]][D - 1]]


def rowwise(X, Y, alpha, prior):
    (n, K), D = X.shape, Y.shape[1]
    correlated = int(prior == "paper")
    return reference("fbs_rowwise.stan", n=n, K=K, D=D, X=X, Y=Y, alpha=alpha, correlated=correlated)


def split(L):
    """Scales and correlation factor of Sigma = L L'."""
    s = np.linalg.norm(L, axis=1)
    return s, L / s[:, None]


def dense_conditional(X, Y, alpha, Sigma, prior):
    """Mean and precision of vec B (columns stacked) given Sigma and its prior covariances, by Kronecker products."""
    inverse = np.linalg.inv(Sigma)
    XA = X.T * alpha
    precision = np.kron(inverse, XA @ X) + block_diag(*map(np.linalg.inv, prior))
    return np.linalg.solve(precision, (XA @ Y @ inverse).flatten(order="F")), precision


def random_corr_factor(rng, K):
    G = rng.normal(size=(K, K + 2))
    return split(np.linalg.cholesky(G @ G.T))[1]


# ---- the collapsed program


@pytest.mark.parametrize("prior", ["paper", "independent"])
@pytest.mark.parametrize(("D", "empty_cell"), [(1, False), (2, False), (3, False), (2, True)])
def test_collapsed_density_is_the_rowwise_density_with_B_integrated_out(D, empty_cell, prior):
    """log p(hyper | data) = log p(B, hyper | data) - log p(B | hyper, data) up to one constant, for any B."""
    rng = np.random.default_rng(11)
    model, data, X, Y = model_of(D, prior=prior)
    alpha = alphas(empty_cell=empty_cell)
    program, given_data = collapsed(model, data, alpha)
    rows = rowwise(X, Y, alpha, prior)
    K, A, b, r = X.shape[1], alpha.sum(), given_data["b"], given_data["r"]
    assert given_data["rank"] == K - empty_cell
    L_hat = np.linalg.cholesky(given_data["S0"] / A)
    branches, constants = set(), []
    for _ in range(25):
        u, v, U = rng.normal(size=D), rng.normal(size=D * (D - 1) // 2), rng.uniform(size=(K, D))
        Omega = random_corr_factor(rng, K) if prior == "paper" else np.ones((1, 1))
        # the program's coordinates, by hand
        low = 1 - 1 / r
        T = np.choose(rng.integers(3, size=(K, D)), [2 * U, low * U, low - U / r])
        tail, wall = b * r * np.exp(r * (np.minimum(T, low) - low)), b / (1 - np.clip(T, low, 0))
        sigma_beta = np.select([T > 0, T > low], [b * np.exp(np.maximum(T, 0)), wall], tail)
        slope = np.select([T > 0, T > low], [sigma_beta, wall**2 / b], r * tail)
        branches |= set(np.select([T > 0, T > low], ["up", "wall"], "down").flat)
        M = np.diag(np.exp(u / np.sqrt(2 * A)))
        M[np.tril_indices(D, -1)] = v / np.sqrt(A)
        L = L_hat @ M
        s, Z = split(L)
        # Jacobians to (sigma_beta, lower triangle of L, Omega): row i of L has i entries beside its scale
        left = u.sum() / np.sqrt(2 * A) + np.log(slope).sum()
        i, j = np.tril_indices(D, -1)
        share = 1 - np.array([(Z[a, :c] ** 2).sum() for a, c in zip(i, j, strict=True)])  # what z_ac may take up
        z = Z[i, j]
        right = np.log(sigma_beta).sum() + np.log(s).sum()
        right += (np.log(1 - z**2 / share) + np.log(share) / 2).sum()  # z = tanh(free) sqrt(share)
        right += (np.arange(D) * np.log(s) - np.log(np.diag(Z))).sum()  # (s, z) -> L
        root = Omega if prior == "paper" else np.eye(K)
        prior_cov = [d[:, None] * (root @ root.T) * d for d in sigma_beta.T]
        mean, precision = dense_conditional(X, Y, alpha, L @ L.T, prior_cov)
        e = np.linalg.solve(np.linalg.cholesky(precision).T, 2 * rng.normal(size=K * D))
        B = mean + e
        constants.append(
            log_prob(program, u=u, v=v, t=T, L_Omega=Omega) - left
            - (log_prob(rows, B=B.reshape(D, K).T, sigma_beta=sigma_beta, L_Omega=Omega, s=s, L_S=Z) - right)
            + (np.linalg.slogdet(precision)[1] - e @ precision @ e) / 2
        )  # fmt: skip
    assert branches == {"up", "wall", "down"}
    assert np.ptp(constants) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["paper", "independent"])
def test_posterior_is_that_of_the_rowwise_program(prior):
    frame, X, Y = sample(x=False)
    alpha = alphas()
    model = FBS("y", "field", prior=prior)
    posterior = model.fit(model.prepare(SurveyDesign(frame, weights="w")), alpha, sampler(2, draws=3000))
    assert posterior.failures == ()
    B, L = (posterior.values[name].reshape(4, 3000, -1, 2) for name in "BL")
    fit = rowwise(X, Y[:, [0, 2]], alpha, prior).sample(chains=4, seed=3, samples=3000, delta=0.99, refresh=0)
    assert fit.divergences.sum() <= 5  # of 12,000: few enough to leave the reference what it is
    M = fit.draws("L")
    for name, ours, theirs in [("B", B, fit.draws("B")), ("Sigma", L @ L.swapaxes(2, 3), M @ M.swapaxes(2, 3))]:
        assert np.abs(z_scores(ours, theirs)).max() < 4, name


@pytest.mark.cmdstan
def test_both_engines_have_the_same_posterior():
    if cmdstan_version() is None:
        pytest.skip("cmdstanpy finds no CmdStan: cmdstanpy.install_cmdstan()")
    model, data, *_ = model_of(2)
    fits = [model.fit(data, alphas(), sampler(7, draws=2000, engine=name)) for name in ("embedded", "cmdstan")]
    assert [f.engine for f in fits] == ["stanli", "cmdstan"] and all(f.failures == () for f in fits)
    for name in "BL":
        one, two = (f.values[name].reshape(4, 2000, -1) for f in fits)
        moving = one.std(axis=(0, 1)) > 0
        assert np.abs(z_scores(one[:, :, moving], two[:, :, moving])).max() < 4


# ---- exact draws


@pytest.mark.slow
@pytest.mark.parametrize("empty_cell", [False, True])
@pytest.mark.parametrize("D", [1, 2, 3])
def test_coefficients_are_drawn_from_their_conditional(D, empty_cell):
    rng, S = np.random.default_rng(3), 40_000
    model, data, X, Y = model_of(D)
    alpha = alphas(empty_cell=empty_cell)
    R, Z0, S0 = model.sufficient_statistics(data, alpha).reduced()
    L = np.linalg.cholesky(S0 / alpha.sum())
    root = np.stack([d[:, None] * random_corr_factor(rng, 4) for d in rng.uniform(0.2, 2, size=(D, 4))])
    draws = draw_coefficients(R, Z0, np.tile(L, (S, 1, 1)), np.tile(root, (S, 1, 1, 1)), rng)
    mean, precision = dense_conditional(X, Y, alpha, L @ L.T, root @ root.transpose(0, 2, 1))
    moments_agree(draws.transpose(0, 2, 1).reshape(S, -1), mean, np.linalg.inv(precision))


@pytest.mark.slow
@pytest.mark.parametrize("D", [1, 2, 3])
def test_flat_prior_draws_inverse_wishart_and_matrix_normal(D):
    model, data, X, Y = model_of(D, prior="flat")
    alpha = alphas()
    posterior = model.fit(data, alpha, sampler(4, draws=10_000))
    assert posterior.diagnostics.exact and posterior.failures == () and posterior.size == 40_000
    C0 = (X.T * alpha) @ X
    B_hat = np.linalg.solve(C0, (X.T * alpha) @ Y)
    S0 = ((Y - X @ B_hat).T * alpha) @ (Y - X @ B_hat)
    df, B, L = alpha.sum() - 4, posterior.values["B"], posterior.values["L"]
    Sigma = L @ L.transpose(0, 2, 1)
    mean = S0 / (df - D - 1)
    moments_agree(B.transpose(0, 2, 1).reshape(40_000, -1), B_hat.flatten(order="F"), np.kron(mean, np.linalg.inv(C0)))
    i, j = np.triu_indices(D)  # variances of the inverse-Wishart, entry by entry
    c = df - D
    variance = ((c + 1) * S0[i, j] ** 2 + (c - 1) * S0[i, i] * S0[j, j]) / (c * (c - 1) ** 2 * (c - 3))
    z = (Sigma[:, i, j].mean(axis=0) - mean[i, j]) / np.sqrt(variance / 40_000)
    assert np.abs(z).max() < 4
    e = (B - B_hat) / np.sqrt(np.outer(np.diag(np.linalg.inv(C0)), np.diag(S0) / (df - D + 1)))
    assert min(kstest(e[:, a, d], t(df - D + 1).cdf).pvalue for a in range(4) for d in range(D)) > 1e-4


@pytest.mark.slow
def test_flat_prior_intervals_cover():
    """With public weights and alpha = 1 the credible intervals are the t intervals: 95% means 95%."""
    frame, X, _ = sample(n=12, weights=False)
    model = FBS("y", "field + x", prior="flat")
    data = model.prepare(SurveyDesign(frame, weights="w"))
    rng, inside = np.random.default_rng(8), []
    for _ in range(500):
        Y = X @ EFFECT[:, :1] + rng.normal(size=(12, 1))
        B = model.fit(with_values(data, Y), np.ones(12), Sampler(Stop, rng, 1, 0, 1000)).values["B"]
        low, high = np.quantile(B, [0.025, 0.975], axis=0)
        inside.append((low < EFFECT[:, :1]) & (high > EFFECT[:, :1]))
    assert np.abs(np.mean(inside, axis=0) - 0.95).max() < 4 * np.sqrt(0.05 * 0.95 / 500)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["flat", "paper"])
def test_collinear_predictors_change_nothing(prior):
    """The cell means, which are all that two such files identify, have the posterior of the model without the copy."""
    frame, *_ = sample(x=False)
    design = SurveyDesign(frame.assign(twin=frame["field"].map({"a": "k", "b": "l", "c": "m"})), weights="w")
    means = []
    for predictors in ("field", "field + twin"):
        model = FBS("y", predictors, prior=prior)
        data = model.prepare(design)
        posterior = model.fit(data, alphas(), sampler(6, draws=1000))
        means.append((data.X @ posterior.values["B"]).reshape(4, 1000, -1, 2))
        assert posterior.failures == ()
    assert data.X.shape == (3, 5)
    if prior == "flat":
        assert np.abs(z_scores(*means)).max() < 4
    else:  # the prior counts the twin's coefficients too
        assert np.abs(means[0].mean(axis=(0, 1)) - means[1].mean(axis=(0, 1))).max() < 0.05


@pytest.mark.slow
def test_cell_without_weight():
    """A flat prior knows nothing of it and refuses; a proper one has a posterior there, wide."""
    alpha = alphas(empty_cell=True)
    model, data, *_ = model_of(2, prior="flat")
    with pytest.raises(ModelError, match=r"20 rows \(row numbers 3, 6, 9, 12, 15, \.\.\.; the first row is 1\)"):
        model.fit(data, alpha, sampler())
    posterior = replace(model, prior="independent").fit(data, alpha, sampler())
    spread = (data.X @ posterior.values["B"]).std(axis=0)[data.pattern]
    assert spread[2::3].min() > 10 * np.delete(spread, np.s_[2::3], axis=0).max()


@pytest.mark.parametrize("prior", ["flat", "paper"])
def test_too_little_weight_is_refused(prior):
    model, data, *_ = model_of(2, prior=prior)
    for alpha in (np.zeros(60), np.full(60, 0.05), np.where(np.arange(60) < 4, 1.0, 0.0)):
        with pytest.raises(ModelError, match="leave too little of the file to fit"):
            model.fit(data, alpha, sampler())


# ---- what the likelihood knows of the records


def test_statistics_are_sums_over_records():
    model, data, X, Y = model_of(3)
    alpha = alphas()
    s = model.sufficient_statistics(data, alpha)
    by_hand = alpha.sum(), (X.T * alpha) @ X, (X.T * alpha) @ Y, (Y.T * alpha) @ Y
    for name, expected in zip(("A", "C0", "P", "Q"), by_hand, strict=True):
        np.testing.assert_allclose(getattr(s, name), expected, rtol=1e-12, atol=1e-10)
    R, Z0, S0 = s.reduced()
    B_hat = np.linalg.lstsq(np.sqrt(alpha)[:, None] * X, np.sqrt(alpha)[:, None] * Y)[0]
    np.testing.assert_allclose(R.T @ R, by_hand[1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(Z0, R @ B_hat, rtol=1e-8)
    np.testing.assert_allclose(S0, ((Y - X @ B_hat).T * alpha) @ (Y - X @ B_hat), rtol=1e-8)


@pytest.mark.parametrize(("unit", "origin"), [(1e7, 0), (1e-7, 0), (1, 2000), (100, 2e5)])
def test_units_and_origins_of_predictors_do_not_matter(unit, origin):
    """A year or an amount in cents is no repetition of the intercept: the rank and the fit are the same."""
    frame, X, Y = sample()
    model, alpha = FBS("y", "field + x", prior="flat"), alphas()
    data = model.prepare(SurveyDesign(frame.assign(x=origin + unit * frame["x"]), weights="w"))
    R, Z0, S0 = model.sufficient_statistics(data, alpha).reduced()
    root, Y = np.sqrt(alpha)[:, None], Y[:, [0, 2]]
    B_hat = np.linalg.lstsq(root * X, root * Y)[0]
    assert len(R) == 4
    np.testing.assert_allclose((data.X @ np.linalg.pinv(R) @ Z0)[data.pattern], X @ B_hat, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(S0, (root * (Y - X @ B_hat)).T @ (root * (Y - X @ B_hat)), rtol=1e-4)
    assert np.isfinite(model.fit(data, alpha, sampler(1, draws=10)).values["B"]).all()


FRAME = sample()[0]


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), factor=st.floats(1e-3, 1e6), twice=st.integers(0, 59))
def test_order_duplicates_and_scale_of_weights_do_not_matter(seed, factor, twice):
    rng = np.random.default_rng(seed)
    model, alpha = FBS("y", "field + x"), rng.uniform(size=60)

    def statistics(frame, alpha, log_weight=0.0):
        data = model.prepare(SurveyDesign(frame, weights="w"))
        return model.sufficient_statistics(with_values(data, data.Y + np.array([0, log_weight])), alpha)

    def same(a, b):
        for name in ("A", "C0", "P", "Q"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9, atol=1e-8)

    reference = statistics(FRAME, alpha)
    order = rng.permutation(60)
    same(statistics(FRAME.iloc[order], alpha[order]), reference)
    same(statistics(FRAME.assign(w=FRAME["w"] * factor), alpha), reference)
    # a record twice is a record with twice its alpha, once the mean weight, which moved, is put back
    longer = pd.concat([FRAME, FRAME.iloc[[twice]]])
    back = np.log(longer["w"].mean() / FRAME["w"].mean())
    heavier = alpha + alpha[twice] * (np.arange(60) == twice)
    same(statistics(longer, np.append(alpha, alpha[twice]), log_weight=back), statistics(FRAME, heavier))


# ---- record densities


def posterior_of(rng, S, D, K=4):
    G = rng.normal(size=(S, D, D)) * 0.2
    L = np.linalg.cholesky(G @ G.transpose(0, 2, 1) + 0.2 * np.eye(D))
    B = EFFECT[:K, [[0], [0, 2], [0, 1, 2]][D - 1]] + rng.normal(size=(S, K, D)) * 0.3
    return Draws({"B": B, "L": L}, np.zeros(S, dtype=np.intp), base.Diagnostics(exact=True), "", "")


def dense_log_density(X, Y, posterior):
    draws = zip(posterior.values["B"], posterior.values["L"], strict=True)
    return np.array([multivariate_normal(np.zeros(Y.shape[1]), L @ L.T).logpdf(Y - X @ B) for B, L in draws])


@pytest.mark.slow
@pytest.mark.parametrize("D", [1, 2, 3])
def test_record_densities_are_those_of_the_stan_program(D):
    """log p(record) is what one record with alpha = 1 adds to the row-by-row program."""
    model, data, X, Y = model_of(D)
    posterior = posterior_of(np.random.default_rng(4), 6, D)
    ours = model.log_density(data.subset(np.arange(60)), posterior)
    stan = np.empty((6, 60))
    programs = [rowwise(X, Y, np.zeros(60), "independent")]
    programs += [rowwise(X[[i]], Y[[i]], np.ones(1), "independent") for i in range(60)]
    for draw in range(6):
        L = posterior.values["L"][draw]
        s, Z = split(L)
        point = {"B": posterior.values["B"][draw], "sigma_beta": np.ones((4, D)), "L_Omega": np.ones((1, 1))}
        nothing, *one = (log_prob(p, **point, s=s, L_S=Z) for p in programs)
        stan[draw] = np.array(one) - nothing
    np.testing.assert_allclose(ours, stan, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.lipschitz(data, posterior), np.abs(stan).max(axis=0), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("S", [1, 511, 512, 1300])
@pytest.mark.parametrize("D", [1, 2, 3])
def test_lipschitz_bound_is_the_largest_absolute_log_density(D, S, blocks, monkeypatch):
    """Whatever the number of draws (worked on in tiles), of records (in chunks) and of patterns (in blocks)."""
    if blocks:
        monkeypatch.setattr(gaussian, "BLOCK_BYTES", 8 * S * D * 7)  # 7 patterns at a time
    rng, n = np.random.default_rng(S), 600
    X = np.column_stack([np.ones(40), rng.normal(size=(40, 3))])
    pattern = rng.integers(0, 40, n)
    posterior = posterior_of(rng, S, D)
    Y = X[pattern] @ posterior.values["B"].mean(axis=0) + rng.normal(size=(n, D))
    dense = dense_log_density(X[pattern], Y, posterior)
    B, L = posterior.values["B"], posterior.values["L"]
    bounds = gaussian.max_abs_log_density(Y, pattern, X, B, L)
    np.testing.assert_allclose(bounds, np.abs(dense).max(axis=0), rtol=1e-11)
    np.testing.assert_allclose(gaussian.log_density(Y, pattern, X, B, L), dense, rtol=1e-10, atol=1e-10)
    order = rng.permutation(n)
    np.testing.assert_array_equal(gaussian.max_abs_log_density(Y[order], pattern[order], X, B, L), bounds[order])


@pytest.mark.parametrize("D", [1, 2])
def test_bound_is_infinite_where_a_density_is_not_finite(D):
    rng = np.random.default_rng(2)
    model, data, *_ = model_of(D)
    posterior = posterior_of(rng, 700, D)
    Y = data.Y.copy()
    Y[3, 0], Y[7, D - 1], Y[11, 0] = np.inf, np.nan, 1e200
    bounds = model.lipschitz(with_values(data, Y), posterior)
    assert set(np.flatnonzero(np.isinf(bounds))) == {3, 7, 11}
    B = posterior.values["B"].copy()
    B[600, 0, D - 1] = np.nan  # one draw of many
    assert np.isinf(model.lipschitz(data, replace(posterior, values=posterior.values | {"B": B}))).all()


@pytest.mark.parametrize("D", [1, 2, 3])
def test_log_likelihood_is_the_weighted_sum_of_log_densities(D):
    rng = np.random.default_rng(6)
    model, data, X, Y = model_of(D)
    posterior = posterior_of(rng, 50, D)
    alpha = rng.normal(size=60)  # differences of alphas have either sign
    expected = dense_log_density(X, Y, posterior) @ alpha
    np.testing.assert_allclose(model.log_likelihood(data, alpha, posterior), expected, rtol=1e-9, atol=1e-8)


# ---- synthesis


@pytest.mark.parametrize("D", [1, 2, 3])
def test_synthetic_data_are_the_model_s_and_weights_their_conditional_mean(D):
    """y~* ~ N(x B_y, Sigma_yy); w~* = E(w~ | y~*), for one outcome x beta_w + rho sigma_w/sigma_y (y~* - x beta_y)."""
    rng = np.random.default_rng(12)
    model, data, X, _ = model_of(D)
    posterior = posterior_of(rng, 3, D)
    B, L = posterior.values["B"][1], posterior.values["L"][1]
    Sigma, d = L @ L.T, max(D - 1, 1)
    draws = [next(model.simulations(data, posterior, [1], rng)) for _ in range(1000)]
    Z = np.array([np.log(s.outcomes) - X @ B[:, :d] for s in draws])
    moments_agree(Z.reshape(-1, d), np.zeros(d), Sigma[:d, :d])
    if D == 1:
        assert all((s.weights == 7.0).all() for s in draws)
        return
    slope = np.linalg.solve(Sigma[:d, :d], Sigma[:d, d])
    if D == 2:
        rho = Sigma[0, 1] / np.sqrt(Sigma[0, 0] * Sigma[1, 1])
        assert slope[0] == pytest.approx(rho * np.sqrt(Sigma[1, 1] / Sigma[0, 0]))
    for z, s in zip(Z, draws, strict=True):
        np.testing.assert_allclose(s.weights, np.exp(X @ B[:, d] + z @ slope), rtol=1e-10)


def test_several_outcomes_from_file_to_release():
    """Two outcomes of different scales: the release keeps their means, spreads and correlation."""
    frame, *_ = sample(n=3000, x=False)
    frame = frame.assign(h=np.log(frame["h"]) * 10)
    model = FBS(["y", "h"], "field", prior="flat", transform={"y": "log", "h": IdentityTransform(scale=10)})
    release = synthesize(SurveyDesign(frame, weights="w"), model, epsilon=1e6, m=2, seed=1, mechanism=PSEUDO)
    assert len(release.datasets) == 2
    for design in release.datasets:
        synthetic = design.frame
        assert sorted(synthetic["field"]) == sorted(frame["field"])
        for cell in "abc":
            a, b = (f.loc[f["field"] == cell] for f in (frame, synthetic))
            a, b = (np.column_stack([np.log(f["y"]), f["h"] / 10]) for f in (a, b))
            # both are samples of 1,000: means, log variances and correlations differ by their sampling error
            assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 5 * a.std(axis=0) * np.sqrt(2 / 1000)).all()
            assert (np.abs(np.log(a.var(axis=0) / b.var(axis=0))) < 5 * np.sqrt(4 / 1000)).all()
            gap = np.arctanh(np.corrcoef(a.T)[0, 1]) - np.arctanh(np.corrcoef(b.T)[0, 1])
            assert abs(gap) < 5 * np.sqrt(2 / 1000)
