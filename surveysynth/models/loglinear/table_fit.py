"""Fit of a log-linear model to noisy tables: least squares that knows sampling and noise, and draws around it.

Minimised is  (y - mu)' V^-1 (y - mu) + (L theta - k)' K^-1 (L theta - k) + sum_i theta_i^2 / q_i,  with V = S + R, the
sampling covariance of the true tables plus the variances of the noise, and q_i the relative variance of a coefficient
times its variance component.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from .table_model import Codes, Floats, TableModel

RENEWALS = 20  # of V and of the variance components, at most
STEPS = 40  # of Levenberg-Marquardt, at most
FEW, FIRST, LATER = 5, 2, 2  # steps between renewals: 5 in the first 2 renewals, then 2
QUASI, HALVINGS = 100, 10  # quasi-Newton steps of a draw, at most, and how often each is halved
STILL, SAME = 5e-2, 0.1  # distance to the minimum in standard deviations; change of a log variance component
SLOW = 0.02  # a step by which chi square falls less than this is the last one
OPEN = 4.0  # the most that a variance component counts in draws: it is larger where levels have cells of their own
ROUNDING = 0.0, 1e-12, 1e-9, 1e-6  # more on a diagonal, as a share of it
LEAST = 1e-6  # of a variance component
MOST = 30.0  # of a variance component: evidence would let it grow for ever where levels have cells of their own


@dataclass(frozen=True, eq=False, repr=False)
class Known:
    """Linear functions of theta about which something is known beforehand: rows @ theta ~ N(value, variance)."""

    rows: Floats
    value: Floats
    variance: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Components:
    """Variance components of the effects.

    Attributes
    ----------
    variance : float array (B,)
        The fixed ones, and guesses of the others.
    worth : float array (B,)
        How many observations a guess counts for; infinite for what is fixed.
    """

    variance: Floats
    worth: Floats


@dataclass(frozen=True, eq=False, repr=False)
class TableFit:
    """A model fitted to noisy tables."""

    model: TableModel
    y: Floats
    noise: Floats
    known: Known
    variance: Floats  # (B,)
    theta: Floats
    root: Floats  # lower Cholesky root of V
    steps: int
    q: Floats
    components: Components

    @cached_property
    def curvature(self) -> tuple[Floats, bool]:
        """H = J' V^-1 J + Q at the fit, factored."""
        J = self.model.slopes(self.theta, self.model.probabilities(self.theta))
        return factored(information(solve_triangular(self.root, J, lower=True), self.q, self.known))


def information(a: Floats, q: Floats, known: Known) -> Floats:
    """H = J' V^-1 J + Q, from a = V^-1/2 J, with what is known beforehand (d, d)."""
    return a.T @ a + np.diag(1 / q) + (known.rows.T / known.variance) @ known.rows


def factored(H: Floats) -> tuple[Floats, bool]:
    """The Cholesky factor; where rounding makes H indefinite, of H with a little more on its diagonal."""
    for more in ROUNDING[:-1]:
        try:
            return cho_factor(H + more * np.diag(np.diag(H)))
        except np.linalg.LinAlgError:
            continue
    return cho_factor(H + ROUNDING[-1] * np.diag(np.diag(H)))


def coefficients(model: TableModel) -> tuple[Floats, Codes]:
    """Relative variance and component of each coefficient (d,), (d,)."""
    relative = [np.tile(effect.relative, effect.shape[0]) for effect in model.effects]
    component = [np.tile(effect.component, effect.shape[0]) for effect in model.effects]
    return np.concatenate(relative), np.concatenate(component)


def fit_tables(
    model: TableModel, y: Floats, noise: Floats, components: Components, known: Known,
    start: Floats | None = None, variance: Floats | None = None,
) -> TableFit:  # fmt: skip
    """The most probable coefficients, given variance components that are found by their evidence."""
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
    """The model of fewer rows, and counts to fit it to.

    At theta the two models expect different counts; the counts are moved by the difference, so that residuals are the
    same there.
    """
    sketch = model.sketch
    if sketch is model:
        return model, y
    here, there = (each.expected(each.probabilities(theta)) for each in (model, sketch))
    return sketch, y + there - here


def refitted(fit: TableFit, model: TableModel) -> TableFit:
    """The fit of a model with other effects of strata and PSUs, from where this one is."""
    return fit_tables(model, fit.y, fit.noise, fit.components, fit.known, fit.theta, fit.variance)


def renewed(
    theta: Floats, posterior: Floats, relative: Floats, component: Codes, variance: Floats, components: Components,
    most: float = MOST,
) -> Floats:  # fmt: skip
    """Variance components by MacKay's (1992) fixed point: squares over the effective number of coefficients."""
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
    """Minimise with V held, by Levenberg-Marquardt: a step is taken only if the objective falls.

    Derivatives are those of a sketch of the rows, until a step by them has to be damped: then exact ones.
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
        # about the distance to the minimum, in posterior standard deviations; damping makes steps short, not this
        size = np.sqrt(gradient @ (cho_solve(factored(H), gradient) if damping else move))
        if not falls:
            break  # no step of any length leads down
        slow = damping < 1e-3 and value - value_there < SLOW
        theta, p, r, value = there, p_there, r_there, value_there
        damping = damping / 10 if damping > 1e-4 else 0.0
        if size < STILL or slow:
            break
    return theta, H, steps


def descend_from(
    fit: TableFit, model: TableModel, y: Floats, known: Known, mean: Floats
) -> tuple[Floats, bool]:  # fmt: skip
    """Minimise from a fit by BFGS, from the fit's curvature and without a Jacobian; and whether it converged.

    Source: Nocedal & Wright (2006), algorithm 7.4.
    """
    theta, root = fit.theta, fit.root
    p = model.probabilities(theta)
    r, value = _residual(model, y, root, known, theta, mean, fit.q, p)
    pairs: list[tuple[Floats, Floats]] = []  # steps, and how gradients changed over them
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
        if size < STILL / 4:  # by a curvature that is not quite that of the place
            return theta, True
    return theta, False


def _direction(curvature: tuple[Floats, bool], pairs: list[tuple[Floats, Floats]], gradient: Floats) -> Floats:
    """The quasi-Newton step, by the two loops."""
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
    """What prior and what is known beforehand add to minus half the gradient of the objective (d,)."""
    return known.rows.T @ ((known.value - known.rows @ theta) / known.variance) - (theta - mean) / q


def _residual(
    model: TableModel, y: Floats, root: Floats, known: Known, theta: Floats, mean: Floats, q: Floats, p: Floats
) -> tuple[Floats, float]:
    r = solve_triangular(root, y - model.expected(p), lower=True)
    k = known.value - known.rows @ theta
    return r, float(r @ r + np.sum((theta - mean) ** 2 / q) + np.sum(k**2 / known.variance))


@dataclass(frozen=True, eq=False, repr=False)
class Perturbation:
    """What a draw adds: noise to the tables, and errors to the prior means and to what is known beforehand."""

    noise: Floats
    prior: Floats
    known: Floats

    @classmethod
    def for_fit(cls, fit: TableFit, noise: Floats, rng: np.random.Generator) -> Perturbation:
        """Fresh errors for a fit."""
        _, component = coefficients(fit.model)
        less = np.where(np.isinf(fit.components.worth), 1.0, np.minimum(1.0, OPEN / fit.variance))
        prior = rng.standard_normal(len(fit.q)) * np.sqrt(fit.q * less[component])
        return cls(noise, prior, rng.standard_normal(len(fit.known.value)) * np.sqrt(fit.known.variance))

    def __neg__(self) -> Perturbation:
        """The opposite one, which is as probable."""
        return Perturbation(-self.noise, -self.prior, -self.known)


def draw(fit: TableFit, by: Perturbation, model: TableModel | None = None) -> Floats:
    """Coefficients that vary as noise and prior leave them open: the fit to its own expectation with fresh noise.

    ``model`` is one with other effects of strata and PSUs: its coefficients have the same expectation of the tables.
    Reiter & Kinney (2012): no parameter uncertainty from sampling.
    """
    y = fit.model.expected(fit.model.probabilities(fit.theta)) + by.noise
    known = Known(fit.known.rows, fit.known.rows @ fit.theta + by.known, fit.known.variance)
    model = fit.model if model is None else model
    model, y = sketched(model, y, fit.theta)
    theta, enough = descend_from(fit, model, y, known, fit.theta + by.prior)
    return theta if enough else descend(model, y, fit.root, known, theta, fit.theta + by.prior, fit.q)[0]


def spread(fit: TableFit) -> Floats:
    """Covariance of theta from noise and prior, A R A' + H^-1 Q H^-1, A = H^-1 J' V^-1 (d, d)."""
    J = fit.model.slopes(fit.theta, fit.model.probabilities(fit.theta))
    a = solve_triangular(fit.root, J, lower=True)
    L, known = fit.known.rows, fit.known
    H = information(a, fit.q, known)
    inverse = cho_solve(factored(H), np.eye(len(H)))
    A = inverse @ solve_triangular(fit.root, a, lower=True, trans="T").T
    return (A * fit.noise) @ A.T + inverse @ (np.diag(1 / fit.q) + (L.T / known.variance) @ L) @ inverse
