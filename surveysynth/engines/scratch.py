"""Scratch folders for confidential files of other programs, removed however the process ends."""

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

NAME = re.compile(r"surveysynth-\d+-[a-z0-9_]{8}")  # number of the process, and the suffix by tempfile
PRIVATE = 0o700
MEMORY = Path("/dev/shm")
ENOUGH = 2**30  # bytes that must be free


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder for confidential files, which is removed afterwards.

    Only this user can read it (mode 0700); it is in memory (/dev/shm) if possible, or else in the system's temporary
    folder.  In the main thread, SIGTERM and SIGHUP also remove it unless another handler is set: they kill the child
    processes with the folder in their command line, remove it, and end the process as usual.  After SIGKILL or a power
    failure, :func:`sweep` removes it.

    Yields
    ------
    Path
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
    """Remove the scratch folders of killed processes of this user."""
    for folder in _folders():
        with _if_left(folder) as dead:
            if dead:
                shutil.rmtree(folder, ignore_errors=True)


def left() -> list[Path]:
    """The folders that :func:`sweep` would remove."""
    found = []
    for folder in _folders():
        with _if_left(folder) as dead:
            if dead:
                found.append(folder)
    return found


def _folders() -> list[Path]:
    return [x for place in _places() for x in sorted(place.glob("surveysynth-*")) if NAME.fullmatch(x.name)]


def _places() -> list[Path]:
    """Parent folders of scratch folders; new ones are made in the first."""
    with suppress(FileNotFoundError):  # there is no temporary folder here
        places = [Path(tempfile.gettempdir())]
        if MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK):
            places.insert(0 if shutil.disk_usage(MEMORY).free >= ENOUGH else 1, MEMORY)
        return places
    return []


@contextmanager
def _if_left(folder: Path) -> Iterator[bool]:
    """Whether a killed process of this user left the folder, which is locked meanwhile."""
    try:
        lock = _locked(folder)
    except OSError:  # in use, another user's, a link, or removed meanwhile
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
        folder = Path(tempfile.mkdtemp(prefix=f"surveysynth-{os.getpid()}-", dir=next(iter(_places()), None)))  # 0700
        lock = None
        try:
            lock = _locked(folder)
        except BlockingIOError:  # a sweep of another process was first, and removes it
            continue
        except OSError:  # a file system without locks, where nothing is swept
            pass
        if folder.exists():  # otherwise a sweep of another process removed it
            return folder, lock


def _locked(folder: Path) -> int | None:
    """A descriptor that locks a folder, not a link to one, until this process closes it or dies.

    Process numbers would not do: they are used again, and containers that share a folder have their own.

    Raises
    ------
    OSError
        Another process has locked it, it is no folder, or its file system has no locks.
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
        if os.getpid() == process:  # not a forked child that inherited this handler
            _kill_children(str(folder))
            shutil.rmtree(folder, ignore_errors=True)
        signal.signal(number, ours[signal.Signals(number)])
        signal.raise_signal(number)  # shows the parent process how this one ended

    ours: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        ending = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__]
        handlers = {number: signal.getsignal(number) for number in ending}
        plain = (signal.SIG_DFL, signal.default_int_handler)  # the latter as of the command line
        ours = {number: handler for number, handler in handlers.items() if handler in plain}
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def _kill_children(named: str) -> None:
    """Kill the child processes with a text in their command line.

    Without /proc they end at their next output, which has no reader.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # already ended
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and named in (process / "cmdline").read_text():
                os.kill(int(process.name), signal.SIGKILL)
                os.waitpid(int(process.name), 0)  # wait until it no longer writes
