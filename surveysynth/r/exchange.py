"""Exchange of data frames between R and Python without loss, except where :func:`encode` and :func:`decode` say so.

A column is exchanged as a vector of numbers with a description: doubles and integers unchanged, text and
factors as codes of their distinct values.  Values are not printed and parsed, and missing values stay missing in
every type.  The vectors pass through memory (:mod:`surveysynth.r`) or through a folder of files (the R package):

    columns.json    name, type, levels, ... of each column
    1.bin, 2.bin    the numbers of each column, little-endian: float64, int64 or int32

``r_bridge/R/exchange.R`` has the matching R functions.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, guarded
from ..validation import rows

Type = Literal["logical", "integer", "double", "integer64", "character", "factor", "Date", "POSIXct"]

STORED: dict[str, str] = {
    "logical": "<i4",
    "integer": "<i4",
    "double": "<f8",
    "integer64": "<i8",
    "character": "<i4",
    "factor": "<i4",
    "Date": "<f8",
    "POSIXct": "<f8",
}
NA_INTEGER = -(2**31)  # R's NA in 32 bits
NA_INTEGER64 = -(2**63)  # bit64's NA
NA_REAL = np.array([0x7FF00000000007A2], dtype="<u8").view("<f8")[0]  # R's NA in doubles: the NaN with payload 1954
EXACT = 2**53  # largest whole number up to which doubles are exact
NUMBERS = ("integer", "double", "integer64")
DAYS = (-719_162, 2_932_896)  # years 1 to 9999, the range of Python's dates
SECONDS = 9e12  # before or after 1970; microseconds then fit 64 bits
CATEGORY = "category of "
COLUMNS = "columns.json"


@dataclass(frozen=True)
class Column:
    """A column of a data frame, encoded as numbers.

    Attributes
    ----------
    name : str
    type : str
        The R type.
    values : array (n,)
        The numbers, in the storage type ``STORED[type]``.  Text and factors are codes 1, 2, ... of ``levels``.  Dates
        are days since 1970-01-01.  Times are seconds since 1970-01-01 UTC.
    levels : list of str, optional
        Distinct values of text, or levels of a factor.
    ordered : bool
        True if a factor is ordered.
    tz : str, optional
        Time zone of a ``POSIXct``.
    dtype : str, optional
        The original pandas type, which :func:`decode` restores.  R keeps this name with the frame.
    """

    name: str
    type: Type
    values: NDArray[Any]
    levels: list[str] | None = None
    ordered: bool = False
    tz: str | None = None
    dtype: str | None = None

    def meaning(self) -> dict[str, Any]:
        """Return the description of the column without its numbers, as JSON values."""
        meaning = {name: value for name, value in vars(self).items() if name != "values" and value is not None}
        return meaning if self.type == "factor" else {key: value for key, value in meaning.items() if key != "ordered"}


def encode(frame: pd.DataFrame) -> list[Column]:
    """Encode the columns of a frame for R, without the index.

    A column of whole numbers becomes R integers if all fit 32 bits, otherwise doubles if none exceeds 2^53, otherwise
    ``integer64`` (R's package bit64).  NaN, None, NaT and NA become NA.  Times between 1698 and 2242 keep their
    microseconds; R stores seconds as doubles.  A time zone without a name becomes UTC.

    Raises
    ------
    InputError
        A column name is not a text or occurs twice; a column has a mixed type, or one that R does not have; categories
        have the same text; a text or a name contains a null character or half a character (a lone surrogate); a whole
        number has more than 63 bits; a time is too far from 1970 for microseconds.
    """
    for name in frame.columns:
        if not isinstance(name, str):
            raise InputError(f"R takes columns by names that are text, and one here is a {type(name).__name__}")
    if frame.columns.has_duplicates:
        raise InputError("the frame has several columns of the same name; rename them")
    for name in frame.columns:
        if _not_in_r([name]):
            raise InputError(f"the column name {name!r} has a null or half a character; rename it")
    return [_encode(frame[name], name) for name in frame.columns]


def decode(columns: list[Column]) -> pd.DataFrame:
    """Make a frame from encoded columns.

    Logical and integer columns with missing values get pandas' nullable types, a ``Date`` gets
    ``date32[day][pyarrow]``, and text gets ``str``.  If a column came from pandas and R did not
    change its type, it gets its original pandas type.  Categories that R cannot represent (intervals, mixed types,
    objects other than text) are texts.

    Raises
    ------
    InputError
        A date or time is outside Python's range, or a time zone is unknown.
    """
    return pd.DataFrame({column.name: _restored(_decode(column), column) for column in columns})


def save(frame: pd.DataFrame, folder: str | Path) -> None:
    """Write a frame to an empty folder, for R's ``load_frame``.  Only the user can read the files (mode 0600).

    Raises
    ------
    InputError
        For the reasons given in :func:`encode`.
    """
    columns = encode(frame)
    files = [Path(folder) / f"{number}.bin" for number in range(1, len(columns) + 1)]
    for file in (*files, Path(folder) / COLUMNS):
        file.touch(mode=0o600)
    for column, file in zip(columns, files, strict=True):
        column.values.tofile(file)
    meaning = json.dumps({"columns": [column.meaning() for column in columns]}, ensure_ascii=False)
    (Path(folder) / COLUMNS).write_text(meaning, encoding="utf-8")


def load(folder: str | Path) -> pd.DataFrame:
    """Read a frame that was written by :func:`save` or by the R function ``save_frame``."""
    meanings = json.loads((Path(folder) / COLUMNS).read_text(encoding="utf-8"))["columns"]
    return decode(
        [
            Column(**meaning, values=np.fromfile(Path(folder) / f"{number}.bin", STORED[meaning["type"]]))
            for number, meaning in enumerate(meanings, 1)
        ]
    )


def _encode(series: pd.Series, name: str) -> Column:
    dtype, was, missing = series.dtype, _name(series.dtype), series.isna().to_numpy()
    if isinstance(dtype, pd.CategoricalDtype):
        levels, was = [str(level) for level in dtype.categories], CATEGORY + _name(dtype.categories.dtype)
        if len(set(levels)) < len(levels):
            raise InputError(f"column {name!r} has categories that are the same as text; rename them")
        codes = np.where(missing, NA_INTEGER, series.cat.codes.to_numpy().astype("<i4") + 1).astype("<i4")
        _check_text(levels, codes, name)
        return Column(name, "factor", codes, levels, bool(dtype.ordered), dtype=was)
    kind = _kind(series, name)
    if kind == "character":
        code, distinct = pd.factorize(series)  # missing is -1
        codes, levels = np.where(code < 0, NA_INTEGER, code + 1).astype("<i4"), list(map(str, distinct.tolist()))
        _check_text(levels, codes, name)
        return Column(name, kind, codes, levels, dtype=was)
    if kind == "Date":
        days = series.astype(object).where(~missing, None).to_numpy()
        return Column(name, kind, _doubles(days.astype("datetime64[D]").astype("i8"), missing), dtype=was)
    if kind == "POSIXct":
        times: Any = series.dt
        instants = series if times.tz is None else times.tz_convert("UTC").dt.tz_localize(None)
        instants = guarded(  # the message of pandas would quote the confidential time
            lambda: instants.astype("datetime64[us]"),
            (ValueError, OverflowError),
            lambda kind: InputError(f"column {name!r} has times too far away for microseconds; leave them out"),
        )
        seconds = instants.to_numpy().astype("i8") / 1e6
        return Column(name, kind, _doubles(seconds, missing), tz=_zone(times.tz), dtype=was)
    if kind == "logical":
        flags = series.astype("boolean").to_numpy(dtype="<i4", na_value=NA_INTEGER)
        return Column(name, kind, flags, dtype=was)
    if kind == "double":
        return Column(name, kind, _doubles(series.to_numpy(dtype="<f8", na_value=np.nan), missing), dtype=was)
    return _whole(series, name, missing)


def _name(dtype: Any) -> str:
    """Return a name of a pandas type, from which pandas can make the type again.

    ``str(dtype)`` does not suffice, because several text types have the same text.
    """
    if isinstance(dtype, pd.ArrowDtype) and pa.types.is_string(dtype.pyarrow_dtype):
        return "utf8[pyarrow]"
    if isinstance(dtype, pd.StringDtype) and dtype.na_value is pd.NA:
        return f"string[{dtype.storage}]"
    return str(dtype)


def _zone(tz: Any) -> str:
    """Return the name of a time zone for R.  The name is UTC for naive times, and for zones without a name.

    A zone without a name, such as UTC+1, would be read by R as west of Greenwich.
    """
    try:
        return ZoneInfo(str(tz)).key
    except (KeyError, ValueError, OSError):
        return "UTC"


def _not_in_r(texts: list[str]) -> bool:
    """Return True if R cannot represent one of the texts, because of a null character or a lone surrogate."""
    whole = "".join(texts)
    with suppress(UnicodeEncodeError):
        whole.encode()
        return "\0" in whole
    return True


def _check_text(levels: list[str], codes: NDArray[Any], name: str) -> None:
    if _not_in_r(levels):
        where = np.isin(codes, [code for code, level in enumerate(levels, 1) if _not_in_r([level])])
        raise InputError(f"column {name!r} has text with a null or half a character in {rows(where)}; correct it")


def _kind(series: pd.Series, name: str) -> Type:
    """Return the R type of a column that is not categorical.  Whole numbers of any size have the type "integer".

    Raise InputError if R has no type for the column.
    """
    types, dtype = pd.api.types, series.dtype
    if types.is_bool_dtype(dtype):
        return "logical"
    if types.is_integer_dtype(dtype):
        return "integer"
    if types.is_float_dtype(dtype):
        return "double"
    if isinstance(dtype, pd.ArrowDtype) and pa.types.is_null(dtype.pyarrow_dtype):
        return "logical"
    if isinstance(dtype, pd.ArrowDtype) and pa.types.is_date(dtype.pyarrow_dtype):
        return "Date"
    if types.is_datetime64_any_dtype(dtype):
        return "POSIXct"
    if types.is_string_dtype(dtype) and not types.is_object_dtype(dtype):
        return "character"
    found = types.infer_dtype(series, skipna=True)
    if found == "date" and any(isinstance(value, datetime) for value in series):
        found = "mixed"
    known: dict[str, Type] = {
        "string": "character",
        "empty": "logical",
        "boolean": "logical",
        "integer": "integer",
        "floating": "double",
        "mixed-integer-float": "double",
        "date": "Date",
    }
    if not types.is_object_dtype(dtype) or found not in known:
        what = f"values of type {found}" if types.is_object_dtype(dtype) else f"the type {dtype}"
        raise InputError(f"column {name!r} has {what}, which R has no column for; convert it or leave it out")
    return known[found]


def _whole(series: pd.Series, name: str, missing: NDArray[np.bool_]) -> Column:
    """Encode whole numbers as integer, double or integer64, the first of these that can represent all of them."""
    dtype = _name(series.dtype)
    present = series[~missing]
    low, high = (int(present.min()), int(present.max())) if len(present) else (0, 0)
    if high > 2**63 - 1 or low <= NA_INTEGER64:
        beyond = ~missing & ((series > 2**63 - 1) | (series <= NA_INTEGER64)).fillna(False).to_numpy(dtype=bool)
        raise InputError(f"column {name!r} has whole numbers of more than 63 bits in {rows(beyond)}; R has none")
    values = series.where(~missing, 0).to_numpy(dtype="<i8")
    if -(2**31) < low and high < 2**31:
        return Column(name, "integer", np.where(missing, NA_INTEGER, values).astype("<i4"), dtype=dtype)
    if max(-low, high) <= EXACT:
        return Column(name, "double", _doubles(values, missing), dtype=dtype)
    return Column(name, "integer64", np.where(missing, NA_INTEGER64, values), dtype=dtype)


def _doubles(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    doubles = values.astype("<f8")
    doubles[missing] = NA_REAL
    return doubles


def _decode(column: Column) -> pd.Series:
    values = column.values
    if column.type in ("character", "factor"):
        codes = np.where(values == NA_INTEGER, 0, values).astype(np.intp) - 1
        levels = pd.Index(column.levels or [], dtype="str")
        if column.type == "factor":
            return pd.Series(pd.Categorical.from_codes(codes, levels, ordered=column.ordered))
        return pd.Series(levels.take(codes, fill_value=np.nan) if len(levels) else [np.nan] * len(codes), dtype="str")
    if column.type in ("logical", "integer", "integer64"):
        missing = values == (NA_INTEGER64 if column.type == "integer64" else NA_INTEGER)
        numbers = np.where(missing, 0, values).astype("bool" if column.type == "logical" else "int64")
        if not missing.any():
            return pd.Series(numbers)
        nullable = pd.arrays.BooleanArray if column.type == "logical" else pd.arrays.IntegerArray
        return pd.Series(nullable(numbers, missing))
    missing = np.isnan(values)
    if column.type == "Date":
        _check_range(values, DAYS[0], DAYS[1] + 1, column.name)
        days = np.floor(np.where(missing, 0, values)).astype("i4")
        return pd.Series(pa.array(days, mask=missing).cast(pa.date32()), dtype=pd.ArrowDtype(pa.date32()))
    if column.type == "POSIXct":
        _check_range(values, -SECONDS, SECONDS, column.name)
        seconds = np.where(missing, 0, values)
        whole = np.floor(seconds)  # separately, so that the fraction is not rounded twice
        micros = whole.astype("i8") * 1_000_000 + np.round((seconds - whole) * 1e6).astype("i8")
        instants = pd.Series(micros.astype("datetime64[us]")).mask(missing).dt.tz_localize("UTC")
        return guarded(
            lambda: instants.dt.tz_convert(column.tz or "UTC"),
            Exception,
            lambda kind: InputError(f"column {column.name!r} has a time zone that Python does not know, {column.tz!r}"),
        )
    return pd.Series(np.where(missing, np.nan, values))  # R's NA is a special NaN; pandas has only one NaN


def _check_range(values: NDArray[np.float64], low: float, high: float, name: str) -> None:
    beyond = (values < low) | (values >= high)
    if beyond.any():
        raise InputError(
            f"column {name!r} has dates or times in {rows(beyond)} that are infinite or too far away for Python; "
            "make them missing"
        )


def _restored(series: pd.Series, column: Column) -> pd.Series:
    """Restore the original pandas type of a column, if its values still fit this type."""
    dtype, factor = column.dtype, column.type == "factor"
    if dtype is None or _name(series.dtype) == dtype:
        return series
    if factor or dtype.startswith(CATEGORY):
        return _recategorized(series, dtype.removeprefix(CATEGORY)) if factor and CATEGORY in dtype else series
    if dtype == "object":
        return series if column.type == "POSIXct" else series.astype(object).where(series.notna(), None)
    naive = dtype.startswith(("datetime64", "timestamp")) and not any(mark in dtype for mark in (",", "tz="))
    if naive and isinstance(series.dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    try:
        was: Any = pd.api.types.pandas_dtype(dtype)
        restored = series.astype(was)
        same = restored.isna().eq(series.isna()) & (restored.isna() | restored.eq(series))
        kind = _kind(restored, column.name)
    except (TypeError, ValueError, ArithmeticError, NotImplementedError):
        return series
    fits = kind == column.type or (kind in NUMBERS and column.type in NUMBERS)
    return restored if fits and bool(same.all()) else series


def _recategorized(series: pd.Series, dtype: str) -> pd.Series:
    """Convert the categories of a factor to their original pandas type, if they have the same texts as before."""
    text = series.cat.categories
    try:
        was: Any = pd.api.types.pandas_dtype(dtype)
        levels = pd.Index(text == "True", dtype=was) if pd.api.types.is_bool_dtype(was) else text.astype(was)
    except (TypeError, ValueError, NotImplementedError):
        return series
    if [str(level) for level in levels] != text.tolist():
        return series
    return series.cat.rename_categories(levels)
