"""Hypothesis strategies for what a user may hand over: frames of every dtype and name, with values planted in them."""

from __future__ import annotations

import datetime
import decimal
import os
import re
from contextlib import contextmanager

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from surveysynth.errors import SurveySynthError

TEXT, NUMBER = "Geheimnis", 987_654.25  # in confidential cells, and never in a message
PLANTED = re.compile("eheimni|987[_,]?654")
TIMES = int(os.environ.get("SURVEYSYNTH_FUZZ", "1"))  # as many times as many cases: make fuzz


def cases(number: int) -> settings:
    """Half of so many cases, the same ones in every run; all of them, several times, where more are asked for."""
    return settings(
        max_examples=number // 2 if TIMES == 1 else number * TIMES,
        deadline=None,
        derandomize=TIMES == 1,
        database=None,
        suppress_health_check=[*HealthCheck],
    )


@contextmanager
def only_our_errors():
    """An error is one of ours, and quotes nothing confidential; everything else is a failure of the test."""
    try:
        yield
    except SurveySynthError as error:
        said = str(error)
        assert not PLANTED.search(said), f"a confidential value in: {said}"
        assert said.strip(), "an error without a word"


EXTREME = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    3.0,
    NUMBER,
    1e-320,
    1e300,
    1.7e308,
    -1.7e308,
    np.inf,
    -np.inf,
    np.nan,
    2.0**53,
    1e15,
]
TEXTS = [
    TEXT,
    "",
    " ",
    "a",
    "A",
    "ä",
    "北",
    "0",
    "1",
    "nan",
    "None",
    "a\nb",
    "x" * 300,
    "=1+1",
    "\ud800",
    "<b>",
    "\x00",
]


def of(values, *, kind=None):
    """Columns of these values, of any length."""
    return lambda n: st.lists(st.sampled_from(values), min_size=n, max_size=n).map(lambda x: pd.Series(x, dtype=kind))


def categories(values, *, ordered):
    def made(n):
        return st.lists(st.sampled_from([None, *range(len(values))]), min_size=n, max_size=n).map(
            lambda x: pd.Series(pd.Categorical([None if i is None else values[i] for i in x], values, ordered=ordered))
        )

    return made


def mixed(n):
    several = [
        TEXT,
        NUMBER,
        None,
        1,
        2**70,
        [NUMBER],
        {"a": TEXT},
        (1, 2),
        b"x",
        True,
        np.nan,
        decimal.Decimal("1.5"),
        1 + 2j,
        datetime.date(2020, 1, 1),
        pd.NA,
        pd.NaT,
        np.float32(1),
        np.array([1.0]),
    ]
    return st.lists(st.sampled_from(several), min_size=n, max_size=n).map(lambda x: pd.Series(x, dtype=object))


POSITIVE = [1.0, 2.5, 10.0, 987.0, 3.25]
COLUMNS = [
    of(EXTREME),
    of(POSITIVE),
    of(POSITIVE),
    of([x for x in EXTREME if np.isfinite(x)]),
    of([NUMBER]),
    of([1.0, 0.25, 60000.0, np.inf], kind="float16"),
    of([1.0, 2.0, 3e38, np.nan], kind="float32"),
    of([np.longdouble(1), np.longdouble("1e4000")], kind="longdouble"),
    of([0, 1, 2**63 - 1, -(2**63)], kind="int64"),
    of([0, 1, 2**64 - 1], kind="uint64"),
    of([0, 1, 2**70], kind=object),
    of([1, 2, 127], kind="int8"),
    of([True, False]),
    of([True, None], kind="boolean"),
    of([1, None, 987_654], kind="Int64"),
    of([0.5, None, NUMBER], kind="Float64"),
    of([TEXT, "a", None], kind="string"),
    of(TEXTS, kind=object),
    of(TEXTS, kind=object),
    categories(["a", "b", TEXT], ordered=False),
    categories([1, 2, 987_654], ordered=True),
    categories([TEXT, 1, 2.5], ordered=False),
    of([pd.Timestamp("2020-01-01"), pd.NaT]),
    of([pd.Timestamp("2020-01-01", tz="Europe/Vienna")]),
    of([pd.Timedelta("1D"), pd.NaT]),
    of([pd.Period("2020-01", "M")]),
    of([pd.Interval(0, 1), pd.Interval(1, 2)]),
    of([1 + 2j, NUMBER]),
    mixed,
    mixed,
    lambda n: of(POSITIVE)(n).map(lambda x: x.astype(pd.SparseDtype("float64"))),
    lambda n: of(POSITIVE)(n).map(lambda x: x.astype("float64[pyarrow]")),
    lambda n: of(["a", "b"])(n).map(lambda x: x.astype("string[pyarrow]")),
]
NAMES = [
    "y",
    "x",
    "w",
    "g",
    "s",
    "Intercept",
    "weight",
    "a b",
    "",
    " ",
    "größe",
    "C(x)",
    "y~x",
    "`",
    "'",
    '"',
    "x:g",
    "1",
    "0",
    "income",
    "\ud800",
    "n" * 200,
    "one\ntwo",
    "None",
    "index",
    "level_0",
]
ODD_NAMES = [1, 0, None, np.nan, ("a", "b"), 1.5, True]


@st.composite
def frames(draw, *, most=24, odd_names=True):
    """A frame and the names of its columns: of any dtypes, or empty, of one row, with duplicated and odd names."""
    n = draw(st.sampled_from([0, 1, 2, 3, 8, most]))
    width = draw(st.integers(0, 5))
    names = [draw(st.sampled_from(NAMES + (ODD_NAMES if odd_names else []))) for _ in range(width)]
    series = [draw(draw(st.sampled_from(COLUMNS))(n)) for _ in range(width)]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=range(n))
    frame.columns = pd.Index(names, dtype=object)
    if draw(st.integers(0, 9)) == 0 and n:
        frame.index = pd.Index([TEXT] * n)
    return frame


def role(frame, draw):
    """A column by its name, mostly, or something else that is no column."""
    return draw(st.sampled_from([*frame.columns, None, *frame.columns, "nowhere"]))
