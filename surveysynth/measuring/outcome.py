"""Schema of an outcome: public facts that are declared before the file is read."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..design.recode import MISSING, NOT_APPLICABLE
from ..errors import InputError
from ..validation import interval_of, is_finite, is_text, one_of, positive, several, truth

MOST_LEVELS = 100
LARGEST = 1e100  # bound of an outcome: sums of squares of larger numbers, as variances are, overflow


def label_of(level: object) -> str:
    """Write a level as text.  1.0 becomes "1", because pandas reads whole numbers with missing values as floats."""
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


@dataclass(frozen=True)
class Outcome:
    """The public facts about an outcome: its type, its bounds or levels, and its special values.

    A numeric outcome has ``bounds``, a categorical outcome has ``levels``.  All facts are declared, and none is taken
    from the file.  To define another kind of numeric outcome, write a subclass with a ``knee`` and a ``tail_index``
    (docs/extending.md).

    Parameters
    ----------
    bounds : (float, float), optional
        Lowest and highest number.  A number outside the bounds counts as a number at the nearest bound.
    levels : sequence, optional
        All levels of a categorical outcome.
    zeros : bool
        True if zero is a separate value.  Zero may then lie outside the bounds, and the probability of zero does not
        depend on the probability of numbers near zero.
    missing : {"category"}, optional
        ``"category"`` if missing values are allowed and form a category.  By default a missing value is an error.
    whole : bool
        True if values are whole numbers.
    heaps : sequence of float
        Values that many records share, such as a top code.  The probability of each of these values is separate.
    round : float, optional
        Unit to which synthetic values are rounded.
    applies : str, optional
        Condition under which the question is asked, such as ``"tenure == 'tenant'"``.  The condition is public.  Its
        columns are public columns or earlier outcomes.  This outcome's values in records that do not satisfy the
        condition are not used.
    elsewhere : 0 or str, optional
        Synthetic value in records that are not asked the question: 0 for a numeric outcome, a label for a categorical
        one.  By default the value is missing or ``"not applicable"``, respectively.

    Raises
    ------
    InputError
        Not exactly one of bounds and levels is given.  Bounds are not in order or beyond 1e100, there are not 2 to 100
        distinct levels, or heaps are not distinct numbers within the bounds.  ``zeros``, ``whole``, ``heaps`` or
        ``round`` is given with levels.  ``elsewhere`` is given without ``applies`` or has the wrong type.  Another
        argument is not valid.

    Examples
    --------
    >>> ss.Outcome(bounds=(0, 1_000_000), zeros=True).special
    ('zero',)
    >>> ss.Outcome(levels=["none", "part time", "full time"], missing="category").special
    ('none', 'part time', 'full time', 'missing')
    """

    bounds: tuple[float, float] | None = None
    levels: Sequence[Hashable] | None = None
    zeros: bool = False
    missing: Literal["category"] | None = None
    whole: bool = False
    heaps: Sequence[float] = ()
    round: float | None = None
    applies: str | None = None
    elsewhere: float | str | None = None

    knee: ClassVar[float | None] = None  # amount above which edges of bins have equal ratios; default: from the bounds
    tail_index: ClassVar[float | None] = None  # index of the Pareto tail of amounts; by default as for incomes

    def __post_init__(self) -> None:
        for name in ("knee", "tail_index"):
            if getattr(self, name) is not None:
                positive(getattr(self, name), name)
        for name in ("zeros", "whole"):
            truth(getattr(self, name), name)
        one_of(self.missing, (None, "category"), "missing")
        if self.round is not None:
            positive(self.round, "round")
        if (self.bounds is None) == (self.levels is None):
            raise InputError("an Outcome has bounds=(lowest, highest), a number, or levels=[...], a category")
        if self.levels is not None:
            self._check_levels()
        else:
            self._check_bounds()
        self._check_applies()

    def _check_levels(self) -> None:
        assert self.levels is not None
        levels = several(self.levels)
        known = [level for level in levels if isinstance(level, bool | np.bool_) or is_text(level) or is_finite(level)]
        if len(known) < len(levels) or not 2 <= len(set(map(label_of, levels))) == len(levels) <= MOST_LEVELS:
            raise InputError(f"levels must be a list of 2 to {MOST_LEVELS} different labels")
        if self.zeros or self.whole or several(self.heaps) or self.round is not None:
            raise InputError("zeros, whole, heaps and round are for numbers: a category has levels and missing")
        object.__setattr__(self, "levels", tuple(levels))

    def _check_bounds(self) -> None:
        low, high = interval_of(self.bounds, "bounds")
        if max(-low, high) > LARGEST:
            raise InputError(f"bounds must be within {LARGEST:g}: give the outcome in another unit")
        object.__setattr__(self, "bounds", (low, high))
        heaps = several(self.heaps)
        if not all(is_finite(heap) for heap in heaps):
            raise InputError("heaps must be numbers")
        object.__setattr__(self, "heaps", tuple(map(float, heaps)))
        if len(set(self.heaps)) < len(self.heaps) or not all(low <= heap <= high for heap in self.heaps):
            raise InputError("heaps must be different numbers within the bounds")

    def _check_applies(self) -> None:
        if self.applies is not None and not (is_text(self.applies) and self.applies.strip()):
            raise InputError("applies is a condition on columns, as text: \"tenure == 'tenant'\"")
        if self.elsewhere is None:
            return
        if self.applies is None:
            raise InputError("elsewhere is the value where an outcome is not asked: applies= says where it is asked")
        if self.levels is None and not (is_finite(self.elsewhere) and self.elsewhere == 0):
            raise InputError("elsewhere is 0 for a number, or missing if it is left out")
        if self.levels is not None and not is_text(self.elsewhere):
            raise InputError("elsewhere is a label for a category, which is text")

    @property
    def outside(self) -> float | str:
        """Synthetic value of the outcome for records that are not asked the question."""
        if self.elsewhere is not None:
            return self.elsewhere
        return np.nan if self.levels is None else NOT_APPLICABLE

    @property
    def text(self) -> str:
        """The type, the bounds or levels, and the special values of the outcome, in words."""
        if self.bounds is None:
            words = [f"levels {', '.join(map(str, self.levels or ()))}"]
        else:
            kind = "whole numbers" if self.whole else "a number"
            words = [f"{kind} between {self.bounds[0]:.15g} and {self.bounds[1]:.15g}"]
        words += ["zeros a value of their own"] if self.zeros else []
        words += [f"heaps at {', '.join(f'{heap:.15g}' for heap in self.heaps)}"] if self.heaps else []
        words += ["missing values an answer of their own"] if self.missing else []
        words += [f"asked where {self.applies}"] if self.applies else []
        return "; ".join(words)

    @property
    def special(self) -> tuple[str, ...]:
        """Names of the special values: levels, zero, heaps, missing, not applicable.  Each of them has its own cell."""
        names = [str(level) for level in self.levels or ()]
        names += ["zero"] if self.zeros else []
        names += [f"{heap:g}" for heap in self.heaps if not (self.zeros and heap == 0)]
        return (*names, *([MISSING] if self.missing else []), *([NOT_APPLICABLE] if self.applies else []))
