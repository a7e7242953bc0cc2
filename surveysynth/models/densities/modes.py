"""The most probable mode of a posterior under the censored mechanism, and whether Markov chains cross between modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...errors import ModelError

NEGLIGIBLE = 9.0  # a mode whose log probability is lower by this difference may be missed
BARRIER = 5.0  # chains cross between two modes if the log density falls by no more than this difference
POINTS = 21  # number of points between two modes at which the density is computed


def only_mode(log_probability: Sequence[float], bound: float, separated: Callable[[int, int], bool]) -> int:
    """Return the position of the most probable mode.  Raise ModelError if Markov chains from it miss another mode.

    Every other mode must be negligible, or Markov chains must be able to cross between it and the most probable mode.
    The clamp limits the weighted log density alpha_i log p_i of every record to [-M, M].  Therefore the log odds of two
    modes change by at most 4 M if one record is replaced.  A mode is negligible if its log probability is below the
    largest log probability by more than 4 M and by more than ``NEGLIGIBLE``.

    Parameters
    ----------
    log_probability : sequence of float
        Log probability of each mode, up to a constant.
    bound : float
        M, the clamp.
    separated : function
        Takes the positions of two modes, and returns True if Markov chains cannot cross between the modes.

    Raises
    ------
    ModelError
        Another mode is not negligible, and chains do not cross between the two modes.  They would not visit the modes
        in proportion, so one record could decide which mode is sampled.
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
    """True if the log density between two modes falls more than ``BARRIER`` below both modes.

    Then Markov chains do not cross between the modes.  The argument of ``log_density`` is the position on the straight
    line from one mode (0) to the other (1).
    """
    between = [log_density(share) for share in np.linspace(0, 1, POINTS)]
    return min(between) < min(between[0], between[-1]) - BARRIER
