"""The command ``surveysynth histogram``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

import surveysynth as ss

from ..errors import InputError
from .options import (
    Cap,
    Ends,
    File,
    LedgerFile,
    M,
    Out,
    Overwrite,
    Probs,
    Survey,
    SyntheticFormat,
    Weights,
    by_commas,
    ends,
    numbers,
    open_ledger,
)
from .printing import print_release, print_table


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
    probs: Probs = None,
    bins: Annotated[
        Sequence[float] | None,
        by_commas("Number of bins, or their public limits, by commas; default sqrt(n) bins.", numbers),
    ] = None,
    weight_bound: Annotated[
        float | None, typer.Option(help="Public largest survey weight; needed where weights are not all equal.")
    ] = None,
    m: M = 3,
    ledger: LedgerFile = None,
    survey: Survey = None,
    cap: Cap = None,
    format: SyntheticFormat = "csv",
    overwrite: Overwrite = False,
) -> None:
    """Synthetic values of one bounded outcome, drawn from a histogram with Laplace noise."""
    from ..release.folder import check_place

    check_place(out, overwrite=overwrite)
    design = ss.SurveyDesign.read(file, weights=weights, probs=probs)
    recorded = open_ledger(ledger, survey, cap)
    release = ss.perturbed_histogram(
        design, outcome, epsilon=epsilon, bounds=bounds, population_total=population_total, bins=_bins(bins),
        m=m, weight_bound=weight_bound, ledger=recorded,
    )  # fmt: skip
    release.write(out, format=format, overwrite=overwrite)
    print_table(release.tables(), [])
    print_release(release, out, recorded)


def _bins(given: Sequence[float] | None) -> int | Sequence[float] | None:
    """One whole number is how many; several numbers are limits."""
    if given is None or len(given) != 1:
        return given
    if given[0] % 1:
        raise InputError("--bins takes a whole number, or several limits by commas")
    return int(given[0])
