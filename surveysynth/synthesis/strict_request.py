"""Checks of all arguments of a strict release, before a confidential value is counted.

Strict releases satisfy differential privacy at the size of the file, not only for many records.  They are drawn from
noisy tables: counts of the confidential file with noise (:func:`surveysynth.measure`).  Declarations are the public
bounds or levels of the outcomes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..choices import Clusters
from ..design.conditions import columns_of_condition, obeyed
from ..design.formula import quoted
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..errors import InputError, Obstacles
from ..measuring.bins import Cells, check_missing
from ..measuring.measure import WEIGHT_BOUNDS, Question
from ..measuring.outcome import Outcome
from ..measuring.terms import RightHandSide, Term, columns_of_terms, term_names, terms_of
from ..models.normal.fbp import FBP
from ..models.normal.fbs import FBS
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..privacy.mechanisms.strict import check_delta
from ..release.measurements import Measurements
from ..release.release import Release
from ..release.source import Source
from ..validation import check_seed, interval_of, one_of, positive, rows
from .all_columns import written_out
from .declarations import (
    NO_DESIGN,
    POPULATION,
    Bounds,
    Formulas,
    Totals,
    Weight,
    as_dict,
    calibrated_total,
    check_unit,
    how_to_declare,
    in_sequence,
    public_totals,
    schema_of,
)
from .edits import check_rules
from .synthetic_design import check_public, public_columns, public_frame, roles_of

Floats = NDArray[np.float64]
TRIED = 100  # number of made-up records on which rules are tried
EPSILON = "epsilon=, for the whole release"
CALIBRATED_TO = "the population totals of {} are those that the weights were calibrated to; they are taken as public"


@dataclass(frozen=True, repr=False)
class StrictRequest:
    """The checked arguments of :func:`surveysynth.measure`.

    Attributes
    ----------
    design : SurveyDesign
        The confidential file, without records of weight 0.
    model : FBS or FBP
        One model of all outcomes.
    questions : list of Question
        For each outcome, its declaration, and the predictors by which the outcome is counted.
    terms : list of Term
        The public terms by which records are counted: predictors, PSUs, strata, and the units that epsilon protects
        with their sizes.
    public : SurveyDesign
        The design with its public columns alone.
    schema : dict of str to Outcome
        The declaration of each outcome.
    rules : tuple of str
        Edit rules.
    notes : list of str
        Sentences of the report on records that are left out, and on totals that are taken as public.
    population_total : float
    population_totals : dict of str to float array
        Population totals of levels, by name of the term.
    weight_bounds : (float, float)
    public_weight : bool
    delta : float or None
    clusters, unit
        See :func:`surveysynth.measure`.
    year : Source or None
        The measurements of an earlier year, if there are any.
    """

    design: SurveyDesign
    model: FBS | FBP
    questions: list[Question]
    terms: list[Term]
    public: SurveyDesign
    schema: dict[str, Outcome]
    rules: tuple[str, ...]
    notes: list[str]
    population_total: float
    population_totals: dict[str, Floats]
    weight_bounds: tuple[float, float]
    public_weight: bool
    delta: float | None
    clusters: Clusters
    unit: str | None
    year: Source | None


def strict_request(
    design: SurveyDesign, formula: Formulas, *, epsilon: float | None, delta: float | None = None,
    population_total: float | Mapping[Any, float] | None = None, population_totals: Totals | None = None,
    bounds: Bounds | None = None, outcomes: Mapping[str, Outcome] | None = None, weight: Weight = "synthesize",
    weight_bounds: tuple[float, float] = WEIGHT_BOUNDS, clusters: Clusters = "model", unit: str | None = None,
    public: Sequence[str] | None = None, importance: Mapping[str, float] | None = None,
    edits: Sequence[str] | str | None = None, earlier: Measurements | Release | None = None,
    ledger: Ledger | None = None, seed: int | None = None, needs: str = "give {}",
) -> StrictRequest:  # fmt: skip
    """Check the arguments of :func:`surveysynth.measure`.

    If all arguments are right, no confidential value is read.  If an argument is wrong, the outcomes are read, so that
    the error also names outcomes whose values contradict their declarations.

    Parameters
    ----------
    needs : str
        Template of the message about missing arguments, with "{}" in place of their list.
    design, formula, epsilon, ...
        See :func:`surveysynth.measure`.

    Raises
    ------
    InputError, PrivacyError
        See :func:`surveysynth.measure`.  One error lists everything that is wrong.
    """
    if not isinstance(design, SurveyDesign):
        raise InputError(NO_DESIGN)
    if isinstance(formula, FBS | FBP) and formula.weight == "public":
        formula, weight = replace(formula, weight=None), "public"
    wrong, public_weight = Obstacles(), isinstance(weight, str) and weight == "public"
    budget = None if epsilon is None else wrong.check(positive, epsilon, "epsilon")
    wrong.check(check_delta, delta)
    sequence = wrong.check(_sequence, design, formula, public, budget, delta, outcomes)
    if sequence is None:  # the other checks need the columns in the formulas
        wrong.refuse()
    assert sequence is not None
    model, right_hand_sides = sequence
    schema = wrong.check(schema_of, design, model, bounds, outcomes, complete=False)
    lacking = [] if epsilon is not None else [EPSILON]
    total_given = public_weight or population_total is not None or population_totals is not None
    lacking += [] if total_given or calibrated_total(design) is not None else [POPULATION]
    lacking += [] if schema is None else how_to_declare(design, model, schema)
    if lacking:
        wrong.note(InputError(needs.format("; ".join(lacking))))
    wrong.check(one_of, weight, get_args(Weight), "weight")
    wrong.check(one_of, clusters, get_args(Clusters), "clusters")
    interval = wrong.check(_weight_bounds, weight_bounds)
    seeded = wrong.check(_seed, seed)
    has_unit = wrong.check(_has_unit, design, model, unit)
    year = wrong.check(earlier_source, earlier)
    importances = wrong.check(_importance, importance, model.outcomes)
    kept = wrong.check(to_synthesize, design)
    rules = None if schema is None else wrong.check(_rules, design, model, unit, schema, edits)
    has_columns = wrong.check(_has_columns, design, model, public, unit)
    file = totals = None
    if kept is not None and has_unit and has_columns:
        file = wrong.check(_public, kept[0], model, seeded, unit, weighted=public_weight)
    terms = None if file is None else _terms(file, model, clusters, unit, wrong)
    if terms is not None and POPULATION not in lacking:
        totals = wrong.check(
            public_totals, design, terms, population_total, population_totals, public_weight=public_weight
        )
    if file is not None and schema is not None and rules is not None and not lacking:
        wrong.check(_try_rules, file.frame, schema, rules)
    wrong.check(check_ledger, ledger)
    if isinstance(ledger, Ledger) and budget is not None:
        wrong.check(ledger.check, budget)
    if wrong.found:
        check_values(design, model, schema or {}, wrong)
    wrong.refuse()
    assert kept and file and terms is not None and totals and interval and schema is not None and rules is not None
    notes = [*kept[2]]
    if population_totals is None and not isinstance(population_total, Mapping) and totals[1]:
        notes.append(CALIBRATED_TO.format(", ".join(map(repr, totals[1]))))
    for note in notes:
        warnings.warn(note, stacklevel=3)
    questions = _questions(model, right_hand_sides, terms, schema, importances or {})
    return StrictRequest(
        kept[0], model, questions, terms, file, schema, rules, notes, *totals, interval, public_weight,
        delta, clusters, unit, year,
    )  # fmt: skip


def _terms(
    file: SurveyDesign, model: FBS | FBP, clusters: Clusters, unit: str | None, wrong: Obstacles
) -> list[Term] | None:
    """Return the terms (predictors and their products, strata, PSUs, units) by which records are counted.

    If a predictor is wrong, the errors of all wrong predictors are added to ``wrong``, and the result is None.
    """
    attempt = Obstacles(wrong.found)
    terms = attempt.check(terms_of, file, model.predictors, clusters == "model", unit)
    if terms is None:  # note every wrong predictor, in the order of the formula
        for column in model.predictor_columns:
            wrong.check(terms_of, file, quoted(column, [column]))
    for error in attempt.found:
        wrong.note(error)
    return terms


def check_values(design: SurveyDesign, model: FBS | FBP, schema: Mapping[str, Outcome], wrong: Obstacles) -> None:
    """Add an error to ``wrong`` for each outcome whose values contradict the declaration of the outcome.

    This is for calls that raise an error anyway, to report all errors at once.  In other calls, values are checked
    while they are counted.  Nothing is checked if the design is read from files, because that would take long.
    """
    for name in model.outcomes if not design.files else ():  # a parquet file is not read only for a message
        outcome = schema.get(name)
        wrong.check(_check_column, design, name, outcome)


def check_contradictions(asked: StrictRequest) -> None:
    """Raise InputError if outcomes of the file contradict their declarations.  No noisy table is made.

    Raises
    ------
    InputError
        An outcome contradicts its declaration.  One error lists all contradictions.
    """
    wrong = Obstacles()
    check_values(asked.design, asked.model, asked.schema, wrong)
    wrong.refuse()


def _check_column(design: SurveyDesign, name: str, outcome: Outcome | None) -> None:
    column = design.column(name)
    if outcome is None:
        check_missing(column, name)
    elif outcome.applies is None:
        Cells.for_outcome(outcome).codes(column, name)


def _questions(
    model: FBS | FBP, right_hand_sides: Mapping[str, RightHandSide], terms: Sequence[Term],
    schema: Mapping[str, Outcome], importances: Mapping[str, float],
) -> list[Question]:  # fmt: skip
    """Return, for each outcome, its declaration, its importance, and the predictors by which it is counted."""
    others = {term.name for term in terms if not term.drawn} - {*term_names(model.predictors)}  # the size of units
    named = {frozenset(term.columns): term.name for term in terms}  # a:b and b:a are the same term
    return [
        Question(
            name, schema[name], (*(named[frozenset(columns)] for columns in columns_of_terms(side.public)), *others),
            side.earlier, tuple((named[frozenset(columns)], before) for columns, before in side.products),
            importances.get(name, 1.0),
        ) for name, side in right_hand_sides.items()
    ]  # fmt: skip


def _sequence(
    design: SurveyDesign, formula: Formulas, public: Sequence[str] | None, epsilon: float | None, delta: float | None,
    outcomes: Mapping[str, Outcome] | None,
) -> tuple[FBS | FBP, dict[str, RightHandSide]]:  # fmt: skip
    return in_sequence(written_out(design, formula, public, epsilon, delta, outcomes))


def _seed(seed: int | None) -> int | None:
    check_seed(seed)
    return seed


def _weight_bounds(given: tuple[float, float]) -> tuple[float, float]:
    low, high = interval_of(given, "weight_bounds")
    if not 0 <= low < 1 < high:
        raise InputError("weight_bounds are in mean weights, so 1 lies between them, and none is negative")
    return low, high


def _has_unit(design: SurveyDesign, model: FBS | FBP, unit: str | None) -> bool:
    check_unit(design, model.outcomes, unit)
    return True


def _has_columns(design: SurveyDesign, model: FBS | FBP, public: Sequence[str] | None, unit: str | None) -> bool:
    check_public(design, model, public, unit)
    return True


def earlier_source(given: Measurements | Release | None) -> Source | None:
    """Return the noisy tables of an earlier year, or None if ``given`` is None.

    Raise InputError if ``given`` is neither measurements nor a release that was drawn from measurements.
    """
    if given is None:
        return None
    source = given.source if isinstance(given, Measurements) else getattr(given, "measured", None)
    if source is None:
        raise InputError("earlier= takes measurements, or a release that was drawn from such")
    return source


def _importance(given: Mapping[str, float] | None, outcomes: Sequence[str]) -> dict[str, float]:
    """Return the importances by outcome.  Raise InputError if a name is not an outcome or a value is not positive."""
    found = as_dict(given, "importance", "{outcome: number}")
    if others := [name for name in found if name not in outcomes]:
        raise InputError(f"importance= names {', '.join(map(repr, others))}: no outcome of this release")
    return {name: positive(value, f"importance of {name!r}") for name, value in found.items()}


def _rules(
    design: SurveyDesign, model: FBS | FBP, unit: str | None, schema: Mapping[str, Outcome],
    edits: Sequence[str] | str | None,
) -> tuple[str, ...]:  # fmt: skip
    """Return the edit rules.  Raise InputError if a rule or an outcome's ``applies`` is not a condition on columns."""
    known = [*public_columns(design, model, unit)]
    for name, outcome in schema.items():
        check_rules(outcome.applies, known, f"{name}: applies")
        known.append(name)
    return tuple(check_rules(edits, known))


def _try_rules(public: pd.DataFrame, schema: Mapping[str, Outcome], rules: Sequence[str]) -> None:
    """Evaluate all rules on random values of the outcomes, before anything is counted.

    Raise InputError if a rule cannot be evaluated, or if it is on public columns alone and some records break it:
    public columns cannot be drawn again.
    """
    rng = np.random.default_rng(0)
    frame = public.head(TRIED)
    for name, outcome in schema.items():
        cells = Cells.for_outcome(outcome)
        cells.asked(frame)
        frame = frame.assign(**{name: cells.values(rng.integers(0, len(cells), len(frame)), rng).array})
    obeyed(rules, frame)
    for rule in rules:
        if columns_of_condition(rule, "edits").isdisjoint(schema) and (broken := ~obeyed([rule], public)).any():
            raise InputError(
                f"edits: {rule!r} is about public columns alone, which stay as they are, and {rows(broken)} break it"
            )


def _public(
    design: SurveyDesign, model: FBS | FBP, seed: int | None, unit: str | None, *, weighted: bool
) -> SurveyDesign:  # fmt: skip
    """Return the design with its public columns alone.  Unless ``weighted``, all weights are replaced by 1."""
    frame = public_frame(design, model, np.random.default_rng(seed), unit)
    roles = roles_of(design, model.outcomes, frame, None)
    weights = design.weights if weighted else np.ones(design.n)
    frame = frame.assign(**{roles["weights"]: weights})
    labels = {name: text for name, text in roles["labels"].items() if name in frame.columns}
    return SurveyDesign(frame, **roles | {"labels": labels})
