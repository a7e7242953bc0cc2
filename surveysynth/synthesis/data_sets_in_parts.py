"""Data sets in parts: simulated part by part, and shuffled; with what a run that was cut off goes on from.

Random numbers of a part are counted from its number and that of the data set (Salmon et al. 2011: Philox).
"""

from __future__ import annotations

import itertools
import os
import pickle
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ..design.parts import Combinations
from ..errors import EngineError, ModelError, SurveySynthError
from ..models.draws import Draws
from ..models.normal.fbs import FBS
from ..models.normal.records import JointPublic
from ..models.tempered_files import cells
from ..privacy.mechanisms import Mechanism
from ..release.in_files import ReleaseInFiles, Scratch
from ..release.release import Release
from ..storage import whole_file
from ..tasks import Workers
from .file_in_parts import File

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

STATE = "unfinished.pickle"


@dataclass(frozen=True, repr=False)  # a repr would show the keys
class Simulation:
    """What parts of data sets are simulated from; nothing of it is confidential but the keys.

    Attributes
    ----------
    file : File
    model : FBS
    public : JointPublic
        Rows of the model matrix.
    draws, sizes : lists of Draws and of float arrays (G,)
        One a data set; and how many records each row of the model matrix has in it, or is expected to have.
    values, order : uint64 arrays (2,)
        Keys of the random numbers of values, and of the order of records.
    folder : Path
        Where parts of data sets go.
    """

    file: File
    model: FBS
    public: JointPublic
    draws: list[Draws]
    sizes: list[Floats]
    values: NDArray[np.uint64]
    order: NDArray[np.uint64]
    folder: Path

    @property
    def kind(self) -> np.dtype[Any]:
        """Of a record in the parts of data sets."""
        outcomes = len(self.file.roles.numeric)
        return np.dtype([("key", "u8"), ("row", "i8"), ("code", "i4"), ("y", "f8", (outcomes,)), ("w", "f8")])

    def of(self, code: Codes, data_set: int) -> JointPublic:
        """What is public of records with these combinations of predictors (n,)."""
        cells = self.file.categories
        own = None if cells is None else replace(cells, cell=cells.cell[code])
        return replace(self.public, row=self.file.row_of[code], size=self.sizes[data_set], categories=own)

    def place(self, data_set: int, part: int) -> Path:
        """Where a part of a data set is."""
        return self.folder / f"{data_set}-{part}"

    @property
    def edges(self) -> NDArray[np.uint64]:
        """Where stretches of the order begin: (parts,)."""
        parts = len(self.file.roles.parts)
        return np.array([(k << 64) // parts for k in range(parts)], dtype=np.uint64)


def simulate(of: Simulation, part: int) -> tuple[Floats, NDArray[np.intp]]:
    """Write a part of every data set, its records in the order of random numbers.

    Returns
    -------
    sums : float array (m, 2, cells)
        Of weights as they were drawn, and as they are expected, by cell of the predictors.
    begins : int array (m, parts + 1)
        Where stretches of the order begin in the files.

    Raises
    ------
    ModelError
        The model drew values that are not finite.
    """
    file, roles = of.file, of.file.roles
    frame = roles.parts.read(part, roles.predictors or [roles.weights])
    code = file.combinations.of(frame)
    sums, begins = [], []
    for k, draw in enumerate(of.draws):
        made = of.model.simulate(of.of(code, k), draw, _counted(of.values, k, part))
        if not (np.isfinite(made.outcomes).all() and np.isfinite(made.weights).all()):
            raise ModelError("the model drew values that are not finite; the transform does not suit them")
        records = np.empty(len(frame), dtype=of.kind)
        records["key"] = _counted(of.order, k, part).integers(0, 2**64, len(frame), dtype=np.uint64)
        records["row"] = roles.parts.first(part) + np.arange(len(frame))
        records["code"] = code * file.each + file.categories_of(pd.DataFrame(made.labels, index=frame.index))
        records["y"], records["w"] = made.outcomes, made.weights
        records = records[np.argsort(records["key"], kind="stable")]
        unfinished = of.place(k, part).with_suffix(f".{secrets.token_hex(8)}")
        records.tofile(unfinished)
        os.replace(unfinished, of.place(k, part))
        # weights that are drawn are to have the sums of smoothed ones in cells, over all parts
        cell = file.row_of[code] if made.cell is None else made.cell
        expected = made.weights if made.count_weights is None else made.count_weights
        sums.append([np.bincount(cell, w, len(of.public.X)) for w in (made.weights, expected)])
        begins.append(np.append(np.searchsorted(records["key"], of.edges), len(frame)))
    return np.array(sums), np.array(begins)


def _counted(key: NDArray[np.uint64], data_set: int, part: int) -> np.random.Generator:
    """Random numbers of one part of one data set, far from those of any other."""
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, part, data_set]))


@dataclass(frozen=True, repr=False)
class Shuffle:
    """What whole data sets are made of.

    Attributes
    ----------
    of : Simulation
    factor : float array (m, combinations)
        What weights are multiplied by, by combination of predictors and categories.
    tabulated : Combinations
        These.
    begins : int array (parts, m, parts + 1)
        Where stretches of the order begin in the files of parts.
    """

    of: Simulation
    factor: Floats
    tabulated: Combinations
    begins: NDArray[np.intp]

    def frame(self, records: NDArray[Any], data_set: int) -> pd.DataFrame:
        """Records as they are published."""
        roles, code = self.of.file.roles, records["code"]
        of_code = self.tabulated.frame.take(code).reset_index(drop=True)
        made = of_code.assign(**dict(zip(roles.numeric, records["y"].T, strict=True)))
        weights = {roles.weights: records["w"] * self.factor[data_set, code]}
        return made[[*roles.predictors, *self.of.model.outcomes]].assign(**weights)


def shuffle(of: Shuffle, data_set: int) -> tuple[Path, Path]:
    """Write one data set, its records in random order, and the row of the survey that each goes with."""
    import pyarrow.parquet as pq

    s = of.of
    files = [s.place(data_set, part) for part in range(len(s.file.roles.parts))]
    data, internal = s.folder / f"synthetic_{data_set + 1}.parquet", s.folder / f"rows_{data_set + 1}"
    schema = pa.Schema.from_pandas(of.frame(np.zeros(1, dtype=s.kind), data_set), preserve_index=False)  # of any record
    with pq.ParquetWriter(data, schema) as writer, internal.open("wb") as of_rows:
        for stretch in range(len(files)):
            pieces = [
                np.fromfile(file, s.kind, end - begin, offset=int(begin) * s.kind.itemsize)
                for file, (begin, end) in zip(files, of.begins[:, data_set, stretch : stretch + 2], strict=True)
            ]
            records = np.concatenate(pieces)
            records = records[np.argsort(records["key"], kind="stable")]
            frame = of.frame(records, data_set)
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))
            of_rows.write(np.ascontiguousarray(records["row"]).tobytes())
    return data, internal


@dataclass(frozen=True, repr=False)
class Unfinished:
    """A release whose draws were chosen, before its data sets are made: what is needed for these.

    Attributes
    ----------
    about : Release
        Its data sets have two records of each combination of predictors, and no numbers that mean anything.
    internal, exact : dict
        Of the release, and of its privacy report, which a pickle of them has not.
    of : Simulation
    total : float
        What weights add up to.
    mechanism : Mechanism
        Of its fit.
    accepted : tuple of str
        Diagnostics that were accepted.
    """

    about: Release
    internal: dict[str, Any]
    exact: dict[str, Any]
    of: Simulation
    total: float
    mechanism: Mechanism
    accepted: tuple[str, ...]

    def save(self) -> None:
        """Keep it in its folder, so that a run that is killed can go on."""
        with whole_file(self.of.folder / STATE) as stream:
            pickle.dump(self, stream)

    def finished(self, workers: Workers) -> ReleaseInFiles:
        """Simulate and shuffle the data sets.

        Raises
        ------
        EngineError
            A worker ended, or the disk is full: the run can go on.
        """
        try:
            return self._finished(workers)
        except SurveySynthError:
            raise
        except Exception as error:
            raise EngineError(
                f"the data sets were not made ({type(error).__name__}): resume_in_parts({str(self.of.folder)!r}) goes "
                "on with them"
            ) from None

    def _factor(self, sums: Floats) -> Floats:
        """What weights are multiplied by, so that they have the expected sums in every cell, and their total."""
        of = self.of
        row = (of.file.row_of[:, None] + np.arange(of.file.each)).ravel()
        cell = cells(of.public, np.arange(len(of.public.X)))[row]
        drawn, expected = sums.transpose(1, 0, 2)
        in_cells = np.divide(expected, drawn, out=np.ones_like(drawn), where=drawn > 0)  # some may have no record
        return np.asarray(in_cells[:, cell] * (self.total / expected.sum(axis=1, keepdims=True)))

    def _finished(self, workers: Workers) -> ReleaseInFiles:
        of, m, parts = self.of, self.about.m, range(len(self.of.file.roles.parts))
        sums, begins = np.zeros((m, 2, len(of.public.X))), []
        for here, begin in workers.each(simulate, of, len(parts)):
            sums += here
            begins.append(begin)
        tabulated = of.file.tabulated
        made = list(workers.each(shuffle, Shuffle(of, self._factor(sums), tabulated, np.array(begins)), m))
        files, rows_of = zip(*made, strict=True)
        privacy = replace(self.about.privacy, internal=self.exact)
        about = replace(self.about, internal=self.internal, privacy=privacy)
        for k, part in itertools.product(range(m), parts):
            of.place(k, part).unlink()
        return ReleaseInFiles(about, files, rows_of, tabulated, self.total, Scratch(of.folder), workers)
