"""Normal scores: knots against numpy's and brute-force quantiles, the map against its definition, and refusals."""

import bisect
import json
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.interpolate import PchipInterpolator

from surveysynth import FBS, AsinhTransform, IdentityTransform, InputError, LogTransform, SurveyDesign
from surveysynth.datasets.census import census_workers
from surveysynth.models.scales.normal_scores import NormalScores

BASES = [LogTransform(), AsinhTransform(scale=500.0), IdentityTransform(scale=300.0)]
Z5 = [-2.0, -1.0, 0.0, 1.0, 2.0]
P5 = stats.norm.cdf(Z5).tolist()


def heavy(n, seed):
    """Lognormal mixture: skewed logs with heavy tails."""
    rng = np.random.default_rng(seed)
    rare = rng.random(n) < 0.2
    return np.exp(np.where(rare, rng.normal(0.8, 1.2, n), rng.normal(0, 0.4, n)) + 6)


def spread(K=70, outer=0.001):
    """The probabilities of the knots, evenly spaced in arcsin sqrt(p)."""
    ends = np.arcsin(np.sqrt([outer, 1 - outer]))
    return np.sin(np.linspace(*ends, K)) ** 2


# ---- what the map is


@pytest.mark.parametrize("base", BASES, ids=str)
def test_a_normal_history_gives_standardisation(base):
    """Where the base scale is normal already, scores are (u - mean) / sd, tails included."""
    u = 3 + 0.7 * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    scores = NormalScores.from_historical(base.inverse(u), source="s", base=base)
    z = np.linspace(-5, 5, 201)
    found = scores.forward(base.inverse(3 + 0.7 * z))
    inside = np.abs(z) < 3
    np.testing.assert_allclose(found[inside], z[inside], atol=0.003)
    np.testing.assert_allclose(found, z, atol=0.02)


def test_scores_of_a_fresh_file_are_normal():
    """Skewness and excess kurtosis as far from 0 as the noise of both files allows."""
    history, fresh = heavy(40_000, 1), heavy(40_000, 2)
    z = NormalScores.from_historical(history, source="s").forward(fresh)
    error = np.sqrt(1 / 40_000 + 1 / 40_000)
    assert stats.kurtosis(np.log(fresh)) > 3 and stats.skew(np.log(fresh)) > 0.8
    assert abs(stats.skew(z)) < 4 * np.sqrt(6) * error
    assert abs(stats.kurtosis(z)) < 4 * np.sqrt(24) * error
    assert abs(z.mean()) < 4 * error and abs(z.std() - 1) < 4 * error / np.sqrt(2)


def test_scores_of_census_incomes_are_nearly_normal():
    """30% as history: log income has an excess kurtosis of 6; its scores 0.1, in 40 splits never above 0.7."""
    rng = np.random.default_rng(3)
    income = rng.permutation(census_workers()["income"].to_numpy())
    history, rest = income[:8850], income[8850:]
    z = NormalScores.from_historical(history, source="s").forward(rest)
    assert stats.kurtosis(np.log(rest)) > 5
    assert abs(stats.kurtosis(z)) < 0.4 and abs(stats.skew(z)) < 0.12
    assert np.abs(z).max() < 7  # 4.0 if exactly normal; logs reach 11 standard deviations
    assert np.abs(stats.zscore(np.log(rest))).max() > 9


def test_the_curve_is_pchip_between_knots_and_straight_beyond():
    """Slopes of the tails by hand: the chord over one unit of normal score."""
    scores = NormalScores(np.exp([0.0, 1, 2, 4, 7]), P5, "s")
    u = np.array([-2.0, -1, 0, 7, 8.5, 10])
    np.testing.assert_allclose(scores.forward(np.exp(u)), [-4, -3, -2, 2, 2.5, 3], atol=1e-12)
    np.testing.assert_allclose(scores.forward(np.exp([0.0, 1, 2, 4, 7])), Z5, atol=1e-12)
    close = NormalScores(np.exp([0.0, 0.1, 1, 5, 5.2]), stats.norm.cdf([-2, -1.8, -1, 1.2, 2]), "s")
    assert close.forward(np.exp([-1.0])) == pytest.approx(-3)  # z = -1 is at u = 1
    inner = 5 - 0.2 / 2.2 * 4  # z = 1, on the chord from (1, -1) to (5, 1.2)
    assert close.forward(np.exp([6.2])) == pytest.approx(2 + 1 / (5.2 - inner))
    knots = np.linspace(1, 3, 30)
    smooth = NormalScores(np.exp(knots), stats.norm.cdf(np.sinh(knots - 2)), "s")
    middle = np.linspace(knots[1], knots[-2], 300)
    expected = PchipInterpolator(knots, np.sinh(knots - 2))(middle)
    np.testing.assert_allclose(smooth.forward(np.exp(middle)), expected, atol=1e-12)


@st.composite
def rugged(draw):
    """Any knots with 4 digits and probabilities of 4 decimals: cliffs beside plateaus."""
    numbers = st.builds(lambda a, e: float(f"{a}e{e}"), st.integers(1000, 9999), st.integers(-4, 3))
    amounts = draw(st.lists(numbers, min_size=5, max_size=12, unique=True))
    p = draw(st.lists(st.integers(1, 9999), min_size=len(amounts), max_size=len(amounts), unique=True))
    return NormalScores(sorted(amounts), [k / 10_000 for k in sorted(p)], "s")


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(rugged(), st.lists(st.floats(-6, 6), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_monotone_and_inverse_of_each_other(scores, z, random):
    u = np.log(scores.amounts)
    grid = np.sort([random.uniform(u[0] - 1, u[-1] + 1) for _ in range(50)] + u.tolist())
    grid = grid[np.append(True, np.diff(grid) > 1e-6)]
    forward = scores.forward(np.exp(grid))
    flattest = (np.diff(stats.norm.ppf(scores.probabilities)) / np.diff(u)).min()
    assert (np.diff(forward) > 0.49 * flattest * np.diff(grid)).all()  # so the inverse is well conditioned
    np.testing.assert_allclose(np.log(scores.inverse(forward)), grid, rtol=1e-9, atol=1e-9)
    z = np.array(z)
    if flattest > 0.02:  # else amounts leave the range of floating point
        np.testing.assert_allclose(scores.forward(scores.inverse(z)), z, rtol=1e-9, atol=1e-9)
        assert (np.diff(scores.inverse(np.unique(np.round(z, 6)))) > 0).all()


@pytest.mark.parametrize("base", BASES, ids=str)
def test_round_trip_of_a_whole_file(base):
    y = base.inverse(np.random.default_rng(4).standard_t(3, 50_000) + 2)
    scores = NormalScores.from_historical(y, source="s", base=base)
    np.testing.assert_allclose(scores.inverse(scores.forward(y)), y, rtol=1e-9, atol=1e-9)
    z = np.linspace(-6, 6, 10_001)
    np.testing.assert_allclose(scores.forward(scores.inverse(z)), z, rtol=1e-9, atol=1e-9)


def test_no_image_is_nan():
    scores = NormalScores(np.exp([0.0, 1, 2, 4, 7]), P5, "s")
    np.testing.assert_array_equal(np.isnan(scores.forward(np.array([0.0, -3, np.nan, 5]))), [True, True, True, False])
    assert np.isnan(scores.inverse(np.array([np.nan, 0.0]))).tolist() == [True, False]


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 10.0, 1e4])
def test_scores_do_not_depend_on_the_unit(unit):
    y, fresh = heavy(3000, 5), heavy(500, 6)
    for base, other in (
        (LogTransform(), LogTransform()),
        (AsinhTransform(scale=50.0), AsinhTransform(scale=50 * unit)),
    ):
        one = NormalScores.from_historical(y, source="s", base=base)
        two = NormalScores.from_historical(y * unit, source="s", base=other)
        np.testing.assert_allclose(two.amounts, np.multiply(one.amounts, unit), rtol=1e-12)
        np.testing.assert_allclose(two.forward(fresh * unit), one.forward(fresh), rtol=1e-7, atol=1e-9)


# ---- where the knots come from


def test_knots_of_different_values_are_numpys_hazen_quantiles():
    u = np.log(heavy(9000, 7))
    scores = NormalScores.from_historical(np.exp(u), source="s")
    expected = np.exp(np.quantile(u, spread(), method="hazen"))
    assert scores.amounts == tuple(float(f"{a:.4g}") for a in expected)
    F = np.interp(np.log(scores.amounts), np.sort(u), (np.arange(9000) + 0.5) / 9000)
    np.testing.assert_allclose(scores.probabilities, F, atol=1e-6)
    np.testing.assert_allclose(scores.probabilities, spread(), atol=5e-4)
    assert not set(scores.amounts) & set(np.exp(u))


def by_counting(values, weights, amount):
    """Mid-distribution function in whole numbers, from the list with each record w times; log-linear between."""
    expanded = sorted(v for v, w in zip(values, weights, strict=True) for _ in range(w))
    different = sorted(set(expanded))

    def F(v):
        return Fraction(bisect.bisect_left(expanded, v) + bisect.bisect_right(expanded, v), 2 * len(expanded))

    above = bisect.bisect_left(different, amount)
    if above == len(different) or different[above] == amount or above == 0:
        return float(F(different[min(above, len(different) - 1)]))
    low, high = different[above - 1], different[above]
    return float(F(low)) + float(F(high) - F(low)) * math.log(amount / low) / math.log(high / low)


def test_weighted_quantiles_are_those_of_the_expanded_file():
    """Whole-number weights, heaps at round amounts: as if every record were there w times, in any order."""
    rng = np.random.default_rng(8)
    y = np.round(heavy(8000, 8) / 20) * 20 + 20
    w = rng.integers(1, 4, y.size)
    scores = NormalScores.from_historical(y, source="s", weights=w)
    counted = [by_counting(y.tolist(), w.tolist(), a) for a in scores.amounts]
    np.testing.assert_allclose(scores.probabilities, counted, atol=1e-6)
    assert len(scores.amounts) == 70 and np.isin(scores.amounts, y).sum() < 10
    np.testing.assert_allclose(scores.probabilities, spread(), atol=0.005)
    order = rng.permutation(y.size)
    assert scores == NormalScores.from_historical(y[order], source="s", weights=7.5 * w[order])
    assert scores == NormalScores.from_historical(np.repeat(y, w), source="s")
    assert scores != NormalScores.from_historical(y, source="s")


def test_heaps_become_one_knot_in_the_middle_of_their_share():
    rng = np.random.default_rng(9)
    topped = np.minimum(np.exp(rng.normal(6, 1, 10_000)), 1500.0)
    share = (topped == 1500).mean()
    scores = NormalScores.from_historical(topped, source="s")
    assert scores.amounts[-1] == 1500 and scores.probabilities[-1] == pytest.approx(1 - share / 2, abs=1e-6)
    zeros = np.where(rng.random(10_000) < 0.3, 0.0, rng.normal(100, 50, 10_000))
    zeros = np.where(zeros < 0, 0.0, zeros)
    scores = NormalScores.from_historical(zeros, source="s", base=AsinhTransform(scale=10.0))
    assert scores.amounts[0] == 0
    assert scores.probabilities[0] == pytest.approx((zeros == 0).mean() / 2, abs=1e-6)
    contract = np.where(rng.random(10_000) < 0.5, 1234.0, np.exp(rng.normal(7, 1, 10_000)))
    scores = NormalScores.from_historical(contract, source="s")
    assert len(set(scores.amounts)) == len(scores.amounts) < 60
    middle = (contract < 1234).mean() + (contract == 1234).mean() / 2
    assert scores.forward(np.array([1234.0])) == pytest.approx(stats.norm.ppf(middle), abs=0.01)
    z = scores.inverse(stats.norm.ppf(middle + np.array([-0.2, 0.2])))
    np.testing.assert_allclose(z, 1234, rtol=0.002)  # half of what is drawn comes back to the heap


def test_a_small_history_has_five_records_beyond_its_outer_knots():
    y = heavy(1000, 10)
    scores = NormalScores.from_historical(y, source="s")
    assert scores.probabilities[0] == pytest.approx(0.005, abs=1e-5) == 1 - scores.probabilities[-1]
    assert (y < scores.amounts[0]).sum() == 5 == (y > scores.amounts[-1]).sum()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": heavy(999, 1)}, "70 knots need a historical file of 1,000 records; this one has 999$"),
        ({"knots": 80, "values": heavy(1100, 1)}, "80 knots need a historical file of 1,120 records; this one has 1,1"),
        ({"weights": np.r_[1e3, np.ones(1999)]}, r"this one has 2,000, worth 9 with these weights"),
        ({"knots": 4}, "knots must be a whole number, 5 or more"),
        ({"knots": 70.0}, "knots must be a whole number"),
        ({"values": np.r_[heavy(1999, 1), np.nan]}, r"values are missing in 1 row \(row numbers 2000;"),
        (
            {"values": np.r_[0.0, -4471.3, heavy(1998, 1)]},
            r"no log in 2 rows \(row numbers 1, 2;.*surveysynth.AsinhTransform",
        ),
        ({"values": np.r_[np.inf, heavy(1999, 1)]}, "no log in 1 row"),
        ({"values": ["4471.3 dollars"] * 2000}, "values must be a column of numbers"),
        ({"values": np.ones((2000, 2))}, "values must be a column of numbers"),
        ({"weights": np.ones(3)}, "values and weights differ in length: 2,000 and 3"),
        ({"weights": np.r_[0.0, np.nan, np.ones(1998)]}, r"weights are not positive and finite in 2 rows"),
        ({"values": np.full(2000, 4471.3)}, "fewer than 5 different ones"),
        ({"values": np.repeat([4471.3, 1.0], 1000)}, "fewer than 5 different ones"),
        ({"values": np.linspace(4471.3, 4471.4, 2000)}, "fewer than 5 different ones"),
        ({"source": " "}, "source must say which"),
        ({"source": None}, "source must say which"),
        ({"base": "asinh"}, "asinh needs a public scale"),
        ({"base": "sqrt"}, "transform='sqrt' is not one of"),
        ({"base": NormalScores([1.0, 2, 3, 4, 5], P5, "s")}, "base must be one of"),
    ],
)
def test_histories_that_are_refused(changes, message):
    arguments = {"values": heavy(2000, 1), "source": "s"} | changes
    with pytest.raises(InputError, match=message) as caught:
        NormalScores.from_historical(arguments.pop("values"), **arguments)
    assert "4471" not in str(caught.value) and "4471" not in str(caught.value.__context__)


@pytest.mark.parametrize(
    ("amounts", "probabilities", "message"),
    [
        ([1.0, 2, 3, 4], P5[:4], "same length, 5 or more"),
        ([1.0, 2, 3, 4, 5], P5[:4], "same length"),
        ([1.0, 2, 2, 4, 5], P5, "amounts must be finite numbers, each larger"),
        ([1.0, 2, 3, 4, np.inf], P5, "amounts must be finite numbers"),
        ([1.0, 2, 3, 4, 5], [0.1, 0.3, 0.2, 0.4, 0.5], "probabilities must be finite numbers, each larger"),
        ([1.0, 2, 3, 4, 5], [0.0, 0.1, 0.2, 0.3, 0.4], "between 0 and 1"),
        ([0.0, 2, 3, 4, 5], P5, "amounts on the log scale must be finite"),
        (["1", "2", "3", "4", "5"], P5, "amounts must be a list of numbers"),
        ([[1.0, 2, 3, 4, 5]], P5, "amounts must be finite numbers"),
        (5, P5, "amounts must be a list of numbers"),
    ],
)
def test_knots_that_are_refused(amounts, probabilities, message):
    with pytest.raises(InputError, match=message):
        NormalScores(amounts, probabilities, "published deciles")


@pytest.mark.parametrize("bounds", [True, (1,), (5, 1), ("0", "9"), (0, np.inf)])
def test_bounds_that_are_refused(bounds):
    with pytest.raises(InputError, match="bounds of 'published deciles' are two public numbers"):
        NormalScores([1.0, 2, 3, 4, 5], P5, "published deciles", bounds=bounds)


# ---- not from the file itself


def test_a_file_that_made_the_knots_is_recognised():
    """In any order, repeated, with missing values, with and without weights, and with few records changed."""
    rng = np.random.default_rng(11)
    y, w = np.round(heavy(2000, 11)), rng.lognormal(0, 0.5, 2000)
    for weights in (None, w):
        scores = NormalScores.from_historical(y, source="s", weights=weights)
        order = rng.permutation(2000)
        assert scores.made_from(y[order], w[order])
        assert scores.made_from(np.r_[y, y], np.r_[w, w])
        assert scores.made_from(np.r_[y, np.nan, 0.0, -1.0], np.r_[w, 1.0, 2.0, np.nan])
        assert scores.made_from(pd.Series(y, index=order), pd.Series(w, index=order))
        assert scores.made_from(y[order[40:]], w[order[40:]])
        assert scores.made_from(np.r_[y, heavy(40, 12)], np.r_[w, rng.choice(w, 40)])
    assert NormalScores.from_historical(y, source="s").made_from(y)
    assert not NormalScores.from_historical(y, source="s", weights=y**0.5).made_from(y)


def test_other_files_of_the_same_distribution_are_not_accused():
    scores = NormalScores.from_historical(heavy(3000, 13), source="s")
    assert not any(scores.made_from(heavy(n, 100 + k)) for k in range(150) for n in (50, 2000))
    ideal = NormalScores(np.exp(stats.norm.ppf(spread())), spread(), "published quantiles")
    rng = np.random.default_rng(14)
    distance = np.array([ideal._distance(rng.standard_normal(500), np.ones(500)) for _ in range(4000)])
    assert abs(distance.mean() - 1 / 6) < 4 * np.sqrt(1 / 45 / 4000) + 0.003  # Cramer-von Mises, a little cut off
    assert distance.min() > 0.01
    for nobody in ([], [np.nan], [-1.0]):
        assert not scores.made_from(nobody)
    with pytest.raises(InputError, match="values must be a column of numbers"):
        scores.made_from(["a"])


# ---- the policy file


@pytest.mark.parametrize("base", BASES, ids=str)
def test_a_policy_is_read_back_as_it_was(base, tmp_path):
    y = base.inverse(np.random.default_rng(15).normal(1, 1, 2000))
    scores = NormalScores.from_historical(y, source="Einkünfte 2019", base=base)
    scores.save(tmp_path / "scores.json")
    back = NormalScores.load(str(tmp_path / "scores.json"))
    assert back == scores and hash(back) == hash(scores)
    np.testing.assert_array_equal(back.forward(y), scores.forward(y))
    assert pickle.loads(pickle.dumps(scores)) == scores
    assert back.describe().split()[0] == "normal-score"
    assert "of Einkünfte 2019 (densities per unit of normal score" in back.describe()


def test_damaged_policies_are_refused(tmp_path):
    path = tmp_path / "scores.json"
    NormalScores([1.0, 2, 3, 4, 5], P5, "s", AsinhTransform(scale=2.0)).save(path)
    good = json.loads(path.read_text())
    without = {k: v for k, v in good.items() if k != "source"}
    for damaged, message in (
        (good | {"format": "surveysynth normal scores, version 2"}, "not a file of .* version 1"),
        ([1, 2], "not a file of"),
        (without, "must have the fields"),
        (good | {"seed": 1}, "must have the fields"),
        (good | {"source": 3}, "source must say"),
        (good | {"amounts": good["amounts"][::-1]}, "each larger"),
        (good | {"amounts": ["1", "2", "3", "4", "5"]}, "list of numbers"),
        (good | {"amounts": [False, True, 3, 4, 5]}, "list of numbers"),
        (good | {"amounts": [1, 2, 3, 4, 10**400]}, "list of numbers"),
        (good | {"amounts": None}, "list of numbers"),
        (good | {"probabilities": [0.1, 0.2, 0.3, 0.4, 1.0]}, "between 0 and 1"),
        (good | {"probabilities": P5[:4]}, "same length"),
        (good | {"base": "log"}, "base must have a name"),
        (good | {"base": {"scale": 1}}, "base must have a name"),
        (good | {"base": {"name": ["log"]}}, "name of the base must be a text"),
        (good | {"base": {"name": "asinh"}}, "needs a public scale"),
        (good | {"base": {"name": "asinh", "scale": "x"}}, "must be a number"),
        (good | {"base": {"name": "log", "scale": 2.0}}, "log transform has no scale"),
    ):
        path.write_text(json.dumps(damaged))
        with pytest.raises(InputError, match=message):
            NormalScores.load(path)
    path.write_text(json.dumps(good)[:-20])
    with pytest.raises(InputError, match="cannot be read as normal scores"):
        NormalScores.load(path)
    with pytest.raises(InputError, match="cannot be read as normal scores"):
        NormalScores.load(tmp_path / "nothing.json")
    with pytest.raises(InputError, match="cannot be written"):
        NormalScores([1.0, 2, 3, 4, 5], P5, "s").save(tmp_path / "no" / "folder.json")


# ---- in a model


def test_a_model_works_on_the_scores():
    rng = np.random.default_rng(16)
    frame = pd.DataFrame({"g": list("ab") * 100, "y": heavy(200, 17), "w": rng.lognormal(0, 0.3, 200)})
    scores = NormalScores.from_historical(heavy(2000, 18), source="last year")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = FBS("y", "g", transform=scores).prepare(SurveyDesign(frame, weights="w"))
    np.testing.assert_array_equal(data.Y[:, 0], scores.forward(frame["y"].to_numpy()))
    frame.loc[3, "y"] = 0
    with pytest.raises(InputError, match=r"outcome 'y' has no normal-score in 1 row \(row numbers 4;"):
        FBS("y", "g", transform=scores).prepare(SurveyDesign(frame, weights="w"))
