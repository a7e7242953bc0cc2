"""Checks of a plan's tables against its outcomes and public columns, before the file is measured or a model is fitted.

A release is charged to its ledger before its tables are written.  So all that its tables would refuse is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..design.columns import check_cells
from ..design.survey_design import SurveyDesign
from ..errors import InputError, Obstacles
from ..estimation.quantities import MOST_CATEGORIES, TOO_MANY
from ..estimation.tables import check_by, check_categories
from ..measuring.outcome import Outcome
from ..models.base import Synthesizer
from ..models.registry import MODELS
from ..release.domains import check_parts, parts_of_tables
from ..release.suppression import check_limits
from ..synthesis.levels import levels_by_type
from ..synthesis.measured import M
from .arguments import by_of, print_of
from .settings import Settings
from .strict import is_strict, schema_of

CONTINUOUS = "fbs", "fbp", "beta", "gamma", "mixture"  # models of records whose synthetic numbers are hardly ever equal


def check_tables(settings: Settings, design: SurveyDesign, model: Synthesizer, m: int | None, folder: Path) -> None:
    """Raise InputError if the release of a plan could not be written with the plan's tables.

    One error lists everything that is wrong.  ``m`` is the number of data sets.  Paths in the plan are relative to
    ``folder``.
    """
    wrong = Obstacles()
    by = wrong.check(by_of, settings, design, model)
    schema = schema_of(settings, design) if is_strict(settings) else {}
    wrong.check(_check_domains, settings, design, model, schema, by or [])
    wrong.check(_check_statistics, settings, design, model, schema, by or [], m or M)
    wrong.check(check_limits, settings.tables.min_cell, settings.tables.cv_limit)
    wrong.check(print_of, settings, model, folder)
    wrong.refuse()


def _check_domains(
    settings: Settings, design: SurveyDesign, model: Synthesizer, schema: dict[str, Outcome], by: list[str]
) -> None:  # fmt: skip
    """Raise InputError if the variables ``by`` cannot define the domains of tables."""
    with _of_tables():
        check_by(by)
        for name in by:
            if name in model.outcomes:
                check_categories(_levels(settings, design, schema, name), name)
            else:
                column = design.column(name)
                check_cells(column, name)
                check_categories(column.dropna().unique().tolist(), name)


def _levels(settings: Settings, design: SurveyDesign, schema: dict[str, Outcome], name: str) -> list[object]:
    """Return all levels that a categorical outcome can have in the release, as far as they are declared."""
    if name in schema:
        return [*(schema[name].levels or ()), schema[name].elsewhere]
    declared = (settings.privacy.levels or {}).get(name)
    if declared is None and design.declares_levels(name):
        declared = levels_by_type(design, name)
    return [*(declared or ()), (settings.edits.elsewhere or {}).get(name)]


def _check_statistics(
    settings: Settings, design: SurveyDesign, model: Synthesizer, schema: dict[str, Outcome], by: list[str], m: int
) -> None:
    """Raise InputError if the statistics of the tables do not fit the outcomes."""
    tables = settings.tables
    numbers, labels = ([name for name in each if name not in by] for each in (model.numeric, model.categorical))
    parts = parts_of_tables(numbers, labels, tables.statistic)
    with _of_tables():
        check_parts(parts, model.categorical, quantiles=tables.quantiles or None, poverty_line=tables.poverty_line)
        for name in [] if labels or "proportion" not in (tables.statistic or ()) else numbers:
            if min(_values(model, schema, name), design.n * m) > MOST_CATEGORIES:
                raise InputError(TOO_MANY.format(name, f"may have more than {MOST_CATEGORIES}"))


@contextmanager
def _of_tables() -> Iterator[None]:
    """Put "[tables]", the section of the plan, at the start of the message of an InputError raised in this context."""
    try:
        yield
    except InputError as error:
        raise InputError(f"[tables]: {error}") from None


def _values(model: Synthesizer, schema: dict[str, Outcome], name: str) -> float:
    """Return the largest number of different values that a numeric outcome can have in the release.

    For models of records, it is infinite, or 0 for counts and for models of your own: only the release shows it.
    """
    if name in schema:
        return _possible(schema[name])
    kinds = tuple(MODELS[each].kind for each in CONTINUOUS)
    return math.inf if any(name in each.outcomes and isinstance(each, kinds) for each in model.models) else 0


def _possible(outcome: Outcome) -> float:
    """Return the number of different values that a numeric outcome can have; it is infinite without rounding."""
    unit = max(float(outcome.whole), outcome.round or 0.0)
    if not unit or outcome.bounds is None:
        return math.inf
    low, high = outcome.bounds
    first, last = math.ceil(low / unit), math.floor(high / unit)
    further = {low, high, *outcome.heaps, *([0.0] if outcome.zeros or outcome.elsewhere == 0 else [])}
    beyond = [x for x in further if not (first <= x / unit <= last and (x / unit).is_integer())]
    return max(0, last - first + 1) + len(beyond)
