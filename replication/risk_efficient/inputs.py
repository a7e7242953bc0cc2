"""The inputs of the study of identification risk: the plan, the file as a design, and the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd

from surveysynth.choices import Allocation
from surveysynth.design.columns import listing, numeric
from surveysynth.design.survey_design import SurveyDesign
from surveysynth.errors import InputError
from surveysynth.estimation import regression
from surveysynth.models.base import Synthesizer
from surveysynth.models.draws import Sampler
from surveysynth.models.mixture.model import Mixture
from surveysynth.models.scales.transforms import Transform
from surveysynth.privacy.risks.identification import MarginalRisk
from surveysynth.synthesis.synthetic_design import check_public
from surveysynth.validation import as_list, positive, rows, whole

from ..bench import equally_weighted
from ..choices import RiskSource

KINDS = ("marginal", "pairwise")
ADJUSTMENTS = ((1.0, 0.0), (1.5, 0.0), (1.0, 0.1))  # c1, c2 (section 3.4)
RADII = (0.1, 0.2, 0.3)
LINES = ("synthesizer", "c1", "c2", "radius")  # columns that identify how a file was made
RESAMPLES = 500


class Made(NamedTuple):
    """The synthesizer that made a file, and the c1, c2 and search radius that determine the privacy weights."""

    synthesizer: str
    c1: float = np.nan
    c2: float = np.nan
    radius: float = np.nan


DATA, TOPCODING, SYNTHESIZER = Made("data"), Made("topcoding"), Made("synthesizer")


@dataclass(frozen=True)
class RiskEfficientPlan:
    """The settings of the study of identification risk on one file.

    Parameters
    ----------
    known : str or list of str
        Columns that the intruder knows; ``[]`` for none.
    coefficient : str, optional
        A term of the linear regression of the outcome on the model's predictors, such as ``"tenure[T.rented]"``.  Its
        coefficient is then one of the statistics.
    top_code : float, optional
        Public limit of top-coding.  Without it, top-coding is left out.
    radius : float
        Main radius, as a share of |y_i|.  The intruder looks for synthetic values in the ball of this radius around the
        true value y_i of record i.
    radii : list of float
        Further radii, with which risks are measured and privacy weights are computed.
    floor : float
        Smallest radius, in the unit of the outcome.  If it is 0, the ball around 0 contains only the value 0.
    datasets : int
        L, the number of synthetic files of each fit.
    resamples : int
        Number of bootstrap resamples of a file.
    weights_from : {"synthetic", "data"}
        The files whose risks determine the privacy weights: synthetic files of the unweighted fit (section 2.1), or the
        confidential file as if it were released, as in the paper's figures.

    Raises
    ------
    InputError
        A number is not positive, there are fewer than two resamples, ``weights_from`` is unknown, or ``known`` does not
        consist of names.

    Examples
    --------
    >>> plan = RiskEfficientPlan(known=["tenure", "education"], coefficient="tenure[T.rented]")
    >>> plan.radius, plan.datasets
    (0.2, 20)
    """

    known: Sequence[str]
    coefficient: str | None = None
    top_code: float | None = None
    radius: float = 0.2
    radii: Sequence[float] = RADII
    floor: float = 0.0
    datasets: int = 20
    resamples: int = RESAMPLES
    weights_from: RiskSource = "synthetic"

    def __post_init__(self) -> None:
        known = tuple(as_list(self.known))
        asked = MarginalRisk(known, self.radius, floor=self.floor, datasets=self.datasets)  # checks these arguments
        object.__setattr__(self, "known", asked.known)
        if whole(self.resamples, "resamples") < 2:
            raise InputError("resamples must be at least 2: they have a variance")
        if self.weights_from not in get_args(RiskSource):
            raise InputError(f"weights_from={self.weights_from!r} is not one of {', '.join(get_args(RiskSource))}")
        if self.top_code is not None:
            positive(self.top_code, "top_code")
        radii = {positive(radius, "radii") for radius in self.radii} | {positive(self.radius, "radius")}
        object.__setattr__(self, "radii", tuple(sorted(radii)))

    @property
    def weightings(self) -> list[Made]:
        """The settings of all fits under privacy weights, in the order of the results."""
        kinds = [Made(kind, c1, c2, self.radius) for kind in KINDS for c1, c2 in ADJUSTMENTS]
        others = [radius for radius in self.radii if radius != self.radius]
        return kinds + [Made(kind, *ADJUSTMENTS[0], radius) for kind in KINDS for radius in others]

    def looked_at(self, made: Made) -> Sequence[float]:
        """Return the search radii at which identification risk is measured in files that were made in a given way.

        Parameters
        ----------
        made : Made
            How the files were made.

        Returns
        -------
        sequence of float
            Shares of |y_i|: all radii for files without privacy weights and for files with the main privacy weights;
            for other files only the radius of their privacy weights.
        """
        if made.synthesizer not in KINDS or made == Made(made.synthesizer, *ADJUSTMENTS[0], self.radius):
            return self.radii
        return (made.radius,)


def check(design: SurveyDesign, model: Synthesizer, plan: RiskEfficientPlan, sampler: Sampler) -> None:
    """Raise InputError for a design, model, plan or sampler that is not suitable for the study."""
    if len(model.outcomes) != 1 or model.categorical:
        raise InputError("the study is about one numeric outcome; give a model that synthesizes one")
    check_public(design, model, None)
    (outcome,), formula = model.outcomes, formula_of(model)
    missing = np.isnan(design.numeric(outcome))
    if missing.any():
        raise InputError(f"outcome {outcome!r} is missing in {rows(missing)}; leave these records out")
    for name in plan.known:
        design.column(name)
    if outcome in plan.known:
        raise InputError(f"known column {outcome!r} is synthesized: known= names what is public as it is")
    if plan.datasets > sampler.chains * sampler.draws:
        raise InputError("datasets exceeds the posterior draws (chains times draws): each file needs its own")
    if plan.coefficient is not None:
        terms = regression(design, formula).table["term"].tolist()
        if plan.coefficient not in terms:
            raise InputError(f"coefficient {plan.coefficient!r} is no term of {formula!r}; it has {listing(terms)}")


def formula_of(model: Synthesizer) -> str:
    """Return the formula of the regression of the outcome on the predictors of the model."""
    return f"{model.outcomes[0]} ~ {getattr(model, 'predictors', '1')}"


def synthesizer(
    frame: pd.DataFrame, outcome: str, predictors: str, transform: str | Transform = "log",
    bounds: tuple[float, float] | None = None, allocation: Allocation = "prior",
) -> Synthesizer:  # fmt: skip
    """Make the default model of the study: a mixture of regressions, with a separate part for zeros if there are any.

    Source: Hu, Savitsky & Williams 2022b, section 1.2.

    Raises
    ------
    InputError
        The outcome is not a numeric column, or :class:`surveysynth.models.mixture.model.Mixture` refuses an argument.
    """
    if outcome not in frame.columns:
        raise InputError(f"there is no column {outcome!r}; the file has {listing(frame.columns)}")
    zeros = bool((numeric(frame[outcome], outcome) == 0).any())
    return Mixture(outcome, predictors, transform, zeros=zeros, bounds=bounds, allocation=allocation)


def as_design(frame: pd.DataFrame, weights: str | None = None) -> SurveyDesign:
    """Make a design of a file, with survey weights 1 if no column of weights is given."""
    return equally_weighted(frame) if weights is None else SurveyDesign(frame, weights=weights)
