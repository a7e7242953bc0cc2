"""Frames between R and Python: each value, its type and its missing values come back, or the column is refused."""

import datetime as dt
import json
import os
import tempfile
from contextlib import contextmanager
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surveysynth as ss
from surveysynth.r.exchange import NA_REAL, encode, load, save
from surveysynth.r.session import _code

# ---- ways there and back


def by_file(frame):
    with tempfile.TemporaryDirectory() as folder:
        save(frame, folder)
        return load(folder)


def by_memory(frame):
    return ss.r.from_r(ss.r.to_r(frame))


def by_folder(frame):
    with tempfile.TemporaryDirectory() as there, tempfile.TemporaryDirectory() as back:
        save(frame, there)
        ss.r.call("save_frame", ss.r.call("load_frame", there), back)
        return load(back)


@pytest.fixture(scope="module", params=[by_file, by_memory, by_folder], ids=["file", "memory", "R folder"])
def back(request):
    if request.param is not by_file:
        request.getfixturevalue("r")
    return request.param


def assert_exact(frame, again):
    pd.testing.assert_frame_equal(again, frame, check_exact=True)
    for name in frame:
        if frame[name].dtype in ("float64", "float32"):  # 0.0 == -0.0, but they are not the same
            present = frame[name].notna().to_numpy()
            a, b = (f[name].to_numpy()[present] for f in (frame, again))
            assert a.tobytes() == b.tobytes()


# ---- columns of every type

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6) | st.sampled_from(
    [
        "",
        "NA",
        "NaN",
        "null",
        "a\nb",
        "\r\n",
        "\t",
        " ",
        '"q"',
        "it's",
        "\\",
        "\\u00e9",
        "é",
        "e\u0301",
        "日本",
        "😀",
        "\x01",
        "TRUE",
        "1e5",
    ]
)
NAMES = TEXT | st.sampled_from(
    ["if", "a b", "a`b", 'a"b', "größe", "1", ".", "...", "T", "~x", "row.names", "class", "dtype"]
)
WIDTHS = (8, 16, 32, 64)
ZONES = ["UTC", "Europe/Zurich", "America/New_York", "Asia/Kathmandu", dt.timezone(dt.timedelta(hours=5, minutes=30))]
MOMENTS = st.datetimes(dt.datetime(1698, 1, 1), dt.datetime(2241, 12, 31))


def whole(bits, signed):
    return (
        st.integers(-(2 ** (bits - 1)) + (bits == 64), 2 ** (bits - 1) - 1)
        if signed
        else st.integers(0, 2 ** min(bits, 63) - 1)
    )


def several(n, values, missing=None):
    return st.lists(values if missing is None else st.just(missing) | values, min_size=n, max_size=n)


@st.composite
def columns(draw, n):
    """A column of n rows."""
    kind = draw(
        st.sampled_from(
            ["int", "Int", "float", "Float", "bool", "boolean", "text", "object", "date", "time", "category", "arrow"]
        )
    )
    if kind in ("int", "Int"):
        bits, signed = draw(st.sampled_from(WIDTHS)), draw(st.booleans())
        values = draw(several(n, whole(bits, signed), pd.NA if kind == "Int" else None))
        name = kind if signed else f"U{kind}" if kind == "Int" else f"u{kind}"
        return pd.Series(values, dtype=f"{name}{bits}")
    if kind in ("float", "Float"):
        width = draw(st.sampled_from([32, 64]))
        values = several(n, st.floats(width=width, allow_nan=kind == "float"), pd.NA if kind == "Float" else None)
        return pd.Series(draw(values), dtype=f"{kind}{width}")
    if kind == "bool":
        return pd.Series(draw(several(n, st.booleans())), dtype="bool")
    if kind == "boolean":
        return pd.Series(draw(several(n, st.booleans(), pd.NA)), dtype="boolean")
    if kind == "text":
        dtype = draw(
            st.sampled_from(
                [
                    "str",
                    "string[pyarrow]",
                    "string[python]",
                    pd.ArrowDtype(pa.string()),
                    pd.ArrowDtype(pa.large_string()),
                ]
            )
        )
        return pd.Series(draw(several(n, TEXT, None)), dtype=dtype)
    if kind == "object":
        of = st.sampled_from([TEXT, st.booleans(), whole(64, True), st.floats(allow_nan=False), st.dates(), st.none()])
        return pd.Series(draw(several(n, draw(of), None)), dtype=object)
    if kind == "date":
        dtype = draw(st.sampled_from(["date32[day][pyarrow]", "date64[ms][pyarrow]"]))
        return pd.Series(draw(several(n, st.dates(), None)), dtype=dtype)
    if kind == "time":
        unit = draw(st.sampled_from(["s", "ms", "us"]))
        zone = draw(st.sampled_from([None, *ZONES]))
        moments = [pd.NaT if m is None else pd.Timestamp(m) for m in draw(several(n, MOMENTS, None))]
        naive = pd.Series(moments, dtype="datetime64[us]").astype(f"datetime64[{unit}]")
        return naive if zone is None else naive.dt.tz_localize("UTC").dt.tz_convert(zone)
    if kind == "category":
        levels = st.sampled_from(
            [TEXT, whole(64, True), whole(8, True), st.floats(allow_nan=False), st.booleans(), MOMENTS]
        )
        found = pd.Index(draw(st.lists(draw(levels), unique_by=str, max_size=4)))
        codes = draw(several(n, st.integers(-1, len(found) - 1)))
        return pd.Series(pd.Categorical.from_codes(codes, found, ordered=draw(st.booleans())))
    dtype, values = draw(
        st.sampled_from(
            [
                ("int8[pyarrow]", whole(8, True)),
                ("uint64[pyarrow]", whole(64, False)),
                ("double[pyarrow]", st.floats(allow_nan=False)),
                ("float[pyarrow]", st.floats(allow_nan=False, width=32)),
                ("bool[pyarrow]", st.booleans()),
                ("timestamp[us][pyarrow]", MOMENTS),
                ("timestamp[us, tz=Europe/Zurich][pyarrow]", MOMENTS.map(lambda m: m.replace(tzinfo=dt.UTC))),
            ]
        )
    )
    return pd.Series(draw(several(n, values, None)), dtype=dtype)


@st.composite
def frames(draw):
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    n = draw(st.integers(0, 5)) if names else 0
    return pd.DataFrame({name: draw(columns(n)) for name in names})


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(frame=frames())
def test_a_frame_comes_back_as_it_was(back, frame):
    assert_exact(frame, back(frame))


FIXED = {
    "limits of the R types": {"a": [2**31 - 1, -(2**31) + 1], "b": [2**31, 0], "c": [-(2**31), 0], "d": [2**53, 0],
        "e": [2**53 + 1, 0], "f": [2**63 - 1, -(2**63) + 1]},
    "bits": {"x": [-0.0, 0.0, np.inf, -np.inf, 5e-324, -2.2e-308, 0.1 + 0.2, np.nan, NA_REAL, 1.7976931348623157e308]},
    "big with missing": {"x": pd.Series([2**60 + 1, None], dtype="Int64"),
        "y": pd.Series([2**62 + 1, None], dtype=object)},
    "all missing": {"a": [None, None], "b": [np.nan, np.nan], "c": pd.Series([None] * 2, dtype="str"),
        "d": [pd.NaT] * 2, "e": pd.Series([None] * 2, dtype="Int8"), "f": pd.Categorical([None] * 2)},
    "a row": {"a": [1], "b": ["x"], "c": [True], "d": pd.Categorical([2])},
    "sparse, half": {"a": pd.arrays.SparseArray([0, 0, 1]), "b": pd.Series([0.5, 1, np.nan], dtype="float16")},
    "periods as categories": {"a": pd.Categorical(pd.period_range("2020-01", periods=2, freq="M"))},
    "whole and other numbers": {"a": pd.Series([1, None, 2.5], dtype=object)},
}  # fmt: skip


@pytest.mark.parametrize("name", FIXED)
def test_edges(back, name):
    assert_exact(pd.DataFrame(FIXED[name]), back(pd.DataFrame(FIXED[name])))


def test_every_microsecond_from_1698_to_2241_is_kept(back):
    micros = np.random.default_rng(1).integers(-8_583_000_000_000_000, 8_583_000_000_000_000, 20_000)
    frame = pd.DataFrame({"x": micros.astype("datetime64[us]")})
    assert_exact(frame, back(frame))


def test_the_index_stays_behind(back):
    frame = pd.DataFrame({"x": [1.5, 2.5]}, index=["b", "a"])
    assert_exact(frame.reset_index(drop=True), back(frame))


def test_what_is_not_kept(back):
    """Nanoseconds; categories that are not text, numbers, truth values or times; the type of a column of nothing."""
    frame = pd.DataFrame(
        {
            "time": np.array([123_456_789_012_345_678], "datetime64[ns]"),
            "cut": pd.cut([1], [0, 2]),
            "nothing": pd.Series([None], dtype=pd.ArrowDtype(pa.null())),
        }
    )
    again = back(frame)
    assert again["time"][0] == pd.Timestamp("1973-11-29 21:33:09.012345") and again["time"].dtype == frame["time"].dtype
    assert again["cut"].tolist() == ["(0, 2]"] and again["nothing"].isna().all()


REFUSED = {
    "mixed": ([987654321, "987654321"], r"column 'secret' has values of type mixed-integer, which R has no column for"),
    "dates and times": ([dt.date(1987, 6, 5), dt.datetime(1987, 6, 5, 4)], "values of type mixed"),
    "complex": ([987654321j], "the type complex128"),
    "lists": ([[987654321]], "values of type mixed"),
    "decimals": ([Decimal("987654321.5")], "values of type decimal"),
    "bytes": ([b"987654321"], "values of type bytes"),
    "durations": (pd.to_timedelta([987654321], unit="s"), r"the type timedelta64\[us\]"),
    "times of day": ([dt.time(4, 5)], "values of type time"),
    "periods": (pd.period_range("1987", periods=2, freq="M"), r"the type period\[M\]"),
    "intervals": (pd.interval_range(987654321, periods=2), "the type interval"),
    "decimal arrow": (pd.array([Decimal("9.5")], dtype=pd.ArrowDtype(pa.decimal128(20, 2))), "the type decimal128"),
    "64 bits": (np.array([5, 2**63, 7, 2**63 + 9], "uint64"),
        r"'secret' has whole numbers of more than 63 bits in 2 rows \(row numbers 2, 4;"),
    "64 bits, missing": (pd.array([None, 2**63], dtype="UInt64"), r"more than 63 bits in 1 row \(row numbers 2;"),
    "NA of bit64": ([-(2**63)], "more than 63 bits"),
    "70 bits": (pd.Series([2**70, 1], dtype=object), "more than 63 bits in 1 row"),
    "same as text": (pd.Categorical([987654321, "987654321"]), "categories that are the same as text"),
    "null character": (["a", "98765\0", None, "98765\0"],
        r"'secret' has text with a null or half a character in 2 rows \(row numbers 2, 4;"),
    "half a character": (pd.Series(["\ud800"], dtype=object), r"half a character in 1 row"),
    "null category": (pd.Categorical(["a", "98765\0"]), r"null or half a character in 1 row \(row numbers 2;"),
    "far away": (np.array([2**45], "datetime64[s]"), "column 'secret' has times too far away"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name_and_without_a_value(name, tmp_path):
    values, message = REFUSED[name]
    frame = pd.DataFrame({"fine": 1, "secret": values})
    for way in (encode, lambda f: save(f, tmp_path)):
        with pytest.raises(ss.InputError, match=message) as caught:
            way(frame)
        assert "98765" not in str(caught.value) and "1987" not in str(caught.value) and "secret" in str(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["a", 1], "by names that are text, and one here is a int"),
        (["a", "a"], "several columns of the same name"),
        (["a", "b\0"], "the column name .* has a null"),
        (pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]), "one here is a tuple"),
    ],
)
def test_names_that_r_does_not_have(columns, message):
    with pytest.raises(ss.InputError, match=message):
        encode(pd.DataFrame([[1, 2]], columns=columns))


def test_types_in_r():
    """What each column becomes: read off the encoding, which R is tested to understand below."""
    frame = pd.DataFrame(
        {
            "flag": [True, False],
            "small": [1, 2],
            "large": [2**31, 0],
            "huge": [2**53 + 1, 0],
            "real": [0.5, np.nan],
            "text": ["b", "a"],
            "label": pd.Categorical(["b", "a"], ["b", "a", "c"], ordered=True),
            "day": [dt.date(1970, 1, 3), None],
            "naive": pd.to_datetime(["1970-01-02", None]),
            "local": pd.to_datetime(["1970-01-02", None]).tz_localize("Europe/Zurich"),
            "none": [None, None],
            "offset": pd.to_datetime(["1970-01-02 00:00+05:30", None]),
        }
    )
    found = {column.name: column for column in encode(frame)}
    assert {name: column.type for name, column in found.items()} == {
        "flag": "logical",
        "small": "integer",
        "large": "double",
        "huge": "integer64",
        "real": "double",
        "text": "character",
        "label": "factor",
        "day": "Date",
        "naive": "POSIXct",
        "local": "POSIXct",
        "none": "logical",
        "offset": "POSIXct",
    }
    assert found["label"].levels == ["b", "a", "c"] and found["label"].ordered and found["text"].levels == ["b", "a"]
    assert found["day"].values[0] == 2 and found["naive"].values[0] == 86400 and found["local"].values[0] == 82800
    assert [found[name].tz for name in ("naive", "local", "offset")] == ["UTC", "Europe/Zurich", "UTC"]
    assert found["offset"].values[0] == 86400 - 5.5 * 3600
    assert found["real"].values[1:].tobytes() == NA_REAL.tobytes() and found["none"].values.tolist() == [-(2**31)] * 2


def test_missing_values_are_na_to_r_and_not_nan(r):
    frame = pd.DataFrame(
        {
            "a": [1.5, np.nan],
            "b": pd.Series([1, None], dtype="Int8"),
            "c": pd.to_datetime(["2020-01-01", None]),
            "d": [dt.date(2020, 1, 1), None],
            "e": [2**60, 1],
            "f": ["NA", None],
            "g": pd.Categorical(["x", None]),
        }
    )
    frame["e"] = pd.array([2**60, None], dtype="Int64")
    looks = r.r(
        "function(x) vapply(x, function(v) is.na(v)[2] && !is.na(v)[1] && !(is.double(v) && is.nan(unclass(v)[2])), NA)"
    )
    assert list(looks(ss.r.to_r(frame))) == [True] * 7


# ---- from R

FROM_R = {
    "logical": "data.frame(x = c(TRUE, NA, FALSE))",
    "integer": "data.frame(x = c(1L, NA, -.Machine$integer.max))",
    "double": "data.frame(x = c(0.1, NA, Inf, -Inf, -0.0, 5e-324, 2^53, 2^60))",
    "character": 'data.frame(x = c("a", NA, "", "NA", "\\u00e9\\U1F600", "a\\nb", "\\"", "\\\\"))',
    "factor": 'data.frame(x = factor(c("b", NA, "", "\\u00e9"), levels = c("b", "z", "\\u00e9", "")))',
    "ordered": 'data.frame(x = factor(c("low", NA, "high"), levels = c("low", "mid", "high"), ordered = TRUE))',
    "no levels": "data.frame(x = factor(c(NA, NA)))",
    "Date": 'data.frame(x = as.Date(c("1582-10-15", NA, "9999-12-31", "0001-01-01")))',
    "POSIXct": 'data.frame(x = as.POSIXct(c("2020-03-29 01:30", NA, "1850-01-01 12:00"), tz = "Europe/Zurich") + 0.25)',
    "integer64": 'data.frame(x = bit64::as.integer64(c("9007199254740993", NA, "-9223372036854775807")))',
    "names": 'setNames(data.frame(1, 2L, "c", TRUE, 5), c("if", "a b", "gr\\u00f6\\u00dfe", "a`b", ""))',
    "no rows": 'data.frame(a = NA, b = 1, c = "x", d = factor("y", levels = c("z", "y")), e = Sys.Date(), f = 1L)[0, ]',
    "no columns": "data.frame()",
    "nhanes": "`row.names<-`(nhanes, NULL)",
}  # fmt: skip


@pytest.fixture
def same(r):
    return r.r('function(x, y) { attr(y, "pandas") <- NULL; identical(x, y, num.eq = FALSE) }')


@pytest.mark.parametrize("name", FROM_R)
@pytest.mark.parametrize("way", ["memory", "folder"])
def test_a_frame_of_r_comes_back_identical(r, same, name, way, tmp_path):
    original = r.r(FROM_R[name])
    if way == "memory":
        again = ss.r.to_r(ss.r.from_r(original))
    else:
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir(), there.mkdir()
        ss.r.call("save_frame", original, str(here))
        save(load(here), there)
        again = ss.r.call("load_frame", str(there))
    assert same(original, again)[0]


def test_types_in_pandas(r):
    frame = ss.r.from_r(
        r.r("""data.frame(
        flag = c(TRUE, FALSE), flagged = c(TRUE, NA), whole = 1:2, gap = c(1L, NA), real = c(1, NA), text = c("a", NA),
        label = factor(c("b", "a"), levels = c("b", "a")), day = as.Date(c("2020-02-29", NA)),
        time = as.POSIXct(c("2020-02-29 12:00:00", NA), tz = "Asia/Kathmandu"))""")
    )
    assert frame.dtypes.astype(str).to_dict() == {
        "flag": "bool",
        "flagged": "boolean",
        "whole": "int64",
        "gap": "Int64",
        "real": "float64",
        "text": "str",
        "label": "category",
        "day": "date32[day][pyarrow]",
        "time": "datetime64[us, Asia/Kathmandu]",
    }
    assert ss.r.from_r(r.r("data.frame(x = c(NaN, NA, 1))"))["x"].isna().tolist() == [True, True, False]
    assert frame["day"][0] == dt.date(2020, 2, 29) and frame["time"][0].isoformat() == "2020-02-29T12:00:00+05:45"
    assert frame["label"].cat.categories.tolist() == ["b", "a"] and frame.iloc[1].isna().sum() == 6


def test_columns_that_only_look_different(r):
    """Labelled, AsIs, of one dimension, in Latin-1; dates as integers, times as lists; NA as a level."""
    r.r('requireNamespace("haven", quietly = TRUE)')  # whose methods may be there, or not
    frame = ss.r.from_r(
        r.r("""local({
        x <- data.frame(labelled = 1:3)
        labelled <- function(x, ...) structure(x, ..., class = c("haven_labelled", "vctrs_vctr", typeof(x)))
        x$labelled <- labelled(c(1, 2, NA), labels = c(no = 1, yes = 2))
        x$whole <- labelled(c(1L, 2L, NA), labels = c(no = 1L))
        x$text <- labelled(c("a", "b", NA), labels = c(A = "a"))
        x$declared <- labelled(c(1, 99, 8), na_values = 99, na_range = c(7, Inf))
        class(x$declared) <- c("haven_labelled_spss", class(x$declared))
        x$asis <- I(c("a", NA, "b"))
        x$vector <- tapply(c(5, 6, 7), c("a", "b", "c"), sum)
        x$latin <- c(`Encoding<-`("\\xe9t\\xe9", "latin1"), "\\u00e9t\\u00e9", NA)
        x$day <- structure(c(1L, NA, 3L), class = "Date")
        x$half <- as.Date(c(1.5, NA, -0.5), origin = '1970-01-01')
        x$list <- as.POSIXlt(c("2020-01-01", NA, "2020-01-02"), tz = "UTC")
        x$level <- factor(c("a", NA, "b"), exclude = NULL)
        x
    })""")
    )
    assert (
        frame["labelled"].tolist()[:2] == [1, 2]
        and frame["whole"].dtype == "Int64"
        and frame["text"].tolist()[:2] == ["a", "b"]
    )
    assert frame["declared"].isna().tolist() == [False, True, True]
    assert frame["asis"].tolist()[::2] == ["a", "b"] and frame["vector"].tolist() == [5, 6, 7]
    assert frame["latin"].tolist()[:2] == ["été", "été"]
    assert frame["day"].tolist()[::2] == [dt.date(1970, 1, 2), dt.date(1970, 1, 4)]
    assert frame["half"].tolist()[::2] == [dt.date(1970, 1, 2), dt.date(1969, 12, 31)]
    assert frame["list"][2] == pd.Timestamp("2020-01-02", tz="UTC")
    assert frame["level"].cat.categories.tolist() == ["a", "b"] and frame["level"].isna().tolist() == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("I(list(98765, 2))", "column .secret. is a list or a matrix, which cannot go to Python"),
        ("matrix(98765, 2, 2)", "a list or a matrix"),
        ("data.frame(a = 98765, b = 1:2)", "a list or a matrix"),
        ("as.raw(1:2)", "of type raw"),
        ("c(98765i, 1)", "of type complex"),
        ("as.difftime(c(98765, 1), units = 'secs')", "of class difftime"),
        ("c('98765\\xff', 'a')", "text in an unknown encoding"),
        ("as.Date(c(98765e9, 1), origin = '1970-01-01')", r"'secret' has dates or times in 1 row \(row numbers 1;"),
        ("as.Date(c(1, -Inf), origin = '1970-01-01')", r"dates or times in 1 row \(row numbers 2;"),
        ("as.POSIXct(c(Inf, 1), origin = '1970-01-01', tz = 'UTC')", "infinite or too far away"),
        (
            "as.POSIXct(c(98765, 1), origin = '1970-01-01', tz = 'Nowhere/Land')",
            "time zone that Python does not know, 'Nowhere/Land'",
        ),
    ],
)
def test_columns_that_python_does_not_have(r, column, message):
    data = r.r(f"suppressWarnings({{ x <- data.frame(fine = 1:2); x$secret <- {column}; x }})")
    with pytest.raises(ss.SurveySynthError, match=message) as caught:
        ss.r.from_r(data)
    assert "98765" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "message"), [("c('a', 'a')", "several columns of the same name"), ("c('a', NA)", "has NA for its name")]
)
def test_names_that_pandas_does_not_have(r, names, message):
    with pytest.raises(ss.r.RError, match=message):
        ss.r.from_r(r.r(f"setNames(data.frame(1, 2), {names})"))


CHANGED = {
    "a fraction": ("int8", [1, 2], "x + 0.5", "float64", [1.5, 2.5]),
    "too large": ("int8", [1, 2], "x * 1000L", "int64", [1000, 2000]),
    "negative": ("uint8", [1, 2], "-x", "int64", [-1, -2]),
    "still whole": ("int16", [1, 2], "x + 1", "int16", [2, 3]),
    "missing": ("int32", [1, 2], "c(x[1], NA)", "Int64", [1, pd.NA]),
    "not single": ("float32", [0.5, 2], "x / 3", "float64", [0.5 / 3, 2 / 3]),
    "single": ("float32", [0.5, 2], "x / 2", "float32", [0.25, 1]),
    "numbers for flags": ("bool", [True, False], "as.integer(x)", "int64", [1, 0]),
    "flags for numbers": ("int8", [1, 0], "x > 0", "bool", [True, False]),
    "text for numbers": ("int8", [1, 2], "as.character(x)", "str", ["1", "2"]),
    "a factor for text": ("str", ["b", "a"], "factor(x)", "category", ["b", "a"]),
    "a factor for numbers": ("int8", [3, 4], "factor(x)", "category", ["3", "4"]),
    "text for a factor": ("category", ["b", "a"], "as.character(x)", "str", ["b", "a"]),
    "other levels": ("category", [1, 2], "factor(c('one', 'two')[x])", "category", ["one", "two"]),
    "fewer levels": ("category", [1, 2], "droplevels(factor(c('2', '2'), levels = c('1', '2')))", "category", [2, 2]),
    "text for objects": ("object", ["a", None], "toupper(x)", "object", ["A", None]),
    "a time for objects": ("object", ["a", "b"], "as.POSIXct(c(0, 60), origin = '1970-01-01', tz = 'UTC')",
        "datetime64[us, UTC]", list(pd.to_datetime([0, 60], unit="s", utc=True))),
    "a day for a time": ("datetime64[us]", pd.to_datetime(["2020-01-01"] * 2), "as.Date(x)", "date32[day][pyarrow]",
        [dt.date(2020, 1, 1)] * 2),
    "another zone": ("datetime64[us]", pd.to_datetime(["2020-01-01"] * 2), "{attr(x, 'tzone') <- 'Asia/Tokyo'; x}",
        "datetime64[us]", list(pd.to_datetime(["2020-01-01"] * 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_where_r_changed_a_column_the_value_counts_and_not_its_old_type(r, name):
    dtype, values, change, expected_dtype, expected = CHANGED[name]
    frame = ss.r.to_r(pd.DataFrame({"x": pd.Series(values, dtype=dtype)}))
    again = ss.r.from_r(r.r(f"function(d) {{ x <- d$x; d$x <- {change}; d }}")(frame))
    assert str(again["x"].dtype) == expected_dtype
    assert again["x"].tolist() == expected


def test_types_follow_their_columns(r):
    """Columns that R dropped, moved, renamed or added."""
    frame = ss.r.to_r(
        pd.DataFrame({"a": pd.Series([1], dtype="int8"), "b": pd.Series([2], dtype="float32"), "c": ["x"]})
    )
    again = ss.r.from_r(r.r("function(d) { d$new <- 7L; names(d)[1] <- 'z'; d$c <- NULL; d }")(frame))
    assert again.dtypes.astype(str).to_dict() == {"new": "int64", "b": "float32", "z": "int64"}


@contextmanager
def without_package(r, package):
    """Our R code as if a package of R were not installed."""
    code = _code()
    code["requireNamespace"] = r.r(f"function(name, ...) name != '{package}' && base::requireNamespace(name, ...)")
    try:
        yield
    finally:
        r.r["rm"]("requireNamespace", envir=code)


def test_without_bit64(r):
    frame = pd.DataFrame({"fine": [2**53], "id": [2**53 + 1]})
    with without_package(r, "bit64"):
        with pytest.raises(
            ss.r.RError, match=r"column .id. has whole numbers beyond 2\^53.*.bit64.: install.packages"
        ) as caught:
            ss.r.to_r(frame)
        assert "9007" not in str(caught.value)
        assert_exact(frame[["fine"]], by_memory(frame[["fine"]]))
    assert_exact(frame, by_memory(frame))


def test_the_files_are_this_users(tmp_path):
    """Also where the umask gives everybody everything."""
    umask = os.umask(0)
    try:
        save(pd.DataFrame({"pay": [71001.0, 3.5], "name": ["Ann", "Bo"]}), tmp_path)
    finally:
        os.umask(umask)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(
        ["1.bin", "2.bin", "columns.json"], 0o600
    )


def test_the_folder_is_what_it_says(tmp_path):
    """Little-endian numbers by column, and json that anybody can read."""
    save(pd.DataFrame({"é": [1.5, np.nan], "b": ["x", None]}), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.bin", "2.bin", "columns.json"]
    assert (tmp_path / "1.bin").read_bytes() == np.array([1.5], "<f8").tobytes() + b"\xa2\x07\0\0\0\0\xf0\x7f"
    assert (tmp_path / "2.bin").read_bytes() == np.array([1, -(2**31)], "<i4").tobytes()
    assert json.loads((tmp_path / "columns.json").read_text("utf-8")) == {
        "columns": [
            {"name": "é", "type": "double", "dtype": "float64"},
            {"name": "b", "type": "character", "levels": ["x"], "dtype": "str"},
        ]
    }
