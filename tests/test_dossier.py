"""The document that a review board signs, and its public twin."""

from __future__ import annotations

import hashlib
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from surveysynth.publication import dossier_page as publication
from tests.surveys import PSEUDO, make_design, make_frame, model

pytestmark = pytest.mark.filterwarnings("ignore:no PDF was made")


@pytest.fixture(scope="module")
def design() -> ss.SurveyDesign:
    return ss.SurveyDesign(make_frame(400).replace({"field": {"NA": "03"}}), weights="wt", strata="field")


@pytest.fixture(scope="module")
def folder(design: ss.SurveyDesign, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dossier")
    design.frame.to_csv(place / "file.csv", index=False)
    ledger = ss.Ledger(place / "ledger.jsonl", "workers", 100, create=True)
    release = ss.synthesize(design, model(), epsilon=30, m=2, mechanism=PSEUDO)
    release.write(place / "release", min_cell=60, ledger=ledger)
    return place


def text_of(folder: Path) -> str:
    return (folder / "dossier.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def signed(design: ss.SurveyDesign, folder: Path) -> Path:
    ledger = ss.Ledger(folder / "ledger.jsonl", "workers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ss.dossier(folder / "release", design, folder / "signed", ledger=ledger, files=[folder / "file.csv"])


def test_only_its_owner_can_read_it(signed: Path) -> None:
    assert signed.stat().st_mode & 0o777 == 0o700
    inside = list(signed.rglob("*"))
    assert {"dossier.html", "NOT-FOR-PUBLICATION.txt", "comparison", "cells.csv"} <= {path.name for path in inside}
    for path in inside:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_every_file_is_in_it_with_its_checksum(folder: Path, signed: Path) -> None:
    said = text_of(signed)
    release = folder / "release"
    files = [p for p in release.rglob("*") if p.is_file() and p.name != "manifest.json"]
    assert len(files) > 8
    for file in (*files, folder / "file.csv"):
        assert hashlib.sha256(file.read_bytes()).hexdigest() in said, file
    seal = re.search(
        r'"sha256": "([0-9a-f]{64})",\n    "md5"', (release / "public" / "manifest.json").read_text()[-200:]
    )
    assert seal is not None and seal[1] in said


def test_it_says_what_is_decided(signed: Path) -> None:
    said = text_of(signed)
    assert "epsilon = 30 (asymptotic)" in said
    assert "workers: spent 30.0, cap 100.0, 70.0 left" in said or "workers: spent 30, cap 100, 70 left" in said
    assert "The ledger is whole, and holds this release" in said
    assert "The guarantee is of kind asymptotic" in said
    assert said.count('class="box"') == 3 + 3  # checks that a person can make, and decisions; assumptions are told
    assert "The most influential records" in said and "The records most at risk of identification" in said
    for what in ("Signature", "Membership: no attack was made", "whoever has the synthetic files"):
        assert what in said


def test_the_records_at_most_risk_are_named_by_row(design: ss.SurveyDesign, folder: Path, signed: Path) -> None:
    from surveysynth.release.identification import ordered_release

    risk = ss.identification_risk(
        design, ordered_release(folder / "release"), known=["field", "gender"], value="income"
    )
    worst = int(risk.idxmax())
    table = text_of(signed).split("The records most at risk of identification")[1].split("</table>")[0]
    first = re.findall(r'<td class="number">([^<]*)</td>', table)[:3]
    assert first[0] == str(worst) and first[2] == f"{risk.max():.3f}"


def test_risks_stand_next_to_a_guess_from_the_distribution_of_the_whole_file(
    design: ss.SurveyDesign, signed: Path
) -> None:
    y = design.frame["income"].to_numpy()
    near = (np.abs(y - y[:, None]) <= 0.2 * y[:, None]).mean(axis=1)  # share of the file within the radius
    rows = re.findall(r"<td>- without the release</td>\n((?:<td.*\n)+)", text_of(signed))
    means = [float(re.findall(r">([^<]*)<", row)[0]) for row in rows]
    sizes = design.frame.groupby(["field", "gender"])["income"].transform("size").to_numpy()
    error = np.sqrt(np.mean(near * (1 - near)) / (2 * len(y)))  # of a share of two files of these records
    assert means[0] == pytest.approx(np.mean(near * (1 - near) * (sizes - 1) / sizes), abs=4 * error)  # identification
    assert means[1] == pytest.approx(near.mean(), abs=0.01)  # attribute
    assert means[2] == pytest.approx(np.mean((1 - (1 - near) ** sizes) / sizes), abs=0.01)  # match


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dossier of a strict release with declared values of each kind."""
    place, rng = tmp_path_factory.mktemp("strict"), np.random.default_rng(1)
    file = pd.DataFrame({
        "region": rng.choice(["north", "south"], 300), "job": rng.choice(["none", "part", "full"], 300),
        "pay": rng.lognormal(8, 0.5, 300), "wt": rng.gamma(9, 10, 300),
    })  # fmt: skip
    file.loc[::9, "pay"] = 1_500
    design = ss.SurveyDesign(file, weights="wt", strata="region")
    release = ss.synthesize(
        design, "pay + C(job) ~ region", epsilon=1, m=4,
        population_totals={"region": {"north": 12_000, "south": 15_500}},
        outcomes={
            "pay": ss.Outcome(bounds=(0, 1_234_567), heaps=[1_500]), "job": ss.Outcome(levels=["none", "part", "full"])
        },
    )  # fmt: skip
    release.write(place / "release")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ss.public_dossier(place / "release", place / "public")
        return ss.dossier(place / "release", design, place / "signed")


def test_its_first_page_has_every_declared_value_and_a_cell_for_who_confirms_it(strict: Path) -> None:
    page = text_of(strict).split('id="section-2"')[0]
    table = page.split("declared as public")[1].split("</table>")[0]
    for what in (
        "between 0 and 1234567; heaps at 1500", "levels none, part, full", "27,500", "north 12,000, south 15,500",
        "(0.02 and 20 mean weights)", "between 1.833 and 1833", "each record: north, south", "300, and those in each",
    ):  # fmt: skip
        assert what in table, what
    assert table.count("<td></td>") == table.count("<tr>") == 7  # pay, job, wt, two totals, region and records
    assert "88.1%" in page and 'aria-label="Right guesses: 50% before the release, at most 88.1% after it"' in page
    assert "no ledger was given" in page and "What stands out" in page


def test_a_number_that_may_be_missing_has_no_risks_of_identification(design: ss.SurveyDesign, tmp_path: Path) -> None:
    frame = design.frame.copy()
    frame.loc[::7, "income"] = np.nan
    some = ss.SurveyDesign(frame, weights="wt", strata="field")
    schema = {"income": ss.Outcome(bounds=(0, 1_000_000), missing="category")}
    release = ss.synthesize(some, "income ~ field", epsilon=3, m=4, population_total=40_000, outcomes=schema)
    release.write(tmp_path / "a")
    said = text_of(ss.dossier(tmp_path / "a", some, tmp_path / "signed"))
    assert "Risks of identification were not computed" in said and "missing values an answer of their own" in said


def test_its_first_page_is_one_page(strict: Path) -> None:
    weasyprint = pytest.importorskip("weasyprint", reason="pip install 'surveysynth[pdf]'")
    first, second = weasyprint.HTML(string=text_of(strict)).render().pages[:2]
    assert "section-1" in first.anchors and "section-2" in second.anchors


def test_the_twin_has_the_declared_values_and_nothing_about_the_agency(strict: Path) -> None:
    said = text_of(strict.parent / "public")
    assert "north 12,000, south 15,500" in said and "88.1%" in said
    assert "confirmed by" not in said and "looked at" not in said and 'class="box"' not in said


@pytest.mark.slow
def test_an_intruder_may_know_synthesized_categories_too(design: ss.SurveyDesign, tmp_path: Path) -> None:
    whole = ss.FBS(["income", "hours", "C(gender)"], "field", prior="flat")
    release = ss.synthesize(design, whole, epsilon=60, m=2, mechanism=PSEUDO, levels={"gender": ["f", "m"]})
    release.write(tmp_path / "release")
    said = text_of(ss.dossier(tmp_path / "release", design, tmp_path / "signed"))
    assert "Who knows the true gender too, synthesized in the files, looks among" in said
    for what, measure in (("identification", ss.identification_risk), ("match", ss.match_risk)):
        for known, label in ((["field"], what), (["field", "gender"], f"{what}, gender known too")):
            risk = np.max([measure(design, release, known=known, value=v) for v in ("income", "hours")], axis=0)
            row = said.split(f"<td>{label}</td>")[1].split("</tr>")[0]
            mean, *_, high = re.findall(r'<td class="number">([^<]*)</td>', row)
            assert (mean, high) == (f"{risk.mean():.3f}", f"{(risk > 0.5).sum()} of 400")


@pytest.mark.slow
def test_codes_that_may_be_missing_are_known_to_an_intruder_as_their_texts_are(tmp_path: Path) -> None:
    """In the file codes are 0.0 and 1.0, for some are missing; in the release they are 0, 1 and "missing"."""
    rng, n = np.random.default_rng(4), 300
    frame = pd.DataFrame({
        "sex": rng.choice(["f", "m"], n), "pay": np.round(rng.gamma(4, 500, n)), "w": 10.0,
        "ill": np.where(rng.random(n) < 0.1, np.nan, (rng.random(n) < 0.3).astype(float)),
    })  # fmt: skip
    schema = {"ill": ss.Outcome(levels=[0, 1], missing="category"), "pay": ss.Outcome(bounds=(0, 10_000))}
    file = ss.SurveyDesign(frame, weights="w")
    release = ss.synthesize(file, ["pay ~ sex", "C(ill) ~ sex"], epsilon=50, weight="public", seed=1, outcomes=schema)
    release.write(tmp_path / "release")
    said = text_of(ss.dossier(tmp_path / "release", file, tmp_path / "signed"))
    assert "match, ill known too" in said and "times the expected one" not in said.split("The guarantee")[0]


@pytest.mark.slow
def test_a_ledger_without_the_release_stands_out(design: ss.SurveyDesign, folder: Path, tmp_path: Path) -> None:
    other = ss.Ledger(tmp_path / "other.jsonl", "workers", 100, create=True)
    made = ss.dossier(folder / "release", design, tmp_path / "signed", ledger=other)
    assert "What stands out" in text_of(made)
    assert "it was cut off, or is another one" in text_of(made)


def test_the_twin_is_made_of_the_public_folder_alone(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "release" / "public", tmp_path / "copied")
    both = [
        ss.public_dossier(folder / "release", tmp_path / "a"), ss.public_dossier(tmp_path / "copied", tmp_path / "b")
    ]  # fmt: skip
    one, other = (re.sub(r"This document: .* UTC", "", text_of(made)) for made in both)
    assert one == other
    assert "CONFIDENTIAL" not in one and "internal/" not in one and "Signature" not in one
    assert str(folder) not in one


def test_without_weasyprint_it_says_what_to_install(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = publication.importlib.util.find_spec
    monkeypatch.setattr(
        publication.importlib.util, "find_spec", lambda name, *more: None if name == "weasyprint" else find(name, *more)
    )
    monkeypatch.setattr(publication.shutil, "which", lambda name: None)
    with pytest.warns(UserWarning, match=r"pip install 'surveysynth\[pdf\]'"):
        made = ss.public_dossier(folder / "release", tmp_path / "page")
    assert [file.name for file in made.iterdir()] == ["dossier.html"]


def test_the_pdf_of_weasyprint(folder: Path, signed: Path) -> None:
    pytest.importorskip("weasyprint", reason="pip install 'surveysynth[pdf]'")
    assert (signed / "dossier.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_the_command_and_its_wrong_arguments(folder: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["dossier", str(folder / "release"), *arguments])
        return done.exit_code, done.stdout + str(done.exception or "")

    file = str(folder / "file.csv")
    assert "name the confidential file" in run()[1]
    assert "--ledger and --survey" in run("--confidential", file, "--ledger", str(folder / "ledger.jsonl"))[1]
    assert "--membership needs a plan" in run("--confidential", file, "--membership")[1]
    code, said = run("--confidential", file, "--out", str(tmp_path / "made"))
    assert code == 0 and "to sign, and to keep" in " ".join(said.split())  # a long path moves the break of the line
    assert "exists" in run("--confidential", file, "--out", str(tmp_path / "made"))[1]
    assert "--public opens public files alone: leave out --confidential" in run("--public", "--confidential", file)[1]
    code, said = run("--public", "--out", str(tmp_path / "public"))
    assert code == 0 and "to publish" in said


def test_the_help_says_what_a_pdf_needs() -> None:
    assert "'surveysynth[pdf]'" in " ".join(CliRunner().invoke(app, ["dossier", "--help"]).stdout.split())


def test_another_file_is_refused_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ss.InputError):
        ss.dossier(folder / "release", make_design(300), tmp_path / "made")
    assert not (tmp_path / "made").exists() and not list(tmp_path.iterdir())
