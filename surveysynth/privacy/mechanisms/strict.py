"""The strict mechanism: the clipped log likelihood ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, ModelError, PrivacyError
from ...expenses import Expense
from ...models.base import Boundable, Relative, Synthesizer
from ...models.draws import Draws
from ...models.normal.fbs import FBS
from ...models.sequential import Sequential, SequentialRecords
from ...models.shared.clipped_fit import known_of
from ...validation import is_finite, positive
from ..budget import Budget
from ..protected_fit import ProtectedFit, PseudoLikelihood
from ..reference import Published, Reference, published
from ..report import Kind
from .base import LONGER, Assessment, Mechanism, Say

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

LEAST_CLAMP = (1.0, 1.4, 1.8)  # of one, two, three and more numbers a record: below, too much of the score is cut off
# Of outcomes with a tail, whose log ratio to a reference that is a little off grows with it. What the clamp takes off
# there moves the mean where real life is not quite the model: visits to a doctor, 2,000 records, by 4.6% with 1.4 and a
# first draw under an epsilon of .25, by 1.3% with 2 and .5.
TAILED_CLAMP, TAILED_SHARE = 2.0, 0.1  # the latter of epsilon for the first draw, at the least: there are no scores
# Score that a record loses, on average, at the nearest rival mode under that clamp: by quadrature in one dimension,
# with t errors of 5 degrees of freedom, references up to 1 standard deviation off; beyond 1.8 there is none.
GAP, MARGIN = (0.35, 0.55, 0.7), 10.0
# Standard errors of a mean that the noise of normal scores adds, times epsilon_scores sqrt(n), with 2,000 and 10,000
# records (epsilon_scores 0.9 and 0.4) and bounds 1.1 to 10 times the 99.9th percentile: 31 and 88 for census incomes,
# which have heaps and a top code, 18 and 13 for incomes of households, 8 and 10 for a lognormal outcome, 16 and 23 for
# one with a Pareto tail.
NOISE_OF_SCORES = 20.0
SCORES_SHARE = 0.3  # of epsilon, at the most
PSU_SHARES = 0.3, 0.06  # the same for the share of the variance that lies between PSUs: at the most, of epsilon
CATEGORY_SHARES = 0.3, 0.04  # the same for shares of categories in their cells: counts to 5 records at .3
SECONDS, PER_RECORD, PER_ROW = 8.0, 1e-4, 6e-3  # of a release, in all, a record, and a row of predictors of its own
ON_GRID, PER_GRID_RECORD = 1_000_000, 2e-5  # records, from which more of them are hardly more points of a grid
FIRST_CLAMP = 2.0
FIRST_LEAST, FIRST_PER_PARAMETER, FIRST_SHARE = 0.25, 27.0, 0.3  # epsilon of the first draw; its share of the whole
# Parameters for each record's worth of information of the first draw, from which it is a rough reference.  With 31 and
# 210 such records means have 1.4 times the posterior variance that tempering gives them; measured against a draw of
# that posterior, which has 715, 1.15 times.
ROUGH = 0.03
FIRST_RECORDS = 100_000  # of the first draw, at the most: they say to .02 where the file lies, which is near enough
MEASURED = (
    "log densities of records are measured against a reference ({}), clamped to plus or minus {:.3g}, and multiplied "
    "by {:.3g}; the expectation of the clamped ratio under the reference is subtracted, which makes the fit "
    "consistent whatever the reference is. The posterior widens, and the variance between the data sets shows it"
)
PARTS = "epsilon is spent on several things, which add up: {}; the rest on the draws"
GIVEN_SHARE = "the share of the variance that lies between PSUs, {:g}, was given by the agency as public"
STOPS = (
    "what can refuse the file: outcomes that are no numbers, have no value on the scale, are constant, or are missing "
    "and not imputed; levels of categories that were not declared, or with fewer than 5 records on average; "
    "predictors, PSUs or other outcomes that (nearly) determine an outcome or the weight; an outcome that is nearly "
    "proportional to the weight's inverse; weights that are a function of public variables and were not declared "
    "public, or that are far from the population total; a question that applies to hardly anybody; edit rules that "
    "are hardly ever obeyed; numbers so extreme that the computation breaks down; chains that do not agree",
)
CONFIDENTIAL = (
    "predictors of later models are confidential, and so is the expectation that is subtracted there: it is bounded "
    "together with the clamped ratio, by a smaller factor. Their scales are those of a file simulated from first draws"
)
UNSCALED = "nothing public says where {} lie: give public bounds, bounds={{outcome: (low, high), ...}}"
SHARED = "epsilon is split among the models in sequence, as public numbers say or the agency said: {}"
ASKED = (
    "to how many records a question applies is confidential, where the rule hangs on outcomes: records to which it "
    "does not apply count nothing in its model, and what one adds has no larger range than where all are asked"
)
NEXT = (
    "the first draw is rough for so many parameters: data sets after the first one are measured against that one's "
    "parameters, which epsilon counts as released. Each is protected by the same factor, whatever came before it"
)
FIRST = "a first draw of this file, under an epsilon of its own of {:.3g}"
COUNTED = "shares of categories are measured against private counts of their cells"


@dataclass(frozen=True)
class Strict(Mechanism):
    """The clipped log likelihood ratio: pure differential privacy at the file's own number of records.

    With l_i the log density of a record less that under a reference, draws are from

        prior x exp( a sum_i [clamp(l_i, -B, B) - C_B] ),    a = b / B,  b = epsilon / (2 m),  B = max(b, B0),

    C_B the expectation of clip(e^l, e^-B, e^B) under the reference, which depends on public things alone.  Blanking
    one record's outcome and weight changes the probability of any release by at most a factor e^epsilon, replacing
    it by at most e^(2 epsilon), for exact draws.  The number of records and their predictors are public.

    It widens the posterior by a public factor instead of weighting single records down: means are not biased, and the
    variance between the data sets is right.  A first draw of few records for so many parameters is a rough reference,
    under which the posterior is wider still: then data sets after the first are measured against that one's parameters.
    Epsilon counts these as released, and each data set is protected by the same factor whatever came before it.

    Parameters
    ----------
    epsilon : float, optional
        For the whole release of m data sets; may stand here instead of in ``synthesize``.
    reference : Reference, release or path, optional
        What log densities are measured against: an earlier strict release (or its folder), or a
        :class:`surveysynth.Reference`; by default a first draw of this file, under a part of epsilon.
    between_psus : float, optional
        Public share of the variance, given the predictors, that lies between PSUs, for outcomes and weight alike; by
        default that of the reference, or one that is estimated from this file, under a part of epsilon.
    delta : float, optional
        Of releases from noisy tables: noise is Gaussian, and epsilon holds up to this probability, see
        :func:`surveysynth.measure`.

    Raises
    ------
    InputError
        An epsilon that is no positive number; a release that holds no reference; a share that is not below 1.

    Notes
    -----
    The mechanism is this package's.  Its parts are known: tempered posterior draws (Wang, Fienberg & Smola 2015), the
    range of the exponential mechanism (Dong, Durfee & Rogers 2020), clamped likelihood ratios (Canonne et al. 2019),
    and proper scores (Gneiting & Raftery 2007).

    Examples
    --------
    >>> ss.Strict(epsilon=8)
    Strict(epsilon=8, reference=None, between_psus=None, delta=None)
    """

    epsilon: float | None = None
    reference: Reference | Published | str | Path | None = None
    between_psus: float | None = None
    delta: float | None = None

    name: ClassVar[str] = "strict"
    kind: ClassVar[Kind] = "strict"
    # With 400 draws a chain the R-hat of 59 parameters was above its limit in 2 of 10 fits of 100,000 records.
    chain: ClassVar[tuple[int, int]] = (300, 600)
    clamps: ClassVar[bool] = True
    weight_declared: ClassVar[bool] = True
    posterior: ClassVar[str] = "tempered"

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            positive(self.epsilon, "epsilon")
        if self.between_psus is not None and not (is_finite(self.between_psus) and 0 <= self.between_psus < 1):
            raise InputError("between_psus is a share of the variance: at least 0 and below 1")
        if not isinstance(self.reference, Reference | None):
            object.__setattr__(self, "reference", Reference.from_release(self.reference))

    def data_sets(self, epsilon: float | None) -> int:
        """3 to 5: more files, more degrees of freedom; below a = 1/3 the posterior is wide, and means are biased."""
        return 3 if epsilon is None else int(np.clip(0.8 * epsilon, 3, 5))

    def expected_seconds(self, n: int, models: int = 1) -> float:
        """As measured with 36 and 72 combinations of predictors (docs/strict.md); later models have a row a record."""
        first = SECONDS + PER_RECORD * min(n, ON_GRID) + PER_GRID_RECORD * max(n - ON_GRID, 0)
        return first + (models - 1) * (SECONDS + PER_ROW * n)

    @property
    def weights_from_file(self) -> bool:
        """Records have the same weight."""
        return False

    @property
    def constants_given(self) -> bool:
        """Every constant is public."""
        return True

    @property
    def rests_on(self) -> tuple[Expense, ...]:
        """That of the reference."""
        return self.reference.rests_on if isinstance(self.reference, Reference) else ()

    @property
    def refuses(self) -> list[str]:
        """What of the file can still refuse it, and is not covered by epsilon."""
        return list(STOPS)

    def fit(
        self, pseudo: PseudoLikelihood, budget: Budget, assessment: Assessment, *,
        tolerance: float, reweight: int, say: Say,
    ) -> ProtectedFit:  # fmt: skip
        """A first draw, where there is no reference, and the draws: see :meth:`Mechanism.fit`; nothing is tuned.

        Of models in sequence one after the other, each under its share of epsilon.
        """
        model = pseudo.model
        if self.delta is not None:
            raise InputError("delta is for releases from noisy tables: records are fitted under epsilon alone")
        if not isinstance(model, Sequential):
            return self._fit(pseudo, budget, assessment, say)
        assert isinstance(pseudo.records, SequentialRecords)  # as its prepare makes them
        if model.unscaled:  # before anything is paid for
            raise InputError(UNSCALED.format(", ".join(model.unscaled)))
        done: list[ProtectedFit] = []
        for own, part, asked in zip(model.models, model.split, pseudo.records.asked.T, strict=True):
            records = model.relative(pseudo.records, [_reference(each) for each in done], pseudo.sampler.rng)
            share = replace(shared(budget, part), parts=own.spent)
            whom = replace(assessment, present=assessment.present * asked)
            fitted = self._fit(replace(pseudo, model=own, records=records), share, whom, say, alone=False)
            done.append(replace(fitted, epsilon=share.epsilon))
        names = [", ".join(own.outcomes) for own in model.models]
        parts = [(f"{part} of {name}" if part == "first draw" else part, spent)
                 for name, each in zip(names, done, strict=True) for part, spent in each.parts]  # fmt: skip
        b = replace(budget, parts=tuple(parts)).bound
        return ProtectedFit(
            math.nan, done[0].alpha, model.together([each.posterior for each in done]), np.full(len(done[0].alpha), b),
            clamp=b, parts=tuple(parts), sequence=tuple(zip(names, done, strict=True)), some_asked=bool(model.applies),
        )  # fmt: skip

    def _fit(
        self, pseudo: PseudoLikelihood, budget: Budget, assessment: Assessment, say: Say, *, alone: bool = True
    ) -> ProtectedFit:  # fmt: skip
        """One model."""
        model, records, unit = pseudo.model, pseudo.records, pseudo.unit
        assert isinstance(model, Relative)  # as check_model sees to
        sizes = _sizes(pseudo)
        each, share = int(sizes.max()), 1 / sizes  # the latter of a record in the budget of its unit
        present = unit.spread(assessment.present)
        d, parameters = model.dimensions(records)
        later = records.simulated is not None
        n = len(share) if records.simulated is None else len(records.simulated)  # to whom the question applies, about
        earlier = self.reference if isinstance(self.reference, Reference) else None
        epsilon = first_epsilon(parameters, n, budget, tailed=model.tailed) if earlier is None else 0.0
        measured = model.broad_reference(records) if earlier is None else earlier.draws(model, records)
        asks = model.lacks_psu_shares(records, measured)
        of_psus = part_of(budget, PSU_SHARES) if asks and self.between_psus is None else 0.0
        counted = earlier is None and model.lacks_shares
        of_shares = part_of(budget, CATEGORY_SHARES) if counted else 0.0
        parts = [("shares of categories", of_shares), ("first draw", epsilon), ("shares of PSUs", of_psus)]
        rest = replace(budget, parts=(*budget.parts, *((name, spent) for name, spent in parts if spent)))
        refuse_modes(rest, n, d, parameters, tailed=model.tailed)
        if counted:
            measured = model.with_shares(records, measured, present, epsilon=of_shares, each=each, rng=pseudo.noise)
        known, reference, rough = math.inf, measured, False
        if earlier is None:
            say("a first draw")
            a = unit.spread(tempered(Budget(epsilon, 1).bound, FIRST_CLAMP, confidential=later) * share)
            some = _enough_records(pseudo)
            known = float(a[some].sum())
            rough = alone and budget.m > 1 and parameters > ROUGH * known
            of_some = replace(pseudo, records=records.some(some)) if some.size < records.n else pseudo
            draws = _long_enough(of_some, measured, a[some], FIRST_CLAMP, present[some], first=True)
            _refuse_failed(draws, referable=alone and model.later_files and not model.categorical)
            of_counts = {"log_shares": measured["log_shares"]} if counted else {}  # they know more than a draw does
            reference = draws.some([int(pseudo.sampler.rng.integers(draws.size))], of_counts)
        if asks:
            reference = model.with_psu_shares(
                records, reference, self.between_psus, epsilon=of_psus, each=each, known=known, rng=pseudo.noise,
            )  # fmt: skip
        first = reference if earlier is None else None
        b, clamp = rest.bound, clamp_of(rest, d, tailed=model.tailed)
        alpha = tempered(b, clamp, confidential=later) * share
        say("draws")
        tempering = unit.spread(alpha)
        known = known_of(tempering, records.simulated)
        draws = _long_enough(pseudo, reference, tempering, clamp, present, first=False)
        if rough and not draws.failures:
            say("the other draws")
            leader = draws.some([int(pseudo.sampler.rng.integers(draws.size))])
            reference = leader.some([0], of_counts)
            draws = leader.before(_long_enough(pseudo, reference, tempering, clamp, present, first=False))
        draws = replace(draws, values=draws.values | {"known": np.full(draws.size, known)})
        alpha, bounds = alpha * assessment.present, np.full(len(share), b)
        held = clamp * tempered(b, clamp, confidential=later)
        return ProtectedFit(
            math.nan, alpha, draws, bounds, clamp=held, parts=rest.parts, reference=reference, first=first
        )

    def measured(self, model: Relative, *, psus: bool) -> tuple[tuple[float, float], ...]:
        """What is measured on a file beside scores and draws, as :func:`part_of` takes it; ``psus``: with effects."""
        shares = (CATEGORY_SHARES,) if model.lacks_shares and self.reference is None else ()
        said = self.between_psus is not None or "psu" in getattr(self.reference, "values", ())
        return (*shares, PSU_SHARES) if model.takes_psus and psus and not said else shares

    def check_model(self, model: Synthesizer, unit: str | None) -> None:
        """Refuse a model that cannot be measured against a reference (ModelError)."""
        if isinstance(model, Sequential):
            if self.reference is not None:
                raise ModelError("models in sequence take no reference yet: leave it out; first draws take its place")
            for own in model.models:
                self.check_model(own, unit)
            model.check_relative()
            return
        if not isinstance(model, Relative):
            censored = "mechanism=Censored(), which is strict, too, or " if isinstance(model, Boundable) else ""
            raise ModelError(
                f"{model.name} is not fitted under Strict(): use FBS, FBP, Mixture, or a regression of counts, shares "
                f"or positive amounts, or say {censored}mechanism=PseudoPosterior(), whose guarantee is asymptotic"
            )
        if model.missing == "drop":
            raise ModelError(
                "missing='drop' leaves records out by what is confidential, which Strict() does not cover: of amounts "
                "say FBS(..., missing='impute'), of categories make 'missing' one of them, or fill these records in"
            )

    def model_of(self, formula: str) -> Synthesizer:
        """FBS."""
        return FBS(formula)

    def under(self, model: Synthesizer) -> Synthesizer:
        """With the prior around the reference, and on its scale unless the model names one."""
        if isinstance(model, Sequential):
            return model.with_models([self.under(own) for own in model.models])
        if not isinstance(model, Relative):
            return model
        earlier = self.reference.synthesizer if isinstance(self.reference, Reference) else None
        return model.under_reference() if earlier is None else model.on_scale_of(earlier).under_reference()

    def check_reweight(self) -> None:
        """Refuse: records have the same weight (InputError)."""
        raise InputError("re-weighting raises privacy weights of single records, and Strict() has none: leave it out")

    def check_rule(self) -> None:
        """Refuse: what a rule lets through is not strictly private (InputError)."""
        raise InputError(
            "a rule looks at the confidential file, and data sets that were let through by it are no longer strictly "
            "private: leave the rule out, or use the pseudo posterior"
        )

    def advice(self, warmup: int, draws: int) -> str:
        """Chains four times as long were tried."""
        return (
            f"Chains {LONGER} times as long failed, too: merge rare levels, above all of categories that are "
            "synthesized, use fewer predictors, ask for a larger epsilon, or, where the predictors nearly determine "
            "the survey weight, declare it: weight='public'. Or run longer ones, "
            f"warmup={LONGER**2 * warmup}, draws={LONGER**2 * draws}"
        )

    def check_accepted(self, accepted: Sequence[str]) -> None:
        """Refuse failed diagnostics that were accepted (InputError)."""
        if accepted:
            raise InputError(
                "a strict release is one of exact draws, for which only chains that passed can stand in: leave "
                "accept_diagnostics out, and run more draws if need be"
            )

    def published(self, pseudo: PseudoLikelihood, fitted: ProtectedFit, draws: Draws) -> dict[str, Any]:
        """The parameters of the released draws, which later releases can be measured against."""
        if not isinstance(pseudo.model, Relative):
            return {}
        source = "an earlier release of this survey"
        return {"reference": published(pseudo.model, pseudo.records.public, draws, source)}

    def said_of_bias(self, fitted: ProtectedFit, debias: bool) -> list[str]:
        """What records are measured against, for the report."""
        if fitted.sequence:
            of_models = [self.said_of_bias(each, debias)[0] for _, each in fitted.sequence]
            said = [f"{name}: {text}" for (name, _), text in zip(fitted.sequence, of_models, strict=True)]
            split = "; ".join(f"{name} {each.epsilon:.3g}" for name, each in fitted.sequence)
            some = [ASKED] if fitted.some_asked else []
            return [*said, CONFIDENTIAL, *some, SHARED.format(split), _parts_of(fitted)]
        assert fitted.clamp is not None
        first = dict(fitted.parts).get("first draw")
        what = str(self.reference) if first is None else FIRST.format(first)
        a = float(fitted.alpha.max())
        said = [MEASURED.format(what, fitted.clamp / a, a)]
        if "shares of categories" in dict(fitted.parts):
            said.append(COUNTED)
        if fitted.posterior.led:
            said.append(NEXT)
        if self.between_psus is not None:
            said.append(GIVEN_SHARE.format(self.between_psus))
        return [*said, _parts_of(fitted)] if fitted.parts else said


def _parts_of(fitted: ProtectedFit) -> str:
    """What epsilon is spent on, in a sentence."""
    return PARTS.format("; ".join(f"{name} {epsilon:.3g}" for name, epsilon in fitted.parts))


def _reference(fitted: ProtectedFit) -> Draws:
    """What it was measured against."""
    assert fitted.reference is not None  # as of every strict fit
    return fitted.reference


def shared(budget: Budget, share: float) -> Budget:
    """What one of several models may spend."""
    assert budget.epsilon is not None  # as synthesize sees to
    return Budget(budget.epsilon * share, budget.m)


def tempered(bound: float, clamp: float, *, confidential: bool) -> float:
    """a: b / B, or, where C_B is confidential, as it lies between e^-B and 1 + e^-B, 2 b / (2 B + 1)."""
    if confidential:
        return 2 * bound / (2 * clamp + 1)
    a = bound / clamp
    while clamp * a > bound:  # by rounding, and the draws would spend more than epsilon
        a = math.nextafter(a, -math.inf)
    return a


def least_first(parameters: int, n: int, budget: Budget, *, tailed: bool) -> float:
    """Epsilon that a first draw needs, whether or not the budget has it."""
    assert budget.epsilon is not None  # as synthesize sees to
    return max(FIRST_LEAST, FIRST_PER_PARAMETER * parameters / n, TAILED_SHARE * budget.epsilon if tailed else 0.0)


def first_epsilon(parameters: int, n: int, budget: Budget, *, tailed: bool = False) -> float:
    """Epsilon of the first draw, from public numbers: below 27 p / n one in twenty is far off, and ruins the release.

    Of outcomes with a tail 10% of the whole at the least.

    There is always one where there is no reference.  Without it the draws would be measured against a public guess;
    where it is too dear, that is refused, too, as rival modes could have weight.

    Raises
    ------
    PrivacyError
        It is more than 30% of the whole.
    """
    assert budget.epsilon is not None  # as synthesize sees to
    epsilon = least_first(parameters, n, budget, tailed=tailed)
    if epsilon > FIRST_SHARE * budget.epsilon:
        raise PrivacyError(
            f"{parameters} parameters and {n:,} records need epsilon = {epsilon:.2g} for a first draw, and that is "
            f"more than {FIRST_SHARE:.0%} of epsilon = {budget.epsilon:g}: ask for epsilon = "
            f"{epsilon / FIRST_SHARE:.2g} or more, use fewer predictors, or give Strict(reference=...)"
        )
    return epsilon


def noise_of_scores(epsilon: float, n: int, outcomes: int, each: int = 1) -> float:
    """Variance that the noise of normal scores adds to a mean, over that of the confidential sample, about."""
    return (NOISE_OF_SCORES * outcomes * each / epsilon) ** 2 / n


def scores_epsilon(budget: Budget, n: int, outcomes: int, numbers: int, each: int = 1) -> float:
    """Epsilon of normal scores of the file, from public numbers: what makes the expected variance of a mean least.

    More of it makes less noise, which all data sets share, and wider posteriors of the rest.
    """
    assert budget.epsilon is not None  # as synthesize sees to

    def variance(epsilon: float) -> float:
        rest = replace(budget, parts=(("normal scores", epsilon), ("first draw", FIRST_LEAST)))
        widening = clamp_of(rest, numbers) / rest.bound if rest.bound > 0 else math.inf
        return widening / budget.m + noise_of_scores(epsilon, n, outcomes, each)

    return min((share * budget.epsilon / 100 for share in range(2, round(100 * SCORES_SHARE) + 1)), key=variance)


def part_of(budget: Budget, most: tuple[float, float]) -> float:
    """Epsilon of something that is estimated beside the draws: at the most, as a number and as a share of the whole."""
    assert budget.epsilon is not None  # as synthesize sees to
    return min(most[0], most[1] * budget.epsilon)


def clamp_of(budget: Budget, d: int, *, tailed: bool = False) -> float:
    """B, from public numbers: b, or the least one of so many numbers a record, or of outcomes with a tail."""
    return max(budget.bound, LEAST_CLAMP[min(d, len(LEAST_CLAMP)) - 1], TAILED_CLAMP if tailed else 0.0)


def one_mode(budget: Budget, n: int, d: int, parameters: int, *, tailed: bool = False) -> bool:
    """Whether what a rival mode loses is more than the logarithm of the posterior's volume."""
    known = max(n * budget.bound / clamp_of(budget, d, tailed=tailed), 1.0)
    return known * GAP[min(d, len(GAP)) - 1] >= parameters / 2 * math.log(known) + MARGIN


def refuse_modes(budget: Budget, n: int, d: int, parameters: int, *, tailed: bool = False) -> None:
    """Refuse, before the file is looked at, where a rival mode could have weight.

    What it loses has to be more than the logarithm of the posterior's volume: n a gap >= (p / 2) log(n a) + 10.

    Raises
    ------
    PrivacyError
        With the epsilon that would do.
    """

    def clear(asked: Budget) -> bool:
        return one_mode(asked, n, d, parameters, tailed=tailed)

    if clear(budget):
        return
    assert budget.epsilon is not None
    epsilons = (budget.epsilon * 1.1**k for k in range(1, 100))
    enough = next((epsilon for epsilon in epsilons if clear(replace(budget, epsilon=epsilon))), math.inf)
    raise PrivacyError(
        f"epsilon = {budget.epsilon:g} for {budget.m} data sets, {n:,} records and {parameters} parameters leaves the "
        f"posterior room for more than one mode, between which chains do not move: ask for epsilon = {enough:.2g}, "
        "for fewer data sets, or use fewer predictors"
    )


def _long_enough(
    pseudo: PseudoLikelihood, reference: Draws, tempering: Floats, clamp: float, present: Floats, *, first: bool
) -> Draws:
    """Draws from chains that passed, or, where those asked for did not, from chains four times as long.

    Where little is missing they go on to four times their draws first.  First draws have chains sixteen times as long,
    too: under their small epsilon a chain may give up the records of a rare level for a while, and passes only when it
    has done so often.  ``present`` (n,) is 0 for records that are blanked; what is public of them stays.
    """
    model, sampler = pseudo.model, pseudo.sampler
    assert isinstance(model, Relative)  # as check_model sees to
    for times in (1, LONGER, LONGER**2) if first else (1, LONGER):
        most = LONGER * sampler.draws  # of longer ones their own number: these do not go on
        longer = replace(sampler, warmup=times * sampler.warmup, draws=times * sampler.draws, most=most)
        draws = model.clipped(pseudo.records, reference, tempering, clamp, longer, first=first, present=present)
        if not draws.failures:
            break
    return draws


def _enough_records(pseudo: PseudoLikelihood) -> Codes:
    """The records that a first draw is of: all, or ``FIRST_RECORDS`` at random, which are as private and enough.

    Nothing of the file decides which; it is of all where units are of several records, predictors are confidential, or
    they were chosen before.
    """
    n, rng = pseudo.records.n, pseudo.sampler.rng
    some = pseudo.unit.of_record is None and pseudo.records.simulated is None
    if n <= FIRST_RECORDS or not some:
        return np.arange(n)
    return np.sort(rng.choice(n, FIRST_RECORDS, replace=False, shuffle=False))


def _sizes(pseudo: PseudoLikelihood) -> Floats:
    """Records of each unit."""
    of_record = pseudo.unit.of_record
    return np.ones(pseudo.records.n) if of_record is None else np.bincount(of_record).astype(np.float64)


def _refuse_failed(draws: Draws, *, referable: bool) -> None:
    """Refuse to go on from chains that do not agree; ``referable``: whether the model takes a reference instead."""
    if draws.failures:
        instead = ", or give Strict(reference=...), which needs no first draw" if referable else ""
        raise PrivacyError(
            f"the sampler's diagnostics failed in the first draw ({', '.join(draws.failures)}), in chains "
            f"{LONGER**2} times as long, too, so nothing is released. Where the predictors nearly determine the survey "
            "weight, declare it, weight='public' (surveysynth check --inside says whether they do). Else use fewer "
            "predictors, merge rare levels, above all of categories that are synthesized, ask for a larger epsilon"
            f"{instead}"
        )
