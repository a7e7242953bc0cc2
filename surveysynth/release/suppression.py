"""Flags and cell suppression for tables that are about to be published.

Suppression is a quality rule: a cell of few records says little.  It protects nobody, as whoever has the
synthetic files can compute every cell; what protects is the epsilon of the files.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack

from ..estimation.tables import NUMBERS, QUANTITY, TOTAL
from ..validation import positive, whole

QUALITY_RULE = "This is a quality rule, not protection: whoever has the synthetic files can compute these cells."
MODELLED = "not counted by these variables together: from the model alone"


def flag(
    table: pd.DataFrame,
    by: list[str],
    *,
    between: bool = True,
    min_cell: int | None = None,
    cv_limit: float | None = None,
    whole: bool = True,
    modelled: NDArray[np.bool_] | None = None,
) -> pd.DataFrame:
    """Add the column ``flag``, and suppress small cells with those that would give them away.

    Parameters
    ----------
    table : pandas.DataFrame
        From :func:`surveysynth.estimation.tables.tabulate`.
    by : list of str
    between : bool
        Whether standard errors have the variance between data sets; that they have not is flagged.
    min_cell : int, optional
        Cells of fewer records are blanked, and further ones that would give them away.  Both carry
        the same flag, so that it does not show which are small.
    cv_limit : float, optional
        Standard error over estimate above which an estimate is flagged.
    whole : bool
        Whether the total is that of all records, which weights are calibrated to, not of a part.
    modelled : bool array (rows,), optional
        Cells whose variables no noisy table counts together.

    Returns
    -------
    pandas.DataFrame
        Flags are separated by "; ", empty where there is nothing to say.
    """
    table = table.copy()
    flags: list[list[str]] = [[] for _ in range(len(table))]

    def say(where: NDArray[np.bool_], text: str) -> None:
        for i in np.flatnonzero(where):
            flags[i].append(text)

    if not between:
        say(np.ones(len(table), dtype=bool), "one data set: no between variance")
    if modelled is not None:
        say(modelled, MODELLED)
    count = (table["statistic"] == "count").to_numpy()
    public = count & (table["se"] == 0).to_numpy()
    say(public, "public total: fixed by construction, without sampling error")
    say(
        whole & count & ~public & (table[by] == TOTAL).all(axis=1).to_numpy(),
        "calibrated total: fixed by construction, the standard error is not its own",
    )
    check_limits(min_cell, cv_limit)
    if min_cell is not None:
        hidden = _hidden(table, by, min_cell)
        say(hidden, f"suppressed: fewer than {min_cell} records, or would give away such a cell")
        table["n"] = table["n"].astype("Int64")
        table.loc[hidden, [c for c in (*NUMBERS, "n", "deff") if c in table]] = pd.NA
    if cv_limit is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            high = (table["se"] / table["estimate"].abs()).to_numpy(dtype=float, na_value=np.nan) > cv_limit
        say(high, f"CV above {cv_limit:.0%}")
    table["flag"] = ["; ".join(texts) for texts in flags]
    return table


def _hidden(table: pd.DataFrame, by: list[str], min_cell: int) -> NDArray[np.bool_]:
    """Cells (rows,) of fewer records, and those that would give them away, statistic by statistic."""
    small = (table["n"] < min_cell).to_numpy()
    hidden = small.copy()
    quantity = [c for c in QUANTITY if c in table]
    for rows in table.groupby(quantity, sort=False, dropna=False).indices.values():
        hidden[rows] = complementary(table.iloc[rows], by, small[rows])
    return hidden


def check_limits(min_cell: int | None, cv_limit: float | None) -> None:
    """Refuse limits without a meaning.

    Raises
    ------
    InputError
        A min_cell that is no whole number of records, a cv_limit that is not positive.
    """
    if cv_limit is not None:
        positive(cv_limit, "cv_limit")
    if min_cell is not None:
        whole(min_cell, "min_cell")


def complementary(table: pd.DataFrame, by: list[str], hidden: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Hide further cells, until no hidden one can be computed from those that are published.

    A total is a row with "all" in some variable; its parts are the rows with that variable's
    categories instead, and total minus parts is 0: A x = 0 for the whole table.  A hidden cell i
    cannot be computed if some v with A v = 0 and v_i = 1 is 0 on every published cell: x + v
    would be another table with the same published cells.  The v that takes the fewest further
    records is a linear programme, as is usual for complementary suppression (Cox 1995).

    Parameters
    ----------
    table : pandas.DataFrame
        One statistic of one outcome.
    hidden : bool array (rows,)
        Cells that are hidden to begin with.

    Returns
    -------
    bool array (rows,)
    """
    hidden, safe = hidden.copy(), np.zeros(len(hidden), dtype=bool)
    A, n = additions(table, by), table["n"].to_numpy(dtype=float)
    for i in np.flatnonzero(hidden):
        if safe[i]:
            continue
        cost = np.where(hidden, 0.0, n)
        low = np.zeros(2 * len(n))
        low[i] = 1.0  # v = v+ - v-, and v_i = 1
        bounds = np.column_stack([low, np.where(np.arange(2 * len(n)) % len(n) == i, low, np.inf)])
        equal = {"A_eq": hstack([A, -A]), "b_eq": np.zeros(A.shape[0])}
        v = linprog(np.tile(cost, 2), **equal, bounds=bounds).x  # type: ignore[call-overload]
        moved = np.abs(v[: len(n)] - v[len(n) :]) > 1e-6
        hidden |= moved
        safe |= moved
    return hidden


def additions(table: pd.DataFrame, by: list[str]) -> csr_array:
    """Equations "total - parts = 0", one in each row, with a column for each cell."""
    keys = [tuple(row) for row in table[by].itertuples(index=False)]
    where = {key: i for i, key in enumerate(keys)}
    equations: dict[tuple[int, int], int] = {}
    entries: list[tuple[int, int, int]] = []
    for i, key in enumerate(keys):
        for v, label in enumerate(key):
            if label != TOTAL:
                total = where[(*key[:v], TOTAL, *key[v + 1 :])]
                if (total, v) not in equations:
                    entries.append((len(equations), total, 1))
                entries.append((equations.setdefault((total, v), len(equations)), i, -1))
    row, column, value = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    return csr_array((value, (row, column)), shape=(len(equations), len(keys)))
