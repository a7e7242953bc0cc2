"""The joint distribution of all variables, fitted to noisy tables in sequence, and synthetic records from the fit.

Each variable has a log-linear model with effects of formula terms, which are public columns and earlier variables.
Strata, PSUs and units have additional effects, which are drawn anew for each synthetic data set.

Shapes: C public cells (combinations of public levels) and K parts of these (:mod:`.expanded`), R rows of a model
(records in the same row have the same distribution), G cells of a variable (bins of numbers and special values).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from ..design.conditions import columns_of_condition, is_one_comparison, obeyed
from ..models.loglinear.bases import Response, one_hot, smooth_features
from ..models.loglinear.response import Observed, Rows, Total, fit_response
from ..models.loglinear.table_fit import Perturbation
from .bin_groups import effect_steps
from .bins import Cells
from .expanded import LEAST, Expanded, by_one, by_simulated, without_earlier
from .measure import smoothed
from .noisy_tables import SCORE_UNIT, WEIGHT, NoisyTable, NoisyTables, Variable
from .public_cells import PublicCells
from .row_probabilities import RowProbabilities
from .terms import combined
from .variable_fit import Feature, VariableDraw, VariableFit, centred, perturbation, term_tables

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

KNOWN = 0.003  # relative standard error given to a known total, to allow for rounding
IMPOSSIBLE = -30.0  # approximate log probability of a cell that breaks a rule
SIMULATED = 6_000  # approximate number of records that represent several earlier variables

Draw = tuple[VariableDraw, ...]


@dataclass(frozen=True, eq=False, repr=False)
class JointFit:
    """The fits of all variables: each outcome given public columns and earlier outcomes; the weight given all outcomes.

    Attributes
    ----------
    measured : NoisyTables
        The noisy tables.
    cells : PublicCells
        The combinations of public levels.
    variables : dict of str to VariableFit
        Fits of the variables, in sequence.  The weight is the last variable.
    records : Records or None
        Simulated records that represent several earlier variables.  None means that no variable needs them.
    """

    measured: NoisyTables
    cells: PublicCells
    variables: Mapping[str, VariableFit]
    records: Records | None = None

    def draws(self, count: int, rng: np.random.Generator, *, opposite: bool = True) -> list[Draw]:
        """Draw the coefficients of all variables from their approximate posterior distribution, ``count`` times.

        Return ``count`` draws.  A draw is a tuple with the coefficients of every variable, in sequence.

        For one draw, the models are fitted again, to expected tables with simulated errors of noise and priors, and
        with drawn effects of strata, PSUs and units.  With ``opposite``, every second draw has the errors of the draw
        before with opposite signs, and its effects reflected at their mean, so that the mean of the draws is close to
        the fit.  Without ``opposite``, all draws have the same effects of strata, PSUs and units.  At the end, the
        draws are shifted so that their mean probabilities equal the probabilities of the fit
        (:func:`~surveysynth.measuring.variable_fit.centred`).
        """
        fits = [*self.variables.values()]
        levels = [fit.drawn_levels(rng) for fit in fits]
        by: list[Perturbation] = []
        made: list[list[VariableDraw]] = []
        for k in range(count):
            if k % 2 == 0 or not opposite:
                by = [
                    perturbation(variable, fit, rng)
                    for variable, fit in zip(self.measured.variables, fits, strict=True)
                ]
            else:
                by = [-each for each in by]
            if opposite and k:
                levels = [
                    fit.opposite(each) if k % 2 else fit.drawn_levels(rng)
                    for fit, each in zip(fits, levels, strict=True)
                ]
            made.append(
                [
                    VariableDraw(fit.draw(each, own_levels), own_levels)
                    for fit, each, own_levels in zip(fits, by, levels, strict=True)
                ]
            )
        by_variable = [centred(fit, each) for fit, each in zip(fits, zip(*made, strict=True), strict=True)]
        return [*zip(*by_variable, strict=True)]


@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """A public edit rule: a condition on columns, as text.

    The condition may contain a variable that is drawn later, ``ahead``.  Then a record obeys the rule if the condition
    holds for at least one value of this variable.
    """

    text: str
    ahead: Variable | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Synthetic records, with the variables that have been drawn so far.

    Attributes
    ----------
    cell : int array (K,)
        Public cell (combination of public levels) of each of the K records.
    frame : DataFrame
        Public columns, and values of the drawn variables.
    codes : dict of str to int array (K,)
        For each drawn variable, the cell of each record's value.
    cells : dict of str to Cells
        For each drawn variable, the definition of its cells.
    """

    cell: Codes
    frame: pd.DataFrame
    codes: Mapping[str, Codes]
    cells: Mapping[str, Cells] = field(default_factory=dict)

    def with_variable(
        self, variable: Variable, fit: VariableFit, drawn: VariableDraw, rng: Generator, rules: Sequence[Rule] = ()
    ) -> Records:  # fmt: skip
        """Draw values of one more variable, and return the records with these values.

        Records to which the variable does not apply get its last cell.  If a record breaks one of the ``rules``, the
        record's cell is drawn again among the cells that obey all rules.
        """
        p = fit.probabilities(drawn, self.cell, self.codes)
        code = np.where(variable.cells.asked(self.frame), p.draw(rng), variable.cells.answers)
        made = self._with(variable, code, variable.cells.values(code, rng))
        return made._obeying(variable, p, rules, rng.spawn(1)[0]) if rules else made

    def rules_of(self, variable: Variable, edits: Sequence[str], later: Sequence[Variable]) -> list[Rule]:
        """Select the rules in ``edits`` that can be checked when ``variable`` is drawn.

        Such a rule contains the variable, existing columns, and at most one of the ``later`` variables.  A rule with a
        later variable is left out in two cases.  First, the existing columns do not show whether the later variable
        applies to a record.  Second, the later variable is numeric and the rule has more than one comparison: the
        bounds of the variable do not show whether some number obeys such a rule.
        """
        found, known = [], {*self.frame, variable.name}
        for text in edits:
            columns = columns_of_condition(text, "edits")
            ahead = [each for each in later if each.name in columns]
            if variable.name not in columns or len(ahead) > 1 or not columns <= {*known, *(a.name for a in ahead)}:
                continue
            if not ahead:
                found.append(Rule(text))
            elif ahead[0].cells.bins is None or is_one_comparison(text):
                asked = ahead[0].cells.outcome.applies
                if asked is None or columns_of_condition(asked, "applies") <= known:
                    found.append(Rule(text, ahead[0]))
        return found

    def possible(
        self, variable: Variable, rules: Sequence[Rule], which: Codes, rng: Generator
    ) -> tuple[NDArray[np.bool_], pd.Series]:  # fmt: skip
        """Find the cells of a variable with which the records at the positions ``which`` obey the edit rules.

        In each of these records, a value is drawn in each cell (in a category, the category itself).  The cell of
        records to which the variable does not apply is not tested.  Return two things:

        - a boolean array (len(which), number of cells): True if the record with the value in this cell obeys all rules;
        - the values in the order of this array: all cells of the first record, all cells of the second, and so on.
        """
        A = variable.cells.answers
        code = np.tile(np.arange(A), len(which))
        tried, at = variable.cells.values(code, rng), np.repeat(which, A)
        candidates = Records(self.cell[at], self.frame.iloc[at], {k: v[at] for k, v in self.codes.items()}, self.cells)
        return ~candidates._with(variable, code, tried).broken(rules).reshape(len(which), A), tried

    def _with(self, variable: Variable, code: Codes, values: pd.Series) -> Records:
        frame = self.frame.assign(**{variable.name: values.array})
        return Records(
            self.cell, frame, {**self.codes, variable.name: code}, {**self.cells, variable.name: variable.cells}
        )  # fmt: skip

    def broken(self, rules: Sequence[Rule]) -> NDArray[np.bool_]:
        """Return True (K,) for each record that breaks a rule.

        A rule with a later variable is broken if every value of this variable breaks it.  A rule is not broken if the
        value of a numeric variable in it is missing, or if a variable in it does not apply to the record.
        """
        out = np.zeros(len(self.frame), dtype=bool)
        for rule in rules:
            out |= self._break(rule.text) if rule.ahead is None else self._cannot_obey(rule.text, rule.ahead)
        return out

    def _break(self, rule: str) -> NDArray[np.bool_]:
        named = [name for name in columns_of_condition(rule, "edits") if name in self.codes]
        judged = np.all([self.cells[name].judged(self.codes[name]) for name in named], axis=0)
        return judged & ~obeyed([rule], self.frame)

    def _cannot_obey(self, rule: str, ahead: Variable) -> NDArray[np.bool_]:
        out = np.asarray(ahead.cells.asked(self.frame))
        for codes, values in ahead.cells.every_answer(len(out)):
            out = out & self._with(ahead, codes, values)._break(rule)
        return out

    def _obeying(self, variable: Variable, p: RowProbabilities, rules: Sequence[Rule], rng: Generator) -> Records:
        """Draw a new cell of the variable for each record that breaks a rule, among the cells that obey all rules.

        ``p`` are the probabilities of the cells.  If no cell obeys all rules, the record keeps its cell.
        """
        code, A = self.codes[variable.name].copy(), variable.cells.answers
        broken = np.flatnonzero(self.broken(rules) & (code < A))
        possible, tried = self.possible(variable, rules, broken, rng)
        q = p.subset(broken) * possible
        mendable = q.sum(axis=1) > 0
        found = RowProbabilities.one_by_one(q[mendable] / q[mendable].sum(axis=1, keepdims=True)).draw(rng)
        code[broken[mendable]] = found
        values = pd.Series(self.frame[variable.name].array)
        values.iloc[broken[mendable]] = tried.iloc[np.flatnonzero(mendable) * A + found].array
        return self._with(variable, code, values)

    def replaced(self, there: NDArray[np.bool_], others: Records) -> Records:
        """Return the records, with drawn values replaced by the values in ``others`` where ``there`` (K,) is True.

        ``others`` has one record for each True, in order.
        """
        frame, codes = self.frame.copy(), {name: code.copy() for name, code in self.codes.items()}
        for name, code in codes.items():
            code[there] = others.codes[name]
            frame.loc[there, name] = others.frame[name].array
        return Records(self.cell, frame, codes, self.cells)


def fit_measurements(
    measured: NoisyTables, public: pd.DataFrame, edits: Sequence[str] = (), earlier: NoisyTables | None = None
) -> JointFit:  # fmt: skip
    """Fit every variable to the variable's noisy tables, in sequence.

    Parameters
    ----------
    measured : NoisyTables
        The noisy tables of all variables.
    public : DataFrame
        The public columns of all records.
    edits : sequence of str
        Edit rules that synthetic records must obey.
    earlier : NoisyTables, optional
        Tables of an earlier year from :func:`~surveysynth.measuring.earlier_years.aligned_tables`.
    """
    past = None if earlier is None else fit_measurements(earlier, pd.DataFrame(index=range(earlier.n)))
    cells, fits = PublicCells.from_tables(measured), dict[str, VariableFit]()
    alone = {variable.name for variable in measured.variables if not variable.parents}
    exact = all(
        len(variable.parents) < 2 and {*variable.parents} <= alone and variable.cells.outcome.applies is None
        for variable in measured.variables
    ) and not edits
    records = None
    if not exact:
        selected = cells.representative_records(SIMULATED)
        records = Records(cells.cell_of_record[selected], public.iloc[selected].reset_index(drop=True), {})
    rng = np.random.default_rng(0)  # a public seed: every reader of the tables must get the same fit
    for k, variable in enumerate(measured.variables):
        asked = records is not None and variable.name != WEIGHT
        rules = records.rules_of(variable, edits, measured.outcomes[k + 1 :]) if records is not None and asked else []
        fits[variable.name] = fit = _fit(measured, variable, cells, fits, records, rules, past)
        if records is not None and asked:
            typical = VariableDraw(fit.fit.theta, fit.mean_levels)
            records = records.with_variable(variable, fit, typical, rng, rules)
    return JointFit(measured, cells, fits, records)


def _fit(
    measured: NoisyTables, variable: Variable, cells: PublicCells, fits: Mapping[str, VariableFit],
    records: Records | None, rules: Sequence[Rule], past: JointFit | None,
) -> VariableFit:  # fmt: skip
    """Fit one variable to its noisy tables, given ``fits``, the fits of the variables before it.

    ``past`` is the fit of an earlier year, or None.
    """
    steps, features = dict[str, Codes](), list[Feature]()
    before = None if past is None else past.measured.variable(variable.name)
    for name in variable.parents:
        steps[name], by_step = _steps(variable, measured.variable(name), fits[name], before)
        features += [Feature(name, z) for z in by_step]
    for term in (measured.terms[name] for name in variable.terms):
        smooth = [np.eye(term.levels)] if term.score is None else smooth_features(term.score)
        features += [Feature(term.name, z) for z in smooth]
    crossed = [table for table in term_tables(variable) if table.by and table.earlier and table.kind == "counts"]
    features += [_crossed(table, measured) for table in crossed]
    data = _Data.for_variable(measured, variable, cells, fits, steps, records, rules)
    row_features = [data.features(feature) for feature in features]
    p, numbers, drift = data.smooth(variable), variable.cells.numbers, None
    rows, observed, totals, counts = data.rows, data.observed, data.totals, 0
    if past is not None and before is not None:
        other = _Data.for_variable(past.measured, before, past.cells, past.variables, steps, past.records, ())
        pairs = zip(row_features, features, strict=True)
        row_features = [np.concatenate([z, other.features(each)]) for z, each in pairs]
        rows, observed, totals, drift = data.with_year(other)
        counts = sum(each.counts.size for each in observed[len(data.observed) :])
        features += [Feature(None, np.ones((1, 1))), *features]
    fit = fit_response(rows, row_features, observed, totals, p, numbers, variable.cells.tail, drift)
    features += [_product(table, measured) for table in term_tables(variable) if table.by_scores is not None]
    made = VariableFit(cells, data.expanded, data.row, data.x, steps, features, fit.model, fit, p, {}, counts)
    return made.with_levels(variable)


@dataclass(frozen=True, eq=False, repr=False)
class _Data:
    """The noisy tables of a variable, and the R rows (groups of records with equal predictors) of its model.

    A row of the model is a combination of steps of the variable's terms and of earlier variables.  A step is a group of
    values.  Parts of public cells with equal steps belong to the same row.

    Attributes
    ----------
    expanded : Expanded
        Parts of the public cells.
    x : int array (C,)
        For each public cell, the number of its combination of the variable's own public terms.
    row : int array (K,)
        Row to which each part belongs.
    rows : Rows
        Rows of the model.
    step : dict of str to int array (R,)
        For each term and each earlier variable, the step of each row.
    cell : dict of str to int array (R,)
        For each earlier variable, a cell that belongs to the row's step.
    observed : list of Observed
        The noisy tables of counts and sums.
    totals : list of Total
        Public population totals, if the variable is the weight.
    counted : float
        Sum of the contributions to a count (:mod:`.protected_units`) of the records to which the variable applies.
    """

    expanded: Expanded
    x: Codes
    row: Codes
    rows: Rows
    step: Mapping[str, Codes]
    cell: Mapping[str, Codes]
    observed: list[Observed]
    totals: list[Total]
    counted: float

    @classmethod
    def for_variable(
        cls, measured: NoisyTables, variable: Variable, cells: PublicCells, fits: Mapping[str, VariableFit],
        steps: Mapping[str, Codes], records: Records | None, rules: Sequence[Rule],
    ) -> _Data:  # fmt: skip
        x = cells.by(variable.terms)
        expanded = _expanded(variable, cells, fits, steps, records, ruled=bool(rules))
        alike, possible = [x[expanded.cell], *expanded.step.values()], None
        if rules and records is not None:
            every = np.arange(len(records.cell))
            possible, _ = records.possible(variable, rules, every, np.random.default_rng(1))
            alike.append(np.unique(np.packbits(possible, axis=1), axis=0, return_inverse=True)[1].ravel())
        first, row = combined(alike)
        offset = None if possible is None else np.where(possible[first], 0.0, IMPOSSIBLE)
        inside = cells.n[expanded.cell] * expanded.share
        weight, n = np.bincount(row, inside), np.bincount(x, cells.n).astype(np.float64)
        unit = x[expanded.cell[first]]
        step = {name: cells.step[name][expanded.cell[first]] for name in variable.terms}
        step |= {name: own[first] for name, own in expanded.step.items()}
        cell = {name: np.unique(own, return_index=True)[1][step[name]] for name, own in steps.items()}
        level = {name: measured.terms[name].level_of_step[step[name]] for name in variable.terms}

        def mean(name: str, values: Floats) -> Floats:
            return np.asarray(np.bincount(row, inside * expanded.mean[name](values)) / np.maximum(weight, LEAST))

        observed = []
        for table in term_tables(variable):
            at = np.zeros(len(first), dtype=np.intp) if table.by is None else level[table.by]
            times = None
            if table.earlier is not None and table.by_groups is not None:
                at = at * (int(table.by_groups.max()) + 1) + table.by_groups[cell[table.earlier]]
                times = None if table.by_scores is None else mean(table.earlier, table.by_scores / SCORE_UNIT)
            observed.append(Observed(at, table.adds, table.sums, table.variance, times))
        return cls(
            expanded, x, row, Rows(unit, weight / n[unit], n, cells.times_of(x), offset), step, cell, observed,
            _totals(measured, level, len(first)) if variable.name == WEIGHT else [],
            float(cells.counted[expanded.cell] @ expanded.share),
        )  # fmt: skip

    def features(self, feature: Feature) -> Floats:
        """Compute the predictors of one effect, in each row of the model: an array (R, number of predictors)."""
        assert feature.source is not None
        return feature.rows(self.step[feature.source], None if feature.times is None else self.cell[feature.times])

    def with_year(self, other: _Data) -> tuple[Rows, list[Observed], list[Total], Floats]:
        """Combine the data of this year and of an earlier year (``other``), for one fit to the two years.

        Return four things: the rows of the model, the noisy tables, and the known totals of the two years; and an array
        that is 1 for each row of this year and 0 for each row of the earlier year.  The earlier year's tables of
        products of scores are left out.
        """
        rows, past, X = self.rows, other.rows, len(self.rows.n)
        R, P = len(rows.unit), len(past.unit)
        now, then = np.repeat([1.0, 0.0], [R, P]), np.repeat([0.0, 1.0], [R, P])
        both = Rows(
            np.concatenate([rows.unit, X + past.unit]), np.concatenate([rows.share, past.share]),
            np.concatenate([rows.n, past.n]),
            offset=None if rows.offset is None else np.pad(rows.offset, ((0, P), (0, 0))),
        )  # fmt: skip
        observed = [
            replace(each, level=np.pad(each.level, (0, P)), there=now,
                    times=None if each.times is None else np.pad(each.times, (0, P)))
            for each in self.observed
        ] + [
            replace(each, level=np.pad(each.level, (R, 0)), there=then) for each in other.observed if each.times is None
        ]  # fmt: skip
        totals = [replace(each, level=np.pad(each.level, (0, P)), there=now) for each in self.totals]
        totals += [replace(each, level=np.pad(each.level, (R, 0)), there=then) for each in other.totals]
        return both, observed, totals, now

    def smooth(self, variable: Variable) -> Floats:
        return smoothed(variable.answers[0], variable.cells, self.counted)


def _crossed(table: NoisyTable, measured: NoisyTables) -> Feature:
    """Create the predictors of the interaction of a term and an earlier variable, from a noisy table by both of them.

    A predictor is the indicator of a level times the indicator of a group of the earlier variable's cells.
    """
    assert table.by is not None and table.by_groups is not None
    term = measured.terms[table.by]
    groups = one_hot(table.by_groups, int(table.by_groups.max()) + 1)
    return Feature(term.name, one_hot(term.level_of_step, term.levels), table.earlier, groups)


def _product(table: NoisyTable, measured: NoisyTables) -> Feature:
    """Create the predictors of the interaction of a term and an earlier variable's score, from a noisy table.

    A predictor is the indicator of a level times the score of the earlier variable.  The table has sums of products.
    """
    assert table.by is not None and table.by_groups is not None and table.by_scores is not None
    term, kinds = measured.terms[table.by], one_hot(table.by_groups, int(table.by_groups.max()) + 1)
    levels = one_hot(term.level_of_step, term.levels)
    return Feature(term.name, levels, table.earlier, kinds * table.by_scores[:, None] / SCORE_UNIT)


def _totals(measured: NoisyTables, level: Mapping[str, Codes], rows: int) -> list[Total]:
    assert measured.weight is not None and measured.weight.cells.bins is not None
    values, N = measured.weight.cells.bins.means, measured.population_total
    return [
        Total(np.zeros(rows, dtype=np.intp), values, np.array([N]), np.array([KNOWN * N])),
        *(Total(level[name], values, np.asarray(known), np.maximum(KNOWN * np.asarray(known), 1e-6 * KNOWN * N))
          for name, known in measured.population_totals.items()),
    ]  # fmt: skip


def _expanded(
    variable: Variable, cells: PublicCells, fits: Mapping[str, VariableFit], steps: Mapping[str, Codes],
    records: Records | None, *, ruled: bool,
) -> Expanded:  # fmt: skip
    """Divide the public cells into parts by earlier variables.  Parts where the variable does not apply have share 0.

    ``steps`` has, for each earlier variable, the step of each of its cells.  If edit rules concern the variable
    (``ruled``), the parts are simulated records.
    """
    C = len(cells.n)
    if not steps and not ruled and variable.cells.outcome.applies is None:
        return without_earlier(np.arange(C), C)
    if records is None:
        ((name, own),) = steps.items()
        return by_one(name, own, fits[name].most_probable().p)
    if not steps:
        return without_earlier(records.cell, C).asked(variable.cells.asked(records.frame))
    expected, n = {}, cells.n.astype(np.float64)
    for name, own in steps.items():
        every = fits[name].most_probable()
        answers = every.records @ every.p * (n.sum() / cells.counted.sum())
        others = np.maximum(n.sum() - answers.sum(), 0.0)  # records that are not asked
        expected[name] = np.append(answers, np.full(len(own) - len(answers), others))
    made = by_simulated(records.cell, n, records.codes, steps, expected)
    return made.asked(variable.cells.asked(records.frame))


def _steps(
    variable: Variable, parent: Variable, fit: VariableFit, before: Variable | None
) -> tuple[Codes, list[Floats]]:  # fmt: skip
    """Group the cells of the earlier variable ``parent`` into steps, and compute the predictors of each step.

    Return the step of each cell, and arrays of predictors with a row for each step.  The effect of ``parent`` on
    ``variable`` differs between steps.  Steps are finer than the groups of the noisy table by ``parent``, because the
    effect continues to change within the first and the last group.  ``before`` is the variable in an earlier year, or
    None; its groups also divide the steps.
    """
    model, numbers = fit.fit.model, parent.cells.numbers
    p = (fit.is_now(model) * model.records) @ model.probabilities(fit.fit.theta)
    p = p if p.sum() > 0 else fit.p  # the sum is 0 if no records are asked
    steps = effect_steps(p, _groups(variable, parent.name), numbers)
    if before is not None:
        steps = np.unique(np.stack([steps, _groups(before, parent.name)]), axis=1, return_inverse=True)[1].ravel()
    J, many = int(steps.max()) + 1, int(steps[numbers - 1]) + 1 if numbers else 0
    features = []
    if many:
        response = Response(p, numbers)
        inside = one_hot(steps[:numbers], J)[:, :many]
        # in the upper tail, where a linear effect would have the most noise, the axis is by rank
        axis = np.minimum(response.axis, response.scores)
        mean = (inside.T @ (response.bins * axis)) / np.maximum(inside.T @ response.bins, 1e-12)
        features = [np.pad(z, ((0, J - many), (0, 0))) for z in smooth_features(mean)]
    return steps, [*features, *([np.eye(J)[:, many:]] if many < J else [])]


def _groups(variable: Variable, parent: str) -> Codes:
    """Return the group (G,) of each cell of ``parent`` in the noisy table that crosses ``variable`` and ``parent``."""
    found = next(table.by_groups for table in variable.tables if table.earlier == parent and table.by is None)
    assert found is not None
    return found
