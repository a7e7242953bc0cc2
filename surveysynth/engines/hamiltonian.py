"""Hamiltonian Monte Carlo for a density whose gradient was written by hand.

Trajectories of random length (Bou-Rabee & Sanz-Serna 2017), leapfrog steps, a dense metric; the step is adapted by dual
averaging (Hoffman & Gelman 2014, section 3.2) and the metric twice, all in the warm-up, which is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Target = Callable[[Floats], tuple[float, Floats]]

ACCEPT = 0.8  # the mean probability of acceptance that the step is adapted to
LONGEST = 1.5 * np.pi  # of a trajectory, in standard deviations
MOST_STEPS = 200
DIVERGED = 50.0  # an error of the energy beyond this: the integrator has left the density


@dataclass
class _DualAveraging:
    """The step's logarithm, averaged over the warm-up (Hoffman & Gelman 2014, algorithm 5)."""

    log_step: float
    mean_log_step: float = 0.0
    error: float = 0.0
    count: int = 0

    def __post_init__(self) -> None:
        self.aim = np.log(10) + self.log_step

    def update(self, accepted: float) -> None:
        self.count += 1
        self.error += (ACCEPT - accepted - self.error) / (self.count + 10)
        self.log_step = self.aim - np.sqrt(self.count) / 0.05 * self.error
        self.mean_log_step += self.count**-0.75 * (self.log_step - self.mean_log_step)


def sample_chains(
    target: Callable[[], Target], starts: Sequence[Floats], scale: Floats, rng: np.random.Generator, *,
    warmup: int, draws: int,
) -> tuple[Floats, int]:  # fmt: skip
    """Draws of chains that run side by side.

    Parameters
    ----------
    target : function
        Makes for each chain a function from a point (p,) to the log density, up to a constant, and its gradient (p,).
        The log density is -inf where there is none.
    starts : sequence of float arrays (p,)
        One a chain, where the density is positive.
    scale : float array (p,)
        About how far the density reaches in each direction, before the chains have seen it.
    rng : numpy.random.Generator
        Every chain gets a stream of its own.
    warmup, draws : int

    Returns
    -------
    values : float array (chains, draws, p)
    divergences : int
        Trajectories after the warm-up whose energy was not kept.
    """
    streams = rng.spawn(len(starts))
    with ThreadPoolExecutor(len(starts)) as threads:
        runs = [
            threads.submit(_chain, target(), start, scale, stream, warmup, draws)
            for start, stream in zip(starts, streams, strict=True)
        ]
        done = [run.result() for run in runs]
    return np.array([values for values, _ in done]), sum(diverged for _, diverged in done)


def _chain(
    target: Target, start: Floats, scale: Floats, rng: np.random.Generator, warmup: int, draws: int
) -> tuple[Floats, int]:
    position, (value, gradient) = start, target(start)
    kept, visited, divergences = np.empty((draws, start.size)), list[Floats](), 0
    root = np.diag(scale)
    adaptation, measured = _DualAveraging(np.log(0.5)), (warmup // 4, warmup // 2, 7 * warmup // 8)
    for i in range(warmup + draws):
        step = np.exp(adaptation.log_step if i < warmup else adaptation.mean_log_step)
        steps = min(1 + int(rng.uniform(0, LONGEST) / step), MOST_STEPS)
        momentum = rng.standard_normal(start.size)
        energy = value - momentum @ momentum / 2
        there, proposed, proposed_gradient, ended = _leapfrog(target, position, momentum, gradient, root, step, steps)
        change = float(proposed - ended @ ended / 2 - energy) if np.isfinite(proposed) else -np.inf
        accepted = float(np.exp(min(change, 0.0)))
        if rng.uniform() < accepted:
            position, value, gradient = there, proposed, proposed_gradient
        if i >= warmup:
            kept[i - warmup] = position
            divergences += int(np.isfinite(proposed) and change < -DIVERGED)
            continue
        adaptation.update(accepted)
        visited.append(position)
        if i + 1 in measured:
            if i + 1 > measured[0]:
                root = _root(np.array(visited), scale)
                adaptation = _DualAveraging(adaptation.mean_log_step)
            visited.clear()
    return kept, divergences


def _leapfrog(
    target: Target, position: Floats, momentum: Floats, gradient: Floats, root: Floats, step: float, steps: int
) -> tuple[Floats, float, Floats, Floats]:
    """Where a trajectory ends: position, log density, gradient, momentum; log density -inf where it left the set."""
    value = -np.inf
    for _ in range(steps):
        momentum = momentum + step / 2 * (gradient @ root)
        position = position + step * (root @ momentum)
        value, gradient = target(position)
        if not np.isfinite(value):
            return position, -np.inf, gradient, momentum
        momentum = momentum + step / 2 * (gradient @ root)
    return position, value, gradient, momentum


def _root(visited: Floats, scale: Floats) -> Floats:
    """Cholesky factor of the covariance of the points that were visited, drawn towards independence and ``scale``."""
    n, p = visited.shape
    covariance = np.cov(visited.T).reshape(p, p) * n
    covariance += np.diag(np.diag(covariance)) * p / n + 10 * np.diag(scale**2)
    return np.linalg.cholesky(covariance / (n + p + 10))
