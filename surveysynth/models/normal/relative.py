"""The joint regression measured against a reference: what the strict mechanism asks of FBS and FBP."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from ..._version import __version__
from ...choices import Missing
from ...design.survey_design import SurveyDesign
from ...engines.base import Diagnostics
from ...errors import InputError, ModelError
from ..base import Relative, Synthesizer
from ..draws import Draws, Sampler
from ..records import intercept_of
from ..shared.clipped_fit import (
    NARROW,
    WEIGHT_CENTRE,
    WEIGHT_SD,
    WIDE,
    Density,
    Normal,
    Places,
    clipped_target,
    parameters,
    straight,
)  # fmt: skip
from ..shared.normal_scores import NormalScores, PrivateScores
from ..shared.transforms import LogTransform, Transform, as_transform
from ..tempered_chains import tempered_chains
from .category_shares import private_log_shares
from .psu_shares import innovations, private_shares
from .records import JointRecords

Floats = NDArray[np.float64]

HALF, FEW = 0.5, 0.1  # share of zeros, and of missing outcomes, before anything is known
CURVED = (
    "the log survey weight is quadratic in what the predictors leave of the outcome, with a slope that goes with the "
    "predictors and a spread that is log-linear in the outcome; weights are held within .05 and 50 times the mean, "
    "which are public"
)
REFERENCE_PRIOR = (
    "coefficients of K whitened predictors ~ N(those of the reference, (2 of its standard deviations)^2 / K), narrower "
    "in directions in which the mean of a predictor row would have more than 2, the covariance within public limits of "
    "its eigenvalues over those of the reference, under a prior that takes off about what variances gain from what the "
    "draws leave open of the coefficients"
)

J = TypeVar("J", bound=JointRecords)


class RelativeRegression(Relative[J]):
    """Draws of (B, Sigma), and of the curvature of the weight, measured against a reference of the same form."""

    scored_by_bounds = True
    takes_psus = True

    prior: str
    transform: Any
    missing: Missing
    zeros: bool
    outcomes: tuple[str, ...]

    @property
    @abstractmethod
    def curved(self) -> bool:
        """Whether the log weight goes with the outcomes in a curve, and its spread with them."""

    @property
    @abstractmethod
    def two_parts(self) -> bool:
        """Whether some records have no amount, which is an outcome of its own."""

    @abstractmethod
    def transforms(self) -> list[Transform]:
        """One transform a numeric outcome."""

    @property
    def unscaled(self) -> tuple[str, ...]:
        """Outcomes of which no public scale says where they lie."""
        scales = zip(self.numeric, self.transforms(), strict=True)
        return tuple(outcome for outcome, t in scales if not isinstance(t, NormalScores))

    def on_scale_of(self, earlier: Synthesizer[Any]) -> Self:
        """On the scale of the earlier one where this one is on the default one, which is log."""
        if not isinstance(earlier, RelativeRegression) or earlier.numeric != self.numeric or not self.logs:
            return self
        return replace(self, transform=earlier.transform)  # type: ignore[type-var]  # subclasses are dataclasses

    @property
    def logs(self) -> bool:
        """Whether the scale is the default one."""
        return not isinstance(self.transform, dict) and as_transform(self.transform) == LogTransform()

    def scored(
        self, design: SurveyDesign, bounds: Any, epsilon: float, each: int, rng: np.random.Generator | None,
        *, some: bool = False,
    ) -> Self:  # fmt: skip
        """With private normal scores of every numeric outcome."""
        if not self.logs:
            raise InputError("bounds= makes normal scores, and transform= is another scale: leave one of them out")
        if isinstance(bounds, Mapping) and set(bounds) != set(self.numeric):
            raise InputError(f"bounds= names other columns than the numeric outcomes: {', '.join(self.numeric)}")
        scores = {
            outcome: NormalScores.private(
                design, outcome, bounds=bounds[outcome] if isinstance(bounds, Mapping) else bounds,
                epsilon=epsilon / len(self.numeric), each=each, zeros=self.zeros,
                missing=some or self.missing == "impute", rng=rng,
            )
            for outcome in self.numeric
        }  # fmt: skip
        return replace(self, transform=scores)  # type: ignore[type-var]

    def for_later_files(self) -> Self:
        """With normal scores that cost nothing any more."""
        scored = zip(self.numeric, self.transforms(), strict=True)
        kept = {o: t.kept() if isinstance(t, PrivateScores) else t for o, t in scored}
        return replace(self, transform=kept)  # type: ignore[type-var]

    def dimensions(self, records: J) -> tuple[int, int]:
        """Outcomes and weight; coefficients, covariance and curvature."""
        groups = records.groups
        if groups is not None and (groups.parent is not None or not groups.sampled):
            raise ModelError(
                f"the design has {groups.describe()}, and effects of strata are not modelled under Strict(): put the "
                "strata into the formula, or say clusters='ignore'"
            )
        if groups is not None and (self.two_parts or records.categories is not None):
            raise ModelError(
                "the design has PSUs, whose effects on zeros, missing values and categories are not modelled under "
                "Strict(): say clusters='ignore', or use PseudoPosterior()"
            )
        d, of = records.Y.shape[1], records.categories
        if not 1 <= d <= 4:
            raise ModelError(
                "Strict() takes up to three numeric outcomes and the survey weight, and one of these at least"
            )
        cells, K = (0, 1) if of is None else (of.cells, of.K)
        rank = int(np.linalg.matrix_rank(records.X if records.simulated is None else records.simulated))
        return d, parameters(rank, d, curved=self._bent(records), cells=cells, K=K, zeros=self._beside(d))

    def broad_reference(self, records: J) -> Draws:
        """Standard normal outcomes, as their normal scores are, and a log weight as most surveys have it."""
        if self.unscaled:
            raise InputError(
                f"without a reference nothing public says where {', '.join(self.unscaled)} lies: give public "
                "bounds, from which normal scores are made, or Strict(reference=...)"
            )
        sd = np.ones(records.Y.shape[1])
        centre = np.zeros(sd.size)
        if records.log_w is not None:
            centre[-1], sd[-1] = WEIGHT_CENTRE, WEIGHT_SD
        intercept = intercept_of(records)
        of = records.categories
        shares = None if of is None else np.full((of.cells, of.K), -np.log(of.K))
        normal = Normal(np.outer(intercept, centre), np.diag(sd), **straight(intercept.size, sd.size))
        if not self.two_parts:
            return as_draws([Density(**vars(normal), log_shares=shares)])
        even = logit(HALF if self.zeros else FEW)
        beside = sd.size - (self._beside(sd.size) or 0)
        return as_draws([
            Density(
                **vars(normal), log_shares=shares, zero=intercept * even, B_zero=normal.B[:, beside:],
                L_zero=normal.L[beside:, beside:],
            )
        ])  # fmt: skip

    @property
    def lacks_shares(self) -> bool:
        """Whether outcomes are categories, within cells that are public."""
        return bool(self.categorical)

    def with_shares(
        self, records: J, reference: Draws, present: Floats, *,
        epsilon: float, each: int, rng: np.random.Generator | None,
    ) -> Draws:  # fmt: skip
        """The reference with private shares of this file."""
        assert records.categories is not None  # as lacks_shares says
        log_shares = private_log_shares(records.categories, present, epsilon=epsilon, each=each, rng=rng)
        return replace(reference, values=reference.values | {"log_shares": log_shares[None]})

    def lacks_psu_shares(self, records: J, reference: Draws) -> bool:
        """Whether PSUs have effects of which the reference says nothing."""
        return records.groups is not None and "psu" not in reference.values

    def with_psu_shares(
        self, records: J, reference: Draws, share: float | None, *,
        epsilon: float, each: int, known: float, rng: np.random.Generator | None,
    ) -> Draws:  # fmt: skip
        """The reference with a public share for all numbers, or with private ones of this file."""
        assert records.groups is not None  # as lacks_psu_shares says
        density = density_of(reference)
        shares = np.full(len(density.L), share)
        if share is None:
            shares = private_shares(
                records, records.groups, density, curved=self._bent(records), epsilon=epsilon, each=each, known=known,
                rng=rng,
            )  # fmt: skip
        return replace(reference, values=reference.values | {"psu": shares[None]})

    def unprotected(self, records: J, sampler: Sampler) -> Draws:
        """Under the flat prior, with a weight that is straight."""
        if self.two_parts:
            raise InputError(
                "zeros=True and missing='impute' take no reference from a public file yet: a release is one"
            )
        linear = {"weight": None} if self.curved else {}
        plain = replace(self, prior="flat", **linear)  # type: ignore[type-var]  # subclasses are dataclasses
        drawn = plain.fit(records, np.ones(records.n), sampler)
        none = straight(records.X.shape[1], records.Y.shape[1])
        bent = {name: np.broadcast_to(value, (drawn.size, *value.shape)) for name, value in none.items()}
        return replace(drawn, values=drawn.values | bent)

    def pooled(self, draws: Draws) -> Draws:
        """Means of the coefficients, of the covariance, and of the curvature."""
        pooled = {name: value.mean(axis=0) for name, value in draws.values.items()}
        for name in pooled.keys() & {"L", "L_zero"}:
            L = draws.values[name]
            pooled[name] = np.linalg.cholesky(np.einsum("sij,skj->ik", L, L) / draws.size)
        if "log_shares" in pooled:
            pooled["log_shares"] = np.log(np.exp(draws.values["log_shares"]).mean(axis=0))
        return as_draws([Density(**pooled)])

    def around(self, records: J, reference: Draws, size: int, rng: np.random.Generator) -> Draws:
        """Normal draws with the Fisher information of as many records at the reference as it rests on."""
        measured = density_of(reference)
        tempering = np.full(records.n, float(reference["known"][0]) / records.n)
        target = clipped_target(
            records.X, records.pattern, records.Y, measured, tempering, 1.0, WIDE,
            self._bent(records), _places(records), records.zero,
        )  # fmt: skip
        scale = target.scale
        centre = target.starts(1, rng)[0]
        drawn = as_draws([target.density(centre + scale * rng.standard_normal(scale.size)) for _ in range(size)])
        return replace(drawn, values=drawn.values | {"known": np.repeat(reference["known"], size)})

    def clipped(
        self, records: J, reference: Draws, tempering: Floats, clamp: float, sampler: Sampler, *, first: bool,
        present: Floats | None = None,
    ) -> Draws:  # fmt: skip
        """Draw (B, L, kappa, eta, slope): see :mod:`.clipped_fit`."""
        measured = density_of(reference)
        target = clipped_target(
            records.X, records.pattern, records.Y, measured, tempering, clamp, WIDE if first else NARROW,
            self._bent(records), _places(records), records.zero, present, records.simulated, records.count,
        )  # fmt: skip
        groups = target.Q.shape[1], target.parts[0].d
        points, chain, diagnostics = tempered_chains(target, target.n, sampler, groups)
        drawn = as_draws([target.estimate(point) for point in points])
        return replace(drawn, chain=chain, diagnostics=diagnostics)

    def log_ratio_to(self, reference: Draws, records: J, draws: Draws) -> Floats:
        """log p / p_ref of numeric outcomes and weight, effects of PSUs in the variance: (S, n)."""
        if self.two_parts or records.categories is not None:
            raise ModelError("ratios to a reference are for numeric outcomes alone: no zeros=, missing= or C()")
        curved = self._bent(records)
        measured, *here = (
            _log_density(records, density_of(each, s), curved)
            for each, s in [(reference, 0), *((draws, s) for s in range(draws.size))]
        )
        return np.array(here) - measured

    def _beside(self, d: int) -> int | None:
        """Of d numbers those of a record without an amount: its weight beside a zero, none beside a missing one."""
        return None if not self.two_parts else d - 1 if self.zeros else 0

    def _bent(self, records: J) -> bool:
        """Whether the weight is modelled, and in a curve."""
        return self.curved and records.log_w is not None and len(self.numeric) > 0


def density_of(draws: Draws, s: int = 0) -> Density:
    """The parameters of draw s; references that were published before slopes went with predictors have none."""
    values = {name: value[s] for name, value in draws.values.items()}
    return Density(**(straight(*values["B"].shape) | values))


def _log_density(records: JointRecords, density: Density, curved: bool) -> Floats:
    """Of outcomes and weight on their working scales, up to a constant: (n,)."""
    e = innovations(records, density, curved=curved)
    spread = e[:, :-1] @ density.eta if curved else 0.0
    return np.asarray(-(e**2).sum(axis=1) / 2 - np.log(np.diag(density.L)).sum() - spread)


def _places(records: JointRecords) -> Places | None:
    """Cell and category of every predictor row; the cell is that of the records with the public row."""
    if records.categories is None:
        return None
    K = records.categories.K
    of_public = np.zeros(len(records.X) // K, dtype=np.intp)  # rows without a record count nothing
    of_public[records.row // K] = records.categories.cell
    return Places(np.repeat(of_public, K), np.tile(np.arange(K), len(of_public)), K)


def as_draws(densities: list[Density]) -> Draws:
    """Draws of parameters, one a density."""
    names = [f.name for f in fields(Density) if getattr(densities[0], f.name) is not None]
    values = {name: np.array([getattr(each, name) for each in densities]) for name in names}
    none = np.zeros(len(densities), dtype=np.intp)
    return Draws(values, none, Diagnostics(exact=True), "surveysynth", __version__)
