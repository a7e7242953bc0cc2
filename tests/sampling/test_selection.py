"""Selected samples: frequencies of units, pairs and whole samples, and what holds for every one of them."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from frequencies import (
    assert_frequencies,
    assert_samples,
    brewer_samples,
    conditional_poisson_samples,
    elimination_samples,
    indicators,
    pairs,
)

from surveysynth import InputError
from surveysynth.sampling import (
    brewer,
    conditional_poisson,
    inclusion_probabilities,
    joint_probabilities,
    maximum_entropy,
    multinomial,
    poisson,
    random_systematic,
    simple_random,
    systematic,
    tille,
)

FIXED_SIZE = [systematic, random_systematic, brewer, tille, maximum_entropy]
DRAWS = 20_000


def sampler(method, pi, rng):
    """A function that draws a sample; what maximum entropy needs of pi is computed once."""
    if method is maximum_entropy:
        fitted = conditional_poisson(pi)
        return lambda: fitted.draw(rng)
    return lambda: method(pi, rng)


def twenty_units(rng):
    """20 units, of which one is certain at least, another impossible and a third nearly certain; n = 7."""
    size = rng.lognormal(0, 0.8, 20)
    size[[2, 11, 16]] = 300, 0, 0
    pi = np.zeros(20)
    pi[16] = 0.998
    rest = np.delete(np.arange(20), 16)
    with pytest.warns(UserWarning, match="size 0"):
        pi[rest] = inclusion_probabilities(size[rest], 6)
    others = (pi > 0) & (pi < 1) & (np.arange(20) != 16)
    pi[others] *= 1 + 0.002 / pi[others].sum()
    assert pi.sum() == pytest.approx(7) and pi.max() == 1 == (pi == 0).sum()
    return pi


@pytest.mark.slow
@pytest.mark.parametrize("method", [*FIXED_SIZE, poisson])
def test_units_and_pairs_come_as_often_as_they_should(method):
    rng = np.random.default_rng(FIXED_SIZE.index(method) if method in FIXED_SIZE else 9)
    pi = twenty_units(rng)
    chosen = indicators(sampler(method, pi, rng), 20, DRAWS)
    assert_frequencies(chosen.sum(axis=0), DRAWS, pi)
    if method is not poisson:
        assert (chosen.sum(axis=1) == 7).all()
    if method not in (random_systematic, brewer):
        joint = joint_probabilities(pi, method.__name__)
        upper = np.triu_indices(20, 1)
        assert_frequencies((chosen.T @ chosen)[upper], DRAWS, joint[upper])


@pytest.mark.slow
@pytest.mark.parametrize("method", FIXED_SIZE)
@pytest.mark.parametrize("n", [1, 2, 12, 19])
def test_equal_probabilities_and_samples_of_nearly_none_or_nearly_all(method, n):
    rng = np.random.default_rng(n)
    for pi in (np.full(20, n / 20), inclusion_probabilities(rng.uniform(1, 1.04, 20), n)):
        chosen = indicators(sampler(method, pi, rng), 20, 4000)
        assert (chosen.sum(axis=1) == n).all()
        assert_frequencies(chosen.sum(axis=0), 4000, pi)


@pytest.mark.slow
def test_brewer_draws_by_its_tree():
    """Whole samples against the tree of all draws in fractions; one unit has pi = 0.99, which most draws propose."""
    rng = np.random.default_rng(31)
    for hundredths in ([30, 55, 99, 70, 46], [5, 10, 60, 85, 40], [50, 50, 50, 25, 25], [99, 98, 97, 3, 3]):
        exact = [Fraction(h, 100) for h in hundredths]
        samples = brewer_samples(exact)
        first_order = [sum(p for sample, p in samples.items() if k in sample) for k in range(5)]
        assert first_order == exact  # the tree is Brewer's
        pi = np.array(hundredths) / 100
        chosen = indicators(lambda pi=pi: brewer(pi, rng), 5, DRAWS)
        assert_samples(chosen, samples)
        upper = np.triu_indices(5, 1)
        assert_frequencies((chosen.T @ chosen)[upper], DRAWS, pairs(samples, 5)[upper])


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [[1, 2, 3, 4, 5, 9], [1, 1, 1, 1, 20, 21], [1, 2, 2, 3, 3, 3], [1, 5, 30, 200, 900, 999]]
)
def test_tille_eliminates_by_its_definition(size):
    rng = np.random.default_rng(32)
    pi = inclusion_probabilities(size, 2)
    samples = elimination_samples(pi, inclusion_probabilities)
    np.testing.assert_allclose(pairs(samples, 6).diagonal(), pi)  # the definition is right
    np.testing.assert_allclose(joint_probabilities(pi, "tille"), pairs(samples, 6), atol=1e-15)
    assert_samples(indicators(lambda: tille(pi, rng), 6, DRAWS), samples)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_maximum_entropy_samples_have_the_products_of_odds(n):
    """Of 6 units and of 40 (where a part of the units is drawn before the others), against all samples."""
    rng = np.random.default_rng(33 + n)
    pi = inclusion_probabilities(rng.lognormal(0, 0.6, 6), n)
    pi = pi if (pi < 1).all() else np.full(6, n / 6)
    fitted = conditional_poisson(pi)
    samples = conditional_poisson_samples(fitted.odds, n)
    np.testing.assert_allclose(pairs(samples, 6).diagonal(), pi, rtol=1e-12)
    assert_samples(indicators(lambda: fitted.draw(rng), 6, DRAWS), samples)


def test_maximum_entropy_of_many_units_in_parts():
    """How many come from a group of units, against counting: every second unit, and groups at the end of the file."""
    rng = np.random.default_rng(34)
    pi = inclusion_probabilities(rng.lognormal(0, 0.3, 150), 60)
    assert (pi < 1).all()
    fitted = conditional_poisson(pi)
    p = fitted.odds / (1 + fitted.odds)
    chosen = indicators(lambda: fitted.draw(rng), 150, DRAWS)

    def size(p):
        pmf = np.ones(1)
        for p_k in p:
            pmf = np.convolve(pmf, [1 - p_k, p_k])
        return np.append(pmf, np.zeros(151))

    for group in (np.arange(150) % 2 == 0, *(np.arange(150) >= start for start in (75, 115, 125, 130, 135, 145))):
        inside, outside = size(p[group]), size(p[~group])
        together = inside[:61] * outside[60::-1]
        together /= together.sum()
        count = np.bincount(chosen[:, group].sum(axis=1).astype(int), minlength=61)
        assert_frequencies(count, DRAWS, np.where(together < 1e-11, 0, together))


def test_poisson_samples_have_a_random_size():
    rng = np.random.default_rng(35)
    pi = np.array([0.0, 0.3, 1.0, 0.45])
    sizes = [poisson(pi, rng).size for _ in range(DRAWS)]
    assert_frequencies(np.bincount(sizes, minlength=4), DRAWS, [0, 0.7 * 0.55, 0.3 * 0.55 + 0.7 * 0.45, 0.3 * 0.45])


def test_simple_random_samples_are_equally_probable():
    rng = np.random.default_rng(36)
    chosen = indicators(lambda: simple_random(6, 2, rng), 6, DRAWS)
    assert_samples(chosen, conditional_poisson_samples(np.ones(6), 2))


def test_draws_with_replacement():
    rng = np.random.default_rng(37)
    size = np.array([0.0, 1.0, 3.0, 0.0, 6.0, 0.0])
    drawn = np.array([multinomial(size, 4, rng) for _ in range(5000)])
    assert (np.diff(drawn, axis=1) >= 0).all()
    assert_frequencies(np.bincount(drawn.ravel(), minlength=6), drawn.size, size / 10)
    assert_frequencies((drawn == 1).all(axis=1).sum(), 5000, 0.1**4)  # draws are independent
    assert_frequencies((drawn == 4).all(axis=1).sum(), 5000, 0.6**4)


def test_random_systematic_samples_do_not_know_the_order():
    """Neighbours of equal pi are drawn together as often as others; in the order of the file they never are."""
    rng = np.random.default_rng(38)
    pi = np.full(6, 1 / 3)
    upper = np.triu_indices(6, 1)
    chosen = indicators(lambda: random_systematic(pi, rng), 6, DRAWS)
    assert_frequencies((chosen.T @ chosen)[upper], DRAWS, np.full(15, 1 / 15))
    chosen = indicators(lambda: systematic(pi, rng), 6, 500)
    assert (chosen[:, 0] * chosen[:, 1]).sum() == 0


@pytest.mark.parametrize("method", FIXED_SIZE)
@pytest.mark.parametrize(
    ("pi", "sample"),
    [
        ([], []),
        ([0.0, 0.0], []),
        ([1.0], [0]),
        ([0.0, 1.0, 0.0, 1.0], [1, 3]),
        ([1.0, 1.0, 1.0], [0, 1, 2]),
        ([1 - 1e-9, 1 - 1e-9, 0.0], [0, 1]),  # within the tolerance of whole numbers
        ([1.0, 0.0, 1e-12], [0]),
    ],
)
def test_samples_without_a_choice(method, pi, sample):
    assert method(pi, np.random.default_rng(1)).tolist() == sample


@pytest.mark.parametrize("method", FIXED_SIZE)
def test_a_unit_that_is_certain_but_for_rounding(method):
    rng = np.random.default_rng(39)
    pi = np.array([1 - 1e-14, 0.5, 0.5 + 1e-14, 1e-14, 1 - 1e-14])
    for _ in range(200):
        drawn = method(pi, rng)
        assert drawn.size == 3 and {0, 4} < set(drawn.tolist()) and 3 not in drawn


def test_sizes_so_small_that_the_others_are_certain_but_for_rounding():
    rng = np.random.default_rng(41)
    for large in range(1, 10):
        for n in range(1, 10):
            pi = inclusion_probabilities([1.0] * large + [1e-15] * (10 - large), n)
            joint = joint_probabilities(pi, "maximum_entropy")
            np.testing.assert_allclose(joint.sum(axis=1), n * pi, atol=1e-10)
            assert maximum_entropy(pi, rng).size == n


@pytest.mark.slow
@pytest.mark.parametrize("N", [1, 3, 10, 1000, 100_003])
def test_systematic_sample_size_survives_rounding(N):
    rng = np.random.default_rng(N)
    for n in {1, N // 3, N}:
        pi = inclusion_probabilities(rng.lognormal(0, 1, N), n)
        starts = [0.0, 1e-17, 1 - 2.0**-53, *rng.random(17)]
        for start in starts:
            drawn = systematic(pi, SimpleNamespace(random=lambda start=start: start))
            assert drawn.size == n == np.unique(drawn).size and (pi[drawn] > 0).all()
            assert set(np.flatnonzero(pi == 1)) <= set(drawn.tolist())


def test_systematic_selection_of_given_starts():
    """Unit k is drawn where the start plus the cumulated pi passes a whole number."""
    pi = np.array([0.4, 0.3, 1.0, 0.8, 0.5])
    for start, sample in {0.1: [2, 3, 4], 0.35: [1, 2, 4], 0.55: [1, 2, 3], 0.65: [0, 2, 3], 0.85: [0, 2, 3]}.items():
        assert systematic(pi, SimpleNamespace(random=lambda start=start: start)).tolist() == sample
    assert systematic([0.5, 0.5], SimpleNamespace(random=lambda: 0.5)).tolist() == [0]  # it need not pass, only reach
    assert systematic([0.5, 0.5], SimpleNamespace(random=lambda: 0.0)).tolist() == [1]


@pytest.mark.parametrize("method", FIXED_SIZE)
@pytest.mark.parametrize("pi", [[0.5, 0.3], [0.5, -0.1, 0.6], [1.5, 0.5], [np.nan, 1.0], [[0.5, 0.5]]])
def test_selection_needs_probabilities_that_add_up_to_a_size(method, pi):
    with pytest.raises(InputError, match="probabilities between 0 and 1 that add up to a whole number"):
        method(np.array(pi), np.random.default_rng(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: poisson([0.5, 1.5], rng), "probabilities between 0 and 1"),
        (lambda rng: simple_random(5, 6, rng), "n = 6 is not between 0 and the 5 units"),
        (lambda rng: simple_random(5, -1, rng), "n = -1 is not between 0 and the 5 units"),
        (lambda rng: multinomial([1.0, -2.5], 3, rng), r"not finite or negative in 1 row \(row numbers 2;"),
        (lambda rng: multinomial([1.0, np.nan], 3, rng), r"missing, .* in 1 row \(row numbers 2;"),
        (lambda rng: multinomial([0.0, 0.0], 3, rng), "all sizes are 0"),
        (lambda rng: multinomial([1.0], -1, rng), "n = -1 is negative"),
    ],
)
def test_what_cannot_be_drawn(call, message):
    with pytest.raises(InputError, match=message):
        call(np.random.default_rng(1))


def test_nothing_is_drawn():
    rng = np.random.default_rng(1)
    assert simple_random(5, 0, rng).size == simple_random(0, 0, rng).size == multinomial([0.0], 0, rng).size == 0
    for u in (0.0, 1 - 2.0**-53):
        extreme = SimpleNamespace(random=lambda n, u=u: np.full(n, u))
        assert multinomial([0.0, 2.0, 0.0], 3, extreme).tolist() == [1, 1, 1]


@pytest.mark.parametrize("method", [*FIXED_SIZE, poisson])
def test_a_million_units(method):
    """Certain units are drawn, n is met, and counts by tenths of pi vary less than independent units would."""
    rng = np.random.default_rng(40)
    pi = inclusion_probabilities(rng.lognormal(3, 1.6, 10**6), 100_000)
    drawn = method(pi, rng)
    assert (np.diff(drawn) > 0).all() and (method is poisson or drawn.size == 100_000)
    assert 1000 < (pi == 1).sum() == (pi[drawn] == 1).sum()
    tenth = np.argsort(np.argsort(pi)) // 100_000
    expected = np.bincount(tenth, pi)
    error = np.bincount(tenth[drawn], minlength=10) - expected
    assert (np.abs(error) < 4.5 * np.sqrt(np.bincount(tenth, pi * (1 - pi)))).all()
