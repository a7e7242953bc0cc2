"""Components of a mixture: draws of the component of each record, and matching of labels across posterior draws.

Letters in shapes are numbers: n of records, K of components, and G of predictor rows (distinct rows of the model
matrix).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import log_ndtr, ndtri_exp

from ..densities.row_density import blocks
from ..draws import Draws
from ..one_outcome import Standardized
from ..records import EACH
from .density import log_densities

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, repr=False, kw_only=True)
class MixtureRecords(Standardized):
    """The confidential records of a mixture.

    Attributes
    ----------
    zero : bool array (n,)
        True if the outcome is exactly 0 and zeros have a separate probability.  For these records, y is 0 and not used.
    """

    zero: NDArray[np.bool_] = field(metadata=EACH)


@dataclass(frozen=True)
class Between:
    """Normal distributions N(mean, sd^2) truncated to [low, high], for each combination of predictors and component.

    ``mean`` has the shape (G, K), and ``sd`` (K,).
    """

    mean: Floats
    sd: Floats
    low: float
    high: float

    @cached_property
    def _ends(self) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """Flags of distributions mirrored at the mean, and log probabilities of values below the lower and upper limit.

        Each of the three arrays is (G, K).  A distribution is mirrored at its mean if its lower limit is above its
        mean, so that small probabilities lose no digits.
        """
        a, b = (self.low - self.mean) / self.sd, (self.high - self.mean) / self.sd
        mirrored = a > 0
        return mirrored, log_ndtr(np.where(mirrored, -b, a)), log_ndtr(np.where(mirrored, -a, b))

    @cached_property
    def log_mass(self) -> Floats:
        """Log probability (G, K) of the interval [low, high] under each normal distribution before truncation."""
        _, below, above = self._ends
        with np.errstate(divide="ignore"):
            return np.asarray(above + np.log1p(-np.exp(below - above)))

    def draw(self, row: Codes, k: Codes, rng: np.random.Generator) -> Floats:
        """Draw a value for each record, given the component ``k`` and the combination of predictors ``row``.

        The values, ``k`` and ``row`` are (n,).
        """
        mirrored, below, _ = (x[row, k] for x in self._ends)
        with np.errstate(divide="ignore"):
            logs = np.logaddexp(below, np.log(rng.random(row.size)) + self.log_mass[row, k])
        z = ndtri_exp(np.minimum(logs, 0))
        y = self.mean[row, k] + self.sd[k] * np.where(mirrored, -z, z)
        return np.asarray(np.clip(y, self.low, self.high))


def drawn(p: Floats, row: Codes, rng: np.random.Generator) -> Codes:
    """Draw a component for each record.  The probability of component k for record i is proportional to p[row[i], k].

    ``row`` and the result are (n,), and ``p`` is (G, K).
    """
    cumulated = p.cumsum(axis=1)
    return np.asarray((rng.random((row.size, 1)) * cumulated[row, -1:] > cumulated[row, :-1]).sum(axis=1))


def responsibilities(values: dict[str, Floats], mean: Floats, y: Floats, extra: Floats | float = 0.0) -> Floats:
    """Return the probability that each record belongs to each component, given the outcomes ``y`` of the records.

    The result is (n, K).  ``values`` is one draw of the parameters, and ``mean`` (n, K) are the means of y in each
    component.  ``extra`` is added to the log densities of y; it can be the log density (n, K) of the survey weight in
    each component.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(values["share"]) - np.log(values["sd"]) - 0.5 * ((y[:, None] - mean) / values["sd"]) ** 2 + extra
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def components_given(records: MixtureRecords, values: dict[str, Floats], rng: np.random.Generator) -> Codes:
    """Draw a component (n,) for each record, given its confidential outcome and its weight, if that is modelled.

    ``values`` is one draw of the parameters.  Source: Hu, Savitsky & Williams 2022b, eq. 7.
    """
    extra: Floats | float = 0.0
    if records.log_w is not None:
        c, sd = values["c"][:-1], values["sd_w"][:-1]
        r = records.log_w[:, None] - (records.X @ c[:, :-1].T)[records.row] - c[:, -1] * records.y[:, None]
        extra = -np.log(sd) - 0.5 * (r / sd) ** 2
    p = responsibilities(values, (records.X @ values["b"].T)[records.row], records.y, extra)
    return drawn(p, np.arange(len(p)), rng)


def matched(records: MixtureRecords, draws: Draws) -> pd.DataFrame:
    """Return a table of the components, with labels matched across at most 1,000 draws.

    :meth:`Mixture.components_of` describes the table.
    """
    values, nonzero = draws.values, np.flatnonzero(~records.zero)
    S, K = values["share"].shape

    def memberships(s: int) -> Floats:
        draw = {name: values[name][s] for name in ("share", "sd")}
        return responsibilities(draw, (records.X @ values["b"][s].T)[records.row[nonzero]], records.y[nonzero])

    selected = np.unique(np.linspace(0, S - 1, min(S, 1000)).astype(int))
    log_likelihood = np.zeros(selected.size)
    for block in blocks(np.arange(nonzero.size), 1, selected.size):
        here = nonzero[block]
        log_likelihood += log_densities(
            records.X, records.row[here], records.y[here], np.empty(0), np.log(values["share"][selected] + 1e-300),
            values["b"][selected], values["sd"][selected], np.empty((0, 0, 0)), np.empty((0, 0)),
        ).sum(axis=0)  # fmt: skip
    pivot = memberships(int(selected[log_likelihood.argmax()]))
    own = np.empty((selected.size, K), dtype=np.intp)
    for at, s in enumerate(selected.tolist()):
        own[at] = linear_sum_assignment(-(pivot.T @ memberships(s)))[1]
    share, location, sd = (
        np.take_along_axis(v[selected], own, axis=1) for v in (values["share"], values["b"][:, :, 0], values["sd"])
    )
    low, high = np.quantile(share, (0.025, 0.975), axis=0)
    table = pd.DataFrame(
        {"share": share.mean(0), "share_low": low, "share_high": high, "location": location.mean(0), "sd": sd.mean(0)}
    )
    table = table[table["share"] > 0.001].sort_values("share", ascending=False, ignore_index=True)
    return table.rename_axis("component")
