"""Joint inclusion probabilities against R's sampling package and against sums over all samples."""

import pickle
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from frequencies import conditional_poisson_samples, pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from surveysynth import InputError
from surveysynth.sampling import GivenJoint, conditional_poisson, draw, inclusion_probabilities, joint_probabilities

FIXED_SIZE = ["systematic", "tille", "maximum_entropy"]


@pytest.fixture(scope="module")
def r_sampling(r):
    """R's ``sampling``: a function of a function's name and a vector of probabilities."""
    if not r.r("nzchar(system.file(package = 'sampling'))")[0]:
        pytest.skip("R's package sampling is not installed: apt-get install r-cran-sampling")
    return lambda name, pi, *more: np.array(r.r(f"sampling::{name}")(r.FloatVector(pi), *more))


def probabilities(sizes, n):
    """Proportional to size, without certain units (whose rows are wrong in R's UPtillepi2)."""
    pi = inclusion_probabilities(sizes, n)
    return pi if (pi < 1).all() else np.full(len(sizes), n / len(sizes))


def some_probabilities():
    rng = np.random.default_rng(50)
    for N in (2, 3, 5, 8, 12, 30):
        for n in {1, 2, N // 2, N - 1}:
            for sd in (0, 0.2, 0.6):
                if n < N:
                    yield probabilities(rng.lognormal(0, sd, N), n)
    yield probabilities([1, 1, 1, 2, 2, 2, 2, 3], 3)  # ties


@pytest.mark.parametrize(("method", "function"), [("systematic", "UPsystematicpi2"), ("tille", "UPtillepi2")])
def test_joint_probabilities_are_those_of_r(r_sampling, method, function):
    for pi in some_probabilities():
        np.testing.assert_allclose(joint_probabilities(pi, method), r_sampling(function, pi), atol=1e-14)


def test_joint_probabilities_of_maximum_entropy_are_those_of_r(r_sampling):
    """R's own iteration ends at 1e-6: from its functions, with one that ends at 1e-13."""
    compared = 0
    for pi in some_probabilities():
        if 2 <= round(pi.sum()) <= pi.size - 2:  # elsewhere R's iteration does not end
            poisson = r_sampling("UPMEpiktildefrompik", pi, 1e-13)
            joint = r_sampling("UPMEpik2frompikw", pi, _vector(poisson / (1 - poisson)))
            np.testing.assert_allclose(joint_probabilities(pi, "maximum_entropy"), joint, atol=1e-11)
            odds = conditional_poisson(pi).odds * (1 - poisson) / poisson
            np.testing.assert_allclose(odds, odds[0], rtol=1e-10)
            compared += 1
    assert compared > 20


def _vector(values):
    from rpy2 import robjects

    return robjects.FloatVector(values)


def solved_odds(pi, n):
    """Odds with which all samples together have these inclusion probabilities, by a general solver."""

    def missing(free):
        samples = conditional_poisson_samples(np.exp(np.append(free, 0.0)), n)
        return (pairs(samples, pi.size).diagonal() - pi)[:-1]

    start = np.log(pi / (1 - pi))
    found = optimize.root(missing, start[:-1] - start[-1], tol=1e-14)
    assert np.abs(found.fun).max() < 1e-12
    return np.exp(np.append(found.x, 0.0))


def test_joint_probabilities_of_maximum_entropy_by_all_samples():
    rng = np.random.default_rng(51)
    for N, n in ((4, 2), (6, 3), (7, 1), (7, 6), (10, 4), (12, 5)):
        pi = probabilities(rng.lognormal(0, 0.5, N), n)
        expected = pairs(conditional_poisson_samples(solved_odds(pi, n), n), N)
        np.testing.assert_allclose(joint_probabilities(pi, "maximum_entropy"), expected, atol=1e-11)


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.one_of(st.floats(0.01, 100), st.sampled_from([1e-6, 1.0, 2.0, 1e6])), min_size=3, max_size=9),
    share=st.floats(0.1, 0.9),
)
def test_odds_of_any_probabilities(sizes, share):
    """By the definition: summed over all samples with the products of odds, they give pi; certain units apart.

    The smaller 1 - pi is, the fewer digits it has in common with what pi adds up to.
    """
    n = max(1, round(share * len(sizes)))
    pi = inclusion_probabilities(sizes, n)
    odds = conditional_poisson(pi).odds
    free = pi <= 1 - 1e-12
    np.testing.assert_array_equal(odds == np.inf, ~free)
    if free.any() and round(pi[free].sum()):
        samples = conditional_poisson_samples(odds[free], round(pi[free].sum()))
        first = pairs(samples, int(free.sum())).diagonal()
        np.testing.assert_allclose(first, pi[free], atol=1e-13)
        np.testing.assert_allclose(first, pi[free], rtol=1e-12 + 1e-14 / (1 - pi[free]).min())


@pytest.mark.parametrize("spread", [0.5, 2.0, 5.0])
def test_odds_of_thousands_of_units(spread):
    """By counting (the distribution of the size without a unit), for some units of 3,000 of many sizes."""
    rng = np.random.default_rng(52)
    pi = inclusion_probabilities(rng.lognormal(0, spread, 3000), 200)
    odds = conditional_poisson(pi).odds
    free = np.flatnonzero(pi < 1)
    n = 200 - int((pi == 1).sum())
    p = odds[free] / (1 + odds[free])
    order = np.argsort(p)
    for k in (order[0], order[order.size // 2], order[-1]):
        pmf = np.zeros(n + 1)
        pmf[0] = 1
        for p_l in np.delete(p, k):
            pmf[1:] = pmf[1:] * (1 - p_l) + pmf[:-1] * p_l
            pmf[0] *= 1 - p_l
        inside, outside = p[k] * pmf[n - 1], (1 - p[k]) * pmf[n]
        assert inside / (inside + outside) == pytest.approx(pi[free[k]], rel=1e-11)


def test_systematic_pairs_by_all_starts():
    """In fractions: the length of the starts for which two units are drawn, by the sample between any two steps."""
    rng = np.random.default_rng(53)
    for _ in range(20):
        parts = rng.integers(1, 12, 9)
        edges = [Fraction(int(c), int(parts.sum())) * 4 for c in np.cumsum(parts)]
        if any(b - a >= 1 for a, b in pairwise([0, *edges])):
            continue
        starts = sorted({-c % 1 for c in [Fraction(0), *edges]} | {Fraction(1)})
        joint = np.zeros((9, 9))
        for low, high in pairwise(starts):
            u = (low + high) / 2
            passed = [int(c + u) for c in [Fraction(0), *edges]]
            drawn = [k for k in range(9) if passed[k + 1] > passed[k]]
            joint[np.ix_(drawn, drawn)] += float(high - low)
        pi = np.array([float(b - a) for a, b in pairwise([Fraction(0), *edges])])
        np.testing.assert_allclose(joint_probabilities(pi, "systematic"), joint, atol=1e-14)


def test_certain_and_impossible_units():
    """They are independent of the others, whose joint probabilities are as without them."""
    pi = np.array([0.0, 0.3, 1.0, 0.7, 0.6, 1.0, 0.4])
    free = np.array([1, 3, 4, 6])
    for method in FIXED_SIZE:
        joint = joint_probabilities(pi, method)
        np.testing.assert_allclose(joint[np.ix_(free, free)], joint_probabilities(pi[free], method), atol=1e-15)
        np.testing.assert_array_equal(joint[:, 0], np.zeros(7))
        np.testing.assert_array_equal(joint[2], pi)


@pytest.mark.parametrize("method", FIXED_SIZE)
@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.floats(0.01, 100), min_size=3, max_size=40), share=st.floats(0, 1))
def test_rows_add_up(method, sizes, share):
    """For samples of n, sum_l pi_kl = n pi_k; and every pair lies within its bounds."""
    n = round(share * len(sizes))
    pi = inclusion_probabilities(sizes, n)
    joint = joint_probabilities(pi, method)
    np.testing.assert_allclose(joint.sum(axis=1), n * pi, atol=1e-12 * len(sizes))
    np.testing.assert_array_equal(joint, joint.T)
    np.testing.assert_array_equal(joint.diagonal(), pi)
    assert (joint >= 0).all() and (joint <= np.minimum.outer(pi, pi) + 1e-14).all()
    if method != "systematic":  # Sen-Yates-Grundy's variance is never negative
        assert (joint <= np.outer(pi, pi) + 1e-14 + np.diag(pi)).all()


def test_one_unit_never_meets_another():
    for method in ("srs", *FIXED_SIZE):
        np.testing.assert_allclose(joint_probabilities(np.full(4, 0.25), method), np.eye(4) / 4, atol=1e-16)
    rng = np.random.default_rng(56)
    for _ in range(50):
        pi = rng.dirichlet(np.ones(5))
        np.testing.assert_array_equal(joint_probabilities(pi, "tille"), np.diag(pi))
        # as long as both of the largest are certain, only one of the others is left
        size = np.append(rng.uniform(0.05, 0.2, 2), [1, rng.uniform(1.45, 1.6), 2])
        joint = joint_probabilities(inclusion_probabilities(size, 2), "tille")
        np.testing.assert_array_equal(joint[[0, 0, 1], [1, 2, 2]], 0.0)
        joint = joint_probabilities(inclusion_probabilities([*size[:2], 1, 1], 2), "tille")
        assert joint[0, 1] == 0


def test_closed_forms():
    pi = np.array([0.2, 1.0, 0.0, 0.7])
    expected = np.outer(pi, pi)
    np.fill_diagonal(expected, pi)
    np.testing.assert_allclose(joint_probabilities(pi, "poisson"), expected)
    for method in ("srs", "maximum_entropy", "tille"):  # equal probabilities: all are simple random sampling
        joint = joint_probabilities(np.full(10, 0.3), method)
        np.testing.assert_allclose(joint[np.triu_indices(10, 1)], 3 * 2 / 90, rtol=1e-12)
    np.testing.assert_array_equal(joint_probabilities([1.0], "srs"), [[1.0]])


@pytest.mark.parametrize("method", ["srs", "poisson", *FIXED_SIZE])
def test_a_sample_keeps_what_its_units_need(method):
    """Of each stratum the part of the population's matrix that belongs to the drawn units; it can be pickled."""
    rng = np.random.default_rng(54)
    strata = np.array([*"aab"] * 20)
    size = None if method == "srs" else np.where(rng.random(60) < 0.1, 30.0, rng.lognormal(0, 0.5, 60))
    sample = draw(size, {"a": 12, "b": 5}, method, rng, strata)
    assert len(sample.joint) == 2
    for label, joint in zip("ab", pickle.loads(pickle.dumps(sample.joint)), strict=True):
        here = np.flatnonzero(strata == label)
        n = {"a": 12, "b": 5}[label]
        pi = np.full(here.size, n / here.size) if size is None else inclusion_probabilities(size[here], n)
        drawn = sample.positions[joint.positions]
        assert (strata[drawn] == label).all()
        of_stratum = np.searchsorted(here, drawn)
        everything = joint_probabilities(pi, method)
        np.testing.assert_allclose(joint.matrix(), everything[np.ix_(of_stratum, of_stratum)], rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(joint.pi, pi[of_stratum])
    assert sorted(np.concatenate([joint.positions for joint in sample.joint])) == list(range(sample.positions.size))


def test_pairs_of_a_large_population():
    """Of 300,000 units: rows of the sampled units agree with all pairs, estimated without bias by 1 / pi_kl."""
    rng = np.random.default_rng(55)
    size = rng.lognormal(0, 1, 300_000)
    for method in ("tille", "maximum_entropy"):
        sample = draw(size, 800, method, rng)
        joint = sample.joint[0].matrix()
        assert np.all(joint[np.triu_indices(800, 1)] > 0)
        off = ~np.eye(800, dtype=bool)
        # sum over pairs of x_k x_l / pi_kl for x = pi is n (n - 1) in expectation; its error is tiny for large entropy
        ratio = (np.outer(sample.pi, sample.pi) / joint)[off].sum() / (800 * 800)
        assert ratio == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize(
    ("pi", "method", "message"),
    [
        ([0.5, 0.5], "brewer", "method='brewer' is not one with joint probabilities: srs, poisson, systematic, tille"),
        ([0.5, 0.4], "tille", "add up to a whole number"),
        ([0.5, 0.4], "systematic", "add up to a whole number"),
        ([0.5, 0.4], "maximum_entropy", "add up to a whole number"),
        ([0.5, 1.4], "poisson", "between 0 and 1"),
        ([0.4, 0.6], "srs", "one inclusion probability for all units"),
    ],
)
def test_what_has_no_joint_probabilities(pi, method, message):
    with pytest.raises(InputError, match=message):
        joint_probabilities(pi, method)


def test_a_given_matrix_is_checked():
    pi = np.array([0.5, 0.5, 1.0])
    known = joint_probabilities(pi, "tille")
    given = GivenJoint.checked(known.tolist(), pi)
    np.testing.assert_array_equal(given.matrix(), known)
    np.testing.assert_array_equal(given.positions, [0, 1, 2])
    assert not given.matrix().flags.writeable

    def changed(*cells):
        matrix = known.copy()
        for i, j, value in cells:
            matrix[i, j] = value
        return matrix

    for matrix, message in [
        (known[:2], "joint must be a matrix of 3 x 3 numbers"),
        ([["a"]], "joint must be a matrix of 3 x 3 numbers"),
        (changed((0, 1, np.nan)), r"joint is missing or negative in 1 row \(row numbers 1;"),
        (changed((2, 1, -0.25)), r"joint is missing or negative in 1 row \(row numbers 3;"),
        (changed((0, 1, 0.25)), "joint is not symmetric in 2 rows"),
        (changed((1, 1, 0.25)), r"joint differs on its diagonal from the inclusion probabilities in 1 row .* 2;"),
        (changed((0, 1, 0.75), (1, 0, 0.75)), r"joint exceeds an inclusion probability in 2 rows .* 1, 2;"),
    ]:
        with pytest.raises(InputError, match=message) as caught:
            GivenJoint.checked(matrix, pi)
        assert "0.25" not in str(caught.value)
