"""Expenses: the epsilon that a computation spends on a confidential file.

A ledger is a file in which an agency adds up the epsilon that all releases from a confidential file spend.  Every
result that is computed from the file lists its expenses by their ids, so that the ledger counts each expense once.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Context, Decimal, Inexact

import numpy as np
from numpy.typing import NDArray

EXACT = Context(prec=1000, traps=[Inexact])  # any sum of floats has fewer digits


def new_id() -> str:
    """Return a random text of 32 hexadecimal digits."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Expense:
    """The epsilon that one computation spent on a confidential file.  A ledger counts each expense once.

    Attributes
    ----------
    what : str
        Purpose, such as "noisy tables of income" or "draws" (of the parameters of a model).
    blank, replace : float or None
        Epsilon for two kinds of neighbouring files: one file lacks the confidential values of one record
        (``blank``), or has other confidential values for one record (``replace``).  If whole households or PSUs are
        protected, read household or PSU for record.  None means that the epsilon is unknown.  Both are None if
        there is no guarantee.
    id : str
        32 hexadecimal digits, random by default.
    """

    what: str
    blank: float | None
    replace: float | None
    id: str = field(default_factory=new_id)


def id_of(what: str, *numbers: NDArray[np.float64]) -> str:
    """Compute the id of an expense by hashing the purpose ``what`` and the released numbers.

    A second run with the same seed releases the same numbers.  It gets the same id, so that a ledger does not count it
    again.  ``numbers`` must not be confidential, because the id is published.
    """
    digest = hashlib.sha256(what.encode())
    for each in numbers:
        digest.update(np.ascontiguousarray(each, dtype=np.float64).tobytes())
    return digest.hexdigest()[:32]


def total(expenses: Iterable[Expense]) -> tuple[Decimal | None, Decimal | None]:
    """Add up epsilons exactly, with one sum for each kind of neighbouring files: a record is blanked, or is replaced.

    A sum is None (unknown) if one of its epsilons is None.
    """
    parts = list(expenses)
    return _sum(each.blank for each in parts), _sum(each.replace for each in parts)


def least_float(exact: Decimal) -> float:
    """Round an exact number up to a float, so that an epsilon is not understated.

    The float is the smallest one whose shortest decimal form (``repr``) is at least the exact number.
    """
    found = float(exact)
    return found if Decimal(repr(found)) >= exact else math.nextafter(found, math.inf)


def _sum(amounts: Iterable[float | None]) -> Decimal | None:
    added = Decimal(0)
    for amount in amounts:
        if amount is None:
            return None
        added = EXACT.add(added, Decimal(repr(float(amount))))
    return added
