"""Print the output of commands: tables of estimates, privacy reports, and paths of files."""

from __future__ import annotations

import os
import sys
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import surveysynth as ss

if TYPE_CHECKING:
    import pandas as pd

    from ..privacy.report import PrivacyReport


class Stdout(Console):
    """A console that raises BrokenPipeError if the pipe is closed, as by ``| head``."""

    def on_broken_pipe(self) -> None:  # noqa: D102
        raise BrokenPipeError


console = Stdout()


@contextmanager
def about_what_is_written() -> Iterator[None]:
    """A context for printing after all files are written, in which a failing stdout only gives a warning."""
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
    """Print a table in blocks, one for each statistic of an outcome.  Flags become numbered notes at the end."""
    import pandas as pd

    from ..estimation.tables import TOTAL
    from ..publication.digits import blocks, shown

    labels = table.attrs.get("labels", {})
    flags = [f.split("; ") if f else [] for f in table["flag"]]
    notes = {text: str(i) for i, text in enumerate(dict.fromkeys(t for f in flags for t in f), 1)}
    table = table.assign(note=[", ".join(notes[t] for t in f) for f in flags])
    for _, part in blocks(shown(table)):
        first = part.iloc[0]
        title = _labelled(_title(first), labels.get(first["outcome"]))
        grid = Table(title=escape(title), title_justify="left", box=SIMPLE)
        for name in by or [""]:
            grid.add_column(escape(_labelled(name, labels.get(name))))
        for heading in ("estimate", "se", "95% interval", "records", "note"):
            grid.add_column(heading, justify="right", no_wrap=True)
        for row in part.to_dict("records"):
            estimate, se, low, high = (row[c] for c in ("estimate", "se", "ci_low", "ci_high"))
            interval = f"{low} to {high}" if low else ""
            n = "" if pd.isna(row["n"]) else f"{row['n']:,}"
            cell = [str(row[c]) for c in by] or [TOTAL]
            grid.add_row(*map(escape, cell), estimate or "...", se, interval, n, row["note"])
        grid.width = console.measure(grid, options=console.options.update(max_width=1000)).maximum
        console.print(grid, crop=False)  # in a narrow terminal lines wrap, so that labels and numbers are not cut off
    for text, number in notes.items():
        console.print(f"{number}: {text}", markup=False, highlight=False)


def _title(row: pd.Series) -> str:
    """Return the title of a block, as in "mean of income" or "0.25 quantile of income"."""
    if not row["outcome"]:
        return str(row["statistic"])
    before = f"{row['prob']:g} " if row["statistic"] == "quantile" else ""
    after = f" = {row['category']}" if row["statistic"] == "proportion" else ""
    return f"{before}{str(row['statistic']).replace('_', ' ')} of {row['outcome']}{after}"


def _labelled(name: str, label: str | None) -> str:
    return f"{name}: {label}" if label else name


def print_release(release: ss.Release, out: Path, ledger: ss.Ledger | None) -> None:
    """Print the privacy report of a release, the state of the ledger (if any), and the path of the release."""
    print_report(release.privacy)
    if ledger is not None:
        heading = str(ledger).splitlines()[0]
        console.print(f"\n{heading} ({ledger.path})", markup=False, highlight=False, soft_wrap=True)
    purpose = "to publish" if release.privacy.publishable else "NOT to publish: made with a seed"
    print_written(f"{out / 'public'} ({purpose}), {out / 'internal'} (to keep)")


def print_report(report: PrivacyReport) -> None:
    """Print the privacy report after an empty line."""
    console.print()
    print_filled(str(report))


def print_filled(text: str) -> None:
    """Print text in lines as wide as the terminal, with items of lists indented."""
    for line in text.splitlines():
        indent = "    " if line.startswith("  - ") else ""
        filled = textwrap.fill(line, console.width, subsequent_indent=indent, break_on_hyphens=False)
        console.print(filled, markup=False, highlight=False)


def print_written(what: str) -> None:
    """Print the paths of the files that were written."""
    console.print(f"\nWritten: {what}", markup=False, highlight=False, soft_wrap=True)


def print_stopped(out: Path) -> None:
    """Print how to continue a study that was stopped."""
    console.print(f"Finished samples are in {out}; the same command goes on from there.", markup=False)


def print_study(out: Path) -> None:
    """Print the summary of a study, and the path of its folder."""
    console.print((out / "summary.txt").read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Written: {out}", markup=False, highlight=False, soft_wrap=True)
