"""The rule that decides which columns are categorical, and the levels of such a column."""

from __future__ import annotations

import pandas as pd

from .survey_design import SurveyDesign


def is_discrete(design: SurveyDesign, name: str, most: int = 0) -> bool:
    """Return True if a column is categorical: texts, categories, dates, the strata column, or few distinct numbers.

    Parameters
    ----------
    design : SurveyDesign
    name : str
        A column of the design.
    most : int
        A column of numbers is categorical if it has at most this many distinct values.
    """
    column = design.column(name)
    return is_label(column) or name == design.strata_name or (most > 0 and column.nunique() <= most)


def is_label(column: pd.Series) -> bool:
    """Return True for a column of texts, categories or dates, and False for numbers and truth values."""
    return not pd.api.types.is_numeric_dtype(column.dtype)


def levels_in(column: pd.Series) -> list[object]:
    """Return the levels of a column: its declared categories, in their order, or else its sorted distinct values.

    Declared categories are levels even if they do not occur.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(column.cat.categories)
    return list(pd.factorize(column, sort=True)[1])
