"""Fit of one variable to its noisy tables: effects of formula terms, then effects of strata, PSUs and units.

Shapes: C public cells (:mod:`.public_cells`), K parts of public cells (:mod:`.expanded`), L leaves (levels of the
finest of strata, PSUs and units), R rows of the model (records in the same row have the same distribution), and G cells
of a variable (bins of numbers and special values).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..models.loglinear.bases import Response, one_hot
from ..models.loglinear.level_effects import LevelEffects, LevelRows, fit_levels, levels_from_pairs, tilted
from ..models.loglinear.table_fit import Perturbation, TableFit, draw, refitted
from ..models.loglinear.table_model import TableModel
from .expanded import LEAST, Expanded
from .noisy_tables import NoisyTable, Variable
from .public_cells import PublicCells
from .row_probabilities import RowProbabilities
from .table_noise import simulated_noise
from .terms import combined

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool_]

CENTRINGS, NEAR = 20, 1e-3  # largest number of steps to centre draws; sum of differences of shares at which steps end
PASSES = 2  # how often effects of formula terms and effects of strata, PSUs and units are fitted in turn
Coefficients = tuple[Floats, ...]  # for strata, PSUs and units, an array (levels, coefficients of a level)


@dataclass(frozen=True, eq=False, repr=False)
class Feature:
    """Predictors of one effect: functions of a term or an earlier variable, possibly times scores of another variable.

    A step is a group of the values of a term or of an earlier variable, which is called the source.

    Attributes
    ----------
    source : str or None
        The term or the earlier variable with the steps.  None means that the effect is the same for all records.
    by_step : float array (S, A)
        A predictors of each step.
    times : str, optional
        The earlier variable whose scores multiply these predictors.
    score : float array (G, J), optional
        J scores of each cell of the variable ``times``.
    """

    source: str | None
    by_step: Floats
    times: str | None = None
    score: Floats | None = None

    def rows(self, step: Codes, cell: Codes | None) -> Floats:
        """Compute the predictors of the effect in each row of a model.

        ``step`` (R,) is each row's step of the source, and ``cell`` (R,) is each row's cell of the variable ``times``.
        Return an array (R, A), or (R, A J) with scores.
        """
        z = self.by_step[step]
        if cell is None or self.score is None:
            return z
        return (z[:, :, None] * self.score[cell][:, None, :]).reshape(len(z), -1)


@dataclass(frozen=True, eq=False, repr=False)
class VariableFit:
    """The fit of a variable given public cells and earlier variables.

    Attributes
    ----------
    cells : PublicCells
        Combinations of public levels.
    expanded : Expanded
        Parts of the public cells.
    row : int array (K,)
        Row of the model to which each part belongs.
    x : int array (C,)
        For each public cell, the number of its combination of the variable's own public terms.
    steps : dict of str to int array (G,)
        For each earlier variable, the step of each of that variable's cells.
    features : sequence of Feature
        Predictors of each effect, except for the effect that is the same for all records.
    base : TableModel
        The model without effects of strata, PSUs and units.
    fit : TableFit
        The fit of the model with effects of classes of strata, PSUs or units (:meth:`.PublicCells.classes`).
    p : float array (G,)
        Approximate probability of each cell.
    past : int
        Number of counts of an earlier year in the fit.
    effects : dict of str to LevelEffects
        For each of strata, PSUs and units that have effects: the effects of all levels.
    """

    cells: PublicCells
    expanded: Expanded
    row: Codes
    x: Codes
    steps: Mapping[str, Codes]
    features: Sequence[Feature]
    base: TableModel
    fit: TableFit
    p: Floats
    effects: Mapping[str, LevelEffects]
    past: int = 0

    def changes(self, coefficients: Coefficients) -> Floats | None:
        """Sum the effects of strata, PSUs and units on the log probabilities of cells.

        ``coefficients`` has an array (levels, coefficients) for each of strata, PSUs and units.  Return an array (L, G)
        with the sum for each leaf, or None if there are no effects.
        """
        if not self.effects:
            return None
        pairs = zip(self.effects.items(), coefficients, strict=True)
        return np.asarray(sum(effect.log_changes(b)[self.cells.levels[name]] for (name, effect), b in pairs))

    @property
    def mean_levels(self) -> Coefficients:
        """The most probable coefficients of strata, PSUs and units."""
        return tuple(effect.mean for effect in self.effects.values())

    def drawn_levels(self, rng: np.random.Generator) -> Coefficients:
        """Draw coefficients of strata, PSUs and units from their posterior distribution."""
        return tuple(effect.draw(rng) for effect in self.effects.values())

    def opposite(self, coefficients: Coefficients) -> Coefficients:
        """Reflect coefficients of strata, PSUs and units at their mean: 2 mean - coefficients.

        The result is as probable as the given coefficients.
        """
        return tuple(2 * mean - b for mean, b in zip(self.mean_levels, coefficients, strict=True))

    def model(self, coefficients: Coefficients) -> TableModel:
        """Build the model in which strata, PSUs and units have given effects.

        ``coefficients`` has an array (levels, coefficients) for each of strata, PSUs and units.  Leaves with similar
        effects form a class.  The rows of the model are combinations of a row of the model without effects and a class,
        and a class has the mean effect of its leaves.  So the model has far fewer rows than with a row for each leaf.
        """
        changes = self.changes(coefficients)
        if changes is None:
            return self.fit.model
        found, members = self.cells.classes(changes, self.p)
        Q, R = len(members), len(self.base.unit)
        code, place = np.unique(self.x * Q + found[self.cells.leaf], return_inverse=True)
        n = np.bincount(place, self.cells.n)
        cell = self.expanded.cell
        part, at = np.unique(place[cell] * R + self.row, return_inverse=True)
        unit, row = np.divmod(part, R)
        share = np.bincount(at, self.cells.n[cell] * self.expanded.share) / n[unit]
        offset, base = self._mean_effects(changes, members)[row, code[unit] % Q], self.base
        if base.offset is not None:
            offset = offset + base.offset[row]
        past = np.arange(int(self.row.max()) + 1, len(base.unit))  # rows of an earlier year do not change
        X = self.cells_now
        unit = np.concatenate([unit, base.unit[past] - X + len(n)])
        offset = np.concatenate([offset, np.zeros((len(past), offset.shape[1]))])
        times = self.cells.times_of(place)
        return base.for_rows(
            np.concatenate([row, past]), unit, np.concatenate([share, base.share[past]]),
            np.concatenate([n.astype(np.float64), base.n[X:]]), offset, times,
        )  # fmt: skip

    @cached_property
    def _without_levels(self) -> Floats:
        """Fitted probabilities of the cells in each row of the model, without effects of strata, PSUs and units."""
        return np.maximum(self.base.probabilities(self.fit.theta), LEAST)

    def _mean_effects(self, changes: Floats, members: Sequence[tuple[Codes, Floats]]) -> Floats:
        """Compute the mean effect of each class of strata, PSUs or units on the log probabilities of cells.

        Return an array (R, classes, G).  ``changes`` (L, G) are the effects of the leaves.  ``members`` has, for each
        class, the leaves that represent the class and their shares.  With the mean effect of a class, the probabilities
        of a row of the model are the weighted means of the probabilities with the effects of these leaves.
        """
        p = self._without_levels
        out, every = np.empty((len(p), len(members), p.shape[1])), np.zeros(len(p), dtype=np.intp)
        for k, (leaves, shares) in enumerate(members):
            mean = sum(share * tilted(p, changes[[leaf]], every) for leaf, share in zip(leaves, shares, strict=True))
            out[:, k] = np.log(np.maximum(mean, LEAST) / p)
        return out

    def draw(self, by: Perturbation, coefficients: Coefficients) -> Floats:
        """Draw the coefficients of the formula's terms: fit the model again, to tables with simulated errors.

        ``by`` has the simulated errors of tables and priors.  ``coefficients`` are the coefficients of strata, PSUs and
        units.
        """
        return draw(self.fit, by, self.model(coefficients) if self.effects else None)

    def level_rows(self, theta: Floats) -> LevelRows:
        """Compute the cell probabilities of all parts of public cells, without effects of strata, PSUs and units.

        The rows of the result are the K parts, with their numbers of records, and the level of a row is its leaf.
        ``theta`` has the coefficients of the formula's terms.
        """
        cell = self.expanded.cell
        records = self.cells.counted[cell] * self.expanded.share
        leaves = int(self.cells.leaf.max()) + 1
        return LevelRows(self.base.probabilities(theta)[self.row], records, self.cells.leaf[cell], leaves)

    def with_levels(self, variable: Variable) -> VariableFit:
        """Return the fit with effects of strata, PSUs and units, if ``variable`` has tables by any of these groups."""
        tables = {table.by: table for table in variable.answers if table.by in self.cells.levels}
        made, response = self, Response(self.p, variable.cells.numbers)
        for turn in range(PASSES if tables else 0):
            every = made.level_rows(made.fit.theta)
            found: dict[str, LevelEffects] = {}
            leaf = every.level
            for name, level in self.cells.levels.items():
                table = tables[name]
                at = every.at(level[leaf], int(level.max()) + 1)
                groups, counts = one_hot(table.groups, table.counts.shape[1]), table.sums
                asked = at.sums(np.ones(len(at.p))) / np.bincount(level[self.cells.leaf], self.cells.counted)
                pairs = self.cells.pairs[name] * asked**2
                effects = (
                    levels_from_pairs(response, at, groups, counts, table.variance, pairs, [*found.values()])
                    if table.pairs
                    else fit_levels(response, at, groups, counts, table.variance)
                )  # fmt: skip
                every, found[name] = at.tilted(effects.log_changes(effects.mean)), effects
            made = replace(made, effects=found)
            typical = made.drawn_levels(np.random.default_rng(turn))
            made = replace(made, fit=refitted(made.fit, made.model(typical)))
        return made

    def most_probable(self) -> LevelRows:
        """Compute the cell probabilities of all parts of public cells, with effects of strata, PSUs and units.

        The effects have their most probable values.
        """
        rows = self.level_rows(self.fit.theta)
        changes = self.changes(self.mean_levels)
        return rows if changes is None else rows.tilted(changes)

    def margin(self, drawn: VariableDraw) -> Floats:
        """Compute the expected count of this year's records in each cell (G,), with the coefficients of a draw."""
        if (changes := self.changes(drawn.levels)) is not None:
            every = self.level_rows(drawn.theta).tilted(changes)
            return np.asarray(every.records @ every.p)
        model = self.base.sketch
        return np.asarray((self.is_now(model) * model.counted) @ model.probabilities(drawn.theta))

    def margin_of_fit(self) -> Floats:
        """Compute the expected count of this year's records in each cell (G,), with the fitted coefficients."""
        if not self.effects:
            return self.margin(VariableDraw(self.fit.theta, ()))
        model = self.fit.model
        return np.asarray((self.is_now(model) * model.counted) @ model.probabilities(self.fit.theta))

    @cached_property
    def cells_now(self) -> int:
        """Number of this year's combinations of levels of the variable's public terms.

        Combinations of an earlier year have higher numbers.
        """
        return int(self.base.unit[: int(self.row.max()) + 1].max()) + 1

    def is_now(self, model: TableModel) -> Bools:
        """Return True for each row of a model that belongs to this year, not to an earlier year."""
        return np.asarray(model.unit < len(model.n) - (len(self.base.n) - self.cells_now))

    def probabilities(self, drawn: VariableDraw, cell: Codes, code: Mapping[str, Codes]) -> RowProbabilities:
        """Compute the probabilities of the variable's cells for each of n records.

        Parameters
        ----------
        drawn : VariableDraw
            Coefficients of all effects.
        cell : int array (n,)
            Public cell of each record.
        code : dict of str to int array (n,)
            For each earlier variable, the cell of each record.
        """
        scored = {feature.times for feature in self.features if feature.times is not None}
        alike = [self.x[cell], *(code[name] if name in scored else at[code[name]] for name, at in self.steps.items())]
        first, record = combined(alike)
        rows = [np.ones((len(first), 1))]
        for feature in self.features:
            if feature.source is None:
                rows.append(np.ones((len(first), 1)))
                continue
            if feature.source in self.steps:
                step = self.steps[feature.source][code[feature.source][first]]
            else:
                step = self.cells.step[feature.source][cell[first]]
            rows.append(feature.rows(step, None if feature.times is None else code[feature.times][first]))
        p = self.base.for_features(rows).probabilities(drawn.theta)
        changes = self.changes(drawn.levels)
        if changes is None:
            return RowProbabilities(p, record)
        first, by_leaf = combined([record, self.cells.leaf[cell]])
        return RowProbabilities(tilted(p[record[first]], changes, self.cells.leaf[cell[first]]), by_leaf)


@dataclass(frozen=True)
class VariableDraw:
    """Coefficients of one draw: ``theta`` for the formula's terms, ``levels`` for strata, PSUs and units."""

    theta: Floats
    levels: Coefficients


def perturbation(variable: Variable, made: VariableFit, rng: np.random.Generator) -> Perturbation:
    """Simulate the errors of one draw: new noise for each table, and normal errors of known totals and priors.

    ``made`` is the fit of the variable.  The errors of the tables of an earlier year include sampling errors as well as
    noise.
    """
    fit = made.fit
    counted = [
        simulated_noise(rng, table.epsilon / table.unit, table.counts.size, gaussian=table.gaussian) / table.per
        for table in term_tables(variable)
    ]
    size = sum(len(noise) for noise in counted)
    past = slice(size, size + made.past)
    if made.past:
        counted.append(fit.root[past, past] @ rng.standard_normal(made.past))
    known = fit.noise[size + made.past :]
    noise = np.concatenate([*counted, rng.standard_normal(len(known)) * np.sqrt(known)])
    return Perturbation.for_fit(fit, noise, rng)


def centred(fit: VariableFit, draws: Sequence[VariableDraw]) -> list[VariableDraw]:
    """Shift draws so that the cell probabilities, averaged over all draws and records, equal those of the fit.

    Probabilities are convex in the coefficients, and coefficients are most uncertain in the tails.  Without the shift,
    draws would therefore have more records in the tails than the fit, on average.  The shift of the log density is the
    same for all draws, so that differences between draws do not change.
    """
    if len(draws) < 2:
        return [*draws]
    aim, first = fit.margin_of_fit(), fit.base.places[0]
    each = slice(first.stop - len(aim), first.stop)  # coefficients of single cells: heaps, then special values
    for _ in range(CENTRINGS):
        mean = np.mean([fit.margin(one) for one in draws], axis=0)
        if np.abs(mean / mean.sum() - aim / aim.sum()).sum() < NEAR:
            break
        change = np.zeros_like(fit.fit.theta)
        change[each] = np.log(np.maximum(aim, LEAST) / np.maximum(mean, LEAST))
        draws = [replace(one, theta=one.theta + change) for one in draws]
    return [*draws]


def term_tables(variable: Variable) -> list[NoisyTable]:
    """List the histogram and the tables by formula terms and earlier variables, not those by strata, PSUs and units."""
    return [table for table in variable.answers if table.by is None or table.by in variable.terms]
