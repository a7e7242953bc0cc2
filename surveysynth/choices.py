"""The allowed values of options, in a module that imports almost nothing and therefore loads quickly."""

from __future__ import annotations

from typing import Literal

Kind = Literal["asymptotic", "strict", "strict given alpha", "none"]  # kind of guarantee
LonelyPSU = Literal["fail", "remove", "adjust", "average"]  # treatment of a stratum with one PSU
OutcomeKind = Literal["amount", "count", "share"]  # declared kind of an outcome
Clusters = Literal["model", "ignore"]  # whether PSUs and strata have effects
MapName = Literal["inverse", "linear"]  # function that turns risks into privacy weights
FBSPrior = Literal["paper", "independent", "normal", "flat"]
RiskName = Literal["lipschitz", "count", "marginal", "pairwise"]  # measure of a record's risk
Missing = Literal["fail", "drop"]  # treatment of a missing outcome
MissingCategory = Literal["fail", "drop", "category"]  # treatment of a missing categorical outcome
Allocation = Literal["prior", "posterior"]  # distribution from which the mixture component of a record is drawn
SecondStage = Literal["pps", "srs"]  # selection of units within a PSU
StudyPopulation = Literal[
    "workers", "households", "workers-psu", "households-psu", "persons", "visits", "shares", "earnings", "adults",
    "poverty", "activity",
]  # fmt: skip
StudyMechanism = Literal[
    "strict", "pseudo", "pseudo-debias", "censored", "laplace", "strict-earlier",
]  # fmt: skip
Planted = Literal["x10", "x100", "alone", "two-modes", "heavy"]  # kind of record that an audit plants in a file
# what the user may accept: failed diagnostics, or a population total that is far from the sum of the weights
Accepted = Literal["divergences", "rhat", "ess_bulk", "ess_tail", "information", "population_total"]
PRINTED = "title", "population", "period", "source", "contact", "license", "date"  # texts that printed tables show
# statistics of tables
STATISTICS = (
    "count", "mean", "total", "quantile", "proportion", "variance", "gini", "quintile_share_ratio", "poverty_rate",
)  # fmt: skip
