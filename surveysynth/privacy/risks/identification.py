"""Risks of identification: the probability that an intruder finds a record among synthetic records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...design.columns import codes
from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...models.base import Synthesizer
from ...models.draws import Draws
from ...validation import as_list, rows, whole
from ..neighbourhoods import Balls, balls_of, marginal, pairwise
from ..units import Unit
from .base import _BallRisk, _largest_by_unit

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Span = tuple[float, float] | None


class Identification(_BallRisk):
    """Identification risk of records, given the columns that an intruder knows."""

    known: tuple[str, ...]

    def _check(self) -> None:
        super()._check()
        object.__setattr__(self, "known", tuple(as_list(self.known)))

    def check(self, design: SurveyDesign, model: Synthesizer) -> None:
        """Refuse a file, or a model, for which the measure cannot be computed.

        Parameters
        ----------
        design : SurveyDesign
            The confidential file.
        model : Synthesizer
            The model behind the release.

        Raises
        ------
        InputError
            A known column does not exist, is synthesized (the intruder does not see its true values) or has missing
            values.  See also :meth:`CountRisk.compute`.
        """
        self._values(design, model)
        _patterns(design, model, self.known)

    def among(self, design: SurveyDesign, model: Synthesizer, files: Iterable[Floats]) -> Floats:
        """Compute every record's risk by this measure, averaged over synthetic data sets.

        Parameters
        ----------
        design : SurveyDesign
            The confidential file, n records.
        model : Synthesizer
            The model of the d numeric outcomes.
        files : iterable of float array (n, d)
            Synthetic values of the outcomes in each data set, in the order of the file's records.

        Returns
        -------
        float array (n,)
            The risks, at least 0 and below 1.

        Raises
        ------
        InputError
            See :meth:`check`.
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
        """The intruder's knowledge in words, for the report."""
        knows = f"who knows {', '.join(self.known)} and its value" if self.known else "who knows its value"
        return f"by an intruder {knows}, within a {self._ball}"


@dataclass(frozen=True)
class MarginalRisk(Identification):
    """IR_i, the probability that an intruder identifies record i among synthetic records.

    Source: Hu, Savitsky & Williams 2022b, section 2.1, eq. 8-9.

    Data sets are simulated from the unweighted fit.  The intruder knows y_i and the columns ``known``, and searches the
    records with the same known values for synthetic values in the ball around y_i.  If the record's own synthetic value
    is outside the ball, the risk in this data set is 0.  Otherwise the risk is the share of the searched records whose
    synthetic values are outside the ball.  IR_i is the average over the data sets.  Under the linear map the privacy
    weight is alpha_i = c1 (1 - IR_i) + c2.  A unit of several records has the largest risk of its records.

    Parameters
    ----------
    known : str or list of str
        Columns known to the intruder, which are not synthesized; ``[]`` for none.
    radius, relative, floor
        Size of the ball, as for :class:`CountRisk`.
    datasets : int
        Number L of simulated data sets; 20 in Hu, Savitsky & Williams (2022b).

    Raises
    ------
    InputError
        See :class:`CountRisk`.  InputError is also raised if ``known`` is not a list of names, or ``datasets`` is not a
        positive whole number.

    Examples
    --------
    >>> ss.PseudoPosterior("linear", c1=1, risk=ss.MarginalRisk(known=["field", "gender"])).risk.known
    ('field', 'gender')
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

    def compute(
        self, design: SurveyDesign, model: Synthesizer, records: Any, unit: Unit, unweighted: Callable[[], Draws],
        rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """Compute the risk of each record or protected unit: see :class:`Risk`.

        Raises
        ------
        InputError
            See :meth:`check`.
        """

        def simulated() -> Iterator[Floats]:  # a generator, so that the fit is computed after all checks
            posterior = unweighted()
            positions = rng.choice(posterior.size, self.datasets, p=posterior.weight).tolist()
            yield from (made.outcomes for made in model.simulations(records, posterior, positions, rng))

        return _largest_by_unit(self.among(design, model, simulated()), unit)

    def describe(self) -> str:
        """Describe the measure for the public report."""
        return f"{self._quantity} {self._intruder}"

    @property
    def _quantity(self) -> str:
        return "each record's probability of identification"


@dataclass(frozen=True)
class PairwiseRisk(MarginalRisk):
    """The mean probability 1 - alpha~_i that record i is identified together with another record.

    Source: Hu, Savitsky & Williams 2022b, section 3.1, eq. 11-14.

    This is :class:`MarginalRisk` for pairs of records: both records' synthetic values must be in the balls around their
    true values, and the risk is then the share of synthetic values outside both balls.  This protects records that
    become risky only after risky neighbours have moved away ("whack-a-mole").  Under the linear map
    alpha_i = c1 alpha~_i + c2.

    Parameters
    ----------
    known, radius, relative, floor, datasets
        See :class:`MarginalRisk`.

    Raises
    ------
    InputError
        See :class:`MarginalRisk`.

    Examples
    --------
    >>> ss.PseudoPosterior("linear", c1=1, risk=ss.PairwiseRisk(known=["field", "gender"])).risk.datasets
    20
    """

    name: ClassVar[str] = "pairwise"

    def _measure(self, balls: Balls) -> Floats:
        return 1 - pairwise(balls)

    @property
    def _quantity(self) -> str:
        return "each record's mean probability of identification in pairs"


def _patterns(design: SurveyDesign, model: Synthesizer, known: tuple[str, ...]) -> Codes:
    """Return an integer code for each record's combination of values in the columns that the intruder knows.

    Raise InputError for a synthesized column or missing values.
    """
    for name in known:
        if name in model.outcomes:
            raise InputError(f"known column {name!r} is synthesized: known= names what the intruder sees as it is")
        missing = design.column(name).isna().to_numpy()
        if missing.any():
            raise InputError(f"known column {name!r} is missing in {rows(missing)}; make missing a category")
    return codes(*(design.column(name) for name in known)) if known else np.zeros(design.n, dtype=np.intp)
