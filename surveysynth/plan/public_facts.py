"""Public facts about a confidential file: its design, its predictors, and the number of records at each level."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ..design.survey_design import SurveyDesign
from ..estimation import estimate


@dataclass(frozen=True, repr=False)
class PublicFacts:
    """The public facts about a confidential file.

    Attributes
    ----------
    design : SurveyDesign
        The file.  Only its public columns are used.
    left_out : tuple of str
        Sentences on records that are not synthesized.
    """

    design: SurveyDesign
    left_out: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of records."""
        return self.design.n

    def __str__(self) -> str:
        return repr(self.design).removeprefix("SurveyDesign: ")

    def cells(self, by: list[str]) -> pd.DataFrame:
        """Return the number of records in each cell of the variables ``by``, in the margins and in the whole file."""
        return estimate(self.design, by=by, statistic="count")[[*by, "n"]].rename(columns={"n": "records"})

    def levels(self, name: str) -> pd.Series:
        """Return the number of records at each level of the predictor ``name``; levels are the index."""
        return self.design.column(name).value_counts()
