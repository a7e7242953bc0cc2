"""What private tables are worth: measures over repeated samples, coverage of intervals, an audit by attack."""

from ..estimation.intervals import overlap
from .measures import summarize

__all__ = ["overlap", "summarize"]
