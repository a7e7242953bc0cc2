"""Flags and cell suppression for tables that are about to be published."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from .tables import TOTAL

NUMBERS = ["estimate", "se", "df", "ci_low", "ci_high"]


def flag(
    table: pd.DataFrame, by: list[str], m: int, *, min_cell: int | None = None, cv_limit: float | None = None
) -> pd.DataFrame:
    """Add the column ``flag``, and suppress small cells with those that would give them away.

    Parameters
    ----------
    table : pandas.DataFrame
        From :func:`surveysynth.estimation.tables.tabulate`.
    by : list of str
    m : int
        Data sets combined; with one there is no between variance, which is flagged.
    min_cell : int, optional
        Cells of fewer records are blanked.
    cv_limit : float, optional
        Standard error over estimate above which an estimate is flagged.

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

    if m == 1:
        say(np.ones(len(table), dtype=bool), "one data set: no between variance")
    count = (table["statistic"] == "count").to_numpy()
    say(
        count & (table[by] == TOTAL).all(axis=1).to_numpy(),
        "calibrated total: fixed by construction, the standard error is not its own",
    )
    if cv_limit is not None:
        if not cv_limit > 0:
            raise InputError("cv_limit must be a positive number, for example 0.3")
        with np.errstate(divide="ignore", invalid="ignore"):
            say((table["se"] / table["estimate"].abs()).to_numpy() > cv_limit, f"CV above {cv_limit:.0%}")
    if min_cell is not None:
        if isinstance(min_cell, bool) or int(min_cell) != min_cell or min_cell < 1:
            raise InputError("min_cell must be a whole number of records, at least 1")
        small = (table["n"] < min_cell).to_numpy()
        hidden = small.copy()
        for _, rows in table.groupby(["statistic", "outcome"], sort=False).indices.items():
            hidden[rows] = complementary(table.iloc[rows], by, small[rows])
        say(small, f"suppressed: fewer than {min_cell} records")
        say(hidden & ~small, "suppressed: would give away a small cell")
        table["n"] = table["n"].astype("Int64")
        table.loc[hidden, [*NUMBERS, "n"]] = pd.NA
    table["flag"] = ["; ".join(said) for said in flags]
    return table


def complementary(table: pd.DataFrame, by: list[str], hidden: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Hide further cells until no published total minus its published parts leaves one hidden cell.

    A total is a row with "all" in some variable; its parts are the rows with that variable's
    categories instead.  Where exactly one part is hidden, or all parts are shown but their
    total is not, the smallest other part (or the total's own) is hidden too.

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
    hidden = hidden.copy()
    keys = [tuple(row) for row in table[by].itertuples(index=False)]
    where = {key: i for i, key in enumerate(keys)}
    parts: dict[int, list[list[int]]] = {}
    for i, key in enumerate(keys):
        for v, label in enumerate(key):
            if label != TOTAL:
                total = where[(*key[:v], TOTAL, *key[v + 1 :])]
                groups = parts.setdefault(total, [[] for _ in by])
                groups[v].append(i)
    n = table["n"].to_numpy()
    changed = True
    while changed:
        changed = False
        for total, groups in parts.items():
            for group in groups:
                equation = [*group, total]  # total - sum of its parts = 0: one unknown can be solved for
                unknown = [i for i in equation if hidden[i]]
                if group and len(unknown) == 1:
                    known = [i for i in group if not hidden[i]] or [total]
                    hidden[min(known, key=lambda i: n[i])] = True
                    changed = True
    return hidden
