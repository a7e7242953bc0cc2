"""What a plan chooses where its user said nothing: from public facts and arguments, never from confidential values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..choices import OutcomeKind
from ..design.survey_design import SurveyDesign
from ..errors import PrivacyError
from ..models.base import Boundable, Relative, Synthesizer
from ..models.registry import MODELS
from ..models.sequential import Sequential
from ..models.shared.predictors import predictor_rows
from ..privacy.budget import Budget
from ..privacy.expected_accuracy import Sized, expected_se, expected_split, information_and_noise
from ..privacy.mechanisms import Strict
from .known import Known
from .measured import M
from .parts import MECHANISMS, bounds_of_scores, check_formulas, mechanism_of, sides, synthesizer_of
from .sequence import sizes_of
from .settings import MechanismName, Settings
from .strict_plan import is_strict, model_of, refuse_only_strict

MODEL_OF: dict[OutcomeKind, tuple[str, str]] = {
    "amount": ("fbs", "amounts: FBS, outcome and weight as one regression"),
    "count": ("nb", "counts: a negative binomial regression"),
    "share": ("beta", "shares within bounds: a beta regression"),
}
SCALE = 400.0  # of asinh(y / (highest / SCALE)), where amounts can be zero or negative
PER_COLUMN = 50  # records per column of the predictors from which a flat prior says as little as any
RANGE = 2, 3, 4, 5  # of m that are compared


def choose(settings: Settings, known: Known, folder: Path) -> tuple[Settings, dict[str, str]]:
    """The settings with everything said that a release needs, but for public facts; and why, by entry.

    Parameters
    ----------
    settings : Settings
        With a formula.
    known : Known
        The size of the file, its predictors and the names of its categories: nothing else is looked at.
    folder : Path
        Which paths in the plan are seen from.
    """
    reasons: dict[str, str] = {}
    design = known.design
    check_formulas(settings, design.columns)

    def say(entry: str, value: Any, why: str) -> None:
        nonlocal settings
        if settings[entry] is None and value is not None:
            settings = settings.set({entry: value})
            reasons[entry] = f"chosen. {why}"

    if is_strict(settings):
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
    say("model.name", *MODEL_OF[settings.model.kind])
    model = _model(settings, folder)
    for column in (*model.outcomes, *model.predictor_columns):
        design.column(column)  # mistyped names are refused at once
    say("privacy.mechanism", *_mechanism_for(model))
    strict, pseudo = settings.privacy.mechanism == "strict", settings.privacy.mechanism == "pseudo-posterior"
    takes = _takes(settings)
    if settings.survey.unweighted and "weight" in takes:
        say("model.weight", "public", "every record has the same weight")
    if strict:
        numeric = _model(settings, folder).numeric
        if numeric and settings.privacy.reference is None and "transform" in takes:
            say("model.transform", "scores", "private normal scores of this file within the bounds")
        if hasattr(MODELS.get(str(settings.model.name)) and MODELS[str(settings.model.name)].kind, "curved"):
            say("model.weight", "curved", "the weight may bend with the outcome")
    elif not strict and "transform" in takes and settings.privacy.bounds is not None:
        low, high = _outer(settings.privacy.bounds)
        if low > 0:
            say("model.transform", "log", "amounts within the bounds are positive")
        else:
            say("model.transform", "asinh", "amounts can be zero or negative within the bounds")
        if settings.model.transform == "asinh":
            say("model.scale", max(abs(low), abs(high)) / SCALE, "1/400 of the largest bound; public")
    if pseudo and settings.model.name == "fbs" and not design.clustered:
        columns = _columns(settings, design)
        if known.n >= PER_COLUMN * columns:
            say("model.prior", "flat", f"{columns} columns, {known.n:,} records: draws are exact, without chains")
    if settings.privacy.epsilon is not None:
        say("release.m", *_data_sets(settings, known, folder))
    if strict and settings.model.later and not lacking(settings, folder, at_hand=True):
        say("privacy.shares", *_split(settings, known, folder))
    return settings, reasons


def lacking(settings: Settings, folder: Path, *, at_hand: bool) -> dict[str, str]:
    """What only the agency can say and has not said, by entry; ``at_hand``: there is a design, whatever its file."""
    said, out = settings.privacy, {}
    if settings.survey.file is None and not at_hand:
        out["survey.file"] = "path of the confidential file"
    if not settings.survey.weighted:
        out["survey.weights"] = (
            "column of survey weights (or probs = column of inclusion probabilities, or unweighted = true)"
        )
    by_policy = said.policy is not None
    unknown = settings.model.formula is None and not by_policy
    if unknown:
        out["model.formula"] = "'outcome ~ public predictors', as 'income ~ region + sex'"
    if said.epsilon is None and said.c1 is None and not by_policy:
        out["privacy.epsilon"] = "budget of the whole release; surveysynth check says what it buys"
    told = said.population_total is not None or (
        is_strict(settings) and (said.population_totals is not None or settings.model.weight == "public")
    )
    if not told and said.mechanism in (None, "strict", "censored", "censored-weighted"):
        out["privacy.population_total"] = "number of population units, from a census or a register, not from this file"
    if by_policy or said.bounds is not None or settings.outcomes:
        return out
    undecided = unknown or said.mechanism is None or is_strict(settings)  # whose outcomes are asked for one by one
    if said.reference is None if undecided else _needs_bounds(settings, folder):
        out["privacy.bounds"] = "[lowest, highest] outcome, from public knowledge: tight ones make shorter intervals"
    return out


def expected_of_models(
    settings: Settings, known: Known, folder: Path, m: int | None = None
) -> dict[str, tuple[float, float]]:
    """Epsilon, and expected standard error of a mean over the file's own, of each model in sequence, by its outcomes.

    Raises
    ------
    PrivacyError
        The release would be refused.
    """
    model = synthesizer_of(settings, folder)
    assert isinstance(model, Sequential) and settings.privacy.epsilon is not None
    budget = Budget(settings.privacy.epsilon, m or settings.release.m or 3)
    sized = _sizes(settings, known.design, folder)
    out = dict[str, tuple[float, float]]()
    for own, of, share in zip(model.models, sized, model.split, strict=True):
        epsilon = budget.epsilon * share  # type: ignore[operator]
        a, noise = information_and_noise(
            known.n, of.parameters, Budget(epsilon, budget.m), numbers=of.numbers, reference=False, scores=of.scores,
            tailed=of.tailed, later=of.later, measured=of.measured,
        )  # fmt: skip
        out[", ".join(own.outcomes)] = epsilon, (1 + (1 + 1 / a) / budget.m + noise) ** 0.5
    return out


def _sizes(settings: Settings, design: SurveyDesign, folder: Path) -> tuple[Sized, ...]:
    """What is public of the size of each model in sequence."""
    model = mechanism_of(settings, folder).under(synthesizer_of(settings, folder))
    assert isinstance(model, Sequential)
    return sizes_of(design, model, bounds_of_scores(settings))


def _split(settings: Settings, known: Known, folder: Path) -> tuple[list[float] | None, str]:
    """Shares of epsilon, rounded, and why."""
    assert settings.privacy.epsilon is not None
    budget = Budget(settings.privacy.epsilon, settings.release.m or 3)
    found = expected_split(_sizes(settings, known.design, folder), known.n, budget)
    why = "What makes the mean of the expected variances, over the file's own, least, by public numbers"
    return None if found is None else [round(share, 3) for share in found], why


def expected(
    settings: Settings, known: Known, folder: Path, m: int | None = None, *, records: int | None = None
) -> float | None:
    """Expected standard error of a mean over the file's own; None where there is no public way to say it.

    Of models in sequence the largest.

    Parameters
    ----------
    settings, known, folder
        As :func:`choose` takes them.
    m : int, optional
        Another number of data sets than the plan's.
    records : int, optional
        Another number of records than the file's.

    Raises
    ------
    PrivacyError
        The release would be refused.
    """
    said = settings.privacy
    if said.mechanism != "strict" or said.epsilon is None:
        return None
    model = synthesizer_of(settings, folder)
    if isinstance(model, Sequential):
        if settings.privacy.shares is None:
            with_m = settings.set({"release.m": m or settings.release.m})
            settings = settings.set({"privacy.shares": _split(with_m, known, folder)[0]})
        return max(ratio for _, ratio in expected_of_models(settings, known, folder, m).values())
    if not isinstance(model, Relative):
        return None
    mechanism, clusters = mechanism_of(settings, folder), settings.model.clusters or "model"
    fitted = mechanism.under(model)
    assert isinstance(mechanism, Strict) and isinstance(fitted, Relative)  # as was said above
    numbers, parameters = fitted.expected_dimensions(known.design, clusters)
    n = records or (known.n if said.unit is None else known.design.column(said.unit).nunique())
    return expected_se(
        n, parameters, said.epsilon, m or settings.release.m, numbers=numbers, reference=said.reference is not None,
        scores=bounds_of_scores(settings) is not None, tailed=model.tailed,
        measured=mechanism.measured(model, psus=known.design.clustered and clusters == "model"),
    )  # fmt: skip


def _mechanism_for(model: Synthesizer) -> tuple[MechanismName, str]:
    if isinstance(model, Relative | Sequential):
        return "strict", "pure differential privacy at the file's own number of records"
    if isinstance(model, Boundable):
        return "censored", f"strict; {model.name} has no clipped likelihood ratio yet"
    return "pseudo-posterior", f"asymptotic: {model.name} has no strict mechanism yet"


def _data_sets(settings: Settings, known: Known, folder: Path) -> tuple[int, str]:
    epsilon = settings.privacy.epsilon
    shares = 1 + len(settings.model.later or ()) if settings.privacy.mechanism == "strict" else 1
    share = None if epsilon is None else epsilon / shares
    m = MECHANISMS[settings.privacy.mechanism or "strict"]().data_sets(share)
    ready = settings.privacy.mechanism == "strict" and not lacking(settings, folder, at_hand=True)
    if not ready:
        return m, "the mechanism's default at this epsilon" if settings.privacy.mechanism == "strict" else "the papers'"
    ratios = {}
    for each in RANGE:
        try:
            ratios[each] = expected(settings, known, folder, each)
        except PrivacyError:  # rival modes could have weight with so many
            continue
    possible = [each for each in ratios if each <= m]
    said = ", ".join(f"{ratio:.2f} with {each}" for each, ratio in ratios.items())
    return max(possible, default=m), f"Expected standard errors over the file's own: {said or 'not known'}"


def _model(settings: Settings, folder: Path) -> Synthesizer:
    """The model, before its scale is chosen: which it is and what it can do."""
    bare = {"model.transform": None, "model.scale": None}
    name = str(settings.model.name)
    placeholder = name in MODELS and "bounds" in MODELS[name].options and settings.privacy.bounds is None
    return synthesizer_of(settings.set(bare | ({"privacy.bounds": (0.0, 1.0)} if placeholder else {})), folder)


def categorical_of(settings: Settings, folder: Path) -> tuple[str, ...]:
    """The outcomes that are categories."""
    return _model(settings, folder).categorical


def _takes(settings: Settings) -> Any:
    name = str(settings.model.name)
    return MODELS[name].options if name in MODELS else {}


def _needs_bounds(settings: Settings, folder: Path) -> bool:
    if settings.privacy.mechanism == "strict":
        numeric = _model(settings, folder).numeric
        own_scale = str(settings.model.transform).endswith(".json")
        numeric = tuple(name for name in numeric if name not in (settings.privacy.levels or {}))
        return bool(numeric) and settings.privacy.reference is None and not own_scale
    option = _takes(settings).get("bounds")
    return option is not None and option.default is option.empty


def _columns(settings: Settings, design: SurveyDesign) -> int:
    return int(predictor_rows(design, sides(str(settings.model.formula))[1], None)[0].shape[1])


def _outer(bounds: Any) -> tuple[float, float]:
    pairs = list(bounds.values()) if isinstance(bounds, dict) else [bounds]
    return min(low for low, _ in pairs), max(high for _, high in pairs)
