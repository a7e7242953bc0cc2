"""The documentation of a release of a fit: the privacy report, facts for the public manifest, facts for the agency.

In all functions, ``spending`` has the epsilon and the number m of data sets, and ``debias`` is True if the draws were
corrected for the bias that privacy weights or a clamp cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from .._version import __version__
from ..privacy.mechanisms.privacy_weights import BY_GIVEN_CONSTANTS
from ..privacy.release_rule import IdentificationRule
from ..privacy.report import SUM_OF_WEIGHTS, PrivacyReport, public_epsilon
from ..privacy.units import CLASS
from .draws import verdict
from .edits import RULES_TEXT
from .fitted_model import FittedModel, Spending
from .synthetic_design import public_columns, total_text

CORRECTED = (
    "corrected, under the model, for the effect of the privacy weights (they weight down rare values, and make a PSU's "
    "mean less certain than it seems): {}"
)
NOT_CORRECTED = (
    "privacy weights bias {}: the spread and rare categories come out too small. This is not corrected where the "
    "weights do not follow from the record and constants (linear map, risks by counting, re-weighting), nor are shares "
    "where epsilon protects units of several records"
)
NEIGHBOURS = (
    "the number of records and their predictors are public and held fixed: neighbouring files differ in whether the "
    "synthesized variables of one record take part in the fit"
)
SCALED = "survey weights are modelled relative to N / n, population total over records, which is public"
ONLY_WHETHER = (
    "whether there is a release at all, and the verdict on the sampler: checks of the file's values and of the "
    "sampler's diagnostics can refuse a file"
)
EVENED = (
    "factors that make the mean privacy weight of records the same in every class of sizes of units, of at least "
    f"{CLASS[0]:.0%} of the records and {CLASS[1]} units (weights only fall), so that small units do not dominate the "
    "fit: they are computed from the weights of this file"
)
COST = (
    "a clamp discards information, and neither standard errors within files nor the combining rule account for it: "
    "under the model, the variance of means is about {:.3g} times the estimated one, so multiply their standard errors "
    "by {:.2g}"
)
BY_TUNED_CONSTANTS = (
    "the correction of the drawn parameters for the privacy weights: it uses their scale c1, which was tuned on this "
    "file and is not published, and epsilon does not cover it"
)
EPSILON_REACHED = (
    "epsilon itself: as none was asked for, it is 2 m times the Lipschitz bound found on this file, rounded up"
)
FLOATING_POINT = "densities, clamps and draws are computed in floating point, with pseudo-random numbers"
PUBLIC_OR_NOT = (
    "whether the survey weight is a function of public variables, which decides whether it is kept or modelled: the "
    "guarantee is for files that agree in this by design"
)


def report(
    fit: FittedModel, spending: Spending, debias: bool, factor: float | None, rule: IdentificationRule | None,
    edits: Sequence[str] = (), redrawn: Sequence[float] = (),
) -> PrivacyReport:  # fmt: skip
    """Return the privacy report of a release.

    ``factor`` is the factor by which the clamp raises variances, if it is known.  ``rule`` is the rule that the data
    sets passed, and ``edits`` are the edit rules that all records obey.  ``redrawn`` has, for each data set, the share
    of records that were drawn again because they broke an edit rule.
    """
    assumptions = notes(fit, spending, debias, factor) + ([RULES_TEXT.format("; ".join(edits))] if edits else [])
    d = fit.draws.diagnostics
    internal = {
        "epsilon_exact": None if fit.kind == "none" else fit.budget_of(spending.m).spent(fit.delta),
        "delta": fit.delta,
        "delta_target": fit.budget.bound,
        "divergences": d.divergences, "rhat": d.rhat, "ess_bulk": d.ess_bulk, "ess_tail": d.ess_tail,
        "released_draws_lag_correlation": spending.lag,
        "epsilon_spent_by_this_fit": None if fit.kind == "none" else fit.epsilon_spent,
        "releases_blocked_by_a_rule_before": len(fit.blocked),
        "mean_alpha": fit.mean_alpha,
        **fit.mechanism.internal(fit.weighted),
        **({"redrawn_by_edits": list(redrawn)} if edits else {}),
    }  # fmt: skip
    return PrivacyReport(
        kind=fit.kind, epsilon=np.inf if spending.epsilon is None else spending.epsilon,
        epsilon_requested=spending.asked, m=spending.m,
        draws=fit.draws.size if fit.mechanism.maximum_over_draws and fit.kind != "none" else 0,
        verdict=verdict(fit.draws) + separation(fit, spending),
        assumptions=assumptions, data_dependent=depends(
            fit, debias, rule, reached=spending.asked is None or len(fit.spent) > spending.m
        ),
        publishable=not fit.seeded, little_left=fit.little_left,
        unit=fit.unit.column, mechanism=fit.mechanism.name, internal=internal,
    )  # fmt: skip


def notes(fit: FittedModel, spending: Spending, debias: bool, factor: float | None) -> list[str]:
    """Return the sentences of the report on the assumptions of a release.

    ``factor`` is the factor by which the clamp raises variances, if it is known.
    """
    posterior = fit.draws
    total = total_text(fit.population_total, public_weights=fit.public_weights)
    found = [
        "the predictors, the design columns in the files and the number of records of every cell are public; the "
        f"columns in the files are: {', '.join(public_columns(fit.design, fit.synthesizer))}",
        *([] if total is None else [total]),
        *fit.synthesizer.assumptions(fit.records.public),
        *bias_text(fit, debias),
        *([] if factor is None else [COST.format(factor, factor**0.5)]),
        *fit.report_notes,
    ]
    if not posterior.diagnostics.exact:
        what = fit.mechanism.posterior
        found.append(f"draws by Markov chain Monte Carlo stand in for exact draws from the {what} posterior")
    if fit.weighted.asked or not (fit.constants_given or fit.kind == "none"):  # "may": this is not recorded
        found.append(
            "draws of a fit under nearby privacy weights may have been carried over to the weights of this release "
            "by importance weights (effective share of the draws at least 90%)"
        )
    earlier = len(fit.spent) - spending.m
    if earlier and fit.kind != "none":
        reached = (
            replace(fit.budget, m=len(fit.spent)).spent(fit.budget.bound) if fit.within_request else fit.epsilon_spent
        )
        together = public_epsilon(reached, None)
        when = "from the same fit before"
        if len(fit.spent) > len(fit.used):  # a fit under other privacy weights, with other draws, made releases too
            when = "before, from the same fit or from it before or after re-weighting"
        found.append(f"{earlier} data sets were released {when}; together with these they spend epsilon = {together:g}")
    if posterior.failures:  # all were accepted, or nothing would be released
        found.append(f"failed diagnostics that the agency accepted by name: {', '.join(posterior.failures)}")
    return found


def separation(fit: FittedModel, spending: Spending) -> str:
    """Return the sentence of the report on the distance between released draws of one chain.

    It is empty for independent draws or a single draw.
    """
    if fit.draws.diagnostics.exact or len(fit.used) == 1:
        return ""
    if spending.lag == 0:
        return " The released draws are from different chains."
    return f" Released draws of one chain are apart: lag correlation {'below' if spending.lag < 0.1 else 'ABOVE'} 0.1."


def bias_text(fit: FittedModel, debias: bool) -> list[str]:
    """Return sentences on biases that the mechanism causes, on their correction, and on further assumptions."""
    found = fit.mechanism.bias_text(fit.weighted, debias)
    if fit.mechanism.clamps:
        found += [NEIGHBOURS] if fit.public_weights else [NEIGHBOURS, SCALED]
        return [*found, FLOATING_POINT] + ([] if fit.policy is None else [fit.policy.describe()])
    if fit.corrected:
        found.append(CORRECTED.format(" and ".join(fit.corrected)))
    if fit.constants_given and (debias or fit.corrected):
        found.append(BY_GIVEN_CONSTANTS)
    uncorrected = [what for what in fit.biased if what not in fit.corrected]
    if uncorrected:
        found.append(NOT_CORRECTED.format(" and ".join(uncorrected)))
    return found


def depends(fit: FittedModel, debias: bool, rule: IdentificationRule | None, *, reached: bool) -> list[str]:
    """Return sentences on facts that were computed from the confidential file and that epsilon does not cover.

    ``reached`` is True if the report prints an epsilon that was not requested.
    """
    passed = [] if rule is None else [rule.describe()]
    found = [ONLY_WHETHER, *fit.mechanism.refuses, PUBLIC_OR_NOT, *passed]
    if fit.kind == "strict":
        return found
    found_here = fit.mechanism.depends()
    if fit.unit.classes > 1:
        found_here.append(EVENED)
    if fit.mechanism.clamps:
        return [*found_here, *found]
    if fit.weighted.asked:
        found_here.append(
            "the privacy weights again: they were raised where bounds lay below the overall one "
            f"(re-weighting, steps asked for: {fit.weighted.asked}, taken as long as weights rose)"
        )
    if fit.kind != "none" and reached and not fit.within_request:
        found_here.append(EPSILON_REACHED)
    if not fit.public_weights:
        found_here.append("the mean of the survey weights, to which they are scaled before they are modelled")
        found_here += [SUM_OF_WEIGHTS] if fit.population_total is None else []
    found_here += fit.synthesizer.computed_from_file
    if (debias or fit.corrected) and not fit.constants_given:
        found_here.append(BY_TUNED_CONSTANTS)
    return [*found_here, *found]


def method(fit: FittedModel, debias: bool) -> dict[str, Any]:
    """Return facts for the public manifest of a release: the package, the engine, the model and the corrections."""
    posterior = fit.draws
    constants = {"covered_by_epsilon": fit.constants_given}
    constants |= fit.mechanism.constants(fit.weighted, fit.budget.bound)
    return {
        "package": {"surveysynth": __version__},
        "engine": {"name": posterior.engine, "version": posterior.version},
        **fit.synthesizer.describe(fit.records.public),
        **({"debias": constants} if debias else {}),
        **({"corrected": {"what": list(fit.corrected), **constants}} if fit.corrected else {}),
    }


def internal(fit: FittedModel) -> dict[str, Any]:
    """Return facts for the agency only, as a dictionary with the keys "records" and "draws".

    "records" is a table with risks and privacy weights of all records, by row of the file.  "draws" has the draws of
    each parameter that no release used.
    """
    posterior = fit.draws
    unused = np.setdiff1d(np.arange(posterior.size), fit.used)
    columns = {name: fit.unit.spread(column) for name, column in fit.mechanism.record_columns(fit.weighted).items()}
    records = pd.DataFrame(columns, index=pd.Index(fit.rows, name="row"))
    values = posterior.values | {"weight": posterior.weight}
    return {"records": records, "draws": {name: draws[unused] for name, draws in values.items()}}
