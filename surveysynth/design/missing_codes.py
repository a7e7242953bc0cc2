"""Codes that stand for a missing value: 98, -9, "refused"."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from .columns import listing, nearest

Code = float | str
MissingCodes = Sequence[Code] | Mapping[str, Sequence[Code]]
Checked = list[Code] | dict[str, list[Code]]


def checked_codes(missing_codes: MissingCodes | None) -> Checked:
    """The codes of every column as a list, or those of some columns as a dict of lists.

    Raises
    ------
    InputError
        A code that is neither a finite number nor a text.
    """
    if isinstance(missing_codes, Mapping):
        return {name: _listed(codes, f"missing_codes of {name!r}") for name, codes in missing_codes.items()}
    return [] if missing_codes is None else _listed(missing_codes, "missing_codes")


def _listed(codes: object, what: str) -> list[Code]:
    several = isinstance(codes, Iterable) and not isinstance(codes, str | Mapping)
    listed: list[Any] = list(codes) if several else [codes]  # type: ignore[call-overload]
    for code in listed:
        number = isinstance(code, int | float | np.number) and not isinstance(code, bool) and math.isfinite(code)
        if not (number or isinstance(code, str)):
            raise InputError(f"{what} must be a list of numbers or texts: missing_codes=[98, 'refused']")
    return listed


def codes_of_columns(codes: Checked, columns: Iterable[Hashable]) -> dict[Hashable, list[Code]]:
    """The codes of each column that has some; InputError where there is no such column."""
    there = list(columns)
    if isinstance(codes, list):
        return dict.fromkeys(there, codes) if codes else {}
    for name in codes:
        if name not in there:
            raise InputError(
                f"missing_codes: there is no column {name!r}{nearest(name, there)}; the file has {listing(there)}"
            )
    return {name: listed for name, listed in codes.items() if listed}


def without_codes(column: pd.Series, codes: Sequence[Code]) -> pd.Series:
    """The column with missing values in place of codes; a category that is one is no category any more."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = column.cat.categories
        return column.cat.remove_categories(categories[holds(categories.to_series(), codes)])
    found = holds(column, codes)
    return column.mask(found) if found.any() else column


def holds(column: pd.Series, codes: Sequence[Code]) -> NDArray[np.bool_]:
    """Where a column holds one of the codes: 98 is 98.0, and the text "98", and the other way round: (n,)."""
    types, dtype = pd.api.types, column.dtype
    numbers = [number for code in codes if (number := _number(code)) is not None]
    if types.infer_dtype(column, skipna=True) == "boolean":  # True is 1 to pandas
        return np.zeros(len(column), dtype=bool)
    if types.is_numeric_dtype(dtype):
        # Stata keeps most numbers in 32 bits, where 99.9 is another number
        short = [float(np.float32(number)) for number in numbers]
        return column.isin([*numbers, *short]).to_numpy(dtype=bool)
    if types.is_string_dtype(dtype) or types.is_object_dtype(dtype):
        return (column.isin(text_forms(codes)) | column.isin(numbers)).to_numpy(dtype=bool)
    return np.zeros(len(column), dtype=bool)


def text_forms(codes: Sequence[Code]) -> list[str]:
    """Codes as texts have them: 98.0 as "98", too."""
    numbers = [number for code in codes if (number := _number(code)) is not None]
    return [*(str(code) for code in codes), *(f"{number:.15g}" for number in numbers)]


def _number(code: Code) -> float | None:
    """The number that a code is, or reads as."""
    try:
        number = float(code)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
