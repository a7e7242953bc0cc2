"""Data structures of a chain of a mixture: records, state, the regression of a component, and draws.

Letters in shapes are numbers: n of records that are not zero, n0 of records that are zero, K of components, G of
predictor rows (distinct rows of the model matrix), and R of columns of the model matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class KernelRecords(NamedTuple):
    """The records with alpha > 0, sorted by combination of predictors, and constants of the priors.

    ``x`` (G, R) are the predictor rows.  ``row``, ``y``, ``w``, ``alpha`` and ``part`` (n,) belong to the records that
    are not zero, and ``row0``, ``w0``, ``alpha0`` and ``part0`` (n0,) to the records that are zero.  ``row`` is the
    position of the record's predictor row, ``w`` the log weight, ``alpha`` the privacy weight, and ``part`` the
    probability that a record takes part in the regressions of the components (see
    :mod:`surveysynth.models.mixture.sampler`).  A zero belongs to no component, and takes part in the regression of the
    log weight of zeros with the weight ``part0``.  ``w`` and ``w0`` are empty if the survey weight is public.
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

    Each of K components has a regression of y on the predictors, and a regression of the log weight on the predictors
    and y.  The last of the K + 1 regressions of the log weight is for records that are zero.
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
    """The regression of the outcome or of the log weight in one component of a mixture.

    In component k, t is regressed on the predictors and u.  t is y, and u is empty; or t is the log weight, and u is y.
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
    """Arrays to which a chain writes its draws.

    ``share`` (draws, K) has the shares of the components.  The other arrays have the names of :class:`State`, and draws
    as the first axis.
    """

    share: Floats
    b: Floats
    sd: Floats
    gamma: Floats
    c: Floats
    sd_w: Floats
    zero: Floats
