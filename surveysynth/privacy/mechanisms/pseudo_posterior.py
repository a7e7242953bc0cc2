"""The pseudo posterior mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ..risks.base import Risk
from ..risks.lipschitz import LipschitzRisk
from .base import Kind, MapName, Mapped


@dataclass(frozen=True)
class PseudoPosterior(Mapped):
    """The pseudo posterior mechanism (T 1.4.1; "Weighted" in C): record i's likelihood is raised to alpha_i.

    Its guarantee is asymptotic: the bound is local to the data and a maximum over draws.

    Parameters
    ----------
    map : {"inverse", "linear"}
        From risk to alpha; see :mod:`surveysynth.privacy.weight_maps`.
    c1 : float, optional
        Scale of the map; the default tunes it to the epsilon that is asked for.
    c2 : float
        Shift of the map.
    epsilon : float, optional
        May stand here instead of in ``synthesize``, never in both.
    risk : LipschitzRisk, CountRisk, MarginalRisk or PairwiseRisk
        How the risk of a record is measured; the guarantee is about Lipschitz bounds whatever it is.  R's "LW" is
        ``map="linear"``, its "CW" ``map="linear", risk=CountRisk(radius=0.2)``, under which alpha_i = c1 (1 - IR_i) +
        c2.

    Raises
    ------
    InputError
        An unknown map, or constants that are not numbers in range.
    """

    map: MapName = "inverse"
    c1: float | None = None
    c2: float = 0.0
    epsilon: float | None = None
    risk: Risk = field(default_factory=LipschitzRisk)

    name: ClassVar[str] = "pseudo posterior"
    kind: ClassVar[Kind] = "asymptotic"

    def __post_init__(self) -> None:
        self._check()
