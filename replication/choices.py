"""The values that options of the studies have, in one light module, as :mod:`surveysynth.choices`."""

from __future__ import annotations

from typing import Literal

StudyMethod = Literal["fbs", "fbp", "laplace"]
StudyPrior = Literal["flat", "paper"]
RiskSource = Literal["synthetic", "data"]  # what risks behind privacy weights are computed from
