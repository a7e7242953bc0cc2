"""What stays inside the agency: folders and files that only their owner can read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import InputError


@contextmanager
def private_folder(out: str | Path, notice: str) -> Iterator[Path]:
    """A new folder with a notice that it is not for publication, which appears whole or not at all.

    Only its owner can read it, and what was written into it (:func:`restrict`).

    Raises
    ------
    InputError
        The folder exists.
    """
    folder = Path(out)
    check_new(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))  # mode 0700
    try:
        (staging / "NOT-FOR-PUBLICATION.txt").write_text(f"{notice}\n", encoding="utf-8")
        yield staging
        restrict(staging)
        os.rename(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def check_new(folder: Path) -> None:
    """Refuse a folder that is there (InputError)."""
    if folder.exists():
        raise InputError(f"{str(folder)!r} exists; choose another folder")


def restrict(folder: Path) -> None:
    """Give a folder and all that is in it to its owner alone, whatever the umask: mode 0700, files 0600."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
