"""Options for confidential input: the confidential file (or a plan that reads the file), and the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import surveysynth as ss

from ..errors import InputError

Confidential = Annotated[
    Path | None,
    typer.Option(help="The confidential file, or the plan that reads it.", show_default=False),
]
ROLES = "weights", "strata", "psu", "fpc", "lonely_psu"


def design_of(
    file: Path, release: ss.Release, weights: str | None, strata: str | None, psu: Sequence[str] | None
) -> tuple[ss.SurveyDesign, ss.Plan | None]:
    """Read the confidential file as a survey design.  ``file`` is the confidential file, or a plan that reads it.

    Return the design, and the plan or None.  If ``file`` is no plan, weights, strata or sampling units that are not
    given are taken from the release, if the file has columns of the same names.  Raise InputError if one of them is
    given with a plan, which sets the design itself, or if the column of weights is unknown.
    """
    given = {"weights": weights, "strata": strata, "psu": list(psu) if psu else None}
    if file.suffix == ".toml":
        stray = [f"--{name}" for name, value in given.items() if value]
        if stray:
            raise InputError(f"{', '.join(stray)}: not with a plan, which sets the design")
        plan = ss.Plan.read(file)
        return plan.design, plan
    from ..design.read import read_frame

    columns = {str(name) for name in read_frame(file).columns}
    theirs = {name: release.datasets[0].roles().get(name) for name in ROLES}
    known = {name: value for name, value in theirs.items() if value and (name == "lonely_psu" or _in(value, columns))}
    roles = known | {name: value for name, value in given.items() if value}
    if "weights" not in roles:
        raise InputError(f"give the column of {str(file)!r} with the survey weights: --weights, or name its plan.toml")
    return ss.SurveyDesign.read(file, **roles), None


def _in(names: str | list[str], columns: set[str]) -> bool:
    return {names} <= columns if isinstance(names, str) else set(names) <= columns


def named_ledger(file: Path | None, survey: str | None) -> ss.Ledger | None:
    """Return the ledger in ``file`` of the survey named ``survey``, or None if both arguments are None.

    Raise InputError if only one argument is given, because a file can hold the ledgers of several surveys.
    """
    if (file is None) != (survey is None):
        raise InputError("--ledger and --survey go together: the file, and the survey's name in it")
    return None if file is None or survey is None else ss.Ledger(file, survey)
