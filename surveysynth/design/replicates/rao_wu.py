"""Rao and Wu's bootstrap of PSUs."""

from __future__ import annotations

import warnings

import numpy as np

from ...choices import LonelyPSU
from ...validation import whole
from ..stages import Stage
from .levels import LevelReplicates
from .preston import refuse_lonely_units

MOST = 255  # largest number of draws of one PSU in a replicate that a byte can store


def rao_wu(
    stages: tuple[Stage, ...], R: int, rng: np.random.Generator, lonely_psu: LonelyPSU = "fail"
) -> LevelReplicates:
    """Draw R bootstrap replicates of PSUs with replacement (R's ``"subbootstrap"``).

    From a stratum of n PSUs, n - 1 are drawn with replacement.  A PSU drawn t times has the factor t n / (n - 1), which
    is never negative.  The expected variance of a total is the usual variance estimate for PSUs that were drawn with
    replacement.

    Source: Rao & Wu 1988, section 2; Rao, Wu & Yue 1992, eq. 2.

    Parameters
    ----------
    stages : tuple of Stage
        Stages of the design.  As in R, an fpc is ignored, with a warning: PSUs are taken as drawn with replacement, and
        the variance between PSUs is the whole variance.
    R : int
        Number of replicates.
    rng : numpy.random.Generator
        Source of the randomness.  The draw uses only strata and PSUs, nothing confidential.
    lonely_psu : {"fail", "remove", "adjust", "average"}
        See :func:`surveysynth.design.replicates.preston.preston`.

    Raises
    ------
    InputError
        R is not a positive whole number; a stratum has one PSU and is not sampled completely.
    """
    whole(R, "the number of replicates")
    refuse_lonely_units(stages[:1], lonely_psu)
    first = stages[0]
    if first.fraction.any():
        warnings.warn("Rao and Wu's bootstrap takes PSUs as drawn with replacement: the fpc is not used", stacklevel=3)
    h, n = first.stratum_of_unit, first.sampled
    order, start = np.argsort(h, kind="stable"), np.cumsum(n) - n
    drawing = np.repeat(np.arange(n.size), np.maximum(n - 1, 1))  # a stratum with one PSU keeps it
    level = np.empty((h.size, R), dtype=np.uint8)
    for r in range(R):
        drawn = order[start[drawing] + rng.integers(0, n[drawing])]
        level[:, r] = np.minimum(np.bincount(drawn, minlength=h.size), MOST)
    value = np.arange(int(level.max()) + 1) * (n / np.maximum(n - 1, 1))[:, None]
    return LevelReplicates("Rao-Wu", 1 / R, np.ones(R), True, first.unit, level, h, value)
