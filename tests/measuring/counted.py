"""Records whose cells are given, counted as a file's are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surveysynth.measuring.bins import Cells
from surveysynth.measuring.counting import Count, Part
from surveysynth.measuring.measure import _File, _Measured
from surveysynth.measuring.protected_units import Units

Codes = NDArray[np.intp]


def counted(
    level: Codes, levels: int, code: Codes, groups: Codes, scores: Codes | None = None, parts: Codes | int = 1
) -> NDArray[np.int64]:
    """Records by level and group of their cell."""
    part = Part(None, pd.DataFrame(), {"by": level}, parts, ())
    part.codes["y"] = code
    return part.count(Count("y", groups, "by", levels, scores=scores))


class _Given(Part):
    def add(self, name: str, cells: Cells) -> None:
        """The cells are there."""


def file_of(
    codes: Mapping[str, Codes], levels: Mapping[str, Codes], rng: np.random.Generator, units: Units | None = None
) -> _File:
    """A file of records in these cells of variables, and levels of terms."""
    part = _Given(None, pd.DataFrame(), levels, 1 if units is None else units.parts, ())
    part.codes |= codes
    return _File(part, len(next(iter(codes.values()))), rng, units, None, gaussian=False)


def measured(name: str, cells: Cells, file: _File) -> _Measured:
    """A variable of the file, whose histogram is measured."""
    found = _Measured(name, cells, file)
    found.histogram(1.0)
    return found
