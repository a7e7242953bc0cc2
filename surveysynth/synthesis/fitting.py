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
from dataclasses import replace
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
from ..expenses import Fingerprint, of_this_file
from ..measuring.outcome import Outcome
from ..models.base import Relative, Synthesizer
from ..models.draws import Draws, Sampler, Streams
from ..models.sequential import Sequential
from ..models.shared.predictors import LOG_UNIT
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..privacy.budget import Budget
from ..privacy.expected_accuracy import expected_split
from ..privacy.mechanisms import Assessment, Mechanism, Strict
from ..privacy.mechanisms.censored import Censored
from ..privacy.mechanisms.privacy_weights import PrivacyWeights
from ..privacy.mechanisms.strict import scores_epsilon, shared
from ..privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ..privacy.release_rule import IdentificationRule
from ..privacy.units import Unit, unit_of
from ..progress import stages, tell
from ..release.measurements import Measurements
from ..release.release import Release, check_m
from ..validation import check_keywords, check_seed, one_of, positive
from .all_columns import written_out
from .assemble import check_public, check_total, public_columns, public_mean_weight, said_of_ignored
from .draws import check_chains
from .edits import check_rules
from .fit import Basis, Fit, check_accepted, check_debias, check_rule, check_steps
from .levels import declared, number_codes
from .measured import M, Totals, Weight, declares_itself, in_sequence, measurable, measure, refuse_schema
from .missing import said_of_missing, without_missing
from .policy import Policy
from .sequence import sizes_of

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
    bounds: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    public: Sequence[str] | None = None,
    clusters: Clusters = "model",
    unit: str | None = None,
    reweight: int = 0,
    engine: str = "auto",
    tolerance: float = 0.01,
    chains: int = 4,
    warmup: int | None = None,
    draws: int | None = None,
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
        Number of synthetic data sets; default 3, and 3 to 5 under ``Strict``, by epsilon.
    mechanism : PseudoPosterior, WeightedE, Censored or Strict, optional
        How records are protected; default ``Strict()``, which needs a population_total, and bounds or a reference.
        The guarantees of ``Strict`` and ``Censored`` are strict, those of the others asymptotic.
    policy : Policy, optional
        Everything that a historical file set: the model, epsilon, m and the privacy weights of ``Censored``.
        Nothing of this file sets them, and none of them is given here.
    population_total : float or mapping of stratum to float, optional
        Public number of population units that the synthetic weights add up to, in all or in
        each stratum (such totals then have no standard error); the default is the sum of the
        survey weights, which is computed from the file and not covered by epsilon: the report says so.
    bounds : (float, float) or mapping of outcome to such, optional
        Public lowest and highest amount of the outcomes.  Normal scores of this file are made from them, under an
        epsilon of their own that is a part of the whole.
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
        Sampler settings; the default is the mechanism's: 1,000 each, under ``Strict`` 300 and 600.
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
    default = mechanism is None
    synthesizer, mechanism = check_kinds(design, synthesizer, mechanism)
    if default:
        _check_default(synthesizer, epsilon, population_total, bounds)
    budget = _budget(epsilon, m, synthesizer, mechanism)
    if positive(tolerance, "tolerance") >= 1:
        raise InputError("tolerance must be below 1")
    chain = [own if given is None else given for given, own in zip((warmup, draws), mechanism.chain, strict=True)]
    check_chains(chains, *chain)
    check_seed(seed)
    reweight = check_steps(reweight, mechanism)
    check_public(design, synthesizer, public)
    _check_names(synthesizer, unit)
    mechanism.check_model(synthesizer, unit)
    original, coded = design, number_codes(design, levels)
    design, of_file, notes = to_synthesize(declared(design, synthesizer, levels))
    for note in notes:
        warnings.warn(note, stacklevel=2)
    population_total = check_total(population_total, design)
    one_of(clusters, get_args(Clusters), "clusters")
    synthesizer = mechanism.under(synthesizer)

    file = design
    design, rows, absent = without_missing(file, synthesizer)
    rows = of_file[rows]
    if absent.any():
        check_total(population_total, design)  # by stratum: one may have nobody left
    states = {id(each): each for each in (original, file, design)}.values()  # some leave records out
    outcomes = [each.column(outcome) for each in states for outcome in synthesizer.outcomes]
    earlier = of_this_file((*synthesizer.rests_on, *mechanism.rests_on), outcomes)
    protected = unit_of(design, unit)
    mechanism.check_units(protected)
    notes += said_of_missing(file, absent)
    notes += said_of_ignored(design, synthesizer) if clusters == "ignore" else []
    notes += _said_of_units(design, protected)

    mean_weight = public_mean_weight(design, population_total) if mechanism.clamps else None
    streams = Streams.of(seed)
    noise = None if seed is None else streams.draws
    if isinstance(synthesizer, Sequential) and mechanism.clamps and synthesizer.shares is None:
        found = expected_split(sizes_of(design, synthesizer, bounds), design.n, budget)
        synthesizer = synthesizer if found is None else synthesizer.sharing(found)
    if bounds is not None:
        synthesizer = _scored(design, synthesizer, bounds, budget, protected, noise)
    budget = replace(budget, parts=synthesizer.spent)
    chosen_engine = get_engine(engine)
    sampler = Sampler(lambda: chosen_engine, streams.draws, chains, *chain)
    seconds = mechanism.expected_seconds(design.n, len(synthesizer.models))
    with told_if_it_breaks_down(), stages(seconds) as say:
        say("reading the file")
        constants = None if policy is None else policy.constants
        records = synthesizer.prepare(design, clusters, mean_weight, constants, protected.of_record)
        notes += [SIZE_OF_UNITS] if LOG_UNIT in records.columns else []
        pseudo = PseudoLikelihood(synthesizer, records, protected, sampler, noise)
        protect = partial(protected_by, design, mechanism, policy, budget, tolerance, reweight)
        weighted = protect(pseudo, np.ones(protected.count(design.n)), say)
    budget = replace(budget, parts=weighted.parts or budget.parts)
    basis = Basis.of(Fingerprint.of(outcomes), earlier, synthesizer, weighted, budget, seeded=seed is not None)
    return Fit(
        design, rows, synthesizer, mechanism, policy, records, protected, weighted, budget,
        population_total, notes, sampler, streams, protect, seed is not None, basis, coded=coded,
    )  # fmt: skip


def _scored(
    design: SurveyDesign, synthesizer: Synthesizer, bounds: Any, budget: Budget, protected: Unit,
    rng: np.random.Generator | None, *, some: bool = False,
) -> Synthesizer:  # fmt: skip
    """The model on private normal scores of the file, under a part of the budget."""
    if isinstance(synthesizer, Sequential):
        given = bounds if isinstance(bounds, Mapping) else dict.fromkeys(synthesizer.numeric, bounds)
        files = [design, *(
            SurveyDesign(file, **design.roles(), labels=design.labels) if synthesizer.applies else design
            for _, file, _ in synthesizer.files(design.frame)
        )]  # fmt: skip
        own = [{o: b for o, b in given.items() if o in model.outcomes} for model in synthesizer.models]
        beyond = [name for name in given if name not in synthesizer.outcomes]
        if beyond:
            raise InputError(f"bounds= names other columns than the outcomes: {', '.join(map(str, beyond))}")
        return synthesizer.with_models([
            _scored(
                file, model, some, shared(budget, share), protected, rng,
                some=not set(model.outcomes).isdisjoint(synthesizer.applies),
            ) if some else model
            for file, model, some, share in zip(files, synthesizer.models, own, synthesizer.split, strict=True)
        ])  # fmt: skip
    if not isinstance(synthesizer, Relative):
        raise InputError(f"{synthesizer.name} takes no bounds=: leave it out, or give it to the model")
    if budget.epsilon is None:
        raise InputError("bounds= makes normal scores under a part of epsilon: say epsilon=")
    each = 1 if protected.of_record is None else int(np.bincount(protected.of_record).max())
    outcomes = len(synthesizer.numeric)
    scored = synthesizer.scored_by_bounds
    epsilon = scores_epsilon(budget, design.n, outcomes, outcomes + 1, each) if scored else 0.0
    return synthesizer.scored(design, bounds, epsilon, each, rng, some=some)


def protected_by(
    design: SurveyDesign, mechanism: Mechanism, policy: Policy | None, budget: Budget, tolerance: float, reweight: int,
    pseudo: PseudoLikelihood, present: Floats, say: Callable[[str], None],
) -> ProtectedFit:  # fmt: skip
    """What the mechanism makes of the file; ``present`` (U,) is 1, or 0 for what is left out."""

    def risks(unweighted: Callable[[], Draws]) -> Floats:
        if policy is not None:
            return policy.risk(design, pseudo.records)
        assert isinstance(mechanism, PrivacyWeights)  # who else asks for no risks
        rng = pseudo.sampler.rng
        return mechanism.risk.compute(design, pseudo.model, pseudo.records, pseudo.unit, unweighted, rng)

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
    **settings: Any,
) -> Release:
    """Release m weighted synthetic data sets, in one call.

    Unless ``mechanism=`` says otherwise the release is strict: an outcome, or several by a list of formulas, and the
    weight are measured as by :func:`measure`, and data sets are drawn from the noisy tables.  Records are fitted under
    the other mechanisms, and, by Markov chains, in strict releases with a reference, of :class:`Sequential`, of other
    models than FBS and FBP.

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
    outcomes, population_totals, weight, weight_bounds, importance, earlier
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
    if isinstance(design, SurveyDesign):
        mechanism = settings.get("mechanism")
        strictly = epsilon if isinstance(mechanism, Strict | None) else None  # other mechanisms have no tables
        delta = mechanism.delta if isinstance(mechanism, Strict) else None
        synthesizer = written_out(design, synthesizer, settings.get("public"), strictly, delta, outcomes)
    schema = {
        "outcomes": outcomes, "population_totals": population_totals, "weight": weight, "weight_bounds": weight_bounds,
        "importance": importance, "earlier": earlier,
    }  # fmt: skip
    of_records = {"debias": debias, "accept_diagnostics": accept_diagnostics, "rule": rule, "edits": edits}
    strict = measurable(design, synthesizer, settings | schema | of_records)
    if strict is not None:
        given = strict.settings
        total = next((given[name] for name in ("population_total", "population_totals") if name in given), None)
        of_outcome = next((given[name] for name in ("bounds", "outcomes") if name in given), None)
        of_all, _ = in_sequence(strict.model)
        if of_outcome is None and all(declares_itself(design, name) for name in of_all.outcomes):
            of_outcome = True
        _check_default(of_all, epsilon, given.get("weight") == "public" or total, of_outcome)
        m = M if m is None else check_m(m)
        assert epsilon is not None  # as was checked
        with stages() as say:
            say("counting the file")
            measured = measure(design, strict.model, epsilon=epsilon, ledger=ledger, **given)
            say("drawing data sets")
            return measured.release(m, seed=given.get("seed"))
    refuse_schema(schema)
    check_accepted(accept_diagnostics)
    policy = settings.get("policy")
    chosen = synthesizer, settings.get("mechanism")
    if policy is not None:
        chosen = _policy(policy).synthesizer, policy.mechanism
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


def check_kinds(
    design: SurveyDesign, synthesizer: Synthesizer | str | Sequence[Synthesizer | str] | None,
    mechanism: Mechanism | None,
) -> tuple[Synthesizer, Mechanism]:  # fmt: skip
    """Refuse what is no design, model or mechanism; the model, and the mechanism or the default one."""
    if not isinstance(design, SurveyDesign):
        raise InputError("the first argument is a SurveyDesign: SurveyDesign(frame, weights=...)")
    if not isinstance(mechanism, Mechanism | None):
        raise InputError(
            "mechanism must be a surveysynth.PseudoPosterior(...), WeightedE(...), Censored(...) or Strict(...)"
        )
    mechanism = Strict() if mechanism is None else mechanism
    if isinstance(synthesizer, str) and "~" in synthesizer:
        synthesizer = mechanism.model_of(synthesizer)
    if isinstance(synthesizer, Sequence) and not isinstance(synthesizer, str):
        synthesizer = Sequential([mechanism.model_of(one) if isinstance(one, str) else one for one in synthesizer])
    if not isinstance(synthesizer, Synthesizer):
        raise InputError("the second argument is a model, or its formula: surveysynth.FBS('salary ~ field + gender')")
    return synthesizer, mechanism


def _check_default(synthesizer: Synthesizer, epsilon: float | None, population_total: Any, bounds: Any) -> None:
    """Refuse to begin without what the default mechanism needs, and say why it does (InputError)."""
    if not isinstance(synthesizer, Relative | Sequential):
        return  # which check_model refuses, with the mechanisms that there are
    lacking = []
    if epsilon is None:
        lacking.append("epsilon=, for the whole release")
    if population_total is None:
        lacking.append("population_total=, the public number of population units, which weights are scaled by")
    if bounds is None and synthesizer.unscaled:
        what = ", ".join(synthesizer.unscaled)
        lacking.append(
            f"bounds=(lowest, highest) of {what}, public, or an earlier release, mechanism=Strict(reference=)"
        )
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


def _budget(epsilon: float | None, m: int | None, synthesizer: Synthesizer, mechanism: Mechanism) -> Budget:
    """What may be spent: an epsilon, if there can be one, that is given once."""
    if epsilon is not None and mechanism.epsilon is not None:
        raise InputError("epsilon is given twice: to synthesize and to the mechanism; give it once")
    asked = mechanism.epsilon if epsilon is None else epsilon
    models = len(synthesizer.models) if mechanism.clamps else 1  # which have shares of epsilon
    share = None if asked is None else positive(asked, "epsilon") / models
    budget = Budget(asked, mechanism.data_sets(share) if m is None else m)
    if synthesizer.from_records:
        _refuse_epsilon(budget.epsilon, mechanism)
    elif budget.epsilon is None and mechanism.needs_epsilon:
        raise InputError("say how much privacy to spend: epsilon=, for the whole release of m data sets")
    return budget


def _refuse_epsilon(epsilon: float | None, mechanism: Mechanism) -> None:
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
