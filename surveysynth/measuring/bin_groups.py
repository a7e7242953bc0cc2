"""Coarse groups of the cells of a variable, and scores of them, from a smooth fit of its noisy histogram."""

from __future__ import annotations

import numpy as np

from .bins import Codes, Floats

MOST, LEAST = 24, 3  # groups of the body of a distribution
# Expected records of a cell of a table, and of a tail in all levels, in standard deviations of the noise
FULL, TAIL = 12.0, 2.0
TAILS = 2  # groups of each tail, at most, each twice as large as the one beyond it
# Records of a level beyond the highest score, in standard deviations of the noise; shares of all at least, at most
BEYOND, LEAST_BEYOND, MOST_BEYOND = 3.0, 0.002, 0.4
IN_TAIL = 0.05, 0.2, 0.5  # shares of the first and the last group at which they are cut


def table_groups(
    p: Floats, numbers: int, n: int, levels: int, sd: float, most: int = MOST, tails: int = TAILS
) -> Codes:  # fmt: skip
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


def coarser_groups(groups: Codes, p: Floats, numbers: int, most: int) -> Codes:
    """Groups of numbers put together to so many, with about equal shares of p; special values stay alone (G,)."""
    if numbers == 0:
        return groups
    share = np.bincount(groups[:numbers], p[:numbers])
    middle = (np.cumsum(share) - share / 2) / max(share.sum(), 1e-12)
    merged = np.unique(np.minimum((middle * most).astype(np.intp), most - 1), return_inverse=True)[1].ravel()
    special = groups[numbers:] - len(share) + int(merged.max()) + 1
    return np.concatenate([merged[groups[:numbers]], special]).astype(np.intp)


def cell_scores(p: Floats, values: Floats, n: int, levels: int, sd: float, unit: int) -> Codes:
    """Scores of cells: from -unit to unit, linear in the amount between two quantiles; special values have the unit.

    The sum of the scores of a level tells its mean by one number, whose noise does not grow with the number of groups.
    The quantiles leave about ``BEYOND`` standard deviations of the noise in records of a level on each side.

    Parameters
    ----------
    p : float array (G,)
    values : float array (numbers,)
        Amount of each bin, ascending.
    n, levels, sd
        As for :func:`groups_of`.
    unit : int

    Returns
    -------
    int array (G,)
    """
    bins = p[: len(values)]
    beyond = np.clip(BEYOND * sd * levels / max(n * bins.sum(), 1.0), LEAST_BEYOND, MOST_BEYOND)
    above = np.cumsum(bins) / max(bins.sum(), 1e-12)
    first = max(int(np.searchsorted(above, beyond, side="right")) - 1, 0)  # a bin of many records is between both
    last = min(int(np.searchsorted(above, 1 - beyond)) + 1, len(values) - 1)
    first, last = min(first, len(values) - 2), max(last, first + 1)
    score = 2 * np.clip((values - values[first]) / (values[last] - values[first]), 0, 1) - 1
    return np.concatenate([np.rint(score * unit), np.full(len(p) - len(values), unit)]).astype(np.intp)


def effect_steps(p: Floats, groups: Codes, numbers: int) -> Codes:
    """Groups of cells, of which the first and the last number are cut finer, as their tails are long (G,).

    Parameters
    ----------
    p : float array (G,)
    groups : int array (G,)
    numbers : int
        How many cells are bins of a number; special values stay groups of their own.
    """
    step = np.zeros(len(groups), dtype=np.intp)
    if numbers:
        cuts = np.array(IN_TAIL)
        for group, at in ((groups[0], cuts), (groups[numbers - 1], 1 - cuts[::-1])):
            here = np.flatnonzero(groups[:numbers] == group)
            inside = (np.cumsum(p[here]) - p[here] / 2) / max(p[here].sum(), 1e-12)
            step[here] = np.searchsorted(at, inside)
    return np.unique(np.stack([groups, step]), axis=1, return_inverse=True)[1].ravel().astype(np.intp)
