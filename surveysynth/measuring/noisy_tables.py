"""Noisy tables of a confidential file, with all public facts that define them.  The tables are published as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..errors import InputError, guarded
from ..models.loglinear.bases import one_hot
from .bins import Bins, Cells
from .outcome import Outcome
from .table_noise import composed, noise_variance
from .terms import Term, terms_of, unit_name

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Counts = NDArray[np.int64]

FORMAT = "surveysynth measurements 1"
WEIGHT = "survey weight"  # name of the variable, whatever the name of the column
NOISE = (
    "integer Laplace: each number has noise k with probability proportional to exp(-epsilon |k| / unit); a protected "
    "record, or a protected group of records, adds at most 'unit' to a table; a number divided by 'per' is a number of "
    "records or a sum of scores"
)
GAUSSIAN = (
    "integer Gaussian: each number has noise k with probability proportional to exp(-k^2 / (2 s^2)), s = unit / "
    "sqrt(2 rho), rho = epsilon_of_equal_laplace_variance^2 / 4; a protected record, or a protected group of records, "
    "adds at most 'unit' to a table; a number divided by 'per' is a number of records or a sum of scores"
)
SCORE_UNIT = 1000  # scores are counted in thousandths, so that their sums and the noise are whole numbers


@dataclass(frozen=True, eq=False, repr=False)
class NoisyTable:
    """A noisy table of counts, of sums of scores, or of sums of products of scores.

    A variable has G cells: bins of numbers, and special values such as "missing".  The J columns of the table are
    groups of these cells.  The L rows are public levels, groups of an earlier variable, or combinations of a level and
    a group.  In a table of scores, a record adds a score between -1 and 1 instead of 1.  The score is linear in the
    record's amount between two quantiles.  In a table of products, a record adds the product of its scores on two
    variables.

    Attributes
    ----------
    by : str or None
        The term whose levels are the rows.  None for a histogram and for a table by an earlier variable alone.
    groups : int array (G,)
        Group of each cell of the variable.
    counts : int array (L, J)
        Noisy counts, which can be negative.  Sums of scores are in thousandths.
    epsilon : float
        Epsilon of the table, for files that differ by the values of one record, which are blanked in one of them.
        Laplace noise has the scale unit / epsilon.  Gaussian noise has approximately the same variance, and the privacy
        cost of the table is rho = epsilon^2 / 4.
    earlier : str, optional
        The earlier variable whose groups are the rows.  If ``by`` is also given, rows are levels crossed with groups.
    by_groups : int array, optional
        Group of each cell of the earlier variable.
    scores : int array (G,), optional
        Score of each cell, in thousandths.
    by_scores : int array, optional
        Score of each cell of the earlier variable, in thousandths, for a table of products.
    unit : int
        The largest contribution of a protected record, or of a protected unit of several records, to ``counts``.
    per : int
        Divisor of ``counts``: 1,000 for scores and 1,000,000 for products, times 60 if units of several records are
        protected.
    gaussian : bool
        True if the noise is Gaussian instead of Laplace.
    pairs : bool
        True if the table counts disjoint pairs of records of the same level, by the groups of the two records (J, J).
    """

    by: str | None
    groups: Codes
    counts: Counts
    epsilon: float
    earlier: str | None = None
    by_groups: Codes | None = None
    scores: Counts | None = None
    by_scores: Counts | None = None
    unit: int = 1
    per: int = 1
    pairs: bool = False
    gaussian: bool = False

    @property
    def variance(self) -> float:
        """Variance of the noise of each number in :attr:`sums`."""
        return noise_variance(self.epsilon / self.unit, gaussian=self.gaussian) / self.per**2

    @property
    def kind(self) -> str:
        """What the table contains: "counts", sums of "scores", or sums of "products" of two scores."""
        if self.by_scores is not None:
            return "products"
        return "counts" if self.scores is None else "scores"

    @property
    def sums(self) -> Floats:
        """Noisy counts of records, or noisy sums of scores or products: ``counts`` divided by ``per`` (L, J)."""
        return self.counts / self.per

    @property
    def by_text(self) -> str:
        """Names of the variables whose levels or groups define the rows of the table, as "sex x income"."""
        return " x ".join(filter(None, (self.by, self.earlier)))

    def first(self, cells: int) -> NoisyTable:
        """Return the part of the table for the variable's first ``cells`` cells.  No group of cells may be split."""
        J = int(self.groups[:cells].max()) + 1
        counts = self.counts[:J, :J] if self.pairs else self.counts[:, :J]
        scores = None if self.scores is None else self.scores[:cells]
        return replace(self, groups=self.groups[:cells], counts=counts, scores=scores)

    @property
    def adds(self) -> Floats:
        """For each cell of the variable, the contribution of a record in this cell to each column of :attr:`sums`.

        The result is (G, J), for G cells and J columns.  For a table of products, the factor of the earlier variable is
        left out.
        """
        indicators = one_hot(self.groups, self.counts.shape[1])
        return indicators if self.scores is None else indicators * self.scores[:, None] / SCORE_UNIT


@dataclass(frozen=True, eq=False, repr=False)
class Variable:
    """A confidential variable, which is an outcome or the weight, with its noisy tables.

    Attributes
    ----------
    name : str
    cells : Cells
        Bins and special values of the variable.
    terms : tuple of str
        Public terms of the variable's formula.
    parents : tuple of str
        Earlier variables in the formula.
    tables : tuple of NoisyTable
        The tables.  The first table is the histogram of all cells.
    """

    name: str
    cells: Cells
    terms: tuple[str, ...]
    parents: tuple[str, ...]
    tables: tuple[NoisyTable, ...]

    @property
    def answers(self) -> tuple[NoisyTable, ...]:
        """The noisy tables, without the cell of the records to which the variable does not apply."""
        asked = self.cells.answers
        return self.tables if asked == len(self.cells) else tuple(table.first(asked) for table in self.tables)


@dataclass(frozen=True, eq=False, repr=False)
class NoisyTables:
    """All noisy tables of a file, with the public facts that are needed to fit models to them.

    Results that are computed from these tables and from public columns cost no further epsilon (post-processing).

    Attributes
    ----------
    predictors : str
        Public terms of all formulas, as one right-hand side.
    outcomes : tuple of Variable
        Outcomes, in sequence.
    weight : Variable or None
        The weight, which is the last variable.  None means that weights are public.
    terms : dict of str to Term
        Terms with the level of each record: the public terms of the formulas, then strata and PSUs that these terms do
        not determine, then the protected units.
    n : int
        Number of records.
    population_total : float
        Public sum of the weights.
    population_totals : dict of str to float array
        Public totals of the weights in the levels of some terms.
    unit : str, optional
        Column of the protected units of several records.
    most : int
        Largest contribution of one protected unit to a table, in records.
    delta : float, optional
        Delta of (epsilon, delta)-differential privacy, for Gaussian noise.
    """

    predictors: str
    outcomes: tuple[Variable, ...]
    weight: Variable | None
    terms: Mapping[str, Term]
    n: int
    population_total: float
    population_totals: Mapping[str, Floats]
    unit: str | None = None
    most: int = 1
    delta: float | None = None

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables in sequence: the outcomes, then the weight unless it is public."""
        return self.outcomes if self.weight is None else (*self.outcomes, self.weight)

    def variable(self, name: str) -> Variable:
        """Return the variable of this name."""
        return next(variable for variable in self.variables if variable.name == name)

    @property
    def tables(self) -> tuple[NoisyTable, ...]:
        """The tables of all variables."""
        return tuple(table for variable in self.variables for table in variable.tables)

    @property
    def clustered(self) -> bool:
        """True if there are tables by strata or PSUs."""
        return any(term.drawn and name != self.units for name, term in self.terms.items())

    @property
    def units(self) -> str | None:
        """Name of the term whose levels are the protected units, or None if single records are protected."""
        return None if self.unit is None else unit_name(self.unit)

    def terms_of(self, public: SurveyDesign) -> list[Term]:
        """Create the terms by which these tables were counted, for the records of the data set ``public``."""
        return terms_of(public, self.predictors, self.clustered, self.unit)

    @cached_property
    def epsilons(self) -> tuple[float, float]:
        """Epsilons of all tables together: the first for blanking, the second for replacing, the values of a record.

        The first epsilon is for files of which one has the values of a record (or protected unit) and the other has
        blanks instead.  The second is for files with different values of one record.
        :func:`~surveysynth.measuring.table_noise.composed` computes both.
        """
        return composed([(table.epsilon, table.unit, table.kind != "counts") for table in self.tables], self.delta)

    @property
    def epsilon(self) -> float:
        """Epsilon of all tables together, for two files that differ because a record's values are blanked in one."""
        return self.epsilons[0]

    def as_json(self) -> dict[str, Any]:
        """Return the tables as a JSON document.

        The document does not have the level of each record in a term, which follows from the public columns.
        """
        return {
            "format": FORMAT,
            "noise": NOISE if self.delta is None else GAUSSIAN,
            **({} if self.delta is None else {"delta": self.delta}),
            "predictors": self.predictors,
            "effects_of_strata_and_psus": self.clustered,
            **({} if self.unit is None else {"unit": self.unit, "records_of_a_unit_at_most": self.most}),
            "records": self.n,
            "population_total": self.population_total,
            "population_totals": {
                name: dict(zip(_labels(self.terms[name]), map(float, totals), strict=True))
                for name, totals in self.population_totals.items()
            },
            "variables": [self._variable(variable) for variable in self.variables],
        }

    def _variable(self, variable: Variable) -> dict[str, Any]:
        cells, bins = variable.cells, variable.cells.bins
        number = {} if bins is None else {
            "edges": bins.edges.tolist(), "knee": None if np.isinf(bins.knee) else bins.knee, "tail_index": cells.index,
        }  # fmt: skip
        return {
            "name": variable.name,
            "schema": {name: value for name, value in asdict(cells.outcome).items()
                       if not (value is None or value is False or value == ())},
            **number,
            "special": list(cells.outcome.special),
            "terms": list(variable.terms),
            "parents": list(variable.parents),
            "tables": [self._table(table, cells) for table in variable.tables],
        }

    def _table(self, table: NoisyTable, cells: Cells) -> dict[str, Any]:
        rows, earlier = ["all"] if table.by is None else _labels(self.terms[table.by]), {}
        if table.pairs:
            rows = cells.names(table.groups)
        if table.earlier is not None and table.by_groups is not None:
            kinds = self.variable(table.earlier).cells.names(table.by_groups)
            rows = kinds if table.by is None else [f"{label} x {kind}" for label in rows for kind in kinds]
            earlier = {"earlier": table.earlier, "group_of_each_earlier_cell": table.by_groups.tolist()}
        scores = {} if table.scores is None else {"score_of_each_cell": table.scores.tolist()}
        if table.by_scores is not None:
            scores["score_of_each_earlier_cell"] = table.by_scores.tolist()
        columns = cells.names(table.groups)
        if table.scores is not None:
            columns[0] = "sum of scores" if table.by_scores is None else "sum of products of scores"
        spent = "epsilon" if self.delta is None else "epsilon_of_equal_laplace_variance"
        pairs = {"pairs_of_records_of_one_level": True} if table.pairs else {}
        return {
            "by": table.by, spent: table.epsilon, "unit": table.unit, "per": table.per, "rows": rows,
            "columns": columns, "counts": table.counts.tolist(), "group_of_each_cell": table.groups.tolist(), **scores,
            **earlier, **pairs,
        }  # fmt: skip


def read_json(document: Mapping[str, Any], public: SurveyDesign) -> NoisyTables:
    """Return the tables of a document that :meth:`NoisyTables.as_json` made.

    ``public`` has the public columns of the file that was counted.

    Raises
    ------
    InputError
        The document has another version, is damaged, or belongs to other public columns.
    """
    if document.get("format") != FORMAT:
        raise InputError(f"these are no measurements that this version reads: their format is not {FORMAT!r}")
    return guarded(
        lambda: _read(document, public),
        (KeyError, TypeError, ValueError, IndexError),
        lambda kind: InputError(f"the measurements are damaged ({kind}), or go with other public columns"),
    )


def _read(document: Mapping[str, Any], public: SurveyDesign) -> NoisyTables:
    unit, grouped = document.get("unit"), document["effects_of_strata_and_psus"]
    terms = {term.name: term for term in terms_of(public, document["predictors"], grouped, unit)}
    if document["records"] != public.n:
        raise InputError("the measurements are of another number of records than these public columns have")
    for variable in document["variables"]:
        for table in variable["tables"]:
            other = "pairs_of_records_of_one_level" in table or "earlier" in table
            if table["by"] in terms and not other and table["rows"] != _labels(terms[table["by"]]):
                raise InputError(f"the measurements have other levels of {table['by']!r} than the public columns")
    return tables_from_json(terms, document)


def tables_from_json(terms: Mapping[str, Term], content: Mapping[str, Any]) -> NoisyTables:
    """Return the tables of ``content``, a document that :meth:`NoisyTables.as_json` made.

    The document does not say which level each record has.  So ``terms`` gives, by name, the terms by which the records
    were counted, with the level of each record.
    """
    variables = [_read_variable(variable) for variable in content["variables"]]
    weight = variables.pop() if variables[-1].name == WEIGHT else None
    totals = {
        name: np.array([given[label] for label in _labels(terms[name])], dtype=np.float64)
        for name, given in content["population_totals"].items()
    }
    return NoisyTables(
        content["predictors"], tuple(variables), weight, terms, content["records"], float(content["population_total"]),
        totals, content.get("unit"), content.get("records_of_a_unit_at_most", 1), content.get("delta"),
    )  # fmt: skip


def _read_variable(content: Mapping[str, Any]) -> Variable:
    known = {field.name for field in fields(Outcome)}
    outcome = Outcome(**{name: value for name, value in content["schema"].items() if name in known})
    bins = None
    if "edges" in content:
        knee = np.inf if content["knee"] is None else float(content["knee"])
        bins = Bins(np.array(content["edges"], dtype=np.float64), knee)
    cells = Cells(outcome, bins, *([float(content["tail_index"])] if bins else []))
    tables = tuple(_read_table(table, len(cells)) for table in content["tables"])
    return Variable(content["name"], cells, tuple(content["terms"]), tuple(content["parents"]), tables)


def _read_table(entry: Mapping[str, Any], cells: int) -> NoisyTable:
    groups, by_groups = np.array(entry["group_of_each_cell"], dtype=np.intp), entry.get("group_of_each_earlier_cell")
    counts, scores = np.array(entry["counts"], dtype=np.int64), entry.get("score_of_each_cell")
    by_scores, gaussian = entry.get("score_of_each_earlier_cell"), "epsilon" not in entry
    epsilon = float(entry["epsilon_of_equal_laplace_variance" if gaussian else "epsilon"])
    if len(groups) != cells or counts.shape != (len(entry["rows"]), groups.max() + 1):
        raise ValueError
    if scores is not None and (len(scores) != cells or np.abs(scores).max() > SCORE_UNIT):
        raise ValueError
    return NoisyTable(
        entry["by"], groups, counts, epsilon, entry.get("earlier"),
        None if by_groups is None else np.array(by_groups, np.intp),
        None if scores is None else np.array(scores, np.int64),
        None if by_scores is None else np.array(by_scores, np.int64),
        int(entry["unit"]), int(entry["per"]), entry.get("pairs_of_records_of_one_level", False), gaussian,
    )  # fmt: skip


def _labels(term: Term) -> list[str]:
    return [" x ".join(labels) for labels in term.labels]
