"""Conversion of typed numbers, which may have decimal commas and thousands separators."""

from __future__ import annotations

import re

from ..errors import InputError

# numbers with marks between thousands; the same mark throughout
THOUSANDS = re.compile(r"-?[1-9]\d{0,2}([ _',.\u2019\u202f\u00a0])\d{3}(?:\1\d{3})*")
TWO_NUMBERS = re.compile(r"-?[1-9]\d{0,2}[.,]\d{3}")
NUMBER = re.compile(r"-?\d+(\.\d*)?(e-?\d+)?|-?\.\d+", re.IGNORECASE)


def number_in(text: str) -> float | None:
    """Return the number in a typed text, which may have a decimal point or comma and thousands separators.

    An empty text gives None.  A text that can mean two numbers, as "5.000", or none, is an error (InputError).
    """
    bare = text.strip().replace("\u2212", "-")
    if not bare:
        return None
    if TWO_NUMBERS.fullmatch(bare):
        raise InputError(f"{bare} can mean two numbers: write it without a mark between thousands, and decimals as 5.0")
    joined = re.sub(r"[ _',.\u2019\u202f\u00a0]", "", bare) if THOUSANDS.fullmatch(bare) else bare.replace(",", ".")
    if not NUMBER.fullmatch(joined):
        raise InputError("write a number, as 20000 or 2.5")
    return float(joined)
