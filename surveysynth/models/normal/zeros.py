"""Zeros as an outcome of their own: whether a synthetic record's outcome is zero, and its weight then.

    P(y = 0 | x) = 1 / (1 + exp(-x g)),    log w | y = 0 ~ N(x b, s^2),

beside the regression of amounts and their weights: a two-part model (Duan et al. 1983; Cragg 1971).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..draws import Draws
from .records import JointPublic

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


def simulate(public: JointPublic, row: Codes, draw: Draws, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Whose outcome is zero in one synthetic data set: (n,)."""
    return np.asarray(rng.random(public.n) < expit(public.X @ draw["zero"][0])[row])


def log_weight(public: JointPublic, row: Codes, draw: Draws) -> Floats:
    """Log of the expected weight of a record whose outcome is zero: (n,)."""
    mean, sd = (public.X @ draw["B_zero"][0])[row, 0], draw["L_zero"][0][0, 0]
    return np.asarray(mean + sd**2 / 2)
