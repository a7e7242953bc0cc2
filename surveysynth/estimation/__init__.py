"""Estimates by domain, regressions, their variances, and the combining rule."""

from .differences import difference
from .regression import Regression, regression
from .tables import estimate

__all__ = ["Regression", "difference", "estimate", "regression"]
