"""Outcome and weight as noisy tables say they go together: fits, draws, and the cells of synthetic records.

formula terms  ->  a log-linear model of public cells
strata, PSUs   ->  effects of their levels on top of it, drawn anew for each data set
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..models.loglinear.bases import Response, one_hot, smooth_features
from ..models.loglinear.fitting import Perturbation, TableFit, draw, refitted
from ..models.loglinear.level_effects import LevelEffects, LevelRows, fit_levels, levels_from_pairs, tilted
from ..models.loglinear.response import Observed, Rows, Total, fit_response
from ..models.loglinear.table_model import TableModel
from ..validation import rows
from .groups import steps_of
from .measure import smoothed
from .noise import discrete_laplace
from .noisy_tables import NoisyTable, NoisyTables, Variable
from .terms import Term, public_cells
from .units import PARTS, Units

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

KNOWN = 0.003  # standard error of a known total, as a share of it: rounding
CLASSES = 5  # of strata or PSUs that are fitted as one, by their effects
PASSES = 2  # between the effects of a formula's terms, and those of strata and PSUs


@dataclass(frozen=True, eq=False, repr=False)
class PublicCells:
    """Combinations of public levels that records have: those of the formula's terms, by strata and PSUs.

    Attributes
    ----------
    steps : int array (C, T)
        Step of each term.
    n : int array (C,)
        Records.
    x : int array (C,)
        Combination of the formula's terms, without strata and PSUs.
    leaf : int array (C,)
        The level of the finest of strata and PSUs; 0 where there are none.
    levels : dict of str to int array (L,)
        Level of strata, PSUs and units of each leaf.
    pairs : dict of str to int array (levels,)
        Pairs of records that each level has, were they measured.
    times : float array (C,) or None
        What a record counts for, on average, where units of several records are protected.
    """

    steps: Codes
    n: Codes
    x: Codes
    leaf: Codes
    levels: Mapping[str, Codes]
    pairs: Mapping[str, Codes]
    times: Floats | None

    @classmethod
    def of(cls, measured: NoisyTables) -> PublicCells:
        """Of the records that were measured."""
        terms, n = [*measured.terms.values()], measured.n
        steps, cell, records = public_cells(terms, n)
        drawn = [k for k, term in enumerate(terms) if term.drawn]
        fixed = [k for k, term in enumerate(terms) if not term.drawn]
        x = np.unique(steps[:, fixed], axis=0, return_inverse=True)[1].ravel() if fixed else np.zeros(len(steps), int)
        x = np.asarray(x, dtype=np.intp)
        if not drawn:
            return cls(steps, records, x, np.zeros(len(steps), dtype=np.intp), {}, {}, None)
        leaf = steps[:, drawn[-1]]
        first = np.unique(leaf, return_index=True)[1]
        levels = {terms[k].name: steps[first, k] for k in drawn}
        pairs = {term.name: np.bincount(term.level) // 2 for term in terms if term.drawn}
        if measured.units not in levels:
            return cls(steps, records, x, leaf, levels, pairs, None)
        units = Units(terms[drawn[-1]].level, measured.most)
        pairs = {name: np.bincount(level) // 2 for name, level in levels.items()}  # one record of each unit
        pairs[measured.units] = np.minimum(np.bincount(units.of_record) // 2, 1)
        times = np.bincount(cell, units.parts) / PARTS / records
        return cls(steps, records, x, leaf, levels, pairs, times)

    @cached_property
    def first(self) -> Codes:
        """A combination of each x (X,)."""
        return np.asarray(np.unique(self.x, return_index=True)[1], dtype=np.intp)

    @cached_property
    def records(self) -> Floats:
        """Of each x (X,)."""
        return np.asarray(np.bincount(self.x, self.n), dtype=np.float64)

    def times_of(self, place: Codes) -> Floats | None:
        """What records of each place count for, places of combinations (C,) being from 0 to the last."""
        if self.times is None:
            return None
        return np.asarray(np.bincount(place, self.n * self.times) / np.bincount(place, self.n), dtype=np.float64)

    def units_of(self, terms: Iterable[Term], n: int) -> Codes:
        """The combination of each of n records, from their terms (n,).

        Raises
        ------
        InputError
            Some have none that was measured.
        """
        width = len(self.steps.T)
        steps = np.stack([term.step for term in terms], axis=1) if width else np.zeros((n, 0), dtype=np.intp)
        both = np.concatenate([self.steps, steps])
        code = np.unique(both, axis=0, return_inverse=True)[1].ravel() if width else np.zeros(len(both), dtype=np.intp)
        place = np.full(code.max() + 1, -1, dtype=np.intp)
        place[code[: len(self.steps)]] = np.arange(len(self.steps))
        unit = place[code[len(self.steps) :]]
        if (unit < 0).any():
            raise InputError(f"{rows(unit < 0)} have public values that were not measured")
        return unit

    def classes(self, effects: Floats, p: Floats) -> tuple[Codes, Floats]:
        """Leaves with similar effects (L, G) as one: the class of each (L,), and the effects of the classes (Q, G)."""
        weight = np.bincount(self.leaf, self.n)
        if len(effects) <= CLASSES:
            return np.arange(len(effects)), effects
        axis = np.linalg.svd((effects - weight @ effects / weight.sum()) * np.sqrt(p), full_matrices=False)[0][:, 0]
        order = np.argsort(axis, kind="stable")
        below = np.cumsum(weight[order]) - weight[order] / 2
        found = np.empty(len(effects), dtype=np.intp)
        found[order] = np.unique((below * CLASSES / weight.sum()).astype(np.intp), return_inverse=True)[1]
        share = one_hot(found, int(found.max()) + 1) * weight[:, None]
        return found, np.log((share / share.sum(axis=0)).T @ np.exp(effects))


Coefficients = tuple[Floats, ...]  # of strata and of PSUs, (L, K) each


@dataclass(frozen=True, eq=False, repr=False)
class VariableFit:
    """A variable given public cells, and in groups of an earlier variable where it depends on one.

    Attributes
    ----------
    cells : PublicCells
    base : TableModel
        Of a row for every x and every group of the earlier variable, without effects of strata and PSUs.
    fit : TableFit
        Of a model that has them in classes.
    share : float array (C, J)
        Probabilities of the groups of the earlier variable; (C, 1) ones without one.
    p : float array (G,)
        About how probable each cell is.
    effects : dict of str to LevelEffects
        Of strata and PSUs.
    """

    cells: PublicCells
    base: TableModel
    fit: TableFit
    share: Floats
    p: Floats
    effects: Mapping[str, LevelEffects]

    def changes(self, coefficients: Coefficients) -> Floats | None:
        """Changes of log probabilities by leaf (L, G)."""
        if not self.effects:
            return None
        of = zip(self.effects.items(), coefficients, strict=True)
        return np.asarray(sum(effect.of(b)[self.cells.levels[name]] for (name, effect), b in of))

    def drawn_levels(self, rng: np.random.Generator) -> Coefficients:
        """Effects of strata, PSUs and units from their whole distribution."""
        return tuple(effect.draw(rng) for effect in self.effects.values())

    def opposite(self, coefficients: Coefficients) -> Coefficients:
        """As probable, on the other side of the mean."""
        return tuple(2 * effect.mean - b for effect, b in zip(self.effects.values(), coefficients, strict=True))

    def model(self, coefficients: Coefficients) -> TableModel:
        """The model with these effects of strata and PSUs, in classes."""
        changes = self.changes(coefficients)
        if changes is None:
            return self.fit.model
        found, of_class = self.cells.classes(changes, self.p)
        Q, J = len(of_class), self.share.shape[1]
        code, place = np.unique(self.cells.x * Q + found[self.cells.leaf], return_inverse=True)
        n = np.bincount(place, self.cells.n)
        share = np.stack([np.bincount(place, self.cells.n * each) for each in self.share.T], axis=1) / n[:, None]
        unit = np.repeat(np.arange(len(code)), J)
        row = (code[:, None] // Q * J + np.arange(J)).ravel()
        return self.base.of_rows(
            row, unit, share.ravel(), n.astype(np.float64), of_class[code % Q][unit], self.cells.times_of(place)
        )

    def draw(self, by: Perturbation, coefficients: Coefficients) -> Floats:
        """Coefficients of the formula's terms."""
        return draw(self.fit, by, self.model(coefficients) if self.effects else None)

    def level_rows(self, theta: Floats) -> LevelRows:
        """Rows for every combination of public levels and every group of the earlier variable, by leaf."""
        J = self.share.shape[1]
        p = self.base.probabilities(theta)[(self.cells.x[:, None] * J + np.arange(J)).ravel()]
        counted = self.cells.n * (1.0 if self.cells.times is None else self.cells.times)
        records = (counted[:, None] * self.share).ravel()
        return LevelRows(p, records, np.repeat(self.cells.leaf, J), int(self.cells.leaf.max()) + 1)

    def with_levels(self, variable: Variable) -> VariableFit:
        """With effects of strata and PSUs, as far as they were measured."""
        tables = {table.by: table for table in variable.tables if table.by in self.cells.levels}
        made, response = self, Response(self.p, variable.cells.numbers)
        for turn in range(PASSES if tables else 0):
            every = made.level_rows(made.fit.theta)
            found: dict[str, LevelEffects] = {}
            leaf = every.level
            for name, level in self.cells.levels.items():
                table = tables[name]
                at = every.at(level[leaf], int(level.max()) + 1)
                groups, counts = one_hot(table.groups, table.counts.shape[1]), table.sums
                pairs = self.cells.pairs[name]
                effects = (
                    levels_from_pairs(response, at, groups, counts, table.variance, pairs, [*found.values()])
                    if table.pairs
                    else fit_levels(response, at, groups, counts, table.variance)
                )  # fmt: skip
                every, found[name] = at.tilted(effects.of(effects.mean)), effects
            made = replace(made, effects=found)
            typical = made.drawn_levels(np.random.default_rng(turn))
            made = replace(made, fit=refitted(made.fit, made.model(typical)))
        return made


@dataclass(frozen=True)
class VariableDraw:
    """Coefficients of one draw: of the formula's terms, and of strata and PSUs."""

    theta: Floats
    levels: Coefficients


@dataclass(frozen=True, eq=False, repr=False)
class Conditional:
    """Probabilities of a variable's cells, by x and by groups of the earlier variable, with changes by leaf."""

    p: Floats  # (X, J, G)
    changes: Floats | None

    def of_records(self, x: Codes, group: Codes, leaf: Codes) -> Floats:
        """Of the cells of each record (n, G)."""
        p = self.p[x, group]
        return p if self.changes is None else tilted(p, self.changes, leaf)


Draw = tuple[VariableDraw, VariableDraw | None]


@dataclass(frozen=True, eq=False, repr=False)
class JointFit:
    """Outcome given public columns, weight given outcome and public columns.

    Attributes
    ----------
    measured : NoisyTables
    cells : PublicCells
    outcome, weight : VariableFit
    steps : int array (G,)
        Step of each cell of the outcome, given which the weight is modelled.
    """

    measured: NoisyTables
    cells: PublicCells
    outcome: VariableFit
    weight: VariableFit | None
    steps: Codes

    def draws(self, count: int, rng: np.random.Generator, *, opposite: bool = True) -> Iterator[Draw]:
        """So many draws of the coefficients.

        Every second one is perturbed in the ``opposite`` way of the one before, so that the mean of all draws is about
        the fit.  Without that all have the same effects of strata and PSUs: they differ by noise and prior alone.
        """
        variables = [(self.measured.outcome, self.outcome)]
        if self.weight is not None and self.measured.weight is not None:
            variables.append((self.measured.weight, self.weight))
        levels = [fit.drawn_levels(rng) for _, fit in variables]
        by: list[Perturbation] = []
        for k in range(count):
            if k % 2 == 0 or not opposite:
                by = [_perturbation(variable, fit.fit, rng) for variable, fit in variables]
            else:
                by = [-each for each in by]
            if opposite and k:
                levels = [
                    fit.opposite(each) if k % 2 else fit.drawn_levels(rng)
                    for (_, fit), each in zip(variables, levels, strict=True)
                ]
            made = [
                VariableDraw(fit.draw(each, of_levels), of_levels)
                for (_, fit), each, of_levels in zip(variables, by, levels, strict=True)
            ]
            yield made[0], made[1] if len(made) > 1 else None

    def probabilities(self, of: Draw) -> tuple[Conditional, Conditional | None]:
        """Of the cells of the outcome, and of those of the weight by the outcome's steps."""
        y = _conditional(self.outcome, of[0])
        return y, None if self.weight is None or of[1] is None else _conditional(self.weight, of[1])


def _conditional(fit: VariableFit, of: VariableDraw) -> Conditional:
    p = fit.base.probabilities(of.theta)
    return Conditional(p.reshape(-1, fit.share.shape[1], p.shape[1]), fit.changes(of.levels))


def _perturbation(variable: Variable, fit: TableFit, rng: np.random.Generator) -> Perturbation:
    """Fresh noise of each table's own law, and normal errors of known totals and of prior means."""
    counted = [
        discrete_laplace(rng, table.epsilon / table.unit, table.counts.size) / table.per
        for table in _of_terms(variable)
    ]
    known = fit.noise[sum(len(noise) for noise in counted) :]
    noise = np.concatenate([*counted, rng.standard_normal(len(known)) * np.sqrt(known)])
    return Perturbation.of(fit, noise, rng)


def _of_terms(variable: Variable) -> list[NoisyTable]:
    """Tables of the histogram, the formula's terms and earlier variables: not those of strata and PSUs."""
    return [table for table in variable.tables if table.by is None or table.by in (*variable.terms, *variable.parents)]


def fit_measurements(measured: NoisyTables) -> JointFit:
    """Fit outcome and weight to what was measured."""
    every = [*measured.terms.values()]
    cells = PublicCells.of(measured)
    fixed = [(k, term) for k, term in enumerate(every) if not term.drawn]
    step = {term.name: cells.steps[cells.first, k] for k, term in fixed}
    levels = {}
    for k, term in fixed:
        level_of_step = np.zeros(term.step.max() + 1, dtype=np.intp)
        level_of_step[term.step] = term.level
        levels[term.name] = level_of_step[cells.steps[cells.first, k]]
    features = [
        z for _, term in fixed
        for z in (
            [one_hot(step[term.name], term.levels)] if term.score is None
            else [f[step[term.name]] for f in smooth_features(term.score)]
        )
    ]  # fmt: skip
    X, times = len(cells.first), cells.times_of(cells.x)
    of_x = Rows(np.arange(X), np.ones(X), cells.records, times)
    y = _fit(measured.outcome, cells, of_x, features, levels, None, [], np.ones((len(cells.x), 1)))
    if measured.weight is None:
        return JointFit(measured, cells, y, None, np.zeros(0, dtype=np.intp))
    steps, group, parent = _parent(measured, y)
    J = len(group)
    p = y.level_rows(y.fit.theta)
    if (mean := y.changes(tuple(effect.mean for effect in y.effects.values()))) is not None:
        p = p.tilted(mean)
    share = p.p @ one_hot(steps, J)
    of_group = np.stack([np.bincount(cells.x, cells.n * each) for each in share.T], axis=1) / cells.records[:, None]
    by_parent = Rows(np.repeat(np.arange(X), J), of_group.ravel(), cells.records, times)
    of, within = by_parent.unit, np.tile(np.arange(J), X)
    assert measured.weight.cells.bins is not None
    values = measured.weight.cells.bins.means
    N = measured.population_total
    totals = [Total(np.zeros(X * J, dtype=np.intp), values, np.array([N]), np.array([KNOWN * N]))]
    totals += [
        Total(levels[name][of], values, np.asarray(known), KNOWN * np.asarray(known))
        for name, known in measured.population_totals.items()
    ]
    w = _fit(
        measured.weight, cells, by_parent, [*(z[within] for z in parent), *(z[of] for z in features)],
        {name: level[of] for name, level in levels.items()}, group[within], totals, share,
    )  # fmt: skip
    return JointFit(measured, cells, y, w, steps)


def _parent(measured: NoisyTables, y: VariableFit) -> tuple[Codes, Codes, list[Floats]]:
    """Steps of the outcome's cells on which the weight depends, the group of each step, its features by effect (J, A).

    Steps are finer than the groups of the table: within the first and the last group weights go on to change.
    """
    assert measured.weight is not None
    groups = next(table.by_groups for table in measured.weight.tables if table.by_groups is not None)
    numbers, p = measured.outcome.cells.numbers, y.fit.model.records @ y.fit.model.probabilities(y.fit.theta)
    steps = steps_of(p, groups, numbers)
    group = groups[np.unique(steps, return_index=True)[1]]
    J, many = len(group), int(steps[numbers - 1]) + 1 if numbers else 0
    features = []
    if many:
        response = Response(p, numbers)
        inside = one_hot(steps[:numbers], J)[:, :many]
        mean = (inside.T @ (response.bins * response.scores)) / np.maximum(inside.T @ response.bins, 1e-12)
        features = [np.pad(z, ((0, J - many), (0, 0))) for z in smooth_features(mean)]
    return steps, group, [*features, *([np.eye(J)[:, many:]] if many < J else [])]


def _fit(
    variable: Variable, cells: PublicCells, of_x: Rows, features: list[Floats], levels: dict[str, Codes],
    parent: Codes | None, totals: list[Total], share: Floats,
) -> VariableFit:  # fmt: skip
    counted = of_x.n if of_x.times is None else of_x.n * of_x.times
    p = smoothed(variable.tables[0], variable.cells, counted.sum())
    observed = [_observed(table, len(of_x.unit), levels, parent) for table in _of_terms(variable)]
    fit = fit_response(of_x, features, observed, totals, p, variable.cells.numbers, variable.cells.tail)
    return VariableFit(cells, fit.model, fit, share, p, {}).with_levels(variable)


def _observed(table: NoisyTable, rows: int, levels: dict[str, Codes], parent: Codes | None) -> Observed:
    if table.by is None:
        level = np.zeros(rows, dtype=np.intp)
    elif table.by_groups is not None:
        assert parent is not None
        level = parent
    else:
        level = levels[table.by]
    return Observed(level, table.adds, table.sums, table.variance)


def drawn(probabilities: Floats, rng: np.random.Generator) -> Codes:
    """An index for each row of probabilities (n, G), by inversion: random numbers in common make similar draws."""
    found = (rng.random(len(probabilities))[:, None] > np.cumsum(probabilities, axis=1)).sum(axis=1)
    return np.minimum(found, probabilities.shape[1] - 1)
