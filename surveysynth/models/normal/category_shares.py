"""Shares of categories that records are measured against: private counts of cells, shrunk towards the overall shares.

A first draw hardly knows a rare category: its few records count for one or two, beside a clamp that gives them up
where equal shares are the reference, and what is measured against such a draw is flat where the file's own share lies.
Counts with Laplace noise of scale 1 / epsilon (Dwork et al. 2006) know it to some records.

With s the standard deviation of a count's noise, m the overall share of a category and n the records of a cell, the
weight of the cell's own share is n^2 / (n^2 + (s / (.3 m))^2), as if shares had a standard deviation of .3 m between
cells.  The overall share is the sum over cells, and so is its noise: s sqrt(cells), below which it is not taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...noise import laplace
from .categories import Categories

Floats = NDArray[np.float64]

BETWEEN = 0.3  # standard deviation of a share between cells over the overall share, about


def private_log_shares(
    categories: Categories, present: Floats, *, epsilon: float, each: int, rng: np.random.Generator | None
) -> Floats:
    """Log shares of the categories of each cell, (cells, K): differentially private at epsilon.

    Before they are made to add up to 1, shares are at least half the overall share, or one standard deviation of the
    noise where that is less: the noise says no more.

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
    counts, _ = laplace(categories.counts(present), each, epsilon, rng)
    sd = np.sqrt(2) * each / epsilon
    size = np.maximum(np.bincount(categories.cell, minlength=categories.cells), 1.0)[:, None]
    overall = np.maximum(counts.sum(axis=0), sd * np.sqrt(categories.cells)) / size.sum()
    own = size**2 / (size**2 + (sd / (BETWEEN * overall)) ** 2)
    shares = np.maximum(own * counts / size + (1 - own) * overall, np.minimum(sd / size, overall / 2))
    return np.asarray(np.log(shares / shares.sum(axis=1, keepdims=True)))
