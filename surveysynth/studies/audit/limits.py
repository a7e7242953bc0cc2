"""The empirical epsilon: a test is chosen on one half of the games, and evaluated on the other half.

Let P(in) be the probability of an event on the side with the planted record, and P(out) on the other side.  Under
(epsilon, delta)-differential privacy P(in) <= e^epsilon P(out) + delta for every event, also with the sides exchanged.
So

    log( (lower limit of P(in) - delta) / upper limit of P(out) ),

with limits of Clopper & Pearson (1934), is a lower limit of epsilon (Jagielski, Ullman & Oprea 2020, section 4).  Each
of the two limits fails with a probability of at most 2.5%, so that the result fails with at most 5%.  The event is
chosen on other games, so that no correction for the choice is necessary.
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
    """The result of the chosen test on the second half of the games.

    Attributes
    ----------
    direction : str
        "in" if the event is likelier with the planted record, "out" if it is likelier without this record.
    games : int
        Number of games in the second half, on the smaller side.
    hits, false_hits : int
        How often the event happened on the side where it is likelier, and on the other side.
    point : float
        Log ratio of the shares of the event on the two sides, with half a game added to each count.
    lower : float
        Lower confidence limit of epsilon.  It is -inf if the lower limit on the likelier side is not above delta.
    most : float
        The lower limit if the event happened in every game of one side and in none of the other.
    """

    direction: str
    games: int
    hits: int
    false_hits: int
    point: float
    lower: float
    most: float


def judge(inside: Floats, outside: Floats, delta: float = 0.0, level: float = LEVEL) -> Verdict:
    """Estimate epsilon between two sides of games.

    Parameters
    ----------
    inside, outside : float arrays (games, statistics)
        Statistics that the intruder computes in each game, on the side with the planted record and on the other side.
        The test is chosen on the first half of the games.
    delta : float
        Delta of the guarantee.
    level : float
        Largest probability with which the lower limit exceeds epsilon.

    Notes
    -----
    The test compares a score with a threshold.  The candidate scores are each statistic and the linear discriminant of
    Fisher (1936), with every threshold, in both directions.
    """
    cut = len(inside) // 2, len(outside) // 2
    weights = [*np.eye(inside.shape[1]), discriminant(inside[: cut[0]], outside[: cut[1]])]
    best, best_test = -np.inf, ("in", weights[0], np.inf)
    for direction, sign in (("in", 1.0), ("out", -1.0)):
        for weight in weights:
            scores = [sign * side[:half] @ weight for side, half in zip((inside, outside), cut, strict=True)]
            likely, rare = scores if direction == "in" else scores[::-1]
            threshold, lower = best_threshold(likely, rare, delta, level)
            if lower > best:
                best, best_test = lower, (direction, sign * weight, threshold)
    direction, weight, threshold = best_test
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
    """Lower confidence limit of epsilon from the counts of an event on the two sides."""
    low, _ = clopper_pearson(hits, games, level)
    _, high = clopper_pearson(false_hits, false_games, level)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def clopper_pearson(hits: Counts | int, games: int, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Lower and upper confidence limit of a probability.  Each limit fails with a probability of at most level / 2."""
    hits = np.asarray(hits, dtype=np.float64)
    few, many = np.maximum(hits, 1.0), np.minimum(hits, games - 1.0)
    low = np.where(hits > 0, betaincinv(few, games - few + 1, level / 2), 0.0)
    high = np.where(hits < games, betaincinv(many + 1, games - many, 1 - level / 2), 1.0)
    return low, high


def best_threshold(likely: Floats, rare: Floats, delta: float = 0.0, level: float = LEVEL) -> tuple[float, float]:
    """Return the threshold of the scores that gives the largest lower limit of epsilon, and this limit."""
    thresholds = np.unique(np.concatenate([likely, rare]))
    counts: Sequence[Counts] = [
        side.size - np.searchsorted(np.sort(side), thresholds, side="left") for side in (likely, rare)
    ]
    lower = lower_epsilon(counts[0], likely.size, counts[1], rare.size, delta, level)
    at = int(np.argmax(lower))
    return float(thresholds[at]), float(lower[at])


def discriminant(inside: Floats, outside: Floats) -> Floats:
    """Weights of Fisher's linear discriminant between the two sides (statistics,)."""
    difference = inside.mean(axis=0) - outside.mean(axis=0)
    within = np.atleast_2d(np.cov(inside, rowvar=False)) + np.atleast_2d(np.cov(outside, rowvar=False))
    return np.asarray(np.linalg.pinv(within) @ difference)
