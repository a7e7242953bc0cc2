"""Flags and cell suppression for tables to be published.

Suppression is a quality rule: an estimate from few records is not reliable.  It does not protect anybody, because
anyone can compute every cell from the synthetic files.  The protection is the epsilon of these files.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack

from ..estimation.tables import FIXED, NUMBERS, QUANTITY, TOTAL
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
    known_total: bool = False,
) -> pd.DataFrame:
    """Return a table of estimates with small and complementary cells suppressed, and with a column ``flag``.

    Complementary cells are those from which a small cell could be computed.  A flag is a text on the quality of an
    estimate, or the reason of suppression.

    Parameters
    ----------
    table : pandas.DataFrame
        From :func:`surveysynth.estimation.tables.tabulate`.
    by : list of str
        The variables that define the table's domains.
    between : bool
        False if the release has one data set, so that standard errors lack the variance between data sets.  All rows
        are then flagged.
    min_cell : int, optional
        Cells with fewer records are suppressed, together with other cells from which the suppressed numbers could be
        computed.  All suppressed cells have the same flag, which does not show which cells are small.
    cv_limit : float, optional
        Estimates with a larger coefficient of variation (standard error over estimate) are flagged.
    whole : bool
        True if the table is of all records, False if a condition selects some of them.  If True, the total count equals
        the total to which the weights are calibrated.  It is then flagged, and has no standard error.
    modelled : bool array (rows,), optional
        True for cells that follow from the model alone, because no noisy table counts their variables together.  These
        cells are flagged.
    known_total : bool
        True if the population total was declared as public.  The count of all records is then shown with standard
        error 0.

    Returns
    -------
    pandas.DataFrame
        A copy of the table.  Several flags of a row are separated by "; "; a row without flags has "".

    Raises
    ------
    InputError
        See :func:`check_limits`.
    """
    table = table.copy()
    flags: list[list[str]] = [[] for _ in range(len(table))]

    def mark(where: NDArray[np.bool_], text: str) -> None:
        for i in np.flatnonzero(where):
            flags[i].append(text)

    if not between:
        mark(np.ones(len(table), dtype=bool), "one data set: no between variance")
    if modelled is not None:
        mark(modelled, MODELLED)
    count = (table["statistic"] == "count").to_numpy()
    everybody = whole & count & (table[by] == TOTAL).all(axis=1).to_numpy()
    exact = (table["se"] <= FIXED * table["estimate"]).to_numpy() & (table["n"] > 0).to_numpy()
    public = count & exact | everybody & known_total
    table.loc[public, "se"] = 0.0
    for limit in ("ci_low", "ci_high"):
        table.loc[public, limit] = table.loc[public, "estimate"]
    mark(public, "public total: fixed by construction, without sampling error")
    calibrated = everybody & ~public
    mark(calibrated, "calibrated total: fixed by construction, without a standard error")
    table.loc[calibrated, ["se", "df", "ci_low", "ci_high"]] = np.nan
    check_limits(min_cell, cv_limit)
    if min_cell is not None:
        hidden = _hidden(table, by, min_cell)
        mark(hidden, f"suppressed: fewer than {min_cell} records, or would give away such a cell")
        table["n"] = table["n"].astype("Int64")
        table.loc[hidden, [c for c in (*NUMBERS, "n", "deff") if c in table]] = pd.NA
    if cv_limit is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            high = (table["se"] / table["estimate"].abs()).to_numpy(dtype=float, na_value=np.nan) > cv_limit
        mark(high, f"CV above {cv_limit:.0%}")
    table["flag"] = ["; ".join(texts) for texts in flags]
    return table


def _hidden(table: pd.DataFrame, by: list[str], min_cell: int) -> NDArray[np.bool_]:
    """Return a boolean for each row of a table: True if its cell is small or complementary, hence suppressed.

    Complementary cells are found separately for each statistic of each outcome.
    """
    small = (table["n"] < min_cell).to_numpy()
    hidden = small.copy()
    quantity = [c for c in QUANTITY if c in table]
    for rows in table.groupby(quantity, sort=False, dropna=False).indices.values():
        hidden[rows] = complementary(table.iloc[rows], by, small[rows])
    return hidden


def check_limits(min_cell: int | None, cv_limit: float | None) -> None:
    """Raise InputError for unsuitable limits of suppression and of flags.

    Raises
    ------
    InputError
        ``min_cell`` is not a positive whole number, or ``cv_limit`` is not positive.
    """
    if cv_limit is not None:
        positive(cv_limit, "cv_limit")
    if min_cell is not None:
        whole(min_cell, "min_cell")


def complementary(table: pd.DataFrame, by: list[str], hidden: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Find the cells to suppress so that no suppressed cell can be computed from the published cells.

    A total is a row with "all" for some variable.  Its parts are the rows with the categories of that variable instead.
    Total minus parts is 0, so A x = 0 for the whole table x, where A is the matrix of :func:`additions`.  A suppressed
    cell i cannot be computed if there is a v with A v = 0 and v_i = 1 that is 0 on every published cell: x + v would be
    another table with the same published cells.  The v that suppresses the fewest further records is the solution of a
    linear programme, as usual for complementary suppression (Cox 1995).

    Parameters
    ----------
    table : pandas.DataFrame
        One statistic of one outcome.
    by : list of str
        The variables that define the table's domains.
    hidden : bool array (rows,)
        True for each cell that is suppressed at the start.

    Returns
    -------
    bool array (rows,)
        True for each cell that is suppressed at the end.
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
    """Return the matrix A of the equations "total - parts = 0": a row for each equation, a column for each cell."""
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
