"""The perturbed histogram: how far a record moves it, the size of its noise, what is drawn from it, the release."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, laplace
from surveys import make_design, make_frame

import surveysynth as ss
from surveysynth import InputError, SurveyDesign
from surveysynth.synthesis import histogram
from surveysynth.synthesis.histogram import perturbed_histogram
from tests.conftest import queries_of

BOUNDS = (0.0, 100_000.0)
FALSE_ALARM = 1e-7
SETTINGS = {"epsilon": 1.5, "bounds": BOUNDS, "population_total": 24_000}


def equal_design(n=400):
    return SurveyDesign(make_frame(n).assign(wt=60.0), weights="wt", strata="field")


@pytest.fixture
def noisy(monkeypatch):
    """The noisy histograms that data sets are drawn from."""
    seen, original = [], histogram.draw

    def draw(D, limits, n, rng):
        seen.append(D)
        return original(D, limits, n, rng)

    monkeypatch.setattr(histogram, "draw", draw)
    return seen


@pytest.fixture
def silent(monkeypatch):
    """No noise, and every query on record: (values, sensitivity, epsilon)."""
    return queries_of(histogram, monkeypatch)


# ---- noise and sensitivity


@pytest.mark.slow
@pytest.mark.parametrize("weight_bound", [None, 90.0])
def test_noise_has_the_scale_of_one_record_added_or_removed(noisy, weight_bound):
    """1 / epsilon, or weight_bound / epsilon, in 100,000 bins; a scale that is 30% off is told from it."""
    design = equal_design() if weight_bound is None else make_design()
    frame, epsilon = design.frame, 0.7
    settings = SETTINGS | {"epsilon": epsilon, "bins": 100_000, "m": 2, "weight_bound": weight_bound}
    perturbed_histogram(design, "income", **settings)
    assert len(noisy) == 2 and noisy[0] is noisy[1]  # one histogram for all data sets
    w = None if weight_bound is None else frame["wt"].clip(upper=weight_bound)
    exact, _ = np.histogram(frame["income"].clip(*BOUNDS), 100_000, BOUNDS, weights=w)
    scale = (weight_bound or 1) / epsilon
    p = {factor: kstest(noisy[0] - exact, laplace(0, factor * scale).cdf).pvalue for factor in (1, 1.3, 1 / 1.3)}
    assert p[1] > FALSE_ALARM and max(p[1.3], p[1 / 1.3]) < 1e-100, p
    # Hu, Williams & Savitsky (2025) write scale 2 / epsilon, for a record replaced: ours at half of that epsilon
    assert kstest(noisy[0] - exact, laplace(0, (weight_bound or 1) * 2 / (2 * epsilon)).cdf).pvalue == p[1]


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    n=st.integers(2, 12),
    k=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
    weight_bound=st.none() | st.floats(1e-3, 1e6),
    unit=st.sampled_from([1e-6, 1.0, 1e9]),
)
def test_privacy_loss_by_brute_force(n, k, seed, weight_bound, unit):
    """No record that is removed moves the histogram by more than its sensitivity, none replaced by more than twice."""
    rng = np.random.default_rng(seed)
    y, w = unit * rng.normal(0, 3, n), rng.lognormal(3, 3, n)
    limits = np.sort(rng.choice(50, k + 1, replace=False) - 25.0) * unit / 5
    bounded = np.ones(n) if weight_bound is None else np.minimum(w, weight_bound)
    full = histogram.histogram(y, bounded, limits)
    most = histogram.sensitivity(n - 1, weight_bound)
    moves = []
    for i in range(n):
        keep = np.arange(n) != i
        moves.append(np.abs(histogram.histogram(y[keep], bounded[keep], limits) - full).sum())
        copy = np.where(keep, np.arange(n), (i + 1) % n)
        replaced = histogram.histogram(y[copy], bounded[copy], limits)
        assert np.abs(replaced - full).sum() <= 2 * most
    assert max(moves) <= most <= (weight_bound or 1) * (1 + 1e-12)
    if weight_bound is None or (w >= weight_bound).any():
        assert max(moves) >= (weight_bound or 1) * (1 - 1e-9)  # and the bound is reached


def test_what_is_asked_of_the_noise(silent):
    """Sensitivity 1 and the whole epsilon, once, whatever m is; the weighted form has the rounding of sums on top."""
    perturbed_histogram(equal_design(), "income", m=7, **SETTINGS)
    perturbed_histogram(make_design(), "income", m=7, weight_bound=80.0, **SETTINGS)
    (_, counts, spent), (_, weighted, again) = silent
    assert (counts, spent, again) == (1.0, 1.5, 1.5)
    assert 80 * (1 + 2 * 401**2 * 2**-53) <= weighted <= 80 * (1 + 3 * 401**2 * 2**-53)


# ---- bins


def test_bins_by_hand(silent):
    """[lower, upper), the last one closed; values outside in the outer ones; weights cut at the bound."""
    frame = pd.DataFrame({"y": [-5.0, 0, 1, 1.999, 2, 7, 10, 11], "w": [1.0, 2, 3, 4, 5, 6, 7, 80]})
    design, settings = SurveyDesign(frame, weights="w"), {"epsilon": 1, "bounds": (0, 10), "population_total": 100}
    perturbed_histogram(design, "y", bins=[0, 1, 2, 7, 10], weight_bound=6.5, **settings)
    np.testing.assert_array_equal(silent[0][0], [1 + 2, 3 + 4, 5, 6 + 6.5 + 6.5])
    perturbed_histogram(design, "y", bins=5, weight_bound=100, **settings)
    np.testing.assert_array_equal(silent[1][0], [1 + 2 + 3 + 4, 5, 0, 6, 7 + 80])


@pytest.mark.parametrize(("n", "bins"), [(400, 20), (401, 21), (2, 2)])
def test_bins_are_the_square_root_of_n_unless_told(silent, n, bins):
    design = SurveyDesign(make_frame(n).assign(wt=60.0), weights="wt")
    release = perturbed_histogram(design, "income", **SETTINGS)
    assert silent[0][0].size == bins == math.ceil(math.sqrt(n))
    np.testing.assert_array_equal(release.method["limits"], np.linspace(0, 100_000, bins + 1))


# ---- what is drawn


def test_data_sets_follow_the_histogram_as_epsilon_grows():
    """Shares of bins of unequal length are those of the file, values uniform within; 60 data sets of 400."""
    limits = [0, 9_000, 15_000, 22_000, 26_000, 40_000, 100_000]
    release = perturbed_histogram(equal_design(), "income", **SETTINGS | {"epsilon": 1e6, "bins": limits, "m": 60})
    y = np.concatenate([data.frame["income"] for data in release.datasets])
    exact, _ = np.histogram(make_frame()["income"].clip(*BOUNDS), limits)
    drawn, _ = np.histogram(y, limits)
    assert chisquare(drawn, exact * 60).pvalue > FALSE_ALARM
    assert chisquare(drawn, (exact + 8) / (exact + 8).sum() * y.size).pvalue < FALSE_ALARM  # 2% of the file elsewhere
    bin = np.searchsorted(limits, y, side="right") - 1
    low, length = np.array(limits)[bin], np.diff(limits)[bin]
    assert kstest((y - low) / length, "uniform").pvalue > FALSE_ALARM
    assert len(set(y)) == y.size  # no value twice, and the data sets differ


def test_weighted_data_sets_follow_the_population_and_not_the_sample():
    """Informative weights: the mean of the synthetic values is the weighted one, but for the bins."""
    design = make_design(2000)
    settings = SETTINGS | {"epsilon": 1e6, "bins": 500, "m": 20, "weight_bound": design.weights.max()}
    table = perturbed_histogram(design, "income", **settings).tables(statistic="mean")
    truth = np.average(design.frame["income"].clip(*BOUNDS), weights=design.weights)
    sample = design.frame["income"].clip(*BOUNDS).mean()
    error = design.frame["income"].std() / math.sqrt(20 * 2000)
    assert abs(table["estimate"].item() - truth) < 5 * error + 100 < abs(sample - truth) / 2


def test_an_empty_noisy_histogram_is_uniform_by_length():
    rng, limits = np.random.default_rng(5), np.array([-1.0, 0, 4, 5])
    for D in (np.zeros(3), np.array([-2.0, -1e-9, -7])):
        drawn, _ = np.histogram(histogram.draw(D, limits, 60_000, rng), limits)
        assert chisquare(drawn, [10_000, 40_000, 10_000]).pvalue > FALSE_ALARM
    drawn, _ = np.histogram(histogram.draw(np.array([-5.0, 1, 3]), limits, 60_000, rng), limits)
    assert drawn[0] == 0 and chisquare(drawn[1:], [15_000, 45_000]).pvalue > FALSE_ALARM


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    D=st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5),
    low=st.floats(-1e9, 1e9),
    lengths=st.lists(st.floats(1e-6, 1e9), min_size=5, max_size=5),
    seed=st.integers(0, 2**32 - 1),
)
def test_values_stay_within_their_bounds(D, low, lengths, seed):
    limits = low + np.cumsum([0.0, *lengths[: len(D)]])
    assume((np.diff(limits) > 0).all())
    values = histogram.draw(np.array(D), limits, 50, np.random.default_rng(seed))
    assert (limits[0] <= values).all() and (values <= limits[-1]).all()


# ---- the release


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_release_is_written_and_read_back(tmp_path, format):
    release = perturbed_histogram(make_design(), "income", weight_bound=150, **SETTINGS)
    assert release.privacy.kind == "strict" and release.privacy.publishable and release.m == 3
    assert (release.privacy.epsilon, release.privacy.epsilon_replace_one) == (1.5, 3.0)
    for data in release.datasets:
        assert list(data.frame.columns) == ["income", "wt"] and data.n == 400
        assert data.design_columns == () and data.weights.sum() == pytest.approx(24_000)
        assert np.ptp(data.weights) == 0
    path = release.write(tmp_path / "release", format=format)
    again = ss.read_release(path)
    for old, new in zip(release.datasets, again.datasets, strict=True):
        pd.testing.assert_frame_equal(old.frame, new.frame)
    pd.testing.assert_frame_equal(again.tables(), release.tables())
    assert str(again.privacy) == str(release.privacy) and again.method["method"] == "Perturbed histogram"
    manifest = json.loads((path / "public" / "manifest.json").read_text())
    assert manifest["kind"] == "strict" and manifest["engine"]["name"] == "opendp"
    text = (path / "public" / "report.txt").read_text()
    for said in (
        "Strict", "the bounds, 0 to 100000", "150, is public", "m = 3",
        "blank one record's confidential values: epsilon = 1.5",
        "replace one record's confidential values: epsilon = 3",
    ):  # fmt: skip
        assert said in text, said


def test_nothing_of_the_file_is_in_the_release(tmp_path):
    """No value of any column; the confidential weights neither."""
    frame = make_frame()
    release = perturbed_histogram(make_design(), "income", weight_bound=150, **SETTINGS)
    for data in release.datasets:
        assert not set(data.frame["income"]) & set(frame["income"])
        assert not set(data.frame["wt"]) & set(frame["wt"])
    assert release.internal == {} and release.privacy.internal == {}
    assert perturbed_histogram(equal_design(), "income", **SETTINGS).method["weight_bound"] is None


@pytest.mark.parametrize("role", ["weights", "probs"])
def test_the_weight_has_a_column_of_its_own(role):
    frame = make_frame().assign(weight=lambda f: f["income"], wt=0.5)
    for outcome, name in (("income", "weight"), ("weight", "synthetic_weight")):
        release = perturbed_histogram(SurveyDesign(frame, **{role: "wt"}), outcome, **SETTINGS)
        columns = [outcome, "wt" if role == "weights" else name]
        assert list(release.datasets[0].frame.columns) == columns
        assert release.datasets[0].weights_name == columns[1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive number"),
        ({"m": 0}, "m must be a whole number"),
        ({"bounds": (5, 5)}, "bounds must be finite numbers, at least two, that rise"),
        ({"bounds": (0, math.inf)}, "bounds must be finite numbers"),
        ({"bounds": (-1e308, 1e308)}, "bounds are too far apart"),
        ({"bounds": (0, 5, 7)}, "bounds must be two numbers"),
        ({"bounds": "ab"}, "bounds must be finite numbers"),
        ({"bounds": (1, 1 + 1e-15), "bins": 50}, "so near that the bins have no length"),
        ({"bins": 0}, "bins must be a whole number"),
        ({"bins": True}, "bins must be a whole number"),
        ({"bins": 10**7}, "bins must be at most 1,000,000"),
        ({"bins": [0, 7, 5, 1e5]}, "bins must be finite numbers, at least two, that rise"),
        ({"bins": [0, 7, 5e4]}, "must begin and end with the bounds"),
        ({"weight_bound": -1}, "weight_bound must be a positive number"),
        ({"weight_bound": None}, "the survey weights are not all equal"),
        ({"population_total": None}, "population_total must be one public number"),
        ({"population_total": {"01": 5e5}}, "population_total must be one public number"),
        ({"population_total": 399}, "below the 400 records"),
        ({"outcome": "wt"}, "has a role in the design"),
        ({"outcome": "field"}, "has a role in the design"),
        ({"outcome": "gender"}, "is not a number"),
        ({"outcome": ["income"]}, "outcome must be the name of one column"),
        ({"outcome": "nothing"}, "there is no column 'nothing'"),
    ],
)
def test_arguments_are_checked(changed, message):
    arguments = {"outcome": "income", "weight_bound": 150} | SETTINGS | changed
    with pytest.raises(InputError, match=message):
        perturbed_histogram(make_design(), **arguments)


def test_missing_values_are_refused_by_row_number():
    frame = make_frame()
    frame.loc[[3, 7], "income"] = [np.nan, np.inf]
    with pytest.raises(InputError, match=r"missing or infinite in 2 rows \(row numbers 4, 8"):
        perturbed_histogram(SurveyDesign(frame, weights="wt"), "income", weight_bound=150, **SETTINGS)
    with pytest.raises(InputError, match="needs a SurveyDesign, not DataFrame"):
        perturbed_histogram(frame, "income", **SETTINGS)


def test_report_says_for_which_files_there_is_no_release():
    """What is refused above depends on confidential values, so that a release tells that it was not."""
    frame = make_frame()
    one = perturbed_histogram(SurveyDesign(frame, weights="wt"), "income", weight_bound=150, **SETTINGS)
    (said,) = one.privacy.data_dependent
    assert "if the outcome of a record is missing, infinite or not a number" in said and "all equal" not in said
    equal = perturbed_histogram(SurveyDesign(frame.assign(wt=2.0), weights="wt"), "income", **SETTINGS)
    assert equal.privacy.data_dependent[0].startswith(said) and "not all equal" in equal.privacy.data_dependent[0]
    assert said in str(one.privacy).partition("not covered by epsilon:")[2]
    assert one.manifest()["data_dependent"] == [said]
