"""Division of public cells (combinations of public levels) into parts, by the values of earlier variables.

A later variable is modelled given these parts.  The G cells of a variable are bins of numbers and special values such
as "missing".  The cells of an earlier variable are grouped into steps.  A part consists of the records of one public
cell that have the same step of every earlier variable.

With one earlier variable, there is a part for every public cell and step.  The share of the part is the fitted
probability of the step in the public cell.  With several earlier variables, the parts are simulated records, whose
shares are raked to the fitted counts of each earlier variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..models.loglinear.bases import one_hot

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool_]

LEAST = 1e-12  # smallest divisor, against division by 0
ROUNDS = 20  # rounds of raking


@dataclass(frozen=True, eq=False, repr=False)
class Expanded:
    """Public cells (combinations of public levels), divided into K parts by the values of earlier variables.

    All records of a part have the same step of every earlier variable.  A step is a group of the variable's G cells.

    Attributes
    ----------
    cell : int array (K,)
        Public cell to which each part belongs.
    share : float array (K,)
        Share of the records of the public cell that are in the part.
    step : dict of str to int array (K,)
        Step of every earlier variable in each part.
    mean : dict of str to callable
        For each earlier variable, a function of values (G,) of the variable's cells.  The function returns the mean
        value in each part (K,).
    """

    cell: Codes
    share: Floats
    step: Mapping[str, Codes]
    mean: Mapping[str, Callable[[Floats], Floats]]

    def asked(self, there: Bools) -> Expanded:
        """Return all parts, with share 0 for parts where ``there`` is False, which are not asked the question."""
        return replace(self, share=self.share * there)


def without_earlier(cell: Codes, n: int) -> Expanded:
    """Give the parts of each of n public cells equal shares of its records, if a formula has no earlier variable.

    ``cell`` is the public cell of each part.
    """
    return Expanded(cell, 1 / np.bincount(cell, minlength=n)[cell], {}, {})


def by_one(name: str, steps: Codes, p: Floats) -> Expanded:
    """Divide each of C public cells into parts by steps (groups of values) of the earlier variable ``name``.

    ``steps`` (G,) is the step of each of the variable's G cells.  ``p`` (C, G) are the probabilities of these cells in
    each public cell.
    """
    inside = one_hot(steps, int(steps.max()) + 1)
    share, C = p @ inside, len(p)

    def mean(values: Floats) -> Floats:
        return np.asarray((p * values) @ inside / np.maximum(share, LEAST), dtype=np.float64).ravel()

    step = np.tile(np.arange(share.shape[1]), C)
    return Expanded(np.repeat(np.arange(C), share.shape[1]), share.ravel(), {name: step}, {name: mean})


def by_simulated(
    cell: Codes, records: Floats, codes: Mapping[str, Codes], steps: Mapping[str, Codes], expected: Mapping[str, Floats]
) -> Expanded:  # fmt: skip
    """Use simulated records as parts of public cells, with shares raked to the fitted counts of each earlier variable.

    Parameters
    ----------
    cell : int array (K,)
        Public cell of each simulated record.
    records : float array (C,)
        Number of records of each public cell.
    codes : dict of str to int array (K,)
        For each earlier variable, the cell of each simulated record.
    steps : dict of str to int array (G,)
        For each earlier variable, the step of each cell.
    expected : dict of str to float array (G,)
        For each earlier variable, the fitted number of records in each cell.  Shares are raked to the sums of these
        numbers by step.
    """
    step = {name: own[codes[name]] for name, own in steps.items()}
    w = (records / np.bincount(cell))[cell]
    margins = [(step[name], np.bincount(own, expected[name])) for name, own in steps.items()]
    for _ in range(ROUNDS):
        for code, total in [*margins, (cell, records)]:
            w = w * (total / np.maximum(np.bincount(code, w, len(total)), LEAST))[code]

    def mean_of(name: str) -> Callable[[Floats], Floats]:
        return lambda values: values[codes[name]]

    return Expanded(cell, w / records[cell], step, {name: mean_of(name) for name in steps})
