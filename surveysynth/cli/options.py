"""Options that several commands share, and parsers of values that are separated by commas."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer


def names(text: str) -> list[str]:
    """Split a text into names at its commas.  A name that contains a comma must be in quotes."""
    parts = next(csv.reader([text], skipinitialspace=True), [])
    return [part.strip() for part in parts if part.strip()]


def numbers(text: str) -> list[float]:
    """Split a text into numbers at its commas."""
    try:
        found = [float(part) for part in names(text)]
    except ValueError:
        found = []
    if not found:
        raise typer.BadParameter("numbers were expected, by commas")
    return found


def whole_numbers(text: str) -> list[int]:
    """Split a text into whole numbers at its commas."""
    found = numbers(text)
    if any(number % 1 for number in found):
        raise typer.BadParameter("whole numbers were expected, by commas")
    return [int(number) for number in found]


class Ends(NamedTuple):
    """The limits of an interval: its lowest and its highest value."""

    low: float
    high: float


def ends(text: str) -> Ends:
    """Split a text such as "0,200000" at its comma into the limits of an interval."""
    found = numbers(text)
    if len(found) != 2:
        raise typer.BadParameter("two numbers were expected, lowest and highest, by a comma")
    if any(re.fullmatch(r"-?[1-9]\d{0,2}(\.\d{3})+", part) for part in names(text)):
        raise typer.BadParameter("write thousands without a point, as 20000, and decimals otherwise than as 20.000")
    return Ends(*found)


METAVARS: dict[Callable[[str], Any], str] = {
    names: "<str,...>", numbers: "<float,...>", whole_numbers: "<int,...>", ends: "<float,float>"
}  # fmt: skip


def by_commas(help: str, parser: Callable[[str], Any] = names, *declared: str, **settings: Any) -> Any:
    """Declare an option whose values are separated by commas.

    ``parser`` turns the text of the option into its values.  ``declared`` are the names of the option, by default made
    from the name of the argument.  ``settings`` are settings of ``typer.Option``.
    """
    return typer.Option(*declared, parser=parser, metavar=METAVARS[parser], help=help, **settings)


def simulated(text: str, parser: Callable[[str], Any] | None = None, **settings: Any) -> Any:
    """Declare an option that the help of ``surveysynth study`` lists under "Simulated population"."""
    return _in_panel("Simulated population", text, parser, settings)


def own(text: str, parser: Callable[[str], Any] | None = None, **settings: Any) -> Any:
    """Declare an option that the help of ``surveysynth study`` lists under "Your own file"."""
    return _in_panel("Your own file", text, parser, settings)


def _in_panel(panel: str, text: str, parser: Callable[[str], Any] | None, settings: dict[str, Any]) -> Any:
    settings = settings | {"rich_help_panel": panel}
    return typer.Option(help=text, **settings) if parser is None else by_commas(text, parser, **settings)


File = Annotated[Path, typer.Argument(help="csv, parquet, Stata, SPSS or SAS file", show_default=False)]
Seed = Annotated[int | None, typer.Option(min=0, help="For tests only; the release is marked not for publication.")]
Weights = Annotated[str | None, typer.Option(help="Column of survey weights.")]
Strata = Annotated[str | None, typer.Option(help="Column of strata.")]
Psu = Annotated[Sequence[str] | None, by_commas("Columns of sampling units, outermost first, by commas.")]
Out = Annotated[Path, typer.Option(help="Release folder to make.", show_default=False)]
Bounds = Annotated[
    Ends | None,
    by_commas("Public lowest and highest outcome: 0,200000.", ends),
]
Overwrite = Annotated[bool, typer.Option(help="Replace a release that is there.")]
Formula = Annotated[
    str | None,
    typer.Option(help="Outcome and public predictors: 'income ~ region + sex'; C(tenure) for categories."),
]
By = Annotated[Sequence[str] | None, by_commas("Variables of the tables, by commas.")]
Epsilon = Annotated[float | None, typer.Option(help="Privacy budget of the whole release.")]
Total = Annotated[float | None, typer.Option(help="Public number of population units.")]
Entries = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another value for an entry of the plan: --set privacy.epsilon=3. Several times, too."),
]
