"""The command ``surveysynth privacy-cost``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

import surveysynth as ss

from .options import Bounds, Entries, Epsilon, Formula, Psu, Seed, Strata, Weights
from .plan import drafted, planned
from .printing import console, print_filled

if TYPE_CHECKING:
    import pandas as pd

NEEDED = "survey.weights", "model.formula"


def privacy_cost_command(
    file: Annotated[
        Path,
        typer.Argument(help="csv, parquet, Stata, SPSS or SAS file; or a plan (.toml).", show_default=False),
    ],
    formula: Formula = None,
    weights: Weights = None,
    strata: Strata = None,
    psu: Psu = None,
    epsilon: Epsilon = None,
    bounds: Bounds = None,
    entries: Entries = None,
    seed: Seed = None,
) -> None:
    """Fit the model to the records as a trial, to see which epsilons and numbers of data sets are possible.

    Nothing is released. The command needs --set privacy.mechanism=pseudo-posterior, because only under this mechanism
    models are fitted to records. The default mechanism releases from noisy tables: for it, use surveysynth check. With
    --epsilon or --set privacy.c1=, the command shows the result for that one setting on this file.
    """
    options: dict[str, Any] = {
        "formula": formula, "weights": weights, "strata": strata, "psu": psu, "epsilon": epsilon, "bounds": bounds
    }  # fmt: skip
    plan = planned(file, entries, options) if file.suffix == ".toml" else drafted(file, entries, NEEDED, **options)
    result = plan.privacy_cost(seed=seed)
    if not isinstance(result, ss.PrivacyCost):
        _print_costs(result)
        return
    scale = "" if result.c1 is None else f", c1 = {result.c1:.4g} (Delta_target {result.delta_target:.4g})"
    print_filled(
        f"m = {result.m}{scale}: Lipschitz bound {result.delta:.4g}, epsilon = {result.epsilon:.4g}; "
        f"the privacy weights keep {result.mean_alpha:.0%} of the file's information, and are below 1 for "
        f"{100 * result.weighted_down:.3g}% of the records. {result.verdict}\n"
        "These numbers are computed from the confidential file; nothing was released."
    )


def _print_costs(costs: pd.DataFrame) -> None:
    shown = Table(box=SIMPLE)
    shown.add_column("epsilon", justify="right")
    several = list(dict.fromkeys(costs["m"]))
    for m in several:
        shown.add_column(f"m = {m}", justify="right")
    for epsilon, part in costs.groupby("epsilon"):
        by_m = part.set_index("m")
        shown.add_row(f"{epsilon:g}", *(_worth(by_m.loc[m]) for m in several))
    console.print(shown)
    print_filled(
        "Information kept, and expected standard errors of means over the file's own; about.  Nothing was released.\n"
        "Computed from the confidential file: keep them inside."
    )


def _worth(row: pd.Series) -> str:
    if row["verdict"] == "refused":
        return "refused"
    little = " (too little)" if row["verdict"] != "possible" else ""
    return f"{row['information']:.0%}, {row['se_ratio']:.2f} x{little}"
