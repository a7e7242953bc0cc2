"""A bench: one file and one model, which is fitted to the file under several privacy mechanisms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surveysynth.design.survey_design import SurveyDesign
from surveysynth.engines import get_engine
from surveysynth.models.draws import Sampler
from surveysynth.privacy.budget import Budget
from surveysynth.privacy.mechanisms import Assessment, RecordMechanism
from surveysynth.privacy.protected_fit import ProtectedFit, PseudoLikelihood
from surveysynth.privacy.tuning import weighted_fit

Floats = NDArray[np.float64]

CHAINS, WARMUP, DRAWS = 2, 500, 500  # Hu, Williams & Savitsky (2025): 4 chains of 1000, Stan's defaults
ANY = Budget(None, 1)  # for fits with a given c1, which determines epsilon


def epsilon_of(delta: float) -> float:
    """Return the epsilon of one synthetic file, 2 delta, for a fit with Lipschitz bound ``delta``."""
    return ANY.spent(delta)


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Bench:
    """One file and one model, which is fitted to the file under several privacy weights.

    Parameters
    ----------
    design : SurveyDesign
        The file, with n records.
    pseudo : PseudoLikelihood
        The model, and the records of the design as prepared for it.
    """

    design: SurveyDesign
    pseudo: PseudoLikelihood

    @property
    def rng(self) -> np.random.Generator:
        """The random number generator of the sampler."""
        return self.pseudo.sampler.rng

    @cached_property
    def unweighted(self) -> ProtectedFit:
        """The fit with all privacy weights 1.  The Lipschitz bound f_i of a record in this fit is the record's risk."""
        return weighted_fit(1.0, np.ones(self.design.n), self.pseudo)[0]

    def protected(self, mechanism: RecordMechanism, budget: Budget = ANY, risk: Floats | None = None) -> ProtectedFit:
        """Fit the model under a mechanism.

        Parameters
        ----------
        mechanism : RecordMechanism
        budget : Budget
            Privacy budget to which c1 is tuned.  It is ignored if the mechanism has a given c1.
        risk : float array (n,), optional
            Risks of the records.  The default is f_i of the unweighted fit, which all mechanisms share.

        Raises
        ------
        PrivacyError, ModelError, EngineError
            For the reasons given in :func:`surveysynth.fit`.
        """
        known = Assessment(lambda _: self.unweighted.bounds if risk is None else risk, None, np.ones(self.design.n))
        return mechanism.fit(self.pseudo, budget, known, tolerance=0.01, reweight=0, say=lambda _: None)


def few_draws(rng: np.random.Generator) -> Sampler:
    """Make a sampler with few draws, for studies that fit hundreds of files."""
    engine = get_engine("embedded")
    return Sampler(lambda: engine, rng, CHAINS, WARMUP, DRAWS)


def equally_weighted(frame: pd.DataFrame) -> SurveyDesign:
    """Make a design in which all records have the survey weight 1."""
    weight = next(name for i in range(len(frame.columns) + 1) if (name := f"weight_{i}") not in frame)
    return SurveyDesign(frame.assign(**{weight: 1.0}), weights=weight)


def facts_of(fitted: ProtectedFit) -> dict[str, Any]:
    """Summarize a fit: Lipschitz bound, privacy weights with their constants, and failed diagnostics."""
    return {
        "c1": fitted.c1, "lipschitz": fitted.delta, "k": np.nan if fitted.k is None else fitted.k,
        "steps": fitted.steps, "flatness": fitted.flatness, "weighted_down": fitted.weighted_down,
        "mean_alpha": float(fitted.alpha.mean()), "diagnostics": ", ".join(fitted.posterior.failures),
    }  # fmt: skip
