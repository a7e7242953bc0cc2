"""Estimates by domain, regressions, their variances, and the combining rule for synthetic data."""

from .association import independence_test
from .differences import difference
from .joint import JointEstimates, joint_estimates, with_replicates
from .margins import predictive_margins
from .moments import correlations, population_covariances, standard_deviations
from .regression import Regression, likelihood_ratio_test, regression
from .tables import estimate
from .wide import wide

__all__ = [
    "JointEstimates",
    "Regression",
    "correlations",
    "difference",
    "estimate",
    "independence_test",
    "joint_estimates",
    "likelihood_ratio_test",
    "population_covariances",
    "predictive_margins",
    "regression",
    "standard_deviations",
    "wide",
    "with_replicates",
]
