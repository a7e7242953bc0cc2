"""The command ``python -m replication.censoring``: mechanisms side by side (Hu, Williams & Savitsky 2025)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from surveysynth.cli.options import Ends, by_commas, ends, numbers, own, simulated
from surveysynth.errors import InputError
from surveysynth.storage import check_new

from ..running import check_options, print_comparison, run, run_study


def censoring_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    epsilon: Annotated[
        Sequence[float] | None,
        by_commas("Epsilons of one synthetic file, by commas; default 5,4,3. With --data, a single one.", numbers),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The histogram is never seeded.")] = None,
    replicates: Annotated[int | None, simulated("Number of files; default 100.", min=1)] = None,
    n: Annotated[int | None, simulated("Records of a file; default 2000.", min=1)] = None,
    c1: Annotated[
        Sequence[float] | None,
        simulated("Scales of the privacy weights, all of them at the middle epsilon; default 1,0.8.", numbers),
    ] = None,
    workers: Annotated[int | None, simulated("Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, simulated("Address of a Dask scheduler, to use its workers.")] = None,
    data: Annotated[Path | None, own("Compare the mechanisms on this file.")] = None,
    outcome: Annotated[str | None, own("Confidential column of numbers.")] = None,
    predictors: Annotated[str | None, own("Formula of public columns; default none.")] = None,
    bounds: Annotated[Ends | None, own("Public least and largest possible outcome, as low,high.", ends)] = None,
) -> None:
    """Compare Lipschitz bounds and utility of pseudo posterior, Weighted-e, censoring and perturbed histogram.

    Without --data: repeated files from Beta(0.5, 3).  With --data: one synthetic file of each mechanism
    for your own file, whose records have equal weights; the folder is then not for publication.
    """
    from surveysynth.design.read import read_frame

    from . import outputs as censoring_outputs
    from . import study as censoring

    simulated = {"replicates": replicates, "n": n, "c1": c1, "workers": workers, "scheduler": scheduler}
    own = {"outcome": outcome, "predictors": predictors, "bounds": bounds}
    check_options(data, simulated, own)
    if data is None:
        run_study(
            lambda: censoring.censoring_study(
                replicates=replicates or 100, n=n or 2000, epsilon=epsilon or (5, 4, 3), c1=c1 or (1, 0.8),
                workers=workers or os.cpu_count() or 1, scheduler=scheduler, out=out, seed=seed,
            ), censoring_outputs.write, out,
        )  # fmt: skip
        return
    given = {"outcome": outcome, "bounds": bounds, "epsilon": epsilon}
    if outcome is None or bounds is None or epsilon is None:
        missing = [f"--{name}" for name, value in given.items() if value is None]
        raise InputError(f"--data needs {', '.join(missing)}, too")
    if len(epsilon) != 1:
        raise InputError("with --data, --epsilon is one number")
    check_new(out)
    compared = censoring.compare_mechanisms(
        read_frame(data), outcome, predictors or "1", bounds=bounds, epsilon=epsilon[0], seed=seed
    )
    print_comparison(censoring_outputs.write_comparison(compared, out), out)


if __name__ == "__main__":
    run(censoring_command)
