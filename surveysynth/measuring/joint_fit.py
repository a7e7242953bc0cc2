"""Outcome and weight as noisy tables say they go together: fits, draws, and the cells of synthetic records.

formula terms        ->  a log-linear model of public cells
strata, PSUs, units  ->  effects of their levels on top of it, drawn anew for each data set
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..models.loglinear.bases import Response, one_hot, smooth_features
from ..models.loglinear.fitting import Perturbation
from ..models.loglinear.response import Observed, Rows, Total, fit_response
from .groups import steps_of
from .measure import smoothed
from .noisy_tables import SCORE_UNIT, NoisyTable, NoisyTables, Variable
from .public_cells import PublicCells
from .variable_fit import Conditional, VariableDraw, VariableFit, conditional, of_terms, perturbation

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

KNOWN = 0.003  # standard error of a known total, as a share of it: rounding

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
                by = [perturbation(variable, fit.fit, rng) for variable, fit in variables]
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
        y = conditional(self.outcome, of[0])
        return y, None if self.weight is None or of[1] is None else conditional(self.weight, of[1])


@dataclass(frozen=True, eq=False, repr=False)
class Earlier:
    """An earlier variable, in the rows of the model of a later one.

    Attributes
    ----------
    group : callable
        From groups of its cells (G,), which its steps are parts of, to that of each row (R,).
    mean : callable
        From a number for each of its cells (G,) to the mean of each row (R,).
    """

    group: Callable[[Codes], Codes]
    mean: Callable[[Floats], Floats]


def fit_measurements(measured: NoisyTables) -> JointFit:
    """Fit outcome and weight to what was measured."""
    every = [*measured.terms.values()]
    cells = PublicCells.of(measured)
    fixed = [(k, term) for k, term in enumerate(every) if not term.drawn]
    step = {term.name: cells.steps[cells.first, k] for k, term in fixed}
    levels = {term.name: term.level_of_step[step[term.name]] for _, term in fixed}
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
    steps, parent = _parent(measured, y)
    J = int(steps.max()) + 1
    p = y.level_rows(y.fit.theta)
    if (mean := y.changes(tuple(effect.mean for effect in y.effects.values()))) is not None:
        p = p.tilted(mean)
    share = p.p @ one_hot(steps, J)
    of_group = cells.mean_of(share, cells.x)
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
    earlier = Earlier(
        lambda groups: groups[np.unique(steps, return_index=True)[1]][within],
        lambda scores: (cells.mean_of((p.p * scores) @ one_hot(steps, J), cells.x) / of_group).ravel(),
    )
    w = _fit(
        measured.weight, cells, by_parent, [*(z[within] for z in parent), *(z[of] for z in features)],
        {name: level[of] for name, level in levels.items()}, earlier, totals, share,
    )  # fmt: skip
    return JointFit(measured, cells, y, w, steps)


def _parent(measured: NoisyTables, y: VariableFit) -> tuple[Codes, list[Floats]]:
    """Steps of the outcome's cells on which the weight depends, and their features by effect (J, A).

    Steps are finer than the groups of the table: within the first and the last group weights go on to change.
    """
    assert measured.weight is not None
    groups = next(table.by_groups for table in measured.weight.tables if table.by == measured.outcome.name)
    assert groups is not None
    numbers, p = measured.outcome.cells.numbers, y.fit.model.records @ y.fit.model.probabilities(y.fit.theta)
    steps = steps_of(p, groups, numbers)
    J, many = int(steps.max()) + 1, int(steps[numbers - 1]) + 1 if numbers else 0
    features = []
    if many:
        response = Response(p, numbers)
        inside = one_hot(steps[:numbers], J)[:, :many]
        mean = (inside.T @ (response.bins * response.scores)) / np.maximum(inside.T @ response.bins, 1e-12)
        features = [np.pad(z, ((0, J - many), (0, 0))) for z in smooth_features(mean)]
    return steps, [*features, *([np.eye(J)[:, many:]] if many < J else [])]


def _fit(
    variable: Variable, cells: PublicCells, of_x: Rows, features: list[Floats], levels: dict[str, Codes],
    earlier: Earlier | None, totals: list[Total], share: Floats,
) -> VariableFit:  # fmt: skip
    counted = of_x.n if of_x.times is None else of_x.n * of_x.times
    p = smoothed(variable.tables[0], variable.cells, counted.sum())
    observed = [_observed(table, len(of_x.unit), levels, earlier) for table in of_terms(variable)]
    fit = fit_response(of_x, features, observed, totals, p, variable.cells.numbers, variable.cells.tail)
    return VariableFit(cells, fit.model, fit, share, p, {}).with_levels(variable)


def _observed(table: NoisyTable, rows: int, levels: dict[str, Codes], earlier: Earlier | None) -> Observed:
    times = None
    if table.by is None:
        level = np.zeros(rows, dtype=np.intp)
    elif table.by_groups is None:
        level = levels[table.by]
    else:
        assert earlier is not None
        level = earlier.group(table.by_groups)
        if table.by_scores is not None:
            level = levels[table.by] * (int(table.by_groups.max()) + 1) + level
            times = earlier.mean(table.by_scores / SCORE_UNIT)
    return Observed(level, table.adds, table.sums, table.variance, times)


def drawn(probabilities: Floats, rng: np.random.Generator) -> Codes:
    """An index for each row of probabilities (n, G), by inversion: random numbers in common make similar draws."""
    found = (rng.random(len(probabilities))[:, None] > np.cumsum(probabilities, axis=1)).sum(axis=1)
    return np.minimum(found, probabilities.shape[1] - 1)
