"""Conversion of a plan's entries to arguments of ``synthesize`` and ``expected_errors``, for strict releases.

A strict release is drawn from noisy tables.  An entry is a named value in a section of the plan; its full name is
"section.name", such as "privacy.epsilon".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..design.columns import nearest
from ..design.formula import category, sides_of
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..measuring.outcome import Outcome
from ..models.normal.fbp import FBP
from ..models.normal.fbs import FBS
from ..privacy.mechanisms import Strict, in_plans
from ..release.measurements import Measurements, read_measurements
from ..release.release import Release, read_release
from ..synthesis.all_columns import written_out
from ..synthesis.declarations import in_sequence, left_hand_side
from ..synthesis.levels import levels_by_type, undeclared
from ..synthesis.measured import M
from ..synthesis.strict_request import earlier_source
from ..validation import several
from .arguments import foretold_by
from .expected_errors import Rehearsal, rehearsals
from .sections import OutcomeSettings
from .settings import Settings

RECORD_ENTRIES = (  # entries that are only for fits to records
    "model.prior", "model.transform", "model.scale", "model.components", "model.missing", "model.engine", "privacy.map",
    "privacy.c1", "privacy.c2", "privacy.options", "privacy.risk", "privacy.known", "privacy.radius",
    "privacy.absolute", "privacy.floor", "privacy.max_risk", "privacy.reweight", "privacy.policy", "release.debias",
)  # fmt: skip
NOTHING: dict[str, Any] = {  # values of these entries that have no effect
    "model.transform": "log", "model.missing": "fail", "model.engine": "auto", "privacy.reweight": 0,
}  # fmt: skip
SYNTHESIZERS = "fbs", "fbp"
ONLY_STRICT = "privacy.population_totals", "privacy.weight_bounds", "privacy.importance", "privacy.earlier"
SHORT = {  # entries outside of [outcomes.name] with the same meaning, by name of the entry in [outcomes.name]
    "applies": "edits.applies", "elsewhere": "edits.elsewhere", "levels": "privacy.levels", "bounds": "privacy.bounds",
}  # fmt: skip
TIGHT = "from public knowledge: tight ones make shorter intervals"


def is_strict(settings: Settings) -> bool:
    """Return True if the release is drawn from noisy tables (the default) rather than from a fit to records."""
    privacy = settings.privacy
    if privacy.mechanism is not None:
        return not in_plans()[privacy.mechanism][0].fits_records
    return privacy.policy is None and settings.model.name in (None, *SYNTHESIZERS)


def _is_given(settings: Settings, entry: str) -> bool:
    """Return True if the plan gives the entry a value that has an effect.  ``entry`` is the entry's full name."""
    value = settings[entry]
    return not (value is None or value is False or value == [] or value == NOTHING.get(entry))


def refuse_record_entries(settings: Settings) -> None:
    """Raise InputError if a plan of a strict release has entries that only have an effect on fits to records."""
    wrong = [f"{entry} = {settings[entry]!r}" for entry in RECORD_ENTRIES if _is_given(settings, entry)]
    if settings.model.name not in (None, *SYNTHESIZERS):
        wrong.append(f"model.name = {settings.model.name!r}")
    for number, each in enumerate(settings.model.later_models, 1):
        if each.name != "fbs" or each.missing not in (None, "fail", "category"):
            wrong.append(f"model.later, number {number}: the name or missing of a model of records")
    if wrong:
        raise InputError(
            f"{'; '.join(wrong)}: not in a strict release, which has formulas, and declares outcomes in [outcomes]. "
            "Leave this out, or write mechanism = 'pseudo-posterior' in [privacy], whose guarantee is "
            "asymptotic"
        )


def refuse_only_strict(settings: Settings) -> None:
    """Raise InputError if a plan of a fit to records has entries that only have an effect on strict releases."""
    given = [entry for entry in ONLY_STRICT if settings[entry]] + ["outcomes"] * bool(settings.outcomes)
    if given:
        raise InputError(
            f"{', '.join(given)}: only for strict releases, which are drawn from noisy tables: leave this out, or set "
            "mechanism = 'strict' in [privacy]"
        )


def formulas_of(settings: Settings, design: SurveyDesign) -> list[str]:
    """Return the formulas of a plan in sequence.  Every dot is replaced by public columns and earlier outcomes.

    Raise InputError if there is a dot although the plan does not list the public columns, or if FBP is requested for
    several outcomes.  FBP is a joint model of one outcome and the weight.
    """
    privacy = settings.privacy
    given = [str(settings.model.formula), *(each.formula for each in settings.model.later_models)]
    names = [name for formula in given for name in left_hand_side(formula)]
    if settings.model.name == "fbp" and len(names) > 1:
        raise InputError("model.name = 'fbp' is for one outcome: leave it out, and several are synthesized by fbs")
    declared = _declared(settings, design, names)
    found: list[str] = written_out(design, given, privacy.public, privacy.epsilon, privacy.delta, declared)
    return found


def model_of(settings: Settings, design: SurveyDesign) -> FBS | FBP:
    """Return one model of all outcomes.  In its formula, categorical outcomes are written C(name)."""
    formulas = formulas_of(settings, design)
    model = in_sequence(formulas)[0]
    schema = _declared(settings, design, model.outcomes)
    names = []
    for name in model.outcomes:
        written, declared = name if name.isidentifier() else f"`{name}`", schema.get(name)
        is_category = design.declares_levels(name) if declared is None else declared.levels is not None
        names.append(f"C({written})" if is_category else written)
    kind = FBP if settings.model.name == "fbp" and len(names) == 1 else FBS
    return kind(f"{' + '.join(names)} ~ {model.predictors or '1'}")


def _declared(settings: Settings, design: SurveyDesign, names: Sequence[str]) -> dict[str, Outcome]:
    """Return the declarations of outcomes for which the plan has bounds or levels, by name of the outcome.

    Raise InputError if a declaration is given twice, or for a column that is not an outcome.
    """
    for entry in ("outcomes", *SHORT.values()):
        by_name = settings.outcomes if entry == "outcomes" else settings[entry]
        for name in by_name if isinstance(by_name, dict) else ():
            if name not in names:
                raise InputError(f"{entry} names {name!r}{nearest(name, names)}, which is no outcome of the formulas")
    found = {name: _options(settings, design, name) for name in names}
    return {name: Outcome(**each) for name, each in found.items() if "levels" in each or "bounds" in each}


def _options(settings: Settings, design: SurveyDesign, name: str) -> dict[str, Any]:
    """Return the arguments of :class:`surveysynth.Outcome` for the outcome ``name``.

    The arguments come from the section [outcomes.NAME], from entries for several outcomes, such as privacy.bounds, and
    from the levels of the column's type.  They are empty if the plan declares nothing.
    """
    given: dict[str, Any] = settings.outcomes.get(name, OutcomeSettings()).model_dump(exclude_none=True)
    for option, entry in SHORT.items():
        by_outcome = settings[entry]
        if isinstance(by_outcome, dict) and name in by_outcome:
            if option in given:
                raise InputError(f"{entry} and outcomes.{name}.{option} both declare {name!r}: leave one out")
            given[option] = by_outcome[name]
    by_type = design.declares_levels(name)
    models, short = settings.model.later_models, settings.privacy.bounds
    if isinstance(short, tuple) and "levels" not in given and _is_number(settings, design, name):
        if given.get("bounds", short) != short and not models:
            raise InputError(f"privacy.bounds and outcomes.{name}.bounds differ: leave one out")
        given.setdefault("bounds", short)
    later = {outcome: each for each in models for outcome in left_hand_side(each.formula)}.get(name)
    if "bounds" in given:
        zeros = settings.model.zeros if later is None or later.zeros is None else later.zeros
        usual = {"zeros": zeros, "whole": settings.model.kind == "count"}
        given = {option: True for option, value in usual.items() if value} | given
    if later is not None and later.missing == "category":
        given.setdefault("missing", "category")
    if given and by_type and not {"levels", "bounds"} & {*given}:
        given["levels"] = levels_by_type(design, name)
    return given


def _is_number(settings: Settings, design: SurveyDesign, name: str) -> bool:
    """Return True if the column of an outcome is numeric and is written without C() in the formula."""
    given = [str(settings.model.formula), *(each.formula for each in settings.model.later_models)]
    written = {category(each) for formula in given for each in several(sides_of(formula, "")[0])}
    numeric = pd.api.types.is_numeric_dtype(design.typed(name).dtype)
    return numeric and name not in written and not design.declares_levels(name)


def schema_of(settings: Settings, design: SurveyDesign) -> dict[str, Outcome]:
    """Return the declarations of all outcomes for which the plan has bounds or levels, by name."""
    return _declared(settings, design, in_sequence(formulas_of(settings, design))[0].outcomes)


def undeclared_outcomes(settings: Settings, design: SurveyDesign) -> dict[str, str]:
    """Return the entries that must be filled in because outcomes lack bounds or levels.

    The result has the full name of the entry, and a text on what to enter.
    """
    names = in_sequence(formulas_of(settings, design))[0].outcomes
    schema, out = _declared(settings, design, names), dict[str, str]()
    rest = undeclared(design, [name for name in names if name not in schema])
    numbers = [name for name in rest if _is_number(settings, design, name)]
    texts = [name for name in rest if name not in numbers]
    if numbers == [*names]:
        out["privacy.bounds"] = f"[lowest, highest] outcome, {TIGHT}"
    elif numbers:
        out["privacy.bounds"] = f"{{{', '.join(f'{name} = [lowest, highest]' for name in numbers)}}}, {TIGHT}"
    if texts:
        out["privacy.levels"] = levels_to_fill_in(texts)
    return out


def levels_to_fill_in(names: Sequence[str]) -> str:
    """Return a text that shows how to list the levels of the categorical outcomes ``names``."""
    template = ", ".join(f'{name} = ["...", "..."]' for name in names)
    return f"{{{template}}}, all that there can be: they are published"


def expected_arguments(settings: Settings, design: SurveyDesign) -> dict[str, Any]:
    """Return the plan's arguments of :func:`surveysynth.expected_errors`, apart from the design, by and m."""
    privacy, formulas = settings.privacy, formulas_of(settings, design)
    fbp = settings.model.name == "fbp" and len(formulas) == 1
    given = {
        "formula": FBP(formulas[0]) if fbp else formulas, "epsilon": privacy.epsilon, "delta": privacy.delta,
        "population_total": privacy.population_total, "population_totals": privacy.population_totals,
        "outcomes": _declared(settings, design, in_sequence(formulas)[0].outcomes), "weight": settings.model.weight,
        "weight_bounds": privacy.weight_bounds, "clusters": settings.model.clusters, "unit": privacy.unit,
        "importance": privacy.importance,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def planned_rehearsals(settings: Settings, design: SurveyDesign, **more: Any) -> Iterator[Rehearsal]:
    """Return an iterator that makes the plan's release and tables for one made-up file after another.

    Made-up files have the survey's public columns, and take the place of the survey
    (:mod:`surveysynth.plan.expected_errors`).  ``more`` has further arguments of
    :func:`surveysynth.plan.expected_errors.rehearsals`.
    """
    given = expected_arguments(settings, design)
    by = foretold_by(settings, design, model_of(settings, design))
    return rehearsals(design, given.pop("formula"), by=by, m=settings.release.m or M, **more, **given)


def synthesis_arguments(settings: Settings, design: SurveyDesign, folder: Path) -> dict[str, Any]:
    """Return the plan's arguments of :func:`surveysynth.synthesize`, apart from the design.

    Paths in the plan are relative to ``folder``.
    """
    given = expected_arguments(settings, design)
    formula, delta = given.pop("formula"), given.pop("delta", None)
    return given | {
        "synthesizer": formula, "mechanism": Strict(delta=delta), "m": settings.release.m,
        "public": settings.privacy.public, "edits": settings.edits.rules, "earlier": _earlier(settings, folder),
    }  # fmt: skip


def epsilon_before(settings: Settings, folder: Path) -> float:
    """Return the epsilon spent on noisy tables of earlier years, or 0 if the plan does not use such tables.

    For people who are also in this year's file, this epsilon and the epsilon of the new release add up.  Paths in the
    plan are relative to ``folder``.
    """
    source = earlier_source(_earlier(settings, folder))
    return 0.0 if source is None else sum(each.blank or 0.0 for each in (source.expense, *source.spent_before))


def _earlier(settings: Settings, folder: Path) -> Measurements | Release | None:
    """Read the noisy tables or the release of an earlier year.  Raise InputError if the plan's folder has neither."""
    if settings.privacy.earlier is None:
        return None
    place = folder / settings.privacy.earlier
    try:
        return read_measurements(place)
    except InputError:
        return read_release(place)
