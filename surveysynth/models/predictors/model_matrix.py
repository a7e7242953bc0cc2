"""The distinct rows of the model matrix of a formula, called predictor rows.

Letters in shapes are numbers: n of records, G of predictor rows, and K of columns.  ``X`` (G, K) are the predictor
rows, and ``pattern`` (n,) is the position in ``X`` of each record's predictor row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol

import formulaic
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...design.columns import check_cells, codes
from ...design.discrete import is_discrete
from ...design.formula import coded_columns, factors_of, formula_columns, is_row_wise
from ...design.survey_design import SurveyDesign
from ...errors import InputError, guarded
from ...validation import rows
from ..regression.sufficient_statistics import residual_squares
from .groups import differing_sizes

LARGEST = 1e140  # largest absolute value of a predictor, so that sums of squares are finite
Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Constants = Mapping[str, Mapping[str, Any]]  # means and knots, by term of the formula: center(age), bs(age, 5)


class Synthesized(Protocol):
    """Categorical outcomes that are also predictors of the numeric outcomes of the same model.

    A category is a combination of one level of each of these outcomes.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the categorical outcomes."""
        ...

    @property
    def K(self) -> int:
        """Number of categories (combinations of levels)."""
        ...

    @property
    def category(self) -> Codes:
        """Category (n,) of each record, as a number from 0 to K - 1."""
        ...

    def columns(self, category: Codes) -> dict[str, pd.Series]:
        """Return the levels of the categorical outcomes, by column, for records with the given categories."""
        ...


C_OF_COLUMN = re.compile(r"C\((\w+|`[^`]+`)\)")  # a term whose levels are the same in distinct rows and in all records
FEW = 10  # a numeric predictor with at most this number of values is discrete
LOG_WEIGHT, LOG_SIZE, LOG_UNIT = "log(weight)", "log(records of the PSU)", "log(records of the unit)"


def with_categories(predictors: str, names: Sequence[str]) -> str:
    """Add main effects of the categorical outcomes ``names`` to a formula, unless the formula names them already."""
    named = formula_columns(predictors)
    return " + ".join([predictors, *(f"C(`{name}`)" for name in names if name not in named)])


def discrete_predictors(design: SurveyDesign, predictors: str, synthesized: Sequence[str]) -> list[str]:
    """Return the names of the discrete public columns of a formula.

    These are labels, the stratum, numbers inside ``C()``, and numbers with at most 10 different values.
    ``synthesized`` are the categorical outcomes in the formula, which are left out.
    """
    coded = coded_columns(predictors)
    return [
        name
        for name in formula_columns(predictors)
        if name not in synthesized and (name in coded or is_discrete(design, name, FEW))
    ]


def numeric_predictors(design: SurveyDesign, predictors: str, synthesized: Sequence[str]) -> list[str]:
    """Return the names of the public columns of a formula that enter as numbers, not as categories.

    ``synthesized`` are the categorical outcomes in the formula, which are left out.
    """
    coded = coded_columns(predictors)
    return [
        name
        for name in formula_columns(predictors)
        if name not in synthesized and name not in coded and not is_discrete(design, name)
    ]


def predictor_rows(
    design: SurveyDesign, predictors: str, categories: Synthesized | None, constants: Constants | None = None
) -> tuple[Floats, Codes, tuple[str, ...]]:
    """Return the distinct rows of the model matrix, the position of each record's row, and the column names.

    These are X (G, K), ``pattern`` (n,) and K names.  With ``categories`` (categorical outcomes in the formula), X has
    a row for each combination of public predictors and category, even if no record has this combination.  Row g of the
    public predictors with category k then has the position g * categories.K + k in X.  ``constants`` are means and
    knots of the formula, from :func:`predictor_constants`.  With them, the row of a record does not depend on other
    records.

    Raises
    ------
    InputError
        A record has weight 0, whose log does not exist; a predictor has missing values or dates; the formula cannot be
        evaluated, has an infinite value, or depends on the order of the records; or the constants do not belong to the
        terms of the formula.
    """
    if not design.weights.all():
        raise InputError("a model is of records with positive weights: leave those of weight 0 out")
    synthesized = () if categories is None else categories.names
    names = _checked_columns(design, predictors, synthesized)
    frame = design.select([*names, *synthesized])
    types = _types(design, frame)
    pattern: Codes = np.zeros(design.n, dtype=np.intp)
    if names:
        pattern = np.asarray(frame.groupby(names, sort=True, observed=True).ngroup(), dtype=np.intp)
    first = first_records(pattern)
    row = pattern
    one_each = constants is None and categories is None and _row_by_row(predictors)
    if one_each:  # the formula is evaluated for one record of each pattern
        frame = frame.iloc[first]
        first = row = np.arange(len(first))
    given = {} if constants is None else _arrays(constants)
    values, X, matrix = guarded(
        lambda: _evaluated(predictors, frame, types, first, categories, given),
        Exception,
        lambda kind: _not_evaluated(predictors, kind, constants),
    )
    if constants is not None and _constants(matrix).keys() != given.keys():
        raise InputError(
            f"the policy's constants (means, knots) are not those of the predictors {predictors!r}: make the policy "
            "again, with the formulaic that is installed here"
        )
    _refuse_extreme(predictors, values, pattern if one_each else np.arange(design.n))
    if categories is not None:
        pattern = row = pattern * categories.K + categories.category
    if not all(np.allclose(column, x[row]) for column, x in zip(values.T, X.T, strict=True)):
        raise InputError(f"the predictors {predictors!r} depend on the order of the records")
    return X, pattern, tuple(str(c) for c in matrix.model_spec.column_names)


def _checked_columns(design: SurveyDesign, predictors: str, synthesized: Sequence[str]) -> list[str]:
    """Return the names of the public columns of a formula, without the categorical outcomes ``synthesized``.

    Raise InputError for columns with missing values or dates.
    """
    names = [name for name in formula_columns(predictors) if name not in synthesized]
    for name in names:
        check_cells(design.column(name), name)
        refuse_missing(design.column(name), name)
        if pd.api.types.infer_dtype(design.column(name)) in ("date", "datetime", "datetime64"):
            raise InputError(f"predictor {name!r} is a date; make a number of it, or groups of dates")
    return names


def _evaluated(
    predictors: str, frame: pd.DataFrame, types: Mapping[str, str], first: Codes, categories: Synthesized | None,
    given: Mapping[str, Any],
) -> tuple[Floats, Floats, formulaic.ModelMatrix]:  # fmt: skip
    """Return the model matrices of the records and of the combinations of predictors, and formulaic's ModelMatrix.

    ``first`` are the positions of one record for each combination of public predictors.  With ``categories``, the
    second matrix combines each of these records with each category.  ``given`` are constants of the terms (means,
    knots).  ``types`` are types of columns.
    """
    # all records are evaluated together, so that center(), bs() and similar terms agree with R
    matrix = formulaic.model_matrix(
        f"1 + {predictors}", frame.astype(dict(types)), na_action="ignore", transform_state=deepcopy(given)
    )
    values = np.asarray(matrix, dtype=np.float64)
    if categories is None:
        return values, values[first], matrix
    grid = frame.iloc[np.repeat(first, categories.K)].reset_index(drop=True)
    grid = grid.assign(**categories.columns(np.tile(np.arange(categories.K), len(first)))).astype(dict(types))
    return values, np.asarray(matrix.model_spec.get_model_matrix(grid, na_action="ignore"), dtype=np.float64), matrix


def _not_evaluated(predictors: str, kind: str, constants: Constants | None) -> InputError:
    text = f"the predictors {predictors!r} cannot be evaluated on this file ({kind})"
    if constants:
        text += (
            ". Their means and knots are those of the policy: beyond its knots bs() has no value, so move what lies "
            "there to the nearest, or make the policy with bounds in bs() that hold for later files, too "
            "(lower_bound=, upper_bound=)"
        )
    return InputError(text)


def _refuse_extreme(predictors: str, values: Floats, row: Codes) -> None:
    """Refuse predictors that are not finite, or too large to be squared (InputError).

    ``values`` are rows of the model matrix, and ``row`` (n,) is the position of each record's row.
    """
    finite = np.asarray(np.isfinite(values).all(axis=1))
    if not finite.all():
        raise InputError(f"the predictors {predictors!r} are not finite in {rows(~finite[row])}")
    large = np.asarray((np.abs(values) > LARGEST).any(axis=1))
    if large.any():
        raise InputError(
            f"the predictors {predictors!r} are too large in {rows(large[row])} to be squared; rescale them"
        )


def refuse_missing(column: pd.Series, name: str) -> None:
    """Refuse a predictor with missing values (InputError)."""
    missing = column.isna()
    if missing.any():
        raise InputError(
            f"predictor {name!r} is missing in {rows(missing)}; give these records a category of their own: "
            f"frame[{name!r}].fillna('missing'), or in a plan [columns.{name}] missing = 'category'"
        )


def first_records(pattern: Codes) -> Codes:
    """Return the position (G,) of the first record with each combination of predictors."""
    first = np.empty(int(pattern.max(initial=-1)) + 1, dtype=np.intp)
    first[pattern[::-1]] = np.arange(len(pattern) - 1, -1, -1)
    return first


def _row_by_row(predictors: str) -> bool:
    """True if records with equal public columns always have equal rows of the model matrix.

    Then the formula needs to be evaluated for only one of these records.
    """
    return all(
        is_row_wise(f.expr) or C_OF_COLUMN.fullmatch(f.expr)
        for f in factors_of(predictors)
        if f.eval_method.value == "python"
    )


def model_spec(design: SurveyDesign, predictors: str) -> tuple[formulaic.ModelSpec, dict[str, str]]:
    """Return formulaic's specification of a model matrix, and the types of text columns and of the stratum.

    Both are needed to compute the model matrix of other records.

    Raises
    ------
    InputError
        A term such as ``center()`` or ``bs()`` takes constants (means, knots) from the file.  They would reveal values
        of confidential columns.
    """
    frame = design.select(formula_columns(predictors))
    types = _types(design, frame)
    matrix = formulaic.model_matrix(f"1 + {predictors}", frame.astype(types), na_action="ignore")
    if _constants(matrix):
        raise InputError(
            f"the predictors {predictors!r} have terms whose means or knots come from the file, and some are "
            "confidential here: write numbers, I(income - 20000) or log(income)"
        )
    return matrix.model_spec, types


def predictor_constants(design: SurveyDesign, predictors: str) -> dict[str, dict[str, Any]]:
    """Return the constants that a formula takes from a file: the mean in ``center(age)``, the knots in ``bs(age, 5)``.

    The keys of the result are the terms.  The constants are numbers, or lists and dicts of numbers.

    Raises
    ------
    InputError
        The value of a term depends on other records in another way, as in ``I(age - age.mean())``, so that it cannot be
        computed for records of another file.
    """
    frame = design.select(formula_columns(predictors))
    frame = frame.astype(_types(design, frame))

    def evaluate() -> tuple[dict[str, dict[str, Any]], list[str]]:
        matrix = formulaic.model_matrix(f"1 + {predictors}", frame, na_action="ignore")
        spec, X = matrix.model_spec, np.asarray(matrix, dtype=np.float64)
        moved = [
            str(name)
            for name, x in zip(spec.column_names, X.T, strict=True)
            if not all(_alone(spec, frame, record, name, x[record]) for record in (x.argmin(), x.argmax()))
        ]
        return {term: _plain(state) for term, state in _constants(matrix).items()}, moved

    def impossible(kind: str) -> InputError:
        return InputError(f"a policy cannot keep the means or knots of the predictors {predictors!r} ({kind})")

    constants, moved = guarded(evaluate, Exception, impossible)
    if moved:
        raise InputError(
            f"under a policy a predictor depends on its own record alone, and {', '.join(moved)} does on others, too: "
            "use center(), scale(), poly() or bs(), whose constants come from the historical file, or write numbers"
        )
    return constants


def _alone(spec: formulaic.ModelSpec, frame: pd.DataFrame, record: int, column: str, value: float) -> bool:
    """True if the model matrix of the record alone, without the other records, has ``value`` in this column."""
    try:
        row = spec.get_model_matrix(frame.iloc[[record]], na_action="ignore")
    except Exception:  # the term needs other records
        return False
    return bool(np.allclose(np.asarray(row[column], dtype=np.float64), value))


def _types(design: SurveyDesign, frame: pd.DataFrame) -> dict[str, str]:
    """Return types of columns for formulaic: "str" for text, and "category" for the stratum, even if it is a number."""
    text = {str(c): "str" for c in frame if isinstance(frame[c].dtype, pd.StringDtype)}
    return text | ({str(design.strata_name): "category"} if design.strata_name in frame else {})


def _constants(matrix: formulaic.ModelMatrix) -> dict[str, Any]:
    return {term: state for term, state in matrix.model_spec.transform_state.items() if state}


def _plain(value: Any) -> Any:
    """Convert constants of a formula (numbers, lists and mappings of numpy and formulaic) to plain Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError


def _arrays(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _arrays(each) for key, each in value.items()}
    return np.array(value) if isinstance(value, list) else value


def numeric_columns(columns: Sequence[str]) -> list[str]:
    """Return the names of the model matrix columns that are numeric predictors or functions of these, such as log(age).

    Columns of categories, and of terms with several columns such as ``bs()``, have "[" in their names and are left out.
    """
    return [c for c in columns if c not in ("Intercept", LOG_WEIGHT, LOG_SIZE, LOG_UNIT) and "[" not in c]


def _determined(X: Floats, pattern: Codes, values: Floats) -> bool:
    """True if ``values`` (n,) are a linear function of the columns of the model matrix ``X[pattern]``."""
    centred = values - values.mean()
    return residual_squares(centred, X, pattern) <= 1e-9 * float(centred @ centred)


def with_log_size(
    X: Floats, pattern: Codes, columns: tuple[str, ...], name: str, size: Floats | None, each: int = 1
) -> tuple[Floats, Codes, tuple[str, ...]]:
    """Add the column log ``size`` (n,), called ``name``, to the model matrix.

    Returns X, ``pattern`` and the names of the columns.  Nothing is added if ``size`` is None, or if log ``size`` is a
    linear function of the other columns.  ``each`` is as for :func:`with_column`.
    """
    if size is None or _determined(X, pattern, np.log(size)):
        return X, pattern, columns
    return *with_column(X, pattern, each, np.log(size)), (*columns, name)


def with_unit_size(
    X: Floats, pattern: Codes, columns: tuple[str, ...], unit: Codes | None
) -> tuple[Floats, Codes, tuple[str, ...]]:
    """Add a column to the model matrix: the log of the number of records in each record's unit.

    A unit is what epsilon protects, such as a household.  ``unit`` (n,) is the unit of each record, or None if each
    record is a unit.  Returns X, ``pattern`` and the names of the columns.  Privacy weights of units depend on these
    numbers, so the model must have this predictor.  Nothing is added if all units have equally many records.
    """
    return with_log_size(X, pattern, columns, LOG_UNIT, None if unit is None else differing_sizes(unit))


def with_column(X: Floats, pattern: Codes, each: int, column: Floats) -> tuple[Floats, Codes]:
    """Add a public column (n,) to the model matrix, and return the new distinct rows and each record's row number.

    ``each`` is the number of categories of the synthesized outcomes in the formula, and 1 without such outcomes.  X
    consists of blocks of ``each`` rows that differ only in this category, and so does the new X.
    """
    public = codes(pattern // each, np.unique(column, return_inverse=True)[1])
    first = np.unique(public, return_index=True)[1]
    row = (pattern[first] // each)[:, None] * each + np.arange(each)
    return np.column_stack([X[row.ravel()], np.repeat(column[first], each)]), public * each + pattern % each
