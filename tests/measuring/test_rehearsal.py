"""Expected errors are those of releases, and depend on nothing confidential."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.plan.expected_errors import clear_change, pooled, rehearsals

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
    given = {"formula": FORMULA, "by": "education", "epsilon": 5.0, "m": 4, **PUBLIC}
    ours, theirs = (next(rehearsals(each, **given)).cells for each in (sample, design))
    pd.testing.assert_frame_equal(ours, theirs)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_plan_tells_and_releases_what_is_measured(sample):
    plan = ss.Plan(sample, BOTH, epsilon=5.0, by="education", **PUBLIC)
    assert plan.settings["release.m"] == 20 and plan.settings["model.transform"] is None
    plan = plan.set(m=4)
    said = plan.check()
    means = expected(sample, formula=BOTH, m=4)[lambda t: t["statistic"] == "mean"].set_index("education")["ratio"]
    assert said.expected.set_index("education")["se_ratio"].to_dict() == pytest.approx(means.to_dict())
    assert "by releases of made-up files" in " ".join(str(said).split())
    release = plan.release()
    assert release.m == 4 and release.measured is not None and release.privacy.mechanism == "noisy tables"


def test_public_totals_of_made_up_files_leave_everything_else_as_it_is(sample):
    given = {"by": "education", "epsilon": 5.0, **PUBLIC}
    one, other = (next(rehearsals(sample, BOTH, **given, **more)) for more in ({}, {"public_term": "education"}))
    keys = ["education", "statistic", "own"]
    pd.testing.assert_frame_equal(one.cells[keys], other.cells[keys])  # the same file
    counts = [each.cells.loc[each.cells["statistic"] == "count", "released"] for each in (one, other)]
    assert (counts[0] > 0).all() and (counts[1] == 0).all()
    assert clear_change([one.cells], [other.cells], "count")
    assert not clear_change([other.cells] * 4, [other.cells] * 4, "count")  # no error before, and none after


def test_shares_are_of_the_whole_budget(sample):
    """Laplace noise: each table's share is its epsilon, whose sum is asked for."""
    first = next(rehearsals(sample, BOTH, epsilon=5.0, **PUBLIC))
    assert first.shares["share"].sum() == pytest.approx(1, rel=1e-12)
    assert {"income", "survey weight"} == {*first.shares["variable"]}
    gaussian = next(rehearsals(sample, BOTH, epsilon=5.0, delta=1e-10, **PUBLIC))
    assert gaussian.shares["share"].sum() == pytest.approx(1, rel=1e-12)


def made_up(changes, cells):
    """Rehearsals whose log variances change by given numbers, the same ones in every cell but for noise."""
    rng = np.random.default_rng(len(changes))
    frames = []
    for change in changes:
        before = pd.DataFrame({"statistic": "mean", "released": rng.gamma(3.0, size=cells)})
        frames.append((before, before.assign(released=before["released"] * np.exp(change))))
    return [list(side) for side in zip(*frames, strict=True)]


@pytest.mark.parametrize("files", [2, 4])
def test_a_change_by_chance_is_seldom_called_clear(files):
    """In 1% of cases, whatever the number of files; by a rule of three standard errors it would be 20% and 6%."""
    rng, many = np.random.default_rng(11), 1_000
    clear = sum(clear_change(*made_up(rng.standard_normal(files), 3), "mean") for _ in range(many))
    assert abs(clear - 0.01 * many) < 4 * (0.01 * 0.99 * many) ** 0.5
    assert clear_change(*made_up([-1.0, -1.01, -0.99, -1.0], 3), "mean")


def test_pooled_ratios_are_roots_of_mean_squares():
    one = pd.DataFrame({"sex": ["f"], "statistic": ["mean"], "own": [1.0], "released": [4.0], "estimate": [10.0]})
    cells = [one, one.assign(released=12.0)]
    assert pooled(cells)["ratio"].tolist() == [8**0.5]
    assert pooled(cells)["cv"].tolist() == [8**0.5 / 10]
