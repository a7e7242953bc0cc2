"""Conversion of a plan's entries to Python objects: model, mechanism, measure of risk, release rule and policy.

An entry is a named value in a section of the plan; its full name is "section.name", such as "privacy.epsilon".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..design.columns import listing, nearest
from ..design.formula import category, formula_columns, quoted, sides_of
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..models.base import Synthesizer
from ..models.registry import MODELS, OWN_MODEL, model_from_file
from ..models.scales.normal_scores import NormalScores
from ..models.scales.transforms import as_transform
from ..models.sequential import Sequential
from ..privacy.mechanisms import Mechanism, in_plans
from ..privacy.release_rule import IdentificationRule
from ..privacy.risks.base import Risk
from ..privacy.risks.count import CountRisk
from ..privacy.risks.identification import MarginalRisk, PairwiseRisk
from ..privacy.risks.lipschitz import LipschitzRisk
from ..publication.quality import Symbols, symbols_of
from ..publication.wording import Wording
from ..release.contents import discrete_predictors
from ..synthesis.all_columns import ALL
from ..synthesis.policy import Policy
from ..synthesis.synthetic_design import public_columns
from .sections import LaterModel, Model
from .settings import Settings

MAP_ENTRIES = "map", "c1", "c2"  # entries on the map from risks to privacy weights
CONFIRMED = "population_total"  # name by which the agency accepts a total far from the sum of the weights
NEAR = "radius", "absolute", "floor"
MODEL_ENTRIES = "prior", "zeros", "missing", "weight", "components"
SET_BY_POLICY = (
    *(f"model.{name}" for name in Model.model_fields if name not in ("clusters", "engine")),
    *(f"privacy.{name}" for name in (
        "epsilon", "delta", "bounds", "levels", "mechanism", "options", *MAP_ENTRIES, "risk", "known", *NEAR,
        "reweight",
    )),
    "release.m",
)  # fmt: skip

OWN_NAMES = "records", "se_ratio", "ratio", "cv", "own", "released", "estimate"  # columns of expected errors


def synthesizer_of(settings: Settings, folder: Path) -> Synthesizer:
    """Return the model of a plan.  Paths in the plan are relative to ``folder``.

    Raise InputError if the plan has an entry that has no effect on this model.
    """
    entries, name = settings.model, settings.model.name
    assert name is not None and entries.formula is not None  # ensured by choose and lacking
    options: dict[str, Any] = {option: getattr(entries, option) for option in MODEL_ENTRIES}
    given = {option: value for option, value in options.items() if value is not None}
    outcomes, predictors = sides(entries.formula)
    if OWN_MODEL.fullmatch(name):
        _refuse(given, name)
        return model_from_file(str(folder / name), outcomes, predictors)
    if name not in MODELS:
        raise InputError(f"model.name = {name!r} is not one of {', '.join(MODELS)}, nor a model file.py:name")
    listed, takes = MODELS[name], MODELS[name].options
    _refuse({option: value for option, value in given.items() if option not in takes}, name)
    if settings.privacy.bounds is not None and "bounds" in takes:
        given["bounds"] = settings.privacy.bounds
    elif settings.privacy.bounds is not None and "transform" not in takes and not entries.later:
        raise InputError(f"privacy.bounds: not with model.name = {name!r}; leave it out")
    if entries.scale is not None and entries.transform is None:
        raise InputError("model.scale: only with model.transform = 'identity' or 'asinh'")
    if entries.transform is not None:
        _refuse({} if "transform" in takes else {"transform": entries.transform}, name)
        scores = entries.transform.endswith(".json")
        given["transform"] = (
            NormalScores.load(folder / entries.transform) if scores else as_transform(entries.transform, entries.scale)
        )
    if listed.one_outcome and len(outcomes) != 1:
        raise InputError(f"model.name = {name!r} synthesizes one outcome")
    first = listed.make(outcomes[0] if len(outcomes) == 1 else outcomes, predictors, **given)
    if not entries.later:
        _refuse_sequence_entries(settings)
        return first
    if name != "fbs":
        raise InputError("model.later: further outcomes go with model.name = 'fbs'")
    models = [first, *(_later(each, given, settings.privacy.bounds) for each in settings.model.later_models)]
    return Sequential(models, applies=settings.edits.applies, elsewhere=settings.edits.elsewhere)


def _refuse_sequence_entries(settings: Settings) -> None:
    """Raise InputError if a plan with a single model has entries that need several models in sequence."""
    names = "edits.applies", "edits.elsewhere"
    if stray := [name for name in names if settings[name] is not None]:
        raise InputError(f"{', '.join(stray)}: only with model.later")


def _later(later: LaterModel, given: dict[str, Any], bounds: Any) -> Synthesizer:
    """Return the model of a later outcome in a sequence of models.

    ``given`` are the options of the first model; the later model takes over those that it also has.
    """
    listed = MODELS[later.name]
    outcomes, predictors = sides(later.formula)
    if len(outcomes) != 1:
        raise InputError(f"model.later: {later.formula!r} has {len(outcomes)} outcomes: write a formula for each")
    outcome = outcomes[0]
    shared = ("prior", "missing", "transform") if later.name == "fbs" else ("missing",)
    own = {option: given[option] for option in shared if option in given}
    _refuse({} if later.zeros is None else {"zeros": later.zeros}, later.name)
    if later.missing is not None:
        own["missing"] = later.missing
    if later.name == "beta":
        if not isinstance(bounds, Mapping) or outcome not in bounds:
            raise InputError(f"a share has public bounds: privacy.bounds = {{{outcome} = [0, 1], ...}}, by outcome")
        own["bounds"] = bounds[outcome]
    return listed.make(outcome, predictors, **own)


def mechanism_of(settings: Settings) -> Mechanism:
    """Return the mechanism of a plan.

    Raise InputError if the plan has an entry that has no effect under this mechanism.
    """
    privacy = settings.privacy
    assert privacy.mechanism is not None  # ensured by choose
    mechanism, name = in_plans()[privacy.mechanism]
    arguments = {entry: getattr(privacy, entry) for entry in ("delta", *MAP_ENTRIES, "risk")}
    arguments = {entry: value for entry, value in arguments.items() if value is not None}
    risk = _risk(settings)
    if wrong := [f"privacy.{entry}" for entry in arguments if entry not in name.entries]:
        has = "which has privacy weights" if "risk" in name.entries else "which has no privacy weights"
        raise InputError(f"{', '.join(wrong)}: not with privacy.mechanism = {privacy.mechanism!r}, {has}; leave it out")
    if "risk" in name.entries:
        arguments["risk"] = risk
    try:
        return mechanism(**name.options, **arguments, **privacy.options or {})
    except TypeError:
        raise InputError(f"privacy.options: not all are options of privacy.mechanism = {privacy.mechanism!r}") from None


def _risk(settings: Settings) -> Risk:
    """Return the measure of risk of a plan.  Raise InputError for entries that have no effect on this measure."""
    privacy = settings.privacy
    name = privacy.risk or "lipschitz"
    ruled = privacy.max_risk is not None  # a release rule uses the entries on the intruder, too
    if name in ("lipschitz", "count") and not ruled:
        _refuse_stray(settings, ("known",), "privacy.risk = 'marginal' or 'pairwise', or privacy.max_risk")
    if name == "lipschitz":
        if not ruled:
            _refuse_stray(settings, NEAR, "privacy.risk = 'count', 'marginal' or 'pairwise', or privacy.max_risk")
        return LipschitzRisk()
    if name == "count":
        return CountRisk(**_ball(settings))
    return {"marginal": MarginalRisk, "pairwise": PairwiseRisk}[name](tuple(privacy.known or ()), **_ball(settings))


def rule_of(settings: Settings) -> IdentificationRule | None:
    """Return the rule that limits the identification risks of a release, or None if the plan has no limit.

    Errors are raised as by :class:`IdentificationRule`.
    """
    privacy = settings.privacy
    if privacy.max_risk is None:
        return None
    return IdentificationRule(tuple(privacy.known or ()), privacy.max_risk, **_ball(settings))


def policy_of(settings: Settings, folder: Path) -> Policy | None:
    """Return the policy that a plan names, or None.

    A policy fixes the model, epsilon, the mechanism and m.  Raise InputError if the plan has entries for these as well.
    """
    if settings.privacy.policy is None:
        return None
    plain = Settings.empty()
    twice = [entry for entry, value in settings.items() if value != plain[entry] and entry in SET_BY_POLICY]
    if twice:
        raise InputError(f"{', '.join(twice)}: the policy sets this; leave it out, or make another policy")
    if settings.privacy.max_risk is not None:
        raise InputError("privacy.max_risk: not with a policy: what a rule let through is not strictly private")
    return Policy.load(folder / settings.privacy.policy)


def _ball(settings: Settings) -> dict[str, Any]:
    """Return the arguments of a risk measure or release rule that set the size of the balls around true values."""
    privacy = settings.privacy
    if privacy.absolute and privacy.radius is None:
        raise InputError("privacy.absolute needs privacy.radius, in the unit of the outcome")
    sizes = {"radius": privacy.radius, "floor": privacy.floor}
    given = {name: tuple(size) if isinstance(size, list) else size for name, size in sizes.items() if size is not None}
    return {"relative": not privacy.absolute} | given


def _refuse_stray(settings: Settings, names: tuple[str, ...], needed: str) -> None:
    stray = [f"privacy.{name}" for name in names if getattr(settings.privacy, name) is not None]
    if stray:
        raise InputError(f"{', '.join(stray)}: only with {needed}")


def by_of(settings: Settings, design: SurveyDesign, model: Synthesizer) -> list[str]:
    """Return the variables that define the domains of the published tables, by default the discrete predictors.

    The default is that of :meth:`surveysynth.Release.table_predictors`.  Raise InputError if a variable is neither a
    predictor nor a categorical outcome, because the release would not preserve relations with such a variable.
    """
    for name in settings.tables.by or ():
        if name not in (*model.predictor_columns, *model.categorical):
            raise InputError(
                f"tables.by names {name!r}, which is not a predictor, so the release would not preserve it"
            )
    if settings.tables.by is not None:
        return settings.tables.by
    predictors = [name for name in public_columns(design, model) if name in model.predictor_columns]
    return discrete_predictors(design.select(predictors), predictors)


def foretold_by(settings: Settings, design: SurveyDesign, model: Synthesizer) -> list[str]:
    """Return the variables by which expected errors are computed: those of the tables that are public.

    Outcomes are left out, because their values are confidential, and variables that are named as a column of the
    results.
    """
    return [name for name in by_of(settings, design, model) if name not in (*model.outcomes, *OWN_NAMES)]


def print_of(settings: Settings, model: Synthesizer, folder: Path) -> tuple[Symbols, Wording]:
    """Return the quality symbols and the wording of headings, titles and footnotes for printed tables.

    Raise InputError if symbols or words are not valid, or units of measurement are given for columns that are not
    outcomes.
    """
    tables = settings.tables
    for name in tables.units or ():
        if name not in model.outcomes:
            raise InputError(f"tables.units names {name!r}, which is not an outcome: {', '.join(model.outcomes)}")
    return symbols_of(tables.symbols), Wording(folder / tables.wording if tables.wording else None)


def accepted_of(settings: Settings) -> list[str]:
    """Return the names of accepted defects of a fit: failed diagnostics, or "information" for low privacy weights."""
    return [name for name in settings.release.accept or () if name != CONFIRMED]


def check_formulas(settings: Settings, columns: Sequence[str]) -> None:
    """Raise InputError for formulas that cannot be parsed, or that name columns that the file does not have.

    If names of columns have blanks or special characters, the message shows the formula with backticks around them.
    """
    if settings.privacy.policy is not None:  # the policy sets the model
        return
    formulas = {"model.formula": settings.model.formula}
    formulas |= {f"model.later, number {i}": each.formula for i, each in enumerate(settings.model.later_models, 1)}
    for entry, formula in formulas.items():
        if formula is None:
            continue
        wrong = _formula_fault(formula, columns)
        if not wrong:
            continue
        better = quoted(formula, columns)
        if better != formula and not _formula_fault(better, columns):
            raise InputError(f"{entry}: names of columns with blanks or signs stand in backticks: write '{better}'")
        raise InputError(f"{entry}: {wrong}")


def _formula_fault(formula: str, columns: Sequence[str]) -> str:
    """Return the error message on a formula for a file with these columns; empty if nothing is wrong."""
    try:
        outcomes, predictors = sides(formula)
        names = [*(category(outcome) or outcome for outcome in outcomes)]
        names += [] if predictors == ALL else formula_columns(predictors)
    except InputError as error:
        return str(error)
    unknown = [name for name in names if name not in columns]
    return "" if not unknown else (
        f"there is no column {unknown[0]!r}{nearest(unknown[0], columns)}; the file has {listing(columns)}"
    )  # fmt: skip


def sides(formula: str) -> tuple[list[str], str]:
    """Return the outcomes of a formula as a list, and its predictors as text.

    Raise InputError if there are no predictors.
    """
    outcome, predictors = sides_of(formula, "")
    if not predictors:
        raise InputError(f"model.formula = {formula!r}: write outcome ~ predictors, as 'income ~ region + sex'")
    return [outcome] if isinstance(outcome, str) else list(outcome), predictors


def _refuse(given: dict[str, Any], name: str) -> None:
    if given:
        wrong = ", ".join(f"model.{option}" for option in given)
        raise InputError(f"{wrong}: not with model.name = {name!r}; leave it out")
