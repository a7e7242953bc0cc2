"""Replicate weights that a file has."""

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


@dataclass(frozen=True, eq=False)
class GivenReplicates(Replicates):
    """Replicate weights that came with the file, column by column.

    Attributes
    ----------
    names : tuple of str (R,)
    columns : tuple of pandas.Series (R,)
        Full weights.  As series they share the memory of the frame, and pandas keeps them as they
        are where that is changed later.
    weights : float array (n,)
        Weights of the design.
    """

    names: tuple[str, ...]
    columns: tuple[pd.Series, ...] = field(repr=False)
    weights: Floats = field(repr=False)

    def factors(self, start: int, stop: int) -> Floats:  # noqa: D102
        return self._block(slice(start, stop), slice(None)).T / _divisors(self.weights)[:, None]

    def _block(self, replicates: slice, records: Records) -> Floats:
        """A part of the columns, each in a row."""
        return np.array([values[records] for values in self._values[replicates]], dtype=np.float64)

    @cached_property
    def _values(self) -> list[NDArray[Any]]:
        """The columns without their index; domains ask for them thousands of times."""
        return [column.to_numpy() for column in self.columns]

    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:  # noqa: D102
        out, z = np.zeros((self.R, domains)), z / _divisors(self.weights)
        step = max(1, BLOCK // z.size)
        for start in range(0, self.R, step):
            part = slice(start, start + step)
            _add_columns(z, domain, self._block(part, slice(None)), out[part])
        return out

    def degf(self, weights: Floats, inside: Records = slice(None)) -> int:  # noqa: D102
        ratio = weights / _divisors(self.weights)
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
) -> GivenReplicates:
    """Replicate weights in columns of the file: full weights, R's ``combined.weights = TRUE``.

    Parameters
    ----------
    frame : pandas.DataFrame
        It is not copied; columns are read one by one.
    names : sequence of str (R,)
        0 is a weight here.
    weights : float array (n,)
        Weights of the design.
    scale : float, optional
        Default 1 / R, that of a bootstrap and of BRR.
    rscales : sequence of float (R,), optional
        Default 1.
    mse : bool
        R's own default is False.

    Raises
    ------
    InputError
        Fewer than two columns, or one twice; a column that is not there, is no number, or is
        missing, infinite or negative somewhere; scales that are not R numbers, finite and not
        negative.
    """
    names = tuple(names)
    if len(names) < 2:
        raise InputError("replicate weights need at least two columns")
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InputError(f"replicate weights name {', '.join(map(repr, twice))} twice; each column is one replicate")
    check_columns(frame, {f"replicate weights ({i + 1})": name for i, name in enumerate(names)})
    columns = tuple(_weight_column(frame[name], name) for name in names)
    for name, column in zip(names, columns, strict=True):
        bad = (weights == 0) & (column.to_numpy() != 0)
        if bad.any():
            raise InputError(
                f"column {name!r} is above 0 where the weight is 0, in {rows(bad)}; it must be 0 there, too"
            )
    scale = 1 / len(names) if scale is None else positive(scale, "scale")
    if not isinstance(mse, bool):
        raise InputError("mse must be True or False")
    return GivenReplicates("given", scale, _rscales(rscales, len(names)), mse, names, columns, weights)


def _divisors(weights: Floats) -> Floats:
    """Weights to divide by: those of records with weight 0, whose replicate weights are 0, too, are 1."""
    return np.where(weights > 0, weights, 1.0)


def _weight_column(column: pd.Series, name: str) -> pd.Series:
    plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiu"
    values = column.to_numpy() if plain else numeric(column, name)
    for bad, what in ((~np.isfinite(values), "not finite"), (values < 0, "negative")):
        if bad.any():
            raise InputError(f"column {name!r} is {what} in {rows(bad)}; a replicate weight is a number from 0 on")
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
    """out[r, d] += z_i columns[r, i] over the records of domain d."""
    for r in range(columns.shape[0]):
        for i in range(z.size):
            if domain[i] >= 0:
                out[r, domain[i]] += z[i] * columns[r, i]
