"""Replicate weights by successive differences, for samples that were drawn systematically."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from ...choices import LonelyPSU
from ...validation import whole
from ..stages import Stage
from .balanced import hadamard
from .levels import LevelReplicates
from .preston import refuse_lonely_units

Codes = NDArray[np.intp]
LEAST = 4  # smallest number of replicates


def successive_differences(stages: tuple[Stage, ...], R: int, lonely_psu: LonelyPSU = "fail") -> LevelReplicates:
    """Make replicates for systematic samples by successive differences, with R's scale 4 / R.

    The PSUs of a stratum must have the same order in the file as in the systematic selection.  Each PSU has two rows a
    and b of a Hadamard matrix H.  Its factor in replicate r is 1 + sqrt(1 - f_h) 2^(-3/2) (H_ar - H_br), where f_h is
    the sampling fraction of its stratum h.  Row b of a PSU is row a of the next PSU of the stratum, and row b of the
    last PSU is row a of the first.  If there are as many rows as PSUs, the variance of a total is exactly

        sum_h (1 - f_h) / 2 sum_i (z_i - z_{i+1})^2,

    where z_i is the weighted total of PSU i of stratum h, and the last PSU is followed by the first.  If there are
    fewer rows, they are used again, in other pairs.  The formula then holds in expectation.

    Source: Fay & Train 1995; Ash 2014, eq. 2.4 (the circular SD2) and section 3.

    Parameters
    ----------
    stages : tuple of Stage
        Stages of the design.  Stages after the first are ignored, with a warning.
    R : int
        Approximate largest number of replicates.  The number is the smallest available order of a Hadamard matrix that
        is at least min(R, number of PSUs + 1) and at least 4.
    lonely_psu : {"fail", "remove", "adjust", "average"}
        See :func:`surveysynth.design.replicates.preston.preston`.

    Raises
    ------
    InputError
        R is not a positive whole number; a stratum has one PSU and is not sampled completely.
    """
    whole(R, "the number of replicates")
    refuse_lonely_units(stages[:1], lonely_psu)
    if len(stages) > 1:
        warnings.warn(
            "successive differences show the variance of the first stage of sampling: that of later stages, times the "
            "sampling fractions above them, is left out",
            stacklevel=3,
        )
    first = stages[0]
    h, n = first.stratum_of_unit, first.sampled
    H = hadamard(max(LEAST, min(h.size + 1, R)))[1:]  # its first row is constant
    order = np.lexsort((_first_records(first), h))
    rows = _rows(h.size, len(H))
    end = np.cumsum(n) - 1
    following = np.arange(1, h.size + 1)
    following[end] = end - n + 1
    level = np.empty((h.size, H.shape[1]), dtype=np.uint8)
    level[order] = (H[rows].astype(np.int8) - H[rows[following]]) // 2 + 1
    half = np.sqrt((1 - first.fraction) / 2)[:, None]
    value = 1 + half * np.array([[-1.0, 0.0, 1.0]])
    scale = 4 / H.shape[1]
    return LevelReplicates("successive differences", scale, np.ones(H.shape[1]), True, first.unit, level, h, value)


def _first_records(stage: Stage) -> Codes:
    return np.unique(stage.unit, return_index=True)[1]


def _rows(units: int, rows: int) -> Codes:
    """Choose a row of the Hadamard matrix for each PSU, in the order of selection: (units,).

    ``units`` is the number of PSUs, and ``rows`` is the number of rows.  The row number increases by 1 from PSU to PSU
    until all rows are used, then by a larger step, and so on (modulo ``rows``; steps have no common factor with it).
    So no pair of consecutive rows occurs twice until all steps have been used.
    """
    cycles = [np.arange(rows)]
    step = 2
    while sum(map(len, cycles)) < units:
        if np.gcd(step, rows) == 1:
            cycle = (np.arange(rows) * step + cycles[-1][-1] + step) % rows
            cycles.append(cycle)
        step = step + 1 if step < rows - 1 else 2
    return np.concatenate(cycles)[:units]
