"""The command ``surveysynth tables``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import surveysynth as ss

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
    out: Annotated[
        Path | None, typer.Option(help="File to write: .csv, .xlsx, .html, .tex, .md or .docx; without one, printed.")
    ] = None,
    min_cell: Annotated[int | None, typer.Option(help=f"Suppress cells of fewer records. {QUALITY_RULE}")] = None,
    cv_limit: Annotated[
        float | None, typer.Option(help="Flag estimates with a larger coefficient of variation.")
    ] = None,
    symbols: Annotated[Literal["uk", "statcan"] | None, typer.Option(help="Marks of quality; default uk.")] = None,
    wording: Annotated[
        Path | None, typer.Option(help="Words of headings and footnotes: a translated copy of wording.toml.")
    ] = None,
) -> None:
    """Tables from the public files of a release."""
    names = list(by or ())
    asked: dict[str, Any] = {
        "statistic": statistic,
        "quantiles": quantiles or [0.5],
        "min_cell": min_cell,
        "cv_limit": cv_limit,
    }
    loaded = ss.read_release(release)
    if out is None:
        print_table(loaded.tables(names, **asked), names)
        return
    print_written(str(loaded.write_tables(out, names, symbols=symbols, wording=wording, **asked)))
