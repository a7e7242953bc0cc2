"""From games to an empirical epsilon: a test is chosen on one half of the games and evaluated on the other half.

Under (epsilon, delta)-differential privacy, every event has P(in) <= e^epsilon P(out) + delta for a pair of files, and
the same holds with "in" and "out" exchanged.  So

    log( (lower limit of P(in) - delta) / upper limit of P(out) ),

with limits of Clopper & Pearson (1934), is a lower limit of epsilon (Jagielski, Ullman & Oprea 2020, section 4).  Each
of the two limits fails with a probability of at most 2.5%, and so one of them with at most 5%.  The event is chosen on
other games, so that the choice does not affect this probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Floats = NDArray[np.float64]
Counts = NDArray[np.intp]

LEVEL = 0.05


@dataclass(frozen=True)
class Verdict:
    """The results of the chosen test on the games that were not used to choose it.

    Attributes
    ----------
    direction : str
        "in" if the event is likelier with the planted record, "out" if it is likelier without it.
    games : int
        Number of games on either side on which the test was evaluated.
    hits : int
        Number of events on the side where the event is likelier.
    false_hits : int
        Number of events on the other side.
    point : float
        Log of the ratio of the shares of events, with half a game added to either count.
    lower : float
        Lower limit of epsilon, at 95%; -inf if delta exceeds the lower limit of the share.
    most : float
        The largest lower limit that this number of games can show: all hits and no false hits.
    """

    direction: str
    games: int
    hits: int
    false_hits: int
    point: float
    lower: float
    most: float


def judge(inside: Floats, outside: Floats, delta: float = 0.0, level: float = LEVEL) -> Verdict:
    """The empirical epsilon between two sides.

    Parameters
    ----------
    inside, outside : float arrays (games, parts)
        Statistics that the intruder computes from each release, and that tend to be larger "in".  The test is chosen on
        the first half of the games.
    delta : float
        Delta of the guarantee.
    level : float
        Largest probability with which the lower limit exceeds epsilon.

    Notes
    -----
    The candidates are each part alone and the linear discriminant of Fisher (1936), with every threshold and in both
    directions.
    """
    cut = len(inside) // 2, len(outside) // 2
    weights = [*np.eye(inside.shape[1]), discriminant(inside[: cut[0]], outside[: cut[1]])]
    best, chosen = -np.inf, ("in", weights[0], np.inf)
    for direction, sign in (("in", 1.0), ("out", -1.0)):
        for weight in weights:
            scores = [sign * side[:half] @ weight for side, half in zip((inside, outside), cut, strict=True)]
            likely, rare = scores if direction == "in" else scores[::-1]
            threshold, lower = best_threshold(likely, rare, delta, level)
            if lower > best:
                best, chosen = lower, (direction, sign * weight, threshold)
    direction, weight, threshold = chosen
    events = [side[half:] @ weight >= threshold for side, half in zip((inside, outside), cut, strict=True)]
    likely, rare = events if direction == "in" else events[::-1]
    hits, false_hits = int(likely.sum()), int(rare.sum())
    point = np.log((hits + 0.5) / (likely.size + 1)) - np.log((false_hits + 0.5) / (rare.size + 1))
    return Verdict(
        direction, min(likely.size, rare.size), hits, false_hits, float(point),
        float(lower_epsilon(hits, likely.size, false_hits, rare.size, delta, level)),
        float(lower_epsilon(likely.size, likely.size, 0, rare.size, delta, level)),
    )  # fmt: skip


def lower_epsilon(
    hits: Counts | int, games: int, false_hits: Counts | int, false_games: int, delta: float = 0.0,
    level: float = LEVEL,
) -> Floats:  # fmt: skip
    """Lower limit of epsilon from counts of an event, which are numbers or arrays of the same shape."""
    low, _ = clopper_pearson(hits, games, level)
    _, high = clopper_pearson(false_hits, false_games, level)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def clopper_pearson(hits: Counts | int, games: int, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Lower and upper limit of a probability, each of which fails with a probability of at most half the level."""
    hits = np.asarray(hits, dtype=np.float64)
    few, many = np.maximum(hits, 1.0), np.minimum(hits, games - 1.0)
    low = np.where(hits > 0, betaincinv(few, games - few + 1, level / 2), 0.0)
    high = np.where(hits < games, betaincinv(many + 1, games - many, 1 - level / 2), 1.0)
    return low, high


def best_threshold(likely: Floats, rare: Floats, delta: float = 0.0, level: float = LEVEL) -> tuple[float, float]:
    """The threshold with the largest lower limit of epsilon, and this limit.

    The event is a score at or above the threshold, and is likelier on the side ``likely``.
    """
    thresholds = np.unique(np.concatenate([likely, rare]))
    counts: Sequence[Counts] = [
        side.size - np.searchsorted(np.sort(side), thresholds, side="left") for side in (likely, rare)
    ]
    lower = lower_epsilon(counts[0], likely.size, counts[1], rare.size, delta, level)
    at = int(np.argmax(lower))
    return float(thresholds[at]), float(lower[at])


def discriminant(inside: Floats, outside: Floats) -> Floats:
    """Weights of the parts (parts,) that separate the sides best if both are normal with the same covariance."""
    apart = inside.mean(axis=0) - outside.mean(axis=0)
    within = np.atleast_2d(np.cov(inside, rowvar=False)) + np.atleast_2d(np.cov(outside, rowvar=False))
    return np.asarray(np.linalg.pinv(within) @ apart)
