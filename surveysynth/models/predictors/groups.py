"""Groups of records with a common effect (PSUs and strata that the predictors do not determine), and group sizes."""

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

ENOUGH = 5  # PSUs that a slope on PSU size needs, beyond the number of columns constant within PSUs


@dataclass(frozen=True)
class Groups:
    """Groups of records with a common effect, possibly in larger groups with a second effect.

    Attributes
    ----------
    record : int array (n,)
        Group of each record, such as its PSU.
    size : int
        Number of groups C.
    parent : int array (C,) or None
        Second-level group of each group, such as its stratum; None for one level.
    sampled : bool
        True: the groups are a sample from the population (PSUs), and synthetic data have new effects.  False: they are
        all groups of the population (strata), and their effects are parameters like coefficients.
    """

    record: Codes
    size: int
    parent: Codes | None = None
    sampled: bool = True

    def subset(self, records: Codes) -> Groups:
        """The groups of selected records."""
        return replace(self, record=self.record[records])

    @property
    def levels(self) -> int:
        """Number of levels, 1 or 2."""
        return 1 if self.parent is None else 2

    def describe(self) -> str:
        """Name of the groups, for messages and reports."""
        if not self.sampled:
            return "strata"
        return "PSUs" if self.parent is None else "PSUs and strata"


def groups_of(design: SurveyDesign, predictors: Sequence[str]) -> Groups | None:
    """The PSUs and strata of a design that the predictors do not determine, as groups with effects.

    Parameters
    ----------
    design : SurveyDesign
    predictors : list of str
        Columns on which a model is conditional.

    Returns
    -------
    Groups, or None if records are independent given the predictors.
    """
    first = design.stages[0]
    loose = design.strata_name is not None and not _determine(design, predictors, first.stratum)
    if design.clustered and not _determine(design, predictors, first.unit):
        one_each = first.sampled.size == first.stratum_of_unit.size  # PSU and stratum coincide
        return Groups(first.unit, first.stratum_of_unit.size, first.stratum_of_unit if loose and not one_each else None)
    return Groups(first.stratum, first.sampled.size, sampled=False) if loose else None


def _determine(design: SurveyDesign, predictors: Sequence[str], group: Codes) -> bool:
    """Whether the predictors determine the stratum or PSU of a record."""
    # a number enters as a slope, which gives each group its own mean only if the number has two values
    discrete = [c for c in predictors if is_discrete(design, c, 2)]
    if not discrete:
        return False
    groups = pd.Series(group).groupby(codes(*(design.column(c) for c in discrete)))
    return bool((groups.nunique() <= 1).all())


def differing_sizes(group: Codes) -> Floats | None:
    """Number of records (n,) in the group of each record; None if all groups have the same size."""
    size = np.bincount(group)
    return np.asarray(size[group], dtype=np.float64) if np.ptp(size[size > 0]) > 0 else None


def psu_sizes(groups: Groups, columns: int) -> Floats | None:
    """Number of records (n,) in the PSU of each record; None unless sizes differ and enough PSUs identify a slope.

    The size is a predictor because outcomes can depend on it, while new effects of PSUs do not: a synthetic file
    would lose the larger incomes of large PSUs.  Weights fall with size, because the PSUs of a two-stage sample
    represent about equally many units each.  ``columns`` is the number of columns of the predictors, including the
    intercept, that are constant within PSUs; each takes one degree of freedom of the PSUs.
    """
    enough = groups.sampled and groups.size >= columns + ENOUGH
    return differing_sizes(groups.record) if enough else None
