"""The commands ``surveysynth plan``, ``check``, ``release`` and ``resume``, which work from one plan file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

import surveysynth as ss

from ..choices import OutcomeKind
from ..errors import InputError
from .confidential import named_ledger
from .options import Bounds, By, Entries, Epsilon, Formula, Overwrite, Psu, Seed, Strata, Total, Weights
from .printing import about_what_is_written, console, print_filled, print_release, print_table

PlanFile = Annotated[Path, typer.Argument(help="File by surveysynth plan.", show_default=False)]
OPTIONS = {  # entries that have an option of their own
    "survey.weights": "--weights", "model.formula": "--formula", "privacy.epsilon": "--epsilon",
    "privacy.population_total": "--population-total", "privacy.bounds": "--bounds",
}  # fmt: skip
STRICT = (
    "\nReleases are strict by default. The alternative is --set privacy.mechanism=pseudo-posterior, whose guarantee is "
    "asymptotic, and which weights rare records down"
)


def plan_command(
    file: Annotated[
        Path | None, typer.Argument(help="csv, parquet, Stata, SPSS or SAS file", show_default=False)
    ] = None,
    formula: Formula = None,
    kind: Annotated[OutcomeKind | None, typer.Option(help="What the outcomes are; default amount.")] = None,
    by: By = None,
    weights: Weights = None,
    strata: Strata = None,
    psu: Psu = None,
    epsilon: Epsilon = None,
    population_total: Total = None,
    bounds: Bounds = None,
    entries: Entries = None,
    listed: Annotated[
        bool, typer.Option("--entries", help="Print all entries of plans and what they mean, instead.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of plans, for editors, instead.")
    ] = False,
) -> None:
    """Print a draft of a plan for a file, to be saved by > plan.toml.

    Entries that only you can know are marked FILL IN.
    """
    from ..plan.toml_file import schema as schema_of_plans

    if schema:
        print(schema_of_plans(), end="")
        return
    if listed:
        _print_entries()
        return
    if file is None:
        raise InputError("name the confidential file: surveysynth plan silc.csv > plan.toml")
    plan = drafted(
        file, entries, guess=True, formula=formula, kind=kind, by=by, weights=weights, strata=strata, psu=psu,
        epsilon=epsilon, population_total=population_total, bounds=bounds,
    )  # fmt: skip
    print(plan.to_toml(), end="")


def check_command(
    plan: PlanFile,
    inside: Annotated[
        bool, typer.Option("--inside", help="Also use the confidential values.  The result is confidential.")
    ] = False,
    entries: Entries = None,
) -> None:
    """Preview a release: which columns are published unchanged, expected standard errors, computing time, warnings.

    No privacy budget is spent.
    """
    preview = ss.Plan.read(plan, _entries(entries)).check(inside=inside)
    print_filled(str(preview))


def release_command(
    plan: PlanFile,
    out: Annotated[Path | None, typer.Option(help="Another folder than the plan's.")] = None,
    entries: Entries = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
) -> None:
    """Make the release that a plan describes, write it to a folder, and print its tables and privacy report."""
    make(ss.Plan.read(plan, _entries(entries)), out, overwrite=overwrite, seed=seed)


def resume_command(
    folder: Annotated[Path, typer.Argument(help="Where the release was to be written.", show_default=False)],
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger of a release that was entered when it was made, and is kept next to it.")
    ] = None,
    survey: Annotated[str | None, typer.Option(help="Name of the survey in the --ledger.")] = None,
    entry: Annotated[int | None, typer.Option(help="Number of its ledger entry, if several releases are kept.")] = None,
) -> None:
    """Publish a release whose run was interrupted after its epsilon entered the ledger.  No more epsilon is spent."""
    place = ss.resume(folder, ledger=named_ledger(ledger, survey), entry=entry)
    with about_what_is_written():
        print_release(ss.read_release(place), place, None)


def drafted(
    file: Path, entries: Sequence[str] | None, needed: Sequence[str] = (), *, guess: bool = False, **options: Any
) -> ss.Plan:
    """Draft the plan that the options of a command describe.

    ``entries`` are the values of --set.  Raise InputError if an entry of ``needed`` is missing, or any entry if
    ``needed`` is empty.  With ``guess``, missing entries are allowed: the user fills them in later.
    """
    from ..plan.strict import is_strict

    given = {name: list(value) if isinstance(value, list | tuple) else value for name, value in options.items()}
    plan = ss.Plan.draft(file, set=_entries(entries), guess=guess, **given)
    lacks = {entry: what for entry, what in plan.lacking.items() if not needed or entry in needed}
    if lacks and not guess:
        lines = "".join(f"\n  {OPTIONS.get(entry, f'--set {entry}=')}: {what}" for entry, what in lacks.items())
        by_default = "privacy.mechanism" in plan.reasons and is_strict(plan.settings)
        raise InputError(f"give, too:{lines}{STRICT if by_default and not needed else ''}")
    return plan


def planned(file: Path, entries: Sequence[str] | None, options: Mapping[str, Any]) -> ss.Plan:
    """Read the plan in a file, and change the entries that --set gives.

    ``entries`` are the values of --set.  Raise InputError if one of ``options`` is not None, because the plan sets it.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if given:
        raise InputError(f"{', '.join(given)}: not with a plan, which has such entries; --set changes an entry")
    return ss.Plan.read(file, _entries(entries))


def make(plan: ss.Plan, out: Path | None, *, overwrite: bool, seed: int | None) -> None:
    """Make the release that a plan describes, write it to ``out`` or the plan's folder, and print tables and report."""
    plan.check_place(out, overwrite=overwrite)  # before the fit, which takes long
    release = plan.release(enter=False, seed=seed)
    place = plan.write(release, out, overwrite=overwrite)  # the ledger is charged last
    tables, by = plan.settings.tables, plan.settings.tables.by or release.table_predictors()
    with about_what_is_written():
        table = release.tables(by, min_cell=tables.min_cell, cv_limit=tables.cv_limit, **plan.statistics)
        print_table(table, by)
        print_release(release, place, plan.ledger)


def _print_entries() -> None:
    from ..models.registry import MODELS
    from ..plan.sections import BY_NAME, SECTIONS
    from ..privacy.mechanisms import in_plans

    registries = {"model.name": [*MODELS], "privacy.mechanism": [*in_plans()]}
    shown = Table(box=SIMPLE)
    shown.add_column("entry", no_wrap=True)
    shown.add_column("what it says")
    for section, kind in SECTIONS.items():
        for name, entry in kind.model_fields.items():
            several = [entry.annotation, *get_args(entry.annotation)]
            values = [value for each in several if get_origin(each) is Literal for value in get_args(each)]
            values = [value for value in values if isinstance(value, str)]
            values = registries.get(f"{section}.{name}", values)
            at = f"{section}.NAME.{name}" if section in BY_NAME else f"{section}.{name}"
            shown.add_row(at, escape(str(entry.description)) + (f": {', '.join(values)}" if values else ""))
    console.print(shown)


def _entries(given: Sequence[str] | None) -> dict[str, Any]:
    from ..plan.toml_file import parsed_value

    pairs = [text.partition("=") for text in given or ()]
    wrong = [entry for entry, equals, _ in pairs if not equals or "." not in entry]
    if wrong:
        raise InputError(f"--set {wrong[0]}: write section.entry=value, as in --set privacy.epsilon=3")
    names = [entry.strip() for entry, _, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"--set {', '.join(twice)}: given more than once, and only the last would count")
    return {entry.strip(): parsed_value(text.strip()) for entry, _, text in pairs}
