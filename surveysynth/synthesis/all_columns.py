"""The predictors for which a dot in a formula such as ``"income ~ ."`` stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..design.formula import quoted, sides_of
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..measuring.measure import OUTCOME, PARENT_LEVELS
from ..measuring.outcome import Outcome
from ..measuring.table_noise import TableBudget, noise_variance
from ..measuring.terms import terms_of
from ..validation import positive, several

ALL = "."
GROUPS = 3  # assumed number of groups of an outcome
WORTH = 2.0  # fewest records in a cell of a useful table, in standard deviations of the noise


def written_out(
    design: SurveyDesign, formula: Any, public: Sequence[str] | None, epsilon: float | None, delta: float | None,
    outcomes: Mapping[str, Outcome] | None,
) -> Any:  # fmt: skip
    """Return formulas with the names of the predictors in place of a dot on the right-hand side.

    A dot stands for the public columns and the earlier outcomes.  Every predictor needs a table of counts with noise.
    A column is left out if the cells of its table would have too few records: on average fewer than two standard
    deviations of the noise.  Columns with the most levels are left out first.  The choice depends on public numbers
    only.  The result has one formula for each outcome whose formula has a dot.

    Parameters
    ----------
    design : SurveyDesign
        Only the values of public columns and the types of other columns are used.
    formula : str, list of str, or model
        Formulas, or a model.  A formula without a dot, and a model, are returned unchanged.
    public : list of str, optional
        Columns for which a dot stands.
    epsilon, delta : float, optional
        Privacy budget of the release.  Without epsilon, no column is left out.
    outcomes : mapping of outcome to Outcome, optional
        Declarations, which give the number of levels of earlier outcomes.  Numbers are grouped into a few levels.

    Raises
    ------
    InputError
        There is a dot but ``public`` is not given, a dot stands among other terms, or a public column cannot be a
        predictor.
    """
    given = [formula] if isinstance(formula, str) else formula
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        return formula
    sides = [one.partition("~")[::2] for one in given]
    if not any(ALL in right.split() for _, right in sides):
        return formula
    if public is None:
        raise InputError("'~ .' stands for the public columns, which only you know: public=['region', 'sex', ...]")
    columns = [quoted(column, [column]) for column in several(public)]
    levels = dict(zip(columns, (terms_of(design, column)[0].levels for column in columns), strict=True))
    names = [name for left, _ in sides for name in _outcomes(left)]
    budget = None if epsilon is None else TableBudget(positive(epsilon, "epsilon"), delta)
    written: list[str] = []
    for left, right in sides:
        if right.split() != [ALL]:
            if ALL in right.split():
                raise InputError(f"'~{right}': a dot stands alone, for the public columns and the outcomes before")
            written.append(f"{left}~{right}")
        for name in _outcomes(left):
            if right.split() == [ALL]:
                kept = _worth_measuring(levels, design.n, len(names), budget)
                written.append(f"{name} ~ {' + '.join(kept) or '1'}")
            levels = levels | {name: _levels(name, outcomes)}
    return written[0] if len(written) == 1 and isinstance(formula, str) else written


def _outcomes(left: str) -> list[str]:
    """Return the outcomes of a formula's left-hand side, quoted as in a formula."""
    found = [column.removeprefix("C(").removesuffix(")") for column in several(sides_of(f"{left} ~ 1", "1")[0])]
    return [quoted(column, [column]) for column in found]


def _levels(name: str, outcomes: Mapping[str, Outcome] | None) -> int:
    schema = (outcomes or {}).get(name.strip("`"))
    if schema is None or schema.bounds is not None:
        return PARENT_LEVELS
    return len(schema.special)


def _worth_measuring(levels: Mapping[str, int], n: int, outcomes: int, budget: TableBudget | None) -> list[str]:
    """Return the columns whose noisy tables have many records in each cell, relative to the noise.

    ``levels`` has the number of levels of each column, and ``outcomes`` is the number of outcomes.  Columns with the
    most levels are left out first.  At least one column remains.  The order of the columns does not change.
    """
    ordered = sorted(levels, key=lambda name: levels[name])
    for many in range(len(ordered), 1, -1) if budget is not None else ():
        assert budget is not None
        share = OUTCOME["by terms"] / (2 * many)  # two tables for each column: of scores, and of groups
        epsilon = budget.split([(share, 2 * many * outcomes), (1 - OUTCOME["by terms"], outcomes)])[0]
        sd = noise_variance(epsilon, gaussian=budget.gaussian) ** 0.5
        if n / (GROUPS * levels[ordered[many - 1]]) >= WORTH * sd:
            return [name for name in levels if name in ordered[:many]]
    return [*levels] if budget is None else ordered[:1]
