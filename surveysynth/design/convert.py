"""Conversion of large csv, Stata, SPSS and SAS files to parquet, one block of records at a time.

The type of a column depends on all its values.  So the file is read twice, first to find the types, then to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat

from ..errors import InputError, guarded
from ..storage import as_path, whole_file
from .columns import Columns
from .csv_columns import TYPES, CsvColumns
from .csv_file import CsvOptions, CsvTexts
from .missing_codes import Checked, Code, MissingCodes, checked_codes, codes_of_columns
from .odd_dates import reader_of
from .read import (
    OF_ONE_ENCODING,
    READERS,
    Labels,
    by_label,
    csv_options,
    headings,
    kind_of,
    names_of,
    unreadable,
    warn_of_labelled,
    without_declared,
)
from .scan import BLOCK, HEADING

TEXT, NUMBER = pa.string(), pa.float64()
NO_RECORDS = "the file has no records"
Names = dict[str, dict[Code, str]]  # labels of values, by column
Blocks = Iterator[tuple[pd.DataFrame, Names, Labels]]
Read = Callable[[], Blocks]


@dataclass
class _Column:
    """A summary of a column, from the values that have been read so far.

    Attributes
    ----------
    type : pyarrow.DataType, optional
        Type of the values.  It is None if all are missing.
    named : int
        Number of values that have a value label.
    others : bool
        True if some values have no value label.
    """

    type: pa.DataType | None = None
    named: int = 0
    others: bool = False

    def add(self, values: pd.Series, names: dict[Code, str]) -> None:
        """Add values to the summary.  ``names`` are the value labels of the column."""
        here = _type(values)
        if here is not None and self.type is not None and here != self.type:
            here = NUMBER
        self.type = here or self.type
        if names:
            inside = values.isin(list(names))
            self.named += int(inside.sum())
            self.others |= bool((~inside & values.notna()).any())


def convert(
    source: str | Path, to: str | Path, *, missing_codes: MissingCodes | None = None, encoding: str | None = None,
    separator: str | None = None, decimal: str | None = None, thousands: str | None = None, text: Columns = None,
    na: Columns = None,
) -> None:  # fmt: skip
    """Convert a large csv, Stata, SPSS or SAS file to parquet, for :meth:`SurveyDesign.scan`.

    The columns have the same types, categories, missing values and headings as with :meth:`SurveyDesign.read`.  No more
    than a few hundred thousand records are in memory at a time.

    Parameters
    ----------
    source : str or Path
        .csv (also .gz, .zip, .bz2, .xz), .dta, .sav, .zsav, .por, .sas7bdat, .xpt
    to : str or Path
        The .parquet file to write.  Only its owner can read it.  If the conversion fails, no file is written.
    missing_codes, encoding, separator, decimal, thousands, text, na
        See :meth:`SurveyDesign.read`.

    Raises
    ------
    InputError
        :meth:`SurveyDesign.read` refuses the file or an option; ``source`` is a parquet file or has no records; ``to``
        exists or does not end in .parquet.
    OSError
        The file ``to`` cannot be written.

    Examples
    --------
    >>> pd.DataFrame({"income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]}).to_csv("incomes.csv", index=False)
    >>> ss.convert("incomes.csv", "incomes.parquet")
    >>> ss.SurveyDesign.scan("incomes.parquet", weights="wt").n
    4
    """
    path, place = as_path(source, "source"), as_path(to, "to")
    options = csv_options(encoding, separator, decimal, thousands, text, na)
    is_csv, suffix = kind_of(path, options)
    if suffix == ".parquet":
        raise InputError(f"{path.name!r} is a parquet file: scan() reads it as it is")
    if place.suffix.lower() != ".parquet":
        raise InputError(f"{place.name!r} must end in .parquet, which scan() reads")
    if place.exists():
        raise InputError(f"there is a file {str(place)!r} already: take another name, or remove it")
    codes = checked_codes(missing_codes)
    if is_csv:
        converted = partial(_convert_csv, path, place, codes, options)
    else:
        converted = partial(_convert_labelled, _labelled_reader(path, suffix, codes, encoding), place, missing_codes)
    guarded(converted, pa.ArrowException, lambda kind: unreadable(path, kind))  # arrow's messages quote values


def _convert_csv(path: Path, place: Path, codes: Checked, options: CsvOptions) -> None:
    file = CsvTexts(path, options)
    columns = file.through(lambda blocks: CsvColumns(blocks, file, codes, options))
    if not columns.n:
        raise InputError(NO_RECORDS)
    columns.tell(file.file)
    types = {name: TYPES[kind] for name, kind in columns.kinds.items()}
    declared = codes_of_columns(codes, types)

    def write(blocks: Iterator[dict[str, pa.StringArray]]) -> None:
        _write((without_declared(columns.frame(block), declared, {}) for block in blocks), place, types, {})

    file.through(write)


def _convert_labelled(read: Read, place: Path, missing_codes: MissingCodes | None) -> None:
    found, names, headed = _looked_at(read(), missing_codes)

    def frames() -> Iterator[pd.DataFrame]:
        for frame, _, _ in read():
            for name, labels in names.items():
                frame[name] = by_label(frame[name], labels)
            yield frame

    types = {name: column.type or NUMBER for name, column in found.items()}
    _write(frames(), place, types | {name: pa.dictionary(pa.int32(), TEXT) for name in names}, headed)


def _labelled_reader(path: Path, suffix: str, codes: Checked, encoding: str | None) -> Read:
    def failed(kind: str) -> InputError:
        return unreadable(path, kind, encoding, asked=suffix not in OF_ONE_ENCODING)

    given: dict[str, Any] = {} if encoding is None else {"encoding": encoding}

    reader = guarded(lambda: reader_of(READERS[suffix], str(path), suffix, **given), Exception, failed)

    def read() -> Blocks:
        blocks = pyreadstat.read_file_in_chunks(reader, str(path), chunksize=BLOCK, **given)
        while (block := guarded(lambda: next(blocks, None), Exception, failed)) is not None:
            frame, meta = block
            declared = codes_of_columns(codes, frame.columns)
            labels = meta.variable_value_labels
            names = {column: names_of(every, declared.get(column, [])) for column, every in labels.items()}
            yield without_declared(frame.replace("", np.nan), declared, labels), names, headings(meta)

    return read


def _looked_at(blocks: Blocks, missing_codes: MissingCodes | None) -> tuple[dict[str, _Column], Names, Labels]:
    """Read all blocks to find the types of columns, and warn of columns in which only some values have labels.

    Return three dicts by column: a summary of each column, the value labels of the columns in which all values have
    labels, and the headings.
    """
    found: dict[str, _Column] = {}
    names: Names = {}
    texts: Labels = {}
    records = 0
    for frame, names, headed in blocks:
        texts, records = headed, records + len(frame)
        for name in frame.columns:
            found.setdefault(name, _Column()).add(frame[name], names.get(name, {}))
    if not records:
        raise InputError(NO_RECORDS)
    kept, declared = {}, codes_of_columns(checked_codes(missing_codes), found)
    for name, labels in names.items():
        column = found[name]
        if labels and not column.others:
            kept[name] = labels
        elif labels and column.named:
            where = f"{column.named:,} {'row' if column.named == 1 else 'rows'}"
            warn_of_labelled(name, labels, where, declared.get(name, []), missing_codes)
    return found, kept, texts


def _write(frames: Iterator[pd.DataFrame], place: Path, types: Mapping[str, pa.DataType], headed: Labels) -> None:
    import pyarrow.parquet as pq  # it needs ssl, which some Pythons that run within R lack

    fields = [pa.field(n, t, metadata={HEADING: headed[n]} if n in headed else None) for n, t in types.items()]
    schema = pa.schema(fields)
    with whole_file(place, replace=False) as file, pq.ParquetWriter(file, schema) as writer:
        for frame in frames:
            arrays = [pa.array(frame[name], type=type_, from_pandas=True) for name, type_ in types.items()]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _type(values: pd.Series) -> pa.DataType | None:
    if values.isna().all():
        return None
    kind = pa.array(values, from_pandas=True).type
    return TEXT if pa.types.is_large_string(kind) else kind
