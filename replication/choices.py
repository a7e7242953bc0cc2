"""The possible values of options of the studies, like those of the package in :mod:`surveysynth.choices`."""

from __future__ import annotations

from typing import Literal

StudyMethod = Literal["fbs", "fbp", "laplace"]
StudyPrior = Literal["flat", "paper"]
RiskSource = Literal["synthetic", "data"]  # the files from which the risks behind privacy weights are computed
