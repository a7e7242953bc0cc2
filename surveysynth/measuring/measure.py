"""The one step that reads confidential values: count, add noise.

histograms of the outcome and of the weight  ->  smooth fits  ->  groups
outcome by terms,  weight by outcome,  weight by terms,  both by strata and PSUs,  in groups and by sums of scores
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..design.survey_design import SurveyDesign
from ..models.loglinear.response import smooth_histogram
from .bins import Cells, Codes, Floats
from .groups import MOST, TAILS, groups_of, scores_of
from .noise import ROUNDING, discrete_laplace_variance, noisy
from .noisy_tables import SCORE_UNIT, WEIGHT, Counts, NoisyTable, NoisyTables, Variable
from .outcome import Outcome
from .terms import Term, public_cells, unit_name
from .units import PARTS, Units, most_records

# Shares of epsilon; those of tables that are not made go to the others
SHARES = {
    "outcome": 0.12, "weight": 0.06, "outcome by terms": 0.4, "weight by outcome": 0.18, "weight by terms": 0.24,
    "products by terms": 0.08, "outcome by design": 0.12, "weight by design": 0.06,
}  # fmt: skip
OF_LEVELS = 4  # groups by strata or PSUs, at most
PER_BIN, LEAST_BINS = 30.0, 16  # records times epsilon that a bin of a histogram should have; bins at least
MOST_OF_WEIGHTS = 12  # groups of the weights, at most
# Epsilon of a table, times the root of a level's records, from which weights have scores, and products with the outcome
WEIGHT_SCORED, PRODUCTS = 5.5, 1.0
WEIGHT_BOUNDS = (0.02, 20.0)  # in mean weights, where nothing is said
# Groups of the outcome in its table by weights: about for so many levels, at most, at least; and rows of the model of
# weights by public cells and groups from which there are fewer
PARENT_LEVELS, MOST_PARENTS, LEAST_PARENTS, ROWS = 4, 12, 4, 3_000


def measure_design(
    design: SurveyDesign,
    name: str,
    predictors: str,
    terms: Sequence[Term],
    outcome: Outcome,
    *,
    epsilon: float,
    population_total: float,
    weight_bounds: tuple[float, float] = WEIGHT_BOUNDS,
    population_totals: Mapping[str, Floats] | None = None,
    public_weight: bool = False,
    unit: str | None = None,
    blank: int | None = None,
    rng: np.random.Generator | None = None,
) -> NoisyTables:
    """Noisy tables of an outcome and of the weight.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    name : str
        The outcome.
    predictors : str
        ``"region + sex"``, public.
    terms : list of Term
        Theirs, with the size of units; strata and PSUs that they do not determine; and units of several records.
    outcome : Outcome
        Its schema.
    epsilon : float
        For a record, or a unit of several, whose outcomes and weights are blanked; twice that for one with others.
    population_total : float
        Public: what the weights add up to.
    weight_bounds : (float, float)
        Public bounds of a weight over the mean weight.
    population_totals : mapping of term to float array, optional
        Public totals of the levels of a term.
    public_weight : bool
        Weights are public, and not measured.
    unit : str, optional
        Column of the units of several records that are protected.
    blank : int, optional
        For audits only: a record that is counted nowhere.
    rng : numpy.random.Generator, optional
        For tests only, and not safe.

    Raises
    ------
    InputError
        The file contradicts the schema.
    """
    n, cells = design.n, Cells.of(outcome)
    fixed, levels = [t for t in terms if not t.drawn], [t for t in terms if t.drawn]
    least = n / max((term.levels for term in fixed), default=1)
    split = shares(epsilon, len(fixed), len(levels), least, public_weight=public_weight, scored=cells.scored)
    code = cells.codes(design.column(name), name)
    units = _units(terms, unit, split)
    y = _Measured(cells, code, n, rng, units, blank)
    y.histogram(split["outcome"])
    for term in fixed:
        if cells.scored:
            y.scores(term.name, term.level, term.levels, split["outcome by terms"])
        y.by(term.name, term.level, term.levels, split["outcome by terms"])
    for term in levels:
        y.within(term, split["outcome by design"])
    weight = None
    if not public_weight:
        w_cells = Cells.of_weights(weight_bounds, population_total / n)
        w = _Measured(w_cells, w_cells.of_numbers(np.asarray(design.weights, dtype=np.float64)), n, rng, units, blank)
        w.histogram(split["weight"])
        sd = np.sqrt(discrete_laplace_variance(split["weight by outcome"]))
        most = int(np.clip(ROWS // len(public_cells(fixed, n)[0]), LEAST_PARENTS, MOST_PARENTS))
        parents = groups_of(y.p, cells.numbers, n, PARENT_LEVELS, sd, most, tails=0)
        w.by(name, parents[code], int(parents.max()) + 1, split["weight by outcome"], parents, most=MOST_OF_WEIGHTS)
        for term in fixed:
            if "weight scores by terms" in split:
                w.scores(term.name, term.level, term.levels, split["weight scores by terms"])
            if "products by terms" in split:
                w.products(term, split["products by terms"], y)
            w.by(term.name, term.level, term.levels, split["weight by terms"], most=MOST_OF_WEIGHTS)
        for term in levels:
            w.within(term, split["weight by design"])
        weight = w.variable(WEIGHT, tuple(term.name for term in fixed), (name,))
    outcomes = y.variable(name, tuple(term.name for term in fixed), ())
    by_name = {term.name: term for term in terms}
    return NoisyTables(
        predictors, outcomes, weight, by_name, n, population_total, population_totals or {},
        None if units is None else unit, 1 if units is None else units.most,
    )  # fmt: skip


def _units(terms: Sequence[Term], unit: str | None, split: Mapping[str, float]) -> Units | None:
    """The units that are protected; None where these are single records."""
    found = next((term for term in terms if unit is not None and term.name == unit_name(unit)), None)
    if found is None:
        return None
    return Units(found.level, most_records(found.level, split.get("outcome by terms", split["outcome"])))


def shares(
    epsilon: float, terms: int, levels: int, records: float, *, public_weight: bool, scored: bool
) -> dict[str, float]:  # fmt: skip
    """Epsilon of each table by its kind; all tables add up to epsilon, less what rounding may take.

    There are so many terms of the formula, the one with most levels has so many records a level, and there are
    ``levels`` of the design: strata and PSUs.  Where numbers are scored there are two tables of the outcome by each
    term.  Sums of weights' scores remove what smoothing leaves of totals by level, and sums of products tell how weight
    and outcome go together in each level; both are measured where their noise is small beside that.
    """
    tables = {
        "outcome": 1, "outcome by terms": terms * (2 if scored else 1), "outcome by design": levels,
        "weight": 1, "weight by outcome": 1, "weight by terms": terms, "weight by design": levels,
        "products by terms": terms,
    }  # fmt: skip
    made = {kind: k for kind, k in tables.items() if k and not (public_weight and kind.startswith(("weight", "prod")))}
    split = _split(epsilon, made)
    if split.get("products by terms", PRODUCTS) * records**0.5 < PRODUCTS:
        split = _split(epsilon, {kind: k for kind, k in made.items() if kind != "products by terms"})
    in_two = split.get("weight by terms", 0.0) / 2
    if in_two * records**0.5 >= WEIGHT_SCORED:
        split |= {"weight by terms": in_two, "weight scores by terms": in_two}
    return split


def _split(epsilon: float, made: Mapping[str, int]) -> dict[str, float]:
    """Epsilon of each of so many tables of every kind."""
    each = epsilon * (1 - ROUNDING) / sum(SHARES[kind] for kind in made)
    return {kind: SHARES[kind] * each / k for kind, k in made.items()}


def counted(
    level: Codes, levels: int, code: Codes, groups: Codes, scores: Codes | None = None, parts: Codes | int = 1
) -> Counts:  # fmt: skip
    """Records by level and group of their cell (L, J): a record adds ``parts`` to one of them, times a cell's score."""
    counts = np.zeros((levels, int(groups.max()) + 1), dtype=np.int64)
    np.add.at(counts, (level, groups[code]), parts if scores is None else parts * scores[code])
    return counts


def pairs_tell_more(levels: int, size: float, epsilon: float) -> bool:
    """Whether pairs tell the correlation within levels of so many records each better than counts by level do.

    By the variance of an estimate from counts of one half of the outcome in each level, whose own variance is
    size / 4, and from size / 2 pairs a level.
    """
    noise = discrete_laplace_variance(epsilon)
    from_counts = 2 / levels * ((size / 4 + noise) / (size**2 / 4)) ** 2
    pairs = max(levels * size / 2, 1.0)
    return (pairs + 4 * noise) / pairs**2 < from_counts


def pairs_of(level: Codes, rng: np.random.Generator, unit: Codes | None = None) -> tuple[Codes, Codes]:
    """Pairs of records of the same level, at random: a record is in one of them at most (P,), (P,).

    Where units of several records are given, a unit has one record in one pair at most, or one pair if the levels are
    the units.
    """
    order = rng.permutation(len(level))
    if unit is not None and unit is not level:
        order = order[np.unique(unit[order], return_index=True)[1]]
    order = order[np.argsort(level[order], kind="stable")]
    sizes = np.bincount(level[order])
    place, size = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes), np.repeat(sizes, sizes)
    first = np.flatnonzero((place % 2 == 0) & (place + 1 < size) & ((place == 0) | (unit is not level)))
    return order[first], order[first + 1]


def histogram_groups(cells: Cells, n: int, epsilon: float) -> Codes:
    """Cells of a histogram (G,): all bins, or fewer where noise would drown each; special values by themselves."""
    numbers = cells.numbers
    many = int(np.clip(n * epsilon / PER_BIN, min(LEAST_BINS, numbers), numbers))
    bins = np.arange(numbers) * many // max(numbers, 1)
    return np.concatenate([bins, many + np.arange(len(cells) - numbers)]).astype(np.intp)


def smoothed(table: NoisyTable, cells: Cells, n: float) -> Floats:
    """Probabilities of the cells (G,) by a smooth fit of their histogram of n records."""
    with threadpool_limits(1, "blas"):
        return smooth_histogram(table.sums[0], table.variance, table.groups, cells.numbers, n, cells.tail)


@dataclass
class _Measured:
    """A variable while it is measured: its tables so far, and what its histogram says of the cells."""

    cells: Cells
    code: Codes
    n: int
    rng: np.random.Generator | None
    units: Units | None = None
    blank: int | None = None

    def __post_init__(self) -> None:
        self.tables: list[NoisyTable] = []
        self.p: Floats = np.empty(0)
        # a record counts for so many parts of one, and what is protected for so many at most
        self.parts: Codes | int = 1 if self.units is None else self.units.parts
        self.per, self.most = (1, 1) if self.units is None else (PARTS, self.units.most)
        self.counted = float(np.sum(np.broadcast_to(self.parts, self.n))) / self.per  # public: a blank one is counted
        if self.blank is not None:
            self.parts = np.where(np.arange(self.n) == self.blank, 0, self.parts)

    def sd(self, epsilon: float) -> float:
        """Standard deviation of the noise of a count."""
        return float(discrete_laplace_variance(epsilon / self.most) ** 0.5)

    def add(
        self, epsilon: float, by: str | None, level: Codes, levels: int, groups: Codes, *, times: Codes | None = None,
        **more: Any,
    ) -> None:  # fmt: skip
        """Count, and add noise; with ``times``, each record so many times a thousandth."""
        scores: Codes | None = more.get("scores")
        per = self.per * (1 if scores is None else SCORE_UNIT) * (1 if times is None else SCORE_UNIT)
        parts = self.parts if times is None else self.parts * times
        whole = counted(level, levels, self.code, groups, scores, parts)
        counts = noisy(whole, epsilon, self.rng, unit=self.most * per)
        self.tables.append(NoisyTable(by, groups, counts, epsilon, unit=self.most * per, per=per, **more))

    def histogram(self, epsilon: float) -> None:
        """Measure the histogram, and smooth it."""
        groups = histogram_groups(self.cells, self.n, epsilon / self.most)
        self.add(epsilon, None, np.zeros(self.n, dtype=np.intp), 1, groups)
        self.p = smoothed(self.tables[0], self.cells, self.counted)

    def by(
        self, name: str, level: Codes, levels: int, epsilon: float, parents: Codes | None = None,
        most: int | None = None,
    ) -> None:  # fmt: skip
        """Measure groups of the cells by the levels of a factor; with ``most``, so many, without finer tails."""
        most, tails = (MOST, TAILS) if most is None else (most, 0)
        group = groups_of(self.p, self.cells.numbers, self.n, levels, self.sd(epsilon), most, tails)
        self.add(epsilon, name, level, levels, group, by_groups=parents)

    def within(self, term: Term, epsilon: float) -> None:
        """Measure how strata or PSUs differ: by each, or by pairs of records of one, whichever tells more."""
        of_units = self.units is not None and term.level is self.units.of_record
        if of_units or pairs_tell_more(term.levels, self.n / term.levels, epsilon / self.most):
            self.pairs(term, epsilon)
        else:
            self.by(term.name, term.level, term.levels, epsilon, most=OF_LEVELS)

    def pairs(self, term: Term, epsilon: float) -> None:
        """Measure the group of one record by that of another of the same level, in pairs made at random.

        A record, or a unit of several, is in one pair at most.
        """
        rng = self.rng or np.random.default_rng()
        one, other = pairs_of(term.level, rng, None if self.units is None else self.units.of_record)
        sd = np.sqrt(discrete_laplace_variance(epsilon))
        group = groups_of(self.p, self.cells.numbers, len(one), OF_LEVELS, sd, OF_LEVELS, 0)
        J = int(group.max()) + 1
        there = 1 if self.blank is None else ((one != self.blank) & (other != self.blank)).astype(np.int64)
        counts = noisy(counted(group[self.code[one]], J, self.code[other], group, None, there), epsilon, self.rng)
        self.tables.append(NoisyTable(term.name, group, counts, epsilon, pairs=True))

    def scores(self, name: str, level: Codes, levels: int, epsilon: float) -> None:
        """Measure the sum of scores of numbers, and counts of special values, by the levels of a factor."""
        numbers = self.cells.numbers
        group = np.concatenate([np.zeros(numbers, dtype=np.intp), 1 + np.arange(len(self.cells) - numbers)])
        self.add(epsilon, name, level, levels, group, scores=self.scores_by(levels, epsilon))

    def scores_by(self, levels: int, epsilon: float) -> Codes:
        """Score of each cell (G,), for sums by so many levels."""
        assert self.cells.bins is not None
        return scores_of(self.p, self.cells.bins.means, self.n, levels, self.sd(epsilon), SCORE_UNIT)

    def products(self, term: Term, epsilon: float, earlier: _Measured) -> None:
        """Measure sums of the products of a score and that of an earlier variable's cell, by the levels of a term.

        A special value of the earlier variable has a sum of its own, and the score 1.
        """
        numbers, special = earlier.cells.numbers, len(earlier.cells) - earlier.cells.numbers
        scores = np.full(len(earlier.cells), SCORE_UNIT) if numbers < 2 else earlier.scores_by(term.levels, epsilon)
        kinds = np.concatenate([np.zeros(numbers, dtype=np.intp), np.arange(special) + (numbers > 0)])
        J, one = int(kinds.max()) + 1, np.zeros(len(self.cells), dtype=np.intp)
        self.add(
            epsilon, term.name, term.level * J + kinds[earlier.code], term.levels * J, one,
            scores=self.scores_by(term.levels * J, epsilon), by_groups=kinds, by_scores=scores,
            times=scores[earlier.code],
        )  # fmt: skip

    def variable(self, name: str, terms: tuple[str, ...], parents: tuple[str, ...]) -> Variable:
        """What was measured."""
        return Variable(name, self.cells, terms, parents, tuple(self.tables))
