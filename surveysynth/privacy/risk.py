"""Disclosure risks of single records, which a map of :mod:`surveysynth.privacy.weights` makes privacy weights of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ..design import SurveyDesign
from ..errors import InputError
from ..models.base import Posterior, Synthesizer
from .balls import attribute, balls_of, ends, sizes
from .units import Unit

Floats = NDArray[np.float64]
Span = tuple[float, float] | None


class Risk(Protocol):
    """A measure of how risky each record of a confidential file is."""

    @property
    def name(self) -> str:
        """Short name: of the column of internal files."""
        ...

    @property
    def span(self) -> Span:
        """The least and the largest risk there can be; None: those of the file."""
        ...

    def of(
        self, design: SurveyDesign, model: Synthesizer, data: Any, unit: Unit, unweighted: Callable[[], Posterior]
    ) -> Floats:
        """The risks of the records (n,), or of the units that epsilon protects (U,).

        ``data`` is the design as the model prepares it; ``unweighted`` gives the posterior under alpha = 1, at the
        price of a fit.
        """
        ...

    def describe(self) -> str:
        """What it is, for the public report."""
        ...


@dataclass(frozen=True)
class Lipschitz:
    """f_i = max over draws of |log p(record i)| under the unweighted fit: the "LW" of R (Algorithm 2, T 1.4.1).

    The risk that the guarantee itself is about.  Of a unit of several records it is |sum log p_i|.
    """

    name: ClassVar[str] = "lipschitz"
    span: ClassVar[Span] = None

    def of(
        self, design: SurveyDesign, model: Synthesizer, data: Any, unit: Unit, unweighted: Callable[[], Posterior]
    ) -> Floats:
        """f_i, (n,) or (U,): see :class:`Risk`."""
        return model.lipschitz(data, unweighted(), unit.of_record)

    def describe(self) -> str:
        """What it is, for the public report."""
        return "each record's Lipschitz bound under the model without privacy weights"


@dataclass(frozen=True)
class Count:
    """IR_i, the share of the records whose values are outside of a closed ball around y_i: the "CW" of R (Algorithm 3).

    A record that few others come near is easily told from them.  Of a unit of several records it is the largest of
    theirs.  It takes no model and no fit.

    Parameters
    ----------
    radius : float, or one for each numeric outcome
        Of the ball, a share of |y_i| or, where not ``relative``, in the unit of y.  Policy, and public.
    relative : bool
    floor : float, or one for each numeric outcome
        Least radius, in the unit of y; without it a relative ball around 0 holds zeros alone.

    Raises
    ------
    InputError
        A radius or a floor that is negative or no number.
    """

    radius: float | tuple[float, ...] = 0.2
    relative: bool = True
    floor: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "count"
    span: ClassVar[Span] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not isinstance(self.relative, bool):
            raise InputError("relative must be True or False")
        for field in ("radius", "floor"):
            given = getattr(self, field)
            several = isinstance(given, list | tuple | np.ndarray)
            numbers = sizes(given, field, len(given) if several else 1).tolist()
            object.__setattr__(self, field, tuple(numbers) if several else numbers[0])

    def of(
        self, design: SurveyDesign, model: Synthesizer, data: Any, unit: Unit, unweighted: Callable[[], Posterior]
    ) -> Floats:
        """IR_i, (n,) or (U,): see :class:`Risk`.

        Raises
        ------
        InputError
            No numeric outcome, or other numbers of radii than of outcomes.
        """
        numeric = [outcome for outcome in model.outcomes if outcome not in model.categorical]
        if not numeric:
            raise InputError("Count looks at numeric outcomes, and there are none: use Lipschitz()")
        y = np.column_stack([design.numeric(outcome) for outcome in numeric])
        for name, given in (("radius", self.radius), ("floor", self.floor)):
            if isinstance(given, tuple) and len(given) != len(numeric):
                raise InputError(f"Count: {name} has {len(given)} numbers, and the numeric outcomes are {len(numeric)}")
        radius, floor = sizes(self.radius, "radius", len(numeric)), sizes(self.floor, "floor", len(numeric))
        everybody = np.zeros(design.n, dtype=np.intp)
        outside = 1 - attribute(balls_of(everybody, *ends(y, radius, floor, self.relative), y))
        if unit.of_record is None:
            return np.asarray(outside)
        largest = np.zeros(unit.count(design.n))
        np.maximum.at(largest, unit.of_record, outside)
        return largest

    def describe(self) -> str:
        """What it is, for the public report."""
        radius = f"{_said(self.radius)} times the record's value" if self.relative else _said(self.radius)
        least = f", at least {_said(self.floor)}" if np.any(np.asarray(self.floor) > 0) else ""
        return f"the share of records whose values are further from the record's than a radius ({radius}{least})"


def _said(numbers: float | tuple[float, ...]) -> str:
    return ", ".join(f"{x:g}" for x in (numbers if isinstance(numbers, tuple) else (numbers,)))
