"""A strict release of a file that is larger than memory: every pass is over parts of 2^20 records, by any workers.

    levels and histograms -> records of a first draw -> points of a public grid -> draws -> simulated parts -> shuffled

What is summed up over records are whole numbers, or sums of blocks in their order; random numbers of a part are counted
from its number and that of the data set (Salmon et al. 2011: Philox).  So a release is the same, to the last bit,
whatever files the records are in, and whoever computes: processes of this machine or a Dask cluster, on processors of
one kind.
"""

from __future__ import annotations

import itertools
import math
import os
import pickle
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ..design.parts import (
    MOST_LEVELS,
    MOST_ROWS,
    Combinations,
    Found,
    Levels,
    Parts,
    levels_together,
    levels_within,
    values_of,
)
from ..design.scan import Source
from ..design.survey_design import SurveyDesign
from ..engines import get_engine
from ..errors import EngineError, InputError, ModelError, SurveySynthError
from ..estimation.in_parts import ONE
from ..models.draws import Draws, Sampler, Streams
from ..models.normal.categories import Categories, Cells
from ..models.normal.fbs import FBS
from ..models.normal.records import JointPublic, JointRecords
from ..models.normal.relative import density_of
from ..models.shared.clipped_fit import Normal
from ..models.shared.levels import FEWEST
from ..models.shared.normal_scores import binned, public_bounds, scores_of_counts
from ..models.shared.predictors import predictor_rows
from ..models.shared.public_grid import Points, crowded
from ..models.shared.transforms import Transform
from ..models.tempered_files import cells
from ..privacy.budget import Budget
from ..privacy.mechanisms import Strict
from ..privacy.mechanisms.strict import FIRST_RECORDS, scores_epsilon
from ..privacy.protected_fit import PseudoLikelihood, WholeFile
from ..privacy.release_rule import IdentificationRule
from ..privacy.units import Unit
from ..progress import stages
from ..release.in_files import ReleaseInFiles, Scratch
from ..release.release import Release
from ..storage import whole_file
from ..tasks import Workers
from ..validation import check_seed, positive, rows, whole
from .assemble import check_enough, check_public, roles_of, warn_if_far
from .draws import check_chains
from .fit import Chosen, DataSets, Fit
from .fitting import protected_by
from .known import Known

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

STATE = "unfinished.pickle"


@dataclass(frozen=True, repr=False)
class Roles:
    """A file in parts, and what its columns are.

    Attributes
    ----------
    parts : Parts
    predictors, numeric, categorical : tuple of str
        The latter are outcomes: amounts, and categories.
    weights : str
    bounds : tuple of (float, float)
        Public, of each amount.
    strata : str or None
        One of the predictors.
    zeros : bool
        Whether zeros are an outcome of their own.
    """

    parts: Parts
    predictors: tuple[str, ...]
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    weights: str
    bounds: tuple[tuple[float, float], ...]
    strata: str | None
    zeros: bool = False

    @classmethod
    def of(
        cls, source: Source, model: FBS, weights: str, strata: str | None,
        bounds: tuple[float, float] | Mapping[str, tuple[float, float]],
    ) -> Roles:  # fmt: skip
        """Checked, as far as the names of columns go.

        Raises
        ------
        InputError
            Bounds of other columns than the outcomes; as :func:`predictors_of`.
        """
        given = dict(bounds) if isinstance(bounds, Mapping) else dict.fromkeys(model.numeric, bounds)
        if set(given) != set(model.numeric):
            raise InputError(f"bounds= names other columns than the numeric outcomes: {', '.join(model.numeric)}")
        limits = tuple(public_bounds(given[outcome], outcome) for outcome in model.numeric)
        parts = Parts.of(source)
        predictors = predictors_of(parts, model, weights, strata)
        numeric, categorical = model.numeric, model.categorical
        return cls(parts, predictors, numeric, categorical, weights, limits, strata, model.zeros)

    def read(self, part: int) -> pd.DataFrame:
        """These columns of a part."""
        return self.parts.read(part, [*self.predictors, *self.numeric, *self.categorical, self.weights])

    def amounts(self, frame: pd.DataFrame, first: int) -> Floats:
        """Amounts of a part's records, (n, d), whose first has the number ``first`` (InputError: not finite)."""
        return np.column_stack([values_of(frame, outcome, first) for outcome in self.numeric])

    def are_zero(self, amounts: Floats) -> NDArray[np.bool_]:
        """Whose outcome is zero, where that is an outcome of its own: (n,)."""
        return (amounts[:, 0] == 0) & self.zeros


def predictors_of(parts: Parts, model: FBS, weights: str, strata: str | None) -> tuple[str, ...]:
    """The predictors, in the order of the files.

    Raises
    ------
    InputError
        Columns that are not there; weights that are modelled or public besides; strata that are no predictor.
    """
    used = *model.predictor_columns, *model.outcomes
    absent = [name for name in (*used, weights) if name not in parts.names]
    if absent:
        raise InputError(f"the files have no column {', '.join(map(repr, absent))}")
    if weights in used:
        raise InputError(f"the column of weights {weights!r} cannot be an outcome or a predictor")
    predictors = tuple(name for name in parts.names if name in model.predictor_columns)
    if strata is not None and strata not in predictors:
        raise InputError(
            f"strata {strata!r} are no predictor, and their effects are not modelled under Strict(): put them into "
            "the formula"
        )
    return predictors


@dataclass(frozen=True, repr=False)
class Seen:
    """What the first pass finds."""

    combinations: Found
    levels: Levels
    counts: list[Floats]  # histograms of amounts
    weight: float  # sum of the weights


def look(roles: Roles, part: int) -> Seen:
    """Check a part; its combinations of predictors, levels of categories, and histograms.

    Raises
    ------
    InputError
        Missing values, outcomes or weights that are no numbers, weights that are not positive.
    """
    frame, first = roles.read(part), roles.parts.first(part)
    w = values_of(frame, roles.weights, first)
    if (w <= 0).any():
        raise InputError(f"{roles.weights!r} is not positive in {rows(w <= 0, first=first + 1)}, and maybe in others")
    y = roles.amounts(frame, first)
    counts = [binned(own, bounds) for own, bounds in zip(y[~roles.are_zero(y)].T, roles.bounds, strict=True)]
    levels = levels_within(frame, roles.categorical, first)
    return Seen(Found.within(frame, roles.predictors, first), levels, counts, float(w.sum()))


@dataclass(frozen=True, repr=False)
class Wanted:
    """Records to be taken, by their numbers from 0, increasing."""

    roles: Roles
    records: Codes


def take(wanted: Wanted, part: int) -> pd.DataFrame:
    """Those that are in a part."""
    first = wanted.roles.parts.first(part)
    start, end = np.searchsorted(wanted.records, [first, wanted.roles.parts.first(part + 1)])
    if start == end:
        return pd.DataFrame()
    frame = wanted.roles.read(part).iloc[wanted.records[start:end] - first]
    return frame.astype({name: object for name in frame if isinstance(frame[name].dtype, pd.CategoricalDtype)})


@dataclass(frozen=True, repr=False)
class File:
    """A file in parts, and how its predictors become rows of the model matrix.

    Attributes
    ----------
    roles : Roles
    combinations : Combinations
    row_of : int array (combinations,)
        Row of the model matrix of each, in its first category.
    categories : Cells or None
        Those that are synthesized; the cell of each combination.
    """

    roles: Roles
    combinations: Combinations
    row_of: Codes
    categories: Cells | None

    @property
    def each(self) -> int:
        """Categories that a record can be in."""
        return 1 if self.categories is None else self.categories.K

    @property
    def tabulated(self) -> Combinations:
        """Combinations of predictors and categories, the latter fastest."""
        if self.categories is None:
            return self.combinations
        return self.combinations.crossed(self.categories.columns(np.arange(self.each)))

    def cell_of(self, rows: Codes) -> Codes:
        """Cells, within which categories are multinomial, of rows of the model matrix."""
        assert self.categories is not None
        cell = np.zeros(int(self.row_of.max()) + self.each, dtype=np.intp)
        for k in range(self.each):
            cell[self.row_of + k] = self.categories.cell
        return cell[rows]

    def categories_of(self, frame: pd.DataFrame) -> Codes:
        """Of the records of a part: (n,)."""
        return np.zeros(len(frame), dtype=np.intp) if self.categories is None else self.categories.categories_of(frame)


@dataclass(frozen=True, repr=False)
class Around:
    """A reference that records are placed around.

    Attributes
    ----------
    file : File
    transforms : tuple
        Of the outcomes.
    mean_weight : float
    X : float array (G, K)
        Rows of the model matrix.
    kinds : tuple of Normal
        The reference's numbers: of all records, or of amounts and of zeros.
    """

    file: File
    transforms: tuple[Transform, ...]
    mean_weight: float
    X: Floats
    kinds: tuple[Normal, ...]


def locate(around: Around, part: int) -> list[tuple[Floats, Codes]]:
    """Coordinates around the reference, (d, n), and rows of the model matrix, (n,), of a part's records, by kind.

    The row of a record is that of its own category.

    Raises
    ------
    InputError
        A record has no place on the scale of an outcome.
    """
    file, roles = around.file, around.file.roles
    frame, first = roles.read(part), roles.parts.first(part)
    y, row = roles.amounts(frame, first), file.row_of[file.combinations.of(frame)] + file.categories_of(frame)
    zero = roles.are_zero(y)
    columns = [transform.forward(own) for own, transform in zip(y.T, around.transforms, strict=True)]
    Y = np.column_stack([*columns, np.log(values_of(frame, roles.weights, first) / around.mean_weight)])
    located = []
    for normal, of_kind in zip(around.kinds, (~zero, zero), strict=False):
        rows_of_kind, own = row[of_kind], Y[of_kind, Y.shape[1] - len(normal.L) :]
        v = np.asarray(np.linalg.solve(normal.L, (own - (around.X @ normal.B)[rows_of_kind]).T), dtype=np.float64)
        wrong = np.zeros(len(row), dtype=bool)
        wrong[of_kind] = ~np.isfinite(v).all(axis=0)
        if wrong.any():
            raise InputError(f"outcomes have no value on their scale in {rows(wrong, first=first + 1)}")
        located.append((v, rows_of_kind))
    return located


def place(around: Around, part: int) -> list[Points]:
    """The points of a public grid that the records of a part lie on, by kind (InputError: as :func:`locate`)."""
    return [Points.of(v, row) for v, row in locate(around, part)]


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
        assert made.cell is not None and made.count_weights is not None  # as those of a part are
        sums.append([np.bincount(made.cell, w, len(of.public.X)) for w in (made.weights, made.count_weights)])
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
    """

    about: Release
    internal: dict[str, Any]
    exact: dict[str, Any]
    of: Simulation
    total: float

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


@dataclass
class FitInParts(Fit):
    """A fit of a file in parts; ``design`` and ``records`` are those of its first draw."""

    file: File | None = field(default=None, repr=False)

    def unfinished(self, scratch: str | Path | None) -> Unfinished:
        """One release, as :meth:`Fit.release` chooses its draws, in a folder of its own, from which it can go on."""
        about = super().release()
        folder = Path(tempfile.mkdtemp(prefix="surveysynth-", dir=scratch)).absolute()
        of = replace(about.internal["simulation"], folder=folder)
        internal = {"draws": about.internal["draws"]}  # records are those of the first draw, and all weigh the same
        total = float(self.population_total)  # type: ignore[arg-type]  # a number, as synthesize_in_parts sees to
        unfinished = Unfinished(replace(about, internal={}), internal, about.privacy.internal, of, total)
        unfinished.save()
        return unfinished

    def _data_sets(
        self, m: int, chosen: Chosen, rules: Sequence[str], rule: IdentificationRule | None
    ) -> DataSets:
        """What m data sets are simulated from."""
        assert self.file is not None and isinstance(self.synthesizer, FBS)
        public = self.records.public
        assert isinstance(public, JointPublic)  # as those of FBS are
        roles, frame, outcomes = self.file.roles, self.file.tabulated.frame, self.synthesizer.outcomes
        streams, draws = (self.streams.values, self.streams.order), [chosen.draws.some([s]) for s in chosen.simulated]
        values, order = (rng.integers(0, 2**64, 2, dtype=np.uint64) for rng in streams)
        sizes = [self._sizes(draw) for draw in draws]
        of = Simulation(self.file, self.synthesizer, public, draws, sizes, values, order, Path())
        published = roles_of(self.design, outcomes, self.file.combinations.frame, self.population_total)
        twice = frame.take(np.repeat(np.arange(len(frame)), 2))  # no stratum has a single one
        types = twice.assign(**dict.fromkeys(roles.numeric, 1.0))[[*roles.predictors, *outcomes]]
        head = SurveyDesign(types.assign(**{roles.weights: 1.0}), **published | {"lonely_psu": "fail"})
        return DataSets((head,) * m, {"simulation": of})

    def _sizes(self, draw: Draws) -> Floats:
        """Records of each row of the model matrix, of those of categories by their shares in a draw: (G,)."""
        assert self.file is not None
        file, rows = self.file, np.arange(len(self.records.X))
        records = np.bincount(file.row_of, file.combinations.records, rows.size)
        if file.categories is None:
            return np.asarray(records)
        first, category = np.divmod(rows, file.each)
        share = np.exp(draw["log_shares"][0])[file.cell_of(rows), category]
        return np.asarray(records[first * file.each] * share)


def synthesize_in_parts(
    source: Source,
    synthesizer: FBS | str,
    *,
    weights: str,
    strata: str | None = None,
    epsilon: float,
    population_total: float,
    bounds: tuple[float, float] | Mapping[str, tuple[float, float]],
    m: int | None = None,
    public: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    scratch: str | Path | None = None,
    chains: int = 4,
    warmup: int | None = None,
    draws: int | None = None,
    seed: int | None = None,
) -> ReleaseInFiles:
    """Release a file that is larger than memory under :class:`Strict`, part by part.

    For amounts by :class:`FBS`, with or without zeros of their own, and categories beside them, with a weight that is
    modelled, where every record is its own sampling unit.  What else :func:`synthesize` can do it does in memory.

    Parameters
    ----------
    source : str, Path or list of such
        A parquet file, a folder of such, or a list of files; :func:`convert` makes one of csv, Stata, SPSS and SAS.
        Groups of rows should have no more than about a million: each is read as a whole.
    synthesizer : FBS or str
        Or a formula, ``"pay ~ region + sex"``.  Predictors and categories have up to a million combinations.
    weights : str
        Column of the survey weights.
    strata : str, optional
        A predictor.
    epsilon, population_total, m, public
        As for :func:`synthesize`; the total is a number.
    bounds : (float, float), or dict of outcome to such
        Public lowest and highest amount.
    labels : dict of str, optional
        Headings of columns; default those in the files.
    workers : int
        Processes of this machine.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers compute instead; they read the same paths.
    scratch : str or Path, optional
        Folder in which data sets are made, which all workers can write to; default the system's for temporary files.
        It needs three to four times their size.
    chains, warmup, draws, seed
        As for :func:`fit`.

    Returns
    -------
    ReleaseInFiles
        Its data sets in files; not written to its place yet.

    Raises
    ------
    InputError, ModelError, PrivacyError, EngineError, NotFitForRelease
        As :func:`synthesize`; a model or design that is not for files in parts.

    Notes
    -----
    Memory is that of a part of 2^20 records for each worker, of the points of the grid, and, where there is no grid, of
    all records' scores: where a predictor row has few records, and of three amounts
    (:mod:`surveysynth.models.shared.public_grid`).

    Examples
    --------
    >>> release = ss.synthesize_in_parts(
    ...     "census/", "pay ~ region + sex", weights="w", epsilon=5, bounds=(0, 1_000_000),
    ...     population_total=50_000_000, workers=2,
    ... )  # doctest: +SKIP
    >>> release.write("release/")  # doctest: +SKIP
    """
    strict = Strict()
    model, roles = check_arguments(source, synthesizer, weights, strata, bounds, scheduler, scratch)
    asked = positive(epsilon, "epsilon")
    budget = Budget(asked, strict.data_sets(asked) if m is None else whole(m, "m"))
    chain = [own if given is None else given for given, own in zip((warmup, draws), strict.chain, strict=True)]
    check_chains(chains, *chain)
    check_seed(seed)
    whole(workers, "workers")
    parts, team = roles.parts, Workers(workers, scheduler)
    total = check_enough(population_total, parts.n)
    ordered, streams = parts.ordered(roles.predictors), Streams.of(seed)
    sampler = Sampler(lambda: get_engine("auto"), streams.draws, chains, *chain)
    noise = None if seed is None else streams.draws
    with stages(strict.expected_seconds(parts.n)) as say:
        say("reading the file")
        seen = list(team.each(look, roles, len(parts)))
        warn_if_far(total, math.fsum(each.weight for each in seen), parts.n)
        found = Combinations.together([each.combinations for each in seen], roles.predictors, ordered)
        _refuse_lonely(found, strata)
        levels = _checked_levels([each.levels for each in seen], found, parts.n)
        _check_formula(found, model, levels)
        model = _scored(model, roles, seen, budget, noise)
        budget = replace(budget, parts=model.spent)
        design, code = _some(roles, found, streams.draws, team, labels)
        check_public(design, model, public)
        records = _prepared(model, design, levels, roles, total / parts.n)
        file = File(roles, found, _by_combination(records.row, code), _categories_of(records, code))
        whole_file = WholeFile(parts.n, partial(_points, file, model, records, total / parts.n, team))
        pseudo = PseudoLikelihood(model, records, Unit(), sampler, noise, whole_file)
        protect = partial(protected_by, design, strict, None, budget, 0.01, 0)  # nothing is tuned
        weighted = protect(pseudo, np.ones(records.n), say)
        fitted = FitInParts(
            design, np.arange(design.n), model, strict, None, records, Unit(), weighted,
            replace(budget, parts=weighted.parts or budget.parts), total, [], sampler, streams, protect,
            seed is not None, file=file,
        )  # fmt: skip
        say("data sets")
        return fitted.unfinished(scratch).finished(team)


def resume_in_parts(folder: str | Path, *, workers: int = 1, scheduler: str | None = None) -> ReleaseInFiles:
    """Go on with a release that was killed after its draws were chosen and before it was written, with these draws.

    Parameters
    ----------
    folder : str or Path
        ``surveysynth-...`` in the run's ``scratch=``.
    workers, scheduler
        As for :func:`synthesize_in_parts`.

    Returns
    -------
    ReleaseInFiles
        As the run would have made it, to the last bit.

    Raises
    ------
    InputError
        There is nothing to go on with: the run ended, or was killed before its draws were chosen; the files of the
        survey have changed.
    EngineError
        As :func:`synthesize_in_parts`.

    Examples
    --------
    Where a run was killed while it made its data sets:

    >>> ss.resume_in_parts("scratch/surveysynth-6u1yx8d2", workers=2)  # doctest: +SKIP
    """
    whole(workers, "workers")
    return _unfinished(folder).finished(Workers(workers, scheduler))


def go_on(folder: str | Path, asked: Mapping[str, Any]) -> ReleaseInFiles:
    """As :func:`resume_in_parts`, with a run of some arguments of :func:`synthesize_in_parts`.

    Raises
    ------
    InputError
        As there; the run had other arguments.
    """
    run, (model, roles) = _unfinished(folder), check_arguments(**asked)
    was = run.of.file.roles, run.total, run.about.privacy.epsilon_requested, run.about.m
    made = [getattr(run.of.model, name) for name in ("predictors", "weight", "prior", "zeros")]
    now = [getattr(model, name) for name in ("predictors", "weight", "prior", "zeros")]
    if (*was, made) != (roles, *(asked[name] for name in ("population_total", "epsilon", "m")), now):
        raise InputError(f"the run in {str(folder)!r} was of another plan, or its files have changed")
    return run.finished(Workers(asked["workers"], asked["scheduler"]))


def check_arguments(
    source: Source, synthesizer: FBS | str, weights: str, strata: str | None, bounds: Any, scheduler: str | None,
    scratch: str | Path | None, **others: Any,
) -> tuple[FBS, Roles]:  # fmt: skip
    """Those arguments of :func:`synthesize_in_parts` that can be checked at once: model and roles, or InputError."""
    model = _checked(Strict().under(FBS(synthesizer) if isinstance(synthesizer, str) else synthesizer))
    _check_scratch(scratch, scheduler)
    return model, Roles.of(source, model, weights, strata, bounds)


def _unfinished(folder: str | Path) -> Unfinished:
    """What there is to go on with in a folder (InputError: nothing; the files of the survey have changed)."""
    state = Path(folder) / STATE
    if not state.is_file():
        raise InputError(
            f"there is nothing to go on with in {str(folder)!r}: the run ended, or was killed before its draws were "
            "chosen"
        )
    with state.open("rb") as stream:
        unfinished = pickle.load(stream)
    assert isinstance(unfinished, Unfinished)
    unfinished.of.file.roles.parts.check_unchanged()
    return unfinished


def known_of(
    source: Source, model: FBS, weights: str, strata: str | None, labels: Mapping[str, str] | None, workers: Workers
) -> Known:  # fmt: skip
    """What is public of a file in parts, from a pass over its predictors.

    Raises
    ------
    InputError
        As :func:`predictors_of`; predictors with missing values, or of too many combinations; other models.
    """
    parts = Parts.of(source)
    names = predictors_of(parts, _checked(model), weights, strata)
    ordered = parts.ordered(names)
    seen = list(workers.each(find, (parts, names, model.categorical), len(parts)))
    found = Combinations.together([each for each, _ in seen], names, ordered)
    frame = found.frame.assign(**dict.fromkeys(model.numeric, 1.0), **{weights: found.records.astype(np.float64)})
    levels = _checked_levels([each for _, each in seen], found, parts.n)
    if levels:  # made-up columns, each level in so many records that it is no identifier
        times = -(-FEWEST * max(map(len, levels.values())) // len(frame))
        frame = frame.assign(**{weights: frame[weights] / times}).take(np.tile(np.arange(len(frame)), times))
        frame = frame.reset_index(drop=True)
        frame = frame.assign(**{name: _in_turn(each, len(frame)) for name, each in levels.items()})
    headings = _headings(parts, labels, frame)
    return Known(
        SurveyDesign(frame, weights=weights, strata=strata, lonely_psu="remove", labels=headings), in_parts=True,
        made_up=tuple(levels),
    )  # fmt: skip


def find(of: tuple[Parts, tuple[str, ...], tuple[str, ...]], part: int) -> tuple[Found, Levels]:
    """The combinations of some columns of a file in a part, and the levels of others."""
    parts, names, categorical = of
    frame, first = parts.read(part, [*names, *categorical] or parts.names[:1]), parts.first(part)
    return Found.within(frame, names, first), levels_within(frame, categorical, first)


def _checked_levels(found: Sequence[Levels], combinations: Combinations, n: int) -> dict[str, list[Any]]:
    """The levels of categories in all parts, sorted.

    Raises
    ------
    InputError
        Fewer than five records a level, whose names are published; too many categories, or combinations of these and
        of the predictors.
    """
    levels = levels_together(found)
    for name, own in levels.items():
        if n < FEWEST * len(own):
            raise InputError(
                f"outcome {name!r} has fewer than {FEWEST} records a level, and names of categories are published: is "
                "it an identifier? Group its levels"
            )
    K = math.prod(map(len, levels.values()))
    if K > MOST_LEVELS or K * len(combinations.frame) > MOST_ROWS:
        raise InputError(
            f"{', '.join(levels)}: {K:,} categories{' in all' if len(levels) > 1 else ''}; {MOST_LEVELS:,} are the "
            f"most, and {MOST_ROWS:,} with the predictors' combinations: group levels, or synthesize fewer columns"
        )
    return levels


def _in_turn(levels: Sequence[Any], n: int) -> pd.Series:
    """A column of n records that has each level as often."""
    return pd.Series(levels).take(np.arange(n) % len(levels)).reset_index(drop=True)


def _check_scratch(scratch: str | Path | None, scheduler: str | None) -> None:
    """Refuse a folder that cannot be written to, and none beside a scheduler (InputError)."""
    if scheduler is not None and scratch is None:
        raise InputError("with a scheduler say scratch=, a folder that all its workers can write to")
    if scratch is not None and not (Path(scratch).is_dir() and os.access(scratch, os.W_OK)):
        raise InputError(f"scratch={str(scratch)!r} is not a folder that you may write to")


def _scored(
    model: FBS, roles: Roles, seen: Sequence[Seen], budget: Budget, noise: np.random.Generator | None
) -> FBS:  # fmt: skip
    """The model on private normal scores, from the histograms of all parts."""
    n, limits = roles.parts.n, roles.bounds
    share = scores_epsilon(budget, n, len(limits), len(limits) + 1)
    scores: dict[str, str | Transform] = {}
    for j, (outcome, limit) in enumerate(zip(model.numeric, limits, strict=True)):
        counts = np.sum([each.counts[j] for each in seen], axis=0)
        scores[outcome] = scores_of_counts(
            counts, None if model.zeros else n, outcome, limit, share / len(limits), noise, zeros=model.zeros, most=n
        )
    return replace(model, transform=scores)


def _checked(model: Any) -> FBS:
    """Refuse what is not for files in parts (InputError)."""
    if not isinstance(model, FBS) or model.weight == "public":
        raise InputError(
            "files in parts are for amounts and categories by FBS with a weight that is modelled, without missing= or "
            "weight='public': synthesize() has the others, in memory"
        )
    if not 1 <= len(model.numeric) <= 3 or model.missing != "fail":
        raise InputError("files in parts have one to three amounts, none of them missing")
    if model.transform != "log":
        raise InputError("bounds= makes normal scores, and transform= is another scale: leave it out")
    return model


def _check_formula(found: Combinations, model: FBS, levels: Mapping[str, Sequence[Any]]) -> None:
    """Refuse predictors that cannot be evaluated somewhere: the model itself sees some records only (InputError)."""
    if not len(found.frame.columns):
        return
    frame = found.frame.assign(**{name: _in_turn(each, len(found.frame)) for name, each in levels.items()})
    design = SurveyDesign(frame.assign(**{ONE: 1.0}), weights=ONE, lonely_psu="remove")
    try:
        predictor_rows(design, model.predictors, None)
    except InputError as error:
        raise InputError(f"{error}; rows are here combinations of the predictors' values, in their order") from None


def _refuse_lonely(found: Combinations, strata: str | None) -> None:
    """Refuse strata of one record, whose variance cannot be estimated (InputError)."""
    if strata is None:
        return
    records = pd.Series(found.records).groupby(found.frame[strata], observed=True).sum()
    if (alone := int((records == 1).sum())) > 0:
        raise InputError(
            f"{alone} strata of {strata!r} have only one record, so their variance cannot be estimated: merge them"
        )


def _some(
    roles: Roles, found: Combinations, rng: np.random.Generator, team: Workers, labels: Mapping[str, str] | None
) -> tuple[SurveyDesign, Codes]:
    """The records of a first draw: at random, and the first of each combination; and their combinations.

    Which they are hangs on random numbers and predictors alone.
    """
    n = roles.parts.n
    chosen = np.sort(rng.choice(n, min(n, FIRST_RECORDS), replace=False, shuffle=False))
    wanted = Wanted(roles, np.union1d(chosen, found.first).astype(np.intp))
    pieces = [frame for frame in team.each(take, wanted, len(roles.parts)) if len(frame)]
    frame = pd.concat(pieces, ignore_index=True)
    code = found.of(frame)
    public = found.frame.take(code).reset_index(drop=True)
    frame = public.assign(**{name: frame[name] for name in (*roles.numeric, *roles.categorical, roles.weights)})
    headings = _headings(roles.parts, labels, frame)
    design = SurveyDesign(frame, weights=roles.weights, strata=roles.strata, lonely_psu="remove", labels=headings)
    return design, code


def _prepared(
    model: FBS, design: SurveyDesign, levels: Mapping[str, Sequence[Any]], roles: Roles, mean_weight: float
) -> JointRecords:  # fmt: skip
    """Some records of a file as the model takes them, with the levels that the whole file has.

    Further records, of public numbers, have each level, and are left out again once it is known.
    """
    if not levels:
        return model.prepare(design, "ignore", mean_weight)
    more = FEWEST * max(map(len, levels.values()))
    further = design.frame.iloc[np.zeros(more, dtype=np.intp)].assign(
        **{name: np.linspace(*limits, more) for name, limits in zip(roles.numeric, roles.bounds, strict=True)},
        **{name: _in_turn(each, more).array for name, each in levels.items()}, **{roles.weights: mean_weight},
    )  # fmt: skip
    both = SurveyDesign(pd.concat([design.frame, further], ignore_index=True), **design.roles(), labels=design.labels)
    return model.prepare(both, "ignore", mean_weight).some(np.arange(design.n))


def _by_combination(of_records: Codes, code: Codes) -> Codes:
    """What records have, by their combination, of which each is there."""
    made = np.zeros(int(code.max()) + 1, dtype=np.intp)
    made[code] = of_records
    return made


def _categories_of(records: JointRecords, code: Codes) -> Cells | None:
    """The categories that are synthesized, and the cell of each combination."""
    if records.categories is None:
        return None
    return replace(records.categories.public, cell=_by_combination(records.categories.cell, code))


def _headings(parts: Parts, labels: Mapping[str, str] | None, frame: pd.DataFrame) -> dict[str, str]:
    """Headings of a frame's columns: those that are given, or those in the files."""
    return {name: text for name, text in (parts.headings | dict(labels or {})).items() if name in frame}


def _points(
    file: File, model: FBS, some: JointRecords, mean_weight: float, team: Workers, reference: Draws
) -> JointRecords:  # fmt: skip
    """The records, as points of a grid around a reference where they are many."""
    density, parts = density_of(reference), file.roles.parts
    kinds: tuple[Normal, ...] = (density, density.of_zeros) if model.zeros else (density,)
    around = Around(file, tuple(model.transforms()), mean_weight, some.X, kinds)
    made: list[tuple[Codes, Floats, Floats | None]] = []
    if crowded(parts.n, len(some.X), len(density.L)):  # and so zeros are, which have one number less
        together: list[Points] = []
        for points in team.each(place, around, len(parts)):  # of which there are no more with more parts
            together = [Points.together(both) for both in zip(together, points, strict=True)] if together else points
        made = [points.records() for points in together]
    else:
        for located in zip(*team.each(locate, around, len(parts)), strict=True):
            v = np.concatenate([v for v, _ in located], axis=1).T
            made.append((np.concatenate([row for _, row in located]), v, None))
    row = np.concatenate([row for row, _, _ in made])
    Y = np.zeros((len(row), len(density.L)))  # of zeros y is not looked at
    zero = np.repeat([False, True][: len(made)], [len(row) for row, _, _ in made])
    for normal, of_kind, (rows_of_kind, v, _) in zip(kinds, (~zero, zero), made, strict=False):
        Y[of_kind, Y.shape[1] - len(normal.L) :] = (some.X @ normal.B)[rows_of_kind] + v @ normal.L.T
    counts = [count for _, _, count in made if count is not None]
    own, of = row % file.each, file.categories
    labels = None if of is None else Categories(of.names, of.levels, file.cell_of(row), of.cells, own)
    return replace(
        some, row=row - own, y=Y[:, :-1], log_w=Y[:, -1], zero=zero if model.zeros else None, categories=labels,
        count=np.concatenate(counts) if counts else None,
    )  # fmt: skip
