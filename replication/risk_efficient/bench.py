"""Fits, files and measures of the study of identification risk: one file and one model under several weights.

Sections and equations are those of Hu, Savitsky & Williams (2022b), "the paper".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surveysynth.design.survey_design import SurveyDesign
from surveysynth.estimation.combining import combine, interval
from surveysynth.estimation.regression import regressions
from surveysynth.models.base import Synthesizer
from surveysynth.models.draws import Draws
from surveysynth.privacy.mechanisms import PseudoPosterior
from surveysynth.privacy.protected_fit import ProtectedFit
from surveysynth.privacy.risks.identification import MarginalRisk, PairwiseRisk
from surveysynth.release.identification import identification_risk, pairwise_weights
from surveysynth.synthesis.synthetic_design import assemble, public_frame, roles_of, totals_of

from ..bench import Bench
from .inputs import DATA, RESAMPLES, SYNTHESIZER, Made, RiskEfficientPlan, formula_of

Floats = NDArray[np.float64]

PROBS = {"median": 0.5, "q90": 0.9}
STATISTICS = ("mean", *PROBS)
RISKS = {"marginal": MarginalRisk, "pairwise": PairwiseRisk}
RAISED, HIGH, LOW = 0.25, 0.5, 0.25  # of IR: sections 2.3.1, 3.3.1 of the paper


def summaries(values: Floats, weights: Floats) -> Floats:
    """Mean, median and 90% quantile of one file, weighted: (3,)."""
    order = np.argsort(values, kind="stable")
    return _of_sorted(values[order], weights[order][None])[0]


def bootstrap_variances(
    values: Floats, weights: Floats, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Floats:
    """Variances of :func:`summaries` over resamples of the records, each with its weight.

    Parameters
    ----------
    values, weights : float arrays (n,)
    rng : numpy.random.Generator
    resamples : int

    Returns
    -------
    float array (3,)
    """
    order = np.argsort(values, kind="stable")
    y, w, n = values[order], weights[order], values.size
    at_once, found = max(1, 2_000_000 // n), []
    for first in range(0, resamples, at_once):
        R = min(at_once, resamples - first)
        drawn = rng.integers(n, size=(R, n)) + n * np.arange(R)[:, None]
        times = np.bincount(drawn.ravel(), minlength=R * n).reshape(R, n)
        found.append(_of_sorted(y, times * w))
    return np.concatenate(found).var(axis=0, ddof=1)


def _of_sorted(y: Floats, w: Floats) -> Floats:
    """Mean, median and 90% quantile of sorted values (n,) under several weights (R, n): (R, 3)."""
    up_to = w.cumsum(axis=1)
    total = up_to[:, -1:]
    reached = (y[(up_to >= p * total * (1 - 1e-12)).argmax(axis=1)] for p in PROBS.values())
    return np.column_stack([w @ y / total[:, 0], *reached])


def profile_of(by_file: Floats, before: Floats | None = None) -> dict[str, float]:
    """A row of the risk profile: how IR_i is spread over the records.

    Parameters
    ----------
    by_file : float array (L, n)
        Risks in every file; IR_i is their mean.
    before : float array (n,), optional
        Risks under the unweighted synthesizer, to find the records whose risk rose.

    Returns
    -------
    dict
        ``mean, mean_se`` (its Monte Carlo error over the files; NaN of one file), ``median, iqr, q90, q99, max, high``
        (records above 0.5), ``low`` (share of the records below 0.25), ``raised`` (records whose risk rose by more than
        0.25), ``raised_max`` (the largest risk of these).
    """
    risk, of_files = by_file.mean(axis=0), by_file.mean(axis=1)
    error = of_files.std(ddof=1) / np.sqrt(of_files.size) if of_files.size > 1 else np.nan
    quarter, median, third, q90, q99 = np.quantile(risk, [0.25, 0.5, 0.75, 0.9, 0.99])
    raised = risk[risk - before > RAISED] if before is not None else risk[:0]
    return {
        "mean": float(risk.mean()), "mean_se": float(error), "median": float(median), "iqr": float(third - quarter),
        "q90": float(q90), "q99": float(q99), "max": float(risk.max()), "high": float((risk > HIGH).sum()),
        "low": float((risk < LOW).mean()), "raised": np.nan if before is None else float(raised.size),
        "raised_max": float(raised.max()) if raised.size else np.nan,
    }  # fmt: skip


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Files:
    """The released files, which an intruder can see, too: L synthetic files, or one file that is not synthetic."""

    made: Made
    designs: tuple[SurveyDesign, ...]
    values: tuple[Floats, ...]


@dataclass(frozen=True, repr=False)
class RiskBench(Bench):
    """One file and one model, to be fitted under weights from identification risk.

    Parameters
    ----------
    design, pseudo
        As of :class:`replication.bench.Bench`; the model is of one numeric outcome.
    plan : RiskEfficientPlan
    """

    plan: RiskEfficientPlan

    @property
    def model(self) -> Synthesizer:
        """The model of the outcome."""
        return self.pseudo.model

    @property
    def outcome(self) -> str:
        """The column that is synthesized."""
        return self.model.outcomes[0]

    @cached_property
    def values(self) -> Floats:
        """The confidential values (n,)."""
        return self.design.numeric(self.outcome)

    @cached_property
    def unweighted_files(self) -> Files:
        """The files of the fit under alpha = 1."""
        return self.simulated(SYNTHESIZER, self.unweighted.posterior)

    def weighted(self, made: Made, risk: Floats) -> ProtectedFit:
        """A fit under the linear map of risks (n,)."""
        kind = RISKS[made.synthesizer](tuple(self.plan.known), made.radius, floor=self.plan.floor)
        return self.protected(PseudoPosterior("linear", made.c1, made.c2, risk=kind), risk=risk)

    def simulated(self, made: Made, posterior: Draws) -> Files:
        """Synthetic files, each from one posterior draw, with records in the order of the confidential file."""
        design, rng, everybody = self.design, self.rng, np.arange(self.design.n)
        public = public_frame(design, self.model, rng)
        roles = roles_of(design, self.model.outcomes, public, None)
        totals = totals_of(design, None)
        chosen = rng.choice(posterior.size, self.plan.datasets, replace=False, p=posterior.weight).tolist()
        designs = tuple(
            assemble(made_of, self.model, public, roles, None, totals, everybody)
            for made_of in self.model.simulations(self.pseudo.records, posterior, chosen, rng)
        )  # fmt: skip
        return Files(made, designs, tuple(one.numeric(self.outcome) for one in designs))

    def released(self, made: Made, values: Floats) -> Files:
        """A file that is not synthetic: the confidential file with other values of the outcome."""
        whole = self.design
        frame = whole.frame.assign(**{self.outcome: values})
        design = SurveyDesign(frame, **whole.roles(), labels=whole.labels)
        return Files(made, (design,), (values,))

    def risk(self, files: Files, radius: float) -> Floats:
        """IR_i in every file (eq. 8): (L, n)."""
        seen = self._seen(files, radius)
        return np.array([identification_risk(**seen | {"synthetic": one}) for one in seen["synthetic"]])

    def risk_behind(self, made: Made) -> Floats:
        """Risks (n,) that privacy weights are made of: of the files of the unweighted fit, or of the file itself."""
        synthetic = self.plan.weights_from == "synthetic"
        seen = self._seen(self.unweighted_files if synthetic else self.released(DATA, self.values), made.radius)
        risk = identification_risk(**seen) if made.synthesizer == "marginal" else 1 - pairwise_weights(**seen)
        return risk.to_numpy(dtype=np.float64)

    def _seen(self, files: Files, radius: float) -> dict[str, Any]:
        plan, frame = self.plan, self.design.frame[[*self.plan.known, self.outcome]]
        return {
            "original": frame, "synthetic": [frame.assign(**{self.outcome: values}) for values in files.values],
            "known": list(plan.known), "value": self.outcome, "radius": radius, "floor": plan.floor,
        }  # fmt: skip

    def estimates(self, files: Files) -> list[dict[str, Any]]:
        """Mean, median, 90% quantile and, where one is asked for, the coefficient, each with its 95% interval."""
        weighted = [(y, one.weights) for y, one in zip(files.values, files.designs, strict=True)]
        q = np.array([summaries(y, w) for y, w in weighted])
        u = np.array([bootstrap_variances(y, w, self.rng, self.plan.resamples) for y, w in weighted])
        found = combine(q, u, self.design.degf)
        numbers = np.column_stack([found.estimate, found.se, found.df, *interval(found)])
        columns = ["estimate", "se", "df", "ci_low", "ci_high"]
        lines = [
            {"statistic": name} | dict(zip(columns, line, strict=True))
            for name, line in zip(STATISTICS, numbers.tolist(), strict=True)
        ]
        if self.plan.coefficient is not None:
            table = regressions(files.designs, formula_of(self.model)).table.set_index("term")
            lines.append({"statistic": "coefficient"} | table.loc[self.plan.coefficient, columns].to_dict())
        return lines
