"""How far one record may move a table, to which Laplace noise is scaled: Hu, Savitsky & Williams (2022a), and strictly.

``local`` is the form of the paper.  With S the records of a domain, its sensitivities are

    count: max_S w - min_S w                                                        (eq. 8)
    mean:  (max_S w y - min_S w y) / (sum_S w - (max_S w - min_S w))                (eq. 9)

and the largest of a level is taken for all its domains.  They are computed from the confidential
file, and eq. 9 is no bound for replacing a record: of two records (w, y) = (1, 10), (10, 1) it
is 0, while a copy of the first in place of the second moves the mean from 20/11 to 10.  So this
form has no guarantee.

``strict`` holds for two files that differ in the weight and the outcome of one record.  Both are
clipped to public bounds.  Over that box a count moves by at most max w - min w, and a total by at
most max w y - min w y, extremes that lie in its corners; a replicate by that times the largest
size of a replicate factor.
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
    """A statistic in the D domains of one level, without noise, and how far one record may move it."""

    point: Floats  # (D,)
    replicated: Floats  # (R, D); NaN where a replicate has no record of the domain
    sensitivity: float
    replicate_sensitivity: float


def local(w: Floats, y: Floats | None, partition: Partition, boot: Replicates) -> Exact:
    """Count, or mean of y, in the domains of a level, with the sensitivities of eq. 8 and 9.

    The replicates get the sensitivity of the point, as in the paper, although their weights are up to
    doubled.
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
    """Count, or total of y, in the domains of a level, clipped, with sensitivities from the bounds alone.

    w y is bilinear, so its extremes over the box of the bounds lie in the corners.  A record is in
    one domain of the level.  A computed sum of m products, none larger than X, is off by rounding:
    by m X gamma at most, gamma = (m + 8) u / (1 - (m + 8) u) with u = 2^-53 (Higham 2002, lemma
    3.1; 8 is more than the products need).  Two files differ by twice that more.
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
    """The highest less the lowest value in every domain (domains,)."""
    low, high = np.full(domains, np.inf), np.full(domains, -np.inf)
    np.minimum.at(low, domain, values)
    np.maximum.at(high, domain, values)
    return high - low
