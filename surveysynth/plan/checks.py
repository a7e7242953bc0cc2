"""Checks of a plan against the confidential file, and against the release that the new release replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..design.missing_codes import likely_missing, listing_of, with_label
from ..design.read import LABELLED
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..models.base import Synthesizer
from ..models.predictors.model_matrix import numeric_predictors
from ..release.manifest import seal_of
from ..release.release import read_release
from ..synthesis.synthetic_design import checked_total, refuse_far
from .arguments import CONFIRMED
from .settings import Settings
from .toml_file import key

SUPERSEDES = (
    "this release supersedes an earlier one of the same file, of epsilon = {:g} ({}): both together tell of a record "
    "at most what epsilon = {:g} lets through"
)

def refuse_labelled(design: SurveyDesign, settings: Settings, model: Synthesizer, *, in_memory: bool) -> None:
    """Raise InputError if numeric columns of the model have labelled numbers, such as -9 for "refused".

    If these numbers stand for missing values, the model must not use them as amounts.  The message asks which of them
    do.  The answer belongs in the plan or, if the design was given in memory (``in_memory``), in the call that read the
    file.
    """
    labelled = design.select([]).attrs.get(LABELLED, {})
    used = [*model.numeric, *numeric_predictors(design, model.predictors, model.outcomes)]
    asked = {column: labelled[column] for column in used if column in labelled}
    if not asked:
        return
    listed = "; ".join(f"{column}: {with_label(labels)}" for column, labels in asked.items())
    answered = settings.survey.missing_codes
    codes = dict(answered) if isinstance(answered, dict) else {}
    codes |= {column: likely_missing(labels) for column, labels in asked.items()}
    if in_memory:
        line = ", ".join(f"{column!r}: {listing_of(each)}" for column, each in codes.items())
        answer = f"read the file with missing_codes={{{line}}}"
    else:
        line = ", ".join(f"{key(column)} = {listing_of(each)}" for column, each in codes.items())
        answer = f"set missing_codes = {{{line}}} in [survey]"
    raise InputError(
        f"some numbers have labels, as codes for 'refused' have ({listed}). Which of these stand for a missing "
        f"value: {answer}, with [] for a column whose numbers are all amounts"
    )


def refuse_far_total(design: SurveyDesign, settings: Settings) -> None:
    """Raise InputError if the population total is far from the sum of weights and the plan does not accept it.

    The plan accepts it by "population_total" in ``release.accept``.  A total far from the sum is likely to be an error.
    """
    total, accepted = settings.privacy.population_total, settings.release.accept or ()
    if CONFIRMED not in accepted:
        refuse_far(checked_total(total, design), design)


def superseded(settings: Settings, folder: Path) -> dict[str, Any]:
    """Return epsilon, kind of guarantee and checksum of the earlier release that the planned release replaces.

    The result is empty if the plan names no earlier release.
    """
    if settings.release.supersedes is None:
        return {}
    place = folder / settings.release.supersedes
    earlier = read_release(place).privacy
    return {"epsilon": earlier.epsilon, "kind": earlier.kind, "manifest": seal_of(place)}


def with_earlier(earlier: dict[str, Any], epsilon: float) -> tuple[list[str], dict[str, Any]]:
    """Return sentences for the report, and facts for the manifest, on the ``earlier`` release that is replaced.

    Both contain the sum of the epsilons of the earlier and the new release; ``epsilon`` is that of the new release.
    Both are empty if there is no earlier release.
    """
    if not earlier:
        return [], {}
    together = earlier["epsilon"] + epsilon
    return [SUPERSEDES.format(earlier["epsilon"], earlier["kind"], together)], {
        "supersedes": earlier | {"together": together}
    }
