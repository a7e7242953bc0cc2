"""The command ``surveysynth dossier``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import surveysynth as ss

from ..errors import InputError
from .confidential import Confidential, design_of, named_ledger
from .options import By, Psu, Strata, Weights
from .printing import print_written


def dossier_command(
    release: Annotated[Path, typer.Argument(help="Release folder, with its internal part.", show_default=False)],
    confidential: Confidential = None,
    out: Annotated[Path | None, typer.Option(help="Folder to make; default: next to the release.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Make the public version, for a website; only public files are opened.")
    ] = False,
    by: By = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger of the survey; default the plan's.")] = None,
    survey: Annotated[str | None, typer.Option(help="Name of the survey in the --ledger.")] = None,
    membership: Annotated[
        bool, typer.Option("--membership", help="With a plan: fit anew and attack the fit.  Slow; nothing is released.")
    ] = False,
    weights: Weights = None,
    strata: Strata = None,
    psu: Psu = None,
) -> None:
    r"""Make the dossier that a disclosure review board signs, as html and PDF.

    It is confidential, except with --public: only its owner can read the folder (mode 0700) and its files (0600).

    The PDF needs WeasyPrint: pip install 'surveysynth\[pdf]', or apt-get install weasyprint.
    """
    place = out or release.absolute().with_name(f"{release.absolute().name}-dossier{'-public' if public else ''}")
    if public:
        given = {"--confidential": confidential, "--by": by, "--ledger": ledger, "--membership": membership or None}
        if unused := [option for option, value in given.items() if value is not None]:
            raise InputError(f"--public opens public files alone: leave out {', '.join(unused)}")
        print_written(f"{ss.public_dossier(release, place)} (to publish)")
        return
    if confidential is None:
        raise InputError(
            "name the confidential file, or its plan: --confidential silc.csv, --confidential plan.toml; --public does "
            "without"
        )
    book = named_ledger(ledger, survey)
    design, plan = design_of(confidential, ss.read_release(release), weights, strata, psu)
    if membership and plan is None:
        raise InputError("--membership needs a plan as --confidential, which says how to fit anew")
    book = plan.ledger if book is None and plan is not None else book
    files = [confidential] if plan is None else [confidential, *plan.files]
    attack = ss.membership_attack(plan.fit()) if plan is not None and membership else None
    by = by or (plan.settings.tables.by if plan is not None else None)
    made = ss.dossier(release, design, place, ledger=book, by=by, attack=attack, files=files)
    print_written(f"{made} (to sign, and to keep)")
