"""The command ``python -m replication.reweighting``: re-weighting (Hu, Savitsky & Williams 2020)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from surveysynth.cli.options import numbers, own, simulated, whole_numbers
from surveysynth.errors import InputError
from surveysynth.storage import check_new

from ..running import check_options, print_comparison, run, run_study


def reweighting_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    replicates: Annotated[int | None, simulated("Number of files; default 100.", min=1)] = None,
    n: Annotated[int | None, simulated("Records of a file; default 1000.", min=1)] = None,
    epsilon: Annotated[
        Sequence[float] | None, simulated("Epsilons of the curve, by commas; default 4,5,6,8,10,14,20.", numbers)
    ] = None,
    sizes: Annotated[
        Sequence[int] | None,
        simulated("Records of larger files, for shares of weights < 1; default 500,2000,8000,32000.", whole_numbers),
    ] = None,
    curves: Annotated[
        int | None, simulated("Replicates that have the curve and larger files, too; default 10.", min=1)
    ] = None,
    workers: Annotated[int | None, simulated("Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, simulated("Address of a Dask scheduler, to use its workers.")] = None,
    data: Annotated[Path | None, own("Compare privacy weights on this file.")] = None,
    outcome: Annotated[str | None, own("Confidential column of counts, or of money in whole units.")] = None,
    predictors: Annotated[str | None, own("Formula of public columns; default none.")] = None,
) -> None:
    """Compare privacy weights before and after re-weighting: the gain in utility at the same epsilon.

    Without --data: repeated files of negative binomial and Poisson counts, and a curve of utility against epsilon.
    With --data: synthetic counts under every kind of privacy weights for your own file, whose records have equal survey
    weights; the folder is then not for publication.
    """
    from surveysynth.design.read import read_frame

    from . import outputs as reweighting_outputs
    from . import study as reweighting

    simulated = {
        "replicates": replicates, "n": n, "epsilon": epsilon, "sizes": sizes, "curves": curves, "workers": workers,
        "scheduler": scheduler,
    }  # fmt: skip
    own = {"outcome": outcome, "predictors": predictors}
    check_options(data, simulated, own)
    if data is None:
        run_study(
            lambda: reweighting.reweighting_study(
                replicates=replicates or 100, n=n or 1000,
                epsilon=epsilon or (4, 5, 6, 8, 10, 14, 20), sizes=sizes or (500, 2000, 8000, 32000),
                curves=curves or 10, workers=workers or os.cpu_count() or 1, scheduler=scheduler, out=out, seed=seed,
            ), reweighting_outputs.write, out,
        )  # fmt: skip
        return
    if outcome is None:
        raise InputError("--data needs --outcome, too")
    check_new(out)
    compared = reweighting.compare_weightings(read_frame(data), outcome, predictors or "1", seed=seed)
    print_comparison(reweighting_outputs.write_comparison(compared, out), out)


if __name__ == "__main__":
    run(reweighting_command)
