"""Synthetic data from a confidential design: fit a model, tune its privacy weights to an epsilon, release data sets.

Record i has the density p_i at posterior draw s, the risk f_i and the privacy weight alpha_i.  Delta is the overall
Lipschitz bound, and c1 the scale of the map from risks to privacy weights.

    f_i = max_s |log p_i|, from a fit with all alpha_i = 1    (Hu, Savitsky & Williams 2022a, section 1.4.1, steps 1-2)
    alpha_i = map(f_i), a fit with these privacy weights, Delta = max_i max_s alpha_i |log p_i|             (steps 3-4)
    c1 is tuned until Delta <= epsilon / (2 m); m draws make m data sets; epsilon = 2 Delta m               (step 5)

Under the censored mechanism (Hu, Williams & Savitsky 2025, section 3) every alpha_i log p_i is clamped (moved to the
nearest bound of) -epsilon / (2 m) to epsilon / (2 m) in the fit itself.  Releases from noisy tables fit no model to
records: :func:`surveysynth.measure` counts records and adds noise to the counts.
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
from ..privacy.mechanisms import Assessment, Mechanism, RecordMechanism, check_listed
from ..privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ..progress import stages, tell
from ..release.contents import check_m
from ..release.measurements import Measurements
from ..release.release import Release
from ..validation import check_keywords
from .declarations import NO_DESIGN, Bounds, Totals, Weight
from .fit import Fit
from .fit_request import NO_MECHANISM, NO_MODEL, SIZE_OF_UNITS, FitRequest, fit_request, given_once
from .measured import M, measure, measured
from .policy import Policy
from .strict_arguments import SCHEMA_ENTRIES, refuse_schema, strict_arguments
from .strict_request import strict_request
from .synthetic_design import public_mean_weight

Floats = NDArray[np.float64]

NEEDS = (
    "releases are strict unless mechanism= says otherwise: pure differential privacy at the file's own size, with "
    "intervals that include the noise. Give {}. Or use mechanism=PseudoPosterior(), whose guarantee is "
    "asymptotic and which weights rare records down"
)
READING, COUNTING, DRAWING = "reading the file", "counting the file", "drawing data sets"  # stages
INFORMATION = "The privacy weights keep {}% of the file's information (not for publication)."
SAMPLER_ARGUMENTS = "clusters", "tolerance", "chains", "warmup", "draws", "seed"
RELEASE_ARGUMENTS = "debias", "accept_diagnostics", "ledger", "rule", "edits"


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
    """Fit a synthesizer to confidential records under a mechanism, without releasing anything.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    synthesizer : Synthesizer, str, or sequence of such
        For example ``FBS("salary ~ field + gender")``; a formula alone stands for FBS.  Several models are fitted in
        sequence, and each model may use the outcomes of the models before it: :class:`surveysynth.Sequential`.
    epsilon : float
        Privacy budget of a release of m data sets, which is never exceeded.  Epsilon compares the file with a file
        that has one record more or less or, under ``Censored``, with a file in which one record's confidential values
        are blanked.  Epsilon is not needed for ``PseudoPosterior(c1=...)``.
    m : int
        Number of synthetic data sets; default 3.
    mechanism : PseudoPosterior, WeightedE or Censored
        How records are protected.  A policy has its own mechanism.  The guarantee of ``Censored(weighted=False)``, and
        of a policy, is strict; that of ``Censored(weighted=True)`` is strict given the privacy weights; the guarantees
        of ``PseudoPosterior`` and ``WeightedE`` are asymptotic.
    policy : Policy, optional
        Model, epsilon, m and the rule for privacy weights of ``Censored``, all set on a historical file, so that they
        do not depend on this file.  What the policy sets must not be given as an argument as well.
    population_total : float or mapping of stratum to float, optional
        Public number of population units to which the synthetic weights add up, as one number or for
        each stratum (these totals then have no standard error).  The default is the sum of the
        survey weights, which is computed from the file and not covered by epsilon, as the report says.
    levels : mapping of outcome to list of levels, optional
        All levels of a categorical outcome, ``{"job": ["none", "part time", "full time"]}``.  Levels are published, so
        they are declared, and not taken from the file.  Columns of a categorical type and columns of True and False
        declare their levels by their type.
    public : list of str, optional
        Names of the columns that you declare public.  Every column of the public files that is not synthesized must be
        among them.  Without this list, formula and design determine the public columns.
    clusters : {"model", "ignore"}
        With "model", PSUs, and strata that the predictors do not determine, get normal effects in the model, so
        that synthetic files have the survey's standard errors.  With "ignore", records are drawn
        independently given the predictors, as the report says.
    unit : str, optional
        Column of the units that epsilon protects, if these are groups of records: households,
        or PSUs.  The log densities of the records of a unit add up.  By default, single records are protected.
    reweight : int
        Largest number of steps of re-weighting (Hu, Savitsky & Williams 2020, Algorithm 1), which raises the privacy
        weights of records whose Lipschitz bounds max_s alpha_i |log p_i| lie below the overall bound Delta, at the same
        epsilon.  True is one step, as in the paper.  ``reweight=10`` continues as long as weights rise, for at most 10
        steps.  Draws of a re-weighted fit are never corrected for privacy weights, because the corrections need weights
        that are a known function of the risk: ``debias`` is refused, and the model's own corrections (of the spread
        between PSUs and of shares) are left out.
    engine : {"auto", "embedded", "cmdstan"}
        Software that runs the model's Stan program.
    tolerance : float
        The epsilon that the fit reaches may be lower than the requested epsilon by at most this share of it.
    chains, warmup, draws : int
        Sampler settings: the number of chains, and the numbers of warm-up draws and draws of each chain.
    seed : int, optional
        Seed for tests only.  A seeded run is marked "reproducible, not for publication".

    Returns
    -------
    Fit
        The confidential fit, from which :meth:`Fit.release` makes releases.

    Raises
    ------
    InputError, ModelError
        The file or the arguments do not suit the model.  A categorical outcome has no declared levels, or has values
        that were not declared.
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
    """Fit the model, with arguments of :func:`fit` that were checked."""
    for note in asked.warnings:
        warnings.warn(note, stacklevel=3)
    design, model, policy, mechanism = asked.design, asked.synthesizer, asked.policy, asked.mechanism
    mean_weight = public_mean_weight(design, asked.population_total) if mechanism.clamps else None
    streams = Streams.from_seed(seed)
    sampler = Sampler(lambda: asked.engine, streams.draws, chains, warmup, draws)
    with breakdown_as_error(), stages(READING, *mechanism.stages(asked.reweight)) as say:
        say(READING)
        constants = None if policy is None else policy.constants
        try:
            records = model.prepare(design, clusters, mean_weight, constants, asked.unit.by_record)
        except (InputError, ModelError) as error:
            wrong = Obstacles([error])
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
    """Fit a model under a mechanism, with privacy weights from a policy if there is one.

    ``pseudo`` has the model and its records.  ``present`` (U,) is 0 for each of the U protected units (single records,
    or groups of records) that is left out of the fit, and otherwise 1.  ``say`` is called with the name of each stage
    of the computation, which is shown to the user.
    """

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
    mechanism: Mechanism | None = None,
    population_total: float | Mapping[Any, float] | None = None,
    population_totals: Totals | None = None,
    bounds: Bounds | None = None,
    outcomes: Mapping[str, Outcome] | None = None,
    weight: Weight | None = None,
    unit: str | None = None,
    clusters: Clusters = "model",
    public: Sequence[str] | None = None,
    edits: Sequence[str] | str | None = None,
    earlier: Measurements | Release | None = None,
    m: int | None = None,
    ledger: Ledger | None = None,
    **settings: Any,
) -> Release:
    """Release m weighted synthetic data sets in one call.

    Without ``mechanism=`` the release is strict: outcomes and weight are counted, noise is added to the counts (see
    :func:`measure`), and the data sets are drawn from the noisy tables.  Under other mechanisms than ``Strict()`` a
    model is fitted to the records (see :func:`fit`).

    If privacy weights are used, the function prints on stderr the share of the file's information that the weights
    keep.  This number is for the agency, not for publication.

    Parameters
    ----------
    design, population_total, public, unit, clusters
        See :func:`measure` and :func:`fit`.
    synthesizer : str, FBS or FBP, list of str, or Synthesizer
        Formula or formulas, as for :func:`measure`; or a model of records, as for :func:`fit`.
    epsilon : float
        Privacy budget of the whole release.
    mechanism : Strict, PseudoPosterior, WeightedE or Censored, optional
        How records are protected: by default ``Strict()``.
    population_totals, bounds, outcomes, weight, earlier
        See :func:`measure`.  These arguments are refused if a model is fitted to records, which does not use them.
    edits : list of str, optional
        Public rules that every synthetic record obeys: ``"rent <= income"``.
    m : int, optional
        Number of data sets.  The default is 20 from noisy tables, where more data sets cost no epsilon, and 3 from a
        fit to records.
    ledger : Ledger, optional
        Ledger in which epsilon is entered before the release is returned.
    **settings
        Rarer settings: ``weight_bounds``, ``importance`` and ``scheduler`` of :func:`measure`; ``policy``, ``levels``,
        ``reweight``, ``engine``, ``tolerance``, ``chains``, ``warmup`` and ``draws`` of :func:`fit`;
        ``debias``, ``accept_diagnostics`` and ``rule`` of :meth:`Fit.release`; and ``seed``.

    Returns
    -------
    Release
        The release in memory.  :meth:`Release.write` writes it.

    Raises
    ------
    InputError, ModelError, PrivacyError, EngineError
        See :func:`measure`, or :func:`fit` and :meth:`Fit.release`.  Arguments of the release are checked before the
        fit.
    NotFitForRelease
        The sampler's diagnostics failed, or privacy weights keep less than 30% of the file's information, and the
        agency did not accept this by name.

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
    check_keywords(synthesize, settings, measure, fit, Fit.release, without=["formula", "delta"])
    given = {
        "epsilon": epsilon, "mechanism": mechanism, "population_total": population_total,
        "population_totals": population_totals, "bounds": bounds, "outcomes": outcomes, "weight": weight, "unit": unit,
        "clusters": clusters, "public": public, "edits": edits, "earlier": earlier, "m": m, "ledger": ledger,
    }  # fmt: skip
    return prepared(design, synthesizer, **given, **settings)()


def prepared(design: SurveyDesign, synthesizer: Any, **given: Any) -> Callable[[], Release]:
    """Check the arguments of :func:`synthesize`, and return a function that makes the release.

    Parameters
    ----------
    design, synthesizer, **given
        See :func:`synthesize`.

    Raises
    ------
    InputError, ModelError, PrivacyError
        See :func:`synthesize`.  One error lists everything that is wrong.
    """
    mechanism = given.get("mechanism")
    if not isinstance(mechanism, Mechanism | None):
        raise InputError(NO_MECHANISM)
    if given.get("policy") is None and (mechanism is None or not mechanism.fits_records):
        if mechanism is not None:
            check_listed(mechanism)
        return _from_noisy_tables(design, synthesizer, given)
    return _from_records(design, synthesizer, given)


def _from_records(design: SurveyDesign, synthesizer: Any, given: dict[str, Any]) -> Callable[[], Release]:
    """Check the arguments, and return a function that fits a model to the records and makes a release of the fit."""
    refuse_schema(given)
    release = {name: given[name] for name in RELEASE_ARGUMENTS if name in given}
    settings = {name: value for name, value in given.items() if name not in (*RELEASE_ARGUMENTS, *SCHEMA_ENTRIES)}
    asked, release_asked = fit_request(design, synthesizer, **settings, release=release)
    sampling = {name: settings[name] for name in SAMPLER_ARGUMENTS if name in settings}

    def made() -> Release:
        done = fitted(asked, **sampling)
        if done.information is not None:
            tell(INFORMATION.format(math.floor(100 * done.information)))
        return done.drawn(release_asked)

    return made


def _from_noisy_tables(design: SurveyDesign, formula: Any, given: Mapping[str, Any]) -> Callable[[], Release]:
    """Check the arguments, and return a function that makes noisy tables and releases m data sets from them."""
    if not isinstance(design, SurveyDesign):
        raise InputError(NO_DESIGN)
    if formula is None or (isinstance(formula, str) and "~" not in formula):
        raise InputError(NO_MODEL)
    rest = {name: value for name, value in given.items() if name not in ("epsilon", "m", "ledger", "scheduler")}
    ledger, scheduler = given.get("ledger"), given.get("scheduler")
    wrong = Obstacles()
    epsilon = wrong.check(given_once, given.get("epsilon"), given.get("mechanism"))
    m = M if given.get("m") is None else wrong.check(check_m, given["m"])
    asked = wrong.check(strict_arguments, formula, rest)
    if asked is None:  # the other checks need the outcomes in these arguments
        wrong.refuse()
    assert asked is not None
    request = wrong.check(
        strict_request, design, asked.model, epsilon=epsilon, ledger=ledger, needs=NEEDS, **asked.settings
    )
    wrong.refuse()

    seed = asked.settings.get("seed")

    def made() -> Release:
        assert request is not None and epsilon is not None and m is not None
        with stages(COUNTING, DRAWING) as say:
            say(COUNTING)
            measurements = measured(request, epsilon, scheduler=scheduler, ledger=ledger, seed=seed)
            say(DRAWING)
            return measurements.release(m, seed=seed)

    return made
