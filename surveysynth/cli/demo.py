"""The command ``surveysynth demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

import surveysynth as ss

from ..errors import InputError
from ..storage import is_free
from .options import Seed
from .printing import about_what_is_written, console, print_report, print_written

if TYPE_CHECKING:
    import pandas as pd


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("demo-release"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the whole release.")] = 5.0,
    m: Annotated[int | None, typer.Option("-m", help="Number of synthetic data sets, even; default 20.")] = None,
    n: Annotated[int, typer.Option(help="Sample size.")] = 2000,
    seed: Seed = None,
) -> None:
    """Sample a real population (29,501 US workers), release private tables, compare with the truth."""
    from ..datasets.census import TOP_CODE, census_sample, census_workers
    from ..estimation.tables import TOTAL
    from ..publication.figures import compare_estimates

    if not is_free(out):
        raise InputError(f"{str(out)!r} exists; choose another --out")
    population = census_workers()
    design = census_sample(n, seed)
    by = ["division", "education"]
    release = ss.synthesize(
        design, "income ~ division + education", epsilon=epsilon, m=m, population_total=len(population),
        bounds=(0, TOP_CODE), seed=seed,
    )  # fmt: skip
    everyone = ss.SurveyDesign(population.assign(one=1.0), weights="one")
    truth = ss.estimate(everyone, "income", by, "mean", estimator="onepass")
    confidential = ss.estimate(design, "income", by, "mean")
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
        title=f"Census workers: sample of {design.n:,}, epsilon = {release.privacy.epsilon:g}, m = {release.m}",
    )  # fmt: skip
    with about_what_is_written():
        _print_demo(margins.assign(label=labels))
        print_report(release.privacy)
        print_written(f"{out / 'release'}, {out / 'comparison.csv'} (all cells), {figure}")


def _print_demo(margins: pd.DataFrame) -> None:
    table = Table(title="Mean weekly income (dollars)")
    table.add_column("")
    for heading in ("population", "confidential", "se", "released", "se"):
        table.add_column(heading, justify="right")
    columns = ["population", "confidential", "confidential_se", "released", "released_se"]
    for row in margins.to_dict("records"):
        table.add_row(row["label"], *(f"{row[c]:,.0f}" for c in columns))
    console.print(table)
    console.print(_intervals_that_hold(margins), highlight=False)


def _intervals_that_hold(margins: pd.DataFrame) -> str:
    """How many 95% intervals hold the population's mean, of the domains that have both of them."""
    from ..studies.measures import covers

    kinds = ("released", "confidential")
    both = margins.dropna(subset=[f"{kind}_ci_low" for kind in kinds])  # a small sample may have nobody in a domain
    released, confidential = (
        covers(both[f"{kind}_ci_low"], both[f"{kind}_ci_high"], both["population"]).sum() for kind in kinds
    )
    return f"{released} of {len(both)} intervals hold the population's mean (confidential: {confidential})"
