"""Modes of a clamped posterior: the most probable mode, and whether Markov chains cross between modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...errors import ModelError

NEGLIGIBLE = 9.0  # difference of log probabilities from which a rival mode may be missed
BARRIER = 5.0  # largest fall of the log density between two modes that chains cross
POINTS = 21  # number of points between two modes at which the density is computed


def only_mode(log_probability: Sequence[float], bound: float, separated: Callable[[int, int], bool]) -> int:
    """Position of the most probable mode, if all other modes are negligible or not separated from it.

    If one record is replaced, the log odds of two modes change by 4 M at most.  A mode is negligible if its log
    probability is lower than that of the most probable mode by max(4 M, ``NEGLIGIBLE``).

    Parameters
    ----------
    log_probability : sequence of float
        Log probability of each mode, up to a constant.
    bound : float
        M, the clamp.
    separated : function
        Whether the log density falls by more than ``BARRIER`` between two modes, given the positions of both.

    Raises
    ------
    ModelError
        Another mode is not negligible, and chains do not cross between the two modes.
    """
    best = int(np.argmax(log_probability))
    least = log_probability[best] - max(NEGLIGIBLE, 4 * bound)
    for other, log_p in enumerate(log_probability):
        if log_p > least and separated(best, other):
            raise ModelError(
                "under this clamp the posterior has several modes apart from each other, which Markov chains do not "
                "visit in proportion, so that one record could decide which of them is released: ask for a larger "
                "epsilon or a smaller m, or use another model"
            )
    return best


def falls_between(log_density: Callable[[float], float]) -> bool:
    """Whether a log density falls so far between two modes that chains do not cross.

    ``log_density`` is a function of the share of the way, 0 at one mode and 1 at the other.
    """
    between = [log_density(share) for share in np.linspace(0, 1, POINTS)]
    return min(between) < min(between[0], between[-1]) - BARRIER
