"""The command line: every command, every bad input, exit codes, and what is printed."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
import typer
from conftest import squeezed
from surveys import make_frame

import surveysynth as ss
from surveysynth.cli import app as cli
from surveysynth.cli import demo, doctor
from surveysynth.cli.printing import filled, print_table
from surveysynth.datasets.census import census_workers
from surveysynth.engines import Diagnostics, cmdstan, scratch
from surveysynth.plan import plan
from surveysynth.plan.settings import Settings
from tests.surveys import PSEUDO

EMPTY = Settings.empty()

GOOD = {
    "weights": "wt", "strata": "field", "outcome": "income", "predictors": "field + gender", "prior": "flat",
    "epsilon": "10.8", "seed": "1",
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("folder", "unprinted")


OWN = "by", "weights", "strata", "psu", "epsilon", "population_total", "bounds", "out", "source", "overwrite", "seed"


def words(command="synthesize", file="f.csv", drop=(), **options):
    """A good command, with options replaced or dropped; what has no option of its own is set."""
    of_release = {"out": "release"} | ({} if "policy" in options else {"mechanism": "pseudo-posterior"})
    of_command = {"synthesize": of_release, "privacy-cost": {"mechanism": "pseudo-posterior"}}.get(command, {})
    chosen = {k: v for k, v in (GOOD | of_command | options).items() if k not in drop}
    formula = " ~ ".join(chosen.pop(side) for side in ("outcome", "predictors") if side in chosen).replace(",", " + ")
    chosen = ({"formula": formula} if formula else {}) | chosen
    return [command, file, *(w for k, v in chosen.items() for w in said(k, v))]


def said(name, value):
    if name in (*OWN, "formula"):
        return [f"--{name.replace('_', '-')}", value]
    entry = {"model": "model.name"}.get(name) or next(at for at, _ in EMPTY.items() if at.endswith(f".{name}"))
    return ["--set", f"{entry}={value}"]


def save(frame):
    frame.to_csv("f.csv", index=False, na_rep="")


@pytest.fixture
def file(folder):
    save(make_frame().replace("NA", "n/a."))  # NA is a missing value in a csv file


KEPT = {}  # the folder of a release that is made once


@pytest.fixture
def released(file, run, tmp_path_factory):
    if not KEPT:
        assert run(*words())[0] == 0
        KEPT["folder"] = shutil.copytree("release", tmp_path_factory.mktemp("kept") / "release")
    else:
        shutil.copytree(KEPT["folder"], "release")
    return Path("release")


def rows(table, by):
    """The rows of a table as they are printed, except blanks.

    Counts are whole, shares have three decimals, totals six digits of the total of all, means four of the mean of all.
    """
    for (statistic, _), block in table.groupby(["statistic", "outcome"], sort=False):
        size = int(f"{block['estimate'].iloc[-1]:e}".partition("e")[2])
        places = {"count": 0, "poverty_rate": 3, "total": min(0, 5 - size)}.get(statistic, max(0, 3 - size))
        for row in block.to_dict("records"):
            numbers = (np.round(row[c], places) + 0.0 for c in ("estimate", "se", "ci_low", "ci_high"))
            estimate, se, low, high = (f"{number:,.{max(places, 0)}f}" for number in numbers)
            error = [] if "fixed by construction" in row["flag"] else [se, low, "to", high]
            yield squeezed(" ".join([*(row[c] for c in by), estimate, *error, f"{row['n']:,}"]))


# what succeeds


def test_synthesize_writes_a_release_and_prints_its_table_and_report(file, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run(*words(by="field", m="2"))
    assert (code, err) == (0, "")
    release = ss.read_release("release")
    assert release.m == 2 and release.privacy.epsilon <= 10.8
    assert (Path("release") / "internal" / "records.csv").is_file()
    for row in rows(release.tables("field"), ["field"]):
        assert row in squeezed(out)
    for heading in ("count", "mean of income", "1: calibrated total: fixed by construction"):
        assert heading in out
    assert squeezed(str(release.privacy)) in squeezed(out)
    written = "Written: release/public (NOT to publish: made with a seed), release/internal (to keep)"
    assert squeezed(out).endswith(written)
    assert max(map(len, out.splitlines())) <= 80
    again = pd.read_csv("release/public/synthetic_1.csv")
    assert run(*words(by="field", m="2", out="again"))[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv("again/public/synthetic_1.csv"), again)


@pytest.mark.slow
def test_every_option_of_synthesize_reaches_its_place(file, run):
    frame = make_frame().assign(p=lambda f: 1 / f["wt"], psu=lambda f: f["id"] // 2, size=1e6)
    frame.loc[5, "income"] = np.nan
    save(frame.replace("NA", "n/a."))
    code, out, err = run(*words(
        drop=("weights",), probs="p", strata="gender", psu="psu", fpc="size", lonely_psu="remove", by="gender",
        m="1", population_total="25e3", public="gender,field,psu,size", prior="independent", transform="asinh",
        scale="1000", missing="drop", map="linear", clusters="ignore", engine="embedded", min_cell="150",
        cv_limit="0.01", format="parquet", accept="rhat,ess_bulk,ess_tail,divergences", epsilon="30",
    ))  # fmt: skip
    assert (code, err) == (0, "")
    release = ss.read_release("release")
    assert (release.m, release.method["prior"]) == (1, "independent")
    assert release.method["transform"] == ["asinh (densities per unit of asinh(outcome / 1000))"]
    assert release.method["engine"]["name"] == "stanli"
    assert release.datasets[0].roles() == {
        "weights": "weight", "probs": None, "strata": "gender", "psu": ["psu"], "fpc": ["size"], "lonely_psu": "remove",
        "poststrata": None,
    }  # fmt: skip
    assert release.datasets[0].n == 399 and release.datasets[0].weights.sum() == pytest.approx(25e3)
    for words_ in (
        "map linear",
        "1 of 400 records",
        "clusters ignored",
        "total was given",
        "CV above 1%",
        "no between",
    ):
        assert words_ in squeezed(out)
    assert (Path("release") / "public" / "synthetic_1.parquet").is_file()


def test_fbp_with_normal_scores_stratum_totals_and_debiased_draws(file, run):
    history = np.exp(np.random.default_rng(7).normal(10, 0.6, 3000))
    ss.NormalScores.from_historical(history, source="last year").save("scores.json")
    totals = {"01": 4000.0, "02": 5000, "n/a.": 6000, "ökonomie": 7000}
    written = "{" + ", ".join(f'"{stratum}" = {total}' for stratum, total in totals.items()) + "}"
    options = {"model": "fbp", "prior": "flat", "transform": "scores.json", "debias": "true"}
    code, out, err = run(*words(**options), "--set", f"privacy.population_total={written}")
    assert (code, err) == (0, "")
    release = ss.read_release("release")
    assert release.method["method"] == "FBP" and release.count_roles["weights"] == "wt_smoothed"
    assert "normal-score of last year" in release.method["transform"][0]
    counts = release.tables("field", statistic="count").set_index("field")
    assert counts["estimate"][list(totals)].to_dict() == pytest.approx(totals, rel=1e-12)
    assert (counts["se"] == 0).all() and counts["flag"].str.contains("public total").all()
    assert "Fisher-consistent" in squeezed(out) and "totals of the strata were given" in squeezed(out)


def test_overwrite_replaces_a_release(released, run):
    before = (released / "public" / "synthetic_1.csv").read_bytes()
    assert run(*words(seed="2"))[0] == 2
    assert (released / "public" / "synthetic_1.csv").read_bytes() == before
    assert run(*words(seed="2"), "--overwrite")[0] == 0
    assert (released / "public" / "synthetic_1.csv").read_bytes() != before
    assert run(*words(seed="2", out="."), "--overwrite")[0] == 2


@pytest.mark.parametrize("asked", [{"epsilon": "10.8"}, {"c1": "1.2"}], ids=str)
def test_privacy_cost_says_the_cost_and_releases_nothing(asked, file, run):
    code, out, err = run(*words("privacy-cost", drop=("epsilon",) if "c1" in asked else (), **asked))
    assert (code, err) == (0, "")
    design = ss.SurveyDesign.read("f.csv", weights="wt", strata="field")
    numbers = {k: float(v) for k, v in asked.items()}
    p = ss.privacy_cost(design, ss.FBS("income", "field + gender", prior="flat"), seed=1, **numbers)
    said = f"Lipschitz bound {p.delta:.4g}, epsilon = {p.epsilon:.4g}"
    assert f"m = 3, c1 = {p.c1:.4g} (Delta_target {p.delta_target:.4g}): {said}" in squeezed(out)
    assert "nothing was released" in out and sorted(os.listdir()) == ["f.csv"]


@pytest.mark.parametrize(
    ("outcome", "options", "mechanism", "steps"),
    [("income,hours", {"risk": "count", "radius": "0.5,0.3", "floor": "100,0", "map": "linear", "reweight": "2"},
      ss.PseudoPosterior(map="linear", risk=ss.CountRisk((0.5, 0.3), floor=(100, 0))), 2),
     ("income", {"risk": "count", "radius": "5e3", "absolute": "true"},
      ss.PseudoPosterior(risk=ss.CountRisk(5e3, relative=False)), 0),
     ("income", {"risk": "lipschitz", "reweight": "1"}, ss.PseudoPosterior(), 1)],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_risks_and_re_weighting_are_priced_as_by_python(outcome, options, mechanism, steps, file, run):
    code, out, err = run(*words("privacy-cost", outcome=outcome, m="1", epsilon="14", **options))
    assert (code, err) == (0, "")
    design = ss.SurveyDesign.read("f.csv", weights="wt", strata="field")
    synthesizer = ss.FBS(outcome.split(","), "field + gender", prior="flat")
    p = ss.privacy_cost(design, synthesizer, epsilon=14, m=1, mechanism=mechanism, reweight=steps, seed=1)
    said = f"Lipschitz bound {p.delta:.4g}, epsilon = {p.epsilon:.4g}"
    assert f"c1 = {p.c1:.4g} (Delta_target 7): {said}" in squeezed(out)
    kept = f"keep {p.mean_alpha:.0%} of the file's information, and are below 1 for {100 * p.weighted_down:.3g}% of the"
    assert 0 < p.weighted_down and kept in squeezed(out)


def test_tables_are_printed_from_the_public_files(released, run, monkeypatch):
    (released / "internal").rename("elsewhere")
    release = ss.read_release(released)
    for place, width in ((released, "100"), (released / "public", "40")):
        monkeypatch.setenv("COLUMNS", width)
        code, out, err = run("tables", place, "--by", "gender, field", "--statistic", "total")
        assert (code, err) == (0, "")
        for row in rows(release.tables(["gender", "field"], statistic="total"), ["gender", "field"]):
            assert row in squeezed(out)
    code, out, _ = run("tables", released)
    assert code == 0 and squeezed(f"all {next(rows(release.tables(), []))}") in squeezed(out)


def test_tables_are_of_the_records_that_meet_a_condition(released, run):
    release = ss.read_release(released)
    expected = release.tables("gender", statistic="mean", where=lambda f: f.income > 20_000)
    code, out, err = run("tables", released, "--by", "gender", "--statistic", "mean", "--where", "income > 20000")
    assert (code, err) == (0, "")
    for row in rows(expected, ["gender"]):
        assert row in squeezed(out)
    code, out, err = run("tables", released, "--where", "income > 20000", "--out", "here.md")
    assert (code, err) == (0, "") and "income > 20000" in Path("here.md").read_text().replace("\\", "")
    refused = {"incomes > 1": "names incomes", "income >": "is no condition", "income + 1": "is no condition"}
    for wrong, said in refused.items():
        code, out, err = run("tables", released, "--where", wrong)
        assert (code, out) == (2, "") and said in squeezed(err), wrong


def test_poverty_rates_have_the_line_that_is_given(released, run):
    line = ss.read_release(released).tables(statistic="poverty_rate", outcome="income", poverty_line=30_000.0)
    code, out, err = run("tables", released, "--statistic", "poverty_rate", "--poverty-line", "30000")
    assert (code, err) == (0, "") and next(rows(line, [])) in squeezed(out)


def test_printed_tables_have_labels(folder, capsys):
    labels = {"income": "Household income, gross, a year", "field": "Field [of] work"}
    design = ss.SurveyDesign(make_frame(), weights="wt", labels=labels)
    table = ss.estimate(design, ["income", "hours"], ["field", "gender"], ["mean", "quantile"]).assign(flag="")
    print_table(table, ["field", "gender"])
    out = capsys.readouterr().out
    income = "Household income, gross, a year\n"
    for said in (f"mean of {income}", f"median of {income}", "mean of hours\n", " Field [of] work  gender  estimate"):
        assert said in re.sub(" +\n", "\n", out)


@pytest.mark.parametrize("width", [40, 80])
def test_printed_tables_are_wrapped_at_words_and_never_cut_off(width, folder, monkeypatch, capsys):
    """No row is wider than the terminal, unless the numbers alone are; every word of every label is whole."""
    monkeypatch.setenv("COLUMNS", str(width))
    frame = make_frame()
    label, level = "Field of work, by the classification", "agriculture, forestry and fishing in [all] of the provinces"
    frame["field"] = frame["field"].astype(str) + f" {level}"
    design = ss.SurveyDesign(frame, weights="wt", labels={"field": label})
    by = ["field", "gender"]
    print_table(ss.estimate(design, "income", by, ["mean", "quantile"]).assign(flag="a flag"), by)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= (80 if width == 80 else 90)
    assert {*level.split(), *label.split()} <= {*out.split()}
    assert "\N{HORIZONTAL ELLIPSIS}" not in out
    assert all(re.search(r" [\d,]+ to [\d,]+ +\d+ +1 *$", row) for row in out.splitlines() if " to " in row)


def test_messages_are_wrapped_at_words(file, run, monkeypatch):
    """Words are whole, and so are names of files, however long."""
    monkeypatch.setenv("COLUMNS", "80")
    long = "a_folder_with_a_name_that_is_longer/than_any_line_of_the_terminal/and_is_not_to_be_broken/f.csv"
    for command in (words(formula="incom ~ field"), ["plan", long], words(drop=("epsilon",))):
        code, out, err = run(*command)
        assert code == 2 and out == "" and err.startswith("Error: ")
        assert all(len(line) <= 80 or long in line for line in err.splitlines())
    assert filled("a  b\n  - one two three\n  four five", 12) == "a  b\n  - one two\n    three\n  four five"
    assert filled("  four five six", 12) == "  four five\n    six"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "name"),
    [(["--out", f"here{suffix}", *more], f"here{suffix}")
     for suffix, more in ((".csv", []), (".xlsx", []), (".html", ["--symbols", "statcan"]), (".tex", []), (".md", []))],
    ids=" ".join,
)  # fmt: skip
def test_tables_are_written_in_every_form(asked, name, released, run):
    code, out, err = run("tables", released, "--by", "gender", *asked)
    assert (code, out.strip(), err) == (0, f"Written: {name}", "")
    table = ss.read_release(released).tables("gender")
    if name.endswith("csv"):
        back = pd.read_csv(name, keep_default_na=False)
        np.testing.assert_array_equal(back["estimate"], table["estimate"])
    elif name.endswith("xlsx"):
        sheet = openpyxl.load_workbook(name)["Table 2"]
        (mark,) = sheet.tables.values()
        means = table[table["statistic"] == "mean"]
        np.testing.assert_allclose([row[1].value for row in sheet[mark.ref][1:]], means["estimate"], rtol=0.02)
    else:
        text = Path(name).read_text()
        assert "Mean of income, by gender" in text and "NOT FOR PUBLICATION" in text and "epsilon" in text


@pytest.mark.slow
def test_tables_are_drawn(released, run):
    code, out, err = run("tables", released, "--by", "gender", "--out", "here.svg")
    assert (code, out.strip(), err) == (0, "Written: here.svg", "")
    assert Path("here.txt").read_text().startswith("Mean of income, by gender: a dot and its 95% interval")
    code, out, err = run("tables", released, "--width", "8.5")
    assert (code, out) == (2, "") and "--width is of figures" in err
    code, out, err = run("tables", released, "--out", "two.png", "--statistic", "mean,count")
    assert (code, out) == (2, "") and "a figure shows one statistic" in err and not Path("two.png").exists()


def test_version_and_help(run):
    assert run("--version") == (0, f"surveysynth {ss.__version__}\n", "")
    code, out, _ = run("--help")
    commands = ("synthesize", "policy", "histogram", "ledger", "privacy-cost", "tables", "demo", "doctor")
    assert code == 0 and all(c in out for c in commands)
    for command in commands:
        assert run(command, "--help")[0] == 0


def no_cmdstan():
    raise ss.EngineError("cmdstanpy finds no CmdStan; install one")


@pytest.mark.parametrize("there", [True, False])
def test_doctor_says_what_is_there_and_how_to_get_the_rest(there, run, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}" if there else None)
    known = ("'survey'", "R.version", "getRversion")
    monkeypatch.setattr(doctor, "_r", lambda expression: "4.9" if any(text in expression for text in known) else "")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object() if there else None)
    monkeypatch.setattr(cmdstan, "find_cmdstan", lambda: ("folder", "2.36.0") if there else no_cmdstan())
    monkeypatch.setattr(cmdstan, "try_cmdstan", lambda: "2.36.0")
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    found = {line[0]: line[1:] for line in (
        [cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")
    )}  # fmt: skip
    assert found["surveysynth"] == [ss.__version__, ""] and found["embedded engine (stanli)"][0].startswith("0.")
    if there:
        assert found["CmdStan"] == ["2.36.0", ""] and found["R"] == ["4.9", ""]
        assert found["R package survey"] == ["4.9", ""]
        assert found["R package reticulate"] == ["no", "apt-get install r-cran-reticulate"]
    else:
        assert found["CmdStan"][0] == found["R"][0] == found["R from Python"][0] == found["demo data"][0] == "no"
        assert found["R"][1] == "apt-get install r-base-core"
        assert found["demo data"][1] == "pip install 'surveysynth[demo]'"
        assert found["R from Python"][1] == "pip install 'surveysynth[r]' (needs R)"


def test_doctor_names_what_dead_processes_left_and_removes_it(run, monkeypatch, tmp_path):
    monkeypatch.setattr(cmdstan, "find_cmdstan", no_cmdstan)
    monkeypatch.setattr(doctor, "_r", lambda expression: "4.9")
    monkeypatch.setattr(scratch, "_places", lambda: [tmp_path])
    dead = tmp_path / "surveysynth-1-abcd_123"
    dead.mkdir(mode=0o700)
    (dead / "data.json").write_text("31337")
    assert f"left confidential files in {dead}: removed now." in squeezed(run("doctor")[1]) and not dead.exists()
    assert "left confidential" not in run("doctor")[1]


def test_doctor_asks_the_r_that_is_there(r, run):
    version = str(r.r("as.character(packageVersion('survey'))")[0])
    assert f"{version} " in next(line for line in run("doctor")[1].splitlines() if "R package survey" in line)


@pytest.mark.slow
def test_demo_compares_with_the_truth(run):
    code, out, err = run("demo", "--n", "1500", "--seed", "1", "--out", "here/demo", "-m", "8", "--epsilon", "5,1")
    assert (code, err) == (0, "")
    population = census_workers()
    side = pd.read_csv("here/demo/comparison.csv").set_index(["division", "education"])
    assert len(side) == 10 * 5
    truth = population.groupby("division", observed=True)["income"].mean()
    np.testing.assert_allclose(side.xs("all", level=1)["population"].drop("all"), truth, rtol=1e-12)
    assert side.loc[("all", "all"), "population"] == pytest.approx(population["income"].mean(), rel=1e-12)
    kinds = ["confidential", "epsilon_5", "epsilon_1"]
    for kind in kinds[1:]:
        released = ss.read_release(f"here/demo/{kind}").tables(["division", "education"], statistic="mean")
        np.testing.assert_allclose(side[kind].dropna(), released["estimate"], rtol=1e-12)
        assert (abs(side[kind] / side["population"] - 1)["all"] < 0.5).all()  # margins of a small sample
    last = side.loc[("all", "all"), ["population", *(c for kind in kinds for c in (kind, f"{kind}_se"))]]
    assert "all workers " + " ".join(f"{x:,.0f}" for x in last) in squeezed(out)
    margins = side[(side.index.get_level_values(0) == "all") | (side.index.get_level_values(1) == "all")]
    own, five, one = (
        sum(low <= mean <= high for mean, low, high in margins[["population", f"{of}_ci_low", f"{of}_ci_high"]].values)
        for of in kinds
    )
    assert min(five, one) >= 10 and len(margins) == 14
    held = f"of 14: sample {own}, epsilon 5 {five}, epsilon 1 {one}"
    assert f"Intervals that hold the population's mean, {held}" in squeezed(out)
    stages = ["1 of 2: counting the file", "2 of 2: drawing data sets"]
    assert list(dict.fromkeys(":".join(line.split(":")[:2]) for line in run.progress)) == stages
    assert Path("here/demo/comparison.png").stat().st_size > 10_000
    assert ss.read_release("here/demo/epsilon_1").datasets[0].weights.sum() == pytest.approx(len(population))


def test_the_demo_counts_the_domains_that_have_both_intervals():
    """Of five domains: both hold; one of them; neither; no released interval; both end at the mean."""
    nan = np.nan
    margins = pd.DataFrame(
        [(10, 9, 11, 8, 12), (10, 11, 12, 8, 12), (10, 11, 12, 1, 2), (10, nan, nan, 9, 11), (10, 8, 10, 10, 12)],
        columns=["population", "epsilon_5_ci_low", "epsilon_5_ci_high", "confidential_ci_low", "confidential_ci_high"],
    )
    found = demo._intervals_that_hold(margins, ["confidential", "epsilon_5"])
    assert found == "Intervals that hold the population's mean, of 4: sample 3, epsilon 5 2"


def test_without_a_mechanism_the_command_asks_for_what_a_strict_release_needs(file, run):
    code, out, err = run(*words(drop=("mechanism", "prior")))
    assert (code, out) == (2, "") and "\n  --population-total: " in err and "\n  --bounds: " in err
    assert "--set privacy.mechanism=pseudo-posterior, whose guarantee is asymptotic" in squeezed(err)
    given = {"c1": "0.5", "bounds": "0,1e6", "population_total": "2e4"}
    code, out, err = run(*words(drop=("mechanism", "prior"), **given))
    assert code == 2 and "privacy.c1 = 0.5: not in a strict release, which has formulas" in squeezed(err)
    assert not Path("release").exists()


@pytest.mark.slow
def test_without_a_mechanism_the_command_makes_a_strict_release(file, run):
    strict = {"bounds": "0,1e6", "population_total": "2e4", "predictors": "gender"}
    code, out, err = run(*words(drop=("mechanism", "prior", "strata"), **strict))
    assert (code, err) == (0, "") and "Strict differential privacy" in squeezed(out)


MECHANISMS = {
    "pseudo-posterior": ({"c1": "0.5", "c2": "0.1"}, ss.PseudoPosterior(c1=0.5, c2=0.1), "asymptotic"),
    "weighted-e": ({"c1": "0.6", "map": "inverse"}, ss.WeightedE(map="inverse", c1=0.6), "asymptotic"),
    "censored": ({}, ss.Censored(), "strict"),
    "censored-weighted": ({"c1": "0.9"}, ss.Censored(weighted=True, c1=0.9), "strict given alpha"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_the_one_that_python_has(name, file, run):
    options, mechanism, kind = MECHANISMS[name]
    prior = "normal" if name.startswith("censored") else "flat"
    asked = {"mechanism": name, "prior": prior, "predictors": "field", "m": "1", "epsilon": "40"}
    code, out, err = run(*words(**asked, population_total="2e4", **options))
    assert (code, err) == (0, "")
    release = ss.read_release("release")
    assert release.privacy.kind == kind and f", {kind}" in out and ", m = 1" in out
    design = ss.SurveyDesign.read("f.csv", weights="wt", strata="field")
    synthesizer = ss.FBS("income", "field", prior=prior)
    ours = ss.synthesize(
        design, synthesizer, epsilon=40, m=1, mechanism=mechanism, population_total=2e4, seed=1
    )  # fmt: skip
    np.testing.assert_allclose(release.datasets[0].frame["income"], ours.datasets[0].frame["income"], rtol=1e-12)
    assert release.privacy.epsilon == ours.privacy.epsilon


@pytest.fixture
def equal(folder):
    """A file whose weights are all equal."""
    save(make_frame().assign(wt=50.0).replace("NA", "n/a."))


def test_a_bounded_outcome_by_a_beta_regression(equal, run):
    options = {"model": "beta", "bounds": "-1000,300000", "predictors": "gender", "m": "1", "epsilon": "20"}
    code, out, err = run(*words(drop=("prior", "strata"), **options))
    assert (code, err) == (0, "")
    release = ss.read_release("release")
    assert release.method["method"] == "Beta" and release.datasets[0].frame["income"].between(-1000, 300_000).all()
    truth = ss.estimate(ss.SurveyDesign.read("f.csv", weights="wt"), "income").loc[0]
    released = release.tables(statistic="mean").loc[0]
    assert abs(released["estimate"] - truth["estimate"]) < 4 * np.hypot(truth["se"], released["se"])
    code, out, _ = run(*words("privacy-cost", drop=("prior", "strata"), **options))
    assert code == 0 and "nothing was released" in out


@pytest.fixture
def visits(folder):
    """A file with counts and weights that are all equal."""
    frame = make_frame().assign(wt=50.0, visits=np.random.default_rng(4).negative_binomial(3, 0.4, 400))
    save(frame.replace("NA", "n/a."))


COUNTS = {
    "nb": (
        {"map": "linear", "risk": "count", "radius": "0.5", "floor": "1", "reweight": "1"},
        ss.NegativeBinomialRegression("visits", "gender", prior="independent"),
        {"mechanism": ss.PseudoPosterior(map="linear", risk=ss.CountRisk(0.5, floor=1)), "reweight": 1},
    ),
    "poisson": (
        {"mechanism": "weighted-e", "risk": "count", "radius": "2", "absolute": "true"},
        ss.PoissonRegression("visits", "gender", prior="independent"),
        {"mechanism": ss.WeightedE(risk=ss.CountRisk(2, relative=False))},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_synthesized_as_by_python(name, visits, run):
    options, model, settings = COUNTS[name]
    asked = {"model": name, "outcome": "visits", "predictors": "gender", "prior": "independent", "epsilon": "12"}
    code, out, err = run(*words(drop=("strata",), m="1", **asked | options))
    assert (code, err) == (0, "")
    release = ss.read_release("release")
    design = ss.SurveyDesign.read("f.csv", weights="wt")
    ours = ss.synthesize(design, model, epsilon=12, m=1, seed=1, **({"mechanism": PSEUDO} | settings))
    np.testing.assert_array_equal(release.datasets[0].frame["visits"], ours.datasets[0].frame["visits"])
    assert release.privacy.epsilon == ours.privacy.epsilon and release.method["method"] == model.name
    assert "share of records whose values are further from the record's than a radius" in squeezed(out)


@pytest.fixture
def skewed(folder):
    """150 records, public weights and amounts of which a fifth are 0."""
    frame = make_frame(150).assign(wt=50.0)
    frame.loc[::5, "income"] = 0.0
    save(frame.replace("NA", "n/a."))


MIXTURE = {
    "model": "mixture", "predictors": "gender", "components": "4", "bounds": "-10,1e6", "m": "1", "epsilon": "30",
}  # fmt: skip
OURS = ss.Mixture("income", "gender", ss.AsinhTransform(1000.0), zeros=True, components=4, bounds=(-10, 1e6))
BETWEEN = {"transform": "asinh", "scale": "1000"}
COST = ss.PrivacyCost(1, 1.0, 15.0, 15.0, 30.0, 0.9, 0.2, "Passed.")


def test_what_the_strict_mechanism_has_not_is_refused_with_what_to_write(file, run):
    strict = {"mechanism": "strict", "population_total": "22000", "epsilon": "20", "out": "x"}
    for wrong, message in [
        (
            [*words(drop=("prior",)), "--set", "privacy.reference=old"],
            "take out privacy.reference: privacy.earlier is the folder of an",
        ),
        (words(c1="1", bounds="0,9", **strict), "model.prior = 'flat'; privacy.c1 = 1.0: not in a strict release"),
        (words(drop=("prior",), **strict), "--bounds: [lowest, highest] outcome, from public knowledge"),
    ]:
        code, _, err = run(*wrong)
        assert code != 0
        assert message in squeezed(err)


@pytest.mark.slow
def test_a_mixture_is_synthesized_as_by_python(skewed, run):
    strict = {"mechanism": "censored", "population_total": "7500"}
    code, out, err = run(*words(drop=("prior", "strata"), **MIXTURE, **BETWEEN, **strict, zeros="true"))
    assert (code, err) == (0, "")
    release, design = ss.read_release("release"), ss.SurveyDesign.read("f.csv", weights="wt")
    ours = ss.synthesize(
        design, OURS, epsilon=30, m=1, mechanism=ss.Censored(), population_total=7500, seed=1
    )  # fmt: skip
    np.testing.assert_allclose(release.datasets[0].frame["income"], ours.datasets[0].frame["income"], rtol=1e-12)
    assert (release.datasets[0].frame["income"] == 0).sum() > 10
    assert (release.method["method"], release.method["prior"], release.privacy.kind) == ("Mixture", "common", "strict")
    assert "mixture of at most 4 normal regressions on the scale: asinh" in squeezed(out)


@pytest.mark.slow
def test_a_mixture_is_priced_and_kept_in_a_policy(skewed, run, monkeypatch):
    asked = []
    monkeypatch.setattr(plan, "privacy_cost", lambda design, model, **_: asked.append(model) or COST)
    code, out, err = run(*words("privacy-cost", drop=("strata",), **MIXTURE | {"prior": "paper"}, **BETWEEN))
    assert (code, err) == (0, "") and asked == [replace(OURS, prior="paper", zeros=False)]
    settings = {"source": "last year", "out": "policy.npz", "c1": "0.9", "population_total": "7500"}
    code, out, err = run(*words("policy", drop=("prior", "strata"), **MIXTURE, **BETWEEN, **settings, zeros="true"))
    assert (code, err) == (0, "") and "Policy from 'last year': Mixture of income, epsilon = 30" in squeezed(out)
    assert ss.Policy.load("policy.npz").synthesizer == OURS
    set_by_policy = ("outcome", "predictors", "prior", "epsilon")
    code, _, err = run(*words(drop=set_by_policy, policy="policy.npz", components="9", zeros="true"))
    assert code == 2 and err.startswith("Error: model.zeros, model.components: the policy sets this")


@pytest.mark.slow
def test_a_policy_is_made_on_one_file_and_sets_the_release_of_another(file, run):
    make_frame(seed=8).replace("NA", "n/a.").to_csv("old.csv", index=False)
    settings = {"prior": "normal", "predictors": "field", "m": "1", "epsilon": "40", "population_total": "2e4"}
    asked = words("policy", "old.csv", source="last year", out="policy.npz", c1="0.7", map="linear", **settings)
    code, out, err = run(*asked)
    assert (code, err) == (0, "")
    policy = ss.Policy.load("policy.npz")
    assert squeezed(str(policy)) in squeezed(out) and out.rstrip().endswith("Written: policy.npz (to keep)")
    assert (policy.epsilon, policy.m, policy.source) == (40, 1, "last year")
    assert policy.mechanism == ss.Censored(40.0, weighted=True, map="linear", c1=0.7)
    assert policy.synthesizer == ss.FBS("income", "field", prior="normal")
    assert Path("policy.npz").stat().st_mode & 0o777 == 0o600
    code, _, err = run(*asked)
    assert code == 2 and "--out policy.npz exists" in err

    set_by_policy = ("outcome", "predictors", "prior", "epsilon")
    ss.Ledger("l.jsonl", "lfs", create=True)
    asked = words(drop=set_by_policy, policy="policy.npz", population_total="2e4", ledger="l.jsonl", survey="lfs")
    code, out, err = run(*asked)
    assert (code, err) == (0, "")
    release = ss.read_release("release")
    assert (release.privacy.kind, release.privacy.epsilon, release.m) == ("strict", 40, 1)
    assert "set on a historical file (last year)" in squeezed(out)
    assert ss.Ledger("l.jsonl", "lfs").entries()[["blank", "replace", "kind"]].values.tolist() == [[40, 80, "strict"]]
    for option, value in (("outcome", "income"), ("m", "3"), ("model", "fbs"), ("mechanism", "censored"), ("c1", "1"),
                          ("risk", "count"), ("floor", "2"), ("reweight", "1")):  # fmt: skip
        dropped = [name for name in set_by_policy if name != option]
        code, out, err = run(*words(drop=dropped, policy="policy.npz", out="no", **{option: value}))
        entry = "model.formula" if option == "outcome" else said(option, value)[1].partition("=")[0]
        assert (code, out) == (2, "") and err.startswith(f"Error: {entry}: the policy sets this")
    code, _, err = run(*words(drop=set_by_policy, policy="f.csv", out="no"))
    assert code == 2 and "'f.csv' is not a policy" in err


@pytest.mark.slow
def test_the_ledger_counts_what_is_released_and_stops_at_its_cap(file, run, monkeypatch):
    recorded = {"ledger": "l.jsonl", "survey": "lfs", "m": "1"}
    assert run("ledger", "l.jsonl", "--survey", "lfs", "--create")[0] == 0
    code, out, err = run(*words(epsilon="3", cap="7", **recorded))
    assert (code, err) == (0, "")
    first = ss.read_release("release").privacy.epsilon
    entries = ss.Ledger("l.jsonl", "lfs").entries()
    assert entries[["blank", "replace", "kind"]].values.tolist() == [[first, 2 * first, "asymptotic"]]
    spent = f"releases 1, epsilon = {first:g} (blank), {2 * first:g} (replace)"
    assert f"{spent}, cap 7, {7 - first:g} left (l.jsonl)" in squeezed(out)
    before = Path("l.jsonl").read_bytes()
    code, out, err = run(*words(epsilon="6", out="second", **recorded))
    assert (code, out) == (2, "") and "nothing was recorded, so do not release it" in err
    assert Path("l.jsonl").read_bytes() == before and not Path("second").exists()
    code, _, err = run(*words(epsilon="2", out="second", cap="9", **recorded))
    assert code == 2 and "the cap of 'lfs' is 7" in err

    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(ss.Release, "write", full)
    code, _, err = run(*words(epsilon="3", out="second", **recorded))
    assert (code, err) == (2, "Error: no space left\n") and not Path("second").exists()
    lfs = ss.Ledger("l.jsonl", "lfs")
    assert lfs.spent.blank == first  # what was not written was not charged
    lfs.spend(2, 4, kind="strict", what="tables of May")
    spent = float(lfs.spent.blank)

    assert run("ledger", "l.jsonl", "--survey", "lfs", "--set-cap", "20", "--what", "the board, in May")[0] == 0
    ss.Ledger("l.jsonl", "health", create=True).spend(1, 2, kind="strict", what="tables of June")
    code, out, err = run("ledger", "l.jsonl")
    assert (code, err) == (0, "")
    assert f"'lfs': releases 2, epsilon = {spent:g} (blank), {2 * spent:g} (replace), cap 20" in out
    assert "'health': releases 1, epsilon = 1 (blank), 2 (replace), no cap" in out
    code, out, _ = run("ledger", "l.jsonl", "--survey", "health")
    assert code == 0 and "tables of June" in out and "FBS" not in out

    of_lfs = ("ledger", "l.jsonl", "--survey", "lfs")
    code, out, err = run(*of_lfs, "--verify", "release")
    assert (code, err) == (0, "") and out.startswith("The ledger is whole; releases that go with it: 1\n  entry 3 (")
    assert out.splitlines()[1].endswith("): release") and out.splitlines()[2].endswith("): none of these")
    Path("l.jsonl").write_bytes(b"".join(before.splitlines(keepends=True)[:-1]))  # an old copy
    code, out, err = run(*of_lfs, "--verify", "release")
    assert (code, out) == (2, "") and "release is entry 3, and the ledger ends with 2: it was cut off" in err


def test_a_histogram_has_the_shares_of_the_bins_and_spends_once(equal, run):
    frame = pd.read_csv("f.csv")
    limits = np.array([0, 15_000, 30_000, 200_000])
    ss.Ledger("l.jsonl", "lfs", create=True)
    true = np.histogram(frame["income"].clip(0, 200_000), limits)[0] / 400
    code, out, err = run(
        "histogram", "f.csv", "--weights", "wt", "--outcome", "income", "--bounds", "0,200000", "--bins",
        "0,15000,30000,200000", "--epsilon", "1e6", "--population-total", "2e4", "-m", "20", "--out", "release",
        "--ledger", "l.jsonl", "--survey", "lfs",
    )  # fmt: skip
    assert (code, err) == (0, "")
    release = ss.read_release("release")
    assert (release.privacy.kind, release.privacy.epsilon, release.m) == ("strict", 1e6, 20)
    drawn = np.concatenate([d.frame["income"] for d in release.datasets])
    share = np.histogram(drawn, limits)[0] / drawn.size
    assert (np.abs(share - true) < 4.5 * np.sqrt(true * (1 - true) / drawn.size)).all()  # of a binomial
    assert all(d.weights.sum() == pytest.approx(2e4) for d in release.datasets)
    assert "mean of income" in out and "Written: release/public (to publish)" in out
    assert ss.Ledger("l.jsonl", "lfs").entries()[["blank", "replace", "what"]].values.tolist() == [
        [1e6, 2e6, "synthetic data, m = 20, Perturbed histogram: income"]
    ]


def test_a_histogram_that_the_cap_does_not_allow_is_not_written(equal, run):
    ss.Ledger("l.jsonl", "lfs", cap=1, create=True)
    before = Path("l.jsonl").read_bytes()
    asked = {"weights": "wt", "outcome": "income", "bounds": "0,200000", "epsilon": "2", "population-total": "2e4"}
    asked |= {"out": "h", "ledger": "l.jsonl", "survey": "lfs"}
    options = [w for k, v in asked.items() for w in (f"--{k}", v)]
    code, out, err = run("histogram", "f.csv", *options)
    assert (code, out) == (2, "") and "nothing was recorded" in err
    assert Path("l.jsonl").read_bytes() == before and not Path("h").exists()


@pytest.mark.parametrize(("bins", "number"), [("7", 7), (None, 20), ("0,1e5,200000", 2)])
def test_bins_are_a_number_or_limits(bins, number, equal, run):
    asked = ["histogram", "f.csv", "--weights", "wt", "--outcome", "income", "--bounds", "0,200000", "--epsilon", "9"]
    code, _, err = run(*asked, "--population-total", "2e4", "--out", "h", *([] if bins is None else ["--bins", bins]))
    assert (code, err) == (0, "")
    assert len(ss.read_release("h").method["limits"]) == number + 1


# what is refused, in one sentence and with exit code 2


def change(**columns):
    return lambda f: f.assign(**columns)


def at(column, value, where=(2, 4)):
    def put(f):
        f = f.astype({column: object})
        f.loc[list(where), column] = value
        return f

    return put


BAD = {
    "missing weights": (at("wt", None), {}, (), r"weights column 'wt' is missing in 2 rows \(row numbers 3, 5; the"),
    "infinite weights": (at("wt", "inf"), {}, (), "'wt' is not finite in 2 rows"),
    "negative weight": (at("wt", -3), {}, (), "'wt' is negative in 2 rows"),
    "text for weights": (at("wt", "many"), {}, (), "'wt' is not a number in 2 rows"),
    "probabilities above 1": (None, {"probs": "wt"}, ("weights",), "'wt' is above 1 in .* weights= instead of probs="),
    "weights and probabilities": (None, {"probs": "hours"}, (), "one of weights=, probs="),
    "no such weights": (None, {"weights": "w"}, (), r"no column 'w' \(did you mean 'wt'\?\); the frame has id, field"),
    "no such stratum": (None, {"strata": "s"}, (), "no column 's'"),
    "no such psu": (None, {"psu": "s"}, (), "no column 's'"),
    "no such fpc": (None, {"fpc": "s"}, (), "no column 's'"),
    "no such outcome": (None, {"outcome": "salary"}, (), "no column 'salary'"),
    "no such predictor": (None, {"predictors": "feild"}, (), "no column 'feild'"),
    "missing stratum": (at("field", None), {}, (), "strata column 'field' is missing in 2 rows"),
    "missing psu": (at("hours", None), {"psu": "hours"}, (), r"psu \(stage 1\) column 'hours' is missing in 2 rows"),
    "missing fpc": (at("hours", None), {"fpc": "hours"}, (), "fpc .* column 'hours' is missing in 2 rows"),
    "one psu in a stratum": (change(psu=lambda f: f["field"]), {"psu": "psu"}, (), "one sampling unit .* lonely_psu "),
    "fpc that varies": (None, {"fpc": "id"}, (), "fpc column 'id' varies within its stratum"),
    "fpc below the sample": (change(N=50), {"fpc": "N"}, (), "smaller than the sample in 400 rows"),
    "more fpc than stages": (None, {"fpc": "id,hours"}, (), "fpc names 2 stages"),
    "two roles": (None, {"psu": "field"}, (), "'field' is given two roles, strata and psu"),
    "no records": (lambda f: f[:0], {}, (), "the frame is empty: .*where it is a subset"),
    "missing outcome": (at("income", None), {}, (), "'income' is missing in 2 rows"),
    "outcome that is text": (None, {"outcome": "gender", "predictors": "field"}, (), "'gender' is not a number"),
    "outcome with role": (None, {"outcome": "wt"}, (), "'wt' has a role"),
    "outcome and predictor": (None, {"outcome": "income", "predictors": "income"}, (), "outcome cannot be a predictor"),
    "outcome twice": (None, {"outcome": "income,income"}, (), "outcome must name one column or several different"),
    "no outcome": (None, {"outcome": " "}, (), "is not a formula: write outcome ~ predictors"),
    "zero income": (at("income", 0), {}, (), "'income' has no log in 2 rows"),
    "constant outcome": (change(income=7), {}, (), "income is constant"),
    "missing predictor": (at("gender", None), {}, (), "predictor 'gender' is missing in 2 rows"),
    "formula with two sides": (None, {"predictors": "income ~ field"}, (), "is not a formula: write outcome ~"),
    "no formula": (None, {"predictors": "field +"}, (), "is not a formula"),
    "formula that fails": (None, {"predictors": "field + np.log(gender)"}, (), "cannot be evaluated"),
    "clusters under the paper's FBP": (
        change(psu=lambda f: f["id"] // 4), {"psu": "psu", "model": "fbp-paper"}, (),
        "PSUs .* clusters = 'ignore' in .model.",
    ),
    "unit that is not there": (None, {"unit": "household"}, (), "no column 'household'"),
    "unit with gaps": (at("gender", None), {"unit": "gender", "predictors": "field"}, (), "'gender' is missing in 2"),
    "public lacks one": (None, {"public": "field"}, (), "would hold gender, which public= does not name"),
    "by an outcome": (None, {"by": "income"}, (), "tables.by names 'income', which is not a predictor"),
    "by an id": (None, {"by": "field,id"}, (), "tables.by names 'id', which is not a predictor"),
    "epsilon 0": (None, {"epsilon": "0"}, (), "privacy.epsilon: Input should be greater than 0"),
    "epsilon nan": (None, {"epsilon": "nan"}, (), "privacy.epsilon: Input should be a finite number, not nan"),
    "epsilon out of reach": (None, {"epsilon": "0.01"}, (), "larger epsilon"),
    "m 0": (None, {"m": "0"}, (), "release.m: Input should be greater than or equal to 1"),
    "population -1": (None, {"population_total": "-1"}, (), "privacy.population_total: Input should be greater"),
    "log with a scale": (None, {"scale": "10"}, (), "model.scale: only with model.transform = 'identity' or 'asinh'"),
    "asinh without": (None, {"transform": "asinh"}, (), "asinh needs a public scale"),
    "scale 0": (None, {"transform": "identity", "scale": "0"}, (), "model.scale: Input should be greater than 0"),
    "min cell 0": (None, {"min_cell": "0"}, (), "tables.min_cell: Input should be greater than or equal to 1"),
    "cv 0": (None, {"cv_limit": "0"}, (), "tables.cv_limit: Input should be greater than 0"),
    "accept nonsense": (None, {"accept": "all"}, (), "release.accept: Input should be 'divergences'"),
    "no such folder": (None, {"out": "f.csv/release"}, (), "not a folder that you may write to"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence(case, file, run):
    changed, options, drop, message = BAD[case]
    save((changed or (lambda f: f))(make_frame().replace("NA", "n/a.")))
    code, out, err = run(*words(drop=drop, **options))
    assert (code, out) == (2, "")
    assert err.startswith("Error: ") and len(err.splitlines()) == 1
    assert re.search(message, err), err
    assert os.listdir() == ["f.csv"]


@pytest.mark.parametrize("command", ["synthesize", "privacy-cost"])
def test_a_file_without_a_header_line_is_told_so(command, file, run):
    lines = Path("f.csv").read_text().splitlines()
    Path("f.csv").write_text("\n".join(lines[1:]))
    code, out, err = run(*words(command))
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    assert "whose names look like values: where there is no header line" in err
    assert [value for value in lines[1].split(",") if len(value) > 2 and value in err] == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("missing.csv", None, "there is no file 'missing.csv'"), ("f.xls", b"x", "cannot tell what kind of file 'f.xls'"),
     ("f.dta", b"not Stata", "'f.dta' could not be read"), ("f.parquet", b"PAR1", "'f.parquet' could not be read"),
     ("f.csv", b"", "'f.csv' could not be read"), ("f.csv", b"\x00\xff\xfe", "f.csv"),
     (".", None, "there is no .parquet file in '.'")],
)  # fmt: skip
@pytest.mark.parametrize("command", ["synthesize", "privacy-cost"])
def test_files_that_cannot_be_read_get_a_sentence(name, content, message, command, run):
    if content is not None:
        Path(name).write_bytes(content)
    code, out, err = run(*words(command, file=name))
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [(["synthesize", "f.csv"], "Missing option '--out'"),
     (["synthesize", "f.csv", "--out", "release"],
      "give, too: --weights: column of survey weights (or probs = column of inclusion probabilities, or "),
     (["synthesize"], "Missing argument"),
     (words(prior="jeffreys"), "prior='jeffreys' is not one of paper, independent, normal, flat"),
     (words(transform="sqrt"), "not one of log, identity, asinh"),
     (words(transform="none.json"), "'none.json' cannot be read as normal scores (FileNotFoundError)"),
     (words(model="fba"), "model.name = 'fba' is not one of fbs, fbp, fbp-paper"),
     (words(model="fbp-paper", debias="true"), "no part of the paper's setting"),
     (words(map="linear", debias="true"), "use the inverse map"),
     (words(missing="guess"), "model.missing: Input should be 'fail' or 'drop'"),
     (words(map="cubic"), "privacy.map: Input should be 'inverse' or 'linear'"),
     (words(risk="all"), "privacy.risk: Input should be 'lipschitz', 'count', 'marginal' or 'pairwise'"),
     (words(reweight="-1"), "privacy.reweight: Input should be greater than or equal to 0"),
     (words("privacy-cost", reweight="1.5"), "privacy.reweight: Input should be a valid integer"),
     (words(clusters="yes"), "model.clusters: Input should be 'model' or 'ignore'"),
     (words(engine="jags"), "model.engine: Input should be 'auto', 'embedded' or 'cmdstan'"),
     (words(lonely_psu="certainty"), "survey.lonely_psu: Input should be 'fail', 'remove', 'adjust' or 'average'"),
     (words(format="xlsx"), "release.format: Input should be 'csv' or 'parquet'"),
     (words(epsilon="ten"), "--epsilon"),
     (words(m="2.5"), "release.m: Input should be a valid integer"),
     (words(seed="-1"), "--seed"),
     (words(min_cell="few"), "tables.min_cell: Input should be a number, not 'few'"),
     ([*words(), "--set", "model.prior=flat"], "--set model.prior: given more than once, and only the last"),
     ([*words(), "--set", "privacy.epsilom=3"], "privacy.epsilom: there is no such entry; did you mean epsilon?"),
     ([*words(), "--set", "epsilon=3"], "--set epsilon: write section.entry=value, as in --set privacy.epsilon=3"),
     ([*words(), "--espilon", "3"], "No such option: --espilon"),
     (["tables", "release", "--symbols", "us"], "not one of 'uk', 'statcan'"),
     (["demo", "--n", "many"], "--n"),
     (["tabels"], "No such command 'tabels'")],
    ids=lambda v: v if isinstance(v, str) else None,
)  # fmt: skip
def test_wrong_options_are_named(command, message, file, run):
    code, out, err = run(*command)
    assert (code, out) == (2, "") and message in squeezed(err)
    assert os.listdir() == ["f.csv"]


OF_PLANS = "plan", "check", "release", "synthesize", "policy", "privacy-cost"
SEVERAL = {"ledger": ["verify"]} | {command: ["entries"] for command in OF_PLANS}


def every_command(group, *names):
    for name, command in group.commands.items():
        yield from every_command(command, *names, name) if hasattr(command, "commands") else [([*names, name], command)]


@pytest.mark.parametrize(
    ("command", "found"),
    [pytest.param(words, it, id=" ".join(words)) for words, it in every_command(typer.main.get_command(cli.app))],
)
def test_a_second_one_of_an_option_is_refused_and_named(command, found, run):
    """All options of every command, in either of their spellings; of two there may be several."""
    options = [option for option in found.params if option.param_type_name == "option"]
    assert [option.name for option in options if option.multiple] == SEVERAL.get(command[-1], [])
    first = [word for o in options for word in ([o.opts[0]] if o.is_flag else [o.opts[0], "a"])]
    second = [o.opts[-1] if o.is_flag else f"{o.opts[-1]}=b" for o in options]
    if not options:
        assert command in (["doctor"], ["resume"])
        return
    code, out, err = run(*command, *first, *second)
    names = ", ".join(option.opts[-1] for option in options if not option.multiple)
    assert (code, out) == (2, "") and err.startswith(f"Error: {names}: given more than once")
    assert os.listdir() == []


COMMANDS = {" ".join(words): command for words, command in every_command(typer.main.get_command(cli.app))}


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith("study")])
def test_twelve_options_are_enough(name):
    command = COMMANDS[name]
    assert len([option for option in command.params if option.param_type_name == "option"]) <= 12


def test_a_second_outcome_does_not_replace_the_first(file, run):
    code, out, err = run(*words(), "--formula", "hours ~ field")
    assert (code, out) == (2, "") and "--formula: given more than once, and only the last would count" in err
    assert os.listdir() == ["f.csv"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [(["nowhere"], "'nowhere' is not a release"), (["f.csv"], "'f.csv' is not a release"),
     (["release", "--by", "income"], "by='income' is not a predictor"),
     (["release", "--by", "field,field"], "by names a column twice"),
     (["release", "--statistic", "median"], "statistic='median' is not one of"),
     (["release", "--statistic", ","], "is not one of"),
     (["release", "--min-cell", "0"], "min_cell must be"), (["release", "--cv-limit", "-1"], "cv_limit must be"),
     (["release", "--out", "t.pdf"], "written as .csv, .xlsx, .html, .tex, .md, .docx: 't.pdf' ends in none of these"),
     (["release", "--out", "t.html", "--wording", "f.csv"], "the words in 'f.csv' cannot be read"),
     (["release", "--out", "no/such/t.csv"], "no/such"), (["release", "--out", "no/such/t.html"], "no/such")],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)  # fmt: skip
def test_bad_requests_for_tables_get_a_sentence(asked, message, released, run):
    code, out, err = run("tables", *asked)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1
    assert sorted(os.listdir()) == ["f.csv", "release"]


HISTOGRAM = {
    "weights": "wt", "outcome": "income", "bounds": "0,200000", "epsilon": "2", "population_total": "2e4", "out": "new",
}  # fmt: skip
LEDGER = {"ledger": "l.jsonl", "survey": "lfs"}


@pytest.mark.parametrize(
    ("command", "message"),
    [(words(model="beta", bounds="0,9", transform="log"), "model.prior: not with model.name = 'beta'"),
     (words(model="beta", bounds="0,9", transform="log", drop=("prior",)), "model.transform: not with model.name = 'b"),
     (words(model="beta", bounds="0,9", outcome="income,hours", drop=("prior",)), "'beta' synthesizes one outcome"),
     (words(model="beta", bounds="9,0", drop=("prior",)), "bounds must be two finite numbers, low < high"),
     (words(model="nb", drop=("prior",), transform="log", scale="3"), "model.transform: not with model.name = 'nb'"),
     (words(model="poisson", prior="normal"), "prior='normal' is not one of paper, independent"),
     (words("privacy-cost", model="nb", drop=("prior",), outcome="income,hours"), "'nb' synthesizes one outcome"),
     (words("policy", model="nb", source="x", out="p.npz", population_total="2e4"),
      "prior='flat' is not one of paper, independent"),
     (words(model="nb", drop=("prior",)), "'income' is not a count, 0, 1, 2 and so on, in 400 rows"),
     (words(model="mixture"), "prior='flat' is not one of common, paper"),
     (words(prior="common"), "prior='common' is not one of paper, independent, normal, flat"),
     (words(model="nb", prior="common"), "prior='common' is not one of paper, independent"),
     (words(components="5"), "model.components: not with model.name = 'fbs'"),
     (words(model="gamma", transform="log", drop=("prior",)), "model.transform: not with model.name = 'gamma'"),
     (words(model="mine.py:pay"), "model.prior: not with model.name = 'mine.py:pay'"),
     (words("privacy-cost", model="poisson", prior="paper", components="5", zeros="true"),
      "model.zeros, model.components: not with model.name = 'poisson'"),
     (words("privacy-cost", model="beta", bounds="0,9", drop=("prior",), zeros="true"),
      "model.zeros: not with model.name = 'beta'"),
     (words(model="mixture", drop=("prior",), components="0"), "components must be"),
     (words(model="mixture", drop=("prior",), bounds="9,0"), "bounds must be two finite numbers, low < high"),
     (words(model="mixture", drop=("prior",), outcome="income,hours"), "'mixture' synthesizes one outcome"),
     (words(model="mixture", drop=("prior",), transform="asinh"), "asinh needs a public scale"),
     (words(radius="0.3"), "privacy.radius: only with privacy.risk = 'count'"),
     (words("privacy-cost", floor="3"), "privacy.floor: only with privacy.risk = 'count'"),
     (words(risk="lipschitz", absolute="true"), "privacy.absolute: only with privacy.risk = 'count'"),
     (words(risk="count", absolute="true"), "privacy.absolute needs privacy.radius, in the unit of the outcome"),
     (words(risk="count", radius="-1"), "radius must be a finite number, not negative"),
     (words("privacy-cost", risk="count", radius="1,2"), "radius has 2 numbers, and the numeric outcomes are 1"),
     (words("privacy-cost", outcome="C(gender)", predictors="field", risk="count", levels="{gender = ['f', 'm']}"),
      "CountRisk looks at numeric outcomes"),
     (words(mechanism="censored", risk="lipschitz", population_total="2e4"),
      "privacy.risk: not with privacy.mechanism = 'censored'"),
     (words(mechanism="censored-weighted", reweight="1", population_total="2e4"),
      "under the censored mechanism the clamp is the bound"),
     (words(risk="count", debias="true"), "use the inverse map of LipschitzRisk() risks"),
     (words(reweight="1", debias="true"), "re-weighting changes it: use one of them"),
     (words(mechanism="censored", map="linear", c2="0", population_total="2e4"),
      "privacy.map, privacy.c2: not with privacy.mechanism = 'censored'"),
     (words(mechanism="censored-weighted", unit="gender", population_total="2e4"), "goes with the pseudo posterior"),
     (words(mechanism="weighted-e", debias="true"), "debias corrects for the weights of PseudoPosterior() or"),
     (words(mechanism="weighted-e", c1="0"), "c1 must be a positive number"),
     (words(c2="3"), "c2 must be a number between -1 and 1"),
     (words(policy="none.npz", drop=("outcome", "predictors", "prior", "epsilon")), "'none.npz' is not a file"),
     (words(survey="lfs"), "privacy.survey: only with privacy.ledger"),
     (words(cap="3"), "privacy.cap: only with privacy.ledger"),
     (words(ledger="l.jsonl"), "privacy.ledger needs privacy.survey"),
     (words(**LEDGER | {"ledger": "f.csv"}), "'f.csv' is not a ledger"),
     (words(**LEDGER), "there is no ledger 'l.jsonl'. To begin one, with a budget of its own: create=True, or --"),
     (["ledger", "no/l.jsonl", "--survey", "lfs", "--create"], "its folder does not exist"),
     (["ledger", "l.jsonl", "--create"], "--create needs --survey"),
     (["ledger", "l.jsonl", "--verify", "release"], "--verify needs --survey"),
     (["ledger", "l.jsonl", "--survey", "lfs", "--cap", "3"], "--cap: only with --create; --set-cap changes it"),
     (words(**LEDGER, cap="0"), "privacy.cap: Input should be greater than 0"),
     (words("policy", source=" ", out="p.npz", population_total="2e4"), "source must be a text of one line"),
     (words("policy", source="x", out="no/p.npz"), "--out no/p.npz: its folder does not exist"),
     (words("policy", source="x", out="f.csv"), "--out f.csv exists"),
     (["ledger", "l.jsonl"], "there is no ledger 'l.jsonl'"),
     (["ledger", "l.jsonl", "--survey", "lfs", "--set-cap", "3", "--what", "x"], "there is no ledger 'l.jsonl'"),
     (["ledger", "f.csv"], "'f.csv' is not a ledger"),
     (["ledger", "f.csv", "--set-cap", "3"], "--set-cap and --what go together"),
     (["ledger", "f.csv", "--what", "x"], "--set-cap and --what go together"),
     (["ledger", "f.csv", "--set-cap", "3", "--what", "x"], "--set-cap needs --survey"),
     (["ledger", "f.csv", "--set-cap", "0", "--what", ""], "--set-cap needs --survey"),
     *((("histogram", "f.csv", *(w for k, v in (HISTOGRAM | asked).items() for w in (f"--{k.replace('_', '-')}", v))),
        message) for asked, message in (
         ({}, "the survey weights are not all equal"),
         ({"bins": "0"}, "bins must be a whole number, at least 1"),
         ({"bins": "2.5"}, "--bins takes a whole number, or several limits"),
         ({"bins": "0,5,3"}, "bins must be finite numbers, at least two, that rise"),
         ({"bins": "0,5"}, "must begin and end with the bounds"),
         ({"weight_bound": "0"}, "weight_bound must be a positive number"),
         ({"epsilon": "0"}, "epsilon must be a positive number"),
         ({"outcome": "gender"}, "'gender' is not a number"),
         ({"outcome": "wt"}, "'wt' has a role"),
         ({"survey": "lfs"}, "--ledger and --survey go together"),
         ({"out": "f.csv"}, "'f.csv' exists"),
     ))],
    ids=lambda v: v if isinstance(v, str) else None,
)  # fmt: skip
def test_options_that_do_not_go_together_get_a_sentence(command, message, file, run):
    code, out, err = run(*command)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1
    assert os.listdir() == ["f.csv"]


@pytest.mark.parametrize(
    ("command", "message"),
    [(words(model="beta", bounds="9", drop=("prior",)), "'--bounds': two numbers were expected"),
     (words(model="beta", bounds="0,many", drop=("prior",)), "'--bounds': numbers were expected, by commas"),
     (["histogram", "f.csv", "--bins", "few"], "'--bins': numbers were expected, by commas"),
     (["histogram", "f.csv", "--bounds", "5"], "'--bounds': two numbers were expected"),
     (["tables", "f.csv", "--quantiles", "half"], "'--quantiles': numbers were expected, by commas")],
    ids=lambda v: v if isinstance(v, str) else None,
)  # fmt: skip
def test_what_is_no_list_of_numbers_is_named_with_its_option(command, message, file, run):
    code, out, err = run(*command)
    assert (code, out) == (2, "") and message in squeezed(err)
    assert os.listdir() == ["f.csv"]


def test_a_ledger_shows_only_surveys_that_it_has(file, run):
    ss.Ledger("l.jsonl", "lfs", cap=3, create=True)
    before = Path("l.jsonl").read_bytes()
    Path("new.jsonl").write_bytes(before.splitlines(keepends=True)[0])  # as a crash before the first survey leaves it
    for asked, message in (
        (["l.jsonl", "--survey", "lsf"], "'l.jsonl' has no survey 'lsf' (did you mean 'lfs'?); it has 'lfs'"),
        (["l.jsonl", "--survey", "LFS", "--create"], "has the survey 'lfs' already"),
        (["new.jsonl", "--survey", "lfs"], "it has none"),
        (["l.jsonl", "--survey", "lfs", "--set-cap", "-1", "--what", "x"], "cap must be a positive number"),
    ):
        code, out, err = run("ledger", *asked)
        assert (code, out) == (2, "") and message in err
    assert run(*words(**LEDGER | {"survey": "l.f.s."}))[2].endswith("--create of the command ledger\n")
    assert Path("l.jsonl").read_bytes() == before and not Path("release").exists()
    assert run("ledger", "new.jsonl") == (0, "'new.jsonl' has no entries.\n", "")
    heading = "Privacy ledger of 'lfs': releases 0, epsilon = 0 (blank), 0 (replace), cap 3, 3 left\n"
    assert run("ledger", "l.jsonl")[1].startswith(heading)
    code, out, err = run("ledger", "new.jsonl", "--survey", "health", "--create", "--cap", "2.5")
    assert (code, err) == (0, "") and "'health': releases 0" in out and "cap 2.5, 2.5 left" in out


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"c1": "0"}, "c1 must be a positive number"), ({"c1": "nan"}, "c1: Input should be a finite number"),
     ({"epsilon": "-1"}, "privacy.epsilon: Input should be greater than 0")],
    ids=str,
)  # fmt: skip
def test_bad_requests_for_a_price_get_a_sentence(asked, message, file, run):
    code, out, err = run(*words("privacy-cost", **asked))
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [(["--n", "12"], "no sample of n = 12"), (["--n", "30000"], "no sample of n = 30000"), (["--n", "0"], "no sample"),
     (["--out", "there"], "'there' exists"), (["--epsilon", "0"], "epsilon must be"), (["-m", "0"], "m must be")],
    ids=" ".join,
)  # fmt: skip
def test_bad_requests_for_the_demo_get_a_sentence(asked, message, run):
    Path("there").mkdir()
    Path("there/thesis.txt").write_text("mine")
    code, out, err = run("demo", *asked)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1
    assert os.listdir() == ["there"]


def test_a_place_that_is_taken_or_a_wrong_by_is_told_before_the_fit(file, run, monkeypatch):
    Path("release").mkdir()
    Path("release/thesis.txt").write_text("mine")
    monkeypatch.setattr(ss.FBS, "prepare", lambda *_: pytest.fail("fitted first"))
    for options, message in (
        ({}, "'release' exists"),
        ({"out": "new", "by": "wt"}, "tables.by names 'wt'"),
        ({"out": "new", "accept": "x"}, "release.accept"),
        ({"out": "new", "min_cell": "-1"}, "min_"),
    ):
        code, _, err = run(*words(**options))
        assert code == 2 and message in err


# the other exits


@pytest.fixture
def failing_sampler(monkeypatch):
    def fit(self, data, alpha, sampler, original=ss.FBS.fit):
        return replace(original(self, data, alpha, sampler), diagnostics=Diagnostics(divergences=3, rhat=1.2))

    monkeypatch.setattr(ss.FBS, "fit", fit)


def test_failed_diagnostics_exit_with_3_and_release_nothing(file, run, failing_sampler):
    for accept in ({}, {"accept": "rhat"}):
        code, out, err = run(*words(**accept))
        assert (code, out) == (3, "") and len(err.splitlines()) == 1
        assert err.startswith("Not fit for release: the sampler's diagnostics failed (divergences")
        assert os.listdir() == ["f.csv"]
    code, out, _ = run(*words(accept="rhat,divergences"))
    assert code == 0 and "accepted by name: divergences, rhat" in squeezed(out)


def test_ctrl_c_exits_with_130_and_leaves_nothing(file, run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_csv", interrupted)  # in the midst of writing
    code, _, err = run(*words())
    assert code == 130 and err == "Stopped: what was finished is kept, and nothing is left half-written.\n"
    assert os.listdir() == ["f.csv"]


@pytest.mark.slow
def test_the_installed_entry_point_as_a_process(file):
    """Not a terminal: no colours, no spinner but plain lines, no width but what is asked for."""
    program = [sys.executable, "-c", "from surveysynth.cli.app import main; main()"]
    settings = {
        "env": os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        "capture_output": True,
        "text": True,
    }
    good = subprocess.run([*program, *words()], check=False, **settings)
    assert good.returncode == 0 and "\x1b" not in good.stdout
    kept = r"The privacy weights keep \d+% of the file's information \(not for publication\)\.\n"
    assert re.fullmatch(r"( *\d+ s  \d of 3: [a-z' :]+\n){3}" + kept, good.stderr)
    bad = subprocess.run([*program, *words(weights="w")], check=False, **settings)
    assert (bad.returncode, bad.stdout) == (2, "") and bad.stderr.startswith("Error: ") and "\x1b" not in bad.stderr


def test_a_warning_is_one_sentence(file, run):
    far = words(population_total="1e9")
    code, out, err = run(*far)
    assert (code, out) == (2, "") and "accept = ['population_total'] in [release]" in err
    code, _, err = run(*far, "--set", "release.accept=population_total")
    assert code == 0
    assert err.startswith("Warning: population_total is far from what the survey weights add up to")
    assert "UserWarning" not in err and ".py" not in err


def test_categories_from_the_command_line(file, run):
    """As an outcome, with the table's proportions printed, and from the folder again."""
    save(make_frame(600).assign(part=lambda f: (f["id"] % 3 == 0).astype(int)).replace("NA", "n/a."))
    asked = {"outcome": "C(part),income", "by": "field,part", "epsilon": "40", "prior": "flat"}
    code, out, err = run(*words(**asked, levels="{part = [0, 1]}"))
    assert (code, "count" in out) == (0, True), err
    code, out, err = run("tables", "release", "--by", "field")
    assert code == 0 and "proportion of part = 1" in out.replace("\n", " "), out + err


# start-up

HEAVY = {
    "numpy", "pandas", "numba", "scipy.stats", "formulaic", "matplotlib", "samplics", "statsmodels", "rpy2",
    "great_tables", "stanli",
}  # fmt: skip


@pytest.mark.parametrize("words", [["-c", "import surveysynth"], ["-m", "surveysynth", "--help"]])
def test_nothing_heavy_is_imported_before_it_is_used(words):
    done = subprocess.run([sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "surveysynth" in loaded and not loaded & HEAVY


def test_every_public_name_is_there_without_ssl():
    """As in a Python within R whose libraries are another Python's; nothing here speaks to a network."""
    code = "import sys; sys.modules['_ssl'] = None; import surveysynth as ss; [getattr(ss, n) for n in ss.__all__]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
