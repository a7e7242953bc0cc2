"""Releases on disk and their tables: round trips, atomicity, flags, suppression, and numbers by hand and by R."""

import copy
import ctypes
import dataclasses
import hashlib
import itertools
import json
import os
import pickle
import re
import subprocess
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from conftest import modes
from scipy.stats import t as student
from surveys import make_design, make_frame, model, population_model

import surveysynth as ss
from surveysynth.estimation.tables import TOTAL, tabulate
from surveysynth.release import folder as release_folder
from surveysynth.release.suppression import flag
from surveysynth.storage import private_folder, sealed
from tests.surveys import PSEUDO

pytestmark = pytest.mark.usefixtures("unprinted")


@pytest.fixture(scope="module")
def release():
    return ss.synthesize(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)


@pytest.fixture
def written(release, tmp_path):
    return release.write(tmp_path / "release")


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# writing and reading


def odd_frame():
    """Every kind of predictor that a file may bring."""
    frame, rng = make_frame(), np.random.default_rng(5)
    return frame.assign(
        ordered=pd.Categorical(rng.choice(["low", "high"], 400), ["low", "high", "nobody"], ordered=True),
        coded=pd.Categorical(rng.choice([3, 1], 400), [3, 1]),
        band=pd.cut(frame["hours"], [0, 40, 100]),
        employed=rng.random(400) < 0.5,
        age=rng.integers(20, 24, 400),
        share=rng.choice([0.1, 1 / 3], 400),
        text=rng.choice(["1e5", "True", "", "a, \"b\"\nc"], 400),
    )  # fmt: skip


PREDICTORS = ["field", "gender", "ordered", "coded", "employed", "age", "share", "text", "band"]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("columns", [["field"], *([c, "gender"] for c in PREDICTORS[2:])], ids=lambda c: c[0])
def test_what_is_read_back_is_what_was_written(columns, format, tmp_path):
    design = ss.SurveyDesign(odd_frame(), weights="wt")
    release = ss.synthesize(design, model(" + ".join(columns)), epsilon=20, m=2, seed=1, mechanism=PSEUDO)
    release.write(tmp_path / "r", format=format, by=columns[0])
    for path in (tmp_path / "r", tmp_path / "r" / "public"):
        back = ss.read_release(path)
        for a, b in zip(release.datasets, back.datasets, strict=True):
            pd.testing.assert_frame_equal(a.frame, b.frame, check_exact=True)
            assert a.roles() == b.roles()
        pd.testing.assert_frame_equal(release.tables(columns), back.tables(columns), check_exact=True)
        assert str(back.privacy) == str(release.privacy) and back.privacy == release.privacy
        assert (back.predictors, back.outcomes, back.method) == (release.predictors, release.outcomes, release.method)
        assert back.internal == {} and back.privacy.internal == {}


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_names_and_labels_in_any_script(format, tmp_path, monkeypatch):
    names = {"field": "Fachrichtung (ä)", "income": "収入", "wt": "poids é", "gender": "sexe"}
    design = ss.SurveyDesign(make_frame().rename(columns=names), weights="poids é")
    outcome, predictors = "収入", "`Fachrichtung (ä)` + sexe"
    release = ss.synthesize(design, ss.FBS(outcome, predictors, prior="flat"), epsilon=10.8, seed=1, mechanism=PSEUDO)
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "ascii")
    monkeypatch.setattr("locale.getencoding", lambda: "ascii")
    back = ss.read_release(release.write(tmp_path / "Veröffentlichung", format=format))
    pd.testing.assert_frame_equal(back.datasets[2].frame, release.datasets[2].frame, check_exact=True)
    assert "ökonomie" in back.tables("Fachrichtung (ä)")["Fachrichtung (ä)"].tolist()


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_value_labels_survive(suffix, format, tmp_path):
    frame = make_frame()[["income", "wt"]].assign(degree=np.resize([2.0, 1.0, 9.0], 400))
    labels = {"degree": {1: "none", 2: "licencié", 9: "01"}}
    write = pyreadstat.write_sav if suffix == ".sav" else pyreadstat.write_dta
    write(frame, str(tmp_path / f"f{suffix}"), variable_value_labels=labels)
    design = ss.SurveyDesign.read(tmp_path / f"f{suffix}", weights="wt")
    release = ss.synthesize(design, model("degree"), epsilon=10.8, seed=1, mechanism=PSEUDO)
    back = ss.read_release(release.write(tmp_path / "r", format=format))
    degree = back.datasets[0].frame["degree"]
    assert degree.cat.categories.tolist() == ["none", "licencié", "01"] and not degree.cat.ordered
    assert back.tables("degree", statistic="count")["degree"].tolist() == ["none", "licencié", "01", "all"]
    assert pd.read_csv(tmp_path / "r" / "public" / "tables.csv")["degree"].iloc[2] == "01"


PUBLISHED = {"income": "Income, gross, a year", "field": "Field of wörk", "gender": "Sex", "wt": "Design weight"}


def labelled_file(path, **columns):
    """An SPSS file whose every column has a label; hours and id are not published."""
    labels = PUBLISHED | {"hours": "SECRET hours", "id": "SECRET id", "weight": "SECRET body weight"}
    frame = make_frame().assign(**columns)
    pyreadstat.write_sav(frame, str(path), column_labels={name: labels[name] for name in frame})


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("kind", [model, population_model])
def test_variable_labels_are_headings_of_the_release_and_of_what_is_read_back(kind, format, tmp_path):
    labelled_file(tmp_path / "f.sav")
    design = ss.SurveyDesign.read(tmp_path / "f.sav", weights="wt", strata="field")
    release = ss.synthesize(design, kind(), epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)
    folder = release.write(tmp_path / "r", format=format)
    manifest = json.loads((folder / "public" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["labels"] == PUBLISHED
    assert "labels" not in manifest["design"] and "labels" not in manifest.get("count_design", {})
    assert not [name for name, content in contents(folder).items() if b"SECRET" in content]
    back = ss.read_release(folder)
    calibrated = release.calibrate({"gender": {"f": 1e4, "m": 2e4}})
    for made in (release, back, calibrated, pickle.loads(pickle.dumps(release))):
        assert [data.labels for data in (*made.datasets, *made.count_designs())] == [PUBLISHED] * 4
        table = made.tables(["field", "gender"])
        assert table.attrs["labels"] == {name: PUBLISHED[name] for name in ("income", "field", "gender")}
        difference = made.differences({"gender": ("m", "f")}, "field")
        assert difference.attrs["labels"] == {name: PUBLISHED[name] for name in ("income", "field")}


def test_a_published_column_has_no_label_of_an_unpublished_one_of_that_name(tmp_path):
    """Synthetic weights of a design with probabilities are called weight, as the weight of the body here."""
    labelled_file(tmp_path / "f.sav", weight=70.5)
    read = ss.SurveyDesign.read(tmp_path / "f.sav", weights="wt")
    frame, labels = read.frame.assign(pi=1 / read.weights), read.labels | {"pi": "SECRET"}
    design = ss.SurveyDesign(frame, probs="pi", labels=labels)
    release = ss.synthesize(design, model(), epsilon=10.8, m=1, seed=1, mechanism=PSEUDO)
    assert release.datasets[0].weights_name == "weight"
    assert release.manifest()["labels"] == {name: PUBLISHED[name] for name in ("field", "gender", "income")}


def test_records_without_an_outcome_take_no_label_away(tmp_path):
    labelled_file(tmp_path / "f.sav", income=lambda f: f["income"].where(np.arange(400) > 3))
    design = ss.SurveyDesign.read(tmp_path / "f.sav", weights="wt")
    release = ss.synthesize(design, model(missing="drop"), epsilon=10.8, m=1, seed=1, mechanism=PSEUDO)
    assert release.manifest()["labels"] == PUBLISHED


def test_without_labels_the_manifest_is_as_it_was(release, written):
    assert "labels" not in release.manifest() and ss.read_release(written).datasets[0].labels == {}


def test_only_the_owner_reads_what_is_internal_whatever_the_umask(release, tmp_path, open_to_all):
    folder = release.write(tmp_path / "deep" / "release")
    assert modes(folder / "internal") == ({"0o700"}, {"0o600"}) and len(list((folder / "internal").iterdir())) == 4
    release.write(folder, overwrite=True)
    assert modes(folder / "internal") == ({"0o700"}, {"0o600"})
    assert (folder / "public" / "report.txt").stat().st_mode & 0o444 == 0o444
    with private_folder(tmp_path / "study", "for the agency") as staging:
        (staging / "replicates").mkdir()
        (staging / "replicates" / "records.csv").write_text("confidential")
    assert modes(tmp_path / "study") == ({"0o700"}, {"0o600"})
    with pytest.raises(ss.InputError, match="exists"), private_folder(tmp_path / "study", "again"):
        pass


@pytest.mark.parametrize("duplicate", [lambda r: pickle.loads(pickle.dumps(r)), copy.copy, copy.deepcopy])
def test_what_is_internal_is_not_pickled_nor_copied(duplicate, release, tmp_path):
    """A release that goes to another process, or to a file, is its public part."""
    again = duplicate(release)
    assert release.internal.keys() == {"records", "draws", "rows"} and "c1" in release.privacy.internal
    assert again.internal == {} and again.privacy.internal == {} == duplicate(release.privacy).internal
    assert str(again.privacy) == str(release.privacy) and again.manifest() == release.manifest()
    for ours, theirs in zip(again.datasets, release.datasets, strict=True):
        pd.testing.assert_frame_equal(ours.frame, theirs.frame)
    pd.testing.assert_frame_equal(again.tables("field"), release.tables("field"))
    text = pickle.dumps(release)
    assert b"lipschitz" not in text and b"epsilon_exact" not in text
    written = contents(again.write(tmp_path / "again"))
    assert written["internal/privacy.json"] == b"{}\n" and len([f for f in written if f.startswith("internal")]) == 1
    assert dataclasses.replace(release).internal is release.internal


@pytest.mark.printed
def test_public_and_internal_are_apart(written, release):
    synthetic = {f"public/synthetic_{i}.csv" for i in (1, 2, 3)}
    beside = ("csv-metadata.json", "datapackage.json", "manifest.json", "report.txt")
    tables = ("tables.csv", "tables.html", "tables.xlsx")
    public = {*synthetic, *(f"public/{name}" for name in (*beside, *tables))}
    names = ("privacy.json", "records.csv", "rows.csv", "unused_draws.npz")
    internal = {f"internal/{name}" for name in names}
    assert set(contents(written)) == public | internal
    assert written.stat().st_mode & 0o777 == 0o755
    assert (written / "internal").stat().st_mode & 0o777 == 0o700
    records = pd.read_csv(written / "internal" / "records.csv")
    assert records.columns.tolist() == ["row", "lipschitz", "alpha", "bound"] and len(records) == 400
    assert records["bound"].max() * 6 == pytest.approx(release.privacy.internal["epsilon_exact"], rel=1e-12)
    unused = np.load(written / "internal" / "unused_draws.npz")
    assert {name: len(unused[name]) for name in unused} == {"B": 3997, "L": 3997, "weight": 3997}
    report = (written / "public" / "report.txt").read_text()
    assert report.endswith(f"\n\n{release.privacy}\n")
    assert "3 synthetic data sets (synthetic_1.csv, ...) of 400 records by FBS" in report
    assert "T = mean(u) + b / m" in report
    table = pd.read_csv(written / "public" / "tables.csv", keep_default_na=False, dtype={"field": str})
    shown = release.tables(["field", "gender"])
    assert table["field"].tolist() == shown["field"].tolist() and table["flag"].tolist() == shown["flag"].tolist()
    np.testing.assert_allclose(table["estimate"].astype(float), shown["estimate"], rtol=1e-15)


def test_manifest_says_all_that_a_reader_needs_and_no_seed(written, release):
    manifest = json.loads((written / "public" / "manifest.json").read_text())
    assert manifest["package"] == {"surveysynth": ss.__version__}
    assert manifest["engine"] == {"name": "numpy", "version": np.__version__}
    expected = {
        "method": "FBS", "outcome": ["income"], "predictors": "field + gender", "prior": "flat", "m": 3,
        "epsilon_requested": 10.8, "epsilon": release.privacy.epsilon, "kind": "asymptotic",
        "guarantee": release.privacy.guarantee, "assumptions": release.privacy.assumptions,
        "neighbours": {"add or remove one record": release.privacy.epsilon,
                       "replace one record": 2 * release.privacy.epsilon},
        "diagnostics": "The draws are independent, without Markov chains.",
        "publication": "reproducible, not for publication: made with a seed, and whoever knows it can undo the "
                       "randomness",
        "draws_behind_the_maximum": 4000, "data_dependent": release.privacy.data_dependent,
    }  # fmt: skip
    assert {k: manifest.get(k) for k in expected} == expected
    assert "not a strict" in manifest["guarantee"]

    def keys(value):
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return {*(value if isinstance(value, dict) else ()), *itertools.chain(*map(keys, children))}

    assert not keys(manifest) & {"seed", "internal", "delta", "c1", "rhat", "ess_bulk", "divergences"}


HURT = {
    "no manifest": lambda public, said: (public / "manifest.json").unlink(),
    "no data": lambda public, said: (public / "synthetic_2.csv").unlink(),
    "not json": lambda public, said: (public / "manifest.json").write_text(json.dumps(said)[:-5]),
    "no key": lambda public, said: (public / "manifest.json").write_text(json.dumps({"m": said["m"]})),
    "no dict": lambda public, said: (public / "manifest.json").write_text("[]"),
    "no column": lambda public, said: (public / "synthetic_2.csv").write_text("field,gender\n01,f\n"),
    "no rows": lambda public, said: (public / "synthetic_2.csv").write_text("field,gender,income,wt\n"),
    "no list of files": lambda public, said: rewrite(public, said, files=[]),
    "not the synthetic files": lambda public, said: rewrite(public, said, files={}),
}


def rewrite(public, said, **changes):
    """Another manifest, with a checksum that fits."""
    rest = {name: value for name, value in (said | changes).items() if name != "checksum"}
    (public / "manifest.json").write_text(sealed(rest))


@pytest.mark.parametrize("hurt", HURT)
def test_a_folder_that_is_no_release_is_refused(hurt, written):
    public = written / "public"
    HURT[hurt](public, json.loads((public / "manifest.json").read_text()))
    with pytest.raises(ss.InputError):
        ss.read_release(written)


@pytest.mark.printed
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_the_manifest_lists_every_public_file(release, format, tmp_path):
    """SHA-256 and MD5 as coreutils have them; records and columns as the confidential file and the table have them."""
    public = release.write(tmp_path / "r", by="field", format=format) / "public"
    listed = json.loads((public / "manifest.json").read_text())["files"]
    assert set(listed) == {file.name for file in public.iterdir()} - {"manifest.json"} and len(listed) == 9
    for name, said in listed.items():
        for kind in ("sha256", "md5"):
            assert said[kind] == subprocess.check_output([f"{kind}sum", public / name], text=True).split()[0]
    sizes = {name: (said.get("records"), said.get("columns")) for name, said in listed.items()}
    synthetic = {f"synthetic_{i}.{format}": (400, 4) for i in (1, 2, 3)}  # field, gender, income, wt
    table = {"tables.csv": (10, 10)}  # count and mean of 4 fields and the total
    others = ("csv-metadata.json", "datapackage.json", "report.txt", "tables.html", "tables.xlsx")
    assert sizes == synthetic | table | dict.fromkeys(others, (None, None))


def cut(file, records):
    """Lose all but the first records."""
    if file.suffix == ".parquet":
        pd.read_parquet(file).head(records).to_parquet(file, index=False)
    else:
        file.write_text("".join(file.read_text().splitlines(keepends=True)[: records + 1]))


def change(pattern, to, count=0):
    """Replace text below the header."""

    def changed(file):
        head, rest = file.read_text().split("\n", 1)
        file.write_text(f"{head}\n{re.sub(pattern, to, rest, count=count)}")

    return changed


def saved_again(file):
    """As a spreadsheet does: numbers lose digits that nobody sees."""
    pd.read_csv(file).to_csv(file, index=False, float_format="%.10g")


def backwards(file):
    pd.read_parquet(file).iloc[::-1].to_parquet(file, index=False)


CONTENT = r"other content \(its SHA-256 differs\)"
CHANGED = {
    "cut": ("synthetic_1.csv", lambda file: cut(file, 39), "has 39 records instead of 400"),
    "cut within a record": ("synthetic_2.csv", lambda file: file.write_bytes(file.read_bytes()[:-3]), f"has {CONTENT}"),
    "a record more": ("synthetic_3.csv", lambda file: file.write_text(file.read_text() + "01,f,1,1\n"),
                      "has 401 records instead of 400"),
    "a column less": ("synthetic_1.csv", lambda file: pd.read_csv(file).iloc[:, 1:].to_csv(file, index=False),
                      "has 3 columns instead of 4"),
    "both": ("synthetic_1.csv", lambda file: pd.read_csv(file).assign(new=1).head(7).to_csv(file, index=False),
             "has 7 records instead of 400 and 5 columns instead of 4"),
    "lost points": ("synthetic_1.csv", change(r"\.", ""), f"has {CONTENT}"),
    "one label": ("synthetic_1.csv", change(",f,", ",m,", count=1), f"has {CONTENT}"),
    "saved by a spreadsheet": ("synthetic_1.csv", saved_again, f"has {CONTENT}"),
    "line ends": ("synthetic_1.csv", lambda file: file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n")),
                  f"has {CONTENT}"),
    "empty": ("synthetic_1.csv", lambda file: file.write_text(""), "has 0 records instead of 400 and 0 columns"),
    "gone": ("synthetic_3.csv", Path.unlink, "is missing"),
    "table": ("tables.csv", lambda file: cut(file, 3), "has 3 records instead of 10"),
    "no table": ("tables.csv", Path.unlink, "is missing"),
    "report": ("report.txt", lambda file: file.write_text("no epsilon"), f"has {CONTENT}"),
    "parquet cut": ("synthetic_1.parquet", lambda file: cut(file, 39), "has 39 records instead of 400"),
    "parquet cut short": ("synthetic_1.parquet", lambda file: file.write_bytes(file.read_bytes()[:3000]),
                          "is cut short or damaged"),
    "parquet in another order": ("synthetic_2.parquet", backwards, f"has {CONTENT}"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_a_file_that_is_not_the_published_one_is_refused(name, release, tmp_path):
    which, hurt, fault = CHANGED[name]
    path = release.write(tmp_path / "r", by="field", format=which.partition(".")[2] if "synthetic" in which else "csv")
    assert ss.read_release(path).datasets[0].n == 400
    hurt(path / "public" / which)
    for folder in (path, path / "public"):
        with pytest.raises(ss.InputError, match=f"is not what was published: '{which}' {fault}") as refused:
            ss.read_release(folder)
        assert "Take the files again from where they were published" in str(refused.value)
        assert "opened and saved is not the file that was published" in str(refused.value)


def test_all_files_that_differ_are_named(written):
    (written / "public" / "report.txt").unlink()
    cut(written / "public" / "synthetic_2.csv", 200)
    match = "'report.txt' is missing; 'synthetic_2.csv' has 200 records instead of 400[.] Take"
    with pytest.raises(ss.InputError, match=match):
        ss.read_release(written)


@pytest.mark.parametrize(
    ("change", "match"),
    [({"records": 401}, "400 records instead of 401"), ({"columns": 5}, "4 columns instead of 5"),
     ({"sha256": "0" * 64}, CONTENT)],
    ids=str,
)  # fmt: skip
def test_a_manifest_of_other_files_is_refused(change, match, written):
    manifest = written / "public" / "manifest.json"
    said = json.loads(manifest.read_text())
    said["files"]["synthetic_1.csv"] |= change
    rewrite(manifest.parent, said)
    with pytest.raises(ss.InputError, match=f"'synthetic_1.csv' has {match}"):
        ss.read_release(written)


def test_a_manifest_without_its_own_checksum_cannot_be_verified(written):
    manifest = written / "public" / "manifest.json"
    said = json.loads(manifest.read_text())
    del said["checksum"]
    manifest.write_text(json.dumps(said))
    with pytest.raises(ss.InputError, match=r"manifest.json' cannot be verified: it does not end with"):
        ss.read_release(written)


def test_the_checksum_of_a_manifest_is_of_the_text_before_it(written, tmp_path):
    """As coreutils have it."""
    text = (written / "public" / "manifest.json").read_bytes()
    before = text[: text.index(b',\n  "checksum": {')]
    (tmp_path / "before").write_bytes(before)
    for kind, sum_ in json.loads(text)["checksum"].items():
        assert sum_ == subprocess.check_output([f"{kind}sum", tmp_path / "before"], text=True).split()[0]


def test_every_changed_byte_of_a_manifest_is_seen(written):
    file = written / "public" / "manifest.json"
    text = file.read_bytes()
    for at in np.random.default_rng(0).integers(0, len(text), 60):
        file.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        with pytest.raises(ss.InputError, match=r"manifest.json' (cannot be verified|is not what was written)"):
            ss.read_release(written)


NESTED = json.loads("[" * 900 + "]" * 900)
WRONG = {
    "no data set": ({"m": 0}, "m: Input should be greater than or equal to 1"),
    "a data set less": ({"m": 2}, "m is 2, but the synthetic files are synthetic_1.csv, synthetic_2.csv"),
    "many data sets": ({"m": 10**9}, "m is 1000000000, but the synthetic files are"),
    "m in words": ({"m": "3"}, "m: Input should be a valid integer"),
    "epsilon in words": ({"epsilon": "x"}, "epsilon: Input should be a valid number"),
    "epsilon of nothing": ({"epsilon": None}, "epsilon = None does not go with the kind 'asymptotic'"),
    "a guarantee without epsilon": ({"kind": "none"}, "does not go with the kind 'none'"),
    "negative epsilon": ({"epsilon": -1}, "epsilon: Input should be greater than 0"),
    "kind": ({"kind": "certain"}, "kind: Input should be 'asymptotic', 'strict'"),
    "a release by chains": ({"mechanism": "strict"}, "it was made by version 0.2 .* by Markov chains"),
    "mechanism": ({"mechanism": "certain"}, "the mechanism 'certain' is not one of"),
    "format": ({"format": "surveysynth release 2"}, "format: Input should be 'surveysynth release 1'"),
    "files": ({"files": {"synthetic_1.csv": 1}}, "files.synthetic_1.csv: "),
    "levels": ({"levels": {"field": ["a"]}}, "levels.field: "),
    "an outcome that is not there": ({"synthesized": ["wages"]}, "dtypes lacks wages"),
    "roles": ({"design": {"weights": "nobody"}}, r"synthetic_1.csv' cannot be read: .*'nobody'"),
    "unknown roles": ({"design": {"weights": "wt", "shape": 1}}, r"synthetic_1.csv' cannot be read \(TypeError\)"),
    "deep": ({"assumptions": NESTED}, "manifest"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_manifest_that_is_sealed_and_wrong_is_refused(what, written):
    """The entry is named, whoever made the checksum fit."""
    changes, match = WRONG[what]
    public = written / "public"
    rewrite(public, json.loads((public / "manifest.json").read_text()), **changes)
    with pytest.raises(ss.InputError, match=match):
        ss.read_release(written)


def test_a_manifest_without_any_one_entry_is_refused_or_read_as_it_is(written, release):
    """Entries that a release needs are named; the others make no other error."""
    public = written / "public"
    said = json.loads((public / "manifest.json").read_text())
    needed = set()
    for name in said.keys() - {"checksum"}:
        rewrite(public, {key: value for key, value in said.items() if key != name})
        try:
            assert ss.read_release(written).m == release.m
        except ss.InputError as error:
            assert f"{name}: Field required" in str(error)
            needed.add(name)
    assert {"m", "epsilon", "kind", "files", "dtypes", "design", "synthesized", "weights", "publication"} <= needed


def test_a_damaged_parquet_file_is_named(release, tmp_path):
    public = release.write(tmp_path / "r", format="parquet") / "public"
    said = json.loads((public / "manifest.json").read_text())
    file = public / "synthetic_2.parquet"
    content = bytearray(file.read_bytes())
    content[100:400] = bytes(300)
    file.write_bytes(content)
    for kind in ("sha256", "md5"):
        said["files"][file.name][kind] = hashlib.new(kind, content).hexdigest()
    rewrite(public, said)
    with pytest.raises(ss.InputError, match=r"synthetic_2.parquet' cannot be read \(|synthetic_2.parquet' is damaged"):
        ss.read_release(public)


def test_a_release_that_is_read_says_of_its_method_what_it_said(release, written):
    assert ss.read_release(written).method == json.loads(json.dumps(release.method))


def test_records_are_counted_where_a_text_goes_over_several_lines(tmp_path):
    release = ss.synthesize(
        ss.SurveyDesign(odd_frame(), weights="wt"), model("text"), epsilon=20, m=1, seed=1, mechanism=PSEUDO
    )
    file = release.write(tmp_path / "r") / "public" / "synthetic_1.csv"
    assert len(file.read_text().splitlines()) > 401
    assert json.loads((file.parent / "manifest.json").read_text())["files"][file.name]["records"] == 400


# whole or not at all


FULL = OSError("disk full")


def crash(monkeypatch, which, error=FULL):
    """Make the writing of one file fail, after the ones before it were written."""
    calls = itertools.count(1)

    def failing(original):
        def write(*args, **settings):
            if next(calls) == which:
                raise error
            return original(*args, **settings)

        return write

    monkeypatch.setattr(pd.DataFrame, "to_csv", failing(pd.DataFrame.to_csv))
    monkeypatch.setattr(release_folder, "_write_numbers", failing(release_folder._write_numbers))


@pytest.mark.parametrize("which", [1, 2, 4, 5])  # synthetic 1, synthetic 2, tables, internal records
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["disk full", "Ctrl-C"])
def test_a_crash_while_writing_leaves_nothing(which, error, release, tmp_path, monkeypatch):
    crash(monkeypatch, which, error)
    refused = (ss.InputError, "not written .*disk full.*no ledger was charged") if error is FULL else (type(error), "")
    with pytest.raises(refused[0], match=refused[1]):
        release.write(tmp_path / "release")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("which", [2, 5])
def test_a_crash_while_replacing_leaves_the_old_release_whole(which, release, written, monkeypatch):
    before = contents(written)
    crash(monkeypatch, which)
    with pytest.raises(ss.InputError, match="the release was not written"):
        release.write(written, overwrite=True)
    assert contents(written) == before
    assert [p.name for p in written.parent.iterdir()] == ["release"]


@pytest.mark.parametrize("exchange", [True, False])
def test_a_release_is_replaced_by_another_only_on_request(exchange, release, written, monkeypatch):
    if not exchange:  # a file system that cannot exchange two names
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    before = contents(written)
    with pytest.raises(ss.InputError, match="exists; choose another place, or overwrite"):
        release.write(written)
    assert contents(written) == before
    release.write(written, overwrite=True, by="gender", format="parquet")
    assert "public/synthetic_1.parquet" in contents(written) and "public/synthetic_1.csv" not in contents(written)
    assert [p.name for p in written.parent.iterdir()] == ["release"]
    assert (written / "internal").stat().st_mode & 0o777 == 0o700


def test_without_an_exchange_a_failed_rename_brings_the_old_release_back(release, written, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    before, calls = contents(written), itertools.count(1)

    def rename(source, target, original=os.rename):
        if next(calls) == 2:
            raise OSError("no")
        original(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(ss.InputError, match="the release was not written"):
        release.write(written, overwrite=True)
    assert contents(written) == before
    assert [p.name for p in written.parent.iterdir()] == ["release"]


def test_an_empty_folder_is_a_place_for_a_release(release, tmp_path):
    (tmp_path / "empty").mkdir()
    assert ss.read_release(release.write(tmp_path / "empty")).m == release.m


@pytest.mark.parametrize("kind", ["full folder", "file"])
def test_nothing_but_a_release_is_ever_replaced(kind, release, tmp_path):
    path = tmp_path / "mine"
    if kind == "file":
        path.write_text("mine")
    else:
        path.mkdir()
    if kind == "full folder":
        (path / "thesis.txt").write_text("mine")
    with pytest.raises(ss.InputError, match="is not a release folder"):
        release.write(path, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_a_place_that_cannot_be_written_is_refused(release, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ss.InputError, match="not a folder that you may write to"):
        release.write(tmp_path / "file" / "release")
    assert release.write(tmp_path / "new" / "place").is_dir()


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"format": "xlsx"}, "format='xlsx' is not one of csv, parquet"), ({"by": "id"}, "by='id' is not a predictor"),
     ({"by": ["field", "wt"]}, "by='wt' is not a predictor"), ({"min_cell": 0}, "min_cell"),
     ({"min_cell": 2.5}, "min_cell"), ({"min_cell": True}, "min_cell"), ({"min_cell": "5"}, "min_cell"),
     ({"cv_limit": 0}, "cv_limit"), ({"cv_limit": float("nan")}, "cv_limit"), ({"cv_limit": "30%"}, "cv_limit")],
    ids=str,
)  # fmt: skip
def test_bad_arguments_of_write(settings, match, release, tmp_path):
    with pytest.raises(ss.InputError, match=match):
        release.write(tmp_path / "r", **settings)
    assert not list(tmp_path.iterdir())


# tables


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"by": "income"}, "not a predictor"), ({"by": "hours"}, "not a predictor"),
     ({"outcome": "hours"}, "not synthesized"), ({"statistic": "median"}, "is not one of"),
     ({"statistic": []}, "is not one of"), ({"by": ["field", "field"]}, "twice"),
     ({"estimator": "R"}, "estimator='R' is not one of")],
    ids=str,
)  # fmt: skip
def test_bad_arguments_of_tables(settings, match, release):
    with pytest.raises(ss.InputError, match=match):
        release.tables(**settings)


def test_tables_made_by_default_are_of_the_discrete_predictors():
    frame = odd_frame().assign(many=lambda f: f["id"] % 60)
    design = ss.SurveyDesign(frame, weights="wt")
    release = ss.synthesize(
        design, model("share + many + age + field + gender + employed"), epsilon=30, seed=1, mechanism=PSEUDO
    )
    assert release.table_predictors() == ["field", "gender", "employed"]  # in the order of the file, at most three


def test_margins_of_counts_and_totals_add_up(release):
    table = release.tables(["field", "gender"], statistic=["count", "total"])
    for _, part in table.groupby("statistic"):
        cells = part.set_index(["field", "gender"])["estimate"]
        inner = cells.drop(TOTAL, level=0).drop(TOTAL, level=1)
        for level, name in enumerate(["field", "gender"]):
            margin = cells.xs(TOTAL, level=1 - level).drop(TOTAL)
            np.testing.assert_allclose(inner.groupby(name).sum()[margin.index], margin, rtol=1e-9)
        assert inner.sum() == pytest.approx(cells[TOTAL, TOTAL], rel=1e-9)


def by_hand(frame, rows, stratum):
    """Mean and count of a domain with their Taylor variances, from the definition."""
    w, inside = frame["wt"].to_numpy(), rows.to_numpy()
    count = w[inside].sum()
    mean = (w * frame["income"])[inside].sum() / count
    variances = []
    for z in (inside * w * (frame["income"] - mean) / count, pd.Series(inside * w)):
        strata = pd.Series(z).groupby(frame[stratum].to_numpy())
        variances.append(
            (strata.size() / (strata.size() - 1) * strata.apply(lambda v: ((v - v.mean()) ** 2).sum())).sum()
        )
    return [(mean, variances[0]), (count, variances[1])]


def combined(q, u, degf):
    """T = u + b/m and t with (m - 1)(1 + u m / b)^2 degrees of freedom, at most the design's."""
    m, b, u = len(q), np.var(q, ddof=1), np.mean(u)
    df = min((m - 1) * (1 + u / (b / m)) ** 2, degf)
    se = np.sqrt(u + b / m)
    half = student.ppf(0.975, df) * se
    return [np.mean(q), se, df, np.mean(q) - half, np.mean(q) + half]


COLUMNS = ["estimate", "se", "df", "ci_low", "ci_high"]


def domains(frame):
    for field, gender in itertools.product([*frame["field"].unique(), TOTAL], [*frame["gender"].unique(), TOTAL]):
        yield (
            field,
            gender,
            frame["field"].isin([field] if field != TOTAL else frame["field"])
            & frame["gender"].isin([gender] if gender != TOTAL else frame["gender"]),
        )


def test_tables_equal_a_computation_by_hand_from_the_public_files(written):
    files = [
        pd.read_csv(f, dtype={"field": str}, keep_default_na=False)
        for f in sorted((written / "public").glob("synthetic_*.csv"))
    ]
    found = [{(f, g): by_hand(frame, rows, "field") for f, g, rows in domains(frame)} for frame in files]
    table = ss.read_release(written).tables(["field", "gender"], statistic=["mean", "count"])
    assert len(table) == 2 * len(found[0]) == 30
    for row in table.to_dict("records"):
        s = ["mean", "count"].index(row["statistic"])
        q, u = zip(*(f[row["field"], row["gender"]][s] for f in found), strict=True)
        if row["flag"].startswith("calibrated"):  # known beforehand: no standard error
            assert row["estimate"] == pytest.approx(q[0], rel=1e-12)
            assert np.isnan([row[c] for c in COLUMNS[1:]]).all()
        else:
            rows = next(rows for f, g, rows in domains(files[0]) if (f, g) == (row["field"], row["gender"]))
            degf = rows.sum() - files[0].loc[rows, "field"].nunique()
            np.testing.assert_allclose([row[c] for c in COLUMNS], combined(q, u, degf), rtol=1e-9)


def test_tables_equal_svyby_of_every_public_file(written, r):
    """R's survey on each synthetic csv, the m results combined by the rule as written above."""
    r.globalenv["files"] = r.StrVector([str(f) for f in sorted((written / "public").glob("synthetic_*.csv"))])
    results = r.r("""
        sapply(files, function(f) {
          d <- read.csv(f, colClasses = c(field = "character"), na.strings = character())
          s <- svydesign(~1, strata = ~field, weights = ~wt, data = transform(d, one = 1))
          cell <- function(y, stat) {
            b <- svyby(y, ~gender + field, s, stat)
            f <- svyby(y, ~field, s, stat); g <- svyby(y, ~gender, s, stat); t <- stat(y, s)
            list(c(coef(b), coef(f), coef(g), coef(t)), c(SE(b), SE(f), SE(g), SE(t)))
          }
          by <- function(rows) degf(subset(s, rows))
          fields <- sort(unique(d$field)); genders <- sort(unique(d$gender))
          cells <- outer(genders, fields, Vectorize(function(g, f) by(d$gender == g & d$field == f)))
          most <- c(cells, sapply(fields, function(f) by(d$field == f)),
                    sapply(genders, function(g) by(d$gender == g)), degf(s))
          unlist(c(cell(~income, svymean), cell(~one, svytotal), most))
        })
    """)
    numbers = np.array(results).T
    size = numbers.shape[1] // 5
    assert size == 15 and (numbers[:, -1] == 396).all()
    most = numbers[:, -size:].min(axis=0)
    table = ss.read_release(written).tables(["field", "gender"], statistic=["mean", "count"])
    for s in range(2):
        block = numbers[:, 2 * s * size : 2 * (s + 1) * size]
        ours = table.iloc[s * size : (s + 1) * size]
        for i, row in enumerate(ours[COLUMNS].to_numpy()):
            theirs = combined(block[:, i], block[:, size + i] ** 2, most[i])
            calibrated = ours["flag"].iloc[i].startswith("calibrated")
            if calibrated:
                assert row[0] == pytest.approx(theirs[0], rel=1e-8) and np.isnan(row[1:]).all()
            else:
                np.testing.assert_allclose(row, theirs, rtol=1e-8)


# FBP: a file has one weight a cell; counts have standard errors from the records' own smoothed weights


STRATUM_TOTALS = {"01": 9000, "02": 8000, "NA": 12_000, "ökonomie": 500}
KINDS = {
    "FBP": (population_model(), {}),
    "FBP as in the paper": (ss.FBP.paper("income", "field + gender", prior="flat"), {}),
    "FBP, stratum totals": (population_model(), {"population_total": STRATUM_TOTALS}),
    "FBS, stratum totals": (model(), {"population_total": STRATUM_TOTALS}),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    """A release, as it is and as it was written."""
    synthesizer, settings = KINDS[request.param]
    release = ss.synthesize(make_design(), synthesizer, epsilon=10.8, m=3, seed=1, **({"mechanism": PSEUDO} | settings))
    return request.param, release, release.write(tmp_path_factory.mktemp("kind") / "release")


def test_fbp_tables_are_cell_means_and_margins_weighted_by_the_cells_counts(kind):
    """From the public files by hand; ``estimate`` on a file gives the same points, from its one weight."""
    name, release, path = kind
    found = {}
    for number, data in enumerate(release.datasets, 1):
        file = pd.read_csv(path / "public" / f"synthetic_{number}.csv", dtype={"field": str}, keep_default_na=False)
        own = "wt_smoothed" if name.startswith("FBP") else "wt"
        cells = file.groupby(["field", "gender"]).agg(
            count=(own, "sum"), mean=("income", "mean"), weights=("wt", "nunique"), own=(own, "nunique"),
            n=("income", "size"),
        )  # fmt: skip
        assert (cells["own"] == cells["n"]).all()
        if name.startswith("FBP"):
            assert (cells["weights"] == 1).all()
        else:
            cells["mean"] = file.assign(z=file["wt"] * file["income"]).groupby(["field", "gender"])["z"].sum()
            cells["mean"] /= cells["count"]
        for field, gender, inside in domains(cells.reset_index()):
            c = cells[inside.to_numpy()]
            found.setdefault(("count", field, gender), []).append(c["count"].sum())
            found.setdefault(("mean", field, gender), []).append((c["count"] * c["mean"]).sum() / c["count"].sum())
        alone = ss.estimate(data, "income", ["field", "gender"], ["count", "mean"])
        for row in alone.to_dict("records"):
            by_hand = found[row["statistic"], row["field"], row["gender"]][-1]
            assert row["estimate"] == pytest.approx(by_hand, rel=1e-10)
    table = release.tables(["field", "gender"])
    assert len(table) == len(found) == 30
    for row in table.to_dict("records"):
        by_hand = np.mean(found[row["statistic"], row["field"], row["gender"]])
        assert row["estimate"] == pytest.approx(by_hand, rel=1e-10)


def test_standard_errors_of_fbp_and_of_known_totals_are_those_of_r(kind, r):
    """Means from the file's weight, counts from the smoothed one, by stratum or without; known totals: postStratify."""
    name, release, path = kind
    r.globalenv["files"] = r.StrVector([str(f) for f in sorted((path / "public").glob("synthetic_*.csv"))])
    r.globalenv["own"] = "wt_smoothed" if name.startswith("FBP") else "wt"
    r.globalenv["stratified"] = "paper" not in name
    r.globalenv["known"] = "totals" in name
    results = r.r("""
        sapply(files, function(f) {
          d <- read.csv(f, colClasses = c(field = "character"), na.strings = character())
          d$one <- 1
          of <- function(weight, strata) {
            s <- svydesign(~1, strata = strata, weights = reformulate(weight), data = d)
            if (known) s <- postStratify(s, ~field, aggregate(cbind(Freq = wt) ~ field, d, sum))
            s
          }
          cell <- function(y, stat, s) {
            b <- svyby(y, ~gender + field, s, stat)
            f <- svyby(y, ~field, s, stat); g <- svyby(y, ~gender, s, stat); t <- stat(y, s)
            by <- function(rows) degf(s[which(rows), ])
            fields <- sort(unique(d$field)); genders <- sort(unique(d$gender))
            cells <- outer(genders, fields, Vectorize(function(g, f) by(d$gender == g & d$field == f)))
            most <- c(cells, sapply(fields, function(f) by(d$field == f)),
                      sapply(genders, function(g) by(d$gender == g)), degf(s))
            c(coef(b), coef(f), coef(g), coef(t), SE(b), SE(f), SE(g), SE(t), most)
          }
          c(cell(~income, svymean, of("wt", ~field)), cell(~one, svytotal, of(own, if (stratified) ~field)))
        })
    """)
    numbers = np.array(results).T
    assert numbers.shape == (3, 90)
    table = release.tables(["field", "gender"], statistic=["mean", "count"])
    for statistic, block in (("mean", numbers[:, :45]), ("count", numbers[:, 45:])):
        degf = block[0, 30:]
        assert degf[-1] == (399 if statistic == "count" and "paper" in name else 396)
        rows = table[table["statistic"] == statistic]
        for i, row in enumerate(rows[[*COLUMNS, "flag"]].to_dict("records")):
            theirs = combined(block[:, i], block[:, 15 + i] ** 2, degf[i])
            assert row["estimate"] == pytest.approx(theirs[0], rel=1e-10)
            if row["flag"].startswith("public total"):
                assert row["se"] == 0 and theirs[1] < 1e-9 * theirs[0]
            elif row["flag"].startswith("calibrated"):
                assert np.isnan(row["se"])
            else:
                np.testing.assert_allclose([row[c] for c in COLUMNS], theirs, rtol=1e-8)


def test_fbp_is_read_back_with_both_designs(kind):
    name, release, path = kind
    back = ss.read_release(path / "public")
    by = ["field", "gender"]
    pd.testing.assert_frame_equal(back.tables(by), release.tables(by), check_exact=True)
    assert back.method == release.method and back.manifest() == release.manifest()
    manifest = json.loads((path / "public" / "manifest.json").read_text())
    strata, known = {"strata": "field"}, {"poststrata": "field"} if "totals" in name else {}
    assert manifest["design"] == {"weights": "wt", "lonely_psu": "fail"} | strata | known
    report = (path / "public" / "report.txt").read_text()
    if name.startswith("FBS"):
        assert "count_design" not in manifest and "wt_smoothed" not in report
        return
    stratified = {} if "paper" in name else strata
    assert manifest["count_design"] == {"weights": "wt_smoothed", "lonely_psu": "fail"} | stratified | known
    said = "without strata" if "paper" in name else "with strata 'field'"
    assert f"the same from 'wt' and from 'wt_smoothed'; their standard errors come from the latter, {said}." in report
    for sentence in back.privacy.assumptions:
        assert sentence in report


@pytest.mark.parametrize("c1", [None, 1.5])
def test_a_corrected_release_is_read_back_with_what_is_published_of_its_constants(c1, tmp_path):
    mechanism = ss.PseudoPosterior(c1=c1)
    epsilon = 10.8 if c1 is None else None
    release = ss.synthesize(
        make_design(), population_model(), epsilon=epsilon, m=2, seed=1, debias=True, mechanism=mechanism
    )
    back = ss.read_release(release.write(tmp_path / "r"))
    given = set() if c1 is None else {"c1", "target"}
    assert back.method == release.method and set(back.method["debias"]) == {"covered_by_epsilon", "map", "c2"} | given
    assert back.manifest() == release.manifest()


def test_a_column_that_has_the_name_of_the_smoothed_weight_stays():
    frame = make_frame().assign(wt_smoothed=lambda f: f["gender"])
    design = ss.SurveyDesign(frame, weights="wt", strata="field")
    release = ss.synthesize(design, population_model("field + wt_smoothed"), epsilon=10.8, seed=1, mechanism=PSEUDO)
    assert release.count_roles["weights"] == "synthetic_wt_smoothed"
    assert set(release.datasets[0].frame["wt_smoothed"]) == {"f", "m"}
    counts = release.tables("wt_smoothed", statistic="count")
    assert counts["estimate"].iloc[-1] == pytest.approx(frame["wt"].sum(), rel=1e-12)


# other estimates over the m data sets


def by_reiters_rule(release, work):
    """Reiter's rule for what ``work`` estimates from each data set: a frame with estimate and se."""
    tables = [work(design) for design in release.datasets]
    q, u = (np.array([t[c] for t in tables]) for c in ("estimate", "se"))
    return q.mean(axis=0), np.sqrt((u**2).mean(axis=0) + q.var(axis=0, ddof=1) / release.m)


def test_differences_are_combined(release):
    table = release.differences({"gender": ("m", "f")}, "field", statistic=["mean", "total"])
    estimate, se = by_reiters_rule(
        release, lambda d: ss.difference(d, "income", "field", ["mean", "total"], between={"gender": ("m", "f")})
    )
    np.testing.assert_allclose(table["estimate"], estimate, rtol=1e-12)
    np.testing.assert_allclose(table["se"], se, rtol=1e-12)
    assert set(table["contrast"]) == {"m - f"} and len(table) == 10
    with pytest.raises(ss.InputError, match="'hours' is not a predictor"):
        release.differences({"hours": (1, 2)})
    with pytest.raises(ss.InputError, match="between must map"):
        release.differences("gender")


def test_differences_of_counts_have_the_errors_of_the_counts():
    release = ss.synthesize(make_design(), population_model(), epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)
    counts = [release.differences({"gender": ("m", "f")}, statistic=s) for s in ("count", ["mean", "count"])]
    designs = release.count_designs()
    tables = [ss.difference(d, statistic="count", between={"gender": ("m", "f")}) for d in designs]
    u = np.mean([t["se"][0] ** 2 for t in tables]) + np.var([t["estimate"][0] for t in tables], ddof=1) / 2
    for table in counts:
        np.testing.assert_allclose(table.loc[table["statistic"] == "count", "se"], np.sqrt(u), rtol=1e-9)


def test_regressions_are_combined(release):
    found = release.regression("income ~ gender + field")
    estimate, se = by_reiters_rule(release, lambda d: ss.regression(d, "income ~ gender + field").table)
    np.testing.assert_allclose(found.table["estimate"], estimate, rtol=1e-9)
    np.testing.assert_allclose(found.table["se"], se, rtol=1e-9)
    assert found.table["term"].tolist()[:2] == ["Intercept", "gender[T.m]"]


def test_joint_statistics_are_combined(release):
    """Each by the rule, from what the data sets have one by one."""
    one = {"outcome": "income", "by": "gender"}
    for found, work in (
        (release.joint_estimates("income", "gender"), lambda d: ss.joint_estimates(d, **one).table),
        (release.joint_estimates("income", "gender").contrast(lambda q: q["f"] / q["m"]),
         lambda d: ss.joint_estimates(d, **one).contrast(lambda q: q["f"] / q["m"]).table),
        (release.joint_estimates(statistic="count", by="gender"),
         lambda d: ss.joint_estimates(d, by="gender", statistic="count").table),
        (release.predictive_margins("income ~ gender", "field"),
         lambda d: ss.predictive_margins(d, "income ~ gender", "field").table),
        (release.standard_deviations("income"), lambda d: ss.standard_deviations(d, "income").table),
        (release.regression("income ~ gender", "gamma").coefficients,
         lambda d: ss.regression(d, "income ~ gender", "gamma").table),
    ):  # fmt: skip
        estimate, se = by_reiters_rule(release, work)
        np.testing.assert_allclose(found.table["estimate"], estimate, rtol=1e-9)
        np.testing.assert_allclose(found.table["se"], se, rtol=1e-8)
    test = release.joint_estimates("income", "gender").contrast({"f": 1, "m": -1}).test()
    assert 0 <= test.p <= 1 and "synthetic data sets" in test.method
    with pytest.raises(ss.InputError, match="was not synthesized"):
        release.joint_estimates("hours", "gender")


def test_a_release_calibrated_to_the_population_and_its_margins(release, tmp_path):
    """By regression, with the size of the population: read back, it is the same."""
    calibrated = release.calibrate({(): 100.0, "gender": {"f": 45.0, "m": 55.0}}, "linear", (0.001, 100.0))
    counts = calibrated.tables("gender", statistic="count")
    np.testing.assert_allclose(counts["estimate"], [45, 55, 100], rtol=1e-11)
    assert (counts["se"] == 0).all()
    assert any("totals by the whole population, gender were given" in a for a in calibrated.privacy.assumptions)
    back = ss.read_release(calibrated.write(tmp_path / "r"))
    pd.testing.assert_frame_equal(back.tables("field"), calibrated.tables("field"))
    again = calibrated.calibrate({"gender": {"f": 50.0, "m": 50.0}})
    np.testing.assert_allclose(again.tables("gender", statistic="count")["estimate"], [50, 50, 100], rtol=1e-11)


def test_level_and_degrees_of_freedom_of_a_release(release):
    usual, wide = release.tables("gender"), release.tables("gender", level=0.99, df=np.inf)
    known = usual["flag"].str.startswith("calibrated")
    assert known.sum() == 1 and wide.loc[known, "se"].isna().all()
    wide, usual = wide[~known], usual[~known]
    assert (wide["df"] == np.inf).all() and (wide["se"] == usual["se"]).all()
    np.testing.assert_allclose(wide["ci_high"], wide["estimate"] + 2.5758293035489 * wide["se"], rtol=1e-10)
    apart = release.differences({"gender": ("m", "f")}, level=0.5)
    assert (apart["ci_high"] - apart["ci_low"] < 2 * apart["se"]).all()


def test_quantiles_and_proportions_of_a_release(release):
    quantiles = release.tables("field", statistic="quantile", quantiles=[0.25, 0.5])
    estimate, se = by_reiters_rule(
        release, lambda d: ss.estimate(d, "income", "field", "quantile", quantiles=[0.25, 0.5])
    )
    np.testing.assert_allclose(quantiles["estimate"], estimate, rtol=1e-12)
    np.testing.assert_allclose(quantiles["se"], se, rtol=1e-12)
    assert (quantiles["ci_low"] < quantiles["estimate"]).all() and quantiles["prob"].tolist() == [0.25] * 5 + [0.5] * 5


def test_calibrated_weights_add_up_and_are_known_by_the_manifest(release, tmp_path):
    totals = {"field": {"01": 10.0, "02": 20.0, "NA": 30.0, "ökonomie": 40.0}, "gender": {"f": 45.0, "m": 55.0}}
    calibrated = release.calibrate(totals)
    for name, known in totals.items():
        counts = calibrated.tables(name, statistic="count").set_index(name)
        np.testing.assert_allclose(counts["estimate"].drop("all"), list(known.values()), rtol=1e-11)
        assert (counts["se"] == 0).all()
    calibrated.write(tmp_path / "r")
    back = ss.read_release(tmp_path / "r")
    pd.testing.assert_frame_equal(back.tables(["field", "gender"]), calibrated.tables(["field", "gender"]))
    assert back.datasets[0].roles() == calibrated.datasets[0].roles()
    assert any("totals by field, gender were given by the agency as public" in a for a in back.privacy.assumptions)
    assert not any("the synthetic weights add up to it" in a for a in back.privacy.assumptions)
    assert not release.datasets[0].calibrated  # which stays as it was
    with pytest.raises(ss.InputError, match="'hours' is not a predictor"):
        release.calibrate({"hours": {1: 5.0}})


# flags and suppression


def test_small_cells_of_quantiles_are_suppressed_for_every_probability(release):
    table = release.tables(["field", "gender"], statistic=["mean", "quantile"], quantiles=[0.3, 0.6], min_cell=50)
    plain = release.tables(["field", "gender"], statistic="mean", min_cell=50)
    hidden = table["estimate"].isna().to_numpy().reshape(3, -1)
    assert hidden.any() and (hidden == plain["estimate"].isna().to_numpy()).all()


def test_flags_say_what_is_wrong(release):
    table = release.tables("field", cv_limit=0.04)
    cv = table["se"] / table["estimate"]
    assert (table["flag"].str.contains("CV above 4%") == (cv > 0.04)).all()
    assert 0 < (cv > 0.04).sum() < len(table)
    assert release.tables("field").loc[lambda f: f["flag"] != "", "flag"].tolist() == [
        "calibrated total: fixed by construction, without a standard error"
    ]


def test_suppressed_cells_are_blank_in_every_number_and_say_why(release, tmp_path):
    plain, table = release.tables("field"), release.tables("field", min_cell=101)
    assert table["flag"].str.startswith("suppressed: fewer than 101 records").sum() == 8
    hidden = table["flag"].str.contains("suppressed")
    assert table.loc[hidden, [*COLUMNS, "n"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(table.loc[~hidden, COLUMNS], plain.loc[~hidden, COLUMNS])
    path = release.write(tmp_path / "r", by="field", min_cell=101)
    public = pd.read_csv(path / "public" / "tables.csv", keep_default_na=False)
    assert (public.loc[hidden, [*COLUMNS, "n"]] == "").all(axis=None)


def counted(counts, statistics=("count",)):
    """A table of counts with all its margins, as ``tabulate`` makes it: cells without records are not in it."""
    names = [f"v{i}" for i in range(counts.ndim)]
    rows = []
    for size in range(counts.ndim, -1, -1):
        for kept in combinations(range(counts.ndim), size):
            summed = counts.sum(axis=tuple(a for a in range(counts.ndim) if a not in kept))
            for index, n in np.ndenumerate(summed):
                labels = dict(zip(kept, index, strict=True))
                if n:
                    rows.append([*(f"c{labels[a]}" if a in labels else TOTAL for a in range(counts.ndim)), int(n)])
    frame = pd.DataFrame(rows, columns=[*names, "n"])
    parts = [frame.assign(statistic=s, outcome="", estimate=frame["n"] * 2.5, se=1.0, df=9.0) for s in statistics]
    return pd.concat(parts, ignore_index=True).assign(ci_low=0.0, ci_high=1.0), names


def solvable(table, names, hidden):
    """Which hidden cells follow from the published ones: those that no null vector of the margins can move."""
    keys = [tuple(row) for row in table[names].itertuples(index=False)]
    equations = []
    for key in keys:
        for v in range(len(names)):
            if key[v] == TOTAL:
                same = [k[:v] + k[v + 1 :] == key[:v] + key[v + 1 :] for k in keys]
                equations.append([s * (1.0 if k[v] == TOTAL else -1.0) for s, k in zip(same, keys, strict=True)])
    unknown = np.array(equations).reshape(-1, len(keys))[:, hidden]
    _, values, vectors = np.linalg.svd(np.vstack([unknown, np.zeros((1, hidden.sum()))]))
    rank = (values > 1e-9).sum()
    return np.linalg.norm(vectors[rank:], axis=0) < 1e-9


TABLES = [
    np.random.default_rng(seed).poisson(mean, shape)
    for seed, (shape, mean) in enumerate([
        ((4,), 4), ((12,), 6), ((2, 2), 5), ((4, 2), 6), ((5, 5), 5), ((9, 4), 7), ((6, 6), 3), ((3, 8), 2),
        ((2, 2, 2), 6), ((3, 3, 2), 5), ((4, 3, 2), 7), ((3, 4, 3), 4), ((5, 4, 3), 8), ((2, 2, 2, 2), 7),
    ])
]  # fmt: skip
BRIDGE = np.full((5, 5), 50)  # two blocks of four small cells joined by one: it follows from no single margin
BRIDGE[:2, :2] = BRIDGE[3:, 3:] = 1
BRIDGE[1, 3] = 1


@pytest.mark.parametrize("counts", [*TABLES, BRIDGE], ids=lambda c: "x".join(map(str, c.shape)))
def test_no_suppressed_cell_follows_from_any_combination_of_published_ones(counts):
    table, names = counted(counts)
    small = (table["n"] < 5).to_numpy()
    flagged = flag(table, names, min_cell=5)
    hidden = flagged["estimate"].isna().to_numpy()
    assert small.any() and (hidden | ~small).all() and not hidden.all()
    assert not solvable(table, names, hidden).any()
    assert (flagged["flag"][hidden] == "suppressed: fewer than 5 records, or would give away such a cell").all()
    assert not flagged["flag"][~hidden].str.contains("suppressed").any()


def test_the_check_finds_what_small_cells_alone_would_give_away():
    table, names = counted(BRIDGE)
    small = (table["n"] < 5).to_numpy()
    follows = table[small].assign(follows=solvable(table, names, small)).set_index(names)["follows"]
    assert follows.index[follows].tolist() == [("c1", "c3")]


def test_small_cells_and_those_that_would_give_them_away_carry_one_mark(release, tmp_path):
    by = ["field", "gender"]
    path = release.write(tmp_path / "r", by=by, min_cell=48, cv_limit=1e-6)
    public = pd.read_csv(path / "public" / "tables.csv", keep_default_na=False, dtype={"field": str})
    small = (release.tables(by)["n"] < 48).to_numpy()
    for table in (release.tables(by, min_cell=48, cv_limit=1e-6), public):
        hidden = table["flag"].str.contains("suppressed").to_numpy()
        assert small.any() and hidden[small].all() and (hidden & ~small).any()
        assert set(table["flag"][hidden]) == {"suppressed: fewer than 48 records, or would give away such a cell"}


RULE = "a quality rule, not protection: whoever has the synthetic files"


def test_suppression_is_said_to_be_no_protection(release, run, monkeypatch, tmp_path):
    """Where it is asked for, and in the report; and it is so: who has the files computes the cells."""
    monkeypatch.setenv("COLUMNS", "200")
    pages = [Path(__file__).parents[1] / "r_bridge" / "man" / f"{page}.Rd" for page in ("tables", "write_release")]
    path = release.write(tmp_path / "r", by="field", min_cell=101)
    report = (path / "public" / "report.txt").read_text(encoding="utf-8")
    helps = [run("tables", "--help")[1], run("plan", "--entries")[1]]
    texts = [ss.Release.tables.__doc__, ss.Release.write.__doc__, report, *helps]
    for text in (*texts, *(page.read_text(encoding="utf-8") for page in pages)):
        assert RULE in re.sub(r"[\s│]+", " ", text)
    assert "cells of fewer than 101 records are blank" in report
    plain = (release.write(tmp_path / "plain", by="field") / "public" / "report.txt").read_text(encoding="utf-8")
    assert "quality rule" not in plain
    hidden = release.tables("field", min_cell=101)["estimate"].isna()
    computed = ss.read_release(path).tables("field")
    assert hidden.sum() == 8 and computed.loc[hidden, "estimate"].notna().all()


def test_suppression_takes_no_more_than_it_needs():
    counts = np.full((6, 4), 40)
    counts[2, 1] = 3
    table, names = counted(counts, ["count", "mean"])
    hidden = flag(table, names, min_cell=5).loc[lambda f: f["estimate"].isna(), [*names, "statistic"]]
    assert len(hidden) == 8  # a rectangle, in the counts and in the means
    assert hidden.groupby("statistic")["v0"].nunique().tolist() == [2, 2]
    assert hidden.groupby("statistic")["v1"].nunique().tolist() == [2, 2]


def test_a_table_without_small_cells_hides_nothing():
    table, names = counted(np.full((3, 3), 5))
    assert flag(table, names, min_cell=5)["estimate"].notna().all()
    empty, _ = counted(np.array(3))
    assert flag(empty, [], min_cell=5)["estimate"].isna().all()


def test_internal_files_are_not_lost_to_a_release_that_was_read(written):
    before = contents(written)
    with pytest.raises(ss.InputError, match="internal/ that would be lost"):
        ss.read_release(written).write(written, overwrite=True)
    assert contents(written) == before


def test_a_count_has_no_negative_limit():
    """The t interval of a small count begins at 0; of one design it is R's."""
    frame = pd.DataFrame({"domain": ["rare"] * 2 + ["often"] * 298, "y": np.arange(300.0), "w": 10.0})
    first = ss.SurveyDesign(frame, weights="w")
    second = ss.SurveyDesign(frame.assign(w=np.where(frame.index < 2, 14.0, 10.0)), weights="w")
    table = tabulate([first, second], None, "domain", "count").set_index("domain")
    own = [ss.estimate(design, None, "domain", "count").set_index("domain").loc["rare"] for design in (first, second)]
    q, u = [each["estimate"] for each in own], [each["se"] ** 2 for each in own]
    estimate, se, df, low, high = table.loc["rare", COLUMNS]
    T = np.mean(u) + np.var(q, ddof=1) / 2
    assert (estimate, se) == pytest.approx((np.mean(q), np.sqrt(T)), rel=1e-12)
    t = student.ppf(0.975, df)
    assert estimate - t * se < 0 == low and high == pytest.approx(estimate + t * se, rel=1e-12)
    estimate, se, df, low, high = table.loc["often", COLUMNS]
    assert (low + high) / 2 == pytest.approx(estimate, rel=1e-12)
    assert own[0]["ci_low"] < 0
