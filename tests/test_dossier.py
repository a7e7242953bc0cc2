"""The document that a review board signs, and its public twin."""

from __future__ import annotations

import hashlib
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
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


def test_it_says_what_is_decided(folder: Path, signed: Path) -> None:
    said, release = text_of(signed), ss.read_release(folder / "release")
    assert "epsilon = 30 (asymptotic)" in said
    assert "workers: spent 30.0, cap 100.0, 70.0 left" in said or "workers: spent 30, cap 100, 70 left" in said
    assert "The ledger is whole, and holds this release" in said
    assert "The guarantee is of kind asymptotic" in said
    assert said.count('<span class="room">Checked by, and how:</span>') == len(release.privacy.assumptions)
    assert said.count('class="box"') >= len(release.privacy.assumptions) + len(release.privacy.data_dependent) + 3
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
    assert code == 0 and "to sign, and to keep" in said
    assert "exists" in run("--confidential", file, "--out", str(tmp_path / "made"))[1]
    assert "--public opens public files alone: leave out --confidential" in run("--public", "--confidential", file)[1]
    code, said = run("--public", "--out", str(tmp_path / "public"))
    assert code == 0 and "to publish" in said


def test_another_file_is_refused_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ss.InputError):
        ss.dossier(folder / "release", make_design(300), tmp_path / "made")
    assert not (tmp_path / "made").exists() and not list(tmp_path.iterdir())
