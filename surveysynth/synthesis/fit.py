"""A fit and what is released from it: m draws, m synthetic data sets, and the report that goes with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._version import __version__
from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError, NotFitForRelease, PrivacyError
from ..models.base import Draws, Sampler, Streams, Synthesizer
from ..privacy.accounting.ledger import Ledger
from ..privacy.mechanisms import Kind, Mechanism
from ..privacy.mechanisms.censored import Censored
from ..privacy.mechanisms.pseudo_posterior import PseudoPosterior
from ..privacy.mechanisms.weighted_e import WeightedE
from ..privacy.release_rule import IdentificationRule
from ..privacy.report import LEAST_INFORMATION, SUM_OF_WEIGHTS, PrivacyReport, public_epsilon
from ..privacy.risks.lipschitz import LipschitzRisk
from ..privacy.tuning import PseudoLikelihood, WeightedFit, reweight, times
from ..privacy.units import CLASS, Unit, even
from ..release.release import Release
from ..validation import positive, whole
from .assemble import Total, assemble, count_roles_of, public_columns, public_frame, roles_of, said_of_total, totals_of
from .policy import Policy

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK = 4_000_000  # contributions that are held at once

NARROWED = (
    "privacy weights bear hardest on the tails, which narrows the fitted distribution: where it is skewed, as under a "
    "log transform or of counts, means are off, low or high as outcome and weight go together, and intervals of broad "
    "domains can cover less than they say"
)
CORRECTED = (
    "corrected, under the model, for what privacy weights do to it (they weight down what is rare, and make a PSU's "
    "mean less certain than it seems): {}"
)
NOT_CORRECTED = (
    "privacy weights bias {}: the spread and rare categories come out too small. This is not corrected where the "
    "weights do not follow from the record and constants (linear map, risks by counting, re-weighting), nor are shares "
    "where epsilon protects units of several records"
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
    "whether there is a release at all, and the verdict on the sampler: a file can be refused, by checks of its values "
    "and of the sampler's diagnostics"
)
WHETHER_ENOUGH = f"whether the privacy weights keep at least {LEAST_INFORMATION:.0%} of the file's information"
EVENED = (
    "factors that make the mean privacy weight of records the same in every class of sizes of units, of at least "
    f"{CLASS[0]:.0%} of the records and {CLASS[1]} units (weights only fall), so that the fit is not one of small "
    "units: they are computed from the weights of this file"
)
MODES = (
    "whether the posterior under the clamp has modes apart from each other, as far as the model looks for them: such a "
    "file is refused"
)
COST = (
    "a clamp throws information away, which neither standard errors within files nor the combining rule know: under "
    "the model, means vary about {:.3g} times as much as they say (variance), so that their standard errors are to be "
    "taken {:.2g} times as large"
)
BY_GIVEN_CONSTANTS = (
    "the constants of that correction were given and not tuned on this file: it is post-processing of the drawn "
    "parameters"
)
BY_TUNED_CONSTANTS = (
    "the correction of the drawn parameters for the privacy weights: it uses their scale c1, which was tuned on this "
    "file and is not published, and it is not covered by epsilon"
)
EPSILON_REACHED = (
    "epsilon itself: as none was asked for, it is 2 m times the Lipschitz bound found on this file, rounded up"
)
LITTLE_LEFT = (
    f"the privacy weights keep less than {LEAST_INFORMATION:.0%} of the file's information, so nothing is released: "
    "means and totals of the synthetic files could be far off, more than their intervals say. {}, or take it on "
    "yourself by name: accept_diagnostics=['information'] (--accept information)"
)
FLOATING_POINT = "densities, clamps and draws are computed in floating point, with pseudo-random numbers"
PUBLIC_OR_NOT = (
    "whether the survey weight is a function of what is public, which decides whether it is kept or modelled: the "
    "guarantee is for files that are alike in this, by their design"
)
DEBIASED = (
    "the released draws were corrected for the effect of {} on the model (Fisher-consistent draws): the correction "
    "takes the model at its word; it falls short where tails are heavier than the model's, and can add to the error of "
    "means where residuals are skewed otherwise"
)


Protect = Callable[[PseudoLikelihood, Floats, Callable[[str], None]], tuple[Floats, WeightedFit]]


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
    sampler: Sampler = field(repr=False)
    streams: Streams = field(repr=False)
    protect: Protect = field(repr=False)  # makes the risks and the weighted fit; what was asked of :func:`fit` is in it
    seeded: bool
    used: list[int] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)  # by each data set, of this fit and of those re-weighted from it
    blocked: list[int] = field(default_factory=list)  # m of the releases that a rule held back

    def __repr__(self) -> str:
        said = verdict(self.weighted.posterior)
        return f"Fit of {self.synthesizer.name} to {self.design!r}, tuned for m = {self.m}. {said}"

    @property
    def mean_alpha(self) -> float:
        """Mean privacy weight of the records."""
        return float(self.unit.spread(self.weighted.alpha).mean())

    @property
    def information(self) -> float | None:
        """The share of the file's information that privacy weights leave, their mean; None under a clamp."""
        return None if self.weighted.clamp is not None else self.mean_alpha

    @property
    def little_left(self) -> bool:
        """Whether privacy weights keep so little of the file that its release has to be accepted by name."""
        return self.information is not None and self.information < LEAST_INFORMATION

    @property
    def delta(self) -> float:
        """The overall Lipschitz bound Delta_alpha of this fit."""
        return self.weighted.delta

    @property
    def kind(self) -> Kind:
        """The guarantee: ``asymptotic``, ``strict``, ``strict given alpha`` or ``none``."""
        if self.synthesizer.from_records:
            return "none"
        return "strict" if self.policy is not None else self.mechanism.kind

    def reweighted(self, steps: int = 1, *, tolerance: float = 0.01) -> Fit:
        """Raise privacy weights where bounds lie below the overall one, at no more epsilon (R Algorithm 1).

        Parameters
        ----------
        steps : int
            At most so many; it ends sooner with a step that does not raise the weights in sum.
        tolerance : float
            How far below this fit's Delta that of the new one may stay, as a share of it.

        Returns
        -------
        Fit
            What is released from either adds up, and both count it (:attr:`epsilon_spent`).  Where nothing is to be
            gained it has this very fit's draws and privacy weights.  With raised weights nothing is corrected
            (``debias``, the spread between PSUs, shares).

        Raises
        ------
        InputError
            The mechanism clamps contributions: no bound is to be raised.
        """
        steps = check_steps(steps, self.mechanism)
        whole(steps, "steps")
        if positive(tolerance, "tolerance") >= 1:
            raise InputError("tolerance must be below 1")

        def protect(
            pseudo: PseudoLikelihood, present: Floats, say: Callable[[str], None]
        ) -> tuple[Floats, WeightedFit]:
            risk, first = self.protect(pseudo, present, say)
            return risk, reweight(first, pseudo, steps, tolerance=tolerance)

        pseudo = PseudoLikelihood(self.synthesizer, self.data, self.unit, self.sampler)
        weighted = reweight(self.weighted, pseudo, steps, tolerance=tolerance)
        same = weighted.posterior is self.weighted.posterior
        used = self.used if same else []  # draws are never used twice
        return replace(self, weighted=weighted, protect=protect, used=used)

    @property
    def weights_from_file(self) -> bool:
        """Whether a privacy weight depends on other records: on their risks, or on constants tuned on them."""
        return self.policy is None and not (isinstance(self.mechanism, Censored) and not self.mechanism.weighted)

    def refitted(self, left_out: Sequence[int], rng: np.random.Generator) -> WeightedFit:
        """The fit anew, as if records (units) took no part: their risks aside, constants, privacy weights and draws.

        Their predictors stay, as they are public; so do the mean of the survey weights and risks by counting.

        Raises
        ------
        ModelError, PrivacyError, EngineError
            As :func:`surveysynth.fit`.
        """
        present = np.ones(self.unit.count(self.design.n))
        present[list(left_out)] = 0.0
        pseudo = PseudoLikelihood(self.synthesizer, self.data, self.unit, replace(self.sampler, rng=rng))
        return self.protect(pseudo, present, lambda text: None)[1]

    def log_ratio(self, other: WeightedFit, posterior: Draws) -> Floats:
        """Log pseudo likelihood of another fit of this file less that of this one, at draws of either: (S,)."""
        before, after = (self.unit.spread(weighted.alpha) for weighted in (self.weighted, other))
        clamp, n = self.weighted.clamp, self.design.n
        if clamp is None:
            return self.synthesizer.log_ratio(self.data, before, after, posterior)
        total = np.zeros(posterior.size)
        for some in np.array_split(np.arange(n), -(-n * posterior.size // BLOCK)):
            log_p = self.synthesizer.log_density(self.data, some, posterior)
            here, there = (np.clip(times(alpha[some], log_p), -clamp, clamp) for alpha in (before, after))
            total += (there - here).sum(axis=1)
        return total

    def contributions(self, records: Codes) -> Floats:
        """What records add to the log pseudo likelihood in every draw, alpha_i log p_i or its clamp: (S, records)."""
        alpha = self.unit.spread(self.weighted.alpha)[records]
        added = times(alpha, self.synthesizer.log_density(self.data, records, self.weighted.posterior))
        clamp = self.weighted.clamp
        return added if clamp is None else np.clip(added, -clamp, clamp)

    @property
    def epsilon_spent(self) -> float:
        """2 Delta of each data set released so far, added up; infinite of kind ``none``.

        Of this fit, and of those that it was re-weighted from or that were re-weighted from it: they share one file.
        """
        return math.fsum(self.spent)

    def release(
        self,
        m: int | None = None,
        *,
        epsilon: float | None = None,
        debias: bool = False,
        accept_diagnostics: Sequence[str] = (),
        ledger: Ledger | None = None,
        rule: IdentificationRule | None = None,
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
            model's own rule (:mod:`surveysynth.models.normal.debias`); assumes that the model is right.  The
            correction uses c1.  Tuned on this file, c1 stays internal, and the correction is **not covered by
            epsilon**: the report says so.  With ``PseudoPosterior(c1=...)`` it is post-processing, as it is under
            ``Censored(weighted=False)``, where the clamp is all there is to take off.
        accept_diagnostics : list of str
            What the caller accepts, by name: failed diagnostics ("divergences", "rhat", "ess_bulk",
            "ess_tail"), and "information": that privacy weights keep less than 30% of the file's information.
        ledger : Ledger, optional
            Asked before anything is drawn; both epsilons are entered before the data sets leave, and the
            manifest says number and head of the entry.
        rule : IdentificationRule, optional
            What the data sets must pass once they are drawn.  It looks at the confidential file: epsilon
            covers neither that a release was blocked, which is not to be published, nor that another one passed.

        Raises
        ------
        InputError
            accept_diagnostics under the censored mechanism; debias where privacy weights do not follow from a
            record's risk and constants (linear map, Count, re-weighting), in a paper's setting, of FBP with effects
            of PSUs, or of units of several records without such effects; a rule that does not suit the file.
        PrivacyError
            m data sets would spend more than epsilon, or than the ledger's cap leaves; no unused draws are left; the
            rule is broken, and then nothing is spent.
        NotFitForRelease
            A diagnostic failed, or privacy weights keep less than 30% of the file's information, and it was not
            accepted by name.
        """
        m = whole(self.m if m is None else m, "m")
        check_accepted(accept_diagnostics)
        check_rule(rule, self.design, self.synthesizer, self.mechanism)
        if epsilon is not None and self.kind == "none":
            raise InputError("what is drawn given the confidential records has no epsilon, and none is to be named")
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
            check_debias(self.synthesizer, self.mechanism, self.weighted.asked > 0)
        self._refuse_unfit(accept_diagnostics)
        posterior = self.weighted.posterior
        chosen, lag = choose_draws(posterior, m, self.streams.draws, self.used)
        spent = None if self.kind == "none" else self._published_epsilon(m, asked)
        if ledger is not None and spent is not None:
            ledger.check(spent)
        factor = self._variance_factor(chosen, corrected=debias)
        corrected = debias or bool(self._corrected)
        if debias and self.weighted.clamp is not None:
            posterior = self.synthesizer.uncensored(self.data, posterior, chosen, self.weighted.clamp)
        elif corrected:
            posterior = self.synthesizer.debias_draws(
                self.data, posterior, chosen, self._map, self.unit.of_record, self.streams.draws, debias=debias
            )
        self.used.extend(chosen)
        recoded, outcomes = public_frame(self.design, self.synthesizer, self.streams.order), self.synthesizer.outcomes
        simulated = [
            self.synthesizer.simulate(self.data, posterior, s, self.streams.values)
            for s in (range(m) if corrected else chosen)
        ]
        if rule is not None:
            try:
                rule.enforce(self.design, self.synthesizer, [s.outcomes for s in simulated])
            except PrivacyError:
                self.blocked.append(m)
                del self.used[-m:]  # they were not released
                raise
        entered = {}
        if ledger is not None:
            entry = ledger.spend(
                spent, None if spent is None else 2 * spent, kind=self.kind, unit=self.unit.column or "record",
                what=f"synthetic data, m = {m}, {self.synthesizer.name}: {', '.join(self.synthesizer.outcomes)}",
            )  # fmt: skip
            entered = {"ledger": entry.reference}
        # only now: what the ledger refuses is not released, and no later report is to count it
        self.spent.extend([np.inf if self.kind == "none" else 2 * self.delta] * m)
        totals = totals_of(self.design, self.population_total)
        roles = roles_of(self.design, outcomes, recoded, self.population_total)
        count_roles = count_roles_of(simulated[0], roles, [*recoded.columns, *outcomes])
        orders = [self.streams.order.permutation(self.design.n) for _ in simulated]
        datasets = [
            assemble(s, self.synthesizer, recoded, roles, count_roles, totals, order)
            for s, order in zip(simulated, orders, strict=True)
        ]
        return Release(
            datasets=tuple(datasets),
            privacy=self._report(m, asked, spent, lag, debias, factor, rule),
            predictors=tuple(c for c in recoded.columns if c in self.synthesizer.predictor_columns),
            outcomes=outcomes,
            categorical=self.synthesizer.categorical,
            method=self._manifest(debias) | ({} if factor is None else {"variance_factor": factor}) | entered,
            internal=self._internal() | {"rows": self.rows[np.array(orders)]},
            count_roles=count_roles,
        )

    def _refuse_unfit(self, accepted: Sequence[str]) -> None:
        """Refuse failed diagnostics, and little information, that were not accepted by name."""
        if self.weighted.clamp is not None and accepted:
            raise InputError(
                "a strict release is one of exact draws, for which only chains that passed can stand in: leave "
                "accept_diagnostics out, and run more draws if need be"
            )
        failed = [name for name in self.weighted.posterior.failures if name not in accepted]
        if failed:
            raise NotFitForRelease(
                f"the sampler's diagnostics failed ({', '.join(failed)}), so nothing is released. Run more draws "
                "(draws=, warmup=), simplify the model, or take the failure on yourself by name: "
                f"accept_diagnostics={failed}"
            )
        if self.little_left and "information" not in accepted:
            larger = "Ask for a larger epsilon or a smaller m, use fewer predictors, try reweight=10"
            raise NotFitForRelease(LITTLE_LEFT.format("Give a larger c1" if self._constants_given else larger))

    @property
    def _corrected(self) -> tuple[str, ...]:
        """What is always corrected, if privacy weights follow from a record's risk and constants."""
        biased = self.synthesizer.biased(self.data, self.unit.of_record)
        by_risk = isinstance(self.mechanism, PseudoPosterior) and self.mechanism.by_risk and self.weighted.asked == 0
        return tuple(what for what, can_be in biased.items() if can_be and by_risk)

    def _map(self, f: Floats, size: Codes | None = None) -> Floats:
        """Privacy weights from risks, by the constants of this fit; of units of several records, from sizes, too."""
        alpha = self.mechanism.alpha(f, self.weighted.c1, self.target)
        return alpha if size is None else even(alpha, size)

    @property
    def _constants_given(self) -> bool:
        """Whether what a correction uses was given: the clamp, or c1."""
        given_c1 = isinstance(self.mechanism, PseudoPosterior) and self.mechanism.c1 is not None
        return given_c1 or self.weighted.clamp is not None

    @property
    def _within_request(self) -> bool:
        """Whether the epsilon asked for bounds what is released; without it, or under a c1 given, it may not."""
        return self.epsilon is not None and self.delta <= self.target

    def _published_epsilon(self, m: int, asked: float | None) -> float:
        """Epsilon of m data sets from what was asked for, rounded up: the one that was reached tells of the file.

        Where nothing was asked for it is the one that was reached.
        """
        if asked is not None and not self._within_request:
            return asked
        return public_epsilon(2 * (self.target if self._within_request else self.delta) * m, asked)

    def _variance_factor(self, draws: Sequence[int], *, corrected: bool) -> float | None:
        """What the clamp costs, from the released draws and policy alone; under alpha = 1 only."""
        clamp, mechanism = self.weighted.clamp, self.mechanism
        if clamp is None or not isinstance(mechanism, Censored) or mechanism.weighted:
            return None
        posterior = self.weighted.posterior
        try:
            factor = self.synthesizer.variance_factor(self.data, posterior, draws, clamp, corrected=corrected)
        except ModelError:  # too tight a clamp: nothing is known of what it does
            return None
        return None if factor is None else float(f"{factor:.3g}")

    def _report(
        self, m: int, asked: float | None, spent: float | None, lag: float, debias: bool, factor: float | None,
        rule: IdentificationRule | None,
    ) -> PrivacyReport:  # fmt: skip
        posterior = self.weighted.posterior
        total = said_of_total(self.population_total, public_weights=self._public_weights)
        said = [
            "the predictors, the design columns in the files and the number of records of every cell are public; the "
            f"columns in the files are: {', '.join(public_columns(self.design, self.synthesizer))}",
            *([] if total is None else [total]),
            *self.synthesizer.assumptions(self.data),
            *self._said_of_bias(debias),
            *([] if factor is None else [COST.format(factor, factor**0.5)]),
            *self.said,
        ]
        if not posterior.diagnostics.exact:
            what = "pseudo" if self.weighted.clamp is None else "censored"
            said.append(f"draws by Markov chain Monte Carlo stand in for exact draws from the {what} posterior")
        if self.weighted.asked or not (self._constants_given or self.kind == "none"):  # said whether or not it was done
            said.append(
                "draws of a fit under nearby privacy weights may have been carried over to the weights of this release "
                "by importance weights (effective share of the draws at least 90%)"
            )
        earlier = len(self.spent) - m
        if earlier and self.kind != "none":
            reached = 2 * self.target * len(self.spent) if self._within_request else self.epsilon_spent
            together = public_epsilon(reached, None)
            where = "from the same fit before"
            if len(self.spent) > len(self.used):  # of other privacy weights, which have draws of their own
                where = "before, from the same fit or from it before or after re-weighting"
            said.append(
                f"{earlier} data sets were released {where}; together with these they spend epsilon = {together:g}"
            )
        if posterior.failures:  # all of them accepted, or nothing were released
            said.append(f"failed diagnostics that the agency accepted by name: {', '.join(posterior.failures)}")
        d, lipschitz = posterior.diagnostics, isinstance(self.mechanism.risk, LipschitzRisk)
        unweighted = float(self.risk.max()) if lipschitz else np.nan
        internal = {
            "epsilon_exact": None if self.kind == "none" else 2 * self.delta * m, "delta": self.delta,
            "delta_unweighted": unweighted if np.isfinite(unweighted) else None,  # JSON has no other numbers
            "c1": self.weighted.c1, "c2": self.mechanism.c2, "map": self.mechanism.map, "delta_target": self.target,
            "divergences": d.divergences, "rhat": d.rhat, "ess_bulk": d.ess_bulk, "ess_tail": d.ess_tail,
            "released_draws_lag_correlation": lag,
            "epsilon_spent_by_this_fit": None if self.kind == "none" else self.epsilon_spent,
            "releases_blocked_by_a_rule_before": len(self.blocked),
            "mean_alpha": self.mean_alpha,
            "weighted_down": self.weighted.weighted_down,
            "reweighting_steps": self.weighted.steps, "k": self.weighted.k,
            "clamp": self.weighted.clamp, "invocations": self.weighted.invocations,
        }  # fmt: skip
        if posterior.diagnostics.exact or len(self.used) == 1:
            separated = ""
        elif lag == 0:
            separated = " The released draws are from different chains."
        else:
            separated = (
                f" Released draws of one chain are apart: lag correlation {'below' if lag < 0.1 else 'ABOVE'} 0.1."
            )
        return PrivacyReport(
            kind=self.kind, epsilon=np.inf if spent is None else spent, epsilon_requested=asked, m=m,
            draws=posterior.size if self.weighted.clamp is None and self.kind != "none" else 0,
            verdict=verdict(posterior) + separated,
            assumptions=said, data_dependent=self._depends(debias, rule, reached=asked is None or earlier > 0),
            publishable=not self.seeded, little_left=self.little_left,
            unit=self.unit.column, mechanism=self.mechanism.name, internal=internal,
        )  # fmt: skip

    def _said_of_bias(self, debias: bool) -> list[str]:
        """What privacy weights, or the clamp, do to the model, and what was taken off."""
        clamp = self.weighted.clamp
        if clamp is not None:
            said = [DEBIASED.format("the clamp"), BY_GIVEN_CONSTANTS] if debias else [CLAMPED.format(clamp)]
            said += [NEIGHBOURS] if self._public_weights else [NEIGHBOURS, SCALED]
            return [*said, FLOATING_POINT] + ([] if self.policy is None else [self.policy.describe()])
        said = [DEBIASED.format("the privacy weights") if debias else NARROWED]
        if self._corrected:
            said.append(CORRECTED.format(" and ".join(self._corrected)))
        if self._constants_given and (debias or self._corrected):
            said.append(BY_GIVEN_CONSTANTS)
        left = [what for what in self.synthesizer.biased(self.data, self.unit.of_record) if what not in self._corrected]
        if left:
            said.append(NOT_CORRECTED.format(" and ".join(left)))
        return said

    def _depends(self, debias: bool, rule: IdentificationRule | None, *, reached: bool) -> list[str]:
        """What was computed from the confidential file and is not covered by epsilon.

        ``reached``: whether an epsilon that was not asked for is printed.
        """
        passed = [] if rule is None else [rule.describe()]
        found = [ONLY_WHETHER, WHETHER_ENOUGH if self.weighted.clamp is None else MODES, PUBLIC_OR_NOT, *passed]
        if self.kind == "strict":
            return found
        tuned = " and their scale c1, tuned on this file" if self.mechanism.c1 is None else "; their scale c1 was given"
        depends = [f"the privacy weights (map {self.mechanism.map} of {self.mechanism.risk.describe()}){tuned}"]
        if self.unit.classes > 1:
            depends.append(EVENED)
        if self.weighted.clamp is not None:
            return [*depends, *found]
        if isinstance(self.mechanism, WeightedE):
            depends.append(
                "which records have weight 0, as their bound exceeded epsilon / (2 m), and a factor of the others"
            )
        if self.weighted.asked:
            depends.append(
                "the privacy weights once more, which were raised where bounds lay below the overall one "
                f"(re-weighting, steps asked for: {self.weighted.asked}, taken as long as weights rose)"
            )
        if self.kind != "none" and reached and not self._within_request:
            depends.append(EPSILON_REACHED)
        if not self._public_weights:
            depends.append("the mean of the survey weights, to which they are scaled before they are modelled")
            depends += [SUM_OF_WEIGHTS] if self.population_total is None else []
        if self.synthesizer.categorical:
            depends.append(f"which categories of {', '.join(self.synthesizer.categorical)} occur")
        if (debias or self._corrected) and not self._constants_given:
            depends.append(BY_TUNED_CONSTANTS)
        return [*depends, *found]

    def _manifest(self, debias: bool) -> dict[str, Any]:
        posterior = self.weighted.posterior
        c = self.mechanism
        constants: dict[str, Any] = {"covered_by_epsilon": self._constants_given}
        if self.weighted.clamp is not None:
            constants |= {"clamp": self.weighted.clamp}
        else:
            constants |= {"map": c.map, "c2": c.c2}
            constants |= {"c1": self.weighted.c1, "target": self.target} if self._constants_given else {}
        return {
            "package": {"surveysynth": __version__},
            "engine": {"name": posterior.engine, "version": posterior.version},
            **self.synthesizer.describe(self.data),
            **({"debias": constants} if debias else {}),
            **({"corrected": {"what": list(self._corrected), **constants}} if self._corrected else {}),
        }

    @property
    def _public_weights(self) -> bool:
        return bool(self.synthesizer.describe(self.data)["weights"] == "public")

    def _internal(self) -> dict[str, Any]:
        """Record-level risks and weights, and the draws that were not released."""
        posterior = self.weighted.posterior
        unused = np.setdiff1d(np.arange(posterior.size), self.used)
        risk = self.mechanism.risk.name
        columns = {risk: self.risk, "alpha": self.weighted.alpha, "bound": self.weighted.bounds}
        of_records = {name: self.unit.spread(values) for name, values in columns.items()}
        records = pd.DataFrame(of_records, index=pd.Index(self.rows, name="row"))
        values = posterior.values | {"weight": posterior.weight}
        return {"records": records, "draws": {name: draws[unused] for name, draws in values.items()}}


def choose_draws(
    posterior: Draws, m: int, rng: np.random.Generator, used: Sequence[int] = ()
) -> tuple[list[int], float]:
    """Choose m well separated draws, from different chains where there are enough.

    Returns
    -------
    draws : list of int
        Positions in the posterior, none of them in ``used`` and, of one chain, none of them near one.
    lag_correlation : float
        Largest absolute autocorrelation, over parameters, at the smallest lag between two
        draws of one chain that are released, now or before; 0 where no two share a chain or draws are independent.
    """
    chains = rng.permutation(np.unique(posterior.chain))
    before = np.asarray(used, dtype=np.intp)
    chosen: list[int] = []
    lag_correlation = 0.0
    for k, chain in enumerate(chains):
        wanted = m // len(chains) + (k < m % len(chains))
        whole = np.flatnonzero(posterior.chain == chain)
        members, earlier = np.setdiff1d(whole, before), np.intersect1d(whole, before)
        if wanted > members.size:
            raise PrivacyError("no unused posterior draws are left for this many data sets; fit again with more draws")
        if wanted == 0:
            continue
        if earlier.size and not posterior.diagnostics.exact:
            distance = np.abs(members[:, None] - earlier).min(axis=1)
            far = members[distance >= whole.size // (4 * (earlier.size + wanted))]
            members = far if far.size >= 2 * wanted else members
        # one draw from the first half of each of `wanted` stretches: no two are near
        stretches = [s[: (s.size + 1) // 2] if wanted > 1 else s for s in np.array_split(members, wanted)]
        weights = [posterior.weight[s] for s in stretches]
        picked = [int(rng.choice(s, p=w / w.sum())) for s, w in zip(stretches, weights, strict=True)]
        chosen += picked
        released = np.sort(np.concatenate([earlier, picked]))
        if released.size > 1 and not posterior.diagnostics.exact:
            lag = int(np.diff(released).min())
            lag_correlation = max(lag_correlation, _autocorrelation(posterior, whole, lag))
    return chosen, lag_correlation


def _autocorrelation(posterior: Draws, chain: NDArray[np.intp], lag: int) -> float:
    x = np.column_stack([v[chain].reshape(chain.size, -1) for v in posterior.values.values()])
    x = x[:, x.min(axis=0) < x.max(axis=0)] - x.mean(axis=0)[x.min(axis=0) < x.max(axis=0)]
    return float(np.abs((x[lag:] * x[:-lag]).sum(axis=0) / (x**2).sum(axis=0)).max())


def verdict(posterior: Draws) -> str:
    """Whether the sampler's diagnostics passed, in a sentence."""
    failed = posterior.failures
    if posterior.diagnostics.exact and not failed:
        return "The draws are independent, without Markov chains."
    if failed:
        return f"Sampler diagnostics failed: {', '.join(failed)}."
    return "Sampler diagnostics passed: no divergences, R-hat at most 1.01, bulk and tail ESS at least 400."


def check_accepted(accepted: Sequence[str]) -> None:
    """Refuse what is no list of names of what can be accepted."""
    names = ("divergences", "rhat", "ess_bulk", "ess_tail", "information")
    if isinstance(accepted, str) or not set(accepted) <= set(names):
        raise InputError(f"accept_diagnostics is a list of names among {', '.join(names)}")


def check_rule(
    rule: IdentificationRule | None, design: SurveyDesign, synthesizer: Synthesizer, mechanism: Mechanism
) -> None:
    """Refuse what is no rule, one that does not suit the file, and one that would take a strict guarantee away."""
    if not isinstance(rule, IdentificationRule | None):
        raise InputError("rule must be a surveysynth.IdentificationRule(known, most=0.5)")
    if rule is None:
        return
    if isinstance(mechanism, Censored):
        raise InputError(
            "a rule looks at the confidential file, and data sets that were let through by it are no longer strictly "
            "private: leave the rule out, or use the pseudo posterior. On a historical file, identification_risk tells "
            "what to expect"
        )
    rule.check(design, synthesizer)


def check_debias(synthesizer: Synthesizer | None, mechanism: Mechanism, reweighted: bool) -> None:
    """Refuse to correct for privacy weights that do not follow from the record and constants, or a paper's setting."""
    if isinstance(mechanism, WeightedE) or (isinstance(mechanism, Censored) and mechanism.weighted):
        raise InputError(
            "debias takes off what the weights of PseudoPosterior() or the clamp of Censored(weighted=False) do"
        )
    if not (mechanism.by_risk or isinstance(mechanism, Censored)):
        raise InputError(
            "debias needs privacy weights that follow from a record's risk and constants: use the inverse map of "
            "Lipschitz() risks. The linear map has the file's own least and largest risk among its constants, and a "
            "risk by counting looks at the other records"
        )
    if reweighted:
        raise InputError("debias takes off what the inverse map does, and re-weighting changes it: use one of them")
    if synthesizer is not None and synthesizer.as_in_paper:
        raise InputError("debias is no part of the paper's setting; use FBP(...) instead of FBP.paper(...)")


def check_steps(steps: int, mechanism: Mechanism) -> int:
    """Steps of re-weighting as a number, if they are one and the mechanism has bounds to raise."""
    steps = int(steps) if isinstance(steps, bool | np.bool_) else steps
    if isinstance(steps, int | np.integer) and steps == 0:
        return 0
    if isinstance(mechanism, Censored):
        raise InputError(
            "re-weighting raises Lipschitz bounds that lie below the overall one; under the censored mechanism the "
            "clamp is the bound of every record: use PseudoPosterior or WeightedE"
        )
    return whole(steps, "reweight")
