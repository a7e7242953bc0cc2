"""A model fitted to a confidential file under a mechanism, and what is known of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..choices import Kind
from ..design.survey_design import SurveyDesign
from ..models.base import Debiasable, Synthesizer
from ..models.draws import Draws, Sampler, Streams
from ..models.records import Records
from ..privacy.budget import Budget
from ..privacy.mechanisms.base import LEAST_INFORMATION, RecordMechanism
from ..privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ..privacy.units import Unit
from .draws import verdict
from .policy import Policy
from .synthetic_design import Total

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Protect = Callable[[PseudoLikelihood, Floats, Callable[[str], None]], ProtectedFit]


@dataclass(frozen=True)
class Spending:
    """What one release spends: m draws, the epsilon that was asked for, and the one that is published.

    ``epsilon`` is None of kind "none"; ``lag`` is the largest autocorrelation between draws of one chain that are
    released.
    """

    m: int
    asked: float | None
    epsilon: float | None
    lag: float = 0.0


@dataclass
class FittedModel:
    """A fitted model with its file, its privacy weights and what was released from it: all of it is confidential."""

    design: SurveyDesign
    rows: Codes  # of the file, those of the design's records: some may have been left out
    synthesizer: Synthesizer
    mechanism: RecordMechanism
    policy: Policy | None
    records: Records
    unit: Unit
    weighted: ProtectedFit
    budget: Budget
    population_total: Total
    report_notes: list[str]
    sampler: Sampler = field(repr=False)
    streams: Streams = field(repr=False)
    protect: Protect = field(repr=False)  # makes the protected fit; what was asked of :func:`fit` is in it
    seeded: bool
    used: list[int] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)  # by each data set, of this fit and of those re-weighted from it
    blocked: list[int] = field(default_factory=list)  # m of the releases that a rule held back
    coded: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        said = verdict(self.draws)
        return f"Fit of {self.synthesizer.name} to {self.design!r}, tuned for m = {self.budget.m}. {said}"

    @property
    def draws(self) -> Draws:
        """Draws from the protected posterior."""
        return self.weighted.posterior

    @property
    def risk(self) -> Floats:
        """Risks of the records, or units, that the privacy weights were made of: (U,)."""
        return self.weighted.risk

    @property
    def mean_alpha(self) -> float:
        """Mean privacy weight of the records."""
        return float(self.unit.spread(self.weighted.alpha).mean())

    @property
    def information(self) -> float | None:
        """The share of the file's information that privacy weights leave, their mean; None under a clamp."""
        return None if self.mechanism.clamps else self.mean_alpha

    @property
    def little_left(self) -> bool:
        """Whether privacy weights keep so little of the file that its release has to be accepted by name."""
        return self.information is not None and self.information < LEAST_INFORMATION

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound Delta_alpha of this fit."""
        return self.weighted.delta

    @property
    def kind(self) -> Kind:
        """The guarantee: ``asymptotic``, ``strict``, ``strict given alpha`` or ``none``."""
        if self.synthesizer.from_records:
            return "none"
        return "strict" if self.policy is not None else self.mechanism.kind

    @property
    def weights_from_file(self) -> bool:
        """Whether a privacy weight depends on other records: on their risks, or on constants tuned on them."""
        return self.policy is None and self.mechanism.weights_from_file

    @property
    def epsilon_spent(self) -> float:
        """2 Delta of each data set released so far, added up; infinite of kind ``none``.

        Of this fit, and of those that it was re-weighted from or that were re-weighted from it: they share one file.
        """
        return math.fsum(self.spent)

    @property
    def biased(self) -> dict[str, bool]:
        """What privacy weights bias much, debias or not, and whether the model can take that off."""
        model = self.synthesizer
        return model.biased(self.records, self.unit.by_record) if isinstance(model, Debiasable) else {}

    @property
    def corrected(self) -> tuple[str, ...]:
        """What is always corrected, if privacy weights follow from a record's risk and constants."""
        follow = self.mechanism.corrects and self.weighted.asked == 0
        return tuple(what for what, can_be in self.biased.items() if can_be and follow)

    @property
    def constants_given(self) -> bool:
        """Whether what a correction uses was given: the clamp, or c1."""
        return self.mechanism.constants_given

    @property
    def within_request(self) -> bool:
        """Whether the epsilon asked for bounds what is released; without it, or under a c1 given, it may not."""
        return self.budget.epsilon is not None and self.delta <= self.budget.bound

    @property
    def public_weights(self) -> bool:
        """Whether the survey weights are kept."""
        return self.records.public_weights is not None

    def budget_of(self, m: int) -> Budget:
        """That of m data sets of this fit.

        Parameters
        ----------
        m : int
            Number of data sets.

        Returns
        -------
        Budget
            Without an epsilon of its own.
        """
        return Budget(None, m)

