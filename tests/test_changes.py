"""What changed between two releases or plans: differences with standard errors from the data sets themselves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from tests.surveys import PSEUDO, make_design, make_frame, model


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place, design = tmp_path_factory.mktemp("changes"), make_design(400)
    folders = []
    for name, m, epsilon in (("old", 3, 40), ("new", 4, 60), ("one", 1, 40)):
        release = ss.synthesize(design, model(), epsilon=epsilon, m=m, mechanism=PSEUDO, seed=m)
        folders.append(release.write(place / name))
    return folders


def means(folder: Path) -> list[float]:
    files = sorted((folder / "public").glob("synthetic_*.csv"))
    frames = [pd.read_csv(file) for file in files]
    return [float(np.average(f["income"], weights=f["wt"])) for f in frames]


def row_of(found: ss.Changes) -> pd.Series:
    return found.cells.query("statistic == 'mean' and field == 'all' and gender == 'all'").iloc[0]


@pytest.mark.slow
def test_of_one_file_the_difference_has_the_noise_of_the_syntheses_alone(releases: list[Path]) -> None:
    old, new, _ = releases
    cell = row_of(ss.diff(old, new, same_file=True))
    q = [means(old), means(new)]
    assert cell["difference"] == pytest.approx(np.mean(q[1]) - np.mean(q[0]))
    expected = np.sqrt(np.var(q[0], ddof=1) / 3 + np.var(q[1], ddof=1) / 4)
    assert cell["se"] == pytest.approx(expected, rel=1e-6)
    assert cell["z"] == pytest.approx(cell["difference"] / expected, rel=1e-6)


def test_of_two_samples_variances_add_up(releases: list[Path]) -> None:
    old, new, _ = releases
    found = ss.diff(old, new)
    cell = row_of(found)
    assert not found.same_file
    assert cell["se"] == pytest.approx(np.hypot(cell["se_old"], cell["se_new"]))
    assert "independent samples" in str(found)


def test_a_code_is_the_same_whether_its_file_has_it_as_1_or_as_1_0(tmp_path: Path) -> None:
    """A file in which some codes are missing has them all as floats."""
    rng, n = np.random.default_rng(1), 200
    frame = pd.DataFrame({"region": rng.choice([1, 2], n), "y": rng.gamma(4, 100, n), "w": 10.0})
    for name, kind in (("old", int), ("new", float)):
        design = ss.SurveyDesign(frame.assign(region=frame["region"].astype(kind)), weights="w")
        release = ss.synthesize(
            design, "y ~ C(region)", epsilon=20, m=4, weight="public", bounds=(0, 5_000), seed=1,
        )  # fmt: skip
        release.write(tmp_path / name)
    cells = ss.diff(tmp_path / "old", tmp_path / "new", by="region").cells
    assert cells["region"].tolist() == ["1", "2", "all"] * 2
    assert (cells["difference"] == 0).all() and cells["old"].notna().all()


def test_with_one_data_set_the_standard_error_is_unknown(releases: list[Path]) -> None:
    old, _, one = releases
    found = ss.diff(one, old, same_file=True)
    assert found.cells["z"].isna().all()
    assert "With one data set" in str(found)


def test_settings_that_differ_are_told(releases: list[Path]) -> None:
    found = ss.diff(*releases[:2])
    told = found.settings.set_index("entry")
    assert told.loc["epsilon"].tolist() == ["40", "60"] and told.loc["m"].tolist() == ["3", "4"]
    same = ss.diff(releases[0], releases[0], same_file=True)
    assert same.settings.empty and same.cells["difference"].abs().max() == 0
    assert same.changed.empty


@pytest.mark.slow
def test_the_noise_of_two_releases_of_one_file_is_about_what_it_says(tmp_path: Path) -> None:
    """Four releases alike: their six differences in all cells over their standard errors have a variance near 1."""
    design = make_design(300)
    folders = [
        ss.synthesize(design, model(), epsilon=60, m=10, mechanism=PSEUDO, seed=k).write(tmp_path / f"r{k}")
        for k in range(4)
    ]
    z = [
        ss.diff(a, b, same_file=True).cells.query("statistic == 'mean'")["z"]
        for i, a in enumerate(folders)
        for b in folders[i + 1 :]
    ]
    spread = float(np.sqrt(np.nanmean(np.concatenate(z) ** 2)))
    assert 0.6 < spread < 1.6  # t with 18 degrees of freedom; 15 cells that share records, of 3 free differences


def test_a_release_that_supersedes_another_is_known_by_its_manifest(tmp_path: Path) -> None:
    make_frame(400).replace({"field": {"NA": "03"}}).to_csv(tmp_path / "file.csv", index=False)
    settings = {"weights": "wt", "mechanism": "pseudo-posterior", "prior": "flat", "m": 2, "epsilon": 40}
    settings |= {"population_total": 20_000, "bounds": (0, 1_000_000)}
    first = ss.Plan.draft(tmp_path / "file.csv", formula="income ~ field + gender", **settings)
    old = first.write(first.release(seed=1), tmp_path / "old")
    second = first.set(supersedes=str(old), epsilon=50, title="Incomes, corrected")
    new = second.write(second.release(seed=2), tmp_path / "new")
    found = ss.diff(old, new)
    assert found.same_file and found.about is not None
    note = found.erratum("The weights were those of another year.")
    assert "--same-file" not in dataclasses.replace(found, same_file=False).erratum()  # it is for readers
    assert note.startswith("# Erratum: Incomes, corrected")
    for release in ("old", "new"):
        assert found.about[release]["manifest"] in note
    assert "epsilon = 90" in note and "another year.\n" in note and "FILL IN" not in note
    assert "FILL IN" in found.erratum()
    elsewhere = ss.diff(new, old)  # the other way round
    assert not elsewhere.same_file


def test_two_plans_are_compared_without_the_file(tmp_path: Path) -> None:
    frame = make_design(100).frame
    frame.to_csv(tmp_path / "file.csv", index=False)
    plan = ss.Plan.draft(tmp_path / "file.csv", formula="income ~ field", weights="wt", epsilon=5)
    plan.save(tmp_path / "a.toml")
    plan.set(epsilon=3, by=["field"]).save(tmp_path / "b.toml")
    (tmp_path / "file.csv").unlink()
    told = ss.diff(tmp_path / "a.toml", tmp_path / "b.toml").settings.set_index("entry")
    assert told.loc["privacy.epsilon"].tolist() == ["5", "3"]
    assert told.loc["tables.by"].tolist() == ["", "field"]
    with pytest.raises(ss.InputError, match="about releases"):
        ss.diff(tmp_path / "a.toml", tmp_path / "b.toml").erratum()
    with pytest.raises(ss.InputError, match="two releases are compared, or two plans"):
        ss.diff(tmp_path / "a.toml", tmp_path)


def test_the_command_writes_tables_and_the_note(releases: list[Path], tmp_path: Path) -> None:
    old, new, _ = map(str, releases)

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["diff", *arguments])
        return done.exit_code, done.stdout + str(done.exception or "")

    table, note = tmp_path / "side.csv", tmp_path / "note.md"
    code, said = run(old, new, "--same-file", "--out", str(table), "--erratum", str(note), "--why", "A wrong total")
    assert code == 0 and "epsilon: 40 -> 60" in said
    assert {"old", "new", "difference", "se"} <= set(pd.read_csv(table).columns)
    assert "**Why.** A wrong total." in note.read_text()
    assert "exists" in run(old, new, "--out", str(table))[1]
    assert "--erratum" in run(old, new, "--why", "x")[1]
