"""Numeric outcomes on their working scales."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...validation import rows
from ..shared.normal_scores import NormalScores
from ..shared.transforms import Transform

Floats = NDArray[np.float64]


def working_scale(
    design: SurveyDesign, outcome: str, transform: Transform, *, zeros: bool = False, imputed: bool = False
) -> Floats:
    """A numeric outcome on its working scale: (n,).

    NaN for zeros, where they are an outcome of their own, and for missing values, where these are imputed.

    Raises
    ------
    InputError
        The column is missing, has missing values or is not numeric; the transform has no value for a record; normal
        scores made from this file.
    """
    try:
        y = design.numeric(outcome)
    except InputError as error:
        raise InputError(
            f"{error}. Categories are written C({outcome}): they are synthesized, their names are public"
        ) from None
    if np.isnan(y).any() and not imputed:
        raise InputError(
            f"outcome {outcome!r} is missing in {rows(np.isnan(y))}; fill it in, or say missing='impute' under "
            "Strict(), and under other mechanisms missing='drop', which leaves these records out and says how many"
        )
    amount = ~np.isnan(y) & ~(zeros & (y == 0))
    if isinstance(transform, NormalScores) and transform.made_from(y[amount], design.weights[amount]):
        raise InputError(
            f"outcome {outcome!r}: the normal scores of {transform.source!r} were made from this very file, or "
            "from one that is nearly the same; make them from a historical or public file, or they give away "
            "what they are to protect"
        )
    z = transform.forward(np.where(amount, y, np.nan))
    refuse_off_scale(outcome, transform, amount & ~np.isfinite(z))
    return z


def refuse_off_scale(outcome: str, transform: Transform, wrong: NDArray[np.bool_], part: int | None = None) -> None:
    """Refuse records that have no value on the scale (InputError); of a part that begins with row ``part``."""
    if wrong.any():
        where = rows(wrong) if part is None else f"{rows(wrong, first=part)}, and maybe in others"
        raise InputError(
            f"outcome {outcome!r} has no {transform.describe().split()[0]} in {where}; "
            "use transform=surveysynth.AsinhTransform(scale=...) for amounts that can be zero or negative, "
            f"and write C({outcome}) if it is a category"
        )
