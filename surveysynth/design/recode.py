"""Recoding of categorical columns: levels as texts, merged levels, and missing values as a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..errors import InputError
from .columns import check_cells
from .missing_codes import Code

MISSING = "missing"  # the category for missing values
NOT_APPLICABLE = "not applicable"  # the category of an outcome where its question does not apply


def as_text(column: pd.Series) -> pd.Series:
    """Convert the values of a column to texts.  2.0 becomes "2", and missing values stay missing."""
    there = column.notna()
    labels = column[there].astype(object).map(_text)
    return labels.reindex(column.index).astype(object)


def _text(value: object) -> str:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


def as_labels(column: pd.Series, *further: str) -> pd.Series:
    """Convert a column to a categorical of texts (:func:`as_text`), and add the categories ``further`` at the end.

    The categories of a categorical column keep their order.  Other values are sorted as texts.  Missing values stay
    missing.
    """
    if not isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(pd.CategoricalDtype(sorted(column.dropna().unique(), key=_text)))
    named = [_text(level) for level in column.cat.categories]
    levels = list(dict.fromkeys([*named, *further]))
    place = np.array([*(levels.index(name) for name in named), -1], dtype=np.intp)
    labels = pd.Categorical.from_codes(place[column.cat.codes], pd.Index(levels, dtype=object))
    return pd.Series(labels, index=column.index, name=column.name)


def with_missing(column: pd.Series) -> pd.Series:
    """Convert a column to a categorical of texts, in which missing values are the last category, "missing".

    Raise InputError if the column has a category "missing" already.
    """
    labels = as_labels(column)
    if MISSING in labels.cat.categories:
        raise InputError(f"column {str(column.name)!r} has a category {MISSING!r} already: rename it")
    return as_labels(labels, MISSING).fillna(MISSING)


def recoded(column: pd.Series, merge: Mapping[str, Sequence[Code]], *, missing: bool) -> pd.Series:
    """Convert a column to texts and merge some of its levels.

    A categorical column stays categorical, and its categories keep their order.  A new level takes the position of the
    first level that is merged into it.

    Parameters
    ----------
    column : pandas.Series (n,)
        Texts, categories or codes.
    merge : mapping of name to list of levels
        Name of each new level, with the levels that are merged into it.  A level of that name may exist already.  The
        number 98 means the level "98".
    missing : bool
        True if missing values become the level "missing", which can be merged, too.

    Returns
    -------
    pandas.Series (n,)
        Texts, or categories that are texts.

    Raises
    ------
    InputError
        The column has numbers that are not whole, and so no levels; a level to be merged does not exist, or is named
        twice; ``missing`` is True and the column has a level "missing" already.
    """
    name = str(column.name)
    check_cells(column, name)
    if column.dtype.kind in "fc" and (column.dropna() % 1 != 0).any():
        raise InputError(
            f"columns.{name}: column {name!r} has numbers that are not whole, which are no levels; make groups of them "
            "before the file is read"
        )
    text = as_text(with_missing(column) if missing else column)
    ordered = isinstance(column.dtype, pd.CategoricalDtype)
    levels = [*map(_text, column.cat.categories)] if ordered else []
    levels = list(dict.fromkeys([*levels, *text.dropna()]))
    new: dict[str, str] = {}
    for to, merged in merge.items():
        for level in map(_text, merged):
            if level not in levels:
                raise InputError(f"columns.{name}.merge: column {name!r} has no level {level!r}")
            if level in new:
                raise InputError(f"columns.{name}.merge: {level!r} stands there twice; it becomes one level")
            new[level] = to
    text = text.map(lambda level: new.get(level, level), na_action="ignore")
    if not ordered:
        return text
    categories = list(dict.fromkeys(new.get(level, level) for level in levels))
    return pd.Series(pd.Categorical(text, categories, ordered=column.cat.ordered), column.index, name=column.name)
