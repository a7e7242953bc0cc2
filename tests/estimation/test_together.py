"""Where statistics, subsets and differences meet calibrated weights, joint estimates and intervals of another kind."""

import numpy as np
import pandas as pd
import pytest
from surveys import PSEUDO, make_design, model

import surveysynth as ss
from surveysynth import InputError, SurveyDesign, difference, estimate, joint_estimates, population_covariances

LIMITS = ["ci_low", "ci_high"]
DISTRIBUTIONAL = ["variance", "gini", "quintile_share_ratio", "poverty_rate"]


@pytest.fixture(scope="module")
def plain():
    rng = np.random.default_rng(5)
    n = 400
    frame = pd.DataFrame({
        "stratum": np.repeat(["a", "b"], n // 2), "psu": np.arange(n) // 10, "w": rng.uniform(20, 60, n),
        "sex": rng.choice(["f", "m"], n), "age": rng.integers(18, 90, n).astype(float),
    })  # fmt: skip
    frame["income"] = np.exp(rng.normal(0, 0.6, n) + frame["age"] / 100 + rng.normal(0, 0.3, 40)[frame["psu"]]) * 1000
    return SurveyDesign(frame, weights="w", strata="stratum", psu="psu")


@pytest.fixture(scope="module", params=["Taylor", "replicates", "GREG", "calibrated replicates", "trimmed"])
def design(request, plain):
    known = {"sex": {"f": 8_000.0, "m": 8_200.0}, "age": 880_000.0}
    return {
        "Taylor": lambda: plain,
        "replicates": lambda: plain.replicates("JKn"),
        "GREG": lambda: plain.calibrate(known, "linear"),
        "calibrated replicates": lambda: plain.replicates("rao_wu", R=60, seed=1).calibrate(known, "linear"),
        "trimmed": lambda: plain.calibrate(known).trim(high=65),
    }[request.param]()


def test_a_variance_is_the_population_covariance_of_a_column_with_itself(design):
    expected = population_covariances(design, ["income", "age"]).table.set_index("name")
    table = estimate(design, ["income", "age"], statistic="variance").set_index("outcome")
    numbers = ["estimate", "se", "df", *LIMITS]
    np.testing.assert_allclose(table[numbers], expected.loc[["income", "age"], numbers], rtol=1e-9)


def test_joint_estimates_have_the_standard_errors_of_tables_the_line_s_among_them(design):
    joint = joint_estimates(design, "income", "sex", DISTRIBUTIONAL).table
    table = estimate(design, "income", "sex", DISTRIBUTIONAL)
    table = table[table["sex"] != "all"]
    assert joint["name"].tolist() == [f"{s}:{sex}" for s in DISTRIBUTIONAL for sex in "fm"]
    np.testing.assert_allclose(joint[["estimate", "se"]], table[["estimate", "se"]], rtol=1e-9)


def test_a_difference_is_the_contrast_of_joint_estimates(design):
    joint = joint_estimates(design, "income", "sex", DISTRIBUTIONAL)
    contrasts = joint.contrast(**{s: {f"{s}:f": 1, f"{s}:m": -1} for s in DISTRIBUTIONAL}).table
    table = difference(design, "income", statistic=DISTRIBUTIONAL, between={"sex": ("f", "m")})
    np.testing.assert_allclose(table[["estimate", "se"]], contrasts[["estimate", "se"]], rtol=1e-9)
    assert (table["df"] == joint.degf - 1).all()


@pytest.mark.parametrize("method", [None, "xlogit", "mean", "asin", "beta", "wilson", "likelihood"])
def test_a_poverty_rate_has_the_intervals_of_the_proportion_that_it_is(design, method):
    asked = {"level": 0.9, "interval": method}
    rate = estimate(design, "income", "sex", "poverty_rate", poverty_line=1200, **asked)
    poor = design.assign(poor=lambda f: np.where(f.income < 1200, "yes", "no"))
    share = estimate(poor, "poor", "sex", "proportion", **asked)
    share = share[share["category"] == "yes"]
    np.testing.assert_allclose(rate[["estimate", "se", "df", *LIMITS]], share[["estimate", "se", "df", *LIMITS]])


def test_a_moving_line_and_degrees_of_freedom_that_are_told(design):
    usual, told = (estimate(design, "income", statistic="poverty_rate", df=df).loc[0] for df in (None, 4))
    assert told["df"] == 4 and told["se"] == usual["se"]
    assert told["ci_low"] < usual["ci_low"] < usual["estimate"] < usual["ci_high"] < told["ci_high"]


def test_subsets_have_levels_and_design_effects(design):
    asked = {"where": lambda f: f.age >= 65, "statistic": ["mean", "quantile"], "deff": "replace"}
    narrow, wide = (estimate(design, "income", level=level, **asked) for level in (0.5, 0.99))
    np.testing.assert_allclose(narrow[["estimate", "deff"]], wide[["estimate", "deff"]])
    assert (wide["ci_low"] < narrow["ci_low"]).all() and (narrow["ci_high"] < wide["ci_high"]).all()
    old = design.assign(old=lambda f: f.age >= 65)
    by_name, by_function = estimate(old, "income", **asked | {"where": "old"}), estimate(design, "income", **asked)
    pd.testing.assert_frame_equal(by_name, by_function)


def test_differences_of_quantiles_have_levels(design):
    asked = {"statistic": "quantile", "quantiles": [0.3, 0.5], "between": {"sex": ("f", "m")}}
    usual, told = (difference(design, "income", where=lambda f: f.age > 25, **asked, **how) for how in ({}, {"df": 3}))
    assert (told["df"] == 3).all() and (usual["df"] > 3).all()
    np.testing.assert_allclose(told["estimate"], usual["estimate"])
    assert (told["ci_high"] - told["ci_low"] > usual["ci_high"] - usual["ci_low"]).all()


def test_two_designs_have_lines_subsets_and_levels(design):
    asked = {"statistic": ["poverty_rate", "gini", "quantile"], "where": lambda f: f.age > 25, "level": 0.8}
    table = difference({"one": design, "other": design}, "income", **asked)
    assert np.allclose(table["estimate"], 0) and (table["se"] > 0).all()
    wider = difference({"one": design, "other": design}, "income", **asked | {"level": 0.99})
    assert (wider["ci_high"] > table["ci_high"]).all()


def test_columns_of_a_calibrated_design_are_added(design):
    more = design.assign(double=lambda f: 2 * f.income)
    one, two = (estimate(more, name).loc[0] for name in ("income", "double"))
    np.testing.assert_allclose(2 * one["se"], two["se"])
    with pytest.raises(InputError, match="has a column 'double' already"):
        more.assign(double=lambda f: f.age)


def test_a_release_has_both():
    release = ss.synthesize(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)
    release = release.assign(rich=lambda f: f.income > 30)
    asked = {"statistic": ["poverty_rate", "gini"], "outcome": "income", "where": "rich", "deff": True}
    table, told = (release.tables("gender", **asked, level=level, interval="wilson") for level in (0.95, 0.5))
    assert (told["ci_high"] - told["ci_low"] < table["ci_high"] - table["ci_low"]).all()
    np.testing.assert_allclose(told["se"], table["se"])
    gaps = [release.differences({"gender": ("m", "f")}, statistic="gini", where="rich", df=df) for df in (None, np.inf)]
    assert gaps[1]["df"][0] == np.inf and gaps[1]["ci_high"][0] < gaps[0]["ci_high"][0]
    said = release.calibrate({"gender": {"f": 2e4, "m": 3e4}}, "linear").privacy.assumptions
    assert any("totals by gender" in text for text in said)


def test_weights_of_0_and_missing_categories_beside_subsets_and_indices(plain):
    frame = plain.frame.assign(old=lambda f: f.age >= 65)
    frame["kind"] = np.where(np.arange(len(frame)) % 7 == 0, None, frame["sex"])
    roles = {"weights": "w", "strata": "stratum", "psu": "psu"}
    none = frame.iloc[::40].assign(w=0.0, income=np.linspace(1, 1e6, 10), kind="z")
    ours, more = (SurveyDesign(f, **roles) for f in (frame, pd.concat([frame, none], ignore_index=True)))
    asked = {"statistic": [*DISTRIBUTIONAL, "mean", "quantile"], "where": "old", "deff": True, "missing": "drop"}
    one, other = (estimate(design, "income", "kind", **asked) for design in (ours, more))
    pd.testing.assert_frame_equal(one, other)
    assert one["kind"].unique().tolist() == ["f", "m", "all"]
    cells = estimate(ours, "income", "kind", "mean", missing="drop", where="old")
    assert cells["n"].iloc[:2].sum() < cells["n"].iloc[2] == frame["old"].sum()
    with pytest.raises(InputError, match="by column 'kind' is missing in"):
        estimate(ours, "income", "kind", where="old")
    with pytest.raises(InputError, match="no record meets"):
        estimate(more.assign(nobody=lambda f: f.w == 0), "income", where="nobody")
    gaps = [difference(d, "income", "kind", DISTRIBUTIONAL, between={"old": (True, False)}, missing="drop")
            for d in (ours, more)]  # fmt: skip
    pd.testing.assert_frame_equal(*gaps)
