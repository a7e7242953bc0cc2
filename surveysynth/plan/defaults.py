"""Defaults of a plan.  They are chosen from public facts and other entries, never from confidential values.

An entry is a named value in a section of the plan; its full name is "section.name", such as "privacy.epsilon".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..choices import OutcomeKind
from ..design.survey_design import SurveyDesign
from ..models.base import Boundable, Synthesizer
from ..models.predictors.model_matrix import predictor_rows
from ..models.registry import MODELS
from ..privacy.mechanisms import in_plans
from ..synthesis.fit_request import M_OF_RECORDS
from ..synthesis.measured import M
from .arguments import check_formulas, sides, synthesizer_of
from .public_facts import PublicFacts
from .settings import Settings
from .strict import is_strict, model_of, refuse_only_strict, refuse_record_entries

MODEL_BY_KIND: dict[OutcomeKind, tuple[str, str]] = {
    "amount": ("fbs", "amounts: FBS, outcome and weight as one regression"),
    "count": ("nb", "counts: a negative binomial regression"),
    "share": ("beta", "shares within bounds: a beta regression"),
}
SCALE = 400.0  # the scale in asinh(y / scale) is the largest bound divided by SCALE
PER_COLUMN = 50  # with at least this many records per column of predictors a flat prior is chosen: it hardly matters


def choose(settings: Settings, facts: PublicFacts, folder: Path) -> tuple[Settings, dict[str, str]]:
    """Choose values for entries that are not given, and return the settings with the reason for each choice.

    Such entries are the model, the mechanism and m.  Public facts, such as bounds and population totals, are not
    chosen, because only the agency knows them.

    Parameters
    ----------
    settings : Settings
        The entries of the plan, with a formula.
    facts : PublicFacts
        The file.  Only its size, its design, its predictors and the types of its columns are used.
    folder : Path
        Folder to which paths in the plan are relative.

    Returns
    -------
    settings : Settings
        The entries, including those that were chosen.
    reasons : dict of str to str
        The reason for each chosen entry, by full name of the entry.

    Raises
    ------
    InputError
        A formula cannot be parsed or names unknown columns, or an entry has no effect under the plan's mechanism.
    """
    reasons: dict[str, str] = {}
    design = facts.design
    check_formulas(settings, design.columns)

    def say(entry: str, value: Any, why: str) -> None:
        nonlocal settings
        if settings[entry] is None and value is not None:
            settings = settings.set({entry: value})
            reasons[entry] = f"chosen. {why}"

    if is_strict(settings):
        refuse_record_entries(settings)
        strict_model = model_of(settings, design)
        for column in (*strict_model.outcomes, *strict_model.predictor_columns):
            design.column(column)
        say("model.name", "fbs", "outcome and weight, from noisy tables")
        how = "pure differential privacy" if settings.privacy.delta is None else "differential privacy up to delta"
        say("privacy.mechanism", "strict", f"{how} at the file's own number of records")
        if settings.survey.unweighted:
            say("model.weight", "public", "every record has the same weight")
        say("release.m", M, "data sets are drawn from noisy tables, and cost no epsilon")
        return settings, reasons
    refuse_only_strict(settings)
    say("model.name", *MODEL_BY_KIND[settings.model.kind])
    model = _model(settings, folder)
    for column in (*model.outcomes, *model.predictor_columns):
        design.column(column)  # mistyped names are refused at once
    say("privacy.mechanism", *_mechanism_for(model))
    mechanism: Any = in_plans()[str(settings.privacy.mechanism)][0]  # a mechanism that fits records
    takes = _takes(settings)
    if settings.survey.unweighted and "weight" in takes:
        say("model.weight", "public", "every record has the same weight")
    if "transform" in takes and settings.privacy.bounds is not None:
        low, high = _outer(settings.privacy.bounds)
        if low > 0:
            say("model.transform", "log", "amounts within the bounds are positive")
        else:
            say("model.transform", "asinh", "amounts can be zero or negative within the bounds")
        if settings.model.transform == "asinh":
            say("model.scale", max(abs(low), abs(high)) / SCALE, "1/400 of the largest bound; public")
    if mechanism.tunes_c1 and settings.model.name == "fbs" and not design.clustered:
        columns = _columns(settings, design)
        if facts.n >= PER_COLUMN * columns:
            say("model.prior", "flat", f"{columns} columns, {facts.n:,} records: draws are exact, without chains")
    if settings.privacy.epsilon is not None:
        say("release.m", M_OF_RECORDS, "the papers'")
    return settings, reasons


def lacking(settings: Settings, *, at_hand: bool) -> dict[str, str]:
    """Return, for each entry that the agency must still fill in, a text on what to enter, by name of the entry.

    If ``at_hand``, the design is in memory, so that the plan needs no path of the confidential file.
    """
    privacy, out = settings.privacy, {}
    if settings.survey.file is None and not at_hand:
        out["survey.file"] = "path of the confidential file"
    if not settings.survey.weighted:
        out["survey.weights"] = (
            "column of survey weights (or probs = column of inclusion probabilities, or unweighted = true)"
        )
    by_policy = privacy.policy is not None
    if settings.model.formula is None and not by_policy:
        out["model.formula"] = "'outcome ~ public predictors', as 'income ~ region + sex'"
    if privacy.epsilon is None and privacy.c1 is None and not by_policy:
        out["privacy.epsilon"] = "budget of the whole release; surveysynth check predicts the accuracy"
    strict = is_strict(settings)
    has_total = privacy.population_total is not None or (
        strict and (privacy.population_totals is not None or settings.model.weight == "public")
    )
    mechanism = privacy.mechanism or ("strict" if strict else None)
    if not has_total and mechanism is not None and "population_total" in in_plans()[mechanism][1].asks:
        out["privacy.population_total"] = "number of population units, from a census or a register, not from this file"
    if by_policy or privacy.bounds is not None or settings.outcomes:
        return out
    if strict or _needs_bounds(settings):
        out["privacy.bounds"] = "[lowest, highest] outcome, from public knowledge: tight ones make shorter intervals"
    return out


def _mechanism_for(model: Synthesizer) -> tuple[str, str]:
    if isinstance(model, Boundable):
        return "censored", "strict: what a record adds to the likelihood is clamped"
    return "pseudo-posterior", (
        "asymptotic, as records are fitted; without model.name the release is strict, and the schema says the kind of "
        "outcome"
    )


def _model(settings: Settings, folder: Path) -> Synthesizer:
    """Return the plan's model without transform and scale, to find out its columns and options."""
    bare: dict[str, Any] = {"model.transform": None, "model.scale": None}
    if "bounds" in _takes(settings) and settings.privacy.bounds is None:
        bare["privacy.bounds"] = (0.0, 1.0)
    return synthesizer_of(settings.set(bare), folder)


def categorical_of(settings: Settings, folder: Path) -> tuple[str, ...]:
    """Return the names of the categorical outcomes of the plan's model."""
    return _model(settings, folder).categorical


def _takes(settings: Settings) -> Any:
    name = str(settings.model.name)
    return MODELS[name].options if name in MODELS else {}


def _needs_bounds(settings: Settings) -> bool:
    option = _takes(settings).get("bounds")
    return option is not None and option.default is option.empty


def _outer(bounds: Any) -> tuple[float, float]:
    pairs = list(bounds.values()) if isinstance(bounds, dict) else [bounds]
    return min(low for low, _ in pairs), max(high for _, high in pairs)


def _columns(settings: Settings, design: SurveyDesign) -> int:
    return int(predictor_rows(design, sides(str(settings.model.formula))[1], None)[0].shape[1])
