"""Fisher-consistent draws: against quadrature, brute force, and files whose truth is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, invwishart, multivariate_normal, norm

from surveysynth import FBP, FBS, ModelError, SurveyDesign, fit
from surveysynth.models.corrections.fisher_consistency import Weighting
from surveysynth.models.corrections.normal_correction import correct, correct_with_shares, normal_nodes
from surveysynth.models.corrections.share_correction import Shares, Tilts
from surveysynth.models.densities import normal_density as gaussian
from surveysynth.models.normal.categories import draw_log_shares
from surveysynth.models.regression.sufficient_statistics import sufficient_statistics
from surveysynth.synthesis.fit import choose_draws
from tests.surveys import PSEUDO

HUGE = 1e12  # records: the posterior behind the risks is a point


def inverse(c):
    """The inverse map with c1 times target c."""
    return lambda f: np.minimum(1, c / f)


def none(Y):
    return np.zeros(len(Y))


def minus_log_pi(Y):
    return Y[:, -1]


def covariance(rng, D):
    G = rng.normal(size=(D, D))
    return 0.2 * G @ G.T + 0.1 * np.eye(D)


def corrected(B, Sigma, X, size, alpha, log_base=none, draws=2, seed=0):
    """One draw, corrected: B and Sigma."""
    B, L = correct(
        B[None], np.linalg.cholesky(Sigma)[None], X, np.asarray(size, dtype=float), Weighting(alpha, log_base, draws),
        np.random.default_rng(seed),
    )  # fmt: skip
    return B[0], L[0] @ L[0].T


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7])
def test_nodes_have_the_first_two_moments_of_the_normal_and_its_tails(dim):
    z, weight = normal_nodes(dim)
    assert weight.sum() == pytest.approx(1, rel=1e-12) and (weight > 0).all()
    np.testing.assert_allclose(weight @ z, 0, atol=1e-12)
    np.testing.assert_allclose((z.T * weight) @ z, np.eye(dim), atol=1e-12)
    distance = (z**2).sum(axis=1)
    assert distance.max() > chi2.isf(1e-3, dim)  # a risk lies in the tails
    edges = np.linspace(0, 3.5 + np.sqrt(dim), 24) ** 2  # all directions are as far out, ring by ring
    np.testing.assert_allclose(np.histogram(distance, [*edges, np.inf], weights=weight)[0],
                               np.diff(chi2.cdf([*edges, np.inf], dim)), atol=1e-12)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.5, 1.8, 3.0])
@pytest.mark.parametrize("D", [1, 2, 3, 4])
def test_shrinkage_is_the_chi_squared_integral(D, c):
    """Sigma_corrected kappa(Sigma_corrected) = Sigma_draw, kappa = E[alpha(d) d] / (D E[alpha(d)])."""
    Sigma = covariance(np.random.default_rng(D), D)
    B, truth = corrected(np.zeros((1, D)), Sigma, np.ones((1, 1)), [HUGE], inverse(c))
    d = (np.arange(1_000_000) + 0.5) * (60 + 10 * D) / 1e6
    risk = np.abs(-D / 2 * np.log(2 * np.pi) - np.linalg.slogdet(truth)[1] / 2 - d / 2)
    weight = np.minimum(1, c / risk) * chi2.pdf(d, D)
    kappa = (weight @ d) / (D * weight.sum())
    assert kappa < 0.99
    np.testing.assert_allclose(truth * kappa, Sigma, rtol=0.005)  # 24 rings for an integrand with kinks
    np.testing.assert_allclose(B, 0, atol=1e-5)


def grid(D, points):
    """Midpoints and probabilities of a fine grid of the standard normal in D dimensions."""
    edges = np.linspace(-5.5, 5.5, points + 1)
    middle, mass = (edges[1:] + edges[:-1]) / 2, np.diff(norm.cdf(edges))
    z = np.stack(np.meshgrid(*[middle] * D, indexing="ij"), axis=-1).reshape(-1, D)
    return z, np.prod(np.stack(np.meshgrid(*[mass] * D, indexing="ij")), axis=0).ravel()


def weighted_fit(X, size, B, Sigma, nodes, weight_of):
    """Least squares of the model's own distribution, weighted by alpha: the limit of the estimator."""
    z, mass = nodes
    root = np.linalg.cholesky(Sigma)
    Y = np.vstack([x @ B + z @ root.T for x in X])
    a = np.concatenate([weight_of(x, x @ B + z @ root.T) * mass * n for x, n in zip(X, size, strict=True)])
    rows = np.repeat(X, len(z), axis=0)
    B_lim = np.linalg.solve((rows.T * a) @ rows, (rows.T * a) @ Y)
    e = Y - rows @ B_lim
    return B_lim, (e.T * a) @ e / a.sum()


@pytest.mark.slow
@pytest.mark.parametrize("log_base", [none, minus_log_pi])
@pytest.mark.parametrize("D", [1, 2])
def test_the_limit_of_the_corrected_draw_is_the_draw(D, log_base):
    """By a fine grid; under FBP's density, whose risk is not symmetric in log pi, coefficients move, too."""
    rng = np.random.default_rng(20 + D)
    X, size = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.5]]), HUGE * np.array([1.0, 3.0, 0.5])
    B, Sigma = 0.5 * rng.normal(size=(2, D)), covariance(rng, D)
    B_true, Sigma_true = corrected(B, Sigma, X, size, inverse(1.5), log_base)

    def alpha(x, Y):
        log_p = multivariate_normal(np.zeros(D), Sigma_true).logpdf(Y - x @ B_true) + log_base(Y)
        return inverse(1.5)(np.abs(log_p))

    nodes = grid(D, 20_000 if D == 1 else 500)
    B_lim, Sigma_lim = weighted_fit(X, size, B_true, Sigma_true, nodes, alpha)
    sd = np.sqrt(np.diag(Sigma))
    np.testing.assert_allclose((B_lim - B) / sd, 0, atol=0.005)
    np.testing.assert_allclose((Sigma_lim - Sigma) / np.outer(sd, sd), 0, atol=0.005)
    shift = np.abs(X @ (B_true - B) / sd).max()
    assert shift > 0.05 if log_base is minus_log_pi else shift < 1e-4
    assert np.linalg.slogdet(Sigma_true)[1] > np.linalg.slogdet(Sigma)[1] + 0.05


@pytest.mark.slow
def test_risks_are_maxima_over_the_draws_of_the_file_s_own_posterior():
    """Sigma_s inverse-Wishart, B_s | Sigma_s normal, and a record pulls its own cell's mean: all by brute force."""
    X, size, S, repeats = np.array([[1.0, 0, 0], [1.0, 1, 0], [1.0, 0, 1]]), np.array([20, 10, 3]), 100, 30
    B, Sigma = np.array([[0.0, 0.0], [0.5, -0.3], [-0.2, 0.1]]), np.array([[0.3, -0.1], [-0.1, 0.2]])
    alpha = inverse(4.0)
    found = [corrected(B, Sigma, X, size, alpha, minus_log_pi, S, seed) for seed in range(repeats)]
    B_true, Sigma_true = (np.mean([f[i] for f in found], axis=0) for i in (0, 1))
    rng = np.random.default_rng(30)
    C0 = (X.T * size) @ X
    limits = []
    for _ in range(repeats):
        Sigmas = invwishart.rvs(30, 30 * Sigma_true, size=S, random_state=rng)
        Bs = [rng.multivariate_normal(B_true.flatten(order="F"), np.kron(T, np.linalg.inv(C0))) for T in Sigmas]
        Bs = [b.reshape(2, 3).T for b in Bs]

        def weight(x, Y, Bs=Bs, Sigmas=Sigmas):
            leverage = 1 / size[(X == x).all(axis=1)][0]
            Y = x @ B_true + np.sqrt(1 - leverage) * (Y - x @ B_true)
            f = [np.abs(multivariate_normal(x @ b, T).logpdf(Y) + Y[:, 1]) for b, T in zip(Bs, Sigmas, strict=True)]
            return alpha(np.max(f, axis=0))

        limits.append(weighted_fit(X, size, B_true, Sigma_true, grid(2, 44), weight))
    sd = np.sqrt(np.diag(Sigma))
    for i, unit, target in ((0, sd, B), (1, np.outer(sd, sd), Sigma)):
        ours, theirs = (np.array([f[i] for f in values]) / unit for values in (found, limits))
        # each side has its own posterior draws: their spread is the error; 0.01 is that of both quadratures
        error = 4 * np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / repeats) + 0.01
        assert (np.abs(theirs.mean(axis=0) - target / unit) < error).all()
    risk_at_the_truth = corrected(B, Sigma, X, HUGE * size, alpha, minus_log_pi)
    assert np.linalg.det(Sigma_true) > 1.1 * np.linalg.det(risk_at_the_truth[1])


# ---- what does not matter, and what cannot be undone


X_CELLS = np.array([[1.0, 0, 0, -0.4], [1, 1, 0, 0.3], [1, 0, 1, 1.2], [1, 0, 0, 0.8], [1, 1, 0, -1.0]])
SIZES = np.array([90, 60, 150, 40, 30])
B_CELLS = np.array([[0.2, -0.1], [0.5, -0.3], [-0.2, 0.1], [0.3, 0.4]])
SIGMA = np.array([[0.3, -0.1], [-0.1, 0.2]])


def of_cells(B=B_CELLS, X=X_CELLS, size=SIZES, alpha=None, seed=1):
    return corrected(B, SIGMA, X, size, alpha or inverse(2.0), minus_log_pi, draws=100, seed=seed)


def test_full_weights_change_nothing():
    for ours, draw in zip(of_cells(alpha=np.ones_like), (B_CELLS, SIGMA), strict=True):
        np.testing.assert_allclose(ours, draw, rtol=1e-9)


@pytest.mark.slow
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), split=st.integers(0, 4), unit=st.floats(1e-5, 1e5), at=st.floats(-3, 3))
def test_order_copies_and_units_of_predictor_rows_do_not_matter(seed, split, unit, at):
    """Some rows permuted, one cut in two; a number in another unit, and counted from elsewhere."""
    expected = of_cells()
    order = np.random.default_rng(seed).permutation(5)
    size = SIZES.astype(float)
    size[split] *= 0.3
    X = np.vstack([X_CELLS, X_CELLS[split]])[[*order, 5]]
    for ours, same in zip(of_cells(X=X, size=[*size[order], SIZES[split] * 0.7]), expected, strict=True):
        np.testing.assert_allclose(ours, same, atol=1e-8)
    X, B = X_CELLS * [1, 1, 1, unit], B_CELLS / [[1], [1], [1], [unit]]
    ours = of_cells(B=B, X=X)
    np.testing.assert_allclose(X @ ours[0], X_CELLS @ expected[0], atol=1e-6)
    np.testing.assert_allclose(ours[1], expected[1], atol=1e-6)
    X, B = X_CELLS + np.array([0, 0, 0, at]), B_CELLS.copy()
    B[0] -= at * B[3]
    ours = of_cells(B=B, X=X)
    np.testing.assert_allclose(X @ ours[0], X_CELLS @ expected[0], atol=1e-6)


def test_predictors_that_repeat_one_another_change_nothing_and_what_no_record_sees_stays():
    """Under a proper prior the draw has something in directions that X does not have; only X B counts."""
    expected = of_cells()
    X = np.column_stack([X_CELLS, X_CELLS[:, 1], np.zeros(5)])
    B = np.vstack([B_CELLS, [[0.7, -3.0], [11.0, 12.0]]])
    B[1] -= B[4]
    np.testing.assert_allclose(X @ B, X_CELLS @ B_CELLS, atol=1e-12)
    ours = of_cells(B=B, X=X)
    # (C0's root is another one: the posterior draws behind the risks are others, too)
    error = 4 * np.std([of_cells(seed=seed)[1] for seed in range(2, 8)], axis=0, ddof=1) * np.sqrt(2) + 1e-4
    assert (np.abs(ours[1] - expected[1]) < error).all()
    np.testing.assert_allclose(X @ (ours[0] - B), X_CELLS @ (expected[0] - B_CELLS), atol=0.01)
    np.testing.assert_allclose(ours[0][5], B[5], rtol=1e-12)
    assert np.abs(X @ (ours[0] - B)).max() > 0.05


def test_several_draws_are_each_their_own():
    """A draw's correction does not depend on its company, but for the end of the iteration."""
    rng = np.random.default_rng(3)
    B = B_CELLS + 0.05 * rng.normal(size=(3, 4, 2))
    L = np.linalg.cholesky(SIGMA) * rng.uniform(0.9, 1.1, size=(3, 1, 1))
    size, weighting = SIZES.astype(float), Weighting(inverse(2.0), minus_log_pi, 100)
    together = correct(B, L, X_CELLS, size, weighting, np.random.default_rng(1))
    for s in range(3):
        alone = correct(B[[s]], L[[s]], X_CELLS, size, weighting, np.random.default_rng(1))
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], all_of_them[s], atol=5e-4)


@pytest.mark.slow
def test_many_rows_are_sampled():
    """Of 2,000 different rows a sample stands for all: the same correction within its sampling error."""
    rng = np.random.default_rng(4)
    X = np.column_stack([np.ones(2000), rng.normal(size=2000)])
    B, size = np.array([[0.2, -0.1], [0.1, 0.2]]), np.ones(2000)
    found = [corrected(B, SIGMA, X, size, inverse(2.0), minus_log_pi, 100, seed)[1] for seed in range(6)]
    few = X[:250], np.full(250, 8.0)
    assert len(few[0]) < 256
    whole = [corrected(B, SIGMA, *few, inverse(2.0), minus_log_pi, 100, seed)[1] for seed in range(6)]
    error = 4 * np.sqrt((np.var(found, axis=0, ddof=1) + np.var(whole, axis=0, ddof=1)) / 6)
    assert (np.abs(np.mean(found, axis=0) - np.mean(whole, axis=0)) < error).all()


@pytest.mark.parametrize("alpha", [np.zeros_like, lambda f: np.exp(-9 * f), lambda f: (f < f.min() + 0.01) * 1.0])
def test_weights_that_leave_too_little_are_beyond_repair(alpha):
    with pytest.raises(ModelError, match="shrink the model so far that their effect cannot be undone"):
        of_cells(alpha=alpha)


# ---- categories


P = np.array([[0.7, 0.2, 0.07, 0.03], [0.4, 0.4, 0.15, 0.05], [0.85, 0.1, 0.04, 0.01]])  # by cell
ROW = np.arange(12).reshape(3, 4)
X_PAIRS = np.array([[1.0, *(np.arange(1, 3) == g), *(np.arange(1, 4) == k)] for g in range(3) for k in range(4)])
B_PAIRS = np.random.default_rng(5).normal(0, 0.4, size=(6, 2))


def shares_corrected(p, size, alpha, D=0, draws=2, seed=0, Sigma=SIGMA):
    """One draw of shares p (3, 4) with D outcomes, corrected: shares, B and Sigma."""
    L = np.linalg.cholesky(Sigma)[:D, :D]
    B, L, log_p, _ = correct_with_shares(
        B_PAIRS[None, :, :D], L[None], Shares(np.log(p)[None], np.arange(3), ROW), X_PAIRS,
        np.asarray(size, dtype=float), Weighting(alpha, none, draws), np.random.default_rng(seed),
    )  # fmt: skip
    return np.exp(log_p[0]), B[0], L[0] @ L[0].T


def test_one_category_is_none():
    """Bit for bit, whatever the cells, and also where patterns are sampled."""
    rng = np.random.default_rng(6)
    X = np.column_stack([np.ones(400), rng.normal(size=400)])
    size, L = rng.integers(1, 9, 400).astype(float), np.linalg.cholesky(SIGMA)[None]
    one = Shares(np.zeros((1, 5, 1)), np.arange(400) % 5, np.arange(400)[:, None])
    given = X, size, Weighting(inverse(2.0), minus_log_pi, 50)
    B, L_one, log_p, _ = correct_with_shares(B_CELLS[None, :2], L, one, *given, np.random.default_rng(1))
    plain = correct(B_CELLS[None, :2], L, *given, np.random.default_rng(1))
    np.testing.assert_array_equal(B, plain[0])
    np.testing.assert_array_equal(L_one, plain[1])
    np.testing.assert_array_equal(log_p, one.log_p)


@pytest.mark.parametrize("c", [0.3, 0.6, 1.5])
def test_shares_solve_their_equation_where_categories_are_all(c):
    """p_true alpha(-log p_true) ~ p_draw in every cell, when the posterior behind the risks is a point."""
    p, *_ = shares_corrected(P, [HUGE] * 3, inverse(c))
    limit = p * np.minimum(1, c / -np.log(p))
    np.testing.assert_allclose(limit / limit.sum(axis=1, keepdims=True), P, atol=2e-4)
    assert (np.abs(p - P) > 0.005).any()


@pytest.mark.parametrize("D", [1, 2])
def test_the_limit_of_corrected_shares_and_covariance_is_the_draw(D):
    """By a fine grid, from |log p + log N|."""
    alpha = inverse(1.5)
    p, B, Sigma = shares_corrected(P, [HUGE, 2 * HUGE, HUGE], alpha, D)
    z, mass = grid(D, 20_000 if D == 1 else 300)
    log_normal = multivariate_normal(np.zeros(D), np.eye(D)).logpdf(z) - np.linalg.slogdet(Sigma)[1] / 2
    a = alpha(np.abs(np.log(p)[:, :, None] + log_normal)) * mass
    limit = p * a.sum(axis=2)
    np.testing.assert_allclose(limit / limit.sum(axis=1, keepdims=True), P, atol=0.002)
    root, a = np.linalg.cholesky(Sigma), np.einsum("g,gk,gkz->z", [1.0, 2.0, 1.0], p, a)
    e = z @ root.T
    np.testing.assert_allclose((e.T * a) @ e / a.sum(), SIGMA[:D, :D], atol=0.005 * SIGMA[:D, :D].max())
    np.testing.assert_allclose(B, B_PAIRS[:, :D], atol=1e-4)


@pytest.mark.slow
def test_shares_behind_the_risks_are_those_of_a_file_with_the_record_in_it():
    """Dirichlet draws of 1 + (n - 1) p records of the record's own category, exactly, by numpy."""
    size, S, c, repeats = [20, 40, 100], 100, 0.8, 40
    found = np.array([shares_corrected(P, size, inverse(c), draws=S, seed=seed)[0] for seed in range(repeats)])
    p, rng, limits = found.mean(axis=0), np.random.default_rng(7), np.empty((repeats, 3, 4))
    for r in range(repeats):
        for g, n in enumerate(size):
            for k in range(4):
                q = rng.dirichlet(1 / 4 + (n - 1) * p[g] + (np.arange(4) == k), size=S)[:, k]
                limits[r, g, k] = p[g, k] * inverse(c)(-np.log(q).min())
    n = np.array(size)[:, None]
    limits = (1 / 4 + n * limits) / (1 + n * limits.sum(axis=2, keepdims=True))
    error = 4 * np.sqrt((found.var(axis=0, ddof=1) + limits.var(axis=0, ddof=1)) / repeats) + 0.002
    assert (np.abs(limits.mean(axis=0) - P) < error).all()
    at_the_truth, *_ = shares_corrected(P, [HUGE] * 3, inverse(c))
    assert np.abs(at_the_truth - p).max() > 0.01


@pytest.mark.parametrize("D", [0, 2])
def test_full_weights_take_nothing_off_but_the_prior(D):
    """Whose 1 / K of a record stands in each category beside the n_g p records of the data."""
    n = np.array([[50], [200], [1000]])
    p, B, Sigma = shares_corrected(P, n.ravel(), np.ones_like, D, draws=50)
    np.testing.assert_allclose((1 / 4 + n * p) / (1 + n), P, rtol=1e-9)
    np.testing.assert_allclose(B, B_PAIRS[:, :D], atol=1e-9)
    np.testing.assert_allclose(Sigma, SIGMA[:D, :D], rtol=1e-9)


@pytest.mark.parametrize("D", [0, 1])
def test_patterns_of_a_cell_and_the_order_of_categories_do_not_matter(D):
    """A pattern cut in two, of one cell; categories and cells in another order."""
    size, given = np.array([50.0, 200, 1000]), Weighting(inverse(1.0), none, 50)
    L = np.linalg.cholesky(SIGMA)[None, :D, :D]
    expected = shares_corrected(P, size, inverse(1.0), D, draws=50)[0]
    X, row = np.vstack([X_PAIRS, X_PAIRS[ROW[1]]]), np.vstack([ROW, np.arange(12, 16)])
    two = Shares(np.log(P)[None], np.array([0, 1, 2, 1]), row)
    *_, log_p, _ = correct_with_shares(B_PAIRS[None, :, :D], L, two, X, np.array([50, 80.0, 1000, 120]), given,
                                    np.random.default_rng(0))  # fmt: skip
    np.testing.assert_allclose(np.exp(log_p[0]), expected, atol=1e-6)
    turned = Shares(np.log(P)[None, ::-1, ::-1], np.arange(3), ROW[::-1, ::-1])
    *_, log_p, _ = correct_with_shares(B_PAIRS[None, :, :D], L, turned, X_PAIRS, size[::-1], given,
                                    np.random.default_rng(0))  # fmt: skip
    np.testing.assert_allclose(np.exp(log_p[0])[::-1, ::-1], expected, atol=1e-6)


@pytest.mark.slow
def test_many_patterns_of_a_cell_are_sampled():
    """Of 600 rows with a number, in 3 cells, a sample of each cell stands for all."""
    rng = np.random.default_rng(8)
    cell, slope = np.repeat(np.arange(3), 200), rng.normal(size=600)
    X = np.hstack([np.tile(X_PAIRS.reshape(3, 4, 6)[cell].reshape(-1, 6), 1), np.repeat(slope, 4)[:, None]])
    B, L = np.vstack([B_PAIRS, [[0.1, -0.1]]])[None], np.linalg.cholesky(SIGMA)[None]
    shares = Shares(np.log(P)[None], cell, np.arange(2400).reshape(600, 4))
    found = [np.exp(correct_with_shares(B, L, shares, X, np.ones(600), Weighting(inverse(1.8), none, 100),
                                        np.random.default_rng(seed))[2][0]) for seed in range(6)]  # fmt: skip
    whole = [shares_corrected(P, [200] * 3, inverse(1.8), 2, 100, seed)[0] for seed in range(6)]
    error = 4 * np.sqrt((np.var(found, axis=0, ddof=1) + np.var(whole, axis=0, ddof=1)) / 6) + 1e-3
    assert (np.abs(np.mean(found, axis=0) - np.mean(whole, axis=0)) < error).all()


@pytest.mark.parametrize("D", [0, 2])
@pytest.mark.parametrize("alpha", [np.zeros_like, lambda f: (f < f.min() + 0.01) * 1.0])
def test_weights_that_leave_no_category_are_beyond_repair(alpha, D):
    with pytest.raises(ModelError, match="shrink the model so far that their effect cannot be undone"):
        shares_corrected(P, [50, 200, 1000], alpha, D)


@pytest.mark.slow
@pytest.mark.parametrize("D", [0, 2])
def test_corrected_shares_are_the_true_ones(D):
    """Files of 1,000 records: the unweighted fit's risks, the weighted fit's draws, corrected."""
    fits, n, S, alpha = 30, 1000, 300, inverse(1.8 if D else 0.6)
    root = np.linalg.cholesky([[0.25, -0.12], [-0.12, 0.30]])[:D, :D]
    released, better, covariances = [], [], []

    def posterior(pattern, Y, a, rng):
        if D == 0:
            return np.zeros((S, 6, 0)), np.zeros((S, 0, 0))
        statistics = sufficient_statistics(X_PAIRS, pattern, Y, a)
        R, Z0, S0 = statistics.reduced()
        L = np.linalg.cholesky(invwishart.rvs(statistics.A - len(R), S0, size=S, random_state=rng))
        return np.linalg.pinv(R) @ (Z0 + rng.standard_normal((S, len(R), D)) @ L.transpose(0, 2, 1)), L

    for seed in range(fits):
        rng = np.random.default_rng(seed)
        cell = rng.integers(3, size=n)
        category = (rng.uniform(size=n)[:, None] > P.cumsum(axis=1)[cell, :-1]).sum(axis=1)
        pattern = ROW[cell, category]
        Y = X_PAIRS[pattern] @ B_PAIRS[:, :D] + rng.standard_normal((n, D)) @ root.T
        log_shares = draw_log_shares(np.bincount(pattern, minlength=12).reshape(3, 4) * 1.0, S, rng)
        plain = posterior(pattern, Y, np.ones(n), rng)
        a = alpha(gaussian.max_abs_log_density(
            Y, pattern, X_PAIRS, *plain, offset=lambda i, s=log_shares, c=cell, k=category: s[:, c[i], k[i]].T
        ))  # fmt: skip
        draws = draw_log_shares(np.bincount(pattern, a, 12).reshape(3, 4), 3, rng)
        B, L = (v[:3] for v in posterior(pattern, Y, a, rng))
        _, L, log_p, _ = correct_with_shares(
            B, L, Shares(draws, np.arange(3), ROW), X_PAIRS, np.bincount(cell) * 1.0, Weighting(alpha, none, S), rng
        )
        released.append(np.exp(draws).mean(axis=0) - P)
        better.append(np.exp(log_p).mean(axis=0) - P)
        covariances.append((np.linalg.solve(root, L) ** 2).sum(axis=(1, 2)).mean() / D if D else 1.0)
    assert np.abs(z_of_mean(np.array(released))[:, 0]).min() > 4.8  # the commonest category; 1 in 1,000 by chance
    error = 4 * np.std(better, axis=0, ddof=1) / np.sqrt(fits) + 0.003  # 0.003: the stated bias
    assert (np.abs(np.mean(better, axis=0)) < error).all()
    assert np.abs(np.mean(covariances) - 1) < 4 * np.std(covariances, ddof=1) / np.sqrt(fits) + 0.02


# ---- files whose truth is known


TRUTH = np.array([[10.0, 0.0], [0.3, -0.2], [0.1, 0.2], [-0.2, 0.1]])  # (y, w) by field
L_TRUE = np.linalg.cholesky([[0.25, -0.12], [-0.12, 0.30]])
FITS = 10


def normal_file(seed, n=1000):
    """A file that obeys the normal model, and its B: the working weight is scaled to mean 1."""
    rng = np.random.default_rng(seed)
    field = rng.integers(0, 4, n)
    X = np.column_stack([np.ones(n), np.eye(4)[field, 1:]])
    Y = X @ TRUTH + rng.normal(size=(n, 2)) @ L_TRUE.T
    frame = pd.DataFrame({"field": field.astype(str), "y": np.exp(Y[:, 0]), "w": np.exp(Y[:, 1])})
    B = TRUTH.copy()
    B[0, 1] -= np.log(frame["w"].mean())
    return SurveyDesign(frame, weights="w"), B


@pytest.fixture(scope="module", params=[FBS, FBP], ids=["FBS", "FBP"])
def known(request):
    """Released and corrected draws of some fits: B - truth (FITS, K, D) and Sigma / truth (FITS, D, D)."""
    found = {"released": [], "corrected": []}
    for seed in range(FITS):
        design, B_true = normal_file(seed)
        done = fit(
            design, request.param("y", "field", prior="flat"), epsilon=10.8, m=3, seed=seed, draws=400, mechanism=PSEUDO
        )
        posterior = done.weighted.posterior
        chosen, _ = choose_draws(posterior, 3, done.streams.draws)
        plain = {name: draws[chosen] for name, draws in posterior.values.items()}
        alpha = done.mechanism.weigh_again(done.weighted, done.budget.bound)
        better = done.synthesizer.debias_draws(
            done.records, posterior, chosen, alpha, None, done.streams.draws, debias=True
        )
        assert better.size == 3 and (better.chain == posterior.chain[chosen]).all()
        for name, v in (("released", plain), ("corrected", better.values)):
            Sigma = (v["L"] @ v["L"].transpose(0, 2, 1)).mean(axis=0)
            found[name].append((v["B"].mean(axis=0) - B_true, Sigma / (L_TRUE @ L_TRUE.T)))
    return request.param, {name: [np.array(x) for x in zip(*pairs, strict=True)] for name, pairs in found.items()}


def z_of_mean(x):
    """How many standard errors the mean over the fits is from 0."""
    return x.mean(axis=0) / (x.std(axis=0, ddof=1) / np.sqrt(len(x)))


@pytest.mark.slow
def test_corrected_draws_have_the_true_covariance(known):
    """epsilon = 10.8, n = 1,000: privacy weights shrink Sigma to about 0.70 of the truth."""
    _, found = known
    (_, released), (_, better) = found["released"], found["corrected"]
    i = np.tril_indices(2)
    assert (np.abs(z_of_mean(released - 0.70)[i]) < 4.8).all() and (z_of_mean(1 - released)[i] > 6).all()
    assert (np.abs(z_of_mean(better - 1)[i]) < 4.8).all()  # t with 9 degrees of freedom: 1 in 1,000
    assert (better.std(axis=0, ddof=1)[i] / np.sqrt(FITS) < 0.06).all()


@pytest.mark.slow
def test_corrected_draws_have_the_true_coefficients(known):
    """FBS's risk is symmetric and its B right before and after; FBP's is not in log pi, and its B moves."""
    model, found = known
    (released, _), (better, _) = found["released"], found["corrected"]
    if model is FBS:
        assert (np.abs(z_of_mean(released)) < 4.8).all()
    else:
        assert np.abs(z_of_mean(released)[0, 1]) > 6  # the level of log w
    assert (np.abs(z_of_mean(better)) < 4.8).all()


# ---- nothing confidential


@pytest.mark.parametrize("kind", [FBS, FBP])
def test_a_correction_uses_the_released_draws_and_public_numbers_only(kind):
    """Whatever the confidential file is, and whatever the draws that are not released."""
    model, (design, _) = kind("y", "field", prior="flat"), normal_file(1, 400)
    rng = np.random.default_rng(5)
    other = design.frame.assign(y=rng.lognormal(3, 2, 400), w=rng.lognormal(1, 1, 400))
    done = fit(design, model, epsilon=10.8, m=2, seed=1, draws=200, mechanism=PSEUDO)
    posterior = done.weighted.posterior
    elsewhere = {name: np.where(np.isin(np.arange(800), [7, 500]).reshape(-1, 1, 1), v, 99.0)
                 for name, v in posterior.values.items()}  # fmt: skip
    alpha = done.mechanism.weigh_again(done.weighted, done.budget.bound)
    changed = replace(posterior, values=elsewhere, weight=rng.dirichlet(np.ones(800)))
    ours, theirs = (
        model.debias_draws(data, p, [7, 500], alpha, None, np.random.default_rng(2), debias=True).values
        for data, p in (
            (done.records, posterior),
            (model.prepare(SurveyDesign(other, weights="w")), changed),
        )
    )
    for name in "BL":
        np.testing.assert_array_equal(ours[name], theirs[name])
        assert (np.abs(ours[name] - posterior.values[name][[7, 500]]) > 1e-3).any()


@pytest.mark.parametrize(("share", "sigma"), [(0.1, 0.8), (0.3, 0.5)])
def test_shares_and_their_spread_between_psus_recover(share, sigma):
    """Large PSUs: log odds come out as log odds + log alpha(|log p|) - log alpha(|log(1 - p)|), PSU by PSU."""
    rng, alpha = np.random.default_rng(6), inverse(1.2)
    b = sigma * rng.standard_normal(4000)

    def limit(log_odds):
        p = 1 / (1 + np.exp(-log_odds))
        return log_odds + np.log(alpha(-np.log(p)) / alpha(-np.log1p(-p)))

    true = np.log(share / (1 - share))
    p = 1 / (1 + np.exp(-true - b))
    steeper, level = np.polyfit(b, limit(true + b) - true - b, 1, w=np.sqrt(p * (1 - p)))
    drawn = 1 / (1 + np.exp(-true - level))
    m, R = 3, 24
    z = rng.standard_normal((m, R))
    z = (z - z.mean(axis=1, keepdims=True)) / z.std(axis=1, keepdims=True)
    tilts = (1 + steeper) * sigma * z[:, :, None] * [-0.5, 0.5]
    log_p = np.tile(np.log([1 - drawn, drawn]), (m, 1, 1))
    given = Shares(log_p, np.zeros(1, dtype=int), np.arange(2)[None], Tilts(tilts, np.full(m, sigma), np.full(R, 1e9)))
    B, L, weighting = np.empty((m, 1, 0)), np.empty((m, 0, 0)), Weighting(alpha, none, 50)
    *_, log_p, spread = correct_with_shares(B, L, given, np.ones((2, 1)), np.array([1e9]), weighting, rng)
    assert abs(drawn - share) > 0.02 and steeper > 0.05
    np.testing.assert_allclose(np.exp(log_p)[:, 0, 1], share, rtol=0.04)  # 24 PSUs stand for all
    np.testing.assert_allclose(spread * (1 + steeper), 1, rtol=0.04)
