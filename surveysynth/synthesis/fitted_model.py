"""A model that is fitted to a confidential file under a mechanism, and the properties of the fit."""

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
    """The privacy budget of one release of ``m`` data sets: the requested epsilon and the published epsilon.

    ``asked`` is the requested epsilon, if there is one, and ``epsilon`` the published epsilon.  ``epsilon`` is None for
    a release of the kind "none", which has no guarantee.  ``lag`` is the largest absolute autocorrelation of a
    parameter between released draws of one chain.
    """

    m: int
    asked: float | None
    epsilon: float | None
    lag: float = 0.0


@dataclass
class FittedModel:
    """A fitted model with its file, its privacy weights and its releases.  The whole object is confidential.

    The attributes are described in :class:`surveysynth.Fit`.
    """

    design: SurveyDesign
    rows: Codes  # row in the file of each record of the design; some records of the file may have been left out
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
    protect: Protect = field(repr=False)  # repeats the protected fit with the arguments of :func:`fit`
    seeded: bool
    used: list[int] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)  # epsilon of each data set, including those of re-weighted fits
    blocked: list[int] = field(default_factory=list)  # m of each release that a rule refused
    coded: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        fit = f"Fit of {self.synthesizer.name} to {self.design!r}, tuned for m = {self.budget.m}."
        return f"{fit} {verdict(self.draws)}"

    @property
    def draws(self) -> Draws:
        """Draws from the posterior under the privacy weights or the clamp."""
        return self.weighted.posterior

    @property
    def risk(self) -> Floats:
        """Risks of the protected units (records, or groups of records), from which privacy weights are computed."""
        return self.weighted.risk

    @property
    def mean_alpha(self) -> float:
        """Mean privacy weight of the records."""
        return float(self.unit.spread(self.weighted.alpha).mean())

    @property
    def information(self) -> float | None:
        """Share of the file's information that is kept: the mean privacy weight, or None under a clamp."""
        return None if self.mechanism.clamps else self.mean_alpha

    @property
    def little_left(self) -> bool:
        """True if privacy weights keep less than 30% of the information, so that the agency must accept a release."""
        return self.information is not None and self.information < LEAST_INFORMATION

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound of this fit, which gives epsilon = 2 m Delta for m data sets.

        It is the largest absolute value of alpha_i log p_i over protected units i and draws, or the clamp.
        """
        return self.weighted.delta

    @property
    def kind(self) -> Kind:
        """The kind of the guarantee: ``asymptotic``, ``strict``, ``strict given alpha`` or ``none``.

        ``strict`` is differential privacy at the size of this file, and ``asymptotic`` in the limit of many records.
        ``strict given alpha`` takes the privacy weights alpha as fixed.  ``none``: synthetic values are drawn given the
        confidential values, and no epsilon holds.
        """
        if self.synthesizer.from_records:
            return "none"
        return "strict" if self.policy is not None else self.mechanism.kind

    @property
    def weights_from_file(self) -> bool:
        """True if a record's privacy weight depends on other records, through its risk or through tuned constants."""
        return self.policy is None and self.mechanism.weights_from_file

    @property
    def epsilon_spent(self) -> float:
        """Epsilon spent by all data sets released so far, which is infinite after a release of the kind ``none``.

        Each data set spends 2 Delta, where Delta is the overall Lipschitz bound.  A fit and the fits that were
        re-weighted from this fit share one sum.
        """
        return math.fsum(self.spent)

    @property
    def biased(self) -> dict[str, bool]:
        """The quantities that privacy weights bias strongly, such as the spread between PSUs, by name.

        The value is True for a quantity that the model can correct even without ``debias``.
        """
        model = self.synthesizer
        return model.biased(self.records, self.unit.by_record) if isinstance(model, Debiasable) else {}

    @property
    def corrected(self) -> tuple[str, ...]:
        """The quantities that are corrected even without ``debias``, such as the spread between PSUs.

        The result is empty unless a record's privacy weight is a known function of its own risk, and there was no
        re-weighting.
        """
        follow = self.mechanism.corrects and self.weighted.asked == 0
        return tuple(what for what, can_be in self.biased.items() if can_be and follow)

    @property
    def constants_given(self) -> bool:
        """True if the user gave the clamp or the scale c1 of the privacy weights; False if c1 was tuned on the file."""
        return self.mechanism.constants_given

    @property
    def within_request(self) -> bool:
        """True if the epsilon of the fit is at most the requested epsilon.  A fit with a given c1 may exceed it.

        The result is False if no epsilon was requested.
        """
        return self.budget.epsilon is not None and self.delta <= self.budget.bound

    @property
    def public_weights(self) -> bool:
        """True if the survey weights are published unchanged."""
        return self.records.public_weights is not None

    def budget_of(self, m: int) -> Budget:
        """Return the budget of m data sets from this fit.

        Parameters
        ----------
        m : int
            Number of data sets.

        Returns
        -------
        Budget
            A budget of m data sets without a requested epsilon.
        """
        return Budget(None, m)

