"""Disclosure risks of single records, which a map of :mod:`surveysynth.privacy.weights` makes privacy weights of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ..columns import codes
from ..design import SurveyDesign
from ..errors import InputError, as_list, rows, whole
from ..models.base import Posterior, Synthesizer
from .balls import Balls, attribute, balls_of, ends, marginal, pairwise, sizes
from .units import Unit

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Span = tuple[float, float] | None


class Risk(Protocol):
    """A measure of how risky each record of a confidential file is."""

    @property
    def name(self) -> str:
        """Short name: of the column of internal files."""
        ...

    @property
    def span(self) -> Span:
        """The least and the largest risk there can be; None: those of the file."""
        ...

    def of(
        self, design: SurveyDesign, model: Synthesizer, data: Any, unit: Unit, unweighted: Callable[[], Posterior],
        rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """The risks of the records (n,), or of the units that epsilon protects (U,).

        ``data`` is the design as the model prepares it; ``unweighted`` gives the posterior under alpha = 1, at the
        price of a fit; ``rng`` is for measures that simulate.
        """
        ...

    def describe(self) -> str:
        """What it is, for the public report."""
        ...


@dataclass(frozen=True)
class Lipschitz:
    """f_i = max over draws of |log p(record i)| under the unweighted fit: the "LW" of R (Algorithm 2, T 1.4.1).

    The risk that the guarantee itself is about.  Of a unit of several records it is |sum log p_i|.
    """

    name: ClassVar[str] = "lipschitz"
    span: ClassVar[Span] = None

    def of(
        self, design: SurveyDesign, model: Synthesizer, data: Any, unit: Unit, unweighted: Callable[[], Posterior],
        rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """f_i, (n,) or (U,): see :class:`Risk`."""
        return model.lipschitz(data, unweighted(), unit.of_record)

    def describe(self) -> str:
        """What it is, for the public report."""
        return "each record's Lipschitz bound under the model without privacy weights"


class _Near:
    """A measure with balls around the records' values."""

    radius: float | tuple[float, ...]
    relative: bool
    floor: float | tuple[float, ...]

    instead: ClassVar[str] = "use Lipschitz()"  # where no outcome is a number

    def _check(self) -> None:
        if not isinstance(self.relative, bool):
            raise InputError("relative must be True or False")
        for field in ("radius", "floor"):
            given = getattr(self, field)
            several = isinstance(given, list | tuple | np.ndarray)
            numbers = sizes(given, field, len(given) if several else 1).tolist()
            object.__setattr__(self, field, tuple(numbers) if several else numbers[0])

    def _values(self, design: SurveyDesign, model: Synthesizer) -> tuple[Floats, Floats, Floats]:
        """Numeric outcomes, and the ends of the balls around them: (n, d) each."""
        measure = type(self).__name__
        numeric = [outcome for outcome in model.outcomes if outcome not in model.categorical]
        if not numeric:
            raise InputError(f"{measure} looks at numeric outcomes, and there are none: {self.instead}")
        for name, given in (("radius", self.radius), ("floor", self.floor)):
            if isinstance(given, tuple) and len(given) != len(numeric):
                raise InputError(
                    f"{measure}(): {name} has {len(given)} numbers, and the numeric outcomes are {len(numeric)}"
                )
        y = np.column_stack([design.numeric(outcome) for outcome in numeric])
        radius, floor = sizes(self.radius, "radius", len(numeric)), sizes(self.floor, "floor", len(numeric))
        return y, *ends(y, radius, floor, self.relative)

    @property
    def _ball(self) -> str:
        """In words, for the report."""
        radius = f"{_said(self.radius)} times the record's value" if self.relative else _said(self.radius)
        least = f", at least {_said(self.floor)}" if np.any(np.asarray(self.floor) > 0) else ""
        return f"radius ({radius}{least})"


@dataclass(frozen=True)
class Count(_Near):
    """IR_i, the share of the records whose values are outside of a closed ball around y_i: the "CW" of R (Algorithm 3).

    A record that few others come near is easily told from them.  Of a unit of several records it is the largest of
    theirs.  It takes no model and no fit.

    Parameters
    ----------
    radius : float, or one for each numeric outcome
        Of the ball, a share of |y_i| or, where not ``relative``, in the unit of y.  Policy, and public.
    relative : bool
    floor : float, or one for each numeric outcome
        Least radius, in the unit of y; without it a relative ball around 0 holds zeros alone.

    Raises
    ------
    InputError
        A radius or a floor that is negative or no number.
    """

    radius: float | tuple[float, ...] = 0.2
    relative: bool = True
    floor: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "count"
    span: ClassVar[Span] = (0.0, 1.0)

    def __post_init__(self) -> None:
        self._check()

    def of(
        self, design: SurveyDesign, model: Synthesizer, data: Any, unit: Unit, unweighted: Callable[[], Posterior],
        rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """IR_i, (n,) or (U,): see :class:`Risk`.

        Raises
        ------
        InputError
            No numeric outcome, or other numbers of radii than of outcomes.
        """
        y, low, high = self._values(design, model)
        everybody = np.zeros(design.n, dtype=np.intp)
        return _of_units(1 - attribute(balls_of(everybody, low, high, y)), unit)

    def describe(self) -> str:
        """What it is, for the public report."""
        return f"the share of records whose values are further from the record's than a {self._ball}"


class Identification(_Near):
    """What an intruder knows of a record, and how well that finds it among synthetic values."""

    known: tuple[str, ...]

    def _check(self) -> None:
        super()._check()
        object.__setattr__(self, "known", tuple(as_list(self.known)))

    def check(self, design: SurveyDesign, model: Synthesizer) -> None:
        """Refuse a file, or outcomes, that it cannot be had for.

        Raises
        ------
        InputError
            As :meth:`Count.of`; a known column that is not there, is synthesized or has missing values.
        """
        self._values(design, model)
        _patterns(design, model, self.known)

    def among(self, design: SurveyDesign, model: Synthesizer, files: Iterable[Floats]) -> Floats:
        """The measure of the records (n,), averaged over data sets of the numeric outcomes, (n, d) each.

        Raises
        ------
        InputError
            As :meth:`check`.
        """
        _, low, high = self._values(design, model)
        pattern = _patterns(design, model, self.known)
        total, L = np.zeros(design.n), 0
        for file in files:
            total += self._measure(balls_of(pattern, low, high, np.asarray(file, dtype=np.float64)))
            L += 1
        return total / L

    def _measure(self, balls: Balls) -> Floats:
        return marginal(balls)

    @property
    def _intruder(self) -> str:
        """In words, for the report."""
        knows = f"who knows {', '.join(self.known)} and its value" if self.known else "who knows its value"
        return f"by an intruder {knows}, within a {self._ball}"


@dataclass(frozen=True)
class Marginal(Identification):
    """IR_i, the probability that an intruder identifies record i among synthetic records (E 2.1, eq. 8-9).

    Data sets are simulated from the unweighted fit.  The intruder knows y_i and the columns ``known``, and looks among
    the records that have the same of these for synthetic values in the ball around y_i: IR_i is the share that is
    not in it where the record's own is, else 0, averaged over the data sets.  Under the linear map alpha_i =
    c1 (1 - IR_i) + c2.  Of a unit of several records it is the largest of theirs.

    Parameters
    ----------
    known : str or list of str
        Columns that the intruder knows and that are not synthesized; ``[]`` for none.
    radius, relative, floor
        Of the ball, as for :class:`Count`.
    datasets : int
        L, of the simulated data sets; 20 in E.

    Raises
    ------
    InputError
        As :class:`Count`; what are no names of columns, or no number of data sets.
    """

    known: tuple[str, ...]
    radius: float | tuple[float, ...] = 0.2
    relative: bool = True
    floor: float | tuple[float, ...] = 0.0
    datasets: int = 20

    name: ClassVar[str] = "marginal"
    span: ClassVar[Span] = (0.0, 1.0)

    def __post_init__(self) -> None:
        self._check()
        whole(self.datasets, "datasets")

    def of(
        self, design: SurveyDesign, model: Synthesizer, data: Any, unit: Unit, unweighted: Callable[[], Posterior],
        rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """IR_i, (n,) or (U,): see :class:`Risk`.

        Raises
        ------
        InputError
            As :meth:`check`.
        """

        def simulated() -> Iterator[Floats]:  # the fit comes after what is refused
            posterior = unweighted()
            for draw in rng.choice(posterior.size, self.datasets, p=posterior.weight).tolist():
                yield model.simulate(data, posterior, draw, rng).outcomes

        return _of_units(self.among(design, model, simulated()), unit)

    def describe(self) -> str:
        """What it is, for the public report."""
        return f"{self._what} {self._intruder}"

    @property
    def _what(self) -> str:
        return "each record's probability of identification"


@dataclass(frozen=True)
class Pairwise(Marginal):
    """1 - alpha~_i, the mean probability that record i is identified together with another one (E 3.1, eq. 11-14).

    As :class:`Marginal`, but for pairs: both own synthetic values are in their balls, and the share is of values that
    are in neither.  It spares records that are at risk only once risky ones around them were moved ("whack-a-mole").
    Under the linear map alpha_i = c1 alpha~_i + c2.
    """

    name: ClassVar[str] = "pairwise"

    def _measure(self, balls: Balls) -> Floats:
        return 1 - pairwise(balls)

    @property
    def _what(self) -> str:
        return "each record's mean probability of identification in pairs"


def _patterns(design: SurveyDesign, model: Synthesizer, known: tuple[str, ...]) -> Codes:
    """Combination of the known columns that each record has: (n,)."""
    for name in known:
        if name in model.outcomes:
            raise InputError(f"known column {name!r} is synthesized: known= names what the intruder sees as it is")
        missing = design.column(name).isna().to_numpy()
        if missing.any():
            raise InputError(f"known column {name!r} is missing in {rows(missing)}; make missing a category")
    return codes(*(design.column(name) for name in known)) if known else np.zeros(design.n, dtype=np.intp)


def _of_units(risk: Floats, unit: Unit) -> Floats:
    """The largest risk of the records of each unit; of single records their own."""
    if unit.of_record is None:
        return np.asarray(risk)
    largest = np.zeros(unit.count(risk.size))
    np.maximum.at(largest, unit.of_record, risk)
    return largest


def _said(numbers: float | tuple[float, ...]) -> str:
    return ", ".join(f"{x:g}" for x in (numbers if isinstance(numbers, tuple) else (numbers,)))
