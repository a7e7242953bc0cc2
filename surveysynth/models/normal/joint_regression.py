"""Common base of FBS and FBP: a multivariate normal regression of outcomes and log weight on public predictors.

    (y~_i, w~_i) ~ N(x_i B, Sigma),    w~_i = log(w_i / mean w)

is the model of FBS (Hu, Savitsky & Williams 2022a, eq. 2).  y~_i are the numeric outcomes on their working scales (such
as log income), w_i is the survey weight, and x_i are the predictors.  The likelihood of FBP (eq. 6) is this density
with log pi_i = -w~_i, divided by pi_i, which contains no parameters.  So FBS and FBP are fitted from the same
statistics,

    A = sum alpha_i,   C0 = X' diag(alpha) X = R'R,   B^ = C0^- X' diag(alpha) Y,   Z0 = R B^,
    S0 = (Y - X B^)' diag(alpha) (Y - X B^),

where X (n, K) are the predictors, Y (n, D) the columns (y~, w~), and alpha the privacy weights.  If the weight is
public, Y is y~ alone.  The computing time given these statistics does not depend on n.  FBS and FBP differ in the
priors, in the record densities of the Lipschitz bound, and in the simulation.

Records of the same PSU have a common normal effect on (y~, w~), and so have records of the same stratum, unless the
predictors determine the strata.  See :mod:`surveysynth.models.normal.cluster_effects`.

Further shapes: S draws, d numeric outcomes, H strata.  ``levels`` is 2 if both PSUs and strata have effects, and 1
otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ...choices import Clusters, Missing
from ...design.formula import category, formula_columns, refuse_other_records, sides_of
from ...design.survey_design import SurveyDesign
from ...engines import Diagnostics
from ...errors import InputError, ModelError, Obstacles
from ...validation import as_list, one_of
from ..base import Boundable, Clustered, Debiasable, Portable
from ..corrections.clamp_correction import uncensored, variance_factor
from ..corrections.fisher_consistency import Weighting
from ..corrections.normal_correction import correct, correct_with_shares
from ..corrections.psu_correction import ClusteredFile, correct_with_effects
from ..densities import normal_density as gaussian
from ..draws import Draws, Sampler
from ..predictors.groups import Groups, differing_sizes, groups_of, psu_sizes
from ..predictors.model_matrix import (
    LOG_SIZE,
    LOG_UNIT,
    LOG_WEIGHT,
    Constants,
    discrete_predictors,
    predictor_rows,
    with_categories,
    with_column,
    with_log_size,
)
from ..predictors.public_weights import public_weight, refuse_proportional, varies_within
from ..records import Public
from ..regression.sufficient_statistics import SufficientStatistics, sufficient_statistics
from ..scales.transforms import Transform, as_transform
from . import shares
from .categories import crossed
from .censored_fit import Pilot, coordinates, distinct_records, only_mode
from .cluster_effects import (
    draw_strata,
    grouped_statistics,
    log_likelihood,
    log_likelihood_without_effects,
    new_effects,
)
from .flat_prior import draw_flat
from .identifiability import refuse_censored, refuse_constant_within, refuse_degenerate, refuse_singular, refuse_unseen
from .joint_records import JointPublic, JointRecords
from .outcomes import working_scale
from .variance_components import sample_with_effects

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


J = TypeVar("J", bound=JointRecords)


@dataclass(frozen=True)
class JointRegression(Clustered[J], Boundable[J], Debiasable[J], Portable[J]):
    """Common base of FBS and FBP: a synthesizer that models outcomes and log weight jointly, given public predictors.

    Draws hold the coefficients ``B`` (S, K, D), and ``L`` (S, D, D), the lower Cholesky factor of the residual
    covariance Sigma.  If PSUs or strata have effects, draws also hold the variance ratios ``tau`` (S, levels, D), which
    are variances of effects in units of Sigma, and ``T`` (S, D, D), a factor of the covariance T T' of the effects of
    PSUs.  If strata have effects, ``effects["strata"]`` (S, H, D) are draws of the effects of strata.
    """

    outcome: str | Sequence[str]
    predictors: str = ""
    prior: str = "paper"
    transform: str | Transform | dict[str, str | Transform] = "log"
    missing: Missing = "fail"
    weight: Literal["public"] | None = None

    name: ClassVar[str]
    priors: ClassVar[dict[str, str]]

    def __post_init__(self) -> None:
        outcome, predictors = sides_of(self.outcome, self.predictors)
        if not isinstance(predictors, str) or predictors == "":
            raise InputError(f"there must be a formula: {self.name}('income ~ region + sex'), ~ 1 for no predictors")
        self.__dict__.update(outcome=outcome, predictors=predictors)
        outcomes = self.outcomes
        if not outcomes or len(set(outcomes)) < len(outcomes):
            raise InputError("outcome must name one column or several different ones")
        one_of(self.prior, self.priors, "prior")
        one_of(self.missing, get_args(Missing), "missing")
        if self.weight is not None:
            one_of(self.weight, ("public",), "weight")
        both = set(self.numeric) & set(formula_columns(self.predictors))
        if both:
            raise InputError(f"{', '.join(sorted(both))}: an outcome cannot be a predictor; predictors are public")
        refuse_other_records(self.predictors, self.categorical, formula_columns(self.predictors))
        self.transforms()

    @property
    def outcomes(self) -> tuple[str, ...]:  # type: ignore[override]  # of the field outcome
        """Names of the columns that are synthesized, numeric and categorical."""
        return tuple(category(o) or o for o in as_list(self.outcome))

    @property
    def categorical(self) -> tuple[str, ...]:  # type: ignore[override]  # of the field outcome
        """Names of the categorical outcomes: ``employed`` if the model has the outcome ``C(employed)``."""
        return tuple(name for o in as_list(self.outcome) if (name := category(o)))

    @property
    def numeric(self) -> tuple[str, ...]:
        """Names of the numeric outcomes."""
        return tuple(o for o in as_list(self.outcome) if not category(o))

    @property
    def predictor_columns(self) -> tuple[str, ...]:
        """The public columns in the formula, sorted."""
        return tuple(name for name in formula_columns(self.predictors) if name not in self.categorical)

    def back(self, y: Floats) -> Floats:
        """Transform outcomes (n, d) back from the modelled scale, such as the logarithm, to original units."""
        back = [t.inverse(y[:, j]) for j, t in enumerate(self.transforms())]
        return np.column_stack(back) if back else np.empty((len(y), 0))

    def transforms(self) -> list[Transform]:
        """Return the transform of each numeric outcome."""
        if isinstance(self.transform, dict):
            if set(self.transform) != set(self.numeric):
                raise InputError("transform names other columns than the numeric outcomes")
            return [as_transform(self.transform[o]) for o in self.numeric]
        return [as_transform(self.transform) for _ in self.numeric]

    @property
    def measure(self) -> str:  # type: ignore[override]  # of the transforms
        """Text for the report that describes the working scale: the transforms of the numeric outcomes."""
        return "; ".join(dict.fromkeys(t.describe() for t in self.transforms()))

    def pilot(self) -> Self | None:
        """Return the same model with the flat prior, whose fit to numeric outcomes is quick: it needs no Markov chains.

        The search for the scale c1 of the privacy weights starts from the scale that suits this model.  Return None if
        the model already has the flat prior.
        """
        return None if self.prior == "flat" else replace(self, prior="flat")

    def note_obstacles(self, design: SurveyDesign, clusters: Clusters, wrong: Obstacles) -> None:
        """Add to ``wrong`` the errors in outcomes and predictors for which :meth:`prepare` would refuse the file.

        PSUs and strata are no reason to refuse the file, because they have effects in this model.
        """
        wrong.check(self.check_outcomes, design)
        wrong.check(predictor_rows, design, self.predictors, None)

    def check_outcomes(self, design: SurveyDesign) -> None:
        """Raise InputError if a numeric outcome cannot be transformed as the model requires.

        Values are missing, are not numbers or are outside the range of the transform, or normal scores were made from
        this file.
        """
        wrong = Obstacles()
        for outcome, transform in zip(self.numeric, self.transforms(), strict=True):
            wrong.check(working_scale, design, outcome, transform)
        wrong.refuse()

    def joint_records(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> JointRecords:  # fmt: skip
        """Check a file and return its records: transformed outcomes, log weights, distinct combinations of predictors.

        The arguments are those of :meth:`Synthesizer.prepare`.

        Raises
        ------
        InputError
            An outcome has missing values, is not numeric or is outside the range of its transform.  Normal scores were
            made from this file.  A categorical outcome is refused by :func:`.categories.crossed`.  A predictor has
            missing values, or the formula cannot be evaluated.
        ModelError
            An outcome is constant.  The predictors or the PSUs (nearly) determine an outcome or the weight.  An outcome
            is nearly proportional to a size measure that is not a predictor, so that the synthetic total would vary far
            more than the estimate from the sample.  PSUs or strata have effects, and the prior is "normal", which has
            none.
        """
        scales = zip(self.numeric, self.transforms(), strict=True)
        working = [working_scale(design, outcome, transform) for outcome, transform in scales]
        cells = discrete_predictors(design, self.predictors, self.categorical)
        categories = crossed(design, self.categorical, cells) if self.categorical else None
        formula = with_categories(self.predictors, self.categorical)
        X, pattern, columns = predictor_rows(design, formula, categories, constants)
        groups = groups_of(design, self.predictor_columns) if clusters == "model" else None
        each = 1 if categories is None else categories.K
        public, log_w = self._public_weight(design, *_public_rows(X, pattern, each), groups), None
        if public is None:
            refuse_proportional(design, self.numeric, *_public_rows(X, pattern, each))
            log_w = np.log(design.weights / (mean_weight or design.weights.mean()))
        elif varies_within(public, pattern // each):
            X, pattern = with_column(X, pattern, each, np.log(public / public.mean()))
            columns = (*columns, LOG_WEIGHT)
        psu_size = None if groups is None else psu_sizes(groups, _constant_columns(X, pattern, groups))
        unit_size = None if unit is None else differing_sizes(unit)
        if psu_size is not None and unit_size is not None and np.array_equal(psu_size, unit_size):  # PSUs are the units
            unit_size = None
        if working or log_w is not None:  # categories alone do not depend on the rows
            X, pattern, columns = with_log_size(X, pattern, columns, LOG_SIZE, psu_size, each)
            X, pattern, columns = with_log_size(X, pattern, columns, LOG_UNIT, unit_size, each)
        y = np.column_stack(working) if working else np.empty((design.n, 0))
        row = pattern if categories is None else pattern - categories.category
        records = JointRecords(
            X=X, row=row, columns=columns, public_weights=public, y=y, log_w=log_w, groups=groups,
            categories=categories, cell_columns=tuple(cells),
        )  # fmt: skip
        labels = [*self.numeric, *(["the survey weight"] if public is None else [])]
        refuse_singular(records.Y, X, records.pattern, labels)
        if groups is not None:
            refuse_constant_within(groups, records.Y, labels)
            if self.prior == "normal":
                raise ModelError(
                    f"the design has {groups.describe()}, whose effects are not modelled under prior='normal': use "
                    "another prior, or clusters='ignore'"
                )
        return records

    def _public_weight(self, design: SurveyDesign, X: Floats, pattern: Codes, groups: Groups | None) -> Floats | None:
        """Return the survey weights (n,) if they were declared public or are a function of public data, and else None.

        ``X`` are the distinct rows of the public predictors, and ``pattern`` (n,) is the position of each record's row.
        """
        if self.weight == "public":
            return design.weights
        return public_weight(design, self.predictor_columns, X, pattern, groups)

    def sufficient_statistics(self, records: J, alpha: Floats) -> SufficientStatistics:
        """Return the weighted sums over records from which coefficients B and residual covariance Sigma are fitted.

        The sums are sum alpha_i, X' diag(alpha) X, X' diag(alpha) Y and Y' diag(alpha) Y, where alpha (n,) are the
        privacy weights.
        """
        return sufficient_statistics(records.X, records.pattern, records.Y, alpha)

    def fit(self, records: J, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the parameters of the model from the alpha-weighted pseudo posterior.

        Source: Hu, Savitsky & Williams 2022a, eq. 3 and 7.

        Raises
        ------
        InputError
            The draws of the shares of categories would take more than 2 GB.
        ModelError
            The privacy weights alpha are too small to identify Sigma or, under the flat prior, the mean of a predictor
            row.
        """
        numeric = self._fit_numeric(records, alpha, sampler)
        if records.categories is None:
            return numeric
        return shares.with_shares(numeric, records, records.categories, alpha, sampler)

    def check_censored(self, records: J) -> None:
        """Raise ModelError if there is no censored fit for these records or this prior.

        There is no censored fit with effects of PSUs or strata, with categories, or under the flat prior, under which
        the censored posterior is improper.
        """
        refuse_censored(records, self.prior, self.priors)

    def censored(self, records: J, alpha: Floats, bound: float, sampler: Sampler) -> Draws:
        """Draw coefficients B and residual covariance Sigma from the censored pseudo posterior.

        Every contribution alpha_i log p_i is clamped to [-bound, bound].  Source: Hu, Williams & Savitsky 2025, eq.
        3.5-3.6.

        Raises
        ------
        ModelError
            :meth:`check_censored` refuses the records.  Almost no record is inside the clamp.  The density has separate
            modes, which Markov chains would not visit in the right proportions.
        """
        self.check_censored(records)
        distinct = distinct_records(records.X, records.pattern, records.Y, alpha, self.log_base(records, records.Y))
        pilot = only_mode(distinct, bound, sampler.rng)
        return self._sample_censored(records, coordinates(distinct, bound, pilot), pilot, sampler)

    def _fit_numeric(self, records: J, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the parameters for the numeric outcomes and the weight, given categories.

        If PSUs or strata have effects, the effects are drawn, too.
        """
        if records.Y.shape[1] == 0:
            return _nothing(records.X.shape[1], sampler)
        if records.groups is not None:
            return self._with_effects(records, records.groups, alpha, sampler)
        statistics = self.sufficient_statistics(records, alpha)
        R, Z0, S0 = statistics.reduced()
        refuse_degenerate(S0, statistics, len(R))
        if self.prior == "flat":
            return draw_flat(records, statistics, R, Z0, S0, sampler)
        return self._sample(records, statistics.A, R, Z0, S0, sampler)

    def _with_effects(self, records: J, groups: Groups, alpha: Floats, sampler: Sampler) -> Draws:
        statistics = grouped_statistics(records.X, records.pattern, records.Y, alpha, groups)
        R, _, S0 = statistics.total.reduced()
        refuse_degenerate(S0, statistics.total, len(R))
        if self.prior == "flat":
            refuse_unseen(records, R)
        s = sample_with_effects(statistics, self.prior, sampler)  # type: ignore[arg-type]
        values = {"B": s.B, "L": s.L, "tau": s.tau, "T": s.L * np.sqrt(s.tau[:, 0, None])}
        kept = groups.parent is not None or not groups.sampled
        effects = {"strata": draw_strata(statistics, s.B, s.L, s.tau, sampler.rng)} if kept else {}
        return Draws(values, s.chain, s.diagnostics, s.engine, s.version, effects=effects, integrated=groups.sampled)

    @abstractmethod
    def _sample(self, records: J, A: float, R: Floats, Z0: Floats, S0: Floats, sampler: Sampler) -> Draws:
        """Draw coefficients B and residual covariance Sigma by Markov chains.

        A, R, Z0 and S0 are the statistics in the module's docstring.
        """

    @abstractmethod
    def _sample_censored(self, records: J, distinct: dict[str, Any], pilot: Pilot, sampler: Sampler) -> Draws:
        """Draw B and Sigma under the censored pseudo likelihood, given distinct records and the fit at the mode."""

    def log_base(self, records: J, Y: Floats) -> Floats:
        """Return, for each record, the log ratio of the record density to the normal density of the values ``Y``.

        ``Y`` (n, D) is on the working scale.  The log ratio is 0 in FBS, whose records have a normal density.
        """
        return np.zeros(len(Y))

    def lipschitz(self, records: J, draws: Draws, unit: Codes | None = None, alpha: Floats | None = None) -> Floats:
        """Return the largest |log p(record i | draw)| over all draws, for each record i (n,).

        If ``unit`` (n,) numbers the units of several records that epsilon protects, return for each unit the largest
        |sum of log p over its records| instead.  Source: Hu, Savitsky & Williams 2022a, section 1.4.1 steps 2-3.

        The density is conditional on effects of strata.  If effects of PSUs are integrated out, log p is the log ratio
        of the pseudo likelihoods with and without the record, divided by alpha_i.  It depends on the privacy weights
        ``alpha`` (n,), by default 1, of all records of the PSU.  So alpha_i times the maximum bounds how much record i
        changes the log pseudo likelihood in any draw.
        """
        v, psus = draws.values, None
        if draws.integrated and records.groups is not None:
            alpha = np.ones(len(records.Y)) if alpha is None else alpha
            g = grouped_statistics(records.X, records.pattern, records.Y, alpha, records.groups)
            psus = gaussian.PSUs(records.groups.record, alpha, g.a, g.s, g.t, v["tau"][:, 0], g.parent)
        return gaussian.max_abs_log_density(
            records.Y, records.pattern, records.X, v["B"], v["L"], self.log_base(records, records.Y),
            effects=_strata(records, draws), offset=shares.log_share(records, draws), unit=unit, psus=psus,
        )  # fmt: skip

    def log_ratio(self, records: J, before: Floats, after: Floats, draws: Draws) -> Floats:
        """Return the change (S,) of the log pseudo likelihood if privacy weights ``before`` become ``after``."""
        if draws.integrated:
            return self.log_likelihood(records, after, draws) - self.log_likelihood(records, before, draws)
        return self.log_likelihood(records, after - before, draws)

    def log_likelihood(self, records: J, alpha: Floats, draws: Draws) -> Floats:
        """Return the log pseudo likelihood of the records in each of S draws: (S,).

        Unless effects of PSUs are integrated out, it is sum_i alpha_i log p(record i | draw), which is linear in the
        privacy weights alpha (n,).  Then alpha can also be the difference of two sets of weights, with negative
        numbers, and the result is the difference of the two log pseudo likelihoods.
        """
        B, L = draws.values["B"], draws.values["L"]
        base = np.full(len(B), alpha @ self.log_base(records, records.Y))
        if records.categories is not None:
            base += shares.log_likelihood(records, records.categories, alpha, draws)
        if records.Y.shape[1] == 0:
            return base
        if records.groups is None:
            return base + log_likelihood_without_effects(self.sufficient_statistics(records, alpha), B, L)
        grouped = grouped_statistics(records.X, records.pattern, records.Y, alpha, records.groups)
        tau, strata = draws.values["tau"], draws.effects.get("strata")
        if not records.groups.sampled:  # strata, with drawn effects, are then the second level
            grouped, tau = replace(grouped, parent=np.arange(records.groups.size)), np.zeros_like(tau)
        return base + log_likelihood(grouped, B, L, tau, strata)

    def log_density(self, records: J, draws: Draws) -> Floats:
        """Return, for each draw and record, the log density on the working scale, with effects of PSUs set to 0.

        Only the effects on numeric outcomes and the weight are set to 0.  Return an array (S, n).
        """
        v = draws.values
        return self.log_base(records, records.Y) + gaussian.log_density(
            records.Y,
            records.pattern,
            records.X,
            v["B"],
            v["L"],
            _strata(records, draws),
            shares.log_share(records, draws),
        )

    def biased(self, records: J, unit: Codes | None) -> dict[str, bool]:
        """Return, for each quantity that privacy weights shrink, whether it is corrected even without ``debias``."""
        spread = {"the spread between PSUs": True} if _new_psus(records) else {}
        shares = {"the shares of categories": unit is None} if self.categorical else {}
        return spread | shares

    def effects_of_records(self, public: JointPublic, draw: Draws, rng: np.random.Generator) -> Floats:
        """Return effects (n, D) of PSUs and strata on the records of one synthetic data set, given one draw.

        They are new effects of PSUs plus the drawn effects of strata.  If only strata have effects, they are the drawn
        ones.  Return zeros (1, D) for a model without effects.
        """
        D = draw.values["L"].shape[1]
        if public.groups is None or D == 0:
            return np.zeros((1, D))
        strata = draw.effects["strata"][0] if "strata" in draw.effects else None
        if public.groups.sampled:
            effect = new_effects(draw.values["T"][0], public.groups, strata, rng)
        else:
            effect = np.asarray(strata, dtype=np.float64)
        return np.asarray(effect[public.groups.record])

    def debias_draws(
        self, records: J, draws: Draws, positions: Sequence[int], alpha: Callable[..., Floats],
        unit: Codes | None, rng: np.random.Generator, *, debias: bool,
    ) -> Draws:  # fmt: skip
        """Return Fisher-consistent draws: those at ``positions``, corrected for the bias that privacy weights cause.

        ``alpha`` maps the risk of a record, its largest |log p|, to its privacy weight.  ``unit`` (n,) numbers the
        units of several records that epsilon protects; then the second argument of ``alpha`` is the number of records
        of each unit.  The covariance of effects of PSUs is always corrected.  Shares of categories are always
        corrected, too, unless ``unit`` is given.  With ``debias``, the residual covariance Sigma is corrected, and so
        are the coefficients B if privacy weights bias B.

        Raises
        ------
        InputError
            ``debias`` is True, ``unit`` is given, and numeric outcomes have no effects of PSUs: this correction exists
            only for single records.
        ModelError
            The privacy weights shrink the model too far for a correction.
        """
        if debias and unit is not None and not _new_psus(records):
            raise InputError("debias is for privacy weights of single records: leave out debias or unit=")
        v = {name: values[list(positions)] for name, values in draws.values.items()}
        size = np.bincount(records.row // records.each, minlength=len(records.X) // records.each).astype(np.float64)
        weighting = Weighting(alpha, partial(self.log_base, records), draws.size)
        done = draws.subset(positions)
        if records.categories is not None and unit is None:
            drawn = shares.to_correct(records, records.categories, draws, positions, rng)
            B, L, log_p, spread = correct_with_shares(v["B"], v["L"], drawn, records.X, size, weighting, rng)
            changed = {"log_shares": log_p} | ({"B": B, "L": L} if debias else {})
            done = shares.with_spread(done.subset(range(done.size), changed), spread)
        elif debias and not _new_psus(records):
            B, L = correct(v["B"], v["L"], records.X, size, weighting, rng)
            done = done.subset(range(done.size), {"B": B, "L": L})
        if records.groups is not None and _new_psus(records):
            # predictor rows with synthetic categories, not with the confidential ones
            pattern = records.rows_of(shares.simulate(records, done.subset([0]), rng))
            file = ClusteredFile(records.X, pattern, records.groups.record, unit)
            L, T = correct_with_effects(v["B"], v["L"], v["tau"][:, 0], file, weighting, rng)
            done = done.subset(range(done.size), {"T": T} | ({"L": L} if debias else {}))
        return done

    def uncensored(self, records: J, draws: Draws, positions: Sequence[int], bound: float) -> Draws:
        """Return the draws at ``positions`` of a censored fit, with Sigma corrected for the bias that the clamp causes.

        The fit has privacy weights of 1, and clamps log densities to [-``bound``, ``bound``].  The formula is in
        ``corrections/clamp_correction.py``.

        Raises
        ------
        ModelError
            The clamp is too tight.
        """
        done = draws.subset(positions)
        return done.subset(range(done.size), {"L": uncensored(done.values["L"], bound)})

    def variance_factor(
        self, records: J, draws: Draws, positions: Sequence[int], bound: float, *, corrected: bool
    ) -> float | None:
        """Return the factor by which to multiply variances of means estimated from synthetic files of a censored fit.

        The factor is the true variance, which the clamp increases, divided by the variance that synthetic files show.
        With ``corrected``, the files come from draws that :meth:`uncensored` corrected.

        Raises
        ------
        ModelError
            The clamp is too tight.
        """
        return variance_factor(draws.values["L"][list(positions)], bound, corrected=corrected)

    def to_original_scale(self, records: J, draws: Draws) -> Draws:
        """Return the draws unchanged: their coefficients are for predictors in original units."""
        return draws

    def from_original_scale(self, records: J, draws: Draws) -> Draws:
        """Return the draws unchanged: the model takes coefficients for predictors in original units."""
        return draws

    def describe(self, public: Public) -> dict[str, Any]:
        """Return public facts about the model, for the manifest."""
        assert isinstance(public, JointPublic)
        return {
            "method": self.name,
            "outcome": list(self.outcomes),
            **({"categorical": list(self.categorical)} if self.categorical else {}),
            "predictors": self.predictors,
            "prior": self.prior,
            "transform": [t.describe() for t in self.transforms()],
            "weights": "public" if public.public_weights is not None else "synthesized (smoothed)",
            **({} if public.groups is None else {"effects": public.groups.describe()}),
        }


def _public_rows(X: Floats, pattern: Codes, each: int) -> tuple[Floats, Codes]:
    """Return the rows of public predictors, without columns that depend on the category, and each record's row (n,).

    ``X`` has ``each`` consecutive rows for every row of public predictors: one for each category.  ``pattern`` (n,) is
    the row of ``X`` of each record.
    """
    public_rows = X.reshape(-1, each, X.shape[1])
    same = (public_rows == public_rows[:, :1]).all(axis=(0, 1))
    return public_rows[:, 0, same], pattern // each


def _constant_columns(X: Floats, pattern: Codes, groups: Groups) -> int:
    """Count the columns of ``X`` that are constant within every group, such as the intercept.

    ``pattern`` (n,) is the row of ``X`` of each record.
    """
    pair = np.unique(groups.record * len(X) + pattern)
    start = np.unique(pair // len(X), return_index=True)[1]
    rows_of_pairs = X[pair % len(X)]
    low, high = (f.reduceat(rows_of_pairs, start, axis=0) for f in (np.minimum, np.maximum))
    return int((low == high).all(axis=0).sum())


def _nothing(K: int, sampler: Sampler) -> Draws:
    """Return draws without numeric parameters, for a model of categories alone with a public weight."""
    size = sampler.chains * sampler.draws
    exact = Diagnostics(ess_bulk=size, ess_tail=size, exact=True)
    values = {"B": np.empty((size, K, 0)), "L": np.empty((size, 0, 0))}
    return Draws(values, np.zeros(size, dtype=np.intp), exact, "numpy", np.__version__)


def _new_psus(records: JointRecords) -> bool:
    """Return True if effects of PSUs on numeric outcomes or the weight are drawn anew for each synthetic data set."""
    return records.groups is not None and records.groups.sampled and records.Y.shape[1] > 0


def _strata(records: JointRecords, draws: Draws) -> gaussian.Effects | None:
    """Return the draws of effects of strata, in the form that ``normal_density`` takes, or None if none were drawn."""
    if records.groups is None or "strata" not in draws.effects:
        return None
    group, parent = records.groups.record, records.groups.parent
    return gaussian.Effects(group if parent is None else parent[group], draws.effects["strata"])
