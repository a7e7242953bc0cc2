"""Csv files as programs and agencies write them: the numbers are those that were written, or the file is refused."""

import re
import string
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from surveysynth.design import csv_file
from surveysynth.design.read import read_frame
from tests.dialects import frames_and_files, is_read_or_refused


def csv(tmp_path, content, /, **options):
    """The frame of a file, and what was said of it."""
    path = tmp_path / "survey.csv"
    path.write_text(content, encoding="utf-8", newline="")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        frame = read_frame(path, **options)
    return frame, [str(each.message) for each in caught if each.category is UserWarning]


def refusal(tmp_path, content, /, **options):
    with pytest.raises(ss.InputError) as caught:
        csv(tmp_path, content, **options)
    assert caught.value.__context__ is None
    return str(caught.value)


# one decision for the whole file


def test_one_column_decides_what_the_points_of_another_are(tmp_path):
    frame, told = csv(tmp_path, "inc;w\n1.520,50;1.234\n980,00;950\n2.300,75;2.310\n")
    assert frame["inc"].tolist() == [1520.5, 980, 2300.75] and frame["w"].tolist() == [1234, 950, 2310] and not told


def test_points_that_are_decimal_make_commas_thousands(tmp_path):
    frame, _ = csv(tmp_path, 'inc;w\n1,234;1.5\n950;2.5\n12,000;3.5\n')
    assert frame["inc"].tolist() == [1234, 950, 12000] and frame["w"].tolist() == [1.5, 2.5, 3.5]
    quoted, _ = csv(tmp_path, 'inc,w\n"1,234",1.5\n950,2.5\n"12,000",3.5\n')
    pd.testing.assert_frame_equal(quoted, frame)


@pytest.mark.parametrize(
    ("written", "decimal", "number"),
    [
        ("1 234,5", ",", 1234.5),
        ("1\u00a0234\u00a0567,5", ",", 1234567.5),
        ("1\u202f234,5", ",", 1234.5),
        ("1'234.5", ".", 1234.5),
        ("1\u2019234.5", ".", 1234.5),
        ("-1.234.567", ",", -1234567),
        ("1,234,567", ".", 1234567),
        ("1.5e3", ".", 1500),
        ("1,5E+03", ",", 1500),
        ("+12,0", ",", 12),
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_form_that_can_be_one_number_only_is_that_number(written, decimal, number, separator, tmp_path):
    text = f'a{separator}b\n"{written}"{separator}1\n7{separator}2\n'
    assert csv(tmp_path, text)[0]["a"].tolist() == [number, 7]
    assert csv(tmp_path, text, decimal=decimal)[0]["a"].tolist() == [number, 7]


@pytest.mark.parametrize(
    "written", ["€ 5", "5 %", "1.2.3", "1,00,000", "12.34.567", "1.2345,5", "5,", "1 2", "0x1F", "1_000", "+49 151 234"]
)
def test_a_form_that_is_no_number_is_a_text(written, tmp_path):
    assert csv(tmp_path, f'a;b\n"{written}";1\n7;2\n')[0]["a"].tolist() == [written, "7"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("w;x\n1.234;1\n2.345;2\n", "column 'w' has numbers of the form d.ddd, which are thousands or decimals"),
        ("w;x\n1,234;1\n2,345;2\n", "column 'w' has numbers of the form d,ddd"),
        ('w,x\n"1,234",1\n"2,345",2\n', "column 'w' has numbers of the form d,ddd"),
        ('w,x\n"1,234",1.234\n"2,345",2.345\n', "column 'w' has numbers of the form d,ddd"),
        ("a;b\n1,50;1.50\n", "column 'a' has numbers of the form d,dd, and column 'b' of the form d.dd"),
        ("a;b\n1 234;1.234,50\n", "column 'a' has numbers of the form d ddd, and column 'b' of the form d.ddd,dd"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_by_form(text, said, tmp_path):
    message = refusal(tmp_path, text)
    assert said in message and not re.search(r"\d", message)
    for option, value in re.findall(r"(decimal|thousands)=('[^']*')", message):
        csv(tmp_path, text, **{option: value.strip("'")})  # what it advises is taken


@pytest.mark.parametrize(
    ("options", "w"),
    [
        ({"decimal": ","}, [1234, 2345]),
        ({"thousands": "."}, [1234, 2345]),
        ({"decimal": "."}, [1.234, 2.345]),
        ({"thousands": ","}, [1.234, 2.345]),
        ({"text": "w"}, ["1.234", "2.345"]),
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "|"])
def test_the_arguments_decide(separator, options, w, tmp_path):
    assert csv(tmp_path, f"w{separator}x\n1.234{separator}1\n2.345{separator}2\n", **options)[0]["w"].tolist() == w


def test_a_decimal_comma_that_is_given_leaves_no_point_a_decimal(tmp_path):
    frame, told = csv(tmp_path, "a;b;c\n1.234;1.520,50;1.5\n950;2;2.5\n", decimal=",")
    assert frame["a"].tolist() == [1234, 950] and frame["b"].tolist() == [1520.5, 2]
    assert frame["c"].tolist() == ["1.5", "2.5"] and len(told) == 1
    assert "column 'c' has values of the form d.d, which is no number where the decimal mark is ','" in told[0]


def test_where_commas_separate_a_point_alone_is_a_decimal_point(tmp_path):
    frame, told = csv(tmp_path, "w,x\n1.234,1\n2.345,2\n")
    assert frame["w"].tolist() == [1.234, 2.345] and not told


def test_weights_with_points_between_thousands_add_up(tmp_path):
    """As a spreadsheet in German writes them."""
    weights = np.random.default_rng(1).integers(200, 4000, 300)
    grouped = [f"{weight:,}".replace(",", ".") for weight in weights]
    frame, _ = csv(tmp_path, "y;w\n" + "".join(f"{i % 7},50;{weight}\n" for i, weight in enumerate(grouped)))
    assert frame["w"].sum() == weights.sum()


# answers that tick several choices


def test_answers_of_several_choices_are_no_numbers(tmp_path):
    assert csv(tmp_path, "a;y\n1,2;2,50\n3;1,00\n1,2,3;0,75\n")[0]["a"].tolist() == ["1,2", "3", "1,2,3"]
    points, told = csv(tmp_path, 'a,y\n"1,2",2.5\n3,1.5\n"1,3",0.75\n')
    assert points["a"].tolist() == ["1,2", "3", "1,3"]
    assert "column 'a' has values of the form d,d, which is no number where the decimal mark is '.'" in told[0]


@pytest.mark.parametrize("a", [["1,2", "3"], ["1,2", "1,3", "2,4"], ["9,10", "12", "3"], ["101,102", "103"]])
@pytest.mark.parametrize("separator", [",", ";"])
def test_answers_that_could_be_numbers_are_asked_for(separator, a, tmp_path):
    text = f"a{separator}y\n" + "".join(f'"{each}"{separator}1\n' for each in a)
    message = refusal(tmp_path, text)
    assert "which are numbers, or answers that tick several choices: give text=['a'] where they are answers" in message
    assert csv(tmp_path, text, text=["a"])[0]["a"].tolist() == a
    if len(a[0]) < 6:
        frame, told = csv(tmp_path, text, decimal=",")
        assert frame["a"].tolist() == [float(each.replace(",", ".")) for each in a]
        assert "'a' is read as numbers; where it has answers that tick several choices, give text=['a']" in told[0]


@pytest.mark.parametrize(
    "a", [["1,62", "1,75", "2"], ["7,5", "38,5", "40"], ["1,2", "2,1"], ["0,8", "1,2"], ["1,20", "3"], ["1,5", "2,5"]]
)
def test_decimals_that_no_answers_have_are_numbers(a, tmp_path):
    frame, told = csv(tmp_path, "a;y\n" + "".join(f"{each};1\n" for each in a))
    assert frame["a"].tolist() == [float(each.replace(",", ".")) for each in a] and not told


# codes


def test_codes_keep_their_zeros(tmp_path):
    frame, told = csv(tmp_path, "s,fips,z,y\n01,01001,0,0.5\n1,01003,10,0\n10,2013,0,-0.25\n")
    assert frame["s"].tolist() == ["01", "1", "10"] and frame["fips"].tolist() == ["01001", "01003", "2013"]
    assert frame["z"].tolist() == [0, 10, 0] and frame["y"].tolist() == [0.5, 0, -0.25] and not told
    late, _ = csv(tmp_path, "s,y\n" + "1,2\n" * 70_000 + "01,2\n")
    assert late["s"].nunique() == 2
    assert csv(tmp_path, "c;y\n01.11;1,25\n62.01;2\n")[0]["c"].tolist() == ["01.11", "62.01"]  # of industries


def test_strata_with_zeros_are_two_strata(tmp_path):
    """The standard error of the mean by hand: strata of two records each, sum of N_h^2 s_h^2 / n_h."""
    y = [1.0, 3.0, 10.0, 14.0]
    path = tmp_path / "survey.csv"
    path.write_text("s,y,w\n" + "".join(f"{s},{v},5\n" for s, v in zip(["01", "01", "1", "1"], y, strict=True)))
    design = ss.SurveyDesign.read(path, weights="w", strata="s")
    got = ss.estimate(design, "y", statistic="mean")
    assert np.isclose(got["se"].iloc[0], np.sqrt(2 / 2 + 8 / 2) / 2)


def test_columns_that_are_named_are_read_as_they_are(tmp_path):
    text = "code,y\n1001,1\n1003,2\n,NA\n"
    frame, _ = csv(tmp_path, text, text=["code"])
    assert frame["code"].tolist()[:2] == ["1001", "1003"] and frame["code"].isna().tolist() == [False, False, True]
    assert "text: there is no column 'cod' (did you mean 'code'?)" in refusal(tmp_path, text, text="cod")


# missing values


def test_na_is_missing_among_numbers_and_an_answer_among_texts(tmp_path):
    frame, told = csv(tmp_path, "country,y,z,t\nNA,1,.,TRUE\nDE,NA,2, \nNone,3,null,FALSE\n,4,5,NA\n")
    assert frame["country"].tolist()[:3] == ["NA", "DE", "None"] and frame["country"].isna()[3]
    assert frame["y"].isna().tolist() == [False, True, False, False] and frame["z"].isna().sum() == 2
    assert frame["t"].tolist()[::2] == [True, False] and frame["t"].isna().tolist() == [False, True, False, True]
    among, texts = told
    assert "read as missing among numbers: 'NA', '.', 'null', blanks, in y, z, t" in among
    assert "column 'country' has texts, of which 'NA', 'None' in 2 rows are read as an answer" in texts
    assert "give na=['NA', 'None', '.', 'null'] where it is a missing value" in texts


def test_na_that_is_given_is_the_whole_list(tmp_path):
    text = "country,y\nNA,1\nDE,.\n,3\n"
    frame, told = csv(tmp_path, text, na=["NA"])
    assert frame["country"].isna().tolist() == [True, False, True]
    assert frame["y"].tolist() == ["1", ".", "3"] and not told
    assert csv(tmp_path, text, na=[])[0]["country"].tolist()[:2] == ["NA", "DE"]
    assert csv(tmp_path, text, na=".")[0]["y"].isna().tolist() == [False, True, False]


def test_a_column_of_na_alone_is_missing(tmp_path):
    assert csv(tmp_path, "a,b\nNA,1\nNA,2\n")[0]["a"].isna().all()


# names


def test_two_columns_of_one_name_are_refused(tmp_path):
    for header in ("a,b,a", "a,b, a", '"a",b,a '):
        assert "has several columns of the same name: a; rename them" in refusal(tmp_path, f"{header}\n1,2,3\n")
    said = refusal(tmp_path, "71001,m,71001\n1,2,3\n")
    assert "71001" not in said and "header line" in said


def test_blanks_around_names_are_left_out(tmp_path):
    frame, told = csv(tmp_path, " region;\u00a0y ;w\nn;1;2\ns;2;3\n")
    assert list(frame) == ["region", "y", "w"]
    assert told == ["'survey.csv' has blanks around the names of columns, which are left out: region, y"]


def test_names_of_the_tables_are_said_as_they_stand(tmp_path):
    from surveysynth.cli.options import names

    assert names(" region , sex") == ["region", "sex"]
    assert names('"wage, gross",sex') == ["wage, gross", "sex"]


# whole numbers with many digits


def test_identifiers_with_more_digits_than_a_number_holds_keep_them(tmp_path):
    frame, told = csv(tmp_path, f"a,b,c\n{2**53 + 1},{2**64 + 1},{2**64 - 1}\n,1,2\n")
    assert frame["a"].tolist()[0] == str(2**53 + 1) and frame["b"].tolist() == [str(2**64 + 1), "1"]
    assert frame["c"].tolist() == [2**64 - 1, 2] and frame["c"].dtype == np.uint64
    assert [f"column {column!r} has whole numbers with more digits" in "".join(told) for column in "abc"] == [1, 1, 0]
    ss.convert(tmp_path / "survey.csv", tmp_path / "survey.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "survey.parquet"), frame)


# files of other make


@pytest.mark.parametrize("block", [40, 1 << 24])
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1\n2,3\n", [["1", None], ["2", "3"]]),  # a record that is too short
        ("a,b\n  \n\n1,x\n", [["1", "x"]]),
        ('a,b\n1,x"y\n2,"z"w\n3,"u\n,v"\n', [["1", 'x"y'], ["2", "zw"], ["3", "u\n,v"]]),
        ("a,b\r1,x\r2,y\r", [["1", "x"], ["2", "y"]]),
        ('"a\n(b)",b\n1,"""q"""\n', [["1", '"q"']]),
    ],
)
def test_a_file_is_split_as_pandas_splits_it(text, rows, block, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", block)
    frame, _ = csv(tmp_path, text, text="b")
    assert [[None if pd.isna(x) else str(x) for x in row] for row in frame.to_numpy().tolist()] == rows


def test_a_text_in_quotes_that_does_not_end_is_no_end_of_the_file(tmp_path):
    assert "could not be read" in refusal(tmp_path, 'a,b\n1,"x\n2,y\n3,z\n')


# everywhere where files are read


def test_plans_say_how_a_file_is_read(tmp_path):
    (tmp_path / "f.csv").write_text("inc;fips;w\n1.234;1001;2\n2.345;1003;3\nNA;NA;4\n")
    (tmp_path / "plan.toml").write_text(
        '[survey]\nfile = "f.csv"\nweights = "w"\nthousands = "."\ntext = ["fips"]\nna = "NA"\n'
        '[model]\nformula = "inc ~ fips"\n[privacy]\nepsilon = 5\n'
    )
    frame = ss.Plan.read(tmp_path / "plan.toml").design.frame
    assert frame["inc"].tolist()[:2] == [1234, 2345] and frame["fips"].tolist()[:2] == ["1001", "1003"]
    assert frame["inc"].isna()[2] and frame["fips"].isna()[2]


def test_a_design_says_how_its_file_was_read(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("inc;fips;w\n1.234;1001;2\n2.345;1003;3\n")
    design = ss.SurveyDesign.read(path, weights="w", thousands=".", text="fips", na=["NA"])
    assert design.source == {"file": str(path), "thousands": ".", "text": ["fips"], "na": ["NA"]}
    plan = ss.Plan(design, "inc ~ fips", epsilon=5)
    assert 'thousands = "."' in plan.to_toml() and 'text = ["fips"]' in plan.to_toml()


def test_convert_reads_as_read_does(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("inc;fips;c\n1.234;1001;NA\n2.345;1003;x\n")
    where = [str(path), str(tmp_path / "f.parquet")]
    refused = CliRunner().invoke(app, ["convert", *where])
    assert "thousands='.'" in str(refused.exception)
    done = CliRunner().invoke(app, ["convert", *where, "--thousands", ".", "--text", "fips", "--na", "NA"])
    assert done.exit_code == 0
    expected = read_frame(path, thousands=".", text=["fips"], na=["NA"])
    pd.testing.assert_frame_equal(pd.read_parquet(where[1]), expected)


@pytest.mark.parametrize("option", [{"thousands": "."}, {"text": ["a"]}, {"na": ["NA"]}])
def test_options_of_csv_files_are_refused_elsewhere(option, tmp_path):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "f.parquet")
    with pytest.raises(ss.InputError, match=f"{next(iter(option))}= is for csv files"):
        read_frame(tmp_path / "f.parquet", **option)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"thousands": "_"}, "thousands must be the mark between thousands"),
        ({"thousands": ",", "decimal": ","}, "is the decimal mark, too"),
        ({"na": 5}, "a name was expected"),
        ({"text": [5]}, "a name was expected"),
    ],
)
def test_options_that_cannot_be(options, said, tmp_path):
    assert said in refusal(tmp_path, "a;b\n1;2\n", **options)


def test_no_message_quotes_a_value(tmp_path):
    for text in ("w;x\n987.654;1\n", "a;b\n987,65;987.65\n", "a;b\n987,988;1\n"):
        with pytest.raises(ss.InputError) as caught:
            csv(tmp_path, text)
        report = "".join(traceback.format_exception(caught.value))
        assert "987" not in report.replace(str(tmp_path), "") and not set(str(caught.value)) & set(string.digits)


@given(frames_and_files())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
def test_what_was_written_is_read_or_refused(tmp_path, written):
    is_read_or_refused(tmp_path / "survey.csv", written)
