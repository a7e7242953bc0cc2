"""The file of a privacy ledger: numbered lines in a hash chain, safe against crashes and other processes.

Each line is a JSON object: first a heading, then entries (releases with their epsilons) and caps (largest permitted
sums of epsilons).  Lines are added and never changed.  The last field of a line is its head,

    head_0 = SHA-256(heading),    head_i = SHA-256(head_{i-1} followed by line i without its head),

so that a changed, removed or moved line no longer fits.  Every line has a random salt, so no two heads are equal, and
guesses of the ledger's contents cannot be tested against a published head.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, get_args

from ...choices import Kind
from ...errors import InputError, PrivacyError
from ...expenses import new_id
from ...storage import whole_file

KINDS = *get_args(Kind), "per-instance"  # version 0.2 had the last one
HEADING = {"ledger": "surveysynth", "version": 2}
WITH_HEAD = re.compile(rb'(\{.*), "head": "([0-9a-f]{64})"\}', re.DOTALL)


class Amounts(NamedTuple):
    """Epsilons of an expense: for removing a unit's values, and for replacing them.  An undefined epsilon is None."""

    blank: Decimal | None
    replace: Decimal | None


@dataclass(frozen=True)
class Entry:
    """A ledger line with the epsilon spent by a release.

    Attributes
    ----------
    number : int
        Number of the line, not counting the heading.
    time : str
        Time of the entry, UTC, ISO 8601.
    survey, what : str
        The survey, and a description of the release in the agency's words.
    kind : str
        Kind of guarantee: ``asymptotic``, ``strict``, ``strict given alpha`` or ``none``.
    unit : str
        The protected unit: "record", or the name of a column, such as the column of households.
    blank : Decimal or None
        Epsilon of the change that removes or adds one unit's confidential values, or the whole unit.  An undefined
        epsilon is None.
    replace : Decimal or None
        Epsilon of the change that replaces one unit's confidential values.  An undefined epsilon is None.
    salt : str
        A random text that identifies the entry, even before the entry is written: 32 hexadecimal digits, unless
        :meth:`Ledger.spend` was given another text.
    rests_on : dict of str to Amounts
        Epsilons of all expenses of the release, by id.  ``blank`` and ``replace`` sum only the expenses that no earlier
        entry of the survey lists.  The dict is empty if no expenses were listed.
    head : str
        SHA-256 of the ledger up to this line, 64 hexadecimal digits.
    """

    number: int
    time: str
    survey: str
    what: str
    kind: Kind
    unit: str
    blank: Decimal | None
    replace: Decimal | None
    salt: str = field(default="", compare=False)
    rests_on: dict[str, Amounts] = field(default_factory=dict)
    head: str = ""

    @property
    def reference(self) -> dict[str, Any]:
        """Number and head of the entry, for the manifest of a release.  Nothing else of the entry is public."""
        return {"entry": self.number, "head": self.head}


@dataclass(frozen=True)
class Cap:
    """A line that sets the cap of a survey (None: no cap) for later entries.  The first such line begins the survey."""

    number: int
    time: str
    survey: str
    what: str
    cap: Decimal | None
    salt: str = field(default="", compare=False)
    head: str = ""


Line = Entry | Cap


@dataclass(frozen=True)
class Contents:
    """The contents of a ledger."""

    lines: tuple[Line, ...]
    head: str  # of the last line
    size: int  # number of bytes, without ``torn``
    ended: bool  # whether the last line ends with a newline
    torn: bytes  # an incomplete line at the end of the file, from a crash; usually empty


def create(path: Path) -> None:
    """Make an empty ledger, completely or not at all.  A ledger that another process has just made is kept."""
    if not path.parent.is_dir():
        raise InputError(f"the ledger {str(path)!r} cannot be made: its folder does not exist")
    try:
        with suppress(FileExistsError), whole_file(path, replace=False) as stream:
            stream.write(f"{json.dumps(HEADING)}\n".encode())
    except OSError as error:
        raise InputError(f"the ledger {str(path)!r} cannot be made: {error.strerror}") from None


@contextmanager
def locked(path: Path, *, write: bool) -> Iterator[int]:
    """Open and lock a ledger: exclusively for writing, otherwise shared with other readers.

    Yield the file descriptor.
    """
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
            os.close(file)  # another file replaced this one during the wait
            file = -1
        yield file
    finally:
        if file >= 0:
            fcntl.flock(file, fcntl.LOCK_UN)  # a process forked meanwhile would keep the lock
            os.close(file)


def contents(file: int, path: Path) -> Contents:
    """Read all lines of a ledger, and check every line against the hash chain.

    ``file`` is the descriptor from :func:`locked`, and ``path`` is for messages.

    Raises
    ------
    InputError
        The file is not a ledger, or has another version.
    PrivacyError
        A line does not fit the chain.
    """
    with open(file, "rb", closefd=False) as readable:
        readable.seek(0)  # it may have been read before
        data = readable.read()
    heading, *raw = data.split(b"\n")
    _check_heading(_json(heading) if raw else None, path)
    tail = raw.pop()
    torn = tail if tail and _json(tail) is None else b""
    if tail and not torn:
        raw.append(tail)  # only the newline is missing, perhaps removed by an editor: the line counts
    lines: list[Line] = []
    damaged = []
    head = hashlib.sha256(heading).hexdigest()
    for number, text in enumerate(raw, 1):
        body, own_head = _split(text)
        line = _line(_json(body), number, own_head) if own_head == _head(head, body) else None
        if line is None:
            damaged.append(str(number + 1))
        else:
            lines.append(line)
        head = own_head or head  # so that only the changed line is reported as damaged
    if damaged:
        raise PrivacyError(
            f"the ledger {str(path)!r} is damaged in {len(damaged)} lines (line numbers {', '.join(damaged[:5])}; the "
            "first line is 1), so nothing can be spent: put back a copy from before, with what was spent since"
        )
    return Contents(tuple(lines), head, len(data) - len(torn), not tail or bool(torn), torn)


def append(file: int, line: Line, before: Contents, path: Path) -> Line:
    """Add a line to the ledger in one write, and wait until the line is on the disk.

    ``before`` are the present contents.  If a crash left an incomplete last line, this line is first moved to another
    file.

    Returns
    -------
    Entry or Cap
        The line, with its head.

    Raises
    ------
    PrivacyError
        The line could not be written.
    """
    record: dict[str, Any] = {"number": line.number, "time": line.time, "survey": line.survey}
    if isinstance(line, Cap):
        record |= {"type": "cap", "cap": _number(line.cap), "what": line.what}
    else:
        epsilons = {"blank": _number(line.blank), "replace": _number(line.replace)}
        record |= {"type": "spend", **epsilons, "kind": line.kind, "unit": line.unit, "what": line.what}
        if line.rests_on:
            record["rests_on"] = {id: [_number(amount) for amount in each] for id, each in line.rests_on.items()}
    body = json.dumps(record | {"salt": line.salt or new_id()}, ensure_ascii=False).encode()
    head = _head(before.head, body)
    text = b'%s, "head": "%s"}\n' % (body[:-1], head.encode())
    try:
        if before.torn:
            _put_aside(file, before, path)
        whole = (b"" if before.ended else b"\n") + text
        if os.write(file, whole) < len(whole):
            os.ftruncate(file, before.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
    except OSError as error:
        raise PrivacyError(
            f"the ledger {str(path)!r} could not be written ({error.strerror}), so do not release anything; look at it "
            "before you try again"
        ) from None
    return replace(line, head=head)


def _put_aside(file: int, before: Contents, path: Path) -> None:
    """Move an incomplete last line of the ledger to another file, with a warning."""
    aside = path.with_name(f"{path.name}.torn")
    kept = os.open(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(kept, before.torn + b"\n")
        os.fsync(kept)
    finally:
        os.close(kept)
    os.ftruncate(file, before.size)
    warnings.warn(
        f"the last line of the ledger {str(path)!r} was cut short, as by a crash; its entry was never acknowledged, "
        f"is not counted, and is now in {aside.name!r}",
        stacklevel=5,
    )


def _check_heading(parsed: Any, path: Path) -> None:
    if not isinstance(parsed, dict) or parsed.get("ledger") != HEADING["ledger"]:
        raise InputError(f"{str(path)!r} is not a ledger of surveysynth")
    if parsed != HEADING:
        raise InputError(
            f"the ledger {str(path)!r} is of another version than {HEADING['version']}, which alone is read: there "
            "every entry has two epsilons and a place in a chain. Begin a new ledger, and enter what was spent before "
            "with spend(...)"
        )


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


def _head(previous: str, body: bytes) -> str:
    return hashlib.sha256(previous.encode() + body).hexdigest()


def _split(text: bytes) -> tuple[bytes, str]:
    """Split a ledger line into the line without its hash, and the hash, which is empty if the line has none."""
    found = WITH_HEAD.fullmatch(text)
    return (text, "") if found is None else (found[1] + b"}", found[2].decode())


def _json(line: bytes) -> Any:
    """Return the JSON value of a line, or None if the line is not JSON.

    Numbers with a decimal point or an exponent become ``Decimal``, so that sums of epsilons are exact.
    """

    def refuse(name: str) -> None:
        raise ValueError

    try:
        return json.loads(line.decode("utf-8"), parse_float=Decimal, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def _line(parsed: Any, number: int, head: str) -> Line | None:
    """Return the entry or cap of a line, or None if this module cannot have written the line."""
    if not isinstance(parsed, dict):
        return None
    fields = dict(parsed)
    type = fields.pop("type", None)
    rests_on = _rests_on(fields.pop("rests_on", {})) if type == "spend" else {}
    if rests_on is None:
        return None
    texts = ("time", "survey", "what", "salt", *(("kind", "unit") if type == "spend" else ()))
    amounts = ("blank", "replace") if type == "spend" else ("cap",)
    if type not in ("cap", "spend") or set(fields) != {"number", *texts, *amounts} or fields["number"] != number:
        return None
    if not all(isinstance(fields[name], str) and fields[name] for name in texts):
        return None
    given = {name: fields[name] for name in amounts if fields[name] is not None}
    if not all(_is_amount(value) for value in given.values()):
        return None
    fields |= {name: Decimal(value) for name, value in given.items()} | {"head": head}
    if type == "cap":
        return Cap(**fields)
    if fields["kind"] not in KINDS or (not given) != (fields["kind"] == "none"):
        return None
    return Entry(**fields, rests_on=rests_on)


def _rests_on(parsed: Any) -> dict[str, Amounts] | None:
    """Return the expenses that an entry lists, by id, or None if this module cannot have written the list."""
    if not isinstance(parsed, dict) or not all(isinstance(each, list) and len(each) == 2 for each in parsed.values()):
        return None
    if not all(_is_amount(amount) for each in parsed.values() for amount in each if amount is not None):
        return None
    return {
        id: Amounts(*(None if amount is None else Decimal(amount) for amount in each)) for id, each in parsed.items()
    }


def _is_amount(value: object) -> bool:
    """Return True if a number is positive and equals the decimal that Python prints for the nearest float."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or value <= 0:
        return False
    with suppress(OverflowError):
        return Decimal(repr(float(value))) == value
    return False
