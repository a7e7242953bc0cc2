"""The command ``surveysynth synthesize``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import surveysynth as ss

from ..choices import MapName
from ..errors import InputError
from .options import (
    Absolute,
    Bounds,
    Cap,
    Clusters,
    Components,
    CvLimit,
    Engine,
    File,
    Floor,
    Fpc,
    Known,
    LedgerFile,
    Lonely,
    M,
    MinCell,
    Missing,
    Model,
    Out,
    Overwrite,
    Prior,
    Probs,
    Psu,
    Radius,
    Reweight,
    RiskOption,
    Scale,
    Seed,
    Strata,
    StratumTotals,
    Survey,
    SyntheticFormat,
    Transform,
    UnitColumn,
    Weight,
    Weights,
    Zeros,
    ball,
    by_commas,
    defaulted,
    make_model,
    make_risk,
    one_total,
    open_ledger,
    read_design,
    refuse,
)
from .printing import print_release, print_table

if TYPE_CHECKING:
    from ..privacy.mechanisms import Mechanism
    from ..privacy.risks.base import Risk

MechanismName = Literal["strict", "pseudo-posterior", "weighted-e", "censored", "censored-weighted"]
MECHANISMS: dict[MechanismName, Callable[[], Any]] = {
    "pseudo-posterior": lambda: ss.PseudoPosterior,
    "weighted-e": lambda: ss.WeightedE,
    "censored": lambda: ss.Censored,
    "censored-weighted": lambda: partial(ss.Censored, weighted=True),
}
MechanismOption = Annotated[
    MechanismName,
    typer.Option(
        "--mechanism",
        help="How records are protected. Strict is strict, and its intervals hold: it needs --population-total, and "
        "--bounds or a --reference. Pseudo-posterior and weighted-e are asymptotic. Censored is strict; "
        "censored-weighted is strict given the privacy weights, or strict with a policy.",
    ),
]
MaxRisk = Annotated[
    float | None,
    typer.Option(
        help="Release nothing where a record's marginal probability of identification is above this in the data sets, "
        "by an intruder who knows --known. That a release was blocked is not to be published."
    ),
]
Total = Annotated[
    float | None,
    typer.Option(help="Public population total; default the sum of weights, which epsilon does not cover."),
]
Debias = Annotated[
    bool,
    typer.Option(
        help="Correct the drawn parameters for what privacy weights, or the clamp of --mechanism censored, do to the "
        "model; for privacy weights not covered by epsilon, unless --c1 is given."
    ),
]
SET_BY_POLICY = (
    "model", "outcome", "predictors", "bounds", "prior", "transform", "scale", "zeros", "components", "missing",
    "weight", "epsilon", "m", "mechanism", "reference", "map", "c1", "c2", "risk", "reweight",
)  # fmt: skip
OF_RISK = ("known", "radius", "absolute", "floor")


def synthesize_command(
    context: typer.Context,
    file: File,
    out: Out,
    outcome: Annotated[
        Sequence[str] | None, by_commas("Columns to synthesize, by commas; 'C(employed)' for categories.")
    ] = None,
    predictors: Annotated[str | None, typer.Option(help="Formula of public columns, e.g. 'field + gender'.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of the whole release.")] = None,
    policy: Annotated[
        Path | None, typer.Option(help="File by surveysynth policy: it sets the model, epsilon, m and the mechanism.")
    ] = None,
    weights: Weights = None,
    probs: Probs = None,
    strata: Strata = None,
    psu: Psu = None,
    fpc: Fpc = None,
    lonely_psu: Lonely = "fail",
    by: Annotated[Sequence[str] | None, by_commas("Variables of the table, by commas.")] = None,
    m: M = 3,
    population_total: Total = None,
    stratum_totals: StratumTotals = None,
    public: Annotated[Sequence[str] | None, by_commas("Columns that you declare public, by commas.")] = None,
    model: Model = "fbs",
    bounds: Bounds = None,
    prior: Prior = None,
    transform: Transform = "log",
    scale: Scale = None,
    zeros: Zeros = False,
    components: Components = 20,
    missing: Missing = "fail",
    weight: Weight = None,
    mechanism: MechanismOption = "strict",
    reference: Annotated[
        Path | None, typer.Option(help="Folder of an earlier strict release, for --mechanism strict.")
    ] = None,
    map: Annotated[
        MapName | None,
        typer.Option(help="From risk to privacy weight; default inverse under the pseudo posterior, else linear."),
    ] = None,
    c1: Annotated[
        float | None,
        typer.Option(help="Scale of the map; default: tuned to epsilon under the pseudo posterior, else 1."),
    ] = None,
    c2: Annotated[float | None, typer.Option(help="Shift of the map; default 0.")] = None,
    risk: RiskOption = "lipschitz",
    known: Known = None,
    radius: Radius = None,
    absolute: Absolute = False,
    floor: Floor = None,
    max_risk: MaxRisk = None,
    reweight: Reweight = 0,
    clusters: Clusters = "model",
    unit: UnitColumn = None,
    debias: Debias = False,
    engine: Engine = "auto",
    ledger: LedgerFile = None,
    survey: Survey = None,
    cap: Cap = None,
    min_cell: MinCell = None,
    cv_limit: CvLimit = None,
    format: SyntheticFormat = "csv",
    accept: Annotated[Sequence[str] | None, by_commas("Failed diagnostics, or 'information', to accept.")] = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
) -> None:
    """Fit a model at a requested epsilon, release synthetic files and the tables made from them."""
    from ..release.folder import check_place
    from ..release.suppression import check_limits

    chosen: dict[str, Any]
    synthesizer: ss.Synthesizer
    if policy is not None:
        refuse(context, (*SET_BY_POLICY, *OF_RISK), "the --policy sets this; leave it out, or make another policy")
        refuse(context, ("max_risk",), "not with a --policy: what a rule let through is not strictly private")
        chosen = {"policy": ss.Policy.load(policy)}
        synthesizer = chosen["policy"].synthesizer
    elif outcome is None or predictors is None or epsilon is None:
        needed = (("outcome", outcome), ("predictors", predictors), ("epsilon", epsilon))
        lacking = ", ".join(f"'--{name}'" for name, value in needed if value is None)
        raise InputError(f"Missing option {lacking}: needed without a --policy")
    else:
        synthesizer = make_model(
            context, model, outcome, predictors, bounds, prior, transform, scale, zeros, components, missing, weight
        )
        measure = make_risk(context, risk, known, radius, absolute, floor, ruled=max_risk is not None)
        chosen = {"synthesizer": synthesizer, "epsilon": epsilon, "m": m, "reweight": reweight}
        if mechanism == "strict":
            refuse(
                context, ("map", "c1", "c2", "risk"),
                "not with --mechanism strict, the default, which has no privacy weights; pseudo-posterior has them",
            )  # fmt: skip
            _check_strict(synthesizer, bounds, reference, population_total, stratum_totals)
            earlier = None if reference is None else ss.Reference.from_release(reference)
            chosen |= {"mechanism": ss.Strict(reference=earlier), "bounds": bounds}
            chosen["m"] = None if defaulted(context, "m") else m  # by epsilon
        else:
            refuse(context, ("reference",), "only with --mechanism strict")
            chosen["mechanism"] = _mechanism(context, mechanism, map, c1, c2, measure)
    rule = _rule(max_risk, known, radius, absolute, floor)
    check_place(out, overwrite=overwrite)  # what can be refused is refused before the fit
    check_limits(min_cell, cv_limit)
    for name in by or ():
        if name not in (*synthesizer.predictor_columns, *synthesizer.categorical):
            raise InputError(f"--by {name}: not a predictor, so the release would not preserve it")
    design = read_design(file, weights, probs, strata, psu, fpc, lonely_psu)
    recorded = open_ledger(ledger, survey, cap)
    release = ss.synthesize(
        design,
        **chosen,
        population_total=one_total(population_total, stratum_totals),
        debias=debias,
        public=public,
        clusters=clusters,
        unit=unit,
        engine=engine,
        accept_diagnostics=accept or (),
        ledger=recorded,
        rule=rule,
        seed=seed,
    )
    release.write(out, by=by, format=format, min_cell=min_cell, cv_limit=cv_limit, overwrite=overwrite)
    by_names = list(by) if by is not None else release.table_predictors()
    print_table(release.tables(by_names, min_cell=min_cell, cv_limit=cv_limit), by_names)
    print_release(release, out, recorded)


def _check_strict(
    synthesizer: ss.Synthesizer, bounds: object, reference: object, total: object, totals: object
) -> None:
    """Refuse to begin without what the strict mechanism needs (InputError)."""
    from ..models.base import Relative

    if not isinstance(synthesizer, Relative):
        return  # which the mechanism refuses, with the mechanisms that there are
    lacking = ["--population-total, the public number of population units"] if total is None and totals is None else []
    if bounds is None and reference is None and synthesizer.unscaled:
        lacking.append(f"--bounds, the public lowest and highest {' and '.join(synthesizer.unscaled)}, or --reference")
    if lacking:
        raise InputError(
            f"releases are strict unless --mechanism says otherwise: give {' and '.join(lacking)}. Or say --mechanism "
            "pseudo-posterior, whose guarantee is asymptotic and which weights rare records down"
        )


def _mechanism(
    context: typer.Context, name: MechanismName, map: MapName | None, c1: float | None, c2: float | None, risk: Risk
) -> Mechanism:
    if name == "censored":
        why = "not with --mechanism censored, which has no privacy weights; censored-weighted has"
        refuse(context, ("map", "c1", "c2", "risk"), why)
    given = {name: value for name, value in (("map", map), ("c1", c1), ("c2", c2)) if value is not None}
    return MECHANISMS[name]()(risk=risk, **given)


def _rule(
    max_risk: float | None,
    known: Sequence[str] | None,
    radius: Sequence[float] | None,
    absolute: bool,
    floor: Sequence[float] | None,
) -> ss.IdentificationRule | None:
    if max_risk is None:
        return None
    if not 0 <= max_risk < 1:
        raise InputError("--max-risk must be a number from 0 to below 1")
    return ss.IdentificationRule(tuple(known or ()), max_risk, **ball(radius, absolute, floor))
