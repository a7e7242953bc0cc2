"""Tests of whether ``fit``, ``log_density`` and ``simulate`` of a model describe the same model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import kstest

from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..engines import get_engine
from ..engines.embedded import log_target
from ..errors import InputError, ModelError
from ..validation import check_seed, one_of
from .base import Synthesizer
from .draws import Draws, Sampler
from .records import Records
from .stan_model import StanModel

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# Number of points of a grid of outcomes, half its width in standard deviations, and number of points of a weight's grid
POINTS, WIDE, FINE = 4001, 8.0, 401
SIMULATED, RECORDS = 2000, 3  # number of synthetic values per record, and number of records that are examined
UNLIKELY = 1e-4  # p-value below which a comparison fails
CONSTANT = 1e-6  # largest allowed spread of a difference that should be constant, relative to the log densities
SHIFT = 3.6  # privacy weights in a test fall from 1 to 1 - SHIFT / sqrt(n)
FAR = 6.0  # largest allowed difference of means, in standard errors
MASS = 0.01  # largest allowed error of the integral of a density
MOST = 1_000_000  # largest number of counts over which probabilities are summed


@dataclass(frozen=True)
class ModelCheck:
    """Result of :func:`check_model`: the name of the model, and a sentence for every comparison that passed."""

    model: str
    passed: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.model}: the pieces fit together, as far as was looked", *map("  - {}".format, self.passed)]
        )

    __repr__ = __str__


def check_model(
    model: Synthesizer, design: SurveyDesign, *, clusters: Clusters = "ignore", engine: str = "auto", seed: int = 1
) -> ModelCheck:
    """Test that ``fit``, ``log_density`` and ``simulate`` of a model describe the same model.

    Every Lipschitz bound is computed from ``log_density``.  If ``log_density`` omits a factor of the likelihood, such
    as the density of the weight, the true epsilon of the release is larger than the printed epsilon.

    - **Target**: if privacy weights change from a2 to a1, the log density that is sampled changes by
      sum (a1_i - a2_i) log p_i.  For a :class:`surveysynth.StanModel` this is tested to rounding error.  For other
      models, draws of one fit are reweighted and compared with draws of a fit under other privacy weights.
    - **Mass**: the density integrates to one over y, or over log y if ``measure`` begins with "log", and over log w.
      The probabilities of counts sum to one.
    - **Simulation**: synthetic values of a record follow the density that ``log_density`` gives for the record.
    - **Records**: the density of a record does not depend on the other records, nor on the order of the records.

    Mass and simulation are tested only for models of one numeric outcome whose ``records.y`` is the outcome itself.

    Parameters
    ----------
    model : Synthesizer
    design : SurveyDesign
        A file that suits the model, with a few hundred records.  No privacy budget is spent, because nothing is
        released.
    clusters : {"ignore", "model"}
        See :func:`surveysynth.fit`.
    engine : {"auto", "embedded", "cmdstan"}
    seed : int
        Seed of the draws.

    Returns
    -------
    ModelCheck
        The comparisons that passed, as text.

    Raises
    ------
    ModelError
        A comparison fails.  The message says which comparison, and by how much.
    InputError
        The first argument is not a model, the second is not a design, or the file does not suit the model.

    Examples
    --------
    >>> file = ss.datasets.sdr_sample(200, seed=1)
    >>> check = ss.check_model(ss.FBS("salary ~ gender", prior="flat"), file)
    >>> str(check).splitlines()[0]
    'FBS: the pieces fit together, as far as was looked'
    """
    if not isinstance(model, Synthesizer):
        raise InputError("check_model needs a synthesizer, such as surveysynth.StanModel(...)")
    if not isinstance(design, SurveyDesign):
        raise InputError("the second argument is a SurveyDesign: SurveyDesign(frame, weights=...)")
    one_of(clusters, get_args(Clusters), "clusters")
    check_seed(seed)
    records = model.prepare(design, clusters)
    rng = np.random.default_rng(seed)
    backend = get_engine(engine)
    sampler = Sampler(lambda: backend, rng, 4, 500, 500)
    draws = model.fit(records, np.ones(records.n), sampler)
    subset = draws.subset(np.linspace(0, draws.size - 1, 20).astype(int).tolist())
    passed = [_rows(model, records, subset, rng)]
    if isinstance(model, StanModel):
        passed.append(_target(model, records, subset, rng))
    else:
        passed.append(_carried(model, records, draws, sampler))
    own = len(model.outcomes) == 1 and not model.categorical and records.y.size == records.n
    if own and np.array_equal(records.y.ravel(), design.numeric(model.outcomes[0])):
        passed += _values(model, records, subset.subset([int(rng.integers(subset.size))]), rng)
    return ModelCheck(model.name, tuple(passed))


def _rows(model: Synthesizer, records: Records, draws: Draws, rng: np.random.Generator) -> str:
    """Check that the density of a record depends neither on the other records nor on the order of the records."""
    everybody = model.log_density(records, draws)
    if not np.isfinite(everybody).any():
        raise ModelError(f"log_density of {model.name} is nowhere finite")
    order = rng.permutation(records.n)
    for part in np.array_split(order, 3):
        separately = model.log_density(records.subset(part), draws)
        if not np.allclose(separately, everybody[:, part], rtol=1e-8, atol=1e-10, equal_nan=True):
            raise ModelError(
                f"log_density of {model.name} depends on which other records it is called with, or on their order: the "
                "density of record i may depend on records.x[i], records.y[i], records.log_w[i] and the draw alone"
            )
    return "the density of a record does not depend on the other records"


def _target(model: StanModel, records: Records, draws: Draws, rng: np.random.Generator) -> str:
    """Check that the Stan program's log density changes with the privacy weights as ``log_density`` implies."""
    one, two = rng.uniform(0.2, 1.0, (2, records.n))
    logs = model.log_density(records, draws)
    targets = [log_target(model.program, dict(model.data(records, alpha)), draws.values) for alpha in (one, two)]
    difference = targets[0] - targets[1] - logs @ (one - two)
    spread, scale = float(np.ptp(difference)), float(np.abs(logs).sum(axis=1).max())
    if not spread <= CONSTANT * scale:
        raise ModelError(
            f"{model.program.name} and log_density do not belong together: under other privacy weights the program's "
            "log density does not change by sum (a1_i - a2_i) log p_i plus a constant: the difference varies by "
            f"{spread:.3g} between draws. Does log_density leave out a factor of the likelihood, such as the density "
            "of the weight, or the program multiply something else than each record's log density by alpha?"
        )
    return "the program's log density changes with alpha as log_density implies, to rounding"


def _carried(model: Synthesizer, records: Records, draws: Draws, sampler: Sampler) -> str:
    """Check that reweighted draws of one fit have the same means as draws of a fit under other privacy weights.

    The other privacy weights fall with the outcome.  If the survey weight is modelled, a second check has privacy
    weights that fall with the survey weight.  The privacy weights fall so far that a mean moves by about one standard
    error.  If ``log_density`` omits a factor of the likelihood, the reweighted mean moves by another amount.
    """
    by = [records.y.reshape(records.n, -1)[:, 0], *([] if records.log_w is None else [records.log_w])]
    worst = 0.0
    for values in by:
        rank = np.argsort(np.argsort(values)) / records.n
        alpha = 1 - min(1.0, SHIFT / np.sqrt(records.n)) * rank
        worst = max(worst, _largest_difference(model, records, draws, alpha, sampler))
    if worst > FAR:
        raise ModelError(
            f"fit and log_density of {model.name} do not belong together: draws under other privacy weights differ "
            f"from what log_density implies, by {worst:.0f} standard errors. Does log_density leave out a factor of "
            "the likelihood, such as the density of the weight?"
        )
    return f"draws under other privacy weights are as log_density implies, within {worst:.1f} standard errors"


def _largest_difference(model: Synthesizer, records: Records, draws: Draws, alpha: Floats, sampler: Sampler) -> float:
    """Return the largest difference between parameter means of reweighted and of new draws, in standard errors.

    The two samples are ``draws``, made under privacy weights of 1 and reweighted to ``alpha``, and draws of a new fit
    under ``alpha``.
    """
    other = model.fit(records, alpha, sampler)
    log_ratio = model.log_ratio(records, np.ones(records.n), alpha, draws)
    weight = np.exp(log_ratio - logsumexp(log_ratio))
    worst = 0.0
    for name, values in draws.values.items():
        here, there = values.reshape(draws.size, -1), other.values[name].reshape(other.size, -1)
        moving = np.ptp(there, axis=0) > 0
        here, there, mean = here[:, moving], there[:, moving], weight @ here[:, moving]
        own = ((weight[:, None] * (here - mean)) ** 2).sum(axis=0)
        error = np.sqrt(own + there.var(axis=0) / min(other.size, max(other.diagnostics.ess_bulk, 1.0)))
        worst = max(worst, float((np.abs(mean - there.mean(axis=0)) / error).max(initial=0.0)))
    return worst


def _values(model: Synthesizer, records: Records, draw: Draws, rng: np.random.Generator) -> list[str]:
    """Check that the density of several records integrates to one, and that simulated values follow the density."""
    logarithmic = model.measure.lower().startswith("log")
    masses, chances = [], []
    for i in rng.choice(records.n, min(RECORDS, records.n), replace=False).tolist():
        one = np.full(SIMULATED, i)
        y = model.simulate(records.public_subset(one), draw, rng).outcomes[:, 0]
        counted = bool((y == np.round(y)).all() and (records.y == np.round(records.y)).all())
        grid = _counts(y) if counted else _grid(np.log(y) if logarithmic else y)
        at = np.exp(grid) if logarithmic and not counted else grid
        density = _density(model, records, i, at, draw)
        step = np.ones(len(grid)) if counted else np.gradient(grid)
        mass = float(density @ step)
        masses.append(mass)
        below = np.cumsum(density * step)
        t = y if counted else (np.log(y) if logarithmic else y)
        if counted:  # a random value within the step of the distribution function is uniform
            k = np.searchsorted(grid, t)
            share = below[k] - density[k] * rng.random(len(t))
        else:
            share = np.interp(t, grid, below - density * step / 2)
        chances.append(float(kstest(np.clip(share / mass, 0, 1), "uniform").pvalue) if mass > 0 else 0.0)
    if not max(abs(mass - 1) for mass in masses) <= MASS:
        over = "log y" if logarithmic else "y"
        raise ModelError(
            f"the density of {model.name} is not normalized: it integrates to {', '.join(f'{m:.3g}' for m in masses)} "
            f"over {over} for some records. It has to be the density of {over}, as measure={model.measure!r} says: "
            "a factor is missing, or it is the density of another scale (a measure that begins with 'log' is one of "
            "log y)"
        )
    if min(chances) < UNLIKELY:
        raise ModelError(
            f"simulate and log_density of {model.name} do not belong together: synthetic values of a record do not "
            f"follow its density (Kolmogorov-Smirnov, p = {min(chances):.1g})"
        )
    return ["the density has mass one", "simulated values follow the density"]


def _grid(t: Floats) -> Floats:
    """Return grid points that cover nearly the whole distribution of the simulated values ``t``."""
    middle, spread = float(np.median(t)), float(np.std(t))
    near = np.linspace(middle - WIDE * spread, middle + WIDE * spread, POINTS)
    reach = np.linspace(min(t.min(), near[0]) - 3 * spread, max(t.max(), near[-1]) + 3 * spread, POINTS // 4)
    return np.unique(np.concatenate([near, reach]))


def _counts(y: Floats) -> Floats:
    return np.arange(min(10 * int(y.max()) + 100, MOST), dtype=np.float64)


def _density(model: Synthesizer, records: Records, i: int, y: Floats, draw: Draws) -> Floats:
    """Compute the density of record ``i`` at each possible outcome in ``y``, in one draw.

    A modelled survey weight is integrated out.
    """
    copies = records.subset(np.full(len(y), i))
    column = y if records.y.ndim == 1 else y[:, None]
    if records.log_w is None:
        return _exp(model, replace(copies, y=column), draw)
    w = records.log_w
    points = np.linspace(w.mean() - 2 * WIDE * w.std(), w.mean() + 2 * WIDE * w.std(), FINE)
    total = np.zeros(len(y))
    for point, step in zip(points, np.gradient(points), strict=True):
        given = replace(copies, y=column, log_w=np.full(len(y), point))
        total += step * _exp(model, given, draw)
    return total


def _exp(model: Synthesizer, records: Records, draw: Draws) -> Floats:
    """Compute the density (n,) of each record in one draw.

    The density is set to 0 where it is undefined, such as for the log of a negative y.
    """
    with np.errstate(all="ignore"):
        density = np.exp(model.log_density(records, draw)[0])
    return np.where(np.isfinite(density), density, 0.0)
