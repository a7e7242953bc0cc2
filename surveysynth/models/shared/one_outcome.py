"""What the models of one outcome given public predictors share: Beta and the models of counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...design.formula import formula_columns
from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...validation import rows
from ..base import Clusters, Constants, Draws
from .groups import groups_of
from .predictors import predictor_rows

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class OneOutcome:
    """A synthesizer of one outcome, with an intercept and without effects of PSUs and strata."""

    outcome: str
    predictors: str
    missing: Literal["fail", "drop"]
    name: ClassVar[str]
    categorical: ClassVar[tuple[str, ...]] = ()
    as_in_paper: ClassVar[bool] = False

    @property
    def from_records(self) -> bool:
        """Synthetic values are drawn from parameters and predictors alone."""
        return False

    def _check(self) -> None:
        if not isinstance(self.outcome, str) or not self.outcome:
            raise InputError(f"outcome must be the name of one column: {self.name} synthesizes one outcome")
        if self.missing not in ("fail", "drop"):
            raise InputError(f"missing={self.missing!r} is not one of fail, drop")
        if self.outcome in formula_columns(self.predictors):
            raise InputError(f"{self.outcome}: an outcome cannot be a predictor; predictors are public")

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The column that is synthesized."""
        return (self.outcome,)

    @property
    def predictor_columns(self) -> tuple[str, ...]:
        """The public columns that the formula names, sorted."""
        return formula_columns(self.predictors)

    def pilot(self) -> None:
        """There is no faster relative."""
        return None

    def _rows(
        self, design: SurveyDesign, clusters: Clusters, constants: Constants | None
    ) -> tuple[Floats, Codes, tuple[str, ...]]:
        """Predictor rows, as of :func:`predictor_rows`; refused without an intercept, or with groups to be modelled."""
        X, pattern, columns = predictor_rows(design, self.predictors, None, constants)
        if np.abs(X @ np.linalg.pinv(X).sum(axis=1) - 1).max() > 1e-8:
            raise InputError(f"{self.name} needs an intercept, which the formula {self.predictors!r} takes out")
        groups = groups_of(design, self.predictor_columns) if clusters == "model" else None
        if groups is not None:
            raise InputError(
                f"the design has {groups.describe()} that the predictors do not determine, and {self.name} has no "
                "effects of them: use FBS, put the strata into the formula, or say clusters='ignore', and standard "
                "errors from the synthetic files can be far too small"
            )
        return X, pattern, columns

    def _present(self, design: SurveyDesign) -> Floats:
        """The outcome, (n,), if no value is missing."""
        values = design.numeric(self.outcome)
        absent = np.isnan(values)
        if absent.any():
            raise InputError(
                f"outcome {self.outcome!r} is missing in {rows(absent)}; fill it in, or say missing='drop' to leave "
                "these records out (the report then says how many)"
            )
        return values

    def biased(self, data: Any, unit: Codes | None) -> dict[str, bool]:
        """Nothing that is always corrected."""
        return {}

    def debias_draws(
        self, data: Any, posterior: Draws, draws: Sequence[int], alpha: Callable[[Floats], Floats],
        unit: Codes | None, rng: np.random.Generator, *, debias: bool,
    ) -> Draws:  # fmt: skip
        """Refuse: what privacy weights do to the model is not corrected (InputError)."""
        raise InputError(f"debias is not to be had for {self.name}: leave it out, or use FBS")

    def uncensored(self, data: Any, posterior: Draws, draws: Sequence[int], bound: float) -> Draws:
        """Not to be had.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError(f"debias is not to be had for {self.name}: use FBS or FBP, or leave debias out")

    def variance_factor(
        self, data: Any, posterior: Draws, draws: Sequence[int], bound: float, *, corrected: bool
    ) -> float | None:
        """Not known."""
        return None

    def to_original_scale(self, data: Any, posterior: Draws) -> Draws:
        """Coefficients of predictors in their own units."""

        def change(b: Floats) -> Floats:
            b = b / data.sd
            b[..., 0] -= b[..., 1:] @ data.mean[1:]
            return b

        return _rescaled(posterior, change)

    def from_original_scale(self, data: Any, posterior: Draws) -> Draws:
        """Coefficients of the columns of ``data``."""

        def change(b: Floats) -> Floats:
            scaled = b * data.sd
            scaled[..., 0] += b[..., 1:] @ data.mean[1:]
            return scaled

        return _rescaled(posterior, change)


def _rescaled(posterior: Draws, change: Callable[[Floats], Floats]) -> Draws:
    """Coefficients of predictors changed: ``b``, ``zero``, and ``c`` but for its last, which is that of the outcome."""
    values = dict(posterior.values)
    for name in values.keys() & {"b", "zero"}:
        values[name] = change(values[name])
    if "c" in values:
        values["c"] = np.concatenate([change(values["c"][..., :-1]), values["c"][..., -1:]], axis=-1)
    return replace(posterior, values=values)


def standardized(X: Floats, pattern: Codes, columns: tuple[str, ...]) -> dict[str, Any]:
    """A column of ones, and the columns that vary, with mean 0 and standard deviation 1 over the records."""
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
    """Public limits of an outcome as two floats, or an InputError."""
    asked = "bounds must be two finite numbers, low < high: the outcome's least and largest possible values, public"
    if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray) or len(bounds) != 2:
        raise InputError(asked)
    if any(isinstance(x, bool | np.bool_) or not isinstance(x, int | float | np.number) for x in bounds):
        raise InputError(asked)
    low, high = float(bounds[0]), float(bounds[1])
    if not (np.isfinite([low, high, high - low]).all() and low < high):
        raise InputError(asked)
    return low, high
