"""Columns that are computed record by record from other columns, and records that meet a condition.

The frame is the data frame of the records, which the user's functions get as their argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError, guarded
from .columns import check_cells, in_usual_floats, listing

RowWise = Callable[[pd.DataFrame], Any]
Where = RowWise | str | None
Bools = NDArray[np.bool_]

ALONE = 5  # number of single records on which a function is computed again


def row_wise(frame: pd.DataFrame, function: RowWise, name: str) -> pd.Series:
    """Compute one value per record by a function of the frame, and check that values do not depend on other records.

    For this check, the function is computed again on every second record (twice, for both halves, in reverse order) and
    on some single records.  If a value changes, it depends on other records or on their order, as a mean, a maximum or
    a rank does.

    Parameters
    ----------
    frame : pandas.DataFrame
        Its index must be 0 to n - 1.
    function : function of the frame
        It returns a Series, an array or a list of n values, or one value for all records.
    name : str
        Name of the column or argument, for messages.

    Returns
    -------
    pandas.Series (n,)
        The values, with the index of the frame.

    Raises
    ------
    InputError
        ``function`` is not a function, stops with an error, does not give one value per record, or gives values that
        depend on other records.
    """
    if not callable(function):
        raise InputError(
            f"{name} must be a function of the frame, such as lambda f: f.age >= 65, not {type(function).__name__}"
        )
    values = _computed(frame, function, name)
    n = len(frame)
    order = np.argsort(values.to_numpy()) if pd.api.types.is_numeric_dtype(values.dtype) else np.arange(n)
    alone = order[np.unique(np.linspace(0, n - 1, ALONE).astype(np.intp))]  # with the smallest and largest value
    groups = [np.arange(n)[::-2], np.arange(n - 1)[::-2], *alone[:, None]]
    if not all(
        _same(values.iloc[subset], _computed(frame.iloc[subset].reset_index(drop=True), function, name))
        for subset in groups
        if subset.size
    ):
        raise InputError(
            f"the function of {name!r} is not row-wise: a record's value changes with the other records or their "
            "order; compute what it takes from all records beforehand, and put that number into the function"
        )
    return values


def _computed(frame: pd.DataFrame, function: RowWise, name: str) -> pd.Series:

    def stopped(kind: str) -> InputError:
        return InputError(f"the function of {name!r} stopped with {kind}; the file has {listing(frame.columns)}")

    def compute() -> Any:
        with np.errstate(all="ignore"):  # NaN becomes a missing value
            return function(frame.copy(deep=False))

    values = guarded(compute, Exception, stopped)
    if np.isscalar(values) or values is None or values is pd.NA:
        values = [values] * len(frame)
    if isinstance(values, pd.DataFrame) or np.ndim(values) != 1:
        raise InputError(f"the function of {name!r} must give one value a record, not {type(values).__name__}")
    if len(values) != len(frame):
        raise InputError(
            f"the function of {name!r} gave {len(values):,} values for {len(frame):,} records; give one a record"
        )
    if isinstance(values, pd.Series) and not values.index.equals(frame.index):
        raise InputError(f"the function of {name!r} gave the records in another order; it must keep theirs")
    column = pd.Series(values, index=frame.index, name=name)
    check_cells(column, name)
    return in_usual_floats(column.to_frame())[name]


def _same(values: pd.Series, again: pd.Series) -> bool:
    """Return True if two columns are equal up to rounding, and missing in the same records."""
    numbers = [pd.api.types.is_numeric_dtype(v.dtype) and v.dtype.kind in "iuf" for v in (values, again)]
    if all(numbers):
        one, other = (v.to_numpy(dtype=np.float64, na_value=np.nan) for v in (values, again))
        return bool(np.allclose(one, other, rtol=1e-9, atol=0, equal_nan=True))
    return bool(values.astype(object).reset_index(drop=True).equals(again.astype(object)))


def meeting(frame: pd.DataFrame, where: RowWise | str) -> Bools:
    """Return True for each record that meets a condition, (n,).  Missing values count as False, as in R's ``subset``.

    Parameters
    ----------
    frame : pandas.DataFrame
    where : function of the frame, or name of a column
        The values of the function or of the column are True or False for each record, or missing.

    Raises
    ------
    InputError
        :func:`row_wise` refuses the function; the column is unknown; a value is neither True, False nor missing.
    """
    if isinstance(where, str):
        if where not in frame.columns:
            raise InputError(f"where: there is no column {where!r}; the file has {listing(frame.columns)}")
        column, named = frame[where], f"the column {where!r}"
    else:
        column, named = row_wise(frame, where, "where"), "its function"
    present = column.dropna()
    if not (pd.api.types.is_bool_dtype(column.dtype) or present.map(lambda value: isinstance(value, bool)).all()):
        raise InputError(f"where must be True or False for each record, which {named} is not")
    return column.fillna(False).to_numpy(dtype=bool) if len(present) < len(column) else column.to_numpy(dtype=bool)
