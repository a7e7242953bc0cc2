"""What is public of the models of a sequence, from which epsilon is split among them before the file is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..design.survey_design import SurveyDesign
from ..models.base import Relative
from ..models.sequential import Sequential
from ..privacy.expected_accuracy import Sized
from ..privacy.mechanisms import Strict


def sizes_of(design: SurveyDesign, sequence: Sequential, bounds: Any) -> tuple[Sized, ...]:
    """What is public of the size of each model under the strict mechanism; ``bounds`` are those beside the models."""
    given = bounds if isinstance(bounds, Mapping) else dict.fromkeys(sequence.outcomes, bounds) if bounds else {}
    dimensions = sequence.expected_dimensions(design, given)
    return tuple(
        Sized(
            *of, scores=_scored(model, given), later=k > 0, tailed=isinstance(model, Relative) and model.tailed,
            measured=Strict().measured(model, psus=False) if isinstance(model, Relative) else (),
        )
        for k, (model, of) in enumerate(zip(sequence.models, dimensions, strict=True))
    )


def _scored(model: Any, bounds: Mapping[str, Any]) -> bool:
    """Whether normal scores of the file are made for a model."""
    return isinstance(model, Relative) and model.scored_by_bounds and not bounds.keys().isdisjoint(model.outcomes)
