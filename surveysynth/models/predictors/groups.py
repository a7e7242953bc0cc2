"""Groups of records that share an effect: PSUs, strata that the predictors do not determine, and their sizes."""

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

ENOUGH = 5  # PSUs, beyond those that predictors of PSUs take, that tell how outcomes go with their numbers of records


@dataclass(frozen=True)
class Groups:
    """Which records share an effect, and which of these groups share one in turn.

    Attributes
    ----------
    record : int array (n,)
        Group of each record: its PSU, say.
    size : int
        Number of groups C.
    parent : int array (C,) or None
        Group of the second level that each group is in: its stratum, say; None for one level.
    sampled : bool
        Whether these groups are a sample of those of the population (PSUs), so that synthetic data
        have new ones; or all there are (strata), whose effects are parameters as the coefficients are.
    """

    record: Codes
    size: int
    parent: Codes | None = None
    sampled: bool = True

    def subset(self, records: Codes) -> Groups:
        """The groups of some of the records."""
        return replace(self, record=self.record[records])

    @property
    def levels(self) -> int:
        """1 or 2."""
        return 1 if self.parent is None else 2

    def describe(self) -> str:
        """What the groups are."""
        if not self.sampled:
            return "strata"
        return "PSUs" if self.parent is None else "PSUs and strata"


def groups_of(design: SurveyDesign, predictors: Sequence[str]) -> Groups | None:
    """The units of a design that share an effect: PSUs, and strata that the predictors do not determine.

    Parameters
    ----------
    design : SurveyDesign
    predictors : list of str
        Columns that a model conditions on.

    Returns
    -------
    Groups, or None where records are independent given the predictors.
    """
    first = design.stages[0]
    loose = design.strata_name is not None and not _determine(design, predictors, first.stratum)
    if design.clustered and not _determine(design, predictors, first.unit):
        one_each = first.sampled.size == first.stratum_of_unit.size  # then PSU and stratum are one
        return Groups(first.unit, first.stratum_of_unit.size, first.stratum_of_unit if loose and not one_each else None)
    return Groups(first.stratum, first.sampled.size, sampled=False) if loose else None


def _determine(design: SurveyDesign, predictors: Sequence[str], group: Codes) -> bool:
    """Whether the predictors tell which stratum or PSU a record is in."""
    # a number enters as a slope, which does not give each group its own mean, unless it has two values
    discrete = [c for c in predictors if is_discrete(design, c, 2)]
    if not discrete:
        return False
    groups = pd.Series(group).groupby(codes(*(design.column(c) for c in discrete)))
    return bool((groups.nunique() <= 1).all())


def differing_sizes(group: Codes) -> Floats | None:
    """Number of records of each record's group, (n,); None where it is the same for all groups."""
    size = np.bincount(group)
    return np.asarray(size[group], dtype=np.float64) if np.ptp(size[size > 0]) > 0 else None


def psu_sizes(groups: Groups, columns: int) -> Floats | None:
    """Number of records of each record's PSU, (n,), where it differs between PSUs and there are enough to tell a slope.

    Outcomes go with it: new effects of PSUs do not depend on their sizes, and where large PSUs are richer a synthetic
    file would lose that.  Weights go down with it: PSUs of a two-stage sample stand for about as many units each,
    however many of these are taken.  Without it, counts would vary between PSUs as their takes do.  ``columns`` of the
    predictors, the intercept among them, are constant within PSUs: as many PSUs are spent on these.
    """
    enough = groups.sampled and groups.size >= columns + ENOUGH
    return differing_sizes(groups.record) if enough else None
