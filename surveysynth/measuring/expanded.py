"""Public cells by what earlier variables of a sequence are: what the model of a later one has rows for.

one earlier variable  ->  every combination of public levels by each of its steps, exactly
several               ->  simulated records, of which the groups of every earlier variable add up to what its fit says
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

LEAST = 1e-12  # of a share, where a mean is taken over it
ROUNDS = 20  # of raking simulated records


@dataclass(frozen=True, eq=False, repr=False)
class Expanded:
    """Parts of the combinations of public levels, each with one step of every earlier variable.

    Attributes
    ----------
    cell : int array (K,)
        Combination of each part.
    share : float array (K,)
        Of the combination's records.
    step : dict of str to int array (K,)
        Of every earlier variable.
    mean : dict of str to callable
        From a number for each cell of an earlier variable (G,) to its mean in each part (K,).
    """

    cell: Codes
    share: Floats
    step: Mapping[str, Codes]
    mean: Mapping[str, Callable[[Floats], Floats]]

    def asked(self, there: Bools) -> Expanded:
        """Of the records that are asked alone: the others count for nothing."""
        return replace(self, share=self.share * there)


def without_earlier(cell: Codes, n: int) -> Expanded:
    """Each record, or each combination, is one part, of combinations ``cell`` (K,)."""
    return Expanded(cell, 1 / np.bincount(cell, minlength=n)[cell], {}, {})


def by_one(name: str, steps: Codes, p: Floats) -> Expanded:
    """By the steps (G,) of one earlier variable, of which combinations have the probabilities p (C, G)."""
    inside = one_hot(steps, int(steps.max()) + 1)
    share, C = p @ inside, len(p)

    def mean(values: Floats) -> Floats:
        return np.asarray((p * values) @ inside / np.maximum(share, LEAST), dtype=np.float64).ravel()

    step = np.tile(np.arange(share.shape[1]), C)
    return Expanded(np.repeat(np.arange(C), share.shape[1]), share.ravel(), {name: step}, {name: mean})


def by_simulated(
    cell: Codes, records: Floats, codes: Mapping[str, Codes], steps: Mapping[str, Codes], expected: Mapping[str, Floats]
) -> Expanded:  # fmt: skip
    """By simulated records of the combinations ``cell`` (K,), which have so many ``records`` (C,).

    Parameters
    ----------
    codes : dict of str to int array (K,)
        Their cells of earlier variables.
    steps : dict of str to int array (G,)
        Step of each cell.
    expected : dict of str to float array (G,)
        Records that each cell has by the fit: steps of simulated ones are made to add up to them.
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
