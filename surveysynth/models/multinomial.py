"""Multinomial regression of one categorical outcome, with log odds that are linear in the predictors.

    P(y_i = k | x_i) = exp(x_i b_k) / sum_h exp(x_i b_h)                                    (Agresti 2013, section 8.1)

The model has no density of the survey weight.  Therefore the weight must be public, or a predictor, as in the later
models of a sequence.

X (G, P) are the predictor rows (the distinct rows of the model matrix), K is the number of categories, S the number of
posterior draws, and n the number of records.  Let W = X Q (G, r) be the whitened predictors, where r is the rank of X.
Let C (K, K - 1) be orthonormal contrasts of categories, and A (G, K) the sum of the privacy weights alpha over the
records with each combination of a predictor row g and a category k.  Then, with p_gk = P(y = k | row g),

    log odds = W psi C',   psi ~ N(0, s^2 / r),   log L = sum_gk A_gk log p_gk,

with s = 5.  Hamiltonian chains sample psi (r, K - 1) from the prior times the pseudo likelihood L.  The cost of a step
does not depend on n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numba as nb
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax

from .._version import __version__
from ..choices import Clusters, MissingCategory
from ..design.formula import category, sides_of
from ..design.recode import with_missing
from ..design.survey_design import SurveyDesign
from ..engines.base import Diagnostics, diagnose
from ..engines.hamiltonian import Target, chains
from ..errors import InputError, ModelError
from .base import numeric_predictors_text
from .draws import Draws, Sampler, Synthetic
from .one_outcome import OneOutcome, Standardized, standardized
from .predictors.model_matrix import Constants, with_unit_size
from .records import Public
from .scales.category_levels import levels_of

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

MOST = 50  # largest number of categories
SD = 5.0  # prior standard deviation of a contrast of log odds, in a row of mean leverage
PRIOR = "prior: contrasts of log odds are linear in whitened predictors, with K coefficients ~ N(0, 25 / K)"
START = 0.3  # differences of log odds between starts of chains, in a row of mean leverage
RHAT_LIMIT = 1.02  # with an ESS of 1,500 the largest R-hat - 1 of 30 parameters is up to .009 by chance alone
# A file of more than MANY records is sampled for the warm-up: n / ONE_IN records, but at least PILOT
MANY, PILOT, ONE_IN = 10_000, 5_000, 20


@dataclass(frozen=True, repr=False, kw_only=True)
class CategoryPublic(Public):
    """Public data of a multinomial regression.  They include ``levels``, the names of the categories."""

    levels: pd.Index


@dataclass(frozen=True, repr=False, kw_only=True)
class CategoryRecords(Standardized, CategoryPublic):
    """Confidential records of a multinomial regression.

    ``y`` (n,) is the position in ``levels`` of each record's category, as a float.
    """

    view: ClassVar[type[Public]] = CategoryPublic  # class of the public part

    @property
    def category(self) -> Codes:
        """Position (n,) of each record's category in ``levels``, as integers."""
        return self.y.astype(np.intp)


@dataclass(frozen=True)
class MultinomialRegression(OneOutcome[CategoryRecords]):
    """Synthesizer of one categorical outcome, given predictors that may be numeric.

    In :class:`surveysynth.FBS`, categories are multinomial within each combination of discrete predictors.  Here, log
    odds are linear in predictors of any kind, such as amounts.  The parameter ``b`` (S, P, K) has S draws of the
    coefficients of P columns of standardized predictors for K categories.  For each column, the coefficients of the K
    categories add up to 0.

    Parameters
    ----------
    outcome : str
        Confidential column whose values are treated as labels, even if they are numbers; or a formula with the
        predictors, ``"C(activity) ~ region + log(income)"``.  The names of the levels are published.
    predictors : str
        Right-hand side of a formula with an intercept, as in R.  ``"1"`` stands for no predictors.  Predictors are
        public: they are released unchanged.
    missing : {"fail", "drop", "category"}
        "fail" refuses a file with a missing outcome.  "drop" leaves the record out, and the report says how many.  With
        "category", "missing" is a further category, also in synthetic files, and the other labels become text.
    weight : "public", optional
        Declares that the survey weight is public, so that it is released unchanged.  By default, the weight must be a
        function of the predictors.  In a :class:`surveysynth.Sequential`, a later model has the weight as a predictor.

    Raises
    ------
    InputError
        On construction: the outcome is not a column name or is a predictor, or an option is unknown.

    Notes
    -----
    Agresti (2013, Categorical Data Analysis, section 8.1).

    Examples
    --------
    >>> model = ss.MultinomialRegression("C(activity) ~ region + np.log(age)", weight="public")
    >>> model.outcomes, model.predictors
    (('activity',), 'region + np.log(age)')
    """

    outcome: str
    predictors: str = "1"
    missing: MissingCategory = "fail"  # type: ignore[assignment]  # categories have one more
    weight: Literal["public"] | None = None

    name: ClassVar[str] = "multinomial regression"
    may_be_missing: ClassVar[tuple[str, ...]] = get_args(MissingCategory)

    def __post_init__(self) -> None:
        outcome, predictors = sides_of(self.outcome, self.predictors)
        named = category(outcome) if isinstance(outcome, str) else None
        self.__dict__.update(outcome=named or outcome, predictors=predictors)
        self._check()

    @property
    def categorical(self) -> tuple[str, ...]:  # type: ignore[override]  # of the field outcome
        """The single outcome of the model, which is categorical."""
        return self.outcomes

    @property
    def measure(self) -> str:  # type: ignore[override]  # of the field outcome
        """Name of the scale on which densities are computed: a probability, which has no unit."""
        return f"{self.outcome}, a probability"

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> CategoryRecords:  # fmt: skip
        """Check a file and return the records that the model needs (:meth:`Synthesizer.prepare`).

        Raises
        ------
        InputError
            The outcome or a predictor is missing; the levels cannot be sorted, are more than 50, or have fewer than
            five records on average (their names are published, and may then identify somebody); the weight is not
            public; or the design has PSUs or strata that the predictors do not determine, and ``clusters`` is not
            "ignore".
        ModelError
            The outcome has only one level.
        """
        code, levels = self._coded(design)
        X, row, columns = self.predictor_rows(design, clusters, constants)
        weights, _ = self.survey_weights(design, X, row, mean_weight)
        X, row, columns = with_unit_size(X, row, columns, unit)
        return CategoryRecords(
            row=row, y=code.astype(np.float64), public_weights=weights, levels=levels,
            **standardized(X, row, columns),
        )  # fmt: skip

    def check_outcomes(self, design: SurveyDesign) -> None:
        """Refuse an outcome with missing values or with unsuitable levels (:meth:`Synthesizer.check_outcomes`)."""
        self._coded(design)

    def _coded(self, design: SurveyDesign) -> tuple[Codes, pd.Index]:
        """Return the position (n,) of each record's category among the levels, and the levels."""
        column = design.column(self.outcome)
        code, levels = levels_of(with_missing(column) if self.missing == "category" else column, self.outcome)
        if len(levels) > MOST:
            raise InputError(f"outcome {self.outcome!r} has {len(levels)} categories, {MOST} are the most: group them")
        return code, levels

    def survey_weights(
        self, design: SurveyDesign, X: Floats, row: Codes, mean_weight: float | None
    ) -> tuple[Floats | None, Floats | None]:
        """Return the survey weights, and None in place of log weights.

        Raise InputError if the weights are not public, because the model has no density of the weight.
        """
        weights, log_w = super().survey_weights(design, X, row, mean_weight)
        if weights is None:
            raise InputError(
                "the survey weights are not a function of the predictors, and a multinomial regression models the "
                "outcome alone: use FBS, let it be a later model in sequence, which is given the weight, put what the "
                "weights depend on into the formula, or declare that they are public, weight='public'"
            )
        return weights, log_w

    def fit(self, records: CategoryRecords, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the coefficients b from the pseudo posterior, by Hamiltonian Monte Carlo.

        Raises
        ------
        ModelError
            All records of some category have privacy weight 0.
        """
        K = len(records.levels)
        occurs = np.bincount(records.category, minlength=K) > 0  # declared levels may have no record
        zero = occurs & (np.bincount(records.category, alpha, K) <= 0)
        if zero.any():
            raise ModelError(
                f"privacy weights leave nothing of {int(zero.sum())} categories of {self.outcome}: ask for a "
                "larger epsilon, or group rare categories"
            )
        Q, C = _whitening(records), _contrasts(K)
        psi, diagnostics = _sampled(records, Q, C, alpha, sampler)
        return Draws({"b": Q @ psi @ C.T}, sampler.chain_of_draws, diagnostics, "surveysynth", __version__)

    def log_density(self, records: CategoryRecords, draws: Draws) -> Floats:
        """Compute the log probability (S, n) of each record's category for each draw: log P(y_i | x_i, draw)."""
        rows, at = np.unique(records.row, return_inverse=True)
        return np.asarray(_log_probabilities(records.X[rows] @ draws["b"], at, records.category))

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set, with the public weights."""
        assert isinstance(public, CategoryPublic) and public.public_weights is not None  # checked by prepare
        below = np.cumsum(np.exp(log_softmax(public.X @ draw["b"][0], axis=1)), axis=1)
        drawn = (rng.random(public.n)[:, None] > below[public.row, :-1]).sum(axis=1)
        label = pd.Series(public.levels.take(drawn), dtype=public.levels.dtype)
        return Synthetic(np.empty((public.n, 0)), public.public_weights, {self.outcome: label})

    def to_original_scale(self, records: CategoryRecords, draws: Draws) -> Draws:
        """Convert draws from the standardized predictors of ``records`` to original units of the predictors."""
        b = draws["b"] / records.sd[:, None]
        b[:, 0] -= np.einsum("p,spk->sk", records.mean[1:], b[:, 1:])
        return replace(draws, values={"b": b})

    def from_original_scale(self, records: CategoryRecords, draws: Draws) -> Draws:
        """Convert draws from original units of the predictors to the standardized predictors of ``records``."""
        b = draws["b"] * records.sd[:, None]
        b[:, 0] += np.einsum("p,spk->sk", records.mean[1:], draws["b"][:, 1:])
        return replace(draws, values={"b": b})

    def describe(self, public: Public) -> dict[str, Any]:
        """Return public facts about the model, for the manifest of a release."""
        return super().describe(public) | {"weights": "public"}

    def assumptions(self, public: Public) -> list[str]:
        """Return the assumptions of the model, as sentences for the report."""
        return [
            f"the log odds of the categories of {self.outcome} are linear in the predictors ({self.predictors})",
            PRIOR,
            *numeric_predictors_text(public),
            self.public_weight_text,
        ]


# ---- the pseudo posterior


def _whitening(records: CategoryRecords) -> Floats:
    """Return the matrix Q that whitens the predictors: W = X Q has W'W / n = I over the records."""
    size = np.bincount(records.row, minlength=len(records.X)).astype(np.float64)
    values, vectors = np.linalg.eigh((records.X.T * (size / size.sum())) @ records.X)
    positive = values > 1e-10 * values[-1]
    return np.asarray(vectors[:, positive] / np.sqrt(values[positive]))


def _contrasts(K: int) -> Floats:
    """Return K - 1 orthonormal contrasts of K categories, as columns (K, K - 1)."""
    return np.asarray(np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, 1:]]))[0][:, 1:])


def _sums(records: CategoryRecords, weight: Floats) -> Floats:
    """Compute the sums (G, K) of ``weight`` (n,) for each combination of predictors and each category."""
    G, K = len(records.X), len(records.levels)
    sums = np.bincount(records.row * K + records.category, weight, G * K)
    return sums.astype(np.float64).reshape(G, K)


def _sampled(
    records: CategoryRecords, Q: Floats, C: Floats, alpha: Floats, sampler: Sampler
) -> tuple[Floats, Diagnostics]:
    W, (K, size), rng = records.X @ Q, C.shape, sampler.rng
    rank = W.shape[1]
    precision = float(SD / np.sqrt(rank)) ** -2  # of the prior

    def target(weight: Floats) -> Target:
        return _pseudo_posterior(W, C, _sums(records, weight), precision)

    spread = START / np.sqrt(rank)
    starts = [spread * rng.uniform(-1, 1, rank * size) * (chain > 0) for chain in range(sampler.chains)]
    pilot = None
    if records.n > MANY:  # a weighted sample of the records
        share = max(PILOT, records.n / ONE_IN) / records.n
        pilot = target(np.where(rng.random(records.n) < share, alpha / share, 0.0))
    scale = np.full(rank * size, 1 / np.sqrt(alpha.sum() / K + precision))
    points, divergences = chains(
        target(alpha), starts, scale, rng, warmup=sampler.warmup, draws=sampler.draws, pilot=pilot
    )
    diagnostics = replace(diagnose({"psi": points}, divergences), rhat_limit=RHAT_LIMIT)
    return points.reshape(-1, rank, size), diagnostics


def _pseudo_posterior(W: Floats, C: Floats, sums: Floats, precision: float) -> Target:
    """Return the function that computes the log pseudo posterior density of the coefficients psi, and its gradient.

    The argument of the function is psi (r, K - 1) as a vector.  W, psi and C are as in the module's docstring, and
    ``sums`` is A.  ``precision`` is the prior precision of each element of psi.
    """

    def target(point: Floats) -> tuple[float, Floats]:
        value, slope = _log_likelihood(W @ (point.reshape(W.shape[1], -1) @ C.T), sums)
        if not np.isfinite(value):
            return -np.inf, point
        return value - precision * float(point @ point) / 2, (W.T @ (slope @ C)).ravel() - precision * point

    return target


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _log_likelihood(log_odds: Floats, sums: Floats) -> tuple[float, Floats]:
    """Return the log pseudo likelihood minus its value under equal probabilities of all categories, and the gradient.

    The gradient is with respect to ``log_odds`` (G, K).  ``sums`` is A (G, K) of the module's docstring.
    """
    G, K = log_odds.shape
    total, slope, p, log_K = 0.0, np.empty((G, K)), np.empty(K), np.log(K)
    for g in range(G):
        largest, mass, whole = -np.inf, 0.0, 0.0
        for k in range(K):
            largest = max(largest, log_odds[g, k])
        for k in range(K):
            p[k] = np.exp(log_odds[g, k] - largest)
            mass += p[k]
        log_mass = largest + np.log(mass)
        for k in range(K):
            total += sums[g, k] * (log_odds[g, k] - log_mass + log_K)
            whole += sums[g, k]
        for k in range(K):
            slope[g, k] = sums[g, k] - p[k] / mass * whole
    return total, slope


@nb.njit(parallel=True, cache=True, error_model="numpy")
def _log_probabilities(log_odds: Floats, row: Codes, category: Codes) -> Floats:
    """Compute the log probability (S, n) of each record's category, from log odds by combination of predictors.

    ``log_odds`` is (S, G, K).
    """
    S, G, K = log_odds.shape
    out = np.empty((S, row.size))
    for s in nb.prange(S):
        log_mass = np.empty(G)
        for g in range(G):
            largest, mass = -np.inf, 0.0
            for k in range(K):
                largest = max(largest, log_odds[s, g, k])
            for k in range(K):
                mass += np.exp(log_odds[s, g, k] - largest)
            log_mass[g] = largest + np.log(mass)
        for i in range(row.size):
            out[s, i] = log_odds[s, row[i], category[i]] - log_mass[row[i]]
    return out
