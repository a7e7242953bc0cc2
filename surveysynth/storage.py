"""Write files and folders completely or not at all, make private folders, and write JSON with a checksum.

A file or folder is first written under a hidden name next to its path.  A ledger is the file in which an agency adds up
the epsilon of its releases.  Between the moment when the ledger is charged for a release and the moment when the folder
of the release has its final name, the hidden folder has a file ``unfinished.json``.  Such a folder is kept if the run
is interrupted, so that the release, which is paid for, can be finished later.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from .errors import InputError

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of renameat2
UNFINISHED = "unfinished.json"  # file in an unfinished folder that is kept, because a ledger may have been charged
LONGEST, LONGEST_PATH = 255, 4095  # largest number of bytes of a file name, and of a whole path
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def as_path(given: object, name: str = "path") -> Path:
    """Convert a text or :class:`pathlib.Path` to a Path.  Raise InputError if ``given`` cannot be a path."""
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InputError(f"{name} must be a path, a text or a pathlib.Path, not {type(given).__name__}")
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded or not all(letter < "\ud800" or letter > "\udfff" for letter in text):
        raise InputError(f"{name} is no path: it has letters that no name of a file can have")
    if max(map(len, encoded.split(os.sep.encode()))) > LONGEST or len(encoded) > LONGEST_PATH:
        raise InputError(f"{name} is no path: a name in it is longer than {LONGEST} bytes, or it is in all")
    return Path(text)


@contextmanager
def whole_file(path: Path, *, mode: int = 0o600, replace: bool = True) -> Iterator[BinaryIO]:
    """Write a file that appears whole or not at all.

    The file is written under a hidden name next to ``path``, synced to the disk, and then moved to ``path``.

    Parameters
    ----------
    path : Path
        A path in an existing folder.
    mode : int
        Permissions of the file.  The umask may remove some of them.
    replace : bool
        True if the file may replace an existing one.

    Yields
    ------
    BinaryIO
        The file to write to.

    Raises
    ------
    FileExistsError
        ``replace`` is False and ``path`` exists when the new file is finished.  The existing file is unchanged.
    OSError
        The file cannot be written.
    """
    with _staged(path, lambda staging: os.close(os.open(staging, os.O_CREAT | os.O_EXCL, mode))) as staging:
        with staging.open("r+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        try:
            (os.replace if replace else os.link)(staging, path)
        finally:  # the file's name must survive a crash, even if another process made the file first
            sync(path.parent)


@contextmanager
def whole_folder(
    path: Path, *, mode: int = 0o700, replace: bool = False, last: Callable[[Path], None] | None = None
) -> Iterator[Path]:
    """Write a folder that appears whole or not at all.

    The folder is written under a hidden name next to ``path``, and then moved to ``path``.

    Parameters
    ----------
    path : Path
        Missing parent folders are made.
    mode : int
        Permissions of the finished folder; until then only its owner can read it.
    replace : bool
        True if the folder may replace an existing one.  An empty folder is always replaced.
    last : callable, optional
        Function for the last step before the move, such as charging a ledger.  Its argument is the hidden folder, which
        is on the disk by then.  No other process can take ``path`` between this step and the move.  If ``last`` leaves
        a file ``unfinished.json`` in the folder, the folder is kept even if the move fails, and :func:`finish` can move
        it later.

    Yields
    ------
    Path
        The folder to write to.

    Raises
    ------
    OSError
        The folder cannot be made, or ``path`` exists and may not be replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _staged(path, lambda staging: staging.mkdir(0o700)) as staging:
        yield staging
        finish(staging, path, replace=replace, mode=mode, last=last)


@contextmanager
def kept_folder(path: Path, last: Callable[[Path], None]) -> Iterator[Path]:
    """Write a hidden folder next to a file, such as a release next to the ledger that is charged for the release.

    The folder does not get another name.  It is removed at the end, unless the function ``last`` leaves a file
    ``unfinished.json`` in it.

    Parameters
    ----------
    path : Path
        Path of the file, in an existing folder.
    last : callable
        Function for the last step.  Its argument is the hidden folder, which is on the disk by then.

    Yields
    ------
    Path
        The folder to write to, which only its owner can read.
    """
    with _staged(path, lambda staging: staging.mkdir(0o700)) as staging:
        yield staging
        _sync_all(staging)
        sync(path.parent)
        with locked(path.parent), uninterrupted():
            last(staging)


def paid_folders(path: Path) -> list[Path]:
    """List the hidden folders for ``path`` that have a file ``unfinished.json``: a ledger may be charged for them."""
    hidden = sorted(path.parent.glob(f".{glob.escape(path.name)}.*"))
    return [staging for staging in hidden if (staging / UNFINISHED).is_file()]


def discard(folder: Path) -> None:
    """Remove a hidden folder that has a file ``unfinished.json``.

    This file is removed last, so that the folder is found again if the process is killed in between.
    """
    for each in folder.glob("*"):
        if each.name != UNFINISHED:
            _remove(each)
    _remove(folder)


def finish(
    staging: Path, path: Path, *, replace: bool, mode: int, last: Callable[[Path], None] | None = None
) -> None:
    """Move the hidden folder ``staging`` to ``path``, as the last part of :func:`whole_folder`.

    The steps are: call ``last``, set the mode, move the folder, and remove its file ``unfinished.json``.

    Raises
    ------
    OSError
        ``path`` exists and may not be replaced, or the folder cannot be moved.
    """
    _sync_all(staging)
    sync(path.parent)  # the name of the hidden folder, too
    with locked(path.parent), uninterrupted():
        if not (replace or is_free(path)):
            raise FileExistsError(errno.EEXIST, "there is something by now", str(path))
        if last is not None:
            last(staging)
        staging.chmod(mode)
        if is_free(path):
            os.rename(staging, path)
        else:
            _exchange(staging, path)
            _remove(staging)
        sync(path.parent)  # the move is on the disk before unfinished.json is removed
        (path / UNFINISHED).unlink(missing_ok=True)
        sync(path)


def left_behind(path: Path) -> list[Path]:
    """Clean up after interrupted runs that wrote to ``path``, and list the hidden folders that are kept.

    The folders that are kept have a file ``unfinished.json``: a ledger may be charged for them.  The other hidden files
    and folders for ``path`` are deleted, except those of running processes.  (On a system without locks all are kept,
    since it is unknown which processes are running.)  If a run was interrupted while it replaced the folder ``path``,
    the old folder is put back.
    """
    with locked(path.parent):
        return _swept(path)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Within this context, delay Ctrl-C, SIGTERM and SIGHUP.  They take effect at its end."""
    came: list[int] = []
    before: dict[int, Any] = {}
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    if threading.current_thread() is threading.main_thread():  # only this thread handles signals
        handlers = {number: signal.getsignal(number) for number in numbers}
        before = {number: handler for number, handler in handlers.items() if handler is not None}  # None: set by C
    try:
        for number in before:
            signal.signal(number, lambda number, frame: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


@contextmanager
def private_folder(out: str | Path, notice: str) -> Iterator[Path]:
    """Write a new folder, whole or not at all, with a notice that its contents are not for publication.

    Only the owner can read the folder and its contents (:func:`restrict`).

    Raises
    ------
    InputError
        The folder exists and is not empty, or ``out`` is not a path.
    """
    folder = as_path(out, "out")
    check_new(folder)
    with whole_folder(folder) as staging:
        (staging / "NOT-FOR-PUBLICATION.txt").write_text(f"{notice}\n", encoding="utf-8")
        yield staging
        restrict(staging)


def check_new(folder: Path) -> None:
    """Raise InputError for a path that exists, unless it is an empty folder."""
    if not is_free(folder):
        raise InputError(f"{str(folder)!r} exists; choose another folder")


def is_free(path: Path) -> bool:
    """Return True if nothing exists at a path, or only an empty folder."""
    return not os.path.lexists(path) or (path.is_dir() and not path.is_symlink() and not any(path.iterdir()))


def restrict(folder: Path) -> None:
    """Make a folder and its contents private to the owner, whatever the umask: folders 0700, files 0600."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def sealed(contents: Mapping[str, Any]) -> str:
    """Return the contents as JSON, with checksums of the text in a last entry ``checksum``.

    The checksums are SHA-256 and, for older versions of R, MD5.
    """
    text = json.dumps(contents, indent=2, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    return text + _seal(text.encode()).decode()


def unsealed(path: Path) -> bytes:
    """Return the bytes of a JSON file that :func:`sealed` made, after verifying its checksums.

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
    """Return the end of the JSON text: the entry ``checksum``, with the checksums of the text before it."""
    sha256, md5 = hashlib.sha256(text).hexdigest(), hashlib.md5(text, usedforsecurity=False).hexdigest()
    return f',\n  "checksum": {{\n    "sha256": "{sha256}",\n    "md5": "{md5}"\n  }}\n}}\n'.encode()


@contextmanager
def _staged(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Make a file or folder under a hidden name next to ``path``, so that one rename moves it to ``path``.

    A lock on the hidden file or folder shows other processes that this process is still alive.  At the end, a hidden
    file or folder that was not moved is removed, unless it is a folder with a file ``unfinished.json``.
    """
    staging = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with ExitStack() as life:
        try:
            with locked(path.parent):  # no other process sweeps the folder before the new one is locked
                _swept(path)
                make(staging)
                life.enter_context(_alone(staging))
            yield staging
        finally:
            if not (staging / UNFINISHED).exists():
                _remove(staging)


@contextmanager
def _alone(path: Path) -> Iterator[bool | None]:
    """Lock a file or folder during this context, and yield whether the lock was obtained.

    Yields True if the lock was obtained, False if another process has the lock or the file is gone, and None if the
    system or the file system has no locks.
    """
    try:
        import fcntl

        file = os.open(path, os.O_RDONLY)
    except ImportError:  # Windows
        yield None
        return
    except FileNotFoundError:  # already removed
        yield False
        return
    try:
        free: bool | None = None  # this file system has no locks
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        except OSError:
            pass
        yield free
    finally:
        os.close(file)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file or folder during this context.  On a system without locks, do nothing."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    file = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _swept(path: Path) -> list[Path]:
    """Clean up after interrupted runs, and list the hidden folders that are kept, as described in :func:`left_behind`.

    The caller must hold the lock of the parent folder of ``path``.
    """
    kept = []
    pattern = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{8}")
    if (path / "public" / "manifest.json").is_file() and (path / UNFINISHED).is_file():
        (path / UNFINISHED).unlink()  # a run was killed after the move, before it removed this file
    backup = path.parent / f".{path.name}.replaced"
    if os.path.lexists(backup):  # a run was killed between the renames of _exchange
        _remove(backup) if os.path.lexists(path) else os.rename(backup, path)
    for staging in sorted(p for p in path.parent.iterdir() if pattern.fullmatch(p.name)):
        with _alone(staging) as alone:
            if alone is False:
                continue
            if (staging / UNFINISHED).is_file():
                kept.append(staging)
                continue
            if alone is None:  # without locks nobody knows whether the process lives
                continue
            _remove(staging)
            warnings.warn(f"{str(staging)!r}, which a run that was killed left behind, was removed", stacklevel=5)
    return kept


def _remove(staging: Path) -> None:
    if staging.is_dir() and not staging.is_symlink():
        shutil.rmtree(staging, ignore_errors=True)
    else:
        staging.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_all(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        sync(path)


def _exchange(staging: Path, path: Path) -> None:
    """Replace the folder ``path`` by the folder ``staging``.

    With the system call renameat2, the two folders swap names in one step.  The caller then removes the old folder,
    which is now at ``staging``.  Without renameat2, the old folder is renamed, the new folder is moved to ``path``, and
    the old folder is removed.  If the process is killed in between, :func:`_swept` restores the old folder.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    renameat2 = getattr(libc, "renameat2", None)
    names = os.fsencode(staging), os.fsencode(path)
    if renameat2 and renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
        return
    backup = path.parent / f".{path.name}.replaced"  # no renameat2 here: two renames
    os.rename(path, backup)
    try:
        os.rename(staging, path)
    except OSError:
        os.rename(backup, path)
        raise
    shutil.rmtree(backup)
