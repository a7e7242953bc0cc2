"""The command ``python -m replication.clusters``: two-stage samples."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from surveysynth.choices import SecondStage
from surveysynth.cli.options import by_commas, numbers, whole_numbers

from ..choices import StudyPrior
from ..running import run, run_study


def clusters_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    icc: Annotated[
        Sequence[float] | None, by_commas("Intraclass correlations, by commas; default 0.02,0.05,0.15.", numbers)
    ] = None,
    replicates: Annotated[int, typer.Option(help="Number of samples at every icc.", min=1)] = 100,
    n: Annotated[int, typer.Option(help="Approximate sample size.", min=1)] = 2000,
    m: Annotated[
        Sequence[int] | None, by_commas("Numbers of synthetic data sets; default 1,3.", whole_numbers, "-m", "--m")
    ] = None,
    delta: Annotated[
        Sequence[float] | None, by_commas("Lipschitz bounds, epsilon = 2 delta m; default 1.8.", numbers)
    ] = None,
    second_stage: Annotated[
        SecondStage, typer.Option(help="Sampling within a PSU: pps, weights differ; srs, all weights are equal.")
    ] = "pps",
    predictors: Annotated[str, typer.Option(help="Formula of field, gender and take.")] = "field + gender",
    prior: Annotated[StudyPrior, typer.Option(help="flat: exact draws, fast; paper: by Markov chains.")] = "flat",
    workers: Annotated[int | None, typer.Option(help="Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to use its workers.")] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
) -> None:
    """Compare FBS with and without effects of PSUs, on two-stage samples whose PSUs are homogeneous."""
    from . import study as two_stages

    run_study(
        lambda: two_stages.cluster_study(
            icc or (0.02, 0.05, 0.15), replicates=replicates, n=n, m=m or (1, 3), delta=delta or (1.8,),
            second_stage=second_stage, predictors=predictors, prior=prior, workers=workers or os.cpu_count() or 1,
            scheduler=scheduler, out=out, seed=seed,
        ), two_stages.write, out,
    )  # fmt: skip


if __name__ == "__main__":
    run(clusters_command)
