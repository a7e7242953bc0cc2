"""Recoding of columns of the confidential file to the values of a release, so that equal answers are equal values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.conditions import columns_of_condition, obeyed
from ..design.recode import MISSING, as_text
from ..design.survey_design import SurveyDesign
from .release import Release


def labelled(file: SurveyDesign | pd.DataFrame, release: Release, names: Iterable[str]) -> dict[str, pd.Series]:
    """Recode columns of a confidential file to the values of a release, and return the columns that change.

    Parameters
    ----------
    file : SurveyDesign or DataFrame
        The confidential file, with n records.
    release : Release
    names : iterable of str
        Columns that file and release have.  Outcomes that are asked of some records only are added to them.

    Returns
    -------
    dict of str to pandas.Series (n,)
        The columns that change.  A value becomes the release's value of the same text
        (:func:`surveysynth.design.recode.as_text`): in a file in which some codes are missing, a code is the number
        1.0, and in the release it may be the number 1 or the text "1".  A missing value becomes "missing" if the
        release has this answer.  In a record that is not asked a question, the outcome has the value that the release
        has for such records.
    """
    columns = set(file.columns)
    rules = {
        name: rule for name, rule in release.method.get("applies", {}).items()
        if {name, *columns_of_condition(rule, "applies")} <= columns
    }  # fmt: skip
    used = [column for name, rule in rules.items() for column in (name, *columns_of_condition(rule, "applies"))]
    needed = list(dict.fromkeys([*names, *used]))
    frame = file.select(needed) if isinstance(file, SurveyDesign) else file[needed]
    changed = {}
    for name in needed:
        theirs = release.datasets[0].column(name)
        if pd.api.types.is_datetime64_any_dtype(frame[name].dtype):
            continue
        if pd.api.types.is_numeric_dtype(theirs.dtype) and not pd.api.types.is_bool_dtype(theirs.dtype):
            if frame[name].dtype != theirs.dtype:
                changed[name] = _as_numbers(frame[name], theirs.dtype)
        elif frame[name].dtype != theirs.dtype or frame[name].dtype == object or frame[name].isna().any():
            changed[name] = _as_labels(frame[name], _levels(release, name), theirs.dtype)
    frame = frame.assign(**changed)
    for name, rule in rules.items():  # in the order of the models, since a condition may name an earlier outcome
        asked = obeyed([rule], frame, "applies")
        if not asked.all():
            changed[name] = _where_asked(frame[name], asked, release, name)
            frame = frame.assign(**{name: changed[name]})
    return changed


def _where_asked(column: pd.Series, asked: NDArray[np.bool_], release: Release, name: str) -> pd.Series:
    """Return an outcome in which records that were not asked have the value that the release gives to such records."""
    value = release.method["elsewhere"][name]
    if name not in release.categorical:
        return column.where(asked, np.nan if value == MISSING else value)
    value = _levels(release, name).get(value, value)
    if isinstance(column.dtype, pd.CategoricalDtype) and value not in column.cat.categories:
        column = column.cat.add_categories([value])
    return column.where(asked, value)


def _as_numbers(column: pd.Series, dtype: Any) -> pd.Series:
    """Convert a column to numbers, of type ``dtype`` if that loses nothing.  Return it unchanged if it has texts."""
    there = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    numbers = pd.to_numeric(there, errors="coerce")
    if (numbers.isna() & column.notna()).any():
        return column
    exact = not numbers.isna().any() and bool((numbers.astype(dtype) == numbers).all())
    return numbers.astype(dtype) if exact else numbers


def _levels(release: Release, name: str) -> dict[str, Any]:
    """Return the labels in a column of the release, by the text of each label, as in {"1": 1}."""
    first = release.datasets[0].column(name)
    if isinstance(first.dtype, pd.CategoricalDtype):
        found = first.cat.categories.tolist()
    else:
        found = [label for data in release.datasets for label in data.column(name).dropna().unique()]
    labels = pd.Series(found, dtype=object)
    return dict(zip(as_text(labels), labels, strict=True))


def _as_labels(column: pd.Series, levels: dict[str, Any], dtype: Any) -> pd.Series:
    """Replace each value of a column by the level with the same text, or by its text if there is no such level."""
    code, own = pd.factorize(as_text(column) if column.dtype == object else column)  # True is not 1
    labels = [levels.get(text, text) for text in as_text(pd.Series(own.astype(object)))]
    values = pd.Series([*labels, levels.get(MISSING, np.nan)], dtype=object)  # the last one is that of code -1
    if isinstance(dtype, pd.CategoricalDtype):
        every = list(dict.fromkeys([*levels.values(), *labels]))
        values = values.astype(pd.CategoricalDtype(every, ordered=bool(dtype.ordered)))
    return pd.Series(values.iloc[code].array, index=column.index, name=column.name)
