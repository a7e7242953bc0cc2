"""Sampler of the pseudo posterior of a mixture of regressions, with components summed out of the likelihood.

The target is eq. 10 of Hu, Savitsky & Williams (2022b) for the density of eq. 1-2 with z_i summed out,

    p(theta) prod_i exp h_i,    S_i = sum_k a_ik,    a_ik = pi_k N(y_i; x_i b_k, s_k^2) N(w_i; ...),

where h_i = alpha_i log S_i, or h_i = clamp(alpha_i log S_i, -M, M) for a censored fit (Hu, Williams & Savitsky 2025,
eq. 3.6).  There is no Gibbs sampler for a power below 1 of a sum, or for the clamp of a sum.  But z can be added to the
target if the probabilities of z add up to 1.  Here record i **takes part** with probability alpha_i, and is then in
component k with probability a_ik / S_i.  (Under a clamp, a record outside the clamp takes part with probability 0.)

    p(theta, z) ~ { p(theta) prod_(i takes part) a_iz }  *  { prod_i exp h_i / prod_(i takes part) S_i }.

The first factor is the posterior of a mixture with known components: given z, coefficients are normal and shares
Dirichlet.  The second factor is called the **remainder**.  If every alpha is 1, the remainder is 1, and the sampler is
the plain Gibbs sampler.  Otherwise the coefficient of log S_i in the log remainder is alpha_i - 1 with probability
alpha_i, and alpha_i with probability 1 - alpha_i.  The mean of the coefficient is 0, so the log remainder varies little
around 0, and **elliptical slice sampling** (Murray, Adams & MacKay 2010) around the first factor mostly accepts the
first proposal.  The only tuning, in the warm-up, is which records are inside a clamp.  The only approximations are
densities below 1e-290 and components with less than 1e-14 of a density.

Labels of components mix slowly, but no released value and no diagnostic depends on labels (see
:mod:`surveysynth.models.mixture.model`).

All steps of a sweep are in this module, because numba's cache only detects changes in the file of the function that
Python calls.  An outdated version of a step in another file would be run.
"""

from __future__ import annotations

from math import lgamma

import numpy as np
from numpy.typing import NDArray

from .mathematics import HALF_LOG_2PI, back, compiled, fast_exp, fast_log, forward, normal, vectorised_sum
from .state import Kept, KernelRecords, Regression, State

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

LEAST = 1e-290  # least density; smaller densities occur only far away from the posterior
NOTHING = 1e-14  # share of a density that is negligible, like a rounding error
PAIRINGS = 3  # number of times that a sweep pairs the components and divides the shares of each pair
CENTRE_SD = 5.0  # prior standard deviation of the common mean of coefficients
DEGREES = 3.0  # degrees of freedom of the half-t priors of scales (eq. 5-6)


@compiled
def _normal_logs(x: Floats, row: Codes, t: Floats, u: Floats, coefficients: Floats, sd: float, out: Floats) -> None:
    """Set out_i to the log of the normal density of the outcome t_i, given the predictors x_i and u_i.

    The density is N(t_i; x_i b + g u_i, sd^2).  ``coefficients`` are b and, if ``u`` is not empty, g.  ``row`` is the
    row of ``x`` of each record.
    """
    R = x.shape[1]
    mean = x @ np.ascontiguousarray(coefficients[:R])
    c, half, slope = -np.log(sd) - HALF_LOG_2PI, -0.5 / sd**2, coefficients[R:].sum()  # sum of one or no number
    for i in range(out.size):
        r = t[i] - mean[row[i]] - (slope * u[i] if u.size else 0.0)
        out[i] = c + half * r * r


@vectorised_sum
def _sum_of_contributions(alpha: Floats, log_p: Floats, other: Floats, clamp: float) -> float:
    """Sum, over records, the clamped contributions alpha_i (log_p_i + other_i) to the log pseudo likelihood."""
    total = 0.0
    if np.isinf(clamp):
        for i in range(alpha.size):
            total += alpha[i] * (log_p[i] + other[i])
    else:
        for i in range(alpha.size):
            total += min(max(alpha[i] * (log_p[i] + other[i]), -clamp), clamp)
    return total


@vectorised_sum
def _sum_of_participants(takes: Floats, log_S: Floats) -> float:
    """Sum log densities over the records that take part in the regressions of components.

    The sum is of takes_i log_S_i, where log_S_i is the log density of record i.  takes_i is 1 if record i takes part,
    and 0 if not.  For the survey weights of zeros, it is the weight with which the record takes part.
    """
    total = 0.0
    for i in range(takes.size):
        total += takes[i] * log_S[i]
    return total


@compiled
def _others(state: State, k: int, out: Floats) -> None:
    """Set out_i to the density of record i without component k: the sum of share times density over other components.

    A difference between the full density and component k would lose digits.
    """
    out[:] = 0.0
    for j in range(state.log_share.size):
        if j != k:
            share, density = np.exp(state.log_share[j]), state.density[j]
            for i in range(out.size):
                out[i] += share * density[i]


@compiled
def _remainder(records: KernelRecords, state: State, others: Floats, k: int, y_log: Floats, w_log: Floats) -> float:
    """Compute the log ratio of the target density to its conjugate part, given the log densities of component k.

    The ratio is called the remainder.  The conjugate part is the posterior of a mixture with known components.
    ``y_log`` and ``w_log`` are the log densities of y and of the log weight in component k, which may be proposed
    values.  ``others`` (n,) are the densities of records without component k.
    """
    n, share = y_log.size, np.exp(state.log_share[k])
    S, log_S = np.empty(n), np.empty(n)
    fast_exp(y_log + w_log if w_log.size else y_log, S)
    for i in range(n):
        S[i] = max(others[i] + share * S[i], LEAST)
    fast_log(S, log_S)
    total = _sum_of_contributions(records.alpha, log_S, state.other, records.clamp)
    return total - _sum_of_participants(state.takes, log_S)


@compiled
def _zeros_remainder(records: KernelRecords, state: State, w_log: Floats) -> float:
    """Compute the log ratio of the target density of zeros to its conjugate part, given log densities of weights.

    The ratio is called the remainder.  ``w_log`` are the log densities of the survey weights of zeros, which may be
    proposed values.  Zeros are records whose outcome is 0.  Their contributions to the log pseudo likelihood are
    summed, and the log density of their weights, as used in the proposals of the regression, is subtracted.
    """
    total = _sum_of_contributions(records.alpha0, w_log, state.log_zero[records.row0], records.clamp)
    return total - _sum_of_participants(records.part0, w_log)


@compiled
def _reference(
    x: Floats, row: Codes, t: Floats, u: Floats, v: Floats, z: Codes, k: int, sd: float, scale: Floats, centre: Floats
) -> tuple[Floats, Floats]:
    """Return the normal distribution of the coefficients of component k, given the components z of all records.

    The results are the mean and the Cholesky factor of the precision.  The regression is of t on x and u, with weights
    v, residual standard deviation ``sd``, prior standard deviations ``scale`` and prior means ``centre``.
    """
    G, R = x.shape
    P = scale.size
    weight, sum_t, sum_u = np.zeros(G), np.zeros(G), np.zeros(G)
    uu = ut = 0.0
    for i in range(t.size):
        if z.size == 0 or z[i] == k:
            g = row[i]
            weight[g] += v[i]
            sum_t[g] += v[i] * t[i]
            if P > R and u.size:
                sum_u[g] += v[i] * u[i]
                uu += v[i] * u[i] * u[i]
                ut += v[i] * u[i] * t[i]
    precision, h = np.zeros((P, P)), np.zeros(P)
    for g in range(G):
        if weight[g] > 0:
            for a in range(R):
                xa = x[g, a]
                h[a] += xa * sum_t[g]
                xa *= weight[g]
                for b in range(a + 1):
                    precision[a, b] += xa * x[g, b]
            if P > R:
                for b in range(R):
                    precision[R, b] += x[g, b] * sum_u[g]
    if P > R:
        precision[R, R] = uu
        h[R] = ut
    for a in range(P):
        h[a] /= sd**2
        for b in range(a + 1):
            precision[a, b] /= sd**2
            precision[b, a] = precision[a, b]
        precision[a, a] += 1 / scale[a] ** 2
        h[a] += centre[a] / scale[a] ** 2
    root: Floats = np.linalg.cholesky(precision).astype(np.float64)
    return back(root, forward(root, h)), root


@compiled
def _log_prior_of_scale(log_sd: float, least: float) -> float:
    """Return the log prior density of log sd, where sd is half-t distributed and at least ``least``."""
    sd = np.exp(log_sd)
    if sd < least:
        return -np.inf
    return log_sd - (DEGREES + 1) / 2 * np.log1p(sd * sd / DEGREES)


@compiled
def _draw_scales(b: Floats, scale: Floats, centre: Floats, common: bool, rng: np.random.Generator) -> None:
    """Draw the prior standard deviations of the coefficients b (K, P) by slice sampling.

    If ``common``, the prior means of the coefficients are drawn, too.
    """
    K, width = len(b), 2.0 / np.sqrt(2.0 * len(b))
    for a in range(scale.size):
        if common:
            precision = K / scale[a] ** 2 + 1 / CENTRE_SD**2
            centre[a] = b[:, a].sum() / scale[a] ** 2 / precision + rng.standard_normal() / np.sqrt(precision)
        squares = 0.0
        for k in range(K):
            squares += (b[k, a] - centre[a]) ** 2
        here = np.log(scale[a])
        level = _scale_log_density(here, K, squares) + np.log(rng.random())
        low = here - width * rng.random()
        high = low + width
        while _scale_log_density(low, K, squares) > level:
            low -= width
        while _scale_log_density(high, K, squares) > level:
            high += width
        while True:
            new = low + (high - low) * rng.random()
            if _scale_log_density(new, K, squares) > level:
                break
            if new < here:
                low = new
            else:
                high = new
        scale[a] = np.exp(new)


@compiled
def _scale_log_density(log_scale: float, K: int, squares: float) -> float:
    return _log_prior_of_scale(log_scale, 0.0) - K * log_scale - squares / 2 * np.exp(-2 * log_scale)


@compiled
def _regression(records: KernelRecords, state: State, k: int, for_weight: bool) -> Regression:
    """Return the regression of y or the log weight in component k.  k = K stands for the log weight of zeros."""
    zeros = k == state.log_share.size
    if for_weight:
        coefficients, sds, scale, centre = state.c[k], state.sd_w, state.scale_w, state.centre_w
    else:
        coefficients, sds, scale, centre = state.b[k], state.sd, state.scale, state.centre
    if zeros:
        row, t, u, v, z = records.row0, records.w0, np.empty(0), records.part0, state.z[:0]
        now, other = state.w0_log, state.w0_log[:0]
    elif for_weight:
        row, t, u, v, z = records.row, records.w, records.y, state.takes, state.z
        now, other = state.w_log[k], state.y_log[k]
    else:
        row, t, u, v, z = records.row, records.y, records.y[:0], state.takes, state.z
        now, other = state.y_log[k], (state.w_log[k] if records.w.size else state.y_log[k, :0])
    least = records.least_sd_w if for_weight else records.least_sd
    exact = records.exact or (zeros and np.isinf(records.clamp))
    return Regression(k, zeros, exact, coefficients, sds, scale, centre, row, t, u, v, z, now, other, least)


@compiled
def _regression_remainder(
    records: KernelRecords, state: State, reg: Regression, others: Floats, log_p: Floats
) -> float:  # fmt: skip
    """Compute the log ratio of the target density to its conjugate part, given log densities of one regression.

    The ratio is called the remainder.  The conjugate part is the posterior of a mixture with known components.
    ``log_p`` are the log densities, which may be proposed values.
    """
    if reg.zeros:
        return _zeros_remainder(records, state, log_p)
    return _remainder(records, state, others, reg.k, log_p, reg.other)


@compiled
def _draw_regression(
    records: KernelRecords, state: State, k: int, for_weight: bool, others: Floats, rng: np.random.Generator
) -> None:
    """Draw the coefficients and the residual standard deviation of one regression of component k."""
    reg = _regression(records, state, k, for_weight)
    left = _draw_coefficients(records, state, reg, others, rng)
    _draw_sd(records, state, reg, others, left, rng)
    _normal_logs(records.x, reg.row, reg.t, reg.u, reg.coefficients, reg.sds[k], reg.now)
    if not reg.zeros:
        fast_exp(reg.now + reg.other if reg.other.size else reg.now, state.density[k])


@compiled
def _draw_coefficients(
    records: KernelRecords, state: State, reg: Regression, others: Floats, rng: np.random.Generator
) -> float:
    """Draw the coefficients of one regression by elliptical slice sampling.

    Proposals are from the normal distribution of the coefficients given the components z of all records.  The remainder
    is the target density divided by the density of this distribution.  ``others`` (n,) are the densities of records
    without the regression's component.  Returns the log remainder at the new coefficients.
    """
    sd = reg.sds[reg.k]
    mean, root = _reference(records.x, reg.row, reg.t, reg.u, reg.v, reg.z, reg.k, sd, reg.scale, reg.centre)
    nu = normal(root, rng)
    if reg.exact:
        reg.coefficients[:] = mean + nu
        return 0.0
    new, left = np.empty(reg.t.size), 0.0
    level = _regression_remainder(records, state, reg, others, reg.now) + np.log(rng.random())
    away = reg.coefficients - mean
    angle = 2 * np.pi * rng.random()
    low, high = angle - 2 * np.pi, angle
    while True:
        proposed = mean + away * np.cos(angle) + nu * np.sin(angle)
        _normal_logs(records.x, reg.row, reg.t, reg.u, proposed, reg.sds[reg.k], new)
        left = _regression_remainder(records, state, reg, others, new)
        if left > level:
            break
        if high - low < 1e-12:
            proposed = reg.coefficients.copy()
            left = level
            break
        if angle < 0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * rng.random()
    reg.coefficients[:] = proposed
    return left


@compiled
def _draw_sd(
    records: KernelRecords, state: State, reg: Regression, others: Floats, left: float, rng: np.random.Generator
) -> None:
    """Draw the residual standard deviation of one regression by elliptical slice sampling of its log.

    ``left`` is the log remainder at the current parameters.
    """
    new = np.empty(reg.t.size)
    _normal_logs(records.x, reg.row, reg.t, reg.u, reg.coefficients, 1.0, new)
    weight = squares = 0.0
    residual = np.empty(reg.t.size)
    for i in range(reg.t.size):
        residual[i] = -2 * (new[i] + HALF_LOG_2PI)  # squared residual
        if reg.zeros or reg.z[i] == reg.k:
            weight += reg.v[i]
            squares += reg.v[i] * residual[i]
    mode, width = 0.5 * np.log(squares / weight), 1 / np.sqrt(2 * weight)
    if not (weight > 0.5 and np.isfinite(mode)):
        mode, width = 0.0, 1.0
    mode = max(mode, np.log(reg.least))
    away, nu = np.log(reg.sds[reg.k]) - mode, width * rng.standard_normal()
    log_sd = mode + away
    conjugate = _sd_log_density(log_sd, weight, squares, reg.least) + 0.5 * (away / width) ** 2
    if not reg.exact:
        conjugate += left
    level = conjugate + np.log(rng.random())
    angle = 2 * np.pi * rng.random()
    low, high = angle - 2 * np.pi, angle
    while high - low > 1e-12:
        step = away * np.cos(angle) + nu * np.sin(angle)
        value = _sd_log_density(mode + step, weight, squares, reg.least) + 0.5 * (step / width) ** 2
        if not reg.exact and value > -np.inf:
            half = 0.5 * np.exp(-2 * (mode + step))
            for i in range(reg.t.size):
                new[i] = -(mode + step) - HALF_LOG_2PI - half * residual[i]
            value += _regression_remainder(records, state, reg, others, new)
        if value > level:
            log_sd = mode + step
            break
        if angle < 0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * rng.random()
    reg.sds[reg.k] = np.exp(log_sd)


@compiled
def _sd_log_density(log_sd: float, weight: float, squares: float, least: float) -> float:
    """Return the log posterior density, up to a constant, of log sd in one regression of a mixture.

    sd is the residual standard deviation, and at least ``least``.  The coefficients and the components of the records
    are given.  ``weight`` is sum_i v_i over the records i of the regression, where v_i is the weight of the record, and
    ``squares`` is sum_i v_i (residual_i)^2.  The remainder of the target is not included.
    """
    prior = _log_prior_of_scale(log_sd, least)
    return prior if prior == -np.inf else prior - weight * log_sd - squares / 2 * np.exp(-2 * log_sd)


@compiled
def _half_t(least: float, rng: np.random.Generator) -> float:
    while True:
        sd = abs(rng.standard_normal()) / np.sqrt(rng.standard_gamma(DEGREES / 2) / (DEGREES / 2))
        if sd >= least:
            return sd


@compiled
def _draw_empty(
    records: KernelRecords, state: State, k: int, others: Floats, own: bool, rng: np.random.Generator
) -> bool:
    """Draw the parameters of an empty component from the prior, and accept the draw by a Metropolis step.

    The step compares the remainder of the target before and after the draw.  ``own`` is True if ``others`` (densities
    of records without the component) were computed for this component, and False if they are from an earlier component
    whose densities are negligible.  Return True if ``others`` must be computed again.
    """
    R, both = state.scale.size, records.w.size > 0
    b, c = np.empty(R), np.empty(R + 1)
    for a in range(R):
        b[a] = state.centre[a] + state.scale[a] * rng.standard_normal()
    sd, sd_w = _half_t(records.least_sd, rng), 1.0
    y_log, w_log = np.empty(records.y.size), np.empty(records.w.size)
    _normal_logs(records.x, records.row, records.y, records.y[:0], b, sd, y_log)
    if both:
        for a in range(R + 1):
            c[a] = state.centre_w[a] + state.scale_w[a] * rng.standard_normal()
        sd_w = _half_t(records.least_sd_w, rng)
        _normal_logs(records.x, records.row, records.w, records.y, c, sd_w, w_log)
    most = np.exp(state.log_share[k] - HALF_LOG_2PI) / records.least_sd
    if both:
        most *= np.exp(-HALF_LOG_2PI) / records.least_sd_w
    counts = not records.exact and most > NOTHING * others.min()
    if counts:
        if not own:
            _others(state, k, others)
        w_now = state.w_log[k] if both else w_log
        now = _remainder(records, state, others, k, state.y_log[k], w_now)
        if np.log(rng.random()) >= _remainder(records, state, others, k, y_log, w_log) - now:
            return True
    state.b[k], state.sd[k], state.y_log[k] = b, sd, y_log
    if both:
        state.c[k], state.sd_w[k], state.w_log[k] = c, sd_w, w_log
        fast_exp(y_log + w_log, state.density[k])
    else:
        fast_exp(y_log, state.density[k])
    return counts


@compiled
def _draw_shares(records: KernelRecords, state: State, rng: np.random.Generator) -> None:
    """Draw the shares of components given the component of each record, and accept the draw by a Metropolis step.

    Draws are from a Dirichlet distribution.  The step compares the remainder of the target before and after the draw.
    """
    K = state.log_share.size
    log_share = np.empty(K)
    sizes = np.zeros(K)
    for i in range(state.z.size):
        if state.z[i] >= 0:
            sizes[state.z[i]] += 1
    for k in range(K):
        log_share[k] = _log_gamma_variate(state.gamma[0] / K + sizes[k], rng)
    top = log_share.max()
    log_share -= top + np.log(np.exp(log_share - top).sum())
    if not records.exact:
        now = _shares_remainder(records, state, state.log_share)
        if np.log(rng.random()) >= _shares_remainder(records, state, log_share) - now:
            return
    state.log_share[:] = log_share


@compiled
def _shares_remainder(records: KernelRecords, state: State, log_share: Floats) -> float:
    S, log_S = np.full(records.y.size, LEAST), np.empty(records.y.size)
    for k in range(log_share.size):
        share, density = np.exp(log_share[k]), state.density[k]
        for i in range(S.size):
            S[i] += share * density[i]
    fast_log(S, log_S)
    total = _sum_of_contributions(records.alpha, log_S, state.other, records.clamp)
    return total - _sum_of_participants(state.takes, log_S)


@compiled
def _log_gamma_variate(shape: float, rng: np.random.Generator) -> float:
    """Draw the log of a standard gamma variate.  The variate itself may be too small for floating point."""
    return np.log(rng.standard_gamma(shape + 1)) + np.log(1 - rng.random()) / shape


@compiled
def _draw_gamma(state: State, a: float, b: float, steps: int, rng: np.random.Generator) -> None:
    """Draw the concentration gamma of the Dirichlet prior, given the shares of components, by Metropolis steps.

    The prior of gamma is Gamma(a, b).
    """
    total = state.log_share.sum()
    here = _gamma_log_density(state.gamma[0], total, state.log_share.size, a, b)
    for _ in range(steps):
        gamma = state.gamma[0] * np.exp(0.7 * rng.standard_normal())
        there = _gamma_log_density(gamma, total, state.log_share.size, a, b)
        if np.log(rng.random()) < there - here:
            state.gamma[0], here = gamma, there


@compiled
def _gamma_log_density(gamma: float, total: float, K: int, a: float, b: float) -> float:
    return a * np.log(gamma) - b * gamma + lgamma(gamma) - K * lgamma(gamma / K) + gamma / K * total


@compiled
def _draw_splits(records: KernelRecords, state: State, rng: np.random.Generator) -> None:
    """Pair the components at random, and draw how the two components of each pair divide their joint share.

    The log odds of the two shares are slice sampled, with the components z of records summed out.  One of two similar
    components can get the whole joint share in one step, so that the other component becomes free for other records.
    """
    K, n = state.density.shape
    base, order = np.empty(n), np.arange(K)
    for a in range(K - 1, 0, -1):
        b = int(rng.random() * (a + 1))
        order[a], order[b] = order[b], order[a]
    for pair in range(K // 2):
        j, k = order[2 * pair], order[2 * pair + 1]
        one, two = state.log_share[j], state.log_share[k]
        both = max(one, two) + np.log1p(np.exp(-abs(one - two)))
        base[:] = 0.0
        for other in range(K):
            if other != j and other != k:
                share, density = np.exp(state.log_share[other]), state.density[other]
                for i in range(n):
                    base[i] += share * density[i]
        odds = one - two
        if np.exp(both) * max(state.density[j].max(), state.density[k].max()) <= NOTHING * base.min():
            shape = state.gamma[0] / K
            new = _log_gamma_variate(shape, rng) - _log_gamma_variate(shape, rng)
        else:
            level = _log_p_of_split(records, state, base, j, k, odds, both) + np.log(rng.random())
            width = 0.5 * np.exp(4 * rng.random())  # an interval of random size, without stepping out
            low = odds - width * rng.random()
            high = low + width
            while True:
                new = low + (high - low) * rng.random()
                if new == odds or _log_p_of_split(records, state, base, j, k, new, both) > level:
                    break
                if new < odds:
                    low = new
                else:
                    high = new
        state.log_share[j] = both - np.log1p(np.exp(-new)) if new > -700 else both + new
        state.log_share[k] = both - np.log1p(np.exp(new)) if new < 700 else both - new


@compiled
def _log_p_of_split(
    records: KernelRecords, state: State, base: Floats, j: int, k: int, odds: float, both: float
) -> float:  # fmt: skip
    s, n = 1 / (1 + np.exp(-odds)), base.size
    one, two = np.exp(both) * s, np.exp(both) / (1 + np.exp(odds))
    S, log_S, d_j, d_k = np.empty(n), np.empty(n), state.density[j], state.density[k]
    for i in range(n):
        S[i] = max(base[i] + one * d_j[i] + two * d_k[i], LEAST)
    fast_log(S, log_S)
    shape = state.gamma[0] / state.log_share.size
    prior = -shape * (np.abs(odds) + 2 * np.log1p(np.exp(-np.abs(odds))))
    return prior + _sum_of_contributions(records.alpha, log_S, state.other, records.clamp)


@compiled
def _draw_allocations(records: KernelRecords, state: State, rng: np.random.Generator) -> None:
    """Draw which records take part in the regressions of components, and draw the components of these records."""
    K, n = state.density.shape
    p, share = np.empty(K), np.exp(state.log_share)
    for i in range(n):
        state.takes[i] = 1.0 if records.exact or rng.random() < records.part[i] else 0.0
        if state.takes[i] == 0:
            state.z[i] = -1
            continue
        total = 0.0
        for k in range(K):
            total += share[k] * state.density[k, i]
            p[k] = total
        u, k = total * rng.random(), 0
        while k < K - 1 and p[k] <= u:
            k += 1
        state.z[i] = k


@compiled
def _log_odds(x: Floats, zero: Floats, log_zero: Floats, log_other: Floats) -> None:
    odds = x @ zero
    for g in range(odds.size):
        e = np.log1p(np.exp(-abs(odds[g])))
        log_zero[g] = min(odds[g], 0.0) - e
        log_other[g] = -max(odds[g], 0.0) - e


@compiled
def _log_p_of_zeros(
    records: KernelRecords, ones: Floats, zeros: Floats, logs: Floats, state: State, log_zero: Floats, log_other: Floats
) -> float:
    """Compute the log pseudo likelihood of given probabilities of zeros and of other values, up to a constant.

    ``log_zero`` and ``log_other`` (G,) are the logs of these probabilities in each predictor row.  Without a clamp,
    only sums of alpha by predictor row are used: ``zeros`` (G,) over records that are zero, and ``ones`` (G,) over
    other records.  With a clamp, ``logs`` (n,) are used, the log densities of the other records.
    """
    if np.isinf(records.clamp):
        return (ones * log_other).sum() + (zeros * log_zero).sum()
    weight = state.w0_log if records.w0.size else np.zeros(records.row0.size)
    total = _sum_of_contributions(records.alpha, logs, log_other[records.row], records.clamp)
    return total + _sum_of_contributions(records.alpha0, weight, log_zero[records.row0], records.clamp)


@compiled
def _draw_zeros(records: KernelRecords, state: State, mode: Floats, root: Floats, rng: np.random.Generator) -> None:
    """Draw the coefficients of the log odds of a zero by elliptical slice sampling.

    Proposals are from a normal approximation of the posterior around ``mode``, with precision root root'.
    """
    G = len(records.x)
    ones, zeros, logs = np.zeros(G), np.zeros(G), np.zeros(records.y.size)
    if np.isinf(records.clamp):
        for i in range(records.row.size):
            ones[records.row[i]] += records.alpha[i]
        for i in range(records.row0.size):
            zeros[records.row0[i]] += records.alpha0[i]
    else:
        for k in range(state.log_share.size):
            logs += np.exp(state.log_share[k]) * state.density[k]
        logs = np.log(np.maximum(logs, LEAST))
    log_zero, log_other = state.log_zero.copy(), state.log_other.copy()

    def left(zero: Floats) -> float:
        away = root.T @ (zero - mode)
        adjustment = (away**2).sum() / 2 - (zero**2).sum() / (2 * records.odds_sd**2)
        return _log_p_of_zeros(records, ones, zeros, logs, state, log_zero, log_other) + adjustment

    level = left(state.zero) + np.log(rng.random())
    nu, away = normal(root, rng), state.zero - mode
    angle = 2 * np.pi * rng.random()
    low, high = angle - 2 * np.pi, angle
    while high - low > 1e-12:
        proposed = mode + away * np.cos(angle) + nu * np.sin(angle)
        _log_odds(records.x, proposed, log_zero, log_other)
        if left(proposed) > level:
            state.zero[:], state.log_zero[:], state.log_other[:] = proposed, log_zero, log_other
            state.other[:] = log_other[records.row]
            return
        if angle < 0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * rng.random()


@compiled
def _inside(records: KernelRecords, state: State) -> None:
    """Set to 0 the probability that clamped records take part in the regressions of components.

    For all other records, the probability is alpha.  This changes the distribution of proposals, not the target.
    """
    S = np.zeros(records.y.size)
    for k in range(state.log_share.size):
        S += np.exp(state.log_share[k]) * state.density[k]
    for i in range(S.size):
        log_p = state.other[i] + np.log(max(S[i], LEAST))
        records.part[i] = records.alpha[i] if abs(records.alpha[i] * log_p) < records.clamp else 0.0
    for i in range(records.row0.size):
        log_p = state.log_zero[records.row0[i]] + (state.w0_log[i] if records.w0.size else 0.0)
        records.part0[i] = records.alpha0[i] if abs(records.alpha0[i] * log_p) < records.clamp else 0.0


@compiled
def fill(records: KernelRecords, state: State) -> None:
    """Compute all log densities of a chain's state from its parameters."""
    _log_odds(records.x, state.zero, state.log_zero, state.log_other)
    if not records.zeros:
        state.log_other[:] = 0.0
    state.other[:] = state.log_other[records.row]
    for k in range(state.log_share.size):
        _normal_logs(records.x, records.row, records.y, records.y[:0], state.b[k], state.sd[k], state.y_log[k])
        fast_exp(state.y_log[k], state.density[k])
        if records.w.size:
            _normal_logs(records.x, records.row, records.w, records.y, state.c[k], state.sd_w[k], state.w_log[k])
            fast_exp(state.y_log[k] + state.w_log[k], state.density[k])
    if records.w0.size:
        K = state.log_share.size
        _normal_logs(records.x, records.row0, records.w0, records.y[:0], state.c[K], state.sd_w[K], state.w0_log)


@compiled
def sample(
    records: KernelRecords, state: State, mode: Floats, root: Floats, warmup: int, draws: int, sweeps: int,
    rng: np.random.Generator, kept: Kept,
) -> None:  # fmt: skip
    """Run one chain with ``sweeps`` sweeps per draw, and write the draws to ``kept``.

    ``mode`` and ``root`` are the normal approximation of the log odds of a zero, from
    :func:`surveysynth.models.mixture.chain.zero_odds`.
    """
    K, others = state.log_share.size, np.zeros(records.y.size)
    for step in range((warmup + draws) * sweeps):
        if step < warmup * sweeps and not np.isinf(records.clamp):
            _inside(records, state)
        _draw_allocations(records, state, rng)
        size = np.zeros(K)
        for i in range(state.z.size):
            if state.z[i] >= 0:
                size[state.z[i]] += 1
        stale = not records.exact
        for k in range(K):
            if stale or (size[k] > 0 and not records.exact):
                _others(state, k, others)
            if size[k] == 0:
                stale = _draw_empty(records, state, k, others, stale, rng)
                continue
            _draw_regression(records, state, k, False, others, rng)
            if records.w.size:
                _draw_regression(records, state, k, True, others, rng)
            stale = not records.exact
        if records.zeros and records.w.size:
            _draw_regression(records, state, K, True, others, rng)
        _draw_scales(state.b, state.scale, state.centre, records.common, rng)
        if records.w.size:
            _draw_scales(state.c if records.zeros else state.c[:K], state.scale_w, state.centre_w, records.common, rng)
        _draw_shares(records, state, rng)
        for _ in range(PAIRINGS if not records.exact else 1):
            _draw_splits(records, state, rng)
        _draw_gamma(state, records.a_gamma, records.b_gamma, 5, rng)
        if records.zeros:
            _draw_zeros(records, state, mode, root, rng)
        s = step // sweeps - warmup
        if s >= 0 and (step + 1) % sweeps == 0:
            kept.share[s], kept.b[s], kept.sd[s] = np.exp(state.log_share), state.b, state.sd
            kept.gamma[s] = state.gamma[0]
            if records.w.size:
                kept.c[s], kept.sd_w[s] = state.c, state.sd_w
            if records.zeros:
                kept.zero[s] = state.zero
