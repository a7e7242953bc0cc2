"""Grouping and scoring of a variable's bins for noisy tables, given a smoothed noisy histogram of the variable.

A numeric variable has G cells: bins, then special values such as "missing".
"""

from __future__ import annotations

import numpy as np

from .bins import Codes, Floats

MOST, LEAST = 24, 3  # largest and smallest number of groups of the body of a distribution, between the tails
# Smallest expected number of records, in standard deviations of the noise: in a group of the body in each level (FULL),
# and in a group of a tail over all levels together (TAIL)
FULL, TAIL = 12.0, 2.0
TAILS = 2  # largest number of groups of each tail; a group is twice as large as the next group outwards
BEYOND = 3.0  # records of a level with an amount beyond the range of the scores, in standard deviations of the noise
LEAST_BEYOND, MOST_BEYOND = 0.002, 0.4  # limits of the share of such records
IN_TAIL = 0.05, 0.2, 0.5  # the first and the last group are cut at these shares of their records, from the outer end


def table_groups(
    p: Floats, numbers: int, n: int, levels: int, sd: float, most: int = MOST, tails: int = TAILS
) -> Codes:  # fmt: skip
    """Group the bins and special values of a variable into the columns of a noisy table.

    Groups between the two tails have equal shares of the records.  They are so large that, in a row of average size,
    the count of a group is large compared with the noise.  Groups of the tails are smaller: only their counts over all
    rows together are large compared with the noise.  Each special value is a separate group.

    Parameters
    ----------
    p : float array (G,)
        Probabilities of the cells.
    numbers : int
        Number of cells that are bins of a numeric variable.  The cells after these are special values.
    n : int
        Number of records.
    levels : int
        Number of rows of the table, such as the levels of a term.
    sd : float
        Standard deviation of the noise of a count.
    most : int
        Largest number of groups between the tails.
    tails : int
        Largest number of groups of each tail.

    Returns
    -------
    int array (G,)
        Group of each cell.
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
    """Merge groups of bins into at most ``most`` larger groups with similar shares of the records.

    Return the new group (G,) of each cell, given the old ``groups`` (G,) and the probabilities ``p`` (G,) of the cells.
    The first ``numbers`` cells are bins.  Each special value remains a separate group.
    """
    if numbers == 0:
        return groups
    share = np.bincount(groups[:numbers], p[:numbers])
    middle = (np.cumsum(share) - share / 2) / max(share.sum(), 1e-12)
    merged = np.unique(np.minimum((middle * most).astype(np.intp), most - 1), return_inverse=True)[1].ravel()
    special = groups[numbers:] - len(share) + int(merged.max()) + 1
    return np.concatenate([merged[groups[:numbers]], special]).astype(np.intp)


def cell_scores(p: Floats, values: Floats, n: int, levels: int, sd: float, unit: int) -> Codes:
    """Return a score of each bin or special value.  Noisy sums of scores serve to estimate mean amounts.

    The score is linear in the amount between two quantiles, from -unit to unit, and constant beyond them.  In each row
    of the table, about 3 ``sd`` records lie below the lower quantile, and as many above the upper one.  The mean amount
    in a row follows from one sum of scores, and has the noise of one number instead of the noise of many counts.
    Special values have the score ``unit``.

    Parameters
    ----------
    p : float array (G,)
        Probabilities of the cells.
    values : float array (numbers,)
        Amount of each bin, ascending.
    n : int
        Number of records.
    levels : int
        Number of rows of the table, such as the levels of a term.
    sd : float
        Standard deviation of the noise of a count.
    unit : int
        Largest score.

    Returns
    -------
    int array (G,)
        Score of each cell.
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
    """Group the bins and special values of a variable into steps.  Each step has one effect on a later variable.

    Return the step (G,) of each cell (bin or special value).  Each group of cells of a noisy table is one step, except
    for the first and the last group of numbers: these groups contain the tails of the distribution and are cut into
    several steps.

    Parameters
    ----------
    p : float array (G,)
        Probabilities of the cells.
    groups : int array (G,)
        Group of each cell in the noisy table.
    numbers : int
        Number of cells that are bins of a numeric variable.  Each special value is a separate step.
    """
    step = np.zeros(len(groups), dtype=np.intp)
    if numbers:
        cuts = np.array(IN_TAIL)
        for group, at in ((groups[0], cuts), (groups[numbers - 1], 1 - cuts[::-1])):
            here = np.flatnonzero(groups[:numbers] == group)
            inside = (np.cumsum(p[here]) - p[here] / 2) / max(p[here].sum(), 1e-12)
            step[here] = np.searchsorted(at, inside)
    return np.unique(np.stack([groups, step]), axis=1, return_inverse=True)[1].ravel().astype(np.intp)
