"""Estimates by domain, regressions, their variances, and the combining rule."""

from .differences import difference
from .regression import Regression, regression
from .tables import estimate
from .wide import wide

__all__ = ["Regression", "difference", "estimate", "regression", "wide"]
