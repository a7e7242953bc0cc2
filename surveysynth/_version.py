"""The version of the package, which stands in the files that it writes."""

__version__ = "0.3.0"
