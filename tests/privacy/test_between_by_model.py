"""The variance between data sets from the model: near that of the posterior, from what is published."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.estimation.combining import combine
from surveysynth.release import model_variance
from tests.surveys import make_frame

SCORES = ss.NormalScores([5_000, 20_000, 40_000, 80_000, 300_000], [0.02, 0.2, 0.5, 0.8, 0.98], "a made-up table")


@pytest.fixture(scope="module")
def fitted():
    design = ss.SurveyDesign(make_frame(800, 3), weights="wt")
    model = ss.FBS("income ~ gender", transform=SCORES)
    return ss.fit(design, model, epsilon=9, m=3, mechanism=ss.Strict(), population_total=43_000, seed=1)


@pytest.fixture(scope="module")
def release(fitted):
    return fitted.release()


def test_the_rule_adds_what_sampling_and_parameters_do_to_each_of_m_files():
    """T = u + (u + B) / m, by hand."""
    rng = np.random.default_rng(1)
    q, u, again = rng.normal(size=(4, 2)), np.array([[1.0, 2.0]] * 4), rng.normal(0, [3.0, 0.5], size=(30, 2))
    found = combine(q, u, 50.0, of_model=again)
    np.testing.assert_allclose(found.se**2, u[0] + (u[0] + again.var(axis=0, ddof=1)) / 4)
    np.testing.assert_allclose(found.estimate, q.mean(axis=0))
    assert (found.df <= 50).all()
    one = combine(q[:1], u[:1], 50.0, of_model=again)
    np.testing.assert_allclose(one.se**2, 2 * u[0] + again.var(axis=0, ddof=1))


def test_of_an_estimate_that_the_design_fixes_there_is_no_variance():
    q = np.full((3, 1), 7.0)
    assert combine(q, np.zeros((3, 1)), 20.0, of_model=np.full((30, 1), 7.0)).se == 0


def test_estimates_are_the_same_and_standard_errors_similar(release, tmp_path):
    """Read back from the folder: the same numbers, as all of it is public."""
    files, model = (release.tables("gender", between=between) for between in ("files", "model"))
    np.testing.assert_array_equal(files["estimate"], model["estimate"])
    ratio = model["se"] / files["se"]
    assert ((0.4 < ratio) & (ratio < 2.5)).all()
    assert (model["df"] > 30).all()  # 40 data sets and the design know more of it than 3 files
    back = ss.read_release(release.write(tmp_path / "release"))
    np.testing.assert_allclose(back.tables("gender", between="model")["se"], model["se"], rtol=1e-6)


def test_by_default_it_is_the_larger_of_the_two(release):
    asked = {"by": "gender", "statistic": ["count", "mean", "total"]}
    files, model, usual = (release.tables(**asked, **how) for how in ({"between": "files"}, {"between": "model"}, {}))
    np.testing.assert_array_equal(usual["se"], np.maximum(files["se"], model["se"]))
    np.testing.assert_array_equal(usual["df"], np.maximum(files["df"], model["df"]))
    assert (usual["se"] > files["se"]).any()


@pytest.mark.parametrize(
    ("name", "value"),
    [("values", None), ("synthesizer", {"class": "Forest"}), ("values", {"B": []}), ("columns", 3)],
)
def test_damaged_parameters_are_refused_and_the_files_tables_remain(release, name, value):
    kept = release.method["reference"] | {name: value}
    if name == "values" and value:
        kept["values"] = release.method["reference"]["values"] | value
    forged = dataclasses.replace(release, method=release.method | {"reference": kept})
    with pytest.raises(ss.SurveySynthError, match="damaged"):
        forged.tables("gender")
    pd.testing.assert_frame_equal(
        forged.tables("gender", between="files"), release.tables("gender", between="files"), check_exact=True
    )


def test_the_text_beside_tables_names_the_variance_that_they_have(release, tmp_path, monkeypatch):
    said = "the variance between files that the model has at its released parameters"
    assert said in (release.write(tmp_path / "model", by="gender") / "public" / "report.txt").read_text()
    monkeypatch.setattr(ss.Release, "_in_small", None)
    files = dataclasses.replace(release)
    assert said not in (files.write(tmp_path / "files", by="gender") / "public" / "report.txt").read_text()


def test_of_differences_it_is_the_larger_too(release, monkeypatch):
    usual = release.differences({"gender": ("f", "m")}, statistic=["count", "mean"])
    monkeypatch.setattr(ss.Release, "_in_small", None)
    files = dataclasses.replace(release).differences({"gender": ("f", "m")}, statistic=["count", "mean"])
    np.testing.assert_array_equal(usual["estimate"], files["estimate"])
    assert (usual["se"] >= files["se"]).all() and (usual["df"] >= files["df"]).all()
    assert (usual["se"] > files["se"]).any()
    gaps = []
    for d in release._of_model:
        y, w, f = d.numeric("income"), d.weights, d.column("gender") == "f"
        gaps.append(np.average(y[f], weights=w[f]) - np.average(y[~f], weights=w[~f]))
    of_files = [ss.difference(d, "income", between={"gender": ("f", "m")})["se"].iloc[0] for d in release.datasets]
    u = np.mean(np.square(of_files))
    of_model = np.sqrt(u + (np.var(gaps, ddof=1) + u) / release.m)
    mean = usual["statistic"].to_numpy() == "mean"
    assert usual["se"][mean].iloc[0] == pytest.approx(max(of_model, files["se"][mean].iloc[0]), rel=1e-9)


def test_where_the_model_has_nothing_to_say_it_is_that_of_the_files(release):
    design = ss.SurveyDesign(make_frame(400, 3), weights="wt")
    pseudo = ss.synthesize(
        design, ss.FBS("income ~ gender", prior="flat"), epsilon=30, m=2, mechanism=ss.PseudoPosterior(), seed=1
    )
    known = release.calibrate({"gender": {"f": 22_000, "m": 21_000}})
    for each in (pseudo, known):
        usual, files = (each.tables("gender", between=between) for between in ("larger", "files"))
        np.testing.assert_array_equal(usual["se"], files["se"])
    with pytest.raises(ss.InputError, match="calibrated"):
        known.tables("gender", between="model")


def test_functions_that_know_the_released_data_sets_alone_leave_the_files(release):
    """As columns that were computed in R."""
    known = {y: float(y > 30_000) for d in release.datasets for y in d.frame["income"]}
    made = release.assign(rich=lambda f: pd.Series([known[y] for y in f["income"]], f.index))
    asked = {"outcome": "rich", "statistic": "mean"}
    usual, files = (made.tables(**asked, between=between) for between in ("larger", "files"))
    np.testing.assert_array_equal(usual["se"], files["se"])
    with pytest.raises(ss.InputError, match="the function of 'rich'"):
        made.tables(**asked, between="model")


def test_derived_columns_are_computed_again(release):
    made = release.assign(rich=lambda f: f["income"] > 30_000, gap=lambda f: f["income"] - 20_000)
    table, plain = (each.tables("gender", outcome="income", statistic="mean") for each in (made, release))
    np.testing.assert_array_equal(table["se"], plain["se"])
    gap = made.tables("gender", outcome="gap", statistic="mean")
    np.testing.assert_allclose(gap["se"], plain["se"], rtol=1e-9)
    back = pickle.loads(pickle.dumps(made))  # without the functions
    np.testing.assert_array_equal(back.tables("gender", outcome="income", statistic="mean")["se"], plain["se"])
    np.testing.assert_array_equal(
        back.tables("gender", outcome="gap", statistic="mean")["se"],
        made.tables("gender", outcome="gap", statistic="mean", between="files")["se"],
    )
    shares = made.assign(band=lambda f: np.where(f["income"] > 150_000, "top", "mid")).tables(
        outcome="band", statistic="proportion"
    )
    assert set(shares["category"]) <= {"mid", "top"}
    assert shares["se"].notna().all()


def test_what_is_a_function_of_public_columns_gains_nothing():
    """Equal in all data sets, and in those that are drawn again."""
    rng = np.random.default_rng(1)
    q, u = np.repeat(rng.normal(size=(1, 3)), 2, axis=0), np.ones((2, 3))
    np.testing.assert_array_equal(combine(q, u, 20.0, of_model=np.repeat(q[:1], 40, axis=0)).se, 1.0)


@pytest.mark.slow
def test_levels_that_no_record_has_leave_the_files():
    frame = make_frame(800, 3)
    frame["gender"] = pd.Categorical(frame["gender"], ["f", "m", "other"])
    design = ss.SurveyDesign(frame, weights="wt")
    done = ss.synthesize(
        design, ss.FBS("income ~ gender", transform=SCORES), epsilon=9, m=3, population_total=43_000, seed=1,
        mechanism=ss.Strict(),
    )  # fmt: skip
    usual, files = (done.tables("gender", between=between) for between in ("larger", "files"))
    assert (usual["se"] >= files["se"]).all()


def test_the_order_of_records_says_nothing(release):
    rng = np.random.default_rng(1)
    shuffled = [d.frame.take(rng.permutation(d.n)).reset_index(drop=True) for d in release.datasets]
    designs = tuple(
        ss.SurveyDesign(f, **d.roles(), labels=d.labels) for f, d in zip(shuffled, release.datasets, strict=True)
    )
    other = dataclasses.replace(release, datasets=designs)
    np.testing.assert_allclose(other.tables("gender")["se"], release.tables("gender")["se"], rtol=1e-9)


def test_many_records_are_stood_for_by_some(release, monkeypatch):
    """Random numbers are in common, so that few records say nearly what all say."""
    whole = np.array([np.average(d.numeric("income"), weights=d.weights) for d in release._of_model])
    monkeypatch.setattr(model_variance, "MOST", 200)
    few = model_variance.in_small(release.datasets[0], release.method)
    assert 198 <= few.n <= 202
    assert few.weights.sum() == pytest.approx(43_000)
    some = model_variance.drawn_again(few, release.method)
    means = np.array([np.average(d.numeric("income"), weights=d.weights) for d in some])
    assert means.std() / whole.std() == pytest.approx(1, abs=0.3)
    monkeypatch.setattr(model_variance, "FEW", 150)  # of the combinations one has about 100
    assert model_variance.in_small(release.datasets[0], release.method) is None


@pytest.mark.slow
def test_some_stand_for_many_records_with_zeros_of_their_own_too(monkeypatch):
    """By the spread, over parameters, of the mean and of the share of zeros; none of theirs is looked at."""
    frame = make_frame(1200)
    frame.loc[np.random.default_rng(1).random(1200) < 0.25, "income"] = 0.0
    settings = {"epsilon": 9.0, "bounds": (0, 1_000_000), "population_total": frame["wt"].sum(), "seed": 1}
    model = ss.FBS("income ~ gender", zeros=True)
    done = ss.fit(ss.SurveyDesign(frame, weights="wt"), model, **settings).release()

    def of(designs):
        y = [(d.numeric("income"), d.weights) for d in designs]
        return np.array([[np.average(v, weights=w), np.average(v == 0, weights=w)] for v, w in y])

    whole = of(model_variance.drawn_again(done.datasets[0], done.method))
    monkeypatch.setattr(model_variance, "MOST", 300)
    few = model_variance.in_small(done.datasets[0], done.method)
    assert 298 <= few.n <= 302
    some = of(model_variance.drawn_again(few, done.method))
    np.testing.assert_allclose(some.std(axis=0) / whole.std(axis=0), 1, atol=0.3)
    assert some[:, 1].mean() == pytest.approx(0.25, abs=0.08)  # a share of 300 has a standard error of .025


@pytest.mark.slow
def test_the_variance_is_that_of_files_over_the_posterior(fitted, release):
    """Files of 400 draws vary about as files whose parameters were drawn around the released ones, and sampled."""
    rng, posterior = np.random.default_rng(2), fitted.draws
    made = [
        fitted.synthesizer.simulate(fitted.records.public, posterior.some([s]), rng)
        for s in rng.choice(posterior.size, 400, replace=False)
    ]
    means = np.array([np.average(m.outcomes[:, 0], weights=m.weights) for m in made])
    again = release._of_model
    of_model = np.var([np.average(d.numeric("income"), weights=d.weights) for d in again], ddof=1)
    u = np.mean([ss.estimate(d, "income", statistic="mean")["se"].iloc[0] ** 2 for d in release.datasets])
    assert (of_model + u) / means.var() == pytest.approx(1, abs=0.45)


def test_what_has_no_model_to_ask_is_refused(release):
    design = ss.SurveyDesign(make_frame(400, 3), weights="wt")
    pseudo = ss.synthesize(
        design, ss.FBS("income ~ gender", prior="flat"), epsilon=30, m=2, mechanism=ss.PseudoPosterior()
    )
    with pytest.raises(ss.InputError, match=r"is for releases of Strict\(\) and FBS"):
        pseudo.tables("gender", between="model")
    with pytest.raises(ss.InputError, match="between='years' is not one of larger, files, model"):
        release.tables("gender", between="years")


@pytest.mark.slow
def test_categories_and_zeros_are_drawn_again_too():
    frame, rng = make_frame(1200), np.random.default_rng(1)
    frame["job"] = pd.Categorical(np.where(rng.random(1200) < 0.4, "yes", "no"))
    frame.loc[rng.random(1200) < 0.25, "income"] = 0.0
    design = ss.SurveyDesign(frame, weights="wt")
    settings = {"epsilon": 9.0, "bounds": (0, 1_000_000), "population_total": frame["wt"].sum(), "seed": 1}
    done = ss.fit(design, ss.FBS("income + C(job) ~ gender", zeros=True), **settings).release()
    table = done.tables("gender", between="model")
    assert (table["se"] > 0).all()
    share = [d.frame["income"].eq(0).mean() for d in model_variance.drawn_again(done.datasets[0], done.method)]
    assert np.mean(share) == pytest.approx(0.25, abs=0.06)
    assert np.std(share) > 0.002
    with pytest.raises(ss.InputError, match="not for tables by columns that are synthesized"):
        done.tables("job", between="model")
