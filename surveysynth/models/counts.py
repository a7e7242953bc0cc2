"""Negative binomial and Poisson regressions: the synthesizers of counts.

Source: Hu, Savitsky & Williams 2020, section 2.1.

    y_i ~ NB(mu_i, phi),   var y_i = mu_i + mu_i^2 / phi,   log mu_i = x_i b          (Poisson: phi = infinity)
    w~_i | y_i ~ N(x_i c + gamma log(1 + y_i), sigma^2),    w~_i = log(w_i / mean w)

where y_i is the count, x_i are the predictors and w_i is the survey weight of record i.  The second line applies only
if the weight is not public.  The pseudo likelihood L is prod_i p(y_i)^alpha_i, where alpha_i is the privacy weight.
For predictor row g (a distinct row of the model matrix), let r_g = log(1 + mu_g / phi), and let A_g and S_g be the sums
of alpha and alpha y over the records with this predictor row.  Then, up to a constant,

    log L = sum_i alpha_i rise(y_i) + sum_g { S_g log mu_g - (S_g + A_g phi) r_g },
    rise(v) = log Gamma(v + phi) - log Gamma(phi) - v log phi.

The first sum is computed over distinct counts.  Counts from 16 on are grouped by octave (16 to 31, 32 to 63, and so
on), and a Gauss quadrature of ten points replaces the counts of each octave.  As the function rise is analytic for
v > -phi, this is exact to rounding error for every phi.  The cost of a fit (``stan/counts.stan``) depends on the number
of predictor rows, but neither on the number of records nor on the number of distinct counts.

The parameters (c, gamma, sigma) of the weight have a conjugate prior, so they are drawn exactly.

**Coordinates** of the sampler come from the normal approximation of the likelihood at the mode; see the Stan program.

Letters in shapes are numbers: n of records, S of posterior draws, G of predictor rows, P of distinct pairs of a
predictor row and a count, and K of columns of the model matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log, pi
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError
from ..validation import one_of, rows
from .base import Debiasable, numeric_predictors_text, present
from .corrections.count_correction import correct
from .densities.count_likelihood import Likelihood, coordinates, pair_log_densities, points, rises, slopes, sums
from .densities.row_density import blocks, max_abs_log_density
from .draws import Draws, Sampler, Synthetic
from .one_outcome import OneOutcome, Standardized, smoothed_weights, standardized
from .predictors.model_matrix import Constants, with_unit_size
from .records import EACH, Public
from .regression.sufficient_statistics import SufficientStatistics, sufficient_statistics
from .regression.weight_regression import PRIOR_WEIGHT, draw_weights
from .scales.refusals import constant_outcome

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Prior = Literal["paper", "independent"]

PRIOR_DISPERSION = "1/phi ~ half-Cauchy(0, 5)"

FARTHEST = 25.0  # largest |log mean| of a synthetic count
MOST_EXPECTED = 2.0**53  # not all larger counts are whole numbers in floating point


@dataclass(frozen=True, repr=False, kw_only=True)
class CountRecords(Standardized):
    """Confidential records of a count model, and the P distinct combinations of predictors and count, called pairs.

    Attributes
    ----------
    pair : int array (n,)
        Number, 0 to P - 1, of each record's pair.
    pair_row : int array (P,)
        Predictor row (position in X) of each pair.
    count : float array (P,)
        Count of each pair.  Pairs are sorted by count.
    """

    pair: Codes = field(metadata=EACH)
    pair_row: Codes
    count: Floats


@dataclass(frozen=True)
class Counts(OneOutcome[CountRecords], Debiasable[CountRecords]):
    """A synthesizer of one count given public predictors: the common base of the negative binomial and Poisson models.

    The parameters, with S draws, are ``b`` (S, K), the coefficients of the standardized predictors, and ``phi`` (S,),
    which the Poisson model lacks.  If the weight is modelled, there are also ``c`` (S, K + 1), whose last element is
    gamma, and ``sigma`` (S,).
    """

    outcome: str
    predictors: str = "1"
    prior: Prior = "paper"
    missing: Literal["fail", "drop"] = "fail"
    weight: Literal["public"] | None = None

    name: ClassVar[str]
    measure = "none: the mean is modelled on the log scale"
    dispersed: ClassVar[bool]
    priors: ClassVar[dict[str, str]] = {
        "paper": (
            "coefficients of the intercept and of predictors with mean 0 and standard deviation 1 ~ N(0, D Omega D), "
            "D = diag(half-t(3, 0, 1)), Omega ~ LKJ(6) (the program of the authors of Hu, Savitsky & Williams 2020)"
        ),
        "independent": (
            "coefficients of the intercept and of predictors with mean 0 and standard deviation 1 ~ N(0, D^2), "
            "D = diag(half-t(3, 0, 1))"
        ),
    }

    def __post_init__(self) -> None:
        self._check()
        one_of(self.prior, self.priors, "prior")

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> CountRecords:  # fmt: skip
        """Check a file and return its records, with the distinct combinations of predictors and count.

        Raises
        ------
        InputError
            The outcome or a predictor is missing; the outcome is not a count; the formula cannot be evaluated or has no
            intercept; or the design has PSUs or strata that the predictors do not determine, and ``clusters`` is not
            "ignore".
        ModelError
            The outcome is constant, or nearly proportional to the inclusion probability; or the weight is nearly a
            function of public data, or of outcome and predictors, so its density is nearly unbounded.
        """
        y = self._counts(design)
        X, pattern, columns = self.predictor_rows(design, clusters, constants)
        public, log_w = self.survey_weights(design, X, pattern, mean_weight)
        X, pattern, columns = with_unit_size(X, pattern, columns, unit)
        values, code = np.unique(y, return_inverse=True)
        _, first, pair = np.unique(code * len(X) + pattern, return_index=True, return_inverse=True)
        records = CountRecords(
            pair=pair, pair_row=pattern[first], count=values[code[first]], y=y, row=pattern, log_w=log_w,
            public_weights=public, **standardized(X, pattern, columns),
        )  # fmt: skip
        if log_w is not None:
            _refuse_determined(records, log_w)
        return records

    def _counts(self, design: SurveyDesign) -> Floats:
        """Return the outcome (n,).  Raise InputError if it is not a count, and ModelError if it is constant."""
        y = present(design, self.outcome)
        other = ~((y >= 0) & (y < MOST_EXPECTED) & (y == np.floor(y)))
        if other.any():
            raise InputError(
                f"outcome {self.outcome!r} is not a count, 0, 1, 2 and so on, in {rows(other)}; {self.name} is a model "
                "of counts: use FBS for other numbers, or round"
            )
        if y.min() == y.max():
            raise constant_outcome(self.outcome)
        return y

    def fit(self, records: CountRecords, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the coefficients, the dispersion and the parameters of a modelled weight from the pseudo posterior.

        Raises
        ------
        ModelError
            The privacy weights are so small that too little information is left to fit the coefficients.
        """
        _refuse_degenerate(records, alpha)
        likelihood = _collapsed(records, alpha, self.dispersed)
        K = records.X.shape[1]
        fit = sampler.sample("counts", {
            "G": len(records.X), "K": K, "V": likelihood.v.size, "dispersed": int(self.dispersed),
            "correlated": int(self.prior == "paper" and K > 1), "X": records.X, "A": likelihood.A, "S": likelihood.S,
            "v": likelihood.v, "weight": likelihood.weight, **coordinates(likelihood),
        })  # fmt: skip
        values = {"b": fit.values["b"].reshape(-1, K)}
        if self.dispersed:
            values["phi"] = np.exp(-fit.values["l"].ravel())
        if records.log_w is not None:
            values |= draw_weights(_weight_statistics(records, records.log_w, alpha), len(values["b"]), sampler.rng)
        return Draws(values, sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)

    def biased(self, records: CountRecords, unit: Codes | None) -> dict[str, bool]:
        """Return an empty dict: the report names no quantity of a count model as strongly biased."""
        return {}

    def lipschitz(
        self, records: CountRecords, draws: Draws, unit: Codes | None = None, alpha: Floats | None = None
    ) -> Floats:
        """Compute, for each record or unit, the maximum of |log p| over all draws (:meth:`Synthesizer.lipschitz`)."""
        if records.log_w is not None:
            t = np.column_stack([records.log_w, records.log_w**2])
            return max_abs_log_density(t, records.pair, lambda p: _with_weight(records, p, draws), draws.size, unit)
        if unit is not None:
            zeros = np.zeros((len(records.pair), 2))
            return max_abs_log_density(zeros, records.pair, lambda p: _count_alone(records, p, draws), draws.size, unit)
        largest = np.empty(len(records.pair_row))
        for pairs in blocks(np.arange(len(records.pair_row)), 1, draws.size):
            largest[pairs] = np.abs(_log_p(records, pairs, draws)).max(axis=1)
        return np.where(np.isfinite(largest), largest, np.inf)[records.pair]

    def log_ratio(self, records: CountRecords, before: Floats, after: Floats, draws: Draws) -> Floats:
        """Compute the change of each draw's log pseudo likelihood from privacy weights ``before`` to ``after``."""
        out = self._log_likelihood(records, after, draws) - self._log_likelihood(records, before, draws)
        if records.log_w is not None:
            out += weights_log_likelihood(_weight_statistics(records, records.log_w, after - before), draws)
        return out

    def _log_likelihood(self, records: CountRecords, alpha: Floats, draws: Draws) -> Floats:
        """Compute the log pseudo likelihood of the counts in every draw (S,): sum_i alpha_i log p(count i | draw).

        The privacy weights alpha must not be negative.
        """
        likelihood, phi = _collapsed(records, alpha, self.dispersed), _phi(draws)
        alpha_of_pair = np.bincount(records.pair, alpha, len(records.pair_row))
        out = likelihood.weight @ rises(likelihood.v, phi) - alpha_of_pair @ gammaln(records.count + 1)
        for block in blocks(np.arange(len(records.X)), 1, draws.size):
            slope, spent = slopes(records.X[block] @ draws.values["b"].T, phi)
            out += likelihood.S[block] @ slope - likelihood.A[block] @ spent
        return np.asarray(out)

    def log_density(self, records: CountRecords, draws: Draws) -> Floats:
        """Compute the log density (S, n) of each record for each draw, with the probability of the count as density."""
        pairs, number = np.unique(records.pair, return_inverse=True)
        if records.log_w is None:
            return np.asarray(_log_p(records, pairs, draws)[number].T)
        c, p, q = _with_weight(records, pairs, draws)
        w = records.log_w[:, None]
        return np.asarray((c[number] + p[number] * w + q[number] * w**2).T)

    def debias_draws(
        self, records: CountRecords, draws: Draws, positions: Sequence[int], alpha: Callable[..., Floats],
        unit: Codes | None, rng: np.random.Generator, *, debias: bool,
    ) -> Draws:  # fmt: skip
        """Return the draws at ``positions``, corrected for the bias that privacy weights cause.

        The corrected draws are Fisher-consistent: if a corrected draw is the truth, the alpha-weighted estimator tends
        to the draw before correction.  ``alpha`` is the function that gives the privacy weight of a record from its
        risk, the maximum of |log p| over all draws.

        Raises
        ------
        InputError
            epsilon protects units of several records.  The correction is derived for single records only.
        ModelError
            The privacy weights cause so strong a bias that no correction exists.
        """
        if unit is not None:
            raise InputError("debias is for privacy weights of single records: leave out debias or unit=")
        done = draws.subset(positions)
        size = np.bincount(records.row, minlength=len(records.X)).astype(np.float64)
        values = correct(done.values, records.X, size, alpha, draws.size, rng)
        return done.subset(range(done.size), values)

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set.

        The weights are the public weights, or smoothed weights exp E(log weight | predictors, synthetic count).
        """
        values = {name: v[0] for name, v in draw.values.items()}
        mean = np.exp(np.clip(public.X @ values["b"], -FARTHEST, FARTHEST))[public.row]
        if self.dispersed:
            mean = mean * rng.standard_gamma(values["phi"], len(mean)) / values["phi"]
        y = rng.poisson(np.minimum(mean, MOST_EXPECTED))
        weights = public.public_weights
        if weights is None:
            weights = smoothed_weights(public, draw, np.log1p(y))
        return Synthetic(y[:, None], weights)

    def describe(self, public: Public) -> dict[str, Any]:
        """Return public facts about the model, for the manifest of a release."""
        return {
            "method": self.name,
            "outcome": list(self.outcomes),
            "predictors": self.predictors,
            "prior": self.prior,
            "transform": [self.measure],
            "weights": "public" if public.public_weights is not None else "synthesized (smoothed)",
        }

    @property
    def _distribution(self) -> str:
        if self.dispersed:
            return "negative binomial, with variance mu + mu^2 / phi and one phi for all"
        return "Poisson, with variance mu"

    def assumptions(self, public: Public) -> list[str]:
        """Return the assumptions of the model, as sentences for the report."""
        regression = len(public.columns) > 1
        given = f"given the predictors ({self.predictors}) " if regression else ""
        sentences = [
            f"{given}the outcome is {self._distribution}, mu its mean"
            + ("; log mu is linear in the predictors" * regression)
            + ". Its density is the probability of the count, which has no unit; a zero is a count like others",
            f"prior {self.prior}: {self.priors[self.prior]}" + f"; {PRIOR_DISPERSION}" * self.dispersed,
        ]
        if regression:
            sentences[-1] += (
                ". The means and standard deviations are those of the predictors of all records, which are public and "
                "held fixed"
            )
        sentences += numeric_predictors_text(public)
        if public.public_weights is not None:
            sentences.append(self.public_weight_text)
        else:
            sentences.append(
                "the log of the survey weight is normal given the predictors and the count, and linear in log(1 + "
                f"count); smoothed weights are released. Prior: {PRIOR_WEIGHT}"
            )
        return sentences


@dataclass(frozen=True)
class NegativeBinomialRegression(Counts):
    """Synthesizer of one count with a variance above its mean, by negative binomial regression.

    Parameters
    ----------
    outcome : str
        Confidential column of counts, 0 included; or a formula with the predictors, ``"visits ~ age + sex"``.
    predictors : str
        Right-hand side of a formula with an intercept, as in R.  ``"1"`` stands for no predictors.  Predictors are
        public: they are released unchanged.
    prior : {"paper", "independent"}
        "paper" is the prior in the program of the paper's authors: the coefficients are N(0, D Omega D), with
        D = diag(half-t(3, 0, 1)) and Omega ~ LKJ(6).  "independent" sets Omega = I, which is sensible with more than
        about 20 predictors.
    missing : {"fail", "drop"}
        "fail" refuses a file with a missing outcome.  "drop" leaves the record out, and the report says how many.
    weight : "public", optional
        Declares that the survey weight is public, so that it is released unchanged.  By default, the weight is
        modelled, unless it is found to be a function of the predictors.

    Raises
    ------
    InputError
        On construction: the outcome is not a column name or is a predictor, or an option is unknown.

    Notes
    -----
    Source: Hu, Savitsky & Williams (2020, section 2.1).  The paper has no survey weights.  If the weight is not public,
    we add a regression of the log weight on the predictors and log(1 + count), and its log density is part of the log
    density of a record.  The model has no effects of PSUs or strata.

    Examples
    --------
    >>> ss.NegativeBinomialRegression("visits ~ age + sex").measure
    'none: the mean is modelled on the log scale'
    """

    name: ClassVar[str] = "NegativeBinomial"
    dispersed: ClassVar[bool] = True


@dataclass(frozen=True)
class PoissonRegression(Counts):
    """Synthesizer of one count with a variance equal to the mean, by Poisson regression.

    The model is :class:`NegativeBinomialRegression` with phi = infinity.

    Parameters
    ----------
    outcome : str
        Confidential column of counts, 0 included; or a formula with the predictors, ``"visits ~ age + sex"``.
    predictors, prior, missing, weight
        See :class:`NegativeBinomialRegression`.

    Raises
    ------
    InputError
        See :class:`NegativeBinomialRegression`.

    Notes
    -----
    See :class:`NegativeBinomialRegression`.

    Examples
    --------
    >>> ss.PoissonRegression("children ~ region").outcomes
    ('children',)
    """

    name: ClassVar[str] = "Poisson"
    dispersed: ClassVar[bool] = False


# ---- the count's log density


def _phi(draws: Draws) -> Floats:
    return draws.values.get("phi", np.full(draws.size, np.inf))


def _log_p(records: CountRecords, pairs: Codes, draws: Draws) -> Floats:
    """Compute the log probability of the count in every draw, for selected combinations of predictors and count.

    The result is (pairs, S).
    """
    v, count = np.unique(records.count[pairs], return_inverse=True)
    here, row = np.unique(records.pair_row[pairs], return_inverse=True)
    phi = _phi(draws)
    rise = rises(v, phi) - gammaln(v + 1)[:, None]
    return pair_log_densities(count, row, v, rise, *slopes(records.X[here] @ draws.values["b"].T, phi))


def _count_alone(records: CountRecords, pairs: Codes, draws: Draws) -> tuple[Floats, Floats, Floats]:
    """Return log probabilities of counts, and 0 for the coefficients of the log weight, which is not modelled.

    The three arrays (pairs, S) are c, p and q of :func:`_with_weight`.
    """
    c = _log_p(records, pairs, draws)
    return c, np.zeros_like(c), np.zeros_like(c)


def _with_weight(records: CountRecords, pairs: Codes, draws: Draws) -> tuple[Floats, Floats, Floats]:
    """Return the coefficients of the log density of a count and a log weight, a quadratic function of the log weight.

    The coefficients c, p and q, each (pairs, S), give the log density c + p w~ + q w~^2 at log weight w~.  ``pairs``
    are numbers of pairs of a predictor row and a count.
    """
    coefficients, precision = draws.values["c"], draws.values["sigma"] ** -2
    mean = _weight_predictors(records)[pairs] @ coefficients.T
    p = mean * precision
    c = _log_p(records, pairs, draws) + 0.5 * (np.log(precision / (2 * pi)) - mean * p)
    return c, p, np.tile(-0.5 * precision, (len(pairs), 1))


# ---- the likelihood


def _collapsed(records: CountRecords, alpha: Floats, dispersed: bool) -> Likelihood:
    a = sums(records.pair, alpha, len(records.pair_row))
    v, weight = points(records.count, a) if dispersed else (np.empty(0), np.empty(0))
    A, S = (sums(records.pair_row, w, len(records.X)) for w in (a, a * records.count))
    return Likelihood(records.X, A, S, v, weight, dispersed)


# ---- the weight's regression on predictors and count


def _weight_predictors(records: CountRecords) -> Floats:
    """Return the predictors (x, log(1 + y)) of the log weight for each combination of predictors x and count y."""
    return np.column_stack([records.X[records.pair_row], np.log1p(records.count)])


def _weight_statistics(records: CountRecords, log_weights: Floats, alpha: Floats) -> SufficientStatistics:
    return sufficient_statistics(_weight_predictors(records), records.pair, log_weights[:, None], alpha)


def weights_log_likelihood(statistics: SufficientStatistics, draws: Draws) -> Floats:
    """Compute the log pseudo likelihood of the log weights w~ in every draw (S,).

    It is sum_i alpha_i log N(w~_i; x_i c + gamma log(1 + y_i), sigma^2).  ``statistics`` are the alpha-weighted
    cross products of the predictors, the log counts and the log weights.
    """
    c, sigma = draws.values["c"], draws.values["sigma"]
    squares = statistics.Q[0, 0] - 2 * c @ statistics.P[:, 0] + np.einsum("sk,sk->s", c @ statistics.C0, c)
    return np.asarray(-statistics.A * (np.log(sigma) + 0.5 * log(2 * pi)) - squares / (2 * sigma**2))


# ---- refusals


def _refuse_determined(records: CountRecords, log_weights: Floats) -> None:
    centred = log_weights - log_weights.mean()
    residual = _weight_statistics(records, centred, np.ones(len(centred))).reduced()[2][0, 0]
    if residual <= 1e-6 * (centred @ centred):
        raise ModelError(
            "outcome and predictors determine the survey weight (nearly) completely, so its density is unbounded and "
            "no Lipschitz bound is useful; use fewer predictors"
        )


def _refuse_degenerate(records: CountRecords, alpha: Floats) -> None:
    K, y = records.X.shape[1], records.y
    mean = alpha @ y / max(alpha.sum(), 1e-300)
    if alpha.sum() < K + 1 or alpha @ (y - mean) ** 2 <= 1e-9 * (alpha @ y**2):
        raise ModelError(
            f"the privacy weights leave too little of the file to fit {K} coefficients; ask for a larger epsilon, a "
            "smaller m, or use fewer predictors"
        )
