"""Charge a release to the ledger of its survey, as the last step before its files appear at their path.

    compute, stage, write unfinished.json  ->  charge  ->  write the entry's number into the manifest  ->  move

"Staged" files are complete and on the disk, in a hidden folder next to the path of the release.  If a run is killed
before the charge, the next run for the same path removes the staged folder.  If a run is killed after the charge,
:func:`resume` publishes the staged folder.  It finds the ledger entry by its salt, a random text that is also
in ``unfinished.json``, so that nothing is spent twice.

A release that is charged when it is made, before it is written, does not have a path yet.  It is staged in the same way
next to the ledger.  The staged folder stays there until the release is written, or :func:`resume` publishes it.
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

PUBLIC = 0o755  # mode of a published release folder
NO_ENTRY = {"entry": 0, "head": "0" * 64}  # placeholder in the manifest until the ledger is charged


def spends(release: Contents) -> dict[str, Any]:
    """Return the epsilons of a release and other facts, as arguments of :meth:`surveysynth.Ledger.spend`."""
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
    """Charge a ledger for a release in a hidden folder, and write the number of the ledger entry to its manifest.

    The staged release is complete, in the hidden folder ``staging``.  ``spent`` has the arguments of
    :meth:`surveysynth.Ledger.spend`.  The new ledger entry is appended to the list ``entered`` as soon as it exists,
    even if a later step fails.

    Raises
    ------
    PrivacyError
        The cap would be exceeded, or the ledger cannot be written.  If ``entered`` is empty, nothing was charged.
    """
    salt = new_id()
    where = {"ledger": str(ledger.path.absolute()), "survey": ledger.survey, "head": ledger.head}
    note = where | {"overwrite": overwrite, "salt": salt}
    whole = staging / "internal" / UNFINISHED
    with whole_file(whole) as stream:
        stream.write(json.dumps(note).encode())
    os.replace(whole, staging / UNFINISHED)
    sync(staging)  # before the charge; else a loss of power could leave a ledger entry without its release
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
    """Return the hidden folder of a release that was charged to a ledger, but not yet moved to ``path``.

    Return None if there is no such folder.  Hidden folders of interrupted runs for ``path`` that were not charged are
    removed.

    Raises
    ------
    InputError
        Several such folders exist; or the ledger of a hidden folder is missing, or was replaced by another file.
        None of these folders is removed.
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
    """Return the shell command that publishes a release or measurements kept next to the ledger."""
    return f"surveysynth resume PLACE --ledger {str(ledger.path)!r} --survey {ledger.survey!r} --entry {entry.number}"


def resume(path: str | Path, *, ledger: Ledger | None = None, entry: int | None = None) -> Path:
    """Publish a release that was charged to a ledger, but whose run ended before the files appeared at their path.

    Parameters
    ----------
    path : str or Path
        The folder to which the release was to be written.
    ledger : Ledger, optional
        The ledger of a release that was charged when it was made (``synthesize(ledger=)``).  The files of such a
        release are kept next to the ledger until the release is written.
    entry : int, optional
        Number of the ledger entry of the release.  It is needed if several releases are kept next to the ledger.

    Returns
    -------
    Path
        The release folder.

    Raises
    ------
    InputError
        There is no such release; ``path`` exists by now, or cannot be written; the ledger is missing, or was replaced
        by another file; several releases are kept, and ``entry`` is not given.
    PrivacyError
        The ledger is damaged.

    Examples
    --------
    The folder of a release does not exist, although the ledger was charged for the release:

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
        "when it was made is kept beside its ledger: give ledger=Ledger(...), or --ledger and --survey"
    )


def _charged(path: Path) -> list[Path]:
    """List hidden folders, next to a release or ledger, that contain a release charged to a ledger.

    Hidden folders whose release was not charged are removed.
    """
    charged = []
    for staging in left_behind(path):
        ledger, note = _note(staging)
        if ledger.find(note["salt"]) is not None:
            charged.append(staging)
        elif ledger.knows(note["head"]):  # the ledger is the same one, and does not have this entry
            (staging / UNFINISHED).unlink()
            left_behind(path)
        else:
            raise InputError(
                f"{str(staging)!r} holds a release that a run was about to charge, or charged, to the ledger "
                f"{note['ledger']!r}, which is another one by now: put back the one of then, and try again"
            )
    return charged


def _entry_and_note(staging: Path) -> tuple[Entry, dict[str, Any]]:
    """Return the ledger entry of a charged release in a hidden folder, and the content of its unfinished.json."""
    ledger, note = _note(staging)
    entry = ledger.find(note["salt"])
    assert entry is not None  # _charged() has found it
    return entry, note


def _finished(staging: Path, path: Path) -> Path:
    """Move a charged release from its hidden folder to its path, and return the path."""
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
    """Copy a release from the hidden folder next to its ledger to a path, and remove the hidden folder."""
    kept = {entry.number: (entry, staging) for staging in _charged(ledger.path.absolute())
            for entry, _ in [_entry_and_note(staging)] if entry.survey == ledger.survey}  # fmt: skip
    listed = "; ".join(f"entry {each.number}, {each.what}" for each, _ in kept.values())
    if not kept or (number is not None and number not in kept):
        raise InputError(
            f"there is nothing to resume for {str(path)!r}: no such release is kept beside the ledger"
            + (f"; these are: {listed}" if kept else "")
        )
    if number is None and len(kept) > 1:
        raise InputError(f"several releases are kept beside the ledger, so give one as entry= (--entry): {listed}")
    entry, staging = kept[number] if number is not None else next(iter(kept.values()))
    if not _is_entry(entry, path):  # if it is, an earlier resume() was killed before its last step
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
    file = path / "public" / "manifest.json"
    return file.is_file() and json.loads(unsealed(file)).get("ledger") == entry.reference


def _note(staging: Path) -> tuple[Ledger, dict[str, Any]]:
    """Return the ledger that ``unfinished.json`` in a hidden folder names, and the content of this file."""
    note = json.loads((staging / UNFINISHED).read_text(encoding="utf-8"))
    if not Path(note["ledger"]).is_file():
        raise InputError(
            f"{str(staging)!r} holds a release that a run was about to charge, or charged, to the ledger "
            f"{note['ledger']!r}, which is not there: put it back, and try again"
        )
    return Ledger(note["ledger"], note["survey"]), note


def _name(entry: Entry, staging: Path) -> None:
    """Write number and checksum of a ledger entry to the manifest of the release in the folder ``staging``."""
    file = staging / "public" / "manifest.json"
    entries = {name: value for name, value in json.loads(unsealed(file)).items() if name != "checksum"}
    with whole_file(file, mode=0o666) as stream:
        stream.write(sealed(entries | {"ledger": entry.reference}).encode())
