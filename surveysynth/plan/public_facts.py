"""What is public of a file before anything is spent: its design, its predictors, and how many records have each."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ..design.survey_design import SurveyDesign
from ..estimation import estimate


@dataclass(frozen=True, repr=False)
class PublicFacts:
    """The public side of a file.

    Attributes
    ----------
    design : SurveyDesign
        The file.
    left_out : tuple of str
        What of the file is not synthesized.
    """

    design: SurveyDesign
    left_out: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Records."""
        return self.design.n

    def __str__(self) -> str:
        return repr(self.design).removeprefix("SurveyDesign: ")

    def cells(self, by: list[str]) -> pd.DataFrame:
        """Records of each cell, margin and the total."""
        return estimate(self.design, by=by, statistic="count")[[*by, "n"]].rename(columns={"n": "records"})

    def levels(self, name: str) -> pd.Series:
        """Records of each level of a predictor."""
        return self.design.column(name).value_counts()
