"""The share of each innovation's variance that lies between PSUs: a private estimate, and new effects.

Under the strict mechanism records are fitted as if they were independent given the predictors, which is right for all
parameters but this one.  With innovations e of records i, j of PSU c, held within plus and minus ``CLIP``,

    T = sum_c sum_{i != j} e_i e_j / (n_c - 1),    E T / n = rho P(|e| < CLIP)^2 + shift,

to first order in rho (Price 1958); n counts the records that share their PSU with others.  Blanking a record moves T by
2 CLIP^2 at the most.  The shift is that of coefficients which were drawn from a posterior of known width.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from ...noise import laplace
from ..draws import Draws
from ..shared.clipped_fit import Density, whitening
from ..shared.groups import Groups
from .records import JointPublic, JointRecords

Floats = NDArray[np.float64]

CLIP = 1.0  # at 2 the noise is twice as large, below it is not much smaller
MOST = 0.9


def private_shares(
    records: JointRecords, groups: Groups, reference: Density, *, curved: bool, epsilon: float, each: int, known: float,
    rng: np.random.Generator | None,
) -> Floats:  # fmt: skip
    """Shares of the variance of each innovation under the reference, (d,): differentially private at epsilon.

    Parameters
    ----------
    known : float
        How many records' worth of information the reference's coefficients were drawn from; inf: fixed before.
    each : int
        Largest number of records of a unit.
    rng : numpy.random.Generator, optional
        For tests only; else noise is OpenDP's.
    """
    e = np.clip(innovations(records, reference, curved=curved), -CLIP, CLIP)
    size = np.bincount(groups.record, minlength=groups.size).astype(np.float64)
    W = records.X @ whitening(records.X, np.bincount(records.row, minlength=len(records.X)).astype(np.float64))
    n, d = max(float(size[size > 1].sum()), 1.0), e.shape[1]
    products = np.array([_products(x, groups, size) for x in e.T]) / n
    sensitivity = 2 * CLIP**2 * each * d / n
    products, _ = laplace(products, sensitivity, epsilon, rng)
    shift = sum(_products(w, groups, size) for w in W[records.row].T) / n / known
    return np.clip(products / erf(CLIP / np.sqrt(2)) ** 2 - shift, 0.0, MOST)


def _products(x: Floats, groups: Groups, size: Floats) -> float:
    """The sum over PSUs of products of pairs, over the number of others."""
    sums, squares = (np.bincount(groups.record, values, groups.size) for values in (x, x**2))
    return float(((sums**2 - squares) / np.maximum(size - 1, 1)).sum())


def innovations(records: JointRecords, density: Density, *, curved: bool) -> Floats:
    """Innovations of the records, (n, d)."""
    e = np.linalg.solve(density.L, (records.Y - (records.X @ density.B)[records.pattern]).T).T
    if curved:
        bent = (e[:, :-1] ** 2 - 1) @ density.kappa
        bent += ((records.X @ density.slope)[records.pattern] * e[:, :-1]).sum(axis=1)
        e[:, -1] = (e[:, -1] - bent) / np.exp(e[:, :-1] @ density.eta)
    return np.asarray(e)


def new_innovations(
    public: JointPublic, draw: Draws, d: int, rng: np.random.Generator
) -> tuple[Floats, Floats | float, float]:
    """Innovations of d outcomes (n, d) in one synthetic data set, those of a PSU alike.

    Also the part of the weight's that lies between PSUs, (n,), and the share that lies within.
    """
    z = rng.standard_normal((public.n, d))
    if "psu" not in draw.values or public.groups is None:
        return z, 0.0, 1.0
    share = draw["psu"][0]
    u = (rng.standard_normal((public.groups.size, share.size)) * np.sqrt(share))[public.groups.record]
    z = np.sqrt(1 - share[:d]) * z + u[:, :d]
    return (z, u[:, d], float(1 - share[d])) if share.size > d else (z, 0.0, 1.0)


def within_psus(public: JointPublic, draw: Draws) -> Draws:
    """The covariance of a draw as that within PSUs, and that of their effects."""
    if "psu" not in draw.values or public.groups is None:
        return draw
    L, share = draw["L"], draw["psu"][:, None]
    return replace(draw, values=draw.values | {"L": L * np.sqrt(1 - share), "T": L * np.sqrt(share)})
