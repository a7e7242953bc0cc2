"""Public cells divided by earlier variables of a sequence: the rows of the model of a later variable.

one earlier variable  ->  every combination of public levels by each of its steps, exactly
several               ->  simulated records, raked to the fitted counts of each earlier variable
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

LEAST = 1e-12  # least share by which is divided
ROUNDS = 20  # rounds of raking


@dataclass(frozen=True, eq=False, repr=False)
class Expanded:
    """Parts of the combinations of public levels, with one step of every earlier variable in each.

    Attributes
    ----------
    cell : int array (K,)
        Combination of each part.
    share : float array (K,)
        Share of the records of the combination.
    step : dict of str to int array (K,)
        Step of every earlier variable.
    mean : dict of str to callable
        Maps values (G,) of the cells of an earlier variable to their means (K,) in the parts.
    """

    cell: Codes
    share: Floats
    step: Mapping[str, Codes]
    mean: Mapping[str, Callable[[Floats], Floats]]

    def asked(self, there: Bools) -> Expanded:
        """The parts without the records that are not asked."""
        return replace(self, share=self.share * there)


def without_earlier(cell: Codes, n: int) -> Expanded:
    """Parts without earlier variables: one for each record or combination, with combinations ``cell`` (K,)."""
    return Expanded(cell, 1 / np.bincount(cell, minlength=n)[cell], {}, {})


def by_one(name: str, steps: Codes, p: Floats) -> Expanded:
    """Parts by the steps (G,) of one earlier variable, whose probabilities in combinations are p (C, G)."""
    inside = one_hot(steps, int(steps.max()) + 1)
    share, C = p @ inside, len(p)

    def mean(values: Floats) -> Floats:
        return np.asarray((p * values) @ inside / np.maximum(share, LEAST), dtype=np.float64).ravel()

    step = np.tile(np.arange(share.shape[1]), C)
    return Expanded(np.repeat(np.arange(C), share.shape[1]), share.ravel(), {name: step}, {name: mean})


def by_simulated(
    cell: Codes, records: Floats, codes: Mapping[str, Codes], steps: Mapping[str, Codes], expected: Mapping[str, Floats]
) -> Expanded:  # fmt: skip
    """Parts from simulated records in combinations ``cell`` (K,), with numbers of ``records`` (C,) of these.

    Parameters
    ----------
    codes : dict of str to int array (K,)
        Cells of earlier variables.
    steps : dict of str to int array (G,)
        Step of each cell.
    expected : dict of str to float array (G,)
        Fitted number of records of each cell, to which the steps of simulated records are raked.
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
