"""Plans: chosen from public facts, reviewable as a file, and the same release from every front door."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest
import tomlkit
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from surveysynth.plan import toml_file
from surveysynth.plan.settings import Settings

PUBLIC = {"epsilon": 5, "population_total": 29_501, "bounds": (0, 20_000)}
FORMULA = "income ~ division + education"


@pytest.fixture(scope="module")
def design() -> ss.SurveyDesign:
    return ss.datasets.census_sample(2000, 20261123)


@pytest.fixture
def survey(tmp_path: Path, design: ss.SurveyDesign) -> Path:
    design.frame.to_csv(tmp_path / "workers.csv", index=False)
    return tmp_path / "workers.csv"


def quick(**more: object) -> dict[str, object]:
    """A release that takes no time."""
    return {"mechanism": "pseudo-posterior", "prior": "flat", "m": 2, "epsilon": 20} | more


def written(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def test_a_draft_guesses_roles_and_asks_for_what_only_the_agency_can_know(survey: Path) -> None:
    plan = ss.Plan.draft(survey, formula=FORMULA)
    assert plan.settings["survey.weights"] == "weight"
    assert "guessed" in plan.reasons["survey.weights"]
    assert list(plan.lacking) == ["privacy.epsilon", "privacy.population_total", "privacy.bounds"]
    text = plan.to_toml()
    assert tomllib.loads(text)["model"]["formula"] == FORMULA
    for name in ("epsilon", "population_total", "bounds"):
        assert f"# {name} =   # FILL IN: " in text
    lacks = r"not filled in; it lacks\n  privacy\.epsilon: (.|\n)*\n  privacy\.bounds: "
    for refused in (plan.check, plan.release):
        with pytest.raises(ss.InputError, match=lacks):
            refused()


@pytest.fixture
def with_replicates(tmp_path: Path, design: ss.SurveyDesign) -> tuple[Path, ss.SurveyDesign]:
    """A file with the factors of a jackknife in groups, as public files have them; a design with the full weights."""
    group = np.arange(design.n) % 20
    factors = pd.DataFrame({f"WTREP{k + 1:02}": np.where(group == k, 0.0, 20 / 19) for k in range(20)})
    pd.concat([design.frame, factors], axis=1).to_csv(tmp_path / "workers.csv", index=False)
    full = factors.mul(design.frame["weight"], axis=0)
    whole = pd.concat([design.frame, full], axis=1)
    roles = {"weights": "weight", "replicate_weights": list(factors), "scale": 19 / 20}
    return tmp_path / "workers.csv", ss.SurveyDesign(whole, **roles)


def test_replicate_weights_are_proposed_kept_in_the_plan_and_used_in_the_comparison(
    with_replicates: tuple[Path, ss.SurveyDesign], tmp_path: Path
) -> None:
    file, full = with_replicates
    plan = ss.Plan.draft(file, formula=FORMULA, by=["education"], replicate_scale=0.95, **quick())
    survey = plan.settings.survey
    assert (survey.replicate_weights, survey.combined, survey.replicate_scale) == (["WTREP[0-9]+"], False, 0.95)
    assert "guessed" in plan.reasons["survey.replicate_weights"]
    (tmp_path / "plan.toml").write_text(plan.to_toml())
    plan = ss.Plan.read(tmp_path / "plan.toml")
    pd.testing.assert_frame_equal(ss.estimate(plan.design, "income"), ss.estimate(full, "income"))
    assert any("replicate weights are not published" in line for line in plan.check().warnings)
    with pytest.warns(UserWarning, match="replicate weights are not published"):
        release = plan.release(seed=1)
    assert any("replicate weights are not published" in line for line in release.privacy.assumptions)
    assert not any(name.startswith("WTREP") for name in release.datasets[0].columns)
    assert "replicate_weights" not in release.datasets[0].roles()
    cells = plan.compare(release).cells.query("education == 'all' and statistic == 'mean'")
    expected = ss.estimate(full, "income")[["estimate", "se"]]
    np.testing.assert_allclose(cells[["estimate", "se"]], expected, rtol=1e-10)


def test_a_plan_of_a_design_with_replicate_weights_has_them_in_its_file(
    with_replicates: tuple[Path, ss.SurveyDesign], tmp_path: Path
) -> None:
    plan = ss.Plan(with_replicates[1], FORMULA, **PUBLIC)
    entries = tomllib.loads(plan.save(tmp_path / "other.toml").read_text())["survey"]
    assert entries["replicate_weights"] == [f"WTREP{k:02}" for k in range(1, 21)] and entries["replicate_scale"] == 0.95
    assert not {"combined", "mse", "rscales"} & set(entries)


def test_columns_that_only_their_names_make_replicate_weights_are_no_obstacle(survey: Path) -> None:
    frame = pd.read_csv(survey)
    for k in range(1, 10):
        frame[f"body_wt{k}"] = "heavy"
    frame.to_csv(survey, index=False)
    plan = ss.Plan.draft(survey, formula=FORMULA)
    assert plan.settings.survey.replicate_weights is None and plan.settings.survey.weights == "weight"


def test_of_a_file_alone_a_draft_says_what_to_fill_in(survey: Path) -> None:
    plan = ss.Plan.draft(survey)
    assert list(plan.lacking) == ["model.formula", "privacy.epsilon", "privacy.population_total", "privacy.bounds"]
    assert "# its columns: division, education, experience, income, weight" in plan.to_toml()


def test_every_choice_comes_from_public_facts(design: ss.SurveyDesign) -> None:
    """Other outcomes and weights, the same plan and the same outlook."""
    rng = np.random.default_rng(3)
    frame = design.frame.assign(income=rng.gamma(1, 1e3, design.n), weight=rng.uniform(1, 30, design.n))
    other = ss.SurveyDesign(frame, weights="weight", strata="division")
    pseudo = {"epsilon": 9.0, "mechanism": "pseudo-posterior", "bounds": (1, 9)}
    for given in (PUBLIC | {"m": 4}, pseudo, {"kind": "count"}):
        plans = [ss.Plan(d, FORMULA, by=["division"], **given) for d in (design, other)]
        assert plans[0].to_toml() == plans[1].to_toml()
        if not plans[0].lacking:
            assert str(plans[0].check()) == str(plans[1].check())


def test_the_model_and_the_mechanism_go_by_the_declared_kind(design: ss.SurveyDesign) -> None:
    said = {
        kind: ss.Plan(design, "experience ~ education", kind=kind, bounds=(0, 80)).settings
        for kind in ("amount", "count", "share")
    }
    found = {kind: (s["model.name"], s["privacy.mechanism"]) for kind, s in said.items()}
    assert found == {"amount": ("fbs", "strict"), "count": ("fbs", "strict"), "share": ("fbs", "strict")}


def test_a_scale_for_amounts_that_can_be_zero_or_negative(design: ss.SurveyDesign) -> None:
    pseudo = {"epsilon": 9, "mechanism": "pseudo-posterior"}
    positive, any_sign = (ss.Plan(design, FORMULA, bounds=b, **pseudo).settings for b in ((10, 4e4), (-4e4, 2e4)))
    assert (positive["model.transform"], positive["model.scale"]) == ("log", None)
    assert (any_sign["model.transform"], any_sign["model.scale"]) == ("asinh", 100)


def test_a_check_warns_of_small_cells_zeros_and_wide_intervals(design: ss.SurveyDesign, tmp_path: Path) -> None:
    said = ss.Plan(design, FORMULA, by=["division", "education"], m=4, **PUBLIC | {"epsilon": 1}).check()
    for part in ("have fewer than 10 records", "declare zeros = true", "own: public totals of levels", "no ledger"):
        assert any(pd.Series(said.warnings).str.contains(part)), part
    book = ss.Ledger(tmp_path / "book.jsonl", "workers", 30, create=True)
    plan = ss.Plan(design, FORMULA, ledger=str(tmp_path / "book.jsonl"), survey="workers", zeros=False, **PUBLIC)
    warnings = plan.set(m=4).check(inside=True).warnings
    assert str(ss.Ledger(book.path, "workers")) == str(book)  # nothing was spent
    assert not any("ledger" in w or "zeros" in w for w in warnings)


def test_a_look_inside_finds_zeros_heaps_bounds_shapes_and_sizes() -> None:
    rng = np.random.default_rng(11)
    size = rng.integers(2, 30, 60)
    psu = np.repeat(np.arange(60), size)
    income = np.exp(6 + 0.05 * size[psu] + rng.standard_normal(psu.size))
    income[rng.random(psu.size) < 0.1] = 0
    income[rng.random(psu.size) < 0.2] = 500
    frame = pd.DataFrame({"income": income, "psu": psu, "w": rng.uniform(1, 9, psu.size), "sex": psu % 2})
    design = ss.SurveyDesign(frame, weights="w", psu="psu")
    bounds = (0, float(np.quantile(income, 0.99)))
    plan = ss.Plan(design, "income ~ sex", epsilon=20, population_total=5_000, bounds=bounds, zeros=False, m=4)
    inside = "\n".join(plan.check(inside=True).inside)
    assert f"{np.mean(income == 0):.0%} are exactly 0" in inside
    assert f"1 single value(s) hold {np.mean(income[income != 0] == 500):.0%}" in inside
    assert f"{np.mean(income > bounds[1]):.2%} lie beyond the bounds" in inside
    assert "goes with the size of PSUs" in inside
    assert "500" not in inside  # no value of the file
    assert not plan.check().inside


def test_a_look_inside_finds_missing_and_undeclared_levels() -> None:
    """A category with 40 missing values and 20 of a third level, of 300, as ``release`` refuses them."""
    answer = np.repeat(["yes", "no", "perhaps", None], [120, 120, 20, 40])
    design = ss.SurveyDesign(pd.DataFrame({"answer": answer, "sex": np.arange(300) % 2, "w": 2.0}), weights="w")
    declared = {"answer": ss.Outcome(levels=["yes", "no"])}
    plan = ss.Plan(design, "answer ~ sex", epsilon=5, population_total=600, outcomes=declared)
    inside = plan.check(inside=True).inside
    assert [line.split(";")[0] for line in inside] == [
        "answer: 40 records have none", "answer: 20 records have a level that is not declared",
    ]  # fmt: skip
    with pytest.raises(ss.InputError, match="missing in 40 rows"):
        plan.release()


def test_a_look_inside_finds_what_would_stop_the_release(design: ss.SurveyDesign) -> None:
    """An outcome that all records share, where records are fitted: as ``release`` refuses it."""
    file = ss.SurveyDesign(design.frame.assign(income=5.0), weights="weight")
    plan = ss.Plan(file, FORMULA, epsilon=9, mechanism="pseudo-posterior")
    inside = plan.check(inside=True).inside
    assert len(inside) == 1
    with pytest.raises(ss.ModelError) as refused:
        plan.release()
    assert inside[0] == f"the release would be refused: {refused.value}"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"transform": "asinh", "scale": 9.0, "prior": "flat"}, r"model\.prior = 'flat'; model\.transform = 'asinh'"),
        ({"mechanism": "strict", "name": "nb"}, r"model\.name = 'nb': not in a strict release"),
        ({"debias": True, "reweight": 1}, r"privacy\.reweight = 1; release\.debias = True: not in a strict release"),
        ({"later": [{"formula": "experience ~ income", "name": "nb"}]}, r"later, number 1: the name or missing of a"),
        ({"mechanism": "pseudo-posterior", "importance": {"income": 2}}, r"privacy\.importance: only for strict rel"),
    ],
)
def test_what_the_mechanism_has_not_is_refused_with_what_to_write(design, entries, message) -> None:
    with pytest.raises(ss.InputError, match=message):
        ss.Plan(design, FORMULA, **PUBLIC | entries)


@pytest.mark.parametrize(
    ("section", "entry", "message"),
    [
        ("privacy", {"reference": "old"}, "privacy.earlier is the"), ("privacy", {"overlap": True}, "always added"),
        ("privacy", {"shares": [1, 2]}, "importance ="), ("privacy", {"between_psus": 0.1}, "in the noisy tables"),
        ("model", {"transform": "scores"}, "take out transform"), ("model", {"missing": "impute"}, "'category'"),
        ("model", {"weight": "curved"}, "take out weight"), ("model", {"weight": "linear"}, "take out weight"),
    ],
)  # fmt: skip
def test_entries_of_an_earlier_version_are_answered_with_what_to_write(section, entry, message, tmp_path) -> None:
    (tmp_path / "plan.toml").write_text(tomlkit.dumps({section: entry}))
    with pytest.raises(ss.InputError, match="the plan is of an earlier version") as refused:
        ss.Plan.read(tmp_path / "plan.toml")
    assert message in str(refused.value)


def test_totals_by_stratum(survey: Path, tmp_path: Path, design: ss.SurveyDesign) -> None:
    totals = design.frame.groupby("division")["weight"].sum().round().to_dict()
    given = quick(population_total=totals, by=["division"])
    plan = ss.Plan.draft(survey, formula=FORMULA, strata="division", **given)
    again = ss.Plan.read(plan.save(tmp_path / "plan.toml"))
    table = again.release(seed=1).tables("division", statistic="count").set_index("division")["estimate"]
    assert table.drop("all").to_dict() == pytest.approx(totals)
    assert "totals of the strata" in str(again.check())


def test_a_plan_comes_back_from_its_file(survey: Path, tmp_path: Path) -> None:
    plan = ss.Plan.draft(survey, formula=FORMULA, by=["education"], title='Incomes, "2025"', m=4, **PUBLIC)
    again = ss.Plan.read(plan.save(tmp_path / "plan.toml"))
    assert again.settings == plan.settings
    assert not again.lacking
    with pytest.raises(ss.InputError, match="exists; choose another name"):
        plan.save(tmp_path / "plan.toml")


@pytest.mark.slow
def test_a_plan_from_its_file_expects_the_same_errors(survey: Path, tmp_path: Path) -> None:
    plan = ss.Plan.draft(survey, formula=FORMULA, by=["education"], m=4, **PUBLIC)
    again = ss.Plan.read(plan.save(tmp_path / "plan.toml"))
    assert str(again.check()).partition("\nExpected")[2] == str(plan.check()).partition("\nExpected")[2]


def test_other_values_at_some_entries(survey: Path) -> None:
    plan = ss.Plan.draft(survey, formula=FORMULA, **PUBLIC)
    assert plan.settings["release.m"] == 20
    assert plan.set(mechanism="pseudo-posterior").settings["release.m"] == 3  # chosen again
    assert plan.set(m=6).set(epsilon=10.8).settings["release.m"] == 6  # said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[privacy]\nepsilo = 3", r"privacy\.epsilo: there is no such entry; did you mean epsilon\?"),
        ("[privacy]\nepsilon = -1", r"privacy\.epsilon: Input should be greater than 0"),
        ("[privacy]\nepsilon = '5'", r"privacy\.epsilon: Input should be a number, not '5'"),
        ("[privacy]\nepsilon = inf", r"privacy\.epsilon: Input should be a finite number"),
        ("[privacy]\npopulation_total = {a = 1, b = '2'}", r"population_total\.b: Input should be a number, not '2'"),
        ("[privacy]\nbounds = [1]", r"privacy\.bounds: \[1\] has no number 2: public lowest and highest outcome"),
        ("[privacy]\nbounds = [12000, 0]", r"privacy\.bounds: .*two finite numbers, low < high.*, not \[12000, 0\]"),
        ("[privacy]\nbounds = {pay = [1, 'x']}", r"privacy\.bounds\.pay, number 2: Input should be a number, not 'x'"),
        ("[privacy]\nbounds = 'all'", r"privacy\.bounds: 'all' is of no allowed kind: public lowest and highest"),
        ("[columns.sex]\nmis = 1", r"columns\.sex\.mis: there is no such entry; did you mean missing\?"),
        ("[columns.sex]\nmissing = 'no'", r"columns\.sex\.missing: Input should be 'category', not 'no'"),
        ("[survey]\nweights = 'w'\nunweighted = true", r"survey: .*leave out weights and probs, or this entry"),
        ("[model]\nkind = 'money'", r"model\.kind: Input should be 'amount', 'count' or 'share'"),
        ("[nothing]\nx = 1", r"nothing: there is no such entry"),
        ("epsilon =", r"is not a plan: "),
        (f"[survey]\nfile = '{'é' * 130}.csv'", r"survey\.file: .*a name in this path is longer than 255 bytes"),
        ("", r"is empty: surveysynth plan FILE"),
    ],
)
def test_a_wrong_file_says_where_and_what(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ss.InputError, match=said):
        ss.Plan.read(tmp_path / "plan.toml")


OF_LATER = "'fbs', 'nb', 'poisson', 'beta', 'gamma' or 'multinomial'"
LATER = [
    ({"formula": "rent ~ income", "name": "gama"}, rf"number 2\.name: .* {OF_LATER}, not 'gama'; .* mean 'gamma'\?"),
    ({"formula": "rent ~ income", "name": "mixture"}, rf"number 2\.name: .* {OF_LATER}, not 'mixture'"),
    ({"formula": "rent ~ income", "nam": "nb"}, r"number 2\.nam: there is no such entry; did you mean name\?"),
    ({"formula": "rent ~ income", "zeros": "perhaps"}, r"number 2\.zeros: should be true or false, not 'perhaps'"),
    ({"name": "nb"}, r"number 2\.formula: is missing: outcome ~ predictors"),
    (5, r"number 2: Input should be a formula, or a table \{formula = \.\.\.\}, not 5"),
]


@pytest.mark.parametrize(("later", "said"), LATER)
def test_a_fault_inside_a_later_model_is_named(
    design: ss.SurveyDesign, tmp_path: Path, later: object, said: str
) -> None:
    """From Python and from a file, where all other entries are right."""
    with pytest.raises(ss.InputError, match=rf"model\.later, {said}"):
        ss.Plan(design, FORMULA, later=["experience ~ income", later], **PUBLIC)
    table = f"{{{', '.join(f'{k} = {v!r}' for k, v in later.items())}}}" if isinstance(later, dict) else later
    (tmp_path / "plan.toml").write_text(f"[model]\nlater = ['experience ~ income', {table}]")
    with pytest.raises(ss.InputError, match=rf"model\.later, {said}"):
        ss.Plan.read(tmp_path / "plan.toml")


def test_several_faults_are_named_together(design: ss.SurveyDesign) -> None:
    with pytest.raises(ss.InputError, match=r"bounds: .*\(12000, 0\).*epsilon: .*'5'|epsilon: .*'5'.*bounds: ") as said:
        ss.Plan(design, FORMULA, epsilon="5", bounds=(12_000, 0), population_total=True)
    assert "population_total: Input should be a number, not True" in str(said.value)
    given = ss.Plan(design, FORMULA, epsilon=np.int64(5), bounds=np.array([0, 9e4]), m=np.int64(3)).settings
    assert (given["privacy.epsilon"], given["privacy.bounds"], given["release.m"]) == (5, (0, 9e4), 3)


def test_entries_that_do_not_go_together_are_refused_by_name(design: ss.SurveyDesign) -> None:
    def refused(match: str, **given: object) -> None:
        with pytest.raises(ss.InputError, match=match):
            ss.Plan(design, FORMULA, **PUBLIC | given).check()

    refused(r"privacy\.c1 = 1\.0: not in a strict release", c1=1.0)
    refused(r"model\.components = 3: not in a strict release", components=3)
    refused(r"model\.components: not with model\.name = 'fbs'", components=3, mechanism="pseudo-posterior")
    refused(r"privacy\.bounds: not with model\.name = 'nb'", name="nb", mechanism="pseudo-posterior")
    refused(r"model\.name = 'lm' is not one of fbs", name="lm")
    refused(r"tables\.by names 'experience', which is not a predictor", by=["experience"])
    refused(r"colour \(did you mean 'columns'\?\): no entry of a plan", colour="red")


def test_all_entries_are_listed_with_what_they_mean(run) -> None:
    code, out, err = run("plan", "--entries")
    assert (code, err) == (0, "")
    for entry, _ in Settings.empty().items():
        assert f" {entry} " in out
    assert "budget of the whole release" in out and "[lowest, highest]" not in out


def test_an_entry_is_told_by_its_name_alone() -> None:
    empty = Settings.empty()
    names = [entry.partition(".")[2] for entry, _ in empty.items()]
    assert len(set(names)) == len(names)


def test_the_shipped_schema_is_that_of_the_settings() -> None:
    shipped = Path(toml_file.__file__).with_name(toml_file.SCHEMA).read_text(encoding="utf-8")
    assert json.loads(shipped) == Settings.model_json_schema()
    printed = CliRunner().invoke(app, ["plan", "--schema"]).stdout
    assert printed == shipped


def test_the_shell_and_python_make_the_same_release_byte_by_byte(survey: Path, tmp_path: Path) -> None:
    plan = ss.Plan.draft(survey, formula=FORMULA, by=["education"], strata="division", **quick())
    file = plan.save(tmp_path / "plan.toml")
    run = CliRunner().invoke(app, ["release", str(file), "--seed", "7"])
    assert run.exit_code == 0, run.output
    read = ss.Plan.read(file)
    place = read.write(read.release(seed=7), tmp_path / "python")
    assert written(read.place() / "public") == written(place / "public")
    other = read.write(read.release(seed=8), tmp_path / "other")
    assert written(other / "public") != written(place / "public")


def test_a_release_carries_title_and_what_it_supersedes(survey: Path, tmp_path: Path) -> None:
    first = ss.Plan.draft(survey, formula=FORMULA, title="Incomes", contact="stat@example.org", **quick())
    first.write(first.release(seed=1), tmp_path / "first")
    second = first.set(supersedes=str(tmp_path / "first"), epsilon=30)
    release = second.release(seed=2)
    assert release.method["title"] == "Incomes"
    manifest = json.loads((tmp_path / "first" / "public" / "manifest.json").read_text())
    together = {"epsilon": 20.0, "kind": "asymptotic", "together": 50.0, "manifest": manifest["checksum"]["sha256"]}
    assert release.manifest()["supersedes"] == together
    assert any("at most what epsilon = 50 lets through" in said for said in release.privacy.assumptions)
    again = ss.read_release(second.write(release, tmp_path / "second"))
    assert again.method["supersedes"] == together
    assert (tmp_path / "second" / "public" / "report.txt").read_text().startswith("Incomes\n")


def test_the_sum_with_an_earlier_release_counts_the_epsilon_that_a_fit_gives(survey: Path, tmp_path: Path) -> None:
    first = ss.Plan.draft(survey, formula=FORMULA, **quick())
    first.write(first.release(seed=1), tmp_path / "first")
    given = {"epsilon": None, "c1": 0.9, "supersedes": str(tmp_path / "first")}
    release = first.set(**given, m=3).release(seed=2)
    assert release.privacy.epsilon > 0
    assert release.method["supersedes"]["together"] == 20.0 + release.privacy.epsilon


def test_a_release_beside_the_file(survey: Path, design: ss.SurveyDesign) -> None:
    plan = ss.Plan.draft(survey, formula=FORMULA, by=["education"], **quick(epsilon=200))
    table = plan.compare(plan.release(seed=3)).cells
    weighted = design.frame.assign(one=1.0).groupby("education").apply(lambda f: (f["income"] * f["weight"]).sum())
    weights = design.frame.groupby("education")["weight"].sum()
    means = table[(table["statistic"] == "mean") & (table["education"] != "all")].set_index("education")["estimate"]
    assert means.to_dict() == pytest.approx((weighted / weights).to_dict())
    inside = (table["ci_low"] <= table["estimate"]) & (table["estimate"] <= table["ci_high"])
    assert (table["holds"] == inside).all()
    assert len(table) == 2 * 5


def test_counts_that_the_design_fixes_are_no_matter_of_intervals(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    region = np.repeat(["a", "b", "c"], 100)
    weight = np.repeat([43.1, 20.7, 33.3], 100)
    file = pd.DataFrame({"region": region, "weight": weight, "income": rng.lognormal(9, 0.5, 300)})
    design = ss.SurveyDesign(file, weights="weight", strata="region")
    plan = ss.Plan(design, "income ~ region", by="region", **quick(epsilon=200), weight="public")
    release = plan.release(seed=3)
    found = plan.compare(release)
    counts = found.cells.query("statistic == 'count' and region != 'all'")
    assert counts["se_release"].tolist() == pytest.approx([0, 0, 0], abs=1e-6)
    assert counts["holds"].isna().all()
    assert "count: 4 fixed by design, or without an interval" in str(found)


def test_a_public_total_that_is_not_the_sum_of_the_weights_is_no_miss(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    file = pd.DataFrame({"region": np.repeat(["a", "b"], 100), "income": rng.lognormal(9, 0.5, 200), "weight": 20.5})
    design = ss.SurveyDesign(file, weights="weight", strata="region")
    known = {**quick(epsilon=200), "population_total": {"a": 2100, "b": 2000}}  # the weights sum to 2,050 each
    plan = ss.Plan(design, "income ~ region", by="region", **known, weight="public")
    found = plan.compare(plan.release(seed=3))
    counts = found.cells.query("statistic == 'count'")
    assert sorted(counts["estimate_release"]) == pytest.approx([2000, 2100, 4100])
    assert counts["holds"].isna().all() and counts["std_diff"].isna().all()
    assert "off by" not in str(found).split("mean of income")[0]


def test_a_cell_without_an_interval_is_neither_held_nor_missed(survey: Path) -> None:
    plan = ss.Plan.draft(survey, formula=FORMULA, by=["education"], **quick(epsilon=200))
    release = plan.release(seed=3)
    one = release.tables(["education"], statistic="mean").copy()
    one.loc[0, ["ci_low", "ci_high"]] = np.nan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(release), "tables", lambda *_, **__: one)
        assert plan.compare(release).cells["holds"].isna().sum() == 1


def test_the_commands_from_a_file_to_a_comparison(survey: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == 0, done.output
        return done.stdout

    drafted = run(
        "plan", str(survey), "--formula", FORMULA, "--by", "education", "--epsilon", "20", "--set",
        "privacy.mechanism=pseudo-posterior", "--set", "release.m=2",
    )  # fmt: skip
    (tmp_path / "plan.toml").write_text(drafted)
    assert "Expected" in run("check", str(tmp_path / "plan.toml"))
    assert "for the agency alone" in run("check", str(tmp_path / "plan.toml"), "--inside")
    run("release", str(tmp_path / "plan.toml"), "--seed", "3", "--set", "tables.min_cell=10")
    folder = f"{survey.stem}-release"
    said = run("compare", str(tmp_path / folder), "--confidential", str(tmp_path / "plan.toml"))
    assert "intervals" in said
    assert "Internal" in said
    assert f"/{folder}' is there: --overwrite replaces" in " ".join(run("check", str(tmp_path / "plan.toml")).split())


@pytest.mark.slow
def test_poverty_rates_of_a_plan_have_its_line(survey: Path, tmp_path: Path) -> None:
    """In the published tables, and beside those of the confidential file."""
    plan = ss.Plan.draft(
        survey, formula=FORMULA, weights="weight", by=["education"], statistic=["poverty_rate"], poverty_line=500,
        **quick(),
    )  # fmt: skip
    again = ss.Plan.read(plan.save(tmp_path / "plan.toml"))
    release = again.release(seed=1)
    place = again.write(release, tmp_path / "out")
    expected = release.tables("education", statistic="poverty_rate", poverty_line=500.0)
    published = pd.read_csv(place / "public" / "tables.csv")
    np.testing.assert_allclose(published["estimate"], expected["estimate"])
    beside = again.compare(release).cells.set_index("education")["estimate"]
    own = plan.design.frame
    share = own["weight"][own["income"] < 500].sum() / own["weight"].sum()
    assert beside["all"] == pytest.approx(share)


def test_a_plan_of_a_labelled_file_with_codes_and_headings(tmp_path: Path) -> None:
    """SPSS: roles by label, codes by column, the file's headings and the plan's in the release; quantiles compared."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({
        "v1": np.where(rng.random(400) < 0.05, 99, rng.integers(1, 3, 400)), "v2": rng.lognormal(7, 1, 400),
        "v3": rng.uniform(1, 9, 400),
    })  # fmt: skip
    labels = ["Sex of respondent", "Income a month", "Design weight"]
    pyreadstat.write_sav(frame, tmp_path / "f.sav", column_labels=labels)
    frame.loc[frame["v1"] == 99, "v1"] = np.nan
    plan = ss.Plan.draft(
        tmp_path / "f.sav", formula="v2 ~ C(v1)", missing_codes={"v3": [99]}, by=["v1"], statistic=["quantile", "mean"],
        quantiles=[0.25, 0.5], labels={"v2": "Income"}, **quick(epsilon=60),
    )  # fmt: skip
    assert plan.settings["survey.weights"] == "v3"
    assert "v3 (Design weight)" in plan.to_toml()
    assert plan.design.labels == {"v1": "Sex of respondent", "v2": "Income", "v3": "Design weight"}
    again = ss.Plan.read(plan.save(tmp_path / "plan.toml"))
    place = again.write(again.release(seed=1), tmp_path / "out")
    release = ss.read_release(place)
    assert release.datasets[0].labels["v2"] == "Income"
    assert set(pd.read_csv(place / "public" / "tables.csv")["statistic"]) == {"quantile", "mean"}
    table = again.compare(release).cells
    quantile = table[(table["statistic"] == "quantile") & (table["v1"] == "all")].set_index("prob")["estimate"]
    order = plan.design.frame.sort_values("v2")
    share = order["v3"].cumsum() / order["v3"].sum()
    for p in (0.25, 0.5):
        assert abs(quantile[p] - order["v2"][share >= p].iloc[0]) < 0.05 * quantile[p]


def test_bounds_that_are_declared_twice_must_agree(tmp_path: Path) -> None:
    frame = pd.DataFrame({"income": np.arange(1.0, 41), "region": ["a", "b"] * 20, "weight": 10.0})
    frame.to_csv(tmp_path / "silc.csv", index=False)
    entries = {
        "model.formula": "income ~ region", "privacy.epsilon": 5, "privacy.population_total": 400,
        "outcomes.income.bounds": [0, 100],
    }  # fmt: skip
    ss.Plan.draft(tmp_path / "silc.csv", set=entries | {"privacy.bounds": [0, 100]})
    with pytest.raises(ss.InputError, match=r"levels: List should have at least 2 items, not \['a'\]"):
        ss.Plan.draft(tmp_path / "silc.csv", set=entries | {"outcomes.income.levels": ["a"]})
    with pytest.raises(ss.InputError, match=r"privacy.bounds and outcomes.income.bounds differ"):
        ss.Plan.draft(tmp_path / "silc.csv", set=entries | {"privacy.bounds": [0, 10]})


def test_a_draft_says_what_it_did_not_find_and_refuses_tables_by_what_is_not_there(tmp_path: Path) -> None:
    frame = pd.DataFrame({"income": np.arange(1.0, 41), "region": ["a", "b"] * 20, "weight": 10.0})
    frame.to_csv(tmp_path / "silc.csv", index=False)
    text = ss.Plan.draft(tmp_path / "silc.csv", formula="income ~ region", by=["region"]).to_toml()
    assert "# strata =   # no column was found; give one if sampling was stratified" in text
    assert "# fpc =   # is not guessed" in text and "# units = " in text
    assert "weights = \"weight\"" in text and 'folder = "silc-release"' in text
    with pytest.raises(ss.InputError, match=r"no column 'regio' \(did you mean 'region'\?\) for tables.by"):
        ss.Plan.draft(tmp_path / "silc.csv", formula="income ~ region", by=["regio"])


def test_numbers_with_labels_are_refused_until_the_plan_says_what_they_are(tmp_path: Path, run) -> None:
    """-9 "refused" among incomes would be moved to the lower bound and published as an amount."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"income": rng.lognormal(7, 0.5, 200).round(), "sex": ["f", "m"] * 100, "w": 5.0})
    frame.loc[:9, "income"] = -9
    labels = {"income": {-9: "Refused", -8: "Don't know"}}
    pyreadstat.write_sav(frame, tmp_path / "f.sav", variable_value_labels=labels)
    settings = ["--formula", "income~sex", "--epsilon", "60", "--set", "privacy.mechanism=pseudo-posterior"]
    (tmp_path / "plan.toml").write_text(run("plan", str(tmp_path / "f.sav"), "--weights", "w", *settings)[1])
    code, _, err = run("check", str(tmp_path / "plan.toml"))
    entry = "missing_codes = {income = [-9, -8]}"
    assert code == 2 and f"set {entry} in [survey]" in err.replace("\n", " ")
    code, _, err = run("release", str(tmp_path / "plan.toml"))
    assert code == 2 and entry in err
    said = (tmp_path / "plan.toml").read_text().replace("weights =", f"{entry}\nweights =")
    (tmp_path / "plan.toml").write_text(said)
    assert ss.Plan.read(tmp_path / "plan.toml").design.frame["income"].isna().sum() == 10
    code, _, err = run("check", str(tmp_path / "plan.toml"))
    assert code == 0 and "carry a value label" not in err
    code, _, err = run("check", str(tmp_path / "plan.toml"), "--set", "survey.missing_codes={'income': [-9]}")
    assert code == 2 and "tables as {income = [-9, -8]}" in err


def test_check_refuses_what_release_refuses_of_a_ledger(design: ss.SurveyDesign) -> None:
    with pytest.raises(ss.InputError, match=r"privacy\.ledger needs privacy\.survey"):
        ss.Plan(design, FORMULA, ledger="budget.jsonl", **PUBLIC).check()


def test_tables_that_a_fitted_release_does_not_have_are_refused_before_the_charge(
    design: ss.SurveyDesign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the door, or by its tables: how many different counts its data sets have is seen only there."""
    ledger = ss.Ledger(tmp_path / "budget.jsonl", "workers", create=True)
    before = ledger.path.read_bytes()
    named = {"ledger": str(ledger.path), "survey": "workers", "statistic": ["proportion"]}
    plan = ss.Plan(design, FORMULA, **quick(bounds=(10, 40_000)), **named)
    for refused in (plan.check, plan.release):
        with pytest.raises(ss.InputError, match="may have more than 500 different values; proportions need categories"):
            refused()
    monkeypatch.setattr("surveysynth.plan.plan.check_tables", lambda *given: None)  # as where only the release shows it
    with pytest.raises(ss.InputError, match=r"'income' has [\d,]+ different values; proportions need categories"):
        plan.release()
    assert ledger.path.read_bytes() == before



# formulas


WAGES = pd.DataFrame({
    "Hourly wage (CAD)": [20.0, 30, 25, 40] * 10, "Language / Langue": list("abab") * 10, "age": [30, 40, 50, 60] * 10,
    "w": 5.0,
})  # fmt: skip


@pytest.mark.parametrize("weights", [None, "w"])
def test_a_formula_that_does_not_parse_is_refused_with_its_quoted_form(
    tmp_path: Path, run, weights: str | None
) -> None:
    WAGES.to_csv(tmp_path / "wages.csv", index=False)
    given = ["plan", str(tmp_path / "wages.csv"), *(["--weights", weights] if weights else [])]
    quoted = "`Hourly wage (CAD)` ~ `Language / Langue` + age"
    code, out, err = run(*given, "--formula", "Hourly wage (CAD) ~ Language / Langue + age")
    assert (code, out) == (2, "") and f"'{quoted}'" in " ".join(err.split())
    code, out, _ = run(*given, "--formula", quoted)
    assert code == 0 and tomllib.loads(out)["model"]["formula"] == quoted
    for formula, said in (
        ("`Hourly wage (CAD)` ~ age +", "is not a formula"), ("`Hourly wage (CAD)` ~ ag", "did you mean 'age'?"),
        ("`Hourly wage (CAD)`", "write outcome ~ predictors"), ("`Hourly wage (CAD)` ~ age ~ w", "is not a formula"),
        ("log(age) ~ w", "is no outcome"),
    ):  # fmt: skip
        code, out, err = run(*given, "--formula", formula)
        assert (code, out) == (2, "") and said in " ".join(err.split()), formula
    with pytest.raises(ss.InputError, match=r"model\.later, number 1: .*'age ~ `Hourly wage \(CAD\)`'"):
        ss.Plan.draft(tmp_path / "wages.csv", formula=quoted, later=["age ~ Hourly wage (CAD)"])


# columns


PEOPLE = pd.DataFrame({
    "income": np.random.default_rng(8).lognormal(7, 0.5, 400).round(), "w": 5.0, "job": [1, 2, 3, np.nan] * 100,
    "sex": ["f", "m", "x", "unknown"] * 100,
})  # fmt: skip
RECODED = """
[survey]
file = "people.csv"
weights = "w"
[columns.sex]
merge = {other = ["x", "unknown"]}
[columns.job]
missing = "category"
merge = {"2 or 3" = [2, "3"], none = ["missing"]}
[model]
formula = "income ~ sex + job"
prior = "flat"
[privacy]
mechanism = "pseudo-posterior"
epsilon = 60
population_total = 2000
"""


def test_levels_are_merged_and_missing_values_are_a_level(tmp_path: Path, run) -> None:
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "plan.toml").write_text(RECODED)
    plan = ss.Plan.read(tmp_path / "plan.toml")
    sex = PEOPLE["sex"].replace({"x": "other", "unknown": "other"})
    job = PEOPLE["job"].map({1: "1", 2: "2 or 3", 3: "2 or 3"}).fillna("none")
    assert plan.design.frame["sex"].tolist() == sex.tolist()
    assert plan.design.frame["job"].tolist() == job.tolist()
    again = ss.Plan.read(plan.save(tmp_path / "again.toml"))
    assert again.settings == plan.settings
    code, out, err = run("release", str(tmp_path / "plan.toml"), "--seed", "1")
    assert code == 0, err
    table = ss.read_release(tmp_path / "release").tables(by="sex", statistic="count")
    assert dict(zip(table["sex"], table["n"], strict=True)) == {"f": 100, "m": 100, "other": 200, "all": 400}
    entries = ["--set", "columns.sex.merge={men = ['m']}", "--set", "columns.job.merge={two = [2]}"]
    code, out, err = run("check", str(tmp_path / "plan.toml"), *entries)
    assert code == 0 and "job (4 levels), sex (4 levels)" in " ".join(out.split()), err
    without = plan.set(columns={"job": {"missing": "category"}})  # the file is read again
    assert without.design.frame["sex"].tolist() == PEOPLE["sex"].tolist()
    assert set(without.design.frame["job"]) == {"1", "2", "3", "missing"}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"sexe": {"missing": "category"}}, r"columns\.sexe: there is no column 'sexe' \(did you mean 'sex'\?\)"),
        ({"sex": {"merge": {"other": ["y"]}}}, r"columns\.sex\.merge: column 'sex' has no level 'y'"),
        ({"sex": {"merge": {"a": ["x"], "b": ["x"]}}}, r"columns\.sex\.merge: 'x' stands there twice"),
        ({"sex": {"merge": {"a": []}}}, r"columns\.sex\.merge\.a: List should have at least 1 item"),
        ({"pay": {"missing": "category"}}, r"columns\.pay: column 'pay' has numbers that are not whole"),
        ({"kind": {"missing": "category"}}, r"column 'kind' has a category 'missing' already"),
    ],
)
def test_levels_that_cannot_be_merged_are_refused(tmp_path: Path, columns: object, said: str) -> None:
    PEOPLE.assign(pay=PEOPLE["income"] + 0.5, kind="missing").to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(ss.InputError, match=said):
        ss.Plan.draft(tmp_path / "people.csv", formula="income ~ sex", columns=columns)


def test_a_design_in_memory_is_recoded_by_pandas(design: ss.SurveyDesign) -> None:
    for entries in ({"columns": {"education": {"missing": "category"}}}, {"strata": "division"}, {"unweighted": True}):
        with pytest.raises(ss.InputError, match=r"the design is in memory.*replace\("):
            ss.Plan(design, FORMULA, **entries)
        with pytest.raises(ss.InputError, match=r"the design is in memory"):
            ss.Plan(design, FORMULA).set(**entries)


def test_columns_of_parquet_are_recoded_and_keep_their_order(tmp_path: Path) -> None:
    kind = pd.Categorical(["low", "mid", "high", None] * 100, ["low", "mid", "high", "top"], ordered=True)
    (tmp_path / "parts").mkdir()
    PEOPLE.assign(kind=kind).to_parquet(tmp_path / "parts" / "people.parquet")
    columns = {"kind": {"merge": {"upper": ["mid", "high"]}, "missing": "category"}}
    plan = ss.Plan.draft(tmp_path / "parts", formula="income ~ kind", weights="w", columns=columns)
    found = plan.design.frame["kind"]
    assert found.cat.categories.tolist() == ["low", "upper", "top", "missing"] and found.cat.ordered
    assert found.tolist() == ["low", "upper", "upper", "missing"] * 100


# weights


def test_a_plan_without_weights_is_of_a_simple_random_sample(tmp_path: Path, run) -> None:
    PEOPLE.drop(columns="w").to_csv(tmp_path / "people.csv", index=False)
    given = ["--formula", "income ~ sex", "--epsilon", "60", "--population-total", "90000"]
    given += ["--set", "privacy.mechanism=pseudo-posterior", "--set", "model.prior=flat"]
    assert "unweighted = true" in run("plan", str(tmp_path / "people.csv"), *given)[1]
    code, out, err = run("plan", str(tmp_path / "people.csv"), *given, "--set", "survey.unweighted=true")
    assert code == 0 and tomllib.loads(out)["survey"]["unweighted"] is True, err
    (tmp_path / "plan.toml").write_text(out.replace(str(tmp_path) + "/", ""))
    plan = ss.Plan.read(tmp_path / "plan.toml")
    assert (plan.design.weights == 1).all() and not plan.lacking
    assert plan.settings["model.weight"] == "public"
    made = plan.release(seed=1).datasets[0]
    np.testing.assert_allclose(made.weights, 90_000 / 400)


@pytest.mark.parametrize(("total", "times"), [(20_000, 10), (6_100, 3), (600, 0.3), ({"a": 1_000, "b": 4_000}, 4)])
def test_a_population_total_far_from_the_weights_is_refused_unless_confirmed(
    tmp_path: Path, total: object, times: float
) -> None:
    """The weights add up to 2,000, in each stratum to 1,000."""
    frame = PEOPLE.assign(h=["a", "b"] * 200)
    design = ss.SurveyDesign(frame, weights="w", strata="h")
    plan = ss.Plan(design, "income ~ sex", **quick(population_total=total))
    how = "more than 3 times" if times > 1 else "less than 1/3 of"
    asked = rf"population_total is {how} what .*accept = \['population_total'\]"
    for refused in (plan.check, plan.release, plan.fit):
        with pytest.raises(ss.InputError, match=asked) as said:
            refused()
        assert "2,000" not in str(said.value) and "2000" not in str(said.value)
    confirmed = plan.set(accept=["population_total"])
    if isinstance(total, dict):
        confirmed.check()
        return
    with pytest.warns(UserWarning, match="far from what the survey weights add up to"):
        confirmed.check()
    with pytest.warns(UserWarning, match="far from what the survey weights add up to"):
        assert confirmed.release(seed=1).datasets[0].weights.sum() == pytest.approx(total)


def test_weights_that_are_scaled_to_the_sample_say_nothing_of_the_total() -> None:
    design = ss.SurveyDesign(PEOPLE.assign(w=np.tile([0.5, 1.5], 200)), weights="w")
    ss.Plan(design, "income ~ sex", **quick(population_total=2_000_000)).check()
    near = ss.SurveyDesign(PEOPLE, weights="w")
    ss.Plan(near, "income ~ sex", **quick(population_total=5_900)).check()  # 2.95 times


# predictors


def test_a_check_says_which_predictors_are_numbers_and_asks_about_codes() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({
        "income": rng.lognormal(7, 1, 300), "fips": rng.choice([1001, 1003, 2013], 300),
        "age": rng.integers(16, 90, 300), "serial": rng.permutation(400)[:300] // 1.02 // 1, "id": np.arange(300),
        "rate": rng.choice([0.5, 1.5, 2.5], 300), "woman": rng.integers(0, 2, 300),
        "sex": rng.choice(["f", "m"], 300), "w": 5.0,
    })  # fmt: skip
    assert 270 < frame["serial"].nunique() < 300  # hardly any is repeated
    design = ss.SurveyDesign(frame, weights="w")
    formula = "income ~ fips + age + serial + id + rate + woman + sex"
    said = ss.Plan(design, formula, **quick(population_total=1500)).check()
    words = " ".join(str(said).split())
    assert "predictors that are numbers: age, fips, id, rate, serial, woman; categories: sex (2 levels)" in words
    asked = [name for name in ("fips", "age", "serial", "id", "rate", "woman") if f"write C({name})" in words]
    assert asked == ["fips", "serial"]
    assert "id: another value in every record" in words
    answered = "income ~ C(fips) + age + I(serial) + log(rate)"
    words = " ".join(str(ss.Plan(design, answered, **quick(population_total=1500)).check()).split())
    assert "write C(" not in words and "another value" not in words
    assert "numbers: age, rate, serial; categories: fips (3 levels)" in words


def test_a_check_warns_of_levels_that_differ_in_blanks_or_capitals(tmp_path: Path) -> None:
    """What it proposes makes them one."""
    levels = ["North", "North ", "south", "South", "Nord\u00e9", "East"]
    PEOPLE.assign(region=np.resize(levels, 400)).to_csv(tmp_path / "people.csv", index=False)
    given = {"formula": "income ~ region", "weights": "w", **quick(population_total=2000)}
    said = ss.Plan.draft(tmp_path / "people.csv", **given).check().warnings
    (warning,) = [each for each in said if "blanks, capitals or accents" in each]
    assert "'North', 'North '" in warning and "Nord\u00e9" not in warning and "East" not in warning
    line = warning[warning.index("merge = ") : warning.rindex(" in [columns.region]")]
    columns = {"region": tomllib.loads(line)}
    plan = ss.Plan.draft(tmp_path / "people.csv", columns=columns, **given)
    assert len(set(plan.design.frame["region"])) == 4
    assert not any("blanks, capitals" in each for each in plan.check().warnings)
    strata = PEOPLE.assign(h=np.resize(["a", "A", "b"], 400))
    said = ss.Plan(ss.SurveyDesign(strata, weights="w", strata="h"), "income ~ sex", **quick(population_total=2000))
    assert any(each.startswith("h: some labels differ") for each in said.check().warnings)


def test_labelled_numbers_are_asked_about_together_and_once(tmp_path: Path) -> None:
    """80 and over is an age; of the incomes -9 is none; nothing is asked about text."""
    frame = PEOPLE.assign(age=np.resize([80.0, 34, 50, -1], 400), job=1.0)
    frame.loc[:9, "income"] = -9
    labels = {"age": {80: "80 or older", -1: "Born abroad"}, "income": {-9: "Refused"}, "job": {2: "not here"}}
    pyreadstat.write_sav(frame, tmp_path / "f.sav", variable_value_labels=labels)
    given = {"formula": "income ~ age + sex", "weights": "w", **quick(population_total=2000)}
    plan = ss.Plan.draft(tmp_path / "f.sav", **given)
    line = "missing_codes = {income = [-9], age = [-1]}"
    with pytest.raises(ss.InputError, match=f"{re.escape(line)} in \\[survey\\]") as said:
        plan.check()
    assert '-9 = "Refused"' in str(said.value) and '-1 = "Born abroad", 80 = "80 or older"' in str(said.value)
    in_memory = ss.Plan(ss.SurveyDesign.read(tmp_path / "f.sav", weights="w"), "income ~ age", **quick())
    with pytest.raises(ss.InputError, match=re.escape("missing_codes={'income': [-9], 'age': [-1]}")):
        in_memory.check()
    half = plan.set(missing_codes={"income": [-9]}, missing="drop")
    with pytest.raises(ss.InputError, match=re.escape("{income = [-9], age = [-1]}")) as said:
        half.check()
    assert "Refused" not in str(said.value)
    answered = half.set(missing_codes={"income": [-9], "age": []})
    answered.check()
    assert answered.design.frame["income"].isna().sum() == 10 and (answered.design.frame["age"] == -1).sum() == 100


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("[parts]\nworkers = 2", r"take out \[parts\]"),
        ("[privacy]\nmechanism = 'per-instance'", "write 'strict' or 'pseudo-posterior'"),
        ("[privacy]\nalpha_0 = 0.5", r"take out privacy\.alpha_0"),
    ],
)
def test_a_plan_of_an_earlier_version_is_answered_with_what_to_write(tmp_path, section, said):
    (tmp_path / "plan.toml").write_text(f"[survey]\nfile = 'f.csv'\n[model]\nformula = 'y ~ x'\n{section}\n")
    with pytest.raises(ss.InputError, match=said):
        ss.Plan.read(tmp_path / "plan.toml")


def test_a_plan_accepts_what_there_is_to_accept(tmp_path):
    text = "[survey]\nfile = 'f.csv'\n[model]\nformula = 'y ~ x'\n[privacy]\nepsilon = 5\n"
    text += "[release]\naccept = ['informaton']\n"
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ss.InputError, match=r"release\.accept.*'information'"):
        ss.Plan.read(tmp_path / "plan.toml")
