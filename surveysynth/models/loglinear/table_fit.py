"""Fit of a log-linear model to noisy tables by generalized least squares, and draws of its coefficients.

The fit minimises

    (y - mu)' V^-1 (y - mu) + (L theta - k)' K^-1 (L theta - k) + sum_i theta_i^2 / q_i,

where y (M,) are the noisy entries of all tables, which are counts or sums, and mu is their expectation at the
coefficients theta (d,).  V = S + R is the sampling covariance S of the tables before noise plus the diagonal matrix R
of noise variances.  The prior variance q_i of a coefficient is its relative variance times one of the B variance
components.  Prior knowledge is L theta ~ N(k, K).

The curvature is H = J' V^-1 J + Q, with the derivatives J of mu and the prior precision Q = diag(1/q) + L' K^-1 L.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from .table_model import Codes, Floats, TableModel

RENEWALS = 20  # most updates of V and of the variance components
STEPS = 40  # most steps of Levenberg-Marquardt
FEW, FIRST, LATER = 5, 2, 2  # steps between updates: 5 in the first 2 updates, then 2
QUASI, HALVINGS = 100, 10  # most quasi-Newton steps of a draw, and most halvings of each step
STILL, SAME = 5e-2, 0.1  # limits for convergence: distance to the minimum in sds, and change of log variances
SLOW = 0.02  # decrease of chi square below which a step is the last one
OPEN = 4.0  # largest variance component in draws; a fit may have larger components
ROUNDING = 0.0, 1e-12, 1e-9, 1e-6  # relative increases of a diagonal
LEAST = 1e-6  # least variance component
MOST = 30.0  # largest variance component; the evidence may favour infinity if levels share no cells of the response


@dataclass(frozen=True, eq=False, repr=False)
class Known:
    """Prior knowledge of linear functions of the coefficients theta: rows @ theta ~ N(value, diag(variance))."""

    rows: Floats
    value: Floats
    variance: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Components:
    """The B variance components of a model before the fit.  Each is fixed, or a guess that the fit improves."""

    variance: Floats  # (B,)
    worth: Floats  # (B,) weight of each guess, as a number of coefficients; infinite for a fixed variance


@dataclass(frozen=True, eq=False, repr=False)
class TableFit:
    """A log-linear model fitted to noisy tables."""

    model: TableModel
    y: Floats  # noisy entries of all tables (M,)
    noise: Floats  # variances (M,) of the noise
    known: Known
    variance: Floats  # estimated variance components (B,)
    theta: Floats  # coefficients (d,)
    root: Floats  # lower Cholesky factor of V
    steps: int  # number of Levenberg-Marquardt steps
    q: Floats  # prior variances (d,) of the coefficients
    components: Components

    @cached_property
    def curvature(self) -> tuple[Floats, bool]:
        """Cholesky factor of the objective's curvature at the fit, in the form that scipy's ``cho_factor`` returns."""
        J = self.model.slopes(self.theta, self.model.probabilities(self.theta))
        return factored(information(solve_triangular(self.root, J, lower=True), self.q, self.known))


def information(a: Floats, q: Floats, known: Known) -> Floats:
    """Return the curvature of the objective of a fit: the information in the noisy tables plus the prior precision.

    The curvature is H = J' V^-1 J + Q (d, d).  J are the derivatives of the expected tables, V = root root' is the
    covariance of the noisy tables, and Q is the prior precision that follows from the prior variances ``q`` (d,) and
    from ``known``.  ``a`` (M, d) is root^-1 J.
    """
    return a.T @ a + np.diag(1 / q) + (known.rows.T / known.variance) @ known.rows


def factored(H: Floats) -> tuple[Floats, bool]:
    """Return the Cholesky factor of a matrix H, in the form that scipy's ``cho_factor`` returns.

    If H is indefinite by rounding errors, its diagonal is slightly increased.
    """
    for more in ROUNDING[:-1]:
        try:
            return cho_factor(H + more * np.diag(np.diag(H)))
        except np.linalg.LinAlgError:
            continue
    return cho_factor(H + ROUNDING[-1] * np.diag(np.diag(H)))


def coefficients(model: TableModel) -> tuple[Floats, Codes]:
    """Return the relative prior variance of each coefficient, and the number of the coefficient's variance component.

    The prior variance of a coefficient is the product of its relative variance and its variance component.
    """
    relative = [np.tile(effect.relative, effect.shape[0]) for effect in model.effects]
    component = [np.tile(effect.component, effect.shape[0]) for effect in model.effects]
    return np.concatenate(relative), np.concatenate(component)


def fit_tables(
    model: TableModel, y: Floats, noise: Floats, components: Components, known: Known,
    start: Floats | None = None, variance: Floats | None = None,
) -> TableFit:  # fmt: skip
    """Fit a log-linear model to noisy tables: the most probable coefficients, and estimated variance components.

    ``y`` (M,) are the noisy entries of all tables, and ``noise`` (M,) are their noise variances.  The iteration begins
    with the coefficients ``start`` (default 0) and the variance components ``variance`` (default: the guesses of
    ``components``).  Variance components are estimated by maximum evidence (:func:`renewed`).
    """
    relative, component = coefficients(model)
    variance = components.variance if variance is None else variance
    theta = np.zeros(len(relative)) if start is None else start
    total = 0
    for renewal in range(RENEWALS):
        q = np.asarray(relative * variance[component], dtype=np.float64)
        V = model.sketch.covariance(model.sketch.probabilities(theta)) + np.diag(noise)
        root = np.asarray(np.linalg.cholesky(V), dtype=np.float64)
        before = theta
        most = FEW if renewal < FIRST else LATER
        theta, H, steps = descend(model, y, root, known, theta, np.zeros_like(theta), q, most)
        total += steps
        inverse = cho_solve(factored(H), np.eye(len(H)))
        found = renewed(theta, np.diag(inverse), relative, component, variance, components)
        moved = np.sqrt(np.max((theta - before) ** 2 / np.diag(inverse)))
        still = moved < 10 * STILL and np.max(np.abs(np.log(found / variance))) < SAME
        variance = found
        if still:
            break
    theta, _, steps = descend(model, y, root, known, theta, np.zeros_like(theta), q)
    total += steps
    return TableFit(model, y, noise, known, variance, theta, root, total, q, components)


def sketched(model: TableModel, y: Floats, theta: Floats) -> tuple[TableModel, Floats]:
    """Return an approximate model with fewer rows (a sketch), and the noisy entries (M,) adjusted to it.

    The entries are ``y`` (M,) plus the difference of the two models' expected entries, so that the residuals at the
    coefficients ``theta`` stay the same.
    """
    sketch = model.sketch
    if sketch is model:
        return model, y
    here, there = (each.expected(each.probabilities(theta)) for each in (model, sketch))
    return sketch, y + there - here


def refitted(fit: TableFit, model: TableModel) -> TableFit:
    """Fit ``model``, which has other effects of strata and PSUs, to the tables of ``fit``, starting at ``fit``."""
    return fit_tables(model, fit.y, fit.noise, fit.components, fit.known, fit.theta, fit.variance)


def renewed(
    theta: Floats, posterior: Floats, relative: Floats, component: Codes, variance: Floats, components: Components,
    most: float = MOST,
) -> Floats:  # fmt: skip
    """Return new estimates of the variance components (B,), by one fixed-point step of MacKay (1992).

    For coefficients ``theta`` (d,) with relative variances ``relative`` and posterior variances ``posterior``, the
    estimate of a component with value ``variance`` is

        sum of theta^2 / relative,  divided by the sum of  1 - posterior / (relative variance),

    where both sums are over the coefficients of the component (``component`` (d,) has the component of each).  The
    guess in ``components`` enters with its weight, fixed variances stay, and estimates are at most ``most``.
    """
    B = len(variance)
    squares = np.bincount(component, theta**2 / relative, B)
    effective = np.bincount(component, 1 - posterior / (relative * variance[component]), B)
    worth = np.where(np.isinf(components.worth), 0.0, components.worth)
    found = (squares + worth * components.variance) / np.maximum(effective + worth, 1e-9)
    renewed = np.where(np.isinf(components.worth), components.variance, np.clip(found, LEAST, most))
    return np.asarray(renewed, dtype=np.float64)


def descend(
    model: TableModel, y: Floats, root: Floats, known: Known, theta: Floats, mean: Floats, q: Floats, most: int = STEPS
) -> tuple[Floats, Floats, int]:
    """Find the coefficients that minimise the objective of a fit, by the Levenberg-Marquardt algorithm.

    The iteration begins with ``theta`` (d,).  Return the coefficients found, the curvature H of the objective and the
    number of steps, which is at most ``most``.  The covariance V of the noisy tables is fixed, with the Cholesky factor
    ``root``.  Coefficients have the prior means ``mean`` and variances ``q``.  A step is taken only if the objective
    falls.  Derivatives come from a model with fewer rows (a sketch) until a step has to be damped, and are exact from
    then on.
    """
    steps, damping, about = 0, 0.0, True
    p = model.probabilities(theta)
    r, value = _residual(model, y, root, known, theta, mean, q, p)
    while steps < most:
        steps += 1
        J = model.slopes(theta, p) if about else model.jacobian(p)
        H = information(solve_triangular(root, J, lower=True), q, known)
        gradient = model.gradient(p, solve_triangular(root, r, lower=True, trans="T"))
        gradient = gradient + _prior_gradient(known, theta, mean, q)
        while True:
            factor = factored(H + damping * np.diag(np.diag(H)))
            move = cho_solve(factor, gradient)
            there = theta + move
            p_there = model.probabilities(there)
            r_there, value_there = _residual(model, y, root, known, there, mean, q, p_there)
            falls = value_there <= value + 1e-9 * abs(value)
            if falls or damping > 1e8:
                break
            damping, about = max(4 * damping, 1e-3), False
        # approximate distance to the minimum in posterior standard deviations, whatever the damping
        size = np.sqrt(gradient @ (cho_solve(factored(H), gradient) if damping else move))
        if not falls:
            break  # the objective falls in no direction
        slow = damping < 1e-3 and value - value_there < SLOW
        theta, p, r, value = there, p_there, r_there, value_there
        damping = damping / 10 if damping > 1e-4 else 0.0
        if size < STILL or slow:
            break
    return theta, H, steps


def descend_from(
    fit: TableFit, model: TableModel, y: Floats, known: Known, mean: Floats
) -> tuple[Floats, bool]:  # fmt: skip
    """Fit ``model`` to noisy entries ``y`` (M,) by BFGS, starting at an earlier fit and its curvature.

    The coefficients have the prior means ``mean`` (d,).  Return the coefficients, and True if BFGS converged.  Source:
    Nocedal & Wright (2006), algorithm 7.4.
    """
    theta, root = fit.theta, fit.root
    p = model.probabilities(theta)
    r, value = _residual(model, y, root, known, theta, mean, fit.q, p)
    pairs: list[tuple[Floats, Floats]] = []  # steps, and changes of the gradient
    before = np.zeros(0), np.zeros(0)
    for step in range(QUASI):
        gradient = model.gradient(p, solve_triangular(root, r, lower=True, trans="T"))
        gradient = gradient + _prior_gradient(known, theta, mean, fit.q)
        if step:
            pairs.append((theta - before[0], before[1] - gradient))
        before = theta, gradient
        move = _direction(fit.curvature, pairs, gradient)
        size = float(move @ gradient) ** 0.5 if move @ gradient > 0 else 0.0
        for _ in range(HALVINGS):
            there = theta + move
            p_there = model.probabilities(there)
            r_there, value_there = _residual(model, y, root, known, there, mean, fit.q, p_there)
            if value_there <= value + 1e-9 * abs(value):
                break
            move = move / 2
        else:
            return theta, False
        theta, p, r, value = there, p_there, r_there, value_there
        if size < STILL / 4:  # stricter, as the curvature is approximate
            return theta, True
    return theta, False


def _direction(curvature: tuple[Floats, bool], pairs: list[tuple[Floats, Floats]], gradient: Floats) -> Floats:
    """Return the next step of BFGS by the two-loop recursion.

    ``pairs`` has, for each step so far, the step and the change of the gradient.
    """
    used = [(s, change, 1 / (change @ s)) for s, change in pairs if change @ s > 0]
    q, weights = gradient, []
    for s, change, rho in reversed(used):
        weights.append(rho * (s @ q))
        q = q - weights[-1] * change
    move = np.asarray(cho_solve(curvature, q), dtype=np.float64)
    for (s, change, rho), weight in zip(used, reversed(weights), strict=True):
        move = move + (weight - rho * (change @ move)) * s
    return move


def _prior_gradient(known: Known, theta: Floats, mean: Floats, q: Floats) -> Floats:
    """Return the contribution of the priors to -1/2 times the gradient of the objective of a fit."""
    return known.rows.T @ ((known.value - known.rows @ theta) / known.variance) - (theta - mean) / q


def _residual(
    model: TableModel, y: Floats, root: Floats, known: Known, theta: Floats, mean: Floats, q: Floats, p: Floats
) -> tuple[Floats, float]:
    r = solve_triangular(root, y - model.expected(p), lower=True)
    k = known.value - known.rows @ theta
    return r, float(r @ r + np.sum((theta - mean) ** 2 / q) + np.sum(k**2 / known.variance))


@dataclass(frozen=True, eq=False, repr=False)
class Perturbation:
    """Random errors for one draw of the coefficients of a fit.

    Attributes
    ----------
    noise : float array (M,)
        Errors of the noisy entries of all tables.
    prior : float array (d,)
        Errors of the prior means of the coefficients.
    known : float array
        Errors of the known linear functions of the coefficients.
    """

    noise: Floats
    prior: Floats
    known: Floats

    @classmethod
    def for_fit(cls, fit: TableFit, noise: Floats, rng: np.random.Generator) -> Perturbation:
        """Draw errors of the priors for a fit, and combine them with given errors ``noise`` (M,) of the tables."""
        _, component = coefficients(fit.model)
        less = np.where(np.isinf(fit.components.worth), 1.0, np.minimum(1.0, OPEN / fit.variance))
        prior = rng.standard_normal(len(fit.q)) * np.sqrt(fit.q * less[component])
        return cls(noise, prior, rng.standard_normal(len(fit.known.value)) * np.sqrt(fit.known.variance))

    def __neg__(self) -> Perturbation:
        """Return the errors with opposite signs."""
        return Perturbation(-self.noise, -self.prior, -self.known)


def draw(fit: TableFit, by: Perturbation, model: TableModel | None = None) -> Floats:
    """Draw coefficients: fit the model again, to the expected tables of the fit plus new noise.

    ``by`` has the new noise and the changes of the prior means.  Draws vary because of noise and prior, but not because
    of the sampling of records (Reiter & Kinney 2012).  If ``model`` is given, it is fitted in place of the model of
    ``fit``; it may have other effects of strata and PSUs.
    """
    y = fit.model.expected(fit.model.probabilities(fit.theta)) + by.noise
    known = Known(fit.known.rows, fit.known.rows @ fit.theta + by.known, fit.known.variance)
    model = fit.model if model is None else model
    model, y = sketched(model, y, fit.theta)
    theta, enough = descend_from(fit, model, y, known, fit.theta + by.prior)
    return theta if enough else descend(model, y, fit.root, known, theta, fit.theta + by.prior, fit.q)[0]


def spread(fit: TableFit) -> Floats:
    """Return the covariance (d, d) of the fitted coefficients due to the noise of the tables and to the prior.

    The covariance is A R A' + H^-1 Q H^-1, where A = H^-1 J' V^-1.  The module docstring defines R, H, Q, J and V.
    """
    J = fit.model.slopes(fit.theta, fit.model.probabilities(fit.theta))
    a = solve_triangular(fit.root, J, lower=True)
    L, known = fit.known.rows, fit.known
    H = information(a, fit.q, known)
    inverse = cho_solve(factored(H), np.eye(len(H)))
    A = inverse @ solve_triangular(fit.root, a, lower=True, trans="T").T
    return (A * fit.noise) @ A.T + inverse @ (np.diag(1 / fit.q) + (L.T / known.variance) @ L) @ inverse
