"""Coarse groups of the cells of a variable, from a smooth fit of its noisy histogram."""

from __future__ import annotations

import numpy as np

from .bins import Codes, Floats

MOST, LEAST = 24, 3  # groups of the body of a distribution
# Expected records of a cell of a table, and of a tail in all levels, in standard deviations of the noise
FULL, TAIL = 12.0, 2.0
TAILS = 2  # groups of each tail, at most, each twice as large as the one beyond it


def groups_of(p: Floats, numbers: int, n: int, levels: int, sd: float, most: int = MOST, tails: int = TAILS) -> Codes:
    """Groups of cells with probabilities p: equal shares of records in the body, finer ones in both tails.

    A group of the body has enough records in each of so many levels not to be drowned by noise of standard deviation
    ``sd``; one of a tail has enough in all levels together.  Special values are groups of their own.

    Parameters
    ----------
    p : float array (G,)
    numbers : int
        How many cells are bins of a number; the others are special values.
    n : int
        Records.
    levels : int
        Of the term that the groups are crossed with.
    sd : float
        Of the noise of a count.
    most : int
        Groups of the body, at most.
    tails : int
        Finer groups of each tail, at most.

    Returns
    -------
    int array (G,)
    """
    special = np.arange(len(p) - numbers)
    if numbers == 0:
        return special
    share = p[:numbers].sum()
    n_numbers = max(n * share, 1.0)
    body = int(np.clip(n_numbers / (levels * max(FULL * sd, 1.0)), LEAST, most))
    least = max(TAIL * np.sqrt(levels) * sd / n_numbers, 1 / most / 8)
    tail = least * 2.0 ** np.arange(tails)
    tail = np.cumsum(tail[tail < 1 / body])
    inner = tail[-1] if len(tail) else 0.0
    inner = min(inner, 0.4)
    cuts = np.concatenate([tail, np.linspace(inner, 1 - inner, max(2, round((1 - 2 * inner) * body)) + 1), 1 - tail])
    cuts = np.unique(cuts[(cuts > 0) & (cuts < 1)])
    below = np.cumsum(p[: numbers - 1]) / max(share, 1e-12)
    first = np.unique([np.argmin(np.abs(below - cut)) + 1 for cut in cuts]) if numbers > 1 else np.array([], dtype=int)
    group = np.zeros(numbers, dtype=np.intp)
    group[first] = 1
    group = np.cumsum(group)
    return np.concatenate([group, group[-1] + 1 + special])
