"""Functions for the commands of the studies.  Messages and exit codes are like those of ``surveysynth``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import typer

from surveysynth.__main__ import main
from surveysynth.cli.once import Commands
from surveysynth.cli.printing import console, print_stopped, print_study
from surveysynth.errors import InputError

T = TypeVar("T")


def application(command: Callable[..., None]) -> typer.Typer:
    """Make an application that has a single command."""
    app = Commands(pretty_exceptions_enable=False, add_completion=False)
    app.command()(command)
    return app


def run(command: Callable[..., None]) -> None:
    """Run a command with the arguments of this process."""
    main(application(command))


def check_options(data: Path | None, simulated: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise InputError for options of simulated files with ``--data``, or for options of one's own file without it."""
    options = own if data is None else simulated
    wrong = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if wrong:
        raise InputError(f"{', '.join(wrong)}: {'only' if data is None else 'not'} with --data")


def run_study(study: Callable[[], T], write: Callable[[T, Path], Any], out: Path) -> None:
    """Run a study, write its results and print its summary.  If the user stops it, print how to continue."""
    try:
        done = study()
    except KeyboardInterrupt:
        print_stopped(out)
        raise
    write(done, out)
    print_study(out)


def print_comparison(summary: str, out: Path) -> None:
    """Print the summary of a comparison, and its folder."""
    for text in (summary, f"Written: {out}"):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
