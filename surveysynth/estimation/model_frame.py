"""Model frames: outcome, model matrix and offset of records, computed from a formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import formulaic
import numpy as np
import pandas as pd
from formulaic.parser.types import Factor
from numpy.typing import NDArray

from ..design.discrete import is_label
from ..design.formula import columns_of, factors_of, refuse_commas
from ..design.survey_design import SurveyDesign
from ..errors import InputError, guarded
from ..validation import one_of, rows
from .families import BINARY, KIND, Family

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """Settings of a fitted regression, from which the model matrix of new records is computed.

    The object contains no records of the design.  A fit has p coefficients.

    Attributes
    ----------
    spec : formulaic.ModelSpec
        Specification of the right-hand side.
    terms : tuple of str (p,)
        Term of the formula for each coefficient.
    columns : tuple of str
        Columns of the file in the right-hand side and the offset.
    categories : dict of column to list
        Categories in the fit, for each column that is not numeric.
    offset : str, optional
        Column or expression that is added to the linear predictor.
    naive : float array (p, p), optional
        Inverse information matrix of one data set, with weights of mean 1.
    """

    spec: Any
    terms: tuple[str, ...]
    columns: tuple[str, ...]
    categories: dict[str, list[object]]
    offset: str | None
    naive: Floats | None

    def rows(self, frame: pd.DataFrame) -> tuple[Floats, Floats]:
        """Return the model matrix and the offsets of new records.  Raise InputError for unsuitable records."""
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"predictions need a DataFrame, not {type(frame).__name__}")
        for name in self.columns:
            if name not in frame.columns:
                raise InputError(f"predictions need the column {name!r}, which the frame does not have")
            absent = frame[name].isna()
            if absent.any():
                raise InputError(f"column {name!r} is missing in {rows(absent)}; a prediction needs it")
            if name in self.categories:
                other = ~frame[name].isin(self.categories[name])
                if other.any():
                    raise InputError(f"column {name!r} has a category that was not fitted in {rows(other)}")
        asked = frame[list(self.columns)]

        def evaluate() -> tuple[Floats, Floats]:
            with np.errstate(all="ignore"):
                X = design_matrix(self.spec, asked) if self.columns else np.ones((len(frame), 1))
                return X, _offsets(self.offset, _ready(asked))

        def impossible(kind: str) -> InputError:
            return InputError(f"the formula cannot be evaluated on this frame ({kind})")

        X, offset = guarded(evaluate, Exception, impossible)
        bad = ~np.isfinite(X).all(axis=1) | ~np.isfinite(offset)
        if bad.any():
            raise InputError(f"the formula is not finite in {rows(bad)} of the frame")
        return X, offset


@dataclass(frozen=True, eq=False, repr=False)  # a repr would show confidential values
class Data:
    """Outcome, predictors and offset of the k records that a fit uses, from a design of n records.

    Attributes
    ----------
    y : float array (k,)
        Outcome.  An outcome of two categories is coded as 0 and 1.
    X : float array (k, p)
        Predictors, one column for each coefficient.
    present : bool array (n,)
        Marks the k of the n records of the design that have a value in every column of the formula.
    columns : tuple of str (p,)
        Names of the columns of X.
    terms : tuple of str (p,)
        Term of the formula for each column of X.
    categories : tuple
        The two categories of an outcome that is not numeric; empty for a numeric outcome.
    offset : float array (k,)
        What is added to the linear predictor: 0 if the model has no offset.
    spec : formulaic.ModelSpec
        Specification of the right-hand side.
    levels : dict of column to list
        Categories of the predictors that are not numeric.
    """

    y: Floats
    X: Floats
    present: Bools
    columns: tuple[str, ...]
    terms: tuple[str, ...]
    categories: tuple[object, ...]
    offset: Floats
    spec: Any
    levels: dict[str, list[object]]


def parsed(formula: str) -> tuple[Factor, list[str]]:
    """Return the outcome of a formula as a formulaic factor, and the names of all columns in the formula.

    Raise InputError for an unsuitable formula.
    """
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


def names_of_spec(spec: Any) -> set[str]:
    """Return the names of the columns on the right-hand side of a formula."""
    return {name for term in spec.formula for factor in term.factors for name in columns_of(factor)}


def offset_columns(offset: str | None) -> list[str]:
    """Return the names of the columns in an offset.  Raise InputError if the offset names no column."""
    if offset is None:
        return []
    found = sorted({name for factor in factors_of(f"I({offset})") for name in columns_of(factor)})
    if not found:
        raise InputError(f"offset={offset!r} names no column; it is one, or an expression such as 'log(exposure)'")
    return found


def _offsets(offset: str | None, frame: pd.DataFrame) -> Floats:
    if offset is None:
        return np.zeros(len(frame))
    values = np.asarray(formulaic.model_matrix(f"0 + I({offset})", frame, na_action="ignore"), dtype=np.float64)
    return np.asarray(values).reshape(len(frame))


def design_matrix(spec: Any, frame: pd.DataFrame) -> Floats:
    """Compute the model matrix of other records, with the terms and categories of a fit (``spec``)."""
    return np.asarray(spec.get_model_matrix(_ready(frame), na_action="ignore"), dtype=np.float64)


def _ready(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the columns of a frame to types that formulaic treats correctly."""
    frame = frame.copy(deep=False)
    for name, column in frame.items():
        if isinstance(column.dtype, pd.CategoricalDtype):  # a category without records has no coefficient
            frame[name] = column.cat.remove_unused_categories()
        elif isinstance(column.dtype, pd.StringDtype):
            frame[name] = column.astype("str")
        elif isinstance(column.dtype, pd.ArrowDtype) and is_label(column):
            frame[name] = column.astype(object)
    return frame


def data_of(
    design: SurveyDesign, formula: str, outcome: Factor, names: list[str], family: Family, offset: str | None,
    missing: str,
) -> Data:  # fmt: skip
    """Compute the outcome, predictors and offset of the records of a design.

    ``outcome`` is the outcome as :func:`parsed` returns it, and ``names`` are all columns of the formula and the
    offset.

    Raises
    ------
    InputError
        The formula cannot be evaluated on the design; values are missing or infinite; the outcome does not suit the
        family; there are more coefficients than records.
    """
    present = _present(design, names, missing)
    frame = _ready(design.select(names).loc[present])
    categories: tuple[object, ...] = ()
    if outcome.eval_method == Factor.EvalMethod.LOOKUP:
        frame[outcome.expr], categories = _outcome(design, outcome.expr, present, family)

    def evaluate() -> tuple[Floats, Floats, Any, Floats]:
        with np.errstate(all="ignore"):  # infinite values are refused below
            matrices = formulaic.model_matrix(formula, frame, na_action="ignore")
            added = _offsets(offset, frame)
        y, X = (np.asarray(side, dtype=np.float64) for side in (matrices.lhs, matrices.rhs))
        return y, X, matrices.rhs.model_spec, added

    def impossible(kind: str) -> InputError:
        added = "" if offset is None else f", or offset {offset!r},"
        return InputError(f"formula {formula!r}{added} cannot be evaluated on this file ({kind})")

    Y, X, spec, added = guarded(evaluate, Exception, impossible)
    if Y.shape[1] != 1:
        raise InputError(f"formula {formula!r} must have one outcome, to the left of ~, and that is a number")
    y = np.ascontiguousarray(Y[:, 0])
    infinite: dict[str, Bools] = {"outcome": ~np.isfinite(y), "predictors": np.any(~np.isfinite(X), axis=1)}
    infinite["offset"] = ~np.isfinite(added)
    for side, bad in infinite.items():
        if bad.any():
            where = rows(_in_the_design(bad, present))
            raise InputError(f"{side} of {formula!r} not finite in {where}; correct these or leave them out")
    if family in BINARY:
        _refuse_other_than_two(y, outcome, present)
    if family in ("poisson", "gamma"):
        _refuse_negative(y, outcome, present, family)
    if len(X) < X.shape[1]:
        raise InputError(f"{formula!r} has {X.shape[1]:,} coefficients but {len(X):,} records have all its columns")
    named = {i: "Intercept" if str(term) == "1" else str(term) for term, at in spec.term_indices.items() for i in at}
    terms = tuple(named[i] for i in range(X.shape[1]))
    levels = {
        name: list(pd.unique(frame[name]))
        for name in names_of_spec(spec)
        if not pd.api.types.is_numeric_dtype(frame[name]) or pd.api.types.is_bool_dtype(frame[name])
    }
    return Data(
        y, X, present, tuple(str(c) for c in spec.column_names), terms, categories, added, spec, levels
    )  # fmt: skip


def _present(design: SurveyDesign, names: list[str], missing: str) -> Bools:
    """Return True for each record that enters the estimates and has a value in every column in ``names``: (n,).

    A record enters if its weight, or its weight in some replicate, is not 0.  With ``missing="fail"``, raise InputError
    if a value is missing.
    """
    one_of(missing, ("fail", "drop"), "missing")
    present = design.entering
    for name in names:
        absent = design.column(name).isna().to_numpy()
        if missing == "fail" and absent.any():
            raise InputError(
                f"column {name!r} is missing in {rows(absent)}; fill it in, or set missing='drop' to fit the records "
                "that have every column of the formula"
            )
        present &= ~absent
    return present


def _in_the_design(fitted: Bools, present: Bools) -> Bools:
    """Expand a bool array for the fitted records to all records of the design, with False for the other records."""
    marks = np.zeros(present.size, dtype=bool)
    marks[present] = fitted
    return marks


def _outcome(design: SurveyDesign, name: str, present: Bools, family: Family) -> tuple[Floats, tuple[object, ...]]:
    """Return the values of an outcome in the records that ``present`` marks, and the two categories of the outcome.

    An outcome of two categories has the values 0 and 1.  For a numeric outcome, there are no categories.
    """
    one_of(family, get_args(Family), "family")
    column = design.column(name)
    if family not in BINARY or (pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)):
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


def _refuse_negative(y: Floats, outcome: Factor, present: Bools, family: Family) -> None:
    bad = y < 0 if family == "poisson" else y <= 0
    if bad.any():
        what, must = ("negative", "from 0 on") if family == "poisson" else ("not positive", "above 0")
        raise InputError(
            f"outcome {outcome.expr!r} is {what} in {rows(_in_the_design(bad, present))}; a {KIND[family]} regression "
            f"needs numbers {must}"
        )
    if not y.any():
        raise InputError(f"outcome {outcome.expr!r} is 0 in all records; a {KIND[family]} regression needs others")


def refuse_different(data: Data, first: Data, outcome: Factor) -> None:
    """Raise InputError if two data sets have different coefficients or different categories of the outcome."""
    if data.columns != first.columns:
        ours, theirs = (dict(zip(d.columns, d.terms, strict=True)) for d in (data, first))
        differing = {(ours | theirs)[column] for column in ours.keys() ^ theirs.keys()}
        raise InputError(
            f"the data sets do not have the same coefficients of {', '.join(sorted(differing))}: some lack a category "
            "that others have"
        )
    if data.categories != first.categories:
        raise InputError(f"the data sets do not have the same two categories of outcome {outcome.expr!r}")
