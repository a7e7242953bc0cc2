"""Exact sums of the epsilons of a ledger.

An entry of a ledger records what a release spends: ``blank``, the epsilon for removing or adding the confidential
values of one unit, and ``replace``, the epsilon for replacing these values.  A cap is the largest permitted sum of the
``blank`` epsilons of a survey.

A sum is infinite if an entry has no guarantee.  Otherwise the sum is unknown (None) if an entry's epsilon is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from functools import reduce
from itertools import accumulate
from typing import NamedTuple

import pandas as pd

from ...expenses import EXACT
from ...validation import positive
from .ledger_file import Cap, Entry, Line

SHOWN = Decimal("0.0001")
NOT_COUNTED = Decimal("Infinity")  # epsilon without a guarantee
COLUMNS = ("blank", "replace")


class Spent(NamedTuple):
    """Exact sums of the epsilons in ledger entries: for removing a unit's values, and for replacing them.

    A sum is infinite if an entry has no guarantee.  Otherwise a sum is None if an epsilon is unknown.
    """

    blank: Decimal | None
    replace: Decimal | None


def sum_of(column: str) -> str:
    """Return the name of the column that has the running sum of a given column."""
    return f"sum_{column}"


def _amounts(entries: Iterable[Entry], column: str) -> list[Decimal | None]:
    return [NOT_COUNTED if entry.kind == "none" else getattr(entry, column) for entry in entries]


def _add(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """Add two epsilons.  The sum is infinite if one has no guarantee, otherwise None if one is unknown."""
    if NOT_COUNTED in (one, other):
        return NOT_COUNTED
    return None if one is None or other is None else EXACT.add(one, other)


def table_of(entries: list[Entry]) -> pd.DataFrame:
    """Return a table of entries with exact epsilons and running sums, one row for each entry.

    The columns are ``number, time, what, kind, unit, blank, replace, sum_blank, sum_replace``.
    """
    table = pd.DataFrame({"number": pd.Series([entry.number for entry in entries], dtype=int)})
    for name in ("time", "what", "kind", "unit"):
        table[name] = pd.Series([getattr(entry, name) for entry in entries], dtype=str)
    amounts = {name: _amounts(entries, name) for name in COLUMNS}
    sums = {sum_of(name): [*accumulate(amounts[name], _add)] for name in COLUMNS}
    for name, values in (amounts | sums).items():
        table[name] = pd.Series(values, dtype=object)
    return table


def spent_on(entries: Iterable[Entry]) -> Spent:
    """Return the exact sums of the epsilons in ledger entries: for removing a unit's values, and for replacing them."""
    entries = list(entries)
    zero: Decimal | None = Decimal(0)
    return Spent(*(reduce(_add, _amounts(entries, name), zero) for name in COLUMNS))


def last_cap(lines: Iterable[Line]) -> Decimal | None:
    """Return the last cap among some lines of a ledger, or None if there is no cap."""
    caps = [line.cap for line in lines if isinstance(line, Cap)]
    return caps[-1] if caps else None


def left_of(lines: list[Line]) -> Decimal | None:
    """Return the epsilon that the cap still permits, from all ledger lines of a survey.

    This is the cap minus the sum of the ``blank`` epsilons, but at least 0.  The result is 0 if the sum is unknown, and
    None if there is no cap.
    """
    cap, spent = last_cap(lines), spent_on(line for line in lines if isinstance(line, Entry)).blank
    if cap is None:
        return None
    return Decimal(0) if spent is None else max(EXACT.subtract(cap, spent), Decimal(0))


def both_sums(entries: Iterable[Entry]) -> str:
    """Return the sums of the epsilons in ledger entries, for removing and for replacing a unit's values, as text."""
    blank, replace = spent_on(entries)
    return f"{shown(blank)} (blank), {shown(replace)} (replace)"


def shown(amount: Decimal | None, rounding: str = ROUND_CEILING) -> str:
    """Return an epsilon as text with at most four decimals, by default rounded up.

    The text is "unknown" for None, and "no guarantee" for infinity.
    """
    if amount is None:
        return "unknown"
    if not amount.is_finite():
        return "no guarantee"
    exact = Context(prec=EXACT.prec)
    return f"{amount.quantize(SHOWN, rounding, exact).normalize(exact):f}"


def as_decimal(value: object, name: str) -> Decimal:
    """Convert a positive number to the ``Decimal`` that Python prints for it: 0.1 becomes Decimal("0.1").

    Raise InputError, with the name of the argument, for anything else.
    """
    return Decimal(repr(positive(value, name)))
