"""A membership attack that refits: an intruder who knows everybody else asks about the most exposed record.

A cell is a mechanism, a planted record, an epsilon and an m.  Each has a folder of its own, so that an audit can be
stopped, gone on with, and added to.  A replicate is some tens or hundreds of games on every side of the pair of files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from ...choices import AuditMechanism, Planted
from ...errors import InputError
from ...validation import positive, whole
from ..base import Replicate, Replicates, of_cells, recorded, repeat, seed_of
from .files import AuditedFile, plant
from .files import workers as sample_of_workers
from .games import CONTESTS, Stake

EPSILON, PAIRS = (1.0, 3.0), 2000
MECHANISMS: tuple[AuditMechanism, ...] = get_args(AuditMechanism)
PLANTED: tuple[Planted, ...] = get_args(Planted)

Cells = Sequence[tuple["Cell", Replicates]]


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Cell:
    """One cell of an audit.

    Attributes
    ----------
    file : AuditedFile
    mechanism : str
    planted : str
    stake : Stake
        Epsilon and m.
    seed : int
        Of the whole audit.
    """

    file: AuditedFile
    mechanism: AuditMechanism
    planted: Planted
    stake: Stake
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.file.name}_{self.mechanism}_{self.planted}_{self.stake.epsilon:g}_m_{self.stake.m}"

    def describe(self) -> dict[str, Any]:
        """What every game is played with."""
        f = self.file
        return {
            "file": f.name, "n": len(f.frame), "population_total": f.population_total, "formula": f.formula,
            "bounds": list(f.bounds), "mechanism": self.mechanism, "planted": self.planted,
            "epsilon": self.stake.epsilon, "m": self.stake.m, "games": CONTESTS[self.mechanism].games,
            "seed": self.seed,
        }  # fmt: skip


def some_games(cell: Cell, number: int) -> Replicate:
    """Games on every side of a pair; what is refused is recorded."""
    began, failures, parts = time.perf_counter(), list[dict[str, Any]](), []
    contest, key = CONTESTS[cell.mechanism], _key(cell)
    with recorded(failures, replicate=number):
        file = plant(cell.file, cell.planted)
        mechanism = contest.mechanism(file)
        for k, side in enumerate(contest.sides):
            rng = np.random.default_rng(seed_of(cell.seed, *key, number, k))
            games = contest.player(mechanism, file, side, cell.stake, contest.games, rng)
            parts.append(games.assign(side=side, replicate=number))
    frames = {} if failures else {"games": pd.concat(parts, ignore_index=True)}
    return Replicate(number, frames, failures, time.perf_counter() - began)


def _key(cell: Cell) -> tuple[int, ...]:
    """What the random numbers of a cell are for."""
    places = MECHANISMS.index(cell.mechanism), PLANTED.index(cell.planted)
    return 10, *places, round(1000 * cell.stake.epsilon), cell.stake.m


def audit(
    file: AuditedFile | None = None,
    *,
    epsilon: Sequence[float] = EPSILON,
    m: Sequence[int] = (1,),
    mechanisms: Sequence[AuditMechanism] = ("strict",),
    planted: Sequence[Planted] = PLANTED,
    pairs: int = PAIRS,
    n: int | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
) -> list[tuple[Cell, Replicates]]:
    """Plant records, release the file with and without them, and count what the best test of an intruder tells.

    Parameters
    ----------
    file : AuditedFile, optional
        By default a sample of the census workers, and the strict release of an earlier sample for ``strict-history``.
    epsilon, m, mechanisms, planted
        Each combination is a cell; see :mod:`.files` and :mod:`.games`.  With one data set, m = 1, the whole epsilon is
        in one draw, and an attack sees most.
    pairs : int
        Games on every side; rounded up to whole replicates.
    n : int, optional
        Records of the sample; by default as few as the mechanism takes at epsilon 1: few leave a record its influence.
    workers, scheduler
        As for :func:`surveysynth.studies.repeated_sampling`.
    out : str or Path, optional
        Folder, with one of every cell.  An audit that was stopped goes on from there.
    seed : int, optional

    Returns
    -------
    list of (Cell, Replicates)

    Raises
    ------
    InputError
        Unknown mechanisms or records, numbers that are none, a folder that holds something else.
    """
    for names, given in ((MECHANISMS, mechanisms), (PLANTED, planted)):
        unknown = [str(name) for name in given if name not in names]
        if unknown or not given:
            raise InputError(f"{', '.join(unknown) or 'nothing'} is not one of {', '.join(names)}")
    stakes = [Stake(positive(each, "epsilon"), whole(files, "m")) for each in epsilon for files in m]
    whole(pairs, "pairs")
    if file is not None and n is not None:
        raise InputError("n is of the package's own file: leave it out")
    folder, seed = of_cells(out, seed)
    cells = []
    for mechanism in mechanisms:
        here = file or _sample(mechanism, n or CONTESTS[mechanism].n, seed)
        cells += [Cell(here, mechanism, record, stake, seed) for record in planted for stake in stakes]
    return [
        (cell, repeat(some_games, cell, cell.describe(), -(-pairs // CONTESTS[cell.mechanism].games), workers=workers,
                      scheduler=scheduler, out=None if folder is None else folder / cell.name))
        for cell in cells
    ]  # fmt: skip


def _sample(mechanism: AuditMechanism, n: int, seed: int) -> AuditedFile:
    """The package's own file."""
    return sample_of_workers(n, seed, history=mechanism == "strict-history")
