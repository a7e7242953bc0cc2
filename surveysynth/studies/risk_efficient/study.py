"""Privacy weights from identification risk, marginal and in pairs, side by side on one file (sections 2.3, 3.3).

Sections, equations and tables are those of Hu, Savitsky & Williams (2022b), "the paper".

An intruder knows some public columns of every record and its true value, and looks for it in the synthetic files
(:mod:`surveysynth.privacy.neighbourhoods`).
The intruder's chance with record i is IR_i (eq. 8), whatever the files were
made by:

- ``data``: the confidential file itself; ``topcoding``: values above a public number are that number;
- ``synthesizer``: L files from the fit under alpha = 1.  From these same files come IR_i and alpha~_i, once;
- ``marginal``: alpha_i = clip(c1 (1 - IR_i) + c2, 0, 1) (eq. 9 and 17); ``pairwise``: alpha_i =
  clip(c1 alpha~_i + c2, 0, 1) (eq. 14, 16, 17).  L files from the fit under alpha.

**Whack-a-mole** (section 2.3.1): a record whose IR_i is more than 0.25 above what it is under ``synthesizer``.  IR_i is
a mean over L files, and some rise by chance: L more files from the unweighted fit say how many.

**Which weights the paper has.**  It says that weights are computed from the files of the unweighted fit, which is the
default here.  Its figures are of others: of pairwise weights it says that most are about 0.25, and those of large
incomes as low as 0.1.  On a file like the paper's, 5,571 consumer units of the same survey in 25 patterns of age and
marital status, alpha~_i is 0.23 in the mean and 0.13 above 500,000 dollars where the confidential values stand for the
synthetic ones, so that T_i = 1 for everybody.  From synthetic files it is near 1: IR_ij takes two records whose own
values are in their balls.  ``weights_from="data"`` makes weights such as in the paper's figures; they press harder.
With them FBS on the logs of 5,113 made-up positive incomes has the paper's order of utility in all four statistics, and
4, 1 and 2 intervals of Synthesizer, Marginal and Pairwise that hold the estimate of the data, as in the paper's
tables; with weights from synthetic files all 12 do.

**Intervals.**  The paper finds those of the mean and of quantiles "through bootstrapping", and does not say how.  Ours:
records of a file are drawn again, with replacement, and each keeps its survey weight; the variance over these resamples
is the u of a file, and the combining rule for partially synthetic data does the rest, as it does for the coefficient:
T = mean(u) + b / L, with Reiter's degrees of freedom.  ``data`` and ``topcoding`` are one file each, whose interval is
the estimate and t quantiles of the bootstrap's standard error.  A quantile is the least value whose share of the weight
reaches the probability, as everywhere in this package.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...choices import Allocation, RiskSource
from ...datasets.consumer_units import INCOMES, consumer_units
from ...design.columns import codes, listing, numeric
from ...design.survey_design import SurveyDesign
from ...engines import get_engine
from ...errors import InputError
from ...estimation import regression
from ...estimation.combining import combine, interval
from ...estimation.regression import regressions
from ...models.base import Draws, Sampler, Synthesizer
from ...models.mixture.model import Mixture
from ...models.shared.transforms import AsinhTransform, Transform
from ...privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ...privacy.risks.identification import MarginalRisk
from ...privacy.tuning import weighted_fit
from ...privacy.units import Unit
from ...privacy.weight_maps import linear_map
from ...progress import bar
from ...release.identification import identification_risk, pairwise_weights
from ...synthesis.assemble import assemble, check_public, public_frame, roles_of, totals_of
from ...validation import as_list, check_keywords, check_seed, positive, rows, whole
from ..measures import overlap
from ..sample import seed_of

Floats = NDArray[np.float64]

KINDS = ("marginal", "pairwise")
ADJUSTMENTS = ((1.0, 0.0), (1.5, 0.0), (1.0, 0.1))  # c1, c2 (section 3.4)
RADII = (0.1, 0.2, 0.3)
PROBS = {"median": 0.5, "q90": 0.9}
STATISTICS = ("mean", *PROBS)
LINES = ("synthesizer", "c1", "c2", "radius")  # what a file was made by
RAISED, HIGH, LOW = 0.25, 0.5, 0.25  # of IR: sections 2.3.1, 3.3.1 of the paper
RESAMPLES = 500
CHAINS, WARMUP, DRAWS = 2, 500, 500
TOP_SHARE = 0.97  # of the records below the top code of the file that the package makes itself


class Made(NamedTuple):
    """What a file was made by; ``radius`` is that of the balls behind its privacy weights."""

    synthesizer: str
    c1: float = np.nan
    c2: float = np.nan
    radius: float = np.nan


DATA, TOPCODING, SYNTHESIZER = Made("data"), Made("topcoding"), Made("synthesizer")


# ---- utility


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


# ---- risk


def profile_of(by_file: Floats, before: Floats | None = None) -> dict[str, float]:
    """A row of the risk profile: how IR_i is spread over the records.

    Parameters
    ----------
    by_file : float array (L, n)
        Risks in every file; IR_i is their mean.
    before : float array (n,), optional
        Under the unweighted synthesizer, where records are looked for whose risk rose.

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
    """What an intruder and a user of the data see: L synthetic files, or the one file that is released."""

    made: Made
    designs: tuple[SurveyDesign, ...]
    values: tuple[Floats, ...]


@dataclass(frozen=True)
class Plan:
    """What is looked at on a file; arguments as of :func:`risk_efficient_study`."""

    known: tuple[str, ...]
    coefficient: str | None
    top_code: float | None
    radius: float
    radii: tuple[float, ...]
    floor: float
    datasets: int
    resamples: int
    weights_from: RiskSource

    def __post_init__(self) -> None:
        asked = MarginalRisk(self.known, self.radius, floor=self.floor, datasets=self.datasets)  # which checks them
        object.__setattr__(self, "known", asked.known)
        if whole(self.resamples, "resamples") < 2:
            raise InputError("resamples must be at least 2: they have a variance")
        if self.weights_from not in get_args(RiskSource):
            raise InputError(f"weights_from={self.weights_from!r} is not one of {', '.join(get_args(RiskSource))}")
        if self.top_code is not None:
            positive(self.top_code, "top_code")
        radii = {positive(radius, "radii") for radius in self.radii} | {positive(self.radius, "radius")}
        object.__setattr__(self, "radii", tuple(sorted(radii)))

    @property
    def weightings(self) -> list[Made]:
        """The fits under privacy weights, in the order of the results."""
        kinds = [Made(kind, c1, c2, self.radius) for kind in KINDS for c1, c2 in ADJUSTMENTS]
        others = [radius for radius in self.radii if radius != self.radius]
        return kinds + [Made(kind, *ADJUSTMENTS[0], radius) for kind in KINDS for radius in others]

    def looked_at(self, made: Made) -> tuple[float, ...]:
        """The radii at which the risk of files is measured: all of them where nothing but the radius is changed."""
        if made.synthesizer not in KINDS or made == Made(made.synthesizer, *ADJUSTMENTS[0], self.radius):
            return self.radii
        return (made.radius,)


@dataclass(frozen=True, repr=False)
class Bench:
    """One file and one model, to be fitted under privacy weights.

    Parameters
    ----------
    design : SurveyDesign
    model : Synthesizer
        Of one numeric outcome.
    plan : Plan
    sampler : Sampler
    """

    design: SurveyDesign
    model: Synthesizer
    plan: Plan
    sampler: Sampler

    @property
    def outcome(self) -> str:
        """The column that is synthesized."""
        return self.model.outcomes[0]

    @property
    def rng(self) -> np.random.Generator:
        """Where randomness comes from."""
        return self.sampler.rng

    @cached_property
    def values(self) -> Floats:
        """The confidential values (n,)."""
        return self.design.numeric(self.outcome)

    @cached_property
    def pseudo(self) -> PseudoLikelihood:
        """The model and the file, to be fitted under privacy weights."""
        return PseudoLikelihood(self.model, self.model.prepare(self.design), Unit(), self.sampler)

    @cached_property
    def unweighted(self) -> tuple[ProtectedFit, float, Files]:
        """The fit under alpha = 1, the seconds it took, and its files."""
        return self.synthesized(SYNTHESIZER, np.ones(self.design.n))

    def synthesized(self, made: Made, alpha: Floats) -> tuple[ProtectedFit, float, Files]:
        """A fit under privacy weights, the seconds it took, and its files."""
        begin = time.perf_counter()
        fitted, _ = weighted_fit(made.c1, alpha, self.pseudo)
        seconds = time.perf_counter() - begin
        return fitted, seconds, self.simulated(made, fitted.posterior)

    def simulated(self, made: Made, posterior: Draws) -> Files:
        """Synthetic files, a draw each, records in the order of the file."""
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
        """A file that is not synthetic: its values, everything else as it is."""
        design = SurveyDesign(self.design.frame.assign(**{self.outcome: values}), **self.design.roles())
        return Files(made, (design,), (values,))

    def risk(self, files: Files, radius: float) -> Floats:
        """IR_i in every file (eq. 8): (L, n)."""
        seen = self._seen(files, radius)
        return np.array([identification_risk(**seen | {"synthetic": one}) for one in seen["synthetic"]])

    def alpha(self, made: Made) -> Floats:
        """Privacy weights (n,) from the files of the unweighted fit, or from the file itself."""
        looked_at = self.unweighted[2] if self.plan.weights_from == "synthetic" else self.released(DATA, self.values)
        seen = self._seen(looked_at, made.radius)
        risk = identification_risk(**seen) if made.synthesizer == "marginal" else 1 - pairwise_weights(**seen)
        return linear_map(risk.to_numpy(), made.c1, made.c2, np.nan, (0.0, 1.0))

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
            table = regressions(files.designs, self.formula).table.set_index("term")
            lines.append({"statistic": "coefficient"} | table.loc[self.plan.coefficient, columns].to_dict())
        return lines

    @property
    def formula(self) -> str:
        """The outcome on the predictors of the model."""
        return f"{self.outcome} ~ {getattr(self.model, 'predictors', '1')}"

    def check(self) -> None:
        """Refuse what the study cannot look at, before any fit."""
        model, plan = self.model, self.plan
        if len(model.outcomes) != 1 or model.categorical:
            raise InputError("the study is about one numeric outcome; give a model that synthesizes one")
        check_public(self.design, model, None)
        absent = np.isnan(self.values)
        if absent.any():
            raise InputError(f"outcome {self.outcome!r} is missing in {rows(absent)}; leave these records out")
        for name in plan.known:
            self.design.column(name)
        if self.outcome in plan.known:
            raise InputError(f"known column {self.outcome!r} is synthesized: known= names what is public as it is")
        if plan.datasets > self.sampler.chains * self.sampler.draws:
            raise InputError("datasets exceeds the posterior draws (chains times draws): each file needs its own")
        if plan.coefficient is not None:
            terms = regression(self.design, self.formula).table["term"].tolist()
            if plan.coefficient not in terms:
                raise InputError(
                    f"coefficient {plan.coefficient!r} is no term of {self.formula!r}; it has {listing(terms)}"
                )


# ---- the study


@dataclass(frozen=True, eq=False, repr=False)
class RiskEfficientStudy:
    """Risk and utility of data made by one model under several privacy weights.

    Attributes
    ----------
    model : Synthesizer
    plan : Plan
    confidential : bool
        False where the package made the file itself.
    patterns : pandas.Series
        Number of patterns of the known columns, the fewest, median and most records of one, and how many have one
        record.
    profile : pandas.DataFrame
        ``synthesizer, c1, c2, radius`` (of the balls behind the privacy weights), ``at`` (radius at which risk is
        measured) and the columns of :func:`profile_of`; what "rose" under ``synthesizer`` did so by chance, in more
        files of the same fit.
    utility : pandas.DataFrame
        ``synthesizer, c1, c2, radius, statistic, estimate, se, df, ci_low, ci_high, overlap`` (with the interval of
        the data) and ``relative_difference`` (of the estimate to that of the data).
    fits : pandas.DataFrame
        ``synthesizer, c1, c2, radius, lipschitz, epsilon`` (2 Delta: of one file; asymptotic; NaN where the model has
        none, as under the paper's allocation), ``mean_alpha, weighted_down`` (share of records with alpha < 1),
        ``seconds, diagnostics`` (sampler diagnostics that would stop a release).
    records : pandas.DataFrame
        ``synthesizer, c1, c2, record, value, risk, alpha`` at the main radius; confidential as the file is.
    """

    model: Synthesizer
    plan: Plan
    confidential: bool
    patterns: pd.Series
    profile: pd.DataFrame
    utility: pd.DataFrame
    fits: pd.DataFrame
    records: pd.DataFrame

    @property
    def n(self) -> int:
        """Records of the file."""
        return int(self.records["record"].max())


def risk_efficient_study(
    design: SurveyDesign,
    model: Synthesizer,
    *,
    known: str | Sequence[str],
    coefficient: str | None = None,
    top_code: float | None = None,
    radius: float = 0.2,
    radii: Sequence[float] = RADII,
    floor: float = 0.0,
    datasets: int = 20,
    resamples: int = RESAMPLES,
    weights_from: RiskSource = "synthetic",
    chains: int = CHAINS,
    warmup: int = WARMUP,
    draws: int = DRAWS,
    seed: int | None = None,
) -> RiskEfficientStudy:
    """Identification risk and utility of one file's synthetic data, without and with privacy weights.

    Source: Hu, Savitsky & Williams 2022b, sections 2.3 and 3.3.

    Weights are marginal and pairwise, with (c1, c2) of (1, 0), (1.5, 0) and (1, 0.1).

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.  Its survey weights, and those of the synthetic files, are used in all estimates.
    model : Synthesizer
        Of one numeric outcome.
    known : str or list of str
        Columns that the intruder knows; ``[]`` for none.
    coefficient : str, optional
        Term of the linear regression of the outcome on the model's predictors that is looked at, such as
        ``"tenure[T.rented]"``.
    top_code : float, optional
        Public number at which top-coding cuts; without it there is no ``topcoding``.
    radius : float
        Of the balls, as a share of |y_i|.
    radii : list of float
        Others, at which risk is measured, too, and privacy weights are made anew.
    floor : float
        Least radius, in the unit of the outcome; without it the ball around 0 holds zeros alone.
    datasets : int
        L, synthetic files of each fit.
    resamples : int
        Of the bootstrap within a file.
    weights_from : {"synthetic", "data"}
        Whether the risks behind privacy weights are those of the synthetic files of the unweighted fit (section 2.1),
        or of the confidential file as if it were released, as in the paper's figures.
    chains, warmup, draws : int
        Of the sampler.
    seed : int, optional

    Returns
    -------
    RiskEfficientStudy
        Confidential, with record-level results.

    Raises
    ------
    InputError
        A model of several or of categorical outcomes; missing values; columns that are not there; a coefficient that
        is no term; numbers that are not positive; more data sets than draws.
    ModelError, EngineError
        As :func:`surveysynth.fit`.
    """
    check_seed(seed)
    for name, number in {"chains": chains, "warmup": warmup, "draws": draws}.items():
        whole(number, name)
    plan = Plan(
        tuple(as_list(known)), coefficient, top_code, radius, tuple(radii), floor, datasets, resamples, weights_from
    )
    engine = get_engine()
    sampler = Sampler(lambda: engine, np.random.default_rng(seed), chains, warmup, draws)
    bench = Bench(design, model, plan, sampler)
    bench.check()
    return _run(bench)


def consumer_units_study(
    n: int = 5571, *, allocation: Allocation = "prior", seed: int | None = None, **settings: Any
) -> RiskEfficientStudy:
    """:func:`risk_efficient_study` on a file that the package makes for itself: it describes no real people.

    Parameters
    ----------
    n : int
        Records of :func:`surveysynth.datasets.consumer_units`.
    allocation : {"prior", "posterior"}
        As of :class:`surveysynth.Mixture`: "posterior" is eq. 7 of the paper, which has no epsilon.
    seed : int, optional
        Of the file, and of the study.
    **settings
        Of :func:`risk_efficient_study`.

    Returns
    -------
    RiskEfficientStudy
    """
    check_keywords(consumer_units_study, settings, risk_efficient_study)
    frame = consumer_units(n, seed)
    given: dict[str, Any] = {
        "known": ["age_group", "urban", "marital"], "coefficient": "tenure[T.rented]", "floor": 100.0,
        "top_code": float(np.quantile(frame["income"], TOP_SHARE)),  # the file is artificial: its quantiles are public
    }  # fmt: skip
    predictors = "age_group + urban + tenure + education + marital"
    model = synthesizer(frame, "income", predictors, AsinhTransform(scale=30_000), INCOMES, allocation)
    own = None if seed is None else seed_of(seed, 1)  # not the stream that the file came from
    study = risk_efficient_study(as_design(frame), model, seed=own, **given | settings)
    return replace(study, confidential=False)


def synthesizer(
    frame: pd.DataFrame, outcome: str, predictors: str, transform: str | Transform = "log",
    bounds: tuple[float, float] | None = None, allocation: Allocation = "prior",
) -> Synthesizer:  # fmt: skip
    """The model of the study where none is given: the paper's mixture, with zeros of their own where there are any.

    Source: Hu, Savitsky & Williams 2022b, section 1.2.

    Raises
    ------
    InputError
        As of :class:`surveysynth.models.mixture.model.Mixture`; a column that is not there or not numeric.
    """
    if outcome not in frame.columns:
        raise InputError(f"there is no column {outcome!r}; the file has {listing(frame.columns)}")
    zeros = bool((numeric(frame[outcome], outcome) == 0).any())
    return Mixture(outcome, predictors, transform, zeros=zeros, bounds=bounds, allocation=allocation)


def as_design(frame: pd.DataFrame, weights: str | None = None) -> SurveyDesign:
    """A file as a design; without survey weights every record counts the same."""
    if weights is not None:
        return SurveyDesign(frame, weights=weights)
    free = next(name for i in range(len(frame.columns) + 1) if (name := f"weight_{i}") not in frame)
    return SurveyDesign(frame.assign(**{free: 1.0}), weights=free)


@dataclass
class Found:
    """What was found, one kind of file after the other.

    Parameters
    ----------
    bench : Bench

    Attributes
    ----------
    profile, utility, fits, records
        As of :class:`RiskEfficientStudy`.
    before : dict of radius to float array (n,)
        IR_i under the unweighted synthesizer.
    """

    bench: Bench
    profile: list[dict[str, Any]] = field(default_factory=list)
    utility: list[dict[str, Any]] = field(default_factory=list)
    fits: list[dict[str, Any]] = field(default_factory=list)
    records: list[pd.DataFrame] = field(default_factory=list)
    before: dict[float, Floats] = field(default_factory=dict)

    def release(self, made: Made, values: Floats) -> None:
        """A file that is not synthetic."""
        self._measure(self.bench.released(made, values), np.ones(values.size))

    def synthesize(self, made: Made) -> None:
        """A fit, and its files."""
        bench, alpha = self.bench, np.ones(self.bench.design.n)
        if made != SYNTHESIZER:
            alpha = bench.alpha(made)
        fitted, seconds, files = bench.unweighted if made == SYNTHESIZER else bench.synthesized(made, alpha)
        facts = facts_of(fitted, seconds)
        if bench.model.from_records:  # then there is none
            facts |= {"epsilon": np.nan}
        self.fits.append(made._asdict() | facts)
        self._measure(files, alpha)
        if made == SYNTHESIZER:
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
        """How many risks rise by chance, from some files of the unweighted fit to others."""
        for line in self.profile:
            if line["synthesizer"] == files.made.synthesizer:
                chance = profile_of(self.bench.risk(files, line["at"]), self.before[line["at"]])
                line |= {name: chance[name] for name in ("raised", "raised_max")}


def _run(bench: Bench) -> RiskEfficientStudy:
    """Fit, simulate and measure."""
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
    """What a fit spends, and what its weights are."""
    return {
        "lipschitz": fitted.delta, "epsilon": 2 * fitted.delta, "mean_alpha": float(fitted.alpha.mean()),
        "weighted_down": fitted.weighted_down, "seconds": seconds,
        "diagnostics": ", ".join(fitted.posterior.failures),
    }  # fmt: skip


def patterns_of(bench: Bench) -> pd.Series:
    """How many patterns the known columns make, and how many records these have."""
    known = bench.plan.known
    sizes = np.bincount(codes(*(bench.design.column(name) for name in known))) if known else np.array([bench.design.n])
    numbers = [sizes.size, sizes.min(), np.median(sizes), sizes.max(), (sizes == 1).sum()]
    return pd.Series(numbers, index=["patterns", "fewest", "median", "most", "alone"], dtype=float)


def beside_data(utility: pd.DataFrame) -> pd.DataFrame:
    """Every estimate with its interval's overlap with that of the data, and its relative difference to it."""
    own = utility[utility["synthesizer"] == "data"].set_index("statistic").loc[utility["statistic"]]
    estimate, low, high = (own[c].to_numpy() for c in ("estimate", "ci_low", "ci_high"))
    size = np.where(estimate != 0, np.abs(estimate), np.nan)
    return utility.assign(
        overlap=overlap(utility["ci_low"], utility["ci_high"], low, high),
        relative_difference=(utility["estimate"] - estimate) / size,
    )
