"""Progress on stderr: a spinner or a bar on a terminal, plain lines where the command line is piped, otherwise nothing.

No line holds a number of the confidential file: stages have fixed names, counts are of steps, samples or synthesizers
that were asked for, and seconds are those of the clock.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

EVERY = 10.0  # seconds after which a stage is named again; after 100 s, a tenth of the time that has passed

ENOUGH = 0.05  # of the steps, before which an estimate of the time says little


class _Stage:
    """What is being done, and how many of its steps are."""

    def __init__(self) -> None:
        self.name, self.begun, self.done, self.total = "", time.monotonic(), 0, 0

    def begin(self, name: str) -> None:
        self.name, self.begun, self.done, self.total = name, time.monotonic(), 0, 0

    def __str__(self) -> str:
        if not (self.total and self.done):
            return self.name
        share = min(self.done / self.total, 1.0)
        left = (time.monotonic() - self.begun) * (1 - share) / share
        return f"{self.name}: {share:.0%}" + (f", about {left:.0f} s left" if share >= ENOUGH else "")


_due: list[Callable[[], None]] = []  # when work begins
_stage: ContextVar[_Stage | None] = ContextVar("the stage whose steps are counted", default=None)
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("who is told in place of stderr", default=None)
_lines_wanted: ContextVar[bool] = ContextVar("plain lines of progress", default=False)


@contextmanager
def plain_lines() -> Iterator[None]:
    """Write lines where stderr is no terminal, as the command line does; calls from Python are silent there."""
    before = _lines_wanted.set(True)
    try:
        yield
    finally:
        _lines_wanted.reset(before)


@contextmanager
def progress_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Give every stage, as it begins, to a function, with the seconds so far; nothing is written to stderr.

    For a front end with messages of its own, as R's.  The function is called in the thread that does the work.
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def when_work_begins(task: Callable[[], None]) -> None:
    """Do something once, before the first stage or bar: after what a command imports."""
    _due.append(task)


def _work_begins() -> None:
    while _due:
        _due.pop()()


def tell(text: str) -> None:
    """Say something to who does the work: not for publication."""
    listener = _listener.get()
    if listener is None:
        print(text, file=sys.stderr)
    else:
        listener(text)


def steps(total: int) -> Callable[[], None]:
    """A function that counts one of so many steps of the stage that is being done; threads may call it."""
    stage = _stage.get()
    if stage is None:
        return lambda: None
    stage.done, stage.total, stage.begun = 0, total, time.monotonic()

    def count() -> None:
        stage.done += 1

    return count


@contextmanager
def during(name: str) -> Iterator[None]:
    """Say what the stage that is being done waits for."""
    stage = _stage.get()
    if stage is None:
        yield
        return
    before = stage.name, stage.begun, stage.done, stage.total
    stage.begin(name)
    try:
        yield
    finally:
        stage.name, stage.begun, stage.done, stage.total = before


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Yield a function that says which stage has begun."""
    _work_begins()
    console, stage = Console(stderr=True), _Stage()
    before = _stage.set(stage)
    listener = _listener.get()
    try:
        if listener is not None:
            begun = time.monotonic()

            def begin(name: str) -> None:
                stage.begin(name)
                listener(f"{time.monotonic() - begun:.0f} s  {name}")

            yield begin
        elif console.is_terminal:
            shown = Progress(SpinnerColumn(), _StageColumn(stage), console=console, transient=True)
            with shown:
                shown.add_task("")
                yield stage.begin
        elif not _lines_wanted.get():
            yield stage.begin
        else:

            def say(name: str) -> None:
                stage.begin(name)
                line()

            with _lines(lambda seconds: str(stage)) as line:
                yield say
    finally:
        _stage.reset(before)


class _StageColumn(ProgressColumn):
    """The stage, as it stands."""

    def __init__(self, stage: _Stage) -> None:
        super().__init__()
        self.stage = stage

    def render(self, task: Task) -> Text:
        return Text(str(self.stage))


@contextmanager
def bar(what: str, total: int, completed: int = 0) -> Iterator[Callable[[], None]]:
    """Yield a function that says that one more is done, of ``total``; with an estimate of the time that is left.

    Parameters
    ----------
    what : str
        Of what there are so many, such as "samples".
    total, completed : int
        How many there will be, and how many there are at the start.
    """
    _work_begins()
    console = Console(stderr=True)
    if console.is_terminal or not _lines_wanted.get():
        columns = (
            TextColumn(what), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=console, disable=not console.is_terminal) as shown:
            task = shown.add_task("", total=total, completed=completed)
            yield lambda: shown.advance(task)
        return
    done = completed

    def advance() -> None:
        nonlocal done
        done += 1

    def text(seconds: float) -> str:
        left = seconds * (total - done) / max(done - completed, 1)
        return f"{what}: {done} of {total}" + (f", about {left:.0f} s left" if completed < done < total else "")

    with _lines(text) as line:
        line()
        stages_of_each = _lines_wanted.set(False)  # which would be mixed into the bar's own lines
        try:
            yield advance
        finally:
            _lines_wanted.reset(stages_of_each)
        if done > completed:
            line()


@contextmanager
def _lines(text: Callable[[float], str]) -> Iterator[Callable[[], float]]:
    """Yield a function that writes a line, which is written again while the work goes on.

    ``text`` is given the seconds since the start; the function returns them.
    """
    begin, over = time.monotonic(), threading.Event()

    def line() -> float:
        seconds = time.monotonic() - begin
        with suppress(OSError, ValueError):  # nobody reads any more, or stderr is closed: no reason to stop
            print(f"{seconds:5.0f} s  {text(seconds)}", file=sys.stderr, flush=True)
        return seconds

    def again() -> None:
        wait = EVERY
        while not over.wait(wait):
            wait = max(EVERY, line() / 10)

    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    try:
        yield line
    finally:
        over.set()
        thread.join()
