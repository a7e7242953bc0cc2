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
from ..models.loglinear.table_model import places
from .bins import Cells, Codes, Floats
from .groups import MOST, TAILS, coarser, groups_of, scores_of
from .noise import TableBudget, discrete_laplace_variance, noise_variance, noisy
from .noisy_tables import SCORE_UNIT, WEIGHT, Counts, NoisyTable, NoisyTables, Variable
from .outcome import Outcome
from .terms import Term, public_cells, unit_name
from .units import PARTS, Units, most_records

# Shares of epsilon by kind of table, of an outcome and of the weight, over the sum of those of the tables that are made
OUTCOME = {"histogram": 0.12, "by terms": 0.4, "by design": 0.12}
OF_WEIGHT = {"histogram": 0.06, "by outcomes": 0.18, "by terms": 0.24, "products by terms": 0.08, "by design": 0.06}
BLOCK = 1 << 18  # records that are counted together
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
    rng : numpy.random.Generator, optional
        For tests only, and not safe.

    Raises
    ------
    InputError
        The file contradicts the schema.
    """
    n, fixed, levels = design.n, [t for t in terms if not t.drawn], [t for t in terms if t.drawn]
    every = [Cells.of(question.outcome) for question in questions]
    factors = [
        (len(q.terms) + len(q.earlier) + len(q.products), c.scored, q.importance)
        for q, c in zip(questions, every, strict=True)
    ]
    least = n / max((term.levels for term in fixed), default=1)
    multiplied = sorted(fixed, key=lambda term: term.levels)[: max(MOST_PRODUCTS // len(questions), 1)]
    budget = TableBudget(epsilon, delta)
    split = shares(
        budget, factors, len(fixed), len(levels), least, len(multiplied), public_weight=public_weight
    )  # fmt: skip
    units = _units(terms, unit, split[0], budget)
    measured: dict[str, _Measured] = {}
    asked = {column for cells in every for column in cells.columns_of_asked}
    frame = design.select([column for column in design.columns if column in asked])
    for question, cells, of in zip(questions, every, split, strict=False):  # the weight is the last of split
        column = design.column(question.name)
        code = cells.codes(column, question.name, cells.asked(frame))
        if question.name in asked:  # later rules see what files have
            frame = frame.assign(**{question.name: cells.as_drawn(column, code).array})
        y = _Measured(cells, code, n, rng, units, blank, budget.gaussian)
        y.histogram(of["histogram"])
        for term in fixed:
            if term.name in question.terms:
                y.by_term(term, of["by terms"], scored=cells.scored)
        for name in question.earlier:
            y.by_earlier(name, measured[name], of["by terms"], MOST_PARENTS, scored=cells.scored)
        for term_name, name in question.products:
            term = next(each for each in fixed if each.name == term_name)
            y.by_both(term, name, measured[name], of["by terms"], scored=cells.scored)
        for term in levels:
            y.within(term, of["by design"])
        measured[question.name] = y
    outcomes = tuple(measured[q.name].variable(q.name, q.terms, q.earlier) for q in questions)
    weight = None
    if not public_weight:
        of, w_cells = split[-1], Cells.of_weights(weight_bounds, population_total / n)
        w_code = w_cells.of_numbers(np.asarray(design.weights, dtype=np.float64))
        w = _Measured(w_cells, w_code, n, rng, units, blank, budget.gaussian)
        w.histogram(of["histogram"])
        most = int(np.clip(ROWS // len(public_cells(fixed, n)[0]), LEAST_PARENTS, MOST_PARENTS))
        for name, y in measured.items():
            w.by_earlier(name, y, of["by outcomes"], most)
        for term in fixed:
            if "scores by terms" in of:
                w.scores(term.name, term.level, term.levels, of["scores by terms"])
            for name, y in measured.items() if "products by terms" in of and term in multiplied else ():
                w.products(term, of["products by terms"], name, y)
            w.by(term.name, term.level, term.levels, of["by terms"], most=MOST_OF_WEIGHTS)
        for term in levels:
            w.within(term, of["by design"])
        weight = w.variable(WEIGHT, tuple(term.name for term in fixed), tuple(measured))
    return NoisyTables(
        predictors, outcomes, weight, {term.name: term for term in terms}, n, population_total, population_totals or {},
        None if units is None else unit, 1 if units is None else units.most, delta,
    )  # fmt: skip


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


def counted(
    level: Codes, levels: int, code: Codes, groups: Codes, scores: Codes | None = None, parts: Codes | int = 1
) -> Counts:  # fmt: skip
    """Records by level and group of their cell (L, J): a record adds ``parts`` to one of them, times a cell's score."""
    J = int(groups.max()) + 1
    counts = np.zeros(levels * J, dtype=np.int64)
    for first in range(0, len(code), BLOCK):  # sums of a block are whole numbers that floats hold
        these = slice(first, first + BLOCK)
        cell = level[these] * J + groups[code[these]]
        if isinstance(parts, int) and scores is None:
            counts += parts * np.bincount(cell, minlength=levels * J)
            continue
        adds = np.ones(len(cell)) if scores is None else scores[code[these]].astype(np.float64)
        adds *= parts if isinstance(parts, int) else parts[these]
        counts += np.bincount(cell, adds, levels * J).astype(np.int64)
    return counts.reshape(levels, J)


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


@dataclass
class _Measured:
    """A variable while it is measured: its tables so far, and what its histogram says of the cells."""

    cells: Cells
    code: Codes
    n: int
    rng: np.random.Generator | None
    units: Units | None = None
    blank: int | None = None
    gaussian: bool = False

    def __post_init__(self) -> None:
        self.tables: list[NoisyTable] = []
        self.p: Floats = np.empty(0)
        self.of_earlier: dict[str, Codes] = {}  # groups of cells of earlier variables
        # a record counts for so many parts of one, and what is protected for so many at most
        self.parts: Codes | int = 1 if self.units is None else self.units.parts
        self.per, self.most = (1, 1) if self.units is None else (PARTS, self.units.most)
        self.counted = float(np.sum(np.broadcast_to(self.parts, self.n))) / self.per  # public: a blank one is counted
        if self.blank is not None:
            self.parts = np.where(np.arange(self.n) == self.blank, 0, self.parts)

    def sd(self, epsilon: float) -> float:
        """Standard deviation of the noise of a count."""
        return noise_variance(epsilon / self.most, gaussian=self.gaussian) ** 0.5

    def add(
        self, epsilon: float, by: str | None, level: Codes, levels: int, groups: Codes, *, times: Codes | None = None,
        **more: Any,
    ) -> None:  # fmt: skip
        """Count, and add noise; with ``times``, each record so many times a thousandth."""
        scores: Codes | None = more.get("scores")
        per = self.per * (1 if scores is None else SCORE_UNIT) * (1 if times is None else SCORE_UNIT)
        parts = self.parts if times is None else self.parts * times
        whole = counted(level, levels, self.code, groups, scores, parts)
        counts = noisy(whole, epsilon, self.rng, unit=self.most * per, gaussian=self.gaussian)
        self.tables.append(
            NoisyTable(by, groups, counts, epsilon, unit=self.most * per, per=per, gaussian=self.gaussian, **more)
        )  # fmt: skip

    def histogram(self, epsilon: float) -> None:
        """Measure the histogram, and smooth it."""
        groups = histogram_groups(self.cells, self.n, epsilon / self.most)
        self.add(epsilon, None, np.zeros(self.n, dtype=np.intp), 1, groups)
        self.p = smoothed(self.tables[0], self.cells, self.counted)

    def by(
        self, name: str | None, level: Codes, levels: int, epsilon: float, most: int | None = None, **earlier: Any
    ) -> None:  # fmt: skip
        """Measure groups of the cells by the levels of a factor; with ``most``, so many, without finer tails."""
        most, tails = (MOST, TAILS) if most is None else (most, 0)
        most = min(most, max(MOST_CELLS // levels, OF_LEVELS))
        group = groups_of(self.p, self.cells.numbers, self.n, levels, self.sd(epsilon), most, tails)
        self.add(epsilon, name, level, levels, group, **earlier)

    def by_term(self, term: Term, epsilon: float, *, scored: bool) -> None:
        """Measure sums of scores, where there are any, and groups of the cells by a term."""
        if scored:
            self.scores(term.name, term.level, term.levels, epsilon)
        self.by(term.name, term.level, term.levels, epsilon)

    def by_earlier(
        self, name: str, earlier: _Measured, epsilon: float, most: int, *, scored: bool = False
    ) -> None:  # fmt: skip
        """Measure groups of the cells by those of an earlier variable, at most so many of it."""
        sd = noise_variance(epsilon, gaussian=self.gaussian) ** 0.5
        group = groups_of(earlier.p, earlier.cells.numbers, self.n, PARENT_LEVELS, sd, most, tails=0)
        self.of_earlier[name] = group
        level, levels = group[earlier.code], int(group.max()) + 1
        if scored:
            self.scores(None, level, levels, epsilon, earlier=name, by_groups=group)
        self.by(None, level, levels, epsilon, MOST_OF_WEIGHTS, earlier=name, by_groups=group)

    def by_both(self, term: Term, name: str, earlier: _Measured, epsilon: float, *, scored: bool) -> None:
        """Measure groups of the cells by the levels of a term and a few groups of an earlier variable, crossed."""
        group = coarser(self.of_earlier[name], earlier.p, earlier.cells.numbers, CROSSED)
        J = int(group.max()) + 1
        level, levels = term.level * J + group[earlier.code], term.levels * J
        if scored:
            self.scores(term.name, level, levels, epsilon, earlier=name, by_groups=group)
        self.by(term.name, level, levels, epsilon, MOST_OF_WEIGHTS, earlier=name, by_groups=group)

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
        sd = noise_variance(epsilon, gaussian=self.gaussian) ** 0.5
        group = groups_of(self.p, self.cells.numbers, len(one), OF_LEVELS, sd, OF_LEVELS, 0)
        J = int(group.max()) + 1
        there = 1 if self.blank is None else ((one != self.blank) & (other != self.blank)).astype(np.int64)
        both = counted(group[self.code[one]], J, self.code[other], group, None, there)
        counts = noisy(both, epsilon, self.rng, gaussian=self.gaussian)
        self.tables.append(NoisyTable(term.name, group, counts, epsilon, pairs=True, gaussian=self.gaussian))

    def scores(self, name: str | None, level: Codes, levels: int, epsilon: float, **earlier: Any) -> None:
        """Measure the sum of scores of numbers, and counts of special values, by the levels of a factor."""
        numbers = self.cells.numbers
        group = np.concatenate([np.zeros(numbers, dtype=np.intp), 1 + np.arange(len(self.cells) - numbers)])
        self.add(epsilon, name, level, levels, group, scores=self.scores_by(levels, epsilon), **earlier)

    def scores_by(self, levels: int, epsilon: float) -> Codes:
        """Score of each cell (G,), for sums by so many levels."""
        assert self.cells.bins is not None
        return scores_of(self.p, self.cells.bins.means, self.n, levels, self.sd(epsilon), SCORE_UNIT)

    def products(self, term: Term, epsilon: float, name: str, earlier: _Measured) -> None:
        """Measure sums of the products of a score and that of an earlier variable's cell, by the levels of a term.

        A special value of the earlier variable has a sum of its own, and the score 1.
        """
        numbers, special = earlier.cells.numbers, len(earlier.cells) - earlier.cells.numbers
        scores = np.full(len(earlier.cells), SCORE_UNIT) if numbers < 2 else earlier.scores_by(term.levels, epsilon)
        kinds = np.concatenate([np.zeros(numbers, dtype=np.intp), np.arange(special) + (numbers > 0)])
        J, one = int(kinds.max()) + 1, np.zeros(len(self.cells), dtype=np.intp)
        self.add(
            epsilon, term.name, term.level * J + kinds[earlier.code], term.levels * J, one,
            scores=self.scores_by(term.levels * J, epsilon), earlier=name, by_groups=kinds, by_scores=scores,
            times=scores[earlier.code],
        )  # fmt: skip

    def variable(self, name: str, terms: tuple[str, ...], parents: tuple[str, ...]) -> Variable:
        """What was measured."""
        return Variable(name, self.cells, terms, parents, tuple(self.tables))
