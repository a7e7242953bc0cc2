"""Hamiltonian Monte Carlo for a density with an explicit gradient.

Trajectories have a random length (Bou-Rabee & Sanz-Serna 2017) and leapfrog steps.  During the warm-up, the step size
is adapted by dual averaging (Hoffman & Gelman 2014, section 3.2), and the metric is adapted twice.  Draws of the
warm-up are discarded.  If the density is computed from very many records, the warm-up can use a pilot density, which is
computed from a weighted sample of the records.  p is the number of parameters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..progress import steps

Floats = NDArray[np.float64]
Target = Callable[[Floats], tuple[float, Floats]]  # log density (-inf outside its support) and gradient at a point (p,)

ACCEPT = 0.7  # target of the mean probability of acceptance
LONGEST = np.pi  # longest trajectory, in standard deviations
LOG_STEPS = np.log(0.1), np.log(2.0)  # limits of the log step, as no step is short enough at a kink or edge
# Error of the energy beyond which the integrator diverges (Hoffman & Gelman 2014, section 3.1.1).
DIVERGED = 1000.0
SETTLE = 60  # draws that are discarded after a warm-up with a pilot, while the step is adapted to the target


def chains(
    target: Target, starts: Sequence[Floats], scale: Floats, rng: np.random.Generator, *, warmup: int, draws: int,
    pilot: Target | None = None,
) -> tuple[Floats, int]:  # fmt: skip
    """Run several chains in parallel, and return their draws and the number of divergences.

    Parameters
    ----------
    target : function
        Log density, up to a constant, and its gradient.  Several threads call it at the same time.
    starts : sequence of float arrays (p,)
        Start of each chain, where the density is positive.
    scale : float array (p,)
        Approximate standard deviation of each parameter.
    rng : numpy.random.Generator
        Every chain gets its own stream of random numbers from this generator.
    warmup, draws : int
        Numbers of iterations of each chain during and after the warm-up.
    pilot : function, optional
        Like ``target``, for the warm-up only: a density with approximately the same standard deviations that takes less
        time to compute.  With a pilot, ``SETTLE`` further draws are discarded after the warm-up.

    Returns
    -------
    values : float array (chains, draws, p)
        The draws after the warm-up.
    divergences : int
        Number of trajectories after the warm-up that diverged.  A trajectory that left the support is not counted.
    """
    discarded = warmup + (0 if pilot is None else SETTLE)
    count = steps(len(starts) * (discarded + draws))
    made = [
        _Chain(target, pilot or target, start, scale, stream, warmup)
        for start, stream in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as threads:
        runs = [threads.submit(chain.draw, discarded, draws, count) for chain in made]
        done = [run.result() for run in runs]
    return np.array([values for values, _ in done]), sum(diverged for _, diverged in done)


@dataclass
class _DualAveraging:
    """The log of the step size, adapted by dual averaging (Hoffman & Gelman 2014, algorithm 5)."""

    log_step: float
    mean_log_step: float = 0.0
    error: float = 0.0
    count: int = 0

    def __post_init__(self) -> None:
        self.aim = np.log(10) + self.log_step

    def update(self, accepted: float) -> None:
        self.count += 1
        self.error += (ACCEPT - accepted - self.error) / (self.count + 10)
        self.log_step = np.clip(self.aim - np.sqrt(self.count) / 0.05 * self.error, *LOG_STEPS)
        self.mean_log_step += self.count**-0.75 * (self.log_step - self.mean_log_step)


class _Chain:
    """The state of a chain: position, step size and metric."""

    def __init__(
        self, target: Target, pilot: Target, start: Floats, scale: Floats, rng: np.random.Generator, warmup: int
    ) -> None:  # fmt: skip
        self.target, self.here, self.warmup = target, pilot, warmup
        self.scale, self.rng = scale, rng
        self.position, (self.value, self.gradient) = start, self.here(start)
        self.root = np.diag(scale)
        self.adaptation = _DualAveraging(np.log(0.5))

    def draw(self, discarded: int, draws: int, count: Callable[[], None]) -> tuple[Floats, int]:
        """Discard ``discarded`` draws as warm-up, then return ``draws`` draws and the number of divergences.

        Step size and metric are adapted during the warm-up.  ``count`` is called at each draw, to report progress.
        """
        visited, measured = list[Floats](), (self.warmup // 5, 2 * self.warmup // 5, 7 * self.warmup // 10)
        for i in range(discarded):
            count()
            if i == self.warmup:
                self.here, (self.value, self.gradient) = self.target, self.target(self.position)
                self.adaptation = _DualAveraging(self.adaptation.mean_log_step)
            change, _ = self._move(self.adaptation.log_step)
            self.adaptation.update(float(np.exp(min(change, 0.0))))
            visited.append(self.position)
            if i + 1 in measured:
                if i + 1 > measured[0]:
                    self.root = _root(np.array(visited), self.scale)
                    self.adaptation = _DualAveraging(self.adaptation.mean_log_step)
                visited.clear()
        kept, divergences = np.empty((draws, self.position.size)), 0
        for i in range(draws):
            count()
            change, inside = self._move(self.adaptation.mean_log_step)
            kept[i] = self.position
            divergences += int(inside and change < -DIVERGED)
        return kept, divergences

    def _move(self, log_step: float) -> tuple[float, bool]:
        """Run one trajectory.  Return the log of its acceptance ratio, and whether it stayed in the support."""
        step = np.exp(log_step)
        leaps = 1 + int(self.rng.uniform(0, LONGEST) / step)
        momentum = self.rng.standard_normal(self.position.size)
        energy = self.value - momentum @ momentum / 2
        there, proposed, gradient, ended = _leapfrog(
            self.here, self.position, momentum, self.gradient, self.root, step, leaps
        )
        inside = bool(np.isfinite(proposed))
        change = float(proposed - ended @ ended / 2 - energy) if inside else -np.inf
        if self.rng.uniform() < np.exp(min(change, 0.0)):
            self.position, self.value, self.gradient = there, proposed, gradient
        return change, inside


def _leapfrog(
    target: Target, position: Floats, momentum: Floats, gradient: Floats, root: Floats, step: float, leaps: int
) -> tuple[Floats, float, Floats, Floats]:
    """Run a trajectory.  Return the last position, log density (-inf outside the support), gradient and momentum."""
    value = -np.inf
    for _ in range(leaps):
        momentum = momentum + step / 2 * (gradient @ root)
        position = position + step * (root @ momentum)
        value, gradient = target(position)
        if not np.isfinite(value):
            return position, -np.inf, gradient, momentum
        momentum = momentum + step / 2 * (gradient @ root)
    return position, value, gradient, momentum


def _root(visited: Floats, scale: Floats) -> Floats:
    """Estimate the covariance matrix from the points that a chain visited, and return a square root of this matrix.

    The root A (p, p) of the points (draws, p) gives the covariance matrix A A'.  This matrix is shrunk: its variances
    towards ``scale`` squared, and its correlations towards 0.
    """
    n, factor, centred = len(visited), np.diag(scale), visited - visited.mean(axis=0)
    root = factor * np.sqrt((n * np.linalg.solve(factor, visited.T).var(axis=1) + 10) / (n + 10))
    whitened = np.linalg.solve(root, centred.T)
    towards = 10 + len(root) / 2
    return np.asarray(root @ np.linalg.cholesky((whitened @ whitened.T + towards * np.eye(len(root))) / (n + towards)))
