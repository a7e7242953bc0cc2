"""Inclusion probabilities against R's sampling package; selection and samples against what they promise."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from surveysynth import InputError
from surveysynth.sampling import draw_sample, inclusion_probabilities, proportional_allocation, systematic


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


def test_allocation_is_by_largest_remainder():
    """In fractions; no stratum is further than 1 from its share, and none with a larger remainder goes without."""
    rng = np.random.default_rng(20)
    for _ in range(300):
        N_h = rng.integers(1, 10 ** rng.integers(1, 6), rng.integers(1, 12)).tolist()
        n = int(rng.integers(0, sum(N_h) + 1))
        sizes = proportional_allocation(N_h, n)
        share = [Fraction(n * N, sum(N_h)) for N in N_h]
        assert sizes.sum() == n and (sizes <= N_h).all()
        up = {s - int(s) for s, size in zip(share, sizes, strict=True) if size == int(s) + 1}
        down = {s - int(s) for s, size in zip(share, sizes, strict=True) if size == int(s)}
        assert len(sizes) == sum(size - int(s) in (0, 1) for s, size in zip(share, sizes, strict=True))
        assert not up or not down or min(up) >= max(down)
    assert proportional_allocation([3, 3, 3], 4).tolist() == [2, 1, 1]


def small_population():
    """Two strata, PSUs of 4 to 6 units numbered again in each, sizes that make one unit and one PSU certain."""
    rng = np.random.default_rng(21)
    psu = [(h, c) for h in "ab" for c in range(6) for _ in range(4 + c % 3)]
    frame = pd.DataFrame(psu, columns=["h", "c"]).assign(size=rng.lognormal(0, 0.7, len(psu)), y=range(len(psu)))
    frame.loc[3, "size"] = 100.0
    return frame.sample(frac=1, random_state=1)


@pytest.mark.parametrize("psu", [None, "c"])
def test_every_unit_is_drawn_as_often_as_its_weight_says(psu, n=16):
    """1,200 samples: frequencies against 1 / weight, unit by unit, and against pi computed here."""
    population = small_population()
    rng, draws = np.random.default_rng(22), 1200
    count, weight = np.zeros(len(population)), np.full(len(population), np.nan)
    for _ in range(draws):
        frame = draw_sample(population, n=n, strata="h", size="size", rng=rng, psu=psu, take=2).frame
        assert len(frame) == n == frame["y"].nunique()
        unit = frame["y"].to_numpy()
        count[unit] += 1
        weight[unit] = frame["weight"]
    pi = 1 / weight
    size, stratum, cluster = (population.sort_values("y")[c].to_numpy() for c in ("size", "h", "c"))
    for h in "ab":
        here = stratum == h
        if psu is None:
            expected = inclusion_probabilities(size[here], n // 2)
        else:
            totals = np.array([size[here & (cluster == c)].sum() for c in range(6)])
            of_psu = inclusion_probabilities(totals, n // 4)
            expected = np.concatenate(
                [of_psu[c] * inclusion_probabilities(size[here & (cluster == c)], 2) for c in range(6)]
            )
        np.testing.assert_allclose(pi[here], expected, rtol=1e-12)
    error = np.sqrt(pi * (1 - pi) / draws)
    assert (np.abs(count / draws - pi) <= 4 * error + 1e-12).all() and (pi == 1).sum() == 1
    assert draw_sample(population, n=n, strata="h", size="size", rng=rng, psu=psu, take=2).psu_names == (
        () if psu is None else ("c",)
    )


@pytest.mark.parametrize("psu", [None, "y"])
def test_pairs_meet_in_random_order(psu):
    """Neighbours in the file are not kept apart: every pair of equal units, or PSUs, can be drawn together."""
    population = pd.DataFrame({"h": "a", "size": 1.0, "y": range(6)})
    rng = np.random.default_rng(23)
    together = np.zeros((6, 6))
    for _ in range(900):
        i, j = draw_sample(population, n=2, strata="h", size="size", rng=rng, psu=psu, take=1).frame["y"]
        together[[i, j], [j, i]] += 1
    each = together[np.triu_indices(6, 1)]
    assert ((each - 60) ** 2 / 60).sum() < 36  # chi-squared, 14 df: 1 in 1,000


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"strata": "nothing"}, "strata: the population has no column 'nothing'"),
        ({"h": None}, {}, r"strata column 'h' is missing in \d+ rows"),
        ({"size": -3.25}, {}, r"size column 'size' is not positive and finite in \d+ rows"),
        ({"size": "x"}, {}, "size column 'size' is not numeric"),
        ({"weight": 1.0}, {}, "has a column 'weight'"),
        ({}, {"n": 16.0}, "n must be a whole number"),
        ({}, {"take": True}, "take must be a whole number"),
        ({}, {"psu": "c", "take": 0}, "not a multiple of take = 0"),
        ({}, {"psu": "c", "take": 3}, "n = 16 is not a multiple of take = 3"),
        ({}, {"n": 3}, "no sample of n = 3 can be drawn: at least two units in each of the 2 strata"),
        ({}, {"n": 61}, "there are 60 units in all"),
        ({}, {"psu": "c", "n": 28, "take": 2}, "needs 7 PSUs of at least 2 units; it has 6, and the smallest has 4"),
        ({}, {"psu": "c", "n": 20, "take": 5}, "needs 2 PSUs of at least 5 units"),
    ],
)
def test_samples_that_cannot_be_drawn(changes, arguments, message):
    settings = {"n": 16, "strata": "h", "size": "size", "rng": np.random.default_rng(1)} | arguments
    with pytest.raises(InputError, match=message) as caught:
        draw_sample(small_population().assign(**changes), **settings)
    assert "3.25" not in str(caught.value)
