"""Fits, synthetic files and measures of the study of identification risk, for one file and one model.

IR_i is the identification risk of record i (eq. 8).  Sections and equations are those of Hu, Savitsky & Williams
(2022b), "the paper".
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
RAISED, HIGH, LOW = 0.25, 0.5, 0.25  # limits for IR_i: sections 2.3.1, 3.3.1 of the paper


def summaries(values: Floats, weights: Floats) -> Floats:
    """Return the weighted mean, median and 90th percentile of one file."""
    order = np.argsort(values, kind="stable")
    return _sorted_summaries(values[order], weights[order][None])[0]


def bootstrap_variances(
    values: Floats, weights: Floats, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Floats:
    """Compute bootstrap variances of the weighted mean, median and 90th percentile (:func:`summaries`).

    Parameters
    ----------
    values, weights : float arrays (n,)
        Values and survey weights of n records.  A resampled record keeps its weight.
    rng : numpy.random.Generator
    resamples : int
        Number of bootstrap resamples.

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
        found.append(_sorted_summaries(y, times * w))
    return np.concatenate(found).var(axis=0, ddof=1)


def _sorted_summaries(y: Floats, w: Floats) -> Floats:
    """Return mean, median and 90th percentile of sorted values, for each of several sets of weights.

    For n values and weights (R, n) the result is (R, 3).
    """
    up_to = w.cumsum(axis=1)
    total = up_to[:, -1:]
    reached = (y[(up_to >= p * total * (1 - 1e-12)).argmax(axis=1)] for p in PROBS.values())
    return np.column_stack([w @ y / total[:, 0], *reached])


def profile_of(by_file: Floats, before: Floats | None = None) -> dict[str, float]:
    """Summarize the records' identification risks: mean, quantiles, and numbers of large and of increased risks.

    Parameters
    ----------
    by_file : float array (L, n)
        Risks of n records in each of L files.  IR_i is the mean over the files.
    before : float array (n,), optional
        Risks under the unweighted synthesizer, to find records with an increased risk.

    Returns
    -------
    dict
        ``mean, median, iqr, q90, q99, max`` of IR_i, and

        - ``mean_se``, the Monte Carlo error of the mean over the files, NaN for one file;
        - ``high``, the number of records above 0.5, and ``low``, the share of records below 0.25;
        - ``raised``, the number of records whose risk increased by more than 0.25, and ``raised_max``, the largest risk
          of these records.
    """
    risk, file_means = by_file.mean(axis=0), by_file.mean(axis=1)
    error = file_means.std(ddof=1) / np.sqrt(file_means.size) if file_means.size > 1 else np.nan
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
    """Released files, which an intruder and a user see: several synthetic files, or one file that is not synthetic."""

    made: Made
    designs: tuple[SurveyDesign, ...]
    values: tuple[Floats, ...]


@dataclass(frozen=True, repr=False)
class RiskBench(Bench):
    """One file and one model, which is fitted to the file under privacy weights from identification risks.

    Parameters
    ----------
    design, pseudo
        See :class:`replication.bench.Bench`.  The model has one numeric outcome.
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
        """The confidential value of each record."""
        return self.design.numeric(self.outcome)

    @cached_property
    def unweighted_files(self) -> Files:
        """Synthetic files of the fit with all privacy weights 1."""
        return self.simulated(SYNTHESIZER, self.unweighted.posterior)

    def weighted(self, made: Made, risk: Floats) -> ProtectedFit:
        """Fit the model under privacy weights that are a linear function of the records' risks."""
        kind = RISKS[made.synthesizer](tuple(self.plan.known), made.radius, floor=self.plan.floor)
        return self.protected(PseudoPosterior("linear", made.c1, made.c2, risk=kind), risk=risk)

    def simulated(self, made: Made, posterior: Draws) -> Files:
        """Make synthetic files, each from another posterior draw.  Records have the order of the confidential file."""
        design, rng, everybody = self.design, self.rng, np.arange(self.design.n)
        public = public_frame(design, self.model, rng)
        roles = roles_of(design, self.model.outcomes, public, None)
        totals = totals_of(design, None)
        positions = rng.choice(posterior.size, self.plan.datasets, replace=False, p=posterior.weight).tolist()
        designs = tuple(
            assemble(file, self.model, public, roles, None, totals, everybody)
            for file in self.model.simulations(self.pseudo.records, posterior, positions, rng)
        )  # fmt: skip
        return Files(made, designs, tuple(one.numeric(self.outcome) for one in designs))

    def released(self, made: Made, values: Floats) -> Files:
        """Make a file that is not synthetic: the design with the given values of the outcome."""
        whole = self.design
        frame = whole.frame.assign(**{self.outcome: values})
        design = SurveyDesign(frame, **whole.roles(), labels=whole.labels)
        return Files(made, (design,), (values,))

    def risk(self, files: Files, radius: float) -> Floats:
        """Compute the identification risk of every record in every file.

        The result is (L, n) for L files of n records (eq. 8).
        """
        seen = self._seen(files, radius)
        return np.array([identification_risk(**seen | {"synthetic": one}) for one in seen["synthetic"]])

    def risk_behind(self, made: Made) -> Floats:
        """Compute the identification risks of the records, from which privacy weights are made.

        The risks are in files of the unweighted fit or in the confidential file.
        """
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
        """Estimate mean, median, 90th percentile and any regression coefficient of the plan, with 95% intervals."""
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
