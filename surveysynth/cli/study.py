"""The command ``surveysynth study``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from ..choices import Allocation, Clusters, LonelyPSU, RiskSource, SecondStage, StudyMethod, StudyPopulation, StudyPrior
from ..errors import InputError
from ..storage import check_new
from .once import Commands
from .options import Ends, by_commas, ends, names, numbers, whole_numbers
from .printing import console

app = Commands(no_args_is_help=True, pretty_exceptions_enable=False, help="What private tables are worth.")


@app.callback()
def options() -> None:
    """What private tables are worth: repeated samples of a known population, or methods compared on your own file."""


def _simulated(text: str, parser: Callable[[str], Any] | None = None, **settings: Any) -> Any:
    settings |= {"rich_help_panel": "Simulated population"}
    return typer.Option(help=text, **settings) if parser is None else by_commas(text, parser, **settings)


def _own(text: str, parser: Callable[[str], Any] | None = None, **settings: Any) -> Any:
    settings |= {"rich_help_panel": "Your own file"}
    return typer.Option(help=text, **settings) if parser is None else by_commas(text, parser, **settings)


@app.command("tabular")
def tabular_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    m: Annotated[
        Sequence[int] | None,
        by_commas("Numbers of synthetic data sets; default 1,3,5, with --data 3.", whole_numbers, "-m", "--m"),
    ] = None,
    methods: Annotated[Sequence[str] | None, by_commas("Of fbs, fbp, laplace, by commas; default all.")] = None,
    prior: Annotated[StudyPrior, typer.Option(help="flat: exact draws, fast; paper: by Markov chains.")] = "flat",
    seed: Annotated[int | None, typer.Option(min=0, help="Laplace noise is never seeded.")] = None,
    replicates: Annotated[int | None, _simulated("Number of samples; default 100.", min=1)] = None,
    delta: Annotated[
        Sequence[float] | None, _simulated("Lipschitz bounds, epsilon = 2 delta m; default 1.8.", numbers)
    ] = None,
    n: Annotated[int | None, _simulated("Sample size; default 1000.", min=1)] = None,
    population: Annotated[
        Literal["sdr", "t4", "skewed", "heteroskedastic", "two-stage"] | None,
        _simulated("That of the paper (sdr), or a relative that the models do not fit."),
    ] = None,
    bounds_n: Annotated[
        Sequence[int] | None, _simulated("Further sample sizes, for their Lipschitz bounds.", whole_numbers)
    ] = None,
    workers: Annotated[int | None, _simulated("Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, _simulated("Address of a Dask scheduler, to use its workers.")] = None,
    data: Annotated[Path | None, _own("Compare the methods on this file.")] = None,
    epsilon: Annotated[float | None, _own("Privacy budget of each method.")] = None,
    outcome: Annotated[str | None, _own("Confidential column.")] = None,
    predictors: Annotated[str | None, _own("Formula of public columns.")] = None,
    by: Annotated[Sequence[str] | None, _own("Variables of the tables, by commas.", names)] = None,
    weights: Annotated[str | None, _own("Column of survey weights.")] = None,
    probs: Annotated[str | None, _own("Column of inclusion probabilities, instead of weights.")] = None,
    strata: Annotated[str | None, _own("Column of strata.")] = None,
    psu: Annotated[Sequence[str] | None, _own("Columns of sampling units, outermost first, by commas.", names)] = None,
    fpc: Annotated[
        Sequence[str] | None, _own("Columns of population sizes or sampling fractions, one a stage.", names)
    ] = None,
    lonely_psu: Annotated[LonelyPSU | None, _own("What a stratum with one PSU does; default fail.")] = None,
    clusters: Annotated[
        Clusters | None, _own("What PSUs, and strata that are not predictors, do; default model.")
    ] = None,
    population_total: Annotated[float | None, _own("Public population total; default the sum of weights.")] = None,
) -> None:
    """Tables by FBS, FBP and the Laplace mechanism: how far off, how well covered, at which epsilon.

    Without --data: repeated samples from a simulated population, whose true values are known.
    With --data: the methods at one epsilon on your own file, beside its confidential estimates;
    the folder is then not for publication.
    """
    from ..design.survey_design import SurveyDesign
    from ..studies.tabular import outputs, own_file
    from ..studies.tabular.study import repeated_sampling, sdr

    simulated = {
        "replicates": replicates, "delta": delta, "n": n, "population": population, "bounds-n": bounds_n,
        "workers": workers, "scheduler": scheduler,
    }  # fmt: skip
    own: dict[str, Any] = {
        "epsilon": epsilon, "outcome": outcome, "predictors": predictors, "by": by, "weights": weights,
        "probs": probs, "strata": strata, "psu": psu, "fpc": fpc, "lonely-psu": lonely_psu, "clusters": clusters,
        "population-total": population_total,
    }  # fmt: skip
    strangers = [f"--{name}" for name, value in (own if data is None else simulated).items() if value is not None]
    if strangers:
        why = "only with --data" if data is None else "not with --data"
        raise InputError(f"{', '.join(strangers)}: {why}")
    chosen: Any = list(get_args(StudyMethod) if methods is None else methods)
    if data is None:
        try:
            study = repeated_sampling(
                sdr(population or "sdr"), replicates=replicates or 100, n=n or 1000,
                m=m or (1, 3, 5), delta=delta or (1.8,), methods=chosen, prior=prior, bounds_n=bounds_n or (),
                workers=workers or os.cpu_count() or 1, scheduler=scheduler, out=out, seed=seed,
            )  # fmt: skip
        except KeyboardInterrupt:
            _go_on(out)
            raise
        outputs.write(study, out)
        _show(out)
    else:
        lacking = [f"--{name}" for name in ("outcome", "predictors", "by", "epsilon") if own[name] is None]
        if lacking:
            raise InputError(f"--data needs {', '.join(lacking)}, too")
        sizes = m or (3,)
        if len(sizes) != 1:
            raise InputError("with --data, -m is one number")
        check_new(out)
        survey = SurveyDesign.read(
            data, weights=weights, probs=probs, strata=strata, psu=psu, fpc=fpc,
            lonely_psu=lonely_psu or "fail",
        )  # fmt: skip
        sample = own_file.compare_methods(
            survey, str(outcome), str(predictors), by or [], epsilon=own["epsilon"], m=sizes[0], methods=chosen,
            prior=prior, seed=seed, clusters=clusters or "model", population_total=population_total,
        )  # fmt: skip
        console.print(own_file.write(sample, out), markup=False, highlight=False, soft_wrap=True)
        console.print(f"Written: {out}", markup=False, highlight=False, soft_wrap=True)


@app.command("clusters")
def clusters_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    icc: Annotated[
        Sequence[float] | None, by_commas("Intraclass correlations, by commas; default 0.02,0.05,0.15.", numbers)
    ] = None,
    replicates: Annotated[int, typer.Option(help="Number of samples at every icc.", min=1)] = 100,
    n: Annotated[int, typer.Option(help="Sample size, about.", min=1)] = 2000,
    m: Annotated[
        Sequence[int] | None, by_commas("Numbers of synthetic data sets; default 1,3.", whole_numbers, "-m", "--m")
    ] = None,
    delta: Annotated[
        Sequence[float] | None, by_commas("Lipschitz bounds, epsilon = 2 delta m; default 1.8.", numbers)
    ] = None,
    second_stage: Annotated[
        SecondStage, typer.Option(help="Within a PSU: pps, weights differ; srs, one weight a PSU.")
    ] = "pps",
    predictors: Annotated[str, typer.Option(help="Formula of field, gender and take.")] = "field + gender",
    prior: Annotated[StudyPrior, typer.Option(help="flat: exact draws, fast; paper: by Markov chains.")] = "flat",
    workers: Annotated[int | None, typer.Option(help="Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to use its workers.")] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
) -> None:
    """Two-stage samples whose PSUs are alike: what FBS makes of them with effects of PSUs, and without."""
    from ..studies import clusters as two_stages

    try:
        studies = two_stages.cluster_study(
            icc or (0.02, 0.05, 0.15), replicates=replicates, n=n, m=m or (1, 3), delta=delta or (1.8,),
            second_stage=second_stage, predictors=predictors, prior=prior, workers=workers or os.cpu_count() or 1,
            scheduler=scheduler, out=out, seed=seed,
        )  # fmt: skip
    except KeyboardInterrupt:
        _go_on(out)
        raise
    two_stages.write(studies, out)
    _show(out)


@app.command("coverage")
def coverage_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    population: Annotated[
        StudyPopulation | None,
        _simulated(
            "workers (default), households (R's laeken), either in PSUs (workers-psu), persons by household, visits "
            "(counts), shares, earnings, adults (half without pay), poverty (yes or no), activity (five categories)."
        ),
    ] = None,
    n: Annotated[Sequence[int] | None, by_commas("Sample sizes, by commas; default 2000.", whole_numbers)] = None,
    epsilon: Annotated[Sequence[float] | None, by_commas("By commas; default 5,10.8.", numbers)] = None,
    mechanisms: Annotated[
        Sequence[str] | None,
        by_commas(
            "Of strict, strict-earlier (beside last year's tables), pseudo, pseudo-debias, censored, laplace; default "
            "strict."
        ),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Samples of every cell.", min=1)] = 200,
    workers: Annotated[int | None, typer.Option(help="Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to use its workers.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Laplace tables are never seeded.")] = None,
    data: Annotated[Path | None, _own("A file to be taken for the population.")] = None,
    formula: Annotated[str | None, _own("Of the models: 'income ~ region + sex'.")] = None,
    bounds: Annotated[Ends | None, _own("Public least and largest outcome, as low,high.", ends)] = None,
    strata: Annotated[str | None, _own("Column of strata, which is a predictor.")] = None,
    size: Annotated[str | None, _own("Column that inclusion probabilities are proportional to.")] = None,
    psu: Annotated[str | None, _own("Column of PSUs, of which samples take some first.")] = None,
) -> None:
    """Whether 95% intervals hold the truth: mechanisms on repeated samples of a real population.

    A cell is a sample size, a mechanism and an epsilon.  The same command with more cells adds to the folder.
    With --data the truth is that of your own file, and the folder is not for publication.
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
    chosen: Any = list(mechanisms or ["strict"])
    try:
        cells = coverage_study(
            drawn_from, n=n or (2000,), epsilon=epsilon or (5.0, 10.8), mechanisms=chosen, replicates=replicates,
            workers=workers or os.cpu_count() or 1, scheduler=scheduler, out=out, seed=seed,
        )  # fmt: skip
    except KeyboardInterrupt:
        _go_on(out)
        raise
    coverage_outputs.write(cells, out)
    _show(out)


@app.command("audit")
def audit_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    epsilon: Annotated[Sequence[float] | None, by_commas("By commas; default 1,3.", numbers)] = None,
    pairs: Annotated[int, typer.Option(help="Games with the planted record, and without it.", min=1)] = 2000,
    planted: Annotated[Sequence[str] | None, by_commas("Of x10, x100, heavy, alone, two-modes; default all.")] = None,
    n: Annotated[int | None, typer.Option(help="Records of the package's own file.", min=1)] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to use its workers.")] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    data: Annotated[Path | None, _own("Plant the records in this file.")] = None,
    formula: Annotated[str | None, _own("One outcome and public predictors: 'income ~ region'.")] = None,
    bounds: Annotated[Ends | None, _own("Public least and largest outcome, as low,high.", ends)] = None,
    weights: Annotated[str | None, _own("Column of survey weights.")] = None,
    population_total: Annotated[float | None, _own("Public population total.")] = None,
) -> None:
    """What an intruder who knows everybody else can tell of the most exposed record: the empirical epsilon.

    Records are planted; with and without them noisy tables are made anew. A test is chosen on one half of the games
    and judged on the other, beside the stated epsilon. An attack that fails is no proof. With --data the folder is not
    for publication.
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
    chosen: Any = list(planted or PLANTED)
    try:
        cells = audit(
            file, epsilon=epsilon or EPSILON, planted=chosen, pairs=pairs, n=n, workers=workers or os.cpu_count() or 1,
            scheduler=scheduler, out=out, seed=seed,
        )  # fmt: skip
    except KeyboardInterrupt:
        _go_on(out)
        raise
    audit_outputs.write(cells, out)
    _show(out)


@app.command("censoring")
def censoring_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    epsilon: Annotated[
        Sequence[float] | None,
        by_commas("Of one synthetic file each, by commas; default 5,4,3. With --data, one.", numbers),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The histogram is never seeded.")] = None,
    replicates: Annotated[int | None, _simulated("Number of files; default 100.", min=1)] = None,
    n: Annotated[int | None, _simulated("Records of a file; default 2000.", min=1)] = None,
    c1: Annotated[
        Sequence[float] | None,
        _simulated("Scales of the privacy weights, all of them at the middle epsilon; default 1,0.8.", numbers),
    ] = None,
    workers: Annotated[int | None, _simulated("Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, _simulated("Address of a Dask scheduler, to use its workers.")] = None,
    data: Annotated[Path | None, _own("Compare the mechanisms on this file.")] = None,
    outcome: Annotated[str | None, _own("Confidential column of numbers.")] = None,
    predictors: Annotated[str | None, _own("Formula of public columns; default none.")] = None,
    bounds: Annotated[Ends | None, _own("Public least and largest possible outcome, as low,high.", ends)] = None,
) -> None:
    """Pseudo posterior, Weighted-e, censored mechanisms and perturbed histogram: what each bounds, what it costs.

    Without --data: repeated files from Beta(0.5, 3).  With --data: one synthetic file of each mechanism
    for your own file, whose records count the same; the folder is then not for publication.
    """
    from ..design.read import read_frame
    from ..studies.censoring import outputs as censoring_outputs
    from ..studies.censoring import study as censoring

    simulated = {"replicates": replicates, "n": n, "c1": c1, "workers": workers, "scheduler": scheduler}
    own = {"outcome": outcome, "predictors": predictors, "bounds": bounds}
    strangers = [f"--{name}" for name, value in (own if data is None else simulated).items() if value is not None]
    if strangers:
        raise InputError(f"{', '.join(strangers)}: {'only' if data is None else 'not'} with --data")
    if data is None:
        try:
            study = censoring.censoring_study(
                replicates=replicates or 100, n=n or 2000, epsilon=epsilon or (5, 4, 3),
                c1=c1 or (1, 0.8), workers=workers or os.cpu_count() or 1,
                scheduler=scheduler, out=out, seed=seed,
            )  # fmt: skip
        except KeyboardInterrupt:
            _go_on(out)
            raise
        censoring_outputs.write(study, out)
        _show(out)
        return
    given = {"outcome": outcome, "bounds": bounds, "epsilon": epsilon}
    if outcome is None or bounds is None or epsilon is None:
        lacking = [f"--{name}" for name, value in given.items() if value is None]
        raise InputError(f"--data needs {', '.join(lacking)}, too")
    if len(epsilon) != 1:
        raise InputError("with --data, --epsilon is one number")
    check_new(out)
    compared = censoring.compare_mechanisms(
        read_frame(data), outcome, predictors or "1", bounds=bounds, epsilon=epsilon[0], seed=seed
    )
    console.print(censoring_outputs.write_comparison(compared, out), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Written: {out}", markup=False, highlight=False, soft_wrap=True)


@app.command("reweighting")
def reweighting_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    replicates: Annotated[int | None, _simulated("Number of files; default 100.", min=1)] = None,
    n: Annotated[int | None, _simulated("Records of a file; default 1000.", min=1)] = None,
    epsilon: Annotated[
        Sequence[float] | None, _simulated("Of the curve, by commas; default 4,5,6,8,10,14,20.", numbers)
    ] = None,
    sizes: Annotated[
        Sequence[int] | None,
        _simulated("Records of larger files, for the share weighted down; default 500,2000,8000,32000.", whole_numbers),
    ] = None,
    curves: Annotated[
        int | None, _simulated("Replicates that have the curve and larger files, too; default 10.", min=1)
    ] = None,
    workers: Annotated[int | None, _simulated("Processes; default one a core.", min=1)] = None,
    scheduler: Annotated[str | None, _simulated("Address of a Dask scheduler, to use its workers.")] = None,
    data: Annotated[Path | None, _own("Compare privacy weights on this file.")] = None,
    outcome: Annotated[str | None, _own("Confidential column of counts, or of money in whole units.")] = None,
    predictors: Annotated[str | None, _own("Formula of public columns; default none.")] = None,
) -> None:
    """Privacy weights before and after re-weighting: the same epsilon, and what is gained.

    Without --data: repeated files of negative binomial and Poisson counts, and a curve of utility against epsilon.
    With --data: synthetic counts under every kind of weights for your own file, whose records count the same; the
    folder is then not for publication.
    """
    from ..design.read import read_frame
    from ..studies.reweighting import outputs as reweighting_outputs
    from ..studies.reweighting import study as reweighting

    simulated = {
        "replicates": replicates, "n": n, "epsilon": epsilon, "sizes": sizes, "curves": curves, "workers": workers,
        "scheduler": scheduler,
    }  # fmt: skip
    own = {"outcome": outcome, "predictors": predictors}
    strangers = [f"--{name}" for name, value in (own if data is None else simulated).items() if value is not None]
    if strangers:
        raise InputError(f"{', '.join(strangers)}: {'only' if data is None else 'not'} with --data")
    if data is None:
        try:
            study = reweighting.reweighting_study(
                replicates=replicates or 100, n=n or 1000,
                epsilon=epsilon or (4, 5, 6, 8, 10, 14, 20), sizes=sizes or (500, 2000, 8000, 32000),
                curves=curves or 10, workers=workers or os.cpu_count() or 1, scheduler=scheduler, out=out, seed=seed,
            )  # fmt: skip
        except KeyboardInterrupt:
            _go_on(out)
            raise
        reweighting_outputs.write(study, out)
        _show(out)
        return
    if outcome is None:
        raise InputError("--data needs --outcome, too")
    check_new(out)
    compared = reweighting.compare_weightings(read_frame(data), outcome, predictors or "1", seed=seed)
    console.print(reweighting_outputs.write_comparison(compared, out), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Written: {out}", markup=False, highlight=False, soft_wrap=True)


@app.command("risk-efficient")
def risk_efficient_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    radius: Annotated[float, typer.Option(help="Of the balls around values, as a share of them.", min=0)] = 0.2,
    radii: Annotated[
        Sequence[float] | None, by_commas("Others to look at, by commas; default 0.1,0.2,0.3.", numbers)
    ] = None,
    floor: Annotated[
        float | None, typer.Option(help="Least radius, for values near 0; default 0, of the simulated file 100.", min=0)
    ] = None,
    weights_from: Annotated[
        RiskSource,
        typer.Option(help="Risks behind the privacy weights: of synthetic files, or of the data as if released."),
    ] = "synthetic",
    allocation: Annotated[
        Allocation,
        typer.Option(
            help="Components of synthetic records: from their shares, or given the records "
            "(Hu, Savitsky & Williams 2022b, eq. 7)."
        ),
    ] = "prior",
    datasets: Annotated[int, typer.Option(help="Synthetic files of each fit.", min=1)] = 20,
    chains: Annotated[int, typer.Option(min=1)] = 2,
    warmup: Annotated[int, typer.Option(min=1)] = 500,
    draws: Annotated[int, typer.Option(help="Of each chain.", min=1)] = 500,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    n: Annotated[int | None, _simulated("Records of the file; default 5571.", min=1)] = None,
    data: Annotated[Path | None, _own("Compare privacy weights on this file.")] = None,
    value: Annotated[str | None, _own("Confidential column of numbers.")] = None,
    predictors: Annotated[str | None, _own("Formula of public columns; default none.")] = None,
    known: Annotated[
        Sequence[str] | None, _own("Columns that the intruder knows, by commas; default none.", names)
    ] = None,
    coefficient: Annotated[str | None, _own("Term of the regression on the predictors to look at.")] = None,
    scale: Annotated[
        float | None, _own("Public number for asinh(value / scale); without it values are logged, and positive.")
    ] = None,
    bounds: Annotated[
        Ends | None,
        _own("Public limits of values, by a comma; synthetic ones beyond are drawn again.", ends),
    ] = None,
    top_code: Annotated[float | None, _own("Public number, for comparison with top-coding.")] = None,
    weights: Annotated[str | None, _own("Column of survey weights.")] = None,
) -> None:
    """Identification risk and utility under marginal and pairwise privacy weights.

    Without --data: a file of consumer units that the package makes for itself.  With --data: your own file; the folder
    is then not for publication.
    """
    from ..design.read import read_frame
    from ..models.scales.transforms import as_transform
    from ..studies.risk_efficient import outputs as risk_efficient_outputs
    from ..studies.risk_efficient import study as risk_efficient
    from ..studies.risk_efficient.inputs import RiskEfficientPlan, as_design, synthesizer

    own = {
        "value": value, "predictors": predictors, "known": known, "coefficient": coefficient, "scale": scale,
        "bounds": bounds, "top_code": top_code, "weights": weights,
    }  # fmt: skip
    strangers = [f"--{name.replace('_', '-')}" for name, given in own.items() if given is not None]
    if data is None and strangers:
        raise InputError(f"{', '.join(strangers)}: only with --data")
    if data is not None and n is not None:
        raise InputError("--n: not with --data")
    looked_at: dict[str, Any] = {
        "radius": radius, "radii": radii or (0.1, 0.2, 0.3), "weights_from": weights_from, "datasets": datasets,
    }  # fmt: skip
    if floor is not None:
        looked_at["floor"] = floor
    sampling: dict[str, Any] = {"chains": chains, "warmup": warmup, "draws": draws, "seed": seed}
    if data is None:
        study = risk_efficient.consumer_units_study(n or 5571, allocation=allocation, **sampling, **looked_at)
    else:
        if value is None:
            raise InputError("--data needs --value, too")
        check_new(out)
        transform, frame = as_transform("log" if scale is None else "asinh", scale), read_frame(data)
        model = synthesizer(frame, value, predictors or "1", transform, bounds, allocation)
        plan = RiskEfficientPlan(known or [], coefficient, top_code, **looked_at)
        study = risk_efficient.risk_efficient_study(as_design(frame, weights), model, plan, **sampling)
    console.print(risk_efficient_outputs.write(study, out), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Written: {out}", markup=False, highlight=False, soft_wrap=True)


def _go_on(out: Path) -> None:
    console.print(f"Finished samples are in {out}; the same command goes on from there.", markup=False)


def _show(out: Path) -> None:
    """The summary of a study, and where the rest is."""
    console.print((out / "summary.txt").read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Written: {out}", markup=False, highlight=False, soft_wrap=True)
