"""From a confidential design to synthetic data: fit, tune to an epsilon, release.

    f_i = max_s |log p_i|  under alpha = 1           (T 1.4.1 steps 1-2)
    alpha_i = map(f_i), refit, Delta = max_i max_s alpha_i |log p_i|     (steps 3-4)
    c1 tuned until Delta <= epsilon / (2 m); m draws make m data sets; epsilon = 2 Delta m  (step 5)

Under the censored mechanism (C 3) every alpha_i log p_i is clamped to +-epsilon / (2 m) in the fit itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console

from . import __version__
from .design import SurveyDesign
from .engines import get_engine
from .errors import InputError, NotFitForRelease, PrivacyError, check_seed, positive, whole
from .estimation.tables import OWN
from .models.base import Clusters, Posterior, Sampler, Synthesizer
from .models.effects import groups_of
from .policy import Policy
from .privacy.ledger import Ledger
from .privacy.mechanisms import Censored, Kind, Mechanism, PseudoPosterior, WeightedE
from .privacy.report import PrivacyReport, public_epsilon
from .privacy.tuning import WeightedFit, censored_fit, first_guess, times, truncated, tune, weighted_fit
from .privacy.units import Unit, unit_of
from .public import (
    Total,
    assemble,
    check_public,
    check_total,
    count_roles_of,
    public_columns,
    public_frame,
    roles_of,
    said_of_total,
    totals_of,
)
from .release import Release

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

NARROWED = (
    "privacy weights bear hardest on the tails, which narrows the fitted distribution: under a skewed transform such "
    "as log, means are off, low or high as outcome and weight go together, and intervals of broad domains can cover "
    "less than they say"
)
CORRECTED = (
    "corrected, under the model, for what privacy weights do to it (they weight down what is rare, and make a PSU's "
    "mean less certain than it seems): {}"
)
NOT_CORRECTED = (
    "privacy weights bias {}: the spread and rare categories come out too small. This is not corrected under the "
    "linear map, whose constants are not public, nor are shares where epsilon protects units of several records"
)
CLAMPED = (
    "contributions to the log likelihood are clamped to plus or minus {:.6g} on the density's own scale, which takes "
    "most from the tails: the fitted distribution is narrower, so that means and intervals can be off"
)
NEIGHBOURS = (
    "the number of records and their predictors are public and held fixed: neighbouring files differ in what one "
    "record has of everything that is synthesized, taken out of the fit or put into it"
)
SCALED = "survey weights are modelled relative to N / n, population total over records, which is public"
ONLY_WHETHER = (
    "whether there is a release at all: a file can be refused, by checks of its values and of the sampler's diagnostics"
)
UNITS_PUBLIC = (
    "how many records the units have that epsilon protects, and where, is public as their predictors are: epsilon is "
    "about what is synthesized of them"
)
INDEPENDENT = (
    "the records of a unit that epsilon protects are drawn independently given the predictors: the design has no PSUs, "
    "so that standard errors do not carry what members of a unit have in common"
)
DEBIASED = (
    "the released draws were corrected for the effect of {} on the model (Fisher-consistent draws): the correction "
    "takes the normal model at its word; it falls short where residuals have heavier tails, and can add to the error "
    "of means where they are skewed"
)


@dataclass
class Fit:
    """A synthesizer fitted to a design under tuned privacy weights; everything here is confidential.

    One fit makes releases of several m: ``fit.release(m=3)``.  Each release spends its own
    epsilon, and draws are never used twice.
    """

    design: SurveyDesign
    rows: Codes  # of the file, those of the design's records: some may have been left out
    synthesizer: Synthesizer
    mechanism: Mechanism
    policy: Policy | None
    data: Any
    unit: Unit
    risk: Floats  # of units, as everything that the weighted fit says of privacy
    weighted: WeightedFit
    target: float
    epsilon: float | None
    m: int
    population_total: Total
    said: list[str]
    rng: np.random.Generator = field(repr=False)
    seeded: bool
    used: list[int] = field(default_factory=list)

    def __repr__(self) -> str:
        verdict = _verdict(self.weighted.posterior)
        return f"Fit of {self.synthesizer.name} to {self.design!r}, tuned for m = {self.m}. {verdict}"

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound Delta_alpha of this fit."""
        return self.weighted.delta

    @property
    def kind(self) -> Kind:
        """The guarantee: ``asymptotic``, ``strict`` or ``strict given alpha``."""
        return "strict" if self.policy is not None else self.mechanism.kind

    def contributions(self, records: Codes) -> Floats:
        """What records add to the log pseudo likelihood in every draw, alpha_i log p_i or its clamp: (S, records)."""
        alpha = self.unit.spread(self.weighted.alpha)[records]
        added = times(alpha, self.synthesizer.log_density(self.data, records, self.weighted.posterior))
        clamp = self.weighted.clamp
        return added if clamp is None else np.clip(added, -clamp, clamp)

    @property
    def epsilon_spent(self) -> float:
        """2 Delta times the data sets released from this fit so far (they add up)."""
        return 2 * self.delta * len(self.used)

    def release(
        self,
        m: int | None = None,
        *,
        epsilon: float | None = None,
        debias: bool = False,
        accept_diagnostics: Sequence[str] = (),
        ledger: Ledger | None = None,
    ) -> Release:
        """Release m weighted synthetic data sets from this fit.

        Parameters
        ----------
        m : int, optional
            How many; the default is the m that the fit was tuned for.
        epsilon : float, optional
            The most that this release may spend; the default is the epsilon of the fit.
        debias : bool
            Take off the released draws what the privacy weights do to the model, by the
            model's own rule (:mod:`surveysynth.models.consistency`).  Spends no privacy, but
            publishes c1; assumes that the model is right.  Under ``Censored(weighted=False)`` the
            clamp is all there is to take off, and it is policy.
        accept_diagnostics : list of str
            Diagnostics whose failure the caller accepts, by name: "divergences", "rhat",
            "ess_bulk", "ess_tail".
        ledger : Ledger, optional
            Where the epsilon is entered before anything is drawn.

        Raises
        ------
        InputError
            debias under the linear map, whose constants are not public, in a paper's setting, of FBP with
            effects of PSUs, or of units of several records without such effects.
        PrivacyError
            m data sets would spend more than epsilon, or than the ledger's cap leaves; no unused draws are left.
        NotFitForRelease
            A diagnostic failed and was not accepted by name.
        """
        m = whole(self.m if m is None else m, "m")
        _check_accepted(accept_diagnostics)
        asked = self.epsilon if epsilon is None else positive(epsilon, "epsilon")
        exact = 2 * self.delta * m
        if asked is not None and exact > asked:
            fitted = f"tuned for m = {self.m}"
            if not isinstance(self.mechanism, PseudoPosterior):
                fitted = f"made for m = {self.m}"
            elif self.mechanism.c1 is not None:
                fitted = "made with a c1 that was given"
            raise PrivacyError(
                f"{m} data sets from this fit would spend more than epsilon = {asked:g}: it was {fitted}. Fit again, "
                "or name a larger epsilon= here"
            )
        if debias:
            _check_debias(self.synthesizer, self.mechanism)
        posterior = self.weighted.posterior
        _refuse_failed(posterior, accept_diagnostics)
        chosen, lag = choose_draws(posterior, m, self.rng, self.used)
        if ledger is not None:
            ledger.spend(
                public_epsilon(exact, asked), kind=self.kind, unit=self.unit.column or "record",
                what=f"{m} data sets by {self.synthesizer.name}: {', '.join(self.synthesizer.outcomes)}",
            )  # fmt: skip
        corrected = debias or bool(self._corrected)
        if debias and self.weighted.clamp is not None:
            posterior = self.synthesizer.uncensored(self.data, posterior, chosen, self.weighted.clamp)
        elif corrected:
            posterior = self.synthesizer.consistent(
                self.data, posterior, chosen, self._public_map, self.unit.of_record, self.rng, debias=debias
            )
        self.used.extend(chosen)
        recoded, outcomes = public_frame(self.design, self.synthesizer, self.rng), self.synthesizer.outcomes
        simulated = [
            self.synthesizer.simulate(self.data, posterior, s, self.rng) for s in (range(m) if corrected else chosen)
        ]
        totals = totals_of(self.design, self.population_total)
        roles = roles_of(self.design, outcomes, recoded, self.population_total)
        count_roles = count_roles_of(simulated[0], roles, [*recoded.columns, *outcomes])
        orders = [self.rng.permutation(self.design.n) for _ in simulated]
        datasets = [
            assemble(s, self.synthesizer, recoded, roles, count_roles, totals, order)
            for s, order in zip(simulated, orders, strict=True)
        ]
        return Release(
            datasets=tuple(datasets),
            privacy=self._report(m, asked, exact, lag, debias),
            predictors=tuple(c for c in recoded.columns if c in self.synthesizer.predictor_columns),
            outcomes=outcomes,
            categorical=self.synthesizer.categorical,
            method=self._manifest(debias),
            internal=self._internal() | {"rows": self.rows[np.array(orders)]},
            count_roles=count_roles,
        )

    @property
    def _corrected(self) -> tuple[str, ...]:
        """What is always corrected, if the constants of the privacy weights can be published."""
        biased = self.synthesizer.biased(self.data, self.unit.of_record)
        return tuple(what for what, can_be in biased.items() if can_be and self.mechanism.map != "linear")

    @property
    def _public_c1(self) -> float:
        """c1 as it is published: three digits."""
        return float(f"{self.weighted.c1:.3g}")

    def _public_map(self, f: Floats) -> Floats:
        return self.mechanism.alpha(f, self._public_c1, self.target)

    def _report(self, m: int, asked: float | None, exact: float, lag: float, debias: bool) -> PrivacyReport:
        posterior = self.weighted.posterior
        said = [
            "the predictors, the design columns in the files and the number of records of every cell are public; the "
            f"columns in the files are: {', '.join(public_columns(self.design, self.synthesizer))}",
            said_of_total(self.population_total),
            *self.synthesizer.assumptions(self.data),
            *self._said_of_bias(debias),
            *self.said,
        ]
        if not posterior.diagnostics.exact:
            said.append("draws by Markov chain Monte Carlo stand in for exact draws from the pseudo posterior")
        if posterior.efficiency < 1 - 1e-9:
            said.append(
                "draws of a fit under nearby privacy weights were carried over to the weights of this release by "
                "importance weights (effective share of the draws at least 90%)"
            )
        earlier = len(self.used) - m
        if earlier:
            together = public_epsilon(self.epsilon_spent, None)
            said.append(
                f"{earlier} data sets were released from the same fit before; together with these they spend "
                f"epsilon = {together:g}"
            )
        if posterior.failures:  # all of them accepted, or nothing were released
            said.append(f"failed diagnostics that the agency accepted by name: {', '.join(posterior.failures)}")
        d = posterior.diagnostics
        internal = {
            "epsilon_exact": exact, "delta": self.delta, "delta_unweighted": float(self.risk.max()),
            "c1": self.weighted.c1, "c2": self.mechanism.c2, "map": self.mechanism.map, "delta_target": self.target,
            "divergences": d.divergences, "rhat": d.rhat, "ess_bulk": d.ess_bulk, "ess_tail": d.ess_tail,
            "released_draws_lag_correlation": lag, "epsilon_spent_by_this_fit": self.epsilon_spent,
            "mean_alpha": float(self.unit.spread(self.weighted.alpha).mean()),
            "clamp": self.weighted.clamp, "invocations": self.weighted.invocations,
        }  # fmt: skip
        if posterior.diagnostics.exact or m == 1:
            separated = ""
        elif lag == 0:
            separated = " The released draws are from different chains."
        else:
            separated = (
                f" Released draws of one chain are apart: lag correlation {'below' if lag < 0.1 else 'ABOVE'} 0.1."
            )
        return PrivacyReport(
            kind=self.kind, epsilon=public_epsilon(exact, asked), epsilon_requested=asked, m=m,
            draws=posterior.size if self.weighted.clamp is None else 0, verdict=_verdict(posterior) + separated,
            assumptions=said, data_dependent=self._depends(debias), publishable=not self.seeded,
            unit=self.unit.column, mechanism=self.mechanism.name, internal=internal,
        )  # fmt: skip

    def _said_of_bias(self, debias: bool) -> list[str]:
        """What privacy weights, or the clamp, do to the model, and what was taken off."""
        clamp = self.weighted.clamp
        if clamp is not None:
            said = [DEBIASED.format("the clamp") if debias else CLAMPED.format(clamp), NEIGHBOURS, SCALED]
            return said + ([] if self.policy is None else [self.policy.describe()])
        said = [DEBIASED.format("the privacy weights") if debias else NARROWED]
        if self._corrected:
            said.append(CORRECTED.format(" and ".join(self._corrected)))
        left = [what for what in self.synthesizer.biased(self.data, self.unit.of_record) if what not in self._corrected]
        if left:
            said.append(NOT_CORRECTED.format(" and ".join(left)))
        return said

    def _depends(self, debias: bool) -> list[str]:
        """What was computed from the confidential file and is not covered by epsilon."""
        if self.kind == "strict":
            return [ONLY_WHETHER]
        tuned = " and their scale c1, tuned on this file" if self.mechanism.c1 is None else "; their scale c1 was given"
        depends = [f"the privacy weights (map {self.mechanism.map}){tuned}"]
        if self.weighted.clamp is not None:
            return [*depends, ONLY_WHETHER]
        if isinstance(self.mechanism, WeightedE):
            depends.append(
                "which records have weight 0, as their bound exceeded epsilon / (2 m), and a factor of the others"
            )
        depends.append("the epsilon that was reached: 2 m times the Lipschitz bound found on this file, rounded up")
        if self._manifest(debias)["weights"] != "public":
            depends.append("the mean of the survey weights, to which they are scaled before they are modelled")
        if self.synthesizer.categorical:
            depends.append(f"which categories of {', '.join(self.synthesizer.categorical)} occur")
        if debias or self._corrected:
            depends.append(
                f"c1 = {self._public_c1:g} and the bound aimed at, {self.target:g}: constants of the privacy weights, "
                "published because the corrected draws depend on them"
            )
        return depends

    def _manifest(self, debias: bool) -> dict[str, Any]:
        posterior = self.weighted.posterior
        c = self.mechanism
        constants: dict[str, Any] = {"map": c.map, "c1": self._public_c1, "c2": c.c2, "target": self.target}
        if self.weighted.clamp is not None:
            constants = {"clamp": self.weighted.clamp}
        return {
            "package": {"surveysynth": __version__},
            "engine": {"name": posterior.engine, "version": posterior.version},
            **self.synthesizer.describe(self.data),
            **({"debias": constants} if debias else {}),
            **({"corrected": {"what": list(self._corrected), **constants}} if self._corrected else {}),
        }

    def _internal(self) -> dict[str, Any]:
        """Record-level risks and weights, and the draws that were not released."""
        posterior = self.weighted.posterior
        unused = np.setdiff1d(np.arange(posterior.size), self.used)
        columns = {"lipschitz": self.risk, "alpha": self.weighted.alpha, "bound": self.weighted.bounds}
        of_records = {name: self.unit.spread(values) for name, values in columns.items()}
        records = pd.DataFrame(of_records, index=pd.Index(self.rows, name="row"))
        values = posterior.values | {"weight": posterior.weight}
        return {"records": records, "draws": {name: draws[unused] for name, draws in values.items()}}


def fit(
    design: SurveyDesign,
    synthesizer: Synthesizer | None = None,
    *,
    epsilon: float | None = None,
    m: int | None = None,
    mechanism: Mechanism | None = None,
    policy: Policy | None = None,
    population_total: float | Mapping[Any, float] | None = None,
    public: Sequence[str] | None = None,
    clusters: Clusters = "model",
    unit: str | None = None,
    engine: str = "auto",
    tolerance: float = 0.01,
    chains: int = 4,
    warmup: int = 1000,
    draws: int = 1000,
    seed: int | None = None,
) -> Fit:
    """Fit a synthesizer under privacy weights tuned to an epsilon, without releasing anything.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    synthesizer : Synthesizer
        For example ``FBS("salary", "field + gender")``.
    epsilon : float
        Privacy budget of a release of m data sets (add-or-remove neighbours); never exceeded.
        Not needed where the mechanism fixes c1.
    m : int
        Number of synthetic data sets; default 3.
    mechanism : PseudoPosterior, WeightedE or Censored, optional
        How records are protected; default ``PseudoPosterior()``.  ``Censored`` is the one whose guarantee is
        strict; it needs a population_total.
    policy : Policy, optional
        Everything that a historical file set: the model, epsilon, m and the privacy weights of ``Censored``.
        Nothing of this file sets them, and none of them is given here.
    population_total : float or mapping of stratum to float, optional
        Public number of population units that the synthetic weights add up to, in all or in
        each stratum (such totals then have no standard error); the default is the sum of the
        survey weights, which the report then names as assumed public.
    public : list of str, optional
        The columns that you declare public, by name.  Given, it must hold every column of the
        public files that is not synthesized; without it the formula and the design name them.
    clusters : {"model", "ignore"}
        PSUs, and strata that the predictors do not determine, get normal effects in the model, so
        that synthetic files have the survey's standard errors; "ignore" draws records
        independently given the predictors, and the report says so.
    unit : str, optional
        Column of the units that epsilon protects, where these are groups of records: households,
        or PSUs.  Their records' log densities add up.  Default: single records.
    engine : {"auto", "embedded", "cmdstan"}
    tolerance : float
        How far below epsilon the result may stay, as a share of it.
    chains, warmup, draws : int
        Sampler settings.
    seed : int, optional
        For tests only: a seeded run is marked "reproducible, not for publication".

    Returns
    -------
    Fit

    Raises
    ------
    InputError, ModelError
        The file or the arguments do not suit the model.
    PrivacyError
        The epsilon cannot be reached.
    EngineError
        The engine is missing or stopped.
    """
    if policy is not None:
        given = {"a synthesizer": synthesizer, "epsilon=": epsilon, "m=": m, "mechanism=": mechanism}
        synthesizer, m, mechanism = _of_policy(policy, given)
    if synthesizer is None:
        raise InputError("the second argument is a model: surveysynth.FBS('salary', 'field + gender')")
    _check_kinds(design, synthesizer, mechanism)
    m = whole(3 if m is None else m, "m")
    for name, number in (("chains", chains), ("warmup", warmup), ("draws", draws)):
        whole(number, name)
    check_seed(seed)
    mechanism = PseudoPosterior() if mechanism is None else mechanism
    epsilon = _one_epsilon(epsilon, mechanism)
    if epsilon is None and not (isinstance(mechanism, PseudoPosterior) and mechanism.c1 is not None):
        raise InputError("say how much privacy to spend: epsilon=, for the whole release of m data sets")
    population_total = check_total(population_total, design)
    if clusters not in get_args(Clusters):
        raise InputError(f"clusters={clusters!r} is not one of {', '.join(get_args(Clusters))}")
    if positive(tolerance, "tolerance") >= 1:
        raise InputError("tolerance must be below 1")
    check_public(design, synthesizer, public)
    taken = [name for name in synthesizer.categorical if name in OWN]
    if taken:
        raise InputError(f"{', '.join(taken)}: tables have columns of that name; rename it")
    design, rows, said = _without_missing(design, synthesizer)
    said += _said_of_ignored(design, synthesizer) if clusters == "ignore" else []
    if unit is not None and unit in synthesizer.outcomes:
        raise InputError(f"unit {unit!r} is an outcome: a unit is a column of labels that is not synthesized")
    protected = unit_of(design, unit)
    if unit is not None:
        said.append(UNITS_PUBLIC)
        said += [] if design.clustered else [INDEPENDENT]
    mean_weight = None
    if isinstance(mechanism, Censored):
        mean_weight = _public_mean_weight(design, population_total, unit)

    rng = np.random.default_rng(seed)
    chosen_engine = get_engine(engine)
    sampler = Sampler(lambda: chosen_engine, rng, chains, warmup, draws)
    target = 1.0 if epsilon is None else epsilon / (2 * m)
    model = synthesizer
    with _progress() as say:
        say("reading the file")
        data = model.prepare(design, clusters, mean_weight)

        def lipschitz(posterior: Posterior, weights: Floats) -> Floats:
            return model.lipschitz(data, posterior, protected.of_record, protected.spread(weights))

        def fitted(weights: Floats) -> Posterior:
            say("fit under privacy weights")
            return model.fit(data, protected.spread(weights), sampler)

        def tuned(alpha: Callable[[float], Floats]) -> WeightedFit:
            return tune(
                alpha, fitted, lipschitz,
                lambda a, b, p: model.log_ratio(data, protected.spread(a), protected.spread(b), p), target,
                start=first_guess(model, data, protected, alpha, sampler, target), tolerance=tolerance,
            )  # fmt: skip

        if policy is not None:
            risk = policy.risk(data)
        elif isinstance(mechanism, Censored) and not mechanism.weighted:
            risk = np.full(design.n, np.nan)  # alpha = 1, whatever it is
        else:
            say("unweighted fit: the records' risks")
            risk = model.lipschitz(data, model.fit(data, np.ones(design.n), sampler), protected.of_record)

        def alpha(c1: float) -> Floats:
            return mechanism.alpha(risk, c1, target, None if policy is None else policy.span)

        weighted: WeightedFit
        if isinstance(mechanism, Censored):
            say("censored fit")
            weights = alpha(mechanism.c1) if mechanism.weighted else np.ones(design.n)
            weighted = censored_fit(
                mechanism.c1, weights, lambda a: model.censored(data, a, target, sampler), lipschitz, target
            )
        elif isinstance(mechanism, WeightedE):
            weighted = truncated(mechanism.c1, alpha(mechanism.c1), fitted, lipschitz, target)
            if weighted.delta > target:
                cut = weighted
                weighted = replace(tuned(lambda c: min(c, 1.0) * cut.alpha), invocations=cut.invocations)
        elif mechanism.c1 is not None:
            weighted, _ = weighted_fit(mechanism.c1, alpha(mechanism.c1), fitted, lipschitz)
        else:
            weighted = tuned(alpha)
    return Fit(
        design, rows, model, mechanism, policy, data, protected, risk, weighted, target, epsilon, m, population_total,
        said, rng, seed is not None,
    )  # fmt: skip


def _of_policy(policy: Policy, given: Mapping[str, Any]) -> tuple[Synthesizer, int, Censored]:
    """What a policy sets, if nothing of it was given beside it; its mechanism holds the epsilon."""
    if not isinstance(policy, Policy):
        raise InputError("policy must be a surveysynth.Policy: Policy.from_historical(...) or Policy.load(...)")
    twice = [name for name, value in given.items() if value is not None]
    if twice:
        raise InputError(f"{', '.join(twice)}: the policy sets this; leave it out, or make another policy")
    return policy.synthesizer, policy.m, policy.mechanism


def _public_mean_weight(design: SurveyDesign, total: Total, unit: str | None) -> float:
    """N / n, which no record moves (the censored mechanism needs it)."""
    if unit is not None:
        raise InputError("the censored mechanism clamps record by record: unit= goes with the pseudo posterior only")
    if total is None:
        raise InputError(
            "the censored mechanism needs population_total=, a public number: the sum of the survey weights would tell "
            "of every record's weight"
        )
    return float(sum(total.values()) if isinstance(total, Mapping) else total) / design.n


def synthesize(
    design: SurveyDesign,
    synthesizer: Synthesizer | None = None,
    *,
    epsilon: float | None = None,
    m: int | None = None,
    debias: bool = False,
    accept_diagnostics: Sequence[str] = (),
    ledger: Ledger | None = None,
    **settings: Any,
) -> Release:
    """Fit, tune to epsilon and release m weighted synthetic data sets, in one call.

    Parameters
    ----------
    design, synthesizer, epsilon, m, **settings
        As for :func:`fit`.
    debias, accept_diagnostics, ledger
        As for :meth:`Fit.release`.

    Returns
    -------
    Release

    Raises
    ------
    InputError, ModelError, PrivacyError, EngineError
        As :func:`fit`.
    NotFitForRelease
        The sampler's diagnostics failed.

    Examples
    --------
    >>> release = synthesize(design, FBS("salary", "field + gender"), epsilon=10.8, m=3)  # doctest: +SKIP
    >>> release.tables(by=["field", "gender"])  # doctest: +SKIP
    """
    _check_accepted(accept_diagnostics)
    if debias:
        policy = settings.get("policy")
        mechanism = settings.get("mechanism") if policy is None else policy.mechanism
        if synthesizer is not None:
            _check_kinds(design, synthesizer, mechanism)
        _check_debias(synthesizer, mechanism or PseudoPosterior())
    done = fit(design, synthesizer, epsilon=epsilon, m=m, **settings)
    return done.release(debias=debias, accept_diagnostics=accept_diagnostics, ledger=ledger)


@dataclass(frozen=True)
class Price:
    """What a release would cost, from a dry run.  Internal: it is computed from the confidential file.

    Attributes
    ----------
    m : int
    c1 : float
        Scale of the weight map.
    delta_target : float
        The bound that the inverse map aims at: alpha_i = c1 * delta_target / f_i.  It is
        epsilon / (2 m), or 1 without an epsilon; c1 goes with it.
    delta : float
        Lipschitz bound Delta_alpha of one draw.
    epsilon : float
        2 Delta m.
    mean_alpha : float
        Mean privacy weight: the share of the file's information that is left.
    verdict : str
        Whether the sampler's diagnostics passed.
    """

    m: int
    c1: float
    delta_target: float
    delta: float
    epsilon: float
    mean_alpha: float
    verdict: str


def price(
    design: SurveyDesign,
    synthesizer: Synthesizer,
    *,
    epsilon: float | None = None,
    m: int = 3,
    c1: float | None = None,
    mechanism: Mechanism | None = None,
    **settings: Any,
) -> Price:
    """Dry run: the epsilon that c1 means, or the c1 that epsilon means, without releasing.

    Parameters
    ----------
    epsilon : float, optional
        Asked for alone: c1 is tuned to it.
    c1 : float, optional
        Asked for: the epsilon it comes to.  Under the inverse map alpha_i = c1 Delta_target / f_i;
        Delta_target is epsilon / (2 m), or 1 where no epsilon is given (c1 is then about the
        Lipschitz bound itself).
    design, synthesizer, m, mechanism, **settings
        As for :func:`fit`.

    Returns
    -------
    Price
    """
    mechanism = PseudoPosterior() if mechanism is None else mechanism
    if c1 is not None:
        if mechanism.c1 is not None:
            raise InputError("c1 is given twice: to price and to the mechanism")
        mechanism = replace(mechanism, c1=c1)
    done = fit(design, synthesizer, epsilon=epsilon, m=m, mechanism=mechanism, **settings)
    posterior = done.weighted.posterior
    mean_alpha = float(done.unit.spread(done.weighted.alpha).mean())
    spent = 2 * done.delta * done.m
    return Price(done.m, done.weighted.c1, done.target, done.delta, spent, mean_alpha, _verdict(posterior))


def choose_draws(
    posterior: Posterior, m: int, rng: np.random.Generator, used: Sequence[int] = ()
) -> tuple[list[int], float]:
    """Choose m well separated draws, from different chains where there are enough.

    Returns
    -------
    draws : list of int
        Positions in the posterior, none of them in ``used``.
    lag_correlation : float
        Largest absolute autocorrelation, over parameters, at the smallest lag between two
        chosen draws of one chain; 0 where no two share a chain or draws are independent.
    """
    chains = rng.permutation(np.unique(posterior.chain))
    chosen: list[int] = []
    lag_correlation = 0.0
    for k, chain in enumerate(chains):
        wanted = m // len(chains) + (k < m % len(chains))
        members = np.setdiff1d(np.flatnonzero(posterior.chain == chain), np.asarray(used, dtype=np.intp))
        if wanted > members.size:
            raise PrivacyError("no unused posterior draws are left for this many data sets; fit again with more draws")
        if wanted == 0:
            continue
        # one draw from the first half of each of `wanted` stretches: no two are near
        stretches = [s[: (s.size + 1) // 2] if wanted > 1 else s for s in np.array_split(members, wanted)]
        weights = [posterior.weight[s] for s in stretches]
        picked = [int(rng.choice(s, p=w / w.sum())) for s, w in zip(stretches, weights, strict=True)]
        chosen += picked
        if wanted > 1 and not posterior.diagnostics.exact:
            lag = int(np.diff(picked).min())
            whole = np.flatnonzero(posterior.chain == chain)
            lag_correlation = max(lag_correlation, _autocorrelation(posterior, whole, lag))
    return chosen, lag_correlation


def _autocorrelation(posterior: Posterior, chain: NDArray[np.intp], lag: int) -> float:
    x = np.column_stack([v[chain].reshape(chain.size, -1) for v in posterior.values.values()])
    x = x[:, x.min(axis=0) < x.max(axis=0)] - x.mean(axis=0)[x.min(axis=0) < x.max(axis=0)]
    return float(np.abs((x[lag:] * x[:-lag]).sum(axis=0) / (x**2).sum(axis=0)).max())


def _verdict(posterior: Posterior) -> str:
    failed = posterior.failures
    if posterior.diagnostics.exact and not failed:
        return "The draws are independent, without Markov chains."
    if failed:
        return f"Sampler diagnostics failed: {', '.join(failed)}."
    return "Sampler diagnostics passed: no divergences, R-hat at most 1.01, bulk and tail ESS at least 400."


def _check_kinds(design: SurveyDesign, synthesizer: Synthesizer, mechanism: Mechanism | None) -> None:
    if not isinstance(design, SurveyDesign):
        raise InputError("the first argument is a SurveyDesign: SurveyDesign(frame, weights=...)")
    if isinstance(synthesizer, str) or not hasattr(synthesizer, "prepare"):
        raise InputError("the second argument is a model: surveysynth.FBS('salary', 'field + gender')")
    if not isinstance(mechanism, Mechanism | None):
        raise InputError("mechanism must be a surveysynth.PseudoPosterior(...), WeightedE(...) or Censored(...)")


def _check_accepted(accepted: Sequence[str]) -> None:
    names = ("divergences", "rhat", "ess_bulk", "ess_tail")
    if isinstance(accepted, str) or not set(accepted) <= set(names):
        raise InputError(f"accept_diagnostics is a list of names among {', '.join(names)}")


def _check_debias(synthesizer: Synthesizer | None, mechanism: Mechanism) -> None:
    if isinstance(mechanism, WeightedE) or (isinstance(mechanism, Censored) and mechanism.weighted):
        raise InputError(
            "debias takes off what constants that can be published do: those of PseudoPosterior() or the clamp of "
            "Censored(weighted=False)"
        )
    if mechanism.map == "linear" and not isinstance(mechanism, Censored):
        raise InputError(
            "debias needs the weight map's constants to be public, and the linear map has the file's own least and "
            "largest risk among them; use the inverse map"
        )
    if synthesizer is not None and synthesizer.as_in_paper:
        raise InputError("debias is no part of the paper's setting; use FBP(...) instead of FBP.paper(...)")


def _refuse_failed(posterior: Posterior, accepted: Sequence[str]) -> None:
    failed = [name for name in posterior.failures if name not in accepted]
    if failed:
        raise NotFitForRelease(
            f"the sampler's diagnostics failed ({', '.join(failed)}), so nothing is released. Run more draws "
            "(draws=, warmup=), simplify the model, or take the failure on yourself by name: "
            f"accept_diagnostics={failed}"
        )


def _one_epsilon(epsilon: float | None, mechanism: Mechanism) -> float | None:
    if epsilon is not None and mechanism.epsilon is not None:
        raise InputError("epsilon is given twice: to synthesize and to the mechanism; give it once")
    epsilon = mechanism.epsilon if epsilon is None else epsilon
    return None if epsilon is None else positive(epsilon, "epsilon")


def _without_missing(design: SurveyDesign, synthesizer: Synthesizer) -> tuple[SurveyDesign, Codes, list[str]]:
    """The records whose outcomes are there, where the model says ``missing="drop"``, and their rows in the file."""
    everybody = np.arange(design.n)
    if synthesizer.missing != "drop":
        return design, everybody, []
    absent = np.zeros(design.n, dtype=bool)
    for outcome in synthesizer.outcomes:
        label = outcome in synthesizer.categorical
        absent |= design.column(outcome).isna().to_numpy() if label else np.isnan(design.numeric(outcome))
    if not absent.any():
        return design, everybody, []
    if absent.all():
        raise InputError(f"every record lacks an outcome ({', '.join(synthesizer.outcomes)})")
    try:
        roles = {role: value for role, value in design.roles().items() if role != "pps"}  # not needed to synthesize
        kept = SurveyDesign(design.frame[~absent], **roles)
    except InputError as error:
        raise InputError(
            f"once the {absent.sum():,} records without an outcome are left out and the rest are numbered anew, {error}"
        ) from None
    share = design.weights[absent].sum() / design.weights.sum()
    return kept, everybody[~absent], [
        f"{absent.sum():,} of {design.n:,} records, {share:.0%} of the survey weights, had no outcome and were left "
        "out: the release, its population total too, speaks of the population whose outcome is known. These two "
        "numbers are computed from the file and not covered by epsilon"
    ]


def _said_of_ignored(design: SurveyDesign, synthesizer: Synthesizer) -> list[str]:
    """What independent records given the predictors leave out, for the report."""
    groups = groups_of(design, synthesizer.predictor_columns)
    if groups is None:
        return []
    found = [f"PSUs ({design.psu_names[0]!r}, within which records are alike)"] if groups.sampled else []
    if groups.parent is not None or not groups.sampled:
        found.append(f"strata ({design.strata_name!r}) that the predictors do not determine")
    return [
        f"clusters ignored: the design has {' and '.join(found)}, but synthetic records are drawn independently given "
        "the predictors; standard errors computed from the synthetic files do not carry this and can be far too small"
    ]


@contextmanager
def _progress() -> Iterator[Any]:
    """A spinner that says what is being done; silent where there is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield lambda text: status.update(text)
