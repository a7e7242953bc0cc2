"""The plan that a page makes.  All tabs of a browser share it, and its file says what the page says."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..design.discrete import is_label
from ..design.formula import factors_of, quoted, sides_of
from ..errors import InputError
from ..plan.entries import GUESSED
from ..plan.plan import Plan
from ..plan.reading import is_readable, opened
from ..plan.sections import BY_NAME
from ..plan.settings import Settings
from ..plan.toml_file import parsed_value
from ..privacy.accounting.ledger import Ledger
from ..synthesis.declarations import left_hand_side
from .work import without_values

Entries = Mapping[str, Any]
SEPARATORS = re.compile(r"[\s_',]")  # between thousands
NUMBER = re.compile(r"\d+(\.\d+)?")


class Project:
    """A plan that several tabs of a browser change, with the answers from which its formulas are made.

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
    outcomes : list of str
        Columns that are synthesized, in sequence.
    unused : dict of str to frozenset of str
        For each outcome, the public columns and earlier outcomes that its formula leaves out.
    written : dict of str to str
        Right-hand sides of formulas that are no plain sums of columns, by outcome.  They stay as they are.
    faults : dict of str to str
        The message of the last change that was refused, by the name of its input.
    version : int
        Number of changes so far, refused ones included.
    changed_by : object
        The session of a browser that made the last change.
    step : str
        The step that was looked at last.

    Raises
    ------
    InputError
        The file exists and is no plan.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.plan = path, None if not path.exists() else Plan.read(path)
        self.columns, self.labels = list[str](), dict[str, str]()
        self.public, self.outcomes = list[str](), list[str]()
        self.unused: dict[str, frozenset[str]] = {}
        self.written: dict[str, str] = {}
        self.faults: dict[str, str] = {}
        self.version, self.step = 0, "file"
        self.changed_by: object = None
        self._lock = threading.RLock()
        if self.plan is not None and self.plan.files:
            self._read_columns()
            self._read_formulas()

    @property
    def settings(self) -> Settings:
        """The entries of the plan.  Without a plan there are none."""
        return Settings.empty() if self.plan is None else self.plan.settings

    @property
    def guessed(self) -> set[str]:
        """Entries of [survey] that were guessed from names and labels of columns, as "weights"."""
        reasons = {} if self.plan is None else self.plan.reasons
        return {entry.partition(".")[2] for entry, why in reasons.items() if why == GUESSED}

    @property
    def text(self) -> str:
        """The plan's file."""
        return "" if self.plan is None else self.plan.to_toml()

    def open(self, who: object, place: str, file: str) -> None:
        """Name the confidential file, and guess roles of its columns if the plan is new.  ``who`` is the session."""

        def begin() -> None:
            self.plan = Plan.draft(file) if self.plan is None else self.plan.set(file=file)
            self._read_columns()

        self._change(place, who, begin)

    def set(self, who: object, place: str, /, **entries: Any) -> None:
        """Change entries of the plan.  If they are refused, the plan stays as it is, and ``faults[place]`` says why."""

        def change() -> None:
            assert self.plan is not None
            self.plan = self.plan.set(**entries)

        if self.plan is not None:
            self._change(place, who, change)

    def set_any(self, who: object, place: str, name: str, text: str) -> None:
        """Set an entry by its full name, as "columns.age.missing".  An empty text removes the entry."""

        def change() -> None:
            assert self.plan is not None
            settings = self.settings.set({name: parsed_value(text) if text else None})
            section, _, short = name.partition(".")
            changed = section if section in BY_NAME else short
            value = getattr(settings, section) if section in BY_NAME else settings[name]
            self.plan = self.plan.set(**{changed: value})
            if section in ("survey", "columns"):
                self._read_columns()
            self._read_formulas()

        if self.plan is not None:
            self._change(place, who, change)

    def called(self, column: str) -> str:
        """Return a column's name, with its label if it has one."""
        return f"{column} ({self.labels[column]})" if column in self.labels else column

    def use(self, who: object, place: str, column: str, what: str) -> None:
        """Set what happens to a column: "public", "synthesized" or "out"."""

        def change() -> None:
            keep = [c for c in self.public if c != column], [c for c in self.outcomes if c != column]
            if what == "public":
                keep = _in_order([*keep[0], column], self.columns), keep[1]
            elif what == "synthesized":
                keep = keep[0], [*keep[1], column]
            self._with(*keep)

        self._change(place, who, change)

    def leave_out(self, who: object, place: str, outcome: str, left_out: frozenset[str]) -> None:
        """Set which public columns and earlier outcomes the formula of an outcome leaves out."""

        def change() -> None:
            self.unused = self.unused | {outcome: left_out}
            self._with(self.public, self.outcomes)

        self._change(place, who, change)

    def declare(self, who: object, place: str, outcome: str, facts: Entries) -> None:
        """Set the public facts about an outcome, as in [outcomes.name].  Facts that are None are left out."""
        declared = {name: self.declared(name) for name in self.outcomes}
        declared[outcome] = {name: value for name, value in facts.items() if value is not None}
        # the entries for all outcomes would contradict those of single outcomes
        self.set(who, place, outcomes={name: each for name, each in declared.items() if each}, bounds=None, levels=None)

    def declared(self, outcome: str) -> dict[str, Any]:
        """Return the public facts about an outcome, also those that a plan gives in [privacy]."""
        settings = self.settings
        found = settings.outcomes[outcome].model_dump(exclude_none=True) if outcome in settings.outcomes else {}
        for name in ("bounds", "levels"):
            given = settings[f"privacy.{name}"]
            if isinstance(given, dict) and outcome in given:
                found.setdefault(name, given[outcome])
            elif isinstance(given, tuple) and self.is_number(outcome) and "levels" not in found:
                found.setdefault(name, given)
        return found

    def is_number(self, column: str) -> bool:
        """Return True if a column has the type of numbers.  No value is looked at."""
        if self.plan is None or not is_readable(self.settings):
            return False
        return not is_label(self.plan.design.typed(column)) and not self.plan.design.declares_levels(column)

    def levels_with_totals(self, most: int) -> dict[str, list[str]]:
        """Return the levels of each public column that has labels, and at most so many levels."""
        if self.plan is None or not is_readable(self.settings):
            return {}
        facts = self.plan.public_facts(self.settings)
        labelled = [column for column in self.public if is_label(facts.design.column(column))]
        levels = {column: sorted(map(str, facts.levels(column).index)) for column in labelled}
        return {column: names for column, names in levels.items() if len(names) <= most}

    def set_totals(self, who: object, place: str, column: str, text: str) -> None:
        """Set the public totals of a column's levels, in lines ``level = total``.  Lines without totals remove them."""

        def change() -> None:
            assert self.plan is not None
            pairs = [line.rpartition("=") for line in text.splitlines() if line.strip()]
            written = {level.strip(): SEPARATORS.sub("", total) for level, _, total in pairs}
            given = {level: total for level, total in written.items() if total}
            wrong = [level for level, total in given.items() if not NUMBER.fullmatch(total)]
            if wrong or (given and len(given) < len(written)):
                lines = ", ".join(wrong or [level for level, total in written.items() if not total])
                raise InputError(f"write 'level = total' in each line, as 'north = 812000'; not so: {lines}")
            totals = {**(self.settings.privacy.population_totals or {})}
            totals.pop(column, None)
            totals |= {column: {level: float(total) for level, total in given.items()}} if given else {}
            self.plan = self.plan.set(population_totals=totals or None)

        self._change(place, who, change)

    def create_ledger(self, who: object, place: str) -> None:
        """Make the ledger that the plan names."""

        def change() -> None:
            privacy = self.settings.privacy
            if privacy.ledger is not None and privacy.survey is not None:
                Ledger(self.path.parent / privacy.ledger, privacy.survey, privacy.cap, create=True)

        self._change(place, who, change)

    def before(self, outcome: str) -> list[str]:
        """Return the columns that an outcome may depend on: the public ones, and the outcomes before it."""
        return [*self.public, *self.outcomes[: self.outcomes.index(outcome)]]

    def _with(self, public: list[str], outcomes: list[str]) -> None:
        """Set public columns and outcomes, with formulas of all that comes before unless it is left out."""
        assert self.plan is not None
        sums = [self._sum(outcome, [*public, *outcomes[:i]]) for i, outcome in enumerate(outcomes)]
        formulas = [
            f"{quoted(outcome, [outcome])} ~ {self.written.get(outcome, right)}"
            for outcome, right in zip(outcomes, sums, strict=True)
        ]
        kept = {name: each for name, each in self.settings.outcomes.items() if name in outcomes}
        by = [name for name in self.settings.tables.by or () if name in (*public, *outcomes)]
        self.plan = self.plan.set(
            formula=formulas[0] if formulas else None, later=formulas[1:] or None, outcomes=kept, by=by or None,
            public=self._published(public),
        )  # fmt: skip
        self.public, self.outcomes = public, outcomes

    def _sum(self, outcome: str, columns: list[str]) -> str:
        used = [quoted(c, [c]) for c in columns if c not in self.unused.get(outcome, frozenset())]
        return " + ".join(used) or "1"

    def _published(self, public: list[str]) -> list[str] | None:
        """Return the columns that the release may publish: the public ones, and those of the design."""
        survey, privacy = self.settings.survey, self.settings.privacy
        of_design = [survey.strata, *(survey.psu or ()), *(survey.fpc or ()), privacy.unit]
        return _in_order([*public, *(c for c in of_design if c)], self.columns) or None

    def _change(self, place: str, who: object, change: Callable[[], None]) -> None:
        """Make a change and save the plan.  If the change is refused, everything stays as it was."""
        with self._lock:
            before = {**vars(self)}
            self.faults.pop(place, None)
            try:
                change()
                if self.plan is not None and self.plan is not before["plan"]:
                    self._declare_public()
                    self.plan.save(self.path, overwrite=True)
            except Exception as error:  # errors of other libraries, too: the page goes on
                vars(self).update(before)
                self.faults[place] = without_values(error)
            self.changed_by = who
            self.version += 1

    def _declare_public(self) -> None:
        """Keep the list of published columns in step with the design."""
        assert self.plan is not None
        published = self._published(self.public)
        if self.settings.model.formula is not None and published != self.settings.privacy.public:
            self.plan = self.plan.set(public=published)

    def _read_columns(self) -> None:
        assert self.plan is not None
        self.columns, self.labels, _ = opened(self.plan.files[0], self.settings)

    def _read_formulas(self) -> None:
        """Find public columns, outcomes and formulas in a plan that was read from its file."""
        model, privacy = self.settings.model, self.settings.privacy
        formulas = [model.formula, *(each.formula for each in model.later_models)] if model.formula else []
        sides = [(name, sides_of(str(each), "")[1]) for each in formulas for name in left_hand_side(str(each))]
        names = [name for name, _ in sides]
        found = {name: plain_sum(right) for name, right in sides}
        used = {column for columns in found.values() for column in columns or ()}
        design = {self.settings.survey.strata, *(self.settings.survey.psu or ()), *(self.settings.survey.fpc or ())}
        free = {c for c in privacy.public or () if c not in design and c != privacy.unit}
        self.public, self.outcomes = _in_order([c for c in used | free if c not in names], self.columns), names
        self.written = {name: right for name, right in sides if found[name] is None}
        sums = {name: columns for name, columns in found.items() if columns is not None}
        self.unused = {name: frozenset(self.before(name)) - {*columns} for name, columns in sums.items()}


def plain_sum(right: str) -> list[str] | None:
    """Return the columns of a right-hand side that is a plain sum of columns, or None if it is something else."""
    if right.strip() == "1":
        return []
    try:
        columns = [factor.expr for factor in factors_of(right) if factor.expr != "1"]
    except InputError:
        return None
    plain = " + ".join(quoted(column, [column]) for column in columns)
    return columns if re.sub(r"\s", "", plain) == re.sub(r"\s", "", right) else None


def _in_order(names: list[str], columns: list[str]) -> list[str]:
    """Return names, each once, in the order of the file."""
    return [column for column in columns if column in names]
