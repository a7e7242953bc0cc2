"""Types of the columns of a csv file (numbers, truth values or texts), which are found from all values.

The shape of a value is its text with 9 for each digit: 980,00 has the shape 999,99.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, guarded
from .columns import listing, nearest, shown
from .csv_file import CsvOptions, CsvTexts, Texts
from .dialect import (
    BLANKS,
    ONE_MARK,
    Choices,
    Dialect,
    Forms,
    as_text,
    decided,
    form_of,
    reading,
    readings,
    shapes_of,
)
from .missing_codes import Checked, codes_of_columns, text_forms

BLANK = ("",)  # a field of blanks
# Texts that programs write for a missing number.  In a column of texts, NA can be Namibia, and None an answer.
MISSING = (
    "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", ".",
    *BLANK,
)  # fmt: skip
TRUE, FALSE = ("True", "TRUE", "true"), ("False", "FALSE", "false")
EXACT = 2**53  # whole numbers up to this one are exact as floats
DIGITS = 25  # number of digits of a whole number that are read: more than fit in any type
ALONE_OR_SEVERAL = re.compile(r"-?(?:0|9+)|9+(?:[, ]9+)+")
SEVERAL = re.compile(r"9+(?:[, ]9+)+")
LONG = re.compile(r"[+-]?9{16,}|-?9{1,3}(?:(?:[.,' ])9{3}){5,}")  # whole numbers that may be above EXACT
VARIANTS = {".": r"\.", ",": ",", " ": f"[ {BLANKS}]", "'": "['\u2019]"}  # ways to write each mark between thousands
TYPES = {"text": pa.string(), "truth": pa.bool_(), "whole": pa.int64(), "large": pa.uint64(), "number": pa.float64()}
Kind = Literal["text", "truth", "whole", "large", "number"]


@dataclass
class Column:
    """A summary of a column, from the values that have been read so far.

    Attributes
    ----------
    as_is : bool
        True if the user wants the column as texts.
    shapes : set of str
        Shapes of the values that could be numbers (:func:`surveysynth.design.dialect.shapes_of`).
    truths, texts : bool
        ``truths``: True if some values are "true" or "false".  ``texts``: True if some values are other texts.
    gaps : int
        Number of missing values: empty texts, declared codes, and texts of the option ``na``.
    absent : dict of str to int
        How often texts such as "NA" occur.  They are missing values if the other values are numbers or truth values,
        and answers otherwise.
    choices : Choices
        Evidence on whether the values are answers to a question with several choices: "1,3" if choices 1 and 3 are
        ticked.
    low, high : int
        The smallest number below 0 and the largest number above 0, among whole numbers of 16 digits or more.
        They are 0 if there is no such number.
    """

    as_is: bool = False
    shapes: set[str] = field(default_factory=set)
    truths: bool = False
    texts: bool = False
    gaps: int = 0
    absent: dict[str, int] = field(default_factory=dict)
    choices: Choices = field(default_factory=Choices)
    low: int = 0
    high: int = 0

    def add(self, texts: pa.StringArray, like_na: Sequence[str]) -> None:
        """Add the texts of some records, null where missing, to the summary.

        Texts in ``like_na``, such as "NA", are counted in ``absent``.
        """
        self.gaps += texts.null_count
        if self.as_is:
            return
        texts = texts.drop_null()
        shapes = shapes_of(texts)
        found, counts = shapes.value_counts().flatten()
        absent = pc.is_in(found, pa.array(like_na))
        for text, count in zip(found.filter(absent), counts.filter(absent), strict=True):
            self.absent[text.as_py()] = self.absent.get(text.as_py(), 0) + count.as_py()
        found = found.filter(pc.invert(absent))
        numbers = []
        for each in found if not self.texts else ():
            shape = each.as_py()
            if readings(shape):
                numbers.append(shape)
            elif shape in (*TRUE, *FALSE):
                self.truths = True
            else:
                self.texts = True
                return
        self.shapes.update(numbers)
        self._look_closer(texts, shapes, numbers)

    def _look_closer(self, texts: pa.StringArray, shapes: pa.StringArray, numbers: list[str]) -> None:
        """Update the attributes that depend on the digits of the values: ``choices``, ``low`` and ``high``."""

        def values_like(form: re.Pattern[str]) -> pa.StringArray:
            alike = pa.array([shape for shape in numbers if form.fullmatch(shape.translate(ONE_MARK))], pa.string())
            return pc.unique(texts.filter(pc.is_in(shapes, alike))) if len(alike) else alike

        self.choices.possible &= all(ALONE_OR_SEVERAL.fullmatch(shape.translate(ONE_MARK)) for shape in numbers)
        if self.choices.possible:
            self.choices.add(text.as_py() for text in values_like(SEVERAL))
        for text in values_like(LONG).to_pylist():
            number = int(re.sub(r"[^\d-]", "", text)[:DIGITS])
            self.low, self.high = min(self.low, number), max(self.high, number)

    @property
    def answers(self) -> bool:
        """True if the column is text under any decimal mark.  "NA" is then a valid value, and not missing."""
        return self.as_is or self.texts or (self.truths and bool(self.shapes))

    @property
    def forms(self) -> Forms | None:
        """Shapes of the values (texts with 9 for each digit) if the column could be numeric, otherwise None."""
        if self.answers or not self.shapes:
            return None
        return Forms(self.shapes, self.choices.could_be(self.shapes))

    def kind(self, dialect: Dialect) -> Kind:
        """Return the type of the column, given the decimal mark and the mark between thousands in ``dialect``.

        The type is "text", "truth" (True and False), "whole" (64-bit integers), "large" (unsigned 64-bit integers) or
        "number" (floats).
        """
        if self.answers:
            return "text"
        if self.truths:
            return "truth"
        found = {reading(shape, dialect) for shape in self.shapes}
        if None in found:
            return "text"
        whole = all(re.fullmatch(r"[+-]?[09][^eEn]*", shape) for shape in self.shapes)
        if not found or not whole or any(mark for mark, _ in found if mark):  # type: ignore[misc]
            return "number"
        gaps = self.gaps + sum(self.absent.values()) > 0
        if gaps:
            return "number" if max(-self.low, self.high) <= EXACT else "text"
        if -(2**63) <= self.low and self.high < 2**63:
            return "whole"
        signed = any(shape[0] == "-" for shape in self.shapes)
        return "large" if self.high < 2**64 and not signed else "text"


class CsvColumns:
    """The types of the columns of a csv file, found from all values.

    Attributes
    ----------
    n : int
        Number of records.
    kinds : dict of str to Kind
        Kind of each column.
    """

    def __init__(self, blocks: Iterator[Texts], file: CsvTexts, codes: Checked, options: CsvOptions) -> None:
        """Read all ``blocks`` of ``file``, and find the types of columns.  ``codes`` are codes for missing values.

        Raises
        ------
        InputError
            Decimal or thousands marks of numbers contradict each other, or could be read in two ways; ``text`` or
            ``codes`` name a column that does not exist.
        """
        names = file.form.names
        for name in options.text:
            if name not in names:
                raise InputError(
                    f"text: there is no column {name!r}{nearest(name, names)}; the file has {listing(names)}"
                )
        self._declared = codes_of_columns(codes, names)
        self._na, self._names = options.na or (), names
        self._like_na = MISSING if options.na is None else BLANK
        self._columns = {name: Column(as_is=name in options.text) for name in names}
        self.n = 0
        for block in blocks:
            self.n += len(block[names[0]])
            for name, texts in block.items():
                self._columns[name].add(self._with_gaps(name, texts), self._like_na)
        forms = {name: column.forms for name, column in self._columns.items()}
        self._forms = {name: form for name, form in forms.items() if form is not None}
        self._dialect = decided(
            self._forms, file.file, separator=file.form.separator, decimal=options.decimal, thousands=options.thousands
        )
        self.kinds = {name: column.kind(self._dialect) for name, column in self._columns.items()}

    def frame(self, block: Texts) -> pd.DataFrame:
        """Return a block of records as a frame, with the texts of each column converted to the type of the column.

        Whole numbers become floats if some values of the column are missing.
        """
        return pd.DataFrame({name: self._values(name, texts) for name, texts in block.items()}, copy=False)

    def tell(self, file: str) -> None:
        """Warn about values of the file that can be read in several ways."""
        for note in self._notes():
            warnings.warn(f"{file!r}: {note}", stacklevel=2)

    def _with_gaps(self, name: str, texts: pa.StringArray) -> pa.StringArray:
        missing = ["", *self._na, *text_forms(self._declared.get(name, []))]
        found = pc.is_in(texts, pa.array(missing)) if len(missing) > 1 else pc.equal(texts, "")
        return pc.if_else(found, pa.scalar(None, pa.string()), texts) if pc.any(found).as_py() else texts

    def _values(self, name: str, texts: pa.StringArray) -> pd.Series:
        column, kind = self._columns[name], self.kinds[name]
        texts = self._with_gaps(name, texts)
        if column.absent and not column.answers:
            absent = pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(self._like_na))
            texts = pc.if_else(absent, pa.scalar(None, pa.string()), texts)
        if kind == "text":
            return pd.Series(texts.to_pandas(), dtype="str")
        if kind == "truth":
            truths = pd.Series(pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(TRUE)).to_pandas())
            return truths.where(texts.is_valid().to_pandas(), np.nan)
        return pd.Series(_numbers(texts, column.shapes, self._dialect, TYPES[kind]).to_pandas())

    def _notes(self) -> Iterator[str]:
        """Yield sentences for warnings about values that can be read in several ways."""
        names = self._names
        absent = {name: column.absent for name, column in self._columns.items() if column.absent}
        numbers = [name for name in absent if not self._columns[name].answers]
        missing = [text for name in numbers for text in absent[name]]
        if numbers:
            yield f"read as missing among numbers: {_quoted(missing)}, in {listing(names, about=numbers)}"
        for name in absent:
            records = sum(count for text, count in absent[name].items() if text)
            if records and self._columns[name].answers:
                answers = _quoted(text for text in absent[name] if text)
                na = _quoted(text for text in (*absent[name], *missing) if text)
                yield (
                    f"{shown(name, names)} has texts, of which {answers} in {records:,} "
                    f"{'row is' if records == 1 else 'rows are'} read as an answer: give na=[{na}] where it is a "
                    "missing value"
                )
        for name, form in self._forms.items():
            if self.kinds[name] == "text":
                yield self._why_text(name, form)
            elif form.choices:
                yield (
                    f"{shown(name, names)} is read as numbers; where it has answers that tick several choices, give "
                    f"{as_text(name, names)}"
                )

    def _why_text(self, name: str, form: Forms) -> str:
        column = shown(name, self._names)
        unread = sorted(shape for shape in form.shapes if reading(shape, self._dialect) is None)
        if not unread:
            return f"{column} has whole numbers with more digits than a number holds: it is read as texts"
        return (
            f"{column} has values of the form {form_of(unread[0])}, which is no number where the "
            f"decimal mark is {self._dialect.decimal!r}: it is read as texts"
        )


def read_csv(path: Path, codes: Checked, options: CsvOptions) -> pd.DataFrame:
    """Read a csv file into a data frame.  ``codes`` are the codes for missing values.

    The other arguments and the data frame are described at :func:`surveysynth.design.read.read_frame`.

    Raises
    ------
    InputError
        :class:`CsvTexts` or :class:`CsvColumns` refuses the file or the options.
    """
    file = CsvTexts(path, options)
    blocks = file.through(lambda found: list(found))
    columns = CsvColumns(iter(blocks), file, codes, options)
    columns.tell(file.file)
    whole = {name: pa.chunked_array([block[name] for block in blocks], pa.string()) for name in file.form.names}
    return guarded(lambda: columns.frame(whole), pa.ArrowException, file.unreadable)


def _numbers(texts: pa.ChunkedArray, shapes: Iterable[str], dialect: Dialect, kind: pa.DataType) -> pa.ChunkedArray:
    marks = {marks for shape in shapes if (marks := reading(shape, dialect)) is not None}
    if dialect.thousands is not None and any(thousands for _, thousands in marks if thousands):
        texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), VARIANTS[dialect.thousands], "")
    if any(decimal == "," for decimal, _ in marks):
        texts = pc.replace_substring(texts, ",", ".")
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid:
        return pc.cast(pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+", ""), kind)


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(repr(text) if text else "blanks" for text in dict.fromkeys(texts))
