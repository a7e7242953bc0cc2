"""Mechanisms: how records are protected while the model is fitted."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...validation import positive
from ..risks.base import Risk
from ..risks.lipschitz import LipschitzRisk
from ..weight_maps import MAPS

Floats = NDArray[np.float64]
Kind = Literal["asymptotic", "strict", "strict given alpha", "none"]
MapName = Literal["inverse", "linear"]


class Mapped:
    """A mechanism with privacy weights alpha_i: a map of the records' risks, its scale c1 and its shift c2."""

    epsilon: float | None
    map: MapName
    c1: float | None
    c2: float
    risk: Risk

    def _check(self) -> None:
        lacking = [name for name in ("name", "span", "of", "describe") if not hasattr(self.risk, name)]
        if isinstance(self.risk, type) or lacking:
            raise InputError(
                "risk must be a measure: surveysynth.LipschitzRisk(), CountRisk(radius=0.2), MarginalRisk(known=[...]) "
                "or PairwiseRisk(known=[...])"
            )
        if self.map not in MAPS:
            raise InputError(f"map={self.map!r} is not one of {', '.join(MAPS)}")
        if self.c1 is not None and not (_is_number(self.c1) and self.c1 > 0):
            raise InputError("c1 must be a positive number")
        if not (_is_number(self.c2) and abs(self.c2) <= 1):
            raise InputError("c2 must be a number between -1 and 1")

    def alpha(self, f: Floats, c1: float, target: float, span: tuple[float, float] | None = None) -> Floats:
        """Privacy weights (n,) of records with Lipschitz bounds ``f``, for a target bound.

        ``span`` is the least and the largest risk, where a policy sets them.
        """
        return MAPS[self.map](f, c1, self.c2, target, self.risk.span if span is None else span)

    def _check_fixed(self) -> None:
        if self.epsilon is not None:
            positive(self.epsilon, "epsilon")
        if self.c1 is None:
            raise InputError(f"{type(self).__name__} needs a c1: it is policy, and is not tuned")
        self._check()

    @property
    def by_risk(self) -> bool:
        """Whether alpha is a function of the Lipschitz bound, c1, c2 and the target; of units, of their sizes, too."""
        return self.map != "linear" and type(self.risk) is LipschitzRisk


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))
