"""The source of synthetic data sets: noisy tables of a confidential file, and its public columns.

    noisy tables  ->  model fit  ->  draws of the coefficients, given the noise  ->  two data sets from each draw
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .._version import __version__
from ..design.calibration import rake
from ..design.survey_design import SurveyDesign
from ..errors import ModelError
from ..expenses import Expense
from ..measuring import earlier_years
from ..measuring.joint_fit import Draw, JointFit, Records, Rule, fit_measurements
from ..measuring.noisy_tables import WEIGHT, NoisyTables, read_json
from ..models.sequential import MISSING
from ..privacy.mechanisms import Strict
from ..privacy.report import PrivacyReport, public_epsilon
from .data_set_files import in_a_file

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

PAIR = 2  # number of data sets from one draw of the coefficients; they differ only by simulation
ROUNDS = 100  # largest number of draws for a record that breaks a rule
MANY_BROKEN = 0.05  # share of records whose first draw breaks a rule, from which distributions change noticeably
OFTEN_BROKEN = (
    f"more than {MANY_BROKEN:.0%} of the synthetic records broke a rule of edits= and were drawn again as a whole, "
    "which changes the distribution of all outcomes: declare the values that a rule forces, such as zeros=True, and "
    "make the variables of a rule predictors of each other"
)
BLOCK = 1 << 16  # records that are drawn together
THREADS = 4  # most threads that draw large data sets; each thread has one data set in memory
IN_MEMORY = 20_000_000  # records of all data sets together; above this number, data sets are in files
MANY, SOME = 100_000, 50_000  # above MANY records, the variance due to noise is computed from SOME of them
REFITS = 24  # number of draws from which the variance due to noise is computed
COMBINING = "T = mean(u) + N + B / M"
HOW_TO_COMBINE = {
    "rule": COMBINING,
    "pairs": "data sets 2k - 1 and 2k are of one draw of the model's parameters, k = 1, ..., M",
    "python": [
        "# q, u: arrays (m,) of the estimate and its design-based variance in each data set",
        "pairs = q.reshape(-1, 2)",
        "w, B = (np.diff(pairs) ** 2).mean() / 2, pairs.mean(axis=1).var(ddof=1)",
        "N = max(0, B - w / 2)",
        "estimate, variance = q.mean(), u.mean() + N + B / (len(q) / 2)",
    ],
    "r": [
        "# q, u: vectors of the estimate and its design-based variance in each data set",
        "pairs <- matrix(q, nrow = 2)",
        "w <- mean(diff(pairs)^2) / 2; B <- var(colMeans(pairs))",
        "N <- max(0, B - w / 2)",
        "estimate <- mean(q); variance <- mean(u) + N + B / (length(q) / 2)",
    ],
}
NOT_COUNTED = (
    "counted_by: by which columns together each variable was counted. Estimates by other columns, or by several of "
    "them that stand in no list together, follow from the model: what goes beyond it is not in these files"
)
FITTED = "The model was fitted to the noisy tables, and sees nothing else of the confidential values."


def evenly(count: int, n: int) -> Codes:
    """Return ``count`` evenly spaced whole numbers from 0 to n - 1."""
    return np.asarray((np.arange(count) + 0.5) * n / count, dtype=np.intp)


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """Noisy tables of a confidential file, the public columns of the file, and facts for the privacy report.

    Attributes
    ----------
    tables : NoisyTables
        The noisy tables.
    public : SurveyDesign
        The public columns, with records in the order of the file.  The names of strata and PSUs are replaced by
        codes, unless the column is a predictor.  The weights are those of the survey if these are public; otherwise
        all weights are equal.
    predictors : tuple of str
    model : {"FBS", "FBP"}
        FBS draws outcome and weight; FBP draws the outcome and gives every record its expected weight.
    epsilon : float
        The requested epsilon, for blanking one record, that is, for taking out its outcome and weight.
    notes : tuple of str
        Further sentences of the privacy report.
    expense : Expense
        The epsilon spent on the noisy tables, with an id, by which a ledger counts it only once.
    edits : tuple of str
        Public edit rules, such as "hours <= 168", that every synthetic record obeys.
    earlier : NoisyTables, optional
        Noisy tables of an earlier year.  The model is fitted to these tables, too.
    spent_before : tuple of Expense
        The epsilons spent on the tables of the earlier year.  For people who are in both files, they add up with the
        epsilon of this year.
    delta_before : float
        Delta of the tables of the earlier year.
    publishable : bool
        False if the noise was made with a seed.  Whoever knows the seed can then compute the noise, so a release must
        not be published.
    labels : mapping of column to text
    ledger : mapping, optional
        Reference of the ledger entry for the measurements.
    kept : Path, optional
        The folder in which the measurements are kept until a release from them is written.
    """

    tables: NoisyTables
    public: SurveyDesign
    predictors: tuple[str, ...]
    model: Literal["FBS", "FBP"]
    epsilon: float
    notes: tuple[str, ...]
    expense: Expense
    edits: tuple[str, ...] = ()
    earlier: NoisyTables | None = None
    spent_before: tuple[Expense, ...] = ()
    delta_before: float = 0.0
    publishable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, Any] | None = None
    kept: Path | None = None

    @classmethod
    def read(
        cls, published: Mapping[str, Any], first: SurveyDesign, predictors: tuple[str, ...], expense: Expense
    ) -> Self:  # fmt: skip
        """Make a source from the content of ``measurements.json`` and the first data set of a release.

        Raise InputError if the two do not agree.
        """
        weights = str(first.weights_name)
        names = [variable["name"] for variable in published.get("variables", [])]
        frame = first.frame.drop(columns=[name for name in names if name != WEIGHT])
        if WEIGHT in names:
            frame[weights] = first.weights.sum() / first.n
        public = SurveyDesign(frame, **first.roles() | {"poststrata": None})
        return replace(cls.from_public(published, public, predictors, expense), labels=first.labels)

    @classmethod
    def from_public(
        cls, published: Mapping[str, Any], public: SurveyDesign, predictors: tuple[str, ...], expense: Expense
    ) -> Self:  # fmt: skip
        """Make a source from the content of ``measurements.json`` and the public columns.

        Raise InputError if the two do not agree.
        """
        tables = read_json(published, public)
        return cls(
            tables, public, predictors, published["model"], published["epsilon"], tuple(published["notes"]), expense,
            edits=tuple(published.get("edits", ())), publishable=published["publishable"],
            earlier=earlier_years.read(published["earlier"], tables) if "earlier" in published else None,
            spent_before=tuple(Expense(**each) for each in published.get("spent_before", ())),
            delta_before=published.get("delta_before", 0.0),
        )  # fmt: skip

    @property
    def replaced(self) -> float:
        """Epsilon for replacing the outcome and weight of a record."""
        return 2 * self.epsilon if self.tables.delta is None else self.tables.epsilons[1]

    @property
    def delta(self) -> float:
        """Delta of this year's tables plus delta of an earlier year's tables."""
        return (self.tables.delta or 0.0) + self.delta_before

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The synthesized columns."""
        return tuple(variable.name for variable in self.tables.outcomes)

    @cached_property
    def counted_by(self) -> dict[str, list[tuple[str, ...]]]:
        """For each variable, the sets of columns with which it is cross-classified in noisy tables.

        The keys are the names of the variables, and ``WEIGHT`` for the survey weight.
        """
        found = dict[str, dict[tuple[str, ...], None]]()
        for variable in self.tables.variables:
            columns = found.setdefault(variable.name, {})
            for table in variable.answers:
                by = () if table.by is None else self.tables.terms[table.by].columns
                if table.pairs or not {*by} <= {*self.public.columns}:
                    continue  # not a count by columns: pairs within units, or sizes of units
                columns[(*by, *([] if table.earlier is None else [table.earlier]))] = None
        return {name: [each for each in columns if each] for name, columns in found.items()}

    def is_counted(self, variable: str | None, columns: Collection[str]) -> bool:
        """Return True if the joint distribution of ``variable`` and ``columns`` was measured or is public.

        This is the case if one noisy table has all of them, or if all of them are predictors.  If ``variable`` is None,
        only ``columns`` matter.
        """
        wanted = {*columns, *([] if variable is None else [variable])}
        own = {name: tables for name, tables in self.counted_by.items() if name in wanted}
        every = [{name, *by} for name, tables in own.items() for by in [(), *tables]]
        return wanted <= {*self.predictors} or any(wanted <= each for each in every)

    def data_sets(self, m: int, rng: np.random.Generator) -> tuple[tuple[SurveyDesign, ...], NDArray[np.int32]]:
        """Draw m data sets, two from each draw of the coefficients, with records in random order.

        Return the data sets, and an array (m, n) with the position in the file (from 0) of each record of each data
        set.  Large data sets are in temporary files, which are deleted when the data sets are no longer used.
        """
        n, unit = self.tables.n, self._fit.cells.cell_of_record

        def one(job: tuple[Draw, np.random.Generator]) -> tuple[SurveyDesign, NDArray[np.int32]]:
            coefficients, own = job
            order = own.permutation(n).astype(np.int32)
            made = self._data_set(self.public, unit, coefficients, (own, own), order, smoothed=self.model == "FBP")
            return in_a_file(made) if m * n > IN_MEMORY else made, order

        draws = [each for each in self._draws(m // PAIR, rng) for _ in range(PAIR)]
        if n <= MANY:
            found = [one((each, rng)) for each in draws]
        else:  # in threads; each data set has its own random numbers
            with threadpool_limits(1, "blas"), ThreadPoolExecutor(min(os.cpu_count() or 1, THREADS)) as pool:
                found = [*pool.map(one, zip(draws, rng.spawn(m), strict=True))]
        return tuple(made for made, _ in found), np.array([order for _, order in found])

    def redrawn(self, like: SurveyDesign, *, subset: bool = False) -> tuple[SurveyDesign, ...]:
        """Simulate versions of a data set, to compute the variance due to the noise in the noisy tables.

        The versions have the public columns of ``like``.  They have different draws of the model's parameters, but the
        same random numbers.  The variance of an estimate over these versions is N, the variance due to the noise (and
        the prior).  The model FBP publishes expected weights.  Here, however, weights are drawn anew for each version,
        so that N includes the variance of the weights.

        With ``subset``, a large data set is replaced by a subset of its records, without strata and PSUs, to save time.
        N hardly depends on the number of records.
        """
        unit, made = self._unit(like), []
        if subset and self.is_large(like.n):
            records = np.argsort(unit, kind="stable")[evenly(SOME, like.n)]
            frame, weights = like.frame.iloc[records].reset_index(drop=True), str(like.weights_name)
            frame = frame.assign(**{weights: frame[weights] * (like.n / SOME)})
            unit, like = unit[records], SurveyDesign(frame, weights=weights)
        for k, coefficients in enumerate(self._refits):
            same = np.random.default_rng(1), np.random.default_rng(2 + k if self.model == "FBP" else 2)
            made.append(self._data_set(like, unit, coefficients, same, None, smoothed=False))
        return tuple(made)

    def is_large(self, n: int) -> bool:
        """Return True if n records are so many that a subset is enough to compute the variance due to noise.

        It is never enough for the model FBP, whose N includes the variance of drawn weights, which depends on n.
        """
        return n > MANY and self.model == "FBS"

    @cached_property
    def _fit(self) -> JointFit:
        with threadpool_limits(1, "blas"):  # matrices are small: threads would wait for each other
            return fit_measurements(self.tables, self.public.frame, self.edits, self.earlier)

    @cached_property
    def _refits(self) -> list[Draw]:
        """Draws of the model's parameters with a fixed seed, so that all users get the same variance due to noise."""
        return self._draws(REFITS, np.random.default_rng(0), opposite=False)

    def _draws(self, count: int, rng: np.random.Generator, *, opposite: bool = True) -> list[Draw]:
        fit = self._fit
        with threadpool_limits(1, "blas"):
            return fit.draws(count, rng, opposite=opposite)

    def _unit(self, design: SurveyDesign) -> Codes:
        """Return the public cell of each record, that is, its combination of categories of the public columns."""
        return self._fit.cells.cells_of_records(self.tables.terms_of(design), design.n)

    def _data_set(
        self, like: SurveyDesign, unit: Codes, draw: Draw,
        rngs: tuple[np.random.Generator, np.random.Generator], order: NDArray[np.int32] | None, *, smoothed: bool,
    ) -> SurveyDesign:  # fmt: skip
        """Make a data set: public columns of a design, with outcomes and weight from one draw of the coefficients.

        Parameters
        ----------
        like : SurveyDesign
            The design that has the public columns.
        unit : int array (n,)
            The public cell of each record.
        draw : Draw
            One draw of the coefficients of all models.
        rngs : two generators
            Random numbers for outcomes, and for weights.
        order : int array (n,), optional
            New order of the records.
        smoothed : bool
            True if every record gets its expected weight.
        """
        made = (*self.outcomes, str(like.weights_name))
        public = like.frame.drop(columns=[*self.outcomes], errors="ignore")  # no outcomes of another data set
        if order is not None:
            public, unit = public.iloc[order].reset_index(drop=True), unit[order]
        blocks = [
            self._block(
                Records(unit[a : a + BLOCK], public.iloc[a : a + BLOCK], {}), draw, rngs, made[-1], smoothed=smoothed
            ) for a in range(0, like.n, BLOCK)
        ]
        frame = blocks[0] if len(blocks) == 1 else pd.concat(blocks, ignore_index=True)
        if order is not None:
            frame = frame[[*(c for c in frame if c not in made), *made]]
        if self.tables.weight is not None:
            frame = frame.assign(**{made[-1]: self._to_totals(frame[made[-1]].to_numpy(), unit)})
        return SurveyDesign(frame, **self._roles(like), labels=self.labels or None)

    def _block(
        self, public: Records, draw: Draw, rngs: tuple[np.random.Generator, np.random.Generator], weights: str, *,
        smoothed: bool,
    ) -> pd.DataFrame:  # fmt: skip
        """Simulate outcomes and weights for some records.  The weights are not yet scaled to the population total."""
        records, weight = self._records(public, draw, rngs[0]), self.tables.weight
        if weight is None or (bins := weight.cells.bins) is None:
            return records.frame
        p = self._fit.variables[WEIGHT].probabilities(draw[-1], public.cell, records.codes)
        w = p.mean(bins.means) if smoothed else bins.draw(p.draw(rngs[1]), rngs[1])
        return records.frame.assign(**{weights: w})

    def _records(self, public: Records, draw: Draw, rng: np.random.Generator) -> Records:
        """Draw the outcomes of records, and draw again for records that break a rule of ``edits``.

        Raise ModelError if a record breaks a rule in every draw.
        """
        made = self._outcomes(public, draw, rng)
        again = rng.spawn(1)[0]
        rules = [Rule(text) for text in self.edits]
        for attempt in range(ROUNDS if rules else 0):
            broken = made.broken(rules)
            if not broken.any():
                return made
            if attempt == 0 and broken.mean() > MANY_BROKEN:
                warnings.warn(OFTEN_BROKEN, stacklevel=2)
            others = Records(public.cell[broken], public.frame[broken], {})
            made = made.replaced(broken, self._outcomes(others, draw, again))
        if made.broken(rules).any():
            raise ModelError(
                f"some synthetic records break a rule of edits= in every one of {ROUNDS} draws: the model hardly ever "
                "obeys it. Make the variables of the rule predictors of each other, or leave the rule out"
            )
        return made

    def _outcomes(self, records: Records, draw: Draw, rng: np.random.Generator) -> Records:
        outcomes = self.tables.outcomes
        for k, (variable, coefficients) in enumerate(zip(outcomes, draw, strict=False)):
            fit, rules = self._fit.variables[variable.name], records.rules_of(variable, self.edits, outcomes[k + 1 :])
            records = records.with_variable(variable, fit, coefficients, rng, rules)
        return records

    def _to_totals(self, w: Floats, unit: Codes) -> Floats:
        """Scale weights to the population total, and rake them to the totals of groups that were declared as public.

        ``unit`` is the public cell of each record.
        """
        w = w * (self.tables.population_total / w.sum())
        if not self.tables.population_totals:
            return w
        margins, totals = [], []
        for name, total in self.tables.population_totals.items():
            level = self.tables.terms[name].level_of_step[self._fit.cells.step[name][unit]]
            there = np.unique(level)  # a level may have no records
            margins.append(np.searchsorted(there, level))
            totals.append(np.asarray(total)[there] * (np.sum(total) / np.sum(np.asarray(total)[there])))
        return rake(w, margins, totals)

    def _roles(self, like: SurveyDesign) -> dict[str, Any]:
        """Return the design roles of a data set made from the design ``like``.

        If the weight is synthesized, the variables whose population totals are public are poststrata.
        """
        known = [[*self.tables.terms[name].columns] for name in self.tables.population_totals]
        return like.roles() | ({"poststrata": known} if known and self.tables.weight is not None else {})

    def report(self, m: int) -> PrivacyReport:
        """Return the privacy report of a release of m data sets."""
        before = [(each.blank or 0.0, each.replace or 0.0) for each in self.spent_before]
        epsilon = self.epsilon + sum(blank for blank, _ in before)
        replaced = self.replaced + sum(each for _, each in before)
        return PrivacyReport(
            kind="strict", epsilon=epsilon, epsilon_requested=self.epsilon, m=m, draws=0, verdict=FITTED,
            assumptions=[*self.notes], data_dependent=[], publishable=self.publishable, mechanism=Strict.name,
            unit=self.tables.unit, delta=self.delta or None,
            replaced=None if replaced == 2 * epsilon else public_epsilon(replaced, None),
        )  # fmt: skip

    def method(self) -> dict[str, Any]:
        """Return public facts about the package and the model, for the manifest."""
        weight = self.tables.weight
        drawn_or_not = "synthesized" if self.model == "FBS" else "synthesized (smoothed)"
        outcomes = {v.name: v.cells.outcome for v in self.tables.outcomes}
        applies = {name: x.applies for name, x in outcomes.items() if x.applies}
        missing = [v.name for v in self.tables.outcomes if v.cells.bins is not None and v.cells.outcome.missing]
        elsewhere = {name: MISSING if (value := outcomes[name].outside) != value else value for name in applies}
        return {
            "package": {"surveysynth": __version__},
            "method": self.model,
            "model": "log-linear, of noisy tables",
            "formula": "; ".join(
                f"{v.name} ~ {' + '.join((*v.terms, *v.parents)) or '1'}" for v in self.tables.outcomes
            ),
            "weights": "public" if weight is None else drawn_or_not,
            "counted_by": {name: [list(by) for by in tables] for name, tables in self.counted_by.items()},
            "not_counted": NOT_COUNTED,
            "combining": HOW_TO_COMBINE,
            **({"edits": list(self.edits)} if self.edits else {}),
            **({} if self.ledger is None else {"ledger": dict(self.ledger)}),
            **({"applies": applies, "elsewhere": elsewhere} if applies else {}),
            **({"missing": missing} if missing else {}),
        }

    def published(self) -> dict[str, Any]:
        """Return the content of ``measurements.json``, without the public columns, which are in other files."""
        return self.tables.as_json() | {
            "epsilon": self.epsilon, "model": self.model, "notes": list(self.notes), "expense": asdict(self.expense),
            "publishable": self.publishable, **({"edits": list(self.edits)} if self.edits else {}),
            **({} if self.earlier is None else {"earlier": earlier_years.as_json(self.earlier)}),
            **({"spent_before": [asdict(each) for each in self.spent_before]} if self.spent_before else {}),
            **({"delta_before": self.delta_before} if self.delta_before else {}),
        }  # fmt: skip
