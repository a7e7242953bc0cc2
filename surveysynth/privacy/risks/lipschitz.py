"""Lipschitz bounds, the risk on which the guarantee rests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...design.survey_design import SurveyDesign
from ...models.base import Synthesizer
from ...models.draws import Draws
from ..units import Unit

Floats = NDArray[np.float64]
Span = tuple[float, float] | None


@dataclass(frozen=True)
class LipschitzRisk:
    """Lipschitz bound f_i, the maximum over draws of |log p(record i)| under the unweighted fit.

    Source: Hu, Savitsky & Williams 2022a, section 1.4.1; the weights "LW" of Hu, Savitsky & Williams 2020, Algorithm 2.

    The guarantee is about this risk.  The risk of a unit of several records is the maximum over draws of
    |sum_i log p_i|, where i runs over the records of the unit.

    Examples
    --------
    >>> ss.PseudoPosterior(risk=ss.LipschitzRisk()) == ss.PseudoPosterior()
    True
    """

    name: ClassVar[str] = "lipschitz"
    span: ClassVar[Span] = None

    def compute(
        self, design: SurveyDesign, model: Synthesizer, records: Any, unit: Unit, unweighted: Callable[[], Draws],
        rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """Compute the Lipschitz bound of each record or protected unit: see :class:`Risk`."""
        return model.lipschitz(records, unweighted(), unit.by_record)

    def describe(self) -> str:
        """Describe the measure for the public report."""
        return "each record's Lipschitz bound under the model without privacy weights"
