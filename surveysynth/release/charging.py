"""A release is charged to its survey's ledger last: when all its files are on the disk, next to their place.

    compute, stage, write unfinished.json  ->  charge  ->  name the entry in the manifest  ->  move, rename

A run that is killed before the charge leaves a staged folder that the next run for this place removes.  One that is
killed after it leaves a staged folder that :func:`resume` publishes, by the salt of its entry: nothing is spent twice.

A release that is charged when it is made, and not yet written, has no place: it is staged and charged in the same way
next to the ledger, and its folder stays there until it is written, or :func:`resume` publishes it.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..expenses import new_id
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..privacy.accounting.ledger_file import Entry
from ..storage import (
    UNFINISHED,
    as_path,
    discard,
    finish,
    left_behind,
    sealed,
    sync,
    unsealed,
    whole_file,
    whole_folder,
)
from .contents import Contents

PUBLIC = 0o755  # mode of a release folder in its place
NO_ENTRY = {"entry": 0, "head": "0" * 64}  # holds the place of an entry until there is one


def spends(release: Contents) -> dict[str, Any]:
    """The expense of a release, as arguments of :meth:`surveysynth.Ledger.spend`."""
    report = release.privacy
    each = (None, None) if report.kind == "none" else (report.epsilon, report.epsilon_replace_one)
    up_to = "" if report.delta is None else f", delta = {report.delta:.3g}"
    what = f"synthetic data, m = {release.m}{up_to}, {release.method['method']}: {', '.join(release.outcomes)}"
    return {
        "blank": each[0], "replace": each[1], "kind": report.kind, "unit": report.unit or "record", "what": what,
        "rests_on": release.rests_on,
    }  # fmt: skip


def charge(
    staging: Path, spent: dict[str, Any], ledger: Ledger, entered: list[Entry], *, overwrite: bool = False
) -> None:
    """Charge a staged release, by arguments of :meth:`surveysynth.Ledger.spend`, and name the entry in its manifest.

    ``entered`` gets the entry as soon as there is one, whatever fails after that.

    Raises
    ------
    PrivacyError
        The cap would be exceeded, or the ledger cannot be written: nothing was charged.
    """
    salt = new_id()
    where = {"ledger": str(ledger.path.absolute()), "survey": ledger.survey, "head": ledger.head}
    note = where | {"overwrite": overwrite, "salt": salt}
    whole = staging / "internal" / UNFINISHED
    with whole_file(whole) as stream:
        stream.write(json.dumps(note).encode())
    os.replace(whole, staging / UNFINISHED)
    sync(staging)  # before the entry, or a loss of power could leave that alone
    try:
        entered.append(ledger.spend(**spent, salt=salt))
    except BaseException:
        if (found := ledger.find(salt)) is None:
            (staging / UNFINISHED).unlink()
        else:
            entered.append(found)
        raise
    _name(entered[0], staging)


def unfinished(path: Path) -> Path | None:
    """The staged folder of a run for this place that was charged and then killed; other staged folders are removed.

    Raises
    ------
    InputError
        There are several; or the ledger that one names is gone, or is another by now: nothing is removed then.
    PrivacyError
        The ledger is damaged.
    """
    charged = _charged(path)
    if len(charged) > 1:
        raise InputError(
            f"several runs for {str(path)!r} were charged and not finished: {', '.join(map(str, charged))}"
        )
    return next(iter(charged), None)


def how_to_publish(ledger: Ledger, entry: Entry) -> str:
    """The command that publishes a release that is kept next to its ledger."""
    return f"surveysynth resume PLACE --ledger {str(ledger.path)!r} --survey {ledger.survey!r} --entry {entry.number}"


def resume(path: str | Path, *, ledger: Ledger | None = None, entry: int | None = None) -> Path:
    """Publish a release that was charged and then cut off, before its files were in their place.

    Parameters
    ----------
    path : str or Path
        Where the release was to be written.
    ledger : Ledger, optional
        Where it was entered, if it was entered when it was made (``synthesize(ledger=)``): its files are kept there
        until it is written.
    entry : int, optional
        Number of its entry in the ledger, where several releases are kept.

    Returns
    -------
    Path
        The release folder.

    Raises
    ------
    InputError
        There is no such run; something else is in the place by now; several releases are kept, and no entry was named.
    PrivacyError
        The ledger is damaged.

    Examples
    --------
    Where the place of a release is empty, although the ledger was charged for it:

    >>> ss.resume("release")  # doctest: +SKIP
    """
    check_ledger(ledger)
    path = as_path(path)
    staging = unfinished(path) if path.parent.is_dir() else None
    if staging is not None:
        return _finished(staging, path)
    if ledger is not None:
        return _published(path, ledger, entry)
    raise InputError(
        f"there is nothing to resume for {str(path)!r}: no run for it was charged and not finished. What was entered "
        "when it was made is kept beside its ledger: say ledger=Ledger(...), or --ledger and --survey"
    )


def _charged(path: Path) -> list[Path]:
    """Staged folders that were charged, for a place or next to a ledger; folders that were not charged are removed."""
    charged = []
    for staging in left_behind(path):
        ledger, note = _note(staging)
        if ledger.find(note["salt"]) is not None:
            charged.append(staging)
        elif ledger.knows(note["head"]):  # it went on from there without this entry
            (staging / UNFINISHED).unlink()
            left_behind(path)
        else:
            raise InputError(
                f"{str(staging)!r} holds a release that a run was about to charge, or charged, to the ledger "
                f"{note['ledger']!r}, which is another one by now: put back the one of then, and try again"
            )
    return charged


def _entry_and_note(staging: Path) -> tuple[Entry, dict[str, Any]]:
    """The entry by which a staged folder was charged, and its note."""
    ledger, note = _note(staging)
    entry = ledger.find(note["salt"])
    assert entry is not None  # _charged() has found it
    return entry, note


def _finished(staging: Path, path: Path) -> Path:
    """Move a staged folder to its place."""
    entry, note = _entry_and_note(staging)
    try:
        finish(staging, path, replace=note["overwrite"], mode=PUBLIC, last=lambda folder: _name(entry, folder))
    except OSError as error:
        if not staging.exists():
            raise InputError(f"another process published {str(path)!r} meanwhile") from None
        raise InputError(
            f"{error.filename or str(path)!r}: {error.strerror}; the release is still in {str(staging)!r}"
        ) from None
    return path


def _published(path: Path, ledger: Ledger, number: int | None) -> Path:
    """Copy a release from the folder next to its ledger to its place, and remove that folder."""
    kept = {entry.number: (entry, staging) for staging in _charged(ledger.path.absolute())
            for entry, _ in [_entry_and_note(staging)] if entry.survey == ledger.survey}  # fmt: skip
    listed = "; ".join(f"entry {each.number}, {each.what}" for each, _ in kept.values())
    if not kept or (number is not None and number not in kept):
        raise InputError(
            f"there is nothing to resume for {str(path)!r}: no such release is kept beside the ledger"
            + (f"; these are: {listed}" if kept else "")
        )
    if number is None and len(kept) > 1:
        raise InputError(f"several releases are kept beside the ledger, so say which, entry= (--entry): {listed}")
    entry, staging = kept[number] if number is not None else next(iter(kept.values()))
    if not _is_entry(entry, path):  # else it was killed before the last step
        try:
            with whole_folder(path, mode=PUBLIC) as place:
                for part in ("public", "internal"):
                    if any((staging / part).iterdir()):
                        shutil.copytree(staging / part, place / part)
                _name(entry, place)
        except OSError as error:
            raise InputError(
                f"{error.filename or str(path)!r}: {error.strerror or error}; the release is still in {str(staging)!r}"
            ) from None
    discard(staging)
    return path


def _is_entry(entry: Entry, path: Path) -> bool:
    """Whether the release of an entry is in a place."""
    file = path / "public" / "manifest.json"
    return file.is_file() and json.loads(unsealed(file)).get("ledger") == entry.reference


def _note(staging: Path) -> tuple[Ledger, dict[str, Any]]:
    """The ledger that a staged release was charged to, or was about to be charged to, and its whole note."""
    note = json.loads((staging / UNFINISHED).read_text(encoding="utf-8"))
    if not Path(note["ledger"]).is_file():
        raise InputError(
            f"{str(staging)!r} holds a release that a run was about to charge, or charged, to the ledger "
            f"{note['ledger']!r}, which is not there: put it back, and try again"
        )
    return Ledger(note["ledger"], note["survey"]), note


def _name(entry: Entry, staging: Path) -> None:
    """Say in the manifest which entry it is."""
    file = staging / "public" / "manifest.json"
    entries = {name: value for name, value in json.loads(unsealed(file)).items() if name != "checksum"}
    with whole_file(file, mode=0o666) as stream:
        stream.write(sealed(entries | {"ledger": entry.reference}).encode())
