"""Re-weighting of privacy weights: repeated files of counts (section 2, appendix D), and one's own file (section 3).

Sections, tables and algorithms are those of Hu, Savitsky & Williams (2020), "the paper".

A replicate is a file of n counts, equally weighted, as the paper has no survey weights.  One synthetic file comes from
one posterior draw (m = 1): epsilon = 2 Delta.

- ``LW`` (Algorithm 2): alpha_i = c1 (1 - f~_i), the linear map of the records' Lipschitz bounds f_i; ``CW``
  (Algorithm 3): alpha_i = c1 (1 - IR_i), IR_i the share of records whose counts are further than 0.2 y_i from y_i.
  In the paper c1 is 1; on the curve it is tuned to epsilon.
- ``*_final``: one step of re-weighting, as in the paper; ``*_flat``: up to 10.
- ``inverse``: alpha_i = min(1, c1 Delta / f_i), tuned to epsilon.  One step of re-weighting turns any weights into such
  ones, with the bounds of a weighted fit for f_i.  ``inverse_debias``: the same, with draws made Fisher-consistent,
  which under the other weights they cannot be.

**Table 1** prints 95% intervals, and does not say over what.  At n = 1000 its interval of the mean is 3.5 wide for
the data, where 1.96 standard errors either side are 3.7: so it is about one file.  Ours are ends of 95% bootstrap
percentile intervals within a synthetic file, averaged over the files of a fit and over the replicates.

**The files.**  Section 2 draws from 0.2 NB(100, 5) + 0.8 NB(100, 20) (mean, dispersion); appendix D prints
NB(100, 5) twice, which we take for a slip.  The mean of its Poisson counts is not printed; ours is 100.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from ..._version import __version__
from ...design.survey_design import SurveyDesign
from ...engines import get_engine
from ...errors import InputError, SurveySynthError
from ...estimation import estimate
from ...models.base import Draws, Sampler
from ...models.counts.model import CountRecords, NegativeBinomialRegression, PoissonRegression
from ...models.normal.fbs import FBS
from ...privacy.budget import Budget
from ...privacy.mechanisms.pseudo_posterior import PseudoPosterior
from ...privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ...privacy.risks.count import CountRisk
from ...privacy.tuning import reweight, tune, weighted_fit
from ...privacy.units import Unit
from ...privacy.weight_maps import inverse_map
from ...synthesis.fit import Fit
from ...synthesis.fitting import fit
from ...validation import check_seed, positive, whole
from ..censoring.study import ECDF, PROBS, measures_of, statistics_of
from ..measures import CONFIDENTIAL
from ..sample import NUMBERS, seed_of
from ..sample import STATISTICS as TABLED
from ..tabular.study import Population, Replicate, entropy, replicates_in, sdr, stacked

Floats = NDArray[np.float64]

SYNTHESIZERS = ("unweighted", "LW", "LW_final", "LW_flat", "CW", "CW_final", "CW_flat")
OF_POISSON = SYNTHESIZERS[:3]  # appendix D of the paper
ON_THE_CURVE = ("inverse", "inverse_debias", "LW", "LW_final", "CW", "CW_final")
STEPS = {"final": 1, "flat": 10}  # of re-weighting
STATISTICS = ("q15", "q90", "mean", "median")  # in the order of Table 1 of the paper
ENDS = [f"{statistic}_{end}" for statistic in STATISTICS for end in ("low", "high")]
RADIUS = 0.2  # of the ball of CW, a share of the count: "policy" in the paper, 0.2 in Hu, Savitsky & Williams (2022b)
MECHANISMS = {
    "inverse": PseudoPosterior(), "LW": PseudoPosterior("linear"),
    "CW": PseudoPosterior("linear", risk=CountRisk(RADIUS)),
}  # fmt: skip

MIXTURE = ((0.2, 100.0, 5.0), (0.8, 100.0, 20.0))  # share, mean, dispersion (section 2.1)
POISSON_MEAN = 100.0
FILES, CURVE_FILES, RESAMPLES = 20, 10, 400  # synthetic files of a fit; of the bootstrap
CHAINS, WARMUP, DRAWS = 2, 500, 500
SHARE_EPSILON = 10.0  # at which the share of records weighted down is followed as n grows

SDR_N, SDR_M = 1000, 3  # Hu, Savitsky & Williams (2022a, section 4.1)
SDR_DELTA = (1.2, 1.8, 2.7, 3.6)  # Hu, Savitsky & Williams (2022a) have 1.8: epsilon 10.8
SDR_SYNTHESIZERS = ("inverse", "inverse_debias", "LW", "LW_final", "LW_flat")

FITS = ["c1", "lipschitz", "k", "steps", "flatness", "weighted_down", "mean_alpha", "mu", "phi", "diagnostics"]
BOUNDS = ["replicate", "part", "data", "n", "epsilon", "synthesizer", *FITS]
UTILITY = ["replicate", "data", "epsilon", "synthesizer", "file", *ECDF, *STATISTICS, *ENDS, "mu", "phi"]
FAILURES = ["replicate", "part", "data", "n", "epsilon", "synthesizer", "error", "reason"]


def interval(values: Floats, rng: np.random.Generator, resamples: int = RESAMPLES) -> dict[str, float]:
    """Ends of 95% bootstrap percentile intervals of the statistics of Table 1 of the paper.

    A resample is a multinomial draw of how often every distinct value occurs; quantiles are those of
    ``numpy.quantile``.

    Parameters
    ----------
    values : float array (n,)
    rng : numpy.random.Generator
    resamples : int

    Returns
    -------
    dict
        ``q15_low, q15_high, q90_low, ...``.
    """
    distinct, counts = np.unique(values, return_counts=True)
    n, at_once = values.size, max(1, 2_000_000 // distinct.size)
    found: list[Floats] = []
    for first in range(0, resamples, at_once):
        drawn = rng.multinomial(n, counts / n, size=min(at_once, resamples - first))
        up_to = drawn.cumsum(axis=1)
        of_each = {"mean": drawn @ distinct / n}
        for name, p in PROBS.items():
            rank, part = divmod((n - 1) * p, 1)  # from 0
            low, high = (distinct[(up_to > min(r, n - 1)).argmax(axis=1)] for r in (rank, rank + 1))
            of_each[name] = low + part * (high - low)
        found.append(np.column_stack([of_each[name] for name in STATISTICS]))
    ends = np.quantile(np.concatenate(found), [0.025, 0.975], axis=0).T
    return dict(zip(ENDS, ends.ravel().tolist(), strict=True))


@dataclass(frozen=True)
class Weightings:
    """The synthesizers of the paper, applied to one file.

    Parameters
    ----------
    design : SurveyDesign
        Equally weighted.
    model : NegativeBinomial or Poisson
    data : CountRecords
        Of the design.
    sampler : Sampler
    """

    design: SurveyDesign
    model: NegativeBinomialRegression | PoissonRegression
    data: CountRecords
    sampler: Sampler
    _first: dict[tuple[str, float | None], ProtectedFit] = field(default_factory=dict)

    @property
    def values(self) -> Floats:
        """The counts (n,)."""
        return self.design.numeric(self.model.outcome)

    @property
    def pseudo(self) -> PseudoLikelihood:
        """The model and the file, to be fitted under privacy weights."""
        return PseudoLikelihood(self.model, self.data, Unit(), self.sampler)

    @cached_property
    def unweighted(self) -> tuple[ProtectedFit, Floats]:
        """The fit under alpha = 1, and the records' Lipschitz bounds f_i (n,)."""
        return weighted_fit(1.0, np.ones(self.design.n), self.pseudo)

    @cached_property
    def isolation(self) -> Floats:
        """IR_i (n,)."""
        return CountRisk(RADIUS).compute(
            self.design, self.model, self.data, Unit(), lambda: self.unweighted[0].posterior, self.sampler.rng
        )

    def fitted(self, synthesizer: str, target: float | None = None) -> ProtectedFit:
        """The fit behind a synthesizer: under c1 = 1, or under weights that are tuned to a target bound.

        Raises
        ------
        PrivacyError, ModelError, EngineError
            As :func:`surveysynth.fit`.
        """
        if synthesizer == "unweighted":
            return self.unweighted[0]
        risk, _, stage = synthesizer.partition("_")
        if (risk, target) not in self._first:
            self._first[risk, target] = self._weighted(risk, target)
        first = self._first[risk, target]
        return reweight(first, self.pseudo, STEPS[stage]) if stage in STEPS else first

    def _weighted(self, risk: str, target: float | None) -> ProtectedFit:
        mechanism, f = MECHANISMS[risk], self.isolation if risk == "CW" else self.unweighted[1]

        def alpha(c1: float) -> Floats:
            return mechanism.alpha(f, c1, np.nan if target is None else target)

        return weighted_fit(1.0, alpha(1.0), self.pseudo)[0] if target is None else tune(alpha, self.pseudo, target)

    def synthetic(
        self, fitted: ProtectedFit, size: int, debias: float | None = None
    ) -> list[tuple[Floats, dict[str, float]]]:
        """Synthetic files, a draw each: counts (n,) and the draw's ``mu`` and ``phi``.

        ``debias``: the target of the inverse map, which is then taken off the draws.
        """
        posterior, rng = fitted.posterior, self.sampler.rng
        chosen = rng.choice(posterior.size, size, replace=False, p=posterior.weight).tolist()
        if debias is not None and size:
            posterior = self.model.debias_draws(
                self.data, posterior, chosen, lambda f: inverse_map(f, fitted.c1, 0.0, debias), None, rng, debias=True
            )
            chosen = list(range(size))
        named, made = parameters(posterior), []
        files = self.model.simulations(self.data, posterior, chosen, rng)
        for s, file in zip(chosen, files, strict=True):
            made.append((file.outcomes[:, 0], {name: float(draws[s]) for name, draws in named.items()}))
        return made


def parameters(posterior: Draws) -> dict[str, Floats]:
    """Draws (S,) of mu, the mean where predictors are at theirs, and of phi, the dispersion; NaN for Poisson."""
    values = posterior.values
    mu = np.exp(values["b"][:, 0])
    return {"mu": mu, "phi": values.get("phi", np.full(mu.size, np.nan))}


def facts_of(fitted: ProtectedFit) -> dict[str, Any]:
    """A row of the bounds: :data:`FITS`, of which mu and phi are posterior means."""
    posterior = fitted.posterior
    return {
        "c1": fitted.c1, "lipschitz": fitted.delta, "k": np.nan if fitted.k is None else fitted.k,
        "steps": fitted.steps, "flatness": fitted.flatness, "weighted_down": fitted.weighted_down,
        "mean_alpha": float(fitted.alpha.mean()),
        **{name: float(posterior.weight @ draws) for name, draws in parameters(posterior).items()},
        "diagnostics": ", ".join(posterior.failures),
    }  # fmt: skip


@dataclass
class Found:
    """What was found, fit by fit and file by file.

    Parameters
    ----------
    replicate : int
    recording : bool
        Record what fails, and go on; otherwise errors are raised.

    Attributes
    ----------
    bounds : list of dict
        One a fit: :data:`BOUNDS`.
    files : list of dict
        One a synthetic file: :data:`UTILITY`; the confidential file is ``data``, file 0.
    records : list of pandas.DataFrame
        ``data, synthesizer, record, value, alpha, bound, synthetic``, the last a value of the first synthetic file.
    failures : list of dict
    """

    replicate: int
    recording: bool = True
    bounds: list[dict[str, Any]] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)
    records: list[pd.DataFrame] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def confidential(self, file: Weightings, data: str) -> None:
        """The statistics of the file itself."""
        said = statistics_of(file.values) | interval(file.values, file.sampler.rng)
        self.files.append({"replicate": self.replicate, "data": data, "synthesizer": "data", "file": 0} | said)

    def add(
        self, file: Weightings, data: str, synthesizers: Sequence[str], part: str, epsilon: float = np.nan, *,
        size: int = FILES, recorded: bool = False,
    ) -> None:  # fmt: skip
        """Fit a file by every synthesizer, c1 being 1 or tuned to an epsilon, and draw ``size`` files from each fit."""
        target = None if np.isnan(epsilon) else Budget(epsilon, 1).bound
        for name in synthesizers:
            made_by = {"replicate": self.replicate, "data": data, "epsilon": epsilon, "synthesizer": name}
            fit_of = made_by | {"part": part, "n": file.design.n}
            try:
                fitted = file.fitted(name, target)
                made = file.synthetic(fitted, size, target if name.endswith("_debias") else None)
            except SurveySynthError as error:
                if not self.recording:
                    raise
                self.failures.append(fit_of | {"error": type(error).__name__, "reason": str(error)})
                continue
            self.bounds.append(fit_of | facts_of(fitted))
            for number, (values, draw) in enumerate(made, 1):
                said = measures_of(file.values, values) | interval(values, file.sampler.rng)
                self.files.append(made_by | {"file": number} | said | draw)
            if recorded:
                columns = {"value": file.values, "alpha": fitted.alpha, "bound": fitted.bounds, "synthetic": made[0][0]}
                frame = pd.DataFrame({"data": data, "synthesizer": name, "record": np.arange(1, file.design.n + 1)})
                self.records.append(frame.assign(**columns))


# ---- repeated samples


@dataclass(frozen=True)
class Plan:
    """What is done to every sample; arguments as of :func:`reweighting_study`."""

    n: int
    epsilon: tuple[float, ...]
    sizes: tuple[int, ...]
    curves: int
    seed: int

    def __post_init__(self) -> None:
        whole(self.n, "n")
        whole(self.curves, "curves")
        for name, check in (("epsilon", positive), ("sizes", whole)):
            numbers = [check(number, name) for number in getattr(self, name)]
            if not numbers:
                raise InputError(f"{name} is empty: give at least one")
            object.__setattr__(self, name, tuple(sorted(set(numbers))))


def drawn(data: str, n: int, seed: int) -> Weightings:
    """A file of n counts, ``nb_mixture`` or ``poisson``, and the model that R fits to it."""
    rng = np.random.default_rng(seed)
    if data == "poisson":
        return weightings(pd.DataFrame({"y": rng.poisson(POISSON_MEAN, n)}), PoissonRegression("y"), rng)
    share, mean, phi = np.array(MIXTURE).T
    of = rng.choice(share.size, n, p=share)
    y = rng.poisson(rng.gamma(phi[of], mean[of] / phi[of]))
    return weightings(pd.DataFrame({"y": y}), NegativeBinomialRegression("y"), rng)


def weightings(
    frame: pd.DataFrame, model: NegativeBinomialRegression | PoissonRegression, rng: np.random.Generator
) -> Weightings:
    """A file whose records count the same, ready to be fitted."""
    weight = next(name for i in range(len(frame.columns) + 1) if (name := f"weight_{i}") not in frame)
    design = SurveyDesign(frame.assign(**{weight: 1.0}), weights=weight)
    engine = get_engine("embedded")
    return Weightings(design, model, model.prepare(design), Sampler(lambda: engine, rng, CHAINS, WARMUP, DRAWS))


def truth(data: str) -> dict[str, float]:
    """The statistics of the distribution itself: its mean, and the least counts that reach a quantile's probability."""
    counts = np.arange(2000)
    if data == "poisson":
        expected, below = POISSON_MEAN, stats.poisson.cdf(counts, POISSON_MEAN)
    else:
        share, mean, phi = np.array(MIXTURE).T
        expected, below = float(share @ mean), stats.nbinom.cdf(counts[:, None], phi, phi / (phi + mean)) @ share
    return {"mean": expected} | {name: float(counts[(below >= p).argmax()]) for name, p in PROBS.items()}


def replicate(work: tuple[Population, Plan], number: int) -> Replicate:
    """Draw the files, and put every synthesizer to work on them."""
    population, plan = work
    begin = time.perf_counter()
    found, estimates = Found(number), pd.DataFrame()
    files = {}
    for data, synthesizers in (("poisson", OF_POISSON), ("nb_mixture", SYNTHESIZERS)):
        files[data] = drawn(data, plan.n, seed_of(plan.seed, number, plan.n, len(synthesizers)))
        found.confidential(files[data], data)
        found.add(files[data], data, synthesizers, "file", recorded=number == 1)
    if number <= plan.curves:
        for epsilon in plan.epsilon:
            found.add(files["nb_mixture"], "nb_mixture", ON_THE_CURVE, "curve", epsilon, size=CURVE_FILES)
        for n in plan.sizes:
            larger = drawn("nb_mixture", n, seed_of(plan.seed, number, n, 0))
            for epsilon in (np.nan, SHARE_EPSILON):
                found.add(larger, "nb_mixture", SYNTHESIZERS[1:4], "share", epsilon, size=0)
        estimates = _on_sdr(found, population, seed_of(plan.seed, number, SDR_N, 1))
    bounds = pd.DataFrame(found.bounds, columns=BOUNDS)
    return Replicate(
        number, pd.DataFrame(found.files, columns=UTILITY), bounds, stacked(found.records), estimates, found.failures,
        time.perf_counter() - begin,
    )  # fmt: skip


def _on_sdr(found: Found, population: Population, seed: int) -> pd.DataFrame:
    """FBS on a sample of simulated doctorate holders: inverse map, linear map, and linear map re-weighted.

    The frame is that of :func:`surveysynth.studies.summarize`, ``method`` being the synthesizer.
    """
    design = population.sample(population.frame, SDR_N, seed)
    by, columns = list(population.by), [*population.by, "statistic", *NUMBERS]
    own = estimate(design, population.outcome, by, TABLED, estimator="onepass")[columns]
    tables = [own.assign(method=CONFIDENTIAL, delta=np.nan, m=np.nan)]
    model = FBS(population.outcome, population.predictors, prior="flat")
    for delta in SDR_DELTA:
        first: dict[str, Fit] = {}
        for name in SDR_SYNTHESIZERS:
            risk, _, stage = name.partition("_")
            epsilon = round(2 * delta * SDR_M, 10)
            made_by = {"replicate": found.replicate, "part": "sdr", "data": "sdr", "n": SDR_N, "epsilon": epsilon}
            made_by |= {"synthesizer": name}
            try:
                if risk not in first:
                    first[risk] = fit(
                        design, model, epsilon=epsilon, m=SDR_M, population_total=population.N, seed=seed,
                        mechanism=MECHANISMS[risk],
                    )  # fmt: skip
                fitted = replace(first[risk], used=[], spent=[])  # each synthesizer by itself
                done = fitted.reweighted(STEPS[stage]) if stage in STEPS else fitted
                release = done.release(debias=stage == "debias", accept_diagnostics=["information"])
                table = release.tables(by, estimator="onepass")[columns]
            except SurveySynthError as error:
                found.failures.append(made_by | {"error": type(error).__name__, "reason": str(error)})
                continue
            weighted = done.weighted
            facts = {name: getattr(weighted, name) for name in ("c1", "steps", "flatness", "weighted_down")}
            facts |= {"lipschitz": done.delta, "mean_alpha": float(weighted.alpha.mean())}
            facts["k"] = np.nan if weighted.k is None else weighted.k
            found.bounds.append(made_by | facts)
            tables.append(table.assign(method=name, delta=delta, m=SDR_M))
    estimates = pd.concat(tables, ignore_index=True).assign(replicate=found.replicate, setting="")
    estimates["epsilon"] = (2 * estimates["delta"] * estimates["m"]).round(10)
    return estimates.merge(population.truths, on=[*by, "statistic"], how="left")


@dataclass(frozen=True, eq=False)
class ReweightingStudy:
    """What repeated samples showed.

    Attributes
    ----------
    settings : dict
        What every replicate was made with, the seed included.
    replicates : int
    bounds : pandas.DataFrame
        One row a fit: ``replicate, part, data, n, epsilon, synthesizer, c1, lipschitz, k, steps, flatness,
        weighted_down, mean_alpha, mu, phi, diagnostics``.  part is "file" (the paper's rule, c1 = 1), "curve" (tuned
        to epsilon), "share" (larger files) or "sdr".
    files : pandas.DataFrame
        One row a synthetic file: ``replicate, data, epsilon, synthesizer, file, max_ecdf, avg_ecdf, q15, q90, mean,
        median``, the ends of their intervals, and ``mu, phi`` of its draw.  epsilon is missing under c1 = 1; the
        confidential file is ``data``.
    records : pandas.DataFrame
        Of the first replicate: ``data, synthesizer, record, value, alpha, bound, synthetic``.
    estimates : pandas.DataFrame
        Of the samples of simulated doctorate holders, for :func:`surveysynth.studies.summarize`.
    failures : pandas.DataFrame
        One row a failure: ``replicate, part, data, n, epsilon, synthesizer, error, reason``.
    seconds : float
        Of work, over all replicates and processes.
    """

    settings: dict[str, Any]
    replicates: int
    bounds: pd.DataFrame
    files: pd.DataFrame
    records: pd.DataFrame
    estimates: pd.DataFrame
    failures: pd.DataFrame
    seconds: float

    @property
    def plan(self) -> Plan:
        """The settings as a plan."""
        s = self.settings
        return Plan(s["n"], tuple(s["epsilon"]), tuple(s["sizes"]), s["curves"], s["seed"])


def reweighting_study(
    *,
    replicates: int = 100,
    n: int = 1000,
    epsilon: Sequence[float] = (4, 5, 6, 8, 10, 14, 20),
    sizes: Sequence[int] = (500, 2000, 8000, 32_000),
    curves: int = 10,
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
) -> ReweightingStudy:
    """Draw files of counts again and again, and compare privacy weights before and after re-weighting.

    Source: Hu, Savitsky & Williams 2020, section 2, appendix D.

    Parameters
    ----------
    replicates : int
        R, the number of files.
    n : int
        Records of a file.
    epsilon : list of float
        Of the curve, for one synthetic file each.
    sizes : list of int
        Records of the files on which the share of records that are weighted down is followed.
    curves : int
        Number of replicates, the first ones, that have the curve, the larger files and samples of simulated doctorate
        holders.
    workers, scheduler, out
        As of :func:`surveysynth.studies.repeated_sampling`.
    seed : int, optional
        Without one, from the operating system, and kept in the folder.

    Returns
    -------
    ReweightingStudy

    Raises
    ------
    InputError
        Arguments that do not suit; a folder that holds something else, or a study with other settings.
    """
    whole(replicates, "replicates")
    whole(workers, "workers")
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            return reweighting_study(
                replicates=replicates, n=n, epsilon=epsilon, sizes=sizes, curves=curves, workers=workers,
                scheduler=scheduler, out=folder, seed=seed,
            )  # fmt: skip
    out = Path(out)
    plan = Plan(n, tuple(epsilon), tuple(sizes), curves, entropy(out, seed))
    made_with = {"chains": CHAINS, "warmup": WARMUP, "draws": DRAWS, "files": FILES, "resamples": RESAMPLES}
    settings = {"study": "reweighting", **asdict(plan), **made_with, "engine": "embedded", "surveysynth": __version__}
    settings = json.loads(json.dumps(settings))
    population = sdr()
    population.truths  # noqa: B018  # computed once, and sent along with the population
    kept = replicates_in(out, settings, replicates, replicate, (population, plan), workers=workers, scheduler=scheduler)
    failures = pd.DataFrame([row for one in kept for row in one.failures], columns=FAILURES)
    return ReweightingStudy(
        settings, replicates, stacked([one.bounds for one in kept]), stacked([one.estimates for one in kept]),
        kept[0].records, stacked([one.scatter for one in kept]), failures, sum(one.seconds for one in kept),
    )  # fmt: skip


# ---- one's own file


@dataclass(frozen=True, eq=False)
class Comparison:
    """Privacy weights before and after re-weighting on one file; confidential.

    Attributes
    ----------
    model : NegativeBinomial
    bounds, files, records : pandas.DataFrame
        As of :class:`ReweightingStudy`; ``data`` is the outcome.
    """

    model: NegativeBinomialRegression
    bounds: pd.DataFrame
    files: pd.DataFrame
    records: pd.DataFrame


def compare_weightings(
    frame: pd.DataFrame, outcome: str, predictors: str = "1", *, seed: int | None = None
) -> Comparison:
    """Synthetic counts under LW and CW, before and after re-weighting, by a negative binomial model.

    Source: Hu, Savitsky & Williams 2020, section 3.

    Every record counts the same, as the paper has no survey weights; c1 = 1, and epsilon is what comes out of it.

    Parameters
    ----------
    frame : pandas.DataFrame
        The confidential file.
    outcome, predictors : str
        Columns, as of :class:`surveysynth.NegativeBinomialRegression`.  The outcome is a count, or money in whole
        dollars.
    seed : int, optional

    Returns
    -------
    Comparison

    Raises
    ------
    InputError, ModelError, EngineError
        As :func:`surveysynth.fit`.
    """
    check_seed(seed)
    model = NegativeBinomialRegression(outcome, predictors)
    file = weightings(frame, model, np.random.default_rng(seed))
    found = Found(1, recording=False)
    found.confidential(file, outcome)
    found.add(file, outcome, SYNTHESIZERS, "file", recorded=True)
    return Comparison(
        model, pd.DataFrame(found.bounds, columns=BOUNDS), pd.DataFrame(found.files, columns=UTILITY),
        stacked(found.records),
    )  # fmt: skip
