"""Shares of categories that records are measured against: private counts of cells, drawn together.

A first draw hardly knows a rare category: its few records count for one or two, beside a clamp that gives them up where
even shares are the reference, and what is measured against such a draw is flat where the file's own share lies.  Counts
with Laplace noise of scale 1 / epsilon (Dwork et al. 2006) know it to some records.

Small cells are drawn towards the shares of all: a cell of n records gets the weight n^2 / (n^2 + (s / .1)^2) of its
own, s being the standard deviation of a count's noise and .1 about that of shares between cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...noise import laplace
from .categories import Categories

Floats = NDArray[np.float64]

BETWEEN = 0.1  # standard deviation of a category's share between cells, about


def private_log_shares(
    categories: Categories, present: Floats, *, epsilon: float, each: int, rng: np.random.Generator | None
) -> Floats:
    """Log shares of the categories of each cell, (cells, K): differentially private at epsilon.

    No share is below what the noise leaves open: one standard deviation of it, or less where the category has fewer in
    the whole file.

    Parameters
    ----------
    categories : Categories
    present : float array (n,)
        1, or 0 for records that are blanked, which no count has; how many records a cell has is public.
    each : int
        Largest number of records of a unit.
    rng : numpy.random.Generator, optional
        For tests only; else noise is OpenDP's.
    """
    counts = categories.counts(present)
    if rng is None:
        counts, _ = laplace(counts, each, epsilon)
    else:
        counts = counts + rng.laplace(0, each / epsilon, counts.shape)
    sd = np.sqrt(2) * each / epsilon
    size = np.maximum(np.bincount(categories.cell, minlength=categories.cells), 1.0)
    n = size.sum()
    of_all = np.maximum(counts.sum(axis=0), sd * np.sqrt(categories.cells)) / n
    own = size**2 / (size**2 + (sd / BETWEEN) ** 2)
    drawn = own[:, None] * counts / size[:, None] + (1 - own)[:, None] * of_all
    shares = np.maximum(drawn, np.minimum(sd / size[:, None], of_all))
    return np.asarray(np.log(shares / shares.sum(axis=1, keepdims=True)))
