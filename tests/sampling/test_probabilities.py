"""Inclusion probabilities against R's sampling package, and the allocation to strata."""

import warnings
from fractions import Fraction

import numba as nb
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surveysynth import InputError
from surveysynth.sampling import inclusion_probabilities, proportional_allocation
from surveysynth.sampling.probabilities import _plus

# R adds up in C's long double.  Where that has 80 bits, ours are R's numbers, bit for bit.
EXTENDED = np.finfo(np.longdouble).nmant == 63


@pytest.fixture(scope="module")
def r_probabilities(r):
    """R's ``sampling::inclusionprobabilities``."""
    if not r.r("nzchar(system.file(package = 'sampling'))")[0]:
        pytest.skip("R's package sampling is not installed: apt-get install r-cran-sampling")
    function = r.r("function(a, n) suppressWarnings(sampling::inclusionprobabilities(a, n))")
    return lambda size, n: np.array(function(r.FloatVector(size), n))


def agree(ours, theirs):
    """Within 2 ulp everywhere; the same to the last bit where R's sums have 80 bits."""
    assert (np.abs(ours - theirs) <= 2 * np.spacing(theirs)).all()
    if EXTENDED:
        np.testing.assert_array_equal(ours, theirs)


SIZES = st.one_of(
    st.floats(1e-6, 1e6),
    st.floats(1e-150, 1e150),
    st.sampled_from([0.0, 0.1, 1.0, 1.0, 3.0, 1e12]),
    st.integers(0, 60).map(lambda k: 2.0**k),
)


@pytest.mark.filterwarnings("ignore:.*size 0 and are never selected")
@settings(max_examples=300, deadline=None)
@given(size=st.lists(SIZES, min_size=1, max_size=60), share=st.floats(0, 1), copies=st.integers(1, 20))
def test_probabilities_are_those_of_r(r_probabilities, size, share, copies):
    size = np.tile(size, copies)
    positive = int((size > 0).sum())
    if positive:
        n = round(share * positive)
        ours = inclusion_probabilities(size, n)
        agree(ours, r_probabilities(size, n))
        assert ours.sum() == pytest.approx(n, rel=1e-12, abs=1e-300) and (ours[size == 0] == 0).all()


def size_vectors():
    """Sizes of every kind: even, skewed, with certainties in several rounds, ties, zeros, a wide range."""
    rng = np.random.default_rng(17)
    for _ in range(40):
        N = int(rng.integers(1, 2000))
        yield rng.uniform(1, 2, N)
        yield rng.lognormal(0, rng.uniform(0.5, 4), N)
        yield rng.pareto(0.7, N)
        yield rng.integers(1, 4, N) * 0.1
        yield np.where(rng.random(N) < 0.3, 0, rng.lognormal(3, 2, N))
        yield 10 ** rng.uniform(-12, 12, N)
    yield 2.0 ** np.arange(60)  # one certainty after another
    yield np.full(7, 0.1)
    yield np.full(100_000, 0.1)  # every sum is rounded in the same direction
    yield np.array([0.0, 0.0, 5.0])
    yield np.array([5e-324, 1e-310, 2e-308, 1e-300])


@pytest.mark.filterwarnings("ignore:.*size 0 and are never selected")
def test_probabilities_of_every_kind_of_sizes_are_those_of_r(r_probabilities):
    rng, certain = np.random.default_rng(18), 0
    for size in size_vectors():
        positive = int((size > 0).sum())
        for n in {0, min(1, positive), positive // 2, positive, int(rng.integers(0, positive + 1))}:
            ours, theirs = inclusion_probabilities(size, n), r_probabilities(size, n)
            agree(ours, theirs)
            certain += 0 < (theirs == 1).sum() < positive
    assert certain > 100


@pytest.mark.slow
def test_probabilities_of_a_million_units_are_those_of_r(r_probabilities):
    rng = np.random.default_rng(19)
    for size in (rng.lognormal(3, 2, 10**6), 10 ** rng.uniform(-6, 6, 10**6)):
        ours = inclusion_probabilities(size, 200_000)
        agree(ours, r_probabilities(size, 200_000))
        assert 1000 < (ours == 1).sum() < 200_000


@nb.njit
def add_up(x):
    m, e = np.uint64(0), np.int64(0)
    for value in x:
        m, e = _plus(m, e, value)
    return m, e


@pytest.mark.slow
@example([1.0, 2.0**-63, 1.0])  # a tie that is carried: to even, down
@example([1.0, 3 * 2.0**-63, 1.0])  # and up
@example([1.0, 2.0**-63, 1.0 + 2.0**-52])
@example([1.0, 2.0**-64, 2.0**-64])  # a tie that is not
@example([1.0, 2.0**-63, 2.0**-64])
@pytest.mark.skipif(not EXTENDED, reason="long double has not 80 bits on this machine")
@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.floats(0, 1e300),
            st.floats(0, 4),
            st.integers(0, 2**53).map(float),
            # numbers at and beside the middle between two neighbours of 64 bits
            st.tuples(st.integers(-70, 4), st.integers(0, 3)).map(lambda ab: 2.0 ** ab[0] * (1 + ab[1] * 2.0**-52)),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_sums_are_those_of_80_bit_numbers(x):
    x = np.array(x)
    m, e = add_up(x)
    assert np.ldexp(np.longdouble(m), e) == np.add.accumulate(x.astype(np.longdouble))[-1]


def test_certainties_by_hand():
    np.testing.assert_allclose(inclusion_probabilities([1, 1, 2, 4], 2), [1 / 4, 1 / 4, 1 / 2, 1])
    np.testing.assert_allclose(inclusion_probabilities([1, 1, 3, 40], 3), [1 / 2, 1 / 2, 1, 1])  # in two rounds


@pytest.mark.parametrize("kind", [list, np.array, lambda s: np.array(s, dtype=object)])
def test_strata_are_separate(kind):
    size = np.array([1.0, 2, 3, 4, 5, 6])
    strata = np.array(["b", "a", "b", "a", "b", "a"])
    b, a = strata == "b", strata == "a"
    pi = inclusion_probabilities(size, {"a": 1, "b": 2}, kind(strata.tolist()))
    np.testing.assert_array_equal(pi[a], inclusion_probabilities(size[a], 1))
    np.testing.assert_array_equal(pi[b], inclusion_probabilities(size[b], 2))
    np.testing.assert_array_equal(inclusion_probabilities(size, 2, strata)[b], inclusion_probabilities(size[b], 2))
    with pytest.raises(InputError, match="n names 1 strata that no unit has"):
        inclusion_probabilities(size, {"a": 1, "b": 2, "c": 9}, kind(strata.tolist()))


def test_many_strata_are_separate():
    rng = np.random.default_rng(20)
    strata, size = rng.integers(0, 200, 5000), rng.lognormal(0, 2, 5000)
    n = {h: int(rng.integers(0, np.sum(strata == h) + 1)) for h in range(200)}
    pi = inclusion_probabilities(size, n, strata)
    for h in range(200):
        np.testing.assert_array_equal(pi[strata == h], inclusion_probabilities(size[strata == h], n[h]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, np.nan, 2.0], 1), r"missing or not finite in 1 row \(row numbers 2;"),
        (([1.0, np.inf], 1), r"missing or not finite in 1 row \(row numbers 2;"),
        (([1.0, -7.5, 2.0], 1), r"negative in 1 row \(row numbers 2;"),
        (([1.0, 1e308], 1), "the sizes are too large to be added up"),
        (([1.0, 2.0], -1), "n = -1 is not between 0 and the 2 units of positive size$"),
        (([1.0, 0.0], 2), "n = 2 is not between 0 and the 1 units of positive size$"),
        (([1.0, 2.0], np.nan), "n = nan is not between 0"),
        (([], 1), "n = 1 is not between 0 and the 0 units"),
        ((["a", "b"], 1), "size is not a column of numbers"),
        (([[1.0, 2.0]], 1), "size is not a column of numbers"),
        (([1.0, 2.0], {"a": 1}, ["a", "b"]), "n gives no sample size for one of the strata"),
        (([1.0, 2.0], {"a": 1, "b": "1"}, ["a", "b"]), "n is not a number"),
        (([1.0, 2.0], {"a": 1}), "n is not a number; a mapping"),
        (([1.0, 2.0], True), "n is not a number"),
        (([1.0, 2.0], 1, ["a"]), "strata and size differ in length: 1 and 2"),
        (([1.0, 2.0], 1, ["a", None]), r"the stratum is missing in 1 row \(row numbers 2;"),
        (([1.0, 2.0, -7.5], 1, ["a", "b", "b"]), r"negative in 1 row \(row numbers 3;"),
        (([1.0, 0.0, 0.0, 2.0], {"a": 1, "b": 2}, [*"abbb"]), "n = 2 is not .* the 1 units of positive size of a str"),
    ],
)
def test_what_has_no_answer_is_refused(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        inclusion_probabilities(*arguments)
    assert "7.5" not in str(caught.value)


def test_nothing_of_nothing():
    assert inclusion_probabilities([], 0).shape == (0,)
    with pytest.warns(UserWarning, match="2 units have size 0"):
        np.testing.assert_array_equal(inclusion_probabilities([0.0, 0.0], 0), [0, 0])


def test_zeros_are_warned_of():
    with pytest.warns(UserWarning, match="2 units have size 0 and are never selected") as caught:
        assert (inclusion_probabilities([0.0, 1.0, 0.0, 2.0], 1)[[0, 2]] == 0).all()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inclusion_probabilities([1.0, 2.0], 1)


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
