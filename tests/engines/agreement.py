"""Every Stan program on both engines: the same log densities, and the same posterior within Monte Carlo error."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import stanli

from surveysynth.engines import get_engine
from surveysynth.engines.base import program_path
from surveysynth.engines.cmdstan import find_cmdstan
from surveysynth.engines.compiled import compiled
from surveysynth.engines.embedded import log_target

POINTS = 5  # draws at which log densities are compared
ENGINES = ("embedded", "cmdstan")


@dataclass(frozen=True)
class Agreement:
    """What was found of one program.

    Attributes
    ----------
    compiling : float
        Seconds, when it is compiled for the first time.
    z : float
        The largest difference of a mean or a standard deviation, in Monte Carlo standard errors.
    log_density : float
        The largest difference of a log density, relative to its size, less that at the first point.
    cpu : dict of float
        Seconds of both engines.
    """

    program: str
    compiling: float
    z: float
    log_density: float
    cpu: dict[str, float]


class Noting:
    """An engine that notes what it is given."""

    def __init__(self, name):
        self.engine, self.given = get_engine(name), []

    def sample(self, program, data, **settings):
        self.given.append((program, data))
        return self.engine.sample(program, data, **settings)


def compare(program: str, data: dict, *, chains: int = 4, warmup: int = 1000, draws: int = 1000) -> Agreement:
    """Sample a program with both engines, which have seeds of their own."""
    path, (home, version) = program_path(program), find_cmdstan()
    begun = time.perf_counter()
    model = compiled(path, home, version)
    compiling = time.perf_counter() - begun
    samples, cpu = {}, {}
    for seed, name in enumerate(ENGINES, 1):
        began = time.process_time() + _children()
        settings = {"chains": chains, "warmup": warmup, "draws": draws, "seed": seed}
        samples[name] = get_engine(name).sample(program, data, **settings).values
        cpu[name] = time.process_time() + _children() - began
    mine = [at(samples["embedded"], s) for s in range(0, draws, draws // POINTS)]
    logs = log_target(path, data, {name: np.array([point[name] for point in mine]) for name in mine[0]})
    plain = {name: np.asarray(value).tolist() for name, value in data.items()}
    theirs = np.array([cmdstan_log_density(model, point, plain) for point in mine])
    off = np.abs((logs - logs[0]) - (theirs - theirs[0])) / np.maximum(1, np.abs(theirs))
    return Agreement(Path(program).stem, compiling, largest_z(*samples.values()), float(off.max()), cpu)


def _children() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def at(values: dict, s: int) -> dict:
    """Draw s of the first chain."""
    return {name: v[0, s] for name, v in values.items()}


def cmdstan_log_density(model, point: dict, data: dict) -> float:
    params = {name: np.asarray(value).tolist() for name, value in point.items()}
    return float(model.log_prob(params, data, sig_figs=18)["lp__"].iloc[0])


def largest_z(one: dict, other: dict) -> float:
    """Of all means and standard deviations, whose errors are those of Gelman et al. (2013, section 11.5)."""
    found = [0.0]
    for name in one:
        stats = [moments(values[name].reshape(*values[name].shape[:2], -1)) for values in (one, other)]
        (mean, mean_error, sd, sd_error), (mean2, mean_error2, sd2, sd_error2) = stats
        moves = (sd > 0) | (sd2 > 0)  # the fixed corner of a Cholesky factor does not
        np.testing.assert_array_equal(mean[~moves], mean2[~moves])
        found += list((np.abs(mean - mean2) / np.hypot(mean_error, mean_error2))[moves])
        found += list((np.abs(sd - sd2) / np.hypot(sd_error, sd_error2))[moves])
    return float(max(found))


def moments(x):
    """Means and standard deviations of chains (chains, draws, entries), with their Monte Carlo errors."""
    mean, sd = x.mean((0, 1)), x.std((0, 1))
    squares = (x - mean) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_error = sd / np.sqrt(effective_size(x))
        sd_error = squares.std((0, 1)) / np.sqrt(effective_size(squares)) / (2 * sd)
    return mean, mean_error, sd, sd_error


def effective_size(x):
    """Bulk effective sample size of each entry, by Stan's own code."""
    out = np.full(x.shape[2], np.nan)
    moves = x.min((0, 1)) != x.max((0, 1))
    if moves.any():
        names = [f"v{i}" for i in range(int(moves.sum()))]
        stats = np.zeros((*x.shape[:2], len(stanli.SAMPLER_COLUMNS)))
        out[moves] = stanli.Fit(names, x[:, :, moves], stats, max_depth=0, seed=0).summary().ess_bulk
    return out
