"""The commands ``surveysynth plan``, ``check``, ``release`` and ``compare``: one reviewable file from start to end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import surveysynth as ss

from ..choices import OutcomeKind
from ..errors import InputError
from .options import Bounds, Overwrite, Psu, Seed, Strata, Weights, by_commas
from .printing import console, print_release, print_table, print_written

if TYPE_CHECKING:
    import pandas as pd

PlanFile = Annotated[Path, typer.Argument(help="File by surveysynth plan.", show_default=False)]
Entries = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another value for an entry: --set privacy.epsilon=3.  Can be given several times."),
]


def plan_command(
    file: Annotated[
        Path | None, typer.Argument(help="csv, parquet, Stata, SPSS or SAS file", show_default=False)
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(help="Outcome and public predictors: 'income ~ region + sex'; C(tenure) for categories."),
    ] = None,
    kind: Annotated[OutcomeKind | None, typer.Option(help="What the outcomes are; default amount.")] = None,
    by: Annotated[Sequence[str] | None, by_commas("Variables of the tables, by commas.")] = None,
    weights: Weights = None,
    strata: Strata = None,
    psu: Psu = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of the whole release.")] = None,
    population_total: Annotated[float | None, typer.Option(help="Public number of population units.")] = None,
    bounds: Bounds = None,
    entries: Entries = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of plans, for editors, instead.")
    ] = False,
) -> None:
    """Draft a plan for a file: > plan.toml.  What only you can know stands there as FILL IN."""
    from ..synthesis.plan import Plan
    from ..synthesis.settings import schema as schema_of_plans

    if schema:
        print(schema_of_plans(), end="")
        return
    if file is None:
        raise InputError("name the confidential file: surveysynth plan silc.csv > plan.toml")
    plan = Plan.draft(
        file, formula=formula, kind=kind, by=by and list(by), weights=weights, strata=strata, psu=psu and list(psu),
        epsilon=epsilon, population_total=population_total, bounds=bounds and tuple(bounds),
        set=_entries(entries),
    )  # fmt: skip
    print(plan.to_toml(), end="")


def check_command(
    plan: PlanFile,
    inside: Annotated[
        bool, typer.Option("--inside", help="Look at the confidential values, too.  For the agency alone.")
    ] = False,
    entries: Entries = None,
) -> None:
    """What to expect of a plan: what is published as it is, standard errors, time, warnings.  No budget is spent."""
    said = ss.Plan.read(plan, _entries(entries)).check(inside=inside)
    console.print(str(said), markup=False, highlight=False, soft_wrap=True)


def release_command(
    plan: PlanFile,
    out: Annotated[Path | None, typer.Option(help="Another folder than the plan's.")] = None,
    entries: Entries = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
) -> None:
    """Make the release that a plan describes."""
    read = ss.Plan.read(plan, _entries(entries))
    read.check_place(out, overwrite=overwrite)  # what can be refused is refused before the fit
    release = read.release(seed=seed)
    place = read.write(release, out, overwrite=overwrite)
    tables, by = read.settings.tables, read.settings.tables.by or release.table_predictors()
    print_table(release.tables(by, **read.statistics, min_cell=tables.min_cell, cv_limit=tables.cv_limit), by)
    print_release(release, place, None)


def compare_command(
    plan: PlanFile,
    release: Annotated[Path, typer.Argument(help="Folder of the release.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="CSV file to write.")] = None,
) -> None:
    """A release beside the confidential file, for the agency alone."""
    if out is not None and out.exists():
        raise InputError(f"{str(out)!r} exists; choose another --out")
    table = ss.Plan.read(plan).compare(ss.read_release(release))
    for (statistic, outcome), part in table.groupby(["statistic", "outcome"], sort=False):
        console.print(_summary(f"{statistic} of {outcome}" if outcome else str(statistic), part), highlight=False)
    console.print("Internal: computed from the confidential file.", highlight=False)
    if out is not None:
        table.to_csv(out, index=False)
        print_written(str(out))


def _summary(what: str, part: pd.DataFrame) -> str:
    held, all_ = int(part["holds"].sum()), int(part["holds"].notna().sum())
    return (
        f"{what}: {held} of {all_} intervals ({held / max(all_, 1):.0%}) hold the file's own estimate; standard errors "
        f"are {part['se_ratio'].median():.2f} times the file's own (median of the cells)"
    )


def _entries(given: Sequence[str] | None) -> dict[str, Any]:
    """Entries and values of ``--set``."""
    from ..synthesis.settings import value_of

    pairs = [text.partition("=") for text in given or ()]
    wrong = [entry for entry, equals, _ in pairs if not equals or "." not in entry]
    if wrong:
        raise InputError(f"--set {wrong[0]}: write section.entry=value, as in --set privacy.epsilon=3")
    return {entry.strip(): value_of(text.strip()) for entry, _, text in pairs}
