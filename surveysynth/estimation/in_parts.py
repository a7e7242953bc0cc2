"""Tables of data sets that are files in parts, from a few passes over them.

Sums of blocks are added in one order, whoever computes them: a table is the same to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.parts import Combinations, Parts, values_of
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..tasks import in_order
from . import cells
from .cells import BLOCK, NONE, CellMoments, OfBlock, divides
from .quantities import Quantity, Statistic
from .tables import Partition, columns_of, partitions_of
from .taylor import pairs

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

ONE = "weight of a combination"
STATISTICS: tuple[Statistic, ...] = ("count", "mean", "total")


@dataclass(frozen=True)
class Workers:
    """Who computes: so many processes of this machine, or the workers of a Dask scheduler."""

    count: int = 1
    scheduler: str | None = None

    def each(self, task: Callable[[Any, int], Any], shared: Any, count: int) -> Any:
        """Results of a task for the numbers 0 to ``count - 1``, in their order."""
        return in_order(task, shared, count, workers=self.count, scheduler=self.scheduler)


@dataclass(frozen=True, repr=False)
class DataSet:
    """A data set that is a file in parts, whose records are their own sampling units.

    Attributes
    ----------
    parts : Parts
    weights : str
        Column of the weights.
    combinations : Combinations
        Of the columns that tables can be made by.
    strata : str, optional
        One of them.
    """

    parts: Parts
    weights: str
    combinations: Combinations
    strata: str | None = None

    @cached_property
    def stratum(self) -> Codes:
        """Of each combination, from 0."""
        frame = self.combinations.frame
        if self.strata is None:
            return np.zeros(len(frame), dtype=np.intp)
        return np.asarray(pd.factorize(frame[self.strata])[0], dtype=np.intp)

    @property
    def sampled(self) -> Codes:
        """Records of each stratum."""
        return np.bincount(self.stratum, self.combinations.records).astype(np.intp)


@dataclass(frozen=True, repr=False)
class Column:
    """An outcome as its values are taken: as they are, or as a function of them."""

    outcome: str
    function: Callable[[Floats], Floats] | None = None

    def of(self, frame: pd.DataFrame, first: int) -> Floats:
        """Values of a part: (n,)."""
        y = values_of(frame, self.outcome, first)
        return y if self.function is None else self.function(y)


@dataclass(frozen=True, repr=False)
class _Pass:
    """One pass over a data set: sums by cell of a quantity."""

    data: DataSet
    column: Column | None
    of_combination: Codes  # the cell of each
    of_block: OfBlock
    shape: tuple[int, int]
    constants: tuple[Floats, ...]


def _sums(shared: _Pass, part: int) -> Floats:
    """Sums over a part, block after block."""
    names = [*shared.data.combinations.frame.columns, shared.data.weights]
    names += [] if shared.column is None else [shared.column.outcome]
    first, frame = shared.data.parts.first(part), shared.data.parts.read(part, names)
    row = shared.of_combination[shared.data.combinations.of(frame)].astype(np.int32)
    w = values_of(frame, shared.data.weights, first)
    y = NONE if shared.column is None else shared.column.of(frame, first)
    columns, total = (row, *cells.values_of(w, y, NONE)), np.zeros(shared.shape)
    for at in range(0, len(frame), BLOCK):
        here = (column[at : at + BLOCK] for column in columns)
        total += shared.of_block(*here, *shared.constants, np.zeros(shared.shape))
    return total


@dataclass(frozen=True, repr=False)
class InParts(CellMoments):
    """Those of a data set in parts: a pass over it for estimates, and one more for variances."""

    data: DataSet
    column: Column | None
    of_combination: Codes
    workers: Workers = field(default_factory=Workers)

    @classmethod
    def of(
        cls, data: DataSet, statistic: str, column: Column | None, partition: Partition, workers: Workers
    ) -> InParts:
        """Of one statistic in the cells of a partition."""
        assert partition.of_cell is not None  # as partitions_of makes them
        sampled, of_combination = data.sampled, np.asarray(partition.cell, dtype=np.intp)
        cell, stratum, number = pairs(of_combination, data.stratum, partition.of_cell.size, sampled.size)
        return cls(
            divides(statistic), stratum, cell, sampled, np.zeros(sampled.size), data, column, number, workers
        )

    def _over_blocks(self, of_block: OfBlock, values: int, *constants: Floats) -> Floats:
        shape = values, self.pairs
        shared = _Pass(self.data, self.column, self.of_combination, of_block, shape, constants)
        total = np.zeros(shape)
        for of_part in self.workers.each(_sums, shared, len(self.data.parts)):  # in their order
            total += of_part
        return total


@dataclass(frozen=True, repr=False)
class _Two:
    """Pairs of values of an outcome, for their regression."""

    parts: Parts
    outcome: str
    pairs: tuple[Callable[[Floats], tuple[Floats, Floats]], ...]


def _cross_products(shared: _Two, part: int) -> Floats:
    """1, z, t, zz, zt summed up over a part, for each pair: (pairs, 5)."""
    y = values_of(shared.parts.read(part, [shared.outcome]), shared.outcome, shared.parts.first(part))
    total = np.zeros((len(shared.pairs), 5))
    for at in range(0, len(y), BLOCK):
        both = [pair(y[at : at + BLOCK]) for pair in shared.pairs]
        # no dot products, whose last digits hang on the number of threads
        total += np.array([[z.size, z.sum(), t.sum(), (z * z).sum(), (z * t).sum()] for z, t in both])
    return total


def regressions(
    data: DataSet, outcome: str, pairs: Sequence[Callable[[Floats], tuple[Floats, Floats]]], workers: Workers
) -> list[tuple[float, float, float]]:
    """Mean of z, mean of t, and the slope of t on z, of functions that make z and t of an outcome's values."""
    total = np.zeros((len(pairs), 5))
    for of_part in workers.each(_cross_products, _Two(data.parts, outcome, tuple(pairs)), len(data.parts)):
        total += of_part
    n, z, t, zz, zt = total.T
    slope = (zt - z * t / n) / np.maximum(zz - z * z / n, np.finfo(float).tiny)
    return list(zip((z / n).tolist(), (t / n).tolist(), slope.tolist(), strict=True))


def tables_in_parts(
    data_sets: Sequence[DataSet],
    outcomes: Sequence[str],
    by: Sequence[str],
    statistics: Sequence[str],
    labels: dict[str, str],
    noise: dict[str, list[Column]],
    workers: Workers,
) -> pd.DataFrame:
    """As :func:`surveysynth.estimation.tables.tabulate`, of counts, means and totals in data sets in parts.

    ``noise`` has the columns of each outcome in the first data set under noise that was drawn again.

    Raises
    ------
    InputError
        Another statistic.
    """
    unknown = [s for s in statistics if s not in STATISTICS]
    if unknown:
        raise InputError(
            f"statistic={unknown[0]!r} is not for files in parts, which have {', '.join(STATISTICS)}: read_release() "
            "takes the data sets into memory, for all others"
        )
    frame = data_sets[0].combinations.frame
    everything = SurveyDesign(frame.assign(**{ONE: 1.0}), weights=ONE, lonely_psu="remove")
    partitions = partitions_of(everything, list(by))
    parts = []
    for statistic in statistics:
        for outcome in outcomes if statistic != "count" else [""]:
            column, quantity = Column(outcome) if outcome else None, Quantity(statistic, outcome)  # type: ignore[arg-type]
            made = partial(InParts.of, statistic=statistic, partition=partitions[0], workers=workers)
            moments = [made(data, column=column) for data in data_sets]
            again = [made(data_sets[0], column=other) for other in noise.get(outcome, [])]
            parts += [
                _part(quantity, partition, statistics, moments, again)
                for partition in partitions
            ]
    table = pd.concat(parts, ignore_index=True)
    table.attrs["estimator"] = "onepass"
    table.attrs["labels"] = {name: labels[name] for name in (*outcomes, *by) if name in labels}
    return table


def _part(
    quantity: Quantity, partition: Partition, statistics: Sequence[str], moments: Sequence[InParts],
    again: Sequence[InParts],
) -> pd.DataFrame:  # fmt: skip
    """One quantity in the domains of a partition."""
    of_cell, domains = partition.of_cell, len(partition.labels)
    assert of_cell is not None  # as partitions_of makes them
    noise = np.array([each.estimates(of_cell, domains) for each in again]) if again else None
    return columns_of(
        quantity, partition.labels, statistics, [each.with_variances(of_cell, domains) for each in moments],
        np.min([each.degrees_of_freedom(of_cell, domains) for each in moments], axis=0),
        np.min([each.records(of_cell, domains) for each in moments], axis=0), noise=noise,
    )  # fmt: skip
