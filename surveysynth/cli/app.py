"""The command ``surveysynth``.

Exit codes: 0 done; 1 an error of surveysynth itself; 2 bad input; 3 the fit is not suitable for release; 130 stopped by
Ctrl-C; 141 the pipe that reads the output was closed.
"""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.markup import escape

from .._version import __version__
from ..errors import AT_FAULT, NotFitForRelease, SurveySynthError
from ..plan.words_of_plans import in_words_of_plans
from ..progress import plain_lines
from .compare import compare_command
from .convert import convert_command
from .demo import demo_command
from .diff import diff_command
from .doctor import doctor_command
from .dossier import dossier_command
from .histogram import histogram_command
from .ledger import ledger_command
from .once import Commands
from .page import page_command
from .plan import check_command, plan_command, release_command, resume_command
from .policy import policy_command
from .printing import console, filled, give_up_stdout, line_width
from .privacy_cost import privacy_cost_command
from .risk import risk_command
from .studies import app as study_app
from .synthesize import synthesize_command
from .tables import tables_command

app = Commands(
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a rich traceback would print confidential data
    add_completion=False,
)
app.command("plan")(plan_command)
app.command("app")(page_command)
app.command("check")(check_command)
app.command("release")(release_command)
app.command("resume")(resume_command)
app.command("compare")(compare_command)
app.command("dossier")(dossier_command)
app.command("diff")(diff_command)
app.add_typer(study_app, name="study")
app.command("risk")(risk_command)
app.command("synthesize")(synthesize_command)
app.command("policy")(policy_command)
app.command("histogram")(histogram_command)
app.command("ledger")(ledger_command)
app.command("privacy-cost")(privacy_cost_command)
app.command("convert")(convert_command)
app.command("tables")(tables_command)
app.command("demo")(demo_command)
app.command("doctor")(doctor_command)
errors = Console(stderr=True)
PLAN_COMMANDS = "plan", "check", "release", "compare", "dossier", "synthesize", "policy", "privacy-cost"


def main(commands: Callable[[], object] = app) -> None:
    """Run ``commands``, by default the command line.  Print errors and warnings on stderr, and set the exit code."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # labels in other alphabets than the terminal's
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            with plain_lines():
                commands()
                sys.stdout.flush()
    except NotFitForRelease as error:
        _say("Not fit for release", str(error))
        sys.exit(3)
    except BrokenPipeError:  # the pipe was closed by a command such as | head
        give_up_stdout()
        sys.exit(141)
    except (SurveySynthError, OSError) as error:
        _say("Error", re.sub(r"^\[Errno -?\d+\] ", "", str(error)))
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == 130:  # Ctrl-C
            _say("Stopped", "what was finished is kept, and nothing is left half-written.")
        raise
    except MemoryError:
        raise  # __main__ reports it with as little memory as possible
    except Exception as error:
        ours = [f for f in traceback.extract_tb(error.__traceback__) if f"{Path(__file__).parents[1]}" in f.filename]
        where = f"{type(error).__name__} in {Path(ours[-1].filename).name}, line {ours[-1].lineno}"
        _say("Error", AT_FAULT.format(where))
        sys.exit(1)


ENTRY = re.compile(r"\[(?:survey|model|privacy|columns|tables)\b")  # a section of a plan


def _say(heading: str, text: str) -> None:
    if sys.argv[1:2] and sys.argv[1] in PLAN_COMMANDS:
        text = in_words_of_plans(text)
    if heading == "Error" and sys.argv[1:2] == ["plan"] and ENTRY.search(text):
        text += " (while there is no plan file, an entry is given by --set section.entry=value)"
    said = filled(f"{heading}: {text}", line_width(errors)).removeprefix(heading)
    errors.print(f"[bold red]{heading}[/]{escape(said)}", highlight=False, soft_wrap=True)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of this package, and ignore the warnings of libraries."""
    if category is UserWarning:
        _say("Warning", str(message))


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"surveysynth {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Publishable tables and microdata from confidential complex-survey files."""
