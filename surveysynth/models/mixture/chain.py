"""Markov chains of a mixture: random starts, the run of a chain, and a normal approximation for the odds of a zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..draws import Sampler
from .sampler import sample
from .state import Kept, KernelRecords, State

Floats = NDArray[np.float64]

SWEEPS, PLAIN_SWEEPS = 5, 30  # sweeps per draw: in general, and of the plain Gibbs sampler
ODDS_SD = 2.5  # prior standard deviation of the coefficients of the log odds of a zero
NEWTON = 100  # most steps of Newton's method


def run_chain(
    kernel: KernelRecords, state: State, odds: tuple[Floats, Floats], sampler: Sampler, rng: np.random.Generator
) -> dict[str, Floats]:
    """Run one chain from ``state``, and return its draws by the names of the parameters.

    ``odds`` is the result of :func:`zero_odds`.
    """
    K, R, S = len(state.b), kernel.x.shape[1], sampler.draws
    weighted = S if len(state.c) > 0 else 0
    kept = Kept(
        share=np.empty((S, K)), b=np.empty((S, K, R)), sd=np.empty((S, K)), gamma=np.empty(S),
        c=np.empty((weighted, K + 1, R + 1)), sd_w=np.empty((weighted, K + 1)),
        zero=np.empty((S if kernel.zeros else 0, R)),
    )  # fmt: skip
    sweeps = PLAIN_SWEEPS if kernel.exact else SWEEPS
    sample(kernel, state, *odds, sampler.warmup, S, sweeps, rng, kept)
    return {name: v for name, v in kept._asdict().items() if len(v)}


def start(kernel: KernelRecords, K: int, rng: np.random.Generator) -> State:
    """Return a random start of a chain: K parallel regressions of y, each through a record that is drawn at random.

    The slopes are from a ridge regression on all records.  Each record is in the component with the nearest regression.
    """
    x, n, R = kernel.x[kernel.row], kernel.y.size, kernel.x.shape[1]
    b = ridge(x, kernel.y, kernel.alpha)
    residual = kernel.y - x @ b
    levels = rng.choice(residual, K)
    z = np.abs(residual[:, None] - levels).argmin(axis=1)
    size = np.bincount(z, minlength=K)
    squares = np.bincount(z, (residual - levels[z]) ** 2, K)
    sd = np.maximum(np.sqrt((squares + residual.var()) / (size + 1)), max(kernel.least_sd, 0.3 * residual.std()))
    coefficients = np.tile(b, (K, 1))
    coefficients[:, 0] += levels
    weighted = kernel.w.size > 0
    c = np.zeros((K + 1 if weighted else 0, R + 1))
    if weighted:
        c[: len(c) if kernel.zeros else K, :R] = ridge(x, kernel.w, kernel.alpha)
    log_share = np.log((size + 1) / (n + K))
    G, empty = len(kernel.x), np.empty(0)
    return State(
        log_share=log_share, b=coefficients, sd=sd, c=c, sd_w=np.ones(len(c)),
        scale=np.ones(R), scale_w=np.ones(R + 1), centre=np.zeros(R), centre_w=np.zeros(R + 1), zero=np.zeros(R),
        log_zero=np.zeros(G), log_other=np.zeros(G), other=np.zeros(n), y_log=np.empty((K, n)),
        w_log=np.empty((K, n)) if weighted else np.empty((0, n)), density=np.empty((K, n)),
        w0_log=np.empty(kernel.w0.size) if weighted else empty, z=z.astype(np.intp), takes=np.ones(n),
        gamma=np.ones(1),
    )  # fmt: skip


def ridge(x: Floats, t: Floats, alpha: Floats) -> Floats:
    """Return the coefficients of a ridge regression of t on x, with weights alpha and an N(0, 1) prior."""
    weighted = x * alpha[:, None]
    return np.asarray(np.linalg.solve(weighted.T @ x + np.eye(x.shape[1]), weighted.T @ t))


def zero_odds(kernel: KernelRecords) -> tuple[Floats, Floats]:
    """Return a normal approximation for the coefficients of the log odds of a zero.

    The results are the posterior mode (R,) and the lower Cholesky factor (R, R) of the precision, for R predictor
    columns.  Without a model of zeros, they are 0 and the identity matrix.
    """
    x, G = kernel.x, len(kernel.x)
    d, root = np.zeros(x.shape[1]), np.eye(x.shape[1])
    if not kernel.zeros:
        return d, root
    zeros = np.bincount(kernel.row0, kernel.alpha0, G)
    both = zeros + np.bincount(kernel.row, kernel.alpha, G)
    for _ in range(NEWTON):
        p = expit(x @ d)
        precision = (x * (both * p * (1 - p))[:, None]).T @ x + np.eye(len(d)) / ODDS_SD**2
        root = np.asarray(np.linalg.cholesky(precision))
        move = np.linalg.solve(precision, x.T @ (zeros - both * p) - d / ODDS_SD**2)
        d = d + move
        if np.abs(move).max() < 1e-9:
            break
    return d, root
