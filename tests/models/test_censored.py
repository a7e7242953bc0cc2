"""Censored fits of FBS and FBP against row-by-row clamped sums, uncensored fits, and what the clamp does at large n."""

import numpy as np
import pandas as pd
import pytest
import stanli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rowwise import Capture, Stop, alphas, sample, sampler, z_scores
from scipy.optimize import approx_fprime, minimize
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student_t

from surveysynth import FBP, FBS, ModelError, SurveyDesign
from surveysynth.engines import base
from surveysynth.models.corrections.clamp_correction import uncensored, uncensored_tilted, variance_factor
from surveysynth.models.draws import Sampler
from surveysynth.models.normal import censored_fit as censored

NEVER = 1e9  # a clamp that nothing reaches


def program(model, data, alpha, bound):
    """What a censored fit samples: the program and its data."""
    engine = Capture()
    with pytest.raises(Stop):
        model.censored(data, alpha, bound, Sampler(lambda: engine, np.random.default_rng(0)))
    path = base.program_path(engine.program)
    return stanli.Model(stan_file=str(path), data=engine.data, include_paths=[str(path.parent)]), engine.data


def prepared(model, n=60, **settings):
    frame, X, Y = sample(n=n, **settings)
    return model.prepare(SurveyDesign(frame, weights="w")), X, Y


def clamped(X, Y, alpha, B, L, bound, tilt=False):
    """sum_i clamp(alpha_i log p_i), a record at a time."""
    Sigma, total = L @ L.T, 0.0
    for x, y, a in zip(X, Y, alpha, strict=True):
        log_p = multivariate_normal.logpdf(y, x @ B, Sigma) + (y[-1] if tilt else 0.0)
        total += min(max(a * log_p, -bound), bound)
    return total


def triangle(v, at, D):
    M = np.zeros((D, D))
    M[np.tril_indices(D, -1)] = v
    return M + np.diag(at)


def fbs_point(theta, given, D, K):
    """B and L of the program's coordinates u, v, z under prior "normal", by its definition."""
    u, v, z = np.split(theta, [D, D + D * (D - 1) // 2])
    A, L_hat = given["A"], given["L_hat"]
    L = L_hat @ triangle(v / np.sqrt(A), np.exp(u / np.sqrt(2 * A)), D)
    Q = np.linalg.inv(L @ L.T)
    precision = np.eye(K * D) + 100 * np.kron(Q, given["C0"])
    C = np.linalg.cholesky(precision)
    h = 10 * (given["P"] @ Q).flatten(order="F")
    b = np.linalg.solve(precision, h) + np.linalg.solve(C.T, z)
    return 10 * b.reshape(D, K).T, L


def free(B, L):
    return np.concatenate([B.ravel(), L[np.tril_indices(len(L))]])


def fbs_log_prior(B, L):
    """B ~ N(0, 100); scales half-t(3, 0, 10); correlation LKJ(6), as a density of L."""
    D, s = len(L), np.linalg.norm(L, axis=1)
    R = L / s[:, None]
    lkj = sum((D - i + 2 * 6 - 2 - 1) * np.log(R[i, i]) for i in range(1, D))  # of the Cholesky factor of Omega
    to_L = sum(np.log(R[i, i]) - i * np.log(s[i]) for i in range(D))  # (s, free entries of R) -> L
    return norm.logpdf(B, 0, 10).sum() + student_t.logpdf(s / 10, 3).sum() + lkj + to_L


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 240])  # one row of predictors a record: all at once; many records a row: by row
@pytest.mark.parametrize("D", [1, 2, 3])
def test_fbs_target_is_the_row_by_row_clamped_sum(D, n):
    model = FBS(["y", "h"] if D == 3 else "y", "field + x" if n == 60 else "field", prior="normal")
    data, X, Y = prepared(model, n, x=n == 60, weights=D > 1)
    Y, alpha, bound = Y[:, [[0], [0, 2], [0, 1, 2]][D - 1]], alphas(n), 1.2
    target, given = program(model, data, alpha, bound)
    assert (20 * given["G"] < given["n"]) == (n == 240)
    K, rng, constants, at_clamp = X.shape[1], np.random.default_rng(4), [], 0
    for _ in range(100):
        theta = rng.normal(size=D + D * (D - 1) // 2 + K * D) * rng.choice([0.5, 1, 3])
        B, L = fbs_point(theta, given, D, K)
        jacobian = approx_fprime(theta, lambda t: free(*fbs_point(t, given, D, K)), 1e-7)
        expected = fbs_log_prior(B, L) + np.linalg.slogdet(jacobian)[1] + clamped(X, Y, alpha, B, L, bound)
        at_clamp += clamped(X, Y, alpha, B, L, bound) != clamped(X, Y, alpha, B, L, NEVER)
        constants.append(target.log_prob_grad(theta)[0] - expected)
    assert at_clamp > 50
    np.testing.assert_allclose(constants, constants[0], atol=2e-4)  # finite differences


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["paper", "independent"])
def test_the_clamp_is_all_that_differs_under_the_other_priors(prior):
    """With and without a clamp the target differs by the clamped sum less the sum, whatever the prior."""
    model = FBS("y", "field + x", prior=prior)
    data, *_ = prepared(model)
    alpha, rng = alphas(), np.random.default_rng(3)
    target, given = program(model, data, alpha, 1.2)
    path = base.program_path("fbs_censored")
    without = stanli.Model(stan_file=str(path), data=given | {"bound": NEVER}, include_paths=[str(path.parent)])
    dimension = 3 + 8 + (6 if prior == "paper" else 0) + 8
    points = []
    for _ in range(100):
        theta = rng.normal(size=dimension)
        points.append(target.log_prob_grad(theta)[0] - without.log_prob_grad(theta)[0])
    assert np.ptp(points) > 1
    # the same points under a clamp twice as wide lie between, record by record
    wider = stanli.Model(stan_file=str(path), data=given | {"bound": 2.4}, include_paths=[str(path.parent)])
    rng = np.random.default_rng(3)
    for point in points:
        theta = rng.normal(size=dimension)
        assert -1e-9 <= wider.log_prob_grad(theta)[0] - without.log_prob_grad(theta)[0] <= point + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("weights", [True, False])
def test_fbp_target_is_the_row_by_row_clamped_sum_of_equation_6(weights):
    """Given (beta, kappa, sigma), what the clamp takes off is what it takes off eq. 6 record by record."""
    model = FBP("y", "field")
    data, X, Y = prepared(model, 240, x=False, weights=weights)
    Y, alpha, bound = Y[:, [0, 2] if weights else [0]], alphas(240), 1.2
    target, given = program(model, data, alpha, bound)
    path = base.program_path("fbp_censored")
    without = stanli.Model(stan_file=str(path), data=given | {"bound": NEVER}, include_paths=[str(path.parent)])
    D, K, A, S = Y.shape[1], X.shape[1], given["A"], given["S"]
    sigma_hat = np.sqrt([S[0, 0] / A, *([(S[1, 1] - S[0, 1] ** 2 / S[0, 0]) / A] if weights else [])])
    root, rng = given["root"], np.random.default_rng(4)
    for _ in range(100):
        theta = rng.normal(size=D + D - 1 + K * D) * rng.choice([0.5, 1, 3])
        u, k, z = np.split(theta, [D, D + D - 1])
        z = z.reshape(D, K).T
        sigma = sigma_hat * np.exp(u / np.sqrt(2 * A))
        kappa = S[0, 1] / S[0, 0] + k[0] * sigma_hat[1] / np.sqrt(S[0, 0]) if weights else 0.0

        def coefficients(least_squares, sd, z):
            precision = 1 / sd**2 + 1 / (100 * root**2)
            return given["X"] @ (least_squares / sd**2 / precision + z / np.sqrt(precision))

        Z, v = given["Z"], given["v"]
        mean_y = coefficients(Z[:, 0] - kappa * sigma[0] ** 2 * v, sigma[0], z[:, 0])[data.pattern]
        log_p = norm.logpdf(Y[:, 0], mean_y + (kappa * sigma[0] ** 2 if weights else 0), sigma[0])
        if weights:  # eq. 6, with log pi = -w~
            x_kappa = coefficients(Z[:, 1] - kappa * Z[:, 0] - sigma[1] ** 2 * v, sigma[1], z[:, 1])[data.pattern]
            log_pi = -Y[:, 1]
            selected = x_kappa + sigma[1] ** 2 / 2 + kappa * mean_y + kappa**2 * sigma[0] ** 2 / 2
            log_p = norm.logpdf(log_pi, kappa * Y[:, 0] + x_kappa, sigma[1]) - selected
            log_p += norm.logpdf(Y[:, 0], mean_y, sigma[0])
        term = alpha * log_p
        difference = np.clip(term, -bound, bound).sum() - term.sum()
        assert target.log_prob_grad(theta)[0] - without.log_prob_grad(theta)[0] == pytest.approx(difference, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", [FBS("y", "field"), FBS("y", "field", prior="normal"), FBP("y", "field")])
def test_without_a_clamp_the_posterior_is_the_collapsed_one(model):
    """Priors and Jacobians: B and Sigma explicit, or integrated out, are one posterior."""
    data, _, _ = prepared(model, x=False)
    alpha = alphas()
    moments = []
    for fit in (
        model.fit(data, alpha, sampler(draws=3000)),
        model.censored(data, alpha, NEVER, sampler(2, draws=3000)),
    ):
        assert not fit.failures
        v = fit.values
        draws = np.column_stack([v["B"].reshape(len(v["B"]), -1), v["L"][:, *np.tril_indices(2)]])
        moments.append(draws.reshape(4, 3000, -1))
    assert np.abs(z_scores(*moments)).max() < 4.5


FIXTURES = [HealthCheck.function_scoped_fixture]


@pytest.mark.slow
@settings(derandomize=True, max_examples=5, deadline=None, suppress_health_check=FIXTURES)
@given(seed=st.integers(0, 2**31))
def test_the_order_of_records_does_not_matter_and_same_ones_count_twice(monkeypatch, seed):
    frame, *_ = sample(n=60, x=False)
    twice = pd.concat([frame, frame]).sample(frac=1, random_state=seed)
    model, theta = FBS("y", "field", prior="normal"), np.random.default_rng(seed).normal(size=9)
    values = []
    monkeypatch.setattr(censored, "_separated", lambda *modes: False)  # the target of a file that is refused, too
    for some in (pd.concat([frame, frame]), twice):
        data = model.prepare(SurveyDesign(some, weights="w"), "model", 3.0)
        target, given = program(model, data, np.ones(120), 2.0)
        values.append(target.log_prob_grad(theta)[0])
        assert given["n"] == 60 and (given["count"] == 2).all()
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_refusals():
    frame, *_ = sample(n=60, x=False)
    frame["psu"] = np.arange(60) % 20
    with pytest.raises(ModelError, match="not proper"):
        model = FBS("y", "field", prior="flat")
        model.censored(model.prepare(SurveyDesign(frame, weights="w")), np.ones(60), 2.0, sampler())
    model = FBS("y", "field")
    with pytest.raises(ModelError, match="effects are not fitted under the censored"):
        model.censored(model.prepare(SurveyDesign(frame, weights="w", psu="psu")), np.ones(60), 2.0, sampler())
    data = model.prepare(SurveyDesign(frame, weights="w"))
    with pytest.raises(ModelError, match="inside the clamp"):
        model.censored(data, np.ones(60), 1e-4, sampler())


# ---- what the clamp does, and its inverse

SIGMA = np.array([[0.399, 0.0], [0.5 * 0.563, np.sqrt(0.75) * 0.563]])  # L of scales 0.399 and 0.563, correlation 1/2


def limit(Y, bound, tilt, start):
    """The censored estimate of mean and L from very many records: the maximum, found by a general optimizer."""

    def loss(theta):
        L = np.array([[np.exp(theta[2]), 0], [theta[3], np.exp(theta[4])]])
        e = np.linalg.solve(L, (Y - theta[:2]).T)
        log_p = -np.log(2 * np.pi) - theta[2] - theta[4] - (e**2).sum(axis=0) / 2 + (Y[:, 1] if tilt else 0)
        return -np.clip(log_p, -bound, bound).mean()

    mean, L = start
    theta = np.array([*mean, np.log(L[0, 0]), L[1, 0], np.log(L[1, 1])])
    options = {"maxiter": 3000, "xatol": 1e-6, "fatol": 1e-10, "maxfev": 3000}
    theta = minimize(loss, theta, method="Nelder-Mead", options=options).x
    return theta[:2], np.array([[np.exp(theta[2]), 0], [theta[3], np.exp(theta[4])]])


@pytest.mark.slow
@pytest.mark.parametrize("bound", [3.0, 1.8])
@pytest.mark.parametrize("tilt", [False, True])
def test_the_limit_of_the_censored_estimate_is_taken_back_to_the_truth(tilt, bound):
    rng, mean = np.random.default_rng(2), np.array([0.2, -0.1])
    Y = mean + rng.standard_normal((200_000, 2)) @ SIGMA.T
    at, L = limit(Y, bound, tilt, (mean, SIGMA * 0.9))
    shrunk = np.linalg.norm(L, axis=1) / np.linalg.norm(SIGMA, axis=1)
    assert (shrunk < 0.93).all()
    if tilt:
        B, back = uncensored_tilted(at[None, None], L[None], np.ones((1, 1)), np.array([1000.0]), bound)
        assert np.abs(at - mean).max() > 0.02  # the clamp moves the mean, too
        np.testing.assert_allclose(B[0, 0], mean, atol=0.01)
    else:
        back = uncensored(L[None], bound)
        np.testing.assert_allclose(at, mean, atol=0.01)
    np.testing.assert_allclose(back[0] @ back[0].T, SIGMA @ SIGMA.T, rtol=0.03)


def test_a_prototype_agrees_with_the_limit_of_the_clamp():
    """True scales (0.399, 0.563); a censored fit at M = 3 and n = 10,000 gave (0.351, 0.490)."""
    back = uncensored(np.diag([0.351, 0.490])[None], 3.0)[0]
    assert (np.diag(back) / [0.351, 0.490]).tolist() == pytest.approx([back[0, 0] / 0.351] * 2)
    back = uncensored(SIGMA[None] * 0.872, 3.0)[0]
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), [0.399, 0.563], rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("bound", [1.8, 3.0])
def test_means_vary_as_much_as_the_factor_says(bound):
    """Censored estimates of a mean in 200 samples of 400, by a general optimizer: their variance, to 30%.

    The variance of 200 estimates, in two directions, is known to 7%, k and P to about 5% in the mean.
    """
    rng, n = np.random.default_rng(5), 400
    found = [limit(rng.standard_normal((n, 2)) @ SIGMA.T, bound, False, (np.zeros(2), SIGMA * 0.8)) for _ in range(200)]
    spread = np.var([np.linalg.solve(SIGMA, at) for at, _ in found], ddof=1)  # 1 / n without a clamp
    L = np.array([L for _, L in found])
    own = np.mean([np.trace(np.linalg.solve(SIGMA, x) @ np.linalg.solve(SIGMA, x).T) / 2 for x in L])
    assert spread * n == pytest.approx(variance_factor(L, bound, corrected=True), rel=0.3)
    assert spread * n / own == pytest.approx(variance_factor(L, bound, corrected=False), rel=0.3)


@pytest.mark.parametrize(("sd", "bound"), [(0.1, 1.3), (0.1, 1.36), (0.2, 0.5), (0.1, 2.0)])
def test_where_the_centre_is_above_the_clamp_the_ring_is_solved_too(sd, bound):
    """E[r^2; ring] = P(ring) by a fine grid, r ~ N(0, k): the score equation of the scale in one dimension."""
    k = (uncensored(np.array([[[sd]]]), bound)[0, 0, 0] / sd) ** 2
    height = -0.5 * np.log(2 * np.pi) - np.log(sd)
    low, high = np.sqrt(np.maximum(2 * (height - bound), 0)), np.sqrt(2 * (height + bound))
    r = np.linspace(low, high, 200_001)
    density = norm.pdf(r, 0, np.sqrt(k))
    assert (r**2 * density).sum() / density.sum() == pytest.approx(1, rel=1e-4)


def test_a_clamp_that_nothing_reaches_changes_nothing_and_one_too_tight_is_refused():
    np.testing.assert_allclose(uncensored(SIGMA[None], 60.0)[0], SIGMA, rtol=1e-6)
    B, L = uncensored_tilted(np.zeros((1, 1, 2)), SIGMA[None], np.ones((1, 1)), np.ones(1), 60.0)
    np.testing.assert_allclose(L[0] @ L[0].T, SIGMA @ SIGMA.T, rtol=1e-4)
    assert np.abs(B).max() < 1e-4
    for undo in (
        lambda: uncensored(SIGMA[None], 0.01),
        lambda: uncensored_tilted(np.zeros((1, 1, 2)), SIGMA[None], np.ones((1, 1)), np.ones(1), 0.01),
    ):
        with pytest.raises(ModelError, match="so tight"):
            undo()
