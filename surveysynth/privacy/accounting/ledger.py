"""The privacy ledger: the epsilons spent by the releases of a survey, and a cap on their sum.

A ledger is one text file of numbered lines (:mod:`surveysynth.privacy.accounting.ledger_file`).  Each line ends with
its head, a hash of the ledger up to this line.  So a line cannot be changed, removed or moved unnoticed.
``spend`` writes an entry when the release is made and before anyone sees the release.  It writes the entry at once,
under an exclusive lock, and returns when the entry is on the disk (fsync).  So a crash leaves one of three states:

- The file has no part of the entry.  The entry was not acknowledged, and nothing was released.
- The file has the beginning of the entry's line.  Again nothing was released.  The line is not counted, and the next
  entry moves it to another file (``.torn``).
- The file has the whole entry.  The release is then on the disk as well: in a temporary folder next to its final
  folder or, if the release had no folder when it was charged (``synthesize(ledger=)``), next to the ledger.
  :func:`surveysynth.resume` publishes such a release.

If a file is damaged in any other way, nothing can be spent.  A process waits until another has finished writing.

An entry has two epsilons, for two kinds of neighbouring files:

- ``blank``: the confidential values of one record, or the whole record, are in one file and not in the other;
- ``replace``: one record has other confidential values.

An expense is a part of a release that spends epsilon, such as a set of noisy tables.  Several releases can share an
expense.  A release lists all its expenses by random ids, and its entry adds the expenses that no earlier entry listed.
The entry is refused if the expenses of the release add up to less than the epsilon of the release.

A cap is the largest permitted sum of the ``blank`` epsilons of a survey.  Each of the two epsilons is summed
separately.  If an entry lacks an epsilon, the sum of this epsilon is unknown: it is not 0, and it is not the sum over
the other entries.  Sums are exact (``Decimal``): ten times 0.1 is 1.
"""

from __future__ import annotations

import difflib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any, Protocol, get_args, runtime_checkable

import numpy as np
import pandas as pd

from ...choices import Kind
from ...errors import InputError, PrivacyError
from ...expenses import EXACT, Expense, least_float, new_id, total
from ...storage import UNFINISHED, as_path, paid_folders
from ...validation import line_of_text, one_of, several, truth
from ..report import PrivacyReport
from . import ledger_file
from .ledger_file import KINDS, Amounts, Cap, Entry, Line
from .sums import COLUMNS, Spent, as_decimal, both_sums, last_cap, left_of, shown, spent_on, sum_of, table_of

MEANING = (
    "Epsilons of releases about the same people add up (sequential composition), each column by itself: 'blank' is for "
    "one record's, or unit's, confidential values taken out of the file or put into it (for asymptotic entries: the "
    "record added or removed), 'replace' for these values being others. A sum protects what all of its entries protect."
)
CAPPED = "The cap is on blanking."
PLANNED = "The cap is not in the ledger yet: it is recorded with the first entry under it."
UNKNOWN = "Unknown: an entry has no epsilon for this, so no sum is known; it is not 0."
LIMITS = {  # by kind; ledgers of version 0.2 have entries of the kind "per-instance"
    "asymptotic": "The sums have asymptotic parts, so they are no strict guarantee.",
    "per-instance": (
        "The sums have per-instance parts: each is local to its file, holds with privacy weights held fixed and up to "
        "a probability delta (deltas add up, too), and bounds nothing for values that are others. So the sums are no "
        "strict guarantee."
    ),
    "strict given alpha": (
        "The sums have parts that are strict given the privacy weights: these were computed from the file, and the "
        "sums do not cover them."
    ),
    "none": "The sums have no guarantee: some of their parts have none.",
}
SEVERAL_UNITS = (
    "Entries protect different units ({units}): their sum holds for none of these as a whole, since what protects a "
    "record protects a group of records less."
)
TORN = "The last line is cut short, as by a crash: its entry was never acknowledged, and is not counted."
UNWRITTEN = (
    "Entry {} was charged and is not written yet: it is kept in {!r} beside the ledger, from where surveysynth resume "
    "(--ledger, --survey) publishes it."
)
HOW_TO_BEGIN = "To begin one, with a budget of its own: create=True, or --create of the command ledger"


@runtime_checkable
class Published(Protocol):
    """The properties of a release that a ledger reads."""

    @property
    def method(self) -> dict[str, Any]:
        """Public facts on the method, with the number and the head (hash) of the ledger entry."""
        ...

    @property
    def privacy(self) -> PrivacyReport:
        """The privacy report, with the epsilon spent."""
        ...

    @property
    def rests_on(self) -> tuple[Expense, ...]:
        """The expenses (parts of a release that spend epsilon), which add up to at least the release's epsilon."""
        ...


class Ledger:
    """The record of the epsilons spent on a survey, in a file that can serve several surveys.

    Parameters
    ----------
    path : str or Path
        The file, mode 0600.
    survey : str
        Name of the survey.  Releases about the same people belong under one name.
    cap : float, optional
        Largest sum of the survey's ``blank`` epsilons, which are for removing or adding one unit's confidential values.
        A release without a ``blank`` epsilon is refused under a cap.  The first call with a cap records the cap; later
        calls may leave the cap out or repeat it.
    create : bool
        Begin the survey, and make the file if there is none; the folder must exist.  The name of the survey is refused
        if it differs from a name in the ledger only in case, spaces or special characters: releases about the same
        people would then not be added up.  A similar name gives a warning.

    Raises
    ------
    InputError
        The ledger does not exist or does not have the survey (the error names similar surveys); with ``create``, the
        ledger has the survey already.  The file is not a ledger or cannot be opened.  The cap differs from the
        recorded cap, which :meth:`set_cap` changes.
    PrivacyError
        The ledger is damaged.

    Examples
    --------
    >>> ledger = ss.Ledger("budget.jsonl", "labour force 2025", cap=30, create=True)
    >>> entry = ledger.spend(10.8, 21.6, kind="asymptotic", what="January, m = 3")
    >>> ledger.left
    Decimal('19.2')
    """

    def __init__(self, path: str | Path, survey: str, cap: float | None = None, *, create: bool = False) -> None:
        self.path, self.survey = as_path(path), line_of_text(survey, "survey")
        self._planned: Decimal | None = None  # a cap that is recorded with the first entry
        wanted = None if cap is None else as_decimal(cap, "cap")
        if truth(create, "create"):
            self._begin(wanted)
            return
        if not self.path.exists():
            raise InputError(f"there is no ledger {str(self.path)!r}. {HOW_TO_BEGIN}")
        recorded = last_cap(self._own(self._read().lines))
        if wanted is not None and recorded != wanted:
            self._append(lambda lines, **new: self._first_cap(lines, Cap(what="first cap", cap=wanted, **new)))

    def with_cap(self, cap: float) -> Ledger:
        """Return this ledger with a cap that is checked now, and recorded with the next entry.

        The ledger does not change, so that a plan can be checked before anything is decided.

        Parameters
        ----------
        cap : float
            The cap.  It applies unless a cap is recorded by then.

        Returns
        -------
        Ledger
            The ledger of the same survey in the same file.

        Raises
        ------
        InputError
            The cap is not a positive number, or differs from the recorded cap, which :meth:`set_cap` changes.
        PrivacyError
            The ledger is damaged.

        Examples
        --------
        >>> ledger = ss.Ledger("budget.jsonl", "labour force 2025", create=True).with_cap(30)
        >>> ledger.cap, ss.Ledger("budget.jsonl", "labour force 2025").cap
        (Decimal('30.0'), None)
        >>> entry = ledger.spend(5, 10, kind="strict", what="February")
        >>> ss.Ledger("budget.jsonl", "labour force 2025").cap
        Decimal('30.0')
        """
        planned = Ledger(self.path, self.survey)
        self._refuse_other_cap(planned._own(planned._read().lines), exact := as_decimal(cap, "cap"))
        planned._planned = exact
        return planned

    def spend(
        self,
        blank: float | None,
        replace: float | None,
        *,
        kind: Kind,
        what: str,
        unit: str = "record",
        salt: str | None = None,
        rests_on: Sequence[Expense] = (),
    ) -> Entry:
        """Record the epsilon of a release before anyone sees the release.

        The entry remains even if the release fails afterwards.

        Parameters
        ----------
        blank : float or None
            Epsilon of the change that removes or adds one unit's confidential values, or the whole unit.
            None means that this epsilon is unknown, as for strict Laplace tables of which the lower bound of the weight
            is above 0: they protect only a change of values.  The survey's sum is then unknown.
        replace : float or None
            Epsilon of the change that replaces one unit's confidential values: twice ``blank``, unless the release
            reports another number.  None means that this epsilon is unknown.
        kind : {"asymptotic", "strict", "strict given alpha", "none"}
            Kind of guarantee.  For "none", as for local Laplace tables, ``blank`` and ``replace`` are None: the entry
            has nothing to add, and the sums have no guarantee from then on.
        what : str
            Short description of the release, written to the ledger.
        unit : str
            The protected unit: "record", or the name of a column, such as the column of households.
        salt : str, optional
            Text by which :meth:`find` finds the entry; random by default.
        rests_on : sequence of Expense, optional
            All expenses in ``blank`` and ``replace``, from :attr:`Release.rests_on`.  Expenses that earlier entries of
            the survey list are not counted again.

        Returns
        -------
        Entry
            The entry, with its number, its head (which the manifest of the release cites) and the epsilons that it
            adds.

        Raises
        ------
        InputError
            An epsilon is not positive.  ``blank`` and ``replace`` are both None for a kind other than "none", or one of
            them is given for "none".  The kind is unknown, or a text is empty or not valid.  Earlier entries list all
            expenses.
        PrivacyError
            The cap would be exceeded, the expenses add up to less than the epsilon, or the ledger is damaged or cannot
            be written.  Nothing may be released then, and the ledger does not change.

        Examples
        --------
        >>> ledger = ss.Ledger("budget.jsonl", "labour force 2025", create=True)
        >>> entry = ledger.spend(5, 10, kind="strict", what="February")
        >>> entry.number, entry.blank
        (2, Decimal('5.0'))
        """
        one_of(kind, get_args(Kind), "kind")
        rests_on = _expenses(rests_on)
        if not (salt is None or (isinstance(salt, str) and salt.isprintable() and salt)):
            raise InputError("salt must be a text without control characters, or left out")
        taken_out = None if blank is None else as_decimal(blank, "blank")
        replaced = None if replace is None else as_decimal(replace, "replace")
        if (blank is None and replace is None) != (kind == "none"):
            raise InputError(
                "blank and replace must be None for kind='none', and one of them a number for every other kind: what "
                "has no guarantee cannot be added up"
            )
        label, protected = line_of_text(what, "what"), line_of_text(unit, "unit")
        whole = Spent(taken_out, replaced)
        _refuse_unnamed(whole, rests_on)

        def entry(lines: Iterable[Line], **numbered: Any) -> Line:
            own = self._own(lines)
            adds = _added(own, whole, rests_on)
            self._check_cap(own, adds.blank, kind)
            return Entry(
                what=label, kind=kind, unit=protected, **adds._asdict(), salt=salt or new_id(),
                rests_on={each.id: _amounts(each) for each in rests_on}, **numbered,
            )  # fmt: skip

        done = self._append(entry)
        assert isinstance(done, Entry)
        return done

    def check(self, blank: float, rests_on: Sequence[Expense] = ()) -> None:
        """Check whether :meth:`spend` would accept an epsilon, before a fit is computed.

        The ledger does not change.

        Parameters
        ----------
        blank : float
            Epsilon of the change that removes or adds one unit's confidential values.
        rests_on : sequence of Expense, optional
            Expenses in the epsilon, as for :meth:`spend`.

        Raises
        ------
        InputError
            The epsilon is not a positive number, or earlier entries list all expenses.
        PrivacyError
            The cap would be exceeded, or the ledger is damaged.
        """
        own = self._own(self._read().lines)
        adds = _added(own, Spent(as_decimal(blank, "epsilon"), None), _expenses(rests_on))
        self._check_cap(own, adds.blank, "strict")

    def find(self, salt: str) -> Entry | None:
        """Find the entry of the survey with a given ``salt``, a text that identifies the entry.

        Parameters
        ----------
        salt : str
            The salt given to :meth:`spend`.

        Returns
        -------
        Entry or None
            The result is None if there is no such entry.

        Raises
        ------
        PrivacyError
            The ledger is damaged.
        """
        return next((entry for entry in self._entries() if entry.salt == salt), None)

    @property
    def head(self) -> str:
        """SHA-256 hash of the whole ledger in its present state."""
        return self._read().head

    def knows(self, head: str) -> bool:
        """Return True if a given head (hash) is the hash of this ledger up to one of the lines.

        Parameters
        ----------
        head : str
            Head of an entry, from a manifest.

        Returns
        -------
        bool
            True if one of the lines has the head.

        Raises
        ------
        PrivacyError
            The ledger is damaged.
        """
        return any(line.head == head for line in self._read().lines)

    def set_cap(self, cap: float, *, what: str) -> None:
        """Set a new cap from now on.  The old cap remains on record.

        Parameters
        ----------
        cap : float
            The new cap.  If the cap is below the sum spent so far, no more epsilon can be spent.
        what : str
            The reason for the new cap, or who decided on it.

        Raises
        ------
        InputError
            The cap is not a positive number, or ``what`` is empty.
        PrivacyError
            The ledger is damaged or cannot be written.
        """
        exact, why = as_decimal(cap, "cap"), line_of_text(what, "what")

        def other_cap(lines: Iterable[Line], **numbered: Any) -> Line:
            self._own(lines)
            return Cap(what=why, cap=exact, **numbered)

        self._append(other_cap)

    def verify(self, releases: Published | Iterable[Published] | Mapping[str, Published] = ()) -> pd.DataFrame:
        """Check that the ledger is intact and has an entry for each of the given releases.

        The head of every line is computed again.  The manifest of a release cites the number and the head of the
        release's entry, so a ledger that was truncated before that entry, or rebuilt, does not fit the release.

        The check finds accidents: a file that was truncated, edited or restored from an old copy, and releases that
        were never entered.  It does not stop a forger, who can recompute all heads and write them to the manifests of
        unpublished releases.  Lines after the last entry that a release cites can be removed unnoticed.

        Parameters
        ----------
        releases : Release, list of releases, or mapping of names to releases
            Use ``{folder: read_release(folder)}`` for published releases.

        Returns
        -------
        pandas.DataFrame
            :meth:`entries`, with a column ``release``.  This column has the name of the entry's release, "release 1"
            and so on if ``releases`` is a list, and an empty text if no given release has the entry.

        Raises
        ------
        InputError
            An argument is not a release.
        PrivacyError
            The ledger is damaged, or some releases do not fit it; the error names all these releases.

        Examples
        --------
        >>> ledger = ss.Ledger("budget.jsonl", "labour force 2025", create=True)
        >>> entry = ledger.spend(5, 10, kind="strict", what="February")
        >>> ledger.verify()[["number", "what"]]
           number      what
        0       2  February
        """
        if not isinstance(releases, Mapping):
            given = [releases] if isinstance(releases, Published) else several(releases)
            releases = {f"release {position}": release for position, release in enumerate(given, 1)}
        if not all(isinstance(release, Published) for release in releases.values()):
            raise InputError("releases are what is verified: give a folder as {folder: read_release(folder)}")
        lines = self._read().lines
        faults = []
        found: dict[int, list[str]] = {}
        for name, release in releases.items():
            fault = self._fault(release, lines)
            if fault is None:
                found.setdefault(release.method["ledger"]["entry"], []).append(name)
            else:
                faults.append(f"{name} {fault}")
        if faults:
            raise PrivacyError(
                f"the ledger {str(self.path)!r} does not go with {len(faults)} of {len(releases)} releases: "
                + "; ".join(faults)
            )
        table = self.entries()
        return table.assign(release=[", ".join(found.get(number, [])) for number in table["number"]])

    def entries(self) -> pd.DataFrame:
        """Return the entries of the survey as a table.

        The columns are ``number, time, what, kind, unit, blank, replace, sum_blank, sum_replace``.  ``blank`` is the
        epsilon for removing or adding a unit's values, and ``replace`` for replacing them.  Sums are running sums.
        Missing epsilons and unknown sums are NaN.  From the first entry without a guarantee on, sums are infinite.

        Returns
        -------
        pandas.DataFrame
            One row for each entry, in the order of the ledger.
        """
        table = table_of(self._entries())
        for name in COLUMNS:
            table[name] = table[name].astype(float).replace(np.inf, np.nan)
            table[sum_of(name)] = table[sum_of(name)].astype(float)
        return table

    @property
    def spent(self) -> Spent:
        """Exact sums of the survey's epsilons: for removing or adding a unit's values, and for replacing them."""
        return spent_on(self._entries())

    @property
    def cap(self) -> Decimal | None:
        """Largest permitted sum of the epsilons for removing or adding a unit's values, or None without a cap."""
        return last_cap(self._own(self._read().lines))

    @property
    def left(self) -> Decimal | None:
        """Epsilon that the cap still permits, at least 0 (0 if the spent sum is unknown), or None without a cap."""
        return left_of(self._own(self._read().lines))

    @property
    def surveys(self) -> list[str]:
        """Names of the surveys in the file, in the order in which they were begun."""
        return surveys_of(self.path)

    def __str__(self) -> str:
        contents = self._read()
        own = self._own(contents.lines)
        entries = [line for line in own if isinstance(line, Entry)]
        cap, left = last_cap(own), left_of(own)
        limit = "no cap" if cap is None else f"cap {shown(cap)}, {shown(left, ROUND_FLOOR)} left"
        lines = [f"Privacy ledger of {self.survey!r}: releases {len(entries)}, epsilon = {both_sums(entries)}, {limit}"]
        if entries:
            table = table_of(entries)
            for name in (*COLUMNS, *map(sum_of, COLUMNS)):
                table[name] = [shown(amount) for amount in table[name]]
            lines += [table.to_string(index=False), "By kind:"]
        for kind in KINDS:
            if any(entry.kind == kind for entry in entries):
                lines.append(f"  - {kind}: {both_sums(entry for entry in entries if entry.kind == kind)}")
        units = list(dict.fromkeys(entry.unit for entry in entries))
        lines += [MEANING] + ([] if cap is None else [CAPPED])
        lines += [PLANNED] if any(line.number == 0 for line in own) else []
        lines += [UNKNOWN] if None in spent_on(entries) else []
        lines += [text for kind, text in LIMITS.items() if any(entry.kind == kind for entry in entries)]
        lines += [SEVERAL_UNITS.format(units=", ".join(units))] if len(units) > 1 else []
        lines += [TORN] if contents.torn else []
        lines += self._unwritten(entries)
        others = sorted({line.survey for line in contents.lines} - {self.survey})
        if others:
            lines.append(f"Other surveys in {str(self.path)!r}, each with a budget of its own: {', '.join(others)}")
        return "\n".join(lines)

    __repr__ = __str__

    def _unwritten(self, entries: Iterable[Entry]) -> list[str]:
        """Return sentences on releases that are in the ledger but not yet written to their folder.

        Such releases are kept next to the ledger.
        """
        numbers = {entry.salt: entry.number for entry in entries}
        sentences = []
        for folder in paid_folders(self.path.absolute()):
            note = json.loads((folder / UNFINISHED).read_text(encoding="utf-8"))
            if note.get("salt") in numbers:
                sentences.append(UNWRITTEN.format(numbers[note["salt"]], folder.name))
        return sentences

    def _read(self) -> ledger_file.Contents:
        return _read(self.path)

    def _own(self, lines: Iterable[Line]) -> list[Line]:
        """Return the lines of the survey.  Raise InputError if the ledger does not have the survey."""
        lines = list(lines)
        own = [line for line in lines if line.survey == self.survey]
        if own:
            return [*own, *self._planned_cap(own, number=0, time="")]
        names = _names(lines)
        near = " or ".join(map(repr, _near(self.survey, names)))
        raise InputError(
            f"the ledger {str(self.path)!r} has no survey {self.survey!r}{f' (did you mean {near}?)' if near else ''}; "
            f"it has {', '.join(map(repr, names)) or 'none'}. {HOW_TO_BEGIN}"
        )

    def _entries(self) -> list[Entry]:
        return [line for line in self._own(self._read().lines) if isinstance(line, Entry)]

    def _begin(self, cap: Decimal | None) -> None:
        near: list[str] = []

        def first(lines: Iterable[Line], **numbered: Any) -> Line:
            names = _names(lines)
            same = [name for name in names if _plain(name) == _plain(self.survey)]
            if same:
                raise InputError(
                    f"the ledger {str(self.path)!r} has the survey {same[0]!r} already; name it as it is there, "
                    "without create=True"
                )
            near.extend(_near(self.survey, names))
            return Cap(what="begun", cap=cap, **numbered)

        if not self.path.exists():
            ledger_file.create(self.path)
        self._append(first)
        if near:
            warnings.warn(
                f"the survey {self.survey!r} was begun in the ledger {str(self.path)!r}, with a budget of its own; its "
                f"name is near {' and '.join(map(repr, near))}: what is about the same people belongs under one name",
                stacklevel=3,
            )

    def _check_cap(self, own: list[Line], asked: Decimal | None, kind: Kind) -> None:
        """Raise PrivacyError if the survey has a cap and its sum of epsilons would be unknown or above the cap.

        ``asked`` is the epsilon of the new release, or None.
        """
        cap = last_cap(own)
        if cap is None:
            return
        if asked is None:
            why = "what has no guarantee" if kind == "none" else "what has no epsilon for blanking a record"
            raise PrivacyError(
                f"{self.survey!r} has a cap of epsilon = {shown(cap)}, and {why} cannot be counted against it: "
                "nothing was recorded, so do not release it"
            )
        spent = spent_on(line for line in own if isinstance(line, Entry)).blank
        if spent is None or EXACT.add(spent, asked) > cap:
            raise PrivacyError(
                f"epsilon = {shown(asked)} was asked for, but {shown(spent)} of {self.survey!r} is spent, and of its "
                f"cap of {shown(cap)} only {shown(left_of(own), ROUND_FLOOR)} is left: nothing was recorded, so do not "
                "release it. Ask for less, or raise the cap with set_cap(...)"
            )

    def _first_cap(self, lines: Iterable[Line], cap: Cap) -> Cap | None:
        assert cap.cap is not None
        own = self._own(lines)
        self._refuse_other_cap(own, cap.cap)
        return cap if last_cap(own) is None else None

    def _refuse_other_cap(self, own: list[Line], cap: Decimal) -> None:
        recorded = last_cap(own)
        if recorded is not None and recorded != cap:
            raise InputError(
                f"the cap of {self.survey!r} is {shown(recorded)}, and cap= names another; leave it out, or change it "
                "with set_cap(...)"
            )

    def _planned_cap(self, own: list[Line], *, number: int, time: str) -> list[Line]:
        """Return a list with the ledger line of the cap set by :meth:`with_cap`; empty if a cap is recorded."""
        if self._planned is None or last_cap(own) is not None:
            return []
        return [Cap(what="first cap", cap=self._planned, number=number, time=time, survey=self.survey)]

    def _fault(self, release: Published, lines: tuple[Line, ...]) -> str | None:
        """Return the reason why a release does not fit the lines of the ledger, or None if the release fits."""
        recorded = release.method.get("ledger")
        if recorded is None:
            return "was not entered in a ledger"
        number, head = (recorded.get(name) if isinstance(recorded, dict) else None for name in ("entry", "head"))
        if not isinstance(number, int) or number < 1:
            return "names no entry: its manifest is damaged"
        if number > len(lines):
            return f"is entry {number}, and the ledger ends with {len(lines)}: it was cut off, or is another one"
        line = lines[number - 1]
        if line.head != head or not isinstance(line, Entry):
            return f"is entry {number}, and the ledger has another one there: it was edited, or put together anew"
        if line.survey != self.survey:
            return f"is entry {number}, of the survey {line.survey!r}"
        report = release.privacy
        spends = (None, None) if report.kind == "none" else (report.epsilon, report.epsilon_replace_one)
        named = release.rests_on if line.rests_on else ()
        if {each.id: _amounts(each) for each in named} != line.rests_on:
            return f"rests on other parts than its entry {number} says"
        whole = total(named) if named else (line.blank, line.replace)
        entered = tuple(None if amount is None else float(amount) for amount in whole)
        if report.kind != line.kind or not all(map(_same, spends, entered)):
            return f"says {report.spent}, and its entry {number} says epsilon = {both_sums([line])} ({line.kind})"
        return None

    def _append(self, make: Callable[..., Line | None]) -> Line | None:
        """Add the line that ``make`` returns for the present lines.  If ``make`` returns None, no line is added.

        A cap of :meth:`with_cap` is recorded immediately before an entry, when it is sure that the entry is accepted.
        """
        with ledger_file.locked(self.path, write=True) as file:
            before = ledger_file.contents(file, self.path)
            time = datetime.now(UTC).isoformat(timespec="seconds")
            line = make(before.lines, number=len(before.lines) + 1, time=time, survey=self.survey)
            if isinstance(line, Entry):
                own = [each for each in before.lines if each.survey == self.survey]
                for cap in self._planned_cap(own, number=line.number, time=time):
                    ledger_file.append(file, cap, before, self.path)
                    before = ledger_file.contents(file, self.path)
                    line = replace(line, number=len(before.lines) + 1)
            return None if line is None else ledger_file.append(file, line, before, self.path)


def check_ledger(ledger: object) -> None:
    """Raise InputError unless the argument is a :class:`Ledger` or None."""
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InputError(f"ledger must be a Ledger, as of Ledger(path, survey), not {type(ledger).__name__}")


def surveys_of(path: str | Path) -> list[str]:
    """Return the names of the surveys of a ledger, in the order in which they were begun.

    Raises
    ------
    InputError, PrivacyError
        See :class:`Ledger`.
    """
    return _names(_read(as_path(path)).lines)


def _read(path: Path) -> ledger_file.Contents:
    with ledger_file.locked(path, write=False) as file:
        return ledger_file.contents(file, path)


def _amounts(expense: Expense) -> Amounts:
    """Return the epsilons of an expense as decimals, as the ledger stores them."""
    return Amounts(*(None if x is None else Decimal(repr(float(x))) for x in (expense.blank, expense.replace)))


def _expenses(given: object) -> list[Expense]:
    """Return the expenses of an entry as a list.  Raise InputError if one element is not an expense."""
    listed = several(given)
    if not all(isinstance(each, Expense) for each in listed):
        raise InputError("rests_on lists the parts of a release, as Release.rests_on has them")
    return listed


def _refuse_unnamed(whole: Spent, parts: Sequence[Expense]) -> None:
    """Raise PrivacyError for a release with an epsilon above the sum of its listed expenses: some are not listed.

    The error is also raised if the epsilon is None and the sum is not, or the reverse.  A release that lists no
    expenses is not checked.
    """
    if not parts:
        return
    named = total(parts)
    for asked, sum_of_parts in zip(whole, named, strict=True):
        lacks = (asked is None) != (sum_of_parts is None)
        if not lacks and asked is not None and sum_of_parts is not None:
            lacks = not (_same(float(asked), float(sum_of_parts)) or sum_of_parts > asked)
        if lacks:
            raise PrivacyError(
                "the release does not name all that it rests on: its parts do not add up to its epsilon, so nothing "
                "was recorded. Make it again, and do not change what its report says"
            )


def _added(own: Iterable[Line], whole: Spent, parts: Sequence[Expense]) -> Spent:
    """Return the epsilons that the entry of a release adds to the sums of the survey.

    They are ``whole``, the epsilons of the release, unless earlier entries in ``own``, the survey's lines, list some of
    its expenses ``parts``.  Then they are the sums over the other expenses.  Raise InputError if earlier entries list
    all expenses.
    """
    entries = [line for line in own if isinstance(line, Entry)]
    counted = {id: entry.number for entry in entries for id in entry.rests_on}
    new = [each for each in parts if each.id not in counted]
    if len(new) == len(parts):
        return whole
    if not new:
        raise InputError(
            f"all of this release was entered before, as entry {counted[parts[-1].id]}: leave the ledger out"
        )
    return Spent(*(None if x is None else Decimal(repr(least_float(x))) for x in total(new)))


def _same(one: float | None, other: float | None) -> bool:
    """Return True if two epsilons are equal up to the rounding of sums."""
    return one == other if one is None or other is None else math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)


def _names(lines: Iterable[Line]) -> list[str]:
    return list(dict.fromkeys(line.survey for line in lines))


def _near(survey: str, names: Iterable[str]) -> list[str]:
    """Return the names that are similar to a survey's name (difflib), apart from case and special characters."""
    plain = {_plain(name): name for name in names}
    return [plain[match] for match in difflib.get_close_matches(_plain(survey), plain)]


def _plain(name: str) -> str:
    """Return the letters and digits of a name in lower case, to compare names."""
    return "".join(c for c in name.casefold() if c.isalnum()) or name
