"""Checks of what is declared for a release from noisy tables: formulas, outcomes, units and population totals.

Noisy tables are tables of counts of the confidential file, with noise (:func:`surveysynth.measure`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import check_cells
from ..design.formula import category, sides_of
from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError, Obstacles
from ..estimation.tables import OWN
from ..measuring.bins import refuse_dates
from ..measuring.outcome import Outcome
from ..measuring.terms import RightHandSide, Term, split_terms
from ..models.normal.fbp import FBP
from ..models.normal.fbs import FBS
from ..models.scales.transforms import LogTransform
from ..validation import positive, several
from .levels import levels_by_type, undeclared
from .synthetic_design import check_enough

Floats = NDArray[np.float64]
Bounds = tuple[float, float] | Mapping[str, tuple[float, float]]
Weight = Literal["synthesize", "public"]
Totals = Mapping[str, Mapping[Any, float]]
Formulas = str | FBS | FBP | Sequence[str]

AGREE = 1e-3  # the sum of totals of levels may differ from the population total by this share
WHOLE = 1e-9  # largest relative difference between a sum of calibrated weights and a whole number
RECORDS = "Records are fitted under mechanism=PseudoPosterior(), whose guarantee is asymptotic, or Censored()"
NO_DESIGN = "the first argument is a SurveyDesign: SurveyDesign(frame, weights=...)"
POPULATION = "population_total=, the public number of population units, which weights are scaled by"


def without_options(model: FBS | FBP) -> FBS | FBP:
    """Return the model with only its formula.  Raise ModelError if it has options, which noisy tables do not use."""
    if len(model.outcomes) > 1 and isinstance(model, FBP):
        raise ModelError("FBP synthesizes one outcome under Strict(): give FBS, or the formula")
    bare = type(model)(model.outcome, model.predictors)
    transform = "log" if isinstance(model.transform, LogTransform) else model.transform
    if replace(model, transform=transform) != bare:
        raise ModelError(
            f"under Strict() {model.name} has a formula, and weight='public', but no other options: its prior and "
            f"scale are those of noisy tables. {RECORDS}"
        )
    return bare


def in_sequence(formula: Formulas) -> tuple[FBS | FBP, dict[str, RightHandSide]]:
    """Return one model of all outcomes and all public predictors, and the right-hand side of each outcome by name.

    Raises
    ------
    InputError
        The argument is neither a formula, nor a list of formulas, nor FBS, nor FBP.  An outcome is in two formulas.  A
        formula has a product of two earlier outcomes, for which there is no table.
    ModelError
        The model has options for fits to records, which noisy tables do not use.
    """
    if isinstance(formula, list | tuple) and formula and all(isinstance(one, str) for one in formula):
        models: list[FBS | FBP] = [FBS(one) for one in formula]
    elif isinstance(formula, str | FBS | FBP):
        models = [FBS(formula) if isinstance(formula, str) else without_options(formula)]
    else:
        raise InputError(
            "a strict release takes a formula, a list of formulas, FBS(...) or FBP(...): the schema says the kind of "
            "outcome"
        )
    found: dict[str, RightHandSide] = {}
    for model in models:
        side = split_terms(model.predictors, found)
        for k, name in enumerate(model.outcomes):
            if name in found:
                raise InputError(f"{name!r} is the outcome of two formulas")
            before = (each for each in model.outcomes[:k] if each not in side.earlier)
            found[name] = replace(side, earlier=(*side.earlier, *before))
    if len(found) == 1:
        return models[0], found
    categories = {name for model in models for name in model.categorical}
    names = [f"`{name}`" if not name.isidentifier() else name for name in found]
    names = [f"C({each})" if name in categories else each for name, each in zip(found, names, strict=True)]
    predictors = " + ".join(dict.fromkeys(side.public for side in found.values() if side.public != "1")) or "1"
    return FBS(f"{' + '.join(names)} ~ {predictors}"), found


def schema_of(
    design: SurveyDesign, model: FBS | FBP, bounds: Bounds | None, outcomes: Mapping[str, Outcome] | None, *,
    complete: bool = True,
) -> dict[str, Outcome]:  # fmt: skip
    """Return the declared public facts (bounds or levels) of each outcome, by name.

    Raises
    ------
    InputError
        A declaration is for a column that is not an outcome, or is not valid.  ``bounds`` is one pair, but the number
        of outcomes that need bounds is not one.  ``complete`` is True, but an outcome has no declaration.
    """
    if not isinstance(design, SurveyDesign):
        raise InputError(NO_DESIGN)
    names, given = model.outcomes, as_dict(outcomes, "outcomes", "{outcome: Outcome(...)}")
    if isinstance(bounds, Mapping):
        given |= {outcome: Outcome(bounds=pair) for outcome, pair in bounds.items()}
    elif bounds is not None:
        rest = undeclared(design, [name for name in names if name not in given])
        rest = [name for name in rest if name not in model.categorical] or rest
        numbers = [name for name in rest if pd.api.types.is_numeric_dtype(design.typed(name).dtype)] or rest
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
        raise InputError(f"give {'; '.join(lacking)}")
    wrong.refuse()
    return schema


def _declared(design: SurveyDesign, name: str, given: Mapping[str, Outcome]) -> Outcome | None:
    """Return the declared bounds or levels of an outcome, given by the caller or by the column's type.

    Return None if neither the caller nor the type declares the outcome.
    """
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
    """Return, for each outcome without a declaration, a text that names the argument to give."""
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
    """Raise InputError if the unit that epsilon protects is not a column of labels, or is an outcome or a weight."""
    if unit is None:
        return
    if not isinstance(unit, str):
        raise InputError("unit must be the name of one column, such as the column of households")
    check_cells(design.column(unit), unit)
    if unit in (*outcomes, design.weights_name, design.probs_name):
        raise InputError(f"unit {unit!r} is an outcome or a weight: a unit is a column of labels that stays as it is")


def public_totals(
    design: SurveyDesign, terms: Sequence[Term], total: float | Mapping[Any, float] | None, totals: Totals | None, *,
    public_weight: bool,
) -> tuple[float, dict[str, Floats]]:  # fmt: skip
    """Return the population total and, for terms with known totals, such as region, the totals by level.

    The totals come from the arguments ``total`` and ``totals``, or are the totals to which the survey weights were
    calibrated.  With ``public_weight``, the default of the population total is the sum of the weights.

    Raises
    ------
    InputError
        There is no total.  Totals contradict each other, do not match the terms, or are below the number of records.
        Totals of levels are given although ``public_weight`` is True: public weights are not adjusted to them.
    """
    given = as_dict(totals, "population_totals", "{term: {level: total}}")
    if isinstance(total, Mapping):
        if design.strata_name is None:
            raise InputError("population_total gives totals by stratum, but the design has no strata")
        strata = (design.strata_name,)
        name = next((term.name for term in terms if term.columns == strata), design.strata_name)
        given, total = given | {name: total}, None
    by_name = {term.name: term for term in terms}
    known = {name: _level_totals(by_name, name, each) for name, each in given.items()}
    own = None if public_weight or given else calibrated_total(design)
    if own is not None and (total is None or abs(own / positive(total, "population_total") - 1) <= AGREE):
        total, known = own if total is None else total, _calibrated_totals(design, terms)
    if public_weight and known:
        raise InputError("totals of levels have no effect where weights are public, which add up to what they do")
    if public_weight:
        return float(design.weights.sum()) if total is None else check_enough(total, design.n), {}
    if total is None and not known:
        raise InputError(f"give {POPULATION}, or weight='public'")
    everybody = check_enough(next(iter(known.values())).sum() if total is None else total, design.n)
    wrong = [name for name, each in known.items() if abs(each.sum() / everybody - 1) > AGREE]
    if wrong:
        raise InputError(f"population_totals of {', '.join(map(repr, wrong))} do not add up to the population total")
    return everybody, {name: each * (everybody / each.sum()) for name, each in known.items()}


def calibrated_total(design: SurveyDesign) -> float | None:
    """Return the population total to which the weights were calibrated.

    Return None if the weights were not calibrated to totals of groups, or if the total is not a whole number.
    """
    whole = _whole(design.calibration.after.sum(keepdims=True)) if design.calibration.margins else None
    return None if whole is None else float(whole[0])


def _calibrated_totals(design: SurveyDesign, terms: Sequence[Term]) -> dict[str, Floats]:
    """Return, for each calibrated term, such as region, the totals by level to which survey weights were calibrated.

    Totals that are not whole numbers are left out.
    """
    margins, after = design.calibration.poststrata_names, design.calibration.after
    found: dict[str, Floats] = {}
    for term in terms:
        if any(set(term.columns) <= set(columns) for columns in margins):
            there = after if after.size == term.level.size else after[design.weights > 0]
            totals = _whole(np.asarray(np.bincount(term.level, there, term.levels), dtype=np.float64))
            found |= {} if totals is None else {term.name: totals}
    return found


def _whole(totals: Floats) -> Floats | None:
    """Round sums of calibrated weights to whole numbers.  Return None if a sum is not a whole number up to rounding."""
    whole = np.rint(totals)
    return whole if (whole > 0).all() and (np.abs(totals - whole) <= WHOLE * whole).all() else None


def as_dict(given: Any, name: str, form: str) -> dict[Any, Any]:
    """Return a mapping as a dictionary, or an empty dictionary for None.

    Raise InputError for anything else, with the name of the argument and the example ``form`` in the message.
    """
    if not isinstance(given, Mapping | None):
        raise InputError(f"{name} must be a mapping, {form}")
    return dict(given or {})


def _level_totals(terms: Mapping[str, Term], name: str, given: Mapping[Any, float]) -> Floats:
    """Return the given population totals for a term, such as region, in the order of the term's levels.

    Raise InputError unless each level of the term has exactly one total.
    """
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


def left_hand_side(formula: str) -> list[str]:
    """Return the names of the columns on the left-hand side of a formula: job for ``C(job)``."""
    return [category(name) or name for name in several(sides_of(formula, "")[0])]
