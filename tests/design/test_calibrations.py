"""Calibrations by the columns of their totals and weights, and their totals in strict releases."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth import InputError, SurveyDesign

SEX, REGION = {"f": 2600, "m": 2400}, {"a": 2000, "b": 1500, "c": 1500}


def people(n=400):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(list("abc"), n),
            "income": rng.lognormal(10, 0.5, n).round(),
            "w": rng.uniform(5, 20, n),
        }
    )


def raked():
    return SurveyDesign(people(), weights="w").calibrate({"sex": SEX, "region": REGION})


def released(design, **given):
    return ss.synthesize(design, "income ~ sex + region", epsilon=5, bounds=(0, 200_000), m=4, seed=1, **given)


def counts(release, by):
    table = release.tables(by=by, statistic="count").set_index(by)["estimate"].drop("all")
    return {level: float(count) for level, count in table.items()}


@pytest.mark.parametrize("given", [{}, {"population_total": 5000}])
def test_a_strict_release_has_the_totals_of_the_calibration(given):
    with pytest.warns(UserWarning, match=r"population totals of 'sex', 'region' are those that"):
        release = released(raked(), **given)
    assert counts(release, "sex") == pytest.approx(SEX, rel=1e-9)
    assert counts(release, "region") == pytest.approx(REGION, rel=1e-9)


def test_a_crossed_margin_has_totals_of_each_of_its_columns():
    frame = people()
    totals = {(sex, region): 100 + 7 * i for i, (sex, region) in enumerate((s, r) for s in "fm" for r in "abc")}
    design = SurveyDesign(frame, weights="w").calibrate({("sex", "region"): totals})
    with pytest.warns(UserWarning, match="calibrated to"):
        release = released(design)
    assert counts(release, "region") == pytest.approx({"a": 221, "b": 235, "c": 249}, rel=1e-9)


@pytest.mark.filterwarnings("error:the population totals of")
def test_totals_that_are_given_hold():
    given = {"f": 3000, "m": 2000}
    release = released(raked(), population_totals={"sex": given})
    assert counts(release, "sex") == pytest.approx(given, rel=1e-9)
    assert counts(release, "region") != pytest.approx(REGION, rel=1e-3)
    other = released(raked(), population_total=6000)  # another population than the weights'
    assert sum(counts(other, "sex").values()) == pytest.approx(6000)
    assert counts(other, "sex") != pytest.approx({"f": 3120, "m": 2880}, rel=1e-3)


def test_sums_of_weights_that_are_no_whole_numbers_are_not_taken_for_public():
    design = SurveyDesign(people(), weights="w", poststrata="sex")
    with pytest.raises(InputError, match="population_total="):
        released(design)


def test_weights_that_were_trimmed_afterwards_have_the_totals_of_before():
    with pytest.warns(UserWarning, match="calibrated to"):
        release = released(raked().trim(high=20))
    assert counts(release, "sex") == pytest.approx(SEX, rel=1e-9)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"raked_weights": "v"}, "raked_weights names the weights after each margin"),
        ({"poststrata": ["sex", "region"], "raked_weights": ["v", "w"]}, "raked_weights names the weights after each"),
        ({"poststrata": "sex", "earlier_calibrations": "v"}, "earlier_calibrations is a list of mappings"),
        ({"poststrata": "sex", "earlier_calibrations": [{"post": "sex"}]}, "earlier_calibrations has post; an entry"),
        ({"poststrata": "sex", "earlier_calibrations": [{"base_weights": "v"}]}, "needs base_weights, and poststrata"),
        ({"earlier_calibrations": [{"poststrata": "sex", "base_weights": "v"}]}, "come before one that poststrata"),
        (
            {"poststrata": "sex", "earlier_calibrations": [{"poststrata": "q", "base_weights": "v"}]},
            "there is no column 'q'",
        ),
    ],
)
def test_calibrations_that_do_not_fit(roles, message):
    with pytest.raises(InputError, match=message):
        SurveyDesign(people().assign(v=1.0), weights="w", **roles)


def test_a_design_calibrated_twice_keeps_its_roles():
    earlier = [{"poststrata": "region", "base_weights": "v"}]
    frame = people().assign(v=10.0, u=11.0)
    design = SurveyDesign(frame, weights="w", poststrata="sex", base_weights="u", earlier_calibrations=earlier)
    assert design.roles()["earlier_calibrations"] == earlier and set("uv") < set(design.design_columns)
    again = SurveyDesign(design.frame, **design.roles())
    tables = [ss.estimate(d, "income", "region") for d in (design, again)]
    pd.testing.assert_frame_equal(*tables)
    alone = ss.estimate(SurveyDesign(frame, weights="w", poststrata="sex", base_weights="u"), "income", "region")
    assert tables[0]["se"].iloc[-1] < alone["se"].iloc[-1]  # regions' totals say nothing of the mean within a region
