"""Expected errors are those of releases, and depend on nothing confidential."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss

PUBLIC = {"bounds": (0, 20_000), "population_total": 29_501}
FORMULA, BOTH = "income ~ education", "income ~ division + education"  # strata are divisions


@pytest.fixture(scope="module")
def sample():
    return ss.datasets.census_sample(1_000, seed=4)


def expected(design, epsilon=5.0, formula=FORMULA, **more):
    return ss.expected_errors(design, formula, epsilon=epsilon, by="education", **{**PUBLIC, **more})


def test_no_confidential_value_is_looked_at(sample):
    other = sample.frame.assign(income=1.0, weight=np.arange(1.0, sample.n + 1))
    design = ss.SurveyDesign(other, **sample.roles())
    pd.testing.assert_frame_equal(expected(sample), expected(design))


@pytest.mark.parametrize(
    "wrong",
    [
        {"weight_bounds": (2, 1), "importance": {"age": 2}}, {"public": []}, {"population_total": None},
        {"formula": ss.FBS(FORMULA, prior="flat")}, {"m": 3, "bounds": (5, 1)}, {"epsilon": None},
    ],
)  # fmt: skip
def test_what_synthesize_refuses_is_not_foretold(sample, wrong):
    """The same obstacles, one for one, but for what each function calls a missing argument."""
    given = {"epsilon": 5.0, "formula": FORMULA, **PUBLIC, **wrong}
    with pytest.raises(ss.SurveySynthError) as refused:
        ss.synthesize(sample, given["formula"], **{name: value for name, value in given.items() if name != "formula"})
    with pytest.raises(type(refused.value)) as foretold:
        expected(sample, **given)
    if given["epsilon"] and given["population_total"]:
        found = [{*(each.value.obstacles or [str(each.value)])} for each in (refused, foretold)]
        assert found[0] == found[1]


def test_more_epsilon_and_public_totals_make_smaller_errors(sample):
    table = expected(sample)
    assert table.columns.tolist() == ["education", "statistic", "ratio", "cv"] and len(table) == 9
    assert (table["ratio"] > 0.9).all()
    many, few = (expected(sample, epsilon)["ratio"].mean() for epsilon in (50.0, 0.5))
    assert many < table["ratio"].mean() < few


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(2_000, 5.0), (2_000, 1.0)])
def test_what_is_expected_comes_about(n, epsilon):
    """Root mean square standard errors within 15% of those of eight releases of real samples, over the samples' own."""
    squares = []
    for seed in range(8):
        design = ss.datasets.census_sample(n, seed=seed)
        release = ss.measure(design, FORMULA, epsilon=epsilon, seed=seed, **PUBLIC).release(20, seed=seed)
        own = ss.estimate(design, "income", "education")
        both = own.merge(release.tables("education", statistic="mean"), on="education")
        squares.append([both["se_y"] ** 2, both["se_x"] ** 2])
    table = expected(design, epsilon)
    foretold = table.loc[table["statistic"] == "mean", "ratio"]
    released, own = np.mean(squares, axis=0)
    assert foretold.mean() == pytest.approx(np.mean(np.sqrt(released / own)), rel=0.15)


def test_a_plan_tells_and_releases_what_is_measured(sample):
    plan = ss.Plan(sample, BOTH, epsilon=5.0, by="education", **PUBLIC)
    assert plan.settings["release.m"] == 20 and plan.settings["model.transform"] is None
    said = plan.check()
    means = expected(sample, formula=BOTH)[lambda t: t["statistic"] == "mean"].set_index("education")["ratio"]
    assert said.expected.set_index("education")["se_ratio"].to_dict() == pytest.approx(means.to_dict())
    assert "by releases of made-up files" in " ".join(str(said).split())
    release = plan.set(m=4).release()
    assert release.m == 4 and release.measured is not None and release.privacy.mechanism == "noisy tables"
