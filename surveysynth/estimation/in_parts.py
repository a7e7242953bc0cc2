"""Tables of data sets that are files in parts, from a few passes over them.

Sums of blocks are added in one order, whoever computes them: a table is the same to the last digit.

Of records in PSUs linearized values matter by their sums in a PSU and domain (:mod:`.taylor`), which are those of the
PSU's records in the cells of the domain.  So one record for each PSU and cell, whose weight is the sum of theirs and
whose outcome is their mean, has the estimates and variances that all records have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..choices import LonelyPSU
from ..design.parts import Combinations, Found, Parts, refuse_missing, values_of, weights_of
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..tasks import Workers
from . import cells
from .cells import BLOCK, NONE, CellMoments, OfBlock, divides
from .estimators import Estimates, estimated, onepass
from .quantities import Quantity, Statistic, quantities
from .tables import Estimand, Partition, columns_of, partitions_of
from .taylor import pairs, sums
from .variance import degrees_of_freedom

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

ONE = "weight of a combination"
MOST_PAIRS = 1 << 23  # of PSUs and cells
STATISTICS: tuple[Statistic, ...] = ("count", "mean", "total")


@dataclass(frozen=True, repr=False)
class PSUs:
    """Primary sampling units of data sets in parts.

    Attributes
    ----------
    column : str
    units : Combinations
        Of the column of strata, where there is one, and that of PSUs.
    lonely_psu : str
        What a stratum with one PSU does to a variance.
    """

    column: str
    units: Combinations
    lonely_psu: LonelyPSU

    @classmethod
    def of(cls, parts: Parts, design: SurveyDesign, workers: Workers) -> PSUs | None:
        """Those of a file with the roles of a design, from a pass over it; None where these have none.

        Later stages of sampling add nothing to a variance, as there is no fpc.

        Raises
        ------
        InputError
            A PSU or a stratum is missing; more than a million PSUs; a stratum with one, where ``lonely_psu="fail"``.
        """
        if not design.psu_names:
            return None
        column, strata = design.psu_names[0], design.strata_name
        names = [*([strata] if strata else []), column]
        found = [*workers.each(_units, (parts, names), len(parts))]
        units = Combinations.together(found, names, {}, "take the file into memory")
        if strata and design.lonely_psu == "fail":
            alone = int((units.frame.groupby(strata, observed=True)[column].count() == 1).sum())
            if alone:
                raise InputError(
                    f"{alone} of the strata {strata!r} have one PSU, so that their variance cannot be estimated: merge "
                    "strata, or say lonely_psu= of the design"
                )
        return cls(column, units, design.lonely_psu)


def _units(of: tuple[Parts, list[str]], part: int) -> Found:
    parts, names = of
    frame, first = parts.read(part, names), parts.first(part)
    advice = "it says how the sample was drawn, so fill it in, or leave these records out"
    refuse_missing(frame, names, first, "column", advice)
    return Found.within(frame, names, first)


@dataclass(frozen=True, repr=False)
class DataSet:
    """A data set that is a file in parts.

    Attributes
    ----------
    parts : Parts
    weights : str
        Column of the weights.
    combinations : Combinations
        Of the columns that tables can be made by.
    strata : str, optional
        One of them.
    psus : PSUs, optional
        Where records are not their own sampling units.
    """

    parts: Parts
    weights: str
    combinations: Combinations
    strata: str | None = None
    psus: PSUs | None = None

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
class InParts(CellMoments):
    """Those of a data set in parts, whose sums are found by passes over it, those of several together."""

    data: DataSet
    column: Column | None
    of_combination: Codes  # the pair of each
    found: dict[OfBlock, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, data: DataSet, statistic: str, column: Column | None, partition: Partition) -> InParts:
        """Of one statistic in the cells of a partition."""
        assert partition.of_cell is not None  # as partitions_of makes them
        sampled, of_combination = data.sampled, np.asarray(partition.cell, dtype=np.intp)
        cell, stratum, number = pairs(of_combination, data.stratum, partition.of_cell.size, sampled.size)
        return cls(divides(statistic), stratum, cell, sampled, np.zeros(sampled.size), data, column, number)

    def _over_blocks(self, of_block: OfBlock, values: int, *constants: Floats) -> Floats:
        return self.found[of_block]


def sum_up(moments: Sequence[InParts], workers: Workers, *, squares: bool) -> None:
    """Find the sums of several quantities of one data set in one pass over it; or their squares, after the sums."""
    if not moments:
        return
    of_block, values = (cells.squares_of, 5) if squares else (cells.sums_of, 4)
    constants = [each.around if squares else () for each in moments]
    data, of_combination, shape = moments[0].data, moments[0].of_combination, (values, moments[0].pairs)
    shared = _Pass(data, of_combination, [each.column for each in moments], of_block, shape, constants)
    totals = np.zeros((len(moments), *shape))
    for of_part in workers.each(_sums, shared, len(data.parts)):  # in their order
        totals += of_part
    for each, total in zip(moments, totals, strict=True):
        each.found[of_block] = total


@dataclass(frozen=True, repr=False)
class _Pass:
    """One pass over a data set: sums of several columns by pairs, with constants of each."""

    data: DataSet
    of_combination: Codes
    columns: Sequence[Column | None]
    of_block: OfBlock
    shape: tuple[int, int]
    constants: Sequence[tuple[Floats, ...]]


def _sums(shared: _Pass, part: int) -> Floats:
    """Sums over a part, block after block, of each column: (columns, values, pairs)."""
    data, outcomes = shared.data, [column.outcome for column in shared.columns if column is not None]
    names = [*data.combinations.frame.columns, data.weights, *dict.fromkeys(outcomes)]
    first, frame = data.parts.first(part), data.parts.read(part, names)
    row = shared.of_combination[data.combinations.of(frame)].astype(np.int32)
    w = values_of(frame, data.weights, first)
    totals = np.zeros((len(shared.columns), *shared.shape))
    for total, column, constants in zip(totals, shared.columns, shared.constants, strict=True):
        y = NONE if column is None else column.of(frame, first)
        columns = row, *cells.values_of(w, y, NONE)
        for at in range(0, len(frame), BLOCK):
            here = (values[at : at + BLOCK] for values in columns)
            total += shared.of_block(*here, *constants, np.zeros(shared.shape))
    return totals


@dataclass(frozen=True, repr=False)
class OfPSUs:
    """One statistic of a data set in parts whose records are in PSUs.

    Attributes
    ----------
    design : SurveyDesign
        A record for each PSU and cell.
    quantity : Quantity
        Of these records.
    cell : int array (n,)
        Of each.
    size : float array (n,)
        How many records of the data set it stands for.
    """

    design: SurveyDesign
    quantity: Quantity
    cell: Codes
    size: Floats

    def estimates(self, of_cell: Codes, domains: int) -> Floats:
        """As :meth:`CellMoments.estimates`."""
        return estimated("onepass", self.design, self.quantity, of_cell[self.cell], domains)

    def with_variances(self, of_cell: Codes, domains: int) -> Estimates:
        """As :meth:`CellMoments.with_variances`."""
        return onepass(self.design, self.quantity, of_cell[self.cell], domains)

    def records(self, of_cell: Codes, domains: int) -> Codes:
        """As :meth:`CellMoments.records`."""
        domain = of_cell[self.cell]
        return sums(domain[domain >= 0], self.size[domain >= 0], domains).astype(np.intp)

    def degrees_of_freedom(self, of_cell: Codes, domains: int) -> Floats:
        """PSUs less strata that hold records, of each domain: (domains,)."""
        return degrees_of_freedom(self.design, of_cell[self.cell], domains)


def of_psus(
    data: DataSet, psus: PSUs, asked: Sequence[tuple[str, Column | None]], partition: Partition, workers: Workers
) -> list[OfPSUs]:
    """Statistics of columns in the cells of a partition, from one pass over a data set."""
    assert partition.of_cell is not None  # as partitions_of makes them
    of_combination, cells = np.asarray(partition.cell, dtype=np.intp), partition.of_cell.size
    shared = _ByPSU(data, psus, of_combination, cells, [column for _, column in asked])
    pair, totals = np.empty(0, dtype=np.intp), np.zeros((2 + len(asked), 0))
    for here, of_part in workers.each(_by_psu, shared, len(data.parts)):  # in their order
        every = np.union1d(pair, here)
        if every.size > MOST_PAIRS:
            raise InputError(
                f"the PSUs and the cells of the table have more than {MOST_PAIRS:,} combinations: make tables by fewer "
                "variables"
            )
        grown = np.zeros((len(totals), every.size))
        grown[:, np.searchsorted(every, pair)] = totals
        grown[:, np.searchsorted(every, here)] += of_part
        pair, totals = every, grown
    size, w, *wy = totals
    frame = psus.units.frame.take(pair // cells).reset_index(drop=True).assign(**{ONE: w})
    design = SurveyDesign(frame, weights=ONE, strata=data.strata, psu=psus.column, lonely_psu=psus.lonely_psu)
    return [
        OfPSUs(design, Quantity(statistic, y=None if column is None else y / w), pair % cells, size)  # type: ignore[arg-type]
        for (statistic, column), y in zip(asked, wy, strict=True)
    ]


@dataclass(frozen=True, repr=False)
class _ByPSU:
    """One pass over a data set: sums of columns by PSU and cell."""

    data: DataSet
    psus: PSUs
    of_combination: Codes
    cells: int
    columns: Sequence[Column | None]


def _by_psu(shared: _ByPSU, part: int) -> tuple[Codes, Floats]:
    """Pairs of a PSU and a cell that are in a part; records, and sums of w and of each w y: (2 + columns, pairs)."""
    data, units = shared.data, shared.psus.units
    names = [*units.frame, *data.combinations.frame, data.weights]
    names += [column.outcome for column in shared.columns if column is not None]
    first, frame = data.parts.first(part), data.parts.read(part, dict.fromkeys(names))
    cell, w = shared.of_combination[data.combinations.of(frame)], weights_of(frame, data.weights, first)
    pair, number = np.unique(units.of(frame) * shared.cells + cell, return_inverse=True)
    ys = (np.ones(len(frame)) if column is None else column.of(frame, first) for column in shared.columns)
    every = [np.ones(len(frame)), w, *(w * y for y in ys)]
    return pair, np.array([sums(number, values, pair.size) for values in every])


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
    of_model: Sequence[SurveyDesign],
    workers: Workers,
) -> pd.DataFrame:
    """As :func:`surveysynth.estimation.tables.tabulate`, of counts, means and totals in data sets in parts.

    ``noise`` has the columns of each outcome in the first data set under noise that was drawn again, ``of_model`` are
    small data sets of parameters that were drawn again.

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
    small = partitions_of(of_model[0], list(by)) if of_model else partitions
    if not all(there.same_domains(here) for there, here in zip(small, partitions, strict=True)):
        of_model, small = (), partitions  # those that were drawn again lack a domain
    asked = [(s, outcome) for s in statistics for outcome in (outcomes if s != "count" else [""])]
    plain = [(s, Column(outcome) if outcome else None) for s, outcome in asked]
    others = [[(s, other) for other in noise.get(outcome, [])] for s, outcome in asked]
    moved = [each for some in others for each in some]
    (first, again), *rest = (
        _moments(data, plain, moved if k == 0 else [], partitions[0], workers) for k, data in enumerate(data_sets)
    )
    made, of_noise = [first, *(moments for moments, _ in rest)], iter(again)
    under = [[next(of_noise) for _ in some] for some in others]
    parts = [
        _part(Quantity(s, outcome), partition, statistics, same, noisy, modelled)  # type: ignore[arg-type]
        for (s, outcome), same, noisy in zip(asked, zip(*made, strict=True), under, strict=True)
        for partition, modelled in zip(partitions, _modelled(of_model, s, outcome, small), strict=True)
    ]
    table = pd.concat(parts, ignore_index=True)
    table.attrs["estimator"] = "onepass"
    table.attrs["labels"] = {name: labels[name] for name in (*outcomes, *by) if name in labels}
    if of_model:
        table.attrs["modelled"] = True
    return table


def _moments(
    data: DataSet, plain: Sequence[tuple[str, Column | None]], moved: Sequence[tuple[str, Column]],
    partition: Partition, workers: Workers,
) -> tuple[Sequence[InParts | OfPSUs], Sequence[InParts | OfPSUs]]:  # fmt: skip
    """Statistics of a data set in the cells of a partition; and of moved columns, without squares."""
    if data.psus is not None:
        every = of_psus(data, data.psus, [*plain, *moved], partition, workers)
        return every[: len(plain)], every[len(plain) :]
    moments, others = ([InParts.of(data, *each, partition) for each in some] for some in (plain, moved))
    sum_up([*moments, *others], workers, squares=False)
    sum_up(moments, workers, squares=True)
    return moments, others


def _modelled(
    designs: Sequence[SurveyDesign], statistic: str, outcome: str, partitions: Sequence[Partition]
) -> list[Floats] | list[None]:
    """Estimates of small data sets in every partition, (designs, domains) each; None where there are no such."""
    if not designs:
        return [None] * len(partitions)
    found = [each[0] for each in quantities(designs, [outcome] if outcome else [], [statistic])]
    of_designs = [Estimand("onepass", *each, partitions[0]) for each in zip(designs, found, strict=True)]
    return [np.array([each.alone(there, len(there.labels)) for each in of_designs]) for there in partitions]


def _part(
    quantity: Quantity, partition: Partition, statistics: Sequence[str], moments: Sequence[InParts | OfPSUs],
    again: Sequence[InParts | OfPSUs], of_model: Floats | None,
) -> pd.DataFrame:  # fmt: skip
    """One quantity in the domains of a partition."""
    of_cell, domains = partition.of_cell, len(partition.labels)
    assert of_cell is not None  # as partitions_of makes them
    noise = np.array([each.estimates(of_cell, domains) for each in again]) if again else None
    return columns_of(
        quantity, partition.labels, statistics, [each.with_variances(of_cell, domains) for each in moments],
        np.min([each.degrees_of_freedom(of_cell, domains) for each in moments], axis=0),
        np.min([each.records(of_cell, domains) for each in moments], axis=0), noise=noise, of_model=of_model,
        larger=True,
    )  # fmt: skip
