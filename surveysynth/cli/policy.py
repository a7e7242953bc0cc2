"""The command ``surveysynth policy``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .options import Bounds, Entries, Epsilon, Formula, Psu, Seed, Strata, Total, Weights
from .plan import drafted
from .printing import about_what_is_written, print_filled, print_written


def policy_command(
    file: Annotated[Path, typer.Argument(help="Historical file, not the one to be released.", show_default=False)],
    source: Annotated[str, typer.Option(help="What to call the historical file; published.", show_default=False)],
    out: Annotated[Path, typer.Option(help="File to make, e.g. policy.npz; confidential.", show_default=False)],
    formula: Formula = None,
    weights: Weights = None,
    strata: Strata = None,
    psu: Psu = None,
    epsilon: Epsilon = None,
    population_total: Total = None,
    bounds: Bounds = None,
    entries: Entries = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a file that is there.")] = False,
    seed: Seed = None,
) -> None:
    """Make a policy from a historical file: all settings of the privacy mechanism for later releases of other files.

    The settings do not depend on the later files, so the epsilon of a later release is strict: it holds whatever is in
    the later file. The later releases are made by synthesize --set privacy.policy=policy.npz. As --epsilon give the
    epsilon of each later release, and as --population-total the population total of the historical file.
    """
    if out.exists() and not overwrite:
        raise InputError(f"--out {out} exists; choose another name, or --overwrite")
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: its folder does not exist")
    plan = drafted(
        file, entries, formula=formula, weights=weights, strata=strata, psu=psu, epsilon=epsilon,
        population_total=population_total, bounds=bounds, mechanism="censored-weighted",
    )  # fmt: skip
    made = plan.policy(source, seed=seed)
    made.save(out, overwrite=overwrite)
    with about_what_is_written():
        print_filled(str(made))
        print_written(f"{out} (to keep)")
