"""A file in parts of 2^20 records by their number: what is computed part by part never holds the file as a whole.

Parts do not depend on how many files the records lie in, nor on who computes what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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

PART = 1 << 20  # records of a part
MOST_ROWS = 1 << 20  # combinations of the public columns


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
    records : int
        Of a part.
    """

    files: tuple[str, ...]
    sizes: tuple[int, ...]
    names: tuple[str, ...]
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
        return cls(tuple(str(file.absolute()) for file in files), sizes, whole.names)

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
        pieces: list[pa.Table] = []
        first, end = self.first(part), min(self.first(part + 1), self.n)
        for file, size in zip(self.files, self.sizes, strict=True):
            if begins < end and first < begins + size:
                pieces += _records(file, max(first - begins, 0), min(end - begins, size), names)
            begins += size
        return pa.concat_tables(pieces).unify_dictionaries().to_pandas(ignore_metadata=True)


def _records(file: str, first: int, end: int, names: Sequence[str]) -> Iterator[pa.Table]:
    """Records of a file, from the groups of rows that hold them and no others."""
    import pyarrow.parquet as pq

    schema = pq.read_schema(file)
    texts = [n for n in names if pa.types.is_string(kind := schema.field(n).type) or pa.types.is_large_string(kind)]
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
    values = numeric(frame[name], name)
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise InputError(f"{name!r} is missing or infinite in {rows(wrong, first=first + 1)}, and maybe in others")
    return values


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

    @staticmethod
    def within(frame: pd.DataFrame, names: Sequence[str], first: int) -> pd.DataFrame:
        """Those of a part: the columns, then ``(records, first)`` as the last two.

        Raises
        ------
        InputError
            A value is missing.
        """
        for name in names:
            absent = frame[name].isna().to_numpy()
            if absent.any():
                raise InputError(
                    f"predictor {name!r} is missing in {rows(absent, first=first + 1)}, and maybe in others; give "
                    "these records a category of their own"
                )
        number = pd.Series(np.arange(first, first + len(frame)))
        if not names:
            return pd.DataFrame({0: [len(frame)], 1: [first]})
        grouped = number.groupby([frame[name] for name in names], observed=True, sort=False)
        found = grouped.agg(["size", "min"]).reset_index()
        return found.set_axis([*names, 0, 1], axis=1)

    @classmethod
    def together(cls, found: Sequence[pd.DataFrame], names: Sequence[str]) -> Combinations:
        """Those of all parts (InputError: too many)."""
        plain = [
            part.astype({name: object for name in names if _is_text(part[name])})
            for part in found
        ]
        every = pd.concat(plain, ignore_index=True)
        if names:
            every = every.groupby(list(names), sort=True).agg({0: "sum", 1: "min"}).reset_index()
        else:
            every = pd.DataFrame({0: [every[0].sum()], 1: [every[1].min()]})
        if len(every) > MOST_ROWS:
            raise InputError(f"the predictors have more than {MOST_ROWS:,} combinations: group them")
        columns = {name: pd.Categorical(every[name]) if every[name].dtype == object else every[name] for name in names}
        frame = pd.DataFrame(columns, index=every.index)
        return cls(frame, every[0].to_numpy(np.intp), every[1].to_numpy(np.intp))

    def of(self, part: pd.DataFrame) -> Codes:
        """Number of each record's combination: (n,)."""
        if not len(self.frame.columns):
            return np.zeros(len(part), dtype=np.intp)
        place, here = np.zeros(len(part), dtype=np.int64), np.zeros(len(self.frame), dtype=np.int64)
        for name, column in self.frame.items():
            levels = column.cat.categories if _is_text(column) else pd.Index(np.unique(column))
            place = place * len(levels) + _level(part[str(name)], levels)
            here = here * len(levels) + _level(column, levels)
        order = np.argsort(here)
        return np.asarray(order[np.searchsorted(here[order], place)], dtype=np.intp)


def _is_text(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def _level(column: pd.Series, levels: pd.Index) -> NDArray[np.int64]:
    """The place of each value among the levels: (n,)."""
    if _is_text(column):
        return np.asarray(levels.get_indexer(column.cat.categories)[column.cat.codes], dtype=np.int64)
    return np.asarray(levels.get_indexer(pd.Index(column)), dtype=np.int64)
