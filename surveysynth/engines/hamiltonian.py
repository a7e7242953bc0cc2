"""Hamiltonian Monte Carlo for a density whose gradient was written by hand.

Trajectories of random length (Bou-Rabee & Sanz-Serna 2017), leapfrog steps; the step is adapted by dual averaging
(Hoffman & Gelman 2014, section 3.2) and the metric twice, all in the warm-up, which is discarded.  Of a density of very
many records the warm-up can be on a pilot: some of the records, each of which counts for several, are about as wide.
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
Target = Callable[[Floats], tuple[float, Floats]]  # of a point (p,): log density, -inf where there is none, and slope

ACCEPT = 0.7  # the mean probability of acceptance that the step is adapted to
LONGEST = np.pi  # of a trajectory, in standard deviations
LOG_STEPS = np.log(0.1), np.log(2.0)  # no step is short enough for what leaves the set, or meets a kink
# An error of the energy beyond this: the integrator has left the density (Hoffman & Gelman 2014, section 3.1.1).
DIVERGED = 1000.0
SETTLE = 60  # draws after a pilot's warm-up that are discarded, too: the mode moves, and the step is adapted again


def chains(
    target: Target, starts: Sequence[Floats], scale: Floats, rng: np.random.Generator, *, warmup: int, draws: int,
    pilot: Target | None = None,
) -> tuple[Floats, int]:  # fmt: skip
    """Draws of chains that run side by side.

    Parameters
    ----------
    target : function
        Log density, up to a constant, and its gradient.  Threads call it at the same time.
    starts : sequence of float arrays (p,)
        One a chain, where the density is positive.
    scale : float array (p,)
        About how far the density reaches in each direction, before the chains have seen it.
    rng : numpy.random.Generator
        Every chain gets a stream of its own.
    warmup, draws : int
        Of each chain.
    pilot : function, optional
        As ``target``, of a density that is cheaper and about as wide: the warm-up is on it, and ``SETTLE`` draws are
        discarded besides.

    Returns
    -------
    values : float array (chains, draws, p)
    divergences : int
        Trajectories after the warm-up whose energy was not kept.
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
        self.log_step = np.clip(self.aim - np.sqrt(self.count) / 0.05 * self.error, *LOG_STEPS)
        self.mean_log_step += self.count**-0.75 * (self.log_step - self.mean_log_step)


class _Chain:
    """Where a chain is, and its step and metric."""

    def __init__(
        self, target: Target, pilot: Target, start: Floats, scale: Floats, rng: np.random.Generator, warmup: int
    ) -> None:  # fmt: skip
        self.target, self.here, self.warmup = target, pilot, warmup
        self.scale, self.rng = scale, rng
        self.position, (self.value, self.gradient) = start, self.here(start)
        self.root = np.diag(scale)
        self.adaptation = _DualAveraging(np.log(0.5))

    def draw(self, discarded: int, draws: int, count: Callable[[], None]) -> tuple[Floats, int]:
        """Draws after so many that are discarded, in which step and metric are adapted; and divergences."""
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
        """One trajectory, accepted or not: by how much the energy changed, and whether it stayed within the set."""
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
    """Where a trajectory ends: position, log density, gradient, momentum; log density -inf where it left the set."""
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
    """Factor of about the covariance of the points that were visited, drawn towards independence and ``scale``."""
    n, factor, centred = len(visited), np.diag(scale), visited - visited.mean(axis=0)
    root = factor * np.sqrt((n * np.linalg.solve(factor, visited.T).var(axis=1) + 10) / (n + 10))
    whitened = np.linalg.solve(root, centred.T)
    towards = 10 + len(root) / 2
    return np.asarray(root @ np.linalg.cholesky((whitened @ whitened.T + towards * np.eye(len(root))) / (n + towards)))
