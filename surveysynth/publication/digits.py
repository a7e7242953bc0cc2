"""Rounding of tables: the number of decimals is determined by the standard errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..estimation.tables import QUANTITY

NUMBERS = ["estimate", "se", "ci_low", "ci_high"]
ERRORS = ["se", "ci_low", "ci_high"]
DIGITS = 2  # digits of the smallest standard error; rounding changes a number by at most a twentieth of this error
MOST = 6  # largest number of digits of the largest number
FIXED = "fixed by construction"  # words in the flag of a total
LENGTH = 4  # approximate length of an interval in standard errors
NONE = 1e-9  # a standard error below this share of the estimate is a rounding error


def decimals(block: pd.DataFrame) -> int:
    """Return the number of decimals for one statistic of one outcome; -2 means that numbers are rounded to hundreds.

    The smallest standard error is shown with two significant digits.  A proportion of 0 or 1 has the standard error 0.
    A quarter of the length of its confidence interval is then used instead.

    Parameters
    ----------
    block : pandas.DataFrame
        The rows of this statistic, with ``estimate`` and ``se``, and with ``ci_low`` and ``ci_high`` if known.
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
    """Round the numbers of a table, and convert them to texts.  The text of a missing number is empty.

    The number of decimals is ``attrs["digits"]`` of the table, or by default the result of :func:`decimals`.  Totals
    that are public or calibrated have no sampling error.  They are shown without standard error and interval.
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
    """Yield the index and the rows of each quantity in a table.

    A quantity is a statistic with its outcome, category and probability.
    """
    for _, block in table.groupby([c for c in QUANTITY if c in table], sort=False, dropna=False):
        yield block.index, block


def written(x: float, places: int) -> str:
    """Return a rounded number as text, with thousands separators.  The text of a missing number is empty."""
    return "" if pd.isna(x) else f"{round(float(x), places) + 0.0:,.{max(places, 0)}f}"


def _magnitude(x: float) -> int:
    """The power of ten of the first significant digit of a positive number."""
    return int(np.floor(np.log10(x)))
