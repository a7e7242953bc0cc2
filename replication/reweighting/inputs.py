"""Inputs of the study: simulated files of counts, their true values, and the plan of a replicate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from surveysynth.errors import InputError
from surveysynth.models.counts import NegativeBinomialRegression, PoissonRegression
from surveysynth.privacy.protected_fit import PseudoLikelihood
from surveysynth.privacy.units import Unit
from surveysynth.validation import positive, whole

from ..bench import equally_weighted, few_draws
from ..censoring.study import PROBS
from .bench import Weightings

Floats = NDArray[np.float64]

MIXTURE = ((0.2, 100.0, 5.0), (0.8, 100.0, 20.0))  # share, mean, dispersion (section 2.1)
POISSON_MEAN = 100.0


@dataclass(frozen=True)
class Plan:
    """The settings of every replicate, which are arguments of :func:`.study.reweighting_study`."""

    n: int
    epsilon: tuple[float, ...]
    sizes: tuple[int, ...]
    curves: int
    seed: int

    def __post_init__(self) -> None:
        whole(self.n, "n")
        whole(self.curves, "curves")
        for name, check in (("epsilon", positive), ("sizes", whole)):
            numbers = [check(number, name) for number in getattr(self, name)]
            if not numbers:
                raise InputError(f"{name} is empty: give at least one")
            object.__setattr__(self, name, tuple(sorted(set(numbers))))


def drawn(data: str, n: int, seed: int) -> Weightings:
    """Simulate a file of n counts from the distribution ``data``, and prepare it for fits of a model of counts.

    ``data`` is "nb_mixture", with a negative binomial model, or "poisson", with a Poisson model.
    """
    rng = np.random.default_rng(seed)
    if data == "poisson":
        return weightings(pd.DataFrame({"y": rng.poisson(POISSON_MEAN, n)}), PoissonRegression("y"), rng)
    share, mean, phi = np.array(MIXTURE).T
    component = rng.choice(share.size, n, p=share)
    y = rng.poisson(rng.gamma(phi[component], mean[component] / phi[component]))
    return weightings(pd.DataFrame({"y": y}), NegativeBinomialRegression("y"), rng)


def weightings(
    frame: pd.DataFrame, model: NegativeBinomialRegression | PoissonRegression, rng: np.random.Generator
) -> Weightings:
    """Prepare a file with equal survey weights for fits of a model."""
    design = equally_weighted(frame)
    return Weightings(design, PseudoLikelihood(model, model.prepare(design), Unit(), few_draws(rng)))


def truth(data: str) -> dict[str, float]:
    """Return the true mean and quantiles of the counts in the distribution ``data``, "nb_mixture" or "poisson".

    A quantile is the least count at which the distribution function reaches the probability.
    """
    counts = np.arange(2000)
    if data == "poisson":
        expected, below = POISSON_MEAN, stats.poisson.cdf(counts, POISSON_MEAN)
    else:
        share, mean, phi = np.array(MIXTURE).T
        expected, below = float(share @ mean), stats.nbinom.cdf(counts[:, None], phi, phi / (phi + mean)) @ share
    return {"mean": expected} | {name: float(counts[(below >= p).argmax()]) for name, p in PROBS.items()}
