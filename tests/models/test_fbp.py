"""FBP against the row-by-row program of Hu, Savitsky & Williams (2022a), its eq. 6, and populations that obey it."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rowwise import EFFECT, alphas, collapsed, log_prob, moments_agree, reference, sample, sampler, z_scores
from scipy.stats import multivariate_normal, norm

from surveysynth import FBP, FBS, InputError, SurveyDesign
from surveysynth.engines import Diagnostics
from surveysynth.models.draws import Draws
from surveysynth.models.normal.fbp import to_population, to_sample

E = np.array([1.0, 0, 0, 0])  # X E = 1
BANDED = {"bands": {"x": [0.0]}}


def model_of(D, **options):
    """FBP of D columns with what it fits to: (model, data, X, Y by hand); log pi is minus the last column."""
    frame, X, Y = sample(weights=D > 1)
    outcome, prior = (["y", "h"], "flat") if D == 3 else ("y", "paper")
    model = FBP(outcome, "field + x", **(BANDED | {"prior": prior} | options))
    return model, model.prepare(SurveyDesign(frame, weights="w")), X, Y[:, [[0], [0, 2], [0, 1, 2]][D - 1]]


def rowwise(X, Y, alpha):
    (n, K), D = X.shape, Y.shape[1]
    log_pi = -Y[:, 1] if D == 2 else np.zeros(n)
    return reference("fbp_rowwise.stan", n=n, K=K, weighted=D - 1, X=X, y=Y[:, 0], log_pi=log_pi, alpha=alpha)


def parameters(rng, S, d):
    """S random points: beta (S, K, d), L_y (S, d, d), kappa_y (S, d), kappa_x (S, K), sigma_pi (S,)."""
    G = 0.3 * rng.normal(size=(S, d, d))
    L_y = np.linalg.cholesky(G @ G.transpose(0, 2, 1) + 0.2 * np.eye(d))
    beta = EFFECT[:, :d] + 0.3 * rng.normal(size=(S, 4, d))
    kappa_y, kappa_x = 0.6 * rng.normal(size=(S, d)), rng.normal(size=(S, 4))
    return beta, L_y, kappa_y, kappa_x, rng.uniform(0.3, 0.8, S)


def equation_6(X, y, log_pi, beta, sigma_y, kappa_y, kappa_x, sigma_pi):
    """The logarithm of eq. 6 as it is printed, for n records: (n,)."""
    eta, mu = X @ kappa_x, X @ beta
    return (
        norm.logpdf(log_pi, kappa_y * y + eta, sigma_pi)
        - (eta + sigma_pi**2 / 2 + kappa_y * mu + kappa_y**2 * sigma_y**2 / 2)
        + norm.logpdf(y, mu, sigma_y)
    )


def draws_of(beta, L_y, kappa_y, kappa_x, sigma_pi):
    """A posterior that consists of these points."""
    B, L = to_sample(beta, L_y, kappa_y, kappa_x, sigma_pi, E)
    return Draws({"B": B, "L": L}, np.zeros(len(B), dtype=np.intp), Diagnostics(exact=True), "", "")


# ---- the collapsed program


@pytest.mark.parametrize(("D", "empty_cell"), [(1, False), (1, True), (2, False), (2, True)])
def test_collapsed_density_is_the_rowwise_density_with_coefficients_integrated_out(D, empty_cell):
    """log p(rest | data) = log p(beta, kappa_x, rest | data) - log p(beta, kappa_x | rest, data) up to one constant."""
    rng = np.random.default_rng(21)
    model, data, X, Y = model_of(D)
    alpha = alphas(empty_cell=empty_cell)
    program, given = collapsed(model, data, alpha)
    rows = rowwise(X, Y, alpha)
    assert given["rank"] == 4 - empty_cell and (alpha == 0).sum() >= 5
    A, C0, u_x = alpha.sum(), (X.T * alpha) @ X, X.T @ alpha
    T = Y * [1, -1][:D]  # y~ and log pi
    c = (X.T * alpha) @ T
    e = T - X @ np.linalg.lstsq(np.sqrt(alpha)[:, None] * X, np.sqrt(alpha)[:, None] * T)[0]
    S = (e.T * alpha) @ e
    kappa_hat = (S[0, 1:] / S[0, 0]).reshape(D - 1)
    sigma_hat = np.sqrt(np.append(S[0, 0], S[1:, 1:].diagonal() - kappa_hat * S[0, 1:]) / A)
    constants = []
    for _ in range(25):
        u, k = 2 * rng.normal(size=D), 2 * rng.normal(size=D - 1)
        sigma = sigma_hat * np.exp(u / np.sqrt(2 * A))
        kappa_y = kappa_hat + k * sigma_hat[-1] / np.sqrt(S[0, 0])
        point = {"beta": c[:, 0] / sigma[0] ** 2 - u_x * kappa_y.sum()}  # their conditionals' linear terms
        if D == 2:
            point["kappa_x"] = (c[:, 1] - kappa_y * c[:, 0]) / sigma[1] ** 2 - u_x
        conditional = 0.0
        for (name, linear), sd in zip(point.items(), sigma, strict=True):
            precision = C0 / sd**2 + np.eye(4) / 100
            off = np.linalg.solve(np.linalg.cholesky(precision).T, 2 * rng.normal(size=4))
            point[name] = np.linalg.solve(precision, linear) + off
            conditional += (np.linalg.slogdet(precision)[1] - off @ precision @ off) / 2
        values = {"kappa_x": np.empty(0)} | point | {"sigma_y": sigma[0], "sigma_pi": sigma[1:], "kappa_y": kappa_y}
        constants.append(
            log_prob(program, u=u, k=k) - u.sum() / np.sqrt(2 * A)  # Jacobian u -> sigma, but for a constant
            - (log_prob(rows, **values) - np.log(sigma).sum()) + conditional
        )  # fmt: skip
    assert np.ptp(constants) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("empty_cell", [False, True])
@pytest.mark.parametrize("D", [1, 2])
def test_posterior_is_that_of_the_rowwise_program(D, empty_cell):
    frame, X, Y = sample(x=False, weights=D == 2)
    frame["y"] /= np.exp(11)  # far from 0, kappa_y and kappa_x are a ridge that the row-by-row program hardly climbs
    Y[:, 0] -= 11
    Y, alpha = Y[:, [0, 2][:D]], alphas(empty_cell=empty_cell)
    model = FBP("y", "field")
    posterior = model.fit(model.prepare(SurveyDesign(frame, weights="w")), alpha, sampler(2, draws=2000))
    assert posterior.failures == ()
    # the parameters of the population from the moments of (y~, log pi)
    B, L = posterior.values["B"] * [1, -1][:D], posterior.values["L"]
    Sigma = L @ L.transpose(0, 2, 1) * np.outer([1, -1], [1, -1])[:D, :D]
    s, e = Sigma[:, 0, 0], E[:3]
    ours = {"beta": B[:, :, 0], "sigma_y": np.sqrt(s)}
    if D == 2:
        kappa_y = Sigma[:, 0, 1] / s
        variance = Sigma[:, 1, 1] - kappa_y * Sigma[:, 0, 1]
        ours["beta"] = B[:, :, 0] - np.outer(kappa_y * s, e)
        ours["kappa_x"] = B[:, :, 1] - kappa_y[:, None] * B[:, :, 0] - np.outer(variance, e)
        ours |= {"kappa_y": kappa_y, "sigma_pi": np.sqrt(variance)}
    fit = rowwise(X, Y, alpha).sample(chains=4, seed=3, samples=2000, refresh=0)
    assert fit.divergences.sum() == 0
    for name, draws in ours.items():
        z = z_scores(draws.reshape(4, 2000, -1), fit.draws(name))
        assert np.abs(z).max() < 4, name


# ---- equation 6 and the identity


def population_density(X, y, log_pi, beta, L_y, kappa_y, kappa_x, sigma_pi):
    """log of p(y, log pi | x) pi / E(pi | x) over pi, as eq. 6 is meant, E by Gauss-Hermite quadrature: (n,)."""
    node, weight = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(*[node] * y.shape[1], indexing="ij"), axis=-1).reshape(-1, y.shape[1])
    share = np.prod(np.stack(np.meshgrid(*[weight / weight.sum()] * y.shape[1], indexing="ij")), axis=0).ravel()
    eta, mu = X @ kappa_x, X @ beta
    mean_pi = np.exp((mu[:, None] + grid @ L_y.T) @ kappa_y + eta[:, None] + sigma_pi**2 / 2) @ share
    population = multivariate_normal(np.zeros(y.shape[1]), L_y @ L_y.T).logpdf(y - mu)
    return norm.logpdf(log_pi, y @ kappa_y + eta, sigma_pi) + population - np.log(mean_pi)


@pytest.mark.parametrize("d", [1, 2])
def test_equation_6_is_the_normal_density_of_outcomes_and_log_pi_over_pi(d):
    rng = np.random.default_rng(4)
    *_, X, Y = model_of(d + 1)
    y, log_pi = Y[:, :d], -Y[:, d]
    for point in zip(*parameters(rng, 25, d), strict=True):
        B, L = (v[0] for v in to_sample(*(np.asarray(p)[None] for p in point), E))
        assert (np.triu(L, 1) == 0).all() and (np.diag(L) > 0).all()
        ours = multivariate_normal(np.zeros(d + 1), L @ L.T).logpdf(Y - X @ B) - log_pi
        np.testing.assert_allclose(ours, population_density(X, y, log_pi, *point), rtol=1e-10, atol=1e-10)
        if d == 1:
            beta, L_y, kappa_y, *rest = point
            printed = equation_6(X, y[:, 0], log_pi, beta[:, 0], L_y[0, 0], kappa_y[0], *rest)
            np.testing.assert_allclose(ours, printed, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("intercept", [E, np.array([0.25, 0.75, 0.5, 0.0])])
def test_one_set_of_parameters_is_the_other(d, intercept):
    points = parameters(np.random.default_rng(5), 20, d)
    B, L = to_sample(*points, intercept)
    for s, point in enumerate(zip(*points, strict=True)):
        for ours, expected in zip(to_population(B[s], L[s], intercept, d), point, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)
    beta, L_y, *zero = to_population(B[0, :, :d], L[0, :d, :d], intercept, d)  # without a weight nothing is tilted
    np.testing.assert_array_equal(beta, B[0, :, :d])
    np.testing.assert_array_equal(L_y, L[0, :d, :d])
    assert not any(np.any(z) for z in zero)


@pytest.mark.parametrize("D", [1, 2, 3])
def test_record_densities_are_equation_6(D):
    """And with them the risks and the log likelihood; y alone has a density where the weight is public (eq. 4)."""
    rng = np.random.default_rng(6)
    model, data, X, Y = model_of(D)
    d = max(D - 1, 1)
    points = parameters(rng, 30, d)
    posterior = draws_of(*points)
    if D == 1:
        values = {"B": points[0], "L": points[1]}
        posterior = replace(posterior, values=values)
        expected = np.array([
            norm.logpdf(Y[:, 0], X @ beta[:, 0], L_y[0, 0]) for beta, L_y in zip(*points[:2], strict=True)
        ])  # fmt: skip
    else:
        points = zip(*points, strict=True)
        expected = np.array([population_density(X, Y[:, :d], -Y[:, d], *point) for point in points])
    records = rng.permutation(60)[:40]
    np.testing.assert_allclose(
        model.log_density(data.subset(records), posterior), expected[:, records], rtol=1e-10, atol=1e-9
    )
    np.testing.assert_allclose(model.lipschitz(data, posterior), np.abs(expected).max(axis=0), rtol=1e-10, atol=1e-9)
    alpha = rng.normal(size=60)  # differences of alphas have either sign
    np.testing.assert_allclose(model.log_likelihood(data, alpha, posterior), expected @ alpha, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("D", [1, 2, 3])
def test_flat_prior_has_the_posterior_of_fbs(D):
    """p(B, Sigma) ~ |Sigma|^-(D+1)/2 in FBS's parameters, and eq. 6 differs from FBS's density by a constant factor."""
    model, data, *_ = model_of(D, prior="flat")
    fbs = FBS(model.outcome, model.predictors, prior="flat")
    ours, theirs = (m.fit(data, alphas(), sampler(7, draws=50)).values for m in (model, fbs))
    for name in "BL":
        np.testing.assert_array_equal(ours[name], theirs[name])


# ---- synthesis


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["full", "paper"])
@pytest.mark.parametrize("d", [1, 2])
def test_synthetic_outcomes_are_the_population_s_and_weights_what_selection_leaves(d, weights):
    """y~* ~ N(x beta, Sigma_y); w* ~ exp(-kappa_y y~* - x kappa_x), or without x kappa_x; files carry cell means."""
    rng = np.random.default_rng(8)
    model, data, X, _ = model_of(d + 1, weights=weights, variance="paper" if weights == "paper" else "stratified")
    points = parameters(rng, 3, d)
    beta, L_y, kappa_y, kappa_x, _ = (p[1] for p in points)
    draws = [next(model.simulations(data, draws_of(*points), [1], rng)) for _ in range(1000)]
    Y = np.array([np.log(s.outcomes) for s in draws])
    moments_agree((Y - X @ beta).reshape(-1, d), np.zeros(d), L_y @ L_y.T)
    cell = 2 * X[:, 1:3] @ [1, 2] + (X[:, 3] >= 0)
    for y, s in zip(Y[:50], draws[:50], strict=True):
        expected = -y @ kappa_y - (X @ kappa_x if weights == "full" else 0)
        assert np.ptp(np.log(s.count_weights) - expected) < 1e-9
        assert s.stratified_counts == (weights == "full")
        for c in np.unique(cell):
            np.testing.assert_allclose(s.weights[cell == c], s.count_weights[cell == c].mean(), rtol=1e-12)


def test_a_public_weight_is_kept():
    model, data, X, _ = model_of(1)
    beta, L_y, *_ = points = parameters(np.random.default_rng(9), 2, 1)
    posterior = replace(draws_of(*points), values={"B": beta, "L": L_y})
    s = [next(model.simulations(data, posterior, [0], np.random.default_rng(k))) for k in range(1000)]
    moments_agree(np.array([np.log(x.outcomes) - X @ beta[0] for x in s]).reshape(-1, 1), [0], L_y[0] @ L_y[0].T)
    assert all((x.weights == 7.0).all() and x.count_weights is None for x in s)
    assert "only the outcome is modelled" in " ".join(model.assumptions(data))


def test_outcomes_are_unbiased_for_the_population_where_those_of_fbs_are_for_the_sample():
    """A population that obeys eq. 4-5, sampled with probability pi: y is selected upwards by kappa_y sigma_y^2."""
    rng = np.random.default_rng(10)
    N, mean, kappa_y, spread = 150_000, np.array([10.0, 10.5, 11.0]), 0.8, 0.6
    cell = rng.integers(3, size=N)
    y = mean[cell] + spread * rng.normal(size=N)
    log_pi = kappa_y * y + np.array([0.0, 0.5, -1.0])[cell] + 0.4 * rng.normal(size=N)
    log_pi += np.log(6000 / np.exp(log_pi).sum())
    assert log_pi.max() < 0
    drawn = rng.random(N) < np.exp(log_pi)
    frame = pd.DataFrame({"cell": cell.astype(str), "y": np.exp(y), "pi": np.exp(log_pi)})[drawn]
    in_population, in_sample = (np.array([v[c == k].mean() for k in range(3)])
                                for v, c in ((y, cell), (y[drawn], cell[drawn])))  # fmt: skip
    design = SurveyDesign(frame, probs="pi")
    for model, expected in ((FBP("y", "cell"), in_population), (FBS("y", "cell", prior="flat"), in_sample)):
        data = model.prepare(design)
        posterior = model.fit(data, np.ones(design.n), sampler(11, draws=500))
        synthetic = [
            np.log(next(model.simulations(data, posterior, [s], rng)).outcomes[:, 0]) for s in range(0, 2000, 10)
        ]
        means = np.array([[z[data.pattern == k].mean() for k in range(3)] for z in synthetic])
        # one mean is off by the posterior's error and its own n_c records'; the average of 200 by the first at most
        assert (np.abs(means.mean(axis=0) - expected) < 4 * means.std(axis=0)).all()
    assert (in_sample - in_population > 10 * means.std(axis=0)).all()


# ---- cells, and what the model refuses


def aged(n=600):
    frame, *_ = sample(n, seed=2, x=False)
    return frame.assign(age=np.linspace(18, 90, n).round(1), year=2000 + np.arange(n) % 5)


def test_a_predictor_of_many_values_needs_public_bands():
    design = SurveyDesign(aged(), weights="w")
    with pytest.raises(InputError, match=r"'age' has more than 50 different values.*bands=\{'age': \[...\]\}"):
        FBP("y", "field + age", prior="flat").prepare(design)
    model = FBP("y", "field + age", prior="flat", bands={"age": [30, 65]})
    data = model.prepare(design)
    band = (aged()["age"] >= 30).astype(int) + (aged()["age"] >= 65)  # a limit belongs to the band above
    expected = aged().groupby(["field", band]).ngroup()
    assert pd.crosstab(data.cell, expected).astype(bool).sum().eq(1).all() and data.cell.max() == 8
    assert len(data.X) == 600  # the model itself knows the age
    said = " ".join(model.assumptions(data))
    assert "the limits that group age into cells are public: 30, 65; within a band records weigh the same" in said
    few = FBP("y", "field + year", prior="flat")  # five values make cells by themselves
    assert few.prepare(design).cell.max() == 14


def test_a_stratum_is_a_label_also_where_it_is_one_of_many_numbers():
    frame = aged().assign(stratum=np.arange(600) % 60)
    model = FBP("y", "stratum", prior="flat")
    assert model.prepare(SurveyDesign(frame, weights="w", strata="stratum")).cell.max() == 59
    with pytest.raises(InputError, match="'stratum' has more than 50"):
        model.prepare(SurveyDesign(frame, weights="w"))


@pytest.mark.parametrize(
    ("bands", "match"),
    [({"age": []}, "limits of 'age' must be numbers in rising order"), ({"age": [65, 30]}, "rising order"),
     ({"age": [30, 30]}, "rising order"), ({"age": [30, np.nan]}, "rising order"), ({"age": ["x"]}, "rising order"),
     ({"age": "30"}, "rising order"), ({"age": 30}, "rising order"), ({"age": [True, 2]}, "rising order"),
     ({"h": [1]}, "'h' is not a predictor"), (None, "bands must map"), ([30], "bands must map")],
    ids=str,
)  # fmt: skip
def test_limits_are_checked(bands, match):
    with pytest.raises(InputError, match=match):
        FBP("y", "field + age", bands=bands)


@pytest.mark.parametrize("limits", [[30], (30.5, 65), np.array([30, 65]), [np.float64(30)]], ids=str)
def test_limits_of_any_kind(limits):
    data = FBP("y", "age", prior="flat", bands={"age": limits}).prepare(SurveyDesign(aged(), weights="w"))
    assert data.cell.max() == len(limits)


@pytest.mark.parametrize("predictors", ["age - 1", "0 + age"])
def test_a_formula_without_an_intercept_is_refused(predictors):
    model = FBP("y", predictors, prior="flat", bands={"age": [30]})
    with pytest.raises(InputError, match=re.escape(f"FBP needs an intercept, which the formula {predictors!r}")):
        model.prepare(SurveyDesign(aged(), weights="w"))
    every_level = FBP("y", "0 + field", prior="flat").prepare(SurveyDesign(aged(), weights="w"))
    np.testing.assert_allclose(every_level.X @ every_level.intercept, 1)  # the levels add up to one


@pytest.mark.parametrize(
    ("options", "match"),
    [({"outcome": ["y", "h"]}, "the paper's prior of FBP is for one numeric outcome; else use prior='flat'"),
     ({"prior": "independent"}, "prior='independent' is not one of paper, flat"),
     ({"weights": "raw"}, "weights='raw' is not one of full, paper"),
     ({"variance": "none"}, "variance='none' is not one of stratified, paper"),
     ({"predictors": "field + y"}, "outcome cannot be a predictor")],
    ids=str,
)  # fmt: skip
def test_unknown_settings_are_refused(options, match):
    with pytest.raises(InputError, match=match):
        FBP(**({"outcome": "y", "predictors": "field"} | options))


def test_the_paper_s_setting():
    paper, ours = FBP.paper("y", "field", prior="flat"), FBP("y", "field")
    assert (paper.weights, paper.variance, paper.prior, paper.as_in_paper) == ("paper", "paper", "flat", True)
    assert (ours.weights, ours.variance, ours.prior, ours.as_in_paper) == ("full", "stratified", "paper", False)
    data = paper.prepare(SurveyDesign(aged(), weights="w"))
    for model, form, strata in (
        (paper, "exp(-kappa_y y~), the form of the paper", "without strata, as in the paper"),
        (ours, "exp(-kappa_y y~ - x kappa_x)", "by stratum"),
    ):
        said = " ".join(model.assumptions(data))
        assert form in said and f"smoothed weights, {strata}" in said
        assert "a weight that was calibrated or adjusted for nonresponse is not quite that" in said
