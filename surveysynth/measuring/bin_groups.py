"""Groups and scores of the cells of a variable, from a smooth fit of the variable's noisy histogram."""

from __future__ import annotations

import numpy as np

from .bins import Codes, Floats

MOST, LEAST = 24, 3  # most and fewest groups of the body of a distribution
# Smallest expected number of records, in standard deviations of the noise: in a cell of a table (FULL), and in a group
# of a tail over all levels together (TAIL)
FULL, TAIL = 12.0, 2.0
TAILS = 2  # most groups of each tail; a group is twice as large as its outer neighbour
# Records of a level outside the range of the scores, in standard deviations of the noise, and limits of their share
BEYOND, LEAST_BEYOND, MOST_BEYOND = 3.0, 0.002, 0.4
IN_TAIL = 0.05, 0.2, 0.5  # the first and the last group are cut at these shares of the records of a group, from outside


def table_groups(
    p: Floats, numbers: int, n: int, levels: int, sd: float, most: int = MOST, tails: int = TAILS
) -> Codes:  # fmt: skip
    """Group of each cell: groups of the body have equal shares of the records, and groups of both tails are smaller.

    A group of the body has enough records in each level compared with the noise.  A group of a tail has enough
    records in all levels together.  Each special value is a group of its own.

    Parameters
    ----------
    p : float array (G,)
        Probabilities of the cells.
    numbers : int
        Number of cells that are bins of a number.  The cells after these are special values.
    n : int
        Number of records.
    levels : int
        Number of levels of the term by which the table of groups is made.
    sd : float
        Standard deviation of the noise of a count.
    most : int
        Most groups of the body.
    tails : int
        Most groups of each tail.

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


def coarser_groups(groups: Codes, p: Floats, numbers: int, most: int) -> Codes:
    """Group of each cell (G,) after groups of numbers are merged to at most ``most`` groups of similar shares.

    Each special value remains a group of its own.
    """
    if numbers == 0:
        return groups
    share = np.bincount(groups[:numbers], p[:numbers])
    middle = (np.cumsum(share) - share / 2) / max(share.sum(), 1e-12)
    merged = np.unique(np.minimum((middle * most).astype(np.intp), most - 1), return_inverse=True)[1].ravel()
    special = groups[numbers:] - len(share) + int(merged.max()) + 1
    return np.concatenate([merged[groups[:numbers]], special]).astype(np.intp)


def cell_scores(p: Floats, values: Floats, n: int, levels: int, sd: float, unit: int) -> Codes:
    """Score of each cell, from -unit to unit and linear in the amount between two quantiles.

    Special values have the score ``unit``.  The sum of the scores measures the mean of a level by one number, so the
    noise does not grow with the number of groups.  The quantiles are chosen so that in each level the number of records
    beyond either quantile is approximately ``BEYOND`` standard deviations of the noise.

    Parameters
    ----------
    p : float array (G,)
        Probabilities of the cells.
    values : float array (numbers,)
        Amount of each bin, ascending.
    n, levels, sd
        As for :func:`table_groups`.
    unit : int
        Largest score.

    Returns
    -------
    int array (G,)
    """
    bins = p[: len(values)]
    beyond = np.clip(BEYOND * sd * levels / max(n * bins.sum(), 1.0), LEAST_BEYOND, MOST_BEYOND)
    above = np.cumsum(bins) / max(bins.sum(), 1e-12)
    first = max(int(np.searchsorted(above, beyond, side="right")) - 1, 0)  # includes a bin with many records
    last = min(int(np.searchsorted(above, 1 - beyond)) + 1, len(values) - 1)
    first, last = min(first, len(values) - 2), max(last, first + 1)
    score = 2 * np.clip((values - values[first]) / (values[last] - values[first]), 0, 1) - 1
    return np.concatenate([np.rint(score * unit), np.full(len(p) - len(values), unit)]).astype(np.intp)


def effect_steps(p: Floats, groups: Codes, numbers: int) -> Codes:
    """Step of each cell (G,): the groups, with the first and the last group of numbers cut into several steps.

    These two groups contain the long tails of a distribution.

    Parameters
    ----------
    p : float array (G,)
        Probabilities of the cells.
    groups : int array (G,)
        Group of each cell.
    numbers : int
        Number of cells that are bins of a number.  Each special value remains a step of its own.
    """
    step = np.zeros(len(groups), dtype=np.intp)
    if numbers:
        cuts = np.array(IN_TAIL)
        for group, at in ((groups[0], cuts), (groups[numbers - 1], 1 - cuts[::-1])):
            here = np.flatnonzero(groups[:numbers] == group)
            inside = (np.cumsum(p[here]) - p[here] / 2) / max(p[here].sum(), 1e-12)
            step[here] = np.searchsorted(at, inside)
    return np.unique(np.stack([groups, step]), axis=1, return_inverse=True)[1].ravel().astype(np.intp)
