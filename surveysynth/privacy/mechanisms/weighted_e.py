"""The pseudo posterior with weights cut off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ..risks.base import Risk
from ..risks.lipschitz import LipschitzRisk
from .base import Kind, MapName, Mapped


@dataclass(frozen=True)
class WeightedE(Mapped):
    """The pseudo posterior with weights cut off (C 2.2, "Weighted-e").

    Wherever alpha_i f_i, f_i the record's bound under the unweighted fit, exceeds epsilon / (2 m), alpha_i is
    0, and the model is fitted under what is left.  Some bounds then still exceed epsilon / (2 m), and C leaves
    it at that.  Here epsilon is never exceeded: the weights that are left get a common factor, tuned as
    c1 of :class:`PseudoPosterior` is.

    Parameters
    ----------
    epsilon : float, optional
        For the whole release of m data sets; may stand here instead of in ``synthesize``.
    map, c1, c2
        Of the weights that are cut off; C has the linear map with c1 = 1, and c1 below 1 for
        "downscaling" (C 4.4).
    risk : LipschitzRisk or CountRisk
        As for :class:`PseudoPosterior`.

    Raises
    ------
    InputError
        As :class:`PseudoPosterior`; no c1.
    """

    epsilon: float | None = None
    map: MapName = "linear"
    c1: float = 1.0
    c2: float = 0.0
    risk: Risk = field(default_factory=LipschitzRisk)

    name: ClassVar[str] = "weighted-e"
    kind: ClassVar[Kind] = "asymptotic"

    def __post_init__(self) -> None:
        self._check_fixed()
