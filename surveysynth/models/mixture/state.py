"""Data structures of a chain of a mixture: records, state, the regression of a component, and draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class KernelRecords(NamedTuple):
    """The records with alpha > 0, sorted by predictor row, and constants of the priors.

    ``x`` (G, R) are predictor rows.  ``row``, ``y``, ``w``, ``alpha``, ``part`` (n,) are of records that are not zero.
    ``row0``, ``w0``, ``alpha0``, ``part0`` (n0,) are of records that are zero.  ``row`` is the predictor row, ``w`` the
    log weight, and ``part`` the probability that a record takes part in the regressions of the components (see
    :mod:`.sampler`).  A zero belongs to no component, so it always takes part, with the weight ``part0``.  ``w`` and
    ``w0`` are empty if the weight is public.
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
    exact: bool  # whether every alpha is 1 and there is no clamp
    zeros: bool  # whether zeros have a separate probability
    common: bool  # whether coefficients have a common prior mean that is estimated, and not 0
    least_sd: float  # least residual standard deviation of y
    least_sd_w: float  # least residual standard deviation of the log weight
    a_gamma: float
    b_gamma: float
    odds_sd: float  # prior standard deviation of coefficients of the log odds of a zero


class State(NamedTuple):
    """The current point of a Markov chain of a mixture, changed in place.

    n records are not zero and n0 are zero.  Each of K components has a regression of y on the predictors, and a
    regression of the log weight on the predictors and y.  The last regression of the log weight is of zeros.
    """

    log_share: Floats  # (K,) log shares of the components
    b: Floats  # (K, R) coefficients of y
    sd: Floats  # (K,) residual standard deviations of y
    c: Floats  # (K + 1, R + 1) coefficients of the log weight
    sd_w: Floats  # (K + 1,) residual standard deviations of the log weight
    scale: Floats  # (R,) prior scales of b
    scale_w: Floats  # (R + 1,) prior scales of c
    centre: Floats  # (R,) prior means of b
    centre_w: Floats  # (R + 1,) prior means of c
    zero: Floats  # (R,) coefficients of the log odds of a zero
    log_zero: Floats  # (G,) log probability of a zero in each predictor row
    log_other: Floats  # (G,) log probability of another value in each predictor row
    other: Floats  # (n,) ``log_other`` of each record
    y_log: Floats  # (K, n) log densities of y
    w_log: Floats  # (K, n) log densities of the log weight
    density: Floats  # (K, n) exp(y_log + w_log)
    w0_log: Floats  # (n0,) log densities of the log weights of zeros
    z: Codes  # (n,) components; -1 for records that do not take part
    takes: Floats  # (n,) 1 for records that take part, and 0 for others
    gamma: Floats  # (1,) concentration


class Regression(NamedTuple):
    """The regression of t on the predictors and u in component k.

    t is y, and u is empty; or t is the log weight, and u is y.
    """

    k: int
    zeros: bool  # whether this is the regression of the log weight of zeros; all zeros belong to it
    exact: bool  # whether the remainder of the target is 1
    coefficients: Floats
    sds: Floats  # residual standard deviations of all components
    scale: Floats  # prior scales of the coefficients
    centre: Floats  # prior means of the coefficients
    row: Codes  # predictor row of each record
    t: Floats
    u: Floats  # y, or empty
    v: Floats  # weight of each record; 0 for records that do not take part
    z: Codes  # component of each record
    now: Floats  # current log density of t of each record
    other: Floats  # log density of each record in the other regression of component k
    least: float  # least residual standard deviation


class Kept(NamedTuple):
    """Arrays to which a chain writes its draws: ``share`` (draws, K), and others with the names of :class:`State`."""

    share: Floats
    b: Floats
    sd: Floats
    gamma: Floats
    c: Floats
    sd_w: Floats
    zero: Floats
