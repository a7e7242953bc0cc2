"""Samples out of a frame: strata, sizes of the population, and what cannot be drawn."""

import numpy as np
import pandas as pd
import pytest
from frequencies import assert_frequencies

from surveysynth import InputError
from surveysynth.sampling import METHODS, draw, inclusion_probabilities

WITH_JOINT = {"srs", "poisson", "systematic", "tille", "maximum_entropy"}


def frame(rng, N=90):
    """Strata that come mixed, and sizes that make one unit of 'a' certain."""
    strata = rng.permutation(np.repeat([*"abc"], N // 3))
    size = rng.lognormal(0, 0.5, N)
    size[np.flatnonzero(strata == "a")[3]] = 500
    return strata, size


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_stratum_is_drawn_with_its_probabilities(method):
    rng = np.random.default_rng(60)
    strata, size = frame(rng)
    size = None if method == "srs" else size
    n, draws = {"b": 4, "a": 9, "c": 1}, 1500
    weight = np.ones(90) if size is None else size
    pi = inclusion_probabilities(weight, n, strata)
    if method == "multinomial":
        pi = np.array([n[h] for h in strata]) * weight / pd.Series(weight).groupby(strata).transform("sum").to_numpy()
    count, drawn_at_all = np.zeros(90), np.zeros(90)
    for _ in range(draws if method != "maximum_entropy" else 300):
        sample = draw(size, n, method, rng, strata)
        np.add.at(count, sample.positions, 1)
        drawn_at_all[sample.positions] += 1
        assert (np.diff(sample.positions) >= (0 if method == "multinomial" else 1)).all()
        np.testing.assert_allclose(sample.pi, pi[sample.positions], rtol=1e-12)
        np.testing.assert_array_equal(sample.population, 30)
        if method != "poisson":
            assert pd.Series(strata[sample.positions]).value_counts().to_dict() == n
    draws = draws if method != "maximum_entropy" else 300
    if method == "multinomial":
        assert (np.abs(count - draws * pi) < 4.9 * np.sqrt(draws * pi)).all()  # nearly Poisson
        assert_frequencies(drawn_at_all, draws, 1 - (1 - pi / [n[h] for h in strata]) ** [n[h] for h in strata])
    else:
        assert_frequencies(count, draws, pi)


@pytest.mark.parametrize("method", METHODS)
def test_a_frame_without_strata(method):
    rng = np.random.default_rng(61)
    size = None if method == "srs" else rng.lognormal(0, 1, 50)
    sample = draw(size, 8, method, rng, N=50)
    assert method == "poisson" or sample.positions.size == 8
    assert set(sample.population) == {50} and (sample.pi > 0).all()
    assert len(sample.joint) == (method in WITH_JOINT)
    if method in WITH_JOINT:
        np.testing.assert_array_equal(sample.joint[0].positions, np.arange(sample.positions.size))
        np.testing.assert_array_equal(sample.joint[0].pi, sample.pi)


@pytest.mark.parametrize("method", METHODS)
def test_equal_sizes_are_the_default(method):
    rng = np.random.default_rng(62)
    sample = draw(None, {"a": 2, "b": 3}, method, rng, [*"aabbbbabaaaaaa"])
    expected = np.where(np.isin(sample.positions, [2, 3, 4, 5, 7]), 3 / 5, 2 / 9)
    np.testing.assert_allclose(sample.pi, expected)
    np.testing.assert_array_equal(sample.population, np.where(expected > 0.5, 5, 9))


def test_strata_without_a_sample():
    rng = np.random.default_rng(63)
    for method in METHODS:
        sample = draw(None, {"a": 0, "b": 2, "c": 1}, method, rng, [*"abbbac"])
        assert method == "poisson" or set(sample.positions) <= {1, 2, 3, 5}
        if method in WITH_JOINT - {"poisson"}:
            assert [joint.positions.size for joint in sample.joint] == [2, 1]
        nothing = draw(None, 0, method, rng, [*"abbbac"])
        assert nothing.positions.size == nothing.pi.size == nothing.population.size == 0 and nothing.joint == ()
    assert draw(None, 0.0, "poisson", rng, N=4).positions.size == 0


def test_poisson_samples_may_have_any_expected_size():
    rng = np.random.default_rng(64)
    sizes = [draw(None, 2.5, "poisson", rng, N=5).positions.size for _ in range(2000)]
    assert_frequencies(np.bincount(sizes, minlength=6), 2000, np.array([1, 5, 10, 10, 5, 1]) / 32)


def test_the_order_within_a_stratum_is_that_of_the_frame():
    """Systematic selection of every second unit of its stratum."""
    rng = np.random.default_rng(65)
    strata = np.array([*"abba" * 6])
    for _ in range(10):
        sample = draw(None, 6, "systematic", rng, strata)
        for h in "ab":
            place = np.searchsorted(np.flatnonzero(strata == h), sample.positions[strata[sample.positions] == h])
            assert (np.diff(place) == 2).all()


def test_a_seed_makes_the_sample():
    size = np.random.default_rng(1).lognormal(0, 1, 200)
    for method in METHODS:
        a, b, other = (
            draw(None if method == "srs" else size, 40, method, np.random.default_rng(seed), N=200).positions.tolist()
            for seed in (3, 3, 4)
        )
        assert a == b != other


@pytest.mark.parametrize("method", ["multinomial", "systematic"])
def test_zeros_are_warned_of(method):
    with pytest.warns(UserWarning, match="2 units have size 0 and are never selected") as caught:
        sample = draw([0.0, 1.0, 0.0, 2.0], 2, method, np.random.default_rng(1))
    assert set(sample.positions) <= {1, 3} and caught[0].filename == __file__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], 1, "cube"), "method='cube' is not one of systematic, random_systematic, brewer, tille, poisson"),
        (([1.0, 2.0], 1, "srs"), "method='srs' draws all units with the same probability: leave the sizes out"),
        ((None, 1, "srs"), "give the sizes, the strata or N"),
        (([1.0, 2.0], 1.5, "tille"), "n is not a whole number"),
        (([1.0, 2.0], 3, "tille"), "n = 3 is not between 0 and the 2 units"),
        (([1.0, -2.5], 1, "multinomial"), r"size is negative in 1 row \(row numbers 2;"),
        (([1.0, 1.0, -2.5], 1, "multinomial", ["a", "b", "b"]), r"size is negative in 1 row \(row numbers 3;"),
        (([0.0, 0.0], 1, "multinomial"), "n = 1 is not between 0 and the 0 units of positive size"),
        (([1.0, 0.0], 1, "multinomial", ["a", "b"]), "the 0 units of positive size of a stratum"),
        (([1.0, 2.0], {"a": 1}, "tille", ["a", "b"]), "n gives no sample size for one of the strata"),
        (([1.0, 2.0], 1, "tille", ["a", None]), "the stratum is missing in 1 row"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn(arguments, message):
    size, n, method, *strata = arguments
    with pytest.raises(InputError, match=message) as caught:
        draw(size, n, method, np.random.default_rng(1), *strata)
    assert "2.5" not in str(caught.value)


def test_many_draws_with_replacement_from_few_units():
    sample = draw([1.0, 3.0], 5, "multinomial", np.random.default_rng(1))
    assert sample.positions.size == 5
    np.testing.assert_allclose(sample.pi, np.where(sample.positions == 0, 1.25, 3.75))
