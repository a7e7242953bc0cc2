"""Rounding of tables: the kind and the size of a statistic determine the number of decimals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..estimation.quantities import SHARES
from ..estimation.tables import QUANTITY

NUMBERS = ["estimate", "se", "ci_low", "ci_high"]
ERRORS = ["se", "ci_low", "ci_high"]
DIGITS = {"total": 6}  # significant digits of the estimate of all; totals of amounts are rounded to them
USUAL_DIGITS = 4  # digits of other numbers, which are never rounded to tens
MOST = 8  # largest number of digits
FIXED = "fixed by construction"  # words in the flag of a total
NONE = 1e-9  # a standard error below this share of the estimate is a rounding error


def decimals(block: pd.DataFrame, *, percent: bool = False) -> int:
    """Return the number of decimals for one statistic of one outcome; -2 means that numbers are rounded to hundreds.

    Counts are whole numbers.  Shares have three decimals, or one in percent.  For other statistics, the estimate of all
    records, in the last row, sets the number of decimals: it gets six significant digits if it is a total, else four,
    and numbers other than totals are not rounded to tens.  The decimals are therefore the same in all tables of a
    release.  There are more decimals if the standard error of this estimate would otherwise be rounded to 0.  No
    estimate other than a count gets more than eight significant digits.

    Parameters
    ----------
    block : pandas.DataFrame
        The rows of this statistic, with columns ``statistic``, ``estimate`` and ``se``.
    percent : bool
        True if shares are in percent.
    """
    statistic = str(block["statistic"].iloc[0])
    if statistic == "count":
        return 0
    estimates = block["estimate"].to_numpy(dtype=float)
    size = abs(estimates[-1]) if np.isfinite(estimates[-1]) else np.nanmax(np.abs(estimates), initial=0.0)
    size, se = size or 1.0, float(block["se"].iloc[-1])
    if statistic in SHARES:
        places = 1 if percent else 3
    elif statistic in DIGITS:
        places = min(0, DIGITS[statistic] - 1 - _magnitude(size))
    else:
        places = max(0, USUAL_DIGITS - 1 - _magnitude(size))
    if se > NONE * size:
        places = max(places, -_magnitude(se))
    return min(places, MOST - 1 - _magnitude(size))


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its estimates, standard errors and confidence limits rounded and converted to texts.

    The text of a missing number is empty.

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
    """Yield the index and the rows of each part of a table, with one part for each quantity.

    A quantity is a statistic with its outcome, category and probability.
    """
    for _, block in table.groupby([c for c in QUANTITY if c in table], sort=False, dropna=False):
        yield block.index, block


def written(x: float, places: int) -> str:
    """Return a rounded number as text, with thousands separators.  The text of a missing number is empty."""
    return "" if pd.isna(x) else f"{round(float(x), places) + 0.0:,.{max(places, 0)}f}"


def _magnitude(x: float) -> int:
    """Return the exponent of ten of the first significant digit of a positive number."""
    return int(np.floor(np.log10(x)))
