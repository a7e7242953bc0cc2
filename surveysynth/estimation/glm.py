"""Regression on a survey design, linear, logistic, Poisson or gamma, equal to R's ``svyglm`` (Binder 1983).

The coefficients b solve the weighted score equations

    sum_i w_i x_i s_i (y_i - mu_i) = 0,    mu_i = mu(x_i'b + offset_i),    s = mu' / V(mu),

with the predictors x_i and the weight w_i of record i, the derivative mu' of the mean, and the variance function V of
the family (:mod:`surveysynth.estimation.families`).  The covariance of b is the covariance of the total of

    z_i = w_i s_i (y_i - mu_i) A^-1 x_i,    A = sum_i w_i s_i mu'_i x_i x_i',

from :func:`surveysynth.estimation.variance.covariance`.  If the design has replicate weights, the covariance comes from
the fits under the replicate weights.  Dropped records remain in the design with z = 0.  All computations use columns
Q = X T for which sum_i w_i q_i q_i' is n times the unit matrix, so that the last digits depend neither on the units of
the predictors nor on the size of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ..design.survey_design import SurveyDesign
from ..errors import InputError
from .families import BINARY, KIND, Family, in_statsmodels, mean, start_of
from .model_frame import Bools, Data
from .variance import DENSE, covariance, degrees_of_freedom

Floats = NDArray[np.float64]

COLLINEAR = 1e-7  # as in R: a column is collinear if less of its length is orthogonal to the columns before it
CONVERGED = 1e-10  # largest last step of a fit that converged, in standard errors of one record
# Maximum number of steps.  If there is no finite solution, a logistic fit moves by 1 on the logit scale in each step,
# and never ends.  Otherwise a fit takes 5 to 10 steps, and about log(1 / p) more for an outcome with small share p.
STEPS = 30
SINGULAR = 1e12  # an information matrix with a larger condition number does not determine the coefficients


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A fit of p coefficients to one data set.

    ``estimate`` (p,) and ``covariance`` (p, p) are the coefficients and their design-based covariance matrix.
    ``naive`` (p, p) is the inverse information matrix, under weights with mean 1.  ``df`` are the residual degrees of
    freedom.
    """

    data: Data
    estimate: Floats
    covariance: Floats
    naive: Floats
    df: int


def fit_glm(design: SurveyDesign, data: Data, family: Family) -> Fit:
    """Fit a generalized linear model to one design.

    The covariance matrix of the coefficients comes from linearization or from replicate weights.

    Raises
    ------
    InputError
        Predictors are collinear, or the fit does not converge or has no finite solution.
    """
    w = design.weights[data.present]
    w = w / w.mean()
    T = _orthonormal(data, w)
    Q = data.X @ T
    b = _coefficients(data, Q, T, w, family)
    inverse = np.linalg.inv(_information(Q, w, mean(Q @ b + data.offset, family)))
    if design.replication is None:
        Z = np.zeros((design.n, len(b)))
        Z[data.present] = _scores(data, Q, w, mean(Q @ b + data.offset, family)) @ inverse @ T.T
        V = covariance(design, Z, data.present)
    else:
        replicates = _replicated(design, data, Q, b, family) @ T.T
        V = design.replication.covariance(replicates, T @ b)
    return Fit(data, T @ b, V, T @ inverse @ T.T, _degf(design, data.present) + 1 - len(b))


def deviance(design: SurveyDesign, data: Data, family: Family, kept: Bools) -> float:
    """Fit the model with only the columns of X marked in ``kept``, and return the weighted deviance.

    The weights are scaled to mean 1.  The errors are the errors of :func:`fit_glm`.
    """
    w = design.weights[data.present]
    w = w / w.mean()
    columns, terms = (tuple(np.array(each)[kept].tolist()) for each in (data.columns, data.terms))
    part = replace(data, X=data.X[:, kept], columns=columns, terms=terms)
    linear = data.offset
    if kept.any():
        T = _orthonormal(part, w)
        Q = part.X @ T
        linear = linear + Q @ _coefficients(part, Q, T, w, family)
    return float(in_statsmodels(family).deviance(data.y, mean(linear, family)[0], var_weights=w))


def _information(Q: Floats, w: Floats, at: tuple[Floats, Floats, Floats]) -> Floats:
    """Compute the information matrix of the coefficients of orthonormal predictors Q.

    It is A in the module's docstring.  ``at`` has mu, mu' and s.
    """
    _, slope, s = at
    return np.asarray(Q.T @ ((w * slope * s)[:, None] * Q))


def _scores(data: Data, Q: Floats, w: Floats, at: tuple[Floats, Floats, Floats]) -> Floats:
    """Compute the score of each record with respect to the coefficients of orthonormal predictors Q.

    It is w_i s_i (y_i - mu_i) q_i in the module's docstring.  ``at`` has mu, mu' and s.
    """
    mu, _, s = at
    return np.asarray((w * s * (data.y - mu))[:, None] * Q)


def _orthonormal(data: Data, w: Floats) -> Floats:
    """Return the triangular matrix T that turns predictors X into predictors X T, orthonormal under the weights.

    Raise InputError if the columns of X are collinear.
    """
    X, root = data.X, np.sqrt(w / len(w))[:, None]
    length = np.sqrt(((root * X) ** 2).sum(axis=0))
    length[length == 0] = 1.0
    R = np.asarray(np.linalg.qr(root * X / length, mode="r"))
    new = np.abs(np.diag(R)) > COLLINEAR
    if not new.all():
        j = int(np.argmin(new))  # the first column that is a combination of the columns before it
        share = solve_triangular(R[:j, :j], R[:j, j]) if j else np.zeros(0)
        terms = dict.fromkeys(data.terms[i] for i in [*np.flatnonzero(np.abs(share) > 1e-6), j])
        others = [term for term in terms if term != data.terms[j]]
        raise InputError(
            f"the predictors are collinear: a column of {data.terms[j]} "
            + (f"is a combination of columns of {', '.join(others)}" if others else "is made up by its other columns")
            + "; leave one out or merge categories (a crossing of categories without records is a column of zeros)"
        )
    return np.asarray(solve_triangular(R, np.eye(len(R))) / length[:, None])


def _coefficients(data: Data, Q: Floats, T: Floats, w: Floats, family: Family) -> Floats:
    """Compute the coefficients of orthonormal predictors Q by Fisher scoring.  Raise InputError if none exist."""
    if family == "gaussian":
        return np.asarray(Q.T @ (w * (data.y - data.offset)) / len(w))  # as sum_i w_i q_i q_i' = n I
    start = start_of(data.y, family)
    with np.errstate(all="ignore"):  # fits without a solution are refused below
        mu, slope, s = mean(start, family)
        A = _information(Q, w, (mu, slope, s))
        if not _determines(A):
            raise _unsolved(family)
        b = np.asarray(np.linalg.solve(A, Q.T @ (w * s * (data.y - mu + slope * (start - data.offset)))))
        b, last, enough = _scored(data, Q, w, b, family, STEPS - 1)
    if enough:
        return b
    if not np.isfinite(b).all():
        raise _unsolved(family)
    size = np.abs(T @ last) * np.sqrt(w @ data.X**2)
    grow = dict.fromkeys(term for term, s in zip(data.terms, size, strict=True) if s > 0.01 * size.max())
    separated = "the two values of the outcome" if family in BINARY else "zeros, or other extremes, of the outcome"
    raise InputError(
        f"the {KIND[family]} regression has no finite solution: predictors separate {separated}, and "
        f"the coefficients of {', '.join(grow)} grow without end; leave some out or merge categories"
    )


def _unsolved(family: Family) -> InputError:
    return InputError(f"the {KIND[family]} regression did not converge; leave out predictors")


def _determines(A: Floats) -> bool:
    return bool(np.isfinite(A).all() and np.linalg.cond(A) < SINGULAR)


def _scored(
    data: Data, Q: Floats, w: Floats, b: Floats, family: Family, most: int
) -> tuple[Floats, Floats, bool]:  # fmt: skip
    """Take up to ``most`` steps of Fisher scoring from the coefficients b.

    Return the new coefficients, the last step, and True if the steps converged.
    """
    last = b
    for _ in range(most):
        mu, slope, s = mean(Q @ b + data.offset, family)
        A = _information(Q, w, (mu, slope, s))
        if not _determines(A):
            break
        last = np.asarray(np.linalg.solve(A, Q.T @ (w * s * (data.y - mu))))
        b = b + last
        if family == "gaussian" or np.abs(last).max() < CONVERGED:
            return b, last, True
    return b, last, False


def _replicated(design: SurveyDesign, data: Data, Q: Floats, b: Floats, family: Family) -> Floats:
    """Compute the coefficients under each of R replicate weights: (R, p).  They are NaN if a fit does not converge."""
    assert design.replication is not None
    w = design.multiplicand[data.present] / design.weights[data.present].mean()
    R, step = design.replication.R, max(1, DENSE // design.n)
    found = np.empty((R, len(b)))
    for start in range(0, R, step):
        factors = design.replication.factors(start, min(start + step, R))[data.present]
        for r, factor in enumerate(factors.T, start):
            again, _, enough = _scored(data, Q, w * factor, b, family, STEPS)
            found[r] = again if enough else np.nan
    return found


def _degf(design: SurveyDesign, present: Bools) -> int:
    """Return the design degrees of freedom of the fitted records, marked by ``present``, as in R."""
    if design.replication is not None or present.all():
        return design.degf
    return int(degrees_of_freedom(design, np.where(present, 0, -1), 1)[0])
