"""The one step that reads confidential values: count, add noise.

histograms of the outcome and of the weight  ->  smooth fits  ->  groups
outcome by terms,  weight by outcome,  weight by terms,  both by strata and PSUs,  in groups and by sums of scores
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..design.survey_design import SurveyDesign
from ..models.loglinear.response import smooth_histogram
from ..models.loglinear.table_model import places
from .bin_groups import MOST, TAILS, cell_scores, coarser_groups, table_groups
from .bins import Cells, Codes, Floats
from .cluster import counting
from .counting import Count, Counter
from .noisy_tables import SCORE_UNIT, WEIGHT, NoisyTable, NoisyTables, Variable
from .outcome import Outcome
from .protected_units import PARTS, Units, most_records
from .table_noise import TableBudget, discrete_laplace_variance, noise_variance, noisy
from .terms import Term, public_cells, unit_name

# Shares of epsilon by kind of table, of an outcome and of the weight, over the sum of those of the tables that are made
OUTCOME = {"histogram": 0.12, "by terms": 0.4, "by design": 0.12}
OF_WEIGHT = {"histogram": 0.06, "by outcomes": 0.18, "by terms": 0.24, "products by terms": 0.08, "by design": 0.06}
OF_LEVELS = 4  # groups by strata or PSUs, at most
MOST_CELLS = 800  # of a table, about: more tell little, and fits take long
PER_BIN, LEAST_BINS = 30.0, 16  # records times epsilon that a bin of a histogram should have; bins at least
MOST_OF_WEIGHTS = 12  # groups of the weights, at most
# Epsilon of a table, times the root of a level's records, from which weights have scores, and products with the outcome
WEIGHT_SCORED, PRODUCTS = 5.5, 1.0
WEIGHT_BOUNDS = (0.02, 20.0)  # in mean weights, where nothing is said
# Groups of the outcome in its table by weights: about for so many levels, at most, at least; and rows of the model of
# weights by public cells and groups from which there are fewer
CROSSED = 4  # groups of numbers that are crossed with a term, at most
MOST_PRODUCTS = 12  # tables of products, about: by the terms with fewest levels
PARENT_LEVELS, MOST_PARENTS, LEAST_PARENTS, ROWS = 4, 12, 4, 3_000


@dataclass(frozen=True)
class Question:
    """An outcome, its schema, and what it depends on: public terms, earlier outcomes, products of one of each.

    Epsilon of its tables is ``importance`` times what it would be.
    """

    name: str
    outcome: Outcome
    terms: tuple[str, ...]
    earlier: tuple[str, ...] = ()
    products: tuple[tuple[str, str], ...] = ()
    importance: float = 1.0


def measure_design(
    design: SurveyDesign,
    questions: Sequence[Question],
    predictors: str,
    terms: Sequence[Term],
    *,
    epsilon: float,
    delta: float | None = None,
    population_total: float,
    weight_bounds: tuple[float, float] = WEIGHT_BOUNDS,
    population_totals: Mapping[str, Floats] | None = None,
    public_weight: bool = False,
    unit: str | None = None,
    blank: int | None = None,
    scheduler: str | None = None,
    rng: np.random.Generator | None = None,
) -> NoisyTables:
    """Noisy tables of outcomes in sequence and of the weight.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    questions : sequence of Question
        The outcomes; the weight depends on all of them and on all terms.
    predictors : str
        ``"region + sex"``, public: of all outcomes.
    terms : list of Term
        Theirs, with the size of units; strata and PSUs that they do not determine; and units of several records.
    epsilon : float
        For a record, or a unit of several, whose outcomes and weights are blanked; twice that for one with others.
    delta : float, optional
        Probability up to which epsilon holds: noise is Gaussian then.
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
    scheduler : str, optional
        Address of a Dask cluster, whose workers read and count the files of a scanned design.
    rng : numpy.random.Generator, optional
        For tests only, and not safe.

    Raises
    ------
    InputError
        The file contradicts the schema; no cluster answers.
    """
    fixed, levels = [t for t in terms if not t.drawn], [t for t in terms if t.drawn]
    every = [Cells.for_outcome(question.outcome) for question in questions]
    factors = [
        (len(q.terms) + len(q.earlier) + len(q.products), c.scored, q.importance)
        for q, c in zip(questions, every, strict=True)
    ]
    least = design.n / max((term.levels for term in fixed), default=1)
    multiplied = sorted(fixed, key=lambda term: term.levels)[: max(MOST_PRODUCTS // len(questions), 1)]
    budget = TableBudget(epsilon, delta)
    split = shares(
        budget, factors, len(fixed), len(levels), least, len(multiplied), public_weight=public_weight
    )  # fmt: skip
    units = _units(terms, unit, split[0], budget)
    asked = {column for cells in every for column in cells.columns_of_asked}
    public, outcomes_asked = asked - {q.name for q in questions}, asked & {q.name for q in questions}
    parts = 1 if units is None else units.parts
    with counting(design, public, terms, parts, outcomes_asked, blank, scheduler) as counter:
        file = _File(counter, design.n, rng, units, blank, budget.gaussian)
        measured = _outcomes(file, questions, every, fixed, levels, split)
        outcomes = tuple(measured[q.name].variable(q.terms, q.earlier) for q in questions)
        weight = None
        if not public_weight:
            cells = Cells.for_weights(weight_bounds, population_total / design.n)
            weight = _weight(file, cells, measured, fixed, levels, multiplied, split[-1])
    return NoisyTables(
        predictors, outcomes, weight, {term.name: term for term in terms}, design.n, population_total,
        population_totals or {}, None if units is None else unit, 1 if units is None else units.most, delta,
    )  # fmt: skip


def _outcomes(
    file: _File, questions: Sequence[Question], every: Sequence[Cells], fixed: Sequence[Term], levels: Sequence[Term],
    split: Sequence[Mapping[str, float]],
) -> dict[str, _Measured]:  # fmt: skip
    """The tables of the outcomes, in sequence."""
    measured: dict[str, _Measured] = {}
    for question, cells, epsilons in zip(questions, every, split, strict=False):  # the weight is the last of split
        y = _Measured(question.name, cells, file)
        y.histogram(epsilons["histogram"])
        for term in fixed:
            if term.name in question.terms:
                y.by_term(term, epsilons["by terms"], scored=cells.scored)
        for name in question.earlier:
            y.by_earlier(measured[name], epsilons["by terms"], MOST_PARENTS, scored=cells.scored)
        for term_name, name in question.products:
            term = next(each for each in fixed if each.name == term_name)
            y.by_both(term, measured[name], epsilons["by terms"], scored=cells.scored)
        for term in levels:
            y.within(term, epsilons["by design"])
        measured[question.name] = y
    return measured


def _weight(
    file: _File, cells: Cells, measured: Mapping[str, _Measured], fixed: Sequence[Term], levels: Sequence[Term],
    multiplied: Sequence[Term], epsilons: Mapping[str, float],
) -> Variable:  # fmt: skip
    """The tables of the weight, which depends on all outcomes and terms."""
    w = _Measured(WEIGHT, cells, file)
    w.histogram(epsilons["histogram"])
    most = int(np.clip(ROWS // len(public_cells(fixed, file.n)[0]), LEAST_PARENTS, MOST_PARENTS))
    for y in measured.values():
        w.by_earlier(y, epsilons["by outcomes"], most)
    for term in fixed:
        if "scores by terms" in epsilons:
            w.scores(term, epsilons["scores by terms"])
        for y in measured.values() if "products by terms" in epsilons and term in multiplied else ():
            w.products(term, epsilons["products by terms"], y)
        w.by(term, epsilons["by terms"], most=MOST_OF_WEIGHTS)
    for term in levels:
        w.within(term, epsilons["by design"])
    return w.variable(tuple(term.name for term in fixed), tuple(measured))


def _units(terms: Sequence[Term], unit: str | None, split: Mapping[str, float], budget: TableBudget) -> Units | None:
    """The units that are protected; None where these are single records."""
    found = next((term for term in terms if unit is not None and term.name == unit_name(unit)), None)
    if found is None:
        return None
    typical = split.get("by terms", split["histogram"])
    return Units(found.level, most_records(found.level, typical, gaussian=budget.gaussian))


def shares(
    budget: TableBudget, outcomes: Sequence[tuple[int, bool, float]], terms: int, levels: int, records: float,
    multiplied: int, *, public_weight: bool,
) -> list[dict[str, float]]:  # fmt: skip
    """Epsilon of each table of every variable, by kind; all tables together spend the budget, less what rounding may.

    Each outcome depends on so many terms and earlier outcomes, is a number whose scores are measured, or not, and has
    an importance, by which its shares are multiplied.  The weight, the last of the variables, depends on all outcomes
    and on all terms, of which so many are ``multiplied`` with each outcome; the term with most levels has so many
    ``records`` a level.  There are ``levels`` of the design: strata and PSUs.  Where numbers are scored there are two
    tables of the outcome by each term.  Sums of weights' scores remove what smoothing leaves of totals by level, and
    sums of products tell how weight and outcome go together in each level; both are measured where their noise is
    small beside that.
    """
    V = len(outcomes)

    def by(importance: float) -> float:
        return importance ** (4 / 3) if budget.gaussian else importance  # epsilon goes with shares to the power 3/4

    made = [
        {"histogram": (by(times) * OUTCOME["histogram"], 1),
         "by terms": (by(times) * OUTCOME["by terms"], many * (2 if scored else 1)),
         "by design": (by(times) * OUTCOME["by design"], levels)}
        for many, scored, times in outcomes
    ]  # fmt: skip
    if not public_weight:
        made.append({
            "histogram": (OF_WEIGHT["histogram"], 1), "by outcomes": (V * OF_WEIGHT["by outcomes"], V),
            "by terms": (OF_WEIGHT["by terms"], terms), "by design": (OF_WEIGHT["by design"], levels),
            "products by terms": (V * OF_WEIGHT["products by terms"], V * multiplied),
        })  # fmt: skip
    split = _split(budget, made)
    if public_weight:
        return split
    if split[-1].get("products by terms", PRODUCTS) * records**0.5 < PRODUCTS:
        del made[-1]["products by terms"]
        split = _split(budget, made)
    # two tables in place of one: parts of epsilon, or of rho, which goes with its square
    in_two = split[-1].get("by terms", 0.0) / (2**0.5 if budget.gaussian else 2)
    if in_two * records**0.5 >= WEIGHT_SCORED:
        split[-1] |= {"by terms": in_two, "scores by terms": in_two}
    return split


def _split(budget: TableBudget, made: Sequence[Mapping[str, tuple[float, int]]]) -> list[dict[str, float]]:
    """Epsilon of each table, from the share of its kind and how many there are of it."""
    found = iter(budget.split([(share / many, many) for kinds in made for share, many in kinds.values() if many]))
    return [{kind: next(found) for kind, (_, many) in kinds.items() if many} for kinds in made]


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
    place, size = places(sizes), np.repeat(sizes, sizes)
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


@dataclass(frozen=True, eq=False, repr=False)
class _File:
    """A file that is measured: who counts its records, and the noise that counts get.

    ``blank`` is a record that is counted nowhere.
    """

    counter: Counter
    n: int
    rng: np.random.Generator | None
    units: Units | None
    blank: int | None
    gaussian: bool

    @property
    def per(self) -> int:
        """Parts of a record that are counted."""
        return 1 if self.units is None else PARTS

    @property
    def most(self) -> int:
        """Records that what is protected counts for, at most."""
        return 1 if self.units is None else self.units.most

    @cached_property
    def counted(self) -> float:
        """What all records count for: public, so that a blank one is among them."""
        return float(self.n if self.units is None else self.units.parts.sum() / PARTS)

    def sd(self, epsilon: float) -> float:
        """Standard deviation of the noise of a count."""
        return noise_variance(epsilon / self.most, gaussian=self.gaussian) ** 0.5


class _Measured:
    """A variable while it is measured: its tables so far, and what its histogram says of the cells."""

    def __init__(self, name: str, cells: Cells, file: _File) -> None:
        self.name, self.cells, self.file = name, cells, file
        self.tables: list[NoisyTable] = []
        self.p: Floats = np.empty(0)
        self.earlier_groups: dict[str, Codes] = {}  # groups of cells of earlier variables
        file.counter.add(name, cells)

    def add(
        self, epsilon: float, by: str | None, groups: Codes, *, term: Term | None = None, levels: int = 1,
        earlier: _Measured | None = None, by_groups: Codes | None = None, scores: Codes | None = None,
        by_scores: Codes | None = None,
    ) -> None:  # fmt: skip
        """Count, and add noise; with ``by_scores``, each record so many times a thousandth."""
        name, file = None if earlier is None else earlier.name, self.file
        whole = file.counter.count(
            Count(self.name, groups, None if term is None else term.name, levels, name, by_groups, scores, by_scores)
        )
        unit = file.per * (1 if scores is None else SCORE_UNIT) * (1 if by_scores is None else SCORE_UNIT)
        counts = noisy(whole, epsilon, file.rng, unit=file.most * unit, gaussian=file.gaussian)
        self.tables.append(NoisyTable(
            by, groups, counts, epsilon, unit=file.most * unit, per=unit, gaussian=file.gaussian, scores=scores,
            earlier=name, by_groups=by_groups, by_scores=by_scores,
        ))  # fmt: skip

    def histogram(self, epsilon: float) -> None:
        """Measure the histogram, and smooth it."""
        groups = histogram_groups(self.cells, self.file.n, epsilon / self.file.most)
        self.add(epsilon, None, groups)
        self.p = smoothed(self.tables[0], self.cells, self.file.counted)

    def groups(self, levels: int, epsilon: float, most: int | None = None) -> Codes:
        """Groups of the cells for a table of so many levels (G,); with ``most``, so many, without finer tails."""
        most, tails = (MOST, TAILS) if most is None else (most, 0)
        most = min(most, max(MOST_CELLS // levels, OF_LEVELS))
        file = self.file
        return table_groups(self.p, self.cells.numbers, file.n, levels, file.sd(epsilon), most, tails)

    def by(self, term: Term, epsilon: float, most: int | None = None) -> None:
        """Measure groups of the cells by the levels of a term."""
        groups = self.groups(term.levels, epsilon, most)
        self.add(epsilon, term.name, groups, term=term, levels=term.levels)

    def by_term(self, term: Term, epsilon: float, *, scored: bool) -> None:
        """Measure sums of scores, where there are any, and groups of the cells by a term."""
        if scored:
            self.scores(term, epsilon)
        self.by(term, epsilon)

    def by_earlier(self, earlier: _Measured, epsilon: float, most: int, *, scored: bool = False) -> None:
        """Measure groups of the cells by those of an earlier variable, at most so many of it."""
        sd = noise_variance(epsilon, gaussian=self.file.gaussian) ** 0.5
        group = table_groups(earlier.p, earlier.cells.numbers, self.file.n, PARENT_LEVELS, sd, most, tails=0)
        self.earlier_groups[earlier.name] = group
        self._crossed(None, epsilon, earlier, group, scored=scored)

    def by_both(self, term: Term, earlier: _Measured, epsilon: float, *, scored: bool) -> None:
        """Measure groups of the cells by the levels of a term and a few groups of an earlier variable, crossed."""
        group = coarser_groups(self.earlier_groups[earlier.name], earlier.p, earlier.cells.numbers, CROSSED)
        self._crossed(term, epsilon, earlier, group, scored=scored)

    def _crossed(
        self, term: Term | None, epsilon: float, earlier: _Measured, group: Codes, *, scored: bool
    ) -> None:  # fmt: skip
        name, levels = (None, 1) if term is None else (term.name, term.levels)
        rows = levels * (int(group.max()) + 1)
        table: dict[str, Any] = {"term": term, "levels": levels, "earlier": earlier, "by_groups": group}
        if scored:
            self.add(epsilon, name, self._kinds, scores=self.scores_by(rows, epsilon), **table)
        self.add(epsilon, name, self.groups(rows, epsilon, MOST_OF_WEIGHTS), **table)

    def within(self, term: Term, epsilon: float) -> None:
        """Measure how strata or PSUs differ: by each, or by pairs of records of one, whichever tells more."""
        file = self.file
        by_unit = file.units is not None and term.level is file.units.unit_of_record
        if by_unit or pairs_tell_more(term.levels, file.n / term.levels, epsilon / file.most):
            self.pairs(term, epsilon)
        else:
            self.by(term, epsilon, most=OF_LEVELS)

    def pairs(self, term: Term, epsilon: float) -> None:
        """Measure the group of one record by that of another of the same level, in pairs made at random.

        A record, or a unit of several, is in one pair at most.
        """
        file = self.file
        rng = file.rng or np.random.default_rng()
        one, other = pairs_of(term.level, rng, None if file.units is None else file.units.unit_of_record)
        sd = noise_variance(epsilon, gaussian=file.gaussian) ** 0.5
        group = table_groups(self.p, self.cells.numbers, len(one), OF_LEVELS, sd, OF_LEVELS, 0)
        J = int(group.max()) + 1
        a, b = (file.counter.groups_of(self.name, group, records) for records in (one, other))
        there = np.ones(len(one), dtype=bool) if file.blank is None else (one != file.blank) & (other != file.blank)
        both = np.bincount((a * J + b)[there], minlength=J * J).reshape(J, J)
        counts = noisy(both, epsilon, file.rng, gaussian=file.gaussian)
        self.tables.append(NoisyTable(term.name, group, counts, epsilon, pairs=True, gaussian=file.gaussian))

    @property
    def _kinds(self) -> Codes:
        """Groups of cells whose scores are added up: all numbers, and each special value by itself (G,)."""
        numbers = self.cells.numbers
        return np.concatenate([np.zeros(numbers, dtype=np.intp), 1 + np.arange(len(self.cells) - numbers)])

    def scores(self, term: Term, epsilon: float) -> None:
        """Measure the sum of scores of numbers, and counts of special values, by the levels of a term."""
        scores = self.scores_by(term.levels, epsilon)
        self.add(epsilon, term.name, self._kinds, term=term, levels=term.levels, scores=scores)

    def scores_by(self, levels: int, epsilon: float) -> Codes:
        """Score of each cell (G,), for sums by so many levels."""
        assert self.cells.bins is not None
        return cell_scores(self.p, self.cells.bins.means, self.file.n, levels, self.file.sd(epsilon), SCORE_UNIT)

    def products(self, term: Term, epsilon: float, earlier: _Measured) -> None:
        """Measure sums of the products of a score and that of an earlier variable's cell, by the levels of a term.

        A special value of the earlier variable has a sum of its own, and the score 1.
        """
        numbers, special = earlier.cells.numbers, len(earlier.cells) - earlier.cells.numbers
        scores = np.full(len(earlier.cells), SCORE_UNIT) if numbers < 2 else earlier.scores_by(term.levels, epsilon)
        kinds = np.concatenate([np.zeros(numbers, dtype=np.intp), np.arange(special) + (numbers > 0)])
        rows = term.levels * (int(kinds.max()) + 1)
        self.add(
            epsilon, term.name, np.zeros(len(self.cells), dtype=np.intp), term=term, levels=term.levels,
            earlier=earlier, by_groups=kinds, scores=self.scores_by(rows, epsilon), by_scores=scores,
        )  # fmt: skip

    def variable(self, terms: tuple[str, ...], parents: tuple[str, ...]) -> Variable:
        """What was measured."""
        return Variable(self.name, self.cells, terms, parents, tuple(self.tables))
