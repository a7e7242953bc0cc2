"""Linear and logistic regression on a survey design, equal to R's ``svyglm`` (Binder 1983).

The coefficients b solve the weighted score equations

    sum_i w_i x_i (y_i - mu_i) = 0,    mu = x'b (linear),    mu = 1 / (1 + exp(-x'b)) (logistic),

and their covariance is that of the sums of the linearized values

    z_i = w_i (y_i - mu_i) A^-1 x_i,    A = sum_i w_i v_i x_i x_i',    v = 1 or mu (1 - mu),

by :func:`surveysynth.estimation.variance.covariance`, or comes from the fits in every replicate
where the design has replicate weights.  Records that are dropped stay in the design with z = 0.
All work is done on columns Q = X T for which sum_i w_i q_i q_i' is n times the unit matrix, so
that neither the predictors' units nor the size of the weights matter to the last digits.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import formulaic
import numpy as np
import pandas as pd
from formulaic.parser.types import Factor
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import expit
from scipy.stats import t as student

from ..design.discrete import is_label
from ..design.formula import columns_of, refuse_commas
from ..design.survey_design import SurveyDesign
from ..errors import InputError, guarded
from ..validation import rows
from . import combining
from .variance import DENSE, covariance, degrees_of_freedom

Family = Literal["gaussian", "binomial"]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

COLLINEAR = 1e-7  # R's: a column adds to the others where this share of its length is new
CONVERGED = 1e-10  # last step of a logistic fit, in standard errors of one record
# Without a finite solution a logistic fit climbs by 1 on the logit scale, step by step, for ever.  Fits with a solution
# take 5 to 10 steps, and some log(1 / p) more where the outcome has a small share p.
STEPS = 30
SINGULAR = 1e12  # condition number at which a replicate does not determine the coefficients


@dataclass(frozen=True, eq=False)
class Regression:
    """Coefficients of a regression, with standard errors that know the design.

    Attributes
    ----------
    table : pandas.DataFrame
        ``term, estimate, se, df, t, p, ci_low, ci_high``: 95% t intervals, and p values of the
        hypothesis that the coefficient is 0.  Terms have formulaic's names, "Intercept" and
        "stype[T.H]" where R says "(Intercept)" and "stypeH".
    covariance : pandas.DataFrame (p, p)
        Of the estimates, by term.
    family : {"gaussian", "binomial"}
    formula : str
    n : int
        Records that were fitted; the fewest where data sets differ.
    """

    table: pd.DataFrame
    covariance: pd.DataFrame
    family: Family
    formula: str
    n: int

    def __repr__(self) -> str:
        shown: dict[str, Any] = dict.fromkeys(("estimate", "se", "df", "ci_low", "ci_high"), "{:.4g}".format)
        shown |= {"t": "{:.2f}".format, "p": lambda p: "<0.0001" if p < 1e-4 else f"{p:.4f}"}
        table = self.table.to_string(index=False, formatters=shown)
        return f"Regression: {self.formula} ({self.family}), {self.n:,} records\n{table}"


@dataclass(frozen=True, eq=False, repr=False)  # a repr would show confidential values
class Data:
    """A design in the form that fits work with.

    Attributes
    ----------
    y : float array (k,)
        0 and 1 in a logistic regression.
    X : float array (k, p)
    present : bool array (n,)
        The k records of the design that have a value in every column of the formula.
    columns : tuple of str (p,)
    terms : tuple of str (p,)
        Term of the formula that each column belongs to.
    categories : tuple
        The two categories of a logistic outcome that is a text or categorical column.
    """

    y: Floats
    X: Floats
    present: Bools
    columns: tuple[str, ...]
    terms: tuple[str, ...]
    categories: tuple[object, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Coefficients (p,) of one data set, their covariance (p, p) and degrees of freedom."""

    data: Data
    estimate: Floats
    covariance: Floats
    df: int


def regression(design: SurveyDesign, formula: str, family: Family = "gaussian", *, missing: str = "fail") -> Regression:
    """Fit a linear or logistic regression to a survey (R's ``svyglm``; Binder 1983).

    Parameters
    ----------
    design : SurveyDesign
    formula : str
        Outcome ~ predictors, by formulaic: ``"api00 ~ ell + C(stype)"``.  It names columns of the
        design and nothing else.
    family : {"gaussian", "binomial"}
        Linear, or logistic as R's ``quasibinomial``.  A logistic outcome is 0/1, bool, or has two
        categories, the second of which (in sorted order) is 1.
    missing : {"fail", "drop"}
        What missing values in the formula's columns do; "drop" fits the records that have all of
        them, as a domain of the design (R's ``na.omit``).

    Returns
    -------
    Regression
        Degrees of freedom are the design's + 1 - p: PSUs minus strata, counted where records are
        fitted, or the rank of the replicate weights minus 1.  Where they are not positive there
        are no p values and no intervals.

    Raises
    ------
    InputError
        A formula that cannot be read or evaluated; unknown columns; missing or infinite values;
        a logistic outcome without two values; collinear predictors; predictors that separate the
        two values of a logistic outcome.
    """
    return regressions([design], formula, family, missing=missing)


def regressions(
    designs: Sequence[SurveyDesign], formula: str, family: Family = "gaussian", *, missing: str = "fail",
    redrawn: Sequence[SurveyDesign] = (),
) -> Regression:  # fmt: skip
    """:func:`regression` on m synthetic designs, combined by the partial-synthesis rule.

    With estimates b_l and covariances U_l the covariance is the mean of the U_l plus that of the
    b_l between data sets over m (Hu, Savitsky & Williams 2022a, appendix A, coefficient by coefficient; Reiter and
    Raghunathan 2007); and that over ``redrawn`` designs, the first one under noise that was drawn again.

    Raises
    ------
    InputError
        As for :func:`regression`; data sets that do not have the same coefficients.
    """
    if family not in get_args(Family):
        raise InputError(f"family={family!r} is not one of {', '.join(get_args(Family))}")
    if missing not in ("fail", "drop"):
        raise InputError(f"missing={missing!r} is not one of fail, drop")
    if not designs:
        raise InputError("a regression needs at least one data set")
    for design in designs:
        if not isinstance(design, SurveyDesign):
            raise InputError(f"a regression needs a SurveyDesign, not {type(design).__name__}")
    outcome, names = _parsed(formula)
    fits: list[Fit] = []
    for design in (*designs, *redrawn):
        data = _data(design, formula, outcome, names, family, missing)
        if fits:
            _refuse_different(data, fits[0].data, outcome)
        fits.append(_fit(design, data, family))
    return _combined(fits[: len(designs)], fits[len(designs) :], formula, family)


def _combined(fits: Sequence[Fit], noisy: Sequence[Fit], formula: str, family: Family) -> Regression:
    q, U = np.array([fit.estimate for fit in fits]), np.array([fit.covariance for fit in fits])
    df = min(fit.df for fit in fits)
    noise = np.array([fit.estimate for fit in noisy])
    both = combining.combine(q, np.diagonal(U, axis1=1, axis2=2), df, noise if noisy else None)
    low, high = combining.interval(both)
    with np.errstate(divide="ignore", invalid="ignore"):  # a perfect fit has the standard error 0
        t: Floats = both.estimate / both.se
    V = U.mean(axis=0)
    if len(fits) > 1:
        V = V + np.atleast_2d(np.cov(q, rowvar=False)) / len(fits)
    if noisy:
        V = V + np.atleast_2d(np.cov(noise, rowvar=False))
    columns = list(fits[0].data.columns)
    p = 2 * student.sf(np.abs(t), both.df)
    numbers = {"estimate": both.estimate, "se": both.se, "df": both.df, "t": t, "p": p, "ci_low": low, "ci_high": high}
    return Regression(
        pd.DataFrame({"term": columns, **numbers}),
        pd.DataFrame(V, index=columns, columns=columns),
        family,
        formula,
        min(fit.data.y.size for fit in fits),
    )


# ---- from a design and a formula to numbers


def _parsed(formula: str) -> tuple[Factor, list[str]]:
    """The outcome, and the columns that the formula names, the outcome's first."""
    if not isinstance(formula, str):
        raise InputError("formula must be text such as 'income ~ age + region'")
    refuse_commas(formula)

    def unreadable(kind: str) -> InputError:
        return InputError(f"{formula!r} is not a formula ({kind}); it has the form 'income ~ age + region'")

    parsed = guarded(lambda: formulaic.Formula(formula), Exception, unreadable)
    left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", None)
    if not isinstance(left, formulaic.SimpleFormula) or not isinstance(right, formulaic.SimpleFormula):
        raise InputError(f"formula {formula!r} must have an outcome, ~ and predictors: 'income ~ age + region'")
    factors = [factor for term in left for factor in term.factors]
    if len(factors) != 1 or not columns_of(factors[0]):
        raise InputError(f"formula {formula!r} must have one outcome, to the left of ~")
    if not right:
        raise InputError(f"formula {formula!r} has no predictors and no intercept; 'income ~ 1' has the intercept")
    predictors = {name for term in right for factor in term.factors for name in columns_of(factor)}
    if factors[0].eval_method == Factor.EvalMethod.LOOKUP and factors[0].expr in predictors:
        raise InputError(f"{factors[0].expr!r}: an outcome cannot be a predictor of itself")
    return factors[0], list(dict.fromkeys([*sorted(columns_of(factors[0])), *sorted(predictors)]))


def _data(design: SurveyDesign, formula: str, outcome: Factor, names: list[str], family: Family, missing: str) -> Data:
    present = _present(design, names, missing)
    frame = design.frame.loc[present, names]
    categories: tuple[object, ...] = ()
    for name, column in frame.items():
        if isinstance(column.dtype, pd.CategoricalDtype):  # a category without records has no coefficient
            frame[name] = column.cat.remove_unused_categories()
        elif isinstance(column.dtype, pd.StringDtype):
            frame[name] = column.astype("str")
        elif isinstance(column.dtype, pd.ArrowDtype) and is_label(column):
            frame[name] = column.astype(object)
    if outcome.eval_method == Factor.EvalMethod.LOOKUP:
        frame[outcome.expr], categories = _outcome(design, outcome.expr, present, family)

    def evaluate() -> tuple[Floats, Floats, Any]:
        with np.errstate(all="ignore"):  # what is not finite is refused below
            matrices = formulaic.model_matrix(formula, frame, na_action="ignore")
        y, X = (np.asarray(side, dtype=np.float64) for side in (matrices.lhs, matrices.rhs))
        return y, X, matrices.rhs.model_spec

    def impossible(kind: str) -> InputError:
        return InputError(f"formula {formula!r} cannot be evaluated on this file ({kind})")

    Y, X, spec = guarded(evaluate, Exception, impossible)
    if Y.shape[1] != 1:
        raise InputError(f"formula {formula!r} must have one outcome, to the left of ~, and that is a number")
    y = np.ascontiguousarray(Y[:, 0])
    infinite: dict[str, Bools] = {"outcome": ~np.isfinite(y), "predictors": np.any(~np.isfinite(X), axis=1)}
    for side, bad in infinite.items():
        if bad.any():
            where = rows(_in_the_design(bad, present))
            raise InputError(f"{side} of {formula!r} not finite in {where}; correct these or leave them out")
    if family == "binomial":
        _refuse_other_than_two(y, outcome, present)
    if len(X) < X.shape[1]:
        raise InputError(f"{formula!r} has {X.shape[1]:,} coefficients but {len(X):,} records have all its columns")
    named = {i: "Intercept" if str(term) == "1" else str(term) for term, at in spec.term_indices.items() for i in at}
    terms = tuple(named[i] for i in range(X.shape[1]))
    return Data(y, X, present, tuple(str(c) for c in spec.column_names), terms, categories)


def _present(design: SurveyDesign, names: list[str], missing: str) -> Bools:
    """The records that have a value in every one of these columns."""
    present = np.ones(design.n, dtype=bool)
    for name in names:
        gone = design.column(name).isna().to_numpy()
        if missing == "fail" and gone.any():
            raise InputError(
                f"column {name!r} is missing in {rows(gone)}; fill it in, or say missing='drop' to fit the records "
                "that have every column of the formula"
            )
        present &= ~gone
    return present


def _in_the_design(fitted: Bools, present: Bools) -> Bools:
    """Marks of fitted records as marks of the design's."""
    marks = np.zeros(present.size, dtype=bool)
    marks[present] = fitted
    return marks


def _outcome(design: SurveyDesign, name: str, present: Bools, family: Family) -> tuple[Floats, tuple[object, ...]]:
    """Values of an outcome that is a column, and the categories behind 0 and 1 where it is no number."""
    column = design.column(name)
    if family == "gaussian" or (pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)):
        return design.numeric(name)[present], ()
    codes, categories = pd.factorize(column[present], sort=True)
    if len(categories) > 2:
        raise InputError(f"outcome {name!r} has {len(categories):,} categories; a logistic regression needs two")
    return codes.astype(np.float64), tuple(categories)


def _refuse_other_than_two(y: Floats, outcome: Factor, present: Bools) -> None:
    other = (y != 0) & (y != 1)
    if other.any():
        raise InputError(
            f"outcome {outcome.expr!r} is a number other than 0 and 1 in {rows(_in_the_design(other, present))}; a "
            "logistic regression needs 0 and 1, or a column of two categories"
        )
    if y.size and (y == y[0]).all():
        raise InputError(f"outcome {outcome.expr!r} has one value in all records; a logistic regression needs two")


def _refuse_different(data: Data, first: Data, outcome: Factor) -> None:
    if data.columns != first.columns:
        ours, theirs = (dict(zip(d.columns, d.terms, strict=True)) for d in (data, first))
        differing = {(ours | theirs)[column] for column in ours.keys() ^ theirs.keys()}
        raise InputError(
            f"the data sets do not have the same coefficients of {', '.join(sorted(differing))}: some lack a category "
            "that others have"
        )
    if data.categories != first.categories:
        raise InputError(f"the data sets do not have the same two categories of outcome {outcome.expr!r}")


# ---- the fit and its variance


def _fit(design: SurveyDesign, data: Data, family: Family) -> Fit:
    w = design.weights[data.present]
    w = w / w.mean()
    T = _orthonormal(data, w)
    Q = data.X @ T
    b = _coefficients(data, Q, T, w, family)
    if design.replication is None:
        Z = np.zeros((design.n, len(b)))
        Z[data.present] = _linearized(data.y, Q, w, b, family) @ T.T
        V = covariance(design, Z, data.present)
    else:
        replicates = _replicated(design, data, Q, w, b, family) @ T.T
        V = design.replication.covariance(replicates, T @ b)
    return Fit(data, T @ b, V, _degf(design, data.present) + 1 - len(b))


def _orthonormal(data: Data, w: Floats) -> Floats:
    """The upper triangular T with sum_i w_i q_i q_i' = n I for Q = X T; collinear columns are refused."""
    X, root = data.X, np.sqrt(w / len(w))[:, None]
    length = np.sqrt(((root * X) ** 2).sum(axis=0))
    length[length == 0] = 1.0
    R = np.asarray(np.linalg.qr(root * X / length, mode="r"))
    new = np.abs(np.diag(R)) > COLLINEAR
    if not new.all():
        j = int(np.argmin(new))  # the first that the columns before it make up
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
    """Coefficients of the columns of Q: (p,)."""
    import statsmodels.api as sm  # takes a second to import

    if family == "gaussian":
        return np.asarray(sm.WLS(data.y, Q, weights=w, hasconst=True).fit().params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statsmodels' own words on what is refused below
        model = sm.GLM(data.y, Q, family=sm.families.Binomial(), var_weights=w)
        fit = model.fit(tol=CONVERGED, tol_criterion="params", maxiter=STEPS)
    if not fit.converged:
        before, last = fit.fit_history["params"][-2:]
        step = np.abs(T @ (last - before)) * np.sqrt(w @ data.X**2)
        grow = dict.fromkeys(term for term, s in zip(data.terms, step, strict=True) if s > 0.01 * step.max())
        raise InputError(
            "the logistic regression has no finite solution: predictors separate the two values of the outcome, and "
            f"the coefficients of {', '.join(grow)} grow without end; leave some out or merge categories"
        )
    return np.asarray(fit.params)


def _mean(linear: Floats, family: Family) -> tuple[Floats, Floats]:
    """Mu and its derivative v."""
    if family == "gaussian":
        return linear, np.ones_like(linear)
    mu = expit(linear)
    return mu, mu * expit(-linear)


def _linearized(y: Floats, Q: Floats, w: Floats, b: Floats, family: Family) -> Floats:
    """z_i = w_i (y_i - mu_i) A^-1 q_i, a row a record: (k, p)."""
    mu, v = _mean(Q @ b, family)
    A = Q.T @ ((w * v)[:, None] * Q)
    return np.asarray((w * (y - mu))[:, None] * np.linalg.solve(A, Q.T).T)


def _replicated(design: SurveyDesign, data: Data, Q: Floats, w: Floats, b: Floats, family: Family) -> Floats:
    """Coefficients in every replicate, (R, p); NaN where a replicate has none."""
    assert design.replication is not None
    R, step = design.replication.R, max(1, DENSE // design.n)
    found = np.empty((R, len(b)))
    for start in range(0, R, step):
        factors = design.replication.factors(start, min(start + step, R))[data.present]
        for r, factor in enumerate(factors.T, start):
            found[r] = _refit(data.y, Q, w * factor, b, family)
    return found


def _refit(y: Floats, Q: Floats, w: Floats, b: Floats, family: Family) -> Floats:
    """Coefficients under other weights, by Newton's steps from b; NaN where there are none.

    Replicate weights may be negative, which statsmodels does not take: what is solved here are
    the score equations, as totals of such weights.
    """
    for _ in range(STEPS):
        mu, v = _mean(Q @ b, family)
        A = Q.T @ ((w * v)[:, None] * Q)
        if not (np.isfinite(A).all() and np.linalg.cond(A) < SINGULAR):
            break
        step = np.linalg.solve(A, Q.T @ (w * (y - mu)))
        b = b + step
        if family == "gaussian" or np.abs(step).max() < CONVERGED:
            return b
    return np.full(b.shape, np.nan)


def _degf(design: SurveyDesign, present: Bools) -> int:
    """Degrees of freedom of the design, as R counts them for a regression."""
    if design.replication is not None or present.all():
        return design.degf
    return int(degrees_of_freedom(design, np.where(present, 0, -1), 1)[0])
