"""Studies of the accuracy and privacy of releases: measures over repeated samples, coverage, an audit by attack."""

from ..estimation.intervals import overlap
from .measures import summarize

__all__ = ["overlap", "summarize"]
