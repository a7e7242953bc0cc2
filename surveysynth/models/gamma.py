"""A gamma regression of a positive outcome: the example of docs/extending.md.

    y_i ~ gamma(shape, shape / mu_i),   log mu_i = x_i b,   log w_i ~ N(x_i c + gamma log y_i, sigma^2)

where the weight is not public.  ``stan/gamma.stan`` samples (b, shape) from sums over the records of a predictor row,
so its cost does not depend on n; the weight's regression is drawn exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln, psi

from ..errors import InputError, ModelError
from ..validation import rows
from .draws import Draws, Sampler, Synthetic
from .one_outcome import Standardized
from .records import Public
from .relative_outcome import RelativeOutcome
from .shared.clipped_outcome import Natural, cell_limits, inner
from .shared.sufficient_statistics import sufficient_statistics
from .shared.weight_regression import draw_weights, weight_log_density

Floats = NDArray[np.float64]

# Of a broad reference: how far from the highest amount the lowest is taken to be, where it is near 0; its shape.
RANGE, BROAD_SHAPE = 1000.0, 0.5
LEAST = 1e6  # the highest amount over the least positive one that is told from 0


@dataclass(frozen=True)
class GammaRegression(RelativeOutcome[Standardized]):
    """Synthesizer of one positive outcome whose standard deviation goes with its mean.

    Draws hold ``b`` (S, K) and ``shape`` (S,), and where the weight is modelled ``c`` (S, K + 1), the last of which is
    the coefficient of log y, and ``sigma`` (S,).

    Parameters
    ----------
    outcome : str
        Confidential column of positive numbers. Or a formula for both, ``"income ~ region"``.
    predictors : str
        Right-hand side of a formula with an intercept, as in R; ``"1"`` for none.  These columns are public.
    missing : {"fail", "drop"}
        What a missing outcome does; "drop" leaves the record out and the report says how many.
    weight : "public", optional
        Declares that the survey weight is public: it is kept.  Default: it is modelled, unless it is found to be a
        function of the predictors, which under ``Strict`` is refused.
    bounds : (float, float), optional
        Public lowest and highest amount, which ``Strict`` needs where it has no reference; values beyond are then
        moved to them.

    Raises
    ------
    InputError
        On construction: an outcome that is no column name or is a predictor; an unknown option.

    Examples
    --------
    >>> ss.GammaRegression("rent ~ region", bounds=(50, 5000)).outcomes
    ('rent',)
    """

    outcome: str
    predictors: str = "1"
    missing: Literal["fail", "drop"] = "fail"
    weight: Literal["public"] | None = None
    bounds: tuple[float, float] | None = None

    name: ClassVar[str] = "gamma regression"
    shape: ClassVar[str | None] = "shape"
    broad_shape: ClassVar[str] = "shape"

    def __post_init__(self) -> None:
        self._check()
        self._check_relative()
        if self.bounds is not None and self.bounds[0] < 0:
            raise InputError("bounds of a positive outcome begin at 0 or above")

    def held(self, y: Floats) -> Floats:
        """Values moved to the public bounds under the strict mechanism, and away from 0."""
        if not self.strict or self.bounds is None:
            return y
        low, high = self.bounds
        return np.clip(y, max(low, high / LEAST), high)

    @property
    def family(self) -> GammaFamily:
        """Gamma, within the bounds."""
        return GammaFamily()

    def broad_outcome(self) -> tuple[float, float]:
        """A mean in the middle of the bounds, on a log scale, and a shape that covers both."""
        assert self.bounds is not None  # as broad_reference sees to
        low, high = self.bounds
        return float(np.log(np.sqrt(max(low, high / RANGE) * high))), float(np.log(BROAD_SHAPE))

    @property
    def measure(self) -> str:  # type: ignore[override]  # of the field outcome
        """Scale of the density."""
        return f"{self.outcome}, in its own unit"

    def check(self, records: Standardized) -> None:
        """Refuse an outcome that is not positive (InputError), or constant (ModelError)."""
        if self.strict:
            return  # nothing of the file decides
        bad = ~(records.y > 0)
        if bad.any():
            raise InputError(
                f"outcome {self.outcome!r} is not positive in {rows(bad)}: use FBS with an asinh transform"
            )
        if records.y.min() == records.y.max():
            raise ModelError(
                f"{self.outcome} is constant: there is nothing to synthesize, and publishing it is publishing it"
            )

    def fit(self, records: Standardized, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw (b, shape), and the weight's regression where it is modelled, from the pseudo posterior."""
        y, (G, K) = records.y, records.X.shape
        a, s, t = (np.bincount(records.row, alpha * of, G) for of in (np.ones(len(y)), np.log(y), y))
        fit = sampler.sample("gamma", {"G": G, "K": K, "X": records.X, "a": a, "s": s, "t": t})
        values = {"b": fit.values["b"].reshape(-1, K), "shape": fit.values["shape"].ravel()}
        if records.log_w is not None:
            given = np.column_stack([records.x, np.log(y)])
            of = sufficient_statistics(given, np.arange(len(y)), records.log_w[:, None], alpha)
            values |= draw_weights(of, len(values["b"]), sampler.rng)
        return Draws(values, sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)

    def log_density(self, records: Standardized, draws: Draws) -> Floats:
        """log p(y_i, log w_i | x_i, draw): (S, n)."""
        shape, log_mean = draws["shape"][:, None], draws["b"] @ records.x.T
        rate = np.log(shape) - log_mean
        logs = shape * rate - gammaln(shape) + (shape - 1) * np.log(records.y) - np.exp(rate) * records.y
        if records.log_w is None:
            return np.asarray(logs)
        mean = draws["c"][:, :-1] @ records.x.T + draws["c"][:, -1:] * np.log(records.y)
        return np.asarray(logs + weight_log_density(records.log_w, mean, draws["sigma"]))

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """y* from the model; the public weights, or the smoothed E(w~ | y*) as in FBS."""
        shape, mean = draw["shape"][0], np.exp(self.linear_predictor(public, draw))[public.row]
        y = self.held(rng.gamma(shape, mean / shape))
        weights = public.public_weights
        if weights is None:
            weights = self.drawn_weights(public, draw, y, rng)
        return Synthetic(y[:, None], weights)

    def assumptions(self, public: Public) -> list[str]:
        """What the model takes as given, in sentences, for the report."""
        plain = super().assumptions(public)
        return [*plain, *self.said_of_reference(public)] if self.strict else plain


@dataclass(frozen=True)
class GammaFamily:
    """The density as the strict mechanism takes it: its statistics log y and y, and public cells between quantiles."""

    @property
    def farthest(self) -> float:
        """Of a log mean: amounts have units of their own."""
        return 200.0

    @property
    def shaped(self) -> bool:
        """The shape k."""
        return True

    @property
    def summed(self) -> bool:
        """An amount is continuous."""
        return False

    def statistics(self, y: Floats) -> tuple[Floats, Floats]:
        """log y and y."""
        return np.log(y), y

    def size(self, y: Floats) -> Floats:
        """What the log weight is linear in: log y."""
        return np.asarray(np.log(y))

    def natural(self, eta: Floats, log_shape: float) -> Natural:
        """k (log k - log mu) - log Gamma(k), k - 1 and -k / mu."""
        k, one = np.exp(log_shape), np.ones_like(eta)
        rate = k * np.exp(-eta)
        by_shape = k * (log_shape + 1 - eta - psi(k)), k * one, -rate
        return Natural(k * (log_shape - eta) - gammaln(k), (k - 1) * one, -rate, (-k * one, 0 * one, rate), by_shape)

    def table(self, y: Floats, log_shape: float) -> tuple[Floats, Floats]:
        """Nothing."""
        return np.zeros_like(y), np.zeros_like(y)

    def information(self, eta: Floats, log_shape: float) -> Floats:
        """Of an amount about log mu: k."""
        return np.full_like(eta, np.exp(log_shape))

    def bend(self, eta: Floats) -> Floats:
        """Of a mean whose log is the linear predictor."""
        return np.ones_like(eta)

    def nodes(self, eta: Floats, log_shape: float, known: float, *, cells: bool) -> tuple[Floats, Floats]:
        """Limits of cells (G, Q + 1) and their probabilities (G, Q); or the middles of these cells (G, Q)."""
        u, k = cell_limits(known), np.exp(log_shape)
        at = inner(u) if cells else (u[:-1] + u[1:]) / 2
        return np.exp(eta)[:, None] / k * gammaincinv(k, at)[None, :], np.tile(np.diff(u), (len(eta), 1))
