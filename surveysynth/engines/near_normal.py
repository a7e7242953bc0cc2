"""Chains for a density of very many records, which is nearly normal: proposals from its normal approximation.

A pilot density of some of the records, each counting for several, is sampled from the same starts; Newton steps lead
from there to the mode of the whole, and every proposal is a draw from the normal density there, accepted or not by the
exact one (Tierney 1994, section 2.3.2).  A draw costs one evaluation, and no gradient, where a Hamiltonian trajectory
costs ten.  Whatever the normal density is, the chain's is the exact one; what decides how often proposals are accepted,
mode and curvature, may come from some of the records, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError
from ..progress import steps
from .hamiltonian import Target, sample_chains

Floats = NDArray[np.float64]
Value = Callable[[Floats], float]

PILOT = 100  # draws of each pilot chain: they say where the mode is, about
WIDER = 1.05  # than the normal approximation: no corner of the density is out of reach
WIDER_TOGETHER = 1.5  # the same in all directions together, where there are so many records that there are no corners
STEPS = 30
NEAR = 0.05  # of a posterior standard deviation, that the mode is met by


def sample_near_normal(
    target: Callable[[], Target], pilot: Callable[[], Target], starts: Sequence[Floats], scale: Floats,
    rng: np.random.Generator, *, warmup: int, draws: int, groups: tuple[int, int] = (0, 1),
    curved: Callable[[], Target] | None = None, value: Callable[[], Value] | None = None,
) -> Floats:  # fmt: skip
    """Draws of chains that run side by side, (chains, draws, p).

    Parameters
    ----------
    target, starts, scale, rng, groups
        As for :func:`.hamiltonian.sample_chains`.
    pilot : function
        As ``target``, of a density that is cheaper and nearly as wide.
    warmup : int
        Of the pilot chains.
    draws : int
    curved : function, optional
        As ``target``, of a density whose curvature is that of ``target``, and which is cheaper.
    value : function, optional
        Makes for each chain a function from a point to the log density of ``target`` alone.

    Raises
    ------
    EngineError
        No mode is found.
    """
    first, _ = sample_chains(pilot, starts, scale, rng, warmup=warmup, draws=PILOT, groups=groups)
    first = first.reshape(-1, scale.size)
    drawn, p = np.cov(first.T).reshape(scale.size, -1), scale.size
    rough = (len(first) * drawn + p * np.diag(np.diag(drawn))) / (len(first) + p)
    if curved is not None:  # what cheap steps lead to, dear ones have not far to go from
        near = _mode(curved(), first.mean(axis=0), rough)
        covariance = _covariance(curved, near, rough)
        mode = _mode(target(), near, covariance)
    else:
        mode = _mode(target(), first.mean(axis=0), rough)
        covariance = _covariance(target, mode, rough)
    wider = WIDER if curved is None else WIDER_TOGETHER ** (1 / p)
    root = np.asarray(wider * np.linalg.cholesky(covariance))
    count = steps(len(starts) * draws)
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as threads:
        values = [_value(target()) if value is None else value() for _ in starts]
        streams = rng.spawn(len(starts))
        runs = [
            threads.submit(_chain, own, mode, root, stream, draws, count)
            for own, stream in zip(values, streams, strict=True)
        ]
        return np.array([run.result() for run in runs])


def _value(target: Target) -> Value:
    return lambda point: target(point)[0]


def _mode(target: Target, point: Floats, covariance: Floats) -> Floats:
    """Where the gradient is nothing, by Newton steps with one covariance, halved where they lead down."""
    value, gradient = target(point)
    for _ in range(STEPS):
        step = covariance @ gradient
        if step @ gradient < NEAR**2:
            return point
        for shrink in 0.5 ** np.arange(8):
            there, slope = target(point + shrink * step)
            if there > value:
                point, value, gradient = point + shrink * step, there, slope
                break
        else:
            return point  # nothing higher nearby
    raise EngineError("the density has no mode near its pilot's: give fewer predictors")


def _covariance(target: Callable[[], Target], point: Floats, rough: Floats) -> Floats:
    """That of the normal approximation: from gradients a standard deviation to both sides, where kinks are small.

    The rough one, where a side lies beyond the set, or the density is not one hill.
    """

    def slopes(which: Floats) -> list[Floats]:
        at = target()
        sides = [(at(point - e), at(point + e)) for e in which]
        finite = [np.isfinite(down) and np.isfinite(up) for (down, _), (up, _) in sides]
        return [
            (before - after) / (2 * e.sum()) if inside else np.full(e.size, np.nan)
            for e, inside, ((_, before), (_, after)) in zip(which, finite, sides, strict=True)
        ]

    moves = np.diag(np.sqrt(np.diag(rough)))
    workers = min(os.cpu_count() or 1, len(point))
    with ThreadPoolExecutor(workers) as threads:
        rows = [row for rows in threads.map(slopes, np.array_split(moves, workers)) for row in rows]
    information = np.array(rows)
    if not np.isfinite(information).all():
        return rough
    values, vectors = np.linalg.eigh((information + information.T) / 2)
    return np.asarray((vectors / values) @ vectors.T) if values[0] > 0 else rough


def _chain(
    value: Value, mode: Floats, root: Floats, rng: np.random.Generator, draws: int, count: Callable[[], None]
) -> Floats:
    """An independence chain: log weights are those of the target over the proposal."""
    kept, current, weight = np.empty((draws, mode.size)), mode, float("-inf")
    for i in range(draws):
        count()
        z = rng.standard_normal(mode.size)
        proposed = mode + root @ z
        log_weight = value(proposed) + float(z @ z) / 2
        if np.isfinite(log_weight) and np.log(rng.random()) < log_weight - weight:
            current, weight = proposed, log_weight
        kept[i] = current
    return kept
