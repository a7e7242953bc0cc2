"""Combinations of codes that records have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.intp]

FEW = 4  # times the records: so many codes are numbered by a table of them, and more by sorting


def combined(codes: Sequence[Codes]) -> tuple[Codes, Codes]:
    """Combinations of codes (n,) that there are, in order: the first record of each (R,), and that of each record."""
    place = np.zeros_like(codes[0])
    for code in codes:
        place = numbered(place * (int(code.max(initial=0)) + 1) + code)
    first = np.empty(int(place.max(initial=-1)) + 1, dtype=np.intp)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return first, place


def numbered(code: Codes) -> Codes:
    """The same codes, numbered in their order without gaps."""
    most = int(code.max(initial=0)) + 1
    if most > FEW * len(code):
        return np.unique(code, return_inverse=True)[1].ravel()
    there = np.zeros(most, dtype=np.intp)
    there[code] = 1
    return (np.cumsum(there) - 1)[code]
