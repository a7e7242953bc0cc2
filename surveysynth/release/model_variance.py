"""Data sets whose parameters were drawn again around the released ones: how data sets of a strict release differ.

The m data sets of a release say little of the variance between them, and at a small epsilon that is most of the error.
Their parameters are draws whose spread is public: that of a posterior in which the records count sum a, at the released
parameters.  So data sets can be made again, any number of them, by random numbers in common: post-processing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._version import __version__
from ..design.survey_design import SurveyDesign
from ..engines import Diagnostics
from ..errors import InputError, ModelError, guarded
from ..models.draws import Draws
from ..models.normal.fbs import FBS
from ..privacy.reference import read_published

AGAIN = 40  # data sets: their variance is within a fifth of its expectation
MOST = 20_000  # records that they have, where more would say the same: random numbers are in common
FEW = 10  # of them of a combination of predictors


def refusal(design: SurveyDesign, method: dict[str, Any]) -> str | None:
    """Why data sets like ``design`` cannot be made again, if so."""
    said = read_published(method["reference"]) if method.get("reference") else None  # of a user's model it is empty
    if said is None or not isinstance(said.synthesizer, FBS) or "known" not in said.values:
        return "between='model' is for releases of Strict() and FBS: use between='files'"
    if said.synthesizer.missing != "fail":
        return "between='model' does not know which outcomes were imputed: use between='files'"
    if design.calibrated:
        return "between='model' knows nothing of totals that weights were calibrated to: use between='files'"
    return None


def drawn_again(design: SurveyDesign, method: dict[str, Any]) -> tuple[SurveyDesign, ...]:
    """Data sets like ``design``, the first of a release, with other parameters.

    Raises
    ------
    InputError
        The release is not one of ``Strict`` and FBS, its weights are calibrated, or its model needs what is not in the
        files.
    ModelError
        The parameters are none of this model: the files were edited.
    """
    if (reason := refusal(design, method)) is not None:
        raise InputError(reason)
    said = read_published(method["reference"])
    model: Any = said.synthesizer
    synthesized = method["weights"] != "public"
    file = _with_other_weights(design) if synthesized else design
    records = model.prepare(file, "model" if "psu" in said.values else "ignore")
    if records.columns != said.columns or (records.log_w is None) == synthesized:
        raise InputError("between='model' needs the model's predictors, and not all are in the files: use 'files'")
    return guarded(
        lambda: _around(design, model, records, said.values),
        (TypeError, ValueError, KeyError, ArithmeticError),
        lambda kind: ModelError(f"the parameters in this release are damaged ({kind}): use between='files'"),
    )


def _around(
    design: SurveyDesign, model: FBS, records: Any, parameters: Mapping[str, np.ndarray[Any, Any]]
) -> tuple[SurveyDesign, ...]:  # fmt: skip
    """The design, ``AGAIN`` times, by draws around the released parameters."""
    values = {name: value[None] for name, value in parameters.items()}
    released = Draws(values, np.zeros(1, dtype=np.intp), Diagnostics(exact=True), "surveysynth", __version__)
    draws = model.around(records, released, AGAIN, np.random.default_rng(0))
    return tuple(_like(design, model, records, draws.some([k])) for k in range(AGAIN))


def hangs_on_all(method: Mapping[str, Any], *, clustered: bool, categorical: Collection[str]) -> bool:
    """Whether a data set's combinations of public columns, and their numbers, do not stand for it."""
    return clustered or bool(categorical) or method["weights"] == "public"


def in_small(design: SurveyDesign, method: dict[str, Any], derived: Collection[str] = ()) -> SurveyDesign | None:
    """A data set of no more than about ``MOST`` records that stands for ``design``, or None where there is none.

    Records of each combination of public columns are as many as there are, or a share of them, in a fixed order: so it
    does not hang on the order of records.  It has none of the ``derived`` columns.
    """
    model: Any = read_published(method["reference"]).synthesizer
    weights = str(design.roles()["weights"])
    if hangs_on_all(method, clustered=design.clustered, categorical=model.categorical):
        return design if design.n <= MOST else None
    public = [name for name in design.frame if name not in (*model.outcomes, weights, *derived)]
    cells = design.frame[public].assign(**{weights: 1}).groupby(public or (lambda _: 0), sort=True, observed=True)
    found = cells.size().reset_index(name=weights)
    return of_combinations(found[public], found[weights].to_numpy(), model.outcomes, weights, design.weights.sum())


def of_combinations(
    public: pd.DataFrame, records: np.ndarray[Any, Any], outcomes: Sequence[str], weights: str, total: float
) -> SurveyDesign | None:  # fmt: skip
    """As :func:`in_small`, from combinations of public columns and how many records have each."""
    n = records.sum()
    some = records if n <= MOST else np.rint(records * (MOST / n)).astype(int)
    if n > MOST and some.min() < FEW:  # a small domain would hang on few random numbers
        return None
    frame = public.take(np.repeat(np.arange(len(public)), some)).reset_index(drop=True)
    rng = np.random.default_rng(3)  # the model has to see outcomes that vary, and looks at none of them
    made: dict[str, Any] = {outcome: np.exp(rng.standard_normal(len(frame))) for outcome in outcomes}
    return SurveyDesign(frame.assign(**made, **{weights: total / len(frame)}), weights=weights)


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
