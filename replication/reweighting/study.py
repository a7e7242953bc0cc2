"""Re-weighting of privacy weights, on repeated files of counts and on the user's own file.

Sections, tables and algorithms are those of Hu, Savitsky & Williams (2020), "the paper".  Repeated files are in section
2 and appendix D, one file in section 3.

A replicate is a file of n counts y_i with equal survey weights, because the paper has no survey weights.  One synthetic
file comes from one posterior draw (m = 1).  So epsilon = 2 Delta, where Delta is the largest Lipschitz bound of a
record.  The privacy weights alpha_i of the synthesizers are

- ``LW`` (Algorithm 2): alpha_i = c1 (1 - f~_i), the linear map of the Lipschitz bounds f_i in the unweighted fit;
- ``CW`` (Algorithm 3): alpha_i = c1 (1 - IR_i), where IR_i is the share of records whose counts are farther than
  0.2 y_i from y_i.  For LW and CW c1 is 1, as in the paper, except that for the curve of utility against epsilon c1 is
  tuned to epsilon;
- ``LW_final``, ``CW_final``: one step of re-weighting, as in the paper; ``LW_flat``, ``CW_flat``: up to 10 steps;
- ``inverse``: alpha_i = min(1, c1 Delta / f_i), tuned to epsilon.  One step of re-weighting turns any weights into
  weights of this form, with the bounds of a weighted fit for f_i;
- ``inverse_debias``: the same as ``inverse``, with Fisher-consistent draws, which need the inverse map.

**Table 1** prints 95% intervals without a definition.  At n = 1000 the printed interval of the mean of the data has
length 3.5, and twice 1.96 standard errors of the mean is 3.7.  So the intervals seem to be about one file.  Here they
are 95% bootstrap percentile intervals within a synthetic file, with ends averaged over files and replicates.

**The files.**  Section 2 draws from 0.2 NB(100, 5) + 0.8 NB(100, 20) (mean, dispersion).  Appendix D prints
NB(100, 5) twice, probably by mistake.  It does not print the mean of its Poisson counts; here it is 100.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from surveysynth.estimation import estimate
from surveysynth.models.counts import NegativeBinomialRegression
from surveysynth.models.normal.fbs import FBS
from surveysynth.privacy.budget import Budget
from surveysynth.studies.base import Replicate, entropy, recorded, repeat, seed_of, stacked
from surveysynth.studies.measures import CONFIDENTIAL
from surveysynth.synthesis.fit import Fit
from surveysynth.synthesis.fitting import fit
from surveysynth.validation import check_seed

from ..bench import CHAINS, DRAWS, WARMUP, facts_of
from ..sample import NUMBERS
from ..sample import STATISTICS as TABLED
from ..tabular.study import Population, sdr
from .bench import BOUNDS, FAILURES, FILES, MECHANISMS, RESAMPLES, STEPS, SYNTHESIZERS, UTILITY, Found
from .inputs import Plan, drawn, weightings

POISSON_SYNTHESIZERS = SYNTHESIZERS[:3]  # appendix D of the paper
ON_THE_CURVE = ("inverse", "inverse_debias", "LW", "LW_final", "CW", "CW_final")
CURVE_FILES = 10  # synthetic files of a fit, for the curve of utility against epsilon
SHARE_EPSILON = 10.0  # for the share of records with privacy weights below 1, in larger files

SDR_N, SDR_M = 1000, 3  # Hu, Savitsky & Williams (2022a, section 4.1)
SDR_DELTA = (1.2, 1.8, 2.7, 3.6)  # 1.8 in Hu, Savitsky & Williams (2022a), which is epsilon 10.8
SDR_SYNTHESIZERS = ("inverse", "inverse_debias", "LW", "LW_final", "LW_flat")


def replicate(work: tuple[Population, Plan], number: int) -> Replicate:
    """Make one replicate: draw the files, and apply every synthesizer to them."""
    population, plan = work
    begin = time.perf_counter()
    found, estimates = Found(number), pd.DataFrame()
    files = {}
    for data, synthesizers in (("poisson", POISSON_SYNTHESIZERS), ("nb_mixture", SYNTHESIZERS)):
        files[data] = drawn(data, plan.n, seed_of(plan.seed, number, plan.n, len(synthesizers)))
        found.confidential(files[data], data)
        found.add(files[data], data, synthesizers, "file", by_record=number == 1)
    if number <= plan.curves:
        for epsilon in plan.epsilon:
            found.add(files["nb_mixture"], "nb_mixture", ON_THE_CURVE, "curve", epsilon, size=CURVE_FILES)
        for n in plan.sizes:
            larger = drawn("nb_mixture", n, seed_of(plan.seed, number, n, 0))
            for epsilon in (np.nan, SHARE_EPSILON):
                found.add(larger, "nb_mixture", SYNTHESIZERS[1:4], "share", epsilon, size=0)
        estimates = _on_sdr(found, population, seed_of(plan.seed, number, SDR_N, 1))
    frames = {
        "files": pd.DataFrame(found.files, columns=UTILITY), "bounds": pd.DataFrame(found.bounds, columns=BOUNDS),
        "records": stacked(found.records), "estimates": estimates,
    }  # fmt: skip
    return Replicate(number, frames, found.failures, time.perf_counter() - begin)


def _on_sdr(found: Found, population: Population, seed: int) -> pd.DataFrame:
    """Fit FBS to a sample of simulated doctorate holders under several privacy weights, and return estimates.

    The weights are from the inverse map, and from the linear map with and without re-weighting.  In the frame of
    estimates (:mod:`surveysynth.studies.measures`) ``method`` is the synthesizer.
    """
    design = population.sample(population.frame, SDR_N, seed)
    by, columns = list(population.by), [*population.by, "statistic", *NUMBERS]
    own = estimate(design, population.outcome, by, TABLED, estimator="onepass")[columns]
    tables = [own.assign(method=CONFIDENTIAL, delta=np.nan, m=np.nan, epsilon=np.nan)]
    model = FBS(population.outcome, population.predictors, prior="flat")
    for delta in SDR_DELTA:
        epsilon = round(Budget(None, SDR_M).spent(delta), 10)
        first: dict[str, Fit] = {}
        for name in SDR_SYNTHESIZERS:
            risk, _, stage = name.partition("_")
            made_by = {"replicate": found.replicate, "part": "sdr", "data": "sdr", "n": SDR_N, "epsilon": epsilon}
            made_by |= {"synthesizer": name}
            with recorded(found.failures, **made_by):
                if risk not in first:
                    first[risk] = fit(
                        design, model, epsilon=epsilon, m=SDR_M, population_total=population.N, seed=seed,
                        mechanism=MECHANISMS[risk],
                    )  # fmt: skip
                fitted = replace(first[risk], used=[], spent=[])  # a separate privacy budget for each synthesizer
                done = fitted.reweighted(STEPS[stage]) if stage in STEPS else fitted
                release = done.release(debias=stage == "debias", accept_diagnostics=["information"])
                table = release.tables(by, estimator="onepass")[columns]
                found.bounds.append(made_by | facts_of(done.weighted))
                tables.append(table.assign(method=name, delta=delta, m=SDR_M, epsilon=epsilon))
    estimates = pd.concat(tables, ignore_index=True).assign(replicate=found.replicate, setting="")
    return estimates.merge(population.truths, on=[*by, "statistic"], how="left")


@dataclass(frozen=True, eq=False)
class ReweightingStudy:
    """The results of the comparison of privacy weights on repeated files.

    Attributes
    ----------
    settings : dict
        The settings of every replicate, including the seed.
    replicates : int
    bounds : pandas.DataFrame
        One row for each fit: ``replicate, part, data, n, epsilon, synthesizer, c1, lipschitz, k, steps, flatness,
        weighted_down, mean_alpha, mu, phi, diagnostics`` (:class:`surveysynth.privacy.protected_fit.ProtectedFit`).
        ``part`` is the part of the study: "file" (c1 = 1, as in the paper), "curve" (tuned to epsilon), "share" (larger
        files) or "sdr" (samples of doctorate holders).
    files : pandas.DataFrame
        One row for each synthetic file: ``replicate, data, epsilon, synthesizer, file, max_ecdf, avg_ecdf, q15, q90,
        mean, median``, the ends of intervals of the last four, and ``mu, phi`` of the draw.  ``epsilon`` is missing if
        c1 = 1.  The confidential file has the synthesizer "data".
    records : pandas.DataFrame
        Records of the first replicate: ``data, synthesizer, record, value, alpha, bound, synthetic``.
    estimates : pandas.DataFrame
        Estimates from samples of simulated doctorate holders, for :func:`surveysynth.studies.summarize`.
    failures : pandas.DataFrame
        One row for each failure: ``replicate, part, data, n, epsilon, synthesizer, error, reason``.
    seconds : float
        Computing time of all replicates together.

    Examples
    --------
    The result of :func:`reweighting_study`:

    >>> study = reweighting_study(replicates=10, curves=1)  # doctest: +SKIP
    >>> study.bounds, study.files  # doctest: +SKIP
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
        """The settings of the study, as a :class:`Plan`."""
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
    """Draw repeated files of counts, and compare privacy weights before and after re-weighting.

    Source: Hu, Savitsky & Williams 2020, section 2, appendix D.

    Parameters
    ----------
    replicates : int
        Number of replicates.
    n : int
        Number of records of a file.
    epsilon : list of float
        Epsilons of the curve of utility, each for one synthetic file.
    sizes : list of int
        Numbers of records of larger files, for the share of records with privacy weights below 1.
    curves : int
        Number of replicates, from the first, that include the curve, the larger files and the samples of simulated
        doctorate holders.
    workers, scheduler, out
        See :func:`replication.tabular.study.repeated_sampling`.
    seed : int, optional
        The default is a seed from the operating system, which is kept in the folder.

    Returns
    -------
    ReweightingStudy

    Raises
    ------
    InputError
        An argument is not valid, or the folder contains something else or a study with other settings.

    Examples
    --------
    >>> study = reweighting_study(replicates=10, curves=1, workers=2)  # doctest: +SKIP
    >>> study.bounds.groupby("synthesizer")["lipschitz"].mean()  # doctest: +SKIP
    """
    plan = Plan(n, tuple(epsilon), tuple(sizes), curves, entropy(out, seed))
    made_with = {"chains": CHAINS, "warmup": WARMUP, "draws": DRAWS, "files": FILES, "resamples": RESAMPLES}
    settings = {"study": "reweighting", **asdict(plan), **made_with, "engine": "embedded"}
    population = sdr()
    population.truths  # noqa: B018  # computed once, and sent along with the population
    done = repeat(replicate, (population, plan), settings, replicates, workers=workers, scheduler=scheduler, out=out)
    return ReweightingStudy(
        done.settings, replicates, done.all("bounds"), done.all("files"), done.first("records"), done.all("estimates"),
        done.failures(FAILURES), done.seconds,
    )  # fmt: skip


# ---- the user's own file


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results for privacy weights before and after re-weighting on one file.  They are confidential.

    Attributes
    ----------
    model : NegativeBinomialRegression
    bounds, files, records : pandas.DataFrame
        See :class:`ReweightingStudy`.  Column ``data`` has the name of the outcome.
    """

    model: NegativeBinomialRegression
    bounds: pd.DataFrame
    files: pd.DataFrame
    records: pd.DataFrame


def compare_weightings(
    frame: pd.DataFrame, outcome: str, predictors: str = "1", *, seed: int | None = None
) -> Comparison:
    """Make synthetic counts by a negative binomial model, under privacy weights before and after re-weighting.

    Source: Hu, Savitsky & Williams 2020, section 3, where the privacy weights are LW and CW.

    All records have equal survey weights, because the paper has no survey weights.  c1 = 1, and epsilon is not tuned.

    Parameters
    ----------
    frame : pandas.DataFrame
        The confidential file.
    outcome, predictors : str
        Arguments of :class:`surveysynth.NegativeBinomialRegression`.  The outcome is a count, or an amount in whole
        dollars.
    seed : int, optional

    Returns
    -------
    Comparison

    Raises
    ------
    InputError, ModelError, EngineError
        For the reasons given in :func:`surveysynth.fit`.

    Examples
    --------
    >>> units = ss.datasets.consumer_units(500, seed=1).assign(income=lambda f: f.income.clip(0))
    >>> comparison = compare_weightings(units, "income")  # doctest: +SKIP
    >>> comparison.bounds  # doctest: +SKIP
    """
    check_seed(seed)
    model = NegativeBinomialRegression(outcome, predictors)
    file = weightings(frame, model, np.random.default_rng(seed))
    found = Found(1, recording=False)
    found.confidential(file, outcome)
    found.add(file, outcome, SYNTHESIZERS, "file", by_record=True)
    return Comparison(
        model, pd.DataFrame(found.bounds, columns=BOUNDS), pd.DataFrame(found.files, columns=UTILITY),
        stacked(found.records),
    )  # fmt: skip
