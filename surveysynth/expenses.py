"""What was spent on confidential files: each object that saw one carries it, so that all that rests on it counts it."""

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


@dataclass(frozen=True)
class Expense:
    """What was once spent on a confidential file.  All that rests on it carries it; a ledger counts it once.

    Attributes
    ----------
    what : str
        Such as "noisy tables of income", or "draws".
    blank, replace : float or None
        Epsilon for one unit's confidential values taken out, and replaced; None where it is not known, and both None
        where there is no guarantee.
    id : str
        Random, 32 hexadecimal digits.
    """

    what: str
    blank: float | None
    replace: float | None
    id: str = field(default_factory=lambda: secrets.token_hex(16))


def new_id() -> str:
    """A random text of 32 hexadecimal digits."""
    return secrets.token_hex(16)


def id_of(what: str, *numbers: NDArray[np.float64]) -> str:
    """An id by what is released, so that a run with a seed makes the same twice: never of what is confidential."""
    digest = hashlib.sha256(what.encode())
    for each in numbers:
        digest.update(np.ascontiguousarray(each, dtype=np.float64).tobytes())
    return digest.hexdigest()[:32]


def total(expenses: Iterable[Expense]) -> tuple[Decimal | None, Decimal | None]:
    """Exact sums for values that are taken out, and replaced; None where a part is unknown."""
    parts = list(expenses)
    return _sum(each.blank for each in parts), _sum(each.replace for each in parts)


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
