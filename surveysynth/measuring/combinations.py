"""Combinations of codes that records have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..design.columns import occurring

Codes = NDArray[np.intp]


def combined(codes: Sequence[Codes]) -> tuple[Codes, Codes]:
    """Combinations of codes (n,) that there are, in order: the first record of each (R,), and that of each record."""
    place = np.zeros_like(codes[0])
    for code in codes:
        many = int(code.max(initial=0)) + 1
        place = occurring(place * many + code, (int(place.max(initial=0)) + 1) * many)[1]
    first = np.empty(int(place.max(initial=-1)) + 1, dtype=np.intp)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return first, place
