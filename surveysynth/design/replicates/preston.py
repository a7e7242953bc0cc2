"""Preston's rescaled bootstrap for several stages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...choices import LonelyPSU
from ...errors import InputError
from ...validation import rows, whole
from ..stages import Stage
from .base import BLOCK, _select
from .levels import LevelReplicates

Floats = NDArray[np.float64]
Levels = NDArray[np.uint8]


def preston(
    stages: tuple[Stage, ...], R: int, rng: np.random.Generator, lonely_psu: LonelyPSU = "fail"
) -> LevelReplicates:
    """Draw R bootstrap replicates of a design with any number of stages (Preston 2009; R's ``"mrbbootstrap"``).

    A variance is the sum of squared deviations divided by R, as in Hu, Savitsky & Williams (2022a, section 2.4).
    ``as.svrepdesign`` in R's survey divides by R - 1.

    Parameters
    ----------
    stages : tuple of Stage
        Stages of the design.
    R : int
        Number of replicates.
    rng : numpy.random.Generator
        Source of the randomness.  The draw uses only strata and sampling units, nothing confidential.
    lonely_psu : {"fail", "remove", "adjust", "average"}
        With "remove", a stratum with one unit adds nothing to the variance of its stage.  With the other values such a
        stratum is refused, unless it is sampled completely, since replicates cannot show its variance.

    Raises
    ------
    InputError
        R is not a positive whole number; a stratum (at any stage) has one unit and is not sampled completely.
    """
    whole(R, "the number of replicates")
    refuse_lonely_units(stages, lonely_psu)
    level = np.zeros((stages[0].sampled.size, R), dtype=np.uint8)
    for number, stage in enumerate(stages):
        level = _draw(stage, number, level, rng)
    return LevelReplicates(
        "preston", 1 / R, np.ones(R), True, stages[-1].unit, level, stages[-1].stratum_of_unit, _values(stages)
    )


def refuse_lonely_units(stages: tuple[Stage, ...], lonely_psu: LonelyPSU) -> None:
    """Raise InputError for a stratum of one unit that is not sampled completely, unless ``lonely_psu`` is "remove"."""
    for number, stage in enumerate(stages):
        lonely = stage.lonely[stage.stratum]
        if lonely.any() and lonely_psu != "remove":
            above, unit = (f"unit of stage {number}", f"unit of stage {number + 1}") if number else ("stratum", "PSU")
            raise InputError(
                f"a {above} has only one {unit}, so replicates cannot show its variance: {rows(lonely)}; merge strata, "
                "declare it sampled completely with an fpc, or choose lonely_psu='remove'"
            )


def _draw(stage: Stage, number: int, above: Levels, rng: np.random.Generator) -> Levels:
    """Draw half of the units of each stratum of one stage, in each of R replicates.

    Return, for each unit and replicate, the number of stages, from the first on, that keep the unit: (units, R).
    ``above`` (strata, R) has these numbers for the strata of this stage, which are the units of the stage before.
    ``number`` is the number of earlier stages.
    """
    h, R = stage.stratum_of_unit, above.shape[1]
    order, last = np.argsort(h, kind="stable"), np.cumsum(stage.sampled)
    level, wanted = np.empty((h.size, R), dtype=np.uint8), np.empty(R)
    step = max(1, BLOCK // R)
    uniform = np.empty((min(step, h.size), R))
    for start in range(0, h.size, step):
        block = order[start : start + step]
        rng.random(out=uniform[: block.size])
        left = last[h[block]] - np.arange(start, start + block.size)
        _select(uniform, block, h[block], left, stage.sampled, number, above, wanted, level)
    return level


def _values(stages: tuple[Stage, ...]) -> Floats:
    """Compute the possible factors of replicate weights in each stratum of the last stage: (strata, stages + 1).

    Column k, from 0, has the factor of a unit that is kept at the first k stages and not at the next stage.
    """
    strata = stages[0].sampled.size
    share, root, kept_so_far = np.ones(strata), np.ones(strata), np.ones(strata)
    value = np.empty((strata, 0))
    for number, stage in enumerate(stages):
        if number:  # units of the stage above are the strata of this stage
            parent = stages[number - 1].stratum_of_unit
            share, root, kept_so_far, value = share[parent], root[parent], kept_so_far[parent], value[parent]
        n, f = stage.sampled, stage.fraction
        kept = np.maximum(n // 2, 1)
        lam = np.sqrt(share * kept * (1 - f) / np.maximum(n - kept, 1))  # a single unit is always kept: lam cancels
        dropped = kept_so_far - root * lam
        value = np.column_stack([value, dropped])
        share, kept_so_far = share * f, dropped + root * lam * (n / kept)
        root = root * np.sqrt(n / kept)
    return np.column_stack([value, kept_so_far])
