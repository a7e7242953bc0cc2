"""The command ``surveysynth tables``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

import surveysynth as ss

from ..errors import InputError
from ..release.quality_rule import QUALITY_RULE
from .options import By, by_commas, numbers
from .printing import print_table, print_written


def tables_command(
    release: Annotated[Path, typer.Argument(help="Release folder.", show_default=False)],
    by: By = None,
    statistic: Annotated[
        Sequence[str] | None, by_commas("count, mean, total, quantile, proportion; by commas.")
    ] = None,
    quantiles: Annotated[
        Sequence[float] | None, by_commas("Probabilities of quantiles, by commas; default 0.5.", numbers)
    ] = None,
    format: Annotated[
        Literal["csv", "xlsx", "html", "latex"] | None, typer.Option(help="Of the file; without one, it is printed.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; default tables.csv, tables.xlsx, ...")] = None,
    min_cell: Annotated[int | None, typer.Option(help=f"Suppress cells of fewer records. {QUALITY_RULE}")] = None,
    cv_limit: Annotated[
        float | None, typer.Option(help="Flag estimates with a larger coefficient of variation.")
    ] = None,
) -> None:
    """Tables from the public files of a release."""
    from ..publication.report import SUFFIX, write_table

    kinds = {suffix: name for name, suffix in SUFFIX.items()}
    if out is not None and kinds.get(out.suffix) != (format or kinds.get(out.suffix, "")):
        raise InputError(f"--out {out} should end in {SUFFIX[format] if format else ', '.join(kinds)}")
    loaded = ss.read_release(release)
    names, wanted = list(by or ()), quantiles or [0.5]
    table = loaded.tables(names, statistic=statistic, quantiles=wanted, min_cell=min_cell, cv_limit=cv_limit)
    if format is None and out is None:
        print_table(table, names)
        return
    path = out if out is not None else Path(f"tables{SUFFIX[str(format)]}")
    title = " by ".join(", ".join(part) for part in (loaded.outcomes, names) if part)
    p, method = loaded.privacy, loaded.method["method"]
    note = f"Synthetic data by {method}, m = {p.m}, {p.spent}; {p.publication}."
    write_table(table, path, kinds[path.suffix], title=title, note=note)
    print_written(str(path))
