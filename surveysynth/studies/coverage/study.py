"""The coverage of 95% intervals of each mechanism on repeated samples of a real population.

A cell of the study is a population with a sample size, a mechanism and an epsilon.  Each cell has its own folder, so
that a study can be stopped, continued and extended.  All cells of the same population and size use the same samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...choices import StudyMechanism
from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...estimation import estimate
from ...models.base import Synthesizer
from ...models.normal.fbs import FBS
from ...models.scales.transforms import AsinhTransform
from ...privacy.mechanisms import PseudoPosterior
from ...privacy.mechanisms.censored import Censored
from ...release.laplace import laplace_tables
from ...release.release import Release
from ...synthesis.fitting import fit, synthesize
from ...synthesis.measured import measure
from ...validation import positive, whole
from ..base import Replicate, Replicates, folder_and_seed, recorded, repeat, seed_of, stacked
from ..measures import CONFIDENTIAL
from .populations import RealPopulation, by_margin

LAST_YEAR, EARLIER_EPSILON = 1, 3.0  # key of the seed of earlier samples, and epsilon of their noisy tables
NUMBERS = ["estimate", "se", "ci_low", "ci_high"]
KEYS = ["population", "n", "method", "epsilon"]
LOG_SCALE = 20.0  # outcomes are modelled as asinh(y / (upper bound / LOG_SCALE^2))
WEIGHT_BOUNDS = 0.02, 20.0  # bounds of a weight as multiples of N / n, for Laplace tables

Tables = Callable[[str], pd.DataFrame]  # returns the table by one margin
Make = Callable[["Cell", SurveyDesign, int], Tables]


@dataclass(frozen=True)
class Cell:
    """One cell of a coverage study: a population, a sample size, a mechanism and an epsilon.

    Attributes
    ----------
    population : RealPopulation
    n : int
    mechanism : str
    epsilon : float
    seed : int
        Seed of the whole study.
    """

    population: RealPopulation
    n: int
    mechanism: StudyMechanism
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """Name of the cell's folder."""
        return f"{self.population.name}_{self.n}_{self.mechanism}_{self.epsilon:g}".replace(" ", "_")

    def describe(self) -> dict[str, Any]:
        """Return the settings that all samples of this cell share."""
        p = self.population
        return {
            "population": p.name, "N": len(p.frame), "formula": p.formula, "schema": p.schema.text,
            "statistics": list(p.statistics), "n": self.n, "mechanism": self.mechanism, "epsilon": self.epsilon,
            "seed": self.seed,
        }  # fmt: skip


def release_tables(release: Release, population: RealPopulation) -> Tables:
    """Return a function that makes a table of estimates from a release, by a given predictor (margin)."""
    return lambda margin: release.tables([margin], **population.asked).assign(m=release.m)


def _strict(cell: Cell, design: SurveyDesign, seed: int) -> Tables:
    """Make a release by the default mechanism, which adds noise to counts, and return a function for its tables.

    The function makes a table of estimates by a given margin.
    """
    p = cell.population
    release = synthesize(
        design, p.formula, epsilon=cell.epsilon, outcomes={p.outcome: p.schema}, weight=p.weight,
        population_total=len(p.frame), unit=p.unit, seed=seed,
    )  # fmt: skip
    return release_tables(release, p)


def _strict_with_earlier(cell: Cell, design: SurveyDesign, seed: int) -> Tables:
    """Make a release from noisy counts of this and of an earlier sample, and return a function for its tables.

    The earlier sample has the same size.  The function makes a table of estimates by a given margin.
    """
    p = cell.population
    made: dict[str, Any] = {
        "outcomes": {p.outcome: p.schema}, "weight": p.weight, "population_total": len(p.frame), "seed": seed,
    }  # fmt: skip
    earlier = measure(p.sample(cell.n, seed_of(seed, LAST_YEAR)), p.formula, epsilon=EARLIER_EPSILON, **made)
    release = synthesize(design, p.formula, epsilon=cell.epsilon, earlier=earlier, **made)
    return release_tables(release, p)


def _pseudo(cell: Cell, design: SurveyDesign, seed: int, *, debias: bool = False) -> Tables:
    """Make a release by the pseudo posterior (Hu, Savitsky & Williams 2022a), and return a function for its tables.

    The function makes a table of estimates by a given margin.
    """
    done = fit(
        design, _plain(cell, "flat"), epsilon=cell.epsilon, m=3, mechanism=PseudoPosterior(),
        population_total=len(cell.population.frame), seed=seed,
    )  # fmt: skip
    return release_tables(done.release(debias=debias, accept_diagnostics=["information"]), cell.population)


def _debiased(cell: Cell, design: SurveyDesign, seed: int) -> Tables:
    return _pseudo(cell, design, seed, debias=True)


def _censored(cell: Cell, design: SurveyDesign, seed: int) -> Tables:
    """Make a release by the censored mechanism (Hu, Williams & Savitsky 2025), and return a function for its tables.

    The function makes a table of estimates by a given margin.
    """
    done = fit(
        design, _plain(cell, "normal"), epsilon=cell.epsilon, m=3, mechanism=Censored(),
        population_total=len(cell.population.frame), seed=seed, warmup=500, draws=500,
    )  # fmt: skip
    return release_tables(done.release(), cell.population)


def _laplace(cell: Cell, design: SurveyDesign, seed: int) -> Tables:
    """Return a function that makes a table by a given margin, with epsilon-differentially private Laplace noise.

    Each margin gets the same share of epsilon.  The noise is never seeded.
    """
    p = cell.population
    each, mean_weight = cell.epsilon / len(p.margins), len(p.frame) / cell.n
    bounds = {p.outcome: p.bounds, "weight": (WEIGHT_BOUNDS[0] * mean_weight, WEIGHT_BOUNDS[1] * mean_weight)}
    return lambda margin: laplace_tables(design, p.outcome, [margin], each, kind="strict", bounds=bounds).table


def _plain(cell: Cell, prior: Any) -> Synthesizer:
    """Return the population's model or, if it has none, the model FBS for the asinh-transformed outcome.

    The logarithm is not used, because the outcome may be 0.
    """
    p = cell.population
    if p.model is not None:
        return p.model
    scale = p.bounds[1] / LOG_SCALE**2
    return FBS(p.formula, prior=prior, transform=AsinhTransform(scale=scale))


@dataclass(frozen=True)
class Maker:
    """A function that makes estimates by one mechanism, and a number for the mechanism's seeds (``stream``)."""

    make: Make
    stream: int


MAKERS: dict[StudyMechanism, Maker] = {
    "strict": Maker(_strict, 1), "strict-earlier": Maker(_strict_with_earlier, 7), "pseudo": Maker(_pseudo, 3),
    "pseudo-debias": Maker(_debiased, 4), "censored": Maker(_censored, 5), "laplace": Maker(_laplace, 6),
}  # fmt: skip


def one_sample(cell: Cell, number: int) -> Replicate:
    """Draw sample ``number``.  Return its confidential estimates, and the estimates of a release from this sample."""
    began, p, failures = time.perf_counter(), cell.population, list[dict[str, Any]]()
    design = p.sample(cell.n, seed_of(cell.seed, cell.n, number))
    maker = MAKERS[cell.mechanism]
    seed = seed_of(cell.seed, cell.n, number, maker.stream, round(1000 * cell.epsilon))
    own = by_margin(lambda margin: estimate(design, p.outcome, [margin], **p.asked), p.margins)
    tables = [_rows(own, CONFIDENTIAL, np.nan, number)]
    with recorded(failures, replicate=number):
        made = by_margin(maker.make(cell, design, seed), p.margins)
        tables.append(_rows(made, cell.mechanism, cell.epsilon, number))
    return Replicate(number, {"estimates": stacked(tables)}, failures, time.perf_counter() - began)


def _rows(table: pd.DataFrame, method: str, epsilon: float, number: int) -> pd.DataFrame:
    m = table.get("m", np.nan)
    kept = table[["margin", "level", "statistic", *NUMBERS]]
    return kept.assign(method=method, setting="", delta=np.nan, m=m, epsilon=epsilon, replicate=number)


def coverage_study(
    population: RealPopulation,
    *,
    n: Sequence[int] = (2000,),
    epsilon: Sequence[float] = (5.0, 10.8),
    mechanisms: Sequence[StudyMechanism] = ("strict",),
    replicates: int = 200,
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
) -> list[tuple[Cell, Replicates]]:
    """Run every mechanism at every epsilon and sample size, on repeated samples of a population.

    Parameters
    ----------
    population : RealPopulation
    n, epsilon, mechanisms
        Sample sizes, epsilons and names of mechanisms.  Each combination is a cell.
    replicates : int
        Number of samples for every cell.
    workers, scheduler
        See :func:`surveysynth.tasks.run`.
    out : str or Path, optional
        Folder that gets a subfolder for every cell.  A study that was stopped continues from there.
    seed : int, optional
        Seed of the study: by default the seed of the study in the folder, or a random seed.  The noise of Laplace
        tables is never seeded.

    Returns
    -------
    list of (Cell, Replicates)
        Each cell with the results of its samples.

    Raises
    ------
    InputError
        A mechanism is unknown, a number is not valid, or the folder contains something else.
    """
    unknown = [str(name) for name in mechanisms if name not in MAKERS]
    if unknown or not mechanisms:
        raise InputError(f"mechanisms: {', '.join(unknown) or 'none'} is not one of {', '.join(MAKERS)}")
    sizes = [whole(size, "n") for size in n]
    epsilons = [positive(each, "epsilon") for each in epsilon]
    folder, seed = folder_and_seed(out, seed)
    cells = [
        Cell(population, size, mechanism, each, seed)
        for mechanism in mechanisms for size in sizes for each in epsilons
    ]  # fmt: skip
    return [
        (cell, repeat(one_sample, cell, cell.describe(), replicates, workers=workers, scheduler=scheduler,
                      out=None if folder is None else folder / cell.name))
        for cell in cells
    ]  # fmt: skip
