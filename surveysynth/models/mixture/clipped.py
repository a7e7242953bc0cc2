"""The target of the strict mechanism for a mixture of regressions.

    log p(y | row) = log(1 - rho) + log sum_k pi_k N(y; x b_k, s_k^2),   or log rho of a zero,   logit rho = x d,

rho = 0 where zeros have no probability of their own.  With parameters of the reference and whitened predictors X Q

    b_k = b_ref,k + s_ref,k Q beta_k,   s_k = s_0 + 2 (s_ref,k - s_0) / (1 + e^{-2 t_k}),
    pi = pi_0 + (1 - K pi_0) softmax(log(pi_ref - pi_0) + C theta),   d = d_ref + Q delta,

s_0 the least standard deviation, pi_0 = .2 / K the least share, and C (K, K - 1) orthonormal contrasts.  The prior is
public: beta_k and delta ~ N(0, 4 / rank), t_k and theta normal around 0, wider of a first draw.  Its centre is what
tells components apart.  No share is less than pi_0, and no component becomes twice as wide as the reference's: one that
the file does not need would be anywhere, and means of amounts with it.

C_B is an expectation over the outcome under the reference, at public nodes: predictors are public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, ndtr, softmax

from ..._version import __version__
from ...engines.base import Diagnostics
from ...engines.hamiltonian import Target
from ..draws import Draws
from ..shared.clipped_fit import MANY_ROWS, PRIOR_SD, alike, contrasts_of, means_of, whitening
from ..shared.clipped_outcome import Nodes, expected_ratio
from .mathematics import HALF_LOG_2PI, exp_of, log_of

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

LEAST_SHARE = 0.2  # of what all components alike would have
SD_SD = {True: 1.5, False: 0.5}  # prior standard deviation of t_k: of a first draw, and of the others
SHARE_SD = {True: 1.5, False: 1.0}  # of theta
REACH = 5.0  # standard deviations of a component that its nodes cover
# Of all rows together for each root of the records' worth of information, and of a component in a row at the least.  A
# node that meets the clamp is a kink, which moves the maximum; those of rows lie differently, so that with many rows
# fewer do.
PER_ROOT, LEAST_NODES = 100.0, 20
ZEROS = 0.1  # a record's information about the log odds of a zero, about
GOLDEN = (np.sqrt(5) - 1) / 2
WATCHED, PLACES = 4, np.array([-1.5, -0.5, 0.0, 0.5, 1.5])  # rows, and standard deviations from the reference's mean
FARTHEST = 1e100  # standard deviations: no record takes the density away


@dataclass(frozen=True)
class Components:
    """Parameters of a mixture.

    Attributes
    ----------
    share : float array (K,)
    b : float array (K, P)
    sd : float array (K,)
    zero : float array (P,), optional
        Of the log odds of a zero, where it has a probability of its own.
    """

    share: Floats
    b: Floats
    sd: Floats
    zero: Floats | None = None


def least_share(K: int) -> float:
    """Of any one of so many components; one alone has all."""
    return LEAST_SHARE / K if K > 1 else 0.0


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Places:
    """Values in predictor rows, of records and of nodes: row, value, and whether it is a zero of its own."""

    row: Codes
    y: Floats
    zero: NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class ClippedMixture:
    """The log target of a file: a point holds beta (K, rank) row by row, t (K,), theta (K - 1,) and delta (rank,).

    ``X`` (rows, P) are the predictor rows of records and of nodes; ``at`` holds the records first and then the nodes,
    ``a`` (n,) is of the records.
    """

    reference: Components
    X: Floats
    Q: Floats
    at: Places
    a: Floats
    nodes: Nodes
    B: float
    least_sd: float
    known: float
    first: bool
    watched_rows: Floats  # (., P)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Of beta, t, theta and delta."""
        K, rank = len(self.reference.share), self.Q.shape[1]
        return K * rank, K, K - 1, 0 if self.reference.zero is None else rank

    @cached_property
    def prior_sd(self) -> Floats:
        """Prior standard deviations of a point: (p,)."""
        of_rows = PRIOR_SD / np.sqrt(self.Q.shape[1])
        return np.repeat([of_rows, SD_SD[self.first], SHARE_SD[self.first], of_rows], self.sizes)

    @property
    def scale(self) -> Floats:
        """Public standard deviations of the parameters, about: of components that are apart."""
        share = self.reference.share
        K, rank, (_, _, contrasts, zeros) = len(share), self.Q.shape[1], self.sizes
        information = [np.repeat(share, rank), 2 * share, np.full(contrasts, 0.5 / K), np.full(zeros, ZEROS)]
        return np.asarray((self.known * np.concatenate(information) + self.prior_sd**-2) ** -0.5)

    def starts(self, chains: int, rng: np.random.Generator) -> list[Floats]:
        """Where chains start: at the reference, and spread around it; nothing of the file decides."""
        spread = 0.15 * self.prior_sd
        return [spread * rng.uniform(-1, 1, spread.size) * (chain > 0) for chain in range(chains)]

    def some(self, share: float, rng: np.random.Generator) -> ClippedMixture:
        """A share of the records, at random, each of which counts for those that are left out; C_B as of all."""
        n = len(self.a)
        kept = np.concatenate([np.flatnonzero(rng.random(n) < share), np.arange(n, len(self.at.row))])
        at = Places(self.at.row[kept], self.at.y[kept], self.at.zero[kept])
        records = kept[kept < n]
        return replace(self, at=at, a=self.a[records] / share, nodes=self.nodes._replace(first=len(records)))

    def components(self, point: Floats) -> Components:
        """A point's parameters."""
        beta, t, theta, delta = np.split(point, np.cumsum(self.sizes)[:-1])
        of, K = self.reference, len(self.reference.share)
        least = least_share(K)
        share = least + (1 - K * least) * softmax(np.log(of.share - least) + contrasts_of(K) @ theta)
        b = of.b + of.sd[:, None] * (beta.reshape(K, -1) @ self.Q.T)
        sd = self.least_sd + 2 * (of.sd - self.least_sd) * expit(2 * t)
        return Components(share, b, sd, None if of.zero is None else of.zero + self.Q @ delta)

    def function(self) -> Target:
        """The log target and its gradient, with memory of its own: one a chain."""
        of, at, n, B, least, a = self.reference, self.at, len(self.a), self.B, self.least_sd, self.a
        K, X = len(of.share), self.X
        W, C, least_of = np.ascontiguousarray(X @ self.Q), contrasts_of(K), least_share(K)
        nothing, precision = np.zeros(len(X)), self.prior_sd**-2

        def densities(now: Components) -> tuple[Floats, Floats, Floats]:
            mean, of_zeros = X @ now.b.T, (nothing, nothing)
            if now.zero is not None:
                odds = X @ now.zero
                of_zeros = log_expit(odds), log_expit(-odds)
            return mean, *_logs(at.row, at.y, at.zero, mean, np.log(now.share), now.sd, *of_zeros)

        logs_ref = densities(of)[1]

        def target(point: Floats) -> tuple[float, Floats]:
            now = self.components(point)
            mean, logs, parts = densities(now)
            ratio = logs - logs_ref
            if not np.isfinite(ratio).all():
                return -np.inf, point
            expected, of_nodes = expected_ratio(ratio[n:], *self.nodes[1:], B)
            own = ratio[:n]
            value = float(a @ np.clip(own, -B, B)) - expected - float(precision @ point**2) / 2
            slope = np.concatenate([a * (np.abs(own) < B), -of_nodes])
            of_mean, of_sd, of_share, of_others, of_zeros = _slopes(at.row, at.y, at.zero, mean, now.sd, parts, slope)
            above_sd, above_share = now.sd - least, now.share - least_of
            above = of_share * above_share / now.share
            gradient = [
                ((of_mean * of.sd).T @ W).ravel(),
                of_sd * 2 * above_sd / now.sd * (1 - above_sd / (2 * (of.sd - least))),
                C.T @ (above - above_share / (1 - K * least_of) * above.sum()),
            ]
            if now.zero is not None:
                rho = expit(X @ now.zero)
                gradient.append(W.T @ (of_zeros * (1 - rho) - of_others * rho))
            return value, np.concatenate(gradient) - precision * point

        return target

    def watched(self, points: Floats) -> Floats:
        """What does not depend on the order of components, of points (S, p): (S, .).

        Of some public rows the distribution at public places; mean coefficients, the variance within components, and
        the log odds of zeros.
        """
        of, rows = self.reference, self.watched_rows
        centre = (rows @ of.b.T) @ of.share
        wide = np.sqrt((of.sd**2 + (rows @ of.b.T - centre[:, None]) ** 2) @ of.share)
        at = centre[:, None] + wide[:, None] * PLACES

        def summary(point: Floats) -> Floats:
            now = self.components(point)
            below = ndtr((at[:, :, None] - (rows @ now.b.T)[:, None, :]) / now.sd) @ now.share
            odds = [] if now.zero is None else [now.zero]
            return np.concatenate([now.share @ now.b, [now.share @ now.sd**2], below.ravel(), *odds])

        return np.array([summary(point) for point in points])


def clipped_mixture(
    X: Floats, row: Codes, y: Floats, zero: NDArray[np.bool_], reference: Components, a: Floats, B: float,
    least_sd: float, *, first: bool, present: Floats | None = None,
) -> ClippedMixture:  # fmt: skip
    """The target of a file.

    Parameters
    ----------
    X : float array (G, P)
        Distinct predictor rows.
    row : int array (n,)
        Each record's.
    y : float array (n,)
        On the working scale.
    zero : bool array (n,)
        Whether the outcome is a zero that has a probability of its own; y is 0 there.
    reference : Components
    a : float array (n,)
        Tempering.
    B : float
    least_sd : float
        Below the reference's standard deviations.
    first : bool
        Whether the target is that of a first draw.
    present : float array (n,), optional
        1, or 0 where the outcome is blanked: a C_B that is public counts such a record as before.
    """
    counted = a if present is None else a * present
    tempering, size = (np.bincount(row, of, len(X)).astype(np.float64) for of in (a, np.ones(len(a))))
    Q, known, of_nodes = whitening(X, size), float(a.sum()), X
    if len(X) > MANY_ROWS:
        groups = alike(X @ Q, tempering, np.zeros(len(X), dtype=np.intp))
        of_nodes, tempering = means_of(groups, X, tempering)
    there, mass, start = reference_nodes(reference, of_nodes, known)
    at = Places(
        np.concatenate([row, there.row + len(X)]).astype(np.intp), np.concatenate([y, there.y]),
        np.concatenate([zero, there.zero]),
    )  # fmt: skip
    some = np.unique(np.linspace(0, len(of_nodes) - 1, WATCHED).astype(int))
    return ClippedMixture(
        reference, np.concatenate([X, of_nodes]), Q, at, counted, Nodes(len(row), False, start, mass, tempering), B,
        least_sd, known, first, of_nodes[some],
    )  # fmt: skip


def reference_nodes(reference: Components, X: Floats, known: float) -> tuple[Places, Floats, Codes]:
    """Values in rows X (G, P), their weights under the reference, and where rows start.

    Equally spaced values of each component: of smooth functions such sums are next to exact.  A zero comes last.
    """
    G, K, mean = len(X), len(reference.share), X @ reference.b.T
    many = max(LEAST_NODES, int(PER_ROOT * np.sqrt(known) / (G * K)))
    offset = (np.arange(G)[:, None] * GOLDEN) % 1
    z = REACH * (2 * (np.arange(many) + offset) / many - 1)
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum(axis=1, keepdims=True)
    y = (mean[:, :, None] + reference.sd[:, None] * z[:, None, :]).reshape(G, -1)
    mass = (reference.share[:, None] * weight[:, None, :]).reshape(G, -1)
    zero = np.zeros(y.shape, dtype=np.bool_)
    if reference.zero is not None:
        rho = expit(X @ reference.zero)[:, None]
        y, mass = np.hstack([y, np.zeros((G, 1))]), np.hstack([mass * (1 - rho), rho])
        zero = np.hstack([zero, np.ones((G, 1), dtype=np.bool_)])
    row, start = np.repeat(np.arange(G), y.shape[1]), np.arange(G + 1, dtype=np.intp) * y.shape[1]
    return Places(row, y.ravel(), zero.ravel()), mass.ravel(), start


def as_draws(components: Sequence[Components]) -> Draws:
    """Draws of parameters, one a mixture."""
    values = {name: np.array([getattr(each, name) for each in components]) for name in ("share", "b", "sd")}
    if components[0].zero is not None:
        values["zero"] = np.array([each.zero for each in components])
    none = np.zeros(len(components), dtype=np.intp)
    return Draws(values, none, Diagnostics(exact=True), "surveysynth", __version__)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _logs(
    row: Codes, y: Floats, zero: NDArray[np.bool_], mean: Floats, log_share: Floats, sd: Floats, log_zero: Floats,
    log_other: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Log density of every place, and the probabilities of the components given a value that is no zero (places, K)."""
    n, K = row.size, sd.size
    out, below, parts = np.empty(n), np.empty(n * K), np.empty(n * K)
    constant, inverse = log_share - np.log(sd) - HALF_LOG_2PI, 1 / sd
    for i in range(n):
        largest = -np.inf
        for k in range(K):
            z = min(max((y[i] - mean[row[i], k]) * inverse[k], -FARTHEST), FARTHEST)
            below[i * K + k] = constant[k] - 0.5 * z * z
            largest = max(largest, below[i * K + k])
        for k in range(K):
            below[i * K + k] -= largest
        out[i] = largest
    exp_of(below, parts)
    total, logs = np.empty(n), np.empty(n)
    for i in range(n):
        total[i] = 0.0
        for k in range(K):
            total[i] += parts[i * K + k]
        for k in range(K):
            parts[i * K + k] /= total[i]
    log_of(total, logs)
    for i in range(n):
        out[i] = log_zero[row[i]] if zero[i] else out[i] + logs[i] + log_other[row[i]]
    return out, parts.reshape((n, K))


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _slopes(
    row: Codes, y: Floats, zero: NDArray[np.bool_], mean: Floats, sd: Floats, parts: Floats, slope: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Derivatives of the sum of log densities, each times ``slope``.

    In the means (rows, K), the log standard deviations (K,) and the log shares (K,) before they add up to one; and the
    sums of ``slope`` over values that are no zeros (rows,), and over zeros (rows,).
    """
    K = sd.size
    of_mean, of_sd, of_share = np.zeros(mean.shape), np.zeros(K), np.zeros(K)
    others, zeros = np.zeros(len(mean)), np.zeros(len(mean))
    for i in range(row.size):
        g, s = row[i], slope[i]
        if s == 0:
            continue
        if zero[i]:
            zeros[g] += s
            continue
        others[g] += s
        for k in range(K):
            z, part = (y[i] - mean[g, k]) / sd[k], s * parts[i, k]
            of_mean[g, k] += part * z / sd[k]
            of_sd[k] += part * (z * z - 1)
            of_share[k] += part
    return of_mean, of_sd, of_share, others, zeros
