"""A release is charged to its survey's ledger last: when all its files are on the disk beside their place.

    compute, stage, write unfinished.json  ->  charge  ->  name the entry in the manifest  ->  move, rename

A run that is killed before the charge leaves a staged folder that the next run for this place removes.  One that is
killed after it leaves a staged folder that :func:`resume` publishes, by the salt of its entry: nothing is spent twice.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..privacy.accounting.ledger import Ledger
from ..privacy.accounting.ledger_file import new_salt
from ..storage import UNFINISHED, finish, left_behind, sealed, sync, unsealed, whole_file

if TYPE_CHECKING:
    from ..privacy.accounting.ledger_file import Entry
    from .release import Release

PUBLIC = 0o755  # mode of a release folder in its place
NO_ENTRY = {"entry": 0, "head": "0" * 64}  # holds the place of an entry until there is one


def spends(release: Release) -> dict[str, Any]:
    """What a release spends, as arguments of :meth:`surveysynth.Ledger.spend`."""
    said = release.privacy
    each = (None, None) if said.kind == "none" else (said.epsilon, said.epsilon_replace_one)
    up_to = "" if said.delta is None else f", delta = {said.delta:.3g}"
    what = f"synthetic data, m = {release.m}{up_to}, {release.method['method']}: {', '.join(release.outcomes)}"
    return {
        "blank": each[0], "replace": each[1], "kind": said.kind, "unit": said.unit or "record", "what": what,
        "rests_on": release.rests_on,
    }  # fmt: skip


def charge(staging: Path, release: Release, ledger: Ledger, entered: list[Entry], *, overwrite: bool) -> None:
    """Charge a release whose files are staged, and name the entry in its manifest.

    ``entered`` gets the entry as soon as there is one, whatever fails after that.

    Raises
    ------
    PrivacyError
        The cap would be exceeded, or the ledger cannot be written: nothing was charged.
    """
    salt = new_salt()
    where = {"ledger": str(ledger.path.absolute()), "survey": ledger.survey, "head": ledger.head}
    note = where | {"overwrite": overwrite, "salt": salt}
    whole = staging / "internal" / UNFINISHED
    with whole_file(whole) as stream:
        stream.write(json.dumps(note).encode())
    os.replace(whole, staging / UNFINISHED)
    sync(staging)  # before the entry, or a loss of power could leave that alone
    try:
        entered.append(ledger.spend(**spends(release), salt=salt))
    except BaseException:
        if (found := ledger.find(salt)) is None:
            (staging / UNFINISHED).unlink()
        else:
            entered.append(found)
        raise
    _name(entered[0], staging)


def unfinished(path: Path) -> Path | None:
    """The staged folder of a run for this place that was charged and then killed; those not charged are removed.

    Raises
    ------
    InputError
        There are several; or the ledger that one names is gone, or is another by now: nothing is removed then.
    PrivacyError
        The ledger is damaged.
    """
    charged = []
    for staging in left_behind(path):
        ledger, said = _note(staging)
        if ledger.find(said["salt"]) is not None:
            charged.append(staging)
        elif ledger.knows(said["head"]):  # it went on from there without this entry
            (staging / UNFINISHED).unlink()
            left_behind(path)
        else:
            raise InputError(
                f"{str(staging)!r} holds a release that a run was about to charge, or charged, to the ledger "
                f"{said['ledger']!r}, which is another one by now: put back the one of then, and try again"
            )
    if len(charged) > 1:
        raise InputError(
            f"several runs for {str(path)!r} were charged and not finished: {', '.join(map(str, charged))}"
        )
    return charged[0] if charged else None


def resume(path: str | Path) -> Path:
    """Publish the release of a run that was charged and then killed, before its files were in their place.

    Parameters
    ----------
    path : str or Path
        Where the release was to be written.

    Returns
    -------
    Path
        The release folder.

    Raises
    ------
    InputError
        There is no such run; something else is in the place by now.
    PrivacyError
        The ledger is damaged.

    Examples
    --------
    Where the place of a release is empty, although the ledger was charged for it:

    >>> ss.resume("release")  # doctest: +SKIP
    """
    path = Path(path)
    staging = unfinished(path) if path.parent.is_dir() else None
    if staging is None:
        raise InputError(f"there is nothing to resume for {str(path)!r}: no run for it was charged and not finished")
    ledger, said = _note(staging)
    entry = ledger.find(said["salt"])
    assert entry is not None  # as unfinished() saw
    try:
        finish(staging, path, replace=said["overwrite"], mode=PUBLIC, last=lambda folder: _name(entry, folder))
    except OSError as error:
        if not staging.exists():
            raise InputError(f"another process published {str(path)!r} meanwhile") from None
        raise InputError(
            f"{error.filename or str(path)!r}: {error.strerror}; the release is still in {str(staging)!r}"
        ) from None
    return path


def _note(staging: Path) -> tuple[Ledger, dict[str, Any]]:
    """The ledger that a staged release was, or was about to be, charged to, and what else its note says."""
    said = json.loads((staging / UNFINISHED).read_text(encoding="utf-8"))
    if not Path(said["ledger"]).is_file():
        raise InputError(
            f"{str(staging)!r} holds a release that a run was about to charge, or charged, to the ledger "
            f"{said['ledger']!r}, which is not there: put it back, and try again"
        )
    return Ledger(said["ledger"], said["survey"]), said


def _name(entry: Entry, staging: Path) -> None:
    """Say in the manifest which entry it is."""
    file = staging / "public" / "manifest.json"
    said = {name: value for name, value in json.loads(unsealed(file)).items() if name != "checksum"}
    with whole_file(file, mode=0o666) as stream:
        stream.write(sealed(said | {"ledger": entry.reference}).encode())
