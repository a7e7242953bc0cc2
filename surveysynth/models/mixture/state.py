"""Data structures of a chain of a mixture: records, state, the regression of a component, and draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class KernelRecords(NamedTuple):
    """The records with alpha > 0, those that are not zero sorted by predictor row, and constants of the priors.

    ``x`` (G, R) are predictor rows.  ``row``, ``y``, ``w``, ``alpha``, ``part`` (n,) are of records that are not zero,
    and ``row0``, ``w0``, ``alpha0``, ``part0`` (n0,) of zeros; ``w`` is empty if the weight is public.  ``part`` is
    the probability of taking part; zeros, whose component is known, have the weight ``part0`` instead.
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
    exact: bool  # whether every alpha is 1 without a clamp
    zeros: bool  # whether zeros have a probability of their own
    common: bool  # whether coefficients have a common mean instead of 0
    least_sd: float  # least residual standard deviation of y
    least_sd_w: float  # least residual standard deviation of the log weight
    a_gamma: float
    b_gamma: float
    odds_sd: float  # prior standard deviation of coefficients of the log odds of a zero


class State(NamedTuple):
    """The current point of a chain, changed in place.

    Each of K components has a ``share`` and a regression of y (``b``, ``sd``); each component and the zeros have a
    regression of the log weight on (x, y) (``c``, ``sd_w``).  ``scale``, ``scale_w`` are the prior scales of
    coefficients.  ``y_log``, ``w_log`` (K, n) are log densities, ``density`` (K, n) their product; ``w0_log`` (n0,) of
    zeros.  ``zero`` (R,) are coefficients of the log odds of a zero, ``log_zero`` (G,) and ``log_other`` (G,) the log
    probabilities. ``z`` (n,) are the components, -1 for records that take no part, ``takes`` (n,) is 1 or 0.  ``gamma``
    (1,) is the concentration.
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
    """The regression of t (y or the log weight) on the predictor rows and u (empty, or y) in one component.

    ``v`` are weights of records that take part, in component ``z``; ``now`` are their log densities, and ``other``
    those of the other regression of the component.  All ``zeros`` take part.  ``exact`` says that the remainder is 1.
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
    """Arrays for the draws of a chain, such as ``share`` (draws, K), by the names of :class:`State`."""

    share: Floats
    b: Floats
    sd: Floats
    gamma: Floats
    c: Floats
    sd_w: Floats
    zero: Floats
