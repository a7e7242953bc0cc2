"""Fits and synthetic files of the synthesizers of Hu, Savitsky & Williams (2020), for one file of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surveysynth.models.counts import CountRecords, NegativeBinomialRegression, PoissonRegression
from surveysynth.models.draws import Draws
from surveysynth.privacy.budget import Budget
from surveysynth.privacy.mechanisms import PseudoPosterior
from surveysynth.privacy.protected_fit import ProtectedFit
from surveysynth.privacy.risks.count import CountRisk
from surveysynth.privacy.tuning import reweight
from surveysynth.privacy.units import Unit
from surveysynth.privacy.weight_maps import inverse_map
from surveysynth.studies.base import recorded

from ..bench import ANY, Bench, facts_of
from ..censoring.study import ECDF, PROBS, measures_of, statistics_of

Floats = NDArray[np.float64]

SYNTHESIZERS = ("unweighted", "LW", "LW_final", "LW_flat", "CW", "CW_final", "CW_flat")
STEPS = {"final": 1, "flat": 10}  # numbers of steps of re-weighting
STATISTICS = ("q15", "q90", "mean", "median")  # in the order of Table 1 of the paper
ENDS = [f"{statistic}_{end}" for statistic in STATISTICS for end in ("low", "high")]
RADIUS = 0.2  # for CW, as a share of the count: "policy" in the paper, 0.2 in Hu, Savitsky & Williams (2022b)
MECHANISMS = {
    "inverse": PseudoPosterior(), "LW": PseudoPosterior("linear"),
    "CW": PseudoPosterior("linear", risk=CountRisk(RADIUS)),
}  # fmt: skip
FILES, RESAMPLES = 20, 400  # synthetic files per fit; bootstrap resamples

FITS = ["c1", "lipschitz", "k", "steps", "flatness", "weighted_down", "mean_alpha", "mu", "phi", "diagnostics"]
BOUNDS = ["replicate", "part", "data", "n", "epsilon", "synthesizer", *FITS]
UTILITY = ["replicate", "data", "epsilon", "synthesizer", "file", *ECDF, *STATISTICS, *ENDS, "mu", "phi"]
FAILURES = ["replicate", "part", "data", "n", "epsilon", "synthesizer", "error", "reason"]


def interval(values: Floats, rng: np.random.Generator, resamples: int = RESAMPLES) -> dict[str, float]:
    """Compute 95% bootstrap percentile intervals of the mean, the median and the 15th and 90th percentile.

    A resample is drawn as multinomial frequencies of the distinct values.  Quantiles are those of ``numpy.quantile``.

    Parameters
    ----------
    values : float array (n,)
    rng : numpy.random.Generator
    resamples : int
        Number of bootstrap resamples.

    Returns
    -------
    dict
        Ends of the intervals, ``q15_low, q15_high, q90_low, ...``.
    """
    distinct, counts = np.unique(values, return_counts=True)
    n, at_once = values.size, max(1, 2_000_000 // distinct.size)
    found: list[Floats] = []
    for first in range(0, resamples, at_once):
        drawn = rng.multinomial(n, counts / n, size=min(at_once, resamples - first))
        up_to = drawn.cumsum(axis=1)
        by_statistic = {"mean": drawn @ distinct / n}
        for name, p in PROBS.items():
            rank, part = divmod((n - 1) * p, 1)  # the first rank is 0
            low, high = (distinct[(up_to > min(r, n - 1)).argmax(axis=1)] for r in (rank, rank + 1))
            by_statistic[name] = low + part * (high - low)
        found.append(np.column_stack([by_statistic[name] for name in STATISTICS]))
    ends = np.quantile(np.concatenate(found), [0.025, 0.975], axis=0).T
    return dict(zip(ENDS, ends.ravel().tolist(), strict=True))


@dataclass(frozen=True, repr=False)
class Weightings(Bench):
    """The synthesizers of Hu, Savitsky & Williams (2020), for one equally weighted file with a model of counts."""

    _first: dict[tuple[str, Budget], ProtectedFit] = field(default_factory=dict)

    @property
    def model(self) -> NegativeBinomialRegression | PoissonRegression:
        """The model of the counts."""
        model = self.pseudo.model
        assert isinstance(model, NegativeBinomialRegression | PoissonRegression)
        return model

    @property
    def records(self) -> CountRecords:
        """The records, as prepared for the model."""
        assert isinstance(self.pseudo.records, CountRecords)
        return self.pseudo.records

    @property
    def values(self) -> Floats:
        """The count of each record."""
        return self.design.numeric(self.model.outcome)

    @cached_property
    def isolation(self) -> Floats:
        """The identification risk of each record: the share of records whose counts differ from its own by over 20%."""

        def unweighted() -> Draws:
            return self.unweighted.posterior

        return CountRisk(RADIUS).compute(self.design, self.model, self.records, Unit(), unweighted, self.rng)

    def fitted(self, synthesizer: str, budget: Budget = ANY) -> ProtectedFit:
        """Fit a synthesizer, with privacy weights tuned to the budget if the budget has an epsilon.

        Weights are tuned by the factor c1.  Without epsilon c1 = 1.

        Raises
        ------
        PrivacyError, ModelError, EngineError
            For the reasons given in :func:`surveysynth.fit`.
        """
        if synthesizer == "unweighted":
            return self.unweighted
        risk, _, stage = synthesizer.partition("_")
        if (risk, budget) not in self._first:
            mechanism = MECHANISMS[risk] if budget.epsilon is not None else replace(MECHANISMS[risk], c1=1.0)
            counted = self.isolation if risk == "CW" else None
            self._first[risk, budget] = self.protected(mechanism, budget, counted)
        first = self._first[risk, budget]
        return reweight(first, self.pseudo, STEPS[stage]) if stage in STEPS else first

    def synthetic(
        self, fitted: ProtectedFit, size: int, debias: float | None = None
    ) -> list[tuple[Floats, dict[str, float]]]:
        """Make synthetic files, each from another posterior draw, and return counts and parameters of each.

        The parameters are ``mu`` and ``phi`` of the draw.

        ``debias`` is the Lipschitz bound to which the inverse map was tuned.  If given, draws are Fisher-consistent.
        """
        posterior, rng = fitted.posterior, self.rng
        positions = rng.choice(posterior.size, size, replace=False, p=posterior.weight).tolist()
        if debias is not None and size:

            def alpha(f: Floats) -> Floats:
                return inverse_map(f, fitted.c1, 0.0, debias)

            posterior = self.model.debias_draws(self.records, posterior, positions, alpha, None, rng, debias=True)
            positions = list(range(size))
        named, made = parameters(posterior), []
        files = self.model.simulations(self.records, posterior, positions, rng)
        for s, file in zip(positions, files, strict=True):
            made.append((file.outcomes[:, 0], {name: float(draws[s]) for name, draws in named.items()}))
        return made


def parameters(posterior: Draws) -> dict[str, Floats]:
    """Return the draws of mu, the mean count at mean predictors, and of phi, the dispersion (NaN for Poisson)."""
    values = posterior.values
    mu = np.exp(values["b"][:, 0])
    return {"mu": mu, "phi": values.get("phi", np.full(mu.size, np.nan))}


def means_of(posterior: Draws) -> dict[str, float]:
    """Return the posterior means of mu and phi."""
    return {name: float(posterior.weight @ draws) for name, draws in parameters(posterior).items()}


@dataclass
class Found:
    """The results collected while fits and synthetic files are made one after the other.

    Parameters
    ----------
    replicate : int
    recording : bool
        Whether errors are recorded in ``failures`` instead of being raised.

    Attributes
    ----------
    bounds : list of dict
        One for each fit, with keys :data:`BOUNDS`.
    files : list of dict
        One for each synthetic file, with keys :data:`UTILITY`.  The confidential file has the synthesizer "data" and
        the number 0.
    records : list of pandas.DataFrame
        ``data, synthesizer, record, value, alpha, bound``, and ``synthetic``, the value in the first synthetic file.
    failures : list of dict
    """

    replicate: int
    recording: bool = True
    bounds: list[dict[str, Any]] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)
    records: list[pd.DataFrame] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def confidential(self, file: Weightings, data: str) -> None:
        """Add the statistics of the confidential file."""
        statistics = statistics_of(file.values) | interval(file.values, file.rng)
        self.files.append({"replicate": self.replicate, "data": data, "synthesizer": "data", "file": 0} | statistics)

    def add(
        self, file: Weightings, data: str, synthesizers: Sequence[str], part: str, epsilon: float = np.nan, *,
        size: int = FILES, by_record: bool = False,
    ) -> None:  # fmt: skip
        """Fit each synthesizer, tuned to epsilon if it is given, and add the results of ``size`` synthetic files."""
        budget = ANY if np.isnan(epsilon) else Budget(epsilon, 1)
        for name in synthesizers:
            made_by = {"replicate": self.replicate, "data": data, "epsilon": epsilon, "synthesizer": name}
            fit_keys = made_by | {"part": part, "n": file.design.n}
            with recorded(self.failures if self.recording else None, **fit_keys):
                fitted = file.fitted(name, budget)
                made = file.synthetic(fitted, size, budget.bound if name.endswith("_debias") else None)
                self.bounds.append(fit_keys | facts_of(fitted) | means_of(fitted.posterior))
                for number, (values, draw) in enumerate(made, 1):
                    statistics = measures_of(file.values, values) | interval(values, file.rng)
                    self.files.append(made_by | {"file": number} | statistics | draw)
                if by_record:
                    columns = {"value": file.values, "alpha": fitted.alpha, "bound": fitted.bounds}
                    records = pd.DataFrame(
                        {"data": data, "synthesizer": name, "record": np.arange(1, file.design.n + 1)}
                    )
                    self.records.append(records.assign(**columns, synthetic=made[0][0]))
