"""Samples drawn from a frame: designs that know their probabilities, and estimates that are right on average."""

import pickle

import numpy as np
import pandas as pd
import pytest

from surveysynth import InputError, SurveyDesign, estimate
from surveysynth.sampling import METHODS, inclusion_probabilities, joint_probabilities

SIZES = {"a": 3, "b": 4}


@pytest.fixture(scope="module")
def population():
    rng = np.random.default_rng(31)
    frame = pd.DataFrame({"h": list("abaababbabbbaaababab"), "size": rng.uniform(1, 4, 20), "label": range(20)})
    return frame.assign(y=frame["size"] * rng.uniform(0.8, 1.2, 20) + 1)


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_the_inverse_of_the_probabilities(population, method):
    sized = None if method == "srs" else "size"
    design = SurveyDesign.from_frame(population, size=sized, n=SIZES, strata="h", method=method, seed=4)
    drawn = design.frame["label"].to_numpy()
    expected = population.groupby("h")["size"].transform("sum")
    pi = population["h"].map(SIZES) * population["size"] / expected  # no certainties here
    if method == "srs":
        pi = population["h"].map(SIZES) / population.groupby("h")["h"].transform("size")
    np.testing.assert_allclose(design.probs, pi[drawn], rtol=1e-12)
    assert (np.diff(drawn) >= (0 if method == "multinomial" else 1)).all()
    if method != "poisson":
        assert design.frame["h"].value_counts().to_dict() == SIZES


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_totals_and_their_variances_are_right_on_average(population, method):
    """800 samples: the mean of the estimates is the total; the mean of the variances is their variance.

    The variance estimators are unbiased for srs, multinomial, poisson, tille and maximum entropy; Hajek's is close for
    the others here, where the order of the frame has nothing to do with y.
    """
    draws, sized = 800, None if method == "srs" else "size"
    table = np.array([
        estimate(
            SurveyDesign.from_frame(population, size=sized, n=SIZES, strata="h", method=method, seed=s),
            "y", statistic="total", estimator="onepass",
        )[["estimate", "se"]].to_numpy()[0]
        for s in range(draws)
    ])  # fmt: skip
    total, variance = table[:, 0], table[:, 1] ** 2
    assert abs(total.mean() - population["y"].sum()) < 4 * total.std() / np.sqrt(draws)
    squares = (total - population["y"].sum()) ** 2
    error = np.sqrt(squares.var() / draws + variance.var() / draws)
    slack = {"brewer": 0.05, "systematic": 0.35, "random_systematic": 0.05}.get(method, 0.0) * squares.mean()
    assert abs(variance.mean() - squares.mean()) < 4 * error + slack


def test_joint_probabilities_are_those_of_the_method(population):
    for method in ("tille", "maximum_entropy"):
        design = SurveyDesign.from_frame(population, size="size", n=7, method=method, seed=1)
        pi = inclusion_probabilities(population["size"], 7)
        drawn = design.frame["label"].to_numpy()
        (block,) = design.joint
        np.testing.assert_allclose(block.matrix(), joint_probabilities(pi, method)[np.ix_(drawn, drawn)], rtol=1e-9)


def test_a_given_matrix_is_the_same_design(population):
    design = SurveyDesign.from_frame(population, size="size", n=7, method="tille", seed=1)
    frame = design.frame.assign(pi=design.probs)
    (block,) = design.joint
    for joint in (block.matrix(), block.matrix().tolist(), design.joint):
        again = SurveyDesign(frame, probs="pi", pps="sen_yates_grundy", joint=joint)
        a, b = (estimate(d, "y", statistic=["mean", "total"])[["estimate", "se"]] for d in (design, again))
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert a["se"].iloc[0] != estimate(SurveyDesign(frame, probs="pi"), "y")["se"][0]
    copied = pickle.loads(pickle.dumps(design))
    pd.testing.assert_frame_equal(estimate(copied, "y"), estimate(design, "y"))
    assert copied.pps == "sen_yates_grundy" and "sen_yates_grundy variance" in repr(copied)


def test_the_default_method_and_seeds(population):
    assert SurveyDesign.from_frame(population, size="size", n=5).pps == "sen_yates_grundy"
    design = SurveyDesign.from_frame(population, n=5)
    assert design.pps is None and (design.frame["population"] == 20).all() and design.stages[0].fraction[0] == 0.25
    sizes = pd.Series(SIZES)
    assert SurveyDesign.from_frame(population, n=sizes, strata="h").frame["h"].value_counts().to_dict() == SIZES
    first, second = (SurveyDesign.from_frame(population, n=5, seed=s).frame["label"].tolist() for s in (1, 1))
    assert first == second
    assert len({tuple(SurveyDesign.from_frame(population, n=5).frame["label"]) for _ in range(20)}) > 1


def test_a_large_stratum_takes_the_approximation():
    """The joint probabilities of 20,000 records would be 3 GB."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"size": rng.lognormal(0, 0.5, 100_000)})
    frame["y"] = frame["size"] + rng.normal(0, 0.1, 100_000)
    design = SurveyDesign.from_frame(frame, size="size", n=20_000, seed=3)
    assert design.pps == "hajek"
    table = estimate(design, "y", statistic="total")
    assert abs(table["estimate"][0] - frame["y"].sum()) < 5 * table["se"][0]


REFUSED = [
    ({"n": 30}, "n = 30 is not between 0 and the 20 units"),
    ({"n": 5, "size": "none"}, "size: there is no column 'none'"),
    ({"n": 5, "size": "h"}, "column 'h' is not a number in 20 rows"),
    ({"n": 5, "method": "brewster"}, "method='brewster' is not one of systematic"),
    ({"n": 5, "method": "srs", "size": "size"}, "method='srs' draws all units with the same probability"),
    ({"n": {"a": 3}, "strata": "h"}, "n gives no sample size for one of the strata"),
    ({"n": {"a": 3, "b": 3, "c": 3}, "strata": "h"}, "n names 1 strata that no unit has"),
    ({"n": {"a": 3}}, "n is not a number; a mapping"),
    ({"n": 5, "seed": -1}, "seed must be a whole number"),
    ({"n": 2.5}, "n is not a whole number"),
    ({"n": 1, "size": "size", "method": "brewer"}, "only one unit that was not certain"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_refusals(population, arguments, message):
    with pytest.raises(InputError, match=message):
        SurveyDesign.from_frame(population, **arguments)


def test_a_stratum_with_one_unit_that_was_not_certain_is_drawn_where_the_caller_says_how():
    """Removed, it adds nothing: the variance is that of the other stratum alone."""
    x, y = [1.0, 1, 1, 1, 60, 2, 3, 4, 5, 6], [3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    frame = pd.DataFrame({"h": list("aaaaabbbbb"), "x": x, "y": y})
    with pytest.raises(InputError, match="lonely_psu='remove'"):
        SurveyDesign.from_frame(frame, n=2, size="x", strata="h", seed=1)
    design = SurveyDesign.from_frame(frame, n=2, size="x", strata="h", lonely_psu="remove", seed=1)
    assert (design.frame["h"] == "a").sum() == 2
    pi = inclusion_probabilities(frame.loc[5:, "x"], 2)
    drawn = frame.loc[5:, "y"].isin(design.frame.loc[design.frame["h"] == "b", "y"])  # all different there
    i, j = np.flatnonzero(drawn)
    p, y = joint_probabilities(pi, "maximum_entropy"), frame.loc[5:, "y"].to_numpy()
    by_hand = (pi[i] * pi[j] - p[i, j]) / p[i, j] * (y[i] / pi[i] - y[j] / pi[j]) ** 2
    assert estimate(design, "y", statistic="total")["se"][0] == pytest.approx(np.sqrt(by_hand), rel=1e-9)
    one = {"n": {"a": 1, "b": 2}, "strata": "h", "seed": 1}
    with pytest.raises(InputError, match="lonely_psu='remove', 'adjust' or 'average'"):
        SurveyDesign.from_frame(frame, **one)
    design = SurveyDesign.from_frame(frame, **one, lonely_psu="remove")
    y = design.frame.loc[design.frame["h"] == "b", "y"].to_numpy()
    expected = np.sqrt(5 * (5 - 2) * y.var(ddof=1) / 2)
    assert estimate(design, "y", statistic="total")["se"][0] == pytest.approx(expected, rel=1e-12)


def test_the_frame_keeps_its_own_columns(population):
    with pytest.raises(InputError, match="has a column 'weight', which the sample adds"):
        SurveyDesign.from_frame(population.assign(weight=1.0), n=5)
    with pytest.raises(InputError, match="must be a pandas DataFrame"):
        SurveyDesign.from_frame(population.to_dict(), n=5)


PPS_REFUSED = [
    ({"pps": "overton"}, "pps='overton' is not one of sen_yates_grundy"),
    ({"pps": "sen_yates_grundy"}, "needs joint="),
    ({"pps": "hajek", "replicate_weights": ["N", "h"]}, "two ways to a variance"),
    ({"joint": np.eye(3)}, "joint= goes with pps="),
    ({"pps": "hajek", "joint": np.eye(3)}, "joint= goes with pps="),
    ({"pps": "hajek", "psu": "h"}, "for samples of elements without fpc"),
    ({"pps": "hajek", "fpc": "N"}, "for samples of elements without fpc"),
    ({"pps": "sen_yates_grundy", "joint": np.ones((2, 2))}, "joint must be a matrix of 3 x 3"),
    ({"pps": "sen_yates_grundy", "joint": np.ones((3, 3))}, "joint differs on its diagonal"),
]


@pytest.mark.parametrize(("arguments", "message"), PPS_REFUSED)
def test_probabilities_that_do_not_go_with_the_design(arguments, message):
    frame = pd.DataFrame({"p": [0.5, 0.4, 0.6], "h": [1, 1, 2], "N": 9})
    with pytest.raises(InputError, match=message):
        SurveyDesign(frame, probs="p", **arguments)


@pytest.mark.parametrize("pps", ["hajek", "poisson"])
def test_weights_that_are_not_scaled_to_the_population_are_no_probabilities(pps):
    frame = pd.DataFrame({"w": [0.4, 2.0, 3.0, 0.9], "y": 1.0})
    with pytest.raises(InputError, match=r"a weight is below 1 in 2 rows \(row numbers 1, 4;"):
        SurveyDesign(frame, weights="w", pps=pps)


def test_a_weight_of_one_but_for_rounding_is_certain():
    frame = pd.DataFrame({"w": [1.0, 1.0, 1.0, 2.0, 3.0, 4.0], "y": [5.0, 8.0, 1.0, 2.0, 9.0, 4.0]})
    near = frame.assign(w=np.where(frame["w"] == 1, np.nextafter(1.0, 2), frame["w"]))
    a, b = (estimate(SurveyDesign(f, weights="w", pps="hajek"), "y", statistic="total")["se"][0] for f in (frame, near))
    assert a == pytest.approx(b, rel=1e-12)


@pytest.mark.filterwarnings("error")
def test_a_negative_variance_is_no_variance():
    """Horvitz and Thompson's form: R's square root is NaN, too."""
    joint = np.full((4, 4), 0.05) + 0.45 * np.eye(4)
    frame = pd.DataFrame({"p": 0.5, "y": [10.0, 10, 10, 11]})
    table = estimate(SurveyDesign(frame, probs="p", pps="horvitz_thompson", joint=joint), "y", statistic="total")
    assert table["estimate"][0] == 82 and table[["se", "ci_low", "ci_high"]].isna().all(axis=None)


def test_designs_that_need_no_second_unit_are_copied_and_calibrated():
    frame = pd.DataFrame({"w": [2.0, 3.0, 4.0, 1.0], "s": [1, 1, 2, 3], "y": [1.0, 2, 3, 4], "g": list("abab")})
    design = SurveyDesign(frame, weights="w", strata="s", pps="poisson")
    copied = pickle.loads(pickle.dumps(design))
    pd.testing.assert_frame_equal(estimate(copied, "y", "g"), estimate(design, "y", "g"))
    assert copied.lonely_psu == "fail" and copied.roles() == design.roles()
    calibrated = design.calibrate({"g": {"a": 5.0, "b": 6.0}})
    assert calibrated.pps == "poisson" and calibrated.lonely_psu == "fail"
    assert "2.0" not in repr(SurveyDesign.from_frame(frame, size="y", n=2).joint)


def test_calibrated_residuals_of_a_pps_design_are_those_of_a_regression():
    """One auxiliary group: z - w (weighted mean of its group), then the design's own variance."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"p": rng.uniform(0.2, 0.7, 30), "y": rng.normal(9, 2, 30), "g": np.arange(30) % 3})
    design = SurveyDesign(frame, probs="p", pps="hajek")
    calibrated = design.calibrate({"g": {0: 30.0, 1: 20.0, 2: 40.0}})
    w, code = calibrated.weights, frame["g"].to_numpy()
    mean = np.bincount(code, w * frame["y"]) / np.bincount(code, w)
    z, c = w * (frame["y"] - mean[code]).to_numpy(), 1 - frame["p"].to_numpy()
    B = (c * z).sum() / c.sum()
    expected = np.sqrt(30 / 29 * (c * (z - B) ** 2).sum())
    assert estimate(calibrated, "y", statistic="total")["se"][0] == pytest.approx(expected, rel=1e-10)
