"""Parquet files that are too large for a data frame.  A column is read when it is first used.

It is read in blocks of 262,144 records.  Columns need little memory, since numbers keep the type of the file and texts
become codes of one to four bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, guarded
from ..storage import as_path
from ..validation import several

BLOCK = 1 << 18  # records that are read at a time
HEADING = "heading"  # key of a heading in the metadata of a field
TEXTS = "texts"  # key in the attrs of a frame, for the columns of texts: their categories are the values that occur
AHEAD = 2  # blocks read in advance
Source = str | Path | Sequence[str | Path]


class _Column(Protocol):
    """A column of a file that is read block by block."""

    def add(self, block: pa.Array, at: int) -> None:
        """Add a block of records.  ``at`` is the position of its first record in the file."""
        ...

    def done(self) -> Any:
        ...


class _Numbers:
    """A column of numbers or truth values, in the type of the file.

    If values are missing, whole numbers become floats, and truth values become Python objects.
    """

    def __init__(self, kind: pa.DataType, n: int) -> None:
        self.values: NDArray[Any] = np.empty(n, dtype=kind.to_pandas_dtype())

    def add(self, block: pa.Array, at: int) -> None:
        piece = block.to_numpy(zero_copy_only=False)
        kind = np.promote_types(self.values.dtype, piece.dtype)  # changes at the first missing value
        self.values = self.values.astype(kind, copy=False)
        self.values[at : at + len(piece)] = piece

    def done(self) -> Any:
        return self.values


class _Texts:
    """A column of texts or categories, stored as codes.  Texts are sorted; categories keep the order of the file."""

    def __init__(self, kind: pa.DataType, n: int) -> None:
        self.categories = pa.types.is_dictionary(kind)
        self.ordered = self.categories and kind.ordered
        self.codes = np.empty(n, dtype=np.int32)
        self.levels: dict[Any, int] = {}

    def add(self, block: pa.Array, at: int) -> None:
        block = block if self.categories else block.dictionary_encode()
        here = block.dictionary.to_pylist()
        number = np.array([*(self.levels.setdefault(level, len(self.levels)) for level in here), -1], dtype=np.int32)
        codes = block.indices.fill_null(len(here)).to_numpy(zero_copy_only=False)
        self.codes[at : at + len(block)] = number[codes]

    def done(self) -> Any:
        levels = list(self.levels)
        if not self.categories:
            order = sorted(range(len(levels)), key=levels.__getitem__)
            rank = np.empty(len(levels) + 1, dtype=np.int32)
            rank[[*order, -1]] = [*range(len(levels)), -1]
            self.codes, levels = rank[self.codes], [levels[i] for i in order]
        return pd.Categorical.from_codes(self.codes, pd.Index(levels, dtype=None if levels else object), self.ordered)


class _Others:
    """A column of dates or of another type, which pandas converts."""

    def __init__(self) -> None:
        self.pieces: list[pd.Series] = []

    def add(self, block: pa.Array, at: int) -> None:
        self.pieces.append(block.to_pandas())

    def done(self) -> Any:
        return pd.concat(self.pieces, ignore_index=True)


class Scan:
    """The columns of parquet files, each read once, when it is first used.

    Attributes
    ----------
    names : tuple of str
        Names of all columns.
    files : tuple of Path
        The parquet files.
    n : int
        Number of records in all files.
    headings : dict of str to str
        Headings of those columns that have one (:func:`surveysynth.convert` writes them).
    """

    def __init__(self, source: Source) -> None:
        """Open a parquet file, the parquet files of a folder in the order of their names, or a list of files.

        Raises
        ------
        InputError
            A file does not exist, is of another kind, cannot be read, or has other columns than the first file.
        """
        import pyarrow.dataset as ds  # it needs ssl, which some Pythons that run within R lack

        self.files = files = tuple(files_of(source))
        named = repr(str(files[0])) if len(files) == 1 else f"the {len(files):,} files"
        self._unreadable = lambda kind: InputError(f"{named} could not be read ({kind}); are they whole parquet files?")
        self._data = guarded(lambda: ds.dataset([str(f) for f in files]), Exception, self._unreadable)
        self._check_alike(files)
        self.names = tuple(name for name in self._data.schema.names if name not in _index_columns(self._data.schema))
        stored = {field.name: (field.metadata or {}).get(HEADING.encode()) for field in self._data.schema}
        self.headings = {name: text.decode() for name, text in stored.items() if text}
        self.n = guarded(self._data.count_rows, Exception, self._unreadable)
        self._read: dict[str, Any] = {}

    def _check_alike(self, files: Sequence[Path]) -> None:
        for file, piece in zip(files, self._data.get_fragments(), strict=True):
            there = guarded(lambda piece=piece: piece.physical_schema, Exception, self._unreadable)  # type: ignore[misc]
            for field in self._data.schema:
                at = there.get_field_index(field.name)
                if at < 0 or there.field(at).type != field.type:
                    raise InputError(
                        f"{str(file)!r} has no column {field.name!r} of type {field.type}, as {str(files[0])!r} has: "
                        "files of one survey have the same columns, of the same types"
                    )

    def frame(self, names: Iterable[str]) -> pd.DataFrame:
        """Return some columns as a frame.  Columns that were not read before are read in one pass over the files.

        A column of texts becomes categorical.  Its categories are the values that occur, and are not declared levels.
        To tell whether the categories were changed later, ``frame.attrs["texts"]`` has a checksum of the categories of
        each such column.
        """
        names = list(names)
        new = [name for name in dict.fromkeys(names) if name not in self._read]
        if new:
            self._read |= guarded(lambda: self._columns(new), Exception, self._unreadable)
        made = pd.DataFrame({name: self._read[name] for name in names}, index=range(self.n), copy=False)
        texts = [name for name in names if _is_text(self._data.schema.field(name).type)]
        made.attrs[TEXTS] = {name: mark_of(self._read[name].categories) for name in texts}
        return made

    def typed(self, name: str) -> pd.Series:
        """Return an empty column that has the type of column ``name`` in the files.  Texts do not become categories."""
        return pa.array([], type=self._data.schema.field(name).type).to_pandas().rename(name)

    def _columns(self, names: list[str]) -> dict[str, Any]:
        collected = {name: _collected(self._data.schema.field(name).type, self.n) for name in names}
        blocks = self._data.to_batches(
            columns=names, batch_size=BLOCK, batch_readahead=AHEAD, fragment_readahead=1, use_threads=True
        )
        at = 0
        for block in blocks:
            for name, column in collected.items():
                column.add(block.column(name), at)
            at += len(block)
        return {name: column.done() for name, column in collected.items()}


def mark_of(categories: pd.Index) -> int:
    """Compute a checksum of categories, to find out later whether they were changed."""
    return zlib.crc32("\0".join(map(str, categories)).encode())


def _collected(kind: pa.DataType, n: int) -> _Column:
    if pa.types.is_dictionary(kind) or _is_text(kind):
        return _Texts(kind, n)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return _Numbers(kind, n)
    return _Others()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _index_columns(schema: pa.Schema) -> list[str]:
    """List the columns that hold the index of a pandas data frame, which is ignored."""
    indices = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in indices if isinstance(name, str)]


def files_of(source: Source) -> list[Path]:
    """List the parquet files of a source: a file, several files, or a folder.

    Raise InputError if there is none, or if a file does not exist or is not .parquet.
    """
    if isinstance(source, str | Path) and (folder := as_path(source, "source")).is_dir():
        files = sorted(folder.glob("*.parquet"))
        if not files:
            raise InputError(f"there is no .parquet file in {str(source)!r}")
        return files
    files = [as_path(each, "source") for each in several(source)]
    if not files:
        raise InputError("scan needs a parquet file, a folder of such, or a list of files; the list is empty")
    for file in files:
        if not file.is_file():
            raise InputError(f"there is no file {str(file)!r}")
        if file.suffix.lower() != ".parquet":
            raise InputError(
                f"{file.name!r} is no .parquet file, which scan needs: surveysynth.convert() converts a csv, Stata, "
                "SPSS or SAS file, block by block, and SurveyDesign.read() reads it into memory"
            )
    return files
