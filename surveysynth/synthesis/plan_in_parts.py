"""What a plan says of a file in parts, as arguments of ``synthesize_in_parts``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..estimation.in_parts import STATISTICS
from ..models.normal.fbs import FBS
from ..tasks import Workers
from .in_parts import known_of
from .known import Known
from .parts import accepted_of, bounds_of_scores, mechanism_of, synthesizer_of
from .settings import Settings

OF_PARTS = {  # entries that say something of a file in parts
    "survey": ("file", "weights", "strata"),
    "model": ("formula", "kind", "name", "transform", "scale", "weight", "prior", "zeros", "missing"),
    "privacy": (
        "epsilon", "population_total", "bounds", "levels", "mechanism", "map", "c1", "c2", "risk", "public", "ledger",
        "survey", "cap",
    ),
    "tables": ("by", "statistic", "min_cell", "cv_limit", "labels", "units", "symbols", "wording", "digits"),
    "release": ("m", "accept", "folder", "format", "title", "contact", "source", "license", "supersedes"),
    "parts": ("workers", "scheduler", "scratch"),
}
ONLY: dict[str, tuple[object, ...]] = {  # what they have to be
    "model.kind": ("amount",), "model.name": ("fbs",), "privacy.mechanism": ("strict", "pseudo-posterior"),
    "privacy.risk": ("lipschitz",),
}  # fmt: skip


def check_of_parts(settings: Settings) -> None:
    """Refuse entries that are not for files in parts (InputError)."""
    beyond = [
        entry for entry, value in settings.items()
        if value not in (None, False) and entry.partition(".")[2] not in OF_PARTS.get(entry.partition(".")[0], ())
    ]  # fmt: skip
    beyond += [entry for entry, values in ONLY.items() if settings[entry] not in (None, *values)]
    if (settings.model.transform in (None, "scores")) == (settings.privacy.mechanism == "pseudo-posterior"):
        beyond += ["model.transform"] if settings.model.transform else []
    if isinstance(settings.privacy.population_total, dict):
        beyond.append("privacy.population_total by stratum")
    if set(settings.tables.statistic or ()) - set(STATISTICS):
        beyond.append(f"tables.statistic other than {', '.join(STATISTICS)}")
    if beyond:
        raise InputError(
            f"{', '.join(beyond)}: not for files in parts, which are amounts by fbs under strict or pseudo-posterior. "
            "Leave this out, or [parts], and the file is read into memory"
        )


def known_in_parts(settings: Settings, folder: Path) -> Known:
    """What is public of the file of a plan; InputError where it is not one in parts."""
    check_of_parts(settings)
    survey, parts = settings.survey, settings.parts
    model = synthesizer_of(settings.set({"model.name": "fbs"}), folder)
    assert survey.file is not None and survey.weights is not None and isinstance(model, FBS)
    workers = Workers(parts.workers or 1, parts.scheduler)
    labels, levels = settings.tables.labels, settings.privacy.levels
    return known_of(folder / survey.file, model, survey.weights, survey.strata, labels, workers, levels)


def arguments_in_parts(settings: Settings, folder: Path) -> dict[str, Any]:
    """The arguments of ``synthesize_in_parts``, by name; paths are seen from a folder."""
    check_of_parts(settings)
    survey, privacy, release, parts = settings.survey, settings.privacy, settings.release, settings.parts
    assert survey.file is not None  # as the plan is filled in
    return {
        "source": folder / survey.file, "synthesizer": synthesizer_of(settings, folder), "weights": survey.weights,
        "strata": survey.strata, "epsilon": privacy.epsilon, "population_total": privacy.population_total,
        "bounds": bounds_of_scores(settings), "levels": privacy.levels, "mechanism": mechanism_of(settings, folder),
        "m": release.m,
        "accept_diagnostics": tuple(accepted_of(settings)), "public": privacy.public, "labels": settings.tables.labels,
        "workers": parts.workers or 1, "scheduler": parts.scheduler,
        "scratch": folder / parts.scratch if parts.scratch else None,
    }  # fmt: skip
