"""Estimates by domain, their variances, and the combining rule."""

from .tables import estimate

__all__ = ["estimate"]
