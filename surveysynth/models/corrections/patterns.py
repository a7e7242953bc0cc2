"""Parts shared by the corrections for privacy weights: representative predictor rows, and the error."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

PATTERNS = 256  # number of predictor rows beyond which a sample represents them


def representative_patterns(size: Floats, cell: Codes, most: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
    """Sample patterns that represent all, in each cell with probabilities proportional to size.

    Returns the indices of the sampled patterns, and the number of records that each sampled pattern represents.
    """
    if len(size) <= most:
        return np.arange(len(size)), size
    selected, stands_for = [], []
    for c in np.unique(cell):
        inside = np.flatnonzero(cell == c)
        total = size[inside].sum()
        quota = max(1, int(most * (total / size.sum())))
        if inside.size > quota:
            inside = inside[rng.choice(inside.size, quota, replace=False, p=size[inside] / total)]
            stands_for.append(np.full(quota, total / quota))
        else:
            stands_for.append(size[inside])
        selected.append(inside)
    return np.concatenate(selected), np.concatenate(stands_for)


def irreversible() -> ModelError:
    """The error if no parameters lead to a draw."""
    return ModelError(
        "the privacy weights shrink the model so far that their effect cannot be undone: ask for a larger epsilon or a "
        "smaller m, use fewer predictors or categories, or leave out what has to be undone (debias=True; the effects "
        "of PSUs, by clusters='ignore')"
    )
