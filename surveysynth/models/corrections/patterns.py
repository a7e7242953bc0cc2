"""Samples of combinations of predictors that represent a file, and the error for draws that cannot be corrected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

PATTERNS = 256  # more distinct predictor rows than this are represented by a sample


def representative_patterns(size: Floats, cell: Codes, most: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
    """Sample about ``most`` patterns (combinations of predictors), with probabilities proportional to ``size``.

    ``size`` and ``cell`` are the number of records and the public cell of each pattern.  Patterns are sampled
    separately in each cell.  If there are no more than ``most`` patterns, all are taken.  Returns the positions of the
    sampled patterns, and the number of records that each of them represents.
    """
    if len(size) <= most:
        return np.arange(len(size)), size
    selected, represented = [], []
    for c in np.unique(cell):
        inside = np.flatnonzero(cell == c)
        total = size[inside].sum()
        quota = max(1, int(most * (total / size.sum())))
        if inside.size > quota:
            inside = inside[rng.choice(inside.size, quota, replace=False, p=size[inside] / total)]
            represented.append(np.full(quota, total / quota))
        else:
            represented.append(size[inside])
        selected.append(inside)
    return np.concatenate(selected), np.concatenate(represented)


def irreversible() -> ModelError:
    """Return the ModelError for privacy weights whose effect on a draw cannot be undone."""
    return ModelError(
        "the privacy weights shrink the model so far that their effect cannot be undone: ask for a larger epsilon or a "
        "smaller m, use fewer predictors or categories, or leave out what has to be undone (debias=True; the effects "
        "of PSUs, by clusters='ignore')"
    )
