"""Disclosure risks of records.  Maps (:mod:`surveysynth.privacy.weight_maps`) turn risks into privacy weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...models.base import Synthesizer
from ...models.draws import Draws
from ..neighbourhoods import ends, sizes
from ..units import Unit

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Span = tuple[float, float] | None


class Risk(Protocol):
    """A measure of the disclosure risk of each record of a confidential file."""

    @property
    def name(self) -> str:
        """Short name of the measure, which is also the name of its column in internal files."""
        ...

    @property
    def span(self) -> Span:
        """Smallest and largest possible risk, or None if unknown: the linear map then uses the range in the file."""
        ...

    def compute(
        self, design: SurveyDesign, model: Synthesizer, records: Any, unit: Unit, unweighted: Callable[[], Draws],
        rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """Compute the risks of the n records or, if epsilon protects groups of records, of the U groups.

        ``records`` are the records as the model prepared them.  ``unweighted`` returns draws from the fit with privacy
        weights of 1.  Measures that simulate use ``rng``.
        """
        ...

    def describe(self) -> str:
        """Describe the measure for the public report."""
        ...


class _BallRisk:
    """A measure of risk with balls around the records' values."""

    radius: float | tuple[float, ...]
    relative: bool
    floor: float | tuple[float, ...]

    instead: ClassVar[str] = "use LipschitzRisk()"  # advice if there are no numeric outcomes

    def _check(self) -> None:
        if not isinstance(self.relative, bool):
            raise InputError("relative must be True or False")
        for field in ("radius", "floor"):
            given = getattr(self, field)
            several = isinstance(given, list | tuple | np.ndarray)
            several = several and not (isinstance(given, np.ndarray) and given.ndim != 1)
            numbers = sizes(given, field, len(given) if several else 1).tolist()
            object.__setattr__(self, field, tuple(numbers) if several else numbers[0])

    def _values(self, design: SurveyDesign, model: Synthesizer) -> tuple[Floats, Floats, Floats]:
        """Return the numeric outcomes of each record, and the lower and upper limits of the balls around them."""
        measure = type(self).__name__
        numeric = model.numeric
        if not numeric:
            raise InputError(f"{measure} looks at numeric outcomes, and there are none: {self.instead}")
        for name, given in (("radius", self.radius), ("floor", self.floor)):
            if isinstance(given, tuple) and len(given) != len(numeric):
                raise InputError(
                    f"{measure}(): {name} has {len(given)} numbers, and the numeric outcomes are {len(numeric)}"
                )
        y = np.column_stack([design.numeric(outcome) for outcome in numeric])
        radius, floor = sizes(self.radius, "radius", len(numeric)), sizes(self.floor, "floor", len(numeric))
        return y, *ends(y, radius, floor, self.relative)

    @property
    def _ball(self) -> str:
        """The size of the ball in words, for the report."""
        radius = f"{_text(self.radius)} times the record's value" if self.relative else _text(self.radius)
        least = f", at least {_text(self.floor)}" if np.any(np.asarray(self.floor) > 0) else ""
        return f"radius ({radius}{least})"


def _largest_by_unit(risk: Floats, unit: Unit) -> Floats:
    if unit.by_record is None:
        return np.asarray(risk)
    largest = np.zeros(unit.count(risk.size))
    np.maximum.at(largest, unit.by_record, risk)
    return largest


def _text(numbers: float | tuple[float, ...]) -> str:
    return ", ".join(f"{x:g}" for x in (numbers if isinstance(numbers, tuple) else (numbers,)))
