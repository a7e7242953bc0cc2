"""Cells of an outcome or a weight: fine public bins of a numeric variable, and special values such as "missing"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.conditions import columns_of_condition, obeyed
from ..design.recode import MISSING
from ..errors import InputError
from ..models.loglinear.response import Tail
from ..validation import rows
from .outcome import Outcome, label_of

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool_]

FINE = 128  # number of bins of a numeric outcome
RANGE = 2_000.0  # larger bound of an amount, divided by the knee of the bins
WEIGHT_BINS, WEIGHT_KNEE = 96, 0.2  # number of bins of a weight, and the knee as a multiple of the mean weight
PARETO, WEIGHT_INDEX = 2.5, 4.0  # expected indices of the Pareto tails of amounts and of weights
COUNTS = 1.7  # expected fall of the log density of a count between the median and the upper 5% point
LEAST_OF_TAIL = 20  # smallest number of bins for which a tail is modelled
INSIDE = 40  # number of points over which the mean of a bin is computed


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of a numeric variable, which have about equal widths on an inverse hyperbolic sine scale.

    The scale is asinh(y / knee), where y is a value of the variable.

    Attributes
    ----------
    edges : float array (G + 1,)
        Edges of G bins, in the unit of the outcome.
    knee : float
        Amount above which successive edges have about equal ratios.  If the knee is infinite, all bins have the same
        width.
    """

    edges: Floats
    knee: float

    @classmethod
    def between(cls, low: float, high: float, knee: float, count: int) -> Bins:
        """Create ``count`` bins between two bounds, with equal widths on the scale asinh(value / ``knee``)."""
        bins = cls(np.array([low, high]), knee)
        first, last = bins.scaled(bins.edges)
        edges = bins.back(np.linspace(float(first), float(last), count + 1))
        edges[0], edges[-1] = low, high
        return cls(edges, knee)

    @classmethod
    def for_amounts(cls, low: float, high: float, knee: float | None = None) -> Bins:
        """Create bins for amounts, such as incomes, between two bounds.

        By default the knee is the larger absolute bound divided by ``RANGE``.  For shares (bounds within 0 and 1) it is
        infinite, so that all bins have the same width.
        """
        if knee is None:
            knee = np.inf if low >= 0 and high <= 1 else max(abs(low), abs(high)) / RANGE
        return cls.between(low, high, knee, FINE)

    @classmethod
    def for_whole_numbers(cls, low: float, high: float, knee: float | None = None) -> Bins:
        """Create bins for whole numbers between two bounds: one for each number, if there are at most 128 numbers.

        If there are more, there are at most 128 bins, and a bin can have several numbers.
        """
        low, high = np.ceil(low), np.floor(high)
        if high - low < FINE:
            return cls(np.arange(low, high + 2) - 0.5, np.inf)
        knee = max(abs(low), abs(high)) / RANGE if knee is None else knee
        return cls(np.unique(np.floor(cls.between(low - 0.5, high + 0.5, knee, FINE).edges) + 0.5), knee)

    def scaled(self, values: Floats) -> Floats:
        """Transform values to the scale on which all bins have equal width."""
        return values if np.isinf(self.knee) else np.arcsinh(values / self.knee)

    def back(self, values: Floats) -> Floats:
        """Transform values from the scale on which bins have equal width back to the unit of the outcome."""
        return values if np.isinf(self.knee) else np.sinh(values) * self.knee

    def __len__(self) -> int:
        return len(self.edges) - 1

    def codes(self, values: Floats) -> Codes:
        """Find the bin of each value.  Values beyond the edges are in the first or the last bin."""
        inside = np.searchsorted(self.edges, values, side="right") - 1
        return np.clip(inside, 0, len(self) - 1)

    @cached_property
    def means(self) -> Floats:
        """Expected value of a random draw within each bin (G,)."""
        low, high = self.scaled(self.edges[:-1]), self.scaled(self.edges[1:])
        at = (np.arange(INSIDE) + 0.5) / INSIDE
        return self.back(low[:, None] + at * (high - low)[:, None]).mean(axis=1)

    def draw(self, codes: Codes, rng: np.random.Generator) -> Floats:
        """Draw a value (n,) for each record, given the record's bin ``codes`` (n,).

        Values are uniform within the bin, on the scale on which bins have equal width.
        """
        low, high = self.scaled(self.edges[:-1]), self.scaled(self.edges[1:])
        return self.back(low[codes] + rng.random(len(codes)) * (high - low)[codes])


@dataclass(frozen=True, eq=False)
class Cells:
    """The G cells of an outcome or of the weight: bins of numbers, then special values such as "missing".

    For a categorical outcome, the special values are its levels, and there are no bins.  If a question is asked of some
    records only, the other records are in the last cell.

    Attributes
    ----------
    outcome : Outcome
        Schema of the outcome.
    bins : Bins or None
        Bins of a numeric outcome.  None means that the outcome is categorical.
    index : float
        Expected index of the Pareto tail of a numeric outcome.
    """

    outcome: Outcome
    bins: Bins | None
    index: float = PARETO

    @property
    def tail(self) -> Tail | None:
        """Assumption on the upper tail of the distribution of a numeric variable; None if no tail is modelled."""
        if self.bins is None or self.bins.edges[-1] <= 0 or len(self.bins) < LEAST_OF_TAIL:
            return None
        if np.isinf(self.bins.knee):
            return Tail(None, COUNTS) if self.outcome.whole else None
        ends = self.bins.scaled(self.bins.edges[[0, -1]])
        return Tail(float(ends[1] - ends[0]) / len(self.bins), self.index)

    @classmethod
    def for_outcome(cls, outcome: Outcome) -> Cells:
        """Create the cells of an outcome from its declared bounds or levels and special values."""
        if outcome.bounds is None:
            return cls(outcome, None)
        bins = Bins.for_whole_numbers if outcome.whole else Bins.for_amounts
        return cls(outcome, bins(*outcome.bounds, outcome.knee), outcome.tail_index or PARETO)

    @classmethod
    def for_weights(cls, bounds: tuple[float, float], unit: float) -> Cells:
        """Create the cells of survey weights, with ``bounds`` in multiples of ``unit``, the mean weight."""
        low, high = bounds[0] * unit, bounds[1] * unit
        bins = Bins.between(low, high, WEIGHT_KNEE * unit, WEIGHT_BINS)
        return cls(Outcome(bounds=(low, high)), bins, WEIGHT_INDEX)

    def codes_of_numbers(self, values: Floats) -> Codes:
        """Find the bin (n,) of each number.  The numbers must not be special values, such as a top code."""
        assert self.bins is not None
        return self.bins.codes(values)

    @property
    def numbers(self) -> int:
        """Number of bins."""
        return 0 if self.bins is None else len(self.bins)

    @property
    def scored(self) -> bool:
        """True if the outcome has more than one bin.  Sums of scores are measured only for such outcomes."""
        return self.numbers > 1

    def __len__(self) -> int:
        return self.numbers + len(self.outcome.special)

    @property
    def answers(self) -> int:
        """Number of cells for records that are asked the question: all, or all but the last cell."""
        return len(self) - (self.outcome.applies is not None)

    def judged(self, codes: Codes) -> Bools:
        """Return True (n,) for each record to which edit rules on the outcome apply, given the records' cells (n,).

        Rules do not apply to a missing number or to a record that is not asked the question.
        """
        asked = codes < self.answers
        return asked & (codes != self.answers - 1) if self.outcome.missing and self.bins is not None else asked

    @property
    def columns_of_asked(self) -> set[str]:
        """Columns in the condition under which the question is asked."""
        rule = self.outcome.applies
        return set() if rule is None else columns_of_condition(rule, "applies")

    def asked(self, frame: pd.DataFrame) -> Bools:
        """Return True (n,) for each record of ``frame`` that is asked the question, by the condition in the schema."""
        rule = self.outcome.applies
        return np.ones(len(frame), dtype=bool) if rule is None else obeyed([rule], frame, "applies")

    def names(self, groups: Codes) -> list[str]:
        """Return the name of each group of cells: an interval of numbers, or the name of a special value.

        ``groups`` (G,) is the group of each cell.
        """
        found = []
        for group in range(int(groups.max()) + 1):
            inside = np.flatnonzero(groups == group)
            if inside[0] < self.numbers:
                assert self.bins is not None
                found.append(f"[{self.bins.edges[inside[0]]:.6g}, {self.bins.edges[inside[-1] + 1]:.6g})")
            else:
                found.append(self.outcome.special[inside[0] - self.numbers])
        return found

    def values(self, codes: Codes, rng: np.random.Generator) -> pd.Series:
        """Draw a value for each record, given the record's cell ``codes`` (n,).

        The value is a random number within a bin, a label, or a special value such as a missing value.
        """
        outcome = self.outcome
        if self.bins is None:
            labels = [*(outcome.levels or ()), *([MISSING] if outcome.missing else [])]
            if outcome.applies is not None:
                outside = labels.index(outcome.outside) if outcome.outside in labels else len(labels)
                codes = np.where(codes == self.answers, outside, codes)
                labels += [outcome.outside] if outside == len(labels) else []
            if all(isinstance(label, int | float | np.number) and not isinstance(label, bool) for label in labels):
                return pd.Series(np.array(labels)[codes])  # numeric labels remain numbers
            return pd.Series(pd.Categorical.from_codes(codes, pd.Index(labels)))
        return self._finished(self.bins.draw(np.minimum(codes, self.numbers - 1), rng), codes)

    def every_answer(self, n: int) -> Iterator[tuple[Codes, pd.Series]]:
        """Yield, for each possible answer, the cells (n,) and the values (n,) of n records that all give this answer.

        The answers are all levels of a category.  For a numeric outcome they are the smallest number, the largest
        number and all special values.
        """
        if self.bins is None:
            for code in range(self.answers):
                codes = np.full(n, code)
                yield codes, self.values(codes, np.random.default_rng(0))  # the seed is not used for labels
            return
        for code in (0, *range(self.numbers - 1, self.answers)):
            codes = np.full(n, code)
            yield codes, self._finished(np.full(n, self.bins_ends[code > 0]), codes)

    def as_drawn(self, column: pd.Series, codes: Codes) -> pd.Series:
        """Format a confidential column like synthetic records: round and clip its numbers, or label its levels.

        ``codes`` (n,) is the cell of each record.
        """
        if self.bins is None:
            return self.values(codes, np.random.default_rng(0))  # the seed is not used for labels
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        low, high = self.bins_ends
        beyond = (numbers < low) | (numbers > high)  # in the first or the last cell
        inside = self.bins.means[np.minimum(codes, self.numbers - 1)]
        return self._finished(np.where(beyond | np.isnan(numbers), inside, numbers), codes)

    def _finished(self, drawn: Floats, codes: Codes) -> pd.Series:
        """Round and clip numbers as the schema declares, and insert special values for records in special cells."""
        outcome = self.outcome
        if outcome.whole:
            drawn = np.rint(drawn)
        if outcome.round is not None:
            drawn = np.rint(drawn / outcome.round) * outcome.round
        drawn = np.clip(drawn, *self.bins_ends)
        for cell, value in enumerate(self.special_numbers, self.numbers):
            drawn[codes == cell] = value
        if outcome.missing:
            drawn[codes == self.answers - 1] = np.nan
        if outcome.applies is not None:
            drawn[codes == self.answers] = outcome.outside
        whole = outcome.whole and not np.isnan(drawn).any() and np.all(np.mod(self.special_numbers, 1) == 0)
        return pd.Series(drawn.astype(np.int64) if whole else drawn)

    @property
    def bins_ends(self) -> tuple[float, float]:
        """Smallest and largest possible number: the bounds, or the outermost whole numbers within the bounds."""
        assert self.outcome.bounds is not None
        low, high = self.outcome.bounds
        return (float(np.ceil(low)), float(np.floor(high))) if self.outcome.whole else (low, high)

    @property
    def special_numbers(self) -> list[float]:
        """Values of the special cells for zero and for heaps (values that many records share)."""
        heaps = [heap for heap in self.outcome.heaps if not (self.outcome.zeros and heap == 0)]
        return [*([0.0] if self.outcome.zeros else []), *heaps]

    def codes(self, column: pd.Series, name: str, asked: Bools | None = None) -> Codes:
        """Find the cell (n,) of each record.  Records that are not ``asked`` the question are in the last cell.

        ``name`` is the name of the column in messages.

        Raises
        ------
        InputError
            The column contradicts the schema: it has text among numbers, or dates, or levels or missing values that
            were not declared.
        """
        if asked is not None and not asked.all():
            codes = np.full(len(column), self.answers, dtype=np.intp)
            codes[asked] = self.codes(column[asked], name)
            return codes
        missing = column.isna().to_numpy()
        if self.outcome.missing is None:
            check_missing(column, name)
        find = self._level_codes if self.bins is None else self._number_codes
        codes = find(column, missing, name)
        codes[missing] = self.answers - 1
        return codes

    def _level_codes(self, column: pd.Series, missing: NDArray[np.bool_], name: str) -> Codes:
        labels = {label_of(level): code for code, level in enumerate(self.outcome.levels or ())}
        texts = column.map(label_of, na_action="ignore") if column.dtype == object else column  # True is not 1
        code, values = pd.factorize(texts)
        found = np.array([*(labels.get(label_of(value), -1) for value in values), -1], dtype=np.intp)[code]
        unknown = (found < 0) & ~missing
        if unknown.any():
            raise InputError(f"{name!r} has levels that were not declared, in {rows(unknown)}: declare every level")
        return found

    def _number_codes(self, column: pd.Series, missing: NDArray[np.bool_], name: str) -> Codes:
        refuse_dates(column, name)
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        text = np.isnan(numbers) & ~missing
        if text.any():
            raise InputError(f"{name!r} is no number in {rows(text)}: an outcome with bounds is one")
        assert self.bins is not None
        codes = self.bins.codes(np.nan_to_num(numbers, nan=0.0, posinf=np.inf, neginf=-np.inf))
        special = list(self.outcome.special)
        for heap in self.outcome.heaps:
            name_of = "zero" if self.outcome.zeros and heap == 0 else f"{heap:g}"
            codes[numbers == heap] = self.numbers + special.index(name_of)
        if self.outcome.zeros:
            codes[numbers == 0] = self.numbers + special.index("zero")
        return codes


def refuse_dates(column: pd.Series, name: str) -> None:
    """Raise InputError for dates and durations, which pandas would convert to numbers of nanoseconds."""
    duration = pd.api.types.is_timedelta64_dtype(column.dtype)
    if duration or pd.api.types.is_datetime64_any_dtype(column.dtype):
        since = "" if duration else " - pd.Timestamp('1970-01-01')"
        days = f"(frame[{name!r}]{since}).dt.days"
        raise InputError(
            f"{name!r} holds dates or durations: make whole days of them, {days}, with "
            "Outcome(bounds=(first, last), whole=True) in days"
        )


def check_missing(column: pd.Series, name: str) -> None:
    """Raise InputError if a column has missing values, for an outcome that was declared without missing values."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"{name!r} is missing in {rows(missing)}, and its schema has no missing values: declare "
            f'outcomes={{"{name}": Outcome(..., missing="category")}}'
        )
