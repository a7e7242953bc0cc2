"""Functions that read survey files: csv, parquet, Stata, SPSS and SAS."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat

from ..errors import InputError, guarded
from ..storage import as_path
from ..validation import as_list, is_text, rows
from .columns import Columns
from .csv_columns import read_csv
from .csv_file import SUFFIXES, CsvOptions
from .missing_codes import (
    Code,
    MissingCodes,
    checked_codes,
    codes_of_columns,
    holds,
    is_answered,
    likely_missing,
    listing_of,
    with_label,
    without_codes,
)
from .odd_dates import Reader, reader_of

READERS: dict[str, Reader] = {
    ".dta": pyreadstat.read_dta,
    ".sav": pyreadstat.read_sav,
    ".zsav": pyreadstat.read_sav,
    ".por": pyreadstat.read_por,
    ".sas7bdat": pyreadstat.read_sas7bdat,
    ".xpt": pyreadstat.read_xport,
}
OF_ONE_ENCODING = (".parquet", ".por")
Labels = dict[str, str]
# Key in the attrs of a frame: value labels of the numeric columns whose missing codes the user should have declared.
LABELLED = "numbers with labels"


def read_frame(
    path: str | Path,
    *,
    missing_codes: MissingCodes | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    text: Columns = None,
    na: Columns = None,
) -> pd.DataFrame:
    """Read a survey file into a data frame.

    If all values of a Stata or SPSS column have value labels, the column becomes a categorical of the labels, in the
    order of the codes.  If several codes have the same label, the code is added: "other (8)", "other (9)".  If only
    some values have labels, the column keeps its numbers or texts.  If labelled values occur in such a column, a
    warning is given, since they may be special codes ("refused") among amounts.  The warning lists codes and labels.
    It proposes as missing those codes that are negative or have a label of nonresponse.  To answer the warning, declare
    the missing codes of the column, or ``missing_codes={"age": []}`` if it has none.  Declared codes and empty texts
    become missing values.

    Parameters
    ----------
    path : str or Path
        .csv (also .gz, .zip, .bz2, .xz), .parquet, .dta, .sav, .zsav, .por, .sas7bdat, .xpt
    missing_codes : list of numbers and texts, or mapping of column to such a list, optional
        Codes for missing values: a list for every column (also for weights and identifiers), or a mapping for the named
        columns.  A code with a label is given as the code or as the label: 98 or "refused".  Codes that do not occur
        have no effect.
    encoding : str, optional
        Encoding of texts; default utf-8 for csv, and the declared one for Stata, SPSS and SAS.
    separator : str, optional
        Separator of the columns of a csv file.  By default it is read from a first line such as ``sep=;``.  Without
        such a line it is the comma, semicolon, tab or ``|``, whichever splits the header line into most fields.
    decimal, thousands : {".", ","}, {".", ",", " ", "'"}, optional
        The decimal mark, and the mark between thousands, in the numbers of a csv file.  By default they are found from
        all columns, once for the whole file (:mod:`surveysynth.design.dialect`).  A file whose numbers could be read in
        two ways is refused.
    text : str or list of str, optional
        Columns of a csv file that are read as texts.  Columns with leading zeros always are, since "01" and "1" are two
        codes.
    na : str or list of str, optional
        All texts of a csv file that mean a missing value, besides the empty text.  By default "NA", "NaN", ".", "null"
        and similar texts are missing values in columns of numbers.  In columns of texts they are answers ("NA" can be
        Namibia), and a warning is given.

    Returns
    -------
    pandas.DataFrame
        One row per record.

    Raises
    ------
    InputError
        The file does not exist, is of an unknown kind, or cannot be read; the encoding is wrong; a record of a csv file
        has more fields than there are columns; several columns have the same name; the decimal or thousands marks of
        numbers contradict each other or could be read in two ways; codes are given for an unknown column; an option is
        for another kind of file.
    """
    return read_labelled(path, missing_codes, encoding, separator, decimal, thousands, text, na)[0]


def read_labelled(
    path: str | Path,
    missing_codes: MissingCodes | None,
    encoding: str | None,
    separator: str | None,
    decimal: str | None,
    thousands: str | None = None,
    text: Columns = None,
    na: Columns = None,
) -> tuple[pd.DataFrame, Labels]:
    """Read a survey file, and return the records as a data frame, and the variable labels by column.

    The arguments are described at :func:`read_frame`.  Only Stata, SPSS and SAS files have variable labels.
    """
    path = as_path(path)
    options = csv_options(encoding, separator, decimal, thousands, text, na)
    is_csv, suffix = kind_of(path, options)
    codes = checked_codes(missing_codes)
    labels: Labels = {}
    values: dict[str, dict[Code, str]] = {}
    # the parsers' own messages quote cells of the file
    if is_csv:
        frame = read_csv(path, codes, options)
    elif suffix == ".parquet":
        frame = guarded(lambda: pd.read_parquet(path), Exception, lambda kind: unreadable(path, kind))
    else:
        frame, meta = guarded(
            lambda: _read_labelled(str(path), suffix, **({} if encoding is None else {"encoding": encoding})),
            Exception,
            lambda kind: unreadable(path, kind, encoding, asked=suffix not in OF_ONE_ENCODING),
        )
        frame, values, labels = frame.replace("", np.nan), meta.variable_value_labels, headings(meta)
    declared = codes_of_columns(codes, frame.columns)
    frame = without_declared(frame, declared, values)
    return _with_labels(frame, values, declared, missing_codes), labels


def _read_labelled(path: str, suffix: str, **given: Any) -> tuple[pd.DataFrame, Any]:
    try:
        return READERS[suffix](path, **given)
    except OverflowError:  # a date is out of range
        pass
    return reader_of(READERS[suffix], path, suffix, **given)(path, **given)


def csv_options(
    encoding: str | None,
    separator: str | None,
    decimal: str | None,
    thousands: str | None,
    text: Columns,
    na: Columns,
) -> CsvOptions:
    """Collect the options of a csv file.  Raise InputError if ``na`` is neither a text nor several texts."""
    missing = None if na is None else tuple(as_list(na))
    if not all(map(is_text, missing or ())):
        raise InputError("na= lists texts that stand for missing values, and one of these is no Unicode")
    return CsvOptions(encoding, separator, decimal, thousands, tuple(as_list(text)), missing)


def kind_of(path: Path, options: CsvOptions) -> tuple[bool, str]:
    """Return two things: True if a file is csv, and the extension of the file, such as ".dta".

    Raises
    ------
    InputError
        The file does not exist or is of an unknown kind, or an option is for another kind of file.
    """
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    is_csv, suffix = path.name.lower().endswith(SUFFIXES), path.suffix.lower()
    if not (is_csv or suffix == ".parquet" or suffix in READERS):
        raise InputError(
            f"cannot tell what kind of file {path.name!r} is; surveysynth reads .csv, .parquet, " + ", ".join(READERS)
        )
    for option in ("separator", "decimal", "thousands", "text", "na"):
        given = getattr(options, option)
        if not (given is None or (isinstance(given, tuple) and not given)) and not is_csv:
            raise InputError(f"{option}= is for csv files: leave it out for {path.name!r}")
    if options.encoding is not None and suffix in OF_ONE_ENCODING:
        raise InputError(f"encoding= is not for {suffix} files: leave it out for {path.name!r}")
    return is_csv, suffix


def headings(meta: Any) -> Labels:
    """Return the variable labels of a Stata, SPSS or SAS file, by column.  ``meta`` is pyreadstat's metadata."""
    return {column: text for column, text in meta.column_names_to_labels.items() if text and text.strip()}


def without_declared(
    frame: pd.DataFrame, declared: dict[Hashable, list[Code]], labels: dict[str, dict[Code, str]]
) -> pd.DataFrame:
    """Replace the codes that the user declared missing by missing values.  The frame itself is changed.

    ``declared`` has the codes of columns.  A code may be given by its label.  ``labels`` has the value labels of
    columns, by code.
    """
    for column, listed in declared.items():
        frame[column] = without_codes(frame[column], _by_number(listed, labels.get(str(column), {})))
    return frame


def unreadable(path: Path, kind: str, encoding: str | None = None, *, asked: bool = False) -> InputError:
    """Make the error for a file that a parser could not read.  ``kind`` is the name of the parser's exception.

    With ``asked``, the message suggests to give ``encoding``.
    """
    text = f"{path.name!r} could not be read ({kind})"
    if encoding is not None:
        return InputError(f"{text}; is it a whole file, and is encoding={encoding!r} that of its texts?")
    older = " Where an older program wrote its texts, give encoding='cp1252', or what fits" if asked else ""
    return InputError(f"{text}; is it a whole file?{older}")


def _by_number(codes: list[Code], names: dict[Code, str]) -> list[Code]:
    """Replace each label in ``codes`` by the codes that have this label."""
    texts = set(names.values())
    return [
        *(code for code in codes if code not in texts),
        *(code for code, text in names.items() if text in codes),
    ]


def _with_labels(
    frame: pd.DataFrame,
    labels: dict[str, dict[Code, str]],
    declared: dict[Hashable, list[Code]],
    missing_codes: MissingCodes | None,
) -> pd.DataFrame:
    open_questions: dict[str, dict[Code, str]] = {}
    for column, every in labels.items():
        names = names_of(every, declared.get(column, []))
        present = frame[column].dropna().unique()
        if names and set(present) <= set(names):
            frame[column] = by_label(frame[column], names)
        elif (labelled := frame[column].isin(list(names))).any():
            warn_of_labelled(column, names, rows(labelled), declared.get(column, []), missing_codes)
            if not is_answered(missing_codes, column) and pd.api.types.is_numeric_dtype(frame[column].dtype):
                open_questions[column] = numbers_of(names)
    frame.attrs[LABELLED] = open_questions
    return frame


def by_label(column: pd.Series, names: dict[Code, str]) -> pd.Categorical[str]:
    """Convert a column in which all values have labels to a categorical of these labels, in the order of ``names``.

    ``names`` maps each value to its label.
    """
    texts = distinct(names)
    return pd.Categorical(column.map(texts), categories=list(texts.values()))


def names_of(labels: dict[Code, str], declared: list[Code]) -> dict[Code, str]:
    """Return the value labels of a column, sorted by value.  Values that the user declared missing are left out.

    ``labels`` and the returned dict map each value to its label.
    """
    missing = holds(pd.Series(list(labels), dtype=object), _by_number(declared, labels))
    names = {code: text for (code, text), gone in zip(labels.items(), missing, strict=True) if not gone}
    # Stata also labels its own missing codes, which are letters: they come last
    return {code: names[code] for code in sorted(names, key=lambda code: (isinstance(code, str), code))}


def distinct(names: dict[Code, str]) -> dict[Code, str]:
    """Return the labels by code, after adding the code to labels that several codes share: "other (8)", "other (9)"."""
    count = Counter(names.values())
    if len(count) == len(names):
        return names
    return distinct({
        code: text if count[text] == 1 else f"{text} ({code:.15g})" if isinstance(code, float) else f"{text} ({code})"
        for code, text in names.items()
    })  # fmt: skip


def numbers_of(names: dict[Code, str]) -> dict[Code, str]:
    """Return the labels of those values that are numbers.  Labels of Stata's missing codes (letters) are left out."""
    return {code: text for code, text in names.items() if not isinstance(code, str)}


def warn_of_labelled(
    column: str, names: dict[Code, str], where: str, declared: list[Code], missing_codes: MissingCodes | None
) -> None:
    """Warn of a column in which only some values have labels.

    ``names`` maps values to labels, and ``where`` says in which rows labelled values occur.  If the user declared
    missing codes of the column, the function warns only if other labelled values probably mean a missing value, too.
    """
    numbers = numbers_of(names)
    kind, labels = ("numbers", numbers) if numbers else ("texts", names)
    likely = likely_missing(labels)
    if is_answered(missing_codes, column):
        if declared and likely:  # some codes were declared, and others look forgotten
            left = with_label({code: labels[code] for code in likely})
            warnings.warn(
                f"column {column!r} has {kind}, of which those in {where} carry a value label; {left} is not among its "
                f"missing_codes, and stays: is missing_codes={{{column!r}: {listing_of([*declared, *likely])}}} meant?",
                stacklevel=5,
            )
        return
    warnings.warn(
        f"column {column!r} has {kind}, of which those in {where} carry a value label: {with_label(labels)}. Give the "
        f"codes that stand for a missing value: missing_codes={{{column!r}: {listing_of(likely)}}}"
        + (", with [] in its place if none does" if likely else " if none does"),
        stacklevel=5,
    )
