"""Variables in sequence as noisy tables say they go together: fits, draws, and the cells of synthetic records.

formula terms        ->  a log-linear model of public cells, and of earlier variables
strata, PSUs, units  ->  effects of their levels on top of it, drawn anew for each data set
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..models.loglinear.bases import Response, one_hot, smooth_features
from ..models.loglinear.fitting import Perturbation
from ..models.loglinear.response import Observed, Rows, Total, fit_response
from .expanded import LEAST, Expanded, by_one, by_simulated, without_earlier
from .groups import steps_of
from .measure import smoothed
from .noisy_tables import SCORE_UNIT, WEIGHT, NoisyTable, NoisyTables, Variable
from .public_cells import PublicCells, combined
from .variable_fit import Feature, VariableDraw, VariableFit, of_terms, perturbation

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

KNOWN = 0.003  # standard error of a known total, as a share of it: rounding
SIMULATED = 4_000  # records by which several earlier variables stand, about

Draw = tuple[VariableDraw, ...]


@dataclass(frozen=True, eq=False, repr=False)
class JointFit:
    """Outcomes given public columns and earlier outcomes, and the weight given all of them.

    Attributes
    ----------
    measured : NoisyTables
    cells : PublicCells
    variables : dict of str to VariableFit
        In sequence, the weight last.
    """

    measured: NoisyTables
    cells: PublicCells
    variables: Mapping[str, VariableFit]

    def draws(self, count: int, rng: np.random.Generator, *, opposite: bool = True) -> Iterator[Draw]:
        """So many draws of the coefficients.

        Every second one is perturbed in the ``opposite`` way of the one before, so that the mean of all draws is about
        the fit.  Without that all have the same effects of strata and PSUs: they differ by noise and prior alone.
        """
        fits = [*self.variables.values()]
        levels = [fit.drawn_levels(rng) for fit in fits]
        by: list[Perturbation] = []
        for k in range(count):
            if k % 2 == 0 or not opposite:
                by = [
                    perturbation(variable, fit.fit, rng)
                    for variable, fit in zip(self.measured.variables, fits, strict=True)
                ]
            else:
                by = [-each for each in by]
            if opposite and k:
                levels = [
                    fit.opposite(each) if k % 2 else fit.drawn_levels(rng)
                    for fit, each in zip(fits, levels, strict=True)
                ]
            yield tuple(
                VariableDraw(fit.draw(each, of_levels), of_levels)
                for fit, each, of_levels in zip(fits, by, levels, strict=True)
            )


def fit_measurements(measured: NoisyTables) -> JointFit:
    """Fit every variable to what was measured of it, in sequence."""
    cells, fits, codes = PublicCells.of(measured), dict[str, VariableFit](), dict[str, Codes]()
    alone = {variable.name for variable in measured.variables if not variable.parents}
    exact = all(len(variable.parents) < 2 and {*variable.parents} <= alone for variable in measured.variables)
    simulated = None if exact else _simulated(cells)
    rng = np.random.default_rng(0)  # public, so that every reader has the same fit
    for variable in measured.variables:
        fits[variable.name] = fit = _fit(measured, variable, cells, fits, simulated, codes)
        if simulated is not None and variable.name != WEIGHT:
            typical = VariableDraw(fit.fit.theta, fit.mean_levels)
            codes[variable.name] = drawn(fit.probabilities(typical, simulated, codes), rng)
    return JointFit(measured, cells, fits)


def _simulated(cells: PublicCells) -> Codes:
    """Combinations of simulated records: as often as records have them, and each at least once."""
    times = np.maximum(np.rint(cells.n * (SIMULATED / cells.n.sum())), 1).astype(np.intp)
    return np.repeat(np.arange(len(cells.n)), times)


def _fit(
    measured: NoisyTables, variable: Variable, cells: PublicCells, fits: Mapping[str, VariableFit],
    simulated: Codes | None, codes: Mapping[str, Codes],
) -> VariableFit:  # fmt: skip
    """Fit one variable, given the fits of those that it depends on."""
    steps, features = dict[str, Codes](), list[Feature]()
    for name in variable.parents:
        steps[name], by_step = _steps(variable, measured.variable(name), fits[name])
        features += [Feature(name, z) for z in by_step]
    terms = [measured.terms[name] for name in variable.terms]
    for term in terms:
        smooth = [np.eye(term.levels)] if term.score is None else smooth_features(term.score)
        features += [Feature(term.name, z) for z in smooth]

    x, expanded = cells.by(variable.terms), _expanded(cells, fits, steps, simulated, codes)
    first, row = combined([x[expanded.cell], *expanded.step.values()])
    inside = cells.n[expanded.cell] * expanded.share
    weight, records = np.bincount(row, inside), np.bincount(x, cells.n).astype(np.float64)
    unit = x[expanded.cell[first]]
    rows = Rows(unit, weight / records[unit], records, cells.times_of(x))
    step = {term.name: cells.step[term.name][expanded.cell[first]] for term in terms}
    step |= {name: of[first] for name, of in expanded.step.items()}
    level = {term.name: term.level_of_step[step[term.name]] for term in terms}

    def mean(name: str, values: Floats) -> Floats:
        return np.asarray(np.bincount(row, inside * expanded.mean[name](values)) / np.maximum(weight, LEAST))

    observed = []
    for table in of_terms(variable):
        at = np.zeros(len(first), dtype=np.intp) if table.by is None else level[table.by]
        times = None
        if table.earlier is not None and table.by_groups is not None:
            groups = table.by_groups[np.unique(steps[table.earlier], return_index=True)[1]]
            at = at * (int(groups.max()) + 1) + groups[step[table.earlier]]
            times = None if table.by_scores is None else mean(table.earlier, table.by_scores / SCORE_UNIT)
        observed.append(Observed(at, table.adds, table.sums, table.variance, times))
    p = smoothed(variable.tables[0], variable.cells, cells.counted.sum())
    totals = _totals(measured, level, len(first)) if variable.name == WEIGHT else []
    of_rows = [feature.by_step[step[feature.of]] for feature in features]
    fit = fit_response(rows, of_rows, observed, totals, p, variable.cells.numbers, variable.cells.tail)
    features += [_product(table, measured) for table in of_terms(variable) if table.by_scores is not None]
    return VariableFit(cells, expanded, row, x, steps, features, fit.model, fit, p, {}).with_levels(variable)


def _product(table: NoisyTable, measured: NoisyTables) -> Feature:
    """What the effect of a table of products depends on: levels of a term, by kind and score of an earlier variable."""
    assert table.by is not None and table.by_groups is not None and table.by_scores is not None
    term, kinds = measured.terms[table.by], one_hot(table.by_groups, int(table.by_groups.max()) + 1)
    levels = one_hot(term.level_of_step, term.levels)
    return Feature(term.name, levels, table.earlier, kinds * table.by_scores[:, None] / SCORE_UNIT)


def _totals(measured: NoisyTables, level: Mapping[str, Codes], rows: int) -> list[Total]:
    """What is known of the sums of weights: of all, and of levels."""
    assert measured.weight is not None and measured.weight.cells.bins is not None
    values, N = measured.weight.cells.bins.means, measured.population_total
    return [
        Total(np.zeros(rows, dtype=np.intp), values, np.array([N]), np.array([KNOWN * N])),
        *(Total(level[name], values, np.asarray(known), KNOWN * np.asarray(known))
          for name, known in measured.population_totals.items()),
    ]  # fmt: skip


def _expanded(
    cells: PublicCells, fits: Mapping[str, VariableFit], steps: Mapping[str, Codes], simulated: Codes | None,
    codes: Mapping[str, Codes],
) -> Expanded:  # fmt: skip
    """Parts of the public cells by the earlier variables that one depends on."""
    if not steps:
        return without_earlier(len(cells.n))
    if simulated is None:
        ((name, of),) = steps.items()
        return by_one(name, of, fits[name].most_probable().p)
    every = {name: fits[name].most_probable() for name in steps}
    expected = {name: of.records @ of.p * (cells.n.sum() / of.records.sum()) for name, of in every.items()}
    return by_simulated(simulated, cells.n.astype(np.float64), codes, steps, expected)


def _steps(variable: Variable, parent: Variable, fit: VariableFit) -> tuple[Codes, list[Floats]]:
    """Steps of an earlier variable's cells on which one depends, and their features by effect (J, A).

    Steps are finer than the groups of the table: within the first and the last group the variable goes on to change.
    """
    groups = next(table.by_groups for table in variable.tables if table.earlier == parent.name and table.by is None)
    assert groups is not None
    numbers, p = parent.cells.numbers, fit.fit.model.records @ fit.fit.model.probabilities(fit.fit.theta)
    steps = steps_of(p, groups, numbers)
    J, many = int(steps.max()) + 1, int(steps[numbers - 1]) + 1 if numbers else 0
    features = []
    if many:
        response = Response(p, numbers)
        inside = one_hot(steps[:numbers], J)[:, :many]
        mean = (inside.T @ (response.bins * response.scores)) / np.maximum(inside.T @ response.bins, 1e-12)
        features = [np.pad(z, ((0, J - many), (0, 0))) for z in smooth_features(mean)]
    return steps, [*features, *([np.eye(J)[:, many:]] if many < J else [])]


def drawn(probabilities: Floats, rng: np.random.Generator) -> Codes:
    """An index for each row of probabilities (n, G), by inversion: random numbers in common make similar draws."""
    found = (rng.random(len(probabilities))[:, None] > np.cumsum(probabilities, axis=1)).sum(axis=1)
    return np.minimum(found, probabilities.shape[1] - 1)
