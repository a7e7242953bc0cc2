"""Comparison of global and asymptotic mechanisms: repeated samples (section 4), and the user's own file (section 5).

Sections and tables are those of Hu, Williams & Savitsky (2025), "the paper".

A replicate is a file of n values from Beta(0.5, 3), equally weighted, as the paper has no survey weights.  One
synthetic file comes from one posterior draw (m = 1), so that the Lipschitz bound aimed at is epsilon / 2:

- ``unweighted``: alpha = 1; ``weighted``: the linear map alpha_i = c1 (1 - f~_i) of the records' unweighted bounds f_i;
- ``weighted_e`` (section 2.2): alpha_i = 0 wherever alpha_i f_i > epsilon / 2, and one fit under what is left;
- ``censor_w``, ``censor_uw`` (section 3): alpha_i log p_i clamped to +-epsilon / 2, alpha as for ``weighted``, or 1;
- ``perturbed_histogram`` (section 2.3): noise Laplace(2 / epsilon) on ceil(log n) bins; ``perturbed_histogram_sqrt``:
  the same on ceil(sqrt(n)) bins.  The paper names both numbers, but does not say which one it used.  In Table 2 of the
  paper the 15th quantile is 30,108, and 51,000 in the data, so its bins are far wider than the range of salaries over
  sqrt(1601).

**Invocations** (Table 1) are, for ``weighted_e``, the records that are cut off, and for the censored mechanisms those
that are clamped in one posterior draw or more.  The paper does not define them; others were tried against its
Censor_uw (means 247, 419, 809 at epsilon 5, 4, 3).  Means of 24 samples, 1000 draws:

    clamped in one draw or more       247  420  804      in most of the draws              195  321  632
    in the draw that is released      199  312  609      at the posterior mean             195  320  632

For Weighted-e (29, 195, 573) alpha_i f_i with f_i of the unweighted fit gives 30, 199, 578 over 100 samples; with
the bounds of the weighted fit, cutting makes it 11, 122, 543 over 24.  The paper's count of Weighted-e under c1 = 0.8
(91) is what c1 = 0.9 gives (90; 0.8: 30).  Its Censor_w (110, 408, 741) comes out under none of these definitions:
clamped in one draw or more are 13, 98, 467 over 100 samples, where the paper counts hundreds in a sample or none.

Densities are of the value itself, without the edge that :class:`surveysynth.models.beta.BetaRegression` has at
1e-6 of the range: it would lower the largest bounds, which belong to values near 0.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from surveysynth.design.survey_design import SurveyDesign
from surveysynth.errors import InputError
from surveysynth.models.beta import BetaRegression
from surveysynth.privacy.budget import Budget
from surveysynth.privacy.mechanisms import Censored, PseudoPosterior, WeightedE
from surveysynth.privacy.protected_fit import ProtectedFit, PseudoLikelihood
from surveysynth.privacy.tuning import truncated
from surveysynth.privacy.units import Unit
from surveysynth.studies.base import Replicate, entropy, recorded, repeat, seed_of
from surveysynth.synthesis.histogram import perturbed_histogram
from surveysynth.validation import check_seed, positive, rows, whole

from ..bench import CHAINS, DRAWS, WARMUP, Bench, equally_weighted, few_draws

Floats = NDArray[np.float64]
Job = tuple[str, float, float]  # synthesizer, epsilon (NaN where it plays no part), c1

SQRT = "perturbed_histogram_sqrt"
SYNTHESIZERS = ("weighted", "weighted_e", "censor_w", "censor_uw", "perturbed_histogram")  # in the order of Table 2
TRUTH = stats.beta(0.5, 3)  # section 4.1 of the paper
PROBS = {"median": 0.5, "q15": 0.15, "q90": 0.9}
STATISTICS = {"mean": "Mean", "median": "Median", "q15": "15th quantile", "q90": "90th quantile"}
ECDF = {"max_ecdf": "maximum record-level difference", "avg_ecdf": "average record-level squared difference"}
BOUNDS = ["replicate", "epsilon", "c1", "synthesizer", "lipschitz", "censored", "invocations", "diagnostics"]
UTILITY = ["replicate", "epsilon", "c1", "synthesizer", *ECDF, *STATISTICS]
FAILURES = ["replicate", "synthesizer", "epsilon", "c1", "error", "reason"]
MADE_BY = ["epsilon", "c1", "synthesizer"]


def ecdf_differences(confidential: ArrayLike, synthetic: ArrayLike) -> tuple[float, float]:
    """Distances between the empirical distributions of two files, by the two measures of the paper.

    Source: Hu, Williams & Savitsky 2025, section 4.3.

    Both are over the records of the merged file, as in Woo et al. (2009, section 4.3), to which the paper refers: the
    largest absolute difference (the Kolmogorov-Smirnov statistic), and the mean squared difference.

    Parameters
    ----------
    confidential, synthetic : float arrays (n,), (n*,)
        Values of the two files.

    Returns
    -------
    maximum : float
        The largest absolute difference.
    average : float
        The mean squared difference.

    Examples
    --------
    >>> ecdf_differences([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 5.0, 6.0])
    (0.5, 0.046875)
    """
    one, other = np.sort(np.asarray(confidential, dtype=float)), np.sort(np.asarray(synthetic, dtype=float))
    merged = np.concatenate([one, other])
    apart = np.searchsorted(one, merged, "right") / one.size - np.searchsorted(other, merged, "right") / other.size
    return float(np.abs(apart).max()), float((apart**2).mean())


def statistics_of(values: ArrayLike) -> dict[str, float]:
    """Mean, median, 15th and 90th quantile (sections 4.3, 5)."""
    y = np.asarray(values, dtype=float)
    return {"mean": float(y.mean())} | {name: float(np.quantile(y, p)) for name, p in PROBS.items()}


def measures_of(confidential: Floats, synthetic: Floats) -> dict[str, float]:
    """Distance to the confidential file, and the statistics of the synthetic one."""
    return dict(zip(ECDF, ecdf_differences(confidential, synthetic), strict=True)) | statistics_of(synthetic)


@dataclass(frozen=True)
class Made:
    """A synthetic file, and the bounds of the fit behind it.

    Attributes
    ----------
    values : float array (n,)
    lipschitz : float
        max over records and draws of alpha_i |log p_i|, before any clamp; NaN without a model.
    censored : float
        The same after the clamp; NaN where there is none.
    invocations : float
        See the module; NaN where there is nothing to count.
    diagnostics : str
        Diagnostics of the sampler that would stop a release.
    """

    values: Floats
    lipschitz: float = np.nan
    censored: float = np.nan
    invocations: float = np.nan
    diagnostics: str = ""

    @property
    def bound(self) -> float:
        """The bound that holds: after the clamp where there is one."""
        return self.lipschitz if np.isnan(self.censored) else self.censored


@dataclass(frozen=True, repr=False)
class Mechanisms(Bench):
    """The mechanisms of the paper, applied to one equally weighted file with a beta model."""

    def make(self, synthesizer: str, epsilon: float, c1: float) -> Made:
        """One synthetic file, by one posterior draw."""
        if synthesizer in ("perturbed_histogram", SQRT):
            n = self.design.n
            return self._histogram(epsilon, math.ceil(math.sqrt(n) if synthesizer == SQRT else math.log(n)))
        if synthesizer == "unweighted":
            return self._simulated(self.unweighted)
        if synthesizer == "weighted":
            return self._simulated(self.protected(PseudoPosterior("linear", c1)))
        budget = Budget(epsilon, 1)
        if synthesizer == "weighted_e":
            return self._simulated(self._cut_off(budget, c1))
        mechanism = Censored(weighted=synthesizer == "censor_w", map="linear", c1=c1)
        return self._simulated(self.protected(mechanism, budget))

    def _cut_off(self, budget: Budget, c1: float) -> ProtectedFit:
        """Weighted-e as in the paper; :class:`surveysynth.WeightedE` adds a factor so that epsilon is never missed."""
        f = self.unweighted.bounds
        return truncated(c1, WeightedE(map="linear").alpha(f, c1, budget.bound), f, self.pseudo, budget.bound)

    def _simulated(self, fitted: ProtectedFit) -> Made:
        pseudo, rng, posterior, largest = self.pseudo, self.rng, fitted.posterior, float(fitted.bounds.max())
        draw = int(rng.integers(posterior.size))
        values = next(pseudo.model.simulations(pseudo.records, posterior, [draw], rng)).outcomes[:, 0]
        censored = np.nan if fitted.clamp is None else min(largest, fitted.clamp)
        invocations = np.nan if fitted.invocations is None else float(fitted.invocations)
        return Made(values, largest, censored, invocations, ", ".join(posterior.failures))

    def _histogram(self, epsilon: float, bins: int) -> Made:
        """A file from a perturbed histogram; the epsilon of the paper is for replacing a record, and so is halved."""
        model = self.pseudo.model
        assert isinstance(model, BetaRegression)
        release = perturbed_histogram(
            self.design, model.outcome, epsilon=epsilon / 2, bounds=model.bounds, bins=bins,
            population_total=float(self.design.n), m=1,
        )  # fmt: skip
        return Made(release.datasets[0].numeric(model.outcome))


# ---- repeated samples


@dataclass(frozen=True)
class Plan:
    """The settings for every sample: arguments of :func:`censoring_study`."""

    n: int
    epsilon: tuple[float, ...]
    c1: tuple[float, ...]
    seed: int

    def __post_init__(self) -> None:
        whole(self.n, "n")
        for name in ("epsilon", "c1"):
            numbers = getattr(self, name)
            if not numbers:
                raise InputError(f"{name} is empty: give at least one")
            falling = sorted({positive(number, name) for number in numbers}, reverse=True)
            object.__setattr__(self, name, tuple(falling))
        if self.c1[0] > 1:
            raise InputError("c1 must be at most 1: it scales privacy weights down")

    @property
    def downscaled(self) -> float:
        """The epsilon at which every c1 is tried: the middle one, in section 4 of the paper."""
        return self.epsilon[len(self.epsilon) // 2]

    def jobs(self) -> Iterator[Job]:
        """Every synthetic file that a sample gets; c1 is 1 where nothing is scaled."""
        yield "unweighted", np.nan, 1.0
        for c1 in self.c1:
            yield "weighted", np.nan, c1
        for epsilon in self.epsilon:
            for c1 in self.c1 if epsilon == self.downscaled else self.c1[:1]:
                yield "weighted_e", epsilon, c1
                yield "censor_w", epsilon, c1
            yield "censor_uw", epsilon, 1.0
            yield "perturbed_histogram", epsilon, 1.0
            yield SQRT, epsilon, 1.0


def replicate(plan: Plan, number: int) -> Replicate:
    """Draw a file, and apply every mechanism to it."""
    begin = time.perf_counter()
    mechanisms = drawn(plan.n, TRUTH, seed_of(plan.seed, number, plan.n))
    y = mechanisms.design.numeric("y")
    bounds: list[dict[str, Any]] = []
    utility: list[dict[str, Any]] = [{"synthesizer": "data", "c1": np.nan} | statistics_of(y)]
    failures: list[dict[str, Any]] = []
    for synthesizer, epsilon, c1 in plan.jobs():
        job = {"replicate": number, "synthesizer": synthesizer, "epsilon": epsilon, "c1": c1}
        with recorded(failures, **job):
            made = mechanisms.make(synthesizer, epsilon, c1)
            bounds.append(job | {name: getattr(made, name) for name in BOUNDS[4:]})
            utility.append(job | measures_of(y, made.values))
    frames = {
        "utility": pd.DataFrame(utility, columns=UTILITY).assign(replicate=number),
        "bounds": pd.DataFrame(bounds, columns=BOUNDS),
    }
    return Replicate(number, frames, failures, time.perf_counter() - begin)


def drawn(n: int, distribution: Any, seed: int) -> Mechanisms:
    """A file of n values from a distribution on (0, 1)."""
    rng = np.random.default_rng(seed)
    y = distribution.rvs(n, random_state=rng)
    design = SurveyDesign(pd.DataFrame({"y": y, "weight": 1.0}), weights="weight")
    model = BetaRegression("y", bounds=(0, 1))
    logs = np.column_stack([np.log(y), np.log1p(-y)])  # without an edge
    records = replace(model.prepare(design), y=logs)
    return Mechanisms(design, PseudoLikelihood(model, records, Unit(), few_draws(rng)))


@dataclass(frozen=True, eq=False)
class CensoringStudy:
    """What repeated samples showed.

    Attributes
    ----------
    settings : dict
        What every replicate was made with, the seed included.
    replicates : int
    bounds : pandas.DataFrame
        One row a file: ``replicate, epsilon, c1, synthesizer, lipschitz, censored, invocations, diagnostics``, as of
        :class:`Made`.  epsilon is missing where it plays no part.
    utility : pandas.DataFrame
        One row a file: ``replicate, epsilon, c1, synthesizer, max_ecdf, avg_ecdf, mean, median, q15, q90``; the
        confidential file is ``data``.
    failures : pandas.DataFrame
        One row a failure: ``replicate, synthesizer, epsilon, c1, error, reason``.
    seconds : float
        Of work, over all replicates and processes.

    Examples
    --------
    Of :func:`censoring_study`:

    >>> study = censoring_study(replicates=10)  # doctest: +SKIP
    >>> study.bounds, study.utility  # doctest: +SKIP
    """

    settings: dict[str, Any]
    replicates: int
    bounds: pd.DataFrame
    utility: pd.DataFrame
    failures: pd.DataFrame
    seconds: float

    @property
    def plan(self) -> Plan:
        """The settings as a plan."""
        s = self.settings
        return Plan(s["n"], tuple(s["epsilon"]), tuple(s["c1"]), s["seed"])


def censoring_study(
    *,
    replicates: int = 100,
    n: int = 2000,
    epsilon: Sequence[float] = (5, 4, 3),
    c1: Sequence[float] = (1, 0.8),
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
) -> CensoringStudy:
    """Draw repeated files from Beta(0.5, 3), and compare the mechanisms of the paper on each file.

    Source: Hu, Williams & Savitsky 2025, section 4.

    Parameters
    ----------
    replicates : int
        R, the number of files.
    n : int
        Records of a file.
    epsilon : list of float
        Of one synthetic file, the clamp being half of it.
    c1 : list of float
        Scales of the privacy weights, at most 1.  The largest goes with every epsilon, the others with the middle
        one (section 4.4: 0.8 at epsilon 4).
    workers, scheduler, out
        As of :func:`replication.tabular.study.repeated_sampling`.
    seed : int, optional
        Without one, from the operating system, and kept in the folder; the noise of the histogram is never seeded.

    Returns
    -------
    CensoringStudy
        Bounds and utility, file by file.

    Raises
    ------
    InputError
        Arguments that do not suit; a folder that holds something else, or a study with other settings.

    Examples
    --------
    >>> study = censoring_study(replicates=10, epsilon=[5, 4], c1=[1], workers=2)  # doctest: +SKIP
    >>> study.utility.groupby("synthesizer")["max_ecdf"].mean()  # doctest: +SKIP
    """
    plan = Plan(n, tuple(epsilon), tuple(c1), entropy(out, seed))
    sampler = {"chains": CHAINS, "warmup": WARMUP, "draws": DRAWS}
    settings = {"study": "censoring", **asdict(plan), **sampler, "engine": "embedded"}
    done = repeat(replicate, plan, settings, replicates, workers=workers, scheduler=scheduler, out=out)
    return CensoringStudy(
        done.settings, replicates, done.all("bounds"), done.all("utility"), done.failures(FAILURES), done.seconds
    )


# ---- one's own file


@dataclass(frozen=True, eq=False)
class Comparison:
    """The mechanisms on one file; confidential.

    Attributes
    ----------
    synthesizer : Beta
    epsilon : float
    values : float array (n,)
        The outcome.
    made : dict of str to Made
        By synthesizer, in the order of Table 2 of the paper, the second histogram last.
    """

    synthesizer: BetaRegression
    epsilon: float
    values: Floats
    made: dict[str, Made]


def compare_mechanisms(
    frame: pd.DataFrame,
    outcome: str,
    predictors: str = "1",
    *,
    bounds: tuple[float, float],
    epsilon: float,
    seed: int | None = None,
) -> Comparison:
    """Synthetic files of one outcome by the five mechanisms, one each, at one epsilon.

    Source: Hu, Williams & Savitsky 2025, section 5.

    Beta regression on public predictors; every record counts the same, as the paper has no survey weights.

    Parameters
    ----------
    frame : pandas.DataFrame
        The confidential file.
    outcome, predictors : str
        Columns, as of :class:`surveysynth.BetaRegression`; the histogram uses no predictors.
    bounds : (float, float)
        Public least and largest value of the outcome.
    epsilon : float
        Of each synthetic file; Weighted and Weighted-e can miss it.
    seed : int, optional
        The histogram is never seeded.

    Returns
    -------
    Comparison
        The files, their distances from the confidential one, and bounds.

    Raises
    ------
    InputError, ModelError, EngineError
        As :func:`surveysynth.fit`; a missing outcome.

    Examples
    --------
    >>> units = ss.datasets.consumer_units(300, seed=1)
    >>> units["share"] = units["income"].clip(1, 300_000) / 300_000
    >>> comparison = compare_mechanisms(units, "share", bounds=(0, 1), epsilon=5)  # doctest: +SKIP
    """
    epsilon = positive(epsilon, "epsilon")
    check_seed(seed)
    synthesizer = BetaRegression(outcome, predictors, bounds=bounds)
    design = equally_weighted(frame)
    absent = np.isnan(design.numeric(outcome))
    if absent.any():
        raise InputError(f"outcome {outcome!r} is missing in {rows(absent)}; leave these records out of the file")
    sampler = few_draws(np.random.default_rng(seed))
    mechanisms = Mechanisms(design, PseudoLikelihood(synthesizer, synthesizer.prepare(design), Unit(), sampler))
    made = {name: mechanisms.make(name, epsilon, 1.0) for name in (*SYNTHESIZERS, SQRT)}
    return Comparison(synthesizer, epsilon, design.numeric(outcome), made)
