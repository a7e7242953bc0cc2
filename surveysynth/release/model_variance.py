"""Data sets whose parameters were drawn again around the released ones: how data sets of a strict release differ.

The m data sets of a release say little of the variance between them, and at a small epsilon that is most of the error.
Their parameters are draws whose spread is public: that of a posterior in which the records count sum a, at the released
parameters.  So data sets can be made again, any number of them, by random numbers in common: post-processing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._version import __version__
from ..design.survey_design import SurveyDesign
from ..engines import Diagnostics
from ..errors import InputError
from ..models.as_json import from_json
from ..models.draws import Draws
from ..models.normal.fbs import FBS

AGAIN = 40  # data sets: their variance is within a fifth of its expectation


def drawn_again(design: SurveyDesign, method: dict[str, Any]) -> tuple[SurveyDesign, ...]:
    """Data sets like ``design``, the first of a release, with other parameters.

    Raises
    ------
    InputError
        The release is not one of ``Strict`` and FBS, or its model needs what is not in the files.
    """
    said = method.get("reference")
    model = None if said is None else from_json(said["synthesizer"])
    if said is None or "known" not in said["values"] or not isinstance(model, FBS):
        raise InputError("between='model' is for releases of Strict() and FBS: use between='files'")
    synthesized = method["weights"] != "public"
    file = _with_other_weights(design) if synthesized else design
    records = model.prepare(file, "model" if "psu" in said["values"] else "ignore")
    if list(records.columns) != list(said["columns"]) or (records.log_w is None) == synthesized:
        raise InputError("between='model' needs the model's predictors, and not all are in the files: use 'files'")
    values = {name: np.asarray(value)[None] for name, value in said["values"].items()}
    released = Draws(values, np.zeros(1, dtype=np.intp), Diagnostics(exact=True), "surveysynth", __version__)
    draws = model.around(records, released, AGAIN, np.random.default_rng(0))
    return tuple(_like(design, model, records, draws.some([k])) for k in range(AGAIN))


def _with_other_weights(design: SurveyDesign) -> SurveyDesign:
    """With weights that no predictor determines: none of these is looked at, but that they are synthesized."""
    name, rng = design.roles()["weights"], np.random.default_rng(1)
    frame = design.frame.assign(**{name: np.exp(rng.standard_normal(design.n))})
    return SurveyDesign(frame, **design.roles(), labels=design.labels)


def _like(design: SurveyDesign, model: FBS, records: Any, draw: Draws) -> SurveyDesign:
    """The design with outcomes, labels and weights of another draw, by the same random numbers."""
    made = model.simulate(records.public, draw, np.random.default_rng(2))
    columns: dict[str, Any] = dict(zip(model.numeric, made.outcomes.T, strict=True))
    columns |= {name: labels.to_numpy() for name, labels in made.labels.items()}
    columns[design.roles()["weights"]] = made.weights * (design.weights.sum() / made.weights.sum())
    return SurveyDesign(design.frame.assign(**columns), **design.roles(), labels=design.labels)
