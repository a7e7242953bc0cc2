"""From games to an empirical epsilon: a test is chosen on one half of them, and judged on the other.

Under (epsilon, delta)-differential privacy of a pair of files an event has P(in) <= e^epsilon P(out) + delta, and the
other way round, whatever the event is.  So

    log( (lower limit of P(in) - delta) / upper limit of P(out) ),

with limits of Clopper & Pearson (1934), is a lower limit of epsilon (Jagielski, Ullman & Oprea 2020, section 4).  Each
limit is missed with a probability of 2.5% at the most: 5% together.  The event is chosen on other games, so that
choosing costs nothing.
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
    """The result of the chosen test on the other half of the games.

    Attributes
    ----------
    direction : str
        "in": the event is likelier with the planted record; "out": without it.
    games : int
        Number of games of either side on which it was judged.
    hits, false_hits : int
        Numbers of events on the side where it is likelier, and on the other side.
    point : float
        Log ratio of shares; half a game is added to either count.
    lower : float
        Lower limit of epsilon at 95%; -inf if delta exceeds the share.
    most : float
        Largest lower limit that so many games can show: all hits, none of them false.
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
        Statistics that the intruder reads from each release, which tend to be larger "in".  The first half of the
        games chooses the test.
    delta : float
        Delta of the guarantee.
    level : float
        Largest probability with which a lower limit exceeds epsilon.

    Notes
    -----
    Candidates are each part alone and the linear discriminant of Fisher (1936), with every threshold, in both
    directions.
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
    """Lower limit of epsilon from counts of an event, as numbers or arrays."""
    low, _ = clopper_pearson(hits, games, level)
    _, high = clopper_pearson(false_hits, false_games, level)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def clopper_pearson(hits: Counts | int, games: int, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Lower and upper limit of a probability, each missed with a probability of at most half the level."""
    hits = np.asarray(hits, dtype=np.float64)
    few, many = np.maximum(hits, 1.0), np.minimum(hits, games - 1.0)
    low = np.where(hits > 0, betaincinv(few, games - few + 1, level / 2), 0.0)
    high = np.where(hits < games, betaincinv(many + 1, games - many, 1 - level / 2), 1.0)
    return low, high


def best_threshold(likely: Floats, rare: Floats, delta: float = 0.0, level: float = LEVEL) -> tuple[float, float]:
    """The threshold of the scores that shows the largest epsilon between the sides, and this epsilon."""
    thresholds = np.unique(np.concatenate([likely, rare]))
    counts: Sequence[Counts] = [
        side.size - np.searchsorted(np.sort(side), thresholds, side="left") for side in (likely, rare)
    ]
    lower = lower_epsilon(counts[0], likely.size, counts[1], rare.size, delta, level)
    at = int(np.argmax(lower))
    return float(thresholds[at]), float(lower[at])


def discriminant(inside: Floats, outside: Floats) -> Floats:
    """Weights of the parts (parts,) that separate the sides best if both are normal with one covariance."""
    difference = inside.mean(axis=0) - outside.mean(axis=0)
    within = np.atleast_2d(np.cov(inside, rowvar=False)) + np.atleast_2d(np.cov(outside, rowvar=False))
    return np.asarray(np.linalg.pinv(within) @ difference)
