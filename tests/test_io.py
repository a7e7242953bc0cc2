"""Reading files: what comes in is what was written, and a broken file is not quoted."""

import io
import traceback

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from surveysynth import InputError, SurveyDesign
from surveysynth.design.read import read_frame

FRAME = pd.DataFrame(
    {
        "WT": [1.5, 2.25, 1 / 3, 1e-7, 12345678.125],
        "AREA": ["north", "south", "isle", "north", "south"],
        "N": [10.0, 20.0, 30.0, 10.0, 20.0],
        "PAY": [71001.0, np.nan, -3.5, 0.0, 1e9],
    }
)
WRITERS = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    ".CSV": lambda frame, path: frame.to_csv(path, index=False),
    ".parquet": lambda frame, path: frame.to_parquet(path),
    ".dta": pyreadstat.write_dta,
    ".sav": pyreadstat.write_sav,
    ".zsav": lambda frame, path: pyreadstat.write_sav(frame, path, compress=True),
    ".por": pyreadstat.write_por,
    ".xpt": pyreadstat.write_xport,
}


@pytest.fixture(params=WRITERS)
def path(request, tmp_path):
    path = tmp_path / f"survey{request.param}"
    WRITERS[request.param](FRAME, str(path))
    return path


def test_round_trip(path):
    rtol = 1e-6 if path.suffix == ".por" else 1e-15  # .por holds text, .xpt IBM's floats
    pd.testing.assert_frame_equal(read_frame(path), FRAME, check_dtype=False, rtol=rtol, atol=0)


def test_read_gives_a_design(path):
    for name in (path, str(path)):
        design = SurveyDesign.read(name, weights="WT", strata="AREA", lonely_psu="remove")
        assert (design.n, design.strata_name, design.lonely_psu) == (5, "AREA", "remove")
    with pytest.raises(InputError, match="no column 'wgt'"):
        SurveyDesign.read(path, weights="wgt")


def test_a_csv_without_a_header_line_does_not_quote_its_first_record(tmp_path):
    """Nor where values that occur twice get a number of their own (12, 12.1 of pandas)."""
    path = tmp_path / "survey.csv"
    path.write_text("d,m,12,12,23.764247068640294,26357.53013103927\nd,f,4,5,6.5,1.5\n")
    with pytest.raises(InputError) as caught:
        SurveyDesign.read(path, weights="wt")
    assert str(caught.value) == (
        "weights: there is no column 'wt'; the frame has 6 columns, 4 whose names look like values: where there is no "
        "header line, give the file a first line with the column names"
    )


@pytest.mark.parametrize("suffix", [".csv", ".dta", ".sav", ".xpt"])
def test_an_empty_text_is_missing(suffix, tmp_path):
    path = str(tmp_path / f"survey{suffix}")
    WRITERS[suffix](FRAME.assign(AREA=["north", "", "south", "north", "south"]), path)
    with pytest.raises(InputError, match=r"'AREA' is missing in 1 row \(row numbers 2;"):
        SurveyDesign.read(path, weights="WT", strata="AREA")


LABELLED = pd.DataFrame(
    {
        "educ": [3.0, 1.0, 2.0, 1.0, np.nan],  # a label for every value, and one that is not used
        "pay": [10.0, 20.0, -1.0, 30.0, 40.0],  # for a special code only
        "twice": [1.0, 2.0, 1.0, 2.0, 1.0],  # one label for two values: labels alone would lose one
        "plain": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
)
LABELS = {
    "educ": {1: "low", 2: "mittlère", 3: "high", 4: "unused"},
    "pay": {-1: "refused"},
    "twice": {1: "same", 2: "same"},
}


@pytest.mark.parametrize("suffix", [".dta", ".sav", ".zsav"])
def test_value_labels(suffix, tmp_path):
    path = str(tmp_path / f"survey{suffix}")
    write = pyreadstat.write_dta if suffix == ".dta" else pyreadstat.write_sav
    write(LABELLED, path, variable_value_labels=LABELS)
    got = read_frame(path)
    assert got["educ"].tolist()[:4] == ["high", "low", "mittlère", "low"] and got["educ"].isna()[4]
    assert not got["educ"].cat.ordered and got["educ"].cat.categories.tolist() == ["low", "mittlère", "high", "unused"]
    pd.testing.assert_frame_equal(got.drop(columns="educ"), LABELLED.drop(columns="educ"), check_dtype=False)


def test_declared_missing_values_of_spss_become_missing(tmp_path):
    path = str(tmp_path / "survey.sav")
    pyreadstat.write_sav(
        pd.DataFrame({"pay": [10.0, 99.0], "sex": ["f", "m"]}), path, missing_ranges={"pay": [99]},
        variable_value_labels={"pay": {99: "refused"}, "sex": {"f": "female", "m": "male"}},
    )  # fmt: skip
    got = read_frame(path)
    np.testing.assert_array_equal(got["pay"], [10.0, np.nan])
    assert got["sex"].tolist() == ["female", "male"]


def test_labelled_missing_codes_of_stata_become_missing(tmp_path):
    path = str(tmp_path / "survey.dta")
    pyreadstat.write_dta(
        pd.DataFrame({"code": [2, "a", 1]}), path, missing_user_values={"code": ["a"]},
        variable_value_labels={"code": {"a": "refused", 1: "one", 2: "two"}},
    )  # fmt: skip
    got = read_frame(path)["code"]
    assert got.tolist()[::2] == ["two", "one"] and got.isna().tolist() == [False, True, False]
    assert got.cat.categories.tolist()[:2] == ["one", "two"]


@pytest.mark.parametrize("name", ["survey.xlsx", "survey", "survey.gz", "survey.txt"])
def test_unknown_kind(name, tmp_path):
    (tmp_path / name).write_text("canary")
    with pytest.raises(InputError, match=r"what kind of file 'survey.*' is; surveysynth reads \.csv, \.parquet, \.dta"):
        read_frame(tmp_path / name)


@pytest.mark.parametrize("name", ["nothing.csv", "nothing.xlsx", "."])
def test_missing_file(name, tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        read_frame(tmp_path / name)


def broken():
    whole = io.BytesIO()
    FRAME.to_parquet(whole)
    text = b"name,pay\ncanary-K,91234.5\n"
    yield ".csv", text + b"canary-L,1,2,3\n"
    yield ".csv", text + b'"canary-L,1\n'
    yield ".csv", text + b"canary-\xff,1\n"
    yield ".csv", b""
    yield ".csv.gz", text
    yield ".parquet", whole.getvalue()[:-10]
    for suffix in (".parquet", ".dta", ".sav", ".zsav", ".por", ".sas7bdat", ".xpt"):
        yield suffix, text


@pytest.mark.parametrize(("suffix", "content"), list(broken()))
def test_a_broken_file_is_not_quoted(suffix, content, tmp_path):
    path = tmp_path / f"survey{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"'survey{suffix}' could not be read \(\w+\)") as caught:
        read_frame(path)
    report = "".join(traceback.format_exception(caught.value))
    assert "canary-" not in report.replace(str(tmp_path), "") and "91234" not in report


@pytest.mark.parametrize("suffix", [".dta", ".sav"])  # .xpt does not know its number of rows
def test_a_cut_off_file(suffix, tmp_path):
    path = tmp_path / f"survey{suffix}"
    WRITERS[suffix](pd.concat([FRAME] * 50), str(path))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match="could not be read"):
        read_frame(path)
