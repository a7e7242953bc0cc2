"""The levels of a column whose values are labels: their names are published."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import InputError, ModelError, guarded
from ...validation import rows

Codes = NDArray[np.intp]

FEWEST = 5  # records that a level has on average; fewer, and the column is an identifier


def _are_truths(column: pd.Series) -> bool:
    return pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean"


def all_levels(column: pd.Series) -> pd.Index:
    """The levels that are declared, or, where none are, those that occur, sorted as pandas sorts groups."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pd.CategoricalIndex(column.cat.categories, dtype=column.dtype)
    if _are_truths(column):
        return pd.Index([False, True], dtype=column.dtype)
    return pd.factorize(column, sort=True)[1].astype(column.dtype)


def levels_of(column: pd.Series, name: str) -> tuple[Codes, pd.Index]:
    """Level of each record (n,), and the levels: those that are declared, or else those that occur, sorted.

    Raises
    ------
    InputError
        A missing value; values that cannot be sorted, or are no text or numbers; fewer than five records a level.
    ModelError
        One level.
    """
    missing = column.isna()
    if missing.any():
        raise InputError(
            f"outcome {name!r} is missing in {rows(missing)}; fill it in, or say missing='drop' to leave these "
            "records out (the report then says how many)"
        )
    levels = guarded(
        lambda: all_levels(column),
        TypeError,
        lambda kind: InputError(f"outcome {name!r} has values that cannot be sorted; make them text"),
    )
    if not all(isinstance(level, str | int | float | bool | np.generic) for level in levels.astype(object)):
        raise InputError(f"outcome {name!r} has categories that are neither text nor numbers; make text of them")
    if len(column) < FEWEST * len(levels):
        raise InputError(
            f"outcome {name!r} has almost as many different values as records: the names of categories are published, "
            "and these may identify somebody; group them"
        )
    if len(levels) == 1:
        raise ModelError(f"{name} is constant: there is nothing to synthesize, and publishing it is publishing it")
    code = column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else levels.get_indexer(pd.Index(column))
    return np.asarray(code, dtype=np.intp), levels
