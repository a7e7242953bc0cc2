"""Studies of releases: accuracy over repeated samples, coverage of intervals, and an audit of privacy by attacks."""

from ..estimation.intervals import overlap
from .measures import summarize

__all__ = ["overlap", "summarize"]
