"""Levels of outcomes that are categories are declared: none is taken from the file, and none that it has is lost."""

import json

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.synthesis.levels import with_levels
from tests.surveys import PSEUDO

JOBS = ["none", "part time", "full time"]
RARE = "astronaut"  # one respondent's
OF_RECORDS = {"epsilon": 9, "population_total": 30_000, "seed": 1, "mechanism": PSEUDO}
LATER = ["income ~ region", ss.MultinomialRegression("C(job) ~ region + log(income)")]


def make_frame(n=600, job=None):
    rng = np.random.default_rng(1)
    region = rng.choice(["east", "west"], n)
    return pd.DataFrame({
        "region": region, "income": np.exp(10 + rng.standard_normal(n)), "w": np.exp(4 + 0.2 * rng.standard_normal(n)),
        "job": rng.choice(JOBS, n) if job is None else job,
    })  # fmt: skip


def design(**columns):
    return ss.SurveyDesign(make_frame().assign(**columns), weights="w")


def with_one_astronaut():
    frame = make_frame()
    frame.loc[41, "job"] = RARE
    return ss.SurveyDesign(frame, weights="w")


@pytest.mark.parametrize("model", ["income + C(job) ~ region", LATER, ss.FBS("C(job) ~ region", prior="flat")], ids=str)
@pytest.mark.parametrize("mechanism", [PSEUDO, ss.WeightedE()], ids=str)
def test_levels_that_nobody_declared_are_asked_for_with_the_line_to_paste(model, mechanism):
    """Where records are fitted, and without a value of the file."""
    settings = {"epsilon": 9, "population_total": 30_000, "mechanism": mechanism}
    with pytest.raises(ss.InputError) as asked:
        ss.fit(with_one_astronaut(), model, **settings)
    said = str(asked.value)
    assert "levels={'job': ['...', '...']}" in said and "job has 4 different values" in said
    assert not any(value in said for value in (*JOBS, RARE))


def test_values_that_are_not_declared_are_refused_by_row():
    with pytest.raises(ss.InputError) as refused:
        ss.fit(with_one_astronaut(), "income + C(job) ~ region", levels={"job": JOBS}, **OF_RECORDS)
    said = str(refused.value)
    assert "'job' has values in 1 row (row numbers 42;" in said and RARE not in said


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({"jbo": JOBS}, r"names 'jbo' \(did you mean 'job'\?\)"), ({"region": JOBS}, "no outcome that is a category"),
        ({"job": "none"}, "must be a list"), ({"job": []}, "must be a list"), ({"job": [*JOBS, "none"]}, "one twice"),
        ({"job": [*JOBS, np.nan]}, "texts or finite numbers"), ({"job": [*JOBS, None]}, "texts or finite"),
        ({"job": [[1], [2]]}, "texts or finite"), (["job"], "must map outcomes"), ({"job": [1, 1.0]}, "one twice"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_levels_is_refused(levels, said):
    with pytest.raises(ss.InputError, match=said):
        ss.fit(design(), "income + C(job) ~ region", levels=levels, **OF_RECORDS)


def test_numbers_and_texts_are_different_levels_and_the_message_says_so():
    column = pd.Series(["1", "2", None])
    assert with_levels(column, "x", ["2", "1"]).tolist()[:2] == ["1", "2"]
    with pytest.raises(ss.InputError, match=r"2 rows .*'1' is a text, 1 a number"):
        with_levels(column, "x", [1, 2])
    for numbers in (pd.Series([1, 2, 1]), pd.Series([1.0, 2.0, np.nan]), pd.Series([1, 2, None], dtype="Int64")):
        assert with_levels(numbers, "x", [2, 1, 3]).dropna().tolist() == [x for x in numbers if not pd.isna(x)]


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(make_frame()["job"], [*JOBS, "retired"]), make_frame()["job"] == "none",
        (make_frame()["job"] == "none").astype("boolean"), (make_frame()["job"] == "none").astype(object),
    ],
    ids=["categorical", "bool", "boolean", "objects"],
)  # fmt: skip
def test_a_type_that_has_levels_declares_them(column):
    fit = ss.fit(
        design(job=column), ss.FBS("income + C(job) ~ region"), epsilon=60, mechanism=PSEUDO, m=1, seed=1,
        chains=2, warmup=30, draws=30,
    )  # fmt: skip
    levels = list(fit.records.categories.levels[0])
    assert levels == ([*JOBS, "retired"] if isinstance(column, pd.Categorical) else [False, True])


def test_a_declared_level_that_no_record_has_is_a_level_of_strict_files():
    asked = {"epsilon": 9, "bounds": {"income": (100, 1e7)}, "population_total": 30_000, "seed": 1, "m": 4}
    release = ss.synthesize(
        design(), ["income ~ region", "job ~ region + income"], levels={"job": [*JOBS, "retired"]}, **asked
    )
    for data in release.datasets:
        job = data.frame["job"]
        assert list(job.cat.categories) == [*JOBS, "retired"]
        assert job.isin(JOBS).mean() > 0.9
    assert not any("job" in fact for fact in release.privacy.data_dependent)


@pytest.mark.slow
def test_a_declared_level_that_no_record_has_under_privacy_weights_is_one_or_is_told():
    settings = {"levels": {"job": [*JOBS, "retired"]}, "mechanism": PSEUDO, "epsilon": 40, "m": 1, "seed": 1}
    made = ss.synthesize(design(), [ss.FBS("income ~ region", prior="flat"), LATER[1]], **settings)
    assert list(made.datasets[0].frame["job"].cat.categories) == [*JOBS, "retired"]
    with pytest.raises(ss.ModelError, match=r"levels are declared that nobody has.*prior='independent'"):
        ss.fit(design(), ss.FBS("income + C(job) ~ region", prior="flat"), **settings)
    proper = ss.FBS("income + C(job) ~ region", prior="independent")
    assert ss.fit(design(), proper, **settings).records.categories.K == 4


@pytest.mark.slow
def test_levels_of_one_respondent_decide_nothing_of_a_sequence():
    """The same model matrix with and without the only record of a level, where it is a predictor later."""
    sequence = ss.Sequential([*(ss.FBS(m) if isinstance(m, str) else m for m in LATER), ss.FBS("rent ~ job")])
    columns = []
    for job in (make_frame()["job"], with_one_astronaut().frame["job"]):
        declared = pd.Categorical(job, [*JOBS, RARE])
        records = sequence.prepare(design(job=declared, rent=make_frame()["income"] * 0.3 + 1), "ignore")
        columns.append(records.others[1].columns)
    assert columns[0] == columns[1] and any(RARE in name for name in columns[0])


def test_codes_stay_numbers_in_the_files():
    code = make_frame()["job"].map({name: k for k, name in enumerate(JOBS)}).astype("int8")
    release = ss.synthesize(
        design(job=code), ss.FBS("C(job) ~ region", prior="flat"), epsilon=60, m=1, seed=1, mechanism=PSEUDO,
        levels={"job": [0, 1, 2]},
    )  # fmt: skip
    assert release.datasets[0].frame["job"].dtype == np.int8


def test_a_plan_asks_for_levels_and_has_an_entry_for_them(tmp_path):
    file = tmp_path / "file.csv"
    with_one_astronaut().frame.to_csv(file, index=False)
    entries = {"weights": "w", "epsilon": 9, "population_total": 30_000, "bounds": (100, 1e7)}
    draft = ss.Plan.draft(file, formula="income + C(job) ~ region", **entries)
    assert list(draft.lacking) == ["privacy.levels"]
    text = draft.to_toml()
    assert 'levels =   # FILL IN: {job = ["...", "..."]}' in text and RARE not in text
    with pytest.raises(ss.InputError, match="levels"):
        draft.check()
    full = text.replace("# levels =   # FILL IN", f"levels = {{job = {json.dumps([*JOBS, RARE])}}} #")
    (tmp_path / "plan.toml").write_text(full)
    plan = ss.Plan.read(tmp_path / "plan.toml")
    assert plan.lacking == {} and plan.check() is not None
    with pytest.raises(ss.InputError, match=r"'job' has values in 1 row"):
        plan.set(levels={"job": JOBS})
