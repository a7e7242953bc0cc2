"""The one rule for what is a category: labels, strata, and numbers of few different values."""

from __future__ import annotations

import pandas as pd

from .survey_design import SurveyDesign


def is_discrete(design: SurveyDesign, name: str, most: int = 0) -> bool:
    """Whether a column makes cells: its values are labels, or it holds the strata, or numbers of few values.

    Parameters
    ----------
    design : SurveyDesign
    name : str
        A column of its frame.
    most : int
        Numbers make cells where there are at most so many different ones.
    """
    column = design.column(name)
    return is_label(column) or name == design.strata_name or (most > 0 and column.nunique() <= most)


def is_label(column: pd.Series) -> bool:
    """Whether values are labels rather than numbers; booleans are the numbers 0 and 1, as in a formula."""
    return not pd.api.types.is_numeric_dtype(column.dtype)
