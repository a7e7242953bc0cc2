"""The command ``surveysynth demo``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

import surveysynth as ss

from ..errors import InputError
from ..storage import is_free
from .options import Seed, by_commas, numbers
from .printing import about_what_is_written, console, print_filled, print_report, print_written

if TYPE_CHECKING:
    import pandas as pd


EPSILONS = 5.0, 1.0
BY = ["division", "education"]
CONFIDENTIAL = "confidential"  # name of the estimates from the sample


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("demo-release"),
    epsilon: Annotated[
        Sequence[float] | None, by_commas("Privacy budgets, one for each release, by commas; default 5,1.", numbers)
    ] = None,
    m: Annotated[int | None, typer.Option("-m", help="Number of synthetic data sets, even; default 20.")] = None,
    n: Annotated[int, typer.Option(help="Sample size.")] = 2000,
    seed: Seed = None,
) -> None:
    """Draw a sample of a real population (29,501 US workers), release private tables, and compare with the truth."""
    from ..datasets.census import TOP_CODE, census_sample, census_workers

    budgets = epsilon or EPSILONS
    if not is_free(out):
        raise InputError(f"{str(out)!r} exists; choose another --out")
    if len(set(budgets)) < len(budgets):
        raise InputError("--epsilon names a budget twice")
    population = census_workers()
    design = census_sample(n, seed)
    releases = {
        f"epsilon_{each:g}": ss.synthesize(
            design, "income ~ division + education", epsilon=each, m=m, population_total=len(population),
            bounds=(0, TOP_CODE), seed=seed,
        )
        for each in budgets
    }  # fmt: skip
    tables = {CONFIDENTIAL: ss.estimate(design, "income", BY, "mean")}
    tables |= {name: release.tables(BY, statistic="mean") for name, release in releases.items()}
    cells = _with_the_truth(population, tables)
    for name, release in releases.items():
        release.write(out / name, by=BY)
    cells.to_csv(out / "comparison.csv", index=False)
    margins = _margins(cells)
    first, *_ = releases.values()
    figure = _drawn(margins, [*tables], out, f"Census workers: sample of {design.n:,}, m = {first.m}")
    with about_what_is_written():
        _print_demo(margins, [*tables])
        print_report(first.privacy)
        if len(budgets) > 1:
            print_filled(f"All releases are of one sample: together they have epsilon = {sum(budgets):g}.")
        folders = ", ".join(str(out / name) for name in releases)
        print_written(f"{folders}, {out / 'comparison.csv'} (all cells), {figure}")


def _with_the_truth(population: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the population mean of each cell, next to the estimate, se and interval from each of ``tables``."""
    everyone = ss.SurveyDesign(population.assign(one=1.0), weights="one")
    truth = ss.estimate(everyone, "income", BY, "mean", estimator="onepass")
    cells = truth[[*BY, "estimate"]].rename(columns={"estimate": "population"})
    for name, table in tables.items():
        shown = table[[*BY, "estimate", "se", "ci_low", "ci_high"]]
        named = {"estimate": name} | {c: f"{name}_{c}" for c in ("se", "ci_low", "ci_high")}
        cells = cells.merge(shown.rename(columns=named), on=BY, how="left")
    return cells


def _margins(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the one-way margins and of the total, with an additional column ``label``."""
    from ..estimation.tables import TOTAL

    margins = cells[(cells[BY] == TOTAL).any(axis=1)].reset_index(drop=True)
    labels = [", ".join(v for v in row if v != TOTAL) or "all workers" for row in margins[BY].itertuples(index=False)]
    return margins.assign(label=labels)


def _drawn(margins: pd.DataFrame, kinds: list[str], out: Path, title: str) -> Path:
    from ..publication.figures import compare_estimates

    columns = ["estimate", "ci_low", "ci_high"]
    frames = {
        _words(kind): margins[[kind, f"{kind}_ci_low", f"{kind}_ci_high"]].set_axis(columns, axis=1) for kind in kinds
    }
    return compare_estimates(
        frames, margins["population"], margins["label"].tolist(), out / "comparison.png",
        axis="mean weekly income, dollars", title=title,
    )  # fmt: skip


def _words(name: str) -> str:
    return "sample" if name == CONFIDENTIAL else name.replace("_", " ")


def _print_demo(margins: pd.DataFrame, kinds: list[str]) -> None:
    table = Table(title="Mean weekly income (dollars)", box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for heading in ("truth", *(part for kind in kinds for part in (_words(kind), "se"))):
        table.add_column(heading, justify="right")
    columns = ["population", *(column for kind in kinds for column in (kind, f"{kind}_se"))]
    for row in margins.to_dict("records"):
        table.add_row(row["label"], *(f"{row[c]:,.0f}" for c in columns))
    console.print(table)
    print_filled(_intervals_that_hold(margins, kinds))


def _intervals_that_hold(margins: pd.DataFrame, kinds: list[str]) -> str:
    """Return a sentence: for each kind of table in ``kinds``, how many 95% intervals contain the population mean.

    Only domains for which all intervals are known are counted.
    """
    from ..studies.measures import covers

    every = margins.dropna(subset=[f"{kind}_ci_low" for kind in kinds])  # a small sample may have nobody in a domain
    counts = [
        f"{_words(kind)} {covers(every[f'{kind}_ci_low'], every[f'{kind}_ci_high'], every['population']).sum()}"
        for kind in kinds
    ]
    return f"Intervals that hold the population's mean, of {len(every)}: {', '.join(counts)}"
