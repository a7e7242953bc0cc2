"""Common base of the models of one outcome.

Letters in shapes are numbers: n of records, K of columns of the model matrix, and G of predictor rows.  The predictor
rows are the distinct rows of the model matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..choices import Clusters
from ..design.formula import formula_columns, sides_of
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import is_finite, one_of, several
from .base import DECLARED_WEIGHT, PUBLIC_WEIGHT, Portable
from .draws import Draws
from .predictors.model_matrix import LOG_WEIGHT, Constants, with_column
from .predictors.public_weights import varies_within
from .records import Public, Records

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, repr=False, kw_only=True)
class Standardized(Records):
    """Records with a standardized model matrix X: a column of ones, and varying columns with mean 0 and variance 1.

    Attributes
    ----------
    mean, sd : float arrays (K,)
        Means and standard deviations of the K columns before standardization.  For the column of ones, ``mean`` is 0
        and ``sd`` is 1.
    """

    mean: Floats
    sd: Floats


S = TypeVar("S", bound=Standardized)


class OneOutcome(Portable[S]):
    """A synthesizer of one outcome, with an intercept and without effects of PSUs and strata."""

    outcome: str
    predictors: str
    missing: Literal["fail", "drop"]
    weight: Literal["public"] | None = None  # None: the weight is public only if the predictors determine it
    name: ClassVar[str]
    may_be_missing: ClassVar[tuple[str, ...]] = ("fail", "drop")  # values of ``missing``

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        outcome, predictors = sides_of(self.outcome, self.predictors)
        self.__dict__.update(outcome=outcome, predictors=predictors)
        if not isinstance(self.outcome, str) or not self.outcome:
            raise InputError(f"outcome must be the name of one column: {self.name} synthesizes one outcome")
        one_of(self.missing, self.may_be_missing, "missing")
        if not (self.weight is None or (isinstance(self.weight, str) and self.weight == "public")):
            raise InputError("weight must be 'public', where the survey weight is, or left out")
        if self.outcome in formula_columns(self.predictors):
            raise InputError(f"{self.outcome}: an outcome cannot be a predictor; predictors are public")

    @property
    def outcomes(self) -> tuple[str, ...]:  # type: ignore[override]  # of the field outcome
        """The column that is synthesized."""
        return (self.outcome,)

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> S:  # fmt: skip
        """Check a file and return its records, with a standardized model matrix (:meth:`Synthesizer.prepare`)."""
        plain = super().prepare(design, clusters, mean_weight, constants, unit)
        kept = {f.name: getattr(plain, f.name) for f in fields(plain)}
        return Standardized(**kept | standardized(plain.X, plain.row, plain.columns))  # type: ignore[return-value]

    def predictor_rows(
        self, design: SurveyDesign, clusters: Clusters, constants: Constants | None
    ) -> tuple[Floats, Codes, tuple[str, ...]]:
        """Return the distinct rows of the model matrix, the position of each record's row, and the column names.

        The rows are (G, K), and the positions (n,).  If the weight was declared public and varies among records with
        the same predictors, log(w / mean w) is a further column.  Raise InputError for a formula without an intercept,
        because the model standardizes the predictors.
        """
        X, row, columns = super().predictor_rows(design, clusters, constants)
        if np.abs(X @ np.linalg.pinv(X).sum(axis=1) - 1).max() > 1e-8:
            raise InputError(f"{self.name} needs an intercept, which the formula {self.predictors!r} takes out")
        if self.weight == "public" and varies_within(design.weights, row):
            X, row = with_column(X, row, 1, np.log(design.weights / design.weights.mean()))
            columns = (*columns, LOG_WEIGHT)
        return X, row, columns

    def survey_weights(
        self, design: SurveyDesign, X: Floats, row: Codes, mean_weight: float | None
    ) -> tuple[Floats | None, Floats | None]:
        """Return (weights, None) if the survey weights are public, and (None, log(w / mean w)) otherwise.

        Weights are public if they were declared public or are a function of the predictors.
        """
        if self.weight == "public":
            return design.weights, None
        return super().survey_weights(design, X, row, mean_weight)

    @property
    def public_weight_text(self) -> str:
        """A sentence for the report: the weight was declared public, or it is a function of the predictors."""
        return PUBLIC_WEIGHT if self.weight is None else DECLARED_WEIGHT

    def to_original_scale(self, records: S, draws: Draws) -> Draws:
        """Convert coefficients from the standardized columns of ``records`` to the original units of the predictors."""

        def change(b: Floats) -> Floats:
            b = b / records.sd
            b[..., 0] -= b[..., 1:] @ records.mean[1:]
            return b

        return _rescaled(draws, change)

    def from_original_scale(self, records: S, draws: Draws) -> Draws:
        """Convert coefficients from the original units of the predictors to the standardized columns of ``records``."""

        def change(b: Floats) -> Floats:
            scaled = b * records.sd
            scaled[..., 0] += b[..., 1:] @ records.mean[1:]
            return scaled

        return _rescaled(draws, change)


def _rescaled(draws: Draws, change: Callable[[Floats], Floats]) -> Draws:
    """Return the draws after ``change`` is applied to all coefficients of predictors.

    These coefficients are ``b``, ``zero`` (of the odds of a zero), and ``c`` (of the log weight) without the last
    element of its last axis, which is the coefficient of the outcome.
    """
    values = dict(draws.values)
    for name in values.keys() & {"b", "zero"}:
        values[name] = change(values[name])
    if "c" in values:
        values["c"] = np.concatenate([change(values["c"][..., :-1]), values["c"][..., -1:]], axis=-1)
    return replace(draws, values=values)


def smoothed_weights(public: Public, draw: Draws, size: Floats) -> Floats:
    """Return smoothed survey weights (n,) of a synthetic data set.

    They are exp E(log weight | predictors, synthetic outcome).  The expectation is linear in the predictors and in
    ``size`` (n,), a function of the synthetic outcome such as log y.  Its coefficients are the parameter ``c``.
    """
    c = draw["c"][0]
    return np.asarray(np.exp((public.X @ c[:-1])[public.row] + c[-1] * size))


def standardized(X: Floats, pattern: Codes, columns: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields X, columns, mean and sd of :class:`Standardized` for a given model matrix.

    ``X`` (G, K) are the distinct rows of this matrix, ``pattern`` (n,) is the position of each record's row, and
    ``columns`` are the names of the columns.  A column that does not vary is left out.
    """
    share = np.bincount(pattern, minlength=len(X)) / len(pattern)
    mean = share @ X
    sd = np.sqrt(share @ (X - mean) ** 2)
    varies = sd > 1e-10 * (1 + np.abs(X).max(axis=0))
    return {
        "X": np.column_stack([np.ones(len(X)), ((X - mean) / np.where(varies, sd, 1.0))[:, varies]]),
        "columns": ("Intercept", *(c for c, v in zip(columns, varies, strict=True) if v)),
        "mean": np.append(0.0, mean[varies]), "sd": np.append(1.0, sd[varies]),
    }  # fmt: skip


def checked_bounds(bounds: object) -> tuple[float, float]:
    """Return the public bounds of an outcome as two floats.  Raise InputError unless they are finite and low < high."""
    asked = "bounds must be two finite numbers, low < high: the outcome's least and largest possible values, public"
    if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray) or len(several(bounds)) != 2:
        raise InputError(asked)
    if not all(is_finite(x) for x in bounds):
        raise InputError(asked)
    low, high = float(bounds[0]), float(bounds[1])
    if not (np.isfinite([low, high, high - low]).all() and low < high):
        raise InputError(asked)
    return low, high
