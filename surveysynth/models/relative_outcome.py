"""Models of one outcome measured against a reference: what the strict mechanism asks of those with bounds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..engines.base import Diagnostics
from ..errors import InputError, ModelError
from .base import DECLARED_WEIGHT, PUBLIC_WEIGHT, Relative, Synthesizer
from .draws import Draws, Sampler
from .one_outcome import OneOutcome, Standardized, checked_bounds
from .records import Public, intercept_of
from .shared.clipped_fit import MANY_ROWS, NARROW, WEIGHT_CENTRE, WEIGHT_SD, WIDE, alike, whitening
from .shared.clipped_outcome import Family, Outcome, clipped_outcome
from .shared.predictors import LOG_WEIGHT, Constants, predictor_rows, with_column
from .shared.public_weights import varies_within
from .tempered_chains import tempered_chains
from .tempered_files import LOG_WEIGHTS, cells, drawn_weights

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

MOST_BIAS = 0.5  # of a linear predictor, that is taken off
REFERENCE_PRIOR = (
    "prior: coefficients of K whitened predictors ~ N(those of the reference, 4 / (K I)), I a record's "
    "information about its linear predictor there; the log of the shape ~ N(that of the reference, 1), of a first draw "
    "N(., 4)"
)
WITHIN = "values beyond the public bounds, {:g} and {:g}, are moved to them; synthetic ones are held within them"
ROOM = (
    "synthetic means leave room for the width of the posterior, which is public, so that what is convex in the model's "
    "scale does not come out high"
)
DRAWN = (
    "the weights in the files are drawn from the model, as outcomes are, with the sums that smoothed ones have in "
    "cells of the predictors, and are held within .05 and 50 times the mean"
)

OF_WEIGHT = "the log weight's coefficients and standard deviation have priors around those of the reference, as in FBS"

S = TypeVar("S", bound=Standardized)


class RelativeRows(OneOutcome[S], Relative[S]):
    """One outcome given rows of predictors, and a weight that is declared public, measured against a reference."""

    weight: Literal["public"] | None
    strict: bool = False  # whether it is fitted under the strict mechanism: then nothing of the file decides

    def _check_weight(self) -> None:
        """Refuse, on construction, what is no declaration of a weight."""
        if not (self.weight is None or (isinstance(self.weight, str) and self.weight == "public")):
            raise InputError("weight must be 'public', where the survey weight is, or left out")

    def predictor_rows(
        self, design: SurveyDesign, clusters: Clusters, constants: Constants | None
    ) -> tuple[Floats, Codes, tuple[str, ...]]:
        """As of :class:`OneOutcome`; with the log of a public weight that varies within rows."""
        X, row, columns = super().predictor_rows(design, clusters, constants)
        if self.weight == "public" and varies_within(design.weights, row):
            X, row = with_column(X, row, 1, np.log(design.weights / design.weights.mean()))
            columns = (*columns, LOG_WEIGHT)
        return X, row, columns

    def survey_weights(
        self, design: SurveyDesign, X: Floats, row: Codes, mean_weight: float | None
    ) -> tuple[Floats | None, Floats | None]:
        """As of :class:`Synthesizer`; under the strict mechanism that a weight is public is declared, never found."""
        if self.weight == "public":
            return design.weights, None
        public, log_w = super().survey_weights(design, X, row, mean_weight)
        if self.strict and public is not None:
            raise ModelError(
                "the survey weight is a function of what is public, and under Strict() nothing of the file is to "
                f"decide that it is kept: declare it, {type(self).__name__}(..., weight='public')"
            )
        return public, log_w

    def standardized(self, X: Floats, row: Codes, columns: tuple[str, ...]) -> dict[str, Any]:
        """As of :class:`OneOutcome`; as they are under the strict mechanism, whose prior whitens them."""
        if not self.strict:
            return super().standardized(X, row, columns)
        K = X.shape[1]
        return {"X": X, "columns": columns, "mean": np.zeros(K), "sd": np.ones(K)}

    def under_reference(self) -> Self:
        """Under the prior around the reference."""
        made = replace(self)  # type: ignore[type-var]  # subclasses are dataclasses
        made.__dict__["strict"] = True
        return made

    def unprotected(self, records: S, sampler: Sampler) -> Draws:
        """Under the model's own prior, in terms of the predictors' own units."""
        return self.to_original_scale(records, self.fit(records, np.ones(records.n), sampler))

    @property
    def said_of_public_weight(self) -> str:
        """Why the weight is kept, in a sentence."""
        return PUBLIC_WEIGHT if self.weight is None else DECLARED_WEIGHT


class BoundedRows(RelativeRows[S]):
    """With public bounds, which are all that is public of where the outcome lies, and cost nothing."""

    bounds: tuple[float, float] | None

    tailed = True

    def _check_relative(self) -> None:
        """Refuse, on construction, what is no bound and no declaration of a weight."""
        if self.bounds is not None:
            object.__setattr__(self, "bounds", checked_bounds(self.bounds))
        self._check_weight()

    def held(self, y: Floats) -> Floats:
        """Values moved to the public bounds under the strict mechanism."""
        return np.clip(y, *self.bounds) if self.strict and self.bounds is not None else y

    def _with(self, bounds: Any, *, strict: bool) -> Self:
        made = replace(self, bounds=bounds)  # type: ignore[type-var]  # subclasses are dataclasses
        made.__dict__["strict"] = strict
        return made

    def _check_bounded(self) -> None:
        """Refuse a broad reference without bounds."""
        if self.unscaled:
            raise InputError(
                f"without a reference nothing public says where {self.outcome} lies: give public bounds=(lowest, "
                "highest), or Strict(reference=...)"
            )

    @property
    def unscaled(self) -> tuple[str, ...]:
        """The outcome, where there are no bounds."""
        return () if self.bounds is not None else self.outcomes

    def on_scale_of(self, earlier: Synthesizer[Any]) -> Self:
        """Within the bounds of the earlier one, unless there are own ones."""
        if not isinstance(earlier, BoundedRows) or self.bounds is not None:
            return self
        return self._with(earlier.bounds, strict=self.strict)

    def scored(
        self, design: SurveyDesign, bounds: Any, epsilon: float, each: int, rng: np.random.Generator | None,
        *, some: bool = False,
    ) -> Self:  # fmt: skip
        """Within public bounds, which cost nothing."""
        if self.bounds is not None:
            raise InputError(f"bounds are given twice, to {type(self).__name__} and beside it; leave one of them out")
        if isinstance(bounds, Mapping):
            if set(bounds) != set(self.outcomes):
                raise InputError(f"bounds= names other columns than the outcome: {self.outcome}")
            bounds = bounds[self.outcome]
        return self._with(bounds, strict=self.strict)


class RelativeOutcome(BoundedRows[S]):
    """Draws of a linear predictor, a shape, and the weight's regression, measured against a reference of that form."""

    shape: ClassVar[str | None]  # what draws call the shape; None where there is none
    broad_shape: ClassVar[str]  # what a broad reference calls it

    @property
    @abstractmethod
    def family(self) -> Family:
        """The outcome's density."""

    @property
    def broad(self) -> Family:
        """The density of a broad reference: of the model, unless that has one width only."""
        return self.family

    @abstractmethod
    def broad_outcome(self) -> tuple[float, float]:
        """Linear predictor and log shape of a reference that is made from public facts alone."""

    # ---- the contract

    def dimensions(self, records: S) -> tuple[int, int]:
        """Outcome and weight; coefficients, the shape, and the weight's regression."""
        X = records.X if records.simulated is None else records.simulated
        return self._dimensions(int(np.linalg.matrix_rank(X)), records.log_w is not None)

    def expected_dimensions(self, design: SurveyDesign, clusters: Clusters = "model") -> tuple[int, int]:
        """As :meth:`Relative.expected_dimensions`."""
        X = predictor_rows(design, self.predictors, None)[0]
        return self._dimensions(int(np.linalg.matrix_rank(X)), self.weight != "public")

    def _dimensions(self, rank: int, modelled: bool) -> tuple[int, int]:
        return 1 + modelled, rank + self.family.shaped + (rank + 2) * modelled

    def broad_reference(self, records: S) -> Draws:
        """One linear predictor for all, a wide density, and a log weight as most surveys have it."""
        self._check_bounded()
        eta, log_shape = self.broad_outcome()
        intercept = intercept_of(records)
        modelled = records.log_w is not None
        c = np.append(WEIGHT_CENTRE * intercept, 0.0) if modelled else None
        return self.as_draws([Outcome(eta * intercept, log_shape, c, WEIGHT_SD)], broad=True)

    def pooled(self, draws: Draws) -> Draws:
        """Means of coefficients, geometric ones of the shape, and of the weight's variance."""
        pooled = {name: value.mean(axis=0, keepdims=True) for name, value in draws.values.items()}
        if self.shape in pooled:
            pooled[self.shape] = np.exp(np.log(draws[self.shape]).mean(keepdims=True))
        if "sigma" in pooled:
            pooled["sigma"] = np.sqrt((draws["sigma"] ** 2).mean(keepdims=True))
        return Draws(pooled, np.zeros(1, dtype=np.intp), Diagnostics(exact=True), "surveysynth", __version__)

    def clipped(
        self, records: S, reference: Draws, tempering: Floats, clamp: float, sampler: Sampler, *, first: bool,
        present: Floats | None = None,
    ) -> Draws:  # fmt: skip
        """Draw (b, shape), and (c, sigma) where the weight is modelled: see :mod:`.shared.clipped_outcome`."""
        X, G = records.X, len(records.X)
        groups = None
        if G > MANY_ROWS and records.simulated is None:
            size, of_rows = (np.bincount(records.row, x, G).astype(np.float64) for x in (np.ones(records.n), tempering))
            groups = alike(X @ whitening(X, size), of_rows, np.zeros(G, dtype=np.intp))
        target = clipped_outcome(
            self.family, self.broad if first else self.family, X, records.row, self.values(records), records.log_w,
            self._outcome(reference), tempering, clamp, WIDE if first else NARROW, groups, first=first,
            present=present, simulated=records.simulated,
        )  # fmt: skip
        points, chain, diagnostics = tempered_chains(target, records.n, sampler)
        return replace(self.as_draws([target.outcome(p) for p in points]), chain=chain, diagnostics=diagnostics)

    def values(self, records: S) -> Floats:
        """The outcome as the density has it: (n,)."""
        return self.held(records.y)

    def as_draws(self, outcomes: list[Outcome], *, broad: bool = False) -> Draws:
        """Draws of parameters, one an outcome."""
        values = {"b": np.array([o.b for o in outcomes])}
        if self.shape is not None or broad:
            values[self.broad_shape] = np.exp([o.log_shape for o in outcomes])
        if outcomes[0].c is not None:
            values |= {"c": np.array([o.c for o in outcomes]), "sigma": np.array([o.sigma for o in outcomes])}
        none = np.zeros(len(outcomes), dtype=np.intp)
        return Draws(values, none, Diagnostics(exact=True), "surveysynth", __version__)

    def _outcome(self, draw: Draws) -> Outcome:
        """Parameters of a single draw."""
        shape = draw.values.get(self.broad_shape, np.ones(1))[0]
        c = draw.values.get("c")
        if c is None:
            return Outcome(draw["b"][0], float(np.log(shape)))
        return Outcome(draw["b"][0], float(np.log(shape)), c[0], float(draw["sigma"][0]))

    # ---- synthetic files

    def linear_predictor(self, public: Public, draw: Draws) -> Floats:
        """Of the rows (G,): less what the width of the posterior adds to a mean that is convex in it.

        Draws of x b have the variance x M^-1 x' n / A, M the sum of the records' information and A how many of n the
        posterior rests on; a mean with derivatives mu' and mu'' then comes out high by half of mu'' times that.
        """
        b, far = draw["b"][0], self.family.farthest
        eta = np.clip(public.X @ b, -far, far)
        if "known" not in draw.values:
            return eta
        log_shape = self._outcome(draw).log_shape
        size = np.bincount(public.row, minlength=len(public.X)) * self.family.information(eta, log_shape)
        inverse = np.linalg.pinv((public.X.T * size) @ public.X, hermitian=True)
        variance = np.einsum("gk,kl,gl->g", public.X, inverse, public.X) * public.n / float(draw["known"][0])
        return np.asarray(eta - np.clip(variance * self.family.bend(eta) / 2, -MOST_BIAS, MOST_BIAS))

    def drawn_weights(self, public: Public, draw: Draws, y: Floats, rng: np.random.Generator) -> Floats:
        """Weights (n,) given the outcome: smoothed ones, or, under the strict mechanism, drawn ones."""
        c = draw["c"][0]
        log_weight = (public.X @ c[:-1])[public.row] + c[-1] * self.family.size(y)
        if not self.strict:
            return np.asarray(np.exp(log_weight))
        smoothed = np.exp(np.clip(log_weight, *LOG_WEIGHTS))
        sd = np.full(public.n, draw["sigma"][0])
        return drawn_weights(smoothed, sd, cells(public, public.row), rng)

    def said_of_reference(self, public: Public) -> list[str]:
        """What the strict mechanism's prior and files take as given, in sentences."""
        of_weight = [OF_WEIGHT, DRAWN] if public.public_weights is None else []
        within = [] if self.bounds is None else [WITHIN.format(*self.bounds)]
        return [REFERENCE_PRIOR, *within, ROOM, *of_weight]
