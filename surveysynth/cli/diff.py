"""The command ``surveysynth diff``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import surveysynth as ss

from ..errors import InputError
from ..storage import whole_file
from .options import By, by_commas
from .printing import print_filled, print_written


def diff_command(
    old: Annotated[Path, typer.Argument(help="Release folder, or plan.", show_default=False)],
    new: Annotated[Path, typer.Argument(help="Later release folder, or plan.", show_default=False)],
    by: By = None,
    statistic: Annotated[Sequence[str] | None, by_commas("Statistics, as of surveysynth tables; by commas.")] = None,
    same_file: Annotated[
        bool | None,
        typer.Option(
            "--same-file/--other-file",
            help="Whether both are of one confidential file; default: whether the new release supersedes the old one.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file: tables side by side.")] = None,
    erratum: Annotated[
        Path | None, typer.Option(help="Markdown file: the note for a release that replaces one.")
    ] = None,
    why: Annotated[
        str | None, typer.Option(help="What was wrong, for the --erratum; without it, the note has a gap to fill in.")
    ] = None,
) -> None:
    """Compare two releases, from their public files only, or two plans."""
    if why is not None and erratum is None:
        raise InputError("--why is printed in the erratum, so give --erratum note.md, too")
    for file in (out, erratum):
        if file is not None and file.exists():
            raise InputError(f"{str(file)!r} exists; choose another name")
    found = ss.diff(old, new, by, statistic=statistic, same_file=same_file)
    if found.about is None and out is not None:
        raise InputError("--out is for tables of releases, and these are plans")
    note = found.erratum(why) if erratum is not None else ""
    print_filled(str(found))
    for file, text in ((out, found.cells.to_csv(index=False)), (erratum, note)):
        if file is not None:
            with whole_file(file, mode=0o666, replace=False) as stream:
                stream.write(text.encode())
            print_written(str(file))
