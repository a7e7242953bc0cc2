"""Frames, and files of them in any dialect of csv: separators, marks, quotes, encodings, headers, missing values."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from hypothesis import assume
from hypothesis import strategies as st

from surveysynth.design.read import read_frame
from surveysynth.errors import InputError

SEPARATORS, DECIMALS, THOUSANDS = ",;\t|", ".,", ["", ".", ",", " ", "\u00a0", "'"]
TEXTS = ["north", "NA", "None", "a,b", "x;y", 'say "so"', "é", " x ", "1a", "5 %", "two\nlines", "tab\tbed", "-"]
NOTHING = None


@dataclass
class Written:
    """A file and what is in it.

    Attributes
    ----------
    content : bytes
    columns : dict
        Of values: numbers, texts, truths, None where they are missing.
    fields : dict
        The same as they are written.
    options : dict
        What is said when it is read.
    told : bool
        All that the file does not show for certain is said, so that it must be read.
    """

    content: bytes
    columns: dict[str, list]
    fields: dict[str, list[str]]
    options: dict
    told: bool


@dataclass
class Dialect:
    """How numbers are written."""

    decimal: str
    thousands: str

    def number(self, sign: str, whole: int, fraction: str) -> str:
        """A number with its marks."""
        grouped = f"{whole:,}".replace(",", self.thousands)
        return sign + grouped + (self.decimal + fraction if fraction else "")


@st.composite
def numbers(draw, dialect, n):
    """Whole numbers and decimals: values and how they are written."""
    largest = draw(st.sampled_from([9, 99, 999, 5_000, 2_000_000, 10**17, 10**20]))
    places = draw(st.sampled_from([0, 0, 1, 2, 3, 6, None]))  # None: as many as each number has
    values, fields = [], []
    for _ in range(n):
        whole, sign = draw(st.integers(0, largest)), draw(st.sampled_from(["", "", "", "-"]))
        digits = draw(st.integers(1, 4)) if places is None else places
        fraction = f"{draw(st.integers(0, 10**digits - 1)):0{digits}}" if digits else ""
        fraction = fraction.rstrip("0") if places is None else fraction
        fields.append(dialect.number(sign, whole, fraction))
        values.append(float(f"{sign}{whole}.{fraction}") if fraction else int(f"{sign}{whole}"))
    return values, fields


@st.composite
def codes(draw, n):
    """Codes of one length, of which one begins with a zero."""
    length = draw(st.integers(2, 5))
    found = [f"{draw(st.integers(0, 10**length - 1)):0{length}}" for _ in range(n)]
    found[draw(st.integers(0, n - 1))] = f"{draw(st.integers(0, 9)):0{length}}"
    return found, found


@st.composite
def answers(draw, n):
    """Choices that are ticked, of which one answer has several; not all are pairs whose last is 5, as halves are."""
    first = draw(st.sampled_from([1, 1, 1, 101]))
    choice = st.lists(st.integers(first, first + 11), min_size=1, max_size=3, unique=True).map(sorted)
    found = [draw(choice) for _ in range(n)]
    several = [answer for answer in found if len(answer) > 1]
    assume(several and not all(answer[1:] == [5] for answer in several))
    assume(len({len(str(each)) for answer in found for each in answer}) == 1 or max(map(max, found)) < 10)
    texts = [",".join(map(str, answer)) for answer in found]
    return texts, texts


@st.composite
def texts(draw, n):
    """Texts, of which one is no word for a missing value."""
    found = draw(st.lists(st.sampled_from(TEXTS), min_size=n, max_size=n))
    found[draw(st.integers(0, n - 1))] = "north"
    return found, found


@st.composite
def truths(draw, n):
    """True and False as R or Python writes them."""
    style = draw(st.sampled_from([("True", "False"), ("TRUE", "FALSE")]))
    found = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return found, [style[0] if value else style[1] for value in found]


@st.composite
def frames_and_files(draw):
    """A frame and its file."""
    separator, decimal = draw(st.sampled_from(SEPARATORS)), draw(st.sampled_from(DECIMALS))
    thousands = draw(st.sampled_from([mark for mark in THOUSANDS if mark != decimal]))
    dialect, n = Dialect(decimal, thousands), draw(st.integers(1, 12))
    kind_of_column = st.sampled_from(["number"] * 4 + ["code", "answer", "text", "truth"])
    kinds = draw(st.lists(kind_of_column, min_size=1, max_size=5))
    makers = {"code": codes(n), "answer": answers(n), "text": texts(n), "truth": truths(n)}
    names = [f"{kind}{number}" for number, kind in enumerate(kinds)]
    columns, fields = {}, {}
    for name, kind in zip(names, kinds, strict=True):
        values, written = draw(numbers(dialect, n) if kind == "number" else makers[kind])
        gap = draw(st.sampled_from(["", "", "NA", ".", "NaN", " "])) if kind in ("number", "truth") else ""
        gaps = draw(st.lists(st.sampled_from([False] * 4 + [True]), min_size=n, max_size=n))
        if kind == "text":
            gaps = [g and value != "north" for g, value in zip(gaps, values, strict=True)]
        elif kind in ("code", "answer"):  # the value that shows the kind stays
            gaps = [False] * n
        columns[name] = [NOTHING if g else value for g, value in zip(gaps, values, strict=True)]
        fields[name] = [gap if g else field for g, field in zip(gaps, written, strict=True)]
    shown = [field for name, kind in zip(names, kinds, strict=True) if kind == "number" for field in fields[name]]
    told = draw(st.booleans())
    if separator == "," and thousands == "." and not told:  # a point alone is a decimal point there
        assume(any("," in field for field in shown))
    options = {}
    if told:
        as_they_are = [name for name, kind in zip(names, kinds, strict=True) if kind == "answer"]
        options |= {"decimal": decimal, "text": as_they_are}
        options |= {"thousands": thousands.replace("\u00a0", " ")} if thousands else {}
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "cp1252", "utf-16"]))
    options |= {"encoding": encoding} if encoding != "utf-8" else {}
    options |= {"separator": separator} if draw(st.booleans()) or separator == "|" else {}
    pads = draw(st.lists(st.sampled_from(["{}", "{}", " {}", "{} "]), min_size=len(names), max_size=len(names)))
    everything = draw(st.booleans())
    end = draw(st.sampled_from(["\n", "\r\n"]))

    def quoted(field: str) -> str:
        need = everything or any(mark in field for mark in (separator, '"', "\n"))
        return '"' + field.replace('"', '""') + '"' if need else field

    header = separator.join(quoted(pad.format(name)) for pad, name in zip(pads, names, strict=True))
    records = [separator.join(quoted(fields[name][i]) for name in names) for i in range(n)]
    if len(names) == 1:
        assume(all(record.strip() for record in records))  # an empty line is no record
    text = draw(st.sampled_from(["", "\ufeff"])) if encoding == "utf-8" else ""
    content = (text + end.join([header, *records]) + end).encode(encoding)
    return Written(content, columns, fields, options, told)


def is_read_or_refused(path, written: Written) -> None:
    """The file is what was written, or is refused by the package where something is left to say."""
    path.write_bytes(written.content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = read_frame(path, **written.options)
    except InputError as refused:
        assert not written.told, str(refused)
        return
    assert list(frame) == list(written.columns)
    for name, values in written.columns.items():
        long = any(isinstance(value, int) and abs(value) > 2**53 for value in values)
        for got, value, field in zip(frame[name].tolist(), values, written.fields[name], strict=True):
            assert _is(got, value, field, long=long), (name, got, value, field)


def _is(got, value, field: str, *, long: bool) -> bool:
    if value is NOTHING:
        return bool(pd.isna(got))
    if isinstance(got, str):  # numbers that no type holds exactly stay as they stand
        return got == field and (isinstance(value, str) or long)
    if isinstance(value, str):
        return False
    same_type = isinstance(got, bool | np.bool_) == isinstance(value, bool)
    return same_type and (got == value or math.isclose(got, value, rel_tol=2e-16))
