"""Designs over parquet files: the same as in memory, from one file or many, reading only the columns in use."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import surveysynth as ss
from surveysynth.design import scan
from tests.conftest import without_r

N = 3000
ROLES = {"weights": "w", "strata": "region", "psu": "psu"}


def survey() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    region = rng.integers(0, 4, N)
    frame = pd.DataFrame({
        "region": np.array(["north", "south", "east", "west"])[region],
        "psu": region * 100 + rng.integers(0, 12, N),
        "sex": np.array(["f", "m"])[rng.integers(0, 2, N)],
        "age": rng.integers(18, 90, N),
        "note": [f"note {i}" for i in range(N)],
        "late": np.where(rng.random(N) < 0.1, None, "yes"),
        "count": np.where(rng.random(N) < 0.1, np.nan, rng.integers(0, 9, N)),
    })  # fmt: skip
    frame["income"] = np.exp(9 + 0.3 * region + 0.7 * rng.standard_normal(N))
    frame["w"] = 50 * np.exp(0.4 * rng.standard_normal(N))
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The file as 1, as 3 and as 17 parquet files, whose row groups are small."""
    frame, place = survey(), tmp_path_factory.mktemp("parquet")
    for pieces in (1, 3, 17):
        (place / str(pieces)).mkdir()
        for k, part in enumerate(np.array_split(np.arange(N), pieces)):
            file = place / str(pieces) / f"part-{k:02}.parquet"
            frame.iloc[part].to_parquet(file, index=False, row_group_size=101)
    return place


@pytest.mark.parametrize("pieces", [1, 3, 17])
def test_columns_are_those_of_the_file_in_its_order(folder, pieces, monkeypatch):
    monkeypatch.setattr(scan, "BLOCK", 97)
    design = ss.SurveyDesign.scan(folder / str(pieces), **ROLES)
    frame = survey()
    assert design.n == N and list(design.columns) == list(frame)
    for name in frame:
        found = design.column(name)
        pd.testing.assert_series_equal(
            found.astype(object).where(found.notna(), None), frame[name].astype(object).where(frame[name].notna(), None)
        )
    assert list(design.column("region").cat.categories) == ["east", "north", "south", "west"]
    assert design.column("region").cat.codes.dtype == np.int8
    np.testing.assert_array_equal(design.weights, frame["w"])


def test_columns_that_nobody_uses_are_not_read(folder):
    design = ss.SurveyDesign.scan(folder / "3", **ROLES)
    assert set(design._scan._read) == {"w", "region", "psu"}
    ss.estimate(design, "income", by="sex")
    assert set(design._scan._read) == {"w", "region", "psu", "income", "sex"}


def test_categories_of_files_that_have_other_dictionaries(tmp_path):
    for k, values in enumerate((["b", "a", None], ["c", "b", "a"])):
        texts = pa.array(values).dictionary_encode()
        pq.write_table(pa.table({"x": texts, "w": [1.0, 2.0, 3.0]}), tmp_path / f"{k}.parquet")
    design = ss.SurveyDesign.scan(tmp_path, weights="w")
    assert design.column("x").tolist() == ["b", "a", np.nan, "c", "b", "a"]


def test_numbers_of_which_some_are_missing(tmp_path):
    """As pandas reads them: whole numbers become floats, truth values objects, in whichever file one is missing."""
    pieces = [([1, 2], [True, False]), ([None, 4], [None, True]), ([5, 2**40], [False, False])]
    for k, (numbers, truths) in enumerate(pieces):
        table = {"x": pa.array(numbers, pa.int64()), "t": pa.array(truths, pa.bool_()), "w": [1.0, 1.0]}
        pq.write_table(pa.table(table), tmp_path / f"{k}.parquet")
    design = ss.SurveyDesign.scan(tmp_path, weights="w")
    pd.testing.assert_frame_equal(design.frame, pd.read_parquet(tmp_path))
    assert design.column("x").tolist()[3:] == [4, 5, 2**40]


def test_estimates_are_those_of_the_design_in_memory(folder):
    names = {"outcome": "income", "by": ["region", "sex"], "statistic": ["count", "mean", "total"]}
    expected = ss.estimate(ss.SurveyDesign(survey(), **ROLES), **names)
    for pieces in (1, 17):
        found = ss.estimate(ss.SurveyDesign.scan(folder / str(pieces), **ROLES), **names)
        pd.testing.assert_frame_equal(found, expected)


def released(design, mechanism):
    given = {"epsilon": 10, "m": 2, "population_total": 2e5, "seed": 4, "mechanism": mechanism, "clusters": "ignore"}
    if isinstance(mechanism, ss.Strict):
        return ss.synthesize(design, "income ~ region + sex", **given | {"bounds": (0, 1e7), "m": 4})
    model = ss.FBS("income ~ region + sex", prior="flat")
    return ss.synthesize(design, model, accept_diagnostics=["information"], **given)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [ss.PseudoPosterior(), ss.Strict()])
def test_the_release_is_that_of_the_design_in_memory(folder, mechanism):
    expected = released(ss.SurveyDesign(survey(), **ROLES), mechanism)
    table = expected.tables(["region", "sex"])
    for pieces in (1, 3, 17):
        found = released(ss.SurveyDesign.scan(folder / str(pieces), **ROLES), mechanism)
        for one, other in zip(found.datasets, expected.datasets, strict=True):
            pd.testing.assert_frame_equal(one.frame.astype(object), other.frame.astype(object))
        pd.testing.assert_frame_equal(found.tables(["region", "sex"]), table)
    scanned = ss.SurveyDesign.scan(folder / "3", **ROLES)
    compared = ss.compare(scanned, expected, by="region")
    pd.testing.assert_frame_equal(
        compared.cells, ss.compare(ss.SurveyDesign(survey(), **ROLES), expected, by="region").cells
    )
    assert not {"note", "late", "age"} & set(scanned._scan._read)


def test_a_plan_reads_only_the_columns_in_use(folder, tmp_path):
    survey().to_csv(tmp_path / "f.csv", index=False)
    said = {"model.formula": "income ~ region + sex", "privacy.mechanism": "pseudo-posterior", "privacy.epsilon": 12.0,
            "privacy.population_total": 160_000.0}  # fmt: skip
    ss.Plan.draft(tmp_path / "f.csv", guess=False, set=said, **ROLES).save(tmp_path / "plan.toml")
    expected = ss.Plan.read(tmp_path / "plan.toml")
    for file in (folder / "3", folder / "1" / "part-00.parquet"):
        read = ss.Plan.read(tmp_path / "plan.toml", set={"survey.file": str(file)})
        assert str(read) == str(expected)
        assert not {"note", "late", "age"} & set(read.design._scan._read)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"weights": "weight"}, "weights: there is no column 'weight'.*the frame has region, psu"),
        ({"weights": "w", "strata": "w"}, "two roles"),
        ({"weights": "late"}, "weights column 'late' is missing in .*rows? "),
        ({"weights": "income", "strata": "note"}, "only one sampling unit"),
        ({}, "give the survey weights"),
    ],
)
def test_roles_are_refused_as_they_are_in_memory(folder, roles, message):
    with pytest.raises(ss.InputError, match=message) as of_scan:
        ss.SurveyDesign.scan(folder / "3", **roles)
    with pytest.raises(ss.InputError) as in_memory:
        ss.SurveyDesign(survey(), **roles)
    assert str(of_scan.value) == str(in_memory.value)


def test_what_is_no_parquet_file_is_refused(folder, tmp_path):
    (tmp_path / "x.csv").write_text("w\n1\n")
    (tmp_path / "broken.parquet").write_text("no parquet")
    for source, message in (
        (tmp_path / "absent.parquet", "there is no file"),
        (tmp_path / "x.csv", "no .parquet file"),
        (tmp_path / "broken.parquet", "could not be read"),
        ([], "the list is empty"),
    ):
        with pytest.raises(ss.InputError, match=message):
            ss.SurveyDesign.scan(source, weights="w")
    pq.write_table(pa.table({"w": ["1"]}), tmp_path / "other.parquet")
    with pytest.raises(ss.InputError, match=r"has no column 'region'|no column 'w' of type double"):
        ss.SurveyDesign.scan([folder / "1" / "part-00.parquet", tmp_path / "other.parquet"], weights="w")


KILLED = """
import os, signal, sys
import numpy as np, pandas as pd, pyarrow.parquet as pq, surveysynth as ss
from surveysynth.release import data_set_files

rng = np.random.default_rng(1)
pay, w = np.exp(rng.normal(9, 0.5, 400)), np.exp(rng.normal(3, 0.3, 400))
frame = pd.DataFrame({"pay": pay, "w": w, "sex": ["f", "m"] * 200})
model = ss.FBS("pay ~ sex", prior="flat")
release = ss.synthesize(
    ss.SurveyDesign(frame, weights="w"), model, epsilon=20, m=2, mechanism=ss.PseudoPosterior(), population_total=1e4,
    accept_diagnostics=["information"],
)
data_set_files.ROWS = 50
written, write = [], pq.ParquetWriter.write_table

def writes(*arguments):
    write(*arguments)
    written.append(1)
    if len(written) == 11:  # in the middle of the second file
        os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "kill":
    pq.ParquetWriter.write_table = writes
release.write(sys.argv[1], format="parquet")
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_writes_has_published_nothing(tmp_path):
    place = tmp_path / "release"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(place), "kill"], check=False, env=without_r())
    assert killed.returncode == -9 and not place.exists()
    assert not list(tmp_path.rglob("manifest.json"))
    subprocess.run([sys.executable, "-c", KILLED, str(place), "whole"], check=True, env=without_r())
    read = ss.read_release(place)
    assert [design.n for design in read.datasets] == [400, 400]
    assert pq.ParquetFile(place / "public" / "synthetic_1.parquet").num_row_groups == 8


def test_levels_that_a_text_happens_to_have_are_declared_by_nobody(tmp_path):
    """One respondent is an astronaut: a release that took the levels from the file would tell."""
    frame = pd.DataFrame({"region": ["a", "b"] * 100, "job": ["none", "full"] * 100, "w": 2.0})
    frame.loc[7, "job"] = "astronaut"
    frame.to_parquet(tmp_path / "f.parquet")
    scanned = ss.SurveyDesign.scan(tmp_path / "f.parquet", weights="w")
    some = ss.SurveyDesign(scanned.frame[np.arange(200) > 3], weights="w")
    asked = {"epsilon": 9, "population_total": 400}
    for design in (scanned, scanned.assign(half=lambda f: f.w / 2), some):
        assert not design.declares_levels("job")
        with pytest.raises(ss.InputError, match="the levels of 'job'"):
            ss.synthesize(design, "job ~ region", m=4, **asked)
        with pytest.raises(ss.InputError, match="job: the levels of a category are published"):
            ss.fit(design, ss.FBS("C(job) ~ region", prior="flat"), epsilon=9, mechanism=ss.PseudoPosterior())
        with pytest.raises(ss.InputError, match="levels"):
            ss.Plan(design, "job ~ region", **asked).release()
    known = ["none", "full", "astronaut", "retired"]
    declared = ss.SurveyDesign(scanned.frame.assign(job=pd.Categorical(scanned.frame["job"], known)), weights="w")
    assert declared.declares_levels("job")
    frame.assign(job=pd.Categorical(frame["job"], known)).to_parquet(tmp_path / "f.parquet")
    assert ss.SurveyDesign.scan(tmp_path / "f.parquet", weights="w").declares_levels("job")
