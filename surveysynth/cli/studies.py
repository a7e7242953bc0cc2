"""The command ``surveysynth study``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..choices import StudyPopulation
from ..errors import InputError
from .once import Commands
from .options import Ends, by_commas, ends, numbers, own, simulated, whole_numbers
from .printing import print_stopped, print_study

app = Commands(no_args_is_help=True, pretty_exceptions_enable=False, help="What private tables are worth.")


@app.callback()
def options() -> None:
    """Study private tables: whether intervals contain the truth, and what an intruder can infer about a record."""


@app.command("coverage")
def coverage_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    population: Annotated[
        StudyPopulation | None,
        simulated(
            "workers (default), households (R's laeken), either in PSUs (workers-psu), persons by household, visits "
            "(counts), shares, earnings, adults (half without pay), poverty (yes or no), activity (five categories)."
        ),
    ] = None,
    n: Annotated[Sequence[int] | None, by_commas("Sample sizes, by commas; default 2000.", whole_numbers)] = None,
    epsilon: Annotated[Sequence[float] | None, by_commas("Epsilons, by commas; default 5,10.8.", numbers)] = None,
    mechanisms: Annotated[
        Sequence[str] | None,
        by_commas(
            "Some of strict, strict-earlier (also uses last year's tables), pseudo, pseudo-debias, censored, laplace; "
            "default strict."
        ),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Number of samples for every case.", min=1)] = 200,
    workers: Annotated[int | None, typer.Option(help="Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to use its workers.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed, except for Laplace tables.")] = None,
    data: Annotated[Path | None, own("A file to be used as the population.")] = None,
    formula: Annotated[str | None, own("Formula of the models: 'income ~ region + sex'.")] = None,
    bounds: Annotated[Ends | None, own("Public least and largest outcome, as low,high.", ends)] = None,
    strata: Annotated[str | None, own("Column of strata, which is a predictor.")] = None,
    size: Annotated[str | None, own("Column to which inclusion probabilities are proportional.")] = None,
    psu: Annotated[str | None, own("Column of PSUs, for samples in two stages.")] = None,
) -> None:
    """Study whether 95% intervals contain the true values, on repeated samples of a real population.

    A case of the study is a combination of a sample size, a privacy mechanism and an epsilon. The same command with
    more cases adds them to the folder. With --data, your own confidential file is the population: then the folder is
    not for publication, as its results are computed from the file.
    """
    from ..design.read import read_frame
    from ..studies.coverage import outputs as coverage_outputs
    from ..studies.coverage import populations
    from ..studies.coverage.study import coverage_study

    given = {"formula": formula, "bounds": bounds, "strata": strata, "size": size}
    if data is None:
        strangers = [f"--{name}" for name, value in {**given, "psu": psu}.items() if value is not None]
        if strangers:
            raise InputError(f"{', '.join(strangers)}: only with --data")
        drawn_from = populations.population(population or "workers")
    else:
        if population is not None:
            raise InputError("--population: not with --data")
        if formula is None or bounds is None or strata is None or size is None:
            lacking = [f"--{name}" for name, value in given.items() if value is None]
            raise InputError(f"--data needs {', '.join(lacking)}, too")
        drawn_from = populations.own(read_frame(data), formula, bounds=bounds, strata=strata, size=size, psu=psu)
    cases: Any = list(mechanisms or ["strict"])
    try:
        cells = coverage_study(
            drawn_from, n=n or (2000,), epsilon=epsilon or (5.0, 10.8), mechanisms=cases, replicates=replicates,
            workers=workers or os.cpu_count() or 1, scheduler=scheduler, out=out, seed=seed,
        )  # fmt: skip
    except KeyboardInterrupt:
        print_stopped(out)
        raise
    coverage_outputs.write(cells, out)
    print_study(out)


@app.command("audit")
def audit_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    epsilon: Annotated[Sequence[float] | None, by_commas("Epsilons, by commas; default 1,3.", numbers)] = None,
    pairs: Annotated[int, typer.Option(help="Number of games with the planted record, and without it.", min=1)] = 2000,
    planted: Annotated[
        Sequence[str] | None, by_commas("Planted records: some of x10, x100, heavy, alone, two-modes; default all.")
    ] = None,
    n: Annotated[int | None, typer.Option(help="Number of records of the built-in file.", min=1)] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to use its workers.")] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    data: Annotated[Path | None, own("Plant the records in this file.")] = None,
    formula: Annotated[str | None, own("One outcome and public predictors: 'income ~ region'.")] = None,
    bounds: Annotated[Ends | None, own("Public least and largest outcome, as low,high.", ends)] = None,
    weights: Annotated[str | None, own("Column of survey weights.")] = None,
    population_total: Annotated[float | None, own("Public population total.")] = None,
) -> None:
    """Attack noisy tables: an intruder who knows all other records guesses whether an unusual record is in the file.

    Noisy tables are made many times from a file with a planted record, and as many times from the file in which this
    record is left out or replaced. Each time is called a game. The best attack is chosen on half of the games. On the
    other half, an empirical epsilon with a lower confidence limit is computed from the correct and false detections of
    this attack. It is compared with the stated epsilon. An attack that fails is no proof of protection. With --data,
    the records are planted in your own confidential file: then the folder is not for publication, as its results are
    computed from the file.
    """
    from ..design.read import read_frame
    from ..studies.audit import files
    from ..studies.audit import outputs as audit_outputs
    from ..studies.audit.study import EPSILON, PLANTED, audit

    given = {"formula": formula, "bounds": bounds, "weights": weights, "population-total": population_total}
    file = None
    if data is None:
        strangers = [f"--{name}" for name, value in given.items() if value is not None]
        if strangers:
            raise InputError(f"{', '.join(strangers)}: only with --data")
    elif formula is None or bounds is None or weights is None or population_total is None:
        lacking = [f"--{name}" for name, value in given.items() if value is None]
        raise InputError(f"--data needs {', '.join(lacking)}, too")
    else:
        file = files.own(read_frame(data), formula, weights=weights, bounds=bounds, population_total=population_total)
    cases: Any = list(planted or PLANTED)
    try:
        cells = audit(
            file, epsilon=epsilon or EPSILON, planted=cases, pairs=pairs, n=n, workers=workers or os.cpu_count() or 1,
            scheduler=scheduler, out=out, seed=seed,
        )  # fmt: skip
    except KeyboardInterrupt:
        print_stopped(out)
        raise
    audit_outputs.write(cells, out)
    print_study(out)
