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
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..engines import get_engine
from ..errors import InputError, told_if_it_breaks_down
from ..estimation.tables import OWN
from ..measuring.outcome import Outcome
from ..models.base import Synthesizer
from ..models.draws import Draws, Sampler, Streams
from ..models.normal.fbs import FBS
from ..models.predictors.model_matrix import LOG_UNIT
from ..models.sequential import Sequential
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..privacy.budget import Budget
from ..privacy.mechanisms import Assessment, Censored, Mechanism, RecordMechanism, check_listed
from ..privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ..privacy.release_rule import IdentificationRule
from ..privacy.units import Unit, unit_of
from ..progress import stages, tell
from ..release.contents import check_m
from ..release.measurements import Measurements
from ..release.release import Release
from ..validation import check_keywords, check_seed, one_of, positive
from .all_columns import written_out
from .draws import check_chains
from .edits import check_rules
from .fit import Fit, check_accepted, check_debias, check_rule, check_steps
from .levels import declared, number_codes
from .measured import (
    NO_DESIGN,
    M,
    Strictly,
    Totals,
    Weight,
    how_to_declare_all,
    in_sequence,
    measure,
    refuse_schema,
    strictly,
)
from .missing import said_of_missing, without_missing
from .policy import Policy
from .synthetic_design import check_public, check_total, public_columns, public_mean_weight, said_of_ignored

Floats = NDArray[np.float64]

UNITS_PUBLIC = (
    "how many records the units have that epsilon protects, and where, is public as their predictors are: epsilon is "
    "about what is synthesized of them"
)
SIZE_OF_UNITS = "the logarithm of the number of records of a unit is among the predictors"
UNEVEN = (
    "the units that epsilon protects have different numbers of records, and are too few to make their privacy weights "
    "the same at every size: large ones count less, and means that go with their size can be off"
)
NEEDS = (
    "releases are strict unless mechanism= says otherwise: pure differential privacy at the file's own size, with "
    "intervals that carry what privacy costs. Give {}. Or say mechanism=PseudoPosterior(), whose guarantee is "
    "asymptotic and which weights rare records down"
)
M_OF_RECORDS = 3  # data sets, each of which spends a part of epsilon
NO_RECORDS = (
    "records are fitted under mechanism=PseudoPosterior(), WeightedE() or Censored(). Strict() counts them: it is the "
    "default of synthesize() and measure()"
)
NO_MECHANISM = "mechanism must be a surveysynth.PseudoPosterior(...), WeightedE(...), Censored(...) or Strict(...)"
NO_MODEL = "the second argument is a model, or its formula: surveysynth.FBS('salary ~ field + gender')"
INFORMATION = "The privacy weights keep {}% of the file's information (not for publication)."
INDEPENDENT = (
    "the records of a unit that epsilon protects are drawn independently given the predictors: the design has no PSUs, "
    "so that standard errors do not carry what members of a unit have in common"
)


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
    if policy is not None:
        given = {"a synthesizer": synthesizer, "epsilon=": epsilon, "m=": m, "mechanism=": mechanism}
        synthesizer, m, mechanism = _of_policy(_policy(policy), given)
    synthesizer, mechanism = check_kinds(design, synthesizer, mechanism)
    budget = _budget(epsilon, m, synthesizer, mechanism)
    if positive(tolerance, "tolerance") >= 1:
        raise InputError("tolerance must be below 1")
    check_chains(chains, warmup, draws)
    check_seed(seed)
    reweight = check_steps(reweight, mechanism)
    check_public(design, synthesizer, public)
    _check_names(synthesizer, unit)
    mechanism.check_model(synthesizer, unit)
    coded = number_codes(design, levels)
    design, of_file, notes = to_synthesize(declared(design, synthesizer, levels))
    for note in notes:
        warnings.warn(note, stacklevel=2)
    population_total = check_total(population_total, design)
    one_of(clusters, get_args(Clusters), "clusters")

    file = design
    design, rows, absent = without_missing(file, synthesizer)
    rows = of_file[rows]
    if absent.any():
        check_total(population_total, design)  # by stratum: one may have nobody left
    protected = unit_of(design, unit)
    mechanism.check_units(protected)
    notes += said_of_missing(file, absent)
    notes += said_of_ignored(design, synthesizer) if clusters == "ignore" else []
    notes += _said_of_units(design, protected)

    mean_weight = public_mean_weight(design, population_total) if mechanism.clamps else None
    streams = Streams.from_seed(seed)
    chosen_engine = get_engine(engine)
    sampler = Sampler(lambda: chosen_engine, streams.draws, chains, warmup, draws)
    with told_if_it_breaks_down(), stages() as say:
        say("reading the file")
        constants = None if policy is None else policy.constants
        records = synthesizer.prepare(design, clusters, mean_weight, constants, protected.of_record)
        notes += [SIZE_OF_UNITS] if LOG_UNIT in records.columns else []
        pseudo = PseudoLikelihood(synthesizer, records, protected, sampler)
        protect = partial(protected_by, design, mechanism, policy, budget, tolerance, reweight)
        weighted = protect(pseudo, np.ones(protected.count(design.n)), say)
    return Fit(
        design, rows, synthesizer, mechanism, policy, records, protected, weighted, budget,
        population_total, notes, sampler, streams, protect, seed is not None, coded=coded,
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


def _of_policy(policy: Policy, given: Mapping[str, Any]) -> tuple[Synthesizer, int, Censored]:
    """What a policy sets, if nothing of it was given beside it; its mechanism holds the epsilon."""
    twice = [name for name, value in given.items() if value is not None]
    if twice:
        raise InputError(f"{', '.join(twice)}: the policy sets this; leave it out, or make another policy")
    return policy.synthesizer, policy.m, policy.mechanism


def _policy(policy: object) -> Policy:
    """Refuse what is no policy."""
    if not isinstance(policy, Policy):
        raise InputError("policy must be a surveysynth.Policy: Policy.from_historical(...) or Policy.load(...)")
    return policy


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
    if not isinstance(mechanism, Mechanism | None):
        raise InputError(NO_MECHANISM)
    if policy is None and (mechanism is None or not mechanism.fits_records):
        of_records = {"debias": debias, "accept_diagnostics": accept_diagnostics, "rule": rule}
        given = settings | schema | of_records | {"edits": edits}
        return _measured(design, synthesizer, _once(epsilon, mechanism), m, ledger, given)
    refuse_schema(schema)
    check_accepted(accept_diagnostics)
    chosen = (synthesizer, mechanism) if policy is None else (_policy(policy).synthesizer, policy.mechanism)
    model, mechanism = check_kinds(design, *chosen)
    mechanism.check_accepted(accept_diagnostics)
    if rule is not None:
        kept = to_synthesize(declared(design, model, settings.get("levels")))[0]
        check_rule(rule, without_missing(kept, model)[0], model, mechanism)
    check_rules(edits, [*public_columns(design, model), *model.outcomes])
    one_of(debias, (False, True), "debias")
    if debias:
        check_debias(model, mechanism, bool(settings.get("reweight")))
    asked = mechanism.epsilon if epsilon is None else epsilon
    check_ledger(ledger)
    if ledger is not None and asked is not None:
        ledger.check(asked)
    done = fit(design, synthesizer, epsilon=epsilon, m=m, **settings)
    if done.information is not None:
        tell(INFORMATION.format(math.floor(100 * done.information)))
    return done.release(debias=debias, accept_diagnostics=accept_diagnostics, ledger=ledger, rule=rule, edits=edits)


def _measured(
    design: SurveyDesign, formula: Any, epsilon: float | None, m: int | None, ledger: Ledger | None,
    given: Mapping[str, Any],
) -> Release:  # fmt: skip
    """A strict release: m data sets from noisy tables."""
    if not isinstance(design, SurveyDesign):
        raise InputError(NO_DESIGN)
    if formula is None or (isinstance(formula, str) and "~" not in formula):
        raise InputError(NO_MODEL)
    delta = getattr(given.get("mechanism"), "delta", None)
    formula = written_out(design, formula, given.get("public"), epsilon, delta, given["outcomes"])
    asked = strictly(formula, given)
    _check_strict(design, asked, epsilon)
    m = M if m is None else check_m(m)
    assert epsilon is not None  # as was checked
    with stages() as say:
        say("counting the file")
        measured = measure(design, asked.model, epsilon=epsilon, ledger=ledger, **asked.settings)
        say("drawing data sets")
        return measured.release(m, seed=asked.settings.get("seed"))


def _once(epsilon: float | None, mechanism: Mechanism | None) -> float | None:
    """The epsilon of a release (InputError: it is given twice)."""
    of_mechanism = None if mechanism is None else mechanism.epsilon
    if epsilon is not None and of_mechanism is not None:
        raise InputError("epsilon is given twice: to synthesize and to the mechanism; give it once")
    return of_mechanism if epsilon is None else epsilon


def check_kinds(
    design: SurveyDesign, synthesizer: Synthesizer | str | Sequence[Synthesizer | str] | None,
    mechanism: Mechanism | None,
) -> tuple[Synthesizer, RecordMechanism]:  # fmt: skip
    """The model and the mechanism, where they fit records (InputError: what is none, and what counts them)."""
    if not isinstance(design, SurveyDesign):
        raise InputError(NO_DESIGN)
    if not isinstance(mechanism, RecordMechanism):
        raise InputError(NO_RECORDS if isinstance(mechanism, Mechanism | None) else NO_MECHANISM)
    check_listed(mechanism)
    if isinstance(synthesizer, str) and "~" in synthesizer:
        synthesizer = FBS(synthesizer)
    if isinstance(synthesizer, Sequence) and not isinstance(synthesizer, str):
        synthesizer = Sequential([FBS(one) if isinstance(one, str) else one for one in synthesizer])
    if not isinstance(synthesizer, Synthesizer):
        raise InputError(NO_MODEL)
    return synthesizer, mechanism


def _check_strict(design: SurveyDesign, asked: Strictly, epsilon: float | None) -> None:
    """Refuse to begin without what a strict release needs, and say all of it at once (InputError)."""
    given, (model, _) = asked.settings, in_sequence(asked.model)
    lacking = []
    if epsilon is None:
        lacking.append("epsilon=, for the whole release")
    if not {"population_total", "population_totals"} & {*given} and given.get("weight") != "public":
        lacking.append("population_total=, the public number of population units, which weights are scaled by")
    if not {"bounds", "outcomes"} & {*given}:
        lacking += how_to_declare_all(design, model.outcomes)
    if lacking:
        raise InputError(NEEDS.format("; ".join(lacking)))


def _check_names(synthesizer: Synthesizer, unit: str | None) -> None:
    """Refuse categories that tables have columns of, and a unit that is synthesized."""
    taken = [name for name in synthesizer.categorical if name in OWN]
    if taken:
        raise InputError(f"{', '.join(taken)}: tables have columns of that name; rename it")
    if unit is not None and not isinstance(unit, str):
        raise InputError(f"unit must be the name of a column, not {type(unit).__name__}")
    if unit is not None and unit in synthesizer.outcomes:
        raise InputError(f"unit {unit!r} is an outcome: a unit is a column of labels that is not synthesized")


def _budget(epsilon: float | None, m: int | None, synthesizer: Synthesizer, mechanism: RecordMechanism) -> Budget:
    """What may be spent: an epsilon, if there can be one, that is given once."""
    budget = Budget(_once(epsilon, mechanism), M_OF_RECORDS if m is None else m)
    if synthesizer.from_records:
        _refuse_epsilon(budget.epsilon, mechanism)
    elif budget.epsilon is None and mechanism.needs_epsilon:
        raise InputError("say how much privacy to spend: epsilon=, for the whole release of m data sets")
    return budget


def _refuse_epsilon(epsilon: float | None, mechanism: RecordMechanism) -> None:
    """Refuse to promise anything for synthetic values that are drawn given the confidential ones (method 11.10)."""
    if epsilon is not None or mechanism.needs_epsilon:
        raise InputError(
            "allocation='posterior' draws what is published given the confidential value of each record "
            "(Hu, Savitsky & Williams 2022b, eq. 7): no "
            "epsilon holds for it, and none is to be named. Say mechanism=PseudoPosterior(c1=...), whose release is of "
            "kind 'none', or allocation='prior'"
        )


def _said_of_units(design: SurveyDesign, unit: Unit) -> list[str]:
    """What goes with units of several records, for the report."""
    if unit.of_record is None:
        return []
    uneven = [UNEVEN] if unit.differ and unit.classes == 1 else []
    return [UNITS_PUBLIC, *uneven, *([] if design.clustered else [INDEPENDENT])]
