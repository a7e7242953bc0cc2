"""The levels of a categorical outcome, whose names are published."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import InputError, guarded
from .refusals import constant_outcome, missing_outcome

Codes = NDArray[np.intp]

FEWEST = 5  # fewest records per level on average; a column with fewer may be an identifier


def _is_boolean(column: pd.Series) -> bool:
    return pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean"


def all_levels(column: pd.Series) -> pd.Index:
    """Return the levels of a column: the declared ones, False and True for a boolean column, or the sorted values."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pd.CategoricalIndex(column.cat.categories, dtype=column.dtype)
    if _is_boolean(column):
        return pd.Index([False, True], dtype=column.dtype)
    return pd.factorize(column, sort=True)[1].astype(column.dtype)


def levels_of(column: pd.Series, name: str) -> tuple[Codes, pd.Index]:
    """Return the position (n,) of each record's level among the levels, and the levels (:func:`all_levels`).

    Raises
    ------
    InputError
        A value is missing; the values cannot be sorted, or are neither text nor numbers; or there are fewer than five
        records per level on average, so that the published names of the levels may identify somebody.
    ModelError
        There is only one level, which a release would reveal.
    """
    missing = column.isna()
    if missing.any():
        raise missing_outcome(name, missing.to_numpy())
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
        raise constant_outcome(name)
    code = column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else levels.get_indexer(pd.Index(column))
    return np.asarray(code, dtype=np.intp), levels
