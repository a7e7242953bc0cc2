"""Parquet, which large files are read from, of csv, Stata, SPSS and SAS files, block by block.

A column's type is that of all its values, so the file is read twice: to find types, and to write.  A csv file is read
three times where a column is numbers in some blocks and texts in others: then it is texts, as they stand in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat

from ..errors import InputError, guarded
from ..storage import whole_file
from . import csv_file
from .csv_file import Commas
from .missing_codes import Checked, Code, MissingCodes, checked_codes, codes_of_columns
from .read import (
    OF_ONE_ENCODING,
    READERS,
    Labels,
    by_label,
    headings,
    kind_of,
    names_of,
    unreadable,
    warn_of_labelled,
    without_declared,
)
from .scan import BLOCK, HEADING

TEXT, NUMBER = pa.string(), pa.float64()
Names = dict[str, dict[Code, str]]  # of columns: what values are called
Blocks = Iterator[tuple[pd.DataFrame, Names, Labels]]
Read = Callable[[frozenset[str]], Blocks]  # of columns that are to be texts


@dataclass
class _Column:
    """What the values of a column have been so far.

    Attributes
    ----------
    type : pyarrow.DataType, optional
        Nothing where all are missing.
    mixed : bool
        Numbers and texts.
    commas : Commas
        Of texts, where a decimal comma may be one.
    named, others : int, bool
        How many values have a label, and whether some have none.
    """

    type: pa.DataType | None = None
    mixed: bool = False
    commas: Commas = field(default_factory=Commas)
    named: int = 0
    others: bool = False

    def add(self, values: pd.Series, names: dict[Code, str]) -> None:
        """Look at some more."""
        here = _type(values)
        if here is not None and self.type is not None and here != self.type:
            self.mixed |= {here, self.type} != {pa.int64(), NUMBER}
            here = NUMBER
        self.type = here or self.type
        if here == TEXT:
            self.commas.add(values)
        if names:
            inside = values.isin(list(names))
            self.named += int(inside.sum())
            self.others |= bool((~inside & values.notna()).any())


def convert(
    source: str | Path, to: str | Path, *, missing_codes: MissingCodes | None = None, encoding: str | None = None,
    separator: str | None = None, decimal: str | None = None,
) -> None:  # fmt: skip
    """Write a csv, Stata, SPSS or SAS file as parquet, block by block, for :meth:`SurveyDesign.scan`.

    Types, categories, missing values and headings are as if :meth:`SurveyDesign.read` had read the whole file; in
    memory there are never more than a few hundred thousand records.

    Parameters
    ----------
    source : str or Path
        .csv (also .gz, .zip, .bz2, .xz), .dta, .sav, .zsav, .por, .sas7bdat, .xpt
    to : str or Path
        The .parquet file, which appears whole or not at all, for its owner alone.
    missing_codes, encoding, separator, decimal
        As for :meth:`SurveyDesign.read`.

    Raises
    ------
    InputError
        As :meth:`SurveyDesign.read`; a source that is parquet already, another ending of ``to``, a file that is there.

    Examples
    --------
    >>> pd.DataFrame({"income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]}).to_csv("incomes.csv", index=False)
    >>> ss.convert("incomes.csv", "incomes.parquet")
    >>> ss.SurveyDesign.scan("incomes.parquet", weights="wt").n
    4
    """
    path, place = Path(source), Path(to)
    is_csv, suffix = kind_of(path, encoding, separator, decimal)
    if suffix == ".parquet":
        raise InputError(f"{path.name!r} is a parquet file: scan() reads it as it is")
    if place.suffix.lower() != ".parquet":
        raise InputError(f"{place.name!r} must end in .parquet, which scan() reads")
    if place.exists():
        raise InputError(f"there is a file {str(place)!r} already: take another name, or remove it")
    codes = checked_codes(missing_codes)
    if is_csv:
        form, refused = csv_file.form_of(path, encoding, separator, decimal)
        read, commas = _of_csv(path, form, refused, codes, decimal), csv_file.decimal_commas(decimal, form)
    else:
        read, commas = _of_labelled(path, suffix, codes, encoding), False

    def converted() -> None:
        found, names, said = _looked_at(read(frozenset()), missing_codes)
        if mixed := frozenset(name for name, column in found.items() if column.mixed):
            found, names, said = _looked_at(read(mixed), missing_codes)
        _write(read(mixed), place, found, names, said, commas=commas)

    guarded(converted, pa.ArrowException, lambda kind: unreadable(path, kind))  # arrow's messages quote values


def _of_csv(path: Path, form: csv_file.Form, refused: csv_file.Refusal, codes: Checked, decimal: str | None) -> Read:
    def read(texts: frozenset[str]) -> Blocks:
        kinds = dict.fromkeys(texts, str)
        for frame in csv_file.csv_blocks(path, form, refused, codes, decimal, chunksize=BLOCK, dtype=kinds):
            yield without_declared(frame, codes_of_columns(codes, frame.columns), {}), {}, {}

    return read


def _of_labelled(path: Path, suffix: str, codes: Checked, encoding: str | None) -> Read:
    def failed(kind: str) -> InputError:
        return unreadable(path, kind, encoding, asked=suffix not in OF_ONE_ENCODING)

    given: dict[str, Any] = {} if encoding is None else {"encoding": encoding}

    def read(texts: frozenset[str]) -> Blocks:
        blocks = pyreadstat.read_file_in_chunks(READERS[suffix], str(path), chunksize=BLOCK, **given)
        while (block := guarded(lambda: next(blocks, None), Exception, failed)) is not None:
            frame, meta = block
            declared = codes_of_columns(codes, frame.columns)
            labels = meta.variable_value_labels
            names = {column: names_of(every, declared.get(column, [])) for column, every in labels.items()}
            yield without_declared(frame.replace("", np.nan), declared, labels), names, headings(meta)

    return read


def _looked_at(blocks: Blocks, missing_codes: MissingCodes | None) -> tuple[dict[str, _Column], Names, Labels]:
    """What the columns hold, what values are called where all have a name, and headings."""
    found: dict[str, _Column] = {}
    names: Names = {}
    texts: Labels = {}
    records = 0
    for frame, names, said in blocks:
        texts, records = said, records + len(frame)
        for name in frame.columns:
            found.setdefault(name, _Column()).add(frame[name], names.get(name, {}))
    if not records:
        raise InputError("the file has no records")
    kept, declared = {}, codes_of_columns(checked_codes(missing_codes), found)
    for name, labels in names.items():
        column = found[name]
        if labels and not column.others:
            kept[name] = labels
        elif labels and column.named:
            where = f"{column.named:,} {'row' if column.named == 1 else 'rows'}"
            warn_of_labelled(name, labels, where, declared.get(name, []), missing_codes)
    return found, kept, texts


def _write(
    blocks: Blocks, place: Path, found: dict[str, _Column], names: Names, said: Labels, *, commas: bool
) -> None:
    import pyarrow.parquet as pq  # needs ssl, which not every Python has that runs within R

    numbers = {name for name, column in found.items() if commas and column.type == TEXT and column.commas.numbers}
    types = {name: NUMBER if name in numbers else column.type or NUMBER for name, column in found.items()}
    types |= {name: pa.dictionary(pa.int32(), TEXT) for name in names}
    schema = pa.schema([pa.field(n, t, metadata={HEADING: said[n]} if n in said else None) for n, t in types.items()])
    with whole_file(place, replace=False) as file, pq.ParquetWriter(file, schema) as writer:
        for frame, _, _ in blocks:
            for name in numbers:  # a block of missing values alone is no text
                frame[name] = csv_file.pointed(frame[name].astype(str).where(frame[name].notna()))
            for name, labels in names.items():
                frame[name] = by_label(frame[name], labels)
            arrays = [pa.array(frame[name], type=type_, from_pandas=True) for name, type_ in types.items()]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _type(values: pd.Series) -> pa.DataType | None:
    """Of a block's values; nothing where all are missing."""
    if values.isna().all():
        return None
    kind = pa.array(values, from_pandas=True).type
    return TEXT if pa.types.is_large_string(kind) else kind
