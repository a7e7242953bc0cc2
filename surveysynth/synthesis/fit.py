"""A model that is fitted to confidential records, and its releases of m synthetic data sets with a privacy report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError, NotFitForRelease, PrivacyError, breakdown_as_error
from ..expenses import Expense, id_of, new_id
from ..models.base import Boundable, Debiasable
from ..models.draws import Draws, Synthetic
from ..privacy.accounting.ledger import Ledger
from ..privacy.budget import MOST_DATASETS, Budget
from ..privacy.mechanisms.base import LEAST_INFORMATION
from ..privacy.protected_fit import ProtectedFit, PseudoLikelihood, times
from ..privacy.release_rule import IdentificationRule
from ..privacy.report import public_epsilon
from ..privacy.tuning import reweight
from ..release.release import Release
from ..validation import positive, whole
from . import fit_report
from .draws import choose_draws
from .edits import redrawn
from .fit_request import ReleaseRequest, check_steps, release_request
from .fitted_model import FittedModel, Spending
from .synthetic_design import assemble, count_roles_of, public_columns, public_frame, roles_of, totals_of

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK = 4_000_000  # largest number of contributions in memory at once
LITTLE_LEFT = (
    f"the privacy weights keep less than {LEAST_INFORMATION:.0%} of the file's information, so nothing is released: "
    "means and totals of the synthetic files could be far off, more than their intervals say. {}, or accept "
    "that by name: accept_diagnostics=['information'] (--accept information)"
)


@dataclass(frozen=True, repr=False)
class DataSets:
    """The synthetic data sets of a release, with facts for the report.

    ``internal`` has facts for the agency only.  ``count_roles`` has the columns that are weights, strata and PSUs for
    standard errors of counts, if these differ from the columns for other statistics.  ``redrawn`` has, for each data
    set, the share of records that broke an edit rule and were drawn again.
    """

    datasets: tuple[SurveyDesign, ...]
    internal: dict[str, Any]
    count_roles: dict[str, Any] | None = None
    redrawn: Sequence[float] = ()


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class SelectedDraws:
    """The posterior draws that a release uses.

    ``positions`` are their positions among all draws of the posterior.  Data are simulated from ``draws``, at the
    positions ``simulated``.  These draws may be corrected for the bias that privacy weights or a clamp cause.
    """

    positions: list[int]
    draws: Draws  # the corrected draws of the release or, without a correction, all draws of the posterior
    simulated: Sequence[int]  # positions of the released draws among ``draws``


class Fit(FittedModel):
    """A synthesizer fitted to a design under the protection of a mechanism.  The whole object is confidential.

    One fit can make several releases: ``fit.release(m=3)``.  Each release spends its own epsilon, and no draw is used
    twice.

    Attributes
    ----------
    design : SurveyDesign
        The confidential file, without the records that were not fitted.
    rows : int array (n,)
        Row in the file of each of the n records of ``design``, from 0.
    synthesizer : Synthesizer
        The model.
    mechanism : RecordMechanism
        How records are protected.
    policy : Policy or None
        The policy, if model, budget and the rule for privacy weights were set on a historical file.
    records : Records
        The records to which the model was fitted.
    unit : Unit
        The unit that epsilon protects: a record, or a group of records.
    weighted : ProtectedFit
        The draws from the posterior under the mechanism, with privacy weights and risks.
    budget : Budget
        The budget of a release of the requested m data sets.
    population_total : float or dict of stratum to float, or None
        The public total or totals to which synthetic weights add up.  None means the sum of the
        survey weights.
    report_notes : list of str
        Sentences that are added to the privacy report.
    sampler, streams, protect : objects
        Internal objects that make draws and protected fits.
    seeded : bool
        True if a seed was given.  Releases with a seed are not for publication.
    used : list of int
        Positions of the draws that were used for releases.
    spent : list of float
        Epsilon of each released data set, of this fit and of all fits that were re-weighted from it.
    blocked : list of int
        For each release that a rule refused, the number m of data sets.
    coded : dict of str to dtype
        Types of the categories that are coded as numbers and whose levels were declared in the call.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> model = ss.FBS("salary ~ field + gender", prior="flat")
    >>> fit = ss.fit(design, model, epsilon=10.8, mechanism=ss.PseudoPosterior())
    >>> fit.kind, fit.epsilon_spent
    ('asymptotic', 0.0)
    >>> release = fit.release(m=2)
    >>> 0 < fit.epsilon_spent <= 7.2
    True
    """

    def reweighted(self, steps: int = 1, *, tolerance: float = 0.01) -> Fit:
        """Raise the privacy weights of records whose Lipschitz bounds lie below the overall bound, at the same epsilon.

        The Lipschitz bound of record i with density p_i and privacy weight alpha_i is max_s alpha_i |log p_i| over the
        posterior draws s.  The overall bound Delta is the largest bound of a record.

        Source: Hu, Savitsky & Williams 2020, Algorithm 1.

        Parameters
        ----------
        steps : int
            Largest number of steps.  Re-weighting ends sooner if a step does not raise the sum of the weights.
        tolerance : float
            The new overall bound may be lower than Delta of this fit by at most this share of Delta.

        Returns
        -------
        Fit
            A fit that shares :attr:`epsilon_spent` with this fit.  If no weight can be raised, draws and privacy
            weights are those of this fit.  Draws of a re-weighted fit are never corrected for privacy weights:
            ``debias`` is refused, and the model's own corrections (of the spread between PSUs and of shares) are left
            out.

        Raises
        ------
        InputError
            The mechanism clamps contributions, so that no bound can be raised; ``steps`` is not a whole number of at
            least 1; or ``tolerance`` is not between 0 and 1.
        """
        steps = check_steps(steps, self.mechanism)
        whole(steps, "steps")
        if positive(tolerance, "tolerance") >= 1:
            raise InputError("tolerance must be below 1")

        def protect(pseudo: PseudoLikelihood, present: Floats, say: Callable[[str], None]) -> ProtectedFit:
            return reweight(self.protect(pseudo, present, say), pseudo, steps, tolerance=tolerance)

        pseudo = PseudoLikelihood(self.synthesizer, self.records, self.unit, self.sampler)
        weighted = reweight(self.weighted, pseudo, steps, tolerance=tolerance)
        same = weighted.posterior is self.weighted.posterior
        used = self.used if same else []  # draws are never used twice
        return replace(self, weighted=weighted, protect=protect, used=used)

    def refitted(self, left_out: Sequence[int], rng: np.random.Generator) -> ProtectedFit:
        """Fit again without some records or units.  The scale c1, privacy weights and draws are computed again.

        The predictors of the records that are left out are public and remain in the fit.  The mean of the survey
        weights, and risks by counting other records (:class:`surveysynth.CountRisk`), are still computed from all
        records.

        Parameters
        ----------
        left_out : sequence of int
            Positions of the records, or of the units that epsilon protects, from 0.
        rng : numpy.random.Generator
            Source of the draws.

        Returns
        -------
        ProtectedFit
            The new fit, which is confidential.

        Raises
        ------
        ModelError, PrivacyError, EngineError
            See :func:`surveysynth.fit`.
        """
        present = np.ones(self.unit.count(self.design.n))
        present[list(left_out)] = 0.0
        pseudo = PseudoLikelihood(self.synthesizer, self.records, self.unit, replace(self.sampler, rng=rng))
        return self.protect(pseudo, present, lambda text: None)

    def log_ratio(self, other: ProtectedFit, posterior: Draws) -> Floats:
        """Return the log pseudo likelihood of another fit to this file minus the log pseudo likelihood of this fit.

        Both are computed at the same draws of the parameters.

        Parameters
        ----------
        other : ProtectedFit
            The other fit.
        posterior : Draws
            S draws of the parameters, from one of the two fits.

        Returns
        -------
        float array (S,)
            The difference at each draw.
        """
        before, after = (self.unit.spread(weighted.alpha) for weighted in (self.weighted, other))
        clamp, n = self.weighted.clamp, self.design.n
        if clamp is None:
            return self.synthesizer.log_ratio(self.records, before, after, posterior)
        total = np.zeros(posterior.size)
        for block in np.array_split(np.arange(n), -(-n * posterior.size // BLOCK)):
            log_p = self.synthesizer.log_density(self.records.subset(block), posterior)
            here, there = (np.clip(times(alpha[block], log_p), -clamp, clamp) for alpha in (before, after))
            total += (there - here).sum(axis=1)
        return total

    def contributions(self, records: Codes) -> Floats:
        """Return the contributions of some records to the log pseudo likelihood at the draws of this fit.

        Record i, with privacy weight alpha_i and density p_i, contributes alpha_i log p_i.  If the mechanism has a
        clamp, a contribution outside [-clamp, clamp] is moved to the nearer limit.

        Parameters
        ----------
        records : int array (r,)
            Positions of r records, from 0.

        Returns
        -------
        float array (S, r)
            One row for each of the S draws.
        """
        alpha, clamp = self.unit.spread(self.weighted.alpha)[records], self.weighted.clamp
        added = times(alpha, self.synthesizer.log_density(self.records.subset(records), self.weighted.posterior))
        return added if clamp is None else np.clip(added, -clamp, clamp)

    def release(
        self,
        m: int | None = None,
        *,
        epsilon: float | None = None,
        debias: bool = False,
        accept_diagnostics: Sequence[str] = (),
        ledger: Ledger | None = None,
        rule: IdentificationRule | None = None,
        edits: Sequence[str] | str | None = None,
    ) -> Release:
        """Release m weighted synthetic data sets from this fit.

        Parameters
        ----------
        m : int, optional
            Number of data sets.  The default is the m for which the fit was made.
        epsilon : float, optional
            Largest epsilon of this release.  The default is the epsilon of the fit.
        debias : bool
            Correct the released draws for the effect of privacy weights, or of the clamp, on the model, by the
            model's own rule (:mod:`surveysynth.models.corrections`).  This assumes that the model is right.  The
            correction for privacy weights uses their scale c1.  If c1 was tuned on this file, c1 is not published, and
            the correction is **not covered by epsilon**, as the report says.  With ``PseudoPosterior(c1=...)`` and with
            ``Censored(weighted=False)`` the correction is post-processing.
        accept_diagnostics : list of str
            Names of the problems in spite of which you make the release: failed diagnostics of the sampler
            ("divergences", "rhat", "ess_bulk", "ess_tail"), and "information" if privacy weights keep less than 30% of
            the file's information.
        ledger : Ledger, optional
            The ledger of the survey.  The ledger's cap is checked before data are simulated.  Epsilon, and twice
            epsilon for replacing a record, are entered before the release is returned.  The manifest of the release has
            the number of this entry and its hash.
        rule : IdentificationRule, optional
            Rule that the data sets must pass.  The rule looks at the confidential file.  Epsilon covers neither a
            refusal, which must not be published, nor the fact that a release passed.
        edits : list of str, optional
            Public rules that every synthetic record must obey, as conditions on columns of the files:
            ``["rent <= income", "hours > 0 or wages == 0"]``.  Records that break a rule are drawn again from the same
            parameters.  Neither epsilon nor the model of the other records changes.

        Returns
        -------
        Release
            m data sets.  Each data set comes from a draw of the parameters that no other release used.

        Raises
        ------
        InputError
            An edit rule is not a condition on columns of the files.  ``accept_diagnostics`` is given under the censored
            mechanism, whose guarantee needs draws that passed, or has an unknown name.  ``debias`` is given, but the
            mechanism has no correction: privacy weights are not the inverse map of Lipschitz bounds, or were raised by
            re-weighting, or are combined with a clamp.  ``debias`` is given, but the model has no correction: it is in
            the setting of a paper, or is FBP with effects of PSUs, or has no effects of PSUs although units of several
            records are protected.  The file does not have the columns of ``rule``.  ``m`` or ``epsilon`` is not valid,
            or the ledger has this release already.
        PrivacyError
            m data sets would spend more than epsilon or exceed the ledger's cap, or there are too few unused draws.  Or
            the data sets break ``rule``; then nothing is spent.
        NotFitForRelease
            A diagnostic failed, or privacy weights keep less than 30% of the file's information, and the agency did not
            accept this by name.
        ModelError
            Some records break an edit rule in each of 100 draws.  Nothing is spent.
        """
        return self.drawn(
            release_request(
                self.design, self.synthesizer, self.mechanism, None, self.weighted.asked, debias=debias,
                accept_diagnostics=accept_diagnostics, ledger=ledger, rule=rule, edits=edits,
            ), m, epsilon,
        )  # fmt: skip

    def drawn(self, asked: ReleaseRequest, m: int | None = None, epsilon: float | None = None) -> Release:
        """Make a release from arguments of :meth:`release` that were checked.

        Parameters
        ----------
        asked : ReleaseRequest
            The checked request.
        m, epsilon
            See :meth:`release`.

        Returns
        -------
        Release
            m data sets.

        Raises
        ------
        InputError, PrivacyError, NotFitForRelease, ModelError
            See :meth:`release`.
        """
        rule, rules, debias = asked.rule, asked.edits, asked.debias
        spending = self._spending(m, epsilon)
        self._refuse_unfit(asked.accepted)
        positions, lag = choose_draws(self.draws, spending.m, self.streams.draws, self.used)
        spending, expense = replace(spending, lag=lag), self._expense(spending, positions)
        if asked.ledger is not None and spending.epsilon is not None:
            asked.ledger.check(spending.epsilon, (expense,))
        with breakdown_as_error():
            factor = self._variance_factor(positions, corrected=debias)
            selected = self._corrected_draws(positions, debias)
        self.used.extend(positions)  # the draws count as used even if the release fails
        with breakdown_as_error():
            made = self._data_sets(spending.m, selected, rules, rule)
            found = {} if factor is None else {"variance_factor": factor}
            self.spent.extend(self._spent_by(spending.m))
            release = Release(
                datasets=made.datasets,
                privacy=fit_report.report(self, spending, debias, factor, rule, rules, made.redrawn),
                predictors=tuple(
                    c for c in public_columns(self.design, self.synthesizer) if c in self.synthesizer.predictor_columns
                ),
                outcomes=self.synthesizer.outcomes,
                categorical=self.synthesizer.categorical,
                method=fit_report.method(self, debias) | found | ({"edits": rules} if rules else {}),
                internal=fit_report.internal(self) | made.internal,
                count_roles=made.count_roles,
                rests_on=(expense,),
            )
            try:
                return release.entered(asked.ledger)
            except BaseException:  # later reports do not count a release that the ledger refuses
                del self.spent[-spending.m :]
                raise

    def _data_sets(
        self, m: int, selected: SelectedDraws, rules: Sequence[str], rule: IdentificationRule | None
    ) -> DataSets:
        """Simulate m data sets that obey the edit rules and pass the release rule."""
        public = public_frame(self.design, self.synthesizer, self.streams.order)
        values = self.streams.values
        simulated = [*self.synthesizer.simulations(self.records, selected.draws, selected.simulated, values)]
        simulated, shares = self._edited(simulated, selected, rules, public)
        self._enforce(rule, simulated)
        roles = roles_of(self.design, self.synthesizer.outcomes, public, self.population_total)
        count_roles = count_roles_of(simulated[0], roles, [*public.columns, *self.synthesizer.outcomes])
        totals = totals_of(self.design, self.population_total)
        datasets, rows = list[SurveyDesign](), np.empty((m, self.design.n), dtype=self.rows.dtype)
        for k in range(m):  # one after the other, as each data set of a large file takes much memory
            order = self.streams.order.permutation(self.design.n)
            made = simulated.pop(0)
            datasets.append(assemble(
                made, self.synthesizer, public, roles, count_roles, totals, order, self.coded
            ))  # fmt: skip
            rows[k] = self.rows[order]
        return DataSets(tuple(datasets), {"rows": rows}, count_roles, shares)

    def _spending(self, m: int | None, epsilon: float | None) -> Spending:
        """Return the budget of m data sets.  Raise PrivacyError if m data sets would exceed the requested epsilon."""
        m = whole(self.budget.m if m is None else m, "m", MOST_DATASETS)
        if epsilon is not None and self.kind == "none":
            raise InputError("what is drawn given the confidential records has no epsilon: leave epsilon out")
        asked = self.budget.epsilon if epsilon is None else positive(epsilon, "epsilon")
        if asked is not None and self.budget_of(m).spent(self.delta) > asked:
            raise PrivacyError(
                f"{m} data sets from this fit would spend more than epsilon = {asked:g}: it was "
                f"{self.mechanism.made.format(self.budget.m)}. Fit again, or name a larger epsilon= here"
            )
        return Spending(m, asked, None if self.kind == "none" else self._published_epsilon(m, asked))

    def _corrected_draws(self, positions: list[int], debias: bool) -> SelectedDraws:
        """Return the draws of a release, with the mechanism's bias corrected if ``debias`` or the model asks for it."""
        model, records = self.synthesizer, self.records
        if not (debias or self.corrected):
            return SelectedDraws(positions, self.draws, positions)
        if self.mechanism.clamps:
            assert isinstance(model, Boundable) and self.weighted.clamp is not None
            corrected = model.uncensored(records, self.draws, positions, self.weighted.clamp)
            return SelectedDraws(positions, corrected, range(len(positions)))
        assert isinstance(model, Debiasable)  # ensured by check_debias
        alpha = self.mechanism.weigh_again(self.weighted, self.budget.bound)
        corrected = model.debias_draws(
            records, self.draws, positions, alpha, self.unit.by_record, self.streams.draws, debias=debias
        )
        return SelectedDraws(positions, corrected, range(len(positions)))

    def _edited(
        self, simulated: list[Synthetic], selected: SelectedDraws, rules: Sequence[str], public: pd.DataFrame
    ) -> tuple[list[Synthetic], list[float]]:
        """Replace the records that break an edit rule by new draws, until all records obey the rules.

        Return the data sets, and for each data set the share of records that were drawn again.
        """
        if not rules:
            return simulated, []

        def frame(made: Synthetic) -> pd.DataFrame:
            return public.assign(**self.synthesizer.columns_of(made))

        def again(s: int) -> Callable[[], Synthetic]:
            return lambda: next(self.synthesizer.simulations(self.records, selected.draws, [s], self.streams.values))

        found = [redrawn(made, again(s), rules, frame) for made, s in zip(simulated, selected.simulated, strict=True)]
        return [made for made, _ in found], [share for _, share in found]

    def _enforce(self, rule: IdentificationRule | None, simulated: Sequence[Synthetic]) -> None:
        """Raise PrivacyError for data sets that break the release rule.  Their draws may then be used again."""
        if rule is None:
            return
        try:
            rule.enforce(self.design, self.synthesizer, [made.outcomes for made in simulated])
        except PrivacyError:
            self.blocked.append(len(simulated))
            del self.used[-len(simulated) :]
            raise

    def _refuse_unfit(self, accepted: Sequence[str]) -> None:
        """Raise NotFitForRelease if diagnostics fail or too little information is left, unless this is accepted.

        ``accepted`` has the names of what the agency accepts.
        """
        failed = [name for name in self.draws.failures if name not in accepted]
        # a strict guarantee needs exact draws, so no failure can be accepted
        accept = "" if self.kind == "strict" else f"; or accept the failure by name: accept_diagnostics={failed}"
        if failed:
            raise NotFitForRelease(
                f"the sampler's diagnostics failed ({', '.join(failed)}), so nothing is released. "
                + self.mechanism.advice(self.sampler.warmup, self.sampler.draws)
                + accept
            )
        if self.little_left and "information" not in accepted:
            raise NotFitForRelease(LITTLE_LEFT.format(self.mechanism.more_left))

    def _expense(self, spending: Spending, positions: Sequence[int]) -> Expense:
        """Return the expense that a release adds to a ledger: its epsilon, and twice epsilon for replacing a record.

        The expense has an id, so that the ledger counts it only once.  The id is random or, with a seed, a hash of the
        released draws.
        """
        released = self.draws.subset(positions).values.values()
        id = id_of("draws", *released) if self.seeded else new_id()
        replaced = None if spending.epsilon is None else 2 * spending.epsilon
        return Expense("draws", spending.epsilon, replaced, id)

    def _spent_by(self, m: int) -> list[float]:
        """Return the epsilon that each of m data sets spends, which is infinite for a guarantee of the kind "none"."""
        return [np.inf if self.kind == "none" else Budget(None, 1).spent(self.delta)] * m

    def _published_epsilon(self, m: int, asked: float | None) -> float:
        """Return the epsilon that is published for m data sets.

        The epsilon that the fit reached depends on the file, so a requested epsilon is published if possible.  If the
        fit keeps the epsilon that was requested for it, the share of that epsilon for m data sets is published.
        Otherwise ``asked``, the epsilon that was requested for this release, is published.  If no epsilon was
        requested, the epsilon that was reached is published, rounded up.
        """
        if asked is not None and not self.within_request:
            return asked
        return public_epsilon(self.budget_of(m).spent(self.budget.bound if self.within_request else self.delta), asked)

    def _variance_factor(self, draws: Sequence[int], *, corrected: bool) -> float | None:
        """Return the factor by which the clamp raises variances, or None if there is no clamp or the factor is unknown.

        The factor is computed from the draws at the positions ``draws``, which are released, so it reveals nothing
        else.  ``corrected`` is True if the draws are corrected for the clamp.  The result is also None if the mechanism
        has privacy weights.
        """
        if not self.mechanism.clamp_alone:
            return None
        model, clamp = self.synthesizer, self.weighted.clamp
        assert isinstance(model, Boundable) and clamp is not None
        try:
            factor = model.variance_factor(self.records, self.draws, draws, clamp, corrected=corrected)
        except ModelError:  # the clamp is so tight that its effect is unknown
            return None
        return None if factor is None else float(f"{factor:.3g}")
