"""Numeric outcomes on their working scales, the scales on which they are modelled, such as log income."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...validation import rows
from ..scales.normal_scores import NormalScores
from ..scales.refusals import missing_outcome
from ..scales.transforms import Transform

Floats = NDArray[np.float64]


def working_scale(design: SurveyDesign, outcome: str, transform: Transform) -> Floats:
    """Return the transformed values of a numeric outcome, such as log income.

    Raises
    ------
    InputError
        The column does not exist, has missing values or is not numeric.  A value is outside the range of the transform.
        The transform is normal scores that were made from this file, so that they would reveal its values.
    """
    try:
        y = design.numeric(outcome)
    except InputError as error:
        raise InputError(
            f"{error}. Categories are written C({outcome}): they are synthesized, their names are public"
        ) from None
    if np.isnan(y).any():
        raise missing_outcome(outcome, np.isnan(y))
    if isinstance(transform, NormalScores) and transform.made_from(y, design.weights):
        raise InputError(
            f"outcome {outcome!r}: the normal scores of {transform.source!r} were made from this very file, or "
            "from one that is nearly the same; make them from a historical or public file, or they give away "
            "what they are to protect"
        )
    z = transform.forward(y)
    wrong = ~np.isfinite(z)
    if wrong.any():
        raise InputError(
            f"outcome {outcome!r} has no {transform.describe().split()[0]} in {rows(wrong)}; "
            "use transform=surveysynth.AsinhTransform(scale=...) for amounts that can be zero or negative, "
            f"and write C({outcome}) if it is a category"
        )
    return z
