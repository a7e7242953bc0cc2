"""One variable as its noisy tables say: effects of a formula's terms, and of strata, PSUs and units on top of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..models.loglinear.bases import Response, one_hot
from ..models.loglinear.fitting import Perturbation, TableFit, draw, refitted
from ..models.loglinear.level_effects import LevelEffects, LevelRows, fit_levels, levels_from_pairs, tilted
from ..models.loglinear.table_model import TableModel
from .noise import discrete_laplace
from .noisy_tables import NoisyTable, Variable
from .public_cells import PublicCells

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

PASSES = 2  # between the effects of a formula's terms, and those of strata, PSUs and units
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
        share = self.cells.mean_of(self.share, place)
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


def conditional(fit: VariableFit, of: VariableDraw) -> Conditional:
    """Probabilities under the coefficients of a draw."""
    p = fit.base.probabilities(of.theta)
    return Conditional(p.reshape(-1, fit.share.shape[1], p.shape[1]), fit.changes(of.levels))


def perturbation(variable: Variable, fit: TableFit, rng: np.random.Generator) -> Perturbation:
    """Fresh noise of each table's own law, and normal errors of known totals and of prior means."""
    counted = [
        discrete_laplace(rng, table.epsilon / table.unit, table.counts.size) / table.per
        for table in of_terms(variable)
    ]
    known = fit.noise[sum(len(noise) for noise in counted) :]
    noise = np.concatenate([*counted, rng.standard_normal(len(known)) * np.sqrt(known)])
    return Perturbation.of(fit, noise, rng)


def of_terms(variable: Variable) -> list[NoisyTable]:
    """Tables of the histogram, the formula's terms and earlier variables: not those of strata and PSUs."""
    return [table for table in variable.tables if table.by is None or table.by in (*variable.terms, *variable.parents)]
