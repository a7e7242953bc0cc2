"""Records with a missing outcome, which some models leave out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..models.base import Synthesizer

Codes = NDArray[np.intp]

LEFT_OUT = (
    "{} had no outcome and were left out: the release and its population total are about the population whose outcome "
    "is known. Epsilon covers neither this number, which is computed from the file, nor what the published predictors "
    "of the other records reveal about those left out"
)


def without_missing(design: SurveyDesign, synthesizer: Synthesizer) -> tuple[SurveyDesign, Codes, NDArray[np.bool_]]:
    """Leave out the records with a missing outcome, if the model has ``missing="drop"``.

    Returns
    -------
    design : SurveyDesign
        The design without these records.
    rows : int array
        For each remaining record, its row in the given design, from 0.
    absent : bool array (n,)
        True for each record that was left out.

    Raises
    ------
    InputError
        No record remains, or the remaining records are not a valid design.
    """
    absent = np.zeros(design.n, dtype=bool)
    if synthesizer.missing == "drop":
        for outcome in synthesizer.outcomes:
            label = outcome in synthesizer.categorical
            absent |= design.column(outcome).isna().to_numpy() if label else np.isnan(design.numeric(outcome))
    if not absent.any():
        kind = np.int32 if design.n < 2**31 else np.intp
        return design, np.arange(design.n, dtype=kind), absent
    if absent.all():
        raise InputError(f"every record lacks an outcome ({', '.join(synthesizer.outcomes)})")
    try:
        roles = {role: value for role, value in design.roles().items() if role != "pps"}  # not needed to synthesize
        kept = SurveyDesign(design.frame[~absent], **roles, labels=design.labels)
    except InputError as error:
        raise InputError(
            f"once the {absent.sum():,} records without an outcome are left out and the rest are renumbered, {error}"
        ) from None
    return kept, np.flatnonzero(~absent), absent


def missing_text(design: SurveyDesign, absent: NDArray[np.bool_]) -> list[str]:
    """Return a list with the report's sentence on records left out for a missing outcome; empty if there are none."""
    if not absent.any():
        return []
    return [LEFT_OUT.format(f"{absent.sum():,} of {design.n:,} records")]
