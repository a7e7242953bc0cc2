"""The command ``surveysynth policy``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import surveysynth as ss

from ..errors import InputError
from .options import (
    Bounds,
    Clusters,
    Components,
    Engine,
    Fpc,
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
    Scale,
    Strata,
    StratumTotals,
    Transform,
    Weight,
    Weights,
    Zeros,
    make_model,
    one_total,
    read_design,
)
from .printing import print_filled, print_written

C1 = Annotated[float | None, typer.Option(help="Scale of the map; default: tuned to epsilon.")]
C2 = Annotated[float, typer.Option(help="Shift of the map.")]


def policy_command(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Historical file, not the one to be released.", show_default=False)],
    outcome: Outcome,
    predictors: Predictors,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of each release.", show_default=False)],
    source: Annotated[str, typer.Option(help="What to call the historical file; published.", show_default=False)],
    out: Annotated[Path, typer.Option(help="File to make, e.g. policy.npz; confidential.", show_default=False)],
    weights: Weights = None,
    probs: Probs = None,
    strata: Strata = None,
    psu: Psu = None,
    fpc: Fpc = None,
    lonely_psu: Lonely = "fail",
    m: M = 3,
    population_total: Annotated[float | None, typer.Option(help="Public, of the historical file.")] = None,
    stratum_totals: StratumTotals = None,
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
    c1: C1 = None,
    c2: C2 = 0.0,
    clusters: Clusters = "model",
    engine: Engine = "auto",
    overwrite: Annotated[bool, typer.Option(help="Replace a file that is there.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="For tests only.")] = None,
) -> None:
    """Fix everything that protects later releases on a historical file: they are then strict.

    The releases are made by synthesize --policy.
    """
    if out.exists() and not overwrite:
        raise InputError(f"--out {out} exists; choose another name, or --overwrite")
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: its folder does not exist")
    total = one_total(population_total, stratum_totals)
    if total is None:
        raise InputError("say how many units the historical file stands for: --population-total or --stratum-totals")
    made = ss.Policy.from_historical(
        read_design(file, weights, probs, strata, psu, fpc, lonely_psu),
        make_model(
            context, model, outcome, predictors, bounds, prior, transform, scale, zeros, components, missing, weight
        ),
        epsilon=epsilon, source=source, population_total=total, m=m, map=map, c1=c1, c2=c2, clusters=clusters,
        engine=engine, seed=seed,
    )  # fmt: skip
    made.save(out, overwrite=overwrite)
    print_filled(str(made))
    print_written(f"{out} (to keep)")
