"""The command ``surveysynth ledger``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import surveysynth as ss

from ..errors import InputError
from .printing import print_filled


def ledger_command(
    file: Annotated[Path, typer.Argument(help="Ledger file.", show_default=False)],
    survey: Annotated[str | None, typer.Option(help="Name of a survey; default: all surveys.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Begin the --survey, and the file if need be.")] = False,
    cap: Annotated[
        float | None, typer.Option(help="With --create: largest sum of epsilons (for blanking) of the survey.")
    ] = None,
    set_cap: Annotated[
        float | None, typer.Option(help="Another cap for the survey; the old one stays on record.")
    ] = None,
    what: Annotated[str | None, typer.Option(help="Why the cap is changed, or who decided it.")] = None,
    verify: Annotated[
        list[Path] | None, typer.Option(help="Release folder to check against the ledger; once for each.")
    ] = None,
) -> None:
    """Show the epsilons that the releases of a survey have spent, and what is left under the cap of the survey.

    The epsilon of a release is entered last, when all files of the release are on the disk in a hidden folder. If a run
    is interrupted after that, surveysynth resume publishes its release, and nothing is spent twice.  --verify finds a
    ledger that was cut short or edited by accident, and releases that were never entered; it does not find an intended
    forgery.
    """
    from ..privacy.accounting.ledger import surveys_of

    if (set_cap is None) != (what is None):
        raise InputError("--set-cap and --what go together: the cap, and why it is changed or who decided it")
    if cap is not None and not create:
        raise InputError("--cap: only with --create; --set-cap changes it")
    given = {"--create": create, "--set-cap": set_cap is not None, "--verify": bool(verify)}
    if survey is None and any(given.values()):
        raise InputError(f"{', '.join(option for option, there in given.items() if there)} needs --survey")
    if not (create or file.exists()):
        raise InputError(f"there is no ledger {str(file)!r}; --create makes one")
    if survey is not None:
        ledger = ss.Ledger(file, survey, cap, create=create)
        if set_cap is not None and what is not None:
            ledger.set_cap(set_cap, what=what)
        texts = _verified(ledger, verify) if verify else [str(ledger)]
    else:
        texts = [str(ss.Ledger(file, name)) for name in surveys_of(file)] or [f"{str(file)!r} has no entries."]
    for text in texts:
        print_filled(text)


def _verified(ledger: ss.Ledger, folders: list[Path]) -> list[str]:
    """Return lines of text that name, for each entry of the ledger, the matching release in ``folders``, if any.

    Raise PrivacyError if ledger and releases do not agree.
    """
    table = ledger.verify({str(folder): ss.read_release(folder) for folder in folders})
    lines = [f"The ledger is whole; releases that go with it: {len(folders)}"]
    for number, what, release in table[["number", "what", "release"]].itertuples(index=False):
        lines.append(f"  entry {number} ({what}): {release or 'none of these'}")
    return lines
