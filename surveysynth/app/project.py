"""The plan that is edited on the web page.  All browser tabs share it, and every change is saved to its file."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..design.columns import VALUE, listing
from ..design.discrete import is_label
from ..design.formula import formula_columns, quoted, sides_of
from ..errors import InputError
from ..plan.entries import GUESSED
from ..plan.plan import Plan
from ..plan.reading import is_readable, opened
from ..plan.sections import BY_NAME
from ..plan.settings import Settings
from ..plan.strict import is_strict
from ..plan.toml_file import parsed_value
from ..privacy.accounting.ledger import Ledger
from ..release.contents import discrete_predictors
from ..synthesis.declarations import AGREE, left_hand_side
from .number_text import THOUSANDS
from .work import without_values

Entries = Mapping[str, Any]
# entries that say what a column is in the design
ROLES = "weights", "unweighted", "probs", "strata", "psu", "fpc", "unit"
PAUSE = 3.0  # seconds before a file that is no plan is read again
COUNT = re.compile(r"\d+(\.\d+)?")


class Project:
    """A plan that several browser tabs edit, and the roles of columns, from which the page makes model formulas.

    Every method that changes the plan takes first an object that identifies the browser tab that asks.  It raises
    InputError if the change is refused, and then everything stays as it was.

    Parameters
    ----------
    path : Path
        The plan's file.  If it exists, the plan is read from it.  Every change is saved there at once.

    Attributes
    ----------
    plan : Plan or None
        The plan, or None as long as no confidential file is named.
    columns : list of str
        The columns of the confidential file.
    labels : dict of str to str
        Labels of columns, if the file has any.
    public : list of str
        Columns that are published as they are and explain the outcomes.
    codes : set of str
        Public columns of numbers that are codes of categories.
    outcomes : list of str
        Columns that are synthesized, in sequence.
    unused : dict of str to frozenset of str
        For each outcome, the public columns and earlier outcomes that its formula leaves out.
    fixed : bool
        True if formulas of the plan are no plain sums of columns, or if the plan has another model or mechanism than
        the page knows.  The page then shows formulas, public columns and outcomes, and does not change them.
    changed_by : list of object
        For each change so far, the tab that made it, or None if the plan's file was edited elsewhere.
    step : str
        The step that was looked at last.

    Raises
    ------
    InputError
        The file exists and is no plan.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan: Plan | None = None
        self.columns, self.labels = list[str](), dict[str, str]()
        self.public, self.outcomes = list[str](), list[str]()
        self.codes: set[str] = set()
        self.unused: dict[str, frozenset[str]] = {}
        self.fixed = False
        self.step = "file"
        self.changed_by: list[object] = []
        self._lock = threading.RLock()
        self._saved: str | None = None
        self._refused = "", "", 0.0  # a file that is no plan, why, and the time from which it is read again
        if path.exists():
            self._read()

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return len(self.changed_by)

    @property
    def settings(self) -> Settings:
        """The entries of the plan.  Without a plan there are none."""
        return Settings.empty() if self.plan is None else self.plan.settings

    @property
    def guessed(self) -> set[str]:
        """Names of entries of [survey] that were guessed from names and labels of columns, such as "weights"."""
        reasons = {} if self.plan is None else self.plan.reasons
        return {entry.partition(".")[2] for entry, why in reasons.items() if why == GUESSED}

    @property
    def text(self) -> str:
        """The text of the plan's file.  It is empty without a plan."""
        return self._saved or ""

    @property
    def readable(self) -> bool:
        """True if the plan has all entries that are needed to read the confidential file as a survey design."""
        return self.plan is not None and is_readable(self.settings)

    @property
    def formulas(self) -> list[str]:
        """The model formulas of the plan, in the order in which the outcomes are synthesized."""
        model = self.settings.model
        return [model.formula, *(each.formula for each in model.later_models)] if model.formula else []

    def called(self, column: str) -> str:
        """Return a column's name, with its label if it has one."""
        return f"{column} ({self.labels[column]})" if column in self.labels else column

    def role(self, column: str) -> str:
        """Return the role of a column in the survey design, or an empty text if it has none.

        It is "weight" for the survey weight, "design" for strata, PSUs and protected units, whose labels are replaced,
        and "fpc" for the sizes of finite populations.
        """
        survey, unit = self.settings.survey, self.settings.privacy.unit
        if column in (survey.weights, survey.probs):
            return "weight"
        if column in (survey.fpc or ()):
            return "fpc"
        return "design" if column in (survey.strata, *(survey.psu or ()), unit) else ""

    def is_number(self, column: str) -> bool:
        """Return True if a column is numeric and has no declared levels, or False if the file cannot be read yet."""
        if self.plan is None or not self.readable:
            return False
        return not is_label(self.plan.design.typed(column)) and not self.plan.design.declares_levels(column)

    def before(self, outcome: str) -> list[str]:
        """Return the columns on which an outcome may depend: public columns, and outcomes synthesized before it."""
        return [*self.public, *self.outcomes[: self.outcomes.index(outcome)]]

    @property
    def predictors(self) -> list[str]:
        """The published predictors: public columns in at least one formula; without formulas, all public columns."""
        if not self.outcomes:
            return self.public
        return [c for c in self.public if any(c not in self.unused.get(each, ()) for each in self.outcomes)]

    @property
    def by(self) -> list[str]:
        """The columns by which tables are published: those in the plan, or else the first discrete predictors."""
        if self.plan is None or not self.readable:
            return []
        given, predictors = self.settings.tables.by, self.predictors
        return discrete_predictors(self.plan.design.select(predictors), predictors) if given is None else given

    def declared(self, outcome: str) -> dict[str, Any]:
        """Return the declared public facts about an outcome, from [outcomes.name] and from [privacy]."""
        settings = self.settings
        found = settings.outcomes[outcome].model_dump(exclude_none=True) if outcome in settings.outcomes else {}
        for name in ("bounds", "levels"):
            given = settings[f"privacy.{name}"]
            if isinstance(given, dict) and outcome in given:
                found.setdefault(name, given[outcome])
            elif isinstance(given, tuple) and self.is_number(outcome) and "levels" not in found:
                found.setdefault(name, given)
        return found

    def _declared(self) -> dict[str, Entries]:
        return {name: self.declared(name) for name in self.outcomes}

    def levels_of_public(self, most: int) -> dict[str, list[str]]:
        """Return the levels of each categorical public column that has at most ``most`` levels."""
        if self.plan is None or not self.readable:
            return {}
        facts = self.plan.public_facts(self.settings)
        labelled = [column for column in self.public if is_label(facts.design.column(column))]
        levels = {column: sorted(map(str, facts.levels(column).index)) for column in labelled}
        return {column: names for column, names in levels.items() if len(names) <= most}

    def open(self, who: object, file: str) -> None:
        """Set the confidential file of the plan.  If the plan is new, guess the roles of the file's columns."""
        with self._change(who):
            self.plan = Plan.draft(file) if self.plan is None else self.plan.set(file=file)
            self._read_columns()
            if any(VALUE.match(column) for column in self.columns):
                raise InputError(f"the file has {listing(self.columns)}")

    def set(self, who: object, /, **entries: Any) -> None:
        """Change entries of the plan, given as ``name=value`` without the name of the section."""
        with self._change(who):
            roles = {*entries} & {*ROLES} and not self.fixed
            declared = self._declared() if roles else {}  # before the plan may become unreadable
            self.plan = self._begun().set(**entries)
            if roles:
                taken = [c for c in self.columns if self.role(c) == "weight"]
                public = [c for c in self.public if c not in taken]
                self._use(public, [c for c in self.outcomes if not self.role(c)], declared)

    def set_any(self, who: object, name: str, text: str) -> None:
        """Set an entry by its full name, as "columns.age.missing".  An empty text removes the entry."""
        with self._change(who):
            section, _, short = name.partition(".")
            settings = self.settings.set({name: parsed_value(text) if text else None})
            changed = section if section in BY_NAME else short
            value = getattr(settings, section) if section in BY_NAME else settings[name]
            self.plan = self._begun().set(**{changed: value})
            if section in ("survey", "columns"):
                self._read_columns()
            self._read_formulas()

    def use(self, who: object, column: str, what: str) -> None:
        """Set what happens to a column: "out", "synthesized", "public", or "codes" (public, and numbers are codes)."""
        with self._change(who):
            if "`" in column:
                raise InputError("a column whose name has a backtick cannot stand in a formula: rename it in the file")
            public, outcomes = [c for c in self.public if c != column], [c for c in self.outcomes if c != column]
            self.codes = (self.codes - {column}) | ({column} if what == "codes" else set())
            if what in ("public", "codes"):
                public = _in_order([*public, column], self.columns)
            elif what == "synthesized":
                outcomes = [*outcomes, column]
            self._use(public, outcomes)

    def leave_out(self, who: object, outcome: str, left_out: frozenset[str]) -> None:
        """Set which public columns and earlier outcomes the formula of an outcome leaves out."""
        with self._change(who):
            self.unused = self.unused | {outcome: left_out}
            self._use(self.public, self.outcomes)

    def declare(self, who: object, outcome: str, facts: Entries) -> None:
        """Set the public facts about an outcome, as in [outcomes.name].  Facts that are None are left out."""
        with self._change(who):
            declared = self._declared()
            declared[outcome] = {name: value for name, value in facts.items() if value is not None}
            self.plan = self._begun().set(**_in_one_place(declared))

    def set_totals(self, who: object, column: str, text: str) -> None:
        """Set public totals of a column's levels from lines ``level = total``.  If no line has a total, remove them."""
        with self._change(who):
            totals = {**(self.settings.privacy.population_totals or {})}
            totals.pop(column, None)
            if given := totals_in(text):
                totals[column] = given
                self._check_totals(column, given)
            self.plan = self._begun().set(population_totals=totals or None)

    def _check_totals(self, column: str, given: Mapping[str, float]) -> None:
        """Raise InputError unless public totals are given for all levels and add up to the population total."""
        total, levels = self.settings.privacy.population_total, self.levels_of_public(len(given)).get(column, [])
        if {*given} != {*levels}:
            raise InputError("give a line for every level, with the levels as they were listed")
        if isinstance(total, float) and abs(sum(given.values()) / total - 1) > AGREE:
            raise InputError(f"the totals add up to {sum(given.values()):,.15g}, the population total is {total:,.15g}")

    def create_ledger(self, who: object) -> None:
        """Make the ledger that the plan names."""
        with self._change(who):
            privacy = self.settings.privacy
            if privacy.ledger is not None and privacy.survey is not None:
                Ledger(self.path.parent / privacy.ledger, privacy.survey, privacy.cap, create=True)

    @contextmanager
    def _change(self, who: object) -> Iterator[None]:
        """Run the ``with`` block and save the plan.  If a change is refused, undo everything and raise InputError."""
        with self._lock:
            self.read_again()
            before = {**vars(self)}
            try:
                yield
                self._declare_public()
                if self.plan is not None and self.plan is not before["plan"]:
                    self.plan.save(self.path, overwrite=True)
                    self._saved = self.path.read_text(encoding="utf-8")
            except Exception as error:
                vars(self).update(before)
                raise InputError(without_values(error)) from None
            self.changed_by.append(who)

    def read_again(self) -> None:
        """Read the plan's file if it was edited elsewhere.  If it is not a valid plan, raise InputError."""
        with self._lock:
            before = {**vars(self)}
            try:
                now = self.path.read_text(encoding="utf-8", errors="replace")
            except OSError:  # it is not there, and is written with the next answer
                return
            if now == self._saved:
                return
            refused, why, until = self._refused
            if now == refused and time.monotonic() < until:
                raise InputError(why)
            try:
                self._read()
            except Exception as error:
                vars(self).update(before)
                self._refused = now, without_values(error), time.monotonic() + PAUSE
                raise InputError(self._refused[1]) from None
            self.changed_by.append(None)

    def _begun(self) -> Plan:
        if self.plan is None:
            raise InputError("name the confidential file first")
        return self.plan

    def _use(self, public: list[str], outcomes: list[str], declared: Mapping[str, Entries] | None = None) -> None:
        """Set public columns and outcomes, and write the formulas and other plan entries that depend on them.

        ``declared`` are the public facts about outcomes; by default, those that the plan declares.
        """
        if self.fixed:
            raise InputError("the formulas of this plan are changed in its file")
        gone = {*self.public, *self.outcomes} - {*public, *outcomes}
        self.public, self.outcomes = public, outcomes
        formulas, privacy, declared = self._written(), self.settings.privacy, declared or {}
        by = [name for name in self.settings.tables.by or () if name not in gone]
        importance = {name: each for name, each in (privacy.importance or {}).items() if name in outcomes}
        totals = {name: each for name, each in (privacy.population_totals or {}).items() if name not in gone}
        self.plan = self._begun().set(
            formula=formulas[0] if formulas else None, later=formulas[1:] or None, by=by or None,
            importance=importance or None, population_totals=totals or None,
            **_in_one_place({name: declared.get(name) or self.declared(name) for name in outcomes}),
        )  # fmt: skip

    def _written(self) -> list[str]:
        """Return a model formula "outcome ~ sum of predictors" for every outcome."""
        return [f"{quoted(name, [name])} ~ {self._sum(name)}" for name in self.outcomes]

    def _sum(self, outcome: str) -> str:
        used = [c for c in self.before(outcome) if c not in self.unused.get(outcome, frozenset())]
        return " + ".join(f"C({quoted(c, [c])})" if c in self.codes else quoted(c, [c]) for c in used) or "1"

    def _declare_public(self) -> None:
        """Update the plan's list of columns to publish, so that it agrees with the formulas and the survey design."""
        if self.plan is None or self.fixed:
            return
        design = [column for column in self.columns if self.role(column) in ("design", "fpc")]
        published = _in_order([*self.public, *design], self.columns) if self.public else None
        if published != self.settings.privacy.public:
            self.plan = self.plan.set(public=published)

    def _read(self) -> None:
        self.plan, self._saved = Plan.read(self.path), self.path.read_text(encoding="utf-8")
        if self.plan.files:
            self._read_columns()
            self._read_formulas()

    def _read_columns(self) -> None:
        plan = self._begun()
        if not plan.files:
            raise InputError("a plan needs its confidential file")
        self.columns, self.labels, _ = opened(plan.files[0], plan.settings)

    def _read_formulas(self) -> None:
        """Set public columns, outcomes, and ``fixed`` (True if the page cannot write the formulas) from the plan."""
        sides = [(left_hand_side(each), sides_of(each, "")[1]) for each in self.formulas]
        self.outcomes = [name for names, _ in sides for name in names]
        declared = self.settings.privacy.public or ()
        columns = {names[0]: _columns_in(right, declared) for names, right in sides}
        used = {column for found in columns.values() for column in found} - {*self.outcomes}
        if not sides:
            used = {c for c in declared if not self.role(c)}
        self.public = _in_order([*used], self.columns)
        written = _bare("+".join(right for _, right in sides))
        self.codes = {c for c in self.public if f"C({_bare(quoted(c, [c]))})" in written.split("+")}
        self.unused = {name: frozenset(self.before(name)) - found for name, found in columns.items()}
        models = self.settings.model.later_models
        plain = all(each.name == "fbs" and each.zeros is None and each.missing is None for each in models)
        same = [_bare(each) for each in self.formulas] == [_bare(each) for each in self._written()]
        self.fixed = not (same and plain and is_strict(self.settings) and self.settings.edits.applies is None)


def totals_in(text: str) -> dict[str, float]:
    """Read population totals from lines ``level = total``.  Raise InputError if only some lines have a total.

    Thousands may be separated by blanks, points, commas or apostrophes, as in "812 000".  Without totals, the result is
    empty.
    """
    pairs = [line.rpartition("=") for line in text.splitlines() if line.strip()]
    written = {level.strip(): total.strip() for level, _, total in pairs}
    given = {level: re.sub(r"\D", "", t) if THOUSANDS.fullmatch(t) else t for level, t in written.items() if t}
    wrong = [level for level, total in given.items() if not COUNT.fullmatch(total)]
    if wrong or (given and len(given) < len(written)):
        lines = ", ".join(wrong or [level for level, total in written.items() if not total])
        raise InputError(f"write 'level = total' in each line, as 'north = 812000'; not so: {lines}")
    return {level: float(total) for level, total in given.items()}


def _in_one_place(declared: Mapping[str, Entries]) -> dict[str, Any]:
    """Return changes of the plan that move the public facts about outcomes from [privacy] to [outcomes.name]."""
    return {"outcomes": {name: each for name, each in declared.items() if each}, "bounds": None, "levels": None}


def _columns_in(right: str, declared: Iterable[str]) -> frozenset[str]:
    """Return the columns on the right-hand side of a formula, in which a dot stands for all ``declared`` columns."""
    if _bare(right) == ".":
        return frozenset(declared)
    try:
        return frozenset(formula_columns(right))
    except InputError:  # the check says why
        return frozenset()


def _bare(formula: str) -> str:
    return re.sub(r"\s", "", formula)


def _in_order(names: list[str], columns: list[str]) -> list[str]:
    """Return those of ``columns`` that are in ``names``, in the order of ``columns``."""
    return [column for column in columns if column in names]
