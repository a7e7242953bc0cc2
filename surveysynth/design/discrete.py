"""The rule that decides which columns are categorical, and the levels of such a column."""

from __future__ import annotations

import pandas as pd

from .survey_design import SurveyDesign


def is_discrete(design: SurveyDesign, name: str, most: int = 0) -> bool:
    """True if a column is categorical: it has texts or categories, is the strata column, or has few distinct numbers.

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
    """True for a column of texts, categories or dates.  False for numbers, and for truth values, which are 0 and 1."""
    return not pd.api.types.is_numeric_dtype(column.dtype)


def levels_in(column: pd.Series) -> list[object]:
    """Return the levels of a column.

    A categorical column has its declared levels, in their order, even if some do not occur.  Other columns have the
    sorted distinct values that occur.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(column.cat.categories)
    return list(pd.factorize(column, sort=True)[1])
