"""Reading files: what comes in is what was written, and a broken file is not quoted."""

import copy
import io
import pickle
import traceback
import warnings
import zipfile

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from surveysynth import InputError, SurveyDesign, convert
from surveysynth.design.missing_codes import likely_missing
from surveysynth.design.read import distinct, read_frame, read_labelled

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
    """Nor where values occur twice."""
    path = tmp_path / "survey.csv"
    path.write_text("d,m,12,12,23.764247068640294,26357.53013103927\nd,f,4,5,6.5,1.5\n")
    with pytest.raises(InputError) as caught:
        SurveyDesign.read(path, weights="wt")
    assert str(caught.value) == (
        "'survey.csv' has several columns of the same name: 6 columns, 4 whose names look like values: where there is "
        "no header line, give the file a first line with the column names; rename them in the file"
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
        "twice": [1.0, 2.0, 1.0, 3.0, 1.0],  # one label for two values: labels alone would lose one
        "plain": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
)
LABELS = {
    "educ": {1: "low", 2: "mittlère", 3: "high", 4: "unused"},
    "pay": {-1: "refused"},
    "twice": {1: "same", 2: "same", 3: "other"},
}


@pytest.mark.parametrize("suffix", [".dta", ".sav", ".zsav"])
def test_value_labels(suffix, tmp_path):
    path = str(tmp_path / f"survey{suffix}")
    write = pyreadstat.write_dta if suffix == ".dta" else pyreadstat.write_sav
    write(LABELLED, path, variable_value_labels=LABELS)
    got = read_frame(path)
    assert got["educ"].tolist()[:4] == ["high", "low", "mittlère", "low"] and got["educ"].isna()[4]
    assert not got["educ"].cat.ordered and got["educ"].cat.categories.tolist() == ["low", "mittlère", "high", "unused"]
    assert got["twice"].tolist() == ["same (1)", "same (2)", "same (1)", "other", "same (1)"]
    assert got["twice"].cat.categories.tolist() == ["same (1)", "same (2)", "other"]
    as_it_is = ["pay", "plain"]
    pd.testing.assert_frame_equal(got[as_it_is], LABELLED[as_it_is], check_dtype=False)


def test_labels_that_codes_tell_apart_stay_apart():
    """"no (2)" is a label of its own here, beside the 2 that is called "no"."""
    found = distinct({2: "no", 3: "no", 4: "no (2)", 5: "yes"})
    assert found == {2: "no (2) (2)", 3: "no (3)", 4: "no (2) (4)", 5: "yes"}


@pytest.mark.parametrize("suffix", [".dta", ".sav"])
@pytest.mark.parametrize("missing_codes", [None, {"sex": []}, {"age": []}, {"age": [-8]}, {"age": [-8, 97]}, [-8, 97]])
def test_labels_of_some_numbers_are_asked_about_once(suffix, missing_codes, tmp_path):
    """-8 and 97 are no ages; 80 and over is one."""
    path = str(tmp_path / f"survey{suffix}")
    write = pyreadstat.write_dta if suffix == ".dta" else pyreadstat.write_sav
    frame = pd.DataFrame({"age": [80.0, 34.0, -8.0, 97.0], "sex": [1.0, 2.0, 1.0, 2.0]})
    labels = {"age": {80: "80 or older", -8: "other reason", 97: "Don\u2019t know"}}
    write(frame, path, variable_value_labels=labels)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = read_frame(path, missing_codes=missing_codes)
        convert(path, tmp_path / "converted.parquet", missing_codes=missing_codes)
    assert got["age"].tolist()[:2] == [80, 34]
    texts = [str(each.message) for each in said]
    if missing_codes is None or "sex" in missing_codes:
        assert len(texts) == 2
        for text in texts:
            assert '-8 = "other reason", 97 = "Don\u2019t know", 80 = "80 or older"' in text
            assert "missing_codes={'age': [-8, 97]}, with [] in its place if none does" in text
    elif missing_codes == {"age": [-8]}:
        assert len(texts) == 2
        for text in texts:
            assert '97 = "Don\u2019t know" is not among' in text and "80" not in text
            assert "missing_codes={'age': [-8, 97]}" in text
    else:
        assert not texts


def test_texts_of_which_some_have_labels_stay_texts(tmp_path):
    path = str(tmp_path / "survey.sav")
    frame = pd.DataFrame({"job": ["101", "abc", "-9", "abc"]})
    pyreadstat.write_sav(frame, path, variable_value_labels={"job": {"-9": "Verweigert", "101": "clerk"}})
    labels = r"'-9' = .Verweigert., '101' = .clerk."
    with pytest.warns(UserWarning, match=rf"'job' has texts, .* in 2 rows .*{labels}") as said:
        got = read_frame(path)
    assert got["job"].tolist() == frame["job"].tolist()
    assert "missing_codes={'job': ['-9']}" in str(said[0].message) and "abc" not in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = read_frame(path, missing_codes={"job": ["-9"]})
    assert got["job"].isna().tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Refused", True), ("REFUSAL", True), ("Don't know", True), ("not asked", True), ("Not applicable", True),
        ("Missing", True), ("NA", True), ("DK", True), ("Inapplicable", True), ("weiß nicht", True),
        ("keine Angabe", True), ("Refus de répondre", True), ("Ne sait pas", True), ("Sans objet", True),
        ("No contesta", True), ("No sabe", True), ("NS/NC", True), ("Legitimate skip", True),
        ("80 or older", False), ("No", False), ("none", False), ("Native", False), ("Not employed", False),
        ("Dismissing clerk", False), ("Nee", False), ("Naples", False), ("Never", False), ("Keine", False),
    ],
)  # fmt: skip
def test_labels_that_say_there_is_no_answer(text, missing):
    assert likely_missing({9: text}) == ([9] if missing else [])
    assert likely_missing({-9: text}) == [-9]


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
    yield ".csv", text + b'"canary-L,1\n'
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


# csv files of other programs


PAY = pd.DataFrame(
    {
        "id": [101, 102, 103],
        "job": ["clerk, senior", "smith; farrier", "none"],
        "pay": [1234.5, 0.25, 1200.0],
    }
)
QUOTED = '''"id"{0}"job"{0}"pay"
101{0}"clerk, senior"{0}1234{1}5
102{0}"smith; farrier"{0}0{1}25
103{0}"none"{0}1200
'''
WRITTEN = [(",", "."), (";", ","), (";", "."), ("\t", ","), ("\t", "."), ("|", ",")]


@pytest.mark.parametrize("first", ["", "sep={0}\n", '"sep={0}"\n', "SEP={0}\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize(("separator", "point"), WRITTEN)
def test_separator_and_decimal_comma_are_found(separator, point, bom, first, tmp_path):
    path = tmp_path / "survey.csv"
    path.write_bytes((bom + (first + QUOTED).format(separator, point)).encode())
    pd.testing.assert_frame_equal(read_frame(path), PAY)
    pd.testing.assert_frame_equal(read_frame(path, separator=separator, decimal=point), PAY)


def test_a_compressed_csv_file_of_semicolons(tmp_path):
    path = tmp_path / "survey.csv"
    for suffix in (".gz", ".bz2", ".xz"):
        PAY.to_csv(f"{path}{suffix}", sep=";", decimal=",", index=False)
        pd.testing.assert_frame_equal(read_frame(f"{path}{suffix}"), PAY)
    with zipfile.ZipFile(f"{path}.zip", "w") as archive:
        archive.writestr("inside.csv", PAY.to_csv(sep=";", decimal=",", index=False))
    pd.testing.assert_frame_equal(read_frame(f"{path}.zip"), PAY)


def csv(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "survey.csv"
    path.write_text(text, encoding=encoding, newline="")
    return path


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("income", ["income"]),
        ('"a;b;c;d",e,f', ["a;b;c;d", "e", "f"]),  # what is in quotes splits nothing
        ('"a,b";"c,d"', ["a,b", "c,d"]),
        ("a,b;c", ["a", "b;c"]),  # two fields either way
        ("a;b,c|d|e", ["a;b,c", "d", "e"]),
        ("sep;set", ["sep", "set"]),
        ('"pay\n(gross)";x', ["pay\n(gross)", "x"]),
    ],
)
def test_the_separator_splits_the_header_into_most_fields(header, columns, tmp_path):
    assert read_frame(csv(tmp_path, f"{header}\n")).columns.tolist() == columns


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1,5", "-0,25", "", "+12,0"], [1.5, -0.25, np.nan, 12]),
        (["1.234,5", "12.345.678,25", "1.234"], [1234.5, 12345678.25, 1234]),
        (["3", "1e+05", "1,5e-07", "1234567,5"], [3, 1e5, 1.5e-7, 1234567.5]),  # as R's write.csv2 writes them
        ([",5", "-,25", "7"], [0.5, -0.25, 7]),  # as SPSS writes them
        ([" 1,5", "2,5 "], [1.5, 2.5]),
        (["01,02", "03,04"], None),  # codes
        (["1,5", "007"], None),
        (["1,5", "none"], None),
        (["1,2,3", "1,2"], None),
        (["1,5", "1.5"], None),
        (["1,5", "1.234"], [1.5, 1234]),  # the comma is a decimal mark, so the point is none
        (["1.2345,5", "1,5"], None),
        (["1,", "2,5"], None),
        (["3;4", "5"], None),
    ],
)
def test_texts_with_a_decimal_comma(texts, numbers, tmp_path):
    quoted = [f'"{text}"' for text in texts]
    got = read_frame(csv(tmp_path, "\n".join(["x;y", *(f"{text};1" for text in quoted)])))["x"]
    assert got.tolist() == texts if numbers is None else got.dtype == float
    if numbers is not None:
        np.testing.assert_array_equal(got, numbers)
    by_commas = read_frame(csv(tmp_path, "\n".join(["x,y", *(f"{text},1" for text in quoted)])))["x"]
    pd.testing.assert_series_equal(by_commas, got)


def test_a_decimal_comma_that_is_given(tmp_path):
    both = read_frame(csv(tmp_path, 'a,b\n"1,5",2\n"1.234,5",3\n'), decimal=",")
    assert both["a"].tolist() == [1.5, 1234.5] and both["b"].tolist() == [2, 3]
    assert read_frame(csv(tmp_path, "a\n1,5\n2,25\n"), decimal=",")["a"].tolist() == [1.5, 2.25]
    assert read_frame(csv(tmp_path, "a;b\n1,5;2\n"), decimal=".")["a"].tolist() == ["1,5"]


def test_a_column_of_truths_with_gaps(tmp_path):
    got = read_frame(csv(tmp_path, "a;b;c\nTrue;1,5;x\n;2,5;y\n"), missing_codes=[1, "y"])
    assert got["a"].tolist()[0] is True and got["b"].tolist() == [1.5, 2.5]
    assert got["c"].isna().tolist() == [False, True]


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize(
    ("records", "bad"),
    [
        (["1{0}2{0}3", "4{0}5"], "1 row (row numbers 1;"),
        (["1{0}2", "", "4{0}5{0}canary", '"7{0}7"{0}8', "9{0}9{0}9{0}9"], "2 rows (row numbers 2, 4;"),
        (["0{0}1{0}2", "1{0}2{0}3"], "2 rows (row numbers 1, 2;"),  # as R's write.table writes row names
        (["1{0}2{0}", "3{0}4{0}"], "2 rows (row numbers 1, 2;"),
        (["1", "2{0}3{0}4"], "1 row (row numbers 2;"),
    ],
)
@pytest.mark.parametrize("before", ["", "sep={0}\n"])
def test_records_with_more_fields_than_the_header_are_refused(before, records, bad, separator, tmp_path):
    path = csv(tmp_path, (before + "\n".join(["first{0}second", *records]) + "\n").format(separator))
    with pytest.raises(InputError) as caught:
        read_frame(path)
    message = str(caught.value)
    assert f"'survey.csv' has 2 column names but more fields in {bad}" in message and "separator=" in message
    report = "".join(traceback.format_exception(caught.value))
    assert "canary" not in report and caught.value.__context__ is None


UMLAUTS = "größe;ort;lohn\n1,5;Köln;1\n2,5;Bonn;2\n"


@pytest.mark.parametrize("encoding", ["cp1252", "latin1", "cp1250", "utf-16", "utf-8-sig", "UTF8"])
def test_an_encoding_that_is_given(encoding, tmp_path):
    got = read_frame(csv(tmp_path, UMLAUTS, encoding), encoding=encoding)
    assert got.columns.tolist() == ["größe", "ort", "lohn"]
    assert got["ort"].tolist() == ["Köln", "Bonn"] and got["größe"].tolist() == [1.5, 2.5]


def refusal(path, **options):
    with pytest.raises(InputError) as caught:
        read_frame(path, **options)
    assert caught.value.__context__ is None
    return str(caught.value)


def test_a_file_that_is_not_utf_8_is_refused_with_the_remedy(tmp_path):
    said = refusal(csv(tmp_path, UMLAUTS, "cp1252"))
    assert "'survey.csv' is not utf-8 in 2 lines (line numbers 1, 2): read it with encoding='cp1252'" in said
    late = refusal(csv(tmp_path, "a,b\n" + "x,1\n" * 300_000 + "ö,1\n", "cp1252"))
    assert "in 1 line (line numbers 300002)" in late
    assert "utf-16: read it with encoding='utf-16'" in refusal(csv(tmp_path, UMLAUTS, "utf-16"))
    assert "is not in encoding='ascii'" in refusal(csv(tmp_path, UMLAUTS), encoding="ascii")
    assert "'cp125' is not one that Python knows" in refusal(csv(tmp_path, UMLAUTS), encoding="cp125")


@pytest.mark.parametrize("suffix", [".dta", ".sav"])
def test_texts_of_an_older_stata_or_spss_file(suffix, tmp_path):
    """Bytes of cp1252 under the name of utf-8, as a file that another program translated."""
    path = tmp_path / f"survey{suffix}"
    write = pyreadstat.write_dta if suffix == ".dta" else pyreadstat.write_sav
    write(pd.DataFrame({"town": ["Köln--", "Bonn"]}), str(path), column_labels={"town": "Größe--"})
    whole = path.read_bytes()
    for text in ("Köln--", "Größe--"):
        whole = whole.replace(text.encode(), text.encode("cp1252") + b" " * (len(text.encode()) - len(text)))
    path.write_bytes(whole)
    assert "encoding='cp1252'" in refusal(path)
    frame, labels = read_labelled(path, None, "cp1252", None, None)
    assert frame["town"].str.strip().tolist() == ["Köln--", "Bonn"] and labels["town"].strip() == "Größe--"
    assert "is encoding='klingon' that of its texts?" in refusal(path, encoding="klingon")


@pytest.mark.parametrize(
    ("suffix", "option", "says"),
    [
        (".sav", {"separator": ";"}, "separator= is for csv files: leave it out for 'survey.sav'"),
        (".parquet", {"decimal": ","}, "decimal= is for csv files"),
        (".parquet", {"encoding": "cp1252"}, "encoding= is not for .parquet files"),
        (".por", {"encoding": "cp1252"}, "encoding= is not for .por files"),
        (".csv", {"separator": ";;"}, "separator must be one character"),
        (".csv", {"separator": '"'}, "separator must be one character"),
        (".csv", {"decimal": ";"}, "decimal=';' is not one of ., ,"),
        (".csv", {"encoding": 1252}, "encoding=1252 is not one that Python knows"),
        (".csv", {"missing_codes": [None]}, "missing_codes must be a list of numbers or texts"),
        (".csv", {"missing_codes": [True]}, "missing_codes must be a list of numbers or texts"),
        (".csv", {"missing_codes": {"PAY": [np.nan]}}, "missing_codes of 'PAY' must be a list"),
        (".csv", {"missing_codes": {"pai": [1]}}, "there is no column 'pai' (did you mean 'PAY'?); the file has WT"),
        (".sav", {"missing_codes": {"Q": [1]}}, "missing_codes: there is no column 'Q'; the file has WT, AREA, N, PAY"),
    ],
)
def test_options_that_do_not_fit(suffix, option, says, tmp_path):
    path = str(tmp_path / f"survey{suffix}")
    WRITERS[suffix](FRAME, path)
    assert says in refusal(path, **option)


# codes of missing values


CODED = pd.DataFrame(
    {
        "age": [31.0, 98.0, 44.0, 99.0],
        "pay": [1200.5, -9.0, 98.0, 99.9],
        "job": ["clerk", "98", "refused", "smith"],
    }
)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".dta", ".sav", ".zsav", ".por", ".xpt"])
def test_missing_codes_of_every_kind_of_file(suffix, tmp_path):
    path = tmp_path / f"survey{suffix}"
    names = str.upper if suffix in (".por", ".xpt") else str
    WRITERS[suffix](CODED.rename(columns=names), str(path))
    every = read_frame(path, missing_codes=[98, "refused", 12345]).rename(columns=str.lower)
    assert every.isna().to_numpy().tolist() == [[False] * 3, [True, False, True], [False, True, True], [False] * 3]
    some = read_frame(path, missing_codes={names("age"): [98, 99], names("pay"): ["-9", 99.9], names("job"): []})
    some = some.rename(columns=str.lower)
    np.testing.assert_array_equal(some["age"], [31, np.nan, 44, np.nan])
    np.testing.assert_allclose(some["pay"], [1200.5, np.nan, 98, np.nan], rtol=1e-6)
    assert some["job"].tolist() == CODED["job"].tolist()


def test_texts_among_numbers_of_a_csv_file_leave_numbers(tmp_path):
    path = csv(tmp_path, "id;pay;note\n1;1.200,5;x\n2;refused;98\n3;99,5;y\n4;98;z\n")
    got = read_frame(path, missing_codes={"pay": ["refused", 99.5, 98]})
    np.testing.assert_array_equal(got["pay"], [1200.5, np.nan, np.nan, np.nan])
    assert got["note"].tolist() == ["x", "98", "y", "z"]
    whole = read_frame(csv(tmp_path, "id,pay\n1,1200\n2,refused\n"), missing_codes="refused")
    np.testing.assert_array_equal(whole["pay"], [1200, np.nan])


def test_a_short_float_of_stata_is_found_by_its_decimals(tmp_path):
    path = tmp_path / "survey.dta"
    pd.DataFrame({"pay": np.array([12.5, 99.9], dtype="float32")}).to_stata(path, write_index=False)
    np.testing.assert_array_equal(read_frame(path, missing_codes=[99.9])["pay"], [12.5, np.nan])


def test_a_category_of_a_parquet_file_that_is_a_code_is_none_any_more(tmp_path):
    jobs = pd.Categorical(["clerk", "refused", "smith"], ["refused", "smith", "clerk"], ordered=True)
    path = tmp_path / "survey.parquet"
    pd.DataFrame({"job": jobs, "years": [1, 98, 2]}).to_parquet(path)
    got = read_frame(path, missing_codes=["refused", 98])
    assert got["job"].cat.categories.tolist() == ["smith", "clerk"] and got["job"].cat.ordered
    assert got["job"].isna().tolist() == got["years"].isna().tolist() == [False, True, False]


SPECIAL = pd.DataFrame(
    {
        "pay": [1200.0, 98.0, 99.0, 850.0],  # labels for codes only
        "educ": [1.0, 2.0, 98.0, 1.0],  # categories, and a code among them
        "year": [98.0, 5.0, 1.0, 5.0],  # a label that reads as another code
        "sex": ["f", "m", "x", "f"],
    }
)
OF_CODES = {
    "pay": {98: "refused", 99: "don't know"},
    "educ": {1: "low", 2: "high", 98: "refused"},
    "year": {98: "before 1990", 5: "98", 1: "later"},
}


@pytest.mark.parametrize("codes", [[98, 99], ["refused", "don't know"], ["refused", 99.0]])
@pytest.mark.parametrize("suffix", [".dta", ".sav", ".zsav"])
def test_codes_are_named_by_number_or_by_label(suffix, codes, tmp_path):
    path = str(tmp_path / f"survey{suffix}")
    write = pyreadstat.write_dta if suffix == ".dta" else pyreadstat.write_sav
    write(SPECIAL, path, variable_value_labels=OF_CODES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an ordinary number
        got = read_frame(path, missing_codes={"pay": codes, "educ": codes})
    np.testing.assert_array_equal(got["pay"], [1200, np.nan, np.nan, 850])
    assert got["educ"].tolist()[:2] == ["low", "high"] and got["educ"].isna().tolist() == [False, False, True, False]
    assert got["educ"].cat.categories.tolist() == ["low", "high"]
    assert got["year"].cat.categories.tolist() == ["later", "98", "before 1990"]
    named = read_frame(path, missing_codes={"pay": codes, "year": ["98"]})["year"]
    assert named.isna().tolist() == [False, True, False, True] and named[0] == "before 1990"


def test_labels_that_are_left_still_warn(tmp_path):
    path = str(tmp_path / "survey.sav")
    pyreadstat.write_sav(SPECIAL, path, variable_value_labels=OF_CODES)
    with pytest.warns(UserWarning, match=r"'pay' has numbers, .* in 1 row \(row numbers 3;.*missing_codes={'pay': \["):
        read_frame(path, missing_codes={"pay": [98]})


def test_labelled_texts_and_letters_of_stata_are_codes_too(tmp_path):
    path = str(tmp_path / "survey.sav")
    pyreadstat.write_sav(SPECIAL, path, variable_value_labels={"sex": {"f": "female", "m": "male", "x": "refused"}})
    sex = read_frame(path, missing_codes=["refused"])["sex"]
    assert sex.cat.categories.tolist() == ["female", "male"] and sex.isna().tolist() == [False, False, True, False]
    path = str(tmp_path / "survey.dta")
    pyreadstat.write_dta(
        pd.DataFrame({"code": [2, "a", 1]}), path, missing_user_values={"code": ["a"]},
        variable_value_labels={"code": {"a": "refused", 1: "one", 2: "two"}},
    )  # fmt: skip
    assert read_frame(path, missing_codes=["refused"])["code"].cat.categories.tolist() == ["one", "two"]


# what the file says of itself


LABEL = {"WT": "Design weight", "PAY": "Gross pay,  a year\n(EUR)", "AREA": ""}


@pytest.mark.parametrize("suffix", [".dta", ".sav", ".zsav", ".xpt", ".por"])
def test_variable_labels_are_headings_of_the_design(suffix, tmp_path):
    path = str(tmp_path / f"survey{suffix}")
    write = {".dta": pyreadstat.write_dta, ".xpt": pyreadstat.write_xport, ".por": pyreadstat.write_por}
    short = {name: " ".join(text.split()) for name, text in LABEL.items()}
    write.get(suffix, pyreadstat.write_sav)(FRAME, path, column_labels=LABEL if suffix == ".sav" else short)
    design = SurveyDesign.read(path, weights="WT")
    assert design.labels == {"WT": "Design weight", "PAY": "Gross pay, a year (EUR)"}
    mine = SurveyDesign.read(path, weights="WT", labels={"PAY": "Pay", "N": "Size"})
    assert mine.labels == {"WT": "Design weight", "PAY": "Pay", "N": "Size"}
    with pytest.raises(InputError, match="labels: there is no column 'PAI'"):
        SurveyDesign.read(path, weights="WT", labels={"PAI": "Pay"})


def test_a_design_knows_how_its_file_was_read(tmp_path):
    path = csv(tmp_path, "wt;größe\n1,5;98\n2,5;3\n", "cp1252")
    codes = {"größe": [98]}
    design = SurveyDesign.read(path, missing_codes=codes, encoding="cp1252", weights="wt")
    codes["größe"].append(3)
    assert design.source == {"file": str(path), "missing_codes": {"größe": [98]}, "encoding": "cp1252"}
    np.testing.assert_array_equal(design.numeric("größe"), [np.nan, 3])
    given = SurveyDesign.read(path, encoding="cp1252", separator=";", decimal=",", weights="wt")
    assert given.source == {"file": str(path), "encoding": "cp1252", "separator": ";", "decimal": ","}
    assert SurveyDesign(design.frame, weights="wt").source is None
    made = design.replicates(R=5, seed=1), given.calibrate({"größe": {98: 4, 3: 6}})
    for other in (copy.copy(design), pickle.loads(pickle.dumps(design)), *made):
        assert other.source is None


def test_a_text_in_a_column_of_numbers_is_named_with_what_to_do(tmp_path):
    design = SurveyDesign.read(csv(tmp_path, "wt,pay\n1,12\n2,canary\n3,canary\n"), weights="wt")
    with pytest.raises(InputError) as caught:
        design.numeric("pay")
    assert str(caught.value) == (
        "column 'pay' is not a number in 2 rows (row numbers 2, 3; the first row is 1); correct these, or read the "
        "file with missing_codes={'pay': [...]} where they are codes, decimal= and thousands= where they have marks"
    )
    path = csv(tmp_path, "wt,pay\n1,12\n2,canary\n")
    again = SurveyDesign.read(path, weights="wt", missing_codes={"pay": ["canary"]})
    np.testing.assert_array_equal(again.numeric("pay"), [12, np.nan])
