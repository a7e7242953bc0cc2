"""Wide tables, which have the categories of one variable side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..errors import InputError
from ..validation import as_list
from .quantities import category_text
from .tables import NUMBERS, OWN, QUANTITY

SHOWN = (*NUMBERS, "n", "deff", "flag")  # columns of a table that can be shown


def wide(table: pd.DataFrame, across: str, show: str | Sequence[str] = ("estimate", "se")) -> pd.DataFrame:
    """Reshape a table so that the categories of one of its variables are side by side.

    Parameters
    ----------
    table : pandas.DataFrame
        From :func:`surveysynth.estimate`, :func:`surveysynth.difference`, :meth:`Release.tables` or
        :meth:`Release.differences`.
    across : str
        The variable: a ``by`` column of the table, or "statistic", "outcome", "category", "prob" or "contrast".
    show : str or list of str
        Columns to show: some of "estimate", "se", "df", "ci_low", "ci_high", "n", "deff", "flag".

    Returns
    -------
    pandas.DataFrame
        The other variables, then ``estimate_<category>, se_<category>`` for each category, in the order of the table.
        Values that are not in ``table`` are missing.

    Raises
    ------
    InputError
        ``table`` is not a DataFrame; ``across`` or ``show`` names an unknown column; two rows of ``table`` would go to
        the same place, or two columns would have the same name.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> means = ss.estimate(design, "salary", by="gender")
    >>> ss.wide(means, across="gender", show="estimate").round()
      statistic outcome  estimate_female  estimate_male  estimate_all
    0      mean  salary          97364.0       127670.0      114629.0
    """
    if not isinstance(table, pd.DataFrame):
        raise InputError("wide() takes a table by estimate() or tables(), a DataFrame")
    if not isinstance(across, str):
        raise InputError("across must be the name of one column of the table")
    keys = [column for column in map(str, table) if column in QUANTITY or column not in OWN or column == "contrast"]
    shown = as_list(show)
    if across not in keys:
        raise InputError(f"across={across!r} is not a variable of the table, which has {', '.join(keys)}")
    for name in shown:
        if name not in table or name not in SHOWN:
            has = ", ".join(column for column in SHOWN if column in table)
            raise InputError(f"show={name!r} is not a column of the table's cells, which have {has}")
    keys.remove(across)
    row = table.groupby(keys, sort=False, dropna=False).ngroup().to_numpy() if keys else np.zeros(len(table), np.intp)
    code, labels = pd.factorize(table[across], use_na_sentinel=False)
    if pd.Series(zip(row, code, strict=True)).duplicated().any():
        raise InputError(f"the table has a cell of {across!r} twice: make each table wide before you put them together")
    first = np.unique(row, return_index=True)[1]
    found = table[keys].iloc[first].reset_index(drop=True)
    for i, label in enumerate(labels):
        here = code == i
        for name in shown:
            column = f"{name}_{category_text(label)}"
            if column in found:
                raise InputError(f"the wide table would have a column {column!r} twice; rename one of the variables")
            values = pd.Series(table[name].array[here], index=row[here])
            found[column] = values.reindex(range(len(first))).array
    found.attrs.update(table.attrs)
    return found
