"""A confidential file in parts of 2^20 records: what passes over it find, and its records as points of a public grid.

    levels and histograms -> records of a first draw -> points around a reference
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.parts import (
    MOST_LEVELS,
    MOST_ROWS,
    Combinations,
    Found,
    Levels,
    Parts,
    levels_within,
    values_of,
    weights_of,
)
from ..design.scan import Source
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..models.draws import Draws
from ..models.normal.categories import Categories, Cells
from ..models.normal.fbs import FBS
from ..models.normal.outcomes import refuse_off_scale
from ..models.normal.records import JointRecords
from ..models.normal.relative import density_of
from ..models.shared.clipped_fit import Normal
from ..models.shared.levels import FEWEST
from ..models.shared.normal_scores import binned, public_bounds
from ..models.shared.public_grid import Points, crowded
from ..models.shared.transforms import Transform
from ..privacy.mechanisms.strict import FIRST_RECORDS
from ..tasks import Workers
from ..validation import rows
from .levels import check_levels, to_declare, with_levels

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, repr=False)
class Roles:
    """A file in parts, and what its columns are.

    Attributes
    ----------
    parts : Parts
    predictors, numeric, categorical : tuple of str
        The latter are outcomes: amounts, and categories.
    weights : str
    bounds : tuple of (float, float)
        Public, of each amount, where normal scores are made within them.
    scales : tuple of Transform
        Public, of each amount, where there are no such bounds.
    strata : str or None
        One of the predictors.
    zeros : bool
        Whether zeros are an outcome of their own.
    levels : dict of str to list
        Those that are declared, of each category.
    """

    parts: Parts
    predictors: tuple[str, ...]
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    weights: str
    bounds: tuple[tuple[float, float], ...]
    scales: tuple[Transform, ...]
    strata: str | None
    zeros: bool = False
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, source: Source, model: FBS, weights: str, strata: str | None,
        bounds: tuple[float, float] | Mapping[str, tuple[float, float]] | None,
        levels: Mapping[str, Sequence[Any]] | None = None,
    ) -> Roles:  # fmt: skip
        """Checked, as far as the names of columns go.

        Raises
        ------
        InputError
            Bounds of other columns than the outcomes, categories without declared levels; as :func:`predictors_of`.
        """
        given = dict(bounds) if isinstance(bounds, Mapping) else dict.fromkeys(model.numeric, bounds)
        if set(given) != set(model.numeric):
            raise InputError(f"bounds= names other columns than the numeric outcomes: {', '.join(model.numeric)}")
        scored, scales = ((), tuple(model.transforms())) if bounds is None else (model.numeric, ())
        limits = tuple(public_bounds(given[outcome], outcome) for outcome in scored)
        parts = Parts.of(source)
        predictors = predictors_of(parts, model, weights, strata)
        numeric, categorical = model.numeric, model.categorical
        own = levels_of_parts(parts, model, levels)
        if lacking := [name for name in categorical if name not in own]:
            raise InputError(to_declare(lacking))
        return cls(parts, predictors, numeric, categorical, weights, limits, scales, strata, model.zeros, own)

    def read(self, part: int) -> pd.DataFrame:
        """These columns of a part."""
        return self.parts.read(part, [*self.predictors, *self.numeric, *self.categorical, self.weights])

    def amounts(self, frame: pd.DataFrame, first: int) -> Floats:
        """Amounts of a part's records, (n, d), whose first has the number ``first`` (InputError: not finite)."""
        return np.column_stack([values_of(frame, outcome, first) for outcome in self.numeric])

    def are_zero(self, amounts: Floats) -> NDArray[np.bool_]:
        """Whose outcome is zero, where that is an outcome of its own: (n,)."""
        return (amounts[:, 0] == 0) & self.zeros


def levels_of_parts(
    parts: Parts, model: FBS, levels: Mapping[str, Sequence[Any]] | None
) -> Mapping[str, Sequence[Any]]:  # fmt: skip
    """The levels that are declared, of those categories that have some (InputError: as :func:`check_levels`)."""
    given = check_levels(levels, model.categorical)
    by_type = {name: parts.declared_levels(name) for name in model.categorical if name not in given}
    return {**{name: own for name, own in by_type.items() if own is not None}, **given}


def predictors_of(parts: Parts, model: FBS, weights: str, strata: str | None) -> tuple[str, ...]:
    """The predictors, in the order of the files.

    Raises
    ------
    InputError
        Columns that are not there; weights that are modelled or public besides; strata that are no predictor.
    """
    used = *model.predictor_columns, *model.outcomes
    absent = [name for name in (*used, weights) if name not in parts.names]
    if absent:
        raise InputError(f"the files have no column {', '.join(map(repr, absent))}")
    if weights in used:
        raise InputError(f"the column of weights {weights!r} cannot be an outcome or a predictor")
    predictors = tuple(name for name in parts.names if name in model.predictor_columns)
    if strata is not None and strata not in predictors:
        raise InputError(
            f"strata {strata!r} are no predictor, and their effects are not modelled in parts: put them into "
            "the formula"
        )
    return predictors


@dataclass(frozen=True, repr=False)
class Seen:
    """What the first pass finds."""

    combinations: Found
    levels: Levels
    counts: list[Floats]  # histograms of amounts
    weight: float  # sum of the weights


def look(roles: Roles, part: int) -> Seen:
    """Check a part; its combinations of predictors, levels of categories, and histograms.

    Raises
    ------
    InputError
        Missing values, outcomes or weights that are no numbers, outcomes without a value on their scale, weights that
        are not positive.
    """
    frame, first = roles.read(part), roles.parts.first(part)
    w = weights_of(frame, roles.weights, first)
    y = roles.amounts(frame, first)
    for outcome, own, scale in zip(roles.numeric, y.T, roles.scales, strict=False):  # where there are bounds: none
        refuse_off_scale(outcome, scale, ~np.isfinite(scale.forward(own)), first + 1)
    amounts = y[~roles.are_zero(y)].T
    counts = [binned(own, bounds) for own, bounds in zip(amounts, roles.bounds, strict=False)]
    levels = levels_within(frame, roles.categorical, first)
    for name, declared in roles.levels.items():
        with_levels(frame[name], name, declared, first + 1)  # which refuses others
    return Seen(Found.within(frame, roles.predictors, first), levels, counts, float(w.sum()))


def checked_levels(levels: Mapping[str, Sequence[Any]], combinations: Combinations, n: int) -> dict[str, list[Any]]:
    """The levels of categories, sorted where they can be.

    Raises
    ------
    InputError
        Fewer than five records a level, whose names are published; too many categories, or combinations of these and
        of the predictors.
    """
    alike = {name: len({type(level) for level in own}) == 1 for name, own in levels.items()}
    made = {name: sorted(own) if alike[name] else list(own) for name, own in levels.items()}
    for name, own in made.items():
        if n < FEWEST * len(own):
            raise InputError(
                f"outcome {name!r} has fewer than {FEWEST} records a level, and names of categories are published: is "
                "it an identifier? Group its levels"
            )
    K = math.prod(map(len, levels.values()))
    if K > MOST_LEVELS or K * len(combinations.frame) > MOST_ROWS:
        raise InputError(
            f"{', '.join(levels)}: {K:,} categories{' in all' if len(levels) > 1 else ''}; {MOST_LEVELS:,} are the "
            f"most, and {MOST_ROWS:,} with the predictors' combinations: group levels, or synthesize fewer columns"
        )
    return made


def in_turn(levels: Sequence[Any], n: int) -> pd.Series:
    """A column of n records that has each level as often."""
    return pd.Series(levels).take(np.arange(n) % len(levels)).reset_index(drop=True)


@dataclass(frozen=True, repr=False)
class Wanted:
    """Records to be taken, by their numbers from 0, increasing."""

    roles: Roles
    records: Codes


def take(wanted: Wanted, part: int) -> pd.DataFrame:
    """Those that are in a part."""
    first = wanted.roles.parts.first(part)
    start, end = np.searchsorted(wanted.records, [first, wanted.roles.parts.first(part + 1)])
    if start == end:
        return pd.DataFrame()
    frame = wanted.roles.read(part).iloc[wanted.records[start:end] - first]
    return frame.astype({name: object for name in frame if isinstance(frame[name].dtype, pd.CategoricalDtype)})


def some_records(
    roles: Roles, found: Combinations, rng: np.random.Generator, team: Workers, labels: Mapping[str, str] | None
) -> tuple[SurveyDesign, Codes]:
    """The records of a first draw: at random, and the first of each combination; and their combinations.

    Which they are hangs on random numbers and predictors alone.
    """
    n = roles.parts.n
    chosen = np.sort(rng.choice(n, min(n, FIRST_RECORDS), replace=False, shuffle=False))
    wanted = Wanted(roles, np.union1d(chosen, found.first).astype(np.intp))
    pieces = [frame for frame in team.each(take, wanted, len(roles.parts)) if len(frame)]
    frame = pd.concat(pieces, ignore_index=True)
    code = found.of(frame)
    public = found.frame.take(code).reset_index(drop=True)
    frame = public.assign(**{name: frame[name] for name in (*roles.numeric, *roles.categorical, roles.weights)})
    headings = headings_of(roles.parts, labels, frame)
    design = SurveyDesign(frame, weights=roles.weights, strata=roles.strata, lonely_psu="remove", labels=headings)
    return design, code


def prepared(
    model: FBS, design: SurveyDesign, levels: Mapping[str, Sequence[Any]], roles: Roles, mean_weight: float
) -> JointRecords:  # fmt: skip
    """Some records of a file as the model takes them, with the levels that the whole file has.

    Further records, of public numbers, have each level, and are left out again once it is known.
    """
    if not levels:
        return model.prepare(design, "ignore", mean_weight)
    more = FEWEST * max(map(len, levels.values()))
    further = design.frame.iloc[np.zeros(more, dtype=np.intp)].assign(
        **{name: np.linspace(*limits, more) for name, limits in zip(roles.numeric, roles.bounds, strict=True)},
        **{name: in_turn(each, more).array for name, each in levels.items()}, **{roles.weights: mean_weight},
    )  # fmt: skip
    both = SurveyDesign(pd.concat([design.frame, further], ignore_index=True), **design.roles(), labels=design.labels)
    return model.prepare(both, "ignore", mean_weight).some(np.arange(design.n))


@dataclass(frozen=True, repr=False)
class File:
    """A file in parts, and how its predictors become rows of the model matrix.

    Attributes
    ----------
    roles : Roles
    combinations : Combinations
    row_of : int array (combinations,)
        Row of the model matrix of each, in its first category.
    categories : Cells or None
        Those that are synthesized; the cell of each combination.
    """

    roles: Roles
    combinations: Combinations
    row_of: Codes
    categories: Cells | None

    @classmethod
    def of(cls, roles: Roles, combinations: Combinations, records: JointRecords, code: Codes) -> File:
        """From some of its records, of which every combination has one, and the combination of each (n,)."""
        cells = records.categories
        own = None if cells is None else replace(cells.public, cell=_by_combination(cells.cell, code))
        return cls(roles, combinations, _by_combination(records.row, code), own)

    @property
    def each(self) -> int:
        """Categories that a record can be in."""
        return 1 if self.categories is None else self.categories.K

    @property
    def tabulated(self) -> Combinations:
        """Combinations of predictors and categories, the latter fastest."""
        if self.categories is None:
            return self.combinations
        return self.combinations.crossed(self.categories.columns(np.arange(self.each)))

    def cell_of(self, rows: Codes) -> Codes:
        """Cells, within which categories are multinomial, of rows of the model matrix."""
        assert self.categories is not None
        cell = np.zeros(int(self.row_of.max()) + self.each, dtype=np.intp)
        for k in range(self.each):
            cell[self.row_of + k] = self.categories.cell
        return cell[rows]

    def categories_of(self, frame: pd.DataFrame) -> Codes:
        """Of the records of a part: (n,)."""
        return np.zeros(len(frame), dtype=np.intp) if self.categories is None else self.categories.categories_of(frame)


def _by_combination(of_records: Codes, code: Codes) -> Codes:
    """What records have, by their combination, of which each is there."""
    made = np.zeros(int(code.max()) + 1, dtype=np.intp)
    made[code] = of_records
    return made


@dataclass(frozen=True, repr=False)
class Scale:
    """How amounts and weights of a file in parts are taken to the scale of the model.

    Attributes
    ----------
    file : File
    transforms : tuple
        Of the outcomes.
    mean_weight : float
    """

    file: File
    transforms: tuple[Transform, ...]
    mean_weight: float

    def read(self, part: int) -> tuple[Floats, Codes, NDArray[np.bool_]]:
        """Values (n, D) of a part's records, rows of the model matrix, of their own category, and who has a zero."""
        file, roles = self.file, self.file.roles
        frame, first = roles.read(part), roles.parts.first(part)
        y, row = roles.amounts(frame, first), file.row_of[file.combinations.of(frame)] + file.categories_of(frame)
        columns = [transform.forward(own) for own, transform in zip(y.T, self.transforms, strict=True)]
        log_w = np.log(values_of(frame, roles.weights, first) / self.mean_weight)
        return np.column_stack([*columns, log_w]), row, roles.are_zero(y)


@dataclass(frozen=True, repr=False)
class Around:
    """A reference that records are placed around.

    Attributes
    ----------
    scale : Scale
    X : float array (G, K)
        Rows of the model matrix.
    kinds : tuple of Normal
        The reference's numbers: of all records, or of amounts and of zeros.
    """

    scale: Scale
    X: Floats
    kinds: tuple[Normal, ...]


def locate(around: Around, part: int) -> list[tuple[Floats, Codes]]:
    """Coordinates around the reference, (d, n), and rows of the model matrix, (n,), of a part's records, by kind.

    The row of a record is that of its own category.

    Raises
    ------
    InputError
        A record has no place on the scale of an outcome.
    """
    Y, row, zero = around.scale.read(part)
    located = []
    for normal, of_kind in zip(around.kinds, (~zero, zero), strict=False):
        rows_of_kind, own = row[of_kind], Y[of_kind, Y.shape[1] - len(normal.L) :]
        v = np.asarray(np.linalg.solve(normal.L, (own - (around.X @ normal.B)[rows_of_kind]).T), dtype=np.float64)
        wrong = np.zeros(len(row), dtype=bool)
        wrong[of_kind] = ~np.isfinite(v).all(axis=0)
        if wrong.any():
            first = around.scale.file.roles.parts.first(part)
            raise InputError(f"outcomes have no value on their scale in {rows(wrong, first=first + 1)}")
        located.append((v, rows_of_kind))
    return located


def place(around: Around, part: int) -> list[Points]:
    """The points of a public grid that the records of a part lie on, by kind (InputError: as :func:`locate`)."""
    return [Points.of(v, row) for v, row in locate(around, part)]


def points_of(scale: Scale, model: FBS, some: JointRecords, team: Workers, reference: Draws) -> JointRecords:
    """The records, as points of a grid around a reference where they are many."""
    file = scale.file
    density, parts = density_of(reference), file.roles.parts
    kinds: tuple[Normal, ...] = (density, density.of_zeros) if model.zeros else (density,)
    around = Around(scale, some.X, kinds)
    made: list[tuple[Codes, Floats, Floats | None]] = []
    if crowded(parts.n, len(some.X), len(density.L)):  # and so zeros are, which have one number less
        together: list[Points] = []
        for points in team.each(place, around, len(parts)):  # of which there are no more with more parts
            together = [Points.together(both) for both in zip(together, points, strict=True)] if together else points
        made = [points.records() for points in together]
    else:
        for located in zip(*team.each(locate, around, len(parts)), strict=True):
            v = np.concatenate([v for v, _ in located], axis=1).T
            made.append((np.concatenate([row for _, row in located]), v, None))
    row = np.concatenate([row for row, _, _ in made])
    Y = np.zeros((len(row), len(density.L)))  # of zeros y is not looked at
    zero = np.repeat([False, True][: len(made)], [len(row) for row, _, _ in made])
    for normal, of_kind, (rows_of_kind, v, _) in zip(kinds, (~zero, zero), made, strict=False):
        Y[of_kind, Y.shape[1] - len(normal.L) :] = (some.X @ normal.B)[rows_of_kind] + v @ normal.L.T
    counts = [count for _, _, count in made if count is not None]
    own, of = row % file.each, file.categories
    labels = None if of is None else Categories(of.names, of.levels, file.cell_of(row), of.cells, own)
    return replace(
        some, row=row - own, y=Y[:, :-1], log_w=Y[:, -1], zero=zero if model.zeros else None, categories=labels,
        count=np.concatenate(counts) if counts else None,
    )  # fmt: skip


def headings_of(parts: Parts, labels: Mapping[str, str] | None, frame: pd.DataFrame) -> dict[str, str]:
    """Headings of a frame's columns: those that are given, or those in the files."""
    return {name: text for name, text in (parts.headings | dict(labels or {})).items() if name in frame}
