"""What is public of a file before anything is spent: its design, its predictors, and how many records have each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..design.survey_design import SurveyDesign
from ..estimation import estimate
from .assemble import check_enough, check_total


@dataclass(frozen=True, repr=False)
class Known:
    """The public side of a file.

    Attributes
    ----------
    design : SurveyDesign
        The file; or, of one in parts, its combinations of predictors, whose weights are numbers of records.
    in_parts : bool
    made_up : tuple of str
        Its columns whose values are made up, of which the levels alone are known: categories that are synthesized.
    left_out : tuple of str
        What of the file is not synthesized.
    """

    design: SurveyDesign
    in_parts: bool = False
    made_up: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Records."""
        return round(self.design.weights.sum()) if self.in_parts else self.design.n

    def __str__(self) -> str:
        said = repr(self.design).removeprefix("SurveyDesign: ")
        return said.replace(f"{self.design.n:,} records", f"{self.n:,} records", 1)

    def cells(self, by: list[str]) -> pd.DataFrame:
        """Records of each cell, margin and the total."""
        table = estimate(self.design, by=by, statistic="count")
        if self.in_parts:
            table["n"] = table["estimate"].round().astype(int)
        return table[[*by, "n"]].rename(columns={"n": "records"})

    def levels(self, name: str) -> pd.Series:
        """Records of each level of a predictor."""
        column = self.design.column(name)
        if self.in_parts:
            records = pd.Series(self.design.weights, column.index)
            return records.groupby(column, observed=True).sum().sort_values(ascending=False)
        return column.value_counts()

    def check_total(self, total: float | Mapping[Any, float] | None) -> None:
        """Refuse a population total that cannot be (InputError)."""
        if self.in_parts:
            check_enough(total, self.n)
        else:
            check_total(total, self.design)
