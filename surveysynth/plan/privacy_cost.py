"""The privacy cost of a release before the release is made: for one setting, or as a table over m and epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError, PrivacyError
from ..models.base import Synthesizer
from ..privacy.budget import Budget
from ..privacy.mechanisms import Mechanism, PseudoPosterior, RecordMechanism
from ..privacy.mechanisms.base import LEAST_INFORMATION
from ..progress import bar
from ..synthesis.draws import verdict
from ..synthesis.fit_request import check_kinds, fit_request
from ..synthesis.fitting import fit
from ..validation import check_keywords

DATA_SETS, EPSILONS = (2, 3, 5), (1.0, 2.0, 3.0, 5.0, 10.0, 20.0)  # values of m and epsilon in a table
POSSIBLE, REFUSED, LITTLE = "possible", "refused", "too little left"


@dataclass(frozen=True)
class PrivacyCost:
    """The privacy cost of a release, from a dry run.  It is computed from the confidential file and must stay internal.

    Attributes
    ----------
    m : int
        Number of synthetic data sets.
    c1 : float or None
        Scale of the map from risks to privacy weights.  None means that privacy weights do not come from such a map.
    delta_target : float
        Largest permitted Lipschitz bound of one draw: epsilon / (2 m), or 1 without an epsilon.  Under the map
        "inverse", the privacy weight of a record with risk f_i is alpha_i = c1 * delta_target / f_i, at most 1.
    delta : float
        Lipschitz bound of one draw: a bound of the absolute privacy-weighted log likelihood of every record.
    epsilon : float
        Epsilon of all m draws: 2 * delta * m.
    mean_alpha : float
        Mean privacy weight, which is the approximate share of the file's information that is kept.
    weighted_down : float
        Share of the records with a privacy weight below 1.
    verdict : str
        A sentence on whether the sampler's diagnostics passed.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> model = ss.FBS("salary ~ field + gender", prior="flat")
    >>> cost = ss.privacy_cost(design, model, epsilon=10.8, m=3)
    >>> cost.m, cost.delta_target, cost.epsilon <= 10.8
    (3, 1.8, True)
    """

    m: int
    c1: float | None
    delta_target: float
    delta: float
    epsilon: float
    mean_alpha: float
    weighted_down: float
    verdict: str


def privacy_cost(
    design: SurveyDesign,
    synthesizer: Synthesizer | str | None = None,
    *,
    epsilon: float | None = None,
    m: int | None = None,
    c1: float | None = None,
    mechanism: Mechanism | None = None,
    **settings: Any,
) -> PrivacyCost | pd.DataFrame:
    """Compute the privacy cost of a release, or a table of costs by epsilon and m, by a dry run of the fit.

    For strict releases from noisy tables use :func:`surveysynth.expected_errors`.

    Parameters
    ----------
    epsilon : float, optional
        Epsilon to which the scale c1 is tuned.  The result is a table if neither the call nor the mechanism has an
        epsilon or c1.
    c1 : float, optional
        Scale of the privacy weights for which epsilon is computed.  Under the map "inverse", the privacy weight of a
        record with risk f_i is alpha_i = c1 Delta_target / f_i, at most 1, where Delta_target is epsilon / (2 m).  If
        no epsilon is given, Delta_target is 1, and c1 is itself the target for the Lipschitz bound.
    mechanism : PseudoPosterior or WeightedE, optional
        Mechanism of the release; ``PseudoPosterior()`` by default.
    design, synthesizer, m, **settings
        See :func:`fit`.

    Returns
    -------
    PrivacyCost, or pandas.DataFrame
        The table has one row for each combination of ``m`` and ``epsilon``.  ``information`` is the approximate share
        of the file's information that is kept.  ``se_ratio`` is the approximate standard error of a mean, without
        biases, divided by the standard error in the file itself.  ``verdict`` is "possible", "too little left" (privacy
        weights keep less than 30%) or "refused".  The table is computed from the confidential file and must stay
        internal.

    Raises
    ------
    InputError, ModelError, PrivacyError, EngineError
        See :func:`fit`.  InputError is also raised for ``Strict``, which has no privacy weights; for
        ``allocation="posterior"``, for which no epsilon holds; and if a table is requested for another mechanism than
        ``PseudoPosterior()`` with Lipschitz risks.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> model = ss.FBS("salary ~ field + gender", prior="flat")
    >>> costs = ss.privacy_cost(design, model, m=3)
    >>> costs.columns.tolist(), len(costs)
    (['m', 'epsilon', 'information', 'se_ratio', 'verdict'], 6)
    """
    check_keywords(privacy_cost, settings, fit)
    mechanism = PseudoPosterior() if mechanism is None else mechanism
    if isinstance(mechanism, Mechanism) and not mechanism.fits_records:
        raise InputError("releases under Strict() have no privacy weights: expected_errors() predicts their accuracy")
    check_kinds(design, "y ~ x" if synthesizer is None else synthesizer, mechanism)
    own = (mechanism.epsilon, getattr(mechanism, "c1", None))
    if all(number is None for number in (epsilon, c1, *own)):
        return _table(design, synthesizer, mechanism, DATA_SETS if m is None else (m,), settings)
    if c1 is not None:
        mechanism = mechanism.with_c1(c1)
    done = fit(design, synthesizer, epsilon=epsilon, m=m, mechanism=mechanism, **settings)
    if done.kind == "none":
        raise InputError("allocation='posterior' has no privacy cost: no epsilon holds for it")
    spent, used = done.budget.spent(done.delta), done.weighted.c1
    return PrivacyCost(
        done.budget.m, None if math.isnan(used) else used, done.budget.bound, done.delta, spent, done.mean_alpha,
        done.weighted.weighted_down, verdict(done.draws),
    )  # fmt: skip


def _table(
    design: SurveyDesign, synthesizer: Synthesizer | str | None, mechanism: Mechanism, several: tuple[int, ...],
    settings: dict[str, Any],
) -> pd.DataFrame:  # fmt: skip
    model, mechanism = check_kinds(design, synthesizer, mechanism)
    if not mechanism.tunes_c1:
        raise InputError("there are tables of PseudoPosterior() with Lipschitz risks alone: give epsilon= or c1=")
    asked, _ = fit_request(design, model, mechanism=mechanism.with_c1(1.0), m=several[0], **settings)
    settings = {name: value for name, value in settings.items() if name != "levels"}  # the design has the levels
    worth = _information_by_budget(asked.design, model, mechanism, settings)
    rows = []
    with bar("settings", len(several) * len(EPSILONS)) as one_more:
        for m, epsilon in product(several, EPSILONS):
            information, result = worth(Budget(epsilon, m))
            ratio = math.sqrt(1 + (1 + 1 / information) / m) if information > 0 else math.nan
            rows.append((m, epsilon, information or math.nan, ratio, result))
            one_more()
    return pd.DataFrame(rows, columns=["m", "epsilon", "information", "se_ratio", "verdict"])


def _information_by_budget(
    design: SurveyDesign, model: Synthesizer, mechanism: RecordMechanism, settings: dict[str, Any]
) -> Any:
    """Return a function that computes the mean privacy weight under a budget, and whether a release is possible.

    The weights are computed with the pilot, a simpler version of the model, if the model has a pilot.
    """
    pilot = model.pilot()
    # a fit under a given c1 raises the errors that the fits below would hide
    fit(design, model if pilot is None else pilot, mechanism=mechanism.with_c1(1.0), m=1, **settings)
    found: dict[float, float] = {}

    def information(budget: Budget) -> float:
        try:
            return fit(
                design, model if pilot is None else pilot, mechanism=mechanism, epsilon=budget.epsilon, m=budget.m,
                **settings,
            ).mean_alpha  # fmt: skip
        except (PrivacyError, ModelError):  # privacy weights are so small that nothing is left to fit
            return 0.0

    def worth(budget: Budget) -> tuple[float, str]:
        if budget.bound not in found:
            found[budget.bound] = information(budget)
        kept = found[budget.bound]
        return kept, REFUSED if kept == 0 else POSSIBLE if kept >= LEAST_INFORMATION else LITTLE

    return worth
