"""Conversion of the arguments of ``synthesize`` to arguments of :func:`surveysynth.measure`.

This is for strict releases, which are drawn from noisy tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError, ModelError
from ..measuring.outcome import Outcome
from ..models.base import Synthesizer
from ..models.normal.fbp import FBP
from ..models.normal.fbs import FBS
from .declarations import RECORDS, left_hand_side, without_options
from .levels import check_levels

SCHEMA_ENTRIES = (  # arguments that fits to records do not have
    "outcomes", "population_totals", "weight", "weight_bounds", "importance", "earlier", "bounds", "scheduler",
)  # fmt: skip
TAKEN = {
    *SCHEMA_ENTRIES, "edits", "population_total", "public", "seed", "levels", "mechanism", "clusters", "unit",
}  # fmt: skip
PLAIN = {"engine": "auto", "clusters": "model", "chains": 4, "tolerance": 0.01}  # defaults of fit()


@dataclass(frozen=True)
class StrictArguments:
    """The arguments of :func:`measure` without design and epsilon."""

    model: FBS | FBP | list[str]
    settings: dict[str, Any]


def strict_arguments(model: object, given: Mapping[str, Any]) -> StrictArguments:
    """Convert the arguments of ``synthesize`` for a strict release to arguments of :func:`measure`.

    Raises
    ------
    InputError
        An argument is only for fits of a model to records, or a list has members that are not formulas.
    ModelError
        The model is neither FBS nor FBP, has options for fits to records, or is an FBP of several outcomes.
    """
    effective = {name: value for name, value in given.items() if not (_is_nothing(value) or _is_plain(name, value))}
    if given.get("public") is not None:  # an empty list declares that nothing may be published
        effective["public"] = given["public"]
    mechanism = effective.pop("mechanism", None)
    if others := sorted({*effective} - TAKEN):
        raise InputError(f"{', '.join(others)}: only where records are fitted. {RECORDS}")
    levels = effective.pop("levels", None)
    settings = effective | ({} if mechanism is None or mechanism.delta is None else {"delta": mechanism.delta})
    if isinstance(model, str):
        model = [model]
    if isinstance(model, list | tuple) and model and all(isinstance(one, str) for one in model):
        outcomes = [name for one in model for name in left_hand_side(one)]
        return StrictArguments([*model], _with_levels(settings, levels, outcomes))
    if isinstance(model, list | tuple):
        raise InputError(f"under Strict() a list is one of formulas: ['job ~ sex', 'income ~ sex + job']. {RECORDS}")
    if not isinstance(model, FBS | FBP):
        name = model.name if isinstance(model, Synthesizer) else type(model).__name__
        raise ModelError(
            f"{name} is a model of records, and Strict() counts them: give the formula, 'income ~ region', and what "
            f"kind each outcome is, outcomes={{'income': Outcome(...)}}. {RECORDS}"
        )
    without_options(replace(model, weight=None))
    return StrictArguments(model, _with_levels(settings, levels, model.outcomes))


def _with_levels(settings: dict[str, Any], levels: Any, outcomes: Sequence[str]) -> dict[str, Any]:
    """Add an :class:`Outcome` with the given levels to the settings, for each outcome in ``levels``."""
    found = {name: Outcome(levels=own) for name, own in check_levels(levels, outcomes).items()}
    return settings | ({"outcomes": found | dict(settings.get("outcomes", {}))} if found else {})


def refuse_schema(settings: Mapping[str, Any]) -> None:
    """Raise InputError if a fit to records is given arguments that only a fit to noisy tables uses."""
    given = [name for name in SCHEMA_ENTRIES if not _is_nothing(settings.get(name))]
    if given:
        raise InputError(
            f"{', '.join(given)}: only for strict releases, which are drawn from noisy tables; records are fitted here"
        )


def _is_plain(name: str, value: Any) -> bool:
    return isinstance(value, str | int | float) and PLAIN.get(name) == value


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, int | str | tuple | list) and not value)
