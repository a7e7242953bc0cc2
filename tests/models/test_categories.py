"""Categorical outcomes against closed forms of Dirichlet distributions, brute force and simulation."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import stanli
from hypothesis import given, settings
from hypothesis import strategies as st
from rowwise import log_prob, moments_agree, sampler
from scipy.special import log_softmax, polygamma, psi
from scipy.stats import beta, binomtest, chisquare, dirichlet, kstest, norm

from surveysynth import InputError, ModelError, SurveyDesign
from surveysynth.engines import base
from surveysynth.models.normal import categories, category_effects
from surveysynth.models.normal.categories import (
    Categories,
    crossed,
    draw_log_shares,
    log_likelihood,
    log_share,
    simulate,
)
from surveysynth.models.normal.category_effects import (
    grouped_counts,
    log_likelihood_with_effects,
    log_share_with_effects,
    new_effects,
    sample_with_effects,
    simulate_with_effects,
)
from surveysynth.models.predictors.groups import Groups

N = 90
JOB = np.array(["works", "looks", "neither"])[np.random.default_rng(1).integers(3, size=N)]
ILL = np.random.default_rng(2).uniform(size=N) < 0.3
FRAME = pd.DataFrame({"job": JOB, "ill": ILL, "area": np.arange(N) % 4, "sex": np.arange(N) // 4 % 2, "w": 1.0})
ALPHA = np.random.default_rng(3).uniform(size=N)
COUNTS = np.array([[30.0, 4.2, 0.0, 11.0], [0.3, 0.0, 0.0, 2.5]])


def read(columns=("job", "ill"), predictors=("area", "sex"), **changed):
    return crossed(SurveyDesign(FRAME.assign(**changed), weights="w"), columns, predictors)


# ---- the file


def test_categories_are_crossed_levels_and_cells_are_combinations_of_predictors():
    data = read()
    assert (data.K, data.cells, data.sizes, data.names) == (6, 8, (3, 2), ("job", "ill"))
    level = FRAME["job"].map({"looks": 0, "neither": 1, "works": 2}).to_numpy()
    np.testing.assert_array_equal(data.category, 2 * level + ILL)
    np.testing.assert_array_equal(data.cell, 2 * FRAME["area"] + FRAME["sex"])
    one = read(["ill"], [])
    assert one.cells == 1 and not one.cell.any() and one.K == 2


def test_counts_are_sums_of_alpha():
    table = FRAME.assign(alpha=ALPHA).pivot_table("alpha", ["area", "sex"], ["job", "ill"], "sum", observed=False)
    by_hand = table.reindex(columns=pd.MultiIndex.from_product([sorted(set(JOB)), [False, True]])).fillna(0)
    np.testing.assert_allclose(read().counts(ALPHA), by_hand, rtol=1e-12, atol=0)


@given(st.permutations(range(N)), st.integers(0, N))
@settings(max_examples=30)
def test_counts_do_not_depend_on_the_order_of_records_and_add_up_over_blocks(order, cut):
    data, whole = read(), read().counts(ALPHA)
    blocks = [replace(data, cell=data.cell[b], category=data.category[b]) for b in (order[:cut], order[cut:])]
    parts = [block.counts(ALPHA[b]) for block, b in zip(blocks, (order[:cut], order[cut:]), strict=True)]
    np.testing.assert_allclose(parts[0] + parts[1], whole, rtol=1e-12, atol=1e-14)


@given(st.permutations(range(3)))
def test_other_names_for_the_levels_permute_the_counts(order):
    names = dict(zip(["looks", "neither", "works"], np.array(["a", "b", "c"])[order], strict=True))
    renamed = read(["job"], job=FRAME["job"].map(names)).counts(ALPHA)
    np.testing.assert_allclose(renamed[:, order], read(["job"]).counts(ALPHA), rtol=1e-12)


CODE = np.arange(N) % 3 + 1
TYPES = {
    "int8": pd.Series(CODE.astype("int8")),
    "float": pd.Series(CODE.astype(float)),
    "bool": pd.Series(CODE > 1),
    "str": pd.Series(CODE.astype(str)),
    "object": pd.Series([str(c) for c in CODE], dtype=object),
    "objects of bool": pd.Series([bool(c > 1) for c in CODE], dtype=object),
    "nullable int": pd.Series(CODE, dtype="Int64"),
    "nullable bool": pd.Series(CODE > 1, dtype="boolean"),
    "arrow int": pd.Series(CODE, dtype="int64[pyarrow]"),
    "arrow text": pd.Series(CODE.astype(str), dtype="string[pyarrow]"),
    "arrow bool": pd.Series(CODE > 1, dtype="bool[pyarrow]"),
    "categorical": pd.Series(pd.Categorical(CODE.astype(str))),
    "ordered": pd.Series(pd.Categorical(CODE.astype(str), categories=["3", "1", "2"], ordered=True)),
}


@pytest.mark.parametrize("kind", TYPES)
def test_columns_keep_their_type(kind):
    """Categories of the file, made into columns, are the columns of the file: values, type, order of levels."""
    column = TYPES[kind]
    data = read(["job", "v"], v=column)
    pd.testing.assert_series_equal(data.columns(data.category)["v"], column, check_names=False)
    groups = FRAME.assign(v=column).groupby("v", observed=True).groups
    assert list(data.levels[1]) == list(groups)


def test_declared_levels_that_no_record_has_stay():
    unused = pd.Categorical(JOB, categories=["works", "dead", "looks", "neither", "unborn"], ordered=True)
    data = read(["job"], job=unused)
    made = data.columns(data.category)["job"]
    assert list(made.cat.categories) == ["works", "dead", "looks", "neither", "unborn"] and made.cat.ordered
    assert (made == JOB).all()


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"job": pd.Series(JOB).where(np.arange(N) != 6)}, InputError, r"'job' is missing in 1 row .*numbers 7;"),
        ({"job": pd.Series(CODE, dtype="Int64").where(CODE > 2)}, InputError, "missing in 60 rows .*missing='drop'"),
        ({"area": np.where(np.arange(N) == 2, np.nan, 1)}, InputError, r"predictor 'area' is missing in 1 row .*3;"),
        ({"job": "works"}, ModelError, "^job is constant: there is nothing to synthesize"),
        ({"job": pd.Categorical(["a"] * N, categories=["a"])}, ModelError, "job is constant"),
        ({"job": pd.Series([(1, 2), "a", 3] * 30, dtype=object)}, InputError, "'job' has values that cannot be sorted"),
        ({"job": pd.Series([[1], [2], [3]] * 30, dtype=object)}, InputError, "'job' has values that cannot be sorted"),
        ({"nowhere": None}, InputError, "no column 'hidden'"),
    ],
)
def test_columns_that_cannot_be_used(changed, error, message):
    columns = ["hidden"] if "nowhere" in changed else ["job"]
    with pytest.raises(error, match=message) as caught:
        read(columns, **changed)
    assert not any(value in str(caught.value) for value in ("works", "looks", "neither"))


def test_too_many_categories_are_refused():
    frame = pd.DataFrame({"a": np.arange(4096) % 64, "b": np.arange(4096) // 64, "c": np.arange(4096) % 2, "w": 1.0})
    design = SurveyDesign(frame, weights="w")
    with pytest.raises(InputError, match="a, b: 4,096 categories in all, and 1,000 are the most"):
        crossed(design, ["a", "b"], [])
    with pytest.raises(InputError, match=r"8,192 categories.*levels of 'b', the column with the most"):
        crossed(SurveyDesign(frame.assign(a=frame["a"] // 2, b=np.arange(4096) // 16), weights="w"), ["a", "b"], [])
    assert crossed(design, ["a", "c"], ["b"]).K == 128


# ---- the pseudo posterior


def test_draws_have_the_moments_of_the_dirichlet_distribution():
    """Prior 1/K each. Of logarithms, too, whose moments lie in the tail: digamma and trigamma functions."""
    S = 40_000
    log_p = draw_log_shares(COUNTS, S, np.random.default_rng(1))
    np.testing.assert_allclose(np.exp(log_p).sum(axis=2), 1, rtol=1e-12)
    for g, a in enumerate(COUNTS + 0.25):
        p, exact = np.exp(log_p[:, g]), dirichlet(a)
        error = np.sqrt(exact.var() / S)
        assert (np.abs(p.mean(axis=0) - exact.mean()) < 4.5 * error).all()
        products = np.einsum("si,sj->sij", p - exact.mean(), p - exact.mean())
        assert (np.abs(products.mean(axis=0) - exact.cov()) < 4.5 * products.std(axis=0) / np.sqrt(S)).all()
        variance = polygamma(1, a) - polygamma(1, a.sum())
        assert (np.abs(log_p[:, g].mean(axis=0) - psi(a) + psi(a.sum())) < 4.5 * np.sqrt(variance / S)).all()
        squares = (log_p[:, g] - psi(a) + psi(a.sum())) ** 2
        assert (np.abs(squares.mean(axis=0) - variance) < 4.5 * squares.std(axis=0) / np.sqrt(S)).all()
        for k in range(4):
            assert kstest(p[:, k], beta(a[k], a.sum() - a[k]).cdf).pvalue > 1e-4


def test_two_categories_are_one_beta_distribution():
    counts = read(["ill"], ["sex"]).counts(ALPHA)
    log_p = draw_log_shares(counts, 20_000, np.random.default_rng(2))
    for g in range(2):
        of = (FRAME["sex"] == g).to_numpy()
        yes, no = ALPHA[of & ILL].sum(), ALPHA[of & ~ILL].sum()
        assert kstest(np.exp(log_p[:, g, 1]), beta(yes + 0.5, no + 0.5).cdf).pvalue > 1e-4


def test_tiny_shares_stay_finite():
    """Shape 1/1000: most gamma variables are below the smallest float, and -log p is exponential with mean 1000."""
    log_p = draw_log_shares(np.append(50.0, np.zeros(999))[None], 200, np.random.default_rng(3))
    assert np.isfinite(log_p).all() and (log_p.min(axis=(1, 2)) < -5000).all()
    assert kstest((-log_p[:, 0, 1:]).ravel() / 1000, "expon").statistic < 0.02  # but for a trigamma or two


def test_too_many_draws_are_refused():
    with pytest.raises(InputError, match=r"4,000 draws of 200 cells with 900 categories take 5\.8 GB, more than"):
        draw_log_shares(np.zeros((200, 900)), 4000, np.random.default_rng(0))


def test_blocks_of_draws_change_nothing_but_the_random_numbers(monkeypatch):
    monkeypatch.setattr(categories, "BLOCK", 3 * COUNTS.size)
    log_p = draw_log_shares(COUNTS, 4000, np.random.default_rng(1))
    a = COUNTS + 0.25
    exact, variance = a / a.sum(axis=1, keepdims=True), polygamma(1, a)
    assert (np.abs(np.exp(log_p).mean(axis=0) - exact) < 4.5 * np.exp(log_p).std(axis=0) / np.sqrt(4000)).all()
    assert (log_p.std(axis=0) > 0.3 * np.sqrt(variance)).all()


def test_log_likelihood_and_shares_are_sums_over_records():
    data, rng = read(), np.random.default_rng(4)
    log_p = np.log(rng.dirichlet(np.ones(6), size=(7, 8)))
    signed = rng.normal(size=N)
    records = np.array([[log_p[s, data.cell[i], data.category[i]] for s in range(7)] for i in range(N)])
    np.testing.assert_allclose(log_likelihood(data.counts(signed), log_p), signed @ records, rtol=1e-10)
    np.testing.assert_array_equal(log_share(log_p, data.cell, data.category), records)


# ---- simulated categories


def test_simulated_categories_follow_the_shares_of_their_cells():
    rng = np.random.default_rng(5)
    p = np.array([[0.5, 0.3, 0.2, 0.0], [0.05, 0.05, 0.1, 0.8]])
    row = rng.integers(2, size=40_000)
    with np.errstate(divide="ignore"):
        k = simulate(np.log(p), row, rng)
    assert not (k[row == 0] == 3).any()
    for g in range(2):
        found = np.bincount(k[row == g], minlength=4)[p[g] > 0]
        assert chisquare(found, p[g][p[g] > 0] * (row == g).sum()).pvalue > 1e-4


def test_simulated_records_are_independent_of_their_place():
    """Whichever record of a cell, the same probability; and two of them the probability of a pair."""
    rng = np.random.default_rng(6)
    row = np.array([1, 0, 1, 1, 0])
    log_p = np.log([[0.3, 0.7], [0.9, 0.1]])
    k = np.array([simulate(log_p, row, rng) for _ in range(4000)])
    for i in range(5):
        assert binomtest(int(k[:, i].sum()), 4000, np.exp(log_p[row[i], 1])).pvalue > 1e-4
    assert binomtest(int((k[:, 1] & k[:, 4]).sum()), 4000, 0.49).pvalue > 1e-4
    assert binomtest(int((k[:, 1] & k[:, 0]).sum()), 4000, 0.07).pvalue > 1e-4


def test_a_cell_without_records_is_no_trouble():
    k = simulate(np.log(np.full((5, 2), 0.5)), np.array([3, 3, 1]), np.random.default_rng(7))
    assert k.shape == (3,) and set(k) <= {0, 1}


# ---- effects of PSUs and strata

STRATUM = np.array([0, 0, 0, 1, 1, 2, 2, 3, 0])  # of 9 PSUs: stratum 3 has one, and PSU 4 no weight


def clustered(K=3, levels=2, n=80, seed=3):
    """(categories, alpha, groups) of a small file: 4 cells, one of which has no record of the last category."""
    rng = np.random.default_rng(seed)
    cell, category = rng.integers(4, size=n), rng.integers(K, size=n)
    category[cell == 2] = np.minimum(category[cell == 2], K - 2)
    psu = np.append(np.arange(9), rng.integers(9, size=n - 9))
    alpha = np.where(psu == 4, 0, rng.uniform(0.05, 1, size=n))
    data = Categories(("k",), (pd.RangeIndex(K),), cell, 4, category)
    return data, alpha, Groups(psu, 9, STRATUM if levels == 2 else None)


def some_draws(data, groups, S=5, seed=4):
    """Log shares (S, G, K) and effects (S, C, K), made up."""
    rng = np.random.default_rng(seed)
    log_p = np.log(rng.dirichlet(np.ones(data.K), size=(S, data.cells)))
    return log_p, rng.normal(size=(S, groups.size, data.K)).astype(np.float32)


def by_record(data, groups, log_p, b):
    """log P(category of each record | its cell and PSU): (S, n), by the definition."""
    rows = log_softmax(log_p[:, data.cell] + b.astype(float)[:, groups.record], axis=2)
    return np.take_along_axis(rows, data.category[None, :, None], axis=2)[:, :, 0]


def effects_of(stan_data, sigma, z_psu, z_stratum):
    """Total effects e and those of strata v from the program's z: conditional normal draws, column by column.

    Were pull e - information e^2 / 2 the log likelihood, e | v and v would be normal with these means and variances.
    """
    e, v = np.empty_like(z_psu), np.empty_like(z_stratum)
    for j in range(z_psu.shape[1]):
        known, pull, m = (stan_data[name][:, j] for name in ("information", "pull", "mirror"))
        variance, above = 1 / (2 / sigma[0] ** 2 + known), np.zeros(9)
        if len(sigma) == 2:
            m_2 = stan_data["mirror_stratum"][:, j]
            # e integrated out: pull / information is N(v, sigma_1^2 / 2 + 1 / information)
            told = 1 / (sigma[0] ** 2 / 2 + 1 / known)
            precision = 2 / sigma[1] ** 2 + np.bincount(STRATUM, told)
            z = z_stratum[:, j] - 2 * m_2 * (m_2 @ z_stratum[:, j])
            v[:, j] = np.bincount(STRATUM, told * pull / known) / precision + z / np.sqrt(precision)
            above = v[STRATUM, j]
        z = z_psu[:, j] - 2 * m * (m @ z_psu[:, j])
        e[:, j] = variance * (pull + above * 2 / sigma[0] ** 2) + np.sqrt(variance) * z
    return e, v


def log_prior_of_effects(stan_data, sigma, z_psu, z_stratum):
    """Log density of (e, v), and of the linear map from z to them the log determinant."""
    e, v = effects_of(stan_data, sigma, z_psu, z_stratum)
    above = v[STRATUM] if len(sigma) == 2 else 0
    prior = norm(above, sigma[0] / np.sqrt(2)).logpdf(e).sum()
    if len(sigma) == 2:
        prior += norm(0, sigma[1] / np.sqrt(2)).logpdf(v).sum()
    C = z_psu.size

    def stacked(z):
        return np.concatenate([x.ravel() for x in effects_of(
            stan_data, sigma, z[:C].reshape(z_psu.shape), z[C:].reshape(z_stratum.shape))])  # fmt: skip

    origin = stacked(np.zeros(C + z_stratum.size))
    linear = np.array([stacked(unit) - origin for unit in np.eye(origin.size)])
    return prior + np.linalg.slogdet(linear)[1], e, v


def some_z(rng, K, levels):
    return rng.normal(size=(9, K - 1)), rng.normal(size=(4 if levels == 2 else 0, K - 1))


def program(data):
    return stanli.Model(stan_file=str(base.program_path("categories")), data=data)


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_density_is_that_of_the_records_one_by_one(K, levels):
    """Sum of alpha log P over records, priors of shares, sigma and effects, and the sum of the gamma variables."""
    data, alpha, groups = clustered(K, levels)
    counts = grouped_counts(data, alpha, groups)
    stan_data = category_effects._stan_data(counts)
    rng, differences = np.random.default_rng(7), []
    a = data.counts(alpha) + 1 / K
    Q = stan_data["Q"]
    np.testing.assert_allclose(Q @ Q.T, np.eye(K) - 1 / K, atol=1e-14)  # what makes independent coordinates centred z
    stan_data["information"] = stan_data["information"] + 0.1  # PSU 4 has none: by hand it would be 0 / 0
    for _ in range(15):
        t, t_sigma = rng.normal(scale=3, size=(4, K)), rng.normal(scale=2, size=levels)
        z_psu, z_stratum = some_z(rng, K, levels)
        small = a < 1
        y = np.where(small, t - (1 / np.minimum(a, 1) - 1) * np.log1p(np.exp(-t)), np.log(a) + t / np.sqrt(a))
        slope = np.where(small, 1 + (1 / np.minimum(a, 1) - 1) / (1 + np.exp(t)), 1 / np.sqrt(a))
        S = np.exp(y).sum(axis=1)
        sigma = stan_data["spread"] * np.log1p(np.exp(t_sigma))
        effects, e, _ = log_prior_of_effects(stan_data, sigma, z_psu, z_stratum)
        b = e @ Q.T
        of = [data.cell == g for g in range(4)]
        mean_effect = [alpha[i] @ b[groups.record[i]] / alpha[i].sum() for i in of]
        log_p = log_softmax(y - mean_effect, axis=1)
        likelihood = alpha @ by_record(data, groups, log_p[None], b[None])[0]
        total = a.sum(axis=1)  # S ~ Gamma(total), whatever p; p ~ Dirichlet(1/K), in logarithms both
        prior = log_p.sum() / K + (total * np.log(S) - S).sum() - (sigma**2).sum() / 2 + effects
        jacobian = np.log(slope).sum() - np.log1p(np.exp(-t_sigma)).sum()
        found = log_prob(program(stan_data), t=t, t_sigma=t_sigma, z_psu=z_psu, z_stratum=z_stratum)
        differences.append(found - likelihood - prior - jacobian)
    assert np.ptp(differences) < 1e-8


@pytest.mark.parametrize("levels", [1, 2])
def test_coordinates_of_effects_are_standard_normal_under_the_parabola_that_places_them(levels):
    """Whatever sigma is: then sigma and the effects are independent in the sampler's coordinates."""
    data, alpha, groups = clustered(3, levels)
    stan_data, rng = category_effects._stan_data(grouped_counts(data, alpha, groups)), np.random.default_rng(15)
    stan_data["information"] = stan_data["information"] + 0.1
    for sigma in np.array([[0.05, 0.2], [0.5, 0.3], [3.0, 1.0]])[:, :levels]:
        constants = []
        for _ in range(5):
            z_psu, z_stratum = some_z(rng, 3, levels)
            density, e, _ = log_prior_of_effects(stan_data, sigma, z_psu, z_stratum)
            density += (stan_data["pull"] * e - stan_data["information"] * e**2 / 2).sum()
            constants.append(density + (z_psu**2).sum() / 2 + (z_stratum**2).sum() / 2)
        assert np.ptp(constants) < 1e-9


def test_the_parabola_is_that_of_the_likelihood_at_its_mode():
    """Slope and curvature along each coordinate, by differences of the likelihood of the records."""
    data, alpha, groups = clustered(3, 1)
    counts = grouped_counts(data, alpha, groups)
    p = (counts.cell + 1 / 3) / (counts.cell + 1 / 3).sum(axis=1, keepdims=True)
    Q, information, pull = category_effects._quadratic(counts, p)
    mode = pull / (1 + information)  # under a N(0, 1) prior
    h = 1e-4

    def log_likelihood_at(e):
        return alpha @ by_record(data, groups, np.log(p)[None], (e @ Q.T)[None])[0]

    for c in range(9):
        for j in range(2):
            step = np.zeros((9, 2))
            step[c, j] = h
            low, middle, high = (log_likelihood_at(mode + k * step) for k in (-1, 0, 1))
            assert (high - low) / (2 * h) == pytest.approx(mode[c, j], abs=1e-3)  # what the prior takes back
            assert (2 * middle - high - low) / h**2 == pytest.approx(information[c, j], abs=1e-3)


@pytest.mark.slow
@given(st.permutations(range(4)))
@settings(max_examples=10, deadline=None)
def test_the_posterior_does_not_depend_on_the_names_of_the_categories(order):
    """Categories in another order: the same density where shares and effects are permuted likewise."""
    data, alpha, groups = clustered(4)
    before, rng = category_effects._stan_data(grouped_counts(data, alpha, groups)), np.random.default_rng(12)
    renamed = replace(data, category=np.argsort(order)[data.category])
    after = category_effects._stan_data(grouped_counts(renamed, alpha, groups))
    np.testing.assert_allclose(after["spread"], before["spread"], rtol=1e-9)
    t, t_sigma, (z_psu, z_stratum) = rng.normal(size=(4, 4)), rng.normal(size=2), some_z(rng, 4, 2)
    first = log_prob(program(before), t=t, t_sigma=t_sigma, z_psu=z_psu, z_stratum=z_stratum)
    sign = np.sign((before["Q"][order] * after["Q"]).sum(axis=0))  # of a coordinate, which is arbitrary
    np.testing.assert_allclose(before["Q"][order] * sign, after["Q"], atol=1e-9)
    second = log_prob(program(after), t=t[:, order], t_sigma=t_sigma, z_psu=z_psu * sign, z_stratum=z_stratum * sign)
    assert second == pytest.approx(first, abs=1e-7)


class Given:
    """An engine whose draws are given."""

    def __init__(self, values):
        self.values = values

    def sample(self, program, data, **settings):
        self.data = data
        return base.Samples(self.values, base.Diagnostics(), "given", "0")


@pytest.mark.parametrize("levels", [1, 2])
def test_draws_are_those_of_the_program_on_the_scale_of_log_shares(levels):
    data, alpha, groups = clustered(3, levels)
    rng = np.random.default_rng(13)
    log_share, sigma = rng.normal(size=(2, 4, 4, 3)), rng.uniform(0.1, 2, size=(2, 4, levels))
    e, v = rng.normal(size=(2, 4, 9, 2)), rng.normal(size=(2, 4, 4 if levels == 2 else 0, 2))
    engine = Given({"log_share": log_share, "sigma": sigma, "e": e, "v": v})
    draws = sample_with_effects(
        grouped_counts(data, alpha, groups), replace(sampler(1, chains=2, draws=4), engine=lambda: engine)
    )
    for s in range(8):
        at, Q = divmod(s, 4), engine.data["Q"]
        np.testing.assert_array_equal(draws.log_shares[s], log_share[at])
        np.testing.assert_array_equal(draws.sigma[s], sigma[at])
        np.testing.assert_allclose(draws.b[s], e[at] @ Q.T, rtol=1e-5, atol=1e-6)
        if levels == 2:
            np.testing.assert_allclose(draws.strata[s], v[at] @ Q.T, rtol=1e-5, atol=1e-6)
    assert draws.chain.tolist() == [0] * 4 + [1] * 4
    assert (draws.strata is None) == (levels == 1)


def test_too_many_effects_are_refused():
    data, alpha, groups = clustered(1000, 1)
    with pytest.raises(InputError, match=r"4 cells and 9,000 PSUs and strata with 1,000 categories take .* more"):
        sample_with_effects(grouped_counts(data, alpha, replace(groups, size=9000)), sampler(1))


@given(st.permutations(range(80)), st.integers(0, 80))
@settings(max_examples=20)
def test_counts_of_groups_add_up_over_blocks_in_any_order(order, cut):
    data, alpha, groups = clustered()
    parts = []
    for b in (order[:cut], order[cut:]):
        block = replace(data, cell=data.cell[b], category=data.category[b])
        parts.append(grouped_counts(block, alpha[b], replace(groups, record=groups.record[b])))
    whole, (one, two) = grouped_counts(data, alpha, groups), parts
    for found, expected in ((one.cell + two.cell, whole.cell), (one.group + two.group, whole.group)):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose((one.pair + two.pair).toarray(), whole.pair.toarray(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("block", [4_000_000, 60])
def test_log_likelihood_and_shares_with_effects_are_sums_over_records(monkeypatch, block):
    monkeypatch.setattr(category_effects, "BLOCK", block)
    data, _, groups = clustered()
    log_p, b = some_draws(data, groups)
    signed = np.random.default_rng(5).normal(size=80)
    records = by_record(data, groups, log_p, b)
    total = log_likelihood_with_effects(grouped_counts(data, signed, groups), log_p, b)
    np.testing.assert_allclose(total, records @ signed, rtol=1e-9)
    found = log_share_with_effects(log_p, b, data.cell, data.category, groups.record)
    np.testing.assert_allclose(found, records.T, rtol=1e-12)


@pytest.mark.parametrize("levels", [1, 2])
def test_new_effects_are_exchangeable_and_sigma_is_that_of_log_odds(levels):
    """Covariance sigma^2 / 2 (I - 11' / K) around the effects of the strata, which stay as they are."""
    rng, C, K = np.random.default_rng(8), 30_000, 4
    parent = np.arange(C) % 2 if levels == 2 else None
    strata = np.array([[1, 2, 3, 4], [0, 0, 1, -1]], dtype=np.float32) if levels == 2 else None
    b = new_effects(np.array([0.7, 2.0])[:levels], strata, K, Groups(np.arange(C), C, parent), rng)
    own = b if strata is None else b - strata[parent]
    np.testing.assert_allclose(own.sum(axis=1), 0, atol=1e-12)
    moments_agree(own[:, :3], np.zeros(3), 0.49 / 2 * (np.eye(4) - 0.25)[:3, :3])
    assert (own[:, 0] - own[:, 3]).std() == pytest.approx(0.7, abs=4.5 * 0.7 / np.sqrt(2 * C))


def test_simulated_categories_follow_the_shares_of_cell_and_psu():
    data, _, groups = clustered()
    log_p, b = some_draws(data, groups, S=1)
    rng = np.random.default_rng(9)
    cell, psu = rng.integers(3, size=60_000), rng.integers(8, size=60_000)  # not all that there are
    k = simulate_with_effects(log_p[0], b[0], cell, psu, rng)
    p = np.exp(log_softmax(log_p[0][cell] + b[0][psu], axis=1))
    for g in range(3):
        for c in range(8):
            of = (cell == g) & (psu == c)
            assert chisquare(np.bincount(k[of], minlength=3), p[of].sum(axis=0)).pvalue > 1e-5


def simulated(sigma, K, seed, C=62, G=6):
    """Categories, alpha and groups with effects of PSUs of 10 to 30 records, and of 31 strata."""
    rng = np.random.default_rng(seed)
    psu = np.repeat(np.arange(C), rng.integers(10, 31, size=C))
    n, parent = psu.size, np.arange(C) // 2
    groups = Groups(psu, C, parent if len(sigma) == 2 else None)
    b = new_effects(np.array(sigma[:1]), None, K, groups, rng)
    if len(sigma) == 2:
        b += new_effects(np.array(sigma[1:]), None, K, Groups(parent, C // 2), rng)[parent]
    cell = rng.integers(G, size=n)
    log_p = np.log(rng.dirichlet(np.full(K, 5.0), size=G))
    data = Categories(("k",), (pd.RangeIndex(K),), cell, G, simulate_with_effects(log_p, b, cell, psu, rng))
    return data, np.ones(n), groups


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "K"), [((0.4,), 2), ((0.0,), 2), ((1.2,), 2), ((0.3, 0.4), 3)])
def test_chains_are_healthy(sigma, K):
    data, alpha, groups = simulated(sigma, K, seed=10)
    draws = sample_with_effects(grouped_counts(data, alpha, groups), sampler(1))
    assert draws.diagnostics.failures == ()
    assert draws.log_shares.shape == (4000, 6, K) and draws.b.shape == (4000, 62, K)
    np.testing.assert_allclose(np.exp(draws.log_shares).sum(axis=2), 1, rtol=1e-12)
    assert np.abs(draws.b.sum(axis=2)).max() < 1e-5
    low, high = np.quantile(draws.sigma, [0.0005, 0.9995], axis=0)
    assert (np.array(sigma) < high).all() and ((np.array(sigma) == 0) | (low < np.array(sigma))).all()


@pytest.mark.parametrize("column", [
    pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(CODE, "D")), pd.cut(pd.Series(CODE), [0, 1, 2, 3]),
], ids=["dates", "intervals"])  # fmt: skip
def test_categories_that_no_file_could_hold_are_refused(column):
    with pytest.raises(InputError, match="neither text nor numbers"):
        crossed(SurveyDesign(pd.DataFrame({"v": column, "w": 1.0}), weights="w"), ["v"], [])
