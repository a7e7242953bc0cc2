"""Stages of sampling: strata, sampling units and sampling fractions.  Strata and units are numbered from 0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from ..validation import rows
from .columns import codes, numeric, positive


@dataclass(frozen=True)
class Stage:
    """One stage of sampling of n records, for variance estimation.  All arrays are read-only.

    Attributes
    ----------
    stratum : int array (n,)
        Stratum of each record.  At the second stage the strata are the units of the first stage, and so on.
    unit : int array (n,)
        Sampling unit of each record.  Units of different strata have different numbers.
    stratum_of_unit : int array (units,)
        Stratum of each unit.
    sampled : int array (strata,)
        Number of units in the sample, n_h, for each stratum h.
    fraction : float array (strata,)
        Sampling fraction f_h = n_h / N_h for each stratum h.  It is 0 if the stage has no fpc.
    """

    stratum: NDArray[np.intp]
    unit: NDArray[np.intp]
    stratum_of_unit: NDArray[np.intp]
    sampled: NDArray[np.intp]
    fraction: NDArray[np.float64]

    def __post_init__(self) -> None:
        for array in vars(self).values():
            array.flags.writeable = False

    @property
    def lonely(self) -> NDArray[np.bool_]:
        """True for each stratum with a single sampling unit, unless this unit is the whole stratum: (strata,)."""
        return (self.sampled == 1) & (self.fraction < 1)


def stages_of(frame: pd.DataFrame, strata: str | None, psu: tuple[str, ...], fpc: tuple[str, ...]) -> tuple[Stage, ...]:
    """Return the stages of sampling that contribute to variances, the first stage first.

    A later stage only contributes if the stage before it has an fpc.  Without an fpc the PSUs are taken as drawn with
    replacement, and the variance between PSUs is the whole variance (Hu, Savitsky & Williams 2022a, section 2.3; R's
    survey).

    Parameters
    ----------
    frame : pandas.DataFrame
    strata : str, optional
        Column of first-stage strata.
    psu, fpc : tuple of str
        Columns of sampling units and of finite population corrections, one per stage, first stage first.

    Raises
    ------
    InputError
        The fpc columns mix sampling fractions and population sizes; an fpc varies within a stratum, is a population
        smaller than the sample, or is not positive.
    """
    n = len(frame)
    fractions = _fpc_are_fractions(frame, fpc)
    stratum = np.broadcast_to(np.intp(0), n) if strata is None else codes(frame[strata])
    stages: list[Stage] = []
    for level in range(max(len(psu), 1)):
        if psu:
            unit = codes(stratum, frame[psu[level]])
            stratum_of_unit = stratum[np.unique(unit, return_index=True)[1]]
        else:
            unit, stratum_of_unit = _everybody(n), stratum
        sampled = np.bincount(stratum_of_unit)
        has_fpc = level < len(fpc)
        fraction = np.zeros(sampled.size)
        if has_fpc:
            fraction = _sampling_fraction(frame[fpc[level]], fpc[level], stratum, sampled, fractions)
        stages.append(Stage(stratum, unit, stratum_of_unit, sampled, fraction))
        if not has_fpc:
            break
        stratum = unit
    return tuple(stages)


@lru_cache(maxsize=1)
def _everybody(n: int) -> NDArray[np.intp]:
    """Return the sampling unit of each record, 0 to n - 1, for a design in which each record is a unit.

    All designs of n records share this read-only array.
    """
    units = np.arange(n, dtype=np.intp)
    units.flags.writeable = False
    return units


def _fpc_are_fractions(frame: pd.DataFrame, fpc: tuple[str, ...]) -> bool:
    if not fpc:
        return False
    values = np.column_stack([positive(frame[name], name, at_most_one=False) for name in fpc])
    if (values <= 1).all():
        return True
    below = (values < 1).any(axis=1)
    if below.any():
        raise InputError(
            f"fpc columns {', '.join(map(repr, fpc))} mix sampling fractions and population sizes: below 1 in "
            f"{rows(below)}; use fractions (all at most 1) or sizes (all at least 1)"
        )
    return False


def _sampling_fraction(
    column: pd.Series, name: str, stratum: NDArray[np.intp], sampled: NDArray[np.intp], fractions: bool
) -> NDArray[np.float64]:
    values = numeric(column, name)
    low, high = np.full(sampled.size, np.inf), np.full(sampled.size, -np.inf)
    np.minimum.at(low, stratum, values)
    np.maximum.at(high, stratum, values)
    varies = (high - low > 1e-9 * high)[stratum]
    if varies.any():
        raise InputError(f"fpc column {name!r} varies within its stratum in {rows(varies)}; it is one number a stratum")
    too_small = (low < sampled * (1 - 1e-9))[stratum]
    if not fractions and too_small.any():
        raise InputError(
            f"fpc column {name!r} gives a population smaller than the sample in {rows(too_small)}; "
            "it counts sampling units in the population of the stratum"
        )
    fraction = low if fractions else sampled / low
    return np.where(fraction > 1 - 1e-7, 1.0, fraction)  # R's limit: the stratum counts as sampled completely


def refuse_lonely(stages: tuple[Stage, ...], strata: str | None, psu: tuple[str, ...]) -> None:
    """Raise InputError if a stratum, at any stage, has one sampling unit and is not sampled completely.

    The variance within such a stratum cannot be estimated.
    """
    for level, stage in enumerate(stages):
        lonely = stage.lonely[stage.stratum]
        if lonely.any():
            above = f"a unit of {psu[level - 1]!r}" if level else f"a stratum of {strata!r}" if strata else "the sample"
            raise InputError(
                f"{above} has only one sampling unit at stage {level + 1}, so its variance cannot be estimated: "
                f"{rows(lonely)}; merge strata, or choose lonely_psu='remove', 'adjust' or 'average'"
            )
