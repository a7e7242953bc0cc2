"""What a strict release is asked for: everything is checked here, before a confidential value is counted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..choices import Clusters
from ..design.columns import check_cells
from ..design.conditions import columns_of_condition, obeyed
from ..design.formula import category, quoted, sides_of
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..errors import InputError, ModelError, Obstacles
from ..estimation.tables import OWN
from ..measuring.bins import Cells, check_missing, refuse_dates
from ..measuring.measure import WEIGHT_BOUNDS, Question
from ..measuring.outcome import Outcome
from ..measuring.terms import RightHandSide, Term, columns_of_terms, split_terms, term_names, terms_of
from ..models.base import Synthesizer
from ..models.normal.fbp import FBP
from ..models.normal.fbs import FBS
from ..models.scales.transforms import LogTransform
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..privacy.mechanisms.strict import check_delta
from ..release.measurements import Measurements
from ..release.release import Release
from ..release.source import Source
from ..validation import check_seed, interval_of, one_of, positive, rows, several
from .all_columns import written_out
from .edits import check_rules
from .levels import check_levels, levels_by_type, undeclared
from .synthetic_design import check_enough, check_public, public_columns, public_frame, roles_of

Floats = NDArray[np.float64]
Bounds = tuple[float, float] | Mapping[str, tuple[float, float]]
Weight = Literal["synthesize", "public"]
Totals = Mapping[str, Mapping[Any, float]]
Formulas = str | FBS | FBP | Sequence[str]

TRIED = 100  # made-up records on which rules are evaluated beforehand
AGREE = 1e-3  # share by which totals of levels may differ in sum from the population total
SCHEMA_ENTRIES = (  # not of fits to records
    "outcomes", "population_totals", "weight", "weight_bounds", "importance", "earlier", "bounds", "scheduler",
)  # fmt: skip
TAKEN = {
    *SCHEMA_ENTRIES, "edits", "population_total", "public", "seed", "levels", "mechanism", "clusters", "unit",
}  # fmt: skip
PLAIN = {"engine": "auto", "clusters": "model", "chains": 4, "tolerance": 0.01}  # what fit() has by default
NO_DESIGN = "the first argument is a SurveyDesign: SurveyDesign(frame, weights=...)"
RECORDS = "Records are fitted under mechanism=PseudoPosterior(), whose guarantee is asymptotic, or Censored()"
EPSILON = "epsilon=, for the whole release"
WHOLE = 1e-9  # share by which sums of calibrated weights may differ from the whole numbers that they were calibrated to
CALIBRATED_TO = "the population totals of {} are those that the weights were calibrated to; they are taken as public"
POPULATION = "population_total=, the public number of population units, which weights are scaled by"


@dataclass(frozen=True, repr=False)
class StrictRequest:
    """A strict release that nothing public stands in the way of.

    Attributes
    ----------
    design : SurveyDesign
        The confidential file, without records of weight 0.
    model : FBS or FBP
        One model of all outcomes.
    questions : list of Question
        What is measured of each outcome.
    terms : list of Term
        Public terms that records are counted by.
    public : SurveyDesign
        Its public columns, with the roles of the design.
    schema : dict of str to Outcome
        What is declared of each outcome.
    rules : tuple of str
        Edit rules.
    notes : list of str
        What was left out of the file, for the report.
    population_total : float
    population_totals : dict of str to float array
        By the names of terms.
    weight_bounds : (float, float)
    public_weight : bool
    delta : float or None
    clusters, unit
        As for :func:`surveysynth.measure`.
    year : Source or None
        What was measured in an earlier year.
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
    ledger: Ledger | None = None, seed: int | None = None, needs: str = "say {}",
) -> StrictRequest:  # fmt: skip
    """Check everything that :func:`surveysynth.measure` is given, without a look at a confidential value.

    Parameters
    ----------
    needs : str
        How a message lists what has not been given.
    design, formula, epsilon, ...
        As for :func:`surveysynth.measure`.

    Raises
    ------
    InputError, PrivacyError
        As :func:`surveysynth.measure`; all obstacles in one message.
    """
    if not isinstance(design, SurveyDesign):
        raise InputError(NO_DESIGN)
    wrong, public_weight = Obstacles(), weight == "public"
    budget = None if epsilon is None else wrong.check(positive, epsilon, "epsilon")
    wrong.check(check_delta, delta)
    sequence = wrong.check(_sequence, design, formula, public, budget, delta, outcomes)
    if sequence is None:  # the other checks are about its columns
        wrong.refuse()
    assert sequence is not None
    model, right_hand_sides = sequence
    schema = wrong.check(schema_of, design, model, bounds, outcomes, complete=False)
    lacking = [] if epsilon is not None else [EPSILON]
    told = public_weight or population_total is not None or population_totals is not None
    lacking += [] if told or calibrated_total(design) is not None else [POPULATION]
    lacking += [] if schema is None else how_to_declare(design, model, schema)
    if lacking:
        wrong.note(InputError(needs.format("; ".join(lacking))))
    wrong.check(one_of, weight, get_args(Weight), "weight")
    wrong.check(one_of, clusters, get_args(Clusters), "clusters")
    interval = wrong.check(_weight_bounds, weight_bounds)
    wrong.check(check_seed, seed)
    year = wrong.check(of_an_earlier_year, earlier)
    importances = wrong.check(_importance, importance, model.outcomes)
    kept = wrong.check(to_synthesize, design)
    rules = None if schema is None else wrong.check(_rules, design, model, unit, schema, edits)
    file = terms = totals = None
    has_unit = wrong.check(_has_unit, design, model, unit)
    has_columns = wrong.check(_has_columns, design, model, public, unit)
    if kept is not None and has_unit and has_columns:
        file = wrong.check(_public, kept[0], model, seed, unit, weighted=public_weight)
    if file is not None:
        attempt = Obstacles()
        terms = attempt.check(terms_of, file, model.predictors, clusters == "model", unit)
        if terms is None:  # every predictor that is wrong, in their order
            for column in model.predictor_columns:
                wrong.check(terms_of, file, quoted(column, [column]))
        for error in attempt.found:
            wrong.note(error)
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


def check_values(design: SurveyDesign, model: FBS | FBP, schema: Mapping[str, Outcome], wrong: Obstacles) -> None:
    """Note which outcomes contradict what is declared of them, where a call is refused anyway.

    A file that nothing stands in the way of is checked while it is counted.
    """
    for name in model.outcomes if not design.files else ():  # columns in files are not read for a message
        outcome = schema.get(name)
        wrong.check(_check_column, design, name, outcome)


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
    """What is measured of each outcome."""
    others = {term.name for term in terms if not term.drawn} - {*term_names(model.predictors)}  # the size of units
    named = {frozenset(term.columns): term.name for term in terms}  # a:b is b:a
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


def in_sequence(formula: Formulas) -> tuple[FBS | FBP, dict[str, RightHandSide]]:
    """One model of all outcomes, and what each depends on.

    Raises
    ------
    InputError
        Another model; an outcome of two formulas; a product of two earlier outcomes.
    """
    if isinstance(formula, list | tuple) and formula and all(isinstance(one, str) for one in formula):
        models: list[FBS | FBP] = [FBS(one) for one in formula]
    elif isinstance(formula, str | FBS | FBP):
        models = [FBS(formula) if isinstance(formula, str) else formula]
    else:
        raise InputError(
            "a strict release takes a formula, a list of formulas, FBS(...) or FBP(...): the schema says the kind of "
            "outcome"
        )
    found: dict[str, RightHandSide] = {}
    for model in models:
        of = split_terms(model.predictors, found)
        for k, name in enumerate(model.outcomes):
            if name in found:
                raise InputError(f"{name!r} is the outcome of two formulas")
            before = (each for each in model.outcomes[:k] if each not in of.earlier)
            found[name] = replace(of, earlier=(*of.earlier, *before))
    if len(found) == 1:
        return models[0], found
    categories = {name for model in models for name in model.categorical}
    names = [f"`{name}`" if not name.isidentifier() else name for name in found]
    names = [f"C({each})" if name in categories else each for name, each in zip(found, names, strict=True)]
    predictors = " + ".join(dict.fromkeys(of.public for of in found.values() if of.public != "1")) or "1"
    return FBS(f"{' + '.join(names)} ~ {predictors}"), found


def schema_of(
    design: SurveyDesign, model: FBS | FBP, bounds: Bounds | None, outcomes: Mapping[str, Outcome] | None, *,
    complete: bool = True,
) -> dict[str, Outcome]:  # fmt: skip
    """What is declared of each outcome (InputError: of other columns, and, if it is to be complete, nothing)."""
    if not isinstance(design, SurveyDesign):
        raise InputError(NO_DESIGN)
    names, given = model.outcomes, _mapping(outcomes, "outcomes", "{outcome: Outcome(...)}")
    if isinstance(bounds, Mapping):
        given |= {outcome: Outcome(bounds=pair) for outcome, pair in bounds.items()}
    elif bounds is not None:
        left = undeclared(design, [name for name in names if name not in given])
        left = [name for name in left if name not in model.categorical] or left
        numbers = [name for name in left if pd.api.types.is_numeric_dtype(design.typed(name).dtype)] or left
        if not numbers:
            raise InputError("bounds= is for an outcome that is a number and is not declared otherwise: leave it out")
        if len(numbers) > 1:
            raise InputError(
                f"bounds= of {len(numbers)} outcomes: write outcomes={{{numbers[0]!r}: Outcome(bounds=...), ...}}"
            )
        given[numbers[0]] = Outcome(bounds=bounds)
    others = [outcome for outcome in given if outcome not in names]
    if others:
        outcome = "the outcome is" if len(names) == 1 else "the outcomes are"
        raise InputError(
            f"outcomes= and bounds= name {', '.join(map(repr, others))}, and {outcome} {', '.join(map(repr, names))}"
        )
    wrong = Obstacles()
    found = {name: wrong.check(_declared, design, name, given) for name in names}
    schema = {name: outcome for name, outcome in found.items() if outcome is not None}
    if complete and not wrong.found and (lacking := how_to_declare(design, model, schema)):
        raise InputError(f"say {'; '.join(lacking)}")
    wrong.refuse()
    return schema


def _declared(design: SurveyDesign, name: str, given: Mapping[str, Outcome]) -> Outcome | None:
    """What is declared of one outcome, by the caller or by the type of its column; None where nothing is."""
    column = design.typed(name)
    if name in OWN:
        raise InputError(f"{name}: tables have a column of that name; rename it")
    if name in given:
        if not isinstance(given[name], Outcome):
            raise InputError(f"outcomes= gives {name!r} no Outcome: write Outcome(bounds=...) or Outcome(levels=...)")
        return given[name]
    if design.declares_levels(name):
        return Outcome(levels=levels_by_type(design, name))
    refuse_dates(column, name)
    return None


def how_to_declare(design: SurveyDesign, model: FBS | FBP, schema: Mapping[str, Outcome]) -> list[str]:
    """What to give for the outcomes of which nothing is declared, whose columns are there."""
    lines = []
    for name in model.outcomes:
        if name in schema or name not in design.columns or name in OWN:
            continue
        if pd.api.types.is_numeric_dtype(design.typed(name).dtype) and name not in model.categorical:
            lines.append(
                f"the public bounds of {name!r}, bounds=(lowest, highest), from what is known of such amounts and not "
                f"from this file, or the levels of a category, outcomes={{{name!r}: Outcome(levels=[...])}}"
            )
        else:
            lines.append(f"the levels of {name!r}, outcomes={{{name!r}: Outcome(levels=[...])}}")
    return lines


def check_unit(design: SurveyDesign, outcomes: Sequence[str], unit: str | None) -> None:
    """Refuse what names no column of units (InputError)."""
    if unit is None:
        return
    if not isinstance(unit, str):
        raise InputError("unit must be the name of one column: that of households, say")
    check_cells(design.column(unit), unit)
    if unit in (*outcomes, design.weights_name, design.probs_name):
        raise InputError(f"unit {unit!r} is an outcome or a weight: a unit is a column of labels that stays as it is")


def public_totals(
    design: SurveyDesign, terms: Sequence[Term], total: float | Mapping[Any, float] | None, totals: Totals | None, *,
    public_weight: bool,
) -> tuple[float, dict[str, Floats]]:  # fmt: skip
    """The population total, and those of levels: as given, or what the weights were calibrated to."""
    given = _mapping(totals, "population_totals", "{term: {level: total}}")
    if isinstance(total, Mapping):
        if design.strata_name is None:
            raise InputError("population_total gives totals by stratum, but the design has no strata")
        strata = (design.strata_name,)
        name = next((term.name for term in terms if term.columns == strata), design.strata_name)
        given, total = given | {name: total}, None
    by_name = {term.name: term for term in terms}
    known = {name: _of_levels(by_name, name, each) for name, each in given.items()}
    own = None if public_weight or given else calibrated_total(design)
    if own is not None and (total is None or abs(own / positive(total, "population_total") - 1) <= AGREE):
        total, known = own if total is None else total, _calibrated_totals(design, terms)
    if public_weight and known:
        raise InputError("totals of levels have no effect where weights are public, which add up to what they do")
    if public_weight:
        return float(design.weights.sum()) if total is None else check_enough(total, design.n), {}
    if total is None and not known:
        raise InputError(f"say {POPULATION}, or weight='public'")
    everybody = check_enough(next(iter(known.values())).sum() if total is None else total, design.n)
    apart = [name for name, each in known.items() if abs(each.sum() / everybody - 1) > AGREE]
    if apart:
        raise InputError(f"population_totals of {', '.join(map(repr, apart))} do not add up to the population total")
    return everybody, {name: each * (everybody / each.sum()) for name, each in known.items()}


def calibrated_total(design: SurveyDesign) -> float | None:
    """The population total that the weights were calibrated to; None where none is a whole number."""
    whole = _whole(design.calibration.after.sum(keepdims=True)) if design.calibration.margins else None
    return None if whole is None else float(whole[0])


def _calibrated_totals(design: SurveyDesign, terms: Sequence[Term]) -> dict[str, Floats]:
    """Totals of the levels of those terms that the weights were calibrated to."""
    margins, after = design.calibration.poststrata_names, design.calibration.after
    found: dict[str, Floats] = {}
    for term in terms:
        if any(set(term.columns) <= set(columns) for columns in margins):
            there = after if after.size == term.level.size else after[design.weights > 0]
            totals = _whole(np.asarray(np.bincount(term.level, there, term.levels), dtype=np.float64))
            found |= {} if totals is None else {term.name: totals}
    return found


def _whole(totals: Floats) -> Floats | None:
    """The whole numbers that sums of calibrated weights are, but for rounding; None where one is not."""
    whole = np.rint(totals)
    return whole if (whole > 0).all() and (np.abs(totals - whole) <= WHOLE * whole).all() else None


def _mapping(given: Any, name: str, form: str) -> dict[Any, Any]:
    if not isinstance(given, Mapping | None):
        raise InputError(f"{name} must be a mapping, {form}")
    return dict(given or {})


def _of_levels(terms: Mapping[str, Term], name: str, given: Mapping[Any, float]) -> Floats:
    """Totals in the order of the levels of a term."""
    if name not in terms:
        raise InputError(f"population_totals: {name!r} is no term of the formula ({', '.join(terms) or 'it has none'})")
    if not isinstance(given, Mapping):
        raise InputError(f"population_totals of {name!r} must give one total for each level: {{level: total}}")
    keys = {(tuple(map(str, key)) if isinstance(key, tuple) else (str(key),)): value for key, value in given.items()}
    labels = terms[name].labels
    if set(keys) != set(labels):
        raise InputError(
            f"population_totals of {name!r} must give one total for each of its {len(labels)} levels, by their labels, "
            "and for nothing else"
        )
    return np.array([positive(keys[label], f"population_totals of {name!r}") for label in labels])


@dataclass(frozen=True)
class Strictly:
    """The arguments of :func:`measure` beside the design and its epsilon."""

    model: FBS | FBP | list[str]
    settings: dict[str, Any]


def strictly(model: object, given: Mapping[str, Any]) -> Strictly:
    """What to measure for a strict release, from the arguments of ``synthesize``.

    Raises
    ------
    InputError
        Arguments that only fits to records have.
    ModelError
        Another model than FBS and FBP, or one with options that only fits to records have.
    """
    said = {name: value for name, value in given.items() if not (_is_nothing(value) or _is_plain(name, value))}
    mechanism = said.pop("mechanism", None)
    if others := sorted({*said} - TAKEN):
        raise InputError(f"{', '.join(others)}: only where records are fitted. {RECORDS}")
    levels = said.pop("levels", None)
    settings = said | ({} if mechanism is None or mechanism.delta is None else {"delta": mechanism.delta})
    if isinstance(model, str):
        model = [model]
    if isinstance(model, list | tuple) and model and all(isinstance(one, str) for one in model):
        outcomes = [name for one in model for name in left_hand_side(one)]
        return Strictly([*model], _with_levels(settings, levels, outcomes))
    if isinstance(model, list | tuple):
        raise InputError(f"under Strict() a list is one of formulas: ['job ~ sex', 'income ~ sex + job']. {RECORDS}")
    if not isinstance(model, FBS | FBP):
        name = model.name if isinstance(model, Synthesizer) else type(model).__name__
        raise ModelError(
            f"{name} is a model of records, and Strict() counts them: give the formula, 'income ~ region', and what "
            f"kind each outcome is, outcomes={{'income': Outcome(...)}}. {RECORDS}"
        )
    if len(model.outcomes) > 1 and isinstance(model, FBP):
        raise ModelError("FBP synthesizes one outcome under Strict(): give FBS, or the formula")
    bare = type(model)(model.outcome, model.predictors)
    transform = "log" if isinstance(model.transform, LogTransform) else model.transform
    if replace(model, weight=None, transform=transform) != bare:
        raise ModelError(
            f"under Strict() {model.name} has a formula, and weight='public', but no other options: its prior and "
            f"scale are those of noisy tables. {RECORDS}"
        )
    public = {} if model.weight is None else {"weight": "public"}
    return Strictly(bare, _with_levels(settings | public, levels, model.outcomes))


def _with_levels(settings: dict[str, Any], levels: Any, outcomes: Sequence[str]) -> dict[str, Any]:
    """With an Outcome for each list of levels."""
    found = {name: Outcome(levels=own) for name, own in check_levels(levels, outcomes).items()}
    return settings | ({"outcomes": found | dict(settings.get("outcomes", {}))} if found else {})


def left_hand_side(formula: str) -> list[str]:
    """The columns on the left of a formula."""
    return [category(name) or name for name in several(sides_of(formula, "")[0])]


def refuse_schema(settings: Mapping[str, Any]) -> None:
    """Refuse what only measurements have, where records are fitted (InputError)."""
    given = [name for name in SCHEMA_ENTRIES if not _is_nothing(settings.get(name))]
    if given:
        raise InputError(
            f"{', '.join(given)}: only for strict releases, which are drawn from noisy tables; records are fitted here"
        )


def _is_plain(name: str, value: Any) -> bool:
    return isinstance(value, str | int | float) and PLAIN.get(name) == value


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, int | str | tuple | list) and not value)


def of_an_earlier_year(given: Measurements | Release | None) -> Source | None:
    """What was measured in an earlier year (InputError: no measurements)."""
    if given is None:
        return None
    source = given.source if isinstance(given, Measurements) else getattr(given, "measured", None)
    if source is None:
        raise InputError("earlier= takes measurements, or a release that was drawn from such")
    return source


def _importance(given: Mapping[str, float] | None, outcomes: Sequence[str]) -> dict[str, float]:
    """How much each outcome matters (InputError: other columns, or no positive number)."""
    found = _mapping(given, "importance", "{outcome: number}")
    if others := [name for name in found if name not in outcomes]:
        raise InputError(f"importance= names {', '.join(map(repr, others))}: no outcome of this release")
    return {name: positive(value, f"importance of {name!r}") for name, value in found.items()}


def _rules(
    design: SurveyDesign, model: FBS | FBP, unit: str | None, schema: Mapping[str, Outcome],
    edits: Sequence[str] | str | None,
) -> tuple[str, ...]:  # fmt: skip
    """Edit rules, if they and those of who is asked are conditions on columns that files have (InputError)."""
    known = [*public_columns(design, model, unit)]
    for name, outcome in schema.items():
        check_rules(outcome.applies, known, f"{name}: applies")
        known.append(name)
    return tuple(check_rules(edits, known))


def _try_rules(public: pd.DataFrame, schema: Mapping[str, Outcome], rules: Sequence[str]) -> None:
    """Evaluate all rules on made-up answers, before anything is measured (InputError: texts compared with numbers)."""
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
    """The public columns with the design's roles; weights that are not public are all the same until they are drawn."""
    frame = public_frame(design, model, np.random.default_rng(seed), unit)
    roles = roles_of(design, model.outcomes, frame, None)
    weights = design.weights if weighted else np.ones(design.n)
    frame = frame.assign(**{roles["weights"]: weights})
    labels = {name: text for name, text in roles["labels"].items() if name in frame.columns}
    return SurveyDesign(frame, **roles | {"labels": labels})
