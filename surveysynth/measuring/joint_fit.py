"""Outcome and weight as noisy tables say they go together: fits, draws, and the cells of synthetic records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..models.loglinear.bases import Response, one_hot, smooth_features
from ..models.loglinear.fitting import Perturbation, TableFit, draw
from ..models.loglinear.response import Observed, Rows, Total, fit_response
from ..validation import rows
from .groups import steps_of
from .measure import smoothed
from .noise import discrete_laplace
from .noisy_tables import NoisyTable, NoisyTables, Variable
from .terms import Term, public_cells

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

Draw = tuple[Floats, Floats | None]  # coefficients of the outcome, and of the weight

KNOWN = 0.003  # standard error of a known total, as a share of it: rounding


@dataclass(frozen=True, eq=False, repr=False)
class JointFit:
    """Outcome given public columns, weight given outcome and public columns.

    Attributes
    ----------
    measured : NoisyTables
    outcome, weight : TableFit
    cells : int array (X, T)
        Step of each term in each public cell.
    steps : int array (G,)
        Step of each cell of the outcome, given which the weight is modelled.
    """

    measured: NoisyTables
    outcome: TableFit
    weight: TableFit | None
    cells: Codes
    steps: Codes

    def units_of(self, terms: Iterable[Term], n: int) -> Codes:
        """Public cell of each of n records, from their terms (n,).

        Raises
        ------
        InputError
            Some are in none of the cells that were measured.
        """
        width = len(self.cells.T)
        steps = np.stack([term.step for term in terms], axis=1) if width else np.zeros((n, 0), dtype=np.intp)
        both = np.concatenate([self.cells, steps])
        code = np.unique(both, axis=0, return_inverse=True)[1].ravel() if width else np.zeros(len(both), dtype=np.intp)
        place = np.full(code.max() + 1, -1, dtype=np.intp)
        place[code[: len(self.cells)]] = np.arange(len(self.cells))
        unit = place[code[len(self.cells) :]]
        if (unit < 0).any():
            raise InputError(f"{rows(unit < 0)} have public values that were not measured")
        return unit

    def draws(self, count: int, rng: np.random.Generator, *, opposite: bool = True) -> Iterator[Draw]:
        """So many draws of the coefficients.

        Every second one is perturbed in the ``opposite`` way of the one before, so that the mean of all draws is about
        the fit.
        """
        for k in range(count):
            if k % 2 == 0 or not opposite:
                y = self._perturbation(self.measured.outcome, self.outcome, rng)
                w = None
                if self.weight is not None and self.measured.weight is not None:
                    w = self._perturbation(self.measured.weight, self.weight, rng)
            else:
                y, w = -y, None if w is None else -w
            yield (
                draw(self.outcome, y),
                None if w is None or self.weight is None else draw(self.weight, w),
            )

    def probabilities(self, of: Draw) -> tuple[Floats, Floats | None]:
        """Of the cells of the outcome (X, G), and of those of the weight by the outcome's steps (X, J, H)."""
        p = self.outcome.model.probabilities(of[0])
        if of[1] is None or self.weight is None or self.measured.weight is None:
            return p, None
        q = self.weight.model.probabilities(of[1])
        return p, q.reshape(len(p), -1, len(self.measured.weight.cells))

    @staticmethod
    def _perturbation(variable: Variable, fit: TableFit, rng: np.random.Generator) -> Perturbation:
        """Fresh noise of each table's own law, and normal errors of known totals and of prior means."""
        counted = [
            discrete_laplace(rng, table.epsilon / table.unit, table.counts.size) / table.unit
            for table in variable.tables
        ]
        known = fit.noise[sum(len(noise) for noise in counted) :]
        noise = np.concatenate([*counted, rng.standard_normal(len(known)) * np.sqrt(known)])
        return Perturbation.of(fit, noise, rng)


def fit_measurements(measured: NoisyTables) -> JointFit:
    """Fit outcome and weight to what was measured."""
    found, unit, n = public_cells(measured.terms.values(), measured.n)
    first = np.unique(unit, return_index=True)[1]
    levels = {name: term.level[first] for name, term in measured.terms.items()}
    features = [
        z for at, term in zip(found.T, measured.terms.values(), strict=True)
        for z in ([one_hot(at, term.levels)] if term.score is None else [f[at] for f in smooth_features(term.score)])
    ]  # fmt: skip
    X = len(n)
    cells = Rows(np.arange(X), np.ones(X), n.astype(np.float64))
    y = _fit(measured.outcome, cells, features, levels, None, [])
    if measured.weight is None:
        return JointFit(measured, y, None, found, np.zeros(0, dtype=np.intp))
    steps, group, parent = _parent(measured, y)
    J = len(group)
    share = y.model.probabilities(y.theta) @ one_hot(steps, J)
    by_parent = Rows(np.repeat(np.arange(X), J), share.ravel(), cells.n)
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
        measured.weight, by_parent, [*(z[within] for z in parent), *(z[of] for z in features)],
        {name: level[of] for name, level in levels.items()}, group[within], totals,
    )  # fmt: skip
    return JointFit(measured, y, w, found, steps)


def _parent(measured: NoisyTables, y: TableFit) -> tuple[Codes, Codes, list[Floats]]:
    """Steps of the outcome's cells on which the weight depends, the group of each step, its features by effect (J, A).

    Steps are finer than the groups of the table: within the first and the last group weights go on to change.
    """
    assert measured.weight is not None
    groups = next(table.by_groups for table in measured.weight.tables if table.by_groups is not None)
    numbers, p = measured.outcome.cells.numbers, y.model.records @ y.model.probabilities(y.theta)
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
    variable: Variable, rows: Rows, features: list[Floats], levels: dict[str, Codes], parent: Codes | None,
    totals: list[Total],
) -> TableFit:  # fmt: skip
    p = smoothed(variable.tables[0], variable.cells, int(rows.n.sum()))
    observed = [_observed(table, len(rows.unit), levels, parent) for table in variable.tables]
    return fit_response(rows, features, observed, totals, p, variable.cells.numbers, variable.cells.tail)


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
