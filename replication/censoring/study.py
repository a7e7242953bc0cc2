"""Comparison of mechanisms with global and with asymptotic epsilon, on repeated files and on the user's own file.

Sections and tables are those of Hu, Williams & Savitsky (2025), "the paper".  Repeated files are in section 4, one file
in section 5.

A replicate is a file of n values from Beta(0.5, 3) with equal survey weights, because the paper has no survey weights.
One synthetic file comes from one posterior draw (m = 1), so that epsilon is twice the Lipschitz bound.  Let log p_i be
the log likelihood of record i, f_i the record's Lipschitz bound in the unweighted fit, and alpha_i its privacy weight.

- ``unweighted``: alpha_i = 1;
- ``weighted``: alpha_i = c1 (1 - f~_i), the linear map of f_i;
- ``weighted_e`` (section 2.2): as ``weighted``, but alpha_i = 0 if alpha_i f_i > epsilon / 2;
- ``censor_w``, ``censor_uw`` (section 3): alpha_i log p_i is clamped to [-epsilon / 2, epsilon / 2], with alpha_i of
  ``weighted``, or with alpha_i = 1;
- ``perturbed_histogram`` (section 2.3): Laplace(2 / epsilon) noise in ceil(log n) bins;
- ``perturbed_histogram_sqrt``: the same in ceil(sqrt(n)) bins.  The paper names both numbers of bins, and not the one
  that it used.  In its Table 2 the 15th quantile is 30,108, and 51,000 in the data.  So bins seem to be far wider than
  the range of a salary over sqrt(1601).

**Invocations** (Table 1) are, for ``weighted_e``, the records whose weight is set to 0, and for the censored
mechanisms the records that are clamped in at least one posterior draw.  The paper does not define them.  Other
definitions were compared with its means for Censor_uw (247, 419, 809 at epsilon 5, 4, 3).  Means of 24 samples, 1000
draws, are

    clamped in at least one draw      247  420  804      in most draws                     195  321  632
    in the draw that is released      199  312  609      at the posterior mean             195  320  632

For Weighted-e (paper: 29, 195, 573) the bounds f_i give 30, 199, 578 over 100 samples.  The bounds of the weighted fit
give 11, 122, 543 over 24 samples.  The paper's count for Weighted-e at c1 = 0.8 (91) is reproduced by c1 = 0.9 (90),
and not by 0.8 (30).  No definition reproduces its counts for Censor_w (110, 408, 741).  Records clamped in at least one
draw are 13, 98, 467 over 100 samples, while the paper has hundreds in a sample or none.

The largest Lipschitz bounds belong to values near 0.  :class:`surveysynth.models.beta.BetaRegression` would reduce
them, because it moves values that are nearer to a bound than 1e-6 of the range.  Here values are not moved.
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
Job = tuple[str, float, float]  # synthesizer, epsilon (NaN if it has no effect), c1

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
    """Compute the distance between the empirical distribution functions of two files, by two measures.

    Source: Hu, Williams & Savitsky 2025, section 4.3.

    The functions are compared at the values of both files, as in Woo et al. (2009, section 4.3), whom the paper cites.

    Parameters
    ----------
    confidential, synthetic : array_like
        Values of the two files.

    Returns
    -------
    maximum : float
        The largest absolute difference (the Kolmogorov-Smirnov statistic).
    average : float
        The mean squared difference.

    Examples
    --------
    >>> ecdf_differences([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 5.0, 6.0])
    (0.5, 0.046875)
    """
    one, other = np.sort(np.asarray(confidential, dtype=float)), np.sort(np.asarray(synthetic, dtype=float))
    merged = np.concatenate([one, other])
    difference = np.searchsorted(one, merged, "right") / one.size - np.searchsorted(other, merged, "right") / other.size
    return float(np.abs(difference).max()), float((difference**2).mean())


def statistics_of(values: ArrayLike) -> dict[str, float]:
    """Return the mean, the median, the 15th percentile and the 90th percentile of values."""
    y = np.asarray(values, dtype=float)
    return {"mean": float(y.mean())} | {name: float(np.quantile(y, p)) for name, p in PROBS.items()}


def measures_of(confidential: Floats, synthetic: Floats) -> dict[str, float]:
    """Return the distances between a confidential and a synthetic file, and the statistics of the synthetic file."""
    return dict(zip(ECDF, ecdf_differences(confidential, synthetic), strict=True)) | statistics_of(synthetic)


@dataclass(frozen=True)
class Made:
    """A synthetic file, and facts about the fit from which it was drawn.

    Attributes
    ----------
    values : float array (n,)
        The outcome.
    lipschitz : float
        Largest alpha_i |log p_i| over records and draws, before clamping.  It is NaN without a model.
    censored : float
        The same after clamping, or NaN if the mechanism does not clamp.
    invocations : float
        Number of invocations (see the module), or NaN for other mechanisms.
    diagnostics : str
        Failed diagnostics of the sampler, which would stop a release.
    """

    values: Floats
    lipschitz: float = np.nan
    censored: float = np.nan
    invocations: float = np.nan
    diagnostics: str = ""

    @property
    def bound(self) -> float:
        """The Lipschitz bound, after clamping if the mechanism clamps log likelihoods."""
        return self.lipschitz if np.isnan(self.censored) else self.censored


@dataclass(frozen=True, repr=False)
class Mechanisms(Bench):
    """The mechanisms of Hu, Williams & Savitsky (2025), for one equally weighted file with a beta model."""

    def make(self, synthesizer: str, epsilon: float, c1: float) -> Made:
        """Make one synthetic file, from one posterior draw."""
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
        """Fit Weighted-e, which gives the weight 0 to records whose Lipschitz bound is too large for epsilon.

        :class:`surveysynth.WeightedE`, unlike this function and the paper, also scales weights to guarantee epsilon.
        """
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
        """Make one synthetic file from a perturbed histogram.

        In the paper epsilon is for replacing a record, and is twice the epsilon for adding or removing one.
        """
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
    """The settings of every replicate, which are arguments of :func:`censoring_study`."""

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
        """The middle epsilon, which is combined with every factor c1 of the privacy weights.

        Source: Hu, Williams & Savitsky 2025, section 4.
        """
        return self.epsilon[len(self.epsilon) // 2]

    def jobs(self) -> Iterator[Job]:
        """Yield synthesizer, epsilon and factor c1 of the privacy weights, for each synthetic file of a replicate.

        c1 is 1 for mechanisms that do not scale weights.
        """
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
    """Make one replicate: draw a file, and apply every mechanism to it."""
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
    """Draw a file of n values from a distribution on (0, 1), and prepare it for fits."""
    rng = np.random.default_rng(seed)
    y = distribution.rvs(n, random_state=rng)
    design = SurveyDesign(pd.DataFrame({"y": y, "weight": 1.0}), weights="weight")
    model = BetaRegression("y", bounds=(0, 1))
    logs = np.column_stack([np.log(y), np.log1p(-y)])  # exact, unlike those of the model near the bounds
    records = replace(model.prepare(design), y=logs)
    return Mechanisms(design, PseudoLikelihood(model, records, Unit(), few_draws(rng)))


@dataclass(frozen=True, eq=False)
class CensoringStudy:
    """The results of the comparison of mechanisms on repeated files.

    Attributes
    ----------
    settings : dict
        The settings of every replicate, including the seed.
    replicates : int
    bounds : pandas.DataFrame
        One row for each synthetic file: ``replicate, epsilon, c1, synthesizer``, and ``lipschitz, censored,
        invocations, diagnostics`` of :class:`Made`.  ``epsilon`` is missing if it has no effect.
    utility : pandas.DataFrame
        One row for each file: ``replicate, epsilon, c1, synthesizer, max_ecdf, avg_ecdf, mean, median, q15, q90``.  The
        confidential file has the synthesizer "data".
    failures : pandas.DataFrame
        One row for each failure: ``replicate, synthesizer, epsilon, c1, error, reason``.
    seconds : float
        Computing time of all replicates together.

    Examples
    --------
    The result of :func:`censoring_study`:

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
        """The settings of the study, as a :class:`Plan`."""
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
    """Draw repeated files from Beta(0.5, 3), and compare several privacy mechanisms on each of them.

    Source: Hu, Williams & Savitsky 2025, section 4.

    Parameters
    ----------
    replicates : int
        Number of files.
    n : int
        Number of records of a file.
    epsilon : list of float
        Epsilons of one synthetic file.
    c1 : list of float
        Factors of the privacy weights, at most 1.  The largest is used with every epsilon, the others only with the
        middle epsilon (section 4.4: 0.8 at epsilon 4).
    workers, scheduler, out
        See :func:`replication.tabular.study.repeated_sampling`.
    seed : int, optional
        The default is a seed from the operating system, which is kept in the folder.  The noise of histograms is never
        seeded.

    Returns
    -------
    CensoringStudy

    Raises
    ------
    InputError
        An argument is not valid, or the folder contains something else or a study with other settings.

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


# ---- the user's own file


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of the mechanisms on one file.  They are confidential.

    Attributes
    ----------
    synthesizer : BetaRegression
    epsilon : float
    values : float array (n,)
        The confidential outcome.
    made : dict of str to Made
        Synthetic files of the mechanisms in the order of Table 2 of the paper, then of the second histogram.
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
    """Make one synthetic file of one outcome by each of five mechanisms, and by a histogram with more bins.

    Source: Hu, Williams & Savitsky 2025, section 5.

    The model is a beta regression.  All records have equal survey weights, because the paper has no survey weights.

    Parameters
    ----------
    frame : pandas.DataFrame
        The confidential file.
    outcome, predictors : str
        Arguments of :class:`surveysynth.BetaRegression`.  The histogram uses no predictors.
    bounds : (float, float)
        Public lowest and highest value of the outcome.
    epsilon : float
        Epsilon of each synthetic file, which Weighted and Weighted-e do not guarantee.
    seed : int, optional
        The noise of histograms is never seeded.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError, ModelError, EngineError
        The outcome has missing values, or :func:`surveysynth.fit` fails.

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
    missing = np.isnan(design.numeric(outcome))
    if missing.any():
        raise InputError(f"outcome {outcome!r} is missing in {rows(missing)}; leave these records out of the file")
    sampler = few_draws(np.random.default_rng(seed))
    mechanisms = Mechanisms(design, PseudoLikelihood(synthesizer, synthesizer.prepare(design), Unit(), sampler))
    made = {name: mechanisms.make(name, epsilon, 1.0) for name in (*SYNTHESIZERS, SQRT)}
    return Comparison(synthesizer, epsilon, design.numeric(outcome), made)
