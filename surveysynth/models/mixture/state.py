"""Data structures of a chain of a mixture: records, state, the regression of a component, and draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class KernelRecords(NamedTuple):
    """The records with alpha > 0, sorted by predictor row, and constants of the priors.

    ``x`` (G, R) are predictor rows.  ``row``, ``y``, ``w``, ``alpha``, ``part`` (n,) belong to records that are not
    zero; ``row0``, ``w0``, ``alpha0``, ``part0`` (n0,) belong to zeros.  ``w`` and ``w0`` are empty if the weight is
    public.  ``part`` is the probability that a record takes part.  The component of a zero is known, so a zero has the
    weight ``part0`` instead.
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

    Each of K components has a share (``log_share``) and a regression of y (``b``, ``sd``).  Each component and the
    zeros have a regression of the log weight on (x, y) (``c``, ``sd_w``).  ``scale`` and ``scale_w`` are the prior
    scales of the coefficients, ``centre`` and ``centre_w`` the prior means.  ``y_log`` and ``w_log`` (K, n) are log
    densities, and ``density`` (K, n) is exp(y_log + w_log).  ``w0_log`` (n0,) are the log densities of the weights of
    zeros.  ``zero`` (R,) are the coefficients of the log odds of a zero; ``log_zero`` (G,) and ``log_other`` (G,) are
    the log probabilities of a zero and of another value, and ``other`` (n,) is ``log_other`` of each record.  ``z``
    (n,) are the components, -1 for records that do not take part; ``takes`` (n,) is 1 for records that take part,
    otherwise 0.  ``gamma`` (1,) is the concentration.
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

    ``v`` are the weights of the records, 0 for records that do not take part, and ``z`` their components.  ``now`` are
    the log densities of t, and ``other`` the log densities under the component's other regression.  With ``zeros``,
    the records are the zeros, which all belong to the regression.  ``exact`` says that the remainder is 1.
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
