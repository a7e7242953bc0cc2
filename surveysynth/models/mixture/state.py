"""A chain of a mixture: the records that it is given, its state, a regression of a component, and its draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class KernelRecords(NamedTuple):
    """The records that say something, those that are not zero sorted by predictor row, and the priors.

    ``x`` (G, R) are predictor rows.  ``row``, ``y``, ``w``, ``alpha``, ``part`` (n,) are of records that are not zero,
    and ``row0``, ``w0``, ``alpha0``, ``part0`` (n0,) of zeros; ``w`` is empty where the weight is public.  ``part`` is
    the probability of taking part; zeros, whose component is known, take part in proportion to ``part0`` instead.
    """

    x: Floats
    row: Codes
    y: Floats
    w: Floats
    alpha: Floats
    part: Floats
    row0: Codes
    w0: Floats
    alpha0: Floats
    part0: Floats
    clamp: float
    exact: bool  # every alpha is 1, and there is no clamp
    zeros: bool  # have a probability of their own
    common: bool  # coefficients have a common mean that is not 0
    least_sd: float  # of y
    least_sd_w: float  # of the log weight
    a_gamma: float
    b_gamma: float
    odds_sd: float  # prior of coefficients of the log odds of a zero


class State(NamedTuple):
    """One point of a chain, changed in place.

    Of each of K components ``share`` and the regression of y (``b``, ``sd``); of each, and of the zeros, that of the
    log weight on (x, y) (``c``, ``sd_w``).  ``scale``, ``scale_w`` are the prior scales of coefficients.  ``y_log``,
    ``w_log`` (K, n) are log densities, ``density`` (K, n) their product; ``w0_log`` (n0,) of zeros.  ``zero``
    (R,) are coefficients of the log odds of a zero, ``log_zero`` (G,) and ``log_other`` (G,) the log probabilities.
    ``z`` (n,) are the components, -1 of who takes no part, ``takes`` (n,) is 1 or 0.  ``gamma`` (1,) is the
    concentration.
    """

    log_share: Floats
    b: Floats
    sd: Floats
    c: Floats
    sd_w: Floats
    scale: Floats
    scale_w: Floats
    centre: Floats
    centre_w: Floats
    zero: Floats
    log_zero: Floats
    log_other: Floats
    other: Floats
    y_log: Floats
    w_log: Floats
    density: Floats
    w0_log: Floats
    z: Codes
    takes: Floats
    gamma: Floats


class Regression(NamedTuple):
    """One component's regression of t (y, or the log weight) on the predictor rows and u (nothing, or y).

    ``v`` are weights of records that take part, in component ``z``; ``now`` their log densities, and ``other`` those of
    the same component's other regression.  Of the ``zeros`` all take part.  ``exact``: nothing is left of the target.
    """

    k: int
    zeros: bool
    exact: bool
    coefficients: Floats
    sds: Floats
    scale: Floats
    centre: Floats
    row: Codes
    t: Floats
    u: Floats
    v: Floats
    z: Codes
    now: Floats
    other: Floats
    least: float


class Kept(NamedTuple):
    """Where the draws of a chain are written: ``share`` (draws, K) and so on, by the names of :class:`State`."""

    share: Floats
    b: Floats
    sd: Floats
    gamma: Floats
    c: Floats
    sd_w: Floats
    zero: Floats
