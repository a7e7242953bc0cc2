"""Plans of strict releases: several outcomes, their schema, everything that ``synthesize`` takes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.plan.sections import OutcomeSettings

N = 900_000
PLAN = """
[survey]
file = "file.csv"
weights = "w"
[model]
formula = "job ~ sex + region"
later = ["pay ~ sex + job", "visits ~ region"]
[outcomes.job]
levels = ["none", "part", "full"]
[outcomes.pay]
bounds = [1, 200_000]
applies = "job != 'none'"
[outcomes.visits]
bounds = [0, 40]
whole = true
[privacy]
epsilon = 8
delta = 1e-10
population_totals = {region = {north = 400_000, south = 500_000}}
weight_bounds = [0.1, 5]
importance = {pay = 2}
[edits]
rules = ["visits <= 30"]
[tables]
by = ["region", "job"]
[release]
m = 4
"""
OUTCOMES = {
    "job": ss.Outcome(levels=["none", "part", "full"]), "pay": ss.Outcome(bounds=(1, 200_000), applies="job != 'none'"),
    "visits": ss.Outcome(bounds=(0, 40), whole=True),
}  # fmt: skip
FORMULAS = ["job ~ sex + region", "pay ~ sex + job", "visits ~ region"]


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({
        "region": rng.choice(["north", "south"], n), "sex": rng.choice(["f", "m"], n),
        "job": rng.choice(["none", "part", "full"], n), "visits": rng.poisson(3, n), "w": 1_100 * rng.uniform(1, 3, n),
    })  # fmt: skip
    return frame.assign(pay=np.where(frame["job"] == "none", np.nan, np.exp(rng.normal(9, 0.5, n)).round(2)))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    people().to_csv(folder / "file.csv", index=False)
    (folder / "plan.toml").write_text(PLAN)
    return folder


def test_a_plan_releases_what_synthesize_releases(written: Path) -> None:
    plan = ss.Plan.read(written / "plan.toml")
    assert not plan.lacking
    release = plan.release(seed=5)
    same = ss.synthesize(
        ss.SurveyDesign.read(written / "file.csv", weights="w"), FORMULAS, epsilon=8, m=4, outcomes=OUTCOMES,
        mechanism=ss.Strict(delta=1e-10), weight_bounds=(0.1, 5), importance={"pay": 2}, edits=["visits <= 30"],
        population_totals={"region": {"north": 400_000, "south": 500_000}}, seed=5,
    )  # fmt: skip
    for ours, theirs in zip(release.datasets, same.datasets, strict=True):
        pd.testing.assert_frame_equal(ours.frame, theirs.frame)
    assert release.privacy.epsilon == 8
    counts = release.tables("region", statistic="count").set_index("region")["estimate"]
    assert counts["north"] == pytest.approx(400_000)


def test_its_file_has_tables_by_a_category_and_comes_back(written: Path) -> None:
    plan = ss.Plan.read(written / "plan.toml")
    place = plan.write(plan.release(seed=5), written / "out")
    printed = pd.read_csv(place / "public" / "tables.csv")
    assert {"none", "part", "full"} <= set(printed["job"])
    (written / "again.toml").write_text(plan.to_toml())
    again = ss.Plan.read(written / "again.toml")
    assert again.settings.outcomes == plan.settings.outcomes
    assert again.settings == plan.settings


def test_a_check_foretells_every_outcome(written: Path) -> None:
    outlook = ss.Plan.read(written / "plan.toml").check()
    said = str(outlook)
    for statistic in ("proportions", "means", "counts"):
        assert f"standard errors of {statistic}" in said
    assert "asked where job != 'none'" in " ".join(said.split())
    assert outlook.expected["se_ratio"].notna().all()


def test_last_years_release_is_read_from_its_folder(written: Path) -> None:
    same = OUTCOMES | {"pay": ss.Outcome(bounds=(1, 200_000), missing="category")}
    plan = ss.Plan.read(written / "plan.toml").set(outcomes=same)
    plan.write(plan.release(seed=6), written / "last-year")
    release = plan.set(earlier="last-year", epsilon=1).release(seed=7)
    assert release.privacy.epsilon == pytest.approx(9)  # of who is in both files


def test_what_is_public_of_outcomes_has_the_same_names_in_plans_and_in_python() -> None:
    assert [*OutcomeSettings.model_fields] == [field.name for field in fields(ss.Outcome)]


def test_outcomes_that_nothing_declares_are_asked_for_together(written: Path) -> None:
    plan = ss.Plan.draft(
        written / "file.csv", formula="job ~ sex", later=["pay ~ sex + job", "visits ~ job"], weights="w", guess=False,
        epsilon=3, population_total=N, outcomes={"visits": ss.Outcome(bounds=(0, 40), whole=True)},
    )  # fmt: skip
    assert set(plan.lacking) == {"privacy.bounds", "privacy.levels"}
    assert plan.lacking["privacy.bounds"].startswith("{pay = [lowest, highest]}")
    assert plan.lacking["privacy.levels"].startswith('{job = ["..."')


def test_short_entries_say_the_same(written: Path) -> None:
    """Bounds, levels and who is asked by outcome, zeros and counts of all."""
    design = ss.SurveyDesign.read(written / "file.csv", weights="w")
    plan = ss.Plan(
        design, FORMULAS[0], later=FORMULAS[1:], epsilon=8, population_total=N, levels={"job": OUTCOMES["job"].levels},
        bounds={"pay": (1, 200_000), "visits": (0, 40)}, kind="count", applies={"pay": "job != 'none'"}, m=4,
    )  # fmt: skip
    counts = OUTCOMES | {"pay": ss.Outcome(bounds=(1, 200_000), whole=True, applies="job != 'none'")}
    same = ss.synthesize(design, FORMULAS, epsilon=8, m=4, outcomes=counts, population_total=N, seed=2)
    pd.testing.assert_frame_equal(plan.release(seed=2).datasets[3].frame, same.datasets[3].frame)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"outcomes": {"rent": {"bounds": [0, 1]}}}, "outcomes names 'rent'.*no outcome"),
        ({"bounds": {"jobs": (0, 1)}}, "privacy.bounds names 'jobs'.*job"),
        ({"bounds": {"visits": (0, 50)}}, "privacy.bounds and outcomes.visits.bounds both declare"),
        ({"prior": "flat"}, "model.prior = 'flat': not in a strict release"),
        ({"delta": 0.05}, "delta"),
    ],
)
def test_entries_that_do_not_go_together_are_named(written: Path, entries: dict[str, object], said: str) -> None:
    with pytest.raises(ss.InputError, match=said):
        plan = ss.Plan.read(written / "plan.toml").set(population_totals=None, importance=None, weight_bounds=None)
        plan.set(population_total=N, **entries).check()


def test_a_formula_without_predictors_takes_the_public_columns(written: Path) -> None:
    plan = ss.Plan.read(written / "plan.toml").set(
        formula="job ~ .", later=["pay ~ .", "visits ~ ."], public=["region", "sex"], m=4
    )
    assert "job ~ region + sex; pay ~ region + sex + job" in " ".join(str(plan.check()).split())
    assert plan.release(seed=1).outcomes == ("job", "pay", "visits")


def test_no_records_are_fitted_for_a_look(written: Path) -> None:
    with pytest.raises(ss.InputError, match="noisy tables: there is no fit"):
        ss.Plan.read(written / "plan.toml").fit()


def test_the_command_line_takes_a_schema(written: Path, run) -> None:
    entries = ["--set", "outcomes.pay.bounds=[1, 200000]", "--set", "outcomes.pay.missing=category"]
    code, out, err = run(
        "plan", str(written / "file.csv"), "--formula", "pay ~ sex", "--epsilon", "3", "--population-total", str(N),
        "--weights", "w", *entries,
    )  # fmt: skip
    assert code == 0, err
    assert "[outcomes.pay]\nbounds = [1, 200000]" in out
    assert "FILL IN" not in out


def test_a_check_says_nothing_of_the_levels_of_an_outcome(written: Path) -> None:
    """Tables are by region and job: how many records have each job is confidential."""
    frame = people()
    expected = ss.Plan.read(written / "plan.toml").check().expected
    assert [c for c in expected if c not in ("records", "se_ratio")] == ["region"]
    confidential = set(frame.groupby(["region", "job"]).size()) | set(frame.groupby("job").size())
    assert not confidential & set(expected["records"])


def test_a_strict_plan_is_charged_when_the_file_is_measured(written: Path, tmp_path: Path) -> None:
    ss.Ledger(tmp_path / "budget.jsonl", "people", cap=9, create=True)
    plan = ss.Plan.read(written / "plan.toml").set(ledger=str(tmp_path / "budget.jsonl"), survey="people")
    release = plan.release(enter=False)
    assert ss.Ledger(tmp_path / "budget.jsonl", "people").entries()["blank"].tolist() == [8]
    plan.write(release, tmp_path / "out")  # which spends nothing more
    assert len(ss.Ledger(tmp_path / "budget.jsonl", "people").entries()) == 1
    with pytest.raises(ss.PrivacyError, match="cap"):
        plan.release()


ALL_LEVELS = ss.Outcome(levels=["none", "part", "full", "all"])
OF_JOB, OF_PAY, OF_BOTH = ["job ~ sex"], ["pay ~ sex"], ["job ~ sex", "pay ~ sex + job"]
WRONG_TABLES = {
    "a mean of a category": (OF_JOB, {"statistic": ["count", "mean", "proportion"]}, "'mean' needs an outcome that is"),
    "quantiles of a category": (OF_JOB, {"statistic": ["quantile"]}, "'quantile' needs an outcome that is a number"),
    "inequality of a category": (OF_JOB, {"statistic": ["gini", "poverty_rate"]}, "needs an outcome that is a number"),
    "means by the only outcome": (OF_JOB, {"statistic": ["mean"], "by": ["job"]}, "needs an outcome that is a number"),
    "shares by the only outcome": (OF_JOB, {"statistic": ["proportion"], "by": ["job"]}, "by which the tables are not"),
    "shares of amounts": (OF_PAY, {"statistic": ["proportion"]}, "'pay' may have more than 500 different values"),
    "shares by the only category": (OF_BOTH, {"statistic": ["proportion"], "by": ["job"]}, "'pay' may have more than"),
    "no statistic": (OF_BOTH, {"statistic": []}, "is not one of mean"),
    "percent for a probability": (OF_PAY, {"statistic": ["quantile"], "quantiles": [50]}, "between 0 and 1"),
    "a variable twice": (OF_PAY, {"by": ["sex", "sex"]}, "names a column twice"),
    "a column of the table": (["pay ~ n"], {"by": ["n"]}, "rename it"),
    "the same by default": (["pay ~ n"], {}, "rename it"),
    "a category of that name": (["pay ~ zone"], {"by": ["zone"]}, "has a category 'all'"),
    "a category by default": (["pay ~ zone"], {}, "has a category 'all'"),
    "a level of that name": (OF_JOB, {"by": ["job"], "outcomes": {"job": ALL_LEVELS}}, "has a category 'all'"),
    "too large a cell": (OF_PAY, {"min_cell": 2**31}, "min_cell"),
    "too many decimals": (OF_PAY, {"digits": 10**9}, "less than or equal to 15"),
    "half a letter": (OF_PAY, {"title": "pay \ud800"}, "no file can hold"),
}  # fmt: skip


@pytest.mark.parametrize(("formulas", "entries", "said"), WRONG_TABLES.values(), ids=WRONG_TABLES)
def test_what_its_tables_would_refuse_is_refused_before_the_ledger_is_charged(
    tmp_path: Path, formulas: list[str], entries: dict[str, object], said: str
) -> None:
    ledger = ss.Ledger(tmp_path / "budget.jsonl", "people", cap=9, create=True)
    before = ledger.path.read_bytes()
    frame = people().assign(n="u", zone="all").fillna({"pay": 1.0})
    given = {name: ss.Outcome(bounds=(1, 200_000)) if name == "pay" else OUTCOMES[name]
             for name in [formula.split(" ")[0] for formula in formulas]} | entries.pop("outcomes", {})  # fmt: skip
    for refused in (ss.Plan.check, ss.Plan.release):
        with pytest.raises(ss.InputError, match=said):
            refused(ss.Plan(
                ss.SurveyDesign(frame, weights="w"), formulas[0], later=formulas[1:] or None, epsilon=8, m=4,
                population_total=N, ledger=str(ledger.path), survey="people", outcomes=given, **entries,
            ))  # fmt: skip
        assert ledger.path.read_bytes() == before


def test_all_that_is_wrong_of_tables_is_one_message(written: Path) -> None:
    plan = ss.Plan.read(written / "plan.toml").set(
        units={"rent": "EUR"}, statistic=["quantile"], quantiles=[50], min_cell=2**31, by=["region", "region"]
    )
    with pytest.raises(ss.InputError) as error:
        plan.release()
    for said in ("names a column twice", "between 0 and 1", "min_cell", "'rent', which is not an outcome"):
        assert sum(said in each for each in error.value.obstacles) == 1
    assert len(error.value.obstacles) == 4


@pytest.mark.parametrize(
    ("outcome", "statistic"),
    [
        (OUTCOMES["visits"], ["proportion", "mean"]),
        (ss.Outcome(bounds=(1, 400), whole=True, zeros=True), ["proportion"]),
        (ss.Outcome(bounds=(0, 20_000), round=50, heaps=[7]), ["proportion"]),
        (ss.Outcome(levels=range(41)), ["proportion", "count"]),
    ],
)
def test_tables_that_can_be_made_are_not_refused(
    written: Path, tmp_path: Path, outcome: ss.Outcome, statistic: list[str]
) -> None:
    frame = people()
    plan = ss.Plan(
        ss.SurveyDesign(frame.assign(visits=frame["visits"].clip(upper=40)), weights="w"), "visits ~ sex", epsilon=8,
        population_total=N, outcomes={"visits": outcome}, statistic=statistic, m=4, folder=str(tmp_path / "out"),
    )  # fmt: skip
    made = pd.read_csv(plan.write(plan.release(seed=1)) / "public" / "tables.csv")
    assert set(made["statistic"]) == set(statistic)


def test_counts_and_proportions_leave_numbers_out(written: Path) -> None:
    """As they do where all outcomes are categories; a count has no outcome."""
    plan = ss.Plan.read(written / "plan.toml").set(statistic=["count", "proportion"], by=["region"])
    table = plan.release(seed=5).tables("region", **plan.statistics)
    assert set(table["outcome"]) == {"", "job"}


@pytest.mark.parametrize("done", [ss.Plan.check, str])
def test_a_cap_is_recorded_with_the_first_release_and_not_by_a_check(written: Path, tmp_path: Path, done) -> None:
    ledger = ss.Ledger(tmp_path / "budget.jsonl", "people", create=True)
    before = ledger.path.read_bytes()
    plan = ss.Plan.read(written / "plan.toml").set(ledger=str(ledger.path), survey="people", cap=5)
    with pytest.raises(ss.PrivacyError, match="cap of 5 only 5 is left"):
        done(plan)
    with pytest.raises(ss.PrivacyError, match="cap of 5 only 5 is left"):
        plan.release()
    assert (plan.ledger.cap, plan.ledger.left) == (5, 5) and "not in the ledger yet" in str(plan.ledger)
    assert ledger.path.read_bytes() == before and ledger.cap is None
    plan = plan.set(cap=50)  # it was mistyped
    done(plan)
    assert ledger.path.read_bytes() == before
    plan.release()
    assert (ledger.cap, ledger.left, len(ledger.entries())) == (50, 42, 1)
    assert "not in the ledger yet" not in str(plan.ledger)
    with pytest.raises(ss.InputError, match=r"the cap of 'people' is 50, and cap= names another"):
        plan.set(cap=5).check()


def test_a_check_adds_up_two_years(written: Path) -> None:
    same = OUTCOMES | {"pay": ss.Outcome(bounds=(1, 200_000), missing="category")}
    plan = ss.Plan.read(written / "plan.toml").set(outcomes=same)
    plan.write(plan.release(seed=6), written / "year-before")
    said = " ".join(str(plan.set(earlier="year-before", epsilon=1).check()).split())
    assert "with the earlier year's tables 9 for people who are in both files" in said
    assert "delta = 1e-10" in said and "protected with epsilon 9" in said


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"max_risk": 0.0}, "privacy.max_risk = 0.0: not in a strict release"),
        ({"name": "fbp"}, "model.name = 'fbp' is for one outcome"),
    ],
)
def test_entries_that_would_be_lost_are_refused(written: Path, entries: dict[str, object], said: str) -> None:
    plan = ss.Plan.read(written / "plan.toml").set(
        population_totals=None, importance=None, weight_bounds=None, delta=None, population_total=N
    )
    with pytest.raises(ss.InputError, match=said):
        plan.set(**entries)


def test_zeros_are_added_to_bounds_that_are_said_elsewhere(written: Path) -> None:
    design = ss.SurveyDesign.read(written / "file.csv", weights="w")
    plan = ss.Plan(
        design, "visits ~ sex", epsilon=3, population_total=N, bounds=(0, 40), outcomes={"visits": {"zeros": True}}, m=4
    )
    assert "zeros a value of their own" in " ".join(str(plan.check()).split())


def test_levels_by_commas_on_the_command_line(written: Path, run) -> None:
    code, out, err = run(
        "plan", str(written / "file.csv"), "--formula", "job ~ sex", "--epsilon", "3", "--population-total", str(N),
        "--weights", "w", "--set", "outcomes.job.levels=none,part,full",
    )  # fmt: skip
    assert code == 0, err
    assert 'levels = ["none", "part", "full"]' in out


@pytest.mark.parametrize("name", ["own", "records", "ratio", "released"])
def test_a_predictor_may_have_the_name_of_a_column_of_expected_errors(name: str) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({name: rng.choice(["a", "b"], 200), "y": rng.gamma(4, 100, 200), "w": 10.0})
    design = ss.SurveyDesign(frame, weights="w")
    plan = ss.Plan(design, f"y ~ {name}", epsilon=8, population_total=2_000, bounds=(0, 5_000), m=4)
    assert len(plan.check().expected) == 1
    assert name in plan.release(seed=1).table_predictors()
