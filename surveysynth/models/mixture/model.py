"""The synthesizer of one skewed outcome: a truncated Dirichlet process mixture of regressions.

Source: Hu, Savitsky & Williams 2022b, section 1.2.

    y~_i | z_i = k ~ N(x_i b_k, s_k^2)                        (eq. 1)
    w~_i | z_i = k, y~_i ~ N(x_i c_k + g_k y~_i, t_k^2)       only if the survey weight is not public
    z_i ~ pi = (pi_1, ..., pi_K) ~ Dirichlet(gamma / K, ..., gamma / K)       (eq. 2-3)
    gamma ~ Gamma(a_gamma, b_gamma)                           (eq. 4)

For record i, y~_i is the outcome on the working scale (such as its log), w~_i = log(w_i / mean w) is the log survey
weight, x_i are the predictors, and z_i is the component, 1 to K.  With ``zeros``, the outcome is exactly 0 with
probability rho_i, where logit rho_i = x_i d, and the mixture is the distribution of all other outcomes.  With z summed
out, a record has the density

    (1 - rho_i) sum_k pi_k N(y~_i; x_i b_k, s_k^2) N(w~_i; ...)    if its outcome is not 0,
    rho_i N(w~_i; x_i c_0, t_0^2)                                  if its outcome is 0.

The sampler (:mod:`surveysynth.models.mixture.sampler`) draws the parameters from the prior times prod_i p_i^alpha_i,
where p_i is this density and alpha_i the privacy weight of record i.  In a censored fit, each alpha_i log p_i is also
clamped.  The component z of a synthetic record is drawn from its distribution given the parameters and predictors,
independently of the confidential record, except under the paper's ``allocation="posterior"``.

Letters in shapes are numbers: n of records, S of posterior draws, K of components, G of predictor rows (distinct rows
of the model matrix), R of columns of the model matrix, and U of units if epsilon protects units of several records.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, log_expit, ndtr

from ...choices import Allocation, Clusters
from ...design.survey_design import SurveyDesign
from ...engines import Diagnostics
from ...engines.base import diagnose
from ...errors import InputError, ModelError
from ...validation import one_of, positive, rows, whole
from ..base import Boundable, numeric_predictors_text, present
from ..densities.row_density import blocks
from ..draws import Draws, Sampler, Synthetic
from ..one_outcome import OneOutcome, checked_bounds, standardized
from ..predictors.model_matrix import Constants, with_unit_size
from ..records import Public
from ..scales.refusals import constant_outcome
from ..scales.transforms import AsinhTransform, IdentityTransform, LogTransform, Transform, as_transform
from .chain import ODDS_SD, run_chain, start, zero_odds
from .components import Between, MixtureRecords, components_given, drawn, matched, responsibilities
from .density import log_densities
from .sampler import fill
from .state import KernelRecords

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Prior = Literal["common", "paper"]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)  # quantiles of the file at which the synthetic distribution is monitored
WATCHED = 1000  # draws of a chain for which the synthetic distribution is computed
LEAST_SD_W = 0.01  # least residual standard deviation of a log weight in a component
MOST_LEAST_SD = 10.0  # largest ``least_sd``
PRIORS: dict[str, str] = {
    "common": (
        "coefficients of the intercept and of predictors with mean 0 and standard deviation 1 ~ N(mean, D^2), mean ~ "
        "N(0, 5^2), D = diag(half-t(3, 0, 1)), mean and D the same for all components"
    ),
    "paper": (
        "coefficients of the intercept and of predictors with mean 0 and standard deviation 1 ~ N(0, D^2), D = "
        "diag(half-t(3, 0, 1)), D the same for all components (Hu, Savitsky & Williams 2022b, eq. 5 with Omega = I)"
    ),
}


@dataclass(frozen=True)
class Mixture(OneOutcome[MixtureRecords], Boundable[MixtureRecords]):
    """Synthesizer of one continuous outcome of any shape: a mixture of regressions on public predictors.

    The parameters, with S draws, are the shares ``share`` (S, K), coefficients ``b`` (S, K, R) and residual standard
    deviations ``sd`` (S, K) of the components, and the concentration ``gamma`` (S,).  If the weight is modelled, there
    are also ``c`` (S, K + 1, R + 1) and ``sd_w`` (S, K + 1), of which the last of the K + 1 is for zeros.  With
    ``zeros``, there are also the coefficients ``zero`` (S, R) of the log odds of a zero.

    Parameters
    ----------
    outcome : str
        Confidential column of numbers, which may be skewed, heavy-tailed or heaped.  A formula such as
        ``"income ~ region"`` names the outcome and the predictors together.
    predictors : str
        Right-hand side of a model formula with an intercept, as in R.  ``"1"`` means no predictors.  These columns are
        public and are released unchanged.
    transform : str or transform
        Working scale: "log", ``AsinhTransform(scale=...)`` for amounts that can be negative, or
        ``IdentityTransform(scale=...)``.  The scale is a public number.  The priors suit outcomes that differ by a few
        units on the working scale.
    zeros : bool
        True if an outcome of exactly 0 has a separate probability, by a logistic regression on the predictors.  With
        True, it becomes public that zeros occur.
    components : int
        K, the largest number of components.  Choose more than are needed.  Superfluous components get shares near 0.
    prior : {"common", "paper"}
        "common": the coefficients of the components have a common mean, which is estimated.  "paper": the coefficients
        have mean 0, as in Hu, Savitsky & Williams (2022b, eq. 5).
    a_gamma, b_gamma : float
        Shape and rate of the gamma prior of the concentration gamma (eq. 4 of the paper, which prints no numbers).
    least_sd : float
        Least residual standard deviation of a component, on the working scale.  This public number limits the density.
        Otherwise, the density could grow without limit at a value that many records share.
    bounds : (low, high), optional
        Public limits of the outcome, in the unit of the outcome.  Synthetic values come from the mixture that is
        truncated at the limits.  Without limits, wide components on a log scale occasionally produce amounts beyond
        any real amount.  A file with values outside the limits is refused.
    allocation : {"prior", "posterior"}
        "prior": the component of a synthetic record is drawn given the parameters and predictors.  "posterior": the
        component is drawn given the confidential outcome of the same record (eq. 7 of the paper).  In both cases,
        whether a synthetic outcome is 0 is drawn given the predictors.  **There is no epsilon for "posterior"**,
        because the synthetic record depends directly on the confidential record.  A release says so.
    missing : {"fail", "drop"}
        Treatment of records with a missing outcome.  "drop" leaves these records out, and the report gives their
        number.
    weight : "public", optional
        Declares that the survey weight is public: it is released unchanged.  By default the weight is modelled, unless
        it is a function of the predictors.

    Raises
    ------
    InputError
        On construction: the outcome is not a column name or is a predictor; an option is unknown; a number is not
        positive; ``least_sd`` is above 10; or the bounds are not two finite numbers in increasing order.

    Notes
    -----
    Hu, Savitsky & Williams (2022b, section 1.2).  The paper's correlations of coefficients (Omega) are left out,
    because a few components give hardly any information on correlations.  The paper does not model the survey weight.
    Here log w is modelled given y and the predictors in each component, and smoothed weights exp E(log w | predictors,
    synthetic y) are released.  There are no effects of PSUs or strata.

    Examples
    --------
    >>> model = ss.Mixture("income ~ region", transform=ss.AsinhTransform(scale=1000), zeros=True)
    >>> model.outcomes, model.components
    (('income',), 20)
    """

    outcome: str
    predictors: str = "1"
    transform: str | Transform = "log"
    zeros: bool = False
    components: int = 20
    prior: Prior = "common"
    a_gamma: float = 1.0
    b_gamma: float = 1.0
    least_sd: float = 0.3
    bounds: tuple[float, float] | None = None
    allocation: Allocation = "prior"
    missing: Literal["fail", "drop"] = "fail"
    weight: Literal["public"] | None = None

    name: ClassVar[str] = "Mixture"

    def __post_init__(self) -> None:
        self._check()
        if self.bounds is not None:
            object.__setattr__(self, "bounds", checked_bounds(self.bounds))
        whole(self.components, "components")
        for number in ("a_gamma", "b_gamma", "least_sd"):
            positive(getattr(self, number), number)
        if self.least_sd > MOST_LEAST_SD:
            raise InputError(
                f"least_sd is above {MOST_LEAST_SD:g}: priors are made for a working scale on which values differ by a "
                "few units. Choose a larger scale= of the transform"
            )
        if not isinstance(self.zeros, bool):
            raise InputError("zeros must be True or False")
        for option, values in (("prior", list(PRIORS)), ("allocation", ["prior", "posterior"])):
            one_of(getattr(self, option), values, option)
        if not isinstance(self._scale, LogTransform | AsinhTransform | IdentityTransform):
            raise InputError(
                "transform must be 'log', surveysynth.AsinhTransform(scale=...) or "
                "surveysynth.IdentityTransform(scale=...)"
            )

    @property
    def _scale(self) -> Transform:
        return as_transform(self.transform)

    @property
    def measure(self) -> str:  # type: ignore[override]  # of the transform
        """Name of the scale on which densities are computed, for the report."""
        return self._scale.describe()

    @property
    def _limits(self) -> tuple[float, float]:
        """The bounds on the working scale, infinite where there is no bound or the bound has no value on that scale."""
        if self.bounds is None:
            return -np.inf, np.inf
        low, high = self._scale.forward(np.array(self.bounds))
        return (-np.inf if np.isnan(low) else float(low)), float(high)

    @property
    def from_records(self) -> bool:  # type: ignore[override]  # of the option
        """True if synthetic values are drawn given confidential values.  Then no epsilon holds."""
        return self.allocation == "posterior"

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> MixtureRecords:  # fmt: skip
        """Check a file and return its records, with the outcome on the working scale.

        Raises
        ------
        InputError
            An outcome is missing, outside the bounds, or not defined on the working scale.  ``zeros`` is True and there
            is no zero.  A predictor is missing.  The formula cannot be evaluated or has no intercept.  There are PSUs
            or strata that the predictors do not determine, and ``clusters`` is not "ignore".
        ModelError
            The outcome, or the outcome without zeros, is constant.  The outcome is nearly proportional to the inclusion
            probability.  The weight is nearly, but not exactly, a function of public data.
        """
        values = present(design, self.outcome)
        zero = (values == 0) if self.zeros else np.zeros(design.n, dtype=bool)
        if self.bounds is not None:
            beyond = ~zero & ((values < self.bounds[0]) | (values > self.bounds[1]))
            if beyond.any():
                raise InputError(
                    f"outcome {self.outcome!r} is beyond the bounds in {rows(beyond)}: name wider ones, which are not "
                    "chosen by looking at the file"
                )
        y = np.where(zero, 0.0, self._scale.forward(np.where(zero, 1.0, values)))
        if not np.isfinite(y).all():
            asked = "transform=surveysynth.AsinhTransform(scale=...) for amounts that can be zero or negative"
            if (values >= 0).all() and not self.zeros:
                asked = "zeros=True, which gives zeros a probability of their own, or " + asked
            raise InputError(
                f"outcome {self.outcome!r} has no {self._scale.describe().split()[0]} in {rows(~np.isfinite(y))}; "
                f"use {asked}"
            )
        self._check_variation(y, zero)
        X, pattern, columns = self.predictor_rows(design, clusters, constants)
        public, log_w = self.survey_weights(design, X, pattern, mean_weight)
        X, pattern, columns = with_unit_size(X, pattern, columns, unit)
        return MixtureRecords(
            row=pattern, y=y, zero=zero, log_w=log_w, public_weights=public, **standardized(X, pattern, columns)
        )  # fmt: skip

    def _check_variation(self, y: Floats, zero: NDArray[np.bool_]) -> None:
        """Raise InputError if declared zeros do not occur, and ModelError if the outcome is constant."""
        if self.zeros and not zero.any():
            raise InputError(f"zeros=True, but outcome {self.outcome!r} is never exactly 0: leave zeros out")
        if zero.any() and not zero.all() and np.ptp(y[~zero]) == 0:
            raise ModelError(
                f"{self.outcome}: what is not zero is one and the same value. Synthesize a category with FBS, C(...), "
                "whether it is zero or not"
            )
        if zero.all() or np.ptp(y[~zero]) == 0:
            raise constant_outcome(self.outcome)

    # ---- fits

    def fit(self, records: MixtureRecords, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the parameters from the alpha-weighted pseudo posterior (Hu, Savitsky & Williams 2022b, eq. 10).

        Raises
        ------
        ModelError
            The privacy weights are so small that too little information is left to fit the coefficients.
        """
        return self._sample(records, alpha, np.inf, sampler)

    def censored(self, records: MixtureRecords, alpha: Floats, bound: float, sampler: Sampler) -> Draws:
        """Draw the parameters from the censored pseudo posterior.

        In this posterior, alpha_i log p_i of each record is clamped to [-bound, bound] (Hu, Williams & Savitsky 2025,
        eq. 3.6).

        Raises
        ------
        ModelError
            The privacy weights are so small that too little information is left to fit the coefficients.
        """
        return self._sample(records, alpha, bound, sampler)

    def _sample(self, records: MixtureRecords, alpha: Floats, clamp: float, sampler: Sampler) -> Draws:
        kernel = self._records(records, alpha, clamp)
        if kernel.alpha.sum() < records.X.shape[1] + 1:
            raise ModelError(
                f"too little is left to fit {records.X.shape[1]} coefficients to the records that are not zero, each "
                "counted by its privacy weight: ask for a larger epsilon or a smaller m, or use fewer predictors"
            )
        odds = zero_odds(kernel)

        def chain(rng: np.random.Generator) -> dict[str, Floats]:
            own = kernel._replace(part=kernel.part.copy(), part0=kernel.part0.copy())
            state = start(own, self.components, rng)
            fill(own, state)
            return run_chain(own, state, odds, sampler, rng)

        with ThreadPoolExecutor(min(sampler.chains, cpu_count() or 1)) as threads:  # numba releases the lock
            chains = list(threads.map(chain, sampler.rng.spawn(sampler.chains)))
        values = {name: np.concatenate([one[name] for one in chains]) for name in chains[0]}
        draws = Draws(values, sampler.chain_of_draws, Diagnostics(), "surveysynth", "slice sampler 1")
        return Draws(
            values, draws.chain, self._diagnose(records, alpha, clamp, draws, sampler.chains), draws.engine,
            draws.version,
        )  # fmt: skip

    def _records(self, records: MixtureRecords, alpha: Floats, clamp: float) -> KernelRecords:
        """Return the records with alpha > 0, in the form that the sampler needs."""
        order = np.argsort(records.row, kind="stable")
        order = order[alpha[order] > 0]
        kept, zeros = order[~records.zero[order]], order[records.zero[order]]
        w = records.log_w
        nothing = np.empty(0)
        return KernelRecords(
            x=records.X, row=records.row[kept], y=records.y[kept], w=nothing if w is None else w[kept],
            alpha=alpha[kept],
            part=alpha[kept].copy(), row0=records.row[zeros], w0=nothing if w is None else w[zeros],
            alpha0=alpha[zeros], part0=alpha[zeros].copy(), clamp=float(clamp),
            exact=bool((alpha[kept] == 1).all() and np.isinf(clamp)), zeros=self.zeros, common=self.prior == "common",
            least_sd=float(self.least_sd), least_sd_w=LEAST_SD_W, a_gamma=float(self.a_gamma),
            b_gamma=float(self.b_gamma), odds_sd=ODDS_SD,
        )  # fmt: skip

    def _diagnose(self, records: MixtureRecords, alpha: Floats, clamp: float, draws: Draws, chains: int) -> Diagnostics:
        """Compute convergence diagnostics of two quantities: the log pseudo likelihood and the synthetic distribution.

        Neither quantity depends on the labels of components, which change along a chain.
        """
        watched = {"log_likelihood": self._log_likelihood(records, alpha, clamp, draws).reshape(chains, -1)}
        step = max(1, draws.size // chains // WATCHED)
        selected = np.arange(draws.size).reshape(chains, -1)[:, ::step]
        shares = self._distribution(records, draws, selected.ravel())
        watched["distribution"] = shares.reshape(*selected.shape, -1)
        first, second = (diagnose({name: values}, 0) for name, values in watched.items())
        return Diagnostics(
            0, max(first.rhat, second.rhat), min(first.ess_bulk, second.ess_bulk), min(first.ess_tail, second.ess_tail),
        )  # fmt: skip

    def _log_likelihood(self, records: MixtureRecords, alpha: Floats, clamp: float, draws: Draws) -> Floats:
        """Return the log pseudo likelihood in every draw (S,): the sum of the clamped contributions alpha_i log p_i."""
        out = np.zeros(draws.size)
        for block in blocks(np.arange(len(records.y)), 1, draws.size):
            here = block[alpha[block] > 0]
            logs = alpha[here, None] * self._logs(records, here, draws)
            out += np.clip(logs, -clamp, clamp).sum(axis=0)
        return out

    def _distribution(self, records: MixtureRecords, draws: Draws, selected: Codes) -> Floats:
        """Return expected statistics of the synthetic data under each selected draw.

        The result is (draws, statistics).  The statistics are, in this order: for each of several quantiles of the
        file's outcomes other than 0, the share of synthetic outcomes that are not 0 and below this quantile; the share
        of zeros, if zeros are modelled; the mean log weight, if the weight is modelled.
        """
        size = np.bincount(records.row, minlength=len(records.X)) / len(records.row)
        points = np.quantile(records.y[~records.zero], QUANTILES)
        out = np.empty((selected.size, len(points) + self.zeros + (records.log_w is not None)))
        for at, s in enumerate(selected.tolist()):
            share, mean, sd = (draws.values[name][s] for name in ("share", "b", "sd"))
            mean = records.X @ mean.T
            other = np.ones(len(size))
            if self.zeros:
                zero = expit(records.X @ draws.values["zero"][s])
                out[at, len(points)], other = size @ zero, 1 - zero
            for j, point in enumerate(points):
                out[at, j] = (size * other) @ (ndtr((point - mean) / sd) @ share)
            if records.log_w is not None:
                c = draws.values["c"][s]
                log_weight = records.X @ c[:, :-1].T
                mixed = (log_weight[:, :-1] + c[:-1, -1] * mean) @ share
                out[at, -1] = size @ (other * mixed + (1 - other) * log_weight[:, -1])
        return out

    # ---- densities

    def _logs(self, records: MixtureRecords, block: Codes, draws: Draws) -> Floats:
        """Return the log densities (records, S) of the records at the positions ``block``, for each draw."""
        values, kept = draws.values, block[~records.zero[block]]
        row, number = np.unique(records.row[kept], return_inverse=True)
        nothing = np.empty((0, 0, 0))
        out = np.empty((block.size, draws.size))
        weighted = records.log_w is not None
        with np.errstate(divide="ignore"):
            log_share = np.log(values["share"])
        logs = log_densities(
            records.X[row], number, records.y[kept], records.log_w[kept] if records.log_w is not None else np.empty(0),
            log_share, values["b"], values["sd"], values["c"] if weighted else nothing,
            values["sd_w"] if weighted else np.empty((0, 0)),
        )  # fmt: skip
        if not self.zeros:
            return np.asarray(logs)
        zeros = block[records.zero[block]]
        odds = records.X @ values["zero"].T
        out[~records.zero[block]] = logs + log_expit(-odds[records.row[kept]])
        zero_logs = log_expit(odds[records.row[zeros]])
        if records.log_w is not None:
            c, sd = values["c"][:, -1], values["sd_w"][:, -1]
            r = (records.log_w[zeros, None] - (records.X @ c[:, :-1].T)[records.row[zeros]]) / sd
            zero_logs = zero_logs - 0.5 * r**2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
        out[records.zero[block]] = zero_logs
        return out

    def lipschitz(
        self, records: MixtureRecords, draws: Draws, unit: Codes | None = None, alpha: Floats | None = None
    ) -> Floats:
        """Return, for each record i, the maximum (n,) of |log p(record i | draw)| over all draws.

        If ``unit`` is given, log p is first summed over the records of each unit, and the result is (U,).
        """
        key = np.arange(len(records.y)) if unit is None else unit
        out = np.empty(int(key.max()) + 1)
        for block in blocks(key, None, draws.size):
            logs, (here, first) = self._logs(records, block, draws), np.unique(key[block], return_index=True)
            out[here] = np.abs(np.add.reduceat(logs, first, axis=0)).max(axis=1)
        return np.where(np.isfinite(out), out, np.inf)

    def log_ratio(self, records: MixtureRecords, before: Floats, after: Floats, draws: Draws) -> Floats:
        """Return the change of each draw's log pseudo likelihood from privacy weights ``before`` to ``after``."""
        out = np.zeros(draws.size)
        for block in blocks(np.arange(len(records.y)), 1, draws.size):
            here = block[after[block] != before[block]]
            out += (after - before)[here] @ self._logs(records, here, draws)
        return out

    def log_density(self, records: MixtureRecords, draws: Draws) -> Floats:
        """Return the log density (S, n) of each record for each draw: log p(record | draw)."""
        return self._logs(records, np.arange(records.n), draws).T

    # ---- simulation and summaries

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set: outcomes, zeros included, and weights.

        Public weights are kept.  Modelled weights are smoothed: exp E(log weight | predictors, synthetic outcome).
        """
        values, X, pattern = {name: v[0] for name, v in draw.values.items()}, public.X, public.row
        n, mean = len(pattern), X @ values["b"].T
        zero = rng.random(n) < expit(X @ values["zero"])[pattern] if self.zeros else np.zeros(n, dtype=bool)
        between = Between(mean, values["sd"], *self._limits)
        mass = np.exp(between.log_mass - between.log_mass.max(axis=1, keepdims=True))
        z = drawn(values["share"] * mass, pattern, rng)
        if self.from_records:  # the only use of confidential records; there is no epsilon then
            assert isinstance(public, MixtureRecords)
            z = np.where(public.zero, z, components_given(public, values, rng))
        y = between.draw(pattern, z, rng)
        with np.errstate(over="ignore"):
            outcome = np.where(zero, 0.0, self._scale.inverse(y))
        if not np.isfinite(outcome).all():
            raise ModelError(
                f"a synthetic value of {self.outcome!r} is too large for a number: give the outcome's public bounds="
            )
        if public.public_weights is not None:
            return Synthetic(outcome[:, None], public.public_weights)
        c = values["c"]
        log_weight = (X @ c[:, :-1].T)[pattern]
        given = responsibilities(values, mean[pattern], y)
        smooth = (given * (log_weight[:, :-1] + c[:-1, -1] * y[:, None])).sum(axis=1)
        return Synthetic(outcome[:, None], np.exp(np.where(zero, log_weight[:, -1], smooth)))

    def components_of(self, records: MixtureRecords, draws: Draws) -> pd.DataFrame:
        """Return a table of the components of the mixture, for the agency only.

        The table is computed from the confidential records, and epsilon does not cover it.

        The labels of the components change along a chain and from chain to chain, so the mean over draws of a parameter
        of "component 3" has no meaning.  Therefore the components of each draw are matched to the components of the
        draw with the largest log likelihood.  The matching maximizes the expected number of records that belong to a
        component of the one draw and to its match in the other draw (Marin, Mengersen & Robert 2005).

        Parameters
        ----------
        records, draws
            Records and draws of a :class:`Fit`: ``model.components_of(fit.records, fit.draws)``.

        Returns
        -------
        DataFrame
            One row for each component with a mean share above 0.1%, the largest first.  The columns are posterior means
            and quantiles: ``share`` and its 95% interval (``share_low``, ``share_high``), ``location`` (the component's
            mean at the mean of the predictors, on the working scale), and ``sd``.
        """
        return matched(records, draws)

    def describe(self, public: Public) -> dict[str, Any]:
        """Return public facts about the model, for the manifest."""
        return {
            "method": self.name, "outcome": list(self.outcomes), "predictors": self.predictors,
            "prior": self.prior,
            "mixture": {
                "components": self.components, "a_gamma": self.a_gamma, "b_gamma": self.b_gamma,
                "least_sd": self.least_sd, "zeros": self.zeros, "bounds": self.bounds, "allocation": self.allocation,
            },
            "transform": [self.measure],
            "weights": "public" if public.public_weights is not None else "synthesized (smoothed)",
        }  # fmt: skip

    def assumptions(self, public: Public) -> list[str]:
        """Return the assumptions of the model, as sentences."""
        sentences = [
            f"given the predictors ({self.predictors}) the outcome is a mixture of at most {self.components} normal "
            f"regressions on the scale: {self._scale.describe()}; residual standard deviations are at least "
            f"{self.least_sd:g}, a public number",
            f"prior {self.prior}: {PRIORS[self.prior]}; residual standard deviations ~ half-t(3, 0, 1); shares ~ "
            f"Dirichlet(gamma / {self.components}), gamma ~ Gamma({self.a_gamma:g}, {self.b_gamma:g}). The means and "
            "standard deviations are those of the predictors of all records, which are public and held fixed",
        ]
        if self.zeros:
            sentences.append(
                "an outcome of exactly 0 has a probability of its own, whose log odds are linear in the predictors "
                f"(coefficients ~ N(0, {ODDS_SD:g}^2)); that there are zeros is public"
            )
        if self.bounds is not None:
            sentences.append(
                f"the outcome lies between {self.bounds[0]:,.10g} and {self.bounds[1]:,.10g}, which is public and was "
                "not found by looking at the file; synthetic values are from the mixture between them"
            )
        sentences += numeric_predictors_text(public)
        if public.public_weights is not None:
            sentences.append(self.public_weight_text)
        else:
            sentences.append(
                "the log of the survey weight is normal in each component given the predictors and the outcome on its "
                "working scale; smoothed weights are released. Its prior is that of the outcome's regression"
            )
        return sentences
