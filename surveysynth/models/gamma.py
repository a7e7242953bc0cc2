"""A gamma regression of a positive outcome.

    y_i ~ gamma(shape, rate = shape / mu_i),   log mu_i = x_i b,   log w_i ~ N(x_i c + gamma log y_i, sigma^2)

y_i is the outcome of record i, x_i are its predictors, and w_i is its survey weight divided by the mean weight.  The
density of w applies only if the weight is not public.  ``stan/gamma.stan`` samples (b, shape) given sums over the
records of each predictor row (a distinct row of the model matrix).  Therefore the cost does not depend on the number of
records n.  The parameters of the weight are drawn exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ..errors import InputError
from ..validation import rows
from .draws import Draws, Sampler, Synthetic
from .one_outcome import OneOutcome, Standardized, smoothed_weights
from .records import Public
from .regression.sufficient_statistics import sufficient_statistics
from .regression.weight_regression import draw_weights, weight_log_density
from .scales.refusals import constant_outcome

Floats = NDArray[np.float64]

FARTHEST = 200.0  # largest |log mean| of a synthetic amount


@dataclass(frozen=True)
class GammaRegression(OneOutcome[Standardized]):
    """Synthesizer of one positive outcome with a standard deviation proportional to the mean.

    The parameters, with S draws, are ``b`` (S, K), the coefficients of the K columns of standardized predictors in the
    log mean, and ``shape`` (S,).  If the weight is modelled, there are also ``c`` (S, K + 1), whose last element is the
    coefficient of log y, and ``sigma`` (S,).

    Parameters
    ----------
    outcome : str
        Confidential column of positive numbers; or a formula with the predictors, ``"income ~ region"``.
    predictors : str
        Right-hand side of a formula with an intercept, as in R.  ``"1"`` stands for no predictors.  Predictors are
        public: they are released unchanged.
    missing : {"fail", "drop"}
        "fail" refuses a file with a missing outcome.  "drop" leaves the record out, and the report says how many.
    weight : "public", optional
        Declares that the survey weight is public, so that it is released unchanged.  By default, the weight is
        modelled, unless it is found to be a function of the predictors.

    Raises
    ------
    InputError
        On construction: the outcome is not a column name or is a predictor, or an option is unknown.

    Examples
    --------
    >>> ss.GammaRegression("rent ~ region").outcomes
    ('rent',)
    """

    outcome: str
    predictors: str = "1"
    missing: Literal["fail", "drop"] = "fail"
    weight: Literal["public"] | None = None

    name: ClassVar[str] = "gamma regression"

    @property
    def measure(self) -> str:  # type: ignore[override]  # of the field outcome
        """Name of the scale on which densities are computed: the outcome in its own unit."""
        return f"{self.outcome}, in its own unit"

    def check(self, records: Standardized) -> None:
        """Refuse an outcome that is not positive in some record (InputError) or is constant (ModelError)."""
        bad = ~(records.y > 0)
        if bad.any():
            raise InputError(
                f"outcome {self.outcome!r} is not positive in {rows(bad)}: use FBS with an asinh transform"
            )
        if records.y.min() == records.y.max():
            raise constant_outcome(self.outcome)

    def fit(self, records: Standardized, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the coefficients and the shape from the pseudo posterior, and the parameters of a modelled weight."""
        y, (G, K) = records.y, records.X.shape
        a, s, t = (np.bincount(records.row, alpha * v, G) for v in (np.ones(len(y)), np.log(y), y))
        fit = sampler.sample("gamma", {"G": G, "K": K, "X": records.X, "a": a, "s": s, "t": t})
        values = {"b": fit.values["b"].reshape(-1, K), "shape": fit.values["shape"].ravel()}
        if records.log_w is not None:
            given = np.column_stack([records.x, np.log(y)])
            statistics = sufficient_statistics(given, np.arange(len(y)), records.log_w[:, None], alpha)
            values |= draw_weights(statistics, len(values["b"]), sampler.rng)
        return Draws(values, sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)

    def log_density(self, records: Standardized, draws: Draws) -> Floats:
        """Compute the log density (S, n) of each record for each draw: log p(y_i, log w_i | x_i, draw)."""
        shape, log_mean = draws["shape"][:, None], draws["b"] @ records.x.T
        rate = np.log(shape) - log_mean
        logs = shape * rate - gammaln(shape) + (shape - 1) * np.log(records.y) - np.exp(rate) * records.y
        if records.log_w is None:
            return np.asarray(logs)
        mean = draws["c"][:, :-1] @ records.x.T + draws["c"][:, -1:] * np.log(records.y)
        return np.asarray(logs + weight_log_density(records.log_w, mean, draws["sigma"]))

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set.

        The weights are the public weights, or smoothed weights exp E(log weight | predictors, synthetic outcome).
        """
        shape, log_mean = draw["shape"][0], np.clip(public.X @ draw["b"][0], -FARTHEST, FARTHEST)
        y = rng.gamma(shape, np.exp(log_mean)[public.row] / shape)
        weights = public.public_weights
        if weights is None:
            weights = smoothed_weights(public, draw, np.log(y))
        return Synthetic(y[:, None], weights)
