"""Parquet of csv, Stata and SPSS files: what read_frame makes of the whole file, from small blocks."""

import os
import re
import stat
import warnings

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from surveysynth.design import convert, csv_file
from surveysynth.design.read import read_frame
from surveysynth.design.scan import Scan

N = 100


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(convert, "BLOCK", 7)
    monkeypatch.setattr(csv_file, "BLOCK_ROWS", 7)
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 400)


def mixed():
    """Columns whose type one block does not tell."""
    rng = np.random.default_rng(1)
    return pd.DataFrame({
        "whole": np.arange(N),
        "late": [None] * 60 + list(range(40)),
        "code": ["01"] * 50 + [str(k) for k in range(50)],
        "text": ["a", "b", None, "c"] * 25,
        "x": rng.normal(size=N),
        "truth": [True, False] * 50,
        "half": [True, None] * 50,
        "one letter": ["007"] * 99 + ["x"],
        "nothing": [None] * N,
    })  # fmt: skip


def labelled(path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({
        "region": rng.integers(1, 4, N).astype(float),
        "income": rng.normal(size=N).round(2),
        "text": ["u", "", "v", "w"] * 25,
        "weight": 2.0,
        "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(N), "D"),
    })  # fmt: skip
    frame.loc[3, "income"], frame.loc[5, "region"] = 98, np.nan
    values = {"region": {3: "West", 1: "North", 2: "South"}, "income": {98: "refused"}}
    headings = {"region": "Region of residence"}
    if path.suffix == ".sav":
        pyreadstat.write_sav(frame, path, variable_value_labels=values, column_labels=headings)
    else:
        values.pop("income")  # Stata has labels for whole numbers alone
        pyreadstat.write_dta(
            frame, path, variable_value_labels=values, column_labels=[headings["region"], "", "", "", ""]
        )
    return path


def same(source, **options):
    """The columns of the new file are those of the whole file in memory; it is refused if that is."""
    to = source.with_name("new.parquet")
    try:
        frame = read_frame(source, **options)
    except ss.InputError as refused:
        with pytest.raises(ss.InputError, match=re.escape(str(refused))):
            ss.convert(source, to, **options)
        return to
    ss.convert(source, to, **options)
    found = Scan(to)
    assert list(found.names) == list(frame)
    for name in frame:
        is_, was = found.frame([name])[name], frame[name]
        numbers = pd.api.types.is_numeric_dtype(was)
        assert is_.dtype == was.dtype if numbers else not pd.api.types.is_numeric_dtype(is_)
        if isinstance(was.dtype, pd.CategoricalDtype):
            assert list(is_.cat.categories) == list(was.cat.categories)
        assert [None if pd.isna(x) else x for x in is_] == [None if pd.isna(x) else x for x in was]
    return to


def test_csv_with_commas_and_with_semicolons(tmp_path):
    frame = mixed()
    frame.to_csv(tmp_path / "a.csv", index=False)
    same(tmp_path / "a.csv")
    (tmp_path / "new.parquet").unlink()
    same(tmp_path / "a.csv", missing_codes=["a", 5])
    (tmp_path / "new.parquet").unlink()
    more = {"k": ["1"] * 99 + ["2,5"], "codes": ["007"] * 99 + ["2,5"], "money": ["1.234"] * 99 + ["1.234,5"]}
    frame = frame.assign(x=[f"{x:.3f}".replace(".", ",") for x in frame["x"]], **more)
    frame.to_csv(tmp_path / "b.csv.gz", sep=";", decimal=",", index=False)
    read = pd.read_parquet(same(tmp_path / "b.csv.gz"))
    assert read["money"].iloc[[0, -1]].tolist() == [1234, 1234.5]
    assert read["codes"].iloc[0] == "007"


@given(st.lists(st.sampled_from([*"1x-", "01", "1,5", "1.000", "1.234,5", "2.5", "", "true", "1e3", "-7"]), min_size=1))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_column_is_what_all_its_values_are(tmp_path, values):
    for separator in ",;":
        quoted = [f'"{value}"' if "," in value else value for value in values]
        lines = [separator.join(["id", "v"]), *(f"{i}{separator}{value}" for i, value in enumerate(quoted))]
        (tmp_path / "c.csv").write_text("\n".join(lines) + "\n")
        same(tmp_path / "c.csv").unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["c.sav", "d.dta"])
def test_labels_categories_headings_dates(tmp_path, name):
    path = labelled(tmp_path / name)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        to = same(path)
    assert (name == "c.sav") == any("in 1 row carry a value label" in str(w.message) for w in said)
    design = ss.SurveyDesign.scan(to, weights="weight")
    assert design.labels == {"region": "Region of residence"}
    assert list(design.column("region").cat.categories) == ["North", "South", "West"]
    to.unlink()
    same(path, missing_codes=["refused", "North"] if name == "c.sav" else ["North"])


def test_the_new_file_is_its_owners_and_appears_whole(tmp_path):
    mixed().to_csv(tmp_path / "a.csv", index=False)
    ss.convert(tmp_path / "a.csv", tmp_path / "a.parquet")
    assert stat.S_IMODE(os.stat(tmp_path / "a.parquet").st_mode) == 0o600
    with (tmp_path / "a.csv").open("a") as file:
        file.write("1,2,3,4,5,6,7,8,9,10,11\n")
    with pytest.raises(ss.InputError, match="more fields in 1 row"):
        ss.convert(tmp_path / "a.csv", tmp_path / "b.parquet")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.parquet"]


def test_what_arrow_cannot_take_is_refused_without_a_value(tmp_path, monkeypatch):
    path = labelled(tmp_path / "c.sav")
    _, meta = pyreadstat.read_sav(path)
    blocks = iter([(pd.DataFrame({"text": ["confidential", 5.0]}, dtype=object), meta)])
    monkeypatch.setattr(convert.pyreadstat, "read_file_in_chunks", lambda *_, **__: blocks)
    with pytest.raises(ss.InputError, match="could not be read") as refused:
        ss.convert(path, tmp_path / "new.parquet")
    assert "confidential" not in str(refused.value) and refused.value.__context__ is None
    assert [p.name for p in tmp_path.iterdir()] == ["c.sav"]


def test_what_is_refused(tmp_path):
    mixed().to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "empty.csv").write_text("a,b\n")
    (tmp_path / "there.parquet").write_bytes(b"")
    for source, to, said in (
        ("no.csv", "x.parquet", "there is no file"),
        ("a.csv", "x.csv", "must end in .parquet"),
        ("there.parquet", "x.parquet", "reads it as it is"),
        ("a.csv", "there.parquet", "another name"),
        ("empty.csv", "x.parquet", "no records"),
    ):
        with pytest.raises(ss.InputError, match=said):
            ss.convert(tmp_path / source, tmp_path / to)


def test_the_command(tmp_path):
    mixed().to_csv(tmp_path / "a.csv", index=False)
    where = [str(tmp_path / "a.csv"), str(tmp_path / "a.parquet")]
    done = CliRunner().invoke(app, ["convert", *where, "--missing-codes", "a,5"])
    assert done.exit_code == 0 and "as confidential as" in " ".join(done.output.split())
    assert pd.read_parquet(where[1])["text"].isna().sum() == 50
