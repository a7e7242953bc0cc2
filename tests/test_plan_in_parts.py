"""Plans of files in parts: what they foretell is what they foretell in memory, and they make and finish releases."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.design import read, scan
from surveysynth.synthesis import data_sets_in_parts, in_parts

PLAN = """
[survey]
file = "people.parquet"
weights = "w"
strata = "age"
[model]
formula = "pay ~ region + C(age)"
[privacy]
epsilon = 8
population_total = 200_000
bounds = [0, 200_000]
ledger = "ledger.jsonl"
survey = "people"
[tables]
by = ["region", "age"]
labels = {region = "Region of residence"}
[release]
m = 2
title = "Pay of people"
contact = "office@example.org"
"""
PARTS = '[parts]\nscratch = "."\n'


@pytest.fixture
def people(folder):
    """4,000 records, one level of few, in a file of its own, and the plans that name it."""
    rng, n = np.random.default_rng(1), 4_000
    region, age = rng.choice(["east", "north", "west"], n, p=[0.6, 0.395, 0.005]), rng.integers(1, 4, n)
    e = rng.standard_normal(n)
    pay = np.exp(9 + 0.3 * (region == "east") + 0.1 * age + 0.6 * e)
    frame = pd.DataFrame({"region": region, "age": age, "pay": pay, "w": 50 * np.exp(0.4 * rng.standard_normal(n))})
    frame.to_parquet("people.parquet")
    (folder / "plan.toml").write_text(PLAN + PARTS)
    ss.Ledger("ledger.jsonl", "people", create=True)
    return frame


def test_what_is_foretold_is_what_is_foretold_in_memory(people, folder):
    (folder / "memory.toml").write_text(PLAN)
    fitted = {"model.weight": "curved"}  # records are, in parts and in memory
    parts, memory = (ss.Plan.read(name, fitted).check() for name in ("plan.toml", "memory.toml"))
    assert str(parts) == str(memory)
    assert "west" in str(parts)  # of fewer than 30 records
    assert "4,000 records, weights 'w', 3 strata 'age'" in str(parts)
    pd.testing.assert_frame_equal(parts.expected, memory.expected, check_dtype=False)


def test_what_is_foretold_of_categories_counts_no_made_up_records(people, folder):
    job = np.where(np.random.default_rng(2).random(len(people)) < 0.3, "full", "none")
    people.assign(job=job).to_parquet("people.parquet")
    entries = {"model.formula": "pay + C(job) ~ region + C(age)", "tables.by": ["region", "job"]}
    entries["privacy.levels"] = {"job": ["full", "none"]}
    found = ss.Plan.read("plan.toml", entries).check()
    assert list(found.expected)[:2] == ["region", "records"]
    assert found.expected["records"].tolist() == [*people.groupby("region").size(), len(people)]


def test_the_file_is_never_read_into_memory(people, monkeypatch):
    def whole(*_, **__):
        raise AssertionError("the file was read")

    for module, name in ((scan.Scan, "frame"), (read, "read_frame")):
        monkeypatch.setattr(module, name, whole)
    assert not ss.Plan.read("plan.toml").check().inside
    draft = ss.Plan.draft("people.parquet", set={"parts.workers": 1}, formula="pay ~ region", weights="w", epsilon=5)
    assert list(draft.lacking) == ["privacy.population_total", "privacy.bounds"]
    assert "pay" in draft.to_toml() and "[parts]" in draft.to_toml()


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("survey.psu", ["region"], "survey.psu"),
        ("model.missing", "impute", "missing"),
        ("model.kind", "count", "model.kind"),
        ("model.later", ["rent ~ log(pay)"], "model.later"),
        ("privacy.mechanism", "per-instance", "privacy.mechanism"),
        ("privacy.map", "linear", "not with privacy.mechanism = 'strict'"),
        ("model.transform", "asinh", "model.transform"),
        ("privacy.risk", "count", "privacy.risk"),
        ("privacy.unit", "region", "privacy.unit"),
        ("privacy.reference", "release", "privacy.reference"),
        ("privacy.population_total", {"1": 70_000, "2": 70_000, "3": 70_000}, "by stratum"),
        ("tables.statistic", ["gini"], "count, mean, total"),
        ("tables.by", ["pay"], "not a predictor"),
        ("edits.rules", ["pay > 0"], "edits.rules"),
    ],
)
def test_what_parts_have_not_is_refused_by_name(people, entry, value, said):
    with pytest.raises(ss.InputError, match=re.escape(said)):
        ss.Plan.read("plan.toml", {entry: value}).check()


def test_what_needs_the_whole_file_says_so(people):
    with pytest.raises(ss.InputError, match=r"look inside reads the file into memory"):
        ss.Plan.read("plan.toml").check(inside=True)
    with pytest.raises(ss.InputError, match=r"a design is in memory"):
        ss.Plan(ss.SurveyDesign(people, weights="w"), "pay ~ region", workers=2)
    with pytest.raises(ss.InputError, match=r"the plan has no \[parts\]"):
        ss.Plan.read("plan.toml", {"parts.scratch": None}).release(unfinished="surveysynth-x")


@pytest.mark.slow
def test_a_run_that_was_cut_off_is_finished_by_its_plan(people, folder, run, monkeypatch):
    people = people[people["region"] != "west"]  # which chains would fail on
    people.to_parquet("people.parquet")
    plan = ss.Plan.read("plan.toml")

    def full(*given):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(data_sets_in_parts, "simulate", full)
        with pytest.raises(ss.EngineError, match="resume_in_parts"):
            plan.release(seed=1)
    (unfinished,) = folder.glob("surveysynth-*")
    assert not (folder / "release").exists()
    for entry, value in {"privacy.epsilon": 7, "model.formula": "pay ~ region * C(age)", "release.m": 3}.items():
        with pytest.raises(ss.InputError, match="of another plan"):
            ss.Plan.read("plan.toml", {entry: value}).release(unfinished=unfinished)
    code, printed, _ = run("release", "plan.toml", "--unfinished", str(unfinished))
    assert code == 0
    assert "mean of pay" in printed
    assert not unfinished.exists()
    back = ss.read_release("release")
    assert (back.privacy.epsilon, back.m, back.datasets[0].n) == (8, 2, len(people))
    manifest = json.loads((folder / "release" / "public" / "manifest.json").read_text())
    assert manifest["title"] == "Pay of people"
    assert "Region of residence" in (folder / "release" / "public" / "tables.html").read_text()
    assert float(ss.Ledger("ledger.jsonl", "people").spent.blank) == 8
    straight = plan.release(seed=1)
    pd.testing.assert_frame_equal(
        straight.tables(by="region"), back.tables(by="region").astype(straight.tables(by="region").dtypes), rtol=1e-9
    )


@pytest.mark.slow
def test_the_command_compare_does_not_read_files_in_parts_into_memory(people, folder, run, monkeypatch):
    plan = ss.Plan.read("plan.toml", {"model.formula": "pay ~ C(age)", "tables.by": ["age"]})
    plan.write(plan.release(seed=1), "release")
    memory = ss.compare(ss.SurveyDesign(people, weights="w", strata="age"), ss.read_release("release"), "age").cells

    def whole(*_, **__):
        raise AssertionError("a file was read")

    for module, name in ((scan.Scan, "frame"), (read, "read_frame"), (pd, "read_parquet")):
        monkeypatch.setattr(module, name, whole)
    code, printed, _ = run("compare", "release", "--confidential", "plan.toml", "--by", "age", "--out", "compared")
    assert code == 0
    assert "of 4,000 records of each file, at random" in printed
    cells = pd.read_csv(folder / "compared" / "cells.csv")
    for column in ("estimate", "se", "estimate_release", "se_release"):
        np.testing.assert_allclose(cells[column], memory[column].astype(float), rtol=1e-9, atol=1e-9, err_msg=column)


def test_entries_can_be_set_whatever_was_looked_at(people, folder, monkeypatch):
    plan = ss.Plan.read("plan.toml")
    assert plan.design.n == len(people)  # as compare() has it
    passes = []
    find = in_parts.find
    monkeypatch.setattr(in_parts, "find", lambda *of: passes.append(1) or find(*of))
    assert plan.set(epsilon=5, title="Wages").settings.privacy.epsilon == 5
    assert not passes  # nothing that it is about has changed
    assert plan.set(formula="pay ~ C(age)", by="age").settings.model.formula == "pay ~ C(age)"
    assert passes
    (folder / "memory.toml").write_text(PLAN)
    assert ss.Plan.read("memory.toml").set(workers=1).check()


@pytest.mark.slow
def test_what_would_stop_the_release_stops_the_check(people):
    pytest.importorskip("distributed")
    for entry, value, said in (
        ("parts.scratch", "nowhere", "not a folder"),
        ("privacy.bounds", {"rent": [0, 9]}, "bounds"),
        ("parts.scheduler", "tcp://127.0.0.1:1", "no Dask scheduler answers"),
    ):
        with pytest.raises(ss.InputError, match=said):
            ss.Plan.read("plan.toml", {entry: value}).check()


def test_roles_that_parts_have_not_are_not_guessed(people):
    people.assign(psu=1, stratum=people["age"]).rename(columns={"w": "weight"}).to_parquet("people.parquet")
    draft = ss.Plan.draft("people.parquet", set={"parts.workers": 1}, formula="pay ~ region")
    assert draft.settings.survey.weights == "weight"
    assert draft.settings.survey.psu is None and draft.settings.survey.strata is None


def test_predictors_may_have_any_name(people, folder):
    people.rename(columns={"region": "size", "age": "min"}).to_parquet("people.parquet")
    plan = PLAN.replace("region", "size").replace('"age"', '"min"').replace("C(age)", "C(min)")
    (folder / "plan.toml").write_text(plan + PARTS)
    assert "size" in str(ss.Plan.read("plan.toml").check())


def test_a_plan_under_privacy_weights(people, folder, run):
    entries = {
        "privacy.mechanism": "pseudo-posterior", "privacy.bounds": [1, 200_000], "release.accept": ["information"],
        "release.format": "parquet",
    }  # fmt: skip
    plan = ss.Plan.read("plan.toml", entries)
    assert "the guarantee is asymptotic" in str(plan.check())
    assert (plan.settings.model.prior, plan.settings.model.transform) == ("flat", "log")
    with pytest.raises(ss.InputError, match=r"model\.transform: not for files in parts"):
        ss.Plan.read("plan.toml", entries | {"model.transform": "scores"}).check()
    plan.release(seed=1).write("release")
    back = ss.read_release("release")
    assert (back.privacy.kind, back.privacy.epsilon, back.m) == ("asymptotic", 8, 2)
    assert "log outcome" in str(back.privacy)
    assert not list(folder.glob("surveysynth-*"))
