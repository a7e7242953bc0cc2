"""Possible values of the options of the studies, in a module that imports nothing else."""

from __future__ import annotations

from typing import Literal

StudyMethod = Literal["fbs", "fbp", "laplace"]
StudyPrior = Literal["flat", "paper"]
RiskSource = Literal["synthetic", "data"]  # files whose risks determine the privacy weights
