"""What a plan says of a strict release from noisy tables, as arguments of ``synthesize`` and ``expected_errors``."""

from __future__ import annotations

from collections.abc import Sequence
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
from ..synthesis.levels import levels_by_type, undeclared
from ..synthesis.measured import in_sequence, of_an_earlier_year
from ..validation import several
from .settings import OutcomeSettings, Settings

OF_RECORDS = (  # entries that only fits to records have
    "model.prior", "model.transform", "model.scale", "model.components", "model.missing", "model.engine", "privacy.map",
    "privacy.c1", "privacy.c2", "privacy.options", "privacy.risk", "privacy.known", "privacy.radius",
    "privacy.absolute", "privacy.floor",
    "privacy.max_risk", "privacy.reweight", "privacy.policy", "release.debias",
)  # fmt: skip
NOTHING: dict[str, Any] = {  # values of such entries that ask for nothing
    "model.transform": "log", "model.missing": "fail", "model.engine": "auto", "privacy.reweight": 0,
}  # fmt: skip
SYNTHESIZERS = "fbs", "fbp"
ONLY_STRICT = "privacy.population_totals", "privacy.weight_bounds", "privacy.importance", "privacy.earlier"
SHORT = {  # entries that say of all outcomes, or by outcome, what [outcomes.name] says
    "applies": "edits.applies", "elsewhere": "edits.elsewhere", "levels": "privacy.levels", "bounds": "privacy.bounds",
}  # fmt: skip
TIGHT = "from public knowledge: tight ones make shorter intervals"


def is_strict(settings: Settings) -> bool:
    """Whether the release is drawn from noisy tables, the default; else records are fitted."""
    privacy = settings.privacy
    if privacy.mechanism is not None:
        return not in_plans()[privacy.mechanism][0].fits_records
    return privacy.policy is None and settings.model.name in (None, *SYNTHESIZERS)


def _is_said(settings: Settings, entry: str) -> bool:
    """Whether an entry asks for something."""
    value = settings[entry]
    return not (value is None or value is False or value == [] or value == NOTHING.get(entry))


def refuse_of_records(settings: Settings) -> None:
    """Refuse what only fits to records have, where the release is drawn from noisy tables (InputError)."""
    wrong = [f"{entry} = {settings[entry]!r}" for entry in OF_RECORDS if _is_said(settings, entry)]
    if settings.model.name not in (None, *SYNTHESIZERS):
        wrong.append(f"model.name = {settings.model.name!r}")
    for number, each in enumerate(settings.model.later_models, 1):
        if each.name != "fbs" or each.missing not in (None, "fail", "category"):
            wrong.append(f"model.later, number {number}: the name or missing of a model of records")
    if wrong:
        raise InputError(
            f"{'; '.join(wrong)}: not in a strict release, which has the formulas, and in [outcomes] what kind each "
            "outcome is. Leave this out, or say mechanism = 'pseudo-posterior' in [privacy], whose guarantee is "
            "asymptotic"
        )


def refuse_only_strict(settings: Settings) -> None:
    """Refuse entries that only releases from noisy tables have, where records are fitted (InputError)."""
    given = [entry for entry in ONLY_STRICT if settings[entry]] + ["outcomes"] * bool(settings.outcomes)
    if given:
        raise InputError(
            f"{', '.join(given)}: only for strict releases, which are drawn from noisy tables: leave this out, or say "
            "mechanism = 'strict' in [privacy]"
        )


def formulas_of(settings: Settings, design: SurveyDesign) -> list[str]:
    """One formula for each outcome, or several, in sequence; a dot is written out (InputError: no public columns)."""
    privacy = settings.privacy
    given = [str(settings.model.formula), *(each.formula for each in settings.model.later_models)]
    names = [name for formula in given for name in _outcomes(formula)]
    if settings.model.name == "fbp" and len(names) > 1:
        raise InputError("model.name = 'fbp' is for one outcome: leave it out, and several are synthesized by fbs")
    declared = _declared(settings, design, names)
    found: list[str] = written_out(design, given, privacy.public, privacy.epsilon, privacy.delta, declared)
    return found


def model_of(settings: Settings, design: SurveyDesign) -> FBS | FBP:
    """One model of all outcomes, of which those that are categories are written C(name)."""
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
    """The outcomes of which the plan says something, by name (InputError: one thing twice, or of other columns)."""
    for entry in ("outcomes", *SHORT.values()):
        by_name = settings.outcomes if entry == "outcomes" else settings[entry]
        for name in by_name if isinstance(by_name, dict) else ():
            if name not in names:
                raise InputError(f"{entry} names {name!r}{nearest(name, names)}, which is no outcome of the formulas")
    found = {name: _options(settings, design, name) for name in names}
    return {name: Outcome(**each) for name, each in found.items() if "levels" in each or "bounds" in each}


def _options(settings: Settings, design: SurveyDesign, name: str) -> dict[str, Any]:
    """The arguments of one Outcome: what the plan says of it, and what it says of all."""
    given: dict[str, Any] = settings.outcomes.get(name, OutcomeSettings()).model_dump(exclude_none=True)
    for option, entry in SHORT.items():
        of_all = settings[entry]
        if isinstance(of_all, dict) and name in of_all:
            if option in given:
                raise InputError(f"{entry} and outcomes.{name}.{option} both declare {name!r}: leave one out")
            given[option] = of_all[name]
    by_type = design.declares_levels(name)
    if isinstance(settings.privacy.bounds, tuple) and "levels" not in given and _is_number(settings, design, name):
        given.setdefault("bounds", settings.privacy.bounds)
    later = {of: each for each in settings.model.later_models for of in _outcomes(each.formula)}.get(name)
    if "bounds" in given:
        zeros = settings.model.zeros if later is None or later.zeros is None else later.zeros
        usual = {"zeros": zeros, "whole": settings.model.kind == "count"}
        given = {option: True for option, value in usual.items() if value} | given
    if later is not None and later.missing == "category":
        given.setdefault("missing", "category")
    if given and by_type and not {"levels", "bounds"} & {*given}:
        given["levels"] = levels_by_type(design, name)
    return given


def _outcomes(formula: str) -> list[str]:
    """The columns on the left of a formula."""
    return [category(name) or name for name in several(sides_of(formula, "")[0])]


def _is_number(settings: Settings, design: SurveyDesign, name: str) -> bool:
    """Whether an outcome is a number by its column's type, and not written C(name)."""
    given = [str(settings.model.formula), *(each.formula for each in settings.model.later_models)]
    written = {category(each) for formula in given for each in several(sides_of(formula, "")[0])}
    numeric = pd.api.types.is_numeric_dtype(design.typed(name).dtype)
    return numeric and name not in written and not design.declares_levels(name)


def undeclared_outcomes(settings: Settings, design: SurveyDesign) -> dict[str, str]:
    """What is to be filled in of outcomes of which nothing says what they are, by entry."""
    names = in_sequence(formulas_of(settings, design))[0].outcomes
    schema, out = _declared(settings, design, names), dict[str, str]()
    left = undeclared(design, [name for name in names if name not in schema])
    numbers = [name for name in left if _is_number(settings, design, name)]
    texts = [name for name in left if name not in numbers]
    if numbers == [*names]:
        out["privacy.bounds"] = f"[lowest, highest] outcome, {TIGHT}"
    elif numbers:
        out["privacy.bounds"] = f"{{{', '.join(f'{name} = [lowest, highest]' for name in numbers)}}}, {TIGHT}"
    if texts:
        out["privacy.levels"] = levels_to_fill_in(texts)
    return out


def levels_to_fill_in(names: Sequence[str]) -> str:
    """How the levels of categories are written, for somebody to fill in."""
    template = ", ".join(f'{name} = ["...", "..."]' for name in names)
    return f"{{{template}}}, all that there can be: they are published"


def expected_arguments(settings: Settings, design: SurveyDesign) -> dict[str, Any]:
    """The arguments of ``expected_errors`` beside the design."""
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


def synthesis_arguments(settings: Settings, design: SurveyDesign, folder: Path) -> dict[str, Any]:
    """The arguments of ``synthesize`` beside the design; paths are seen from a folder."""
    given = expected_arguments(settings, design)
    formula, delta = given.pop("formula"), given.pop("delta", None)
    return given | {
        "synthesizer": formula, "mechanism": Strict(delta=delta), "m": settings.release.m,
        "public": settings.privacy.public, "edits": settings.edits.rules, "earlier": _earlier(settings, folder),
    }  # fmt: skip


def epsilon_before(settings: Settings, folder: Path) -> float:
    """Epsilon of an earlier year's tables, which adds up with this one's for people who are in both files."""
    source = of_an_earlier_year(_earlier(settings, folder))
    return 0.0 if source is None else sum(each.blank or 0.0 for each in (source.expense, *source.spent_before))


def _earlier(settings: Settings, folder: Path) -> Measurements | Release | None:
    """An earlier year's measurements, or its release (InputError: neither is there)."""
    if settings.privacy.earlier is None:
        return None
    place = folder / settings.privacy.earlier
    try:
        return read_measurements(place)
    except InputError:
        return read_release(place)
