"""Checks of the arguments of a fit to records and of a release of the fit, all before a model is fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..engines import get_engine
from ..engines.base import Engine
from ..errors import InputError, Obstacles
from ..estimation.tables import OWN
from ..models.base import Debiasable, Synthesizer
from ..models.normal.fbs import FBS
from ..models.sequential import Sequential
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..privacy.budget import Budget
from ..privacy.mechanisms import Mechanism, RecordMechanism, check_listed
from ..privacy.mechanisms.censored import Censored
from ..privacy.release_rule import IdentificationRule
from ..privacy.units import Unit, unit_of
from ..validation import as_list, check_seed, one_of, positive, whole
from .declarations import NO_DESIGN
from .draws import check_chains
from .edits import check_rules
from .levels import declared, number_codes
from .missing import missing_text, without_missing
from .policy import Policy
from .synthetic_design import Total, check_public, check_total, ignored_groups_text, public_columns

Codes = NDArray[np.intp]

UNITS_PUBLIC = (
    "how many records the units have that epsilon protects, and where, is public as their predictors are: epsilon is "
    "about what is synthesized of them"
)
SIZE_OF_UNITS = "the logarithm of the number of records of a unit is among the predictors"
UNEVEN = (
    "the units that epsilon protects have different numbers of records, and are too few to make their privacy weights "
    "the same at every size: large ones count less, and means that go with their size can be off"
)
M_OF_RECORDS = 3  # default number of data sets from a fit to records; each data set spends a part of epsilon
NO_RECORDS = (
    "records are fitted under mechanism=PseudoPosterior(), WeightedE() or Censored(). Strict() counts them: it is the "
    "default of synthesize() and measure()"
)
NO_MECHANISM = "mechanism must be a surveysynth.PseudoPosterior(...), WeightedE(...), Censored(...) or Strict(...)"
NO_MODEL = "the second argument is a model, or its formula: surveysynth.FBS('salary ~ field + gender')"
INDEPENDENT = (
    "the records of a unit that epsilon protects are drawn independently given the predictors: the design has no PSUs, "
    "so that standard errors do not carry what members of a unit have in common"
)


@dataclass(frozen=True, repr=False)
class FitRequest:
    """The checked arguments of :func:`surveysynth.fit`.

    Attributes
    ----------
    design : SurveyDesign
        The confidential file, without records that are left out.
    rows : int array (n,)
        Row in the file of each of the n records of ``design``, from 0.
    synthesizer, mechanism, policy
        See :func:`surveysynth.fit`.
    budget : Budget
    population_total : float or dict of stratum to float, or None
    unit : Unit
        The unit that epsilon protects.
    notes : list of str
        Sentences of the report on records that are left out, on clusters and on units.
    warnings : list of str
        Warnings about records that are left out.
    reweight : int
        Number of re-weighting steps.
    engine : Engine
    coded : dict of str to dtype
        Dtypes of categorical outcomes whose categories are numbers, by outcome.
    """

    design: SurveyDesign
    rows: Codes
    synthesizer: Synthesizer
    mechanism: RecordMechanism
    policy: Policy | None
    budget: Budget
    population_total: Total
    unit: Unit
    notes: list[str]
    warnings: list[str]
    reweight: int
    engine: Engine
    coded: Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class ReleaseRequest:
    """The checked arguments of :meth:`Fit.release`.

    Attributes
    ----------
    debias : bool
    accepted : sequence of str
        Names of failed diagnostics, or "information", that the caller accepts.
    ledger : Ledger or None
    rule : IdentificationRule or None
    edits : list of str
    """

    debias: bool = False
    accepted: Sequence[str] = ()
    ledger: Ledger | None = None
    rule: IdentificationRule | None = None
    edits: Sequence[str] = ()


def fit_request(
    design: SurveyDesign, synthesizer: Synthesizer | str | Sequence[Synthesizer | str] | None, *,
    epsilon: float | None = None, m: int | None = None, mechanism: Mechanism | None = None,
    policy: Policy | None = None, population_total: float | Mapping[Any, float] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None, public: Sequence[str] | None = None,
    clusters: Clusters = "model", unit: str | None = None, reweight: int = 0, engine: str = "auto",
    tolerance: float = 0.01, chains: int = 4, warmup: int = 1000, draws: int = 1000, seed: int | None = None,
    release: Mapping[str, Any] | None = None,
) -> tuple[FitRequest, ReleaseRequest]:  # fmt: skip
    """Check all arguments of :func:`surveysynth.fit`, and of a release of the fit.

    Parameters
    ----------
    release : mapping, optional
        Arguments of :meth:`Fit.release`, if the fit is made for one release.
    design, synthesizer, ...
        See :func:`surveysynth.fit`.

    Returns
    -------
    FitRequest
        The checked arguments of the fit.
    ReleaseRequest
        The checked arguments of the release.

    Raises
    ------
    InputError, ModelError, PrivacyError
        See :func:`surveysynth.fit`.  One error lists everything that is wrong.
    """
    if policy is not None:
        given = {"a synthesizer": synthesizer, "epsilon=": epsilon, "m=": m, "mechanism=": mechanism}
        synthesizer, m, mechanism = _set_by_policy(policy, given)
    model, protected = check_kinds(design, synthesizer, mechanism)
    wrong = Obstacles()
    file = wrong.check(declared, design, model, levels)
    wrong.check(check_public, design, model, public)
    wrong.check(_check_names, model, unit)
    wrong.check(one_of, clusters, get_args(Clusters), "clusters")
    wrong.check(protected.check_model, model, unit)
    steps = wrong.check(check_steps, reweight, protected)
    wrong.check(_check_tolerance, tolerance)
    wrong.check(check_chains, chains, warmup, draws)
    wrong.check(check_seed, seed)
    runs = wrong.check(get_engine, engine)
    budget = wrong.check(_budget, epsilon, m, model, protected)
    kept = wrong.check(to_synthesize, design if file is None else file)
    total = wrong.check(check_total, population_total, design if kept is None else kept[0])
    there = units = None
    if kept is not None:
        there = wrong.check(without_missing, kept[0], model)
    if there is not None:
        units = wrong.check(unit_of, there[0], unit)
    if there is not None and there[2].any():
        wrong.check(check_total, population_total, there[0])  # a stratum with a total may have no records left
    if units is not None:
        wrong.check(protected.check_units, units)
    asked = wrong.check(
        release_request, design if there is None else there[0], model, protected,
        None if budget is None else budget.epsilon, steps or 0, **release or {},
    )
    if wrong.found:
        model.note_obstacles(design if there is None else there[0], clusters, wrong)
    wrong.refuse()
    assert kept and there and units is not None and budget is not None and runs is not None and asked is not None
    notes = [*kept[2], *missing_text(kept[0], there[2])]
    notes += ignored_groups_text(there[0], model) if clusters == "ignore" else []
    return FitRequest(
        there[0], kept[1][there[1]], model, protected, policy, budget, total, units,
        [*notes, *_units_text(there[0], units)], kept[2], steps or 0, runs, number_codes(design, levels),
    ), asked  # fmt: skip


def release_request(
    design: SurveyDesign, model: Synthesizer, mechanism: RecordMechanism, epsilon: float | None, reweighted: int, *,
    debias: bool = False, accept_diagnostics: Sequence[str] = (), ledger: Ledger | None = None,
    rule: IdentificationRule | None = None, edits: Sequence[str] | str | None = None,
) -> ReleaseRequest:  # fmt: skip
    """Check all arguments of :meth:`Fit.release`.

    Parameters
    ----------
    epsilon : float or None
        Epsilon of the release, which must not exceed the ledger's cap.  None means that the model is fitted already
        and that the cap is checked later.
    reweighted : int
        Number of re-weighting steps.
    design, model, mechanism, ...
        See :meth:`Fit.release`.

    Returns
    -------
    ReleaseRequest

    Raises
    ------
    InputError, PrivacyError
        See :meth:`Fit.release`.  One error lists everything that is wrong.
    """
    wrong = Obstacles()
    rules = wrong.check(check_rules, edits, [*public_columns(design, model), *model.outcomes])
    wrong.check(check_accepted, accept_diagnostics, mechanism)
    wrong.check(check_rule, rule, design, model, mechanism)
    wrong.check(one_of, debias, (False, True), "debias")
    if debias:
        wrong.check(check_debias, model, mechanism, reweighted > 0)
    wrong.check(check_ledger, ledger)
    if isinstance(ledger, Ledger) and epsilon is not None:
        wrong.check(ledger.check, epsilon)
    wrong.refuse()
    return ReleaseRequest(debias, accept_diagnostics, ledger, rule, rules or ())


def _check_tolerance(tolerance: float) -> None:
    if positive(tolerance, "tolerance") >= 1:
        raise InputError("tolerance must be below 1")


def _set_by_policy(policy: Policy, given: Mapping[str, Any]) -> tuple[Synthesizer, int, Censored]:
    """Return the model, m and mechanism of a policy.  Raise InputError if one of these or epsilon is given as well."""
    if not isinstance(policy, Policy):
        raise InputError("policy must be a surveysynth.Policy: Policy.from_historical(...) or Policy.load(...)")
    twice = [name for name, value in given.items() if value is not None]
    if twice:
        raise InputError(f"{', '.join(twice)}: the policy sets this; leave it out, or make another policy")
    return policy.synthesizer, policy.m, policy.mechanism


def check_kinds(
    design: SurveyDesign, synthesizer: Synthesizer | str | Sequence[Synthesizer | str] | None,
    mechanism: Mechanism | None,
) -> tuple[Synthesizer, RecordMechanism]:  # fmt: skip
    """Return the model and the mechanism of a fit to records, after a check of their types.

    Raises
    ------
    InputError
        ``design`` is not a design, ``synthesizer`` is not a model, or ``mechanism`` is not a mechanism for fits to
        records.
    """
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


def given_once(epsilon: float | None, mechanism: Mechanism | None) -> float | None:
    """Return the epsilon of a release, from the call or from the mechanism.  Raise InputError if both give one."""
    own = None if mechanism is None else mechanism.epsilon
    if epsilon is not None and own is not None:
        raise InputError("epsilon is given twice: to synthesize and to the mechanism; give it once")
    return own if epsilon is None else epsilon


def _check_names(synthesizer: Synthesizer, unit: str | None) -> None:
    """Raise InputError for a wrong name of an outcome or of the column of units.

    A categorical outcome must not have the name of a column of the published tables, such as "estimate".  The units
    that epsilon protects must not be an outcome.
    """
    taken = [name for name in synthesizer.categorical if name in OWN]
    if taken:
        raise InputError(f"{', '.join(taken)}: tables have columns of that name; rename it")
    if unit is not None and not isinstance(unit, str):
        raise InputError(f"unit must be the name of a column, not {type(unit).__name__}")
    if unit is not None and unit in synthesizer.outcomes:
        raise InputError(f"unit {unit!r} is an outcome: a unit is a column of labels that is not synthesized")


def _budget(epsilon: float | None, m: int | None, synthesizer: Synthesizer, mechanism: RecordMechanism) -> Budget:
    """Return the budget of a fit.

    Raise InputError if epsilon is missing or given twice, or if the model allows no epsilon.
    """
    budget = Budget(given_once(epsilon, mechanism), M_OF_RECORDS if m is None else m)
    if synthesizer.from_records:
        _refuse_epsilon(budget.epsilon, mechanism)
    elif budget.epsilon is None and mechanism.needs_epsilon:
        raise InputError("give the privacy budget: epsilon=, for the whole release of m data sets")
    return budget


def _refuse_epsilon(epsilon: float | None, mechanism: RecordMechanism) -> None:
    """Raise InputError for an epsilon with a model that draws synthetic values given the confidential values.

    No epsilon holds for such values.
    """
    if epsilon is not None or mechanism.needs_epsilon:
        raise InputError(
            "allocation='posterior' draws what is published given the confidential value of each record "
            "(Hu, Savitsky & Williams 2022b, eq. 7): no "
            "epsilon holds for it, so leave epsilon out. Use mechanism=PseudoPosterior(c1=...), whose release is of "
            "kind 'none', or allocation='prior'"
        )


def _units_text(design: SurveyDesign, unit: Unit) -> list[str]:
    if unit.by_record is None:
        return []
    uneven = [UNEVEN] if unit.differ and unit.classes == 1 else []
    return [UNITS_PUBLIC, *uneven, *([] if design.clustered else [INDEPENDENT])]


def check_accepted(accepted: Sequence[str], mechanism: RecordMechanism) -> None:
    """Raise InputError for an unknown name in ``accept_diagnostics``, or for any name under a censored mechanism."""
    names = ("divergences", "rhat", "ess_bulk", "ess_tail", "information")
    listed = isinstance(accepted, list | tuple | set | frozenset)
    if not listed or not set(as_list(accepted)) <= set(names):
        raise InputError(f"accept_diagnostics is a list of names among {', '.join(names)}")
    mechanism.check_accepted(accepted)


def check_rule(
    rule: IdentificationRule | None, design: SurveyDesign, synthesizer: Synthesizer, mechanism: RecordMechanism
) -> None:
    """Raise InputError for a release rule that cannot be computed for the file or contradicts a strict guarantee.

    A rule looks at the confidential file, which no strict guarantee covers.
    """
    if not isinstance(rule, IdentificationRule | None):
        raise InputError("rule must be a surveysynth.IdentificationRule(known, max_risk=0.5)")
    if rule is None:
        return
    mechanism.check_rule()
    rule.check(design, synthesizer)


def check_debias(synthesizer: Synthesizer | None, mechanism: RecordMechanism, reweighted: bool) -> None:
    """Raise InputError if the bias that the mechanism causes cannot be corrected in the draws (``debias``).

    There are corrections for a clamp and for privacy weights, but not for both together.  The correction for privacy
    weights computes the weight of any possible record.  So a weight must depend only on the record's risk and on
    constants, as under the inverse map of Lipschitz bounds.  Re-weighting (``reweighted``) raises weights in another
    way.  The model must have a correction.  In the setting of a paper (``as_in_paper``) there is none, because the
    paper has none.
    """
    mechanism.check_debias()
    if reweighted:
        raise InputError("debias corrects for the inverse map, and re-weighting changes it: use one of them")
    if synthesizer is not None and synthesizer.as_in_paper:
        raise InputError("debias is no part of the paper's setting; use FBP(...) instead of FBP.paper(...)")
    if synthesizer is not None and not mechanism.clamps and not isinstance(synthesizer, Debiasable):
        raise InputError(f"{synthesizer.name} has no debias: leave it out, or use FBS")


def check_steps(steps: int, mechanism: RecordMechanism) -> int:
    """Check and return the number of re-weighting steps.

    Raise InputError if the number is not valid, or if re-weighting is impossible.
    """
    steps = int(steps) if isinstance(steps, bool | np.bool_) else steps
    if isinstance(steps, int | np.integer) and steps == 0:
        return 0
    mechanism.check_reweight()
    return whole(steps, "reweight", 1000)
