"""Rounding of tables: the number of decimals is determined by the standard errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..estimation.tables import QUANTITY

NUMBERS = ["estimate", "se", "ci_low", "ci_high"]
ERRORS = ["se", "ci_low", "ci_high"]
DIGITS = 2  # of the smallest standard error; rounding changes a number by at most a twentieth of that
MOST = 6  # digits of the largest number, whatever the standard errors
FIXED = "fixed by construction"  # in the flag of a total
LENGTH = 4  # approximate length of an interval in standard errors
NONE = 1e-9  # a standard error below this share of the estimate is a rounding error


def decimals(block: pd.DataFrame) -> int:
    """The number of decimals for all cells of one quantity; -2 means that numbers are rounded to hundreds.

    The smallest standard error gets two digits.  For a share of 0 or 1, whose standard error is 0, a quarter of the
    length of the interval is used instead.

    Parameters
    ----------
    block : pandas.DataFrame
        The rows of one quantity, with ``estimate`` and ``se``, and with ``ci_low`` and ``ci_high`` if known.
    """
    numbers = block.reindex(columns=NUMBERS)
    estimate, se, low, high = (numbers[c].to_numpy(dtype=float) for c in NUMBERS)
    se = np.where((se == 0) & (low < high), (high - low) / LENGTH, se)
    most = MOST - 1 - _magnitude(np.nanmax(np.abs(estimate), initial=1.0))
    with np.errstate(invalid="ignore"):
        real = se[se > NONE * np.abs(estimate)]
    if real.size:
        return min(most, DIGITS - 1 - _magnitude(real.min()))
    there = estimate[np.isfinite(estimate)]
    return 0 if np.allclose(there, np.round(there), rtol=NONE, atol=0) else most  # counts that the design fixes


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its numbers rounded and converted to texts; a missing number is "".

    The number of decimals is ``attrs["digits"]``, or by default that of :func:`decimals`.  Totals that are fixed by
    construction are shown without standard error and interval.
    """
    out = table.astype(dict.fromkeys(NUMBERS, object))
    for rows, block in blocks(table):
        places = table.attrs.get("digits")
        places = decimals(block) if places is None else places
        for name in NUMBERS:
            out.loc[rows, name] = [written(x, places) for x in block[name]]
    if "flag" in table:
        out.loc[table["flag"].astype(object).fillna("").str.contains(FIXED), ERRORS] = ""
    return out


def blocks(table: pd.DataFrame) -> Iterator[tuple[pd.Index, pd.DataFrame]]:
    """The rows of each quantity: its index and its part of the table.

    A quantity is a statistic with its outcome, category and probability.
    """
    for _, block in table.groupby([c for c in QUANTITY if c in table], sort=False, dropna=False):
        yield block.index, block


def written(x: float, places: int) -> str:
    """A rounded number as text, with thousands separators; "" if it is missing."""
    return "" if pd.isna(x) else f"{round(float(x), places) + 0.0:,.{max(places, 0)}f}"


def _magnitude(x: float) -> int:
    """The power of ten of the first significant digit of a positive number."""
    return int(np.floor(np.log10(x)))
