"""Calibration of weights to known totals of groups: post-stratification and raking (Deville and Sarndal 1992)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from ..validation import rows
from .columns import check_columns, codes

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Margin = str | tuple[str, ...]
Totals = Mapping[Margin, Mapping[Hashable, float]]

ROUNDS = 10_000
CLOSE = 1e-12  # how near to every total, relatively, the weights are to come


def rake(weights: Floats, margins: Sequence[Codes], totals: Sequence[Floats]) -> Floats:
    """Weights that add up to the totals of every margin: one margin is post-stratification, several are raked.

    Each margin's weights are scaled to its totals in turn, until all fit (iterative proportional
    fitting).  The result is the one with the least raking distance sum d (g log g - g + 1), with
    g = w / d (Deville and Sarndal 1992, case 2).

    Parameters
    ----------
    weights : float array (n,)
    margins : sequence of int arrays (n,)
        Group of each record, 0, 1, ... in each margin.
    totals : sequence of float arrays (groups,)

    Returns
    -------
    float array (n,)

    Raises
    ------
    InputError
        The totals cannot be met by weights that are positive.
    """
    w = weights.copy()
    for _ in range(ROUNDS):
        for margin, total in zip(margins, totals, strict=True):
            w *= (total / np.bincount(margin, w))[margin]
        off = [np.abs(np.bincount(g, w) / total - 1).max() for g, total in zip(margins, totals, strict=True)]
        if max(off) < CLOSE:
            return w
    raise InputError(
        f"raking did not meet the totals in {ROUNDS:,} rounds: where two margins leave no records in a cell, their "
        "totals may contradict each other; merge categories"
    )


def margins_of(frame: pd.DataFrame, names: Sequence[tuple[str, ...]]) -> tuple[Codes, ...]:
    """Groups of the records in every margin, as codes; the columns of one margin are crossed."""
    for name in dict.fromkeys(name for margin in names for name in margin):
        check_columns(frame, {"poststrata": name})  # each by itself: it may have another role, too
    return tuple(codes(*(frame[name] for name in margin)) for margin in names)


def totals_of(frame: pd.DataFrame, names: tuple[str, ...], margin: Codes, given: Mapping[Hashable, float]) -> Floats:
    """The totals of one margin in the order of its codes.

    Raises
    ------
    InputError
        A group of the file without a total, a total without a record, a total that is not
        positive and finite.
    """
    where = " x ".join(map(repr, names))
    if not isinstance(given, Mapping | pd.Series):
        raise InputError(f"the totals of {where} must map each category to its total")
    first = frame[list(names)].iloc[np.unique(margin, return_index=True)[1]]
    keys = list(first.itertuples(index=False, name=None)) if len(names) > 1 else first[names[0]].tolist()
    lacking = np.array([key not in given for key in keys])
    if lacking.any():
        raise InputError(
            f"the totals of {where} lack {lacking.sum():,} of the {len(keys):,} categories of the file: "
            f"{rows(lacking[margin])}"
        )
    if len(given) > len(keys):
        raise InputError(
            f"the totals of {where} have {len(given) - len(keys):,} categories that no record has, so no weights can "
            "meet them; merge categories"
        )
    values = np.array([given[key] for key in keys], dtype=object)
    if not all(isinstance(v, (int, float, np.number)) and np.isfinite(v) and v > 0 for v in values):
        raise InputError(f"the totals of {where} must be positive, finite numbers")
    return values.astype(np.float64)


def check_agreement(totals: Sequence[Floats]) -> None:
    """Refuse margins whose totals add up to different populations (InputError)."""
    whole = [float(total.sum()) for total in totals]
    if max(whole) - min(whole) > 1e-8 * max(whole):
        raise InputError(
            f"the totals of the margins add up to different populations: {', '.join(f'{n:,.10g}' for n in whole)}; "
            "scale them to one"
        )
