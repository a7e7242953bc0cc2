"""Effects of PSUs and strata against dense normal formulas, quadrature and simulation."""

import numpy as np
import pytest
import stanli
from hypothesis import given, settings
from hypothesis import strategies as st
from rowwise import log_prob, moments_agree, sampler
from scipy.linalg import block_diag
from scipy.stats import binom, kstest, multivariate_normal

from surveysynth.engines import base
from surveysynth.models.draws import Sampler
from surveysynth.models.normal import variance_components
from surveysynth.models.normal.cluster_effects import draw_strata, grouped_statistics, new_effects
from surveysynth.models.normal.variance_components import draw_coefficients, sample_with_effects
from surveysynth.models.predictors.groups import Groups

STRATUM = np.array([0, 0, 0, 1, 1, 2, 2, 3, 0])  # of 9 PSUs: stratum 3 has one, and PSU 4 no weight
LOADING = np.array([[1.0, 0.0, 0.0], [0.5, 0.7, 0.0], [-0.3, 0.2, 0.5]])


def sample(D=2, levels=2, n=40, seed=3):
    """(X, pattern, Y, alpha, groups) of a small file: 9 PSUs, one of them without any weight."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(12), rng.normal(size=(12, 2))])
    pattern = rng.integers(12, size=n)
    psu = np.append(np.arange(9), rng.integers(9, size=n - 9))
    alpha = np.where(psu == 4, 0, rng.uniform(0.05, 1, size=n))
    effect = rng.normal(size=(9, D)) + rng.normal(size=(4, D))[STRATUM]
    Y = X[pattern] @ rng.normal(size=(3, D)) + 5 + (effect[psu] + rng.normal(size=(n, D))) @ LOADING[:D, :D].T
    return X, pattern, Y, alpha, Groups(psu, 9, STRATUM if levels == 2 else None)


def parameters(rng, D, levels):
    """L and tau, drawn from somewhere near those of the sample."""
    L = LOADING[:D, :D] * rng.uniform(0.7, 1.4, size=(D, D))
    return L, rng.uniform(0.02, 2, size=(levels, D))


def indicators(groups):
    """Z of each level, records by rows."""
    Z = [np.eye(groups.size)[groups.record]]
    return Z if groups.parent is None else [*Z, np.eye(groups.parent.max() + 1)[groups.parent[groups.record]]]


def dense(X, pattern, Y, alpha, groups, L, tau):
    """Design I (x) X, vec Y, its covariance given B, and log of what p^alpha has beside N(Y; ., Sigma / alpha)."""
    keep, D = alpha > 0, len(L)
    V = np.kron(L @ L.T, np.diag(1 / alpha[keep]))
    for Z, t in zip(indicators(groups), tau, strict=True):
        V += np.kron(L * t @ L.T, Z[keep] @ Z[keep].T)
    rest = (1 - alpha[keep]).sum() * np.log(np.diag(L)).sum()
    return np.kron(np.eye(D), X[pattern][keep]), Y[keep].flatten(order="F"), V, rest


# ---- the program


def program(data):
    return stanli.Model(stan_file=str(base.program_path("fbs_effects")), data=data)


def priors_of(data, v, L, tau):
    """Log priors and Jacobians of the program's coordinates v, by hand, and the prior covariance of vec B."""
    D, A, b, r = len(L), data["A"], data["b"], data["r"]
    wall = np.clip(v["t"], 1 - 1 / r, 0)
    below = np.maximum(1 - 1 / r - v["t"], 0)
    sigma_beta = b * np.exp(np.maximum(v["t"], 0) - r * below - 0.15 * below**2) / (1 - wall)
    s = np.linalg.norm(L, axis=1)
    Z, Omega = L / s[:, None], v["L_Omega"]
    t3 = [-2 * np.log1p((x / 10) ** 2 / 3).sum() for x in (s, sigma_beta)]  # half-t(3, 0, 10)
    lkj = [sum((len(C) - i + 9) * np.log(C[i, i]) for i in range(1, len(C))) for C in (Z, Omega)]  # eta = 6
    total = sum(t3) + sum(lkj) - (tau**2).sum() / 2
    total += v["u"].sum() / np.sqrt(2 * A) + np.log(sigma_beta * (1 / (1 - wall) + 0.3 * below)).sum()  # sigma_beta
    y = v["t_phi"] + data["centre"]
    total += np.log(data["spread"] / (1 + np.exp(-y)) * (tau + 1 / data["a_bar"][:, None])).sum()  # t_phi -> tau
    total += (np.log(np.diag(Z)) - np.arange(D) * np.log(s)).sum()  # L -> (s, Z)
    for i in range(1, len(Omega)):  # Stan's own coordinates of L_Omega
        left = 1 - np.append(0, np.cumsum(Omega[i, : i - 1] ** 2))
        total += np.log((1 - Omega[i, :i] ** 2 / left) * np.sqrt(left)).sum()
    root = [d[:, None] * (Omega if data["correlated"] else np.eye(len(d))) for d in sigma_beta.T]
    return total, block_diag(*[f @ f.T for f in root])


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["paper", "independent"])
@pytest.mark.parametrize(("D", "levels"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)])
def test_density_is_that_of_the_whole_file_as_one_normal_vector(D, levels, prior):
    """Y is multivariate normal with covariance Sigma (x) diag(1 / alpha) + sum T_k (x) Z_k Z_k' + X prior X'."""
    rng = np.random.default_rng(7)
    X, pattern, Y, alpha, groups = sample(D, levels)
    model = variance_components.integrate(grouped_statistics(X, pattern, Y, alpha, groups))
    data = variance_components._stan_data(model, prior, rng)
    collapsed, constants = program(data), []
    for _ in range(15):
        v = {
            "u": rng.normal(size=D), "v": rng.normal(size=D * (D - 1) // 2), "t": rng.uniform(-3, 3, size=(3, D)),
            "t_phi": rng.uniform(-4, 1.5, size=(levels, D)), "L_Omega": np.ones((1, 1)),
        }  # fmt: skip
        if prior == "paper":
            G = rng.normal(size=(3, 5))
            C = np.linalg.cholesky(G @ G.T)
            v["L_Omega"] = C / np.linalg.norm(C, axis=1)[:, None]
        M = np.diag(np.exp(v["u"] / np.sqrt(2 * model.A)))
        M[np.tril_indices(D, -1)] = v["v"] / np.sqrt(model.A)
        L = data["L_hat"] @ M
        phi = data["spread"] * np.log1p(np.exp(v["t_phi"] + data["centre"]))
        assert (phi < model.reach[:, None]).all()
        tau = np.expm1(phi) / data["a_bar"][:, None]
        hand, B_prior = priors_of(data, v, L, tau)
        design, y, V, rest = dense(X, pattern, Y, alpha, groups, L, tau)
        whole = multivariate_normal(np.zeros(y.size), V + design @ B_prior @ design.T).logpdf(y)
        constants.append(log_prob(collapsed, **v) - hand - whole - rest)
    assert np.ptp(constants) < 1e-8


@pytest.mark.parametrize("levels", [1, 2])
def test_without_effects_it_is_fbs(levels):
    """At tau = 0 the program and fbs.stan have the same density: in the same coordinates, where t > 0."""
    rng = np.random.default_rng(5)
    statistics = grouped_statistics(*sample(2, levels))
    model = variance_components.integrate(statistics)
    data = variance_components._stan_data(model, "paper", rng)
    data["L_hat"] = model.L_0  # where fbs.stan is centred
    S0 = statistics.total.reduced()[2]
    shared = {name: data[name] for name in ("D", "K", "rank", "A", "R", "Z0", "b", "r", "correlated")}
    fbs = stanli.Model(stan_file=str(base.program_path("fbs")), data=shared | {"S0": S0, "scaled": 1})
    with_effects, differences = program(data), []
    nothing = np.full(2 * levels, -60.0)
    for _ in range(10):
        q = rng.normal(size=fbs.n_unconstrained)  # u (2), v, t (6), L_Omega
        q[3:9] = np.abs(q[3:9])
        differences.append(with_effects.log_prob_grad(np.append(q, nothing))[0] - fbs.log_prob_grad(q)[0])
    assert np.ptp(differences) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["independent"])
def test_proper_priors_come_to_what_the_flat_one_says_of_a_large_file(prior):
    """Priors hardly matter for 1,200 records, so two routes without a common sampler must agree: chains and grid."""
    X, pattern, Y, alpha, groups = simulated(np.array([[0.1], [0.05]]), seed=4, C=60)
    statistics = grouped_statistics(X, pattern, Y, alpha, groups)
    chains = sample_with_effects(statistics, prior, sampler(1))
    flat = sample_with_effects(statistics, "flat", sampler(2))
    d = chains.diagnostics
    assert (d.divergences, d.rhat < 1.01, min(d.ess_bulk, d.ess_tail) > 400) == (0, True, True)
    for name in ("B", "L", "tau"):
        one, two = (getattr(f, name) for f in (chains, flat))
        spread = np.maximum(two.std(axis=0), 1e-12)
        assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) / spread).max() < 0.25, name
        assert np.abs(np.log(np.maximum(one.std(axis=0), 1e-12) / spread)).max() < 0.2, name


# ---- exact draws


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["flat", "proper"])
@pytest.mark.parametrize("levels", [1, 2])
def test_coefficients_and_effects_are_drawn_from_their_joint_normal(levels, prior):
    """vec B, u and v are jointly normal given L and tau: precision by dense linear algebra, PSU 4 without a weight."""
    rng, S, D = np.random.default_rng(9), 40_000, 2
    X, pattern, Y, alpha, groups = sample(D, levels)
    L, tau = parameters(rng, D, levels)
    root = rng.normal(size=(D, 3, 3))
    B_precision = np.zeros((3 * D, 3 * D))
    if prior == "proper":
        B_precision = block_diag(*[np.linalg.inv(f @ f.T) for f in root])
    design = np.hstack([np.kron(np.eye(D), Z) for Z in (X[pattern], *indicators(groups))])
    weight = np.kron(np.linalg.inv(L @ L.T), np.diag(alpha))
    sizes = [groups.size, STRATUM.max() + 1][:levels]
    T = [np.kron(np.linalg.inv(L * t @ L.T), np.eye(m)) for t, m in zip(tau, sizes, strict=True)]
    precision = design.T @ weight @ design + block_diag(B_precision, *T)
    covariance = np.linalg.inv(precision)
    mean = covariance @ design.T @ weight @ Y.flatten(order="F")
    # vec B, and the effects of the highest level
    highest = np.eye(9 * D) if levels == 1 else np.hstack([np.zeros((4 * D, 9 * D)), np.eye(4 * D)])
    picked = block_diag(np.eye(3 * D), highest)

    statistics = grouped_statistics(X, pattern, Y, alpha, groups)
    many = [np.tile(x, (S, *[1] * x.ndim)) for x in (L, tau, root)]
    B = draw_coefficients(
        variance_components.integrate(statistics), *many[:2], many[2] if prior == "proper" else None, rng
    )
    highest = draw_strata(statistics, B, *many[:2], rng)
    assert highest.dtype == np.float32
    draws = np.hstack([x.transpose(0, 2, 1).reshape(S, -1) for x in (B, highest)])
    moments_agree(draws, picked @ mean, picked @ covariance @ picked.T)


def test_new_effects_are_those_of_the_strata_there_are_and_new_ones_of_psus():
    rng, S = np.random.default_rng(2), 40_000
    L, tau = parameters(rng, 2, 2)
    root, above = L * np.sqrt(tau[0]), rng.standard_normal((2, 2)).astype(np.float32)
    groups = Groups(np.arange(3), 3, np.array([0, 0, 1]))
    covariance = np.kron(L * tau[0] @ L.T, np.eye(3))
    for strata, mean in ((above, above[[0, 0, 1]].T.ravel()), (None, np.zeros(6))):
        draws = np.array([new_effects(root, groups, strata, rng) for _ in range(S)])
        moments_agree(draws.transpose(0, 2, 1).reshape(S, -1), mean, covariance)


# ---- the flat prior


def flat_log_density(X, pattern, Y, alpha, groups, tau):
    """log p(tau | Y) for one outcome under p(B, sigma^2) ~ sigma^-2, which integrate out; dense."""
    design, y, V, _ = dense(X, pattern, Y, alpha, groups, np.eye(1), tau)
    solved = np.linalg.solve(V, np.column_stack([design, y]))
    information = design.T @ solved[:, :-1]
    quadratic = y @ solved[:, -1] - (design.T @ solved[:, -1]) @ np.linalg.solve(information, design.T @ solved[:, -1])
    log_det = np.linalg.slogdet(V)[1] + np.linalg.slogdet(information)[1]
    return -(log_det + (alpha.sum() - design.shape[1]) * np.log(quadratic) + (tau**2).sum()) / 2


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1, 2])
def test_flat_prior_draws_follow_their_density(levels):
    """Marginal distributions of tau and of the residual variance against quadrature of the dense density."""
    X, pattern, Y, alpha, groups = sample(1, levels)
    points = {1: 400, 2: 60}[levels]
    x, w = np.polynomial.legendre.leggauss(points)
    root = 1.25 * (x + 1)  # tau = root^2 up to 6.25: 1e-9 of the prior is beyond
    axes = np.stack(np.meshgrid(*[root**2] * levels, indexing="ij"), axis=-1).reshape(-1, levels, 1)
    value = np.array([flat_log_density(X, pattern, Y, alpha, groups, t) for t in axes]).reshape([points] * levels)
    mass = np.exp(value - value.max())
    for axis in range(levels):
        mass *= np.expand_dims(w * root, [k for k in range(levels) if k != axis])
    draws = sample_with_effects(grouped_statistics(X, pattern, Y, alpha, groups), "flat", sampler(3, draws=5000))
    assert draws.diagnostics.exact
    for axis in range(levels):
        marginal = mass.sum(axis=tuple(k for k in range(levels) if k != axis))
        cdf = (np.cumsum(marginal) - marginal / 2) / marginal.sum()  # at the nodes, to the order of their spacing
        assert kstest(draws.tau[:, axis, 0], lambda t, cdf=cdf: np.interp(np.sqrt(t), root, cdf)).statistic < 0.02
        mean = (marginal * root**2).sum() / marginal.sum()
        sd = np.sqrt((marginal * (root**2 - mean) ** 2).sum() / marginal.sum())
        assert abs(draws.tau[:, axis, 0].mean() - mean) < 4 * sd / np.sqrt(20_000)


def simulated(tau, seed, C=60, low=10, high=30):
    """A file with alpha = 1 and true variance ratios tau (levels, D or 1), two PSUs a stratum."""
    rng = np.random.default_rng(seed)
    size = rng.integers(low, high, size=C)
    psu, stratum = np.repeat(np.arange(C), size), np.arange(C) // 2
    X = np.array([[1, a, b] for a in (0, 1) for b in (0, 1)], dtype=float)
    pattern = 2 * rng.integers(2, size=len(psu)) + rng.integers(2, size=C)[psu]  # of records, of PSUs
    effect = rng.normal(size=(C, 2)) * np.sqrt(tau[0])
    if len(tau) == 2:
        effect += (rng.normal(size=(stratum.max() + 1, 2)) * np.sqrt(tau[1]))[stratum]
    B = rng.normal(size=(3, 2))
    Y = X[pattern] @ B + (effect[psu] + rng.normal(size=(len(psu), 2))) @ LOADING[:2, :2].T
    return X, pattern, Y, np.ones(len(psu)), Groups(psu, C, stratum if len(tau) == 2 else None)


@pytest.mark.slow
@pytest.mark.parametrize(("levels", "icc"), [(1, 0.02), (1, 0.05), (1, 0.15), (2, 0.05)])
def test_intervals_cover_the_true_intraclass_correlation(levels, icc):
    """90% intervals for tau of each level and column, over 40 files."""
    tau, rng, inside = np.full((levels, 1), icc / (1 - icc)), np.random.default_rng(6), []
    for seed in range(40):
        statistics = grouped_statistics(*simulated(tau, seed))
        draws = sample_with_effects(statistics, "flat", Sampler(lambda: None, rng, 1, 0, 400)).tau
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        inside.append((low < tau) & (tau < high))
    covered = np.array(inside).sum(axis=(0, 2))  # of 80 each; more than 90% where the interval ends near zero
    assert (binom.cdf(covered, 80, 0.9) > 1e-3).all()


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform():
    """tau from its prior, a file given tau, a posterior given the file: the truth is one more draw of it."""
    rng, ranks = np.random.default_rng(12), []
    for seed in range(150):
        tau = np.abs(rng.normal(size=(1, 2)))
        X, pattern, Y, alpha, groups = simulated(tau, seed, C=12, low=3, high=8)
        statistics = grouped_statistics(X, pattern, Y[:, :1], alpha, groups)
        draws = sample_with_effects(statistics, "flat", Sampler(lambda: None, rng, 1, 0, 199)).tau[:, 0, 0]
        ranks.append(((draws < tau[0, 0]).sum() + rng.uniform()) / 200)
    assert kstest(ranks, "uniform").pvalue > 1e-3


# ---- what does not matter


def likelihood(statistics, at):
    """What the likelihood knows of (B, L, tau) at each tau: log|C|, least squares of B, residual factor, log det."""
    model = variance_components.integrate(statistics)
    rank, phi = len(model.R), np.log1p(at * model.a_bar)
    F, log_det = model.factors(phi)
    C, cross = F[:, :rank, :rank], F[:, rank:, :rank]
    residual = model.Z0 + np.linalg.solve(C.swapaxes(1, 2), cross.swapaxes(1, 2)) @ model.L_0.T
    return {
        "C": 2 * np.log(np.abs(np.linalg.det(C))) + np.linalg.slogdet(statistics.total.C0)[1],
        "B": model.inverse @ residual,
        "S": model.L_0 @ F[:, rank:, rank:] @ F[:, rank:, rank:].swapaxes(1, 2) @ model.L_0.T,
        "log_det": log_det,
    }


def same(a, b):
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-7, atol=1e-8, err_msg=name)


PSUS, STRATA = np.arange(9), np.arange(4)
AT = {1: np.array([[0.0], [0.03], [1.7]]), 2: np.array([[0.0, 0.0], [0.03, 2.0], [1.7, 0.1]])}


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), levels=st.integers(1, 2), twice=st.integers(0, 39))
def test_order_names_and_copies_do_not_matter(seed, levels, twice):
    rng = np.random.default_rng(seed)
    X, pattern, Y, alpha, groups = sample(2, levels)
    reference = likelihood(grouped_statistics(X, pattern, Y, alpha, groups), AT[levels])

    def again(record, alpha, psu=PSUS, stratum=STRATA):
        """Statistics of these records, with PSUs and strata numbered anew."""
        parent = None if levels == 1 else stratum[STRATUM][np.argsort(psu)]
        renamed = Groups(psu[groups.record[record]], 9, parent)
        return grouped_statistics(X, pattern[record], Y[record], alpha, renamed)

    order = rng.permutation(40)
    same(likelihood(again(order, alpha[order]), AT[levels]), reference)
    everything = np.arange(40)
    same(likelihood(again(everything, alpha, rng.permutation(9), rng.permutation(4)), AT[levels]), reference)
    half = np.where(everything == twice, alpha / 2, alpha)
    same(likelihood(again(np.append(everything, twice), np.append(half, half[twice])), AT[levels]), reference)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(scale=st.tuples(*[st.floats(1e-5, 1e5)] * 3), levels=st.integers(1, 2))
def test_units_of_predictors_do_not_matter_to_the_flat_prior(scale, levels):
    X, *rest = sample(2, levels)
    one, two = (likelihood(grouped_statistics(x, *rest), AT[levels]) for x in (X, X * scale))
    two["B"] *= np.array(scale)[:, None]
    two["C"] -= 2 * np.log(scale).sum()
    same(one, two)


@pytest.mark.parametrize("levels", [1, 2])
def test_collinear_predictors_do_not_matter_to_the_flat_prior(levels):
    X, *rest = sample(2, levels)
    one, two = (likelihood(grouped_statistics(x, *rest), AT[levels]) for x in (X, np.column_stack([X, X[:, 1] - 3])))
    np.testing.assert_allclose(np.column_stack([X, X[:, 1] - 3]) @ two["B"], X @ one["B"], rtol=1e-8)
    np.testing.assert_allclose(one["S"], two["S"], rtol=1e-8)


# ---- the edges


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["flat", "independent"])
@pytest.mark.parametrize("edge", ["one PSU", "PSUs of one record", "next to no weight", "one heavy PSU"])
def test_extreme_groups(edge, prior):
    X, pattern, Y, alpha, _ = sample(2, 2, n=60)
    record = np.arange(60) % 9
    if edge == "one PSU":
        groups = Groups(np.zeros(60, dtype=np.intp), 1, np.zeros(1, dtype=np.intp))
    elif edge == "PSUs of one record":
        groups = Groups(np.arange(60), 60, np.arange(60) // 2)
    else:
        groups = Groups(record, 9, STRATUM)
    if edge == "next to no weight":
        alpha = np.where(record < 5, alpha, 1e-12 * alpha)
    if edge == "one heavy PSU":
        alpha = np.where(record == 7, 1e4 * alpha, alpha)
    statistics = grouped_statistics(X, pattern, Y, alpha, groups)
    draws = sample_with_effects(statistics, prior, sampler(1, draws=500))
    assert draws.diagnostics.divergences == 0 and draws.diagnostics.rhat < 1.05
    effect = draw_strata(statistics, draws.B, draws.L, draws.tau, np.random.default_rng(1))
    assert all(np.isfinite(x).all() for x in (draws.B, draws.L, draws.tau, effect))
    A = statistics.total.A
    assert (draws.tau > 0).all() and draws.tau.max() < np.sqrt((A + 2) / 2) + 6  # far inside the table
