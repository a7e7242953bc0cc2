"""Functions that draw a figure from a data frame or from a document, and write it to a file."""

from .domains import dot_plot
from .estimates import compare_estimates

__all__ = ["compare_estimates", "dot_plot"]
