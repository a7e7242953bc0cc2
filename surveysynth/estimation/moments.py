"""Population variances, covariances and correlations of columns, with standard errors (R's ``svyvar``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import as_list, one_of
from .estimators import replicated
from .joint import Function, JointEstimates
from .quantities import Quantity, quantities
from .tables import check_designs, least_degf
from .variance import covariance

Floats = NDArray[np.float64]


def population_covariances(
    design: SurveyDesign, outcome: str | Sequence[str], *, missing: str = "fail"
) -> JointEstimates:
    """Estimate variances and covariances of columns in the population (R's ``svyvar``).

    The covariance of columns a and b is n / (n - 1) sum w (a - a_bar) (b - b_bar) / sum w, with n records and weights
    w.  Linearization takes the means a_bar and b_bar as known, because they contribute to the variance only in second
    order.  With replicate weights, the means are computed again in each replicate.

    Parameters
    ----------
    design : SurveyDesign
    outcome : str or list of str
        Numeric columns.
    missing : {"fail", "drop"}
        "drop" uses the domain of records with a value in every column.

    Returns
    -------
    JointEstimates
        The variance of column a has the name "a", and the covariance of a and b has the name "a:b".
        :meth:`JointEstimates.contrast` estimates functions of them.

    Raises
    ------
    InputError
        See :func:`surveysynth.estimate`.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> thousands = design.assign(thousands=lambda f: f.salary / 1000, logs=lambda f: np.log(f.salary))
    >>> ss.population_covariances(thousands, ["thousands", "logs"]).table[["name", "estimate", "se"]].round(3)
                 name  estimate       se
    0       thousands  2602.023  123.044
    1  thousands:logs    20.616    0.870
    2            logs     0.176    0.008
    """
    return covariances([design], outcome, missing=missing)


def correlations(design: SurveyDesign, outcome: Sequence[str], *, missing: str = "fail") -> JointEstimates:
    """Estimate correlations of columns in the population, with standard errors by the delta method.

    Parameters
    ----------
    design : SurveyDesign
        The file.
    outcome : list of str
        Numeric columns, two or more.
    missing : {"fail", "drop"}
        "drop" uses the domain of records with a value in every column.

    Returns
    -------
    JointEstimates
        One correlation for each pair of columns, with the name "a:b".

    Raises
    ------
    InputError
        An error of :func:`surveysynth.estimate`, or fewer than two columns.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> ss.correlations(design, ["salary", "size"]).table[["name", "estimate", "se"]].round(3)
              name  estimate     se
    0  salary:size       0.7  0.016
    """
    return correlations_of(covariances([design], outcome, missing=missing))


def standard_deviations(design: SurveyDesign, outcome: str | Sequence[str], *, missing: str = "fail") -> JointEstimates:
    """Estimate standard deviations of columns in the population, with standard errors by the delta method.

    Parameters
    ----------
    design : SurveyDesign
        The file.
    outcome : str or list of str
        Numeric columns.
    missing : {"fail", "drop"}
        "drop" uses the domain of records with a value in every column.

    Returns
    -------
    JointEstimates
        One standard deviation for each column, with the name of the column.

    Raises
    ------
    InputError
        See :func:`surveysynth.estimate`.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> ss.standard_deviations(design, "salary").table[["name", "estimate", "se"]].round()
         name  estimate      se
    0  salary   51010.0  1206.0
    """
    return deviations_of(covariances([design], outcome, missing=missing))


def covariances(
    designs: Sequence[SurveyDesign], outcome: str | Sequence[str], *, missing: str = "fail",
    redrawn: Sequence[SurveyDesign] = (),
) -> JointEstimates:  # fmt: skip
    """Estimate variances and covariances of columns in the population, in m synthetic data sets.

    ``redrawn`` is as in :func:`.tables.tabulate`, the other arguments are as in :func:`population_covariances`.
    """
    check_designs(designs)
    one_of(missing, ("fail", "drop"), "missing")
    names = as_list(outcome)
    if len(set(names)) < len(names):
        raise InputError(f"outcome names a column twice: {names}")
    every = [*designs, *redrawn]
    asked = quantities(every, names, ["mean"], missing=missing)
    found = [_one_design(design, columns) for design, columns in zip(every, asked, strict=True)]
    inside = [np.where(_left_out(design, columns), -1, 0) for design, columns in zip(every, asked, strict=True)]
    degf = min(float(least_degf([d], [i], 1)[0]) for d, i in zip(designs, inside, strict=False))
    labels = tuple(a if a == b else f"{a}:{b}" for a, b in combinations_with_replacement(names, 2))
    q, U, m = np.array([q for q, _ in found]), np.array([U for _, U in found]), len(designs)
    return JointEstimates(labels, q[:m], U[:m], degf, q[m:] if redrawn else None)


def _left_out(design: SurveyDesign, columns: Sequence[Quantity]) -> NDArray[np.bool_]:
    """Return True for each record with a missing value, or with weight 0 in the design and in all replicates: (n,)."""
    return np.asarray(np.isnan([c.y for c in columns if c.y is not None]).any(axis=0) | ~design.entering)


def _one_design(design: SurveyDesign, columns: Sequence[Quantity]) -> tuple[Floats, Floats]:
    out = _left_out(design, columns)
    n, w = int((~out).sum()), np.where(out, 0.0, design.weights)
    if n < 2:
        raise InputError("a variance needs at least two records that have the columns")
    X = np.where(out[:, None], 0.0, np.column_stack([c.y for c in columns if c.y is not None]))
    X = X - np.where(out[:, None], 0.0, (w @ X) / w.sum())
    a, b = np.array([*combinations_with_replacement(range(len(columns)), 2)]).T
    products = X[:, a] * X[:, b]
    s, factor = (w @ products) / w.sum(), n / (n - 1)
    if design.replication is None:
        return s * factor, covariance(design, (w / w.sum())[:, None] * (products - s) * factor, ~out)
    domain = np.where(out, -1, 0)

    def means(values: Floats) -> Floats:
        return np.column_stack([replicated(design, Quantity("mean", "", y), domain, 1)[:, 0] for y in values.T])

    centre = means(X)
    s_r = (means(products) - centre[:, a] * centre[:, b]) * factor
    return s * factor, design.replication.covariance(s_r, s * factor)


def _columns(joint: JointEstimates) -> list[str]:
    """Return the names of the p columns whose variances and covariances are in ``joint``.

    They are found by the positions of the variances, because names may contain colons.
    """
    p = int((np.sqrt(8 * len(joint.names) + 1) - 1) / 2)
    first = np.cumsum([0, *range(p, 1, -1)])
    return [joint.names[i] for i in first]


def correlations_of(joint: JointEstimates) -> JointEstimates:
    """Compute correlations from the result of :func:`covariances`.  Raise InputError if it has only one column."""
    names = _columns(joint)
    if len(names) < 2:
        raise InputError("a correlation needs two columns or more")

    def correlation(pair: str, a: str, b: str) -> Function:
        return lambda q: q[pair] / np.sqrt(q[a] * q[b])

    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    return joint.contrast(**{f"{a}:{b}": correlation(f"{a}:{b}", a, b) for a, b in pairs})


def deviations_of(joint: JointEstimates) -> JointEstimates:
    """Compute standard deviations from the result of :func:`covariances`."""

    def deviation(a: str) -> Function:
        return lambda q: np.sqrt(q[a])

    return joint.contrast(**{a: deviation(a) for a in _columns(joint)})
