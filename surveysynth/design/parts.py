"""A file in parts of 2^20 records by their number: what is computed part by part never holds the file as a whole.

Parts do not depend on how many files the records lie in, nor on who computes what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError
from ..validation import rows
from .columns import numeric
from .scan import Scan, Source, files_of

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Levels = dict[str, set[Any]]

PART = 1 << 20  # records of a part
MOST_ROWS = 1 << 20  # combinations of the public columns
MOST_LEVELS = 1000  # of categories, crossed
OTHERS = "the files have other values of '{}' than before: were they changed meanwhile?"


@dataclass(frozen=True)
class Parts:
    """Parquet files, each of so many records, one after the other.

    Attributes
    ----------
    files : tuple of str
        Absolute paths, which every worker can read.
    sizes : tuple of int
        Records of each.
    names : tuple of str
        Columns.
    types : pyarrow.Schema
        Of the first file.
    times : tuple of int
        When each file was last changed, in nanoseconds.
    headings : dict of str
        Of columns, where the files have some (:func:`surveysynth.convert`).
    records : int
        Of a part.
    """

    files: tuple[str, ...]
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    types: pa.Schema
    times: tuple[int, ...]
    headings: dict[str, str]
    records: int = PART

    @classmethod
    def of(cls, source: Source) -> Parts:
        """A parquet file, a folder of such, or a list (InputError: as :class:`Scan`, and no records)."""
        import pyarrow.parquet as pq

        whole = Scan(source)
        if not whole.n:
            raise InputError("the files have no records")
        files = files_of(source)
        sizes = tuple(pq.read_metadata(file).num_rows for file in files)
        times = tuple(file.stat().st_mtime_ns for file in files)
        types = pq.read_schema(files[0])
        return cls(tuple(str(file.absolute()) for file in files), sizes, whole.names, types, times, whole.headings)

    def check_unchanged(self) -> None:
        """Refuse files that were changed, or are gone (InputError)."""
        for file, time in zip(map(Path, self.files), self.times, strict=True):
            if not file.is_file() or file.stat().st_mtime_ns != time:
                raise InputError(f"{str(file)!r} was changed since, or is gone")

    def ordered(self, names: Iterable[str]) -> dict[str, bool]:
        """Of those of some columns that are categories in the files, whether they are in order.

        Raises
        ------
        InputError
            A column that is neither texts, numbers nor true or false.
        """
        found = {}
        for name in names:
            kind = self.types.field(name).type
            if pa.types.is_dictionary(kind):
                found[name], kind = kind.ordered, kind.value_type
            number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
            if not (_is_string(kind) or (number and name not in found)):
                raise InputError(f"predictor {name!r} is of type {kind}: make it text, a number, or groups")
        return found

    def declared_levels(self, name: str) -> list[Any] | None:
        """The levels that the type of a column declares: True and False, or categories; None where it declares none."""
        import pyarrow.parquet as pq

        kind = self.types.field(name).type
        if pa.types.is_boolean(kind):
            return [False, True]
        if not pa.types.is_dictionary(kind):
            return None
        with pq.ParquetFile(next(file for file, size in zip(self.files, self.sizes, strict=True) if size)) as content:
            return list(content.read_row_group(0, columns=[name]).column(0).chunk(0).dictionary.to_pylist())

    @property
    def n(self) -> int:
        """Records."""
        return sum(self.sizes)

    def __len__(self) -> int:
        return -(-self.n // self.records)

    def first(self, part: int) -> int:
        """Number of a part's first record, from 0."""
        return part * self.records

    def read(self, part: int, names: Iterable[str]) -> pd.DataFrame:
        """Some columns of a part; texts as categories, the index from 0."""
        names, begins = list(names), 0
        texts = [name for name in names if _is_string(self.types.field(name).type)]
        pieces: list[pa.Table] = []
        first, end = self.first(part), min(self.first(part + 1), self.n)
        for file, size in zip(self.files, self.sizes, strict=True):
            if begins < end and first < begins + size:
                pieces += _records(file, max(first - begins, 0), min(end - begins, size), names, texts)
            begins += size
        plain = [pa.table(dict(zip(names, piece.select(names).columns, strict=True))) for piece in pieces]
        return pa.concat_tables(plain).unify_dictionaries().to_pandas(ignore_metadata=True)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _records(file: str, first: int, end: int, names: Sequence[str], texts: Sequence[str]) -> Iterator[pa.Table]:
    """Records of a file, from the groups of rows that hold them and no others."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file, read_dictionary=texts) as content:
        begins = 0
        for group in range(content.num_row_groups):
            size = content.metadata.row_group(group).num_rows
            if begins < end and first < begins + size:
                table = content.read_row_group(group, columns=list(names), use_threads=False)
                yield table.slice(max(first - begins, 0), min(end - begins, size) - max(first - begins, 0))
            begins += size


def values_of(frame: pd.DataFrame, name: str, first: int) -> Floats:
    """A numeric column of a part whose first record has the number ``first``, from 0 (InputError: not finite)."""
    values = numeric(frame[name], name, first + 1)
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise InputError(f"{name!r} is missing or infinite in {rows(wrong, first=first + 1)}, and maybe in others")
    return values


def weights_of(frame: pd.DataFrame, name: str, first: int) -> Floats:
    """The column of weights of a part: as :func:`values_of`, and positive (InputError)."""
    w = values_of(frame, name, first)
    if (w <= 0).any():
        raise InputError(
            f"{name!r} is not positive in {rows(w <= 0, first=first + 1)}, and maybe in others; leave records of "
            "weight 0 out of files in parts"
        )
    return w


@dataclass(frozen=True, repr=False)
class Found:
    """The combinations of public columns in a part.

    Attributes
    ----------
    frame : pandas.DataFrame
        The columns, then records and the number of the first one, from 0, of each combination.
    levels : dict of str to list
        Of columns that are categories, in their order.
    """

    frame: pd.DataFrame
    levels: dict[str, list[str]]

    @classmethod
    def within(cls, part: pd.DataFrame, names: Sequence[str], first: int) -> Found:
        """Those of a part whose first record has the number ``first``.

        Raises
        ------
        InputError
            A value is missing.
        """
        refuse_missing(part, names, first, "predictor")
        number = pd.Series(np.arange(first, first + len(part)))
        if not names:
            return cls(pd.DataFrame({0: [len(part)], 1: [first]}), {})
        levels = {name: part[name].cat.categories.tolist() for name in names if _is_text(part[name])}
        grouped = number.groupby([part[name] for name in names], observed=True, sort=False)
        found = grouped.agg(["size", "min"]).set_axis([0, 1], axis=1).reset_index().set_axis([*names, 0, 1], axis=1)
        return cls(found.astype(dict.fromkeys(levels, object)), levels)


def levels_within(part: pd.DataFrame, names: Sequence[str], first: int) -> Levels:
    """The levels of some columns in a part whose first record has the number ``first``.

    Raises
    ------
    InputError
        A value is missing; too many levels.
    """
    refuse_missing(part, names, first, "outcome")
    levels = {name: set(part[name].unique()) for name in names}
    many = [name for name, own in levels.items() if len(own) > MOST_LEVELS]
    if many:
        raise InputError(
            f"outcome {many[0]!r} has more than {MOST_LEVELS:,} levels, the most that are synthesized: group them"
        )
    return levels


def find(of: tuple[Parts, tuple[str, ...], tuple[str, ...]], part: int) -> tuple[Found, Levels]:
    """The combinations of some columns of a file in a part, and the levels of others."""
    parts, names, categorical = of
    frame, first = parts.read(part, [*names, *categorical] or parts.names[:1]), parts.first(part)
    return Found.within(frame, names, first), levels_within(frame, categorical, first)


def refuse_missing(
    part: pd.DataFrame, names: Sequence[str], first: int, what: str,
    advice: str = "give these records a category of their own",
) -> None:  # fmt: skip
    """Refuse columns with missing values (InputError); the part's first record has the number ``first``."""
    for name in names:
        absent = part[name].isna().to_numpy()
        if absent.any():
            raise InputError(
                f"{what} {name!r} is missing in {rows(absent, first=first + 1)}, and maybe in others; "
                f"{advice}"
            )


def levels_together(found: Iterable[Levels]) -> dict[str, list[Any]]:
    """The levels of columns in all parts, sorted (InputError: of types that have no order)."""
    together: Levels = {}
    for levels in found:
        together = {name: here | together.get(name, set()) for name, here in levels.items()}
    try:
        return {name: sorted(levels) for name, levels in together.items()}
    except TypeError:
        raise InputError(f"{', '.join(together)}: there are values that cannot be sorted; make them text") from None


@dataclass(frozen=True, repr=False)
class Combinations:
    """The combinations of public columns that a file has: one row each, in the order of their levels.

    Attributes
    ----------
    frame : pandas.DataFrame (rows, columns)
        The values; texts as categories, sorted, or in the order of the file's own categories.
    records : int array (rows,)
        Records of each.
    first : int array (rows,)
        Number of the first record of each, from 0.
    """

    frame: pd.DataFrame
    records: Codes
    first: Codes

    @classmethod
    def together(
        cls, found: Sequence[Found], names: Sequence[str], ordered: Mapping[str, bool], advice: str = "group them"
    ) -> Combinations:
        """Those of all parts; ``ordered`` has the columns that are categories in the files (InputError: too many)."""
        every = pd.concat([part.frame for part in found], ignore_index=True)
        for name in [name for name in names if name in found[0].levels]:
            levels = dict.fromkeys(level for part in found for level in part.levels[name])
            used = set(every[name])
            kept = [level for level in (levels if name in ordered else sorted(levels)) if level in used]
            every[name] = pd.Categorical(every[name], kept, ordered.get(name, False))
        if names:
            grouped = every.groupby(list(names), sort=True, observed=True)
            every = grouped.agg({0: "sum", 1: "min"}).reset_index()
        else:
            every = pd.DataFrame({0: [every[0].sum()], 1: [every[1].min()]})
        if len(every) > MOST_ROWS:
            raise InputError(f"{', '.join(names)}: more than {MOST_ROWS:,} combinations; {advice}")
        frame = pd.DataFrame({name: every[name].array for name in names}, index=every.index)
        return cls(frame, every[0].to_numpy(np.intp), every[1].to_numpy(np.intp))

    def single(self, strata: str | None) -> int:
        """How many strata, levels of one of the columns, have a single record."""
        if strata is None:
            return 0
        return int((pd.Series(self.records).groupby(self.frame[strata], observed=True).sum() == 1).sum())

    def crossed(self, columns: Mapping[str, pd.Series]) -> Combinations:
        """Each of them with each row of further columns, one after the other; records are with the first of these.

        Raises
        ------
        InputError
            Too many.
        """
        each = len(next(iter(columns.values())))
        if len(self.frame) * each > MOST_ROWS:
            raise InputError(
                f"predictors and categories have more than {MOST_ROWS:,} combinations: group some of them"
            )
        frame = self.frame.take(np.repeat(np.arange(len(self.frame)), each)).reset_index(drop=True)
        tiled = {name: pd.concat([column] * len(self.frame), ignore_index=True) for name, column in columns.items()}
        records = np.where(np.arange(len(frame)) % each == 0, np.repeat(self.records, each), 0)
        return Combinations(frame.assign(**tiled), records, np.repeat(self.first, each))

    def with_levels(self, levels: Mapping[str, Sequence[Any]]) -> Combinations:
        """With these levels of the columns that it is crossed with, or is not yet."""
        there = [name for name in levels if name in self.frame]
        each = len(self.frame[there].drop_duplicates()) if there else 1
        plain = self.frame.drop(columns=there).iloc[::each].reset_index(drop=True)
        public = Combinations(plain, self.records[::each], self.first[::each])
        crossed = pd.MultiIndex.from_product([*levels.values()], names=[*levels]).to_frame(index=False)
        return public.crossed({str(name): column for name, column in crossed.items()})

    def of(self, part: pd.DataFrame) -> Codes:
        """Number of each record's combination: (n,)."""
        if not len(self.frame.columns):
            return np.zeros(len(part), dtype=np.intp)
        place, here = np.zeros(len(part), dtype=np.int64), np.zeros(len(self.frame), dtype=np.int64)
        for name, column in self.frame.items():
            levels = column.cat.categories if _is_text(column) else pd.Index(np.unique(column))
            own = places_of(part[str(name)], levels)
            if (own < 0).any():
                raise InputError(OTHERS.format(name))
            place = place * len(levels) + own
            here = here * len(levels) + places_of(column, levels)
        order = np.argsort(here)
        found = order[np.minimum(np.searchsorted(here[order], place), len(here) - 1)]
        if not np.array_equal(here[found], place):
            raise InputError(OTHERS.format("', '".join(map(str, self.frame))))
        return np.asarray(found, dtype=np.intp)


def _is_text(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def places_of(column: pd.Series, levels: pd.Index) -> NDArray[np.int64]:
    """The place of each value among the levels, -1 for one that is not there: (n,)."""
    if _is_text(column):
        return np.asarray(levels.get_indexer(column.cat.categories)[column.cat.codes], dtype=np.int64)
    return np.asarray(levels.get_indexer(pd.Index(column)), dtype=np.int64)
