"""Synthetic designs: the columns, the weights and the sampling design of the public files.

A public file has synthetic outcomes and weights, and the predictors and design columns of the confidential file.  It
has no other column of that file.  The roles of columns are weights, strata, PSUs, fpc and so on.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import codes
from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError
from ..models.base import Synthesizer
from ..models.draws import Synthetic
from ..models.predictors.groups import groups_of
from ..privacy.report import PUBLIC_SUM
from ..validation import as_list, positive, rows

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Total = float | Mapping[str, float] | None  # population total, totals by stratum, or None: the sum of the weights

NEAR = 2 / 3  # a ratio of population total and sum of the weights below this, or above 1 / this, gives a warning
FAR = 3  # a ratio above this, or below 1 / this, must be accepted by name in a plan
SCALED = 0.01  # weights whose mean differs from 1 by at most this are scaled to the sample, not to the population


def check_enough(total: Any, n: int) -> float:
    """Return the population total as a number.  Raise InputError if the total is below n, the number of records."""
    total = positive(total, "population_total")
    if total < n:
        raise InputError(f"population_total is below the {n:,} records of the sample: it counts everybody")
    return total


def check_total(total: float | Mapping[Any, float] | None, design: SurveyDesign) -> Total:
    """Return the checked population total or totals.  Warn if the survey weights have a very different sum.

    Raise InputError if totals are wrong (:func:`checked_total`).
    """
    checked = checked_total(total, design)
    if checked is not None:
        everybody = sum(checked.values()) if isinstance(checked, Mapping) else checked
        warn_if_far(everybody, design.weights.sum(), design.n)
    return checked


def checked_total(total: float | Mapping[Any, float] | None, design: SurveyDesign) -> Total:
    """Return the checked population total or totals, without a comparison with the sum of the survey weights.

    Raise InputError if a total is not positive or is below the number of records, or if totals by stratum are not one
    total for each stratum.
    """
    if total is None:
        return None
    if not isinstance(total, Mapping):
        return check_enough(total, design.n)
    if design.strata_name is None:
        raise InputError("population_total gives totals by stratum, but the design has no strata")
    totals = {str(label): positive(value, f"population_total of {label!r}") for label, value in total.items()}
    sampled = design.column(design.strata_name).astype(str).value_counts()
    if set(totals) != set(sampled.index) or len(totals) < len(total):
        raise InputError(
            f"population_total must give one total for each of the {len(sampled)} strata of {design.strata_name!r}, "
            "by their labels, and for nothing else"
        )
    below = [label for label, n in sampled.items() if totals[str(label)] < n]
    if below:
        raise InputError(f"population_total is below the number of records in {len(below)} of the strata")
    return totals


def refuse_far(total: Total, design: SurveyDesign) -> None:
    """Raise InputError for a population total above 3 times, or below 1/3 of, the sum of the weights.

    Then the total or the weights are probably wrong.  Totals by stratum are compared within each stratum.  Weights that
    add up to the number of records (:func:`scaled_to_sample`) are not compared.
    """
    if total is None or scaled_to_sample(design.weights.sum(), design.n):
        return
    everybody = np.zeros(design.n, dtype=np.intp)
    group = design.column(str(design.strata_name)).astype(str) if isinstance(total, Mapping) else everybody
    sums = pd.Series(design.weights).groupby(np.asarray(group)).sum()
    given = pd.Series(total) if isinstance(total, Mapping) else pd.Series([total])
    times = given / sums
    for far, how in ((times > FAR, f"more than {FAR} times"), (times < 1 / FAR, f"less than 1/{FAR} of")):
        if far.any():
            where = f" in {far.sum()} of the strata" if isinstance(total, Mapping) else ""
            raise InputError(
                f"population_total is {how} what the survey weights add up to{where}: correct the total or the column "
                "of weights. If both are right, set accept = ['population_total'] in [release]"
            )


def scaled_to_sample(by_weights: float, n: int) -> bool:
    """Return True if the weights add up to the number of records, give or take 1%."""
    return bool(abs(by_weights / n - 1) <= SCALED)


def warn_if_far(total: float, by_weights: float, n: int) -> None:
    """Warn if the population total is far from ``by_weights``, the sum of the survey weights.

    There is no warning for weights that are scaled to the sample, so that they add up to n.
    """
    if not NEAR <= total / by_weights <= 1 / NEAR and not scaled_to_sample(by_weights, n):
        warnings.warn(
            "population_total is far from what the survey weights add up to (by more than a third): are both right? "
            "Counts and totals are scaled to population_total",
            stacklevel=5,
        )


def public_mean_weight(design: SurveyDesign, total: Total) -> float:
    """Return the public mean weight: the population total divided by the number of records.

    Unlike the mean of the survey weights, this number reveals nothing about a record.

    Raises
    ------
    InputError
        There is no population total.
    """
    if total is None:
        raise InputError(
            "a strict guarantee needs population_total=, a public number: the sum of the survey weights would tell of "
            "every record's weight"
        )
    return float(sum(total.values()) if isinstance(total, Mapping) else total) / design.n


def total_text(total: Total, *, public_weights: bool) -> str | None:
    """Return the report's sentence on the population total, or None if neither total nor weights are public."""
    if total is None and public_weights:
        return PUBLIC_SUM
    if total is None:
        return None
    if isinstance(total, Mapping):
        return (
            "the population totals of the strata were given by the agency as public: the synthetic weights add up to "
            "them, and they have no standard error"
        )
    return "the population total was given by the agency as public"


def totals_of(design: SurveyDesign, given: Total) -> tuple[Codes, Floats]:
    """Return the stratum of each record and the population total of each stratum, or one group with one total.

    Synthetic weights add up to these totals.  ``given`` is the population total, or the totals by stratum.
    """
    if isinstance(given, Mapping):
        stratum, levels = pd.factorize(design.column(str(design.strata_name)))
        return stratum, np.array([given[str(level)] for level in levels])
    everybody = np.zeros(design.n, dtype=np.intp)
    return everybody, np.array([design.weights.sum() if given is None else given])


def roles_of(design: SurveyDesign, outcomes: Sequence[str], public: pd.DataFrame, given: Total) -> dict[str, Any]:
    """Return the roles of columns in the public files, as arguments of SurveyDesign.

    They are the roles in the confidential design, but with weights instead of inclusion probabilities.  ``public`` has
    the public columns, and ``given`` is the population total or totals.  Variable labels of unpublished columns are
    left out, because the synthetic weights may have the name of such a column.
    """
    weights = design.weights_name or _free_name("weight", [*public.columns, *outcomes])
    # synthetic weights do not add up to the totals to which the survey weights were calibrated
    known = design.strata_name if isinstance(given, Mapping) else None
    drawn = {role: design.roles()[role] for role in ("strata", "psu", "fpc", "lonely_psu")}
    published = (*public.columns, *outcomes, design.weights_name)
    labels = {name: text for name, text in design.labels.items() if name in published}
    return {"weights": weights, "probs": None} | drawn | {"poststrata": known, "labels": labels}


def public_columns(design: SurveyDesign, synthesizer: Synthesizer, unit: str | None = None) -> list[str]:
    """Return the columns that are published unchanged or with other labels, in the order of the confidential file."""
    kept = {*synthesizer.predictor_columns, design.strata_name, *design.psu_names, *design.fpc_names, unit}
    return [str(c) for c in design.columns if c in kept]


def check_public(
    design: SurveyDesign, synthesizer: Synthesizer, public: Sequence[str] | None, unit: str | None = None
) -> None:  # fmt: skip
    """Raise InputError for columns that cannot be used or published.

    These are unknown columns; weights as predictors, which are published; outcomes with a role in the design; outcomes
    in ``public``, which are confidential; and columns that would be published but are not in ``public``.
    """
    for name in synthesizer.predictor_columns:
        design.column(name)
    weight = design.weights_name or design.probs_name
    if weight in synthesizer.predictor_columns:
        raise InputError(f"the column of weights {weight!r} cannot be a predictor: predictors are public")
    for outcome in synthesizer.outcomes:
        design.typed(outcome)
        if outcome in (weight, *design.design_columns):
            raise InputError(f"{outcome!r} has a role in the design, so it cannot be an outcome")
    if public is None:
        return
    for name in as_list(public):
        design.column(name)
    both = [c for c in as_list(public) if c in synthesizer.outcomes]
    if both:
        raise InputError(f"public= names {', '.join(both)}, which is synthesized because it is not public")
    undeclared = [c for c in public_columns(design, synthesizer, unit) if c not in as_list(public)]
    if undeclared:
        raise InputError(
            f"the public files would hold {', '.join(undeclared)}, which public= does not name; add them if they may "
            "be published, or take them out of the formula or the design"
        )


def public_frame(
    design: SurveyDesign, synthesizer: Synthesizer, rng: np.random.Generator, unit: str | None = None
) -> pd.DataFrame:  # fmt: skip
    """Return the public columns of the file.  Labels of strata, PSUs and units are replaced by random numbers.

    Predictors are unchanged.  Attributes, names of axes and unused categories of the confidential frame are not copied.
    """
    frame = {c: design.column(c).array for c in public_columns(design, synthesizer, unit)}
    wanted = dict.fromkeys([design.strata_name, *design.psu_names, unit])
    labels = [c for c in wanted if c and c not in synthesizer.predictor_columns]
    for column in labels:
        code, levels = pd.factorize(frame[column])
        frame[column] = 1 + rng.permutation(len(levels))[code]
    for column, values in frame.items():
        if isinstance(values, pd.Categorical):
            used = values.remove_unused_categories()
            frame[column] = used.rename_categories(str)  # labels are text in every format and language
    return pd.DataFrame(frame, index=range(design.n))


def count_roles_of(synthetic: Synthetic, roles: dict[str, Any], taken: Sequence[str]) -> dict[str, Any] | None:
    """Return the columns of weights, strata and PSUs for standard errors of counts, as arguments of SurveyDesign.

    Return None if they are the same as for standard errors of other statistics.  ``taken`` are the names of columns
    that exist already, and that the column of weights for counts cannot have.
    """
    if synthetic.count_weights is None:
        return None
    weights = {"weights": _free_name(f"{roles['weights']}_smoothed", taken)}
    roles = {role: value for role, value in roles.items() if role != "labels"}  # the files have them already
    if synthetic.stratified_counts:
        return roles | weights
    return roles | weights | {"strata": None, "psu": None, "fpc": None}


def assemble(
    synthetic: Synthetic,
    synthesizer: Synthesizer,
    public: pd.DataFrame,
    roles: dict[str, Any],
    count_roles: dict[str, Any] | None,
    totals: tuple[Codes, Floats],
    order: Codes,
    coded: Mapping[str, Any] | None = None,
) -> SurveyDesign:
    """Make a SurveyDesign of a synthetic data set, with weights that add up to the population totals.

    ``public`` has the public columns (:func:`public_frame`), ``roles`` and ``count_roles`` the roles of columns
    (:func:`roles_of`, :func:`count_roles_of`), and ``totals`` each record's group and the total of each group
    (:func:`totals_of`).  ``order`` is a permutation of the records, and ``coded`` has the dtypes of outcomes whose
    categories are numbers.  Raise ModelError if a synthetic value is infinite, or is missing where the model has
    values.
    """
    frame = public.copy(deep=False)
    values = synthesizer.columns_of(synthetic)
    for outcome in synthesizer.outcomes:
        frame[outcome] = values[outcome]
    for outcome, kind in (coded or {}).items():
        if frame[outcome].dtype == "category" and pd.api.types.is_numeric_dtype(frame[outcome].cat.categories.dtype):
            frame[outcome] = frame[outcome].astype(kind)
    group, known = totals

    def calibrated(weight: Floats) -> Floats:
        return np.asarray(weight * (known / np.bincount(group, weight))[group])

    weights = {roles["weights"]: calibrated(synthetic.weights)}
    if count_roles is not None and synthetic.count_weights is not None and synthetic.cell is not None:
        smoothed = calibrated(synthetic.count_weights)
        # weights are scaled within each cell and group of known total, so that both weights give equal counts
        cell, own = codes(group, synthetic.cell), synthetic.weights
        weights = {
            roles["weights"]: own * (np.bincount(cell, smoothed) / np.bincount(cell, own))[cell],
            count_roles["weights"]: smoothed,
        }
    for name, weight in weights.items():
        frame[name] = weight
    there = [name for name in (*synthesizer.numeric, *weights) if name not in synthesizer.lacking]
    finite = np.all([np.isfinite(frame[name].to_numpy()) for name in there], axis=0)
    for name in synthesizer.lacking:
        finite &= ~np.isinf(frame[name].to_numpy())
    if not finite.all():
        raise ModelError(
            f"the model drew values that are not finite for {rows(~finite)}; the transform does not suit them"
        )
    frame = frame.iloc[order].reset_index(drop=True)
    return SurveyDesign(frame, **roles)


def _free_name(name: str, taken: Sequence[str]) -> str:
    return name if name not in taken else _free_name(f"synthetic_{name}", taken)


def ignored_groups_text(design: SurveyDesign, synthesizer: Synthesizer) -> list[str]:
    """Return the sentence of the report on ignored PSUs and strata, in a list, which is empty if there are none."""
    groups = groups_of(design, synthesizer.predictor_columns)
    if groups is None:
        return []
    found = [f"PSUs ({design.psu_names[0]!r}, within which records are alike)"] if groups.sampled else []
    if groups.parent is not None or not groups.sampled:
        found.append(f"strata ({design.strata_name!r}) that the predictors do not determine")
    return [
        f"clusters ignored: the design has {' and '.join(found)}, but synthetic records are drawn independently given "
        "the predictors; standard errors computed from the synthetic files do not carry this and can be far too small"
    ]
