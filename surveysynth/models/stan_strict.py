"""A user's Stan program under the strict mechanism: what its author gave is enough, if there is a reference.

The log density is the author's; the prior is the program's, at privacy weights of 0 and with outcomes that are
simulated from the reference, so that nothing of the file is in it.  C_B is a sum over public nodes: values that the
author's ``simulate`` draws from the reference, with a seed that is public.  A density has mass one at any parameters,
so the nodes are weighted such that it has at a few around the reference; that takes most of their chance off (Deville
& Sarndal 1992).  Gradients are differences: a chain is exact with any directions that depend on the point alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from ..engines.base import Diagnostics
from ..engines.embedded import log_density_of, unconstrained
from ..engines.hamiltonian import Target
from ..errors import ModelError
from .draws import Draws, Synthetic
from .records import Public, Records

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

NODES, LEAST = 4000, 4  # in all, and of a predictor row
STEP = 1e-4  # of a difference, in about the density's own standard deviations
FAR = 0.3  # of starts from the reference, in these
PUBLIC_SEED = 1  # of the nodes: anybody may know it
PARAMETERS = re.compile(r"\bparameters\s*\{(.*?)\}", re.S)
DECLARED = re.compile(r"(?:array\[[^\]]*\]\s*)?(\w+)\s*(?:<([^>]*)>)?\s*(?:\[[^\]]*\])?\s*(\w+)\s*(?:\[[^\]]*\])?\s*;")
LIMIT = re.compile(r"(lower|upper)\s*=\s*(-?[\d.]+(?:[eE][-+]?\d+)?)$")
FREE = "real", "vector", "row_vector", "matrix"


class Authored(Protocol):
    """What the strict mechanism asks of a user's model."""

    @property
    def program(self) -> Any:
        """Path of the Stan program."""
        ...

    def data(self, records: Records, alpha: Floats) -> dict[str, Any]:
        """The program's data."""
        ...

    def log_density(self, records: Records, draws: Draws) -> Floats:
        """(S, n)."""
        ...

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """One synthetic data set."""
        ...


@dataclass(frozen=True)
class Coordinates:
    """The program's parameters as a point of free numbers, in the order in which Stan has them."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    lower: Floats  # (p,)
    upper: Floats

    @classmethod
    def of(cls, program: Any, values: Mapping[str, Floats]) -> Coordinates:
        """Of a program, given one draw of its parameters.

        Raises
        ------
        ModelError
            A parameter of a type that has no free coordinates here, or limits that are no numbers.
        """
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", program.read_text(encoding="utf-8"), flags=re.S)
        block = PARAMETERS.search(re.sub(r"\btransformed\s+parameters\s*\{.*?\}", "", text, flags=re.S))
        names, shapes, lower, upper = [], [], [], []
        for kind, limits, name in DECLARED.findall("" if block is None else block[1]):
            found = dict(LIMIT.findall(part.strip())[0] for part in limits.split(",") if LIMIT.findall(part.strip()))
            if kind not in FREE or len(found) != len([part for part in limits.split(",") if part.strip()]):
                raise ModelError(
                    f"{program.name}: under Strict() parameters are real numbers, vectors or matrices, with limits "
                    f"that are written as numbers if there are any; {name!r} is another one"
                )
            value = np.asarray(values[name])
            names.append(name)
            shapes.append(value.shape)
            lower.append(np.full(value.size, float(found.get("lower", -np.inf))))
            upper.append(np.full(value.size, float(found.get("upper", np.inf))))
        return cls(tuple(names), tuple(shapes), np.concatenate(lower), np.concatenate(upper))

    def free(self, values: Mapping[str, Floats]) -> Floats:
        """The point (p,) of one draw."""
        v = np.concatenate([np.asarray(values[name], dtype=np.float64).ravel(order="F") for name in self.names])
        with np.errstate(invalid="ignore", divide="ignore"):
            both = logit((v - self.lower) / (self.upper - self.lower))
            return self._choose(v, np.log(v - self.lower), np.log(self.upper - v), both)

    def draws(self, points: Floats) -> Draws:
        """Points (S, p) as draws."""
        with np.errstate(over="ignore", invalid="ignore"):
            both = self.lower + (self.upper - self.lower) * expit(points)
            v = self._choose(points, self.lower + np.exp(points), self.upper - np.exp(points), both)
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        parts = np.split(v, np.cumsum(sizes)[:-1], axis=1)
        values = {
            name: np.array([row.reshape(shape, order="F") for row in part]) if shape else part[:, 0]
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }
        none = np.zeros(len(points), dtype=np.intp)
        return Draws(values, none, Diagnostics(exact=True), "surveysynth", "")

    def _choose(self, free: Floats, above: Floats, below: Floats, both: Floats) -> Floats:
        has_lower, has_upper = np.isfinite(self.lower), np.isfinite(self.upper)
        return np.where(has_lower & has_upper, both, np.where(has_lower, above, np.where(has_upper, below, free)))


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class ClippedProgram:
    """The log target of a file: records, public nodes with their weights, and the program's prior."""

    model: Authored
    coordinates: Coordinates
    centre: Floats  # (p,): the reference
    scale: Floats  # (p,)
    records: Records
    log_ref: Floats  # (n,)
    a: Floats  # (n,)
    nodes: Records
    node_ref: Floats
    weight: Floats  # of the nodes
    prior: Callable[[], Callable[[Floats], tuple[float, Floats]]]
    B: float

    def starts(self, chains: int, rng: np.random.Generator) -> list[Floats]:
        """Where chains start: at the reference, and spread around it; nothing of the file decides."""
        return [self.centre + FAR * self.scale * rng.uniform(-1, 1, self.scale.size) * (c > 0) for c in range(chains)]

    def some(self, share: float, rng: np.random.Generator) -> ClippedProgram:
        """A share of the records, at random, each of which counts for those that are left out."""
        chosen = np.flatnonzero(rng.random(len(self.a)) < share)
        return replace(
            self, records=self.records.some(chosen), log_ref=self.log_ref[chosen], a=self.a[chosen] / share
        )

    def function(self) -> Target:
        """The log target and its gradient, by differences, with a program of its own: one a chain."""
        steps = np.vstack([np.zeros(self.centre.size), np.diag(STEP * self.scale)])
        prior = self.prior()

        def target(point: Floats) -> tuple[float, Floats]:
            draws = self.coordinates.draws(point + steps)
            with np.errstate(all="ignore"):
                ratio = np.clip(self.model.log_density(self.records, draws) - self.log_ref, -self.B, self.B)
                clipped = np.exp(np.clip(self.model.log_density(self.nodes, draws) - self.node_ref, -self.B, self.B))
            log_prior, slope = prior(point)
            values = ratio @ self.a - clipped @ self.weight
            if not (np.isfinite(values).all() and np.isfinite(log_prior)):
                return -np.inf, point
            return float(values[0] + log_prior), (values[1:] - values[0]) / (STEP * self.scale) + slope

        return target


def clipped_program(
    model: Authored, records: Records, reference: Draws, a: Floats, B: float, present: Floats | None = None
) -> ClippedProgram:
    """The target of a file: see :class:`ClippedProgram`; ``present`` (n,) is 0 for records that are blanked.

    Raises
    ------
    ModelError
        Parameters that have no free coordinates; a program whose own coordinates are others.
    """
    values = {name: value[0] for name, value in reference.values.items()}
    coordinates = Coordinates.of(model.program, values)
    centre = coordinates.free(values)
    nodes, base = _nodes(model, records, reference, a)
    data = model.data(nodes, np.zeros(nodes.n))

    def prior() -> Callable[[Floats], tuple[float, Floats]]:
        return log_density_of(model.program, data)

    own = unconstrained(model.program, data, {name: values[name] for name in coordinates.names})
    if not np.allclose(own, centre, rtol=1e-8, atol=1e-8):
        raise ModelError(f"{model.program.name}: its parameters cannot be read off its text: write their limits there")
    node_ref = model.log_density(nodes, coordinates.draws(centre[None]))[0]
    scale = _scale(model, coordinates, centre, nodes, node_ref, base, prior)
    weight = _weighted(model, coordinates, centre, scale, nodes, node_ref, base)
    log_ref = model.log_density(records, coordinates.draws(centre[None]))[0]
    counted = a if present is None else a * present
    return ClippedProgram(
        model, coordinates, centre, scale, records, log_ref, counted, nodes, node_ref, weight, prior, B
    )


def _nodes(model: Authored, records: Records, reference: Draws, a: Floats) -> tuple[Records, Floats]:
    """Values that the author's function draws from the reference in every predictor row, and what each counts."""
    first = np.unique(records.row, return_index=True)[1]  # a record of every row that there is: its predictors
    each = max(LEAST, -(-NODES // len(first)))
    chosen = np.repeat(first, each)
    public = records.public_of(chosen)
    y = model.simulate(public, reference, np.random.default_rng(PUBLIC_SEED)).outcomes
    nodes = replace(records.some(chosen), y=y[:, 0] if records.y.ndim == 1 else y)
    counted = np.bincount(records.row, a, len(records.X))[records.row[chosen]]
    return nodes, counted / each


def _scale(
    model: Authored, coordinates: Coordinates, centre: Floats, nodes: Records, node_ref: Floats, base: Floats,
    prior: Callable[[], Callable[[Floats], tuple[float, Floats]]],
) -> Floats:  # fmt: skip
    """Public standard deviations of the coordinates, about: from scores of the nodes and the bend of the prior."""
    h = 1e-4 * np.maximum(1, np.abs(centre))
    moved = model.log_density(nodes, coordinates.draws(centre + np.diag(h)))
    information = ((moved - node_ref) / h[:, None]) ** 2 @ base
    at = prior()
    bend = np.array([(at(centre - e)[1] - at(centre + e)[1]) @ (e > 0) / (2 * e.sum()) for e in np.diag(h)])
    return np.asarray((information + np.maximum(bend, 1e-6)) ** -0.5)


def _weighted(
    model: Authored, coordinates: Coordinates, centre: Floats, scale: Floats, nodes: Records, node_ref: Floats,
    base: Floats,
) -> Floats:  # fmt: skip
    """Weights of the nodes with which densities a standard deviation around the reference have mass one."""
    sides = [sign * scale * axis for axis in np.eye(centre.size) for sign in (1, -1)]
    pairs = [sides[2 * j] + sides[2 * k] for j, k in combinations_with_replacement(range(centre.size), 2) if j < k]
    around = coordinates.draws(centre + np.array([*sides, *pairs]))
    off = np.exp(np.clip(model.log_density(nodes, around) - node_ref, -30, 30)) - 1
    whole = np.vstack([off, np.ones(len(base))])
    lacking = np.append(np.zeros(len(off)), base.sum()) - whole @ base
    return np.asarray(base * (1 + whole.T @ (np.linalg.pinv((whole * base) @ whole.T, hermitian=True) @ lacking)))
