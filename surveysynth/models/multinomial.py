"""A multinomial regression of one outcome that is a category, whose log odds are linear in the predictors.

    P(y_i = k | x_i) = exp(x_i b_k) / sum_h exp(x_i b_h)                                    (Agresti 2013, section 8.1)

It has no density of the survey weight, which therefore is public, or among the predictors, as later models in sequence
have it.  The pseudo posterior and the strict one are sampled from the same target: see
:mod:`.shared.clipped_categories`.
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
from ..engines.base import Diagnostics
from ..errors import InputError, ModelError
from .base import said_of_numbers
from .draws import Draws, Sampler, Synthetic
from .one_outcome import Standardized
from .records import Public
from .relative_outcome import RelativeRows
from .shared.clipped_categories import ClippedCategories, clipped_categories, pseudo_categories
from .shared.levels import levels_of
from .shared.predictors import Constants, predictor_rows, with_unit_size
from .tempered_chains import tempered_chains

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

MOST = 50  # categories
SD = 5.0  # prior standard deviation of a contrast of log odds, in a row of mean leverage
PRIOR = "prior: contrasts of log odds are linear in whitened predictors, with K coefficients ~ N(0, 25 / K)"
REFERENCE_PRIOR = (
    "prior: contrasts of log odds between categories are those of the reference, plus K whitened predictors with "
    "coefficients ~ N(0, 4 / K)"
)


@dataclass(frozen=True, repr=False, kw_only=True)
class CategoryPublic(Public):
    """What is public, the names of the categories among it."""

    levels: pd.Index


@dataclass(frozen=True, repr=False, kw_only=True)
class CategoryRecords(Standardized, CategoryPublic):
    """The confidential file; y is the place of each record's category among the levels."""

    view: ClassVar[type[Public]] = CategoryPublic

    @property
    def category(self) -> Codes:
        """Of each record: (n,)."""
        return self.y.astype(np.intp)


@dataclass(frozen=True)
class MultinomialRegression(RelativeRows[CategoryRecords]):
    """Synthesizer of one outcome that is a category, given predictors that may be numbers.

    In ``FBS`` categories are multinomial within cells of discrete predictors; here log odds are linear in any
    predictors, amounts among them.  Draws hold ``b`` (S, P, K), coefficients of log odds, which add up to 0 over the K
    categories.

    Parameters
    ----------
    outcome : str
        Confidential column whose values are labels, also where they are numbers. Or a formula for both,
        ``"C(activity) ~ region + log(income)"``.  The names of its levels are published.
    predictors : str
        Right-hand side of a formula with an intercept, as in R; ``"1"`` for none.  These columns are public.
    missing : {"fail", "drop", "category"}
        What a missing outcome does; "drop" leaves the record out and the report says how many.  "category": missing is
        a category of its own, "missing", among others that become text; synthetic files have it, too.
    weight : "public", optional
        Declares that the survey weight is public: it is kept.  Default: it has to be a function of the predictors.  As
        a later model in sequence it is given the weight.

    Raises
    ------
    InputError
        On construction: an outcome that is no column name or is a predictor; an unknown option.

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
        self._check_weight()

    @property
    def categorical(self) -> tuple[str, ...]:  # type: ignore[override]  # of the field outcome
        """The outcome."""
        return self.outcomes

    @property
    def measure(self) -> str:  # type: ignore[override]  # of the field outcome
        """A probability has no unit."""
        return f"{self.outcome}, a probability"

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> CategoryRecords:  # fmt: skip
        """As :meth:`Synthesizer.prepare`; the weight has to be public.

        Raises
        ------
        InputError
            A missing outcome or predictor; levels that cannot be sorted, are more than 50, or have fewer than five
            records on average; a weight that is not public; PSUs or strata without ``clusters="ignore"``.
        ModelError
            One level.
        """
        code, levels = self._levels(design)
        if len(levels) > MOST:
            raise InputError(f"outcome {self.outcome!r} has {len(levels)} categories, {MOST} are the most: group them")
        X, row, columns = self.predictor_rows(design, clusters, constants)
        weights, _ = self.survey_weights(design, X, row, mean_weight)
        if weights is None:
            raise InputError(
                "the survey weights are not a function of the predictors, and a multinomial regression models the "
                "outcome alone: use FBS, let it be a later model in sequence, which is given the weight, put what the "
                "weights depend on into the formula, or declare that they are public, weight='public'"
            )
        X, row, columns = with_unit_size(X, row, columns, unit)
        return CategoryRecords(
            row=row, y=code.astype(np.float64), public_weights=weights, levels=levels,
            **self.standardized(X, row, columns),
        )  # fmt: skip

    def _levels(self, design: SurveyDesign) -> tuple[Codes, pd.Index]:
        """Level of each record, and the levels."""
        column = design.column(self.outcome)
        return levels_of(with_missing(column) if self.missing == "category" else column, self.outcome)

    def fit(self, records: CategoryRecords, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw b from the pseudo posterior, by Hamiltonian chains.

        Raises
        ------
        ModelError
            alpha leaves no record of some category.
        """
        there = np.bincount(records.category, minlength=len(records.levels)) > 0  # declared ones may have no record
        gone = there & (np.bincount(records.category, alpha, len(records.levels)) <= 0)
        if gone.any():
            raise ModelError(
                f"privacy weights leave nothing of {int(gone.sum())} categories of {self.outcome}: ask for a "
                "larger epsilon, or group rare categories"
            )
        target = pseudo_categories(records.X, records.row, records.category, len(records.levels), alpha, SD)
        return self._sampled(target, records.n, sampler)

    def clipped(
        self, records: CategoryRecords, reference: Draws, tempering: Floats, clamp: float, sampler: Sampler, *,
        first: bool, present: Floats | None = None,
    ) -> Draws:  # fmt: skip
        """Draw b: see :mod:`.shared.clipped_categories`."""
        target = clipped_categories(
            records.X, records.row, records.category, reference["b"][0], tempering, clamp, present=present,
            simulated=records.simulated,
        )  # fmt: skip
        return self._sampled(target, records.n, sampler)

    def _sampled(self, target: ClippedCategories, n: int, sampler: Sampler) -> Draws:
        points, chain, diagnostics = tempered_chains(target, n, sampler)
        b = np.array([target.coefficients(point) for point in points])
        return replace(_as_draws(b), chain=chain, diagnostics=diagnostics)

    def log_density(self, records: CategoryRecords, draws: Draws) -> Floats:
        """log P(y_i | x_i, draw): (S, n)."""
        rows, at = np.unique(records.row, return_inverse=True)
        return np.asarray(_log_probabilities(records.X[rows] @ draws["b"], at, records.category))

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Categories from the model; the public weights."""
        assert isinstance(public, CategoryPublic) and public.public_weights is not None  # as prepare sees to
        below = np.cumsum(np.exp(log_softmax(public.X @ draw["b"][0], axis=1)), axis=1)
        drawn = (rng.random(public.n)[:, None] > below[public.row, :-1]).sum(axis=1)
        label = pd.Series(public.levels.take(drawn), dtype=public.levels.dtype)
        return Synthetic(np.empty((public.n, 0)), public.public_weights, {self.outcome: label})

    # ---- beside a reference

    def dimensions(self, records: CategoryRecords) -> tuple[int, int]:
        """One; coefficients of contrasts."""
        X = records.X if records.simulated is None else records.simulated
        return 1, int(np.linalg.matrix_rank(X)) * (len(records.levels) - 1)

    def expected_dimensions(self, design: SurveyDesign, clusters: Clusters = "model") -> tuple[int, int]:
        """As :meth:`Relative.expected_dimensions`."""
        X = predictor_rows(design, self.predictors, None)[0]
        return 1, int(np.linalg.matrix_rank(X)) * (len(self._levels(design)[1]) - 1)

    def broad_reference(self, records: CategoryRecords) -> Draws:
        """Even shares."""
        return _as_draws(np.zeros((1, records.X.shape[1], len(records.levels))))

    def pooled(self, draws: Draws) -> Draws:
        """Means of coefficients."""
        return _as_draws(draws["b"].mean(axis=0, keepdims=True))

    def to_original_scale(self, records: CategoryRecords, draws: Draws) -> Draws:
        """Coefficients of predictors in their own units."""
        b = draws["b"] / records.sd[:, None]
        b[:, 0] -= np.einsum("p,spk->sk", records.mean[1:], b[:, 1:])
        return replace(draws, values={"b": b})

    def from_original_scale(self, records: CategoryRecords, draws: Draws) -> Draws:
        """Coefficients of the columns of ``records``."""
        b = draws["b"] * records.sd[:, None]
        b[:, 0] += np.einsum("p,spk->sk", records.mean[1:], draws["b"][:, 1:])
        return replace(draws, values={"b": b})

    def describe(self, public: Public) -> dict[str, Any]:
        """Public facts about the model, for the manifest."""
        return super().describe(public) | {"weights": "public"}

    def assumptions(self, public: Public) -> list[str]:
        """What the model takes as given, in sentences, for the report."""
        return [
            f"the log odds of the categories of {self.outcome} are linear in the predictors ({self.predictors})",
            REFERENCE_PRIOR if self.strict else PRIOR,
            *said_of_numbers(public),
            self.said_of_public_weight,
        ]


@nb.njit(parallel=True, cache=True, error_model="numpy")
def _log_probabilities(log_odds: Floats, row: Codes, category: Codes) -> Floats:
    """log P of the category of each record: (S, n), from log odds (S, G, K) of rows."""
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


def _as_draws(b: Floats) -> Draws:
    none = np.zeros(len(b), dtype=np.intp)
    return Draws({"b": b}, none, Diagnostics(exact=True), "surveysynth", __version__)
