"""Functions that print the output of commands: tables of estimates, privacy reports, and paths of files."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import surveysynth as ss

from ..publication.names import called, percentile

if TYPE_CHECKING:
    import pandas as pd

    from ..privacy.report import PrivacyReport


UNLIMITED = 100_000  # characters on a line of a file or pipe


class Stdout(Console):
    """A console that raises BrokenPipeError if the pipe is closed, as by ``| head``."""

    def on_broken_pipe(self) -> None:  # noqa: D102
        raise BrokenPipeError


console = Stdout()
NUMBERS = "estimate", "se", "95% interval", "records"  # headings


@contextmanager
def about_what_is_written() -> Iterator[None]:
    """Return a context manager for printing after all files are written, in which a failing stdout is not an error.

    A closed pipe is ignored.  Other failures give a warning.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
    except OSError as error:
        give_up_stdout()
        why = error.strerror or str(error)
        warnings.warn(f"everything was written, but what is printed about it could not be: {why}", stacklevel=2)


def give_up_stdout() -> None:
    """Discard everything that is printed from now on."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


def print_table(table: pd.DataFrame, by: list[str]) -> None:
    """Print a table of estimates in blocks: one block for each combination of an outcome and a statistic.

    The columns ``by`` name the domains.  Flags become numbered notes at the end.  Labels are wrapped at words, so that
    no row is wider than the terminal, except where the numbers alone are wider.
    """
    import pandas as pd

    from ..estimation.tables import TOTAL
    from ..publication.digits import blocks, shown

    labels = table.attrs.get("labels", {})
    flags = [f.split("; ") if f else [] for f in table["flag"]]
    notes = {text: str(i) for i, text in enumerate(dict.fromkeys(t for f in flags for t in f), 1)}
    table = table.assign(note=[", ".join(notes[t] for t in f) for f in flags])
    for _, part in blocks(shown(table)):
        rows = []
        for row in part.to_dict("records"):
            estimate, se, low, high = (row[c] for c in ("estimate", "se", "ci_low", "ci_high"))
            interval = f"{low} to {high}" if low else ""
            n = "" if pd.isna(row["n"]) else f"{row['n']:,}"
            numbers = [estimate or "...", se, interval, n, *([row["note"]] if notes else [])]
            rows.append([*([str(row[c]) for c in by] or [TOTAL]), *numbers])
        headings = [*(called(name, labels) for name in by or [""]), *NUMBERS, *(["note"] if notes else [])]
        _print_grid(_title(part.iloc[0], labels), headings, rows, labels=max(len(by), 1))
    for text, number in notes.items():
        print_filled(f"{number}: {text}")


def _print_grid(title: str, headings: list[str], rows: list[list[str]], *, labels: int) -> None:
    """Print a table, whose first ``labels`` columns hold labels.  No word of a label and no number is broken or cut."""
    grid = Table(title=escape(title), title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for i, heading in enumerate(headings):
        texts = [heading, *(row[i] for row in rows)]
        if i < labels:
            grid.add_column(escape(heading), min_width=max(len(word) for text in texts for word in [*text.split(), ""]))
        else:
            grid.add_column(heading, justify="right", no_wrap=True, min_width=max(map(len, texts)))
    for row in rows:
        grid.add_row(*map(escape, row))
    room = console.measure(grid, options=console.options.update(max_width=1000))
    grid.width = min(room.maximum, max(room.minimum, console.width))
    console.print(grid, crop=False)


def _title(row: pd.Series, labels: Mapping[str, str]) -> str:
    """Return the title of a block, such as "mean of income" or "25th percentile of income", from one of its rows."""
    outcome, statistic = row["outcome"], str(row["statistic"])
    if not outcome:
        return statistic
    named = percentile(row["prob"]) if statistic == "quantile" else statistic.replace("_", " ")
    after = f" = {row['category']}" if statistic == "proportion" else ""
    return f"{named} of {called(outcome, labels)}{after}"


def print_release(release: ss.Release, out: Path, ledger: ss.Ledger | None) -> None:
    """Print the privacy report of a release, the state of the ledger (if any), and the path of the release."""
    print_report(release.privacy)
    if ledger is not None:
        heading = str(ledger).splitlines()[0]
        console.print()
        print_filled(f"{heading} ({ledger.path})")
    purpose = "to publish" if release.privacy.publishable else "NOT to publish: made with a seed"
    print_written(f"{out / 'public'} ({purpose}), {out / 'internal'} (to keep)")


def print_report(report: PrivacyReport) -> None:
    """Print the privacy report after an empty line."""
    console.print()
    print_filled(str(report))


def print_filled(text: str) -> None:
    """Print text in lines no wider than the terminal (see :func:`filled`)."""
    console.print(filled(text, line_width(console)), markup=False, highlight=False, soft_wrap=True)


def line_width(stream: Console) -> int:
    """Return the width of the terminal in characters, to which messages are wrapped.

    In a file or pipe, where programs read the lines, the width is so large that lines are not wrapped.
    """
    return shutil.get_terminal_size((stream.width if stream.is_terminal else UNLIMITED, 25)).columns


def filled(text: str, width: int) -> str:
    """Wrap the lines of a text at words, to at most ``width`` characters.

    A wrapped list item ("- ...") continues below its first word.  Another indented line continues two characters
    further to the right.
    """
    lines = []
    for line in text.splitlines():
        start = re.match(r" *(?:- )?", line)
        indent = " " * (0 if start is None or not start[0] else start.end() if "-" in start[0] else start.end() + 2)
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]  # fmt: skip
    return "\n".join(lines)


def print_written(what: str) -> None:
    """Print the paths of the files that were written."""
    console.print()
    print_filled(f"Written: {what}")


def print_stopped(out: Path) -> None:
    """Print how to continue a study that was stopped, and whose folder is ``out``."""
    print_filled(f"Finished samples are in {out}; the same command goes on from there.")


def print_study(out: Path) -> None:
    """Print the summary of a study, and the path ``out`` of its folder."""
    print_filled((out / "summary.txt").read_text(encoding="utf-8"))
    print_filled(f"Written: {out}")
