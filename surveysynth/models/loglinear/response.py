"""Fit of a log-linear model to the noisy tables of a response, with or without effects of public features.

A response is a confidential variable.  Its G cells are bins of numbers, and special values such as "missing".  The R
rows of the model are sets of records with the same distribution of the response; A is a number of features
(:mod:`.table_model`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .bases import Response, Variances, one_hot, start_coefficients
from .table_fit import Known, TableFit, fit_tables
from .table_model import Codes, Floats, Table, TableModel

LEAST_NOISE = 0.05  # least noise variance of a count; with no noise the covariance of tables would be singular
TAIL = 0.95  # share of records below the upper tail
DRIFT = 0.1  # guessed variance of a change between years, divided by the guessed variance of an effect
PARETO_VARIANCE = 1.0  # prior variance of the index of an upper tail


@dataclass(frozen=True, eq=False, repr=False)
class Observed:
    """A noisy table (L, J) of a response by the L levels of a factor: counts in J groups of cells, or sums of scores.

    Attributes
    ----------
    level : int array (R,)
        Level of each row of the model.
    adds : float array (G, J)
        Contribution of a record to each column of the table, by the response cell of the record.
    counts : array (L, J)
        The noisy counts or sums.
    variance : float
        Variance of the noise of each count or sum.
    times : float array (R,), optional
        For each row of the model, the factor by which the contributions of its records to the table are multiplied.
    there : float array (R,), optional
        1 for each row of the model whose records are in the table, 0 for each row of another year.
    """

    level: Codes
    adds: Floats
    counts: Floats
    variance: float
    times: Floats | None = None
    there: Floats | None = None

    @property
    def table(self) -> Table:
        """The definition of the noisy table, without its entries."""
        times = self.there if self.times is None else self.times * (1.0 if self.there is None else self.there)
        return Table(self.level, self.adds, len(self.counts), times=times)


@dataclass(frozen=True, eq=False, repr=False)
class Total:
    """Known population totals of a response, such as total income, in each of the L levels of a factor."""

    level: Codes  # (R,) level of each row of the model
    values: Floats  # (G,) value of the response in each cell
    totals: Floats  # (L,)
    se: Floats  # (L,) standard errors of the totals
    there: Floats | None = None  # (R,) 1 for rows whose records belong to the totals, 0 for rows of another year

    @property
    def table(self) -> Table:
        """The definition of the totals as a table of the model, without the known values."""
        return Table(self.level, self.values[:, None], len(self.totals), sampled=False, times=self.there)


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """The rows of a log-linear model.  Records in the same row have the same distribution of the response.

    ``unit`` (R,) is the public cell of each row, which is a combination of public levels.  ``share`` (R,) is the share
    of this cell's records that are in the row, and ``n`` (X,) is the number of records of each public cell.
    """

    unit: Codes
    share: Floats
    n: Floats
    times: Floats | None = None  # factor of the contributions of the records of each public cell
    offset: Floats | None = None  # offsets (R, G) of log probabilities

    @classmethod
    def one(cls, n: float) -> Rows:
        """Return the rows of a model in which all n records have the same distribution: a single row."""
        return cls(np.zeros(1, dtype=np.intp), np.ones(1), np.array([float(n)]))


@dataclass(frozen=True, eq=False, repr=False)
class Tail:
    """Prior knowledge of the upper tail of a numeric response: how fast its log density falls.

    The log density falls by about ``index`` over a certain distance.  If bins have the width ``step`` on a log scale,
    this distance is 1 on the log scale, and the tail is Pareto with this index.  If ``step`` is None, bins are equally
    wide, and the log density falls by ``index`` between the median and the upper 5% point.
    """

    step: float | None
    index: float


def fit_response(
    rows: Rows, features: Sequence[Floats], observed: Sequence[Observed], totals: Sequence[Total],
    p: Floats, numbers: int, tail: Tail | None, drift: Floats | None = None,
) -> TableFit:  # fmt: skip
    """Fit the log-linear model of a response to noisy tables and known totals.

    Parameters
    ----------
    rows : Rows
        The rows of the model.
    features : sequence of float arrays (R, A)
        Public features of the R rows, one array for each effect.
    observed : sequence of Observed
        Noisy tables.
    totals : sequence of Total
        Known totals.
    p : float array (G,)
        Approximate probabilities of the response cells.
    numbers : int
        Number of response cells that are bins of a numeric variable.  The other cells are special values.
    tail : Tail or None
        Prior knowledge of the upper tail of the response.
    drift : float array (R,), optional
        1 for rows of this year, 0 for rows of an earlier year.  The effects of this year are the effects of the
        earlier year plus small changes.
    """
    variances, response = Variances(), Response(p, numbers)
    effects = [response.baseline(len(rows.unit), variances)]
    effects += [response.effect(z, variances) for z in features]
    if drift is not None:
        drift_features = [drift[:, None], *(z * drift[:, None] for z in features)]
        effects += [response.effect(z, variances, guess=DRIFT) for z in drift_features]
    effects += [
        response.product(one_hot(o.level, len(o.counts)) * o.times[:, None], o.adds[:, 0], variances)
        for o in observed if o.times is not None
    ]  # fmt: skip
    tables = [*(o.table for o in observed), *(t.table for t in totals)]
    model = TableModel(rows.unit, rows.share, rows.n, tables, effects, rows.offset, rows.times)
    y = np.concatenate([*(o.counts.ravel() for o in observed), *(t.totals for t in totals)])
    noise = [np.full(o.counts.size, max(o.variance, LEAST_NOISE)) for o in observed]
    noise += [t.se**2 for t in totals]
    start = start_coefficients(effects, p)
    known = _known(response, effects[0].basis, len(start), tail)
    return fit_tables(model, y.astype(np.float64), np.concatenate(noise), variances.components, known, start)


def smooth_histogram(
    counts: Floats, variance: float, groups: Codes, numbers: int, n: float, tail: Tail | None
) -> Floats:  # fmt: skip
    """Smooth a noisy histogram of n records by a spline, and return the probabilities (G,) of the cells.

    ``groups`` (G,) is the group of each cell.  ``counts`` are the noisy counts of the groups, whose noise has the
    variance ``variance``.  The first ``numbers`` cells are bins of a numeric variable, and the other cells are special
    values.  ``tail`` is prior knowledge of the upper tail.
    """
    G = len(groups)
    p = np.exp(-0.5 * ((np.arange(G) + 0.5 - numbers / 2) / max(numbers / 8, 1)) ** 2) + 1e-3
    p[numbers:] = p[:numbers].mean() if numbers else 1.0
    p /= p.sum()
    alone = Observed(np.zeros(1, dtype=np.intp), one_hot(groups, len(counts)), counts[None], variance)
    for _ in range(2):  # the axis of the spline is in standard deviations of the previous fit
        fit = fit_response(Rows.one(n), [], [alone], [], p, numbers, tail)
        p = fit.model.probabilities(fit.theta)[0]
    return p


def _known(response: Response, basis: Floats, d: int, tail: Tail | None) -> Known:
    if tail is None:
        return Known(np.zeros((0, d)), np.zeros(0), np.zeros(0))
    last = response.numbers - 2
    below = np.cumsum(response.bins)
    first = min(int(np.searchsorted(below, TAIL)), last - 4)
    step = 1 / max(first - int(np.searchsorted(below, 0.5)), 1) if tail.step is None else tail.step
    row = np.zeros((1, d))
    row[0, : basis.shape[1]] = (basis[last] - basis[first]) / ((last - first) * step)
    return Known(row, np.array([-tail.index]), np.array([PARETO_VARIANCE]))
