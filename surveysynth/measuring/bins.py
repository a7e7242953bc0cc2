"""Cells of an outcome or a weight: fine public bins, and special values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.conditions import columns_of_condition, obeyed
from ..errors import InputError
from ..models.loglinear.response import Tail
from ..validation import rows
from .outcome import Outcome, label_of

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool_]

FINE = 128  # number of bins of a number
RANGE = 2_000.0  # ratio of the larger bound to the amount from which the edges of bins have equal ratios
WEIGHT_BINS, WEIGHT_KNEE = 96, 0.2  # number of bins of a weight, and their knee as a multiple of the mean weight
# Expected indices of the Pareto tails of amounts and weights
PARETO, WEIGHT_INDEX = 2.5, 4.0
# Expected fall of the log density of a count between its median and its upper 5% point; fewest bins for a tail
COUNTS, LEAST_OF_TAIL = 1.7, 20
INSIDE = 40  # number of points over which the mean of a bin is computed


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of equal width on the scale asinh(y / knee), or of equal width without a knee.

    Attributes
    ----------
    edges : float array (G + 1,)
        Edges in the unit of the outcome.
    knee : float
        Amount from which the edges have about equal ratios.  If it is infinite, all bins have the same width.
    """

    edges: Floats
    knee: float

    @classmethod
    def between(cls, low: float, high: float, knee: float, count: int) -> Bins:
        """``count`` bins between two bounds, with a given knee."""
        bins = cls(np.array([low, high]), knee)
        first, last = bins.scaled(bins.edges)
        edges = bins.back(np.linspace(float(first), float(last), count + 1))
        edges[0], edges[-1] = low, high
        return cls(edges, knee)

    @classmethod
    def for_amounts(cls, low: float, high: float, knee: float | None = None) -> Bins:
        """Bins whose edges have about equal ratios.  For shares, which are not skewed, bins have equal width."""
        if knee is None:
            knee = np.inf if low >= 0 and high <= 1 else max(abs(low), abs(high)) / RANGE
        return cls.between(low, high, knee, FINE)

    @classmethod
    def for_whole_numbers(cls, low: float, high: float, knee: float | None = None) -> Bins:
        """A bin for each whole number between the bounds, or for several whole numbers if there are many."""
        low, high = np.ceil(low), np.floor(high)
        if high - low < FINE:
            return cls(np.arange(low, high + 2) - 0.5, np.inf)
        knee = max(abs(low), abs(high)) / RANGE if knee is None else knee
        return cls(np.unique(np.floor(cls.between(low - 0.5, high + 0.5, knee, FINE).edges) + 0.5), knee)

    def scaled(self, values: Floats) -> Floats:
        """Values on the scale on which all bins have equal width."""
        return values if np.isinf(self.knee) else np.arcsinh(values / self.knee)

    def back(self, values: Floats) -> Floats:
        """The inverse of :meth:`scaled`."""
        return values if np.isinf(self.knee) else np.sinh(values) * self.knee

    def __len__(self) -> int:
        return len(self.edges) - 1

    def codes(self, values: Floats) -> Codes:
        """Bin of each value (n,).  Values beyond the edges are in the first or the last bin."""
        inside = np.searchsorted(self.edges, values, side="right") - 1
        return np.clip(inside, 0, len(self) - 1)

    @cached_property
    def means(self) -> Floats:
        """Mean of the values that are drawn within each bin (G,)."""
        low, high = self.scaled(self.edges[:-1]), self.scaled(self.edges[1:])
        at = (np.arange(INSIDE) + 0.5) / INSIDE
        return self.back(low[:, None] + at * (high - low)[:, None]).mean(axis=1)

    def draw(self, codes: Codes, rng: np.random.Generator) -> Floats:
        """A random value within the bin of each record, uniform on the scale on which bins have equal width."""
        low, high = self.scaled(self.edges[:-1]), self.scaled(self.edges[1:])
        return self.back(low[codes] + rng.random(len(codes)) * (high - low)[codes])


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of an outcome.  Every value has one cell: bins of numbers are first, then special values.

    Attributes
    ----------
    outcome : Outcome
    bins : Bins or None
        Bins of a number; None for a category.
    index : float
        Expected index of the Pareto tail of a number.
    """

    outcome: Outcome
    bins: Bins | None
    index: float = PARETO

    @property
    def tail(self) -> Tail | None:
        """Prior knowledge of the upper tail, for amounts and for counts; None if there is none."""
        if self.bins is None or self.bins.edges[-1] <= 0 or len(self.bins) < LEAST_OF_TAIL:
            return None
        if np.isinf(self.bins.knee):
            return Tail(None, COUNTS) if self.outcome.whole else None
        ends = self.bins.scaled(self.bins.edges[[0, -1]])
        return Tail(float(ends[1] - ends[0]) / len(self.bins), self.index)

    @classmethod
    def for_outcome(cls, outcome: Outcome) -> Cells:
        """The cells of an outcome with a given schema."""
        if outcome.bounds is None:
            return cls(outcome, None)
        bins = Bins.for_whole_numbers if outcome.whole else Bins.for_amounts
        return cls(outcome, bins(*outcome.bounds, outcome.knee), outcome.tail_index or PARETO)

    @classmethod
    def for_weights(cls, bounds: tuple[float, float], unit: float) -> Cells:
        """The cells of weights.  ``bounds`` are multiples of ``unit``, the mean weight."""
        low, high = bounds[0] * unit, bounds[1] * unit
        bins = Bins.between(low, high, WEIGHT_KNEE * unit, WEIGHT_BINS)
        return cls(Outcome(bounds=(low, high)), bins, WEIGHT_INDEX)

    def codes_of_numbers(self, values: Floats) -> Codes:
        """Cells of numbers (n,).  No number may be a special value."""
        assert self.bins is not None
        return self.bins.codes(values)

    @property
    def numbers(self) -> int:
        """Number of bins."""
        return 0 if self.bins is None else len(self.bins)

    @property
    def scored(self) -> bool:
        """Whether the outcome has several bins of numbers, so that sums of scores are informative."""
        return self.numbers > 1

    def __len__(self) -> int:
        return self.numbers + len(self.outcome.special)

    @property
    def answers(self) -> int:
        """Number of cells for records that are asked.  The cell of other records, if there is one, is the last cell."""
        return len(self) - (self.outcome.applies is not None)

    def judged(self, codes: Codes) -> Bools:
        """Whether an edit rule can apply to each answer (n,).  It cannot if the question was not asked.

        For a number, it cannot apply to a missing answer either.
        """
        there = codes < self.answers
        return there & (codes != self.answers - 1) if self.outcome.missing and self.bins is not None else there

    @property
    def columns_of_asked(self) -> set[str]:
        """Columns in the condition under which the question is asked."""
        rule = self.outcome.applies
        return set() if rule is None else columns_of_condition(rule, "applies")

    def asked(self, frame: pd.DataFrame) -> Bools:
        """Whether each record of a file is asked (n,), from the columns that come before the question."""
        rule = self.outcome.applies
        return np.ones(len(frame), dtype=bool) if rule is None else obeyed([rule], frame, "applies")

    def names(self, groups: Codes) -> list[str]:
        """Names of groups of cells: intervals for numbers, then the names of special values."""
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
        """A value for the cell of each record (n,): a random number within the bin, a label, or a missing value."""
        outcome = self.outcome
        if self.bins is None:
            labels = [*(outcome.levels or ()), *(["missing"] if outcome.missing else [])]
            if outcome.applies is not None:
                place = labels.index(outcome.outside) if outcome.outside in labels else len(labels)
                codes = np.where(codes == self.answers, place, codes)
                labels += [outcome.outside] if place == len(labels) else []
            if all(isinstance(label, int | float | np.number) and not isinstance(label, bool) for label in labels):
                return pd.Series(np.array(labels)[codes])  # numeric labels remain numbers
            return pd.Series(pd.Categorical.from_codes(codes, pd.Index(labels)))
        return self._finished(self.bins.draw(np.minimum(codes, self.numbers - 1), rng), codes)

    def every_answer(self, n: int) -> Iterator[tuple[Codes, pd.Series]]:
        """For n records, every answer in turn: each level, or both bounds of a number and each special value."""
        if self.bins is None:
            for code in range(self.answers):
                codes = np.full(n, code)
                yield codes, self.values(codes, np.random.default_rng(0))  # the seed is not used for labels
            return
        for code in (0, *range(self.numbers - 1, self.answers)):
            codes = np.full(n, code)
            yield codes, self._finished(np.full(n, self.bins_ends[code > 0]), codes)

    def as_drawn(self, column: pd.Series, codes: Codes) -> pd.Series:
        """The answers of the file (n,) in the form of synthetic answers: rounded and clipped numbers, or labels."""
        if self.bins is None:
            return self.values(codes, np.random.default_rng(0))  # the seed is not used for labels
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        low, high = self.bins_ends
        beyond = (numbers < low) | (numbers > high)  # in the first or the last cell
        inside = self.bins.means[np.minimum(codes, self.numbers - 1)]
        return self._finished(np.where(beyond | np.isnan(numbers), inside, numbers), codes)

    def _finished(self, drawn: Floats, codes: Codes) -> pd.Series:
        """Numbers, rounded and clipped as declared.  Records in special cells get the values of these cells."""
        outcome = self.outcome
        if outcome.whole:
            drawn = np.rint(drawn)
        if outcome.round is not None:
            drawn = np.rint(drawn / outcome.round) * outcome.round
        drawn = np.clip(drawn, *self.bins_ends)
        for place, value in enumerate(self.special_numbers, self.numbers):
            drawn[codes == place] = value
        if outcome.missing:
            drawn[codes == self.answers - 1] = np.nan
        if outcome.applies is not None:
            drawn[codes == self.answers] = outcome.outside
        whole = outcome.whole and not np.isnan(drawn).any() and np.all(np.mod(self.special_numbers, 1) == 0)
        return pd.Series(drawn.astype(np.int64) if whole else drawn)

    @property
    def bins_ends(self) -> tuple[float, float]:
        """Smallest and largest possible value of a number: the bounds, or the whole numbers next to them, inside."""
        assert self.outcome.bounds is not None
        low, high = self.outcome.bounds
        return (float(np.ceil(low)), float(np.floor(high))) if self.outcome.whole else (low, high)

    @property
    def special_numbers(self) -> list[float]:
        """Values of the special cells for zero and heaps."""
        heaps = [heap for heap in self.outcome.heaps if not (self.outcome.zeros and heap == 0)]
        return [*([0.0] if self.outcome.zeros else []), *heaps]

    def codes(self, column: pd.Series, name: str, asked: Bools | None = None) -> Codes:
        """Cell of each record (n,).  Records that are not asked are in the last cell.

        Raises
        ------
        InputError
            The column contradicts the schema: it has text among numbers, dates, or levels or missing values that were
            not declared.
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
    """Refuse dates and durations, which pandas would read as nanoseconds (InputError)."""
    duration = pd.api.types.is_timedelta64_dtype(column.dtype)
    if duration or pd.api.types.is_datetime64_any_dtype(column.dtype):
        since = "" if duration else " - pd.Timestamp('1970-01-01')"
        days = f"(frame[{name!r}]{since}).dt.days"
        raise InputError(
            f"{name!r} holds dates or durations: make whole days of them, {days}, with "
            "Outcome(bounds=(first, last), whole=True) in days"
        )


def check_missing(column: pd.Series, name: str) -> None:
    """Refuse missing values of an outcome that is declared without them (InputError)."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"{name!r} is missing in {rows(missing)}, and its schema has no missing values: declare "
            f'outcomes={{"{name}": Outcome(..., missing="category")}}'
        )
