"""Everything that stands in the way of a call is told in one message, in the order in which to mend it."""

from __future__ import annotations

import re
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from surveysynth.errors import Obstacles


@pytest.fixture
def file() -> pd.DataFrame:
    """A file like R's nhanes: a yes-no outcome that some lack, strata, PSUs, weights that no predictor explains."""
    rng = np.random.default_rng(5)
    n = 600
    return pd.DataFrame({
        "cholesterol": np.where(rng.random(n) < 0.1, np.nan, (rng.random(n) < 0.2).astype(float)),
        "race": rng.choice(["a", "b", "c"], n), "stratum": np.repeat(np.arange(5), n // 5),
        "cluster": np.tile(np.repeat([1, 2], n // 10), 5), "wt": rng.lognormal(9, 0.8, n),
    })  # fmt: skip


@pytest.fixture
def design(file) -> ss.SurveyDesign:
    return ss.SurveyDesign(file, weights="wt", strata="stratum", psu="cluster")


def listed(error: pytest.ExceptionInfo) -> list[str]:
    """The obstacles, after their number and the sentence above."""
    lines = str(error.value).split("\n")
    many = int(re.fullmatch(r"(\d+) things stand in the way; mend them in this order:", lines[0])[1])
    assert len(error.value.obstacles) == many == len(lines) - 1
    assert [line.split(". ")[0] for line in lines[1:]] == [str(k) for k in range(1, many + 1)]
    return lines[1:]


def in_order(lines: list[str], expected: list[str]) -> None:
    assert len(lines) == len(expected), lines
    for line, part in zip(lines, expected, strict=True):
        assert part in line


def test_a_strict_release_of_a_new_file(design):
    with pytest.raises(ss.InputError) as error:
        ss.synthesize(design, "C(cholesterol) ~ race")
    lines = listed(error)
    in_order(lines, ["Give epsilon=", 'Outcome(..., missing="category")'])
    assert all(part in lines[0] for part in ("population_total=", "outcomes={'cholesterol': Outcome(levels=[...])}"))
    declared = {"cholesterol": ss.Outcome(levels=[0, 1], missing="category")}
    release = ss.synthesize(design, "C(cholesterol) ~ race", epsilon=8, population_total=1e7, outcomes=declared)
    assert release.m == 20


def test_a_fit_of_a_model_that_the_file_does_not_suit(design):
    model = ss.MultinomialRegression("cholesterol", "race")
    with pytest.raises(ss.InputError) as error:
        ss.synthesize(design, model, mechanism=ss.PseudoPosterior(), accept_diagnostics=["all"])
    in_order(listed(error), [
        "levels={'cholesterol'", "epsilon=", "accept_diagnostics is a list", "missing='drop'", "clusters='ignore'",
        "weight='public'",
    ])  # fmt: skip


def test_what_the_arguments_and_the_values_of_a_file_are_refused_for(design, tmp_path):
    ledger = ss.Ledger(tmp_path / "budget.jsonl", "survey", cap=5, create=True)
    with pytest.raises(ss.InputError) as error:
        ss.measure(
            design, ["C(cholesterol) ~ race", "age ~ race"], epsilon=9, population_total=1e7, unit="nobody",
            clusters="perhaps", ledger=ledger, outcomes={"cholesterol": ss.Outcome(levels=[0, 1])},
        )  # fmt: skip
    in_order(listed(error), ["age", "clusters='perhaps'", "nobody", "epsilon", "missing="])
    assert len(ledger.entries()) == 0


def test_several_outcomes_that_contradict_their_schemas(file):
    file["job"] = np.where(file.index % 7 == 0, "other", "paid")
    file["hours"] = np.where(file.index % 5 == 0, np.nan, 40.0)
    design = ss.SurveyDesign(file, weights="wt")
    schema = {"job": ss.Outcome(levels=["paid", "unpaid"]), "hours": ss.Outcome(bounds=(0, 80))}
    with pytest.raises(ss.InputError) as error:
        ss.measure(design, ["job ~ race", "hours ~ race"], epsilon=5, population_total=1e7, outcomes=schema)
    in_order(listed(error), ["'job' has levels that were not declared", "'hours' is missing in 120 rows"])


def test_several_predictors_that_are_wrong(file):
    file["sex"], file["region"] = np.where(file.index % 3, "f", None), np.where(file.index % 4, "n", None)
    design = ss.SurveyDesign(file.assign(income=1000.0), weights="wt")
    with pytest.raises(ss.InputError) as error:
        ss.measure(design, "income ~ sex + region", epsilon=5, population_total=1e7, bounds=(0, 1e4))
    in_order(listed(error), ["predictor 'region' is missing in 150 rows", "predictor 'sex' is missing in 200 rows"])


def test_a_plan_checks_what_its_release_would_refuse(file, tmp_path):
    file = file.assign(income=np.linspace(1, 900, len(file)))
    design = ss.SurveyDesign(file, weights="wt", strata="stratum", psu="cluster")
    plan = ss.Plan(
        design, "income ~ race", epsilon=5, population_total=float(file["wt"].sum()), bounds=(0, 1_000), unit="nobody",
        rules=["income < rent"],
    )  # fmt: skip
    for refused in (plan.check, plan.release):
        with pytest.raises(ss.InputError) as error:
            refused()
        lines = listed(error)
        assert any("rent" in line for line in lines) and any("nobody" in line for line in lines)


def test_the_command_line_lists_them(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file.assign(income=np.linspace(1, 900, len(file))).to_csv("file.csv", index=False)
    words = [
        "synthesize", "file.csv", "--weights", "wt", "--formula", "income ~ race", "--epsilon", "5",
        "--bounds", "0,1000", "--population-total", str(file["wt"].sum()), "--set", "privacy.unit=nobody", "--set",
        "edits.rules=income < rent", "--out", "out",
    ]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert not (tmp_path / "out").exists()
    assert "2 things stand in the way" in str(done.exception) and "\n2. " in str(done.exception)


def test_one_obstacle_is_told_as_it_is():
    wrong = Obstacles()
    error = ss.ModelError("singular")
    assert wrong.check(lambda: 3) == 3
    assert wrong.check(_raise, error) is None and wrong.check(_raise, ss.ModelError("singular")) is None
    with pytest.raises(ss.ModelError) as caught:
        wrong.refuse()
    assert caught.value is error


def test_errors_of_python_are_no_obstacles():
    with pytest.raises(ZeroDivisionError):
        Obstacles().check(lambda: 1 // 0)


def test_obstacles_within_obstacles_are_one_list():
    inner, outer = Obstacles(), Obstacles()
    for name in "ab":
        inner.note(ss.InputError(name))
    outer.check(inner.refuse)
    outer.note(ss.PrivacyError("c"))
    with pytest.raises(ss.InputError) as error:
        outer.refuse()
    assert error.value.obstacles == ("a", "b", "c")


def test_what_two_checks_find_is_told_once(file):
    """A fit stops at the first outcome that is missing; its list has this one and the other, once each."""
    file["a"] = file["b"] = np.where(file.index % 9, 1.0 + file.index, np.nan)
    design = ss.SurveyDesign(file, weights="wt")
    with pytest.raises(ss.InputError) as error:
        ss.fit(design, ss.FBS(["a", "b"], "race"), epsilon=20, mechanism=ss.PseudoPosterior())
    in_order(listed(error), ["outcome 'a' is missing in 67 rows", "outcome 'b' is missing in 67 rows"])


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("mechanism", [None, ss.PseudoPosterior()], ids=["strict", "records"])
def test_nothing_is_checked_twice_where_nothing_is_wrong(mechanism):
    """Checks of one value, a seed or a formula's characters, may come again; checks of a file do not."""
    design = ss.datasets.sdr_sample(seed=1)
    checks = {
        "check_public", "check_total", "check_unit", "check_rule", "check_accepted", "check_names",
        "declared", "schema_of", "written_out", "in_sequence", "to_synthesize", "without_missing", "unit_of",
        "public_totals", "check_kinds", "check_chains",
    }  # fmt: skip
    calls = Counter[str]()

    def count(frame, event, _):
        if event == "call" and frame.f_code.co_name in checks and "surveysynth" in frame.f_code.co_filename:
            calls[f"{frame.f_code.co_filename}: {frame.f_code.co_name}"] += 1

    given = {"bounds": (0, 1_000_000)} if mechanism is None else {}
    sys.setprofile(count)
    try:
        ss.synthesize(design, "salary ~ gender", epsilon=20, population_total=1e5, mechanism=mechanism, **given)
    finally:
        sys.setprofile(None)
    assert calls and set(calls.values()) == {1}, calls
