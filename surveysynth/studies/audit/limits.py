"""The empirical epsilon: how well a test tells games with a planted record from games without this record.

A game adds new noise to the counts of a file.  The test is chosen on one half of the games and judged on the other
half.  Let P(in) be the probability that the test finds the planted record in a game with this record, and P(out) in a
game without.  Under (epsilon, delta)-differential privacy P(in) <= e^epsilon P(out) + delta for every such event, also
with "in" and "out" exchanged.  So

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
    """The result of a test that was chosen on the first half of the games and judged on the second half.

    The test is to tell games "in", with the planted record, from games "out", without this record.  All numbers are
    about the second half.

    Attributes
    ----------
    direction : str
        What the test detects: "in" or "out".
    games : int
        Number of games "in" or of games "out", whichever is smaller.
    hits, false_hits : int
        Numbers of correct and of false detections.  For direction "in", hits are the games "in" in which the test found
        the planted record, and false hits are the games "out" in which the test found the planted record.
    point : float
        Point estimate of epsilon: the log of the share of hits over the share of false hits, with half a game added to
        each number.
    lower : float
        Lower confidence limit of epsilon.  It is -inf if the lower limit of the share of hits is not above delta.
    most : float
        The largest possible ``lower`` with these numbers of games, which a test without any error would reach.
    """

    direction: str
    games: int
    hits: int
    false_hits: int
    point: float
    lower: float
    most: float


def judge(inside: Floats, outside: Floats, delta: float = 0.0, level: float = LEVEL) -> Verdict:
    """Estimate epsilon from games with a planted record and games without this record.

    A test is chosen on the first half of the games, and epsilon is estimated on the second half.

    Parameters
    ----------
    inside, outside : float arrays (games, statistics)
        Statistics that the intruder computes in each game, in games with and without the planted record.
    delta : float
        Delta of the guarantee.
    level : float
        Largest probability with which the lower limit exceeds epsilon.

    Notes
    -----
    The test compares a score with a threshold.  The candidate scores are each statistic and the linear discriminant of
    Fisher (1936), with every threshold.  A high score may speak for or against the planted record: both directions are
    tried.
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
    """Return a lower confidence limit of epsilon from the results of a test for the planted record.

    The test found the planted record in ``hits`` of ``games`` games with this record, and in ``false_hits`` of
    ``false_games`` games without it (or the reverse, for a test that detects the absence of the record).
    """
    low, _ = clopper_pearson(hits, games, level)
    _, high = clopper_pearson(false_hits, false_games, level)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def clopper_pearson(hits: Counts | int, games: int, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Return the Clopper-Pearson confidence limits of a probability, from the number of hits in several games.

    Each limit is wrong with a probability of at most ``level`` / 2.
    """
    hits = np.asarray(hits, dtype=np.float64)
    few, many = np.maximum(hits, 1.0), np.minimum(hits, games - 1.0)
    low = np.where(hits > 0, betaincinv(few, games - few + 1, level / 2), 0.0)
    high = np.where(hits < games, betaincinv(many + 1, games - many, 1 - level / 2), 1.0)
    return low, high


def best_threshold(likely: Floats, rare: Floats, delta: float = 0.0, level: float = LEVEL) -> tuple[float, float]:
    """Return the threshold that gives the largest lower confidence limit of epsilon, and this limit.

    The event is a score at or above the threshold.  ``likely`` and ``rare`` are the scores of the games in which the
    event should happen often, and of the other games.
    """
    thresholds = np.unique(np.concatenate([likely, rare]))
    counts: Sequence[Counts] = [
        side.size - np.searchsorted(np.sort(side), thresholds, side="left") for side in (likely, rare)
    ]
    lower = lower_epsilon(counts[0], likely.size, counts[1], rare.size, delta, level)
    at = int(np.argmax(lower))
    return float(thresholds[at]), float(lower[at])


def discriminant(inside: Floats, outside: Floats) -> Floats:
    """Return the weight of each statistic in Fisher's linear discriminant between games with and without the record."""
    difference = inside.mean(axis=0) - outside.mean(axis=0)
    within = np.atleast_2d(np.cov(inside, rowvar=False)) + np.atleast_2d(np.cov(outside, rowvar=False))
    return np.asarray(np.linalg.pinv(within) @ difference)
