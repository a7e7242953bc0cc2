"""Repeated samples from a known population: coverage, interval length and error of every method.

Source: Hu, Savitsky & Williams 2022a, section 4 and appendix F.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from surveysynth.datasets.sdr import sdr_population, sdr_sample
from surveysynth.design.survey_design import SurveyDesign
from surveysynth.errors import InputError
from surveysynth.estimation import estimate
from surveysynth.sampling import inclusion_probabilities, proportional_allocation, systematic
from surveysynth.studies.base import Replicate, entropy, recorded, repeat, seed_of, stacked
from surveysynth.studies.measures import MADE_BY
from surveysynth.validation import positive, whole

from ..choices import StudyMethod, StudyPrior
from ..sample import METHODS, NUMBERS, STATISTICS, SampleStudy

BOUNDS = ["replicate", "n", "method", "delta", "unweighted", "weighted", "untuned"]
FAILURES = ["replicate", "n", "method", "setting", "delta", "m", "error", "reason"]
ONE = "weight of one unit"

POPULATION_SEED = 2017  # the simulated population is one population, whatever the seed of a study
ERRORS = {
    "sdr": "lognormal", "t4": "t4", "skewed": "skewed", "heteroskedastic": "heteroskedastic", "two-stage": "clustered",
}  # fmt: skip
SDR_BOUNDS = {"weight": (0.1, 5.0), "salary": (20_000.0, 500_000.0)}


@dataclass(frozen=True, eq=False)
class Population:
    """A population in which all values are known, and the function that draws samples from it.

    Attributes
    ----------
    name : str
        Name for files and titles.
    frame : pandas.DataFrame
        One row for each unit.
    outcome : str
        A column of positive amounts.
    by : tuple of str
        The variables that define the domains of the tables; they must be predictors.
    predictors : str
        Formula of the models.
    sample : function (frame, n, seed) -> SurveyDesign
        Draws a sample.  It must be defined in a module, so that other processes can import it.
    fit : mapping
        Further arguments of :func:`surveysynth.fit`, such as ``clusters="ignore"``.
    bounds : mapping of str to (low, high), optional
        Public bounds for strict Laplace tables: bounds of the outcome in the unit of the outcome, and bounds of
        "weight" in multiples of N / n.  Without bounds, strict tables are left out.

    Examples
    --------
    >>> population = sdr()
    >>> population.outcome, population.by, population.predictors
    ('salary', ('field', 'gender'), 'field + gender')
    >>> population.sample(population.frame, 500, 1)
    SurveyDesign: 500 records, weights 'weight', 8 strata 'field', no clusters
    """

    name: str
    frame: pd.DataFrame
    outcome: str
    by: tuple[str, ...]
    predictors: str
    sample: Callable[[pd.DataFrame, int, int], SurveyDesign]
    fit: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] | None = None

    @property
    def N(self) -> int:
        """Number of units."""
        return len(self.frame)

    @cached_property
    def truths(self) -> pd.DataFrame:
        """True counts and means of cells, margins and total, with columns ``<by>, statistic, truth``."""
        everybody = SurveyDesign(self.frame.assign(**{ONE: 1.0}), weights=ONE)
        table = estimate(everybody, self.outcome, self.by, STATISTICS, estimator="onepass")
        return table[[*self.by, "statistic", "estimate"]].rename(columns={"estimate": "truth"})

    def bounds_at(self, n: int) -> dict[str, tuple[float, float]] | None:
        """Return public bounds of outcome and weight for a sample of size n.

        Parameters
        ----------
        n : int
            Sample size.

        Returns
        -------
        dict of str to (float, float), or None
            Bounds of the outcome and of "weight".
        """
        if self.bounds is None:
            return None
        low, high = self.bounds["weight"]
        return {**self.bounds, "weight": (low * self.N / n, high * self.N / n)}

    def describe(self) -> dict[str, Any]:
        """Return the facts that identify this population in the settings of a study.

        Returns
        -------
        dict of str to object
            Facts that can be written as JSON.
        """
        values = hashlib.sha256(pd.util.hash_pandas_object(self.frame, index=False).to_numpy().tobytes())
        return {
            "population": self.name, "population_sha256": values.hexdigest(), "outcome": self.outcome,
            "by": list(self.by), "predictors": self.predictors, "sample": _name(self.sample),
            "fit": {name: str(value) for name, value in self.fit.items()},
            "bounds": None if self.bounds is None else {name: list(pair) for name, pair in self.bounds.items()},
        }  # fmt: skip


def sdr(kind: str = "sdr") -> Population:
    """Make the simulated population of Hu, Savitsky & Williams (2022a), or a variant of it.

    Source: Hu, Savitsky & Williams 2022a, section 4.1.

    Parameters
    ----------
    kind : {"sdr", "t4", "skewed", "heteroskedastic", "two-stage"}
        The distribution of errors of log salary.  "sdr": normal, as in the paper.  "two-stage": universities are
        sampled first; salaries within a university are similar, which the models ignore.  The other names describe the
        errors.

    Returns
    -------
    Population
        100,000 doctorate holders of :func:`surveysynth.datasets.sdr_population`, always with the same seed.

    Raises
    ------
    InputError
        An unknown kind.

    Examples
    --------
    >>> population = sdr()
    >>> population.name, population.frame.shape
    ('sdr', (100000, 4))
    """
    if kind not in ERRORS:
        raise InputError(f"population {kind!r} is not one of {', '.join(ERRORS)}")
    frame = sdr_population(seed=POPULATION_SEED, errors=ERRORS[kind])  # type: ignore[arg-type]
    fit = {"clusters": "ignore"} if kind == "two-stage" else {}
    return Population(kind, frame, "salary", ("field", "gender"), "field + gender", _sdr_sample, fit, SDR_BOUNDS)


def _sdr_sample(frame: pd.DataFrame, n: int, seed: int) -> SurveyDesign:
    """Draw doctorate holders in strata (fields), systematically with probability proportional to size.

    If the frame has universities (column ``psu``), the sample has two stages instead.

    The paper does not state the order of units; here it is the order of the frame.  In the frame the men of a
    field come before the women, so that the sample is implicitly stratified by gender, too.  The variance estimator
    ignores this, so that intervals of cell counts have a coverage of 0.99, as in the paper.  In random order the
    coverage is 0.93.
    """
    rng = np.random.default_rng(seed)
    if "psu" in frame:
        return sdr_sample(n, rng, population=frame)
    field, labels = pd.factorize(frame["field"], sort=True)
    allocation = proportional_allocation(np.bincount(field), n)
    if allocation.min() < 2:
        raise InputError(f"n = {n} leaves some of the {labels.size} fields fewer than two units")
    size, taken, pi = frame["size"].to_numpy(), [], []
    for h, n_h in enumerate(allocation.tolist()):
        units = np.flatnonzero(field == h)
        p = inclusion_probabilities(size[units], n_h)
        drawn = systematic(p, rng)
        taken.append(units[drawn])
        pi.append(p[drawn])
    sample = frame.iloc[np.concatenate(taken)].drop(columns="size")
    return SurveyDesign(sample.assign(weight=1 / np.concatenate(pi)), weights="weight", strata="field")


def _name(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"


@dataclass(frozen=True)
class Plan:
    """The settings of every sample: arguments of :func:`repeated_sampling`, sorted and without duplicates."""

    n: int
    m: tuple[int, ...]
    delta: tuple[float, ...]
    methods: tuple[StudyMethod, ...]
    prior: StudyPrior
    bounds_n: tuple[int, ...]
    seed: int

    def __post_init__(self) -> None:
        for name, numbers in (("n", [self.n]), ("m", self.m), ("bounds_n", self.bounds_n)):
            for number in numbers:
                whole(number, name)
        for delta in self.delta:
            positive(delta, "delta")
        unknown = [str(name) for name in self.methods if name not in METHODS]
        if unknown:
            raise InputError(f"methods: {', '.join(unknown)} is not one of {', '.join(METHODS)}")
        for name in ("m", "delta", "methods"):
            if not getattr(self, name):
                raise InputError(f"{name} is empty: give at least one")
        if self.prior not in get_args(StudyPrior):
            raise InputError(f"prior={self.prior!r} is not one of {', '.join(get_args(StudyPrior))}")
        for name in ("m", "delta", "bounds_n"):
            object.__setattr__(self, name, tuple(sorted(set(getattr(self, name)))))
        object.__setattr__(self, "methods", tuple(method for method in METHODS if method in self.methods))


def replicate(work: tuple[Population, Plan], number: int) -> Replicate:
    """Make one replicate: draw a sample, and apply every method to it."""
    population, plan = work
    begin = time.perf_counter()
    bounds: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    main: SampleStudy | None = None
    for n in dict.fromkeys((plan.n, *plan.bounds_n)):
        seed = seed_of(plan.seed, number, n)
        design: SurveyDesign | None = None
        with recorded(failures, replicate=number, n=n, method="sample"):
            design = population.sample(population.frame, n, seed)
        if design is None:
            continue
        sample = SampleStudy(
            design, population.outcome, population.by, population.predictors, plan.prior,
            {"population_total": population.N, **population.fit}, population.bounds_at(n), seed,
        )  # fmt: skip
        if n == plan.n:
            main = sample
            sample.confidential()
        m = plan.m if n == plan.n else ()
        for method in plan.methods:
            for delta in plan.delta:
                sample.run(method, delta, m, untuned=n in plan.bounds_n)
        bounds += [{"replicate": number, "n": n} | fit for fit in sample.fits]
        failures += [{"replicate": number, "n": n} | failure for failure in sample.failures]
    estimates = pd.concat(main.tables, ignore_index=True) if main is not None else pd.DataFrame()
    if main is not None:
        columns = ["replicate", *MADE_BY, *population.by, "statistic", *NUMBERS]
        estimates = estimates.assign(replicate=number)[columns]
        estimates = estimates.merge(population.truths, on=[*population.by, "statistic"], how="left")
    first = main if number == 1 else None
    frames = {
        "estimates": estimates, "bounds": pd.DataFrame(bounds, columns=BOUNDS),
        "records": stacked(first.records if first else []), "scatter": stacked(first.scatter if first else []),
    }  # fmt: skip
    return Replicate(number, frames, failures, time.perf_counter() - begin)


@dataclass(frozen=True, eq=False)
class Study:
    """The results of a study of repeated samples.

    Attributes
    ----------
    population : Population
    settings : dict
        The settings of all replicates, including the seed.
    replicates : int
    estimates : pandas.DataFrame
        One row for each estimate: ``replicate, method, setting, delta, m, epsilon, <by>, statistic,
        estimate, se, df, ci_low, ci_high, truth`` (:mod:`surveysynth.studies.measures`).
    bounds : pandas.DataFrame
        One row for each fit: ``replicate, n, method, delta, unweighted, weighted, untuned``.  The last three are the
        largest Lipschitz bounds without privacy weights, under privacy weights tuned to delta, and (only for sample
        sizes in ``bounds_n``) under the constant c1 = 1.
    records, scatter : pandas.DataFrame
        For the first sample: Lipschitz bounds of all records; outcomes and weights.
    failures : pandas.DataFrame
        One row for each failure: ``replicate, n, method, setting, delta, m, error, reason``.
    seconds : float
        Computing time of all replicates together.

    Examples
    --------
    The result of :func:`repeated_sampling`:

    >>> study = repeated_sampling(sdr(), replicates=10)  # doctest: +SKIP
    >>> study.bounds, study.failures  # doctest: +SKIP
    """

    population: Population
    settings: dict[str, Any]
    replicates: int
    estimates: pd.DataFrame
    bounds: pd.DataFrame
    records: pd.DataFrame
    scatter: pd.DataFrame
    failures: pd.DataFrame
    seconds: float


def repeated_sampling(
    population: Population,
    *,
    replicates: int = 100,
    n: int = 1000,
    m: Sequence[int] = (1, 3, 5),
    delta: Sequence[float] = (1.8,),
    methods: Sequence[StudyMethod] = METHODS,
    prior: StudyPrior = "flat",
    bounds_n: Sequence[int] = (),
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
) -> Study:
    """Draw repeated samples from a population, and compare the estimates of the methods with the true values.

    Source: Hu, Savitsky & Williams 2022a, appendix F.

    Parameters
    ----------
    population : Population
        For example ``sdr()``, the population of the paper.
    replicates : int
        Number of samples.
    n : int
        Sample size.
    m : list of int
        Numbers of synthetic data sets.
    delta : list of float
        Lipschitz bounds of one data set, to which the fits are tuned: epsilon = 2 delta m.
    methods : list of {"fbs", "fbp", "laplace"}
    prior : {"flat", "paper"}
        "flat" has exact draws, which take a fraction of a second.  "paper" needs Markov chains.
    bounds_n : list of int
        Further sample sizes for which Lipschitz bounds are computed, to see whether the bounds converge.
    workers : int
        Number of processes on this machine, with one thread each.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers are then used instead.
    out : str or Path, optional
        Folder for finished replicates.  A study that was stopped continues from this folder, and more replicates can
        be added later.
    seed : int, optional
        The default is a seed from the operating system, which is kept in the folder.  Results depend only on the seed,
        not on workers or order, except that the noise of Laplace tables is never seeded.

    Returns
    -------
    Study
        Estimates and bounds, replicate by replicate.

    Raises
    ------
    InputError
        An argument is not valid, or the folder contains something else or a study with other settings.

    Examples
    --------
    100 samples take some minutes:

    >>> study = repeated_sampling(sdr(), m=[3], methods=["fbs", "fbp"])  # doctest: +SKIP
    >>> ss.studies.summarize(study.estimates, by=["field", "gender"])  # doctest: +SKIP
    """
    plan = Plan(n, tuple(m), tuple(delta), tuple(methods), prior, tuple(bounds_n), entropy(out, seed))
    for size in {plan.n, *plan.bounds_n}:  # a size that cannot be drawn is refused before the work begins
        population.sample(population.frame, size, seed_of(plan.seed, 1, size))
    population.truths  # noqa: B018  # computed once, and sent along with the population
    settings = {**population.describe(), **asdict(plan)}
    done = repeat(replicate, (population, plan), settings, replicates, workers=workers, scheduler=scheduler, out=out)
    return Study(
        population, done.settings, replicates, done.all("estimates"), done.all("bounds"), done.first("records"),
        done.first("scatter"), done.failures(FAILURES), done.seconds,
    )  # fmt: skip
