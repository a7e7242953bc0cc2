"""A rule for the release of data sets: no record may be too likely to be identified.

Source: Hu, Savitsky & Williams 2022b, section 2.3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..errors import InputError, PrivacyError
from ..models.base import Synthesizer
from .risks.identification import Identification

Floats = NDArray[np.float64]

ROUNDING = 1e-12  # a mean of shares that exceeds the limit only by rounding is not above the limit
PASSED = (
    "that these data sets passed a rule: {}, is at most {:g} for every record. The rule looks at the confidential "
    "file: epsilon holds for draws that are not screened, and does not cover that these passed. The rule does not "
    "protect a record that is unique on the known variables: its probability is 0 in this measure. Among M records "
    "with the same known variables it is at most (M - 1) / M"
)


@dataclass(frozen=True)
class IdentificationRule(Identification):
    """The rule that no record's marginal probability of identification, IR_i, may be above a limit.

    Source: Hu, Savitsky & Williams 2022b, eq. 8.

    The risk is computed as in :func:`surveysynth.identification_risk` and averaged over the data sets, before they are
    released.  If the risk of a record is above the limit, nothing is released and no epsilon is spent.

    Parameters
    ----------
    known : str or list of str
        Columns known to the intruder, which are not synthesized; ``[]`` for none.
    max_risk : float
        The limit, at least 0 and below 1; Hu, Savitsky & Williams (2022b, section 2.3.2) take 0.5.
    radius : float, or one for each numeric outcome
        Radius of the ball around a record's true value y_i, as a share of |y_i| or, if not ``relative``, in the unit of
        y.
    relative : bool
        True if radii are shares of |y_i|.
    floor : float, or one for each numeric outcome
        Smallest radius, in the unit of y.

    Raises
    ------
    InputError
        The limit is out of range, or another argument is not valid (:class:`surveysynth.MarginalRisk`).

    Notes
    -----
    The rule depends on the confidential file, and epsilon does not cover the result of the rule.  Do not publish that a
    release was blocked, since this depends on the file.  If data sets are drawn again until they pass, the file selects
    them, and epsilon does not cover this selection.  The rule and its numbers are published.

    Among M records with the same known variables the measure is at most (M - 1) / M.  For a unique record the measure
    is 0, although the known variables alone identify the record.  So the more variables the intruder knows, the fewer
    records exceed a limit of 0.5.

    Examples
    --------
    >>> rule = ss.IdentificationRule(known=["field", "gender"], max_risk=0.5, radius=0.1)
    >>> rule
    IdentificationRule(known=('field', 'gender'), max_risk=0.5, radius=0.1, relative=True, floor=0.0)
    """

    known: tuple[str, ...]
    max_risk: float = 0.5
    radius: float | tuple[float, ...] = 0.2
    relative: bool = True
    floor: float | tuple[float, ...] = 0.0

    instead: ClassVar[str] = "release without a rule"

    def __post_init__(self) -> None:
        self._check()
        number = isinstance(self.max_risk, int | float | np.number) and not isinstance(self.max_risk, bool)
        if not (number and 0 <= self.max_risk < 1):
            raise InputError("max_risk must be a number from 0 to below 1: the largest risk that a record may have")
        object.__setattr__(self, "max_risk", float(self.max_risk))

    def enforce(self, design: SurveyDesign, model: Synthesizer, files: Sequence[Floats]) -> None:
        """Stop a release that breaks the rule.

        Parameters
        ----------
        design : SurveyDesign
            The n records behind the data sets.
        model : Synthesizer
            The model from which the data sets were simulated.
        files : sequence of float arrays (n, d)
            The d numeric outcomes of each data set, in the order of the design's records.

        Raises
        ------
        InputError
            See :meth:`check`.
        PrivacyError
            The risk of a record is above the limit.
        """
        above = int((self.among(design, model, files) > self.max_risk + ROUNDING).sum())
        if above:
            raise PrivacyError(
                f"{above:,} of {design.n:,} records have a probability of identification above {self.max_risk:g} in "
                "these data sets, so nothing is released, and no epsilon is spent. Fit again with privacy weights by "
                "that risk, MarginalRisk(known) or PairwiseRisk(known) under map='linear', or with a smaller epsilon. "
                "Do not publish that a release was blocked: it reveals something about the file"
            )

    def describe(self) -> str:
        """Describe the rule that the data sets passed, for the public report.

        Returns
        -------
        str
            A clause with the measure and the limit.
        """
        risk = f"the probability of identification {self._intruder}, averaged over the data sets"
        return PASSED.format(risk, self.max_risk)
