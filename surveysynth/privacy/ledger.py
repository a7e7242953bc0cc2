"""The privacy ledger: what a survey's releases have spent, and a cap that they cannot exceed.

One text file, a JSON object a line: a heading, then entries, each with its number.  Lines are added and
never changed.  ``spend`` writes its entry before the release is made, in one write under an exclusive
lock, and returns once the disk has it (fsync).  So a crash leaves one of three things:

- nothing of the entry, which then was not acknowledged, and nothing was released;
- the beginning of its line, likewise: it is not counted, and the next entry puts it aside (``.torn``);
- the whole entry, though the release was perhaps never made: it counts.

Whatever else is wrong with a file stops all spending.  Two processes wait for each other.

Epsilon is for neighbours that differ by one record added or removed, as in
:class:`surveysynth.privacy.report.PrivacyReport`.  Numbers are kept as decimals, as they are
printed: 0.1, ten times, is 1.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact
from functools import reduce
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from ..errors import InputError, PrivacyError, line_of_text, positive
from .mechanisms import Kind

HEADING = {"ledger": "surveysynth", "version": 1}
EXACT = Context(prec=1000, traps=[Inexact])  # any sum of floats has fewer digits
SHOWN = Decimal("0.0001")
NOT_COUNTED = Decimal("Infinity")  # epsilon of what has no guarantee

MEANING = (
    "Epsilons of releases about the same people add up (sequential composition); they are for neighbours that differ "
    "by one record, or unit, added or removed."
)
LIMITS: dict[Kind, str] = {
    "asymptotic": "The sum has asymptotic parts, so it is no strict guarantee.",
    "strict given alpha": (
        "The sum has parts that are strict given the privacy weights: these were computed from the file, and the sum "
        "does not cover them."
    ),
    "none": "The sum has no guarantee: it has parts that have none.",
}
SEVERAL_UNITS = (
    "Entries protect different units ({units}): their sum holds for none of these as a whole, since what protects a "
    "record protects a group of records less."
)
TORN = "The last line is cut short, as by a crash: its entry was never acknowledged, and is not counted."


@dataclass(frozen=True)
class Entry:
    """An epsilon that was spent.

    Attributes
    ----------
    number : int
        Of the line, heading not counted.
    time : str
        UTC, ISO 8601.
    survey, what : str
        What it was spent on, in the agency's words.
    kind : str
        ``asymptotic``, ``strict``, ``strict given alpha`` or ``none``.
    unit : str
        What one is protected as: a record, or the column of households, say.
    epsilon : Decimal or None
        For neighbours that differ by one unit added or removed; None where there is no guarantee.
    """

    number: int
    time: str
    survey: str
    what: str
    kind: Kind
    unit: str
    epsilon: Decimal | None


@dataclass(frozen=True)
class Cap:
    """The most that a survey may spend, from this entry on."""

    number: int
    time: str
    survey: str
    what: str
    cap: Decimal


Line = Entry | Cap


@dataclass(frozen=True)
class Contents:
    """A ledger as it was read: its entries, the bytes that they fill, and what a crash may have left behind."""

    lines: tuple[Line, ...]
    size: int
    ended: bool  # whether the last entry has its end of line
    torn: bytes


class Ledger:
    """What has been spent on one survey, in a file that holds one survey or several.

    Parameters
    ----------
    path : str or Path
        The file; it is made, mode 0600, where there is none.  Its folder must exist.
    survey : str
        The survey; what is about the same people belongs under one name.
    cap : float, optional
        The most that may be spent on the survey.  It is recorded with the first call that names
        it; later calls may leave it out or name the same.

    Raises
    ------
    InputError
        The file is no ledger or cannot be opened; no such folder; a cap other than the recorded
        one, which :meth:`set_cap` changes.
    PrivacyError
        The ledger is damaged.

    Examples
    --------
    >>> ledger = Ledger("budget.jsonl", "labour force 2025", cap=20)  # doctest: +SKIP
    >>> ledger.spend(10.8, kind="asymptotic", what="January, m = 3")  # doctest: +SKIP
    >>> ledger.left  # doctest: +SKIP
    Decimal('9.2')
    """

    def __init__(self, path: str | Path, survey: str, cap: float | None = None) -> None:
        self.path, self.survey = Path(path), line_of_text(survey, "survey")
        wanted = None if cap is None else _decimal(cap, "cap")
        if not self.path.exists():
            _create(self.path)
        recorded = _cap(self._own())
        if wanted is None or recorded == wanted:
            return
        self._append(lambda own, **numbered: self._first_cap(own, Cap(what="first cap", cap=wanted, **numbered)))

    def spend(self, epsilon: float | None, *, kind: Kind, what: str, unit: str = "record") -> Entry:
        """Record an epsilon, before the release is made that spends it.

        What was recorded stays, also where the release then fails.

        Parameters
        ----------
        epsilon : float or None
            For one unit added or removed.  None for what has no guarantee (kind "none"), such as
            local Laplace tables: no number can be added for it, and the sum has no guarantee
            from then on.
        kind : {"asymptotic", "strict", "strict given alpha", "none"}
        what : str
            The release, in a few words.  It is written to the ledger as it is.
        unit : str
            What one is protected as: "record", or the column of households, say.

        Returns
        -------
        Entry

        Raises
        ------
        InputError
            An epsilon that is not positive, or does not go with its kind; an unknown kind; no text.
        PrivacyError
            The cap would be exceeded, or the ledger is damaged or cannot be written.  Nothing
            may be released then; the ledger is as it was.
        """
        if kind not in get_args(Kind):
            raise InputError(f"kind={kind!r} is not one of {', '.join(get_args(Kind))}")
        if (epsilon is None) != (kind == "none"):
            raise InputError(
                "epsilon must be None for kind='none', and a number for every other kind: what has no guarantee "
                "cannot be added up"
            )
        exact = None if epsilon is None else _decimal(epsilon, "epsilon")
        said, protected = line_of_text(what, "what"), line_of_text(unit, "unit")

        def entry(own: list[Line], **numbered: Any) -> Line:
            self._check_cap(own, exact)
            return Entry(what=said, kind=kind, unit=protected, epsilon=exact, **numbered)

        done = self._append(entry)
        assert isinstance(done, Entry)
        return done

    def check(self, epsilon: float) -> None:
        """Refuse, before the work of a fit, what :meth:`spend` would refuse now; records nothing.

        Raises
        ------
        InputError
            An epsilon that is not a positive number.
        PrivacyError
            The cap would be exceeded, or the ledger is damaged.
        """
        self._check_cap(self._own(), _decimal(epsilon, "epsilon"))

    def set_cap(self, cap: float, *, what: str) -> None:
        """Set another cap, from now on; the old one stays on record.

        Parameters
        ----------
        cap : float
            Where it is below what was spent, nothing is left.
        what : str
            Why, or who decided it.

        Raises
        ------
        InputError
            A cap that is not a positive number, or no text.
        PrivacyError
            The ledger is damaged or cannot be written.
        """
        exact, why = _decimal(cap, "cap"), line_of_text(what, "what")
        self._append(lambda own, **numbered: Cap(what=why, cap=exact, **numbered))

    def entries(self) -> pd.DataFrame:
        """What was spent on the survey: ``time, what, kind, unit, epsilon, sum``, the sum running.

        Where there is no guarantee epsilon is NaN, and the sum infinite.
        """
        table = _table(self._own())
        no_number = table["epsilon"] == NOT_COUNTED
        return table.assign(epsilon=table["epsilon"].astype(float).mask(no_number), sum=table["sum"].astype(float))

    @property
    def spent(self) -> Decimal:
        """The exact sum of the survey's epsilons; infinite where one has no guarantee."""
        return _spent(self._own())

    @property
    def cap(self) -> Decimal | None:
        """The most that may be spent on the survey; None where nothing was said."""
        return _cap(self._own())

    @property
    def left(self) -> Decimal | None:
        """Cap less what was spent, at least 0; None without a cap."""
        return _left(self._own())

    @property
    def surveys(self) -> list[str]:
        """The surveys that the file has lines of, in the order of their first."""
        return list(dict.fromkeys(line.survey for line in self._read().lines))

    def __str__(self) -> str:
        contents = self._read()
        own = [line for line in contents.lines if line.survey == self.survey]
        spent = [line for line in own if isinstance(line, Entry)]
        cap, left = _cap(own), _left(own)
        limit = "no cap" if cap is None or left is None else f"cap {_shown(cap)}, {_shown(left, ROUND_FLOOR)} left"
        said = [f"Privacy ledger of {self.survey!r}: releases {len(spent)}, epsilon = {_shown(_spent(own))}, {limit}"]
        if spent:
            table = _table(own)
            shown = table.assign(epsilon=table["epsilon"].map(_shown), sum=table["sum"].map(_shown))
            said += [shown.to_string(index=False), "By kind:"]
        for kind in get_args(Kind):
            if any(entry.kind == kind for entry in spent):
                said.append(f"  - {kind}: {_shown(_spent(entry for entry in spent if entry.kind == kind))}")
        units = list(dict.fromkeys(entry.unit for entry in spent))
        said.append(MEANING)
        said += [text for kind, text in LIMITS.items() if any(entry.kind == kind for entry in spent)]
        said += [SEVERAL_UNITS.format(units=", ".join(units))] if len(units) > 1 else []
        said += [TORN] if contents.torn else []
        others = sorted({line.survey for line in contents.lines} - {self.survey})
        if others:
            said.append(f"Other surveys in {str(self.path)!r}, each with a budget of its own: {', '.join(others)}")
        return "\n".join(said)

    __repr__ = __str__

    def _own(self) -> list[Line]:
        return [line for line in self._read().lines if line.survey == self.survey]

    def _read(self) -> Contents:
        with _locked(self.path, write=False) as file:
            return _contents(file, self.path)

    def _check_cap(self, own: list[Line], asked: Decimal | None) -> None:
        """Refuse to spend more than what is left; what has no guarantee fits under no cap."""
        cap = _cap(own)
        if cap is None:
            return
        if asked is None:
            raise PrivacyError(
                f"{self.survey!r} has a cap of epsilon = {_shown(cap)}, and what has no guarantee cannot be counted "
                "against it: nothing was recorded, so do not release it"
            )
        if EXACT.add(_spent(own), asked) > cap:
            left = _left(own)
            assert left is not None
            raise PrivacyError(
                f"epsilon = {_shown(asked)} was asked for, but {_shown(_spent(own))} of {self.survey!r} is spent, and "
                f"of its cap of {_shown(cap)} only {_shown(left, ROUND_FLOOR)} is left: nothing was recorded, so do "
                "not release it. Ask for less, or raise the cap with set_cap(...)"
            )

    def _first_cap(self, own: list[Line], cap: Cap) -> Cap | None:
        recorded = _cap(own)
        if recorded is not None and recorded != cap.cap:
            raise InputError(
                f"the cap of {self.survey!r} is {_shown(recorded)}, and cap= names another; leave it out, or change it "
                "with set_cap(...)"
            )
        return cap if recorded is None else None

    def _append(self, make: Callable[..., Line | None]) -> Line | None:
        """Add what ``make`` says, given the survey's lines and the next number; None adds nothing."""
        with _locked(self.path, write=True) as file:
            contents = _contents(file, self.path)
            own = [line for line in contents.lines if line.survey == self.survey]
            time = datetime.now(UTC).isoformat(timespec="seconds")
            line = make(own, number=len(contents.lines) + 1, time=time, survey=self.survey)
            if line is not None:
                try:
                    _write(file, line, contents, self.path)
                except OSError as error:
                    raise PrivacyError(
                        f"the ledger {str(self.path)!r} could not be written ({error.strerror}), so do not release "
                        "anything; look at it before you try again"
                    ) from None
            return line


def _create(path: Path) -> None:
    """Make an empty ledger, whole or not at all; where another process was first, its ledger stays."""
    if not path.parent.is_dir():
        raise InputError(f"the ledger {str(path)!r} cannot be made: its folder does not exist")
    try:
        file, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
        try:
            os.write(file, f"{json.dumps(HEADING)}\n".encode())
            os.fsync(file)
            with suppress(FileExistsError):
                os.link(name, path)
        finally:
            os.close(file)
            os.unlink(name)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InputError(f"the ledger {str(path)!r} cannot be made: {error.strerror}") from None


@contextmanager
def _locked(path: Path, *, write: bool) -> Iterator[int]:
    """The ledger, open and locked: to itself where it is to be written, else with other readers."""
    import fcntl  # not on Windows, where the rest of the package works

    file = -1
    try:
        while True:
            try:
                if not path.is_file():
                    raise InputError(f"the ledger {str(path)!r} is not a file")
                file = os.open(path, os.O_RDWR | os.O_APPEND if write else os.O_RDONLY)
                fcntl.flock(file, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
                if os.path.samestat(os.fstat(file), os.stat(path)):
                    break
            except OSError as error:
                raise InputError(f"the ledger {str(path)!r} cannot be opened: {error.strerror}") from None
            os.close(file)  # an editor put another file in its place while we waited
            file = -1
        yield file
    finally:
        if file >= 0:
            fcntl.flock(file, fcntl.LOCK_UN)  # a process that was forked meanwhile would keep it
            os.close(file)


def _contents(file: int, path: Path) -> Contents:
    with open(file, "rb", closefd=False) as readable:
        data = readable.read()
    heading, *lines = data.split(b"\n")
    if not lines or _json(heading) != HEADING:
        raise InputError(f"{str(path)!r} is not a ledger of surveysynth (version {HEADING['version']})")
    tail = lines.pop()
    torn = tail if tail and _json(tail) is None else b""
    if tail and not torn:
        lines.append(tail)  # whole but for its end, perhaps since an editor took that off: it counts
    parsed = [_line(_json(line), number) for number, line in enumerate(lines, 1)]
    damaged = [str(number + 1) for number, line in enumerate(parsed, 1) if line is None]
    if damaged:
        raise PrivacyError(
            f"the ledger {str(path)!r} is damaged in {len(damaged)} lines (line numbers {', '.join(damaged[:5])}; the "
            "first line is 1), so nothing can be spent: put back a copy from before, with what was spent since"
        )
    whole = tuple(line for line in parsed if line is not None)
    return Contents(whole, len(data) - len(torn), not tail or bool(torn), torn)


def _json(line: bytes) -> Any:
    """The JSON value of a line, numbers as decimals; None where it is not JSON."""

    def refuse(name: str) -> None:
        raise ValueError

    try:
        return json.loads(line.decode("utf-8"), parse_float=Decimal, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def _line(said: Any, number: int) -> Line | None:
    """An entry as it was written, or None where it cannot have been written by this module."""
    if not isinstance(said, dict):
        return None
    entry = dict(said)
    type = entry.pop("type", None)
    wanted: tuple[str, ...] = ("number", "time", "survey", "what")
    wanted += ("cap",) if type == "cap" else ("kind", "unit", "epsilon")
    if type not in ("cap", "spend") or set(entry) != set(wanted) or entry["number"] != number:
        return None
    if not all(isinstance(entry[c], str) and entry[c] for c in wanted if c not in ("number", "cap", "epsilon")):
        return None
    if type == "cap":
        return Cap(**entry | {"cap": Decimal(entry["cap"])}) if _is_amount(entry["cap"]) else None
    if entry["kind"] not in get_args(Kind) or (entry["epsilon"] is None) != (entry["kind"] == "none"):
        return None
    if entry["epsilon"] is None:
        return Entry(**entry)
    return Entry(**entry | {"epsilon": Decimal(entry["epsilon"])}) if _is_amount(entry["epsilon"]) else None


def _is_amount(value: object) -> bool:
    """Whether a number is positive, and the shortest decimal of a float: then all sums are exact."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or value <= 0:
        return False
    with suppress(OverflowError):
        return Decimal(repr(float(value))) == value
    return False


def _write(file: int, line: Line, contents: Contents, path: Path) -> None:
    """Add a line in one write, and wait for the disk; first put aside what a crash left behind."""
    if contents.torn:
        aside = path.with_name(f"{path.name}.torn")
        kept = os.open(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(kept, contents.torn + b"\n")
            os.fsync(kept)
        finally:
            os.close(kept)
        os.ftruncate(file, contents.size)
        warnings.warn(
            f"the last line of the ledger {str(path)!r} was cut short, as by a crash; its entry was never "
            f"acknowledged, is not counted, and is now in {aside.name!r}",
            stacklevel=4,
        )
    said = {"number": line.number, "time": line.time, "survey": line.survey}
    if isinstance(line, Cap):
        said |= {"type": "cap", "cap": float(line.cap), "what": line.what}
    else:
        epsilon = None if line.epsilon is None else float(line.epsilon)
        said |= {"type": "spend", "epsilon": epsilon, "kind": line.kind, "unit": line.unit, "what": line.what}
    text = json.dumps(said, ensure_ascii=False).encode()
    whole = (b"" if contents.ended else b"\n") + text + b"\n"
    if os.write(file, whole) < len(whole):
        os.ftruncate(file, contents.size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file)


def _table(lines: Iterable[Line]) -> pd.DataFrame:
    """What was spent, in exact numbers, and the running sum."""
    spent = [line for line in lines if isinstance(line, Entry)]
    table = pd.DataFrame({
        "time": pd.Series([entry.time for entry in spent], dtype=str),
        "what": pd.Series([entry.what for entry in spent], dtype=str),
        "kind": pd.Series([entry.kind for entry in spent], dtype=str),
        "unit": pd.Series([entry.unit for entry in spent], dtype=str),
    })  # fmt: skip
    epsilon = [NOT_COUNTED if entry.epsilon is None else entry.epsilon for entry in spent]
    table["epsilon"] = pd.Series(epsilon, dtype=object)
    table["sum"] = pd.Series([*accumulate(epsilon, EXACT.add)], dtype=object)
    return table


def _spent(lines: Iterable[Line]) -> Decimal:
    epsilon = (NOT_COUNTED if line.epsilon is None else line.epsilon for line in lines if isinstance(line, Entry))
    return reduce(EXACT.add, epsilon, Decimal(0))


def _cap(lines: Iterable[Line]) -> Decimal | None:
    caps = [line.cap for line in lines if isinstance(line, Cap)]
    return caps[-1] if caps else None


def _left(lines: list[Line]) -> Decimal | None:
    cap = _cap(lines)
    return None if cap is None else max(EXACT.subtract(cap, _spent(lines)), Decimal(0))


def _shown(amount: Decimal, rounding: str = ROUND_CEILING) -> str:
    """An epsilon for a person, at four decimals: rounded up, and what is left rounded down."""
    if not amount.is_finite():
        return "no guarantee"
    exact = Context(prec=EXACT.prec)
    return f"{amount.quantize(SHOWN, rounding, exact).normalize(exact):f}"


def _decimal(value: object, name: str) -> Decimal:
    """A positive float as the decimal that it is printed as."""
    return Decimal(repr(positive(value, name)))
