"""Inclusion probabilities against R's sampling package; systematic selection against what it promises."""

import warnings

import numpy as np
import pytest

from surveysynth import InputError
from surveysynth.sampling import inclusion_probabilities, systematic


@pytest.fixture(scope="module")
def r_probabilities(r):
    """R's ``sampling::inclusionprobabilities``."""
    if not r.r("nzchar(system.file(package = 'sampling'))")[0]:
        pytest.skip("R's package sampling is not installed: apt-get install r-cran-sampling")
    function = r.r("function(a, n) suppressWarnings(sampling::inclusionprobabilities(a, n))")
    return lambda size, n: np.array(function(r.FloatVector(size), n))


def size_vectors():
    """Sizes of every kind: even, skewed, with certainties in several rounds, ties, zeros, a wide range."""
    rng = np.random.default_rng(17)
    for _ in range(60):
        N = int(rng.integers(1, 200))
        yield rng.uniform(1, 2, N)
        yield rng.lognormal(0, rng.uniform(0.5, 4), N)
        yield rng.pareto(0.7, N)
        yield rng.integers(1, 4, N).astype(float)
        yield np.where(rng.random(N) < 0.3, 0, rng.lognormal(3, 2, N))
        yield 10 ** rng.uniform(-12, 12, N)
    yield 2.0 ** np.arange(60)  # one certainty after another
    yield np.full(7, 0.1)
    yield np.array([0.0, 0.0, 5.0])


@pytest.mark.filterwarnings("ignore:.*size 0 and are never selected")
def test_probabilities_are_those_of_r(r_probabilities):
    rng, certain = np.random.default_rng(18), 0
    for size in size_vectors():
        positive = int((size > 0).sum())
        for n in {0, min(1, positive), positive // 2, positive, int(rng.integers(0, positive + 1))}:
            ours, theirs = inclusion_probabilities(size, n), r_probabilities(size, n)
            np.testing.assert_allclose(ours, theirs, rtol=1e-14, atol=0)
            assert ours.sum() == pytest.approx(n, rel=1e-12) and ((ours > 0) == (size > 0) if n else ours == 0).all()
            certain += 0 < (theirs == 1).sum() < positive
    assert certain > 100


def test_certainties_by_hand():
    np.testing.assert_allclose(inclusion_probabilities([1, 1, 2, 4], 2), [1 / 4, 1 / 4, 1 / 2, 1])
    np.testing.assert_allclose(inclusion_probabilities([1, 1, 3, 40], 3), [1 / 2, 1 / 2, 1, 1])  # in two rounds


def test_strata_are_separate():
    size = np.array([1.0, 2, 3, 4, 5, 6])
    strata = np.array(["b", "a", "b", "a", "b", "a"])
    b, a = strata == "b", strata == "a"
    pi = inclusion_probabilities(size, {"a": 1, "b": 2}, strata)
    np.testing.assert_array_equal(pi[a], inclusion_probabilities(size[a], 1))
    np.testing.assert_array_equal(pi[b], inclusion_probabilities(size[b], 2))
    np.testing.assert_array_equal(inclusion_probabilities(size, 2, strata)[b], inclusion_probabilities(size[b], 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, np.nan, 2.0], 1), r"missing or not finite in 1 row \(row numbers 2;"),
        (([1.0, np.inf], 1), r"missing or not finite in 1 row \(row numbers 2;"),
        (([1.0, -7.5, 2.0], 1), r"negative in 1 row \(row numbers 2;"),
        (([1.0, 2.0], -1), "n = -1 is not between 0 and the 2 units of positive size"),
        (([1.0, 0.0], 2), "n = 2 is not between 0 and the 1 units of positive size"),
        (([1.0, 2.0], np.nan), "n = nan is not between 0"),
        ((["a", "b"], 1), "size is not a column of numbers"),
        (([[1.0, 2.0]], 1), "size is not a column of numbers"),
        (([1.0, 2.0], {"a": 1}, ["a", "b"]), "n gives no sample size for one of the strata"),
        (([1.0, 2.0], {"a": 1}), "n is not a number; a mapping"),
        (([1.0, 2.0], 1, ["a"]), "strata and size differ in length: 1 and 2"),
        (([1.0, 2.0], 1, ["a", None]), r"the stratum is missing in 1 row \(row numbers 2;"),
    ],
)
def test_what_has_no_answer_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        inclusion_probabilities(*arguments)


def test_zeros_are_warned_of():
    with pytest.warns(UserWarning, match="2 units have size 0 and are never selected"):
        assert (inclusion_probabilities([0.0, 1.0, 0.0, 2.0], 1)[[0, 2]] == 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inclusion_probabilities([1.0, 2.0], 1)


def test_systematic_selection_has_the_first_order_probabilities():
    """20,000 samples: the size is always n, and every unit comes as often as its probability says."""
    rng = np.random.default_rng(19)
    with pytest.warns(UserWarning, match="size 0"):
        pi = inclusion_probabilities(np.append(rng.lognormal(0, 1.5, 39), 0.0)[rng.permutation(40)], 12)
    assert (pi == 1).any() and (pi == 0).any()
    count = np.zeros(40)
    for _ in range(20_000):
        drawn = systematic(pi, rng)
        assert drawn.size == 12 and (np.diff(drawn) > 0).all()
        count[drawn] += 1
    error = np.sqrt(pi * (1 - pi) / 20_000)
    assert (np.abs(count / 20_000 - pi) <= 4 * error).all()  # certainties always, zeros never


@pytest.mark.parametrize("N", [1, 3, 10, 1000, 100_003])
def test_systematic_sample_size_survives_rounding(N):
    rng = np.random.default_rng(N)
    for n in {1, N // 3, N}:
        pi = inclusion_probabilities(rng.lognormal(0, 1, N), n)
        assert all(systematic(pi, rng).size == n for _ in range(20))


@pytest.mark.parametrize("pi", [[0.5, 0.3], [0.5, -0.1, 0.6], [1.5, 0.5], [np.nan, 1.0]])
def test_systematic_selection_needs_probabilities_that_add_up_to_a_size(pi):
    with pytest.raises(InputError, match="probabilities between 0 and 1 that add up to a whole number"):
        systematic(np.array(pi), np.random.default_rng(1))
