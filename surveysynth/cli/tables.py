"""The command ``surveysynth tables``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import surveysynth as ss

from ..choices import STATISTICS
from ..errors import InputError
from ..publication.formats import FORMATS, wide_endings
from .options import By, by_commas, numbers
from .printing import print_table, print_written

Where = Annotated[
    str | None, typer.Option(help="Condition that selects the records of tables: 'age >= 16'.", show_default=False)
]
PovertyLine = Annotated[
    float | None, typer.Option(help="For poverty rates; default 60% of the median of all.", show_default=False)
]
TablesFile = Annotated[
    Path | None,
    typer.Option(help=f"File: {', '.join(FORMATS)}; .svg, .png for figures. Without it, tables are printed."),
]
MinCell = Annotated[
    int | None,
    typer.Option(
        help="Suppress cells of fewer records. This is a quality rule, not protection: whoever has the synthetic files "
        "can compute these cells."
    ),
]
Words = Annotated[
    Path | None, typer.Option(help="Words of headings and footnotes: a translated copy of wording.toml.")
]


def tables_command(
    release: Annotated[Path, typer.Argument(help="Release folder.", show_default=False)],
    by: By = None,
    statistic: Annotated[Sequence[str] | None, by_commas(f"{', '.join(STATISTICS)}; by commas.")] = None,
    quantiles: Annotated[
        Sequence[float] | None, by_commas("Probabilities of quantiles, by commas; default 0.5.", numbers)
    ] = None,
    where: Where = None,
    poverty_line: PovertyLine = None,
    out: TablesFile = None,
    min_cell: MinCell = None,
    cv_limit: Annotated[
        float | None, typer.Option(help="Flag estimates with a larger coefficient of variation.")
    ] = None,
    symbols: Annotated[Literal["uk", "statcan"] | None, typer.Option(help="Marks of quality; default uk.")] = None,
    wording: Words = None,
    wide: Annotated[
        bool, typer.Option("--wide", help=f"Put the last variable across, with intervals: {wide_endings()}.")
    ] = False,
    width: Annotated[float | None, typer.Option(help="Width of a figure in cm; default 16, 8.5 for a column.")] = None,
) -> None:
    """Make tables or figures from the public files of a release."""
    from ..publication.figures.domains import SUFFIXES as FIGURES

    names = list(by or ())
    asked: dict[str, Any] = {"statistic": statistic, "quantiles": quantiles}
    asked |= {"min_cell": min_cell, "cv_limit": cv_limit, "poverty_line": poverty_line}
    if width is not None and (out is None or out.suffix not in FIGURES):
        raise InputError("--width is of figures: --out x.svg or x.png")
    if wide and (out is None or out.suffix in FIGURES):
        raise InputError(f"--wide is for printed tables: --out {wide_endings('x')}")
    loaded = ss.read_release(release)
    if where is not None:
        loaded = _with_condition(loaded, where)
        asked["where"] = where
    if out is None:
        print_table(loaded.tables(names, **asked), names)
        return
    if out.suffix in FIGURES:
        asked |= {} if width is None else {"width": width}
        if len(statistic or ()) > 1:
            raise InputError("a figure shows one statistic: give one of them as --statistic")
        asked["statistic"] = next(iter(statistic or ()), None)
    if wide:
        asked["wide"] = True
    write = loaded.plot if out.suffix in FIGURES else loaded.write_tables
    print_written(str(write(out, names, symbols=symbols, wording=wording, **asked)))


def _with_condition(release: ss.Release, where: str) -> ss.Release:
    """Add a column to a release, which tells whether each record fulfils the condition ``where``.

    The name of the column is the condition, so that titles of tables show the condition.
    """
    from ..design.conditions import obeyed
    from ..synthesis.edits import check_rules

    columns = [*release.datasets[0].frame]
    if where in columns:
        return release
    check_rules(where, columns, "--where")
    obeyed([where], release.datasets[0].frame, "--where")  # refuses what is no condition
    return release.assign(**{where: lambda frame: obeyed([where], frame, "--where")})
