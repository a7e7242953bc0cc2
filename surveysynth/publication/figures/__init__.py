"""Figures: functions that draw a frame or a document, and write the figure to a file."""

from .domains import dot_plot
from .estimates import compare_estimates

__all__ = ["compare_estimates", "dot_plot"]
