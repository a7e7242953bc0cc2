"""The command ``surveysynth convert``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import surveysynth as ss

from .options import by_commas
from .printing import print_filled


def convert_command(
    file: Annotated[Path, typer.Argument(help="A csv, Stata, SPSS or SAS file.", show_default=False)],
    to: Annotated[Path, typer.Argument(help="The .parquet file to write, for its owner alone.", show_default=False)],
    missing_codes: Annotated[
        Sequence[str] | None, by_commas("Values that stand for a missing one, in every column: 98,refused.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of texts; default utf-8 for csv, else the encoding stated in the file.")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="Separator of the columns of a csv file.")] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark of a csv file: . or ,")] = None,
    thousands: Annotated[str | None, typer.Option(help="Mark between thousands of a csv file.")] = None,
    text: Annotated[Sequence[str] | None, by_commas("Columns of a csv file that are read as text.")] = None,
    na: Annotated[
        Sequence[str] | None, by_commas("All texts of a csv file that are missing values: NA,none.")
    ] = None,
) -> None:
    """Convert a large file to parquet, block by block, so that it need not fit into memory.

    SurveyDesign.scan reads the parquet file.
    """
    codes = None if missing_codes is None else list[float | str](missing_codes)
    ss.convert(
        file, to, missing_codes=codes, encoding=encoding, separator=separator, decimal=decimal, thousands=thousands,
        text=None if text is None else list(text), na=None if na is None else list(na),
    )  # fmt: skip
    print_filled(f"{to}: as confidential as {file}")
