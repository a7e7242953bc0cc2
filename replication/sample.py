"""The methods of Hu, Savitsky & Williams (2022a) on one sample: FBS, FBP and Laplace tables.

The column ``setting`` of the estimates has the values

- ``paper``: the settings of the paper.  For FBS they are also the default of this package.
- ``default``: FBP with its full smoothed weights, and with standard errors of counts by stratum.
- ``debias``: the default with Fisher-consistent draws.
- ``local``: the paper's Laplace tables, which have no privacy guarantee.
- ``strict``: Laplace tables with a guarantee from public bounds.

All settings of one fit use the same draws, and a smaller number m of data sets uses the first data sets of the larger
number.  So differences between settings, or between values of m, have no other cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surveysynth.design.survey_design import SurveyDesign
from surveysynth.estimation import estimate
from surveysynth.models.draws import Streams
from surveysynth.models.normal.fbp import FBP
from surveysynth.models.normal.fbs import FBS
from surveysynth.privacy.budget import Budget
from surveysynth.privacy.mechanisms.pseudo_posterior import PseudoPosterior
from surveysynth.release.laplace import laplace_tables
from surveysynth.studies.base import recorded, seed_of
from surveysynth.studies.measures import CONFIDENTIAL
from surveysynth.synthesis.fit import Fit
from surveysynth.synthesis.fitting import fit

from .choices import StudyMethod, StudyPrior

Floats = NDArray[np.float64]

METHODS: tuple[StudyMethod, ...] = get_args(StudyMethod)
STATISTICS = ("count", "mean")
NUMBERS = ["estimate", "se", "df", "ci_low", "ci_high"]


@dataclass
class SampleStudy:
    """One sample with the results of every method.

    Parameters
    ----------
    design : SurveyDesign
    outcome : str
    by : list of str
        Columns of the domains.
    predictors : str
        Formula of the models.
    prior : {"flat", "paper"}
    settings : mapping
        Further arguments of :func:`surveysynth.fit`.
    bounds : mapping, optional
        Public bounds for strict Laplace tables.  Without bounds, strict tables are left out.
    seed : int, optional
        Laplace noise is never seeded.
    recording : bool
        Whether errors are recorded in ``failures`` instead of being raised.

    Attributes
    ----------
    tables : list of pandas.DataFrame
        Estimates: ``method, setting, delta, m, epsilon, <by>, statistic, estimate, se, df, ci_low, ci_high``.
    fits : list of dict
        The largest Lipschitz bounds of each fit: ``method, delta``, ``unweighted`` (without privacy weights),
        ``weighted`` (with weights tuned to delta), and ``untuned`` (with weights under the constant c1 = 1, if
        requested).
    records : list of pandas.DataFrame
        The Lipschitz bounds of all records: ``method, delta, unweighted, weighted``.
    scatter : list of pandas.DataFrame
        Records of the sample and of one synthetic data set: ``method, weights`` (a label), ``outcome, weight``.
    failures : list of dict
        Errors, with the method and setting.
    """

    design: SurveyDesign
    outcome: str
    by: Sequence[str]
    predictors: str
    prior: StudyPrior = "flat"
    settings: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] | None = None
    seed: int | None = None
    recording: bool = True
    tables: list[pd.DataFrame] = field(default_factory=list)
    fits: list[dict[str, Any]] = field(default_factory=list)
    records: list[pd.DataFrame] = field(default_factory=list)
    scatter: list[pd.DataFrame] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def confidential(self) -> None:
        """Add the confidential estimates, and the outcomes and weights of the sample."""
        table = estimate(self.design, self.outcome, self.by, STATISTICS, estimator="onepass")
        self._add(table, CONFIDENTIAL, "", np.nan, None)
        self._add_scatter(CONFIDENTIAL, "survey weights", self.design.numeric(self.outcome), self.design.weights)

    def run(self, method: StudyMethod, delta: float, m: Sequence[int], *, untuned: bool = False) -> None:
        """Add a method's tables with Lipschitz bound delta, for every number m of data sets (epsilon = 2 delta m)."""
        if method == "laplace":
            self._laplace(delta, m)
        else:
            self._bayes(method, delta, m, untuned)

    def _bayes(self, method: StudyMethod, delta: float, m: Sequence[int], untuned: bool) -> None:
        """Fit FBS or FBP, tuned to Lipschitz bound delta, and add tables for every setting and number of data sets."""
        with self._recorded(method=method, delta=delta):
            done = self._fit(method, delta)
            found = {"method": method, "delta": delta, "unweighted": float(done.risk.max()), "weighted": done.delta}
            self.fits.append(found | {"untuned": self._fit(method, delta, c1=1.0).delta if untuned else np.nan})
            bounds = {"unweighted": done.risk, "weighted": done.weighted.bounds}
            self.records.append(pd.DataFrame({"method": method, "delta": delta, **bounds}))
            if m and method not in {frame["method"].iloc[0] for frame in self.scatter}:
                self._add_synthetic_scatter(done, method)
            for setting, (variant, debias) in _variants(done, method).items():
                with self._recorded(method=method, setting=setting, delta=delta):
                    self._release(variant, method, setting, delta, m, debias)

    def _release(
        self, done: Fit, method: StudyMethod, setting: str, delta: float, m: Sequence[int], debias: bool
    ) -> None:
        """Make one release with max(m) data sets, and for each number in ``m`` add tables from that many data sets."""
        if not m:
            return
        same = replace(done, streams=Streams.from_seed(self._seed(method, delta, max(m))), used=[], spent=[])
        # a study shows the accuracy of releases that keep little information, too
        epsilon = Budget(None, max(m)).spent(delta)
        release = same.release(max(m), epsilon=epsilon, debias=debias, accept_diagnostics=["information"])
        for size in m:
            table = replace(release, datasets=release.datasets[:size]).tables(self.by, estimator="onepass")
            self._add(table, method, setting, delta, size)

    def _laplace(self, delta: float, m: Sequence[int]) -> None:
        """Add tables with Laplace noise, at the same epsilon as the synthetic data."""
        for size in m:
            for kind in ("local", "strict") if self.bounds is not None else ("local",):
                with self._recorded(method="laplace", setting=kind, delta=delta, m=size):
                    noisy = laplace_tables(
                        self.design, self.outcome, self.by, Budget(None, size).spent(delta), kind=kind,
                        bounds=self.bounds if kind == "strict" else None,
                    )  # fmt: skip
                    self._add(noisy.table, "laplace", kind, delta, size)

    def _fit(self, method: StudyMethod, delta: float, c1: float | None = None) -> Fit:
        model = (FBS if method == "fbs" else FBP)(self.outcome, self.predictors, prior=self.prior)
        return fit(
            self.design, model, epsilon=Budget(None, 1).spent(delta), m=1, mechanism=PseudoPosterior(c1=c1),
            seed=self._seed(method, delta), **self.settings,
        )  # fmt: skip

    def _recorded(self, **what: Any) -> AbstractContextManager[None]:
        return recorded(self.failures if self.recording else None, **what)

    def _seed(self, method: StudyMethod, delta: float, m: int = 0) -> int | None:
        if self.seed is None:
            return None
        return seed_of(self.seed, METHODS.index(method), round(1e6 * delta), m)

    def _add(self, table: pd.DataFrame, method: str, setting: str, delta: float, m: int | None) -> None:
        table = table[[*self.by, "statistic", *NUMBERS]]
        epsilon = np.nan if m is None else round(Budget(None, m).spent(delta), 10)
        self.tables.append(
            table.assign(method=method, setting=setting, delta=delta, m=np.nan if m is None else m, epsilon=epsilon)
        )

    def _add_scatter(self, method: str, weights: str, outcome: Floats, weight: Floats) -> None:
        total = self.design.weights.sum()
        scaled = weight * (total / weight.sum())
        self.scatter.append(pd.DataFrame({"method": method, "weights": weights, "outcome": outcome, "weight": scaled}))

    def _add_synthetic_scatter(self, done: Fit, method: StudyMethod) -> None:
        """Add outcomes and weights of one synthetic data set, with smoothed weights and with synthesized weights.

        Source: Hu, Savitsky & Williams 2022a, Figures 4, 8, 9.
        """
        posterior, rng = done.weighted.posterior, np.random.default_rng(self._seed(method, done.budget.bound))
        draw, noise = int(rng.choice(posterior.size, p=posterior.weight)), rng.integers(2**63)
        panels: dict[str, tuple[Floats, Floats]] = {}
        for setting, (variant, debias) in _variants(done, method).items():
            if not debias:
                own = np.random.default_rng(noise)
                synthetic = next(variant.synthesizer.simulations(done.records, posterior, [draw], own))
                smoothed = synthetic.weights if synthetic.count_weights is None else synthetic.count_weights
                panels[f"smoothed weights ({setting})"] = synthetic.outcomes[:, 0], smoothed
        if done.records.public_weights is None:  # sd of log weight given outcome: the last entry of L
            y, smoothed = list(panels.values())[-1]  # the model's own smoothed weights
            spread = posterior.values["L"][draw, -1, -1]
            self._add_scatter(method, "synthesized weights", y, smoothed * np.exp(spread * rng.standard_normal(y.size)))
        for name, (y, smoothed) in panels.items():
            self._add_scatter(method, name, y, smoothed)


def _variants(done: Fit, method: StudyMethod) -> dict[str, tuple[Fit, bool]]:
    """Return a fit for each setting, such as "paper" or "debias", and whether its draws are made Fisher-consistent."""
    if method == "fbs":
        return {"paper": (done, False), "debias": (done, True)}
    as_in_paper = replace(done.synthesizer, weights="paper", variance="paper")  # type: ignore[type-var]
    return {"paper": (replace(done, synthesizer=as_in_paper), False), "default": (done, False), "debias": (done, True)}
