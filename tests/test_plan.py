"""Plans: chosen from public facts, reviewable as a file, and the same release from every front door."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from surveysynth.synthesis import plan as plans
from surveysynth.synthesis import settings as sections

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


def test_of_a_file_alone_a_draft_says_what_to_fill_in(survey: Path) -> None:
    plan = ss.Plan.draft(survey)
    assert list(plan.lacking) == ["model.formula", "privacy.epsilon", "privacy.population_total", "privacy.bounds"]
    assert "# its columns: division, education, experience, income, weight" in plan.to_toml()


def test_fewer_data_sets_where_more_would_be_refused() -> None:
    """600 records at epsilon 5: Strict refuses 4 data sets, as ``synthesize`` would, and takes 3."""
    small = ss.datasets.census_sample(600, 20261123)
    plan = ss.Plan(small, FORMULA, **PUBLIC)
    assert plan.settings["release.m"] == 3
    assert "with 4" not in plan.reasons["release.m"]
    plan.check()
    with pytest.raises(ss.PrivacyError, match="4 data sets"):
        plan.set(m=4).check()


def test_every_choice_comes_from_public_facts(design: ss.SurveyDesign) -> None:
    """Other outcomes and weights, the same plan and the same outlook."""
    rng = np.random.default_rng(3)
    frame = design.frame.assign(income=rng.gamma(1, 1e3, design.n), weight=rng.uniform(1, 30, design.n))
    other = ss.SurveyDesign(frame, weights="weight", strata="division")
    for given in (PUBLIC, {"epsilon": 9.0, "mechanism": "pseudo-posterior", "bounds": (1, 9)}, {"kind": "count"}):
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
    assert found == {"amount": ("fbs", "strict"), "count": ("nb", "strict"), "share": ("beta", "strict")}


def test_a_scale_for_amounts_that_can_be_zero_or_negative(design: ss.SurveyDesign) -> None:
    pseudo = {"epsilon": 9, "mechanism": "pseudo-posterior"}
    positive, any_sign = (ss.Plan(design, FORMULA, bounds=b, **pseudo).settings for b in ((10, 4e4), (-4e4, 2e4)))
    assert (positive["model.transform"], positive["model.scale"]) == ("log", None)
    assert (any_sign["model.transform"], any_sign["model.scale"]) == ("asinh", 100)


def test_the_expected_accuracy_is_that_of_the_formula(design: ss.SurveyDesign) -> None:
    """2 K + 5 parameters of FBS with one outcome: here 9 divisions and 4 levels of education, K = 12."""
    plan = ss.Plan(design, FORMULA, by="education", **PUBLIC | {"epsilon": 9})
    said = plan.check()
    expected = ss.expected_se(2000, 2 * 12 + 5, 9)
    assert said.expected["se_ratio"].to_numpy() == pytest.approx(expected)
    counts = design.frame["education"].value_counts()
    assert said.expected.set_index("education")["records"].to_dict() == counts.to_dict() | {"all": 2000}
    assert f"about {expected:.2f} times" in str(said)
    assert plan.settings["release.m"] == 5


def test_a_check_warns_of_small_cells_zeros_and_wide_intervals(design: ss.SurveyDesign, tmp_path: Path) -> None:
    said = ss.Plan(design, FORMULA, by=["division", "education"], **PUBLIC | {"epsilon": 3}).check()
    for part in ("have fewer than 10 records", "declare zeros = true", "epsilon = .* would make it 1.3", "no ledger"):
        assert any(pd.Series(said.warnings).str.contains(part)), part
    book = ss.Ledger(tmp_path / "book.jsonl", "workers", 30, create=True)
    plan = ss.Plan(design, FORMULA, ledger=str(tmp_path / "book.jsonl"), survey="workers", zeros=False, **PUBLIC)
    plan.check(inside=True)
    assert str(ss.Ledger(book.path, "workers")) == str(book)  # nothing was spent
    assert not any("ledger" in w or "zeros" in w for w in plan.check().warnings)


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
    plan = ss.Plan(design, "income ~ sex", epsilon=20, population_total=5_000, bounds=bounds, zeros=False)
    inside = "\n".join(plan.check(inside=True).inside)
    assert f"{np.mean(income == 0):.0%} are exactly 0" in inside
    assert f"1 single value(s) hold {np.mean(income[income != 0] == 500):.0%}" in inside
    assert f"{np.mean(income > bounds[1]):.2%} lie beyond the bounds" in inside
    assert "goes with the size of PSUs" in inside
    assert "500" not in inside  # no value of the file
    assert not plan.check().inside


def test_a_look_inside_finds_what_would_stop_the_release(design: ss.SurveyDesign) -> None:
    """Weights that are a function of a predictor, and were not declared public: as ``release`` refuses them."""
    frame = design.frame.assign(weight=design.frame["education"].astype(str).str.len() * 1.5)
    plan = ss.Plan(ss.SurveyDesign(frame, weights="weight"), FORMULA, **PUBLIC)
    inside = plan.check(inside=True).inside
    assert len(inside) == 1
    with pytest.raises(ss.ModelError) as refused:
        plan.release()
    assert inside[0] == f"the release would be refused: {refused.value}"
    kept = plan.set(weight="public").check(inside=True)
    assert "refused" not in "".join(kept.inside)


def test_totals_by_stratum(survey: Path, tmp_path: Path, design: ss.SurveyDesign) -> None:
    totals = design.frame.groupby("division")["weight"].sum().round().to_dict()
    given = quick(population_total=totals, by=["division"])
    plan = ss.Plan.draft(survey, formula=FORMULA, strata="division", **given)
    again = ss.Plan.read(plan.save(tmp_path / "plan.toml"))
    table = again.release(seed=1).tables("division", statistic="count").set_index("division")["estimate"]
    assert table.drop("all").to_dict() == pytest.approx(totals)
    assert "totals of the strata" in str(again.check())


def test_a_plan_comes_back_from_its_file(survey: Path, tmp_path: Path) -> None:
    plan = ss.Plan.draft(survey, formula=FORMULA, by=["education"], title='Incomes, "2025"', **PUBLIC)
    again = ss.Plan.read(plan.save(tmp_path / "plan.toml"))
    assert again.settings == plan.settings
    assert not again.lacking
    assert str(again.check()).partition("\nExpected")[2] == str(plan.check()).partition("\nExpected")[2]
    with pytest.raises(ss.InputError, match="exists; choose another name"):
        plan.save(tmp_path / "plan.toml")


def test_other_values_at_some_entries(survey: Path) -> None:
    plan = ss.Plan.draft(survey, formula=FORMULA, **PUBLIC)
    assert plan.settings["release.m"] == 4
    assert plan.set(epsilon=10.8).settings["release.m"] == 5  # chosen again
    assert plan.set(m=3).set(epsilon=10.8).settings["release.m"] == 3  # said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[privacy]\nepsilo = 3", r"privacy\.epsilo: there is no such entry; did you mean epsilon\?"),
        ("[privacy]\nepsilon = -1", r"privacy\.epsilon: Input should be greater than 0"),
        ("[privacy]\nbounds = [1]", r"privacy\.bounds: "),
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


def test_entries_that_do_not_go_together_are_refused_by_name(design: ss.SurveyDesign) -> None:
    def refused(match: str, **given: object) -> None:
        with pytest.raises(ss.InputError, match=match):
            ss.Plan(design, FORMULA, **PUBLIC | given).check()

    refused(r"privacy\.c1: not with privacy\.mechanism = 'strict'", c1=1.0)
    refused(r"model\.components: not with model\.name = 'fbs'", components=3)
    refused(r"model\.name = 'lm' is not one of fbs", name="lm")
    refused(r"tables\.by names 'experience', which is not a predictor", by=["experience"])
    refused(r"colour: no entry of a plan", colour="red")


def test_all_entries_are_listed_with_what_they_mean(run) -> None:
    code, out, err = run("plan", "--entries")
    assert (code, err) == (0, "")
    for entry, _ in sections.Settings.of({"survey": {}, "model": {}, "privacy": {}}).items():
        assert f" {entry} " in out
    assert "budget of the whole release" in out and "[lowest, highest]" not in out


def test_the_shipped_schema_is_that_of_the_settings() -> None:
    shipped = Path(sections.__file__).with_name(sections.SCHEMA).read_text(encoding="utf-8")
    assert json.loads(shipped) == sections.Settings.model_json_schema()
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


def test_overlap_is_about_a_reference(survey: Path) -> None:
    with pytest.raises(ss.InputError, match=r"privacy\.overlap is about a reference"):
        ss.Plan.draft(survey, formula=FORMULA, overlap=True, **PUBLIC).release()


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
    one = release.tables(["education"]).copy()
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


def test_a_draft_says_what_it_did_not_find_and_refuses_tables_by_what_is_not_there(tmp_path: Path) -> None:
    frame = pd.DataFrame({"income": np.arange(1.0, 41), "region": ["a", "b"] * 20, "weight": 10.0})
    frame.to_csv(tmp_path / "silc.csv", index=False)
    text = ss.Plan.draft(tmp_path / "silc.csv", formula="income ~ region", by=["region"]).to_toml()
    assert "# strata =   # no column was found; say which, if sampling was stratified" in text
    assert "# fpc = " in text and "weights = \"weight\"" in text and 'folder = "silc-release"' in text
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
    assert code == 2 and f"say {entry} in [survey]" in err.replace("\n", " ")
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


def test_few_amounts_and_far_bounds_are_told_beforehand() -> None:
    """Three quarters zeros: scores and amounts rest on a quarter of the records."""
    rng = np.random.default_rng(7)
    n = 2000
    amounts = np.where(rng.random(n) < 0.75, 0.0, rng.normal(5000, 4000, n))
    frame = pd.DataFrame({"region": rng.choice(list("abc"), n), "pay": amounts, "w": rng.uniform(1, 3, n)})
    design = ss.SurveyDesign(frame, weights="w")
    plan = ss.Plan(design, "pay ~ region", epsilon=5, population_total=4000, bounds=(-50_000, 150_000), zeros=True)
    assert "rest on these alone" in str(plan.check())
    seen = " ".join(plan.check(inside=True).inside)
    few = np.count_nonzero(amounts)
    assert f"{few:,} of 2,000 records have an amount that is not 0; standard errors of their mean about" in seen
    assert "the lower and the upper bound lies far from nearly all amounts" in seen
    near = plan.set(bounds=(-10_000, 20_000))
    assert "lies far from" not in " ".join(near.check(inside=True).inside)


def test_a_weight_that_predictors_nearly_determine_is_told_when_the_release_begins(monkeypatch) -> None:
    """Before minutes of chains that fail."""
    rng = np.random.default_rng(8)
    region = rng.choice(list("abc"), 300)
    weight = np.select([region == "a", region == "b"], [10.0, 20.0], 30.0) * np.exp(0.05 * rng.normal(size=300))
    frame = pd.DataFrame({"region": region, "pay": rng.lognormal(9, 0.5, 300), "w": weight})
    plan = ss.Plan(
        ss.SurveyDesign(frame, weights="w"), "pay ~ region", epsilon=5, population_total=6000, bounds=(0, 1e6)
    )
    told = []
    monkeypatch.setattr(plans, "synthesize", lambda *_, **__: told.append(1) or 1 / 0)
    with pytest.warns(UserWarning, match="nearly determine the survey weight"), pytest.raises(ZeroDivisionError):
        plan.release()
    assert told
