"""Beta regression: the synthesizer of bounded outcomes.

Source: Hu, Williams & Savitsky 2025, sections 4.1 and 5.  Given public bounds low and high, the model is

    y_i ~ Beta(p_i, q_i),   p_i = lambda phi_i,   q_i = lambda (1 - phi_i),   logit phi_i = x_i b,
    y_i = (outcome_i - low) / (high - low),

where x_i are the predictors of record i.  With the beta function B, the log density is

    log p(y_i) = -log B(p_i, q_i) + (p_i - 1) log y_i + (q_i - 1) log(1 - y_i).

In the alpha-weighted likelihood, log p(y_i) is multiplied by the privacy weight alpha_i.  This likelihood depends on
the records only through the sums of alpha, alpha log y and alpha log(1 - y) over the records of each predictor row (a
distinct row of the model matrix).  Therefore the cost of a fit (``stan/beta.stan``) does not depend on n.  The censored
likelihood (eq. 3.6, ``stan/beta_censored.stan``) clamps alpha_i log p(y_i) to [-bound, bound], and depends on every
single record.

**Coordinates.**  The parameters theta = (b, log(lambda - 0.1)) are sampled as centre + root z.  The vector ``centre``
and the matrix ``root`` are chosen so that N(centre, root root') approximates the posterior, and z is nearly standard
normal.  Centre and root do not change the density that is sampled.

Letters in shapes are numbers: n of records, S of posterior draws, G of predictor rows, and K of columns of the model
matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import lgamma
from typing import Any, ClassVar, Literal

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.optimize import minimize
from scipy.special import betaln, expit, gammaln, psi

from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError
from ..validation import rows
from .base import Boundable, numeric_predictors_text, present
from .densities.modes import falls_between, only_mode
from .densities.row_density import blocks, max_abs_log_density
from .draws import Draws, Sampler, Synthetic
from .one_outcome import OneOutcome, Standardized, checked_bounds, standardized
from .predictors.model_matrix import Constants, with_unit_size
from .records import Public
from .regression.sufficient_statistics import residual_squares
from .scales.refusals import constant_outcome

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
LogDensity = Callable[[Floats], tuple[float, Floats]]  # of theta: value and gradient

EDGE = 1e-6  # share of the range, a public constant: values closer to a bound are moved to this distance
FARTHEST = 15.0  # largest |logit| of the mean of a synthetic share: beyond it the share is within EDGE of a bound
LEAST_LAMBDA, SHAPE, SD = 0.1, 1.5, 2.5  # constants of the priors
PRIOR = "phi ~ Beta(1, 1), lambda ~ Pareto(0.1, 1.5) (Hu, Williams & Savitsky 2025, section 4.1)"
PRIOR_REGRESSION = (
    "intercept at the predictors' means ~ logistic(0, 1), which is phi ~ Beta(1, 1) there; coefficients of predictors "
    "with mean 0 and standard deviation 1 ~ N(0, 2.5^2); lambda ~ Pareto(0.1, 1.5)"
)

FIRST, STEPS = 12, 30  # largest numbers of steps of the normal approximation: from each start, and from the best mode
MOST = 16.0  # largest factor by which one step changes a variance
WIDEST = 5.0  # largest standard deviation of a coefficient
# starting points, as shifts of the intercept and of log(lambda - 0.1) from the mode of the uncensored posterior
STARTS = [(shift, stretch) for shift in (0.0, -1.0, 1.0) for stretch in (0.0, -1.5, 1.5)]


@nb.njit(parallel=True, cache=True, error_model="numpy")
def _shapes(eta: Floats, lam: Floats, gamma: Floats) -> tuple[Floats, Floats, Floats]:
    """Compute -log B(p, q), p - 1 and q - 1 of the beta density, for each combination of predictors and each draw.

    p and q are the shape parameters, and each result is (G, S).  The arguments are ``eta`` = x b (G, S), ``lam`` =
    lambda (S,) and ``gamma`` = log Gamma(lambda) (S,).
    """
    c, p, q = np.empty(eta.shape), np.empty(eta.shape), np.empty(eta.shape)
    for g in nb.prange(eta.shape[0]):
        for s in range(eta.shape[1]):
            small = np.exp(-abs(eta[g, s]))
            less, more = lam[s] * small / (1 + small), lam[s] / (1 + small)
            p_s, q_s = (more, less) if eta[g, s] > 0 else (less, more)
            c[g, s] = gamma[s] - lgamma(p_s) - lgamma(q_s)
            p[g, s], q[g, s] = p_s - 1, q_s - 1
    return c, p, q


@nb.njit(cache=True, error_model="numpy")
def _clamp(
    row: Codes, logs: Floats, alpha: Floats, count: Floats, c: Floats, p: Floats, q: Floats, bound: float
) -> tuple[float, Floats]:
    """Compute the censored log likelihood, and the sufficient statistics of the records that are not clamped.

    The statistics (G, 3) are the sums of alpha, alpha log y and alpha log(1 - y) over these records of each predictor
    row.  Equal records are grouped: group i has predictor row ``row[i]``, privacy weight ``alpha[i]``, ``logs[i]`` =
    (log y, log(1 - y)) and ``count[i]`` records.  ``c``, ``p`` and ``q`` (G,) are the three results of :func:`_shapes`.
    """
    total, sums = 0.0, np.zeros((c.size, 3))
    for i in range(row.size):
        g = row[i]
        value = alpha[i] * (c[g] + p[g] * logs[i, 0] + q[g] * logs[i, 1])
        if abs(value) < bound:
            total += count[i] * value
            weight = count[i] * alpha[i]
            sums[g, 0] += weight
            sums[g, 1] += weight * logs[i, 0]
            sums[g, 2] += weight * logs[i, 1]
        else:
            total += count[i] * (bound if value > 0 else -bound)
    return total, sums


@dataclass(frozen=True)
class BetaRegression(OneOutcome[Standardized], Boundable[Standardized]):
    """Synthesizer of one bounded outcome by a beta distribution, or by a beta regression on public predictors.

    The parameters, with S draws, are ``b`` (S, K), the coefficients of the standardized predictors in the logit of the
    mean, and the precision ``lambda`` (S,).

    Parameters
    ----------
    outcome : str
        Confidential numeric column; or a formula with the predictors, ``"share ~ region"``.
    predictors : str
        Right-hand side of a formula with an intercept, as in R.  ``"1"``, for no predictors, is the paper's model of
        section 4.1.  Predictors are public: they are released unchanged.
    bounds : (float, float)
        The least and the largest possible value of the outcome.  Both are public: choose them without looking at the
        file.  A value closer to a bound than 1e-6 of the range (``EDGE``) is moved to that distance from the bound.
        Values outside the bounds are refused.
    missing : {"fail", "drop"}
        "fail" refuses a file with a missing outcome.  "drop" leaves the record out, and the report says how many.
    weight : "public", optional
        Declares that the survey weight is public.  It is then released unchanged and may vary among records with the
        same predictors.  By default, the weight must be a function of the predictors.

    Raises
    ------
    InputError
        On construction: the outcome is not a column name or is a predictor; the bounds are not two finite numbers in
        increasing order; or an option is unknown.

    Notes
    -----
    Source: Hu, Williams & Savitsky (2025, sections 4.1, 5 and supplement 1).  Log densities are of y = (outcome - low)
    / (high - low).  Without predictors, the priors are those of section 4.1 of the paper.  The paper prints no priors
    for its regression: here the intercept is logistic(0, 1), the coefficients of standardized predictors are
    N(0, 2.5^2), and lambda is Pareto(0.1, 1.5).  The model has no density of the survey weight, so the weight must be
    public or a function of the predictors.  The model has no effects of PSUs or strata.

    Examples
    --------
    >>> model = ss.BetaRegression("share ~ region", bounds=(0, 1))
    >>> model.outcomes, model.predictors
    (('share',), 'region')
    """

    outcome: str
    predictors: str = "1"
    bounds: tuple[float, float] = field(kw_only=True)  # required
    missing: Literal["fail", "drop"] = "fail"
    weight: Literal["public"] | None = None

    name: ClassVar[str] = "Beta"

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> Standardized:  # fmt: skip
        """Check a file and return its records.

        ``y`` (n, 2) of the records is (log y, log(1 - y)), where y = (outcome - low) / (high - low).

        Raises
        ------
        InputError
            The outcome or a predictor is missing; the outcome is outside the bounds; the formula cannot be evaluated or
            has no intercept; the weights are not public; or the design has PSUs or strata that the predictors do not
            determine, and ``clusters`` is not "ignore".
        ModelError
            The outcome is constant, or the predictors (nearly) determine it, so its density is unbounded; or the weight
            is nearly, but not exactly, a function of public data.
        """
        logs = self._logs(design)
        X, pattern, columns = self.predictor_rows(design, clusters, constants)
        weights, _ = self.survey_weights(design, X, pattern, mean_weight)
        if weights is None:
            raise InputError(
                "the survey weights are not a function of the predictors, and Beta models the outcome alone, not the "
                "weight: use FBS, put what the weights depend on into the formula, or declare that they are public, "
                "weight='public'"
            )
        X, pattern, columns = with_unit_size(X, pattern, columns, unit)
        _refuse_determined(self.outcome, logs[:, 0] - logs[:, 1], X, pattern)
        return Standardized(row=pattern, y=logs, public_weights=weights, **standardized(X, pattern, columns))

    def _logs(self, design: SurveyDesign) -> Floats:
        values, (low, high) = present(design, self.outcome), self.bounds
        outside = (values < low) | (values > high)
        if outside.any():
            raise InputError(
                f"outcome {self.outcome!r} is outside the bounds in {rows(outside)}; bounds= are the least and largest "
                "values that are possible at all: choose wider ones by what the outcome means, not by this file"
            )
        y = np.clip((values - low) / (high - low), EDGE, 1 - EDGE)
        return np.column_stack([np.log(y), np.log1p(-y)])

    def fit(self, records: Standardized, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the coefficients b and the precision lambda from the alpha-weighted pseudo posterior.

        Source: Hu, Williams & Savitsky 2025, section 2.1.

        Raises
        ------
        ModelError
            The privacy weights are so small that too little information is left to fit the coefficients.
        """
        _refuse_degenerate(records, alpha)
        sums = _sums(records, alpha)
        centre, root = _approximation(_collapsed(records.X, sums), *_mode(records.X, sums), STEPS)
        a, s, t = sums.T
        return _sample("beta", {"a": a, "s": s, "t": t}, records.X, centre, root, sampler)

    def censored(self, records: Standardized, alpha: Floats, bound: float, sampler: Sampler) -> Draws:
        """Draw the coefficients b and the precision lambda from the censored pseudo posterior.

        In this posterior, alpha_i log p(y_i) of each record is clamped to [-bound, bound] (Hu, Williams & Savitsky
        2025, eq. 3.6).

        Raises
        ------
        ModelError
            The privacy weights are so small that too little information is left to fit the coefficients.  Or the
            posterior has separate modes, which Markov chains would not visit in proportion to their probabilities.
        """
        _refuse_degenerate(records, alpha)
        here = alpha > 0
        table = np.column_stack([records.row, alpha, records.y])[here]
        table, count = np.unique(table, axis=0, return_counts=True)
        row, weight, logs = table[:, 0].astype(np.intp), table[:, 1].copy(), table[:, 2:].copy()
        log_density = _censored(records.X, row, logs, weight, count.astype(np.float64), bound)
        centre, root = _best_mode(log_density, *_mode(records.X, _sums(records, alpha)), bound)
        inside = {
            "n": len(row), "bound": bound, "row_of": row + 1, "alpha": weight, "s": weight * logs[:, 0],
            "t": weight * logs[:, 1], "count": count.astype(np.float64),
        }  # fmt: skip
        return _sample("beta_censored", inside, records.X, centre, root, sampler)

    def lipschitz(
        self, records: Standardized, draws: Draws, unit: Codes | None = None, alpha: Floats | None = None
    ) -> Floats:
        """Compute, for each record or unit, the maximum of |log p| over all draws (:meth:`Synthesizer.lipschitz`)."""
        return max_abs_log_density(
            records.y, records.row, lambda rows: _row_coefficients(records.X[rows], draws), draws.size, unit
        )

    def log_ratio(self, records: Standardized, before: Floats, after: Floats, draws: Draws) -> Floats:
        """Compute the change of each draw's log pseudo likelihood from privacy weights ``before`` to ``after``."""
        sums, out = _sums(records, after - before), np.zeros(draws.size)
        for block in blocks(np.arange(len(records.X)), 1, draws.size):
            c, p, q = _row_coefficients(records.X[block], draws)
            a, s, t = sums[block].T
            out += a @ c + s @ p + t @ q
        return out

    def log_density(self, records: Standardized, draws: Draws) -> Floats:
        """Compute the log density (S, n) of y = (outcome - low) / (high - low), for each draw and record."""
        here, row = np.unique(records.row, return_inverse=True)
        c, p, q = _row_coefficients(records.X[here], draws)
        logs = records.y
        return np.asarray((c[row] + p[row] * logs[:, :1] + q[row] * logs[:, 1:]).T)

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set within the bounds, with the public weights."""
        low, high = self.bounds
        eta, lam = np.clip(public.X @ draw["b"][0], -FARTHEST, FARTHEST), draw["lambda"][0]
        y = rng.beta((lam * expit(eta))[public.row], (lam * expit(-eta))[public.row])
        outcome = np.clip(low + (high - low) * y, low, high)
        assert public.public_weights is not None  # checked by prepare
        return Synthetic(outcome[:, None], public.public_weights)

    def describe(self, public: Public) -> dict[str, Any]:
        """Return public facts about the model, for the manifest of a release."""
        return {
            "method": self.name,
            "outcome": list(self.outcomes),
            "predictors": self.predictors,
            "prior": PRIOR if len(public.columns) == 1 else PRIOR_REGRESSION,
            "transform": [self.measure],
            "weights": "public",
        }

    @property
    def measure(self) -> str:  # type: ignore[override]  # of the bounds
        """Name of the scale on which densities are computed: the outcome as a share of the range between the bounds."""
        low, high = self.bounds
        return f"share of the range from {low:g} to {high:g} (densities per unit of that share)"

    def assumptions(self, public: Public) -> list[str]:
        """Return the assumptions of the model, as sentences for the report."""
        regression = len(public.columns) > 1
        given = f"given the predictors ({self.predictors}) " if regression else ""
        sentences = [
            f"{given}the outcome is beta distributed on the scale: {self.measure}"
            + ("; the logit of its mean is linear in the predictors and lambda is the same for all" * regression),
            "the bounds are public: they were not chosen by looking at the file. A value nearer to a bound than "
            f"{EDGE:g} of the range is taken to be at that distance",
            f"prior: {PRIOR_REGRESSION if regression else PRIOR}",
        ]
        if regression:
            sentences[-1] += (
                ". Hu, Williams & Savitsky (2025) print no priors for their regression. The means and standard "
                "deviations are those of the predictors of all records, which are public and held fixed"
            )
        return [*sentences, *numeric_predictors_text(public), self.public_weight_text]


# ---- the likelihood


def _sums(records: Standardized, alpha: Floats) -> Floats:
    """Compute the sums of alpha, alpha log y and alpha log(1 - y) for each combination of predictors.

    The result is (G, 3).
    """
    weighted = (alpha, alpha * records.y[:, 0], alpha * records.y[:, 1])
    return np.column_stack([np.bincount(records.row, w, len(records.X)) for w in weighted])


def _row_coefficients(X: Floats, draws: Draws) -> tuple[Floats, Floats, Floats]:
    """Compute -log B(p, q), p - 1 and q - 1 of the beta density, for each combination of predictors and each draw.

    p and q are the shape parameters, and each result is (G, S).
    """
    lam = draws.values["lambda"]
    c, p, q = _shapes(X @ draws.values["b"].T, lam, gammaln(lam))
    return c, p, q


def _shapes_at(X: Floats, theta: Floats) -> tuple[float, Floats, Floats]:
    """Return the precision lambda, the mean phi of y for each combination of predictors, and 1 - phi.

    ``theta`` are the parameters (b, log(lambda - 0.1)).  phi is (G,).
    """
    eta = X @ theta[:-1]
    return LEAST_LAMBDA + float(np.exp(theta[-1])), expit(eta), expit(-eta)


def _with_prior(X: Floats, theta: Floats, log_likelihood: float, sums: Floats) -> tuple[float, Floats]:
    """Add the log prior of parameters ``theta`` to a log likelihood.  Return the log posterior and the gradient.

    The gradient is with respect to theta and follows from ``sums`` (G, 3), the sums of :func:`_sums` over the records
    that are not clamped.
    """
    b, (lam, phi, rest) = theta[:-1], _shapes_at(X, theta)
    a, s, t = sums.T
    by_p, by_q = s - a * psi(lam * phi), t - a * psi(lam * rest)
    slope = X.T @ (lam * phi * rest * (by_p - by_q))
    slope[0] -= np.tanh(b[0] / 2)
    slope[1:] -= b[1:] / SD**2
    by_lambda = phi @ by_p + rest @ by_q + a.sum() * psi(lam) - (1 + SHAPE) / lam
    log_prior = -b[0] - 2 * np.logaddexp(0, -b[0]) - (b[1:] ** 2).sum() / (2 * SD**2) - (1 + SHAPE) * np.log(lam)
    return float(log_likelihood + log_prior + theta[-1]), np.append(slope, by_lambda * (lam - LEAST_LAMBDA) + 1)


def _collapsed(X: Floats, sums: Floats) -> LogDensity:
    """Return the function that computes the log pseudo posterior density of parameters theta, and its gradient."""

    @np.errstate(over="ignore", invalid="ignore")  # only far away from the posterior, where steps are refused
    def log_density(theta: Floats) -> tuple[float, Floats]:
        lam, phi, rest = _shapes_at(X, theta)
        a, s, t = sums.T
        value = -a @ betaln(lam * phi, lam * rest) + (lam * phi - 1) @ s + (lam * rest - 1) @ t
        return _with_prior(X, theta, float(value), sums)

    return log_density


def _censored(X: Floats, row: Codes, logs: Floats, alpha: Floats, count: Floats, bound: float) -> LogDensity:
    """Return the function that computes the log censored posterior density of parameters theta, and its gradient.

    Arguments are as for :func:`_clamp`.
    """

    @np.errstate(over="ignore", invalid="ignore")
    def log_density(theta: Floats) -> tuple[float, Floats]:
        lam, phi, rest = _shapes_at(X, theta)
        c = -betaln(lam * phi, lam * rest)
        value, sums = _clamp(row, logs, alpha, count, c, lam * phi - 1, lam * rest - 1, bound)
        return _with_prior(X, theta, value, sums)

    return log_density


# ---- the sampler and its coordinates


def _sample(program: str, records: dict[str, Any], X: Floats, centre: Floats, root: Floats, sampler: Sampler) -> Draws:
    stan_data = {"G": len(X), "K": X.shape[1], "X": X, "centre": centre, "root": root} | records
    fit = sampler.sample(program, stan_data)
    values = {"b": fit.values["b"].reshape(-1, X.shape[1]), "lambda": fit.values["lambda"].ravel()}
    return Draws(values, sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)


def _mode(X: Floats, sums: Floats) -> tuple[Floats, Floats]:
    """Return the mode of the uncensored pseudo posterior, and the Cholesky factor of the covariance at the mode."""
    log_density = _collapsed(X, sums)

    def loss(theta: Floats) -> tuple[float, Floats]:
        value, slope = log_density(theta)
        return -value, -slope

    start = np.append(np.zeros(X.shape[1]), np.log(1 - LEAST_LAMBDA))
    found = minimize(loss, start, jac=True, method="BFGS")
    return np.asarray(found.x), np.linalg.cholesky(np.asarray(found.hess_inv))


def _approximation(log_density: LogDensity, centre: Floats, root: Floats, steps: int) -> tuple[Floats, Floats]:
    """Return the centre and root of the normal approximation N(centre, root root') to a density of parameters theta.

    The arguments ``centre`` and ``root`` are the start of an iteration of at most ``steps`` steps.  Each step computes
    the gradients of the log density at centre + root z and centre - root z, for several vectors z of length 1 or 2.
    (The censored density has a kink for every record, so its curvature at a single point is useless.)  Half the
    difference of the two gradients is about -C root z, where C is the negative Hessian of the log density.  The mean of
    all gradients gives the step of the centre.
    """
    P, (value, _) = len(centre), log_density(centre)
    z = np.vstack([np.eye(P), 2 * helmert(P, full=True)])
    inverse = np.linalg.pinv(z)
    for step in range(steps):
        above = np.array([log_density(centre + root @ x)[1] for x in z])
        below = np.array([log_density(centre - root @ x)[1] for x in z])
        curvature = -inverse @ (above - below) / 2 @ root
        values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)  # values are 1 if root is right
        values = np.clip(values, 1 / MOST, MOST)
        damping = 1.0 if step < STEPS // 6 else 0.5  # full steps across an edge of the density can go back and forth
        size, axes = np.linalg.eigh(root @ (vectors * values**-damping) @ vectors.T @ root.T)
        root = np.linalg.cholesky((axes * np.minimum(size, WIDEST**2)) @ axes.T)
        move = root.T @ (above + below).mean(axis=0) / 2
        go, here = damping * root @ move, value
        for _ in range(30):  # halve a step after which the log density is lower by more than 1
            value = log_density(centre + go)[0]
            if value >= here - 1:
                break
            go = go / 2
        centre = centre + go
        if np.linalg.norm(move) < 0.2 and values[0] > 0.7 and values[-1] < 1.4:
            break
    return centre, root


def _best_mode(log_density: LogDensity, centre: Floats, root: Floats, bound: float) -> tuple[Floats, Floats]:
    """Return the normal approximation (centre, root) at the most probable mode that is found from several starts.

    Raise ModelError if another mode is not negligible and Markov chains do not cross between the two modes.
    """
    found = []
    for shift, stretch in STARTS:
        start = centre.copy()
        start[[0, -1]] += (shift, stretch)
        found.append(_approximation(log_density, start, root, FIRST))
    probability = [log_density(m)[0] + np.log(np.diag(L)).sum() for m, L in found]  # log probability of each mode
    best = only_mode(probability, bound, lambda i, j: _separated(log_density, found[i][0], found[j][0]))
    return _approximation(log_density, *found[best], STEPS)


def _separated(log_density: LogDensity, one: Floats, other: Floats) -> bool:
    return falls_between(lambda share: log_density(one + share * (other - one))[0])


# ---- refusals


def _refuse_determined(outcome: str, logit: Floats, X: Floats, pattern: Codes) -> None:
    centred = logit - logit.mean()
    total, residual = centred @ centred, residual_squares(centred, X, pattern)
    if total <= len(logit) * (1e-7 * (1 + abs(logit.mean()))) ** 2:
        raise constant_outcome(outcome)
    if residual <= 1e-6 * total:
        raise ModelError(
            f"the predictors determine {outcome} (nearly) completely, so its density is unbounded and no Lipschitz "
            "bound is useful; use fewer predictors"
        )


def _refuse_degenerate(records: Standardized, alpha: Floats) -> None:
    K, logit = records.X.shape[1], records.y[:, 0] - records.y[:, 1]
    too_little = alpha.sum() < K + 1
    if too_little or residual_squares(logit - logit.mean(), records.X, records.row, alpha) <= 1e-9 * (alpha @ logit**2):
        raise ModelError(
            f"the privacy weights leave too little of the file to fit {K} coefficients; ask for a larger epsilon, a "
            "smaller m, or use fewer predictors"
        )
