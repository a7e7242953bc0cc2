"""Replicate weights in the columns of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numba as nb
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError
from ...validation import positive, rows
from ..columns import check_columns, numeric
from .base import BLOCK, Records, Replicates, _gram, _rank

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

CLOSER = 2  # ratio of two misfits that cannot be due to the noise of few replicates
FAR = 3  # largest ratio of the sum of replicate weights to its expectation: no sampling error of a total is larger


@dataclass(frozen=True, eq=False)
class GivenReplicates(Replicates):
    """Replicate weights in columns of the file.

    Attributes
    ----------
    names : tuple of str (R,)
        Names of the columns, one per replicate.
    columns : tuple of pandas.Series (R,)
        The columns.  They share the memory of the frame, and pandas protects them from later changes of the frame.
    weights : float array (n,)
        Weights of the design.
    combined : bool
        True if the columns have full weights.  False if they have factors, by which the weights are multiplied.
    """

    names: tuple[str, ...]
    columns: tuple[pd.Series, ...] = field(repr=False)
    weights: Floats = field(repr=False)
    combined: bool = True

    def factors(self, start: int, stop: int) -> Floats:  # noqa: D102
        return self._block(slice(start, stop), slice(None)).T / self._divisors[:, None]

    def multiplicand(self, weights: Floats) -> Floats:
        """Return the weights (n,) that are multiplied by the factors of a replicate to give replicate weights.

        They are ``weights``, the weights of the design, but 1 for a record of weight 0 that has another weight in some
        replicate.  The factors of this record are its replicate weights.
        """
        return np.where(self._alone, 1.0, weights) if self._alone.any() else weights

    @property
    def usual(self) -> dict[str, Any]:
        """The default values of the arguments ``scale``, ``rscales`` and ``mse`` of :func:`given`."""
        return {"scale": 1 / self.R, "rscales": [1.0] * self.R, "mse": True}

    @cached_property
    def _divisors(self) -> Floats:
        """Divisors (n,) that turn the columns of replicate weights into factors.

        They are the weights (1 for a weight of 0) if the columns have full weights, and 1 if they have factors.
        """
        divisors = np.where(self.weights > 0, self.weights, 1.0) if self.combined else np.ones_like(self.weights)
        divisors.flags.writeable = False
        return divisors

    @cached_property
    def _alone(self) -> NDArray[np.bool_]:
        """True for each record with weight 0 but a nonzero weight in some replicate: (n,)."""
        alone = np.zeros(self.weights.size, dtype=bool)
        zero = np.flatnonzero(self.weights == 0)
        if self.combined and zero.size:
            alone[zero] = self._block(slice(None), zero).any(axis=0)
        alone.flags.writeable = False
        return alone

    def _block(self, replicates: slice, records: Records) -> Floats:
        """Return the values in the columns of some replicates for some records: (replicates, records)."""
        return np.array([values[records] for values in self._values[replicates]], dtype=np.float64)

    @cached_property
    def _values(self) -> list[NDArray[Any]]:
        """Columns of replicate weights as arrays, stored since estimates for domains use them thousands of times."""
        return [column.to_numpy() for column in self.columns]

    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:  # noqa: D102
        out, z = np.zeros((self.R, domains)), z / self._divisors
        step = max(1, BLOCK // z.size)
        for start in range(0, self.R, step):
            part = slice(start, start + step)
            _add_columns(z, domain, self._block(part, slice(None)), out[part])
        return out

    def degf(self, weights: Floats, inside: Records = slice(None)) -> int:  # noqa: D102
        ratio = self.multiplicand(weights) / self._divisors
        records, step = np.arange(ratio.size)[inside], max(1, BLOCK // self.R)
        if records.size < self.R:
            return _rank(_gram(self._block(slice(None), records) * ratio[records])) - 1
        gram = np.zeros((self.R, self.R))
        for start in range(0, records.size, step):
            part = records[start : start + step]
            gram += _gram((self._block(slice(None), part) * ratio[part]).T)
        return _rank(gram) - 1


def given(
    frame: pd.DataFrame,
    names: Sequence[str],
    weights: Floats,
    scale: float | None = None,
    rscales: ArrayLike | None = None,
    mse: bool = True,
    combined: bool = True,
) -> GivenReplicates:
    """Make replicate weights from columns of the file.

    Parameters
    ----------
    frame : pandas.DataFrame
        The records.  The frame is not copied.
    names : sequence of str (R,)
        Columns of replicate weights, which may be 0 or negative.
    weights : float array (n,)
        Weights of the design.
    scale : float, optional
        Default 1 / R, as for a bootstrap and BRR.
    rscales : sequence of float (R,), optional
        Default 1 each.
    mse : bool
        True if deviations of the replicates are taken from the estimate.  False (R's default) if they are taken from
        the mean of the replicates.
    combined : bool
        True if the columns hold full weights (R's ``combined.weights = TRUE``).  False if they hold factors, by which
        the weights are multiplied.

    Raises
    ------
    InputError
        There are fewer than two columns, or one column twice; a column does not exist, is not numeric, or has missing
        or infinite values; ``rscales`` are not R finite numbers of at least 0; ``scale`` is not positive; ``combined``
        is True and the columns look like factors; ``combined`` is False and they look like full weights; or they look
        like neither.
    """
    names = tuple(names)
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InputError(f"replicate weights name {', '.join(map(repr, twice))} twice; each column is one replicate")
    check_columns(frame, {f"replicate weights ({i + 1})": name for i, name in enumerate(names)})
    if len(names) < 2:
        raise InputError("replicate weights need at least two columns")
    columns = tuple(_weight_column(frame[name], name) for name in names)
    scale = 1 / len(names) if scale is None else positive(scale, "scale")
    if not isinstance(mse, bool):
        raise InputError("mse must be True or False")
    if not isinstance(combined, bool):
        raise InputError("combined must be True or False")
    _check_combined(columns, weights, combined)
    return GivenReplicates("given", scale, _rscales(rscales, len(names)), mse, names, columns, weights, combined)


def _check_combined(columns: Sequence[pd.Series], weights: Floats, combined: bool) -> None:
    """Raise InputError if columns of replicate weights contradict ``combined``, or are far from the expected scale.

    With ``combined``, the user declares that the columns have full weights.  Otherwise the user declares factors, by
    which the weights are multiplied.  For each record, the mean over the columns should be the weight of the record if
    the columns have full weights, and 1 if they have factors.  This holds exactly for balanced half samples and
    jackknives, and up to noise for bootstraps.  Two misfits are computed: the sums over the records of |mean - weight|
    for full weights, and of |mean - 1| for factors.  The columns are refused if the misfit of the declared kind is more
    than 2 times the misfit of the other kind, and their sum fits the other kind.  If weights are near 1, the two kinds
    cannot be distinguished.

    The sum over the records, averaged over the columns, fits a kind if it is between 1/3 and 3 times the expected sum.
    The expected sum is the sum of the weights for full weights, and the number of records for factors.  Columns are
    also refused if their sum does not fit the declared kind, for example because only the weights were rescaled:
    standard errors of totals would be wrong.
    """
    mean = np.zeros(weights.size)
    for column in columns:
        mean += column.to_numpy() / len(columns)
    from_weights, from_factors = np.abs(mean - weights).sum(), np.abs(mean - 1).sum()
    sums = {True: mean.sum() / weights.sum(), False: mean.mean()}
    fit = {kind: 1 / FAR < ratio < FAR for kind, ratio in sums.items()}
    if combined and fit[False] and CLOSER * from_factors < from_weights:
        raise InputError(
            "the columns of replicate weights do not look like full weights: they are on the scale of factors, as "
            "0 and 2 or n / (n - 1), around 1 whatever the weight. Give combined=False, and they are multiplied by the "
            "weights"
        )
    if not combined and fit[True] and CLOSER * from_weights < from_factors:
        raise InputError(
            "the columns of replicate weights look like full weights, which are not to be multiplied by the weights: "
            "leave combined=False out"
        )
    if not fit[combined]:
        kind, others = ("weights", "the weights") if combined else ("factors", "as many ones")
        amount = f"more than {FAR} times" if sums[combined] > 1 else f"less than 1/{FAR} of"
        raise InputError(
            f"the replicate {kind} add up, on average, to {amount} what {others} add up to: they belong to other "
            "weights, or are on another scale. Give the column of weights that they were made from, or bring both to "
            "one scale"
        )


def _weight_column(column: pd.Series, name: str) -> pd.Series:
    plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiu"
    values = column.to_numpy() if plain else numeric(column, name)
    infinite = ~np.isfinite(values)
    if infinite.any():
        raise InputError(f"column {name!r} is not finite in {rows(infinite)}; a replicate weight is a number")
    return column if plain else pd.Series(values)


def _rscales(rscales: ArrayLike | None, R: int) -> Floats:
    if rscales is None:
        return np.ones(R)
    try:
        values = np.array(rscales, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("rscales must be numbers, one a replicate") from None
    if values.shape != (R,):
        raise InputError(f"rscales must be one number for each of the {R:,} replicates")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("rscales must be finite and not negative")
    return values


@nb.njit(cache=True)
def _add_columns(z: Floats, domain: Codes, columns: Floats, out: Floats) -> None:
    """Add the sum of ``z[i] * columns[r, i]`` over the records i of each domain d to ``out[r, d]``, for each column r.

    ``domain`` (n,) has the domain of each record, or -1.
    """
    for r in range(columns.shape[0]):
        for i in range(z.size):
            if domain[i] >= 0:
                out[r, domain[i]] += z[i] * columns[r, i]
