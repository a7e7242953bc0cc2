"""The levels of a column whose values are labels: their names are published."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import InputError, ModelError, guarded
from ...validation import rows

Codes = NDArray[np.intp]

FEWEST = 5  # records that a level has on average; fewer, and the column is an identifier


def levels_of(column: pd.Series, name: str) -> tuple[Codes, pd.Index]:
    """Level of each record (n,), and the levels that occur, sorted as pandas sorts groups.

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
    code, found = guarded(
        lambda: pd.factorize(column, sort=True),
        TypeError,
        lambda kind: InputError(f"outcome {name!r} has values that cannot be sorted; make them text"),
    )
    if not all(isinstance(level, str | int | float | bool | np.generic) for level in found.astype(object)):
        raise InputError(f"outcome {name!r} has categories that are neither text nor numbers; make text of them")
    levels = found.astype(column.dtype)
    if isinstance(levels, pd.CategoricalIndex):
        levels = levels.remove_unused_categories()
    if len(column) < FEWEST * len(levels):
        raise InputError(
            f"outcome {name!r} has almost as many different values as records: the names of categories are published, "
            "and these may identify somebody; group them"
        )
    if len(levels) == 1:
        raise ModelError(f"{name} is constant: there is nothing to synthesize, and publishing it is publishing it")
    return np.asarray(code, dtype=np.intp), levels
