"""Variances with joint inclusion probabilities against R's survey and sums over all samples; Hajek's against both."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from surveysynth import InputError
from surveysynth.estimation.pps import (
    hajek,
    hajek_matrix,
    horvitz_thompson,
    horvitz_thompson_matrix,
    sen_yates_grundy,
    sen_yates_grundy_matrix,
)
from surveysynth.sampling import conditional_poisson, draw, inclusion_probabilities, joint_probabilities


@pytest.fixture(scope="module")
def sample():
    """Two strata, 24 + 16 units out of 120 (four of them certain), with joint probabilities; three domains and none."""
    rng = np.random.default_rng(70)
    strata, size = np.repeat(["a", "b"], [70, 50]), rng.lognormal(0, 0.6, 120)
    size[[5, 80]] = 60
    drawn = draw(size, {"a": 24, "b": 16}, "tille", rng, strata)
    frame = pd.DataFrame({
        "pi": drawn.pi,
        "h": (strata[drawn.positions] == "b").astype(int),
        "y": size[drawn.positions] * rng.lognormal(2, 0.4, 40),
        "x": rng.normal(5, 2, 40),
        "d": rng.integers(-1, 3, 40),
    })  # fmt: skip
    assert (frame["pi"] == 1).sum() == 4
    return frame, [(joint.positions, joint.matrix()) for joint in drawn.joint]


def whole(frame, blocks):
    """The joint matrix of all records; those of different strata are independent."""
    joint = np.outer(frame["pi"], frame["pi"])
    for units, matrix in blocks:
        joint[np.ix_(units, units)] = matrix
    return joint


@pytest.fixture(scope="module")
def in_r(r, to_r, sample):
    """Both designs in R's survey, ``YG`` and ``HT``."""
    frame, blocks = sample
    to_r("d", frame)
    r.globalenv["J"] = r.r.matrix(r.FloatVector(whole(frame, blocks).ravel()), nrow=40)
    for name in ("YG", "HT"):
        r.r(f"{name} <- svydesign(ids = ~1, fpc = ~pi, data = d, pps = ppsmat(J), variance = '{name}')")
    return r.r


METHODS = {
    "YG": (sen_yates_grundy, sen_yates_grundy_matrix),
    "HT": (horvitz_thompson, horvitz_thompson_matrix),
}


@pytest.mark.parametrize("method", METHODS)
def test_totals_and_means_of_domains_are_those_of_r(in_r, r_frame, sample, method):
    frame, blocks = sample
    pi, y, d = frame["pi"].to_numpy(), frame["y"].to_numpy(), frame["d"].to_numpy()
    variance, covariance = METHODS[method]
    theirs = r_frame(f"as.data.frame(svyby(~y, ~d, {method}, svytotal))")["se"].to_numpy() ** 2
    ours = variance(blocks, pi, y / pi, d, 3)
    np.testing.assert_allclose(ours, theirs[1:], rtol=1e-10)  # the first is -1, outside
    mean = np.array([np.average(y[d == k], weights=1 / pi[d == k]) if k >= 0 else 0 for k in d])
    N_d = np.array([(1 / pi[d == k]).sum() for k in d])
    theirs = r_frame(f"as.data.frame(svyby(~y, ~d, {method}, svymean))")["se"].to_numpy() ** 2
    np.testing.assert_allclose(variance(blocks, pi, (y - mean) / N_d / pi, d, 3), theirs[1:], rtol=1e-10)
    theirs = r_frame(f"as.data.frame(vcov(svytotal(~y + x, {method})))").to_numpy()[:, -2:].astype(float)
    Z = frame[["y", "x"]].to_numpy() / pi[:, None]
    np.testing.assert_allclose(covariance(blocks, pi, Z), theirs, rtol=1e-10)
    everybody = np.zeros(40, dtype=np.intp)
    np.testing.assert_allclose(variance(blocks, pi, Z[:, 0], everybody, 1), theirs[0, 0], rtol=1e-10)


def test_variances_are_those_of_r_sampling(r, in_r, sample):
    if not r.r("nzchar(system.file(package = 'sampling'))")[0]:
        pytest.skip("R's package sampling is not installed: apt-get install r-cran-sampling")
    frame, blocks = sample
    pi, y, everybody = frame["pi"].to_numpy(), frame["y"].to_numpy(), np.zeros(40, dtype=np.intp)
    for method, variance in {1: horvitz_thompson, 2: sen_yates_grundy}.items():
        ours = variance(blocks, pi, y / pi, everybody, 1)[0]
        assert ours == pytest.approx(r.r(f"sampling::varHT(d$y, J, method = {method})")[0], rel=1e-10)


def population(method, n=3):
    """Six units, an outcome, and all samples of n with their probabilities, by the joint matrix' own design."""
    rng = np.random.default_rng(71)
    pi = inclusion_probabilities([1, 2, 2, 3, 4, 5], n)
    assert (pi < 1).all()
    samples = np.array(list(combinations(range(6), n)))
    if method == "maximum_entropy":
        p = conditional_poisson(pi).odds[samples].prod(axis=1)
    else:
        p = np.ones(len(samples))
        pi = np.full(6, n / 6)
    return pi, joint_probabilities(pi, method), rng.uniform(1, 9, 6), samples, p / p.sum()


@pytest.mark.parametrize("method", ["maximum_entropy", "srs"])
def test_variances_of_totals_are_unbiased(method):
    """Over all samples, for the whole population and a domain of four units: E of the estimate is the variance."""
    pi, joint, y, samples, p = population(method)
    np.testing.assert_allclose(np.bincount(samples.ravel(), np.repeat(p, 3)), pi)
    of_unit = np.array([0, 0, 1, 0, -1, 0])
    for domain in (np.zeros(6, dtype=np.intp), of_unit):
        totals = np.array([(y / pi * (domain == 0))[s].sum() for s in samples])
        true = p @ (totals - p @ totals) ** 2
        for variance in (sen_yates_grundy, horvitz_thompson):
            block = np.arange(3)
            v = [variance([(block, joint[np.ix_(s, s)])], pi[s], (y / pi)[s], domain[s], 2)[0] for s in samples]
            assert p @ np.array(v) == pytest.approx(true, rel=1e-10)


def test_poisson_samples_have_independent_terms():
    """sum (1 - pi) z^2, the closed form."""
    rng = np.random.default_rng(72)
    sample = draw(rng.lognormal(0, 1, 60), 20, "poisson", rng)
    n = sample.positions.size
    z, d = rng.normal(0, 1, n), rng.integers(0, 2, n)
    blocks = [(joint.positions, joint.matrix()) for joint in sample.joint]
    expected = np.bincount(d, (1 - sample.pi) * z**2)
    np.testing.assert_allclose(horvitz_thompson(blocks, sample.pi, z, d, 2), expected, rtol=1e-12)
    Z = np.column_stack([z, z**2])
    np.testing.assert_allclose(horvitz_thompson_matrix(blocks, sample.pi, Z), (Z * (1 - sample.pi)[:, None]).T @ Z)


def test_of_simple_random_samples_all_are_the_textbook_variance():
    """N^2 (1 - f) s^2 / n, in two strata; in a domain with zeros for the other records."""
    rng = np.random.default_rng(73)
    strata = np.repeat([0, 1], [30, 50])
    sample = draw(None, {0: 8, 1: 11}, "srs", rng, strata)
    h, y, d = strata[sample.positions], rng.normal(5, 2, 19), rng.integers(0, 2, 19)
    blocks = [(joint.positions, joint.matrix()) for joint in sample.joint]
    expected = np.zeros(2)
    for k in range(2):
        for N, n, here in ((30, 8, h == 0), (50, 11, h == 1)):
            expected[k] += N**2 * (1 - n / N) * np.var((y * (d == k))[here], ddof=1) / n
    for variance in (sen_yates_grundy, horvitz_thompson):
        np.testing.assert_allclose(variance(blocks, sample.pi, y / sample.pi, d, 2), expected, rtol=1e-10)
    np.testing.assert_allclose(hajek(h, sample.pi, y / sample.pi, d, 2), expected, rtol=1e-12)
    Z = (y / sample.pi)[:, None] * (d[:, None] == [0, 1])
    for covariance in (sen_yates_grundy_matrix(blocks, sample.pi, Z), hajek_matrix(h, sample.pi, Z)):
        np.testing.assert_allclose(covariance.diagonal(), expected, rtol=1e-10)


def test_a_constant_value_has_no_variance(sample):
    """y proportional to pi: every sample of fixed size has the same total, and rounding does not hide it."""
    frame, blocks = sample
    pi, h, z = frame["pi"].to_numpy(), frame["h"].to_numpy(), np.full(40, 1e9 / 3)
    everybody = np.zeros(40, dtype=np.intp)
    assert sen_yates_grundy(blocks, pi, z, everybody, 1) == 0
    assert sen_yates_grundy_matrix(blocks, pi, z[:, None]) < 1e-12 * z[0] ** 2 * 1e-6
    assert hajek(h, pi, z, everybody, 1) < 1e-25 * z[0] ** 2


def hajek_by_its_formula(h, pi, z):
    total = 0.0
    for stratum in np.unique(h):
        c = [1 - p for p, k in zip(pi, h, strict=True) if k == stratum]
        values = [v for v, k in zip(z, h, strict=True) if k == stratum]
        n = sum(c_i > 0 for c_i in c)
        if n > 1:
            B = sum(c_i * v for c_i, v in zip(c, values, strict=True)) / sum(c)
            total += n / (n - 1) * sum(c_i * (v - B) ** 2 for c_i, v in zip(c, values, strict=True))
    return total


def test_hajek_is_its_formula(sample):
    """With certain units, domains, records outside, a stratum of certain units only and one with a single other."""
    frame, _ = sample
    h, pi, d = (frame[c].to_numpy().copy() for c in ("h", "pi", "d"))
    h[pi.argsort()[-6:]], pi[pi.argsort()[-6:]] = 2, 1.0
    h[3:5], pi[3] = 3, 1.0
    z = frame["y"].to_numpy() / pi
    ours = hajek(h, pi, z, d, 4)
    for k in range(3):
        assert ours[k] == pytest.approx(hajek_by_its_formula(h, pi, z * (d == k)), rel=1e-12)
    assert ours[3] == 0  # a domain without records
    Z = z[:, None] * (d[:, None] == [0, 1, 2])
    covariance = hajek_matrix(h, pi, Z)
    np.testing.assert_allclose(covariance.diagonal(), ours[:3], rtol=1e-10)
    both = hajek_by_its_formula(h, pi, Z[:, 0] + Z[:, 1])
    assert both == pytest.approx(covariance[:2, :2].sum(), rel=1e-10)


@pytest.mark.parametrize("method", ["maximum_entropy", "tille"])
def test_hajek_is_close_to_sen_yates_grundy(method):
    """Under maximum entropy, 60 of 400 units: within 2%; in domains within 5%."""
    rng = np.random.default_rng(74)
    size = rng.lognormal(0, 0.7, 400)
    drawn = draw(size, 60, method, rng)
    z = size[drawn.positions] * rng.lognormal(0, 0.5, 60) / drawn.pi
    blocks = [(joint.positions, joint.matrix()) for joint in drawn.joint]
    one, d = np.zeros(60, dtype=np.intp), rng.integers(0, 3, 60)
    np.testing.assert_allclose(
        hajek(one, drawn.pi, z, one, 1), sen_yates_grundy(blocks, drawn.pi, z, one, 1), rtol=0.02
    )
    np.testing.assert_allclose(hajek(one, drawn.pi, z, d, 3), sen_yates_grundy(blocks, drawn.pi, z, d, 3), rtol=0.05)


def test_covariances_of_sums(sample):
    """Var(a + b) = Var a + Var b + 2 Cov(a, b), where the variances come from the other functions."""
    frame, blocks = sample
    pi, everybody = frame["pi"].to_numpy(), np.zeros(40, dtype=np.intp)
    Z = frame[["y", "x", "d"]].to_numpy(dtype=float) / pi[:, None]
    for variance, covariance in METHODS.values():
        matrix = covariance(blocks, pi, Z)
        np.testing.assert_allclose(matrix, matrix.T, rtol=1e-10)
        for a in ([1.0, 0, 0], [1, 1, 0], [0.5, -2, 3]):
            expected = variance(blocks, pi, Z @ a, everybody, 1)[0]
            assert np.array(a) @ matrix @ a == pytest.approx(expected, rel=1e-10)


def test_what_has_no_variance(sample):
    frame, blocks = sample
    pi, z, d = frame["pi"].to_numpy(), np.full(40, 7.25), np.zeros(40, dtype=np.intp)
    units, matrix = blocks[1]
    never = matrix.copy()
    never[2, 0] = never[0, 2] = 0
    for call in (
        lambda blocks: sen_yates_grundy(blocks, pi, z, d, 1),
        lambda blocks: horvitz_thompson(blocks, pi, z, d, 1),
        lambda blocks: sen_yates_grundy_matrix(blocks, pi, z[:, None]),
        lambda blocks: horvitz_thompson_matrix(blocks, pi, z[:, None]),
    ):
        where = rf"row numbers {units[0] + 1}, {units[2] + 1};"
        with pytest.raises(InputError, match=f"is 0 or missing for 2 rows .*{where}.* use the Hajek approx") as caught:
            call([blocks[0], (units, never)])
        assert "7.25" not in str(caught.value)
        with pytest.raises(InputError, match=r"probabilities are missing for \d+ rows"):
            call(blocks[:1])
