"""The command ``surveysynth synthesize``."""

from __future__ import annotations

from .options import Bounds, By, Entries, Epsilon, File, Formula, Out, Overwrite, Psu, Seed, Strata, Total, Weights
from .plan import drafted, make


def synthesize_command(
    file: File,
    out: Out,
    formula: Formula = None,
    by: By = None,
    weights: Weights = None,
    strata: Strata = None,
    psu: Psu = None,
    epsilon: Epsilon = None,
    population_total: Total = None,
    bounds: Bounds = None,
    entries: Entries = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
) -> None:
    """Make a release without a plan file: fit a model, and write synthetic files and tables made from them.

    Entries of a plan that have no option here are given by --set, as in --set privacy.mechanism=pseudo-posterior or
    --set privacy.policy=policy.npz; surveysynth plan --entries lists all entries.
    """
    plan = drafted(
        file, entries, formula=formula, by=by, weights=weights, strata=strata, psu=psu, epsilon=epsilon,
        population_total=population_total, bounds=bounds,
    )  # fmt: skip
    make(plan, out, overwrite=overwrite, seed=seed)
