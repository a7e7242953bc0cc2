"""The only step that reads confidential values: it counts records and adds noise.

To measure a table means to count records by the table's cells and to add noise to each count.  First a histogram of
each variable is measured and smoothed.  The smoothed histogram determines groups of the variable's cells, which are
bins of numbers and special values.  Then counts of groups are measured: for outcomes by formula terms, for the weight
by terms and by outcomes, and for all variables by strata and PSUs.  Sums of scores are measured as well; a score is
linear in an amount.
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

# Relative shares of epsilon by kind of table, for an outcome and for the weight
OUTCOME = {"histogram": 0.12, "by terms": 0.4, "by design": 0.12}
OF_WEIGHT = {"histogram": 0.06, "by outcomes": 0.18, "by terms": 0.24, "products by terms": 0.08, "by design": 0.06}
OF_LEVELS = 4  # largest number of groups of a variable in tables by strata or PSUs
MOST_CELLS = 800  # approximate limit of the numbers in a table: more add little information and make fits slow
PER_BIN, LEAST_BINS = 30.0, 16  # records times epsilon for each bin of a histogram; smallest number of bins
MOST_OF_WEIGHTS = 12  # largest number of groups in tables of weights by term, and in crossed tables
# Scores of weights (WEIGHT_SCORED) and products (PRODUCTS) are measured only if the epsilon of the table, times the
# root of the number of records of a level, is at least this large
WEIGHT_SCORED, PRODUCTS = 5.5, 1.0
WEIGHT_BOUNDS = (0.02, 20.0)  # default bounds of weights, as multiples of the mean weight
CROSSED = 4  # largest number of groups of an earlier numeric outcome in tables crossed with a term
MOST_PRODUCTS = 12  # approximate limit of the tables of products, which are by the terms with the fewest levels
# Groups of an earlier outcome: assumed number of levels, largest and smallest number of groups
PARENT_LEVELS, MOST_PARENTS, LEAST_PARENTS = 4, 12, 4
ROWS = 3_000  # largest number of rows of the model of weights


@dataclass(frozen=True)
class Question:
    """An outcome to measure, with its schema and its formula.

    The formula consists of the public ``terms``, the ``earlier`` outcomes, and ``products`` of a term and an earlier
    outcome.  The outcome's share of epsilon is proportional to ``importance``.
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
    """Make noisy tables of the outcomes, in sequence, and of the survey weight: count records and add noise.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    questions : sequence of Question
        The outcomes.  The weight depends on all outcomes and all terms.
    predictors : str
        The public predictors of all outcomes, such as ``"region + sex"``.
    terms : list of Term
        The terms in this order: terms of the predictors; the size of the protected units; strata and PSUs, unless the
        terms before determine them; the protected units.
    epsilon : float
        Epsilon of all tables together, if the outcomes and the weight of one record or protected unit are blanked in
        one of two files.  Under Laplace noise, epsilon for replacing these values is at most twice as large.
    delta : float, optional
        Delta of (epsilon, delta).  If given, the noise is Gaussian.
    population_total : float
        The public sum of the weights.
    weight_bounds : (float, float)
        Public bounds of a weight, as multiples of the mean weight.
    population_totals : mapping of term to float array, optional
        For some terms, the public totals of the weights in the levels of the term.
    public_weight : bool
        True if weights are public.  Public weights are not measured.
    unit : str, optional
        Column of the protected units of several records.
    blank : int, optional
        For audits only: position of a record that is not counted.
    scheduler : str, optional
        Address of a Dask cluster whose workers read and count the files of a scanned design.
    rng : numpy.random.Generator, optional
        Generator of noise by numpy, which is for tests only, because it does not protect the file.

    Raises
    ------
    InputError
        The file contradicts the schema, no cluster answers, or ``scheduler`` is given for a design without files.
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
    measured: dict[str, _Measured] = {}
    for question, cells, epsilons in zip(questions, every, split, strict=False):  # split ends with the weight
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
    """Return the protected units and a unit's largest contribution to a table; None if single records are protected."""
    found = next((term for term in terms if unit is not None and term.name == unit_name(unit)), None)
    if found is None:
        return None
    typical = split.get("by terms", split["histogram"])
    return Units(found.level, most_records(found.level, typical, gaussian=budget.gaussian))


def shares(
    budget: TableBudget, outcomes: Sequence[tuple[int, bool, float]], terms: int, levels: int, records: float,
    multiplied: int, *, public_weight: bool,
) -> list[dict[str, float]]:  # fmt: skip
    """Divide the privacy budget between all tables.

    For each variable, return a dictionary from kinds of tables, such as "histogram", to the epsilon of one table of the
    kind.

    Parameters
    ----------
    budget : TableBudget
    outcomes : sequence of (int, bool, float)
        For each outcome: the number of terms, earlier outcomes and products in the formula; whether sums of scores
        are measured; the importance, which multiplies the outcome's shares of the budget.
    terms : int
        Number of terms by which the weight is measured.
    levels : int
        Number of terms for strata, PSUs and protected units.
    records : float
        Number of records in a level of the term with the most levels.
    multiplied : int
        Number of terms by which products of the weight and each outcome are measured.
    public_weight : bool
        True if weights are public.  Otherwise the weight is the last variable.

    Notes
    -----
    If sums of scores of an outcome are measured, there are two tables of the outcome by each term: counts and sums.
    Sums of scores of weights correct the fitted population totals by level for the error of smoothing.  Sums of
    products of scores identify the covariance of weight and outcome in each level.  Sums of scores of weights and sums
    of products are measured only if their noise is small enough.
    """
    V = len(outcomes)

    def by(importance: float) -> float:
        return importance ** (4 / 3) if budget.gaussian else importance  # epsilon ~ share^(3/4)

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
    # two tables instead of one: each gets half of epsilon, or half of rho, which is proportional to epsilon^2
    in_two = split[-1].get("by terms", 0.0) / (2**0.5 if budget.gaussian else 2)
    if in_two * records**0.5 >= WEIGHT_SCORED:
        split[-1] |= {"by terms": in_two, "scores by terms": in_two}
    return split


def _split(budget: TableBudget, made: Sequence[Mapping[str, tuple[float, int]]]) -> list[dict[str, float]]:
    """Compute the epsilon of one table of each kind, for every variable.

    For each variable, ``made`` gives every kind's share of the budget and number of tables.
    """
    found = iter(budget.split([(share / many, many) for kinds in made for share, many in kinds.values() if many]))
    return [{kind: next(found) for kind, (_, many) in kinds.items() if many} for kinds in made]


def pairs_tell_more(levels: int, size: float, epsilon: float) -> bool:
    """Return True if random pairs of records estimate the correlation within PSUs better than counts by PSU do.

    There are ``levels`` levels (PSUs or strata) of ``size`` records each.  The variance of an estimate from size / 2
    pairs in each level is compared with the variance of an estimate from one count in each level.  This count is of the
    records below the median, and has the variance size / 4 before noise.
    """
    noise = discrete_laplace_variance(epsilon)
    from_counts = 2 / levels * ((size / 4 + noise) / (size**2 / 4)) ** 2
    pairs = max(levels * size / 2, 1.0)
    return (pairs + 4 * noise) / pairs**2 < from_counts


def pairs_of(level: Codes, rng: np.random.Generator, unit: Codes | None = None) -> tuple[Codes, Codes]:
    """Draw random pairs of records within each stratum, PSU or protected unit.

    Return the positions of the first records of the pairs, and the positions of the second records.  A record is in at
    most one pair.  If units of several records are protected, a unit has at most one record in all pairs.  If the
    levels are the units themselves, each unit has at most one pair.
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
    """Group the cells of a variable for a noisy histogram of n records with privacy loss epsilon.

    Return the group (G,) of each cell.  Bins are merged if the noise is large.  Each special value is a separate group.
    """
    numbers = cells.numbers
    many = int(np.clip(n * epsilon / PER_BIN, min(LEAST_BINS, numbers), numbers))
    bins = np.arange(numbers) * many // max(numbers, 1)
    return np.concatenate([bins, many + np.arange(len(cells) - numbers)]).astype(np.intp)


def smoothed(table: NoisyTable, cells: Cells, n: float) -> Floats:
    """Estimate the probabilities (G,) of the cells by a smooth fit to a noisy histogram of n records."""
    with threadpool_limits(1, "blas"):
        return smooth_histogram(table.sums[0], table.variance, table.groups, cells.numbers, n, cells.tail)


@dataclass(frozen=True, eq=False, repr=False)
class _File:
    """The confidential file and the settings of its noisy tables.  For audits, the record ``blank`` is not counted."""

    counter: Counter
    n: int
    rng: np.random.Generator | None
    units: Units | None
    blank: int | None
    gaussian: bool

    @property
    def per(self) -> int:
        """Contribution of a fully counted record to a count: 1, or 60 (sixtieths) if units of records are protected."""
        return 1 if self.units is None else PARTS

    @property
    def most(self) -> int:
        """Largest contribution of one protected unit to a table, in records."""
        return 1 if self.units is None else self.units.most

    @cached_property
    def counted(self) -> float:
        """Public total that all records, including the record ``blank``, contribute to a count."""
        return float(self.n if self.units is None else self.units.parts.sum() / PARTS)

    def sd(self, epsilon: float) -> float:
        return noise_variance(epsilon / self.most, gaussian=self.gaussian) ** 0.5


class _Measured:
    """A confidential variable and its noisy tables, which are added one by one.

    ``tables`` are its noisy tables so far, and ``p`` (G,) are the probabilities of its cells from the smoothed
    histogram.
    """

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
        """Count a table, add noise, and keep the noisy table.

        A record adds 1 to the table, or the score of its cell if ``scores`` is given.  If ``by_scores`` is given, the
        score is multiplied by the score of the record's cell of the earlier variable.
        """
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
        groups = histogram_groups(self.cells, self.file.n, epsilon / self.file.most)
        self.add(epsilon, None, groups)
        self.p = smoothed(self.tables[0], self.cells, self.file.counted)

    def groups(self, levels: int, epsilon: float, most: int | None = None) -> Codes:
        """Group the variable's cells into the columns of a noisy table with ``levels`` rows.

        Return the group (G,) of each cell.  If ``most`` is given, there are at most about this many groups of numbers,
        without smaller groups in the tails.
        """
        most, tails = (MOST, TAILS) if most is None else (most, 0)
        most = min(most, max(MOST_CELLS // levels, OF_LEVELS))
        file = self.file
        return table_groups(self.p, self.cells.numbers, file.n, levels, file.sd(epsilon), most, tails)

    def by(self, term: Term, epsilon: float, most: int | None = None) -> None:
        """Count records by level of a term and group of this variable's cells, and add noise."""
        groups = self.groups(term.levels, epsilon, most)
        self.add(epsilon, term.name, groups, term=term, levels=term.levels)

    def by_term(self, term: Term, epsilon: float, *, scored: bool) -> None:
        """Count records by level of a term, with noise.  If ``scored``, also add a noisy table of sums of scores."""
        if scored:
            self.scores(term, epsilon)
        self.by(term, epsilon)

    def by_earlier(self, earlier: _Measured, epsilon: float, most: int, *, scored: bool = False) -> None:
        """Count records by group of an earlier variable's cells and group of this variable's cells, and add noise.

        A numeric earlier variable has at most ``most`` groups of bins.  With ``scored``, also measure sums of scores of
        this variable for each group of the earlier variable.
        """
        numbers, sd = earlier.cells.numbers, self.file.sd(epsilon)
        group = table_groups(earlier.p, numbers, self.file.n, PARENT_LEVELS, sd, most, tails=0)
        self.earlier_groups[earlier.name] = group
        self._crossed(None, epsilon, earlier, group, scored=scored)

    def by_both(self, term: Term, earlier: _Measured, epsilon: float, *, scored: bool) -> None:
        """Count records by level of a term, group of an earlier variable and group of this variable, and add noise.

        The earlier variable has few groups.  With ``scored``, also measure sums of scores of this variable for each
        combination of a level and a group of the earlier variable.
        """
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
        """Count records, or pairs of records, within strata, PSUs or protected units, and add noise.

        For protected units, pairs are always counted.  For strata and PSUs, the table is counted that is more
        informative about the correlation within levels (:func:`pairs_tell_more`).
        """
        file = self.file
        by_unit = file.units is not None and term.level is file.units.unit_of_record
        if by_unit or pairs_tell_more(term.levels, file.n / term.levels, epsilon / file.most):
            self.pairs(term, epsilon)
        else:
            self.by(term, epsilon, most=OF_LEVELS)

    def pairs(self, term: Term, epsilon: float) -> None:
        """Draw random pairs of records within levels of a term, count pairs by the groups of both records, add noise.

        A record, or a unit of several records, is in at most one pair.
        """
        file = self.file
        rng = file.rng or np.random.default_rng()
        one, other = pairs_of(term.level, rng, None if file.units is None else file.units.unit_of_record)
        sd = noise_variance(epsilon, gaussian=file.gaussian) ** 0.5
        group = table_groups(self.p, self.cells.numbers, len(one), OF_LEVELS, sd, OF_LEVELS, 0)
        J = int(group.max()) + 1
        a, b = (file.counter.groups_of(self.name, group, records) for records in (one, other))
        counted = np.ones(len(one), dtype=bool) if file.blank is None else (one != file.blank) & (other != file.blank)
        both = np.bincount((a * J + b)[counted], minlength=J * J).reshape(J, J)
        counts = noisy(both, epsilon, file.rng, gaussian=file.gaussian)
        self.tables.append(NoisyTable(term.name, group, counts, epsilon, pairs=True, gaussian=file.gaussian))

    @property
    def _kinds(self) -> Codes:
        """Column of each cell in tables of sums of scores: one column for all bins, and one for each special value."""
        numbers = self.cells.numbers
        return np.concatenate([np.zeros(numbers, dtype=np.intp), 1 + np.arange(len(self.cells) - numbers)])

    def scores(self, term: Term, epsilon: float) -> None:
        """Sum the scores of numbers, and count each special value, in each level of a term, and add noise.

        A score is an amount on a scale from -1 to 1.  Special values are zero, missing and heaps.
        """
        scores = self.scores_by(term.levels, epsilon)
        self.add(epsilon, term.name, self._kinds, term=term, levels=term.levels, scores=scores)

    def scores_by(self, levels: int, epsilon: float) -> Codes:
        """Return the score (G,) of each cell, in thousandths, for a table of sums of scores with ``levels`` rows."""
        assert self.cells.bins is not None
        return cell_scores(self.p, self.cells.bins.means, self.file.n, levels, self.file.sd(epsilon), SCORE_UNIT)

    def products(self, term: Term, epsilon: float, earlier: _Measured) -> None:
        """Sum the product of the scores of this variable and of an earlier variable in each level of a term; add noise.

        Each special value of the earlier variable has the score 1 and a separate sum.
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
        return Variable(self.name, self.cells, terms, parents, tuple(self.tables))
