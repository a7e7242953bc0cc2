"""Recoding of columns of the confidential file to the values of a release, so that equal answers are equal values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

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
        Columns that file and release have.

    Returns
    -------
    dict of str to pandas.Series (n,)
        The columns that change.  A value becomes the release's value of the same text
        (:func:`surveysynth.design.recode.as_text`): in a file in which some codes are missing, a code is the number
        1.0, and in the release it may be the number 1 or the text "1".  A missing value becomes "missing" if the
        release has this answer.
    """
    changed = {}
    for name in names:
        column = file.column(name) if isinstance(file, SurveyDesign) else file[name]
        theirs = release.datasets[0].column(name)
        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            continue
        if pd.api.types.is_numeric_dtype(theirs.dtype) and not pd.api.types.is_bool_dtype(theirs.dtype):
            if column.dtype != theirs.dtype:
                changed[name] = _as_numbers(column, theirs.dtype)
        elif column.dtype != theirs.dtype or column.dtype == object or column.isna().any():
            changed[name] = _as_labels(column, _levels(release, name), theirs.dtype)
    return changed


def _as_numbers(column: pd.Series, dtype: Any) -> pd.Series:
    """Convert a column to numbers, of type ``dtype`` if that loses nothing.  Return it unchanged if it has texts."""
    there = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    numbers = pd.to_numeric(there, errors="coerce")
    if (numbers.isna() & column.notna()).any():
        return column
    exact = not numbers.isna().any() and bool((numbers.astype(dtype) == numbers).all())
    return numbers.astype(dtype) if exact else numbers


def _levels(release: Release, name: str) -> dict[str, Any]:
    """Return the labels of a column of the release, with their texts as keys."""
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
