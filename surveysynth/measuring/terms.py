"""Terms of a formula, whose public levels define the rows of noisy tables and the effects of models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import formulaic
import numpy as np
import pandas as pd
from formulaic.parser.types import Factor
from formulaic.parser.types import Term as FormulaTerm
from numpy.typing import NDArray
from scipy.stats import norm

from ..design.columns import check_cells, occurring
from ..design.discrete import is_discrete
from ..design.formula import columns_of, factors_of, quoted
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..models.predictors.groups import groups_of
from ..models.predictors.model_matrix import first_records
from ..validation import rows

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

FEW = 10  # a numeric predictor with at most this many different values has a level for each value
GROUPS, STEPS = 6, 24  # for other numeric predictors, the number of levels and the number of steps


@dataclass(frozen=True, eq=False, repr=False)
class Term:
    """A term of a formula: one column, or several crossed columns, of n records.

    Tables are counted by level.  Effects depend on the step.  For a numeric predictor, levels and steps are groups of
    values, and steps are finer.  For other terms, steps are the same as levels.

    Attributes
    ----------
    name : str
        Name of the term, such as ``region`` or ``region:sex``.
    columns : tuple of str
        Columns of the term.
    labels : tuple of tuple of str
        Labels of each level, one label for each column.  For a numeric predictor the label is an interval.
    level : int array (n,)
        Level of each record.
    step : int array (n,)
        Step of each record.
    score : float array (steps,) or None
        Normal score of each step of a numeric predictor.  Other terms have None.
    drawn : bool
        True if the term stands for strata, PSUs or units, whose effects are drawn anew for each data set.
    """

    name: str
    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    level: Codes
    step: Codes
    score: Floats | None
    drawn: bool = False

    @property
    def levels(self) -> int:
        """Number of levels."""
        return len(self.labels)

    @property
    def level_of_step(self) -> Codes:
        """The level (steps,) of each step.  A step is a level or, for a numeric predictor, a finer group of values."""
        found = np.zeros(self.step.max() + 1, dtype=np.intp)
        found[self.step] = self.level
        return found


def terms_of(
    design: SurveyDesign, predictors: str, grouped: bool = False, unit: str | None = None
) -> list[Term]:  # fmt: skip
    """Create the terms of a formula's right-hand side, with main effects, and of strata, PSUs and protected units.

    The terms of the formula come first.  If ``unit``, the column of the protected units, is given and the sizes of the
    units differ, the size is the next term.  With ``grouped``, strata and PSUs follow, unless the columns of the
    formula determine them.  The protected units come last.

    Raises
    ------
    InputError
        A term is not a column, ``C(column)`` or a product of these, so that it has no levels.  A predictor or the unit
        has a missing value.  An interaction contains a numeric column with many values.
    """
    wanted = columns_of_terms(predictors)
    single = {column for columns in wanted for column in columns}
    made = {column: _single(design, column, f"C({column})" in predictors) for column in sorted(single)}
    found = [made[columns[0]] if len(columns) == 1 else _crossed([made[c] for c in columns]) for columns in wanted]
    groups, own = design_terms(design, single) if grouped else [], []
    if unit is not None:
        units = unit_term(design, unit)
        size = np.bincount(units.level)[units.level].astype(np.float64)
        found += [_number(f"size ({unit})", size)] if np.ptp(size) else []
        # if the PSUs are also the protected units, only the units have effects
        own = [units] if units.levels < design.n else []
        groups = [term for term in groups if len(np.unique(term.level)) < units.levels or not own]
    return [*found, *groups, *own]


def term_names(predictors: str) -> tuple[str, ...]:
    """Return the names of the terms of a right-hand side, including main effects of interactions."""
    return tuple(":".join(columns) for columns in columns_of_terms(predictors))


@dataclass(frozen=True)
class RightHandSide:
    """The right-hand side of an outcome's formula: public terms, earlier outcomes, and products of both.

    Attributes
    ----------
    public : str
        Formula of the public terms; "1" if there are none.
    earlier : tuple of str
        Earlier outcomes.
    products : tuple of (tuple of str, str)
        For each product of public columns and an earlier outcome, the public columns and the outcome.
    """

    public: str
    earlier: tuple[str, ...]
    products: tuple[tuple[tuple[str, ...], str], ...]


def split_terms(predictors: str, earlier: Collection[str]) -> RightHandSide:
    """Split a right-hand side into public terms, earlier outcomes, and products of a public term and an outcome.

    ``earlier`` has the names of all earlier outcomes.  Raise InputError for a product of two earlier outcomes, because
    no table is counted for it.
    """
    public, found = dict[str, None](), dict[str, None]()
    products = dict[tuple[tuple[str, ...], str], None]()
    for term in _products(predictors):
        columns = _columns(term.factors)
        among = [column for column in columns if column in earlier]
        if len(among) > 1:
            raise InputError(
                f"{term}: a product of two earlier outcomes is not measured; make a column of both, as an outcome"
            )
        found |= dict.fromkeys(among)
        others = [column for column in columns if column not in among]
        if others:
            public[":".join(_written(factor) for factor in term.factors if _columns([factor])[0] in others)] = None
        if others and among:
            products[tuple(others), among[0]] = None
    return RightHandSide(" + ".join(public) or "1", tuple(found), tuple(products))


def _written(factor: Factor) -> str:
    """Return a factor as text of a formula: backticks enclose column names that have blanks or special characters."""
    return quoted(factor.expr, [factor.expr]) if factor.eval_method == Factor.EvalMethod.LOOKUP else factor.expr


def columns_of_terms(predictors: str) -> list[tuple[str, ...]]:
    """List the columns of each term, including main effects of interactions.  The terms a:b and b:a are the same."""
    named = [_columns(term.factors) for term in _products(predictors)]
    found = dict[frozenset[str], tuple[str, ...]]()
    for each in [*((column,) for columns in named for column in columns), *named]:
        found.setdefault(frozenset(each), each)
    return [*found.values()]


def design_terms(design: SurveyDesign, columns: Iterable[str]) -> list[Term]:
    """Create the terms for strata and PSUs, except a term whose levels are determined by ``columns`` of a formula."""
    groups = groups_of(design, [*columns])
    if groups is None:
        return []
    strata, psu = design.strata_name, design.psu_names[:1]
    found = []
    if groups.parent is not None or not groups.sampled:
        found.append(_grouped(design, f"strata ({strata})", [str(strata)]))
    if groups.sampled:
        found.append(_grouped(design, f"PSUs ({psu[0]})", [*([strata] if strata else []), *psu]))
    return found


def unit_name(unit: str) -> str:
    """Return the name of the term whose levels are the protected units in the column ``unit``."""
    return f"units ({unit})"


def unit_term(design: SurveyDesign, unit: str) -> Term:
    """Create the term of the protected units, which are the values of the column ``unit``.

    If this column is a column of PSUs, the same label in different strata or in different larger sampling units means
    different units.  Raise InputError if the column has missing values.
    """
    missing = design.column(unit).isna()
    if missing.any():
        raise InputError(f"unit {unit!r} is missing in {rows(missing)}; give these records units of their own")
    above = [design.strata_name, *design.psu_names] if unit in design.psu_names else [unit]
    return _grouped(design, unit_name(unit), [name for name in above[: above.index(unit) + 1] if name])


def _grouped(design: SurveyDesign, name: str, columns: list[str]) -> Term:
    """Create a term of strata, PSUs or units.  Levels are combinations of labels, sorted by the labels as text."""
    codes, texts = [], []
    for column in columns:
        own = design.column(column)
        code, values = pd.factorize(own.astype(str) if own.dtype == object else own)  # True is not 1
        text, rank = np.unique(values.astype(str).to_numpy(dtype=str), return_inverse=True)
        codes.append(rank.astype(np.intp)[code])
        texts.append(text)
    first, level = combined(codes)
    labels = zip(*(text[code[first]].tolist() for text, code in zip(texts, codes, strict=True)), strict=True)
    return Term(name, tuple(columns), tuple(labels), level, level, None, drawn=True)


def public_cells(terms: Iterable[Term], n: int) -> tuple[Codes, Codes, Codes]:
    """Find which combinations of the terms' levels (of numeric terms, groups of values) occur among n records.

    Return three arrays: the steps (levels or groups) of each combination (combinations, terms), the combination of each
    record (n,), and the number of records of each combination (combinations,).
    """
    steps = [term.step for term in terms]
    if not steps:
        return np.zeros((1, 0), dtype=np.intp), np.zeros(n, dtype=np.intp), np.array([n])
    first, cell = combined(steps)
    return np.stack([step[first] for step in steps], axis=1), cell, np.bincount(cell)


def _products(predictors: str) -> Sequence[FormulaTerm]:
    if predictors.strip() in ("", "1"):
        return []
    factors_of(predictors)  # refuses a text that is not a formula
    return [term for term in formulaic.Formula(f"1 + {predictors}") if str(term) != "1"]


def _columns(factors: Sequence[Factor]) -> tuple[str, ...]:
    columns = []
    for factor in factors:
        found = columns_of(factor)
        name = next(iter(found), "")
        if len(found) != 1 or str(factor).replace("`", "") not in (name, f"C({name})"):
            raise InputError(
                f"{factor} is no column: a strict release counts records by columns, so make a column of it in the file"
            )
        columns.append(name)
    return tuple(columns)


def _single(design: SurveyDesign, column: str, categorical: bool) -> Term:
    values = design.column(column)
    check_cells(values, column)
    missing = values.isna()
    if missing.any():
        raise InputError(f"predictor {column!r} is missing in {rows(missing)}; give them a category of their own")
    if categorical or is_discrete(design, column, FEW) or pd.api.types.is_bool_dtype(values.dtype):
        ordered = values.astype("category").cat.remove_unused_categories()
        code, levels = np.asarray(ordered.cat.codes, dtype=np.intp), ordered.cat.categories
        return Term(column, (column,), tuple((str(level),) for level in levels), code, code, None)
    return _number(column, values.to_numpy(dtype=np.float64))


def _number(column: str, values: Floats) -> Term:
    edges = _cuts(values, GROUPS)
    step = np.searchsorted(_cuts(values, STEPS), values, side="right")
    step = np.unique(step * (GROUPS + 1) + np.searchsorted(edges, values, side="right"), return_inverse=True)[1]
    share = np.bincount(step) / len(values)
    score = norm.ppf(np.cumsum(share) - share / 2)
    ends = [-np.inf, *edges, np.inf]
    labels = tuple((f"[{low:g}, {high:g})",) for low, high in pairwise(ends))
    level = np.asarray(np.searchsorted(edges, values, side="right"), dtype=np.intp)
    return Term(column, (column,), labels, level, np.asarray(step, dtype=np.intp), score)


def _cuts(values: Floats, groups: int) -> Floats:
    """Return the quantiles that cut values into at most ``groups`` groups.  Equal values are in the same group."""
    cuts = np.unique(np.quantile(values, np.arange(1, groups) / groups))
    return cuts[cuts > values.min()]


def _crossed(terms: Sequence[Term]) -> Term:
    if any(term.score is not None for term in terms):
        numbers = ", ".join(term.name for term in terms if term.score is not None)
        raise InputError(f"{numbers}: a product with a number is not measured; make groups of it, as a column")
    first, level = combined([term.level for term in terms])
    labels = tuple(tuple(term.labels[term.level[record]][0] for term in terms) for record in first)
    columns = tuple(term.name for term in terms)
    return Term(":".join(columns), columns, labels, level, level, None)


def combined(codes: Sequence[Codes]) -> tuple[Codes, Codes]:
    """Number the combinations of codes that occur in n records.  ``codes`` has several arrays (n,).

    Return two arrays: the position of the first record of each combination, and the number of each record's combination
    (n,).
    """
    found = np.zeros_like(codes[0])
    for code in codes:
        many = int(code.max(initial=0)) + 1
        found = occurring(found * many + code, (int(found.max(initial=0)) + 1) * many)[1]
    return first_records(found), found
