"""Calibrations of the weights of a design: columns with known totals, and weights before and after calibration.

A margin is a column, or several crossed columns, whose groups have known totals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from .calibration import auxiliary_of, margins_of
from .checks import margin_names
from .columns import check_columns, names_of, positive

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

ENTRIES = ("poststrata", "auxiliary", "base_weights", "calibrated_weights", "raked_weights")


@dataclass(frozen=True, eq=False)
class Calibration:
    """One calibration of the weights of n records.

    Attributes
    ----------
    poststrata_names : tuple of tuples of str
        One tuple per margin: the names of its columns.
    margins : tuple of int arrays (n,)
        One array per margin: the group of each record, numbered from 0.
    auxiliary_names, auxiliary : tuple of str, tuple of float arrays (n,)
        Names of the numeric columns with a known total, and the values of these columns.
    base_name, calibrated_name : str or None
        Columns of the weights before and after the calibration, if the file has such columns.
    before, after : float array (n,)
        Weights before and after the calibration.
    raked_names, raked : tuple of str, tuple of float arrays (n,)
        Names of the columns with the weights after each margin of raking but the last, and the values of these columns.
        Both are empty unless R's ``rake`` made the weights.
    """

    poststrata_names: tuple[tuple[str, ...], ...]
    margins: tuple[Codes, ...]
    auxiliary_names: tuple[str, ...]
    auxiliary: tuple[Floats, ...]
    base_name: str | None
    before: Floats
    calibrated_name: str | None
    after: Floats
    raked_names: tuple[str, ...]
    raked: tuple[Floats, ...]

    @classmethod
    def checked(cls, frame: pd.DataFrame, given: Mapping[str, Any], after: Floats, *, or_zero: bool) -> Self:
        """Make a calibration from names of columns.  Raise InputError if a column is unknown or unsuitable.

        Parameters
        ----------
        frame : pandas.DataFrame
        given : mapping of str to columns
            Arguments of :class:`SurveyDesign` that describe the calibration, such as ``poststrata`` and
            ``base_weights``.
        after : float array (n,)
            Weights after the calibration, if ``given`` names no column ``calibrated_weights``.
        or_zero : bool
            True if weights may be 0.
        """
        margins, numbers = margin_names(given.get("poststrata")), names_of(given.get("auxiliary"), "auxiliary")
        raked = names_of(given.get("raked_weights"), "raked_weights")
        if raked and (len(raked) != len(margins) - 1 or numbers):
            raise InputError(
                "raked_weights names the weights after each margin of poststrata but the last, and goes without "
                "auxiliary: it is for weights that R's rake() made"
            )
        base, met = given.get("base_weights"), given.get("calibrated_weights")

        def weights(name: str) -> Floats:
            check_columns(frame, {"weights of a calibration": name})
            values = positive(frame[name], name, at_most_one=False, or_zero=or_zero)
            values.flags.writeable = False
            return values

        made = cls(
            margins, margins_of(frame, margins), numbers, auxiliary_of(frame, numbers),
            base, after if base is None else weights(base), met, after if met is None else weights(met),
            raked, tuple(map(weights, raked)),
        )  # fmt: skip
        for array in (*made.margins, *made.auxiliary):
            array.flags.writeable = False
        return made

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns of the calibration: the columns with known totals, then the columns of weights."""
        weights = [name for name in (self.base_name, self.calibrated_name, *self.raked_names) if name is not None]
        return (*(name for margin in self.poststrata_names for name in margin), *self.auxiliary_names, *weights)

    def roles(self) -> dict[str, Any]:
        """Return the arguments of :class:`SurveyDesign` that name the columns of this calibration.

        An argument without a column is left out.
        """
        margins = [names[0] if len(names) == 1 else list(names) for names in self.poststrata_names] or None
        named = {
            "poststrata": margins[0] if margins and len(margins) == 1 and isinstance(margins[0], str) else margins,
            "auxiliary": list(self.auxiliary_names) or None,
            "base_weights": self.base_name,
            "calibrated_weights": self.calibrated_name,
            "raked_weights": list(self.raked_names) or None,
        }
        return {role: value for role, value in named.items() if value is not None}


def earlier_ones(
    frame: pd.DataFrame, given: Sequence[Mapping[str, Any]] | None, last: Calibration, *, or_zero: bool
) -> tuple[Calibration, ...]:
    """Make the calibrations before ``last``, the earliest first, from the argument ``earlier_calibrations``.

    The weights after each calibration are the weights before the next one, unless ``calibrated_weights`` names another
    column.  If ``or_zero``, weights may be 0.

    Raises
    ------
    InputError
        ``given`` is not a list of mappings; a mapping has an unknown key, or lacks ``base_weights`` or the columns with
        known totals; a column is unknown or unsuitable; ``last`` has no columns with known totals.
    """
    if given is None:
        return ()
    if not isinstance(given, Sequence) or not all(isinstance(each, Mapping) for each in given):
        raise InputError("earlier_calibrations is a list of mappings: [{'poststrata': 'sex', 'base_weights': 'w'}]")
    made: list[Calibration] = []
    for each in reversed(given):
        unknown = sorted(set(each) - set(ENTRIES))
        if unknown:
            raise InputError(f"earlier_calibrations has {', '.join(unknown)}; an entry is one of {', '.join(ENTRIES)}")
        if each.get("base_weights") is None or not (each.get("poststrata") or each.get("auxiliary")):
            raise InputError("each of earlier_calibrations needs base_weights, and poststrata or auxiliary")
        made.insert(0, Calibration.checked(frame, each, (made[0] if made else last).before, or_zero=or_zero))
    if made and not (last.margins or last.auxiliary):
        raise InputError("earlier_calibrations come before one that poststrata or auxiliary names")
    return tuple(made)
