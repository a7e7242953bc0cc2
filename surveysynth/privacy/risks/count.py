"""Disclosure risk of a record, computed from the number of records with similar values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...design.survey_design import SurveyDesign
from ...models.base import Synthesizer
from ...models.draws import Draws
from ..neighbourhoods import attribute, balls_of
from ..units import Unit
from .base import _BallRisk, _largest_by_unit

Floats = NDArray[np.float64]
Span = tuple[float, float] | None


@dataclass(frozen=True)
class CountRisk(_BallRisk):
    """The share IR_i of the file's records whose values lie outside a closed ball around the values y_i of record i.

    Source: Hu, Savitsky & Williams 2020, Algorithm 3, the weights "CW".

    A record with few other records nearby is easily distinguished, and has a high risk.  A unit of several records has
    the largest risk of its records.  The measure needs no fit.

    Parameters
    ----------
    radius : float, or one for each numeric outcome
        Radius of the ball, as a share of |y_i| or, if not ``relative``, in the unit of y.  The radius is public.
    relative : bool
        True if radii are shares of |y_i|.
    floor : float, or one for each numeric outcome
        Smallest radius, in the unit of y.  Without a floor, a relative ball around 0 holds only zeros.

    Raises
    ------
    InputError
        A radius or a floor is negative or not a finite number, or ``relative`` is neither True nor False.

    Examples
    --------
    >>> ss.CountRisk(radius=0.1, floor=100)
    CountRisk(radius=0.1, relative=True, floor=100.0)
    """

    radius: float | tuple[float, ...] = 0.2
    relative: bool = True
    floor: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "count"
    span: ClassVar[Span] = (0.0, 1.0)

    def __post_init__(self) -> None:
        self._check()

    def compute(
        self, design: SurveyDesign, model: Synthesizer, records: Any, unit: Unit, unweighted: Callable[[], Draws],
        rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """Compute the risk of each record or protected unit: see :class:`Risk`.

        Raises
        ------
        InputError
            The model has no numeric outcome, or the number of radii or floors differs from the number of outcomes.
        """
        y, low, high = self._values(design, model)
        everybody = np.zeros(design.n, dtype=np.intp)
        return _largest_by_unit(1 - attribute(balls_of(everybody, low, high, y)), unit)

    def describe(self) -> str:
        """Describe the measure for the public report."""
        return f"the share of records whose values are further from the record's than a {self._ball}"
