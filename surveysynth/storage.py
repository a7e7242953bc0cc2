"""Files and folders that appear whole or not at all, those that only their owner can read, and JSON with a checksum."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from .errors import InputError

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of renameat2


@contextmanager
def whole_file(path: Path, *, mode: int = 0o600, replace: bool = True) -> Iterator[BinaryIO]:
    """A file that appears whole or not at all, and is on the disk then (fsync): it is staged beside its place.

    Parameters
    ----------
    path : Path
        Its folder exists.
    mode : int
        Less the umask.
    replace : bool
        Whether the file may take the place of one that is there.

    Yields
    ------
    BinaryIO
        To write to.

    Raises
    ------
    FileExistsError
        There is a file by now, and ``replace`` is False: it stays as it is.
    OSError
        The file cannot be written.
    """
    staging = _beside(path)
    try:
        with open(staging, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        try:
            (os.replace if replace else os.link)(staging, path)
        finally:  # the name must outlast a crash, also where another process was first to make it
            _sync(path.parent)
    finally:
        staging.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path, *, mode: int = 0o700, replace: bool = False) -> Iterator[Path]:
    """A folder that appears whole or not at all: it is staged beside its place and moved there.

    Parameters
    ----------
    path : Path
        The folders above it are made where they are not there.
    mode : int
        Less the umask.
    replace : bool
        Whether the folder may take the place of one that is there.

    Yields
    ------
    Path
        The folder to write to.

    Raises
    ------
    OSError
        The folder cannot be made, or something is in its place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = _beside(path)
    staging.mkdir(mode)
    try:
        yield staging
        if replace and path.exists():
            _exchange(staging, path)
        else:
            os.rename(staging, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


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
    with whole_folder(folder) as staging:
        (staging / "NOT-FOR-PUBLICATION.txt").write_text(f"{notice}\n", encoding="utf-8")
        yield staging
        restrict(staging)


def check_new(folder: Path) -> None:
    """Refuse a folder that is there (InputError)."""
    if folder.exists():
        raise InputError(f"{str(folder)!r} exists; choose another folder")


def restrict(folder: Path) -> None:
    """Give a folder and all that is in it to its owner alone, whatever the umask: mode 0700, files 0600."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def sealed(said: Mapping[str, Any]) -> str:
    """JSON whose last entry, ``checksum``, is of all the text before it: SHA-256, and MD5 for R's older versions."""
    text = json.dumps(said, indent=2, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    return text + _seal(text.encode()).decode()


def unsealed(path: Path) -> bytes:
    """The JSON that :func:`sealed` made, as it is in a file.

    Raises
    ------
    InputError
        The file cannot be read, has no checksum at its end, or has changed since it was written.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read ({type(error).__name__})") from None
    before, mark, _ = text.rpartition(b',\n  "checksum": {')
    if not mark:
        raise InputError(
            f"{str(path)!r} cannot be verified: it does not end with its own checksum, as that of an older version or "
            "a file that is cut short; write it again, or take it again from where it was published"
        )
    if before + _seal(before) != text:
        raise InputError(
            f"{str(path)!r} is not what was written: its text does not fit its checksum. Take it again from where it "
            "was published, and copy it as it is"
        )
    return text


def _seal(text: bytes) -> bytes:
    """The end of a JSON object whose text is this so far."""
    sha256, md5 = hashlib.sha256(text).hexdigest(), hashlib.md5(text, usedforsecurity=False).hexdigest()
    return f',\n  "checksum": {{\n    "sha256": "{sha256}",\n    "md5": "{md5}"\n  }}\n}}\n'.encode()


def _beside(path: Path) -> Path:
    """A hidden name of its own in the same folder, from where a rename takes one step."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def _sync(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(staging: Path, path: Path) -> None:
    """Put a folder in the place of another, which the caller then removes: one of the two is always there, whole."""
    libc = ctypes.CDLL(None, use_errno=True)
    renameat2 = getattr(libc, "renameat2", None)
    names = os.fsencode(staging), os.fsencode(path)
    if renameat2 and renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
        return
    backup = path.with_name(f".{path.name}.replaced")  # no exchange here: two renames, the old one kept until then
    os.rename(path, backup)
    try:
        os.rename(staging, path)
    except OSError:
        os.rename(backup, path)
        raise
    shutil.rmtree(backup)
