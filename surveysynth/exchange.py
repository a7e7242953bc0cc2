"""Data frames in the form in which R and Python hand them to each other, exactly.

A column is a vector of numbers and what these mean: doubles and integers as they are, text and
factors as codes into their distinct values.  So nothing is printed and parsed again on the way,
no cell is converted singly, and missing values stay missing in every type.  The vectors pass
through memory (:mod:`surveysynth.r`) or through a folder of files (the R package):

    columns.json    name, type, levels, ... of each column
    1.bin, 2.bin    its numbers, little-endian: float64, int64 or int32

``r_bridge/R/exchange.R`` is the other side, function by function.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from .errors import InputError, rows

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
EXACT = 2**53  # whole numbers up to here are doubles exactly
COLUMNS = "columns.json"


@dataclass(frozen=True)
class Column:
    """One column as numbers.

    Attributes
    ----------
    name : str
    type : str
        The R type.
    values : array (n,)
        Of the type's entry in ``STORED``.  Text and factors are 1, 2, ... into ``levels``; dates
        count days, times count seconds from 1970-01-01 UTC.
    levels : list of str, optional
    ordered : bool
        Of a factor.
    tz : str, optional
        Time zone of a ``POSIXct``.
    dtype : str, optional
        The pandas type that it had, for the way back; R keeps it beside the frame.
    """

    name: str
    type: Type
    values: NDArray[Any]
    levels: list[str] | None = None
    ordered: bool = False
    tz: str | None = None
    dtype: str | None = None

    def meaning(self) -> dict[str, Any]:
        """All but the numbers, as json holds it."""
        said = {name: value for name, value in asdict(self).items() if name != "values" and value is not None}
        return said if self.type == "factor" else {key: value for key, value in said.items() if key != "ordered"}


def encode(frame: pd.DataFrame) -> list[Column]:
    """The columns of a frame, as R is to have them; the index stays behind.

    Whole numbers are R integers where they fit 32 bits, doubles up to 2^53, ``integer64`` (R's
    package bit64) beyond.  NaN, None, NaT and NA all become NA.  Times keep microseconds.

    Raises
    ------
    InputError
        Names that are no text or occur twice; a column of mixed or unknown type.
    """
    for name in frame.columns:
        if not isinstance(name, str):
            raise InputError(f"R takes columns by names that are text, and one here is a {type(name).__name__}")
    if frame.columns.has_duplicates:
        raise InputError("the frame has several columns of the same name; rename them")
    return [_encode(frame[name], name) for name in frame.columns]


def decode(columns: list[Column]) -> pd.DataFrame:
    """The frame of some columns.

    Logical and integer columns with missing values become pandas' nullable types; a ``Date``
    becomes ``date32[day][pyarrow]``, text ``str``.  Where a column came from pandas, and R did not
    change its kind, it has its old type again.
    """
    return pd.DataFrame({column.name: _restored(_decode(column), column.dtype) for column in columns})


def save(frame: pd.DataFrame, folder: str | Path) -> None:
    """Write a frame into an empty folder, for R's ``load_frame``; InputError as :func:`encode`."""
    columns = encode(frame)
    for number, column in enumerate(columns, 1):
        column.values.tofile(Path(folder) / f"{number}.bin")
    meaning = json.dumps({"columns": [column.meaning() for column in columns]}, ensure_ascii=False)
    (Path(folder) / COLUMNS).write_text(meaning, encoding="utf-8")


def load(folder: str | Path) -> pd.DataFrame:
    """Read a frame that :func:`save` or R's ``save_frame`` wrote."""
    said = json.loads((Path(folder) / COLUMNS).read_text(encoding="utf-8"))["columns"]
    return decode(
        [
            Column(**meaning, values=np.fromfile(Path(folder) / f"{number}.bin", STORED[meaning["type"]]))
            for number, meaning in enumerate(said, 1)
        ]
    )


def _encode(series: pd.Series, name: str) -> Column:
    dtype, missing = series.dtype, series.isna().to_numpy()
    if isinstance(dtype, pd.CategoricalDtype):
        levels = [str(level) for level in dtype.categories]
        if len(set(levels)) < len(levels):
            raise InputError(f"column {name!r} has categories that are the same as text; rename them")
        was = str(dtype.categories.dtype)
        codes = np.where(missing, NA_INTEGER, series.cat.codes.to_numpy().astype("<i4") + 1).astype("<i4")
        return Column(name, "factor", codes, levels, bool(dtype.ordered), dtype=f"category of {was}")
    kind = _kind(series, name)
    if kind == "character":
        code, distinct = pd.factorize(series)  # missing is -1
        codes = np.where(code < 0, NA_INTEGER, code + 1).astype("<i4")
        return Column(name, kind, codes, [str(value) for value in distinct], dtype=str(dtype))
    if kind == "Date":
        days = series.astype(object).where(~missing, None).to_numpy()
        return Column(name, kind, _doubles(days.astype("datetime64[D]").astype("i8"), missing), dtype=str(dtype))
    if kind == "POSIXct":
        times: Any = series.dt
        instants = times.tz_convert("UTC").dt.tz_localize(None) if times.tz is not None else series
        micros = instants.to_numpy(dtype="datetime64[us]", na_value=np.datetime64("NaT"))
        zone, seconds = "UTC" if times.tz is None else str(times.tz), micros.astype("i8") / 1e6
        return Column(name, kind, _doubles(seconds, missing), tz=zone, dtype=str(dtype))
    if kind == "logical":
        flags = series.astype("boolean").to_numpy(dtype="<i4", na_value=NA_INTEGER)
        return Column(name, kind, flags, dtype=str(dtype))
    if kind == "double":
        values = series.to_numpy(dtype="<f8", na_value=np.nan)
        return Column(name, kind, _doubles(values, missing), dtype=str(dtype))
    return _whole(series, name, missing)


def _kind(series: pd.Series, name: str) -> Type:
    """The R type of a column that is not categorical; "integer" for all whole numbers."""
    types, dtype = pd.api.types, series.dtype
    if types.is_bool_dtype(dtype):
        return "logical"
    if types.is_integer_dtype(dtype):
        return "integer"
    if types.is_float_dtype(dtype):
        return "double"
    if isinstance(dtype, pd.ArrowDtype) and pa.types.is_date(dtype.pyarrow_dtype):
        return "Date"
    if types.is_datetime64_any_dtype(dtype):
        return "POSIXct"
    if types.is_string_dtype(dtype) and not types.is_object_dtype(dtype):
        return "character"
    found = pd.api.types.infer_dtype(series, skipna=True)
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
    """Whole numbers in the smallest R type that holds them."""
    dtype = str(series.dtype)
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
        days = np.floor(np.where(missing, 0, values)).astype("i4")
        return pd.Series(pa.array(days, mask=missing).cast(pa.date32()), dtype=pd.ArrowDtype(pa.date32()))
    if column.type == "POSIXct":
        micros = np.round(np.where(missing, 0, values) * 1e6).astype("i8").astype("datetime64[us]")
        instants = pd.Series(micros).mask(missing).dt.tz_localize("UTC")
        return instants.dt.tz_convert(column.tz or "UTC")
    return pd.Series(np.where(missing, np.nan, values))  # R's NA is a NaN of its own, pandas has one


def _restored(series: pd.Series, dtype: str | None) -> pd.Series:
    """The column in the pandas type that it had, where that still fits what it holds."""
    if dtype is None or str(series.dtype) == dtype:
        return series
    if dtype.startswith("category of "):
        return _recategorized(series, dtype.removeprefix("category of "))
    if dtype == "object":
        return series.astype(object).where(series.notna(), None)
    naive = dtype.startswith(("datetime64", "timestamp")) and not any(mark in dtype for mark in (",", "tz="))
    if naive and isinstance(series.dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    try:
        was: Any = pd.api.types.pandas_dtype(dtype)
        restored = series.astype(was)
        same = restored.isna().eq(series.isna()) & (restored.isna() | restored.eq(series))
    except (TypeError, ValueError, ArithmeticError):
        return series
    return restored if bool(same.all()) else series


def _recategorized(series: pd.Series, dtype: str) -> pd.Series:
    """A factor whose categories were no text has them again, if their texts are those."""
    if not isinstance(series.dtype, pd.CategoricalDtype):
        return series
    text = series.cat.categories
    try:
        levels = text.astype(pd.api.types.pandas_dtype(dtype))
    except (TypeError, ValueError):
        return series
    if [str(level) for level in levels] != text.tolist():
        return series
    return series.cat.rename_categories(levels.tolist())
