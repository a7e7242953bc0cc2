"""The part of a design that synthetic data represent: records of positive weight, without replicate weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .survey_design import SurveyDesign

Codes = NDArray[np.intp]

REPLICATE_ROLES = "replicate_weights", "combined", "scale", "rscales", "mse"
ZERO_WEIGHTS = (
    "{} have weight 0, stand for nobody and were left out. Epsilon covers neither this number, which is computed from "
    "the file, nor what the published predictors of the other records reveal about those left out"
)
REPLICATES = (
    "the file's replicate weights are not published, and synthetic files have none: standard errors from these are "
    "{}. The agency's comparison takes the file's own standard errors from its replicate weights"
)
OF_UNITS = "those of the strata and sampling units that the design names"
OF_RECORDS = (
    "those of records that were drawn independently, as the design names no strata and no sampling units, and can be "
    "far too small"
)


def to_synthesize(design: SurveyDesign) -> tuple[SurveyDesign, Codes, list[str]]:
    """Remove the records of weight 0, which represent nobody, and the replicate weights from a design.

    Returns
    -------
    (SurveyDesign, int array, list of str)
        The design; the positions of the kept records in the file, counted from 0; and sentences about what was removed,
        for a warning and the report.

    Raises
    ------
    InputError
        The remaining records do not make a valid design, for example because a stratum then has only one PSU.
    """
    zero = design.weights == 0
    kind = np.int32 if design.n < 2**31 else np.intp
    rows: Codes = np.asarray(np.flatnonzero(~zero), dtype=kind)
    if not zero.any() and design.replication is None:
        return design, rows, []
    roles = {role: value for role, value in design.roles().items() if role not in REPLICATE_ROLES}
    frame = design.frame if not zero.any() else design.frame[~zero]
    try:
        kept = SurveyDesign(frame, **roles, joint=design.joint or None, labels=design.labels)
    except InputError as error:
        raise InputError(
            f"once the {zero.sum():,} records of weight 0 are left out and the rest are renumbered, {error}"
        ) from None
    notes = [ZERO_WEIGHTS.format(f"{zero.sum():,} of {design.n:,} records")] if zero.any() else []
    if design.replication is not None and design.replication.method == "given":
        notes.append(REPLICATES.format(OF_UNITS if kept.strata_name or kept.psu_names else OF_RECORDS))
    return kept, rows, notes
