"""The answers on the page are a plan, and a plan that is opened stays what it was."""

import re
import tomllib

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("shiny")

import surveysynth as ss
from surveysynth.app import words
from surveysynth.app.page import ENTRIES, STEPS
from surveysynth.app.project import Project, plain_sum
from surveysynth.app.steps.file import USES
from surveysynth.app.steps.outcomes import changed_facts
from surveysynth.choices import PRINTED

ME = object()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    n = 400
    pd.DataFrame({
        "region": rng.choice(["north", "south"], n), "sex": rng.choice(["f", "m"], n),
        "stratum": np.arange(n) % 4, "our rent": rng.gamma(2.0, 300.0, n).round(),
        "income": rng.lognormal(7.0, 0.6, n).round(), "tenure": rng.choice(["own", "rent"], n),
        "weight": rng.uniform(5.0, 15.0, n).round(2),
    }).to_csv("survey.csv", index=False)  # fmt: skip
    return tmp_path


@pytest.fixture
def project(folder):
    project = Project(folder / "plan.toml")
    project.open(ME, "file", "survey.csv")
    return project


def answered(project):
    for column, use in {"region": "public", "sex": "public", "income": "synthesized", "tenure": "synthesized"}.items():
        project.use(ME, column, column, use)
    project.declare(ME, "income", "income", {"bounds": (0, 20_000)})
    project.declare(ME, "tenure", "tenure", {"levels": ["own", "rent"]})
    project.set(ME, "total", population_total=4_000.0)
    project.set(ME, "epsilon", epsilon=4.0)
    project.set(ME, "by", by=["sex"])
    assert not project.faults
    return project


def saved(project):
    return tomllib.loads(project.path.read_text(encoding="utf-8"))


def test_a_file_alone_makes_a_plan_with_guessed_roles(project):
    assert project.guessed == {"weights", "strata"} and saved(project)["survey"]["strata"] == "stratum"
    assert saved(project)["survey"] == {"file": "survey.csv", "weights": "weight", "strata": "stratum"}


def test_answers_become_formulas_and_declarations(project):
    plan = saved(answered(project))
    assert plan["model"]["formula"] == "income ~ region + sex"
    assert plan["model"]["later"] == ["tenure ~ region + sex + income"]  # an outcome depends on those before it
    assert plan["outcomes"] == {"income": {"bounds": [0, 20_000]}, "tenure": {"levels": ["own", "rent"]}}
    assert plan["privacy"]["public"] == ["region", "sex", "stratum"]


def test_the_plan_on_the_page_and_the_command_line_make_the_same_release(project):
    answered(project)
    tables = [plan.release(seed=7).tables("sex") for plan in (project.plan, ss.Plan.read(project.path))]
    pd.testing.assert_frame_equal(*tables)


def test_a_plan_that_is_opened_again_asks_the_same(project):
    answered(project)
    again = Project(project.path)
    assert (again.public, again.outcomes) == (["region", "sex"], ["income", "tenure"])
    assert again.settings == project.settings
    again.set(ME, "title", title="Incomes")
    before, after = saved(project) | {"release": None}, saved(again) | {"release": None}
    assert before == after


def test_what_is_left_out_of_a_formula_stays_out(project):
    answered(project)
    project.leave_out(ME, "tenure", "tenure", frozenset({"sex", "income"}))
    assert saved(project)["model"]["later"] == ["tenure ~ region"]
    project.use(ME, "our rent", "our rent", "public")
    assert saved(project)["model"]["later"] == ["tenure ~ region + `our rent`"]
    assert Project(project.path).unused["tenure"] == {"sex", "income"}


def test_a_formula_that_is_no_plain_sum_stays_as_it_is(project):
    answered(project)
    text = project.path.read_text(encoding="utf-8").replace('"income ~ region + sex"', '"income ~ region * sex"')
    project.path.write_text(text, encoding="utf-8")
    again = Project(project.path)
    assert again.written == {"income": "region * sex"}
    again.leave_out(ME, "tenure", "tenure", frozenset({"income"}))
    assert saved(again)["model"]["formula"] == "income ~ region * sex"
    assert saved(again)["model"]["later"] == ["tenure ~ region + sex"]


def test_columns_that_change_their_use_leave_no_trace(project):
    answered(project)
    project.use(ME, "tenure", "tenure", "out")
    project.use(ME, "sex", "sex", "out")
    plan = saved(project)
    assert "later" not in plan["model"] and plan["model"]["formula"] == "income ~ region"
    assert [*plan["outcomes"]] == ["income"] and "by" not in plan["tables"]
    assert plan["privacy"]["public"] == ["region", "stratum"]


def test_a_refused_answer_changes_nothing_and_is_explained(project):
    before = saved(answered(project))
    project.declare(ME, "low", "income", {"bounds": (5.0, 1.0)})
    project.set(ME, "weights", weights="no such column")
    project.set(ME, "epsilon", epsilon=-1.0)
    assert saved(project) == before
    assert {*project.faults} == {"low", "weights", "epsilon"}
    assert "greater than 0" in project.faults["epsilon"]
    project.set(ME, "epsilon", epsilon=3.0)
    assert "epsilon" not in project.faults


def test_a_file_that_is_not_there_is_refused(folder):
    project = Project(folder / "plan.toml")
    project.open(ME, "file", "nowhere.csv")
    assert "nowhere.csv" in project.faults["file"] and project.plan is None and not project.path.exists()


def test_short_declarations_of_a_plan_move_to_the_outcomes(project):
    answered(project)
    text = re.sub(r"\[outcomes\.(income|tenure)\]\n.*\n", "", project.path.read_text(encoding="utf-8"))
    text = text.replace("[privacy]", "[privacy]\nbounds = [0, 20000]\nlevels = {tenure = ['own', 'rent']}")
    project.path.write_text(text, encoding="utf-8")
    again = Project(project.path)
    assert again.declared("income") == {"bounds": (0, 20_000)} and again.declared("tenure")["levels"] == ["own", "rent"]
    again.declare(ME, "income", "income", again.declared("income") | {"round": 10.0})
    assert not again.faults and "bounds" not in saved(again)["privacy"]
    assert saved(again)["outcomes"] == {
        "income": {"bounds": [0, 20_000], "round": 10}, "tenure": {"levels": ["own", "rent"]}
    }  # fmt: skip


def test_any_other_entry_can_be_set_and_removed(project):
    answered(project)
    for name, text, at in [
        ("privacy.weight_bounds", "[0.1, 10]", ("privacy", "weight_bounds")),
        ("columns.sex.missing", "category", ("columns", "sex")),
    ]:
        project.set_any(ME, "other", name, text)
        assert at[1] in saved(project)[at[0]], project.faults
        project.set_any(ME, "other", name, "")
        assert at[1] not in saved(project)[at[0]] or not saved(project)[at[0]][at[1]]
    project.set_any(ME, "other", "privacy.nothing", "1")
    assert "privacy.nothing" in project.faults["other"]


def test_public_totals_are_read_from_lines(project):
    answered(project)
    assert project.levels_with_totals(10) == {"region": ["north", "south"], "sex": ["f", "m"]}
    project.set_totals(ME, "sex", "sex", "f = 2 100\nm = 1,900\n")
    assert saved(project)["privacy"]["population_totals"] == {"sex": {"f": 2_100, "m": 1_900}}
    for wrong in ("f = 2100\nm = ", "f = many\nm = 1900", "f 2100\nm 1900"):
        project.set_totals(ME, "sex", "sex", wrong)
        assert "level = total" in project.faults["sex"], wrong
    project.set_totals(ME, "sex", "sex", "f = \nm = ")
    assert "population_totals" not in saved(project)["privacy"]


def test_a_ledger_is_made_where_the_plan_names_it(project):
    answered(project)
    project.set(ME, "ledger", ledger="budget.jsonl")
    project.set(ME, "survey", survey="labour force")
    project.create_ledger(ME, "create")
    assert not project.faults and project.plan.ledger.spent.blank == 0


def test_one_end_of_the_bounds_declares_nothing():
    assert changed_facts({"zeros": True}, "bounds", ["0", ""]) == {"zeros": True, "bounds": None}
    assert changed_facts({}, "bounds", ["0", "10"]) == {"bounds": (0.0, 10.0)}
    assert changed_facts({}, "levels", " a \n\nb ") == {"levels": ["a", "b"]}


@pytest.mark.parametrize(
    ("right", "columns"),
    [
        ("region + sex", ["region", "sex"]), ("1", []), ("`our rent` + sex", ["our rent", "sex"]), ("region*sex", None),
        (".", None), ("log(age)", None), ("C(age)", None), ("region + region:sex", None), ("sex - 1", None),
    ],
)  # fmt: skip
def test_plain_sums(right, columns):
    assert plain_sum(right) == columns


def test_every_word_has_three_languages_and_the_same_parts():
    for key, texts in words.every_word().items():
        assert {*texts} == {*words.LANGUAGES}, key
        parts = [sorted(re.findall(r"\{\w+\}", text)) for text in texts.values()]
        assert parts[0] == parts[1] == parts[2], key


def test_the_words_that_the_page_asks_for_are_there():
    known = {*words.every_word()}
    source = "\n".join(path.read_text(encoding="utf-8") for path in words.FILE.parent.rglob("*.py"))
    asked = {*re.findall(r'words\(\s*"([^"]+)"', source)}
    asked |= {f"{kind}.{entry.short}" for entry in ENTRIES.values() for kind in ("entry", "help")}
    asked |= {f"{step}.{part}" for step in STEPS for part in ("title", "about")} | {f"use.{use}" for use in USES}
    asked |= {f"entry.{name}" for name in PRINTED}
    assert len(asked) > 150 and not asked - known
    # a word that nothing asks for is not kept
    built = re.findall(r'words\(\s*f"([^"{]*)', source)
    assert not [key for key in known - asked if not key.startswith(tuple(each for each in built if each)) and
                f'"{key}"' not in source]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "accepted", "language"),
    [
        ({"lang": "de"}, "fr", "de"), ({}, "fr-CH, en;q=0.9", "fr"), ({"lang": "xx"}, "es, de;q=0.5", "de"),
        ({}, "", "en"),
    ],
)  # fmt: skip
def test_languages(query, accepted, language):
    assert words.language_of(query, accepted) == language
