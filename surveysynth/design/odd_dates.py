"""Stata, SPSS and SAS files with impossible dates, which the parser cannot read.

A column with such a date is read as the numbers in the file.  Here these numbers are converted to dates if possible.
Stata counts days or milliseconds from 1960, SAS days or seconds from 1960, and SPSS seconds from 14 October 1582.
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ..validation import rows

DATE_FORMAT = re.compile(r"date|time|ymd|yy|hh|julian|tod|dt|8601|^%-?[td]", re.IGNORECASE)
FIRST, LAST = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31T23:59:59", "us")
SPSS = (".sav", ".zsav", ".por")
MICROSECONDS = {"day": 86_400_000_000, "second": 1_000_000, "millisecond": 1_000}
Reader = Callable[..., tuple[pd.DataFrame, Any]]


def reader_of(read: Reader, path: str, suffix: str, **given: Any) -> Reader:
    """Return a function that reads a file in which dates may be out of range.  Warn of the columns with such dates.

    Parameters
    ----------
    read : function
        The function of pyreadstat that reads this kind of file, such as ``pyreadstat.read_dta``.
    path, suffix : str
        Path of the file, and its extension, such as ".dta".
    **given
        Further arguments of ``read``.

    Returns
    -------
    function
        A function with the arguments and the return value of ``read``, in which dates out of range are missing values.
        It is ``read`` itself if all dates can be read.
    """
    formats = read(path, metadataonly=True, **given)[1].original_variable_types
    dates = [name for name, form in formats.items() if form and DATE_FORMAT.search(form)]
    if not dates or _is_read(read, path, usecols=dates, **given):
        return read
    whole = [name for name in dates if _is_read(read, path, usecols=[name], **given)]
    odd = {}
    for name in dates:
        if name not in whole:
            numbers = read(path, usecols=[name], disable_datetime_conversion=True, **given)[0][name]
            odd[name] = _maker(read, path, numbers, suffix, given)
            _warn(name, numbers, odd[name])
    return partial(_read, read, whole, odd)


def _read(
    read: Reader, whole: list[str], odd: dict[str, Callable[[pd.Series], pd.Series]], path: str, **given: Any
) -> tuple[pd.DataFrame, Any]:
    frame, meta = read(path, **given | {"disable_datetime_conversion": True})
    if whole and len(frame):
        frame[whole] = read(path, **given | {"usecols": whole})[0][whole]
    for name, dates in odd.items():
        frame[name] = dates(frame[name])
    return frame, meta


def _is_read(read: Reader, path: str, **given: Any) -> bool:
    try:
        read(path, **given)
    except OverflowError:
        return False
    return True


def _maker(
    read: Reader, path: str, numbers: pd.Series, suffix: str, given: dict[str, Any]
) -> Callable[[pd.Series], pd.Series]:
    """Return a function that converts the numbers of a column to dates.

    The unit of the numbers is found by letting ``read`` convert their median.  The function returns the numbers
    unchanged if the median is out of the range of dates or is a time of day.
    """
    there = np.flatnonzero(numbers.notna())
    row = int(there[np.argsort(numbers.to_numpy()[there])[len(there) // 2]])
    usual: dict[str, Any] = given | {"usecols": [numbers.name], "row_offset": row, "row_limit": 1}
    if not _is_read(read, path, **usual):
        return _as_numbers
    value = read(path, **usual)[0].iloc[0, 0]
    if isinstance(value, datetime.datetime):
        unit = "millisecond" if suffix == ".dta" else "second"
    elif isinstance(value, datetime.date):
        unit = "second" if suffix in SPSS else "day"
    else:
        return _as_numbers
    first = np.datetime64("1582-10-14" if suffix in SPSS else "1960-01-01", "us")
    return partial(_dates, first=first, unit=MICROSECONDS[unit], clock=isinstance(value, datetime.datetime))


def _as_numbers(numbers: pd.Series) -> pd.Series:
    return numbers


def _dates(numbers: pd.Series, *, first: np.datetime64, unit: int, clock: bool) -> pd.Series:
    """Convert numbers to dates, with the time of day if ``clock``.  Dates out of range become missing values.

    ``first`` is the date of the number 0, and ``unit`` is the number of microseconds of 1.
    """
    low, high = ((end - first) / np.timedelta64(unit, "us") for end in (FIRST, LAST))
    inside = numbers.between(low, high)
    since = (numbers.where(inside, 0) * unit).round().astype("int64").to_numpy().astype("timedelta64[us]")
    stamps = pd.Series(first + since, index=numbers.index).where(inside)
    return stamps if clock else stamps.dt.date.astype(object).where(inside, np.nan)


def _warn(name: str, numbers: pd.Series, dates: Callable[[pd.Series], pd.Series]) -> None:
    if dates is _as_numbers:
        what = "has dates or times that cannot be read: it is read as the numbers that the file holds"
    else:
        what = f"has dates out of range in {rows(dates(numbers).isna() & numbers.notna())}: they are read as missing"
    warnings.warn(f"column {name!r} {what}", stacklevel=2)
