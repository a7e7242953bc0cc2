"""What a release would cost, before one is made: one setting, or a table over m and epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import pandas as pd

from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..errors import InputError, ModelError, PrivacyError
from ..models.base import Relative, Synthesizer
from ..privacy.budget import Budget
from ..privacy.expected_accuracy import information_and_noise
from ..privacy.mechanisms import Mechanism, PseudoPosterior, Strict
from ..privacy.report import LEAST_INFORMATION
from ..progress import bar
from ..validation import check_keywords
from .draws import verdict
from .fitting import check_kinds, fit
from .levels import declared

DATA_SETS, EPSILONS = (2, 3, 5), (1.0, 2.0, 3.0, 5.0, 10.0, 20.0)  # of a table
POSSIBLE, REFUSED, LITTLE = "possible", "refused", "too little left"


@dataclass(frozen=True)
class PrivacyCost:
    """What a release would cost, from a dry run.  Internal: it is computed from the confidential file.

    Attributes
    ----------
    m : int
        Number of synthetic data sets.
    c1 : float or None
        Scale of the weight map; None where there are no privacy weights of risks.
    delta_target : float
        The bound that the inverse map aims at: alpha_i = c1 * delta_target / f_i.  It is
        epsilon / (2 m), or 1 without an epsilon; c1 goes with it.
    delta : float
        Lipschitz bound Delta_alpha of one draw.
    epsilon : float
        2 Delta m.
    mean_alpha : float
        Mean privacy weight: the share of the file's information that is left.
    weighted_down : float
        Share of the records with a privacy weight below 1.
    verdict : str
        Whether the sampler's diagnostics passed.

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
    """Dry run of a fit to records: what epsilons and numbers of data sets buy, or what one epsilon or c1 means.

    Strict releases from noisy tables are foretold by :func:`surveysynth.expected_errors`.

    Parameters
    ----------
    epsilon : float, optional
        Asked for alone: c1 is tuned to it.  Without it and ``c1`` there is a table.
    c1 : float, optional
        Asked for: the epsilon it comes to.  Under the inverse map alpha_i = c1 Delta_target / f_i;
        Delta_target is epsilon / (2 m), or 1 where no epsilon is given (c1 is then about the
        Lipschitz bound itself).
    mechanism : PseudoPosterior, WeightedE or Strict, optional
        Whose release is priced: of one epsilon or c1 by default ``PseudoPosterior()``, whose privacy weights come from
        the file; of a table by default ``Strict()`` where the model has it.
    design, synthesizer, m, **settings
        As for :func:`fit`; in a table one m or several.

    Returns
    -------
    PrivacyCost, or pandas.DataFrame
        The table has one row for each ``m`` and ``epsilon``: ``information``, the share of the file's information that
        is kept (about); ``se_ratio``, the expected standard error of a mean over the file's own (about; biases come on
        top under privacy weights); and a ``verdict``: "possible", "too little left" (privacy weights that keep less
        than 30%), or "refused".  Under ``Strict`` it is computed from public facts alone, else from the confidential
        file: then it is internal.

    Raises
    ------
    InputError, ModelError, PrivacyError, EngineError
        As :func:`fit`; a table of a mechanism that has none.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> model = ss.FBS("salary ~ field + gender", prior="flat")
    >>> costs = ss.privacy_cost(design, model, m=3, bounds=(10_000, 1_000_000), population_total=100_000)
    >>> costs.round(2)
       m  epsilon  information  se_ratio   verdict
    0  3      1.0          NaN       NaN   refused
    1  3      2.0          NaN       NaN   refused
    2  3      3.0         0.18      1.93  possible
    3  3      5.0         0.35      1.57  possible
    4  3     10.0         0.82      1.34  possible
    5  3     20.0         1.00      1.30  possible
    """
    check_keywords(privacy_cost, settings, fit)
    check_kinds(design, "y ~ x" if synthesizer is None else synthesizer, mechanism)
    own = (None, None) if mechanism is None else (mechanism.epsilon, getattr(mechanism, "c1", None))
    if all(number is None for number in (epsilon, c1, *own)):
        return _table(design, synthesizer, mechanism, DATA_SETS if m is None else (m,), settings)
    mechanism = PseudoPosterior() if mechanism is None else mechanism
    if isinstance(mechanism, Strict):
        raise InputError("Strict() has no privacy weights: leave epsilon= out for a table, or use expected_se")
    if c1 is not None:
        if not isinstance(mechanism, PseudoPosterior):
            raise InputError(f"c1 of a {type(mechanism).__name__} is given to it: {type(mechanism).__name__}(c1=...)")
        if mechanism.c1 is not None:
            raise InputError("c1 is given twice: to privacy_cost and to the mechanism")
        mechanism = replace(mechanism, c1=c1)
    done = fit(design, synthesizer, epsilon=epsilon, m=m, mechanism=mechanism, **settings)
    if done.kind == "none":
        raise InputError("allocation='posterior' has no privacy cost: no epsilon holds for it")
    spent, used = done.budget.spent(done.delta), done.weighted.c1
    return PrivacyCost(
        done.budget.m, None if math.isnan(used) else used, done.budget.bound, done.delta, spent, done.mean_alpha,
        done.weighted.weighted_down, verdict(done.draws),
    )  # fmt: skip


def _table(
    design: SurveyDesign, synthesizer: Synthesizer | str | None, mechanism: Mechanism | None, several: tuple[int, ...],
    settings: dict[str, Any],
) -> pd.DataFrame:  # fmt: skip
    """One row for each number of data sets and epsilon."""
    model, _ = check_kinds(design, synthesizer, mechanism)
    if mechanism is None:
        mechanism = Strict() if isinstance(model, Relative) else PseudoPosterior()
    model, mechanism = check_kinds(design, model, mechanism)
    design = declared(design, model, settings.get("levels"))
    settings = {name: value for name, value in settings.items() if name != "levels"}
    design = to_synthesize(design)[0]
    if isinstance(mechanism, Strict):
        worth = partial(_of_strict, design, model, mechanism, settings)
    elif isinstance(mechanism, PseudoPosterior):
        worth = _of_weights(design, model, mechanism, settings)
    else:
        raise InputError(
            "there are tables of Strict() and of PseudoPosterior() with Lipschitz risks: say epsilon= or c1="
        )
    rows = []
    with bar("settings", len(several) * len(EPSILONS)) as one_more:
        for m, epsilon in product(several, EPSILONS):
            information, noise, said = worth(Budget(epsilon, m))
            ratio = math.sqrt(1 + (1 + 1 / information) / m + noise) if information > 0 else math.nan
            rows.append((m, epsilon, information or math.nan, ratio, said))
            one_more()
    return pd.DataFrame(rows, columns=["m", "epsilon", "information", "se_ratio", "verdict"])


def _of_strict(
    design: SurveyDesign, model: Synthesizer, mechanism: Strict, settings: dict[str, Any], budget: Budget
) -> tuple[float, float, str]:
    """The tempering, the noise of scores, and whether there could be a release: from public facts."""
    mechanism.check_model(model, None)
    scored = mechanism.under(model)
    assert isinstance(scored, Relative)  # as check_model sees to
    numbers, parameters = scored.expected_dimensions(design, settings.get("clusters", "model"))
    unit = settings.get("unit")
    n = design.n if unit is None else design.column(unit).nunique()
    psus = design.clustered and settings.get("clusters", "model") == "model"
    beside = mechanism.reference is not None
    try:
        a, noise = information_and_noise(
            n, parameters, budget, numbers=numbers, reference=beside,
            scores=scored.scored_by_bounds and bool(scored.unscaled) and not beside, tailed=scored.tailed,
            measured=mechanism.measured(scored, psus=psus),
        )  # fmt: skip
    except PrivacyError:
        return 0.0, 0.0, REFUSED
    return a, noise, POSSIBLE


def _of_weights(design: SurveyDesign, model: Synthesizer, mechanism: PseudoPosterior, settings: dict[str, Any]) -> Any:
    """The mean privacy weight as a function of the budget: tuned with the model's pilot, where it has one."""
    pilot = model.pilot()
    fit(design, model if pilot is None else pilot, mechanism=replace(mechanism, c1=1.0), m=1, **settings)  # its errors
    found: dict[float, float] = {}

    def information(budget: Budget) -> float:
        try:
            return fit(
                design, model if pilot is None else pilot, mechanism=mechanism, epsilon=budget.epsilon, m=budget.m,
                **settings,
            ).mean_alpha  # fmt: skip
        except (PrivacyError, ModelError):  # weights this small leave nothing to fit
            return 0.0

    def worth(budget: Budget) -> tuple[float, float, str]:
        if budget.bound not in found:
            found[budget.bound] = information(budget)
        kept = found[budget.bound]
        return kept, 0.0, REFUSED if kept == 0 else POSSIBLE if kept >= LEAST_INFORMATION else LITTLE

    return worth
