"""Mechanisms: how records are protected while the model is fitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, positive
from .risk import Lipschitz, Risk
from .weights import MAPS

Floats = NDArray[np.float64]
Kind = Literal["asymptotic", "strict", "strict given alpha", "none"]
MapName = Literal["inverse", "linear"]


class Mapped:
    """A mechanism with privacy weights alpha_i: a map of the records' risks, its scale c1 and its shift c2."""

    map: MapName
    c1: float | None
    c2: float
    risk: Risk

    def _check(self) -> None:
        lacking = [name for name in ("name", "span", "of", "describe") if not hasattr(self.risk, name)]
        if isinstance(self.risk, type) or lacking:
            raise InputError(
                "risk must be a measure: surveysynth.Lipschitz(), Count(radius=0.2), Marginal(known=[...]) or "
                "Pairwise(known=[...])"
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

    @property
    def by_risk(self) -> bool:
        """Whether alpha is a function of the Lipschitz bound, c1, c2 and the target; of units, of their sizes, too."""
        return self.map != "linear" and type(self.risk) is Lipschitz


@dataclass(frozen=True)
class PseudoPosterior(Mapped):
    """The pseudo posterior mechanism (T 1.4.1; "Weighted" in C): record i's likelihood is raised to alpha_i.

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
    risk : Lipschitz, Count, Marginal or Pairwise
        How the risk of a record is measured; the guarantee is about Lipschitz bounds whatever it is.  R's "LW" is
        ``map="linear"``, its "CW" ``map="linear", risk=Count(radius=0.2)``, under which alpha_i = c1 (1 - IR_i) + c2.

    Raises
    ------
    InputError
        An unknown map, or constants that are not numbers in range.
    """

    map: MapName = "inverse"
    c1: float | None = None
    c2: float = 0.0
    epsilon: float | None = None
    risk: Risk = field(default_factory=Lipschitz)

    name: ClassVar[str] = "pseudo posterior"
    kind: ClassVar[Kind] = "asymptotic"

    def __post_init__(self) -> None:
        self._check()


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
    risk : Lipschitz or Count
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
    risk: Risk = field(default_factory=Lipschitz)

    name: ClassVar[str] = "weighted-e"
    kind: ClassVar[Kind] = "asymptotic"

    def __post_init__(self) -> None:
        _check_fixed(self)


@dataclass(frozen=True)
class Censored(Mapped):
    """The censored mechanism (C 3): every alpha_i log p_i is clamped to [-epsilon/(2m), epsilon/(2m)].

    Epsilon is for one record's confidential values taken out of the fit or put into it; for these values
    replaced by others it is twice that.  The number of records is public.

    The clamp holds whatever the parameters, so the guarantee is no matter of the sample size:

    - ``weighted=False`` ("Censor_uw"), alpha = 1: ``strict``.  Nothing but the clamp protects, and it is policy.
    - ``weighted=True`` ("Censor_w"): records are weighted down before they are clamped, so fewer are.
      With weights computed from this file the guarantee is ``strict given alpha``: it does not
      cover what the weights of other records tell of a record.  With a
      :class:`surveysynth.Policy` made from a historical file it is ``strict``.

    Parameters
    ----------
    epsilon : float, optional
        For the whole release of m data sets; may stand here instead of in ``synthesize``.
    weighted : bool
    map, c1, c2, risk
        Of the privacy weights, as for :class:`WeightedE`; of no use with ``weighted=False``.

    Raises
    ------
    InputError
        As :class:`WeightedE`.
    """

    epsilon: float | None = None
    weighted: bool = False
    map: MapName = "linear"
    c1: float = 1.0
    c2: float = 0.0
    risk: Risk = field(default_factory=Lipschitz)

    name: ClassVar[str] = "censored"

    def __post_init__(self) -> None:
        if not isinstance(self.weighted, bool):
            raise InputError("weighted must be True or False")
        _check_fixed(self)

    @property
    def kind(self) -> Kind:
        """The guarantee with weights from the current file."""
        return "strict given alpha" if self.weighted else "strict"


Mechanism = PseudoPosterior | WeightedE | Censored


def _check_fixed(mechanism: WeightedE | Censored) -> None:
    if mechanism.epsilon is not None:
        positive(mechanism.epsilon, "epsilon")
    if mechanism.c1 is None:
        raise InputError(f"{type(mechanism).__name__} needs a c1: it is policy, and is not tuned")
    mechanism._check()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))
