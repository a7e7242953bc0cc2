"""Run the commands of the studies, with messages and exit codes like those of ``surveysynth``."""

from __future__ import annotations

from collections.abc import Callable

import typer

from surveysynth.__main__ import main
from surveysynth.cli.once import Commands


def application(command: Callable[..., None]) -> typer.Typer:
    """An application that has a single command."""
    app = Commands(pretty_exceptions_enable=False, add_completion=False)
    app.command()(command)
    return app


def run(command: Callable[..., None]) -> None:
    """Run a command with the arguments of this process."""
    main(application(command))
