"""Codes for missing values, such as 98, -9 or "refused".

A code is a number, or a text: a text value, or the value label of a number.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from ..validation import is_finite, is_text, several
from .columns import listing, nearest

Code = float | str
MissingCodes = Sequence[Code] | Mapping[str, Sequence[Code]]
Checked = list[Code] | dict[str, list[Code]]
SHOWN = 12  # labels that a message prints

# Beginnings of words, and whole labels, that stand for non-response in English, German, French and Spanish codebooks.
# They are written without accents and capitals.
NO_ANSWER = re.compile(
    r"\b(?:refus|verweiger|rehus|"
    r"(?:don'?t|do not|does not|didn'?t|can'?t) (?:know|remember|say)|weiss (?:es )?nicht|ne sa(?:it|is) pas|no sabe|"
    r"not (?:asked|applicable|answered|ascertained|available|stated|reported|collected|in universe|known)|"
    r"in-?applicable|nicht (?:gefragt|erhoben|erfragt|beantwortet|zutreffend)|trifft nicht zu|"
    r"non (?:demande|concerne|applicable|repon|renseigne)|sans objet|"
    r"no (?:aplica|procede|preguntad)|"
    r"no (?:answer|response|information|contest|respon)|non-?response|prefer not to|keine (?:angabe|antwort)|"
    r"pas de reponse|sin (?:respuesta|dato)|"
    r"missing\b|fehlend|fehlt\b|manquant|perdido|unknown\b|unbekannt|inconnu|desconocid|"
    r"skipped\b|(?:legitimate|valid) skip)"
    r"|^(?:n\.?a\.?|n/a|d\.?k\.?|dk/na|dk/ref|niu|k\.? ?a\.?|nsp|nr|ns/nc|ns|nc|skip)$"
)


def checked_codes(missing_codes: MissingCodes | None) -> Checked:
    """Check the codes that the user gave.  Return a list if they are for every column, or a dict of lists by column.

    Raises
    ------
    InputError
        A code is neither a finite number nor a text.
    """
    if isinstance(missing_codes, Mapping):
        return {name: _listed(codes, f"missing_codes of {name!r}") for name, codes in missing_codes.items()}
    return [] if missing_codes is None else _listed(missing_codes, "missing_codes")


def is_answered(missing_codes: MissingCodes | None, column: str) -> bool:
    """Return True if the user declared the codes for missing values of a column, even as an empty list."""
    return missing_codes is not None and (not isinstance(missing_codes, Mapping) or column in missing_codes)


def likely_missing(labels: Mapping[Code, str]) -> list[Code]:
    """Return the codes that probably mean a missing value: negative codes, and codes with a label such as "refused".

    ``labels`` maps each code to its value label.
    """
    return [code for code, text in labels.items() if (_number(code) or 0) < 0 or NO_ANSWER.search(without_marks(text))]


def without_marks(text: str) -> str:
    """Return the text in lower case without accents, with single blanks and straight apostrophes."""
    letters = unicodedata.normalize("NFKD", text.casefold().replace("\u2019", "'"))
    return " ".join("".join(letter for letter in letters if not unicodedata.combining(letter)).split())


def with_label(labels: Mapping[Code, str]) -> str:
    """List up to twelve codes with their labels for a message: ``98 = "refused", 1 = "yes"``.

    Codes that probably mean a missing value come first.
    """
    likely = likely_missing(labels)
    order = [*likely, *(code for code in labels if code not in likely)]
    named = [f'{_written(code)} = "{labels[code]}"' for code in order[:SHOWN]]
    return ", ".join(named) + (f", ... ({len(order):,} labels)" if len(order) > SHOWN else "")


def listing_of(codes: Sequence[Code]) -> str:
    """Write codes as a list that is valid in Python and in TOML."""
    return f"[{', '.join(map(_written, codes))}]"


def _written(code: Code) -> str:
    return repr(code) if isinstance(code, str) else f"{code:.15g}"


def _listed(codes: object, what: str) -> list[Code]:
    listed: list[Any] = [codes] if isinstance(codes, Mapping) else several(codes)
    for code in listed:
        if not (is_finite(code) or is_text(code)):
            raise InputError(f"{what} must be a list of numbers or texts: missing_codes=[98, 'refused']")
    return listed


def codes_of_columns(codes: Checked, columns: Iterable[Hashable]) -> dict[Hashable, list[Code]]:
    """Return a dict with the list of codes of each column.  Columns without codes are left out.

    ``codes`` is a list for every column, or a dict of lists by column.  Raise InputError if it names an unknown column.
    """
    there = list(columns)
    if isinstance(codes, list):
        return dict.fromkeys(there, codes) if codes else {}
    for name in codes:
        if name not in there:
            raise InputError(
                f"missing_codes: there is no column {name!r}{nearest(name, there)}; the file has {listing(there)}"
            )
    return {name: listed for name, listed in codes.items() if listed}


def without_codes(column: pd.Series, codes: Sequence[Code]) -> pd.Series:
    """Replace the codes in a column by missing values.  A categorical column also loses these categories."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = column.cat.categories
        return column.cat.remove_categories(categories[holds(categories.to_series(), codes)])
    found = holds(column, codes)
    return column.mask(found) if found.any() else column


def holds(column: pd.Series, codes: Sequence[Code]) -> NDArray[np.bool_]:
    """Return True for each value that is one of the codes, (n,).  98, 98.0 and the text "98" are the same code.

    Truth values are never codes.
    """
    types, dtype = pd.api.types, column.dtype
    numbers = [number for code in codes if (number := _number(code)) is not None]
    if types.infer_dtype(column, skipna=True) == "boolean":  # True is 1 to pandas
        return np.zeros(len(column), dtype=bool)
    if types.is_numeric_dtype(dtype):
        # Stata keeps most numbers in 32 bits, where 99.9 is another number
        short = [float(np.float32(number)) for number in numbers]
        return column.isin([*numbers, *short]).to_numpy(dtype=bool)
    if types.is_string_dtype(dtype) or types.is_object_dtype(dtype):
        return (column.isin(text_forms(codes)) | column.isin(numbers)).to_numpy(dtype=bool)
    return np.zeros(len(column), dtype=bool)


def text_forms(codes: Sequence[Code]) -> list[str]:
    """List all ways to write the codes as text.  98.0 may be written "98.0" or "98"."""
    numbers = [number for code in codes if (number := _number(code)) is not None]
    return [*(str(code) for code in codes), *(f"{number:.15g}" for number in numbers)]


def _number(code: Code) -> float | None:
    try:
        number = float(code)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
