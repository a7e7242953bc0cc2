"""Figures, each made from a frame and written to a file."""

from .domains import dot_plot
from .estimates import compare_estimates

__all__ = ["compare_estimates", "dot_plot"]
