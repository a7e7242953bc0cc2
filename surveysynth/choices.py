"""The values that options have, in one light module: the command line offers them before anything else is loaded."""

from __future__ import annotations

from typing import Literal

Kind = Literal["asymptotic", "strict", "strict given alpha", "none"]  # of a guarantee
LonelyPSU = Literal["fail", "remove", "adjust", "average"]  # what a stratum with one PSU does to a variance
OutcomeKind = Literal["amount", "count", "share"]  # what an outcome is, as it is declared
Clusters = Literal["model", "ignore"]  # whether PSUs and strata have effects
MapName = Literal["inverse", "linear"]  # from risks to privacy weights
FBSPrior = Literal["paper", "independent", "normal", "flat"]
RiskName = Literal["lipschitz", "count", "marginal", "pairwise"]  # how the risk of a record is measured
Missing = Literal["fail", "drop"]  # what a missing outcome does
MissingCategory = Literal["fail", "drop", "category"]  # the same of an outcome that is a category
Allocation = Literal["prior", "posterior"]  # what the component of a synthetic record is drawn from
SecondStage = Literal["pps", "srs"]  # how units of a PSU are drawn
StudyPopulation = Literal[
    "workers", "households", "workers-psu", "households-psu", "persons", "visits", "shares", "earnings", "adults",
    "poverty", "activity",
]  # fmt: skip
StudyMechanism = Literal[
    "strict", "pseudo", "pseudo-debias", "censored", "laplace", "strict-earlier",
]  # fmt: skip
Planted = Literal["x10", "x100", "alone", "two-modes", "heavy"]  # the record that an intruder asks about
# diagnostics that may fail, and a population total far from the sum of the weights
Accepted = Literal["divergences", "rhat", "ess_bulk", "ess_tail", "information", "population_total"]
