"""Expenses: the epsilon that a computation spends on a confidential file.

Every result computed from a confidential file lists its expenses, so that a ledger can count each of them once.
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
    """A random text of 32 hexadecimal digits."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Expense:
    """The epsilon that one computation spent on a confidential file.  A ledger counts each expense once.

    Attributes
    ----------
    what : str
        Purpose, such as "noisy tables of income" or "draws".
    blank, replace : float or None
        Epsilon of the change that removes the confidential values of one unit (``blank``), or that replaces them by
        other values (``replace``).  None means that this epsilon is unknown.  Without a guarantee, ``blank``
        and ``replace`` are both None.
    id : str
        32 hexadecimal digits, random by default.
    """

    what: str
    blank: float | None
    replace: float | None
    id: str = field(default_factory=new_id)


def id_of(what: str, *numbers: NDArray[np.float64]) -> str:
    """Compute the id of an expense from its purpose and released numbers.  A run with the same seed has the same id.

    ``numbers`` must not be confidential, because the id is published.
    """
    digest = hashlib.sha256(what.encode())
    for each in numbers:
        digest.update(np.ascontiguousarray(each, dtype=np.float64).tobytes())
    return digest.hexdigest()[:32]


def total(expenses: Iterable[Expense]) -> tuple[Decimal | None, Decimal | None]:
    """Return the exact sums of ``blank`` and of ``replace``.  A sum is None if one of its terms is None."""
    parts = list(expenses)
    return _sum(each.blank for each in parts), _sum(each.replace for each in parts)


def least_float(exact: Decimal) -> float:
    """Return the smallest float whose shortest decimal form is at least the exact number."""
    found = float(exact)
    return found if Decimal(repr(found)) >= exact else math.nextafter(found, math.inf)


def _sum(amounts: Iterable[float | None]) -> Decimal | None:
    added = Decimal(0)
    for amount in amounts:
        if amount is None:
            return None
        added = EXACT.add(added, Decimal(repr(float(amount))))
    return added
