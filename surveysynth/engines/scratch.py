"""Scratch folders: temporary folders for confidential files that another program reads and writes.

A folder is removed when the process ends, or by a later process if the process was killed (:func:`sweep`).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

NAME = re.compile(r"surveysynth-\d+-[a-z0-9_]{8}")  # process number, and characters that tempfile appends
PRIVATE = 0o700
MEMORY = Path("/dev/shm")
ENOUGH = 2**30  # bytes that must be free in MEMORY


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder for confidential files, and remove it at the end of the context.

    Only this user can read the folder (mode 0700).  It is in memory (/dev/shm) if possible, or else in the system's
    temporary folder.  In the main thread, SIGTERM and SIGHUP also remove the folder, unless the program handles these
    signals itself: a handler kills the child processes that have the folder in their command line, removes the folder,
    and ends this process as usual.  After SIGKILL or a power failure, :func:`sweep` removes the folder later.

    Yields
    ------
    Path
        The folder.
    """
    folder, lock = _new_folder()
    with _removed_by_signals(folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if lock is not None:
                os.close(lock)


def sweep() -> None:
    """Remove the scratch folders of this user's killed processes."""
    for folder in _folders():
        with _if_left(folder) as dead:
            if dead:
                shutil.rmtree(folder, ignore_errors=True)


def left() -> list[Path]:
    """List the scratch folders of killed processes, which :func:`sweep` would remove."""
    found = []
    for folder in _folders():
        with _if_left(folder) as dead:
            if dead:
                found.append(folder)
    return found


def _folders() -> list[Path]:
    return [x for place in _places() for x in sorted(place.glob("surveysynth-*")) if NAME.fullmatch(x.name)]


def _places() -> list[Path]:
    """List the folders in which scratch folders can be.  New scratch folders are made in the first one."""
    with suppress(FileNotFoundError):  # there is no temporary folder
        places = [Path(tempfile.gettempdir())]
        if MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK):
            places.insert(0 if shutil.disk_usage(MEMORY).free >= ENOUGH else 1, MEMORY)
        return places
    return []


@contextmanager
def _if_left(folder: Path) -> Iterator[bool]:
    """Yield True if the folder belongs to a killed process of this user.  The folder is locked during the context."""
    try:
        lock = _locked(folder)
    except OSError:  # the folder is in use, belongs to another user, is a link, or has just been removed
        lock = None
    if lock is None:
        yield False
        return
    try:
        status = os.fstat(lock)
        yield status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) == PRIVATE
    finally:
        os.close(lock)


def _new_folder() -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"surveysynth-{os.getpid()}-", dir=next(iter(_places()), None)))
        lock = None
        try:
            lock = _locked(folder)
        except BlockingIOError:  # another process is sweeping and removes the folder
            continue
        except OSError:  # a file system without locks is not swept
            pass
        if folder.exists():  # unless another process swept in between
            return folder, lock


def _locked(folder: Path) -> int | None:
    """Lock a folder until this process ends or closes the returned descriptor.  On Windows, return None.

    The lock shows that the process is alive.  The process number could not show this: numbers are reused, and
    containers that share a folder number their processes independently.

    Raises
    ------
    OSError
        Another process has locked the folder, ``folder`` is no folder or is a link, or the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _removed_by_signals(folder: Path) -> Iterator[None]:
    process = os.getpid()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() == process:  # not in a forked child that inherited the handler
            _kill_children(str(folder))
            shutil.rmtree(folder, ignore_errors=True)
        signal.signal(number, ours[signal.Signals(number)])
        signal.raise_signal(number)  # so that the parent process sees the signal

    ours: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        ending = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__]
        handlers = {number: signal.getsignal(number) for number in ending}
        plain = (signal.SIG_DFL, signal.default_int_handler)  # the latter is set by the command line
        ours = {number: handler for number, handler in handlers.items() if handler in plain}
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def _kill_children(named: str) -> None:
    """Kill the child processes of this process whose command line contains ``named``.

    On systems without /proc they are not found; they end when they next write to a closed pipe.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and named in (process / "cmdline").read_text():
                os.kill(int(process.name), signal.SIGKILL)
                os.waitpid(int(process.name), 0)  # wait until it has ended and writes nothing more
