"""Comparison of privacy weights from marginal and from pairwise identification risks, on one file.

Sections, equations and tables are those of Hu, Savitsky & Williams (2022b), "the paper".  The comparison is in sections
2.3 and 3.3.

An intruder knows some public columns of every record and its true value, and looks for this value in the released
files.  The identification risk of record i is IR_i (eq. 8), and alpha~_i is its pairwise weight (eq. 14); see
:mod:`surveysynth.privacy.neighbourhoods`, also for T_i and IR_ij.  The released files are one of

- ``data``: the confidential file itself;
- ``topcoding``: the confidential file, in which values above a public limit are replaced by the limit;
- ``synthesizer``: L synthetic files from the fit with all privacy weights 1.  The IR_i and alpha~_i for privacy weights
  are computed once, from these files;
- ``marginal``: L synthetic files from the fit with alpha_i = clip(c1 (1 - IR_i) + c2, 0, 1) (eq. 9 and 17);
- ``pairwise``: L synthetic files from the fit with alpha_i = clip(c1 alpha~_i + c2, 0, 1) (eq. 14, 16, 17).

**Whack-a-mole** (section 2.3.1): a record whose IR_i is more than 0.25 larger than under ``synthesizer``.  IR_i is
a mean over L files, and increases for some records by chance.  How many is seen in L more files of the unweighted fit.

**Which weights the paper has.**  By its text, weights are computed from the files of the unweighted fit, which is the
default here.  Its figures show other weights: most pairwise weights are about 0.25, and those of large incomes are as
low as 0.1.  Consider a file like the paper's, 5,571 consumer units of the same survey in 25 patterns of age and
marital status.  If the confidential values are used in place of synthetic values, so that all T_i = 1, alpha~_i is 0.23
on average, and 0.13 above 500,000 dollars.  From synthetic files alpha~_i is near 1, because IR_ij is 0 unless T_i and
T_j are both 1.  ``weights_from="data"`` makes weights like those of the paper's figures, which reduce utility more.
With these weights, FBS on the logs of 5,113 simulated positive incomes has the paper's order of utility in all four
statistics.  Then 4, 1 and 2 intervals of Synthesizer, Marginal and Pairwise cover the estimate of the data, as in the
paper's tables.  With weights from synthetic files all 12 intervals do.

**Intervals.**  The paper computes intervals of the mean and of quantiles "through bootstrapping", without details.
Here records of a file are resampled with replacement, and each keeps its survey weight.  The variance over the
resamples is the variance u of the file.  Files are combined by the rule for partially synthetic data, as for the
coefficient: T = mean(u) + b / L, with Reiter's degrees of freedom.  ``data`` and ``topcoding`` are one file each, with
a t interval from the bootstrap standard error.  A quantile is the smallest value whose share of the weight
reaches the probability, as everywhere in this package.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surveysynth.choices import Allocation
from surveysynth.datasets.consumer_units import INCOMES, consumer_units
from surveysynth.design.columns import codes
from surveysynth.design.survey_design import SurveyDesign
from surveysynth.engines import get_engine
from surveysynth.estimation.intervals import overlap
from surveysynth.models.base import Synthesizer
from surveysynth.models.draws import Sampler
from surveysynth.models.scales.transforms import AsinhTransform
from surveysynth.privacy.protected_fit import ProtectedFit, PseudoLikelihood
from surveysynth.privacy.units import Unit
from surveysynth.progress import bar
from surveysynth.studies.base import seed_of
from surveysynth.validation import check_keywords, check_seed, whole

from ..bench import CHAINS, DRAWS, WARMUP, epsilon_of
from .bench import Files, RiskBench, profile_of
from .inputs import DATA, KINDS, SYNTHESIZER, TOPCODING, Made, RiskEfficientPlan, as_design, check, synthesizer

Floats = NDArray[np.float64]

TOP_SHARE = 0.97  # share of records below the top code, in the simulated file


@dataclass(frozen=True, eq=False, repr=False)
class RiskEfficientStudy:
    """Risk and utility of files made by one model under several privacy weights.

    ``synthesizer`` names the kind of file: "data", "topcoding", "synthesizer", "marginal" or "pairwise".

    Attributes
    ----------
    model : Synthesizer
    plan : RiskEfficientPlan
    confidential : bool
        False if the file is simulated.
    patterns : pandas.Series
        Number of ``patterns`` (combinations of the known columns); ``fewest``, ``median`` and ``most`` records of a
        pattern; ``alone``, the number of patterns with one record.
    profile : pandas.DataFrame
        ``synthesizer, c1, c2, radius`` (for the privacy weights), ``at`` (radius with which risk is measured), and the
        columns of :func:`replication.risk_efficient.bench.profile_of`.  For "synthesizer", ``raised`` counts increases
        by chance, in more files of the same fit.
    utility : pandas.DataFrame
        ``synthesizer, c1, c2, radius, statistic, estimate, se, df, ci_low, ci_high``, ``overlap`` with the interval of
        the data, and ``relative_difference`` from the estimate of the data.
    fits : pandas.DataFrame
        ``synthesizer, c1, c2, radius, lipschitz``, ``epsilon`` (2 Delta for one file, asymptotic; NaN if synthetic
        values depend on the confidential values of their records, as under the paper's allocation), ``mean_alpha``,
        ``weighted_down`` (share of records with alpha < 1), ``seconds``, and ``diagnostics`` (failed sampler
        diagnostics, which would stop a release).
    records : pandas.DataFrame
        ``synthesizer, c1, c2, record, value, risk, alpha`` at the main radius.  It is confidential if the file is.

    Examples
    --------
    The result of :func:`risk_efficient_study`:

    >>> study = consumer_units_study(500, known=["tenure"], datasets=5)  # doctest: +SKIP
    >>> study.fits  # doctest: +SKIP
    """

    model: Synthesizer
    plan: RiskEfficientPlan
    confidential: bool
    patterns: pd.Series
    profile: pd.DataFrame
    utility: pd.DataFrame
    fits: pd.DataFrame
    records: pd.DataFrame

    @property
    def n(self) -> int:
        """Number of records in the file."""
        return int(self.records["record"].max())


def risk_efficient_study(
    design: SurveyDesign,
    model: Synthesizer,
    plan: RiskEfficientPlan,
    *,
    chains: int = CHAINS,
    warmup: int = WARMUP,
    draws: int = DRAWS,
    seed: int | None = None,
) -> RiskEfficientStudy:
    """Compute identification risk and utility of synthetic files, without and with privacy weights.

    Source: Hu, Savitsky & Williams 2022b, sections 2.3 and 3.3.

    Privacy weights are marginal and pairwise, with (c1, c2) of (1, 0), (1.5, 0) and (1, 0.1).

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.  All estimates use survey weights.
    model : Synthesizer
        A model with one numeric outcome.
    plan : RiskEfficientPlan
        The knowledge of the intruder, radii and statistics.
    chains, warmup, draws : int
        Number of Markov chains, and of warmup iterations and draws of each chain.
    seed : int, optional

    Returns
    -------
    RiskEfficientStudy
        The results are confidential, because they contain records.

    Raises
    ------
    InputError
        The model has several or categorical outcomes, a column does not exist or has missing values, the coefficient
        is not a term, or there are more data sets than draws.
    ModelError, EngineError
        For the reasons given in :func:`surveysynth.fit`.

    Examples
    --------
    >>> units = ss.SurveyDesign.unweighted(ss.datasets.consumer_units(500, seed=1))
    >>> model = ss.Mixture("income ~ tenure", transform=ss.AsinhTransform(scale=1000), zeros=True)
    >>> plan = RiskEfficientPlan(known=["tenure"], datasets=5)
    >>> study = risk_efficient_study(units, model, plan)  # doctest: +SKIP
    >>> study.profile, study.utility  # doctest: +SKIP
    """
    check_seed(seed)
    for name, number in {"chains": chains, "warmup": warmup, "draws": draws}.items():
        whole(number, name)
    engine = get_engine()
    sampler = Sampler(lambda: engine, np.random.default_rng(seed), chains, warmup, draws)
    check(design, model, plan, sampler)
    return _run(RiskBench(design, PseudoLikelihood(model, model.prepare(design), Unit(), sampler), plan))


def consumer_units_study(
    n: int = 5571, *, allocation: Allocation = "prior", chains: int = CHAINS, warmup: int = WARMUP, draws: int = DRAWS,
    seed: int | None = None, **looked_at: Any,
) -> RiskEfficientStudy:  # fmt: skip
    """Run :func:`risk_efficient_study` on a simulated file of consumer units.

    Parameters
    ----------
    n : int
        Number of records of :func:`surveysynth.datasets.consumer_units`.
    allocation : {"prior", "posterior"}
        Argument of :class:`surveysynth.Mixture`.  "posterior" is eq. 7 of the paper, which has no epsilon.
    chains, warmup, draws : int
        See :func:`risk_efficient_study`.
    seed : int, optional
        Seed of the file and of the study.
    **looked_at
        Arguments of :class:`RiskEfficientPlan`.

    Returns
    -------
    RiskEfficientStudy
        The results are not confidential.

    Examples
    --------
    >>> study = consumer_units_study(500, known=["tenure"], datasets=5)  # doctest: +SKIP
    >>> study.profile  # doctest: +SKIP
    """
    check_keywords(consumer_units_study, looked_at, RiskEfficientPlan)
    frame = consumer_units(n, seed)
    given: dict[str, Any] = {
        "known": ["age_group", "urban", "marital"], "coefficient": "tenure[T.rented]", "floor": 100.0,
        "top_code": float(np.quantile(frame["income"], TOP_SHARE)),  # the file is simulated: its quantiles are public
    }  # fmt: skip
    predictors = "age_group + urban + tenure + education + marital"
    model = synthesizer(frame, "income", predictors, AsinhTransform(scale=30_000), INCOMES, allocation)
    own = None if seed is None else seed_of(seed, 1)  # another stream than that of the file
    plan = RiskEfficientPlan(**given | looked_at)
    study = risk_efficient_study(as_design(frame), model, plan, chains=chains, warmup=warmup, draws=draws, seed=own)
    return replace(study, confidential=False)


@dataclass
class Found:
    """The results collected while the kinds of files are made one after the other.

    Parameters
    ----------
    bench : RiskBench

    Attributes
    ----------
    profile, utility, fits, records
        Rows of the frames of :class:`RiskEfficientStudy`.
    before : dict of radius to float array (n,)
        IR_i under the unweighted synthesizer.
    """

    bench: RiskBench
    profile: list[dict[str, Any]] = field(default_factory=list)
    utility: list[dict[str, Any]] = field(default_factory=list)
    fits: list[dict[str, Any]] = field(default_factory=list)
    records: list[pd.DataFrame] = field(default_factory=list)
    before: dict[float, Floats] = field(default_factory=dict)

    def release(self, made: Made, values: Floats) -> None:
        """Add the results of a file that is not synthetic."""
        self._measure(self.bench.released(made, values), np.ones(values.size))

    def synthesize(self, made: Made) -> None:
        """Fit the model, make synthetic files, and add their results."""
        bench = self.bench
        risk = None if made == SYNTHESIZER else bench.risk_behind(made)
        begin = time.perf_counter()
        fitted = bench.unweighted if risk is None else bench.weighted(made, risk)
        facts = facts_of(fitted, time.perf_counter() - begin)
        if bench.model.from_records:  # synthetic values depend on confidential ones: there is no epsilon
            facts |= {"epsilon": np.nan}
        self.fits.append(made._asdict() | facts)
        files = bench.unweighted_files if risk is None else bench.simulated(made, fitted.posterior)
        self._measure(files, fitted.alpha)
        if risk is None:
            self._again(bench.simulated(made, fitted.posterior))

    def _measure(self, files: Files, alpha: Floats) -> None:
        made, plan, y = files.made, self.bench.plan, self.bench.values
        by_file = {at: self.bench.risk(files, at) for at in plan.looked_at(made)}
        if made == SYNTHESIZER:
            self.before = {at: risks.mean(axis=0) for at, risks in by_file.items()}
        for at, risks in by_file.items():
            before = self.before[at] if made.synthesizer in KINDS else None
            self.profile.append(made._asdict() | {"at": at} | profile_of(risks, before))
        if made.radius == plan.radius or made.synthesizer not in KINDS:
            line = pd.DataFrame({"synthesizer": made.synthesizer, "c1": made.c1, "c2": made.c2}, index=range(y.size))
            risk = by_file[plan.radius].mean(axis=0)
            self.records.append(line.assign(record=np.arange(1, y.size + 1), value=y, risk=risk, alpha=alpha))
        self.utility += [made._asdict() | line for line in self.bench.estimates(files)]

    def _again(self, files: Files) -> None:
        """Count records whose risk increases by chance, between two sets of files of the unweighted fit."""
        for line in self.profile:
            if line["synthesizer"] == files.made.synthesizer:
                chance = profile_of(self.bench.risk(files, line["at"]), self.before[line["at"]])
                line |= {name: chance[name] for name in ("raised", "raised_max")}


def _run(bench: RiskBench) -> RiskEfficientStudy:
    plan, y, found = bench.plan, bench.values, Found(bench)
    with bar("kinds of files", 2 + len(plan.weightings) + (plan.top_code is not None)) as advance:
        found.release(DATA, y)
        advance()
        if plan.top_code is not None:
            found.release(TOPCODING, np.minimum(y, plan.top_code))
            advance()
        for made in (SYNTHESIZER, *plan.weightings):
            found.synthesize(made)
            advance()
    return RiskEfficientStudy(
        bench.model, plan, True, patterns_of(bench), pd.DataFrame(found.profile),
        beside_data(pd.DataFrame(found.utility)), pd.DataFrame(found.fits), pd.concat(found.records, ignore_index=True),
    )  # fmt: skip


def facts_of(fitted: ProtectedFit, seconds: float) -> dict[str, Any]:
    """Summarize a fit: epsilon, privacy weights and failed diagnostics."""
    return {
        "lipschitz": fitted.delta, "epsilon": epsilon_of(fitted.delta), "mean_alpha": float(fitted.alpha.mean()),
        "weighted_down": fitted.weighted_down, "seconds": seconds,
        "diagnostics": ", ".join(fitted.posterior.failures),
    }  # fmt: skip


def patterns_of(bench: RiskBench) -> pd.Series:
    """Count and summarize the groups of records that agree in all columns that the intruder knows."""
    known = bench.plan.known
    sizes = np.bincount(codes(*(bench.design.column(name) for name in known))) if known else np.array([bench.design.n])
    numbers = [sizes.size, sizes.min(), np.median(sizes), sizes.max(), (sizes == 1).sum()]
    return pd.Series(numbers, index=["patterns", "fewest", "median", "most", "alone"], dtype=float)


def beside_data(utility: pd.DataFrame) -> pd.DataFrame:
    """Add the relative difference of each estimate from the confidential one, and the overlap of their intervals."""
    own = utility[utility["synthesizer"] == "data"].set_index("statistic").loc[utility["statistic"]]
    estimate, low, high = (own[c].to_numpy() for c in ("estimate", "ci_low", "ci_high"))
    size = np.where(estimate != 0, np.abs(estimate), np.nan)
    return utility.assign(
        overlap=overlap(utility["ci_low"], utility["ci_high"], low, high),
        relative_difference=(utility["estimate"] - estimate) / size,
    )
