"""The command ``surveysynth compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import surveysynth as ss

from ..errors import InputError
from ..storage import check_new
from .confidential import Confidential, design_of
from .options import By, Psu, Strata, Weights
from .printing import print_filled, print_written


def compare_command(
    release: Annotated[Path, typer.Argument(help="Release folder.", show_default=False)],
    confidential: Confidential = None,
    by: By = None,
    weights: Weights = None,
    strata: Strata = None,
    psu: Psu = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to make, with all cells, curves and figures; confidential.")
    ] = None,
) -> None:
    """Compare a release with the confidential file.  The result is confidential.

    If --confidential is a plan, the tables of the plan are compared, unless --by is given. If it is a file, the columns
    of weights, strata and sampling units that are not given are those of the release, if the file has columns of the
    same names.
    """
    if confidential is None:
        raise InputError("name the confidential file, or its plan: --confidential silc.csv, --confidential plan.toml")
    if out is not None:
        check_new(out)
    read = ss.read_release(release)
    design, plan = design_of(confidential, read, weights, strata, psu)
    found = plan.compare(read) if plan is not None and by is None else ss.compare(design, read, by)
    print_filled(str(found))
    if out is not None:
        print_written(f"{found.write(out)} (to keep)")
    else:
        print_filled("--out folder/ keeps every cell.")
