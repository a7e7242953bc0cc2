"""The command ``surveysynth privacy-cost``."""

from __future__ import annotations

from typing import Annotated

import typer

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
    make_model,
    make_risk,
    read_design,
)
from .printing import console


def privacy_cost_command(
    context: typer.Context,
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
    """Dry run, nothing is released: what a c1 or an epsilon means on this file.  For internal use."""
    if epsilon is None and c1 is None:
        raise InputError("say what to price: --epsilon or --c1")
    synthesizer = make_model(
        context, model, outcome, predictors, bounds, prior, transform, scale, zeros, components, missing, weight
    )
    mechanism = ss.PseudoPosterior(map=map, risk=make_risk(context, risk, known, radius, absolute, floor))
    result = ss.privacy_cost(
        read_design(file, weights, probs, strata, psu, fpc, lonely_psu), synthesizer, epsilon=epsilon, m=m, c1=c1,
        mechanism=mechanism, reweight=reweight, clusters=clusters, unit=unit, engine=engine, seed=seed,
    )  # fmt: skip
    console.print(
        f"m = {result.m}, c1 = {result.c1:.4g} (Delta_target {result.delta_target:.4g}): "
        f"Lipschitz bound {result.delta:.4g}, epsilon = {result.epsilon:.4g}; "
        f"the privacy weights keep {result.mean_alpha:.0%} of the file's information, and are below 1 for "
        f"{100 * result.weighted_down:.3g}% of the records. {result.verdict}\n"
        "These numbers are computed from the confidential file; nothing was released.",
        highlight=False,
    )
