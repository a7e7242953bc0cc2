"""The marks in the numbers of a csv file: decimal points or commas, and marks between thousands.

"1.234" can be more than a thousand in one file, and a little more than 1 in another.  Other values of the file decide:
"980,00" has a decimal comma, so points stand between thousands.  The dialect (the decimal mark and the mark between
thousands) is therefore decided once for the whole file, from all columns that could be numeric.  A file that could be
read in two ways is refused, and the message names the argument that decides.  There is one assumption: if commas
separate the columns and no number has a comma, a point is a decimal point.

Only the shape of a value matters, which has 9 for each digit (a leading zero stays 0): 980,00 has the shape 999,99.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from .columns import shown

DECIMALS, THOUSANDS = (".", ","), (".", ",", " ", "'")
BLANKS = "\u00a0\u2007\u2009\u202f"  # blanks of word processors between thousands: no-break, figure, thin
ONE_MARK = str.maketrans(dict.fromkeys(BLANKS, " ") | {"\u2019": "'"})

# The shape of a text has 9 for every digit, except for a leading zero.  01 and 01.11 are codes, not numbers.
WHOLE, EXPONENT = r"(?:0|9+)", r"(?:[eE][+-]?9+)?"
INFINITE = r"[+-]?(?i:inf|infinity)"
DIGITS = np.arange(256, dtype=np.uint8)
DIGITS[ord("0") : ord("9") + 1] = ord("9")
Reading = tuple[str | None, str | None]  # the decimal mark, and the mark between thousands


@dataclass(frozen=True)
class Dialect:
    """The marks that a file uses in its numbers.

    Attributes
    ----------
    decimal : {".", ","}
        The decimal mark.
    thousands : {".", ",", " ", "'"}, optional
        The mark between thousands, if any.
    """

    decimal: str = "."
    thousands: str | None = None


DIALECTS = tuple(
    Dialect(decimal, thousands) for decimal in DECIMALS for thousands in (None, *THOUSANDS) if thousands != decimal
)


def shapes_of(texts: pa.StringArray) -> pa.StringArray:
    """Return the shapes of texts: 9 for every digit, but 0 for a leading zero.  Blanks around a text are removed."""
    ends = np.frombuffer(texts.buffers()[1], dtype=np.int32)[texts.offset :][: len(texts) + 1]
    if len(texts) == 0 or ends[-1] == ends[0]:
        return texts
    data = np.frombuffer(texts.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]]
    starts, lengths = ends[:-1] - ends[0], np.diff(ends)
    there = lengths > 0
    outer = data[np.concatenate([starts[there], starts[there] + lengths[there] - 1])]
    if ((outer <= ord(" ")) | (outer >= 0x80)).any():
        trimmed = pc.utf8_trim_whitespace(texts)
        if not trimmed.equals(texts):
            return shapes_of(trimmed)
    signed = there & (lengths > 1) & np.isin(data[np.minimum(starts, len(data) - 1)], [ord("+"), ord("-")])
    first = (starts + signed)[there]
    marked = DIGITS[data]
    marked[first[data[first] == ord("0")]] = ord("0")
    buffers = [None, pa.py_buffer((ends - ends[0]).astype(np.int32)), pa.py_buffer(marked)]
    return pa.StringArray.from_buffers(len(texts), *buffers[1:])


@lru_cache(maxsize=1 << 14)
def readings(shape: str) -> frozenset[Reading]:
    """Return the ways to read a shape such as "9,999" as a number: pairs (decimal mark, mark between thousands).

    A mark is None if the shape, read in this way, does not have it.  For 9.999, the pairs are (".", None) and
    (None, ".").  The set is empty if the shape is no number.
    """
    shape = shape.translate(ONE_MARK)
    found: set[Reading] = set()
    if re.fullmatch(rf"[+-]?{WHOLE}{EXPONENT}|{INFINITE}", shape):
        found.add((None, None))
    if re.fullmatch(rf"[+-]?(?:{WHOLE}?\.9+|{WHOLE}\.){EXPONENT}", shape):
        found.add((".", None))
    if re.fullmatch(rf"[+-]?{WHOLE}?,9+{EXPONENT}", shape):
        found.add((",", None))
    grouped = re.fullmatch(r"-?9{1,3}(?P<mark>[.,' ])9{3}(?:(?P=mark)9{3})*(?:(?P<decimal>[.,])9+)?", shape)
    if grouped and grouped["mark"] != grouped["decimal"]:
        found.add((grouped["decimal"], grouped["mark"]))
    return frozenset(found)


def reading(shape: str, dialect: Dialect) -> Reading | None:
    """Return the decimal mark and the mark between thousands that a shape, such as "9,999", has under ``dialect``.

    They are one of the pairs of :func:`readings`.  Return None if the shape is no number in this dialect.
    """
    for decimal, thousands in readings(shape):
        if decimal in (None, dialect.decimal) and thousands in (None, dialect.thousands):
            return decimal, thousands
    return None


@dataclass
class Choices:
    """Evidence on whether texts such as "1,3" are answers (choices 1 and 3 are ticked) or numbers with a comma.

    An answer lists whole numbers above 0 in ascending order.  So 2,0 (zero) and 3,2 (descending) are not answers.  In a
    column of answers, the last number of an answer has no more digits than the longest number that comes first or
    alone.  So 1,75 is not an answer if no number above 9 comes first or alone.  If all values with a comma are halves
    (1,5 and 2,5), they are numbers.

    Attributes
    ----------
    possible : bool
        True if all values so far could be answers.
    several : bool
        True if some values tick more than one choice.
    """

    possible: bool = True
    several: bool = False
    _halves: bool = True
    _long: bool = False  # whether a second choice has three digits, as between marks of thousands
    _first: int = 0
    _last: int = 0
    _lengths: set[int] = field(default_factory=set)

    def add(self, texts: Iterable[str]) -> None:
        """Update the evidence with values that contain a comma or a blank."""
        for text in texts:
            parts = re.split("[, ]", text.strip().translate(ONE_MARK))
            numbers = [int(part) if part.isdecimal() and part[0] != "0" else 0 for part in parts]
            if not (0 < numbers[0] and all(a < b for a, b in pairwise(numbers))):
                self.possible = False
                return
            self.several = True
            self._halves &= numbers[1:] == [5]
            self._long |= len(parts[1]) == 3
            self._first, self._last = max(self._first, len(parts[0])), max(self._last, len(parts[-1]))
            self._lengths |= {len(part) for part in parts}

    def could_be(self, shapes: Iterable[str]) -> bool:
        """Return True if the values of the column could be answers that tick several choices.

        ``shapes`` are the shapes of all values of the column.
        """
        if not (self.possible and self.several) or self._halves:
            return False
        alone = {len(shape) for shape in shapes if re.fullmatch("9+", shape)}
        if self._long and self._lengths | alone != {3}:
            return False
        return max(self._first, *alone, 0) >= self._last


@dataclass
class Forms:
    """The shapes (texts with 9 for each digit) of the values of a column that could be numeric.

    Attributes
    ----------
    shapes : set of str
        The distinct shapes.
    choices : bool
        True if the values could be answers that tick several choices.
    """

    shapes: set[str]
    choices: bool = False

    @property
    def dialects(self) -> frozenset[Dialect]:
        """The dialects (decimal mark and mark between thousands) in which every value of the column is a number."""
        return frozenset(d for d in DIALECTS if all(reading(shape, d) for shape in self.shapes))


def decided(
    columns: Mapping[str, Forms], file: str, *, separator: str, decimal: str | None, thousands: str | None
) -> Dialect:
    """Decide on the dialect of a file, from its columns and from the marks that the caller gives.

    Parameters
    ----------
    columns : mapping of name to Forms
        The columns that could be numeric.
    file : str
        Name of the file, for messages.
    separator : str
        Separator of the columns.
    decimal, thousands : str, optional
        Marks that the caller gives.

    Returns
    -------
    Dialect
        The dialect of the file.  A column with a value that is no number in this dialect is read as texts.

    Raises
    ------
    InputError
        No dialect fits all columns, or a column could be read in two ways.
    """
    allowed = [d for d in DIALECTS if decimal in (None, d.decimal) and thousands in (None, d.thousands)]
    names = list(columns)
    given = decimal is not None or thousands is not None
    fitting = {name: column.dialects.intersection(allowed) for name, column in columns.items()}
    choices = [name for name, column in columns.items() if column.choices and not given]
    voting = [name for name in columns if fitting[name] and name not in choices]
    left = [d for d in allowed if all(d in fitting[name] for name in voting)]
    if not left:
        raise InputError(_contradiction(columns, {name: fitting[name] for name in voting}, file))
    for name in choices:
        if fitting[name].intersection(left):
            raise InputError(_answers_or_numbers(columns, name, file))
    unclear = [
        (name, shape)
        for name in voting
        for shape in sorted(columns[name].shapes)
        if len({reading(shape, d) for d in left}) > 1
    ]
    if unclear and separator == "," and all("," not in shape for _, shape in unclear):
        left, unclear = [d for d in left if d.decimal == "."], []
    if unclear:
        name, shape = unclear[0]
        mark = "," if "," in shape else "."
        raise InputError(
            f"{file!r}: {shown(name, names)} has numbers of the form {form_of(shape)}, which are thousands or "
            f"decimals, and no column shows which: give thousands={mark!r} where d{mark}ddd is dddd, or "
            f"decimal={mark!r} where it is a number with three decimals"
        )
    return left[0]


def form_of(shape: str) -> str:
    """Write a shape for a message: d for each digit, but one d for all digits before the first mark.

    So the message reveals neither the value nor its size.
    """
    return re.sub("[09]", "d", re.sub("^[+-]?[09]+", "d", shape.translate(ONE_MARK)))


def _marked(shapes: Iterable[str]) -> list[str]:
    """List the shapes that contain marks.  Shapes that can be read in the fewest ways come first."""
    return sorted((s for s in shapes if readings(s) != {(None, None)}), key=lambda s: (len(readings(s)), s))


def _contradiction(columns: Mapping[str, Forms], fitting: Mapping[str, frozenset[Dialect]], file: str) -> str:
    names = list(columns)
    left, before = frozenset(DIALECTS), list[str]()
    for name, fits in fitting.items():
        if not left & fits:
            break
        left &= fits
        before += [name] if len(fits) < len(DIALECTS) else []
    other = min(before, key=lambda each: len(fitting[each] & fits))
    ways = [_ways(fitting[each], fits if each == other else fitting[other]) for each in (other, name)]
    one, two = (_marked(columns[each].shapes)[0] for each in (other, name))
    return (
        f"{file!r}: {shown(other, names)} has numbers of the form {form_of(one)}, and {shown(name, names)} of the form "
        f"{form_of(two)}, which no one way of writing numbers has: give {ways[0]} or {ways[1]}, which keeps the other "
        f"column as texts, or {as_text(other, names)} or {as_text(name, names)} where it is no number"
    )


def _ways(own: Sequence[Dialect] | frozenset[Dialect], other: frozenset[Dialect]) -> str:
    """Return a text for a message: the argument ``decimal=`` or ``thousands=`` that a user should give.

    The argument selects a dialect in ``own`` and none in ``other``.
    """
    decimals = {d.decimal for d in own}
    if len(decimals) == 1 and not decimals & {d.decimal for d in other}:
        return f"decimal={decimals.pop()!r}"
    marks = [d.thousands for d in DIALECTS if d in own and d.thousands is not None]
    return f"thousands={marks[0]!r}" if marks else f"decimal={decimals.pop()!r}"


def _answers_or_numbers(columns: Mapping[str, Forms], name: str, file: str) -> str:
    shape = _marked(columns[name].shapes)[0]
    thousands = f"thousands={',' if ',' in shape else ' '!r}"
    marks = "decimal=','" if any(d == "," for d, _ in readings(shape)) else thousands
    names = list(columns)
    return (
        f"{file!r}: {shown(name, names)} has values of the form {form_of(shape)}, which are numbers, or answers that "
        f"tick several choices: give {as_text(name, names)} where they are answers, or {marks} where they are numbers"
    )


def as_text(name: str, names: Sequence[str]) -> str:
    """Write, for a message, the argument ``text=['income']``, with which a user has a column read as texts.

    If some column names look like values, the file may lack a header line, and the name is not shown.
    """
    return f"text=[{name!r}]" if shown(name, names) == f"column {name!r}" else "text=[...]"
