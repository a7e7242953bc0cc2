"""The answers on the page are a plan, and a plan that is opened stays what it was."""

import re
import time
import tomllib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("shiny")

import surveysynth as ss
from surveysynth.app import forecast as forecast_module
from surveysynth.app import words
from surveysynth.app.controls import Entry, plain
from surveysynth.app.forecast import Forecast
from surveysynth.app.lacking import on_this_page
from surveysynth.app.number_text import number_in
from surveysynth.app.page import ENTRIES, STEPS
from surveysynth.app.project import Project, totals_in
from surveysynth.app.steps import budget, file, release
from surveysynth.app.steps.file import USES
from surveysynth.app.steps.outcomes import changed_facts
from surveysynth.app.work import Work
from surveysynth.choices import PRINTED
from surveysynth.plan.expected_errors import expected_errors

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
        "wt": rng.uniform(5.0, 15.0, n).round(2),
    }).to_csv("survey.csv", index=False)  # fmt: skip
    return tmp_path


@pytest.fixture
def project(folder):
    project = Project(folder / "plan.toml")
    project.open(ME, "survey.csv")
    return project


def answered(project):
    for column, use in {"region": "public", "sex": "public", "income": "synthesized", "tenure": "synthesized"}.items():
        project.use(ME, column, use)
    project.declare(ME, "income", {"bounds": (0, 20_000)})
    project.declare(ME, "tenure", {"levels": ["own", "rent"]})
    project.set(ME, population_total=4_000.0)
    project.set(ME, epsilon=4.0)
    project.set(ME, by=["sex"])
    project.set(ME, m=4)
    return project


def saved(project):
    return tomllib.loads(project.path.read_text(encoding="utf-8"))


def test_a_file_alone_makes_a_plan_with_guessed_roles(project):
    assert project.guessed == {"weights", "strata"} and saved(project)["survey"]["strata"] == "stratum"
    assert saved(project)["survey"] == {"file": "survey.csv", "weights": "wt", "strata": "stratum"}


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
    again.set(ME, title="Incomes")
    before, after = saved(project) | {"release": None}, saved(again) | {"release": None}
    assert before == after


def test_what_is_left_out_of_a_formula_stays_out(project):
    answered(project)
    project.leave_out(ME, "tenure", frozenset({"sex", "income"}))
    assert saved(project)["model"]["later"] == ["tenure ~ region"]
    project.use(ME, "our rent", "public")
    assert saved(project)["model"]["later"] == ["tenure ~ region + `our rent`"]
    assert {"sex", "income"} <= Project(project.path).unused["tenure"]


FIXED = {
    "a product": ('"income ~ region * sex"', '["tenure ~ region + sex + income"]'),
    "two outcomes": ('"income + tenure ~ region"', "[]"),
    "zeros": ('"tenure ~ region"', '[{formula = "income ~ region", name = "fbs", zeros = true}]'),
    "a function": ('"income ~ C(sex) + region"', "[]"),
    "a dot": ('"income ~ ."', "[]"),
    "a category": ('"income ~ region + sex"', '["C(tenure) ~ region + sex"]'),
}


@pytest.mark.parametrize("kind", FIXED)
def test_what_the_page_cannot_write_stays_as_it_is(project, kind):
    first, later = FIXED[kind]
    answered(project)
    text = re.sub('(?m)^formula = "[^"]*"', f"formula = {first}", project.path.read_text(encoding="utf-8"))
    text = re.sub(r"(?m)^later = \[.*?\]", f"later = {later}", text)
    if "tenure" not in first + later:
        text = re.sub(r"\[outcomes\.tenure\]\n.*\n", "", text)
    project.path.write_text(text, encoding="utf-8")
    before = saved(project)
    again = Project(project.path)
    assert again.fixed
    with pytest.raises(ss.InputError, match="changed in its file"):
        again.use(ME, "sex", "out")
    again.set(ME, title="Incomes")
    assert saved(again)["model"]["formula"] == before["model"]["formula"]
    assert saved(again)["model"].get("later", []) == before["model"]["later"]
    assert saved(again)["privacy"] == before["privacy"] and saved(again)["outcomes"] == before["outcomes"]


def test_other_mechanisms_stay_as_they_are(project):
    answered(project)
    project.use(ME, "tenure", "out")
    project.declare(ME, "income", {})
    project.set_any(ME, "privacy.mechanism", "pseudo-posterior")
    assert project.fixed and saved(project)["privacy"]["mechanism"] == "pseudo-posterior"


def test_a_file_that_was_edited_elsewhere_is_read_again(project):
    answered(project)
    text = project.path.read_text(encoding="utf-8").replace("epsilon = 4 ", "epsilon = 1 ")
    project.path.write_text(text, encoding="utf-8")
    project.set(ME, title="Incomes")
    assert saved(project)["privacy"]["epsilon"] == 1 and saved(project)["release"]["title"] == "Incomes"
    assert project.changed_by[-2:] == [None, ME]  # all tabs show their questions again


def test_a_column_that_gets_a_role_in_the_design_is_no_outcome(project):
    answered(project)
    project.use(ME, "wt", "out")
    project.set(ME, weights=None, unweighted=True)
    project.use(ME, "wt", "public")
    assert "wt" in saved(project)["model"]["formula"]
    project.set(ME, weights="wt", unweighted=None)
    assert "wt" not in saved(project)["model"]["formula"] and "wt" not in saved(project)["privacy"]["public"]


def test_another_stratum_does_not_leave_the_guessed_one_public(project):
    project.use(ME, "region", "public")
    assert saved(project)["privacy"]["public"] == ["region", "stratum"]
    project.set(ME, strata="sex")
    assert saved(project)["privacy"]["public"] == ["region", "sex"]
    again = Project(project.path)
    again.use(ME, "income", "synthesized")
    assert saved(again)["model"]["formula"] == "income ~ region"


def test_an_outcome_that_goes_takes_its_entries_with_it(project):
    answered(project)
    project.set(ME, importance={"tenure": 2.0, "income": 3.0})
    project.use(ME, "tenure", "out")
    assert saved(project)["privacy"]["importance"] == {"income": 3}


def test_a_file_without_a_header_line_shows_nobody(folder):
    pd.DataFrame([["north", 42, 1655.35]] * 3).to_csv("bare.csv", index=False, header=False)
    project = Project(folder / "plan.toml")
    with pytest.raises(ss.InputError, match="header line") as refused:
        project.open(ME, "bare.csv")
    assert "north" not in str(refused.value) and "1655" not in str(refused.value) and not project.path.exists()


def test_columns_that_change_their_use_leave_no_trace(project):
    answered(project)
    project.use(ME, "tenure", "out")
    project.use(ME, "sex", "out")
    plan = saved(project)
    assert "later" not in plan["model"] and plan["model"]["formula"] == "income ~ region"
    assert [*plan["outcomes"]] == ["income"] and "by" not in plan["tables"]
    assert plan["privacy"]["public"] == ["region", "stratum"]


def test_a_refused_answer_changes_nothing_and_is_explained(project):
    before = saved(answered(project))
    for entries, why in [({"epsilon": -1.0}, "greater than 0"), ({"weights": "wages"}, "wages")]:
        with pytest.raises(ss.InputError, match=why):
            project.set(ME, **entries)
    with pytest.raises(ss.InputError, match="bounds"):
        project.declare(ME, "income", {"bounds": (5.0, 1.0)})
    with pytest.raises(ss.InputError, match="backtick"):
        project.use(ME, "a`b", "public")
    assert saved(project) == before


def test_a_file_that_is_not_there_is_refused(folder):
    project = Project(folder / "plan.toml")
    with pytest.raises(ss.InputError, match=r"nowhere\.csv"):
        project.open(ME, "nowhere.csv")
    assert project.plan is None and not project.path.exists()


def test_short_declarations_of_a_plan_move_to_the_outcomes(project):
    answered(project)
    text = re.sub(r"\[outcomes\.(income|tenure)\]\n.*\n", "", project.path.read_text(encoding="utf-8"))
    text = text.replace("[privacy]", "[privacy]\nbounds = [0, 20000]\nlevels = {tenure = ['own', 'rent']}")
    project.path.write_text(text, encoding="utf-8")
    again = Project(project.path)
    assert again.declared("income") == {"bounds": (0, 20_000)} and again.declared("tenure")["levels"] == ["own", "rent"]
    again.declare(ME, "income", again.declared("income") | {"round": 10.0})
    assert "bounds" not in saved(again)["privacy"]
    assert saved(again)["outcomes"] == {
        "income": {"bounds": [0, 20_000], "round": 10}, "tenure": {"levels": ["own", "rent"]}
    }  # fmt: skip


def test_any_other_entry_can_be_set_and_removed(project):
    answered(project)
    for name, text, at in [
        ("privacy.weight_bounds", "[0.1, 10]", ("privacy", "weight_bounds")),
        ("columns.sex.missing", "category", ("columns", "sex")),
    ]:
        project.set_any(ME, name, text)
        assert at[1] in saved(project)[at[0]]
        project.set_any(ME, name, "")
        assert at[1] not in saved(project)[at[0]] or not saved(project)[at[0]][at[1]]
    with pytest.raises(ss.InputError, match=r"privacy\.nothing"):
        project.set_any(ME, "privacy.nothing", "1")


def test_public_totals_are_read_from_lines(project):
    answered(project)
    assert project.levels_of_public(10) == {"region": ["north", "south"], "sex": ["f", "m"]}
    project.set_totals(ME, "sex", "f = 2 100\nm = 1,900\n")
    assert saved(project)["privacy"]["population_totals"] == {"sex": {"f": 2_100, "m": 1_900}}
    project.set_totals(ME, "sex", "f = \nm = ")
    assert "population_totals" not in saved(project)["privacy"]


@pytest.mark.parametrize(
    ("written", "total"),
    [
        ("812000", 812_000), ("812 000", 812_000), ("812.000", 812_000), ("1,812,000", 1_812_000),
        ("1'812'000", 1_812_000), ("812000.5", 812_000.5),
    ],
)  # fmt: skip
def test_totals_as_people_write_them(written, total):
    assert totals_in(f"north = {written}") == {"north": total}
    assert totals_in(f"a = b = {written}") == {"a = b": total}


@pytest.mark.parametrize("wrong", ["812000,5", "8,12", "1,812.000", "many", "-5", "north"])
def test_totals_that_say_two_things_are_refused(wrong):
    with pytest.raises(ss.InputError, match="level = total"):
        totals_in(f"north = {wrong}\nsouth = 5")


def test_a_ledger_is_made_where_the_plan_names_it(project):
    answered(project)
    project.set(ME, ledger="budget.jsonl")
    project.set(ME, survey="labour force")
    project.create_ledger(ME)
    assert project.plan.ledger.spent.blank == 0


def test_showing_a_ledger_and_checking_record_no_cap(project):
    answered(project)
    ledger = ss.Ledger(project.path.parent / "budget.jsonl", "labour force", create=True)
    project.set(ME, ledger="budget.jsonl")
    project.set(ME, survey="labour force")
    before = ledger.path.read_bytes()
    for cap in (5.0, 50.0):
        project.set(ME, cap=cap)
        assert f"cap {cap:g}" in str(project.plan.ledger)
        project.plan.check()
    assert ledger.path.read_bytes() == before


def test_one_end_of_the_bounds_declares_nothing():
    with pytest.raises(ss.InputError, match="both bounds"):
        changed_facts({"zeros": True}, "bounds", ["0", ""])
    assert changed_facts({"zeros": True, "bounds": (0.0, 1.0)}, "bounds", ["", ""]) == {"zeros": True, "bounds": None}
    assert changed_facts({}, "bounds", ["0", "10"]) == {"bounds": (0.0, 10.0)}
    assert changed_facts({}, "levels", " a \n\nb ") == {"levels": ["a", "b"]}


@pytest.mark.parametrize(
    ("entry", "answer", "value"),
    [
        (Entry("privacy.epsilon", "number"), "0", 0), (Entry("privacy.epsilon", "number"), None, None),
        (Entry("tables.cv_limit", "percent"), "33.3", 0.333), (Entry("survey.unweighted", "yes"), False, None),
        (Entry("survey.psu", "columns"), ["a", ""], ["a"]), (Entry("survey.weights", "column"), "", None),
        (Entry("survey.replicate_weights", "list"), "a1, a2", ["a1", "a2"]),
    ],
)  # fmt: skip
def test_answers_become_entries(entry, answer, value):
    assert entry.entered(answer) == value


def test_the_second_stage_alone_is_refused():
    with pytest.raises(ss.InputError, match="first stage"):
        Entry("survey.psu", "columns").entered(["", "b"])


@pytest.mark.parametrize(("number", "text"), [(2e4, "20000"), (1.5e-12, "1.5e-12"), (0.1, "0.1"), (1e9, "1000000000")])
def test_numbers_are_written_in_full(number, text):
    assert plain(number) == text


@pytest.mark.slow
def test_forecasts_come_from_public_facts_alone(project, monkeypatch):
    """Another file with the same public columns gives the same forecast."""
    monkeypatch.setattr(forecast_module, "BUDGETS", (4.0, 20.0))
    found, frame = [], pd.read_csv("survey.csv")
    for factor in (1.0, 3.0):
        frame.assign(income=(frame["income"] * factor).clip(upper=19_000)).to_csv("survey.csv", index=False)
        made = answered(Project(project.path)) if factor == 1.0 else Project(project.path)
        made.use(ME, "tenure", "out")
        forecast = Forecast()
        forecast.ask(made.plan, 4.0)
        while not forecast.finished:
            time.sleep(0.1)
        assert not forecast.fault
        found.append((forecast.errors(4.0), forecast.shares(4.0), forecast.savings(4.0)))
        assert {*forecast.savings(4.0)} == {"region", "sex"} and forecast.errors(20.0) is not None
    pd.testing.assert_frame_equal(found[0][0], found[1][0])
    pd.testing.assert_frame_equal(found[0][1], found[1][1])
    assert found[0][2] == found[1][2]
    expected = expected_errors(made.plan.design, "income ~ region + sex", by="sex", epsilon=4.0, population_total=4_000,
                               bounds=(0, 20_000), m=4)  # fmt: skip
    pd.testing.assert_frame_equal(found[1][0], expected)


def test_what_is_compared_is_what_was_released(project):
    answered(project)
    project.use(ME, "tenure", "out")
    work = Work(project.path)
    work.release(project.text, overwrite=False)
    finished(work)
    assert not work.faults, work.faults
    frame = pd.read_csv("survey.csv")
    frame.assign(income=frame["income"] * 2).to_csv("other.csv", index=False)
    project.set(ME, file="other.csv")
    work.compare()
    finished(work)
    assert work.found["compare"].cells["holds"].dropna().mean() > 0.8  # with the file that was released
    frame.assign(income=frame["income"] * 2).to_csv("survey.csv", index=False)
    work.dossier()
    finished(work)
    assert "changed since the release" in work.faults["dossier"]
    work.release(project.text, overwrite=False)  # refused: the folder is taken
    finished(work)
    assert "survey-release" in work.faults["release"] and "compare" in work.found and "release" in work.found


def finished(work):
    while work.doing:
        time.sleep(0.05)


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


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("20000", 20_000), ("276 536 446", 276_536_446), ("276.536.446", 276_536_446), ("276,536,446", 276_536_446),
        ("1'000", 1_000), ("2,5", 2.5), ("2.5", 2.5), ("0,005", 0.005), ("1e-10", 1e-10), ("-3", -3), ("", None),
        (" 7 ", 7), ("1.5e-12", 1.5e-12),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(text, number):
    assert number_in(text) == number


@pytest.mark.parametrize("text", ["5.000", "6,194", "-1.000"])
def test_a_number_that_can_mean_two_is_refused(text):
    with pytest.raises(ss.InputError, match="two numbers"):
        number_in(text)


@pytest.mark.parametrize("text", ["many", "1 2", "1.2.3", "1,000.5.", "--1", "5%"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ss.InputError, match="write a number"):
        number_in(text)


def test_numbers_that_are_codes_stand_as_categories(project):
    answered(project)
    project.set(ME, strata=None)
    project.use(ME, "stratum", "codes")
    assert saved(project)["model"]["formula"] == "income ~ region + sex + C(stratum)"
    again = Project(project.path)
    assert again.codes == {"stratum"} and not again.fixed
    again.use(ME, "stratum", "public")
    assert saved(again)["model"]["formula"] == "income ~ region + sex + stratum"


def test_public_totals_that_do_not_add_up_are_refused_where_they_are_written(project):
    answered(project)
    with pytest.raises(ss.InputError, match="add up to 3,000"):
        project.set_totals(ME, "sex", "f = 2000\nm = 1000")
    with pytest.raises(ss.InputError, match="every level"):
        project.set_totals(ME, "sex", "f = 4000")
    assert "population_totals" not in saved(project)["privacy"]


def test_a_check_finds_what_would_stop_the_release(project):
    answered(project)
    project.declare(ME, "tenure", {"levels": ["own", "tenant"]})
    work = Work(project.path)
    work.check(project.text)
    finished(work)
    assert "tenure" in work.faults["check"] and work.texts["check"] == project.text
    english = words.Words("en")
    assert "tenure" in str(release._check(project, work, english))
    project.set(ME, title="Another")
    assert "tenure" not in str(release._check(project, work, english))  # the fault was of an earlier plan


def test_a_release_in_the_folder_is_taken_up_again(project):
    answered(project)
    project.use(ME, "tenure", "out")
    project.plan.write(project.plan.release(), project.plan.place())
    work = Work(project.path)
    work.adopt(project.text)
    finished(work)
    work.compare()
    finished(work)
    assert not work.faults and "compare" in work.found


def test_messages_name_the_questions_of_the_page():
    english = words.Words("en")
    text = on_this_page("declare missing = 'category' in [outcomes.income]; --overwrite replaces a release", english)
    assert text == "declare 'Missing values are an answer of their own'; 'Replace the release that is in the folder'"


def test_what_is_released_is_the_file_as_it_is_now(project):
    answered(project)
    project.use(ME, "tenure", "out")
    pd.read_csv("survey.csv").assign(region="north").to_csv("survey.csv", index=False)
    work = Work(project.path)
    work.release(project.text, overwrite=False)
    work.wait()
    assert work.doing == "" and work.faults == {}
    assert {*ss.read_release("survey-release").datasets[0].column("region")} == {"north"}


def test_a_plan_that_changes_between_agreement_and_release_is_not_released(project):
    answered(project)
    agreed = project.text
    project.set(ME, epsilon=1.0)
    work = Work(project.path)
    work.release(agreed, overwrite=False)
    work.wait()
    assert "changed meanwhile" in work.faults["release"] and not (project.path.parent / "survey-release").exists()


@pytest.mark.slow
def test_a_dossier_has_the_plan_of_its_release_alone(project):
    """A comment does not make it another plan; the plan of another release is not enclosed."""
    answered(project)
    project.use(ME, "tenure", "out")
    work = Work(project.path)
    work.release(project.text, overwrite=False)
    work.wait()
    project.path.write_text("# ours\n" + project.path.read_text(encoding="utf-8"), encoding="utf-8")
    work.dossier()
    work.wait()
    assert work.faults == {} and "plan.toml" in (work.found["dossier"] / "dossier.html").read_text(encoding="utf-8")
    project.set(ME, epsilon=0.5)
    work.adopt(project.text)
    work.wait()
    assert "dossier" not in work.found  # it was of the release that the page made
    work.dossier()
    work.wait()
    assert "plan.toml" not in (work.found["dossier"] / "dossier.html").read_text(encoding="utf-8")


def test_the_page_lists_what_a_formula_with_a_dot_publishes(project):
    answered(project)
    project.use(ME, "tenure", "out")
    text = re.sub('(?m)^formula = "[^"]*"', 'formula = "income ~ ."', project.path.read_text(encoding="utf-8"))
    text = text.replace("[edits]", "[edits]\nderive = {net = 'income * 0.8'}")
    project.path.write_text(text, encoding="utf-8")
    again = Project(project.path)
    said = next(line for line in str(again.plan.check()).splitlines() if "record by record as they are" in line)
    assert "region, sex, stratum" in said and again.predictors == ["region", "sex", "stratum"]
    shown = str(file._published(again, words.Words("en")))
    assert "region, sex, stratum" in shown and "income, wt, net" in shown


def test_a_column_that_no_formula_has_is_not_listed_as_published(project):
    answered(project)
    for outcome in ("income", "tenure"):
        project.leave_out(ME, outcome, frozenset({"sex"}))
    assert project.predictors == ["region"]
    assert "sex" not in str(file._published(project, words.Words("en")))


@pytest.mark.slow
def test_without_a_choice_the_page_foretells_the_tables_that_are_published(project):
    answered(project)
    project.use(ME, "tenure", "out")
    project.set(ME, by=None)
    assert project.by == ["region", "sex"]
    assert {"region", "sex"} <= {*project.plan.check().expected}
    made = project.plan.release(seed=1)
    assert made.table_predictors() == project.by
    expected = next(forecast_module._rehearsed(project.plan, 4.0)).cells
    published = made.tables(project.by)
    assert {"region", "sex"} <= {*expected} and len(expected) == len(published) - 1  # all are known


def test_a_plan_that_is_no_text_or_is_gone_does_not_stop_the_page(project):
    answered(project)
    before = project.text
    project.path.write_bytes("title = 'Löhne'".encode("latin-1"))
    with pytest.raises(ss.InputError):
        project.read_again()
    assert project.text == before
    project.path.unlink()
    project.read_again()
    project.set(ME, title="Incomes")
    assert saved(project)["release"]["title"] == "Incomes" and saved(project)["privacy"]["epsilon"] == 4


def test_a_plan_of_a_file_that_is_not_there_changes_nothing(project):
    answered(project)
    settings, columns = project.settings, project.columns
    project.path.write_text("[survey]\nfile = 'nowhere.csv'\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(ss.InputError, match="nowhere"):
            project.read_again()
    assert project.settings == settings and project.columns == columns


def test_a_plan_that_somebody_made_meanwhile_is_read(project):
    answered(project)
    late = Project(project.path.with_name("late.toml"))
    late.path.write_text(project.path.read_text(encoding="utf-8"), encoding="utf-8")
    late.set(ME, title="Incomes")
    assert late.settings.privacy.epsilon == 4 and late.changed_by == [None, ME]


def test_a_refused_answer_keeps_what_was_edited_elsewhere(project):
    answered(project)
    version = project.version
    text = project.path.read_text(encoding="utf-8").replace("epsilon = 4 ", "epsilon = 1 ")
    project.path.write_text(text, encoding="utf-8")
    with pytest.raises(ss.InputError):
        project.set(ME, epsilon=-3.0)
    assert project.settings.privacy.epsilon == 1 and project.version == version + 1


def test_bounds_of_all_outcomes_stay_when_the_weights_change(project):
    answered(project)
    project.use(ME, "tenure", "out")
    text = re.sub(r"\[outcomes\.income\]\n.*\n", "", project.path.read_text(encoding="utf-8"))
    project.path.write_text(text.replace("[privacy]", "[privacy]\nbounds = [0, 20000]"), encoding="utf-8")
    again = Project(project.path)
    again.set(ME, weights=None)
    again.set(ME, unweighted=True)
    assert again.declared("income") == {"bounds": (0, 20_000)}


def test_a_file_cannot_be_taken_away(project):
    answered(project)
    with pytest.raises(ss.InputError, match="confidential file"):
        project.set_any(ME, "survey.file", "")
    assert project.settings.survey.file == "survey.csv"


def test_a_ledger_without_the_survey_can_be_begun_on_the_page(project):
    answered(project)
    ss.Ledger("budget.jsonl", "another survey", create=True)
    project.set(ME, ledger="budget.jsonl", survey="incomes")
    shown = str(release._ledger(project, words.Words("en")))
    assert "no survey" in shown and 'data-send="create"' in shown and "create=True" not in shown
    project.create_ledger(ME)
    assert "create" not in str(release._ledger(project, words.Words("en")))


def test_counts_are_drawn_once_and_always(project):
    """They are of the first outcome that has them, and are not counted again with each outcome."""
    answered(project)
    rows = pd.DataFrame({
        "outcome": ["tenure", "income", "income", "pay", "pay"], "statistic": ["proportion", *["count", "mean"] * 2],
        "category": ["own", *[np.nan] * 4], "sex": "f", "ratio": 1.5, "cv": [0.1, 0.2, 0.3, 0.2, 0.3],
    })  # fmt: skip
    shown = str(budget._cells(rows, project, words.Words("en")))
    assert shown.count("<caption>") == 4 and "of 4 estimates" in shown


def test_savings_that_are_being_added_are_not_shown_yet():
    forecast = Forecast()
    forecast._without, forecast._savings, forecast._at = [SimpleNamespace(cells=pd.DataFrame())], {"region": []}, 4.0
    assert forecast.savings(4.0) == {}


def test_a_release_that_is_taken_up_is_compared_with_the_file_as_it_is_now(project):
    answered(project)
    project.use(ME, "tenure", "out")
    project.plan.write(project.plan.release(seed=1), project.plan.place())
    frame = pd.read_csv("survey.csv")
    frame.assign(income=frame["income"] * 3).to_csv("survey.csv", index=False)
    work = Work(project.path)
    work.adopt(project.text)
    work.wait()
    work.compare()
    work.wait()
    mean = np.average(frame["income"] * 3, weights=frame["wt"])
    cells = work.found["compare"].cells.query("statistic == 'mean' and sex == 'all'")
    assert cells["estimate"].item() == pytest.approx(mean)


def test_the_fault_of_an_earlier_plan_says_so(project):
    answered(project)
    project.use(ME, "tenure", "out")
    (project.path.parent / "survey-release").mkdir()
    (project.path.parent / "survey-release" / "notes.txt").write_text("ours", encoding="utf-8")
    work, english = Work(project.path), words.Words("en")
    work.release(project.text, overwrite=False)
    work.wait()
    assert "survey-release" in str(release._made(project, work, english))
    assert english("release.earlier") not in str(release._made(project, work, english))
    project.set(ME, folder="another")
    assert "survey-release" in str(release._made(project, work, english))
    assert english("release.earlier") in str(release._made(project, work, english))


def test_a_file_that_is_no_plan_is_not_read_at_every_look(project, monkeypatch):
    answered(project)
    project.path.write_text("[survey]\nfile = 'nowhere.csv'\n", encoding="utf-8")
    reads = []
    monkeypatch.setattr(project, "_read_columns", lambda: reads.append(1) or Project._read_columns(project))
    for _ in range(5):
        with pytest.raises(ss.InputError, match="nowhere"):
            project.read_again()
    assert len(reads) == 1


def test_a_plan_whose_file_is_gone_is_not_released(project):
    answered(project)
    project.path.unlink()
    work = Work(project.path)
    work.release(project.text, overwrite=False)
    work.wait()
    assert "changed meanwhile" in work.faults["release"]


def test_a_file_with_line_ends_of_windows_is_read_once(project):
    answered(project)
    text = project.path.read_text(encoding="utf-8").replace("epsilon = 4 ", "epsilon = 1 ")
    project.path.write_bytes(text.replace("\n", "\r\n").encode())
    for _ in range(3):
        project.read_again()
    assert project.settings.privacy.epsilon == 1 and project.changed_by[-2:] == [ME, None]
    work = Work(project.path)
    work.check(project.text)
    work.wait()
    assert work.faults == {}
