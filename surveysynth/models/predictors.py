"""Predictors: a formula of public columns, and the distinct rows of its model matrix."""

from __future__ import annotations

from collections.abc import Sequence

import formulaic
import numpy as np
import pandas as pd
from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS
from formulaic.utils.variables import Variable, get_required_variables
from numpy.typing import NDArray

from ..columns import codes
from ..design import SurveyDesign
from ..errors import InputError, guarded, rows
from .categories import Categories

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

FEW = 10  # a numeric predictor with at most so many values makes cells


def formula_columns(predictors: str) -> tuple[str, ...]:
    """The columns that the right-hand side of a formula names, sorted.

    Raises
    ------
    InputError
        It is not a right-hand side of a formula.
    """
    return tuple(sorted({name for factor in _factors(predictors) for name in columns_of(factor)}))


def _factors(predictors: str) -> list[Factor]:
    if not isinstance(predictors, str) or not predictors.strip():
        raise InputError("predictors must be a formula such as 'field + gender' ('1' for none)")
    try:
        formula = formulaic.Formula(f"1 + {predictors}")
    except Exception as error:
        raise InputError(f"predictors {predictors!r} is not a formula ({type(error).__name__})") from None
    if not isinstance(formula, formulaic.SimpleFormula) or not formula:
        raise InputError("predictors is the right-hand side of a formula, with each public column by name")
    return [factor for term in formula for factor in term.factors]


def columns_of(factor: Factor) -> set[str]:
    """The columns that a factor of a formula reads; formulaic's own list misses those inside ``center()``, ``bs()``."""
    if factor.eval_method == Factor.EvalMethod.LOOKUP:
        return {factor.expr}
    found = get_required_variables(factor.expr)
    return {
        str(v.root if Variable.Role.CALLABLE in v.roles else v)
        for v in found
        # center(x) is a function and contr.sum a constant, but C(center) reads a column
        if v.root not in TRANSFORMS or (Variable.Role.VALUE in v.roles and v == v.root)
    }


def with_categories(predictors: str, names: Sequence[str]) -> str:
    """The formula with main effects of the synthesized categories that it does not name."""
    named = formula_columns(predictors)
    return " + ".join([predictors, *(f"C(`{name}`)" for name in names if name not in named)])


def discrete_predictors(design: SurveyDesign, predictors: str, synthesized: Sequence[str]) -> list[str]:
    """The public columns of a formula that make cells: labels, ``C()`` of numbers, numbers of few values."""
    coded = {name for f in _factors(predictors) if f.expr.startswith("C(") for name in columns_of(f)}
    return [
        name
        for name in formula_columns(predictors)
        if name not in synthesized
        and (
            name in coded
            or name == design.strata_name
            or not pd.api.types.is_numeric_dtype(design.column(name).dtype)
            or design.column(name).nunique() <= FEW
        )
    ]


def predictor_rows(
    design: SurveyDesign, predictors: str, categories: Categories | None
) -> tuple[Floats, Codes, tuple[str, ...]]:
    """Distinct rows of the model matrix: X (G, K), each record's row (n,), and the names of the columns.

    With categories every public row comes in each of them, whether it occurs or not: row g of the
    public ones and category k is row g * categories.K + k.

    Raises
    ------
    InputError
        Missing values or dates in a predictor; a formula that cannot be evaluated, is not finite,
        or depends on the order of the records.
    """
    synthesized = () if categories is None else categories.names
    names = [name for name in formula_columns(predictors) if name not in synthesized]
    for name in names:
        missing = design.column(name).isna()
        if missing.any():
            raise InputError(
                f"predictor {name!r} is missing in {rows(missing)}; give these records a category of their own"
            )
        if pd.api.types.infer_dtype(design.column(name)) in ("date", "datetime", "datetime64"):
            raise InputError(f"predictor {name!r} is a date; make a number of it, or groups of dates")
    frame = design.frame[[*names, *synthesized]]
    text = {c: "str" for c in frame if isinstance(frame[c].dtype, pd.StringDtype)}
    if design.strata_name in names:  # a stratum is a label, also where it is coded as a number
        text |= {design.strata_name: "category"}
    pattern: Codes = np.zeros(design.n, dtype=np.intp)
    if names:
        pattern = np.asarray(frame.groupby(names, sort=True, observed=True).ngroup(), dtype=np.intp)
    first = np.unique(pattern, return_index=True)[1]

    def evaluate() -> tuple[Floats, Floats, tuple[str, ...]]:
        # of all records, so that center(), bs() and the like are what they are in R
        matrix = formulaic.model_matrix(f"1 + {predictors}", frame.astype(text), na_action="ignore")
        of_records = np.asarray(matrix, dtype=np.float64)
        distinct = of_records[first]
        if categories is not None:
            grid = frame.iloc[np.repeat(first, categories.K)].reset_index(drop=True)
            grid = grid.assign(**categories.columns(np.tile(np.arange(categories.K), len(first)))).astype(text)
            distinct = np.asarray(matrix.model_spec.get_model_matrix(grid, na_action="ignore"), dtype=np.float64)
        return of_records, distinct, tuple(str(c) for c in matrix.model_spec.column_names)

    def impossible(kind: str) -> InputError:
        return InputError(f"the predictors {predictors!r} cannot be evaluated on this file ({kind})")

    of_records, X, columns = guarded(evaluate, Exception, impossible)
    finite = np.isfinite(of_records).all(axis=1)
    if not finite.all():
        raise InputError(f"the predictors {predictors!r} are not finite in {rows(~finite)}")
    if categories is not None:
        pattern = pattern * categories.K + categories.category
    if not all(np.allclose(column, x[pattern]) for column, x in zip(of_records.T, X.T, strict=True)):
        raise InputError(f"the predictors {predictors!r} depend on the order of the records")
    return X, pattern, columns


def with_column(X: Floats, pattern: Codes, each: int, column: Floats) -> tuple[Floats, Codes]:
    """Predictor rows and patterns with one more public column (n,), in blocks of ``each`` rows as before."""
    public = codes(pattern // each, np.unique(column, return_inverse=True)[1])
    first = np.unique(public, return_index=True)[1]
    row = (pattern[first] // each)[:, None] * each + np.arange(each)
    return np.column_stack([X[row.ravel()], np.repeat(column[first], each)]), public * each + pattern % each
