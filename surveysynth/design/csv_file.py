"""Functions that read csv files of various programs, with all values as texts.

The columns may be separated by commas, semicolons, tabs or other characters, and the file may be in utf-8 or in another
encoding.  A block is a part of the records, which are read together.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow

from ..errors import InputError, guarded
from ..validation import one_of, rows
from .columns import listing
from .dialect import DECIMALS, THOUSANDS

SUFFIXES = (".csv", ".csv.gz", ".csv.zip", ".csv.bz2", ".csv.xz")
OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SEPARATORS = (",", ";", "\t", "|")
BLOCK_BYTES, BLOCK_ROWS = 1 << 24, 1 << 16  # size of a block read by Arrow and by pandas
BEGINNING = 1 << 20  # characters searched for the header line
SEPARATOR_LINE = re.compile(r"\"?sep=(.)\"?[\r\n]*", re.IGNORECASE)  # Excel's first line, which is not the header

Texts = dict[str, pa.StringArray]  # texts of some records, by column, without missing values
T = TypeVar("T")


@dataclass(frozen=True)
class CsvOptions:
    """Options for reading a csv file.

    If the separator or a mark is None, it is found from the file.  If the encoding is None, it is utf-8.

    Attributes
    ----------
    encoding, separator : str, optional
        Encoding of the file, and separator of its columns.
    decimal : {".", ","}, optional
        The decimal mark in numbers.
    thousands : {".", ",", " ", "'"}, optional
        The mark between thousands in numbers.
    text : tuple of str
        Columns that are read as texts.
    na : tuple of str, optional
        Texts that are missing values in every column, besides the empty text.  If it is None, "NA" and similar texts
        are missing values in columns of numbers.
    """

    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    text: tuple[str, ...] = ()
    na: tuple[str, ...] | None = None

    def check(self) -> None:
        """Raise InputError for an impossible encoding, separator, decimal mark or mark between thousands."""
        encoding, separator = self.encoding, self.separator
        if encoding is not None:

            def unknown(kind: str) -> InputError:
                return InputError(f"encoding={encoding!r} is not one that Python knows, such as 'utf-8' or 'cp1252'")

            guarded(lambda: codecs.lookup(encoding), (LookupError, TypeError, ValueError), unknown)
        given = isinstance(separator, str) and len(separator) == 1 and separator.isascii() and separator not in '"\r\n'
        if separator is not None and not given:
            raise InputError("separator must be one character, such as ';' or '\\t'")
        if self.decimal is not None:
            one_of(self.decimal, DECIMALS, "decimal")
        if self.thousands is not None:
            if not (isinstance(self.thousands, str) and self.thousands in THOUSANDS):
                raise InputError("thousands must be the mark between thousands: '.', ',', ' ' or \"'\"")
            if self.thousands == self.decimal:
                raise InputError(f"thousands={self.thousands!r} is the decimal mark, too: give one of them")


@dataclass(frozen=True)
class Form:
    """The form of a csv file: separator, header and encoding.

    Attributes
    ----------
    separator : str
        Separator of columns.
    before : int
        Number of lines before the header line.
    encoding : str
        Name of the encoding, such as "utf-8".
    names : tuple of str
        Names of the columns, without the blanks around them.
    """

    separator: str
    before: int
    encoding: str
    names: tuple[str, ...]


class _OtherParser(Exception):
    """Error for a csv file that Arrow cannot read, so that the slower pandas has to read the file."""


class CsvTexts:
    """The values of a csv file as texts, block by block.

    Arrow reads the file, or pandas if Arrow cannot.  If a record has too few fields, the missing ones are empty texts.

    Attributes
    ----------
    file : str
        Name of the file.
    form : Form
    """

    def __init__(self, path: Path, options: CsvOptions) -> None:
        """Read the header line, and find the form of the file.

        Raises
        ------
        InputError
            An impossible option; several columns of the same name; a first record with more fields than there are
            columns; a file that cannot be read.
        """
        options.check()
        self.file, self._path, self._encoding = path.name, path, options.encoding
        separator, before, encoding, header, overlong = guarded(
            lambda: _beginning(path, options), Exception, self.unreadable
        )
        if not header:
            raise self.unreadable("EmptyFile")
        self.form = Form(separator, before, encoding, _names(self.file, header))
        self._by_arrow = len(header) > 1  # in a file of one column, pandas leaves out blank lines
        if overlong:  # pandas would take the first column for row names
            raise self._refused("ParserError")

    def through(self, work: Callable[[Iterator[Texts]], T]) -> T:
        """Apply the function ``work`` to an iterator over all blocks of records, and return the result of ``work``.

        If Arrow cannot read the file to its end, ``work`` is called again, with all blocks as read by pandas.

        Raises
        ------
        InputError
            The file has another encoding, has records with more fields than there are columns, or cannot be read.
        """
        if self._by_arrow:
            try:
                return work(self._arrow_blocks())
            except _OtherParser:
                self._by_arrow = False
        return work(self._pandas_blocks())

    def _arrow_blocks(self) -> Iterator[Texts]:
        form = self.form
        types = {f"f{number}": pa.string() for number in range(len(form.names))}  # Arrow's names of the columns
        with _opened(self._path) as file:
            counted = _Quotes(file)
            reader = _by_arrow(
                lambda: arrow.open_csv(
                    pa.PythonFile(counted, mode="r"),
                    arrow.ReadOptions(
                        encoding=form.encoding, skip_rows=form.before, autogenerate_column_names=True,
                        block_size=BLOCK_BYTES, use_threads=False,
                    ),
                    arrow.ParseOptions(delimiter=form.separator, newlines_in_values=True),
                    arrow.ConvertOptions(column_types=types),
                )
            )  # fmt: skip
            if len(reader.schema.names) != len(form.names):
                raise _OtherParser
            header = 1
            while (block := _by_arrow(lambda: next(reader, None))) is not None:
                yield dict(zip(form.names, block.slice(header).columns, strict=True))
                header = 0
            if counted.odd:  # the last text in quotes has no end
                raise _OtherParser

    def _pandas_blocks(self) -> Iterator[Texts]:
        form = self.form

        def opened() -> Any:
            with _strictly():
                return pd.read_csv(
                    self._path, sep=form.separator, encoding=form.encoding, skiprows=form.before, header=0,
                    names=list(form.names), index_col=False, dtype=str, na_filter=False, chunksize=BLOCK_ROWS,
                )  # fmt: skip

        def following() -> pd.DataFrame | None:
            with _strictly():
                return next(reader, None)

        reader = guarded(opened, Exception, self._refused)
        while (block := guarded(following, Exception, self._refused)) is not None:
            yield {str(name): _one_array(pa.array(block[name], type=pa.string())) for name in block}

    def unreadable(self, kind: str) -> InputError:
        """Make the error for a file that cannot be read.  ``kind`` is the name of the parser's exception."""
        return InputError(f"{self.file!r} could not be read ({kind}); is it a whole file?")

    def _refused(self, kind: str) -> InputError:
        if kind == "UnicodeDecodeError":
            return guarded(lambda: _wrong_encoding(self._path, self._encoding), Exception, self.unreadable)
        if kind in ("ParserError", "ParserWarning"):
            overlong = guarded(lambda: _overlong(self._path, self.form), Exception, self.unreadable)
            return overlong or self.unreadable(kind)
        return self.unreadable(kind)


class _Quotes:
    """A file that counts its quotation marks while it is read, since Arrow does not report one that is never closed.

    ``odd`` is True if the number of quotation marks read so far is odd.
    """

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.odd = False

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self.odd ^= content.count(b'"') % 2 == 1
        return content


def _by_arrow(work: Callable[[], T]) -> T:
    try:
        return work()
    except (pa.ArrowException, UnicodeError, OSError, EOFError, lzma.LZMAError, ValueError):
        pass
    raise _OtherParser


def _one_array(texts: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


@contextmanager
def _strictly() -> Iterator[None]:
    """Make pandas raise an error, within this context, when it would silently drop fields of a record."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    suffix = path.suffix.lower()
    if suffix == ".zip":
        with ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
            yield file
    else:
        with OPEN.get(suffix, open)(path, "rb") as file:
            yield file


def _text(file: IO[bytes], encoding: str) -> io.TextIOWrapper:
    """Open a file as text.  Bytes that do not fit the encoding are replaced here, and pandas refuses them later."""
    return io.TextIOWrapper(file, "utf-8-sig" if encoding == "utf-8" else encoding, errors="replace", newline="")


def _records(lines: Iterable[str], separator: str, *, strict: bool = False) -> Iterator[list[str]]:
    """Split lines into lists of fields.  Empty lines are skipped, as in pandas.

    With ``strict``, it is an error if a field goes on after a closing quotation mark, as in "a"b.
    """
    found = csv.reader(lines, delimiter=separator, strict=strict)
    return (record for record in found if len(record) > 1 or "".join(record).strip())


def _beginning(path: Path, options: CsvOptions) -> tuple[str, int, str, list[str], bool]:
    """Find the separator, the encoding and the header of a csv file from its first lines.

    Return five things: the separator, the number of lines before the header, the encoding, the fields of the header,
    and True if the first record has more fields than the header.
    """
    encoding = "utf-8" if options.encoding is None else codecs.lookup(options.encoding).name
    with _opened(path) as file, _text(file, encoding) as text:
        lines = text.readlines(BEGINNING)
    excel = SEPARATOR_LINE.fullmatch(lines[0]) if lines else None
    lines = lines[1:] if excel else lines
    separator = options.separator or (excel[1] if excel else _separator(lines, options.decimal, options.thousands))
    header, first = [*islice(_records(lines, separator), 2), [], []][:2]
    return separator, 1 if excel else 0, encoding, header, len(first) > len(header)


def _names(file: str, header: list[str]) -> tuple[str, ...]:
    """Return the names of columns in the header of a file.  Raise InputError if two names are equal.

    Blanks around names are removed, with a warning.  A column without a name, at position 3 from 0, is "Unnamed: 3".
    """
    names = [name.strip() or f"Unnamed: {number}" for number, name in enumerate(header)]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise InputError(
            f"{file!r} has several columns of the same name: {listing(names, about=twice)}; rename them in the file"
        )
    changed = [name for name, written in zip(names, header, strict=True) if written.strip() not in ("", written)]
    if changed:
        warnings.warn(
            f"{file!r} has blanks around the names of columns, which are left out: {listing(names, about=changed)}",
            stacklevel=2,
        )
    return tuple(names)


def _separator(lines: list[str], decimal: str | None, thousands: str | None) -> str:
    """Find the separator that splits the header into the largest number of fields.

    If no character splits the header (a file of one column), the separator is a comma, or a semicolon if the caller
    says that numbers have commas.
    """
    likely = SEPARATORS if "," not in (decimal, thousands) else (*SEPARATORS[1:], ",")
    return max(likely, key=lambda separator: _fields(lines, separator))


def _fields(lines: list[str], separator: str) -> int:
    """Count the fields of the header.  The count is 0 if a field goes on after a closing quotation mark.

    For example, the header "a,b";c has no fields if the separator is a comma.
    """
    try:
        return len(next(_records(lines, separator, strict=True), []))
    except csv.Error:
        return 0


def _overlong(path: Path, form: Form) -> InputError | None:
    """Make the error for records with more fields than the header.  Return None if there are no such records."""
    with _opened(path) as file, _text(file, form.encoding) as text:
        records = _records(islice(text, form.before, None), form.separator)
        columns = len(next(records))
        longer = np.array([len(record) > columns for record in records], dtype=bool)
    if not longer.any():
        return None
    return InputError(
        f"{path.name!r} has {columns:,} column names but more fields in {rows(longer)}: name every column in the first "
        f"line, put texts that hold {form.separator!r} in quotes, or give separator=, the character between columns"
    )


def _wrong_encoding(path: Path, encoding: str | None) -> InputError:
    """Make the error for a csv file that is not in ``encoding`` or, if ``encoding`` is None, not in utf-8."""
    if encoding is not None:
        return InputError(f"{path.name!r} is not in encoding={encoding!r}; give the one that it was written in")
    with _opened(path) as file:
        beginning = file.read(2)
    if beginning in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return InputError(f"{path.name!r} is not utf-8 but utf-16: read it with encoding='utf-16'")
    with _opened(path) as file:
        bad = [number for number, line in enumerate(file, 1) if not _is_utf8(line)]
    listed = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
    return InputError(
        f"{path.name!r} is not utf-8 in {len(bad):,} {'line' if len(bad) == 1 else 'lines'} (line numbers {listed}): "
        "read it with encoding='cp1252', which Windows programs of western Europe write, or with what it was written in"
    )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
