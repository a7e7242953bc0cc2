"""Show progress on stderr: a spinner or bar on a terminal, plain lines if the command line is piped, else nothing.

A computation consists of stages, such as "draws", and a stage of steps.  Apart from the elapsed times, no message shows
a number that depends on the confidential file: names of stages are fixed, and the numbers of steps, samples and
synthesizers are those that the user requested.
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

EVERY = 10.0  # seconds between two lines of progress; after 100 s, a tenth of the elapsed time

ENOUGH = 0.05  # share of the steps after which the remaining time is estimated


class _Stage:
    """The current stage of a computation: its name, its starting time, its steps done, and its total steps."""

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


_due: list[Callable[[], None]] = []  # tasks to be done when work begins
_stage: ContextVar[_Stage | None] = ContextVar("the stage whose steps are counted", default=None)
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("the listener in place of stderr", default=None)
_internal_listener: ContextVar[Callable[[str], None] | None] = ContextVar(
    "the listener for messages that are not for publication", default=None
)
_lines_wanted: ContextVar[bool] = ContextVar("plain lines of progress", default=False)


@contextmanager
def plain_lines() -> Iterator[None]:
    """Within this context, write plain lines of progress if stderr is not a terminal.

    The command line uses this context.  Calls from Python do not, so they write nothing if stderr is not a terminal.
    """
    before = _lines_wanted.set(True)
    try:
        yield
    finally:
        _lines_wanted.reset(before)


@contextmanager
def progress_to(
    listener: Callable[[str], None], internal: Callable[[str], None] | None = None
) -> Iterator[None]:  # fmt: skip
    """Within this context, report the beginning of every stage to the function ``listener`` instead of stderr.

    A report is a text with the elapsed seconds and the name of the stage: "12 s  2 of 3: draws".  Messages that are not
    for publication (:func:`tell`) go to the function ``internal``, or to ``listener`` if ``internal`` is None.  Front
    ends that show messages themselves, such as R, use this context.  Both functions are called in the thread that
    computes.
    """
    before = _listener.set(listener), _internal_listener.set(internal or listener)
    try:
        yield
    finally:
        _listener.reset(before[0])
        _internal_listener.reset(before[1])


def when_work_begins(task: Callable[[], None]) -> None:
    """Register a function that is called once: after the imports of a command, and before the first stage of work."""
    _due.append(task)


def work_begins() -> None:
    """Call the functions that :func:`when_work_begins` registered, unless they were called before."""
    while _due:
        _due.pop()()


def tell(text: str) -> None:
    """Show the user a message that is not for publication, on stderr or by a function given to :func:`progress_to`."""
    listener = _internal_listener.get()
    if listener is None:
        print(text, file=sys.stderr)
    else:
        listener(text)


def steps(total: int) -> Callable[[], None]:
    """Return a function that counts one step of the current stage as done.  Several threads may call that function.

    ``total`` is the number of steps of the stage.  The remaining time is estimated from the share that is done.
    """
    stage = _stage.get()
    if stage is None:
        return lambda: None
    stage.done, stage.total, stage.begun = 0, total, time.monotonic()

    def count() -> None:
        stage.done += 1

    return count


@contextmanager
def during(name: str) -> Iterator[None]:
    """Within this context, show ``name`` as the current stage.  The earlier stage is shown again afterwards."""
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
def stages(*names: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that announces the beginning of a stage.

    Parameters
    ----------
    *names : str
        The stages in their order.  A stage with one of these names is announced with its number, as in "2 of 3: draws".
    """
    numbered = {name: f"{number} of {len(names)}: {name}" for number, name in enumerate(names, 1)}
    work_begins()
    console, stage = Console(stderr=True), _Stage()
    before = _stage.set(stage)
    listener = _listener.get()

    def begin(name: str) -> None:
        stage.begin(numbered.get(name, name))

    try:
        if listener is not None:
            begun = time.monotonic()

            def begin_and_report(name: str) -> None:
                begin(name)
                listener(f"{time.monotonic() - begun:.0f} s  {stage.name}")

            yield begin_and_report
        elif console.is_terminal:
            shown = Progress(SpinnerColumn(), _StageColumn(stage), console=console, transient=True)
            with shown:
                shown.add_task("")
                yield begin
        elif not _lines_wanted.get():
            yield begin
        else:

            def begin_with_line(name: str) -> None:
                begin(name)
                line()

            with _lines(lambda seconds: str(stage)) as line:
                yield begin_with_line
    finally:
        _stage.reset(before)


class _StageColumn(ProgressColumn):
    def __init__(self, stage: _Stage) -> None:
        super().__init__()
        self.stage = stage

    def render(self, task: Task) -> Text:
        return Text(str(self.stage))


@contextmanager
def bar(what: str, total: int, completed: int = 0) -> Iterator[Callable[[], None]]:
    """Show a progress bar, and yield a function that counts one item as done.

    Parameters
    ----------
    what : str
        Name of the items, such as "samples".
    total, completed : int
        Number of items in all, and number of items that are done at the start.
    """
    work_begins()
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
        stages_of_each = _lines_wanted.set(False)  # stages within an item would mix their lines with the bar's
        try:
            yield advance
        finally:
            _lines_wanted.reset(stages_of_each)
        if done > completed:
            line()


@contextmanager
def _lines(text: Callable[[float], str]) -> Iterator[Callable[[], float]]:
    """Yield a function that writes a line of progress.  A thread also writes such lines at intervals.

    ``text(seconds)`` returns the text of the line, ``seconds`` after the start.  The yielded function returns the
    seconds since the start.
    """
    begin, over = time.monotonic(), threading.Event()

    def line() -> float:
        seconds = time.monotonic() - begin
        with suppress(OSError, ValueError):  # stderr is closed or has no reader: the work goes on
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
