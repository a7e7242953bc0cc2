"""The command ``python -m replication.risk_efficient``: risk-efficient synthesis (Hu, Savitsky & Williams 2022b)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from surveysynth.choices import Allocation
from surveysynth.cli.options import Ends, by_commas, ends, names, numbers, own, simulated
from surveysynth.errors import InputError
from surveysynth.storage import check_new

from ..choices import RiskSource
from ..running import check_options, print_comparison, run


def risk_efficient_command(
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
    radius: Annotated[float, typer.Option(help="Radius of the balls, as a share of the value.", min=0)] = 0.2,
    radii: Annotated[
        Sequence[float] | None, by_commas("Further radii, by commas; default 0.1,0.2,0.3.", numbers)
    ] = None,
    floor: Annotated[
        float | None, typer.Option(help="Least radius, for values near 0; default 0; 100 if simulated.", min=0)
    ] = None,
    weights_from: Annotated[
        RiskSource,
        typer.Option(help="Files whose risks determine privacy weights: synthetic files, or the data as if released."),
    ] = "synthetic",
    allocation: Annotated[
        Allocation,
        typer.Option(
            help="Components of synthetic records: drawn by their shares, or given the confidential values "
            "(Hu, Savitsky & Williams 2022b, eq. 7)."
        ),
    ] = "prior",
    datasets: Annotated[int, typer.Option(help="Synthetic files of each fit.", min=1)] = 20,
    chains: Annotated[int, typer.Option(min=1)] = 2,
    warmup: Annotated[int, typer.Option(min=1)] = 500,
    draws: Annotated[int, typer.Option(help="Draws of each chain.", min=1)] = 500,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    n: Annotated[int | None, simulated("Records of the file; default 5571.", min=1)] = None,
    data: Annotated[Path | None, own("Compare privacy weights on this file.")] = None,
    value: Annotated[str | None, own("Confidential column of numbers.")] = None,
    predictors: Annotated[str | None, own("Formula of public columns; default none.")] = None,
    known: Annotated[
        Sequence[str] | None, own("Columns that the intruder knows, by commas; default none.", names)
    ] = None,
    coefficient: Annotated[str | None, own("Term of the regression with a coefficient to compare.")] = None,
    scale: Annotated[
        float | None, own("Public number for asinh(value / scale); without it values are logged, and positive.")
    ] = None,
    bounds: Annotated[
        Ends | None,
        own("Public limits of values, by a comma; synthetic ones beyond are drawn again.", ends),
    ] = None,
    top_code: Annotated[float | None, own("Public number, for comparison with top-coding.")] = None,
    weights: Annotated[str | None, own("Column of survey weights.")] = None,
) -> None:
    """Compare identification risk and utility under marginal and pairwise privacy weights.

    Without --data: a simulated file of consumer units.  With --data: your own file; the folder is then not for
    publication.
    """
    from . import outputs
    from .study import consumer_units_study

    own = {
        "value": value, "predictors": predictors, "known": known, "coefficient": coefficient, "scale": scale,
        "bounds": bounds, "top_code": top_code, "weights": weights,
    }  # fmt: skip
    check_options(data, {"n": n}, own)
    looked_at: dict[str, Any] = {
        "radius": radius, "radii": radii or (0.1, 0.2, 0.3), "weights_from": weights_from, "datasets": datasets,
    }  # fmt: skip
    if floor is not None:
        looked_at["floor"] = floor
    sampling: dict[str, Any] = {"chains": chains, "warmup": warmup, "draws": draws, "seed": seed}
    if data is None:
        study = consumer_units_study(n or 5571, allocation=allocation, **sampling, **looked_at)
    else:
        if value is None:
            raise InputError("--data needs --value, too")
        check_new(out)
        study = _own_study(
            data, value, predictors or "1", known or [], coefficient, top_code, scale=scale, bounds=bounds,
            allocation=allocation, weights=weights, looked_at=looked_at, sampling=sampling,
        )  # fmt: skip
    print_comparison(outputs.write(study, out), out)


def _own_study(
    data: Path, value: str, predictors: str, known: Sequence[str], coefficient: str | None, top_code: float | None, *,
    scale: float | None, bounds: Ends | None, allocation: Allocation, weights: str | None, looked_at: dict[str, Any],
    sampling: dict[str, Any],
) -> Any:  # fmt: skip
    from surveysynth.design.read import read_frame
    from surveysynth.models.scales.transforms import as_transform

    from .inputs import RiskEfficientPlan, as_design, synthesizer
    from .study import risk_efficient_study

    transform, frame = as_transform("log" if scale is None else "asinh", scale), read_frame(data)
    model = synthesizer(frame, value, predictors, transform, bounds, allocation)
    plan = RiskEfficientPlan(known, coefficient, top_code, **looked_at)
    return risk_efficient_study(as_design(frame, weights), model, plan, **sampling)


if __name__ == "__main__":
    run(risk_efficient_command)
