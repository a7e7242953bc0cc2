"""Csv files as programs write them: commas or semicolons, decimal points or commas, utf-8 or an older encoding."""

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
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
import pandas as pd

from ..errors import InputError, guarded
from ..validation import one_of, rows
from .missing_codes import Checked

SUFFIXES = (".csv", ".csv.gz", ".csv.zip", ".csv.bz2", ".csv.xz")
OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SEPARATORS = (",", ";", "\t", "|")
BEGINNING = 1 << 20  # characters in which the header line is looked for
SAID = re.compile(r"\"?sep=(.)\"?[\r\n]*", re.IGNORECASE)  # Excel's first line, which is not the header

# A sign, digits without a leading zero (01,02 are codes), dots between thousands, a comma; SPSS writes ,5 for 0,5.
WHOLE, THOUSANDS, EXPONENT = r"(?:0|[1-9]\d*)", r"[1-9]\d{0,2}(?:\.\d{3})+", r"(?:[eE][+-]?\d+)?"
DECIMAL = rf"[+-]?(?:{WHOLE}|{THOUSANDS})?,\d+{EXPONENT}"
DOTTED = rf"[+-]?{THOUSANDS},\d+"


Refusal = Callable[[str], InputError]
Blocks = Iterator[pd.DataFrame]


@dataclass(frozen=True)
class Form:
    """How a csv file is written.

    Attributes
    ----------
    separator : str
        Between columns.
    before : int
        Lines before the header line.
    encoding : str
    """

    separator: str
    before: int
    encoding: str


def read_csv(
    path: Path, codes: Checked, *, encoding: str | None, separator: str | None, decimal: str | None
) -> pd.DataFrame:
    """Read a csv file, as :func:`surveysynth.design.read.read_frame` says.

    Raises
    ------
    InputError
        An unknown encoding, or another than the file's; rows of more fields than there are columns; a file that
        cannot be read.
    """
    form, refused = form_of(path, encoding, separator, decimal)
    frame = guarded(lambda: _parsed(path, form, codes, decimal), Exception, refused)
    if decimal_commas(decimal, form):
        for name in frame.columns:
            if isinstance(frame[name].dtype, pd.StringDtype):
                frame[name] = _with_points(frame[name])
    return frame


def csv_blocks(path: Path, form: Form, refused: Refusal, codes: Checked, decimal: str | None, **pandas: Any) -> Blocks:
    """A csv file, so many records (``chunksize``) at a time; every block has types of its own."""
    reader = guarded(lambda: _parsed(path, form, codes, decimal, **pandas), Exception, refused)

    def after() -> pd.DataFrame | None:
        with _strictly():
            return next(reader, None)

    while (block := guarded(after, Exception, refused)) is not None:
        yield block


def form_of(path: Path, encoding: str | None, separator: str | None, decimal: str | None) -> tuple[Form, Refusal]:
    """How a csv file is written, and what to raise where it cannot be read, of the name of pandas' exception.

    Raises
    ------
    InputError
        As :func:`read_csv`.
    """
    _check_options(encoding, separator, decimal)

    def unreadable(kind: str) -> InputError:
        return InputError(f"{path.name!r} could not be read ({kind}); is it a whole file?")

    form, overlong = guarded(lambda: _form(path, encoding, separator, decimal), Exception, unreadable)

    def refused(kind: str) -> InputError:
        if kind == "UnicodeDecodeError":
            return guarded(lambda: _of_another_encoding(path, encoding), Exception, unreadable)
        if kind in ("ParserError", "ParserWarning"):
            return guarded(lambda: _overlong(path, form), Exception, unreadable) or unreadable(kind)
        return unreadable(kind)

    if overlong:  # pandas takes the first column for row names then
        raise refused("ParserError")
    return form, refused


def decimal_commas(decimal: str | None, form: Form) -> bool:
    """Whether texts can be numbers with a decimal comma."""
    return decimal == "," or (decimal is None and form.separator != ",")


def _parsed(path: Path, form: Form, codes: Checked, decimal: str | None, **pandas: Any) -> Any:
    """What pandas makes of the file: a frame, or a reader of blocks where there is a ``chunksize``."""
    missing: Any = codes or None  # numbers, too, which pandas' annotation has not
    with _strictly():
        return pd.read_csv(
            path, sep=form.separator, encoding=form.encoding, skiprows=form.before, na_values=missing,
            decimal="," if decimal == "," != form.separator else ".", index_col=False, low_memory=False, **pandas,
        )  # fmt: skip


@contextmanager
def _strictly() -> Iterator[None]:
    """Fields that pandas would leave out are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def _check_options(encoding: str | None, separator: str | None, decimal: str | None) -> None:
    if encoding is not None:

        def unknown(kind: str) -> InputError:
            return InputError(f"encoding={encoding!r} is not one that Python knows, such as 'utf-8' or 'cp1252'")

        guarded(lambda: codecs.lookup(encoding), (LookupError, TypeError, ValueError), unknown)
    given = isinstance(separator, str) and len(separator) == 1 and separator.isascii() and separator not in '"\r\n'
    if separator is not None and not given:
        raise InputError("separator must be one character, such as ';' or '\\t'")
    if decimal is not None:
        one_of(decimal, (".", ","), "decimal")


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
    """The file as text whatever its encoding: pandas refuses what is in another."""
    return io.TextIOWrapper(file, "utf-8-sig" if encoding == "utf-8" else encoding, errors="replace", newline="")


def _records(lines: Iterable[str], separator: str, *, strict: bool = False) -> Iterator[list[str]]:
    """The header and the records as lists of fields, without empty lines, which pandas leaves out, too."""
    found = csv.reader(lines, delimiter=separator, strict=strict)
    return (record for record in found if len(record) > 1 or "".join(record).strip())


def _form(path: Path, encoding: str | None, separator: str | None, decimal: str | None) -> tuple[Form, bool]:
    """How the file is written, and whether its first record has more fields than the header."""
    encoding = "utf-8" if encoding is None else codecs.lookup(encoding).name
    with _opened(path) as file:
        lines = _text(file, encoding).readlines(BEGINNING)
    said = SAID.fullmatch(lines[0]) if lines else None
    lines = lines[1:] if said else lines
    found = separator or (said[1] if said else _separator(lines, decimal))
    header, first = [*islice(_records(lines, found), 2), [], []][:2]
    return Form(found, 1 if said else 0, encoding), len(first) > len(header)


def _separator(lines: list[str], decimal: str | None) -> str:
    """The one that splits the header into most fields; a comma where there is one column."""
    likely = SEPARATORS if decimal != "," else (*SEPARATORS[1:], ",")
    return max(likely, key=lambda separator: _fields(lines, separator))


def _fields(lines: list[str], separator: str) -> int:
    """How many fields the header has; none where a text in quotes would end amid a field, as "a,b";c by commas."""
    try:
        return len(next(_records(lines, separator, strict=True), []))
    except csv.Error:
        return 0


@dataclass
class Commas:
    """Whether texts, looked at block by block, are numbers of which some have a decimal comma.

    Attributes
    ----------
    found : bool
        Some have one.
    dotted : bool
        Some have dots between thousands and a decimal comma: 1.234 is a thousand only where a 1.234,5 shows what
        dots are for.
    plain, thousands : bool
        All are numbers, without dots between thousands or with them.
    """

    found: bool = False
    dotted: bool = False
    plain: bool = True
    thousands: bool = True

    def add(self, column: pd.Series) -> Commas:
        """Look at some more texts."""
        there = column.dropna().str.strip()
        any_whole = f"(?:{WHOLE}|{THOUSANDS})"
        self.thousands = self.thousands and bool(there.str.fullmatch(rf"{DECIMAL}|[+-]?{any_whole}{EXPONENT}").all())
        if self.thousands:
            self.found |= bool(there.str.fullmatch(DECIMAL).any())
            self.dotted |= bool(there.str.fullmatch(DOTTED).any())
            self.plain &= bool(there.str.fullmatch(rf"{DECIMAL}|[+-]?{WHOLE}{EXPONENT}").all())
        return self

    @property
    def numbers(self) -> bool:
        """Whether they are."""
        return self.found and self.thousands and (self.dotted or self.plain)


def pointed(column: pd.Series) -> pd.Series:
    """Texts that are numbers with decimal commas, as numbers."""
    points = column.str.strip().str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    return points.astype("float64")


def _with_points(column: pd.Series) -> pd.Series:
    """A text column as numbers, if all its values are numbers and some have a decimal comma; else as it is."""
    return pointed(column) if Commas().add(column).numbers else column


def _overlong(path: Path, form: Form) -> InputError | None:
    """The refusal of records with more fields than the header, if there are any."""
    with _opened(path) as file:
        records = _records(islice(_text(file, form.encoding), form.before, None), form.separator)
        columns = len(next(records))
        longer = np.array([len(record) > columns for record in records], dtype=bool)
    if not longer.any():
        return None
    return InputError(
        f"{path.name!r} has {columns:,} column names but more fields in {rows(longer)}: name every column in the first "
        f"line, put texts that hold {form.separator!r} in quotes, or say by separator= what is between columns"
    )


def _of_another_encoding(path: Path, encoding: str | None) -> InputError:
    """The refusal of a file that is not in the encoding; its lines are numbered from 1, the header line."""
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
