"""Fit of a response to its noisy tables: a histogram alone, or with effects of public features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .bases import Response, Variances, one_hot, start_coefficients
from .table_fit import Known, TableFit, fit_tables
from .table_model import Codes, Floats, Table, TableModel

LEAST_NOISE = 0.05  # least variance of a count; without noise the covariance of tables would be singular
TAIL = 0.95  # share of records below the upper tail
DRIFT = 0.1  # guessed variance of a drift over the guessed variance of an effect
PARETO_VARIANCE = 1.0  # prior variance of the index of a tail


@dataclass(frozen=True, eq=False, repr=False)
class Observed:
    """Noisy counts of groups of cells, or noisy sums of scores, by the levels of a factor.

    Attributes
    ----------
    level : int array (R,)
        Level of each row.
    adds : float array (G, J)
        Contribution of a record in each cell to each column.
    counts : array (L, J)
        The noisy numbers.
    variance : float
        Variance of the noise of each number.
    times : float array (R,), optional
        Weight of a record of each row.
    there : float array (R,), optional
        1 for rows whose records were counted, 0 for rows of another year.
    """

    level: Codes
    adds: Floats
    counts: Floats
    variance: float
    times: Floats | None = None
    there: Floats | None = None

    @property
    def table(self) -> Table:
        """The observed table."""
        times = self.there if self.times is None else self.times * (1.0 if self.there is None else self.there)
        return Table(self.level, self.adds, len(self.counts), times=times)


@dataclass(frozen=True, eq=False, repr=False)
class Total:
    """Known sums of the cells' values by the levels of a factor, with standard errors."""

    level: Codes
    values: Floats
    totals: Floats
    se: Floats
    there: Floats | None = None

    @property
    def table(self) -> Table:
        """The table of sums."""
        return Table(self.level, self.values[:, None], len(self.totals), sampled=False, times=self.there)


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows of a model.

    ``unit`` is the public cell of each row, ``share`` the row's share of the cell, and ``n`` the number of records of
    each cell.
    """

    unit: Codes
    share: Floats
    n: Floats
    times: Floats | None = None  # weight of a record of each cell
    offset: Floats | None = None  # of log probabilities, by row and bin

    @classmethod
    def one(cls, n: float) -> Rows:
        """A single row for n records."""
        return cls(np.zeros(1, dtype=np.intp), np.ones(1), np.array([float(n)]))


@dataclass(frozen=True, eq=False, repr=False)
class Tail:
    """The upper tail of a number, where the log density falls by about ``index`` over a given distance.

    With ``step``, the width of bins on a log scale, the tail is Pareto and the distance is 1 on the log scale.  Without
    ``step``, bins are evenly spaced, and the distance is measured from the median to the beginning of the tail.
    """

    step: float | None
    index: float


def fit_response(
    rows: Rows, features: Sequence[Floats], observed: Sequence[Observed], totals: Sequence[Total],
    p: Floats, numbers: int, tail: Tail | None, drift: Floats | None = None,
) -> TableFit:  # fmt: skip
    """Fit the log-linear model of a response to its noisy tables and known totals.

    Parameters
    ----------
    rows : Rows
    features : sequence of float arrays (R, A)
        Features of each effect.
    observed, totals : sequences
        Noisy counts, and known sums.
    p : float array (G,)
        Approximate probabilities of the cells.
    numbers : int
        Number of cells that are bins of a number; the others are special values.
    tail : Tail, optional
    drift : float array (R,), optional
        1 for rows of this year, 0 for rows of an earlier year.  The effects of this year are the effects of the
        earlier year plus a small drift.
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
    """Probabilities (G,) of the cells of one noisy histogram, by a spline of the log density."""
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
