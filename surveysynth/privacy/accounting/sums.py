"""Exact sums of a ledger's epsilons: unknown where a part is unknown, infinite where a part has no guarantee."""

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
NOT_COUNTED = Decimal("Infinity")  # epsilon of what has no guarantee
COLUMNS = ("blank", "replace")


class Spent(NamedTuple):
    """Exact sums: infinite where an entry has no guarantee, None where one is unknown."""

    blank: Decimal | None
    replace: Decimal | None


def sum_of(column: str) -> str:
    """The column of a table that holds the running sum of another."""
    return f"sum_{column}"


def _amounts(entries: Iterable[Entry], column: str) -> list[Decimal | None]:
    return [NOT_COUNTED if entry.kind == "none" else getattr(entry, column) for entry in entries]


def _add(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """A sum: without guarantee where a part has none, else unknown where a part is."""
    if NOT_COUNTED in (one, other):
        return NOT_COUNTED
    return None if one is None or other is None else EXACT.add(one, other)


def table_of(entries: list[Entry]) -> pd.DataFrame:
    """What was spent, one row an entry, in exact numbers, and the running sums."""
    table = pd.DataFrame({"number": pd.Series([entry.number for entry in entries], dtype=int)})
    for name in ("time", "what", "kind", "unit"):
        table[name] = pd.Series([getattr(entry, name) for entry in entries], dtype=str)
    amounts = {name: _amounts(entries, name) for name in COLUMNS}
    sums = {sum_of(name): [*accumulate(amounts[name], _add)] for name in COLUMNS}
    for name, values in (amounts | sums).items():
        table[name] = pd.Series(values, dtype=object)
    return table


def spent_on(entries: Iterable[Entry]) -> Spent:
    """What these entries spend."""
    entries = list(entries)
    zero: Decimal | None = Decimal(0)
    return Spent(*(reduce(_add, _amounts(entries, name), zero) for name in COLUMNS))


def last_cap(lines: Iterable[Line]) -> Decimal | None:
    """The cap that holds now; None where no line sets one."""
    caps = [line.cap for line in lines if isinstance(line, Cap)]
    return caps[-1] if caps else None


def left_of(lines: list[Line]) -> Decimal | None:
    """Cap less what was spent under blanking, at least 0, and 0 where that is unknown; None without a cap."""
    cap, spent = last_cap(lines), spent_on(line for line in lines if isinstance(line, Entry)).blank
    if cap is None:
        return None
    return Decimal(0) if spent is None else max(EXACT.subtract(cap, spent), Decimal(0))


def both_sums(entries: Iterable[Entry]) -> str:
    """The sums of both columns, for a person."""
    blank, replace = spent_on(entries)
    return f"{shown(blank)} (blank), {shown(replace)} (replace)"


def shown(amount: Decimal | None, rounding: str = ROUND_CEILING) -> str:
    """An epsilon for a person, at four decimals: rounded up, and what is left rounded down."""
    if amount is None:
        return "unknown"
    if not amount.is_finite():
        return "no guarantee"
    exact = Context(prec=EXACT.prec)
    return f"{amount.quantize(SHOWN, rounding, exact).normalize(exact):f}"


def as_decimal(value: object, name: str) -> Decimal:
    """A positive float as the decimal that it is printed as."""
    return Decimal(repr(positive(value, name)))
