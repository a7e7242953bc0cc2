"""Estimates by domain, their variances, and the combining rule."""

from .differences import difference
from .tables import estimate

__all__ = ["difference", "estimate"]
