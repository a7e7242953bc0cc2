"""Functions that read and check columns of a data frame, and name columns in messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from ..validation import rows, several

Columns = str | Sequence[str] | None

# A name that looks like a value.  Numbers, dates and sums of money begin with a digit, or a sign and a digit; names
# seldom do.  R's read.csv() puts an X before a value.  X1 and X12, however, are names that R makes for columns.
VALUE = re.compile(r"\W*\d|X(\W+\d|\d+(\W|\d\d))")
LISTED = 12  # largest number of columns that a message names


def names_of(columns: Columns, role: str) -> tuple[str, ...]:
    """Return one name or several names as a tuple, and an empty tuple for None.

    Raise InputError if a name is not a text.  ``role`` is the name of the argument, for the message.
    """
    names: tuple[Any, ...] = () if columns is None else tuple(several(columns))
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"{role} must be a column name or a list of column names")
    return names


def listing(columns: Iterable[Hashable], *, about: Sequence[str] | None = None) -> str:
    """List the first twelve column names for a message.

    In a file without a header line the first record is taken for the header, and the names are the data of a person.
    So if any name looks like a value (it begins with a digit), the text has the number of columns and no name.

    Parameters
    ----------
    columns : iterable of names
        All columns of the file.
    about : list of str, optional
        The columns to list; default all.
    """
    names = [str(c) for c in columns]
    values = sum(VALUE.match(name) is not None for name in names)
    there = f"{len(names):,} {'column' if len(names) == 1 else 'columns'}"
    if values:
        alike = f"{values:,} whose {'name looks like a value' if values == 1 else 'names look like values'}"
        return f"{there}, {alike}: where there is no header line, give the file a first line with the column names"
    named = names if about is None else about
    return ", ".join(named[:LISTED]) + (f", ... ({there})" if len(named) > LISTED else "")


def shown(name: str, columns: Sequence[str]) -> str:
    """Return a text that names a column in a message: ``column 'income'``.

    The text is ``column number 3`` if some of the names ``columns`` look like values (:func:`listing`).
    """
    if any(VALUE.match(each) for each in columns):
        return f"column number {columns.index(name) + 1}"
    return f"column {name!r}"


def nearest(name: object, columns: Iterable[Hashable]) -> str:
    """Return a text that suggests a column for an unknown name: `` (did you mean 'income'?)``.

    The text is empty if no name is similar, or if the file may lack a header line (:func:`listing`).
    """
    names = {str(c).casefold(): str(c) for c in columns}
    if any(VALUE.match(c) for c in names.values()):
        return ""
    near = difflib.get_close_matches(str(name).casefold(), names, 1)
    return f" (did you mean {names[near[0]]!r}?)" if near else ""


def check_columns(frame: pd.DataFrame, roles: dict[str, str]) -> None:
    """Raise InputError for an empty frame, unusable column names, or columns that cannot have their roles.

    ``roles`` maps each role to its column.  A column cannot have its role if it does not exist, has another role too,
    or has missing values.
    """
    odd = sum(any("\ud800" <= letter <= "\udfff" for letter in str(c)) for c in frame.columns)
    if odd:
        raise InputError(f"{odd:,} of the column names of the frame are no Unicode text; rename them")
    if frame.columns.has_duplicates:
        twice = sorted({str(c) for c in frame.columns[frame.columns.duplicated()]})
        named = listing(frame.columns, about=twice)
        raise InputError(f"the frame has several columns of the same name: {named}; rename them")
    for role, name in roles.items():
        if not isinstance(name, str):
            raise InputError(f"{role} must be the name of a column, not {type(name).__name__}")
        if name not in frame.columns:
            near = nearest(name, frame.columns)
            raise InputError(f"{role}: there is no column {name!r}{near}; the frame has {listing(frame.columns)}")
    taken: dict[str, str] = {}
    for role, name in roles.items():
        if name in taken:
            raise InputError(f"column {name!r} is given two roles, {taken[name]} and {role}; a column has one role")
        taken[name] = role
    if len(frame) == 0:
        raise InputError("the frame is empty: a design needs a record; where it is a subset, none meets its condition")
    for role, name in roles.items():
        missing = frame[name].isna().to_numpy()
        if missing.any():
            raise InputError(
                f"{role} column {name!r} is missing in {rows(missing)}; every record needs it: fill it in or "
                "leave these records out"
            )


def numeric(column: pd.Series, name: str) -> NDArray[np.float64]:
    """Return a column as floats (n,), NaN where values are missing.  Raise InputError if the column is not numeric.

    Texts and categories that are numbers count as numeric; a column of type bool does not.  The array may share the
    memory of the frame, so do not change it.
    """
    if column.dtype == np.dtype(np.float64):  # to_numeric would copy it
        return column.to_numpy()
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    types = pd.api.types
    if column.dtype == object and types.infer_dtype(column, skipna=True) == "boolean":
        column = column.astype("boolean")
    number = types.is_numeric_dtype(column.dtype) and column.dtype.kind not in "bc"
    if not (number or types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype)):
        raise InputError(f"column {name!r} is of type {column.dtype}, not a number; convert it first")
    try:
        values = pd.to_numeric(column, errors="coerce")
    except OverflowError:
        bad = column.map(_overflows).to_numpy(dtype=bool)
        raise InputError(
            f"column {name!r} has numbers in {rows(bad)} that are too large for floating point; "
            "correct these, or take another unit"
        ) from None
    bad = (values.isna() & column.notna()).to_numpy()
    if bad.any():
        raise InputError(
            f"column {name!r} is not a number in {rows(bad)}; correct these, or read the file with "
            f"missing_codes={{{name!r}: [...]}} where they are codes, decimal= and thousands= where they have marks"
        )
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _overflows(value: Any) -> bool:
    try:
        float(value)
    except OverflowError:
        return True
    except (TypeError, ValueError):
        pass
    return False


def in_usual_floats(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert 16-bit and extended floats, which pandas cannot group, to 64-bit floats."""
    unusual = [c for c, dtype in frame.dtypes.items() if dtype in (np.float16, np.longdouble)]
    return frame.astype(dict.fromkeys(unusual, np.float64)) if unusual else frame


def check_cells(column: pd.Series, name: str) -> None:
    """Raise InputError for values that cannot be categories: lists, tuples, and texts that are not Unicode."""
    if not pd.api.types.is_object_dtype(column.dtype):
        return
    try:
        "".join(str(value) for value in column.unique() if not isinstance(value, tuple)).encode()
        fine = not any(isinstance(value, tuple) for value in column)
    except (TypeError, UnicodeEncodeError):
        fine = False
    if not fine:
        bad = np.array([not _makes_category(value) for value in column])
        raise InputError(
            f"column {name!r} has lists, or texts that are no Unicode, in {rows(bad)}; make each a number or a text"
        )


def _makes_category(value: Any) -> bool:
    if isinstance(value, tuple) or not isinstance(value, Hashable):
        return False
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def positive(column: pd.Series, name: str, *, at_most_one: bool, or_zero: bool = False) -> NDArray[np.float64]:
    """Return a column as floats (n,).  Raise InputError if a value is missing, infinite, 0 or negative.

    With ``or_zero``, some but not all values may be 0.  With ``at_most_one``, values above 1 are also refused, as for
    inclusion probabilities.
    """
    values = np.array(numeric(column, name))
    infinite = ~np.isfinite(values)
    if infinite.any():
        raise InputError(f"column {name!r} is not finite in {rows(infinite)}; correct it or leave these records out")
    if or_zero:
        if (values < 0).any():
            raise InputError(f"column {name!r} is negative in {rows(values < 0)}; weights are numbers from 0 on")
        if not values.any():
            raise InputError(f"column {name!r} is 0 in all records; some weights must be positive")
    elif (values <= 0).any():
        raise InputError(
            f"column {name!r} is zero or negative in {rows(values <= 0)}; it must be positive: correct it or "
            "leave these records out"
        )
    if at_most_one and (values > 1).any():
        raise InputError(
            f"column {name!r} is above 1 in {rows(values > 1)}; inclusion probabilities are at most 1. "
            "Are these weights? Then pass weights= instead of probs="
        )
    return values


def codes(*columns: Any) -> NDArray[np.intp]:
    """Return the group of each record, numbered from 0: (n,).  Records that agree in all columns form a group."""
    code = np.zeros(len(columns[0]), dtype=np.intp)
    for column in columns:
        if isinstance(column, pd.Series):
            check_cells(column, str(column.name))
        inner, levels = pd.factorize(column, sort=False)
        combined = code * max(len(levels), 1) + inner
        code, _ = pd.factorize(combined, sort=True)
    return code


def occurring(code: NDArray[np.intp], size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the distinct codes, sorted, and the position of each record's code among them, (n,).

    ``code`` (n,) has the codes of the records: whole numbers from 0 to ``size - 1``.
    """
    if size > 8 * code.size:
        found, number = np.unique(code, return_inverse=True)
        return found, number
    there = np.zeros(size, dtype=bool)
    there[code] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[code]
