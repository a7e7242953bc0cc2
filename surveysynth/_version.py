"""The version of the package, for what it writes."""

__version__ = "0.3.0"
