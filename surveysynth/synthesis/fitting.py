"""From a confidential design to synthetic data: fit, tune to an epsilon, release.

    f_i = max_s |log p_i|  under alpha = 1           (Hu, Savitsky & Williams 2022a, section 1.4.1 steps 1-2)
    alpha_i = map(f_i), refit, Delta = max_i max_s alpha_i |log p_i|     (steps 3-4)
    c1 tuned until Delta <= epsilon / (2 m); m draws make m data sets; epsilon = 2 Delta m  (step 5)

Under the censored mechanism (Hu, Williams & Savitsky 2025, section 3) every alpha_i log p_i is clamped to +-epsilon /
(2 m) in the fit itself.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError, Obstacles, breakdown_as_error
from ..measuring.outcome import Outcome
from ..models.base import Synthesizer
from ..models.draws import Draws, Sampler, Streams
from ..models.predictors.model_matrix import LOG_UNIT
from ..privacy.accounting.ledger import Ledger
from ..privacy.budget import Budget
from ..privacy.mechanisms import Assessment, Mechanism, RecordMechanism
from ..privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ..privacy.release_rule import IdentificationRule
from ..progress import stages, tell
from ..release.contents import check_m
from ..release.measurements import Measurements
from ..release.release import Release
from ..validation import check_keywords
from .fit import Fit
from .fit_request import NO_MECHANISM, NO_MODEL, SIZE_OF_UNITS, FitRequest, fit_request, given_once
from .measured import M, measured
from .policy import Policy
from .strict_request import NO_DESIGN, Totals, Weight, refuse_schema, strict_request, strictly
from .synthetic_design import public_mean_weight

Floats = NDArray[np.float64]

NEEDS = (
    "releases are strict unless mechanism= says otherwise: pure differential privacy at the file's own size, with "
    "intervals that carry what privacy costs. Give {}. Or say mechanism=PseudoPosterior(), whose guarantee is "
    "asymptotic and which weights rare records down"
)
INFORMATION = "The privacy weights keep {}% of the file's information (not for publication)."
OF_SAMPLER = "tolerance", "chains", "warmup", "draws", "seed"


def fit(
    design: SurveyDesign,
    synthesizer: Synthesizer | str | Sequence[Synthesizer | str] | None = None,
    *,
    epsilon: float | None = None,
    m: int | None = None,
    mechanism: Mechanism | None = None,
    policy: Policy | None = None,
    population_total: float | Mapping[Any, float] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    public: Sequence[str] | None = None,
    clusters: Clusters = "model",
    unit: str | None = None,
    reweight: int = 0,
    engine: str = "auto",
    tolerance: float = 0.01,
    chains: int = 4,
    warmup: int = 1000,
    draws: int = 1000,
    seed: int | None = None,
) -> Fit:
    """Fit a synthesizer under privacy weights tuned to an epsilon, without releasing anything.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    synthesizer : Synthesizer, str, or sequence of such
        For example ``FBS("salary ~ field + gender")``; of the formula alone FBS is made.  Several are models in
        sequence, each given the outcomes of those before it: :class:`surveysynth.Sequential`.
    epsilon : float
        Privacy budget of a release of m data sets, for one record added or removed, or, under ``Censored``,
        for one record's confidential values taken out; never exceeded.  Not needed where the mechanism
        fixes c1.
    m : int
        Number of synthetic data sets; default 3.
    mechanism : PseudoPosterior, WeightedE or Censored
        How records are protected; a policy says its own.  The guarantee of ``Censored`` is strict, those of the others
        are asymptotic.
    policy : Policy, optional
        Everything that a historical file set: the model, epsilon, m and the privacy weights of ``Censored``.
        Nothing of this file sets them, and none of them is given here.
    population_total : float or mapping of stratum to float, optional
        Public number of population units that the synthetic weights add up to, in all or in
        each stratum (such totals then have no standard error); the default is the sum of the
        survey weights, which is computed from the file and not covered by epsilon: the report says so.
    levels : mapping of outcome to list of levels, optional
        All levels that an outcome that is a category can have, ``{"job": ["none", "part time", "full time"]}``: they
        are published, so they are declared, and not taken from the file.  A categorical column declares its own, and
        True and False are declared.
    public : list of str, optional
        The columns that you declare public, by name.  Given, it must hold every column of the
        public files that is not synthesized; without it the formula and the design name them.
    clusters : {"model", "ignore"}
        PSUs, and strata that the predictors do not determine, get normal effects in the model, so
        that synthetic files have the survey's standard errors; "ignore" draws records
        independently given the predictors, and the report says so.
    unit : str, optional
        Column of the units that epsilon protects, where these are groups of records: households,
        or PSUs.  Their records' log densities add up.  Default: single records.
    reweight : int
        Steps of re-weighting (Hu, Savitsky & Williams 2020, Algorithm 1): the privacy weights of records whose bounds
        lie below the overall one
        are raised, at the same epsilon.  True is one step, as in that paper; ``reweight=10`` goes on while
        weights rise, for 10 steps at most.  Nothing is then corrected: no ``debias``, nor the spread between PSUs
        or shares.
    engine : {"auto", "embedded", "cmdstan"}
    tolerance : float
        How far below epsilon the result may stay, as a share of it.
    chains, warmup, draws : int
        Sampler settings; warm-up and draws are of each chain.
    seed : int, optional
        For tests only: a seeded run is marked "reproducible, not for publication".

    Returns
    -------
    Fit
        Confidential; :meth:`Fit.release` makes releases of it.

    Raises
    ------
    InputError, ModelError
        The file or the arguments do not suit the model; an outcome that is a category has no declared levels, or a
        value that is none of them.
    PrivacyError
        The epsilon cannot be reached.
    EngineError
        The engine is missing or stopped.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> model = ss.FBS("salary ~ field + gender", prior="flat")
    >>> fit = ss.fit(design, model, epsilon=10.8, m=3, mechanism=ss.PseudoPosterior())
    >>> fit.kind
    'asymptotic'
    >>> fit.release()
    Release: m = 3 synthetic data sets of 1,000 records by FBS, outcomes salary, epsilon = 10.8 (asymptotic)
    """
    asked, _ = fit_request(
        design, synthesizer, epsilon=epsilon, m=m, mechanism=mechanism, policy=policy,
        population_total=population_total, levels=levels, public=public, clusters=clusters, unit=unit,
        reweight=reweight, engine=engine, tolerance=tolerance, chains=chains, warmup=warmup, draws=draws, seed=seed,
    )  # fmt: skip
    return fitted(asked, clusters=clusters, tolerance=tolerance, chains=chains, warmup=warmup, draws=draws, seed=seed)


def fitted(
    asked: FitRequest, *, clusters: Clusters = "model", tolerance: float = 0.01, chains: int = 4, warmup: int = 1000,
    draws: int = 1000, seed: int | None = None,
) -> Fit:  # fmt: skip
    """The fit that is asked for, as :func:`fit` makes it."""
    for note in asked.warnings:
        warnings.warn(note, stacklevel=3)
    design, model, policy, mechanism = asked.design, asked.synthesizer, asked.policy, asked.mechanism
    mean_weight = public_mean_weight(design, asked.population_total) if mechanism.clamps else None
    streams = Streams.from_seed(seed)
    sampler = Sampler(lambda: asked.engine, streams.draws, chains, warmup, draws)
    with breakdown_as_error(), stages() as say:
        say("reading the file")
        constants = None if policy is None else policy.constants
        try:
            records = model.prepare(design, clusters, mean_weight, constants, asked.unit.by_record)
        except (InputError, ModelError) as error:
            wrong = Obstacles()
            wrong.note(error)
            model.note_obstacles(design, clusters, wrong)
            wrong.refuse()
            raise
        notes = asked.notes + ([SIZE_OF_UNITS] if LOG_UNIT in records.columns else [])
        pseudo = PseudoLikelihood(model, records, asked.unit, sampler)
        protect = partial(protected_by, design, mechanism, policy, asked.budget, tolerance, asked.reweight)
        weighted = protect(pseudo, np.ones(asked.unit.count(design.n)), say)
    return Fit(
        design, asked.rows, model, mechanism, policy, records, asked.unit, weighted, asked.budget,
        asked.population_total, notes, sampler, streams, protect, seed is not None, coded=asked.coded,
    )  # fmt: skip


def protected_by(
    design: SurveyDesign, mechanism: RecordMechanism, policy: Policy | None, budget: Budget, tolerance: float,
    reweight: int, pseudo: PseudoLikelihood, present: Floats, say: Callable[[str], None],
) -> ProtectedFit:  # fmt: skip
    """What the mechanism makes of the file; ``present`` (U,) is 1, or 0 for what is left out."""

    def risks(unweighted: Callable[[], Draws]) -> Floats:
        if policy is not None:
            return policy.risk(design, pseudo.records)
        return mechanism.risks(design, pseudo, unweighted)

    assessment = Assessment(risks, None if policy is None else policy.span, present)
    return mechanism.fit(pseudo, budget, assessment, tolerance=tolerance, reweight=reweight, say=say)


def synthesize(
    design: SurveyDesign,
    synthesizer: Synthesizer | str | Sequence[Synthesizer | str] | None = None,
    *,
    epsilon: float | None = None,
    m: int | None = None,
    debias: bool = False,
    accept_diagnostics: Sequence[str] = (),
    ledger: Ledger | None = None,
    rule: IdentificationRule | None = None,
    edits: Sequence[str] | str | None = None,
    outcomes: Mapping[str, Outcome] | None = None,
    population_totals: Totals | None = None,
    weight: Weight | None = None,
    weight_bounds: tuple[float, float] | None = None,
    importance: Mapping[str, float] | None = None,
    earlier: Measurements | Release | None = None,
    bounds: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
    scheduler: str | None = None,
    **settings: Any,
) -> Release:
    """Release m weighted synthetic data sets, in one call.

    Unless ``mechanism=`` says otherwise the release is strict: an outcome, or several by a list of formulas, and the
    weight are measured as by :func:`measure`, and data sets are drawn from the noisy tables.  Records are fitted under
    the other mechanisms.

    Under privacy weights it prints on stderr how much of the file's information they keep: for the agency, not for
    publication.

    Parameters
    ----------
    design, synthesizer, epsilon, **settings
        As for :func:`measure`, or :func:`fit`.
    m : int, optional
        Number of data sets: default 20 of those that are drawn from noisy tables, which cost no epsilon; else as for
        :func:`fit`.
    debias, accept_diagnostics, ledger, rule, edits
        As for :meth:`Fit.release`.
    outcomes, population_totals, weight, weight_bounds, importance, earlier, bounds, scheduler
        As for :func:`measure`; refused where records are fitted.

    Returns
    -------
    Release
        Not written yet: :meth:`Release.write` does that.

    Raises
    ------
    InputError, ModelError, PrivacyError, EngineError
        As :func:`fit` and :meth:`Fit.release`; a rule that does not suit the file is refused before the fit.
    NotFitForRelease
        The sampler's diagnostics failed, or privacy weights keep less than 30% of the file's information.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> model = ss.FBS("salary ~ field + gender", prior="flat")
    >>> release = ss.synthesize(design, model, epsilon=10.8, m=3, mechanism=ss.PseudoPosterior())
    >>> release
    Release: m = 3 synthetic data sets of 1,000 records by FBS, outcomes salary, epsilon = 10.8 (asymptotic)
    >>> release.tables(by="gender", statistic="mean").columns.tolist()
    ['gender', 'statistic', 'outcome', 'estimate', 'se', 'df', 'ci_low', 'ci_high', 'n', 'flag']
    """
    check_keywords(synthesize, settings, fit)
    mechanism, policy = settings.get("mechanism"), settings.get("policy")
    schema = {
        "outcomes": outcomes, "population_totals": population_totals, "weight": weight, "weight_bounds": weight_bounds,
        "importance": importance, "earlier": earlier, "bounds": bounds, "scheduler": scheduler,
    }  # fmt: skip
    of_release: dict[str, Any] = {"debias": debias, "accept_diagnostics": accept_diagnostics, "rule": rule}
    if not isinstance(mechanism, Mechanism | None):
        raise InputError(NO_MECHANISM)
    if policy is None and (mechanism is None or not mechanism.fits_records):
        given = settings | schema | of_release | {"edits": edits}
        return _from_noisy_tables(design, synthesizer, given_once(epsilon, mechanism), m, ledger, given)
    refuse_schema(schema)
    of_release |= {"edits": edits, "ledger": ledger}
    asked, asked_of_release = fit_request(design, synthesizer, epsilon=epsilon, m=m, **settings, release=of_release)
    sampling = {name: settings[name] for name in ("clusters", *OF_SAMPLER) if name in settings}
    done = fitted(asked, **sampling)
    if done.information is not None:
        tell(INFORMATION.format(math.floor(100 * done.information)))
    return done.drawn(asked_of_release)


def _from_noisy_tables(
    design: SurveyDesign, formula: Any, epsilon: float | None, m: int | None, ledger: Ledger | None,
    given: Mapping[str, Any],
) -> Release:  # fmt: skip
    """A strict release: m data sets from noisy tables."""
    if not isinstance(design, SurveyDesign):
        raise InputError(NO_DESIGN)
    if formula is None or (isinstance(formula, str) and "~" not in formula):
        raise InputError(NO_MODEL)
    wrong = Obstacles()
    asked = wrong.check(strictly, formula, given)
    m = M if m is None else wrong.check(check_m, m)
    if asked is None:
        wrong.refuse()
    assert asked is not None
    scheduler = asked.settings.pop("scheduler", None)
    request = wrong.check(
        strict_request, design, asked.model, epsilon=epsilon, ledger=ledger, needs=NEEDS, **asked.settings
    )
    wrong.refuse()
    assert request is not None and epsilon is not None and m is not None
    seed = asked.settings.get("seed")
    with stages() as say:
        say("counting the file")
        measurements = measured(request, epsilon, scheduler=scheduler, ledger=ledger, seed=seed)
        say("drawing data sets")
        return measurements.release(m, seed=seed)
