"""Predictive margins: predicted population means if everyone were in one group (Graubard & Korn 1999)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import check_cells
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from .families import Family, mean
from .glm import Fit, fit_glm
from .joint import JointEstimates, with_covariance
from .model_frame import data_of, design_matrix, names_of_spec, offset_columns, parsed, refuse_different
from .quantities import Quantity
from .tables import Partition, check_designs

Floats = NDArray[np.float64]


def predictive_margins(
    design: SurveyDesign,
    formula: str,
    group: str,
    family: Family = "gaussian",
    *,
    offset: str | None = None,
    missing: str = "fail",
) -> JointEstimates:
    """Estimate the mean of an outcome by group, adjusted for predictors (R's ``svypredmeans``).

    Each category k of ``group`` is assigned to all records in turn, and the predictions are averaged:
    theta_k = sum w_i mu(x_i(k)'b + o_i) / sum w_i.  Here w_i is the weight of record i, x_i(k) are its predictors in
    category k, o_i is its offset, b are the coefficients and mu is the inverse link.  The variance has two parts.  The
    first is the variance of the mean of the predictions, with the coefficients taken as known.  The second is due to
    the coefficients: d' V d with d = sum w_i mu'_i x_i(k) / sum w_i, where mu'_i is the derivative of mu for record i,
    and V the covariance matrix of the coefficients.

    Source: Graubard & Korn 1999, section 3.

    Parameters
    ----------
    design : SurveyDesign
    formula : str
        The model **without** the group: "api00 ~ ell + meals".  The group is added to the model.
    group : str
        Column of categories.
    family, offset, missing
        See :func:`surveysynth.regression`.

    Returns
    -------
    JointEstimates
        Means by category, in sorted order.

    Raises
    ------
    InputError
        An error of :func:`surveysynth.regression`, or the formula already contains the group.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> margins = ss.predictive_margins(design, "salary ~ field", group="gender")
    >>> margins.table.round()
         name  estimate      se     df    ci_low   ci_high
    0  female   99848.0  2174.0  992.0   95582.0  104115.0
    1    male  125793.0  2242.0  992.0  121393.0  130193.0
    """
    return margins([design], formula, group, family, offset=offset, missing=missing)


def margins(
    designs: Sequence[SurveyDesign], formula: str, group: str, family: Family = "gaussian", *,
    offset: str | None = None, missing: str = "fail", redrawn: Sequence[SurveyDesign] = (),
) -> JointEstimates:  # fmt: skip
    """Estimate the mean of an outcome by group, adjusted for predictors, in m synthetic data sets.

    ``redrawn`` is as in :func:`.tables.tabulate`, the other arguments are as in :func:`predictive_margins`.
    """
    check_designs(designs)
    outcome, names = parsed(formula)
    if not isinstance(group, str):
        raise InputError("group must be the name of one column")
    if group in names:
        raise InputError(f"the formula has {group!r} already; leave it out: the margins' model adds it")
    for design in designs:
        check_cells(design.column(group), group)
    categories = pd.concat([d.column(group) for d in designs], ignore_index=True)
    levels = list(pd.factorize(categories, sort=True)[1])
    whole = f"{formula} + C(`{group}`)"
    names = list(dict.fromkeys([*names, group, *offset_columns(offset)]))
    fits: list[Fit] = []
    found = []
    for design in (*designs, *redrawn):
        data = data_of(design, whole, outcome, names, family, offset, missing)
        if fits:
            refuse_different(data, fits[0].data, outcome)
        fits.append(fit_glm(design, data, family))
        found.append(_one_design(design, fits[-1], group, levels, family))
    q, U, m = np.array([q for q, _ in found]), np.array([U for _, U in found]), len(designs)
    degf = min(fit.df + fit.estimate.size - 1 for fit in fits[:m])
    return JointEstimates(tuple(map(str, levels)), q[:m], U[:m], degf, q[m:] if redrawn else None)


def _one_design(
    design: SurveyDesign, fit: Fit, group: str, levels: Sequence[object], family: Family
) -> tuple[Floats, Floats]:
    data = fit.data
    w, frame = design.weights[data.present], design.select([*{*names_of_spec(data.spec), group}]).loc[data.present]
    quantities, slopes = [], []
    for level in levels:
        same = pd.Series([level], index=[0], dtype=frame[group].dtype).repeat(len(frame))
        X = design_matrix(data.spec, frame.assign(**{group: same.to_numpy() if same.dtype == object else same.array}))
        mu, slope, _ = mean(X @ fit.estimate + data.offset, family)
        predicted = np.full(design.n, np.nan)
        predicted[data.present] = mu
        quantities.append(Quantity("mean", group, predicted))
        slopes.append((w * slope) @ X / w.sum())
    everybody = Partition(pd.DataFrame(index=[0]), np.where(data.present, 0, -1))
    theta, V = with_covariance(design, quantities, everybody)
    D = np.array(slopes)
    return theta, V + D @ fit.covariance @ D.T
