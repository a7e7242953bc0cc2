"""The values of the options of the studies, in one light module like :mod:`surveysynth.choices`."""

from __future__ import annotations

from typing import Literal

StudyMethod = Literal["fbs", "fbp", "laplace"]
StudyPrior = Literal["flat", "paper"]
RiskSource = Literal["synthetic", "data"]  # files from which the risks for privacy weights are computed
