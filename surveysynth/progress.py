"""Progress on stderr: a spinner or a bar on a terminal, plain lines where the command line is piped, otherwise nothing.

No line holds a number of the confidential file: stages have fixed names, counts are of samples or synthesizers that
were asked for, and seconds are those of the clock.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

EVERY = 10.0  # seconds after which a stage is named again; after 100 s, a tenth of the time that has passed

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
def stages() -> Iterator[Callable[[str], None]]:
    """Yield a function that says which stage has begun."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("") as status:
            yield status.update
    elif not _lines_wanted.get():
        yield lambda stage: None
    else:
        current = ""

        def say(stage: str) -> None:
            nonlocal current
            current = stage
            line()

        with _lines(lambda seconds: current) as line:
            yield say


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
