"""The censored mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ...errors import InputError
from ..risks.base import Risk
from ..risks.lipschitz import LipschitzRisk
from .base import Kind, MapName, Mapped


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
    risk: Risk = field(default_factory=LipschitzRisk)

    name: ClassVar[str] = "censored"

    def __post_init__(self) -> None:
        if not isinstance(self.weighted, bool):
            raise InputError("weighted must be True or False")
        self._check_fixed()

    @property
    def kind(self) -> Kind:
        """The guarantee with weights from the current file."""
        return "strict given alpha" if self.weighted else "strict"
