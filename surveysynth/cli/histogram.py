"""The command ``surveysynth histogram``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import surveysynth as ss

from ..errors import InputError
from .confidential import named_ledger
from .options import Ends, File, Out, Overwrite, Weights, by_commas, ends, numbers
from .printing import about_what_is_written, print_release, print_table


def histogram_command(
    file: File,
    outcome: Annotated[str, typer.Option(help="Numeric column to synthesize.", show_default=False)],
    epsilon: Annotated[
        float, typer.Option(help="Privacy budget of the whole release, strict, whatever m.", show_default=False)
    ],
    bounds: Annotated[
        Ends,
        by_commas("Public lowest and highest value, chosen blindly: 0,200000.", ends, show_default=False),
    ],
    population_total: Annotated[float, typer.Option(help="Public population total.", show_default=False)],
    out: Out,
    weights: Weights = None,
    bins: Annotated[
        Sequence[float] | None,
        by_commas("Number of bins, or their public limits, by commas; default sqrt(n) bins.", numbers),
    ] = None,
    weight_bound: Annotated[
        float | None, typer.Option(help="Public largest survey weight; needed if weights are not all equal.")
    ] = None,
    m: Annotated[int, typer.Option("-m", "--m", help="Number of synthetic data sets.")] = 3,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Privacy ledger, made by the command ledger --create. Epsilon is entered last, when all files are on "
            "the disk; if the run is interrupted after that, surveysynth resume publishes the release."
        ),
    ] = None,
    survey: Annotated[str | None, typer.Option(help="Name of the survey in the ledger; its epsilons add up.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Synthesize one bounded numeric outcome from its histogram with Laplace noise, and write the release."""
    from ..release.folder import check_place

    check_place(out, overwrite=overwrite)
    design = ss.SurveyDesign.read(file, weights=weights)
    recorded = named_ledger(ledger, survey)
    if recorded is not None:
        recorded.check(epsilon)
    release = ss.perturbed_histogram(
        design, outcome, epsilon=epsilon, bounds=bounds, population_total=population_total, bins=_bins(bins),
        m=m, weight_bound=weight_bound,
    )  # fmt: skip
    release.write(out, overwrite=overwrite, ledger=recorded)
    with about_what_is_written():
        print_table(release.tables(), [])
        print_release(release, out, recorded)


def _bins(given: Sequence[float] | None) -> int | Sequence[float] | None:
    """Return the number of bins if one number is given, else the given limits of the bins, or None."""
    if given is None or len(given) != 1:
        return given
    if given[0] % 1:
        raise InputError("--bins takes a whole number, or several limits by commas")
    return int(given[0])
