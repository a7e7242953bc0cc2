"""Fisher-consistent draws of the count models: against enumeration, real fits, and files whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import gamma, nbinom, norm, poisson

import surveysynth as ss
from surveysynth.models.corrections.count_correction import correct
from tests.surveys import PSEUDO

HUGE = 1e14  # records: the posterior behind the risks is a point
EVERY = (np.arange(600) + 0.5) / 600  # probabilities of a fine grid of log weights


def inverse(c):
    """The inverse map with c1 times target c."""
    return lambda f: np.minimum(1, c / f)


def corrected(values, X, size, alpha, S=2, seed=0):
    """One draw, corrected."""
    one = {name: np.asarray(v, dtype=float)[None] for name, v in values.items()}
    out = correct(one, X, np.asarray(size, dtype=float), alpha, S, np.random.default_rng(seed))
    assert {k: v.shape for k, v in out.items()} == {k: v.shape for k, v in one.items()}
    return {k: v[0] for k, v in out.items()}


def log_pmf(y, mu, phi):
    return poisson.logpmf(y, mu) if phi is None else nbinom.logpmf(y, phi, phi / (phi + mu))


def all_counts(X, values):
    """Every count of every row that has a probability, stacked: row, count, probability."""
    rows, counts, p = [], [], []
    for g, mu in enumerate(np.exp(X @ values["b"])):
        y = np.arange(int(mu + 12 * np.sqrt(mu) + (30 * mu / values["phi"] if "phi" in values else 0) + 20))
        p.append(np.exp(log_pmf(y, mu, values.get("phi"))))
        rows.append(np.full(len(y), g))
        counts.append(y)
    return np.concatenate(rows), np.concatenate(counts), np.concatenate(p)


def fitted_counts(X, row, y, a, start):
    """Weighted maximum likelihood of (b, log 1 / phi), by a general optimiser."""
    K, total = X.shape[1], a.sum()

    def loss(t):
        return -(a @ log_pmf(y, np.exp(X @ t[:K])[row], np.exp(-t[K]) if len(t) > K else None)) / total

    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
    return minimize(loss, best.x, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-14}).x


CASES = {
    "one mean": (np.ones((1, 1)), [1.0], [1.1]),
    "three coefficients": (
        np.array([[1.0, -1, 0], [1.0, 0, 1], [1.0, 1.5, 0], [1.0, 0.2, -1]]), [2.0, 1.0, 0.5, 1.0], [0.7, 0.4, -0.3]
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("c", [2.0, 4.0])
@pytest.mark.parametrize("phi", [None, 0.7, 6.0])
@pytest.mark.parametrize("case", CASES)
def test_the_limit_of_the_corrected_draw_is_the_draw(case, phi, c):
    X, size, b = CASES[case]
    draw = {"b": np.array(b)} | ({} if phi is None else {"phi": phi})
    truth = corrected(draw, X, HUGE * np.array(size), inverse(c))
    row, y, p = all_counts(X, truth)
    a = np.array(size)[row] * p * inverse(c)(np.abs(np.log(np.maximum(p, 1e-300))))
    wanted = np.append(b, [] if phi is None else [-np.log(phi)])
    # 1e-4 is where the iteration ends; log(1 / phi) moves by up to three times what the log variance does
    np.testing.assert_allclose(fitted_counts(X, row, y, a, wanted + 0.1), wanted, atol=5e-4)
    if c == 2.0:
        assert (X @ truth["b"]).mean() > (X @ draw["b"]).mean() + 0.02


def test_large_counts_are_represented_by_few_points():
    """Mean 300: enumeration of thousands of counts."""
    draw = {"b": np.log([300.0]), "phi": 1.5}
    truth = corrected(draw, np.ones((1, 1)), [HUGE], inverse(6.0))
    _, y, p = all_counts(np.ones((1, 1)), truth)
    a = p * inverse(6.0)(np.abs(np.log(np.maximum(p, 1e-300))))
    found = fitted_counts(np.ones((1, 1)), np.zeros(len(y), dtype=int), y, a, np.array([5.8, -0.3]))
    np.testing.assert_allclose(found, [np.log(300), -np.log(1.5)], atol=1e-3)
    assert np.exp(truth["b"][0]) > 303


def at_any_mean(mean, phi):
    return corrected({"b": np.log([mean]), "phi": phi}, np.ones((1, 1)), [HUGE], lambda f: 1 / f)


@pytest.mark.slow
def test_hundreds_of_thousands_of_counts_are_a_gamma_distribution():
    """log p = log of the gamma density of y / mu, less log mu: alpha = 1 / (log mu - log density) is a number's."""
    mean, phi = 200_000.0, 2.0
    truth = at_any_mean(mean, phi)
    mu, k = np.exp(truth["b"][0]), truth["phi"]
    u = gamma.ppf((np.arange(400_000) + 0.5) / 400_000, k, scale=1 / k)
    a = 1 / (np.log(mu) - gamma.logpdf(u, k, scale=1 / k))
    level, log_level = a @ u / a.sum() * mu, a @ np.log(u * mu) / a.sum()
    shape = minimize(lambda t: -(gamma.logpdf(u * mu, np.exp(t[0]), scale=level / np.exp(t[0])) @ a) / a.sum(), [0.5])
    assert level == pytest.approx(mean, rel=5e-4) and log_level < np.log(mean)
    assert np.exp(shape.x[0]) == pytest.approx(phi, rel=2e-3)
    assert mu > 1.005 * mean


@pytest.mark.parametrize("phi", [None, 1.2])
def test_the_weight_s_regression_comes_along(phi):
    """Least squares over all counts and a fine grid of log weights."""
    X, size, b = CASES["three coefficients"]
    draw = {"b": np.array(b), "c": np.array([0.1, 0.2, -0.1, -0.3]), "sigma": 0.6}
    draw |= {} if phi is None else {"phi": phi}
    alpha = inverse(2.5)
    truth = corrected(draw, X, HUGE * np.array(size), alpha)
    row, y, p = all_counts(X, truth)
    row, y, p = (v[p > 1e-12] for v in (row, y, p))
    z, t = np.column_stack([X[row], np.log1p(y)]), norm.ppf(EVERY)
    log_p = np.log(p)[:, None] + norm.logpdf(t) - np.log(truth["sigma"])
    a = (np.array(size)[row] * p)[:, None] * alpha(np.abs(log_p)) / len(t)
    wanted = np.append(b, [] if phi is None else [-np.log(phi)])
    # 15 nodes for an integrand with kinks
    np.testing.assert_allclose(fitted_counts(X, row, y, a.sum(axis=1), wanted), wanted, atol=0.003)
    w = z @ truth["c"]
    w = w[:, None] + truth["sigma"] * t
    left = np.sqrt(a.sum(axis=1))
    c = np.linalg.lstsq(z * left[:, None], (a * w).sum(axis=1) / left)[0]
    variance = (a * (w - (z @ c)[:, None]) ** 2).sum() / a.sum()
    np.testing.assert_allclose(c, draw["c"], atol=0.003)
    assert np.sqrt(variance) == pytest.approx(0.6, rel=0.01)
    assert truth["sigma"] > 0.62


@pytest.mark.slow
@pytest.mark.parametrize("n", [25, 60])
def test_risks_are_those_of_real_fits_in_small_cells(n):
    """Poisson means of cells with n records: exact gamma posteriors of real files, in which records pull their own."""
    X, S, files, alpha = np.array([[1.0, 0.0], [1.0, 1.0]]), 400, 1000, inverse(1.8)
    draw = {"b": np.array([1.0, 0.5])}
    truth = corrected(draw, X, [n, n], alpha, S)
    rng = np.random.default_rng(n)
    for g, mu in enumerate(np.exp(X @ truth["b"])):
        y = rng.poisson(mu, (files, n))
        draws = rng.gamma(y.sum(axis=1)[:, None], 1 / n, (files, S))
        f = np.stack([np.abs(poisson.logpmf(v, draws)).max(axis=1) for v in range(y.max() + 1)], axis=1)
        a = alpha(np.take_along_axis(f, y, axis=1))
        down = y.mean(axis=1) - (a * y).sum(axis=1) / a.sum(axis=1)
        error = down.std() / np.sqrt(files)
        shift = mu - np.exp(X[g] @ draw["b"])
        assert abs(down.mean() - shift) < 4 * error + shift * 2 / n  # the posterior by two terms of an expansion
        assert shift > 0.1


@pytest.mark.slow
def test_risks_are_maxima_over_draws():
    """Of a negative binomial's posterior near a known theta: normal draws, by brute force."""
    size, S, repeats, alpha = 400.0, 300, 40, inverse(2.5)
    draw = {"b": np.array([1.1]), "phi": 0.8}
    truth = corrected(draw, np.ones((1, 1)), [size], alpha, S)
    mu, phi = np.exp(truth["b"][0]), truth["phi"]
    row, y, p = all_counts(np.ones((1, 1)), truth)
    h = 1e-4
    of_log_phi = (log_pmf(y, mu, phi * np.exp(h)) - log_pmf(y, mu, phi * np.exp(-h))) / (2 * h)
    sd = (size * mu * phi / (mu + phi)) ** -0.5, (size * (p @ of_log_phi**2)) ** -0.5
    rng = np.random.default_rng(40)
    limits = []
    for _ in range(repeats):
        mus, phis = mu * np.exp(sd[0] * rng.normal(size=S)), phi * np.exp(sd[1] * rng.normal(size=S))
        f = np.abs(log_pmf(y[:, None], mus, phis)).max(axis=1)
        limits.append(fitted_counts(np.ones((1, 1)), row, y, p * alpha(f), np.array([1.1, 0.2])))
    error = 4 * np.std(limits, axis=0, ddof=1) / np.sqrt(repeats) + 0.01  # leverage 1 / 400, and that f is not linear
    assert (np.abs(np.mean(limits, axis=0) - [1.1, -np.log(0.8)]) < error).all()
    point = corrected(draw, np.ones((1, 1)), [HUGE], alpha, S)
    assert truth["b"][0] > point["b"][0] + 0.02


def test_risks_with_a_weight_are_maxima_over_draws():
    """Normal draws of the weight's regression, too; residuals of the log weight are sqrt(1 - h) of themselves."""
    n, S, repeats, alpha = 300.0, 300, 15, inverse(2.5)
    draw = {"b": np.array([1.1]), "c": np.array([0.2, -0.3]), "sigma": 0.5}
    truth = corrected(draw, np.ones((1, 1)), [n], alpha, S)
    row, y, p = all_counts(np.ones((1, 1)), truth)
    row, y, p = (v[p > 1e-10] for v in (row, y, p))
    z, t, mu, sigma = np.column_stack([np.ones(len(y)), np.log1p(y)]), norm.ppf(EVERY[::10]), truth["b"], truth["sigma"]
    C = n * (z.T * p) @ z
    leverage = np.einsum("pk,kl,pl->p", z, np.linalg.inv(C), z)
    e = sigma * np.sqrt(1 - np.minimum(leverage, 1))[:, None, None] * t[:, None]
    rng = np.random.default_rng(41)
    limits = []
    for _ in range(repeats):
        c = rng.multivariate_normal(np.zeros(2), sigma**2 * np.linalg.inv(C), S)
        s = sigma * np.exp(rng.normal(size=S) / np.sqrt(2 * n))
        mus = np.exp(mu + rng.normal(size=S) / np.sqrt(n * np.exp(mu)))
        log_p = poisson.logpmf(y[:, None], mus) - np.log(s) - np.log(2 * np.pi) / 2
        f = np.abs(log_p[:, None] - (e - (z @ c.T)[:, None]) ** 2 / (2 * s**2)).max(axis=2)
        a = p[:, None] * alpha(f)
        left = np.sqrt(a.sum(axis=1))
        w = (z @ truth["c"])[:, None] + sigma * t
        fit = np.linalg.lstsq(z * left[:, None], (a * w).sum(axis=1) / left)[0]
        variance = (a * (w - (z @ fit)[:, None]) ** 2).sum() / a.sum()
        limits.append([np.log(left**2 @ y / a.sum()), *fit, np.log(variance) / 2])
    error = 4 * np.std(limits, axis=0, ddof=1) / np.sqrt(repeats) + 0.01  # 60 nodes, and that f is not linear
    assert (np.abs(np.mean(limits, axis=0) - [1.1, 0.2, -0.3, np.log(0.5)]) < error).all()
    point = corrected(draw, np.ones((1, 1)), [HUGE], alpha, S)
    assert np.log(sigma / point["sigma"]) > 0.02


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 30), st.sampled_from([None, 0.05, 0.7, 50.0, 1e9]), st.booleans(),
    st.floats(0.05, 1), st.integers(0, 10**6),
)  # fmt: skip
def test_weights_that_are_alike_change_nothing(K, G, phi, weights, level, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(G + K), rng.normal(size=(G + K, K - 1))])
    values = {"b": np.append(rng.normal(1, 2), rng.normal(0, 0.3, K - 1))}
    values |= {} if phi is None else {"phi": phi}
    values |= {"c": rng.normal(size=K + 1), "sigma": 0.4} if weights else {}
    out = corrected(values, X, rng.integers(1, 50, G + K), lambda f: np.full(f.shape, level))
    for name in values:
        if name != "phi" or phi < 1e6:  # a phi so large is as good as any other
            np.testing.assert_allclose(out[name], values[name], rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.sampled_from([None, 0.7]), st.integers(0, 10**6))
def test_neither_the_order_of_rows_nor_the_coding_of_predictors_matters(phi, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(6), rng.normal(size=(6, 2))])
    size, b = rng.integers(20, 60, 6), np.array([1.0, 0.3, -0.2])
    others = {} if phi is None else {"phi": phi}
    one = corrected({"b": b} | others, X, size, inverse(2.5), 1000)
    T, order = np.linalg.qr(rng.normal(size=(3, 3)))[0] + np.eye(3) * 2, rng.permutation(6)
    two = corrected({"b": np.linalg.solve(T, b)} | others, (X @ T)[order], size[order], inverse(2.5), 1000)
    np.testing.assert_allclose(T @ two["b"], one["b"], atol=1e-3)
    if phi is not None:
        assert two["phi"] == pytest.approx(one["phi"], rel=2e-3)


@pytest.mark.slow
def test_many_rows_are_sampled_and_several_draws_corrected_each_by_itself():
    rng = np.random.default_rng(5)
    x = rng.normal(size=2000)
    X, size = np.column_stack([np.ones(2000), (x - x.mean()) / x.std()]), np.ones(2000)
    values = {"b": np.array([[1.0, 0.3], [1.2, 0.2]]), "phi": np.array([0.7, 1.4])}
    out = correct(values, X, size, inverse(2.5), 1000, rng)
    grid = np.array([[1.0, q] for q in norm.ppf(EVERY)])  # the rows' own distribution
    for s in range(2):
        fine = corrected({k: v[s] for k, v in values.items()}, grid[::3], np.full(200, 10.0), inverse(2.5), 1000)
        np.testing.assert_allclose(out["b"][s], fine["b"], atol=0.02)  # 256 of 2,000 rows
        assert out["phi"][s] == pytest.approx(fine["phi"], rel=0.02)


def test_what_cannot_be_undone_is_refused():
    values = {"b": np.log([[3.0]]), "phi": np.array([0.7])}
    with pytest.raises(ss.ModelError, match="cannot be undone"):
        correct(values, np.ones((1, 1)), np.array([500.0]), lambda f: (f < 1.2) * 1.0, 1000, np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "files"), [(3.0, 2), (100.0, 1)])
def test_means_come_back_in_files_whose_truth_is_known(mean, files):
    """Plain synthetic means are a fifth too low; those of corrected draws differ from the truth by chance."""
    m, found = 20, []
    for seed in range(files):
        rng = np.random.default_rng(seed)
        x, z = rng.integers(0, 4, 2000), rng.integers(0, 2, 2000)
        mu = mean * np.exp(0.2 * (x - 1.5) + 0.3 * (z - 0.5))
        frame = pd.DataFrame({"y": rng.poisson(mu * rng.gamma(0.7, 1 / 0.7, 2000)), "x": x, "z": z, "w": 10.0})
        model = ss.NegativeBinomialRegression("y", "x + z", prior="independent")
        fit = ss.fit(ss.SurveyDesign(frame, weights="w"), model, epsilon=18, m=3, seed=seed, mechanism=PSEUDO)
        data, posterior = fit.records, fit.weighted.posterior
        draws = {k: v[np.linspace(0, posterior.size - 1, m).astype(int)] for k, v in posterior.values.items()}
        size = np.bincount(data.row).astype(float)
        alpha = fit.mechanism.weigh_again(fit.weighted, fit.budget.bound)
        after = correct(draws, data.X, size, alpha, posterior.size, rng)
        means = [size @ np.exp(data.X @ v["b"].T) / size.sum() / mu.mean() for v in (draws, after)]
        found.append([np.mean(means[0]), np.mean(means[1]), np.mean(draws["phi"]) / 0.7, np.mean(after["phi"]) / 0.7])
    plain, ours, _, phi = np.mean(found, axis=0)
    error = np.sqrt((1 / 0.7 + 1 / mean) / (2000 * files))  # of a sample mean; weighting down the tails adds some
    assert plain < 0.85
    assert abs(ours - 1) < 3.5 * error
    assert abs(phi - 1) < 0.15


@pytest.mark.slow
def test_a_release_is_corrected_on_request_and_holds_whole_numbers():
    rng = np.random.default_rng(4)
    y = rng.poisson(3 * rng.gamma(0.7, 1 / 0.7, 1500))
    design = ss.SurveyDesign(pd.DataFrame({"y": y, "w": 10.0}), weights="w")
    fit = ss.fit(design, ss.NegativeBinomialRegression("y"), epsilon=18, m=3, seed=1, mechanism=PSEUDO)
    plain, better = fit.release(), fit.release(epsilon=40, debias=True)  # of other draws, which add up
    means = [np.mean([data.numeric("y").mean() for data in r.datasets]) / y.mean() for r in (plain, better)]
    assert means[0] < 0.85 and abs(means[1] - 1) < 0.15  # sd of three means of 1,500 counts and their draws: .04
    assert better.privacy.epsilon == plain.privacy.epsilon
    assert better.manifest()["debias"]["map"] == "inverse" and "takes the model at its word" in str(better.privacy)
    for data in better.datasets:
        assert data.frame["y"].dtype.kind == "i" and data.frame["y"].min() >= 0
    with pytest.raises(ss.InputError, match="debias is for privacy weights of single records"):
        units = ss.SurveyDesign(design.frame.assign(household=np.arange(1500) // 2), weights="w")
        ss.fit(
            units, ss.NegativeBinomialRegression("y"), epsilon=40, m=1, unit="household", seed=1, mechanism=PSEUDO
        ).release(debias=True)
