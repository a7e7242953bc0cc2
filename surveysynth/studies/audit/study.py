"""An audit of the epsilon that a mechanism states, by membership attacks in repeated games (:mod:`.games`).

In a game, noisy tables are made of a file with or without a planted record.  An intruder who knows all other records
tells from the noisy tables whether the planted record is in the file.  A cell of the audit is a planted record with an
epsilon.  Each cell has its own folder, so that an audit can be stopped, continued and extended.  A replicate is a batch
of 500 games with the planted record, 500 games without, and 500 games with a typical value in its place.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from ...choices import Planted
from ...errors import InputError
from ...validation import positive, whole
from ..base import Replicate, Replicates, folder_and_seed, recorded, repeat, seed_of
from .files import AuditedFile, plant
from .files import workers as sample_of_workers
from .games import SIDES, noisy_tables

EPSILON, PAIRS = (1.0, 3.0), 2000
RECORDS = 201  # records of the package's own file; an odd number allows two modes of the same size
GAMES = 500  # games on each side in one replicate
PLANTED: tuple[Planted, ...] = get_args(Planted)

Cells = Sequence[tuple["Cell", Replicates]]


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Cell:
    """One cell of an audit: a planted record with an epsilon.

    Attributes
    ----------
    file : AuditedFile
    planted : str
    epsilon : float
    seed : int
        Seed of the whole audit.
    """

    file: AuditedFile
    planted: Planted
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """Name of the cell's folder."""
        return f"{self.file.name}_{self.planted}_{self.epsilon:g}"

    def describe(self) -> dict[str, Any]:
        """Return the settings that all games of this cell share."""
        f = self.file
        return {
            "file": f.name, "n": len(f.frame), "population_total": f.population_total, "formula": f.formula,
            "bounds": list(f.bounds), "planted": self.planted, "epsilon": self.epsilon, "games": GAMES,
            "seed": self.seed,
        }  # fmt: skip


def one_batch(cell: Cell, number: int) -> Replicate:
    """Simulate the games of one replicate.  If an error occurs, it is recorded and the replicate has no games."""
    began, failures, parts = time.perf_counter(), list[dict[str, Any]](), []
    with recorded(failures, replicate=number):
        file = plant(cell.file, cell.planted)
        for k, side in enumerate(SIDES):
            rng = np.random.default_rng(seed_of(cell.seed, *_key(cell), number, k))
            games = noisy_tables(file, side, cell.epsilon, GAMES, rng)
            parts.append(games.assign(side=side, replicate=number))
    frames = {} if failures else {"games": pd.concat(parts, ignore_index=True)}
    return Replicate(number, frames, failures, time.perf_counter() - began)


def _key(cell: Cell) -> tuple[int, ...]:
    """Return the numbers that identify a cell when seeds are derived (:func:`surveysynth.studies.base.seed_of`)."""
    return 10, PLANTED.index(cell.planted), round(1000 * cell.epsilon)


def audit(
    file: AuditedFile | None = None,
    *,
    epsilon: Sequence[float] = EPSILON,
    planted: Sequence[Planted] = PLANTED,
    pairs: int = PAIRS,
    n: int | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
) -> list[tuple[Cell, Replicates]]:
    """Make noisy tables of a file with and without a planted record, many times, for each kind of planted record.

    :func:`.outputs.verdicts` computes the empirical epsilon from these repetitions, called games.

    Parameters
    ----------
    file : AuditedFile, optional
        The file.  The default is a sample of workers of the 2000 census, from the demonstration data.
    epsilon, planted
        Epsilons and kinds of planted records (:mod:`.files`).  Each combination is a cell.
    pairs : int
        Number of games with the planted record, and of games without, which is rounded up to whole replicates of 500.
    n : int, optional
        Number of records of the default sample: 201 unless given.
    workers, scheduler
        See :func:`surveysynth.tasks.run`.
    out : str or Path, optional
        Folder that gets a subfolder for every cell.  An audit that was stopped continues from there.
    seed : int, optional
        Seed of the sample and of the synthetic files: by default the seed of the audit in the folder, or a random seed.
        The noise of the tables is never seeded.

    Returns
    -------
    list of (Cell, Replicates)
        Each cell with its games.

    Raises
    ------
    InputError
        A planted record is unknown, a number is not valid, ``n`` is given with ``file``, or the folder contains
        something else.
    """
    unknown = [str(name) for name in planted if name not in PLANTED]
    if unknown or not planted:
        raise InputError(f"{', '.join(unknown) or 'nothing'} is not one of {', '.join(PLANTED)}")
    epsilons = [positive(each, "epsilon") for each in epsilon]
    whole(pairs, "pairs")
    if file is not None and n is not None:
        raise InputError("n is of the package's own file: leave it out")
    folder, seed = folder_and_seed(out, seed)
    here = file or sample_of_workers(RECORDS if n is None else n, seed)
    cells = [Cell(here, record, each, seed) for record in planted for each in epsilons]
    return [
        (cell, repeat(one_batch, cell, cell.describe(), -(-pairs // GAMES), workers=workers, scheduler=scheduler,
                      out=None if folder is None else folder / cell.name))
        for cell in cells
    ]  # fmt: skip
