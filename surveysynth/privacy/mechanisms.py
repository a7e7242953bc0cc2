"""Mechanisms: how records are protected while the model is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .weights import MAPS

Kind = Literal["asymptotic", "strict", "strict given alpha", "none"]


@dataclass(frozen=True)
class PseudoPosterior:
    """The pseudo posterior mechanism (T 1.4.1): record i's likelihood is raised to alpha_i.

    Its guarantee is asymptotic: the bound is local to the data and a maximum over draws.

    Parameters
    ----------
    map : {"inverse", "linear"}
        From risk to alpha; see :mod:`surveysynth.privacy.weights`.
    c1 : float, optional
        Scale of the map; the default tunes it to the epsilon that is asked for.
    c2 : float
        Shift of the map.
    epsilon : float, optional
        May stand here instead of in ``synthesize``, never in both.

    Raises
    ------
    InputError
        An unknown map, or constants that are not numbers in range.
    """

    map: Literal["inverse", "linear"] = "inverse"
    c1: float | None = None
    c2: float = 0.0
    epsilon: float | None = None

    kind: ClassVar[Kind] = "asymptotic"

    def __post_init__(self) -> None:
        if self.map not in MAPS:
            raise InputError(f"map={self.map!r} is not one of {', '.join(MAPS)}")
        if self.c1 is not None and not (_is_number(self.c1) and self.c1 > 0):
            raise InputError("c1 must be a positive number")
        if not (_is_number(self.c2) and abs(self.c2) <= 1):
            raise InputError("c2 must be a number between -1 and 1")

    def alpha(self, f: NDArray[np.float64], c1: float, target: float) -> NDArray[np.float64]:
        """Privacy weights (n,) of records with Lipschitz bounds ``f``, for a target bound."""
        return MAPS[self.map](f, c1, self.c2, target)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))
