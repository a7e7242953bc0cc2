"""Check arguments and columns, and describe row numbers in messages.

The parameter ``name`` of a check is the name of the argument that is checked, for the message.
"""

from __future__ import annotations

import difflib
import inspect
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .errors import InputError

LISTED = 5  # largest number of rows that a message names


def rows(bad: ArrayLike) -> str:
    """Describe the rows at fault for a message: ``"3 rows (row numbers 2, 5, 9; the first row is 1)"``.

    Parameters
    ----------
    bad : boolean array, shape (n,)
        True for a row at fault.
    """
    where = np.flatnonzero(np.asarray(bad)) + 1
    listed = ", ".join(str(i) for i in where[:LISTED])
    more = ", ..." if where.size > LISTED else ""
    noun = "row" if where.size == 1 else "rows"
    return f"{where.size:,} {noun} (row numbers {listed}{more}; the first row is 1)"


def as_list(names: str | Iterable[str] | None) -> list[str]:
    """Return one name or several names as a list, and an empty list for None.  Raise InputError for other types."""
    listed = several(names)
    for name in listed if names is not None else []:
        if not isinstance(name, str):
            raise InputError(f"a name was expected, or a list of names, not {type(name).__name__}")
    return [name for name in listed if isinstance(name, str)]


def several(given: Any) -> list[Any]:
    """Return the items of an argument as a list.  A text or a value that is not iterable gives a list of one item."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        return [given]
    return list(given)


def is_text(value: object) -> bool:
    """Return True if a value is a text that can be written to a file, that is, a text without lone surrogates."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def is_finite(value: object) -> bool:
    """Return True if a value is a number that is finite as a float.  True and False do not count as numbers."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def truth(value: object, name: str) -> bool:
    """Return the value as a bool.  Raise InputError if it is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False")
    return bool(value)


def positive(value: object, name: str) -> float:
    """Return the value as a float.  Raise InputError if it is not a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(f"{name} must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a positive number")
    return number


def interval_of(value: object, name: str) -> tuple[float, float]:
    """Return two limits as floats.  Raise InputError unless they are finite and the first is below the second."""
    pair = several(value)
    if isinstance(value, str | bytes | Mapping) or len(pair) != 2 or not all(is_finite(limit) for limit in pair):
        raise InputError(f"{name} must be a pair of numbers, (lowest, highest)")
    low, high = float(pair[0]), float(pair[1])
    if not low < high:
        raise InputError(f"{name} must be finite, the lowest below the highest")
    return low, high


def whole(value: object, name: str, most: int = 2**31 - 1) -> int:
    """Return the value as an int.  Raise InputError if it is not a whole number from 1 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be a whole number, at least 1")
    if value > most:
        raise InputError(f"{name} must be a whole number, at most {most:,}")
    return int(value)


def one_of(value: object, allowed: Iterable[object], name: str) -> None:
    """Raise InputError for a value that is not among those ``allowed``.  ``name`` names the argument in the message."""
    listed = list(allowed)
    if not any(value is each or (isinstance(value, type(each)) and value == each) for each in listed):
        raise InputError(f"{name}={reprlib.repr(value)} is not one of {', '.join(map(str, listed))}")


def check_keywords(
    called: Callable[..., Any], given: Iterable[str], *further: Callable[..., Any], without: Iterable[str] = ()
) -> None:  # fmt: skip
    """Raise TypeError for a keyword argument that neither ``called`` nor a function in ``further`` accepts.

    An argument is accepted by ``called``, or by a function in ``further``, to which ``called`` passes its
    ``**settings``.  Python's own error would name a function that the user did not call, and would suggest no similar
    name.

    Parameters
    ----------
    called : function or class
        The function that the user called.
    given : iterable of str
        Names of the arguments.
    *further : function
        The functions that get ``**settings`` of ``called``.
    without : iterable of str
        Arguments of ``further`` that the user cannot give, because ``called`` sets them itself.

    Raises
    ------
    TypeError
        An argument is unknown.  The message is Python's own, with the most similar known name.
    """
    parameters = [p for f in (called, *further) for p in inspect.signature(f).parameters.values()]
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    known = [name for name in named if name not in {"self", *without}]
    for name in given if parameters and parameters[-1].kind is not inspect.Parameter.VAR_KEYWORD else ():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{called.__qualname__}() got an unexpected keyword argument {name!r}{meant}")


def line_of_text(value: object, name: str) -> str:
    """Return a text without blanks at its ends.  Raise InputError unless it is one line of printable characters."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"{name} must be a text of one line, without control characters, and not empty")
    return value.strip()


def check_seed(seed: object) -> None:
    """Raise InputError for a seed that is neither None nor a whole number of at least 0."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise InputError("seed must be a whole number, not negative")
