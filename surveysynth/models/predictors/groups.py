"""PSUs and strata that are not functions of the predictors, as groups of records with a common effect.

Letters in shapes are numbers: n of records, and C of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...design.columns import codes
from ...design.discrete import is_discrete
from ...design.survey_design import SurveyDesign

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

ENOUGH = 5  # a slope on PSU size needs this number of PSUs plus the number of columns constant within PSUs


@dataclass(frozen=True)
class Groups:
    """Groups of records with a common effect, optionally within larger groups with a second effect.

    Attributes
    ----------
    record : int array (n,)
        Group of each record, such as the PSU.
    size : int
        Number of groups C.
    parent : int array (C,) or None
        Larger group of each group, such as the stratum of a PSU.  None means that there are no larger groups.
    sampled : bool
        True means that the groups are a sample of the groups in the population (PSUs), so that synthetic data have
        newly drawn effects.  False means that they are all groups of the population (strata), whose effects are
        parameters like coefficients.
    """

    record: Codes
    size: int
    parent: Codes | None = None
    sampled: bool = True

    def subset(self, records: Codes) -> Groups:
        """Return the groups with ``record`` restricted to the records at the positions ``records``."""
        return replace(self, record=self.record[records])

    @property
    def levels(self) -> int:
        """Number of levels of effects: 2 if there are larger groups around the groups, otherwise 1."""
        return 1 if self.parent is None else 2

    def describe(self) -> str:
        """Return "PSUs", "PSUs and strata" or "strata", for messages and reports."""
        if not self.sampled:
            return "strata"
        return "PSUs" if self.parent is None else "PSUs and strata"


def groups_of(design: SurveyDesign, predictors: Sequence[str]) -> Groups | None:
    """Return, as groups with effects, the PSUs and strata that are not functions of the predictors.

    Parameters
    ----------
    design : SurveyDesign
    predictors : list of str
        Names of the public columns in the formula of the model.

    Returns
    -------
    Groups or None
        PSUs, within strata if the predictors do not determine the strata; or strata alone.  None means that the
        predictors determine all PSUs and strata, or that the design has none.
    """
    first = design.stages[0]
    loose = design.strata_name is not None and not _determine(design, predictors, first.stratum)
    if design.clustered and not _determine(design, predictors, first.unit):
        one_each = first.sampled.size == first.stratum_of_unit.size  # PSU and stratum coincide
        return Groups(first.unit, first.stratum_of_unit.size, first.stratum_of_unit if loose and not one_each else None)
    return Groups(first.stratum, first.sampled.size, sampled=False) if loose else None


def _determine(design: SurveyDesign, predictors: Sequence[str], group: Codes) -> bool:
    """True if records with equal discrete predictors are always in the same group (stratum or PSU).

    ``group`` (n,) is the group of each record.
    """
    # a numeric predictor has a slope, which fits the mean of each group only if the predictor has two values
    discrete = [c for c in predictors if is_discrete(design, c, 2)]
    if not discrete:
        return False
    groups = pd.Series(group).groupby(codes(*(design.column(c) for c in discrete)))
    return bool((groups.nunique() <= 1).all())


def differing_sizes(group: Codes) -> Floats | None:
    """Return the number of records (n,) in the group of each record.  Return None if all groups have equal sizes."""
    size = np.bincount(group)
    return np.asarray(size[group], dtype=np.float64) if np.ptp(size[size > 0]) > 0 else None


def psu_sizes(groups: Groups, columns: int) -> Floats | None:
    """Return the number of records (n,) in the PSU of each record, to be used as a predictor.

    Return None if all sizes are equal, or if there are too few PSUs for a slope on size.  ``columns`` is the number of
    predictor columns, including the intercept, that are constant within PSUs; each takes one degree of freedom.

    Outcomes can depend on the size of PSUs, but the effects that are newly drawn for synthetic data do not.  For
    example, if incomes are larger in large PSUs, a synthetic file would lose this difference without the predictor.
    Weights depend on the size, too: the PSUs of a two-stage sample represent about equal numbers of units, so weights
    are small in large PSUs.
    """
    enough = groups.sampled and groups.size >= columns + ENOUGH
    return differing_sizes(groups.record) if enough else None
