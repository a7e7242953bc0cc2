"""Variance of linearized values under the design: stages, unequal probabilities, calibrated weights.

Record i has the linearized value z_i and the weight w_i.  If the weights are calibrated to known totals, the values
u_i = z_i / w_i are first replaced by their residuals from a regression on the auxiliary variables x_i,

    e_i = u_i - x_i' B,    B = (sum d x x')^-1 sum d x u,

where d are the weights before calibration (Deville & Sarndal 1992, eq. 3.4; R's ``postStratify`` and ``calibrate``).
The auxiliary variables are group indicators and numeric variables with known totals.  If calibrated weights were
trimmed afterwards, w are the weights before trimming and u includes the trimming factor, as in R.  If weights were
calibrated several times, residuals are taken for each calibration in turn.  R's ``rake`` uses another variance: instead
of the regression, the unweighted mean of u by group is subtracted, for one margin after another, in ten rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import diags_array

from ..design.calibration import SINGULAR, known_values
from ..design.calibrations import Calibration
from ..design.checks import CERTAIN
from ..design.columns import occurring
from ..design.survey_design import SurveyDesign
from . import pps, taylor

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Values = Callable[[Floats], Floats]

DENSE = 4_000_000  # number of values in a block of columns
RAKE_ROUNDS = 10  # as in the variances of R's rake()


def variances(
    design: SurveyDesign, z: Floats, domain: Codes, domains: int, shared: tuple[Floats, Floats] | None = None
) -> Floats:
    """Compute the variance of the sum of z over the records of each domain: (domains,).

    Parameters
    ----------
    z : float array (n,)
        Linearized, weighted values.
    domain : int array (n,)
        Domain of each record, 0 to ``domains - 1``; -1 for a record outside all of them.
    shared : (float array (domains,), float array (n,)), optional
        Slopes s_d and linearized values t_i of a quantity that is estimated from all records: the poverty line
        (:func:`.inequality.by_the_line`).  The variance in domain d is then the variance of the sum, over all records,
        of s_d t_i plus z_i if record i is in d.
    """
    if shared is not None:
        slope, further = shared
        whole = np.zeros(design.n, dtype=np.intp)
        values = (np.where(domain == d, z, 0.0) + slope[d] * further for d in range(domains))
        return np.array([variances(design, each, whole, 1)[0] for each in values])
    if design.calibrated:
        return _calibrated(design, z, domain, domains)
    if design.pps == "hajek":
        return pps.hajek(design.stages[0].stratum, _pi(design), z, domain, domains)
    if design.pps == "brewer":
        return pps.brewer(design.stages[0].stratum, _pi(design), z, domain, domains)
    if design.pps == "poisson":
        return pps.poisson(_pi(design), z, domain, domains)
    if design.pps == "sen_yates_grundy":
        return pps.sen_yates_grundy(_blocks(design), _pi(design), z, domain, domains)
    if design.pps == "horvitz_thompson":
        return pps.horvitz_thompson(_blocks(design), _pi(design), z, domain, domains)
    return taylor.multistage(design, z, domain, domains)


def covariance(design: SurveyDesign, Z: Floats, present: NDArray[np.bool_] | None = None) -> Floats:
    """Compute the covariance matrix of the sums of the columns of Z.

    Parameters
    ----------
    Z : float array (n, p)
        Linearized, weighted values, one column for each quantity.
    present : bool array (n,), optional
        True for the records on which the estimates are based.  Z is 0 for the others.  Under ``lonely_psu="average"``
        and "adjust", only strata with such records count, as in R.  With calibrated weights this argument has no
        effect, because the residuals of the other records are not 0.

    Returns
    -------
    float array (p, p)
    """
    if design.calibrated:
        return _covariance(design, _residuals(design)(Z))
    return _covariance(design, Z, present)


def _covariance(design: SurveyDesign, Z: Floats, present: NDArray[np.bool_] | None = None) -> Floats:
    """Compute the covariance matrix of the sums of the columns of Z, as if the weights were not calibrated."""
    if design.pps == "hajek":
        return pps.hajek_matrix(design.stages[0].stratum, _pi(design), Z)
    if design.pps == "brewer":
        return pps.brewer_matrix(design.stages[0].stratum, _pi(design), Z)
    if design.pps == "poisson":
        return pps.poisson_matrix(_pi(design), Z)
    if design.pps == "sen_yates_grundy":
        return pps.sen_yates_grundy_matrix(_blocks(design), _pi(design), Z)
    if design.pps == "horvitz_thompson":
        return pps.horvitz_thompson_matrix(_blocks(design), _pi(design), Z)
    return taylor.multistage_matrix(design, Z, present)


def degrees_of_freedom(design: SurveyDesign, domain: Codes, domains: int) -> Floats:
    """Compute the degrees of freedom of each domain: (domains,).

    The degrees of freedom are the number of PSUs with records of the domain minus the number of strata with such
    records (R's ``degf`` of a subset).  If the design has replicate weights, they are the rank of the replicate weights
    of the domain's records minus 1.
    """
    if design.replication is not None:
        order = np.argsort(domain, kind="stable")
        limits = np.searchsorted(domain[order], np.arange(domains + 1))
        degf = design.replication.degf
        parts = (order[start:end] for start, end in pairwise(limits))
        return np.array([degf(design.weights, part) if part.size else 0 for part in parts], dtype=np.float64)
    inside = domain >= 0
    first = design.stages[0]

    def occupied_groups(groups: Codes) -> Codes:
        """Count, for each domain, the groups (PSUs or strata) with records of the domain: (domains,)."""
        size = int(groups.max()) + 1
        if size == len(groups):  # every group has one record
            return np.bincount(domain[inside], None, domains)
        return np.bincount(occurring(domain[inside] * size + groups[inside], domains * size)[0] // size, None, domains)

    return np.asarray(occupied_groups(first.unit) - occupied_groups(first.stratum), dtype=np.float64)


def _pi(design: SurveyDesign) -> Floats:
    """Return inclusion probabilities before calibration.  They are exactly 1 for certainty units."""
    pi = 1 / design.base_weights
    return np.where(pi < CERTAIN, pi, 1.0)


def _blocks(design: SurveyDesign) -> Iterator[tuple[Codes, Floats]]:
    return ((joint.positions, joint.matrix()) for joint in design.joint)


def _calibrated(design: SurveyDesign, z: Floats, domain: Codes, domains: int) -> Floats:
    """Compute the variance for each domain under calibrated weights, from calibration residuals of all records.

    The residuals are not 0 outside a domain.  A few domains are computed at a time, to limit the memory.
    """
    residuals = _residuals(design)
    inside, columns = np.flatnonzero(domain >= 0), max(1, DENSE // design.n)
    variance = np.empty(domains)
    for first in range(0, domains, columns):
        block = slice(first, min(first + columns, domains))
        here = inside[(domain[inside] >= block.start) & (domain[inside] < block.stop)]
        Z = np.zeros((design.n, block.stop - block.start))
        Z[here, domain[here] - first] = z[here]
        Z = residuals(Z)
        if design.pps is None:
            variance[block] = (taylor.deviations(design, Z) ** 2).sum(axis=0)
        else:
            variance[block] = _covariance(design, Z).diagonal()
    return variance


def _residuals(design: SurveyDesign) -> Values:
    """Return the function that replaces weighted values by their residuals from all calibrations of the weights."""
    steps = [_after_rake(each) if each.raked else _after_regression(each) for each in design.calibrations]
    return lambda Z: reduce(lambda values, step: step(values), steps, Z)


def _after_regression(known: Calibration) -> Values:
    """Return the function that replaces weighted values by weighted residuals from regression on calibration variables.

    w u becomes w (u - x' B), with the auxiliary variables x and the coefficients B of u (module docstring).
    """
    X = known_values(known.after.size, known.margins, known.auxiliary)
    XDX: Any = (X * known.before[:, None]).T @ X
    if len(known.margins) == 1 and not known.auxiliary:
        inverse: Any = diags_array(1 / XDX.diagonal())
    else:  # indicators of several margins are collinear; numeric variables may be much larger than indicators
        size = np.sqrt(XDX.diagonal())
        size[size == 0] = 1.0
        inverse = np.linalg.pinv(XDX.toarray() / np.outer(size, size), SINGULAR, hermitian=True) / np.outer(size, size)
    base = np.divide(known.before, known.after, out=np.zeros_like(known.after), where=known.after > 0)[:, None]
    return lambda Z: Z - known.after[:, None] * (X @ (inverse @ (X.T @ (Z * base))))


def _after_rake(known: Calibration) -> Values:
    """Return the function that replaces weighted values by residuals, as R does for weights from ``rake``."""
    margins = []
    for group, w in zip(known.margins, (*known.raked, known.after), strict=True):
        X = known_values(w.size, [group], [])
        margins.append((X, X.T / np.bincount(group)[:, None], w[:, None]))

    def residuals(Z: Floats) -> Floats:
        for X, mean, w in margins * RAKE_ROUNDS:
            Z = Z - w * (X @ (mean @ np.divide(Z, w, out=np.zeros_like(Z), where=w > 0)))
        return Z

    return residuals
