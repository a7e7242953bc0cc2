"""The command ``python -m replication.tabular``: FBS, FBP and Laplace tables (Hu, Savitsky & Williams 2022a)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from surveysynth.choices import Clusters, LonelyPSU
from surveysynth.cli.options import by_commas, names, numbers, own, simulated, whole_numbers
from surveysynth.errors import InputError
from surveysynth.storage import check_new

from ..choices import StudyMethod, StudyPrior
from ..running import check_options, print_comparison, run, run_study


def tabular_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    m: Annotated[
        Sequence[int] | None,
        by_commas("Numbers of synthetic data sets; default 1,3,5, with --data 3.", whole_numbers, "-m", "--m"),
    ] = None,
    methods: Annotated[Sequence[str] | None, by_commas("Of fbs, fbp, laplace, by commas; default all.")] = None,
    prior: Annotated[StudyPrior, typer.Option(help="flat: exact draws, fast; paper: by Markov chains.")] = "flat",
    seed: Annotated[int | None, typer.Option(min=0, help="Laplace noise is never seeded.")] = None,
    replicates: Annotated[int | None, simulated("Number of samples; default 100.", min=1)] = None,
    delta: Annotated[
        Sequence[float] | None, simulated("Lipschitz bounds, epsilon = 2 delta m; default 1.8.", numbers)
    ] = None,
    n: Annotated[int | None, simulated("Sample size; default 1000.", min=1)] = None,
    population: Annotated[
        Literal["sdr", "t4", "skewed", "heteroskedastic", "two-stage"] | None,
        simulated("The population of the paper (sdr), or a variant that the models do not fit."),
    ] = None,
    bounds_n: Annotated[
        Sequence[int] | None, simulated("Further sample sizes, for their Lipschitz bounds.", whole_numbers)
    ] = None,
    workers: Annotated[int | None, simulated("Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, simulated("Address of a Dask scheduler, to use its workers.")] = None,
    data: Annotated[Path | None, own("Compare the methods on this file.")] = None,
    epsilon: Annotated[float | None, own("Privacy budget of each method.")] = None,
    outcome: Annotated[str | None, own("Confidential column.")] = None,
    predictors: Annotated[str | None, own("Formula of public columns.")] = None,
    by: Annotated[Sequence[str] | None, own("Variables of the tables, by commas.", names)] = None,
    weights: Annotated[str | None, own("Column of survey weights.")] = None,
    probs: Annotated[str | None, own("Column of inclusion probabilities, instead of weights.")] = None,
    strata: Annotated[str | None, own("Column of strata.")] = None,
    psu: Annotated[Sequence[str] | None, own("Columns of sampling units, outermost first, by commas.", names)] = None,
    fpc: Annotated[
        Sequence[str] | None, own("Columns of population sizes or sampling fractions, one a stage.", names)
    ] = None,
    lonely_psu: Annotated[LonelyPSU | None, own("What a stratum with one PSU does; default fail.")] = None,
    clusters: Annotated[
        Clusters | None, own("What PSUs, and strata that are not predictors, do; default model.")
    ] = None,
    population_total: Annotated[float | None, own("Public population total; default the sum of weights.")] = None,
) -> None:
    """Compare error, coverage and epsilon of tables by FBS, FBP and the Laplace mechanism.

    Without --data: repeated samples from a simulated population, whose true values are known.
    With --data: the methods at one epsilon on your own file, compared with its confidential estimates;
    the folder is then not for publication.
    """
    simulated = {
        "replicates": replicates, "delta": delta, "n": n, "population": population, "bounds_n": bounds_n,
        "workers": workers, "scheduler": scheduler,
    }  # fmt: skip
    own: dict[str, Any] = {
        "epsilon": epsilon, "outcome": outcome, "predictors": predictors, "by": by, "weights": weights,
        "probs": probs, "strata": strata, "psu": psu, "fpc": fpc, "lonely_psu": lonely_psu, "clusters": clusters,
        "population_total": population_total,
    }  # fmt: skip
    check_options(data, simulated, own)
    selected: Any = list(get_args(StudyMethod) if methods is None else methods)
    if data is None:
        _study(
            out, population or "sdr", replicates=replicates or 100, n=n or 1000, m=m or (1, 3, 5),
            delta=delta or (1.8,), methods=selected, prior=prior, bounds_n=bounds_n or (),
            workers=workers or os.cpu_count() or 1, scheduler=scheduler, seed=seed,
        )  # fmt: skip
        return
    missing = [f"--{name}" for name in ("outcome", "predictors", "by", "epsilon") if own[name] is None]
    if missing:
        raise InputError(f"--data needs {', '.join(missing)}, too")
    sizes = m or (3,)
    if len(sizes) != 1:
        raise InputError("with --data, -m is one number")
    roles = {
        "weights": weights, "probs": probs, "strata": strata, "psu": psu, "fpc": fpc,
        "lonely_psu": lonely_psu or "fail",
    }  # fmt: skip
    _comparison(
        out, data, roles, str(outcome), str(predictors), by or [], epsilon=own["epsilon"], m=sizes[0],
        methods=selected, prior=prior, seed=seed, clusters=clusters or "model", population_total=population_total,
    )  # fmt: skip


def _study(out: Path, population: Any, **settings: Any) -> None:
    from . import outputs
    from .study import repeated_sampling, sdr

    run_study(lambda: repeated_sampling(sdr(population), out=out, **settings), outputs.write, out)


def _comparison(out: Path, data: Path, roles: dict[str, Any], *model: Any, **settings: Any) -> None:
    from surveysynth.design.survey_design import SurveyDesign

    from . import own_file

    check_new(out)
    sample = own_file.compare_methods(SurveyDesign.read(data, **roles), *model, **settings)
    print_comparison(own_file.write(sample, out), out)


if __name__ == "__main__":
    run(tabular_command)
