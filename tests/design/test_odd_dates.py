"""One date that no calendar has does not make a Stata, SPSS or SAS file unreadable."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pyreadstat
import pytest

import surveysynth as ss
from surveysynth.design import convert
from surveysynth.design.read import read_frame

# 3 March 2021, noon, and 1 May 1987, as each program counts
DATES = [datetime.date(2021, 3, 3), datetime.date(1987, 5, 1)]
MOMENTS = [datetime.datetime(2021, 3, 3, 12), datetime.datetime(1987, 5, 1, 12)]
DAYS = [(date - datetime.date(1960, 1, 1)).days for date in DATES]
SECONDS = [(date - datetime.date(1582, 10, 14)).days * 86_400 for date in DATES]
STATA = {"day": DAYS, "moment": [(day * 86_400 + 43_200) * 1_000 for day in DAYS]}
SAS = {"day": DAYS, "moment": [day * 86_400 + 43_200 for day in DAYS]}
SPSS = {"day": SECONDS, "moment": [second + 43_200 for second in SECONDS]}
FORMATS = {
    ".dta": (pyreadstat.write_dta, STATA, {"day": "%td", "moment": "%tc", "fine": "%td"}),
    ".sav": (pyreadstat.write_sav, SPSS, {"day": "DATE11", "moment": "DATETIME20", "fine": "ADATE10"}),
    ".zsav": (pyreadstat.write_sav, SPSS, {"day": "SDATE10", "moment": "YMDHMS20", "fine": "EDATE10"}),
    ".xpt": (pyreadstat.write_xport, SAS, {"day": "DATE9", "moment": "DATETIME20", "fine": "MMDDYY10"}),
}


@pytest.fixture(params=FORMATS)
def odd(request, tmp_path):
    """A file with a day and a moment that are out of range."""
    write, counted, formats = FORMATS[request.param]
    (one, two), (three, four) = counted["day"], counted["moment"]
    frame = pd.DataFrame(
        {
            "pay": [10.0, 20.0, 30.0, 40.0],
            "day": [one, np.nan, 1e18, two],
            "moment": [-1e18, three, four, np.nan],
            "fine": [two, one, np.nan, two],
            "area": ["north", "", "south", "north"],
        }
    )
    path = tmp_path / f"survey{request.param}"
    options = {"compress": True} if request.param == ".zsav" else {}
    write(frame, str(path), variable_format=formats, **options)
    return path


def is_right(frame):
    assert frame["pay"].tolist() == [10, 20, 30, 40]
    assert [None if pd.isna(day) else day for day in frame["day"]] == [DATES[0], None, None, DATES[1]]
    assert [None if pd.isna(at) else at for at in frame["moment"]] == [None, *MOMENTS, None]
    assert [None if pd.isna(day) else day for day in frame["fine"]] == [DATES[1], DATES[0], None, DATES[1]]
    assert [None if pd.isna(area) else area for area in frame["area"]] == ["north", None, "south", "north"]


def told(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        work()
    return [str(each.message) for each in caught if each.category is UserWarning]


EXPECTED = [
    "column 'day' has dates out of range in 1 row (row numbers 3; the first row is 1): they are read as missing",
    "column 'moment' has dates out of range in 1 row (row numbers 1; the first row is 1): they are read as missing",
]


def test_the_rest_is_read_and_the_columns_are_named(odd):
    assert told(lambda: is_right(read_frame(odd))) == EXPECTED


def test_convert_reads_the_same(odd, tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "BLOCK", 2)
    assert told(lambda: ss.convert(odd, tmp_path / "new.parquet")) == EXPECTED
    is_right(pd.read_parquet(tmp_path / "new.parquet"))


def test_a_column_without_a_date_in_range_stays_numbers(tmp_path):
    path = tmp_path / "survey.sav"
    frame = pd.DataFrame({"pay": [1.0, 2.0], "day": [1e17, 1e18]})
    pyreadstat.write_sav(frame, str(path), variable_format={"day": "DATE11"})
    (said,) = told(lambda: pd.testing.assert_frame_equal(read_frame(path), frame))
    assert said == "column 'day' has dates or times that cannot be read: it is read as the numbers that the file holds"


def test_a_file_of_one_odd_date_column_is_read(tmp_path):
    path = tmp_path / "survey.dta"
    pyreadstat.write_dta(pd.DataFrame({"day": [DAYS[0], 1e18, DAYS[1]]}), str(path), variable_format={"day": "%td"})
    with pytest.warns(UserWarning, match="'day' has dates out of range in 1 row"):
        assert read_frame(path)["day"].tolist()[::2] == DATES
