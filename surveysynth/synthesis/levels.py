"""Levels of categorical outcomes.  Levels are published, so they are declared and not read from the file.

Levels are all categories that an outcome can have.  A level in the file is the value of at least one respondent, and
would appear in every public file.  So the levels are those that the column's type declares (the categories of a pandas
Categorical column; True and False), or those that the agency lists.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..design.columns import check_cells, nearest
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..models.base import Synthesizer
from ..validation import rows

Levels = Mapping[str, Sequence[Any]]


def declared(design: SurveyDesign, synthesizer: Synthesizer, levels: Levels | None) -> SurveyDesign:
    """Return the design with the declared levels of categorical outcomes, whether or not a level is in the file.

    Parameters
    ----------
    design : SurveyDesign
    synthesizer : Synthesizer
    levels : mapping of outcome to list of levels, optional
        Levels of outcomes whose type does not declare levels.  They also replace levels that a type declares.

    Raises
    ------
    InputError
        An outcome has no declared levels, or has values that are not among them.  ``levels`` names a column that is
        not a categorical outcome, or gives something else than a list of different labels.
    """
    given = check_levels(levels, synthesizer.categorical)
    lacking = undeclared(design, [name for name in synthesizer.categorical if name not in given])
    if lacking:
        raise InputError(how_to_declare(design, lacking))
    return having_levels(design, given)


def having_levels(design: SurveyDesign, levels: Levels) -> SurveyDesign:
    """Return the design with the columns in ``levels`` made categorical, with the given levels."""
    if not levels:
        return design
    columns = {name: with_levels(design.column(name), name, own) for name, own in levels.items()}
    return SurveyDesign(design.frame.assign(**columns), **design.roles(), labels=design.labels)


def number_codes(design: SurveyDesign, levels: Levels | None) -> dict[str, Any]:
    """Return the dtype of each numeric column in ``levels``, by name.  Synthetic files keep these dtypes."""
    columns = [name for name in levels if name in design.columns] if isinstance(levels, Mapping) else []
    numbers = [name for name in columns if pd.api.types.is_numeric_dtype(design.column(name).dtype)]
    return {name: design.column(name).dtype for name in numbers}


def levels_by_type(design: SurveyDesign, name: str) -> list[Any]:
    """Return the levels that the type of a column declares: see :meth:`SurveyDesign.declares_levels`."""
    column = design.column(name)
    return column.cat.categories.tolist() if hasattr(column, "cat") else [False, True]


def undeclared(design: SurveyDesign, names: Iterable[str]) -> list[str]:
    """Return those of the columns ``names`` whose type does not declare levels."""
    return [name for name in names if not design.declares_levels(name)]


def how_to_declare(design: SurveyDesign, names: Sequence[str]) -> str:
    """Return the message on columns without declared levels.  The message contains no value of the file."""
    counts = "; ".join(f"{name} has {design.column(name).nunique():,} different values in the file" for name in names)
    look = f"{counts}: design.frame[{names[0]!r}].value_counts() lists them, for you alone"
    return f"{to_declare(names)}, or make the column categorical with them. {look}"


def to_declare(names: Sequence[str]) -> str:
    """Return a text that says why columns need declared levels and which argument to give."""
    template = ", ".join(f"{name!r}: ['...', '...']" for name in names)
    return (
        f"{', '.join(names)}: the levels of a category are published, and one that a single respondent has would tell "
        f"of them. Declare all that there can be, levels={{{template}}}"
    )


def check_levels(levels: Levels | None, categorical: Sequence[str]) -> dict[str, list[Any]]:
    """Check the given levels, and return them by outcome.

    Raise InputError if a column is not a categorical outcome, or if its levels are not a list of different labels.
    """
    if levels is None:
        return {}
    if not isinstance(levels, Mapping):
        raise InputError("levels must map outcomes that are categories to lists: levels={'job': ['none', 'full time']}")
    for name, own in levels.items():
        if name not in categorical:
            are = ", ".join(categorical) or "none"
            raise InputError(
                f"levels= names {name!r}{nearest(name, categorical)}, which is no outcome that is a category; these "
                f"are {are} (categories are written C(job))"
            )
        if isinstance(own, str) or not isinstance(own, Sequence | np.ndarray | pd.Index) or len(own) == 0:
            raise InputError(f"levels of {name!r} must be a list, such as ['none', 'part time', 'full time']")
        if not all(_is_label(level) for level in own):
            raise InputError(f"levels of {name!r} must be texts or finite numbers")
        if len({_key(level) for level in own}) < len(own):
            raise InputError(f"levels of {name!r} name one twice")
    return {name: list(own) for name, own in levels.items()}


def with_levels(column: pd.Series, name: str, levels: Sequence[Any]) -> pd.Series:
    """Convert a column to a categorical column with the given levels, in the given order.

    Raises
    ------
    InputError
        The column has values that are not among the levels.  The message does not show these values.
    """
    check_cells(column, name)
    code, found = pd.factorize(column)
    place = {_key(level): at for at, level in enumerate(levels)}
    places = np.array([place.get(_key(value), -1) for value in found.astype(object)] + [-1], dtype=np.intp)[code]
    other = np.asarray((places < 0) & column.notna().to_numpy())
    if other.any():
        alike = {str(level) for level in levels} >= {str(value) for value in found.astype(object)}
        typed = " (they would be, if texts and numbers were the same: '1' is a text, 1 a number)" if alike else ""
        raise InputError(
            f"column {name!r} has values in {rows(other)} that are not among its declared levels{typed}: add them to "
            "levels= if they may be published, or correct or merge them"
        )
    return pd.Series(pd.Categorical.from_codes(places, pd.Index(list(levels))), index=column.index, name=name)


def _is_label(level: object) -> bool:
    if isinstance(level, str):
        return level.isprintable() and bool(level.strip())
    return isinstance(level, bool | int | float | np.generic) and bool(np.isfinite(level))


def _key(level: Any) -> Hashable:
    """Return a key by which levels are compared: 1 equals 1.0, but equals neither True nor '1'."""
    if isinstance(level, np.generic):
        level = level.item()
    return isinstance(level, bool), level
