"""What was spent on confidential files: each object that saw one carries it, so that all that rests on it counts it."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .errors import InputError

EXACT = Context(prec=1000, traps=[Inexact])  # any sum of floats has fewer digits
SMALLEST = Decimal("0.0001")  # of a part of epsilon that several releases share
INTERNAL = {"internal": True}  # of a field that is never published


@dataclass(frozen=True)
class Fingerprint:
    """Tells whether another file has a column with the same values, in any order and under any name.

    Attributes
    ----------
    key : str
        Random, 64 hexadecimal digits.
    digests : tuple of str
        HMAC-SHA256 of the sorted values of each column, under the key.

    Notes
    -----
    Internal: whoever has key and digests can try values, and learns whether they are the file's.
    """

    key: str
    digests: tuple[str, ...]

    @classmethod
    def of(cls, columns: Iterable[pd.Series]) -> Self:
        """That of some columns, under a new key."""
        key = secrets.token_hex(32)
        return cls(key, tuple(_digest(column, key) for column in columns))

    def matches(self, columns: Iterable[pd.Series]) -> bool:
        """Whether one of the columns is one of those of the fingerprint."""
        return any(_digest(column, self.key) in self.digests for column in columns)


@dataclass(frozen=True)
class Expense:
    """What was once spent on a confidential file.  All that rests on it carries it; a ledger counts it once.

    Attributes
    ----------
    what : str
        Such as "normal scores of income", or "draws".
    blank, replace : float or None
        Epsilon for one unit's confidential values taken out, and replaced; None where it is not known, and both None
        where there is no guarantee.
    id : str
        Random, 32 hexadecimal digits.
    file : Fingerprint or None
        Of the file; None where it is not at hand, as in what was read from published files, pickled or copied.
    """

    what: str
    blank: float | None
    replace: float | None
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    file: Fingerprint | None = field(default=None, repr=False, compare=False, metadata=INTERNAL)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle or a copy holds: the public part."""
        return vars(self) | {"file": None}

    @property
    def guaranteed(self) -> bool:
        """Whether it has an epsilon at all."""
        return (self.blank, self.replace) != (None, None)

    def public(self) -> dict[str, Any]:
        """As manifests say it."""
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.metadata.get("internal")}


def strict(what: str, epsilon: float, file: Fingerprint | None, id: str | None = None) -> Expense:
    """Of a mechanism whose epsilon for values that are replaced is twice that for values that are taken out."""
    return Expense(what, epsilon, 2 * epsilon, id=new_id() if id is None else id, file=file)


def new_id() -> str:
    """Random, 32 hexadecimal digits."""
    return secrets.token_hex(16)


def id_of(what: str, *numbers: NDArray[np.float64]) -> str:
    """An id by what is released, so that a run with a seed makes the same twice: never of what is confidential."""
    digest = hashlib.sha256(what.encode())
    for each in numbers:
        digest.update(np.ascontiguousarray(each, dtype=np.float64).tobytes())
    return digest.hexdigest()[:32]


def without_repeats(expenses: Iterable[Expense]) -> tuple[Expense, ...]:
    """Each once, with its file where any of its copies knows it."""
    found: dict[str, Expense] = {}
    for expense in expenses:
        if expense.id not in found or found[expense.id].file is None:
            found[expense.id] = expense
    return tuple(found.values())


def of_this_file(
    expenses: Iterable[Expense], columns: Sequence[pd.Series]
) -> tuple[tuple[Expense, ...], tuple[Expense, ...]]:
    """Those that were spent on a file, of which some columns are given, and those that were spent on other files.

    What may be of this file, as its fingerprint is not at hand, counts as of this file.

    Raises
    ------
    InputError
        Something was computed from this very file without protection.
    """
    here, elsewhere = list[Expense](), list[Expense]()
    for expense in without_repeats(expenses):
        known = expense.file
        same = known is not None and known.matches(columns)
        if same and not expense.guaranteed:
            raise InputError(
                f"{expense.what} was computed from this very file, without any protection: a release that rests on it "
                "would give the file away. Take another file, or what was released under an epsilon"
            )
        of_it = expense.guaranteed and (known is None or same)
        (here if of_it else elsewhere).append(expense)
    return tuple(here), tuple(elsewhere)


def with_files(expenses: Iterable[Expense], known: Mapping[str, Fingerprint]) -> tuple[Expense, ...]:
    """With the fingerprints that are known, by the expenses' numbers."""
    return tuple(replace(each, file=known.get(each.id, each.file)) for each in expenses)


def without_files(expenses: Iterable[Expense]) -> tuple[Expense, ...]:
    """The public part."""
    return tuple(replace(each, file=None) for each in expenses)


def total(expenses: Iterable[Expense]) -> tuple[Decimal | None, Decimal | None]:
    """Exact sums for values that are taken out, and replaced; None where a part is unknown."""
    parts = list(expenses)
    return _sum(each.blank for each in parts), _sum(each.replace for each in parts)


def rounded_down(epsilon: float) -> float:
    """At four decimals, so that what is left of a sum is short."""
    return float(Decimal(repr(float(epsilon))).quantize(SMALLEST, ROUND_FLOOR))


def rounded_up(epsilon: float) -> float:
    """At four decimals."""
    return float(Decimal(repr(float(epsilon))).quantize(SMALLEST, ROUND_CEILING))


def least_float(exact: Decimal) -> float:
    """The least float whose shortest decimal is not below an exact number."""
    found = float(exact)
    return found if Decimal(repr(found)) >= exact else math.nextafter(found, math.inf)


def _sum(amounts: Iterable[float | None]) -> Decimal | None:
    added = Decimal(0)
    for amount in amounts:
        if amount is None:
            return None
        added = EXACT.add(added, Decimal(repr(float(amount))))
    return added


def _digest(column: pd.Series, key: str) -> str:
    """Of the values that are there, sorted."""
    values = column.dropna()
    if pd.api.types.is_numeric_dtype(values.dtype):
        text = np.sort(values.to_numpy(dtype=np.float64) + 0.0).tobytes()  # -0 is 0
    else:
        text = "\0".join(sorted(map(str, values))).encode("utf-8", "surrogatepass")
    return hmac.new(bytes.fromhex(key), text, hashlib.sha256).hexdigest()
