"""The command ``surveysynth privacy-cost``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.box import SIMPLE
from rich.table import Table

import surveysynth as ss

from ..errors import InputError
from .options import (
    Absolute,
    Bounds,
    Clusters,
    Components,
    Engine,
    File,
    Floor,
    Fpc,
    Known,
    Lonely,
    M,
    Map,
    Missing,
    Model,
    Outcome,
    Predictors,
    Prior,
    Probs,
    Psu,
    Radius,
    Reweight,
    RiskOption,
    Scale,
    Seed,
    Strata,
    Transform,
    UnitColumn,
    Weight,
    Weights,
    Zeros,
    defaulted,
    make_model,
    make_risk,
    read_design,
)
from .printing import console

if TYPE_CHECKING:
    import pandas as pd


def privacy_cost_command(
    context: typer.Context,
    file: File,
    outcome: Outcome,
    predictors: Predictors,
    epsilon: Annotated[float | None, typer.Option(help="Which c1 does this epsilon mean?")] = None,
    c1: Annotated[float | None, typer.Option(help="Which epsilon does this c1 mean?")] = None,
    priced: Annotated[
        Literal["strict", "pseudo-posterior"] | None,
        typer.Option("--mechanism", help="Of the table; default strict, where the model has it."),
    ] = None,
    weights: Weights = None,
    probs: Probs = None,
    strata: Strata = None,
    psu: Psu = None,
    fpc: Fpc = None,
    lonely_psu: Lonely = "fail",
    m: M = 3,
    model: Model = "fbs",
    bounds: Bounds = None,
    prior: Prior = None,
    transform: Transform = "log",
    scale: Scale = None,
    zeros: Zeros = False,
    components: Components = 20,
    missing: Missing = "fail",
    weight: Weight = None,
    map: Map = "inverse",
    risk: RiskOption = "lipschitz",
    known: Known = None,
    radius: Radius = None,
    absolute: Absolute = False,
    floor: Floor = None,
    reweight: Reweight = 0,
    clusters: Clusters = "model",
    unit: UnitColumn = None,
    engine: Engine = "auto",
    seed: Seed = None,
) -> None:
    """Dry run, nothing is released: a table of what epsilons buy; or what one epsilon or c1 means on this file."""
    from ..models.base import Relative

    synthesizer = make_model(
        context, model, outcome, predictors, bounds, prior, transform, scale, zeros, components, missing, weight
    )
    mechanism = ss.PseudoPosterior(map=map, risk=make_risk(context, risk, known, radius, absolute, floor))
    table = epsilon is None and c1 is None
    strict = table and (priced == "strict" or (priced is None and isinstance(synthesizer, Relative)))
    if priced == "strict" and not table:
        raise InputError("--mechanism strict has a table, without --epsilon and --c1: it has no privacy weights")
    result = ss.privacy_cost(
        read_design(file, weights, probs, strata, psu, fpc, lonely_psu), synthesizer, epsilon=epsilon, c1=c1,
        m=None if table and defaulted(context, "m") else m, mechanism=ss.Strict() if strict else mechanism,
        reweight=reweight, clusters=clusters, unit=unit, engine=engine, seed=seed,
    )  # fmt: skip
    if not isinstance(result, ss.PrivacyCost):
        _print_costs(result, strict)
        return
    console.print(
        f"m = {result.m}, c1 = {result.c1:.4g} (Delta_target {result.delta_target:.4g}): "
        f"Lipschitz bound {result.delta:.4g}, epsilon = {result.epsilon:.4g}; "
        f"the privacy weights keep {result.mean_alpha:.0%} of the file's information, and are below 1 for "
        f"{100 * result.weighted_down:.3g}% of the records. {result.verdict}\n"
        "These numbers are computed from the confidential file; nothing was released.",
        highlight=False,
    )


def _print_costs(costs: pd.DataFrame, strict: bool) -> None:
    """The table, one row an epsilon, one block of columns a number of data sets."""
    shown = Table(box=SIMPLE)
    shown.add_column("epsilon", justify="right")
    several = list(dict.fromkeys(costs["m"]))
    for m in several:
        shown.add_column(f"m = {m}", justify="right")
    for epsilon, part in costs.groupby("epsilon"):
        of_m = part.set_index("m")
        shown.add_row(f"{epsilon:g}", *(_worth(of_m.loc[m]) for m in several))
    console.print(shown)
    source = "public facts alone" if strict else "the confidential file: keep them inside"
    console.print(
        "Information kept, and expected standard errors of means over the file's own; about.  Nothing was released.\n"
        f"Computed from {source}.", highlight=False, soft_wrap=True,
    )  # fmt: skip


def _worth(row: pd.Series) -> str:
    if row["verdict"] == "refused":
        return "refused"
    little = " (too little)" if row["verdict"] != "possible" else ""
    return f"{row['information']:.0%}, {row['se_ratio']:.2f} x{little}"
