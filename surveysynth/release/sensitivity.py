"""Sensitivities of tables, to which Laplace noise is scaled: local (Hu, Savitsky & Williams 2022a) and strict.

A table by several variables has several levels: its cells, each margin, and the total.  Each level divides the records
into domains.  w is the survey weight of a record, y its outcome.

``local`` is the form of the paper.  With S the records of a domain, the sensitivities are

    count: max_S w - min_S w                                                        (eq. 8)
    mean:  (max_S w y - min_S w y) / (sum_S w - (max_S w - min_S w))                (eq. 9)

The largest value over the domains of a level is used for the whole level.  The local form has no guarantee: the
sensitivities are computed from the confidential file, and eq. 9 is not a bound for replacing a record.  For the two
records (w, y) = (1, 10) and (10, 1) eq. 9 is 0, although replacing the second record by a copy of the first changes the
mean from 20/11 to 10.

``strict`` is for two files that differ in the weight and the outcome of one record.  Weight and outcome are clipped to
public bounds, which form a box.  Within the box a count changes by at most max w - min w, and a total changes by at
most max w y - min w y.  These extremes are at the corners of the box.  A replicate estimate changes by at most this
number times the largest absolute replicate factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..design.replicates.base import Replicates
from ..design.replicates.levels import LevelReplicates
from ..estimation import taylor
from ..estimation.tables import Partition

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Exact:
    """Exact point and replicate estimates in all domains, and the sensitivities of both to one record.

    There are D domains and R replicates.
    """

    point: Floats  # (D,)
    replicated: Floats  # (R, D); NaN if the replicate has no record of the domain
    sensitivity: float
    replicate_sensitivity: float


def local(w: Floats, y: Floats | None, partition: Partition, boot: Replicates) -> Exact:
    """Compute the count or the mean of y in each domain of a partition, and the sensitivity of this statistic.

    The count is computed if ``y`` is None.  ``boot`` has the replicate weights.  Source of the sensitivity: Hu,
    Savitsky & Williams 2022a, eq. 8 for counts and eq. 9 for means.  As in the paper, replicate estimates get the
    sensitivity of the point estimate, although replicate weights can be twice as large as survey weights.
    """
    domain, domains = partition.domain, len(partition.labels)
    count, count_r = taylor.sums(domain, w, domains), boot.totals(w, domain, domains)
    spread = _range(w, domain, domains)
    if y is None:
        return Exact(count, count_r, float(spread.max()), float(spread.max()))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        wy = w * y
        mean = taylor.sums(domain, wy, domains) / count
        mean_r = np.where(count_r > 0, boot.totals(wy, domain, domains) / count_r, np.nan)
        sensitivity = float((_range(wy, domain, domains) / (count - spread)).max())
    return Exact(mean, mean_r, sensitivity, sensitivity)


def strict(
    w: Floats,
    y: Floats | None,
    partition: Partition,
    boot: LevelReplicates,
    weight: Bounds,
    bounds: Bounds = (1.0, 1.0),
) -> Exact:
    """Compute the count or the total of y in each domain, and the sensitivity, which follows from public bounds.

    The survey weight w and the outcome y are clipped to the bounds ``weight`` and ``bounds``.  The count is computed if
    ``y`` is None.  w y is bilinear, so its largest and smallest values are at the corners of the box that the bounds
    form.  A record is in one domain only, so the difference of these values is the sensitivity of all domains together.
    The sensitivity also allows for rounding.  A computed sum of m products, none larger than X, has a rounding error of
    at most m X gamma, with gamma = (m + 8) u / (1 - (m + 8) u), where u = 2^-53 (Higham 2002, lemma 3.1; 8 is more than
    the products need).  Rounding adds at most twice this error to the difference between two files.
    """
    domain, domains = partition.domain, len(partition.labels)
    z = np.clip(w, *weight) * (1.0 if y is None else np.clip(y, *bounds))
    m = int(np.bincount(domain).max())
    with np.errstate(over="ignore", invalid="ignore"):
        corners = np.outer(weight, bounds)
        gamma = (m + 8) * 2**-53 / (1 - (m + 8) * 2**-53)
        sensitivity = float(np.ptp(corners) + 2 * m * np.abs(corners).max() * gamma)
    total, total_r = taylor.sums(domain, z, domains), boot.totals(z, domain, domains)
    return Exact(total, total_r, sensitivity, sensitivity * float(np.abs(boot.value).max()))


def _range(values: Floats, domain: Codes, domains: int) -> Floats:
    """Return the range of values, the highest minus the lowest, in every domain."""
    low, high = np.full(domains, np.inf), np.full(domains, -np.inf)
    np.minimum.at(low, domain, values)
    np.maximum.at(high, domain, values)
    return high - low
